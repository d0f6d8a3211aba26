//! Tests of the `rnic` command as a process: exit codes, output streams and error messages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const GOOD: &str = r#"title = "two transports"
[fabric]
topology = "single-switch"
hosts = 4
rate = "40 Gbps"
delay = "1 us"
[traffic]
pattern = "poisson"
load = 0.5
sizes = "fixed 10 KB"
flows = 50
warmup = 5
[[run]]
name = "RoCE + PFC"
transport = "roce"
pfc = true
[[run]]
name = "IRN"
transport = "irn"
"#;

/// A temporary folder that contains a scenario.
struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn with(text: &str) -> Folder {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.toml"), text).unwrap();
        Folder { folder }
    }

    fn rnic(&self, arguments: &[&str]) -> Output {
        rnic(self.folder.path(), arguments)
    }
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn rnic(folder: &Path, arguments: &[&str]) -> Output {
    command(folder).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The root folder of the repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Asserts that the command printed `line` as its only line on standard error, printed nothing on standard output, and
/// ended with exit code 2.
#[track_caller]
fn assert_bad_input(output: &Output, line: &str) {
    assert_eq!(stderr(output), format!("{line}\n"));
    assert_eq!((output.status.code(), stdout(output).as_str()), (Some(2), ""));
}

#[test]
fn each_kind_of_bad_input_is_one_line_with_its_position() {
    let cases = [
        (
            "load = 0.5",
            "load = ",
            "error: a.toml:9:8: this is not TOML: a value is missing; a value is a number, true, false, or text in quotes",
        ),
        (
            "rate =",
            "rat =",
            "error: a.toml:5:1: unknown key `rat` in [fabric]; did you mean `rate`? accepted here: topology, rate, delay, loss, mtu, frame_gap, clock_skew_ppm, clock_jitter, paths, flowlet_gap, switch, link, convergence, local_repair, route, storm, drop, dead, receiver, watchdog, nic_watchdog, mesh, hosts",
        ),
        (
            "\"40 Gbps\"",
            "40",
            "error: a.toml:5:8: `rate` needs a unit, 40 has none; write a string with a unit, for example \"40 Gbps\"",
        ),
        (
            "1 us",
            "1 KB",
            "error: a.toml:6:9: `delay`: `1 KB` has the unknown unit `KB`; use one of ps, ns, us, ms, s, for example \"2 us\"",
        ),
        (
            "load = 0.5",
            "load = 1.5",
            "error: a.toml:9:8: `load` is out of range: 1.5; accepted: more than 0, at most 1, for example 0.7",
        ),
        ("hosts = 4\n", "", "error: a.toml:2:1: `hosts` is missing in [fabric]; write for example `hosts = 4`"),
        (
            "\"irn\"",
            "\"inr\"",
            "error: a.toml:19:13: unknown transport \"inr\"; did you mean `irn`? available: \"roce\", \"irn\", \"iwarp\", \"tcp\", \"uet\", \"ndp\", \"homa\", \"homa-tr\", \"hpcc\", \"rogue\", \"multipath\", \"p4:FILE\"",
        ),
        (
            "pfc = true",
            "pfc = \"on\"",
            "error: a.toml:16:7: `pfc` must be true or false, not a string; write for example `pfc = true`",
        ),
        (
            "\"IRN\"",
            "\"RoCE + PFC\"",
            "error: a.toml:18:8: two runs are called \"RoCE + PFC\"; give each run its own name",
        ),
    ];
    for (from, to, line) in cases {
        let folder = Folder::with(&GOOD.replacen(from, to, 1));
        for subcommand in ["run", "check", "flows", "topology"] {
            assert_bad_input(&folder.rnic(&[subcommand, "a.toml"]), line);
        }
    }
}

#[test]
fn bad_overrides_name_the_argument() {
    let folder = Folder::with(GOOD);
    let cases = [
        (
            "fabric.mtu=1500",
            "error: --set fabric.mtu=1500: `mtu` needs a unit, 1500 has none; write a string with a unit, for example \"1024 B\"",
        ),
        (
            "run.IRN.bpd_cap=3",
            "error: --set run.IRN.bpd_cap=3: unknown key `bpd_cap` in run \"IRN\"; did you mean `bdp_cap`? accepted here: name, transport, set, beside, cc, pfc, header, ack_size, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, nscc, rccc, hpcc, rogue, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, recovery, timeouts, rto, rto_high, rto_low, rto_low_packets, timer_restart, nacks, bdp_fc, bdp_cap, bdp_delay, nic_pipeline, nic_cycle, path_selection, paths, reorder_tolerance, reps_freeze",
        ),
        (
            "run.RCE.pfc=true",
            "error: --set run.RCE.pfc=true: nothing in `run` is called or numbered `RCE`; there are: 0 (\"RoCE + PFC\"), 1 (\"IRN\")",
        ),
    ];
    for (set, line) in cases {
        assert_bad_input(&folder.rnic(&["check", "a.toml", "--set", set]), line);
    }
}

#[test]
fn check_reports_every_mistake_on_its_own_line() {
    let text = GOOD.replace("hosts = 4", "hosts = 1.5").replace("load = 0.5", "load = \"half\"");
    let output = Folder::with(&text).rnic(&["check", "a.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        "error: a.toml:4:9: `hosts` must be an integer, not a decimal number; write for example `hosts = 4`\n\
         error: a.toml:9:8: `load` must be a number, not a string; write for example `load = 0.7`\n"
    );
    assert_eq!(stdout(&output), "");
}

#[test]
fn results_of_other_settings_are_not_replaced_silently() {
    let folder = Folder::with(GOOD);
    let run = |arguments: &[&str]| {
        let output = folder.rnic(&[&["run", "a.toml"], arguments].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output).lines().next().unwrap().to_string()
    };
    assert!(run(&["--set", "traffic.flows=40"]).starts_with("wrote "));
    assert!(run(&["--set", "traffic.flows=40"]).starts_with("wrote "), "the same settings");
    let replaced =
        "the results of `rnic run a.toml --set traffic.flows=40` in `out/a` will be replaced; another --out keeps them";
    assert_eq!(run(&[]), replaced);
    assert!(run(&["--set", "traffic.flows=40", "--out", "other"]).starts_with("wrote "));
}

#[test]
fn wrong_arguments_are_bad_input() {
    let folder = Folder::with(GOOD);
    let cases: [(&[&str], &str); 8] = [
        (&[], "Usage: rnic"),
        (&["rum", "a.toml"], "unrecognized subcommand 'rum'"),
        (&["run"], "<SCENARIO.toml>"),
        (&["check", "a.toml", "--set", "fabric.k"], "there is no `=`"),
        (&["check", "a.toml", "--seed", "-1"], "--seed"),
        (&["run", "a.toml", "--threads", "0"], "--threads"),
        (&["run", "a.toml", "--format", "xml"], "[possible values: table, json]"),
        (&["list", "transport"], "a similar value exists: 'transports'"),
    ];
    for (arguments, part) in cases {
        let output = folder.rnic(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(part), "{arguments:?} does not say {part}:\n{}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}

#[test]
fn missing_files_and_runs_are_bad_input() {
    let folder = Folder::with(GOOD);
    let output = folder.rnic(&["check", "b.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("error: cannot read `b.toml`: "), "{}", stderr(&output));
    let line = "error: unknown run \"DCQCN\"; accepted: \"RoCE + PFC\", \"IRN\"";
    assert_bad_input(&folder.rnic(&["flows", "a.toml", "--run", "DCQCN"]), line);
    let output = folder.rnic(&["list", "scenarios", "--dir", "mine"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("error: cannot search `mine` for scenarios: "), "{}", stderr(&output));
}

#[test]
fn built_in_scenarios_need_no_files() {
    let folder = Folder::with(GOOD);
    let listed = stdout(&folder.rnic(&["list", "scenarios"]));
    assert!(listed.lines().count() > 40 && listed.contains("irn/default "), "{listed}");
    let checked = folder.rnic(&["check", "irn/default", "--set", "traffic.flows=10000"]);
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    for set in ["run.IRN.cc=nonee", "traffic.sizes=my.cdf"] {
        let wrong = folder.rnic(&["check", "irn/default", "--set", set]);
        assert_eq!(wrong.status.code(), Some(2), "{set}");
        assert!(stderr(&wrong).starts_with(&format!("error: --set {set}: ")), "{}", stderr(&wrong));
    }
    let sizes = folder.folder.path().join("my.cdf");
    fs::write(&sizes, "1000 50\n5000 100\n").unwrap();
    let set = format!("traffic.sizes={}", sizes.display());
    let checked = folder.rnic(&["check", "irn/default", "--set", &set]);
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
}

#[test]
fn a_result_folder_that_cannot_be_made_is_a_failure() {
    let folder = Folder::with(GOOD);
    let output = folder.rnic(&["run", "a.toml", "--quiet", "--out", "a.toml"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let start = format!("error: cannot write the result files into `{}`: ", Path::new("a.toml").join("a").display());
    assert!(stderr(&output).starts_with(&start), "{}", stderr(&output));
}

#[test]
fn check_describes_each_run_in_a_line() {
    let folder = Folder::with(GOOD);
    let output = folder.rnic(&["check", "a.toml", "--seed", "9", "--set", "fabric.hosts=8"]);
    let rest = "single switch, 8 hosts, 40 Gbps, 1 us per link, default buffers; \
        poisson at load 0.5, fixed 10 KB, 50 flows (5 not measured)";
    let expected = format!(
        "two transports: seed 9, 2 runs\n\
        RoCE + PFC: roce, no congestion control, PFC; {rest}\n\
        IRN: irn, no congestion control, no PFC; {rest}\n"
    );
    assert_eq!(stdout(&output), expected);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn lists_have_a_line_for_each_thing() {
    let names = |what: &str| -> Vec<String> {
        let output = rnic(&repository(), &["list", what]);
        assert_eq!(output.status.code(), Some(0), "{what}: {}", stderr(&output));
        let name = |line: &str| line.split("  ").next().unwrap_or("").to_string();
        stdout(&output).lines().map(name).collect()
    };
    assert_eq!(
        names("topologies"),
        [
            "fat-tree",
            "leaf-spine",
            "leaf-spine-core",
            "single-switch",
            "dumbbell",
            "dragonfly",
            "multi-plane",
            "graph",
            "file"
        ]
    );
    assert!(["roce", "irn"].iter().all(|name| names("transports").contains(&name.to_string())));
    assert!(names("congestion").contains(&"none".to_string()));
    assert!(["poisson", "irn-heavy-tailed"].iter().all(|name| names("workloads").contains(&name.to_string())));
    assert!(names("scenarios").contains(&"scenarios/irn/default.toml".to_string()));
}

#[test]
fn every_scenario_of_the_repository_is_good() {
    let output = rnic(&repository(), &["list", "scenarios"]);
    for line in stdout(&output).lines() {
        assert!(!line.contains("cannot be read"), "{line}");
        let file = line.split("  ").next().unwrap_or("");
        let check = rnic(&repository(), &["check", file]);
        assert_eq!(check.status.code(), Some(0), "{}", stderr(&check));
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    let folder = Folder::with(GOOD);
    for subcommand in ["run", "flows", "topology", "list", "check"] {
        let output = folder.rnic(&[subcommand, "--help"]);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{subcommand}");
        let example = format!("Examples:\n  rnic {subcommand} ");
        assert!(stdout(&output).contains(&example), "{subcommand} has no example:\n{}", stdout(&output));
    }
    let output = folder.rnic(&["--version"]);
    assert_eq!(stdout(&output), format!("rnic {}\n", env!("CARGO_PKG_VERSION")));
}

/// The reader of standard output closes it before the first byte.
#[cfg(unix)]
#[test]
fn a_closed_output_ends_the_command_without_a_message() {
    for arguments in [&["list", "workloads"][..], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(&repository()).args(arguments).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// The output is `/dev/full`, a device to which nothing can be written.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(&repository()).args(["list", "workloads"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error: cannot write the output: "), "{}", stderr(&output));
}

#[test]
fn a_run_prints_one_json_document_and_writes_files_that_do_not_depend_on_threads() {
    let folder = Folder::with(GOOD);
    let files = |out: &str, threads: &str| {
        let arguments = ["run", "a.toml", "--format", "json", "--flows", "csv", "--out", out, "--threads", threads];
        let output = folder.rnic(&arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        let runs = document["runs"].as_array().unwrap();
        let names: Vec<_> = runs.iter().map(|run| run["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["RoCE + PFC", "IRN"]);
        assert!(runs.iter().all(|run| run["flows"]["completed"] == 50), "{document:#}");
        let read = |file: &str| fs::read(folder.folder.path().join(out).join("a").join(file)).unwrap();
        ["summary.json", "ports.csv", "flows.csv", "report.html"].map(read)
    };
    assert!(files("one", "1") == files("two", "2"), "the same scenario and seed give the same bytes");
}

#[test]
fn a_sweep_is_run_selected_and_written_whatever_the_threads() {
    let folder = Folder::with(&(GOOD.to_string() + "[sweep]\ntraffic.load = [0.3, 0.5]\nseed = [1, 2]\n"));
    let files = |out: &str, threads: &str| {
        let output = folder.rnic(&["run", "a.toml", "--out", out, "--threads", threads]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("RoCE + PFC, load=0.3, seed=1"), "{}", stdout(&output));
        let read = |file: &str| fs::read(folder.folder.path().join(out).join("a").join(file)).unwrap();
        ["summary.json", "sweep.csv", "sweep.parquet", "ports.csv", "report.html"].map(read)
    };
    let one = files("one", "1");
    assert!(one == files("two", "2") && one == files("nine", "9"), "the same scenario and seed give the same bytes");
    let table = String::from_utf8(one[1].clone()).unwrap();
    assert_eq!(table.lines().count(), 9, "{table}");
    assert!(table.starts_with("traffic.load,run,base,"), "{table}");
    let summary: serde_json::Value = serde_json::from_slice(&one[0]).unwrap();
    let run = &summary["runs"][7];
    assert_eq!((&run["name"], &run["base"]), (&"IRN, load=0.5, seed=2".into(), &"IRN".into()));
    assert_eq!(run["point"], serde_json::json!({"traffic.load": 0.5, "seed": 2}));
    assert_eq!((&summary["seed"], &run["seed"]), (&1.into(), &2.into()));

    let runs = |arguments: &[&str]| {
        let output = folder.rnic(&[&["run", "a.toml", "--format", "json"], arguments].concat());
        let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        document["runs"].as_array().unwrap().len()
    };
    assert_eq!(runs(&["--run", "IRN"]), 4);
    assert_eq!(runs(&["--run", "IRN, load=0.5, seed=2"]), 1);
    let line = "error: unknown run \"inr\"; accepted: \"RoCE + PFC\", \"IRN\"";
    assert_bad_input(&folder.rnic(&["run", "a.toml", "--run", "inr"]), line);
    let check = folder.rnic(&["check", "a.toml"]);
    assert!(stdout(&check).starts_with("two transports: seed 1, 8 runs\nRoCE + PFC, load=0.3, seed=1: roce,"));
    assert_eq!(stdout(&check).lines().count(), 9);
    let flows = |run: &str| stdout(&folder.rnic(&["flows", "a.toml", "--run", run]));
    assert_ne!(flows("IRN, load=0.3, seed=1"), flows("IRN, load=0.3, seed=2"));
    assert_eq!(flows("IRN, load=0.3, seed=1"), flows("RoCE + PFC, load=0.3, seed=1"));
}

#[test]
fn a_failed_run_is_reported_with_exit_code_1() {
    let folder = Folder::with(GOOD);
    let output = folder.rnic(&["run", "a.toml", "--quiet", "--set", "limits.max_time=1 us"]);
    assert_eq!(output.status.code(), Some(1));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("FAILED: RoCE + PFC: the time limit was reached"), "{table}");
    assert_eq!(stderr(&output), "error: 2 runs failed\n", "the table says why");
    let output = folder.rnic(&["run", "a.toml", "--quiet", "--format", "json", "--set", "limits.max_time=1 us"]);
    let errors = stderr(&output);
    assert_eq!(errors.lines().count(), 2, "a line for each run: {errors}");
    assert!(errors.starts_with("error: run \"RoCE + PFC\" failed: "), "{errors}");
    assert!(folder.folder.path().join("out/a/summary.json").is_file(), "the files are written nevertheless");
}

#[test]
fn the_flows_that_are_printed_can_be_run() {
    let folder = Folder::with(GOOD);
    for (format, file) in [("csv", "flows.csv"), ("hpcc", "flows.txt"), ("conweave", "five-fields.txt")] {
        let flows = folder.rnic(&["flows", "a.toml", "--run", "IRN", "--format", format]);
        assert_eq!(flows.status.code(), Some(0), "{}", stderr(&flows));
        assert_eq!(stderr(&flows), "");
        fs::write(folder.folder.path().join(file), &flows.stdout).unwrap();
        let traffic = format!("traffic={{ pattern = \"list\", file = \"{file}\" }}");
        let check = folder.rnic(&["check", "a.toml", "--set", &traffic]);
        assert!(stdout(&check).contains("list of 50 flows"), "{}{}", stdout(&check), stderr(&check));
    }
}

#[test]
fn topologies_are_printed_in_each_format() {
    let folder = Folder::with(GOOD);
    for (format, start) in [("hpcc", "5 1 4\n"), ("dot", "graph ")] {
        let output = folder.rnic(&["topology", "a.toml", "--format", format]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).starts_with(start), "{}", stdout(&output));
        assert_eq!(stderr(&output), "");
    }
    let storm = "fabric.storm=[{ host = \"h0\", start = \"1 ms\" }]";
    let route = "fabric.route=[{ at = \"s0\", to = \"h1\", via = \"h1\" }]";
    let output = folder.rnic(&["topology", "a.toml", "--set", storm, "--set", route]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let left_out = |key: &str| {
        format!("warning: the output does not contain the run's `{key}`: topology files have no such entries\n")
    };
    assert_eq!(stderr(&output), left_out("[[fabric.route]]") + &left_out("[[fabric.storm]]"));
    let output = folder.rnic(&["topology", "a.toml", "--format", "htsim"]);
    assert_eq!(output.status.code(), Some(2), "a single switch is no tree: {}", stdout(&output));
}

/// Programs that ignore start times, or do not know the rate of a link, would simulate something else without a
/// warning.
#[test]
fn exports_warn_of_what_the_other_simulator_misreads() {
    let folder = Folder::with(GOOD);
    let warning = |arguments: &[&str]| {
        let output = folder.rnic(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stderr(&output)
    };
    let flows = ["flows", "a.toml", "--run", "IRN", "--format", "htsim"];
    assert!(warning(&flows).starts_with("warning: htsim's programs for RoCE, HPCC and TCP start all flows at 0"));
    let hpcc = "run=[{ name = \"HPCC\", transport = \"irn\", cc = \"hpcc\" }]";
    let topology = ["topology", "a.toml", "--set", hpcc];
    assert!(warning(&topology).contains("senders take a link of 40 Gbps as one of 25 Gbps"));
    assert_eq!(warning(&[&topology[..], &["--set", "fabric.rate=\"100 Gbps\""]].concat()), "");
}

/// `rnic check --settings` prints the values of the profile, including the values that depend on the line rate. A
/// parameter that the scenario sets keeps its value.
#[test]
fn a_profile_sets_the_values_in_effect() {
    let folder = Folder::with(GOOD);
    let settings = |dcqcn: &str| {
        let run = format!("run=[{{ name = \"a\", transport = \"roce\", cc = \"dcqcn\", dcqcn = {{ {dcqcn} }} }}]");
        let output = folder.rnic(&["check", "a.toml", "--settings", "--set", &run]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let hpcc = settings("profile = \"hpcc-ns3\", rate_timer = \"900 us\"");
    for line in
        ["rate_timer: 900 us", "r_ai: 8 Mbps", "r_hai: 80 Mbps", "min_rate: 1 Gbps", "hyper_increase: \"either\""]
    {
        assert!(hpcc.contains(&format!("  dcqcn.{line}\n")), "{line}: {hpcc}");
    }
    assert!(hpcc.contains("  ecn.kmin: 160 KB\n"), "{hpcc}");
    assert_eq!(settings(""), settings("profile = \"paper\""));
}

#[test]
fn reproduce_lists_papers_and_experiments() {
    let folder = tempfile::tempdir().unwrap();
    let papers = rnic(folder.path(), &["reproduce"]);
    assert_eq!((papers.status.code(), stdout(&papers).starts_with("irn  Revisiting Network Support")), (Some(0), true));
    assert_bad_input(
        &rnic(folder.path(), &["reproduce", "inr"]),
        "error: unknown paper `inr`; accepted: irn, irn-arbitration, irn-unstated, dcqcn, nanotransport, rogue, hostcc, at-scale, ai, uet, hardware",
    );
    let unknown = rnic(folder.path(), &["reproduce", "irn", "fig99"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).starts_with("error: irn has no experiment `fig99`"), "{}", stderr(&unknown));
    let list = rnic(folder.path(), &["reproduce", "irn", "--list"]);
    let text = stdout(&list);
    assert!(text.contains("fig1 ") && text.contains("simulations") && text.lines().count() > 20, "{text}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a list writes nothing");
}

#[test]
fn reproduce_simulates_once_and_then_uses_stored_results() {
    let folder = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let arguments = ["reproduce", "irn", "fig1", "--quick", "--seeds", "1", "--out", "here"];
        let output = rnic(folder.path(), &[&arguments, more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        output
    };
    let first = run(&[]);
    assert!(
        stdout(&first).contains("average FCT") && stdout(&first).contains("not the reproduction"),
        "{}",
        stdout(&first)
    );
    assert!(stderr(&first).contains("2 simulations, 1 stored; about"), "{}", stderr(&first));
    let files = ["verdicts.csv", "verdicts.json", "verdicts.md", "report.html"]
        .map(|name| folder.path().join("here").join(name));
    let before = files.each_ref().map(|file| fs::read(file).unwrap());
    let second = run(&["--threads", "1"]);
    assert!(stderr(&second).contains("2 simulations, all stored"), "{}", stderr(&second));
    assert_eq!(stdout(&first), stdout(&second));
    assert_eq!(before, files.each_ref().map(|file| fs::read(file).unwrap()));
    let json = run(&["--format", "json", "--quiet"]);
    assert_eq!(stderr(&json), "");
    let json: serde_json::Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!((&json["quick"], json["verdicts"].as_array().map(Vec::len)), (&true.into(), Some(3)));
}

#[test]
fn a_run_whose_flow_records_cannot_be_stored_has_failed() {
    let folder = Folder::with(GOOD);
    let flows = ["--set", "traffic.flows=200001", "--set", "traffic.sizes=\"fixed 1 B\"", "--run", "IRN"];
    let mut command = command(folder.folder.path());
    command.args(["run", "a.toml", "--quiet", "--format", "json"]).args(flows);
    let output = command.env("TMPDIR", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let expected = "error: run \"IRN\" failed: the flow records cannot be kept in a temporary file in /nowhere: No such file or \
                    directory (os error 2); they need 64 bytes per flow; set TMPDIR to use another folder";
    assert_eq!(stderr(&output).lines().next(), Some(expected));
    assert!(command.env("TMPDIR", folder.folder.path()).output().unwrap().status.success());
}

/// Files that are not what they should be: the error says what to do.
#[test]
fn files_of_another_kind_are_explained() {
    let folder = Folder::with(GOOD);
    let error = |arguments: &[&str]| {
        let output = folder.rnic(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        stderr(&output)
    };
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain(GOOD.bytes().flat_map(|byte| [byte, 0])).collect();
    fs::write(folder.folder.path().join("utf16.toml"), utf16).unwrap();
    assert_eq!(
        error(&["check", "utf16.toml"]),
        "error: cannot read `utf16.toml`: this is text in UTF-16; save the file as UTF-8\n"
    );
    fs::write(folder.folder.path().join("binary.toml"), b"\x7fELF\x02\x80\x00").unwrap();
    assert_eq!(
        error(&["check", "binary.toml"]),
        "error: cannot read `binary.toml`: this is not text in UTF-8: byte 0x80 in line 1; save the file as UTF-8, or name another file\n"
    );
    let suggested = error(&["run", "irn/defualt"]);
    assert!(
        suggested.ends_with(
            "; did you mean the built-in scenario irn/default? `rnic list scenarios` lists the built-in ones\n"
        ),
        "{suggested}"
    );

    let list = folder.folder.path().join("flows");
    fs::write(&list, "start_us,src,dst,bytes\n0,0,1,1000\n").unwrap();
    let traffic = "traffic={ pattern = \"list\", file = \"flows\", format = \"hpcc\" }";
    let csv = error(&["check", "a.toml", "--set", traffic]);
    assert!(
        csv.contains("flows:1: number of flows `start_us,src,dst,bytes` is not a whole number, and looks like a line of CSV; write `format = \"csv\"`"),
        "{csv}"
    );
    fs::write(&list, b"1\n0 1 3 100 1000 \xb5\n").unwrap();
    let latin = error(&["check", "a.toml", "--set", traffic]);
    assert!(latin.contains("this is not text in UTF-8: byte 0xb5 in line 2; save the file as UTF-8"), "{latin}");
}

#[test]
fn check_prints_the_runs_that_it_is_asked_for() {
    let folder = Folder::with(GOOD);
    let checked = |arguments: &[&str]| folder.rnic(&[&["check", "a.toml"], arguments].concat());
    let whole = stdout(&checked(&[]));
    assert!(whole.contains("2 runs\n") && whole.contains("RoCE + PFC: ") && whole.contains("IRN: "), "{whole}");
    let one = stdout(&checked(&["--run", "IRN"]));
    assert!(one.contains("1 run\n") && !one.contains("RoCE + PFC: ") && one.contains("IRN: "), "{one}");
    assert_bad_input(&checked(&["--run", "TCP"]), "error: unknown run \"TCP\"; accepted: \"RoCE + PFC\", \"IRN\"");
}

/// An overload is a warning of `check` and of `run`, with its numbers.
#[test]
fn overload_is_a_warning() {
    let incast =
        "traffic={ pattern = \"incast\", senders = 3, total = \"600 KB\", repeats = 4, interval = \"100 us\" }";
    let folder = Folder::with(GOOD);
    // 588 packets of 1,106 bytes with their gaps in 100 us; IRN's packets have 16 bytes more.
    let part = "on average to the link s0:h0 of 40 Gbps, 13";
    let checked = stdout(&folder.rnic(&["check", "a.toml", "--set", incast]));
    assert_eq!(checked.matches(part).count(), 2, "{checked}");
    assert!(checked.contains("warning: overload: the traffic offers 51.9 Gbps on average"), "{checked}");
    let run = folder.rnic(&["run", "a.toml", "--set", incast, "--quiet", "--format", "json"]);
    assert!(stdout(&run).contains(part), "{}", stdout(&run));
}
