//! Spraying without the paths of recent trouble: a bitmap of penalties over the laps of oblivious spraying (uet-htsim).
//!
//! Each path has a penalty. A lap that comes to a path with a penalty skips this path and decrements its penalty, so a
//! path with penalty n is left out of n laps.

use super::oblivious::Oblivious;
use super::{PathConfig, Random, Signal};

/// Penalty of a path for a CE mark (uet-htsim).
const MARKED: u8 = 1;
/// Penalty of a path for a packet that was trimmed or lost (uet-htsim: a NACK).
const LOST: u8 = 4;
/// Penalty of a path for a timeout, and the maximum that penalties of one path add up to (uet-htsim).
const TIMEOUT: u8 = 15;

/// The laps over all paths, and the penalty of each path.
#[derive(Clone, Debug)]
pub(super) struct Bitmap {
    laps: Oblivious,
    /// Number of laps that skip each path.
    penalties: Box<[u8]>,
}

impl Bitmap {
    pub(super) fn new(cfg: &PathConfig, random: Random) -> Bitmap {
        Bitmap { laps: Oblivious::new(cfg, random), penalties: vec![0; cfg.paths.into()].into() }
    }

    /// The next path without a penalty. If all paths have penalties, the path at which a whole lap ends.
    pub(super) fn next(&mut self) -> u16 {
        let mut path = self.laps.next();
        for _ in 1..self.laps.paths() {
            let penalty = &mut self.penalties[usize::from(path)];
            if *penalty == 0 {
                break;
            }
            *penalty -= 1;
            path = self.laps.next();
        }
        path
    }

    pub(super) fn feedback(&mut self, path: u16, signal: Signal) {
        let more = match signal {
            Signal::Good => return,
            Signal::Marked => MARKED,
            Signal::Trimmed | Signal::Lost => LOST,
            Signal::Timeout => TIMEOUT,
        };
        if let Some(penalty) = self.penalties.get_mut(usize::from(path)) {
            *penalty = (*penalty + more).min(TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(paths: u16) -> Bitmap {
        Bitmap::new(&PathConfig { paths, ..PathConfig::default() }, Random(5))
    }

    /// In which of the first `laps` laps over 4 paths path 2 is used, if it has the penalty of `signals` at the start.
    fn laps_with_path_two(signals: &[Signal], laps: usize) -> Vec<usize> {
        let mut bitmap = with(4);
        for signal in signals {
            bitmap.feedback(2, *signal);
        }
        let mut used = Vec::new();
        for lap in 0..laps {
            // A lap has four paths; while path 2 has a penalty the other three are used.
            let skips = bitmap.penalties[2] > 0;
            let mut seen: Vec<u16> = (0..if skips { 3 } else { 4 }).map(|_| bitmap.next()).collect();
            seen.sort_unstable();
            // The penalty of a lap that ends with path 2 is decremented when the next lap begins.
            if seen.contains(&2) {
                used.push(lap);
            } else {
                assert_eq!(seen, [0, 1, 3]);
            }
        }
        used
    }

    #[test]
    fn penalties_are_marks_losses_and_timeouts_with_a_maximum() {
        let after = |signals: &[Signal]| {
            let mut bitmap = with(4);
            signals.iter().for_each(|signal| bitmap.feedback(2, *signal));
            bitmap.penalties.to_vec()
        };
        assert_eq!(after(&[Signal::Good]), [0, 0, 0, 0]);
        assert_eq!(after(&[Signal::Marked]), [0, 0, 1, 0]);
        assert_eq!(after(&[Signal::Marked, Signal::Marked, Signal::Lost]), [0, 0, 6, 0]);
        assert_eq!(after(&[Signal::Trimmed]), [0, 0, 4, 0]);
        assert_eq!(after(&[Signal::Timeout]), [0, 0, 15, 0]);
        assert_eq!(after(&[Signal::Lost; 4]), [0, 0, 15, 0]);
    }

    #[test]
    fn a_path_is_left_out_of_as_many_laps_as_its_penalty() {
        assert_eq!(laps_with_path_two(&[], 3), [0, 1, 2]);
        let mut bitmap = with(4);
        bitmap.feedback(2, Signal::Lost);
        // Four laps without path 2 are 12 packets; then 12 packets of three laps with it.
        let paths: Vec<u16> = (0..24).map(|_| bitmap.next()).collect();
        assert_eq!(paths[..12].iter().filter(|path| **path == 2).count(), 0);
        assert_eq!(paths[12..].iter().filter(|path| **path == 2).count(), 3);
        assert_eq!(bitmap.penalties[2], 0);
    }

    #[test]
    fn a_packet_is_sent_even_if_all_paths_have_penalties() {
        let mut bitmap = with(4);
        (0..4).for_each(|path| bitmap.feedback(path, Signal::Timeout));
        bitmap.next();
        // The three paths before the one that the packet takes were skipped.
        assert_eq!(bitmap.penalties.iter().map(|penalty| u32::from(*penalty)).sum::<u32>(), 4 * 15 - 3);
    }
}
