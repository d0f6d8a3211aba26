//! Lanes: slices on one track must not overlap, so intervals that overlap are distributed over several tracks.

use rnic_transport::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The lanes of intervals that begin in order of time.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// End of the last interval of each lane, and the lane's number.
    ends: BinaryHeap<Reverse<(Time, u64)>>,
}

impl Lanes {
    /// The number of the lane for an interval: the lane that became free first, or a new one.
    pub(super) fn place(&mut self, from: Time, to: Time) -> u64 {
        let lane = match self.ends.peek() {
            Some(Reverse((end, lane))) if *end <= from => {
                let lane = *lane;
                self.ends.pop();
                lane
            }
            _ => self.ends.len() as u64,
        };
        self.ends.push(Reverse((to.max(from), lane)));
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_intervals_have_lanes_of_their_own() {
        let mut lanes = Lanes::default();
        let us = Time::from_us;
        let places = [(0, 10), (2, 4), (3, 5), (4, 6), (5, 9), (10, 11)];
        assert_eq!(places.map(|(from, to)| lanes.place(us(from), us(to))), [0, 1, 2, 1, 2, 1]);
    }
}
