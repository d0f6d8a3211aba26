//! The interface to C that `rnic-ibverbs` and `rnic-rdmacm` share: the structures of the headers, typed pointers,
//! wrappers for the bodies of exported functions, queues with a file descriptor, and threads.
//!
//! | module | contents |
//! |---|---|
//! | [`verbs`] | the structures and constants of `infiniband/verbs.h` |
//! | [`cma`] | the structures and constants of `rdma/rdma_cma.h` |
//! | [`mod@pointer`] | typed pointers of C programs, and the objects that a library makes |
//! | [`entry`] | panics, errors, unacknowledged events |
//! | [`live`] | the objects that exist, so that pointers of freed objects are refused |
//! | [`mailbox`] | queues with a file descriptor by which programs wait |
//! | [`thread`] | threads of the libraries, which receive no signals |

pub mod cma;
pub mod entry;
pub mod live;
pub mod mailbox;
pub mod pointer;
pub mod thread;
pub mod verbs;
