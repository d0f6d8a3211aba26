//! A model of the cost of a P4 program in hardware: number of pipeline stages, latency, packet rate and memory.
//!
//! The NanoTransport paper (SOSR 2021) gives such figures for its hardware prototype, so the model's results can be
//! compared with them. Two figures of the paper were used to fit the model: see `INGRESS_CYCLES` and
//! `EGRESS_CYCLES`.

mod memory;
mod stages;

use crate::program::Program;
pub use memory::Memory;
use stages::{Port, Stages, stages};
use std::fmt;

/// Number of clock cycles per pipeline stage: one to read the stage's memory, and one to compute and write. This is an
/// assumption, because the NanoTransport paper does not state the number.
pub(crate) const STAGE_CYCLES: u32 = 2;

/// Number of clock cycles that the NIC's reassembly block takes. Ingress takes these cycles in addition to the arrival
/// of the header and the pipeline stages. The number is fitted to the NanoTransport paper: its ingress latency of 7.2
/// ns for Homa is 23 cycles at 3.2 GHz. Subtracting 8 cycles for a 64-byte header and 10 cycles for 5 stages leaves 5
/// cycles.
pub(crate) const INGRESS_CYCLES: u32 = 5;

/// Number of clock cycles that egress takes in addition to the departure of the header and the pipeline stages. It is
/// 0, because the NIC's packetization and arbiter blocks prepare packets in advance. The number is fitted to the
/// NanoTransport paper: its egress latency of 3.8 ns for Homa is 12 cycles at 3.2 GHz. Subtracting 8 cycles for a
/// 64-byte header and 4 cycles for 2 stages leaves 0.
pub(crate) const EGRESS_CYCLES: u32 = 0;

/// The hardware for which the cost of a program is modelled. The default values are those of the NanoTransport paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hardware {
    /// Clock frequency in Hz.
    pub clock_hz: u64,
    /// Rate of the link in bit/s.
    pub rate_bps: u64,
    /// Maximum number of concurrent messages in each direction, sent and received.
    pub messages: u32,
    /// Maximum size of a message in bytes, which determines the size of a message buffer.
    pub message_bytes: u32,
    /// Maximum payload of a packet in bytes. The size of a message's buffer is a multiple of this number.
    pub segment_bytes: u32,
    /// The size of the headers on the wire is rounded up to a multiple of this number of bytes.
    pub header_unit: u32,
}

impl Default for Hardware {
    fn default() -> Hardware {
        Hardware {
            clock_hz: 3_200_000_000,
            rate_bps: 200_000_000_000,
            messages: 16,
            message_bytes: 38 * 1024,
            segment_bytes: 1024,
            header_unit: 64,
        }
    }
}

/// The modelled cost of one pipeline, ingress or egress.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PipelineCost {
    /// The names of the memories that the program accesses in each stage.
    ///
    /// The number of stages is the length of the longest chain of dependent memory accesses, plus one. Memories are the
    /// NIC's table of received messages, registers, schedulers, and tables that the control plane can change. An access
    /// depends on an earlier access if its arguments use the result of the earlier access, or if this result decides
    /// whether the access takes place. Independent accesses share a stage. All accesses to a memory are in the same
    /// stage; each port of a `DualPort` (an array of registers with a read port and a write port) counts as a memory of
    /// its own. The additional last stage of ingress passes events to the NIC's fixed-function blocks, and the list
    /// names these events; the last stage of egress writes the header.
    ///
    /// For NDP the model gives the numbers of stages of the NanoTransport paper: 3 stages in ingress (message table,
    /// pull register, control packet) and 1 in egress (header). For Homa the paper has 5 stages in ingress: message
    /// table, registers, scheduler, registers at the index that the scheduler returned, control packet. In egress it
    /// has 2 stages: priority, header. In the model, `p4/homa.p4` needs one stage more than the paper in each pipeline.
    pub stages: Vec<Vec<String>>,
    /// Latency of the pipeline in clock cycles: the number of words ([`Cost::word_bytes`]) of the header, plus
    /// `STAGE_CYCLES` for each stage, plus `INGRESS_CYCLES` or `EGRESS_CYCLES`.
    pub cycles: u32,
    /// Latency of the pipeline in picoseconds.
    pub picoseconds: u64,
}

/// The modelled cost of a program in hardware.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cost {
    /// The hardware for which the cost was computed.
    pub hardware: Hardware,
    /// Width of the data path: the number of bytes that the NIC processes per clock cycle. It is the smallest power of
    /// two that keeps up with the link. In the NanoTransport paper the link carries 62.5 bits per cycle, so the width
    /// is 8 bytes.
    pub word_bytes: u32,
    /// Maximum size of the program's headers on the wire in bytes, rounded up to a multiple of
    /// [`Hardware::header_unit`].
    pub header_bytes: u32,
    /// The cost of the ingress pipeline, from the parser to reassembly.
    pub ingress: PipelineCost,
    /// The cost of the egress pipeline: the egress control and the deparser.
    pub egress: PipelineCost,
    /// Minimum interval between packets that the pipelines support, in picoseconds. The stages process different
    /// packets at the same time, so only the ports of the memories limit the interval. It is `STAGE_CYCLES` clock
    /// cycles times the maximum number of accesses that one packet makes through the same port.
    pub pipeline_interval: u64,
    /// Minimum interval between packets on the link, in picoseconds: the transmission time of a header with one byte of
    /// payload. In the NanoTransport paper these are 65 bytes at 200 Gbps, 2.6 ns.
    pub link_interval: u64,
    /// Memory that the program needs on the NIC, in bytes.
    pub memory: Memory,
    /// Notes on operations of the program that the modelled hardware could not perform in a single pass through the
    /// pipeline.
    pub notes: Vec<String>,
}

impl Cost {
    /// Returns the minimum interval between packets in picoseconds: the larger of the link's interval and the
    /// pipelines' interval.
    pub fn interval(&self) -> u64 {
        self.link_interval.max(self.pipeline_interval)
    }
}

/// Computes the modelled cost of a P4 program on the given hardware.
///
/// # Examples
/// ```
/// use rnic_nano::compile_file;
/// use rnic_nano::cost::{Hardware, analyse};
/// use std::path::Path;
///
/// let program = compile_file(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/ndp.p4")), &[])?;
/// let cost = analyse(&program, &Hardware::default());
/// assert_eq!((cost.ingress.stages.len(), cost.egress.stages.len()), (3, 1));
/// # Ok::<(), rnic_nano::CompileError>(())
/// ```
pub fn analyse(program: &Program, hardware: &Hardware) -> Cost {
    let hir = program.hir();
    let ingress = stages(hir, &hir.ingress);
    let egress = stages(hir, &hir.egress);
    let picoseconds =
        |cycles: u64| (u128::from(cycles) * 1_000_000_000_000 / u128::from(hardware.clock_hz.max(1))) as u64;
    let word_bits = hardware.rate_bps.div_ceil(hardware.clock_hz.max(1)).max(8).next_power_of_two();
    let word_bytes = u32::try_from(word_bits / 8).unwrap_or(u32::MAX);
    let unit = hardware.header_unit.max(1);
    let header_bytes = program.emitted_bytes().max(1).next_multiple_of(unit);
    let words = header_bytes.div_ceil(word_bytes);
    let cost = |stages: &Stages, fixed| {
        let cycles = words + STAGE_CYCLES * stages.accesses.len() as u32 + fixed;
        PipelineCost { stages: stages.accesses.clone(), cycles, picoseconds: picoseconds(cycles.into()) }
    };
    let accesses = ingress.ports.values().chain(egress.ports.values()).copied().max().unwrap_or(1);
    let least_bits = 8 * (u128::from(header_bytes) + 1);
    Cost {
        hardware: *hardware,
        word_bytes,
        header_bytes,
        ingress: cost(&ingress, INGRESS_CYCLES),
        egress: cost(&egress, EGRESS_CYCLES),
        pipeline_interval: picoseconds(u64::from(STAGE_CYCLES * accesses)),
        link_interval: (least_bits * 1_000_000_000_000 / u128::from(hardware.rate_bps.max(1))) as u64,
        memory: memory::memory(program, hardware, ingress.accesses.len(), egress.accesses.len()),
        notes: notes(program, &ingress, &egress),
    }
}

/// Returns notes on memory accesses that the hardware does not support: two accesses by the same packet through one
/// port, accesses to a port from both pipelines, and branches that access memories in different orders.
fn notes(program: &Program, ingress: &Stages, egress: &Stages) -> Vec<String> {
    let hir = program.hir();
    let mut notes = Vec::new();
    let instance = |id: u32, what: &str| format!("'{}' is {what}", hir.instances[id as usize].name);
    for (side, pipeline, stages) in [("ingress", &hir.ingress, ingress), ("egress", &hir.egress, egress)] {
        if stages.contradictory {
            notes.push(format!(
                "branches of {side} access the same memories in different orders, so no order of stages suits all branches"
            ));
        }
        for (port, count) in stages.ports.iter().filter(|(_, count)| **count > 1) {
            let what = match port {
                Port::Messages => "get_rx_msg_info is called".to_string(),
                Port::Whole(id) => instance(*id, "used"),
                Port::Read(id) => instance(*id, "read"),
                Port::Write(id) => instance(*id, "written"),
                Port::Table(id) => format!("table '{}' is applied", pipeline.tables[*id as usize].name),
            };
            notes.push(format!(
                "{what} {count} times for one packet in {side}; the hardware supports one such access per packet"
            ));
        }
    }
    for port in ingress.ports.keys().filter(|port| egress.ports.contains_key(port)) {
        match port {
            Port::Whole(id) => {
                notes.push(format!("{} in both pipelines; only a DualPort supports this", instance(*id, "used")))
            }
            Port::Read(id) => notes.push(format!("{} in both pipelines; it has one read port", instance(*id, "read"))),
            Port::Write(id) => {
                notes.push(format!("{} in both pipelines; it has one write port", instance(*id, "written")))
            }
            Port::Messages | Port::Table(_) => {}
        }
    }
    notes
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = |picoseconds: u64| {
            let tenths = (picoseconds + 50) / 100;
            format!("{}.{} ns", tenths / 10, tenths % 10)
        };
        let ghz = |hz: u64| format!("{}.{:02} GHz", hz / 1_000_000_000, hz % 1_000_000_000 / 10_000_000);
        let hardware = &self.hardware;
        let gbps = hardware.rate_bps / 1_000_000_000;
        writeln!(f, "{:<10}{:>7}{:>8}{:>12}  at {}", "", "stages", "cycles", "latency", ghz(hardware.clock_hz))?;
        for (name, cost) in [("ingress", &self.ingress), ("egress", &self.egress)] {
            let latency = ns(cost.picoseconds);
            writeln!(f, "{name:<10}{:>7}{:>8}{latency:>12}", cost.stages.len(), cost.cycles)?;
        }
        for (name, cost) in [("ingress", &self.ingress), ("egress", &self.egress)] {
            writeln!(f)?;
            for (number, stage) in cost.stages.iter().enumerate() {
                let last = number + 1 == cost.stages.len();
                let what = match (last, name, stage.join(", ")) {
                    (true, "egress", _) => "header".to_string(),
                    (true, _, events) if events.is_empty() => "reassembly".to_string(),
                    (true, _, events) => format!("reassembly, {events}"),
                    (false, _, accesses) => accesses,
                };
                writeln!(f, "{name} stage {}: {what}", number + 1)?;
            }
        }
        let link = ns(self.link_interval);
        let pipelines = ns(self.pipeline_interval);
        writeln!(f, "\nminimum interval between packets: {}", ns(self.interval()))?;
        writeln!(f, "  link: {link}, {} bytes at {gbps} Gbps; pipelines: {pipelines}", self.header_bytes + 1)?;
        let count = hardware.messages;
        let bytes = hardware.message_bytes;
        writeln!(f, "\nmemory for {count} messages of {bytes} bytes each way: {} bytes", self.memory.total())?;
        for (name, bytes) in self.memory.by_component() {
            writeln!(f, "  {name:<18}{bytes:>12}")?;
        }
        for note in &self.notes {
            writeln!(f, "\nnote: {note}")?;
        }
        Ok(())
    }
}
