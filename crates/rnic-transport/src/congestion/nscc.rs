//! NSCC, the network-signalled congestion control of Ultra Ethernet Transport: a window controlled by ECN marks, delay
//! and trimmed packets.
//!
//! Each acknowledgement falls into one of four quadrants:
//!
//! | mark | delay | the window |
//! |---|---|---|
//! | no | below the target | grows in proportion to the distance from the target; after a window without delay, fast |
//! | no | above the target | grows by the same amount for each byte of every flow (towards fairness) |
//! | yes | below the target | stays |
//! | yes | above the target | shrinks in proportion to the excess of the average delay, at most once per base round trip |
//!
//! The delay is the round-trip time minus the base round-trip time. Increases are collected and added after each 8
//! packets. *Quick adapt*: if packets were trimmed, and less than an eighth of the maximum window has arrived in a
//! round trip, the window becomes what has arrived.
//!
//! Source: the public reference simulator (uet-htsim, 2025), from which the constants are. UET 1.0 prevails; it was not
//! read. Constants are scaled by the bandwidth-delay product, and by the target, relative to a network of 100 Gbps and
//! 12 us.
//!
//! Not modelled: the receiver's pending-window signal (`Rcv_Cwnd_Pend`), and probes that measure the base round-trip
//! time, which is known here.

use super::{AckSample, CongestionControl, Kind, LossSignal, Marking, Parameter, Settings, Value, ceiling};
use crate::config::FlowConfig;
use crate::{BitRate, Bytes, Time};

/// Bandwidth-delay product, in bytes, and round-trip time for which the constants of the algorithm are stated: 100 Gbps
/// and 12 us.
const REFERENCE: (f64, f64) = (150_000.0, 12e6);

/// A delay below this, in picoseconds, counts as none.
const NO_DELAY: f64 = 1e6;

/// Number of packets after whose acknowledgement the collected increase is added.
const ADJUST_PACKETS: f64 = 8.0;

/// The parameters of NSCC in a run. Sizes are in bytes, times in picoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NsccParams {
    /// Bytes of a full packet, headers included.
    packet: f64,
    base_rtt: f64,
    target: f64,
    max_window: f64,
    /// Increase for each byte and each picosecond of distance from the target, in square bytes.
    alpha: f64,
    /// Increase for each byte above the target, in bytes.
    fair: f64,
    /// Increase in each period, whatever the signals, in bytes.
    eta: f64,
    /// Share of the acknowledged bytes by which the window grows without delay.
    fast: f64,
    gamma: f64,
    floor: f64,
    gain: f64,
    marking: Marking,
    line: BitRate,
    /// Whether switches trim packets.
    trims: bool,
}

/// The congestion control NSCC of one flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Nscc {
    /// Window, in bytes, and in whole packets, which the sender asks for several times for each packet.
    window: f64,
    packets: u32,
    /// Average delay, in picoseconds.
    average: f64,
    /// Collected increase, in square bytes, and acknowledged bytes since it was last added.
    increase: f64,
    collected: f64,
    /// When it was last added, and when the window was last made smaller for marks.
    adjusted: Time,
    decreased: Time,
    /// Bytes that were acknowledged without delay, one after the other, and whether they are more than a window.
    undelayed: f64,
    is_fast: bool,
    /// Quick adapt: the end of the current period, the bytes that have arrived in it, and whether a packet was lost.
    period_ends: Time,
    arrived: f64,
    is_due: bool,
    /// Bytes to be acknowledged before the window may shrink again after quick adapt.
    ignored: f64,
    in_flight: f64,
    line: BitRate,
}

/// Number of whole packets in a window, at least 1.
fn packets(window: f64, packet: f64) -> u32 {
    ((window / packet) as u32).max(1)
}

impl Nscc {
    /// The window in bytes.
    pub fn bytes(&self) -> f64 {
        self.window
    }

    /// The average delay.
    pub fn average_delay(&self) -> Time {
        Time::from_ps(self.average as u64)
    }

    /// Handles a packet that the last switch before the receiver trimmed, in a flow that credit limits too. Only quick
    /// adapt makes the window smaller.
    pub(super) fn on_last_hop(&mut self, params: &NsccParams, now: Time) {
        self.is_due = true;
        self.quick_adapt(params, now);
    }

    /// Keeps the window within its bounds; every change of it ends here.
    fn clamp(&mut self, params: &NsccParams) {
        self.window = self.window.clamp(params.packet, params.max_window);
        self.packets = packets(self.window, params.packet);
    }

    /// Adds the collected increase if enough has been acknowledged, or a round trip has passed.
    fn adjust(&mut self, params: &NsccParams, now: Time) {
        let span = now.saturating_sub(self.adjusted).as_ps() as f64;
        if self.collected < ADJUST_PACKETS * params.packet && span < params.base_rtt {
            return;
        }
        self.window += self.increase / self.window;
        if span >= params.base_rtt {
            self.window += params.eta;
            self.adjusted = now;
        }
        (self.increase, self.collected) = (0.0, 0.0);
        self.clamp(params);
    }

    /// At the end of a period in which packets were lost: takes what has arrived for the window, if it is little.
    fn quick_adapt(&mut self, params: &NsccParams, now: Time) {
        if now < self.period_ends {
            return;
        }
        if self.is_due && self.arrived < params.max_window / 8.0 {
            self.window = self.arrived;
            self.clamp(params);
            self.ignored = self.in_flight;
            (self.increase, self.collected) = (0.0, 0.0);
        }
        self.is_due = false;
        self.arrived = 0.0;
        self.period_ends = now + Time::from_ps((params.base_rtt + params.target) as u64);
    }
}

impl CongestionControl for Nscc {
    type Params = NsccParams;
    const NAME: &'static str = "nscc";
    const ABOUT: &'static str = "NSCC of Ultra Ethernet: a window by marks, delay and trimmed packets";
    const PACED: bool = false;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::derived(
            "target",
            Kind::Time,
            "target of the delay in queues; 0.75 base round trips, without trimming one (uet-htsim)",
        ),
        Parameter::number("alpha", 4.0, 0.0, 1e3, "scale of the proportional increase; 4 (uet-htsim)"),
        Parameter::number("fair_increase", 5.0, 0.0, 1e3, "scale of the increase towards fairness; 5 (uet-htsim)"),
        Parameter::number("eta", 0.15, 0.0, 1e3, "increase per period in packets; 0.15 (uet-htsim)"),
        Parameter::number("fast_increase", 0.25, 0.0, 10.0, "scale of the increase without delay; 0.25 (uet-htsim)"),
        Parameter::number("gamma", 0.8, 0.0, 1.0, "weight of the excess delay in a decrease; 0.8 (uet-htsim)"),
        Parameter::number("max_decrease", 0.5, 0.0, 1.0, "maximum decrease of the window at once; 0.5 (uet-htsim)"),
        Parameter::number("delay_gain", 0.0125, 1e-6, 1.0, "weight of a new delay in the average; 0.0125 (uet-htsim)"),
        Parameter::number(
            "max_window",
            1.5,
            0.01,
            100.0,
            "maximum window in bandwidth-delay products; 1.5 (uet-htsim)",
        ),
    ];

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<NsccParams, String> {
        let packet = f64::from(flow.mtu + flow.header);
        let base_rtt = (flow.base_rtt.as_ps() as f64).max(1.0);
        let bdp = (flow.line_rate.as_bps() as f64 / 8.0 * base_rtt * 1e-12).max(packet);
        let target = match settings.time("target") {
            Ok(target) => (target.as_ps() as f64).max(1.0),
            Err(_) if flow.trims => 0.75 * base_rtt,
            Err(_) => base_rtt,
        };
        let (a, b) = (bdp / REFERENCE.0, target / REFERENCE.1);
        Ok(NsccParams {
            packet,
            base_rtt,
            target,
            max_window: (settings.number("max_window")? * bdp).max(packet),
            alpha: settings.number("alpha")? * packet * a * b / target,
            fair: settings.number("fair_increase")? * packet * a,
            eta: settings.number("eta")? * packet * a,
            fast: settings.number("fast_increase")? * a,
            gamma: settings.number("gamma")?,
            floor: 1.0 - settings.number("max_decrease")?,
            gain: settings.number("delay_gain")?,
            marking: Marking { kmin: Bytes((0.2 * bdp) as u64), kmax: Bytes((0.8 * bdp) as u64), pmax: 1.0 },
            line: ceiling(flow),
            trims: flow.trims,
        })
    }

    fn marking(params: &NsccParams, _flow: &FlowConfig) -> Option<Marking> {
        Some(params.marking)
    }

    fn derived(params: &NsccParams, name: &str) -> Option<Value> {
        (name == "target").then(|| Time::from_ps(params.target as u64).into())
    }

    fn new(params: &NsccParams, _flow: &FlowConfig, now: Time) -> Nscc {
        Nscc {
            window: params.max_window,
            packets: packets(params.max_window, params.packet),
            average: 0.0,
            increase: 0.0,
            collected: 0.0,
            adjusted: now,
            decreased: Time::ZERO,
            undelayed: 0.0,
            is_fast: false,
            period_ends: now + Time::from_ps((params.base_rtt + params.target) as u64),
            arrived: 0.0,
            is_due: false,
            ignored: 0.0,
            in_flight: 0.0,
            line: params.line,
        }
    }

    #[inline]
    fn on_ack(&mut self, params: &NsccParams, sample: &AckSample) {
        self.in_flight = f64::from(sample.in_flight) * params.packet;
        if sample.acked == 0 {
            return; // of a trimmed packet, which has waited in no queue, or of a duplicate
        }
        let bytes = f64::from(sample.acked) * params.packet;
        self.arrived += bytes;
        self.ignored = (self.ignored - bytes).max(0.0);
        let delay = (sample.rtt.as_ps() as f64 - params.base_rtt).max(0.0);
        // A long delay without a mark is of a queue that has drained since: it hardly counts.
        let sampled = if !sample.marked && delay > params.target { params.base_rtt / 4.0 } else { delay };
        self.average += params.gain * (sampled - self.average);
        if !params.trims && delay > 4.0 * params.target {
            self.is_due = true;
        }
        self.quick_adapt(params, sample.now);
        if delay < NO_DELAY {
            self.undelayed += bytes;
            self.is_fast |= self.undelayed > self.window;
        } else {
            (self.undelayed, self.is_fast) = (0.0, false);
        }
        match (sample.marked, delay < params.target) {
            (false, true) if self.is_fast => {
                self.window += bytes * params.fast;
                self.clamp(params);
            }
            (false, true) => self.increase += params.alpha * bytes * (params.target - delay),
            (false, false) => self.increase += params.fair * bytes,
            (true, true) => {}
            (true, false) => {
                let passed = sample.now.saturating_sub(self.decreased).as_ps() as f64 >= params.base_rtt;
                if passed && self.ignored <= 0.0 && self.average > params.target {
                    let excess = (self.average - params.target) / self.average;
                    self.window *= (1.0 - params.gamma * excess).max(params.floor);
                    self.decreased = sample.now;
                    self.clamp(params);
                }
            }
        }
        self.collected += bytes;
        self.adjust(params, sample.now);
    }

    fn on_loss(&mut self, params: &NsccParams, now: Time, signal: LossSignal) {
        self.is_due = true;
        self.quick_adapt(params, now);
        match signal {
            LossSignal::Nack | LossSignal::LastHop if self.ignored > 0.0 => {}
            LossSignal::Nack | LossSignal::LastHop => self.window -= params.packet,
            LossSignal::Timeout => self.window = params.packet,
        }
        self.clamp(params);
    }

    fn rate(&self) -> BitRate {
        self.line
    }

    #[inline]
    fn window(&self) -> u32 {
        self.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network of 100 Gbps and 12 us, for which the constants are stated: the scales are 1 and 0.75.
    fn params() -> NsccParams {
        let flow = FlowConfig {
            mtu: 4_000,
            header: 100,
            line_rate: BitRate::from_gbps(100),
            base_rtt: Time::from_us(12),
            trims: true,
            ..FlowConfig::default()
        };
        Nscc::params(&Settings::of(&[Nscc::PARAMETERS]), &flow).unwrap()
    }

    fn ack(at_us: u64, delay_us: u64, marked: bool) -> AckSample {
        AckSample { now: Time::from_us(at_us), rtt: Time::from_us(12 + delay_us), acked: 1, in_flight: 30, marked }
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn constants_are_scaled_by_the_network() {
        let params = params();
        near(params.target, 9e6);
        near(params.max_window, 225_000.0);
        near(params.alpha, 4.0 * 4_100.0 * 0.75 / 9e6);
        near(params.fair, 20_500.0);
        near(params.eta, 615.0);
        assert_eq!((params.marking.kmin, params.marking.kmax), (Bytes(30_000), Bytes(120_000)));
    }

    /// The window after one acknowledgement, before and after the collected increase is added.
    fn step(sample: AckSample) -> (Nscc, NsccParams) {
        let params = params();
        let mut flow =
            Nscc { window: 100_000.0, adjusted: sample.now, ..Nscc::new(&params, &FlowConfig::default(), Time::ZERO) };
        flow.period_ends = Time::MAX;
        flow.on_ack(&params, &sample);
        (flow, params)
    }

    #[test]
    fn four_quadrants() {
        // No mark, 3 us: 4,100 bytes x alpha x (9 - 3) us.
        let (flow, params) = step(ack(100, 3, false));
        near(flow.increase, 4_100.0 * params.alpha * 6e6);
        near(flow.window, 100_000.0);
        // No mark, 10 us: 4,100 x 20,500; the average takes a quarter of the round trip.
        let (flow, params) = step(ack(100, 10, false));
        near(flow.increase, 4_100.0 * 20_500.0);
        near(flow.average, params.gain * 3e6);
        // A mark below the target changes nothing.
        let (flow, _) = step(ack(100, 3, true));
        near(flow.increase, 0.0);
        near(flow.window, 100_000.0);
        // A mark above the target: the average decides.
        let (mut flow, params) = step(ack(100, 20, true));
        near(flow.window, 100_000.0);
        flow.average = 18e6;
        let expected = 18e6 + params.gain * (20e6 - 18e6);
        flow.adjusted = Time::from_us(101);
        flow.on_ack(&params, &ack(101, 20, true));
        near(flow.window, 100_000.0 * (1.0 - 0.8 * (expected - 9e6) / expected));
        // Not again within a base round trip.
        let window = flow.window;
        flow.adjusted = Time::from_us(102);
        flow.on_ack(&params, &ack(102, 20, true));
        near(flow.window, window);
        // At most by half.
        flow.average = 1e9;
        flow.adjusted = Time::from_us(120);
        flow.on_ack(&params, &ack(120, 900, true));
        near(flow.window, window * 0.5);
    }

    #[test]
    fn increases_are_added_after_eight_packets_and_eta_after_a_round_trip() {
        let params = params();
        let mut flow = Nscc { window: 100_000.0, ..Nscc::new(&params, &FlowConfig::default(), Time::ZERO) };
        flow.period_ends = Time::MAX;
        for _ in 0..7 {
            flow.on_ack(&params, &ack(1, 10, false));
        }
        near(flow.window, 100_000.0);
        flow.on_ack(&params, &ack(1, 10, false));
        let grown = 100_000.0 + 8.0 * 4_100.0 * 20_500.0 / 100_000.0;
        near(flow.window, grown);
        flow.on_ack(&params, &ack(13, 3, true));
        near(flow.window, grown + 615.0);
    }

    #[test]
    fn a_window_without_delay_makes_the_increase_fast() {
        let params = params();
        let mut flow = Nscc { window: 10_000.0, ..Nscc::new(&params, &FlowConfig::default(), Time::ZERO) };
        (flow.period_ends, flow.adjusted) = (Time::MAX, Time::from_us(1));
        flow.on_ack(&params, &ack(1, 0, false));
        flow.on_ack(&params, &ack(1, 0, false));
        near(flow.window, 10_000.0);
        // 12,300 bytes without delay are more than the window: a quarter of each acknowledged byte.
        flow.on_ack(&params, &ack(1, 0, false));
        near(flow.window, 10_000.0 + 4_100.0 / 4.0);
        flow.on_ack(&params, &ack(1, 2, false));
        assert!(!flow.is_fast, "a delay ends it");
    }

    #[test]
    fn quick_adapt_takes_what_has_arrived() {
        let params = params();
        let mut flow = Nscc::new(&params, &FlowConfig::default(), Time::ZERO);
        // Two packets arrive, others are trimmed: each NACK takes a packet.
        flow.on_ack(&params, &AckSample { acked: 2, ..ack(13, 3, true) });
        let window = flow.window;
        flow.on_loss(&params, Time::from_us(14), LossSignal::Nack);
        near(flow.window, window - 4_100.0);
        // The period ends after 21 us: 8,200 bytes are less than an eighth of 225,000.
        flow.on_loss(&params, Time::from_us(21), LossSignal::Nack);
        near(flow.window, 8_200.0);
        // 30 packets are in flight: losses are ignored until they are acknowledged.
        flow.on_loss(&params, Time::from_us(22), LossSignal::Nack);
        near(flow.window, 8_200.0);
        assert!(flow.ignored > 0.0 && flow.window() == 2);
    }
}
