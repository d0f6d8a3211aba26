//! The command `rnic top`, on the queue pairs of `rnic perf` in network namespaces of the tests' own.

use rnic_netns::{KilledChild, Namespace};
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn rnic(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The output of a command that ends, in a namespace.
fn run(namespace: &Namespace, arguments: &[&str]) -> Output {
    namespace.run(|| rnic(arguments).output().unwrap())
}

fn document(namespace: &Namespace, arguments: &[&str]) -> Value {
    let all = [&["top", "--json", "--once", "--interval", "200ms"], arguments].concat();
    let output = run(namespace, &all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Both sides of a measurement in one process, with two queue pairs at each.
fn measurement(namespace: &Namespace, arguments: &[&str]) -> KilledChild {
    let all = [&["perf", "--serve", "-q", "2", "-s", "64KiB"], arguments].concat();
    namespace.child(rnic(&all).stdout(Stdio::null()).stderr(Stdio::null())).unwrap()
}

/// Waits until the table has `count` queue pairs that satisfy the condition.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a condition that never holds fails the test after a minute")]
fn until(namespace: &Namespace, count: usize, holds: impl Fn(&Value) -> bool) -> Vec<Value> {
    let begin = Instant::now();
    loop {
        let document = document(namespace, &[]);
        let pairs = document["queue_pairs"].as_array().unwrap();
        let found: Vec<Value> = pairs.iter().filter(|pair| holds(pair)).cloned().collect();
        if found.len() == count {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{document}");
    }
}

fn number(pair: &Value, name: &str) -> f64 {
    pair[name].as_f64().unwrap_or(-1.0)
}

/// The table has the queue pairs of a measurement with their rates and round-trip times. A filter leaves other
/// processes out. When the process is killed, it disappears.
#[test]
fn the_queue_pairs_of_a_measurement_are_shown_until_it_ends() {
    rnic_netns::with_pair(1_500, |pair| {
        let namespace = &pair.a;
        namespace.ip("link set lo up").unwrap();
        let mut measures = measurement(namespace, &["--service", "irn", "--loss", "1%"]);
        let pid = u64::from(measures.id());
        let senders = until(namespace, 2, |pair| {
            number(pair, "bytes_sent_per_s") > 1e5
                && number(pair, "rtt_us") > 0.0
                && number(pair, "retransmitted") > 0.0
        });
        let receivers = until(namespace, 2, |pair| number(pair, "bytes_received_per_s") > 1e5);
        for sender in &senders {
            assert_eq!((sender["pid"].as_u64(), sender["program"].as_str()), (Some(pid), Some("rnic")));
            assert_eq!((sender["service"].as_str(), sender["state"].as_str()), (Some("irn"), Some("RTS")));
            assert_eq!(sender["address"], "127.0.0.1");
            let peer = receivers.iter().find(|receiver| receiver["qpn"] == sender["peer"]["qpn"]).unwrap();
            assert_eq!(peer["peer"]["qpn"], sender["qpn"]);
            assert!(number(sender, "outstanding") > 0.0 && number(sender, "in_flight") <= number(sender, "window"));
        }
        assert_eq!(document(namespace, &["--process", &pid.to_string()])["queue_pairs"].as_array().unwrap().len(), 4);
        let none = document(namespace, &["--process", "no such program"]);
        assert_eq!(none["queue_pairs"].as_array().unwrap().len(), 0);

        let table = run(namespace, &["top", "--once", "--sort", "send", "--interval", "200ms"]);
        let text = String::from_utf8(table.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 5 && lines[0].trim_start().starts_with("PID  PROGRAM"), "{text}");
        assert!(lines[1].contains(&pid.to_string()) && lines[1].contains("irn   RTS    127.0.0.1 0x"), "{text}");
        // Another namespace has other processes.
        assert_eq!(document(&pair.b, &[])["queue_pairs"].as_array().unwrap().len(), 0);

        measures.kill().unwrap();
        measures.wait().unwrap();
        let after = run(namespace, &["top", "--once", "--interval", "100ms"]);
        let text = String::from_utf8(after.stdout).unwrap();
        assert!(text.contains("no process publishes queue pairs"), "{text}");
    });
}

/// Without a terminal the command says what to do, and wrong arguments are refused.
#[test]
fn arguments_are_checked() {
    let refused = |arguments: &[&str]| {
        let output = rnic(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["top"]).contains("--once prints one table, --json documents"));
    assert!(refused(&["top", "--once", "--process", ""]).contains("--process is empty"));
    assert!(refused(&["top", "--once", "--interval", "1ms"]).contains("100 ms to 24 h"));
    assert!(refused(&["top", "--once", "--sort", "name"]).contains("retransmissions"));
}

/// With `--json` there is a document for each interval, until a signal ends the command with success.
#[test]
fn documents_follow_each_other_until_a_signal() {
    use std::io::{BufRead, BufReader};
    rnic_netns::with_pair(1_500, |pair| {
        let mut command = rnic(&["top", "--json", "--interval", "100ms"]);
        let mut child = pair.a.child(command.stdout(Stdio::piped())).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..3 {
            let document: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            assert_eq!(document["interval_s"].as_f64(), Some(0.1));
        }
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        assert_eq!(child.wait().unwrap().code(), Some(0));
    });
}
