//! The 32-bit words of a step and of its result, in the layout of `hw/irn/irn_bench.v`.

use super::{Block, Parameters};
use rnic_transport::recovery::IrnSenderRegisters;

/// Index of the first word of the bitmaps.
const BITMAPS: usize = 16;

/// Number of words of a step, and of a result.
pub(super) const fn words(parameters: Parameters) -> usize {
    BITMAPS + 2 * parameters.window() as usize / 32
}

/// The registers of a sender.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Sender {
    pub(super) first_missing: u32,
    pub(super) next: u32,
    pub(super) retransmit_next: u32,
    pub(super) recover: u32,
    pub(super) recover_since: u32,
    pub(super) highest_sacked: u32,
    pub(super) in_recovery: bool,
    pub(super) retransmit_first: bool,
    pub(super) rto_high: bool,
    pub(super) timer_start: u32,
    pub(super) sacked: Vec<u64>,
}

impl Sender {
    pub(super) fn of(registers: &IrnSenderRegisters<'_>) -> Sender {
        Sender {
            first_missing: registers.first_missing.value(),
            next: registers.next.value(),
            retransmit_next: registers.retransmit_next.value(),
            recover: registers.recover.value(),
            recover_since: registers.recover_since.as_ns(),
            highest_sacked: registers.highest_sacked.value(),
            in_recovery: registers.in_recovery,
            retransmit_first: registers.retransmit_first,
            rto_high: false,
            timer_start: (registers.timer_start.as_ps() / 1_000) as u32,
            sacked: registers.sacked.words().to_vec(),
        }
    }

    /// Appends the words of the state, from word 8 on, without the bitmaps.
    fn push(&self, words: &mut Vec<u32>) {
        let flags = u32::from(self.in_recovery) | u32::from(self.retransmit_first) << 1 | u32::from(self.rto_high) << 2;
        words.extend([
            self.first_missing,
            self.next,
            self.retransmit_next,
            self.recover,
            self.recover_since,
            self.highest_sacked,
            flags,
            self.timer_start,
        ]);
    }
}

/// Appends the two words of each word of a bitmap.
fn push_bits(words: &mut Vec<u32>, bits: &[u64]) {
    words.extend(bits.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]));
}

/// The inputs of a step of a sender's block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SenderInputs {
    pub(super) now: u32,
    pub(super) window: u32,
    /// PSN of the response, or end of the send queue.
    pub(super) psn: u32,
    pub(super) trigger: u32,
    pub(super) stamp: u32,
    pub(super) low_packets: u8,
    pub(super) nack: bool,
    pub(super) rto_low: u32,
    pub(super) rto_high: u32,
    /// Operation and queue pair, for a block with contexts.
    pub(super) tag: u32,
}

/// The tag of a step for a block with contexts: the queue pair and the operation. Operation 0 begins a connection; any
/// other operation is the number of a block.
pub(super) const fn tag(operation: u32, queue_pair: u32) -> u32 {
    queue_pair << 2 | operation
}

/// Appends a step of a sender's block.
pub(super) fn push_sender(words: &mut Vec<u32>, inputs: &SenderInputs, state: &Sender) {
    let marks = u32::from(inputs.nack) | u32::from(inputs.low_packets) << 8 | inputs.tag << 16;
    words.extend([
        inputs.now,
        inputs.window,
        inputs.psn,
        inputs.trigger,
        inputs.stamp,
        marks,
        inputs.rto_low,
        inputs.rto_high,
    ]);
    state.push(words);
    push_bits(words, &state.sacked);
    words.extend(std::iter::repeat_n(0, 2 * state.sacked.len()));
}

/// Appends the expected result of a sender's block: the outputs (from word 1 on) and the state after the step. Fields
/// that the block never changes are 0. The result of a block with contexts has all fields and the step's `tag`.
pub(super) fn push_result(words: &mut Vec<u32>, block: Block, outputs: [u32; 2], state: &Sender, tag: u32) {
    words.extend([tag, outputs[0], outputs[1], 0, 0, 0, 0, 0]);
    let mut shown = state.clone();
    match block {
        Block::TxFree => {
            (shown.first_missing, shown.highest_sacked, shown.in_recovery) = (0, 0, false);
        }
        Block::ReceiveAck => shown.next = 0,
        Block::Senders => {}
        _ => (shown.first_missing, shown.next, shown.highest_sacked) = (0, 0, 0),
    }
    shown.push(words);
    let has_bitmap = matches!(block, Block::ReceiveAck | Block::Senders);
    let bits = if has_bitmap { state.sacked.as_slice() } else { &[] };
    push_bits(words, bits);
    words.extend(std::iter::repeat_n(0, 4 * state.sacked.len() - 2 * bits.len()));
}

/// The registers of a receiver.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Receiver {
    pub(super) expected: u32,
    pub(super) msn: u32,
    pub(super) first: Vec<u64>,
    pub(super) second: Vec<u64>,
}

/// Appends a step of receiveData; `marks` has bit 0 set if the packet ends a message, and bit 1 if the message
/// completes a Receive.
pub(super) fn push_receiver(words: &mut Vec<u32>, psn: u32, marks: u32, state: &Receiver, tag: u32) {
    words.extend([0, marks, psn, state.msn, 0, tag << 16, 0, 0, state.expected, state.msn, 0, 0, 0, 0, 0, 0]);
    push_bits(words, &state.first);
    push_bits(words, &state.second);
}

/// Appends the expected result of receiveData.
pub(super) fn push_received(words: &mut Vec<u32>, outputs: [u32; 3], state: &Receiver, tag: u32) {
    let [flags, trigger, receives] = outputs;
    words.extend([tag, flags, trigger, receives, 0, 0, 0, 0, state.expected, state.msn, 0, 0, 0, 0, 0, 0]);
    push_bits(words, &state.first);
    push_bits(words, &state.second);
}

/// The name of a word of a result.
pub(super) fn name(block: Block, parameters: Parameters, word: usize) -> String {
    let outputs: [&str; 3] = match block {
        Block::ReceiveData | Block::Receivers => ["flags {discarded, NACK, reply}", "trigger", "Receives completed"],
        Block::TxFree => ["flags {retransmission, last, send}", "PSN", "word 3"],
        Block::ReceiveAck => ["loss", "packets acknowledged", "word 3"],
        Block::Timeout => ["flags {extended, expired, running}", "word 2", "word 3"],
        Block::Senders => ["flags", "PSN or packets acknowledged", "word 3"],
    };
    let state = match block {
        Block::ReceiveData | Block::Receivers => ["expected", "MSN", "", "", "", "", "", ""],
        _ => [
            "first_missing",
            "next",
            "retransmit_next",
            "recover",
            "recover_since",
            "highest_sacked",
            "flags {rto_high, retransmit_first, in_recovery}",
            "timer_start",
        ],
    };
    let of_bitmap = parameters.window() as usize / 32;
    match word {
        0 => "queue pair and operation".to_string(),
        1..=3 => outputs[word - 1].to_string(),
        8..=15 => state[word - 8].to_string(),
        _ if word >= BITMAPS && word < BITMAPS + of_bitmap => format!("first bitmap, word {}", word - BITMAPS),
        _ if word >= BITMAPS + of_bitmap => format!("second bitmap, word {}", word - BITMAPS - of_bitmap),
        _ => format!("word {word}"),
    }
}
