//! Traces as CSV: a row for each operation, with the columns of `docs/reference/traces.md`.

use super::order::{Ordered, Unordered};
use super::section::{Parts, Section};
use super::task::{Graph, Named, Task, Tasks, Work};
use super::{MAX_BYTES, MAX_RANKS};
use csv::{ByteRecord, Reader, ReaderBuilder};
use rnic_spec::CollectiveOperation;
use rnic_transport::Time;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fs::File;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

/// The columns; `rank`, `id` and `kind` are required.
pub(super) const COLUMNS: [&str; 12] =
    ["rank", "id", "kind", "peer", "bytes", "tag", "group", "time_ns", "processor", "after", "step", "label"];

/// Maximum number of groups and of labels.
const MAX_GROUPS: usize = 1_000_000;
const MAX_LABELS: usize = 10_000;

/// The groups and labels of a file, numbered in the order of their first rows.
#[derive(Debug, Default)]
struct Names {
    groups: BTreeMap<String, u32>,
    labels: BTreeMap<String, u32>,
}

/// Numbers a name, unless it is empty.
fn intern(names: &mut BTreeMap<String, u32>, name: &str, most: usize) -> Result<(), String> {
    if !name.is_empty() && !names.contains_key(name) {
        if names.len() >= most {
            return Err(format!("there are more than {most} different groups or labels"));
        }
        names.insert(name.to_string(), names.len() as u32);
    }
    Ok(())
}

/// Where the file has each column.
type Header = [Option<usize>; COLUMNS.len()];

/// A field of a row, by its column; empty if the file does not have the column.
fn field<'r>(header: &Header, row: &'r ByteRecord, column: &str) -> Result<&'r str, String> {
    let position = COLUMNS.iter().position(|name| *name == column).and_then(|position| header[position]);
    let bytes = position.and_then(|position| row.get(position)).unwrap_or_default();
    std::str::from_utf8(bytes).map(str::trim).map_err(|_| format!("the column `{column}` has no text in UTF-8"))
}

/// A number in a column; `None` if the field is empty.
fn number<T: FromStr>(header: &Header, row: &ByteRecord, column: &str) -> Result<Option<T>, String> {
    let text = field(header, row, column)?;
    let wrong = || format!("`{column}` is \"{}\"; accepted: a whole number", text.escape_debug());
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| wrong()) }
}

fn required<T: FromStr>(header: &Header, row: &ByteRecord, column: &str) -> Result<T, String> {
    number(header, row, column)?.ok_or_else(|| format!("`{column}` is empty"))
}

fn read_header(reader: &mut Reader<impl std::io::Read>) -> Result<Header, String> {
    let names = reader.byte_headers().map_err(|error| error.to_string())?.clone();
    let mut header: Header = [None; COLUMNS.len()];
    for (position, name) in names.iter().enumerate() {
        let name = String::from_utf8_lossy(name);
        let Some(column) = COLUMNS.iter().position(|column| *column == name.trim()) else {
            return Err(format!("the column \"{}\" is unknown; accepted: {}", name.escape_debug(), COLUMNS.join(", ")));
        };
        if header[column].replace(position).is_some() {
            return Err(format!("the column `{}` is there twice", COLUMNS[column]));
        }
    }
    match header[..3].iter().position(Option::is_none) {
        Some(missing) => Err(format!("the column `{}` is missing", COLUMNS[missing])),
        None => Ok(header),
    }
}

/// The ranks of a group: `all`, or numbers and ranges such as `0-3 8 12-15`.
fn read_group(text: &str, ranks: u32) -> Result<Vec<u32>, String> {
    let wrong = || format!("the group \"{}\" is wrong; accepted: all, or ranks such as 0-3 8", text.escape_debug());
    if text == "all" {
        return Ok((0..ranks).collect());
    }
    let mut members: Vec<u32> = Vec::new();
    for part in text.split_whitespace() {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
        if first > last || last >= ranks {
            return Err(format!(
                "the group \"{text}\" has ranks that do not exist; the trace has ranks 0 to {}",
                ranks - 1
            ));
        }
        members.extend(first..=last);
    }
    let distinct: std::collections::BTreeSet<u32> = members.iter().copied().collect();
    match distinct.len() == members.len() && !members.is_empty() {
        true => Ok(members),
        false => Err(format!("the group \"{text}\" is empty or has a rank twice")),
    }
}

/// Opens a trace. Reads the whole file once, to find the groups, and the rows of each rank.
pub(super) fn open(path: &str) -> Result<Graph, String> {
    let fail = |error: String| format!("{path}: {error}");
    let file = File::open(path).map_err(|error| fail(error.to_string()))?;
    let mut reader = ReaderBuilder::new().flexible(true).from_reader(file);
    let header = read_header(&mut reader).map_err(fail)?;
    let (mut parts, mut row) = (Parts::default(), ByteRecord::new());
    let mut names = Names::default();
    loop {
        let (begin, line) = (reader.position().byte(), reader.position().line());
        let at_line = |error: String| fail(format!("line {line}: {error}"));
        if !reader.read_byte_record(&mut row).map_err(|error| at_line(error.to_string()))? {
            break;
        }
        let rank: u32 = required(&header, &row, "rank").map_err(at_line)?;
        if rank >= MAX_RANKS {
            return Err(at_line(format!("`rank` is {rank}; accepted: at most {}", MAX_RANKS - 1)));
        }
        parts.add(rank, begin, reader.position().byte()).map_err(at_line)?;
        let group = field(&header, &row, "group").map_err(at_line)?;
        intern(&mut names.groups, group, MAX_GROUPS).map_err(at_line)?;
        intern(&mut names.labels, field(&header, &row, "label").map_err(at_line)?, MAX_LABELS).map_err(at_line)?;
    }
    let parts = parts.into_ranks();
    let ranks = parts.len() as u32;
    if ranks == 0 {
        return Err(fail("the trace has no tasks".to_string()));
    }
    let mut communicators = vec![Arc::from([]); names.groups.len()];
    for (name, index) in &names.groups {
        communicators[*index as usize] = read_group(name, ranks).map_err(fail)?.into();
    }
    let mut labels = vec![String::new(); names.labels.len() + 1];
    for (name, index) in &names.labels {
        labels[*index as usize + 1].clone_from(name);
    }
    let file = Arc::new(Mutex::new(File::open(path).map_err(|error| fail(error.to_string()))?));
    let names = Arc::new(names);
    let rows = |(rank, parts): (u32, Vec<(u64, u64)>)| {
        let section = Section::new(file.clone(), parts);
        let reader =
            ReaderBuilder::new().has_headers(false).flexible(true).buffer_capacity(16 << 10).from_reader(section);
        let rows = Rows { path: path.to_string(), rank, header, reader, row: ByteRecord::new(), names: names.clone() };
        Box::new(Ordered::new(rank, rows)) as Box<dyn Tasks>
    };
    Ok(Graph { communicators, labels, tasks: (0..).zip(parts).map(rows).collect() })
}

/// The rows of one rank.
#[derive(Debug)]
struct Rows {
    path: String,
    rank: u32,
    header: Header,
    reader: Reader<Section>,
    row: ByteRecord,
    names: Arc<Names>,
}

impl Unordered for Rows {
    fn read(&mut self) -> Result<Option<Named>, String> {
        let fail = |error: String| format!("{}: rank {}: {error}", self.path, self.rank);
        match self.reader.read_byte_record(&mut self.row) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(fail(error.to_string())),
        }
        let id: u64 = required(&self.header, &self.row, "id").map_err(fail)?;
        let task = task(&self.header, &self.row, id, &self.names);
        task.map(Some).map_err(|error| fail(format!("task {id}: {error}")))
    }
}

fn task(header: &Header, row: &ByteRecord, id: u64, names: &Names) -> Result<Named, String> {
    let kind = field(header, row, "kind")?;
    let work = match kind {
        "compute" => {
            let ns: f64 = number(header, row, "time_ns")?.ok_or("`time_ns` is empty")?;
            if !(0.0..=1e15).contains(&ns) {
                return Err(format!("`time_ns` is {ns}; accepted: 0 to 1e15"));
            }
            let processor = number(header, row, "processor")?.unwrap_or(0_u32);
            let wrong = |_| format!("`processor` is {processor}; accepted: 0 to 255");
            let processor = u8::try_from(processor).map_err(wrong)?;
            Work::Compute { time: Time::from_ps((ns * 1e3).round() as u64), processor }
        }
        "send" => Work::Send {
            to: required(header, row, "peer")?,
            bytes: bytes(header, row)?,
            tag: number(header, row, "tag")?.unwrap_or(0),
        },
        "receive" => {
            let from = match field(header, row, "peer")? {
                "any" => None,
                _ => Some(required(header, row, "peer")?),
            };
            Work::Receive { from, tag: number(header, row, "tag")?.unwrap_or(0) }
        }
        "nothing" => Work::Nothing,
        name => {
            let operation = CollectiveOperation::ALL.into_iter().find(|operation| operation.name() == name);
            let Some(operation) = operation else {
                let names = CollectiveOperation::ALL.map(CollectiveOperation::name).join(", ");
                let name = name.escape_debug();
                return Err(format!("`kind` is \"{name}\"; accepted: compute, send, receive, nothing, {names}"));
            };
            let group = names.groups.get(field(header, row, "group")?).ok_or("`group` is empty")?;
            Work::Collective { communicator: *group, operation, bytes: bytes(header, row)? }
        }
    };
    let mut after: SmallVec<[u64; 4]> = SmallVec::new();
    for earlier in field(header, row, "after")?.split_whitespace() {
        let wrong = |_| format!("`after` has \"{}\"; accepted: numbers of tasks", earlier.escape_debug());
        after.push(earlier.parse().map_err(wrong)?);
    }
    let name = field(header, row, "label")?;
    let label = names.labels.get(name).map_or(0, |index| index + 1);
    let task = Task { id, after, work, step: number(header, row, "step")?.unwrap_or(0), label };
    Ok(Named { task, name: name.into() })
}

fn bytes(header: &Header, row: &ByteRecord) -> Result<u64, String> {
    let bytes: u64 = required(header, row, "bytes")?;
    match (1..=MAX_BYTES).contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("`bytes` is {bytes}; accepted: 1 to {MAX_BYTES}")),
    }
}
