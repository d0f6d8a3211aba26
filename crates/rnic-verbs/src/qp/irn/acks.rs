//! The queue of ACKs and NACKs that an IRN receiver has to send for the requests, or for the responses, of a queue
//! pair. The queue holds at most one ACK, because a later ACK replaces an earlier one. It holds one NACK for each run
//! of packets with consecutive PSNs that arrived out of order. A NACK replaces an earlier ACK, because it states the
//! expected PSN too.

use rnic_transport::{Pdu, PduKind, Psn};
use rnic_wire::{Bth, SackEth};
use std::collections::VecDeque;

/// The received packet that triggers an ACK or NACK. If packets with consecutive PSNs share a NACK, it is the last of
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cause {
    pub(crate) psn: Psn,
    /// Number of packets with the PSNs directly before `psn` that triggered the same NACK.
    pub(crate) before: u8,
    /// Number of earlier transmissions of the packet, as its header states.
    pub(crate) attempt: u8,
    pub(crate) marked: bool,
}

impl Cause {
    /// The received packet with this base transport header; `marked` says whether it was CE-marked.
    pub(crate) fn new(bth: &Bth, marked: bool) -> Cause {
        Cause { psn: Psn::new(bth.psn), before: 0, attempt: bth.attempt, marked }
    }

    /// The packet with this PSN, to which the responder replies with an RNR NAK or with a NAK that ends the connection.
    pub(crate) fn of(psn: Psn) -> Cause {
        Cause { psn, before: 0, attempt: 0, marked: false }
    }

    /// The extension header of the ACK or NACK that tells the peer which packets triggered it.
    pub(crate) fn sack(&self) -> SackEth {
        SackEth { psn: self.psn.value(), before: self.before }
    }
}

/// The PSNs of the packets that a NACK with the header `sack` acknowledges selectively, in ascending order.
pub(crate) fn run(sack: &SackEth) -> impl Iterator<Item = Psn> {
    let last = Psn::new(sack.psn);
    (0..=u32::from(sack.before)).rev().map(move |before| last.plus(Psn::MODULUS - before))
}

#[derive(Debug, Default)]
pub(crate) struct Acknowledgements {
    ack: Option<Cause>,
    nacks: VecDeque<Cause>,
}

impl Acknowledgements {
    /// Maximum number of NACKs in the queue. If the queue pair cannot send and further NACKs are queued, the oldest
    /// NACK is dropped, as if the network had lost it.
    const MAX: usize = 1_024;

    /// Queues the ACK or NACK `reply` with which the receiver responds to the packet `cause`; `None`: no response.
    pub(crate) fn note(&mut self, reply: Option<Pdu>, cause: Cause) {
        match reply.map(Pdu::kind) {
            Some(PduKind::Nack) => {
                let marked = cause.marked || self.ack.take().is_some_and(|ack| ack.marked);
                if let Some(last) = self.nacks.back_mut()
                    && last.psn.plus(1) == cause.psn
                    && last.attempt == cause.attempt
                    && last.before < u8::MAX
                {
                    *last = Cause { before: last.before + 1, marked: last.marked || marked, ..cause };
                    return;
                }
                if self.nacks.len() >= Acknowledgements::MAX {
                    self.nacks.pop_front();
                }
                self.nacks.push_back(Cause { marked, ..cause });
            }
            Some(_) => self.acknowledge(cause),
            None => {}
        }
    }

    /// Queues an ACK with this cause, in place of an ACK that waits.
    pub(crate) fn acknowledge(&mut self, cause: Cause) {
        let marked = cause.marked || self.ack.is_some_and(|ack| ack.marked);
        self.ack = Some(Cause { marked, ..cause });
    }

    pub(crate) fn is_due(&self) -> bool {
        self.ack.is_some() || !self.nacks.is_empty()
    }

    /// Takes the next ACK or NACK to send out of the queue. `expected` is the PSN that the receiver expects now.
    /// Returns whether it is a NACK, and the packet that triggered it; `None` if the queue is empty.
    pub(crate) fn next(&mut self, expected: Psn) -> Option<(bool, Cause)> {
        while let Some(cause) = self.nacks.pop_front() {
            if expected.is_before(cause.psn) {
                return Some((true, cause));
            }
            // The packets that were missing before `cause` have arrived in the meantime, so an ACK replaces the NACK.
            self.acknowledge(cause);
        }
        self.ack.take().map(|cause| (false, cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_transport::pdu::Stamp;

    fn nack(acks: &mut Acknowledgements, psn: u32, attempt: u8, marked: bool) {
        let reply = Pdu::nack(Psn::new(0), Psn::new(psn), Stamp::default());
        acks.note(Some(reply), Cause { psn: Psn::new(psn), before: 0, attempt, marked });
    }

    /// Takes all ACKs and NACKs out of the queue while the receiver expects PSN `expected`. A tuple describes an ACK or
    /// NACK: whether it is a NACK, the PSNs of the first and the last packet that triggered it, the attempt and the CE
    /// mark of these packets.
    fn taken(acks: &mut Acknowledgements, expected: u32) -> Vec<(bool, u32, u32, u8, bool)> {
        let next = std::iter::from_fn(|| acks.next(Psn::new(expected)));
        next.map(|(nack, cause)| {
            let first = run(&cause.sack()).next().map_or(0, Psn::value);
            (nack, first, cause.psn.value(), cause.attempt, cause.marked)
        })
        .collect()
    }

    #[test]
    fn consecutive_packets_of_one_attempt_share_a_nack() {
        let mut acks = Acknowledgements::default();
        for (psn, attempt, marked) in
            [(5, 0, false), (6, 0, true), (7, 1, false), (8, 1, false), (10, 1, false), (0xff_ffff, 0, false)]
        {
            nack(&mut acks, psn, attempt, marked);
        }
        nack(&mut acks, 0, 0, false);
        assert!(acks.is_due());
        // The last run wraps from PSN 0xff_ffff to 0. It lies before the expected PSN, so an ACK replaces its NACK.
        let expected =
            [(true, 5, 6, 0, true), (true, 7, 8, 1, false), (true, 10, 10, 1, false), (false, 0xff_ffff, 0, 0, false)];
        assert_eq!(taken(&mut acks, 1), expected);
        assert!(!acks.is_due());
    }

    #[test]
    fn a_run_is_limited_by_its_header_field() {
        let mut acks = Acknowledgements::default();
        (2..302).for_each(|psn| nack(&mut acks, psn, 0, false));
        assert_eq!(taken(&mut acks, 1), [(true, 2, 257, 0, false), (true, 258, 301, 0, false)]);
    }

    #[test]
    fn an_ack_replaces_nacks_of_packets_before_the_expected_psn() {
        let mut acks = Acknowledgements::default();
        nack(&mut acks, 5, 0, true);
        nack(&mut acks, 7, 0, false);
        nack(&mut acks, 9, 2, false);
        assert_eq!(taken(&mut acks, 8), [(true, 9, 9, 2, false), (false, 7, 7, 0, true)]);
    }
}
