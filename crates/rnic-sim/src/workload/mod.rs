//! Workloads: which flows start when, between whom, how large.

use crate::scenario::Traffic;
use rnic_transport::{BitRate, Time};

/// One flow to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// How large flows are.
#[derive(Clone, PartialEq, Debug)]
pub struct SizeDistribution {
    /// What the scenario calls it: `irn-heavy-tailed`, `websearch`, `fixed 1 MB`, `uniform 500 KB - 5 MB`, or a file's name.
    pub name: String,
    /// Points (bytes, cumulative probability), both rising, the last probability 1. Between two points bytes are linear in
    /// probability; two points of equal probability make a gap, two of equal bytes a point mass; below the first point's
    /// probability lies its own mass.
    pub points: Vec<(f64, f64)>,
}

// STUB: everything below stands in for the workloads themselves.

/// Built-in size distributions: (name, description).
pub const BUILT_IN_SIZES: &[(&str, &str)] = &[
    (
        "irn-heavy-tailed",
        "half the flows are one packet, most bytes are in flows of 200 KB to 3 MB (IRN)",
    ),
    ("websearch", "web search traffic (DCTCP)"),
];

/// What a workload must know of the network it runs on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    /// Number of hosts, numbered from 0.
    pub hosts: u32,
    /// Rate of each host's link; one entry per host.
    pub host_rate: Vec<BitRate>,
    /// Payload bytes of a full packet.
    pub mtu: u32,
    /// Bytes on the cable around each data packet's payload: headers, trailers and frame gap of plain RoCEv2.
    pub wire_overhead: u32,
}

/// Whether [`generate`] can generate all of `traffic`; an error is one sentence.
pub fn check(_traffic: &[Traffic], _network: &Network) -> Result<(), String> {
    Ok(())
}

/// The flows of all `traffic`, in order of their start.
pub fn generate(_traffic: &[Traffic], _network: &Network, _seed: u64) -> FlowStream {
    FlowStream {}
}

/// All flows of a run, lazily and in order.
#[derive(Debug)]
pub struct FlowStream {}

impl FlowStream {
    /// Number of flows in all.
    pub fn total(&self) -> u64 {
        0
    }
}

impl Iterator for FlowStream {
    type Item = FlowSpec;

    fn next(&mut self) -> Option<FlowSpec> {
        None
    }
}

/// Flow lists in files. STUB.
pub mod list {
    use super::FlowSpec;
    use rnic_transport::Time;
    use std::path::Path;

    /// How a flow list is written.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub enum ListFormat {
        /// Comma-separated values with a header line.
        Csv,
        /// The HPCC simulator's flow file.
        Hpcc,
    }

    /// Reads the flows of a file, sorted by start; an error is one sentence.
    pub fn read_flow_list(path: &Path, _format: ListFormat, hosts: u32) -> Result<Vec<FlowSpec>, String> {
        std::fs::metadata(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        let flow = FlowSpec {
            start: Time::ZERO,
            src: 0,
            dst: hosts - 1,
            bytes: 1_000,
            request: FlowSpec::NO_REQUEST,
            traffic: 0,
            measured: true,
        };
        Ok(vec![flow])
    }
}

/// Flow size distributions. STUB.
pub mod sizes {
    use super::{BUILT_IN_SIZES, SizeDistribution};
    use std::path::Path;

    /// The distribution that a scenario's `sizes` names; an error is one sentence.
    pub fn parse(text: &str, base_dir: &Path) -> Result<SizeDistribution, String> {
        let built_in = BUILT_IN_SIZES.iter().any(|(name, _)| *name == text);
        if !built_in && !text.starts_with("fixed ") && !text.starts_with("uniform ") {
            let path = base_dir.join(text);
            std::fs::metadata(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        }
        Ok(SizeDistribution {
            name: text.to_string(),
            points: vec![(1_000.0, 1.0)],
        })
    }
}
