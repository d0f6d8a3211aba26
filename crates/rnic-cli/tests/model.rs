//! Tests of the command `rnic model` as a process.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn rnic(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rnic")).arg("model").args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn good(arguments: &[&str]) -> String {
    let output = rnic(arguments);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
    stdout(&output)
}

#[track_caller]
fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&good(&[arguments, &["--format", "json"]].concat())).unwrap()
}

/// The first line that starts with `start` (after spaces), with single spaces between its columns.
#[track_caller]
fn row(text: &str, start: &str) -> String {
    let line = text.lines().find(|line| line.trim_start().starts_with(start));
    let line = line.unwrap_or_else(|| panic!("no line begins with {start}:\n{text}"));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn computed_thresholds_are_compared_with_published_ones() {
    let text = good(&["buffers", "--headroom", "22.4KB"]);
    assert_eq!(row(&text, "total"), "total sum 17.242 KB 22.4 KB");
    assert!(row(&text, "pause threshold").ends_with("24.475 KB 24.47 KB"), "{text}");
    assert!(row(&text, "ECN threshold").ends_with("t_PFC/n infeasible: 0.765 KB 0.85 KB"), "{text}");
    assert!(text.contains("21.756 KB  21.75 KB") || text.contains("21.756 KB   21.75 KB"), "{text}");
    assert!(text.contains("a delay of 1.0158 us, or links of 203 m"), "{text}");
    // The paper states thresholds for its own switch only, so the output does not mention the paper for another switch.
    let other = good(&["buffers", "--ports", "16"]);
    assert!(!other.contains("ublished") && !other.contains("paper"), "{other}");
}

#[test]
fn buffers_as_json_and_csv() {
    let value = json(&["buffers", "--headroom", "22.4KB", "--reaction", "60 quanta", "--length", "0"]);
    assert_eq!(value["static"]["t_pfc_max_bytes"], 24_475.0);
    assert_eq!(value["static"]["t_ecn_is_feasible"], false);
    // Headroom: 1,522 + 2 * 1,542 + 84 bytes, and 60 pause quanta of 64 bytes.
    assert_eq!(value["headroom_from_first_principles_bytes"], 4_690 + 3_840);
    assert_eq!(value["switch"]["reaction_us"], 0.768);
    let csv = good(&["buffers", "--headroom", "22.4KB", "--format", "csv"]);
    assert!(csv.starts_with("quantity,bytes\n") && csv.contains("static t_pfc max,24475\n"), "{csv}");
    // alpha is beta divided by the number of priorities.
    assert_eq!(json(&["buffers", "--alpha", "1/16"])["switch"]["beta"], 0.5);
}

#[test]
fn unsafe_values_fail_with_a_sentence_each() {
    let output = rnic(&["buffers", "--headroom", "10KB", "--t-pfc", "40KB", "--t-ecn", "120KB"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = stderr(&output);
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 3, "{errors}");
    for (line, part) in
        lines.iter().zip(["a headroom of 10 KB loses packets", "above 36.875 KB", "can pause before it marks"])
    {
        assert!(line.starts_with("error: ") && line.contains(part), "{line}");
    }
    assert!(stdout(&output).contains("unsafe: a headroom of 10 KB loses packets"), "{}", stdout(&output));
    let small = rnic(&["buffers", "--buffer", "4MB"]);
    assert_eq!(small.status.code(), Some(1));
    assert!(stderr(&small).contains("256 headrooms of 17.242 KB take"), "{}", stderr(&small));
}

/// `rnic check` reads the section of a scenario that `rnic model buffers --emit` prints.
#[test]
fn thresholds_become_a_scenario() {
    let fragment = good(&["buffers", "--headroom", "22.4KB", "--t-pfc", "20KB", "--emit"]);
    let expected = "[fabric.switch]\nqueueing = \"shared\"\nbuffer = \"12 MB\"\npriorities = 8\nheadroom = \"22.4 KB\"\n\
        xoff = \"20 KB\"\nxon_offset = \"3 KB\"\necn = { kmin = \"5 KB\", kmax = \"200 KB\", pmax = 0.01 }\n";
    assert!(fragment.ends_with(expected), "{fragment}");
    let dynamic = good(&["buffers", "--ports", "2", "--beta", "4", "--t-ecn", "9KB", "--emit"]);
    assert!(dynamic.contains("\nbeta = 4\n") && dynamic.contains("kmin = \"9 KB\""), "{dynamic}");
    let folder = tempfile::tempdir().unwrap();
    let scenario = format!(
        "[fabric]\ntopology = \"single-switch\"\nhosts = 32\nrate = \"40 Gbps\"\ndelay = \"500 ns\"\n{fragment}\
         [traffic]\npattern = \"poisson\"\nload = 0.5\nsizes = \"fixed 10 KB\"\nflows = 50\n\
         [[run]]\nname = \"a\"\ntransport = \"roce\"\npfc = true\ncc = \"dcqcn\"\n"
    );
    let path = folder.path().join("a.toml");
    std::fs::write(&path, scenario).unwrap();
    let check = Command::new(env!("CARGO_BIN_EXE_rnic")).arg("check").arg("--settings").arg(&path).output().unwrap();
    assert_eq!(check.status.code(), Some(0), "{}", stderr(&check));
    // With a static threshold of 20 KB for 32 inputs of one queue, PFC pauses before ECN marks, and both commands warn.
    assert!(stdout(&check).contains("PFC can pause before ECN marks"), "{}", stdout(&check));
    // If the thresholds are infeasible, the command does not print a section.
    let none = rnic(&["buffers", "--buffer", "4MB", "--emit"]);
    assert_eq!((none.status.code(), stdout(&none).as_str()), (Some(1), ""));
}

#[test]
fn the_fixed_point_of_dcqcn_with_its_residuals_and_range() {
    let value = json(&["dcqcn", "-N", "8", "--duration", "20ms"]);
    let point = &value["fixed_point"];
    assert_eq!(point["valid"], true);
    assert!((point["p"].as_f64().unwrap() - 0.0045521114549642045).abs() < 1e-15);
    for residual in point["residuals"].as_array().unwrap() {
        assert!(residual["relative"].as_f64().unwrap() < 1e-9, "{residual}");
    }
    let smooth =
        ["--set", "ecn.kmin=0B", "--set", "ecn.kmax=2MB", "--start", "20.4Gbps", "--step", "10us", "--skip", "0us"];
    let value = json(&[&["dcqcn", "--duration", "2ms", "--check-step"][..], &smooth].concat());
    assert!((3.5..4.5).contains(&value["step_check"]["queue_order"].as_f64().unwrap()), "{}", value["step_check"]);
    let text = good(&["dcqcn", "-N", "15", "--duration", "20ms"]);
    for part in [
        "Fixed point (not valid)",
        "not valid: the fixed point needs a marking probability of 0.010031, above Pmax (0.01)",
        "below Kmax for up to 14 flows; from 15 flows on it is above Kmax and not valid",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_solution_as_csv_and_as_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let plot = folder.path().join("a.svg");
    let arguments = ["dcqcn", "--start", "40Gbps,0Gbps", "--begin", "0us,5ms", "--duration", "20ms", "--format", "csv"];
    let csv = good(&[&arguments[..], &["--sample", "1ms", "--plot", plot.to_str().unwrap()]].concat());
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "time_us,queue_bytes,marking,rate_bps_1,target_bps_1,alpha_1,rate_bps_2,target_bps_2,alpha_2");
    assert_eq!(lines.len(), 1 + 21);
    assert_eq!(lines[1], "0,0,0,40000000000,40000000000,1,0,0,0");
    let svg = std::fs::read_to_string(&plot).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains(">flow 2</text>") && svg.contains(">fixed point</text>"));
}

#[test]
fn sweeps_have_a_row_for_each_value() {
    let csv = good(&["dcqcn", "--sweep", "N=2,4,15", "--duration", "20ms", "--format", "csv"]);
    let rows: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let of = |column: usize| rows.iter().map(|row| row[column]).collect::<Vec<_>>();
    assert_eq!((of(1), of(2), of(5)), (vec!["2", "4", "15"], vec!["2", "4", "15"], vec!["true", "true", "false"]));
    // A parameter may be given by its scenario key or by the symbol of the paper.
    let key = |key: &str| {
        good(&["dcqcn", "--sweep", key, "--duration", "20ms", "--format", "csv"])
            .replace(key.split('=').next().unwrap(), "")
    };
    assert_eq!(key("dcqcn.g=1/16,0.01"), key("g=1/16,0.01"));
}

/// Figure 11: with the strawman's parameters the flows keep different rates; a fast timer and marking as in RED bring
/// the rates together. Figure 12: a small g reduces the oscillation of the queue.
#[test]
fn the_papers_figures() {
    let value = json(&["dcqcn", "--figure", "fig11"]);
    let apart = |sweep: &str, value_text: &str| {
        let rows = value["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["parameter"] == sweep && row["value"] == value_text).unwrap();
        row["difference_last_tenth_bps"]["mean"].as_f64().unwrap()
    };
    assert!(apart("B", "150 KB") > 35e9, "the strawman");
    assert!(apart("B", "10 MB") < apart("B", "150 KB"));
    assert!(apart("T", "55 us") < 0.5e9);
    assert!(apart("Kmax", "200 KB") < 0.25 * apart("Kmax", "40 KB"));
    assert!(apart("Pmax", "0.1") < apart("Pmax", "1"));

    let folder = tempfile::tempdir().unwrap();
    let plot = folder.path().join("fig12.svg");
    let value = json(&["dcqcn", "--figure", "fig12", "--plot", plot.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&plot).unwrap().contains("16:1 incast"));
    let deviation = |flows: u64, gain: &str| {
        let rows = value["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["flows"] == flows && row["value"] == gain).unwrap();
        row["queue_bytes"]["deviation"].as_f64().unwrap()
    };
    for flows in [2, 4, 8] {
        assert!(deviation(flows, "1/256") < deviation(flows, "1/16"), "{flows}");
    }
}

#[test]
fn timely_with_and_without_its_patch() {
    let patched = json(&["timely", "--patched", "--set", "patched-timely.delta=20Mbps", "--duration", "20ms"]);
    // The queue is 62,500 bytes times 1 + 2 * 20 Mbps / (0.008 * 10 Gbps).
    assert_eq!(patched["fixed_point"]["queue_bytes"], 93_750.0);
    let text = good(&["timely", "--start", "7Gbps,3Gbps", "--duration", "20ms"]);
    assert!(text.contains("TIMELY has no fixed point"), "{text}");
}

#[test]
fn bad_input_is_one_sentence() {
    let cases: [(&[&str], &str); 19] = [
        (&["buffers", "--classes", "2"], "error: --classes is now called --priorities; write --priorities"),
        (&["buffers", "--cable=300"], "error: --cable is now called --length; write --length"),
        (&["dcqcn", "-N", "0"], "error: there is no flow; at least one is needed"),
        (&["dcqcn", "--step", "0us"], "error: the step is zero; write for example 1 us"),
        (&["dcqcn", "--step", "60us"], "error: a step of 60 us is longer than the delay of 50 us"),
        (
            &["dcqcn", "--set", "ecn.kmin=300KB"],
            "error: kmin cannot be 300 KB; accepted: at most kmax, which is 200 KB",
        ),
        (
            &["dcqcn", "--set", "ecn.pmax=1.5"],
            "error: pmax cannot be 1.5; accepted: a probability above 0 and at most 1",
        ),
        (&["dcqcn", "--set", "dcqcn.r_hai=1Gbps"], "error: DCQCN has `r_hai`, but its fluid model does not"),
        (
            &["dcqcn", "--set", "byte_counter=1MB"],
            "error: unknown parameter `byte_counter`; write `dcqcn.byte_counter`",
        ),
        (&["dcqcn", "--set", "dcqcn.r_ai=-40Mbps"], "error: dcqcn.r_ai: `-40Mbps` is out of range"),
        (&["dcqcn", "--sweep", "T=55us,0us"], "error: T = 0us: rate_timer is zero"),
        (&["dcqcn", "--sweep", "N="], "error: flows: `` is not a whole number"),
        (&["dcqcn", "--start", "1Gbps,2Gbps,3Gbps", "-N", "5"], "error: --start has 3 values for 5 flows"),
        (
            &["dcqcn", "--start", "50Gbps"],
            "error: a flow cannot start with a rate of 50 Gbps; accepted: at most the line rate of 40 Gbps",
        ),
        (
            &["dcqcn", "--skip", "300ms"],
            "error: --skip 300 ms is too long: it must be less than --duration, which is 200 ms",
        ),
        (&["timely", "--set", "timely.gain=1"], "error: unknown parameter `timely.gain`; accepted: timely.t_low"),
        (&["buffers", "--priorities", "0"], "error: there cannot be 0 lossless priorities; accepted: 1 to 8"),
        (&["buffers", "--reaction", "soon"], "error: --reaction: `soon` does not start with a number"),
        (&["buffers", "--length", "-1"], "error: --length -1 is out of range; accepted: 0 to 1,000,000 m"),
    ];
    for (arguments, sentence) in cases {
        let output = rnic(arguments);
        let text = stderr(&output);
        assert!(text.starts_with(sentence) && text.lines().count() == 1, "{arguments:?}: {text}");
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{arguments:?}");
    }
    for arguments in [&["dcqcn", "--rate", "-40Gbps"][..], &["buffers", "--buffer", "12"], &["dcqcn", "--set", "g"]] {
        let output = rnic(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).starts_with("error: invalid value"), "{}", stderr(&output));
    }
}

#[test]
fn a_plot_that_cannot_be_written_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere/a.svg");
    let output = rnic(&["dcqcn", "--duration", "20ms", "--plot", nowhere.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error: cannot write the plot into "), "{}", stderr(&output));
    assert!(!Path::new(&nowhere).exists());
}

#[test]
fn help_names_parameters_and_defaults() {
    let text = good(&["dcqcn", "--help"]);
    for part in
        ["dcqcn.byte_counter", "10 MB", "dcqcn.r_ai", "40 Mbps", "ecn.kmax", "200 KB", "Examples:\n  rnic model dcqcn "]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let text = good(&["timely", "--help"]);
    assert!(text.contains("timely.beta") && text.contains("0.8, patched 0.008"), "{text}");
    assert!(good(&["buffers", "--help"]).contains("Examples:\n  rnic model buffers"));
}

/// A pod with hosts at 25 Gbps and uplinks at 100 Gbps, and a lower ECN threshold of `kmin`.
fn pod(folder: &Path, queueing: &str, kmin: &str) -> String {
    let scenario = format!(
        "[fabric]\ntopology = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 24\nrate = \"25 Gbps\"\n\
         delay = \"500 ns\"\nuplink_rate = \"100 Gbps\"\nmtu = \"4096 B\"\n\
         [fabric.switch]\nqueueing = \"{queueing}\"\nbuffer = \"3 MB\"\necn = {{ kmin = \"{kmin}\", kmax = \"400 KB\" }}\n\
         [traffic]\npattern = \"poisson\"\nload = 0.5\nsizes = \"fixed 10 KB\"\nflows = 50\n\
         [[run]]\nname = \"lossy\"\ntransport = \"irn\"\ncc = \"dcqcn\"\n\
         [[run]]\nname = \"RoCE\"\ntransport = \"roce\"\npfc = true\ncc = \"dcqcn\"\n"
    );
    let path = folder.join("pod.toml");
    std::fs::write(&path, scenario).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn the_ecn_threshold_of_a_scenario_is_checked_for_every_kind_of_switch() {
    let folder = tempfile::tempdir().unwrap();
    let safe = pod(folder.path(), "shared", "20 KB");
    let value = json(&["buffers", &safe]);
    assert_eq!((value["run"].as_str(), value["is_safe"].as_bool()), (Some("RoCE"), Some(true)));
    // Frames of 4,096 + 62 = 4,158 B. A port of 25 Gbps needs 4,158 + 2 x 4,178 + 84 B and 3,125 B on the link; one of
    // 100 Gbps 12,500 B on the link. All ports have the headroom of the fastest link.
    let frames = 4_158 + 2 * 4_178 + 84;
    assert_eq!(value["headroom_bytes"], frames + 12_500);
    let leaf = &value["switches"][0];
    assert_eq!(leaf["switches"], serde_json::json!(["leaf0", "leaf1", "leaf2", "leaf3"]));
    let groups = leaf["port_groups"].as_array().unwrap();
    assert_eq!((&groups[0]["ports"], &groups[0]["rate_bps"]), (&24.into(), &25_000_000_000u64.into()));
    assert_eq!(groups[0]["headroom_needed_bytes"], frames + 3_125);
    assert_eq!(groups[1]["headroom_needed_bytes"], frames + 12_500);
    // 394 pause quanta of 64 B at 100 Gbps.
    assert_eq!(groups[1]["headroom_on_hardware_bytes"], frames + 12_500 + 394 * 64);
    // A leaf has 26 ports, a spine 4. The pool is 3 MB less their headrooms; one priority, beta 8.
    for (kind, ports) in [(leaf, 26), (&value["switches"][1], 4)] {
        let pool = 3_000_000 - ports * (frames + 12_500);
        assert_eq!((&kind["ports"], kind["pool_bytes"].as_f64()), (&ports.into(), Some(pool as f64)));
        assert_eq!(kind["t_pfc_bytes"].as_f64(), Some(8.0 * pool as f64));
        let bound = 8.0 * pool as f64 / (ports as f64 * 9.0);
        assert!((kind["t_ecn_below_bytes"].as_f64().unwrap() - bound).abs() < 1e-6);
        assert_eq!(kind["largest_kmin_bytes"], bound as u64);
        assert_eq!(kind["kmin_is_below"], true);
    }
    let text = good(&["buffers", &safe]);
    assert!(
        text.starts_with("Yes: in run \"RoCE\" ECN marks before PFC pauses, because `kmin` of 20 KB is below "),
        "{text}"
    );
    assert_eq!(
        row(&text, "leaf0"),
        "leaf0 and 3 more 24 25 Gbps 500 ns 25.098 KB 15.723 KB 20.843 KB 18779.616 KB 80.255 KB 20.000 KB"
    );
    let csv = good(&["buffers", &safe, "--format", "csv"]);
    assert!(csv.contains("\nleaf0,4,2,100000000000,0.5,25098,25098,50314,"), "{csv}");
}

#[test]
fn a_high_ecn_threshold_fails_with_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let high = pod(folder.path(), "shared", "100 KB");
    let output = rnic(&["buffers", &high]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "No: in run \"RoCE\" PFC can pause before ECN marks at leaf0 and 3 more: `kmin` of 100 KB is not below \
                    80.255 KB; write `kmin = \"80.254 KB\"` or less, or `buffer = \"";
    assert!(stdout(&output).starts_with(expected), "{}", stdout(&output));
    assert!(stderr(&output).contains("error: PFC can pause before ECN marks"), "{}", stderr(&output));
    // What the command says to write is safe, and one byte more of the threshold is not.
    good(&["buffers", &high, "--set", "fabric.switch.ecn.kmin=80.254 KB"]);
    assert_eq!(rnic(&["buffers", &high, "--set", "fabric.switch.ecn.kmin=80.255 KB"]).status.code(), Some(1));
    let text = stdout(&output);
    let (_, buffer) = text.split_once("`buffer = \"").unwrap();
    let (buffer, _) = buffer.split_once('"').unwrap();
    good(&["buffers", &high, "--set", &format!("fabric.switch.buffer={buffer}")]);
    // A headroom that is too small for the fast links.
    let output =
        rnic(&["buffers", &high, "--set", "fabric.switch.headroom=20 KB", "--set", "fabric.switch.ecn.kmin=9 KB"]);
    assert!(stdout(&output).contains("write `headroom = \"25.098 KB\"`"), "{}", stdout(&output));
}

#[test]
fn switches_that_the_model_does_not_describe_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let input = pod(folder.path(), "input", "20 KB");
    let refused = |arguments: &[&str], part: &str| {
        let output = rnic(arguments);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{arguments:?}");
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    };
    refused(&["buffers", &input], "set `queueing = \"shared\"` in [fabric.switch]");
    refused(&["buffers", &input, "--run", "lossy"], "run \"lossy\" has no PFC");
    refused(&["buffers", &input, "--run", "lossy"], "runs with PFC: \"RoCE\"");
    refused(&["buffers", &input, "--ports", "4"], "cannot be used with");
    refused(&["buffers", "--run", "RoCE"], "SCENARIO.toml");
}
