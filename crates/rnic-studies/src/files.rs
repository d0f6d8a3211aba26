//! The result files of a study. The files do not depend on the machine: the same runs give the same bytes.

use super::verdict::{self, Outcome, Verdict};
use super::{Measurement, Plan, QUICK, table};
use rnic_results::folder::{FileSet, FolderLock};
use rnic_results::report::{self, Within, render_study};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

impl Plan {
    /// The command that executes this plan.
    pub fn command(&self) -> String {
        let mut command = format!("rnic reproduce {}", self.study.name);
        // The command line names experiments only if not all of them were selected.
        if self.experiments.len() < self.study.experiments.len() {
            self.experiments.iter().for_each(|planned| command += &format!(" {}", planned.experiment.name));
        }
        if self.quick {
            command += " --quick";
        }
        if let Some(seeds) = self.asked_seeds {
            command += &format!(" --seeds {seeds}");
        }
        command
    }

    /// The contents of the study's HTML report.
    fn report(&self, results: &[Measurement], verdicts: &[Verdict]) -> report::Study {
        let mut introduction: Vec<String> = self.study.remarks.iter().map(ToString::to_string).collect();
        if self.quick {
            introduction.insert(0, format!("{QUICK}."));
        }
        introduction.push(table::tally(verdicts) + ".");
        introduction.splice(0..0, self.partial().map(|note| note + "."));
        let experiment = |planned: &super::Planned| {
            let measured = self.measured(planned, results);
            report::Experiment {
                name: planned.experiment.name.to_string(),
                title: planned.experiment.title.to_string(),
                text: vec![match &planned.jobs {
                    Ok(jobs) => format!("{} simulations, {} seeds.", jobs.len(), planned.seeds),
                    Err(reason) => format!("Not available: {reason}."),
                }],
                boards: planned.experiment.charts.iter().map(|chart| chart.board(&measured)).collect(),
            }
        };
        report::Study {
            title: format!("Reproduction: {}", self.study.title),
            command: self.command(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            facts: vec![("simulations".to_string(), self.jobs.len().to_string())],
            introduction,
            verdicts: verdicts.iter().map(row).collect(),
            neutral: self.quick,
            experiments: self.experiments.iter().map(experiment).collect(),
        }
    }

    /// The verdicts and their experiments as a JSON document, the content of `verdicts.json`.
    pub fn to_json(&self, verdicts: &[Verdict]) -> Value {
        let experiment = |planned: &super::Planned| {
            json!({
                "name": planned.experiment.name,
                "title": planned.experiment.title,
                "seeds": planned.seeds,
                "runs": planned.jobs.as_ref().map_or(0, Vec::len),
            })
        };
        let mut document = json!({
            "study": self.study.name,
            "title": self.study.title,
            "version": env!("CARGO_PKG_VERSION"),
            "quick": self.quick,
            "experiments": self.experiments.iter().map(experiment).collect::<Vec<_>>(),
            "verdicts": verdict::to_json(verdicts),
        });
        if self.missing > 0 {
            document["partial"] = json!({"simulations": self.jobs.len(), "missing": self.missing});
        }
        document
    }
}

/// Writes the result files of a study into `folder` and returns their paths: `verdicts.csv`, `verdicts.json`,
/// `verdicts.md` and `report.html`. The files appear together; if another process is writing into the folder, the
/// function waits until it ends.
///
/// # Errors
/// A file cannot be written. Then the older files stay as they are.
pub fn write_all(
    folder: &Path, plan: &Plan, results: &[Measurement], verdicts: &[Verdict],
) -> io::Result<Vec<PathBuf>> {
    let _lock = FolderLock::wait(folder, "a study")?;
    let mut files = FileSet::new(folder)?;
    files.add("verdicts.csv", |out| verdict::write_csv(out, verdicts))?;
    files.add("verdicts.json", |out| {
        serde_json::to_writer_pretty(&mut *out, &plan.to_json(verdicts))?;
        out.write_all(b"\n")
    })?;
    files.add("verdicts.md", |out| {
        plan.partial().map_or(Ok(()), |note| write!(out, "{note}.\n\n"))?;
        out.write_all(verdict::to_markdown(verdicts).as_bytes())
    })?;
    files.add("report.html", |out| out.write_all(render_study(&plan.report(results, verdicts)).as_bytes()))?;
    files.commit()
}

fn row(verdict: &Verdict) -> report::Verdict {
    let within = match verdict.outcome {
        Outcome::Inside => Within::Inside,
        Outcome::NoResult => Within::NoResult,
        _ if verdict.outcome.is_inconclusive() => Within::Inconclusive,
        _ if verdict.outcome.is_outside() => Within::Outside,
        _ => Within::NotStated,
    };
    // The report's column says only that a measurement is outside its claim. The note says in which direction.
    let how = verdict.outcome.text().strip_prefix("outside: ").unwrap_or("");
    let note: Vec<&str> = [how, verdict.row.note.as_str()].into_iter().filter(|text| !text.is_empty()).collect();
    report::Verdict {
        experiment: verdict.experiment.clone(),
        metric: verdict.row.metric.clone(),
        stated: verdict.row.stated.clone(),
        measured: verdict.measured(),
        within,
        note: note.join("; "),
    }
}
