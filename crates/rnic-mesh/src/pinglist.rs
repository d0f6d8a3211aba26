//! Which hosts probe each other: all hosts below the same ToR switch, and selected peers across ToRs, podsets and data
//! centers.
//!
//! The relation is symmetric: if host A probes host B, then B probes A. So the paths that A traces to B are also the
//! paths of A's responses to the probes of B.

use crate::inventory::{Inventory, Scope};
use rnic_transport::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of peers of a host below the same ToR switch. If more hosts are below the switch, each host probes
/// this many neighbours.
const MAX_TOR_PEERS: usize = 64;

/// A host that another host probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Index of the host in the inventory.
    pub host: u32,
    /// Time between two probes.
    pub interval: Time,
}

/// The peers of each host, in the order of the inventory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pinglists(Vec<Vec<Peer>>);

impl Pinglists {
    /// Makes the lists. The interval of a pair is the longer one of its two hosts.
    pub fn new(inventory: &Inventory) -> Pinglists {
        let settings = &inventory.settings;
        let mut pairs: BTreeSet<(u32, u32)> = BTreeSet::new();
        let mut below: Vec<Vec<u32>> = vec![Vec::new(); inventory.tors.len()];
        for (index, host) in (0..).zip(&inventory.hosts) {
            below[host.tor as usize].push(index);
        }
        for hosts in &below {
            let reach = (hosts.len() / 2).min(MAX_TOR_PEERS / 2);
            for at in 0..hosts.len() {
                for step in 1..=reach {
                    add(&mut pairs, hosts[at], hosts[(at + step) % hosts.len()]);
                }
            }
        }
        // Groups of hosts within a larger group: ToRs in a podset, podsets in a data center, data centers.
        let mut podsets: BTreeMap<(&str, &str), Vec<Vec<u32>>> = BTreeMap::new();
        for (tor, hosts) in inventory.tors.iter().zip(&below) {
            podsets.entry((&tor.datacenter, &tor.podset)).or_default().push(hosts.clone());
        }
        let mut datacenters: BTreeMap<&str, Vec<Vec<u32>>> = BTreeMap::new();
        for ((datacenter, _), tors) in &podsets {
            datacenters.entry(datacenter).or_default().push(interleaved(tors));
        }
        let all: Vec<Vec<u32>> = datacenters.values().map(|podsets| interleaved(podsets)).collect();
        for tors in podsets.values() {
            across(&mut pairs, tors, settings.peers[0]);
        }
        for podsets in datacenters.values() {
            across(&mut pairs, podsets, settings.peers[1]);
        }
        across(&mut pairs, &all, settings.peers[2]);
        Pinglists::of(inventory, &pairs)
    }

    fn of(inventory: &Inventory, pairs: &BTreeSet<(u32, u32)>) -> Pinglists {
        let settings = &inventory.settings;
        let interval = |a: u32, b: u32| match inventory.scope(a, b) {
            Scope::Tor => settings.tor_interval,
            _ => settings.interval,
        };
        let mut rates = vec![0.0; inventory.hosts.len()];
        for &(a, b) in pairs {
            let rate = 1.0 / interval(a, b).as_secs();
            rates[a as usize] += rate;
            rates[b as usize] += rate;
        }
        let stretch = |host: u32| (rates[host as usize] / settings.host_rate).max(1.0);
        let mut lists = vec![Vec::new(); inventory.hosts.len()];
        for &(a, b) in pairs {
            let stretched = interval(a, b).as_ps() as f64 * stretch(a).max(stretch(b));
            let interval = Time::from_ms((stretched / 1e9).ceil() as u64);
            lists[a as usize].push(Peer { host: b, interval });
            lists[b as usize].push(Peer { host: a, interval });
        }
        Pinglists(lists)
    }

    /// The peers of a host.
    pub fn of_host(&self, host: u32) -> &[Peer] {
        &self.0[host as usize]
    }

    /// Number of pairs of a prober and a target.
    pub fn pairs(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

fn add(pairs: &mut BTreeSet<(u32, u32)>, a: u32, b: u32) {
    if a != b {
        pairs.insert((a.min(b), a.max(b)));
    }
}

/// The hosts of all groups: first one host of each group, then a second host of each group, and so on.
fn interleaved(groups: &[Vec<u32>]) -> Vec<u32> {
    let longest = groups.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|rank| groups.iter().filter_map(move |group| group.get(rank))).copied().collect()
}

/// Adds pairs of hosts in different groups. A host with index r in its group is paired with hosts of the same index in
/// other groups. The distances between the groups depend on r, so that the hosts of all indices together cover all
/// pairs of groups.
fn across(pairs: &mut BTreeSet<(u32, u32)>, groups: &[Vec<u32>], peers: u32) {
    let count = groups.len();
    if count < 2 {
        return;
    }
    let distances = count / 2;
    // A distance gives a host two peers: one in a group after its own, one in a group before it. With two groups, both
    // are the same.
    let turns = (peers as usize).div_ceil(2).min(distances.max(1) * 8);
    for (at, group) in groups.iter().enumerate() {
        for (rank, host) in group.iter().enumerate() {
            for turn in 0..turns {
                let number = rank * turns + turn;
                let distance = 1 + number % distances;
                let other = &groups[(at + distance) % count];
                // After all distances have been used, the same groups are paired again, by other hosts.
                let shift = turn / distances;
                if let Some(peer) = other.get((rank + shift) % other.len().max(1)) {
                    add(pairs, *host, *peer);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn inventory(datacenters: u32, podsets: u32, tors: u32, hosts: u32, settings: &str) -> Inventory {
        let mut text = format!("[mesh]\n{settings}\n");
        let mut number = 0u32;
        for dc in 0..datacenters {
            for podset in 0..podsets {
                for tor in 0..tors {
                    for _ in 0..hosts {
                        let [_, b, c, d] = number.to_be_bytes();
                        let _ = write!(
                            text,
                            "[[host]]\nname=\"h{number}\"\naddress=\"10.{b}.{c}.{d}\"\ntor=\"t{dc}-{podset}-{tor}\"\n\
                             podset=\"p{podset}\"\ndatacenter=\"d{dc}\"\n"
                        );
                        number += 1;
                    }
                }
            }
        }
        Inventory::parse(&text).unwrap()
    }

    #[test]
    fn everybody_in_the_tor_and_all_pairs_of_tors() {
        let inventory = inventory(2, 2, 4, 5, "podset_peers = 2\ndatacenter_peers = 2\nglobal_peers = 2");
        let lists = Pinglists::new(&inventory);
        let mut tor_pairs = BTreeSet::new();
        let mut scopes = BTreeSet::new();
        for host in 0..inventory.hosts.len() as u32 {
            let peers = lists.of_host(host);
            let of_tor = peers.iter().filter(|peer| inventory.scope(host, peer.host) == Scope::Tor).count();
            assert_eq!(of_tor, 4, "full mesh in the ToR");
            assert!(peers.iter().all(|peer| peer.host != host));
            assert!(peers.len() <= 4 + 3 * 4, "{}", peers.len());
            for peer in peers {
                scopes.insert(inventory.scope(host, peer.host));
                assert!(lists.of_host(peer.host).contains(&Peer { host, ..*peer }), "symmetric");
                let (a, b) = (inventory.tor_of(host), inventory.tor_of(peer.host));
                if (&a.podset, &a.datacenter) == (&b.podset, &b.datacenter) {
                    tor_pairs.insert((&a.name, &b.name));
                }
            }
        }
        assert_eq!(scopes.len(), 4, "every scope is probed");
        // 4 podsets with 4 x 4 pairs of ToRs each.
        assert_eq!(tor_pairs.len(), 4 * 16);
    }

    #[test]
    fn rates_are_bounded() {
        let inventory = inventory(1, 1, 2, 40, "tor_interval = \"10 ms\"\nhost_rate = 20.0");
        let lists = Pinglists::new(&inventory);
        for host in 0..80 {
            let rate: f64 = lists.of_host(host).iter().map(|peer| 1.0 / peer.interval.as_secs()).sum();
            assert!(rate <= 20.0 && rate > 15.0, "{rate}");
        }
    }

    #[test]
    fn large_tors_are_not_meshed_fully() {
        let inventory = inventory(1, 1, 1, 300, "");
        assert!(Pinglists::new(&inventory).of_host(7).len() <= MAX_TOR_PEERS);
    }
}
