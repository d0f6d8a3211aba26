//! Arbitration among the inputs of an input-queued switch.
//!
//! A *lane* is one priority of one output. The scheduler of the output has chosen the priority; the arbiter then
//! chooses the input that sends. The arbiter serves the inputs that have packets in the lane in round-robin order, one
//! packet in each turn.

/// The arbiters of all lanes of a switch.
pub(super) struct InputArbiter {
    inputs: usize,
    /// Per lane: bitmap of the inputs that have packets in the lane, `words` words long.
    waiting: Vec<u64>,
    words: usize,
    /// Per lane: the input at which the search for the next sender starts.
    turn: Vec<u32>,
}

impl InputArbiter {
    pub(super) fn new(lanes: usize, inputs: usize) -> InputArbiter {
        let words = inputs.div_ceil(64);
        InputArbiter { inputs, waiting: vec![0; lanes * words], words, turn: vec![0; lanes] }
    }

    /// Records that `input`, which had no packet in the lane, now has one.
    #[inline(always)]
    pub(super) fn join(&mut self, lane: usize, input: usize) {
        self.waiting[lane * self.words + input / 64] |= 1 << (input % 64);
    }

    /// Records that `input` has no packet left in the lane. Returns whether the lane is empty, because no other input
    /// has a packet in it either.
    #[inline(always)]
    pub(super) fn leave(&mut self, lane: usize, input: usize) -> bool {
        let words = &mut self.waiting[lane * self.words..(lane + 1) * self.words];
        words[input / 64] &= !(1 << (input % 64));
        words.iter().all(|word| *word == 0)
    }

    /// Records that `input` has sent a packet in the lane, which ends its turn. An arbiter with longer turns, of
    /// several packets or of a number of bytes, would change this function.
    #[inline(always)]
    pub(super) fn sent(&mut self, lane: usize, input: usize) {
        self.turn[lane] = if input + 1 == self.inputs { 0 } else { input as u32 + 1 };
    }

    /// The input that sends next in the lane: the first input with a packet in the lane, searched cyclically from the
    /// input whose turn it is.
    #[inline(always)]
    pub(super) fn next(&self, lane: usize) -> usize {
        let words = &self.waiting[lane * self.words..(lane + 1) * self.words];
        let turn = self.turn[lane] as usize;
        let first = turn / 64;
        let later = words[first] & (u64::MAX << (turn % 64));
        if later != 0 {
            return first * 64 + later.trailing_zeros() as usize;
        }
        for step in 1..=words.len() {
            let word = (first + step) % words.len();
            if words[word] != 0 {
                return word * 64 + words[word].trailing_zeros() as usize;
            }
        }
        debug_assert!(false, "a lane with a backlog has a waiting input");
        0
    }

    /// Whether exactly one input has packets in the lane.
    pub(super) fn is_single(&self, lane: usize) -> bool {
        let words = &self.waiting[lane * self.words..(lane + 1) * self.words];
        words.iter().map(|word| word.count_ones()).sum::<u32>() == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_take_turns_across_words() {
        let mut arbiter = InputArbiter::new(2, 130);
        for input in [3, 64, 129] {
            arbiter.join(1, input);
        }
        let mut turns = Vec::new();
        for _ in 0..4 {
            let input = arbiter.next(1);
            arbiter.sent(1, input);
            turns.push(input);
        }
        assert_eq!(turns, [3, 64, 129, 3]);
        assert_eq!((arbiter.leave(1, 3), arbiter.leave(1, 129), arbiter.is_single(1)), (false, false, true));
        assert_eq!((arbiter.next(1), arbiter.leave(1, 64)), (64, true));
    }
}
