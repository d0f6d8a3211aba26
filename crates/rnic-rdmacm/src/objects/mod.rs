//! The objects of the library. Each object begins with the structure that the C program gets, followed by the state of
//! this crate ([`rnic_cabi::pointer`]). The modules are layers: a module uses only modules above it in this table.
//!
//! | module | contents |
//! |---|---|
//! | `device` | opened devices, each with its communication manager and a thread |
//! | `channel` | event channels, and the registry that finds the channel of an event |
//! | `devices` | the devices of this host, whose events go to channels |
//! | `event` | events that the program has received |
//! | `id` | identifiers (`rdma_cm_id`) |
//! | `qp` | the queue pairs of identifiers |
//! | `translate` | makes the program's event of an event of the communication manager |

pub(crate) mod channel;
pub(crate) mod device;
pub(crate) mod devices;
pub(crate) mod event;
pub(crate) mod id;
pub(crate) mod qp;
pub(crate) mod translate;
