//! The queue pairs as a table of text, and as a JSON document.

use super::Choice;
use super::rows::{Rates, Row};
use crate::columns::aligned;
use rnic_endpoint::statistics::{MAX_PROCESSES, Processes};
use rnic_results::text::{count, duration, round6};
use serde_json::{Value, json};
use std::time::Duration;

/// The headings of the columns, and whether a column is aligned to the right.
pub(super) const COLUMNS: [(&str, bool); 15] = [
    ("PID", true),
    ("PROGRAM", false),
    ("DEVICE", false),
    ("QP", false),
    ("TYPE", false),
    ("STATE", false),
    ("PEER", false),
    ("SEND pkt/s", true),
    ("B/s", true),
    ("RECV pkt/s", true),
    ("B/s", true),
    ("RETR/s", true),
    ("WINDOW", true),
    ("RTT", true),
    ("OUT", true),
];

/// Maximum characters of a name in the table.
const MAX_NAME: usize = 16;
/// Maximum number of processes that do not answer, each of which has a line below the table.
const MAX_SILENT: usize = 5;

/// The cells of a row, in the order of [`COLUMNS`].
pub(super) fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let short = |text: &str| text.chars().take(MAX_NAME).collect::<String>();
    let qp = &row.qp;
    let peer = qp.peer.map(|(address, qpn)| format!("{address} {qpn:#08x}"));
    let rate = |of: fn(&Rates) -> f64| row.rates.as_ref().map_or_else(none, |rates| brief(of(rates)));
    let sender = qp.sender.as_ref();
    let rtt = sender.and_then(|sender| sender.rtt_ns);
    [
        row.pid.map_or_else(|| "?".to_string(), |pid| pid.to_string()),
        short(&row.program),
        short(&row.device),
        format!("{:#08x}", qp.qpn),
        short(&qp.service),
        short(&qp.state),
        peer.unwrap_or_else(none),
        rate(|rates| rates.packets_sent),
        rate(|rates| rates.bytes_sent),
        rate(|rates| rates.packets_received),
        rate(|rates| rates.bytes_received),
        rate(|rates| rates.retransmitted),
        sender.map_or_else(none, |sender| format!("{}/{}", sender.in_flight, sender.window)),
        rtt.map_or_else(none, |ns| duration(ns as f64 / 1e3)),
        qp.sends.to_string(),
    ]
}

fn none() -> String {
    "-".to_string()
}

/// A rate with three digits and a prefix of powers of ten: `0`, `999`, `1.23k`, `45.6M`.
pub(super) fn brief(value: f64) -> String {
    let (mut value, mut prefixes) = (value, ["", "k", "M", "G", "T"].into_iter().peekable());
    // 999.5 would be rounded to 1000.
    while value >= 999.5 && prefixes.len() > 1 {
        value /= 1e3;
        prefixes.next();
    }
    let prefix = prefixes.next().unwrap_or_default();
    match value {
        _ if value < 9.995 && (!prefix.is_empty() || value.fract() > 0.0) => format!("{value:.2}{prefix}"),
        _ if value < 99.95 && !prefix.is_empty() => format!("{value:.1}{prefix}"),
        _ => format!("{value:.0}{prefix}"),
    }
}

/// The table as lines of text, with a heading.
pub(super) fn lines(rows: &[Row]) -> Vec<String> {
    let head = COLUMNS.map(|(name, _)| name.to_string());
    let all: Vec<_> = std::iter::once(head).chain(rows.iter().map(cells)).collect();
    aligned(&all, |column| COLUMNS[column].1)
}

/// What is to be said beside the table.
pub(super) fn notes(all: &Processes, choice: &Choice) -> Vec<String> {
    let who = |pid: Option<u32>| pid.map_or_else(|| "a process".to_string(), |pid| format!("process {pid}"));
    let mut notes = Vec::new();
    for silent in all.silent.iter().take(MAX_SILENT) {
        notes.push(format!("{} {}", who(silent.pid), silent.why.text()));
    }
    if all.silent.len() > MAX_SILENT {
        notes.push(format!("{} more processes have no report", all.silent.len() - MAX_SILENT));
    }
    for process in all.found.iter().filter(|process| process.report.is_truncated) {
        notes.push(format!("{} has more devices or queue pairs than a report has", who(process.pid)));
    }
    if all.of_others > 0 {
        notes.push(format!("processes of other users, which are not shown: {}", count(all.of_others as u64)));
    }
    if all.omitted > 0 {
        notes.push(format!("processes beyond {MAX_PROCESSES}, which are not shown: {}", count(all.omitted as u64)));
    }
    let any = all.found.iter().any(|process| choice.shows(process.pid, &process.report.program));
    if !any {
        notes.push(match choice.processes.is_empty() {
            true => "no process publishes queue pairs; start a program with `rnic verbs run`".to_string(),
            false => format!("no process fits {}", choice.processes.join(", ")),
        });
    }
    notes
}

/// The JSON document of a reading.
pub(super) fn document(rows: &[Row], all: &Processes, interval: Duration) -> Value {
    let silent = all.silent.iter().map(|silent| json!({ "pid": silent.pid, "why": silent.why.text() }));
    let truncated = all.found.iter().filter(|process| process.report.is_truncated).map(|process| process.pid);
    json!({
        "interval_s": interval.as_secs_f64(),
        "queue_pairs": rows.iter().map(queue_pair).collect::<Vec<_>>(),
        "silent": silent.collect::<Vec<_>>(),
        "truncated": truncated.collect::<Vec<_>>(),
        "processes_of_others": all.of_others,
        "omitted_processes": all.omitted,
    })
}

fn queue_pair(row: &Row) -> Value {
    let qp = &row.qp;
    let rate = |of: fn(&Rates) -> f64| row.rates.as_ref().map(|rates| round6(of(rates)));
    let sender = qp.sender.as_ref();
    json!({
        "pid": row.pid,
        "program": row.program,
        "user": row.user,
        "device": row.device,
        "address": row.address,
        "qpn": qp.qpn,
        "service": qp.service,
        "state": qp.state,
        "peer": qp.peer.map(|(address, qpn)| json!({ "address": address, "qpn": qpn })),
        "packets_sent_per_s": rate(|rates| rates.packets_sent),
        "bytes_sent_per_s": rate(|rates| rates.bytes_sent),
        "packets_received_per_s": rate(|rates| rates.packets_received),
        "bytes_received_per_s": rate(|rates| rates.bytes_received),
        "retransmitted_per_s": rate(|rates| rates.retransmitted),
        "packets_sent": qp.packets_sent,
        "bytes_sent": qp.bytes_sent,
        "packets_received": qp.packets_received,
        "bytes_received": qp.bytes_received,
        "retransmitted": qp.retransmitted,
        "window": sender.map(|sender| sender.window),
        "in_flight": sender.map(|sender| sender.in_flight),
        "rate_bps": sender.map(|sender| sender.rate_bps),
        "rtt_us": sender.and_then(|sender| sender.rtt_ns).map(|ns| ns as f64 / 1e3),
        "outstanding": qp.sends,
        "receives": qp.receives,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Key;
    use super::super::rows::Meter;
    use super::super::rows::tests::{pair, process};
    use super::*;
    use rnic_endpoint::statistics::{Silence, Silent};

    fn reading() -> (Vec<Row>, Processes) {
        let mut meter = Meter::default();
        let at = |time, packets| {
            let mut idle = pair(0x12, 0);
            (idle.peer, idle.sender, idle.service, idle.state) = (None, None, "ud".to_string(), "INIT".to_string());
            let found = vec![process(42, time, vec![pair(0xabcdef, packets)]), process(7, time, vec![idle])];
            Processes { found, ..Processes::default() }
        };
        meter.rows(&at(0, 0));
        let all = at(1_000_000_000, 123_456);
        (meter.rows(&all), all)
    }

    #[test]
    fn the_table_has_a_line_for_each_queue_pair() {
        let expected = "\
PID  PROGRAM    DEVICE  QP        TYPE  STATE  PEER               SEND pkt/s   B/s  RECV pkt/s  B/s  RETR/s  WINDOW      RTT  OUT
 42  program42  rnic0   0xabcdef  rc    RTS    10.0.0.2 0x000abc        123k  123M       30.9k    0   61.7k    5/64  12.3 us    3
  7  program7   rnic0   0x000012  ud    INIT   -                           0     0           0    0       0       -        -    3";
        assert_eq!(lines(&reading().0).join("\n"), expected);
    }

    #[test]
    fn rates_have_three_digits() {
        let of = [0.0, 7.0, 7.25, 999.4, 999.6, 1_234.0, 45_600_000.0, 9.99e14, 1e20].map(brief);
        assert_eq!(of, ["0", "7", "7.25", "999", "1.00k", "1.23k", "45.6M", "999T", "100000000T"]);
    }

    #[test]
    fn notes_say_what_is_missing() {
        let choice = Choice { processes: Vec::new(), sort: Key::Traffic };
        let (_, mut all) = reading();
        assert!(notes(&all, &choice).is_empty());
        all.silent = vec![Silent { pid: Some(3), why: Silence::NoAnswer }; 7];
        (all.of_others, all.omitted) = (2_000, 1);
        all.found[0].report.is_truncated = true;
        let said = notes(&all, &choice);
        assert_eq!(said.len(), MAX_SILENT + 4, "{said:?}");
        assert_eq!(
            (said[0].as_str(), said[5].as_str()),
            ("process 3 does not answer", "2 more processes have no report")
        );
        assert_eq!(said[6], "process 42 has more devices or queue pairs than a report has");
        assert_eq!(said[7], "processes of other users, which are not shown: 2,000");
        let none = Choice { processes: vec!["x".to_string()], ..choice };
        assert_eq!(notes(&reading().1, &none), ["no process fits x"]);
    }

    #[test]
    fn the_document_has_rates_and_counters() {
        let (rows, all) = reading();
        let document = document(&rows, &all, Duration::from_millis(1_500));
        let qp = &document["queue_pairs"][0];
        assert_eq!(
            (document["interval_s"].as_f64(), qp["bytes_sent_per_s"].as_f64()),
            (Some(1.5), Some(123_456_000.0))
        );
        assert_eq!(qp["peer"], json!({ "address": "10.0.0.2", "qpn": 0xabc }));
        assert_eq!(
            (qp["rtt_us"].as_f64(), qp["window"].as_u64(), qp["pid"].as_u64()),
            (Some(12.34), Some(64), Some(42))
        );
        assert_eq!(document["queue_pairs"][1]["window"], Value::Null);
    }
}
