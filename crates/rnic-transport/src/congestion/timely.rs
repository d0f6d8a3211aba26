//! TIMELY ("RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, algorithm 1) and the fix of "ECN or Delay: Lessons
//! Learnt from Analysis of DCQCN and TIMELY" (CoNEXT 2016).
//!
//! One update for each completed segment, from the round-trip time of the acknowledgement that completes it. An acknowledgement
//! that completes several brings one update: it holds one sample. Packets are paced one by one, as a NIC does.
//!
//! Where the text leaves a choice:
//!
//! - the first sample has no predecessor: its difference is zero;
//! - hyperactive increase (HAI) counts completions that come to the gradient and find it not positive; any other completion
//!   starts the count again. The five that must precede it get single steps, the sixth the first large one;
//! - a steep gradient makes `1 - beta * gradient` negative. The code that TIMELY's first author released bounds a decrease to one
//!   half, and so does `halve_at_most` here; without it such a rate falls to `min_rate`.

use super::{AckSample, CongestionControl, Kind, LossSignal, Parameter, Settings, ceiling};
use crate::config::FlowConfig;
use crate::{BitRate, Bytes, Time};

/// TIMELY.
pub type Timely = DelayGradient<false>;
/// TIMELY with the gradient's weight bounded and an absolute reference, so that it has a unique fixed point.
pub type PatchedTimely = DelayGradient<true>;

/// Parameters of both.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TimelyParams {
    /// Picoseconds, like all round-trip times here.
    t_low: f64,
    t_high: f64,
    min_rtt: f64,
    beta: f64,
    delta: f64,
    alpha: f64,
    hai_threshold: u16,
    hai_factor: f64,
    segment: u32,
    min_rate: f64,
    /// Line rate, or what caps the flow below it.
    line: f64,
    least_factor: f64,
    loss_backoff: bool,
    mtu: u32,
    base_rtt: Time,
}

/// Rate control from round-trip times and their gradient.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DelayGradient<const PATCHED: bool> {
    /// Bits per second.
    rate: f64,
    /// Smoothed difference between consecutive samples, in picoseconds.
    rtt_diff: f64,
    /// The last sample; zero before the first.
    last_rtt: Time,
    /// A loss before this instant belongs to one already answered.
    backoff_after: Time,
    /// Bytes of the segment under way that are acknowledged.
    acked: u32,
    /// Consecutive completions with a gradient that is not positive.
    calm: u16,
}

/// The weight of the gradient in patched TIMELY (w in "ECN or Delay"): 0 up to -1/4, 1 from 1/4 on, linear between.
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
    /// A segment is complete.
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
            self.rate * (1.0 - params.beta * (1.0 - params.t_high / rtt)).max(params.least_factor)
        } else if PATCHED {
            let weight = weight(gradient);
            let error = (rtt - params.t_low) / params.t_low;
            params.delta * (1.0 - weight) + self.rate * (1.0 - params.beta * weight * error).max(params.least_factor)
        } else if gradient <= 0.0 {
            self.calm = calm.saturating_add(1);
            let steps = if calm >= params.hai_threshold { params.hai_factor } else { 1.0 };
            self.rate + steps * params.delta
        } else {
            self.rate * (1.0 - params.beta * gradient).max(params.least_factor)
        };
        self.set_rate(params, rate);
    }

    fn set_rate(&mut self, params: &TimelyParams, rate: f64) {
        self.rate = rate.min(params.line).max(params.min_rate);
    }
}

const T_LOW: Parameter =
    Parameter::time("t_low", Time::from_us(50), "below it the rate grows whatever the gradient; published (50 us)");
const T_HIGH: Parameter = Parameter::time(
    "t_high",
    Time::from_us(500),
    "above it the rate falls whatever the gradient; published (500 us), first author's released code has 1 ms",
);
const MIN_RTT: Parameter =
    Parameter::time("min_rtt", Time::from_us(20), "what the gradient is relative to; published (20 us)");
const DELTA: Parameter = Parameter::derived(
    "delta",
    Kind::Rate,
    "additive step, a thousandth of line rate; published for 10 Gbps (10 Mbps), scaled like a later public simulator",
);
const ALPHA: Parameter = Parameter::number(
    "alpha",
    0.875,
    0.0,
    1.0,
    "weight of the newest difference; uncertain (0.875), first author's released code has 0.02",
);
const SEGMENT: Parameter =
    Parameter::bytes("segment", 16_000, "acknowledged bytes for an update each; published (16 KB to 64 KB)");
const MIN_RATE: Parameter = Parameter::rate(
    "min_rate",
    BitRate::from_bps(100_000_000),
    "no rate below it; not stated, our choice (as for DCQCN)",
);
const HALVE_AT_MOST: Parameter = Parameter::flag(
    "halve_at_most",
    true,
    "no update lowers the rate to less than half; not stated, first author's released code (yes)",
);
const LOSS_BACKOFF: Parameter = Parameter::flag(
    "loss_backoff",
    false,
    "halve the rate on a loss, once per round trip; published (no), tried in the IRN paper (section 4.3; the half is our choice)",
);

impl<const PATCHED: bool> CongestionControl for DelayGradient<PATCHED> {
    type Params = TimelyParams;
    const NAME: &'static str = if PATCHED { "patched-timely" } else { "timely" };
    const ABOUT: &'static str = if PATCHED {
        "TIMELY with the fix of \"ECN or Delay\" (CoNEXT 2016): rate from delay, with a unique fixed point"
    } else {
        "TIMELY (SIGCOMM 2015): rate from the round-trip time and its gradient"
    };
    const PARAMETERS: &'static [Parameter] = if PATCHED {
        &[
            T_LOW,
            T_HIGH,
            MIN_RTT,
            Parameter::number("beta", 0.008, 0.0, 1.0, "multiplicative decrease; published with the fix (0.008)"),
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
            Parameter::number("beta", 0.8, 0.0, 1.0, "multiplicative decrease; published (0.8)"),
            DELTA,
            ALPHA,
            Parameter::count("hai_threshold", 5, 1, 1_000, "calm completions before large steps; published (5)"),
            Parameter::count("hai_factor", 5, 1, 1_000, "N: `delta`s in a large step; published (5)"),
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
            least_factor: if settings.flag("halve_at_most")? { 0.5 } else { 0.0 },
            loss_backoff: settings.flag("loss_backoff")?,
            mtu: flow.mtu,
            base_rtt: flow.base_rtt,
        };
        if params.t_low > params.t_high {
            return Err("`t_low` cannot be above `t_high`".to_string());
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
