//! Reads the workload files of SimAI and ASTRA-sim (`workload.txt`): the layers of a model, which describe one step of
//! training.
//!
//! The first line is the policy, `MICRO`, `DATA`, `MODEL` or `HYBRID_TRANSFORMER_FWD_IN_BCKWD` with settings such as
//! `model_parallel_NPU_group: 8 ep: 1 pp: 1 all_gpus: 32`, the second line is the number of layers. A layer has a name,
//! a number without meaning, then time in nanoseconds, collective operation and bytes, three times: for the forward
//! pass, the gradients of inputs and the gradients of weights. The time of the update is last.
//!
//! A rank computes the layers forwards, each followed by its collective operation, then backwards. The collective
//! operation of a layer's weights overlaps with the computation of the layers below; the update waits for it.

use super::task::{Graph, Task, Tasks, Work};
use super::{MAX_BYTES, MAX_RANKS};
use rnic_spec::CollectiveOperation;
use rnic_transport::Time;
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

/// Maximum number of bytes of a line.
const MAX_LINE: usize = 1 << 16;

/// Maximum time of a computation: 30 days.
const MAX_TIME: Time = Time::from_ms(30 * 24 * 3_600_000);
/// Maximum number of layers.
const MAX_LAYERS: usize = 1_000_000;
/// Groups of ranks, in the order of the communicators of a rank.
const SCOPES: [&str; 4] = ["tensor", "data", "expert", "data of experts"];

/// Whether a text begins as a workload file.
pub(super) fn is_one(head: &[u8]) -> bool {
    ["MICRO", "DATA", "MODEL", "HYBRID_"].iter().any(|policy| head.starts_with(policy.as_bytes()))
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Policy {
    /// Every collective operation has all ranks.
    All,
    /// The collective operations of passes have tensor groups, those of weights data groups.
    Hybrid,
}

/// Computation, and the collective operation after it.
#[derive(Clone, Copy, Debug)]
struct Phase {
    compute: Work,
    /// The index in [`SCOPES`], the operation and its size.
    collective: Option<(usize, CollectiveOperation, u64)>,
}

#[derive(Debug)]
struct Layer {
    phases: [Phase; 3],
    update: Work,
}

/// Opens a file. `ranks` is the number of ranks for files without `all_gpus`.
pub(super) fn open(path: &str, ranks: Option<u32>) -> Result<Graph, String> {
    let fail = |error: String| format!("{path}: {error}");
    let file = File::open(path).map_err(|error| fail(error.to_string()))?;
    read(&mut BufReader::new(file), ranks).map_err(fail)
}

/// The next line; `None` at the end of the file.
fn next_line(reader: &mut impl BufRead) -> Result<Option<String>, String> {
    let mut line = Vec::new();
    let read = reader.take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
    if read > MAX_LINE {
        return Err(format!("a line is longer than {MAX_LINE} bytes"));
    }
    let line = String::from_utf8(line).map_err(|_| "a line is not text in UTF-8")?;
    Ok((read > 0).then(|| line.trim().to_string()))
}

fn read(reader: &mut impl BufRead, ranks: Option<u32>) -> Result<Graph, String> {
    let first = next_line(reader)?.ok_or("it is empty; accepted: a policy, the number of layers, and layers")?;
    let (policy, settings) = header(&first).map_err(|error| format!("line 1: {error}"))?;
    let (scopes, ranks) = scopes(policy, &settings, ranks).map_err(|error| format!("line 1: {error}"))?;
    let groups = scopes.map(|scope| scope.members(ranks));
    let second = next_line(reader)?.unwrap_or_default();
    let count = second.parse().ok().filter(|count| (1..=MAX_LAYERS).contains(count));
    let count =
        count.ok_or_else(|| format!("line 2: `{second}` is not a number of layers; accepted: 1 to {MAX_LAYERS}"))?;
    let (mut layers, mut number) = (Vec::new(), 2);
    while let Some(line) = next_line(reader).map_err(|error| format!("line {}: {error}", number + 1))? {
        number += 1;
        if !line.is_empty() {
            layers.push(layer(&line, policy).map_err(|error| format!("line {number}: {error}"))?);
        }
        if layers.len() > count {
            return Err(format!("{count} layers are announced, but the file has more"));
        }
    }
    if layers.len() != count {
        return Err(format!("{count} layers are announced, but the file has {}", layers.len()));
    }
    let layers = Arc::new(layers);
    let scopes = (0..ranks).map(|rank| {
        let mut before = 0;
        scopes.map(|scope| {
            let communicator = before + scope.group(rank);
            before += scope.groups(ranks);
            communicator
        })
    });
    let tasks = scopes.map(|scopes| -> Box<dyn Tasks> { Box::new(Steps::new(layers.clone(), scopes)) }).collect();
    Ok(Graph { communicators: groups.concat(), labels: vec![String::new()], tasks })
}

/// The policy and the settings of the first line.
fn header(line: &str) -> Result<(Policy, BTreeMap<String, u32>), String> {
    let mut words = line.split_whitespace();
    let policy = match words.next() {
        Some("MICRO" | "DATA" | "MODEL") => Policy::All,
        Some("HYBRID_TRANSFORMER_FWD_IN_BCKWD" | "HYBRID_TRANSFORMER") => Policy::Hybrid,
        other => {
            let other = other.unwrap_or_default();
            return Err(format!(
                "the policy `{other}` is not accepted; accepted: MICRO, DATA, MODEL, HYBRID_TRANSFORMER, \
                 HYBRID_TRANSFORMER_FWD_IN_BCKWD"
            ));
        }
    };
    let mut settings = BTreeMap::new();
    while let Some(name) = words.next() {
        let value = words.next().unwrap_or_default();
        let number = value.parse().map_err(|_| format!("`{name}` is `{value}`; accepted: a whole number from 0"))?;
        settings.insert(name.trim_end_matches(':').to_string(), number);
    }
    Ok((policy, settings))
}

/// Groups of `size` ranks, which are `stride` apart, in blocks of `size` x `stride` ranks.
#[derive(Clone, Copy, Debug)]
struct Scope {
    size: u32,
    stride: u32,
}

impl Scope {
    /// Number of groups.
    fn groups(self, ranks: u32) -> u32 {
        ranks / self.size
    }

    /// The group of a rank.
    fn group(self, rank: u32) -> u32 {
        rank / (self.size * self.stride) * self.stride + rank % self.stride
    }

    /// The ranks of each group.
    fn members(self, ranks: u32) -> Vec<Arc<[u32]>> {
        let Scope { size, stride } = self;
        let first = (0..self.groups(ranks)).map(|group| group / stride * size * stride + group % stride);
        first.map(|first| (0..size).map(|member| first + member * stride).collect()).collect()
    }
}

/// The groups of each scope, and the number of ranks.
fn scopes(policy: Policy, settings: &BTreeMap<String, u32>, given: Option<u32>) -> Result<([Scope; 4], u32), String> {
    let setting = |name: &str| settings.get(name).copied();
    let ranks = match (setting("all_gpus"), given) {
        (Some(stated), Some(given)) if stated != given => {
            return Err(format!("the file is for {stated} ranks, and {given} are given; accepted: {stated}"));
        }
        (Some(ranks), _) | (None, Some(ranks)) if (1..=MAX_RANKS).contains(&ranks) => ranks,
        (Some(ranks), _) | (None, Some(ranks)) => {
            return Err(format!("{ranks} ranks; accepted: 1 to {MAX_RANKS}"));
        }
        (None, None) => return Err("the file has no `all_gpus`; state the number of ranks (`--ranks N`)".to_string()),
    };
    for name in ["pp", "vpp"] {
        if setting(name).is_some_and(|value| value > 1) {
            return Err(format!("`{name}` is above 1, but the file has no messages between stages; accepted: 1"));
        }
    }
    let (tensor, expert) = match policy {
        Policy::All => (ranks, 1),
        Policy::Hybrid => (setting("model_parallel_NPU_group").unwrap_or(1).max(1), setting("ep").unwrap_or(1).max(1)),
    };
    let whole = u64::from(tensor) * u64::from(expert);
    if !u64::from(ranks).is_multiple_of(whole) {
        return Err(format!(
            "tensor groups of {tensor} ranks and expert groups of {expert} do not divide {ranks} ranks; accepted: a \
             multiple of {whole}"
        ));
    }
    let of = |size, stride| Scope { size, stride };
    let data = ranks / tensor;
    Ok(([of(tensor, 1), of(data, tensor), of(expert, tensor), of(data / expert, tensor * expert)], ranks))
}

fn layer(line: &str, policy: Policy) -> Result<Layer, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, t1, k1, b1, t2, k2, b2, t3, k3, b3, update, ..] = words[..] else {
        return Err(format!(
            "{} fields; accepted: 12, a name, a number, three phases of three fields, a time",
            words.len()
        ));
    };
    let phase = |time: &str, kind: &str, bytes: &str, default: usize| -> Result<Phase, String> {
        Ok(Phase { compute: nanoseconds(time)?, collective: collective(kind, bytes, policy, default)? })
    };
    Ok(Layer {
        phases: [phase(t1, k1, b1, 0)?, phase(t2, k2, b2, 0)?, phase(t3, k3, b3, 1)?],
        update: nanoseconds(update)?,
    })
}

fn nanoseconds(text: &str) -> Result<Work, String> {
    let time = text.parse().ok().and_then(|ns: u64| ns.checked_mul(1_000)).map(Time::from_ps);
    let time = time.filter(|time| *time <= MAX_TIME);
    let time = time.ok_or_else(|| format!("`{text}` is not a time; accepted: whole nanoseconds, at most 30 days"))?;
    Ok(Work::Compute { time, processor: 0 })
}

fn collective(
    kind: &str, bytes: &str, policy: Policy, default: usize,
) -> Result<Option<(usize, CollectiveOperation, u64)>, String> {
    let suffixed =
        [("_DP_EP", 3), ("_EP", 2)].into_iter().find_map(|(suffix, scope)| Some((kind.strip_suffix(suffix)?, scope)));
    let (name, scope) = suffixed.unwrap_or((kind, default));
    let operation = match name {
        "NONE" => return Ok(None),
        "ALLREDUCE" => CollectiveOperation::AllReduce,
        "ALLGATHER" => CollectiveOperation::AllGather,
        "REDUCESCATTER" => CollectiveOperation::ReduceScatter,
        "ALLTOALL" => CollectiveOperation::AllToAll,
        "BROADCAST" => CollectiveOperation::Broadcast,
        _ => {
            return Err(format!(
                "the collective operation `{kind}` is not accepted; accepted: NONE, ALLREDUCE, ALLGATHER, \
                 REDUCESCATTER, ALLTOALL, BROADCAST, also with _EP or _DP_EP"
            ));
        }
    };
    if policy == Policy::All && suffixed.is_some() {
        return Err(format!(
            "`{kind}` names a group, but the policy has none; accepted: HYBRID_TRANSFORMER_FWD_IN_BCKWD"
        ));
    }
    let scope = if policy == Policy::All { 0 } else { scope };
    debug_assert!(scope < SCOPES.len(), "a scope of the list");
    match bytes.parse() {
        Ok(0) => Ok(None),
        Ok(bytes) if bytes <= MAX_BYTES => Ok(Some((scope, operation, bytes))),
        _ => Err(format!("`{bytes}` is not a number of bytes; accepted: 0 to {MAX_BYTES}")),
    }
}

/// The tasks of a rank.
#[derive(Debug)]
struct Steps {
    layers: Arc<Vec<Layer>>,
    /// The communicator of each scope.
    scopes: [u32; 4],
    /// Number of phases that have been taken: first the phases of the forward pass, then the phases of the backward
    /// pass.
    phase: usize,
    next: u64,
    queue: VecDeque<Task>,
    /// The tasks after which the next computation begins.
    after: SmallVec<[u64; 4]>,
}

impl Steps {
    fn new(layers: Arc<Vec<Layer>>, scopes: [u32; 4]) -> Steps {
        Steps { layers, scopes, phase: 0, next: 0, queue: VecDeque::new(), after: smallvec![] }
    }

    fn push(&mut self, work: Work, mut after: SmallVec<[u64; 4]>) -> u64 {
        let id = self.next;
        self.next += 1;
        after.sort_unstable();
        self.queue.push_back(Task { id, after, work, step: 0, label: 0 });
        id
    }

    /// Adds a computation, and the collective operation that follows it, if any. Returns the later of these tasks.
    fn phase(&mut self, phase: Phase, after: SmallVec<[u64; 4]>) -> (u64, u64) {
        let compute = self.push(phase.compute, after);
        let Some((scope, operation, bytes)) = phase.collective else { return (compute, compute) };
        let communicator = self.scopes.get(scope).copied().unwrap_or(0);
        let end = self.push(Work::Collective { communicator, operation, bytes }, smallvec![compute]);
        (compute, end)
    }
}

impl Tasks for Steps {
    fn next(&mut self) -> Result<Option<Task>, String> {
        let layers = self.layers.clone();
        while self.queue.is_empty() {
            let backward = self.phase.checked_sub(layers.len());
            let index = backward.map_or(Some(self.phase), |done| layers.len().checked_sub(1 + done));
            let Some(layer) = index.and_then(|index| layers.get(index)) else { return Ok(None) };
            self.phase += 1;
            let after = std::mem::take(&mut self.after);
            let [forward, inputs, weights] = layer.phases;
            if backward.is_none() {
                let (_, end) = self.phase(forward, after);
                self.after = smallvec![end];
                continue;
            }
            let (computed, end) = self.phase(inputs, after);
            let (compute, reduced) = self.phase(weights, smallvec![computed]);
            self.push(layer.update, smallvec![reduced]);
            self.after = smallvec![end, compute];
            self.after.dedup();
        }
        Ok(self.queue.pop_front())
    }
}
