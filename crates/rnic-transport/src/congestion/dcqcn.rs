//! DCQCN ("Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015): the reaction point (RP) of section 3.1.
//!
//! DCQCN's congestion point (CP) is the ECN [`Marking`] of a switch. Its notification point (NP) is
//! [`Notifier`](crate::Notifier), a part of the receiver of a flow.
//!
//! Symbols are those of the DCQCN paper: R_C is the current rate, R_T the target rate, R_AI and R_HAI the steps of
//! additive and hyper increase, F the number of fast recovery events, K the period of the alpha timer. Each expiry of
//! the rate timer or of the byte counter is an increase event, which raises R_C or R_T. The timer and the counter each
//! have a stage: the number of increase events that they have caused since the last CNP.
//!
//! Where the paper leaves a choice, this implementation does the following:
//!
//! - An increase event compares the stages (numbers of earlier increase events since the last CNP) with F. The stages
//!   do not count the event itself, so exactly F fast recovery events precede the first additive increase. This agrees
//!   with the paper's text ("F = 5 successive iterations") and fluid model (section 5). The first author's simulator
//!   counts the event before the comparison, which gives F - 1 fast recovery events.
//! - The k-th hyper increase adds k R_HAI to the target rate R_T. Here k is the smaller of the two stages (of rate
//!   timer and byte counter) minus F, plus 1, as in the first author's simulator.
//! - The target rate R_T is capped at line rate, like the current rate R_C. An R_T above line rate would only delay the
//!   effect of the next increase event.
//! - If a packet exceeds the end of the byte counter's period, its remaining bytes count for the next period.
//!
//! Every running timer costs simulation events. So the implementation does not run a timer of DCQCN while its events
//! cannot change any result:
//!
//! - Before the first CNP no timer runs, because the current rate R_C is line rate and no event can raise it.
//! - The alpha timer never runs. Only the next CNP reads alpha; it applies the decay of all `floor((now - last CNP) /
//!   K)` periods that have ended by then. A period that ends at the instant of the CNP does not count, because arrivals
//!   precede timers.
//! - The rate timer stops when R_C = R_T = line rate. From then on an increase event changes neither rate, and the next
//!   CNP resets the stages.

use super::{CongestionControl, LossSignal, Marking, Parameter, Settings, ceiling};
use crate::config::FlowConfig;
use crate::{BitRate, Bytes, Time};

/// The parameters of DCQCN in a run, computed from the scenario's settings.
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
    /// Maximum rate of the flow (line rate or the user's limit, see [`ceiling`]), in bits per second.
    line: u64,
    alpha_first: bool,
    loss_backoff: bool,
}

/// The reaction point of DCQCN: controls the rate by congestion notification packets (CNPs).
///
/// Rates are in whole bits per second. The average of current rate and target rate rounds up, so that fast recovery
/// reaches the target rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dcqcn {
    /// R_C, the current rate in bits per second.
    current: u64,
    /// R_T, the target rate in bits per second, to which R_C returns in fast recovery.
    target: u64,
    /// Alpha, the estimated degree of congestion (0 to 1), immediately after the last CNP.
    alpha: f64,
    /// Time of the last CNP, from which alpha decays; [`Time::MAX`] before the first CNP.
    since: Time,
    /// Next time at which DCQCN's rate timer fires; [`Time::MAX`] while neither the rate timer nor the byte counter
    /// runs.
    timer: Time,
    /// Number of bytes to send before DCQCN's byte counter expires, which is an increase event.
    bytes: u32,
    /// Number of increase events of the rate timer since the last CNP.
    time_stage: u16,
    /// Number of increase events of the byte counter since the last CNP.
    byte_stage: u16,
}

impl Dcqcn {
    /// Alpha, DCQCN's estimate of the degree of congestion (0 to 1), at `now`: its decay since the last CNP is
    /// included.
    pub fn alpha(&self, params: &DcqcnParams, now: Time) -> f64 {
        let idle = now.saturating_sub(self.since).as_ps().saturating_sub(1);
        let mut alpha = self.alpha;
        for _ in 0..idle / params.alpha_timer.as_ps() {
            let next = (1.0 - params.g) * alpha;
            if next == alpha {
                break; // alpha no longer changes in floating point
            }
            alpha = next;
        }
        alpha
    }

    /// R_T, the target rate to which the flow returns after a reduction of its rate.
    pub fn target(&self) -> BitRate {
        BitRate::from_bps(self.target)
    }

    /// Handles a CNP, or a loss if `loss_backoff` is set: reduces the rate and updates alpha (equation 1 of the DCQCN
    /// paper). Restarts the rate timer and the byte counter, and sets the stages to 0.
    fn cut(&mut self, params: &DcqcnParams, now: Time) {
        // Before the first CNP alpha keeps its initial value, because its decay starts with the first CNP.
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

    /// Handles an increase event, that is, the expiry of the rate timer or of the byte counter: fast recovery (equation
    /// 3 of the DCQCN paper), additive increase (equation 4) or hyper increase. The stages do not count this event yet.
    fn increase(&mut self, params: &DcqcnParams) {
        let max = self.time_stage.max(self.byte_stage);
        let min = self.time_stage.min(self.byte_stage);
        let step = if max < params.fast_recovery {
            0
        } else if min < params.fast_recovery {
            params.r_ai
        } else {
            params.r_hai.saturating_mul(u64::from(min - params.fast_recovery) + 1)
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
    const ABOUT: &'static str =
        "DCQCN (SIGCOMM 2015): rate controlled by congestion notifications, which CE-marked packets trigger";
    const NEEDS_ACKS: bool = false;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("g", 1.0 / 256.0, 0.0, 1.0, "gain of the moving average alpha; published (1/256)"),
        Parameter::time("rate_timer", Time::from_us(55), "T: time between two increase events; published (55 us)"),
        Parameter::bytes("byte_counter", 10_000_000, "B: bytes sent between two increase events; published (10 MB)"),
        Parameter::count(
            "fast_recovery",
            5,
            1,
            1_000,
            "F: number of fast recovery events before additive increase; published (5)",
        ),
        Parameter::time(
            "cnp_interval",
            Time::from_us(50),
            "N: minimum time between two CNPs of a flow; published (50 us)",
        ),
        Parameter::time(
            "alpha_timer",
            Time::from_us(55),
            "K: time without a CNP after which alpha decays; published (55 us)",
        ),
        Parameter::rate(
            "r_ai",
            BitRate::from_bps(40_000_000),
            "R_AI: additive increase of R_T per increase event; public (40 Mbps)",
        ),
        Parameter::rate(
            "r_hai",
            BitRate::from_bps(200_000_000),
            "R_HAI: hyper increase of R_T per increase event; public code (200 Mbps)",
        ),
        Parameter::rate(
            "min_rate",
            BitRate::from_bps(100_000_000),
            "minimum rate of a flow; not stated, first author's simulator (100 Mbps)",
        ),
        Parameter::flag(
            "alpha_first",
            false,
            "whether a CNP updates alpha before it reduces the rate; published (equation 1: no), first author's simulator has true",
        ),
        Parameter::flag(
            "loss_backoff",
            false,
            "whether the sender reacts to a detected loss like to a CNP; published (no), tried in the IRN paper (section 4.3)",
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
