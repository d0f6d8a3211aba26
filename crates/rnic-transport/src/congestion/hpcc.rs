//! HPCC ("High Precision Congestion Control", SIGCOMM 2019, algorithm 1): a window controlled by in-band telemetry from
//! switches.
//!
//! Every data packet collects a [`HopRecord`] at each hop, and its ACK returns the records to the sender. From two
//! consecutive records of a link, the sender computes the link's utilization: its transmission rate divided by its
//! capacity, plus its queue divided by its bandwidth-delay product. The link with the highest utilization U determines
//! the window. Each ACK updates the window. The update is multiplicative if U is at least the target `eta`, or after
//! `max_stage` round trips with additive updates: the window becomes the reference window times `eta` / U, plus the
//! additive increase `w_ai`. In an additive update, the window becomes the reference window plus `w_ai`. The reference
//! window is set to the window only once per round trip, so that the reactions to several ACKs of one round trip do not
//! accumulate.
//!
//! Where the HPCC paper leaves a choice, the implementation follows the first author's public simulator:
//!
//! - The sender only stores the telemetry records of the first ACK, because there is no earlier ACK to compare them
//!   with. It sets the reference window to the window for the first time in the second round trip.
//! - The window never exceeds the bandwidth-delay product at line rate.
//! - A loss does not change the window.
//!
//! If an ACK has another number of telemetry records than the previous ACK, the records belong to another path. The
//! sender stores them for the next ACK, but does not change the window. The sender does the same if the record of a
//! link is not newer than its record in the previous ACK.

use super::{AckSample, CongestionControl, Kind, Parameter, Settings, ceiling};
use crate::config::FlowConfig;
use crate::telemetry::{HopRecord, Telemetry};
use crate::{BitRate, Psn, Time};

/// The parameters of HPCC in a run, computed from the scenario's settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HpccParams {
    eta: f64,
    max_stage: u32,
    /// W_AI, the additive increase of the window per step, in bytes.
    w_ai: f64,
    /// T, the round-trip time without queueing, in nanoseconds.
    base_rtt: f64,
    /// Maximum window: the bandwidth-delay product at line rate, in bytes.
    max_window: f64,
    /// Maximum rate of the flow (see [`ceiling`]).
    line: BitRate,
    /// Length of a full packet in bytes, headers included.
    packet: f64,
}

/// The congestion control HPCC: controls window and rate of a flow by in-band telemetry.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hpcc {
    /// W, the window, in bytes.
    window: f64,
    /// W^c, the reference window, in bytes: the window at the end of the last round trip.
    reference: f64,
    /// U: moving average of the utilization of the most utilized link of the path; 1 is a fully utilized link without a
    /// queue.
    utilization: f64,
    /// Number of round trips with additive updates of the window since the last multiplicative update.
    stage: u32,
    /// Number of packets to be acknowledged before the round trip ends and the reference window is set to the window.
    left: u32,
    /// Whether the telemetry of the current ACK has given a measurement of the utilization.
    measured: bool,
    /// Telemetry records of the last ACK, with which the records of the next ACK are compared.
    last: Telemetry,
    /// The pacing rate: the window divided by T (the round-trip time without queueing), at most line rate.
    rate: BitRate,
    /// The window in packets, rounded up.
    packets: u32,
}

impl Hpcc {
    /// U: the estimated utilization of the most utilized link of the path. It exceeds 1 if the link is fully utilized
    /// and has a queue.
    pub fn utilization(&self) -> f64 {
        self.utilization
    }

    /// MeasureInflight of algorithm 1 in the HPCC paper: returns the utilization of the most utilized link, and the
    /// time in nanoseconds over which this utilization was measured. `None` if the ACK's telemetry gives no
    /// measurement.
    fn inflight(&self, params: &HpccParams, telemetry: &Telemetry) -> Option<(f64, f64)> {
        let (before, now) = (self.last.hops(), telemetry.hops());
        if before.is_empty() || before.len() != now.len() {
            return None;
        }
        let mut max = (0.0, 0.0);
        for (before, now) in before.iter().zip(now) {
            let (utilization, elapsed) = link_utilization(params, before, now)?;
            if utilization > max.0 {
                max = (utilization, elapsed);
            }
        }
        Some(max)
    }

    /// ComputeWind of algorithm 1 in the HPCC paper: computes the window from the utilization. `replace` says whether
    /// to also set the reference window to the new window, as once per round trip.
    fn compute_window(&mut self, params: &HpccParams, replace: bool) {
        let multiplicative = self.utilization >= params.eta || self.stage >= params.max_stage;
        let scaled = match multiplicative {
            true => self.reference * params.eta / self.utilization.max(1e-9), // 1e-9 avoids a division by 0
            false => self.reference,
        };
        self.set_window(params, scaled + params.w_ai);
        if replace {
            self.stage = if multiplicative { 0 } else { self.stage + 1 };
            self.reference = self.window;
        }
    }

    fn set_window(&mut self, params: &HpccParams, bytes: f64) {
        self.window = bytes.min(params.max_window);
        // Round up, because a flow may send a packet while less than its window is in flight.
        self.packets = ((self.window / params.packet).ceil() as u32).clamp(1, Psn::MAX_WINDOW);
        let bps = self.window * 8e9 / params.base_rtt;
        self.rate = BitRate::from_bps((bps as u64).max(1)).min(params.line);
    }
}

/// The utilization of a link in the time between two of its telemetry records, and the length of this time in
/// nanoseconds. `None` if the record `now` is not later than the record `before`.
fn link_utilization(params: &HpccParams, before: &HopRecord, now: &HopRecord) -> Option<(f64, f64)> {
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
    const ABOUT: &'static str = "HPCC (SIGCOMM 2019): window controlled by in-band telemetry from switches";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("eta", 0.95, 0.01, 1.0, "target utilization of the most utilized link; published (95 %)"),
        Parameter::count("max_stage", 5, 0, 1_000, "additive steps before a multiplicative one; published (5)"),
        Parameter::derived(
            "w_ai",
            Kind::Bytes,
            "W_AI: additive step, by default the BDP at line rate times (1 - `eta`) / `flows`, at least 1 B; published (the formula)",
        ),
        Parameter::count(
            "flows",
            16,
            1,
            1_000_000,
            "N: expected number of flows on a link, for `w_ai`; not stated (16)",
        ),
        Parameter::derived(
            "base_rtt",
            Kind::Time,
            "T: round-trip time of the longest path without queueing; published (as derived)",
        ),
    ];

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<HpccParams, String> {
        let (eta, line) = (settings.number("eta")?, ceiling(flow));
        let base_rtt = match settings.value("base_rtt") {
            Some(_) => settings.time("base_rtt")?,
            None => flow.base_rtt,
        };
        let base_rtt = (base_rtt.as_ps() as f64 / 1e3).max(1.0);
        let max_window = line.as_bps() as f64 * base_rtt / 8e9;
        let w_ai = match settings.value("w_ai") {
            Some(_) => settings.bytes("w_ai")? as f64,
            None => (max_window * (1.0 - eta) / settings.count("flows")? as f64).max(1.0),
        };
        Ok(HpccParams {
            eta,
            max_stage: settings.count("max_stage")? as u32,
            w_ai,
            base_rtt,
            max_window,
            line,
            packet: f64::from(flow.mtu + flow.header),
        })
    }

    fn new(params: &HpccParams, _flow: &FlowConfig, _now: Time) -> Hpcc {
        let mut control = Hpcc {
            window: params.max_window,
            reference: params.max_window,
            utilization: 1.0,
            stage: 0,
            left: 0,
            measured: false,
            last: Telemetry::default(),
            rate: params.line,
            packets: 1,
        };
        control.set_window(params, params.max_window);
        control
    }

    fn on_telemetry(&mut self, params: &HpccParams, _now: Time, telemetry: &Telemetry) {
        if let Some((utilization, elapsed)) = self.inflight(params, telemetry) {
            let weight = elapsed.min(params.base_rtt) / params.base_rtt;
            self.utilization = (1.0 - weight) * self.utilization + weight * utilization;
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
            // The round trip ends when all packets in flight and the next new packet are acknowledged.
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
