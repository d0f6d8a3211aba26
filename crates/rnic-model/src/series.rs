//! What a fluid model yields: values over time, what they are like in a stretch of it, and how exact they are.

use crate::ModelError;
use crate::error::require;
use rnic_transport::{BitRate, Time};

/// Most steps of a solution.
const MOST_STEPS: u64 = 20_000_000;
/// Most values that a solution keeps.
const MOST_VALUES: u64 = 50_000_000;

/// Flows that are alike from their start to the end: one set of equations stands for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// How many.
    pub count: u32,
    /// The rate of each when it starts.
    pub rate: BitRate,
    /// When they start.
    pub start: Time,
}

/// How a model is solved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// From 0 to this time.
    pub duration: Time,
    /// The longest step; what is taken is the longest one below it of which a whole number makes the delay.
    pub step: Time,
    /// Time between the values that are kept, rounded to steps.
    pub sample: Time,
}

impl Default for Run {
    /// 200 ms by steps of 1 us, values each 100 us.
    fn default() -> Run {
        Run { duration: Time::from_ms(200), step: Time::from_us(1), sample: Time::from_us(100) }
    }
}

/// The points of a solution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Grid {
    /// Seconds of a step.
    pub(crate) step: f64,
    pub(crate) steps: usize,
    /// Steps between kept values.
    pub(crate) every: usize,
    /// Steps of the delay.
    pub(crate) delay: usize,
}

impl Grid {
    /// `fastest`: the shortest time in which the equations change anything by its own size, in seconds.
    pub(crate) fn new(run: &Run, delay: Time, fastest: f64, groups: usize) -> Result<Grid, ModelError> {
        let Run { duration, step, sample } = *run;
        require(step > Time::ZERO, || "the step is zero; write for example 1 us".to_string())?;
        require(duration > Time::ZERO, || "the duration is zero; write for example 200 ms".to_string())?;
        require(step <= duration, || format!("a step of {step} is longer than the duration of {duration}"))?;
        require(delay == Time::ZERO || step <= delay, || {
            format!(
                "a step of {step} is longer than the delay of {delay}, so the past would lie in the future; at most the delay is possible"
            )
        })?;
        require(step.as_secs() <= fastest, || {
            let most = Time::from_ps((fastest * 1e12) as u64);
            format!(
                "a step of {step} is too long for these parameters: the model changes within {most}, at most that is possible"
            )
        })?;
        let pieces = delay.as_ps().div_ceil(step.as_ps());
        let seconds = if pieces == 0 { step.as_secs() } else { delay.as_secs() / pieces as f64 };
        let steps = (duration.as_secs() / seconds).round();
        require(steps <= MOST_STEPS as f64, || {
            format!(
                "{duration} by steps of {step} are more than {MOST_STEPS} steps; take a longer step or a shorter duration"
            )
        })?;
        let every = (sample.as_secs() / seconds).round().max(1.0);
        require(steps / every * (2 + 3 * groups) as f64 <= MOST_VALUES as f64, || {
            format!("values each {sample} are too many to keep; take a longer sample time or fewer flows")
        })?;
        Ok(Grid { step: seconds, steps: steps as usize, every: every as usize, delay: pieces as usize })
    }

    /// The point nearest to a time.
    pub(crate) fn point(&self, time: Time) -> usize {
        (time.as_secs() / self.step).round() as usize
    }
}

/// What flows must be for any model.
pub(crate) fn check_flows(groups: &[Group], line: BitRate, duration: Time) -> Result<(), ModelError> {
    require(!groups.is_empty() && groups.iter().all(|group| group.count > 0), || {
        "there is no flow; at least one is needed".to_string()
    })?;
    for group in groups {
        require(group.rate <= line, || format!("a flow cannot start at {}: the line rate is {line}", group.rate))?;
        require(group.start < duration, || {
            format!("a flow that starts at {} is never there: the duration is {duration}", group.start)
        })?;
    }
    Ok(())
}

/// Values over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// Seconds.
    pub time: Vec<f64>,
    /// The bottleneck's queue in bytes.
    pub queue: Vec<f64>,
    /// Probability that a packet is marked; empty if nothing marks.
    pub marking: Vec<f64>,
    /// Each group of flows.
    pub flows: Vec<FlowSeries>,
}

/// One flow of a group over time; all of its group are alike.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlowSeries {
    /// Flows in the group.
    pub count: u32,
    /// Bits per second of each; 0 before its start.
    pub rate: Vec<f64>,
    /// What else the model knows of it, by name.
    pub state: Vec<(&'static str, Vec<f64>)>,
}

impl Series {
    /// Number of the first value at or after a time in seconds.
    pub fn from(&self, seconds: f64) -> usize {
        self.time.partition_point(|time| *time < seconds)
    }

    /// The difference between the fastest and the slowest flow, in bits per second, at each time.
    pub fn spread(&self) -> Vec<f64> {
        let at = |i: usize| {
            let rates = self.flows.iter().map(|flow| flow.rate[i]);
            rates.clone().fold(f64::NEG_INFINITY, f64::max) - rates.fold(f64::INFINITY, f64::min)
        };
        (0..self.time.len()).map(at).collect()
    }
}

/// What values are like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stretch {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// Smallest.
    pub least: f64,
    /// Largest.
    pub most: f64,
}

impl Stretch {
    /// Of evenly spaced values; all zero if there are none.
    pub fn of(values: &[f64]) -> Stretch {
        if values.is_empty() {
            return Stretch { mean: 0.0, deviation: 0.0, least: 0.0, most: 0.0 };
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let square = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Stretch { mean, deviation: square.sqrt(), least, most }
    }
}

/// How much a solution changes when its step is halved, and halved again.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepCheck {
    /// The step in seconds.
    pub step: f64,
    /// Largest difference of the queue in bytes: between h and h/2, between h/2 and h/4.
    pub queue: [f64; 2],
    /// Largest difference of a flow's rate in bits per second.
    pub rate: [f64; 2],
}

impl StepCheck {
    /// Compares solutions by h, h/2 and h/4 at the times that all have.
    pub(crate) fn of(
        solve: impl Fn(&Run) -> Result<(Grid, Series), ModelError>, run: &Run,
    ) -> Result<StepCheck, ModelError> {
        let (grid, coarse) = solve(run)?;
        let finer = |parts: u64| {
            // Rounded up, for the grid takes the longest step below; values at the same times.
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

    /// The order of the error that the differences of a quantity show; `None` where there is none left to measure.
    pub fn order(differences: [f64; 2]) -> Option<f64> {
        (differences[0] > 0.0 && differences[1] > 0.0).then(|| libm::log2(differences[0] / differences[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_by_hand() {
        let stretch = Stretch::of(&[1.0, 4.0, 2.0, 3.0]);
        assert_eq!(stretch, Stretch { mean: 2.5, deviation: 1.25f64.sqrt(), least: 1.0, most: 4.0 });
        assert_eq!(Stretch::of(&[]).mean, 0.0);
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
