//! Checks that the two ends of each link have matching configurations.

use super::{Context, pfc_priorities};
use crate::lint::checks::{Finding, HOST_MTU, MTU, PFC_ENDS, PRIORITY, SPEED};
use crate::lint::neighbours::End;
use crate::lint::settings::priorities_text;
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
    host_mtus(context, findings);
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
