//! Tests of the life of single packets, which `rnic run --trace-packets` writes.

use crate::common::*;
use rnic_scenario::from_str;
use rnic_sim::capture::{Capture, Event, PacketEvent};
use rnic_sim::resolve::{Resolved, resolve};
use rnic_sim::run::run;
use rnic_sim::{Catalogue, Events, Sharing};
use rnic_spec::{RunRecord, RunSpec};
use rnic_transport::Time;
use std::path::Path;

/// A scenario in which hosts 0 and 1 start to send to host 2 at the same time.
fn incast(total: &str, fabric: &str, keys: &str) -> (RunSpec, Resolved) {
    let text = format!(
        r#"
traffic = {{ pattern = "incast", senders = 2, receiver = 2, total = "{total}", repeats = 1 }}
[fabric]
topology = "single-switch"
hosts = 3
rate = "40 Gbps"
delay = "2 us"
mtu = "1024 B"
{fabric}
[[run]]
name = "it"
{keys}
"#
    );
    let mut scenario = from_str(&text, "test.toml", Path::new("."), &[], None).unwrap();
    let spec = scenario.runs.remove(0);
    let resolved = resolve(&Catalogue::standard(), &spec).unwrap();
    (spec, resolved)
}

fn simulate(spec: &RunSpec, resolved: &Resolved, capture: Option<&mut Capture>) -> RunRecord {
    run(&Catalogue::standard(), spec, resolved, capture, &Sharing::among(1), &Events::ignored())
}

/// The events of the packets of a flow, and the counters of the run.
fn life(spec: &RunSpec, resolved: &Resolved, flow: u32, max: usize) -> (Vec<PacketEvent>, RunRecord, Capture) {
    let first = simulate(spec, resolved, None);
    let flow = first.output.flows.get(flow).unwrap();
    let mut capture = Capture::of_flow(spec, resolved, &flow, max).unwrap();
    let second = simulate(spec, resolved, Some(&mut capture));
    assert_eq!(first.output, second.output, "a capture does not change a run");
    (capture.events(), second, capture)
}

fn count(events: &[PacketEvent], event: Event) -> usize {
    events.iter().filter(|of| of.event == event).count()
}

#[test]
fn a_packet_waits_for_the_packet_of_another_flow() {
    let (spec, resolved) = incast("2048 B", "", "transport = \"roce\"\npfc = true");
    let both = [0, 1].map(|flow| {
        let (events, _, capture) = life(&spec, &resolved, flow, 1_000);
        assert!(!capture.is_full());
        let rows = events.iter().filter(|event| event.kind == "data");
        let rows =
            rows.map(|of| (of.time.as_ps(), capture.node_name(of.port).to_string(), of.event, of.wait, of.bytes));
        rows.collect::<Vec<_>>()
    });
    let [first, second] = if both[0].len() < both[1].len() { [&both[0], &both[1]] } else { [&both[1], &both[0]] };
    let row = |ps, node: &str, event| (ps, node.to_string(), event, None, 1_086);
    let sender = |rows: &[(u64, String, Event, Option<Time>, u16)]| rows[0].1.clone();
    assert_eq!(
        first,
        &[
            row(0, &sender(first), Event::Sent),
            row(ROCE + D, "s0", Event::Arrived),
            row(ROCE + D, "s0", Event::Sent),
            row(2 * (ROCE + D), "h2", Event::Arrived),
        ]
    );
    // Both packets arrive at the switch at the same time, so the second waits for the transmission of the first.
    let wait = Some(Time::from_ps(ROCE));
    let queued = (ROCE + D, "s0".to_string(), Event::Queued, wait, 1_086);
    assert_eq!(
        second,
        &[
            row(0, &sender(second), Event::Sent),
            row(ROCE + D, "s0", Event::Arrived),
            queued,
            row(2 * ROCE + D, "s0", Event::Sent),
            row(3 * ROCE + 2 * D, "h2", Event::Arrived),
        ]
    );
    assert_ne!(sender(first), sender(second));
}

#[test]
fn every_packet_of_a_flow_arrives_or_is_dropped() {
    let keys = "transport = \"irn\"\npfc = false";
    let (spec, resolved) = incast("2 MB", "switch = { buffer = \"20 KB\" }", keys);
    let lives = [0, 1].map(|flow| life(&spec, &resolved, flow, 1_000_000));
    let totals = lives[0].1.output.totals;
    let sum = |event| lives.iter().map(|(events, ..)| count(events, event) as u64).sum::<u64>();
    assert!(totals.dropped > 0);
    assert_eq!(sum(Event::Dropped), totals.dropped);
    // Each transmission on a link arrives at its end.
    assert_eq!((sum(Event::Sent), sum(Event::Arrived)), (totals.hops, totals.hops));
    for (flow, (events, record, _)) in (0..).zip(&lives) {
        let data = |of: &&PacketEvent| of.kind == "data" && of.event == Event::Sent;
        let resolved_flow = record.output.flows.get(flow).unwrap();
        let from_host = events.iter().filter(data).filter(|of| of.port.0 == resolved_flow.src).count() as u64;
        // 1 MB is 977 packets of 1,024 B.
        assert_eq!(from_host, 977 + u64::from(resolved_flow.retransmitted));
        assert!(events.is_sorted_by_key(|event| event.time) && events.iter().all(|of| of.flow == Some(flow)));
    }
}

#[test]
fn marks_and_losses_are_counted_as_by_the_run() {
    let keys = "transport = \"irn\"\npfc = false\ncc = \"dcqcn\"";
    let (mut spec, _) = incast("2 MB", "", keys);
    spec.fabric.link.loss = 0.001;
    let resolved = resolve(&Catalogue::standard(), &spec).unwrap();
    let lives = [0, 1].map(|flow| life(&spec, &resolved, flow, 1_000_000));
    let totals = lives[0].1.output.totals;
    let sum = |event| lives.iter().map(|(events, ..)| count(events, event) as u64).sum::<u64>();
    assert!(totals.lost > 0 && totals.marked > 0);
    assert_eq!(sum(Event::Lost), totals.lost);
    let marked: u64 = lives[0].1.output.ports.iter().flat_map(|port| &port.priorities).map(|of| of.marked).sum();
    assert_eq!(sum(Event::Marked), marked);
}

#[test]
fn a_full_capture_has_the_first_events() {
    let (spec, resolved) = incast("2 MB", "", "transport = \"irn\"");
    let (all, _, capture) = life(&spec, &resolved, 0, 1_000_000);
    assert!(!capture.is_full());
    let (some, _, capture) = life(&spec, &resolved, 0, 100);
    assert!(capture.is_full());
    let sent = |events: &[PacketEvent]| {
        events.iter().filter(|of| of.event == Event::Sent).copied().take(50).collect::<Vec<_>>()
    };
    assert_eq!(sent(&some), sent(&all));
}
