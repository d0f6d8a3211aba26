//! The C interface of libibverbs on top of the endpoint, so that unmodified RDMA programs run without an RDMA NIC:
//! `LD_LIBRARY_PATH=$(rnic verbs --path) ib_write_bw`.
//!
//! The crate is compiled to a static library. `rnic verbs` links it to `libibverbs.so.1`, with the symbol versions of
//! the distribution's library, which a Rust `cdylib` cannot have ([`library`]).
//!
//! | module | contents |
//! |---|---|
//! | [`library`] | linking of the static libraries to shared ones |
//! | [`environment`] | the environment variables `RNIC_...` |
//! | [`hosts`] | the addresses of this host, each of which is a device |
//! | [`files`] | files in `/dev` and `/sys`, for programs that look for devices there |
//! | `entry`, `trace` | what each exported function begins with: panics, errors, trace |
//! | `progress` | who moves packets: the program while it polls, or a thread |
//! | `devices`, `context` | the list of devices; an opened device and its asynchronous events |
//! | `query` | attributes of a device and its port, GIDs |
//! | `domain`, `window`, `ah` | protection domains and memory regions; memory windows; address handles |
//! | `channel`, `cq`, `cq_ex` | completion channels and queues, extended completion queues |
//! | `qp`, `states`, `srq` | queue pairs, the masks of their attributes, shared receive queues |
//! | `post`, `qp_ex` | work requests; those of extended queue pairs (`ibv_wr_*`) |
//! | `manager` | what rnic's librdmacm gets from this library: queue pair 1, the trace |
//! | `names`, `absent` | names and rates; functions of which only the symbol exists |
//!
//! # Unsafe code
//!
//! This crate is the border to C. Its functions get pointers from C programs, and trust them as every implementation of
//! libibverbs does: a pointer to an object is one that this library has returned, of the same kind, and not destroyed;
//! a pointer to memory is valid for the length that the interface gives it. *"By the contract of libibverbs"* in a
//! comment stands for this promise of the caller. Nothing else is trusted: numbers, flags, masks, lists that end early,
//! and all bytes from the network are checked.
//!
//! Objects begin with the structure that C sees, and go on with the state of this crate. C programs may write the first
//! part at any time, so no reference to it exists: it is read and written through raw pointers. References exist to the
//! second part only, which C does not know, and which is shared between threads by locks and atomics.

#![allow(unreachable_pub, reason = "the exported functions are public in C")]

mod absent;
mod ah;
mod channel;
mod context;
mod cq;
mod cq_ex;
mod devices;
mod domain;
mod entry;
pub mod environment;
pub mod files;
pub mod hosts;
pub mod library;
mod manager;
mod names;
mod post;
mod progress;
mod qp;
mod qp_ex;
mod query;
mod srq;
mod states;
mod trace;
mod window;

use rnic_cabi::verbs as abi;
