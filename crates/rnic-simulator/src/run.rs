//! The command `rnic run`, which simulates a scenario.

mod mpi;
mod packets;
mod ranks;
mod replay;
mod traces;
mod watching;

use crate::args::{FidelityOption, FlowFile, RunArgs};
use crate::error::CliError;
use crate::exec;
use crate::format::Format;
use crate::interrupt::Interruption;
use crate::live::{Results, Views};
use crate::output::note;
use crate::progress::Bars;
use crate::provenance::{self, Provenance};
use crate::resume::{Resumable, Storing};
use crate::shell::quoted;
use crate::{cannot_be_set_up_all, load_runs, output, set_up};
use replay::Replaying;
use rnic_campaign::{RunListener, RunListeners, execute_remaining};
use rnic_metrics::exposition::Metrics;
use rnic_metrics::simulated;
use rnic_results::fidelity::OF_FLOWS;
use rnic_results::files::{self, FlowFormat, add_all};
use rnic_results::folder::{FileSet, FolderLock};
use rnic_results::summary::{ScenarioSummary, summarise};
use rnic_results::table;
use rnic_sim::Catalogue;
use rnic_sim::capture::Capture;
use rnic_sim::{Events, Sharing};
use rnic_spec::{Fidelity, RunRecord, RunSpec, RunStatus, Scenario};
use rnic_transport::Time;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use watching::{Watched, Watching};

/// Simulates the selected runs of a scenario, prints the results and writes the result files.
pub(crate) fn run(arguments: &RunArgs, catalogue: &Catalogue, views: &dyn Views) -> Result<(), CliError> {
    if let Some(session) = mpi::start().map_err(|error| CliError::Input(error.to_string()))? {
        return ranks::run(arguments, catalogue, &session.group());
    }
    let scenario = load(arguments, catalogue)?;
    if arguments.print_spec {
        return exec::print_specs(&scenario.runs);
    }
    let replaying = Replaying::of(arguments, &scenario)?;
    let interruption = Interruption::listen()?;
    let _lock = make_folder(arguments, &scenario)?;
    let resumable = Resumable::open(arguments, &scenario, catalogue)?;
    let packets_max = arguments.trace_packets_limit as usize;
    if let Some(of) = &arguments.trace_packets {
        packets::check(&scenario, catalogue, of, packets_max)?;
    }
    let watching = Watching::open(arguments, &scenario, replaying, views)?;
    let (records, pcap, stored) = match &arguments.pcap {
        Some((link, file)) => {
            let (record, file) =
                simulate_with_capture(&scenario, arguments, catalogue, (&interruption, &watching), link, file)?;
            (vec![Some(record)], Some(file), None)
        }
        None => {
            let watching = (&interruption, &watching);
            let (records, stored) = simulate(&scenario, arguments, catalogue, watching, resumable.as_ref())?;
            (records, None, stored)
        }
    };
    let Watched { replay, files: traces, view } = watching.conclude(arguments.quiet)?;
    let further: Vec<PathBuf> = pcap.into_iter().chain(traces).collect();
    let folder = arguments.out.join(&scenario.name);
    let is_complete = |record: &Option<RunRecord>| {
        record.as_ref().is_some_and(|record| record.output.status != RunStatus::Interrupted)
    };
    if let Some(code) = interruption.exit_code().filter(|_| !records.iter().all(is_complete)) {
        // The stored runs remain for `--resume`.
        let files = conclude_partial(arguments, scenario, records, replay, &folder)?;
        if !arguments.quiet {
            print_files(&[files, further].concat());
        }
        let message = stored.unwrap_or_else(|| "the results are partial".to_string());
        return Err(CliError::Interrupted { code, message });
    }
    let reports: Vec<RunRecord> = records.into_iter().flatten().collect();
    let packets = match (&arguments.trace_packets, scenario.runs.as_slice(), reports.as_slice()) {
        (Some(of), [run], [record]) => {
            let mut event = |_| interruption.flow();
            Some(packets::record(catalogue, run, record, (of, packets_max), &mut event))
        }
        _ => None,
    };
    let interrupted = interruption.exit_code().filter(|_| packets.is_some());
    // All runs have ended. From here on, a signal ends the program as usual, unless a view shows the results.
    let interruption = view.as_ref().map(|_| interruption);
    let (summary, mut files) = conclude(arguments, &scenario, &reports, replay, || {
        resumable.iter().for_each(Resumable::close);
        further
    })?;
    if let Some(code) = interrupted {
        return Err(CliError::Interrupted { code, message: "the packets are not written".to_string() });
    }
    if let Some(packets) = packets.transpose()? {
        let written = packets.write(&folder, arguments.format != Format::Table)?;
        if !arguments.quiet {
            print_files(&written);
        }
        files.extend(written);
    }
    if let (Some(view), Some(interruption)) = (view, interruption) {
        let table = table::render(&summary, VIEW_COLUMNS);
        view.stay(&Results { table: &table, files: &files, folder: &folder }, &interruption);
    }
    outcome(arguments.format, &scenario, &reports)
}

/// Reads the scenario of the command line, with the runs that it selects.
pub(crate) fn load(arguments: &RunArgs, catalogue: &Catalogue) -> Result<Scenario, CliError> {
    let mut scenario = load_runs(catalogue, &arguments.selection, &arguments.runs)?;
    if let Some(option) = arguments.fidelity {
        scenario.runs = with_fidelity(scenario.runs, option);
    }
    Ok(scenario)
}

/// The runs as `--fidelity` asks for them.
fn with_fidelity(runs: Vec<RunSpec>, option: FidelityOption) -> Vec<RunSpec> {
    let packets = |run: RunSpec| RunSpec { fidelity: Fidelity::Packet, fidelity_quantum: Time::ZERO, ..run };
    let flows = |run: RunSpec| RunSpec { fidelity: Fidelity::Flow, fast_forward: 0.0, ..run };
    match option {
        FidelityOption::Packet => runs.into_iter().map(packets).collect(),
        FidelityOption::Flow => runs.into_iter().map(flows).collect(),
        FidelityOption::Both => {
            let both = |run: RunSpec| {
                let (name, base) = (format!("{}{OF_FLOWS}", run.name), format!("{}{OF_FLOWS}", run.base));
                let of_flows = flows(RunSpec { name, base, ..run.clone() });
                [packets(run), of_flows]
            };
            runs.into_iter().flat_map(both).collect()
        }
    }
}

/// Prints the results of all runs of the scenario and writes the result files. Then it calls `written`, which writes
/// further files and returns their paths. `replay` is the page of a replay. Returns the results and the paths of all
/// files.
pub(crate) fn conclude(
    arguments: &RunArgs, scenario: &Scenario, reports: &[RunRecord], replay: Option<String>,
    written: impl FnOnce() -> Vec<PathBuf>,
) -> Result<(ScenarioSummary, Vec<PathBuf>), CliError> {
    let command = Some(command(arguments));
    let summary = ScenarioSummary { command, replay: replay.is_some(), ..summarise(scenario, reports) };
    print(arguments.format, &summary)?;
    let folder = arguments.out.join(&scenario.name);
    let mut files = write_files(arguments, &folder, scenario, reports, &summary, replay)?;
    files.extend(written());
    if !arguments.quiet {
        print_files(&files);
    }
    Ok((summary, files))
}

/// The error of a command whose runs have these records, if some of them failed.
pub(crate) fn outcome(format: Format, scenario: &Scenario, reports: &[RunRecord]) -> Result<(), CliError> {
    let failures = failures(scenario, reports);
    match (failures.len(), format) {
        (0, _) => Ok(()),
        // The printed table already contains the reasons.
        (1, Format::Table) => Err(CliError::Failed(vec!["a run failed".to_string()])),
        (count, Format::Table) => Err(CliError::Failed(vec![format!("{count} runs failed")])),
        _ => Err(CliError::Failed(failures)),
    }
}

/// Prints the results of an interrupted scenario, with its complete and partial runs, and writes the files. Returns the
/// paths of the files.
pub(crate) fn conclude_partial(
    arguments: &RunArgs, mut scenario: Scenario, records: Vec<Option<RunRecord>>, replay: Option<String>, folder: &Path,
) -> Result<Vec<PathBuf>, CliError> {
    let (started, not_started): (Vec<_>, Vec<_>) =
        std::mem::take(&mut scenario.runs).into_iter().zip(records).partition(|(_, record)| record.is_some());
    let not_started = not_started.into_iter().map(|(run, _)| run.name).collect();
    let (runs, reports): (Vec<_>, Vec<_>) = started.into_iter().unzip();
    let reports: Vec<RunRecord> = reports.into_iter().flatten().collect();
    scenario.runs = runs;
    let (command, replays) = (Some(command(arguments)), replay.is_some());
    let summary = ScenarioSummary { not_started, command, replay: replays, ..summarise(&scenario, &reports) };
    print(arguments.format, &summary)?;
    write_files(arguments, folder, &scenario, &reports, &summary, replay)
}

/// The command that makes the results again, as the user would type it into a shell.
fn command(arguments: &RunArgs) -> String {
    let runs = arguments.runs.iter().map(|run| format!(" --run {}", quoted(run)));
    Provenance::of(arguments).command() + &runs.collect::<String>()
}

/// Simulates the runs. After an interruption, the second result says how many runs are stored for `--resume`; it is
/// `None` if runs are not stored.
fn simulate(
    scenario: &Scenario, arguments: &RunArgs, catalogue: &Catalogue,
    (interruption, watching): (&Interruption, &Watching<'_>), resumable: Option<&Resumable<'_>>,
) -> Result<(Vec<Option<RunRecord>>, Option<String>), CliError> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(processors, usize::from);
    let found = resumable.map_or(Vec::new(), Resumable::take);
    let done = found.iter().flatten().count();
    let names = scenario.runs.iter().map(|run| run.name.as_str());
    let has_bars = !arguments.quiet && !arguments.tui;
    let bars = if has_bars { Bars::on_terminal(names) } else { None };
    if let Some(bars) = &bars {
        bars.skip(done);
    }
    let storing = resumable.and_then(|resumable| resumable.storing(bars.as_ref(), done));
    let mut listeners = watching.listeners();
    match (&storing, &bars) {
        (Some(storing), _) => listeners.push(storing),
        (None, Some(bars)) => listeners.push(bars),
        (None, None) => {}
    }
    let listeners = RunListeners::new(listeners, scenario.runs.len());
    let listener = interruption.around(&listeners);
    let records = execute_remaining(catalogue, scenario, found, threads, &listener)
        .map_err(|first| cannot_be_set_up_all(catalogue, &scenario.runs, first))?;
    Ok((records, storing.as_ref().map(Storing::interrupted)))
}

/// The run of a scenario with a single selected run. `what` begins the sentence of the error for several runs.
fn only_run<'s>(scenario: &'s Scenario, what: &str) -> Result<&'s RunSpec, CliError> {
    let [run] = scenario.runs.as_slice() else {
        let names: Vec<String> = scenario.runs.iter().map(|run| format!("\"{}\"", run.name)).collect();
        return Err(CliError::Input(format!("{what} of one run; choose one with --run: {}", names.join(", "))));
    };
    Ok(run)
}

/// Simulates the run of a scenario with a single selected run, and writes the frames of one link to the capture file
/// `path`.
fn simulate_with_capture(
    scenario: &Scenario, arguments: &RunArgs, catalogue: &Catalogue,
    (interruption, watching): (&Interruption, &Watching<'_>), link: &str, path: &Path,
) -> Result<(RunRecord, PathBuf), CliError> {
    let run = only_run(scenario, "--pcap captures the frames")?;
    let resolved = set_up(catalogue, run)?;
    let mut capture =
        Capture::new(run, &resolved, link).map_err(|error| CliError::Input(format!("--pcap {link}: {error}")))?;
    let cannot_write = |error| CliError::Io { doing: format!("cannot write `{}`", path.display()), error };
    let bars = if arguments.quiet { None } else { Bars::on_terminal([run.name.as_str()].into_iter()) };
    let mut report_event = |event| {
        if let Some(bars) = &bars {
            let _ = bars.event(0, &event);
        }
        interruption.flow()
    };
    // The file is opened before the simulation, so that a wrong path fails early.
    let file = File::create(path).map_err(cannot_write)?;
    let listeners = RunListeners::new(watching.listeners(), 1);
    let mut events = Events::to(&mut report_event);
    if let Some((plan, listener)) = listeners.frames(0) {
        events = events.with_frames(plan, listener);
    }
    let report = rnic_sim::run::run(catalogue, run, &resolved, Some(&mut capture), &Sharing::among(1), &events);
    drop(events);
    let _ = listeners.finished(0, &report);
    drop(bars);
    capture.write(BufWriter::new(file), &report.output.flows).map_err(cannot_write)?;
    Ok((report, path.to_path_buf()))
}

/// Creates and locks the folder for the result files before the simulation, so that a wrong path fails early and no
/// other command writes into the folder. Prints a message if results of another command in the folder will be replaced.
pub(crate) fn make_folder(arguments: &RunArgs, scenario: &Scenario) -> Result<FolderLock, CliError> {
    let folder = arguments.out.join(&scenario.name);
    let provenance = Provenance::of(arguments);
    let holder = format!("`{}`,", provenance.command());
    let lock = FolderLock::take(&folder, &holder).map_err(|error| cannot_write(&folder, error))?;
    if let Some(message) = provenance.replaced(&folder).filter(|_| !arguments.quiet) {
        note(&message);
    }
    Ok(lock)
}

fn cannot_write(folder: &Path, error: std::io::Error) -> CliError {
    CliError::Io { doing: format!("cannot write the result files into `{}`", folder.display()), error }
}

fn write_files(
    arguments: &RunArgs, folder: &Path, scenario: &Scenario, reports: &[RunRecord], summary: &ScenarioSummary,
    replay: Option<String>,
) -> Result<Vec<PathBuf>, CliError> {
    let format = |flows: &FlowFile| match flows {
        FlowFile::Csv => FlowFormat::Csv,
        FlowFile::Parquet => FlowFormat::Parquet,
    };
    let flows: Vec<FlowFormat> = arguments.flows.iter().map(format).collect();
    let provenance = Provenance::of(arguments);
    let is_of_another_command = provenance.replaced(folder).is_some();
    // All files appear together: an error, such as a full disk, leaves the older files as they are.
    let writing = |error| cannot_write(folder, error);
    let mut set = FileSet::new(folder).map_err(writing)?;
    add_all(&mut set, scenario, reports, summary, &flows).map_err(writing)?;
    if arguments.metrics {
        add_metrics(&mut set, scenario, reports, arguments).map_err(writing)?;
    }
    if let Some(page) = replay {
        set.add(rnic_results::replay::FILE, |out| out.write_all(page.as_bytes())).map_err(writing)?;
    }
    provenance.add(&mut set).map_err(writing)?;
    let mut written = set.commit().map_err(writing)?;
    if is_of_another_command {
        remove_others(folder, &written);
    }
    written.retain(|file| !file.ends_with(provenance::FILE));
    Ok(written)
}

/// Name of the file with the metrics of all runs.
const METRICS: &str = "metrics.txt";

/// Removes the result files of an earlier, different command that this command has not replaced, so that all files in
/// the folder belong to one command.
fn remove_others(folder: &Path, written: &[PathBuf]) {
    let further = [METRICS, rnic_results::replay::FILE];
    for name in files::NAMES.iter().chain(&further).chain(&packets::FILES) {
        let file = folder.join(name);
        if !written.contains(&file) {
            // Usually there is no such file.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Adds the metrics of all runs over simulated time to the files, and prints which metrics are missing.
fn add_metrics(
    files: &mut FileSet, scenario: &Scenario, reports: &[RunRecord], arguments: &RunArgs,
) -> std::io::Result<()> {
    let mut metrics = Metrics::new();
    let max_values = match arguments.metrics_values {
        u64::MAX => u64::MAX,
        values => values / reports.len().max(1) as u64,
    };
    for (run, report) in scenario.runs.iter().zip(reports) {
        for missing in simulated::add(&run.name, report, arguments.metrics_stretch, max_values, &mut metrics) {
            note(&format!("{METRICS}: {missing}"));
        }
    }
    files.add(METRICS, |out| metrics.write_open_metrics(out))
}

/// Columns of the table of results in a view.
const VIEW_COLUMNS: usize = 120;

fn print(format: Format, summary: &ScenarioSummary) -> Result<(), CliError> {
    let text = match format {
        Format::Table => table::render(summary, output::width()),
        Format::Json => format!("{:#}", summary.to_json(true)),
    };
    output::print(|out| writeln!(out, "{}", text.trim_end()))
}

pub(crate) fn print_files(files: &[PathBuf]) {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    note(&format!("wrote {}", names.join(", ")));
}

/// A sentence for each run that failed or has no result.
fn failures(scenario: &Scenario, reports: &[RunRecord]) -> Vec<String> {
    let failure = |(number, run): (usize, &rnic_spec::RunSpec)| match reports.get(number) {
        None => Some(format!("run \"{}\" has no result", run.name)),
        Some(report) => match &report.output.status {
            RunStatus::Completed | RunStatus::Interrupted => None,
            RunStatus::Failed(why) => Some(format!("run \"{}\" failed: {why}", run.name)),
        },
    };
    scenario.runs.iter().enumerate().filter_map(failure).collect()
}
