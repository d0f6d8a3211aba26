//! `rnic run` as one of several processes that simulate each run together (`mpirun -n 4 rnic run ...`). Every rank
//! reads the scenario; rank 0 prints the results and writes the files.

use super::{conclude, conclude_partial, load, make_folder, outcome, print_files};
use crate::args::RunArgs;
use crate::error::CliError;
use crate::interrupt::Interruption;
use crate::output::note;
use crate::progress::Bars;
use crate::{exec, program, set_up};
use rnic_campaign::RunListener;
use rnic_campaign::ranks::agree;
use rnic_fabric::RankGroup;
use rnic_sim::resolve::Resolved;
use rnic_sim::run::{RankEfficiency, RankReport, check_ranks};
use rnic_sim::{Catalogue, Events, Sharing};
use rnic_spec::{RunEvent, RunRecord, RunStatus, Scenario};

/// Simulates the selected runs of a scenario, one after the other, on all ranks.
pub(crate) fn run(arguments: &RunArgs, catalogue: &Catalogue, group: &RankGroup) -> Result<(), CliError> {
    // The default is one thread per rank, because the launcher has started one process per intended processor.
    let threads = arguments.threads.map_or(1, usize::from);
    let prepared = prepare(arguments, catalogue);
    let program = if catalogue.is_extended() { program::identity() } else { Ok(String::new()) };
    let told = match (&prepared, &program) {
        (Ok((scenario, _)), Ok(_)) => Ok(scenario),
        (Err(error), _) => Err(error.to_string()),
        (_, Err(error)) => Err(format!("cannot read this program's own file: {error}")),
    };
    let agreed = agree(group, told, program.as_deref().unwrap_or_default(), threads);
    let (scenario, resolved) = match (prepared, agreed) {
        (Ok(prepared), Ok(())) => prepared,
        (prepared, agreed) => return Err(refused(prepared.err(), agreed.err().unwrap_or_default(), group)),
    };
    if arguments.print_spec {
        return if group.is_root() { exec::print_specs(&scenario.runs) } else { Ok(()) };
    }
    let interruption = Interruption::listen()?;
    let _lock = if group.is_root() { Some(make_folder(arguments, &scenario)?) } else { None };
    let names = scenario.runs.iter().map(|run| run.name.as_str());
    let bars = if arguments.quiet || !group.is_root() { None } else { Bars::on_terminal(names) };
    let mut records: Vec<Option<RunRecord>> = Vec::new();
    let mut efficiencies = Vec::new();
    for (index, (run, resolved)) in scenario.runs.iter().zip(&resolved).enumerate() {
        let mut report = |event: RunEvent| {
            if let Some(bars) = &bars {
                let _ = bars.event(index, &event);
            }
            interruption.flow()
        };
        let sharing = Sharing::among(threads).on_ranks(group.clone());
        let record = rnic_sim::run::run(catalogue, run, resolved, None, &sharing, &Events::to(&mut report));
        if let Some(error) = group.error() {
            return Err(CliError::Failed(vec![format!("run \"{}\" cannot continue: {error}", run.name)]));
        }
        // All ranks must agree whether another run starts.
        let mut interrupted = [u64::from(interruption.exit_code().is_some())];
        group.sum(&mut interrupted).map_err(|error| CliError::Failed(vec![error.to_string()]))?;
        efficiencies.push(efficiency(&run.name, &sharing.reports()));
        records.push(Some(record));
        if interrupted[0] > 0 {
            break;
        }
    }
    drop(bars);
    if !group.is_root() {
        return Ok(());
    }
    if !arguments.quiet {
        efficiencies.concat().lines().for_each(note);
    }
    records.resize(scenario.runs.len(), None);
    let is_complete = |record: &Option<RunRecord>| {
        record.as_ref().is_some_and(|record| record.output.status != RunStatus::Interrupted)
    };
    if !records.iter().all(is_complete) {
        let folder = arguments.out.join(&scenario.name);
        let files = conclude_partial(arguments, scenario, records, None, &folder)?;
        if !arguments.quiet {
            print_files(&files);
        }
        let code = interruption.exit_code().unwrap_or(1);
        return Err(CliError::Interrupted { code, message: "the results are partial".to_string() });
    }
    drop(interruption);
    let reports: Vec<RunRecord> = records.into_iter().flatten().collect();
    conclude(arguments, &scenario, &reports, None, Vec::new)?;
    outcome(arguments.format, &scenario, &reports)
}

/// Returns the error of ranks that cannot simulate. Rank 0 reports the reason: its own error, or the reason that the
/// ranks found together. The other ranks wait until rank 0 has reported it, because a launcher ends all processes as
/// soon as one of them ends with an error.
fn refused(own: Option<CliError>, found: String, group: &RankGroup) -> CliError {
    if group.is_root() {
        own.unwrap_or(CliError::Input(found)).report();
    }
    // The ranks end with an error in any case.
    let _ = group.sum(&mut []);
    CliError::Told
}

/// Reads the scenario and derives all settings of its runs. Refuses options that several ranks do not support.
fn prepare(arguments: &RunArgs, catalogue: &Catalogue) -> Result<(Scenario, Vec<Resolved>), CliError> {
    let refused = [
        ("--pcap", arguments.pcap.is_some()),
        ("--trace", arguments.trace.is_some()),
        ("--trace-packets", arguments.trace_packets.is_some()),
        ("--replay", arguments.replay),
        ("--serve", arguments.serve.is_some()),
        ("--tui", arguments.tui),
        ("--resume", arguments.resume),
    ];
    for (option, given) in refused {
        if given {
            return Err(CliError::Input(format!("{option} needs one process, without mpirun")));
        }
    }
    let scenario = load(arguments, catalogue)?;
    let resolved: Result<Vec<Resolved>, CliError> = scenario.runs.iter().map(|run| set_up(catalogue, run)).collect();
    let resolved = resolved?;
    for (run, resolved) in scenario.runs.iter().zip(&resolved) {
        check_ranks(resolved).map_err(|why| CliError::Input(format!("run \"{}\": {why}", run.name)))?;
    }
    Ok((scenario, resolved))
}

/// The predicted and the reached efficiency of a run, as lines of text; empty on other ranks than rank 0.
fn efficiency(run: &str, reports: &[RankReport]) -> String {
    let Some(of) = RankEfficiency::of(reports) else { return String::new() };
    let micros = |seconds: f64| format!("{:.1} us", seconds * 1e6);
    let peak = reports.iter().map(|report| report.peak_rss_bytes).max().unwrap_or_default();
    let sent: u64 = reports.iter().map(|report| report.costs.frame_bytes).sum();
    let windows = reports.first().map_or(0, |report| report.costs.windows);
    format!(
        "{run} on {} ranks: {windows} windows of {:.0} packet-hops, {} of work, {} alike on every rank, {} for a round of \
         messages; {:.1} MB of frames between ranks; at most {:.0} MB of memory per rank\n\
         {run}: efficiency predicted {:.0} %, reached {:.0} %\n",
        reports.len(),
        of.hops_per_window,
        micros(of.work_s),
        micros(of.replicated_s),
        micros(of.barrier_s),
        sent as f64 / 1e6,
        peak as f64 / 1e6,
        of.predicted * 100.0,
        of.reached * 100.0,
    )
}
