//! Acknowledgements of one PSN space that wait to be sent: NACKs each, but one for a run of packets, of ACKs the last. A NACK says
//! all that an ACK before it would.

use rnic_transport::{Pdu, PduKind, Psn};
use rnic_wire::{Bth, SackEth};
use std::collections::VecDeque;

/// What a packet causes, and whether it bore a congestion mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cause {
    pub(crate) psn: Psn,
    /// So many packets directly before it caused the same.
    pub(crate) before: u8,
    /// How often it was sent before, as it says itself.
    pub(crate) attempt: u8,
    pub(crate) marked: bool,
}

impl Cause {
    /// The packet with this header.
    pub(crate) fn new(bth: &Bth, marked: bool) -> Cause {
        Cause { psn: Psn::new(bth.psn), before: 0, attempt: bth.attempt, marked }
    }

    /// A packet that is refused.
    pub(crate) fn of(psn: Psn) -> Cause {
        Cause { psn, before: 0, attempt: 0, marked: false }
    }

    /// What the other side is told.
    pub(crate) fn sack(&self) -> SackEth {
        SackEth { psn: self.psn.value(), before: self.before }
    }
}

/// The packets of a run, oldest first.
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
    /// More NACKs than this wait only if nothing can be sent; the oldest count as lost then.
    const MOST: usize = 1_024;

    /// A packet arrived, and this is the answer to it.
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
                if self.nacks.len() >= Acknowledgements::MOST {
                    self.nacks.pop_front();
                }
                self.nacks.push_back(Cause { marked, ..cause });
            }
            Some(_) => self.acknowledge(cause),
            None => {}
        }
    }

    fn acknowledge(&mut self, cause: Cause) {
        let marked = cause.marked || self.ack.is_some_and(|ack| ack.marked);
        self.ack = Some(Cause { marked, ..cause });
    }

    pub(crate) fn is_due(&self) -> bool {
        self.ack.is_some() || !self.nacks.is_empty()
    }

    /// The next one, given the packet that is expected now: whether it is a NACK, and its cause.
    pub(crate) fn next(&mut self, expected: Psn) -> Option<(bool, Cause)> {
        while let Some(cause) = self.nacks.pop_front() {
            if expected.is_before(cause.psn) {
                return Some((true, cause));
            }
            // The hole is filled since: an ACK says as much.
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

    /// What is told, given that `expected` is the next packet: whether it is a NACK, first and last packet, attempt, mark.
    fn told(acks: &mut Acknowledgements, expected: u32) -> Vec<(bool, u32, u32, u8, bool)> {
        let next = std::iter::from_fn(|| acks.next(Psn::new(expected)));
        next.map(|(nack, cause)| {
            let first = run(&cause.sack()).next().map_or(0, Psn::value);
            (nack, first, cause.psn.value(), cause.attempt, cause.marked)
        })
        .collect()
    }

    #[test]
    fn packets_of_one_attempt_that_follow_one_another_share_a_nack() {
        let mut acks = Acknowledgements::default();
        for (psn, attempt, marked) in
            [(5, 0, false), (6, 0, true), (7, 1, false), (8, 1, false), (10, 1, false), (0xff_ffff, 0, false)]
        {
            nack(&mut acks, psn, attempt, marked);
        }
        nack(&mut acks, 0, 0, false);
        assert!(acks.is_due());
        // The last run goes over the end of the numbers. It precedes what is expected, so it says no more than an ACK.
        let expected =
            [(true, 5, 6, 0, true), (true, 7, 8, 1, false), (true, 10, 10, 1, false), (false, 0xff_ffff, 0, 0, false)];
        assert_eq!(told(&mut acks, 1), expected);
        assert!(!acks.is_due());
    }

    #[test]
    fn a_run_has_at_most_as_many_packets_as_its_field_counts() {
        let mut acks = Acknowledgements::default();
        (2..302).for_each(|psn| nack(&mut acks, psn, 0, false));
        assert_eq!(told(&mut acks, 1), [(true, 2, 257, 0, false), (true, 258, 301, 0, false)]);
    }

    #[test]
    fn a_hole_that_is_filled_since_is_told_with_an_ack() {
        let mut acks = Acknowledgements::default();
        nack(&mut acks, 5, 0, true);
        nack(&mut acks, 7, 0, false);
        nack(&mut acks, 9, 2, false);
        assert_eq!(told(&mut acks, 8), [(true, 9, 9, 2, false), (false, 7, 7, 0, true)]);
    }
}
