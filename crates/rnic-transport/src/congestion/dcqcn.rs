//! DCQCN ("Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015): the RP of section 3.1. The CP is a switch's
//! [`Marking`], the NP lies in the receiving half of a flow.
//!
//! Where the text leaves a choice:
//!
//! - an increase event compares the stages *before* it with F, so that exactly F fast recoveries precede the first additive
//!   increase, as the text ("F = 5 successive iterations") and the fluid model (section 5) have it. The first author's simulator
//!   counts the event first and comes to F - 1;
//! - the k-th hyper increase adds k times R_HAI, where k counts by the slower of the two stages (that simulator again);
//! - R_T is capped at line rate like R_C: beyond, it would only delay the next event's effect;
//! - what a packet sends beyond B bytes counts for the next B.
//!
//! Timers cost events, so as few as possible run, without a trace in any result:
//!
//! - before the first CNP there are none: R_C is line rate, and no event could raise it;
//! - the alpha timer never runs. Nothing reads alpha but the next CNP; by then `floor((now - last CNP) / K)` periods are over
//!   (one that ends at the very instant of a CNP is not: arrivals come before timers), and as many multiplications are made up for;
//! - the rate timer stops once R_C = R_T = line rate. From there an event of either kind moves neither rate, and the stages that
//!   it would count are reset by the CNP that changes anything next.

use super::{CongestionControl, LossSignal, Marking, Parameter, Settings, ceiling};
use crate::config::FlowConfig;
use crate::{BitRate, Bytes, Time};

/// DCQCN's parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DcqcnParams {
    g: f64,
    rate_timer: Time,
    byte_counter: u32,
    fast_recovery: u16,
    cnp_interval: Time,
    alpha_timer: Time,
    r_ai: u64,
    r_hai: u64,
    min_rate: u64,
    /// Line rate, or what caps the flow below it.
    line: u64,
    alpha_first: bool,
    loss_backoff: bool,
}

/// Rate control from congestion notifications.
///
/// Rates are whole bits per second, halves rounded up, so that fast recovery arrives at its target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dcqcn {
    /// R_C.
    current: u64,
    /// R_T.
    target: u64,
    /// Alpha just after the last CNP.
    alpha: f64,
    /// The last CNP: what the alpha timer runs from.
    since: Time,
    /// When the rate timer fires next; [`Time::MAX`] while neither it nor the byte counter runs.
    timer: Time,
    /// Bytes until the byte counter expires.
    bytes: u32,
    time_stage: u16,
    byte_stage: u16,
}

impl Dcqcn {
    /// Alpha, as decayed by `now`.
    pub fn alpha(&self, params: &DcqcnParams, now: Time) -> f64 {
        let idle = now.saturating_sub(self.since).as_ps().saturating_sub(1);
        let mut alpha = self.alpha;
        for _ in 0..idle / params.alpha_timer.as_ps() {
            let next = (1.0 - params.g) * alpha;
            if next == alpha {
                break; // as small as it gets
            }
            alpha = next;
        }
        alpha
    }

    /// R_T, the rate to which the current one recovers.
    pub fn target(&self) -> BitRate {
        BitRate::from_bps(self.target)
    }

    fn cut(&mut self, params: &DcqcnParams, now: Time) {
        // Before the first CNP alpha keeps its initial value: its timer starts with the first.
        let running = self.since != Time::MAX;
        let before = if running { self.alpha(params, now) } else { self.alpha };
        let after = (1.0 - params.g) * before + params.g;
        let factor = 1.0 - if params.alpha_first { after } else { before } / 2.0;
        self.target = self.current;
        self.current = ((self.current as f64 * factor + 0.5) as u64).max(params.min_rate);
        self.alpha = after;
        self.since = now;
        self.timer = now + params.rate_timer;
        self.bytes = params.byte_counter;
        self.time_stage = 0;
        self.byte_stage = 0;
    }

    /// The timer or the byte counter expired: fast recovery (equation 3), additive (equation 4) or hyper increase. Stages are
    /// those before this event.
    fn increase(&mut self, params: &DcqcnParams) {
        let most = self.time_stage.max(self.byte_stage);
        let least = self.time_stage.min(self.byte_stage);
        let step = if most < params.fast_recovery {
            0
        } else if least < params.fast_recovery {
            params.r_ai
        } else {
            params.r_hai.saturating_mul(u64::from(least - params.fast_recovery) + 1)
        };
        self.target = self.target.saturating_add(step).min(params.line);
        self.current = (self.current + self.target).div_ceil(2);
        if self.current == params.line {
            self.timer = Time::MAX;
        }
    }
}

impl CongestionControl for Dcqcn {
    type Params = DcqcnParams;
    const NAME: &'static str = "dcqcn";
    const ABOUT: &'static str = "DCQCN (SIGCOMM 2015): rate from congestion notifications, which marked packets earn";
    const NEEDS_ACKS: bool = false;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("g", 1.0 / 256.0, 0.0, 1.0, "gain of alpha; published (1/256)"),
        Parameter::time("rate_timer", Time::from_us(55), "T: an increase event each; published (55 us)"),
        Parameter::bytes("byte_counter", 10_000_000, "B: bytes sent for an increase event each; published (10 MB)"),
        Parameter::count("fast_recovery", 5, 1, 1_000, "F: fast recoveries before additive increase; published (5)"),
        Parameter::time("cnp_interval", Time::from_us(50), "N: shortest time between a flow's CNPs; published (50 us)"),
        Parameter::time("alpha_timer", Time::from_us(55), "K: alpha decays without a CNP in it; published (55 us)"),
        Parameter::rate("r_ai", BitRate::from_bps(40_000_000), "R_AI: additive increase of R_T; public (40 Mbps)"),
        Parameter::rate(
            "r_hai",
            BitRate::from_bps(200_000_000),
            "R_HAI: hyper increase of R_T; public code (200 Mbps)",
        ),
        Parameter::rate(
            "min_rate",
            BitRate::from_bps(100_000_000),
            "no rate below it; not stated, first author's simulator (100 Mbps)",
        ),
        Parameter::flag(
            "alpha_first",
            false,
            "update alpha before the cut, not after; published (equation 1: cut first), first author's simulator has true",
        ),
        Parameter::flag(
            "loss_backoff",
            false,
            "a noticed loss acts as a CNP; published (no), tried in the IRN paper (section 4.3)",
        ),
    ];

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<DcqcnParams, String> {
        let line = ceiling(flow);
        let byte_counter = settings.bytes("byte_counter")?;
        Ok(DcqcnParams {
            g: settings.number("g")?,
            rate_timer: settings.time("rate_timer")?,
            byte_counter: u32::try_from(byte_counter)
                .map_err(|_| format!("`byte_counter` cannot be {}: at most 4 GB", Bytes(byte_counter)))?,
            fast_recovery: settings.count("fast_recovery")? as u16,
            cnp_interval: settings.time("cnp_interval")?,
            alpha_timer: settings.time("alpha_timer")?,
            r_ai: settings.rate("r_ai")?.as_bps(),
            r_hai: settings.rate("r_hai")?.as_bps(),
            min_rate: settings.rate("min_rate")?.min(line).as_bps(),
            line: line.as_bps(),
            alpha_first: settings.flag("alpha_first")?,
            loss_backoff: settings.flag("loss_backoff")?,
        })
    }
    fn marking(_flow: &FlowConfig) -> Option<Marking> {
        Some(Marking { kmin: Bytes(5_000), kmax: Bytes(200_000), pmax: 0.01 })
    }
    fn cnp_interval(params: &DcqcnParams) -> Option<Time> {
        Some(params.cnp_interval)
    }

    fn new(params: &DcqcnParams, _flow: &FlowConfig, _now: Time) -> Dcqcn {
        Dcqcn {
            current: params.line,
            target: params.line,
            alpha: 1.0,
            since: Time::MAX,
            timer: Time::MAX,
            bytes: params.byte_counter,
            time_stage: 0,
            byte_stage: 0,
        }
    }

    #[inline]
    fn on_send(&mut self, params: &DcqcnParams, _now: Time, bytes: u32) {
        let mut sent = bytes;
        while self.timer != Time::MAX && sent >= self.bytes {
            sent -= self.bytes;
            self.bytes = params.byte_counter;
            self.increase(params);
            self.byte_stage = self.byte_stage.saturating_add(1);
        }
        self.bytes = self.bytes.saturating_sub(sent);
    }
    fn on_cnp(&mut self, params: &DcqcnParams, now: Time) {
        self.cut(params, now);
    }
    fn on_loss(&mut self, params: &DcqcnParams, now: Time, _signal: LossSignal) {
        if params.loss_backoff {
            self.cut(params, now);
        }
    }
    #[inline]
    fn next_timer(&self) -> Option<Time> {
        (self.timer != Time::MAX).then_some(self.timer)
    }
    fn on_timer(&mut self, params: &DcqcnParams, now: Time) {
        while self.timer <= now {
            self.timer += params.rate_timer;
            self.increase(params);
            self.time_stage = self.time_stage.saturating_add(1);
        }
    }

    #[inline]
    fn rate(&self) -> BitRate {
        BitRate::from_bps(self.current)
    }
    #[inline]
    fn window(&self) -> u32 {
        u32::MAX
    }
}
