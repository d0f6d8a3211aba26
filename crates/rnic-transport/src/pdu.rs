//! Packets as a flow's sender and receiver see them: one small `Copy` descriptor per packet, without payload bytes.

use crate::{Psn, Time};
use serde::{Deserialize, Serialize};

/// The kind of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PduKind {
    /// Data packet.
    Data = 0,
    /// Positive acknowledgement: all packets before `psn` have arrived.
    Ack = 1,
    /// Negative acknowledgement: all packets before `psn` have arrived, but packet `psn` has not. [`Pdu::trigger`] is
    /// the PSN of the out-of-order packet that caused the NACK.
    Nack = 2,
    /// Congestion notification packet (DCQCN).
    Cnp = 3,
}

/// Timestamp of a data packet's departure, in nanoseconds modulo 2^32 (4.3 s).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stamp(u32);

impl Stamp {
    /// The timestamp of the instant `now`.
    pub const fn at(now: Time) -> Stamp {
        Stamp((now.as_ps() / 1_000) as u32)
    }
    /// The timestamp in nanoseconds, modulo 2^32.
    pub const fn as_ns(self) -> u32 {
        self.0
    }
    /// The timestamp of the instant that is `span` before `now`.
    pub const fn before(now: Time, span: Time) -> Stamp {
        Stamp(Stamp::at(now).0.wrapping_sub((span.as_ps() / 1_000) as u32))
    }
    /// Whether this timestamp is equal to or later than `other`; the two timestamps must be less than 2.1 s apart.
    pub const fn is_from(self, other: Stamp) -> bool {
        self.0.wrapping_sub(other.0) as i32 >= 0
    }
    /// Time from this timestamp to `now`, in whole nanoseconds; correct if less than 4.3 s have passed.
    pub const fn elapsed(self, now: Time) -> Time {
        Time::from_ns(Stamp::at(now).0.wrapping_sub(self.0) as u64)
    }
}

/// A packet as a flow's sender and receiver see it: a descriptor of 12 bytes, without payload.
///
/// ```
/// use rnic_transport::{Pdu, PduKind, Psn, Time};
///
/// // Packet 7 arrives while packet 5 is missing: the receiver reports both.
/// let data = Pdu::data(Psn::new(7), false, Time::from_us(1));
/// let nack = Pdu::nack(Psn::new(5), data.psn(), data.stamp());
/// assert_eq!((nack.kind(), nack.psn(), nack.trigger()), (PduKind::Nack, Psn::new(5), Psn::new(7)));
/// assert_eq!(nack.stamp().elapsed(Time::from_us(9)), Time::from_us(8), "the round-trip time");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pdu {
    /// PSN (24 bits), kind (2 bits) and flags.
    head: u32,
    /// NACK: PSN of the packet that triggered the NACK (24 bits), and number of packets immediately before this packet
    /// that the NACK acknowledges too (8 bits; see [`Pdu::with_below`]). Sprayed flows: the entropy instead of this
    /// number ([`Pdu::with_path`]), and instead of the PSN a bitmap of packets and its place ([`Pdu::with_map`]).
    trigger: u32,
    /// Data: departure time. ACK and NACK: departure time of the data packet that caused them.
    stamp: Stamp,
}

impl Pdu {
    const KIND_SHIFT: u32 = 24;
    const LAST: u32 = 1 << 26;
    const MARK_ECHO: u32 = 1 << 27;
    const SYN: u32 = 1 << 28;
    const TRIMMED: u32 = 1 << 29;
    const CREDIT: u32 = 1 << 30;
    /// Data: asks for an ACK. NACK: has a bitmap. NACK of a trimmed packet, and its data: the last switch trimmed it.
    const MORE: u32 = 1 << 31;
    const OFFSET_SHIFT: u32 = 16;
    const CREDIT_SHIFT: u32 = 16;
    const BELOW_SHIFT: u32 = 24;
    /// Maximum number of packets that a NACK can selectively acknowledge in addition to the packet that triggered it,
    /// 255.
    pub const MAX_BELOW: u32 = 255;

    /// A data packet that departs at `now`; `last` says whether the packet is the last of its flow.
    pub const fn data(psn: Psn, last: bool, now: Time) -> Pdu {
        let last = if last { Pdu::LAST } else { 0 };
        Pdu { head: psn.value() | last, trigger: 0, stamp: Stamp::at(now) }
    }
    /// A data packet that departed at `stamp` and is not known to be the last of its flow.
    pub const fn data_with(psn: Psn, stamp: Stamp) -> Pdu {
        Pdu { head: psn.value(), trigger: 0, stamp }
    }
    /// An ACK of all packets before `expected`; `stamp` is the departure time of the data packet that caused it.
    pub const fn ack(expected: Psn, stamp: Stamp) -> Pdu {
        Pdu { head: expected.value() | (PduKind::Ack as u32) << Pdu::KIND_SHIFT, trigger: 0, stamp }
    }
    /// A NACK that says that packet `expected` is missing, caused by the arrival of packet `trigger`, which departed at
    /// `stamp`.
    pub const fn nack(expected: Psn, trigger: Psn, stamp: Stamp) -> Pdu {
        let head = expected.value() | (PduKind::Nack as u32) << Pdu::KIND_SHIFT;
        Pdu { head, trigger: trigger.value(), stamp }
    }
    /// Makes this NACK selectively acknowledge not only the out-of-order packet that triggered it, but also the `below`
    /// packets immediately before this packet, like a SACK block of TCP. A number above [`MAX_BELOW`](Pdu::MAX_BELOW)
    /// is reduced to this maximum.
    pub const fn with_below(mut self, below: u32) -> Pdu {
        let below = if below < Pdu::MAX_BELOW { below } else { Pdu::MAX_BELOW };
        self.trigger = Psn::new(self.trigger).value() | below << Pdu::BELOW_SHIFT;
        self
    }
    /// Puts the entropy `path` into this packet; see [`crate::paths`]. Data packets and ACKs carry 16 bits, NACKs only
    /// the lower 8. The field is that of [`with_below`](Pdu::with_below), so a NACK carries either a run or an entropy.
    pub const fn with_path(mut self, path: u16) -> Pdu {
        match self.kind() {
            PduKind::Nack => self.trigger = Psn::new(self.trigger).value() | (path as u32) << Pdu::BELOW_SHIFT,
            _ => self.trigger = path as u32,
        }
        self
    }
    /// Makes this NACK say that a switch has trimmed the packet [`trigger`](Pdu::trigger), which is therefore missing,
    /// instead of that the packet has arrived.
    pub const fn with_trimmed(mut self) -> Pdu {
        self.head |= Pdu::TRIMMED;
        self
    }
    /// Makes this data packet ask the receiver for an ACK at once.
    pub const fn with_ack_request(mut self) -> Pdu {
        self.head |= Pdu::MORE;
        self
    }
    /// Makes this NACK acknowledge several packets, instead of its trigger: packet `psn` + `offset` + i
    /// for each bit i of `map`. The entropy stays.
    pub const fn with_map(mut self, offset: u8, map: u16) -> Pdu {
        let path = self.trigger >> Pdu::BELOW_SHIFT << Pdu::BELOW_SHIFT;
        self.trigger = path | (offset as u32) << Pdu::OFFSET_SHIFT | map as u32;
        self.head |= Pdu::MORE;
        self
    }
    /// Makes this data packet, or this NACK of a trimmed packet, say that the last switch before the receiver trimmed
    /// it. A data packet can no longer ask for an ACK then: it has no payload to acknowledge.
    pub const fn with_last_hop(mut self) -> Pdu {
        self.head |= Pdu::MORE | Pdu::TRIMMED;
        self
    }
    /// Sets the SYN flag: a data packet becomes a SYN, an ACK becomes a SYN-ACK.
    pub const fn with_syn(mut self) -> Pdu {
        self.head |= Pdu::SYN;
        self
    }
    /// A congestion notification packet (CNP).
    pub const fn cnp() -> Pdu {
        Pdu { head: (PduKind::Cnp as u32) << Pdu::KIND_SHIFT, trigger: 0, stamp: Stamp(0) }
    }
    /// A packet without data that departs at `now` and asks the receiver what has arrived. It is a data packet with the
    /// SYN flag, and its ACK has this flag too.
    pub const fn probe(now: Time) -> Pdu {
        Pdu::data(Psn::new(0), false, now).with_syn()
    }
    /// A packet without data that asks the receiver for credit, as [`with_credit`](Pdu::with_credit) does. It has the
    /// kind of data packets, because the receiving end of a flow gets it.
    pub const fn credit_request(target: u16) -> Pdu {
        let head = (PduKind::Data as u32) << Pdu::KIND_SHIFT | Pdu::CREDIT;
        Pdu { head, trigger: 0, stamp: Stamp(0) }.with_credit(target)
    }
    /// A packet that grants credit: `total` packets since the flow began, modulo 2^16. It has the kind of CNPs, because
    /// it is for the congestion control of the sender.
    pub const fn credit_grant(total: u16) -> Pdu {
        let head = (PduKind::Cnp as u32) << Pdu::KIND_SHIFT | Pdu::CREDIT;
        Pdu { head, trigger: 0, stamp: Stamp(0) }.with_credit(total)
    }
    /// Makes this data packet ask for credit: `target` packets since the flow began, modulo 2^16. The field is beside
    /// that of [`with_path`](Pdu::with_path), which must come first.
    pub const fn with_credit(mut self, target: u16) -> Pdu {
        self.trigger = self.trigger & 0xffff | (target as u32) << Pdu::CREDIT_SHIFT;
        self
    }
    /// Sets the ECN echo flag of this ACK or NACK if `marked` is true, that is, if the data packet that caused it was
    /// CE-marked.
    pub const fn with_mark_echo(mut self, marked: bool) -> Pdu {
        if marked {
            self.head |= Pdu::MARK_ECHO;
        }
        self
    }

    /// The kind of the packet.
    pub const fn kind(self) -> PduKind {
        match (self.head >> Pdu::KIND_SHIFT) & 3 {
            0 => PduKind::Data,
            1 => PduKind::Ack,
            2 => PduKind::Nack,
            _ => PduKind::Cnp,
        }
    }
    /// Data: the packet's PSN. ACK and NACK: the next PSN that the receiver expects.
    pub const fn psn(self) -> Psn {
        Psn::new(self.head)
    }
    /// NACK: PSN of the out-of-order packet that triggered the NACK.
    pub const fn trigger(self) -> Psn {
        Psn::new(self.trigger)
    }
    /// NACK that does not report a trimmed packet: the packets that it acknowledges selectively, one or those of its
    /// bitmap.
    pub fn selected(self) -> impl Iterator<Item = Psn> {
        let (from, map) = match self.head & Pdu::MORE {
            0 => (self.trigger(), 1),
            _ => (self.psn().plus(self.trigger >> Pdu::OFFSET_SHIFT & 0xff), self.trigger & 0xffff),
        };
        (0..16).filter(move |bit| map >> bit & 1 == 1).map(move |bit| from.plus(bit))
    }
    /// Data: whether the packet asks for an ACK at once.
    pub const fn asks_ack(self) -> bool {
        self.head & (Pdu::MORE | Pdu::TRIMMED) == Pdu::MORE
    }
    /// Data that was trimmed, and NACK: whether the last switch before the receiver trimmed the packet.
    pub const fn is_last_hop(self) -> bool {
        self.head & (Pdu::MORE | Pdu::TRIMMED) == Pdu::MORE | Pdu::TRIMMED
    }
    /// NACK: number of packets immediately before [`trigger`](Pdu::trigger) that the NACK selectively acknowledges too.
    pub const fn below(self) -> u32 {
        self.trigger >> Pdu::BELOW_SHIFT
    }
    /// The entropy of a data packet, or of the data packet that caused this ACK or NACK; see
    /// [`with_path`](Pdu::with_path).
    pub const fn path(self) -> u16 {
        match self.kind() {
            PduKind::Nack => (self.trigger >> Pdu::BELOW_SHIFT) as u16,
            _ => self.trigger as u16,
        }
    }
    /// Whether the packet sets up a connection: a SYN, which carries no data, or a SYN-ACK. With transport `uet`:
    /// whether it is a [`probe`](Pdu::probe), or the ACK of one.
    pub const fn is_syn(self) -> bool {
        self.head & Pdu::SYN != 0
    }
    /// NACK: whether a switch has trimmed the packet [`trigger`](Pdu::trigger).
    pub const fn is_trimmed(self) -> bool {
        self.head & Pdu::TRIMMED != 0
    }
    /// Whether this packet only asks for credit, or grants it.
    pub const fn is_credit(self) -> bool {
        self.head & Pdu::CREDIT != 0
    }
    /// The credit that this data packet or request asks for, or that this grant grants.
    pub const fn credit(self) -> u16 {
        (self.trigger >> Pdu::CREDIT_SHIFT) as u16
    }
    /// Whether this is the flow's last data packet.
    pub const fn is_last(self) -> bool {
        self.head & Pdu::LAST != 0
    }
    /// ECN echo: whether the data packet that caused this ACK or NACK was CE-marked.
    pub const fn mark_echo(self) -> bool {
        self.head & Pdu::MARK_ECHO != 0
    }
    /// Departure time of this data packet, or of the data packet that caused this ACK or NACK.
    pub const fn stamp(self) -> Stamp {
        self.stamp
    }
}

/// Information about a received packet that the packet itself does not have, from the network and from the NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RxMeta {
    /// Whether a switch CE-marked the packet (ECN "congestion experienced").
    pub marked: bool,
    /// Whether the NIC cannot send a congestion notification packet (CNP) yet, because it has just sent a CNP for any
    /// of its flows ([`FlowConfig::nic_cnp_interval`](crate::FlowConfig::nic_cnp_interval)).
    pub cnp_held: bool,
}

/// A data packet that the owner of a [`Sender`](crate::Sender) must transmit now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxDesc {
    /// The packet.
    pub pdu: Pdu,
    /// Length of the packet's payload in bytes.
    pub payload: u32,
    /// Whether the packet is a retransmission.
    pub retransmission: bool,
}

/// The receiver's reaction to the arrival of a data packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RxOutcome {
    /// ACK or NACK to send now; `None` if the receiver sends no response.
    pub reply: Option<Pdu>,
    /// Whether this packet completed the flow: now all packets of the flow have arrived.
    pub completed: bool,
    /// Whether the receiver discarded the packet: it was a duplicate, outside of the receive window, or out of order at
    /// a receiver that accepts only packets in order.
    pub discarded: bool,
    /// Whether to send a congestion notification packet (CNP) to the sender now, before `reply`.
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
    fn the_entropy_leaves_the_other_fields_alone() {
        let psn = Psn::new(0xff_fffe);
        let data = Pdu::data(psn, true, Time::from_us(7));
        let ack = Pdu::ack(psn, data.stamp()).with_mark_echo(true);
        let nack = Pdu::nack(psn, psn.plus(1), data.stamp());
        for path in [0, 1, 255, 256, u16::MAX] {
            for pdu in [data, ack] {
                let with = pdu.with_path(77).with_path(path);
                assert_eq!((with.path(), with.with_path(0)), (path, pdu));
            }
            let with = nack.with_path(77).with_path(path);
            assert_eq!((with.path(), with.trigger(), with.with_path(0)), (path & 255, psn.plus(1), nack));
        }
    }

    #[test]
    fn a_bitmap_replaces_the_trigger_and_keeps_the_entropy() {
        let psn = Psn::new(0xff_fffe);
        let nack = Pdu::nack(psn, psn.plus(1), Stamp::default()).with_path(200);
        assert_eq!(nack.selected().collect::<Vec<_>>(), [psn.plus(1)]);
        let many = nack.with_map(255, 0b1000_0000_0000_0101).with_mark_echo(true);
        assert_eq!(many.selected().collect::<Vec<_>>(), [255, 257, 270].map(|by| psn.plus(by)));
        assert_eq!((many.kind(), many.psn(), many.path(), many.is_trimmed()), (PduKind::Nack, psn, 200, false));
        assert!(many.mark_echo() && !many.is_last_hop());
    }

    #[test]
    fn the_place_of_trimming_and_a_request_for_an_ack_are_apart() {
        let data = Pdu::data(Psn::new(7), true, Time::from_us(7)).with_path(0xabcd);
        let asking = data.with_ack_request();
        assert!(asking.asks_ack() && !asking.is_last_hop() && !data.asks_ack());
        let last = asking.with_last_hop();
        assert!(last.is_last_hop() && !last.asks_ack());
        assert_eq!((last.kind(), last.psn(), last.path(), last.is_last()), (PduKind::Data, data.psn(), 0xabcd, true));
        let nack = Pdu::nack(Psn::new(3), Psn::new(7), data.stamp()).with_trimmed();
        assert!(!nack.is_last_hop() && nack.with_last_hop().is_last_hop() && nack.with_last_hop().is_trimmed());
    }

    #[test]
    fn credit_is_beside_the_entropy() {
        let data = Pdu::data(Psn::new(7), true, Time::from_us(7)).with_path(0xabcd);
        let asking = data.with_credit(9).with_credit(u16::MAX);
        assert_eq!(
            (asking.credit(), asking.path(), asking.psn(), asking.is_credit()),
            (u16::MAX, 0xabcd, data.psn(), false)
        );
        assert_eq!(asking.with_credit(0), data);
        let (request, grant) = (Pdu::credit_request(3), Pdu::credit_grant(4));
        assert_eq!((request.kind(), request.credit(), request.is_credit()), (PduKind::Data, 3, true));
        assert_eq!((grant.kind(), grant.credit(), grant.is_credit()), (PduKind::Cnp, 4, true));
        assert!(!Pdu::cnp().is_credit());
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
