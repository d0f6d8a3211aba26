//! TIMELY ("RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, algorithm 1) and the fix of "ECN or Delay:
//! Lessons Learnt from Analysis of DCQCN and TIMELY" (CoNEXT 2016).
//!
//! Acknowledged bytes are counted in segments of a fixed length (the parameter `segment`, 16 KB by default). When all
//! bytes of a segment are acknowledged, the rate is updated once, from the round-trip time (RTT) sample of the last
//! acknowledgement. If one acknowledgement covers the ends of several segments, the rate is still updated only once.
//! The NIC paces single packets, not bursts of a segment.
//!
//! Where the papers leave a choice, this implementation does the following:
//!
//! - For the first RTT sample of a flow, the difference from the previous RTT is taken as zero, because there is no
//!   earlier sample.
//! - Hyperactive increase (HAI) counts consecutive rate updates with an RTT between `t_low` and `t_high` and a gradient
//!   that is not positive; any other update resets the count. Each of the first five such updates (`hai_threshold`)
//!   adds `delta` to the rate. From the sixth on, each adds `hai_factor` times `delta`.
//! - A steep RTT gradient makes `1 - beta * gradient`, the factor of the rate, negative. The code that TIMELY's first
//!   author released limits a decrease of the rate to one half, and so does this implementation if `halve_at_most` is
//!   set. Without the limit, the rate falls to `min_rate`.

use super::{AckSample, CongestionControl, Kind, LossSignal, Parameter, Settings, ceiling};
use crate::config::FlowConfig;
use crate::{BitRate, Bytes, Time};

/// TIMELY as in the SIGCOMM 2015 paper, without the fix of "ECN or Delay".
pub type Timely = DelayGradient<false>;
/// Patched TIMELY of the paper "ECN or Delay": the decrease of the rate depends on the absolute RTT and on a bounded
/// weight of the RTT gradient, which gives the algorithm a unique fixed point.
pub type PatchedTimely = DelayGradient<true>;

/// The parameters of TIMELY or patched TIMELY in a run, computed from the scenario's settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TimelyParams {
    /// RTT below which the rate grows, in picoseconds like all RTTs in this struct.
    t_low: f64,
    /// RTT above which the rate falls, in picoseconds.
    t_high: f64,
    /// RTT by which the RTT difference is divided to get the gradient.
    min_rtt: f64,
    beta: f64,
    delta: f64,
    alpha: f64,
    hai_threshold: u16,
    hai_factor: f64,
    segment: u32,
    min_rate: f64,
    /// Maximum rate of the flow (line rate or the user's limit, see [`ceiling`]), in bits per second.
    line: f64,
    /// Minimum ratio of the rates after and before a decrease: 0.5 if `halve_at_most` is set, else 0.
    min_factor: f64,
    loss_backoff: bool,
    mtu: u32,
    base_rtt: Time,
}

/// The congestion control TIMELY, or patched TIMELY if `PATCHED`: controls the rate by the round-trip time (RTT) and
/// its gradient.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DelayGradient<const PATCHED: bool> {
    /// Current rate in bits per second.
    rate: f64,
    /// Moving average of the difference between consecutive RTT samples, in picoseconds.
    rtt_diff: f64,
    /// The last RTT sample; zero before the first sample.
    last_rtt: Time,
    /// If `loss_backoff` is set: losses before this time do not reduce the rate, so that the rate is halved at most
    /// once per round trip.
    backoff_after: Time,
    /// Number of acknowledged bytes since the last segment (the bytes between two rate updates) was complete.
    acked: u32,
    /// Number of consecutive rate updates with an RTT gradient that is not positive, for hyperactive increase (HAI).
    calm: u16,
}

/// The weight of the RTT gradient in patched TIMELY (w in the paper "ECN or Delay"): 0 for gradients up to -1/4, 1 from
/// 1/4 on, linear between.
fn weight(gradient: f64) -> f64 {
    if gradient <= -0.25 {
        0.0
    } else if gradient >= 0.25 {
        1.0
    } else {
        2.0 * gradient + 0.5
    }
}

impl<const PATCHED: bool> DelayGradient<PATCHED> {
    /// Updates the rate with an RTT sample, when all bytes of a segment (the parameter `segment`) are acknowledged.
    fn update(&mut self, params: &TimelyParams, sample: Time) {
        let rtt = sample.as_ps() as f64;
        let first = self.last_rtt == Time::ZERO;
        let difference = if first { 0.0 } else { rtt - self.last_rtt.as_ps() as f64 };
        self.last_rtt = sample;
        self.rtt_diff = (1.0 - params.alpha) * self.rtt_diff + params.alpha * difference;
        let gradient = self.rtt_diff / params.min_rtt;

        let calm = std::mem::take(&mut self.calm);
        let rate = if rtt < params.t_low {
            self.rate + params.delta
        } else if rtt > params.t_high {
            self.rate * (1.0 - params.beta * (1.0 - params.t_high / rtt)).max(params.min_factor)
        } else if PATCHED {
            let weight = weight(gradient);
            let error = (rtt - params.t_low) / params.t_low;
            params.delta * (1.0 - weight) + self.rate * (1.0 - params.beta * weight * error).max(params.min_factor)
        } else if gradient <= 0.0 {
            self.calm = calm.saturating_add(1);
            let steps = if calm >= params.hai_threshold { params.hai_factor } else { 1.0 };
            self.rate + steps * params.delta
        } else {
            self.rate * (1.0 - params.beta * gradient).max(params.min_factor)
        };
        self.set_rate(params, rate);
    }

    fn set_rate(&mut self, params: &TimelyParams, rate: f64) {
        self.rate = rate.min(params.line).max(params.min_rate);
    }
}

const T_LOW: Parameter = Parameter::time(
    "t_low",
    Time::from_us(50),
    "RTT below which the rate grows regardless of the gradient; published (50 us)",
);
const T_HIGH: Parameter = Parameter::time(
    "t_high",
    Time::from_us(500),
    "RTT above which the rate falls regardless of the gradient; published (500 us), first author's released code has 1 ms",
);
const MIN_RTT: Parameter = Parameter::time(
    "min_rtt",
    Time::from_us(20),
    "RTT by which the RTT difference is divided to get the gradient; published (20 us)",
);
const DELTA: Parameter = Parameter::derived(
    "delta",
    Kind::Rate,
    "additive increase, by default a thousandth of line rate; published for 10 Gbps (10 Mbps), scaled like in a later public simulator",
);
const ALPHA: Parameter = Parameter::number(
    "alpha",
    0.875,
    0.0,
    1.0,
    "weight of the newest RTT difference in its moving average; uncertain (0.875), first author's released code has 0.02",
);
const SEGMENT: Parameter =
    Parameter::bytes("segment", 16_000, "acknowledged bytes between two rate updates; published (16 KB to 64 KB)");
const MIN_RATE: Parameter = Parameter::rate(
    "min_rate",
    BitRate::from_bps(100_000_000),
    "minimum rate of a flow; not stated, our choice (as for DCQCN)",
);
const HALVE_AT_MOST: Parameter = Parameter::flag(
    "halve_at_most",
    true,
    "whether an update lowers the rate by at most one half; not stated, first author's released code (yes)",
);
const LOSS_BACKOFF: Parameter = Parameter::flag(
    "loss_backoff",
    false,
    "whether a loss halves the rate, at most once per round trip; published (no), tried in the IRN paper (section 4.3; halving is our choice)",
);

impl<const PATCHED: bool> CongestionControl for DelayGradient<PATCHED> {
    type Params = TimelyParams;
    const NAME: &'static str = if PATCHED { "patched-timely" } else { "timely" };
    const ABOUT: &'static str = if PATCHED {
        "TIMELY with the fix of \"ECN or Delay\" (CoNEXT 2016): rate controlled by delay, with a unique fixed point"
    } else {
        "TIMELY (SIGCOMM 2015): rate controlled by the round-trip time and its gradient"
    };
    const PARAMETERS: &'static [Parameter] = if PATCHED {
        &[
            T_LOW,
            T_HIGH,
            MIN_RTT,
            Parameter::number(
                "beta",
                0.008,
                0.0,
                1.0,
                "factor of multiplicative decrease; published with the fix (0.008)",
            ),
            DELTA,
            ALPHA,
            SEGMENT,
            MIN_RATE,
            HALVE_AT_MOST,
            LOSS_BACKOFF,
        ]
    } else {
        &[
            T_LOW,
            T_HIGH,
            MIN_RTT,
            Parameter::number("beta", 0.8, 0.0, 1.0, "factor of multiplicative decrease; published (0.8)"),
            DELTA,
            ALPHA,
            Parameter::count(
                "hai_threshold",
                5,
                1,
                1_000,
                "consecutive updates without a positive gradient before hyperactive increase (HAI); published (5)",
            ),
            Parameter::count("hai_factor", 5, 1, 1_000, "N: factor of `delta` in hyperactive increase; published (5)"),
            SEGMENT,
            MIN_RATE,
            HALVE_AT_MOST,
            LOSS_BACKOFF,
        ]
    };

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<TimelyParams, String> {
        let ps = |name| settings.time(name).map(|time| time.as_ps() as f64);
        let line = ceiling(flow);
        let delta = match settings.value("delta") {
            None => flow.line_rate.as_bps() as f64 / 1_000.0,
            Some(_) => settings.rate("delta")?.as_bps() as f64,
        };
        let segment = settings.bytes("segment")?;
        let (hai_threshold, hai_factor) =
            if PATCHED { (0, 1) } else { (settings.count("hai_threshold")?, settings.count("hai_factor")?) };
        let params = TimelyParams {
            t_low: ps("t_low")?,
            t_high: ps("t_high")?,
            min_rtt: ps("min_rtt")?,
            beta: settings.number("beta")?,
            delta,
            alpha: settings.number("alpha")?,
            hai_threshold: hai_threshold as u16,
            hai_factor: hai_factor as f64,
            segment: u32::try_from(segment)
                .map_err(|_| format!("`segment` cannot be {}: at most 4 GB", Bytes(segment)))?,
            min_rate: settings.rate("min_rate")?.min(line).as_bps() as f64,
            line: line.as_bps() as f64,
            min_factor: if settings.flag("halve_at_most")? { 0.5 } else { 0.0 },
            loss_backoff: settings.flag("loss_backoff")?,
            mtu: flow.mtu,
            base_rtt: flow.base_rtt,
        };
        if params.t_low > params.t_high {
            return Err("`t_low` must not be greater than `t_high`".to_string());
        }
        Ok(params)
    }

    fn new(params: &TimelyParams, _flow: &FlowConfig, _now: Time) -> Self {
        DelayGradient {
            rate: params.line,
            rtt_diff: 0.0,
            last_rtt: Time::ZERO,
            backoff_after: Time::ZERO,
            acked: 0,
            calm: 0,
        }
    }

    #[inline]
    fn on_ack(&mut self, params: &TimelyParams, sample: &AckSample) {
        let acked = u64::from(self.acked) + u64::from(sample.acked) * u64::from(params.mtu);
        let segment = u64::from(params.segment);
        if acked < segment {
            self.acked = acked as u32;
            return;
        }
        self.acked = (acked % segment) as u32;
        self.update(params, sample.rtt);
    }
    fn on_loss(&mut self, params: &TimelyParams, now: Time, _signal: LossSignal) {
        if params.loss_backoff && now >= self.backoff_after {
            self.backoff_after = now + self.last_rtt.max(params.base_rtt);
            self.set_rate(params, self.rate / 2.0);
        }
    }

    #[inline]
    fn rate(&self) -> BitRate {
        BitRate::from_bps(self.rate as u64)
    }
    #[inline]
    fn window(&self) -> u32 {
        u32::MAX
    }
}
