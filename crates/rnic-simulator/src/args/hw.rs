//! Arguments of `rnic hw`.

use crate::format::Format;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct HwArgs {
    #[command(subcommand)]
    pub(crate) command: HwCommand,
}

/// The subcommands of `rnic hw`.
#[derive(Subcommand, Debug)]
pub(crate) enum HwCommand {
    /// Compare IRN's blocks, as Verilator simulates them, with the transport core step by step
    Irn(HwIrnArgs),
    /// Compare NanoTransport's fixed-function blocks with the transport core step by step
    Nanotransport(HwNanoArgs),
    /// Let two NICs that run a P4 program pass messages in Verilator, and measure their latency and throughput
    Nic(HwNicArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic hw nanotransport\n  \
    rnic hw nanotransport --block reassembly --steps 100 --vcd reassembly.vcd\n\n\
    The command needs Verilator and a C++ compiler (apt-get install verilator g++).\n\
    Exit codes: 0 no difference; 1 hardware and core differ, or a program fails; 2 an argument is wrong.")]
pub(crate) struct HwNanoArgs {
    /// Minimum number of steps of each block
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) steps: u64,

    /// Seed of the random traces; with an even seed a retransmission waits for a credit, as in Homa
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Compare this block only; may be repeated: packetization, reassembly, generator, arbiter
    #[arg(long = "block", value_name = "NAME", value_parser = parse_nano_block)]
    pub(crate) blocks: Vec<rnic_hw::nanotransport::Block>,

    /// Write the signals of the block as waveforms into this file; needs one --block
    #[arg(long, value_name = "FILE.vcd")]
    pub(crate) vcd: Option<PathBuf>,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic hw nic p4/ndp.p4\n  \
    rnic hw nic p4/ndp.p4 --loss 10 --trim 50 --messages 1000\n  \
    rnic hw nic p4/window.p4 --messages 4 --vcd nics.vcd\n\n\
    The command needs Verilator and a C++ compiler (apt-get install verilator g++).\n\
    Exit codes: 0 all messages arrived; 1 a payload was wrong or a message was lost; 2 an argument is wrong.")]
pub(crate) struct HwNicArgs {
    /// The P4 program of both NICs
    pub(crate) file: PathBuf,

    /// Messages of random length that pass in both directions
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) messages: u32,

    /// Frames that the link loses, per mille
    #[arg(long, value_name = "PER_MILLE", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=300))]
    pub(crate) loss: u32,

    /// Data frames that the link trims to their header, per mille
    #[arg(long, value_name = "PER_MILLE", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=300))]
    pub(crate) trim: u32,

    /// Cycles of 0.3125 ns from the first bit of a word of 64 bytes to its arrival at the other NIC
    #[arg(long, value_name = "CYCLES", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub(crate) delay: u32,

    /// Messages that a NIC sends, and receives, at the same time: a power of two
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = parse_slots)]
    pub(crate) slots: u32,

    /// A retransmission waits for a credit, as Homa needs it
    #[arg(long)]
    pub(crate) rtx_needs_credit: bool,

    /// Seed of the lengths of messages
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Write the signals of both NICs as waveforms into this file
    #[arg(long, value_name = "FILE.vcd")]
    pub(crate) vcd: Option<PathBuf>,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

fn parse_slots(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|slots: &u32| slots.is_power_of_two() && (16..=128).contains(slots))
        .ok_or_else(|| "accepted: 16, 32, 64, 128".to_string())
}

fn parse_nano_block(text: &str) -> Result<rnic_hw::nanotransport::Block, String> {
    let all = rnic_hw::nanotransport::Block::ALL;
    all.into_iter().find(|block| block.name() == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|block| block.name()).collect();
        format!("accepted: {}", names.join(", "))
    })
}

/// The logic of IRN's sender.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IrnLogic {
    /// rnic's own
    Rnic,
    /// As the authors of IRN published it
    Published,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic hw irn\n  \
    rnic hw irn --steps 10000000\n  \
    rnic hw irn --logic published --bdp-cap 300\n  \
    rnic hw irn --block receiveAck --steps 100 --vcd receive_ack.vcd\n\n\
    The command needs Verilator and a C++ compiler (apt-get install verilator g++).\n\
    Exit codes: 0 no difference; 1 hardware and core differ, or a program fails; 2 an argument is wrong.")]
pub(crate) struct HwIrnArgs {
    /// Minimum number of steps of each block
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) steps: u64,

    /// Seed of the random traces
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// BDP cap in packets
    #[arg(long, value_name = "PACKETS", default_value_t = 111)]
    pub(crate) bdp_cap: u32,

    /// Logic of the sender
    #[arg(long, value_enum, default_value_t = IrnLogic::Rnic)]
    pub(crate) logic: IrnLogic,

    /// Compare this block only; may be repeated: receiveData, txFree, receiveAck, timeout, senders, receivers
    #[arg(long = "block", value_name = "NAME", value_parser = parse_block)]
    pub(crate) blocks: Vec<rnic_hw::irn::Block>,

    /// Number of queue pairs; operations of one queue pair wait for each other
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) queue_pairs: u32,

    /// Write the signals of the block as waveforms into this file; needs one --block
    #[arg(long, value_name = "FILE.vcd")]
    pub(crate) vcd: Option<PathBuf>,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

fn parse_block(text: &str) -> Result<rnic_hw::irn::Block, String> {
    let all = rnic_hw::irn::Block::ALL;
    all.into_iter().find(|block| block.name() == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|block| block.name()).collect();
        format!("accepted: {}", names.join(", "))
    })
}
