//! Checks of the mappings of RDMA packets at each port of a switch (DSCP -> traffic class -> queue and priority group
//! -> PFC -> marking), of its PFC watchdog, and of flooding.

use super::{Context, is_lossless, pfc_priorities};
use crate::lint::checks::{
    CNP, DANGLING, DSCP_0, ECN, EGRESS, FLOODING, Finding, INTERNAL, MIXED, MULTICAST, PFC, PFC_QUEUE, PG, REWRITE,
    TRUST, UNCHECKED, UNREACHED, WATCHDOG, WATCHDOG_WEAK,
};
use crate::lint::settings::priorities_text;
use crate::lint::switch::{Port, Switch, Threshold};
use std::collections::BTreeSet;

pub(super) fn check(context: &Context<'_>, switch: &Switch, findings: &mut Vec<Finding>) {
    for (path, text) in &switch.dangling {
        findings.push(Finding::new(DANGLING, &switch.name, text.as_str()).path(path.as_str()));
    }
    if switch.used().next().is_none() {
        findings.push(Finding::new(
            UNCHECKED,
            &switch.name,
            "no port with an external link is administratively up, so that nothing was checked",
        ));
    }
    for (name, port) in &switch.ports {
        if let (Some(role), true) = (port.internal, port.up) {
            let text =
                format!("the port has the role {role}, and no link leads to a host or switch: it was not checked");
            findings.push(Finding::new(INTERNAL, &switch.name, text).at(name));
        }
    }
    for (name, port) in switch.used() {
        let mut found = Vec::new();
        for dscp in &context.dscps {
            of_dscp(switch, port, *dscp, &mut found);
        }
        if port.class_of(0).is_some_and(|class| is_lossless(port, class)) {
            let text =
                "packets that state no class (DSCP 0) are in a lossless class, so that any of them can cause pauses";
            found.push(Finding::new(DSCP_0, &switch.name, text).path("dscp_to_tc.0"));
        }
        if port.rewrites_dscp {
            found.push(
                Finding::new(REWRITE, &switch.name, "packets leave with another DSCP, which the next hop classifies")
                    .path("tc_to_dscp_map"),
            );
        }
        if let Some(dscp) = context.cnp_dscp {
            of_notifications(context, switch, port, dscp, &mut found);
        }
        unreached(switch, port, &mut found);
        watchdog(switch, port, &mut found);
        flooding(context, switch, port, &mut found);
        findings.extend(found.into_iter().map(|finding| finding.at(name)));
    }
}

/// Checks the mappings of one DSCP of RDMA packets.
fn of_dscp(switch: &Switch, port: &Port, dscp: u8, found: &mut Vec<Finding>) {
    let finding = |check, text: String| Finding::new(check, &switch.name, text);
    let Some(class) = port.class_of(dscp) else {
        let text =
            format!("the port has no dscp_to_tc_map, so that RDMA packets (DSCP {dscp}) have the traffic class 0");
        return found.push(finding(TRUST, text).path("dscp_to_tc"));
    };
    let (group, queue) = (port.group_of(class), port.queue_of(class));
    let chain = format!("DSCP {dscp} -> traffic class {class}");
    let profile = port.groups.get(&group).map(|group| group.profile.as_ref());
    let priorities = pfc_priorities(port, class);
    match profile {
        None if port.groups_are_complete && !priorities.is_empty() => {
            let text = format!(
                "{chain} -> priority group {group}, which has no buffer on this port, although the configuration has the groups that SONiC makes at run time: RDMA packets are lossy"
            );
            found.push(finding(PG, text).path(format!("pg.{group}")));
        }
        None if !priorities.is_empty() => {
            let text = format!(
                "{chain} -> priority group {group}, whose buffer is not in the configuration: SONiC makes it at run time, and `sonic-db-dump -n CONFIG_DB` has it"
            );
            found.push(finding(UNCHECKED, text).path(format!("pg.{group}")));
        }
        None => {
            let text =
                format!("{chain} -> priority group {group}, which has no buffer profile: RDMA packets are lossy");
            found.push(finding(PG, text).path(format!("pg.{group}")));
        }
        Some(Some(profile)) if !profile.lossless() => {
            let text = format!(
                "{chain} -> priority group {group}, whose profile `{}` has no headroom (xoff): RDMA packets are lossy",
                profile.name
            );
            found.push(finding(PG, text).path(format!("pg.{group}.headroom")));
        }
        Some(_) => {}
    }
    if priorities.is_empty() {
        let text = format!(
            "{chain} -> priority group {group}, for which PFC is off (pfc_enable: {})",
            priorities_text(&port.pfc)
        );
        let mut on = port.pfc.clone();
        on.extend(
            (0..8).filter(|priority| port.group_of_pfc(*priority) == group && port.queue_of_pfc(*priority) == queue),
        );
        let finding = finding(PFC, text).path("pfc");
        found.push(if on.len() == port.pfc.len() + 1 { finding.suggest("pfc", priorities_text(&on)) } else { finding });
    }
    for priority in priorities.iter().filter(|priority| port.queue_of_pfc(**priority) != queue) {
        let stopped = port.queue_of_pfc(*priority);
        let text = format!("{chain} -> queue {queue}, but a pause of priority {priority} stops the queue {stopped}");
        found.push(finding(PFC_QUEUE, text).path(format!("pfc_to_queue.{priority}")));
    }
    let path = format!("queue.{queue}.ecn");
    match port.queues.get(&queue).and_then(|queue| queue.wred.as_ref()) {
        None => found.push(
            finding(ECN, format!("{chain} -> queue {queue}, which has no WRED profile and marks nothing")).path(path),
        ),
        Some(wred) if !wred.ecn => {
            let text =
                format!("{chain} -> queue {queue}, whose WRED profile `{}` does not mark green packets", wred.name);
            found.push(finding(ECN, text).path(path.as_str()).suggest(path, "true"));
        }
        Some(wred) if wred.min.is_none() || wred.max.is_none() || wred.percent == 0 => {
            let text = format!(
                "{chain} -> queue {queue}, whose WRED profile `{}` has no green thresholds or probability",
                wred.name
            );
            found.push(finding(ECN, text).path(path));
        }
        Some(_) => {}
    }
    mixed(switch, port, class, dscp, found);
    egress(switch, port, queue, found);
}

/// Checks whether other traffic classes share the priority group or queue of RDMA packets.
fn mixed(switch: &Switch, port: &Port, class: u8, dscp: u8, found: &mut Vec<Finding>) {
    let classes: BTreeSet<u8> =
        (0..64).filter_map(|dscp| port.class_of(dscp)).filter(|other| *other != class).collect();
    let (group, queue) = (port.group_of(class), port.queue_of(class));
    let in_group: BTreeSet<u8> = classes.iter().copied().filter(|other| port.group_of(*other) == group).collect();
    let in_queue: BTreeSet<u8> = classes.iter().copied().filter(|other| port.queue_of(*other) == queue).collect();
    let list = |classes: &BTreeSet<u8>| classes.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    if !in_group.is_empty() {
        let text = format!(
            "the traffic classes {} share the priority group {group} of RDMA packets (DSCP {dscp}, class {class}), so that they cause pauses of RDMA",
            list(&in_group)
        );
        found.push(Finding::new(MIXED, &switch.name, text).path("tc_to_pg"));
    }
    if !in_queue.is_empty() {
        let text = format!(
            "the traffic classes {} share the queue {queue} of RDMA packets (DSCP {dscp}, class {class}), so that pauses of RDMA stop them",
            list(&in_queue)
        );
        found.push(Finding::new(MIXED, &switch.name, text).path("tc_to_queue"));
    }
}

/// Checks whether the egress queue may drop packets: the limit of a lossless queue must be at least the ingress pool.
fn egress(switch: &Switch, port: &Port, queue: u8, found: &mut Vec<Finding>) {
    let Some(profile) = port.queues.get(&queue).and_then(|queue| queue.buffer.as_ref()) else { return };
    let pools = switch.pools.values().filter(|pool| pool.ingress).filter_map(|pool| pool.size);
    if let (Some(Threshold::Static(max)), Some(pool)) = (profile.threshold, pools.max())
        && max + profile.size < pool
    {
        let text = format!(
            "the queue {queue} of RDMA packets may hold {max} B (profile `{}`), less than the ingress pool of {pool} B: it drops before the ingress pauses",
            profile.name
        );
        found.push(Finding::new(EGRESS, &switch.name, text).path(format!("queue.{queue}")));
    }
}

/// Checks that congestion notification packets do not wait behind RDMA packets of the senders that they slow down.
fn of_notifications(context: &Context<'_>, switch: &Switch, port: &Port, dscp: u8, found: &mut Vec<Finding>) {
    let Some(class) = port.class_of(dscp) else { return };
    let queue = port.queue_of(class);
    let of_rdma: BTreeSet<u8> =
        context.dscps.iter().filter_map(|dscp| port.class_of(*dscp)).map(|class| port.queue_of(class)).collect();
    if of_rdma.contains(&queue) {
        let text = format!("congestion notification packets (DSCP {dscp}) are in the queue {queue} of RDMA packets");
        return found.push(Finding::new(CNP, &switch.name, text).path(format!("dscp_to_tc.{dscp}")));
    }
    let scheduler = port.queues.get(&queue).and_then(|queue| queue.scheduler.as_ref());
    if scheduler.is_none_or(|scheduler| scheduler.kind != "strict") {
        let kind = scheduler.map_or("not configured", |scheduler| scheduler.kind.as_str());
        let text = format!(
            "the queue {queue} of congestion notification packets (DSCP {dscp}) has no strict priority (scheduler: {kind})"
        );
        found.push(Finding::new(CNP, &switch.name, text).path(format!("queue.{queue}.scheduler")));
    }
}

/// Finds lossless priority groups to which no packet is mapped: the map is wrong, or their headroom is wasted.
fn unreached(switch: &Switch, port: &Port, found: &mut Vec<Finding>) {
    let Some(map) = &port.dscp_to_tc else { return };
    for priority in &port.pfc {
        let index = port.group_of_pfc(*priority);
        let Some(group) = port.groups.get(&index) else { continue };
        if group.profile.as_ref().is_some_and(|profile| !profile.lossless()) {
            continue;
        }
        let reaches = |class: &u8| port.group_of(*class) == index;
        let text = if !(0..16).any(|class| reaches(&class)) {
            format!("no traffic class maps to group {index} (tc_to_pg_map)")
        } else if !port.reads_pcp && !map.values().any(reaches) {
            format!("no DSCP maps to a traffic class of group {index} (dscp_to_tc_map)")
        } else {
            continue;
        };
        let text = format!(
            "PFC is on in priority {priority} and priority group {index} has headroom, but {text}: a map is wrong, or the headroom is wasted"
        );
        found.push(Finding::new(UNREACHED, &switch.name, text).path(format!("pg.{index}")));
    }
}

fn watchdog(switch: &Switch, port: &Port, found: &mut Vec<Finding>) {
    if port.pfc.is_empty() {
        return;
    }
    let finding = |check, text: String| Finding::new(check, &switch.name, text);
    let Some(watchdog) = &port.watchdog else {
        let text = "PFC is on and there is no PFC watchdog (PFC_WD): a pause storm spreads from this port";
        return found.push(finding(WATCHDOG, text.to_string()).path("watchdog"));
    };
    if let Some(watched) = &port.watched {
        let unwatched: BTreeSet<u8> = port.pfc.difference(watched).copied().collect();
        if !unwatched.is_empty() {
            let text = format!(
                "the PFC watchdog does not watch the priorities {} (pfcwd_sw_enable)",
                priorities_text(&unwatched)
            );
            let all: BTreeSet<u8> = watched.union(&port.pfc).copied().collect();
            found.push(finding(WATCHDOG, text).path("watched").suggest("watched", priorities_text(&all)));
        }
    }
    let idle: BTreeSet<u8> = port.watched.iter().flatten().copied().filter(|one| !port.pfc.contains(one)).collect();
    if !idle.is_empty() {
        let text = format!(
            "the PFC watchdog watches the priorities {} (pfcwd_sw_enable), in which PFC is off (pfc_enable: {})",
            priorities_text(&idle),
            priorities_text(&port.pfc)
        );
        found.push(finding(WATCHDOG_WEAK, text).path("watched"));
    }
    if watchdog.action == "alert" {
        let text = "the PFC watchdog only reports a storm (action alert) and does not end it".to_string();
        found.push(finding(WATCHDOG_WEAK, text).path("watchdog.action").suggest("watchdog.action", "drop"));
    }
    if let (Some(detection), Some(poll)) = (watchdog.detection, switch.poll_interval)
        && detection < poll
    {
        let text = format!(
            "the PFC watchdog polls every {poll} ms, which is longer than its detection time of {detection} ms"
        );
        found.push(finding(WATCHDOG_WEAK, text).path("watchdog.detection"));
    }
}

/// Checks flooding: if the MAC table has no entry for the destination of a packet, the switch floods the packet to all
/// ports of the VLAN. In a lossless class, flooding can close a cycle of buffer dependencies (a deadlock).
fn flooding(context: &Context<'_>, switch: &Switch, port: &Port, found: &mut Vec<Finding>) {
    let lossless = context.dscps.iter().filter_map(|dscp| port.class_of(*dscp)).any(|class| is_lossless(port, class));
    let Some(vlan) = port.vlans.first().filter(|_| lossless) else { return };
    let missing = |kind: &str| !port.storm_control.contains(kind);
    if missing("unknown-unicast") {
        let text = format!(
            "the port is in {vlan} and has no storm control of unknown unicast: RDMA packets for a host that is down are flooded without loss, which can deadlock"
        );
        found.push(Finding::new(FLOODING, &switch.name, text).path("storm_control.unknown-unicast"));
    }
    if missing("unknown-multicast") {
        let text = format!(
            "the port is in {vlan} and has no storm control of unknown multicast, which can be in a lossless class"
        );
        found.push(Finding::new(MULTICAST, &switch.name, text).path("storm_control.unknown-multicast"));
    }
}
