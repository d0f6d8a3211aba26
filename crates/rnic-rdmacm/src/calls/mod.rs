//! The functions of `rdma_cm` that C programs call. Each converts its arguments and calls functions of
//! [`objects`](crate::objects). The modules are layers: a module uses only modules above it in this table.
//!
//! | module | contents |
//! |---|---|
//! | `device`, `channel`, `id`, `qp` | devices, event channels, identifiers, queue pairs of identifiers |
//! | `event` | taking and acknowledging events; waiting for the end of a step |
//! | `address` | binding, resolution of addresses and routes |
//! | `connect` | listening, connecting, accepting, refusing, disconnecting |
//! | `endpoint` | the functions that do several steps: `rdma_create_ep`, `rdma_get_request` |
//! | `absent` | multicast, which is refused |

pub(crate) mod absent;
pub(crate) mod address;
pub(crate) mod channel;
pub(crate) mod connect;
pub(crate) mod device;
pub(crate) mod endpoint;
pub(crate) mod event;
pub(crate) mod id;
pub(crate) mod qp;
