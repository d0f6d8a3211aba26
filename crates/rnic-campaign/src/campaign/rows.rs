//! The results of a campaign as rows of a table.

use super::folder::Folder;
use super::manifest::Manifest;
use super::replication::{Replica, Replication, Shard, Verdict};
use super::result::{RunResult, RunState};
use crate::fingerprint::Fingerprint;
use rnic_results::estimate::Estimate;
use rnic_spec::RunSpec;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A row: the names of its columns, and its values, which are numbers, booleans, texts or null.
pub type Row = Map<String, Value>;

/// Keys of a run's summary that do not become columns: other columns already contain their values, or they are text
/// that is the same in all runs.
const LEFT_OUT: [&str; 6] = ["status", "failure", "transport", "cc", "pfc", "seed"];

/// The wanted runs of a campaign, by point and seed, with their fingerprints and the state of each point. The stored
/// results determine which seeds are wanted.
pub(crate) struct Wanted {
    pub(crate) replicas: Vec<(Replica, Fingerprint)>,
    pub(crate) verdicts: Vec<(usize, usize, Verdict)>,
}

impl Wanted {
    /// Reads the campaign's results from `folder`, and passes each result to `see`.
    pub(crate) fn of(
        manifest: &Manifest, folder: &Folder, program: &str, mut see: impl FnMut(Replica, &RunSpec, Option<&RunResult>),
    ) -> Wanted {
        folder.refresh();
        let mut replication = Replication::new(&Arc::new(manifest.clone()), Shard::WHOLE);
        let mut replicas = Vec::new();
        loop {
            let wanted = replication.take_wanted();
            if wanted.is_empty() {
                break;
            }
            for replica in wanted {
                let Some(spec) = manifest.run(replica.point, replica.number) else { continue };
                let fingerprint = Fingerprint::of(&spec, program);
                let result = folder.result(&fingerprint);
                see(replica, &spec, result.as_ref());
                if let Some(result) = &result {
                    replication.add_result(replica, result);
                }
                replicas.push((replica, fingerprint));
            }
        }
        replicas.sort_by_key(|(replica, _)| *replica);
        Wanted { replicas, verdicts: replication.verdicts().collect() }
    }
}

/// The results of a campaign: a row for each run with a result, in the order of the manifest and the seeds. The results
/// are read one by one. With `provenance`, the rows also say where and when each run was simulated.
///
/// The columns are `campaign`, `run` (the name of the run in the scenario file), the swept keys, `seed`, `transport`,
/// `cc`, `pfc`, `status`, `failure`, the numbers of the run in `summary.json` with keys joined by dots, `point` (the
/// name of the point: the name of the run with the swept values), and `key`, the key of the fingerprint.
pub fn rows<'a>(
    manifest: &'a Manifest, folder: &'a Folder, program: &str, provenance: bool,
) -> impl Iterator<Item = Row> + use<'a> {
    let wanted = Wanted::of(manifest, folder, program, |_, _, _| {});
    wanted.replicas.into_iter().filter_map(move |(replica, fingerprint)| {
        let spec = manifest.run(replica.point, replica.number)?;
        let result = folder.result(&fingerprint)?;
        Some(row(manifest, &spec, &fingerprint, &result, provenance))
    })
}

fn row(manifest: &Manifest, spec: &RunSpec, fingerprint: &Fingerprint, result: &RunResult, provenance: bool) -> Row {
    let mut row = Row::new();
    let mut put = |key: &str, value: Value| row.insert(key.to_string(), value);
    put("campaign", json!(manifest.name));
    put("run", json!(spec.base));
    for (key, text) in &spec.point {
        put(key, number_or_text(text));
    }
    put("seed", json!(spec.seed));
    put("transport", json!(spec.transport.name));
    put("cc", json!(spec.transport.cc.name()));
    put("pfc", json!(spec.transport.pfc));
    put("status", json!(result.state.word()));
    put("failure", if result.failure.is_empty() { Value::Null } else { json!(result.failure) });
    for (key, value) in result.metrics() {
        if !LEFT_OUT.contains(&key.as_str()) && !key.starts_with("parameters.") {
            put(&key, value);
        }
    }
    put("point", json!(spec.name));
    put("key", json!(fingerprint.key()));
    if provenance {
        let p = &result.provenance;
        put("provenance.code", json!(p.code));
        put("provenance.campaign", json!(p.campaign));
        put("provenance.engine", json!(p.engine));
        put("provenance.host", json!(p.host));
        put("provenance.worker", json!(p.worker));
        put("provenance.started_s", json!(p.started_s));
        put("provenance.wall_s", json!(p.wall_s));
        put("provenance.cpu_s", json!(p.cpu_s));
        put("provenance.lost", json!(p.lost));
    }
    row
}

/// The value of a swept key: a number if `text` is one.
fn number_or_text(text: &str) -> Value {
    let plain = text.replace('_', "");
    match (plain.parse::<u64>(), plain.parse::<f64>()) {
        (Ok(count), _) => json!(count),
        (_, Ok(number)) if number.is_finite() => json!(number),
        _ => json!(text),
    }
}

/// The mean of a metric over the seeds of each point, a row for each: `run` (the name of the run in the scenario file),
/// the swept keys, `transport`, `cc`, `pfc`, `seeds` (number of runs with a value), `failed`, `missing`, `mean`,
/// `half_width` (of the confidence interval, or null), `verdict` (`open`, `done`, `wide` or `undetermined`) and `point`
/// (the name of the point).
pub fn estimates(manifest: &Manifest, folder: &Folder, program: &str, metric: &str, confidence: f64) -> Vec<Row> {
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); manifest.runs.len()];
    let mut counts = vec![(0_u64, 0_u64); manifest.runs.len()];
    let wanted = Wanted::of(manifest, folder, program, |replica, _, result| match result {
        Some(result) if result.state == RunState::Completed => {
            values[replica.point].extend(result.metric(metric));
        }
        Some(_) => counts[replica.point].0 += 1,
        None => counts[replica.point].1 += 1,
    });
    let of_point = |(index, _, verdict): &(usize, usize, Verdict)| {
        let (spec, (failed, missing)) = (manifest.runs.get(*index)?, counts[*index]);
        let estimate = Estimate::of(&values[*index], confidence);
        let mut row = Row::new();
        let mut put = |key: &str, value: Value| row.insert(key.to_string(), value);
        put("run", json!(spec.base));
        for (key, text) in &spec.point {
            put(key, number_or_text(text));
        }
        put("transport", json!(spec.transport.name));
        put("cc", json!(spec.transport.cc.name()));
        put("pfc", json!(spec.transport.pfc));
        put("seeds", json!(values[*index].len()));
        put("failed", json!(failed));
        put("missing", json!(missing));
        put("mean", json!(estimate.map(|estimate| estimate.mean)));
        put("half_width", json!(estimate.and_then(|estimate| estimate.half_width)));
        let verdict = match verdict {
            Verdict::Open => "open",
            Verdict::Done => "done",
            Verdict::Wide => "wide",
            Verdict::Undetermined => "undetermined",
        };
        put("verdict", json!(verdict));
        put("point", json!(spec.name));
        Some(row)
    };
    wanted.verdicts.iter().filter_map(of_point).collect()
}
