//! Records of the single collective operations of programs of tasks, such as those of a training step.

use crate::collective::{Algorithm, CollectiveOperation, PathRecord};
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
    /// Simulated time at which the last rank began the operation, of those that did.
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
