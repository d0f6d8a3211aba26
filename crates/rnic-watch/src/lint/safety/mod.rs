//! Checks for dangerous configurations. They do not depend on the desired state.

mod buffers;
mod chain;
mod hosts;
mod links;

use super::checks::{Finding, UNCHECKED};
use super::desired::Rdma;
use super::fleet::{Fleet, Link};
use super::host::Host;
use super::neighbours::End;
use super::switch::{Port, Switch};
use rnic_model::buffers::reaction;
use rnic_transport::{BitRate, Time};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use buffers::Shared;

/// The inputs of the checks: the fleet, its links, and the attributes of RDMA packets.
pub(crate) struct Context<'c> {
    pub(crate) fleet: &'c Fleet,
    pub(crate) links: Vec<Link>,
    /// DSCPs of RDMA packets.
    pub(crate) dscps: BTreeSet<u8>,
    pub(crate) cnp_dscp: Option<u8>,
    /// Assumed length of links without a configured length, in metres.
    pub(crate) length: Option<u64>,
    /// Time until a peer reacts to a pause; `None`: the maximum of IEEE 802.3.
    pub(crate) reaction: Option<Time>,
    /// The configured length of the link at each port, if it is configured.
    lengths: BTreeMap<End, u64>,
    /// The role of a device.
    pub(crate) role: &'c dyn Fn(&str) -> Option<String>,
}

impl<'c> Context<'c> {
    pub(crate) fn new(fleet: &'c Fleet, rdma: &Rdma, role: &'c dyn Fn(&str) -> Option<String>) -> Context<'c> {
        let dscps = if rdma.dscp.is_empty() { dscps_in_use(fleet) } else { rdma.dscp.clone() };
        let links = fleet.links();
        let of_link = |link: &Link| link.ends.clone().map(|end| (end, link.length));
        let lengths = links.iter().flat_map(of_link).filter_map(|(end, length)| Some((end, length?))).collect();
        let Rdma { cnp_dscp, length, reaction, .. } = *rdma;
        Context { fleet, links, dscps, cnp_dscp, length, reaction, lengths, role }
    }

    /// Length of the link at a port in metres.
    pub(crate) fn length_at(&self, device: &str, port: &str, config: &Port) -> Option<u64> {
        self.lengths.get(&End::new(device, port)).copied().or(config.length).or(self.length)
    }

    /// Time until the peer of a port of this rate reacts to a pause.
    pub(crate) fn reaction_at(&self, rate: BitRate) -> Time {
        self.reaction.unwrap_or_else(|| reaction(rate))
    }

    /// All findings of the fleet.
    pub(crate) fn find(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.dscps.is_empty() {
            let text = "the DSCP of RDMA is unknown: no host sets one and no DSCP is in a lossless class; state it as `dscp` in [rdma]";
            findings.push(Finding::new(UNCHECKED, "", text));
        }
        for switch in self.fleet.switches.values() {
            chain::check(self, switch, &mut findings);
            buffers::check(self, switch, &mut findings);
        }
        buffers::compare_alphas(self, &mut findings);
        for host in self.fleet.hosts.values() {
            hosts::check(self, host, &mut findings);
        }
        links::check(self, &mut findings);
        findings
    }
}

/// The DSCPs of RDMA packets according to the hosts. If no host configures one, the DSCPs that a switch maps to a
/// lossless class.
fn dscps_in_use(fleet: &Fleet) -> BTreeSet<u8> {
    let interfaces = fleet.hosts.values().flat_map(|host: &Host| host.interfaces.values());
    let classes = interfaces.flat_map(|interface| [interface.roce_tos, interface.traffic_class.flatten()]);
    let of_hosts: BTreeSet<u8> = classes.flatten().map(|class| class >> 2).filter(|dscp| *dscp != 0).collect();
    if !of_hosts.is_empty() {
        return of_hosts;
    }
    let ports = fleet.switches.values().flat_map(|switch: &Switch| switch.used().map(|(_, port)| port));
    let mut dscps = BTreeSet::new();
    for port in ports {
        let lossless = |dscp: &u8| port.class_of(*dscp).is_some_and(|class| is_lossless(port, class));
        dscps.extend((1..64).filter(lossless));
    }
    dscps
}

/// The enabled PFC priorities that pause the priority group of a traffic class.
pub(crate) fn pfc_priorities(port: &Port, class: u8) -> BTreeSet<u8> {
    let group = port.group_of(class);
    port.pfc.iter().copied().filter(|priority| port.group_of_pfc(*priority) == group).collect()
}

/// Whether a traffic class is lossless at a port: PFC is enabled for its priority group, and the group has headroom.
/// Two kinds of groups count as having headroom: a group without a configured profile, because SONiC's buffer manager
/// computes its profile, and a group that SONiC may add at run time.
pub(crate) fn is_lossless(port: &Port, class: u8) -> bool {
    let buffer = match port.groups.get(&port.group_of(class)) {
        Some(group) => group.profile.as_ref().is_none_or(|profile| profile.lossless()),
        None => !port.groups_are_complete,
    };
    buffer && !pfc_priorities(port, class).is_empty()
}

#[cfg(test)]
mod tests;
