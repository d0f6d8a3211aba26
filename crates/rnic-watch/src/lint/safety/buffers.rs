//! Headroom, alpha and thresholds of a switch, checked with the buffer model of `rnic model buffers`.

use super::Context;
use crate::lint::checks::{
    ALPHA, BUFFER, ECN_AFTER, ECN_WORST, Finding, HEADROOM, SHARED_HEADROOM, THRESHOLD, UNCHECKED, WRED_DROP,
};
use crate::lint::settings::bytes_text;
use crate::lint::switch::{Port, Profile, Switch, Threshold, Wred};
use rnic_model::buffers::{self as model, Given, PS_PER_METRE, kilobytes};
use rnic_transport::{BitRate, Bytes, Time};
use std::collections::BTreeMap;

/// The shared buffer of the lossless priority groups of a switch.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Shared {
    /// Name of the ingress pool.
    pub(crate) pool: String,
    /// Bytes that the groups share: the size of the pool minus the shared headroom pool and minus the bytes that groups
    /// reserve.
    pub(crate) bytes: u64,
    /// Size of the shared headroom pool in bytes; 0 if each group has its own headroom.
    pub(crate) headroom_pool: u64,
    /// Sum of the headrooms of all groups in bytes.
    pub(crate) headrooms: u64,
    /// Number of ports with a lossless group.
    pub(crate) ports: u32,
    /// Maximum number of lossless groups of a port.
    pub(crate) priorities: u32,
}

/// The lossless groups of a port with their profiles: (group, profile).
fn lossless(port: &Port) -> impl Iterator<Item = (u8, &Profile)> {
    port.groups
        .iter()
        .filter_map(|(index, group)| Some((*index, group.profile.as_ref()?)))
        .filter(|(_, profile)| profile.lossless())
}

impl Shared {
    /// The shared buffer of the pool that the lossless groups use; `None` if no lossless group is configured, or the
    /// pool or its size is not configured.
    pub(crate) fn of(switch: &Switch) -> Option<Shared> {
        let pool =
            switch.used().flat_map(|(_, port)| lossless(port)).map(|(_, profile)| profile.pool.clone()).next()?;
        let found = switch.pools.get(&pool)?;
        let mut shared = Shared {
            pool: pool.clone(),
            bytes: found.size?.saturating_sub(found.xoff),
            headroom_pool: found.xoff,
            headrooms: 0,
            ports: 0,
            priorities: 0,
        };
        for (_, port) in switch.used() {
            let groups = port.groups.values().filter_map(|group| group.profile.as_ref());
            for profile in groups.filter(|profile| profile.pool == pool) {
                let headroom = profile.xoff.unwrap_or(0);
                // If each group has its own headroom, the size of its profile includes the headroom.
                let reserved = if found.xoff == 0 { profile.size.max(headroom) } else { profile.size };
                shared.bytes = shared.bytes.saturating_sub(reserved);
                shared.headrooms += headroom;
            }
            let count = lossless(port).count() as u32;
            shared.ports += u32::from(count > 0);
            shared.priorities = shared.priorities.max(count);
        }
        Some(shared)
    }
}

/// The inputs of the check of a group. Groups with equal inputs are checked once.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Case {
    rate: BitRate,
    mtu: u64,
    length: u64,
    reaction: Time,
}

pub(super) fn check(context: &Context<'_>, switch: &Switch, findings: &mut Vec<Finding>) {
    let shared = Shared::of(switch);
    if let Some(shared) = &shared {
        of_pool(switch, shared, findings);
    }
    let mut judged = BTreeMap::new();
    for (name, port) in switch.used() {
        let computed: Vec<String> = port
            .groups
            .iter()
            .filter(|(_, group)| group.profile.as_ref().is_none_or(|profile| profile.computed))
            .map(|(index, _)| index.to_string())
            .collect();
        if !computed.is_empty() {
            let text = format!(
                "the switch computes the buffers of the priority groups {} itself, so that the configuration does not have their headroom",
                computed.join(", ")
            );
            findings.push(Finding::new(UNCHECKED, &switch.name, text).at(name));
        }
        for (index, profile) in lossless(port).filter(|(_, profile)| !profile.computed) {
            let length = context.length_at(&switch.name, name, port);
            let (Some(rate), Some(length)) = (port.speed, length) else {
                let text =
                    "the speed of the port or the length of its link is unknown, so that its headroom was not checked";
                findings.push(Finding::new(UNCHECKED, &switch.name, text).at(name));
                continue;
            };
            // SONiC's default MTU is 9100.
            let case = Case { rate, mtu: port.mtu.unwrap_or(9_100), length, reaction: context.reaction_at(rate) };
            let queue = queue_of_group(port, index);
            let wred = port.queues.get(&queue).and_then(|queue| queue.wred.as_ref());
            let wred = wred.filter(|wred| wred.ecn || wred.drops);
            let key = (case, profile.name.clone(), (index, queue), wred.map(|wred| wred.name.clone()));
            let found = judged
                .entry(key)
                .or_insert_with_key(|(case, _, at, _)| judge(switch, case, *at, profile, wred, shared.as_ref()));
            findings.extend(found.iter().cloned().map(|finding| finding.at(name)));
        }
    }
}

/// The queue of the traffic class that is mapped to a priority group.
fn queue_of_group(port: &Port, group: u8) -> u8 {
    let classes = (0..8).filter(|class| port.group_of(*class) == group);
    classes.map(|class| port.queue_of(class)).next_back().unwrap_or(group)
}

/// Findings about the pool as a whole.
fn of_pool(switch: &Switch, shared: &Shared, findings: &mut Vec<Finding>) {
    let finding = |check, text: String| Finding::new(check, &switch.name, text).path(format!("pool.{}", shared.pool));
    if shared.bytes == 0 {
        let text = format!(
            "the headrooms and reserved sizes of all groups fill the pool `{}`: nothing is shared",
            shared.pool
        );
        findings.push(finding(BUFFER, text));
    }
    if shared.headroom_pool > 0 && shared.headroom_pool < shared.headrooms {
        let text = format!(
            "{} ports share a headroom pool of {}, but all headrooms together need {} ({:.1} times as much): packets are lost if more ports than the pool is made for are paused at the same time",
            shared.ports,
            bytes_text(shared.headroom_pool),
            bytes_text(shared.headrooms),
            shared.headrooms as f64 / shared.headroom_pool as f64,
        );
        findings.push(finding(SHARED_HEADROOM, text));
    }
}

/// A switch of the buffer model. All its ports are like the port of `case`, and it has the shared bytes of the
/// configuration.
fn modelled(case: &Case, profile: &Profile, shared: &Shared, alpha: f64) -> model::Switch {
    let headroom = profile.xoff.unwrap_or(0);
    let queues = u64::from(shared.ports.max(1)) * u64::from(shared.priorities.max(1));
    model::Switch {
        ports: shared.ports.max(1),
        rate: case.rate,
        buffer: Bytes(shared.bytes.saturating_add(queues.saturating_mul(headroom))),
        priorities: shared.priorities.clamp(1, 8),
        mtu: Bytes(case.mtu),
        delay: Time::from_ps(case.length * PS_PER_METRE),
        reaction: case.reaction,
        xon_offset: Bytes(profile.xon_offset.unwrap_or(0)),
        beta: alpha * f64::from(shared.priorities.clamp(1, 8)),
    }
}

fn judge(
    switch: &Switch, case: &Case, (group, queue): (u8, u8), profile: &Profile, wred: Option<&Wred>,
    shared: Option<&Shared>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(shared) = shared else {
        let text = "the size of the ingress pool is unknown, so that thresholds were not checked";
        return vec![Finding::new(UNCHECKED, &switch.name, text).path(format!("pg.{group}"))];
    };
    let put = |findings: &mut Vec<Finding>, check, setting: &str, text: String| {
        findings.push(Finding::new(check, &switch.name, text).path(format!("pg.{group}.{setting}")));
    };
    let (t_pfc, alpha) = match profile.threshold {
        Some(Threshold::Static(bytes)) => (Some(Bytes(bytes)), 1.0),
        Some(Threshold::Dynamic(_)) => (None, profile.threshold.and_then(Threshold::alpha).unwrap_or(1.0)),
        None => {
            let text = format!("the profile `{}` has neither dynamic_th nor static_th", profile.name);
            put(&mut findings, BUFFER, "threshold", text);
            return findings;
        }
    };
    let model = modelled(case, profile, shared, alpha);
    if let Err(error) = model.check() {
        put(&mut findings, UNCHECKED, "", format!("the buffer model does not apply: {error}"));
        return findings;
    }
    let headroom = Bytes(profile.xoff.unwrap_or(0));
    if headroom < model.headroom() {
        let text = format!(
            "a headroom of {} (profile `{}`) loses packets: at {} over {} m with an MTU of {} B and a reaction time of {}, {} can still arrive after the switch decides to pause",
            bytes_text(headroom.0),
            profile.name,
            case.rate,
            case.length,
            case.mtu,
            case.reaction,
            bytes_text(model.headroom().0)
        );
        put(&mut findings, HEADROOM, "headroom", text);
    }
    if shared.bytes == 0 {
        return findings;
    }
    let frame = case.mtu + model::FRAMING;
    // The threshold of a group while only this group is congested: T = alpha (S - T).
    let alone = t_pfc.map_or(alpha * shared.bytes as f64 / (1.0 + alpha), |bytes| bytes.0 as f64);
    // The threshold while all k groups of all n ports are congested: T = alpha (S - n k T).
    let queues = f64::from(model.ports) * f64::from(model.priorities);
    let crowded = t_pfc.map_or(alpha * shared.bytes as f64 / (1.0 + queues * alpha), |bytes| bytes.0 as f64);
    if crowded < frame as f64 {
        let text = format!(
            "while all {} ports are congested, a group pauses from {} on (alpha {alpha}, {} shared): less than one packet, so that every queued packet causes a pause",
            model.ports,
            kilobytes(crowded),
            bytes_text(shared.bytes)
        );
        put(&mut findings, THRESHOLD, "alpha", text);
    }
    let given = Given { t_pfc, t_ecn: None, headroom: Some(headroom) };
    let base = model.judge(&given);
    for finding in base.iter().filter(|finding| finding.is_unsafe && !finding.text.starts_with("a headroom of")) {
        let setting = if t_pfc.is_some() { "threshold" } else { "alpha" };
        put(&mut findings, BUFFER, setting, format!("the buffer model: {}", finding.text));
    }
    let Some((wred, min)) = wred.and_then(|wred| Some((wred, wred.min?))) else { return findings };
    if !wred.ecn {
        // WRED of a queue that marks drops only packets that are not ECN-capable; RDMA packets are.
        if (min as f64) < alone {
            let text = format!(
                "WRED drops packets of the queue {queue} from {} on (profile `{}`), but a group that alone is congested pauses only from {} on: RDMA packets are lost before a pause",
                bytes_text(min),
                wred.name,
                kilobytes(alone)
            );
            let path = format!("queue.{queue}.wred_drop");
            findings.push(Finding::new(WRED_DROP, &switch.name, text).path(path));
        }
        return findings;
    }
    if min as f64 >= alone {
        let text = format!(
            "the queue marks from {} on (profile `{}`), but a group pauses from {} on even if nothing else is congested: the switch pauses senders before congestion control reduces their rates",
            bytes_text(min),
            wred.name,
            kilobytes(alone)
        );
        put(&mut findings, ECN_AFTER, "alpha", text);
    }
    for finding in model.judge(&Given { t_ecn: Some(Bytes(min)), ..given }) {
        if finding.is_unsafe && !base.contains(&finding) {
            put(&mut findings, ECN_WORST, "alpha", format!("the buffer model: {}", finding.text));
        }
    }
    findings
}

/// Finds switches whose alpha differs from the alpha of most switches of their role. For example, a new model of switch
/// with another default may pause far more often.
pub(super) fn compare_alphas(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut roles: BTreeMap<String, Vec<(&str, String)>> = BTreeMap::new();
    for (name, switch) in &context.fleet.switches {
        let mut alphas: Vec<String> = switch
            .used()
            .flat_map(|(_, port)| lossless(port))
            .filter_map(|(_, profile)| match profile.threshold? {
                Threshold::Dynamic(exponent) => Some(crate::lint::settings::alpha_text(exponent)),
                Threshold::Static(_) => None,
            })
            .collect();
        alphas.sort();
        alphas.dedup();
        if !alphas.is_empty() {
            roles.entry((context.role)(name).unwrap_or_default()).or_default().push((name, alphas.join(" and ")));
        }
    }
    for (role, switches) in roles {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, alpha) in &switches {
            *counts.entry(alpha).or_default() += 1;
        }
        let Some((usual, count)) = counts.iter().max_by_key(|(_, count)| **count).filter(|(_, count)| **count >= 2)
        else {
            continue;
        };
        for (name, alpha) in switches.iter().filter(|(_, alpha)| alpha != usual) {
            let of =
                if role.is_empty() { "other switches".to_string() } else { format!("switches of the role {role}") };
            let text = format!(
                "alpha is {alpha}, while it is {usual} on {count} {of}: a switch with a smaller alpha pauses its peers earlier and more often"
            );
            findings.push(Finding::new(ALPHA, name, text).path("alpha"));
        }
    }
}
