//! Flow lists: the order of flows that start at the same time, and hashes that pin paths.

use crate::common::*;
use rnic_fabric::config::TopologySpec;
use rnic_sim::Catalogue;
use rnic_sim::flow_hashes;
use rnic_sim::resolve::resolve;
use rnic_sim::run::simulate_run;
use rnic_spec::{Begin, Trigger, TriggerKind, Triggered, TriggeredFlow};
use rnic_spec::{FlowSpec, RunOutput, RunSpec, RunStatus, Traffic, TrafficPattern};
use rnic_transport::{Bytes, Time};
use std::collections::BTreeMap;

/// Flows of 12 hosts that start in groups at the same time, some of them from the same host.
fn ties() -> Vec<FlowSpec> {
    (0..120u32)
        .map(|n| {
            let (src, step) = (n * 7 % 12, 1 + n % 5);
            flow(u64::from(n / 24) * 20_000_000, src, (src + step) % 12, 20_000 + u64::from(n) * 100)
        })
        .collect()
}

fn fabric(transport: &str) -> RunSpec {
    let spec =
        TopologySpec::LeafSpine { leaves: 3, spines: 3, hosts_per_leaf: 4, uplink_rate: None, uplink_delay: None };
    let mut run = run_on(spec, transport);
    run.fabric.switch.buffer = Some(Bytes(60_000));
    run
}

/// Simulates a run with several lists.
fn simulate(run: &RunSpec, lists: &[&[FlowSpec]]) -> RunOutput {
    let named = |(number, flows): (usize, &&[FlowSpec])| Traffic { name: format!("{number}"), ..list(flows).remove(0) };
    let run = RunSpec { traffic: lists.iter().enumerate().map(named).collect(), ..run.clone() };
    let output = simulate_run(&Catalogue::standard(), &run, &resolve(&Catalogue::standard(), &run).unwrap());
    assert_eq!(output.status, RunStatus::Completed);
    output
}

/// Sender, receiver, start and size of a flow, and what it came to: end, retransmissions, timeouts.
type Outcomes = BTreeMap<(u32, u32, Time, u64), (Time, u32, u32)>;

/// What happened to each flow, whatever its id and its source.
fn results(output: &RunOutput) -> Outcomes {
    let result =
        |f: rnic_spec::FlowRecord| ((f.src, f.dst, f.start, f.bytes), (f.finish.unwrap(), f.retransmitted, f.timeouts));
    output.flows.iter().map(result).collect()
}

#[test]
fn a_list_may_be_split_between_two_lines() {
    let flows = ties();
    for transport in ["roce", "irn"] {
        let whole = results(&simulate(&fabric(transport), &[&flows]));
        assert_eq!(whole.len(), flows.len());
        for at in [1, 24, 61, 100] {
            let split = simulate(&fabric(transport), &[&flows[..at], &flows[at..]]);
            assert_eq!(results(&split), whole, "{transport}, {at}");
        }
    }
}

/// Only the order of the flows of one host counts, so lines of different hosts may change their places.
#[test]
fn lines_of_different_hosts_may_change_places() {
    let mut flows = ties();
    let whole = results(&simulate(&fabric("irn"), &[&flows]));
    flows.sort_by_key(|flow| (flow.start, std::cmp::Reverse(flow.src)));
    assert_eq!(results(&simulate(&fabric("irn"), &[&flows])), whole);
    // With flows of one host in another order, they take turns in another order.
    flows.reverse();
    flows.sort_by_key(|flow| flow.start);
    assert_ne!(results(&simulate(&fabric("irn"), &[&flows])), whole);
}

/// Ids count flows by start, source and host, and flows of one host in the order of the list.
#[test]
fn ids_follow_start_source_host_and_line() {
    let first = [flow(5, 2, 0, 300), flow(0, 1, 0, 100), flow(5, 2, 1, 200), flow(5, 1, 0, 400)];
    let second = [flow(5, 0, 1, 500)];
    let output = simulate(&fabric("irn"), &[&first, &second]);
    let mut records: Vec<_> = output.flows.iter().map(|flow| (flow.id, flow.bytes)).collect();
    records.sort_unstable();
    assert_eq!(records, [(0, 100), (1, 400), (2, 300), (3, 200), (4, 500)]);
}

#[test]
fn a_hash_pins_the_paths_of_a_flow() {
    let shifted = |flows: &[FlowSpec], by: u64| -> Vec<FlowSpec> {
        flows.iter().map(|flow| FlowSpec { start: flow.start + Time::from_ns(by), ..*flow }).collect()
    };
    let times = |output: &RunOutput| -> Vec<u64> { output.flows.iter().map(|flow| fct(&flow)).collect() };
    let run = fabric("irn");
    // Without hashes, a shift by 10 ns draws other paths.
    let free = ties();
    let moved = simulate(&run, &[&shifted(&free, 10)]);
    assert_ne!(times(&moved), times(&simulate(&run, &[&free])));
    // With hashes the shift changes no time.
    let pinned: Vec<FlowSpec> =
        free.iter().zip(0..).map(|(flow, hash)| FlowSpec { hash: Some(hash), ..*flow }).collect();
    let before = simulate(&run, &[&pinned]);
    let moved = simulate(&run, &[&shifted(&pinned, 10)]);
    assert_eq!((times(&moved), moved.totals), (times(&before), before.totals));
    let own = flow_hashes(1, &pinned[3], 0);
    assert_eq!(own, flow_hashes(1, &FlowSpec { start: Time::from_us(7), ..pinned[3] }, 5));
    assert_ne!(own, flow_hashes(1, &FlowSpec { hash: Some(4), ..pinned[3] }, 0));
    assert_ne!(own, flow_hashes(1, &free[3], 0));
}

/// A flow with a hash is not counted among the flows of its host that start at the same instant, so the others keep
/// their paths.
#[test]
fn flows_with_a_hash_do_not_move_others() {
    let uplinks = |flows: &[FlowSpec], seed: u64| -> Vec<u64> {
        let output = simulate(&RunSpec { seed, ..fabric("irn") }, &[flows]);
        let up = output.ports.iter().filter(|port| port.node == "leaf0" && port.peer.starts_with("spine"));
        up.map(|port| port.priorities[0].tx_bytes).collect()
    };
    // h1 is on the leaf of h0, so the first flow uses no uplink.
    let (near, far) = (flow(0, 0, 1, 50_000), flow(0, 0, 11, 50_000));
    let pinned = FlowSpec { hash: Some(1), ..near };
    let mut moved = 0;
    for seed in 1..10 {
        let alone = uplinks(&[far], seed);
        assert_eq!(uplinks(&[pinned, far], seed), alone, "{seed}");
        moved += u32::from(uplinks(&[near, far], seed) != alone);
    }
    assert!(moved > 0, "without a hash the first flow changes the path of the second");
}

#[test]
fn equal_hashes_between_the_same_hosts_are_refused() {
    let flows = [flow(0, 0, 1, 100), flow(9, 0, 1, 100), flow(9, 1, 0, 100)].map(|f| FlowSpec { hash: Some(7), ..f });
    let run = RunSpec { traffic: list(&flows), ..fabric("irn") };
    let error = resolve(&Catalogue::standard(), &run).unwrap_err().to_string();
    assert_eq!(
        error,
        "two flows from host 0 to host 1 have the hash 7; give each flow between the same hosts another hash"
    );
    // In opposite directions, and to other hosts, they may be equal.
    let run = RunSpec { traffic: list(&flows[1..]), ..fabric("irn") };
    assert!(resolve(&Catalogue::standard(), &run).is_ok());
}

/// Starts of the flows of a list with triggers on a switch with four hosts, in picoseconds, by the flow's size in B.
fn starts(flows: &[TriggeredFlow], kinds: &[TriggerKind]) -> BTreeMap<u64, u64> {
    let triggers = (1..).zip(kinds).map(|(id, kind)| Trigger { id, kind: *kind }).collect();
    let list = Triggered { flows: flows.into(), triggers, reaction: Time::from_ns(200) };
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 4 }, "irn");
    let (name, pattern) = ("list".to_string(), TrafficPattern::Triggered(list));
    run.traffic = vec![Traffic { name, pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 }];
    let output = simulate_run(&Catalogue::standard(), &run, &resolve(&Catalogue::standard(), &run).unwrap());
    assert_eq!(output.status, RunStatus::Completed);
    output.flows.iter().map(|flow| (flow.bytes, flow.start.as_ps())).collect()
}

#[test]
fn triggers_start_flows_when_others_end() {
    // Serialisation time of a frame of minimum size: 84 B with the gap, at 40 Gbps.
    const LEAST: u64 = 16_800;
    const REACTION: u64 = 200_000;
    // Time of a message of one packet of `bytes` through the switch, with headers of 78 B and a gap of 20 B.
    let there = |bytes: u64| 2 * D + 2 * (bytes + 98) * 200;
    let back = 2 * D + 2 * LEAST;
    let flow = |src, dst, bytes, begin, sent, received| TriggeredFlow { src, dst, bytes, begin, sent, received };
    let (at, by) = (|ps| Begin::At(Time::from_ps(ps)), Begin::Trigger);
    let flows = [
        flow(0, 1, 1_000, at(0), Some(0), Some(1)),
        flow(2, 3, 900, by(0), Some(2), None),
        flow(1, 2, 800, by(1), None, Some(2)),
        flow(3, 0, 700, by(2), None, None),
        flow(2, 1, 600, by(2), None, None),
    ];
    let begun = starts(&flows, &[TriggerKind::Oneshot, TriggerKind::Oneshot, TriggerKind::Barrier(2)]);
    let (sent, received) = (there(1_000) + back + REACTION, there(1_000) + REACTION);
    // The barrier waits for the end of the flow of 900 B at its sender, which is the later one.
    let barrier = sent + there(900) + back + REACTION;
    assert!(received + there(800) + REACTION < barrier);
    assert_eq!(begun, [(1_000, 0), (900, sent), (800, received), (700, barrier), (600, barrier)].into());

    // Two flows at a time: each end of a flow at its sender starts the next flow.
    let flows = [
        flow(0, 1, 1_000, at(0), Some(0), None),
        flow(2, 3, 500, at(0), Some(0), None),
        flow(2, 3, 400, by(0), Some(0), None),
        flow(1, 0, 300, by(0), Some(0), None),
    ];
    let begun = starts(&flows, &[TriggerKind::Multishot]);
    let (first, second) = (there(500) + back + REACTION, there(1_000) + back + REACTION);
    assert_eq!(begun, [(1_000, 0), (500, 0), (400, first), (300, second)].into());
}
