//! The data of the page, as JSON.

use crate::alarm::Metric;
use crate::inventory::Scope;
use crate::state::MeshState;
use crate::verdict::Mesh;
use crate::window::Window;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// Maximum number of pairs of hosts in one view; the worst come first.
const MAX_PAIRS: usize = 500;

fn rounded(value: Option<f64>) -> Value {
    value.map_or(Value::Null, |value| json!((value * 1e3).round() / 1e3))
}

/// The start page: heat map, scopes, alarms, findings, agents.
pub(super) fn overview(state: &MeshState, window: Window, metric: Metric) -> Value {
    let now = state.now();
    let (agents, waiting, discarded) = agent_counts(state, now);
    let mesh = state.mesh.lock();
    let tors: Vec<&str> = state.inventory.tors.iter().map(|tor| tor.name.as_str()).collect();
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
                "metric": alarm.metric.name(), "value": rounded(Some(alarm.value)), "raise": alarm.raise,
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
    json!({
        "window": window.name(), "metric": metric.name(), "tors": tors, "cells": cells, "scopes": scopes,
        "alarms": alarms, "ended": ended, "findings": mesh.findings(),
        "agents": {"up": agents, "known": state.inventory.hosts.len(), "waiting": waiting, "discarded": discarded},
        "probes": probes, "gone": gone, "storage": *state.storage_error.lock(),
        "refused": state.refused.load(Ordering::Relaxed), "note": state.note,
    })
}

/// Number of agents that are up, number of results that wait at the agents, and number of results that agents
/// discarded.
pub(super) fn agent_counts(state: &MeshState, now: u64) -> (usize, u64, u64) {
    let registry = state.registry.lock();
    let mut counts = (0, 0_u64, 0_u64);
    for host in 0..state.inventory.hosts.len() as u32 {
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
    let index = |name: &str| state.inventory.tors.iter().position(|tor| tor.name == name).map(|at| at as u32);
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
            let (a, b) = (&state.inventory.host(prober).name, &state.inventory.host(target).name);
            let row = json!({
                "prober": a, "target": b, "probes": probes, "lost": lost, "mean_us": rounded(mean),
                "max_us": rounded((answered > 0).then_some(max as f64 / 1e3)),
            });
            (loss * 1e9 + mean.unwrap_or(0.0), row)
        })
        .collect();
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown: Vec<Value> = pairs.iter().take(MAX_PAIRS).map(|(_, row)| row.clone()).collect();
    let tor = |index: u32| &state.inventory.tors[index as usize].name;
    Some(json!({"from": tor(from), "to": tor(to), "history": history, "pairs": shown, "all": pairs.len()}))
}

/// A pair of hosts: the last ten minutes, and the paths.
pub(super) fn pair(state: &MeshState, prober: &str, target: &str) -> Option<Value> {
    let (from, to) = (state.inventory.index(prober)?, state.inventory.index(target)?);
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
    let registry = state.registry.lock();
    let mesh = state.mesh.lock();
    let rows: Vec<Value> = (0..)
        .zip(&state.inventory.hosts)
        .map(|(index, host): (u32, _)| {
            let tor = &state.inventory.tor_of(index).name;
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
