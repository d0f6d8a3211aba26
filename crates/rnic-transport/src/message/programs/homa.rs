//! The transport program of Homa: the receiver grants packets to the messages with the fewest remaining bytes, and
//! assigns the priorities of their packets.
//!
//! Sources: B. Montazeri et al., "Homa: a receiver-driven low-latency transport protocol using network priorities",
//! SIGCOMM 2018, as the NanoTransport paper programs it (algorithm 5). Homa-Tr is the NanoTransport paper's variant for
//! switches that trim packets: the receiver requests a trimmed packet again immediately, with a NACK.

use super::NativeHeader;
use crate::message::flags::{ACK, DATA, NACK, PULL};
use crate::message::primitives::{DualPort, Entry, IfElseRaw, Op, PriorityScheduler};
use crate::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Framed, Pipeline, RxMsgInfo, Verdict,
    slot,
};

/// The settings of Homa, which are the same for all NICs of a simulation run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HomaSettings {
    /// Payload of a full packet in bytes.
    pub mtu: u32,
    /// Number of packets that a message sends unscheduled, that is, without a grant; also the maximum number of granted
    /// packets of a message that have not arrived.
    pub rtt_pkts: u32,
    /// Number of priorities for unscheduled packets; at least 1. They begin with priority 0.
    pub unscheduled_priorities: u8,
    /// Number of priorities for granted packets; at least 1. They follow the priorities for unscheduled packets.
    pub scheduled_priorities: u8,
    /// Number of messages that the receiver grants packets to at the same time.
    pub overcommitment: u32,
    /// `true`: Homa-Tr, whose receiver requests trimmed packets again. `false`: Homa, which ignores trimmed packets.
    pub trimming: bool,
}

/// The transport program of Homa. The fields of its control packets have these meanings:
///
/// - ACK and GRANT (flag [`PULL`]): `pkt_offset` is the index of the first missing packet. `credit` is the granted
///   credit: the sender may send all packets before this index. In a GRANT, `rank` is the priority to use.
/// - NACK: `pkt_offset` is the index of the packet to retransmit, and `credit` is the index of the first missing
///   packet.
///
/// ```
/// use rnic_transport::Time;
/// use rnic_transport::message::programs::{Homa, HomaSettings};
/// use rnic_transport::message::{Departure, Pipeline, flags};
///
/// let settings = HomaSettings {
///     mtu: 1_024,
///     rtt_pkts: 9,
///     unscheduled_priorities: 2,
///     scheduled_priorities: 3,
///     overcommitment: 3,
///     trimming: false,
/// };
/// let mut homa = Homa::new(0, settings);
/// let first = |msg_len| Departure { msg_len, flags: flags::DATA, is_new_msg: true, ..Departure::default() };
/// assert_eq!(homa.egress(&first(5_000)).priority, 0, "a short message, which is sent unscheduled");
/// assert_eq!(homa.egress(&first(50_000)).priority, 1, "a long message");
/// ```
#[derive(Clone, Debug)]
pub struct Homa {
    ip: u32,
    settings: HomaSettings,
    /// Number of packets that have arrived whole, for each received message.
    received: IfElseRaw,
    /// Granted credit of each received message: all packets before this index have been granted.
    granted: DualPort,
    /// For each received message, a template of the control packets to its sender, with the index of the first missing
    /// packet. The equivalent P4 program has a register array for each field of the template.
    senders: Vec<CtrlPktEvent>,
    /// The messages that this NIC is receiving and that wait for grants.
    scheduler: PriorityScheduler,
    /// Priority of the packets of each sent message, indexed by the message's slot. Ingress writes it when a GRANT
    /// arrives, and egress reads it for each data packet.
    priority: DualPort,
}

impl Homa {
    /// The program of the NIC with address `ip`.
    pub fn new(ip: u32, settings: HomaSettings) -> Homa {
        Homa {
            ip,
            settings,
            received: IfElseRaw::default(),
            granted: DualPort::default(),
            senders: Vec::new(),
            scheduler: PriorityScheduler::default(),
            priority: DualPort::default(),
        }
    }

    /// Whether `packets` packets hold a whole message of `msg_len` bytes.
    #[inline]
    fn is_all(&self, packets: u64, msg_len: u32) -> bool {
        packets * u64::from(self.settings.mtu) >= u64::from(msg_len)
    }

    fn data<B: Blocks>(&mut self, blocks: &mut B, header: &NativeHeader, trimmed: bool) -> Verdict {
        let info = blocks.get_rx_msg_info(&header.request(!trimmed));
        if info.fail {
            return Verdict::Consumed;
        }
        let mut reply = CtrlPktEvent { pkt_offset: info.ack_no, immediate: ACK, ..header.reply() };
        if info.rx_msg_id == RxMsgInfo::COMPLETE {
            blocks.ctrl_pkt(&reply);
            return Verdict::Consumed;
        }
        let index = usize::from(info.rx_msg_id);
        let gained = info.is_new_pkt && !trimmed;
        let received =
            self.received.apply(index, info.is_new_msg, (Op::Write, gained.into()), (Op::Add, gained.into()));
        if info.is_new_msg {
            self.granted.write(index, self.settings.rtt_pkts.into());
        }
        let granted = self.granted.read(index);
        reply.credit = granted as u32;
        self.remember(index, reply);
        if trimmed && info.is_new_pkt {
            reply.immediate = NACK;
            (reply.pkt_offset, reply.credit) = (header.pkt_offset, info.ack_no);
            blocks.ctrl_pkt(&reply);
            return Verdict::Consumed;
        }

        if info.is_last_pkt || self.is_all(granted, header.msg_len) {
            self.scheduler.remove(info.rx_msg_id);
        } else if gained {
            let got = received * u64::from(self.settings.mtu);
            let rank = u64::from(header.msg_len).saturating_sub(got) as u32;
            let grantable = self.settings.rtt_pkts.saturating_add(received as u32);
            self.scheduler.upsert(Entry { id: info.rx_msg_id, rank, granted: granted as u32, grantable });
        }
        let has_granted = self.grant(blocks);
        // A duplicate packet suggests that a response to the sender was lost. So the sender gets an ACK with the credit
        // that was granted before.
        if !has_granted || !gained || info.is_last_pkt {
            blocks.ctrl_pkt(&reply);
        }
        if !gained {
            return Verdict::Consumed;
        }
        Verdict::Reassemble { rx_msg_id: info.rx_msg_id, pkt_offset: header.pkt_offset, is_last_pkt: info.is_last_pkt }
    }

    #[inline]
    fn remember(&mut self, index: usize, reply: CtrlPktEvent) {
        if index >= self.senders.len() {
            self.senders.resize((index + 1).next_power_of_two(), CtrlPktEvent::default());
        }
        self.senders[index] = reply;
    }

    /// Sends a GRANT for the first message, in the order of the scheduler, that may get more credit; returns whether
    /// some message got a GRANT.
    #[inline]
    fn grant<B: Blocks>(&mut self, blocks: &mut B) -> bool {
        let Some(chosen) = self.scheduler.select(self.settings.overcommitment) else { return false };
        let index = usize::from(chosen.id);
        self.granted.write(index, chosen.credit.into());
        let level = chosen.level.min(u32::from(self.settings.scheduled_priorities) - 1) as u8;
        blocks.ctrl_pkt(&CtrlPktEvent {
            credit: chosen.credit,
            rank: self.settings.unscheduled_priorities + level,
            immediate: PULL,
            ..self.senders[index]
        });
        true
    }

    fn control<B: Blocks>(&mut self, blocks: &mut B, header: &NativeHeader) -> Verdict {
        let NativeHeader { tx_msg_id, pkt_offset, credit, .. } = *header;
        let is_nack = header.has(NACK);
        let (before, bitmap, credit) = if is_nack { (credit, 1, None) } else { (pkt_offset, 0, Some(credit)) };
        if header.has(PULL) {
            self.priority.write(slot(tx_msg_id), header.rank.into());
        }
        blocks.delivered(&DeliveredEvent { tx_msg_id, before, pkt_offset: 0, bitmap: 0 });
        blocks.credit_to_btx(&CreditToBtxEvent { tx_msg_id, pkt_offset, bitmap, credit });
        Verdict::Consumed
    }

    /// Priority of a data packet. Messages that are short enough to be sent unscheduled have priority 0.
    /// Retransmissions never use an unscheduled priority.
    #[inline]
    fn data_priority(&mut self, departure: &Departure) -> u8 {
        let unscheduled = self.settings.unscheduled_priorities;
        let slot = slot(departure.tx_msg_id);
        if departure.is_new_msg {
            let is_small = self.is_all(self.settings.rtt_pkts.into(), departure.msg_len);
            self.priority.write(slot, if is_small { 0 } else { u64::from(unscheduled) - 1 });
        }
        let priority = self.priority.read(slot) as u8;
        if departure.is_rtx { priority.max(unscheduled) } else { priority }
    }
}

impl Pipeline for Homa {
    type Header = NativeHeader;

    fn ingress<B: Blocks>(&mut self, blocks: &mut B, header: &NativeHeader, arrival: &Arrival<'_>) -> Verdict {
        if arrival.returned {
            header.on_returned(blocks)
        } else if !header.has(DATA) {
            self.control(blocks, header)
        } else if arrival.trimmed && !self.settings.trimming {
            Verdict::Consumed
        } else {
            self.data(blocks, header, arrival.trimmed)
        }
    }

    /// Fills in the header. Control packets have priority 0, data packets the priority of their message.
    #[inline]
    fn egress(&mut self, departure: &Departure) -> Framed<NativeHeader> {
        let priority = if departure.flags & DATA != 0 { self.data_priority(departure) } else { 0 };
        Framed { header: NativeHeader::of(self.ip, departure), priority }
    }

    fn expired(&mut self, rx_msg_id: u16) {
        self.scheduler.remove(rx_msg_id);
    }
}
