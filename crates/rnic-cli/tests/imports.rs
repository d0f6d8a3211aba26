//! Tests of topologies and flow lists that come from files, and of scenarios written as graphs, as processes.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Four leaves with uplinks of another rate and delay, one of which fails during the run.
const REGULAR: &str = r#"title = "pod"
[fabric]
topology = "leaf-spine"
leaves = 4
spines = 2
hosts_per_leaf = 2
rate = "25 Gbps"
delay = "1 us"
uplink_rate = "40 Gbps"
uplink_delay = "2 us"
[[fabric.link]]
from = "leaf1"
to = "spine0"
loss = 0.001
down_at = "200 us"
[traffic]
pattern = "poisson"
load = 0.6
sizes = "fixed 64 KB"
flows = 300
[[run]]
name = "IRN"
transport = "irn"
[[run]]
name = "RoCE"
transport = "roce"
cc = "dcqcn"
"#;

fn rnic(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rnic")).current_dir(folder).args(arguments).output().unwrap()
}

#[track_caller]
fn good(folder: &Path, arguments: &[&str]) -> String {
    let output = rnic(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = rnic(folder, arguments);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The statistics of all runs of a scenario, without names and costs.
fn results(folder: &Path, scenario: &str) -> Vec<Value> {
    let text = good(folder, &["run", scenario, "--quiet", "--format", "json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    let part = |run: &Value| ["slowdown", "fct_us", "packets", "sim_time_us"].map(|key| run[key].clone()).to_vec();
    document["runs"].as_array().unwrap().iter().flat_map(part).collect()
}

#[test]
fn a_topology_written_as_a_scenario_has_the_same_results() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("regular.toml"), REGULAR).unwrap();
    let graph = good(folder, &["topology", "regular.toml", "--format", "scenario"]);
    assert_eq!(graph.matches("[[fabric.link]]").count(), 8 + 8);
    assert!(graph.contains(
        "from = \"leaf1\"\nto = \"spine0\"\nrate = \"40 Gbps\"\ndelay = \"2 us\"\nloss = 0.001\ndown_at = \"200 us\"\n"
    ));
    fs::write(folder.join("graph.toml"), &graph).unwrap();
    assert_eq!(results(folder, "graph.toml"), results(folder, "regular.toml"));
    // A graph as a graph is itself.
    assert_eq!(good(folder, &["topology", "graph.toml", "--format", "scenario"]), graph);
    // The same fabric from a topology file, apart from the failure of the link.
    let topology = good(folder, &["topology", "regular.toml"]);
    fs::write(folder.join("topology.txt"), topology).unwrap();
    let fabric = REGULAR.find("[traffic]").unwrap();
    let link = "[[fabric.link]]\nfrom = \"s9\"\nto = \"s12\"\ndown_at = \"200 us\"\n";
    let imported = format!("[fabric]\ntopology = \"file\"\nfile = \"topology.txt\"\n{link}{}", &REGULAR[fabric..]);
    fs::write(folder.join("imported.toml"), imported).unwrap();
    assert_eq!(results(folder, "imported.toml"), results(folder, "regular.toml"));
}

#[test]
fn one_graph_cannot_show_several_topologies() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("several.toml"), REGULAR.replace("cc = \"dcqcn\"", "set = { \"fabric.spines\" = 1 }"))
        .unwrap();
    let error = refused(folder, &["topology", "several.toml", "--format", "scenario"]);
    assert!(error.contains("runs \"IRN\" and \"RoCE\" have different topologies"), "{error}");
    assert!(error.contains("choose a run with --run"), "{error}");
    let graph = good(folder, &["topology", "several.toml", "--format", "scenario", "--run", "IRN"]);
    assert!(graph.contains("name = \"IRN\"") && !graph.contains("name = \"RoCE\""), "{graph}");
    let error = refused(folder, &["topology", "several.toml", "--format", "scenario", "--run", "RoCE"]);
    assert!(error.contains("`spines` belongs to topology \"leaf-spine\""), "{error}");
    let twice = "[[fabric.link]]\nfrom = \"spine0\"\nto = \"leaf1\"\ndown_at = \"9 ms\"\n[traffic]";
    fs::write(folder.join("twice.toml"), REGULAR.replace("[traffic]", twice)).unwrap();
    let error = refused(folder, &["topology", "twice.toml", "--format", "scenario"]);
    assert!(error.contains("two tables [[fabric.link]] let the link of"), "{error}");
}

#[test]
fn flow_lists_of_other_simulators_are_read_from_their_content() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("regular.toml"), REGULAR).unwrap();
    let expected = "start_us,src,dst,bytes,request,measured\n5,0,7,1000,,1\n12.5,1,2,9,,1\n";
    for (name, text) in [
        // The first line switches the last flow off.
        ("flow.txt", "2\n0 7 3 100 1000 5e-06\n1 2 3 100 9 1.25e-05\n4 5 3 100 9 2\n"),
        ("flows.cm", "Nodes 8\nConnections 2\n0->7 id 1 start 5000000 size 1000\n1->2 id 2 start 12500000 size 9\n"),
        ("flows", "start_us,src,dst,bytes\n5,0,7,1000\n12.5,1,2,9\n"),
    ] {
        fs::write(folder.join(name), text).unwrap();
        let list = format!("traffic={{ pattern = \"list\", file = \"{name}\" }}");
        assert_eq!(good(folder, &["flows", "regular.toml", "--set", &list]), expected, "{name}");
    }
    fs::write(folder.join("barrier.cm"), "Nodes 8\nConnections 1\nTriggers 1\n0->7 id 1 trigger 1 size 9\n").unwrap();
    let list = "traffic={ pattern = \"list\", file = \"barrier.cm\" }";
    let error = refused(folder, &["flows", "regular.toml", "--set", list]);
    assert!(error.contains("barrier.cm:3: the line announces 1 triggers, but the file has 0"), "{error}");
}
