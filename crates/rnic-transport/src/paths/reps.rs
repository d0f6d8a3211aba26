//! Recycled entropy packet spraying, REPS (Bonato et al., 2024): a path is used again if its packet arrived without a
//! mark.
//!
//! A ring holds the last [`RING`] good paths. Each good path is used once more, the oldest first; if none is left, the
//! packet takes a path at random. A timeout freezes the ring: for [`PathConfig::freeze`] the sender uses the paths in
//! the ring only, in turn, because these paths are known to work. Afterwards the ring is emptied, and [`TRIES`] packets
//! explore paths at random.

use super::{PathConfig, Random, Signal};
use crate::Time;

/// Number of good paths that the ring holds (uet-htsim; REPS, section 3).
pub(super) const RING: usize = 8;
/// Number of packets that take a path at random after the ring was frozen (uet-htsim).
const TRIES: u32 = 16;

/// A ring of the last good paths, of which each is used once.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    paths: [u16; RING],
    /// Slot that the next good path is written to.
    head: u8,
    /// Number of paths, at the end of the ring, that were not used since they were written.
    fresh: u8,
    /// Number of slots that were ever written.
    filled: u8,
    /// While the ring is frozen: the slot that is used next.
    turn: u8,
}

impl Ring {
    /// Adds a good path; if no slot is free it takes the place of the oldest one.
    pub(super) fn add(&mut self, path: u16) {
        self.paths[usize::from(self.head)] = path;
        self.head = (self.head + 1) % RING as u8;
        self.fresh = (self.fresh + 1).min(RING as u8);
        self.filled = (self.filled + 1).min(RING as u8);
    }

    /// The oldest path that was not used since it was added.
    pub(super) fn take(&mut self) -> Option<u16> {
        if self.fresh == 0 {
            return None;
        }
        let slot = (usize::from(self.head) + RING - usize::from(self.fresh)) % RING;
        self.fresh -= 1;
        Some(self.paths[slot])
    }

    /// The paths of the ring in turn, used or not.
    fn cycle(&mut self) -> Option<u16> {
        if self.filled == 0 {
            return None;
        }
        let path = self.paths[usize::from(self.turn)];
        self.turn = (self.turn + 1) % self.filled;
        Some(path)
    }
}

/// The state of REPS for one flow.
#[derive(Clone, Debug)]
pub(super) struct Reps {
    random: Random,
    paths: u16,
    ring: Ring,
    /// Number of packets that still take a path at random.
    explore: u32,
    freeze: Time,
    /// While the ring is frozen: until when.
    frozen: Option<Time>,
}

impl Reps {
    pub(super) fn new(cfg: &PathConfig, random: Random) -> Reps {
        let (paths, explore, freeze) = (cfg.paths, cfg.explore, cfg.freeze);
        Reps { random, paths, ring: Ring::default(), explore, freeze, frozen: None }
    }

    fn thaw(&mut self, now: Time) {
        if self.frozen.is_some_and(|until| now >= until) {
            self.frozen = None;
            self.ring = Ring::default();
            self.explore = TRIES;
        }
    }

    pub(super) fn next(&mut self, now: Time) -> u16 {
        self.thaw(now);
        let known = match self.frozen {
            Some(_) => self.ring.cycle(),
            None if self.explore > 0 => {
                self.explore -= 1;
                None
            }
            None => self.ring.take(),
        };
        known.unwrap_or_else(|| self.random.below(self.paths.into()) as u16)
    }

    /// A timeout does not freeze the ring while the sender explores, because the ring is then of no use.
    pub(super) fn feedback(&mut self, now: Time, path: u16, signal: Signal) {
        self.thaw(now);
        match signal {
            Signal::Good if self.frozen.is_none() && path < self.paths => self.ring.add(path),
            Signal::Timeout if self.frozen.is_none() && self.explore == 0 => {
                self.frozen = Some(now.saturating_add(self.freeze));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Selection;

    /// REPS over 1,000 paths, whose random paths are 900 and more with a probability of a tenth only.
    fn reps(explore: u32) -> Reps {
        Reps::new(&PathConfig { explore, ..PathConfig::new(Selection::Reps, 1_000) }, Random(1))
    }

    /// The paths that the same random numbers give without a ring.
    fn random(count: usize) -> Vec<u16> {
        let mut random = Random(1);
        (0..count).map(|_| random.below(1_000) as u16).collect()
    }

    const NOW: Time = Time::from_us(5);

    #[test]
    fn good_paths_are_used_once_each_the_oldest_first() {
        let mut reps = reps(0);
        for path in [7, 3, 9] {
            reps.feedback(NOW, path, Signal::Good);
        }
        reps.feedback(NOW, 11, Signal::Marked);
        reps.feedback(NOW, 12, Signal::Lost);
        reps.feedback(NOW, 13, Signal::Trimmed);
        let random = random(2);
        assert_eq!([0; 5].map(|_| reps.next(NOW)), [7, 3, 9, random[0], random[1]]);
    }

    #[test]
    fn the_ring_keeps_the_last_eight_good_paths() {
        let mut reps = reps(0);
        (1..=10).for_each(|path| reps.feedback(NOW, path, Signal::Good));
        assert_eq!([0; 4].map(|_| reps.next(NOW)), [3, 4, 5, 6]);
        reps.feedback(NOW, 11, Signal::Good);
        assert_eq!([0; 5].map(|_| reps.next(NOW)), [7, 8, 9, 10, 11]);
        assert_eq!(reps.next(NOW), random(1)[0]);
    }

    #[test]
    fn the_first_packets_explore() {
        let mut reps = reps(3);
        reps.feedback(NOW, 5, Signal::Good);
        let random = random(3);
        assert_eq!([0; 4].map(|_| reps.next(NOW)), [random[0], random[1], random[2], 5]);
    }

    #[test]
    fn a_timeout_freezes_the_ring_for_ten_ms_and_sixteen_tries_follow() {
        let mut reps = reps(0);
        for path in [7, 3, 9] {
            reps.feedback(NOW, path, Signal::Good);
        }
        assert_eq!(reps.next(NOW), 7);
        reps.feedback(NOW, 500, Signal::Timeout);
        // The ring's three paths in turn, also the one that was used before.
        assert_eq!([0; 7].map(|_| reps.next(NOW)), [7, 3, 9, 7, 3, 9, 7]);
        // While the ring is frozen, good paths do not enter it, and another timeout does not extend the time.
        let late = NOW + Time::from_ms(9);
        reps.feedback(late, 100, Signal::Good);
        reps.feedback(late, 500, Signal::Timeout);
        let last = NOW + Time::from_ms(10) - Time::from_ps(1);
        assert_eq!([0; 3].map(|_| reps.next(last)), [3, 9, 7]);
        let thawed = NOW + Time::from_ms(10);
        let random = random(17);
        let first = reps.next(thawed);
        // A timeout during the tries does not freeze the ring again.
        reps.feedback(thawed, 500, Signal::Timeout);
        reps.feedback(thawed, 42, Signal::Good);
        let tries: Vec<u16> = std::iter::once(first).chain((1..16).map(|_| reps.next(thawed))).collect();
        assert_eq!(tries, random[..16]);
        assert_eq!((reps.next(thawed), reps.next(thawed)), (42, random[16]));
    }

    #[test]
    fn a_frozen_empty_ring_draws_at_random() {
        let mut reps = reps(0);
        reps.feedback(NOW, 500, Signal::Timeout);
        assert_eq!([0; 3].map(|_| reps.next(NOW)).to_vec(), random(3));
    }
}
