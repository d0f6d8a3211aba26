//! Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) over the priorities of an output.

use super::{Head, Weights, highest_without_weight};

/// Quantum of a priority of weight 1: the bytes that the priority may send in a round, enough for a frame with a
/// payload of 1,500 bytes.
const QUANTUM: i64 = 1_600;

/// Deficit round robin at all outputs of a switch: the priorities of an output send bytes in proportion to their
/// weights. A priority of weight 0 is served strictly before all others.
pub(crate) struct DeficitRoundRobin {
    weights: Weights,
    priorities: u8,
    /// Per output: the state of its round.
    rounds: Vec<Round>,
}

/// State of deficit round robin at one output.
#[derive(Clone, Copy, Default)]
struct Round {
    /// Per priority: the deficit, that is, the bytes that the priority may still send.
    deficit: [i64; 8],
    /// The priority whose turn it is.
    turn: u8,
    /// Whether the priority whose turn it is has received its quantum in this turn.
    has_quantum: bool,
}

impl DeficitRoundRobin {
    pub(super) fn new(weights: Weights, outputs: usize, priorities: usize) -> DeficitRoundRobin {
        DeficitRoundRobin { weights, priorities: priorities as u8, rounds: vec![Round::default(); outputs] }
    }

    #[inline(never)]
    pub(super) fn next(&mut self, output: usize, sendable: u8, head: impl Fn(usize) -> Head) -> usize {
        if let Some(priority) = highest_without_weight(sendable, &self.weights) {
            return priority;
        }
        let round = &mut self.rounds[output];
        loop {
            let priority = usize::from(round.turn);
            if sendable & (1 << priority) != 0 {
                let deficit = &mut round.deficit[priority];
                if !round.has_quantum {
                    *deficit += i64::from(self.weights[priority]) * QUANTUM;
                    round.has_quantum = true;
                }
                let Head { bytes, is_last } = head(priority);
                if i64::from(bytes) <= *deficit {
                    // A queue that becomes empty keeps no deficit.
                    *deficit = if is_last { 0 } else { *deficit - i64::from(bytes) };
                    return priority;
                }
            }
            round.has_quantum = false;
            round.turn = if round.turn + 1 == self.priorities { 0 } else { round.turn + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a quantum of 1,600 bytes, a priority of weight 1 sends four packets of 400 bytes per round, and a priority
    /// of weight 3 sends three packets of 1,600 bytes.
    #[test]
    fn shares_are_of_bytes_whatever_the_packets_sizes() {
        let mut scheduler = DeficitRoundRobin::new([1, 3, 0, 0, 0, 0, 0, 0], 1, 2);
        let bytes = [400, 1_600];
        let head = |priority: usize| Head { bytes: bytes[priority], is_last: false };
        let turns: Vec<usize> = (0..14).map(|_| scheduler.next(0, 0b11, head)).collect();
        assert_eq!(turns, [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn an_empty_queue_keeps_no_deficit() {
        let mut scheduler = DeficitRoundRobin::new([1; 8], 1, 2);
        let of = |bytes, is_last| move |_| Head { bytes, is_last };
        // If the queue kept its deficit, 1,600 - 100 bytes would be left of the first quantum. With a new quantum,
        // 3,100 bytes would be enough for two packets of 1,500 bytes.
        assert_eq!(scheduler.next(0, 0b01, of(100, true)), 0);
        assert_eq!(scheduler.next(0, 0b10, of(1_500, false)), 1);
        let turns: Vec<usize> = (0..4).map(|_| scheduler.next(0, 0b11, of(1_500, false))).collect();
        assert_eq!(turns, [0, 1, 0, 1]);
    }
}
