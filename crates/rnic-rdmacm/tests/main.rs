//! Runs unmodified programs that connect by `rdma_cm`: programs of the distribution, and C programs that the tests
//! compile.
//!
//! A test is skipped, with a message, if a program or the header of librdmacm is not installed.

#![allow(clippy::disallowed_methods, reason = "the tests look for programs, and wait for them")]

#[allow(dead_code, reason = "the tests of libibverbs use more of it")]
#[path = "../../rnic-ibverbs/tests/common/mod.rs"]
mod common;
mod deaths;
mod hostile;
mod hosts;
mod interface;
mod ladder;
#[path = "../../rnic-cm/tests/common/mod.rs"]
mod messages;
mod pyverbs;
mod rsockets;
mod storage;
mod ucx;

/// The libraries that the programs get.
const LIBRARIES: &[rnic_ibverbs::library::Library] = &rnic_ibverbs::library::ALL;
