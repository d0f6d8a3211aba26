//! The file `command.json` next to the results of `rnic run`: the arguments that determine the results of each run. By
//! this file, a later command detects that it will replace the results of a different command, and warns.

use crate::args::{RunArgs, Selection};
use crate::shell::quoted;
use clap::ValueEnum;
use rnic_results::folder::FileSet;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::Path;

/// Name of the file in the folder of the results.
pub(crate) const FILE: &str = "command.json";

/// The arguments of `rnic run` that determine the results of each run.
#[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Provenance {
    /// The scenario file as the user wrote it.
    scenario: String,
    /// The overrides of the scenario (`--set`), each as `path=value`.
    set: Vec<String>,
    /// The seed of the command line, if there is one.
    seed: Option<u64>,
    /// What the command simulated, if its arguments say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fidelity: Option<String>,
}

impl Provenance {
    /// The arguments of this command.
    pub(crate) fn of(arguments: &RunArgs) -> Provenance {
        let Selection { scenario, set, seed, .. } = &arguments.selection;
        Provenance {
            scenario: scenario.display().to_string(),
            set: set.iter().map(|(path, value)| format!("{path}={value}")).collect(),
            seed: *seed,
            fidelity: arguments.fidelity.and_then(|option| Some(option.to_possible_value()?.get_name().to_string())),
        }
    }

    /// The message that this command replaces the results of another command in `folder`; `None` if it replaces none.
    pub(crate) fn replaced(&self, folder: &Path) -> Option<String> {
        let text = std::fs::read_to_string(folder.join(FILE)).ok()?;
        let earlier: Provenance = serde_json::from_str(&text).ok()?;
        (earlier != *self).then(|| {
            format!(
                "the results of `{}` in `{}` will be replaced; another --out keeps them",
                earlier.command(),
                folder.display()
            )
        })
    }

    /// Adds the file to the result files.
    pub(crate) fn add(&self, files: &mut FileSet) -> io::Result<()> {
        files.add(FILE, |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            out.write_all(b"\n")
        })
    }

    /// The command as the user would type it into a shell.
    pub(crate) fn command(&self) -> String {
        let mut words = vec!["rnic run".to_string(), quoted(&self.scenario)];
        words.extend(self.set.iter().map(|set| format!("--set {}", quoted(set))));
        words.extend(self.seed.map(|seed| format!("--seed {seed}")));
        words.extend(self.fidelity.as_ref().map(|what| format!("--fidelity {what}")));
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provenance(set: &[&str], seed: Option<u64>) -> Provenance {
        Provenance {
            scenario: "a.toml".to_string(),
            set: set.iter().map(ToString::to_string).collect(),
            seed,
            fidelity: None,
        }
    }

    #[test]
    fn results_of_another_command_are_named_before_they_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, loaded) = (provenance(&[], None), provenance(&["traffic.load=0.5", "title=it's"], Some(7)));
        assert_eq!(loaded.replaced(folder.path()), None, "there are no results");
        let mut files = FileSet::new(folder.path()).unwrap();
        loaded.add(&mut files).unwrap();
        files.commit().unwrap();
        assert_eq!(loaded.replaced(folder.path()), None, "the same command");
        let expected = format!(
            "the results of `rnic run a.toml --set traffic.load=0.5 --set 'title=it'\\''s' --seed 7` in `{}` will be \
             replaced; another --out keeps them",
            folder.path().display()
        );
        assert_eq!(plain.replaced(folder.path()), Some(expected));
        std::fs::write(folder.path().join(FILE), "{}").unwrap();
        assert_eq!(plain.replaced(folder.path()), None, "the file of another program");
    }
}
