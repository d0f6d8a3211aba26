//! Checks of hosts: priorities of sent packets, PFC, receive buffers, DCQCN.

use super::Context;
use crate::lint::checks::{
    APP, CNP, DCQCN, DROPS, DSCP_0, DSCP_APPS, ETS, Finding, GLOBAL_PAUSE, HEADROOM, LINK_LAYER, LOSSY, MIXED,
    NO_DEVICE, PFC, ROCE_MODE, ROCE_OFF, STORM, TOS, TRUST, UNCHECKED,
};
use crate::lint::host::{Host, Interface, Qos};
use crate::lint::settings::{bytes_text, priorities_text};
use rnic_model::buffers::{self as model, PS_PER_METRE};
use rnic_transport::{Bytes, Time};
use std::collections::BTreeSet;

pub(super) fn check(context: &Context<'_>, host: &Host, findings: &mut Vec<Finding>) {
    for (device, port, layer) in &host.other_links {
        let text = format!("the port {port} of the RDMA device {device} has the link layer {layer}: it has no RoCE");
        findings.push(Finding::new(LINK_LAYER, &host.name, text).path(format!("{device}.{port}.link_layer")));
    }
    for (name, interface) in &host.interfaces {
        let mut found = Vec::new();
        device(host, interface, &mut found);
        classes(context, host, interface, &mut found);
        match &interface.qos {
            Some(qos) => {
                of_qos(context, host, interface, qos, &mut found);
                by_port(context, host, interface, qos, &mut found);
            }
            None => {
                let text = "the output of mlnx_qos is missing, so that PFC, trust and buffers were not checked";
                found.push(Finding::new(UNCHECKED, &host.name, text));
            }
        }
        dcqcn(context, host, interface, &mut found);
        counters(host, interface, &mut found);
        findings.extend(found.into_iter().map(|finding| finding.at(name)));
    }
}

/// Checks the RDMA device of an interface, and the RoCE version of its connections.
fn device(host: &Host, interface: &Interface, found: &mut Vec<Finding>) {
    if interface.device.is_none() {
        let text = "no RDMA device in the dump (sys/class/infiniband) belongs to this interface: the driver is not loaded, or the files were not collected";
        found.push(Finding::new(NO_DEVICE, &host.name, text));
    }
    if interface.roce_mode == Some("v1") {
        let text = "default_roce_mode is RoCE v1: packets of rdma_cm connections have no IP header, so that switches give them no class by DSCP and do not route them";
        found.push(Finding::new(ROCE_MODE, &host.name, text).path("roce_mode").suggest("roce_mode", "v2"));
    }
}

/// The DSCPs that the configuration of an interface sets in RDMA packets: (setting, its value, DSCP). DSCP 0 is left
/// out.
pub(super) fn dscps_sent(interface: &Interface) -> impl Iterator<Item = (&'static str, u8, u8)> {
    let classes = [("roce_tos", interface.roce_tos), ("traffic_class", interface.traffic_class.flatten())];
    classes.into_iter().filter_map(|(setting, class)| Some((setting, class?, class? >> 2))).filter(|sent| sent.2 != 0)
}

/// Checks the DSCP of the packets that the host sends.
fn classes(context: &Context<'_>, host: &Host, interface: &Interface, found: &mut Vec<Finding>) {
    let finding = |check, text: String| Finding::new(check, &host.name, text);
    let wanted: Vec<String> = context.dscps.iter().map(u8::to_string).collect();
    let wanted = wanted.join(" or ");
    for (setting, class, dscp) in dscps_sent(interface) {
        if context.dscps.is_empty() || context.dscps.contains(&dscp) {
            continue;
        }
        let text = format!("`{setting}` is {class}, which is DSCP {dscp}; RDMA has DSCP {wanted}");
        let finding_tos = finding(TOS, text).path(setting);
        // With several DSCPs of RDMA, the operator chooses.
        found.push(match context.dscps.iter().collect::<Vec<_>>()[..] {
            [dscp] => finding_tos.suggest(setting, (dscp << 2 | class & 3).to_string()),
            _ => finding_tos,
        });
        if let Some(qos) = &interface.qos
            && !qos.pfc.contains(&qos.priority_of(dscp))
        {
            let priority = qos.priority_of(dscp);
            let text = format!("`{setting}` is {class}: DSCP {dscp} -> priority {priority}, in which PFC is off");
            found.push(finding(LOSSY, text).path(setting));
        }
    }
    let without = match (interface.roce_tos, interface.traffic_class) {
        (_, Some(Some(class))) if class >> 2 != 0 => return,
        (Some(tos), Some(_)) if tos >> 2 != 0 => {
            let text = "only connections of rdma_cm get a DSCP (default_roce_tos); libraries that connect without it use DSCP 0 unless they set one, because `traffic_class` of the device is not set";
            return found.push(finding(DSCP_APPS, text.to_string()).path("traffic_class"));
        }
        (Some(tos), None) if tos >> 2 != 0 => return,
        (None, None) => {
            let text = "neither default_roce_tos nor traffic_class is in the dump, so that the DSCP of sent packets is unknown";
            return found.push(finding(UNCHECKED, text.to_string()).path("roce_tos"));
        }
        (Some(_), _) => "default_roce_tos is 0 and `traffic_class` is not set",
        (None, _) => "`traffic_class` is not set, and default_roce_tos is unknown",
    };
    let priority = interface.qos.as_ref().map(|qos| qos.priority_of(0));
    let lossy = priority.is_none_or(|priority| interface.qos.as_ref().is_some_and(|qos| !qos.pfc.contains(&priority)));
    let fate = if lossy { "without PFC" } else { "in a lossless priority, with all other packets of DSCP 0" };
    let text = format!("{without}: RDMA packets of applications that set no class have DSCP 0 and travel {fate}");
    found.push(finding(DSCP_0, text).path("traffic_class"));
}

fn of_qos(context: &Context<'_>, host: &Host, interface: &Interface, qos: &Qos, found: &mut Vec<Finding>) {
    let finding = |check, text: String| Finding::new(check, &host.name, text);
    if !qos.trusts_dscp() {
        let trusted = if qos.trust == "none" { "no field" } else { qos.trust.as_str() };
        let text = format!(
            "the interface trusts {trusted} and not DSCPs: RDMA packets without a VLAN tag have the priority 0"
        );
        found.push(finding(TRUST, text).path("trust").suggest("trust", "dscp"));
    }
    let mut of_rdma = BTreeSet::new();
    for dscp in context.dscps.iter().filter(|_| qos.trusts_dscp()) {
        let priority = qos.priority_of(*dscp);
        of_rdma.insert(priority);
        if !qos.pfc.contains(&priority) {
            let text =
                format!("DSCP {dscp} -> priority {priority}, in which PFC is off (on: {})", priorities_text(&qos.pfc));
            let on: BTreeSet<u8> = qos.pfc.iter().copied().chain([priority]).collect();
            found.push(finding(PFC, text).path("pfc").suggest("pfc", priorities_text(&on)));
        }
    }
    if qos.pfc.contains(&qos.priority_of(0)) && !context.dscps.contains(&0) && !qos.pfc.is_empty() {
        let text = format!(
            "DSCP 0 -> priority {}, which has PFC: any packet that states no class is lossless",
            qos.priority_of(0)
        );
        found.push(finding(DSCP_0, text).path("dscp_to_priority.0"));
    }
    if interface.pause.is_some_and(|pause| pause.rx || pause.tx) && !qos.pfc.is_empty() {
        let text =
            "pauses of the whole link are on (ethtool -A) together with PFC: a pause of the link stops all priorities";
        found.push(finding(GLOBAL_PAUSE, text.to_string()).path("pause").suggest("pause", "off"));
    }
    for priority in of_rdma.iter().copied().filter(|priority| qos.pfc.contains(priority)) {
        buffer(context, host, interface, qos, priority, found);
        transmission(host, qos, priority, found);
    }
}

/// The entry for RoCE v2 among the priorities by destination port, and its destination port.
const ROCE_APP: &str = "udp:4791";

/// Checks whether the NIC has RoCE v2, and the priority of its packets by destination port.
fn by_port(context: &Context<'_>, host: &Host, interface: &Interface, qos: &Qos, found: &mut Vec<Finding>) {
    if interface.roce == Some(false) && !qos.pfc.is_empty() {
        let on = priorities_text(&qos.pfc);
        let text = format!(
            "PFC is on in the priorities {on}, and the NIC has RoCE v2 off: no GID has the type RoCE v2, or enable_roce is false"
        );
        found.push(Finding::new(ROCE_OFF, &host.name, text).path("roce"));
    }
    let priorities = interface.app.as_ref().and_then(|app| app.get(ROCE_APP)).into_iter().flatten();
    let of_dscps: BTreeSet<u8> = context.dscps.iter().map(|dscp| qos.priority_of(*dscp)).collect();
    for priority in priorities {
        let text = if !qos.pfc.contains(priority) {
            let on = priorities_text(&qos.pfc);
            format!("UDP port 4791 (RoCE v2) -> priority {priority}, in which PFC is off (on: {on})")
        } else if qos.trusts_dscp() && !of_dscps.is_empty() && !of_dscps.contains(priority) {
            let others = priorities_text(&of_dscps);
            format!(
                "UDP port 4791 (RoCE v2) -> priority {priority}, while the DSCP of RDMA has priority {others}: packets of the same connection can travel in two classes"
            )
        } else {
            continue;
        };
        let finding = Finding::new(APP, &host.name, text).path(format!("app.{ROCE_APP}"));
        // With several priorities of RDMA, the operator chooses.
        found.push(match of_dscps.iter().collect::<Vec<_>>()[..] {
            [wanted] if qos.pfc.contains(wanted) => finding.suggest(format!("app.{ROCE_APP}"), wanted.to_string()),
            _ => finding,
        });
    }
}

/// Checks the receive buffer of a lossless priority.
fn buffer(
    context: &Context<'_>, host: &Host, interface: &Interface, qos: &Qos, priority: u8, found: &mut Vec<Finding>,
) {
    let (Some(buffers), Some(map)) = (&qos.buffers, &qos.priority_to_buffer) else { return };
    let Some(index) = map.get(usize::from(priority)).copied() else { return };
    let size = buffers.get(usize::from(index)).copied().unwrap_or(0);
    let path = format!("priority_to_buffer.{priority}");
    let others: BTreeSet<u8> =
        (0..8).filter(|other| map[usize::from(*other)] == index && !qos.pfc.contains(other)).collect();
    if !others.is_empty() {
        let text = format!(
            "the lossy priorities {} share the receive buffer {index} of priority {priority}",
            priorities_text(&others)
        );
        found.push(Finding::new(MIXED, &host.name, text).path(path));
    }
    let length = qos.length.or(context.length);
    let (Some(rate), Some(length), Some(mtu)) = (interface.speed, length, interface.mtu) else { return };
    let needed = model::Switch {
        rate,
        mtu: Bytes(mtu),
        delay: Time::from_ps(length.saturating_mul(PS_PER_METRE)),
        reaction: context.reaction_at(rate),
        ..model::Switch::published()
    }
    .headroom();
    if size < needed.0 {
        let text = format!(
            "the receive buffer {index} of priority {priority} has {}: at {rate} over {length} m with an MTU of {mtu} B, {} can still arrive after the NIC decides to pause",
            bytes_text(size),
            bytes_text(needed.0)
        );
        found.push(Finding::new(HEADROOM, &host.name, text).path(format!("buffer.{index}")));
    }
}

/// Checks the transmission class of a lossless priority.
fn transmission(host: &Host, qos: &Qos, priority: u8, found: &mut Vec<Finding>) {
    let Some((index, class)) = qos.classes.iter().find(|(_, class)| class.priorities.contains(&priority)) else {
        return;
    };
    let finding =
        |text: String, setting: &str| Finding::new(ETS, &host.name, text).path(format!("class.{index}.{setting}"));
    let others: BTreeSet<u8> = class.priorities.iter().copied().filter(|other| *other != priority).collect();
    if !others.is_empty() {
        let text = format!(
            "priority {priority} shares the transmission class {index} with the priorities {}",
            priorities_text(&others)
        );
        found.push(finding(text, "priorities"));
    }
    if class.algorithm == "ets" && class.bandwidth == Some(0) {
        let text = format!("the transmission class {index} of priority {priority} has 0 % of the bandwidth");
        found.push(finding(text, "bandwidth"));
    }
}

fn dcqcn(context: &Context<'_>, host: &Host, interface: &Interface, found: &mut Vec<Finding>) {
    let Some(qos) = &interface.qos else { return };
    let priorities: BTreeSet<u8> = context.dscps.iter().map(|dscp| qos.priority_of(*dscp)).collect();
    for (point, what, enabled) in
        [("ecn_np", "notification point", &interface.np), ("ecn_rp", "reaction point", &interface.rp)]
    {
        let Some(enabled) = enabled else { continue };
        for priority in priorities.iter().filter(|priority| !enabled.contains(priority)) {
            let text = format!("the {what} of DCQCN is off in priority {priority}: senders do not slow down");
            let on: BTreeSet<u8> = enabled.iter().copied().chain([*priority]).collect();
            found.push(Finding::new(DCQCN, &host.name, text).path(point).suggest(point, priorities_text(&on)));
        }
    }
    let cnp = interface.parameters.get("roce_np/cnp_dscp").and_then(|text| text.parse::<u8>().ok());
    if let Some(cnp) = cnp {
        if context.dscps.contains(&cnp) {
            let text = format!("congestion notification packets have the DSCP {cnp} of RDMA packets");
            found.push(Finding::new(CNP, &host.name, text).path("dcqcn.roce_np/cnp_dscp"));
        }
        if let Some(wanted) = context.cnp_dscp.filter(|wanted| *wanted != cnp) {
            let text = format!("congestion notification packets have DSCP {cnp}; the fleet's have DSCP {wanted}");
            let setting = "dcqcn.roce_np/cnp_dscp";
            found.push(Finding::new(CNP, &host.name, text).path(setting).suggest(setting, wanted.to_string()));
        }
    }
}

/// Checks counters of failures that have already occurred.
fn counters(host: &Host, interface: &Interface, found: &mut Vec<Finding>) {
    let lossless = interface.qos.as_ref().map(|qos| qos.pfc.clone()).unwrap_or_default();
    for priority in lossless {
        for name in ["buf_discard", "cong_discard", "discards"] {
            let name = format!("rx_prio{priority}_{name}");
            if let Some(count) = interface.counters.get(&name).filter(|count| **count > 0) {
                let text = format!(
                    "{name} is {count}: packets of the lossless priority {priority} were dropped since the counter began"
                );
                found.push(Finding::new(DROPS, &host.name, text).path(name));
            }
        }
    }
    for name in ["tx_pause_storm_warning_events", "tx_pause_storm_error_events"] {
        if let Some(count) = interface.counters.get(name).filter(|count| **count > 0) {
            let text = format!("{name} is {count}: the receive pipeline of the NIC was stuck while it sent pauses");
            found.push(Finding::new(STORM, &host.name, text).path(name));
        }
    }
}
