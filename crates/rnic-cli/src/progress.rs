//! Progress bars on the terminal: one bar for each running simulation, or one bar for many simulations.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rnic_campaign::RunListener;
use rnic_campaign::jobs::{Listener, State};
use rnic_run::RunEvent;
use rnic_run::RunRecord;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Template of the progress bar of one run.
const TEMPLATE: &str = "{prefix:16!} {wide_bar} {pos}/{len} flows  {msg}  ETA {eta}";

/// Template of the progress bar over all runs.
const OVERALL: &str = "{prefix:16!} {wide_bar} {pos}/{len} runs  ETA {eta}";

/// If a scenario has more runs than this number, a progress bar counts the finished runs.
const FEW: usize = 8;

/// The progress bars of `rnic run`. Each running simulation has a bar with finished flows, packet-hops per second and
/// remaining time. If there are more than [`FEW`] runs, another bar counts the finished runs.
pub(crate) struct Bars {
    all: MultiProgress,
    overall: Option<ProgressBar>,
    runs: Vec<Run>,
}

struct Run {
    name: String,
    /// Progress bar of the run; `None` before the first progress event of the run, and after its end.
    bar: Mutex<Option<ProgressBar>>,
}

impl Bars {
    /// Progress bars on standard error for runs with the given names. `None` if standard error is not a terminal.
    pub(crate) fn on_terminal<'a>(names: impl Iterator<Item = &'a str>) -> Option<Bars> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        Some(Bars::drawn_on(ProgressDrawTarget::stderr(), names))
    }

    fn drawn_on<'a>(target: ProgressDrawTarget, names: impl Iterator<Item = &'a str>) -> Bars {
        let run = |name: &str| Run { name: name.to_string(), bar: Mutex::new(None) };
        let all = MultiProgress::with_draw_target(target);
        let runs: Vec<Run> = names.map(run).collect();
        let overall = (runs.len() > FEW).then(|| {
            let bar = ProgressBar::new(runs.len() as u64).with_style(style(OVERALL)).with_prefix("all runs");
            all.add(bar)
        });
        Bars { all, overall, runs }
    }

    /// Counts `runs` as finished in the bar over all runs, because their stored results are used.
    pub(crate) fn skip(&self, runs: usize) {
        if let Some(overall) = &self.overall {
            overall.inc(runs as u64);
            overall.reset_eta();
        }
    }

    /// Hides all bars while `write` writes messages to the terminal.
    pub(crate) fn aside(&self, write: impl FnOnce()) {
        self.all.suspend(write);
    }

    /// Removes the bar of a run that has ended or failed.
    fn end(&self, run: usize) {
        // The bar of a failed run is not full, so it would stay on the terminal.
        if let Some(bar) = self.runs.get(run).and_then(|run| lock(&run.bar).take()) {
            bar.finish_and_clear();
        }
        if let Some(overall) = &self.overall {
            overall.inc(1);
        }
    }

    fn start(&self, name: &str) -> ProgressBar {
        self.all.add(ProgressBar::new(0).with_style(style(TEMPLATE)).with_prefix(name.to_string()))
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl RunListener for Bars {
    fn event(&self, run: usize, event: &RunEvent) {
        let RunEvent::Progress(state) = event else { return };
        let flows_total = state.flows_total.unwrap_or(u64::MAX);
        let Some(run) = self.runs.get(run) else { return };
        let mut slot = lock(&run.bar);
        let bar = slot.get_or_insert_with(|| self.start(&run.name));
        bar.set_length(flows_total);
        bar.set_position(state.flows_done);
        bar.set_message(speed(state.hops, bar.elapsed().as_secs_f64()));
        if state.flows_done >= flows_total && !bar.is_finished() {
            bar.finish_and_clear();
        }
    }

    fn finished(&self, run: usize, _report: &RunRecord) {
        self.end(run);
    }
}

impl Drop for Bars {
    /// Removes all bars, including those of failed runs.
    fn drop(&mut self) {
        if let Some(overall) = &self.overall {
            overall.finish_and_clear();
        }
        for run in &self.runs {
            if let Some(bar) = lock(&run.bar).take() {
                bar.finish_and_clear();
            }
        }
    }
}

/// Locks the mutex, even if it is poisoned: no code that can panic runs while the data is inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The average speed so far as text, in millions of packet-hops per second; empty in the first 0.1 s of a run.
fn speed(hops: u64, seconds: f64) -> String {
    if seconds < 0.1 {
        return String::new();
    }
    format!("{:.1} M hops/s", hops as f64 / seconds / 1e6)
}

/// Progress of the simulations of a study: one bar, or a line per 10 % if standard error is not a terminal.
pub(crate) struct Jobs {
    /// Progress bar; hidden if standard error is not a terminal.
    bar: ProgressBar,
    /// Whether lines are printed instead of the progress bar.
    lines: bool,
    /// Number of tenths of all simulations that the last printed line reported as done.
    told: Mutex<usize>,
}

impl Jobs {
    /// Shows progress on standard error, as a bar or as lines; shows nothing if `speak` is false.
    pub(crate) fn new(speak: bool) -> Jobs {
        let drawn = speak && std::io::stderr().is_terminal();
        let bar = if drawn { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template(JOBS).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        if drawn {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        Jobs { bar, lines: speak && !drawn, told: Mutex::new(0) }
    }

    /// Removes the progress bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Template of the progress bar of many simulations.
const JOBS: &str = "{wide_bar} {pos}/{len} simulations  {elapsed}  ETA {msg}";

impl RunListener for Jobs {}

impl Listener for Jobs {
    fn state(&self, state: State) {
        self.bar.set_length(state.total as u64);
        self.bar.set_position(state.done as u64);
        self.bar.set_message(eta(state.remaining_s));
        let tenths = state.done * 10 / state.total.max(1);
        let mut told = lock(&self.told);
        if self.lines && tenths > *told && state.found < state.total {
            *told = tenths;
            let (done, total) = (state.done, state.total);
            // If standard error is closed, the line is lost.
            let _ = writeln!(std::io::stderr(), "{done} of {total} simulations done, ETA {}", eta(state.remaining_s));
        }
    }
}

/// The remaining time as text, in minutes and seconds: `2:05`.
fn eta(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_run::RunProgress;

    fn progress(flows_done: u64, flows_total: u64) -> RunEvent {
        RunEvent::Progress(RunProgress { flows_done, flows_total: Some(flows_total), ..RunProgress::default() })
    }

    #[test]
    fn a_bar_exists_from_the_first_progress_event_to_the_last_flow() {
        let bars = Bars::drawn_on(ProgressDrawTarget::hidden(), ["a", "b"].into_iter());
        let report = |run: usize, flows_done: u64| {
            bars.event(run, &progress(flows_done, 10));
            lock(&bars.runs[run.min(1)].bar).as_ref().map(|bar| (bar.position(), bar.is_finished()))
        };
        assert_eq!(report(1, 3), Some((3, false)));
        assert!(lock(&bars.runs[0].bar).is_none(), "the other run has not started");
        assert!(report(1, 10).is_some_and(|(_, finished)| finished));
        assert!(report(1, 10).is_some_and(|(_, finished)| finished), "a late event changes nothing");
        bars.event(7, &progress(0, 0));
    }

    #[test]
    fn many_runs_have_a_bar_over_all() {
        let names: Vec<String> = (0..9).map(|number| number.to_string()).collect();
        let bars = Bars::drawn_on(ProgressDrawTarget::hidden(), names.iter().map(String::as_str));
        bars.event(3, &progress(1, 2));
        bars.end(3);
        bars.end(4);
        assert_eq!(bars.overall.as_ref().map(ProgressBar::position), Some(2));
        assert!(lock(&bars.runs[3].bar).is_none(), "the bar is removed, full or not");
    }

    #[test]
    fn the_templates_are_valid() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
        assert!(ProgressStyle::with_template(OVERALL).is_ok());
        assert!(ProgressStyle::with_template(JOBS).is_ok());
    }

    #[test]
    fn many_simulations_are_one_bar() {
        let jobs = Jobs::new(false);
        jobs.state(State { done: 3, found: 1, total: 10, remaining_s: 75.2 });
        assert_eq!((jobs.bar.position(), jobs.bar.length(), jobs.bar.message().as_str()), (3, Some(10), "1:15"));
        jobs.finish();
    }

    #[test]
    fn speed_is_shown_after_a_tenth_of_a_second() {
        assert_eq!(speed(1_000, 0.01), "");
        assert_eq!(speed(16_800_000, 2.0), "8.4 M hops/s");
    }
}
