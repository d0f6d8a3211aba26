//! Compiled programs.

use crate::diagnostic::Diagnostic;
use crate::hir;
use crate::lower::{self, Architecture, Executable};
use crate::runtime::{Binding, Table, bind_instances};
use crate::source::Span;
use std::sync::Arc;

/// The parameters of the NIC that a program can read, in the order of
/// [`NicParameters::values`](crate::pipeline::NicParameters).
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

/// The values that the NIC provides to ingress with each packet.
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

/// The values that the NIC provides to egress with each packet.
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
    "link.priority",
];

/// The values that ingress gives to the NIC, with their defaults. By default the payload is not reassembled.
const REASSEMBLY: [(&str, u64); 4] =
    [("reassembly.drop", 1), ("reassembly.rx_msg_id", 0), ("reassembly.pkt_offset", 0), ("reassembly.is_last_pkt", 0)];

/// The values that egress gives to the NIC, with their defaults.
const LINK: [(&str, u64); 1] = [("link.priority", 0)];

/// Maximum length of the header that a program emits, in bytes.
const MAX_HEADER_BYTES: u32 = 256;

/// The sizes of header buffers in bytes: 64; 64 plus the telemetry of eight hops; and the maximum.
const HEADER_ROOMS: [u32; 3] = [64, 192, MAX_HEADER_BYTES];

/// A compiled program that can run on any number of NICs. Cloning is cheap: the clones share the code.
#[derive(Clone, Debug)]
pub struct Program(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    hir: hir::Program,
    ingress: Executable,
    egress: Executable,
    /// The tables with the program's entries. NICs share them until a control plane changes a NIC's own copy.
    ingress_tables: Vec<Arc<Table>>,
    egress_tables: Vec<Arc<Table>>,
    bindings: Vec<Binding>,
    emitted: u32,
    room: usize,
}

impl Program {
    /// Generates executable code for a checked program.
    ///
    /// # Errors
    /// The program uses externs that the NIC does not have, or exceeds a limit of the NIC.
    ///
    /// # Examples
    /// ```
    /// use rnic_nano::parser::parse_program;
    /// use rnic_nano::source::SourceFile;
    /// use rnic_nano::{Program, sema};
    ///
    /// let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/window.p4"))?;
    /// let (module, _sources) = parse_program(SourceFile { name: "window.p4".into(), text }, &|_path| None)
    ///     .expect("the program has no syntax error");
    /// let checked = sema::analyse(&module, &[]).expect("the program has no semantic error");
    /// let program = Program::new(checked).expect("the NIC has all externs of the program");
    /// assert_eq!(program.header_room(), 64);
    /// # Ok::<(), std::io::Error>(())
    /// ```
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
        if emitted > MAX_HEADER_BYTES {
            let message =
                format!("the program's headers may be {emitted} bytes long; this NIC has room for {MAX_HEADER_BYTES}");
            return Err(vec![Diagnostic::new(Span::default(), message, "")]);
        }
        let room = HEADER_ROOMS.into_iter().find(|room| emitted <= *room).unwrap_or(MAX_HEADER_BYTES);
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
        Ok(Program(Arc::new(Compiled { hir, ingress, egress, ingress_tables, egress_tables, bindings, emitted, room })))
    }

    /// Returns the checked program.
    pub fn hir(&self) -> &hir::Program {
        &self.0.hir
    }

    /// Returns the tables of ingress with the program's entries.
    pub(crate) fn ingress_tables(&self) -> &[Arc<Table>] {
        &self.0.ingress_tables
    }

    /// Returns the tables of egress with the program's entries.
    pub(crate) fn egress_tables(&self) -> &[Arc<Table>] {
        &self.0.egress_tables
    }

    /// Returns the executable code of ingress.
    pub fn ingress(&self) -> &Executable {
        &self.0.ingress
    }

    /// Returns the executable code of egress.
    pub fn egress(&self) -> &Executable {
        &self.0.egress
    }

    /// Returns the runtime objects of the program's extern instances.
    pub fn bindings(&self) -> &[Binding] {
        &self.0.bindings
    }

    /// Returns the maximum length of the header that the program emits, in bytes.
    pub fn emitted_bytes(&self) -> u32 {
        self.0.emitted
    }

    /// Returns the minimum `N` of a [`P4Pipeline<N>`](crate::pipeline::P4Pipeline) that runs the program: 64, 192 or
    /// 256.
    pub fn header_room(&self) -> usize {
        self.0.room
    }
}

/// Returns the tables of a pipeline with the program's entries.
fn tables(pipeline: &hir::Pipeline) -> Vec<Arc<Table>> {
    let widths = |action: &hir::Action| action.parameters.iter().map(|s| pipeline.slots[s.0 as usize].width).collect();
    let table = |table: &hir::Table| Arc::new(Table::new(table, table.actions.iter().map(widths).collect()));
    pipeline.tables.iter().map(table).collect()
}
