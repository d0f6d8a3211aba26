//! Simulations that another program drives have the results of a scenario with the same flows.

use crate::common::*;
use proptest::prelude::*;
use rnic_fabric::config::TopologySpec;
use rnic_sim::resolve::resolve;
use rnic_sim::run::simulate_run;
use rnic_sim::{Catalogue, FlowCompletion, FlowRequest, Simulation, SimulationError};
use rnic_spec::{FlowRecord, RunOutput, RunSpec, RunStatus, Traffic, TrafficPattern};
use rnic_transport::{Bytes, Time};

fn outside(reaction: Option<Time>) -> Vec<Traffic> {
    let pattern = TrafficPattern::Outside { largest: Bytes(1_000_000), reaction };
    vec![Traffic { name: "outside".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 }]
}

fn driven(run: &RunSpec, threads: usize) -> Simulation {
    driven_with(run, threads, None)
}

fn driven_with(run: &RunSpec, threads: usize, reaction: Option<Time>) -> Simulation {
    let run = RunSpec { traffic: outside(reaction), ..run.clone() };
    Simulation::new(Catalogue::standard(), run, threads).unwrap()
}

fn request(start: u64, src: u32, dst: u32, bytes: u64) -> FlowRequest {
    FlowRequest { start: Time::from_ps(start), src, dst, bytes }
}

/// The output of a scenario with these flows.
fn listed(run: &RunSpec, flows: &[FlowRequest]) -> RunOutput {
    let flows: Vec<_> = flows.iter().map(|f| flow(f.start.as_ps(), f.src, f.dst, f.bytes)).collect();
    outcome(run, &flows)
}

fn assert_same(driven: &RunOutput, listed: &RunOutput) {
    let flows = |output: &RunOutput| output.flows.iter().collect::<Vec<FlowRecord>>();
    assert_eq!(flows(driven), flows(listed));
    assert_eq!(format!("{:?}", driven.ports), format!("{:?}", listed.ports));
    assert_eq!((driven.totals, driven.end, driven.offered), (listed.totals, listed.end, listed.offered));
    assert_eq!((&driven.status, &driven.truncated), (&listed.status, &listed.truncated));
    assert_eq!((&driven.parameters, &driven.warnings), (&listed.parameters, &listed.warnings));
}

/// Submits the flows, each some time before its start, and advances by the times in `steps`.
fn drive(simulation: &mut Simulation, flows: &[FlowRequest], steps: &[u64]) -> Vec<FlowCompletion> {
    let mut completions = Vec::new();
    let mut left = flows.to_vec();
    left.sort_by_key(|flow| (flow.start, flow.src));
    let mut steps = steps.iter().cycle();
    while !left.is_empty() {
        let until = simulation.now() + Time::from_ps(*steps.next().unwrap());
        // Every other step also submits flows of the next microseconds.
        let ahead = Time::from_ps(*steps.next().unwrap() % 2 * 5_000_000);
        let known = left.partition_point(|flow| flow.start < until.saturating_add(ahead));
        simulation.submit(&left.drain(..known).collect::<Vec<_>>()).unwrap();
        simulation.advance(until).unwrap();
        completions.extend(simulation.completions());
        assert!(completions.iter().all(|completion| completion.visible <= until));
    }
    while simulation.under_way() > 0 {
        simulation.advance(simulation.now() + Time::from_ps(*steps.next().unwrap())).unwrap();
        completions.extend(simulation.completions());
    }
    completions
}

fn any_flows() -> impl Strategy<Value = Vec<FlowRequest>> {
    let flow = (0u64..60, 0u32..8, 1u32..8, 1u64..40_000);
    let flow = flow.prop_map(|(at, src, to, bytes)| request(at * 997_000, src, (src + to) % 8, bytes));
    prop::collection::vec(flow, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_driven_run_has_the_results_of_a_scenario(
        flows in any_flows(), steps in prop::collection::vec(1u64..9_000_000, 2..12),
        transport in prop::sample::select(vec!["roce", "irn", "tcp", "ndp", "homa"]), threads in 1usize..4,
        pfc in any::<bool>(),
    ) {
        let mut run = run_on(TopologySpec::LeafSpine { leaves: 4, spines: 2, hosts_per_leaf: 2, uplink_rate: None, uplink_delay: None }, transport);
        run.transport.pfc = pfc && transport == "roce";
        let mut simulation = driven(&run, threads);
        let completions = drive(&mut simulation, &flows, &steps);
        let reaction = simulation.reaction();
        let output = simulation.finish().unwrap().output;
        assert_same(&output, &listed(&run, &flows));
        // The completions are those of the flow records.
        prop_assert_eq!(output.status, RunStatus::Completed);
        let mut finishes: Vec<Time> = output.flows.iter().filter_map(|flow| flow.finish).collect();
        finishes.sort_unstable();
        prop_assert_eq!(completions.iter().map(|completion| completion.delivered).collect::<Vec<_>>(), finishes);
        prop_assert!(completions.iter().all(|c| c.visible == c.delivered + reaction && c.known > c.delivered));
    }
}

/// Two hosts that send one message at a time to each other; `step` advances the simulation.
fn ping_pong(simulation: &mut Simulation, rounds: u32, mut step: impl FnMut(&mut Simulation)) -> Vec<FlowRequest> {
    let mut flows = vec![request(0, 0, 1, 3_000)];
    simulation.submit(&flows).unwrap();
    while flows.len() < rounds as usize {
        step(simulation);
        for completion in simulation.completions() {
            let last = flows[completion.flow as usize];
            let reply = FlowRequest { start: completion.visible + D_TIME, src: last.dst, dst: last.src, ..last };
            simulation.submit(&[reply]).unwrap();
            flows.push(reply);
        }
    }
    flows
}

const D_TIME: Time = Time::from_ps(D);

#[test]
fn reactions_to_completions_do_not_depend_on_the_steps() {
    for transport in ["roce", "irn", "ndp"] {
        let run = run_on(TopologySpec::SingleSwitch { hosts: 2 }, transport);
        let mut simulation = driven(&run, 1);
        let by_completion = ping_pong(&mut simulation, 40, |s| {
            s.advance_to_completion(Time::MAX).unwrap().unwrap();
        });
        let output = simulation.finish().unwrap().output;
        // Steps of at most `D` see each completion before the reply starts.
        let mut simulation = driven(&run, 1);
        let mut turn = 0;
        let by_steps = ping_pong(&mut simulation, 40, |s| {
            turn += 1;
            s.advance(s.now() + Time::from_ps(D / (1 + turn % 7))).unwrap();
        });
        assert_eq!(by_completion, by_steps);
        assert_same(&simulation.finish().unwrap().output, &output);
        assert_same(&output, &listed(&run, &by_completion));
    }
}

#[test]
fn a_declared_reaction_delays_completions() {
    let run = run_on(TopologySpec::SingleSwitch { hosts: 2 }, "roce");
    for reaction in [Time::from_ns(50), Time::from_us(30)] {
        let mut simulation = driven_with(&run, 1, Some(reaction));
        assert_eq!(simulation.reaction(), reaction);
        simulation.submit(&[request(0, 0, 1, 1_024)]).unwrap();
        let arrival = Time::from_ps(2 * D + 2 * ROCE);
        assert_eq!(simulation.advance_to_completion(Time::MAX), Ok(Some(arrival + reaction)));
        let [completion] = simulation.completions()[..] else { panic!("one completion") };
        assert_eq!((completion.delivered, completion.flow), (arrival, 0));
        // A limit ends the time without a completion.
        assert_eq!(simulation.advance_to_completion(Time::from_ms(1)), Ok(None));
        assert_eq!(simulation.now(), Time::from_ms(1));
        assert_eq!(simulation.advance_to_completion(Time::MAX), Ok(None));
        assert_eq!(simulation.now(), Time::from_ms(1));
    }
}

#[test]
fn other_traffic_runs_beside() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 8 }, "irn");
    let flows: Vec<_> = (0..50).map(|i| flow(i * 10_000_000, (i % 4) as u32, 5, 20_000)).collect();
    run.traffic = list(&flows);
    run.traffic.extend(outside(None));
    let own: Vec<_> = (0..50).map(|i| request(i * 9_000_000, 6, 5, 9_000)).collect();
    let mut simulation = Simulation::new(Catalogue::standard(), run.clone(), 1).unwrap();
    drive(&mut simulation, &own, &[3_000_000, 1_100_000]);
    let driven = simulation.finish().unwrap().output;
    let own: Vec<_> = own.iter().map(|f| flow(f.start.as_ps(), f.src, f.dst, f.bytes)).collect();
    run.traffic.pop();
    run.traffic.extend(list(&own));
    let listed = simulate_run(&Catalogue::standard(), &run, &resolve(&Catalogue::standard(), &run).unwrap());
    assert_same(&driven, &listed);
}

#[test]
fn ports_show_queues_and_utilisation() {
    let run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
    let mut simulation = driven(&run, 1);
    simulation.submit(&[request(0, 0, 2, 500_000), request(0, 1, 2, 500_000)]).unwrap();
    simulation.advance(Time::from_us(50)).unwrap();
    let (at, ports) = simulation.ports().unwrap();
    assert!(at <= simulation.now() && at + simulation.reaction() >= Time::from_us(50) - D_TIME);
    let to = |peer: &str| ports.iter().find(|port| port.peer == peer && port.node != peer).unwrap();
    // Two hosts send at the full rate to one, so a queue of half of their bytes waits for its port.
    let (busy, sent) = (to("h2").busy.as_ps(), to("h2").sent.0);
    assert!(to("h2").queued.0 > 100_000 && to("h0").queued.0 == 0, "{ports:?}");
    assert!(busy > at.as_ps() * 8 / 10 && sent * 200 > busy * 9 / 10, "{ports:?}");
    assert_eq!((simulation.under_way(), simulation.hosts()), (2, 3));
    // Asking changes nothing.
    let flows = [request(0, 0, 2, 500_000), request(0, 1, 2, 500_000)];
    assert_same(&simulation.finish().unwrap().output, &listed(&run, &flows));
}

#[test]
fn misuse_gets_a_sentence() {
    let run = run_on(TopologySpec::SingleSwitch { hosts: 4 }, "roce");
    let mut simulation = driven(&run, 1);
    simulation.advance(Time::from_us(10)).unwrap();
    let mut refused = |flow| simulation.submit(&[request(20_000_000, 0, 1, 5), flow]).unwrap_err().to_string();
    assert_eq!(
        refused(request(9_999_999, 0, 1, 1)),
        "flow 1: starts at 9.999999 us (9999999 ps); accepted: 10 us (10000000 ps) or later"
    );
    assert_eq!(
        refused(request(10_000_000, 0, 4, 1)),
        "flow 1: from host 0 to host 4; accepted: two different hosts from 0 to 3"
    );
    assert_eq!(
        refused(request(10_000_000, 2, 2, 1)),
        "flow 1: from host 2 to host 2; accepted: two different hosts from 0 to 3"
    );
    let bytes = "flow 1: 1000001 bytes; accepted: 1 to 1000000, the `largest` of the traffic source";
    assert_eq!(refused(request(10_000_000, 0, 1, 1_000_001)), bytes);
    let past = SimulationError::Past { now: Time::from_us(10), until: Time::from_us(9) };
    assert_eq!(simulation.advance(Time::from_us(9)), Err(past.clone()));
    assert_eq!(simulation.advance_to_completion(Time::from_us(9)), Err(past));
    // None of the refused calls has submitted a flow.
    assert_eq!((simulation.submit(&[]), simulation.under_way()), (Ok(0), 0));
    assert_eq!(simulation.finish().unwrap().output.flows.len(), 0);

    let without = RunSpec { traffic: list(&[flow(0, 0, 1, 1)]), ..run.clone() };
    let error = Simulation::new(Catalogue::standard(), without, 1).unwrap_err();
    assert!(error.to_string().contains("add a [traffic] table with pattern = \"outside\""), "{error}");
    let mut twice = run.clone();
    twice.traffic = [outside(None), outside(None)].concat();
    twice.traffic[1].name = "other".into();
    let error = Simulation::new(Catalogue::standard(), twice, 1).unwrap_err();
    assert_eq!(error.to_string(), "run \"run\" has several traffic sources with pattern = \"outside\"; accepted: one");

    // `rnic run` has no program that submits flows.
    let alone = RunSpec { traffic: outside(None), ..run };
    let output = simulate_run(&Catalogue::standard(), &alone, &resolve(&Catalogue::standard(), &alone).unwrap());
    assert!(failure(&output).contains("start the simulation from that program, with `rnic.Simulation`"), "{output:?}");
}

#[test]
fn a_duration_or_a_failure_ends_the_simulation() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
    run.limits.duration = Some(Time::from_us(100));
    let flows = [request(0, 0, 1, 9_000), request(95_000_000, 0, 1, 900_000)];
    let mut simulation = driven(&run, 1);
    simulation.submit(&flows).unwrap();
    simulation.advance(Time::from_us(200)).unwrap();
    assert_eq!((simulation.completions().len(), simulation.under_way()), (1, 1));
    let ended = "the simulation has ended: the run's `duration` was over at 100 us";
    assert_eq!(simulation.submit(&[request(300_000_000, 0, 1, 1)]).unwrap_err().to_string(), ended);
    assert_eq!(simulation.ports().unwrap_err().to_string(), ended);
    assert_same(&simulation.finish().unwrap().output, &listed(&run, &flows));

    run.limits.duration = None;
    run.limits.max_time = Some(Time::from_us(20));
    let mut simulation = driven(&run, 1);
    simulation.submit(&flows).unwrap();
    let error = simulation.advance(Time::from_ms(1)).unwrap_err().to_string();
    assert!(error.starts_with("the simulation has ended: the time limit was reached"), "{error}");
    assert_eq!(simulation.submit(&[]).unwrap_err().to_string(), error);
    assert_same(&simulation.finish().unwrap().output, &listed(&run, &flows));
}

#[test]
fn an_interrupted_or_dropped_simulation_ends() {
    let run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
    let mut simulation = driven(&run, 1);
    simulation.submit(&[request(0, 0, 1, 900_000)]).unwrap();
    drop(simulation);
    let mut simulation = driven(&run, 1);
    let many: Vec<_> = (0..20_000).map(|i| request(i * 1_000, (i % 2) as u32, 2, 900_000)).collect();
    simulation.submit(&many).unwrap();
    assert_eq!(simulation.advance_unless(Time::from_ms(30_000), &mut || true), Err(SimulationError::Interrupted));
    assert_eq!(simulation.submit(&[]), Err(SimulationError::Interrupted));
    assert_eq!(simulation.finish().map(|record| record.output.offered), Err(SimulationError::Interrupted));
}
