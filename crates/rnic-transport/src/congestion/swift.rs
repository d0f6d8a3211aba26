//! Swift ("Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020, algorithm 1).
//!
//! The window grows by `ai` packets per round trip while the delay is below a target, and shrinks in proportion to the
//! excess above it, at most once per round trip. The target rises as the window falls (flow scaling, section 3.5): many
//! flows that share a link need a longer queue to be told apart. A window below one packet paces packets at
//! `window / RTT`.
//!
//! Where the paper leaves a choice, or this implementation departs from it:
//!
//! - Swift separates the delay of the fabric from the delay of the hosts, and has a window for each. A flow here
//!   measures one round-trip time, so it has one window.
//! - The part of the target that grows with the number of hops (section 3.5, topology scaling) is in `base_target`,
//!   whose default is twice the round-trip time of the longest path. The paper states no number for all networks.
//! - `rtt` in `can_decrease` is the round-trip time of the ACK that is processed; for a loss, of the latest ACK.
//! - `t_last_decrease` is set if the window has become smaller. Algorithm 1 sets it also if the window has not changed
//!   (`cwnd <= cwnd_prev`). Taken literally, each ACK above the target postpones the next decrease by a round trip, and
//!   a flow whose ACKs all arrive above the target never decreases again.
//! - A timeout is not counted while pacing delays the next packet of a window below one packet: the timer then fires
//!   although nothing was sent.
//! - A window that does not limit the flow does not grow.
//! - The number of packets in flight is the window rounded down, at least 1.

use super::window::{INITIAL_WINDOW, Window, initial_window};
use super::{AckSample, CongestionControl, Kind, LossSignal, Parameter, Settings, Value, ceiling};
use crate::config::FlowConfig;
use crate::{BitRate, Psn, Time};

/// The parameters of Swift in a run, computed from the scenario's settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SwiftParams {
    initial_window: f64,
    /// In picoseconds, like all times in this struct.
    base_target: f64,
    ai: f64,
    beta: f64,
    max_mdf: f64,
    /// Flow scaling: `alpha / sqrt(window) + offset`, between 0 and `range`.
    alpha: f64,
    offset: f64,
    range: f64,
    min_window: f64,
    max_window: f64,
    retx_reset: u16,
    /// Bits of a full packet with its headers.
    packet: f64,
    base_rtt: Time,
}

/// The congestion control Swift: controls the congestion window by the round-trip time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Swift {
    window: Window,
    /// The latest round-trip time.
    rtt: Time,
    /// `t_last_decrease`: when the window was last made smaller. Zero before: the first ACK of a flow arrives a round
    /// trip after the start of the run or later.
    decreased: Time,
    /// `retransmit_cnt`: number of timeouts since the latest ACK or NACK.
    timeouts: u16,
    /// Bits of a full packet: the rate of a window below one packet follows from them.
    packet: f32,
    /// Maximum rate of the flow.
    line: BitRate,
}

impl SwiftParams {
    /// The target of the round-trip time for a window, in picoseconds (section 3.5).
    fn target(&self, window: f64) -> f64 {
        self.base_target + (self.alpha / window.sqrt() + self.offset).clamp(0.0, self.range)
    }
}

impl Swift {
    /// The congestion window in packets, with its fraction.
    pub fn exact_window(&self) -> f64 {
        self.window.packets
    }

    /// Multiplies the window by `factor` if a round trip has passed since it was last made smaller.
    fn decrease(&mut self, params: &SwiftParams, now: Time, factor: f64) {
        if now.saturating_sub(self.decreased) >= self.rtt {
            self.set(params, now, self.window.packets * factor);
        }
    }

    /// Sets the window to `window`, or to its minimum if `window` is less.
    fn set(&mut self, params: &SwiftParams, now: Time, window: f64) {
        let window = window.max(params.min_window);
        if window < self.window.packets {
            self.decreased = now;
        }
        self.window.packets = window;
    }

    /// Whether pacing still delays the first packet after the latest decrease.
    fn is_paced(&self, now: Time) -> bool {
        let delay = |window: f64| Time::from_ps((self.rtt.as_ps() as f64 / window) as u64);
        self.window.packets < 1.0 && now < self.decreased + delay(self.window.packets)
    }
}

impl CongestionControl for Swift {
    type Params = SwiftParams;
    const NAME: &'static str = "swift";
    const ABOUT: &'static str = "Swift: a window that keeps the round-trip time at a target (SIGCOMM 2020)";
    const PARAMETERS: &'static [Parameter] = &[
        INITIAL_WINDOW,
        Parameter::derived(
            "base_target",
            Kind::Time,
            "target of the round-trip time for a large window, by default twice the round-trip time of the longest path; our choice",
        ),
        Parameter::number(
            "ai",
            1.0,
            0.0,
            1e6,
            "additive increase in packets per round trip; paper's algorithm, our choice (1)",
        ),
        Parameter::number(
            "beta",
            0.8,
            0.0,
            1.0,
            "weight of the excess delay in a decrease; our choice, TIMELY's (0.8)",
        ),
        Parameter::number("max_mdf", 0.5, 0.0, 1.0, "maximum decrease of the window at once; our choice (0.5)"),
        Parameter::number(
            "fs_range",
            4.0,
            0.0,
            100.0,
            "maximum rise of the target by flow scaling, in base targets; our choice (4)",
        ),
        Parameter::number(
            "fs_min_window",
            0.1,
            1e-3,
            1e6,
            "window in packets at which flow scaling is at its maximum; our choice (0.1)",
        ),
        Parameter::number(
            "fs_max_window",
            100.0,
            1e-3,
            1e6,
            "window in packets above which the target does not rise; our choice (100)",
        ),
        Parameter::number(
            "min_window",
            0.1,
            1e-6,
            1.0,
            "minimum window in packets; our choice (0.1, where flow scaling ends)",
        ),
        Parameter::count(
            "retx_reset",
            5,
            1,
            1_000,
            "number of timeouts in a row after which the window falls to its minimum; our choice (5)",
        ),
    ];

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<SwiftParams, String> {
        let base_target = match settings.value("base_target") {
            None => 2.0 * flow.base_rtt.as_ps() as f64,
            Some(_) => settings.time("base_target")?.as_ps() as f64,
        };
        let (low, high) = (settings.number("fs_min_window")?, settings.number("fs_max_window")?);
        if low >= high {
            return Err(format!("`fs_min_window` is {low}; it must be below `fs_max_window`, which is {high}"));
        }
        let range = settings.number("fs_range")? * base_target;
        let alpha = range / (1.0 / low.sqrt() - 1.0 / high.sqrt());
        Ok(SwiftParams {
            initial_window: initial_window(settings, flow)?,
            base_target,
            ai: settings.number("ai")?,
            beta: settings.number("beta")?,
            max_mdf: settings.number("max_mdf")?,
            alpha,
            offset: -alpha / high.sqrt(),
            range,
            min_window: settings.number("min_window")?,
            max_window: f64::from(Psn::MAX_WINDOW),
            retx_reset: settings.count("retx_reset")? as u16,
            packet: f64::from(flow.mtu + flow.header) * 8.0,
            base_rtt: flow.base_rtt,
        })
    }

    fn derived(params: &SwiftParams, name: &str) -> Option<Value> {
        (name == "base_target").then(|| Time::from_ps(params.base_target as u64).into())
    }

    fn new(params: &SwiftParams, flow: &FlowConfig, _now: Time) -> Swift {
        Swift {
            window: Window::new(params.initial_window),
            rtt: params.base_rtt,
            decreased: Time::ZERO,
            timeouts: 0,
            packet: params.packet as f32,
            line: ceiling(flow),
        }
    }

    #[inline]
    fn on_ack(&mut self, params: &SwiftParams, sample: &AckSample) {
        self.window.note(sample);
        self.rtt = sample.rtt;
        self.timeouts = 0;
        let window = self.window.packets;
        let (delay, target) = (sample.rtt.as_ps() as f64, params.target(window));
        if delay < target {
            if self.window.was_full(sample) {
                let grown = params.ai * f64::from(sample.acked) / window.max(1.0);
                self.window.packets = (window + grown).min(params.max_window);
            }
        } else {
            let factor = (1.0 - params.beta * (delay - target) / delay).max(1.0 - params.max_mdf);
            self.decrease(params, sample.now, factor);
        }
    }

    fn on_loss(&mut self, params: &SwiftParams, now: Time, signal: LossSignal) {
        match signal {
            LossSignal::Nack | LossSignal::LastHop => self.timeouts = 0,
            LossSignal::Timeout if self.is_paced(now) => {}
            LossSignal::Timeout => {
                self.timeouts = self.timeouts.saturating_add(1);
                if self.timeouts >= params.retx_reset {
                    return self.set(params, now, 0.0);
                }
            }
        }
        self.decrease(params, now, 1.0 - params.max_mdf);
    }

    #[inline]
    fn rate(&self) -> BitRate {
        if self.window.packets >= 1.0 {
            return self.line;
        }
        let seconds = self.rtt.as_secs().max(1e-12);
        BitRate::from_bps((self.window.packets * f64::from(self.packet) / seconds).max(1.0) as u64).min(self.line)
    }

    #[inline]
    fn window(&self) -> u32 {
        self.window.whole()
    }
}
