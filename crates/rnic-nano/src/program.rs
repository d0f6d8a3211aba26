//! Compiled P4 programs.

use crate::diagnostic::Diagnostic;
use crate::hir;
use crate::lower::{self, Architecture, Executable};
use crate::runtime::{Binding, Table, bind_instances};
use crate::source::{SourceMap, Span};
use std::sync::Arc;

/// The names of the NIC parameters that a P4 program can read, in the order of
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

/// The names of the values that the NIC passes to the ingress pipeline with each arriving packet.
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

/// The names of the values that the NIC passes to the egress pipeline with each departing packet.
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

/// The outputs of the ingress pipeline that the NIC reads, with their default values. By default the NIC drops the
/// payload instead of reassembling it.
pub(crate) const REASSEMBLY: [(&str, u64); 4] =
    [("reassembly.drop", 1), ("reassembly.rx_msg_id", 0), ("reassembly.pkt_offset", 0), ("reassembly.is_last_pkt", 0)];

/// The outputs of the egress pipeline that the NIC reads, with their default values.
pub(crate) const LINK: [(&str, u64); 1] = [("link.priority", 0)];

/// Maximum total length of the headers that a program emits for a packet, in bytes.
const MAX_HEADER_BYTES: u32 = 256;

/// The supported sizes of the header buffer of a [`P4Pipeline`](crate::pipeline::P4Pipeline), in bytes: 64; 192, which
/// is 64 plus the telemetry of eight hops; and the maximum.
const HEADER_ROOMS: [u32; 3] = [64, 192, MAX_HEADER_BYTES];

/// A compiled P4 program that can run on any number of NICs. The clones of a program share its code, so cloning is
/// cheap.
#[derive(Clone, Debug)]
pub struct Program(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    hir: hir::Program,
    ingress: Executable,
    egress: Executable,
    /// The tables of the ingress pipeline, with the entries that the program declares. All NICs share these tables;
    /// when a control plane changes a table of one NIC, that NIC gets its own copy of the table.
    ingress_tables: Vec<Arc<Table>>,
    egress_tables: Vec<Arc<Table>>,
    bindings: Vec<Binding>,
    emitted: u32,
    room: usize,
    sources: SourceMap,
}

impl Program {
    /// The program with its source files, to which the spans of its parts refer.
    pub(crate) fn with_sources(mut self, sources: SourceMap) -> Program {
        if let Some(compiled) = Arc::get_mut(&mut self.0) {
            compiled.sources = sources;
        }
        self
    }

    /// The source files of the program; none if it was made from a checked program.
    pub fn sources(&self) -> &SourceMap {
        &self.0.sources
    }

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
        let ingress_tables = tables(&hir.ingress);
        let egress_tables = tables(&hir.egress);
        let room = room as usize;
        Ok(Program(Arc::new(Compiled {
            hir,
            ingress,
            egress,
            ingress_tables,
            egress_tables,
            bindings,
            emitted,
            room,
            sources: SourceMap::default(),
        })))
    }

    /// Returns the checked program in the high-level intermediate representation, from which the code was generated.
    pub fn hir(&self) -> &hir::Program {
        &self.0.hir
    }

    /// Returns the tables of the ingress pipeline, with the entries that the program declares.
    pub(crate) fn ingress_tables(&self) -> &[Arc<Table>] {
        &self.0.ingress_tables
    }

    /// Returns the tables of the egress pipeline, with the entries that the program declares.
    pub(crate) fn egress_tables(&self) -> &[Arc<Table>] {
        &self.0.egress_tables
    }

    /// Returns the executable code of the ingress pipeline.
    pub fn ingress(&self) -> &Executable {
        &self.0.ingress
    }

    /// Returns the executable code of the egress pipeline.
    pub fn egress(&self) -> &Executable {
        &self.0.egress
    }

    /// Returns a description of each extern object that the program declares (register arrays and schedulers), in order
    /// of declaration.
    pub fn bindings(&self) -> &[Binding] {
        &self.0.bindings
    }

    /// Returns the maximum total length in bytes of the headers that the program emits for a packet.
    pub fn emitted_bytes(&self) -> u32 {
        self.0.emitted
    }

    /// Returns the size in bytes of the header buffer that the program needs: 64, 192 or 256. This is the minimum `N`
    /// of a [`P4Pipeline<N>`](crate::pipeline::P4Pipeline) that can run the program.
    pub fn header_room(&self) -> usize {
        self.0.room
    }
}

/// Creates the tables of a pipeline, with the entries that the program declares.
fn tables(pipeline: &hir::Pipeline) -> Vec<Arc<Table>> {
    let widths = |action: &hir::Action| action.parameters.iter().map(|s| pipeline.slots[s.0 as usize].width).collect();
    let table = |table: &hir::Table| Arc::new(Table::new(table, table.actions.iter().map(widths).collect()));
    pipeline.tables.iter().map(table).collect()
}
