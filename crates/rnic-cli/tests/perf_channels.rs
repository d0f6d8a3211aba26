//! The failures that a channel of a host transport between two processes survives, and how it ends, as a user of
//! `rnic perf` sees it.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn rnic(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.arg("perf").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server on the loopback address, which is killed at the end of the test.
struct Server {
    child: Child,
    _errors: BufReader<ChildStderr>,
    port: String,
}

impl Server {
    fn start() -> Server {
        let mut child = rnic(&["--bind", "127.0.0.1", "-p", "0", "--roce-port", "0"]).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let port = line.strip_prefix("waiting for clients at TCP port ").and_then(|rest| rest.split(';').next());
        let port = port.unwrap_or_else(|| panic!("{line}")).to_string();
        Server { child, _errors: errors, port }
    }

    fn send(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    fn client(&self, arguments: &[&str]) -> Child {
        rnic(&[&["127.0.0.1", "-p", &self.port, "--roce-port", "0"], arguments].concat()).spawn().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

#[expect(clippy::disallowed_methods, reason = "the time of another process is measured")]
fn now() -> Instant {
    Instant::now()
}

fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The peer's process is stopped (SIGSTOP) for 5 s in the middle of a measurement, and then continues (SIGCONT): with
/// the default settings the measurement completes. Without `--verify` a message is always outstanding, so a queue pair
/// or a path fails during the stop.
#[test]
fn a_peer_that_is_stopped_for_5_s_is_survived() {
    let run = |service: &'static str| {
        let server = Server::start();
        let more = ["--service", service, "-s", "256 KiB", "-D", "7", "--format", "json"];
        let client = server.client(&more);
        pause(1_000);
        server.send("-STOP");
        pause(5_000);
        server.send("-CONT");
        document(&client.wait_with_output().unwrap())
    };
    let both = ["rogue", "multipath"].map(|service| std::thread::spawn(move || run(service)));
    for (service, report) in ["rogue", "multipath"].into_iter().zip(both.map(|run| run.join().unwrap())) {
        let row = &report["rows"][0];
        let recoveries = row["client"]["counts"]["channel_recoveries"].as_u64().unwrap();
        assert!(recoveries >= 1, "{service}: {report}");
        assert!(row["messages"].as_u64().unwrap() > 10, "{service}: {report}");
    }
}

/// A peer whose process is killed ends the channel within the time of `--give-up-after`, with an error in one sentence.
#[test]
fn a_peer_that_is_killed_ends_the_command_in_time() {
    let run = |service: &'static str| {
        let mut server = Server::start();
        let client = server.client(&["--service", service, "-s", "64 KiB", "-D", "60", "--give-up-after", "1"]);
        pause(1_000);
        server.child.kill().unwrap();
        let killed = now();
        let output = client.wait_with_output().unwrap();
        (output, killed.elapsed())
    };
    let both = ["rogue", "multipath"].map(|service| std::thread::spawn(move || run(service)));
    for (service, run) in ["rogue", "multipath"].into_iter().zip(both) {
        let (output, elapsed) = run.join().unwrap();
        assert_eq!(output.status.code(), Some(1), "{service}: {output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.starts_with("error: ") && error.trim_end().lines().count() == 1, "{service}: {error}");
        // The NIC of RoGUE retries for less than a second before; the rest is for a busy machine.
        assert!(elapsed < Duration::from_secs(10), "{service}: {elapsed:?}");
    }
}

/// Credit, CE marks and an entropy per request are settings for the user, and a setting without effect is refused.
#[test]
fn credit_marks_and_entropy_are_options() {
    let server = Server::start();
    for more in
        [&["--credit", "--cc", "none", "--line-rate", "1 Gbps"][..], &["--marks", "--cc", "dctcp"], &["--spread"]]
    {
        let arguments = ["--service", "multipath", "-s", "256 KiB", "-n", "60", "--verify", "--format", "json"];
        let report = document(&server.client(&[&arguments, more].concat()).wait_with_output().unwrap());
        let row = &report["rows"][0];
        assert_eq!(row["messages"], 60, "{more:?}: {report}");
        if more[0] == "--credit" {
            let rate = row["bytes_per_second"].as_f64().unwrap();
            assert!(rate * 8.0 < 1.1e9, "the receiver grants the rate of its link: {report}");
        }
    }
    let refused = server.client(&["--service", "rogue", "--spread"]).wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let error = String::from_utf8(refused.stderr).unwrap();
    let expected = "rogue has neither credit nor marks nor spread; they go with the service multipath";
    assert!(error.contains(expected), "{error}");
}
