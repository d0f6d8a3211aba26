//! What a loss of chunks means: whether it is a sign of congestion, and when a chunk that is lost again and again is
//! transmitted once more.
//!
//! A network may lose packets at random, and a congestion control that halves its window at each loss then falls to a
//! small fraction of the link. So single losses do not reach the congestion control, but many do
//! ([`Config::loss_tolerance`](super::Config::loss_tolerance)); BBR's second version tolerates losses in the same way.
//!
//! Without a congestion control, or where buffers are smaller than the chunks of several senders, chunks can be lost as
//! often as they are transmitted, for as long as all senders go on. So a chunk that was lost [`CALM`] times is
//! transmitted alone, after a random time whose maximum doubles with each further loss (binary exponential backoff, as
//! in Ethernet).

use rnic_transport::Time;

/// Number of chunks over which losses are counted.
const WINDOW: u32 = 128;
/// A chunk that was transmitted this often is transmitted alone.
pub(super) const CALM: u32 = 8;
/// Maximum exponent of the backoff: up to 1,024 round-trip times.
const MAX_EXPONENT: u32 = 10;

#[derive(Default, Debug)]
pub(super) struct Losses {
    seen: u32,
    lost: u32,
    /// The chunk that is transmitted alone, until it is acknowledged or lost.
    pub(super) alone: Option<u64>,
    /// No chunk is transmitted alone before this time.
    pub(super) not_before: Time,
}

impl Losses {
    /// Notes what an acknowledgement shows. Returns whether the losses exceed the share `tolerance`.
    pub(super) fn exceed(&mut self, acked: u32, lost: u32, tolerance: f64) -> bool {
        self.seen += acked + lost;
        self.lost += lost;
        let exceeds = lost > 0 && f64::from(self.lost) > tolerance * f64::from(WINDOW);
        if exceeds || self.seen >= WINDOW {
            (self.seen, self.lost) = (0, 0);
        }
        exceeds
    }

    /// A chunk was lost for the `attempts`-th time. `random` are 64 random bits.
    pub(super) fn back_off(&mut self, attempts: u32, now: Time, rtt: Time, random: u64) {
        if let Some(more) = attempts.checked_sub(CALM) {
            let slots = 1 << (more + 1).min(MAX_EXPONENT);
            self.not_before = self.not_before.max(now + rtt * (random % slots));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_losses_are_tolerated_and_many_are_not() {
        let mut losses = Losses::default();
        // 8 of 128 chunks are tolerated, the ninth is not.
        let signals: Vec<bool> = (0..9).map(|_| losses.exceed(2, 1, 1.0 / 16.0)).collect();
        assert_eq!(signals, [vec![false; 8], vec![true]].concat());
        // One in 32 is never too many.
        assert!((0..1_000).all(|_| !losses.exceed(31, 1, 1.0 / 16.0)));
        assert!(losses.exceed(0, 1, 0.0), "without tolerance every loss counts");
    }

    #[test]
    fn the_backoff_doubles() {
        let mut losses = Losses::default();
        let us = Time::from_us;
        losses.back_off(CALM - 1, us(5), us(10), u64::MAX);
        assert_eq!(losses.not_before, Time::ZERO);
        losses.back_off(CALM, us(5), us(10), u64::MAX);
        assert_eq!(losses.not_before, us(15), "one of two slots");
        losses.back_off(CALM + 2, us(5), us(10), u64::MAX);
        assert_eq!(losses.not_before, us(75), "the last of eight");
        losses.back_off(50, us(5), us(10), 1_023);
        assert_eq!(losses.not_before, us(10_235));
    }
}
