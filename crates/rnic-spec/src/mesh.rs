//! An RDMA Pingmesh inside a run, as plain data: which hosts probe each other, and what the probes measured.

use crate::stored;
use rnic_transport::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A mesh of probes (`[[fabric.mesh]]`): hosts that send probes to other hosts, which respond at once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mesh {
    /// Name of the mesh in results.
    pub name: String,
    /// The probing and the responding host of each pair.
    pub pairs: MeshPairs,
    /// Time between two probes of a pair.
    pub interval: Time,
    /// Simulated time from which the pairs probe; each begins at its own time within the first interval.
    pub start: Time,
    /// Payload of probes and responses.
    pub payload: Bytes,
    /// Priority of probes and responses.
    pub priority: u8,
    /// Length of the windows of simulated time for which the results have percentiles.
    pub window: Time,
    /// Time after which a probe without a response is retransmitted, as by TCP; it doubles with each transmission. The
    /// round-trip time counts from the first transmission. `None`: a lost probe stays without a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rto: Option<Time>,
    /// Delay that the software of both hosts adds to a round trip; `None`: none, as with RDMA.
    pub stack: Option<StackDelay>,
}

/// The pairs of hosts of a mesh.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MeshPairs {
    /// Indices of the probing and of the responding host.
    Listed(Vec<(u32, u32)>),
    /// This many pairs, drawn at random.
    Random(u32),
}

/// The delay that the software of both hosts adds to a round trip: a log-normal distribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StackDelay {
    /// Median of the delay.
    pub median: Time,
    /// 99th percentile of the delay, at least the median.
    pub p99: Time,
}

/// What the probes of a mesh measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MeshRecord {
    /// Name of the mesh.
    pub name: String,
    /// All probes of the run.
    pub total: MeshRow,
    /// The probes of each window of simulated time in which some were posted, in order of time.
    pub rows: Vec<MeshRow>,
}

/// Round-trip times of the probes that were posted in a window of simulated time. The percentiles are over the answered
/// probes, by nearest rank; zero if there are none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MeshRow {
    /// Start of the window.
    #[serde(with = "stored::time")]
    pub from: Time,
    /// Number of probes.
    pub probes: u64,
    /// Number of probes without a response before the end of the run.
    pub unanswered: u64,
    /// Median of the round-trip time.
    #[serde(with = "stored::time")]
    pub p50: Time,
    /// 99th percentile.
    #[serde(with = "stored::time")]
    pub p99: Time,
    /// 99.9th percentile.
    #[serde(with = "stored::time")]
    pub p999: Time,
    /// Maximum.
    #[serde(with = "stored::time")]
    pub max: Time,
}
