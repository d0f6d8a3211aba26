//! The measurements of a run's meshes of probes: the file `mesh.csv`, the list in `summary.json`, and sentences.

use super::text::{count, duration, exact_us, round6};
use rnic_spec::{MeshRecord, MeshRow, RunRecord, Scenario};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Columns of `mesh.csv`, one row per run, mesh and window of simulated time.
const COLUMNS: [&str; 9] = ["run", "mesh", "from_us", "probes", "unanswered", "p50_us", "p99_us", "p999_us", "max_us"];

/// The meshes of a run as a JSON array; the windows are in `mesh.csv`.
pub(super) fn to_json(meshes: &[MeshRecord]) -> Value {
    let mesh = |mesh: &MeshRecord| {
        let MeshRow { probes, unanswered, p50, p99, p999, max, .. } = mesh.total;
        let us = |time: rnic_transport::Time| round6(time.as_us());
        let rtt = json!({"p50": us(p50), "p99": us(p99), "p999": us(p999), "max": us(max)});
        json!({"name": mesh.name, "probes": probes, "unanswered": unanswered, "rtt_us": rtt})
    };
    meshes.iter().map(mesh).collect()
}

/// A sentence for each mesh.
pub(super) fn sentences(meshes: &[MeshRecord]) -> Vec<String> {
    let sentence = |mesh: &MeshRecord| {
        let row = mesh.total;
        let [p50, p99, p999] = [row.p50, row.p99, row.p999].map(|time| duration(time.as_us()));
        let unanswered =
            if row.unanswered == 0 { String::new() } else { format!(", {} unanswered", count(row.unanswered)) };
        format!(
            "probes of {}: {}{unanswered}; round-trip time: median {p50}, 99th percentile {p99}, 99.9th {p999}",
            mesh.name,
            count(row.probes)
        )
    };
    meshes.iter().map(sentence).collect()
}

/// Whether any run has probes.
pub(super) fn any(reports: &[RunRecord]) -> bool {
    reports.iter().any(|report| !report.output.meshes.is_empty())
}

/// Writes `mesh.csv`.
pub(super) fn write(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        for (mesh, row) in report.output.meshes.iter().flat_map(|mesh| mesh.rows.iter().map(move |row| (mesh, row))) {
            csv.write_record([
                run.name.as_str(),
                &mesh.name,
                &exact_us(row.from),
                &row.probes.to_string(),
                &row.unanswered.to_string(),
                &exact_us(row.p50),
                &exact_us(row.p99),
                &exact_us(row.p999),
                &exact_us(row.max),
            ])?;
        }
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, summarise};
    use super::*;
    use rnic_transport::Time;

    #[test]
    fn probes_are_in_the_file_in_the_summary_and_in_sentences() {
        let (scenario, mut reports) = fixture::two_runs();
        assert!(!any(&reports));
        let us = Time::from_us;
        let row =
            MeshRow { from: us(1_000), probes: 10, unanswered: 2, p50: us(5), p99: us(9), p999: us(9), max: us(9) };
        let mesh = MeshRecord { name: "rdma".to_string(), total: row, rows: vec![row] };
        reports[0].output.meshes = vec![mesh];
        let mut csv = Vec::new();
        write(&mut csv, &scenario, &reports).unwrap();
        let csv = String::from_utf8(csv).unwrap().replace('"', "");
        assert_eq!(csv, format!("{}\n{},rdma,1000,10,2,5,9,9,9\n", COLUMNS.join(","), scenario.runs[0].name));
        let summary = summarise(&scenario, &reports);
        let json = summary.to_json(false);
        assert_eq!(json["runs"][0]["meshes"][0]["rtt_us"]["p99"], 9.0);
        assert!(json["runs"][1].get("meshes").is_none());
        assert_eq!(
            sentences(&summary.runs[0].meshes),
            [
                "probes of rdma: 10, 2 unanswered; round-trip time: median 5.00 us, 99th percentile 9.00 us, 99.9th 9.00 us"
            ]
        );
    }
}
