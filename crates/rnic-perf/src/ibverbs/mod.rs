//! The protocols of `ibv_rc_pingpong` (ibverbs-utils) and of perftest: their out-of-band exchanges over TCP, and their
//! traffic.

mod address;
pub mod perftest;
mod pingpong;

pub use address::{AddressError, MESSAGE, decode, encode};
pub use pingpong::{Error, Options, Outcome, Pingpong};
