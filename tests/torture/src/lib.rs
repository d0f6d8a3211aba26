//! The torture test of rnic's verbs: queue pairs work in virtual time over a simulated network that drops, duplicates,
//! reorders and corrupts packets. A simple reference model predicts the results.
//!
//! `cargo run --release -p rnic-torture -- --seed S --steps N` reproduces any failure, because all random choices
//! derive from the seed. With `--fuzz packets`, `--fuzz verbs` or `--fuzz p4` it instead feeds invalid inputs, which no
//! correct peer or application produces.

pub mod fuzz;
pub mod network;
pub mod world;

pub use world::{Packets, Plan, Report, World};
