//! The metrics of a mesh, with the names of R-Pingmesh.

use super::views;
use crate::credentials::CONTROLLER;
use crate::inventory::Scope;
use crate::state::MeshState;
use crate::window::{Cell, Window};
use rnic_metrics::exposition::{Kind, Metrics};
use std::sync::atomic::Ordering;

/// Maximum number of pairs of ToR switches with separate metrics. A mesh with more pairs has metrics only for its
/// scopes, so that it does not overload the time-series database.
pub(super) const MAX_TOR_PAIRS: usize = 10_000;

/// Maximum number of suspects with metrics.
const MAX_SUSPECTS: usize = 1_000;

const QUANTILES: [(&str, f64); 3] = [("0.5", 0.5), ("0.99", 0.99), ("0.999", 0.999)];

/// All metrics.
pub(super) fn metrics(state: &MeshState) -> Metrics {
    let now = state.now();
    let mut metrics = Metrics::new();
    let m = &mut metrics;
    let inventory = state.inventory();
    let (up, waiting, discarded) = views::agent_counts(state, now);
    let mesh = state.mesh.lock();
    for scope in Scope::ALL {
        let cell = mesh.scope(scope, Window::Minute, now);
        let labels = [("scope", scope.name())];
        quantiles(
            m,
            "rpingmesh_scope_network_rtt_ns",
            "Round-trip time of the network by scope, last minute.",
            &labels,
            &cell,
        );
        if cell.probes > 0 {
            m.add(
                "rpingmesh_scope_loss_ratio",
                Kind::Gauge,
                "Share of lost probes by scope, last minute.",
                &labels,
                cell.loss(),
            );
        }
    }
    let pairs = mesh.tor_pairs().count();
    for ((from, to), series, totals) in mesh.tor_pairs().take(MAX_TOR_PAIRS) {
        let tor = |index: u32| inventory.tors[index as usize].name.as_str();
        let labels = [("source_tor", tor(from)), ("target_tor", tor(to))];
        let cell = series.over(Window::Minute, now);
        quantiles(m, "rpingmesh_network_rtt_ns", "Round-trip time of the network, last minute.", &labels, &cell);
        m.add("rpingmesh_probe_total", Kind::Counter, "Probes.", &labels, totals.probes);
        m.add("rpingmesh_probe_success_total", Kind::Counter, "Probes that were answered.", &labels, totals.answered);
        m.add("rpingmesh_probe_failed_total", Kind::Counter, "Probes that were lost.", &labels, totals.lost);
    }
    let left_out = pairs.saturating_sub(MAX_TOR_PAIRS) as u64;
    m.add(
        "rpingmesh_tor_pairs_left_out",
        Kind::Gauge,
        "Pairs of ToR switches without metrics of their own.",
        &[],
        left_out,
    );
    for (index, host) in (0..).zip(&inventory.hosts).take(MAX_TOR_PAIRS) {
        let labels = [("host", host.name.as_str())];
        let [prober, responder] = mesh.software_us(index, now);
        for (name, help, us) in [
            ("rpingmesh_prober_delay_ns", "Median delay of the prober's software, last 30 to 60 seconds.", prober),
            (
                "rpingmesh_responder_delay_ns",
                "Median delay of the responder's software, last 30 to 60 seconds.",
                responder,
            ),
        ] {
            if let Some(us) = us {
                m.add(name, Kind::Gauge, help, &labels, us * 1e3);
            }
        }
    }
    for alarm in mesh.alarms().on() {
        let labels = [("rule", alarm.rule.as_str()), ("about", alarm.about.as_str())];
        match alarm.recovering_ms {
            None => m.add("rpingmesh_alarm", Kind::Gauge, "Alarms that are on.", &labels, 1),
            Some(_) => {
                m.add("rpingmesh_alarm_recovering", Kind::Gauge, "Alarms whose fault has ended.", &labels, 1);
            }
        }
    }
    for finding in mesh.findings().iter().take(MAX_SUSPECTS) {
        let parts = finding.parts.join(", ");
        let labels = [("symptom", finding.symptom.name()), ("part", parts.as_str())];
        m.add(
            "rpingmesh_suspect_score",
            Kind::Gauge,
            "Parts of the network that explain failures.",
            &labels,
            finding.score,
        );
    }
    let (probes, gone) = mesh.counts();
    m.add("rpingmesh_results_total", Kind::Counter, "Results since the start.", &[], probes);
    m.add("rpingmesh_results_ignored_total", Kind::Counter, "Results that say nothing about the network.", &[], gone);
    m.add("rpingmesh_agents_up", Kind::Gauge, "Agents that are up.", &[], up as u64);
    m.add("rpingmesh_agents_known", Kind::Gauge, "Hosts in the inventory.", &[], inventory.hosts.len() as u64);
    m.add("rpingmesh_agent_results_waiting", Kind::Gauge, "Results that wait at the agents.", &[], waiting);
    m.add("rpingmesh_agent_results_discarded", Kind::Gauge, "Results that agents have thrown away.", &[], discarded);
    for (name, end) in certificate_ends(state) {
        let help =
            "End of a certificate's life, seconds since 1970; of the controller, and of the agents that end first.";
        m.add("rpingmesh_certificate_end_seconds", Kind::Gauge, help, &[("name", name.as_str())], end as f64);
    }
    let ok = u64::from(state.storage_error.lock().is_none());
    m.add("rpingmesh_storage_ok", Kind::Gauge, "1 while the disk takes results.", &[], ok);
    m.add(
        "rpingmesh_requests_refused_total",
        Kind::Counter,
        "Requests that were refused.",
        &[],
        state.refused.load(Ordering::Relaxed),
    );
    metrics
}

/// Maximum number of agents whose certificates have metrics.
const MAX_ENDS: usize = 100;

/// The earliest expiry times of the controller's certificate and of the agents' certificates, in seconds since 1970.
fn certificate_ends(state: &MeshState) -> Vec<(String, i64)> {
    let ends = state.ends.lock();
    let mut agents: Vec<(String, i64)> =
        ends.iter().filter(|(name, _)| *name != CONTROLLER).map(|(name, end)| (name.clone(), *end)).collect();
    agents.sort_by_key(|(_, end)| *end);
    agents.truncate(MAX_ENDS);
    let controller = ends.get_key_value(CONTROLLER).map(|(name, end)| (name.clone(), *end));
    controller.into_iter().chain(agents).collect()
}

fn quantiles(metrics: &mut Metrics, name: &str, help: &str, labels: &[(&str, &str)], cell: &Cell) {
    for (label, part) in QUANTILES {
        if let Some(us) = cell.quantile_us(part) {
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("quantile", label)]).collect();
            metrics.add(name, Kind::Gauge, help, &labels, us * 1e3);
        }
    }
}
