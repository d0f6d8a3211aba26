//! The functions that C programs call. Each function converts its arguments, calls functions of
//! [`objects`](crate::objects), writes a line of the trace, and returns the result as C expects it. No panic reaches
//! the C program.
//!
//! The functions whose names begin with `ibv_` are exported. The header calls the other functions through tables.

pub(crate) mod absent;
pub(crate) mod ah;
pub(crate) mod channel;
pub(crate) mod context;
pub(crate) mod cq;
pub(crate) mod cq_ex;
pub(crate) mod device;
pub(crate) mod domain;
pub(crate) mod manager;
pub(crate) mod post;
pub(crate) mod qp;
pub(crate) mod qp_ex;
pub(crate) mod query;
pub(crate) mod srq;
pub(crate) mod window;
