//! The error messages of wrong scenarios, word by word.

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
            "a.toml:15:1: this is not TOML: duplicate key"),
        ("load = 0.7", "load = fast",
            "a.toml:14:8: this is not TOML: `fast` is not a value; a value is a number, true, false, or text in quotes"),
        ("", "",
            "a.toml:1:1: the scenario has no run; add [[run]] with `name` and `transport`"),
        ("", "title = \"empty\"\n",
            "a.toml:1:1: the scenario has no run; add [[run]] with `name` and `transport`"),
        ("title", "titel",
            "a.toml:1:1: unknown key `titel` in the scenario; did you mean `title`? accepted here: title, seed, fabric, traffic, transport, run, limits, sweep, extends, watch"),
        (r#"title = "good""#, "title = 3",
            r#"a.toml:1:9: `title` must be a string, not an integer; write for example `title = "IRN and RoCE"`"#),
        (r#"title = "good""#, "seed = -1",
            "a.toml:1:8: `seed` is out of range: -1; accepted: 0 to 9223372036854775807"),
        (r#"title = "good""#, "seed = 1.5",
            "a.toml:1:8: `seed` must be an integer, not a decimal number; write for example `seed = 0`"),
        ("load = 0.7", "load =",
            "a.toml:14:7: this is not TOML: a value is missing; a value is a number, true, false, or text in quotes"),
        ("load = 0.7", "load = 1979-05-27",
            "a.toml:14:8: `load` must be a number, not a date; write for example `load = 0.7`"),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "",
            r#"a.toml:2:2: `topology` is missing in [fabric]; write for example `topology = "fat-tree"`"#),
        ("[fabric.switch]", "[switch]",
            "a.toml:9:2: unknown key `switch` in the scenario; did you mean `watch`? accepted here: title, seed, fabric, traffic, transport, run, limits, sweep, extends, watch"),
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
            "a.toml:9:8: `loss` is out of range: 1; accepted: a probability of at least 0 and less than 1"),
        (r#"delay = "2 us""#, "delay = \"2 us\"\nloss = -0.1",
            "a.toml:9:8: `loss` is out of range: -0.1; accepted: a probability of at least 0 and less than 1"),
        (r#"delay = "2 us""#, "delay = \"2 us\"\nloss = nan",
            "a.toml:9:8: `loss` is out of range: NaN; accepted: a probability of at least 0 and less than 1"),
    ]);
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn fabrics() {
    check(&[
        (r#"topology = "leaf-spine""#, r#"topology = "leafspine""#,
            r#"a.toml:3:12: unknown topology "leafspine"; did you mean `leaf-spine`? available: "fat-tree", "leaf-spine", "leaf-spine-core", "single-switch", "dumbbell", "graph""#),
        (r#"topology = "leaf-spine""#, r#"topology = "ring""#,
            r#"a.toml:3:12: unknown topology "ring"; available: "fat-tree", "leaf-spine", "leaf-spine-core", "single-switch", "dumbbell", "graph""#),
        ("topology = \"leaf-spine\"\n", "",
            r#"a.toml:2:1: `topology` is missing in [fabric]; write for example `topology = "fat-tree"`"#),
        ("rate = \"40 Gbps\"\n", "",
            r#"a.toml:2:1: `rate` is missing in [fabric]; write for example `rate = "40 Gbps"`"#),
        ("rate =", "rat =",
            "a.toml:7:1: unknown key `rat` in [fabric]; did you mean `rate`? accepted here: topology, rate, delay, loss, mtu, frame_gap, clock_skew_ppm, clock_jitter, paths, switch, link, route, storm, drop, dead, receiver, watchdog, nic_watchdog, mesh, leaves, spines, hosts_per_leaf, uplink_rate, uplink_delay, oversubscription"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\n",
            "a.toml:2:1: `k` is missing in [fabric]; write for example `k = 6`"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\nk = 5\n",
            "a.toml:4:5: `k` is odd: 5; a fat-tree needs an even number, for example 6"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\nk = 0\n",
            "a.toml:4:5: `k` is out of range: 0; accepted: 2 to 64"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\nk = 66\n",
            "a.toml:4:5: `k` is out of range: 66; accepted: 2 to 64"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\nk = 4.0\n",
            "a.toml:4:5: `k` must be an integer, not a decimal number; write for example `k = 2`"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\nk = 4\nhosts = 16\n",
            r#"a.toml:5:1: `hosts` belongs to topology "single-switch" or "graph", not to "fat-tree"; accepted here: topology, rate, delay, loss, mtu, frame_gap, clock_skew_ppm, clock_jitter, paths, switch, link, route, storm, drop, dead, receiver, watchdog, nic_watchdog, mesh, k"#),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\nk = 4\nspines = 2\n",
            r#"a.toml:5:1: `spines` belongs to topology "leaf-spine", not to "fat-tree"; accepted here: topology, rate, delay, loss, mtu, frame_gap, clock_skew_ppm, clock_jitter, paths, switch, link, route, storm, drop, dead, receiver, watchdog, nic_watchdog, mesh, k"#),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"single-switch\"\nhosts = 1\n",
            "a.toml:3:12: the fabric has fewer than two hosts; a flow needs a sender and a receiver"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"single-switch\"\nhosts = -3\n",
            "a.toml:4:9: `hosts` is out of range: -3; accepted: 1 to 1000000"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"single-switch\"\nhosts = 99999999999999999999999999999999999999999\n",
            "a.toml:4:9: `hosts` is out of range: 99999999999999999999999999999999999999999; accepted: 1 to 1000000"),
        ("leaves = 2", "leaves = 0",
            "a.toml:4:10: `leaves` is out of range: 0; accepted: 1 to 1000000"),
        ("leaves = 2", "leaves = 1000000",
            "a.toml:3:12: the fabric has 4000000 hosts; accepted: at most 1000000"),
        ("spines = 2", "spines = 1000000\nuplink_delay = 1",
            r#"a.toml:6:16: `uplink_delay` needs a unit, 1 has none; write a string with a unit, for example "2 us""#),
        ("spines = 2", "spines = 2\nuplink_rate = \"40 Gbps\"\noversubscription = 2",
            "a.toml:7:20: `oversubscription` and `uplink_rate` are both given; the one follows from the other: remove one of them"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"leaf-spine-core\"\npods = 2\nleaves_per_pod = 2\nspines_per_pod = 2\nhosts_per_leaf = 2\n",
            "a.toml:2:1: `cores_per_plane` is missing in [fabric]; write for example `cores_per_plane = 4`"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"leaf-spine-core\"\npods = 2000\nleaves_per_pod = 2\nspines_per_pod = 1000\ncores_per_plane = 2000\nhosts_per_leaf = 2\n",
            "a.toml:2:1: 2000 pods of 2 leaves and 1000 spines with 2000 cores in each plane need too many links; accepted: at most 10000000 links between them"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"leaf-spine-core\"\npods = 2\nleaves_per_pod = 2\nspines_per_pod = 2\ncores_per_plane = 2\nhosts_per_leaf = 2\ncore_rate = \"40 Gbps\"\ncore_oversubscription = 2\n",
            "a.toml:10:25: `core_oversubscription` and `core_rate` are both given; the one follows from the other: remove one of them"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"leaf-spine-core\"\npods = 2\nleaves_per_pod = 2\nspines_per_pod = 2\ncores_per_plane = 2\nhosts_per_leaf = 2\ncore_oversubscription = -1\n",
            "a.toml:9:25: `core_oversubscription` is out of range: -1; accepted: a ratio of more than zero that leaves each uplink at most 10 Tbps, for example 2.0"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"leaf-spine-core\"\npods = 2\nleaves_per_pod = 2\nspines_per_pod = 2\ncores_per_plane = 2\nhosts_per_leaf = 2\nspines = 2\n",
            r#"a.toml:9:1: `spines` belongs to topology "leaf-spine", not to "leaf-spine-core"; accepted here: topology, rate, delay, loss, mtu, frame_gap, clock_skew_ppm, clock_jitter, paths, switch, link, route, storm, drop, dead, receiver, watchdog, nic_watchdog, mesh, pods, leaves_per_pod, spines_per_pod, cores_per_plane, hosts_per_leaf, uplink_rate, uplink_delay, oversubscription, core_rate, core_delay, core_oversubscription"#),
        ("spines = 2", "spines = 2\noversubscription = 0",
            "a.toml:6:20: `oversubscription` is out of range: 0; accepted: a ratio of more than zero that leaves each uplink at most 10 Tbps, for example 2.0"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"dumbbell\"\nleft = 2\nright = 2\nbottleneck_rate = 10\n",
            r#"a.toml:6:19: `bottleneck_rate` needs a unit, 10 has none; write a string with a unit, for example "40 Gbps""#),
    ]);
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn output_queues() {
    const SWITCH: &str = "buffer = \"240 KB\"\nxoff = \"220 KB\"";
    check(&[
        (SWITCH, "queueing = \"output\"\nbuffer = \"108.8 KB\"\npriorities = 4\ntrim = true\necn = { mark_on = \"enqueue\" }", "accepted"),
        (SWITCH, "queueing = \"output\"\nbuffers = [\"8704 B\", \"17408 B\"]\n[fabric.switch.trim]\nto = \"80 B\"\nheaders = \"above\"\nreturn_to_sender = true", "accepted"),
        (SWITCH, "queueing = \"output\"\nbuffers = [\"8704 B\", \"1 KB\"]\ntrim = true", "accepted"),
        (SWITCH, "queueing = \"output\"\nxoff = \"220 KB\"",
            r#"a.toml:11:1: `xoff` belongs to queueing "input" or "shared", not to "output"; accepted here: queueing, buffer, scheduler, weights, ecn, priorities, buffers, trim, count_in_service"#),
        (SWITCH, "trim = true",
            r#"a.toml:10:1: `trim` belongs to queueing "output", not to "input"; accepted here: queueing, buffer, scheduler, weights, ecn, xoff, headroom, xon, arbiter, arbiter_quantum, drop_until_free"#),
        (SWITCH, "queueing = \"output\"\npriorities = 9",
            "a.toml:11:14: `priorities` is out of range: 9; accepted: 1 to 8"),
        (SWITCH, "queueing = \"output\"\npriorities = 1\ntrim = true",
            "a.toml:11:14: too few priorities: 1; `trim` puts headers in a priority of their own: accepted: 2 to 8"),
        (SWITCH, "queueing = \"output\"\nbuffers = [\"8704 B\"]\n[transport]\ncontrol_priority = true",
            "a.toml:11:11: too few priorities: 1; `control_priority` puts control packets in a priority of their own: accepted: 2 to 8"),
        (SWITCH, "queueing = \"output\"\nbuffer = \"8704 B\"\nbuffers = [\"8704 B\"]",
            "a.toml:12:11: `buffer` and `buffers` are both given; `buffer` is for all priorities, `buffers` has one for each: remove one of them"),
        (SWITCH, "queueing = \"output\"\nbuffers = []",
            "a.toml:11:11: `buffers` has 0 entries; accepted: one for each priority, the lowest first, 8 at most"),
        (SWITCH, "queueing = \"output\"\npriorities = 3\nbuffers = [\"8704 B\", \"8704 B\"]",
            "a.toml:12:11: `buffers` has 2 entries; accepted: one for each of the 3 priorities, the lowest first"),
        (SWITCH, "queueing = \"output\"\nbuffers = [\"8704 B\", 1]",
            r#"a.toml:11:22: `buffers` needs a unit, 1 has none; write a string with a unit, for example "100 KB""#),
        (SWITCH, "queueing = \"output\"\nbuffers = [\"8704 B\", \"63 B\"]",
            "a.toml:11:22: `buffers` is out of range: 63 B; accepted: 64 B to 1000 GB"),
        (SWITCH, "queueing = \"output\"\nbuffers = [\"8704 B\", \"1 KB\"]",
            "a.toml:11:22: a buffer of 1 KB does not hold one full packet; a packet takes 1.086 KB (mtu 1.024 KB and headers of 62 B)"),
        (SWITCH, "queueing = \"output\"\nbuffer = \"1 KB\"",
            "a.toml:11:10: `buffer` of 1 KB does not hold one full packet; a packet takes 1.086 KB (mtu 1.024 KB and headers of 62 B)"),
        (SWITCH, "queueing = \"output\"\ntrim = \"64 B\"",
            "a.toml:11:8: `trim` must be true or false, not a string; write for example `trim = true`"),
        (SWITCH, "queueing = \"output\"\ntrim = { to = \"60 B\" }",
            "a.toml:11:15: `to` is out of range: 60 B; accepted: 64 B to 9 KB"),
        (SWITCH, "queueing = \"output\"\ntrim = { headers = \"first\" }",
            r#"a.toml:11:20: unknown headers "first"; available: "highest", "above", "below""#),
        (SWITCH, "queueing = \"output\"\ntrim = { return_to_sender = 1 }",
            "a.toml:11:29: `return_to_sender` must be true or false, not an integer; write for example `return_to_sender = true`"),
        (SWITCH, "queueing = \"output\"\ntrim = { rts = true }",
            "a.toml:11:10: unknown key `rts` in [fabric.switch.trim]; accepted here: to, headers, in_a_row, return_to_sender"),
        (SWITCH, "queueing = \"output\"\n[transport]\npfc = true",
            r#"a.toml:10:12: `queueing` = "output" has no PFC, but the run has `pfc` = true; accepted with `pfc` = true: "input", "shared""#),
        ("rate = \"40 Gbps\"", "rate = \"40 Gbps\"\npaths = \"sprayed\"",
            r#"a.toml:8:9: unknown paths "sprayed"; did you mean `spray`? available: "ecmp", "spray""#),
        ("rate = \"40 Gbps\"", "rate = \"40 Gbps\"\npaths = \"spray\"", "accepted"),
    ]);
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn schedulers() {
    const SWITCH: &str = "buffer = \"240 KB\"\nxoff = \"220 KB\"";
    check(&[
        (SWITCH, "scheduler = \"strict\"", "accepted"),
        (SWITCH, "scheduler = \"round-robin\"", "accepted"),
        (SWITCH, "scheduler = \"wrr\"\nweights = [1]", "accepted"),
        (SWITCH, "weights = [1, 0]", "accepted"),
        (SWITCH, "queueing = \"shared\"\nscheduler = \"drr\"\npriorities = 2\nweights = [1, 0]", "accepted"),
        (SWITCH, "queueing = \"output\"\nscheduler = \"drr\"\nbuffers = [\"8704 B\", \"17408 B\"]\nweights = [1, 2]", "accepted"),
        (SWITCH, "queueing = \"output\"\nscheduler = \"round-robin\"\ntrim = true", "accepted"),
        (SWITCH, "queueing = \"output\"\nscheduler = \"round-robin\"\ntrim = { in_a_row = 0 }", "accepted"),
        (SWITCH, "scheduler = \"fifo\"",
            r#"a.toml:10:13: unknown scheduler "fifo"; available: "strict", "round-robin", "drr", "wrr""#),
        (SWITCH, "scheduler = \"wrr\"",
            r#"a.toml:10:13: scheduler "wrr" needs `weights`; write for example `weights = [1, 4]`, one for each priority, the lowest first"#),
        (SWITCH, "scheduler = \"round-robin\"\nweights = [1, 2]",
            r#"a.toml:11:11: scheduler "round-robin" has no `weights`; accepted with `weights`: `scheduler` = "drr" or "wrr""#),
        (SWITCH, "scheduler = \"strict\"\nweights = [1, 2]",
            r#"a.toml:11:11: scheduler "strict" has no `weights`; accepted with `weights`: `scheduler` = "drr" or "wrr""#),
        (SWITCH, "weights = [1, 1001]",
            "a.toml:10:15: `weights` is out of range: 1001; accepted: 0 to 1000"),
        (SWITCH, "weights = []",
            "a.toml:10:11: `weights` has 0 entries; accepted: one for each priority, the lowest first, 8 at most"),
        (SWITCH, "queueing = \"output\"\npriorities = 3\nweights = [1, 2]",
            "a.toml:12:11: `weights` has 2 entries; accepted: one for each of the 3 priorities, the lowest first"),
        (SWITCH, "queueing = \"output\"\nscheduler = \"drr\"\nweights = [1, 2]\ntrim = { in_a_row = 5 }",
            r#"a.toml:13:21: `in_a_row` bounds scheduler "strict", and the switch has "drr"; accepted here: 0, or leave it out"#),
        (SWITCH, "ecn = { mark_on = \"arrival\" }",
            r#"a.toml:10:19: unknown mark_on "arrival"; available: "dequeue", "enqueue""#),
    ]);
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn arbiters_and_clocks() {
    const SWITCH: &str = "buffer = \"240 KB\"";
    const DELAY: &str = "delay = \"2 us\"";
    check(&[
        (SWITCH, "arbiter = \"fifo\"",
            r#"a.toml:10:11: unknown arbiter "fifo"; available: "round-robin", "oldest-first""#),
        (SWITCH, "arbiter = \"oldest-first\"\narbiter_quantum = 8",
            r#"a.toml:11:19: arbiter "oldest-first" has no `arbiter_quantum`; remove `arbiter_quantum`, or write `arbiter = "round-robin"`"#),
        (SWITCH, "arbiter_quantum = 0",
            "a.toml:10:19: `arbiter_quantum` is out of range: 0; accepted: 1 to 1000000"),
        (SWITCH, "arbiter_quantum = \"0 B\"",
            "a.toml:10:19: `arbiter_quantum` is out of range: 0 B; accepted: 1 B to 1 GB"),
        (SWITCH, "queueing = \"shared\"\narbiter_quantum = 8",
            r#"a.toml:11:1: `arbiter_quantum` belongs to queueing "input", not to "shared"; accepted here: queueing, buffer, scheduler, weights, ecn, xoff, headroom, beta, xon_offset, egress_alpha, priorities"#),
        (SWITCH, "buffer = \"240 KB\"\ndrop_until_free = \"250 KB\"",
            "a.toml:11:19: `drop_until_free` of 250 KB is above `buffer` of 240 KB; `drop_until_free` can be at most `buffer`: change both, or leave it out"),
        (DELAY, "delay = \"2 us\"\nclock_skew_ppm = 100001",
            "a.toml:9:18: `clock_skew_ppm` is out of range: 100001; accepted: 0 to 100000"),
        (DELAY, "delay = \"2 us\"\nclock_jitter = \"2 ms\"",
            "a.toml:9:16: `clock_jitter` is out of range: 2 ms; accepted: 0 to 1 ms"),
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
#[rustfmt::skip] // a table: two lines for each case
fn switches() {
    check(&[
        (r#"buffer = "240 KB""#, r#"queueing = "outputs""#,
            r#"a.toml:10:12: unknown queueing "outputs"; did you mean `output`? available: "input", "shared", "output""#),
        (r#"buffer = "240 KB""#, "beta = 8",
            r#"a.toml:10:1: `beta` belongs to queueing "shared", not to "input"; accepted here: queueing, buffer, scheduler, weights, ecn, xoff, headroom, xon, arbiter, arbiter_quantum, drop_until_free"#),
        (r#"buffer = "240 KB""#, "queueing = \"shared\"\nxon = \"10 KB\"",
            r#"a.toml:11:1: `xon` belongs to queueing "input", not to "shared"; accepted here: queueing, buffer, scheduler, weights, ecn, xoff, headroom, beta, xon_offset, egress_alpha, priorities"#),
        (r#"buffer = "240 KB""#, "queueing = \"shared\"\nbeta = 8",
            "a.toml:11:8: `beta` and `xoff` are both given; `beta` makes PFC's threshold dynamic, `xoff` static: remove one of them"),
        (r#"buffer = "240 KB""#, "queueing = \"shared\"\negress_alpha = 0",
            "a.toml:11:16: `egress_alpha` is out of range: 0; accepted: more than 0, at most 1000000"),
        (r#"buffer = "240 KB""#, "queueing = \"shared\"\npriorities = 9",
            "a.toml:11:14: `priorities` is out of range: 9; accepted: 1 to 8"),
        (r#"buffer = "240 KB""#, "queueing = \"shared\"\npriorities = 3\nweights = [1, 2]",
            "a.toml:12:11: `weights` has 2 entries; accepted: one for each of the 3 priorities, the lowest first"),
        (r#"buffer = "240 KB""#, r#"buffr = "240 KB""#,
            "a.toml:10:1: unknown key `buffr` in [fabric.switch]; did you mean `buffer`? accepted here: queueing, buffer, scheduler, weights, ecn, xoff, headroom, xon, arbiter, arbiter_quantum, drop_until_free"),
        (r#"buffer = "240 KB""#, r#"buffer = "200 KB""#,
            "a.toml:11:8: `xoff` of 220 KB is above `buffer` of 200 KB; `xoff` can be at most `buffer`: change both, or leave it out"),
        (r#"xoff = "220 KB""#, "xoff = \"220 KB\"\nxon = \"230 KB\"",
            "a.toml:12:7: `xon` of 230 KB is above `xoff` of 220 KB; `xon` can be at most `xoff`: change both, or leave it out"),
        (r#"xoff = "220 KB""#, r#"xon = "241 KB""#,
            "a.toml:11:7: `xon` of 241 KB is above `buffer` of 240 KB; `xon` can be at most `buffer`: change both, or leave it out"),
        ("buffer = \"240 KB\"\nxoff = \"220 KB\"", r#"buffer = "1085 B""#,
            "a.toml:10:10: `buffer` of 1.085 KB does not hold one full packet; a packet takes 1.086 KB (mtu 1.024 KB and headers of 62 B)"),
        ("buffer = \"240 KB\"\nxoff = \"220 KB\"\n", "buffer = \"1100 B\"\n",
            "a.toml:10:10: `buffer` of 1.1 KB does not hold one full packet; a packet takes 1.102 KB (mtu 1.024 KB and headers of 78 B)"),
    ]);
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn links() {
    check(&[
        (r#"delay = "2 us""#, "delay = \"2 us\"\nlink = 3",
            "a.toml:9:8: `link` must be an array of tables, not an integer; write `[[fabric.link]]`"),
        ("[fabric.switch]", "[fabric.link]\nfrom = \"h0\"\nto = \"leaf0\"\n[fabric.switch]",
            "a.toml:9:1: `link` must be an array of tables, not a table; write `[[fabric.link]]`"),
        ("[fabric.switch]", "[[fabric.link]]\nfrom = \"h0\"\n[fabric.switch]",
            r#"a.toml:9:1: `to` is missing in [[fabric.link]]; write for example `to = "s0"`"#),
        ("[fabric.switch]", "[[fabric.link]]\nfrom = \"h8\"\nto = \"leaf0\"\n[fabric.switch]",
            r#"a.toml:10:8: there is no node "h8"; the nodes of this topology: h0 to h7, leaf0 to leaf1, spine0 to spine1"#),
        ("[fabric.switch]", "[[fabric.link]]\nfrom = \"h0\"\nto = \"leaf1\"\n[fabric.switch]",
            r#"a.toml:11:6: no link joins "h0" and "leaf1"; [[fabric.link]] changes a link that this topology has"#),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "topology = \"leaf-spine-core\"\npods = 2\nleaves_per_pod = 2\nspines_per_pod = 2\ncores_per_plane = 2\nhosts_per_leaf = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"h2\"\nto = \"leaf0\"\n",
            r#"a.toml:13:6: no link joins "h2" and "leaf0"; [[fabric.link]] changes a link that this topology has"#),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "topology = \"leaf-spine-core\"\npods = 2\nleaves_per_pod = 2\nspines_per_pod = 2\ncores_per_plane = 2\nhosts_per_leaf = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"leaf1\"\nto = \"spine2\"\n",
            r#"a.toml:13:6: no link joins "leaf1" and "spine2"; [[fabric.link]] changes a link that this topology has"#),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "topology = \"leaf-spine-core\"\npods = 2\nleaves_per_pod = 2\nspines_per_pod = 2\ncores_per_plane = 2\nhosts_per_leaf = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"spine1\"\nto = \"core1\"\n",
            r#"a.toml:13:6: no link joins "spine1" and "core1"; [[fabric.link]] changes a link that this topology has"#),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "topology = \"leaf-spine-core\"\npods = 2\nleaves_per_pod = 2\nspines_per_pod = 2\ncores_per_plane = 2\nhosts_per_leaf = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"core4\"\nto = \"spine3\"\n",
            r#"a.toml:12:8: there is no node "core4"; the nodes of this topology: h0 to h7, leaf0 to leaf3, spine0 to spine3, core0 to core3"#),
        ("[fabric.switch]", "[[fabric.link]]\nfrom = \"h0\"\nto = \"leaf0\"\nloss = 2\n[fabric.switch]",
            "a.toml:12:8: `loss` is out of range: 2; accepted: a probability of at least 0 and less than 1"),
        ("[fabric.switch]", "[[fabric.link]]\nfrom = \"h0\"\nto = \"leaf0\"\ncolour = \"red\"\n[fabric.switch]",
            "a.toml:12:1: unknown key `colour` in [[fabric.link]]; accepted here: from, to, rate, delay, loss"),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"c\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s1\"\n",
            r#"a.toml:4:9: the host "c" cannot be reached from "a"; add a [[fabric.link]] that joins their switches"#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"c\"]\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s1\"\n",
            "a.toml:2:1: `switches` is missing in [fabric]; write for example `switches = 2`"),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"a\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s1\"\n",
            r#"a.toml:4:9: two nodes are called "a"; give each its own name"#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s1\"\n",
            r#"a.toml:4:20: a node's name is a string that is not empty; for example "h0""#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [1, 2]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s1\"\n",
            r#"a.toml:4:10: a node's name is a string that is not empty; for example "h0""#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = []\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s1\"\n",
            "a.toml:3:12: the fabric has fewer than two hosts; a flow needs a sender and a receiver"),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"host-a\", \"b\", \"c\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"hosta\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s1\"\n",
            r#"a.toml:9:8: there is no node "hosta"; did you mean `host-a`? a link joins two of `hosts` and `switches`"#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"c\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"d\"\nto = \"s1\"\n",
            r#"a.toml:15:8: there is no node "d"; a link joins two of `hosts` and `switches`"#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"c\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s2\"\n",
            r#"a.toml:16:6: there is no node "s2"; a link joins two of `hosts` and `switches`"#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"c\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"c\"\n",
            r#"a.toml:16:6: the link joins "c" to itself; name two nodes"#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"c\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"a\"\n",
            r#"a.toml:16:6: the link joins the hosts "c" and "a"; a host's link goes to a switch"#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"c\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s1\"\n",
            r#"a.toml:15:8: the host "b" has a second link here; each host has exactly one link"#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"c\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"s0\"\nto = \"s1\"\n",
            r#"a.toml:4:9: the host "c" has no link; each host has exactly one link: add a [[fabric.link]]"#),
    ]);
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn traffic() {
    check(&[
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"pairs\"\npairs = 20\nsizes = \"fixed 1 MB\"",
            r#"a.toml:12:1: traffic "pairs" never ends; give it `messages`, or the run a `duration` in [limits]"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"all-to-all\"\nsizes = \"fixed 1 MB\"\noutstanding = 8",
            "a.toml:15:15: `outstanding` is out of range: 8; accepted: 1 to 7"),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"all-to-all\"\nsizes = \"fixed 1 MB\"\noutstanding = 2\ninterval = \"1 ms\"",
            "a.toml:16:12: `interval` and `outstanding` are both given; with `outstanding` a host's next message starts when an earlier one has arrived: remove one of them"),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"all-to-all\"\nsizes = \"fixed 1 MB\"\nthink_time = \"1 ms\"",
            "a.toml:15:14: `think_time` has no meaning where messages start at fixed times; set `outstanding`, or remove `think_time`"),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"pairs\"\npairs = 0\nsizes = \"fixed 1 MB\"",
            r#"a.toml:14:9: `pairs` is out of range: 0; accepted: 1 to 1000000"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"pairs\"\npairs = 2\nmessages = 9\nwarmup = 18\nsizes = \"fixed 1 MB\"",
            r#"a.toml:16:10: a `warmup` of 18 leaves none of the 18 flows to measure; together they must be fewer than the flows"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"pairs\"\npairs = 2\ncooldown = 1\nsizes = \"fixed 1 MB\"",
            r#"a.toml:15:12: `cooldown` has no meaning: this traffic has no last flows; remove `cooldown`"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"incast\"\nsenders = 2\ntotal = \"1 MB\"\ninterval = \"completion\"",
            r#"a.toml:12:1: traffic "incast" never ends; give it `repeats`, or the run a `duration` in [limits]"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"incast\"\nsenders = 2\ntotal = \"1 MB\"\ninterval = \"completed\"",
            r#"a.toml:16:12: `interval`: `completed` is no time; write a time, for example "1 ms", or "completion""#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"incast\"\nsenders = 2\ntotal = \"1 MB\"\nthink_time = \"1 us\"",
            r#"a.toml:16:14: `think_time` has no meaning where requests start at fixed times; set `interval = "completion"`, or remove `think_time`"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"incast\"\nsenders = 2\ntotal = \"1 MB\"\npersistent_connections = true",
            r#"a.toml:16:26: `persistent_connections` has no meaning where requests start at fixed times; set `interval = "completion"`, or remove `persistent_connections`"#),
        (r#"pattern = "poisson""#, r#"pattern = "Poison""#,
            r#"a.toml:13:11: unknown pattern "Poison"; did you mean `poisson`? available: "poisson", "incast", "permutation", "all-to-all", "pairs", "list""#),
        ("pattern = \"poisson\"\n", "",
            r#"a.toml:12:1: `pattern` is missing in [traffic]; write for example `pattern = "poisson"`"#),
        ("load = 0.7", "load = 1.2",
            "a.toml:14:8: `load` is out of range: 1.2; accepted: a fraction of the host links' rate, more than 0 and at most 1"),
        ("load = 0.7", "load = 0",
            "a.toml:14:8: `load` is out of range: 0; accepted: a fraction of the host links' rate, more than 0 and at most 1"),
        ("load = 0.7", r#"load = "70 %""#,
            "a.toml:14:8: `load` must be a number, not a string; write for example `load = 0.7`"),
        ("load = 0.7", "load = 0.7\nsenders = 3",
            r#"a.toml:15:1: `senders` belongs to pattern "incast", not to "poisson"; accepted here: pattern, name, warmup, cooldown, start, priority, load, sizes, flows"#),
        ("flows = 100", "flows = 100\nwarmup = 100",
            "a.toml:17:10: a `warmup` of 100 leaves none of the 100 flows to measure; together they must be fewer than the flows"),
        ("flows = 100", "flows = 100\nwarmup = 60\ncooldown = 40",
            "a.toml:17:10: `warmup` and `cooldown` of 100 leave none of the 100 flows to measure; together they must be fewer than the flows"),
        ("flows = 100", "flows = 0",
            "a.toml:16:9: `flows` is out of range: 0; accepted: 1 to 1000000000"),
        ("flows = 100", "flows = 100\nwarmpu = 10",
            "a.toml:17:1: unknown key `warmpu` in [traffic]; did you mean `warmup`? accepted here: pattern, name, warmup, cooldown, start, priority, load, sizes, flows"),
        (r#"sizes = "irn-heavy-tailed""#, "sizes = 1000",
            r#"a.toml:15:9: `sizes` must be a string, not an integer; write for example `sizes = "irn-heavy-tailed"`"#),
        ("sizes = \"irn-heavy-tailed\"\n", "",
            r#"a.toml:12:1: `sizes` is missing in [traffic]; write for example `sizes = "irn-heavy-tailed"`"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"incast\"\nsenders = 8\ntotal = \"1 MB\"",
            "a.toml:14:11: 8 senders do not fit: the fabric has 8 hosts and one receives; accepted: 1 to 7"),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"incast\"\nsenders = 4\ntotal = \"1 MB\"\nreceiver = 8",
            "a.toml:16:12: `receiver` is out of range: 8; accepted: 0 to 7"),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"incast\"\nsenders = 4\ntotal = \"1 MB\"\nconnections = 0",
            "a.toml:16:15: `connections` is out of range: 0; accepted: 1 to 4294967295"),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"incast\"\nsenders = 4\ntotal = \"7 B\"\nconnections = 2",
            "a.toml:15:9: `total` is out of range: 7 B; accepted: 8 B to 100000 GB"),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"incast\"\nsenders = 4\ntotal = \"1 MB\"\nrepeats = 400000000",
            "a.toml:12:1: this traffic has 1600000000 flows; accepted: at most 1000000000 flows in one source"),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"permutation\"\nsizes = \"fixed 1 MB\"\nflows = 3",
            r#"a.toml:15:1: `flows` belongs to pattern "poisson", not to "permutation"; accepted here: pattern, name, warmup, cooldown, start, priority, sizes, repeats, interval"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"permutation\"\nsizes = \"fixed 1 MB\"\nrepeats = 1000\ninterval = \"30 s\"\nwarmup = 8000",
            "a.toml:17:10: a `warmup` of 8000 leaves none of the 8000 flows to measure; together they must be fewer than the flows"),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"permutation\"\nsizes = \"fixed 1 MB\"\nrepeats = 1000\ninterval = \"300000 s\"",
            "a.toml:12:1: `repeats` times `interval` is too long; accepted: at most 60 days"),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"list\"\nfile = \"flows.csv\"\nformat = \"xml\"",
            r#"a.toml:15:10: unknown format "xml"; available: "csv", "hpcc""#),
        ("[traffic]\npattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "[[traffic]]\npattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100\n[[traffic]]\npattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100",
            r#"a.toml:17:1: two traffic sources are called "poisson"; give each its own `name`"#),
        ("[traffic]\npattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "[[traffic]]\npattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100\n[[traffic]]\nname = \"poisson\"\npattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100",
            r#"a.toml:18:8: two traffic sources are called "poisson"; give each its own `name`"#),
    ]);
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn runs() {
    check(&[
        ("name = \"IRN\"\n", "",
            r#"a.toml:20:1: `name` is missing in [[run]]; write for example `name = "IRN"`"#),
        (r#"name = "IRN""#, r#"name = " ""#,
            r#"a.toml:21:8: `name` is empty; write for example "IRN""#),
        (r#"name = "IRN""#, r#"name = "RoCE""#,
            r#"a.toml:21:8: two runs are called "RoCE"; give each run its own name"#),
        ("transport = \"irn\"\n", "",
            r#"a.toml:20:1: `transport` is missing in run "IRN"; write for example `transport = "irn"`"#),
        (r#"transport = "irn""#, r#"transport = "inr""#,
            r#"a.toml:22:13: unknown transport "inr"; did you mean `irn`? available: "roce", "irn", "iwarp", "tcp", "ndp", "homa", "homa-tr", "hpcc", "rogue", "multipath", "p4:FILE""#),
        (r#"transport = "irn""#, r#"transport = "quic""#,
            r#"a.toml:22:13: unknown transport "quic"; available: "roce", "irn", "iwarp", "tcp", "ndp", "homa", "homa-tr", "hpcc", "rogue", "multipath", "p4:FILE""#),
        (r#"transport = "irn""#, "transport = \"irn\"\ncc = \"dcqnc\"",
            r#"a.toml:23:6: unknown cc "dcqnc"; did you mean `dcqcn`? available: "none", "dcqcn", "timely", "patched-timely", "dctcp", "aimd", "cubic", "swift", "hpcc", "rogue""#),
        (r#"transport = "irn""#, "transport = \"irn\"\npfc = \"yes\"",
            "a.toml:23:7: `pfc` must be true or false, not a string; write for example `pfc = true`"),
        (r#"transport = "irn""#, "transport = \"irn\"\nbpd_cap = 50",
            r#"a.toml:23:1: unknown key `bpd_cap` in run "IRN"; did you mean `bdp_cap`? accepted here: name, transport, set, beside, cc, pfc, header, ack_size, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, hpcc, rogue, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, recovery, timeouts, rto, rto_high, rto_low, rto_low_packets, timer_restart, nacks, bdp_fc, bdp_cap, nic_pipeline, nic_cycle"#),
        (r#"transport = "irn""#, "transport = \"irn\"\nbdp_cap = 0",
            "a.toml:23:11: `bdp_cap` is out of range: 0; accepted: 1 to 8388607"),
        (r#"transport = "irn""#, "transport = \"irn\"\nacks = true",
            r#"a.toml:23:1: `acks` belongs to transport "roce", not to "irn"; accepted here: name, transport, set, beside, cc, pfc, header, ack_size, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, hpcc, rogue, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, recovery, timeouts, rto, rto_high, rto_low, rto_low_packets, timer_restart, nacks, bdp_fc, bdp_cap, nic_pipeline, nic_cycle"#),
        (r#"transport = "roce""#, "transport = \"roce\"\nrto_low = \"50 us\"",
            r#"a.toml:20:1: `rto_low` belongs to transport "irn", not to "roce"; accepted here: name, transport, set, beside, cc, pfc, header, ack_size, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, hpcc, rogue, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, timeouts, rto, rto_high, acks, nacks, go_back, bdp_fc, bdp_cap"#),
        (r#"transport = "irn""#, "transport = \"irn\"\nrto_low = \"400 us\"\nrto_high = \"320 us\"",
            "a.toml:24:12: `rto_low` of 400 us is above `rto_high` of 320 us; `rto_low` can be at most `rto_high`"),
        (r#"transport = "irn""#, "transport = \"irn\"\nmax_rate = \"0 Gbps\"",
            "a.toml:23:12: `max_rate` is out of range: 0 bps; accepted: more than zero, at most 10 Tbps"),
        ("[traffic]", "[transport]\nrto_low = \"100 us\"\nrto_high = \"90 us\"\n[traffic]",
            "a.toml:14:12: `rto_low` of 100 us is above `rto_high` of 90 us; `rto_low` can be at most `rto_high`"),
        (r#"transport = "irn""#, "transport = \"irn\"\nrto_low = \"400 us\"\n[transport]\nrto_high = \"320 us\"",
            "a.toml:23:11: `rto_low` of 400 us is above `rto_high` of 320 us; `rto_low` can be at most `rto_high`"),
        ("[traffic]", "[transport]\nrto_lo = \"100 us\"\n[traffic]",
            "a.toml:13:1: unknown key `rto_lo` in [transport]; did you mean `rto_low`? accepted here: cc, pfc, header, ack_size, timeouts, rto, rto_high, acks, nacks, go_back, bdp_fc, bdp_cap, recovery, rto_low, rto_low_packets, timer_restart, nic_pipeline, nic_cycle, rto_initial, rto_max, initial_window, receive_window, delayed_acks, delayed_ack_timeout, handshake, send_latency, receive_latency, wake_latency, message_cost, send_cost, receive_cost, cores, paced_nacks, pull_rate, unscheduled_priorities, scheduled_priorities, overcommitment, retransmit_on_grant, eta, max_stage, w_ai, chunk_cost, chunk, min_rate, nic_timeout, retry_count, sync_interval, max_recoveries, paths, path_choice, nic_marks, nic_trim, spread, credit, unsolicited, path_timeout, loss_tolerance, path_probes, max_attempts, constants, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, rtt_packets, max_timeouts, rx_timeout, timer_granularity, probe, send_order, tx_buffers, rx_buffers, max_window, receives, small_channel, patience, doorbell, dma, completion, rate_granularity, timestamp_granularity, post_cost, poll_cost, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, hpcc, rogue"),
        ("[traffic]", "[transport]\nbdp_cap = \"50\"\n[traffic]",
            "a.toml:13:11: `bdp_cap` must be an integer, not a string; write for example `bdp_cap = 1`"),
        ("[traffic]", "[[transport]]\nbdp_cap = 50\n[traffic]",
            "a.toml:12:1: `transport` must be one table, not an array; write `[transport]`"),
    ]);
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn congestion_control_and_variants() {
    let irn = r#"transport = "irn""#;
    let roce = r#"transport = "roce""#;
    check(&[
        (irn, "transport = \"irn\"\ncc = \"dcqcn\"\ndcqcn = { g = 1.5 }",
            r#"a.toml:24:15: `g` is out of range: 1.5; accepted: 0 to 1"#),
        (irn, "transport = \"irn\"\ncc = \"dcqcn\"\ndcqcn.rate_timer = 55",
            r#"a.toml:24:20: `rate_timer` needs a unit, 55 has none; write a string with a unit, for example "55 us""#),
        (irn, "transport = \"irn\"\ncc = \"dcqcn\"\ndcqcn.gain = 0.5",
            r#"a.toml:24:7: unknown key `gain` in `dcqcn`; accepted here: profile, g, rate_timer, byte_counter, fast_recovery, cnp_interval, alpha_timer, r_ai, r_hai, min_rate, alpha_first, loss_backoff, initial_alpha, alpha_updates, rate_decrease_interval, clamp_target_rate, hyper_increase, hyper_growth"#),
        (irn, "transport = \"irn\"\ncc = \"timely\"\ndcqcn.g = 0.5",
            r#"a.toml:24:1: `dcqcn` holds parameters of cc "dcqcn", but this run has cc "timely"; set cc = "dcqcn", or move the parameters to [transport.dcqcn]"#),
        ("[traffic]", "[transport.timely]\nbeta = -0.1\n[traffic]",
            r#"a.toml:13:8: `beta` is out of range: -0.1; accepted: 0 to 1"#),
        ("[traffic]", "[transport]\ndcqcn = 5\n[traffic]",
            r#"a.toml:13:9: `dcqcn` must be a table, not an integer; write `{ key = value }`"#),
        (roce, "transport = \"roce\"\ncc = \"timely\"\nacks = false",
            r#"a.toml:21:8: cc "timely" needs acknowledgements; write `acks = true`, or leave `acks` out"#),
        (roce, "transport = \"roce\"\nrto = \"dynamic\"\nacks = false",
            r#"a.toml:21:8: a dynamic timeout needs acknowledgements; write `acks = true`, or leave `acks` out"#),
        (roce, "transport = \"roce\"\nbdp_cap = 50\nacks = false",
            r#"a.toml:21:8: a cap on packets in flight needs acknowledgements; write `acks = true`, or leave `acks` out"#),
        (irn, "transport = \"irn\"\nrecovery = \"newreno\"",
            r#"a.toml:23:12: unknown recovery "newreno"; available: "selective", "no-sack", "go-back-n""#),
        (irn, "transport = \"irn\"\nbdp_fc = false\nbdp_cap = 50",
            r#"a.toml:24:11: `bdp_cap` has no effect in run "IRN"; with bdp_fc = false there is no cap"#),
        (irn, "transport = \"irn\"\nnacks = \"every\"",
            r#"a.toml:23:9: `nacks` has no effect in run "IRN"; only go-back-N has this choice"#),
        (irn, "transport = \"irn\"\nrto_min = \"50 us\"",
            r#"a.toml:23:11: `rto_min` has no effect in run "IRN"; a fixed timeout has no minimum; write rto = "dynamic", or set rto_high"#),
        (irn, "transport = \"irn\"\nrto = \"dynamic\"\nrto_low = \"50 us\"",
            r#"a.toml:24:11: `rto_low` has no effect in run "IRN"; a dynamic timeout has no short one"#),
        (irn, "transport = \"iwarp\"\nrto_min = \"3 ms\"\nrto_max = \"2 ms\"",
            r#"a.toml:24:11: `rto_min` of 3 ms is above `rto_max` of 2 ms; `rto_min` can be at most `rto_max`"#),
        (irn, "transport = \"iwarp\"\ndelayed_ack_timeout = \"1 ms\"",
            r#"a.toml:23:23: `delayed_ack_timeout` has no effect in run "IRN"; acknowledgements are delayed only with delayed_acks = true"#),
        (irn, "transport = \"iwarp\"\nreceive_window = \"8 GB\"",
            r#"a.toml:23:18: `receive_window` is out of range: 8 GB; accepted: 1 B to 2 GB"#),
        ("[traffic]", "[fabric.switch.ecn]\nkmin = \"20 KB\"\nkmax = \"10 KB\"\n[traffic]",
            r#"a.toml:14:8: `kmin` of 20 KB is above `kmax` of 10 KB; `kmin` can be at most `kmax`"#),
        ("[traffic]", "[fabric.switch.ecn]\npmax = 1.5\n[traffic]",
            r#"a.toml:13:8: `pmax` is out of range: 1.5; accepted: a probability, 0 to 1"#),
        ("[fabric.switch]", "[fabric.switch]\necn = \"off\"",
            r#"a.toml:10:7: `ecn` must be true or false, not a string; write for example `ecn = true`"#),
        ("[traffic]", "[fabric.switch.ecn]\nkmn = \"20 KB\"\n[traffic]",
            r#"a.toml:13:1: unknown key `kmn` in [fabric.switch.ecn]; did you mean `kmin`? accepted here: kmin, kmax, pmax, mark_on"#),
    ]);
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn changes_of_a_run() {
    check(&[
        (r#"transport = "irn""#, "transport = \"irn\"\nset = \"x\"",
            "a.toml:23:7: `set` must be a table, not a string; write `{ key = value }`"),
        (r#"transport = "irn""#, "transport = \"irn\"\nset = { \"fabric.switch.bufer\" = \"60 KB\" }",
            "a.toml:23:9: unknown key `bufer` in [fabric.switch]; did you mean `buffer`? accepted here: queueing, buffer, scheduler, weights, ecn, xoff, headroom, xon, arbiter, arbiter_quantum, drop_until_free"),
        (r#"transport = "irn""#, "transport = \"irn\"\nset = { \"fabric.switch.buffer\" = \"60 KB\" }",
            "a.toml:23:34: `xoff` of 220 KB is above `buffer` of 60 KB; `xoff` can be at most `buffer`: change both, or leave it out"),
        (r#"transport = "irn""#, "transport = \"irn\"\nset = { \"fabric.switch.buffer\" = \"60 KB\", \"fabric.switch.xoff\" = \"50 KB\", \"fabric.switch.xon\" = \"55 KB\" }",
            "a.toml:23:97: `xon` of 55 KB is above `xoff` of 50 KB; `xon` can be at most `xoff`: change both, or leave it out"),
        (r#"transport = "irn""#, "transport = \"irn\"\nset = { traffic = { pattern = \"incast\" } }",
            "a.toml:23:19: `senders` is missing in [traffic]; write for example `senders = 30`"),
        (r#"transport = "irn""#, "transport = \"irn\"\nset = { fabric.delay = 3 }",
            r#"a.toml:23:24: `delay` needs a unit, 3 has none; write a string with a unit, for example "2 us""#),
        (r#"transport = "irn""#, "transport = \"irn\"\nset = { \"fabric..delay\" = 3 }",
            r#"a.toml:23:9: the path `fabric..delay` has an empty part; write a dotted path, for example `fabric.switch.buffer` or `run."IRN 2.0".bdp_cap`"#),
        (r#"transport = "irn""#, "transport = \"irn\"\nset = { \"fabric.delay.x\" = 3 }",
            "a.toml:23:9: `fabric.delay` is a string, so it has no `x`; set `fabric.delay` itself"),
        (r#"transport = "irn""#, "transport = \"irn\"\nset = { \"run.0.pfc\" = true }",
            r#"a.toml:23:9: `set` of run "IRN" cannot change `run`; a path in `set` begins with one of fabric, traffic, transport, limits, watch"#),
        (r#"transport = "irn""#, "transport = \"irn\"\nset = { seed = 3 }",
            r#"a.toml:23:9: `set` of run "IRN" cannot change `seed`; a path in `set` begins with one of fabric, traffic, transport, limits, watch"#),
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
        ("fabric.delya=2 us", "--set fabric.delya=2 us: unknown key `delya` in [fabric]; did you mean `delay`? accepted here: topology, rate, delay, loss, mtu, frame_gap, clock_skew_ppm, clock_jitter, paths, switch, link, route, storm, drop, dead, receiver, watchdog, nic_watchdog, mesh, leaves, spines, hosts_per_leaf, uplink_rate, uplink_delay, oversubscription"),
        ("fabrik.k=4", "--set fabrik.k=4: unknown key `fabrik` in the scenario; did you mean `fabric`? accepted here: title, seed, fabric, traffic, transport, run, limits, sweep, extends, watch"),
        ("fabric.switch.queueing=voq", r#"--set fabric.switch.queueing=voq: unknown queueing "voq"; available: "input", "shared", "output""#),
        ("run.0.pfc=1", "--set run.0.pfc=1: `pfc` must be true or false, not an integer; write for example `pfc = true`"),
        ("run.2.pfc=true", r#"--set run.2.pfc=true: nothing in `run` is called or numbered `2`; there are: 0 ("RoCE"), 1 ("IRN")"#),
        ("run.Irn.pfc=true", r#"--set run.Irn.pfc=true: nothing in `run` is called or numbered `Irn`; there are: 0 ("RoCE"), 1 ("IRN")"#),
        ("run.IRN.bpd_cap=50", r#"--set run.IRN.bpd_cap=50: unknown key `bpd_cap` in run "IRN"; did you mean `bdp_cap`? accepted here: name, transport, set, beside, cc, pfc, header, ack_size, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, hpcc, rogue, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, recovery, timeouts, rto, rto_high, rto_low, rto_low_packets, timer_restart, nacks, bdp_fc, bdp_cap, nic_pipeline, nic_cycle"#),
        ("run.RoCE.rto_low=50us", r#"--set run.RoCE.rto_low=50us: `rto_low` belongs to transport "irn", not to "roce"; accepted here: name, transport, set, beside, cc, pfc, header, ack_size, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, hpcc, rogue, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, timeouts, rto, rto_high, acks, nacks, go_back, bdp_fc, bdp_cap"#),
        (r#"run."IRN.pfc=true"#, r#"--set run."IRN.pfc=true: the path `run."IRN.pfc` has an open quote; write a dotted path, for example `fabric.switch.buffer` or `run."IRN 2.0".bdp_cap`"#),
        ("title.x=1", "--set title.x=1: `title` is a string, so it has no `x`; set `title` itself"),
        ("traffic.0.load=0.5", "--set traffic.0.load=0.5: unknown key `0` in [traffic]; accepted here: pattern, name, warmup, cooldown, start, priority, load, sizes, flows"),
        ("traffic.load=1.5", "--set traffic.load=1.5: `load` is out of range: 1.5; accepted: a fraction of the host links' rate, more than 0 and at most 1"),
        ("run=3", "--set run=3: `run` must be an array of tables, not an integer; write `[[run]]`"),
        (r#"traffic={pattern="incast",senders=9,total="1 MB"}"#, r#"--set traffic={pattern="incast",senders=9,total="1 MB"}: 9 senders do not fit: the fabric has 8 hosts and one receives; accepted: 1 to 7"#),
        (".=1", r#"--set .=1: the path `.` has an empty part; write a dotted path, for example `fabric.switch.buffer` or `run."IRN 2.0".bdp_cap`"#),
        ("fabric.rate=40", r#"--set fabric.rate=40: `rate` needs a unit, 40 has none; write a string with a unit, for example "40 Gbps""#),
        ("seed=0x-1", "--set seed=0x-1: `seed` must be an integer, not a string; write for example `seed = 0`"),
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

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn routes_and_storms() {
    let leaves = "[[fabric.route]]\nat = \"spine0\"\nto = [\"h0\", \"h1\"]\nvia = \"leaf1\"\n";
    let loops = format!("{leaves}[traffic]");
    check(&[
        ("[traffic]", "[[fabric.route]]\nat = \"leaf1\"\nto = \"h0\"\nvia = \"spine1\"\n[traffic]", "accepted"),
        ("[traffic]", "[[fabric.route]]\nat = \"leaf1\"\nto = [\"h0\", \"h2\"]\nvia = \"spine1\"\n[traffic]", "accepted"),
        ("[traffic]", "[[fabric.route]]\nat = \"leaf1\"\nvia = \"spine1\"\n[traffic]",
            "a.toml:12:1: `to` is missing in [[fabric.route]]; write for example `to = \"h1\"`"),
        ("[traffic]", "[[fabric.route]]\nat = \"leaf1\"\nto = []\nvia = \"spine1\"\n[traffic]",
            "a.toml:14:6: `to` names no host; write for example [\"h1\", \"h2\"]"),
        ("[traffic]", "[[fabric.route]]\nat = \"leaf7\"\nto = \"h0\"\nvia = \"spine1\"\n[traffic]",
            "a.toml:12:1: a route names `leaf7`, but no node is called that; a route is { at, to, via }"),
        ("[traffic]", "[[fabric.route]]\nat = \"leaf1\"\nto = \"h0\"\nvia = \"leaf0\"\n[traffic]",
            "a.toml:12:1: a route at `leaf1` goes via `leaf0`, but no link joins the two; name a neighbour"),
        ("[traffic]", &loops,
            "a.toml:12:1: with this route packets to `h0` would circle for ever through leaf1 -> spine0 -> leaf1; let it lead to the host in the end"),
        ("[traffic]", "[[fabric.storm]]\nhost = \"h3\"\nstart = \"0 us\"\nduration = \"1 ms\"\npriority = 0\n[traffic]", "accepted"),
        ("[traffic]", "[[fabric.storm]]\nhost = \"h8\"\nstart = \"1 ms\"\n[traffic]",
            "a.toml:13:8: there is no host \"h8\"; a storm comes from a host's NIC"),
        ("[traffic]", "[[fabric.storm]]\nhost = \"leaf0\"\nstart = \"1 ms\"\n[traffic]",
            "a.toml:13:8: there is no host \"leaf0\"; a storm comes from a host's NIC"),
        ("[traffic]", "[[fabric.storm]]\nhost = \"h3\"\n[traffic]",
            "a.toml:12:1: `start` is missing in [[fabric.storm]]; write for example `start = \"1 ms\"`"),
        ("[traffic]", "[[fabric.storm]]\nhost = \"h3\"\nstart = \"1 ms\"\npriority = 8\n[traffic]",
            "a.toml:15:12: `priority` is out of range: 8; accepted: 0 to 7"),
        ("[traffic]", "[[fabric.storm]]\nhost = \"h3\"\nstart = \"1 ms\"\nduration = \"0 ms\"\n[traffic]",
            "a.toml:15:12: `duration` is zero; write a time of more than zero, for example \"1 ms\""),
    ]);
}

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn faults_watchdogs_and_meshes() {
    const STORM: &str = "[[fabric.storm]]\nhost = \"h3\"\nstart = \"0 us\"\n";
    let nic = format!("{STORM}[fabric.nic_watchdog]\n[traffic]");
    const RECEIVER: &str = "[[fabric.receiver]]\nhosts = [\"h1\"]\npage = \"4 KiB\"\nentries = 2048\nmiss = \"1 us\"\nmemory = \"4 MB\"\nbuffer = \"256 KB\"\n";
    let [receiver, low] = ["", "xoff = \"300 KB\"\n"].map(|more| format!("{RECEIVER}{more}[traffic]"));
    check(&[
        ("[traffic]", "[fabric.watchdog]\ndetection = \"1 ms\"\naction = \"alert\"\nports = \"all\"\n[traffic]", "accepted"),
        ("[traffic]", "[fabric.watchdog]\naction = \"reset\"\n[traffic]",
            "a.toml:13:10: unknown action \"reset\"; available: \"drop\", \"forward\", \"alert\""),
        ("[traffic]", "[fabric.watchdog]\ndetection = \"0 ms\"\n[traffic]",
            "a.toml:13:13: `detection` is zero; write a time of more than zero, for example \"200 ms\""),
        ("[traffic]", &nic, "accepted"),
        ("[traffic]", "[fabric.nic_watchdog]\n[traffic]",
            "a.toml:12:1: `nic_watchdog` changes nothing: no run with `pfc` = true has a [[fabric.storm]]; add a storm to a run with `pfc = true`, or remove `nic_watchdog`"),
        ("[traffic]", "[[fabric.drop]]\nat = \"leaf0\"\nfrom = \"h0\"\nevery = 256\n[traffic]", "accepted"),
        ("[traffic]", "[[fabric.drop]]\nat = \"leaf0\"\nfrom = \"h0\"\nevery = 0\n[traffic]",
            "a.toml:15:9: `every` is out of range: 0; accepted: 1 to 1000000000"),
        ("[traffic]", "[[fabric.dead]]\nhost = \"h9\"\n[traffic]",
            "a.toml:13:8: there is no host \"h9\"; name a host of the topology"),
        ("[traffic]", "[[fabric.dead]]\nhost = \"h0\"\nunknown_mac = \"drop\"\n[traffic]", "accepted"),
        ("[traffic]", &receiver, "accepted"),
        ("[traffic]", &low, "a.toml:19:8: `xoff` of 300 KB is above `buffer` of 256 KB; `xoff` can be at most `buffer`"),
        ("[traffic]", "[[fabric.mesh]]\npairs = 3\ninterval = \"1 ms\"\n[traffic]", "accepted"),
        ("[traffic]", "[[fabric.mesh]]\ninterval = \"1 ms\"\n[traffic]",
            "a.toml:12:1: a mesh needs pairs of hosts; write `pairs = 20` for random pairs, or two lists of hosts: `from = [\"h0\"]`, `to = [\"h1\"]`"),
        ("[traffic]", "[[fabric.mesh]]\nfrom = [\"h0\", \"h1\"]\nto = [\"h2\"]\ninterval = \"1 ms\"\n[traffic]",
            "a.toml:14:6: `from` names 2 hosts, `to` 1; accepted: 1 to 100000 hosts in both"),
        ("[traffic]", "[[fabric.mesh]]\npairs = 3\ninterval = \"1 ms\"\nstack_p99 = \"1 ms\"\n[traffic]",
            "a.toml:15:13: `stack_p99` needs `stack_median`; write both, or neither"),
    ]);
    // A setting without effect is refused: no run has PFC.
    for (key, table) in [("watchdog", "[fabric.watchdog]\n[traffic]"), ("receiver", &receiver)] {
        let text = GOOD.replacen("pfc = true", "pfc = false", 1).replacen("[traffic]", table, 1);
        let error = error_of(&text, &[]);
        let expected = format!("`{key}` changes nothing: no run has `pfc` = true; write `pfc = true` in a run, or remove `{key}`");
        assert!(error.contains(&expected), "{error}");
    }
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
            "a.toml:1:1: unknown key `titel` in the scenario; did you mean `title`? accepted here: title, seed, fabric, traffic, \
             transport, run, limits, sweep, extends, watch",
            "a.toml:2:1: `delay` is missing in [fabric]; write for example `delay = \"2 us\"`",
            "a.toml:4:10: `leaves` is out of range: 0; accepted: 1 to 1000000",
            "a.toml:7:8: `rate` needs a unit, 40 has none; write a string with a unit, for example \"40 Gbps\"",
            "a.toml:13:8: `load` is out of range: 7; accepted: a fraction of the host links' rate, more than 0 and at most 1",
            "a.toml:15:9: `flows` must be an integer, not a string; write for example `flows = 1`",
            "a.toml:16:10: `warmup` is out of range: -1; accepted: 0 to 1000000000",
            "a.toml:20:1: `mtu` is not a key of run \"RoCE\"; write it in [fabric]",
            "a.toml:24:7: `pfc` must be true or false, not an integer; write for example `pfc = true`",
        ],
    );
}

/// Transports beside the run's own.
#[test]
fn beside() {
    const RUN: &str = "name = \"RoCE\"\ntransport = \"roce\"\n";
    let with = |beside: &str| format!("{RUN}[[run.beside]]\n{beside}\n");
    check(&[
        (
            RUN,
            &with("transport = \"tcp\""),
            "a.toml:20:1: `priority` is missing in [[run.beside]]; write for example `priority = 1`",
        ),
        (
            RUN,
            &with("priority = 8\ntransport = \"tcp\""),
            "a.toml:21:12: `priority` is out of range: 8; accepted: 1 to 7",
        ),
        (
            RUN,
            &with("priority = 1\ntransport = \"tcp\""),
            "a.toml:20:1: transport \"tcp\" is for priority 1, and no traffic has it; see \"Several transports in one run\" in docs/reference/scenario.md",
        ),
    ]);
}

#[test]
fn consequences_of_a_mistake_are_not_reported() {
    let unknown = |key: &str, place: &str, meant: &str, keys: &str| {
        format!("a.toml:{place}: unknown key `{key}` in {meant}accepted here: {keys}")
    };
    // `load` is not missing: it is misspelt.
    let keys = "pattern, name, warmup, cooldown, start, priority, load, sizes, flows";
    check_all(&[("load = 0.7", "laod = 0.7")], &[&unknown("laod", "14:1", "[traffic]; did you mean `load`? ", keys)]);
    // The keys of the table depend on the topology, the buffer on the hosts.
    check_all(
        &[("\"leaf-spine\"", "\"leaf-spin\""), ("spines = 2", "k = \"2\""), ("load = 0.7", "load = \"0.7\"")],
        &[
            "a.toml:3:12: unknown topology \"leaf-spin\"; did you mean `leaf-spine`? available: \"fat-tree\", \"leaf-spine\", \
             \"leaf-spine-core\", \"single-switch\", \"dumbbell\", \"graph\"",
            "a.toml:14:8: `load` must be a number, not a string; write for example `load = 0.7`",
        ],
    );
    // Without the topology that is meant, it is not known which keys the table has.
    check_all(
        &[("\"leaf-spine\"", "\"ring\""), ("spines = 2", "spines = \"2\"")],
        &["a.toml:3:12: unknown topology \"ring\"; available: \"fat-tree\", \"leaf-spine\", \"leaf-spine-core\", \
         \"single-switch\", \"dumbbell\", \"graph\""],
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
