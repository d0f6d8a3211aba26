//! Tests of `queueing = "output"`, `trim` and `paths` with RC-like transports.

use rnic_campaign::run_scenario;
use rnic_fabric::config::{BufferSpec, OutputBuffers, OutputSpec, SchedulerSpec, TrimSpec, TrimmedPriority};
use rnic_scenario::from_str;
use rnic_sim::Catalogue;
use rnic_sim::resolve::{Resolved, resolve};
use rnic_spec::{RunOutput, RunSpec, RunStatus, Scenario};
use rnic_transport::{Bytes, Time};
use std::path::Path;

/// An incast across two leaves with a run of every transport. `fabric` is added to `[fabric]`, `switch` to
/// `[fabric.switch]`.
fn scenario(fabric: &str, switch: &str) -> Scenario {
    let text = format!(
        r#"
[fabric]
topology = "leaf-spine"
leaves = 2
spines = 4
hosts_per_leaf = 6
rate = "100 Gbps"
delay = "500 ns"
{fabric}
[fabric.switch]
queueing = "output"
{switch}
[traffic]
pattern = "incast"
senders = 10
total = "2 MB"
repeats = 3
[[run]]
name = "roce"
transport = "roce"
nacks = "every"
[[run]]
name = "irn"
transport = "irn"
[[run]]
name = "iwarp"
transport = "iwarp"
control_priority = true
"#
    );
    from_str(&text, "test.toml", Path::new("."), &[], None).unwrap()
}

fn outputs(scenario: &Scenario, threads: usize) -> Vec<RunOutput> {
    let reports = run_scenario(scenario, threads).unwrap();
    reports.into_iter().map(|report| report.output).collect()
}

fn resolved(scenario: &Scenario, run: &str) -> Resolved {
    resolve(&Catalogue::standard(), scenario.runs.iter().find(|spec| spec.name == run).unwrap()).unwrap()
}

#[test]
fn what_is_left_open_follows_from_the_run() {
    let plain = scenario("", "buffer = \"54.4 KB\"");
    let irn = resolved(&plain, "irn");
    assert_eq!((irn.fabric.switch.priorities, irn.host_config.control_priority), (1, 0));
    let by_hand = OutputSpec { buffers: OutputBuffers::Equal(Bytes(54_400)), trim: None, count_in_service: false };
    assert_eq!(irn.fabric.switch.buffer, BufferSpec::Output(by_hand));
    assert_eq!(irn.fabric.switch.scheduler, SchedulerSpec::STRICT);
    // `rto_high` is the propagation delay of four links of 500 ns in both directions, plus the time to drain one full
    // buffer of 54,400 bytes at 80 ps per byte.
    assert_eq!(irn.flow.timeouts.unwrap().high, Time::from_ns(4_000 + 4_352));
    let iwarp = resolved(&plain, "iwarp");
    assert_eq!((iwarp.fabric.switch.priorities, iwarp.host_config.control_priority), (2, 1));

    let trimming = scenario("", "buffers = [\"8 KB\", \"16 KB\", \"1 KB\"]\ntrim = { to = \"80 B\" }");
    let irn = resolved(&trimming, "irn");
    assert_eq!(
        (irn.fabric.switch.priorities, irn.host_config.control_priority),
        (3, 0),
        "control packets go with data"
    );
    let BufferSpec::Output(output) = irn.fabric.switch.buffer else { panic!("{:?}", irn.fabric.switch) };
    assert_eq!(output.trim, Some(TrimSpec { to: 80, headers: TrimmedPriority::Highest, return_to_sender: false }));
    assert_eq!(irn.fabric.switch.scheduler, SchedulerSpec::Strict { max_in_a_row: Some(10) });
    assert_eq!([0, 1, 2].map(|priority| output.buffer_of(priority).0), [8_000, 16_000, 1_000]);
    assert_eq!(irn.flow.timeouts.unwrap().high, Time::from_ns(4_000 + 2_000));
    assert_eq!(irn.warnings, ["transport \"irn\" takes a trimmed packet for a lost one"]);
    assert_eq!(resolved(&scenario("", "trim = true"), "irn").fabric.switch.priorities, 2);

    let returning = resolved(&scenario("", "trim = { return_to_sender = true }"), "roce");
    assert!(returning.warnings[1].starts_with("`return_to_sender` changes nothing"), "{:?}", returning.warnings);
}

/// A buffer for one packet that counts the packet in service drops more packets than a buffer that does not count it.
#[test]
fn a_switch_can_count_the_packet_in_service() {
    let dropped = |switch: &str| outputs(&scenario("", switch), 1)[1].totals.dropped;
    let buffer = "buffer = \"8 KB\"";
    let counts = format!("{buffer}\ncount_in_service = true");
    assert!(dropped(&counts) > dropped(buffer), "{} {}", dropped(&counts), dropped(buffer));
    let BufferSpec::Output(output) = resolved(&scenario("", &counts), "irn").fabric.switch.buffer else { panic!() };
    assert!(output.count_in_service);
    let text = "[fabric]\ntopology = \"single-switch\"\nhosts = 2\nrate = \"1 Gbps\"\ndelay = \"1 us\"\n\
                switch = { count_in_service = true }\n\
                [traffic]\npattern = \"permutation\"\nsizes = \"fixed 1 KB\"\n\
                [[run]]\nname = \"a\"\ntransport = \"irn\"\n";
    let error = from_str(text, "a.toml", Path::new("."), &[], None).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("`count_in_service`") && error.contains("output"), "{error}");
}

/// Trimmed headers may wait in the priority below that of their packets, for which the switch adds no priority.
#[test]
fn headers_below_their_packets_need_no_further_priority() {
    let below = scenario("", "buffers = [\"8 KB\", \"16 KB\"]\ntrim = { headers = \"below\" }");
    let irn = resolved(&below, "irn");
    assert_eq!(irn.fabric.switch.priorities, 2);
    assert_eq!(irn.fabric.switch.scheduler, SchedulerSpec::STRICT, "no priority is reserved for headers");
    let BufferSpec::Output(output) = irn.fabric.switch.buffer else { panic!() };
    assert_eq!(output.trim.map(|trim| trim.headers), Some(TrimmedPriority::Below));
}

#[test]
fn a_run_that_was_not_read_from_a_file_is_checked_too() {
    let mut run = scenario("", "buffers = [\"8 KB\", \"1 KB\"]\ntrim = true").runs.remove(0);
    let refused = |run: &RunSpec| resolve(&Catalogue::standard(), run).unwrap_err().to_string();
    run.transport.set("cnp_size", Bytes(2_000)).unwrap();
    assert_eq!(refused(&run), "the buffer of 1 KB in priority 1 cannot hold one packet of 2000 bytes");
    run.transport.pfc = true;
    assert_eq!(refused(&run), "`queueing` = \"output\" has no PFC, but the run has `pfc` = true");
}

/// Every packet is accounted for, because otherwise the run would have failed. With trimming, switches drop only
/// headers, and a buffer holds 100 headers.
#[test]
fn all_flows_finish_with_and_without_trimming_and_spraying() {
    for (fabric, switch) in [
        ("", "buffer = \"30 KB\""),
        ("", "buffers = [\"30 KB\", \"6400 B\"]\ntrim = { in_a_row = 0 }"),
        ("paths = \"spray\"", "buffer = \"30 KB\""),
        ("paths = \"spray\"", "buffers = [\"30 KB\", \"30 KB\", \"6400 B\"]\ntrim = { headers = \"above\" }"),
    ] {
        let scenario = scenario(fabric, switch);
        for (run, output) in scenario.runs.iter().zip(outputs(&scenario, 1)) {
            let totals = output.totals;
            assert_eq!(output.status, RunStatus::Completed, "{}: {switch}", run.name);
            assert_eq!(totals.trimmed > 0, switch.contains("trim"), "{}: {totals:?}", run.name);
            assert_eq!(totals.dropped > 0, !switch.contains("trim"), "{}: {totals:?}", run.name);
            assert!(totals.retransmitted >= totals.trimmed, "{}: a trimmed packet is retransmitted", run.name);
            assert_eq!(totals.returned, 0);
            let most = output.ports.iter().map(|port| port.priorities[0].queue_high_water).max();
            assert!(most > Some(28_000) && most <= Some(30_000), "{}: {most:?}", run.name);
        }
    }
}

/// Spraying uses all spines evenly and reorders packets, so IRN retransmits although no packet is lost.
#[test]
fn spraying_spreads_a_few_flows_and_reorders() {
    let uplinks = |fabric: &str| {
        let scenario = scenario(fabric, "buffer = \"3 MB\"");
        let irn = outputs(&scenario, 1).remove(1);
        assert_eq!((irn.totals.dropped, irn.status), (0, RunStatus::Completed));
        let up = irn.ports.iter().filter(|port| port.node == "leaf1" && port.peer.starts_with("spine"));
        (up.map(|port| port.priorities[0].tx_bytes).collect::<Vec<_>>(), irn.totals.retransmitted)
    };
    let (sprayed, reordered) = uplinks("paths = \"spray\"");
    let mean = sprayed.iter().sum::<u64>() / 4;
    assert!(sprayed.iter().all(|bytes| bytes.abs_diff(mean) < mean / 10), "{sprayed:?}");
    assert!(reordered > 0);
    for paths in ["", "paths = \"ecmp\""] {
        let (hashed, reordered) = uplinks(paths);
        assert!(hashed.iter().any(|bytes| bytes.abs_diff(mean) > mean / 10), "{hashed:?}");
        assert_eq!(reordered, 0);
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let scenario = scenario("paths = \"spray\"", "buffers = [\"30 KB\", \"2 KB\"]\ntrim = true");
    assert_eq!(outputs(&scenario, 1), outputs(&scenario, 3));
}
