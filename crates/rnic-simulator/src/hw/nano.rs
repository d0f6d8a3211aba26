//! The commands `rnic hw nanotransport` and `rnic hw nic`, and the part of `rnic reproduce hardware` about
//! NanoTransport.

use super::{empty, installed, print_document};
use crate::args::{HwNanoArgs, HwNicArgs};
use crate::error::CliError;
use crate::format::Format;
use crate::output;
use comfy_table::Table;
use rnic_hw::model::Design;
use rnic_hw::nanotransport::{
    self, Block, CYCLES_PER_NS, Checked, Latency, Pair, PairMessage, PairParameters, Throughput, check, measure, period,
};
use rnic_hw::synthesis::{Placed, Xilinx, ecp5, xilinx};
use rnic_nano::cost::{Hardware, analyse};
use rnic_nano::{CompileError, Program, compile_file, rtl};
use rnic_untrusted::text::escaped;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Number of steps of each block in `rnic reproduce hardware`: (without `--quick`, with `--quick`).
const STEPS: (u64, u64) = (10_000_000, 20_000);
/// Number of registers in each array that is indexed by message, in the programs whose pipelines are synthesised: one
/// register for each message of the NIC.
const MESSAGES: u128 = 16;
/// Messages for the measurement of throughput, as (length in bytes, number of messages): frames of 64 bytes, full
/// frames, and messages of the maximum length.
const SIZES: [(u32, usize); 3] = [(0, 2_000), (1_024, 300), (38_912, 24)];

/// Compares the blocks with the core.
pub(crate) fn blocks(arguments: &HwNanoArgs) -> Result<(), CliError> {
    let all = if arguments.blocks.is_empty() { Block::ALL.to_vec() } else { arguments.blocks.clone() };
    if arguments.vcd.is_some() && all.len() > 1 {
        return Err(CliError::Input("waveforms need one block: add for example --block reassembly".to_string()));
    }
    let mut checked = Vec::new();
    for block in all {
        checked.push(check(block, arguments.steps, arguments.seed, arguments.vcd.as_deref())?);
    }
    output::print(|out| match arguments.format {
        Format::Table => {
            writeln!(out, "{}", checked_table(&checked))?;
            for row in &checked {
                let kinds = row.seen.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>();
                writeln!(out, "{}: {}", row.block.name(), kinds.join(", "))?;
            }
            Ok(())
        }
        Format::Json => print_document(out, &checked_document(&checked)),
    })
}

fn checked_table(checked: &[Checked]) -> Table {
    let mut table = empty(&["block", "steps without a difference", "latency (cycles)", "interval (cycles)"]);
    for row in checked {
        let interval = format!("{:.2}", row.cycles as f64 / row.steps as f64);
        table.add_row([row.block.name().to_string(), row.steps.to_string(), row.latency.to_string(), interval]);
    }
    table
}

fn checked_document(checked: &[Checked]) -> Value {
    let row = |row: &Checked| {
        let seen = row.seen.iter().map(|(kind, count)| ((*kind).to_string(), json!(count)));
        json!({
            "block": row.block.name(),
            "steps": row.steps,
            "latency_cycles": row.latency,
            "interval_cycles": row.cycles as f64 / row.steps as f64,
            "seen": seen.collect::<serde_json::Map<_, _>>(),
        })
    };
    json!({ "blocks": checked.iter().map(row).collect::<Vec<_>>() })
}

/// Runs two NICs that exchange messages, and prints the results.
pub(crate) fn nic(arguments: &HwNicArgs) -> Result<(), CliError> {
    let file = arguments.file.display().to_string();
    let program = match compile_file(&arguments.file, &[]) {
        Ok(program) => program,
        Err(CompileError::Rejected(rejected)) => return Err(CliError::Program(Box::new(rejected))),
        Err(unreadable) => return Err(CliError::Input(unreadable.to_string())),
    };
    let rtl = rtl::generate(&program, program.header_room() as u32)
        .map_err(|error| crate::error::no_hardware(&file, &program, &error))?;
    let in_1024 = |per_mille: u32| (per_mille * 1_024).div_ceil(1_000);
    let parameters = PairParameters {
        log_slots: arguments.slots.ilog2(),
        delay: arguments.delay,
        loss: in_1024(arguments.loss),
        trim: in_1024(arguments.trim),
        rtx_needs_credit: arguments.rtx_needs_credit,
    };
    if let Some(folder) = &arguments.export {
        let count = nanotransport::export(&rtl, parameters, folder)?;
        let folder = escaped(&folder.display().to_string()).into_owned();
        return output::print(|out| writeln!(out, "{count} files in {folder}; README.md describes them"));
    }
    let mut seed = arguments.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |bound: u64| {
        // The lengths of messages need no better random generator than xorshift64.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 32) % bound
    };
    let message = |n| PairMessage { sender: n % 2, bytes: random(38_913) as u32 };
    let messages: Vec<PairMessage> = (0..arguments.messages).map(message).collect();
    let mut pair = Pair::start(&rtl, parameters, arguments.vcd.as_deref())?;
    let delivered = pair.run(&messages)?;
    drop(pair);
    let quiet = PairParameters { loss: 0, trim: 0, ..parameters };
    let (latency, throughput) = measure(&rtl, quiet, &SIZES)?;
    let last = delivered.last().ok_or_else(|| CliError::Input("no message".into()))?;
    let cycles = delivered.iter().map(|delivery| delivery.delivered).max().unwrap_or_default();
    output::print(|out| match arguments.format {
        Format::Table => {
            writeln!(
                out,
                "{} messages arrived with their payload in {cycles} cycles; {} timeouts, {} frames dropped by a full queue",
                delivered.len(),
                last.timeouts,
                last.dropped
            )?;
            let row = Measured { name: file.clone(), period: period(&rtl), latency, throughput: throughput.clone() };
            writeln!(out, "{}", measured_table(&[row]))
        }
        Format::Json => {
            let document = json!({
                "messages": delivered.len(),
                "cycles": cycles,
                "timeouts": last.timeouts,
                "dropped": last.dropped,
                "latency_cycles": { "rx": latency.rx, "tx": latency.tx, "round_trip": latency.round_trip },
                "throughput": throughput.iter().map(throughput_document).collect::<Vec<_>>(),
            });
            print_document(out, &document)
        }
    })
}

fn throughput_document(row: &Throughput) -> Value {
    json!({ "bytes": row.bytes, "million_messages_per_second": row.million_per_second, "gbps": row.gbps })
}

/// The measurements of NICs with one program.
struct Measured {
    name: String,
    period: u32,
    latency: Latency,
    throughput: Vec<Throughput>,
}

fn measured_table(rows: &[Measured]) -> Table {
    let header = [
        "program",
        "cycles between packets",
        "RX (cycles, ns)",
        "TX",
        "round trip",
        "64-byte frames (M/s, Gbps)",
        "full frames",
        "messages of 38 frames",
    ];
    let mut table = empty(&header);
    let time = |cycles: u32| format!("{cycles}, {:.1}", f64::from(cycles) / CYCLES_PER_NS);
    for row in rows {
        let mut cells = vec![row.name.clone(), row.period.to_string()];
        cells.extend([row.latency.rx, row.latency.tx, row.latency.round_trip].map(time));
        cells.extend(row.throughput.iter().map(|row| format!("{:.1}, {:.1}", row.million_per_second, row.gbps)));
        table.add_row(cells);
    }
    table
}

/// The cost of a design after synthesis and, on ECP5, also after place and route.
struct Synthesised {
    name: String,
    xilinx: Xilinx,
    ecp5: Option<Placed>,
}

/// A program's cost according to the model of `rnic p4 check --cost`, and according to the generated Verilog.
struct Modelled {
    name: &'static str,
    /// Stages of (ingress, egress).
    stages: [(u32, u32); 2],
    /// Cycles between two packets.
    interval: [u32; 2],
    /// Bytes of registers and schedulers.
    registers: [u64; 2],
    /// Number of bits that the cost model has for headers in all stages. The table of the cost has the measured
    /// flip-flops.
    header_bits: u64,
    latency_ns: (f64, f64),
}

/// The part of `rnic reproduce hardware` about NanoTransport.
#[derive(Default)]
pub(crate) struct Nano {
    checked: Vec<Checked>,
    measured: Vec<Measured>,
    synthesised: Vec<Synthesised>,
    modelled: Vec<Modelled>,
}

/// Measures NanoTransport's blocks and NICs, as far as the required programs are installed.
pub(crate) fn measured(quick: bool, notes: &mut Vec<String>) -> Result<Nano, CliError> {
    let mut nano = Nano::default();
    for block in Block::ALL {
        match installed(check(block, if quick { STEPS.1 } else { STEPS.0 }, 1, None), notes)? {
            Some(checked) => nano.checked.push(checked),
            None => break,
        }
    }
    let refused = |error: rtl::RtlError| CliError::Input(error.to_string());
    let mut place = !quick;
    for block in Block::ALL {
        nano.synthesise(block.name().to_string(), &block.module(4), &block.place(), &mut place, notes)?;
    }
    for (name, program) in rnic_hw::p4::programs(MESSAGES)? {
        let rtl = rtl::generate(&program, program.header_room() as u32).map_err(refused)?;
        nano.modelled.push(modelled(name, &program, &rtl));
        if quick && name != "ndp" {
            continue;
        }
        let homa = name.starts_with("homa");
        let parameters = PairParameters { rtx_needs_credit: homa, ..PairParameters::default() };
        if let Err(error) = nanotransport::pair(&rtl, parameters) {
            notes.push(format!("{name} is not in a NIC, and its pipelines are not synthesised: {error}"));
            continue;
        }
        if let Some((latency, throughput)) = installed(measure(&rtl, parameters, &SIZES), notes)? {
            nano.measured.push(Measured { name: name.to_string(), period: period(&rtl), latency, throughput });
        }
        // For HPCC, with 17 divisions, Yosys does not finish within many minutes.
        if !quick && name != "hpcc" {
            let (alone, placed) = (nanotransport::pipelines_alone(&rtl), nanotransport::pipelines_in_registers(&rtl));
            nano.synthesise(format!("pipelines of {name}"), &alone, &placed, &mut place, notes)?;
        }
    }
    notes.dedup();
    Ok(nano)
}

fn modelled(name: &'static str, program: &Program, rtl: &rtl::Rtl) -> Modelled {
    let hardware = Hardware::default();
    let cost = analyse(program, &hardware);
    let ns = |picoseconds: u64| picoseconds as f64 / 1_000.0;
    let cycles = (cost.pipeline_interval as f64 * hardware.clock_hz as f64 / 1e12).round() as u32;
    // An entry of a scheduler consists of a valid bit, an id, a rank, and the fields granted and grantable.
    let bits = |instance: &rnic_nano::hir::Instance| match instance.kind.as_str() {
        "PriorityScheduler" => 16 * 113,
        _ => instance.types.iter().sum::<u32>() as u64 * instance.arguments.first().map_or(0, |size| *size as u64),
    };
    let registers: u64 = program.hir().instances.iter().map(bits).sum();
    Modelled {
        name,
        stages: [
            (cost.ingress.stages.len() as u32, cost.egress.stages.len() as u32),
            (rtl.ingress.stages, rtl.egress.stages),
        ],
        interval: [cycles, rtl.ingress.distance.max(rtl.egress.distance)],
        registers: [cost.memory.registers, registers.div_ceil(8)],
        header_bits: 8 * cost.memory.headers,
        latency_ns: (ns(cost.ingress.picoseconds), ns(cost.egress.picoseconds)),
    }
}

/// The NanoTransport paper's statements, and their sources.
const SOURCES: &str = "\
Stated in the NanoTransport paper, at 3.2 GHz: RX at most 7.2 ns, TX at most 3.8 ns, round trip 11 ns; 65-byte messages at the
line rate of 200 Gbps. Our RX begins when a frame is complete and ends when its message leaves the NIC; TX begins with the
message and ends when its header leaves; a round trip is from a complete data frame to the header of the response. They are
cycles of the design in a simulation, not of a device that reaches 3.2 GHz.";

impl Nano {
    /// Synthesises a design, and with `place` also places and routes it between registers.
    fn synthesise(
        &mut self, name: String, design: &Design, between: &Design, place: &mut bool, notes: &mut Vec<String>,
    ) -> Result<(), CliError> {
        let Some(xilinx) = installed(xilinx(design), notes)? else { return Ok(()) };
        let ecp5 = if *place { installed(ecp5(design, between), notes)? } else { None };
        *place &= ecp5.is_some();
        self.synthesised.push(Synthesised { name, xilinx, ecp5 });
        Ok(())
    }

    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.checked.is_empty() {
            writeln!(out, "{}\n", checked_table(&self.checked))?;
        }
        if !self.measured.is_empty() {
            writeln!(out, "{}\n{SOURCES}\n", measured_table(&self.measured))?;
        }
        if !self.synthesised.is_empty() {
            let header = [
                "NanoTransport, 16 messages",
                "LUT",
                "FF",
                "BRAM (18 Kb)",
                "DSP",
                "ECP5: LUT4",
                "FF",
                "BRAM (18 Kb)",
                "MHz",
            ];
            let mut table = empty(&header);
            for Synthesised { name, xilinx, ecp5 } in &self.synthesised {
                let counts = [xilinx.luts, xilinx.flip_flops, xilinx.block_rams, xilinx.multipliers];
                let mut row = vec![name.clone()];
                row.extend(counts.map(|count| count.to_string()));
                row.extend(match ecp5 {
                    Some(placed) => {
                        let counts = [placed.luts, placed.flip_flops, placed.block_rams].map(|count| count.to_string());
                        [counts.to_vec(), vec![format!("{:.0}", placed.mhz)]].concat()
                    }
                    None => vec![String::new(); 4],
                });
                table.add_row(row);
            }
            writeln!(out, "{table}\n")?;
        }
        let header = [
            "program: cost model, Verilog",
            "stages (ingress, egress)",
            "cycles between packets",
            "registers (bytes)",
            "model: bits of headers",
            "model: latency (ns)",
        ];
        let mut table = empty(&header);
        for row in &self.modelled {
            let [model, generated] = row.stages;
            table.add_row([
                row.name.to_string(),
                format!("{}+{}, {}+{}", model.0, model.1, generated.0, generated.1),
                format!("{}, {}", row.interval[0], row.interval[1]),
                format!("{}, {}", row.registers[0], row.registers[1]),
                row.header_bits.to_string(),
                format!("{:.1}, {:.1}", row.latency_ns.0, row.latency_ns.1),
            ]);
        }
        writeln!(out, "{table}\n")
    }

    /// Adds the tables to a record.
    pub(crate) fn record(&self, record: &mut rnic_record::Record) {
        let mut blocks = super::numbers(&["block", "steps", "latency (cycles)", "interval (cycles)"]);
        blocks.columns[3].decimals = Some(2);
        blocks.rows.extend(self.checked.iter().map(|row| {
            let interval = row.cycles as f64 / row.steps as f64;
            vec![json!(row.block.name()), json!(row.steps), json!(row.latency), rnic_record::cells(&[interval])]
        }));
        record.put("nanotransport-blocks", blocks);
        let mut cost = super::numbers(&["design", "LUT", "FF", "BRAM", "DSP"]);
        cost.rows.extend(self.synthesised.iter().map(|Synthesised { name, xilinx, .. }| {
            let counts = [xilinx.luts, xilinx.flip_flops, xilinx.block_rams, xilinx.multipliers];
            [vec![json!(name)], counts.map(|count| json!(count)).to_vec()].concat()
        }));
        record.put("nanotransport-cost", cost);
        let names = ["program", "stages: model, Verilog", "cycles between packets: model, Verilog"];
        let mut model = rnic_record::Table::named(&names);
        model.rows.extend(self.modelled.iter().map(|row| {
            let [own, generated] = row.stages;
            vec![
                json!(row.name),
                json!(format!("{} and {}, {} and {}", own.0, own.1, generated.0, generated.1)),
                json!(format!("{}, {}", row.interval[0], row.interval[1])),
            ]
        }));
        record.put("model", model);
    }

    pub(crate) fn document(&self) -> Value {
        let measured = self.measured.iter().map(|row| {
            json!({
                "program": row.name,
                "period_cycles": row.period,
                "latency_cycles": { "rx": row.latency.rx, "tx": row.latency.tx, "round_trip": row.latency.round_trip },
                "throughput": row.throughput.iter().map(throughput_document).collect::<Vec<_>>(),
            })
        });
        let synthesised = self.synthesised.iter().map(|Synthesised { name, xilinx, ecp5 }| {
            let placed = ecp5.map(|placed| {
                json!({ "luts": placed.luts, "flip_flops": placed.flip_flops, "block_rams": placed.block_rams, "mhz": placed.mhz })
            });
            json!({
                "design": name,
                "luts": xilinx.luts,
                "flip_flops": xilinx.flip_flops,
                "block_rams": xilinx.block_rams,
                "multipliers": xilinx.multipliers,
                "ecp5": placed,
            })
        });
        let model = self.modelled.iter().map(|row| {
            json!({
                "program": row.name,
                "stages": { "model": row.stages[0], "generated": row.stages[1] },
                "interval_cycles": { "model": row.interval[0], "generated": row.interval[1] },
                "register_bytes": { "model": row.registers[0], "generated": row.registers[1] },
                "header_bits": row.header_bits,
            })
        });
        json!({
            "comparison": checked_document(&self.checked),
            "nics": measured.collect::<Vec<_>>(),
            "cost": synthesised.collect::<Vec<_>>(),
            "model": model.collect::<Vec<_>>(),
        })
    }
}
