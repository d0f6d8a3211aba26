//! Queue pairs in virtual time over an adversarial network, checked against a plain model.
//!
//! `cargo run --release -p rnic-torture -- --seed S --steps N` reproduces any failure: everything follows from the seed.

pub mod network;
pub mod world;

pub use world::{Plan, Report, World};
