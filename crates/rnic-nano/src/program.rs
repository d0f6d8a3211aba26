//! A compiled program.

use crate::diagnostic::Diagnostic;
use crate::hir;
use crate::lower::{self, Architecture, Executable};
use crate::runtime::{Binding, Table, bind_instances};
use crate::source::Span;
use std::sync::Arc;

/// What a pipeline may know of its NIC, in the order of [`NicParameters::values`](crate::pipeline::NicParameters).
pub(crate) const NIC: [&str; 9] = [
    "nic.mac",
    "nic.switch_mac",
    "nic.ip",
    "nic.rtt_pkts",
    "nic.mtu",
    "nic.line_rate_mbps",
    "nic.base_rtt_ns",
    "nic.per_mtu",
    "nic.per_rtt",
];

/// What ingress gets with each packet.
pub(crate) const ARRIVAL: [&str; 10] = [
    "arrival.now_ns",
    "arrival.frame_bytes",
    "arrival.trimmed",
    "arrival.returned",
    "arrival.marked",
    "arrival.hops",
    "reassembly.drop",
    "reassembly.rx_msg_id",
    "reassembly.pkt_offset",
    "reassembly.is_last_pkt",
];

/// What egress gets with each packet.
pub(crate) const DEPARTURE: [&str; 14] = [
    "departure.now_ns",
    "departure.dst_ip",
    "departure.dst_context",
    "departure.src_context",
    "departure.tx_msg_id",
    "departure.msg_len",
    "departure.pkt_offset",
    "departure.credit",
    "departure.rank",
    "departure.flags",
    "departure.is_new_msg",
    "departure.is_rtx",
    "departure.payload",
    "link.band",
];

/// What ingress gives. Without a word of the program, a packet is finished with.
const REASSEMBLY: [(&str, u64); 4] =
    [("reassembly.drop", 1), ("reassembly.rx_msg_id", 0), ("reassembly.pkt_offset", 0), ("reassembly.is_last_pkt", 0)];

/// What egress gives.
const LINK: [(&str, u64); 1] = [("link.band", 0)];

/// Most bytes that a program may emit.
const MOST_HEADER_BYTES: u32 = 256;

/// Sizes that headers travel in: 64 bytes, the same with telemetry of eight hops, or the most.
const ROOMS: [u32; 3] = [64, 192, MOST_HEADER_BYTES];

/// A program that can run on any number of NICs. Copies share it.
#[derive(Clone, Debug)]
pub struct Program(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    hir: hir::Program,
    ingress: Executable,
    egress: Executable,
    /// As the program declares them. NICs share them until one changes its own.
    ingress_tables: Vec<Arc<Table>>,
    egress_tables: Vec<Arc<Table>>,
    bindings: Vec<Binding>,
    emitted: u32,
    room: usize,
}

impl Program {
    /// Makes a checked program executable. What is wrong with it concerns the NIC: externs that it does not have, and its limits.
    pub fn new(hir: hir::Program) -> Result<Program, Vec<Diagnostic>> {
        let bindings = bind_instances(&hir.instances)?;
        let departure = [&DEPARTURE[..], &NIC].concat();
        let egress = Architecture {
            inputs: &departure,
            first_pinned: DEPARTURE.len(),
            outputs: &LINK,
            blocks: false,
            instances: &bindings,
            header_room: 0,
        };
        let (egress, emitted) = lower::lower(&hir.egress, &egress)?;
        if emitted > MOST_HEADER_BYTES {
            let message =
                format!("the program's headers may be {emitted} bytes long; this NIC has room for {MOST_HEADER_BYTES}");
            return Err(vec![Diagnostic::new(Span::default(), message, "")]);
        }
        let room = ROOMS.into_iter().find(|room| emitted <= *room).unwrap_or(MOST_HEADER_BYTES);
        let arrival = [&ARRIVAL[..], &NIC].concat();
        let ingress = Architecture {
            inputs: &arrival,
            first_pinned: ARRIVAL.len(),
            outputs: &REASSEMBLY,
            blocks: true,
            instances: &bindings,
            header_room: room,
        };
        let (ingress, _) = lower::lower(&hir.ingress, &ingress)?;
        let (ingress_tables, egress_tables) = (tables(&hir.ingress), tables(&hir.egress));
        let room = room as usize;
        Ok(Program(Arc::new(Parts { hir, ingress, egress, ingress_tables, egress_tables, bindings, emitted, room })))
    }

    /// The checked program.
    pub fn hir(&self) -> &hir::Program {
        &self.0.hir
    }

    /// The tables of ingress as the program declares them.
    pub(crate) fn ingress_tables(&self) -> &[Arc<Table>] {
        &self.0.ingress_tables
    }

    /// Those of egress.
    pub(crate) fn egress_tables(&self) -> &[Arc<Table>] {
        &self.0.egress_tables
    }

    /// Instructions and registers of ingress.
    pub fn ingress(&self) -> &Executable {
        &self.0.ingress
    }

    /// Instructions and registers of egress.
    pub fn egress(&self) -> &Executable {
        &self.0.egress
    }

    /// What its instances are.
    pub fn bindings(&self) -> &[Binding] {
        &self.0.bindings
    }

    /// Greatest length of a header that it emits, in bytes.
    pub fn emitted_bytes(&self) -> u32 {
        self.0.emitted
    }

    /// The least `N` of a [`P4Pipeline<N>`](crate::pipeline::P4Pipeline) that runs it: 64, 192 or 256.
    pub fn header_room(&self) -> usize {
        self.0.room
    }
}

/// The tables of a pipeline, as the program declares them.
fn tables(pipeline: &hir::Pipeline) -> Vec<Arc<Table>> {
    let widths = |action: &hir::Action| action.parameters.iter().map(|s| pipeline.slots[s.0 as usize].width).collect();
    let table = |table: &hir::Table| Arc::new(Table::new(table, table.actions.iter().map(widths).collect()));
    pipeline.tables.iter().map(table).collect()
}
