//! Checks a whole trace, and counts what it has.

use super::chakra;
use super::task::{Graph, Task, Work};
use rnic_spec::{CollectiveOperation, TraceContent, TraceFormat};
use rnic_transport::Time;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

/// Maximum number of distinct combinations of sender, receiver and tag whose messages have no counterpart yet.
const MAX_UNMATCHED: usize = 20_000_000;

/// Reads a whole trace.
///
/// # Errors
/// The trace cannot be read; an operation names a rank that does not exist, depends on operations that do not exist, or
/// depends on itself; sends and receives, or the collective operations of a group's ranks, do not match. The error is
/// one sentence.
pub fn survey(path: &str, format: TraceFormat) -> Result<TraceContent, String> {
    let graph = super::open(path, format)?;
    let (bytes, crc32) = checksum(path, format)?;
    let Counts { ranks, tasks, largest, .. } = count(graph)?;
    Ok(TraceContent { bytes, crc32, ranks, tasks, largest: largest.max(1) })
}

/// What a trace has.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Counts {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of tasks.
    pub tasks: u64,
    /// Number of bytes of the largest message or collective operation.
    pub largest: u64,
    /// Number of computations.
    pub computations: u64,
    /// Time of all computations of the rank that computes longest.
    pub longest: Time,
    /// Number of send tasks.
    pub sends: u64,
    /// Number of bytes of all messages.
    pub sent: u64,
    /// Number of receive tasks.
    pub receives: u64,
    /// Number of ranks of each communicator.
    pub groups: Vec<u32>,
    /// Collective operations by name: the number of tasks, and the sum of their sizes.
    pub collectives: BTreeMap<&'static str, (u64, u64)>,
}

/// Reads all tasks of a trace, checks that they match, and counts them.
///
/// # Errors
/// As [`survey`].
pub fn count(graph: Graph) -> Result<Counts, String> {
    let ranks = graph.tasks.len() as u32;
    let groups = graph.communicators.iter().map(|ranks| ranks.len() as u32).collect();
    let mut counts = Counts { ranks, groups, ..Counts::default() };
    let mut check = Check::new(&graph);
    for (rank, mut own) in (0..).zip(graph.tasks) {
        let mut computing = Time::ZERO;
        while let Some(task) = own.next()? {
            counts.largest = counts.largest.max(check.add(rank, ranks, &task)?);
            counts.add(&task, &mut computing);
        }
        counts.longest = counts.longest.max(computing);
    }
    check.finish()?;
    Ok(counts)
}

impl Counts {
    fn add(&mut self, task: &Task, computing: &mut Time) {
        self.tasks += 1;
        match task.work {
            Work::Compute { time, .. } => {
                self.computations += 1;
                *computing = computing.saturating_add(time);
            }
            Work::Send { bytes, .. } => {
                self.sends += 1;
                self.sent = self.sent.saturating_add(bytes);
            }
            Work::Receive { .. } => self.receives += 1,
            Work::Collective { operation, bytes, .. } => {
                let (tasks, sum) = self.collectives.entry(operation.name()).or_default();
                *tasks += 1;
                *sum = sum.saturating_add(bytes);
            }
            Work::Nothing => {}
        }
    }
}

/// Length and CRC-32 of the files of a trace.
pub(crate) fn checksum(path: &str, format: TraceFormat) -> Result<(u64, u32), String> {
    let names = match format {
        TraceFormat::Chakra => chakra::files(path)?,
        TraceFormat::Csv | TraceFormat::Goal => vec![path.to_string()],
    };
    let (mut length, mut hasher, mut buffer) = (0, crc32fast::Hasher::new(), vec![0; 64 << 10]);
    for name in names {
        let fail = |error: std::io::Error| format!("{name}: {error}");
        let mut file = std::fs::File::open(&name).map_err(fail)?;
        loop {
            let read = file.read(&mut buffer).map_err(fail)?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
            length += read as u64;
        }
    }
    Ok((length, hasher.finalize()))
}

/// The collective operations of a group at one of its ranks: their number, and a hash of their kinds and sizes.
type Sequence = (u64, u64);

struct Check {
    groups: Vec<Arc<[u32]>>,
    /// Receives minus sends, by (sender, receiver, tag); 0 is left out.
    messages: BTreeMap<(u32, u32, u64), i64>,
    /// Receives from any rank, by (receiver, tag).
    of_any: BTreeMap<(u32, u64), i64>,
    collectives: BTreeMap<(u32, u32), Sequence>,
}

impl Check {
    fn new(graph: &Graph) -> Check {
        Check {
            groups: graph.communicators.clone(),
            messages: BTreeMap::new(),
            of_any: BTreeMap::new(),
            collectives: BTreeMap::new(),
        }
    }

    /// Checks a task; returns its bytes.
    fn add(&mut self, rank: u32, ranks: u32, task: &Task) -> Result<u64, String> {
        let wrong =
            |why: &str| Err(format!("task {} of rank {rank} {why}; the trace has ranks 0 to {}", task.id, ranks - 1));
        match task.work {
            Work::Send { to, .. } if to >= ranks => wrong(&format!("sends to rank {to}, which does not exist")),
            Work::Send { to, .. } if to == rank => wrong("sends to its own rank"),
            Work::Receive { from: Some(from), .. } if from >= ranks || from == rank => {
                wrong(&format!("receives from rank {from}, which does not exist or is its own"))
            }
            Work::Send { to, bytes, tag } => self.count((rank, to, tag), -1).map(|()| bytes),
            Work::Receive { from: Some(from), tag } => self.count((from, rank, tag), 1).map(|()| 0),
            Work::Receive { from: None, tag } => {
                *self.of_any.entry((rank, tag)).or_default() += 1;
                Ok(0)
            }
            Work::Collective { communicator: group, operation, bytes } => {
                if !self.groups.get(group as usize).is_some_and(|members| members.contains(&rank)) {
                    return wrong("belongs to a group that does not have this rank");
                }
                let (count, hash) = self.collectives.entry((group, rank)).or_default();
                *count += 1;
                let kind = CollectiveOperation::ALL.iter().position(|other| *other == operation).unwrap_or(0) as u64;
                *hash = (hash.rotate_left(5) ^ bytes ^ kind << 60).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                Ok(bytes)
            }
            Work::Compute { .. } | Work::Nothing => Ok(0),
        }
    }

    fn count(&mut self, key: (u32, u32, u64), change: i64) -> Result<(), String> {
        let count = self.messages.entry(key).or_default();
        *count += change;
        if *count == 0 {
            self.messages.remove(&key);
        }
        match self.messages.len() > MAX_UNMATCHED {
            true => Err(format!("more than {MAX_UNMATCHED} kinds of messages have no counterpart so far")),
            false => Ok(()),
        }
    }

    fn finish(mut self) -> Result<(), String> {
        // Messages that no receive operation names go to those that accept any sender.
        for ((from, to, tag), count) in &self.messages {
            let waits = match self.of_any.get_mut(&(*to, *tag)) {
                Some(any) if *count < 0 => {
                    *any += *count;
                    *any
                }
                _ => *count,
            };
            if waits > 0 {
                return Err(format!(
                    "rank {to} receives from rank {from} with tag {tag}: {count} more messages than rank {from} sends"
                ));
            }
            if waits < 0 {
                return Err(format!(
                    "rank {from} sends to rank {to} with tag {tag}: {} more messages than rank {to} receives",
                    -waits
                ));
            }
        }
        if let Some(((to, tag), count)) = self.of_any.iter().find(|(_, count)| **count > 0) {
            return Err(format!(
                "rank {to} receives from any rank with tag {tag}: {count} more messages than are sent to it"
            ));
        }
        for (group, members) in (0..).zip(&self.groups) {
            let of = |rank: u32| self.collectives.get(&(group, rank)).copied().unwrap_or_default();
            let Some(first) = members.first() else { continue };
            if let Some(other) = members.iter().find(|rank| of(**rank) != of(*first)) {
                let ((a, _), (b, _)) = (of(*first), of(*other));
                let how = match a == b {
                    true => "in kind or bytes".to_string(),
                    false => format!("in number ({a} and {b})"),
                };
                return Err(format!(
                    "the collective operations of ranks {first} and {other}, of one group of {} ranks, differ {how}",
                    members.len()
                ));
            }
        }
        Ok(())
    }
}
