//! Tests of `rnic ping` as a user sees it: output, exit codes, Ctrl-C, errors.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

fn rnic(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// A responder on the loopback address, with any free ports.
struct Responder {
    child: Child,
    errors: BufReader<ChildStderr>,
    port: String,
}

impl Responder {
    fn start() -> Responder {
        let mut child =
            rnic(&["ping", "--listen", "--bind", "127.0.0.1", "-p", "0", "--roce-port", "0"]).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let port = line.strip_prefix("waiting for clients at TCP port ").and_then(|rest| rest.split(';').next());
        let port = port.unwrap_or_else(|| panic!("{line}")).to_string();
        Responder { child, errors, port }
    }

    /// Probes this responder.
    fn ping(&self, arguments: &[&str]) -> Command {
        let mut command = rnic(&["ping", "127.0.0.1", "-p", &self.port, "--roce-port", "0"]);
        command.args(arguments);
        command
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(output: &Output, code: i32) -> &str {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    text(&output.stderr)
}

/// Probes on reliable connections: each path has its own source port, and the responder's software does not take part.
#[test]
fn reliable_connections_carry_probes() {
    let responder = Responder::start();
    for transport in ["rc-send", "rc-write"] {
        let arguments = ["-c", "40", "-i", "0.005", "--paths", "4", "--transport", transport, "--format", "json"];
        let output = responder.ping(&arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&summary["transport"], &summary["answered"]), (&transport.into(), &40.into()), "{summary}");
        assert_eq!(summary["responder_us"]["max"].as_f64().map(|us| us < 0.01), Some(true), "{summary}");
        assert!(summary["network_us"]["p50"].as_f64() > Some(1.0), "{summary}");
        let paths = summary["paths"].as_array().unwrap();
        let ports: std::collections::BTreeSet<u64> = paths.iter().map(|p| p["source_port"].as_u64().unwrap()).collect();
        assert!(ports.len() == 4 && paths.iter().all(|path| path["answered"] == 10), "{summary}");
    }
}

#[test]
fn probes_and_a_summary_are_printed() {
    let mut responder = Responder::start();
    let output = responder.ping(&["-c", "6", "-i", "0.005", "--paths", "3"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert!(lines[0].starts_with("127.0.0.1: 127.0.0.1:") && lines[0].ends_with("probes of 512 bytes over 3 paths"));
    for (sequence, line) in lines[1..7].iter().enumerate() {
        assert!(line.starts_with(&format!("seq={sequence} path={} port=", sequence % 3)), "{line}");
        assert!([" rtt=", " responder=", " prober=", " total="].iter().all(|part| line.contains(part)), "{line}");
    }
    assert_eq!(lines[7..9], ["--- 127.0.0.1 ---", "6 probes, 6 responses, 0.000 % lost"]);
    for (line, name) in lines[9..].iter().zip(["us ", "network RTT", "responder", "prober", "total", "network RTT by"])
    {
        assert!(line.starts_with(name), "{line}");
    }
    assert_eq!(lines.len(), 18);
    assert!(responder.line().ends_with(": a session begins\n"));
    assert!(responder.line().ends_with(": the session ends\n"));
    send("-INT", &responder.child);
    assert_eq!(responder.line(), "6 probes answered, 0 beyond the rate, 0 datagrams of strangers\n");
    assert_eq!(responder.child.wait().unwrap().code(), Some(0));
}

#[test]
fn json_is_one_document() {
    let responder = Responder::start();
    let arguments = ["-c", "4", "-i", "5ms", "--format", "json", "-s", "136", "--dscp", "26"];
    let output = responder.ping(&arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["probes"], &summary["answered"], &summary["size"]), (&4.into(), &4.into(), &136.into()));
    assert_eq!(summary["host"], "127.0.0.1");
    assert_eq!(summary["errors"], serde_json::json!({"gone": 0, "timeout": 0, "unreachable": 0}));
    for times in ["network_us", "responder_us", "prober_us", "total_us"] {
        let of = |part: &str| summary[times][part].as_f64().unwrap();
        assert!(0.0 < of("min") && of("min") <= of("p50") && of("p999") <= of("max"), "{times}: {summary}");
    }
    assert_eq!(summary["paths"].as_array().unwrap().len(), 1);
}

/// Reads lines until one begins with `start`.
fn read_until(out: &mut BufReader<ChildStdout>, start: &str) {
    let mut line = String::new();
    while !line.starts_with(start) {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "no line begins with {start}");
    }
}

#[test]
fn ctrl_c_prints_the_summary() {
    let responder = Responder::start();
    // Without a number of probes Ctrl-C is the usual end; with one, the ping is incomplete.
    for (arguments, code) in [(&["-i", "5ms"][..], 0), (&["-i", "5ms", "-c", "1000000"][..], 130)] {
        let mut child = responder.ping(arguments).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        read_until(&mut out, "seq=3");
        send("-INT", &child);
        read_until(&mut out, "--- 127.0.0.1 ---");
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert!(rest.contains(" responses, 0.000 % lost\n") && rest.contains("network RTT"), "{rest}");
        let output = child.wait_with_output().unwrap();
        let message = failed(&output, code);
        assert_eq!(message.contains("of 1000000 probes have a result"), code == 130, "{message}");
    }
}

#[test]
fn the_end_of_the_responder_is_an_error() {
    let mut responder = Responder::start();
    let mut child = responder.ping(&["-i", "5ms"]).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    read_until(&mut out, "seq=3");
    send("-TERM", &responder.child);
    responder.child.wait().unwrap();
    read_until(&mut out, "--- 127.0.0.1 ---");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.contains(" responses, "), "{rest}");
    let output = child.wait_with_output().unwrap();
    assert_eq!(failed(&output, 1), "error: the responder at 127.0.0.1 ended\n");
}

#[test]
fn what_is_wrong_gets_one_sentence() {
    let responder = Responder::start();
    let port = responder.port.as_str();
    for (arguments, code, sentence) in [
        (vec!["127.0.0.1", "-p", "1"], 1, "error: cannot connect to 127.0.0.1:1 over TCP: Connection refused"),
        (vec!["no-such-host.invalid"], 2, "error: cannot find no-such-host.invalid:18516: "),
        (vec!["127.0.0.1", "-s", "135"], 2, "error: a probe of 135 bytes is not possible; it must have 136 to 4096"),
        (vec!["127.0.0.1", "-i", "1us"], 2, "error: an interval of 1 us is not possible; it must be 1 ms to 1 hour"),
        (vec!["127.0.0.1", "-W", "2m"], 2, "error: invalid value '2m' for '--timeout <TIME>'"),
        (vec!["127.0.0.1", "--paths", "257"], 2, "error: invalid value '257' for '--paths <K>'"),
        (vec!["127.0.0.1", "--bind", "127.0.0.1"], 2, "error: the argument '[HOST]' cannot be used with '--bind"),
        (vec!["--listen", "-c", "1"], 2, "error: the argument '--listen' cannot be used with '--count <N>'"),
        (vec!["127.0.0.1", "--transport", "rc"], 2, "error: invalid value 'rc' for '--transport <TRANSPORT>'"),
        (vec!["--listen", "--bind", "127.0.0.1", "-p", port], 2, "error: cannot listen on TCP port"),
        (vec!["--secret-file", "/dev/null", "127.0.0.1"], 2, "error: "),
    ] {
        let output = rnic(&[&["ping"][..], &arguments].concat()).output().unwrap();
        let message = failed(&output, code);
        assert!(message.starts_with(sentence), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty());
    }
}

/// Nothing reads the output any more: the command ends without a message.
#[test]
fn a_closed_output_ends_the_ping() {
    let responder = Responder::start();
    let mut child = responder.ping(&["-i", "2ms"]).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    read_until(&mut out, "seq=1");
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

/// A host that does not run for 200 ms answers late. The kernel received the packets in time, so the network's time
/// does not include the 200 ms: they are the delay of the host that slept.
#[test]
#[expect(clippy::disallowed_methods, reason = "a process is stopped for some real time")]
fn a_stopped_process_is_not_the_networks_delay() {
    let responder = Responder::start();
    for responder_sleeps in [true, false] {
        let prober = responder.ping(&["-c", "60", "-i", "0.01", "-W", "10", "--format", "json"]).spawn().unwrap();
        let sleeper = if responder_sleeps { &responder.child } else { &prober };
        std::thread::sleep(Duration::from_millis(200));
        send("-STOP", sleeper);
        std::thread::sleep(Duration::from_millis(200));
        send("-CONT", sleeper);
        let output = prober.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let max_us = |delay: &str| summary[delay]["max"].as_f64().unwrap();
        assert_eq!(summary["answered"], 60, "{summary}");
        assert!(max_us("network_us") < 100_000.0, "{responder_sleeps} {summary}");
        if responder_sleeps {
            // Probes leave every 10 ms, so some probe waited for almost all of the 200 ms.
            assert!(max_us("responder_us") > 150_000.0, "{summary}");
        }
    }
}
