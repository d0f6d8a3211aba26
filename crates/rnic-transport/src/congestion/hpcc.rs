//! HPCC ("High Precision Congestion Control", SIGCOMM 2019, algorithm 1): a window from what switches say of themselves.
//!
//! Every data packet collects a [`HopRecord`] at each hop, and its ACK brings them back. From two consecutive records of a link follows how
//! much of it is in use: the rate at which it sent, and its queue as what it would send in a round trip. The most used link counts. Above
//! `eta`, or after `max_stage` additive steps, the window is set to what would use `eta` of that link; below, it grows by one step. Both
//! start from the reference window, which is replaced once per round trip, so that the ACKs of one round trip do not add up.
//!
//! Where the text leaves a choice, as in the first author's public simulator:
//!
//! - the first ACK has no predecessor, and the reference window is not replaced before the second round trip;
//! - the window never exceeds that of line rate;
//! - a loss changes nothing.
//!
//! The records of a path of another length are of other links: they are kept for the next ACK, and change nothing. So do those of a
//! packet that passed some link no later than the one before.

use super::{AckSample, CongestionControl, Kind, Parameter, Settings, ceiling};
use crate::config::FlowConfig;
use crate::telemetry::{HopRecord, Telemetry};
use crate::{BitRate, Psn, Time};

/// HPCC's parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HpccParams {
    eta: f64,
    max_stage: u32,
    /// Bytes.
    w_ai: f64,
    /// T, in nanoseconds.
    base_rtt: f64,
    /// The window of line rate, in bytes.
    most: f64,
    /// Line rate, or what caps the flow below it.
    line: BitRate,
    /// Bytes of a full packet.
    packet: f64,
}

/// Window and rate from in-band telemetry.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hpcc {
    /// W and W^c, in bytes.
    window: f64,
    reference: f64,
    /// U: smoothed use of the most used link; 1 is all of it, without a queue.
    usage: f64,
    stage: u32,
    /// Packets to be acknowledged before the reference is replaced.
    left: u32,
    /// Whether `usage` has been measured since the last ACK.
    measured: bool,
    /// What the last ACK brought.
    last: Telemetry,
    rate: BitRate,
    packets: u32,
}

impl Hpcc {
    /// The estimate of how much of the most used link is in use.
    pub fn usage(&self) -> f64 {
        self.usage
    }

    /// Algorithm 1, MeasureInflight: use of the most used link, and the nanoseconds over which it was measured.
    fn inflight(&self, params: &HpccParams, telemetry: &Telemetry) -> Option<(f64, f64)> {
        let (before, now) = (self.last.hops(), telemetry.hops());
        if before.is_empty() || before.len() != now.len() {
            return None;
        }
        let mut most = (0.0, 0.0);
        for (before, now) in before.iter().zip(now) {
            let (usage, elapsed) = link_usage(params, before, now)?;
            if usage > most.0 {
                most = (usage, elapsed);
            }
        }
        Some(most)
    }

    /// Algorithm 1, ComputeWind.
    fn compute_window(&mut self, params: &HpccParams, replace: bool) {
        let multiplicative = self.usage >= params.eta || self.stage >= params.max_stage;
        // An unused link allows any window.
        let scaled = if multiplicative { self.reference * params.eta / self.usage.max(1e-9) } else { self.reference };
        self.set_window(params, scaled + params.w_ai);
        if replace {
            self.stage = if multiplicative { 0 } else { self.stage + 1 };
            self.reference = self.window;
        }
    }

    fn set_window(&mut self, params: &HpccParams, bytes: f64) {
        self.window = bytes.min(params.most);
        // A flow may send while less than its window is in flight.
        self.packets = ((self.window / params.packet).ceil() as u32).clamp(1, Psn::MAX_WINDOW);
        let bps = self.window * 8e9 / params.base_rtt;
        self.rate = BitRate::from_bps((bps as u64).max(1)).min(params.line);
    }
}

/// Use of a link between two of its records, and the nanoseconds between them; `None` if they are not in this order.
fn link_usage(params: &HpccParams, before: &HopRecord, now: &HopRecord) -> Option<(f64, f64)> {
    let elapsed = now.timestamp_ns.wrapping_sub(before.timestamp_ns) as i32;
    if elapsed <= 0 || now.rate_mbps == 0 {
        return None;
    }
    let elapsed = f64::from(elapsed);
    let bytes_per_ns = f64::from(now.rate_mbps) / 8e3;
    let sent = f64::from(now.tx_bytes.wrapping_sub(before.tx_bytes));
    let queue = f64::from(now.queue_bytes.min(before.queue_bytes));
    Some((queue / (bytes_per_ns * params.base_rtt) + sent / elapsed / bytes_per_ns, elapsed))
}

impl CongestionControl for Hpcc {
    type Params = HpccParams;
    const NAME: &'static str = "hpcc";
    const ABOUT: &'static str = "HPCC (SIGCOMM 2019): window from in-band telemetry of the switches";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("eta", 0.95, 0.01, 1.0, "target use of the most used link; published (95 %)"),
        Parameter::count("max_stage", 5, 0, 1_000, "additive steps before a multiplicative one; published (5)"),
        Parameter::derived(
            "w_ai",
            Kind::Bytes,
            "W_AI: additive step, the window of line rate times (1 - `eta`) / `flows`, at least 1 B; published (the formula)",
        ),
        Parameter::count("flows", 16, 1, 1_000_000, "N: flows expected on a link, for `w_ai`; not stated (16)"),
        Parameter::derived(
            "base_rtt",
            Kind::Time,
            "T: round trip of the longest path when empty; published (as derived)",
        ),
    ];

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<HpccParams, String> {
        let (eta, line) = (settings.number("eta")?, ceiling(flow));
        let base_rtt = match settings.value("base_rtt") {
            Some(_) => settings.time("base_rtt")?,
            None => flow.base_rtt,
        };
        let base_rtt = (base_rtt.as_ps() as f64 / 1e3).max(1.0);
        let most = line.as_bps() as f64 * base_rtt / 8e9;
        let w_ai = match settings.value("w_ai") {
            Some(_) => settings.bytes("w_ai")? as f64,
            None => (most * (1.0 - eta) / settings.count("flows")? as f64).max(1.0),
        };
        Ok(HpccParams {
            eta,
            max_stage: settings.count("max_stage")? as u32,
            w_ai,
            base_rtt,
            most,
            line,
            packet: f64::from(flow.mtu + flow.header),
        })
    }

    fn new(params: &HpccParams, _flow: &FlowConfig, _now: Time) -> Hpcc {
        let mut control = Hpcc {
            window: params.most,
            reference: params.most,
            usage: 1.0,
            stage: 0,
            left: 0,
            measured: false,
            last: Telemetry::default(),
            rate: params.line,
            packets: 1,
        };
        control.set_window(params, params.most);
        control
    }

    fn on_telemetry(&mut self, params: &HpccParams, _now: Time, telemetry: &Telemetry) {
        if let Some((usage, elapsed)) = self.inflight(params, telemetry) {
            let weight = elapsed.min(params.base_rtt) / params.base_rtt;
            self.usage = (1.0 - weight) * self.usage + weight * usage;
            self.measured = true;
        }
        self.last = *telemetry;
    }
    fn on_ack(&mut self, params: &HpccParams, sample: &AckSample) {
        let first = self.left == 0;
        self.left = self.left.saturating_sub(sample.acked);
        let round_over = self.left == 0;
        if std::mem::take(&mut self.measured) {
            self.compute_window(params, round_over && !first);
        }
        if round_over {
            // What is in flight, and the first packet after it.
            self.left = sample.in_flight + 1;
        }
    }

    #[inline]
    fn rate(&self) -> BitRate {
        self.rate
    }
    #[inline]
    fn window(&self) -> u32 {
        self.packets
    }
}
