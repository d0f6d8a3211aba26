//! Arbitration among the inputs of an input-queued switch: which input sends the next packet to an output.
//!
//! A *lane* is one priority of one output. The scheduler of the output has chosen the priority; the arbiter of the lane
//! then chooses the input that sends the next packet.

use rnic_transport::Bytes;
use std::collections::VecDeque;
use std::fmt;

/// How an output of an input-queued switch chooses among the inputs that hold packets for it in one priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum ArbiterSpec {
    /// Round robin over the inputs. An input keeps its turn until it has sent the quantum (a number of packets or
    /// bytes), or has no packet left.
    RoundRobin(Quantum),
    /// First come, first served: the packet that arrived first at the switch leaves first, whatever its input.
    OldestFirst,
}

impl ArbiterSpec {
    /// Round robin with one packet per turn.
    pub const PACKET_BY_PACKET: ArbiterSpec = ArbiterSpec::RoundRobin(Quantum::Packets(1));
}

/// The default is round robin with [`SEGMENT`] bytes per turn.
impl Default for ArbiterSpec {
    fn default() -> ArbiterSpec {
        ArbiterSpec::RoundRobin(Quantum::Bytes(SEGMENT))
    }
}

/// Default length of a turn, both of an input of a switch and of a flow at a NIC: 64 KB, the longest segment of a
/// message that a NIC sends as one burst (segmentation offload; TIMELY paper, SIGCOMM 2015).
pub const SEGMENT: Bytes = Bytes(64_000);

/// The text that rnic shows for this setting, for example `round-robin, 8 packets per turn`.
impl fmt::Display for ArbiterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArbiterSpec::RoundRobin(Quantum::Packets(1)) => f.write_str("round-robin, 1 packet per turn"),
            ArbiterSpec::RoundRobin(Quantum::Packets(packets)) => write!(f, "round-robin, {packets} packets per turn"),
            ArbiterSpec::RoundRobin(Quantum::Bytes(bytes)) => write!(f, "round-robin, {bytes} per turn"),
            ArbiterSpec::OldestFirst => f.write_str("oldest-first"),
        }
    }
}

/// What an input sends in one turn of a round robin. A turn always ends after a whole packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Quantum {
    /// This number of packets, at least 1.
    Packets(u32),
    /// Packets until their sum is at least this many bytes.
    Bytes(Bytes),
}

/// The arbiters of a switch, one for each lane (a priority of an output). A switch is compiled for its arbiter.
pub(crate) trait Arbiter {
    fn new(spec: ArbiterSpec, lanes: usize, inputs: usize) -> Self;
    /// Records that a packet from `input` joined the lane; `is_first`: the input had no packet in the lane.
    fn pushed(&mut self, lane: usize, input: usize, is_first: bool);
    /// The input that sends next in the lane, in which some packet waits.
    fn next(&self, lane: usize) -> usize;
    /// Records that `input`, which [`Arbiter::next`] returned, sent a packet of `bytes` bytes from the lane; `is_last`:
    /// the input has no other packet in the lane. Returns whether the lane is empty now.
    fn popped(&mut self, lane: usize, input: usize, bytes: u16, is_last: bool) -> bool;
    /// Records that the switch forwarded a packet of `bytes` bytes from `input` through the empty lane without storing
    /// the packet.
    fn passed(&mut self, lane: usize, input: usize, bytes: u16);
    /// Whether exactly one input has packets in the lane; with [`ArbiterSpec::OldestFirst`], exactly one packet waits.
    fn is_single(&self, lane: usize) -> bool;
}

/// Round robin over inputs with a quantum. This is the arbiter of most runs, so it is compiled on its own.
pub(crate) struct RoundRobin {
    lanes: Vec<Lane>,
    /// Per lane: bitmap of the inputs from number 64 on that have packets in the lane, `more_words` words long.
    more: Vec<u64>,
    more_words: usize,
    inputs: u32,
    /// Number of packets or bytes in a turn.
    quantum: u32,
    /// What a packet takes from a turn is `per_packet` plus its length masked with `length_mask`: 1 and 0 if turns are
    /// counted in packets, 0 and all bits if they are counted in bytes.
    per_packet: u32,
    length_mask: u32,
}

/// The state of a lane.
#[derive(Clone, Copy)]
struct Lane {
    /// The input whose turn it is, or at which the search for the next sender starts.
    input: u32,
    /// Number of packets, or of bytes, that are left of the turn.
    left: u32,
    /// Bitmap of the first 64 inputs that have packets in the lane.
    waiting: u64,
}

impl RoundRobin {
    /// Records that `input` has sent a packet in the lane. The turn of the input ends once it has sent the quantum.
    #[inline(always)]
    fn sent(&mut self, lane: usize, input: usize, bytes: u16) {
        let (lane, input) = (&mut self.lanes[lane], input as u32);
        let left = if lane.input == input { lane.left } else { self.quantum };
        let taken = self.per_packet + (u32::from(bytes) & self.length_mask);
        (lane.input, lane.left) = if taken < left {
            (input, left - taken)
        } else {
            (if input + 1 == self.inputs { 0 } else { input + 1 }, self.quantum)
        };
    }

    /// The words of a lane's bitmap after the first.
    fn more(&self, lane: usize) -> &[u64] {
        &self.more[lane * self.more_words..(lane + 1) * self.more_words]
    }

    /// The word of a lane's bitmap that has `input`, one of the inputs from number 64 on.
    fn more_of(&mut self, lane: usize, input: usize) -> &mut u64 {
        &mut self.more[lane * self.more_words + input / 64 - 1]
    }

    /// The input that sends next in the lane: the first input with a packet in the lane, searched cyclically from the
    /// input whose turn it is.
    #[cold]
    #[inline(never)]
    fn search(&self, lane: usize) -> usize {
        let turn = self.lanes[lane].input as usize;
        let word = |index: usize| match index {
            0 => self.lanes[lane].waiting,
            _ => self.more(lane)[index - 1],
        };
        let (first, words) = (turn / 64, 1 + self.more_words);
        let later = word(first) & (u64::MAX << (turn % 64));
        if later != 0 {
            return first * 64 + later.trailing_zeros() as usize;
        }
        for step in 1..=words {
            let index = (first + step) % words;
            if word(index) != 0 {
                return index * 64 + word(index).trailing_zeros() as usize;
            }
        }
        debug_assert!(false, "a lane with a backlog has a waiting input");
        0
    }
}

/// An [`ArbiterSpec`] without a quantum never reaches this arbiter; it would get turns of one packet.
impl Arbiter for RoundRobin {
    fn new(spec: ArbiterSpec, lanes: usize, inputs: usize) -> RoundRobin {
        let (quantum, per_packet, length_mask) = match spec {
            ArbiterSpec::RoundRobin(Quantum::Packets(packets)) => (packets, 1, 0),
            ArbiterSpec::RoundRobin(Quantum::Bytes(bytes)) => (bytes.0.min(u64::from(u32::MAX)) as u32, 0, u32::MAX),
            ArbiterSpec::OldestFirst => (1, 1, 0),
        };
        RoundRobin {
            lanes: vec![Lane { input: 0, left: quantum, waiting: 0 }; lanes],
            more: vec![0; lanes * (inputs.div_ceil(64).max(1) - 1)],
            more_words: inputs.div_ceil(64).max(1) - 1,
            inputs: inputs as u32,
            quantum,
            per_packet,
            length_mask,
        }
    }

    #[inline(always)]
    fn pushed(&mut self, lane: usize, input: usize, is_first: bool) {
        if !is_first {
            return;
        }
        if input < 64 {
            self.lanes[lane].waiting |= 1 << input;
        } else {
            *self.more_of(lane, input) |= 1 << (input % 64);
        }
    }

    #[inline(always)]
    fn next(&self, lane: usize) -> usize {
        let Lane { input, waiting, .. } = self.lanes[lane];
        // With up to 64 inputs the one whose turn it is, or a later one.
        let later = if input < 64 { waiting & (u64::MAX << input) } else { 0 };
        if later != 0 { later.trailing_zeros() as usize } else { self.search(lane) }
    }

    #[inline(always)]
    fn popped(&mut self, lane: usize, input: usize, bytes: u16, is_last: bool) -> bool {
        self.sent(lane, input, bytes);
        if !is_last {
            return false;
        }
        if input < 64 {
            self.lanes[lane].waiting &= !(1 << input);
        } else {
            *self.more_of(lane, input) &= !(1 << (input % 64));
        }
        self.lanes[lane].waiting == 0 && (self.more_words == 0 || self.more(lane).iter().all(|word| *word == 0))
    }

    #[inline(always)]
    fn passed(&mut self, lane: usize, input: usize, bytes: u16) {
        self.sent(lane, input, bytes);
    }

    fn is_single(&self, lane: usize) -> bool {
        let more: u32 = self.more(lane).iter().map(|word| word.count_ones()).sum();
        self.lanes[lane].waiting.count_ones() + more == 1
    }
}

/// Any arbiter, chosen per run.
pub(crate) enum OtherArbiter {
    RoundRobin(RoundRobin),
    /// Per lane (a priority of an output): the input of each waiting packet, in order of arrival.
    OldestFirst(Vec<VecDeque<u16>>),
}

impl Arbiter for OtherArbiter {
    fn new(spec: ArbiterSpec, lanes: usize, inputs: usize) -> OtherArbiter {
        match spec {
            ArbiterSpec::RoundRobin(_) => OtherArbiter::RoundRobin(RoundRobin::new(spec, lanes, inputs)),
            ArbiterSpec::OldestFirst => OtherArbiter::OldestFirst(vec![VecDeque::new(); lanes]),
        }
    }

    #[inline(always)]
    fn pushed(&mut self, lane: usize, input: usize, is_first: bool) {
        match self {
            OtherArbiter::RoundRobin(arbiter) => arbiter.pushed(lane, input, is_first),
            OtherArbiter::OldestFirst(lanes) => lanes[lane].push_back(input as u16),
        }
    }

    #[inline(always)]
    fn next(&self, lane: usize) -> usize {
        match self {
            OtherArbiter::RoundRobin(arbiter) => arbiter.next(lane),
            OtherArbiter::OldestFirst(lanes) => lanes[lane].front().map_or(0, |input| usize::from(*input)),
        }
    }

    #[inline(always)]
    fn popped(&mut self, lane: usize, input: usize, bytes: u16, is_last: bool) -> bool {
        match self {
            OtherArbiter::RoundRobin(arbiter) => arbiter.popped(lane, input, bytes, is_last),
            OtherArbiter::OldestFirst(lanes) => {
                lanes[lane].pop_front();
                lanes[lane].is_empty()
            }
        }
    }

    #[inline(always)]
    fn passed(&mut self, lane: usize, input: usize, bytes: u16) {
        if let OtherArbiter::RoundRobin(arbiter) = self {
            arbiter.passed(lane, input, bytes);
        }
    }

    fn is_single(&self, lane: usize) -> bool {
        match self {
            OtherArbiter::RoundRobin(arbiter) => arbiter.is_single(lane),
            OtherArbiter::OldestFirst(lanes) => lanes[lane].len() == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which inputs send their packets to one output. Each entry of `packets` is an input with the lengths
    /// of its packets; the packets of earlier entries arrived first.
    fn order<A: Arbiter>(spec: ArbiterSpec, inputs: usize, packets: &[(usize, &[u16])]) -> Vec<usize> {
        let mut arbiter = A::new(spec, 2, inputs);
        let mut queues: Vec<(usize, VecDeque<u16>)> =
            packets.iter().map(|(input, lengths)| (*input, lengths.iter().copied().collect())).collect();
        for (input, queue) in &queues {
            (0..queue.len()).for_each(|index| arbiter.pushed(1, *input, index == 0));
        }
        let mut order = Vec::new();
        while queues.iter().any(|(_, queue)| !queue.is_empty()) {
            let next = arbiter.next(1);
            let (_, queue) = queues.iter_mut().find(|(input, _)| *input == next).unwrap();
            let bytes = queue.pop_front().unwrap();
            let is_last = queue.is_empty();
            let is_empty = arbiter.popped(1, next, bytes, is_last);
            assert_eq!(is_empty, queues.iter().all(|(_, queue)| queue.is_empty()));
            order.push(next);
        }
        order
    }

    #[test]
    fn inputs_take_turns_across_words() {
        let packets: [(usize, &[u16]); 3] = [(3, &[100, 100]), (64, &[100]), (129, &[100])];
        assert_eq!(order::<RoundRobin>(ArbiterSpec::PACKET_BY_PACKET, 130, &packets), [3, 64, 129, 3]);
        assert_eq!(order::<OtherArbiter>(ArbiterSpec::PACKET_BY_PACKET, 130, &packets), [3, 64, 129, 3]);
    }

    #[test]
    fn a_turn_lasts_for_the_quantum_of_packets_or_bytes() {
        let packets: [(usize, &[u16]); 2] = [(0, &[100; 5]), (1, &[500; 3])];
        let quantum = |quantum| {
            let spec = ArbiterSpec::RoundRobin(quantum);
            let inputs = order::<RoundRobin>(spec, 4, &packets);
            assert_eq!(order::<OtherArbiter>(spec, 4, &packets), inputs);
            inputs
        };
        assert_eq!(quantum(Quantum::Packets(1)), [0, 1, 0, 1, 0, 1, 0, 0]);
        assert_eq!(quantum(Quantum::Packets(2)), [0, 0, 1, 1, 0, 0, 1, 0]);
        // Input 0 has sent 300 bytes after three packets, input 1 after one.
        assert_eq!(quantum(Quantum::Bytes(Bytes(300))), [0, 0, 0, 1, 0, 0, 1, 1]);
        assert_eq!(quantum(Quantum::Packets(9)), [0, 0, 0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn a_packet_that_passes_counts_in_its_turn() {
        let mut arbiter = OtherArbiter::new(ArbiterSpec::RoundRobin(Quantum::Packets(2)), 1, 3);
        arbiter.passed(0, 1, 100);
        arbiter.pushed(0, 0, true);
        arbiter.pushed(0, 1, true);
        assert_eq!(arbiter.next(0), 1, "the second packet of its turn");
        assert!(!arbiter.popped(0, 1, 100, true));
        assert_eq!(arbiter.next(0), 0);
        assert!(arbiter.is_single(0));
    }

    #[test]
    fn the_oldest_packet_leaves_first() {
        let mut arbiter = OtherArbiter::new(ArbiterSpec::OldestFirst, 1, 3);
        for (input, is_first) in [(2, true), (0, true), (0, false), (2, false), (1, true)] {
            arbiter.pushed(0, input, is_first);
        }
        let mut order = Vec::new();
        loop {
            let input = arbiter.next(0);
            order.push(input);
            if arbiter.popped(0, input, 64, false) {
                break;
            }
        }
        assert_eq!(order, [2, 0, 0, 2, 1]);
    }
}
