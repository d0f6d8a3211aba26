//! The transport program of NDP: the receiver pulls packets at the rate of its link.
//!
//! A sender transmits the first `rtt_pkts` packets of a message without waiting. The receiver acknowledges each whole
//! packet with an ACK. A trimmed packet is a packet whose payload a switch has removed; the receiver responds with a
//! NACK, which makes the sender retransmit the packet. For each packet the receiver also sends a PULL, which allows the
//! sender to send one more packet. The NIC paces PULLs to the rate of the receiver's link.
//!
//! NDP's NACKs are sent immediately ([`Ndp::new`], as in the NanoTransport paper) or paced together with PULLs
//! ([`Ndp::with_paced_nacks`], as in the NDP paper). Simulations use paced NACKs unless a scenario sets
//! `paced_nacks = false`.
//!
//! Sources: M. Handley et al., "Re-architecting datacenter networks and stacks for low latency and high performance",
//! SIGCOMM 2017, as the NanoTransport paper programs it (algorithm 4).

use super::NativeHeader;
use crate::message::flags::{ACK, DATA, NACK, PULL};
use crate::message::primitives::{IfElseRaw, Op};
use crate::message::{
    Arrival, Blocks, CreditToBtxEvent, DeliveredEvent, Departure, Framed, Pipeline, RxMsgInfo, Verdict,
};

/// The transport program of NDP. In its control packets `pkt_offset` is the index of the acknowledged or missing
/// packet, and `credit` is the pull offset: the sender may send all packets before it.
///
/// ```
/// use rnic_transport::Time;
/// use rnic_transport::message::programs::Ndp;
/// use rnic_transport::message::{Arrival, Message, MessageNic, NicConfig, flags};
///
/// let cfg = NicConfig::default();
/// let mut nics = [0, 1].map(|ip| MessageNic::new(&cfg, Ndp::new(ip, cfg.mtu, cfg.rtt_pkts).with_paced_nacks()));
/// nics[0].send(&cfg, Time::ZERO, &Message { dst_ip: 1, bytes: 3_000, ..Message::default() })?;
/// let data = nics[0].poll_transmit(&cfg, Time::ZERO).unwrap();
///
/// // A switch trims the packet, and the receiver requests it again.
/// let now = Time::from_us(1);
/// let arrival = Arrival { now, frame_bytes: 64, trimmed: true, returned: false, marked: false, telemetry: None };
/// nics[1].receive(&cfg, &data.header, &arrival);
/// let reply = nics[1].poll_transmit(&cfg, now).unwrap();
/// assert_eq!(reply.header.flags, flags::NACK | flags::PULL);
/// assert_eq!(reply.header.pkt_offset, 0);
/// # Ok::<(), rnic_transport::message::NoBuffer>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ndp {
    ip: u32,
    mtu: u32,
    rtt_pkts: u32,
    /// Whether NACKs are paced together with PULLs.
    paced_nacks: bool,
    /// Pull offset of each received message, that is, the index before which its sender may send packets: `rtt_pkts`
    /// plus the number of packets that have arrived whole.
    pull_offset: IfElseRaw,
}

impl Ndp {
    /// The program of the NIC with address `ip`, with immediate NACKs. Packets have a payload of `mtu` bytes, and a
    /// message sends its first `rtt_pkts` packets without waiting for a PULL.
    pub fn new(ip: u32, mtu: u32, rtt_pkts: u32) -> Ndp {
        Ndp { ip, mtu, rtt_pkts, paced_nacks: false, pull_offset: IfElseRaw::default() }
    }

    /// Makes the receiver pace NACKs together with PULLs, in one packet, so that packets are retransmitted no faster
    /// than the receiver's link can take them. In the NDP paper a PULL releases both new packets and retransmissions;
    /// in the NanoTransport paper NACKs are immediate.
    pub fn with_paced_nacks(self) -> Ndp {
        Ndp { paced_nacks: true, ..self }
    }

    fn data<B: Blocks>(&mut self, blocks: &mut B, header: &NativeHeader, trimmed: bool) -> Verdict {
        let info = blocks.get_rx_msg_info(&header.request(!trimmed));
        if info.fail {
            return Verdict::Consumed;
        }
        let mut reply = header.reply();
        if info.rx_msg_id == RxMsgInfo::COMPLETE {
            reply.immediate = ACK;
            blocks.ctrl_pkt(&reply);
            return Verdict::Consumed;
        }
        let gained = info.is_new_pkt && !trimmed;
        let first = (Op::Write, u64::from(self.rtt_pkts) + u64::from(gained));
        let later = (Op::Add, u64::from(gained));
        let pull_offset = self.pull_offset.apply(usize::from(info.rx_msg_id), info.is_new_msg, first, later);

        // A trimmed packet is missing, unless a whole copy of it has arrived before.
        let response = if trimmed && info.is_new_pkt { NACK } else { ACK };
        // A PULL for a packet beyond the end of the message would waste a slot of the pacer. A trimmed or duplicate
        // packet always causes a PULL: for the retransmission, or because an earlier PULL may have been lost.
        let beyond = (pull_offset - 1) * u64::from(self.mtu) >= u64::from(header.msg_len);
        let pull = if gained && beyond { 0 } else { PULL };
        (reply.immediate, reply.paced) =
            if response == NACK && self.paced_nacks { (0, NACK | pull) } else { (response, pull) };
        reply.credit = pull_offset as u32;
        blocks.ctrl_pkt(&reply);
        if !gained {
            return Verdict::Consumed;
        }
        Verdict::Reassemble { rx_msg_id: info.rx_msg_id, pkt_offset: header.pkt_offset, is_last_pkt: info.is_last_pkt }
    }

    fn control<B: Blocks>(blocks: &mut B, header: &NativeHeader) -> Verdict {
        let NativeHeader { tx_msg_id, pkt_offset, .. } = *header;
        if header.has(ACK) {
            blocks.delivered(&DeliveredEvent { tx_msg_id, before: 0, pkt_offset, bitmap: 1 });
        }
        if header.has(NACK | PULL) {
            let bitmap = header.has(NACK).into();
            let credit = header.has(PULL).then_some(header.credit);
            blocks.credit_to_btx(&CreditToBtxEvent { tx_msg_id, pkt_offset, bitmap, credit });
        }
        Verdict::Consumed
    }
}

impl Pipeline for Ndp {
    type Header = NativeHeader;

    fn ingress<B: Blocks>(&mut self, blocks: &mut B, header: &NativeHeader, arrival: &Arrival<'_>) -> Verdict {
        if arrival.returned {
            header.on_returned(blocks)
        } else if header.has(DATA) {
            self.data(blocks, header, arrival.trimmed)
        } else {
            Ndp::control(blocks, header)
        }
    }

    /// Fills in the header. Control packets have priority 0, data packets priority 1.
    #[inline]
    fn egress(&mut self, departure: &Departure) -> Framed<NativeHeader> {
        let priority = u8::from(departure.flags & DATA != 0);
        Framed { header: NativeHeader::of(self.ip, departure), priority }
    }
}
