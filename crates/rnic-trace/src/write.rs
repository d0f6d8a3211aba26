//! Writes traces: as CSV with rnic's columns, and as GOAL text.

use super::csv_file::COLUMNS;
use super::task::{Graph, Task, Work};
use csv::Writer;
use std::io::{self, Write};

/// Why a trace cannot be written.
#[derive(Debug)]
pub enum WriteError {
    /// A task cannot be read, or the format cannot describe it: one sentence.
    Trace(String),
    /// The output cannot be written.
    Output(io::Error),
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WriteError::Trace(error) => f.write_str(error),
            WriteError::Output(error) => write!(f, "the output cannot be written: {error}"),
        }
    }
}

impl std::error::Error for WriteError {}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        WriteError::Output(error)
    }
}

impl From<String> for WriteError {
    fn from(error: String) -> WriteError {
        WriteError::Trace(error)
    }
}

/// Writes a trace as CSV with rnic's columns. A rank without tasks gets a task without effect, because the largest rank
/// in the file determines the number of ranks.
///
/// # Errors
/// Why a task cannot be read, or why the output cannot be written.
pub fn write_csv(out: &mut dyn Write, graph: Graph) -> Result<(), WriteError> {
    let mut writer = Writer::from_writer(out);
    let broken = |error: csv::Error| WriteError::Output(error.into());
    writer.write_record(COLUMNS).map_err(broken)?;
    let groups: Vec<String> = graph.communicators.iter().map(|ranks| group_text(ranks)).collect();
    for (rank, mut tasks) in (0_u32..).zip(graph.tasks) {
        let mut is_empty = true;
        while let Some(task) = tasks.next()? {
            is_empty = false;
            let label = graph.labels.get(task.label as usize).map_or("", String::as_str);
            writer.write_record(row(rank, &task, &groups, label)).map_err(broken)?;
        }
        if is_empty {
            let [rank, empty] = [rank.to_string(), String::new()];
            let row = COLUMNS.map(|column| match column {
                "rank" => rank.as_str(),
                "id" => "0",
                "kind" => "nothing",
                _ => empty.as_str(),
            });
            writer.write_record(row).map_err(broken)?;
        }
    }
    Ok(writer.flush()?)
}

/// The fields of a task, in the order of [`COLUMNS`].
fn row(rank: u32, task: &Task, groups: &[String], label: &str) -> [String; COLUMNS.len()] {
    let (kind, peer, bytes, tag, group, time) = match task.work {
        Work::Compute { time, .. } => ("compute", None, None, None, "", Some(time.as_ps())),
        Work::Send { to, bytes, tag } => ("send", Some(to.to_string()), Some(bytes.max(1)), Some(tag), "", None),
        Work::Receive { from, tag } => {
            let from = from.map_or("any".to_string(), |from| from.to_string());
            ("receive", Some(from), None, Some(tag), "", None)
        }
        Work::Collective { communicator, operation, bytes } => {
            let group = groups.get(communicator as usize).map_or("", String::as_str);
            (operation.name(), None, Some(bytes.max(1)), None, group, None)
        }
        Work::Nothing => ("nothing", None, None, None, "", None),
    };
    let text = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
    let time = time.map_or(String::new(), |ps| match ps % 1_000 {
        0 => (ps / 1_000).to_string(),
        rest => format!("{}.{rest:03}", ps / 1_000),
    });
    let processor = match task.work {
        Work::Compute { processor, .. } if processor > 0 => processor.to_string(),
        _ => String::new(),
    };
    let after: Vec<String> = task.after.iter().map(u64::to_string).collect();
    let (peer, step) = (peer.unwrap_or_default(), if task.step == 0 { String::new() } else { task.step.to_string() });
    let (rank, id) = (rank.to_string(), task.id.to_string());
    let (group, after, label) = (group.into(), after.join(" "), label.into());
    [rank, id, kind.into(), peer, text(bytes), text(tag), group, time, processor, after, step, label]
}

/// The ranks of a group as text, such as `0-3 8`.
fn group_text(ranks: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*rank) => *last = *rank,
            _ => parts.push((*rank, *rank)),
        }
    }
    let part = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    parts.iter().map(part).collect::<Vec<_>>().join(" ")
}

/// Writes a trace as GOAL text. Computations are rounded up to whole nanoseconds.
///
/// # Errors
/// Why a task cannot be read, why GOAL cannot describe it (collective operations), or why the output cannot be written.
pub fn write_goal(out: &mut dyn Write, graph: Graph) -> Result<(), WriteError> {
    let ranks = graph.tasks.len();
    writeln!(out, "num_ranks {ranks}")?;
    for (rank, mut tasks) in (0_u32..).zip(graph.tasks) {
        write!(out, "\nrank {rank} {{\n")?;
        while let Some(Task { id, after, work, .. }) = tasks.next()? {
            let text = match work {
                Work::Compute { time, processor } => {
                    let cpu = if processor > 0 { format!(" cpu {processor}") } else { String::new() };
                    format!("calc {}{cpu}", time.as_ps().div_ceil(1_000))
                }
                Work::Send { to, bytes, tag } => format!("send {bytes}b to {to} tag {tag}"),
                Work::Receive { from: Some(from), tag } => format!("recv 0b from {from} tag {tag}"),
                Work::Receive { from: None, tag } => format!("recv 0b from -1 tag {tag}"),
                Work::Nothing => "calc 0".to_string(),
                Work::Collective { operation, .. } => {
                    let name = operation.name();
                    let error = format!(
                        "rank {rank}, task {id}: GOAL has no operation `{name}`; accepted: traces of computations and \
                         messages"
                    );
                    return Err(error.into());
                }
            };
            writeln!(out, "t{id}: {text}")?;
            for on in &after {
                writeln!(out, "t{id} requires t{on}")?;
            }
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}
