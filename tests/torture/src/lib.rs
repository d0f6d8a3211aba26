//! Queue pairs in virtual time over an adversarial network, checked against a plain model.
//!
//! `cargo run --release -p rnic-torture -- --seed S --steps N` reproduces any failure: everything follows from the seed. With `--fuzz packets`
//! or `--fuzz verbs` the inputs are such as no sane peer or application makes.

pub mod fuzz;
pub mod network;
pub mod world;

pub use world::{Plan, Report, World};
