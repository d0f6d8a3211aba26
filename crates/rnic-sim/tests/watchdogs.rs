//! Watchdogs against pause storms, drop rules and dead hosts. All expected times and counts are computed by hand.

use crate::common::{D, assert_accounts, failure, flow, link_between, list, outcome, resolved, run_on};
use rnic_fabric::config::TopologySpec;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_sim::run::{Sharing, simulate_run_shared};
use rnic_spec::{
    DeadHost, DropRule, NicWatchdog, RunOutput, RunSpec, RunStatus, Storm, SwitchWatchdog, UnknownMacAction,
    WatchdogAction, WatchdogRecord, WatchedPorts,
};
use rnic_transport::Time;
use rnic_transport::settings::Value;

const MS: u64 = 1_000_000_000;

/// Three hosts on one switch with PFC. The NIC of h0 pauses the switch from 1 ms on, for `storm_ms`.
fn stormy(storm_ms: Option<u64>) -> RunSpec {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
    run.transport.pfc = true;
    let duration = storm_ms.map(Time::from_ms);
    run.fabric.storms = vec![Storm { host: 0, start: Time::from_ms(1), duration, priority: None }];
    run
}

/// The watchdog of the tests: checks every millisecond, detection 5 ms, restoration 3 ms.
fn watchdog(action: WatchdogAction) -> Option<SwitchWatchdog> {
    let (detection, restoration, interval) = (Time::from_ms(5), Time::from_ms(3), Time::from_ms(1));
    Some(SwitchWatchdog { detection, restoration, interval, action, ports: WatchedPorts::Hosts })
}

/// The port of the switch that leads to host `host`, in a single-switch fabric with three hosts.
fn port_to(host: u32) -> u32 {
    3 + host
}

fn found(action: WatchdogAction, detected: u64, restored: Option<u64>, dropped: u64) -> WatchdogRecord {
    WatchdogRecord {
        port: port_to(0),
        priority: Some(0),
        action: Some(action),
        detected: Time::from_ms(detected),
        restored: restored.map(Time::from_ms),
        dropped,
    }
}

/// h1 sends 110 MB to h0, which take 24 ms without the storm. The storm lasts from 1 ms to 21 ms. The check at 2 ms
/// sees that the queue has sent packets since the check at 1 ms, for the pause takes effect a link delay after 1 ms.
/// The checks at 3, 4, 5, 6 and 7 ms see a stuck queue, so the storm is found at 7 ms. The XON arrives a link delay
/// after 21 ms. The checks at 22, 23 and 24 ms are less than 3 ms later, so the port is restored at 25 ms.
#[test]
fn a_switch_finds_a_storm_and_restores_the_port() {
    for action in [WatchdogAction::Alert, WatchdogAction::Forward, WatchdogAction::Drop] {
        let mut run = stormy(Some(20));
        run.fabric.watchdogs.switch = watchdog(action);
        let output = outcome(&run, &[flow(0, 1, 0, 110_000_000)]);
        assert_accounts(&output);
        assert_eq!(output.status, RunStatus::Completed, "{action:?}");
        let dropped = output.totals.dropped;
        assert_eq!(output.watchdog, [found(action, 7, Some(25), dropped)]);
        let port = &output.ports[port_to(0) as usize].priorities[0];
        let paused_ms = port.paused_ps / MS;
        match action {
            // The pause lasts for the 20 ms of the storm.
            WatchdogAction::Alert => assert_eq!((paused_ms, port.paused_ps % MS, dropped), (20, 0, 0)),
            // The switch obeys the pause from 1 ms + one link delay (and the frame's 16.8 ns) until 7 ms.
            WatchdogAction::Forward => assert_eq!((paused_ms, dropped), (5, 0)),
            WatchdogAction::Drop => assert!(paused_ms == 5 && dropped > 100, "{paused_ms} {dropped}"),
        }
    }
}

/// While the watchdog drops packets, the switch is empty and sends no pauses, and h1 can send to h2 as if there were no
/// storm.
#[test]
fn a_watchdog_that_drops_frees_the_rest_of_the_fabric() {
    let flows = [flow(0, 1, 0, 20_000_000), flow(10 * MS, 1, 2, 1_000_000)];
    let finish = |watchdog| {
        let mut run = stormy(None);
        run.limits.duration = Some(Time::from_ms(40));
        run.fabric.watchdogs.switch = watchdog;
        let output = outcome(&run, &flows);
        assert_accounts(&output);
        (output.flows.get(1).unwrap().finish, output)
    };
    let (held, output) = finish(None);
    assert_eq!((held, output.watchdog.len()), (None, 0));
    let (freed, output) = finish(watchdog(WatchdogAction::Drop));
    assert!(freed.unwrap() < Time::from_us(10_800), "{freed:?}");
    assert_eq!(output.watchdog, [found(WatchdogAction::Drop, 7, None, output.totals.dropped)]);
    // The pause of h1 by the switch ends when the watchdog drops the queue.
    assert!(output.ports[1].priorities[0].paused_ps < 7 * MS);
    // With `ports = "hosts"` and a storm at a host, all ports are the same here.
    let all = SwitchWatchdog { ports: WatchedPorts::All, ..watchdog(WatchdogAction::Drop).unwrap() };
    assert_eq!(finish(Some(all)).1.watchdog, output.watchdog);
}

/// A storm that is shorter than the detection time is not found, and neither is a paused port without packets.
#[test]
fn a_short_storm_and_an_idle_port_are_no_storms() {
    for (storm, flows) in [(Some(5), [flow(0, 1, 0, 10_000_000)]), (Some(20), [flow(0, 1, 2, 1_000_000)])] {
        let mut run = stormy(storm);
        run.fabric.watchdogs.switch = watchdog(WatchdogAction::Drop);
        let output = outcome(&run, &flows);
        assert_eq!((output.watchdog.len(), output.totals.dropped), (0, 0));
    }
}

/// A deadlock: the run without a watchdog fails; a watchdog that only alerts does not keep a run without events alive.
/// A watchdog on all ports that drops packets breaks the deadlock, and the flows continue, although they may deadlock
/// again.
#[test]
fn a_watchdog_on_all_ports_breaks_a_deadlock() {
    let mut run = crate::common::ring(3, "roce");
    run.transport.pfc = true;
    run.fabric.switch.buffer = Some(rnic_transport::Bytes(60_000));
    for (at, to, via) in [("s0", "h1", "s2"), ("s1", "h2", "s0"), ("s2", "h0", "s1")] {
        let (at, to, via) = (at.to_string(), vec![to.to_string()], via.to_string());
        run.fabric.routes.push(rnic_fabric::config::NamedRoute { at, to, via });
    }
    let flows = [flow(0, 0, 1, 4_000_000), flow(0, 1, 2, 4_000_000), flow(0, 2, 0, 4_000_000)];
    let delivered = |output: &RunOutput| output.flows.iter().map(|flow| flow.delivered).sum::<u64>();
    let stuck = outcome(&run, &flows);
    assert!(failure(&stuck).contains("deadlock"), "{:?}", stuck.status);
    run.fabric.watchdogs.switch = watchdog(WatchdogAction::Alert);
    assert!(failure(&outcome(&run, &flows)).contains("deadlock"));
    let all = WatchedPorts::All;
    run.fabric.watchdogs.switch =
        watchdog(WatchdogAction::Drop).map(|settings| SwitchWatchdog { ports: all, ..settings });
    run.limits.duration = Some(Time::from_ms(500));
    let freed = outcome(&run, &flows);
    assert_accounts(&freed);
    assert!(!freed.watchdog.is_empty() && freed.totals.dropped > 0);
    assert!(delivered(&freed) > delivered(&stuck), "{} {}", delivered(&freed), delivered(&stuck));
    // The three ports of the cycle are stuck from the first checks on: found at the fifth check after the first.
    assert_eq!(freed.watchdog[0].detected, Time::from_ms(6));
}

/// The NIC is stuck from 1 ms on, and stops pausing 100 ms later, for ever. From then on it drops what arrives.
#[test]
fn a_nic_stops_its_own_storm() {
    let mut run = stormy(None);
    run.fabric.watchdogs.nic = Some(NicWatchdog { detection: Time::from_ms(100) });
    run.limits.duration = Some(Time::from_ms(120));
    let flows = [flow(0, 1, 0, 20_000_000), flow(50 * MS, 1, 2, 1_000_000)];
    let output = outcome(&run, &flows);
    assert_accounts(&output);
    let record = WatchdogRecord {
        port: 0,
        priority: None,
        action: None,
        detected: Time::from_ms(101),
        restored: None,
        dropped: 0,
    };
    assert_eq!(output.watchdog, [record]);
    assert_eq!(output.ports[port_to(0) as usize].priorities[0].paused_ps, 100 * MS);
    let finish = |flow: u32| output.flows.get(flow).unwrap().finish;
    assert!(finish(0).is_none() && output.totals.dropped > 0);
    // The flow from h1 to h2 waits for the end of the storm, because its NIC is paused.
    assert!(finish(1).unwrap() > Time::from_ms(101) && finish(1).unwrap() < Time::from_ms(103));
}

/// The switch drops the last of every four data packets of h0, and none of h1.
#[test]
fn a_drop_rule_drops_by_count() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "irn");
    run.fabric.faults.drops = vec![DropRule { at: "s0".to_string(), from: "h0".to_string(), every: 4 }];
    let output = outcome(&run, &[flow(0, 0, 2, 1_024 * 40), flow(0, 1, 2, 1_024 * 40)]);
    assert_accounts(&output);
    assert_eq!(output.status, RunStatus::Completed);
    // h0 sends 40 packets and retransmits every dropped one: n / 4 of the n packets that it sends are dropped, so
    // n - floor(n / 4) = 40 and n = 53.
    assert_eq!((output.totals.data, output.totals.dropped_data, output.totals.retransmitted), (40 + 53, 13, 13));
    assert_eq!(output.ports[port_to(0) as usize].priorities[0].drops, 13);
    // Go-back-0: no message of four packets or more ever gets through.
    let mut run = RunSpec { fabric: run.fabric, ..run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce") };
    run.transport.settings.set("go_back", Value::choice("0")).unwrap();
    run.limits.duration = Some(Time::from_ms(10));
    let output = outcome(&run, &[flow(0, 0, 2, 1_024 * 40), flow(0, 1, 2, 1_024 * 40)]);
    assert_accounts(&output);
    let finish = [0, 1].map(|flow| output.flows.get(flow).unwrap().finish.is_some());
    assert_eq!((finish, output.totals.dropped_data > 20), ([false, true], true));
}

/// h2 is dead. The switch copies each packet for it to every port but the one of the sender: h1 and h2. Both NICs
/// receive and ignore the copies.
#[test]
fn packets_for_a_dead_host_are_flooded_or_dropped() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
    run.transport.settings.set("timeouts", Value::Flag(false)).unwrap();
    run.limits.duration = Some(Time::from_ms(1));
    let dead = |unknown_mac| vec![DeadHost { host: 2, start: Time::ZERO, duration: None, unknown_mac }];
    run.fabric.faults.dead = dead(UnknownMacAction::Flood);
    let flows = [flow(0, 0, 2, 1_024 * 10)];
    let output = outcome(&run, &flows);
    assert_accounts(&output);
    let sent = |output: &RunOutput, host| output.ports[port_to(host) as usize].priorities[0].tx_packets;
    assert_eq!((sent(&output, 0), sent(&output, 1), sent(&output, 2)), (0, 10, 10));
    assert_eq!((output.totals.flooded, output.totals.delivered, output.flows.get(0).unwrap().delivered), (10, 20, 0));
    run.fabric.faults.dead = dead(UnknownMacAction::Drop);
    let output = outcome(&run, &flows);
    assert_accounts(&output);
    assert_eq!((output.totals.flooded, output.totals.delivered, output.totals.dropped), (0, 0, 10));
    // A host that comes back receives: the first packet reaches the switch a transmission and a delay after 0.
    run.fabric.faults.dead[0].duration = Some(Time::from_ps(D));
    let output = outcome(&run, &flows);
    assert_eq!((output.totals.dropped, output.status), (0, RunStatus::Completed));
}

/// Two switches: copies that reach the other switch go no further.
#[test]
fn a_copy_is_flooded_once() {
    let names = |prefix: &str, n: usize| (0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
    let mut run = run_on(TopologySpec::Graph { hosts: names("h", 3), switches: names("s", 2) }, "roce");
    for (from, to) in [("h0", "s0"), ("h1", "s0"), ("h2", "s1"), ("s0", "s1")] {
        run.fabric.links.push(link_between(from, to));
    }
    run.limits.duration = Some(Time::from_ms(1));
    run.transport.settings.set("timeouts", Value::Flag(false)).unwrap();
    run.fabric.faults.dead =
        vec![DeadHost { host: 1, start: Time::ZERO, duration: None, unknown_mac: UnknownMacAction::Flood }];
    let output = outcome(&run, &[flow(0, 0, 1, 1_024 * 10)]);
    assert_accounts(&output);
    // Ten packets become 20: those to h1 arrive, those to s1 are dropped there.
    assert_eq!((output.totals.flooded, output.totals.delivered, output.totals.dropped), (10, 10, 10));
}

/// Faults and watchdogs give the same output on any number of threads.
#[test]
fn threads_change_nothing() {
    let mut run = run_on(
        TopologySpec::LeafSpine { leaves: 3, spines: 2, hosts_per_leaf: 3, uplink_rate: None, uplink_delay: None },
        "roce",
    );
    run.transport.pfc = true;
    run.limits.duration = Some(Time::from_ms(4));
    run.fabric.storms =
        vec![Storm { host: 0, start: Time::from_us(100), duration: Some(Time::from_ms(2)), priority: None }];
    let us = Time::from_us;
    let (action, ports) = (WatchdogAction::Drop, WatchedPorts::Hosts);
    run.fabric.watchdogs.switch =
        Some(SwitchWatchdog { detection: us(300), restoration: us(200), interval: us(100), action, ports });
    run.fabric.faults.drops = vec![DropRule { at: "leaf1".to_string(), from: "h4".to_string(), every: 50 }];
    let dead = DeadHost { host: 8, start: us(50), duration: Some(us(900)), unknown_mac: UnknownMacAction::Flood };
    run.fabric.faults.dead = vec![dead];
    let flows: Vec<_> = (0..9)
        .flat_map(|src| (0..9).filter(move |dst| *dst != src).map(move |dst| flow(0, src, dst, 100_000)))
        .collect();
    run.traffic = list(&flows);
    let resolved = resolve(&Catalogue::standard(), &run).unwrap();
    let whole = simulate_run_shared(&Catalogue::standard(), &run, &resolved, &Sharing::among(1));
    assert!(!whole.watchdog.is_empty() && whole.totals.flooded > 0 && whole.totals.dropped > 100, "{:?}", whole.totals);
    assert_accounts(&whole);
    for threads in [2, 3] {
        let plan = |topology: &rnic_fabric::Topology| rnic_fabric::PartitionPlan::balanced(topology, 2 * threads);
        let shared = simulate_run_shared(&Catalogue::standard(), &run, &resolved, &Sharing::in_parts(threads, &plan));
        assert_eq!(shared, whole, "{threads} threads");
    }
}

/// A mistake in a drop rule is one sentence.
#[test]
fn a_drop_rule_names_a_switch_and_its_neighbour() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "roce");
    run.traffic = list(&[flow(0, 0, 1, 1_000)]);
    let rule = |at: &str, from: &str| DropRule { at: at.to_string(), from: from.to_string(), every: 2 };
    for (rules, message) in [
        (vec![rule("h0", "s0")], "[[fabric.drop]]: \"h0\" is a host; `at` names a switch"),
        (
            vec![rule("s1", "h0")],
            "[[fabric.drop]]: no node is called \"s1\"; ports.csv and `rnic topology` name the nodes",
        ),
        (vec![rule("s0", "h0"); 2], "[[fabric.drop]]: two rules are for packets from h0 at s0"),
    ] {
        run.fabric.faults.drops = rules;
        assert_eq!(resolve(&Catalogue::standard(), &run).unwrap_err().to_string(), message);
    }
    run.fabric.faults.drops.clear();
    assert!(resolved(&run, &[flow(0, 0, 1, 1_000)]).parameters.iter().all(|(key, _)| key != "drop rule"));
}
