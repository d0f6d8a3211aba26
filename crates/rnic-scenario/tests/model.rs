//! The contents of a scenario that is read from a file: values that the file sets, and settings that it leaves open.

use rnic_fabric::config::TopologySpec;
use rnic_scenario::{ScenarioError, from_str, load};
use rnic_spec::hosts;
use rnic_spec::{Arrivals, Locality, Receiver, Rotation, Scenario, Traffic, TrafficPattern};
use rnic_transport::{BitRate, Bytes, Time};
use std::path::Path;

const SMALL: &str = r#"
[fabric]
topology = "single-switch"
hosts = 8
rate = "100 Gbps"
delay = "500 ns"
[traffic]
pattern = "poisson"
load = 0.5
sizes = "fixed 1 MB"
flows = 100
[[run]]
name = "RoCE"
transport = "roce"
[[run]]
name = "IRN 2.0"
transport = "irn"
"#;

#[track_caller]
fn read(text: &str) -> Scenario {
    read_with(text, &[])
}

#[track_caller]
fn read_with(text: &str, overrides: &[(&str, &str)]) -> Scenario {
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect();
    match from_str(text, "folder/small.toml", Path::new("folder"), &overrides, None) {
        Ok(scenario) => scenario,
        Err(error) => panic!("{error}"),
    }
}

/// The small scenario with another `[fabric]`.
fn with_fabric(fabric: &str) -> Scenario {
    let traffic = &SMALL[SMALL.find("[traffic]").unwrap()..];
    read(&format!("[fabric]\nrate = \"100 Gbps\"\ndelay = \"500 ns\"\n{fabric}\n{traffic}"))
}

/// The small scenario with another `[traffic]`.
fn with_traffic(traffic: &str) -> Vec<Traffic> {
    let start = SMALL.find("[traffic]").unwrap();
    let end = SMALL.find("[[run]]").unwrap();
    read(&format!("{}{traffic}\n{}", &SMALL[..start], &SMALL[end..])).runs.remove(0).traffic
}

#[test]
fn the_default_case_of_the_irn_paper() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/irn/default.toml");
    let scenario = load(&path, &[], None).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.seed), ("default", 1));
    let runs: Vec<_> =
        scenario.runs.iter().map(|run| (run.name.as_str(), run.transport.name.as_str(), run.transport.pfc)).collect();
    let expected = [
        ("RoCE + PFC", "roce", true),
        ("RoCE, no PFC", "roce", false),
        ("IRN", "irn", false),
        ("IRN + PFC", "irn", true),
    ];
    assert_eq!(runs, expected);
    let run = &scenario.runs[2];
    assert_eq!(run.fabric.topology, TopologySpec::FatTree { k: 6 });
    assert_eq!(hosts(&run.fabric.topology), 54);
    assert_eq!(run.fabric.link.rate, BitRate::from_gbps(40));
    assert_eq!(run.fabric.link.delay, Time::from_us(2));
    assert_eq!(run.fabric.mtu, Bytes(1_024));
    assert_eq!(run.fabric.switch.buffer, Some(Bytes(240_000)));
    assert_eq!(run.fabric.switch.xoff, Some(Bytes(220_000)));
    assert_eq!(run.transport.settings.time("rto_high"), Ok(Time::from_us(320)));
    assert_eq!(run.transport.settings.time("rto_low"), Ok(Time::from_us(100)));
    assert_eq!(run.transport.settings.count("rto_low_packets"), Ok(3));
    assert_eq!((run.traffic[0].warmup, run.traffic[0].cooldown), (2_000, 0));
    let TrafficPattern::Poisson { load, sizes, flows, .. } = &run.traffic[0].pattern else { panic!("not poisson") };
    assert_eq!((*load, sizes.name.as_str(), *flows), (0.7, "irn-heavy-tailed", 20_000));
}

#[test]
fn what_is_not_written_is_open_or_has_its_default() {
    let scenario = read(SMALL);
    assert_eq!((scenario.title.as_str(), scenario.name.as_str(), scenario.seed), ("small", "small", 1));
    let run = &scenario.runs[0];
    assert_eq!((run.fabric.mtu, run.fabric.frame_gap, run.fabric.link.loss), (Bytes(1_024), Bytes(20), 0.0));
    assert_eq!((run.fabric.switch.buffer, run.fabric.switch.xoff, run.fabric.switch.xon), (None, None, None));
    assert_eq!((run.limits.max_time, run.limits.stall_time), (None, Time::from_ms(1_000)));
    assert_eq!((run.transport.cc.name(), run.transport.pfc, run.transport.control_priority()), ("none", false, false));
    assert!(["timeouts", "bdp_cap", "max_rate"].iter().all(|name| run.transport.settings.value(name).is_none()));
    assert_eq!((run.traffic[0].name.as_str(), run.traffic[0].start), ("poisson", Time::ZERO));
}

#[test]
fn closed_loops_and_durations() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/dcqcn/benchmark-need.toml");
    let run = &load(&path, &[], None).unwrap().runs[2];
    assert_eq!((run.limits.duration, run.fabric.switch.xoff), (Some(Time::from_ms(200)), Some(Bytes(24_470))));
    let TrafficPattern::Pairs { pairs, sizes, messages, think_time, persistent } = &run.traffic[0].pattern else {
        panic!("no pairs")
    };
    assert_eq!(
        (*pairs, sizes.name.as_str(), *messages, *think_time, *persistent),
        (20, "websearch", None, Time::ZERO, true)
    );
    let traffic = r#"{ pattern = "incast", senders = 2, total = "1 MB", interval = "completion", persistent_connections = true }"#;
    let scenario = read_with(SMALL, &[("traffic", traffic), ("limits.duration", "1 ms")]);
    let TrafficPattern::IncastLoop { incast, repeats, think_time, persistent } = &scenario.runs[0].traffic[0].pattern
    else {
        panic!("no loop")
    };
    assert_eq!(
        (incast.senders, incast.total, incast.receiver, incast.connections),
        (2, Bytes(1_000_000), Receiver::Host(0), 1)
    );
    assert_eq!((*repeats, *think_time, *persistent), (None, Time::ZERO, true));
    // A closed-loop incast with an end and a think time.
    let traffic = r#"{ pattern = "incast", senders = 2, total = "1 MB", receiver = 3, repeats = 7, interval = "completion", think_time = "2 us" }"#;
    let scenario = read_with(SMALL, &[("traffic", traffic)]);
    let TrafficPattern::IncastLoop { incast, repeats, think_time, persistent } = &scenario.runs[0].traffic[0].pattern
    else {
        panic!("no loop")
    };
    assert_eq!(
        (incast.receiver, *repeats, *think_time, *persistent),
        (Receiver::Host(3), Some(7), Time::from_us(2), false)
    );
}

#[test]
fn the_seed_comes_from_the_argument_then_an_override_then_the_file() {
    let text = format!("seed = 7\n{SMALL}");
    assert_eq!(read(&text).seed, 7);
    assert_eq!(read_with(&text, &[("seed", "8")]).seed, 8);
    let overrides = [("seed".to_string(), "8".to_string())];
    assert_eq!(from_str(&text, "a.toml", Path::new(""), &overrides, Some(u64::MAX)).unwrap().seed, u64::MAX);
}

#[test]
fn transport_defaults_reach_the_runs_that_use_them() {
    let text =
        format!("{SMALL}bdp_cap = 20\n[transport]\nbdp_cap = 50\nacks = true\nrto_high = \"1 ms\"\npfc = true\n");
    let runs = read(&text).runs;
    let (roce, irn) = (&runs[0].transport, &runs[1].transport);
    let both = |name: &str| [roce.settings.value(name), irn.settings.value(name)];
    assert_eq!(both("bdp_cap"), [Some(50_u64.into()), Some(20_u64.into())], "the run's own value wins");
    assert_eq!(both("acks"), [Some(true.into()), None]);
    assert_eq!(both("rto_high"), [Some(Time::from_ms(1).into()), Some(Time::from_ms(1).into())]);
    assert_eq!((roce.pfc, irn.pfc), (true, true));
}

#[test]
fn a_run_changes_only_its_own_copy() {
    for set in [
        r#"set = { "fabric.switch.buffer" = "60 KB", "traffic.load" = 0.9 }"#,
        r#"set = { fabric.switch.buffer = "60 KB", traffic.load = 0.9 }"#,
        "[run.set]\nfabric.switch.buffer = \"60 KB\"\n\"traffic.load\" = 0.9",
    ] {
        let runs = read(&format!("{SMALL}{set}\n")).runs;
        let load = |run: usize| match runs[run].traffic[0].pattern {
            TrafficPattern::Poisson { load, .. } => load,
            _ => panic!("not poisson"),
        };
        assert_eq!((runs[0].fabric.switch.buffer, load(0)), (None, 0.5), "{set}");
        assert_eq!((runs[1].fabric.switch.buffer, load(1)), (Some(Bytes(60_000)), 0.9), "{set}");
        assert_eq!(runs[1].fabric.topology, TopologySpec::SingleSwitch { hosts: 8 }, "the rest stays: {set}");
    }
}

#[test]
fn a_table_in_set_takes_the_place_of_the_table() {
    let set = r#"set = { traffic = { pattern = "incast", senders = 4, total = "1 MB" } }"#;
    let runs = read(&format!("{SMALL}{set}\n")).runs;
    assert_eq!((runs[0].traffic[0].name.as_str(), runs[1].traffic[0].name.as_str()), ("poisson", "incast"));
}

#[test]
fn overrides_reach_tables_runs_by_number_and_runs_by_name() {
    let overrides = [
        ("fabric.mtu", "4096 B"),
        ("fabric.hosts", "16"),
        ("fabric.switch.buffer", "\"1 MB\""),
        ("limits.max_time", "2 s"),
        ("run.0.pfc", "true"),
        ("run.'IRN 2.0'.bdp_cap", "0x10"),
        ("run.RoCE.set.\"traffic.load\"", "0.25"),
        ("title", "mine"),
    ];
    let scenario = read_with(SMALL, &overrides);
    let (roce, irn) = (&scenario.runs[0], &scenario.runs[1]);
    assert_eq!(scenario.title, "mine");
    assert_eq!((roce.fabric.mtu, hosts(&roce.fabric.topology)), (Bytes(4_096), 16));
    assert_eq!(irn.fabric.switch.buffer, Some(Bytes(1_000_000)));
    assert_eq!(irn.limits.max_time, Some(Time::from_ms(2_000)));
    assert_eq!((roce.transport.pfc, irn.transport.pfc), (true, false));
    assert_eq!(irn.transport.settings.count("bdp_cap"), Ok(16));
    assert!(matches!(roce.traffic[0].pattern, TrafficPattern::Poisson { load: 0.25, .. }));
    assert!(matches!(irn.traffic[0].pattern, TrafficPattern::Poisson { load: 0.5, .. }));
}

#[test]
fn later_overrides_win_and_a_runs_own_set_wins_over_them() {
    let text = format!("{SMALL}set = {{ \"traffic.load\" = 0.9 }}\n");
    let scenario = read_with(&text, &[("traffic.load", "0.1"), ("traffic.load", "0.2")]);
    assert!(matches!(scenario.runs[0].traffic[0].pattern, TrafficPattern::Poisson { load: 0.2, .. }));
    assert!(matches!(scenario.runs[1].traffic[0].pattern, TrafficPattern::Poisson { load: 0.9, .. }));
}

#[test]
fn every_topology_and_its_number_of_hosts() {
    let topology = |fabric: &str| with_fabric(fabric).runs.remove(0).fabric.topology;
    let fat_tree = topology("topology = \"fat-tree\"\nk = 4");
    assert_eq!((hosts(&fat_tree), fat_tree), (16, TopologySpec::FatTree { k: 4 }));
    let dumbbell = topology("topology = \"dumbbell\"\nleft = 2\nright = 3\nbottleneck_rate = \"10 Gbps\"");
    assert_eq!(hosts(&dumbbell), 5);
    let TopologySpec::Dumbbell { bottleneck_rate, bottleneck_delay, .. } = dumbbell else { panic!("{dumbbell:?}") };
    assert_eq!((bottleneck_rate, bottleneck_delay), (Some(BitRate::from_gbps(10)), None));
    let leaves = "topology = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 16\n";
    let leaf_spine = topology(&format!("{leaves}oversubscription = 2.0\nuplink_delay = \"1 us\""));
    assert_eq!(hosts(&leaf_spine), 64);
    let TopologySpec::LeafSpine { uplink_rate, uplink_delay, .. } = leaf_spine else { panic!("{leaf_spine:?}") };
    assert_eq!(uplink_rate, Some(BitRate::from_gbps(400)), "16 x 100 Gbps over 2 spines, two to one");
    assert_eq!(uplink_delay, Some(Time::from_us(1)));
}

#[test]
fn pods_of_leaves_and_spines_with_rates_by_level() {
    let pods = "topology = \"leaf-spine-core\"\npods = 3\nleaves_per_pod = 4\nspines_per_pod = 2\ncores_per_plane = 8\nhosts_per_leaf = 16\n";
    let rates = |keys: &str| {
        let topology = with_fabric(&format!("{pods}{keys}")).runs.remove(0).fabric.topology;
        assert_eq!(hosts(&topology), 192);
        let TopologySpec::LeafSpineCore { uplink_rate, uplink_delay, core_rate, core_delay, .. } = topology else {
            panic!("{topology:?}")
        };
        (uplink_rate, uplink_delay, core_rate, core_delay)
    };
    let gbps = |gbps| Some(BitRate::from_gbps(gbps));
    assert_eq!(rates(""), (None, None, None, None));
    assert_eq!(
        rates("uplink_rate = \"200 Gbps\"\nuplink_delay = \"1 us\"\ncore_rate = \"400 Gbps\"\ncore_delay = \"3 us\""),
        (gbps(200), Some(Time::from_us(1)), gbps(400), Some(Time::from_us(3)))
    );
    // A leaf has 16 downlinks of 100 Gbps and 2 uplinks: at an oversubscription of 2, an uplink has 400 Gbps. A spine
    // then has 4 downlinks of 400 Gbps and 8 uplinks: at an oversubscription of 0.5, an uplink has 400 Gbps.
    let follow = rates("oversubscription = 2.0\ncore_oversubscription = 0.5");
    assert_eq!((follow.0, follow.2), (gbps(400), gbps(400)));
    // If the uplinks of leaves have the default rate, a spine has 4 downlinks of 100 Gbps and 8 uplinks: at an
    // oversubscription of 1, an uplink has 50 Gbps.
    assert_eq!(rates("core_oversubscription = 1"), (None, None, gbps(50), None));
}

#[test]
fn a_graph_names_its_nodes_or_counts_them() {
    let links = "[[fabric.link]]\nfrom = \"h0\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"s1\"\nto = \"h1\"\nloss = 0.01\n\
        [[fabric.link]]\nfrom = \"s0\"\nto = \"s1\"\nrate = \"400 Gbps\"\n";
    for nodes in ["hosts = 2\nswitches = 2\n", "hosts = [\"h0\", \"h1\"]\nswitches = [\"s0\", \"s1\"]\n"] {
        let fabric = with_fabric(&format!("topology = \"graph\"\n{nodes}{links}")).runs.remove(0).fabric;
        let TopologySpec::Graph { hosts, switches } = &fabric.topology else { panic!("not a graph") };
        assert_eq!((hosts.join(" "), switches.join(" ")), ("h0 h1".to_string(), "s0 s1".to_string()));
        assert_eq!(fabric.links.len(), 3);
        assert_eq!((fabric.links[1].loss, fabric.links[2].rate), (Some(0.01), Some(BitRate::from_gbps(400))));
        assert_eq!((fabric.links[0].rate, fabric.links[0].delay), (None, None));
    }
}

#[test]
fn single_cables_of_a_regular_topology_can_be_changed() {
    let link = |from: &str, to: &str| format!("[[fabric.link]]\nfrom = \"{from}\"\nto = \"{to}\"\ndelay = \"9 us\"\n");
    let fabric = format!(
        "topology = \"fat-tree\"\nk = 4\n{}{}{}",
        link("edge0", "h1"),
        link("agg3", "edge2"),
        link("agg0", "core1")
    );
    let fabric = with_fabric(&fabric).runs.remove(0).fabric;
    assert_eq!(fabric.links.len(), 3);
    assert_eq!(fabric.links[0].delay, Some(Time::from_us(9)));
}

#[test]
fn every_pattern() {
    let traffic = with_traffic("[traffic]\npattern = \"incast\"\nsenders = 7\ntotal = \"15 MB\"\nreceiver = 3\n");
    let expected = TrafficPattern::Incast {
        senders: 7,
        total: Bytes(15_000_000),
        repeats: 1,
        receiver: Receiver::Host(3),
        connections: 1,
        interval: None,
    };
    assert_eq!(traffic[0].pattern, expected);
    let traffic = with_traffic("[traffic]\npattern = \"permutation\"\nsizes = \"fixed 1 MB\"\nstart = \"3 us\"\n");
    assert!(
        matches!(traffic[0].pattern, TrafficPattern::Permutation { repeats: 1, interval, .. } if interval == Time::from_ms(1))
    );
    assert_eq!(traffic[0].start, Time::from_us(3));
    let traffic = with_traffic(
        "[traffic]\npattern = \"all-to-all\"\nsizes = \"fixed 1 MB\"\nrepeats = 2\nwarmup = 56\ncooldown = 55\n",
    );
    assert!(matches!(traffic[0].pattern, TrafficPattern::AllToAll { repeats: 2, .. }));
    assert_eq!((traffic[0].warmup, traffic[0].cooldown), (56, 55));
    let traffic = with_traffic(
        "[traffic]\npattern = \"all-to-all\"\nsizes = \"fixed 1 MB\"\noutstanding = 4\nthink_time = \"3 us\"\n",
    );
    let TrafficPattern::AllToAllLoop { repeats, outstanding, think_time, .. } = traffic[0].pattern else {
        panic!("{traffic:?}")
    };
    assert_eq!((repeats, outstanding, think_time), (1, 4, Time::from_us(3)));
}

#[test]
fn a_run_may_measure_the_excess_without_samples() {
    let watch =
        |keys: &str| rnic_scenario::from_str(&format!("{SMALL}\n[watch]\n{keys}\n"), "a.toml", "".as_ref(), &[], None);
    let run = watch("excess = true").unwrap().runs.remove(0);
    let watch_of = run.watch.as_ref().unwrap();
    assert!(watch_of.excess && !watch_of.samples());
    let both = watch("excess = true\nflows = true\ninterval = \"3 us\"").unwrap().runs.remove(0).watch.unwrap();
    assert!(both.excess && both.samples() && both.interval == Time::from_us(3));
    let error = |keys: &str| watch(keys).unwrap_err().to_string();
    assert!(
        error("excess = true\ninterval = \"3 us\"")
            .contains("`excess` takes no samples; leave `interval` and `start` out")
    );
    assert!(error("flows = true").contains("`interval` is missing in [watch]"));
    assert!(error("excess = false").contains("[watch] has nothing to look at"));
}

#[test]
fn several_sources_of_traffic_in_the_order_of_the_file() {
    let poisson = "[[traffic]]\npattern = \"poisson\"\nload = 1\nsizes = \"fixed 1 MB\"\nflows = 10\n";
    let incast = "[[traffic]]\nname = \"requests\"\npattern = \"incast\"\nsenders = 7\ntotal = \"1 MB\"\n";
    let names: Vec<String> =
        with_traffic(&format!("{incast}{poisson}")).into_iter().map(|source| source.name).collect();
    assert_eq!(names, ["requests", "poisson"]);
    let text = SMALL.replace("[traffic]", "[[traffic]]");
    let scenario = read_with(&text, &[("traffic.poisson.load", "0.6"), ("traffic.0.name", "p")]);
    assert_eq!(scenario.runs[0].traffic[0].name, "p");
    assert!(matches!(scenario.runs[0].traffic[0].pattern, TrafficPattern::Poisson { load: 0.6, .. }));
}

#[test]
fn files_that_are_not_there_are_errors() {
    let list = SMALL.replace("pattern = \"poisson\"", "pattern = \"list\"\nfile = \"flows.csv\"");
    let list = list.replace("load = 0.5\nsizes = \"fixed 1 MB\"\nflows = 100\n", "");
    let sizes = SMALL.replace("fixed 1 MB", "mine.cdf");
    for (text, file, line) in [(list, "flows.csv", 9), (sizes, "mine.cdf", 10)] {
        match from_str(&text, "a.toml", Path::new("no/such/folder"), &[], None) {
            Err(ScenarioError::Mistake(mistake)) => {
                assert!(mistake.message.contains(file), "{mistake}");
                assert_eq!(mistake.line_column().0, line, "{mistake}");
            }
            other => panic!("{other:?}"),
        }
    }
    let missing = load(Path::new("no/such/scenario.toml"), &[], None);
    assert!(matches!(&missing, Err(ScenarioError::Io { path, .. }) if path.ends_with("scenario.toml")), "{missing:?}");
}

#[test]
fn random_traffic_has_localities_and_arrivals() {
    let with = |keys: &str| {
        let text = format!("[traffic]\npattern = \"poisson\"\nload = 0.5\nsizes = \"fixed 1 MB\"\nflows = 9\n{keys}\n");
        let TrafficPattern::Poisson { locality, arrivals, .. } = with_traffic(&text).remove(0).pattern else {
            panic!()
        };
        (locality, arrivals)
    };
    assert_eq!(with(""), (Locality::default(), Arrivals::Poisson));
    assert_eq!(with("arrivals = \"poisson\"").1, Arrivals::Poisson);
    let near = Locality { leaf: Some(0.5), pod: Some(0.25) };
    assert_eq!(with("locality = 0.5\npod_locality = 0.25").0, near);
    assert_eq!(with("arrivals = \"log-normal\"\ncv = 0.5").1, Arrivals::LogNormal { cv: 0.5 });
    assert_eq!(with("arrivals = \"on-off\"\ncv = 2").1, Arrivals::OnOff { cv: 2.0, on_share: 0.5 });
    assert_eq!(with("arrivals = \"on-off\"\ncv = 1.1\non_share = 0.2").1, Arrivals::OnOff { cv: 1.1, on_share: 0.2 });
}

#[test]
fn the_receiver_of_an_incast_may_change() {
    let with = |keys: &str| {
        let text = format!("[traffic]\npattern = \"incast\"\nsenders = 2\ntotal = \"1 MB\"\nrepeats = 2\n{keys}\n");
        with_traffic(&text).remove(0).pattern
    };
    for (word, rotation) in [("round-robin", Rotation::RoundRobin), ("random", Rotation::Random)] {
        let TrafficPattern::Incast { receiver, .. } = with(&format!("receiver = \"{word}\"")) else { panic!() };
        assert_eq!(receiver, Receiver::Changing(rotation));
        let TrafficPattern::IncastLoop { incast, .. } =
            with(&format!("receiver = \"{word}\"\ninterval = \"completion\""))
        else {
            panic!()
        };
        assert_eq!(incast.receiver, Receiver::Changing(rotation));
    }
}

/// Documents of runs have the keys of locality and arrivals only if the scenario has them.
#[test]
fn documents_have_new_keys_only_where_they_are_used() {
    let document = |traffic: &str| {
        let scenario = read_with(SMALL, &[("traffic", traffic)]);
        let document: serde_json::Value = serde_json::from_str(&scenario.runs[0].to_json(false).unwrap()).unwrap();
        let back = rnic_spec::RunSpec::from_json(&document.to_string(), &rnic_spec::Vocabulary::standard()).unwrap();
        assert_eq!(back, scenario.runs[0]);
        document["run"]["traffic"][0]["pattern"].clone()
    };
    let poisson = document(r#"{ pattern = "poisson", load = 0.5, sizes = "fixed 1 KB", flows = 9 }"#);
    let keys: Vec<&String> = poisson.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["pattern", "load", "sizes", "flows"]);
    let incast = document(r#"{ pattern = "incast", senders = 2, total = "1 MB", receiver = 3 }"#);
    assert_eq!(incast["receiver"], 3);
    let changing = document(r#"{ pattern = "incast", senders = 2, total = "1 MB", receiver = "round-robin" }"#);
    assert_eq!(changing["receiver"], "round-robin");
    let bursty = document(
        r#"{ pattern = "poisson", load = 0.5, sizes = "fixed 1 KB", flows = 9, locality = 0.5, arrivals = "log-normal", cv = 2.0 }"#,
    );
    assert_eq!(bursty["locality"], serde_json::json!({ "leaf": 0.5 }));
    assert_eq!(bursty["arrivals"], serde_json::json!({ "process": "log-normal", "cv": 2.0 }));
}

/// Figure 7 of "RDMA over Commodity Ethernet at Scale": two podsets of 24 ToR and 4 leaf switches with 576 servers each
/// under 64 spines; 8 servers of each ToR have 8 connections to ToR i of the other podset, both ways.
#[test]
fn the_network_and_the_connections_of_figure_7_of_rdma_at_scale() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/at-scale/fig7.toml");
    let scenario = load(&path, &[], None).unwrap();
    let run = &scenario.runs[0];
    let TopologySpec::LeafSpineCore { pods, leaves_per_pod, spines_per_pod, cores_per_plane, hosts_per_leaf, .. } =
        run.fabric.topology
    else {
        panic!("not leaf-spine-core")
    };
    assert_eq!((pods, leaves_per_pod, spines_per_pod, spines_per_pod * cores_per_plane), (2, 24, 4, 64));
    // 24 x 40 Gbps above 4 x 40 Gbps are 6:1; 24 links down and 16 up are 3:2.
    assert_eq!((hosts_per_leaf / spines_per_pod, 2 * leaves_per_pod, 3 * cores_per_plane), (6, 48, 48));
    assert_eq!((hosts(&run.fabric.topology), run.fabric.link.rate), (1_152, BitRate::from_gbps(40)));
    let TrafficPattern::List { flows } = &run.traffic[0].pattern else { panic!("not a list") };
    assert_eq!(flows.len(), 3_072);
    let mut pairs = std::collections::BTreeMap::new();
    for flow in flows.iter() {
        assert_eq!(flow.src.abs_diff(flow.dst), 576, "the same server of the other podset");
        *pairs.entry((flow.src, flow.dst)).or_insert(0) += 1;
    }
    assert!(pairs.len() == 2 * 24 * 8 && pairs.values().all(|connections| *connections == 8));
    for tor in 0..48 {
        let of_tor = pairs.keys().filter(|(src, _)| src / 24 == tor).count();
        assert_eq!(of_tor, 8, "ToR {tor}");
    }
}

/// The testbed of the DCQCN paper (figure 2): five hosts under each of four ToRs, two leaves for each two ToRs, and two
/// spines.
#[test]
fn the_testbed_of_the_dcqcn_paper() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/dcqcn/unfairness.toml");
    let run = &load(&path, &[], None).unwrap().runs[0];
    let TopologySpec::Graph { hosts, switches } = &run.fabric.topology else { panic!("not a graph") };
    assert_eq!((hosts.len(), switches.len(), run.fabric.link.rate), (20, 10, BitRate::from_gbps(40)));
    let mut peers: Vec<(&str, &str)> =
        run.fabric.links.iter().map(|link| (link.from.as_str(), link.to.as_str())).collect();
    peers.sort_unstable();
    let mut expected = Vec::new();
    for (tor, leaves) in [("t1", ["l1", "l2"]), ("t2", ["l1", "l2"]), ("t3", ["l3", "l4"]), ("t4", ["l3", "l4"])] {
        expected.extend(leaves.map(|leaf| (tor, leaf)));
        expected.extend(hosts.iter().filter(|host| host[1..2] == tor[1..]).map(|host| (host.as_str(), tor)));
    }
    for leaf in ["l1", "l2", "l3", "l4"] {
        expected.extend(["s1", "s2"].map(|spine| (leaf, spine)));
    }
    expected.sort_unstable();
    assert_eq!(peers, expected);
}
