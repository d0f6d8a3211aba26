//! The C interface of libibverbs on top of the endpoint, so that unmodified RDMA programs run without an RDMA NIC:
//! `LD_LIBRARY_PATH=$(rnic verbs --path) ib_write_bw`.
//!
//! The crate is compiled to a static library. `rnic verbs` links it to `libibverbs.so.1`, with the symbol versions of
//! the distribution's library, which a Rust `cdylib` cannot have ([`library`]).
//!
//! The modules are layers: a module uses only modules above it in this table.
//!
//! | module | contents |
//! |---|---|
//! | [`library`] | linking of the static libraries to shared ones |
//! | [`environment`] | the environment variables `RNIC_...` |
//! | [`hosts`] | the addresses of this host, each of which is a device |
//! | `names` | names and rates, and the functions that return them |
//! | `trace`, `report`, `error` | the trace; messages to the user; errors of verbs as numbers in C |
//! | `required` | programs that must open a device (`RNIC_REQUIRED`) |
//! | `progress` | which thread moves packets: the program's while it polls, or a thread of the library |
//! | `objects` | the objects that programs make, from devices to work requests |
//! | [`files`] | files in `/dev` and `/sys`, for programs that look for devices there |
//! | `verbs` | the functions that C programs call |
//! | `operations` | the table of functions of a context; opening of devices |
//! | [`loaded`] | the beginning and the end of the library in a process; other libraries named libibverbs |
//!
//! Below are `rnic_cabi`, which has the C structures (`abi`) and typed pointers, and the endpoint, whose port
//! [`shared_address`](rnic_endpoint::port::shared_address) lets many processes use one address.
//!
//! # Unsafe code
//!
//! This crate is the interface to C programs. Its functions get pointers from C programs, and trust these pointers as
//! every implementation of libibverbs does. [`rnic_cabi::pointer`] states once, for each kind of pointer, which
//! conditions the program promises. A comment at an `unsafe` block states which other conditions are promised, and who
//! promises them. The crate checks numbers, flags, masks, lists that end early, and all bytes from the network.

#![allow(unreachable_pub, reason = "the exported functions are public in C")]

pub mod environment;
mod error;
pub mod files;
pub mod hosts;
pub mod library;
pub mod loaded;
mod names;
mod objects;
mod operations;
mod progress;
mod report;
pub mod required;
mod trace;
mod verbs;

use rnic_cabi::verbs as abi;
