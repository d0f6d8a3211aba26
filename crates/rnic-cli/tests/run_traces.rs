//! Tests of `rnic run --trace` and `--trace-packets`: the files agree with the run's counters and with each other, and
//! unsuitable options are rejected with a sentence.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Three hosts send to host 0 at the same time, with PFC and without.
const SCENARIO: &str = r#"title = "an incast"
[fabric]
topology = "single-switch"
hosts = 4
rate = "40 Gbps"
delay = "1 us"
switch = { buffer = "100 KB" }

[traffic]
pattern = "incast"
senders = 3
receiver = 0
total = "3 MB"
repeats = 1

[[run]]
name = "with PFC"
transport = "roce"
pfc = true

[[run]]
name = "lossy"
transport = "irn"
pfc = false
set = { "fabric.switch.buffer" = "20 KB" }
"#;

fn rnic(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs the scenario with these further arguments.
fn run(more: &[&str]) -> (tempfile::TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), SCENARIO).unwrap();
    let output = rnic(folder.path(), &[&["run", "a.toml"], more].concat());
    (folder, output)
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// How often a text is in a file.
fn count(file: &Path, text: &str) -> usize {
    let bytes = fs::read(file).unwrap();
    bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
}

#[test]
fn each_run_has_a_trace_with_its_flows_queues_and_pauses() {
    let (folder, output) = run(&["--trace", "t.pftrace"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("t-with_PFC.pftrace, t-lossy.pftrace"), "{}", stderr(&output));
    let [pfc, lossy] = ["t-with_PFC.pftrace", "t-lossy.pftrace"].map(|name| folder.path().join(name));
    for (file, has_pauses) in [(&pfc, true), (&lossy, false)] {
        for flow in 0..3 {
            assert_eq!(count(file, &format!("flow {flow} to h0")), 1, "{}", file.display());
        }
        assert_eq!(count(file, "pauses of priority 0") > 0, has_pauses);
        assert!(count(file, "utilisation") > 0 && count(file, "queue") > 0);
    }
    assert!(count(&lossy, "dropped") > 0);
    let first = fs::read(&pfc).unwrap();
    let (again, _) = run(&["--trace", "t.pftrace", "--threads", "1"]);
    assert_eq!(first, fs::read(again.path().join("t-with_PFC.pftrace")).unwrap(), "the bytes depend on the threads");
}

#[test]
fn a_trace_does_not_change_the_results() {
    let of = |more: &[&str]| {
        let (folder, output) = run(&[&["--run", "lossy", "--quiet"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        fs::read_to_string(folder.path().join("out/a/ports.csv")).unwrap()
    };
    assert_eq!(of(&[]), of(&["--trace", "t.pftrace", "--trace-packets", "flow=1"]));
}

#[test]
fn a_full_trace_is_announced() {
    let long = ["--run", "lossy", "--trace", "t.pftrace", "--trace-size", "1", "--set", "traffic.total=\"80 MB\""];
    let (folder, output) = run(&[&long[..], &["--trace-interval-ns", "100"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("`t.pftrace` is full; it lacks queues from"), "{}", stderr(&output));
    let size = fs::metadata(folder.path().join("t.pftrace")).unwrap().len();
    assert!((400_000..=1_000_000).contains(&size), "{size}");
}

#[test]
fn the_life_of_packets_agrees_with_the_capture_and_the_counters() {
    let (folder, output) = run(&["--run", "lossy", "--trace-packets", "flow=1", "--flows", "csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("Packets of flow 1 from h"), "{printed}");
    let table = fs::read_to_string(folder.path().join("out/a/packets.csv")).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let mut events: BTreeMap<&str, usize> = BTreeMap::new();
    rows.iter().for_each(|row| *events.entry(row[3]).or_default() += 1);
    assert!(rows.iter().all(|row| row[4] == "1") && events["dropped"] > 0 && events["queued"] > 0, "{events:?}");
    // Every packet that is sent arrives, because links lose none; what arrives at the switch leaves it or is dropped.
    assert_eq!(events["sent"], events["arrived"]);
    let at = |node: &str, event: &str| rows.iter().filter(|row| row[1] == node && row[3] == event).count();
    assert_eq!(at("s0", "arrived"), at("s0", "sent") + at("s0", "dropped"));
    // The capture has the same packets.
    let decoded = rnic(folder.path(), &["decode", "out/a/packets.pcapng", "--format", "json"]);
    let packets = String::from_utf8(decoded.stdout).unwrap();
    assert!(packets.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert_eq!(packets.lines().count(), events["sent"]);
    // Retransmissions are packets too: 1 MB is 1,000 or more packets of at most 1,000 B.
    let flows = fs::read_to_string(folder.path().join("out/a/flows.csv")).unwrap();
    let names: Vec<&str> = flows.lines().next().unwrap().split(',').collect();
    let flow: Vec<&str> = flows.lines().nth(2).unwrap().split(',').collect();
    let column = |name: &str| flow[names.iter().position(|of| *of == name).unwrap()];
    let host = format!("h{}", column("src"));
    let sent = rows.iter().filter(|row| row[1] == host && row[3] == "sent" && row[5] == "data");
    let psns: std::collections::BTreeSet<&str> = sent.clone().map(|row| row[6]).collect();
    assert_eq!(sent.count(), psns.len() + column("retransmitted").parse::<usize>().unwrap());
}

#[test]
fn a_run_that_cannot_be_set_up_leaves_no_file() {
    let (folder, output) = run(&["--trace", "t.pftrace", "--set", "fabric.mtu=\"9 MB\""]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(!folder.path().join("t-lossy.pftrace").exists());
}

#[test]
fn a_trace_and_a_capture_of_one_run() {
    let (folder, output) = run(&["--run", "lossy", "--trace", "t.pftrace", "--pcap", "h0:s0=t.pcapng"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("t.pcapng, t.pftrace"), "{}", stderr(&output));
    assert_eq!(count(&folder.path().join("t.pftrace"), "flow 2 to h0"), 1);
}

#[test]
fn the_packets_of_a_link_are_limited() {
    let (folder, output) =
        run(&["--run", "with PFC", "--trace-packets", "link=h1:s0", "--trace-packets-limit", "50", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok(), "only the document is on standard output");
    let table = fs::read_to_string(folder.path().join("out/a/packets.csv")).unwrap();
    assert_eq!(table.lines().filter(|line| line.contains(",sent,")).count(), 50);
}

#[test]
fn unsuitable_options_are_rejected() {
    let lossy = ["--run", "lossy"];
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--trace-packets", "flow=1"], 2, "choose one with --run: \"with PFC\", \"lossy\""),
        (&[lossy[0], lossy[1], "--trace-packets", "flow=3"], 2, "no flow has the id 3; accepted: 0 to 2"),
        (&[lossy[0], lossy[1], "--trace-packets", "flow=-1"], 2, "accepted: a whole number, such as 0"),
        (&[lossy[0], lossy[1], "--trace-packets", "h0:s0"], 2, "accepted: flow=ID or link=A:B"),
        (&[lossy[0], lossy[1], "--trace-packets", "link=h0:x"], 2, "no node is called \"x\""),
        (&["--trace", "no/such/t.pftrace"], 1, "cannot write `no/such/t-with_PFC.pftrace`"),
        (&["--trace", "t.pftrace", "--resume"], 2, "cannot be used with"),
        (&["--trace-size", "5"], 2, "--trace <FILE.pftrace>"),
    ];
    for (arguments, code, sentence) in cases {
        let (folder, output) = run(arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(sentence), "{arguments:?}: {text}");
        assert!(!folder.path().join("out/a/packets.csv").exists());
    }
}
