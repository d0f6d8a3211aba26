//! NanoTransport's fixed-function blocks in hardware, and NICs that combine them with the pipelines of a P4 program.
//!
//! The folder `hw/nanotransport` has the blocks in Verilog: packetization, reassembly, the packet generator with its
//! pacer, timers that a scan checks one after another, buffers of two sizes, and the arbiter. [`check`] compares them
//! with the blocks of [`rnic_transport::message::MessageNic`] step by step.

mod blocks;
mod export;
mod nic;
mod program;
mod steps;

pub use blocks::{Block, Checked, check, mutants, survives};
pub use export::{export, exported};
pub use nic::{
    CYCLES_PER_NS, Delivery, Latency, Pair, PairMessage, PairParameters, Throughput, measure, pair, pipelines_alone,
    pipelines_in_registers, single,
};
pub use program::{header_words, period};

/// The source files in `hw/nanotransport`, as (name, text).
pub const FILES: [(&str, &str); 11] = [
    ("nt_packetization.v", include_str!("../../../../hw/nanotransport/nt_packetization.v")),
    ("nt_reassembly.v", include_str!("../../../../hw/nanotransport/nt_reassembly.v")),
    ("nt_generator.v", include_str!("../../../../hw/nanotransport/nt_generator.v")),
    ("nt_arbiter.v", include_str!("../../../../hw/nanotransport/nt_arbiter.v")),
    ("nt_timers.v", include_str!("../../../../hw/nanotransport/nt_timers.v")),
    ("nt_bits.v", include_str!("../../../../hw/nanotransport/nt_bits.v")),
    ("nt_nic.v", include_str!("../../../../hw/nanotransport/nt_nic.v")),
    ("nt_link.v", include_str!("../../../../hw/nanotransport/nt_link.v")),
    ("nt_pair.v", include_str!("../../../../hw/nanotransport/nt_pair.v")),
    ("nt_block_bench.v", include_str!("../../../../hw/nanotransport/nt_block_bench.v")),
    ("nt_place.v", include_str!("../../../../hw/nanotransport/nt_place.v")),
];

/// The source files of all blocks.
pub(crate) fn sources() -> Vec<(String, String)> {
    FILES.map(|(name, text)| (name.to_string(), text.to_string())).to_vec()
}
