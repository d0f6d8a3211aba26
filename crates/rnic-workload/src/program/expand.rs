//! The tasks of a traffic source as a graph, and collective operations as messages: for files in formats of traces.

use super::collectives;
use super::job::of_communicator;
use super::operation::{Action, After, Mark, Operation, Operations, Tag};
use super::{position, rank_at, trace, training};
use rnic_spec::{Collective, Straggler, Traffic, TrafficPattern};
use rnic_trace::{Graph, Task, Tasks, Work};
use rnic_transport::Time;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The tasks of a traffic source, and how its ranks carry out collective operations.
///
/// # Errors
/// One sentence: the pattern has no tasks, tasks that depend on the time (`inference`), or a trace that cannot be read.
pub(super) fn graph(traffic: &Traffic) -> Result<(Graph, Collective), String> {
    match &traffic.pattern {
        TrafficPattern::Collective(collective) => Ok((of_collective(collective), collective.clone())),
        TrafficPattern::Training(training) => Ok((training::graph(training), training.plan())),
        TrafficPattern::Trace(trace) => Ok((trace::graph(trace)?, trace.plan())),
        TrafficPattern::Inference(_) => {
            Err(format!("the tasks of traffic `{}` depend on the network: the pattern is inference", traffic.name))
        }
        _ => Err(format!(
            "traffic `{}` has no tasks; accepted: the patterns collective, training and trace",
            traffic.name
        )),
    }
}

/// Computations and operations of the ranks of a collective traffic source.
fn of_collective(collective: &Collective) -> Graph {
    let group = |group| (0..collective.group).map(|position| rank_at(collective, group, position)).collect();
    let tasks = (0..collective.ranks).map(|rank| -> Box<dyn Tasks> {
        let straggler = collective.straggler.filter(|straggler| straggler.rank == rank);
        let delay = straggler.map_or(Time::ZERO, |Straggler { delay, .. }| delay);
        let (communicator, _) = position(collective, rank);
        let Collective { operation, size, repeats, .. } = *collective;
        let work = Work::Collective { communicator, operation, bytes: size.0 };
        Box::new(Repeated { compute: collective.compute.saturating_add(delay), work, repeats, id: 0 })
    });
    Graph {
        communicators: (0..collective.groups()).map(group).collect(),
        labels: vec![String::new()],
        tasks: tasks.collect(),
    }
}

/// Computations and collective operations in turn.
#[derive(Debug)]
struct Repeated {
    compute: Time,
    work: Work,
    repeats: u32,
    /// Id of the latest task: odd for computations.
    id: u64,
}

impl Tasks for Repeated {
    fn next(&mut self) -> Result<Option<Task>, String> {
        if self.id >= 2 * u64::from(self.repeats) {
            return Ok(None);
        }
        let before = self.id;
        self.id += if self.compute == Time::ZERO { 2 } else { 1 };
        let work =
            if self.id.is_multiple_of(2) { self.work } else { Work::Compute { time: self.compute, processor: 0 } };
        let after = (before > 0).then_some(before).into_iter().collect();
        Ok(Some(Task { id: self.id, after, work, step: 0, label: 0 }))
    }
}

/// The same tasks with messages instead of collective operations, carried out as `plan` says.
pub(super) fn expand(graph: Graph, plan: &Collective) -> Graph {
    let communicators: Arc<[Arc<[u32]>]> = graph.communicators.into();
    let tasks = (0..).zip(graph.tasks).map(|(rank, tasks)| -> Box<dyn Tasks> {
        Box::new(Expanded {
            rank,
            plan: plan.clone(),
            communicators: communicators.clone(),
            tasks,
            queue: VecDeque::new(),
            id: 0,
            ids: BTreeMap::new(),
            latest: BTreeMap::new(),
        })
    });
    Graph { communicators: Vec::new(), labels: graph.labels, tasks: tasks.collect() }
}

/// The tasks of a rank, with messages instead of collective operations.
#[derive(Debug)]
struct Expanded {
    rank: u32,
    plan: Collective,
    communicators: Arc<[Arc<[u32]>]>,
    tasks: Box<dyn Tasks>,
    queue: VecDeque<Task>,
    /// Id of the latest task.
    id: u64,
    /// The task that completes with the task of this id of the graph.
    ids: BTreeMap<u64, u64>,
    /// For each communicator, the number of its operations so far, and the task that ends the latest one.
    latest: BTreeMap<u32, (u32, u64)>,
}

/// Number of bits of a message's number and of an operation's number in a tag, below the number of the communicator.
const BITS: u32 = 24;
const SEQUENCE_BITS: u32 = 20;

impl Expanded {
    fn add(&mut self, like: &Task, work: Work, after: SmallVec<[u64; 4]>) -> u64 {
        self.id += 1;
        self.queue.push_back(Task { id: self.id, after, work, step: like.step, label: like.label });
        self.id
    }

    /// The tag of a message of an operation. Messages outside of collective operations keep their tags, which may not
    /// have this form.
    fn tag(&self, communicator: u32, tag: Tag) -> Result<u64, String> {
        let (Tag::From(number) | Tag::Any(number)) = tag;
        let (sequence, message) = (u64::from(tag.repeat()), number & ((1 << Tag::MESSAGE_BITS) - 1));
        let communicator = u64::from(communicator) + 1;
        if message >> BITS > 0 || sequence >> SEQUENCE_BITS > 0 || communicator >> (64 - BITS - SEQUENCE_BITS) > 0 {
            return Err(format!(
                "a collective operation of rank {} has more than {} messages, a group more than {} operations, or the trace \
                 more than {} groups; accepted: a larger `chunk`",
                self.rank,
                1_u64 << BITS,
                1_u64 << SEQUENCE_BITS,
                1_u64 << (64 - BITS - SEQUENCE_BITS)
            ));
        }
        Ok(communicator << (BITS + SEQUENCE_BITS) | sequence << BITS | message)
    }

    /// Adds the messages of a collective operation that begins after `after`; returns the task that ends it.
    fn collective(
        &mut self, task: &Task, mut operations: Box<dyn Operations>, communicator: u32, after: &SmallVec<[u64; 4]>,
    ) -> Result<u64, String> {
        // For each operation so far, the task that ends it.
        let mut ends: Vec<u64> = Vec::new();
        while let Some(Operation { action, after: depends, mark }) = operations.next() {
            debug_assert_eq!(mark, Mark::None);
            let own: SmallVec<[u64; 4]> = match depends {
                After::Nothing => SmallVec::new(),
                After::All => ends.iter().copied().collect(),
                After::Earlier(distances) => {
                    let earlier = distances.iter().filter_map(|distance| ends.len().checked_sub(*distance as usize));
                    earlier.map(|index| ends[index]).collect()
                }
            };
            let after = if own.is_empty() { after.clone() } else { own };
            let end = match action {
                Action::Send { to, bytes, tag, .. } => {
                    let tag = self.tag(communicator, tag)?;
                    self.add(task, Work::Send { to, bytes, tag }, after)
                }
                Action::Reduce { .. } | Action::Multicast { .. } => {
                    let error = "an all-reduce with \"nvls\" is carried out by the switch of a server, not by messages";
                    return Err(format!("{error}; accepted: another `algorithm`"));
                }
                Action::Receive { from, tag } => {
                    let tag = self.tag(communicator, tag)?;
                    self.add(task, Work::Receive { from: Some(from), tag }, after)
                }
                Action::Gather { messages, tag } => {
                    let tag = self.tag(communicator, tag)?;
                    let receive = Work::Receive { from: None, tag };
                    let all: SmallVec<[u64; 4]> =
                        (0..messages).map(|_| self.add(task, receive, after.clone())).collect();
                    self.add(task, Work::Nothing, all)
                }
                Action::Compute { time } => self.add(task, Work::Compute { time, processor: 0 }, after),
                Action::Join => self.add(task, Work::Nothing, after),
            };
            ends.push(end);
        }
        let all = ends.into_iter().chain(after.iter().copied()).collect();
        Ok(self.add(task, Work::Nothing, all))
    }
}

impl Tasks for Expanded {
    fn next(&mut self) -> Result<Option<Task>, String> {
        while self.queue.is_empty() {
            let Some(task) = self.tasks.next()? else { return Ok(None) };
            let mut after: SmallVec<[u64; 4]> =
                task.after.iter().filter_map(|earlier| self.ids.get(earlier)).copied().collect();
            let end = match task.work {
                Work::Collective { communicator, operation, bytes } => {
                    let ranks = self.communicators.get(communicator as usize).cloned();
                    let ranks = ranks.ok_or_else(|| format!("communicator {communicator} does not exist"))?;
                    let position = ranks.iter().position(|rank| *rank == self.rank);
                    let position = position.ok_or_else(|| {
                        format!("rank {} is not in communicator {communicator} of its task {}", self.rank, task.id)
                    })?;
                    let sequence = self.latest.get(&communicator).map_or(0, |(number, _)| number + 1);
                    after.extend(self.latest.get(&communicator).map(|(_, id)| *id));
                    let end = match ranks.len() {
                        0 | 1 => self.add(&task, Work::Nothing, after),
                        _ => {
                            let collective = of_communicator(&self.plan, &ranks, operation, bytes);
                            let operations = collectives::once(&collective, ranks, position as u32, (0, sequence));
                            self.collective(&task, operations, communicator, &after)?
                        }
                    };
                    self.latest.insert(communicator, (sequence, end));
                    end
                }
                work => self.add(&task, work, after),
            };
            self.ids.insert(task.id, end);
        }
        Ok(self.queue.pop_front())
    }
}
