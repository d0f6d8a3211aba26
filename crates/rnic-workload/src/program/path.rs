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
}

impl Path {
    /// A chain of the step `step` that begins now.
    pub(super) fn new(step: u32, now: Time) -> Path {
        Path { step, origin: now, compute: Time::ZERO, excess: Time::ZERO }
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
}
