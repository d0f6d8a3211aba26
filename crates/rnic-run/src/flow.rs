//! One flow of a workload.

use rnic_transport::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One flow to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// When the application hands it to the NIC.
    pub start: Time,
    /// Sending host.
    pub src: u32,
    /// Receiving host; never the sender.
    pub dst: u32,
    /// Payload bytes, at least 1.
    pub bytes: u64,
    /// The request it is a part of (incast), [`FlowSpec::NO_REQUEST`] for none.
    pub request: u32,
    /// Index of its source in the run's list of traffic.
    pub traffic: u16,
    /// Whether it counts in the statistics (outside warm-up and cool-down).
    pub measured: bool,
}

impl FlowSpec {
    /// Not part of a request.
    pub const NO_REQUEST: u32 = u32::MAX;
}
