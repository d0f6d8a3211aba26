//! The C interface of librdmacm on top of rnic's libibverbs, so that programs that connect by `rdma_cm` run without an
//! RDMA NIC. The messages of the communication manager go over queue pair 1, so that they interoperate with Linux.
//!
//! The crate is compiled to a static library. `rnic verbs` links it to `librdmacm.so.1`, which needs `libibverbs.so.1`
//! of `rnic-ibverbs`: queue pairs are made by the public functions of that library, and queue pair 1 is reached by a
//! few
//! private ones ([`verbs`](self)).
//!
//! | module | contents |
//! |---|---|
//! | `verbs` | the functions of libibverbs that this library calls |
//! | `device` | opened devices, each with its communication manager and a thread |
//! | `sockets` | socket addresses of C |
//! | `channel` | event channels; who gets which event |
//! | `id` | identifiers (`rdma_cm_id`): creation, options, destruction |
//! | `address` | binding, resolution of addresses and routes |
//! | `names` | `rdma_getaddrinfo`, names of events |
//! | `connect` | listening, connecting, accepting, refusing, disconnecting |
//! | `event` | what an event of the communication manager means for a program |
//! | `qp` | queue pairs and their states, shared receive queues |
//! | `endpoint` | the calls that do several steps at once: `rdma_create_ep`, `rdma_get_request` |
//! | `rsocket` | rsockets |
//! | `absent` | multicast, which is refused |
//!
//! # Unsafe code
//!
//! The functions get pointers from C programs, and trust them as every implementation of librdmacm does: a pointer to
//! an
//! object is one that this library has returned, of the same kind, and not destroyed; a pointer to memory is valid for
//! the length that the interface gives it. *"By the contract of librdmacm"* in a comment stands for this promise of the
//! caller. Numbers, flags, lengths, and all bytes from the network are checked.
//!
//! As in `rnic-ibverbs`, objects begin with the structure that C sees, which is accessed through raw pointers alone;
//! references exist only to the second part, which C does not know.

#![allow(unreachable_pub, reason = "the exported functions are public in C")]

mod absent;
mod address;
mod channel;
mod connect;
mod device;
mod endpoint;
mod event;
mod id;
mod names;
mod qp;
mod rsocket;
mod sockets;
mod verbs;
