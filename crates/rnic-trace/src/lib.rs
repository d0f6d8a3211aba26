//! Traces of distributed programs, as the operations of each rank and what they depend on.
//!
//! - [`open`] reads a trace: CSV in rnic's own columns, GOAL as text, or Chakra execution traces.
//! - [`Graph`] has the [`Tasks`] of each rank, which are read as they are needed: a trace is never in memory as a whole
//!   (but for a rank of a GOAL text, whose dependencies may be anywhere).
//! - [`survey`] checks a whole trace and counts what it has.
//!
//! Files are hostile: lengths are limited, and a wrong file costs one sentence.
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
mod order;
mod section;
mod survey;
mod task;
#[cfg(test)]
mod tests;

pub use survey::survey;
pub use task::{Graph, Task, Tasks, Work};

use rnic_spec::{TraceContent, TraceFormat};

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
            "the format of \"{path}\" is unknown: its name does not end in .csv or .goal, and there is no file {path}.0.et; \
             accepted: `format` = \"csv\", \"goal\" or \"chakra\""
        )),
    }
}
