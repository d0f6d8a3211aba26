//! Runs unmodified programs with the library: programs of the distribution, and C programs that the tests compile.
//!
//! A test is skipped, with a message, if a program or the header of libibverbs is not installed.

#![allow(clippy::disallowed_methods, reason = "the tests look for programs, and wait for them")]

mod common;
mod faults;
mod hostile;
mod interface;
mod ladder;
mod processes;
mod semantics;

/// The libraries that the programs get.
const LIBRARIES: &[rnic_ibverbs::library::Library] = &[rnic_ibverbs::library::IBVERBS];
