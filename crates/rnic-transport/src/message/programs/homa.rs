//! Homa: the receiver grants packets to the messages with the least left to receive, and tells their senders which priority to use.
//!
//! B. Montazeri et al.: Homa: a receiver-driven low-latency transport protocol using network priorities, SIGCOMM 2018; as the
//! NanoTransport paper programs it (algorithm 5). Homa-Tr adds that switches trim packets and that the receiver asks for those again at once.

use super::NativeHeader;
use crate::message::flags::{ACK, DATA, NACK, PULL};
use crate::message::primitives::{DualPort, Entry, IfElseRaw, Op, PriorityScheduler};
use crate::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Framed, Pipeline, RxMsgInfo, Verdict,
    slot,
};

/// What is the same for all NICs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HomaSettings {
    /// Payload of a packet in bytes.
    pub mtu: u32,
    /// Packets that a message sends unscheduled; also what a granted message may have outstanding.
    pub rtt_pkts: u32,
    /// Priorities of unscheduled packets, from 0 on; at least 1.
    pub unscheduled_levels: u8,
    /// Priorities of granted packets, after those; at least 1.
    pub scheduled_levels: u8,
    /// Messages that are granted packets at the same time.
    pub overcommitment: u32,
    /// Homa-Tr: a trimmed packet is asked for again. Homa takes no notice of it.
    pub trimming: bool,
}

/// The program. In an ACK and a GRANT ([`PULL`]) `pkt_offset` is the first packet missing and `credit` what has been granted; in a GRANT
/// `rank` is the priority to use. In a NACK `pkt_offset` is the packet to send again and `credit` the first packet missing.
#[derive(Clone, Debug)]
pub struct Homa {
    ip: u32,
    settings: HomaSettings,
    /// By message received: packets that have arrived whole.
    received: IfElseRaw,
    /// By message received: packets before this one have been granted.
    granted: DualPort,
    /// By message received: the control packet to its sender, with the first packet missing. In P4, a register for each field.
    senders: Vec<CtrlPktEvent>,
    /// Messages that wait for grants.
    scheduler: PriorityScheduler,
    /// By slot of a message sent: priority of its packets. GRANTs write it (ingress), data packets read it (egress).
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

    /// Whether so many packets are all of a message.
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
        let place = usize::from(info.rx_msg_id);
        let gained = info.is_new_pkt && !trimmed;
        let received =
            self.received.apply(place, info.is_new_msg, (Op::Write, gained.into()), (Op::Add, gained.into()));
        if info.is_new_msg {
            self.granted.write(place, self.settings.rtt_pkts.into());
        }
        let granted = self.granted.read(place);
        reply.credit = granted as u32;
        self.remember(place, reply);
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
        // A packet that arrives again is one whose sender has heard too little: it gets an answer of its own, with what it was
        // granted before.
        if !has_granted || !gained || info.is_last_pkt {
            blocks.ctrl_pkt(&reply);
        }
        if !gained {
            return Verdict::Consumed;
        }
        Verdict::Reassemble { rx_msg_id: info.rx_msg_id, pkt_offset: header.pkt_offset, is_last_pkt: info.is_last_pkt }
    }

    #[inline]
    fn remember(&mut self, place: usize, reply: CtrlPktEvent) {
        if place >= self.senders.len() {
            self.senders.resize((place + 1).next_power_of_two(), CtrlPktEvent::default());
        }
        self.senders[place] = reply;
    }

    /// Sends a GRANT to the message that goes first, if one may get it; returns whether one did.
    #[inline]
    fn grant<B: Blocks>(&mut self, blocks: &mut B) -> bool {
        let Some(chosen) = self.scheduler.select(self.settings.overcommitment) else { return false };
        let place = usize::from(chosen.id);
        self.granted.write(place, chosen.credit.into());
        let level = chosen.level.min(u32::from(self.settings.scheduled_levels) - 1) as u8;
        blocks.ctrl_pkt(&CtrlPktEvent {
            credit: chosen.credit,
            rank: self.settings.unscheduled_levels + level,
            immediate: PULL,
            ..self.senders[place]
        });
        true
    }

    fn control<B: Blocks>(&mut self, blocks: &mut B, header: &NativeHeader) -> Verdict {
        let NativeHeader { tx_msg_id, pkt_offset, credit, .. } = *header;
        let is_nack = header.has(NACK);
        let (before, rtx, credit) =
            if is_nack { (credit, Some(pkt_offset), None) } else { (pkt_offset, None, Some(credit)) };
        if header.has(PULL) {
            self.priority.write(slot(tx_msg_id), header.rank.into());
        }
        blocks.delivered(&DeliveredEvent { tx_msg_id, before, pkt_offset: 0, bitmap: 0 });
        blocks.credit_to_btx(&CreditToBtxEvent { tx_msg_id, rtx, credit });
        Verdict::Consumed
    }

    /// Priority of a data packet. Small messages go first; what is sent again does not compete with what is sent unscheduled.
    #[inline]
    fn band(&mut self, departure: &Departure) -> u8 {
        let unscheduled = self.settings.unscheduled_levels;
        let slot = slot(departure.tx_msg_id);
        if departure.is_new_msg {
            let is_small = self.is_all(self.settings.rtt_pkts.into(), departure.msg_len);
            self.priority.write(slot, if is_small { 0 } else { u64::from(unscheduled) - 1 });
        }
        let band = self.priority.read(slot) as u8;
        if departure.is_rtx { band.max(unscheduled) } else { band }
    }
}

impl Pipeline for Homa {
    type Header = NativeHeader;

    fn ingress<B: Blocks>(&mut self, blocks: &mut B, header: &NativeHeader, arrival: &Arrival<'_>) -> Verdict {
        if arrival.returned {
            header.came_back(blocks)
        } else if !header.has(DATA) {
            self.control(blocks, header)
        } else if arrival.trimmed && !self.settings.trimming {
            Verdict::Consumed
        } else {
            self.data(blocks, header, arrival.trimmed)
        }
    }

    /// Control in priority 0, data in that of its message.
    #[inline]
    fn egress(&mut self, departure: &Departure) -> Framed<NativeHeader> {
        let band = if departure.flags & DATA != 0 { self.band(departure) } else { 0 };
        Framed { header: NativeHeader::of(self.ip, departure), band }
    }

    fn expired(&mut self, rx_msg_id: u16) {
        self.scheduler.remove(rx_msg_id);
    }
}
