//! Tests of queue pairs in virtual time over an adversarial network, checked against a simple reference model.
//!
//! `cargo run --release -p rnic-torture -- --seed S --steps N` reproduces any failure, because all random choices
//! derive from the seed. With `--fuzz packets`, `--fuzz verbs` or `--fuzz p4`, the inputs are invalid or nonsensical
//! ones, such as no correct peer or application produces.

pub mod fuzz;
pub mod network;
pub mod world;

pub use world::{Plan, Report, World};
