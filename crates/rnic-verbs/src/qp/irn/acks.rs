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
