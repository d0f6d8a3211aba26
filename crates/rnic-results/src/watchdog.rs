//! Pause storms that the watchdogs of a run found, with the actions: the file `watchdog.csv`, the list in
//! `summary.json`, and sentences.

use super::pauses::{host_name, port_name};
use super::text::{count, duration, exact_us, round6};
use rnic_spec::{RunOutput, RunRecord, Scenario};
use rnic_transport::Time;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Columns of `watchdog.csv`, one row per run and storm. `priority` is empty for the watchdog of a NIC, `restored_us`
/// if the port was not restored before the end of the run.
const COLUMNS: [&str; 7] = ["run", "port", "priority", "action", "detected_us", "restored_us", "dropped"];
/// Maximum number of storms that are described in a sentence each.
const NAMED: usize = 3;

/// A pause storm that a watchdog found, with the name of the port instead of its index.
#[derive(Clone, PartialEq, Debug)]
pub struct WatchdogSummary {
    /// Name of the paused port of a switch, or of the NIC's host.
    pub port: String,
    /// The paused priority; `None` for the watchdog of a NIC.
    pub priority: Option<u8>,
    /// The action of the watchdog: `drop`, `forward` or `alert` for a switch; `stop` for a NIC, whose pauses the
    /// watchdog stops.
    pub action: &'static str,
    /// Simulated time at which the watchdog found the storm.
    pub detected: Time,
    /// Simulated time at which the port was restored; `None` if it was not restored.
    pub restored: Option<Time>,
    /// Number of packets that the action dropped.
    pub dropped: u64,
}

/// The storms that the watchdogs of a run found.
pub(super) fn summarise(output: &RunOutput) -> Vec<WatchdogSummary> {
    let summary = |record: &rnic_spec::WatchdogRecord| WatchdogSummary {
        port: match record.action {
            Some(_) => port_name(&output.ports, record.port),
            None => host_name(&output.ports, record.port),
        },
        priority: record.priority,
        action: record.action.map_or("stop", |action| action.name()),
        detected: record.detected,
        restored: record.restored,
        dropped: record.dropped,
    };
    output.watchdog.iter().map(summary).collect()
}

/// The storms as a JSON array.
pub(super) fn to_json(storms: &[WatchdogSummary]) -> Value {
    let storm = |storm: &WatchdogSummary| {
        json!({
            "port": storm.port,
            "priority": storm.priority,
            "action": storm.action,
            "detected_us": round6(storm.detected.as_us()),
            "restored_us": storm.restored.map(|time| round6(time.as_us())),
            "dropped": storm.dropped,
        })
    };
    storms.iter().map(storm).collect()
}

/// A sentence for each of the first storms, and one for the others.
pub(super) fn sentences(storms: &[WatchdogSummary]) -> Vec<String> {
    let mut sentences: Vec<String> = storms.iter().take(NAMED).map(sentence).collect();
    if storms.len() > NAMED {
        sentences
            .push(format!("the watchdogs found {} more storms (watchdog.csv)", count((storms.len() - NAMED) as u64)));
    }
    sentences
}

fn sentence(storm: &WatchdogSummary) -> String {
    let at = duration(storm.detected.as_us());
    let until = match storm.restored {
        Some(restored) => format!("until {}", duration(restored.as_us())),
        None => "until the end of the run".to_string(),
    };
    match storm.action {
        "stop" => format!("the watchdog of the NIC of {} stopped its pauses at {at}", storm.port),
        "drop" => {
            let packets =
                if storm.dropped == 1 { "1 packet".to_string() } else { format!("{} packets", count(storm.dropped)) };
            format!("the watchdog found a storm at {} at {at} and dropped {packets} {until}", storm.port)
        }
        "forward" => format!("the watchdog found a storm at {} at {at} and ignored its pauses {until}", storm.port),
        _ => format!("the watchdog found a storm at {} at {at}; it lasted {until}", storm.port),
    }
}

/// Whether a watchdog of any run found a storm.
pub(super) fn any(reports: &[RunRecord]) -> bool {
    reports.iter().any(|report| !report.output.watchdog.is_empty())
}

/// Writes `watchdog.csv`.
pub(super) fn write(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        for storm in summarise(&report.output) {
            csv.write_record([
                run.name.as_str(),
                &storm.port,
                &storm.priority.map_or(String::new(), |priority| priority.to_string()),
                storm.action,
                &exact_us(storm.detected),
                &storm.restored.map_or(String::new(), exact_us),
                &storm.dropped.to_string(),
            ])?;
        }
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, summarise as summarise_all};
    use super::*;
    use rnic_spec::{WatchdogAction, WatchdogRecord};

    #[test]
    fn storms_are_in_the_file_in_the_summary_and_in_sentences() {
        let (scenario, mut reports) = fixture::two_runs();
        assert!(!any(&reports));
        let record = |action, restored: Option<u64>| WatchdogRecord {
            port: 0,
            priority: action,
            action: action.map(|_| WatchdogAction::Drop),
            detected: Time::from_ms(3),
            restored: restored.map(Time::from_ms),
            dropped: 17,
        };
        reports[0].output.watchdog = vec![record(None, None), record(Some(0), Some(5))];
        let (port, host) = (port_name(&reports[0].output.ports, 0), host_name(&reports[0].output.ports, 0));
        let mut csv = Vec::new();
        write(&mut csv, &scenario, &reports).unwrap();
        let run = &scenario.runs[0].name;
        let rows = format!("{}\n{run},{host},,stop,3000,,17\n{run},{port},0,drop,3000,5000,17\n", COLUMNS.join(","));
        assert_eq!(String::from_utf8(csv).unwrap().replace('"', ""), rows);
        let summary = summarise_all(&scenario, &reports);
        let json = summary.to_json(false);
        let own = &json["runs"][0]["watchdog"];
        assert_eq!((own[1]["restored_us"].as_f64(), own[0]["action"].as_str()), (Some(5000.0), Some("stop")));
        assert!(json["runs"][1].get("watchdog").is_none());
        assert_eq!(
            sentences(&summary.runs[0].watchdog),
            [
                format!("the watchdog of the NIC of {host} stopped its pauses at 3.00 ms"),
                format!("the watchdog found a storm at {port} at 3.00 ms and dropped 17 packets until 5.00 ms"),
            ]
        );
    }
}
