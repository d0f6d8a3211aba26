//! Records of the single collective operations of programs of tasks, such as those of a training step.

use crate::collective::{Algorithm, CollectiveOperation};
use crate::stored;
use rnic_transport::Time;
use serde::{Deserialize, Serialize};

/// The collective operations that the ranks of programs of tasks began.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TaskCollectives {
    /// The kinds of operations, such as `tensor`, to which [`TaskCollective::label`] refers.
    pub labels: Vec<String>,
    /// The operations in order of traffic source, start, communicator and number; at most [`MAX_TASK_COLLECTIVES`] of
    /// each source, which are the first to begin.
    pub records: Vec<TaskCollective>,
    /// Number of operations that are missing in `records` because of its limit.
    pub left_out: u64,
}

impl TaskCollectives {
    /// Adds the operations of another traffic source.
    pub fn extend(&mut self, other: TaskCollectives) {
        let first = self.labels.len() as u32;
        self.labels.extend(other.labels);
        let records = other.records.into_iter();
        self.records.extend(records.map(|record| TaskCollective { label: record.label + first, ..record }));
        self.left_out += other.left_out;
    }

    /// The kind of an operation, such as `tensor`; empty if the program does not name it.
    pub fn label(&self, record: &TaskCollective) -> &str {
        self.labels.get(record.label as usize).map_or("", String::as_str)
    }
}

/// Maximum number of recorded operations of a traffic source in [`TaskCollectives::records`].
pub const MAX_TASK_COLLECTIVES: usize = 200_000;

/// One collective operation of a communicator of at least two ranks, as the simulation measured it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskCollective {
    /// Index of the traffic source.
    pub traffic: u16,
    /// Index of the communicator.
    pub communicator: u32,
    /// Number of the operation on its communicator, counted from 0.
    pub number: u32,
    /// Step of the tasks that are the operation.
    pub step: u32,
    /// Index in [`TaskCollectives::labels`].
    pub label: u32,
    /// The operation.
    pub operation: CollectiveOperation,
    /// How the ranks carry it out.
    pub algorithm: Algorithm,
    /// Size in bytes, as nccl-tests counts it.
    pub bytes: u64,
    /// Number of ranks of the communicator.
    pub ranks: u32,
    /// Simulated time at which the first rank began the operation.
    #[serde(with = "stored::time")]
    pub start: Time,
    /// Simulated time at which the last rank began the operation; ranks that did not begin it are left out.
    #[serde(with = "stored::time")]
    pub last_start: Time,
    /// Simulated time at which the last rank completed the operation; `None` if a rank did not.
    #[serde(with = "stored::optional_time")]
    pub end: Option<Time>,
    /// The parts of the time from `start` to `end` on the critical path of the operation, which begins when a rank
    /// begins it; all 0 if the operation did not complete.
    pub path: PathRecord,
}

/// What the links transmitted in the steps of programs of tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StepLinks {
    /// The steps that all ranks completed, in the order of their ends; the first [`MAX_LINK_STEPS`] of a run.
    pub steps: Vec<LinksOfStep>,
    /// For each traffic source, the links of all its steps in `steps` that count in the statistics, together.
    pub measured: Vec<LinksOfSteps>,
    /// Whether steps are missing because of the limits on steps.
    pub is_truncated: bool,
}

/// Maximum number of steps of a run with records of links.
pub const MAX_LINK_STEPS: usize = 1_000;
/// Number of links in the record of a step: those that were sending for the largest fraction of its time.
pub const LINKS_OF_STEP: usize = 8;

/// The busiest links of one step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinksOfStep {
    /// Index of the traffic source.
    pub traffic: u16,
    /// The step.
    pub step: u32,
    /// Simulated time at which the first rank began the step.
    #[serde(with = "stored::time")]
    pub start: Time,
    /// Simulated time at which all ranks had completed the step.
    #[serde(with = "stored::time")]
    pub end: Time,
    /// The links that were sending for the largest fraction of the time, at most [`LINKS_OF_STEP`], busiest first.
    pub links: Vec<LinkOfStep>,
}

/// The busiest links of several steps of a traffic source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinksOfSteps {
    /// Index of the traffic source.
    pub traffic: u16,
    /// Number of steps.
    pub steps: u32,
    /// Sum of the times of the steps.
    #[serde(with = "stored::time")]
    pub time: Time,
    /// The links, as in [`LinksOfStep::links`], with sums over the steps.
    pub links: Vec<LinkOfStep>,
}

/// What the transmitters that send from one node to another transmitted in a step, of all traffic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkOfStep {
    /// Name of the direction: the sending and the receiving node, such as `leaf0:spine1`.
    pub name: String,
    /// Number of parallel links between the two nodes.
    pub transmitters: u32,
    /// Bytes of the frames whose transmission began in the step, frame gaps and pause frames not included.
    pub bytes: u64,
    /// Time for which the transmitters were sending, frame gaps included, summed over the transmitters.
    #[serde(with = "stored::time")]
    pub busy: Time,
}

impl LinkOfStep {
    /// Fraction of `time` for which the link was sending, from 0 to 1.
    pub fn utilisation(&self, time: Time) -> f64 {
        self.busy.as_ps() as f64 / (time.as_ps() as f64 * f64::from(self.transmitters)).max(1.0)
    }
}

/// One collective operation of one group, as the simulation measured it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CollectiveRecord {
    /// Index of the traffic source.
    pub traffic: u16,
    /// Index of the group.
    pub group: u32,
    /// Number of the operation in its group, counted from 0.
    pub repeat: u32,
    /// Simulated time at which the first rank of the group began the operation.
    #[serde(with = "crate::stored::time")]
    pub start: Time,
    /// Simulated time at which the last rank of the group began the operation.
    #[serde(with = "crate::stored::time")]
    pub last_start: Time,
    /// Simulated time at which the last rank of the group completed the operation; `None` if a rank did not.
    #[serde(with = "crate::stored::optional_time")]
    pub end: Option<Time>,
    /// The parts of the time from `start` to `end` on the critical path; all 0 if the operation did not complete.
    #[serde(default)]
    pub path: PathRecord,
}

/// The parts of a time on the critical path: the chain of computations and messages of which each begins when the
/// previous one ends, and whose last one ends last. The sum of the parts is exactly the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PathRecord {
    /// Time from the start of the first rank to the start of the rank at which the chain begins.
    #[serde(with = "crate::stored::time")]
    pub late: Time,
    /// Time for which ranks compute.
    #[serde(with = "crate::stored::time")]
    pub compute: Time,
    /// Time that the messages would take on an empty fabric, behind earlier messages of the same sender, and inside
    /// servers, with the reactions of the ranks.
    #[serde(with = "crate::stored::time")]
    pub network: Time,
    /// Time by which the messages are slower: queueing, pauses, retransmissions, and congestion control.
    #[serde(with = "crate::stored::time")]
    pub excess: Time,
    /// The parts of `excess`; `None` if the run does not measure them (`[watch] excess`).
    #[serde(default)]
    pub excess_parts: Option<ExcessRecord>,
}

/// Parts of the time by which messages on the critical path are slower than on an empty fabric. The rest is the time
/// for which messages wait at their senders without a pause or a retransmission: for congestion control, for the
/// window, or for other messages of the NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ExcessRecord {
    /// Time for which packets wait in switches while their output is not paused.
    #[serde(with = "crate::stored::time")]
    pub queueing: Time,
    /// Time for which packets wait in switches or at their sender while the transmitter is paused.
    #[serde(with = "crate::stored::time")]
    pub pause: Time,
    /// Time from the first transmission of packets to the one that arrives.
    #[serde(with = "crate::stored::time")]
    pub retransmission: Time,
}

/// One step of a program of tasks, such as a training step, as the simulation measured it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StepRecord {
    /// Index of the traffic source.
    pub traffic: u16,
    /// Number of the step, counted from 0.
    pub step: u32,
    /// Whether the step counts in the statistics.
    pub is_measured: bool,
    /// Simulated time at which the first rank began a task of the step.
    #[serde(with = "crate::stored::time")]
    pub start: Time,
    /// Simulated time at which the last rank completed the step; `None` if a rank did not.
    #[serde(with = "crate::stored::optional_time")]
    pub end: Option<Time>,
    /// Time for which the ranks computed, summed over all ranks.
    #[serde(with = "crate::stored::time")]
    pub compute: Time,
    /// Time for which the rank computed that computed longest.
    #[serde(with = "crate::stored::time", default)]
    pub longest_compute: Time,
    /// The parts of the time from `start` to `end` on the critical path; all 0 if no task of the step ended.
    #[serde(default)]
    pub path: PathRecord,
}

/// Operations of one kind of a program of tasks: messages, or collective operations of communicators with the same
/// number of ranks. Only operations that all ranks completed count.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OperationRecord {
    /// Index of the traffic source.
    pub traffic: u16,
    /// The kind, such as `tensor`.
    pub label: String,
    /// The operation; `None` for messages between two ranks.
    pub operation: Option<CollectiveOperation>,
    /// Number of ranks of each operation; 2 for messages.
    pub ranks: u32,
    /// Number of operations, each of one communicator.
    pub count: u64,
    /// Size of the operations in bytes, summed.
    pub bytes: u64,
    /// Time from the first rank's start to the last rank's end, summed over the operations.
    #[serde(with = "crate::stored::time")]
    pub total_time: Time,
    /// The longest time of an operation.
    #[serde(with = "crate::stored::time")]
    pub longest: Time,
}

/// A request that instances of a model answered, as the simulation measured it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AnsweredRequest {
    /// Index of the traffic source.
    pub traffic: u16,
    /// Number of the request, in order of arrival.
    pub request: u32,
    /// Simulated time at which the request arrived.
    #[serde(with = "crate::stored::time")]
    pub arrival: Time,
    /// Simulated time at which an instance began with the prompt; `None` if none did.
    #[serde(with = "crate::stored::optional_time")]
    pub begin: Option<Time>,
    /// Simulated time of the first token; `None` if the run ended before.
    #[serde(with = "crate::stored::optional_time")]
    pub first_token: Option<Time>,
    /// Simulated time of the last token; `None` if the run ended before.
    #[serde(with = "crate::stored::optional_time")]
    pub end: Option<Time>,
    /// Number of tokens that the request generates.
    pub output: u32,
}

/// The tasks of the ranks in the steps that the run records (`timeline`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// The kinds of tasks, such as `tensor`, to which [`TaskSpan::label`] refers.
    pub labels: Vec<String>,
    /// The tasks that ended, in order of traffic source, rank and start; at most [`MAX_TIMELINE`] of each source.
    pub spans: Vec<TaskSpan>,
    /// Number of tasks that are missing in `spans` because of its limit.
    pub left_out: u64,
}

impl Timeline {
    /// Adds the tasks of another traffic source.
    pub fn extend(&mut self, other: Timeline) {
        let first = self.labels.len() as u32;
        self.labels.extend(other.labels);
        self.spans.extend(other.spans.into_iter().map(|span| TaskSpan { label: span.label + first, ..span }));
        self.left_out += other.left_out;
    }
}

/// Maximum number of recorded tasks of a traffic source in [`Timeline::spans`].
pub const MAX_TIMELINE: usize = 200_000;

/// What a rank does in a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum TaskKind {
    /// It computes.
    Compute,
    /// It sends a message.
    Send,
    /// It waits for a message.
    Receive,
    /// It carries out its part of a collective operation.
    Collective(CollectiveOperation),
}

impl TaskKind {
    /// The name in result files.
    pub fn name(self) -> &'static str {
        match self {
            TaskKind::Compute => "compute",
            TaskKind::Send => "send",
            TaskKind::Receive => "receive",
            TaskKind::Collective(operation) => operation.name(),
        }
    }
}

/// A task of a rank, from its start to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct TaskSpan {
    /// Index of the traffic source.
    pub traffic: u16,
    /// The rank, as the traffic source counts them.
    pub rank: u32,
    /// Simulated time at which the rank began the task. A computation begins when the ones before it have ended.
    #[serde(with = "crate::stored::time")]
    pub start: Time,
    /// Simulated time at which the task ended.
    #[serde(with = "crate::stored::time")]
    pub end: Time,
    /// What the rank does.
    pub kind: TaskKind,
    /// Index in [`Timeline::labels`].
    pub label: u32,
}

/// What the programs of a run recorded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgramRecords {
    /// The collective operations that began, in order of traffic source, group and repetition.
    pub collectives: Vec<CollectiveRecord>,
    /// The steps that began, in order of traffic source and number.
    pub steps: Vec<StepRecord>,
    /// The operations of programs of tasks, in order of traffic source, label, operation and number of ranks.
    pub operations: Vec<OperationRecord>,
    /// The single collective operations of programs of tasks.
    pub task_collectives: TaskCollectives,
    /// The requests of inferences, in order of traffic source and arrival.
    pub answered: Vec<AnsweredRequest>,
    /// The tasks of the steps that the run records.
    pub timeline: Timeline,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_keep_their_kinds() {
        let record = |traffic, label| TaskCollective {
            traffic,
            communicator: 0,
            number: 0,
            step: 0,
            label,
            operation: CollectiveOperation::AllReduce,
            algorithm: Algorithm::Ring,
            bytes: 8,
            ranks: 2,
            start: Time::ZERO,
            last_start: Time::ZERO,
            end: None,
            path: PathRecord::default(),
        };
        let of = |traffic, labels: [&str; 2]| TaskCollectives {
            labels: labels.map(String::from).to_vec(),
            records: vec![record(traffic, 1)],
            left_out: 3,
        };
        let mut all = of(0, ["", "tensor"]);
        all.extend(of(1, ["", "data"]));
        let labels: Vec<&str> = all.records.iter().map(|record| all.label(record)).collect();
        assert_eq!((labels, all.left_out), (vec!["tensor", "data"], 6));
        assert_eq!(all.label(&record(0, 9)), "");
    }
}
