//! Progress bars on the terminal: one bar for each running simulation, or one bar for many simulations.

use crate::output::note;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use rnic_campaign::RunListener;
use rnic_results::text::{count, duration};
use rnic_spec::{RunEvent, RunProgress, RunRecord};
use rnic_studies::jobs::JobProgress;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Duration;

/// Template of the progress bar of one run.
const TEMPLATE: &str = "{prefix:16!} {wide_bar} {msg}";

/// Template of the progress bar over all runs.
const OVERALL: &str = "{prefix:16!} {wide_bar} {pos}/{len} runs{msg}";

/// Length of the bar of one run.
const LENGTH: u64 = 1_000;

/// If a scenario has more runs than this number, a progress bar counts the finished runs.
const FEW: usize = 8;

/// The progress bars of `rnic run`. Each running simulation has a bar with finished flows, simulated time, packet-hops
/// per second and, once it can be estimated, the remaining time. If there are more than eight runs, another bar
/// counts the finished runs.
pub struct Bars {
    all: MultiProgress,
    overall: Option<Overall>,
    runs: Vec<Run>,
}

/// The bar over all runs.
struct Overall {
    bar: ProgressBar,
    estimate: Mutex<Estimate>,
}

struct Run {
    name: String,
    /// Progress bar of the run; `None` before the first progress event of the run, and after its end.
    bar: Mutex<Option<(ProgressBar, Estimate)>>,
    /// The part of the run that is done, from 0 to 1.
    fraction: Mutex<f64>,
}

impl Bars {
    /// Progress bars on standard error for runs with the given names. `None` if standard error is not a terminal.
    pub fn on_terminal<'a>(names: impl Iterator<Item = &'a str>) -> Option<Bars> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        Some(Bars::drawn_on(ProgressDrawTarget::stderr(), names))
    }

    fn drawn_on<'a>(target: ProgressDrawTarget, names: impl Iterator<Item = &'a str>) -> Bars {
        let run = |name: &str| Run { name: name.to_string(), bar: Mutex::new(None), fraction: Mutex::new(0.0) };
        let all = MultiProgress::with_draw_target(target);
        let runs: Vec<Run> = names.map(run).collect();
        let overall = (runs.len() > FEW).then(|| {
            let bar = ProgressBar::new(runs.len() as u64).with_style(style(OVERALL)).with_prefix("all runs");
            Overall { bar: all.add(bar), estimate: Mutex::default() }
        });
        Bars { all, overall, runs }
    }

    /// Counts `runs` as finished in the bar over all runs, because their stored results are used.
    pub(crate) fn skip(&self, runs: usize) {
        if let Some(overall) = &self.overall {
            overall.bar.inc(runs as u64);
        }
    }

    /// Hides all bars while `write` writes messages to the terminal.
    pub(crate) fn aside(&self, write: impl FnOnce()) {
        self.all.suspend(write);
    }

    /// Removes the bar of a run that has ended or failed.
    fn end(&self, run: usize) {
        // The bar of a failed run is not full, so it would stay on the terminal.
        if let Some(run) = self.runs.get(run) {
            *run.fraction.lock() = 1.0;
            if let Some((bar, _)) = run.bar.lock().take() {
                bar.finish_and_clear();
            }
        }
        if let Some(overall) = &self.overall {
            overall.bar.inc(1);
        }
        self.estimate_all();
    }

    /// Updates the estimate of the remaining time of all runs.
    fn estimate_all(&self) {
        let Some(Overall { bar, estimate }) = &self.overall else { return };
        // Runs whose stored results are used took no time.
        let done: f64 = self.runs.iter().map(|run| *run.fraction.lock()).sum();
        let mut estimate = estimate.lock();
        estimate.add(bar.elapsed().as_secs_f64(), done / self.runs.len().max(1) as f64);
        bar.set_message(estimate.text());
    }

    fn start(&self, name: &str) -> (ProgressBar, Estimate) {
        let bar = ProgressBar::new(LENGTH).with_style(style(TEMPLATE)).with_prefix(name.to_string());
        (self.all.add(bar), Estimate::default())
    }
}

/// The text behind the bar of a run: finished flows, simulated time, speed and remaining time.
pub fn message(state: &RunProgress, elapsed_s: f64, estimate: &Estimate) -> String {
    // With a `duration`, the number of flows is itself only an estimate.
    let flows = match (state.flows_total, state.duration) {
        (Some(total), None) => format!("{}/{} flows", count(state.flows_done), count(total)),
        _ => format!("{} flows", count(state.flows_done)),
    };
    let of = state.duration.map_or(String::new(), |end| format!(" of {}", duration(end.as_us())));
    format!(
        "{flows}  {}{of} simulated{}{}",
        duration(state.time.as_us()),
        speed(state.hops, elapsed_s),
        estimate.text()
    )
}

/// Estimates the remaining time from the progress so far. It makes no estimate before the speed of the progress is
/// known: at the start of a run, the fabric is empty and few flows have finished, so the first seconds say little about
/// the rest.
#[derive(Default)]
pub struct Estimate {
    /// The progress so far as (elapsed seconds, part that is done), at about equal distances of time; at most
    /// [`Estimate::POINTS`] points.
    points: Vec<(f64, f64)>,
    /// Minimum number of seconds between two points.
    distance_s: f64,
    latest: (f64, f64),
}

impl Estimate {
    /// Elapsed seconds before the first estimate.
    const FIRST_S: f64 = 5.0;
    /// An estimate is made only if the speeds in two successive intervals differ by at most this factor.
    const STEADY: f64 = 1.5;
    /// Maximum number of stored points.
    const POINTS: usize = 256;

    /// Adds the progress, a part from 0 to 1, after a number of seconds.
    pub fn add(&mut self, elapsed_s: f64, fraction: f64) {
        self.latest = (elapsed_s, fraction);
        if self.points.last().is_some_and(|(last, _)| elapsed_s < last + self.distance_s) {
            return;
        }
        if self.points.len() == Estimate::POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.distance_s = elapsed_s / Estimate::POINTS as f64 * 2.0;
        }
        self.points.push(self.latest);
    }

    /// The remaining seconds at the latest point; `None` if the speed of the progress is not known yet. It is known if
    /// it was about the same in the second and in the last quarter of the elapsed time.
    fn remaining_s(&self) -> Option<f64> {
        let last = Some(self.latest).filter(|(elapsed, _)| *elapsed >= Estimate::FIRST_S)?;
        let at = |share: f64| {
            let index = self.points.partition_point(|(elapsed, _)| *elapsed < share * last.0);
            self.points.get(index).copied()
        };
        let speed = |from: (f64, f64), to: (f64, f64)| {
            let (elapsed, done) = (to.0 - from.0, to.1 - from.1);
            (elapsed > 0.0 && done > 0.0).then(|| done / elapsed)
        };
        let (before, now) = (speed(at(0.25)?, at(0.5)?)?, speed(at(0.5)?, last)?);
        let steady = before.max(now) <= Estimate::STEADY * before.min(now);
        steady.then(|| (1.0 - last.1).max(0.0) / now)
    }

    /// The remaining time as the end of a line; empty if it is not known.
    fn text(&self) -> String {
        self.remaining_s().map_or(String::new(), |seconds| format!("  ETA {}", eta(seconds)))
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl RunListener for Bars {
    fn event(&self, run: usize, event: &RunEvent) -> ControlFlow<()> {
        let (RunEvent::Progress(state), Some(run)) = (event, self.runs.get(run)) else {
            return ControlFlow::Continue(());
        };
        {
            let mut slot = run.bar.lock();
            let (bar, estimate) = slot.get_or_insert_with(|| self.start(&run.name));
            let elapsed_s = bar.elapsed().as_secs_f64();
            let fraction = state.fraction().unwrap_or(0.0);
            *run.fraction.lock() = fraction;
            estimate.add(elapsed_s, fraction);
            bar.set_position((fraction * LENGTH as f64) as u64);
            bar.set_message(message(state, elapsed_s, estimate));
            if state.flows_total.is_some_and(|total| state.flows_done >= total) && !bar.is_finished() {
                bar.finish_and_clear();
            }
        }
        self.estimate_all();
        ControlFlow::Continue(())
    }

    fn finished(&self, run: usize, _report: &RunRecord) -> ControlFlow<()> {
        self.end(run);
        ControlFlow::Continue(())
    }
}

impl Drop for Bars {
    /// Removes all bars, including those of failed runs.
    fn drop(&mut self) {
        if let Some(overall) = &self.overall {
            overall.bar.finish_and_clear();
        }
        for run in &self.runs {
            if let Some((bar, _)) = run.bar.lock().take() {
                bar.finish_and_clear();
            }
        }
    }
}

/// The average speed so far in millions of packet-hops per second, as a part of a line; empty in the first 0.1 s of a
/// run.
fn speed(hops: u64, seconds: f64) -> String {
    if seconds < 0.1 {
        return String::new();
    }
    format!("  {:.1} M hops/s", hops as f64 / seconds / 1e6)
}

/// Progress of the simulations of a study: one bar, or a line per 10 % if standard error is not a terminal.
pub(crate) struct JobBar {
    /// Progress bar; hidden if standard error is not a terminal.
    bar: ProgressBar,
    /// Whether lines are printed instead of the progress bar.
    lines: bool,
    /// Number of tenths of all simulations that the last printed line reported as done.
    printed_tenths: Mutex<usize>,
}

/// Template of the progress bar of many simulations.
const JOBS: &str = "{wide_bar} {pos}/{len} simulations  {elapsed}  ETA {msg}";

impl JobBar {
    /// Shows progress on standard error, as a bar or as lines; shows nothing if `visible` is false.
    pub(crate) fn new(visible: bool) -> JobBar {
        let drawn = visible && std::io::stderr().is_terminal();
        let bar = if drawn { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template(JOBS).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        if drawn {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        JobBar { bar, lines: visible && !drawn, printed_tenths: Mutex::new(0) }
    }

    /// Shows the progress; may be called from any thread.
    pub(crate) fn show(&self, progress: JobProgress) {
        let JobProgress { done, found, total, remaining_s } = progress;
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(eta(remaining_s));
        let tenths = done * 10 / total.max(1);
        let mut printed_tenths = self.printed_tenths.lock();
        if self.lines && tenths > *printed_tenths && found < total {
            *printed_tenths = tenths;
            note(&format!("{done} of {total} simulations done, ETA {}", eta(remaining_s)));
        }
    }

    /// Removes the progress bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The remaining time as text, in minutes and seconds: `2:05`; from one hour on in hours, minutes and seconds.
fn eta(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_transport::Time;

    fn progress(flows_done: u64, flows_total: u64) -> RunEvent {
        RunEvent::Progress(RunProgress { flows_done, flows_total: Some(flows_total), ..RunProgress::default() })
    }

    #[test]
    fn a_bar_exists_from_the_first_progress_event_to_the_last_flow() {
        let bars = Bars::drawn_on(ProgressDrawTarget::hidden(), ["a", "b"].into_iter());
        let report = |run: usize, flows_done: u64| {
            assert!(bars.event(run, &progress(flows_done, 10)).is_continue());
            bars.runs[run.min(1)].bar.lock().as_ref().map(|(bar, _)| (bar.position(), bar.is_finished()))
        };
        assert_eq!(report(1, 3), Some((300, false)));
        assert!(bars.runs[0].bar.lock().is_none(), "the other run has not started");
        assert!(report(1, 10).is_some_and(|(_, finished)| finished));
        assert!(report(1, 10).is_some_and(|(_, finished)| finished), "a late event changes nothing");
        assert!(bars.event(7, &progress(0, 0)).is_continue());
    }

    #[test]
    fn many_runs_have_a_bar_over_all() {
        let names: Vec<String> = (0..9).map(|number| number.to_string()).collect();
        let bars = Bars::drawn_on(ProgressDrawTarget::hidden(), names.iter().map(String::as_str));
        assert!(bars.event(3, &progress(1, 2)).is_continue());
        bars.end(3);
        bars.end(4);
        assert_eq!(bars.overall.as_ref().map(|overall| overall.bar.position()), Some(2));
        assert!(bars.runs[3].bar.lock().is_none(), "the bar is removed, full or not");
    }

    #[test]
    fn the_templates_are_valid() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
        assert!(ProgressStyle::with_template(OVERALL).is_ok());
        assert!(ProgressStyle::with_template(JOBS).is_ok());
    }

    #[test]
    fn many_simulations_are_one_bar() {
        let jobs = JobBar::new(false);
        jobs.show(JobProgress { done: 3, found: 1, total: 10, remaining_s: 75.2 });
        assert_eq!((jobs.bar.position(), jobs.bar.length(), jobs.bar.message().as_str()), (3, Some(10), "1:15"));
        jobs.finish();
    }

    #[test]
    fn speed_is_shown_after_a_tenth_of_a_second() {
        assert_eq!(speed(1_000, 0.01), "");
        assert_eq!(speed(16_800_000, 2.0), "  8.4 M hops/s");
    }

    /// The remaining seconds after `seconds` seconds of a run whose progress after each tenth of a second is `done`.
    fn remaining(seconds: f64, done: impl Fn(f64) -> f64) -> Option<f64> {
        let mut estimate = Estimate::default();
        for tenth in 0..=(seconds * 10.0) as u32 {
            let elapsed = f64::from(tenth) / 10.0;
            estimate.add(elapsed, done(elapsed));
        }
        estimate.remaining_s()
    }

    #[test]
    fn a_steady_run_has_an_estimate_after_five_seconds() {
        let steady = |elapsed: f64| elapsed / 100.0;
        assert_eq!(remaining(4.9, steady), None);
        for seconds in [5.0, 10.0, 80.0] {
            let estimate = remaining(seconds, steady).unwrap();
            assert!((estimate - (100.0 - seconds)).abs() < 0.5, "{estimate} s after {seconds} s");
        }
    }

    /// The estimate must not alternate between known and unknown because only few old points are stored.
    #[test]
    fn a_steady_run_keeps_its_estimate_with_frequent_progress() {
        let mut estimate = Estimate::default();
        for event in 0..200_000 {
            let elapsed = f64::from(event) * 0.003;
            estimate.add(elapsed, elapsed / 1_000.0);
            if elapsed >= Estimate::FIRST_S {
                let remaining = estimate.remaining_s().unwrap();
                assert!((remaining - (1_000.0 - elapsed)).abs() < 1.0, "{remaining} s after {elapsed} s");
            }
        }
        assert!(estimate.points.len() <= Estimate::POINTS);
    }

    #[test]
    fn a_run_whose_speed_changes_has_no_estimate() {
        // Fast at first, as on an empty fabric, then a hundred times slower.
        let slowing = |elapsed: f64| if elapsed < 2.0 { elapsed / 10.0 } else { 0.2 + (elapsed - 2.0) / 1_000.0 };
        assert_eq!(remaining(6.0, slowing), None);
        let estimate = remaining(40.0, slowing).unwrap();
        assert!((estimate - 762.0).abs() < 10.0, "{estimate}");
        // No flow finishes for a long time.
        assert_eq!(remaining(40.0, |_| 0.0), None);
    }

    #[test]
    fn the_text_of_a_bar_has_the_simulated_time() {
        let (time, end) = (Time::from_us(1_230), Some(Time::from_us(1_000_000)));
        let state = RunProgress { flows_done: 12_345, flows_total: Some(20_000), time, ..RunProgress::default() };
        let none = Estimate::default();
        assert_eq!(message(&state, 0.0, &none), "12,345/20,000 flows  1.23 ms simulated");
        let state = RunProgress { duration: end, ..state };
        assert_eq!(message(&state, 0.0, &none), "12,345 flows  1.23 ms of 1.00 s simulated");
    }

    #[test]
    fn remaining_times_have_hours() {
        assert_eq!([eta(59.6), eta(125.0), eta(36_061.0)], ["1:00", "2:05", "10:01:01"]);
    }
}
