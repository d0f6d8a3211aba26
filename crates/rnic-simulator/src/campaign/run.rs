use super::{RunArgs, program, store_of};
use crate::error::CliError;
use crate::interrupt::Interruption;
use crate::output::note;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use parking_lot::{Mutex, MutexGuard};
use rnic_campaign::campaign::{
    CampaignListener, Folder, Limits, Manifest, Place, Progress, RunResult, run_campaign, status,
};
use rnic_campaign::{CODE, Threads};
use rnic_results::text::{count, duration};
use rnic_sim::Catalogue;
use rnic_spec::{RunEvent, RunSpec};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximum number of failed runs that the message after a campaign names.
const NAMED: usize = 20;

/// Simulates the runs of a manifest that have no result.
pub(super) fn run(arguments: &RunArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let manifest = Arc::new(Manifest::read(&arguments.manifest, &catalogue.vocabulary())?);
    let folder = Folder::at(&store_of(&arguments.manifest, arguments.store.as_ref()));
    let program = program(catalogue)?;
    if manifest.code != CODE && !arguments.quiet {
        note(&format!(
            "the manifest was written by rnic {}, and this is rnic {CODE}: results of the other version are not used",
            manifest.code
        ));
    }
    folder.register(&manifest, arguments.replace)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(processors, usize::from);
    let place = Place {
        folder: &folder,
        campaign: &manifest.name,
        engine: "threads",
        records: manifest.records,
        program: &program,
    };
    let (shard, retries, retry_failed) = (arguments.shard, arguments.retries, arguments.retry_failed);
    let limits = Limits { shard, retries, retry_failed };
    let interruption = Interruption::listen()?;
    let display = ProgressDisplay::new(!arguments.quiet, &manifest.name, &interruption);
    let progress = run_campaign(&manifest, &place, limits, &Threads::new(catalogue, threads), &display)?;
    display.finish();
    let Progress { done, failed, found, wanted } = progress;
    if !arguments.quiet {
        let shard = if shard.of > 1 { format!(", shard {}/{}", shard.number, shard.of) } else { String::new() };
        note(&format!(
            "{}{shard}: {done} of {wanted} runs done, {found} of them before; results in `{}`",
            manifest.name,
            folder.path().display()
        ));
    }
    if let Some(code) = interruption.exit_code() {
        let message = format!("{done} of {wanted} runs have a result; the same command continues");
        return Err(CliError::Interrupted { code, message });
    }
    if failed > 0 {
        let failures = status(&manifest, &folder, &program).failures;
        let mut sentences: Vec<String> = failures
            .iter()
            .take(NAMED)
            .map(|failure| {
                format!("run \"{}\", seed {}: {}: {}", failure.run, failure.seed, failure.state.word(), failure.reason)
            })
            .collect();
        if failures.len() > NAMED {
            let rest = failures.len() - NAMED;
            sentences.push(format!("{rest} more runs failed; `rnic campaign status` lists all reasons"));
        }
        return Err(CliError::Failed(sentences));
    }
    Ok(())
}

/// Shows the progress on standard error. On a terminal, it has a bar for all runs and a line for each worker; otherwise
/// it prints a line of text per 10 %.
struct ProgressDisplay<'i> {
    interruption: &'i Interruption,
    is_visible: bool,
    name: String,
    bars: Option<(MultiProgress, ProgressBar)>,
    /// The line of each run that is being simulated, by key.
    workers: Mutex<BTreeMap<String, ProgressBar>>,
    /// Tenths of all runs that the last printed line reported.
    printed_tenths: Mutex<usize>,
}

impl<'i> ProgressDisplay<'i> {
    fn new(is_visible: bool, name: &str, interruption: &'i Interruption) -> ProgressDisplay<'i> {
        let bars = (is_visible && io::stderr().is_terminal()).then(|| {
            let all = MultiProgress::new();
            let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} runs  {elapsed}  {msg}");
            let bar = all.add(ProgressBar::new(0).with_prefix(name.to_string()));
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            (all, bar)
        });
        ProgressDisplay {
            interruption,
            is_visible,
            name: name.to_string(),
            bars,
            workers: Mutex::default(),
            printed_tenths: Mutex::new(0),
        }
    }

    fn finish(&self) {
        if let Some((_, bar)) = &self.bars {
            bar.finish_and_clear();
        }
    }

    fn workers(&self) -> MutexGuard<'_, BTreeMap<String, ProgressBar>> {
        self.workers.lock()
    }
}

impl CampaignListener for ProgressDisplay<'_> {
    fn started(&self, key: &str, run: &RunSpec) {
        if let Some((all, _)) = &self.bars {
            let style = ProgressStyle::with_template("  {prefix:40!} {elapsed:>4}  {msg}");
            let line = all.add(ProgressBar::new_spinner().with_prefix(format!("{} seed {}", run.name, run.seed)));
            line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            line.tick();
            self.workers().insert(key.to_string(), line);
        }
    }

    fn event(&self, key: &str, event: &RunEvent) -> ControlFlow<()> {
        if let (RunEvent::Progress(state), Some(line)) = (event, self.workers().get(key)) {
            let time = duration(state.time.as_us());
            line.set_message(format!("{} flows, {time} simulated", count(state.flows_done)));
        }
        self.interruption.flow()
    }

    fn ended(&self, key: &str, _result: Option<&RunResult>) -> ControlFlow<()> {
        if let Some(line) = self.workers().remove(key) {
            line.finish_and_clear();
        }
        self.interruption.flow()
    }

    fn progress(&self, progress: Progress) {
        let Progress { done, failed, wanted, .. } = progress;
        let failed = if failed > 0 { format!("{failed} failed") } else { String::new() };
        if let Some((_, bar)) = &self.bars {
            bar.set_length(wanted as u64);
            bar.set_position(done as u64);
            bar.set_message(failed);
        } else if self.is_visible {
            let mut printed_tenths = self.printed_tenths.lock();
            let tenths = done * 10 / wanted.max(1);
            if tenths > *printed_tenths {
                *printed_tenths = tenths;
                let failed = if failed.is_empty() { failed } else { format!(", {failed}") };
                note(&format!("{}: {done} of {wanted} runs{failed}", self.name));
            }
        }
    }
}
