//! Checks that the two ends of each link have matching configurations.

use super::hosts::dscps_sent;
use super::{Context, is_lossless, pfc_priorities};
use crate::lint::checks::{Finding, HOST_MTU, LOSSY, MTU, PFC_ENDS, PRIORITY, ROLLOUT, SPEED};
use crate::lint::neighbours::End;
use crate::lint::settings::priorities_text;
use crate::lint::switch::Port;
use rnic_transport::BitRate;
use std::collections::{BTreeMap, BTreeSet};

/// The settings of one end of a link that the checks compare.
struct Side {
    is_host: bool,
    mtu: Option<u64>,
    speed: Option<BitRate>,
    /// Priorities with PFC; `None` if unknown.
    pfc: Option<BTreeSet<u8>>,
    /// The PFC priorities of each DSCP of RDMA packets; empty if the DSCP is lossy or unknown.
    priorities: BTreeMap<u8, BTreeSet<u8>>,
}

fn side(context: &Context<'_>, end: &End) -> Option<Side> {
    if let Some(switch) = context.fleet.switches.get(&end.device) {
        let port = switch.ports.get(&end.port)?;
        let of = |dscp: &u8| (*dscp, port.class_of(*dscp).map(|class| pfc_priorities(port, class)).unwrap_or_default());
        return Some(Side {
            is_host: false,
            mtu: port.mtu,
            speed: port.speed,
            pfc: Some(port.pfc.clone()),
            priorities: context.dscps.iter().map(of).collect(),
        });
    }
    let interface = context.fleet.hosts.get(&end.device)?.interfaces.get(&end.port)?;
    let of = |dscp: &u8| {
        let priority = interface.qos.as_ref().map(|qos| (qos.priority_of(*dscp), &qos.pfc));
        (
            *dscp,
            priority
                .filter(|(priority, pfc)| pfc.contains(priority))
                .map(|(priority, _)| priority)
                .into_iter()
                .collect(),
        )
    };
    Some(Side {
        is_host: true,
        mtu: interface.mtu,
        speed: interface.speed,
        pfc: interface.qos.as_ref().map(|qos| qos.pfc.clone()),
        priorities: context.dscps.iter().map(of).collect(),
    })
}

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for link in &context.links {
        let [a, b] = &link.ends;
        if let (Some(side_a), Some(side_b)) = (side(context, a), side(context, b)) {
            compare((a, &side_a), (b, &side_b), findings);
        }
    }
    lossy_classes(context, findings);
    rollout(context, findings);
    host_mtus(context, findings);
}

/// Finds hosts that send RDMA with a DSCP that is lossy at their switch. The DSCPs that the desired state assigns to
/// RDMA are left out, because the checks of the switch cover them.
fn lossy_classes(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for [a, b] in context.links.iter().map(|link| &link.ends) {
        for (host, switch) in [(a, b), (b, a)] {
            let interface = context.fleet.hosts.get(&host.device).and_then(|found| found.interfaces.get(&host.port));
            let port = context.fleet.switches.get(&switch.device).and_then(|found| found.ports.get(&switch.port));
            let (Some(interface), Some(port)) = (interface, port) else { continue };
            for (setting, class, dscp) in dscps_sent(interface).filter(|sent| !context.dscps.contains(&sent.2)) {
                let Some(tc) = port.class_of(dscp).filter(|tc| !is_lossless(port, *tc)) else { continue };
                let text = format!(
                    "`{setting}` is {class}: DSCP {dscp} -> traffic class {tc} at {} {}, which is lossy there",
                    switch.device, switch.port
                );
                findings.push(Finding::new(LOSSY, &host.device, text).at(&host.port).path(setting));
            }
        }
    }
}

/// Finds switches of which no port is lossless for RDMA, although a port of a switch above it is. RDMA is rolled out
/// from the hosts up: top-of-rack switches, then the podset, then the spine (RDMA over Commodity Ethernet at Scale).
fn rollout(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let tiers = tiers(context);
    let is_on = |name: &str| {
        let mut ports = context.fleet.switches[name].used().map(|(_, port)| port);
        let is_on = |port: &Port, dscp: &u8| port.class_of(*dscp).is_some_and(|class| is_lossless(port, class));
        ports.any(|port| context.dscps.iter().any(|dscp| is_on(port, dscp)))
    };
    let mut reported = BTreeSet::new();
    for [a, b] in context.links.iter().map(|link| &link.ends) {
        for (below, above) in [(a, b), (b, a)] {
            let (Some(low), Some(high)) = (tiers.get(below.device.as_str()), tiers.get(above.device.as_str())) else {
                continue;
            };
            if low >= high || is_on(&below.device) || !is_on(&above.device) || !reported.insert(&below.device) {
                continue;
            }
            let text = format!(
                "no port is lossless for RDMA here (tier {low}), while {} above has it on (tier {high}): a roll-out goes from the hosts up",
                above.device
            );
            findings.push(Finding::new(ROLLOUT, &below.device, text).path("pfc"));
        }
    }
}

/// The tier of each switch from which links lead to a host: the minimum number of links to a host, so that a
/// top-of-rack switch has tier 1.
fn tiers<'c>(context: &'c Context<'_>) -> BTreeMap<&'c str, usize> {
    let mut tiers: BTreeMap<&str, usize> = BTreeMap::new();
    let is_switch = |end: &End| context.fleet.switches.contains_key(&end.device);
    let mut edge: BTreeSet<&str> = context.fleet.hosts.keys().map(String::as_str).collect();
    for tier in 1.. {
        let mut next = BTreeSet::new();
        for [a, b] in context.links.iter().map(|link| &link.ends) {
            for (below, above) in [(a, b), (b, a)] {
                let above_name = above.device.as_str();
                if edge.contains(below.device.as_str()) && is_switch(above) && !tiers.contains_key(above_name) {
                    tiers.insert(above_name, tier);
                    next.insert(above_name);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        edge = next;
    }
    tiers
}

fn compare((a, side_a): (&End, &Side), (b, side_b): (&End, &Side), findings: &mut Vec<Finding>) {
    let mut put =
        |check, path: &str, text: String| findings.push(Finding::new(check, &a.device, text).at(&a.port).path(path));
    let peer = format!("{} {}", b.device, b.port);
    if let (Some(mtu_a), Some(mtu_b)) = (side_a.mtu, side_b.mtu) {
        // A host's MTU may be smaller than its switch's MTU, because another check compares the MTUs of all hosts.
        let allowed = match (side_a.is_host, side_b.is_host) {
            (true, false) => mtu_a <= mtu_b,
            (false, true) => mtu_b <= mtu_a,
            _ => mtu_a == mtu_b,
        };
        if !allowed {
            put(MTU, "mtu", format!("the MTU is {mtu_a} B here and {mtu_b} B at {peer}: larger packets are dropped"));
        }
    }
    if let (Some(speed_a), Some(speed_b)) = (side_a.speed, side_b.speed)
        && speed_a != speed_b
    {
        put(SPEED, "speed", format!("the speed is {speed_a} here and {speed_b} at {peer}"));
    }
    if let (Some(pfc_a), Some(pfc_b)) = (&side_a.pfc, &side_b.pfc)
        && pfc_a != pfc_b
    {
        let (here, there) = (priorities_text(pfc_a), priorities_text(pfc_b));
        put(
            PFC_ENDS,
            "pfc",
            format!(
                "PFC is on in the priorities {here} here and {there} at {peer}: one end ignores pauses of the other"
            ),
        );
    }
    for (dscp, here) in &side_a.priorities {
        let there = side_b.priorities.get(dscp).cloned().unwrap_or_default();
        if !here.is_empty() && !there.is_empty() && *here != there {
            let text = format!(
                "DSCP {dscp} has the priority {} here and {} at {peer}: pauses stop other packets than those that fill the buffer",
                priorities_text(here),
                priorities_text(&there)
            );
            put(PRIORITY, "pfc", text);
        }
    }
}

/// Finds host interfaces whose MTU differs from the MTU of most host interfaces: hosts with the larger MTU may send
/// packets that the others do not receive.
fn host_mtus(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut mtus: BTreeMap<u64, usize> = BTreeMap::new();
    let all = || {
        context.fleet.hosts.iter().flat_map(|(name, host)| {
            host.interfaces.iter().filter_map(move |(interface, config)| Some((name, interface, config.mtu?)))
        })
    };
    for (_, _, mtu) in all() {
        *mtus.entry(mtu).or_default() += 1;
    }
    let Some((usual, _)) = mtus.iter().max_by_key(|(mtu, count)| (**count, **mtu)) else { return };
    for (host, interface, mtu) in all().filter(|(_, _, mtu)| mtu != usual) {
        let text = format!("the MTU is {mtu} B, while most interfaces of hosts have {usual} B");
        findings.push(Finding::new(HOST_MTU, host, text).at(interface).path("mtu"));
    }
}
