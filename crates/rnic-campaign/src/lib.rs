//! Many runs: what determines a result, where results are stored, and who computes them.
//!
//! - A [`Fingerprint`] stands for everything that determines the result of a run: its specification and the code that simulates.
//! - A [`Store`] is a folder of results, each in a file that its fingerprint names.
//! - An [`Executor`] executes runs, whether in threads of this process ([`Threads`]) or elsewhere, and tells a [`Sink`] what happens.
//!
//! `rnic run --resume` ([`RunCache`]) and the studies of papers ([`jobs`]) both work this way.

mod executor;
mod fingerprint;
pub mod fluid;
mod hash;
pub mod jobs;
pub mod measurement;
mod run_cache;
mod store;

pub use executor::{Executor, Ignore, Outcome, RunListener, Sink, Threads, execute_remaining, run_scenario};
pub use fingerprint::{CODE, Fingerprint};
pub use measurement::Measurement;
pub use run_cache::{CachedRuns, RunCache};
pub use store::{Header, Store, Stored};
