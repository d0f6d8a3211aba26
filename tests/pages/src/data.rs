//! The recorded data, and the present state of studies and simulator.

use crate::items::{self, Items};
use rnic_record::{Record, Table};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folder of the records, from the root of the repository.
pub const FOLDER: &str = "docs/results/data";

/// By (study, experiment): the hash of the plan, and the hash of the simulator's behaviour; `None` if the recorded
/// table of behaviour has no row for the experiment's transports.
pub type States = BTreeMap<(String, String), (String, Option<String>)>;

/// Everything from which pages are generated.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Data {
    /// The records by the names of their files without `.json`.
    pub records: BTreeMap<String, Record>,
    /// The states as they are now.
    pub states: States,
    /// The items of the papers.
    pub items: Items,
}

/// The path of a record.
pub fn path(root: &Path, name: &str) -> PathBuf {
    root.join(FOLDER).join(format!("{name}.json"))
}

/// Names of the files in a folder, sorted.
///
/// # Errors
/// One sentence if the folder cannot be read.
pub fn names(folder: &Path) -> Result<Vec<String>, String> {
    let cannot = |error: std::io::Error| format!("cannot read `{}`: {error}", folder.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        names.push(entry.map_err(cannot)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

impl Data {
    /// Reads all records, the items of the papers, and the present states from `crates/rnic-studies/states.txt` and the
    /// recorded table of the simulator's behaviour.
    ///
    /// # Errors
    /// One sentence about the first file that cannot be read.
    pub fn read(root: &Path) -> Result<Data, String> {
        let mut data = Data::default();
        for name in names(&root.join(FOLDER))? {
            let Some(stem) = name.strip_suffix(".json") else {
                return Err(format!("`{FOLDER}/{name}` is no record; records end with .json"));
            };
            data.records.insert(stem.to_string(), Record::read(&path(root, stem))?);
        }
        let text = |path: &str| {
            std::fs::read_to_string(root.join(path)).map_err(|error| format!("cannot read `{path}`: {error}"))
        };
        let table = text("crates/rnic-sim/tests/behaviour.txt")?;
        data.states = states(&text("crates/rnic-studies/states.txt")?, &table)?;
        data.items = items::read(&text(items::FILE)?)?;
        Ok(data)
    }

    /// The record of this name.
    ///
    /// # Errors
    /// One sentence if there is none.
    pub fn record(&self, name: &str) -> Result<&Record, String> {
        self.records.get(name).ok_or_else(|| format!("there is no `{FOLDER}/{name}.json`"))
    }

    /// The table of a record.
    ///
    /// # Errors
    /// One sentence if there is none.
    pub fn table(&self, record: &str, table: &str) -> Result<&Table, String> {
        let found = self.record(record)?.table(table);
        found.ok_or_else(|| format!("`{FOLDER}/{record}.json` has no table `{table}`"))
    }

    /// Names of the records that are studies: they have a table `rows` of verdicts.
    pub fn studies(&self) -> Vec<&str> {
        let is_study = |record: &Record| record.table("rows").is_some_and(|table| table.column("outcome").is_some());
        self.records.iter().filter(|(_, record)| is_study(record)).map(|(name, _)| name.as_str()).collect()
    }

    /// The studies whose data are older than the study or the simulator, with the reasons.
    pub fn stale(&self) -> Vec<(String, String)> {
        let why = |name: &&str| self.staleness(name).map(|why| (name.to_string(), why));
        self.studies().iter().filter_map(why).collect()
    }

    /// Why a study's data are older than the study or the simulator; `None` if they are not, or if the data do not say
    /// with which state they were made.
    pub fn staleness(&self, name: &str) -> Option<String> {
        let table = self.records.get(name)?.table("experiments")?;
        let mut reasons: Vec<(&str, Vec<&str>)> =
            ["the study has changed", "the simulator has changed", "the experiment no longer exists"]
                .map(|reason| (reason, Vec::new()))
                .into();
        for row in table.rows.iter().filter(|row| table.cell(row, "plan").is_some_and(serde_json::Value::is_string)) {
            let experiment = table.text(row, "experiment");
            match self.states.get(&(name.to_string(), experiment.to_string())) {
                None => reasons[2].1.push(experiment),
                Some((plan, _)) if plan != table.text(row, "plan") => reasons[0].1.push(experiment),
                Some((_, behaviour)) if behaviour.as_deref().unwrap_or("") != table.text(row, "behaviour") => {
                    reasons[1].1.push(experiment);
                }
                Some(_) => {}
            }
        }
        let text = |(reason, names): (&str, Vec<&str>)| {
            (!names.is_empty()).then(|| format!("{reason} ({})", names.join(", ")))
        };
        let reasons: Vec<String> = reasons.into_iter().filter_map(text).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Experiments of a study that have no recorded state, because their rows were copied from a page.
    pub fn unknown(&self, name: &str) -> Vec<&str> {
        let Some(table) = self.records.get(name).and_then(|record| record.table("experiments")) else {
            return Vec::new();
        };
        let unknown = table.rows.iter().filter(|row| table.cell(row, "plan").is_some_and(serde_json::Value::is_null));
        unknown.map(|row| table.text(row, "experiment")).collect()
    }

    /// Experiments that the study has now and that have no recorded rows.
    pub fn missing(&self, name: &str) -> Vec<&str> {
        let Some(table) = self.records.get(name).and_then(|record| record.table("experiments")) else {
            return Vec::new();
        };
        let has = |experiment: &str| table.rows.iter().any(|row| table.text(row, "experiment") == experiment);
        let own = self.states.keys().filter(|(study, experiment)| study == name && !has(experiment));
        own.map(|(_, experiment)| experiment.as_str()).collect()
    }
}

/// The states in the text of `states.txt`, a line per experiment: study, experiment, hash of the plan, transports.
///
/// # Errors
/// One sentence about the first line that has fewer than four words.
pub fn states(text: &str, behaviour: &str) -> Result<States, String> {
    let mut states = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        let (Some(study), Some(experiment), Some(plan), Some(transports)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(format!("the line `{line}` of states.txt has fewer than four words"));
        };
        let transports: Vec<String> = transports.split("; ").map(ToString::to_string).collect();
        let behaviour = rnic_record::behaviour(behaviour, &transports);
        states.insert((study.to_string(), experiment.to_string()), (plan.to_string(), behaviour));
    }
    Ok(states)
}
