//! The table of cases.

mod bed;
mod cli;
mod endpoint;
mod frame_peer;
mod kernel_to_kernel;
mod mesh;
mod perftest;
mod rdma_cm;
mod verbs;

use crate::bench::Case;

/// All cases, in the order in which they are listed and started.
pub fn all() -> Vec<Case> {
    let groups = [
        bed::CASES,
        kernel_to_kernel::CASES,
        frame_peer::CASES,
        endpoint::CASES,
        perftest::CASES,
        cli::CASES,
        mesh::CASES,
        rdma_cm::CASES,
        verbs::CASES,
    ];
    groups.concat()
}
