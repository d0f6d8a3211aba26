//! Part of the hardware cost model: the memory that a P4 program needs on the NIC.

use super::Hardware;
use crate::hir::{MatchKind, Pipeline, Program as Checked};
use crate::program::Program;
use crate::runtime::Binding;

/// Size in bits of the state that packetization keeps for a message that is being sent. Two bitmaps with one bit per
/// packet (delivered packets, and packets to send) are not included. The state consists of the credit, the largest sent
/// packet number and the length (32 each), the timeout count (8), the address (32), two contexts (16 each), the message
/// id (16), the buffer slot (16), the buffer size class (8), and a timer: valid bit (1), expiry time (64), packet
/// number (32).
const SEND_BITS: u64 = 3 * 32 + 8 + 32 + 2 * 16 + 16 + 24 + 97;

/// Size in bits of the state that reassembly keeps for a message that is being received. The bitmap of received packets
/// is not included. The state consists of the lookup key (address 32, context 16, message id 32), the length (32), the
/// local context (16), the buffer slot (16), the buffer size class (8), and a timer: valid bit (1), expiry time (64).
const RECEIVE_BITS: u64 = 32 + 16 + 32 + 32 + 16 + 24 + 65;

/// Size of an entry of a priority scheduler in bits: valid bit (1), message id (16), and rank, granted and grantable
/// (32 each).
const SCHEDULER_ENTRY_BITS: u64 = 1 + 16 + 3 * 32;

/// Number of entries that a priority scheduler compares in parallel, as in the NanoTransport paper.
const COMPARED_ENTRIES: u64 = 16;

/// Memory that a program needs on the NIC, in bytes.
///
/// The NanoTransport paper states memory for messages of 39 kB. In this model each message has two buffers of this
/// size, one for sending and one for receiving. For 16 messages these buffers take 1.25 MB, and the paper states 1.2
/// MB. For 128 messages they take 10 MB, but the paper states only 8.4 MB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Message buffers: one for each concurrent message that is sent or received. A buffer has the maximum size of a
    /// message, rounded up to whole packets.
    pub buffers: u64,
    /// State that packetization, reassembly and timers keep for the messages of both directions. The NanoTransport
    /// paper states less than 100 bytes per message.
    pub message_state: u64,
    /// The program's register arrays and schedulers. Message ids are small consecutive numbers and serve as indices of
    /// an array. So an array has one entry for each concurrent message, or fewer entries if the program declares fewer.
    pub registers: u64,
    /// The program's match-action tables, with their maximum numbers of entries. Each entry has the keys, an action
    /// index, and the arguments of the action with the most argument bits. Keys that are not `exact` count twice,
    /// because an entry also has their masks. Tables with `const` entries are counted as logic and take no memory.
    pub tables: u64,
    /// Header fields in the pipelines: each stage of a pipeline holds the fields of all headers of that pipeline.
    pub headers: u64,
}

impl Memory {
    /// Returns the total memory of all components in bytes.
    pub fn total(&self) -> u64 {
        self.by_component().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns the name of each component and its memory in bytes.
    pub fn by_component(&self) -> [(&'static str, u64); 5] {
        [
            ("buffers", self.buffers),
            ("state of messages", self.message_state),
            ("registers", self.registers),
            ("tables", self.tables),
            ("headers", self.headers),
        ]
    }
}

pub(super) fn memory(program: &Program, hardware: &Hardware, ingress: usize, egress: usize) -> Memory {
    let messages = u64::from(hardware.messages);
    let segment = u64::from(hardware.segment_bytes.max(1));
    let packets = u64::from(hardware.message_bytes).div_ceil(segment);
    let per_message = (2 * packets + SEND_BITS).div_ceil(8) + (packets + RECEIVE_BITS).div_ceil(8);
    let hir = program.hir();
    Memory {
        buffers: 2 * messages * packets * segment,
        message_state: messages * per_message,
        registers: program.bindings().iter().map(|binding| registers(binding, messages)).sum(),
        tables: tables(&hir.ingress) + tables(&hir.egress),
        headers: headers(hir, ingress as u64, egress as u64),
    }
}

fn registers(binding: &Binding, messages: u64) -> u64 {
    let (entries, bits) = match binding {
        Binding::IfElse { size, width, .. } => ((*size).min(messages), u64::from(*width)),
        Binding::Pairs { size, width, .. } => ((*size).min(messages), 2 * u64::from(*width)),
        Binding::Dual { size, widths, .. } => {
            ((*size).min(messages), widths.iter().map(|width| u64::from(*width)).sum())
        }
        // The scheduler's FIFO holds the entries that are not compared in parallel, at most one per message.
        Binding::Scheduler { .. } => {
            return (COMPARED_ENTRIES * SCHEDULER_ENTRY_BITS + messages * SCHEDULER_ENTRY_BITS).div_ceil(8);
        }
    };
    (entries * bits).div_ceil(8)
}

fn tables(pipeline: &Pipeline) -> u64 {
    let width = |slot: &crate::hir::SlotId| u64::from(pipeline.slots[slot.0 as usize].width);
    let bytes = |table: &crate::hir::Table| {
        let keys: u64 = table
            .keys
            .iter()
            .map(|(key, kind)| u64::from(key.width) * if *kind == MatchKind::Exact { 1 } else { 2 })
            .sum();
        let arguments = table.actions.iter().map(|action| action.parameters.iter().map(width).sum()).max().unwrap_or(0);
        let action = u64::from(table.actions.len().max(1).next_power_of_two().trailing_zeros());
        (u64::from(table.size) * (keys + action + arguments)).div_ceil(8)
    };
    pipeline.tables.iter().filter(|table| !table.entries_const).map(bytes).sum()
}

fn headers(program: &Checked, ingress: u64, egress: u64) -> u64 {
    let bits = |pipeline: &Pipeline| -> u64 {
        let slots = pipeline.headers.iter().flat_map(|header| header.fields.iter().chain([&header.valid]));
        slots.map(|slot| u64::from(pipeline.slots[slot.0 as usize].width)).sum()
    };
    (ingress * bits(&program.ingress)).div_ceil(8) + (egress * bits(&program.egress)).div_ceil(8)
}
