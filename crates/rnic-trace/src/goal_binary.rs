//! Reads GOAL files in the binary form of LogGOPSim and htsim.
//!
//! All numbers are little-endian. The file begins with the number 4223 (8 bytes), the number of ranks (4), the
//! largest processor and NIC (1 each), and for each rank the start and end of its part (8 each), counted from byte 8.
//! A part has
//! the number of operations and of roots (4 each), the roots (4 each), the operations, and the lists of dependents.
//! An operation of 39 bytes has the number of its dependencies (4), kind (1), peer (4), size (8), tag (4), processor
//! (1), NIC (1), then two lists of dependents, each as number and first index (4 each): operations that wait for its
//! end, and operations that wait for its start.

use super::goal::MARKERS;
use super::order::{Ordered, Unordered};
use super::section::Section;
use super::task::{Graph, Named, Task, Tasks, Work};
use super::{MAX_BYTES, MAX_RANKS};
use rnic_transport::Time;
use smallvec::SmallVec;
use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::{Arc, Mutex};

/// The number with which a file begins.
const MAGIC: u64 = 4223;
/// Bytes before the table of parts.
const HEADER: u64 = 14;
/// Bytes of an operation.
const OPERATION: u64 = 39;
/// Maximum number of operations of a rank, which are in memory together.
const MAX_OPERATIONS: u32 = 10_000_000;
/// The peer of a receive operation for any rank.
const ANY: u32 = u32::MAX;

/// Whether a file begins as a GOAL file in binary form.
pub(super) fn is_one(head: &[u8]) -> bool {
    head.starts_with(&MAGIC.to_le_bytes())
}

fn take<const N: usize>(reader: &mut impl Read) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "it is truncated".to_string(),
        _ => format!("it cannot be read: {error}"),
    })?;
    Ok(bytes)
}

fn u8(reader: &mut impl Read) -> Result<u8, String> {
    take(reader).map(u8::from_le_bytes)
}

fn u32(reader: &mut impl Read) -> Result<u32, String> {
    take(reader).map(u32::from_le_bytes)
}

fn u64(reader: &mut impl Read) -> Result<u64, String> {
    take(reader).map(u64::from_le_bytes)
}

/// Opens a file.
pub(super) fn open(path: &str) -> Result<Graph, String> {
    read(path).map_err(|error| format!("{path}: {error}"))
}

fn read(path: &str) -> Result<Graph, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    let file = Arc::new(Mutex::new(file));
    let mut header = BufReader::new(Section::new(file.clone(), vec![(0, length)]));
    if u64(&mut header)? != MAGIC {
        return Err(format!("it does not begin with the number {MAGIC}"));
    }
    let ranks = u32(&mut header)?;
    let most = MAX_RANKS.min(u32::try_from(length / 16).unwrap_or(MAX_RANKS));
    if !(1..=most).contains(&ranks) {
        return Err(format!("{ranks} ranks; accepted in a file of {length} bytes: 1 to {most}"));
    }
    take::<2>(&mut header)?;
    let first = HEADER + 16 * u64::from(ranks);
    let mut tasks: Vec<Box<dyn Tasks>> = Vec::new();
    for rank in 0..ranks {
        let (start, end) = (u64(&mut header)?.saturating_add(8), u64(&mut header)?.saturating_add(8));
        if start < first || end > length || start > end {
            return Err(format!("the part of rank {rank} is not inside the file of {length} bytes"));
        }
        let section = Some(Section::new(file.clone(), vec![(start, end)]));
        let path = path.to_string();
        let schedule = Schedule { path, rank, ranks, length: end - start, section, tasks: Vec::new().into_iter() };
        tasks.push(Box::new(Ordered::new(rank, schedule)));
    }
    Ok(Graph { communicators: Vec::new(), labels: vec![String::new()], tasks })
}

/// The operations of one rank. All are in memory, because the lists of dependents are at the end of the part.
#[derive(Debug)]
struct Schedule {
    path: String,
    rank: u32,
    ranks: u32,
    /// Number of bytes of the rank's part of the file.
    length: u64,
    /// The rank's part of the file, until it is read.
    section: Option<Section>,
    tasks: std::vec::IntoIter<Named>,
}

impl Unordered for Schedule {
    fn read(&mut self) -> Result<Option<Named>, String> {
        if let Some(section) = self.section.take() {
            let tasks = self.part(&mut BufReader::new(section));
            let tasks = tasks.map_err(|error| format!("{}: rank {}: {error}", self.path, self.rank))?;
            self.tasks = tasks.into_iter();
        }
        Ok(self.tasks.next())
    }
}

/// Dependents of an operation: number, and index of the first one in the lists.
#[derive(Clone, Copy)]
struct List {
    count: u32,
    first: u32,
}

impl Schedule {
    fn part(&self, part: &mut impl Read) -> Result<Vec<Named>, String> {
        let (count, roots) = (u32(part)?, u32(part)?);
        let before = 8 + 4 * u64::from(roots) + OPERATION * u64::from(count);
        if before > self.length || count > MAX_OPERATIONS {
            return Err(format!(
                "{count} operations and {roots} roots; accepted: those that fit into the {} bytes of its part, and at \
                 most {MAX_OPERATIONS} operations",
                self.length
            ));
        }
        for _ in 0..roots {
            u32(part)?;
        }
        let (mut tasks, mut dependents) = (Vec::new(), Vec::new());
        for id in 0..count {
            let (work, lists) = self.operation(part, id)?;
            let task = Task { id: u64::from(id), after: SmallVec::new(), work, step: 0, label: 0 };
            tasks.push(Named { task, name: Box::default() });
            dependents.push(lists);
        }
        let mut all = Vec::new();
        for _ in 0..(self.length - before) / 4 {
            all.push(u32(part)?);
        }
        connect(&mut tasks, &dependents, &all)?;
        Ok(tasks)
    }

    fn operation(&self, part: &mut impl Read, id: u32) -> Result<(Work, [List; 2]), String> {
        let (_, kind, peer, bytes, tag) = (u32(part)?, u8(part)?, u32(part)?, u64(part)?, u32(part)?);
        let [cpu, _] = take(part)?;
        let mut list = || Ok::<List, String>(List { count: u32(part)?, first: u32(part)? });
        let lists = [list()?, list()?];
        if matches!(kind, 1 | 2) && bytes > MAX_BYTES {
            return Err(format!("operation {id} has {bytes} B; accepted: at most {MAX_BYTES} B"));
        }
        let is_rank = |peer: u32| match peer < self.ranks {
            true => Ok(peer),
            false => Err(format!("operation {id} names rank {peer}; accepted: 0 to {}", self.ranks - 1)),
        };
        let tag = u64::from(tag);
        let work = match kind {
            1 if MARKERS.contains(&peer) && bytes == 0 => Work::Nothing,
            1 => Work::Send { to: is_rank(peer)?, bytes: bytes.max(1), tag },
            2 if peer == ANY => Work::Receive { from: None, tag },
            2 => Work::Receive { from: Some(is_rank(peer)?), tag },
            3 => {
                let time = bytes.checked_mul(1_000).map(Time::from_ps);
                let time = time.ok_or_else(|| format!("operation {id}, a computation of {bytes} ns, is too long"))?;
                Work::Compute { time, processor: cpu }
            }
            _ => {
                return Err(format!(
                    "operation {id} has the kind {kind}; accepted: 1 (send), 2 (receive), 3 (compute)"
                ));
            }
        };
        Ok((work, lists))
    }
}

/// Adds to each operation the operations that must end before it begins. An operation that waits for the start of
/// another operation gets the other's dependencies.
fn connect(tasks: &mut [Named], dependents: &[[List; 2]], all: &[u32]) -> Result<(), String> {
    let of = |on: usize, List { count, first }: List| {
        let end = (first as usize).saturating_add(count as usize);
        let list = if count == 0 { Some(&all[..0]) } else { all.get(first as usize..end) };
        list.ok_or_else(|| format!("operation {on} has {count} dependents from {first} on; the part has {}", all.len()))
    };
    let mut connected = 0;
    for (on, [ends, _]) in dependents.iter().enumerate() {
        for dependent in of(on, *ends)? {
            connected += 1;
            if connected > all.len() {
                return Err("lists of dependents overlap".to_string());
            }
            let Some(named) = tasks.get_mut(*dependent as usize) else {
                return Err(format!("operation {dependent}, which depends on operation {on}, does not exist"));
            };
            named.task.after.push(on as u64);
        }
    }
    let after: Vec<SmallVec<[u64; 4]>> = tasks.iter().map(|named| named.task.after.clone()).collect();
    let mut added = 0;
    for ((on, [_, starts]), after) in dependents.iter().enumerate().zip(&after) {
        for dependent in of(on, *starts)? {
            connected += 1;
            if connected > all.len() {
                return Err("lists of dependents overlap".to_string());
            }
            let Some(named) = tasks.get_mut(*dependent as usize) else {
                return Err(format!("operation {dependent}, which depends on operation {on}, does not exist"));
            };
            added += after.len();
            if added > MAX_OPERATIONS as usize {
                return Err(format!("more than {MAX_OPERATIONS} dependencies on starts of operations"));
            }
            named.task.after.extend(after.iter().copied());
        }
    }
    Ok(())
}
