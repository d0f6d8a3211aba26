//! The arguments of the command. Parsing, help texts and errors follow from these definitions.

#[cfg(feature = "hardware")]
mod hw;

#[cfg(not(feature = "hardware"))]
use crate::absent::Ignored as HwArgs;
use crate::campaign::CampaignArgs;
use crate::format::Format;
pub(crate) use crate::selection::Selection;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum};
use rnic_metrics::simulated;
use rnic_results::perfetto;
use rnic_transport::{Bytes, Time};
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "hardware")]
pub(crate) use hw::{HwArgs, HwCommand, HwIrnArgs, HwNanoArgs, HwNicArgs, IrnLogic};

/// The simulator of rnic, an RDMA NIC in software.
///
/// A scenario is a TOML file with a fabric, traffic, and the runs to compare. `rnic-simulator run` simulates the runs
/// and prints their slowdown, completion times, drops and pauses. This program has the commands of `rnic` that
/// simulate; `cargo build --release` builds `rnic`, which has all commands.
#[derive(Parser, Debug)]
#[command(
    name = "rnic-simulator",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  \
        rnic-simulator run scenarios/irn/default.toml\n  \
        rnic-simulator run scenarios/irn/default.toml --set traffic.load=0.9 --seed 7\n  \
        rnic-simulator list transports\n\n\
        Exit codes: 0 success; 1 a run failed, or a file cannot be written; 2 invalid input; 130 interrupted by Ctrl-C."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands of the simulator.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Simulate every run of a scenario, print a table and write the result files
    Run(Box<RunArgs>),
    /// Execute one run from its JSON document, as `rnic run --print-spec` prints it
    Exec(ExecArgs),
    /// Print the flows of a run in order of start, in rnic's format or another tool's
    Flows(FlowsArgs),
    /// Print the topology of a run in the format of another tool, or as a graph
    Topology(TopologyArgs),
    /// List transports, congestion controls, topologies, workloads or scenarios
    List(ListArgs),
    /// Check a scenario and print a line for each run, without simulating
    Check(CheckArgs),
    /// Rerun the experiments of a paper and compare the results with the paper
    Reproduce(ReproduceArgs),
    /// Simulate many runs on any number of machines, each of them once, and collect their results
    Campaign(Box<CampaignArgs>),
    /// Simulate the hardware in Verilog and compare it with the transport core
    Hw(HwArgs),
    /// Print the JSON Schema of scenario files, for editors, or of the documents of `rnic exec`
    Schema(SchemaArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic run scenarios/irn/default.toml\n  \
    rnic run scenarios/irn/default.toml --set traffic.flows=2000 --set traffic.warmup=200\n  \
    rnic run scenarios/irn/default.toml --set run.IRN.bdp_cap=50 --out results\n  \
    rnic run scenarios/irn/default.toml --format json --quiet | jq '.runs[].slowdown.mean'\n  \
    rnic run scenarios/irn/default.toml --run IRN --pcap h0:edge0=h0.pcapng\n  \
    rnic run scenarios/irn/default.toml --run IRN --trace irn.pftrace\n  \
    rnic run scenarios/irn/default.toml --run IRN --trace-packets flow=17\n  \
    rnic run scenarios/irn/default.toml --run IRN --fidelity both\n  \
    rnic run scenarios/irn/default.toml --resume\n  \
    rnic run scenarios/irn/default.toml --replay --replay-size 5MB\n  \
    rnic run scenarios/irn/default.toml --serve\n  \
    rnic run scenarios/irn/default.toml --tui\n\n\
    The result files summary.json, ports.csv and report.html are in a folder with the scenario's name below --out.\n\
    The same scenario and seed give the same bytes in every result file, for any number of threads.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Simulate only the run with this name; may be repeated
    #[arg(long = "run", value_name = "NAME")]
    pub(crate) runs: Vec<String>,

    /// Folder for results; the files are in a subfolder with the scenario's name
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub(crate) out: PathBuf,

    /// Print the specification of each run as a JSON document, one per line, without simulating
    ///
    /// `rnic exec` executes such a document, on this machine or another; its format is in docs/reference/run-spec.md.
    #[arg(long, conflicts_with_all = ["pcap", "resume", "flows", "metrics", "trace", "trace_packets"])]
    pub(crate) print_spec: bool,

    /// What to simulate, instead of the scenario's `fidelity`
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) fidelity: Option<FidelityOption>,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,

    /// Number of threads; with fewer runs than threads, several threads simulate one run [default: number of
    /// processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    pub(crate) threads: Option<u16>,

    /// Continue an interrupted scenario: simulate only the runs that had not finished
    ///
    /// rnic stores finished runs in the folder `unfinished`, next to the result files, until it has written these. It
    /// uses a stored run only if everything that determines the result is unchanged: settings, seed, the files that the
    /// scenario names, and this program. The results are the same as without the interruption.
    #[arg(long, conflicts_with = "pcap")]
    pub(crate) resume: bool,

    /// Do not print progress bars, the names of the files written, or messages about stored runs
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Also write the records of all flows as flows.csv or flows.parquet; may be repeated
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) flows: Vec<FlowFile>,

    /// Also write metrics.txt: the metrics of `rnic counters` over simulated time, in the format OpenMetrics
    #[arg(long)]
    pub(crate) metrics: bool,

    /// Maximum number of sampled values in metrics.txt, or `all`
    ///
    /// If the samples of [watch] have more values, metrics.txt has every second, third, ... sample. The values at the
    /// end of each run are always in it. 100,000 values take about 10 MB.
    #[arg(long, value_name = "N|all", default_value_t = simulated::MAX_VALUES, requires = "metrics", value_parser = parse_values)]
    pub(crate) metrics_values: u64,

    /// Multiply times in metrics.txt by this number; Prometheus cannot tell times within a millisecond apart
    #[arg(long, value_name = "N", default_value_t = 1, requires = "metrics", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) metrics_stretch: u32,

    /// Also write replay.html: the runs over time, with queues, pauses, drops and flows in a picture of the fabric
    ///
    /// The page is one file that works offline. Needs the packets of all runs: not with fidelity = "flow" or
    /// fast_forward, and not with --resume, whose stored runs have results only. The guide is docs/guides/replay.md.
    #[arg(long, conflicts_with_all = ["resume", "print_spec"])]
    pub(crate) replay: bool,

    /// Size of replay.html, at most; a larger file has more instants of long runs
    ///
    /// The runs share the size. The fabric, and two instants of each run, are in the file in any case.
    #[arg(long, value_name = "SIZE", default_value = "20 MB", requires = "replay")]
    pub(crate) replay_size: Bytes,

    /// Id of a flow (flows.csv) that replay.html must show, with its path; may be repeated
    #[arg(long = "replay-flow", value_name = "ID", requires = "replay", value_parser = parse_flow)]
    pub(crate) replay_flows: Vec<u32>,

    /// Serve a page that shows the runs while they are simulated, and their results afterwards
    ///
    /// Prints the address of the page. The default is a free port of this machine alone. At an address that other
    /// machines reach, the page needs the token that the printed address has. After the end the page stays until
    /// Ctrl-C, or for --serve-for. The guide is docs/guides/watch.md.
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:0", require_equals = true,
          conflicts_with_all = ["print_spec", "pcap"], value_parser = parse_address)]
    pub(crate) serve: Option<SocketAddr>,

    /// How long the page stays after the end of the runs, for example `10 min`; `0 s` ends the command at once
    /// [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", requires = "serve", value_parser = parse_stay)]
    pub(crate) serve_for: Option<Duration>,

    /// Show the runs in the terminal: progress, hottest ports, drops, trims and pauses
    #[arg(long, conflicts_with_all = ["print_spec", "pcap", "replay", "serve"])]
    pub(crate) tui: bool,

    /// Also write the frames of one link to a capture file (pcapng); requires --run if there are several runs
    ///
    /// LINK is two node names of ports.csv, separated by a colon: --pcap h0:edge0=h0.pcapng. Payloads are zeros.
    #[arg(long, value_name = "LINK=FILE", value_parser = parse_pcap)]
    pub(crate) pcap: Option<(String, PathBuf)>,

    /// Also write a trace of each run for Perfetto (ui.perfetto.dev): queues, pauses with causes, flows, operations
    ///
    /// With several runs, the name of each run is added to the name of its file: run.pftrace becomes run-IRN.pftrace.
    #[arg(long, value_name = "FILE.pftrace", conflicts_with = "resume")]
    pub(crate) trace: Option<PathBuf>,

    /// Maximum size of each trace, in MB; a message says what is missing in a trace that is full
    #[arg(long, value_name = "MB", default_value_t = perfetto::DEFAULT_SIZE / 1_000_000, requires = "trace", value_parser = clap::value_parser!(u64).range(1..=100_000), allow_negative_numbers = true)]
    pub(crate) trace_size: u64,

    /// Simulated time between two values of a queue in the trace, at first; it doubles as the run becomes longer
    #[arg(long, value_name = "NS", default_value_t = 1_000, requires = "trace", value_parser = clap::value_parser!(u64).range(100..=1_000_000_000), allow_negative_numbers = true)]
    pub(crate) trace_interval_ns: u64,

    /// Also write the life of packets as packets.csv and packets.pcapng: flow=ID or link=A:B; requires --run if there
    /// are several runs
    ///
    /// The run is simulated a second time, with a record of each packet of the flow on all links, or of each packet on
    /// the link: when it was sent, arrived, waited, was marked, trimmed, dropped or lost. The ids of flows are those in
    /// flows.csv.
    #[arg(long, value_name = "flow=ID|link=A:B", value_parser = parse_packets, conflicts_with = "resume")]
    pub(crate) trace_packets: Option<PacketsOf>,

    /// Maximum number of packets that --trace-packets records, each counted on each link
    #[arg(long, value_name = "N", default_value_t = 1_000_000, requires = "trace_packets", value_parser = clap::value_parser!(u32).range(1..=100_000_000), allow_negative_numbers = true)]
    pub(crate) trace_packets_limit: u32,
}

/// The packets that `rnic run --trace-packets` records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PacketsOf {
    /// The packets of the flow with this id.
    Flow(u32),
    /// The packets on the link between two nodes, whose names have a colon between them.
    Link(String),
}

impl fmt::Display for PacketsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketsOf::Flow(id) => write!(f, "flow={id}"),
            PacketsOf::Link(link) => write!(f, "link={link}"),
        }
    }
}

/// Reads the id of a flow.
fn parse_flow(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("accepted: a whole number from 0 to {}, such as 0", u32::MAX))
}

/// Reads `--serve`.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "accepted: an IP address and a port, such as 127.0.0.1:8642".to_string())
}

/// Reads `--serve-for`.
fn parse_stay(text: &str) -> Result<Duration, String> {
    let time: Time = text.parse().map_err(|error| format!("{error}"))?;
    Ok(Duration::from_nanos(time.as_ps() / 1_000))
}

/// What `rnic run --fidelity` simulates.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FidelityOption {
    /// Every packet
    Packet,
    /// Flows as fluids with max-min fair rates, without queues, drops and pauses
    Flow,
    /// Each run both ways, with the errors of the fluids
    Both,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic run scenarios/irn/default.toml --run IRN --print-spec > irn.json\n  \
    rnic exec irn.json --record irn.run\n  \
    rnic exec irn.json --events | jq -c 'select(.event == \"progress\")'\n  \
    rnic run scenarios/irn/default.toml --print-spec | while read -r spec; do echo \"$spec\" | rnic exec -; done\n  \
    rnic exec --schema spec\n\n\
    Exit codes: 0 the run completed; 1 it failed, or a file cannot be written; 2 the document is wrong.")]
pub(crate) struct ExecArgs {
    /// File with the JSON document of one run; - reads standard input
    #[arg(value_name = "SPEC.json", required_unless_present = "schema")]
    pub(crate) spec: Option<PathBuf>,

    /// Also write the complete record of the run, its flows included, to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Print the events of the run as JSON lines during the run, instead of the results at its end
    #[arg(long)]
    pub(crate) events: bool,

    /// Number of threads for the run [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    pub(crate) threads: Option<u16>,

    /// Do not print the progress bar or the name of the record file
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Print the JSON Schema of run specifications or of events, without executing a run
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["spec", "record", "events", "threads"])]
    pub(crate) schema: Option<SchemaOf>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic schema > scenario.schema.json\n  \
    rnic schema event\n\n\
    An editor with Even Better TOML (taplo) completes and checks a scenario that begins with this line:\n  \
    #:schema ./scenario.schema.json")]
pub(crate) struct SchemaArgs {
    /// Which files or documents
    #[arg(value_enum, default_value_t = Schema::Scenario)]
    pub(crate) of: Schema,
}

/// What `rnic schema` describes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Schema {
    /// Scenario files, as TOML
    Scenario,
    /// The document of a run, which `rnic exec` executes
    Spec,
    /// An event, a line that `rnic exec --events` prints
    Event,
}

/// The JSON documents whose schema `rnic exec --schema` prints.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SchemaOf {
    /// The document of a run, which `rnic exec` executes
    Spec,
    /// An event, a line that `rnic exec --events` prints
    Event,
}

/// File formats for the records of flows (`rnic run --flows`).
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlowFile {
    /// Comma-separated values
    Csv,
    /// Apache Parquet
    Parquet,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic flows scenarios/irn/default.toml > flows.csv\n  \
    rnic flows scenarios/irn/default.toml --run IRN --format hpcc --seed 7")]
pub(crate) struct FlowsArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// The run whose flows are printed [default: the first run]
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,

    /// Format of the list of flows
    #[arg(long, value_enum, default_value_t = FlowList::Csv)]
    pub(crate) format: FlowList,
}

/// Formats of the list of flows that `rnic flows` prints.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlowList {
    /// Comma-separated values, the input format of `pattern = "list"`
    Csv,
    /// The flow file of the HPCC simulator
    Hpcc,
    /// The flow file of the simulator of ConWeave, a fork of the HPCC simulator
    Conweave,
    /// The connection matrix of htsim
    Htsim,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic topology scenarios/irn/default.toml > topology.txt\n  \
    rnic topology scenarios/irn/default.toml --format dot | dot -Tsvg > fabric.svg\n  \
    rnic topology scenarios/irn/default.toml --format scenario > graph.toml")]
pub(crate) struct TopologyArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// The run whose topology is printed [default: the first run]
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,

    /// Format of the topology
    #[arg(long, value_enum, default_value_t = TopologyFile::Hpcc)]
    pub(crate) format: TopologyFile,
}

/// Formats in which `rnic topology` prints a topology.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TopologyFile {
    /// The topology file of the HPCC simulator and of its forks, such as that of ConWeave
    Hpcc,
    /// The topology file of htsim
    Htsim,
    /// Graphviz
    Dot,
    /// The scenario itself, with the topology as a graph: one `[[fabric.link]]` for each link
    Scenario,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic list transports\n  \
    rnic list scenarios --dir my-scenarios")]
pub(crate) struct ListArgs {
    /// What to list
    #[arg(value_enum)]
    pub(crate) what: Listing,

    /// Folder that is searched for scenarios; default: `scenarios`, or the built-in scenarios if it does not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// The lists that `rnic list` can print.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listing {
    /// Transports: values of `transport` in a run
    Transports,
    /// Congestion controls and their parameters: values of `cc` in a run
    Congestion,
    /// Topologies: values of `topology` in [fabric]
    Topologies,
    /// Traffic patterns and flow sizes: values of `pattern` and `sizes` in [traffic]
    Workloads,
    /// Scenarios and their titles
    Scenarios,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic check scenarios/irn/default.toml\n  \
    rnic check scenarios/irn/default.toml --set fabric.k=8\n  \
    rnic check scenarios/irn/default.toml --run IRN --settings")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Check and print only the run with this name; may be repeated
    #[arg(long = "run", value_name = "NAME")]
    pub(crate) runs: Vec<String>,

    /// Also print all settings of each run, including those derived from the fabric
    #[arg(long)]
    pub(crate) settings: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic reproduce\n  \
    rnic reproduce irn --quick\n  \
    rnic reproduce irn fig1 fig2\n  \
    rnic reproduce irn --list\n  \
    rnic reproduce hardware --quick\n\n\
    The result of each simulation is a file in DIR/runs. An interrupted command continues where it was when it is repeated.\n\
    Simulations that several experiments share are executed once.")]
pub(crate) struct ReproduceArgs {
    /// Name of the paper; without it, the command lists the papers
    #[arg(value_name = "PAPER")]
    pub(crate) paper: Option<String>,

    /// Names of the experiments [default: all]
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiments: Vec<String>,

    /// Simulate few flows, seeds and points only; the results do not reproduce the paper
    #[arg(long)]
    pub(crate) quick: bool,

    /// Folder for results [default: out/reproduce/PAPER, with --quick out/reproduce/PAPER-quick]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Also record the verdicts as data for the documentation: a file, or a folder for PAPER.json. Experiments that are
    /// not rerun keep their rows in the file
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Maximum number of simultaneous simulations [default: number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    pub(crate) threads: Option<u16>,

    /// Number of seeds of every experiment; seeds count from 1 [default: the experiment's own number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    pub(crate) seeds: Option<u32>,

    /// List the experiments with their number of simulations and expected time, without simulating
    #[arg(long)]
    pub(crate) list: bool,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,

    /// Simulate everything again and replace stored results
    #[arg(long)]
    pub(crate) fresh: bool,

    /// Do not print progress or the names of the files written
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Reads a maximum number of values, or `all`.
fn parse_values(text: &str) -> Result<u64, String> {
    match text.parse() {
        _ if text == "all" => Ok(u64::MAX),
        Ok(values) if values > 0 => Ok(values),
        _ => Err("accepted: a whole number of at least 1, or all".to_string()),
    }
}

/// Splits `link=file` at the first equals sign.
fn parse_pcap(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((link, file)) if !link.is_empty() && !file.is_empty() => Ok((link.to_string(), PathBuf::from(file))),
        _ => {
            Err("the link or the file is missing; write two nodes and a file, for example h0:edge0=h0.pcapng"
                .to_string())
        }
    }
}

/// Reads `flow=ID` or `link=A:B`.
fn parse_packets(text: &str) -> Result<PacketsOf, String> {
    match text.split_once('=') {
        Some(("flow", id)) => {
            let id =
                id.parse().map_err(|_| format!("\"{id}\" is no id of a flow; accepted: a whole number, such as 0"))?;
            Ok(PacketsOf::Flow(id))
        }
        Some(("link", link)) if !link.is_empty() => Ok(PacketsOf::Link(link.to_string())),
        _ => Err("accepted: flow=ID or link=A:B, for example flow=17 or link=h0:edge0".to_string()),
    }
}

/// Options that were renamed, as (old name, new name).
const RENAMED: [(&str, &str); 3] =
    [("--classes", "--priorities"), ("--cable", "--length"), ("--resume-distance", "--xon-offset")];

/// If this error says that an argument is not UTF-8: a message that names the argument. `arguments` are all arguments
/// of the command, with the name of the program.
pub(crate) fn not_utf8<P: Parser>(error: &clap::Error, arguments: impl Iterator<Item = OsString>) -> Option<String> {
    if error.kind() != ErrorKind::InvalidUtf8 {
        return None;
    }
    let arguments: Vec<OsString> = arguments.collect();
    let lossy = |argument: &OsString| OsString::from(argument.to_string_lossy().into_owned());
    // Names of files may be arbitrary bytes. So an argument that is not UTF-8 is wrong only if the command refuses it
    // after all others have been replaced by text.
    let refused = |index: &usize| {
        let text = arguments.iter().enumerate();
        let others = text.map(|(other, argument)| if other == *index { argument.clone() } else { lossy(argument) });
        arguments[*index].to_str().is_none()
            && P::try_parse_from(others).is_err_and(|error| error.kind() == ErrorKind::InvalidUtf8)
    };
    let index = (0..arguments.len()).find(refused)?;
    let shown = arguments[index].to_string_lossy();
    Some(format!("argument {index}, `{shown}`, is not valid UTF-8; only names of files may have other bytes"))
}

/// If this error says that there is an argument too many, and it is the value of an option whose value must follow an
/// equals sign: what to write. `arguments` are all arguments of the command, with the name of the program.
pub(crate) fn separated<P: Parser>(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let joined = |index: usize| {
        let (option, value) = (arguments[index].to_str()?, arguments[index + 1].to_str()?);
        (option.starts_with("--") && !option.contains('=')).then(|| format!("{option}={value}"))
    };
    let accepted = |index: &usize| {
        let joined = joined(*index).map(OsString::from);
        let others = arguments[..*index].iter().cloned().chain(joined.clone());
        joined.is_some() && P::try_parse_from(others.chain(arguments[index + 2..].iter().cloned())).is_ok()
    };
    let index = (0..arguments.len().saturating_sub(1)).find(accepted)?;
    Some(format!("the value of {} must follow an equals sign; write {}", arguments[index].display(), joined(index)?))
}

/// If this error is about an unknown option that was renamed: the old and the new name of the option.
pub(crate) fn renamed(error: &clap::Error) -> Option<(&'static str, &'static str)> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if error.kind() == ErrorKind::UnknownArgument => {
            RENAMED.into_iter().find(|(old, _)| old == option)
        }
        _ => None,
    }
}

/// Commands of `rnic` that `rnic-simulator` does not have.
const ELSEWHERE: [&str; 12] =
    ["perf", "ping", "mesh", "pingpong", "verbs", "decode", "model", "lint", "counters", "p4", "completions", "man"];

/// If this error is about a command of `rnic` that the program `P` does not have: a message that says where it is.
pub(crate) fn elsewhere<P: Parser>(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if ELSEWHERE.contains(&name.as_str()) => Some(format!(
            "`{}` has only the commands that simulate; `rnic` has `{name}`: build it with `cargo build --release`",
            P::command().get_name()
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_of_rnic_are_named() {
        let message = |command| elsewhere::<Cli>(&Cli::try_parse_from(["rnic-simulator", command]).unwrap_err());
        for command in ELSEWHERE {
            assert!(message(command).unwrap().contains(&format!("`rnic` has `{command}`")), "{command}");
        }
        assert_eq!(message("walk"), None);
    }

    #[test]
    fn a_value_without_its_equals_sign_is_named() {
        let message = |arguments: &[&str]| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            separated::<Cli>(&Cli::try_parse_from(&arguments).err()?, &arguments)
        };
        let expected = "the value of --serve must follow an equals sign; write --serve=0.0.0.0:8911";
        assert_eq!(message(&["rnic", "run", "a.toml", "--serve", "0.0.0.0:8911"]).unwrap(), expected);
        assert_eq!(message(&["rnic", "run", "--serve", "0.0.0.0:8911", "a.toml", "--quiet"]).unwrap(), expected);
        assert_eq!(message(&["rnic", "run", "--quiet", "a.toml", "b.toml"]), None);
        assert_eq!(message(&["rnic", "run", "--serve", "a.toml"]), None);
    }

    #[cfg(unix)]
    #[test]
    fn the_argument_that_is_not_utf8_is_named() {
        use std::os::unix::ffi::OsStringExt;
        let message = |arguments: &[&[u8]]| {
            let arguments: Vec<OsString> = arguments.iter().map(|bytes| OsString::from_vec(bytes.to_vec())).collect();
            not_utf8::<Cli>(&Cli::try_parse_from(&arguments).err()?, arguments.into_iter())
        };
        let wrong: &[&[u8]] = &[b"rnic", b"run", b"\xff.toml", b"--set", b"traffic.load=0.\xff"];
        assert_eq!(
            message(wrong).unwrap(),
            "argument 4, `traffic.load=0.\u{fffd}`, is not valid UTF-8; only names of files may have other bytes"
        );
        assert_eq!(message(&wrong[..3]), None, "a file may have any name");
        assert_eq!(message(&[b"rnic", b"walk"]), None, "another error");
    }

    #[test]
    fn set_splits_at_the_first_equals_sign_outside_quotes() {
        let split = |text: &str| crate::selection::parse_set(text).map(|(path, value)| format!("{path}|{value}"));
        assert_eq!(split("fabric.k=4").unwrap(), "fabric.k|4");
        assert_eq!(split("run.RoCE + PFC.pfc = true").unwrap(), "run.RoCE + PFC.pfc|true");
        assert_eq!(split("run.\"a=b\".name=x=y").unwrap(), "run.\"a=b\".name|x=y");
        assert_eq!(split("title=").unwrap(), "title|");
        assert!(split("fabric.k").is_err());
        assert!(split("run.\"a=b").is_err(), "the quote is open");
    }
}
