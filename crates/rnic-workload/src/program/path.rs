//! The critical path: the chain of computations and messages that leads to an event, of which each begins when the
//! previous one ends.
//!
//! A path is carried forward: an operation that waits for several others begins with the path of the last one that
//! completes. So the critical path of a step needs no memory beyond that of the open operations.

use rnic_spec::PathRecord;
use rnic_transport::Time;

/// The chain of computations and messages that ends now, from its beginning in the same step on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Path {
    /// Step of a program of tasks, or repetition of a collective operation.
    pub step: u32,
    /// Time at which the chain begins: when its first rank begins the step.
    origin: Time,
    /// Time for which ranks compute on the chain.
    compute: Time,
    /// Time by which messages of the chain are slower than on an empty fabric.
    excess: Time,
    /// Time at which a rank begins the collective operation to which the end of the chain belongs, and the `excess` of
    /// the chain at this time.
    opened: Time,
    opened_excess: Time,
}

impl Path {
    /// A chain of the step `step` that begins now.
    pub(super) fn new(step: u32, now: Time) -> Path {
        let zero = Time::ZERO;
        Path { step, origin: now, compute: zero, excess: zero, opened: now, opened_excess: zero }
    }

    /// The same chain if it belongs to the step `step`, or one that begins now.
    pub(super) fn in_step(self, step: u32, now: Time) -> Path {
        if self.step == step { self } else { Path::new(step, now) }
    }

    /// The chain after a computation of length `time`.
    pub(super) fn computed(self, time: Time) -> Path {
        Path { compute: self.compute.saturating_add(time), ..self }
    }

    /// The chain after a message that is slower by `excess` than on an empty fabric.
    pub(super) fn delayed(self, excess: Time) -> Path {
        Path { excess: self.excess.saturating_add(excess), ..self }
    }

    /// The chain at the beginning of a collective operation.
    pub(super) fn open(self, now: Time) -> Path {
        Path { opened: now, opened_excess: self.excess, ..self }
    }

    /// The part of the chain since the beginning of the collective operation. Ranks do not compute on it.
    pub(super) fn since_opened(self) -> Path {
        let Path { step, opened, excess, opened_excess, .. } = self;
        Path::new(step, opened).delayed(excess.saturating_sub(opened_excess))
    }

    /// The parts of the time from `start`, at which the first rank began the step, to `now`, at which the chain ends.
    /// The sum of the parts is exactly this time.
    pub(super) fn record(self, start: Time, now: Time) -> PathRecord {
        let Path { origin, compute, excess, .. } = self;
        let known = origin.saturating_add(compute).saturating_add(excess);
        PathRecord { late: origin.saturating_sub(start), compute, network: now.saturating_sub(known), excess }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_path_are_the_whole_time() {
        let us = Time::from_us;
        // The first rank begins at 5 us; the chain begins at 7, computes for 10, and sends a message that takes 4 us
        // instead of 3.
        let path = Path::new(2, us(7)).computed(us(10)).delayed(us(1));
        let record = path.record(us(5), us(21));
        assert_eq!(record, PathRecord { late: us(2), compute: us(10), network: us(3), excess: us(1) });
        assert_eq!(path.in_step(2, us(30)), path);
        assert_eq!(path.in_step(3, us(30)).record(us(30), us(30)), PathRecord::default());
    }

    #[test]
    fn a_collective_operation_begins_a_chain_of_its_own() {
        let us = Time::from_us;
        // The first rank begins the operation at 18 us; the chain goes through a rank that begins at 21, and sends a
        // message that takes 5 us instead of 3.
        let path = Path::new(2, us(7)).computed(us(10)).delayed(us(1)).open(us(21)).delayed(us(2));
        let parts = PathRecord { late: us(3), compute: us(0), network: us(3), excess: us(2) };
        assert_eq!(path.since_opened().record(us(18), us(26)), parts);
        let step = PathRecord { late: us(0), compute: us(10), network: us(6), excess: us(3) };
        assert_eq!(path.record(us(7), us(26)), step);
    }
}
