use super::{GcArgs, ResultsArgs, StatusArgs, program};
use crate::error::CliError;
use crate::format::Format;
use crate::output;
use comfy_table::{ContentArrangement, Table, TableStyle};
use rnic_campaign::campaign::{
    Folder, METRICS, Manifest, Row, Standing, Until, estimates, rows, status as standing, used,
};
use rnic_results::dataset::{Columns, write_csv, write_parquet};
use rnic_results::files::write_atomically;
use rnic_results::text::round6;
use rnic_sim::Catalogue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

fn manifests(folder: &Folder, name: Option<&str>, catalogue: &Catalogue) -> Result<Vec<Manifest>, CliError> {
    let names = match name {
        Some(name) => vec![name.to_string()],
        None => folder.campaigns()?,
    };
    let read = |name: &String| Ok(folder.manifest(Some(name), &catalogue.vocabulary())?);
    names.iter().map(read).collect()
}

/// Prints the state of the campaigns of a folder.
pub(super) fn status(arguments: &StatusArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let (folder, program) = (Folder::at(&arguments.store), program(catalogue)?);
    let manifests = manifests(&folder, arguments.name.as_deref(), catalogue)?;
    let standings: Vec<(&str, Standing)> =
        manifests.iter().map(|manifest| (manifest.name.as_str(), standing(manifest, &folder, &program))).collect();
    if arguments.format == Format::Json {
        let campaigns: Vec<Value> = standings.iter().map(|(name, standing)| standing.to_json(name)).collect();
        return output::print(|out| writeln!(out, "{:#}", json!({"campaigns": campaigns})));
    }
    let mut text = String::new();
    for (name, standing) in &standings {
        text += &to_text(name, standing);
    }
    let workers = standings.first().map(|(_, standing)| standing.workers.as_slice()).unwrap_or_default();
    for worker in workers {
        let what = match (&worker.current, worker.is_alive) {
            (Some(run), true) => format!("run \"{}\" seed {}", run.run, run.seed),
            (Some(run), false) => format!("was killed during run \"{}\" seed {}", run.run, run.seed),
            (None, _) => "idle".to_string(),
        };
        text += &format!("worker {}: {} runs ended, {} failed; {what}\n", worker.name, worker.ended, worker.failed);
        if worker.damaged > 0 {
            text += &format!(
                "  {} lines of its journal are damaged or incomplete, so its counts may be too small\n",
                worker.damaged
            );
        }
    }
    text.extend(folder.other_versions().map(|sentence| sentence + "\n"));
    output::print(|out| out.write_all(text.as_bytes()))
}

fn to_text(name: &str, standing: &Standing) -> String {
    let Standing { points, wanted, completed, missing, wide, undetermined, cpu_s, .. } = standing;
    let failed = standing.failures.len();
    let mut text = format!(
        "{name}: {points} points, {wanted} runs: {completed} completed, {failed} failed, {missing} missing; {cpu_s:.1} s of CPU \
         time\n"
    );
    if *wide > 0 {
        text += &format!("  {wide} points have the maximum number of seeds, and a wider interval than wanted\n");
    }
    if *undetermined > 0 {
        text += &format!("  {undetermined} points have no interval, because a run failed or has no value\n");
    }
    // Runs often fail for the same reason, so they are grouped by reason.
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for failure in &standing.failures {
        let run = format!("{} (seed {}, {})", failure.run, failure.seed, failure.state.word());
        reasons.entry(&failure.reason).or_default().push(run);
    }
    if !reasons.is_empty() {
        let mut table = plain_table();
        table.set_header(["runs", "first of them", "reason"]);
        for (reason, runs) in reasons {
            table.add_row([runs.len().to_string(), runs[0].clone(), reason.to_string()]);
        }
        text += &format!("{table}\n");
    }
    text
}

/// A table without lines, as wide as the terminal.
fn plain_table() -> Table {
    let mut table = Table::new();
    let width = output::width().clamp(80, usize::from(u16::MAX)) as u16;
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.force_no_tty();
    table
}

/// Prints the estimates of all points, or writes the results of all runs.
pub(super) fn results(arguments: &ResultsArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let (folder, program) = (Folder::at(&arguments.store), program(catalogue)?);
    let manifests = manifests(&folder, arguments.name.as_deref(), catalogue)?;
    if let Some(path) = &arguments.out {
        let all = || manifests.iter().flat_map(|manifest| rows(manifest, &folder, &program, arguments.provenance));
        let parquet = match path.extension().and_then(|ending| ending.to_str()) {
            Some("parquet") => true,
            Some("csv") => false,
            _ => {
                let path = path.display();
                return Err(CliError::Input(format!("`{path}`: unknown ending; accepted: .parquet, .csv")));
            }
        };
        let mut count = 0;
        let columns = Columns::of(all().inspect(|_| count += 1));
        let written = write_atomically(path, |out| {
            if parquet { write_parquet(out, &columns, all()) } else { write_csv(out, &columns, all()) }
        });
        let writing = |error| CliError::Io { doing: "cannot write the results".to_string(), error };
        let path = written.map_err(writing)?;
        return output::print(|out| writeln!(out, "{}: {count} runs", path.display()));
    }
    if let Some(metric) = &arguments.metric
        && !METRICS.contains(&metric.as_str())
    {
        return Err(CliError::Input(format!("there is no metric `{metric}`; accepted: {}", METRICS.join(", "))));
    }
    let of_manifest = |manifest: &Manifest| {
        let until = manifest.until.as_ref();
        let metric = arguments.metric.as_deref().or(until.map(|until| until.metric.as_str()));
        let metric = metric.unwrap_or(METRICS[0]).to_string();
        let confidence = until.map_or(Until::CONFIDENCE, |until| until.confidence);
        (estimates(manifest, &folder, &program, &metric, confidence), metric, confidence)
    };
    let tables = manifests.iter().map(|manifest| (manifest.name.as_str(), of_manifest(manifest)));
    if arguments.format == Format::Json {
        let document = |(name, (points, metric, confidence)): (&str, (Vec<Row>, String, f64))| json!({"campaign": name, "metric": metric, "confidence": confidence, "points": points});
        let documents: Vec<Value> = tables.map(document).collect();
        return output::print(|out| writeln!(out, "{:#}", json!({"campaigns": documents})));
    }
    output::print(|out| {
        for (name, (points, metric, confidence)) in tables {
            print_points(out, name, &points, &metric, confidence)?;
        }
        Ok(())
    })
}

fn print_points(out: &mut dyn Write, name: &str, points: &[Row], metric: &str, confidence: f64) -> io::Result<()> {
    writeln!(out, "{name}: {metric}, with its {} % confidence interval", round6(confidence * 100.0))?;
    let mut table = plain_table();
    table.set_header(["point", "seeds", "mean", "±", "± %", "failed", "missing", ""]);
    for point in points {
        let number = |key: &str| point.get(key).and_then(Value::as_f64);
        let text = |number: Option<f64>| number.map_or("-".to_string(), |number| round6(number).to_string());
        let (mean, half) = (number("mean"), number("half_width"));
        let relative = mean.zip(half).filter(|(mean, _)| *mean != 0.0).map(|(mean, half)| half / mean.abs() * 100.0);
        let relative = relative.map_or("-".to_string(), |percent| format!("{percent:.2}"));
        let verdict = point.get("verdict").and_then(Value::as_str).filter(|verdict| *verdict != "done");
        table.add_row([
            point.get("point").and_then(Value::as_str).unwrap_or_default().to_string(),
            point["seeds"].to_string(),
            text(mean),
            text(half),
            relative,
            point["failed"].to_string(),
            point["missing"].to_string(),
            verdict.unwrap_or_default().to_string(),
        ]);
    }
    writeln!(out, "{table}")
}

/// Removes files that no campaign of the folder needs.
pub(super) fn gc(arguments: &GcArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let (folder, program) = (Folder::at(&arguments.store), program(catalogue)?);
    let used = used(&folder, &catalogue.vocabulary(), &program)?;
    let removed = folder.clean(&used, arguments.dry_run)?;
    let would = if arguments.dry_run { "would remove" } else { "removed" };
    output::print(|out| {
        writeln!(
            out,
            "{would} {} results that no campaign uses, {} damaged or incomplete files and {} journals: {} bytes",
            removed.unused, removed.damaged, removed.journals, removed.bytes
        )
    })
}
