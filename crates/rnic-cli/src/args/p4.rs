//! Arguments of `rnic p4`.

use clap::{Args, Subcommand};
use rnic_simulator::format::Format;
use std::path::PathBuf;

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
    /// Generate Verilog from a program, and compare it with the virtual machine
    Build(P4BuildArgs),
    /// Run a program on two NICs and show what it does with each packet: headers, calls of the NIC, registers
    Trace(P4TraceArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic p4 trace transport.p4\n  \
    rnic p4 trace transport.p4 --messages 2 --bytes 20000 --lose 5\n\n\
    NIC a (10.0.0.1) sends messages to NIC b (10.0.0.2) over a link of 100 Gbps and 1 us; a full packet has 1024 bytes.\n\
    Exit codes: 0 all messages were delivered and acknowledged; 1 they were not; 2 the program has errors or cannot be read.")]
pub(crate) struct P4TraceArgs {
    /// The P4 program; paths in its `#include "file"` directives are relative to this file
    #[arg(value_name = "FILE.p4")]
    pub(crate) file: PathBuf,

    /// Replace the value of a top-level constant of the program; may be repeated
    #[arg(long = "constant", value_name = "NAME=VALUE", value_parser = parse_constant)]
    pub(crate) constants: Vec<(String, u128)>,

    /// Number of messages that are sent at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) messages: u32,

    /// Length of each message in bytes
    #[arg(long, value_name = "N", default_value_t = 3_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) bytes: u32,

    /// Lose every Nth packet, counted over both directions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..))]
    pub(crate) lose: Option<u64>,

    /// Maximum number of sent and received packets to show
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) packets: u64,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic p4 build transport.p4 --verilog rtl\n  \
    rnic p4 build transport.p4 --verify --packets 1000000\n\n\
    --verify needs Verilator and a C++ compiler (apt-get install verilator g++).\n\
    Exit codes: 0 done; 1 hardware and machine differ, or a program fails; 2 the program has errors or no hardware form.")]
pub(crate) struct P4BuildArgs {
    /// The P4 program, or a folder whose programs are counted; paths in `#include "file"` are relative to the file
    #[arg(value_name = "FILE.p4")]
    pub(crate) file: PathBuf,

    /// Replace the value of a top-level constant of the program; may be repeated
    #[arg(long = "constant", value_name = "NAME=VALUE", value_parser = parse_constant)]
    pub(crate) constants: Vec<(String, u128)>,

    /// Write p4_nic.v (both pipelines) and p4_bench.v (a bench around them) into this folder
    #[arg(long, value_name = "DIR", required_unless_present = "verify")]
    pub(crate) verilog: Option<PathBuf>,

    /// Simulate the Verilog and compare it with the virtual machine packet for packet
    #[arg(long)]
    pub(crate) verify: bool,

    /// Number of random packets of the comparison [default: 100000]
    #[arg(long, value_name = "N", requires = "verify", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) packets: Option<u64>,

    /// Seed of the random packets [default: 1]
    #[arg(long, value_name = "N", requires = "verify")]
    pub(crate) seed: Option<u64>,

    /// Write the signals of the comparison as waveforms into this file
    #[arg(long, value_name = "FILE.vcd", requires = "verify")]
    pub(crate) vcd: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic p4 check transport.p4\n  \
    rnic p4 check transport.p4 --constant REGISTERS=64 --cost\n  \
    rnic p4 check transport.p4 --format json | jq '.errors[].message'\n  \
    rnic p4 check programs/\n\n\
    Exit codes: 0 the program has no errors; 1 the output cannot be written; 2 the program has errors or cannot be read.")]
pub(crate) struct P4CheckArgs {
    /// The P4 program; paths in its `#include "file"` directives are relative to this file
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

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// Parses `name=number`; the number may be `true` (1) or `false` (0).
fn parse_constant(text: &str) -> Result<(String, u128), String> {
    let example = "there is no name or number; write both, for example REGISTERS=64";
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
        _ => Err(format!(
            "{example}; accepted: numbers from 0 to 2^128 - 1, decimal or hexadecimal (0x), true and false"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
