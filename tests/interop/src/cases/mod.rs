//! The table of cases.

mod bed;
mod cli;
mod endpoint;
mod frame_peer;
mod kernel_to_kernel;
mod mesh;
mod perftest;

use crate::bench::Case;

/// All cases, in the order in which they are listed and started.
pub fn all() -> Vec<Case> {
    let own = [bed::CASES, kernel_to_kernel::CASES, frame_peer::CASES, endpoint::CASES, perftest::CASES, cli::CASES];
    [&own.concat(), mesh::CASES].concat()
}
