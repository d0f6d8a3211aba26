//! The memory that a program needs on the NIC.

use super::Hardware;
use crate::hir::{MatchKind, Pipeline, Program as Checked};
use crate::program::Program;
use crate::runtime::Binding;

/// State that packetization keeps for a message, in bits, besides two bitmaps with a bit per packet (delivered, to be
/// sent): credit, largest packet number sent and length 32 each, timeouts 8, address 32, two contexts 16 each, message
/// id 16, buffer slot 16 and buffer size class 8; its timer: valid 1, expiry 64, packet 32.
const SEND_BITS: u64 = 3 * 32 + 8 + 32 + 2 * 16 + 16 + 24 + 97;

/// State that reassembly keeps for a message, in bits, besides a bitmap of received packets: lookup key (address 32,
/// context 16, message id 32), length 32, local context 16, buffer slot 16 and buffer size class 8; its timer: valid
/// 1, expiry 64.
const RECEIVE_BITS: u64 = 32 + 16 + 32 + 32 + 16 + 24 + 65;

/// Size of a scheduler's entry in bits: valid 1, message id 16; rank, granted and grantable 32 each.
const SCHEDULER_ENTRY_BITS: u64 = 1 + 16 + 3 * 32;

/// Number of entries that a scheduler compares in parallel. The NanoTransport document: 16.
const COMPARED_ENTRIES: u64 = 16;

/// Memory on the NIC in bytes. The NanoTransport document: 1.2 MB for 16 messages of 39 kB, which are two buffers each
/// (1.25 MB); and 8.4 MB for 128 messages, whose buffers would take 10 MB by the same calculation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Message buffers: one buffer of whole segments for each message in each direction.
    pub buffers: u64,
    /// State of packetization, reassembly and timers for the messages of both directions. The document: less than 100
    /// bytes per message.
    pub message_state: u64,
    /// The program's registers and schedulers. An array has one entry per message, because dense message ids index it,
    /// or fewer entries if its declaration says so.
    pub registers: u64,
    /// The program's tables: for each of a table's maximum number of entries the keys (twice if not exact, because of
    /// the masks), an action index, and the arguments of the action with the largest ones. Tables with const entries
    /// are counted as logic and take no memory.
    pub tables: u64,
    /// Headers in the pipelines: the fields of all headers of a pipeline, once for each of its stages.
    pub headers: u64,
}

impl Memory {
    /// Returns the total memory in bytes.
    pub fn total(&self) -> u64 {
        self.by_component().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns the memory of each component, by name.
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
        Binding::Dual { size, widths, .. } => {
            ((*size).min(messages), widths.iter().map(|width| u64::from(*width)).sum())
        }
        // A scheduler's waiting entries are in its FIFO.
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
