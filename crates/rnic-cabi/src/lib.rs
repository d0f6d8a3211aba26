//! The border to C that `rnic-ibverbs` and `rnic-rdmacm` share: the structures of the headers, what each exported
//! function begins with, queues with a file descriptor, and threads.
//!
//! | module | contents |
//! |---|---|
//! | [`verbs`] | the structures and constants of `infiniband/verbs.h` |
//! | [`cma`] | those of `rdma/rdma_cma.h` |
//! | [`entry`] | panics, errors, events that are not acknowledged |
//! | [`live`] | the objects that exist, so that freed pointers are found |
//! | [`mailbox`] | queues with a file descriptor by which programs wait |
//! | [`thread`] | threads of the libraries, which receive no signals |

pub mod cma;
pub mod entry;
pub mod live;
pub mod mailbox;
pub mod thread;
pub mod verbs;
