//! The command `rnic exec`: executes one run from its JSON document.

use crate::args::{ExecArgs, SchemaOf};
use crate::error::CliError;
use crate::interrupt::Interruption;
use crate::output::note;
use crate::progress::Bars;
use crate::{cannot_be_set_up, output};
use rnic_campaign::{CODE, Fingerprint, Header, RunListener, write_record};
use rnic_results::summary::summarise;
use rnic_sim::resolve::resolve;
use rnic_sim::{Catalogue, Events, Sharing};
use rnic_spec::{RunEvent, RunSpec, RunStatus, Scenario};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::ops::ControlFlow;
use std::path::Path;

/// Maximum length of a run's JSON document in bytes: 1 GiB, which is enough for about 10 million listed flows.
const MAX_DOCUMENT: u64 = 1 << 30;

/// Executes a run from its JSON document, prints its events or its results, and writes its record.
pub(crate) fn exec(arguments: &ExecArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    if let Some(schema) = arguments.schema {
        return print_schema(schema);
    }
    let Some(path) = &arguments.spec else {
        return Err(CliError::Input("no run specification; write a file's name, or - for standard input".to_string()));
    };
    let spec = read(path, catalogue)?;
    let resolved = resolve(catalogue, &spec).map_err(|error| cannot_be_set_up((spec.name.clone(), error)))?;
    // The file is opened before the simulation, so that a wrong path fails early.
    let file = arguments.record.as_deref().map(|path| create(path).map(|file| (path, file))).transpose()?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let sharing = Sharing::among(arguments.threads.map_or(processors, usize::from));

    let bars =
        if arguments.quiet || arguments.events { None } else { Bars::on_terminal([spec.name.as_str()].into_iter()) };
    let interruption = Interruption::listen()?;
    let unread = Cell::new(false);
    let mut tell = |event: RunEvent| {
        if let Some(bars) = &bars {
            let _ = bars.event(0, &event);
        }
        // If the reader of the events closes standard output, the run is stopped.
        if arguments.events && !unread.get() && print_event(&event).is_err() {
            unread.set(true);
        }
        if unread.get() { ControlFlow::Break(()) } else { interruption.flow() }
    };
    let events = if arguments.events { Events::detailed(&mut tell) } else { Events::to(&mut tell) };
    let record = rnic_sim::run::run(catalogue, &spec, &resolved, None, &sharing, &events);
    drop(events);
    drop(bars);
    if unread.get() {
        return Err(CliError::NobodyReads);
    }

    if let Some((path, file)) = file {
        // A program with additional congestion controls may define one under a standard name. The fingerprints that it
        // writes are therefore marked as extended.
        let program = if catalogue.is_extended() { format!("{CODE} extended") } else { String::new() };
        let fingerprint = Fingerprint::of(&spec, &program);
        let header = Header { run: spec.name.clone(), seed: spec.seed, cpu_s: record.cpu_s, fingerprint };
        write_record(BufWriter::new(file), &header, &record).map_err(|error| cannot_write(path, error))?;
        if !arguments.quiet {
            note(&format!("wrote {}", path.display()));
        }
    }
    let failure = match &record.output.status {
        RunStatus::Completed | RunStatus::Interrupted => None,
        RunStatus::Failed(why) => Some(format!("run \"{}\" failed: {why}", spec.name)),
    };
    if !arguments.events {
        let scenario =
            Scenario { title: spec.name.clone(), name: spec.name.clone(), seed: spec.seed, runs: vec![spec] };
        let summary = summarise(&scenario, std::slice::from_ref(&record));
        output::print(|out| writeln!(out, "{:#}", summary.to_json(true)))?;
    }
    if let Some(code) = interruption.exit_code().filter(|_| record.output.status == RunStatus::Interrupted) {
        return Err(CliError::Interrupted { code, message: "the results are partial".to_string() });
    }
    failure.map_or(Ok(()), |failure| Err(CliError::Failed(vec![failure])))
}

/// Prints the JSON documents of runs, one per line, for `rnic run --print-spec`.
pub(crate) fn print_specs(runs: &[RunSpec]) -> Result<(), CliError> {
    let documents: Result<Vec<String>, _> = runs.iter().map(|run| run.to_json(false)).collect();
    let documents = documents.map_err(|error| CliError::Input(error.to_string()))?;
    output::print(|out| documents.iter().try_for_each(|document| writeln!(out, "{document}")))
}

fn read(path: &Path, catalogue: &Catalogue) -> Result<RunSpec, CliError> {
    let shown = if path == Path::new("-") { "standard input".to_string() } else { format!("`{}`", path.display()) };
    let unreadable = |error| CliError::Input(format!("cannot read the run specification in {shown}: {error}"));
    let mut text = String::new();
    let length = match path == Path::new("-") {
        true => io::stdin().lock().take(MAX_DOCUMENT + 1).read_to_string(&mut text),
        false => File::open(path).and_then(|file| file.take(MAX_DOCUMENT + 1).read_to_string(&mut text)),
    };
    if length.map_err(unreadable)? as u64 > MAX_DOCUMENT {
        return Err(CliError::Input(format!("the run specification in {shown} is longer than {MAX_DOCUMENT} bytes")));
    }
    let spec = RunSpec::from_json(&text, &catalogue.vocabulary());
    spec.map_err(|error| CliError::Input(format!("{shown} is not a run specification: {error}")))
}

fn print_event(event: &RunEvent) -> Result<(), CliError> {
    let line = serde_json::to_string(event).map_err(|error| CliError::Input(error.to_string()))?;
    output::print(|out| writeln!(out, "{line}"))
}

fn print_schema(schema: SchemaOf) -> Result<(), CliError> {
    let schema = match schema {
        SchemaOf::Spec => RunSpec::json_schema(),
        SchemaOf::Event => RunEvent::json_schema(),
    };
    output::print(|out| writeln!(out, "{schema:#}"))
}

fn create(path: &Path) -> Result<File, CliError> {
    File::create(path).map_err(|error| cannot_write(path, error))
}

fn cannot_write(path: &Path, error: io::Error) -> CliError {
    CliError::Io { doing: format!("cannot write the record `{}`", path.display()), error }
}
