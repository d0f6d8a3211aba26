//! Traffic and runs: transports, congestion controls, variants.

use crate::{GOOD, check};
use rnic_scenario::{Origin, read_with};
use rnic_spec::{RunSpec, Vocabulary};

#[test]
#[rustfmt::skip] // a table: two lines for each case
fn locality_arrivals_and_receivers() {
    check(&[
        ("flows = 100", "flows = 100\nlocality = 1.5",
            "a.toml:17:12: `locality` is out of range: 1.5; accepted: 0 to 1"),
        ("flows = 100", "flows = 100\nlocality = 0.7\npod_locality = 0.4",
            "a.toml:18:16: `locality` and `pod_locality` are 1.1 together; accepted: at most 1; all other flows leave the pod"),
        ("flows = 100", "flows = 100\narrivals = \"lognormal\"",
            r#"a.toml:17:12: unknown arrivals "lognormal"; did you mean `log-normal`? available: "poisson", "log-normal", "on-off""#),
        ("flows = 100", "flows = 100\narrivals = \"log-normal\"",
            r#"a.toml:17:12: `arrivals` = "log-normal" needs `cv`; add the coefficient of variation of the times between flows, for example `cv = 2.0`"#),
        ("flows = 100", "flows = 100\ncv = 2",
            r#"a.toml:17:6: `cv` has no meaning where `arrivals` is "poisson"; set `arrivals` to "log-normal" or "on-off", or remove `cv`"#),
        ("flows = 100", "flows = 100\narrivals = \"log-normal\"\ncv = 2\non_share = 0.5",
            r#"a.toml:19:12: `on_share` has no meaning where `arrivals` is "log-normal"; set `arrivals` to "on-off", or remove `on_share`"#),
        ("flows = 100", "flows = 100\narrivals = \"on-off\"\ncv = 1.0",
            r#"a.toml:18:6: an on-off process cannot have a `cv` of 1; accepted: 1.1 to 100; "log-normal" has any"#),
        ("flows = 100", "flows = 100\narrivals = \"on-off\"\ncv = 2.0\non_share = 1",
            "a.toml:19:12: `on_share` is out of range: 1; accepted: 0.01 to 0.99"),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"incast\"\nsenders = 2\ntotal = \"1 MB\"\nreceiver = \"all\"",
            r#"a.toml:16:12: unknown receiver "all"; available: "round-robin", "random""#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"incast\"\nsenders = 2\ntotal = \"1 MB\"\nreceiver = 8",
            "a.toml:16:12: `receiver` is out of range: 8; accepted: 0 to 7"),
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
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"1 MB\"\nranks = 9",
            r#"a.toml:16:9: `ranks` is out of range: 9; accepted: 2 to 8"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"1 MB\"\ngroup = 3",
            r#"a.toml:12:1: groups of 3 do not divide 8 ranks; accepted: a divisor of the ranks, at least 2; see docs/concepts/collectives.md"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"1 MB\"\nalgorithm = \"direct\"",
            r#"a.toml:12:1: the algorithm "direct" does not exist for "all-reduce"; accepted: "ring", "tree", "halving-doubling", "hierarchical", "nvls"; see docs/concepts/collectives.md"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"1 MB\"\nalgorithm = \"halving-doubling\"\nchunk = \"1 KB\"",
            r#"a.toml:17:9: `chunk` has no effect on "all-reduce" with the algorithm "halving-doubling"; remove `chunk`"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"1 MB\"\noutstanding = 2",
            r#"a.toml:16:15: `outstanding` has no effect on "all-reduce" with the algorithm "ring"; remove `outstanding`"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"1 MB\"\ngrouping = \"strided\"",
            r#"a.toml:16:12: `grouping` has no effect on one group; set `group`, or remove `grouping`"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"1 MB\"\nsizes = \"fixed 1 MB\"",
            r#"a.toml:16:1: `sizes` belongs to pattern "poisson" or "permutation" or "all-to-all" or "pairs", not to "collective"; accepted here: pattern, name, warmup, cooldown, start, priority, repeats, operation, algorithm, size, ranks, group, grouping, placement, placement_file, matrix, skew, channels, chunk, outstanding, accelerators, server_file, domain_rate, domain_latency, straggler, straggler_delay, compute, reaction"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"outside\"\nstart = \"1 us\"",
            r#"a.toml:14:9: `start` has no meaning where another program submits the flows; let the program decide, or remove `start`"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"outside\"\nlargest = \"0 B\"",
            r#"a.toml:14:11: `largest` is out of range: 0 B; accepted: 1 B to 1000000 GB"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"training\"\nmodel = \"llama2-7b\"\ntensor = 3",
            r#"a.toml:12:1: tensor = 3 does not divide the number of heads (32); accepted: a divisor of 32; see docs/concepts/training.md"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"training\"\nmodel = \"llama2-7b\"\npipeline = 5",
            r#"a.toml:12:1: pipeline = 5 does not divide the number of layers (32); accepted: a divisor of 32; see docs/concepts/training.md"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"training\"\nmodel = \"llama2-7b\"\ntensor = 16",
            r#"a.toml:12:1: tensor x pipeline = 16 does not divide 8 ranks; accepted: a product that divides 8; see docs/concepts/training.md"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"training\"\nmodel = \"llama2-7b\"\nexpert = 2",
            r#"a.toml:12:1: expert = 2 does not divide the number of experts (1); accepted: a divisor of 1; see docs/concepts/training.md"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"training\"\nmodel = \"llama2-7b\"\nschedule = \"gpipe\"",
            r#"a.toml:15:12: `schedule` has no effect on a pipeline of one stage; remove `schedule`"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"training\"\nmodel = \"llama2-7b\"\nwarmup_steps = 1",
            r#"a.toml:12:1: warmup_steps = 1 leaves none of 1 steps to measure; accepted: fewer than the steps; see docs/concepts/training.md"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"inference\"\nmodel = \"llama2-7b\"\nrequests = 1\nprompt = 1\noutput = 2\nprefill = 8",
            r#"a.toml:12:1: prefill = 8 leaves none of 8 instances to generate tokens; accepted: at most 7; see docs/concepts/inference.md"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"inference\"\nmodel = \"llama2-7b\"\nrequests = 1\nprompt = 1\noutput = 2\nkv_parts = 8",
            r#"a.toml:18:12: `kv_parts` has no effect without `prefill`; remove `kv_parts`"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"inference\"\nmodel = \"llama2-7b\"\nrequests = 1\nprompt = 1\noutput = 2\nwarmup = 1",
            r#"a.toml:18:10: `warmup` has no meaning for an inference; remove `warmup`"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"1 MB\"\nskew = 1.0",
            r#"a.toml:16:8: `skew` has no effect on "all-reduce"; remove `skew`"#),
        ("pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 100", "pattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"1 MB\"\nplacement_file = \"ranks.csv\"",
            r#"a.toml:16:18: `placement_file` has no effect on this placement; set `placement = "file"`, or remove `placement_file`"#),
        (r#"pattern = "poisson""#, r#"pattern = "Poison""#,
            r#"a.toml:13:11: unknown pattern "Poison"; did you mean `poisson`? available: "poisson", "incast", "permutation", "all-to-all", "pairs", "list", "collective", "training", "inference", "trace", "outside""#),
        ("pattern = \"poisson\"\n", "",
            r#"a.toml:12:1: `pattern` is missing in [traffic]; write for example `pattern = "poisson"`"#),
        ("load = 0.7", "load = 1.2",
            "a.toml:14:8: `load` is out of range: 1.2; accepted: more than 0, at most 1, for example 0.7"),
        ("load = 0.7", "load = 0",
            "a.toml:14:8: `load` is out of range: 0; accepted: more than 0, at most 1, for example 0.7"),
        ("load = 0.7", r#"load = "70 %""#,
            "a.toml:14:8: `load` must be a number, not a string; write for example `load = 0.7`"),
        ("load = 0.7", "load = 0.7\nsenders = 3",
            r#"a.toml:15:1: `senders` belongs to pattern "incast", not to "poisson"; accepted here: pattern, name, warmup, cooldown, start, priority, load, sizes, flows, locality, pod_locality, arrivals, cv, on_share"#),
        ("flows = 100", "flows = 100\nwarmup = 100",
            "a.toml:17:10: a `warmup` of 100 leaves none of the 100 flows to measure; together they must be fewer than the flows"),
        ("flows = 100", "flows = 100\nwarmup = 60\ncooldown = 40",
            "a.toml:17:10: `warmup` and `cooldown` of 100 leave none of the 100 flows to measure; together they must be fewer than the flows"),
        ("flows = 100", "flows = 0",
            "a.toml:16:9: `flows` is out of range: 0; accepted: 1 to 1000000000"),
        ("flows = 100", "flows = 100\nwarmpu = 10",
            "a.toml:17:1: unknown key `warmpu` in [traffic]; did you mean `warmup`? accepted here: pattern, name, warmup, cooldown, start, priority, load, sizes, flows, locality, pod_locality, arrivals, cv, on_share"),
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
            r#"a.toml:15:10: unknown format "xml"; available: "csv", "hpcc", "htsim", "goal", "chakra""#),
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
            r#"a.toml:22:13: unknown transport "inr"; did you mean `irn`? available: "roce", "irn", "iwarp", "tcp", "uet", "ndp", "homa", "homa-tr", "hpcc", "rogue", "multipath", "p4:FILE""#),
        (r#"transport = "irn""#, r#"transport = "quic""#,
            r#"a.toml:22:13: unknown transport "quic"; available: "roce", "irn", "iwarp", "tcp", "uet", "ndp", "homa", "homa-tr", "hpcc", "rogue", "multipath", "p4:FILE""#),
        (r#"transport = "irn""#, "transport = \"irn\"\ncc = \"dcqnc\"",
            r#"a.toml:23:6: unknown cc "dcqnc"; did you mean `dcqcn`? available: "none", "dcqcn", "timely", "patched-timely", "dctcp", "aimd", "cubic", "swift", "nscc", "rccc", "hpcc", "rogue""#),
        (r#"transport = "irn""#, "transport = \"irn\"\npfc = \"yes\"",
            "a.toml:23:7: `pfc` must be true or false, not a string; write for example `pfc = true`"),
        (r#"transport = "irn""#, "transport = \"irn\"\nbpd_cap = 50",
            r#"a.toml:23:1: unknown key `bpd_cap` in run "IRN"; did you mean `bdp_cap`? accepted here: name, transport, set, beside, cc, pfc, header, ack_size, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, nscc, rccc, hpcc, rogue, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, recovery, timeouts, rto, rto_high, rto_low, rto_low_packets, timer_restart, nacks, bdp_fc, bdp_cap, bdp_delay, nic_pipeline, nic_cycle, path_selection, paths, reorder_tolerance, reps_freeze"#),
        (r#"transport = "irn""#, "transport = \"irn\"\nbdp_cap = 0",
            "a.toml:23:11: `bdp_cap` is out of range: 0; accepted: 1 to 8388607"),
        (r#"transport = "irn""#, "transport = \"irn\"\nacks = true",
            r#"a.toml:23:1: `acks` belongs to transport "roce", not to "irn"; accepted here: name, transport, set, beside, cc, pfc, header, ack_size, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, nscc, rccc, hpcc, rogue, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, recovery, timeouts, rto, rto_high, rto_low, rto_low_packets, timer_restart, nacks, bdp_fc, bdp_cap, bdp_delay, nic_pipeline, nic_cycle, path_selection, paths, reorder_tolerance, reps_freeze"#),
        (r#"transport = "roce""#, "transport = \"roce\"\nrto_low = \"50 us\"",
            r#"a.toml:20:1: `rto_low` belongs to transport "irn", not to "roce"; accepted here: name, transport, set, beside, cc, pfc, header, ack_size, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, nscc, rccc, hpcc, rogue, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, timeouts, rto, rto_high, acks, nacks, go_back, bdp_fc, bdp_cap, path_selection, paths, reorder_tolerance, reps_freeze"#),
        (r#"transport = "irn""#, "transport = \"irn\"\nrto_low = \"400 us\"\nrto_high = \"320 us\"",
            "a.toml:24:12: `rto_low` of 400 us is above `rto_high` of 320 us; `rto_low` can be at most `rto_high`"),
        (r#"transport = "irn""#, "transport = \"irn\"\nmax_rate = \"0 Gbps\"",
            "a.toml:23:12: `max_rate` is out of range: 0 bps; accepted: more than zero, at most 10 Tbps"),
        ("[traffic]", "[transport]\nrto_low = \"100 us\"\nrto_high = \"90 us\"\n[traffic]",
            "a.toml:14:12: `rto_low` of 100 us is above `rto_high` of 90 us; `rto_low` can be at most `rto_high`"),
        (r#"transport = "irn""#, "transport = \"irn\"\nrto_low = \"400 us\"\n[transport]\nrto_high = \"320 us\"",
            "a.toml:23:11: `rto_low` of 400 us is above `rto_high` of 320 us; `rto_low` can be at most `rto_high`"),
        ("[traffic]", "[transport]\nrto_lo = \"100 us\"\n[traffic]",
            "a.toml:13:1: unknown key `rto_lo` in [transport]; did you mean `rto_low`? accepted here: cc, pfc, header, ack_size, timeouts, rto, rto_high, acks, nacks, go_back, bdp_fc, bdp_cap, path_selection, paths, reorder_tolerance, reps_freeze, recovery, rto_low, rto_low_packets, timer_restart, bdp_delay, nic_pipeline, nic_cycle, rto_initial, rto_max, initial_window, receive_window, delayed_acks, delayed_ack_timeout, handshake, send_latency, receive_latency, wake_latency, message_cost, send_cost, receive_cost, cores, psn_range, ack_every, last_hop_trims, probe_after, paced_nacks, pull_rate, unscheduled_priorities, scheduled_priorities, overcommitment, retransmit_on_grant, eta, max_stage, w_ai, chunk_cost, chunk, service, operation, signal_every, min_rate, nic_timeout, retry_count, sync_interval, max_recoveries, path_choice, nic_marks, nic_trim, spread, credit, credit_rate, unsolicited, path_timeout, loss_tolerance, path_probes, max_attempts, constants, rto_min, nack_size, cnp_size, control_priority, nic_burst, max_rate, rtt_packets, max_timeouts, rx_timeout, timer_granularity, probe, send_order, tx_buffers, rx_buffers, max_window, receives, small_channel, patience, doorbell, dma, completion, rate_granularity, timestamp_granularity, post_cost, poll_cost, dcqcn, timely, patched-timely, dctcp, aimd, cubic, swift, nscc, rccc, hpcc, rogue"),
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
            r#"a.toml:24:7: unknown key `gain` in `dcqcn`; accepted here: profile, g, rate_timer, byte_counter, fast_recovery, cnp_interval, nic_cnp_interval, alpha_timer, r_ai, r_hai, min_rate, alpha_first, loss_backoff, initial_alpha, alpha_updates, rate_decrease_interval, clamp_target_rate, hyper_increase, hyper_growth"#),
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
            r#"a.toml:13:8: `pmax` is out of range: 1.5; accepted: 0 to 1"#),
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
            r#"a.toml:23:9: `set` of run "IRN" cannot change `run`; a path in `set` begins with one of fabric, traffic, transport, limits, watch, fidelity, fidelity_quantum, fast_forward"#),
        (r#"transport = "irn""#, "transport = \"irn\"\nset = { seed = 3 }",
            r#"a.toml:23:9: `set` of run "IRN" cannot change `seed`; a path in `set` begins with one of fabric, traffic, transport, limits, watch, fidelity, fidelity_quantum, fast_forward"#),
    ]);
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

/// A reader without a P4 compiler refuses transports in P4, in scenarios and in documents.
#[test]
fn a_program_in_p4_needs_the_compiler() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.p4"), "").unwrap();
    let text = GOOD.replace("transport = \"irn\"", "transport = \"p4:a.p4\"");
    let read = |vocabulary: &Vocabulary| {
        let origin = Origin::Text { text: &text, name: "a.toml", folder: folder.path() };
        read_with(vocabulary, &origin, &[], None)
    };
    let remedy = "build rnic with the cargo feature `p4`, which is on by default";
    assert_eq!(
        read(&Vocabulary::standard()).unwrap_err().to_string(),
        format!("a.toml:22:13: transport \"p4:a.p4\" needs the P4 compiler, which this build does not have; {remedy}")
    );
    let annotated = Vocabulary::standard().with_p4(|_, _| Ok(vec![("priorities".to_string(), "3".to_string())]));
    let run = read(&annotated).unwrap().runs.remove(1);
    assert_eq!(run.transport.priorities(), Some(3));
    let document = run.to_json(false).unwrap();
    assert_eq!(RunSpec::from_json(&document, &annotated), Ok(run));
    assert_eq!(
        RunSpec::from_json(&document, &Vocabulary::standard()).unwrap_err().to_string(),
        format!("the P4 program `a.p4` needs the P4 compiler, which this build does not have; {remedy}")
    );
    let refused = Vocabulary::standard().with_p4(|_, _| Ok(vec![("order".to_string(), "\"lifo\"".to_string())]));
    let accepted = "accepted: @order(\"round-robin\"), @order(\"shortest-first\")";
    let annotation = format!("the P4 program `a.p4` has the annotation @order(\"lifo\"); {accepted}");
    assert_eq!(read(&refused).unwrap_err().to_string(), format!("a.toml:22:13: {annotation}"));
    assert_eq!(RunSpec::from_json(&document, &refused).unwrap_err().to_string(), annotation);
}
