//! The table of cases.

mod bed;
mod cli;
mod endpoint;
mod frame_peer;
mod kernel_to_kernel;
mod perftest;
mod verbs;

use crate::bench::Case;

/// All cases, in the order in which they are listed and started.
pub fn all() -> Vec<Case> {
    [bed::CASES, kernel_to_kernel::CASES, frame_peer::CASES, endpoint::CASES, perftest::CASES, cli::CASES, verbs::CASES]
        .concat()
}
