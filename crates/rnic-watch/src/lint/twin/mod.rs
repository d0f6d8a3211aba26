//! The twin of a fabric: a scenario for `rnic run` with the nodes, links and settings of the configurations.
//!
//! A scenario has one configuration for all its switches. If the switches of the fabric differ, the scenario has one
//! run for each configuration, so that a comparison of the runs shows the effect of the difference.

mod graph;
mod text;

use super::desired::Desired;
use super::fleet::Fleet;
use super::host::Interface;
use super::report::{FailOn, Report};
use super::safety::{Context, Shared, is_lossless};
use super::switch::{Queue, Switch, Threshold};
use graph::Graph;
use std::collections::BTreeSet;
use text::Text;

/// Assumed length of links in metres, if neither a configuration nor the desired state states a length.
const LENGTH: u64 = 100;
/// A scenario, and its differences from the fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Twin {
    /// The text of the scenario file.
    pub scenario: String,
    /// Features of the fabric that the scenario lacks, one sentence each. The comments of the scenario contain them,
    /// too.
    pub differences: Vec<String>,
}

/// The switch settings of a scenario.
#[derive(Clone, PartialEq, PartialOrd, Debug)]
struct Config {
    shared: u64,
    headroom: u64,
    /// alpha as an exponent, or a static threshold in bytes.
    alpha: Option<i8>,
    xoff: Option<u64>,
    xon_offset: Option<u64>,
    ecn: Option<(u64, u64, u64)>,
    /// Weights of the queues of RDMA packets and of CNPs; `None`: CNPs have strict priority.
    weights: Option<(u64, u64)>,
    /// Number of lossless priority groups of a port.
    lossless: u32,
}

impl Config {
    /// Whether the configurations are equal except for a difference of at most 5 % in their shared buffers. Such a
    /// difference occurs between switches that have different numbers of ports in use.
    fn is_like(&self, other: &Config) -> bool {
        let close = self.shared.abs_diff(other.shared) * 20 <= self.shared.max(other.shared);
        close && Config { shared: 0, ..self.clone() } == Config { shared: 0, ..other.clone() }
    }
}

/// Writes the scenario of a fleet.
///
/// # Errors
/// Returns one sentence if no links are known, or hosts or switches are not connected.
pub fn scenario(fleet: &Fleet, desired: Option<&Desired>, report: &Report) -> Result<Twin, String> {
    let none = Desired::default();
    let rdma = &desired.unwrap_or(&none).rdma;
    let context = Context::new(fleet, rdma, &|_| None);
    let graph = Graph::of(fleet, &context)?;
    let mut differences = graph.differences.clone();
    if context.dscps.len() > 1 {
        let dscps: Vec<String> = context.dscps.iter().map(u8::to_string).collect();
        differences.push(format!("RDMA has the DSCPs {}; the scenario has that of the lowest", dscps.join(", ")));
    }
    let dscp = context.dscps.first().copied().ok_or("the DSCP of RDMA is unknown; state it as `dscp` in [rdma]")?;
    let mut configs: Vec<(Config, Vec<String>)> = Vec::new();
    for name in &graph.switches {
        let config = config(&fleet.switches[name], dscp, context.cnp_dscp, &mut differences);
        match configs.iter_mut().find(|(known, _)| known.is_like(&config)) {
            Some((known, names)) => {
                if known.shared != config.shared {
                    differences.push(
                        "the shared buffers of the switches differ by less than 5 %; the scenario has the smallest"
                            .to_string(),
                    );
                    known.shared = known.shared.min(config.shared);
                }
                names.push(name.clone());
            }
            None => configs.push((config, vec![name.clone()])),
        }
    }
    configs.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    if configs.len() > 1 {
        differences.push(format!(
            "the switches have {} configurations; each run gives one of them to all switches",
            configs.len()
        ));
    }
    let pfc = is_pfc_on(fleet, &graph, dscp);
    if !pfc {
        differences.push("RDMA is not lossless at every port, so that the scenario has no PFC, and a queue may take the whole buffer".to_string());
    }
    let dcqcn = dcqcn(fleet, &graph, dscp, &mut differences);
    let separate = context.cnp_dscp.is_some_and(|cnp| is_separate(fleet, &graph, dscp, cnp));
    if separate {
        differences.push(
            "ACKs have the priority of CNPs, because the simulator has one priority for control packets".to_string(),
        );
    }
    if report.fails(FailOn::Danger) {
        differences.push("rnic lint reports differences or dangers for this fabric".to_string());
    }
    let mut said = BTreeSet::new();
    differences.retain(|difference| said.insert(difference.clone()));
    let scenario = Text { fleet, graph: &graph, configs: &configs, pfc, dcqcn, separate, differences: &differences };
    Ok(Twin { scenario: scenario.write(), differences })
}

/// Whether RDMA packets are lossless at every port with a link.
fn is_pfc_on(fleet: &Fleet, graph: &Graph, dscp: u8) -> bool {
    let switches =
        graph.ports(fleet).all(|(_, port)| port.class_of(dscp).is_some_and(|class| is_lossless(port, class)));
    let lossless = |interface: &Interface| {
        interface.qos.as_ref().is_none_or(|qos| qos.trusts_dscp() && qos.pfc.contains(&qos.priority_of(dscp)))
    };
    switches && graph.interfaces(fleet).all(lossless)
}

/// Whether CNPs and RDMA packets have different queues at every port with a link.
fn is_separate(fleet: &Fleet, graph: &Graph, dscp: u8, cnp: u8) -> bool {
    graph.ports(fleet).all(|(_, port)| {
        let queue = |dscp| port.class_of(dscp).map(|class| port.queue_of(class));
        queue(dscp) != queue(cnp)
    })
}

/// The configuration of a switch for RDMA packets with DSCP `dscp` and CNPs with DSCP `cnp`.
fn config(switch: &Switch, dscp: u8, cnp: Option<u8>, differences: &mut Vec<String>) -> Config {
    let shared = Shared::of(switch);
    let mut config = Config {
        shared: shared.as_ref().map_or(0, |shared| shared.bytes),
        headroom: 0,
        alpha: None,
        xoff: None,
        xon_offset: None,
        ecn: None,
        weights: None,
        lossless: shared.as_ref().map_or(1, |shared| shared.priorities),
    };
    if let Some(shared) = shared.filter(|shared| shared.headroom_pool > 0) {
        config.shared += shared.headroom_pool;
        differences.push(
            "groups of some switches share a headroom pool; in the scenario each group has its own headroom, which the pool and the shared buffer provide".to_string(),
        );
    }
    let (mut headrooms, mut alphas) = (BTreeSet::new(), BTreeSet::new());
    for (_, port) in switch.used() {
        let Some(class) = port.class_of(dscp) else { continue };
        let profile = port.groups.get(&port.group_of(class)).and_then(|group| group.profile.as_ref());
        if let Some(profile) = profile.filter(|profile| profile.lossless()) {
            headrooms.extend(profile.xoff);
            match profile.threshold {
                Some(Threshold::Dynamic(exponent)) => {
                    alphas.insert(exponent);
                    config.alpha = Some(config.alpha.map_or(exponent, |alpha| alpha.min(exponent)));
                }
                Some(Threshold::Static(bytes)) => config.xoff = Some(config.xoff.map_or(bytes, |xoff| xoff.min(bytes))),
                None => {}
            }
            config.xon_offset = profile.xon_offset.or(config.xon_offset);
        }
        let Some(queue) = port.queues.get(&port.queue_of(class)) else { continue };
        if let Some(wred) = queue.wred.as_ref().filter(|wred| wred.ecn)
            && let (Some(min), Some(max)) = (wred.min, wred.max)
        {
            config.ecn = Some((min, max, wred.percent));
        }
        let cnp = cnp.and_then(|cnp| port.queues.get(&port.queue_of(port.class_of(cnp)?)));
        let weight = |queue: &Queue| match &queue.scheduler {
            Some(scheduler) if scheduler.kind == "strict" => None,
            Some(scheduler) => Some(scheduler.weight),
            None => Some(1),
        };
        // A queue with strict priority has no weight. If it is the queue of CNPs, CNPs have strict priority in the
        // scenario. The simulator does not support strict priority of RDMA packets over CNPs, so their weight becomes
        // 1.
        config.weights = cnp.and_then(|cnp| Some((weight(queue).unwrap_or(1), weight(cnp)?)));
    }
    if headrooms.len() > 1 {
        differences.push(
            "ports have different headrooms; all ports of the scenario have the largest of their switch".to_string(),
        );
    }
    if alphas.len() > 1 {
        differences
            .push("ports of a switch have different alphas; in the scenario the switch has the smallest".to_string());
    }
    config.headroom = headrooms.last().copied().unwrap_or(0);
    config
}

/// The parameters of DCQCN that both hosts and the simulator have: (parameter, key, unit).
const DCQCN: [(&str, &str, &str); 9] = [
    ("roce_np/min_time_between_cnps", "cnp_interval", "us"),
    ("roce_rp/rpg_time_reset", "rate_timer", "us"),
    ("roce_rp/rpg_byte_reset", "byte_counter", "B"),
    ("roce_rp/rpg_threshold", "fast_recovery", ""),
    ("roce_rp/rpg_ai_rate", "r_ai", "Mbps"),
    ("roce_rp/rpg_hai_rate", "r_hai", "Mbps"),
    ("roce_rp/rpg_min_rate", "min_rate", "Mbps"),
    ("roce_rp/dce_tcp_rtt", "alpha_timer", "us"),
    ("roce_rp/rate_reduce_monitor_period", "rate_decrease_interval", "us"),
];

/// The value of the key `dcqcn` of the runs; `None` if DCQCN is off.
fn dcqcn(fleet: &Fleet, graph: &Graph, dscp: u8, differences: &mut Vec<String>) -> Option<String> {
    let on = |interface: &Interface| {
        let priority = interface.qos.as_ref().map(|qos| qos.priority_of(dscp));
        let enabled = |set: &Option<BTreeSet<u8>>| match (set, priority) {
            (Some(set), Some(priority)) => set.contains(&priority),
            _ => true,
        };
        enabled(&interface.np) && enabled(&interface.rp)
    };
    if !graph.interfaces(fleet).all(on) {
        differences.push("DCQCN is off on some hosts, so that the scenario has no congestion control".to_string());
        return None;
    }
    let mut keys = vec!["profile = \"connectx\"".to_string()];
    for (parameter, key, unit) in DCQCN {
        let values: BTreeSet<u64> =
            graph.interfaces(fleet).filter_map(|interface| interface.parameters.get(parameter)?.parse().ok()).collect();
        if values.len() > 1 {
            differences.push(format!("hosts have different values of `{parameter}`; the scenario has the smallest"));
        }
        if let Some(value) = values.first() {
            let quoted = if unit.is_empty() { value.to_string() } else { format!("\"{value} {unit}\"") };
            keys.push(format!("{key} = {quoted}"));
        }
    }
    Some(format!("{{ {} }}", keys.join(", ")))
}
