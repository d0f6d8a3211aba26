//! Tests of Ctrl-C and SIGTERM: the commands print and write their partial results, marked as such.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A run that takes hours: endless messages between 16 hosts, for one simulated hour.
const LONG: &str = r#"
    title = "Long"
    [fabric]
    topology = "fat-tree"
    k = 4
    rate = "40 Gbps"
    delay = "1 us"
    [traffic]
    pattern = "pairs"
    pairs = 16
    sizes = "fixed 100 KB"
    [limits]
    duration = "3600 s"
    [[run]]
    name = "IRN"
    transport = "irn"
"#;

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(text: &str) -> Folder {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("long.toml"), text).unwrap();
        Folder(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
        command.current_dir(self.path()).args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits until `child` has created `path`. The commands listen to signals before they create their folder.
    fn wait_for(&self, path: &str, child: &mut Child) {
        while !self.path().join(path).exists() {
            assert!(child.try_wait().unwrap().is_none(), "{}", error_of(child));
            pause(5);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// What a process that has ended printed on standard error.
fn error_of(child: &mut Child) -> String {
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    error
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Sends the signal some time after the simulation has begun.
fn interrupted(folder: &Folder, arguments: &[&str], began: &str, signal: &str) -> Output {
    let mut child = folder.start(arguments);
    folder.wait_for(began, &mut child);
    pause(500);
    send(signal, &child);
    child.wait_with_output().unwrap()
}

#[test]
fn a_run_prints_and_writes_what_it_reached() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let folder = Folder::with(LONG);
        let output = interrupted(&folder, &["run", "long.toml"], "out/long", signal);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        let table = text(&output.stdout);
        assert!(table.starts_with("PARTIAL RESULTS: the run was interrupted\n"), "{table}");
        assert!(table.contains("\nPARTIAL") && table.contains("\ninterrupted at "), "{table}");
        assert!(text(&output.stderr).ends_with("interrupted: the results are partial\n"), "{}", text(&output.stderr));

        let summary: Value =
            serde_json::from_slice(&fs::read(folder.path().join("out/long/summary.json")).unwrap()).unwrap();
        assert_eq!(summary["partial"]["not_started"], Value::Array(Vec::new()));
        let run = &summary["runs"][0];
        assert_eq!(run["status"], "interrupted");
        assert!(
            run["flows"]["completed"].as_u64().unwrap() > 0 && run["fct_us"]["mean"].as_f64().unwrap() > 0.0,
            "{run}"
        );
        assert!(run["truncated"]["at_us"].as_f64().unwrap() < 3_600e6);
        let report = fs::read_to_string(folder.path().join("out/long/report.html")).unwrap();
        assert!(report.contains("<strong>PARTIAL RESULTS: the run was interrupted.</strong>"));
    }
}

#[test]
fn runs_that_did_not_start_are_named() {
    let sweep = format!("{LONG}\n[sweep]\nseed = [1, 2, 3]\n");
    let folder = Folder::with(&sweep);
    let output = interrupted(&folder, &["run", "long.toml", "--threads", "1", "--format", "json"], "out/long", "-INT");
    assert_eq!(output.status.code(), Some(130));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["partial"]["not_started"].as_array().unwrap().len(), 2, "{summary}");
    assert_eq!(summary["runs"].as_array().unwrap().len(), 1);
    assert!(text(&output.stderr).ends_with("interrupted: no run has finished\n"), "{}", text(&output.stderr));
    let csv = fs::read_to_string(folder.path().join("out/long/sweep.csv")).unwrap();
    assert!(csv.lines().nth(1).unwrap().contains(",interrupted,"), "{csv}");
}

/// Whether a process has handlers for SIGINT (2) and SIGTERM (15).
#[cfg(target_os = "linux")]
fn listens(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    [2, 15].iter().all(|number| caught >> (number - 1) & 1 == 1)
}

/// A second signal ends the program immediately. In this test the program waits for a reader that does not read, so the
/// first signal cannot end it.
#[cfg(target_os = "linux")]
#[test]
fn a_second_signal_ends_the_program_at_once() {
    use std::io::Write as _;
    use std::os::unix::process::ExitStatusExt as _;

    let folder = Folder::with(LONG);
    let spec = folder.start(&["run", "long.toml", "--print-spec"]).wait_with_output().unwrap();
    fs::write(folder.path().join("long.json"), &spec.stdout).unwrap();
    let (_reader, mut full) = std::io::pipe().unwrap();
    // As many bytes as a pipe has room for.
    full.write_all(&[b'\n'; 65_536]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.current_dir(folder.path()).args(["exec", "long.json", "--events", "--quiet"]);
    let mut child = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::null()).spawn().unwrap();
    while !listens(&child) {
        assert!(child.try_wait().unwrap().is_none());
        pause(5);
    }
    send("-INT", &child);
    pause(200);
    assert!(child.try_wait().unwrap().is_none(), "it waits for the reader");
    // The handlers of two signals may run at the same time, in two threads, so that neither is the second.
    for _ in 0..300 {
        send("-TERM", &child);
        pause(100);
        if let Some(status) = child.try_wait().unwrap() {
            assert!([Some(130), Some(143)].contains(&status.code()), "{status:?} {:?}", status.signal());
            return;
        }
    }
    child.kill().unwrap();
    panic!("it has not ended");
}

#[test]
fn the_last_event_of_exec_says_that_the_run_was_interrupted() {
    let folder = Folder::with(LONG);
    let spec = folder.start(&["run", "long.toml", "--print-spec"]).wait_with_output().unwrap();
    fs::write(folder.path().join("long.json"), &spec.stdout).unwrap();
    let mut child = folder.start(&["exec", "long.json", "--events", "--quiet", "--record", "long.run"]);
    let mut events = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("\"progress\"") {
        line.clear();
        assert!(events.read_line(&mut line).unwrap() > 0, "the run does not end by itself");
    }
    send("-INT", &child);
    let mut rest = String::new();
    events.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let last: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "interrupted", "{last}");
    assert!(last["time_ps"].as_u64().unwrap() > 0 && last["flows_started"].as_u64().unwrap() >= 16, "{last}");
    assert!(folder.path().join("long.run").exists());
}

#[test]
fn a_reproduction_judges_the_claims_whose_simulations_are_done() {
    let folder = Folder::with(LONG);
    let arguments = ["reproduce", "irn", "fig1", "--seeds", "3", "--threads", "1"];
    let output = interrupted(&folder, &arguments, "out/reproduce/irn/runs", "-INT");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("PARTIAL RESULTS: the reproduction was interrupted; "));
    assert!(text(&output.stdout).contains("no result"));
    let error = text(&output.stderr);
    assert!(error.ends_with(" simulations are stored; the same command continues with the others\n"), "{error}");
    let folder = folder.path().join("out/reproduce/irn");
    let verdicts: Value = serde_json::from_slice(&fs::read(folder.join("verdicts.json")).unwrap()).unwrap();
    assert_eq!(verdicts["partial"]["simulations"], 6);
    for file in ["verdicts.md", "report.html"] {
        assert!(fs::read_to_string(folder.join(file)).unwrap().contains("PARTIAL RESULTS: "), "{file}");
    }
}

/// `rnic perf` between two processes on one host.
#[cfg(all(feature = "endpoint", target_os = "linux"))]
mod perf {
    use super::*;

    /// Starts a server; returns it, its standard error, and its TCP port.
    fn server(
        folder: &Folder, shell: Option<&str>, options: &[&str],
    ) -> (Child, BufReader<std::process::ChildStderr>, String) {
        let mut arguments = vec!["perf", "--bind", "127.0.0.1", "--port", "0", "--roce-port", "0"];
        arguments.extend(options);
        let mut command = match shell {
            None => Command::new(env!("CARGO_BIN_EXE_rnic")),
            Some(limit) => {
                let mut command = Command::new("sh");
                command.args(["-c", &format!("{limit} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_rnic")]);
                command
            }
        };
        command.current_dir(folder.path()).args(arguments).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut error = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        error.read_line(&mut line).unwrap();
        let port = line.strip_prefix("waiting for clients at TCP port ").and_then(|rest| rest.split(';').next());
        (child, error, port.unwrap_or_else(|| panic!("{line}")).to_string())
    }

    #[test]
    fn a_client_prints_what_was_measured_and_a_server_just_ends() {
        for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
            let folder = Folder::with("");
            let (mut server, mut log, port) = server(&folder, None, &[]);
            // Many sizes; the signal comes after the row of the first one.
            let arguments = ["perf", "127.0.0.1", "--port", &port, "--roce-port", "0", "--all", "-D", "50 ms"];
            let mut client = folder.start(&arguments);
            let mut table = BufReader::new(client.stdout.take().unwrap());
            let mut text = String::new();
            while !text.contains("server: ") {
                assert!(table.read_line(&mut text).unwrap() > 0, "{}", error_of(&mut client));
            }
            send(signal, &client);
            table.read_to_string(&mut text).unwrap();
            let error = error_of(&mut client);
            assert_eq!(client.wait().unwrap().code(), Some(code), "{error}");
            assert_eq!(error, "interrupted: the last row is partial\n");
            assert!(text.starts_with(" write bandwidth, irn, 127.0.0.1"), "{text}");

            // The server gets this message, continues, and ends by a signal without an error.
            let mut line = String::new();
            log.read_line(&mut line).unwrap();
            assert!(line.ends_with(": the peer refuses: interrupted\n"), "{line}");
            send(signal, &server);
            assert_eq!(server.wait().unwrap().code(), Some(0));
        }
    }

    #[test]
    fn before_anything_was_measured_the_command_says_so() {
        let folder = Folder::with("");
        let (mut server, mut log, port) = server(&folder, None, &[]);
        // No packet arrives, and the client does not give up.
        let arguments = ["perf", "127.0.0.1", "--port", &port, "--roce-port", "0", "--loss", "100%"];
        let mut client = folder.start(&[&arguments[..], &["--give-up-after", "3600", "-n", "1"]].concat());
        pause(1_000);
        send("-INT", &client);
        let error = error_of(&mut client);
        assert_eq!(client.wait().unwrap().code(), Some(130), "{error}");
        assert_eq!(error, "interrupted: nothing was measured\n");
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        assert!(line.contains("interrupted") || line.contains("closed"), "{line}");
        send("-INT", &server);
        assert_eq!(server.wait().unwrap().code(), Some(0));
    }

    /// With too little memory the server refuses the measurement, and serves the next client.
    #[test]
    fn without_memory_a_server_refuses_and_goes_on() {
        let folder = Folder::with("");
        let (mut server, _log, port) = server(&folder, Some("ulimit -v 700000"), &["--max-memory", "2 GiB"]);
        let client = |more: &[&str]| {
            let arguments = ["perf", "127.0.0.1", "--port", &port, "--roce-port", "0"];
            folder.start(&[&arguments, more].concat()).wait_with_output().unwrap()
        };
        for (options, what) in [
            (&["-s", "1 GiB", "-n", "1"][..], "memory region, which needs 1073741824 bytes"),
            (&["-q", "250", "-t", "16384", "-n", "1", "-s", "64"], "queue, which needs "),
        ] {
            let output = client(options);
            let error = text(&output.stderr);
            assert!(error.starts_with("error: the peer refuses: the system has no memory for the "), "{error}");
            assert!(error.contains(what), "{error}");
            assert_eq!(output.status.code(), Some(1));
        }
        let output = client(&["-s", "4096", "-n", "10"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        send("-INT", &server);
        assert_eq!(server.wait().unwrap().code(), Some(0));
    }
}
