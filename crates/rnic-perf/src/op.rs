//! The operations whose bandwidth or latency is measured.

use serde::{Deserialize, Serialize};

/// An operation whose bandwidth or latency is measured.
///
/// ```
/// use rnic_perf::Op;
///
/// assert!(Op::FetchAdd.is_atomic() && Op::Read.is_fetching());
/// assert_eq!(Op::CompareSwap.name(), "compare-swap");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// RDMA Write.
    Write,
    /// RDMA Read.
    Read,
    /// Send.
    Send,
    /// Atomic fetch-and-add.
    FetchAdd,
    /// Atomic compare-and-swap.
    CompareSwap,
}

impl Op {
    /// Whether this is an atomic operation, which always works on 8 bytes.
    pub fn is_atomic(self) -> bool {
        matches!(self, Op::FetchAdd | Op::CompareSwap)
    }

    /// Whether the response to this operation carries data: RDMA Read and atomic operations.
    pub fn is_fetching(self) -> bool {
        self == Op::Read || self.is_atomic()
    }

    /// The name of the operation as command-line options spell it, such as `fetch-add`.
    pub fn name(self) -> &'static str {
        match self {
            Op::Write => "write",
            Op::Read => "read",
            Op::Send => "send",
            Op::FetchAdd => "fetch-add",
            Op::CompareSwap => "compare-swap",
        }
    }
}
