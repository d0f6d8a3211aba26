//! The data of the page, as JSON.

use crate::alarm::{About, Metric, Rule};
use crate::inventory::Scope;
use crate::state::MeshState;
use crate::verdict::{Finding, Mesh, Symptom};
use crate::window::Window;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// Maximum number of pairs of hosts in one view; the worst come first.
const MAX_PAIRS: usize = 500;
/// Maximum number of suspects in one view.
const MAX_SUSPECTS: usize = 100;

fn rounded(value: Option<f64>) -> Value {
    value.map_or(Value::Null, |value| json!((value * 1e3).round() / 1e3))
}

/// Formats a value with at least four significant digits, because a share of lost probes can be small.
fn precise(value: f64) -> Value {
    if value.abs() < 1.0 { json!((value * 1e6).round() / 1e6) } else { rounded(Some(value)) }
}

/// How a state is shown: the worst of what is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Good,
    Warning,
    Fault,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Level::Good => "good",
            Level::Warning => "warning",
            Level::Fault => "fault",
        }
    }
}

/// The overall state in one sentence, and the age in ms of its oldest cause; `None` if the state is good.
fn overall(state: &MeshState, mesh: &Mesh, now: u64) -> (Level, String, Option<u64>) {
    let findings = mesh.findings();
    let is_fault = |finding: &&Finding| finding.symptom != Symptom::SlowHost;
    let age = |since: u64| now.saturating_sub(since);
    let since = |findings: &mut dyn Iterator<Item = &Finding>| {
        findings.filter_map(|finding| mesh.suspects().since_ms(finding)).min().map(age)
    };
    let more = |count: usize| if count > 1 { format!(", and {} more", count - 1) } else { String::new() };
    let mut faults = findings.iter().filter(is_fault);
    if let Some(first) = faults.next() {
        let text = format!("{}{}", sentence(first), more(1 + faults.count()));
        return (Level::Fault, text, since(&mut findings.iter().filter(is_fault)));
    }
    if state.storage_error.lock().is_some() {
        return (Level::Fault, "Results are not stored".to_string(), None);
    }
    let mut on = mesh.alarms().on().filter(|alarm| alarm.recovering_ms.is_none());
    if let Some(first) = on.next() {
        let text = format!("Alarm: {} of {}{}", first.rule, first.about, more(1 + on.count()));
        let since = mesh.alarms().on().map(|alarm| alarm.since_ms).min();
        return (Level::Warning, text, since.map(age));
    }
    if let Some(first) = findings.first() {
        return (Level::Warning, format!("{}{}", sentence(first), more(findings.len())), since(&mut findings.iter()));
    }
    if let Some(first) = mesh.alarms().on().next() {
        let since = first.recovering_ms.map(age);
        return (Level::Warning, format!("Recovering: {} of {}", first.rule, first.about), since);
    }
    if mesh.counts().0 == 0 {
        return (Level::Warning, "No results yet".to_string(), None);
    }
    (Level::Good, "No faults found".to_string(), None)
}

/// What a finding says, as a sentence without its end.
fn sentence(finding: &Finding) -> String {
    let parts = finding.parts.join(" or ");
    let Finding { probes, bad, score, .. } = finding;
    match finding.symptom {
        Symptom::Loss => format!("Loss: {parts} ({bad} of {probes} probes through it were lost)"),
        Symptom::Delay => format!("Delay: {parts} ({bad} of {probes} probes through it were slow)"),
        Symptom::SlowHost => format!("Slow host: {parts} (its software takes {score:.0} times as long as the median)"),
        Symptom::Silent if *probes > 1 => format!("Silent: {parts} (all {probes} agents below it send nothing)"),
        Symptom::Silent => format!("Silent: {parts} (its agent sends nothing)"),
    }
}

/// The suspects of the latest evaluation.
fn suspects(mesh: &Mesh, now: u64) -> Vec<Value> {
    let row = |finding: &Finding| {
        let since = mesh.suspects().since_ms(finding).map(|since| now.saturating_sub(since));
        let tors = finding.worst.as_ref().and_then(|ends| {
            let tor = |name: &String| Some(mesh.inventory().tor_of(mesh.inventory().index(name)?).name.clone());
            Some([tor(&ends[0])?, tor(&ends[1])?])
        });
        json!({
            "symptom": finding.symptom, "parts": finding.parts, "probes": finding.probes, "bad": finding.bad,
            "score": rounded(Some(finding.score)), "text": sentence(finding), "age_ms": since,
            "worst": finding.worst, "tors": tors,
        })
    };
    mesh.findings().iter().take(MAX_SUSPECTS).map(row).collect()
}

/// The latest suspects of the past, the newest first.
fn past_suspects(mesh: &Mesh, now: u64) -> Vec<Value> {
    let past: Vec<_> = mesh.suspects().past(mesh.findings()).collect();
    let row = |past: &&crate::suspects::Suspected| {
        json!({
            "text": sentence(&past.finding), "age_ms": now.saturating_sub(past.since_ms),
            "ended_ms": now.saturating_sub(past.last_ms),
        })
    };
    past.iter().rev().take(50).map(row).collect()
}

/// The values of a metric at which a cell of the matrix begins to be shown as worse: the bounds of the alarm rules for
/// pairs of ToR switches, or the bounds of the default rules. The scale does not depend on the other cells, so that a
/// fault of the whole network is visible.
fn scale(rules: &[Rule], metric: Metric) -> [f64; 4] {
    let of = |rules: &[Rule]| {
        let fits = |rule: &&Rule| {
            rule.about == About::TorPair
                && (rule.metric == metric || metric != Metric::Loss)
                && (rule.metric == Metric::Loss) == (metric == Metric::Loss)
        };
        rules.iter().filter(fits).map(|rule| rule.raise).fold(f64::NAN, f64::max)
    };
    let own = of(rules);
    let bound = if own.is_finite() { own } else { of(&Rule::defaults()) };
    match metric {
        Metric::Loss => [f64::MIN_POSITIVE, bound / 50.0, bound / 5.0, bound],
        _ => [bound / 25.0, bound / 10.0, bound / 3.0, bound],
    }
}

/// The start page: heat map, scopes, alarms, findings, agents.
pub(super) fn overview(state: &MeshState, window: Window, metric: Metric) -> Value {
    let now = state.now();
    let inventory = state.inventory();
    let (agents, waiting, discarded) = agent_counts(state, now);
    let mesh = state.mesh.lock();
    let tors: Vec<&str> = inventory.tors.iter().map(|tor| tor.name.as_str()).collect();
    let cells = mesh.tor_pairs().filter_map(|((from, to), series, _)| {
        let cell = series.over(window, now);
        (cell.probes > 0).then(|| json!([from, to, rounded(metric.of(&cell)), cell.probes, cell.lost]))
    });
    let cells: Vec<Value> = cells.collect();
    let scopes: Vec<Value> = Scope::ALL
        .into_iter()
        .map(|scope| {
            let cell = mesh.scope(scope, window, now);
            json!({
                "scope": scope.name(), "probes": cell.probes, "lost": cell.lost,
                "p50_us": rounded(cell.quantile_us(0.5)), "p99_us": rounded(cell.quantile_us(0.99)),
                "p999_us": rounded(cell.quantile_us(0.999)),
            })
        })
        .collect();
    let alarms: Vec<Value> = mesh
        .alarms()
        .on()
        .map(|alarm| {
            json!({
                "rule": alarm.rule, "about": alarm.about, "age_ms": now.saturating_sub(alarm.since_ms),
                "metric": alarm.metric.name(), "value": precise(alarm.value), "raise": alarm.raise,
                "recovering_ms": alarm.recovering_ms.map(|since| now.saturating_sub(since)),
            })
        })
        .collect();
    let ended: Vec<Value> = mesh
        .alarms()
        .ended()
        .iter()
        .rev()
        .take(20)
        .map(|(alarm, end)| {
            json!({
                "rule": alarm.rule, "about": alarm.about, "age_ms": now.saturating_sub(alarm.since_ms),
                "ended_ms": now.saturating_sub(*end),
            })
        })
        .collect();
    let (probes, gone) = mesh.counts();
    let (level, text, age) = overall(state, &mesh, now);
    let verdict = state.evaluated.load(Ordering::Relaxed);
    json!({
        "name": inventory.settings.name, "state": {"level": level.name(), "text": text, "age_ms": age},
        "verdict_ms": (verdict > 0).then(|| now.saturating_sub(verdict)), "scale": scale(&inventory.rules, metric),
        "past": past_suspects(&mesh, now), "suspects_all": mesh.findings().len(),
        "window": window.name(), "metric": metric.name(), "tors": tors, "cells": cells, "scopes": scopes,
        "alarms": alarms, "ended": ended, "findings": suspects(&mesh, now),
        "agents": {"up": agents, "known": inventory.hosts.len(), "waiting": waiting, "discarded": discarded},
        "probes": probes, "gone": gone, "storage": *state.storage_error.lock(),
        "refused": state.refused.load(Ordering::Relaxed), "note": state.note,
    })
}

/// Number of agents that are up, number of results that wait at the agents, and number of results that agents
/// discarded.
pub(super) fn agent_counts(state: &MeshState, now: u64) -> (usize, u64, u64) {
    let hosts = state.inventory().hosts.len();
    let registry = state.registry.lock();
    let mut counts = (0, 0_u64, 0_u64);
    for host in 0..hosts as u32 {
        let Some(agent) = registry.agent(host) else { continue };
        counts.0 += usize::from(registry.is_up(host, agent.registration.incarnation, now));
        // An agent may report any number.
        counts.1 = counts.1.saturating_add(agent.registration.health.waiting);
        counts.2 = counts.2.saturating_add(agent.registration.health.discarded);
    }
    counts
}

/// A pair of ToR switches: its time series, and its pairs of hosts, the worst first.
pub(super) fn tor_pair(state: &MeshState, from: &str, to: &str) -> Option<Value> {
    let inventory = state.inventory();
    let index = |name: &str| inventory.tors.iter().position(|tor| tor.name == name).map(|at| at as u32);
    let (from, to) = (index(from)?, index(to)?);
    let now = state.now();
    let mesh = state.mesh.lock();
    let history: Vec<Value> = mesh
        .tor_pair(from, to)
        .into_iter()
        .flat_map(|series| series.history(now))
        .map(|(age, length, cell)| {
            json!({
                "age_ms": age, "length_ms": length, "probes": cell.probes, "lost": cell.lost,
                "p50_us": rounded(cell.quantile_us(0.5)), "p99_us": rounded(cell.quantile_us(0.99)),
            })
        })
        .collect();
    let mut pairs: Vec<(f64, Value)> = mesh
        .pairs_of(from, to)
        .map(|((prober, target), pair)| {
            let (mut probes, mut lost, mut answered, mut sum, mut max) = (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
            for minute in &pair.minutes {
                probes += u64::from(minute.probes);
                lost += u64::from(minute.lost);
                answered += u64::from(minute.answered);
                sum = sum.saturating_add(minute.sum_ns);
                max = max.max(minute.max_ns);
            }
            let mean = (answered > 0).then(|| sum as f64 / answered as f64 / 1e3);
            let loss = if probes > 0 { lost as f64 / probes as f64 } else { 0.0 };
            let (a, b) = (&inventory.host(prober).name, &inventory.host(target).name);
            let row = json!({
                "prober": a, "target": b, "probes": probes, "lost": lost, "mean_us": rounded(mean),
                "max_us": rounded((answered > 0).then_some(max as f64 / 1e3)),
            });
            (loss * 1e9 + mean.unwrap_or(0.0), row)
        })
        .collect();
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown: Vec<Value> = pairs.iter().take(MAX_PAIRS).map(|(_, row)| row.clone()).collect();
    let tor = |index: u32| &inventory.tors[index as usize].name;
    Some(json!({"from": tor(from), "to": tor(to), "history": history, "pairs": shown, "all": pairs.len()}))
}

/// A pair of hosts: the last ten minutes, and the paths.
pub(super) fn pair(state: &MeshState, prober: &str, target: &str) -> Option<Value> {
    let inventory = state.inventory();
    let (from, to) = (inventory.index(prober)?, inventory.index(target)?);
    let now = state.now();
    let mesh = state.mesh.lock();
    let pair = mesh.pair(from, to)?;
    let minutes: Vec<Value> = pair
        .minutes
        .iter()
        .map(|minute| {
            let mean = (minute.answered > 0).then(|| minute.sum_ns as f64 / f64::from(minute.answered) / 1e3);
            json!({
                "age_ms": now.saturating_sub(minute.slot * 60_000), "probes": minute.probes, "lost": minute.lost,
                "mean_us": rounded(mean), "max_us": rounded(mean.map(|_| minute.max_ns as f64 / 1e3)),
            })
        })
        .collect();
    // Paths that have not been in use since a rotation are left out.
    let latest = pair.paths.iter().map(|path| path.last_slot()).max().unwrap_or(0);
    let paths: Vec<Value> = pair
        .paths
        .iter()
        .filter(|path| path.last_slot() + 4 >= latest)
        .map(|path| {
            let counts = path.counts(now);
            let back =
                mesh.pair(to, from).and_then(|back| back.path(path.number)).map(|back| hops(&mesh, mesh.hops(back)));
            json!({
                "path": path.number, "source_port": path.source_port, "probes": counts.probes, "lost": counts.lost,
                "slow": counts.slow, "hops": hops(&mesh, mesh.hops(path)), "back": back,
            })
        })
        .collect();
    Some(json!({"prober": prober, "target": target, "minutes": minutes, "paths": paths}))
}

fn hops(mesh: &Mesh, hops: &[Option<u32>]) -> Vec<String> {
    let name = |hop: &Option<u32>| {
        hop.map_or("?".to_string(), |part| {
            let name = mesh.part_name(part);
            name.strip_prefix("switch ").unwrap_or(name).to_string()
        })
    };
    hops.iter().map(name).collect()
}

/// The agents and their counters.
pub(super) fn agents(state: &MeshState) -> Value {
    let now = state.now();
    let inventory = state.inventory();
    let registry = state.registry.lock();
    let mesh = state.mesh.lock();
    let rows: Vec<Value> = (0..)
        .zip(&inventory.hosts)
        .map(|(index, host): (u32, _)| {
            let tor = &inventory.tor_of(index).name;
            let Some(agent) = registry.agent(index) else {
                return json!({"host": host.name, "tor": tor, "state": "never seen"});
            };
            let up = registry.is_up(index, agent.registration.incarnation, now);
            let [prober, responder] = mesh.software_us(index, now);
            json!({
                "host": host.name, "tor": tor, "state": if up { "up" } else { "silent" },
                "seen_ms": now.saturating_sub(agent.seen_ms), "address": agent.registration.address.addr.to_string(),
                "health": agent.registration.health, "peers": registry.peers(index).len(),
                "prober_us": rounded(prober), "responder_us": rounded(responder),
            })
        })
        .collect();
    json!(rows)
}
