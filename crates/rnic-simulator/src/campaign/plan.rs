use super::PlanArgs;
use crate::error::CliError;
use crate::{cannot_be_set_up_all, is_called, load_selected, output, select};
use rnic_campaign::campaign::{Manifest, Until};
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;

/// Writes a manifest with the runs of a scenario.
pub(super) fn plan(arguments: &PlanArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let mut scenario = load_selected(catalogue, &arguments.selection)?;
    for name in &arguments.runs {
        select(&scenario, Some(name))?;
    }
    if !arguments.runs.is_empty() {
        scenario.runs.retain(|run| arguments.runs.iter().any(|name| is_called(run, name)));
    }
    // A run that cannot be set up is a mistake of the user. It is reported now, before many workers fail because of it.
    if let Some((run, error)) = scenario.runs.iter().find_map(|run| Some((run, resolve(catalogue, run).err()?))) {
        return Err(cannot_be_set_up_all(catalogue, &scenario.runs, (run.name.clone(), error)));
    }
    let until = arguments.until.clone().map(|until| Until {
        max_seeds: arguments.max_seeds,
        confidence: arguments.confidence,
        ..until
    });
    let seeds = arguments.seeds.unwrap_or(if until.is_some() { Until::FIRST_SEEDS } else { 1 });
    let stem = arguments.out.file_stem().unwrap_or_default().to_string_lossy();
    let name = arguments.name.clone().unwrap_or_else(|| stem.into_owned());
    let manifest = Manifest::new(&name, scenario.runs, seeds, until, arguments.records)?;
    if manifest.write_new(&arguments.out, arguments.replace)? {
        output::note(&format!("`{}` had another manifest, which is replaced", arguments.out.display()));
    }
    let points = manifest.runs.len();
    let seeds = match &manifest.until {
        None => format!("{seeds} of its seeds each: {} runs", points * seeds as usize),
        Some(until) => format!("{seeds} to {} seeds each, until {until}", until.max_seeds),
    };
    output::print(|out| writeln!(out, "{}: campaign {name}, {points} points, {seeds}", arguments.out.display()))
}
