//! Runs with `fidelity = "flow"`: completion times by hand, conservation of bytes, and what is refused.

use crate::common::{D, ROCE, fct, flow, list, outputs, read_scenario, run_on, scenario};
use rnic_fabric::config::{NamedLink, Paths, TopologySpec};
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_sim::run::simulate_run;
use rnic_spec::{Fidelity, FlowSpec, RunOutput, RunSpec, RunStatus};
use rnic_transport::{BitRate, Time};
use std::path::Path;

/// A run of flows as fluids, with the links of the IRN paper's default case. RoCE without ACKs: all flows are Reads.
fn fluid_on(topology: TopologySpec) -> RunSpec {
    RunSpec { fidelity: Fidelity::Flow, ..run_on(topology, "roce") }
}

fn outcome(run: &RunSpec, flows: &[FlowSpec]) -> RunOutput {
    let run = RunSpec { traffic: list(flows), ..run.clone() };
    let output = simulate_run(&Catalogue::standard(), &run, &resolve(&Catalogue::standard(), &run).unwrap());
    assert_eq!(output.status, RunStatus::Completed);
    output
}

fn switch(hosts: u32) -> TopologySpec {
    TopologySpec::SingleSwitch { hosts }
}

/// Payload of so many full packets.
const fn packets(count: u64) -> u64 {
    count * 1_024
}

/// Completion times in order of the flows' numbers, in picoseconds.
fn times(output: &RunOutput) -> Vec<u64> {
    output.flows.iter().map(|record| fct(&record)).collect()
}

fn assert_near(actual: u64, expected: u64) {
    assert!(actual.abs_diff(expected) <= 2, "{actual} is not {expected}");
}

#[test]
fn a_lone_flow_takes_its_ideal_time() {
    let dumbbell = |gbps| TopologySpec::Dumbbell {
        left: 2,
        right: 2,
        bottleneck_rate: Some(BitRate::from_gbps(gbps)),
        bottleneck_delay: None,
    };
    for topology in [switch(4), TopologySpec::FatTree { k: 4 }, dumbbell(10), dumbbell(100)] {
        for bytes in [1, 1_024, 1_025, 3_000, 1_000_000, 987_654_321] {
            let output = outcome(&fluid_on(topology.clone()), &[flow(5_000, 0, 3, bytes)]);
            let record = output.flows.get(0).unwrap();
            assert_eq!(fct(&record), record.ideal.as_ps(), "{topology:?}, {bytes} bytes");
            assert_eq!(output.end, record.finish.unwrap());
        }
    }
}

#[test]
fn two_flows_share_a_link_and_the_longer_one_has_it_for_itself_afterwards() {
    // 100 and 300 packets to one host: both send at half the rate until the first has sent 100 packets; then 200
    // packets of the second are left.
    let flows = [flow(0, 0, 2, packets(100)), flow(0, 1, 2, packets(300))];
    let output = outcome(&fluid_on(switch(3)), &flows);
    let latency = ROCE + 2 * D;
    assert_near(times(&output)[0], 200 * ROCE + latency);
    assert_near(times(&output)[1], 400 * ROCE + latency);
    // The link to the receiver carries all bytes, 1,086 of each packet, and is busy for 400 packets.
    let last = output.ports.iter().find(|port| port.node == "s0" && port.peer == "h2").unwrap();
    assert_eq!((last.priorities[0].tx_packets, last.priorities[0].tx_bytes), (400, 400 * 1_086));
    assert_near(last.busy.as_ps(), 400 * ROCE);
}

#[test]
fn a_flow_that_starts_later_takes_half() {
    // The first of 100 packets is alone for 40, then they share until it has sent the other 60, at half the rate.
    let flows = [flow(0, 0, 2, packets(100)), flow(40 * ROCE, 1, 2, packets(100))];
    let output = outcome(&fluid_on(switch(3)), &flows);
    let latency = ROCE + 2 * D;
    assert_near(times(&output)[0], (40 + 120) * ROCE + latency);
    assert_near(times(&output)[1], (120 + 40) * ROCE + latency);
}

#[test]
fn a_parking_lot_and_an_asymmetric_bottleneck() {
    // A chain of three switches: h0 and h1 on s0, h2 on s1, h3 on s2. One flow crosses both links between switches;
    // the second link has a quarter of the rate.
    let link = |from: &str, to: &str, rate: Option<u64>| NamedLink {
        from: from.into(),
        to: to.into(),
        rate: rate.map(BitRate::from_gbps),
        delay: None,
        loss: None,
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
    let topology =
        TopologySpec::Graph { hosts: names(&["h0", "h1", "h2", "h3"]), switches: names(&["s0", "s1", "s2"]) };
    let mut run = fluid_on(topology);
    run.fabric.links = vec![
        link("h0", "s0", None),
        link("h1", "s0", None),
        link("h2", "s1", None),
        link("h3", "s2", None),
        link("s0", "s1", None),
        link("s1", "s2", Some(10)),
    ];
    // The long flow (h0 to h3) has 10 Gbps, the flow h1 to h2 the other 30 Gbps of the link s0 to s1.
    let output = outcome(&run, &[flow(0, 0, 3, packets(100)), flow(0, 1, 2, packets(300))]);
    // The slow link comes third: a frame has crossed two links before; a fourth link follows.
    assert_near(times(&output)[0], 3 * ROCE + 400 * ROCE + 4 * D);
    assert_near(times(&output)[1], 400 * ROCE + 2 * ROCE + 3 * D);
}

#[test]
fn an_incast_of_n_takes_n_times_as_long() {
    let flows: Vec<FlowSpec> = (0..15).map(|host| flow(0, host, 15, packets(1_000))).collect();
    let output = outcome(&fluid_on(switch(16)), &flows);
    for time in times(&output) {
        assert_near(time, 15 * 1_000 * ROCE + ROCE + 2 * D);
    }
}

#[test]
fn acks_take_room_on_the_way_back() {
    // Two hosts of IRN send to each other. A frame takes 1,122 bytes on a link, an ACK 82: x (1 + 82/1,122) = 1.
    let run = RunSpec { fidelity: Fidelity::Flow, ..run_on(switch(2), "irn") };
    let alone = outcome(&run, &[flow(0, 0, 1, packets(10_000))]);
    let both = outcome(&run, &[flow(0, 0, 1, packets(10_000)), flow(0, 1, 0, packets(10_000))]);
    let latency = fct(&alone.flows.get(0).unwrap()) as f64 - 10_000.0 * 224_400.0;
    let acks = both.totals.control as f64 / both.totals.data as f64;
    assert_eq!((both.totals.data, acks), (20_000, 1.0));
    let port = |output: &RunOutput| output.ports[0].priorities[0].tx_bytes;
    let ack = (port(&both) - port(&alone)) / 10_000 + 20;
    for time in times(&both) {
        let slowdown = (time as f64 - latency) / (10_000.0 * 224_400.0);
        assert!((slowdown - (1.0 + ack as f64 / 1_122.0)).abs() < 2e-3, "{slowdown}, an ACK of {ack} bytes");
    }
}

#[test]
fn a_sprayed_flow_waits_for_its_slowest_path() {
    // Four spines, of which one has links of 5 Gbps: a quarter of the flow needs r / 4 <= 5 Gbps.
    let leaves =
        TopologySpec::LeafSpine { leaves: 2, spines: 4, hosts_per_leaf: 1, uplink_rate: None, uplink_delay: None };
    let mut run = fluid_on(leaves);
    run.fabric.paths = Some(Paths::Spray);
    let even = outcome(&run, &[flow(0, 0, 1, packets(1_000))]);
    let ideal = 1_000 * ROCE + 3 * ROCE + 4 * D;
    assert_near(times(&even)[0], ideal);
    let spines = even.ports.iter().filter(|port| port.node == "leaf0" && port.peer.starts_with("spine"));
    let carried: Vec<u64> = spines.map(|port| port.priorities[0].tx_packets).collect();
    assert_eq!(carried, [250; 4]);
    for leaf in ["leaf0", "leaf1"] {
        run.fabric.links.push(NamedLink {
            from: leaf.into(),
            to: "spine2".into(),
            rate: Some(BitRate::from_gbps(5)),
            delay: None,
            loss: None,
        });
    }
    let slow = times(&outcome(&run, &[flow(0, 0, 1, packets(1_000))]))[0];
    // The 1,000 packets take twice as long; the last packet adds its time on three links.
    assert!((2_000 * ROCE..2_000 * ROCE + 40 * ROCE + 4 * D).contains(&slow), "{slow}");
}

#[test]
fn limits_of_rate_and_window() {
    let text = |keys: &str| {
        let text = r#"
            fidelity = "flow"
            [fabric]
            topology = "single-switch"
            hosts = 2
            rate = "40 Gbps"
            delay = "2 us"
            mtu = "1024 B"
            [traffic]
            pattern = "permutation"
            sizes = "fixed 10240000 B"
            repeats = 1
        "#;
        let scenario = scenario(text, &["irn"], keys).unwrap();
        times(&outputs(&scenario, 1)[0])[0]
    };
    let alone = text("");
    // 20 Gbps of frames of 1,102 bytes, without the gap of 20 bytes.
    let paced = text("max_rate = \"20 Gbps\"");
    assert!(paced.abs_diff(10_000 * 1_102 * 400) < 10_000_000, "{paced} {alone}");
    // A window of 10 packets in each round trip: 4 delays, two frames and two ACKs.
    let windowed = text("bdp_cap = 10");
    let round_trip = 4 * D + 2 * 224_400 + 2 * 16_400;
    assert!(windowed.abs_diff(1_000 * round_trip) < 3 * round_trip, "{windowed}");
}

/// A failed link stops its flows until switches know of the failure; the flows that shared it take another path.
#[test]
fn link_faults_stop_flows_until_routes_avoid_them() {
    let text = r#"
        fidelity = "flow"
        [fabric]
        topology = "leaf-spine"
        leaves = 2
        spines = 1
        hosts_per_leaf = 1
        rate = "40 Gbps"
        delay = "2 us"
        mtu = "1024 B"
        [[fabric.link]]
        from = "leaf0"
        to = "spine0"
        FAULT
        [traffic]
        pattern = "permutation"
        sizes = "fixed 10240000 B"
        repeats = 1
    "#;
    let time = |fault: &str| {
        let scenario = scenario(&text.replace("FAULT", fault), &["roce"], "").unwrap();
        let output = outputs(&scenario, 1).remove(0);
        assert_eq!(output.status, RunStatus::Completed, "{:?}", output.status);
        times(&output)[0]
    };
    let ideal = time("");
    // Down for 300 us: the flows wait for this time. Half the rate for 400 us: they lose half of it.
    let down = time("down_at = \"100 us\"\n up_at = \"400 us\"");
    assert!(down.abs_diff(ideal + 300_000_000) < 1_000, "{down} {ideal}");
    let slow = time("slow_at = \"100 us\"\n slow_rate = \"20 Gbps\"\n slow_until = \"500 us\"");
    assert!(slow.abs_diff(ideal + 200_000_000) < 1_000, "{slow} {ideal}");
}

/// The steps of an all-reduce in a ring follow each other as the messages would alone.
#[test]
fn a_ring_all_reduce_takes_its_ideal_time() {
    let text = r#"
        fidelity = "flow"
        [fabric]
        topology = "single-switch"
        hosts = 8
        rate = "100 Gbps"
        delay = "1 us"
        [traffic]
        pattern = "collective"
        operation = "all-reduce"
        ranks = 8
        size = "80 MB"
        chunk = "10 MB"
    "#;
    let output = outputs(&scenario(text, &["roce"], "acks = false").unwrap(), 1).remove(0);
    assert_eq!(output.status, RunStatus::Completed, "{:?}", output.status);
    let ideal = output.flows.iter().map(|record| record.ideal.as_ps()).max().unwrap();
    for record in &output.flows {
        assert!(fct(&record) <= record.ideal.as_ps() + 2, "{record:?}");
    }
    let [operation] = &output.collectives[..] else { panic!("one operation") };
    let took = (operation.end.unwrap() - operation.start).as_ps();
    // 14 steps; after each the ranks react.
    assert!(took >= 14 * ideal && took < 14 * ideal + 14 * 5_000_000, "{took} {ideal}");
}

/// Messages of a stream follow each other, as in a run of packets.
#[test]
fn messages_of_a_stream_do_not_share_its_rate() {
    let text = |fidelity: &str| {
        format!(
            "fidelity = \"{fidelity}\"\n[fabric]\ntopology = \"single-switch\"\nhosts = 2\nrate = \"40 Gbps\"\n\
             delay = \"2 us\"\nmtu = \"1024 B\"\n[traffic]\npattern = \"collective\"\noperation = \"broadcast\"\n\
             ranks = 2\nsize = \"4096000 B\"\nchunk = \"1024000 B\"\n"
        )
    };
    let of = |fidelity: &str| times(&outputs(&scenario(&text(fidelity), &["roce"], "").unwrap(), 1)[0]);
    for (packets, fluid) in of("packet").into_iter().zip(of("flow")) {
        assert!(packets.abs_diff(fluid) <= 2 * ROCE, "{packets} {fluid}");
    }
}

/// What hosts send arrives, on any number of threads the same.
#[test]
fn bytes_are_conserved_and_threads_do_not_matter() {
    let text = r#"
        fidelity = "flow"
        [fabric]
        topology = "fat-tree"
        k = 4
        rate = "100 Gbps"
        delay = "1 us"
        [traffic]
        pattern = "poisson"
        load = 0.8
        sizes = "irn-heavy-tailed"
        flows = 2000
    "#;
    for keys in ["", "set = { fabric.paths = \"spray\" }", "set = { fidelity_quantum = \"5 us\" }"] {
        let scenario = scenario(text, &["irn"], keys).unwrap();
        let output = outputs(&scenario, 1).remove(0);
        assert_eq!(output.status, RunStatus::Completed);
        assert_eq!(output, outputs(&scenario, 3).remove(0));
        let bytes = |of: &dyn Fn(&str, &str) -> bool| -> u64 {
            let ports = output.ports.iter().filter(|port| of(&port.node, &port.peer));
            ports.map(|port| port.priorities[0].tx_bytes).sum()
        };
        let (sent, arrived) = (bytes(&|node, _| node.starts_with('h')), bytes(&|_, peer| peer.starts_with('h')));
        assert!(sent.abs_diff(arrived) <= 64, "{sent} {arrived}");
        // The frames of all packets and ACKs, with at least 64 bytes.
        let resolved = resolve(&Catalogue::standard(), &scenario.runs[0]).unwrap();
        let (mtu, header) = (u64::from(resolved.flow.mtu), u64::from(resolved.flow.header));
        let ack = u64::from(resolved.host_config.ack_bytes).max(64);
        let of_flow = |bytes: u64| {
            let (packets, last) = (bytes.div_ceil(mtu), (bytes - 1) % mtu + 1);
            (packets - 1) * (mtu + header) + (last + header).max(64) + packets * ack
        };
        let expected: u64 = output.flows.iter().map(|record| of_flow(record.bytes)).sum();
        assert!(sent.abs_diff(expected) <= 64, "{sent} {expected}");
        for port in &output.ports {
            assert!(port.busy <= output.end, "{port:?}");
        }
        // The steps of a quantum let a flow wait before it starts; no flow is faster than alone.
        assert!(output.flows.iter().all(|record| fct(&record) + 2 >= record.ideal.as_ps()));
    }
}

#[test]
fn samples_of_links_and_flows() {
    let text = r#"
        fidelity = "flow"
        [fabric]
        topology = "single-switch"
        hosts = 2
        rate = "40 Gbps"
        delay = "1 us"
        [watch]
        interval = "100 us"
        links = ["h0:s0"]
        flows = true
        [traffic]
        pattern = "permutation"
        sizes = "fixed 2 MB"
        repeats = 1
    "#;
    let output = outputs(&scenario(text, &["roce"], "").unwrap(), 1).remove(0);
    let samples = output.samples.unwrap();
    assert_eq!(samples.links[0].busy_ps[..3], [0, 100_000_000, 200_000_000]);
    let delivered = &samples.flows[0].delivered;
    assert_eq!((delivered[0], delivered[1]), (0, 462_914), "{delivered:?}");
    assert!(delivered[4].abs_diff(delivered[1] * 4) < 4, "{delivered:?}");
}

#[test]
fn runs_that_need_packets_are_refused_with_the_reason() {
    let text = |more: &str| {
        format!(
            "fidelity = \"flow\"\n{more}\n[fabric]\ntopology = \"single-switch\"\nhosts = 4\nrate = \"40 Gbps\"\n\
             delay = \"1 us\"\n[traffic]\npattern = \"permutation\"\nsizes = \"fixed 1 MB\"\nrepeats = 1\n"
        )
    };
    let refused = |more: &str, transport: &str, keys: &str| {
        let scenario = scenario(&text(more), &[transport], keys).unwrap();
        let error = resolve(&Catalogue::standard(), &scenario.runs[0]).unwrap_err().to_string();
        assert!(error.ends_with("write fidelity = \"packet\""), "{error}");
        error
    };
    assert!(refused("", "ndp", "").contains("transport \"ndp\""));
    assert!(refused("", "multipath", "").contains("transport \"multipath\""));
    assert!(refused("watch = { interval = \"1 us\", pauses = true }", "roce", "pfc = true").contains("`pauses`"));
    assert!(refused("watch = { interval = \"1 us\", queues = \"all\" }", "roce", "").contains("`queues`"));
    let quantum = read_scenario(
        &(text("fidelity_quantum = \"1 us\"").replace("fidelity = \"flow\"", "")
            + "[[run]]\nname = \"a\"\ntransport = \"irn\"\n"),
        Path::new("."),
    );
    assert!(quantum.unwrap_err().contains("`fidelity_quantum` changes nothing"));
}

#[test]
fn what_is_left_out_is_said() {
    let run = RunSpec { traffic: list(&[flow(0, 0, 1, 1_000)]), ..fluid_on(switch(2)) };
    let resolved = resolve(&Catalogue::standard(), &run).unwrap();
    assert!(resolved.warnings.iter().any(|warning| warning.contains("not modelled: queues, drops")));
    assert!(resolved.parameters.contains(&("fidelity".to_string(), "flow".to_string())));
    let output = simulate_run(&Catalogue::standard(), &run, &resolved);
    assert_eq!((output.fidelity, output.flows.len()), (Fidelity::Flow, 1));
    assert!(output.end > Time::ZERO);
}
