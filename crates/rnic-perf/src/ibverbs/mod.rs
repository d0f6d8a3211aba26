//! Talks to programs of `ibverbs-utils` and perftest: the exchange over TCP by which their queue pairs find each other, and what they do then.

mod address;
pub mod perftest;
mod pingpong;

pub use address::{AddressError, MESSAGE, decode, encode};
pub use pingpong::{Error, Options, Outcome, Pingpong};
