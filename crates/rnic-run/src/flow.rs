//! One flow of a workload.

use rnic_transport::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One flow that a workload starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Time at which the application hands the flow to the NIC.
    pub start: Time,
    /// Sending host.
    pub src: u32,
    /// Receiving host; never the sender.
    pub dst: u32,
    /// Payload bytes, at least 1.
    pub bytes: u64,
    /// Id of the request (incast) to which the flow belongs; [`FlowSpec::NO_REQUEST`] for none.
    pub request: u32,
    /// Index of the traffic source in [`crate::RunSpec::traffic`].
    pub traffic: u16,
    /// Whether the flow counts in the statistics, because it lies outside warm-up and cool-down.
    pub measured: bool,
}

impl FlowSpec {
    /// Value of [`FlowSpec::request`] for a flow that belongs to no request.
    pub const NO_REQUEST: u32 = u32::MAX;
}
