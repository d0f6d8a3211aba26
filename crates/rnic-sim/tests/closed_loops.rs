//! Closed-loop traffic (pairs, all-to-all and incasts): a message starts when an earlier message is complete.

use crate::common::*;
use proptest::prelude::*;
use rnic_campaign::{RunListener, execute_remaining};
use rnic_fabric::config::TopologySpec;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_sim::run::simulate_run;
use rnic_spec::RunEvent;
use rnic_spec::{CongestionDeclaration, CongestionSpec};
use rnic_spec::{EcnSetup, Incast, Receiver, RunSpec, Scenario, Traffic, TrafficPattern};
use rnic_spec::{FlowRecord, RunOutput, RunStatus};
use rnic_spec::{FlowSpec, SizeDistribution};
use rnic_transport::congestion::Dcqcn;
use rnic_transport::{Bytes, Time};
use std::ops::ControlFlow;

/// Serialisation time of a minimum-size frame (64 bytes + 20 bytes of gap) on a 40 Gbps link, in picoseconds.
const LEAST: u64 = 16_800;

fn source(name: &str, pattern: TrafficPattern) -> Traffic {
    Traffic { name: name.to_string(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 }
}

fn pairs(pairs: u32, bytes: (f64, f64), messages: Option<u32>, think_time: Time) -> Traffic {
    let sizes = SizeDistribution { name: "uniform".to_string(), points: vec![(bytes.0, 0.0), (bytes.1, 1.0)] };
    source("pairs", TrafficPattern::Pairs { pairs, sizes, messages, think_time, persistent: false })
}

fn incast(senders: u32, total: u64, receiver: u32, repeats: Option<u32>) -> Traffic {
    let incast = Incast { senders, total: Bytes(total), receiver: Receiver::Host(receiver), connections: 1 };
    source("incast", TrafficPattern::IncastLoop { incast, repeats, think_time: Time::ZERO, persistent: false })
}

/// Changes the traffic so that it uses persistent connections.
fn persistent(mut traffic: Traffic) -> Traffic {
    match &mut traffic.pattern {
        TrafficPattern::Pairs { persistent, .. } | TrafficPattern::IncastLoop { persistent, .. } => *persistent = true,
        pattern => panic!("{pattern:?} is no closed loop"),
    }
    traffic
}

fn run(run: &RunSpec) -> RunOutput {
    simulate_run(&Catalogue::standard(), run, &resolve(&Catalogue::standard(), run).unwrap())
}

#[test]
fn the_next_message_starts_when_the_sender_can_know() {
    for (bytes, frames, think_time) in [(1_024.0, 1, 0), (3_072.0, 3, 7_000_000)] {
        let mut spec = run_on(TopologySpec::SingleSwitch { hosts: 2 }, "roce");
        spec.traffic = vec![pairs(1, (bytes, bytes), Some(4), Time::from_ps(think_time))];
        let output = run(&spec);
        assert_eq!((&output.status, output.flows.len(), output.offered), (&RunStatus::Completed, 4, 4));
        // A round is the time of the frames through the switch, of a minimum-size frame back, and the think time.
        let (there, back) = (2 * D + (frames + 1) * ROCE, 2 * D + 2 * LEAST);
        for (number, flow) in (0..).zip(&output.flows) {
            assert_eq!(flow.start.as_ps(), number * (there + back + think_time));
            assert_eq!(fct(&flow), there);
            assert_eq!((flow.src, flow.dst), (output.flows.get(0).unwrap().src, output.flows.get(0).unwrap().dst));
        }
    }
}

#[test]
fn all_to_all_in_turn_keeps_so_many_messages_under_way() {
    let sizes = SizeDistribution { name: "fixed".to_string(), points: vec![(1_024.0, 0.0), (1_024.0, 1.0)] };
    let turns = |outstanding| TrafficPattern::AllToAllLoop {
        sizes: sizes.clone(),
        repeats: 1,
        outstanding,
        think_time: Time::ZERO,
    };
    let mut spec = run_on(TopologySpec::SingleSwitch { hosts: 4 }, "roce");
    spec.traffic = vec![source("turns", turns(1))];
    let output = run(&spec);
    assert_eq!((&output.status, output.flows.len(), output.offered), (&RunStatus::Completed, 12, 12));
    // Each host sends to the next host, then to the host after it, so no two frames meet at the switch.
    let round = 4 * D + 2 * ROCE + 2 * LEAST;
    let rounds: Vec<(u64, u32, u32)> = output.flows.iter().map(|f| (f.start.as_ps() / round, f.src, f.dst)).collect();
    let expected = (0..3).flat_map(|turn| (0..4).map(move |src| (turn, src, (src + 1 + turn as u32) % 4)));
    assert!(rounds.iter().copied().eq(expected), "{rounds:?}");
    assert!(output.flows.iter().all(|f| f.start.as_ps() % round == 0 && fct(&f) == 2 * D + 2 * ROCE));
    // With two outstanding messages per host, the second frame leaves behind the first.
    spec.traffic = vec![source("turns", turns(2))];
    let output = run(&spec);
    assert_eq!((&output.status, output.flows.len()), (&RunStatus::Completed, 12));
    let of_host_1: Vec<_> = output.flows.iter().filter(|f| f.src == 1).map(|f| (f.start.as_ps(), f.dst)).collect();
    assert_eq!(of_host_1, [(0, 2), (0, 3), (round, 0)]);
}

#[test]
fn the_next_request_starts_when_the_last_sender_can_know() {
    let mut spec = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
    spec.traffic = vec![incast(2, 2 * 1_024, 0, Some(3))];
    let output = run(&spec);
    assert_eq!((&output.status, output.flows.len()), (&RunStatus::Completed, 6));
    // Two frames meet at the switch, so the second arrives one frame time after the first.
    let round = 2 * D + 3 * ROCE + 2 * D + 2 * LEAST;
    let starts: Vec<u64> = output.flows.iter().map(|f| f.start.as_ps()).collect();
    assert_eq!(starts, [0, 0, round, round, 2 * round, 2 * round]);
    assert_eq!(output.flows.iter().map(|f| f.request).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn a_loop_without_end_lasts_as_long_as_the_run() {
    let mut spec = run_on(TopologySpec::SingleSwitch { hosts: 2 }, "roce");
    spec.traffic = vec![pairs(1, (1_024.0, 1_024.0), None, Time::ZERO)];
    assert_eq!(
        resolve(&Catalogue::standard(), &spec).unwrap_err().to_string(),
        "traffic `pairs` has no end, and the run no `duration` in [limits]"
    );
    spec.limits.duration = Some(Time::from_us(100));
    let output = run(&spec);
    // The last flow starts before the end of the run.
    let round = 4 * D + 2 * ROCE + 2 * LEAST;
    assert_eq!(output.flows.len() as u64, 100_000_000u64.div_ceil(round));
    assert_eq!((output.truncated.unwrap().not_started, output.status), (None, RunStatus::Completed));
}

/// Number of links between two hosts of the 16-host fat-tree.
fn hops(a: u32, b: u32) -> u64 {
    match (a / 2 == b / 2, a / 4 == b / 4) {
        (true, _) => 2,
        (_, true) => 4,
        _ => 6,
    }
}

/// Time at which the sender of a flow learns that all bytes have arrived.
fn known(flow: &FlowRecord) -> u64 {
    flow.finish.unwrap().as_ps() + hops(flow.src, flow.dst) * (D + LEAST)
}

/// Checks that every message but the first of a pair starts when its sender learns that the pair's previous message has
/// arrived.
fn check_pairs(flows: &[FlowRecord], pairs: usize, messages: usize) {
    let first: Vec<&FlowRecord> = flows.iter().filter(|f| f.start == Time::ZERO).collect();
    assert_eq!((first.len(), flows.len()), (pairs, pairs * messages));
    let mut waiting: Vec<(u64, u32, u32)> = Vec::new();
    for flow in flows {
        if flow.start > Time::ZERO {
            let at = waiting.iter().position(|known| *known == (flow.start.as_ps(), flow.src, flow.dst));
            waiting.swap_remove(at.unwrap_or_else(|| panic!("{flow:?} follows from nothing")));
        }
        waiting.push((known(flow), flow.src, flow.dst));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn pairs_keep_to_the_rule_on_a_busy_fabric(
        count in 1u32..30, messages in 1u32..6, seed: u64, pfc: bool,
        transport in prop::sample::select(vec!["roce", "irn", "iwarp"]), loss in prop::sample::select(vec![0.0, 0.002]),
        last: bool,
    ) {
        let mut spec = run_on(TopologySpec::FatTree { k: 4 }, transport);
        (spec.seed, spec.transport.pfc, spec.fabric.link.loss) = (seed, pfc, loss);
        spec.fabric.switch.buffer = Some(Bytes(60_000));
        let traffic = pairs(count, (100.0, 60_000.0), Some(messages), Time::ZERO);
        spec.traffic = vec![if last { persistent(traffic) } else { traffic }];
        let output = run(&spec);
        prop_assert_eq!(&output.status, &RunStatus::Completed);
        assert_accounts(&output);
        prop_assert!(output.flows.iter().is_sorted_by_key(|f| f.start));
        check_pairs(&output.flows.iter().collect::<Vec<_>>(), count as usize, messages as usize);
    }
}

/// A pair with DCQCN on a single switch sends 10 packets, waits for the think time, and sends 10 more. At `start` each
/// of the other two hosts sends one packet to the same receiver. A packet that finds another in the queue is CE-marked.
fn second_message(start: u64, think_time: Time, last: bool) -> (RunOutput, Time) {
    let mut spec = run_on(TopologySpec::SingleSwitch { hosts: 4 }, "roce");
    spec.transport.pfc = true;
    let entry = CongestionDeclaration::of::<Dcqcn>(false);
    spec.transport.cc = CongestionSpec::of(entry);
    spec.fabric.switch.ecn =
        EcnSetup { kmin: Some(Bytes(0)), kmax: Some(Bytes(0)), pmax: Some(1.0), ..EcnSetup::default() };
    let traffic = pairs(1, (10_240.0, 10_240.0), Some(2), think_time);
    spec.traffic = vec![if last { persistent(traffic) } else { traffic }];
    let (src, dst) = (run(&spec).flows.get(0).unwrap().src, run(&spec).flows.get(0).unwrap().dst);
    let others: Vec<FlowSpec> =
        (0..4).filter(|host| ![src, dst].contains(host)).map(|host| flow(start, host, dst, 1_024)).collect();
    spec.traffic.extend(list(&others));
    let output = run(&spec);
    let of_pair: Vec<FlowRecord> = output.flows.iter().filter(|flow| flow.traffic == 0).collect();
    assert_eq!((of_pair.len(), of_pair[1].start.as_ps()), (2, known_on_switch(&of_pair[0]) + think_time.as_ps()));
    let took = Time::from_ps(fct(&of_pair[1]));
    (output, took)
}

fn known_on_switch(flow: &FlowRecord) -> u64 {
    flow.finish.unwrap().as_ps() + 2 * (D + LEAST)
}

/// Completion time of ten packets: the first `full` packets leave back to back, each further packet `pace` picoseconds
/// after the previous packet.
fn paced(full: u64, pace: u64) -> Time {
    Time::from_ps(2 * D + 2 * ROCE + full * ROCE + (9 - full) * pace)
}

/// Time between two frames of 1,086 B at 20 Gbps (`AT_20`) and at 30 Gbps (`AT_30`), in picoseconds.
const AT_20: u64 = 434_400;
const AT_30: u64 = 289_600;

#[test]
fn a_message_goes_on_at_the_rate_of_the_last_one() {
    // The packets of the other hosts meet the pair's first packet at the switch. DCQCN cuts the pair's rate once, from
    // 40 to 20 Gbps, during the first message.
    let (output, took) = second_message(0, Time::ZERO, true);
    assert_eq!((output.totals.notifications >= 1, took), (true, paced(0, AT_20)));
    assert_eq!(second_message(0, Time::ZERO, false).1, paced(9, 0), "a new connection starts at line rate");
    // After 55 us, fast recovery raises the rate half way back to 40 Gbps, although the pair has sent nothing in
    // between.
    assert_eq!(second_message(0, Time::from_us(60), true).1, paced(0, AT_30));
    assert_eq!(second_message(0, Time::from_us(45), true).1, paced(0, AT_20));
}

#[test]
fn a_notification_that_is_late_is_of_the_connection() {
    // The packets of the other hosts reach the switch between the pair's last two packets: only the last packet is
    // marked. Its CNP comes back 5.6 ns after the minimal frame with which the sender learns of the arrival: by then
    // one packet of the second message has left, and the next packet is not delayed.
    let start = ROCE * 82 / 10;
    let (output, took) = second_message(start, Time::ZERO, true);
    assert_eq!(took, paced(1, AT_20));
    assert!(output.totals.notifications >= 1);
    // The CNP arrives during the think time.
    assert_eq!(second_message(start, Time::from_us(1), true).1, paced(0, AT_20));
    assert_eq!(second_message(start, Time::from_us(1), false).1, paced(9, 0));
}

#[test]
fn a_connection_has_one_path() {
    let cores = |last: bool, transport: &str| -> Vec<u64> {
        let mut spec = run_on(TopologySpec::FatTree { k: 8 }, transport);
        let traffic = pairs(1, (1_024.0, 90_000.0), Some(40), Time::ZERO);
        spec.traffic = vec![if last { persistent(traffic) } else { traffic }];
        let output = run(&spec);
        assert_eq!((&output.status, output.flows.len()), (&RunStatus::Completed, 40));
        assert!(hops_of(&output.flows.get(0).unwrap()) == 6, "the pair is in two pods");
        let ports = output.ports.iter().filter(|port| port.node.starts_with("core"));
        ports.map(|port| port.priorities[0].tx_packets).filter(|packets| *packets > 0).collect()
    };
    assert_eq!(cores(true, "roce").len(), 1);
    assert_eq!(cores(true, "irn").len(), 2, "there and back");
    assert!(cores(false, "roce").len() > 4);
}

/// Number of links between the two hosts of a flow in the 128-host fat-tree.
fn hops_of(flow: &FlowRecord) -> u64 {
    match (flow.src / 4 == flow.dst / 4, flow.src / 16 == flow.dst / 16) {
        (true, _) => 2,
        (_, true) => 4,
        _ => 6,
    }
}

/// A packet is retransmitted after 8 us, just before its ACK is back. The copy arrives after the next message has
/// begun. The receiver must not take the copy for a packet of the next message, which has the same slot and the same
/// hashes.
#[test]
fn a_late_packet_is_not_one_of_the_next_message() {
    for (transport, frame) in [("roce", ROCE), ("irn", IRN)] {
        let mut spec = run_on(TopologySpec::SingleSwitch { hosts: 2 }, transport);
        if transport == "roce" {
            spec.transport.set("acks", true).unwrap();
        }
        spec.transport.set("timeouts", true).unwrap();
        spec.transport.set("rto_high", Time::from_us(8)).unwrap();
        if transport == "irn" {
            spec.transport.set("rto_low", Time::from_us(8)).unwrap();
            // The ACK of the late packet must not restart the timer of the next message.
            spec.transport.set("timer_restart", "progress").unwrap();
        }
        let think_time = 2_500_000;
        spec.traffic = vec![persistent(pairs(1, (1_024.0, 1_024.0), Some(5), Time::from_ps(think_time)))];
        let output = run(&spec);
        assert_eq!((&output.status, output.flows.len()), (&RunStatus::Completed, 5));
        let (there, back) = (2 * D + 2 * frame, 2 * D + 2 * LEAST);
        for (number, flow) in (0..).zip(&output.flows) {
            assert_eq!((flow.start.as_ps(), fct(&flow)), (number * (there + back + think_time), there), "{transport}");
            assert_eq!((flow.retransmitted, flow.timeouts), (1, 1));
        }
        assert_accounts(&output);
    }
}

#[test]
fn a_tcp_connection_is_set_up_once() {
    let mut spec = run_on(TopologySpec::SingleSwitch { hosts: 2 }, "iwarp");
    spec.transport.set("handshake", true).unwrap();
    let traffic = pairs(1, (100_000.0, 100_000.0), Some(3), Time::ZERO);
    let times = |traffic: Traffic| -> Vec<u64> {
        let output = run(&RunSpec { traffic: vec![traffic], ..spec.clone() });
        assert_eq!(output.status, RunStatus::Completed);
        output.flows.iter().map(|flow| fct(&flow)).collect()
    };
    let (fresh, kept) = (times(traffic.clone()), times(persistent(traffic)));
    assert!(fresh.iter().all(|time| *time == kept[0]), "each starts the same way: {fresh:?}");
    // A later flow of the connection needs no connection setup, and its window has already grown, so it sends at the
    // rate of the link. A full frame has 1,024 + 90 + 20 B; the last frame has 672 B of payload.
    let alone = 2 * D + (97 * 1_134 + 1_134 + 782) * 200;
    assert_eq!(kept[2], alone);
}

/// Checks that progress events never count more flows than the run has.
struct Plausible;
impl RunListener for Plausible {
    fn event(&self, _run: usize, event: &RunEvent) -> ControlFlow<()> {
        if let RunEvent::Progress(state) = event {
            assert!(state.flows_total.is_some_and(|total| state.flows_done <= total));
        }
        ControlFlow::Continue(())
    }
}

/// Closed loops, with and without an end, together with open-loop traffic, under all congestion controls.
fn scenario() -> Scenario {
    let mut runs = Vec::new();
    for cc in rnic_spec::Vocabulary::standard().congestion_controls().iter().filter(|cc| !cc.host_only) {
        let ends = [("roce", None), ("irn", Some(Time::from_us(400)))];
        for ((transport, duration), last) in ends.into_iter().flat_map(|end| [(end, false), (end, true)]) {
            let mut spec = run_on(TopologySpec::FatTree { k: 4 }, transport_with(cc, transport));
            spec.name = format!("{transport} {} {last}", cc.name);
            spec.transport.cc = CongestionSpec::of(*cc);
            spec.transport.pfc = transport == "roce";
            spec.limits.duration = duration;
            let end = |rounds| if duration.is_some() { None } else { Some(rounds) };
            let sizes = SizeDistribution { name: "uniform".to_string(), points: vec![(100.0, 0.0), (90_000.0, 1.0)] };
            let (locality, arrivals) = Default::default();
            let open = TrafficPattern::Poisson { load: 0.3, sizes, flows: 200, locality, arrivals };
            let mut pairs = pairs(12, (100.0, 90_000.0), end(6), Time::from_us(3));
            pairs.warmup = 5;
            let incast = incast(8, 400_000, 3, end(5));
            let (pairs, incast) = if last { (persistent(pairs), persistent(incast)) } else { (pairs, incast) };
            spec.traffic = vec![pairs, source("open", open), incast];
            runs.push(spec);
        }
    }
    Scenario { title: "t".to_string(), name: "t".to_string(), seed: 1, runs }
}

#[test]
fn the_same_for_any_number_of_threads() {
    let outputs = |threads| -> Vec<RunOutput> {
        let reports = execute_remaining(&Catalogue::standard(), &scenario(), Vec::new(), threads, &Plausible).unwrap();
        reports.into_iter().flatten().map(|report| report.output).collect()
    };
    let one = outputs(1);
    for output in &one {
        assert_eq!(output.status, RunStatus::Completed);
        assert_accounts(output);
        assert!(output.flows.iter().is_sorted_by_key(|f| (f.start, f.traffic, f.src)));
        let of = |traffic| output.flows.iter().filter(move |f| f.traffic == traffic);
        assert_eq!(of(0).filter(|f| !f.measured).count(), 5);
        assert!((0..3).all(|traffic| of(traffic).count() >= 16), "all sources send");
        if output.truncated.is_none() {
            assert_eq!([0, 1, 2].map(|traffic| of(traffic).count()), [72, 200, 40]);
        }
    }
    assert!(
        one.iter().any(|output| output.truncated.is_some()) && one.iter().any(|output| output.totals.pause_frames > 0)
    );
    assert!(one == outputs(2) && one == outputs(7));
}
