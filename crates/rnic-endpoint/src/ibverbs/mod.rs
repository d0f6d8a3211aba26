//! Talks to programs of `ibverbs-utils`: the exchange over TCP by which their queue pairs find each other, and what they do then.

mod address;
mod pingpong;

pub use address::{AddressError, MESSAGE, decode, encode};
pub use pingpong::{Error, Options, Outcome, Pingpong};
