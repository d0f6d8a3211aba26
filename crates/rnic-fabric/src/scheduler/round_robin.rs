//! Round robin over the priorities of an output, packet by packet.

/// Round robin at all outputs of a switch: each priority that has a packet sends one packet in its turn. Turns go from
/// the lowest priority to the highest, and then start again.
pub(crate) struct RoundRobin {
    /// Per output: the priority to try first.
    turn: Vec<u8>,
}

impl RoundRobin {
    pub(super) fn new(outputs: usize) -> RoundRobin {
        RoundRobin { turn: vec![0; outputs] }
    }

    #[inline(never)]
    pub(super) fn next(&mut self, output: usize, sendable: u8) -> usize {
        let turn = &mut self.turn[output];
        let from_turn = sendable & (u8::MAX << *turn);
        let priority = if from_turn != 0 { from_turn } else { sendable }.trailing_zeros();
        *turn = (priority as u8 + 1) % 8;
        priority as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_take_turns_and_outputs_do_not_share_them() {
        let mut scheduler = RoundRobin::new(2);
        let turns: Vec<usize> = (0..5).map(|_| scheduler.next(0, 0b1000_0101)).collect();
        assert_eq!(turns, [0, 2, 7, 0, 2]);
        assert_eq!(scheduler.next(1, 0b1000_0101), 0);
        // A priority without packets loses its turn.
        assert_eq!([0b1000_0011, 0b11, 0b11].map(|sendable| scheduler.next(0, sendable)), [7, 0, 1]);
    }
}
