//! From a scenario file to results: workloads, simulated NICs on a fabric, metrics, result files and reports.

pub mod capture;
pub mod catalogue;
mod flow_book;
pub mod fluid;
pub mod format;
mod hash;
mod hosts;
mod in_band;
mod link;
mod message_hosts;
pub mod nic;
pub mod pauses;
pub mod reproduce;
pub mod resolve;
pub mod results;
pub mod resume;
pub mod run;
pub mod scenario;
mod slab;
pub mod storm;
pub mod watch;
pub mod workload;
