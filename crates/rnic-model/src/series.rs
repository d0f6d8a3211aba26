//! Results of fluid models: values over time, their statistics, and an estimate of their numerical error.

use crate::ModelError;
use crate::error::require;
use rnic_transport::{BitRate, Time};

/// Maximum number of time steps in which a fluid model is solved.
const MAX_STEPS: u64 = 20_000_000;
/// Maximum number of values that the solution of a fluid model keeps.
const MAX_VALUES: u64 = 50_000_000;

/// A group of identical flows, which share one set of equations of a fluid model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Number of flows.
    pub count: u32,
    /// Rate of each flow at its start.
    pub rate: BitRate,
    /// Start time of the flows.
    pub start: Time,
}

/// Settings for the solution of a fluid model: its duration, time step and sample interval.
///
/// ```
/// use rnic_model::dcqcn::Dcqcn;
/// use rnic_model::series::{Group, Run, Statistics};
/// use rnic_transport::{BitRate, Time};
///
/// let line = BitRate::from_gbps(40);
/// let flows = [Group { count: 2, rate: line, start: Time::ZERO }];
/// let run = Run { duration: Time::from_ms(50), ..Run::default() };
/// let series = Dcqcn::deployed(line).solve(&flows, &run)?;
///
/// let rate = Statistics::of(&series.flows[0].rate[series.from(0.03)..]);
/// assert!((19e9..21e9).contains(&rate.mean), "each flow gets half of the link");
/// # Ok::<(), rnic_model::ModelError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Modelled time: the solution begins at time 0 and ends at this time.
    pub duration: Time,
    /// Maximum length of the solver's time step. The solver uses the longest step up to this maximum that divides the
    /// control delay evenly.
    pub step: Time,
    /// Time between two values in the result, rounded to whole time steps.
    pub sample: Time,
}

impl Default for Run {
    /// A solution for 200 ms in time steps of 1 us, with a value every 100 us.
    fn default() -> Run {
        Run { duration: Time::from_ms(200), step: Time::from_us(1), sample: Time::from_us(100) }
    }
}

/// The points in time at which the solver computes a solution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Grid {
    /// Length of a time step in seconds.
    pub(crate) step: f64,
    /// Number of steps.
    pub(crate) steps: usize,
    /// Number of time steps between two values in the result.
    pub(crate) every: usize,
    /// Number of time steps in the control delay of the model.
    pub(crate) delay: usize,
}

impl Grid {
    /// Chooses the time step for solving a model. `fastest` is the smallest time constant of the equations, in seconds;
    /// the step must not exceed it.
    pub(crate) fn new(run: &Run, delay: Time, fastest: f64, groups: usize) -> Result<Grid, ModelError> {
        let Run { duration, step, sample } = *run;
        require(step > Time::ZERO, || "the step is zero; write for example 1 us".to_string())?;
        require(duration > Time::ZERO, || "the duration is zero; write for example 200 ms".to_string())?;
        require(step <= duration, || format!("a step of {step} is longer than the duration of {duration}"))?;
        require(delay == Time::ZERO || step <= delay, || {
            format!("a step of {step} is longer than the delay of {delay}; accepted: at most the delay")
        })?;
        require(step.as_secs() <= fastest, || {
            let max = Time::from_ps((fastest * 1e12) as u64);
            format!("a step of {step} is too long for the time constants of these parameters; accepted: at most {max}")
        })?;
        let pieces = delay.as_ps().div_ceil(step.as_ps());
        let seconds = if pieces == 0 { step.as_secs() } else { delay.as_secs() / pieces as f64 };
        let steps = (duration.as_secs() / seconds).round();
        require(steps <= MAX_STEPS as f64, || {
            format!(
                "{duration} in steps of {step} are {steps} steps; accepted: at most {MAX_STEPS}; use a longer step or a shorter duration"
            )
        })?;
        let every = (sample.as_secs() / seconds).round().max(1.0);
        let values = steps / every * (2 + 3 * groups) as f64;
        require(values <= MAX_VALUES as f64, || {
            format!(
                "a sample every {sample} gives {values:.0} values; accepted: at most {MAX_VALUES}; use a longer sample time or fewer flows"
            )
        })?;
        Ok(Grid { step: seconds, steps: steps as usize, every: every as usize, delay: pieces as usize })
    }

    /// Number of the grid point that is nearest to a time.
    pub(crate) fn point(&self, time: Time) -> usize {
        (time.as_secs() / self.step).round() as usize
    }
}

/// Checks what every fluid model requires of its flows: at least one flow, and start rates and start times in range.
pub(crate) fn check_flows(groups: &[Group], line: BitRate, duration: Time) -> Result<(), ModelError> {
    require(!groups.is_empty() && groups.iter().all(|group| group.count > 0), || {
        "there is no flow; at least one is needed".to_string()
    })?;
    for group in groups {
        require(group.rate <= line, || {
            format!("a flow cannot start with a rate of {}; accepted: at most the line rate of {line}", group.rate)
        })?;
        require(group.start < duration, || {
            format!("a flow cannot start at {}; accepted: any time before the end at {duration}", group.start)
        })?;
    }
    Ok(())
}

/// Solution of a fluid model: the values of queue, marking probability and rates over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// Times in seconds.
    pub time: Vec<f64>,
    /// The bottleneck's queue in bytes.
    pub queue: Vec<f64>,
    /// Marking probability of a packet; empty if the model has no marking.
    pub marking: Vec<f64>,
    /// The values over time of each group of flows.
    pub flows: Vec<FlowSeries>,
}

/// Values of one flow of a group over time; all flows of a group are identical.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlowSeries {
    /// Number of flows in the group.
    pub count: u32,
    /// Rate of each flow in bits per second; 0 before its start.
    pub rate: Vec<f64>,
    /// Other state variables of a flow in the model, by name, such as DCQCN's alpha.
    pub state: Vec<(&'static str, Vec<f64>)>,
}

impl Series {
    /// Index of the first value of the series at or after a time in seconds.
    pub fn from(&self, seconds: f64) -> usize {
        self.time.partition_point(|time| *time < seconds)
    }

    /// The difference between the rates of the fastest and the slowest flow, in bits per second, at each time.
    pub fn spread(&self) -> Vec<f64> {
        let at = |i: usize| {
            let rates = self.flows.iter().map(|flow| flow.rate[i]);
            rates.clone().fold(f64::NEG_INFINITY, f64::max) - rates.fold(f64::INFINITY, f64::min)
        };
        (0..self.time.len()).map(at).collect()
    }
}

/// Statistics of values that are evenly spaced in time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Statistics {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

impl Statistics {
    /// The statistics of `values`; all zero if there are no values.
    pub fn of(values: &[f64]) -> Statistics {
        if values.is_empty() {
            return Statistics { mean: 0.0, deviation: 0.0, min: 0.0, max: 0.0 };
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let square = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Statistics { mean, deviation: square.sqrt(), min, max }
    }
}

/// The differences between solutions of a fluid model with the time steps h, h/2 and h/4. They show the numerical error
/// that the step h causes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepCheck {
    /// The longest of the three time steps, h, in seconds.
    pub step: f64,
    /// Maximum difference of the queue in bytes between the solutions with the steps h and h/2, and between those with
    /// h/2 and h/4.
    pub queue: [f64; 2],
    /// Maximum difference of a flow's rate in bits per second between the solutions with the steps h and h/2, and
    /// between those with h/2 and h/4.
    pub rate: [f64; 2],
}

impl StepCheck {
    /// Solves a model with the time steps h, h/2 and h/4, and compares the solutions at common times.
    pub(crate) fn of(
        solve: impl Fn(&Run) -> Result<(Grid, Series), ModelError>, run: &Run,
    ) -> Result<StepCheck, ModelError> {
        let (grid, coarse) = solve(run)?;
        let finer = |parts: u64| {
            // The step is rounded up, because the grid uses the longest step up to the given maximum. The sample time
            // is set so that all solutions have values at the same times.
            let step = Time::from_ps((grid.step * 1e12 / parts as f64 - 1e-3).ceil() as u64);
            let sample = Time::from_ps((grid.step * 1e12 * grid.every as f64).round() as u64);
            solve(&Run { step, sample, ..*run }).map(|(_, series)| series)
        };
        let (middle, fine) = (finer(2)?, finer(4)?);
        let differ = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let rates = |a: &Series, b: &Series| {
            a.flows.iter().zip(&b.flows).map(|(a, b)| differ(&a.rate, &b.rate)).fold(0.0, f64::max)
        };
        Ok(StepCheck {
            step: grid.step,
            queue: [differ(&coarse.queue, &middle.queue), differ(&middle.queue, &fine.queue)],
            rate: [rates(&coarse, &middle), rates(&middle, &fine)],
        })
    }

    /// The order of the numerical error in the time step, computed from the two differences of a quantity (`queue` or
    /// `rate`); `None` if a difference is zero.
    pub fn order(differences: [f64; 2]) -> Option<f64> {
        (differences[0] > 0.0 && differences[1] > 0.0).then(|| libm::log2(differences[0] / differences[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_by_hand() {
        let statistics = Statistics::of(&[1.0, 4.0, 2.0, 3.0]);
        assert_eq!(statistics, Statistics { mean: 2.5, deviation: 1.25f64.sqrt(), min: 1.0, max: 4.0 });
        assert_eq!(Statistics::of(&[]).mean, 0.0);
    }

    #[test]
    fn the_spread_is_between_the_fastest_and_the_slowest() {
        let flow = |rate: [f64; 2]| FlowSeries { count: 1, rate: rate.to_vec(), state: Vec::new() };
        let series = Series {
            time: vec![0.0, 0.5],
            flows: vec![flow([3.0, 7.0]), flow([5.0, 7.0]), flow([1.0, 7.0])],
            ..Series::default()
        };
        assert_eq!(series.spread(), [4.0, 0.0]);
        assert_eq!([0.0, 0.1, 0.5, 0.6].map(|time| series.from(time)), [0, 1, 1, 2]);
    }

    #[test]
    fn the_step_divides_the_delay() {
        let run = |step| Run { step: Time::from_us(step), ..Run::default() };
        let grid = Grid::new(&run(16), Time::from_us(50), 1.0, 1).unwrap();
        assert_eq!((grid.delay, grid.steps, grid.every), (4, 16_000, 8));
        assert!((grid.step - 12.5e-6).abs() < 1e-18);
        assert_eq!(Grid::new(&run(16), Time::ZERO, 1.0, 1).unwrap().step, 16e-6);
        assert_eq!(StepCheck::order([8.0, 0.5]), Some(4.0));
        assert_eq!(StepCheck::order([8.0, 0.0]), None);
    }
}
