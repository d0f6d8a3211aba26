//! The files of a study. They hold nothing of the machine: the same runs, the same bytes.

use super::Plan;
use super::verdict::{self, Verdict};
use crate::results::files::write_atomically;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

impl Plan {
    /// The verdicts with what they rest on.
    pub fn to_json(&self, verdicts: &[Verdict]) -> Value {
        let experiment = |planned: &super::Planned| {
            json!({
                "name": planned.experiment.name,
                "title": planned.experiment.title,
                "seeds": planned.seeds,
                "runs": planned.jobs.as_ref().map_or(0, Vec::len),
            })
        };
        json!({
            "study": self.study.name,
            "title": self.study.title,
            "version": env!("CARGO_PKG_VERSION"),
            "quick": self.quick,
            "experiments": self.experiments.iter().map(experiment).collect::<Vec<_>>(),
            "verdicts": verdict::to_json(verdicts),
        })
    }
}

/// Writes `verdicts.csv`, `verdicts.json` and `verdicts.md` into `folder` and returns their paths.
///
/// # Errors
/// When one of them cannot be written.
pub fn write_all(folder: &Path, plan: &Plan, verdicts: &[Verdict]) -> io::Result<Vec<PathBuf>> {
    Ok(vec![
        write_atomically(&folder.join("verdicts.csv"), |out| verdict::write_csv(out, verdicts))?,
        write_atomically(&folder.join("verdicts.json"), |out| {
            serde_json::to_writer_pretty(&mut *out, &plan.to_json(verdicts))?;
            out.write_all(b"\n")
        })?,
        write_atomically(&folder.join("verdicts.md"), |out| out.write_all(verdict::to_markdown(verdicts).as_bytes()))?,
    ])
}
