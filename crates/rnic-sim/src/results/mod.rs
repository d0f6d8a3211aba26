//! What a run yields: raw records, summaries, files, the report.

pub mod model;

pub use model::{FlowRecord, PortRecord, PriorityCounters, RunOutput, RunStatus, Totals};

// STUB: the modules below stand in for the results themselves.

/// Summaries. STUB.
pub mod summary {
    use crate::run::RunReport;
    use crate::scenario::Scenario;

    /// Every run of a scenario, summarised.
    #[derive(Clone, PartialEq, Debug)]
    pub struct ScenarioSummary {
        name: String,
        seed: u64,
    }

    impl ScenarioSummary {
        /// The JSON document.
        pub fn to_json(&self, _with_timing: bool) -> serde_json::Value {
            serde_json::json!({ "scenario": self.name, "seed": self.seed, "runs": [] })
        }
    }

    /// Summarises the reports of a scenario's runs, in order.
    pub fn summarise(scenario: &Scenario, _reports: &[RunReport]) -> ScenarioSummary {
        ScenarioSummary {
            name: scenario.name.clone(),
            seed: scenario.seed,
        }
    }
}

/// Result files. STUB.
pub mod files {
    use super::summary::ScenarioSummary;
    use crate::run::RunReport;
    use crate::scenario::Scenario;
    use std::io;
    use std::path::{Path, PathBuf};

    /// How the flows are written, on request.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum FlowFormat {
        /// `flows.csv`.
        Csv,
        /// `flows.parquet`.
        Parquet,
    }

    /// Writes every result file into `dir` and returns their paths.
    pub fn write_all(
        dir: &Path,
        _scenario: &Scenario,
        _reports: &[RunReport],
        summary: &ScenarioSummary,
        _flows: &[FlowFormat],
    ) -> io::Result<Vec<PathBuf>> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join("summary.json");
        std::fs::write(&path, summary.to_json(false).to_string())?;
        Ok(vec![path])
    }
}

/// The table on the terminal. STUB.
pub mod table {
    use super::summary::ScenarioSummary;

    /// Renders the summary for a terminal of `width` columns.
    pub fn render(_summary: &ScenarioSummary, _width: usize) -> String {
        String::new()
    }
}
