//! Configuration of a run's message transport, derived from the run's settings and its fabric.

use super::TransportError;
use super::links::Frames;
use crate::host::Framing;
use crate::p4::P4Plan;
use rnic_fabric::config::TopologySpec;
use rnic_spec::{P4Error, RunSpec};
use rnic_transport::message::nic::{NicConfig, Order};
use rnic_transport::telemetry::Telemetry;
use rnic_transport::transports::{MessageFacts, nic_config};
use rnic_transport::{FlowConfig, Time};

/// Complete configuration of a run's message transport.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct MessagePlan {
    pub(crate) facts: MessageFacts,
    pub(crate) nic: NicConfig,
    pub(crate) framing: Framing,
    /// The program of a transport in P4; `None` for a program in Rust.
    pub(crate) p4: Option<P4Plan>,
}

/// The configuration of a run's message transport; `timeout` is the retransmission timeout derived from the fabric.
pub(super) fn plan(run: &RunSpec, flow: &FlowConfig, frames: &Frames, timeout: Time) -> Result<MessagePlan, P4Error> {
    let transport = &run.transport;
    let frame = frames.data + frames.gap;
    let frame_time = flow.line_rate.time_for(u64::from(frame));
    let round_trip = flow.base_rtt.as_ps().div_ceil(frame_time.as_ps().max(1)).clamp(1, 1 << 20);
    let facts = MessageFacts {
        mtu: flow.mtu,
        rtt_pkts: transport.settings.count("rtt_packets").unwrap_or(round_trip) as u32,
        base_rtt_ns: (flow.base_rtt.as_ps() / 1_000).clamp(1, u64::from(u32::MAX)) as u32,
        max_hops: max_hops(run),
    };
    let p4 = transport.program.as_ref().map(|program| P4Plan::new(program, &facts, flow)).transpose()?;
    let nic = nic_config(&transport.settings, &facts, transport.default_order(), timeout, frame, flow.line_rate);
    let priorities = transport.priorities().unwrap_or(1);
    let framing = Framing { header: flow.header, control: frames.ack, priorities };
    Ok(MessagePlan { facts, nic, framing, p4 })
}

/// Maximum number of switches on a path of the run: known for trees without routes of their own, as many as packets can
/// record for other fabrics.
fn max_hops(run: &RunSpec) -> u8 {
    let is_regular = run.fabric.routes.is_empty() && run.fabric.faults.links.is_empty();
    match run.fabric.topology {
        TopologySpec::FatTree { .. } | TopologySpec::LeafSpineCore { .. } if is_regular => 5,
        TopologySpec::LeafSpine { .. } if is_regular => 3,
        TopologySpec::SingleSwitch { .. } | TopologySpec::Dumbbell { .. } => 2,
        _ => Telemetry::MAX_HOPS as u8,
    }
}

/// Checks that a NIC has a buffer for the longest message of the traffic (`largest` bytes), and that the message's
/// length fits into 32 bits.
pub(super) fn check_sizes(plan: &MessagePlan, largest: u64) -> Result<(), TransportError> {
    if largest > u64::from(u32::MAX) {
        return Err(TransportError::Message(largest));
    }
    for (key, classes) in [("tx_buffers", &plan.nic.tx_buffers), ("rx_buffers", &plan.nic.rx_buffers)] {
        let Some(max) = classes.iter().map(|class| u64::from(class.bytes)).max() else { continue };
        if largest > max {
            return Err(TransportError::MessageBuffer { bytes: largest, key, max });
        }
    }
    Ok(())
}

/// Passes the settings of the message transport to `put`, as (key, value with unit) for the results.
pub(super) fn put(run: &RunSpec, plan: &MessagePlan, put: &mut impl FnMut(&str, String)) {
    let nic = &plan.nic;
    put("rtt_packets", format!("{} packets", nic.rtt_pkts));
    put("rto_high", nic.timeout.to_string());
    put("max_timeouts", nic.max_timeouts.to_string());
    put("rx_timeout", nic.rx_timeout.to_string());
    put("probe", nic.probe.to_string());
    put("send_order", if nic.order == Order::ShortestFirst { "shortest-first" } else { "round-robin" }.to_string());
    for (key, classes) in [("tx_buffers", &nic.tx_buffers), ("rx_buffers", &nic.rx_buffers)] {
        let text: Vec<String> = classes.iter().map(|class| format!("{} of {} B", class.count, class.bytes)).collect();
        put(key, if text.is_empty() { "without limit".to_string() } else { text.join(", ") });
    }
    for (key, value) in run.transport.declaration.describe_messages(&run.transport.settings, &plan.facts) {
        put(key, value);
    }
}
