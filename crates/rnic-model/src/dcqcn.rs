//! The fluid model of DCQCN, with the symbols of its paper ("Congestion Control for Large-Scale RDMA Deployments",
//! SIGCOMM 2015, section 5).
//!
//! N flows share one bottleneck of capacity C. Each flow has alpha, a target rate R_T and a current rate R_C. The
//! packets of all flows share the queue q, which marks a packet with probability p:
//!
//! ```text
//! p          = 0 up to Kmin | Pmax (q - Kmin)/(Kmax - Kmin) up to Kmax | 1 above
//! dq/dt      = sum R_C - C
//! dalpha/dt  = (g/tau') [1 - (1-p^)^(tau' R^) - alpha]
//! dR_T/dt    = -(R_T - R_C)/tau [1 - (1-p^)^(tau R^)] + R_AI R^ [(1-p^)^(F B) b + (1-p^)^(F T R^) d]
//! dR_C/dt    = -(R_C alpha)/(2 tau) [1 - (1-p^)^(tau R^)] + (R_T - R_C)/2 R^ [b + d]
//! with         b = p^/((1-p^)^-B - 1)     d = p^/((1-p^)^(-T R^) - 1)
//! ```
//!
//! p^ and R^ are the values of p and R_C one control delay ago. The units are packets and seconds.

use crate::ModelError;
use crate::delay::{History, System, solve};
use crate::error::require;
use crate::numeric::{at_least_one, none_of, per_packet, per_second, root};
use crate::series::{FlowSeries, Grid, Group, Run, Series, StepCheck, check_flows};
use rnic_transport::config::FlowConfig;
use rnic_transport::congestion::{CongestionControl, Dcqcn as Algorithm, Marking, Settings};
use rnic_transport::{BitRate, Bytes, Time};

/// The fluid model of DCQCN on one bottleneck. The fields from `g` on are the parameters of the congestion control
/// `dcqcn` with the same names.
///
/// ```
/// use rnic_model::dcqcn::Dcqcn;
/// use rnic_transport::{BitRate, Time};
///
/// let model = Dcqcn { delay: Time::from_us(20), ..Dcqcn::deployed(BitRate::from_gbps(40)) };
/// assert_eq!(model.first_above_kmax(100)?, Some(15), "with 15 flows the queue exceeds Kmax");
/// # Ok::<(), rnic_model::ModelError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dcqcn {
    /// C, the rate of the bottleneck, which is also the line rate of every flow.
    pub rate: BitRate,
    /// Length of a packet, the unit of the equations.
    pub packet: Bytes,
    /// tau*, the control delay: a flow reacts to the values that the marking probability p and its rate R_C had this
    /// long ago.
    pub delay: Time,
    /// ECN marking thresholds of the switch.
    pub marking: Marking,
    /// g, the gain with which alpha is updated.
    pub g: f64,
    /// T, the time between two increase events of the rate timer.
    pub rate_timer: Time,
    /// B, the bytes between two increase events of the byte counter.
    pub byte_counter: Bytes,
    /// F, the number of increase events in fast recovery, after which R_T increases, too.
    pub fast_recovery: u64,
    /// tau, the minimum time between two CNPs of a flow.
    pub cnp_interval: Time,
    /// tau', the time between two updates of alpha.
    pub alpha_timer: Time,
    /// R_AI, the additive increase of the target rate R_T.
    pub r_ai: BitRate,
}

/// Names of those parameters of the congestion control `dcqcn` that the equations of the fluid model contain.
pub const PARAMETERS: [&str; 7] =
    ["g", "rate_timer", "byte_counter", "fast_recovery", "cnp_interval", "alpha_timer", "r_ai"];

impl Dcqcn {
    /// Creates a fluid model with the DCQCN parameters in `settings` and the default marking thresholds of DCQCN at
    /// this line rate. Packets have 1,000 bytes, and the control delay is 50 us.
    ///
    /// # Errors
    /// If `settings` are not settings of DCQCN, or have a behaviour that the equations do not describe: those are the
    /// equations of the DCQCN paper, so only the behaviour of the profile `paper` fits.
    pub fn new(rate: BitRate, settings: &Settings) -> Result<Dcqcn, ModelError> {
        let read = || -> Result<Dcqcn, String> {
            if let Some(name) = Algorithm::unlike_the_paper(settings) {
                let value = settings.value(name).map_or(String::new(), |value| format!(" = {value}"));
                return Err(format!(
                    "the fluid model has the equations of the DCQCN paper, which do not describe `{name}`{value}; \
                     use the behaviour of the profile \"paper\""
                ));
            }
            Ok(Dcqcn {
                rate,
                packet: Bytes(1_000),
                delay: Time::from_us(50),
                marking: deployed_marking(rate),
                g: settings.number("g")?,
                rate_timer: settings.time("rate_timer")?,
                byte_counter: Bytes(settings.bytes("byte_counter")?),
                fast_recovery: settings.count("fast_recovery")?,
                cnp_interval: settings.time("cnp_interval")?,
                alpha_timer: settings.time("alpha_timer")?,
                r_ai: settings.rate("r_ai")?,
            })
        };
        read().map_err(ModelError)
    }

    /// Creates a fluid model with the parameters that the DCQCN paper deploys, which are the defaults of the congestion
    /// control `dcqcn`.
    pub fn deployed(rate: BitRate) -> Dcqcn {
        Dcqcn::new(rate, &Settings::new(Algorithm::PARAMETERS))
            .expect("the congestion control declares these parameters")
    }

    /// Creates a fluid model with the "strawman" parameters of the DCQCN paper, which are those of QCN and DCTCP: B 150
    /// KB, T 1.5 ms, Kmin = Kmax = 40 KB, Pmax 1, g 1/16.
    pub fn strawman(rate: BitRate) -> Dcqcn {
        Dcqcn {
            marking: Marking { kmin: Bytes(40_000), kmax: Bytes(40_000), pmax: 1.0 },
            g: 1.0 / 16.0,
            rate_timer: Time::from_ps(1_500_000_000),
            byte_counter: Bytes(150_000),
            ..Dcqcn::deployed(rate)
        }
    }

    /// Checks that all parameters of the model are in range.
    ///
    /// # Errors
    /// One sentence about the first parameter that is out of range.
    pub fn check(&self) -> Result<(), ModelError> {
        let Marking { kmin, kmax, pmax } = self.marking;
        require(self.rate.as_bps() > 0, || "the rate is zero; write for example 40 Gbps".to_string())?;
        require(self.packet.0 > 0, || "the packet length is zero; write for example 1000 B".to_string())?;
        require(kmin <= kmax, || format!("kmin cannot be {kmin}; accepted: at most kmax, which is {kmax}"))?;
        require(pmax > 0.0 && pmax <= 1.0, || {
            format!("pmax cannot be {pmax}; accepted: a probability above 0 and at most 1")
        })?;
        require(self.g > 0.0 && self.g <= 1.0, || {
            format!("g cannot be {}; accepted: a number above 0 and at most 1", self.g)
        })?;
        for (name, time) in
            [("rate_timer", self.rate_timer), ("cnp_interval", self.cnp_interval), ("alpha_timer", self.alpha_timer)]
        {
            require(time > Time::ZERO, || format!("{name} is zero; accepted: any time above 0"))?;
        }
        require(self.byte_counter >= self.packet, || {
            format!("byte_counter cannot be {}; accepted: at least one packet of {}", self.byte_counter, self.packet)
        })?;
        require(self.r_ai.as_bps() > 0, || {
            "r_ai is zero, so rates would never grow; accepted: any rate above 0".to_string()
        })?;
        require(self.fast_recovery > 0, || "fast_recovery is zero; accepted: at least 1".to_string())
    }

    /// Returns the parameters of the equations in packets and seconds.
    fn equations(&self) -> Equations {
        let packets = |bytes: Bytes| bytes.0 as f64 / self.packet.0 as f64;
        let rate = |rate: BitRate| rate.as_bps() as f64 / (8.0 * self.packet.0 as f64);
        Equations {
            capacity: rate(self.rate),
            kmin: packets(self.marking.kmin),
            kmax: packets(self.marking.kmax),
            pmax: self.marking.pmax,
            g: self.g,
            timer: self.rate_timer.as_secs(),
            counter: packets(self.byte_counter),
            recovery: self.fast_recovery as f64,
            cnp: self.cnp_interval.as_secs(),
            alpha: self.alpha_timer.as_secs(),
            r_ai: rate(self.r_ai),
        }
    }

    /// The fixed point of the fluid model (the state that does not change) with `flows` flows. All flows have the rate
    /// C/N; the marking probability p is the unique root of an equation whose left side grows with p and whose right
    /// side falls.
    ///
    /// # Errors
    /// If a parameter is out of range ([`Dcqcn::check`]), or `flows` is 0.
    pub fn fixed_point(&self, flows: u32) -> Result<FixedPoint, ModelError> {
        self.check()?;
        require(flows > 0, || "there is no flow; at least one is needed".to_string())?;
        let e = self.equations();
        let rate = e.capacity / f64::from(flows);
        let balance = |p: f64| {
            let (left, right) = e.balance(p, rate);
            right - left
        };
        let p = root(1e-30, 1.0, balance);
        let cut = at_least_one(p, e.cnp * rate);
        let events = e.events(p, rate);
        let alpha = at_least_one(p, e.alpha * rate);
        let gap = rate * alpha * cut / (e.cnp * events.all);
        let queue = p * (e.kmax - e.kmin) / e.pmax + e.kmin;
        let target = rate + gap;
        let packet_bits = 8.0 * self.packet.0 as f64;
        let state = [alpha, target, rate];
        let mut slopes = [0.0; 3];
        let terms = e.flow(p, rate, &state, &mut slopes);
        let (left, right) = e.balance(p, rate);
        let residuals = vec![
            ("a^2 alpha = tau^2 R_AI R_C (b+d)(c+e)", relative(left - right, left.max(right))),
            ("dq/dt = N R_C - C = 0", relative(f64::from(flows) * rate - e.capacity, e.capacity)),
            ("dalpha/dt = 0", relative(slopes[0], terms[0])),
            ("dR_T/dt = 0", relative(slopes[1], terms[1])),
            ("dR_C/dt = 0", relative(slopes[2], terms[2])),
            ("q = Kmin + p (Kmax - Kmin)/Pmax", relative(e.marking_below(queue, p) - p, p)),
        ];
        let mut limits = Vec::new();
        if p > e.pmax {
            limits.push(format!(
                "the fixed point needs a marking probability of {p:.6}, above Pmax ({}): the queue would be above Kmax, where every packet is marked",
                e.pmax
            ));
        }
        if target > e.capacity * (1.0 + 1e-12) {
            limits.push("the fixed point needs a target rate R_T above line rate".to_string());
        }
        Ok(FixedPoint {
            flows,
            p,
            queue: queue * self.packet.0 as f64,
            rate: rate * packet_bits,
            target: target * packet_bits,
            alpha,
            residuals,
            limits,
        })
    }

    /// The smallest number of flows, from 2 to `max_flows`, for which the queue at the fixed point is above Kmax;
    /// `None` if the queue is at most Kmax for all of these numbers.
    ///
    /// # Errors
    /// If a parameter is out of range ([`Dcqcn::check`]).
    pub fn first_above_kmax(&self, max_flows: u32) -> Result<Option<u32>, ModelError> {
        for flows in 2..=max_flows {
            if self.fixed_point(flows)?.p > self.marking.pmax {
                return Ok(Some(flows));
            }
        }
        Ok(None)
    }

    /// Solves the equations for these flows: returns their rates and the queue over time.
    ///
    /// A flow starts at the time step nearest to its start time, with alpha = 1 and with R_C and R_T equal to its start
    /// rate. The delayed rate R^ is the start rate until one control delay after the start. Rates stay between 0 and
    /// line rate, and the queue stays at 0 or above. The model does not contain DCQCN's hyper increase.
    ///
    /// # Errors
    /// One sentence if a parameter, a flow or the step is out of range.
    pub fn solve(&self, groups: &[Group], run: &Run) -> Result<Series, ModelError> {
        self.solve_on_grid(groups, run).map(|(_, series)| series)
    }

    /// Estimates the numerical error: solves the model with the time step of `run`, half of it and a quarter of it, and
    /// compares the solutions.
    ///
    /// # Errors
    /// One sentence if a parameter, a flow or the step is out of range.
    pub fn check_step(&self, groups: &[Group], run: &Run) -> Result<StepCheck, ModelError> {
        StepCheck::of(|run| self.solve_on_grid(groups, run), run)
    }

    fn solve_on_grid(&self, groups: &[Group], run: &Run) -> Result<(Grid, Series), ModelError> {
        self.check()?;
        let e = self.equations();
        let fastest = 1.0 / (1.0 / e.cnp + e.capacity / e.counter + 1.0 / e.timer).max(e.g / e.alpha);
        let grid = Grid::new(run, self.delay, fastest, groups.len())?;
        check_flows(groups, self.rate, run.duration)?;
        let scale = 8.0 * self.packet.0 as f64;
        let flows = groups
            .iter()
            .map(|group| (f64::from(group.count), group.rate.as_bps() as f64 / scale, grid.point(group.start)))
            .collect();
        let flow = |group: &Group| FlowSeries {
            count: group.count,
            rate: Vec::new(),
            state: vec![("target_bps", Vec::new()), ("alpha", Vec::new())],
        };
        let mut series = Series { flows: groups.iter().map(flow).collect(), ..Series::default() };
        let fluid = Fluid { e, grid, flows };
        solve(&fluid, grid.step, grid.steps, |point, state| {
            if point % grid.every == 0 {
                series.time.push(point as f64 * grid.step);
                series.queue.push(state[0] * self.packet.0 as f64);
                series.marking.push(e.marking(state[0]));
                for (i, flow) in series.flows.iter_mut().enumerate() {
                    flow.rate.push(state[1 + i] * scale);
                    let rest = 1 + groups.len() + 2 * i;
                    flow.state[0].1.push(state[rest + 1] * scale);
                    flow.state[1].1.push(state[rest]);
                }
            }
        });
        Ok((grid, series))
    }
}

/// The default ECN marking thresholds of DCQCN at this line rate.
pub fn deployed_marking(rate: BitRate) -> Marking {
    let flow = FlowConfig { line_rate: rate, ..FlowConfig::default() };
    let params = Algorithm::params(&Settings::new(Algorithm::PARAMETERS), &flow).expect("the defaults are accepted");
    Algorithm::marking(&params, &flow).expect("DCQCN declares marking thresholds")
}

fn relative(residual: f64, size: f64) -> f64 {
    if residual == 0.0 { 0.0 } else { residual.abs() / size }
}

/// The fixed point of the fluid model of DCQCN: a state that does not change.
#[derive(Clone, PartialEq, Debug)]
pub struct FixedPoint {
    /// Number of flows.
    pub flows: u32,
    /// Marking probability.
    pub p: f64,
    /// Queue in bytes.
    pub queue: f64,
    /// R_C, the current rate of each flow in bits per second.
    pub rate: f64,
    /// R_T, the target rate of each flow in bits per second.
    pub target: f64,
    /// Alpha of each flow.
    pub alpha: f64,
    /// The residual of each equation at the fixed point, relative to the equation's largest term, with the name of the
    /// equation.
    pub residuals: Vec<(&'static str, f64)>,
    /// Reasons why the model cannot reach the fixed point, one sentence each; empty if it can.
    pub limits: Vec<String>,
}

impl FixedPoint {
    /// Whether the model can reach the fixed point.
    pub fn is_valid(&self) -> bool {
        self.limits.is_empty()
    }
}

/// The parameters of the fluid model in packets and seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Equations {
    capacity: f64,
    kmin: f64,
    kmax: f64,
    pmax: f64,
    g: f64,
    timer: f64,
    counter: f64,
    recovery: f64,
    cnp: f64,
    alpha: f64,
    r_ai: f64,
}

/// Numbers per second of a flow's increase events, at which DCQCN increases the rate: after B bytes or after time T.
struct Events {
    /// All increase events: R (b + d), with b and d as in the equations of the module's documentation.
    all: f64,
    /// Increase events after fast recovery, which raise the target rate R_T: R (c + e). Here c is (1-p)^(F B) b and e
    /// is (1-p)^(F T R) d, with b and d as in the equations of the module's documentation.
    additive: f64,
}

impl Equations {
    fn marking(&self, queue: f64) -> f64 {
        if queue <= self.kmin {
            0.0
        } else if queue > self.kmax {
            1.0
        } else {
            (queue - self.kmin) / (self.kmax - self.kmin) * self.pmax
        }
    }

    /// The marking probability by the linear formula for queues between Kmin and Kmax. The formula is used for queues
    /// outside this range, too. If Kmin = Kmax there is no such formula, and the result is `p`.
    fn marking_below(&self, queue: f64, p: f64) -> f64 {
        if self.kmax == self.kmin { p } else { (queue - self.kmin) / (self.kmax - self.kmin) * self.pmax }
    }

    fn events(&self, p: f64, rate: f64) -> Events {
        let bytes = rate * per_packet(p, self.counter);
        let time = per_second(p, rate, self.timer);
        let after_bytes = none_of(p, self.recovery * self.counter);
        let after_time = none_of(p, self.recovery * self.timer * rate);
        Events { all: bytes + time, additive: after_bytes * bytes + after_time * time }
    }

    /// Both sides of the equation whose root is the marking probability p at the fixed point: a^2 alpha and tau^2 R_AI
    /// R (b + d)(c + e). Here a is 1 - (1-p)^(tau R), and c and e are as in [`Events::additive`].
    fn balance(&self, p: f64, rate: f64) -> (f64, f64) {
        let cut = at_least_one(p, self.cnp * rate);
        let events = self.events(p, rate);
        let left = cut * cut * at_least_one(p, self.alpha * rate);
        (left, self.cnp * self.cnp * self.r_ai * events.all * events.additive / rate)
    }

    /// Computes the derivatives of a flow's (alpha, R_T, R_C) from the delayed values `p` and `rate`; returns the
    /// largest term of each derivative.
    fn flow(&self, p: f64, rate: f64, state: &[f64; 3], slopes: &mut [f64; 3]) -> [f64; 3] {
        let [alpha, target, current] = *state;
        let cut = at_least_one(p, self.cnp * rate);
        let events = self.events(p, rate);
        let gain = self.g / self.alpha;
        let terms = [
            [gain * at_least_one(p, self.alpha * rate), gain * alpha],
            [self.r_ai * events.additive, (target - current) / self.cnp * cut],
            [(target - current) / 2.0 * events.all, current * alpha / (2.0 * self.cnp) * cut],
        ];
        *slopes = terms.map(|[up, down]| up - down);
        terms.map(|[up, down]| up.abs().max(down.abs()))
    }
}

/// The differential equations of the fluid model, for the solver. Their state is the queue q, then R_C of each group of
/// flows, then alpha and R_T of each group.
struct Fluid {
    e: Equations,
    grid: Grid,
    /// For each group of flows: number of flows, start rate in packets per second, and number of the time step at which
    /// the flows start.
    flows: Vec<(f64, f64, usize)>,
}

impl System for Fluid {
    fn width(&self) -> usize {
        1 + 3 * self.flows.len()
    }
    fn remembered(&self) -> usize {
        1 + self.flows.len()
    }
    fn memory(&self) -> Option<usize> {
        Some(self.grid.delay + 1)
    }

    fn slopes(&self, step: usize, part: f64, state: &[f64], past: &History, slopes: &mut [f64]) {
        let groups = self.flows.len();
        let delay = self.grid.delay;
        let then = step.checked_sub(delay);
        let queue = match then {
            _ if delay == 0 => state[0],
            Some(point) => past.at(0, point, part),
            None => 0.0,
        };
        let p = self.e.marking(queue);
        let mut arrivals = 0.0;
        for (i, &(count, start_rate, start)) in self.flows.iter().enumerate() {
            let rest = 1 + groups + 2 * i;
            let mut change = [0.0; 3];
            if step >= start {
                let current = state[1 + i];
                arrivals += count * current;
                let rate = match then {
                    _ if delay == 0 => current,
                    Some(point) if point >= start => past.at(1 + i, point, part),
                    _ => start_rate,
                };
                self.e.flow(p, rate, &[state[rest], state[rest + 1], current], &mut change);
                // A rate at line rate cannot grow.
                for (slope, value) in [(1, state[rest + 1]), (2, current)] {
                    if value >= self.e.capacity {
                        change[slope] = change[slope].min(0.0);
                    }
                }
            }
            (slopes[rest], slopes[rest + 1], slopes[1 + i]) = (change[0], change[1], change[2]);
        }
        let growth = arrivals - self.e.capacity;
        slopes[0] = if state[0] <= 0.0 { growth.max(0.0) } else { growth };
    }

    fn bound(&self, step: usize, state: &mut [f64]) {
        let groups = self.flows.len();
        let line = self.e.capacity;
        state[0] = state[0].max(0.0);
        for (i, &(_, start_rate, start)) in self.flows.iter().enumerate() {
            let rest = 1 + groups + 2 * i;
            if step == start {
                (state[rest], state[rest + 1], state[1 + i]) = (1.0, start_rate, start_rate);
            } else {
                state[rest] = state[rest].clamp(0.0, 1.0);
                state[rest + 1] = state[rest + 1].clamp(0.0, line);
                state[1 + i] = state[1 + i].clamp(0.0, line);
            }
        }
    }
}
