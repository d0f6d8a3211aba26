//! The messages between agents and the controller, as plain data. Pinglists and registrations are encoded as JSON.
//! Reports are encoded as postcard, a compact binary format, because agents send many of them.

use rnic_endpoint::DatagramAddress;
use rnic_probe::Carrier;
use rnic_transport::Time;
use serde::{Deserialize, Serialize};

/// Version of the protocol between agents and the controller.
pub const PROTOCOL: u32 = 1;
/// Maximum number of targets in a pinglist, and so in a batch.
pub const MAX_TARGETS: usize = 1_024;
/// Maximum number of probes in a batch.
pub const MAX_PROBES: usize = 8_192;
/// Maximum number of paths to a target.
pub const MAX_PATHS: u16 = 64;
/// Maximum number of hops of a traced path.
pub const MAX_HOPS: usize = 16;

/// Maximum time in a result in ns: a day. A valid result has no longer time between a probe and its response, because
/// the timeout is at most a minute. Only an agent that was stopped in the meantime could measure a longer time.
pub const MAX_NS: u64 = 86_400_000_000_000;
/// Maximum time of day in a result, in microseconds since 1970: the end of the year 9999.
pub const MAX_AT_US: u64 = 253_402_300_799_999_999;

/// An agent's description of itself. The agent sends it with each fetch of its pinglist.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Registration {
    /// Version of the protocol, [`PROTOCOL`].
    pub protocol: u32,
    /// Name of the host in the inventory.
    pub host: String,
    /// A random number that the agent draws when it starts.
    pub incarnation: u64,
    /// Where the agent receives probes.
    pub address: DatagramAddress,
    /// [`Pinglist::version`] of the list that the agent has; 0 without a list.
    #[serde(rename = "have")]
    pub list_version: u64,
    /// [`Pinglist::digest`] of the list that the agent has; 0 without a list.
    pub digest: u64,
    /// Counters of the agent.
    pub health: Health,
}

/// Counters of an agent since its start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Health {
    /// Probes with a result.
    pub probes: u64,
    /// Results that the agent discarded because the controller did not accept them in time.
    pub discarded: u64,
    /// Results that wait for the controller.
    pub waiting: u64,
    /// Probes of other agents that got a response.
    pub answered: u64,
    /// Probes of other agents that exceeded the rate limit, and got no response.
    pub limited: u64,
    /// Unexpected datagrams; see [`rnic_probe::ResponderCounters::unexpected`].
    #[serde(rename = "strange")]
    pub unexpected: u64,
    /// Probes that were delayed or left out, because the list asked for more than the agent's own limits.
    pub throttled: u64,
    /// Whether the agent can trace the paths of its probes.
    pub traces: bool,
    /// Whether the NIC's hardware takes the time stamps of the agent's probes.
    #[serde(default)]
    pub hardware_times: bool,
}

/// The response to a registration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fetched {
    /// The agent has the current list; the number is its new [`Pinglist::version`].
    Unchanged(u64),
    /// A new list.
    List(Box<Pinglist>),
}

/// The targets that an agent probes, the probers to which it responds, and the settings of the probes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pinglist {
    /// Version of the list. It increases whenever an agent registers.
    pub version: u64,
    /// Hash of the content.
    pub digest: u64,
    /// Time between two fetches, in ms.
    pub refresh_ms: u64,
    /// Time between two reports, in ms.
    pub report_ms: u64,
    /// Time between two traces of a path, in ms.
    pub trace_ms: u64,
    /// Time after which a probe without a response is lost, in ms.
    pub timeout_ms: u64,
    /// Payload bytes of a probe.
    pub size: u16,
    /// Number of paths to each target.
    pub paths: u16,
    /// Number of the rotation of the paths ([`rotation`](crate::rotation)); 0: the paths do not change.
    #[serde(default)]
    pub rotation: u64,
    /// Transport of the probes.
    #[serde(default)]
    pub transport: Carrier,
    /// Differentiated services code point of probes.
    pub dscp: u8,
    /// The hosts to probe.
    pub targets: Vec<Target>,
    /// The probers to be answered.
    pub admit: Vec<Admit>,
}

/// A host to probe.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Target {
    /// Name in the inventory.
    pub host: String,
    /// The target's incarnation. The agent copies it into its reports.
    pub incarnation: u64,
    /// Where the target receives probes.
    pub address: DatagramAddress,
    /// Session number that probes carry.
    pub session: u64,
    /// Time between two probes, in ms.
    pub interval_ms: u64,
}

/// A prober that the agent answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Admit {
    /// Session number that its probes carry.
    pub session: u64,
    /// Where the prober receives responses.
    pub prober: DatagramAddress,
}

/// Results of probes, from one agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Batch {
    /// Version of the protocol, [`PROTOCOL`].
    pub protocol: u32,
    /// Name of the prober in the inventory.
    pub host: String,
    /// The prober's incarnation.
    pub incarnation: u64,
    /// Number of the batch, from 1. Batches of an incarnation arrive in this order, and the controller counts each
    /// number at most once.
    pub sequence: u64,
    /// Name and incarnation of the targets in this batch.
    pub targets: Vec<(String, u64)>,
    /// UDP source port of each path that an agent can use.
    pub source_ports: Vec<u16>,
    /// The results.
    pub probes: Vec<ProbeRecord>,
    /// Paths that were traced.
    pub traces: Vec<Trace>,
}

/// The result of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProbeRecord {
    /// Index of the target in [`Batch::targets`].
    pub target: u16,
    /// Index of the path.
    pub path: u16,
    /// When the result was known, by the prober's clock, in microseconds since 1970.
    pub at_us: u64,
    /// The result.
    pub result: ProbeResult,
}

/// The result of a probe, without its time and path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ProbeResult {
    /// The target answered the probe.
    Answered {
        /// Time in ns from posting the probe until the prober saw the response.
        total_ns: u64,
        /// Delay at the prober in ns.
        prober_ns: u64,
        /// Delay at the responder and round-trip time of the network, both in ns; `None` if the responder's report was
        /// lost.
        split_ns: Option<(u64, u64)>,
    },
    /// No response arrived before the timeout.
    Timeout,
    /// The prober's system could not send the probe.
    Unreachable,
    /// The target's agent had ended or restarted, so the lost probe is not a failure of the network.
    Gone,
}

impl ProbeResult {
    /// The name of the result in files and on the page.
    pub const fn code(self) -> &'static str {
        match self {
            ProbeResult::Answered { .. } => "answered",
            ProbeResult::Timeout => "timeout",
            ProbeResult::Unreachable => "unreachable",
            ProbeResult::Gone => "gone",
        }
    }

    /// Round-trip time of the network in ns, if it is known.
    pub const fn network_ns(self) -> Option<u64> {
        match self {
            ProbeResult::Answered { split_ns: Some((_, network)), .. } => Some(network),
            _ => None,
        }
    }

    /// Whether the probe counts as lost.
    pub const fn is_lost(self) -> bool {
        matches!(self, ProbeResult::Timeout | ProbeResult::Unreachable)
    }
}

/// The routers on a path: the source addresses of the ICMP messages that they send when a packet's time to live
/// expires.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trace {
    /// Index of the target in [`Batch::targets`].
    pub target: u16,
    /// Index of the path.
    pub path: u16,
    /// IP addresses of the hops, from the prober's ToR on; `None` for a hop that did not respond.
    pub hops: Vec<Option<std::net::IpAddr>>,
}

impl Batch {
    /// Encodes the batch.
    pub fn emit(&self) -> Vec<u8> {
        // Only a serialiser that allocates in advance can fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Reads a batch.
    ///
    /// # Errors
    /// Returns a sentence if the bytes are not a batch, or if a result refers to a target that the batch does not list.
    pub fn parse(bytes: &[u8]) -> Result<Batch, String> {
        let batch: Batch = postcard::from_bytes(bytes).map_err(|error| format!("this is no report: {error}"))?;
        if batch.protocol != PROTOCOL {
            return Err(format!("the report has version {}; this controller reads {PROTOCOL}", batch.protocol));
        }
        let (targets, paths) = (batch.targets.len(), batch.source_ports.len());
        if targets > MAX_TARGETS || batch.probes.len() > MAX_PROBES || paths > usize::from(MAX_PATHS) {
            return Err(format!(
                "the report is too long: at most {MAX_TARGETS} targets, {MAX_PROBES} probes and {MAX_PATHS} paths"
            ));
        }
        let fits = |target: u16, path: u16| usize::from(target) < targets && usize::from(path) < paths;
        let probes = batch.probes.iter().all(|probe| fits(probe.target, probe.path));
        let traces = batch.traces.iter().all(|trace| fits(trace.target, trace.path) && trace.hops.len() <= MAX_HOPS);
        if !probes || !traces || batch.traces.len() > MAX_PROBES {
            return Err("the report refers to a target, path or hop that it cannot have".to_string());
        }
        Ok(batch)
    }

    /// Checks that a clock can have measured the times of all results: at most [`MAX_NS`] and [`MAX_AT_US`], and no
    /// part of a time longer than the time.
    ///
    /// # Errors
    /// Returns a sentence about the first wrong time.
    pub fn check_times(&self) -> Result<(), String> {
        for probe in &self.probes {
            if probe.at_us > MAX_AT_US {
                return Err(format!("a result is from {} us after 1970; accepted: up to {MAX_AT_US}", probe.at_us));
            }
            let ProbeResult::Answered { total_ns, prober_ns, split_ns } = probe.result else { continue };
            let (responder_ns, network_ns) = split_ns.unwrap_or_default();
            let longest = total_ns.max(prober_ns).max(responder_ns).max(network_ns);
            if longest > MAX_NS {
                return Err(format!("a result has a time of {longest} ns; accepted: up to {MAX_NS}"));
            }
            if prober_ns > total_ns {
                return Err(format!(
                    "a result has a delay of {prober_ns} ns at the prober, which is longer than its total time of \
                     {total_ns} ns"
                ));
            }
        }
        Ok(())
    }

    /// Removes the targets whose names `is_known` does not accept, with their results and traces. Returns whether any
    /// targets were removed.
    pub fn retain_targets(&mut self, is_known: impl Fn(&str) -> bool) -> bool {
        let known: Vec<bool> = self.targets.iter().map(|(name, _)| is_known(name)).collect();
        if known.iter().all(|known| *known) {
            return false;
        }
        // The index of a known target is then the number of known targets before it.
        let index = |target: u16| known[..usize::from(target)].iter().filter(|known| **known).count() as u16;
        self.probes.retain(|probe| known[usize::from(probe.target)]);
        self.probes.iter_mut().for_each(|probe| probe.target = index(probe.target));
        self.traces.retain(|trace| known[usize::from(trace.target)]);
        self.traces.iter_mut().for_each(|trace| trace.target = index(trace.target));
        let mut each = known.iter();
        self.targets.retain(|_| each.next().is_some_and(|known| *known));
        true
    }
}

/// A time in nanoseconds.
pub(crate) fn ns(time: Time) -> u64 {
    time.as_ps() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn batch() -> Batch {
        let answered = ProbeResult::Answered { total_ns: 900, prober_ns: 20, split_ns: Some((30, 850)) };
        Batch {
            protocol: PROTOCOL,
            host: "h1".to_string(),
            incarnation: 5,
            sequence: 1,
            targets: vec![("h2".to_string(), 6)],
            source_ports: vec![50_000, 50_001],
            probes: vec![ProbeRecord { target: 0, path: 1, at_us: 7, result: answered }],
            traces: vec![Trace { target: 0, path: 0, hops: vec![Some([10, 0, 0, 1].into()), None] }],
        }
    }

    #[test]
    fn a_batch_survives_the_wire() {
        assert_eq!(Batch::parse(&batch().emit()), Ok(batch()));
        let mut wrong = batch();
        wrong.probes[0].target = 1;
        assert!(Batch::parse(&wrong.emit()).unwrap_err().contains("refers to a target"));
        let mut wrong = batch();
        wrong.protocol = 2;
        assert_eq!(Batch::parse(&wrong.emit()).unwrap_err(), "the report has version 2; this controller reads 1");
        let mut wrong = batch();
        wrong.probes = vec![wrong.probes[0]; MAX_PROBES + 1];
        assert!(Batch::parse(&wrong.emit()).unwrap_err().contains("too long"));
    }

    #[test]
    fn only_times_that_a_clock_can_measure_are_accepted() {
        let with = |total_ns, prober_ns, split_ns| {
            let mut batch = batch();
            batch.probes[0].result = ProbeResult::Answered { total_ns, prober_ns, split_ns };
            batch.check_times()
        };
        assert_eq!(with(MAX_NS, MAX_NS, Some((MAX_NS, MAX_NS))), Ok(()));
        assert_eq!(with(0, 0, None), Ok(()));
        for wrong in [
            with(u64::MAX, 0, None),
            with(MAX_NS + 1, 0, None),
            with(9, u64::MAX, None),
            with(9, 9, Some((u64::MAX, 0))),
            with(9, 9, Some((0, MAX_NS + 1))),
        ] {
            assert!(wrong.unwrap_err().ends_with("ns; accepted: up to 86400000000000"));
        }
        assert!(with(9, 10, None).unwrap_err().contains("10 ns at the prober, which is longer"));
        let mut late = batch();
        late.probes[0].at_us = u64::MAX;
        assert!(late.check_times().unwrap_err().contains("us after 1970"));
    }

    #[test]
    fn unknown_targets_are_removed() {
        let mut some = batch();
        some.targets = ["x", "h2", "\u{1b}[2J", "h3"].map(|name| (name.to_string(), 6)).to_vec();
        some.probes = (0..4).map(|target| ProbeRecord { target, ..some.probes[0] }).collect();
        some.traces = (0..4).map(|target| Trace { target, ..some.traces[0].clone() }).collect();
        assert!(some.retain_targets(|name| name.starts_with('h')));
        assert_eq!(some.targets, [("h2".to_string(), 6), ("h3".to_string(), 6)]);
        assert_eq!(some.probes.iter().map(|probe| probe.target).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(some.traces.iter().map(|trace| trace.target).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(Batch::parse(&some.emit()), Ok(some.clone()));
        assert!(!some.retain_targets(|_| true));
        assert!(some.retain_targets(|_| false) && some.targets.is_empty() && some.probes.is_empty());
    }

    proptest! {
        /// Arbitrary bytes yield an error or a batch within the bounds, and no panic.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..60_usize, value in any::<u8>()) {
            let mut near = batch().emit();
            let len = near.len();
            near[at % len] = value;
            for bytes in [&bytes, &near] {
                if let Ok(batch) = Batch::parse(bytes) {
                    prop_assert!(batch.probes.iter().all(|probe| usize::from(probe.target) < batch.targets.len()));
                }
            }
        }
    }
}
