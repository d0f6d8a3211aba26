//! Simulated runs of transports in host software: RoGUE and multipath above simulated RDMA NICs.

use crate::common::{failure, fct, outputs, scenario};
use rnic_fabric::{PartitionPlan, Topology};
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_sim::run::{Sharing, simulate_run_shared};
use rnic_spec::{RunOutput, RunStatus};

const BOTH: [&str; 2] = ["rogue", "multipath"];

const TREE: &str = r#"
[fabric]
topology = "fat-tree"
k = 4
rate = "40 Gbps"
delay = "1 us"
mtu = "1024 B"
"#;
const STAR: &str = r#"
[fabric]
topology = "single-switch"
hosts = 3
rate = "10 Gbps"
delay = "1 us"
mtu = "1024 B"
"#;

/// Checks that all messages have arrived, and that every packet is accounted for (otherwise the run would have failed).
fn check(output: &RunOutput, what: &str) {
    assert_eq!(output.status, RunStatus::Completed, "{what}");
    assert!(!output.flows.is_empty(), "{what}");
    assert!(output.flows.iter().all(|flow| flow.finish.is_some() && flow.delivered == flow.bytes), "{what}");
    let t = &output.totals;
    assert_eq!(t.data + t.control, t.delivered + t.dropped + t.lost + t.in_flight, "{what}");
    assert_eq!(t.aborted, 0, "{what}");
}

/// The number in the warning that contains `what`; 0 without such a warning.
fn warned(output: &RunOutput, what: &str) -> u64 {
    let warning = output.warnings.iter().find(|warning| warning.contains(what));
    warning.and_then(|warning| warning.split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Making a chunk takes the software 55 ns and posting it 100 ns, a message's doorbell takes 200 ns, the NIC's reads
/// take 700 ns, and the receiver's software sees the completion after 400 ns. A frame has 62 bytes of headers and 20
/// bytes of gap, and a byte takes 0.8 ns. The first packet of a message has a RETH of 16 bytes besides, and the last 4
/// bytes of immediate data.
#[test]
fn a_lone_message_takes_what_its_bytes_and_the_bus_take() {
    let time = |payload: u64| (payload + 82) * 800;
    let bus = 155_000 + 900_000 + 400_000;
    // The switch stores and forwards: the first packet crosses the first link, then all packets the second.
    let cases: [(u64, u64); 4] = [
        (1_000, 2 * time(1_020)),
        (1_024, 2 * time(1_044)),
        (60_000, 2 * time(1_040) + 57 * time(1_024) + time(612)),
        (65_536, 2 * time(1_040) + 62 * time(1_024) + time(1_028)),
    ];
    for (bytes, on_links) in cases {
        let traffic = format!("pattern = \"incast\"\nsenders = 1\ntotal = \"{bytes} B\"\nreceiver = 1");
        let scenario = scenario(&format!("{STAR}\n[traffic]\n{traffic}"), &["rogue"], "").unwrap();
        let output = &outputs(&scenario, 1)[0];
        check(output, &traffic);
        assert_eq!(fct(&output.flows.get(0).unwrap()), bus + on_links + 2_000_000, "{bytes} bytes");
        assert_eq!(output.totals.data, bytes.div_ceil(1_024));
    }
}

/// The latencies are settings.
#[test]
fn the_latencies_of_the_bus_count_once_for_each_message() {
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 1\ntotal = \"1000 B\"\nreceiver = 1";
    let of = |keys: &str| {
        let keys = format!("{keys}\nchunk_cost = \"0 ns\"\npost_cost = \"0 ns\"\npoll_cost = \"0 ns\"");
        let scenario = scenario(&format!("{STAR}\n{traffic}"), &["rogue"], &keys).unwrap();
        fct(&outputs(&scenario, 1)[0].flows.get(0).unwrap())
    };
    let none = of("doorbell = \"0 ns\"\ndma = \"0 ns\"\ncompletion = \"0 ns\"");
    assert_eq!(none, 2 * 881_600 + 2_000_000);
    assert_eq!(of("doorbell = \"3 us\"\ndma = \"0 ns\"\ncompletion = \"0 ns\""), none + 3_000_000);
    assert_eq!(of("doorbell = \"0 ns\"\ndma = \"0 ns\"\ncompletion = \"5 us\""), none + 5_000_000);
}

#[test]
fn both_transports_in_every_pattern() {
    for traffic in [
        "pattern = \"poisson\"\nload = 0.6\nsizes = \"irn-heavy-tailed\"\nflows = 100",
        "pattern = \"incast\"\nsenders = 12\ntotal = \"1500 KB\"\nrepeats = 2\ninterval = \"completion\"",
        "pattern = \"permutation\"\nsizes = \"uniform 1 B - 200 KB\"\nrepeats = 2\ninterval = \"50 us\"",
        "pattern = \"all-to-all\"\nsizes = \"fixed 9 KB\"\nrepeats = 1\ninterval = \"50 us\"",
        "pattern = \"pairs\"\npairs = 20\nsizes = \"fixed 30 KB\"\nmessages = 3",
    ] {
        let uc = scenario(&format!("{TREE}\n[traffic]\n{traffic}"), &["rogue"], "service = \"uc\"").unwrap();
        check(&outputs(&uc, 2)[0], &format!("rogue over UC: {traffic}"));
        for keys in ["", "pfc = true"] {
            let scenario = scenario(&format!("{TREE}\n[traffic]\n{traffic}"), &BOTH, keys).unwrap();
            for (output, name) in outputs(&scenario, 2).iter().zip(BOTH) {
                check(output, &format!("{name}: {traffic} {keys}"));
                assert!(keys.is_empty() || output.totals.dropped == 0);
            }
        }
    }
}

/// With credit, receivers grant what their links can take.
#[test]
fn credit_keeps_the_queue_of_an_incast_short() {
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 12\ntotal = \"6 MB\"\nrepeats = 1\nreceiver = 15";
    let fabric = format!("{TREE}\nswitch = {{ queueing = \"shared\", buffer = \"20 MB\" }}\n{traffic}");
    let queue = |keys: &str| {
        let scenario = scenario(&fabric, &["multipath"], &format!("paths = 4\ncc = \"none\"\n{keys}")).unwrap();
        let output = outputs(&scenario, 1).remove(0);
        check(&output, keys);
        output.ports.iter().flat_map(|port| &port.priorities).map(|p| p.queue_high_water).max().unwrap()
    };
    let (without, with) = (queue(""), queue("credit = true\nunsolicited = \"33 KB\""));
    // What twelve senders send without credit, and one chunk that was granted, in packets of 1,024 bytes of payload.
    let bound = (12 * 33_000 + 32_768) * (1_024 + 82) / 1_024;
    assert!(with < bound && with * 3 < without, "{with} bytes with credit, {without} without; bound {bound}");
}

/// Credit at exactly the rate of the receiver's link keeps the queue that unsolicited bytes have built; at a lower rate
/// the queue drains.
#[test]
fn the_queue_of_an_incast_drains_with_less_credit() {
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 12\ntotal = \"24 MB\"\nrepeats = 1\nreceiver = 15";
    let watch = "[watch]\ninterval = \"20 us\"\nqueues = [\"edge7:h15\"]";
    let fabric = format!("{TREE}\nswitch = {{ queueing = \"shared\", buffer = \"20 MB\" }}\n{traffic}\n{watch}");
    let queue = |keys: &str| {
        let keys = format!("paths = 4\ncc = \"none\"\ncredit = true\n{keys}");
        let scenario = scenario(&fabric, &["multipath"], &keys).unwrap();
        let output = outputs(&scenario, 1).remove(0);
        check(&output, &keys);
        let queue = output.samples.as_ref().unwrap().queues[0].bytes.clone();
        (queue, output.end)
    };
    let (standing, end) = queue("");
    let (one, _) = queue("credit_rate = 1.0");
    assert_eq!(standing, one, "1 is the default");
    let (drained, later) = queue("credit_rate = 0.9");
    // After two thirds of the incast.
    let at = |queue: &[u32]| queue[queue.len() * 2 / 3];
    assert!(at(&standing) > 200_000 && at(&drained) * 4 < at(&standing), "{} {}", at(&standing), at(&drained));
    assert!(later > end, "less credit takes longer: {end} {later}");
}

/// Without retries of the NIC, each tail loss fails a queue pair. RoGUE survives it, and each message arrives once.
#[test]
fn rogue_survives_losses_beyond_the_retries_of_the_nic() {
    let traffic =
        "[traffic]\npattern = \"permutation\"\nsizes = \"uniform 1 B - 300 KB\"\nrepeats = 40\ninterval = \"1 ms\"";
    let keys = "retry_count = 0\nnic_timeout = 9";
    let scenario = scenario(&format!("{STAR}\nloss = 0.01\n{traffic}"), &["rogue"], keys).unwrap();
    let output = &outputs(&scenario, 1)[0];
    check(output, "rogue");
    assert!(output.totals.lost > 0);
    assert!(warned(output, "recoveries of channels") > 5, "{:?}", output.warnings);
    assert!(warned(output, "failures of queue pairs") > 5, "{:?}", output.warnings);
}

/// Over UC the layer itself recovers every loss, and each message arrives once; no queue pair fails.
#[test]
fn rogue_over_uc_survives_losses() {
    let traffic =
        "[traffic]\npattern = \"permutation\"\nsizes = \"uniform 1 B - 300 KB\"\nrepeats = 40\ninterval = \"1 ms\"";
    let scenario = scenario(&format!("{STAR}\nloss = 0.002\n{traffic}"), &["rogue"], "service = \"uc\"").unwrap();
    let output = &outputs(&scenario, 1)[0];
    check(output, "rogue over UC");
    assert!(output.totals.lost > 5 && output.totals.retransmitted > 0, "{:?}", output.totals);
    assert!(warned(output, "recoveries of channels") > 5, "{:?}", output.warnings);
    assert_eq!(warned(output, "failures of queue pairs"), 0, "{:?}", output.warnings);
}

/// A Read is a flow, too: its receiver's software does all the work, the sender's NIC serves the data.
#[test]
fn flows_may_be_reads() {
    let traffic = "[traffic]\npattern = \"poisson\"\nload = 0.6\nsizes = \"irn-heavy-tailed\"\nflows = 100";
    let scenario = scenario(&format!("{TREE}\n{traffic}"), &["rogue"], "operation = \"read\"").unwrap();
    let output = &outputs(&scenario, 2)[0];
    check(output, "reads");
    assert!(output.totals.cpu_send_ps == 0 && output.totals.cpu_receive_ps > 0, "{:?}", output.totals);
}

/// 200 messages of 1,000 bytes cost 155 ns each to post. With one completion for 64 KB the software polls four
/// completions of 50 ns (of 66, 66 and 66 messages, and of an empty Write behind the last two, which costs 155 ns more)
/// instead of 200.
#[test]
fn one_completion_for_many_messages_saves_cpu() {
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 1\nconnections = 200\ntotal = \"200 KB\"\nreceiver = 2";
    let cpu = |keys: &str| {
        let keys = format!("receives = 512\n{keys}");
        let scenario = scenario(&format!("{STAR}\n{traffic}"), &["rogue"], &keys).unwrap();
        let output = outputs(&scenario, 1).remove(0);
        check(&output, &keys);
        output.totals.cpu_send_ps
    };
    assert_eq!(cpu("") - cpu("signal_every = \"65536 B\""), 196 * 50_000 - 155_000);
}

#[test]
fn multipath_survives_losses() {
    let traffic =
        "[traffic]\npattern = \"permutation\"\nsizes = \"uniform 1 B - 300 KB\"\nrepeats = 20\ninterval = \"1 ms\"";
    let scenario = scenario(&format!("{STAR}\nloss = 0.01\n{traffic}"), &["multipath"], "paths = 8").unwrap();
    let output = &outputs(&scenario, 1)[0];
    check(output, "multipath");
    assert!(output.totals.lost > 0 && output.totals.retransmitted > 0);
}

/// Without congestion control, senders lose most of their packets to each other in a buffer that is hardly longer than
/// a chunk. No channel ends: a chunk that is lost repeatedly is transmitted alone, and RoGUE's NIC goes back.
#[test]
fn senders_without_congestion_control_survive_a_small_buffer() {
    let star = STAR.replace("hosts = 3", "hosts = 9");
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 8\ntotal = \"4 MB\"\nreceiver = 8";
    let fabric = format!("{star}\nswitch = {{ buffer = \"40 KB\" }}\n{traffic}");
    for (transport, keys) in [("multipath", ""), ("multipath", "paths = 1"), ("rogue", "")] {
        let scenario = scenario(&fabric, &[transport], &format!("cc = \"none\"\n{keys}")).unwrap();
        let output = &outputs(&scenario, 1)[0];
        check(output, &format!("{transport} {keys}"));
        let (sent, dropped) = (output.totals.data + output.totals.control, output.totals.dropped);
        assert!(dropped * 4 > sent, "{transport} {keys}: {dropped} of {sent}");
        assert!(transport == "rogue" || dropped * 2 > sent, "{transport} {keys}: {dropped} of {sent}");
    }
}

/// A link that loses everything ends the channel: the messages are aborted, and nothing is silent.
#[test]
fn a_dead_link_ends_the_channel() {
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 1\ntotal = \"100 KB\"\nreceiver = 1";
    for transport in BOTH {
        let scenario =
            scenario(&format!("{STAR}\nloss = 0.999999\n{traffic}"), &[transport], "patience = \"20 ms\"").unwrap();
        let output = &outputs(&scenario, 1)[0];
        assert_eq!(output.totals.aborted, 1, "{transport}: {:?}", output.warnings);
        let ended =
            output.warnings.iter().any(|warning| warning.contains("a channel has ended: the peer did not respond"));
        assert!(ended, "{transport}: {:?}", output.warnings);
    }
}

/// The output is the same on any number of threads, and with any partition of the fabric.
#[test]
fn the_threads_do_not_matter() {
    let traffic = "[traffic]\npattern = \"poisson\"\nload = 0.7\nsizes = \"uniform 1 B - 150 KB\"\nflows = 200";
    for keys in ["cc = \"rogue\"", "cc = \"timely\"\npfc = true"] {
        let text = format!("{TREE}\nloss = 0.001\nswitch = {{ buffer = \"60 KB\" }}\n{traffic}");
        let scenario = scenario(&text, &BOTH, keys).unwrap();
        let one = outputs(&scenario, 1);
        assert!(one == outputs(&scenario, 1), "twice on one thread");
        assert!(one == outputs(&scenario, 4), "on four threads");
        for (run, output) in scenario.runs.iter().zip(&one) {
            check(output, &run.name);
            assert!(output.totals.lost > 0);
            let catalogue = Catalogue::standard();
            let resolved = resolve(&catalogue, run).unwrap();
            for parts in [2, 5] {
                let plan = |topology: &Topology| PartitionPlan::balanced(topology, parts);
                let shared = simulate_run_shared(&catalogue, run, &resolved, &Sharing::in_parts(2, &plan));
                assert!(shared == *output, "{} in {parts} parts", run.name);
            }
        }
    }
}

/// A control that is not RoGUE's own works too, and changes the result. The buffer holds what all senders send.
#[test]
fn the_congestion_control_is_that_of_the_software() {
    let fabric = format!("{STAR}\nswitch = {{ buffer = \"8 MB\" }}");
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 2\ntotal = \"4 MB\"\nreceiver = 2";
    for transport in BOTH {
        let mut seen = Vec::new();
        for cc in ["rogue", "swift", "none"] {
            let scenario = scenario(&format!("{fabric}\n{traffic}"), &[transport], &format!("cc = \"{cc}\"")).unwrap();
            let output = outputs(&scenario, 1).remove(0);
            check(&output, cc);
            seen.push(output.flows.iter().map(|flow| fct(&flow)).collect::<Vec<_>>());
        }
        assert!(seen[0] != seen[1] && seen[1] != seen[2], "{transport}: {seen:?}");
    }
}

#[test]
fn bad_settings_are_refused_in_one_sentence() {
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 1\ntotal = \"10 KB\"\nreceiver = 1";
    let refused = |fabric: &str, transport: &str, keys: &str| {
        let scenario = match scenario(&format!("{fabric}\n{traffic}"), &[transport], keys) {
            Ok(scenario) => scenario,
            Err(error) => return error,
        };
        resolve(&Catalogue::standard(), &scenario.runs[0]).expect_err(keys).to_string()
    };
    for (transport, keys, part) in [
        ("rogue", "max_window = \"10 KB\"", "the maximum window is 10000; it must be at least the chunk size of 65536"),
        ("multipath", "max_window = \"10 KB\"", "at least the chunk size of 32768"),
        ("rogue", "max_rate = \"0 Gbps\"", "max_rate"),
        ("rogue", "max_rate = \"10 Mbps\"", "the maximum rate is 10000000; it must be at least the minimum rate"),
        ("rogue", "chunk = \"1 KB\"", "chunk"),
        ("rogue", "nic_timeout = 3", "the timeout is 3; it must be 9 to 31"),
        ("rogue", "cc = \"dcqcn\"", "ECN marks, which host software above transport \"rogue\" does not see"),
        ("multipath", "cc = \"dctcp\"", "ECN marks"),
        ("rogue", "cc = \"hpcc\"", "telemetry"),
        ("multipath", "paths = 0", "paths"),
        ("multipath", "paths = 257", "paths"),
        ("multipath", "unsolicited = \"1 MB\"", "`unsolicited` has no effect"),
        ("multipath", "credit_rate = 0.9", "`credit_rate` has no effect"),
        ("multipath", "credit = true\nunsolicited = \"1 KB\"", "at least the chunk size of 32768"),
        ("multipath", "paths = 1\npath_choice = \"single\"", "`path_choice` has no effect"),
        ("roce", "cc = \"rogue\"", "cc \"rogue\" responds to chunks of host software"),
        ("rogue", "retry_count = 8", "retry_count"),
        ("rogue", "paths = 4", "paths"),
        ("rogue", "service = \"ud\"", "service"),
        ("rogue", "service = \"uc\"\noperation = \"read\"", "unreliable connections have no Reads"),
        ("rogue", "operation = \"read\"\nreceives = 5", "`receives` has no effect"),
        ("rogue", "operation = \"read\"\nsignal_every = \"64 KB\"", "`signal_every` has no effect"),
        ("multipath", "operation = \"read\"", "operation"),
    ] {
        let sentence = refused(STAR, transport, keys);
        assert!(sentence.contains(part), "{transport}, {keys}: {sentence}");
    }
    let odd = STAR.replace("1024 B", "1000 B");
    let sentence = refused(&odd, "rogue", "");
    assert!(sentence.contains("the path MTU is 1000; it must be 256, 512, 1024, 2048, 4096"), "{sentence}");
}

/// More queue pairs than a NIC has: the run fails with the limit.
#[test]
fn too_many_queue_pairs_fail_the_run() {
    let fabric = STAR.replace("hosts = 3", "hosts = 200");
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 199\ntotal = \"200 KB\"\nreceiver = 0";
    let scenario = scenario(&format!("{fabric}\n{traffic}"), &["multipath"], "paths = 256").unwrap();
    let output = &outputs(&scenario, 1)[0];
    assert!(failure(output).contains("at most 65536 queue pairs are possible"), "{}", failure(output));
}
