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
//! NICs and public simulators differ from the paper in more than the values of its parameters. The parameter `profile`
//! selects such a variant: `paper`, `hpcc-ns3` or `connectx`. A variant consists of values of the declared
//! parameters, so each difference is also a parameter by itself:
//!
//! - `rate_decrease_interval`: a CNP reduces the rate at the end of the current interval, not immediately. The
//!   intervals begin with the first CNP of the flow, so even the first reduction is delayed.
//! - `alpha_updates`: alpha changes once in each period K, upwards if a CNP arrived in the period, else downwards. In
//!   the paper each CNP raises alpha, and each period K without a CNP lowers it.
//! - `clamp_target_rate`: a reduction of the rate sets R_T to R_C only if R_C has risen since the previous reduction.
//! - `hyper_increase` and `hyper_growth`: hyper increase begins when one counter, not both, has passed fast recovery,
//!   and its step is constant.
//! - `byte_counter = 0`: there is no byte counter.
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

use super::{CongestionControl, DefaultValue, LossSignal, Marking, Parameter, Profile, Settings, Value, ceiling};
use crate::config::FlowConfig;
use crate::{BitRate, Bytes, Time};

/// The profile of the DCQCN paper: the declared defaults.
const PAPER: Profile = Profile { name: "paper", values: &[] };

/// DCQCN in the ns-3 simulator of the HPCC paper (github.com/alibaba-edu/High-Precision-Congestion-Control, and its
/// fork for ConWeave), with the parameters that its script `run.py` writes for `--cc dcqcn`. The script scales the
/// increase steps and the marking thresholds with the line rate.
const HPCC_NS3: Profile = Profile {
    name: "hpcc-ns3",
    values: &[
        ("rate_timer", Some(DefaultValue::Time(Time::from_us(300)))),
        ("byte_counter", Some(DefaultValue::Bytes(Bytes(0)))),
        ("fast_recovery", Some(DefaultValue::Count(1))),
        // The receiver echoes the mark of every packet in the packet's ACK.
        ("cnp_interval", Some(DefaultValue::Time(Time::ZERO))),
        ("alpha_timer", Some(DefaultValue::Time(Time::from_us(1)))),
        ("r_ai", None),
        ("r_hai", None),
        ("min_rate", Some(DefaultValue::Rate(BitRate::from_gbps(1)))),
        ("alpha_updates", Some(DefaultValue::Choice("period"))),
        ("rate_decrease_interval", Some(DefaultValue::Time(Time::from_us(4)))),
        ("clamp_target_rate", Some(DefaultValue::Flag(false))),
        ("hyper_increase", Some(DefaultValue::Choice("either"))),
        ("hyper_growth", Some(DefaultValue::Flag(false))),
    ],
};

/// DCQCN in NVIDIA's ConnectX NICs, as far as it is public: the defaults that the tool `mlxconfig` shows for the
/// firmware, and NVIDIA's descriptions of these parameters. Thresholds of switches are no part of a NIC, so they are
/// those of the paper.
const CONNECTX: Profile = Profile {
    name: "connectx",
    values: &[
        ("g", Some(DefaultValue::Number(5.0 / 1024.0))), // DCE_TCP_G = 1019: 1 - 1019/1024
        ("initial_alpha", Some(DefaultValue::Number(1023.0 / 1024.0))),
        ("rate_timer", Some(DefaultValue::Time(Time::from_us(300)))),
        ("byte_counter", Some(DefaultValue::Bytes(Bytes(32_767)))),
        ("fast_recovery", Some(DefaultValue::Count(1))),
        ("cnp_interval", Some(DefaultValue::Time(Time::from_us(4)))),
        ("alpha_timer", Some(DefaultValue::Time(Time::from_us(1)))),
        ("r_ai", Some(DefaultValue::Rate(BitRate::from_bps(5_000_000)))),
        ("r_hai", Some(DefaultValue::Rate(BitRate::from_bps(50_000_000)))),
        ("min_rate", Some(DefaultValue::Rate(BitRate::from_bps(1_000_000)))),
        ("alpha_updates", Some(DefaultValue::Choice("period"))),
        ("rate_decrease_interval", Some(DefaultValue::Time(Time::from_us(4)))),
        ("clamp_target_rate", Some(DefaultValue::Flag(false))),
        ("hyper_growth", Some(DefaultValue::Flag(false))),
    ],
};

/// The parameters of DCQCN in a run, computed from the scenario's settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DcqcnParams {
    g: f64,
    initial_alpha: f64,
    rate_timer: Time,
    /// Period of the byte counter, or [`NO_BYTE_COUNTER`].
    byte_counter: u32,
    fast_recovery: u16,
    cnp_interval: Time,
    nic_cnp_interval: Time,
    alpha_timer: Time,
    r_ai: u64,
    r_hai: u64,
    min_rate: u64,
    /// Maximum rate of the flow (line rate or the user's limit, see [`ceiling`]), in bits per second.
    line: u64,
    alpha_first: bool,
    loss_backoff: bool,
    /// Whether alpha changes once in each period of `alpha_timer`, and not at each CNP.
    alpha_periods: bool,
    /// Zero if a CNP reduces the rate immediately.
    decrease_interval: Time,
    clamp_target: bool,
    hyper_either: bool,
    hyper_growth: bool,
    marking: Marking,
}

/// The value of [`DcqcnParams::byte_counter`] without a byte counter: above the maximum of the setting.
const NO_BYTE_COUNTER: u32 = u32::MAX;

/// The maximum of the setting `byte_counter`.
const MAX_BYTE_COUNTER: u64 = 4_000_000_000;

/// State of the intervals in which the rate is reduced, and of the current period of alpha, in one 64-bit word.
///
/// The lowest bit says whether a CNP arrived in the current period of alpha, the next bit whether a reduction of the
/// rate is pending. The other bits are a boundary between two decrease intervals in picoseconds: the end of the current
/// interval if a reduction is pending, otherwise an earlier boundary; 0 before the first CNP. With 62 bits, times end
/// after 53 days.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Intervals(u64);

impl Intervals {
    const CNP: u64 = 1;
    const PENDING: u64 = 2;

    /// The time of the pending reduction of the rate; [`Time::MAX`] if none is pending.
    #[inline]
    fn pending(self) -> Time {
        if self.0 & Intervals::PENDING == 0 { Time::MAX } else { Time::from_ps(self.0 >> 2) }
    }
    /// Handles a CNP at `now`: the rate is reduced at the end of the current interval.
    fn on_cnp(&mut self, interval: Time, now: Time) {
        if self.0 & Intervals::PENDING != 0 {
            return;
        }
        let boundary = match self.0 >> 2 {
            0 => now + interval,
            earlier => {
                // Arrivals precede timers: a CNP at the end of an interval belongs to this interval.
                let earlier = Time::from_ps(earlier);
                let passed = now.saturating_sub(earlier).as_ps().div_ceil(interval.as_ps());
                earlier + interval * passed.max(1)
            }
        };
        self.0 = boundary.as_ps() << 2 | Intervals::PENDING | self.0 & Intervals::CNP;
    }
    fn clear_pending(&mut self) {
        self.0 &= !Intervals::PENDING;
    }
    /// Whether a CNP arrived in the current period of alpha.
    fn has_cnp(self) -> bool {
        self.0 & Intervals::CNP != 0
    }
    fn set_cnp(&mut self, arrived: bool) {
        self.0 = self.0 & !Intervals::CNP | u64::from(arrived);
    }
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
    /// Alpha, the estimated degree of congestion (0 to 1), at the time `since`.
    alpha: f64,
    /// Time of the last CNP, from which alpha decays; if alpha changes once in each period, the end of a period.
    /// [`Time::MAX`] before the first CNP.
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
    /// Decrease intervals, and the current period of alpha, if the profile has them.
    intervals: Intervals,
}

impl Dcqcn {
    /// The first setting that gives DCQCN a behaviour other than that of the DCQCN paper; `None` if all behaviour is
    /// that of the paper. Settings of the paper's own parameters, such as `g`, do not count.
    pub fn unlike_the_paper(settings: &Settings) -> Option<&'static str> {
        const BEHAVIOUR: [&str; 7] = [
            "nic_cnp_interval",
            "alpha_updates",
            "rate_decrease_interval",
            "clamp_target_rate",
            "hyper_increase",
            "hyper_growth",
            "byte_counter",
        ];
        let paper = Settings::new(Dcqcn::PARAMETERS);
        BEHAVIOUR.into_iter().find(|&name| match name {
            "byte_counter" => settings.bytes(name) == Ok(0),
            _ => settings.value(name) != paper.value(name),
        })
    }

    /// Alpha, DCQCN's estimate of the degree of congestion (0 to 1), at `now`: its decay since the last CNP is
    /// included.
    pub fn alpha(&self, params: &DcqcnParams, now: Time) -> f64 {
        if params.alpha_periods {
            let mut later = *self;
            later.end_periods(params, now);
            return later.alpha;
        }
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

    /// Updates alpha at the end of each period that has ended by `now`, if alpha changes once in each period.
    fn end_periods(&mut self, params: &DcqcnParams, now: Time) {
        if self.since == Time::MAX {
            return; // the first CNP has not arrived
        }
        let periods = now.saturating_sub(self.since).as_ps() / params.alpha_timer.as_ps();
        for period in 0..periods {
            let raised = if period == 0 && self.intervals.has_cnp() { params.g } else { 0.0 };
            let next = (1.0 - params.g) * self.alpha + raised;
            if next == self.alpha && period > 0 {
                break; // alpha no longer changes in floating point
            }
            self.alpha = next;
        }
        if periods > 0 {
            self.since += params.alpha_timer * periods;
            self.intervals.set_cnp(false);
        }
    }

    /// Records a CNP for the current period of alpha. The first CNP begins the first period and does not count for it.
    fn count_cnp(&mut self, params: &DcqcnParams, now: Time) {
        if self.since == Time::MAX {
            self.since = now;
        } else {
            self.end_periods(params, now);
            self.intervals.set_cnp(true);
        }
    }

    /// R_T, the target rate to which the flow returns after a reduction of its rate.
    pub fn target(&self) -> BitRate {
        BitRate::from_bps(self.target)
    }

    /// Reduces the rate after a CNP, or after a loss if `loss_backoff` is set, and updates alpha (equation 1 of the
    /// DCQCN paper). Restarts the rate timer and the byte counter, and sets the stages to 0.
    fn cut(&mut self, params: &DcqcnParams, now: Time) {
        let alpha = if params.alpha_periods {
            self.end_periods(params, now);
            self.alpha
        } else {
            // Before the first CNP alpha keeps its initial value, because its decay starts with the first CNP.
            let running = self.since != Time::MAX;
            let before = if running { self.alpha(params, now) } else { self.alpha };
            let after = (1.0 - params.g) * before + params.g;
            self.alpha = after;
            self.since = now;
            if params.alpha_first { after } else { before }
        };
        if params.clamp_target || self.time_stage.max(self.byte_stage) > 0 {
            self.target = self.current;
        }
        let factor = 1.0 - alpha / 2.0;
        self.current = ((self.current as f64 * factor + 0.5) as u64).max(params.min_rate);
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
        } else {
            // Number of hyper increases before this one, as the smaller (`both`) or the larger stage (`either`) shows.
            let hyper = match params.hyper_either {
                false => min.checked_sub(params.fast_recovery),
                true => max.checked_sub(params.fast_recovery + 1),
            };
            match hyper {
                None => params.r_ai,
                Some(before) if params.hyper_growth => params.r_hai.saturating_mul(u64::from(before) + 1),
                Some(_) => params.r_hai,
            }
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
        Parameter::profile(
            "profile",
            &[PAPER.name, HPCC_NS3.name, CONNECTX.name],
            &[PAPER, HPCC_NS3, CONNECTX],
            "variant of DCQCN (paper, hpcc-ns3 or connectx), which has values for all parameters that are not set; our choice (the paper's)",
        ),
        Parameter::number("g", 1.0 / 256.0, 0.0, 1.0, "gain of the moving average alpha; published (1/256)"),
        Parameter::time("rate_timer", Time::from_us(55), "T: time between two increase events; published (55 us)"),
        Parameter::size(
            "byte_counter",
            10_000_000,
            0,
            MAX_BYTE_COUNTER,
            "B: bytes sent between two increase events, 0 for no byte counter; published (10 MB)",
        ),
        Parameter::count(
            "fast_recovery",
            5,
            1,
            1_000,
            "F: number of fast recovery events before additive increase; published (5)",
        ),
        Parameter::delay(
            "cnp_interval",
            Time::from_us(50),
            "N: minimum time between two CNPs of a flow, 0 for a CNP per marked packet; published (50 us)",
        ),
        Parameter::delay(
            "nic_cnp_interval",
            Time::ZERO,
            "minimum time between two CNPs of a NIC for all its flows, 0 for no limit; published as 1 to 5 us for ConnectX-3 Pro (default none)",
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
        Parameter::number("initial_alpha", 1.0, 0.0, 1.0, "alpha at the first CNP of a flow; published (1)"),
        Parameter::choice(
            "alpha_updates",
            "cnp",
            &["cnp", "period"],
            "when alpha changes: at each reduction of the rate and by the alpha timer, or at the end of each period of the alpha timer; published (cnp)",
        ),
        Parameter::delay(
            "rate_decrease_interval",
            Time::ZERO,
            "a CNP reduces the rate at the end of the current interval of this length, 0: immediately; published (0)",
        ),
        Parameter::flag(
            "clamp_target_rate",
            true,
            "whether every reduction sets R_T to R_C, or only the first one after an increase event; published (every)",
        ),
        Parameter::choice(
            "hyper_increase",
            "both",
            &["both", "either"],
            "which counters must have passed fast recovery for hyper increase; published (both)",
        ),
        Parameter::flag(
            "hyper_growth",
            true,
            "whether the k-th hyper increase adds k times R_HAI, or each one R_HAI; first author's simulator (k times)",
        ),
    ];

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<DcqcnParams, String> {
        let line = ceiling(flow);
        let hyper_either = settings.is("hyper_increase", "either");
        let byte_counter = match settings.bytes("byte_counter")? {
            0 if !hyper_either => {
                return Err(
                    "`byte_counter` = 0 B needs `hyper_increase` = \"either\": without a byte counter there is no hyper \
                     increase by both counters"
                        .to_string(),
                );
            }
            0 => NO_BYTE_COUNTER,
            bytes => u32::try_from(bytes).unwrap_or(NO_BYTE_COUNTER - 1),
        };
        let alpha_periods = settings.is("alpha_updates", "period");
        if alpha_periods && settings.is_set("alpha_first") {
            return Err("`alpha_first` has no effect with `alpha_updates` = \"period\": a CNP does not change alpha"
                .to_string());
        }
        // The parameters that a profile derives from the line rate are those of the HPCC simulator's script.
        let share = |name: &str, per_line: u64| match settings.value(name) {
            Some(_) => settings.rate(name).map(BitRate::as_bps),
            None => Ok((flow.line_rate.as_bps() / per_line).max(1)),
        };
        let kilobytes_per_gbps = |kilobytes: u64| Bytes(kilobytes * flow.line_rate.as_bps() / 1_000_000);
        let marking = match settings.profile() {
            Some(profile) if profile.name == HPCC_NS3.name => {
                Marking { kmin: kilobytes_per_gbps(4), kmax: kilobytes_per_gbps(16), pmax: 0.2 }
            }
            _ => Marking { kmin: Bytes(5_000), kmax: Bytes(200_000), pmax: 0.01 },
        };
        Ok(DcqcnParams {
            g: settings.number("g")?,
            initial_alpha: settings.number("initial_alpha")?,
            rate_timer: settings.time("rate_timer")?,
            byte_counter,
            fast_recovery: settings.count("fast_recovery")? as u16,
            cnp_interval: settings.time("cnp_interval")?,
            nic_cnp_interval: settings.time("nic_cnp_interval")?,
            alpha_timer: settings.time("alpha_timer")?,
            r_ai: share("r_ai", 5_000)?,
            r_hai: share("r_hai", 500)?,
            min_rate: settings.rate("min_rate")?.min(line).as_bps(),
            line: line.as_bps(),
            alpha_first: settings.flag("alpha_first")?,
            loss_backoff: settings.flag("loss_backoff")?,
            alpha_periods,
            decrease_interval: settings.time("rate_decrease_interval")?,
            clamp_target: settings.flag("clamp_target_rate")?,
            hyper_either,
            hyper_growth: settings.flag("hyper_growth")?,
            marking,
        })
    }
    fn marking(params: &DcqcnParams, _flow: &FlowConfig) -> Option<Marking> {
        Some(params.marking)
    }
    fn cnp_interval(params: &DcqcnParams) -> Option<Time> {
        Some(params.cnp_interval)
    }
    fn nic_cnp_interval(params: &DcqcnParams) -> Time {
        params.nic_cnp_interval
    }
    fn derived(params: &DcqcnParams, name: &str) -> Option<Value> {
        let rate = match name {
            "r_ai" => params.r_ai,
            "r_hai" => params.r_hai,
            _ => return None,
        };
        Some(Value::Rate(BitRate::from_bps(rate)))
    }

    fn new(params: &DcqcnParams, _flow: &FlowConfig, _now: Time) -> Dcqcn {
        Dcqcn {
            current: params.line,
            target: params.line,
            alpha: params.initial_alpha,
            since: Time::MAX,
            timer: Time::MAX,
            bytes: params.byte_counter,
            time_stage: 0,
            byte_stage: 0,
            intervals: Intervals::default(),
        }
    }

    #[inline]
    fn on_send(&mut self, params: &DcqcnParams, _now: Time, bytes: u32) {
        let mut sent = bytes;
        while self.timer != Time::MAX && sent >= self.bytes {
            sent -= self.bytes;
            self.bytes = params.byte_counter;
            if params.byte_counter == NO_BYTE_COUNTER {
                break;
            }
            self.increase(params);
            self.byte_stage = self.byte_stage.saturating_add(1);
        }
        self.bytes = self.bytes.saturating_sub(sent);
    }
    fn on_cnp(&mut self, params: &DcqcnParams, now: Time) {
        if params.alpha_periods {
            self.count_cnp(params, now);
        }
        if params.decrease_interval == Time::ZERO {
            self.cut(params, now);
        } else {
            self.intervals.on_cnp(params.decrease_interval, now);
        }
    }
    fn on_loss(&mut self, params: &DcqcnParams, now: Time, _signal: LossSignal) {
        if params.loss_backoff {
            self.on_cnp(params, now);
        }
    }
    #[inline]
    fn next_timer(&self) -> Option<Time> {
        let next = self.timer.min(self.intervals.pending());
        (next != Time::MAX).then_some(next)
    }
    fn on_timer(&mut self, params: &DcqcnParams, now: Time) {
        loop {
            let cut = self.intervals.pending();
            // At the same time the increase event comes first, as in the HPCC simulator.
            if self.timer <= now && self.timer <= cut {
                self.timer += params.rate_timer;
                self.increase(params);
                self.time_stage = self.time_stage.saturating_add(1);
            } else if cut <= now {
                self.intervals.clear_pending();
                self.cut(params, cut);
            } else {
                break;
            }
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
