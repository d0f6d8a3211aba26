//! The command `rnic trace`: what a trace of a distributed program contains, whether its ranks fit together, and its
//! conversion to another format.

use clap::{Args, ValueEnum};
use rnic_simulator::error::CliError;
use rnic_simulator::output;
use rnic_spec::TraceFormat as Read;
use rnic_trace::{
    Counts, Graph, Other, WriteError, count, guess, guess_other, open, open_other, write_csv, write_goal,
};
use rnic_transport::Bytes;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic trace traces/allreduce                       # traces/allreduce.0.et, traces/allreduce.1.et, ... of Chakra\n  \
    rnic trace workload.txt --ranks 32\n  \
    rnic trace perm64.bin --format csv > perm64.csv\n\n\
    Exit codes: 0 success; 1 the output cannot be written; 2 the trace is wrong, or its ranks do not fit together.")]
pub(crate) struct TraceArgs {
    /// The trace; for Chakra the part of the file names before `.RANK.et`, or one of the files
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Format of the trace [default: recognised]
    #[arg(long, value_enum, value_name = "FORMAT")]
    input: Option<Input>,

    /// Number of ranks, for workload files of SimAI and ASTRA-sim without `all_gpus`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    ranks: Option<u32>,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = TraceFormat::Text)]
    format: TraceFormat,
}

/// Formats of traces.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Input {
    /// Execution traces of Chakra
    Chakra,
    /// GOAL in text form
    Goal,
    /// GOAL in binary form
    GoalBinary,
    /// Workload files of SimAI and ASTRA-sim
    #[value(name = "simai")]
    SimAi,
    /// Comma-separated values with rnic's columns
    Csv,
}

/// Output formats of `rnic trace`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum TraceFormat {
    /// What the trace contains, as text
    Text,
    /// What the trace contains, as a JSON document
    Json,
    /// The trace as comma-separated values with rnic's columns
    Csv,
    /// The trace as GOAL text
    Goal,
}

/// Prints what a trace contains, or the trace in another format.
pub(crate) fn trace(arguments: &TraceArgs) -> Result<(), CliError> {
    let graph = graph(arguments).map_err(CliError::Input)?;
    let write: fn(&mut dyn Write, Graph) -> Result<(), WriteError> = match arguments.format {
        TraceFormat::Csv => write_csv,
        TraceFormat::Goal => write_goal,
        TraceFormat::Text | TraceFormat::Json => return contents(arguments.format, graph),
    };
    let mut failed = None;
    output::print(|out| match write(out, graph) {
        Ok(()) => Ok(()),
        Err(WriteError::Output(error)) => Err(error),
        Err(WriteError::Trace(error)) => {
            failed = Some(error);
            Ok(())
        }
    })?;
    failed.map_or(Ok(()), |error| Err(CliError::Input(error)))
}

/// Opens the trace.
fn graph(arguments: &TraceArgs) -> Result<Graph, String> {
    let path = arguments.trace.to_str().ok_or("the path of the trace is not text in UTF-8")?;
    let format = match arguments.input {
        Some(Input::Chakra) => Ok(Read::Chakra),
        Some(Input::Goal) => Ok(Read::Goal),
        Some(Input::Csv) => Ok(Read::Csv),
        Some(Input::GoalBinary) => Err(Other::GoalBinary),
        Some(Input::SimAi) => Err(Other::SimAi),
        None => match guess_other(path) {
            Some(other) => Err(other),
            None => Ok(guess(chakra_prefix(path))?),
        },
    };
    let graph = match format {
        Ok(format) if format == Read::Chakra => open(chakra_prefix(path), format)?,
        Ok(format) => open(path, format)?,
        Err(other) => open_other(path, other, arguments.ranks)?,
    };
    match arguments.ranks {
        Some(ranks) if graph.tasks.len() != ranks as usize => {
            let found = graph.tasks.len();
            Err(format!("{path}: it has {found} ranks, and `--ranks` is {ranks}; accepted: {found}"))
        }
        _ => Ok(graph),
    }
}

/// The part of the name of a Chakra file before `.RANK.et`.
fn chakra_prefix(path: &str) -> &str {
    let prefix = path.strip_suffix(".et").and_then(|path| path.rsplit_once('.'));
    prefix.filter(|(_, rank)| rank.parse::<u32>().is_ok()).map_or(path, |(prefix, _)| prefix)
}

fn contents(format: TraceFormat, graph: Graph) -> Result<(), CliError> {
    let counts = count(graph).map_err(CliError::Input)?;
    output::print(|out| match format {
        TraceFormat::Json => writeln!(out, "{}", document(&counts)),
        _ => text(out, &counts),
    })
}

fn document(counts: &Counts) -> Value {
    let of =
        |(name, (tasks, bytes)): (&&str, &(u64, u64))| (name.to_string(), json!({ "tasks": tasks, "bytes": bytes }));
    json!({
        "ranks": counts.ranks,
        "tasks": counts.tasks,
        "computations": counts.computations,
        "longest_computation_us": counts.longest.as_us(),
        "sends": counts.sends,
        "sent_bytes": counts.sent,
        "receives": counts.receives,
        "groups": counts.groups,
        "collectives": counts.collectives.iter().map(of).collect::<serde_json::Map<_, _>>(),
    })
}

fn text(out: &mut dyn Write, counts: &Counts) -> io::Result<()> {
    let Counts { ranks, tasks, computations, longest, sends, sent, receives, groups, collectives, .. } = counts;
    let line = |out: &mut dyn Write, name: &str, value: String| writeln!(out, "  {name:<15}{value}");
    writeln!(out, "{ranks} ranks, {tasks} tasks")?;
    line(out, "computations", format!("{computations}, at most {longest} on a rank"))?;
    line(out, "messages", format!("{sends} sent, {receives} received, {}", Bytes(*sent)))?;
    if let Some((smallest, largest)) = groups.iter().min().zip(groups.iter().max()) {
        line(out, "groups", format!("{} of {smallest} to {largest} ranks", groups.len()))?;
    }
    for (name, (tasks, bytes)) in collectives {
        line(out, name, format!("{tasks} tasks, {} per task", Bytes(bytes / tasks.max(&1))))?;
    }
    Ok(())
}
