//! Transports in host software above the verbs of an RDMA NIC.
mod chunk;
mod control;
mod error;
mod link;
mod mailbox;
pub mod multipath;
mod response;
pub mod rogue;
mod rtt;

pub use chunk::Frames;
pub use control::{Allowance, Control};
pub use error::{Failure, HostError};
pub use link::Link;
pub use response::{RogueDelay, RogueParams};
pub use rtt::{Departure, Departures};
