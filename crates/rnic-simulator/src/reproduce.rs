//! The command `rnic reproduce`, which repeats the experiments of a paper.

use crate::args::ReproduceArgs;
use crate::error::CliError;
use crate::format::Format;
use crate::hw;
use crate::interrupt::Interruption;
use crate::output::{self, note};
use crate::progress::JobBar;
use crate::recorded::Recorded;
use rnic_campaign::{Ignore, Store, Threads};
use rnic_record::Record;
use rnic_sim::Catalogue;
use rnic_studies::jobs::{calibrate, execute, outlook};
use rnic_studies::{Measurement, Plan, QUICK, Request, STUDIES, Study, Verdict, write_all};
use std::path::{Path, PathBuf};

/// Executes the simulations that have no stored result, compares all results with the paper's claims, writes the result
/// files, and prints the verdicts.
pub(crate) fn reproduce(arguments: &ReproduceArgs) -> Result<(), CliError> {
    let Some(paper) = &arguments.paper else {
        return output::print(|out| {
            STUDIES.iter().try_for_each(|study| writeln!(out, "{}  {}", study.name, study.title))?;
            writeln!(out, "{}  {}", hw::STUDY, hw::TITLE)
        });
    };
    if paper == hw::STUDY {
        return hw::reproduce(arguments);
    }
    let study = find(paper)?;
    let request = Request {
        experiments: arguments.experiments.clone(),
        quick: arguments.quick,
        seeds: arguments.seeds,
        set: Vec::new(),
    };
    let mut plan = Plan::new(study, &request).map_err(CliError::Input)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(processors, usize::from);
    let folder = arguments.out.clone().unwrap_or_else(|| {
        let quick = if arguments.quick { "-quick" } else { "" };
        PathBuf::from("out/reproduce").join(format!("{}{quick}", study.name))
    });
    let recorded = arguments.record.as_deref().map(|to| Recorded::at(to, study.name, arguments.quick)).transpose()?;
    let runs = folder.join("runs");
    if arguments.list {
        return list(&plan, &runs, threads);
    }
    let (store, executor) = (Store::at(&runs), Threads::new(&Catalogue::standard(), threads));
    let interruption = Interruption::listen()?;
    std::fs::create_dir_all(&runs).map_err(|error| cannot_write(&folder, error))?;
    tell(arguments, &remark(&plan));
    let listener = interruption.around(&Ignore);
    calibrate(&plan.jobs, &store, &executor, &listener).map_err(|error| cannot_write(&folder, error))?;
    let (expected_s, to_do) = outlook(&plan.jobs, Some(&store), threads, arguments.fresh);
    tell(arguments, &announcement(&plan, to_do, expected_s, threads));
    let bar = JobBar::new(!arguments.quiet);
    let show = |progress| bar.show(progress);
    let results = execute(&plan.jobs, &store, &executor, arguments.fresh, &listener, &show)
        .map_err(|error| cannot_write(&folder, error))?;
    bar.finish();
    let results = plan.accept_partial(results);
    let verdicts = plan.conclude(&results);
    let files = write_all(&folder, &plan, &results, &verdicts).map_err(|error| cannot_write(&folder, error))?;
    print(arguments.format, &plan, &verdicts)?;
    let mut files = files;
    if let Some(Recorded { path, earlier }) = recorded {
        let now = Record::now(study.title, plan.command());
        match rnic_studies::record(&plan, &verdicts, now, earlier.as_ref()) {
            Ok(record) => {
                record.write(&path).map_err(|error| cannot_write(&path, error))?;
                files.push(path);
            }
            Err(why) if plan.missing > 0 => tell(arguments, &format!("not recorded: {why}")),
            Err(why) => return Err(CliError::Input(format!("`{}`: {why}", path.display()))),
        }
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    tell(arguments, &format!("wrote {}", names.join(", ")));
    match interruption.exit_code().filter(|_| plan.missing > 0) {
        None => Ok(()),
        Some(code) => {
            let (total, done) = (plan.jobs.len(), plan.jobs.len() - plan.missing);
            let message =
                format!("{done} of {total} simulations are stored; the same command continues with the others");
            Err(CliError::Interrupted { code, message })
        }
    }
}

fn find(paper: &str) -> Result<&'static Study, CliError> {
    STUDIES.iter().find(|study| study.name == paper).copied().ok_or_else(|| {
        let names: Vec<&str> = STUDIES.iter().map(|study| study.name).chain([hw::STUDY]).collect();
        CliError::Input(format!("unknown paper `{paper}`; accepted: {}", names.join(", ")))
    })
}

fn cannot_write(folder: &Path, error: std::io::Error) -> CliError {
    CliError::Io { doing: format!("cannot write the results into `{}`", folder.display()), error }
}

/// Prints a line on standard error, unless `--quiet` is given.
fn tell(arguments: &ReproduceArgs, line: &str) {
    if !arguments.quiet && !line.is_empty() {
        line.lines().for_each(note);
    }
}

/// The warning that is printed with the results of `--quick`; empty otherwise.
fn remark(plan: &Plan) -> String {
    if plan.quick { format!("{QUICK}.") } else { String::new() }
}

fn announcement(plan: &Plan, to_do: usize, expected_s: f64, threads: usize) -> String {
    let total = plan.jobs.len();
    match to_do {
        0 => format!("{total} simulations, all stored"),
        _ => format!(
            "{total} simulations, {} stored; about {} for the others, {} at a time",
            total - to_do,
            time(expected_s),
            threads
        ),
    }
}

/// A duration, given in seconds, as text.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{:.0} s", s.max(1.0)),
        s => format!("{:.0} min", s / 60.0),
    }
}

/// Prints each experiment with its number of simulations and the expected time of the simulations.
fn list(plan: &Plan, runs: &Path, threads: usize) -> Result<(), CliError> {
    let store: Store<Measurement> = Store::at(runs);
    let line = |name: &str, title: &str, count: usize, seconds: f64| {
        format!("{name:16} {count:5} simulations  {:>7}  {title}", time(seconds))
    };
    let mut lines = Vec::new();
    for planned in &plan.experiments {
        let experiment = planned.experiment;
        lines.push(match &planned.jobs {
            Err(reason) => format!("{:16} not available: {reason}", experiment.name),
            Ok(_) => {
                let jobs = plan.jobs_of(planned);
                line(experiment.name, experiment.title, jobs.len(), outlook(&jobs, Some(&store), threads, true).0)
            }
        });
    }
    let (seconds, to_do) = outlook(&plan.jobs, Some(&store), threads, false);
    let done = plan.jobs.len() - to_do;
    lines.push(line(
        "all",
        &format!("without duplicates; {done} are stored, the time is for the others"),
        plan.jobs.len(),
        seconds,
    ));
    output::print(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))
}

fn print(format: Format, plan: &Plan, verdicts: &[Verdict]) -> Result<(), CliError> {
    let text = match format {
        Format::Table => {
            let quick = if plan.quick { format!("{QUICK}.\n") } else { String::new() };
            let partial = plan.partial().map_or(String::new(), |note| format!("{note}.\n"));
            format!("{partial}{}{quick}", rnic_studies::table(verdicts, output::width()))
        }
        Format::Json => format!("{:#}", plan.to_json(verdicts)),
    };
    output::print(|out| writeln!(out, "{}", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!([time(0.2), time(89.0), time(100.0), time(3_600.0)], ["1 s", "89 s", "2 min", "60 min"]);
    }

    #[test]
    fn the_error_of_an_unknown_paper_lists_the_accepted_ones() {
        let error = find("inr").unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown paper `inr`; accepted: irn, irn-arbitration, irn-unstated, dcqcn, nanotransport, rogue, hostcc, at-scale, ai, uet, hardware"
        );
    }
}
