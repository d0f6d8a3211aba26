//! The command `rnic trace`: it describes a trace of a distributed program, checks that its ranks match, and converts
//! it to another format.

use clap::{Args, ValueEnum};
use rnic_simulator::error::CliError;
use rnic_simulator::selection::{Selection, parse_set};
use rnic_simulator::{Catalogue, builtin, load_selected, output, select};
use rnic_spec::TraceFormat as Read;
use rnic_trace::{
    Counts, Graph, Other, WriteError, count, guess, guess_other, open, open_other, write_csv, write_goal,
};
use rnic_transport::Bytes;
use rnic_workload::Program;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic trace traces/allreduce                       # traces/allreduce.0.et, traces/allreduce.1.et, ... of Chakra\n  \
    rnic trace workload.txt --ranks 32\n  \
    rnic trace perm64.bin --format csv > perm64.csv\n  \
    rnic trace training/dense --expand --format goal > dense.goal\n\n\
    Exit codes: 0 success; 1 the output cannot be written; 2 the trace is wrong, or its ranks do not fit together.")]
pub(crate) struct TraceArgs {
    /// The trace; for Chakra the part of the file names before `.RANK.et`, or one of the files. Or a scenario (a file
    /// that ends in .toml, or a built-in scenario) with the pattern `collective`, `training` or `trace`
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Format of the trace [default: recognised]
    #[arg(long, value_enum, value_name = "FORMAT")]
    input: Option<Input>,

    /// Number of ranks, for workload files of SimAI and ASTRA-sim without `all_gpus`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    ranks: Option<u32>,

    /// Run of the scenario [default: the first]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,

    /// Traffic source of the run [default: the first with tasks]
    #[arg(long, value_name = "NAME")]
    traffic: Option<String>,

    /// Change one setting of the scenario; may be repeated
    #[arg(long, value_name = "PATH=VALUE", value_parser = parse_set)]
    set: Vec<(String, String)>,

    /// Replace the collective operations of a scenario by their messages, with its algorithm and `chunk`
    #[arg(long)]
    expand: bool,

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
pub(crate) fn trace(arguments: &TraceArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let graph = match is_scenario(&arguments.trace) {
        true => of_scenario(arguments, catalogue)?,
        false => graph(arguments).map_err(CliError::Input)?,
    };
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

/// Whether a name refers to a scenario: it ends in `.toml`, or it is the name of a built-in scenario and not of a file.
fn is_scenario(path: &Path) -> bool {
    let is_file = path.extension().is_some_and(|ending| ending == "toml");
    is_file || (!path.exists() && path.to_str().and_then(builtin::path).is_some())
}

/// The tasks of a traffic source of a scenario.
fn of_scenario(arguments: &TraceArgs, catalogue: &Catalogue) -> Result<Graph, CliError> {
    for (option, is_given) in [("--input", arguments.input.is_some()), ("--ranks", arguments.ranks.is_some())] {
        if is_given {
            return Err(CliError::Input(format!("`{option}` has no effect on a scenario; accepted: a trace")));
        }
    }
    let (scenario, set) = (arguments.trace.clone(), arguments.set.clone());
    let scenario = load_selected(catalogue, &Selection { scenario, set, seed: None })?;
    let run = select(&scenario, arguments.run.as_deref())?;
    let source = match &arguments.traffic {
        None => run.traffic.iter().find(|source| source.pattern.is_program()).or(run.traffic.first()),
        Some(name) => run.traffic.iter().find(|source| source.name == *name),
    };
    let source = source.ok_or_else(|| {
        let names: Vec<String> = run.traffic.iter().map(|source| format!("\"{}\"", source.name)).collect();
        let name = arguments.traffic.as_deref().unwrap_or_default();
        CliError::Input(format!("no traffic is called \"{name}\"; accepted: {}", names.join(", ")))
    })?;
    let (graph, plan) = Program::graph(source).map_err(CliError::Input)?;
    Ok(if arguments.expand { Program::expand(graph, &plan) } else { graph })
}

/// Opens the trace.
fn graph(arguments: &TraceArgs) -> Result<Graph, String> {
    let scenario_only = [
        ("--expand", arguments.expand),
        ("--run", arguments.run.is_some()),
        ("--traffic", arguments.traffic.is_some()),
        ("--set", !arguments.set.is_empty()),
    ];
    if let Some((option, _)) = scenario_only.iter().find(|(_, is_given)| *is_given) {
        return Err(format!(
            "`{option}` needs a scenario; accepted: a file that ends in .toml, also one whose traffic is a trace"
        ));
    }
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
