//! The command `rnic list`, which prints transports, congestion controls, topologies, workloads or scenarios.

use crate::args::{ListArgs, Listing};
use crate::builtin;
use crate::error::CliError;
use crate::output;
use rnic_scenario::{Origin, read_with};
use rnic_sim::Catalogue;
use rnic_spec::settings;
use rnic_transport::settings::Parameter;
use rnic_transport::transports::{COMMON_PARAMETERS, FLOW_PARAMETERS, HOST_PARAMETERS, MESSAGE_PARAMETERS};
use rnic_workload::BUILT_IN_SIZES;
use std::fs;
use std::path::{Path, PathBuf};

/// Values of the scenario key `sizes` that have parameters, with a description of each.
const OTHER_SIZES: [(&str, &str); 3] = [
    ("fixed 1 MB", "all flows have this size"),
    ("uniform 500 KB - 5 MB", "uniformly distributed in this range"),
    ("sizes.cdf", "a CDF file with lines `bytes percent`; its path is relative to the scenario"),
];

/// Value of the scenario key `transport` for a transport from a P4 file, with a description.
const P4: (&str, &str) = (
    "p4:FILE",
    "a message transport in P4; the path of the file is relative to the scenario; the folder p4/ has examples",
);

/// Prints the selected list, with a line per entry.
pub(crate) fn list(arguments: &ListArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let lines = match arguments.what {
        Listing::Transports => transports(catalogue),
        Listing::Congestion => congestion(catalogue),
        Listing::Topologies => variants("fabric"),
        Listing::Workloads => workloads(),
        Listing::Scenarios => scenarios(arguments.dir.as_deref(), catalogue)?,
    };
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    output::print(|out| lines.iter().try_for_each(|(name, about)| writeln!(out, "{name:width$}  {about}")))
}

/// Names and descriptions of the variants of a table of settings.
fn variants(table: &str) -> Vec<(String, String)> {
    let descriptions = settings::section(table).map_or(Vec::new(), |section| section.descriptions());
    descriptions.into_iter().map(|(name, about)| (name.to_string(), about)).collect()
}

/// Lists each transport, followed by its own parameters, and then the parameters that several transports share.
fn transports(catalogue: &Catalogue) -> Vec<(String, String)> {
    let vocabulary = catalogue.vocabulary();
    let mut lines = Vec::new();
    for transport in vocabulary.transports().iter().filter(|transport| !transport.reads_program) {
        lines.push((transport.name.to_string(), transport.about.to_string()));
        lines.extend(transport.own_parameters.iter().map(|parameter| line(transport.name, parameter)));
    }
    if cfg!(feature = "p4") {
        lines.push((P4.0.to_string(), P4.1.to_string()));
    }
    for (whose, shared) in [
        ("all transports", COMMON_PARAMETERS),
        ("all flow transports", FLOW_PARAMETERS),
        ("all message transports", MESSAGE_PARAMETERS),
        ("all transports in host software", HOST_PARAMETERS),
    ] {
        lines.push((format!("({whose})"), "shared parameters".to_string()));
        lines.extend(shared.iter().map(|parameter| line("*", parameter)));
    }
    lines
}

/// A line about a parameter of a transport or congestion control: its key, default and description.
fn line(whose: &str, parameter: &Parameter) -> (String, String) {
    let default = parameter.default_value().map_or("derived".to_string(), |value| value.to_string());
    (format!("  {whose}.{}", parameter.name), format!("{default}: {}", parameter.about))
}

/// Lists each congestion control, followed by its parameters.
fn congestion(catalogue: &Catalogue) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for cc in catalogue.congestion_controls().iter().map(|entry| entry.declaration) {
        lines.push((cc.name.to_string(), cc.about.to_string()));
        lines.extend(cc.parameters.iter().map(|parameter| line(cc.name, parameter)));
    }
    lines
}

fn workloads() -> Vec<(String, String)> {
    let patterns = variants("traffic").into_iter().map(|(name, about)| (name, format!("pattern: {about}")));
    let sizes = BUILT_IN_SIZES.iter().chain(&OTHER_SIZES);
    patterns.chain(sizes.map(|(name, about)| (name.to_string(), format!("sizes: {about}")))).collect()
}

/// Lists every TOML file in `folder` and its subfolders, with the title of the scenario or the error in the file.
/// Without a folder these are the files of `scenarios`, or the built-in scenarios if there is no such folder.
fn scenarios(folder: Option<&Path>, catalogue: &Catalogue) -> Result<Vec<(String, String)>, CliError> {
    let about = |origin: &Origin<'_>| match read_with(&catalogue.vocabulary(), origin, &[], None) {
        Ok(scenario) => format!("{} ({})", scenario.title, runs(scenario.runs.len())),
        Err(error) => format!("cannot be read: {error}"),
    };
    let default = Path::new("scenarios");
    if folder.is_none() && !default.is_dir() {
        let names = builtin::names().into_iter();
        return Ok(names.map(|name| (name.to_string(), about(&builtin::origin(name.as_ref())))).collect());
    }
    let folder = folder.unwrap_or(default);
    let mut files = Vec::new();
    collect(folder, &mut files).map_err(|error| {
        let folder = folder.display();
        CliError::Input(format!("cannot search `{folder}` for scenarios: {error}; choose the folder with --dir"))
    })?;
    files.sort();
    Ok(files.iter().map(|path| (path.display().to_string(), about(&Origin::File(path)))).collect())
}

fn runs(count: usize) -> String {
    if count == 1 { "1 run".to_string() } else { format!("{count} runs") }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}
