//! All tests of the crate in one program, which is much faster to build than a program for each file.

mod common;

mod frames;
mod headers;
mod icrc;
mod independent;
mod opcodes;
mod pcapng;
mod reference;
mod reject;
