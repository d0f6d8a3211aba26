//! Scenarios with topologies and flow lists of other simulators, and scenarios written as graphs.

use rnic_fabric::config::TopologySpec;
use rnic_scenario::format::{Graph, Link, Node};
use rnic_scenario::{Origin, from_str, to_graph_toml};
use rnic_spec::{FabricSetup, FlowSpec, Placement, RunSpec, Scenario, Server, TrafficPattern, Vocabulary};
use rnic_transport::{BitRate, Time};
use std::path::Path;

/// Nodes 1 to 4 are hosts on the switches 0 and 5, which two links join.
const TOPOLOGY: &str = "6 2 6\n0 5\n1 0 100Gbps 1000ns 0\n2 0 100Gbps 1000ns 0\n3 5 100Gbps 1000ns 0.001\n4 5 25Gbps 2000ns 0\n\
                        0 5 100Gbps 1000ns 0\n0 5 100Gbps 1000ns 0\n";

const REST: &str = "[traffic]\npattern = \"list\"\nfile = \"flow.txt\"\n[[run]]\nname = \"r\"\ntransport = \"roce\"\n";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("topology.txt", TOPOLOGY);
    write("flow.txt", "2\n1 4 3 100 1000 5e-06\n3 2 3 100 7 0\n1 2 3 100 9 0\n");
    write("flows.cm", "Nodes 4\nConnections 1\n0->3 id 1 start 5000 size 9\n");
    folder
}

fn read(folder: &Path, fabric: &str, rest: &str) -> Result<Scenario, String> {
    let text = format!("[fabric]\ntopology = \"file\"\nfile = \"topology.txt\"\n{fabric}\n{rest}");
    let error = |error: rnic_scenario::ScenarioError| error.to_string().replace(&format!("{}/", folder.display()), "");
    from_str(&text, "a.toml", folder, &[], None).map_err(error)
}

fn fabric(folder: &Path, fabric: &str) -> FabricSetup {
    read(folder, fabric, REST).unwrap().runs.remove(0).fabric
}

fn flows(run: &RunSpec) -> Vec<(u64, u32, u32, u64)> {
    let TrafficPattern::List { flows } = &run.traffic[0].pattern else { panic!() };
    flows.iter().map(|FlowSpec { start, src, dst, bytes, .. }| (start.as_ps(), *src, *dst, *bytes)).collect()
}

/// Four pods of htsim's fat-tree of three tiers.
const TREE: &str = "Nodes 16\nTiers 3\nPodsize 4\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 2\nRadix_Up 2\n\
                    Downlink_Latency_ns 1000\nTier 1\nDownlink_speed_Gbps 100\nRadix_Down 2\nRadix_Up 2\nDownlink_Latency_ns 1000\n\
                    Tier 2\nDownlink_speed_Gbps 100\nRadix_Down 4\nDownlink_Latency_ns 1000\n";

#[test]
fn connection_matrices_have_triggers_and_failures() {
    let folder = folder();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("topology.txt", TREE);
    let rest = REST.replace("flow.txt", "flows.cm");
    let header = "Nodes 16\nConnections 2\nTriggers 1\nFailures 1\n0->3 start 5 size 9 send_done_trigger 4\n";
    write(
        "flows.cm",
        &format!(
            "{header}3->1 trigger 4 size 7\ntrigger id 4 oneshot\nfailure switch_type AGG switch_id 3 link_id 1\n"
        ),
    );
    let scenario = read(folder.path(), "", &rest).unwrap();
    let TrafficPattern::Triggered(list) = &scenario.runs[0].traffic[0].pattern else { panic!() };
    assert_eq!((list.flows.len(), list.triggers.len(), list.reaction), (2, 1, Time::from_ns(200)));
    let faults = &scenario.runs[0].fabric.faults.links;
    assert_eq!(faults.len(), 1);
    assert_eq!((faults[0].from.as_str(), faults[0].to.as_str(), faults[0].rate), ("agg3", "core3", None));
    // The document of the run is read again.
    let document = scenario.runs[0].to_json(false).unwrap();
    assert_eq!(RunSpec::from_json(&document, &Vocabulary::standard()).unwrap(), scenario.runs[0]);

    let slow = read(folder.path(), "", &rest.replace("\n[[run]]", "\nreaction = \"3 us\"\n[[run]]")).unwrap();
    let TrafficPattern::Triggered(list) = &slow.runs[0].traffic[0].pattern else { panic!() };
    assert_eq!(list.reaction, Time::from_us(3));

    write(
        "flows.cm",
        &format!(
            "{header}3->1 trigger 4 size 7\ntrigger id 4 barrier count 3\nfailure switch_type AGG switch_id 3 link_id 1\n"
        ),
    );
    let error = read(folder.path(), "", &rest).unwrap_err();
    assert!(error.contains("flows.cm:7: 1 flows activate trigger 4, which is a `barrier` of 3;"), "{error}");
    write("flows.cm", "Nodes 16\nConnections 1\n0->3 start 5 size 9\n");
    let error = read(folder.path(), "", &rest.replace("\n[[run]]", "\nreaction = \"3 us\"\n[[run]]")).unwrap_err();
    assert!(error.contains("`reaction` has no effect: the list has no triggers"), "{error}");
    // Failures alone: the flows start at fixed times.
    write(
        "flows.cm",
        "Nodes 16\nConnections 1\nFailures 1\n0->3 start 5 size 9\nfailure switch_type AGG switch_id 0 link_id 0\n",
    );
    let scenario = read(folder.path(), "", &rest).unwrap();
    assert_eq!(flows(&scenario.runs[0]), [(5, 0, 3, 9)]);
    assert_eq!(scenario.runs[0].fabric.faults.links[0].to, "core0");
}

#[test]
fn a_topology_file_becomes_a_graph() {
    let folder = folder();
    let fabric = fabric(folder.path(), "mtu = \"2 KB\"\n");
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (hosts, switches) = (names(&["h1", "h2", "h3", "h4"]), names(&["s0", "s5"]));
    assert_eq!(fabric.topology, TopologySpec::Graph { hosts, switches });
    assert_eq!(
        (fabric.link.rate, fabric.link.delay, fabric.link.loss),
        (BitRate::from_gbps(100), Time::from_us(1), 0.0)
    );
    // Links state only properties that differ from the first link.
    let link = |number: usize| {
        let link = &fabric.links[number];
        (link.from.as_str(), link.to.as_str(), link.rate, link.delay, link.loss)
    };
    assert_eq!(fabric.links.len(), 6);
    assert_eq!(link(0), ("h1", "s0", None, None, None));
    assert_eq!(link(2), ("h3", "s5", None, None, Some(0.001)));
    assert_eq!(link(3), ("h4", "s5", Some(BitRate::from_gbps(25)), Some(Time::from_us(2)), None));
    assert_eq!(link(5), ("s0", "s5", None, None, None));
}

#[test]
fn flow_lists_name_hosts_by_the_numbers_of_their_format() {
    let folder = folder();
    let scenario = read(folder.path(), "", REST).unwrap();
    // Hosts 1 to 4 of the topology file are the hosts 0 to 3 of the fabric.
    assert_eq!(flows(&scenario.runs[0]), [(0, 2, 1, 7), (5_000_000, 0, 3, 1_000)]);
    let matrix = read(folder.path(), "", &REST.replace("flow.txt", "flows.cm")).unwrap();
    assert_eq!(flows(&matrix.runs[0]), [(5_000, 0, 3, 9)]);
    let wrong = REST.replace("\"flow.txt\"", "\"flow.txt\"\nformat = \"htsim\"");
    let error = read(folder.path(), "", &wrong).unwrap_err();
    assert!(error.contains("flow.txt:1: `2` is not a connection; "), "{error}");
    // The same flow list with another topology names other hosts.
    let text =
        format!("[fabric]\ntopology = \"single-switch\"\nhosts = 5\nrate = \"1 Gbps\"\ndelay = \"1 us\"\n{REST}");
    let scenario = from_str(&text, "a.toml", folder.path(), &[], None).unwrap();
    assert_eq!(flows(&scenario.runs[0]), [(0, 3, 2, 7), (5_000_000, 1, 4, 1_000)]);
}

#[test]
fn tables_of_links_change_links_of_the_file() {
    let folder = folder();
    let link = "[[fabric.link]]\nfrom = \"s5\"\nto = \"s0\"\nrate = \"40 Gbps\"\ndown_at = \"1 ms\"\n";
    let fabric = fabric(folder.path(), link);
    assert_eq!(fabric.links.len(), 6);
    for number in [4, 5] {
        assert_eq!(fabric.links[number].rate, Some(BitRate::from_gbps(40)));
    }
    assert_eq!((fabric.faults.links.len(), fabric.faults.links[0].from.as_str()), (1, "s5"));
    for (link, error) in [
        (
            "from = \"h1\"\nto = \"s5\"",
            "no link joins \"h1\" and \"s5\"; [[fabric.link]] changes a link that this topology has",
        ),
        (
            "from = \"h0\"\nto = \"s5\"",
            "there is no node \"h0\"; [[fabric.link]] changes a link that this topology has",
        ),
    ] {
        let found = read(folder.path(), &format!("[[fabric.link]]\n{link}\n"), REST).unwrap_err();
        assert!(found.ends_with(error), "{found}");
    }
}

#[test]
fn mistakes_name_the_scenario_the_file_and_the_line() {
    let folder = folder();
    std::fs::write(folder.path().join("bad.txt"), "3 1 2\n2\n0 2 1Gbps 1us 0\n").unwrap();
    for (fabric, error) in [
        (
            "rate = \"1 Gbps\"",
            "a.toml:4:1: `rate` belongs to topology \"fat-tree\" or \"leaf-spine\" or \"leaf-spine-core\" or \"single-switch\" or \"dumbbell\" or \"dragonfly\" or \"multi-plane\" or \"graph\", not to \"file\"",
        ),
        (
            "nvswitches = \"omit\"",
            "a.toml:3:8: topology.txt: `nvswitches` has no effect; only SimAI's topology files have NVSwitches",
        ),
        (
            "format = \"htsim\"",
            "a.toml:3:8: topology.txt:1: `6 2 6` is not a setting; write a key and a value, such as `Nodes 16`",
        ),
        ("format = \"ns3\"", "a.toml:4:10: unknown format \"ns3\"; available: \"hpcc\", \"simai\", \"htsim\""),
    ] {
        let found = read(folder.path(), fabric, REST).unwrap_err();
        assert!(found.starts_with(error), "{found}");
    }
    for (file, error) in [
        ("bad.txt", "bad.txt:3: the file ends before link 2 of 2"),
        ("none.txt", "none.txt: this topology file does not exist"),
    ] {
        let text = format!("[fabric]\ntopology = \"file\"\nfile = \"{file}\"\n{REST}");
        let found = from_str(&text, "a.toml", folder.path(), &[], None).unwrap_err().to_string();
        assert!(found.ends_with(error), "{found}");
    }
}

#[test]
fn another_topology_inherits_no_rates() {
    let folder = folder();
    let base = format!(
        "[fabric]\ntopology = \"single-switch\"\nhosts = 4\nrate = \"1 Gbps\"\ndelay = \"1 us\"\nloss = 0.1\nmtu = \"2 KB\"\n{REST}"
    );
    std::fs::write(folder.path().join("base.toml"), base).unwrap();
    let text = "extends = \"base.toml\"\n[fabric]\ntopology = \"file\"\nfile = \"topology.txt\"\n";
    let fabric = from_str(text, "a.toml", folder.path(), &[], None).unwrap().runs.remove(0).fabric;
    assert_eq!((fabric.mtu.0, fabric.link.loss, fabric.links.len()), (2_000, 0.0, 6));
    // A graph inherits them, as before.
    let text = "extends = \"base.toml\"\n[fabric]\ntopology = \"graph\"\nhosts = 4\nswitches = 1\nlink = [\
                { from = \"h0\", to = \"s0\" }, { from = \"h1\", to = \"s0\" }, { from = \"h2\", to = \"s0\" }, { from = \"h3\", to = \"s0\" }]\n";
    let error = from_str(text, "a.toml", folder.path(), &[], None).unwrap_err().to_string();
    assert!(error.contains("dst is host 4"), "only the flow list has a mistake: {error}");
}

/// A leaf-spine fabric, one link of which is slower, and one fails.
const REGULAR: &str = r#"
[fabric]
topology = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 1
rate = "100 Gbps"
delay = "1 us"
uplink_delay = "2 us"
mtu = "2 KB"
[[fabric.link]]
from = "leaf0"
to = "spine0"
rate = "40 Gbps"
down_at = "1 ms"
[fabric.switch]
buffer = "1 MB"
[traffic]
pattern = "poisson"
load = 0.5
sizes = "fixed 1 MB"
flows = 100
[[run]]
name = "a"
transport = "roce"
[[run]]
name = "b"
transport = "irn"
"#;

#[test]
fn a_regular_topology_is_written_as_a_graph() {
    let origin = Origin::Text { text: REGULAR, name: "a.toml", folder: Path::new("") };
    let read = |text: &str| from_str(text, "a.toml", Path::new(""), &[], None).unwrap();
    let (regular, vocabulary) = (read(REGULAR), Vocabulary::standard());
    let node = |name: &str, is_switch| Node { name: name.into(), is_switch };
    let link =
        |a, b, gbps, us| Link { ends: [a, b], rate: BitRate::from_gbps(gbps), delay: Time::from_us(us), loss: 0.0 };
    let graph = Graph {
        nodes: vec![
            node("h0", false),
            node("h1", false),
            node("leaf0", true),
            node("leaf1", true),
            node("spine0", true),
        ],
        links: vec![link(0, 2, 100, 1), link(1, 3, 100, 1), link(2, 4, 40, 2), link(3, 4, 100, 2)],
    };
    let base = regular.runs[0].fabric.link;
    let text = to_graph_toml(&vocabulary, &origin, &[], Some(9), Some("b"), &base, &graph).unwrap();
    let expected = r#"seed = 9

[fabric]
topology = "graph"
hosts = 2
switches = ["leaf0", "leaf1", "spine0"]
rate = "100 Gbps"
delay = "1 us"
mtu = "2 KB"

[fabric.switch]
buffer = "1 MB"

[[fabric.link]]
from = "h0"
to = "leaf0"

[[fabric.link]]
from = "h1"
to = "leaf1"

[[fabric.link]]
from = "leaf0"
to = "spine0"
rate = "40 Gbps"
delay = "2 us"
down_at = "1 ms"

[[fabric.link]]
from = "leaf1"
to = "spine0"
delay = "2 us"

[traffic]
"#;
    assert!(text.starts_with(expected), "{text}");
    let written = read(&text);
    assert_eq!((written.seed, written.runs.len(), written.runs[0].name.as_str()), (9, 1, "b"));
    assert_eq!(written.runs[0].fabric.faults, regular.runs[1].fabric.faults);
    assert_eq!(written.runs[0].traffic, regular.runs[1].traffic);
}

#[test]
fn server_files_give_servers_and_nics() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("topo.xml", include_str!("server.xml"));
    let two = "topology: [ Switch, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 400, 50 ]\nlatency: [ 900, 500 ]\n";
    write("network.yml", two);
    let read = |fabric: &str, keys: &str| {
        let text = format!(
            "[fabric]\n{fabric}\n[traffic]\npattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"1 MB\"\n{keys}\n\
             [[run]]\nname = \"r\"\ntransport = \"roce\"\n"
        );
        from_str(&text, "a.toml", folder.path(), &[], None).map_err(|error| error.to_string())
    };
    let switch =
        |gbps: u32| format!("topology = \"single-switch\"\nhosts = 8\nrate = \"{gbps} Gbps\"\ndelay = \"1 us\"");
    let collective = |fabric: &str, keys: &str| {
        let scenario = read(fabric, keys).unwrap();
        let TrafficPattern::Collective(collective) = &scenario.runs[0].traffic[0].pattern else { panic!() };
        collective.clone()
    };
    // The accelerators 0 and 1 of each server are next to the NICs 2 and 3.
    let found = collective(&switch(400), "server_file = \"topo.xml\"\ndomain_latency = \"1 us\"");
    let (rate, latency) = (BitRate::from_bps(2_966_400_000_000), Time::from_us(1));
    assert_eq!(found.server, Some(Server { accelerators: 4, rate, latency }));
    assert_eq!((found.placement, &found.placed[..]), (Placement::File, &[2, 3, 0, 1, 6, 7, 4, 5][..]));
    // With rails, the two servers have neighbouring hosts on each rail, and the rails are in the order of the NICs.
    let found = collective(&switch(400), "server_file = \"topo.xml\"\nplacement = \"rail\"\ndomain_rate = \"1 Tbps\"");
    assert_eq!(found.placed[..], [4, 6, 0, 2, 5, 7, 1, 3]);
    assert_eq!(found.server.unwrap().rate, BitRate::from_gbps(1_000));
    for (keys, error) in [
        ("server_file = \"topo.xml\"\naccelerators = 4", "`accelerators` and `server_file` are both given"),
        ("server_file = \"topo.xml\"\nplacement = \"random\"", "are not in the order of their NICs"),
        ("server_file = \"none.xml\"", "cannot read `"),
        ("server_file = \"a.txt\"", "a.txt:1: `hello` is not a key with a list"),
    ] {
        write("a.txt", "hello\n");
        let found = read(&switch(400), keys).unwrap_err();
        assert!(found.contains(error), "{found}");
    }
    let found = read(&switch(100), "server_file = \"topo.xml\"").unwrap_err();
    assert!(found.contains("the NICs of the file have 400 Gbps, and the hosts of the fabric 100 Gbps"), "{found}");

    // Both dimensions of a network of ASTRA-sim: the fabric and the servers.
    let fabric = "topology = \"file\"\nfile = \"network.yml\"";
    let found = collective(fabric, "server_file = \"network.yml\"");
    let (rate, latency) = (BitRate::from_gbps(3_200), Time::from_ns(1_800));
    assert_eq!((found.ranks, found.server), (8, Some(Server { accelerators: 4, rate, latency })));
    let scenario = read(fabric, "").unwrap();
    let link = scenario.runs[0].fabric.link;
    assert_eq!((link.rate, link.delay), (BitRate::from_gbps(400), Time::from_ns(500)));
    let found = read(&fabric.replace("network.yml", "network.yml\"\nformat = \"htsim"), "").unwrap_err();
    assert!(found.contains("network.yml:1: "), "{found}");
}
