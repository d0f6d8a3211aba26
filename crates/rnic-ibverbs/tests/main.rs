//! Unmodified programs with the library: those of the distribution, and C programs that are compiled here.
//!
//! Each test skips itself, and says so, if a program or the header of libibverbs is not installed.

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
