//! Traces of distributed programs: the operations of each rank, with their dependencies.
//!
//! - [`open`] reads a trace: CSV in rnic's own columns, GOAL as text, or Chakra execution traces.
//! - [`Graph`] has the [`Tasks`] of each rank, which are read when they are needed. So only the current part of a trace
//!   is in memory, except for GOAL as text: a rank of it is in memory completely, because its dependencies may be
//!   anywhere.
//! - [`open_other`] reads formats that scenarios do not name: GOAL in binary form, and workload files of SimAI and
//!   ASTRA-sim. [`write_csv`] converts them.
//! - [`survey`] checks a whole trace and counts its operations.
//!
//! Files are untrusted: lengths are limited, and a malformed file causes an error of one sentence.
//!
//! ```
//! use rnic_spec::TraceFormat;
//! use std::io::Write;
//!
//! let mut file = tempfile::NamedTempFile::new()?;
//! file.write_all(b"rank,id,kind,peer,bytes,after\n0,1,send,1,1000,\n1,1,receive,0,,\n")?;
//! let path = file.path().to_str().unwrap();
//! let content = rnic_trace::survey(path, TraceFormat::Csv)?;
//! assert_eq!((content.ranks, content.tasks, content.largest), (2, 2, 1000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod chakra;
mod csv_file;
mod goal;
mod goal_binary;
mod order;
mod section;
mod simai;
mod survey;
mod task;
#[cfg(test)]
mod tests;
mod write;

pub use survey::{Counts, count, survey};
pub use task::{Graph, Offer, Task, Tasks, Work};
pub use write::{WriteError, write_csv, write_goal};

use rnic_spec::{TraceContent, TraceFormat};
use std::io::Read;

/// Maximum number of ranks of a trace.
pub const MAX_RANKS: u32 = 1 << 20;
/// Maximum number of bytes of a message or collective operation.
pub const MAX_BYTES: u64 = 100_000_000_000_000;

/// Opens a trace: `path` is a file, or for [`TraceFormat::Chakra`] the path of its files without `.RANK.et`.
///
/// # Errors
/// The file cannot be read, or its structure is wrong: one sentence that names the place.
pub fn open(path: &str, format: TraceFormat) -> Result<Graph, String> {
    match format {
        TraceFormat::Csv => csv_file::open(path),
        TraceFormat::Goal => goal::open(path),
        TraceFormat::Chakra => chakra::open(path),
    }
}

/// As [`open`], for a trace that must still have the content that [`survey`] found.
///
/// # Errors
/// As [`open`]; the trace has changed.
pub fn open_unchanged(path: &str, format: TraceFormat, content: &TraceContent) -> Result<Graph, String> {
    match survey::checksum(path, format)? == (content.bytes, content.crc32) {
        true => open(path, format),
        false => Err(format!("the trace {path} has changed since the scenario was read")),
    }
}

/// The format of a trace, judged by its name: `.csv`, `.goal`, or a prefix of files that end in `.0.et`.
///
/// # Errors
/// The name has none of these endings.
pub fn guess(path: &str) -> Result<TraceFormat, String> {
    match path.rsplit('.').next() {
        Some("csv") => Ok(TraceFormat::Csv),
        Some("goal") => Ok(TraceFormat::Goal),
        _ if chakra::first_file(path).is_some() => Ok(TraceFormat::Chakra),
        _ => Err(format!(
            "the format of \"{path}\" is unknown: its name does not end in .csv or .goal, and there is no file {path}.0.et or {path}.0.json; \
             accepted: `format` = \"csv\", \"goal\" or \"chakra\""
        )),
    }
}

/// A format that scenarios do not name; `rnic trace` converts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Other {
    /// GOAL in binary form.
    GoalBinary,
    /// Workload files of SimAI and ASTRA-sim.
    SimAi,
}

/// Whether a file has one of the other formats, judged by its first bytes.
pub fn guess_other(path: &str) -> Option<Other> {
    let mut head = Vec::new();
    std::fs::File::open(path).ok()?.take(64).read_to_end(&mut head).ok()?;
    match &head {
        head if goal_binary::is_one(head) => Some(Other::GoalBinary),
        head if simai::is_one(head) => Some(Other::SimAi),
        _ => None,
    }
}

/// Opens a trace of another format. `ranks` is the number of ranks of workload files that do not state it.
///
/// # Errors
/// As [`open`].
pub fn open_other(path: &str, format: Other, ranks: Option<u32>) -> Result<Graph, String> {
    match format {
        Other::GoalBinary => goal_binary::open(path),
        Other::SimAi => simai::open(path, ranks),
    }
}
