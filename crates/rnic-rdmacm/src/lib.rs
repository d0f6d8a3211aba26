//! The C interface of librdmacm on top of rnic's libibverbs, so that programs that connect by `rdma_cm` run without an
//! RDMA NIC. The messages of the communication manager go over queue pair 1, so that they interoperate with Linux.
//!
//! The crate is compiled to a static library. `rnic verbs` links it to `librdmacm.so.1`, which needs `libibverbs.so.1`
//! of `rnic-ibverbs`. This crate makes queue pairs by the public functions of that library, and uses queue pair 1 by a
//! few private functions.
//!
//! The modules are layers: a module uses only modules above it in this table.
//!
//! | module | contents |
//! |---|---|
//! | `verbs` | the functions of libibverbs that this library calls |
//! | `sockets` | socket addresses of C |
//! | `names` | `rdma_getaddrinfo`, names of events |
//! | `objects` | devices, event channels, events, identifiers and their queue pairs |
//! | `calls` | the functions of `rdma_cm` that C programs call |
//! | `rsocket` | rsockets, on the functions of `calls` |
//!
//! # Unsafe code
//!
//! The functions get pointers from C programs, and trust these pointers as every implementation of librdmacm does.
//! [`rnic_cabi::pointer`] states once, for each kind of pointer, which conditions the program promises. The crate looks
//! up pointers of identifiers, channels and events before it uses them ([`rnic_cabi::live`]). A comment at an `unsafe`
//! block states which other conditions are promised, and who promises them. The crate checks numbers, flags, lengths,
//! and all bytes from the network.

#![allow(unreachable_pub, reason = "the exported functions are public in C")]

mod calls;
mod names;
mod objects;
mod rsocket;
mod sockets;
mod verbs;
