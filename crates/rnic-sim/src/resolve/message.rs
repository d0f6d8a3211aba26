//! What a message transport takes from the fabric.

use super::{Frames, SetupError};
use crate::host::Framing;
use rnic_fabric::config::Paths;
use rnic_nano::NicParameters;
use rnic_run::{P4Program, RunSpec, TransportSpec, homa_levels};
use rnic_transport::message::nic::{NicConfig, Order};
use rnic_transport::message::programs::{HomaSettings, HpccSettings};
use rnic_transport::{FlowConfig, Time};

/// Timeouts in a row after which a message is given up, when nothing else is said.
const MAX_TIMEOUTS: u32 = 10;

/// The program that every NIC of a run has.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Program {
    /// NDP, with paced NACKs or not.
    Ndp(bool),
    Homa(HomaSettings),
    Hpcc(HpccSettings),
    P4(P4Program, NicParameters),
}

/// A message transport, ready to run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct MessagePlan {
    pub(crate) program: Program,
    pub(crate) nic: NicConfig,
    pub(crate) framing: Framing,
}

fn homa(transport: &TransportSpec, mtu: u32, rtt_pkts: u32) -> HomaSettings {
    let (unscheduled_levels, scheduled_levels) = homa_levels(transport);
    HomaSettings {
        mtu,
        rtt_pkts,
        unscheduled_levels,
        scheduled_levels,
        overcommitment: transport.message.overcommitment.unwrap_or(scheduled_levels).into(),
        trimming: transport.transport == "homa-tr",
    }
}

/// The additive step when nothing else is said, in bytes: what the target leaves free of the first window, shared by 16 messages (HPCC
/// paper, section 3.3). In integers, as a program in P4 works it out; `target` is a fraction of 65,536.
fn additive_bytes(mtu: u32, rtt_pkts: u32, target: u32) -> u32 {
    let free = u64::from(rtt_pkts) * u64::from(mtu) * 65_536u64.saturating_sub(target.into());
    ((free + (1 << 19)) >> 20).clamp(1, u64::from(u32::MAX)) as u32
}

fn hpcc(transport: &TransportSpec, mtu: u32, rtt_pkts: u32, base_rtt_ns: u32) -> HpccSettings {
    let target = (transport.message.eta.unwrap_or(0.95) * 65_536.0).round() as u32;
    HpccSettings {
        mtu,
        rtt_pkts,
        base_rtt_ns,
        additive_bytes: transport.message.w_ai.map_or(additive_bytes(mtu, rtt_pkts, target), |bytes| bytes.0 as u32),
        target,
        max_stages: transport.message.max_stage.unwrap_or(5),
    }
}

/// Whether each packet of a message takes a path of its own, when nothing else is said.
pub(super) fn paths(transport: &TransportSpec) -> Paths {
    if let Some(program) = &transport.program {
        return program.paths;
    }
    match transport.transport.as_str() {
        "ndp" | "homa" | "homa-tr" => Paths::Spray,
        _ => Paths::Ecmp,
    }
}

/// The settings of a message transport; `timeout` is what follows from the fabric.
pub(super) fn plan(run: &RunSpec, flow: &FlowConfig, frames: &Frames, timeout: Time) -> MessagePlan {
    let spec = &run.transport.message;
    let frame = flow.line_rate.time_for(u64::from(frames.data + frames.gap));
    let round_trip = flow.base_rtt.as_ps().div_ceil(frame.as_ps().max(1)).clamp(1, 1 << 20) as u32;
    let rtt_pkts = spec.rtt_packets.unwrap_or(round_trip);
    let base_rtt_ns = (flow.base_rtt.as_ps() / 1_000).clamp(1, u64::from(u32::MAX)) as u32;
    let program = match run.transport.transport.as_str() {
        _ if let Some(program) = &run.transport.program => {
            // Addresses differ from host to host.
            let line_rate_mbps = (flow.line_rate.as_bps() / 1_000_000).min(u64::from(u32::MAX)) as u32;
            let nic = NicParameters {
                rtt_pkts,
                mtu: flow.mtu as u16,
                line_rate_mbps,
                base_rtt_ns,
                ..NicParameters::default()
            };
            Program::P4(program.clone(), nic)
        }
        "ndp" => Program::Ndp(spec.paced_nacks.unwrap_or(true)),
        "hpcc" => Program::Hpcc(hpcc(&run.transport, flow.mtu, rtt_pkts, base_rtt_ns)),
        _ => Program::Homa(homa(&run.transport, flow.mtu, rtt_pkts)),
    };
    let own_order = match &program {
        Program::P4(program, _) => program.order,
        Program::Homa(_) => Order::ShortestFirst,
        Program::Ndp(_) | Program::Hpcc(_) => Order::RoundRobin,
    };
    let timeout = run.transport.rto_high.unwrap_or(timeout);
    let max_timeouts = spec.max_timeouts.unwrap_or(MAX_TIMEOUTS);
    let patience = timeout * (u64::from(max_timeouts) + 1);
    let nic = NicConfig {
        mtu: flow.mtu,
        rtt_pkts,
        timeout,
        max_timeouts,
        rx_timeout: spec.garbage_time.unwrap_or(patience),
        probe: spec.probe.unwrap_or(true),
        order: spec.send_order.unwrap_or(own_order),
        pace: frame,
        tx_buffers: spec.tx_buffers.clone(),
        rx_buffers: spec.rx_buffers.clone(),
        timer_granularity: spec.timer_scan.unwrap_or(Time::ZERO),
    };
    let bands = run.transport.bands().unwrap_or(1);
    let framing = Framing { header: flow.header, control: frames.ack, bands };
    MessagePlan { program, nic, framing }
}

/// Whether every message of the traffic finds a buffer and a number of bytes that fits.
pub(super) fn check_sizes(plan: &MessagePlan, largest: u64) -> Result<(), SetupError> {
    if largest > u64::from(u32::MAX) {
        let message = format!("a flow of {largest} bytes; a message transport takes up to {} bytes", u32::MAX);
        return Err(SetupError::Impossible(message));
    }
    for (key, classes) in [("tx_buffers", &plan.nic.tx_buffers), ("rx_buffers", &plan.nic.rx_buffers)] {
        let Some(most) = classes.iter().map(|class| u64::from(class.bytes)).max() else { continue };
        if largest > most {
            return Err(SetupError::Impossible(format!(
                "a flow of {largest} bytes has no buffer: the largest of `{key}` has {most} bytes"
            )));
        }
    }
    Ok(())
}

/// The settings in words.
pub(super) fn put(plan: &MessagePlan, put: &mut impl FnMut(&str, String)) {
    let nic = &plan.nic;
    put("rtt_packets", format!("{} packets", nic.rtt_pkts));
    put("rto_high", nic.timeout.to_string());
    put("max_timeouts", nic.max_timeouts.to_string());
    put("garbage_time", nic.rx_timeout.to_string());
    put("probe", nic.probe.to_string());
    put("send_order", if nic.order == Order::ShortestFirst { "shortest-first" } else { "round-robin" }.to_string());
    for (key, classes) in [("tx_buffers", &nic.tx_buffers), ("rx_buffers", &nic.rx_buffers)] {
        let text: Vec<String> = classes.iter().map(|class| format!("{} of {} B", class.count, class.bytes)).collect();
        put(key, if text.is_empty() { "without limit".to_string() } else { text.join(", ") });
    }
    if let Program::Ndp(paced) = &plan.program {
        put("paced_nacks", paced.to_string());
    }
    if let Program::Homa(homa) = &plan.program {
        put("unscheduled_levels", homa.unscheduled_levels.to_string());
        put("scheduled_levels", homa.scheduled_levels.to_string());
        put("overcommitment", homa.overcommitment.to_string());
    }
    if let Program::Hpcc(hpcc) = &plan.program {
        put("eta", format!("{:.3}", f64::from(hpcc.target) / 65_536.0));
        put("max_stage", hpcc.max_stages.to_string());
        put("w_ai", format!("{} B", hpcc.additive_bytes));
    }
}
