//! Strict priority with a bound: the highest priority of the switch must not starve all others.

use super::highest;

/// Strict priority, except that an output sends at most `max` packets of the highest priority in a row while packets of
/// other priorities wait.
pub(crate) struct BoundedStrict {
    max: u32,
    /// The bounded priority: the highest priority of the switch.
    highest: usize,
    /// Per output: number of packets of the bounded priority that it has sent in a row while packets of other
    /// priorities waited.
    in_a_row: Vec<u32>,
}

impl BoundedStrict {
    pub(super) fn new(max: u32, outputs: usize, priorities: usize) -> BoundedStrict {
        BoundedStrict { max, highest: priorities - 1, in_a_row: vec![0; outputs] }
    }

    #[inline]
    pub(super) fn next(&mut self, output: usize, sendable: u8) -> usize {
        let first = highest(sendable);
        let others = sendable & !(1 << first);
        let in_a_row = &mut self.in_a_row[output];
        if first < self.highest || others == 0 {
            *in_a_row = 0;
            return first;
        }
        if *in_a_row < self.max {
            *in_a_row += 1;
            return first;
        }
        *in_a_row = 0;
        highest(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_get_a_turn_after_the_bound() {
        let mut scheduler = BoundedStrict::new(2, 2, 3);
        let turns: Vec<usize> = (0..7).map(|_| scheduler.next(1, 0b111)).collect();
        assert_eq!(turns, [2, 2, 1, 2, 2, 1, 2]);
        // The bound applies to the switch's highest priority alone. A turn in which no other priority waits resets the
        // count.
        let below: Vec<usize> = (0..4).map(|_| scheduler.next(0, 0b011)).collect();
        assert_eq!(below, [1; 4]);
        assert_eq!([0b100, 0b110, 0b110, 0b110].map(|sendable| scheduler.next(1, sendable)), [2, 2, 2, 1]);
    }
}
