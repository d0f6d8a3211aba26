//! One path per flow, drawn at random: what a NIC does that gives each flow one UDP source port.

use super::{PathConfig, Random};

/// The path of one flow.
#[derive(Clone, Debug)]
pub(super) struct Ecmp(u16);

impl Ecmp {
    pub(super) fn new(cfg: &PathConfig, mut random: Random) -> Ecmp {
        Ecmp(random.below(cfg.paths.into()) as u16)
    }

    pub(super) fn next(&self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use crate::Time;
    use crate::paths::tests::draw;
    use crate::paths::{PathConfig, PathState, Selection, Signal};

    #[test]
    fn a_flow_keeps_its_path_and_flows_differ() {
        let mut used = [0; 8];
        for seed in 0..800 {
            let mut paths = PathState::new(&PathConfig::new(Selection::Ecmp, 8), seed);
            let first = paths.next(Time::ZERO);
            paths.feedback(Time::ZERO, first, Signal::Timeout);
            assert_eq!(draw(&mut paths, 3), [first; 3]);
            used[usize::from(first)] += 1;
        }
        // 800 draws from 8 paths: 100 each, with a standard deviation of 9.4.
        assert!(used.iter().all(|count| (60..140).contains(count)), "{used:?}");
    }
}
