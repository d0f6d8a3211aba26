//! Several transports in one run: their shares of links, drops in a priority without PFC, and what must not depend on
//! the other transports.

use crate::common::*;
use rnic_sim::resolve::resolve;
use rnic_sim::run::{Sharing, simulate_run, simulate_run_shared};
use rnic_sim::{Catalogue, flow_hashes};
use rnic_spec::{RunOutput, RunSpec, RunStatus, Scenario};

/// A scenario of one run, whose own transport is RoCE without congestion control.
fn scenario_of(fabric: &str, traffic: &str, run: &str) -> Result<Scenario, String> {
    let text = format!(
        "[fabric]\nrate = \"40 Gbps\"\ndelay = \"1 us\"\n{fabric}\n{traffic}\n[[run]]\nname = \"run\"\ntransport = \"roce\"\n\
         pfc = true\n{run}"
    );
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    rnic_scenario::from_str(&text, "test.toml", folder, &[], None).map_err(|error| error.to_string())
}

fn simulated(run: &RunSpec) -> RunOutput {
    let catalogue = Catalogue::standard();
    let output = simulate_run(&catalogue, run, &resolve(&catalogue, run).unwrap());
    assert_eq!(output.status, RunStatus::Completed, "{:?}", output.warnings);
    assert_accounts(&output);
    output
}

/// Bytes that a port has sent in each priority.
fn sent(output: &RunOutput, node: &str, peer: &str) -> Vec<u64> {
    let port = output.ports.iter().find(|port| port.node == node && port.peer == peer).unwrap();
    port.priorities.iter().map(|counters| counters.tx_bytes).collect()
}

const SWITCH: &str = "topology = \"single-switch\"\nhosts = 4\n[fabric.switch]\nqueueing = \"shared\"\n\
    scheduler = \"drr\"\nweights = [1, 3]\n[limits]\nduration = \"20 ms\"";

/// Endless messages from many hosts to host 3, in the priorities 0 and 1.
const TO_ONE: &str = "[[traffic]]\nname = \"a\"\npattern = \"incast\"\nsenders = 1\nreceiver = 3\ntotal = \"1 GB\"\n\
    [[traffic]]\nname = \"b\"\npattern = \"incast\"\nsenders = 3\nreceiver = 3\ntotal = \"1 GB\"\npriority = 1";

/// Two priorities with the weights 1 and 3 that both have packets get 10 and 30 Gbps of a link of 40 Gbps: in 20 ms
/// 25 and 75 MB, less the gaps of 20 bytes for 1,106.
#[test]
fn two_priorities_share_a_link_by_their_weights() {
    // Both lossless and with the same transport; a lossless one and TCP, whose windows are large enough after some
    // time, and not so large that packets are dropped.
    for (beside, tolerance) in
        [("", 0.01), ("[[run.beside]]\npriority = 1\ntransport = \"iwarp\"\nreceive_window = \"1 MB\"", 0.03)]
    {
        let scenario = scenario_of(SWITCH, TO_ONE, beside).unwrap();
        let output = simulated(&scenario.runs[0]);
        let sent = sent(&output, "s0", "h3");
        let total = 100e6 * 1_086.0 / 1_106.0;
        for (bytes, share) in sent.iter().zip([0.25, 0.75]) {
            let ratio = *bytes as f64 / (total * share);
            // Without its competitor a priority would have up to four times its share.
            assert!((ratio - 1.0).abs() < tolerance * 0.75 / share, "{beside}: {sent:?}");
        }
    }
}

/// The same on a host's own link, where the transports take turns.
#[test]
fn two_transports_share_a_hosts_link_by_their_weights() {
    let mut scenario =
        scenario_of(SWITCH, TO_ONE, "[[run.beside]]\npriority = 1\ntransport = \"irn\"\npfc = true").unwrap();
    // One flow in each priority, from host 0 to host 1.
    let run = &mut scenario.runs[0];
    for source in &mut run.traffic {
        source.pattern = list(&[flow(0, 0, 1, 1_000_000_000)])[0].pattern.clone();
    }
    let sent = sent(&simulated(run), "h0", "s0");
    // Frames of RoCE have 1,086 bytes and those of IRN 1,102, each with a gap of 20.
    let total = 100e6 * 1_098.0 / 1_118.0;
    for (bytes, share) in sent.iter().zip([0.25, 0.75]) {
        let ratio = *bytes as f64 / (total * share);
        assert!((ratio - 1.0).abs() < 0.01, "{sent:?}");
    }
}

/// A transport that has the fabric for itself behaves as in a run of its own, whatever its priority.
#[test]
fn alone_in_its_priority_a_transport_is_as_in_a_run_of_its_own() {
    // The hash of a flow, which depends on the priority, chooses among cores: there is one.
    for (transport, keys) in [("roce", ""), ("irn", ""), ("tcp", "cores = 1")] {
        let traffic = "[traffic]\npattern = \"incast\"\nsenders = 3\nreceiver = 3\ntotal = \"3 MB\"\nrepeats = 3";
        let fabric = "topology = \"single-switch\"\nhosts = 4\nswitch = { queueing = \"shared\", priorities = 2 }";
        let times = |priority: u8, beside: bool| {
            let beside = match beside {
                true => format!("[[run.beside]]\npriority = 1\ntransport = \"{transport}\"\npfc = true\n{keys}"),
                false => String::new(),
            };
            let scenario = scenario_of(fabric, &format!("{traffic}\npriority = {priority}"), &beside).unwrap();
            let mut run = scenario.runs[0].clone();
            if run.beside.is_empty() {
                run.transport = rnic_spec::TransportSpec::named(transport).unwrap();
                run.transport.pfc = true;
                if !keys.is_empty() {
                    run.transport.set("cores", 1_u64).unwrap();
                }
            }
            let output = simulated(&run);
            output.flows.iter().map(|flow| (flow.start, flow.finish, flow.retransmitted)).collect::<Vec<_>>()
        };
        let alone = times(0, false);
        assert_eq!(alone.len(), 9);
        assert_eq!(times(1, true), alone, "{transport}");
        assert_eq!(times(1, false), alone, "{transport}");
    }
}

/// PFC protects its priority; in the other, packets beyond the threshold are dropped.
#[test]
fn only_the_priority_without_pfc_loses_packets() {
    let fabric = "topology = \"single-switch\"\nhosts = 4\n[fabric.switch]\nqueueing = \"shared\"\nbuffer = \"400 KB\"\n\
        xoff = \"6 KB\"\n[limits]\nduration = \"20 ms\"";
    let beside = "[[run.beside]]\npriority = 1\ntransport = \"irn\"";
    let scenario = scenario_of(fabric, TO_ONE, beside).unwrap();
    let output = simulated(&scenario.runs[0]);
    let sum = |of: &dyn Fn(&rnic_spec::PriorityCounters) -> u64| -> Vec<u64> {
        let priority = |at: usize| output.ports.iter().map(|port| of(&port.priorities[at])).sum();
        vec![priority(0), priority(1)]
    };
    let (drops, pauses) = (sum(&|counters| counters.drops), sum(&|counters| counters.pause_sent));
    assert!(drops[0] == 0 && drops[1] > 0, "{drops:?}");
    assert!(pauses[1] == 0, "{pauses:?}");
    assert!(
        output.warnings.iter().all(|warning| !warning.contains("PFC did not prevent loss")),
        "{:?}",
        output.warnings
    );
}

/// Closed loops, lists of requests and samples of all transports, on any number of threads.
#[test]
fn several_transports_are_deterministic_on_any_number_of_threads() {
    let fabric = "topology = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 8\n[fabric.switch]\n\
        queueing = \"shared\"\nbuffer = \"2 MB\"\nscheduler = \"drr\"\nweights = [1, 1, 1]\n[watch]\ninterval = \"20 us\"\n\
        flows = true\npauses = true\n[limits]\nduration = \"2 ms\"";
    let incast = |name: &str, receiver: u32, priority: u8| {
        format!(
            "[[traffic]]\nname = \"{name}\"\npattern = \"incast\"\nsenders = 12\nreceiver = {receiver}\ntotal = \"1 MB\"\n\
             interval = \"completion\"\nthink_time = \"5 us\"\npriority = {priority}\n"
        )
    };
    let poisson = "[[traffic]]\nname = \"poisson\"\npattern = \"poisson\"\nload = 0.3\nsizes = \"irn-heavy-tailed\"\n\
        flows = 300\npriority = 2\n";
    let traffic = [incast("a", 0, 0), incast("b", 9, 1), incast("c", 17, 0), poisson.to_string()].concat();
    let beside = "cc = \"dcqcn\"\n[[run.beside]]\npriority = 1\ntransport = \"tcp\"\n[[run.beside]]\npriority = 2\n\
        transport = \"irn\"\ncc = \"timely\"";
    let scenario = scenario_of(fabric, &traffic, beside).unwrap();
    let run = &scenario.runs[0];
    let catalogue = Catalogue::standard();
    let resolved = resolve(&catalogue, run).unwrap();
    let one = simulate_run(&catalogue, run, &resolved);
    assert_eq!(one.status, RunStatus::Completed);
    assert_accounts(&one);
    for source in 0..4 {
        let finished = one.flows.iter().filter(|flow| flow.traffic == source && flow.finish.is_some()).count();
        assert!(finished > 20, "source {source} finished {finished} flows");
    }
    // Ids count from 0 in order of start; a request has one receiver and its own start.
    let mut requests = std::collections::BTreeMap::new();
    for (id, flow) in (0..).zip(&one.flows) {
        assert_eq!(flow.id, id);
        if flow.request != rnic_spec::FlowSpec::NO_REQUEST {
            assert_eq!(*requests.entry(flow.request).or_insert((flow.dst, flow.start)), (flow.dst, flow.start));
        }
    }
    assert!(one.flows.iter().zip(one.flows.iter().skip(1)).all(|(a, b)| a.start <= b.start));
    assert!(one.totals.cpu_receive_ps > 0 && one.totals.notifications > 0, "{:?}", one.totals);
    for threads in [2, 3] {
        let plan = |topology: &rnic_fabric::Topology| rnic_fabric::PartitionPlan::balanced(topology, 2 * threads);
        let shared = simulate_run_shared(&catalogue, run, &resolved, &Sharing::in_parts(threads, &plan));
        assert!(shared == one, "{threads} threads");
    }
}

/// A second transport does not change the random numbers of the first: its flows and their paths are the same.
#[test]
fn a_second_transport_keeps_the_flows_of_the_first() {
    let fabric =
        "topology = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\nswitch = { queueing = \"shared\" }";
    let source = |name: &str, priority: u8| {
        format!(
            "[[traffic]]\nname = \"{name}\"\npattern = \"poisson\"\nload = 0.2\nsizes = \"fixed 10 KB\"\nflows = 50\n\
             priority = {priority}\n"
        )
    };
    let flows = |traffic: &str, beside: &str| {
        let scenario = scenario_of(fabric, traffic, beside).unwrap();
        let output = simulated(&scenario.runs[0]);
        let own = output.flows.iter().filter(|flow| flow.traffic == 0);
        own.map(|flow| (flow.start, flow.src, flow.dst, flow.ideal)).collect::<Vec<_>>()
    };
    let beside = "[[run.beside]]\npriority = 1\ntransport = \"tcp\"";
    let alone = flows(&source("a", 0), "");
    assert_eq!(flows(&[source("a", 0), source("b", 1)].concat(), beside), alone);
    let hash = |src| {
        let request = rnic_spec::FlowSpec::NO_REQUEST;
        flow_hashes(1, &rnic_spec::FlowSpec { request, ..flow(0, src, 3, 1) }, 0)
    };
    assert_ne!(hash(0), hash(1));
}

/// What cannot share hosts is refused with a sentence.
#[test]
fn transports_that_cannot_share_hosts_are_refused() {
    let refused = |fabric: &str, traffic: &str, run: &str| {
        scenario_of(fabric, traffic, run).map(|_| "accepted".to_string()).unwrap_err()
    };
    let shared = "topology = \"single-switch\"\nhosts = 4\nswitch = { queueing = \"shared\" }";
    let input = "topology = \"single-switch\"\nhosts = 4";
    let beside = |transport: &str| format!("[[run.beside]]\npriority = 1\n{transport}");
    for (fabric, traffic, run, sentence) in [
        (shared, TO_ONE, beside("transport = \"homa\""), "transport \"homa\" cannot share hosts"),
        (shared, TO_ONE, beside("transport = \"irn\"\ncc = \"hpcc\""), "cc \"hpcc\" needs in-band telemetry"),
        (shared, TO_ONE, beside("transport = \"irn\"\ncontrol_priority = true"), "`control_priority` and traffic"),
        (input, TO_ONE, beside("transport = \"irn\""), "`pfc` differs between the priorities"),
        (
            shared,
            "[traffic]\npattern = \"incast\"\nsenders = 1\ntotal = \"1 MB\"",
            beside("transport = \"tcp\""),
            "transport \"tcp\" is for priority 1, and no traffic has it",
        ),
        (
            shared,
            TO_ONE,
            [beside("transport = \"tcp\""), beside("transport = \"irn\"")].join("\n"),
            "two transports are for",
        ),
        (shared, TO_ONE, "[[run.beside]]\npriority = 0\ntransport = \"tcp\"".to_string(), "priority"),
        (shared, TO_ONE, "[[run.beside]]\npriority = 1\ntransport = \"tcp\"\nname = \"x\"".to_string(), "`name`"),
    ] {
        let error = refused(fabric, traffic, &run);
        assert!(error.contains(sentence), "{run}: {error}");
    }
}
