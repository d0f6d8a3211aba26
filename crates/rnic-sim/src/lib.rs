//! Runs transports on the simulated fabric: a [`RunSpec`](rnic_run::RunSpec) goes in, a [`RunRecord`](rnic_run::RunRecord) comes out.

pub mod capture;
pub mod catalogue;
mod events;
mod flow_book;
mod hosts;
mod in_band;
mod link;
mod message_hosts;
pub mod nic;
pub mod pauses;
pub mod resolve;
pub mod run;
mod slab;
pub mod storm;
pub mod watch;

pub use catalogue::Catalogue;
pub use events::Events;
pub use flow_book::flow_hash;
pub use run::Sharing;
