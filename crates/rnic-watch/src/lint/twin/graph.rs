//! The nodes and links of a scenario.

use super::LENGTH;
use crate::lint::fleet::{Fleet, Link};
use crate::lint::host::Interface;
use crate::lint::neighbours::End;
use crate::lint::safety::Context;
use crate::lint::switch::Port;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of headers in an RDMA Write over IPv4: IP, UDP, BTH, RETH, ICRC.
const HEADERS: u64 = 60;
/// The nodes and links of the scenario.
pub(super) struct Graph {
    /// (name of the simulated host, host, interface)
    pub(super) hosts: Vec<(String, String, String)>,
    /// The simulated host of each interface.
    pub(super) nodes: BTreeMap<End, String>,
    pub(super) switches: Vec<String>,
    pub(super) links: Vec<Link>,
    pub(super) mtu: u64,
    pub(super) differences: Vec<String>,
}

impl Graph {
    pub(super) fn of(fleet: &Fleet, context: &Context<'_>) -> Result<Graph, String> {
        let mut differences = Vec::new();
        let is_host = |end: &End| fleet.hosts.contains_key(&end.device);
        let mut links = Vec::new();
        for link in &context.links {
            if link.ends.iter().all(is_host) {
                let [a, b] = &link.ends;
                differences.push(format!("the link between the hosts {} and {} is left out", a.device, b.device));
            } else {
                let length = link.length.or(context.length);
                if length.is_none() {
                    differences.push(format!("links without a configured length have {LENGTH} m"));
                }
                links.push(Link { ends: link.ends.clone(), length: Some(length.unwrap_or(LENGTH)) });
            }
        }
        if links.is_empty() {
            return Err(
                "no links are known: add lldp.json to the devices, or name a file with all links (--links)".to_string()
            );
        }
        let ends: BTreeSet<&End> = links.iter().flat_map(|link| &link.ends).collect();
        let mut hosts = Vec::new();
        for (name, host) in &fleet.hosts {
            let linked: Vec<&String> =
                host.interfaces.keys().filter(|port| ends.contains(&End::new(name, port))).collect();
            if linked.is_empty() {
                differences.push(format!("no link of the host {name} is known, so that it is left out"));
            }
            for port in &linked {
                let node = if linked.len() == 1 { name.clone() } else { format!("{name}-{port}") };
                hosts.push((node, name.clone(), (*port).clone()));
            }
        }
        let linked: BTreeSet<&String> = ends.iter().map(|end| &end.device).collect();
        let mut switches = Vec::new();
        for name in fleet.switches.keys() {
            if linked.contains(name) {
                switches.push(name.clone());
            } else {
                differences.push(format!("no link of the switch {name} is known, so that it is left out"));
            }
        }
        if hosts.len() < 2 {
            return Err(format!("{} hosts have a known link; a scenario needs at least 2", hosts.len()));
        }
        let mtus = hosts.iter().filter_map(|(_, host, port)| fleet.hosts[host].interfaces[port].mtu);
        // The path MTU of RDMA is the largest power of two that fits, with its headers, into the MTU of the interfaces.
        let packet = mtus.min().unwrap_or(1_500).saturating_sub(HEADERS);
        let mtu = [4_096, 2_048, 1_024, 512].into_iter().find(|mtu| *mtu <= packet).unwrap_or(256);
        let nodes = hosts.iter().map(|(node, host, port)| (End::new(host, port), node.clone())).collect();
        let graph = Graph { hosts, nodes, switches, links, mtu, differences };
        graph.check_connected()?;
        Ok(graph)
    }

    /// The node of the scenario that has this port.
    pub(super) fn node(&self, end: &End) -> String {
        self.nodes.get(end).unwrap_or(&end.device).clone()
    }

    fn check_connected(&self) -> Result<(), String> {
        let mut neighbours: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for link in &self.links {
            let [a, b] = link.ends.each_ref().map(|end| self.node(end));
            neighbours.entry(a.clone()).or_default().push(b.clone());
            neighbours.entry(b).or_default().push(a);
        }
        let first = self.hosts[0].0.clone();
        let (mut reached, mut waiting) = (BTreeSet::from([first.clone()]), vec![first.clone()]);
        while let Some(node) = waiting.pop() {
            for next in neighbours.get(&node).into_iter().flatten() {
                if reached.insert(next.clone()) {
                    waiting.push(next.clone());
                }
            }
        }
        match self.hosts.iter().find(|(node, _, _)| !reached.contains(node)) {
            None => Ok(()),
            Some((node, _, _)) => Err(format!("no known links lead from the host {first} to the host {node}")),
        }
    }

    pub(super) fn interfaces<'f>(&self, fleet: &'f Fleet) -> impl Iterator<Item = &'f Interface> {
        self.hosts.iter().map(|(_, host, port)| &fleet.hosts[host].interfaces[port])
    }

    /// The ports of switches that have a link.
    pub(super) fn ports<'f>(&self, fleet: &'f Fleet) -> impl Iterator<Item = (&'f String, &'f Port)> {
        let ends = self.links.iter().flat_map(|link| &link.ends);
        ends.filter_map(|end| {
            let (name, switch) = fleet.switches.get_key_value(&end.device)?;
            Some((name, switch.ports.get(&end.port)?))
        })
    }
}
