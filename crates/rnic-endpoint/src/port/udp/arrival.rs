//! Converts the kernel's receive time stamps to the system's monotonic clock.
//!
//! The kernel counts its time stamps in real time (`CLOCK_REALTIME`), which an administrator can set. So the offset
//! between the two clocks is measured whenever datagrams are received, and time stamps from before a change are not
//! used.

use crate::clock::{monotonic_ns, real_ns};

/// Duration in nanoseconds of a measurement that needs no repetition.
const QUICK_NS: u64 = 1_000;
/// Maximum number of measurements for one offset. More than one is needed if the thread lost its processor between the
/// readings of the two clocks.
const ATTEMPTS: usize = 4;
/// Maximum difference in nanoseconds between two measured offsets, beyond the durations of both measurements, that does
/// not count as a change. Both clocks run at the same speed, so only their resolutions differ.
const TOLERANCE_NS: u64 = 2_000;

/// The offset between real and monotonic time.
#[derive(Clone, Copy, Debug)]
struct Offset {
    /// Real time minus monotonic time, in nanoseconds, modulo 2^64.
    ns: u64,
    /// Duration of the measurement in nanoseconds: the offset may be wrong by half of it.
    width_ns: u64,
    /// Monotonic time of the measurement in nanoseconds.
    at_ns: u64,
}

impl Offset {
    fn measure() -> Offset {
        let mut best = Offset::measure_once();
        for _ in 1..ATTEMPTS {
            if best.width_ns <= QUICK_NS {
                break;
            }
            let next = Offset::measure_once();
            best = if next.width_ns < best.width_ns { next } else { best };
        }
        best
    }

    fn measure_once() -> Offset {
        let before = monotonic_ns();
        let real = real_ns();
        let after = monotonic_ns();
        let width_ns = after.saturating_sub(before);
        Offset { ns: real.wrapping_sub(before + width_ns / 2), width_ns, at_ns: after }
    }

    fn is_same(&self, other: &Offset) -> bool {
        let difference = (self.ns.wrapping_sub(other.ns) as i64).unsigned_abs();
        difference <= TOLERANCE_NS + self.width_ns + other.width_ns
    }
}

/// Converts the time stamps of one socket.
#[derive(Debug)]
pub(super) struct ArrivalClock {
    offset: Offset,
    /// Whether real time has not been set since the oldest datagram arrived that the socket may hold.
    is_steady: bool,
}

impl ArrivalClock {
    /// A clock for a socket that is about to be bound.
    pub(super) fn new() -> ArrivalClock {
        ArrivalClock { offset: Offset::measure(), is_steady: true }
    }

    /// Notes that the socket holds no datagrams.
    pub(super) fn on_empty(&mut self) {
        *self = ArrivalClock::new();
    }

    /// Converts the time stamp of a datagram that was just received, in nanoseconds of real time, to monotonic time;
    /// `None` if real time may have been set since the datagram arrived.
    pub(super) fn convert(&mut self, real_ns: u64) -> Option<u64> {
        self.convert_with(Offset::measure(), real_ns)
    }

    fn convert_with(&mut self, offset: Offset, real_ns: u64) -> Option<u64> {
        self.is_steady &= offset.is_same(&self.offset);
        self.offset = offset;
        // The error of the offset must not make a datagram arrive after it was received.
        self.is_steady.then(|| real_ns.wrapping_sub(offset.ns).min(offset.at_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(ns: u64, at_ns: u64) -> Offset {
        Offset { ns, width_ns: 100, at_ns }
    }

    #[test]
    fn a_time_stamp_is_converted() {
        let mut clock = ArrivalClock { offset: offset(1_000_000, 5_000), is_steady: true };
        assert_eq!(clock.convert_with(offset(1_000_050, 9_000), 1_007_050), Some(7_000));
        // The error of the measurement would make the arrival later than its reception.
        assert_eq!(clock.convert_with(offset(1_000_000, 9_500), 1_009_700), Some(9_500));
    }

    #[test]
    fn time_stamps_from_before_a_change_of_real_time_are_not_used() {
        let mut clock = ArrivalClock { offset: offset(1_000_000_000, 0), is_steady: true };
        assert_eq!(
            clock.convert_with(offset(1_000_002_200, 50_000), 1_000_012_200),
            Some(10_000),
            "2 us and two widths"
        );
        assert_eq!(clock.convert_with(offset(1_000_004_401, 60_000), 1_000_055_000), None, "1 ns more");
        assert_eq!(clock.convert_with(offset(1_000_004_401, 70_000), 1_000_065_000), None, "the next may be older");
        clock.on_empty();
        assert!(clock.is_steady);
        let (before, stamp) = (monotonic_ns(), real_ns());
        let found = clock.convert(stamp).unwrap();
        assert!(before.abs_diff(found) < 1_000_000_000, "{before} {found}");
    }
}
