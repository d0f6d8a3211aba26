//! The critical path: the chain of computations and messages that leads to an event, of which each begins when the
//! previous one ends.
//!
//! A path is carried forward: an operation that waits for several others begins with the path of the last one that
//! completes. So the critical path of a step needs no memory beyond that of the open operations.

use rnic_spec::{ExcessRecord, PathRecord};
use rnic_transport::Time;

/// The time by which messages are slower, and its parts as far as they are measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Excess {
    time: Time,
    /// Queueing, pauses, retransmission.
    parts: [Time; 3],
}

impl Excess {
    fn plus(self, time: Time, parts: [Time; 3]) -> Excess {
        let sum = |part: usize| self.parts[part].saturating_add(parts[part]);
        Excess { time: self.time.saturating_add(time), parts: [sum(0), sum(1), sum(2)] }
    }

    fn minus(self, other: Excess) -> Excess {
        let rest = |part: usize| self.parts[part].saturating_sub(other.parts[part]);
        Excess { time: self.time.saturating_sub(other.time), parts: [rest(0), rest(1), rest(2)] }
    }
}

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
    excess: Excess,
    /// Time at which a rank begins the collective operation to which the end of the chain belongs, and the `excess` of
    /// the chain at this time.
    opened: Time,
    opened_excess: Excess,
}

impl Path {
    /// A chain of the step `step` that begins now.
    pub(super) fn new(step: u32, now: Time) -> Path {
        let (compute, excess) = (Time::ZERO, Excess::default());
        Path { step, origin: now, compute, excess, opened: now, opened_excess: excess }
    }

    /// The same chain if it belongs to the step `step`, or one that begins now.
    pub(super) fn in_step(self, step: u32, now: Time) -> Path {
        if self.step == step { self } else { Path::new(step, now) }
    }

    /// The chain after a computation of length `time`.
    pub(super) fn computed(self, time: Time) -> Path {
        Path { compute: self.compute.saturating_add(time), ..self }
    }

    /// The chain after a message that is slower by `excess` than on an empty fabric, with these parts: queueing,
    /// pauses, retransmission.
    pub(super) fn delayed(self, excess: Time, parts: [Time; 3]) -> Path {
        Path { excess: self.excess.plus(excess, parts), ..self }
    }

    /// The chain at the beginning of a collective operation.
    pub(super) fn open(self, now: Time) -> Path {
        Path { opened: now, opened_excess: self.excess, ..self }
    }

    /// The part of the chain since the beginning of the collective operation. Ranks do not compute on it.
    pub(super) fn since_opened(self) -> Path {
        let Path { step, opened, excess, opened_excess, .. } = self;
        Path { excess: excess.minus(opened_excess), ..Path::new(step, opened) }
    }

    /// The parts of the time from `start`, at which the first rank began the step, to `now`, at which the chain ends.
    /// The sum of the parts is exactly this time. `splits_excess` says whether the parts of the excess are measured.
    pub(super) fn record(self, start: Time, now: Time, splits_excess: bool) -> PathRecord {
        let Path { origin, compute, excess, .. } = self;
        let Excess { time: excess, parts: [queueing, pause, retransmission] } = excess;
        let known = origin.saturating_add(compute).saturating_add(excess);
        let parts = splits_excess.then_some(ExcessRecord { queueing, pause, retransmission });
        PathRecord {
            late: origin.saturating_sub(start),
            compute,
            network: now.saturating_sub(known),
            excess,
            excess_parts: parts,
        }
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
        let path = Path::new(2, us(7)).computed(us(10)).delayed(us(1), [us(0); 3]);
        let record = path.record(us(5), us(21), false);
        assert_eq!(
            record,
            PathRecord { late: us(2), compute: us(10), network: us(3), excess: us(1), excess_parts: None }
        );
        assert_eq!(path.in_step(2, us(30)), path);
        assert_eq!(path.in_step(3, us(30)).record(us(30), us(30), false), PathRecord::default());
    }

    #[test]
    fn a_collective_operation_begins_a_chain_of_its_own() {
        let us = Time::from_us;
        // The first rank begins the operation at 18 us; the chain goes through a rank that begins at 21, and sends a
        // message that takes 5 us instead of 3.
        let path = Path::new(2, us(7))
            .computed(us(10))
            .delayed(us(1), [us(0); 3])
            .open(us(21))
            .delayed(us(2), [us(2), us(0), us(0)]);
        let parts = PathRecord { late: us(3), compute: us(0), network: us(3), excess: us(2), excess_parts: None };
        assert_eq!(path.since_opened().record(us(18), us(26), false), parts);
        let step = PathRecord { late: us(0), compute: us(10), network: us(6), excess: us(3), excess_parts: None };
        assert_eq!(path.record(us(7), us(26), false), step);
    }
}
