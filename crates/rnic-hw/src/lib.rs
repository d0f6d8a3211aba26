//! The hardware of rnic: Verilog from the folder `hw/`, compared with the transport core step by step, and its cost.
//!
//! [`irn`] has the four blocks of IRN's packet logic. [`irn::check`] generates traces of flows over a network that
//! loses, reorders and duplicates packets. It gives each step of a trace to a Verilated block and to
//! [`rnic_transport::recovery::Irn`], and compares state and outputs. [`p4`] compares the Verilog pipelines that
//! [`rnic_nano::rtl`] generates from a P4 program with the virtual machine in the same way. [`synthesis`] maps a block
//! to an FPGA.
//!
//! Verilator, Yosys and nextpnr are external programs ([`tools`]). Without them this crate still builds, and its
//! functions return an error that names the package to install.

pub mod icarus;
pub mod irn;
pub mod lint;
pub mod model;
pub mod mutation;
pub mod nanotransport;
pub mod p4;
pub mod synthesis;
pub mod tools;

pub use model::{Bench, Design, Model};
pub use tools::HwError;
