//! The arguments: one definition from which parsing, help and errors come.

use crate::model::ModelArgs;
use crate::perf::PerfArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;

/// RDMA transports on a simulated data-center fabric.
///
/// A scenario is one TOML file: a fabric, traffic, and the runs to compare. `rnic run` simulates all of them and says how
/// they did.
#[derive(Parser, Debug)]
#[command(
    name = "rnic",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  \
        rnic run scenarios/irn/default.toml\n  \
        rnic run scenarios/irn/default.toml --set traffic.load=0.9 --seed 7\n  \
        rnic list transports\n\n\
        Exit codes: 0 done; 1 a run failed, a threshold is unsafe, or files could not be written; 2 the input is wrong; 130 ended by Ctrl-C."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Simulate every run of a scenario, print a table and write the result files
    Run(RunArgs),
    /// Print the flows that a run would start, in order of their start
    Flows(FlowsArgs),
    /// Print the fabric of a run in the format of another tool
    Topology(TopologyArgs),
    /// List what exists, a line each
    List(ListArgs),
    /// Read a scenario and say what would run, a line for each run
    Check(CheckArgs),
    /// Rerun a paper's experiments and hold what comes out against what the paper states
    Reproduce(ReproduceArgs),
    /// Measure bandwidth and latency between two hosts, over real Ethernet
    Perf(Box<PerfArgs>),
    /// Send messages to and fro with `ibv_rc_pingpong` or another `rnic pingpong`
    Pingpong(PingpongArgs),
    /// Print the RoCE packets of a capture file, a line each, and check them
    Decode(DecodeArgs),
    /// Compute without simulating: buffer thresholds, fluid models of DCQCN and TIMELY
    Model(ModelArgs),
    /// Transports programmed in P4
    P4(P4Args),
}

/// A scenario, and what to change in it.
#[derive(Args, Debug)]
pub(crate) struct Selection {
    /// The scenario file
    #[arg(value_name = "SCENARIO.toml")]
    pub(crate) scenario: PathBuf,

    /// Change one setting; may be repeated, later ones win
    ///
    /// The path is dotted and names a run or a traffic source by its number from zero or by its name; quotes keep a dot
    /// inside a name. The value is TOML; what is not TOML counts as text, so units need no quotes. What a run writes into
    /// its own `set` wins over this.
    #[arg(long, value_name = "PATH=VALUE", value_parser = parse_set)]
    pub(crate) set: Vec<(String, String)>,

    /// Seed of every random stream, instead of the scenario's
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic run scenarios/irn/default.toml\n  \
    rnic run scenarios/irn/default.toml --set traffic.flows=2000 --set traffic.warmup=200\n  \
    rnic run scenarios/irn/default.toml --set run.IRN.bdp_cap=50 --out results\n  \
    rnic run scenarios/irn/default.toml --format json --quiet | jq '.runs[].slowdown.mean'\n  \
    rnic run scenarios/irn/default.toml --run IRN --pcap h0:edge0=h0.pcapng\n  \
    rnic run scenarios/irn/default.toml --resume\n\n\
    Result files are in a folder of the scenario's name below --out: summary.json, ports.csv, report.html.\n\
    The same scenario and seed give the same bytes in every result file, whatever --threads says.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Only the run of this name; may be repeated
    #[arg(long = "run", value_name = "NAME")]
    pub(crate) runs: Vec<String>,

    /// Folder for the result files; they go into a folder of the scenario's name in it
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub(crate) out: PathBuf,

    /// What to print on standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,

    /// Threads in all: as many runs at a time, or several for each where there are fewer runs [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    pub(crate) threads: Option<u16>,

    /// Go on with a scenario that was interrupted: simulate only the runs that had not finished
    ///
    /// Runs that have finished are kept in the folder `unfinished` beside the result files until these are written. What is kept of a run is taken
    /// over if nothing has changed on which its results depend: its settings, its seed, the files that it names, this program. The results are
    /// the same as without the interruption.
    #[arg(long, conflicts_with = "pcap")]
    pub(crate) resume: bool,

    /// No progress bars and no word about the files written or about runs taken over
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Also write every flow's record, as flows.csv or flows.parquet; may be repeated
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) flows: Vec<FlowFile>,

    /// Also write the frames of one link as a capture file (pcapng); needs --run if there are several runs
    ///
    /// The link is two nodes with a colon between them, as ports.csv names them: --pcap h0:edge0=h0.pcapng. Payloads are zeros.
    #[arg(long, value_name = "LINK=FILE", value_parser = parse_pcap)]
    pub(crate) pcap: Option<(String, PathBuf)>,
}

/// What `rnic run` prints.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// A table for people
    Table,
    /// One JSON document
    Json,
}

/// How the records of flows are stored.
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

    /// The run whose flows to print [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,

    /// Format of the list
    #[arg(long, value_enum, default_value_t = FlowList::Csv)]
    pub(crate) format: FlowList,
}

/// Formats of flow lists.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlowList {
    /// Comma-separated values, as `pattern = "list"` reads them
    Csv,
    /// The flow file of the HPCC simulator
    Hpcc,
    /// The connection matrix of htsim
    Htsim,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic topology scenarios/irn/default.toml > topology.txt\n  \
    rnic topology scenarios/irn/default.toml --format dot | dot -Tsvg > fabric.svg")]
pub(crate) struct TopologyArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// The run whose fabric to print [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,

    /// Format of the topology
    #[arg(long, value_enum, default_value_t = TopologyFile::Hpcc)]
    pub(crate) format: TopologyFile,
}

/// Formats of topologies.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TopologyFile {
    /// The topology file of the HPCC simulator
    Hpcc,
    /// The topology file of htsim
    Htsim,
    /// Graphviz
    Dot,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic list transports\n  \
    rnic list scenarios --dir my-scenarios")]
pub(crate) struct ListArgs {
    /// What to list
    #[arg(value_enum)]
    pub(crate) what: Listing,

    /// Folder in which to look for scenarios
    #[arg(long, value_name = "DIR", default_value = "scenarios")]
    pub(crate) dir: PathBuf,
}

/// What can be listed.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listing {
    /// How hosts recover from loss: `transport` in a run
    Transports,
    /// How hosts adapt their rate: `cc` in a run
    Congestion,
    /// How nodes are wired: `topology` of the fabric
    Topologies,
    /// What hosts send: `pattern` and `sizes` of traffic
    Workloads,
    /// Scenario files, with their titles
    Scenarios,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic check scenarios/irn/default.toml\n  \
    rnic check scenarios/irn/default.toml --set fabric.k=8")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Also print every setting of each run, with what follows from the fabric
    #[arg(long)]
    pub(crate) settings: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic reproduce\n  \
    rnic reproduce irn --quick\n  \
    rnic reproduce irn fig1 fig2\n  \
    rnic reproduce irn --list\n\n\
    Each simulation's result is a file below DIR/runs. A command that is interrupted and given again goes on where it was;\n\
    simulations that several experiments share are done once.")]
pub(crate) struct ReproduceArgs {
    /// The paper; without it, what there is
    #[arg(value_name = "PAPER")]
    pub(crate) paper: Option<String>,

    /// Only these experiments [default: all]
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiments: Vec<String>,

    /// Few flows, seeds and points: a quick look whose numbers do not reproduce the paper
    #[arg(long)]
    pub(crate) quick: bool,

    /// Folder for results [default: out/reproduce/PAPER, with --quick out/reproduce/PAPER-quick]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Most simulations at the same time [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    pub(crate) threads: Option<u16>,

    /// Seeds of every experiment, from 1, instead of its own number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    pub(crate) seeds: Option<u32>,

    /// Simulate nothing: list the experiments with their simulations and expected minutes
    #[arg(long)]
    pub(crate) list: bool,

    /// What to print on standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,

    /// Simulate everything again and replace the results that there are
    #[arg(long)]
    pub(crate) fresh: bool,

    /// No progress and no word about the files written
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic decode capture.pcapng\n  \
    tcpdump -i eth0 -w - udp port 4791 | rnic decode -\n  \
    rnic decode capture.pcap --format json | jq 'select(.bad) | .frame'\n\n\
    Exit codes: 0 every RoCE packet is right; 1 one is bad, or the output cannot be written; 2 the file cannot be read.")]
pub(crate) struct DecodeArgs {
    /// The capture file, pcap or pcapng; - is standard input
    #[arg(value_name = "FILE.pcap[ng]")]
    pub(crate) file: PathBuf,

    /// Also print every field of every header
    #[arg(long)]
    pub(crate) fields: bool,

    /// What to print on standard output
    #[arg(long, value_enum, default_value_t = DecodeFormat::Text)]
    pub(crate) format: DecodeFormat,
}

/// What `rnic decode` prints.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecodeFormat {
    /// A line for each packet
    Text,
    /// A JSON document for each packet, each on a line, with every field
    Json,
}

#[derive(Args, Debug)]
pub(crate) struct P4Args {
    #[command(subcommand)]
    pub(crate) command: P4Command,
}

/// The subcommands of `rnic p4`.
#[derive(Subcommand, Debug)]
pub(crate) enum P4Command {
    /// Compile a program for a NanoTransport NIC and print a summary of the program, or its errors
    Check(P4CheckArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic p4 check transport.p4\n  \
    rnic p4 check transport.p4 --constant REGISTERS=64 --cost\n  \
    rnic p4 check transport.p4 --format json | jq '.errors[].message'\n\n\
    Exit codes: 0 the program has no errors; 1 the output cannot be written; 2 the program has errors or cannot be read.")]
pub(crate) struct P4CheckArgs {
    /// The program; files that it includes with quotes are relative to it
    #[arg(value_name = "FILE.p4")]
    pub(crate) file: PathBuf,

    /// Replace the value of a top-level constant of the program; may be repeated
    ///
    /// The value is decimal, hexadecimal (0x), true or false.
    #[arg(long = "constant", value_name = "NAME=VALUE", value_parser = parse_constant)]
    pub(crate) constants: Vec<(String, u128)>,

    /// Also print the modelled hardware cost: pipeline stages, latency, minimum interval between packets, memory
    #[arg(long)]
    pub(crate) cost: bool,

    /// What to print on standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// Splits `path=value` at the first equals sign outside quotes.
fn parse_set(text: &str) -> Result<(String, String), String> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, '=') => return Ok((text[..at].trim().to_string(), text[at + 1..].trim().to_string())),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    Err("there is no `=`; write for example fabric.switch.buffer=60KB".to_string())
}

/// Splits `link=file` at the first equals sign.
fn parse_pcap(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((link, file)) if !link.is_empty() && !file.is_empty() => Ok((link.to_string(), PathBuf::from(file))),
        _ => Err("write two nodes and a file, for example h0:edge0=h0.pcapng".to_string()),
    }
}

/// A name and a number, or `true` or `false` for 1 and 0.
fn parse_constant(text: &str) -> Result<(String, u128), String> {
    let example = "write a name and a number, for example REGISTERS=64";
    let (name, value) = text.split_once('=').ok_or(example)?;
    let (name, value) = (name.trim(), value.trim());
    let number = match value {
        "true" => Some(1),
        "false" => Some(0),
        _ => match value.strip_prefix("0x") {
            Some(digits) => u128::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        },
    };
    match number {
        Some(number) if !name.is_empty() => Ok((name.to_string(), number)),
        _ => Err(format!("{example}; a number is from 0 to 2^128 - 1, decimal or hexadecimal (0x)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn constants_are_numbers() {
        let parsed = |text: &str| parse_constant(text).ok().map(|(name, value)| format!("{name}={value}"));
        assert_eq!(parsed("A=5").unwrap(), "A=5");
        assert_eq!(parsed(" A = 0xfF ").unwrap(), "A=255");
        assert_eq!((parsed("A=true").unwrap(), parsed("A=false").unwrap()), ("A=1".to_string(), "A=0".to_string()));
        for wrong in ["A", "A=", "=5", "A=-1", "A=x", "A=340282366920938463463374607431768211456"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn set_splits_at_the_first_equals_sign_outside_quotes() {
        let split = |text: &str| parse_set(text).map(|(path, value)| format!("{path}|{value}"));
        assert_eq!(split("fabric.k=4").unwrap(), "fabric.k|4");
        assert_eq!(split("run.RoCE + PFC.pfc = true").unwrap(), "run.RoCE + PFC.pfc|true");
        assert_eq!(split("run.\"a=b\".name=x=y").unwrap(), "run.\"a=b\".name|x=y");
        assert_eq!(split("title=").unwrap(), "title|");
        assert!(split("fabric.k").is_err());
        assert!(split("run.\"a=b").is_err(), "the quote is open");
    }
}

/// Arguments of `rnic pingpong`.
///
/// Without a host it waits for a client. The other side is `rnic pingpong`, or `ibv_rc_pingpong` of ibverbs-utils with `-g` and the index of
/// a RoCE v2 GID. Size, iterations and MTU must be the same on both sides.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic pingpong                        # a server\n  \
    rnic pingpong 10.0.0.2 -c            # a client of `rnic pingpong -c`\n  \
    rnic pingpong 10.0.0.2 -s 65536      # a client of `ibv_rc_pingpong -g 1 -s 65536`")]
pub(crate) struct PingpongArgs {
    /// The server: name or address
    pub(crate) host: Option<String>,

    /// TCP port of the server
    #[arg(short, long, value_name = "PORT", default_value_t = 18_515)]
    pub(crate) port: u16,

    /// This host's address for RDMA, instead of the one by which the peer is reached
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<IpAddr>,

    /// UDP port for RDMA, of both sides
    #[arg(long, value_name = "PORT", default_value_t = crate::pingpong::DEFAULT_ROCE_PORT)]
    pub(crate) roce_port: u16,

    /// Bytes of a message
    #[arg(short, long, value_name = "BYTES", default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(0..=1 << 30))]
    pub(crate) size: u32,

    /// Messages each way
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1_000)]
    pub(crate) iters: u32,

    /// Payload bytes of a full packet: 256, 512, 1024, 2048 or 4096
    #[arg(short, long, value_name = "BYTES", default_value_t = 1_024)]
    pub(crate) mtu: u32,

    /// Receives posted at once
    #[arg(short, long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    pub(crate) rx_depth: u32,

    /// Check every byte that comes; the other side must have `-c` too
    #[arg(short = 'c', long = "chk")]
    pub(crate) check: bool,

    /// Unreliable connection, as `ibv_uc_pingpong`
    #[arg(long)]
    pub(crate) uc: bool,

    /// Seconds without an answer after which it gives up
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) timeout: u32,
}
