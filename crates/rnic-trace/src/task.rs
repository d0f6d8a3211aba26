//! Tasks of ranks: the computations, messages and collective operations of a distributed program, and their
//! dependencies.
//!
//! A [`Graph`] has the tasks of all ranks. Each rank takes them one after the other from a generator, so a graph need
//! not be in memory.

use rnic_spec::CollectiveOperation;
use rnic_transport::Time;
use smallvec::SmallVec;
use std::fmt::Debug;
use std::sync::Arc;

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Computes for `time`. Each processor of a rank carries out one computation at a time, in the order in which they
    /// can begin.
    Compute {
        /// Length of the computation.
        time: Time,
        /// Number of the processor, such as a stream of an accelerator; 0 in programs with one processor.
        processor: u8,
    },
    /// Sends a message. The task completes when the sender knows that all bytes have arrived.
    Send {
        /// The receiving rank.
        to: u32,
        /// Number of payload bytes; 0 counts as 1.
        bytes: u64,
        /// Tag of the message. Messages with the same sender and the same tag match receive tasks in order.
        tag: u64,
    },
    /// Waits for a message.
    Receive {
        /// The sending rank; `None` for a message of any rank.
        from: Option<u32>,
        /// Tag of the message.
        tag: u64,
    },
    /// The rank's part of a collective operation. The n-th collective task of a rank on a communicator, and the n-th
    /// collective task of each other rank of this communicator, form one operation. It begins after the rank's previous
    /// collective task on the communicator.
    Collective {
        /// Index in [`Graph::communicators`].
        communicator: u32,
        /// The operation.
        operation: CollectiveOperation,
        /// Size as nccl-tests counts it: see [`rnic_spec::Collective::size`]. If an operation has fewer bytes than
        /// ranks or channels, it has one byte for each.
        bytes: u64,
    },
    /// Does nothing, and completes at once.
    Nothing,
}

/// A task of a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Number of the task, unique among the tasks of its rank.
    pub id: u64,
    /// Earlier tasks of the same rank that must have completed before this one begins.
    pub after: SmallVec<[u64; 4]>,
    /// What the task does.
    pub work: Work,
    /// Number of the step (such as a training step) to which the task belongs.
    pub step: u32,
    /// Index in [`Graph::labels`].
    pub label: u32,
}

/// What a rank does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Offer {
    /// It has another task.
    Task(Task),
    /// The rank may have a further task at this time, or when one of its tasks has completed.
    Later(Time),
    /// It may have a task when one of its tasks has completed.
    Waits,
    /// It has no other task.
    End,
}

/// The tasks of one rank, one after the other. A task comes after the tasks on which it depends.
pub trait Tasks: Debug + Send {
    /// The next task; `None` after the last one.
    ///
    /// # Errors
    /// One sentence that says why the tasks cannot be read.
    fn next(&mut self) -> Result<Option<Task>, String>;

    /// The next task of a rank whose tasks depend on events before the time `now`. `is_open` returns whether an earlier
    /// task has not completed. By default, tasks do not depend on the time or on completions.
    ///
    /// # Errors
    /// As [`next`](Tasks::next).
    fn offer(&mut self, now: Time, is_open: &dyn Fn(u64) -> bool) -> Result<Offer, String> {
        let _ = (now, is_open);
        Ok(self.next()?.map_or(Offer::End, Offer::Task))
    }
}

/// The tasks of all ranks of a program.
#[derive(Debug)]
pub struct Graph {
    /// The ranks of each communicator, in the order in which the algorithms number them.
    pub communicators: Vec<Arc<[u32]>>,
    /// Names of the kinds of tasks, such as `tensor`.
    pub labels: Vec<String>,
    /// The tasks of each rank.
    pub tasks: Vec<Box<dyn Tasks>>,
}

/// A task of a file, with its name for error messages, which may be empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    pub(crate) task: Task,
    pub(crate) name: Box<str>,
}

impl Named {
    /// What names the task in a sentence: its number, and its name.
    pub(crate) fn label(&self) -> String {
        match self.name.is_empty() {
            true => format!("task {}", self.task.id),
            false => format!("task {} (\"{}\")", self.task.id, self.name.escape_debug()),
        }
    }
}
