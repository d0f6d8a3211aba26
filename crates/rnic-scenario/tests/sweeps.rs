//! Tests of `[sweep]` and `extends`: the runs that they produce, and their error messages.

use rnic_fabric::config::TopologySpec;
use rnic_scenario::{ScenarioError, from_embedded, from_str, load};
use rnic_spec::{RunSpec, Scenario, TrafficPattern};
use rnic_transport::Bytes;
use std::path::Path;

const BASE: &str = r#"title = "base"
seed = 5
[fabric]
topology = "fat-tree"
k = 4
rate = "40 Gbps"
delay = "2 us"
[fabric.switch]
buffer = "240 KB"
[traffic]
pattern = "poisson"
load = 0.7
sizes = "fixed 10 KB"
flows = 100
[transport]
rto_high = "320 us"
[[run]]
name = "RoCE"
transport = "roce"
[[run]]
name = "IRN"
transport = "irn"
"#;

fn read(files: &[(&str, &str)], overrides: &[(&str, &str)], seed: Option<u64>) -> Result<Scenario, String> {
    let overrides: Vec<_> = overrides.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect();
    from_embedded(files, files[0].0, &overrides, seed).map_err(|error| {
        if let ScenarioError::Mistake(mistake) = &error {
            assert!(mistake.text.get(mistake.span.clone()).is_some(), "the span lies in the text: {mistake}");
        }
        error.to_string()
    })
}

/// Reads [`BASE`] with `more` appended.
fn with(more: &str) -> Result<Scenario, String> {
    read(&[("a.toml", &(BASE.to_string() + more))], &[], None)
}

fn names(scenario: &Scenario) -> Vec<&str> {
    scenario.runs.iter().map(|run| run.name.as_str()).collect()
}

fn load_of(run: &RunSpec) -> f64 {
    match run.traffic[0].pattern {
        TrafficPattern::Poisson { load, .. } => load,
        _ => panic!("not poisson"),
    }
}

#[test]
fn a_grid_combines_each_value_with_each_and_all_runs_at_each_point() {
    let scenario = with("[sweep]\n\"traffic.load\" = [0.3, 0.5]\nfabric.k = [4, 6]\n").unwrap();
    assert_eq!(
        names(&scenario),
        [
            "RoCE, load=0.3, k=4",
            "IRN, load=0.3, k=4",
            "RoCE, load=0.3, k=6",
            "IRN, load=0.3, k=6",
            "RoCE, load=0.5, k=4",
            "IRN, load=0.5, k=4",
            "RoCE, load=0.5, k=6",
            "IRN, load=0.5, k=6"
        ]
    );
    let run = &scenario.runs[3];
    assert_eq!((run.base.as_str(), load_of(run), run.seed), ("IRN", 0.3, 5));
    assert_eq!(run.fabric.topology, TopologySpec::FatTree { k: 6 });
    let point = [("traffic.load", "0.3"), ("fabric.k", "6")].map(|(k, v)| (k.to_string(), v.to_string()));
    assert_eq!(run.point, point);
}

#[test]
fn zip_pairs_the_values() {
    let scenario = with("[sweep]\nmode = \"zip\"\ntraffic.load = [0.3, 0.5]\nseed = [8, 9]\n").unwrap();
    assert_eq!(
        names(&scenario),
        ["RoCE, load=0.3, seed=8", "IRN, load=0.3, seed=8", "RoCE, load=0.5, seed=9", "IRN, load=0.5, seed=9"]
    );
    let runs: Vec<_> = scenario.runs.iter().map(|run| (load_of(run), run.seed)).collect();
    assert_eq!(runs, [(0.3, 8), (0.3, 8), (0.5, 9), (0.5, 9)]);
    assert_eq!(scenario.seed, 5);
}

#[test]
fn keys_of_the_run_itself_tables_and_quantities_can_be_swept() {
    let scenario = with("[sweep]\nrun.cc = [\"timely\", \"dctcp\"]\n").unwrap();
    assert_eq!(names(&scenario), ["RoCE, cc=timely", "IRN, cc=timely", "RoCE, cc=dctcp", "IRN, cc=dctcp"]);
    assert_eq!(scenario.runs[3].transport.cc.name(), "dctcp");
    let scenario = with("[sweep]\nfabric.switch.buffer = [\"60 KB\",\n  \"120 KB\"]\ntraffic = [{ pattern = \"permutation\",   sizes = \"fixed 1 KB\" }]\n").unwrap();
    assert_eq!(scenario.runs.len(), 4);
    assert_eq!(
        scenario.runs[1].name,
        "IRN, buffer=60 KB, traffic={ pattern = \"permutation\", sizes = \"fixed 1 KB\" }"
    );
    assert_eq!(scenario.runs[2].fabric.switch.buffer, Some(Bytes(120_000)));
    assert!(matches!(scenario.runs[0].traffic[0].pattern, TrafficPattern::Permutation { .. }));
}

#[test]
fn a_sweep_can_be_given_or_changed_on_the_command_line() {
    let base = [("a.toml", BASE)];
    let scenario = read(&base, &[("sweep.seed", "[1, 2]"), ("sweep.traffic.load", "[0.5]")], None).unwrap();
    assert_eq!(names(&scenario)[..2], ["RoCE, seed=1, load=0.5", "IRN, seed=1, load=0.5"]);
    let swept = BASE.to_string() + "[sweep]\nfabric.k = [4, 6]\n";
    for path in ["sweep.fabric.k", "sweep.\"fabric.k\""] {
        for written in [&swept, &swept.replace("fabric.k =", "\"fabric.k\" =")] {
            let scenario = read(&[("a.toml", written)], &[(path, "[8]")], None).unwrap();
            assert_eq!(names(&scenario), ["RoCE, k=8", "IRN, k=8"], "{path}");
        }
    }
    let scenario = read(&[("a.toml", &swept)], &[("sweep", "{}")], None).unwrap();
    assert_eq!(names(&scenario), ["RoCE", "IRN"]);
    assert!(scenario.runs[0].point.is_empty());
    let error = read(&base, &[("sweep.seed", "[1, -2]")], None).unwrap_err();
    assert_eq!(error, "--set sweep.seed=[1, -2]: `seed` is out of range: -2; accepted: 0 to 18446744073709551615");
}

#[test]
fn a_run_at_a_point_is_the_run_with_that_value_written() {
    let swept = with("[sweep]\ntraffic.load = [0.3, 0.5]\n").unwrap();
    let written = read(&[("a.toml", &BASE.replace("0.7", "0.5"))], &[], None).unwrap();
    for (run, alone) in swept.runs[2..].iter().zip(&written.runs) {
        let (name, point) = (alone.name.clone(), Vec::new());
        assert_eq!(RunSpec { name, point, ..run.clone() }, *alone);
    }
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn mistakes_in_a_sweep() {
    let cases = [
        ("[sweep]\nfabric.k = [4, 5]\n",
            "a.toml:24:16: `k` is odd: 5; a fat-tree needs an even number, for example 6"),
        ("[sweep]\nfabric.k = 4\n",
            "a.toml:24:12: `fabric.k` must be a list in [sweep], not an integer; write a list of values, for example `\"fabric.k\" = [1, 2]`"),
        ("[sweep]\nfabric.k = []\n",
            "a.toml:24:12: `fabric.k` has no values in [sweep]; write a list of values, for example `\"fabric.k\" = [1, 2]`"),
        ("[sweep]\nfabric = { k = [4], loss = 0 }\n",
            "a.toml:24:28: `fabric.loss` must be a list in [sweep], not an integer; write a list of values, for example `\"fabric.loss\" = [1, 2]`"),
        ("[sweep.fabric]\nk = [4, 6]\n", "accepted"),
        ("[sweep]\nmode = \"grip\"\n",
            "a.toml:24:8: unknown mode \"grip\"; did you mean `grid`? available: \"grid\", \"zip\""),
        ("[sweep]\ntitle = [\"a\"]\n",
            "a.toml:24:1: the sweep cannot vary `title`; a path in [sweep] is `seed`, or begins with fabric, traffic, transport or limits, or with run for a key of every run"),
        ("[sweep]\nrun.name = [\"a\"]\n",
            "a.toml:24:5: the sweep cannot vary `run.name`; a path in [sweep] is `seed`, or begins with fabric, traffic, transport or limits, or with run for a key of every run"),
        ("[sweep]\nfabric.k = [4]\n\"fabric.k\" = [4]\n",
            "a.toml:25:1: the sweep varies `fabric.k` twice; write one list"),
        ("[sweep]\n\"fabric.k\" = [4]\nfabric = [{}]\n",
            "a.toml:24:1: the sweep varies `fabric` and, within it, `fabric.k`; sweep one of them"),
        ("[sweep]\nmode = \"zip\"\nfabric.k = [4, 6]\nseed = [1, 2, 3]\n",
            "a.toml:26:1: `seed` has 3 values, but `fabric.k` has 2; with mode = \"zip\" all lists are equally long; \"grid\" combines each value with each"),
        ("[sweep]\nfabric.k = [4, 6, 4]\n",
            "a.toml:24:19: the sweep has k=4 twice; give each value once"),
        ("[sweep]\nfabric.kk = [4, 6]\n",
            "a.toml:24:8: unknown key `kk` in [fabric]; accepted here: topology, rate, delay, loss, mtu, frame_gap, clock_skew_ppm, clock_jitter, paths, flowlet_gap, switch, link, convergence, local_repair, route, storm, drop, dead, receiver, watchdog, nic_watchdog, mesh, k"),
        ("[sweep]\nfabric.k.more = [4, 6]\n",
            "a.toml:24:10: `fabric.k` is an integer, so it has no `more`; set `fabric.k` itself"),
        ("pfc = true\n[sweep]\nrun.pfc = [true, false]\n",
            "a.toml:25:5: run \"IRN\" has its own `pfc`, but the sweep varies `run.pfc`; remove the one or the other"),
        ("cc = \"none\"\n[sweep]\ntransport.cc = [\"timely\"]\n",
            "a.toml:25:11: run \"IRN\" has its own `cc`, but the sweep varies `transport.cc`; remove the one or the other"),
        ("set = { \"fabric.k\" = 6 }\n[sweep]\nfabric.k = [4, 6]\n",
            "a.toml:25:8: `set` of run \"IRN\" changes `fabric.k`, but the sweep varies it; remove the one or the other"),
        ("set = { traffic = { pattern = \"permutation\", sizes = \"fixed 1 KB\" } }\n[sweep]\ntraffic.load = [0.5]\n",
            "a.toml:25:9: `set` of run \"IRN\" changes `traffic.load`, but the sweep varies it; remove the one or the other"),
        ("bdp_cap = 0\n[sweep]\ntraffic.load = [0.5]\n",
            "a.toml:23:11: `bdp_cap` is out of range: 0, in run \"IRN, load=0.5\" of the sweep; accepted: 1 to 8388607"),
        ("[[run]]\nname = \"IRN, k=6\"\ntransport = \"irn\"\n[sweep]\nfabric.k = [4, 6]\n", "accepted"),
        ("[sweep]\nrun = [1]\n",
            "a.toml:24:1: the sweep cannot vary `run`; a path in [sweep] is `seed`, or begins with fabric, traffic, transport or limits, or with run for a key of every run"),
        ("[sweep]\nseed.more = [1]\n",
            "a.toml:24:6: the sweep cannot vary `seed.more`; a path in [sweep] is `seed`, or begins with fabric, traffic, transport or limits, or with run for a key of every run"),
        ("[sweep]\n", "accepted"),
        ("[[sweep]]\n",
            "a.toml:23:1: `sweep` must be one table, not an array; write `[sweep]`"),
    ];
    let mut wrong = Vec::new();
    for (more, expected) in cases {
        let got = with(more).err().unwrap_or_else(|| "accepted".to_string());
        if got != expected {
            wrong.push(format!("{more}\n  expected {expected}\n  got      {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_sweep_has_at_most_ten_thousand_runs() {
    let list = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let sweep = |seeds: usize| with(&format!("[sweep]\nseed = [{}]\n", list(seeds)));
    assert_eq!(sweep(5_000).unwrap().runs.len(), 10_000);
    assert_eq!(
        sweep(5_001).unwrap_err(),
        "a.toml:23:1: the sweep makes 10002 runs; accepted: at most 10000 runs, that is points times [[run]]"
    );
    let many = format!("seed = [{0}]\nfabric.k = [{0}]\ntraffic.load = [{0}]\nfabric.loss = [{0}]\n", list(9_999));
    assert!(with(&format!("[sweep]\n{many}")).unwrap_err().contains("the sweep makes 19992001199920002 runs"));
}

#[test]
fn a_seed_for_all_and_a_sweep_of_seeds_exclude_each_other() {
    let text = BASE.to_string() + "[sweep]\nseed = [1, 2]\n";
    let error = read(&[("a.toml", &text)], &[], Some(3)).unwrap_err();
    assert_eq!(
        error,
        "a.toml:24:1: --seed is given, but the sweep varies `seed`; leave out --seed, or `seed` of [sweep]"
    );
    let text = BASE.to_string() + "[sweep]\nfabric.k = [4, 6]\n";
    let scenario = read(&[("a.toml", &text)], &[], Some(3)).unwrap();
    assert!(scenario.runs.iter().all(|run| run.seed == 3));
}

#[test]
fn a_scenario_states_only_its_difference() {
    let child = "extends = \"base.toml\"\n[fabric]\nrate = \"10 Gbps\"\n[fabric.switch]\nxoff = \"200 KB\"\n[traffic]\nload = 0.3\n[transport]\npfc = true\n";
    let scenario = read(&[("folder/child.toml", child), ("folder/base.toml", BASE)], &[], None).unwrap();
    assert_eq!((scenario.title.as_str(), scenario.name.as_str(), scenario.seed), ("child", "child", 5));
    assert_eq!(names(&scenario), ["RoCE", "IRN"]);
    let run = &scenario.runs[1];
    assert_eq!((run.fabric.link.rate.as_bps(), load_of(run)), (10_000_000_000, 0.3));
    assert_eq!((run.fabric.switch.buffer, run.fabric.switch.xoff), (Some(Bytes(240_000)), Some(Bytes(200_000))));
    assert_eq!(run.fabric.topology, TopologySpec::FatTree { k: 4 });
}

#[test]
fn runs_sweeps_inline_tables_patterns_and_topologies_are_replaced() {
    let swept = BASE.to_string() + "[sweep]\nfabric.k = [4, 6]\n";
    let read = |child: &str| {
        let child = format!("extends = \"base.toml\"\n{child}");
        read(&[("child.toml", &child), ("base.toml", &swept)], &[], None).unwrap()
    };
    assert_eq!(read("").runs.len(), 4, "a sweep is inherited");
    let scenario = read("[sweep]\ntraffic.load = [0.1]\n[[run]]\nname = \"only\"\ntransport = \"irn\"\n");
    assert_eq!(names(&scenario), ["only, load=0.1"]);
    assert_eq!(names(&read("[sweep]\n")), ["RoCE", "IRN"], "an empty sweep is none");
    let traffic =
        read("[sweep]\n[traffic]\npattern = \"incast\"\nsenders = 3\ntotal = \"3 MB\"\n").runs[0].traffic.clone();
    assert!(matches!(traffic[0].pattern, TrafficPattern::Incast { .. }));
    let fabric = read("[sweep]\n[fabric]\ntopology = \"single-switch\"\nhosts = 8\n").runs[0].fabric.clone();
    assert_eq!(
        (fabric.topology, fabric.switch.buffer),
        (TopologySpec::SingleSwitch { hosts: 8 }, Some(Bytes(240_000)))
    );
    let switch = read("[transport]\npfc = true\n[fabric]\nswitch = { xoff = \"1 KB\" }\n").runs[0].fabric.switch;
    assert_eq!((switch.buffer, switch.xoff), (None, Some(Bytes(1_000))));
    assert_eq!(
        read("[[traffic]]\npattern = \"permutation\"\nsizes = \"fixed 1 KB\"\n[sweep]\n").runs[0].traffic.len(),
        1
    );
}

#[test]
fn a_chain_ends_and_the_nearest_file_wins() {
    let files = [
        ("a/c.toml", "extends = \"../b/b.toml\"\ntraffic.load = 0.1\n"),
        ("b/b.toml", "extends = \"../base.toml\"\nseed = 8\n[traffic]\nload = 0.2\nflows = 7\n"),
        ("base.toml", BASE),
    ];
    let scenario = read(&files, &[("seed", "9")], None).unwrap();
    assert_eq!((load_of(&scenario.runs[0]), scenario.seed), (0.1, 9));
    assert!(matches!(scenario.runs[0].traffic[0].pattern, TrafficPattern::Poisson { flows: 7, .. }));
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn mistakes_around_extends() {
    let cases: [(&str, &str, &str); 8] = [
        ("extends = 3\n", BASE,
            "child.toml:1:11: `extends` must be a string, not an integer; write the path of a scenario file, for example `extends = \"default.toml\"`"),
        ("extends = \"bas.toml\"\n", BASE,
            "child.toml:1:11: cannot read `bas.toml`: there are only child.toml, base.toml; a file that is not built in needs an absolute path; write the path of a scenario file, for example `extends = \"default.toml\"`, relative to this file's folder"),
        ("extends = \"./child.toml\"\n", BASE,
            "child.toml:1:11: `extends` leads back to `./child.toml`; a scenario cannot inherit from itself: a chain of `extends` has to end"),
        ("extends = \"base.toml\"\n", "extends = \"child.toml\"\n",
            "base.toml:1:11: `extends` leads back to `child.toml`; a scenario cannot inherit from itself: a chain of `extends` has to end"),
        ("extends = \"base.toml\"\n", "[fabric\n",
            "base.toml:1:8: this is not TOML: unclosed table, expected `]`"),
        ("extends = \"base.toml\"\n[traffic]\nload = 7\n", BASE,
            "child.toml:3:8: `load` is out of range: 7; accepted: more than 0, at most 1, for example 0.7"),
        ("extends = \"base.toml\"\n[fabric.switch]\nxoff = \"241 KB\"\n", BASE,
            "child.toml:3:8: `xoff` of 241 KB is above `buffer` of 240 KB; `xoff` can be at most `buffer`: change both, or leave it out"),
        ("extends = \"base.toml\"\n", "[traffic]\npatern = 3\n[fabric]\ntopology = \"single-switch\"\nhosts = 2\nrate = \"1 Gbps\"\ndelay = \"1 us\"\n[[run]]\nname = \"a\"\ntransport = \"irn\"\n",
            "base.toml:1:1: `pattern` is missing in [traffic]; write for example `pattern = \"poisson\"`"),
    ];
    for (child, base, expected) in cases {
        let error = read(&[("child.toml", child), ("base.toml", base)], &[], None).err();
        assert_eq!(error.unwrap_or_default(), expected, "{child}");
    }
    let error = read(&[("base.toml", BASE)], &[("extends", "other.toml")], None).unwrap_err();
    assert_eq!(error, "--set extends=other.toml: `extends` cannot be overridden; change it in the file");
    assert!(from_embedded(&[("a.toml", BASE)], "b.toml", &[], None).unwrap_err().to_string().contains("cannot read `b.toml`"));
}

#[test]
fn files_are_relative_to_the_file_that_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir_all(folder.path().join("deep")).unwrap();
    write("sizes.cdf", "1000 100\n");
    write("deep/own.cdf", "2000 100\n");
    write("base.toml", &BASE.replace("fixed 10 KB", "sizes.cdf"));
    write("deep/child.toml", "extends = \"../base.toml\"\n");
    let path = folder.path().join("deep/child.toml");
    let sizes = |scenario: Scenario| match &scenario.runs[0].traffic[0].pattern {
        TrafficPattern::Poisson { sizes, .. } => sizes.points.last().map(|point| point.0),
        _ => None,
    };
    assert_eq!(sizes(load(&path, &[], None).unwrap()), Some(1_000.0));
    let own = [("traffic.sizes".to_string(), "own.cdf".to_string())];
    assert_eq!(sizes(load(&path, &own, None).unwrap()), Some(2_000.0), "--set is relative to the scenario's folder");
    write("deep/child.toml", "extends = \"child.toml\"\n");
    let error = load(&path, &[], None).unwrap_err().to_string();
    assert!(error.contains("child.toml:1:11: `extends` leads back to `"), "{error}");
    let missing = from_str("extends = \"no.toml\"", "a.toml", folder.path(), &[], None).unwrap_err().to_string();
    assert!(missing.starts_with("a.toml:1:11: cannot read `") && missing.contains("no.toml`: "), "{missing}");
    assert!(load(Path::new("no/such.toml"), &[], None).is_err());
}
