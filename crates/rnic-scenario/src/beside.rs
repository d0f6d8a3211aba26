//! Reads the transports that the hosts of a run have beside the run's own: `[[run.beside]]`.

use super::extends::Files;
use super::reader::{Item, Result, Table};
use super::transport;
use rnic_spec::{Beside, RunSpec, Vocabulary};

/// Reads every `[[run.beside]]` of a run. The defaults in `[transport]` are for the run's own transport only.
pub(super) fn read(run: &Table<'_>, vocabulary: &Vocabulary, files: Files<'_>) -> Result<Vec<Beside>> {
    let mut all: Vec<Beside> = Vec::new();
    for table in run.tables("beside")? {
        let transport = transport::read(&table, None, vocabulary, files)?;
        let given = table.require("priority")?;
        let priority = given.typed()?;
        if all.iter().any(|other| other.priority == priority) {
            let message = format!("two transports are for priority {priority}");
            return Err(given.error(message, "give each its own `priority`"));
        }
        all.push(Beside { priority, transport });
    }
    Ok(all)
}

/// Checks that the transports of a run can share its hosts and switches. An error points at `[[run.beside]]`, or at the
/// traffic if the run has only its own transport.
pub(super) fn check(table: &Table<'_>, traffic: &Item<'_>, run: &RunSpec) -> Result<()> {
    const HELP: &str = "see \"Several transports in one run\" in docs/reference/scenario.md";
    match run.cannot_share() {
        Some(why) => Err(table.get("beside").as_ref().unwrap_or(traffic).error(why, HELP)),
        None => Ok(()),
    }
}
