//! What travels between the two halves of a flow: one small `Copy` descriptor per packet, no bytes.

use crate::{Psn, Time};

/// What a packet is to the transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PduKind {
    /// One data packet.
    Data = 0,
    /// Positive acknowledgement: everything before `psn` has arrived.
    Ack = 1,
    /// Negative acknowledgement: everything before `psn` has arrived, `psn` has not; IRN adds the packet that
    /// triggered it.
    Nack = 2,
    /// Congestion notification (DCQCN).
    Cnp = 3,
}

/// Hardware timestamp of a data packet's departure, in nanoseconds modulo 2^32 (4.3 s).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp(u32);

impl Stamp {
    /// The stamp of instant `now`.
    pub const fn at(now: Time) -> Stamp {
        Stamp((now.as_ps() / 1_000) as u32)
    }
    /// The stamp of the instant `span` before `now`.
    pub const fn before(now: Time, span: Time) -> Stamp {
        Stamp(Stamp::at(now).0.wrapping_sub((span.as_ps() / 1_000) as u32))
    }
    /// Whether this instant is `other` or later; meaningful while they lie less than 2.1 s apart.
    pub const fn is_from(self, other: Stamp) -> bool {
        self.0.wrapping_sub(other.0) as i32 >= 0
    }
    /// Time from this stamp to `now`, to the nanosecond; exact as long as it is less than 4.3 s.
    pub const fn elapsed(self, now: Time) -> Time {
        Time::from_ns(Stamp::at(now).0.wrapping_sub(self.0) as u64)
    }
}

/// A packet as the transport sees it, in 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pdu {
    /// Sequence number (24 bits), kind (2 bits) and flags.
    head: u32,
    /// NACK: sequence number of the packet that triggered it (24 bits), packets reported below it (8 bits).
    trigger: u32,
    /// Data: when it left. ACK and NACK: the stamp of the data packet that caused them.
    stamp: Stamp,
}

impl Pdu {
    const KIND_SHIFT: u32 = 24;
    const LAST: u32 = 1 << 26;
    const MARK_ECHO: u32 = 1 << 27;
    const SYN: u32 = 1 << 28;
    const BELOW_SHIFT: u32 = 24;
    /// Most packets that a NACK can report below its trigger.
    pub const MAX_BELOW: u32 = 255;

    /// A data packet; `last` marks the flow's last one.
    pub const fn data(psn: Psn, last: bool, now: Time) -> Pdu {
        let last = if last { Pdu::LAST } else { 0 };
        Pdu { head: psn.value() | last, trigger: 0, stamp: Stamp::at(now) }
    }
    /// An acknowledgement of everything before `expected`, caused by a data packet stamped `stamp`.
    pub const fn ack(expected: Psn, stamp: Stamp) -> Pdu {
        Pdu { head: expected.value() | (PduKind::Ack as u32) << Pdu::KIND_SHIFT, trigger: 0, stamp }
    }
    /// A request for `expected`, caused by the arrival of `trigger`.
    pub const fn nack(expected: Psn, trigger: Psn, stamp: Stamp) -> Pdu {
        let head = expected.value() | (PduKind::Nack as u32) << Pdu::KIND_SHIFT;
        Pdu { head, trigger: trigger.value(), stamp }
    }
    /// The same NACK, reporting that the `below` packets just before its trigger have arrived too; more than
    /// [`MAX_BELOW`](Pdu::MAX_BELOW) count as that many.
    pub const fn with_below(mut self, below: u32) -> Pdu {
        let below = if below < Pdu::MAX_BELOW { below } else { Pdu::MAX_BELOW };
        self.trigger = Psn::new(self.trigger).value() | below << Pdu::BELOW_SHIFT;
        self
    }
    /// The same packet as part of a connection's setup: a SYN if it is data, a SYN-ACK if it is an ACK.
    pub const fn with_syn(mut self) -> Pdu {
        self.head |= Pdu::SYN;
        self
    }
    /// A congestion notification.
    pub const fn cnp() -> Pdu {
        Pdu { head: (PduKind::Cnp as u32) << Pdu::KIND_SHIFT, trigger: 0, stamp: Stamp(0) }
    }
    /// The same packet, telling the sender that the data packet that caused it bore a congestion mark.
    pub const fn with_mark_echo(mut self, marked: bool) -> Pdu {
        if marked {
            self.head |= Pdu::MARK_ECHO;
        }
        self
    }

    /// What it is.
    pub const fn kind(self) -> PduKind {
        match (self.head >> Pdu::KIND_SHIFT) & 3 {
            0 => PduKind::Data,
            1 => PduKind::Ack,
            2 => PduKind::Nack,
            _ => PduKind::Cnp,
        }
    }
    /// Data: its sequence number. ACK and NACK: the next one that the receiver expects.
    pub const fn psn(self) -> Psn {
        Psn::new(self.head)
    }
    /// NACK: the out-of-order packet that triggered it.
    pub const fn trigger(self) -> Psn {
        Psn::new(self.trigger)
    }
    /// NACK: how many packets just before the trigger are reported with it.
    pub const fn below(self) -> u32 {
        self.trigger >> Pdu::BELOW_SHIFT
    }
    /// Whether it sets up a connection: a SYN, which carries no data, or the answer to one.
    pub const fn is_syn(self) -> bool {
        self.head & Pdu::SYN != 0
    }
    /// Whether this is the flow's last data packet.
    pub const fn is_last(self) -> bool {
        self.head & Pdu::LAST != 0
    }
    /// Whether the data packet that caused this ACK or NACK bore a congestion mark.
    pub const fn mark_echo(self) -> bool {
        self.head & Pdu::MARK_ECHO != 0
    }
    /// Departure time of this data packet, or of the one that caused this ACK or NACK.
    pub const fn stamp(self) -> Stamp {
        self.stamp
    }
}

/// What the network noted on a packet that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RxMeta {
    /// A switch marked it "congestion experienced" (ECN).
    pub marked: bool,
}

/// A data packet that the sender wants on the wire now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxDesc {
    /// The packet.
    pub pdu: Pdu,
    /// Payload bytes in it.
    pub payload: u32,
    /// Whether it was sent before.
    pub retransmission: bool,
}

/// What the arrival of a data packet at the receiver leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RxOutcome {
    /// ACK or NACK to send now.
    pub reply: Option<Pdu>,
    /// Whether this packet completed the flow: everything has arrived, in order.
    pub completed: bool,
    /// Whether the packet was of no use: a duplicate, or out of order where the receiver keeps only order.
    pub discarded: bool,
    /// A congestion notification to send now, ahead of the reply.
    pub notify: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_packing() {
        let psn = Psn::new(0xab_cdef);
        let data = Pdu::data(psn, true, Time::from_us(7));
        assert_eq!((data.kind(), data.psn(), data.is_last()), (PduKind::Data, psn, true));
        assert_eq!(data.stamp().elapsed(Time::from_us(30)), Time::from_us(23));
        let nack = Pdu::nack(psn, psn.plus(9), data.stamp()).with_mark_echo(true);
        assert_eq!((nack.kind(), nack.psn(), nack.trigger()), (PduKind::Nack, psn, psn.plus(9)));
        assert!(nack.mark_echo() && !nack.is_last());
        assert_eq!(Pdu::cnp().kind(), PduKind::Cnp);
        assert_eq!(std::mem::size_of::<Pdu>(), 12);
    }

    #[test]
    fn a_reported_run_leaves_the_trigger_alone() {
        let psn = Psn::new(0xff_fffe);
        let nack = Pdu::nack(psn, psn.plus(1), Stamp::default());
        assert_eq!((nack.below(), nack.trigger()), (0, Psn::new(0xff_ffff)));
        for (below, reported) in [(0, 0), (1, 1), (254, 254), (255, 255), (256, 255), (u32::MAX, 255)] {
            let pdu = nack.with_below(9).with_below(below);
            assert_eq!((pdu.below(), pdu.trigger(), pdu.psn()), (reported, psn.plus(1), psn));
            assert_eq!(pdu.kind(), PduKind::Nack);
        }
    }

    #[test]
    fn setup_is_a_flag_of_its_own() {
        let psn = Psn::new(0xff_ffff);
        let ack = Pdu::ack(psn, Stamp::default()).with_mark_echo(true);
        let data = Pdu::data(psn, true, Time::ZERO);
        assert!(!ack.is_syn() && !data.is_syn());
        let (syn_ack, syn) = (ack.with_syn(), data.with_syn());
        assert!(syn_ack.is_syn() && syn_ack.mark_echo() && !syn_ack.is_last());
        assert_eq!((syn_ack.kind(), syn_ack.psn()), (PduKind::Ack, psn));
        assert!(syn.is_syn() && syn.is_last() && !syn.mark_echo());
        assert_eq!((syn.kind(), syn.psn()), (PduKind::Data, psn));
    }

    #[test]
    fn stamps_wrap_without_error() {
        let late = Time::from_ms(4_294) + Time::from_us(960);
        assert_eq!(Stamp::at(late).elapsed(late + Time::from_us(40)), Time::from_us(40));
        let wrapped = Stamp::at(late + Time::from_us(40));
        assert!(wrapped.is_from(Stamp::at(late)) && wrapped.is_from(wrapped) && !Stamp::at(late).is_from(wrapped));
    }
}
