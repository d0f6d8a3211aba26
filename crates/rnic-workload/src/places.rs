//! The hosts near a host: those at the same switch, and those in the same pod. Receivers of flows are drawn among them.

use super::network::Network;
use super::rng::Stream;
use rnic_spec::Locality;
use std::ops::Range;

/// The smallest fraction of flows that counts as more than none: fractions are sums of rounded numbers.
const NONE: f64 = 1e-9;

/// All hosts in an order in which the hosts of a switch are next to each other, and so are the hosts of a pod.
#[derive(Debug)]
pub(crate) struct Places {
    order: Vec<u32>,
    /// For each host, its position in `order`, and the positions of the hosts of its switch and of its pod.
    of: Vec<Place>,
    /// Fraction of the flows that stay at the sender's switch.
    leaf: f64,
    /// Fraction of the flows that stay at the sender's switch or in its pod.
    near: f64,
}

#[derive(Clone, Debug, Default)]
struct Place {
    position: u32,
    leaf: Range<u32>,
    /// Positions of the hosts that all flows leave which do not stay near the sender: its pod, or its switch.
    pod: Range<u32>,
}

impl Places {
    /// The places of the network's hosts.
    pub(crate) fn new(locality: &Locality, network: &Network) -> Places {
        let pod_of = |host: u32| match (locality.pod, network.pod.get(host as usize)) {
            (Some(_), Some(pod)) => *pod,
            (Some(_), None) => 0,
            // Without a fraction for the pod, flows leave the switch for any other.
            (None, _) => network.leaf.get(host as usize).copied().unwrap_or(0),
        };
        let leaf_of = |host: u32| network.leaf.get(host as usize).copied().unwrap_or(0);
        let key = |host: &u32| (pod_of(*host), leaf_of(*host), *host);
        let mut order: Vec<u32> = (0..network.hosts).collect();
        order.sort_by_key(key);
        let mut of = vec![Place::default(); order.len()];
        let mut start = 0;
        for pod in order.chunk_by(|a, b| pod_of(*a) == pod_of(*b)) {
            let in_pod = start..start + pod.len() as u32;
            for leaf in pod.chunk_by(|a, b| leaf_of(*a) == leaf_of(*b)) {
                let at_leaf = start..start + leaf.len() as u32;
                for (position, host) in at_leaf.clone().zip(leaf) {
                    of[*host as usize] = Place { position, leaf: at_leaf.clone(), pod: in_pod.clone() };
                }
                start = at_leaf.end;
            }
        }
        let leaf = locality.leaf.unwrap_or(0.0);
        let near = leaf + locality.pod.unwrap_or(0.0);
        Places { order, of, leaf, near: if near > 1.0 - NONE { 1.0 } else { near } }
    }

    /// Checks that every host has other hosts in each place for which flows are; the error names the first that has
    /// not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let hosts = self.order.len() as u32;
        for (host, place) in self.of.iter().enumerate() {
            let (leaf, pod) = (place.leaf.len() as u32, place.pod.len() as u32);
            let why = if self.leaf > NONE && leaf < 2 {
                "no other host is attached to its switch; `locality` must be 0"
            } else if self.near - self.leaf > NONE && pod == leaf {
                "no other switch of its pod has hosts; `pod_locality` must be 0"
            } else if self.near < 1.0 && pod == hosts {
                "no host is outside; `locality` and `pod_locality` together must be 1"
            } else {
                continue;
            };
            return Err(format!("host {host} cannot reach hosts that the fractions of its flows need: {why}"));
        }
        Ok(())
    }

    /// Draws the receiver of a flow of the host `src`. It takes two draws from the stream.
    pub(crate) fn draw(&self, src: u32, stream: &mut Stream) -> u32 {
        let place = &self.of[src as usize];
        let fraction = stream.unit();
        // A range of candidates without a range in it.
        let (candidates, without) = if fraction < self.leaf {
            (place.leaf.clone(), place.position..place.position + 1)
        } else if fraction < self.near {
            (place.pod.clone(), place.leaf.clone())
        } else {
            (0..self.order.len() as u32, place.pod.clone())
        };
        let count = candidates.len() as u32 - without.len() as u32;
        let position = candidates.start + stream.below(count);
        let skipped = if position < without.start { 0 } else { without.len() as u32 };
        self.order[(position + skipped) as usize]
    }
}
