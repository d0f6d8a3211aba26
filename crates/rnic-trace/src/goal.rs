//! GOAL (Group Operation Assembly Language) as text: the schedules that Schedgen and ATLAHS write and LogGOPSim reads.
//!
//! `calc` counts nanoseconds. Computations on different processors (`cpu`) are carried out at the same time; a rank has
//! one NIC, and `nic` has no effect. An operation that `irequires` another operation may begin as soon as the other may
//! begin, so it has the same dependencies as the other operation.

use super::order::{Ordered, Unordered};
use super::section::{Parts, Section};
use super::task::{Graph, Named, Task, Tasks, Work};
use super::{MAX_BYTES, MAX_RANKS};
use rnic_transport::Time;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex};

/// A send operation of 0 bytes to one of these ranks does nothing: versions of htsim mark the end of a collective
/// operation with it.
pub(super) const MARKERS: [u32; 2] = [9_999_999, 999_999_999];
/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 64 << 10;
/// Maximum number of operations of a rank, which are in memory together.
const MAX_OPERATIONS: usize = 10_000_000;
/// Maximum number of dependencies of a rank that follow from `irequires`.
const MAX_DEPENDENCIES: usize = 50_000_000;

/// Reads a line without its end; `None` at the end of the file. A comment ends the line.
fn read_line(reader: &mut impl BufRead, line: &mut String) -> Result<Option<usize>, String> {
    line.clear();
    let mut limited = reader.take(MAX_LINE);
    let read = limited.read_line(line).map_err(|error| error.to_string())?;
    if read as u64 == MAX_LINE {
        return Err(format!("the line has more than {MAX_LINE} bytes"));
    }
    while let Some(begin) = line.find("/*") {
        let Some(length) = line[begin..].find("*/") else {
            return Err("a comment has no end in its line; accepted: /* ... */ in one line".to_string());
        };
        line.replace_range(begin..begin + length + 2, " ");
    }
    if let Some(comment) = line.find("//") {
        line.truncate(comment);
    }
    Ok((read > 0).then_some(read))
}

/// The rank of the line `rank N {`.
fn head(line: &str) -> Option<Result<u32, String>> {
    let rest = line.strip_prefix("rank")?;
    let number = rest.trim_end().strip_suffix('{').unwrap_or(rest).trim();
    Some(number.parse().map_err(|_| format!("\"{}\" is wrong; accepted: rank N {{", line.escape_debug())))
}

/// Opens a trace. The whole file is read once, to find the part of each rank.
pub(super) fn open(path: &str) -> Result<Graph, String> {
    let fail = |error: String| format!("{path}: {error}");
    let file = File::open(path).map_err(|error| fail(error.to_string()))?;
    let (mut reader, mut line) = (BufReader::new(file), String::new());
    let (mut at, mut number) = (0, 0);
    let mut ranks: Option<u32> = None;
    // The rank whose part is being read, and the first byte of the part.
    let mut inside: Option<(u32, u64)> = None;
    let (mut parts, mut seen) = (Parts::default(), std::collections::BTreeSet::new());
    loop {
        number += 1;
        let at_line = |error: String| fail(format!("line {number}: {error}"));
        let Some(read) = read_line(&mut reader, &mut line).map_err(at_line)? else { break };
        let text = line.trim();
        let begin = at;
        at += read as u64;
        if text.is_empty() {
            continue;
        }
        match inside {
            Some((rank, first)) if text == "}" => {
                parts.add(rank, first, begin).map_err(at_line)?;
                inside = None;
            }
            Some(_) => {}
            None if text.starts_with("num_ranks") => {
                let count: u32 = text["num_ranks".len()..].trim().parse().unwrap_or(0);
                if !(1..=MAX_RANKS).contains(&count) || ranks.is_some() {
                    return Err(at_line(format!("accepted: num_ranks N once, with 1 to {MAX_RANKS}")));
                }
                ranks = Some(count);
            }
            None => {
                let rank = head(text).unwrap_or_else(|| Err(format!("\"{}\" is outside a rank", text.escape_debug())));
                let rank = rank.map_err(at_line)?;
                let count = ranks.ok_or_else(|| at_line("num_ranks must come before the first rank".to_string()))?;
                if rank >= count || !seen.insert(rank) {
                    return Err(at_line(format!("rank {rank} does not exist or is there twice; num_ranks is {count}")));
                }
                inside = Some((rank, at));
            }
        }
    }
    if let Some((rank, _)) = inside {
        return Err(fail(format!("the part of rank {rank} has no end (`}}`)")));
    }
    let ranks = ranks.ok_or_else(|| fail("num_ranks is missing".to_string()))?;
    let mut parts = parts.into_ranks();
    parts.resize(ranks as usize, Vec::new());
    let file = Arc::new(Mutex::new(File::open(path).map_err(|error| fail(error.to_string()))?));
    let schedule = |(rank, parts): (u32, Vec<(u64, u64)>)| {
        let section = Some(Section::new(file.clone(), parts));
        let schedule = Schedule { path: path.to_string(), rank, section, tasks: Vec::new().into_iter() };
        Box::new(Ordered::new(rank, schedule)) as Box<dyn Tasks>
    };
    let tasks = (0..).zip(parts).map(schedule).collect();
    Ok(Graph { communicators: Vec::new(), labels: vec![String::new()], tasks })
}

/// The operations of one rank. All are in memory, because lines at the end may add dependencies to the first
/// operations.
#[derive(Debug)]
struct Schedule {
    path: String,
    rank: u32,
    /// The rank's part of the file, until it is read.
    section: Option<Section>,
    tasks: std::vec::IntoIter<Named>,
}

impl Unordered for Schedule {
    fn read(&mut self) -> Result<Option<Named>, String> {
        if let Some(section) = self.section.take() {
            let tasks = read_rank(&mut BufReader::new(section));
            let tasks = tasks.map_err(|error| format!("{}: rank {}: {error}", self.path, self.rank))?;
            self.tasks = tasks.into_iter();
        }
        Ok(self.tasks.next())
    }
}

fn read_rank(reader: &mut impl BufRead) -> Result<Vec<Named>, String> {
    let (mut tasks, mut line): (Vec<Named>, String) = (Vec::new(), String::new());
    let mut labels: BTreeMap<Box<str>, u64> = BTreeMap::new();
    // Operations that begin with others, as (operation, other).
    let mut together: Vec<(u64, u64)> = Vec::new();
    while read_line(reader, &mut line)?.is_some() {
        let text = line.trim().trim_end_matches(';');
        if text.is_empty() {
            continue;
        }
        let wrong = || {
            format!(
                "\"{}\" is wrong; accepted: L: send Nb to R, L: recv Nb from R, L: calc N, L requires L, L irequires L",
                text.escape_debug()
            )
        };
        if let Some((label, what)) = text.split_once(':') {
            let id = tasks.len() as u64;
            let label: Box<str> = label.trim().into();
            if tasks.len() >= MAX_OPERATIONS {
                return Err(format!("there are more than {MAX_OPERATIONS} operations; accepted: as many in a rank"));
            }
            if labels.insert(label.clone(), id).is_some() {
                return Err(format!("two operations are called \"{}\"", label.escape_debug()));
            }
            let work = work(what).ok_or_else(wrong)??;
            tasks.push(Named { task: Task { id, after: SmallVec::new(), work, step: 0, label: 0 }, name: label });
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let [own, relation, earlier] = words[..] else { return Err(wrong()) };
        let find = |label: &str| labels.get(label).copied().ok_or(label.to_string());
        let unknown = |label: String| format!("\"{}\" is no operation before this line", label.escape_debug());
        let (own, earlier) = (find(own).map_err(unknown)?, find(earlier).map_err(unknown)?);
        match relation {
            "requires" => tasks[own as usize].task.after.push(earlier),
            "irequires" => together.push((own, earlier)),
            _ => return Err(wrong()),
        }
    }
    let mut dependencies = 0;
    for (own, other) in together {
        let after = tasks[other as usize].task.after.clone();
        dependencies += after.len();
        if dependencies > MAX_DEPENDENCIES {
            return Err(format!("`irequires` leads to more than {MAX_DEPENDENCIES} dependencies"));
        }
        tasks[own as usize].task.after.extend(after);
    }
    Ok(tasks)
}

/// The operation that the words behind a label describe; `None` if they are wrong.
fn work(text: &str) -> Option<Result<Work, String>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let bytes = |word: &str| word.strip_suffix('b').unwrap_or(word).parse::<u64>().ok();
    Some(match words[..] {
        ["send", size, "to", to, ref rest @ ..] => {
            let (bytes, [tag, _]) = (bytes(size)?, options(rest)?);
            match bytes {
                0 if to.parse().is_ok_and(|to| MARKERS.contains(&to)) => Ok(Work::Nothing),
                // An empty message is one with headers only; the simulator's smallest message has a byte.
                0..=MAX_BYTES => Ok(Work::Send { to: to.parse().ok()?, bytes: bytes.max(1), tag }),
                _ => Err(format!("a message of {bytes} B is too long; accepted: at most {MAX_BYTES} B")),
            }
        }
        ["recv", size, "from", from, ref rest @ ..] => {
            let (_, [tag, _]) = (bytes(size)?, options(rest)?);
            let from = if from == "-1" { None } else { Some(from.parse().ok()?) };
            Ok(Work::Receive { from, tag })
        }
        ["calc", ns, ref rest @ ..] => {
            let ([_, cpu], ns) = (options(rest)?, ns.parse::<u64>().ok()?);
            match (ns.checked_mul(1_000).map(Time::from_ps), u8::try_from(cpu)) {
                (Some(time), Ok(processor)) => Ok(Work::Compute { time, processor }),
                (None, _) => Err(format!("a computation of {ns} ns is too long")),
                (_, Err(_)) => Err(format!("a computation is on the processor {cpu}; accepted: `cpu` 0 to 255")),
            }
        }
        _ => return None,
    })
}

/// Returns the values of `tag` and `cpu` among the options of an operation. Each option has a number.
fn options(words: &[&str]) -> Option<[u64; 2]> {
    let mut values = [0; 2];
    let pairs = words.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    for pair in pairs {
        let value: u64 = pair[1].parse().ok()?;
        match pair[0] {
            "tag" => values[0] = value,
            "cpu" => values[1] = value,
            "nic" => {}
            _ => return None,
        }
    }
    Some(values)
}
