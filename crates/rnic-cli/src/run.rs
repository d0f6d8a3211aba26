//! `rnic run`.

use crate::args::{FlowFile, Format, RunArgs};
use crate::error::CliError;
use crate::progress::{Bars, Silent};
use crate::{is_called, load_selected, output, select};
use rnic_sim::catalogue::Catalogue;
use rnic_sim::results::RunStatus;
use rnic_sim::results::files::{FlowFormat, write_all};
use rnic_sim::results::summary::{ScenarioSummary, summarise};
use rnic_sim::results::table;
use rnic_sim::run::{Progress, RunOptions, RunReport, run_scenario};
use rnic_sim::scenario::Scenario;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Simulates, writes the files, prints.
pub(crate) fn run(arguments: &RunArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let mut scenario = load_selected(catalogue, &arguments.selection)?;
    for name in &arguments.runs {
        select(&scenario, Some(name))?;
    }
    scenario.runs.retain(|run| arguments.runs.is_empty() || arguments.runs.iter().any(|name| is_called(run, name)));
    make_folder(arguments, &scenario)?;
    let reports = simulate(&scenario, arguments)?;
    let summary = summarise(&scenario, &reports);
    print(arguments.format, &summary)?;
    let files = write_files(arguments, &scenario, &reports, &summary)?;
    if !arguments.quiet {
        tell_files(&files);
    }
    let failures = failures(&scenario, &reports);
    if failures.is_empty() { Ok(()) } else { Err(CliError::Failed(failures)) }
}

fn simulate(scenario: &Scenario, arguments: &RunArgs) -> Result<Vec<RunReport>, CliError> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let options = RunOptions { threads: arguments.threads.map_or(processors, usize::from) };
    let names = scenario.runs.iter().map(|run| run.name.as_str());
    let bars = if arguments.quiet { None } else { Bars::on_terminal(names) };
    let progress: &dyn Progress = match &bars {
        Some(bars) => bars,
        None => &Silent,
    };
    run_scenario(scenario, &options, progress)
        .map_err(|(run, error)| CliError::Input(format!("run \"{run}\" cannot be set up: {error}")))
}

/// Makes the folder for the result files before any time is spent on results that could not be written.
fn make_folder(arguments: &RunArgs, scenario: &Scenario) -> Result<(), CliError> {
    let folder = arguments.out.join(&scenario.name);
    std::fs::create_dir_all(&folder).map_err(|error| cannot_write(&folder, error))
}

fn cannot_write(folder: &Path, error: std::io::Error) -> CliError {
    CliError::Io { doing: format!("cannot write the result files into `{}`", folder.display()), error }
}

fn write_files(
    arguments: &RunArgs, scenario: &Scenario, reports: &[RunReport], summary: &ScenarioSummary,
) -> Result<Vec<PathBuf>, CliError> {
    let format = |flows: &FlowFile| match flows {
        FlowFile::Csv => FlowFormat::Csv,
        FlowFile::Parquet => FlowFormat::Parquet,
    };
    let flows: Vec<FlowFormat> = arguments.flows.iter().map(format).collect();
    let folder = arguments.out.join(&scenario.name);
    write_all(&folder, scenario, reports, summary, &flows).map_err(|error| cannot_write(&folder, error))
}

fn print(format: Format, summary: &ScenarioSummary) -> Result<(), CliError> {
    let text = match format {
        Format::Table => table::render(summary, output::width()),
        Format::Json => format!("{:#}", summary.to_json(true)),
    };
    output::print(|out| writeln!(out, "{}", text.trim_end()))
}

fn tell_files(files: &[PathBuf]) {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    // Where standard error is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "wrote {}", names.join(", "));
}

/// One sentence for each run that did not end well.
fn failures(scenario: &Scenario, reports: &[RunReport]) -> Vec<String> {
    let failure = |(number, run): (usize, &rnic_sim::scenario::RunSpec)| match reports.get(number) {
        None => Some(format!("run \"{}\" has no result", run.name)),
        Some(report) => match &report.output.status {
            RunStatus::Completed => None,
            RunStatus::Failed(why) => Some(format!("run \"{}\" failed: {why}", run.name)),
        },
    };
    scenario.runs.iter().enumerate().filter_map(failure).collect()
}
