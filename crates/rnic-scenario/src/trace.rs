//! Reads the traffic of the pattern `trace`.

use super::deployment::{self, read_straggler};
use super::extends::Files;
use super::reader::{Result, Table};
use rnic_spec::{Algorithm, Deployment, Trace, TraceContent, TraceFormat};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What the traces have that earlier runs of the scenario have read, by path and format.
pub(super) type Surveyed = RefCell<BTreeMap<(String, TraceFormat), TraceContent>>;

/// Reads the settings of a trace, and from its files what they have.
pub(super) fn read(table: &Table<'_>, hosts: u32, files: Files<'_>, surveyed: &Surveyed) -> Result<Trace> {
    let item = table.require("file")?;
    let path = item.folder().join(item.name()?);
    let Some(file) = path.to_str().filter(|_| matches!(files, Files::Disk)) else {
        return Err(item.wrong("the trace is not a file", "accepted: the path of a file, in UTF-8"));
    };
    let format = match table.given::<String>("format")?.as_deref() {
        None => rnic_trace::guess(file).map_err(|sentence| item.sentence(&sentence))?,
        Some(name) => match TraceFormat::ALL.into_iter().find(|format| format.name() == name) {
            Some(format) => format,
            None => {
                let message = format!("\"{name}\" is no format of traces");
                return Err(table.error_at("format", message, "accepted: \"csv\", \"goal\", \"chakra\""));
            }
        },
    };
    let key = (file.to_string(), format);
    let known = surveyed.borrow().get(&key).copied();
    let content = match known {
        Some(content) => content,
        None => rnic_trace::survey(file, format).map_err(|sentence| item.sentence(&sentence))?,
    };
    surveyed.borrow_mut().insert(key, content);
    if content.ranks > hosts {
        let message = format!("the trace has {} ranks, and the fabric has {} hosts", content.ranks, hosts);
        return Err(item.wrong(message, "each rank needs a host of its own"));
    }
    let trace = Trace {
        file: file.to_string(),
        format,
        content,
        algorithm: table.given_word("algorithm")?.unwrap_or(Algorithm::Ring),
        channels: table.value("channels")?,
        chunk: table.value("chunk")?,
        outstanding: table.value("outstanding")?,
        compute_scale: table.value("compute_scale")?,
        straggler: read_straggler(table)?,
        deployment: Deployment {
            timeline: table.given("timeline")?,
            ..deployment::read(table, content.ranks, hosts, files)?
        },
    };
    trace.check().map_err(|error| table.error(error, "see docs/reference/traces.md"))?;
    Ok(trace)
}
