//! Tests of `rnic lint` as a user calls it.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const DEVICES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fleet/devices");
const DESIRED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fleet/desired.toml");

fn rnic(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rnic")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A desired state from which the example differs in one setting.
fn other_desired(folder: &Path) -> String {
    let path = folder.join("desired.toml");
    let desired = fs::read_to_string(DESIRED).unwrap().replace("ecn_min = \"200 KB\"", "ecn_min = \"100 KB\"");
    fs::write(&path, desired).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn the_exit_code_tells_order_difference_and_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let good = rnic(&["lint", DEVICES, "--desired", DESIRED]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    assert_eq!(
        text(&good.stdout),
        "4 switches, 4 hosts, 8 links; DSCP of RDMA: 26\n\
         0 dangers, 0 differences from the desired state, 0 warnings, 0 notes, 0 accepted, 0 unknown keys\n"
    );
    let desired = other_desired(folder.path());
    let state = folder.path().join("state.json");
    let arguments = ["lint", DEVICES, "--desired", &desired, "--state", state.to_str().unwrap()];
    let drift = rnic(&arguments);
    assert_eq!(drift.status.code(), Some(1));
    let shown = text(&drift.stdout);
    let place = "drift    drift: leaf1, leaf2 (2 devices) Ethernet0, Ethernet4, Ethernet120, Ethernet124 queue.3.ecn_min, since 20";
    assert!(shown.contains(place), "{shown}");
    assert!(shown.contains("wanted 100000 B, found 200000 B (desired state, line "), "{shown}");
    assert_eq!(text(&drift.stderr), "error: 0 dangers, 4 differences from the desired state, 0 warnings, 0 notes\n");
    let position = "devices/leaf1/config_db.json:";
    assert!(shown.contains(position) && shown.contains("/green_min_threshold\n"), "{shown}");
    let script = rnic(&["lint", DEVICES, "--desired", &desired, "--fix-commands"]);
    let shown = text(&script.stdout);
    assert!(script.status.code() == Some(1) && shown.matches("sudo config apply-patch").count() == 4, "{shown}");
    assert!(shown.contains("/green_min_threshold\",\n    \"value\": \"100000\""), "{shown}");
    // The second time the findings keep the time of the first.
    let json = |output: &Output| serde_json::from_str::<Value>(&text(&output.stdout)).unwrap();
    let first = json(&rnic(&[&arguments[..], &["--format", "json"]].concat()));
    let written = fs::read_to_string(&state).unwrap().replace("17", "16");
    fs::write(&state, &written).unwrap();
    let later = json(&rnic(&[&arguments[..], &["--format", "json"]].concat()));
    assert!(later["findings"][0]["since"].as_u64() < first["findings"][0]["since"].as_u64());
    assert_eq!(later["counts"]["drift"], 4);

    fs::write(folder.path().join("bad.toml"), "[switch]\nmtu = 9100\n").unwrap();
    let bad = rnic(&["lint", DEVICES, "--desired", folder.path().join("bad.toml").to_str().unwrap()]);
    assert_eq!(bad.status.code(), Some(2));
    let message = text(&bad.stderr);
    assert!(message.contains("bad.toml:2:7: `mtu`: 9100 is not accepted; accepted: a size"), "{message}");
    let nothing = rnic(&["lint", folder.path().to_str().unwrap()]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(text(&nothing.stderr).contains("no device found"), "{}", text(&nothing.stderr));
}

/// `--fail-on` chooses the exit code, and the output names the devices that could not be checked.
#[test]
fn an_unchecked_switch_is_not_green() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("sw1");
    fs::create_dir(&device).unwrap();
    fs::write(device.join("config_db.json"), r#"{"PORT": {"Ethernet0": {"admin_status": "up"}}}"#).unwrap();
    let lint = |fail_on: &str| rnic(&["lint", device.to_str().unwrap(), "--fail-on", fail_on]);
    for (fail_on, code) in [("danger", 0), ("warning", 0), ("unchecked", 1)] {
        let output = lint(fail_on);
        assert_eq!(output.status.code(), Some(code), "{fail_on}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("not wholly checked: 1 device (sw1)"), "{}", text(&output.stdout));
    }
    let wrong = lint("everything");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("unchecked, warning, danger"), "{}", text(&wrong.stderr));
}

/// The reports for other tools have every finding, and the exit code stays.
#[test]
fn reports_for_other_tools() {
    let folder = tempfile::tempdir().unwrap();
    let desired = other_desired(folder.path());
    let sarif = rnic(&["lint", DEVICES, "--desired", &desired, "--format", "sarif"]);
    assert_eq!(sarif.status.code(), Some(1));
    let sarif: Value = serde_json::from_str(&text(&sarif.stdout)).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 4, "{results:#?}");
    let index = results[0]["ruleIndex"].as_u64().unwrap() as usize;
    assert_eq!(run["tool"]["driver"]["rules"][index]["id"], results[0]["ruleId"]);
    let name = &results[0]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"];
    assert_eq!((name, &results[0]["level"]), (&"leaf1/Ethernet0/queue.3.ecn_min".into(), &"error".into()));
    let junit = rnic(&["lint", DEVICES, "--desired", &desired, "--format", "junit"]);
    assert_eq!(junit.status.code(), Some(1));
    let junit = text(&junit.stdout);
    assert!(junit.contains("<testsuites name=\"rnic lint\" tests=\"8\" failures=\"4\" errors=\"0\">"), "{junit}");
    assert!(junit.contains("<testcase classname=\"gpu1\" name=\"all checks\"/>"), "{junit}");
    // A mistake in an input is an error of the report.
    let device = folder.path().join("fleet/sw1");
    fs::create_dir_all(&device).unwrap();
    fs::write(device.join("config_db.json"), "{\n\"PORT\": {").unwrap();
    let fleet = device.parent().unwrap().to_str().unwrap();
    let sarif = rnic(&["lint", fleet, "--format", "sarif"]);
    assert_eq!(sarif.status.code(), Some(2));
    let sarif: Value = serde_json::from_str(&text(&sarif.stdout)).unwrap();
    let location = &sarif["runs"][0]["invocations"][0]["toolExecutionNotifications"][0]["locations"][0];
    assert_eq!(location["physicalLocation"]["artifactLocation"]["uri"], "sw1/config_db.json");
    assert_eq!(location["physicalLocation"]["region"]["startLine"], 2);
    assert!(text(&rnic(&["lint", fleet, "--format", "junit"]).stdout).contains("errors=\"1\""));
}

/// `rnic run` accepts the scenario and all flows finish.
#[test]
fn the_scenario_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fabric.toml");
    let path = path.to_str().unwrap();
    let written = rnic(&["lint", DEVICES, "--desired", DESIRED, "--scenario", path]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    assert!(text(&written.stderr).contains("difference from the fabric: ports have different headrooms"));
    let out = folder.path().join("out");
    let run = rnic(&["run", path, "--format", "json", "--quiet", "--out", out.to_str().unwrap()]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let results: Value = serde_json::from_str(&text(&run.stdout)).unwrap();
    let run = &results["runs"][0];
    assert_eq!((&run["flows"]["offered"], &run["flows"]["completed"]), (&3.into(), &3.into()));
    assert_eq!((&run["packets"]["dropped"], &run["cc"]), (&0.into(), &"dcqcn".into()));
}

/// `--watch` serves metrics, reports what changes, and ends at SIGTERM.
#[test]
fn a_watch_serves_metrics_and_reports_changes() {
    let folder = tempfile::tempdir().unwrap();
    let desired = other_desired(folder.path());
    let mut watch = Command::new(env!("CARGO_BIN_EXE_rnic"))
        .args(["lint", DEVICES, "--desired", &desired, "--watch", "--every", "100ms", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(watch.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("metrics at http://").unwrap().strip_suffix("/metrics").unwrap().to_string();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let new = lines.next().unwrap().unwrap();
    assert!(new.contains(" new: drift drift: leaf1 Ethernet0, Ethernet4"), "{new}");
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    let expected = "rnic_lint_findings{check=\"drift\",severity=\"drift\",accepted=\"false\"} 12\n";
    assert!(metrics.contains(expected), "{metrics}");
    assert!(metrics.contains("rnic_lint_device_findings{device=\"leaf1\",severity=\"drift\"} 4\n"), "{metrics}");
    fs::copy(DESIRED, &desired).unwrap();
    let gone = lines.find_map(|line| line.ok().filter(|line| line.contains(" gone: "))).unwrap();
    assert!(gone.contains("leaf1 Ethernet0"), "{gone}");
    let id = watch.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}
