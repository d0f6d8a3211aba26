//! Tests of the host transports above devices in virtual time.

mod input;
mod multipath;
mod replay;
mod rogue;
mod torture;
mod wire;
mod world;
