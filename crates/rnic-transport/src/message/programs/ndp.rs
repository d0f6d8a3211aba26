//! NDP: the receiver pulls packets at the rate of its link; packets whose payload a switch has cut off are asked for again at once.
//!
//! M. Handley et al.: Re-architecting datacenter networks and stacks for low latency and high performance, SIGCOMM 2017; as
//! the NanoTransport paper programs it (algorithm 4).

use super::NativeHeader;
use crate::message::flags::{ACK, DATA, NACK, PULL};
use crate::message::primitives::{IfElseRaw, Op};
use crate::message::{
    Arrival, Blocks, CreditToBtxEvent, DeliveredEvent, Departure, Framed, Pipeline, RxMsgInfo, Verdict,
};

/// The program. In its control packets `pkt_offset` is the packet acknowledged or missed, `credit` the pull offset: packets
/// before it may be sent.
#[derive(Clone, Debug)]
pub struct Ndp {
    ip: u32,
    mtu: u32,
    rtt_pkts: u32,
    /// NACKs leave at the pace of PULLs.
    paced_nacks: bool,
    /// By message received: its pull offset, `rtt_pkts` and one for each of its packets that has arrived whole.
    pull_offset: IfElseRaw,
}

impl Ndp {
    /// The program of the NIC with address `ip`, for packets of `mtu` bytes of payload; a message sends `rtt_pkts` packets unasked.
    pub fn new(ip: u32, mtu: u32, rtt_pkts: u32) -> Ndp {
        Ndp { ip, mtu, rtt_pkts, paced_nacks: false, pull_offset: IfElseRaw::default() }
    }

    /// The same with NACKs that leave at the pace of PULLs, in one packet with them, so that packets are sent again no faster than the
    /// receiver's link takes them. In the NDP paper a PULL releases either kind of packet; in the NanoTransport paper NACKs leave at once.
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

        // A trimmed packet is missing, unless another copy was there before.
        let answer = if trimmed && info.is_new_pkt { NACK } else { ACK };
        // A pull for a packet beyond the message would only cost pace. What brought nothing new is pulled in any case: for the packet
        // sent again, or because an earlier pull may be lost.
        let beyond = (pull_offset - 1) * u64::from(self.mtu) >= u64::from(header.msg_len);
        let pull = if gained && beyond { 0 } else { PULL };
        (reply.immediate, reply.paced) =
            if answer == NACK && self.paced_nacks { (0, NACK | pull) } else { (answer, pull) };
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
            let rtx = header.has(NACK).then_some(pkt_offset);
            let credit = header.has(PULL).then_some(header.credit);
            blocks.credit_to_btx(&CreditToBtxEvent { tx_msg_id, rtx, credit });
        }
        Verdict::Consumed
    }
}

impl Pipeline for Ndp {
    type Header = NativeHeader;

    fn ingress<B: Blocks>(&mut self, blocks: &mut B, header: &NativeHeader, arrival: &Arrival<'_>) -> Verdict {
        if arrival.returned {
            header.came_back(blocks)
        } else if header.has(DATA) {
            self.data(blocks, header, arrival.trimmed)
        } else {
            Ndp::control(blocks, header)
        }
    }

    /// Control in priority 0, data in 1.
    #[inline]
    fn egress(&mut self, departure: &Departure) -> Framed<NativeHeader> {
        let band = u8::from(departure.flags & DATA != 0);
        Framed { header: NativeHeader::of(self.ip, departure), band }
    }
}
