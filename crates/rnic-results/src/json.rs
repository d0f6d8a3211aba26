//! The summary as JSON: `summary.json` and `--format json`, a stable interface for scripts.
//!
//! Statistics are rounded to six significant digits ([`round6`]). Counts are exact. Simulated times are exact if they
//! fit in 53 bits of picoseconds (2.5 hours).

use super::stats::{Distribution, Goodput};
use super::summary::{Group, LinkSummary, QueueSummary, RunSummary, ScenarioSummary, SizeClass, Tier};
use super::summary::{TrafficClass, Utilisation};
use super::text::round6;
use super::{answered, collectives, fidelity, mesh, steps, watchdog};
use rnic_transport::Time;
use serde_json::{Map, Value, json};

impl ScenarioSummary {
    /// The summary as one JSON document, whose keys have the order that `docs/reference/results.md` documents.
    /// `with_timing` adds the resources that the simulation used, which differ from machine to machine. Without them,
    /// the document depends on the scenario and the seed alone.
    ///
    /// ```
    /// use rnic_results::ScenarioSummary;
    ///
    /// let summary = ScenarioSummary {
    ///     title: "An example".into(),
    ///     name: "example".into(),
    ///     seed: 1,
    ///     version: "0.2.0",
    ///     runs: Vec::new(),
    ///     not_started: Vec::new(),
    ///     replay: false,
    ///     command: None,
    /// };
    /// let text = r#"{"scenario":"example","seed":1,"version":"0.2.0","runs":[]}"#;
    /// assert_eq!(summary.to_json(false).to_string(), text);
    /// ```
    pub fn to_json(&self, with_timing: bool) -> Value {
        let mut document = Map::new();
        document.insert("scenario".to_string(), json!(self.name));
        document.insert("seed".to_string(), json!(self.seed));
        document.insert("version".to_string(), json!(self.version));
        if self.is_partial() {
            document.insert("partial".to_string(), json!({"not_started": self.not_started}));
        }
        let runs = self.runs.iter().map(|run| run_json(run, self.seed, with_timing));
        document.insert("runs".to_string(), runs.collect());
        if let Some(errors) = fidelity::to_json(self) {
            document.insert("fidelity_errors".to_string(), errors);
        }
        document.into()
    }
}

/// How the run ended, as one word.
pub(crate) fn status(run: &RunSummary) -> &'static str {
    match (&run.failure, run.interrupted) {
        (Some(_), _) => "failed",
        (None, true) => "interrupted",
        (None, false) => "completed",
    }
}

fn run_json(run: &RunSummary, seed: u64, with_timing: bool) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_string(), value);
    put("name", json!(run.name));
    if !run.point.is_empty() {
        put("base", json!(run.base));
        put(
            "point",
            run.point.iter().map(|(key, text)| (key.clone(), number_or_text(text))).collect::<Map<_, _>>().into(),
        );
    }
    if run.seed != seed {
        put("seed", json!(run.seed));
    }
    put("transport", json!(run.transport));
    put("cc", json!(run.cc));
    put("pfc", json!(run.pfc));
    if !run.fidelity.is_packet() {
        put("fidelity", json!(run.fidelity.name()));
    }
    if let Some(forward) = run.fast_forward {
        put(
            "fast_forward",
            json!({
                "bound": forward.bound,
                "skipped_us": forward.skipped.as_us(),
                "skips": forward.skips,
                "checked": forward.checked,
                "largest_deviation": forward.largest_deviation,
            }),
        );
    }
    put("status", json!(status(run)));
    if let Some(failure) = &run.failure {
        put("failure", json!(failure));
    }
    let flows = run.flows;
    if let Some(truncation) = run.truncated {
        let unfinished = flows.offered - flows.completed;
        put(
            "truncated",
            json!({"at_us": truncation.at.as_us(), "unfinished": unfinished, "not_started": truncation.not_started}),
        );
    }
    let (completed, aborted) = (flows.completed, run.totals.aborted);
    let counts =
        json!({"offered": flows.offered, "completed": completed, "measured": flows.measured, "aborted": aborted});
    put("flows", counts);
    put("slowdown", distribution(run.slowdown));
    put("fct_us", distribution(run.fct_us));
    put("sizes", run.sizes.iter().map(size_class).collect());
    if !run.traffic.is_empty() {
        put("traffic", run.traffic.iter().map(traffic_class).collect());
    }
    put("packets", packets(run));
    put("drop_rate", json!(run.drop_rate.map(round6)));
    let (frames, time) = (run.totals.pause_frames, Time::from_ps(run.totals.paused_ps).as_us());
    put("pause", json!(run.modelled(json!({"frames": frames, "time_us": time}))));
    let utilisations = json!({"hosts": utilisation(run.host_utilisation), "links": utilisation(run.link_utilisation)});
    put("utilisation", utilisations);
    put("tiers", run.tiers.iter().map(tier).collect());
    put("timeouts", json!(run.modelled(run.timeouts)));
    let [send, receive] = [run.totals.cpu_send_ps, run.totals.cpu_receive_ps].map(|ps| Time::from_ps(ps).as_us());
    if send + receive > 0.0 {
        put("host_cpu_us", json!({"send": send, "receive": receive}));
    }
    put("rct_us", json!(run.requests.map(|d| round6(d.mean))));
    put("requests", requests(run.requests));
    put("goodput_bps", goodput(run.goodput));
    put("sim_time_us", json!(run.sim_time.as_us()));
    put("parameters", run.parameters.iter().map(|(k, v)| (k.clone(), json!(v))).collect::<Map<_, _>>().into());
    put("warnings", json!(run.warnings));
    if !run.queues.is_empty() {
        put("queues", run.queues.iter().map(queue).collect());
    }
    if !run.links.is_empty() {
        put("links", run.links.iter().map(link).collect());
    }
    if let Some(pauses) = &run.pauses {
        put("pauses", pauses.to_json());
    }
    if !run.collectives.is_empty() {
        put("collectives", collectives::to_json(&run.collectives));
    }
    if !run.steps.is_empty() {
        put("steps", steps::to_json(&run.steps));
    }
    if !run.inference.is_empty() {
        put("inference", answered::to_json(&run.inference));
    }
    if !run.watchdog.is_empty() {
        put("watchdog", watchdog::to_json(&run.watchdog));
    }
    if !run.meshes.is_empty() {
        put("meshes", mesh::to_json(&run.meshes));
    }
    if with_timing {
        put("wall_s", json!(round6(run.timing.wall_s)));
        put("cpu_s", json!(round6(run.timing.cpu_s)));
        put("peak_rss_bytes", json!(run.timing.peak_rss_bytes));
    }
    object.into()
}

/// The value of a swept key: a JSON number if `text` is a number, else a string.
fn number_or_text(text: &str) -> Value {
    let plain = text.replace('_', "");
    match (plain.parse::<u64>(), plain.parse::<f64>()) {
        (Ok(count), _) => json!(count),
        (_, Ok(number)) if number.is_finite() => json!(number),
        _ => json!(text),
    }
}

fn distribution(of: Option<Distribution>) -> Value {
    json!(of.map(|d| {
        json!({
            "mean": round6(d.mean),
            "p50": round6(d.p50),
            "p95": round6(d.p95),
            "p99": round6(d.p99),
            "p999": round6(d.p999),
        })
    }))
}

/// A watched queue as JSON: its name, the distribution of its length in bytes, and the maximum.
fn queue(queue: &QueueSummary) -> Value {
    let mut object = distribution(Some(queue.bytes));
    object["max"] = json!(queue.bytes.max);
    json!({"queue": queue.name, "bytes": object})
}

/// A watched link as JSON: its name, the distribution of its utilisation, and the maximum.
fn link(link: &LinkSummary) -> Value {
    let mut object = distribution(Some(link.utilisation));
    object["max"] = json!(round6(link.utilisation.max));
    json!({"link": link.name, "utilisation": object})
}

fn tier(tier: &Tier) -> Value {
    json!({
        "sender": tier.from,
        "receiver": tier.to,
        "links": tier.links,
        "bytes": tier.bytes,
        "utilisation": utilisation(Some(tier.utilisation)),
        "busiest": tier.busiest,
    })
}

fn requests(of: Option<Distribution>) -> Value {
    json!(of.map(|d| {
        json!({
            "count": d.count,
            "mean": round6(d.mean),
            "p50": round6(d.p50),
            "p99": round6(d.p99),
            "max": round6(d.max),
        })
    }))
}

fn size_class(class: &SizeClass) -> Value {
    let head = json!({"name": class.name, "min_bytes": class.min_bytes, "max_bytes": class.max_bytes});
    with_group(head, &class.group)
}

fn traffic_class(class: &TrafficClass) -> Value {
    let mut object = with_group(json!({"name": class.name}), &class.group);
    object["unfinished"] = json!(class.unfinished);
    object["goodput_bps"] = goodput(class.goodput);
    object
}

fn goodput(of: Option<Goodput>) -> Value {
    json!(of.map(|g| {
        json!({
            "flows": g.flows,
            "mean": round6(g.mean),
            "min": round6(g.min),
            "p10": round6(g.p10),
            "p50": round6(g.p50),
            "max": round6(g.max),
        })
    }))
}

fn with_group(mut head: Value, group: &Group) -> Value {
    head["flows"] = json!(group.flows);
    head["slowdown"] = distribution(group.slowdown);
    head["fct_us"] = distribution(group.fct_us);
    head
}

fn packets(run: &RunSummary) -> Value {
    let t = &run.totals;
    let mut packets = json!({
        "data": t.data,
        "control": t.control,
        "retransmitted": run.modelled(t.retransmitted),
        "dropped": run.modelled(t.dropped),
        "lost": run.modelled(t.lost),
        "marked": run.modelled(t.marked),
        "cnps": run.modelled(t.notifications),
        "delivered": t.delivered,
        "in_flight": run.modelled(t.in_flight),
        "hops": t.hops,
        "trimmed": run.modelled(t.trimmed),
        "returned": run.modelled(t.returned),
    });
    for (name, count) in [("flooded", t.flooded), ("probes", t.probes)] {
        if count > 0 {
            packets[name] = json!(count);
        }
    }
    packets
}

fn utilisation(of: Option<Utilisation>) -> Value {
    json!(of.map(|u| json!({"mean": round6(u.mean), "max": round6(u.max)})))
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, summarise};
    use super::*;
    use rnic_spec::{RunStatus, Truncation};

    #[test]
    fn the_contract_by_hand() {
        let (scenario, reports) = fixture::two_runs();
        let json = summarise(&scenario, &reports).to_json(true);
        assert_eq!((&json["scenario"], &json["seed"]), (&json!("tiny"), &json!(7)));
        assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
        let expected: Value = serde_json::from_str(EXPECTED_FIRST_RUN).unwrap();
        // The two are compared as text, because the order of keys is part of the interface.
        assert_eq!(
            serde_json::to_string_pretty(&json["runs"][0]).unwrap(),
            serde_json::to_string_pretty(&expected).unwrap()
        );
    }

    const EXPECTED_FIRST_RUN: &str = r#"{
        "name": "RoCE + PFC", "transport": "roce", "cc": "none", "pfc": true, "status": "completed",
        "flows": {"offered": 5, "completed": 5, "measured": 4, "aborted": 0},
        "slowdown": {"mean": 5.0, "p50": 4.0, "p95": 8.0, "p99": 8.0, "p999": 8.0},
        "fct_us": {"mean": 187.5, "p50": 40.0, "p95": 400.0, "p99": 400.0, "p999": 400.0},
        "sizes": [
            {"name": "<= 1 packet", "min_bytes": 0, "max_bytes": 1000, "flows": 1,
             "slowdown": {"mean": 2.0, "p50": 2.0, "p95": 2.0, "p99": 2.0, "p999": 2.0},
             "fct_us": {"mean": 10.0, "p50": 10.0, "p95": 10.0, "p99": 10.0, "p999": 10.0}},
            {"name": "<= 10 KB", "min_bytes": 1001, "max_bytes": 10000, "flows": 1,
             "slowdown": {"mean": 4.0, "p50": 4.0, "p95": 4.0, "p99": 4.0, "p999": 4.0},
             "fct_us": {"mean": 40.0, "p50": 40.0, "p95": 40.0, "p99": 40.0, "p999": 40.0}},
            {"name": "<= 1 MB", "min_bytes": 100001, "max_bytes": 1000000, "flows": 2,
             "slowdown": {"mean": 7.0, "p50": 6.0, "p95": 8.0, "p99": 8.0, "p999": 8.0},
             "fct_us": {"mean": 350.0, "p50": 300.0, "p95": 400.0, "p99": 400.0, "p999": 400.0}}],
        "traffic": [
            {"name": "background", "flows": 2,
             "slowdown": {"mean": 3.0, "p50": 2.0, "p95": 4.0, "p99": 4.0, "p999": 4.0},
             "fct_us": {"mean": 25.0, "p50": 10.0, "p95": 40.0, "p99": 40.0, "p999": 40.0}, "unfinished": 0,
             "goodput_bps": {"flows": 2, "mean": 9e8, "min": 8e8, "p10": 8e8, "p50": 8e8, "max": 1e9}},
            {"name": "incast", "flows": 2,
             "slowdown": {"mean": 7.0, "p50": 6.0, "p95": 8.0, "p99": 8.0, "p999": 8.0},
             "fct_us": {"mean": 350.0, "p50": 300.0, "p95": 400.0, "p99": 400.0, "p999": 400.0}, "unfinished": 0,
             "goodput_bps": {"flows": 2, "mean": 4666670000.0, "min": 4e9, "p10": 4e9, "p50": 4e9, "max": 5333330000.0}}],
        "packets": {"data": 600, "control": 20, "retransmitted": 6, "dropped": 5, "lost": 1, "marked": 2, "cnps": 0,
                    "delivered": 610, "in_flight": 4, "hops": 1200, "trimmed": 0, "returned": 0},
        "drop_rate": 0.00666667,
        "pause": {"frames": 3, "time_us": 12.5},
        "utilisation": {"hosts": {"mean": 0.375, "max": 0.5}, "links": {"mean": 0.333333, "max": 0.5}},
        "tiers": [
            {"sender": "host", "receiver": "switch", "links": 1, "bytes": 318600, "utilisation": {"mean": 0.5, "max": 0.5}, "busiest": "h0:s0"},
            {"sender": "switch", "receiver": "host", "links": 1, "bytes": 318600, "utilisation": {"mean": 0.25, "max": 0.25}, "busiest": "s0:h1"},
            {"sender": "switch", "receiver": "switch", "links": 1, "bytes": 318600, "utilisation": {"mean": 0.25, "max": 0.25}, "busiest": "s0:s1"}],
        "timeouts": 2,
        "rct_us": 410.0,
        "requests": {"count": 1, "mean": 410.0, "p50": 410.0, "p99": 410.0, "max": 410.0},
        "goodput_bps": {"flows": 4, "mean": 2783330000.0, "min": 8e8, "p10": 8e8, "p50": 1e9, "max": 5333330000.0},
        "sim_time_us": 600.000001,
        "parameters": {"rate": "40 Gbps", "buffer": "240 KB"},
        "warnings": ["the clock is fictional", "only 4 flows were measured: the 99th percentile is the maximum"],
        "wall_s": 1.25, "cpu_s": 1.5, "peak_rss_bytes": 1048576
    }"#;

    #[test]
    fn timing_only_on_request() {
        let (scenario, reports) = fixture::two_runs();
        let json = summarise(&scenario, &reports).to_json(false);
        for key in ["wall_s", "cpu_s", "peak_rss_bytes", "failure"] {
            assert!(json["runs"][0].get(key).is_none(), "{key}");
        }
    }

    #[test]
    fn a_failed_run_has_counts_but_no_statistics() {
        let (scenario, mut reports) = fixture::two_runs();
        reports[1].output.status = RunStatus::Failed("flow 3 is stuck".into());
        reports[1].output.flows.edit(3, |flow| flow.finish = None);
        let json = summarise(&scenario, &reports).to_json(false);
        let run = &json["runs"][1];
        assert_eq!((&run["status"], &run["failure"]), (&json!("failed"), &json!("flow 3 is stuck")));
        assert_eq!(run["flows"], json!({"offered": 5, "completed": 4, "measured": 3, "aborted": 0}));
        for key in ["slowdown", "fct_us", "rct_us", "requests", "drop_rate"] {
            assert_eq!(run.get(key), Some(&Value::Null), "{key}");
        }
        assert_eq!(run["utilisation"], json!({"hosts": null, "links": null}));
        assert!(run["sizes"].as_array().unwrap().iter().all(|s| s["fct_us"].is_null() && s["flows"] != 0));
        assert!(run["traffic"].as_array().unwrap().iter().all(|s| s["slowdown"].is_null()));
        assert_eq!(run["packets"]["dropped"], 5);
        assert_eq!(json["runs"][0]["status"], "completed");
    }

    #[test]
    fn a_truncated_run_has_statistics_and_counts_unfinished_flows() {
        let (scenario, mut reports) = fixture::two_runs();
        let output = &mut reports[0].output;
        output.truncated = Some(Truncation { at: output.end, not_started: Some(7) });
        // Flow 3 started at 110 us, and the run ended at 600.000001 us.
        output.flows.edit(3, |flow| (flow.finish, flow.delivered) = (None, 49_000));
        let json = summarise(&scenario, &reports).to_json(false);
        let run = &json["runs"][0];
        assert_eq!(run["status"], "completed");
        assert_eq!(run["truncated"], json!({"at_us": 600.000001, "unfinished": 1, "not_started": 7}));
        assert_eq!(run["flows"], json!({"offered": 5, "completed": 4, "measured": 3, "aborted": 0}));
        assert_eq!(run["goodput_bps"]["flows"], 4);
        let incast = &run["traffic"][1];
        assert_eq!((&incast["flows"], &incast["unfinished"]), (&json!(1), &json!(1)));
        assert_eq!((&incast["goodput_bps"]["min"], &incast["goodput_bps"]["flows"]), (&json!(8e8), &json!(2)));
        assert_eq!(run["rct_us"], Value::Null, "the only request is unfinished");
        assert!(json["runs"][1].get("truncated").is_none());
    }

    #[test]
    fn statistics_without_measured_flows_are_null() {
        let (scenario, reports) = fixture::empty();
        let text = summarise(&scenario, &reports).to_json(true).to_string();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        let json: Value = serde_json::from_str(&text).unwrap();
        let run = &json["runs"][0];
        assert_eq!(run["flows"], json!({"offered": 0, "completed": 0, "measured": 0, "aborted": 0}));
        assert_eq!(run["sizes"], json!([]));
        assert!(run["slowdown"].is_null() && run["drop_rate"].is_null() && run["requests"].is_null());
    }
}
