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
    rnic hw nic p4/ndp.p4 --loss 1% --trim 5% --messages 1000\n  \
    rnic hw nic p4/window.p4 --messages 4 --vcd nics.vcd\n  \
    rnic hw nic p4/ndp.p4 --export ndp-nic\n\n\
    With --export the command needs no other program. Else it needs Verilator and a C++ compiler (apt-get install verilator g++).\n\
    Exit codes: 0 all messages arrived; 1 a payload was wrong or a message was lost; 2 an argument is wrong.")]
pub(crate) struct HwNicArgs {
    /// The P4 program of both NICs
    pub(crate) file: PathBuf,

    /// Messages of random length that pass in both directions
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) messages: u32,

    /// Frames that the link loses, such as 1%
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = parse_per_mille)]
    pub(crate) loss: u32,

    /// Data frames that the link trims to their header, such as 5%
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = parse_per_mille)]
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

    /// Simulate nothing; write the NIC into this folder: Verilog with AXI-Stream ports, a FuseSoC core file, a
    /// Makefile, cocotb tests, and a self-test for the board ULX3S
    #[arg(long, value_name = "DIR", conflicts_with_all = ["messages", "loss", "trim", "delay", "seed", "vcd", "format"])]
    pub(crate) export: Option<PathBuf>,

    /// Write the signals of both NICs as waveforms into this file
    #[arg(long, value_name = "FILE.vcd")]
    pub(crate) vcd: Option<PathBuf>,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// Reads a percentage of 0% to 30% in steps of 0.1%, as a number of frames per thousand. A number needs its percent
/// sign, as `rnic perf --loss` and `RNIC_FAULTS` want it. Only 0 needs no sign.
fn parse_per_mille(text: &str) -> Result<u32, String> {
    let (number, has_sign) = match text.strip_suffix('%') {
        Some(number) => (number, true),
        None => (text, false),
    };
    let per_mille = number.trim().parse::<f64>().ok().map(|percent| percent * 10.0);
    let whole = |value: &f64| (0.0..=300.0).contains(value) && (value - value.round()).abs() < 1e-9;
    match per_mille.filter(whole) {
        Some(value) if has_sign || value == 0.0 => Ok(value.round() as u32),
        Some(value) => Err(format!(
            "`{text}` has no percent sign: it could mean {text}%, or {text} per mille, which is {}%; write one of these \
             percentages",
            value / 100.0
        )),
        None => Err("accepted: 0% to 30% in steps of 0.1%".to_string()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_frames_have_a_percent_sign() {
        for (text, per_mille) in [("0", 0), ("0%", 0), ("1%", 10), ("0.1%", 1), ("30 %", 300)] {
            assert_eq!(parse_per_mille(text), Ok(per_mille), "{text}");
        }
        let error = parse_per_mille("10").unwrap_err();
        assert!(error.contains("could mean 10%, or 10 per mille, which is 1%"), "{error}");
        for wrong in ["31%", "0.05%", "-1%", "x", "nan%"] {
            assert_eq!(parse_per_mille(wrong).unwrap_err(), "accepted: 0% to 30% in steps of 0.1%", "{wrong}");
        }
    }
}
