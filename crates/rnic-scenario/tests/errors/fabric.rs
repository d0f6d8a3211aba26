//! Fabrics: topologies, switches, links, faults.

use crate::{GOOD, check, error_of};

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn fabrics() {
    check(&[
        (r#"topology = "leaf-spine""#, r#"topology = "leafspine""#,
            r#"a.toml:3:12: unknown topology "leafspine"; did you mean `leaf-spine`? available: "fat-tree", "leaf-spine", "leaf-spine-core", "single-switch", "dumbbell", "dragonfly", "multi-plane", "graph", "file""#),
        (r#"topology = "leaf-spine""#, r#"topology = "ring""#,
            r#"a.toml:3:12: unknown topology "ring"; available: "fat-tree", "leaf-spine", "leaf-spine-core", "single-switch", "dumbbell", "dragonfly", "multi-plane", "graph", "file""#),
        ("topology = \"leaf-spine\"\n", "",
            r#"a.toml:2:1: `topology` is missing in [fabric]; write for example `topology = "fat-tree"`"#),
        ("rate = \"40 Gbps\"\n", "",
            r#"a.toml:2:1: `rate` is missing in [fabric]; write for example `rate = "40 Gbps"`"#),
        ("rate =", "rat =",
            "a.toml:7:1: unknown key `rat` in [fabric]; did you mean `rate`? accepted here: topology, rate, delay, loss, mtu, frame_gap, clock_skew_ppm, clock_jitter, paths, flowlet_gap, switch, link, convergence, local_repair, route, storm, drop, dead, receiver, watchdog, nic_watchdog, mesh, leaves, spines, hosts_per_leaf, uplink_rate, uplink_delay, oversubscription"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\n",
            "a.toml:2:1: `k` is missing in [fabric]; write for example `k = 6`"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\nk = 5\n",
            "a.toml:4:5: `k` is odd: 5; a fat-tree needs an even number, for example 6"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\nk = 0\n",
            "a.toml:4:5: `k` is out of range: 0; accepted: 2 to 64"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\nk = 66\n",
            "a.toml:4:5: `k` is out of range: 66; accepted: 2 to 64"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\nk = 4.0\n",
            "a.toml:4:5: `k` must be an integer, not a decimal number; write `k = 4`"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\nk = 4\nhosts = 16\n",
            r#"a.toml:5:1: `hosts` belongs to topology "single-switch" or "graph", not to "fat-tree"; accepted here: topology, rate, delay, loss, mtu, frame_gap, clock_skew_ppm, clock_jitter, paths, flowlet_gap, switch, link, convergence, local_repair, route, storm, drop, dead, receiver, watchdog, nic_watchdog, mesh, k"#),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"fat-tree\"\nk = 4\nspines = 2\n",
            r#"a.toml:5:1: `spines` belongs to topology "leaf-spine" or "multi-plane", not to "fat-tree"; accepted here: topology, rate, delay, loss, mtu, frame_gap, clock_skew_ppm, clock_jitter, paths, flowlet_gap, switch, link, convergence, local_repair, route, storm, drop, dead, receiver, watchdog, nic_watchdog, mesh, k"#),
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
            "a.toml:9:25: `core_oversubscription` is out of range: -1; accepted: more than 0, for example 2.0"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"leaf-spine-core\"\npods = 2\nleaves_per_pod = 2\nspines_per_pod = 2\ncores_per_plane = 2\nhosts_per_leaf = 2\nspines = 2\n",
            r#"a.toml:9:1: `spines` belongs to topology "leaf-spine" or "multi-plane", not to "leaf-spine-core"; accepted here: topology, rate, delay, loss, mtu, frame_gap, clock_skew_ppm, clock_jitter, paths, flowlet_gap, switch, link, convergence, local_repair, route, storm, drop, dead, receiver, watchdog, nic_watchdog, mesh, pods, leaves_per_pod, spines_per_pod, cores_per_plane, hosts_per_leaf, uplink_rate, uplink_delay, oversubscription, core_rate, core_delay, core_oversubscription"#),
        ("spines = 2", "spines = 2\noversubscription = 0",
            "a.toml:6:20: `oversubscription` is out of range: 0; accepted: more than 0, for example 2.0"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"multi-plane\"\nplanes = 1\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n",
            "a.toml:4:10: `planes` is out of range: 1; accepted: 2 to 64"),
        ("topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n", "topology = \"dragonfly\"\ngroups = 10\nrouters_per_group = 4\nglobal_links = 2\nhosts_per_router = 2\n",
            "a.toml:4:10: 10 groups of 4 routers with 2 global links each do not fit; accepted: 3 to 9 groups"),
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
            r#"a.toml:11:22: `buffers` needs a unit, 1 has none; write a string with a unit, for example "4 KB""#),
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
            r#"a.toml:8:9: unknown paths "sprayed"; did you mean `spray`? available: "ecmp", "spray", "adaptive", "flowlet""#),
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
            "a.toml:11:16: `egress_alpha` is out of range: 0; accepted: more than 0, at most 1000000, for example 8"),
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
            "a.toml:12:8: `loss` is out of range: 2; accepted: at least 0, less than 1, for example 0.001"),
        ("[fabric.switch]", "[[fabric.link]]\nfrom = \"h0\"\nto = \"leaf0\"\ncolour = \"red\"\n[fabric.switch]",
            "a.toml:12:1: unknown key `colour` in [[fabric.link]]; accepted here: from, to, rate, delay, loss, down, down_at, up_at, flap_every, slow_rate, slow_at, slow_until, slow_one_way, slow_queues"),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"c\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s1\"\n",
            r#"a.toml:4:9: the host "c" cannot be reached from "a"; add a [[fabric.link]] that joins their switches"#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"c\"]\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s1\"\n",
            "a.toml:2:1: `switches` is missing in [fabric]; write for example `switches = 2`"),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"a\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s1\"\n",
            r#"a.toml:4:9: two nodes are called "a"; give each its own name"#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [\"a\", \"b\", \"\"]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s1\"\n",
            r#"a.toml:4:20: a node's name is a string of one line that is not empty; for example "h0""#),
        ("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n", "[fabric]\ntopology = \"graph\"\nhosts = [1, 2]\nswitches = 2\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n[[fabric.link]]\nfrom = \"a\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"b\"\nto = \"s0\"\n[[fabric.link]]\nfrom = \"c\"\nto = \"s1\"\n",
            r#"a.toml:4:10: a node's name is a string of one line that is not empty; for example "h0""#),
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
fn routes_and_storms() {
    let leaves = "[[fabric.route]]\nat = \"spine0\"\nto = [\"h0\", \"h1\"]\nvia = \"leaf1\"\n";
    let loops = format!("{leaves}[traffic]");
    check(&[
        ("[traffic]", "[[fabric.route]]\nat = \"leaf1\"\nto = \"h0\"\nvia = \"spine1\"\n[traffic]", "accepted"),
        ("[traffic]", "[[fabric.route]]\nat = \"leaf1\"\nto = [\"h0\", \"h2\"]\nvia = \"spine1\"\n[traffic]", "accepted"),
        ("[traffic]", "[[fabric.route]]\nat = \"leaf1\"\nto = \"h0-h3\"\nvia = \"spine1\"\n[traffic]", "accepted"),
        ("[traffic]", "[[fabric.route]]\nat = \"leaf1\"\nto = [\"h0-h1\", \"h3\"]\nvia = \"spine1\"\n[traffic]", "accepted"),
        ("[traffic]", "[[fabric.route]]\nat = \"leaf1\"\nto = \"h3-h0\"\nvia = \"spine1\"\n[traffic]",
            "a.toml:14:6: \"h3-h0\" is not a range of hosts; a range is two hosts of the same kind, the lower number first, for example \"h24-h95\""),
        ("[traffic]", "[[fabric.route]]\nat = \"leaf1\"\nto = [\"h0\", \"h6-h9\"]\nvia = \"spine1\"\n[traffic]",
            "a.toml:14:13: there is no host \"h9\"; name a host of the topology"),
        ("[traffic]", "[[fabric.route]]\nat = \"leaf1\"\nto = \"h0-h4000000000\"\nvia = \"spine1\"\n[traffic]",
            "a.toml:14:6: \"h0-h4000000000\" stands for more hosts than the 8 of the fabric; a range is for example \"h24-h95\""),
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

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn faults_of_links() {
    let check = |keys: &str, expected: &str| {
        let link = format!("[[fabric.link]]\nfrom = \"leaf0\"\nto = \"spine0\"\n{keys}\n[fabric.switch]");
        assert_eq!(error_of(&GOOD.replace("[fabric.switch]", &link), &[]), expected, "{keys}");
    };
    check("down = true\ndown_at = \"1 ms\"", "a.toml:13:11: `down_at` of a link that is always down; remove it or `down`");
    check("up_at = \"1 ms\"", "a.toml:12:9: `up_at` without `down_at`; add `down_at`, the time at which the link fails");
    check("down_at = \"2 ms\"\nup_at = \"2 ms\"",
        "a.toml:13:9: `up_at` is out of range: 2 ms; accepted: later than `down_at`, 2 ms");
    check("down_at = \"2 ms\"\nflap_every = \"3 ms\"",
        "a.toml:13:14: `flap_every` without `up_at`; a link that flaps returns: add `up_at`");
    check("down_at = \"2 ms\"\nup_at = \"5 ms\"\nflap_every = \"3 ms\"",
        "a.toml:14:14: `flap_every` is out of range: 3 ms; accepted: more than 3 ms, the time from `down_at` to `up_at`");
    check("slow_until = \"2 ms\"",
        "a.toml:12:14: `slow_until` without `slow_rate`; add `slow_rate`, the rate in this time");
    check("slow_queues = true",
        "a.toml:12:15: `slow_queues` without `slow_rate`; add `slow_rate`, the rate in this time");
    check("slow_rate = \"2 Gbps\"\nslow_at = \"3 ms\"\nslow_until = \"2 ms\"",
        "a.toml:14:14: `slow_until` is out of range: 2 ms; accepted: later than `slow_at`, 3 ms");
    assert_eq!(error_of(&GOOD.replace("[fabric.switch]", "convergence = \"1 ms\"\n[fabric.switch]"), &[]),
        "a.toml:9:15: `convergence` has no effect: no link has a fault; give a [[fabric.link]] `down`, `down_at` or `slow_rate`, or remove the key");
    let both = "convergence = \"1 ms\"\nlocal_repair = \"2 ms\"\nlink = [{ from = \"leaf0\", to = \"spine0\", down = true }]\n[fabric.switch]";
    assert_eq!(error_of(&GOOD.replace("[fabric.switch]", both), &[]),
        "a.toml:10:16: `local_repair` of 2 ms is above `convergence` of 1 ms; `local_repair` can be at most `convergence`");
}
