//! The fluid models of TIMELY and of patched TIMELY ("ECN or Delay: Lessons Learnt from Analysis of DCQCN and TIMELY",
//! CoNEXT 2016).
//!
//! N flows share one bottleneck of capacity C; each has a rate R and a moving average G of the round-trip time's
//! gradient; q is the queue. The units are bytes and seconds:
//!
//! ```text
//! dq/dt  = sum R - C
//! dG/dt  = (alpha/tau*) [ -G + (q(t - tau') - q(t - tau' - tau*)) / (C minRTT) ]
//! tau*   = max(segment/R, minRTT)          time between two updates
//! tau'   = q/C + packet/C + delay          age of the newest sample
//!
//! dR/dt  = delta/tau*                                    q(t - tau') < C T_low
//!        = -(beta/tau*) (1 - C T_high/q(t - tau')) R     q(t - tau') > C T_high
//! TIMELY, queue between C T_low and C T_high:
//!        = delta/tau*                                    G <= 0
//!        = -(G beta/tau*) R                              G > 0
//! patched TIMELY, queue between C T_low and C T_high, with q' = C T_low and
//! w = 0 for G < -1/4 | 2 G + 1/2 | 1 for G > 1/4:
//!        = (1 - w) delta/tau* - w (beta/tau*) R (q(t - tau') - q')/q'
//! ```
//!
//! The right-hand sides of dG/dt and dR/dt are the update rules of the algorithm, divided by the time between two
//! updates. The rules come from algorithm 1 of "TIMELY" (SIGCOMM 2015), and from the patch in "ECN or Delay". The fluid
//! form of the rules also comes from "ECN or Delay". This form uses the queueing delay q/C instead of the round-trip
//! time.

use crate::ModelError;
use crate::delay::{History, System, solve};
use crate::error::require;
use crate::series::{FlowSeries, Grid, Group, Run, Series, StepCheck, check_flows};
use rnic_transport::congestion::Settings;
use rnic_transport::{BitRate, Bytes, Time};

/// The fluid model of TIMELY or patched TIMELY on one bottleneck. The fields from `t_low` on are the parameters of the
/// congestion control with the same names.
///
/// ```
/// use rnic_model::timely::Timely;
/// use rnic_transport::BitRate;
/// use rnic_transport::congestion::{CongestionControl, PatchedTimely, Settings};
///
/// let settings = Settings::new(PatchedTimely::PARAMETERS);
/// let model = Timely::new(BitRate::from_gbps(10), true, &settings)?;
/// let point = model.fixed_point(2)?.expect("patched TIMELY has a fixed point");
/// assert_eq!(point.rate, 5e9);
/// assert!((point.queue - 78_125.0).abs() < 1e-6, "C T_low (1 + N delta/(beta C)), in bytes");
///
/// let original = Timely { patched: false, ..model };
/// assert_eq!(original.fixed_point(2)?, None);
/// # Ok::<(), rnic_model::ModelError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timely {
    /// C, the rate of the bottleneck, which is also the line rate of every flow.
    pub rate: BitRate,
    /// Length of a packet. In the model, the age of an RTT sample includes the transmission time of one packet.
    pub packet: Bytes,
    /// Propagation delay, which the age of an RTT sample in the model includes.
    pub delay: Time,
    /// Whether the equations are the equations of patched TIMELY instead of TIMELY.
    pub patched: bool,
    /// T_low, the queueing delay below which the rate always grows.
    pub t_low: Time,
    /// T_high, the queueing delay above which the rate always falls.
    pub t_high: Time,
    /// minRTT, by which the RTT difference is divided to get the gradient.
    pub min_rtt: Time,
    /// beta, the factor of the multiplicative decrease of the rate.
    pub beta: f64,
    /// delta, the additive increase of the rate at an update.
    pub delta: BitRate,
    /// alpha, the weight of the newest RTT difference in its moving average.
    pub alpha: f64,
    /// Bytes that a flow sends between two updates of its rate.
    pub segment: Bytes,
}

/// Names of those parameters of the congestion control that the equations of the fluid model contain.
pub const PARAMETERS: [&str; 7] = ["t_low", "t_high", "min_rtt", "beta", "delta", "alpha", "segment"];

impl Timely {
    /// Creates a fluid model with the congestion control parameters in `settings`, packets of 1,000 bytes, and a
    /// propagation delay of `min_rtt`. If `delta` is not set, it is a thousandth of the line rate `rate`.
    ///
    /// # Errors
    /// If `settings` are not settings of TIMELY or patched TIMELY.
    pub fn new(rate: BitRate, patched: bool, settings: &Settings) -> Result<Timely, ModelError> {
        let read = || -> Result<Timely, String> {
            let min_rtt = settings.time("min_rtt")?;
            let delta = match settings.value("delta") {
                None => BitRate::from_bps(rate.as_bps() / 1_000),
                Some(_) => settings.rate("delta")?,
            };
            Ok(Timely {
                rate,
                packet: Bytes(1_000),
                delay: min_rtt,
                patched,
                t_low: settings.time("t_low")?,
                t_high: settings.time("t_high")?,
                min_rtt,
                beta: settings.number("beta")?,
                delta,
                alpha: settings.number("alpha")?,
                segment: Bytes(settings.bytes("segment")?),
            })
        };
        read().map_err(ModelError)
    }

    /// Checks that all parameters of the model are in range.
    ///
    /// # Errors
    /// One sentence about the first parameter that is out of range.
    pub fn check(&self) -> Result<(), ModelError> {
        require(self.rate.as_bps() > 0, || "the rate is zero; write for example 10 Gbps".to_string())?;
        require(self.packet.0 > 0, || "the packet length is zero; write for example 1000 B".to_string())?;
        require(self.segment.0 > 0, || "the segment length is zero; write for example 16 KB".to_string())?;
        require(self.t_low <= self.t_high, || {
            format!("t_low cannot be {}; accepted: at most t_high, which is {}", self.t_low, self.t_high)
        })?;
        require(self.t_low > Time::ZERO, || "t_low is zero; accepted: any time above 0".to_string())?;
        require(self.min_rtt > Time::ZERO, || "min_rtt is zero; accepted: any time above 0".to_string())?;
        require(self.delta.as_bps() > 0, || {
            "delta is zero, so rates would never grow; accepted: any rate above 0".to_string()
        })?;
        for (name, value) in [("alpha", self.alpha), ("beta", self.beta)] {
            require(value > 0.0 && value <= 1.0, || {
                format!("{name} cannot be {value}; accepted: a number above 0 and at most 1")
            })?;
        }
        Ok(())
    }

    fn equations(&self) -> Equations {
        let capacity = self.rate.as_bps() as f64 / 8.0;
        Equations {
            capacity,
            packet: self.packet.0 as f64,
            delay: self.delay.as_secs(),
            patched: self.patched,
            low: capacity * self.t_low.as_secs(),
            high: capacity * self.t_high.as_secs(),
            min_rtt: self.min_rtt.as_secs(),
            beta: self.beta,
            delta: self.delta.as_bps() as f64 / 8.0,
            alpha: self.alpha,
            segment: self.segment.0 as f64,
        }
    }

    /// The fixed point of patched TIMELY (the state that does not change) with `flows` flows: every flow has the rate
    /// C/N, the gradient is 0 and its weight w is 1/2, and `q = C T_low (1 + N delta/(beta C))`. The original TIMELY
    /// has no fixed point (`None`), because its rates grow if the gradient is 0.
    ///
    /// # Errors
    /// If a parameter is out of range ([`Timely::check`]), or `flows` is 0.
    pub fn fixed_point(&self, flows: u32) -> Result<Option<FixedPoint>, ModelError> {
        self.check()?;
        require(flows > 0, || "there is no flow; at least one is needed".to_string())?;
        if !self.patched {
            return Ok(None);
        }
        let e = self.equations();
        let rate = e.capacity / f64::from(flows);
        let queue = e.low * (1.0 + f64::from(flows) * e.delta / (e.beta * e.capacity));
        let (up, down) = e.patched(queue, 0.0, rate);
        let residuals = vec![
            ("dq/dt = N R - C = 0", (f64::from(flows) * rate - e.capacity).abs() / e.capacity),
            ("dR/dt = 0", (up - down).abs() / up.max(down)),
        ];
        let mut limits = Vec::new();
        if queue > e.high {
            limits.push(format!(
                "the queue at the fixed point would be {:.1} KB, above C T_high ({:.1} KB), where rates fall regardless of the gradient",
                queue / 1e3,
                e.high / 1e3
            ));
        }
        Ok(Some(FixedPoint { flows, queue, rate: rate * 8.0, residuals, limits }))
    }

    /// Solves the equations for these flows: returns their rates and the queue over time.
    ///
    /// A flow starts at the time step nearest to its start time, with a gradient of 0. Rates stay between 0 and line
    /// rate, and the queue stays at 0 or above. The model does not contain TIMELY's hyperactive increase.
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
        let youngest = e.delay + e.packet / e.capacity;
        require(run.step.as_secs() <= youngest, || {
            let min_delay = Time::from_ps((youngest * 1e12) as u64);
            format!(
                "a step of {} is longer than the minimum delay of {min_delay}; accepted: at most that delay",
                run.step
            )
        })?;
        let grid = Grid::new(run, Time::ZERO, (e.segment / e.capacity).max(e.min_rtt), groups.len())?;
        check_flows(groups, self.rate, run.duration)?;
        require(groups.iter().all(|group| group.rate.as_bps() > 0), || {
            "a flow cannot start with rate 0, because it would never complete a segment; use a small rate, for example 10 Mbps"
                .to_string()
        })?;
        let flows = groups
            .iter()
            .map(|group| (f64::from(group.count), group.rate.as_bps() as f64 / 8.0, grid.point(group.start)))
            .collect();
        let flow =
            |group: &Group| FlowSeries { count: group.count, rate: Vec::new(), state: vec![("gradient", Vec::new())] };
        let mut series = Series { flows: groups.iter().map(flow).collect(), ..Series::default() };
        let fluid = Fluid { e, step: grid.step, flows };
        solve(&fluid, grid.step, grid.steps, |point, state| {
            if point % grid.every == 0 {
                series.time.push(point as f64 * grid.step);
                series.queue.push(state[0]);
                for (i, flow) in series.flows.iter_mut().enumerate() {
                    flow.rate.push(state[1 + 2 * i] * 8.0);
                    flow.state[0].1.push(state[2 + 2 * i]);
                }
            }
        });
        Ok((grid, series))
    }
}

/// The fixed point of the fluid model of patched TIMELY: a state that does not change.
#[derive(Clone, PartialEq, Debug)]
pub struct FixedPoint {
    /// Number of flows.
    pub flows: u32,
    /// Queue in bytes.
    pub queue: f64,
    /// Rate of each flow in bits per second.
    pub rate: f64,
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

/// The parameters of the fluid model in bytes and seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Equations {
    capacity: f64,
    packet: f64,
    delay: f64,
    patched: bool,
    /// C T_low: the queue in bytes at which the queueing delay is T_low.
    low: f64,
    /// C T_high: the queue in bytes at which the queueing delay is T_high.
    high: f64,
    min_rtt: f64,
    beta: f64,
    delta: f64,
    alpha: f64,
    segment: f64,
}

impl Equations {
    /// Number of rate updates of a flow per second: 1/tau*.
    fn updates(&self, rate: f64) -> f64 {
        (rate / self.segment).min(1.0 / self.min_rtt)
    }

    /// The increase and the decrease of the rate per second in patched TIMELY, if the queueing delay is between T_low
    /// and T_high.
    fn patched(&self, queue: f64, gradient: f64, rate: f64) -> (f64, f64) {
        let updates = self.updates(rate);
        let weight = (2.0 * gradient + 0.5).clamp(0.0, 1.0);
        let error = (queue - self.low) / self.low;
        ((1.0 - weight) * self.delta * updates, weight * self.beta * updates * rate * error)
    }

    fn rate_slope(&self, queue: f64, gradient: f64, rate: f64) -> f64 {
        let updates = self.updates(rate);
        if queue < self.low {
            self.delta * updates
        } else if queue > self.high {
            -self.beta * updates * (1.0 - self.high / queue) * rate
        } else if self.patched {
            let (up, down) = self.patched(queue, gradient, rate);
            up - down
        } else if gradient <= 0.0 {
            self.delta * updates
        } else {
            -gradient * self.beta * updates * rate
        }
    }
}

/// The differential equations of the fluid model, for the solver. Their state is the queue q, then the rate R and the
/// gradient G of each group of flows.
struct Fluid {
    e: Equations,
    step: f64,
    /// For each group of flows: number of flows, start rate in bytes per second, and number of the time step at which
    /// the flows start.
    flows: Vec<(f64, f64, usize)>,
}

impl System for Fluid {
    fn width(&self) -> usize {
        1 + 2 * self.flows.len()
    }
    fn remembered(&self) -> usize {
        1
    }
    fn memory(&self) -> Option<usize> {
        None // the delay grows with the queue, so it has no bound
    }

    fn slopes(&self, step: usize, part: f64, state: &[f64], past: &History, slopes: &mut [f64]) {
        let e = &self.e;
        let now = step as f64 + part;
        // The queue is empty before the first point.
        let queue_at = |steps: f64| if steps <= 0.0 { 0.0 } else { past.at_time(0, steps) };
        let newest = now - (state[0].max(0.0) / e.capacity + e.packet / e.capacity + e.delay) / self.step;
        let queue = queue_at(newest);
        let mut arrivals = 0.0;
        for (i, &(count, _, start)) in self.flows.iter().enumerate() {
            let (rate, gradient) = (state[1 + 2 * i], state[2 + 2 * i]);
            let mut change = (0.0, 0.0);
            if step >= start {
                arrivals += count * rate;
                let updates = e.updates(rate);
                let before = queue_at(newest - 1.0 / (updates * self.step));
                let difference = (queue - before) / (e.capacity * e.min_rtt);
                change = (e.rate_slope(queue, gradient, rate), e.alpha * updates * (difference - gradient));
                if rate >= e.capacity {
                    change.0 = change.0.min(0.0);
                }
            }
            (slopes[1 + 2 * i], slopes[2 + 2 * i]) = change;
        }
        let growth = arrivals - e.capacity;
        slopes[0] = if state[0] <= 0.0 { growth.max(0.0) } else { growth };
    }

    fn bound(&self, step: usize, state: &mut [f64]) {
        state[0] = state[0].max(0.0);
        for (i, &(_, start_rate, start)) in self.flows.iter().enumerate() {
            if step == start {
                (state[1 + 2 * i], state[2 + 2 * i]) = (start_rate, 0.0);
            } else {
                state[1 + 2 * i] = state[1 + 2 * i].clamp(0.0, self.e.capacity);
            }
        }
    }
}
