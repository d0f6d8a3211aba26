//! Invariants that every run satisfies, checked on random small fabrics with random settings and traffic.

use crate::common::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rnic_fabric::config::{SchedulerSpec, TopologySpec, TrimSpec, TrimmedPriority};
use rnic_sim::Catalogue;
use rnic_spec::CongestionSpec;
use rnic_spec::FlowSpec;
use rnic_spec::RunStatus;
use rnic_spec::{OutputSetup, QueueingSetup, RunSpec};
use rnic_transport::settings::Value;
use rnic_transport::{BitRate, Bytes, Time};
use std::cell::Cell;

fn topology() -> impl Strategy<Value = TopologySpec> {
    let rate = prop::option::of((1u64..=60).prop_map(BitRate::from_gbps));
    let delay = prop::option::of((0u64..=3_000).prop_map(Time::from_ns));
    prop_oneof![
        Just(TopologySpec::FatTree { k: 2 }),
        Just(TopologySpec::FatTree { k: 4 }),
        (2u32..6).prop_map(|hosts| TopologySpec::SingleSwitch { hosts }),
        (1u32..4, 1u32..4, rate.clone(), delay.clone()).prop_map(|(left, right, rate, delay)| {
            TopologySpec::Dumbbell { left, right, bottleneck_rate: rate, bottleneck_delay: delay }
        }),
        (2u32..4, 1u32..4, 1u32..3, rate.clone(), delay.clone()).prop_map(|(leaves, spines, hosts, rate, delay)| {
            TopologySpec::LeafSpine { leaves, spines, hosts_per_leaf: hosts, uplink_rate: rate, uplink_delay: delay }
        }),
        (1u32..4, 2u32..4, 1u32..3, 1u32..3, 1u32..3, rate.clone(), delay.clone()).prop_map(
            |(pods, leaves_per_pod, spines_per_pod, cores_per_plane, hosts_per_leaf, rate, delay)| {
                TopologySpec::LeafSpineCore {
                    pods,
                    leaves_per_pod,
                    spines_per_pod,
                    cores_per_plane,
                    hosts_per_leaf,
                    uplink_rate: rate,
                    uplink_delay: delay,
                    core_rate: None,
                    core_delay: None,
                }
            }
        ),
        (2u32..4, 1u32..3, rate, delay).prop_map(|(routers, hosts, rate, delay)| TopologySpec::Dragonfly {
            groups: routers,
            routers_per_group: routers,
            global_links: 1,
            hosts_per_router: hosts,
            local_rate: rate,
            local_delay: delay,
            global_rate: None,
            global_delay: None,
        }),
    ]
}

fn hosts(topology: &TopologySpec) -> u32 {
    match topology {
        TopologySpec::FatTree { k } => k * k * k / 4,
        TopologySpec::SingleSwitch { hosts } => *hosts,
        TopologySpec::Dumbbell { left, right, .. } => left + right,
        TopologySpec::LeafSpine { leaves, hosts_per_leaf, .. } => leaves * hosts_per_leaf,
        TopologySpec::LeafSpineCore { pods, leaves_per_pod, hosts_per_leaf, .. } => {
            pods * leaves_per_pod * hosts_per_leaf
        }
        TopologySpec::Dragonfly { groups, routers_per_group, hosts_per_router, .. } => {
            groups * routers_per_group * hosts_per_router
        }
        TopologySpec::MultiPlane { planes, leaves, hosts_per_leaf, .. } => planes * leaves * hosts_per_leaf,
        TopologySpec::Graph { hosts, .. } => hosts.len() as u32,
    }
}

fn congestion_controls() -> Vec<rnic_spec::CongestionDeclaration> {
    rnic_spec::Vocabulary::standard().congestion_controls().iter().filter(|cc| !cc.host_only).copied().collect()
}

prop_compose! {
    fn setup()(
        topology in topology(),
        transport in prop::sample::select(vec!["roce", "irn", "iwarp", "uet"]),
        recovery in 0usize..6,
        cc in prop::sample::select(congestion_controls()),
        (pfc, acks, control_priority, uncapped, dynamic_rto) in any::<(bool, bool, bool, bool, bool)>(),
        lossy in prop_oneof![3 => Just(0.0), 1 => Just(0.002), 1 => Just(0.03)],
        delay in 0u64..3_000,
        gbps in 5u64..50,
        mtu in prop_oneof![Just(256u64), Just(1_000), Just(1_024), Just(4_096)],
        buffer in prop::option::of(20_000u64..120_000),
        cap in prop::option::of(1u32..60),
        output in prop::option::weighted(0.3, (any::<bool>(), any::<bool>())),
    ) -> RunSpec {
        let transport = transport_with(&cc, transport);
        let mut run = run_on(topology, transport);
        run.transport.cc = CongestionSpec::of(cc);
        let mut set = |name: &str, value: Value| {
            if run.transport.declaration.parameter(name).is_some() {
                run.transport.set(name, value).unwrap();
            }
        };
        match (transport, recovery) {
            ("irn", 0) => set("recovery", "go-back-n".into()),
            ("irn", 1) => set("recovery", "no-sack".into()),
            ("iwarp", 0) => set("recovery", "newreno".into()),
            _ => {}
        }
        set("handshake", (recovery == 2).into());
        // Swift takes the delay of such an ACK, 500 us, for a queue. Its window falls to a tenth of a packet, so that
        // 200 packets take a second, which is more than the time limit.
        set("delayed_acks", (recovery < 2 && cc.name != "swift").into());
        set("rto", if dynamic_rto { "dynamic" } else { "fixed" }.into());
        set("acks", (acks || cc.needs_acks).into());
        set("control_priority", control_priority.into());
        if let Some(cap) = cap {
            set("bdp_cap", u64::from(cap).into());
        }
        if uncapped || transport == "roce" {
            set("bdp_fc", false.into());
        }
        run.fabric.link.rate = BitRate::from_gbps(gbps);
        run.fabric.link.delay = Time::from_ns(delay);
        run.fabric.link.loss = lossy;
        run.fabric.mtu = Bytes(mtu);
        run.fabric.switch.buffer = buffer.map(Bytes);
        run.transport.pfc = pfc && output.is_none();
        if let Some((trimming, above)) = output {
            let headers = if above { TrimmedPriority::Above } else { TrimmedPriority::Highest };
            let trim = trimming.then_some(TrimSpec { to: 64, headers, return_to_sender: false });
            run.fabric.switch.scheduler.spec = SchedulerSpec::Strict { max_in_a_row: trim.map(|_| 10) };
            run.fabric.switch.queueing = QueueingSetup::Output(OutputSetup { trim, ..OutputSetup::default() });
        }
        run.limits.max_time = Some(Time::from_ms(300));
        run
    }
}

fn flows(hosts: u32) -> impl Strategy<Value = Vec<FlowSpec>> {
    let size = prop_oneof![1u64..3_000, 1u64..200_000];
    let start = prop_oneof![0..3_000_000u64, 0..100_000_000u64];
    let one = (start, 0..hosts, 1..hosts, size);
    prop::collection::vec(one, 1..25).prop_map(move |list| {
        let mut flows: Vec<_> =
            list.into_iter().map(|(start, src, step, bytes)| flow(start, src, (src + step) % hosts, bytes)).collect();
        flows.sort_by_key(|f| f.start);
        flows
    })
}

#[test]
fn invariants_hold_on_random_runs() {
    let scenarios = setup().prop_flat_map(|run| {
        let hosts = hosts(&run.fabric.topology);
        (Just(run), flows(hosts))
    });
    let config = Config { cases: 4_000, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let counts: [Cell<u32>; 9] = Default::default();
    let count = |which: usize| counts[which].set(counts[which].get() + 1);
    let check = |(run, flows): (RunSpec, Vec<FlowSpec>)| {
        let with_traffic = RunSpec { traffic: list(&flows), ..run.clone() };
        let Ok(resolved) = rnic_sim::resolve::resolve(&Catalogue::standard(), &with_traffic) else {
            count(0); // a buffer too small for PFC's headroom
            prop_assert!(run.transport.pfc);
            return Ok(());
        };
        let output = outcome_of(&run, &resolved, &flows);
        let iwarp = run.transport.name == "iwarp";
        // Every packet is accounted for, the counters of ports add up to the totals, no flow is faster than its ideal
        // time, and in a completed run all flows have finished.
        let sprays = run.transport.name == "uet";
        if sprays {
            assert_counts(&output)
        } else {
            assert_accounts(&output)
        }
        prop_assert_eq!(output.flows.len(), flows.len());
        for (record, flow) in output.flows.iter().zip(&flows) {
            prop_assert_eq!((record.start, record.src, record.dst), (flow.start, flow.src, flow.dst));
            prop_assert_eq!(record.bytes, flow.bytes);
        }
        if resolved.lossless {
            count(1);
            prop_assert_eq!(output.totals.dropped, 0);
            // iWARP's TCP has retransmission timers on a lossless fabric too, and a long pause makes them expire.
            let timeouts: u32 = output.flows.iter().map(|f| f.timeouts).sum();
            prop_assert!(output.totals.retransmitted == 0 || (iwarp && timeouts > 0));
        }
        // Each packet of a flow is sent exactly once as an original: the data packets without retransmissions are the
        // packets of the flows.
        let setup = u64::from(run.transport.settings.flag("handshake") == Ok(true));
        let packets: u64 = flows.iter().map(|f| setup + f.bytes.div_ceil(run.fabric.mtu.0)).sum();
        match &output.status {
            RunStatus::Completed => {
                count(2);
                prop_assert_eq!(output.totals.data - output.totals.retransmitted, packets);
                let lost = output.totals.dropped + output.totals.lost + output.totals.trimmed;
                // Sprayed packets that many others overtake count as lost.
                if lost == 0 && !sprays && output.flows.iter().all(|f| f.timeouts == 0) {
                    prop_assert_eq!(output.totals.retransmitted, 0, "retransmitted without cause");
                }
            }
            RunStatus::Failed(reason) => {
                count(3);
                prop_assert!(!reason.contains("internal error"), "{}", reason);
                prop_assert!(reason.contains("not finished"), "{}", reason);
                // No run on a lossless fabric without cycles can fail.
                prop_assert!(!resolved.lossless, "{}", reason);
            }
            RunStatus::Interrupted => prop_assert!(false, "nothing interrupted the run"),
        }
        count(4);
        for (which, happened) in [
            (5, output.totals.pause_frames > 0),
            (6, output.totals.dropped > 0),
            (7, output.totals.retransmitted > 0),
            (8, output.totals.trimmed > 0),
        ] {
            if happened {
                count(which);
            }
        }
        Ok(())
    };
    TestRunner::new_with_rng(config, rng).run(&scenarios, check).unwrap();
    let [impossible, lossless, completed, failed, run, paused, dropped, repeated, trimmed] = counts.map(|c| c.get());
    println!("{run} runs: {completed} completed, {failed} failed, {lossless} lossless; {impossible} impossible");
    println!("{paused} with pauses, {dropped} with drops, {repeated} with retransmissions, {trimmed} with trimming");
    assert!(run > 2_500 && lossless > 400 && completed > run * 9 / 10);
    assert!(paused > 200 && dropped > 200 && repeated > 400 && trimmed > 50, "the scenarios are worth it");
}
