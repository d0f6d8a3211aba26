//! The error messages of wrong scenarios, word by word.

mod fabric;
mod runs;

use rnic_scenario::{ScenarioError, from_str};
use std::path::Path;

/// A scenario without mistakes. Each test case replaces one piece of its text.
const GOOD: &str = r#"title = "good"
[fabric]
topology = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 4
rate = "40 Gbps"
delay = "2 us"
[fabric.switch]
buffer = "240 KB"
xoff = "220 KB"
[traffic]
pattern = "poisson"
load = 0.7
sizes = "irn-heavy-tailed"
flows = 100
[[run]]
name = "RoCE"
transport = "roce"
[[run]]
name = "IRN"
transport = "irn"
pfc = true
"#;

fn error_of(text: &str, overrides: &[(String, String)]) -> String {
    match from_str(text, "a.toml", Path::new("no/such/folder"), overrides, None) {
        Ok(_) => "accepted".to_string(),
        Err(ScenarioError::Mistake(mistake)) => {
            assert!(mistake.text.get(mistake.span.clone()).is_some(), "the span lies in the text: {mistake}");
            assert!(!mistake.message.is_empty() && !mistake.message.ends_with('.'));
            mistake.to_string()
        }
        Err(error) => error.to_string(),
    }
}

/// Checks cases of (piece of [`GOOD`], replacement, expected error). An empty piece stands for the whole text.
fn check(cases: &[(&str, &str, &str)]) {
    let mut wrong = Vec::new();
    for (replace, with, expected) in cases {
        assert!(GOOD.contains(replace), "{replace} is not in the scenario");
        let text = if replace.is_empty() { with.to_string() } else { GOOD.replacen(replace, with, 1) };
        // These cases state `pfc` themselves, or have switches without PFC.
        let own = with.contains("pfc") || with.contains("queueing = \"output\"");
        let text = text.strip_suffix("pfc = true\n").filter(|_| own).unwrap_or(&text);
        let error = error_of(text, &[]);
        if error != *expected {
            wrong.push(format!("{with}\n  expected {expected}\n  got      {error}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_good_scenario_is_accepted() {
    assert_eq!(error_of(GOOD, &[]), "accepted");
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn syntax_and_structure() {
    check(&[
        ("[fabric]\n", "[fabric\n",
            "a.toml:2:8: this is not TOML: unclosed table, expected `]`"),
        ("load = 0.7", "load = 0.7\nload = 0.8",
            "a.toml:15:1: this is not TOML: the key `load` is given twice; remove one of the two"),
        ("[traffic]", "[fabric]\n[traffic]",
            "a.toml:12:2: this is not TOML: the key `fabric` is given twice; remove one of the two"),
        ("load = 0.7", "load = fast",
            "a.toml:14:8: this is not TOML: `fast` is not a value; a value is a number, true, false, or text in quotes"),
        ("", "",
            "a.toml:1:1: the scenario has no run; add [[run]] with `name` and `transport`"),
        ("", "title = \"empty\"\n",
            "a.toml:1:1: the scenario has no run; add [[run]] with `name` and `transport`"),
        ("title", "titel",
            "a.toml:1:1: unknown key `titel` in the scenario; did you mean `title`? accepted here: title, seed, fidelity, fidelity_quantum, fast_forward, fabric, traffic, transport, run, limits, sweep, extends, watch"),
        (r#"title = "good""#, "title = 3",
            r#"a.toml:1:9: `title` must be a string, not an integer; write for example `title = "IRN and RoCE"`"#),
        (r#"title = "good""#, "seed = -1",
            "a.toml:1:8: `seed` is out of range: -1; accepted: 0 to 18446744073709551615"),
        (r#"title = "good""#, "seed = 1.5",
            "a.toml:1:8: `seed` must be an integer, not a decimal number; write for example `seed = 1`"),
        ("flows = 100", "flows = 1e6",
            "a.toml:16:9: `flows` must be an integer, not a decimal number; write `flows = 1000000`"),
        (r#"title = "good""#, "title = \"two\\nlines\"",
            "a.toml:1:9: `title` contains a line break; write one line of text"),
        ("name = \"RoCE\"", "name = \"RoCE\\n+ PFC\"",
            "a.toml:18:8: `name` contains a line break; write one line of text"),
        ("name = \"RoCE\"", "name = \"RoCE\\u001b[31m\"",
            "a.toml:18:8: `name` contains a control character; write one line of text"),
        ("load = 0.7", "load =",
            "a.toml:14:7: this is not TOML: a value is missing; a value is a number, true, false, or text in quotes"),
        ("load = 0.7", "load = 1979-05-27",
            "a.toml:14:8: `load` must be a number, not a date; write for example `load = 0.7`"),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "",
            r#"a.toml:2:2: `topology` is missing in [fabric]; write for example `topology = "fat-tree"`"#),
        ("[fabric.switch]", "[switch]",
            "a.toml:9:2: unknown key `switch` in the scenario; did you mean `watch`? accepted here: title, seed, fidelity, fidelity_quantum, fast_forward, fabric, traffic, transport, run, limits, sweep, extends, watch"),
        ("[traffic]\npattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100\n", "",
            "a.toml:1:1: `traffic` is missing in the scenario; write for example `[traffic]`"),
        ("[[run]]\nname = \"RoCE\"\ntransport = \"roce\"\n[[run]]\nname = \"IRN\"", "[run]\nname = \"IRN\"",
            "a.toml:17:1: `run` must be an array of tables, not a table; write `[[run]]`"),
        ("[traffic]", "[limits]\nstall_time = \"0 s\"\n[traffic]",
            r#"a.toml:13:14: `stall_time` is zero; write a time of more than zero, for example "1 s""#),
        ("[traffic]", "[limits]\nmax_times = \"1 s\"\n[traffic]",
            "a.toml:13:1: unknown key `max_times` in [limits]; did you mean `max_time`? accepted here: duration, max_time, stall_time"),
        ("[traffic]", "[limits]\nduration = \"0 ms\"\n[traffic]",
            r#"a.toml:13:12: `duration` is zero; write a time of more than zero, for example "200 ms""#),
        ("[traffic]", "[limits]\nduration = \"-1 ms\"\n[traffic]",
            r#"a.toml:13:12: `duration`: `-1 ms` is out of range; write for example "2 us""#),
        ("[traffic]", "[limits]\nmax_time = \"1 s\"\nduration = \"2 s\"\n[traffic]",
            "a.toml:14:12: `duration` of 2 s is above `max_time` of 1 s; `duration` can be at most `max_time`"),
        ("[traffic]", "[limits]\nmax_time = \"99 days\"\n[traffic]",
            r#"a.toml:13:12: `max_time`: `99 days` has the unknown unit `days`; use one of ps, ns, us, ms, s, for example "2 us""#),
    ]);
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn quantities() {
    check(&[
        (r#"xoff = "220 KB""#, r#"headroom = "0 B""#, "accepted"),
        ("transport = \"irn\"\n", "transport = \"irn\"\nrto_low = \"1 ps\"\n",
            r#"a.toml:23:11: `rto_low` is too short: 1 ps; accepted: 100 ns to 30 days, for example "100 us""#),
        ("transport = \"irn\"\n", "transport = \"irn\"\nrto_high = \"99999 ps\"\n",
            r#"a.toml:23:12: `rto_high` is too short: 99.999 ns; accepted: 100 ns to 30 days, for example "320 us""#),
        ("transport = \"irn\"\n", "transport = \"irn\"\nrto_low = \"100 ns\"\n", "accepted"),
        (r#"sizes = "irn-heavy-tailed""#, r#"sizes = "fixed 1001 TB""#,
            "a.toml:15:9: `sizes` has flows of up to 1001000 GB; accepted: at most 1000 TB"),
        (r#"rate = "40 Gbps""#, "rate = 40",
            r#"a.toml:7:8: `rate` needs a unit, 40 has none; write a string with a unit, for example "40 Gbps""#),
        (r#"rate = "40 Gbps""#, r#"rate = "40""#,
            r#"a.toml:7:8: `rate`: `40` has no unit; use one of bps, Kbps, Mbps, Gbps, Tbps, for example "40 Gbps""#),
        (r#"rate = "40 Gbps""#, r#"rate = "40 GB""#,
            r#"a.toml:7:8: `rate`: `40 GB` has the unknown unit `GB`; use one of bps, Kbps, Mbps, Gbps, Tbps, for example "40 Gbps""#),
        (r#"rate = "40 Gbps""#, r#"rate = "25 GBps""#,
            r#"a.toml:7:8: `rate`: `25 GBps` is in bytes per second, and a rate is in bits per second; use one of bps, Kbps, Mbps, Gbps, Tbps: "200 Gbps" is the same rate"#),
        (r#"rate = "40 Gbps""#, r#"rate = "40 gbps""#,
            r#"a.toml:7:8: `rate`: `40 gbps` has the unknown unit `gbps`; use one of bps, Kbps, Mbps, Gbps, Tbps, for example "40 Gbps""#),
        (r#"buffer = "240 KB""#, r#"buffer = "16 Mb""#,
            r#"a.toml:10:10: `buffer`: `16 Mb` is in bits, and a size is in bytes; use one of B, KB, MB, GB, TB, KiB, MiB, GiB: "2 MB" is the same size"#),
        (r#"rate = "40 Gbps""#, r#"rate = "0 Gbps""#,
            "a.toml:7:8: `rate` is out of range: 0 bps; accepted: more than zero, at most 10 Tbps"),
        (r#"rate = "40 Gbps""#, r#"rate = "11 Tbps""#,
            "a.toml:7:8: `rate` is out of range: 11 Tbps; accepted: more than zero, at most 10 Tbps"),
        (r#"rate = "40 Gbps""#, "rate = true",
            r#"a.toml:7:8: `rate` must be a string with a unit, not a boolean; write for example `rate = "40 Gbps"`"#),
        (r#"delay = "2 us""#, r#"delay = "fast""#,
            r#"a.toml:8:9: `delay`: `fast` does not start with a number; write for example "2 us""#),
        (r#"delay = "2 us""#, r#"delay = "0 us""#,
            r#"a.toml:8:9: `delay` is zero; write a time of more than zero, for example "2 us""#),
        (r#"delay = "2 us""#, r#"delay = "-2 us""#,
            r#"a.toml:8:9: `delay`: `-2 us` is out of range; write for example "2 us""#),
        (r#"delay = "2 us""#, "delay = \"2 us\"\nmtu = \"32 B\"",
            "a.toml:9:7: `mtu` is out of range: 32 B; accepted: 64 B to 9 KB"),
        (r#"delay = "2 us""#, "delay = \"2 us\"\nmtu = \"9001 B\"",
            "a.toml:9:7: `mtu` is out of range: 9.001 KB; accepted: 64 B to 9 KB"),
        (r#"delay = "2 us""#, "delay = \"2 us\"\nframe_gap = 20",
            r#"a.toml:9:13: `frame_gap` needs a unit, 20 has none; write a string with a unit, for example "20 B""#),
        (r#"delay = "2 us""#, "delay = \"2 us\"\nloss = 1.0",
            "a.toml:9:8: `loss` is out of range: 1; accepted: at least 0, less than 1, for example 0.001"),
        (r#"delay = "2 us""#, "delay = \"2 us\"\nloss = -0.1",
            "a.toml:9:8: `loss` is out of range: -0.1; accepted: at least 0, less than 1, for example 0.001"),
        (r#"delay = "2 us""#, "delay = \"2 us\"\nloss = nan",
            "a.toml:9:8: `loss` is out of range: NaN; accepted: at least 0, less than 1, for example 0.001"),
    ]);
}

/// A former name of a key is an error. The error names the present key, and the present value if the value was renamed
/// too.
#[test]
#[rustfmt::skip] // a table: two lines for each case
fn renamed_keys() {
    const SWITCH: &str = "buffer = \"240 KB\"\nxoff = \"220 KB\"";
    check(&[
        (SWITCH, "queueing = \"shared\"\nmark = \"arrivals\"",
            r#"a.toml:11:1: `mark` in [fabric.switch] is now called `ecn.mark_on`; write `ecn.mark_on = "enqueue"`"#),
        (SWITCH, "queueing = \"output\"\nmark = \"departures\"",
            r#"a.toml:11:1: `mark` in [fabric.switch] is now called `ecn.mark_on`; write `ecn.mark_on = "dequeue"`"#),
        (SWITCH, "queueing = \"shared\"\nresume = \"3 KB\"",
            "a.toml:11:1: `resume` in [fabric.switch] is now called `xon_offset`; write `xon_offset` instead of `resume`"),
        (SWITCH, "queueing = \"shared\"\nclasses = 2",
            "a.toml:11:1: `classes` in [fabric.switch] is now called `priorities`; write `priorities` instead of `classes`"),
        (r#"transport = "irn""#, "transport = \"homa\"\nscheduled_levels = 2",
            "a.toml:23:1: `scheduled_levels` in run \"IRN\" is now called `scheduled_priorities`; write `scheduled_priorities` instead of `scheduled_levels`"),
        (r#"transport = "irn""#, "transport = \"irn\"\nset = { \"fabric.switch.mark\" = \"arrivals\" }",
            r#"a.toml:23:9: `mark` in [fabric.switch] is now called `ecn.mark_on`; write `ecn.mark_on = "enqueue"`"#),
    ]);
}

#[test]
#[rustfmt::skip] // a table
fn overrides_are_checked_as_the_file_is() {
    let cases = [
        ("fabric.delay=fast", r#"--set fabric.delay=fast: `delay`: `fast` does not start with a number; write for example "2 us""#),
        ("traffic.load=[0.1,", "--set traffic.load=[0.1,: `[0.1,` is not a TOML value; write for example `[0.1, 0.2]`, `{ kmin = \"5 KB\" }` or `\"40 Gbps\"`"),
        ("transport.mtu=2 KB", "--set transport.mtu=2 KB: `mtu` is not a key of [transport]; write it in [fabric]"),
        ("fabric.switch.buffer=100 KB", "--set fabric.switch.buffer=100 KB: `xoff` of 220 KB is above `buffer` of 100 KB; `xoff` can be at most `buffer`: change both, or leave it out"),
        ("fabric.delya=2 us", "--set fabric.delya=2 us: unknown key `delya` in [fabric]; did you mean `delay`? accepted here: topology, rate, delay, loss, mtu, frame_gap, clock_skew_ppm, clock_jitter, paths, flowlet_gap, switch, link, convergence, local_repair, route, storm, drop, dead, receiver, watchdog, nic_watchdog, mesh, leaves, spines, hosts_per_leaf, uplink_rate, uplink_delay, oversubscription"),
        ("fabrik.k=4", "--set fabrik.k=4: unknown key `fabrik` in the scenario; did you mean `fabric`? accepted here: title, seed, fidelity, fidelity_quantum, fast_forward, fabric, traffic, transport, run, limits, sweep, extends, watch"),
        ("fabric.switch.queueing=voq", r#"--set fabric.switch.queueing=voq: unknown queueing "voq"; available: "input", "shared", "output""#),
        ("run.0.pfc=1", "--set run.0.pfc=1: `pfc` must be true or false, not an integer; write for example `pfc = true`"),
        ("run.2.pfc=true", r#"--set run.2.pfc=true: nothing in `run` is called or numbered `2`; there are: 0 ("RoCE"), 1 ("IRN")"#),
        ("run.Irn.pfc=true", r#"--set run.Irn.pfc=true: nothing in `run` is called or numbered `Irn`; there are: 0 ("RoCE"), 1 ("IRN")"#),
        ("run.IRN.bpd_cap=50", r#"--set run.IRN.bpd_cap=50: unknown key `bpd_cap` in run "IRN"; did you mean `bdp_cap`? accepted here: name, transport, set, beside, cc, pfc, header, ack_size, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, nscc, rccc, hpcc, rogue, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, recovery, timeouts, rto, rto_high, rto_low, rto_low_packets, timer_restart, nacks, bdp_fc, bdp_cap, bdp_delay, nic_pipeline, nic_cycle, path_selection, paths, reorder_tolerance, reps_freeze"#),
        ("run.RoCE.rto_low=50us", r#"--set run.RoCE.rto_low=50us: `rto_low` belongs to transport "irn", not to "roce"; accepted here: name, transport, set, beside, cc, pfc, header, ack_size, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, nscc, rccc, hpcc, rogue, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, timeouts, rto, rto_high, acks, nacks, go_back, bdp_fc, bdp_cap, path_selection, paths, reorder_tolerance, reps_freeze"#),
        (r#"run."IRN.pfc=true"#, r#"--set run."IRN.pfc=true: the path `run."IRN.pfc` has an open quote; write a dotted path, for example `fabric.switch.buffer` or `run."IRN 2.0".bdp_cap`"#),
        ("title.x=1", "--set title.x=1: `title` is a string, so it has no `x`; set `title` itself"),
        ("traffic.0.load=0.5", "--set traffic.0.load=0.5: unknown key `0` in [traffic]; accepted here: pattern, name, warmup, cooldown, start, priority, load, sizes, flows, locality, pod_locality, arrivals, cv, on_share"),
        ("traffic.load=1.5", "--set traffic.load=1.5: `load` is out of range: 1.5; accepted: more than 0, at most 1, for example 0.7"),
        ("run=3", "--set run=3: `run` must be an array of tables, not an integer; write `[[run]]`"),
        (r#"traffic={pattern="incast",senders=9,total="1 MB"}"#, r#"--set traffic={pattern="incast",senders=9,total="1 MB"}: 9 senders do not fit: the fabric has 8 hosts and one receives; accepted: 1 to 7"#),
        (".=1", r#"--set .=1: the path `.` has an empty part; write a dotted path, for example `fabric.switch.buffer` or `run."IRN 2.0".bdp_cap`"#),
        ("fabric.rate=40", r#"--set fabric.rate=40: `rate` needs a unit, 40 has none; write a string with a unit, for example "40 Gbps""#),
        ("seed=0x-1", "--set seed=0x-1: `seed` must be an integer, not a string; write for example `seed = 1`"),
        ("fabric.delay=2 s, or so", r#"--set fabric.delay=2 s, or so: `delay`: `2 s, or so` has the unknown unit `s, or so`; use one of ps, ns, us, ms, s, for example "2 us""#),
    ];
    for (argument, error) in cases {
        let (path, value) = argument.split_once('=').unwrap();
        assert_eq!(error_of(GOOD, &[(path.to_string(), value.to_string())]), error);
    }
}

/// Damages the scenario at every character in several ways. The reader must not panic, and every error must point into
/// the text.
#[test]
fn damaged_scenarios_end_in_an_error_or_in_a_scenario() {
    let mut accepted = 0;
    for (at, character) in GOOD.char_indices() {
        let (before, rest) = GOOD.split_at(at);
        let after = &rest[character.len_utf8()..];
        let damaged = [before.to_string(), format!("{before}{after}")];
        let replaced = ["\u{b5}", "\"", "9", "-", ".", "\n", "[", "="].map(|new| format!("{before}{new}{after}"));
        for text in damaged.iter().chain(&replaced) {
            accepted += u32::from(error_of(text, &[]) == "accepted");
        }
    }
    let changes = GOOD.chars().count() as u32 * 10;
    assert!(accepted > 0 && accepted < changes / 2, "{accepted} of {changes} accepted");
}

/// Checks the lines of the error of [`GOOD`] with the pieces replaced.
fn check_all(pieces: &[(&str, &str)], expected: &[&str]) {
    let text = pieces.iter().fold(GOOD.to_string(), |text, (piece, with)| {
        assert!(text.contains(piece), "{piece} is not in the scenario");
        text.replacen(piece, with, 1)
    });
    assert_eq!(error_of(&text, &[]).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn all_mistakes_are_reported_in_the_order_of_the_text() {
    check_all(
        &[
            ("title =", "titel ="),
            ("leaves = 2", "leaves = 0"),
            ("rate = \"40 Gbps\"", "rate = 40"),
            ("delay = \"2 us\"\n", ""),
            ("load = 0.7", "load = 7"),
            ("flows = 100", "flows = \"many\"\nwarmup = -1"),
            ("transport = \"roce\"", "transport = \"roce\"\nmtu = \"1 KB\""),
            ("pfc = true", "pfc = 1"),
        ],
        &[
            "a.toml:1:1: unknown key `titel` in the scenario; did you mean `title`? accepted here: title, seed, fidelity, fidelity_quantum, fast_forward, fabric, traffic, \
             transport, run, limits, sweep, extends, watch",
            "a.toml:2:1: `delay` is missing in [fabric]; write for example `delay = \"2 us\"`",
            "a.toml:4:10: `leaves` is out of range: 0; accepted: 1 to 1000000",
            "a.toml:7:8: `rate` needs a unit, 40 has none; write a string with a unit, for example \"40 Gbps\"",
            "a.toml:13:8: `load` is out of range: 7; accepted: more than 0, at most 1, for example 0.7",
            "a.toml:15:9: `flows` must be an integer, not a string; write for example `flows = 20000`",
            "a.toml:16:10: `warmup` is out of range: -1; accepted: 0 to 1000000000",
            "a.toml:20:1: `mtu` is not a key of run \"RoCE\"; write it in [fabric]",
            "a.toml:24:7: `pfc` must be true or false, not an integer; write for example `pfc = true`",
        ],
    );
}

#[test]
fn consequences_of_a_mistake_are_not_reported() {
    let unknown = |key: &str, place: &str, meant: &str, keys: &str| {
        format!("a.toml:{place}: unknown key `{key}` in {meant}accepted here: {keys}")
    };
    // `load` is not missing: it is misspelt.
    let keys = "pattern, name, warmup, cooldown, start, priority, load, sizes, flows, locality, pod_locality, arrivals, cv, on_share";
    check_all(&[("load = 0.7", "laod = 0.7")], &[&unknown("laod", "14:1", "[traffic]; did you mean `load`? ", keys)]);
    // The keys of the table depend on the topology, the buffer on the hosts.
    check_all(
        &[("\"leaf-spine\"", "\"leaf-spin\""), ("spines = 2", "k = \"2\""), ("load = 0.7", "load = \"0.7\"")],
        &[
            "a.toml:3:12: unknown topology \"leaf-spin\"; did you mean `leaf-spine`? available: \"fat-tree\", \"leaf-spine\", \
             \"leaf-spine-core\", \"single-switch\", \"dumbbell\", \"dragonfly\", \"multi-plane\", \"graph\", \"file\"",
            "a.toml:14:8: `load` must be a number, not a string; write for example `load = 0.7`",
        ],
    );
    // Without the topology that is meant, it is not known which keys the table has.
    check_all(
        &[("\"leaf-spine\"", "\"ring\""), ("spines = 2", "spines = \"2\"")],
        &["a.toml:3:12: unknown topology \"ring\"; available: \"fat-tree\", \"leaf-spine\", \"leaf-spine-core\", \
         \"single-switch\", \"dumbbell\", \"dragonfly\", \"multi-plane\", \"graph\", \"file\""],
    );
    // `name` is not missing: it is misspelt.
    let text = GOOD.replace("[[run]]\nname = \"RoCE\"", "[sweep]\nseeds = [1, 2]\n[[run]]\nnaem = \"RoCE\"");
    let error = error_of(&text, &[]);
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 2, "{error}");
    assert!(lines[0].starts_with("a.toml:18:1: the sweep cannot vary `seeds`; "), "{error}");
    assert!(lines[1].starts_with("a.toml:20:1: unknown key `naem` in ") && lines[1].contains("`name`?"), "{error}");
    // The threshold may be right, and the buffer wrong.
    check_all(
        &[("buffer = \"240 KB\"", "buffer = \"240\"")],
        &[
            "a.toml:10:10: `buffer`: `240` has no unit; use one of B, KB, MB, GB, TB, KiB, MiB, GiB, for example \"240 KB\"",
        ],
    );
    // `xoff` has an effect if `pfc` is true.
    check_all(&[("pfc = true", "pcf = true")], &[&error_of(&GOOD.replace("pfc = true", "pcf = true"), &[])]);
}

#[test]
fn a_mistake_in_every_run_of_a_sweep_is_reported_once() {
    let text = format!("{GOOD}[sweep]\ntraffic.load = [0.1, 1.5, 2.5]\n").replace("spines = 2", "spines = \"2\"");
    let error = error_of(&text, &[]);
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(lines[0].starts_with("a.toml:5:10: `spines` must be an integer, not a string"), "{error}");
    for (line, value) in lines[1..].iter().zip(["1.5", "2.5"]) {
        assert!(line.contains(&format!("`load` is out of range: {value}")), "{error}");
    }
}
