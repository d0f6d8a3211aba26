//! Executes many runs (simulations), and stores their results so that no run is simulated twice.
//!
//! - A [`Fingerprint`] identifies everything that determines the result of a run: its specification and the simulator's
//!   code.
//! - A [`Store`] is a folder of results. The fingerprint of a result is its file name.
//! - An [`Executor`] executes runs and reports their events and records to a [`Sink`]. [`Threads`] executes them in
//!   threads of this process; other executors may use other processes or machines.
//! - A [`campaign`] is a list of runs, which workers on any number of machines share.
//!
//! `rnic run --resume` ([`RunCache`]) and the crate `rnic-studies`, which reproduces the experiments of papers, use
//! these types.

pub mod campaign;
mod cost;
mod executor;
mod fingerprint;
mod frames;
mod hash;
mod listeners;
pub mod ranks;
mod run_cache;
mod store;
mod summed;

pub use cost::cost;
pub use executor::{Executor, Ignore, Outcome, RunListener, Sink, Threads, execute_remaining, run_scenario};
pub use fingerprint::{CODE, Fingerprint};
pub use frames::FrameListeners;
pub use listeners::RunListeners;
pub use rnic_results::estimate as statistics;
pub use run_cache::{CachedRuns, RunCache};
pub use store::{Header, Store, Stored, read_record, read_value, write_record, write_value};
