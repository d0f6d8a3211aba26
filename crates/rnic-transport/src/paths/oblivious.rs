//! Oblivious spraying: every path once per lap. The order within a lap is a counter XOR a random mask, and each lap has
//! a new mask (uet-htsim).

use super::{PathConfig, Random};

/// The order in which laps visit all paths.
#[derive(Clone, Debug)]
pub(super) struct Oblivious {
    random: Random,
    paths: u16,
    /// Number of candidates per lap: `paths` rounded up to a power of two. A candidate that is no path is skipped.
    span: u32,
    /// The next candidate is `counter` XOR `mask`.
    counter: u32,
    mask: u32,
}

impl Oblivious {
    pub(super) fn new(cfg: &PathConfig, mut random: Random) -> Oblivious {
        let span = u32::from(cfg.paths).next_power_of_two();
        let mask = random.below(span);
        Oblivious { random, paths: cfg.paths, span, counter: 0, mask }
    }

    pub(super) fn next(&mut self) -> u16 {
        loop {
            let candidate = self.counter ^ self.mask;
            self.counter += 1;
            if self.counter == self.span {
                self.counter = 0;
                self.mask = self.random.below(self.span);
            }
            if candidate < u32::from(self.paths) {
                return candidate as u16;
            }
        }
    }

    /// Number of paths.
    pub(super) fn paths(&self) -> u16 {
        self.paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(paths: u16, mask: u32) -> Oblivious {
        Oblivious { mask, ..Oblivious::new(&PathConfig { paths, ..PathConfig::default() }, Random(1)) }
    }

    #[test]
    fn a_lap_is_the_counter_xor_the_mask() {
        let mut lap = with(8, 5);
        // 0..8 XOR 5
        assert_eq!((0..8).map(|_| lap.next()).collect::<Vec<_>>(), [5, 4, 7, 6, 1, 0, 3, 2]);
        assert_eq!(lap.counter, 0);
    }

    #[test]
    fn a_lap_skips_candidates_that_are_no_paths() {
        let mut lap = with(6, 3);
        // 0..8 XOR 3 = 3 2 1 0 7 6 5 4, without 7 and 6
        assert_eq!((0..6).map(|_| lap.next()).collect::<Vec<_>>(), [3, 2, 1, 0, 5, 4]);
    }

    #[test]
    fn every_lap_has_each_path_once_in_a_new_order() {
        let mut spray = with(128, 0);
        let laps: Vec<Vec<u16>> = (0..4).map(|_| (0..128).map(|_| spray.next()).collect()).collect();
        for lap in &laps {
            let mut sorted = lap.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..128).collect::<Vec<_>>());
        }
        assert!(laps[1] != laps[0] || laps[2] != laps[0]);
    }
}
