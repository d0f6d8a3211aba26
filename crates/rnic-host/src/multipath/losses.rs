//! Evaluates losses of chunks: decides whether they are a sign of congestion, and when to retransmit a chunk that is
//! lost repeatedly.
//!
//! A network may lose packets at random, and a congestion control that halves its window at each loss then falls to a
//! small fraction of the link. So single losses are not reported to the congestion control, but frequent losses are
//! ([`Config::loss_tolerance`](super::Config::loss_tolerance)); BBR's second version tolerates losses in the same way.
//!
//! Without a congestion control, or where buffers are smaller than the chunks of several senders, chunks can be lost as
//! often as they are transmitted, as long as all senders continue. So a chunk that was lost [`CALM`] times is
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

/// The length of new chunks. A chunk is lost if one of its packets is lost, so at a packet loss of 5 % a chunk of 24
/// packets arrives in 29 % of all cases, and a chunk of one packet in 95 %.
#[derive(Debug)]
pub(super) struct ChunkLength {
    current: u32,
    max: u32,
    /// Number of chunks with about the current length that were acknowledged or lost, and the number of lost chunks
    /// among them.
    seen: u32,
    lost: u32,
}

impl ChunkLength {
    pub(super) fn new(max: u32) -> ChunkLength {
        ChunkLength { current: max, max, seen: 0, lost: 0 }
    }

    /// The length of the next chunk in bytes.
    pub(super) fn get(&self) -> u32 {
        self.current
    }

    /// Records that a chunk of `len` bytes was acknowledged or lost. More losses than the share `tolerance` halve the
    /// length, down to a packet of `mtu` bytes. Less than a quarter of this share doubles it: chunks of twice the
    /// length are lost about twice as often, so a length that was doubled is not halved immediately.
    pub(super) fn sample(&mut self, len: u32, is_lost: bool, tolerance: f64, mtu: u32) {
        // Other chunks say nothing about this length: they are older, or the last of their messages.
        if len > self.current || len <= self.current / 2 {
            return;
        }
        self.seen += 1;
        self.lost += u32::from(is_lost);
        let exceeds = f64::from(self.lost) > tolerance * f64::from(WINDOW);
        if !exceeds && self.seen < WINDOW {
            return;
        }
        if exceeds {
            self.current = (self.current / 2).max(mtu).min(self.max);
        } else if f64::from(self.lost) < tolerance / 4.0 * f64::from(WINDOW) || tolerance == 0.0 {
            self.current = self.current.saturating_mul(2).min(self.max);
        }
        (self.seen, self.lost) = (0, 0);
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

    /// Samples of chunks with a certain number of lost ones among 100.
    fn lengths(length: &mut ChunkLength, lost_of_100: u32, chunks: u32) -> u32 {
        for chunk in 0..chunks {
            length.sample(length.get(), chunk % 100 < lost_of_100, 1.0 / 16.0, 1_024);
        }
        length.get()
    }

    #[test]
    fn chunks_are_as_long_as_losses_permit() {
        let mut length = ChunkLength::new(32_768);
        assert_eq!(lengths(&mut length, 3, 10_000), 32_768, "3 % are neither many nor few");
        assert_eq!(lengths(&mut length, 80, 9), 16_384, "nine of 128 chunks");
        assert_eq!(lengths(&mut length, 80, 1_000), 1_024, "a packet");
        assert_eq!(lengths(&mut length, 3, 10_000), 1_024);
        assert_eq!(lengths(&mut length, 0, 128), 2_048);
        assert_eq!(lengths(&mut length, 1, 10_000), 32_768);
        // The last chunks of messages, and chunks from before, change nothing.
        for other in [16_384, 100, 65_536] {
            (0..1_000).for_each(|_| length.sample(other, true, 1.0 / 16.0, 1_024));
        }
        assert_eq!(length.get(), 32_768);
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
