//! Traffic of the links by tier: all links that lead from one kind of node to another, such as from leaves to spines.

use rnic_fabric::config::TopologySpec;
use rnic_spec::{PortRecord, RunOutput};
use rnic_transport::Time;

/// The links of one tier in one direction.
#[derive(Clone, PartialEq, Debug)]
pub struct Tier {
    /// Kind of the sending nodes: `host`, `leaf`, `spine`, ...; in a graph `host` or `switch`.
    pub from: String,
    /// Kind of the receiving nodes.
    pub to: String,
    /// Number of links.
    pub links: u64,
    /// Bytes of the frames that the links transmitted, frame gaps and pause frames not included.
    pub bytes: u64,
    /// Utilisation of the links over the whole run.
    pub utilisation: Utilisation,
    /// The link with the highest utilisation: its sending and its receiving node, joined by a colon.
    pub busiest: String,
}

/// Utilisation of a set of transmitters. The utilisation of one transmitter is the fraction of the run for which it was
/// sending.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Utilisation {
    /// Mean of the utilisation over the transmitters.
    pub mean: f64,
    /// Maximum of the utilisation over the transmitters.
    pub max: f64,
}

/// Whether `node` is the name of a host of the topology.
pub(crate) fn is_host(topology: &TopologySpec, node: &str) -> bool {
    match topology {
        TopologySpec::Graph { hosts, .. } => hosts.iter().any(|h| h == node),
        _ => node.strip_prefix('h').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())),
    }
}

/// The fraction of the run for which the transmitter of `port` was sending; `None` if the run lasted no time.
pub(crate) fn port_utilisation(port: &PortRecord, duration: Time) -> Option<f64> {
    (duration > Time::ZERO).then(|| port.busy.as_ps() as f64 / duration.as_ps() as f64)
}

/// The tiers of the run's links in the order in which the ports name them; empty if the run lasted no time.
pub(super) fn tiers(topology: &TopologySpec, output: &RunOutput) -> Vec<Tier> {
    let mut tiers: Vec<Tier> = Vec::new();
    for port in &output.ports {
        let Some(utilisation) = port_utilisation(port, output.end) else { continue };
        let (from, to) = (kind(topology, &port.node), kind(topology, &port.peer));
        let bytes: u64 = port.priorities.iter().map(|counters| counters.tx_bytes).sum();
        match tiers.iter_mut().find(|tier| tier.from == from && tier.to == to) {
            Some(tier) => {
                tier.links += 1;
                tier.bytes += bytes;
                tier.utilisation.mean += utilisation; // the sum, until all links are counted
                if utilisation > tier.utilisation.max {
                    (tier.utilisation.max, tier.busiest) = (utilisation, link(port));
                }
            }
            None => tiers.push(Tier {
                from: from.to_string(),
                to: to.to_string(),
                links: 1,
                bytes,
                utilisation: Utilisation { mean: utilisation, max: utilisation },
                busiest: link(port),
            }),
        }
    }
    tiers.iter_mut().for_each(|tier| tier.utilisation.mean /= tier.links as f64);
    tiers
}

/// Name of the direction of a link in which the port sends.
pub(super) fn link(port: &PortRecord) -> String {
    format!("{}:{}", port.node, port.peer)
}

/// Kind of a node, by its name: `leaf3` is a `leaf`. A graph has hosts and switches only.
pub(super) fn kind<'n>(topology: &TopologySpec, node: &'n str) -> &'n str {
    if is_host(topology, node) {
        return "host";
    }
    match (topology, node.trim_end_matches(|c: char| c.is_ascii_digit())) {
        (TopologySpec::Graph { .. }, _) | (_, "" | "s") => "switch",
        (_, kind) => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn tiers_by_hand() {
        let (scenario, reports) = fixture::two_runs();
        // The run lasts 600 us. h0 sends to s0 for 300 us, s0 to h1 and to s1 for 150 us each, 318,600 B each.
        let tiers = tiers(&scenario.runs[0].fabric.topology, &reports[0].output);
        let shape: Vec<_> =
            tiers.iter().map(|t| (t.from.as_str(), t.to.as_str(), t.links, t.bytes, t.busiest.as_str())).collect();
        assert_eq!(
            shape,
            [
                ("host", "switch", 1, 318_600, "h0:s0"),
                ("switch", "host", 1, 318_600, "s0:h1"),
                ("switch", "switch", 1, 318_600, "s0:s1")
            ]
        );
        assert!((tiers[0].utilisation.mean - 0.5).abs() < 1e-6 && (tiers[1].utilisation.max - 0.25).abs() < 1e-6);
    }

    #[test]
    fn the_busiest_link_of_a_tier_has_the_maximum() {
        let (scenario, mut reports) = fixture::two_runs();
        let output = &mut reports[0].output;
        (output.ports[2].peer, output.ports[2].busy) = ("h2".into(), output.end);
        let tiers = tiers(&scenario.runs[0].fabric.topology, output);
        assert_eq!((tiers.len(), tiers[1].links, tiers[1].bytes), (2, 2, 637_200));
        assert_eq!((tiers[1].busiest.as_str(), tiers[1].utilisation.max), ("s0:h2", 1.0));
        assert!((tiers[1].utilisation.mean - 0.625).abs() < 1e-6);
    }

    #[test]
    fn hosts_by_name() {
        let built = TopologySpec::FatTree { k: 4 };
        assert!(is_host(&built, "h0") && is_host(&built, "h15"));
        assert!(!is_host(&built, "h") && !is_host(&built, "hub1") && !is_host(&built, "edge0"));
        let graph = TopologySpec::Graph { hosts: vec!["hub1".into()], switches: vec!["h0".into()] };
        assert!(is_host(&graph, "hub1") && !is_host(&graph, "h0"));
    }

    #[test]
    fn kinds_of_nodes() {
        let built = TopologySpec::FatTree { k: 4 };
        assert_eq!(["h3", "edge12", "agg0", "core1"].map(|node| kind(&built, node)), ["host", "edge", "agg", "core"]);
        let graph = TopologySpec::Graph { hosts: vec!["leaf1".into()], switches: vec!["h0".into()] };
        assert_eq!(["leaf1", "h0"].map(|node| kind(&graph, node)), ["host", "switch"]);
    }
}
