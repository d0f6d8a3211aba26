//! Estimates the CPU time of a run from its specification.

use rnic_fabric::config::TopologySpec;
use rnic_spec::{RunSpec, TrafficPattern};
use rnic_transport::congestion::{CongestionControl, NoCongestionControl, Timely};

/// CPU seconds that the simulator takes for one packet-hop (one packet on one link).
const SECONDS_PER_HOP: f64 = 80e-9;

/// Estimates the CPU seconds of a run. The estimate is proportional to the number of packets times the number of links
/// on a path. It is twice as large if packets are acknowledged, and larger still if go-back-N has to recover from loss.
/// Jobs are executed in order of their estimates, the longest first. The estimates also predict the remaining time,
/// after they have been scaled by the CPU time that finished jobs took.
pub fn cost(run: &RunSpec) -> f64 {
    let mtu = run.fabric.mtu.0 as f64;
    let mut packets: f64 = run.traffic.iter().map(|traffic| packets(&traffic.pattern, &run.fabric.topology, mtu)).sum();
    if let Some(duration) = run.limits.duration {
        // An upper bound: half of the hosts receive at line rate for the whole duration.
        let hosts = f64::from(rnic_spec::hosts(&run.fabric.topology));
        packets = packets.min(run.fabric.link.rate.bytes_in(duration) as f64 / mtu * hosts / 2.0);
    }
    let links = match run.fabric.topology {
        TopologySpec::FatTree { .. } | TopologySpec::LeafSpineCore { .. } => 5.6,
        TopologySpec::SingleSwitch { .. } => 2.0,
        _ => 4.0,
    };
    let transport = &run.transport;
    let acks = transport.acknowledged();
    let go_back_n = transport.declaration.is_go_back_n(&transport.settings);
    let capped = transport.declaration.is_capped(&transport.settings);
    // Transmissions of a packet. Without congestion control, go-back-N retransmits most packets several times, and more
    // often without a cap on packets in flight.
    let transmissions = match transport.cc.name() {
        _ if transport.pfc => 1.0,
        NoCongestionControl::NAME if go_back_n && !capped => 30.0,
        NoCongestionControl::NAME if go_back_n => 5.0,
        Timely::NAME if go_back_n => 2.5,
        _ => 1.1,
    };
    packets * links * if acks { 2.0 } else { 1.0 } * transmissions * SECONDS_PER_HOP
}

fn packets(pattern: &TrafficPattern, topology: &TopologySpec, mtu: f64) -> f64 {
    let hosts = f64::from(rnic_spec::hosts(topology));
    match pattern {
        TrafficPattern::Poisson { sizes, flows, .. } => *flows as f64 * sizes.mean_packets(mtu as u32),
        // Incasts have few flows at a time, whose state stays in the CPU caches, so a packet takes half the time.
        TrafficPattern::Incast { total, repeats, .. } => total.0 as f64 / mtu * f64::from(*repeats) * 0.5,
        TrafficPattern::Permutation { sizes, repeats, .. } => {
            hosts * f64::from(*repeats) * sizes.mean_packets(mtu as u32)
        }
        TrafficPattern::AllToAll { sizes, repeats, .. } | TrafficPattern::AllToAllLoop { sizes, repeats, .. } => {
            hosts * hosts * f64::from(*repeats) * sizes.mean_packets(mtu as u32)
        }
        // Traffic without a number of rounds repeats until the run's `duration` ends it: assume a thousand rounds.
        TrafficPattern::Pairs { pairs, sizes, messages, .. } => {
            f64::from(*pairs) * f64::from(messages.unwrap_or(1_000)) * sizes.mean_packets(mtu as u32)
        }
        TrafficPattern::IncastLoop { incast, repeats, .. } => {
            incast.total.0 as f64 / mtu * f64::from(repeats.unwrap_or(1_000)) * 0.5
        }
        TrafficPattern::Collective(collective) => {
            let ranks = f64::from(collective.ranks);
            collective.size.0 as f64 * collective.bus_factor() * ranks / mtu * f64::from(collective.repeats)
        }
        // The program that submits the flows is not known, and `rnic run` refuses them.
        TrafficPattern::Outside { .. } => 0.0,
        // The bytes of each task are not known: assume a tenth of the largest.
        TrafficPattern::Trace(trace) => (trace.content.largest as f64 * 0.1 / mtu).ceil() * trace.content.tasks as f64,
        TrafficPattern::Inference(inference) => inference.fabric_bytes() / mtu,
        TrafficPattern::Training(training) => training.fabric_bytes() / mtu,
        TrafficPattern::Triggered(list) => list.flows.iter().map(|flow| (flow.bytes as f64 / mtu).ceil()).sum(),
        TrafficPattern::List { flows } => flows.iter().map(|flow| (flow.bytes as f64 / mtu).ceil()).sum(),
    }
}
