//! The ladder: unmodified RDMA programs, from `ibv_devices` to MPI, that run with rnic's libraries `libibverbs.so.1`
//! and `librdmacm.so.1`. The command writes a table with the result of each program. It shows bandwidth and latency
//! next to the values of `rnic perf`, of the kernel's RoCE in software in virtual machines, and of UCX over TCP.
//!
//! | module | contents |
//! |---|---|
//! | [`programs`] | the programs: command lines, and what their output must contain |
//! | [`host`] | starting programs in network namespaces |
//! | [`figures`] | bandwidths and latencies in the programs' output |
//! | [`measure`] | repeated measurements side by side |
//! | [`kernel`] | the same programs between two guests with the kernel's RoCE |
//! | [`page`] | the tables |

pub mod figures;
pub mod host;
pub mod kernel;
pub mod measure;
pub mod page;
pub mod programs;
