//! What a program would cost as hardware: stages, latency, packets per second, memory.
//!
//! A model, to be compared with the figures that the NanoTransport document gives for its prototype. Of these figures two were used to
//! set it up: see [`INGRESS_CYCLES`] and [`EGRESS_CYCLES`].

mod memory;
mod stages;

use crate::program::Program;
pub use memory::Memory;
use stages::{Port, Stages, stages};
use std::fmt;

/// Cycles of a stage: one to read its memory, one to compute and write. An assumption: the document does not say.
pub const STAGE_CYCLES: u32 = 2;

/// Cycles of ingress beside the header's arrival and the stages: reassembly. Fitted: the document's 7.2 ns for Homa are 23 cycles at
/// 3.2 GHz, less 8 for a header of 64 bytes and 10 for 5 stages.
pub const INGRESS_CYCLES: u32 = 5;

/// Cycles of egress beside the header's departure and the stages: packetization and the arbiter work ahead. Fitted: the document's 3.8 ns
/// for Homa are 12 cycles at 3.2 GHz, less 8 for a header of 64 bytes and 4 for 2 stages.
pub const EGRESS_CYCLES: u32 = 0;

/// The hardware that a program is to run on. The default is the document's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hardware {
    /// Cycles per second.
    pub clock_hz: u64,
    /// Rate of the link, in bit/s.
    pub rate_bps: u64,
    /// Messages at once, in each direction.
    pub messages: u32,
    /// Bytes of a message.
    pub message_bytes: u32,
    /// Payload bytes of a packet: a message's buffer is so many times these.
    pub segment_bytes: u32,
    /// A header is padded to a multiple of so many bytes on the wire.
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

/// The cost of a pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PipelineCost {
    /// What is accessed in each stage. Their number is that of the longest chain of accesses of memory (messages, registers,
    /// schedulers, tables that can be changed) of which each needs what the one before gave, by its arguments or since that decides whether it takes
    /// place; and one stage more in which ingress tells the fixed blocks what to do (the events that are listed) and egress writes the header. Accesses that
    /// do not depend on each other share a stage. A memory lies in one stage; of a DualPort, so does each port.
    ///
    /// This gives the document's 3 and 1 for NDP (message, pull register, control packet; header) and 5 and 2 for Homa
    /// (message, registers, scheduler, registers by what it chose, control packet; priority, header).
    pub stages: Vec<Vec<String>>,
    /// Latency in cycles: the header's words, [`STAGE_CYCLES`] for each stage, and [`INGRESS_CYCLES`] or [`EGRESS_CYCLES`].
    pub cycles: u32,
    /// The same in picoseconds.
    pub picoseconds: u64,
}

/// The cost of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cost {
    /// What it was worked out for.
    pub hardware: Hardware,
    /// Bytes that pass in a cycle: the least power of two that keeps up with the link. Document: 62.5 bits, so 8 bytes.
    pub word_bytes: u32,
    /// Bytes of the program's header on the wire: what it emits at most, padded.
    pub header_bytes: u32,
    /// Parser and ingress control, up to reassembly.
    pub ingress: PipelineCost,
    /// Egress control and deparser.
    pub egress: PipelineCost,
    /// Least time from packet to packet that the pipelines can bear, in picoseconds. Stages work on different packets, so this is
    /// [`STAGE_CYCLES`], times the most accesses that a packet makes by one port.
    pub pipeline_interval: u64,
    /// Least time between packets on the link, in picoseconds: the header and one byte. Document: 65 bytes at 200 Gbps, 2.6 ns.
    pub link_interval: u64,
    /// On the NIC, in bytes.
    pub memory: Memory,
    /// What such hardware could not do in one pass.
    pub notes: Vec<String>,
}

impl Cost {
    /// Least time between packets, in picoseconds: the link's, if the pipelines keep up with it.
    pub fn interval(&self) -> u64 {
        self.link_interval.max(self.pipeline_interval)
    }
}

/// Works out what a program costs.
pub fn analyse(program: &Program, hardware: &Hardware) -> Cost {
    let hir = program.hir();
    let (ingress, egress) = (stages(hir, &hir.ingress), stages(hir, &hir.egress));
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

/// What does not fit the primitives: a port used twice by one packet, or by both pipelines.
fn notes(program: &Program, ingress: &Stages, egress: &Stages) -> Vec<String> {
    let hir = program.hir();
    let mut notes = Vec::new();
    let instance = |id: u32, what: &str| format!("'{}' is {what}", hir.instances[id as usize].name);
    for (side, pipeline, stages) in [("ingress", &hir.ingress, ingress), ("egress", &hir.egress, egress)] {
        if stages.contradictory {
            notes.push(format!(
                "branches of {side} access memories in different orders; no order of stages is right for all of them"
            ));
        }
        for (port, count) in stages.ports.iter().filter(|(_, count)| **count > 1) {
            let what = match port {
                Port::Messages => "get_rx_msg_info is asked".to_string(),
                Port::Whole(id) => instance(*id, "used"),
                Port::Read(id) => instance(*id, "read"),
                Port::Write(id) => instance(*id, "written"),
                Port::Table(id) => format!("table '{}' is applied", pipeline.tables[*id as usize].name),
            };
            notes
                .push(format!("{what} {count} times by one packet in {side}; a memory has one such access per packet"));
        }
    }
    for port in ingress.ports.keys().filter(|port| egress.ports.contains_key(port)) {
        match port {
            Port::Whole(id) => {
                notes.push(format!("{} in both pipelines; only a DualPort can be", instance(*id, "used")))
            }
            Port::Read(id) => {
                notes.push(format!("{} in both pipelines; it has one port to read", instance(*id, "read")))
            }
            Port::Write(id) => {
                notes.push(format!("{} in both pipelines; it has one port to write", instance(*id, "written")))
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
        let (link, pipelines) = (ns(self.link_interval), ns(self.pipeline_interval));
        writeln!(f, "\nleast interval between packets: {}", ns(self.interval()))?;
        writeln!(f, "  link: {link}, {} bytes at {gbps} Gbps; pipelines: {pipelines}", self.header_bytes + 1)?;
        let (count, bytes) = (hardware.messages, hardware.message_bytes);
        writeln!(f, "\nmemory for {count} messages of {bytes} bytes each way: {} bytes", self.memory.total())?;
        for (name, bytes) in self.memory.parts() {
            writeln!(f, "  {name:<18}{bytes:>12}")?;
        }
        for note in &self.notes {
            writeln!(f, "\nnote: {note}")?;
        }
        Ok(())
    }
}
