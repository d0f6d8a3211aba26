//! Weighted round robin over the priorities of an output, packet by packet.

use super::{Weights, highest_without_weight};

/// Weighted round robin at all outputs of a switch: the priorities of an output send packets in proportion to their
/// weights. A priority of weight 0 is served strictly before all others.
pub(crate) struct WeightedRoundRobin {
    weights: Weights,
    priorities: u8,
    /// Per output: the turn of the current priority.
    turns: Vec<Turn>,
}

/// The turn of one priority at one output.
#[derive(Clone, Copy, Default)]
struct Turn {
    priority: u8,
    /// Number of packets that the priority has sent in this turn.
    sent: u32,
}

impl WeightedRoundRobin {
    pub(super) fn new(weights: Weights, outputs: usize, priorities: usize) -> WeightedRoundRobin {
        WeightedRoundRobin { weights, priorities: priorities as u8, turns: vec![Turn::default(); outputs] }
    }

    #[inline(never)]
    pub(super) fn next(&mut self, output: usize, sendable: u8) -> usize {
        if let Some(priority) = highest_without_weight(sendable, &self.weights) {
            return priority;
        }
        let turn = &mut self.turns[output];
        loop {
            let priority = usize::from(turn.priority);
            if sendable & (1 << priority) != 0 && turn.sent < self.weights[priority] {
                turn.sent += 1;
                return priority;
            }
            let next = if turn.priority + 1 == self.priorities { 0 } else { turn.priority + 1 };
            *turn = Turn { priority: next, sent: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_packets() {
        let mut scheduler = WeightedRoundRobin::new([1, 3, 2, 0, 0, 0, 0, 0], 1, 4);
        let turns: Vec<usize> = (0..8).map(|_| scheduler.next(0, 0b0111)).collect();
        assert_eq!(turns, [0, 1, 1, 1, 2, 2, 0, 1]);
        // A priority of weight 0 goes first and takes no turn. A priority without packets loses the rest of its turn.
        assert_eq!([0b1111, 0b0111, 0b0101, 0b0111].map(|sendable| scheduler.next(0, sendable)), [3, 1, 2, 2]);
        // Alone, a priority sends without pause.
        assert!((0..10).all(|_| scheduler.next(0, 0b0001) == 0));
    }
}
