//! The result files of a scenario. The same scenario and seed give the same bytes on every machine.

use super::columns::write_parquet;
use super::flow_files;
use super::folder::{FileSet, FolderLock, create_temporary, named_error};
use super::pauses;
use super::report;
use super::samples;
use super::summary::ScenarioSummary;
use super::sweep_files;
use super::text::{exact_gbps, exact_us, round6};
use super::tiers::port_utilisation;
use super::{answered, collectives, matrix, mesh, step_links, steps, timeline, watchdog};
use rnic_spec::RunRecord;
use rnic_spec::Scenario;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// File format of the records of flows. Both formats have the same columns ([`flow_files::COLUMNS`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowFormat {
    /// The file is `flows.csv`.
    Csv,
    /// The file is `flows.parquet`.
    Parquet,
}

/// Columns of `ports.csv`, which has one row per run, port and priority. `utilisation` is the fraction of the run for
/// which the port was sending; it covers all priorities, so all rows of a port in a run have the same value. Names of
/// columns end in their unit; columns without a unit are counts.
pub(crate) const PORT_COLUMNS: [&str; 17] = [
    "run",
    "node",
    "port",
    "peer",
    "rate_gbps",
    "utilisation",
    "priority",
    "tx_packets",
    "tx_bytes",
    "drops",
    "lost",
    "pause_sent",
    "pause_received",
    "paused_us",
    "queue_high_water_bytes",
    "trimmed",
    "returned",
];

/// A result file in CSV format, other than `flows.csv`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CsvFile {
    /// `ports.csv`: counters of each port and priority.
    Ports,
    /// `queues.csv`: sampled queue lengths.
    Queues,
    /// `links.csv`: sampled utilisation of links.
    Links,
    /// `goodput.csv`: sampled goodput of flows.
    Goodput,
    /// `pauses.csv`: PFC pauses.
    Pauses,
    /// `victims.csv`: flows that PFC delays although they cause no congestion.
    Victims,
    /// `mesh.csv`: round-trip times of probes.
    Mesh,
    /// `watchdog.csv`: pause storms that watchdogs found.
    Watchdog,
    /// `collectives.csv`: times and bandwidths of collective operations.
    Collectives,
    /// `steps.csv`: times of the steps of programs of tasks.
    Steps,
    /// `step_links.csv`: the busiest links of steps.
    StepLinks,
    /// `requests.csv`: times of the requests of inferences.
    Requests,
    /// `timeline.csv`: tasks of ranks in a step.
    Timeline,
    /// `matrix.csv`: payload between groups of hosts over time, in runs with programs.
    Matrix,
    /// `sweep.csv`: a row for each run of a sweep.
    Sweep,
}

impl CsvFile {
    /// Writes the file, which has at least its header line.
    ///
    /// # Errors
    /// `out` returns an error, or flow records cannot be read.
    pub fn write(
        self, out: impl Write, scenario: &Scenario, reports: &[RunRecord], summary: &ScenarioSummary,
    ) -> io::Result<()> {
        match self {
            CsvFile::Ports => write_ports(out, scenario, reports),
            CsvFile::Queues => samples::write_queues(out, scenario, reports),
            CsvFile::Links => samples::write_links(out, scenario, reports),
            CsvFile::Goodput => samples::write_flows(out, scenario, reports),
            CsvFile::Pauses => pauses::write_pauses(out, scenario, reports),
            CsvFile::Victims => pauses::write_victims(out, scenario, reports),
            CsvFile::Mesh => mesh::write(out, scenario, reports),
            CsvFile::Watchdog => watchdog::write(out, scenario, reports),
            CsvFile::Collectives => collectives::write(out, scenario, reports),
            CsvFile::Steps => steps::write(out, scenario, reports),
            CsvFile::StepLinks => step_links::write(out, scenario, reports),
            CsvFile::Requests => answered::write(out, scenario, reports),
            CsvFile::Timeline => timeline::write(out, scenario, reports),
            CsvFile::Matrix => matrix::write(out, scenario, reports),
            CsvFile::Sweep => sweep_files::write_csv(out, summary),
        }
    }

    /// Writes the same table in the format Parquet.
    fn write_parquet<W: Write + Send>(
        self, out: W, scenario: &Scenario, reports: &[RunRecord], summary: &ScenarioSummary,
    ) -> io::Result<()> {
        write_parquet(out, |csv| self.write(csv, scenario, reports, summary))
    }
}

/// Names of all files that [`add_all`] can write.
pub const NAMES: [&str; 26] = [
    "summary.json",
    "ports.csv",
    "report.html",
    "queues.csv",
    "links.csv",
    "goodput.csv",
    "pauses.csv",
    "victims.csv",
    "mesh.csv",
    "watchdog.csv",
    "collectives.csv",
    "steps.csv",
    "step_links.csv",
    "requests.csv",
    "timeline.csv",
    "matrix.csv",
    "collectives.parquet",
    "steps.parquet",
    "step_links.parquet",
    "requests.parquet",
    "timeline.parquet",
    "matrix.parquet",
    "sweep.csv",
    "sweep.parquet",
    "flows.csv",
    "flows.parquet",
];

/// Writes the result files of `scenario` into `dir`, which it creates and locks, and returns the paths of the files.
/// The files appear together, and replace older files of the same names; if an error occurs, the older files stay as
/// they are. The files are:
///
/// `summary.json`, `ports.csv` and `report.html` always; `queues.csv`, `links.csv`, `goodput.csv`, `pauses.csv` and
/// `victims.csv` if a run sampled queues, links, flows or pauses; `mesh.csv` if a run has probes; `watchdog.csv` if a
/// watchdog found a storm; `collectives.csv` if a run has collective operations; `matrix.csv` if a run has a program;
/// `steps.csv` and `step_links.csv` if a run has training steps; `timeline.csv` if a run records the tasks of a step;
/// `requests.csv` if a run has inferences; the last six also in the format Parquet; `sweep.csv` and `sweep.parquet` for
/// a sweep; and the records of flows in each of the formats `flows`.
///
/// # Errors
/// Another process is writing into the folder, a file cannot be written, or flow records cannot be read.
pub fn write_all(
    dir: &Path, scenario: &Scenario, reports: &[RunRecord], summary: &ScenarioSummary, flows: &[FlowFormat],
) -> io::Result<Vec<PathBuf>> {
    let _lock = FolderLock::take(dir, "a program that uses rnic")?;
    let mut files = FileSet::new(dir)?;
    add_all(&mut files, scenario, reports, summary, flows)?;
    files.commit()
}

/// Adds the result files that [`write_all`] writes to a set of files.
///
/// # Errors
/// A file cannot be written, or flow records cannot be read.
pub fn add_all(
    files: &mut FileSet, scenario: &Scenario, reports: &[RunRecord], summary: &ScenarioSummary, flows: &[FlowFormat],
) -> io::Result<()> {
    files.add("summary.json", |out| {
        serde_json::to_writer_pretty(&mut *out, &summary.to_json(false))?;
        out.write_all(b"\n")
    })?;
    files.add("ports.csv", |out| write_ports(out, scenario, reports))?;
    files.add("report.html", |out| out.write_all(report::render(scenario, summary, reports).as_bytes()))?;
    let mut csv = |name: &str, file: CsvFile, is_needed: bool| match is_needed {
        true => files.add(name, |out| file.write(out, scenario, reports, summary)),
        false => Ok(()),
    };
    csv("queues.csv", CsvFile::Queues, samples::has_queues(reports))?;
    csv("links.csv", CsvFile::Links, samples::has_links(reports))?;
    csv("goodput.csv", CsvFile::Goodput, samples::has_flows(reports))?;
    csv("pauses.csv", CsvFile::Pauses, pauses::any(reports))?;
    csv("victims.csv", CsvFile::Victims, pauses::any(reports))?;
    csv("mesh.csv", CsvFile::Mesh, mesh::any(reports))?;
    csv("watchdog.csv", CsvFile::Watchdog, watchdog::any(reports))?;
    csv("sweep.csv", CsvFile::Sweep, !summary.swept().is_empty())?;
    let of_programs = [
        ("collectives", CsvFile::Collectives, collectives::any(reports)),
        ("steps", CsvFile::Steps, steps::any(reports)),
        ("step_links", CsvFile::StepLinks, step_links::any(reports)),
        ("requests", CsvFile::Requests, answered::any(reports)),
        ("timeline", CsvFile::Timeline, timeline::any(reports)),
        ("matrix", CsvFile::Matrix, matrix::any(scenario)),
    ];
    for (name, file, _) in of_programs.into_iter().filter(|(_, _, is_needed)| *is_needed) {
        files.add(&format!("{name}.csv"), |out| file.write(out, scenario, reports, summary))?;
        files.add(&format!("{name}.parquet"), |out| file.write_parquet(out, scenario, reports, summary))?;
    }
    if !summary.swept().is_empty() {
        files.add("sweep.parquet", |out| sweep_files::write_parquet(out, summary))?;
    }
    if flows.contains(&FlowFormat::Csv) {
        files.add("flows.csv", |out| flow_files::write_csv(out, scenario, reports))?;
    }
    if flows.contains(&FlowFormat::Parquet) {
        files.add("flows.parquet", |out| flow_files::write_parquet(out, scenario, reports))?;
    }
    // If the record of a flow could not be read, it is missing in the files just written: return this error.
    reports.iter().try_for_each(|report| report.output.flows.check())
}

/// Writes a file atomically: `write` writes to a temporary file in the folder of `path`, which is then synced to the
/// disk and renamed to `path`. If writing fails, the temporary file is removed.
pub fn write_atomically(
    path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<PathBuf> {
    write_and_rename(path, write, File::sync_all)
}

/// Does the same as [`write_atomically`], but calls `settle` instead of syncing the file to the disk.
pub fn write_and_rename(
    path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>, settle: fn(&File) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let (temporary, file) = create_temporary(path)?;
    let result = (|| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        settle(&out.into_inner()?)?;
        fs::rename(&temporary, path)
    })();
    if let Err(error) = result {
        // If the removal fails too, the error of the write is the more important one.
        let _ = fs::remove_file(&temporary);
        return Err(named_error(path, &error));
    }
    Ok(path.to_path_buf())
}

fn write_ports(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(PORT_COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        for port in &report.output.ports {
            let utilisation = port_utilisation(port, report.output.end);
            let modelled = |text: String| if report.output.fidelity.is_packet() { text } else { String::new() };
            for (priority, counters) in port.priorities.iter().enumerate() {
                csv.write_record([
                    run.name.as_str(),
                    &port.node,
                    &port.port.to_string(),
                    &port.peer,
                    &exact_gbps(port.rate.as_bps()),
                    &utilisation.map_or(String::new(), |u| round6(u).to_string()),
                    &priority.to_string(),
                    &counters.tx_packets.to_string(),
                    &counters.tx_bytes.to_string(),
                    &modelled(counters.drops.to_string()),
                    &modelled(counters.lost.to_string()),
                    &modelled(counters.pause_sent.to_string()),
                    &modelled(counters.pause_received.to_string()),
                    &modelled(exact_us(rnic_transport::Time::from_ps(counters.paused_ps))),
                    &modelled(counters.queue_high_water.to_string()),
                    &modelled(counters.trimmed.to_string()),
                    &modelled(counters.returned.to_string()),
                ])?;
            }
        }
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, summarise};
    use super::*;
    use std::collections::BTreeMap;

    fn written(flows: &[FlowFormat]) -> BTreeMap<String, Vec<u8>> {
        let (scenario, reports) = fixture::two_runs();
        let dir = tempfile::tempdir().unwrap();
        let nested = dir.path().join("out/tiny");
        let paths = write_all(&nested, &scenario, &reports, &summarise(&scenario, &reports), flows).unwrap();
        let found: BTreeMap<String, Vec<u8>> = fs::read_dir(&nested)
            .unwrap()
            .map(|e| e.unwrap().path())
            .map(|p| (p.file_name().unwrap().to_str().unwrap().to_string(), fs::read(&p).unwrap()))
            .collect();
        assert_eq!(found.len(), paths.len(), "no temporary file is left");
        found
    }

    #[test]
    fn optional_files_are_written_on_request_and_bytes_are_repeatable() {
        let all = written(&[FlowFormat::Csv, FlowFormat::Parquet]);
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        assert_eq!(names, ["flows.csv", "flows.parquet", "ports.csv", "report.html", "summary.json"]);
        assert_eq!(all, written(&[FlowFormat::Csv, FlowFormat::Parquet]));
        assert_eq!(written(&[]).len(), 3);
    }

    #[test]
    fn no_file_depends_on_timing() {
        let (scenario, mut reports) = fixture::two_runs();
        let before = written(&[]);
        for report in &mut reports {
            (report.wall_s, report.cpu_s, report.peak_rss_bytes) = (98_765.0, 98_765.0, 98_765);
        }
        let dir = tempfile::tempdir().unwrap();
        write_all(dir.path(), &scenario, &reports, &summarise(&scenario, &reports), &[]).unwrap();
        for (name, bytes) in before {
            assert_eq!(fs::read(dir.path().join(&name)).unwrap(), bytes, "{name}");
        }
    }

    /// Writes all files twice: from records of flows in memory, and from the same records in a file.
    #[test]
    fn files_do_not_depend_on_the_place_of_the_records() {
        for (scenario, mut reports) in [fixture::two_runs(), fixture::showcase()] {
            let flows = [FlowFormat::Csv, FlowFormat::Parquet];
            let mut written = Vec::new();
            for in_file in [false, true] {
                if in_file {
                    reports.iter_mut().for_each(|report| report.output.flows = report.output.flows.in_file());
                }
                let dir = tempfile::tempdir().unwrap();
                let summary = summarise(&scenario, &reports);
                let paths = write_all(dir.path(), &scenario, &reports, &summary, &flows).unwrap();
                written.push(paths.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>());
            }
            assert_eq!(written[0].len(), 5);
            assert!(written[0] == written[1]);
        }
    }

    #[test]
    fn all_files_are_named() {
        let mut names: Vec<String> = written(&[FlowFormat::Csv, FlowFormat::Parquet]).into_keys().collect();
        names.retain(|name| !NAMES.contains(&name.as_str()));
        assert_eq!(names, [""; 0]);
    }

    #[test]
    fn unreadable_records_are_an_error() {
        let (scenario, mut reports) = fixture::two_runs();
        let summary = summarise(&scenario, &reports);
        reports[0].output.flows = reports[0].output.flows.unreadable();
        let dir = tempfile::tempdir().unwrap();
        let error = write_all(dir.path(), &scenario, &reports, &summary, &[FlowFormat::Csv]).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }

    #[test]
    fn ports_csv_is_exact() {
        let text = String::from_utf8(written(&[])["ports.csv"].clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!(
            lines[0],
            "run,node,port,peer,rate_gbps,utilisation,priority,tx_packets,tx_bytes,drops,lost,pause_sent,\
             pause_received,paused_us,queue_high_water_bytes,trimmed,returned"
        );
        assert_eq!(lines[3], "RoCE + PFC,s0,2,s1,40,0.25,0,300,318600,1,1,2,3,0.0875,231003,0,0");
    }

    #[test]
    fn an_error_of_an_unwritable_file_names_the_file() {
        let (scenario, reports) = fixture::two_runs();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("ports.csv")).unwrap();
        let summary = summarise(&scenario, &reports);
        let error = write_all(dir.path(), &scenario, &reports, &summary, &[]).unwrap_err();
        assert!(error.to_string().contains("ports.csv"), "{error}");
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["ports.csv"], "neither a temporary file nor a part of the set is left");
    }
}
