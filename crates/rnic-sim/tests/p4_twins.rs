//! The P4 programs in `p4/` and the native transports in Rust yield exactly the same flow records.

use crate::common::read_scenario;
use rnic_campaign::run_scenario;
use rnic_spec::RunOutput;
use std::fs;
use std::path::{Path, PathBuf};

const PAIRS: [(&str, &str); 4] =
    [("ndp", "ndp.p4"), ("homa", "homa.p4"), ("homa-tr", "homa-tr.p4"), ("hpcc", "hpcc.p4")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn outputs(text: &str, folder: &Path) -> Vec<RunOutput> {
    let scenario = read_scenario(text, folder).unwrap_or_else(|error| panic!("{error}"));
    let reports = run_scenario(&scenario, 2).unwrap();
    reports.into_iter().map(|report| report.output).collect()
}

/// Simulates a scenario as it is, and with each native transport replaced by its P4 program, and compares the results.
fn compare(text: &str, folder: &Path, path_of_p4: &str) {
    let mut twins = text.to_string();
    for (native, p4) in PAIRS {
        let native = format!("transport = \"{native}\"");
        assert!(twins.contains(&native), "{native}");
        twins = twins.replace(&native, &format!("transport = \"p4:{path_of_p4}/{p4}\""));
    }
    let (native, p4) = (outputs(text, folder), outputs(&twins, folder));
    assert_eq!(native.len(), p4.len());
    for (number, (native, p4)) in native.iter().zip(&p4).enumerate() {
        assert!(native.flows.iter().any(|flow| flow.finish.is_some()), "run {number} did something");
        assert!(p4.warnings == native.warnings, "run {number}: {:?} {:?}", native.warnings, p4.warnings);
        assert!(p4.flows == native.flows, "run {number}: flows");
        assert!(p4.ports == native.ports, "run {number}: ports");
        assert_eq!((p4.end, &p4.status), (native.end, &native.status), "run {number}");
        assert!(p4.samples == native.samples, "run {number}: samples");
    }
}

#[test]
fn incast() {
    let folder = root().join("scenarios/nanotransport");
    let text = fs::read_to_string(folder.join("incast.toml")).unwrap();
    // The P4 program always paces NACKs, which is also the default of the native transport.
    let text = text.replace("paced_nacks = false", "paced_nacks = true");
    compare(&text, &folder, "../../p4");
}

/// Paths of three links up and three links down, with trimmed and lost packets.
#[test]
fn fat_tree() {
    let text = r#"
seed = 3
[fabric]
topology = "fat-tree"
k = 4
rate = "40 Gbps"
delay = "1 us"
switch = { queueing = "output", buffer = "20 KB", trim = true }
[traffic]
pattern = "poisson"
load = 0.8
sizes = "irn-heavy-tailed"
flows = 300
[[run]]
name = "NDP"
transport = "ndp"
[[run]]
name = "Homa"
transport = "homa"
[[run]]
name = "Homa-Tr"
transport = "homa-tr"
[[run]]
name = "HPCC"
transport = "hpcc"
"#;
    compare(text, &root(), "p4");
}

/// The scenario of the guide "Write a transport in P4".
#[test]
fn the_guides_scenario_runs() {
    let text = fs::read_to_string(root().join("p4/window.toml")).unwrap();
    let (_, toml) = text.split_once('\n').expect("a comment comes first");
    let guide = fs::read_to_string(root().join("docs/guides/write-a-transport-in-p4.md")).unwrap();
    assert!(guide.contains(&format!("```toml\n{toml}```")));
    let outputs = outputs(&text, &root().join("p4"));
    assert_eq!(outputs.len(), 2);
    for output in outputs {
        assert!(output.flows.len() == 8 && output.flows.iter().all(|flow| flow.finish.is_some()));
    }
}
