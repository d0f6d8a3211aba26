//! Flows: a [`FlowSpec`] is a flow that a workload starts, a [`FlowRecord`] is the result of a flow.

use rnic_transport::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One flow that a workload (the traffic of a run) starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Simulated time at which the sending application hands the flow to its NIC.
    pub start: Time,
    /// Index of the sending host.
    pub src: u32,
    /// Index of the receiving host; never the sender.
    pub dst: u32,
    /// Payload bytes, at least 1.
    pub bytes: u64,
    /// Id of the request (incast) to which the flow belongs; [`FlowSpec::NO_REQUEST`] for none.
    pub request: u32,
    /// Index of the traffic source in [`crate::RunSpec::traffic`].
    pub traffic: u16,
    /// Whether the flow counts in the statistics. The statistics can leave out the first flows (warm-up) and the last
    /// flows (cool-down) of a traffic source.
    pub measured: bool,
    /// Number from which the flow's hash follows, together with its hosts, instead of its start: the column `hash` of a
    /// flow list. Two flows of a run between the same hosts never have the same number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<u32>,
}

impl FlowSpec {
    /// Value of [`FlowSpec::request`] for a flow that belongs to no request.
    pub const NO_REQUEST: u32 = u32::MAX;
}

/// The result of one flow: when it started and finished, and what its delivery took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// Id of the flow, counted from 0 in order of start.
    pub id: u32,
    /// Index of the sending host.
    pub src: u32,
    /// Index of the receiving host.
    pub dst: u32,
    /// Payload bytes.
    pub bytes: u64,
    /// Simulated time at which the sending application handed the flow to its NIC.
    pub start: Time,
    /// Simulated time at which the receiver had all bytes; `None` if the flow did not finish.
    pub finish: Option<Time>,
    /// Completion time of the flow alone on an empty fabric, at line rate with plain RoCEv2 headers: the denominator of
    /// the slowdown.
    pub ideal: Time,
    /// Payload bytes that the receiver had accepted by the end of the run.
    pub delivered: u64,
    /// Number of data packets of the flow that were retransmissions.
    pub retransmitted: u32,
    /// Number of retransmission timeouts of the flow.
    pub timeouts: u32,
    /// Id of the request (incast) to which the flow belongs; `u32::MAX` for none.
    pub request: u32,
    /// Index of the traffic source in [`crate::RunSpec::traffic`].
    pub traffic: u16,
    /// Whether the flow counts in the statistics.
    pub measured: bool,
}

impl FlowRecord {
    /// The flow's goodput in bit/s: delivered payload divided by the time from the flow's start to its finish. If the
    /// flow did not finish, the time lasts to the end of the run, `end`. `None` if this time is zero.
    ///
    /// ```
    /// use rnic_spec::FlowRecord;
    /// use rnic_transport::Time;
    ///
    /// let flow = FlowRecord {
    ///     id: 0,
    ///     src: 3,
    ///     dst: 7,
    ///     bytes: 100_000,
    ///     start: Time::from_us(10),
    ///     finish: Some(Time::from_us(30)),
    ///     ideal: Time::from_us(20),
    ///     delivered: 100_000,
    ///     retransmitted: 0,
    ///     timeouts: 0,
    ///     request: u32::MAX,
    ///     traffic: 0,
    ///     measured: true,
    /// };
    /// assert_eq!(flow.goodput_bps(Time::from_us(1_000)), Some(40e9));
    /// ```
    pub fn goodput_bps(&self, end: Time) -> Option<f64> {
        let life = self.finish.unwrap_or(end).saturating_sub(self.start).as_ps();
        (life > 0).then(|| self.delivered as f64 * 8e12 / life as f64)
    }

    /// The record of a flow for tests: it counts in the statistics, started at 0 and took 10 us, twice its ideal time.
    #[cfg(any(test, feature = "testing"))]
    pub fn sample(id: u32, bytes: u64) -> FlowRecord {
        FlowRecord {
            id,
            src: 0,
            dst: 1,
            bytes,
            start: Time::ZERO,
            finish: Some(Time::from_us(10)),
            ideal: Time::from_us(5),
            delivered: bytes,
            retransmitted: 0,
            timeouts: 0,
            request: u32::MAX,
            traffic: 0,
            measured: true,
        }
    }
}
