//! The arguments of the command. Parsing, help texts and errors follow from these definitions.

#[cfg(feature = "p4")]
mod p4;

use crate::counters::CountersArgs;
use crate::lint::LintArgs;
use crate::mesh::MeshArgs;
use crate::model::ModelArgs;
use crate::perf::PerfArgs;
use crate::ping::PingArgs;
use crate::pingpong::PingpongArgs;
use crate::top::TopArgs;
use crate::trace::TraceArgs;
use crate::verbs::VerbsArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
#[cfg(not(feature = "p4"))]
use rnic_simulator::absent::Ignored as P4Args;
use std::path::PathBuf;

#[cfg(feature = "p4")]
pub(crate) use p4::{P4Args, P4BuildArgs, P4CheckArgs, P4Command, P4TraceArgs};

/// An RDMA NIC in software: simulation of RDMA transports, and a RoCEv2 endpoint.
///
/// A scenario is a TOML file with a fabric, traffic, and the runs to compare. `rnic run` simulates the runs and prints
/// their slowdown, completion times, drops and pauses.
#[derive(Parser, Debug)]
#[command(
    name = "rnic",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  \
        rnic run scenarios/irn/default.toml\n  \
        rnic run scenarios/irn/default.toml --set traffic.load=0.9 --seed 7\n  \
        rnic list transports\n\n\
        Exit codes: 0 success; 1 a run failed, a threshold is unsafe, or a file cannot be written; 2 invalid input; 130 interrupted by Ctrl-C."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands of `rnic`.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    #[command(flatten)]
    Simulator(rnic_simulator::SimulatorCommand),
    /// Measure bandwidth and latency between two hosts, over real Ethernet
    #[cfg_attr(not(all(feature = "endpoint", target_os = "linux")), command(hide = true))]
    Perf(Box<PerfArgs>),
    /// Probe the latency to another host over RDMA, as ping does over ICMP
    #[cfg_attr(not(all(feature = "endpoint", target_os = "linux")), command(hide = true))]
    Ping(Box<PingArgs>),
    /// Probe all hosts of a data center from each other, and find what is wrong with their network
    #[cfg_attr(not(all(feature = "endpoint", target_os = "linux")), command(hide = true))]
    Mesh(Box<MeshArgs>),
    /// Exchange messages with `ibv_rc_pingpong` or another `rnic pingpong`
    #[cfg_attr(not(all(feature = "endpoint", target_os = "linux")), command(hide = true))]
    Pingpong(PingpongArgs),
    /// Show the queue pairs of this host's processes over rnic: rates, retransmissions, windows, round-trip times
    #[cfg_attr(not(all(feature = "endpoint", target_os = "linux")), command(hide = true))]
    Top(TopArgs),
    /// Run RDMA programs without an RDMA NIC, by a libibverbs on top of the endpoint
    #[cfg_attr(not(all(feature = "endpoint", target_os = "linux")), command(hide = true))]
    Verbs(VerbsArgs),
    /// Print and check the RoCE packets of a capture file, a line each
    Decode(DecodeArgs),
    /// Say what a trace of a distributed program contains, check it, and convert it to another format
    Trace(TraceArgs),
    /// Compute buffer thresholds and fluid models of DCQCN and TIMELY, without simulating
    Model(ModelArgs),
    /// Check the running configuration of switches and hosts, and write a scenario of their fabric
    Lint(LintArgs),
    /// Serve the pause, drop and RDMA counters of this host or of a SONiC switch as Prometheus metrics
    Counters(CountersArgs),
    /// Check transports programmed in P4
    P4(P4Args),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Write the manual pages of all commands to a folder
    Man(ManArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic completions bash > ~/.local/share/bash-completion/completions/rnic\n  \
    rnic completions zsh > ~/.zfunc/_rnic                   with ~/.zfunc in fpath\n  \
    rnic completions fish > ~/.config/fish/completions/rnic.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic man ~/.local/share/man/man1\n  \
    rnic man man1 && man man1/rnic-run.1")]
pub(crate) struct ManArgs {
    /// The folder; rnic creates it if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic decode capture.pcapng\n  \
    tcpdump -i eth0 -w - udp port 4791 | rnic decode -\n  \
    rnic decode capture.pcap --format json | jq 'select(.bad) | .frame'\n\n\
    Exit codes: 0 all RoCE packets are valid; 1 a packet is bad, or the output cannot be written; 2 the file cannot be read.")]
pub(crate) struct DecodeArgs {
    /// The capture file, pcap or pcapng, also compressed by gzip; - for standard input
    #[arg(value_name = "FILE.pcap[ng]")]
    pub(crate) file: PathBuf,

    /// Also print all fields of all headers
    #[arg(long)]
    pub(crate) fields: bool,

    /// Also check the checksums of IPv4 headers and of UDP; in a capture on the sending host they are often
    /// wrong, because the NIC computes them
    #[arg(long)]
    pub(crate) checksums: bool,

    /// Also decode all packets to this UDP port; repeatable. Without it, packets to other ports than 4791 count as RoCE
    /// from the first one on whose ICRC is right
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Vec<u16>,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = DecodeFormat::Text)]
    pub(crate) format: DecodeFormat,
}

/// Output formats of `rnic decode`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecodeFormat {
    /// A line of text per packet
    Text,
    /// A line of JSON per packet, with all fields
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_valid() {
        Cli::command().debug_assert();
    }
}
