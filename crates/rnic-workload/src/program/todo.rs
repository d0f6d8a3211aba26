//! The tasks of a rank: those that are open, and which of them can begin.

use super::Agenda;
use rnic_trace::{Offer, Task, Tasks, Work};
use rnic_transport::Time;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Number of open tasks of a rank, unless nothing else can happen. A dependency on an earlier task may go back further,
/// because tasks that have completed are no longer open.
const AHEAD: usize = 4_096;
/// Maximum number of open tasks of a rank.
const MOST_AHEAD: usize = 1 << 20;

/// A task that has been taken from the generator and has not completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OpenTask {
    pub work: Work,
    pub step: u32,
    pub label: u32,
    /// Number of the collective operation on its communicator.
    pub sequence: u32,
    /// Time at which the rank began the task.
    pub begun: Time,
}

#[derive(Debug)]
struct Open {
    task: OpenTask,
    /// Number of tasks that must complete before this one begins.
    waits: u32,
    /// Tasks that wait for this one.
    dependents: SmallVec<[u64; 4]>,
}

/// The tasks of a rank.
#[derive(Debug)]
pub(super) struct Todo {
    tasks: Box<dyn Tasks>,
    exhausted: bool,
    /// Maximum number of open tasks.
    ahead: usize,
    /// The latest time at which the rank asked to be asked again.
    later: Time,
    /// Step of the latest task that has been taken.
    step: u32,
    open: BTreeMap<u64, Open>,
    /// Number of open tasks of each step.
    of_step: BTreeMap<u32, u32>,
    /// For each communicator, the number of collective operations so far, and the task of the latest one.
    latest: BTreeMap<u32, (u32, u64)>,
}

/// What came of the attempt to take another task.
pub(super) enum Next {
    /// The task with this id can begin.
    Begins(u64),
    /// The task waits for others.
    Waits,
    /// The rank may have a task at this time.
    Later(Time),
    /// Enough tasks are open, or the rank has no task now.
    Nothing,
}

impl Todo {
    pub(super) fn new(tasks: Box<dyn Tasks>) -> Todo {
        Todo {
            tasks,
            exhausted: false,
            ahead: AHEAD,
            later: Time::ZERO,
            step: 0,
            open: BTreeMap::new(),
            of_step: BTreeMap::new(),
            latest: BTreeMap::new(),
        }
    }

    /// Notes that the open task with this id begins.
    pub(super) fn begin(&mut self, id: u64, now: Time) -> Option<OpenTask> {
        let task = &mut self.open.get_mut(&id)?.task;
        task.begun = now;
        Some(*task)
    }

    /// The first step of which a task has not completed; [`u32::MAX`] if all have.
    pub(super) fn unfinished_step(&self) -> u32 {
        let open = self.of_step.keys().next().copied();
        let to_come = if self.exhausted { u32::MAX } else { self.step };
        open.map_or(to_come, |step| step.min(to_come))
    }

    /// Takes the next task from the generator, unless enough are open.
    ///
    /// # Errors
    /// One sentence that says why the tasks cannot be read. There are no further tasks.
    pub(super) fn take_next(&mut self, now: Time) -> Result<Next, String> {
        if self.exhausted || self.open.len() >= self.ahead {
            return Ok(Next::Nothing);
        }
        let offer = self.tasks.offer(now, &|id| self.open.contains_key(&id));
        let Task { id, mut after, work, step, label } = match offer.inspect_err(|_| self.exhausted = true)? {
            Offer::Task(task) => task,
            Offer::Later(time) if time > self.later => {
                self.later = time;
                return Ok(Next::Later(time));
            }
            Offer::Later(_) | Offer::Waits => return Ok(Next::Nothing),
            Offer::End => {
                self.exhausted = true;
                return Ok(Next::Nothing);
            }
        };
        if self.open.contains_key(&id) {
            self.exhausted = true;
            return Err(format!("two tasks have the id {id}"));
        }
        let mut sequence = 0;
        if let Work::Collective { communicator, .. } = work {
            // A communicator carries out its operations one after the other.
            match self.latest.get_mut(&communicator) {
                None => drop(self.latest.insert(communicator, (0, id))),
                Some((number, latest)) => {
                    after.push(*latest);
                    *number += 1;
                    *latest = id;
                    sequence = *number;
                }
            }
        }
        after.sort_unstable();
        after.dedup();
        let mut waits = 0;
        for earlier in after {
            if let Some(earlier) = self.open.get_mut(&earlier) {
                earlier.dependents.push(id);
                waits += 1;
            }
        }
        self.step = step;
        *self.of_step.entry(step).or_default() += 1;
        let task = OpenTask { work, step, label, sequence, begun: Time::ZERO };
        self.open.insert(id, Open { task, waits, dependents: SmallVec::new() });
        Ok(if waits == 0 { Next::Begins(id) } else { Next::Waits })
    }

    /// Allows more open tasks; returns whether this helps.
    pub(super) fn look_further(&mut self) -> bool {
        let helps = !self.exhausted && self.open.len() >= self.ahead && self.ahead < MOST_AHEAD;
        if helps {
            self.ahead *= 2;
        }
        helps
    }

    /// Completes a task; returns the task, and those that can begin.
    pub(super) fn complete(&mut self, id: u64) -> Option<(OpenTask, SmallVec<[u64; 4]>)> {
        let Open { task, dependents, .. } = self.open.remove(&id)?;
        if let Some(count) = self.of_step.get_mut(&task.step) {
            *count -= 1;
            if *count == 0 {
                self.of_step.remove(&task.step);
            }
        }
        let mut begun = SmallVec::new();
        for dependent in dependents {
            if let Some(open) = self.open.get_mut(&dependent) {
                open.waits -= 1;
                if open.waits == 0 {
                    begun.push(dependent);
                }
            }
        }
        Some((task, begun))
    }

    /// The first open task that waits for nothing but its own work, and what it waits for, as words. `of_collective`
    /// returns what a collective task waits for.
    pub(super) fn waits_for(
        &self, agenda: &Agenda, job: u32, of_collective: impl Fn(u64) -> Option<String>,
    ) -> Option<String> {
        let (id, open) = self.open.iter().find(|(_, open)| open.waits == 0).or_else(|| self.open.iter().next())?;
        let OpenTask { work, step, label, .. } = open.task;
        let what = match work {
            Work::Receive { from: Some(from), tag } => format!("a message from rank {from} with the tag {tag}"),
            Work::Receive { from: None, tag } => format!("a message from any rank with the tag {tag}"),
            Work::Send { to, bytes, .. } => format!("the arrival of {bytes} B at rank {to}"),
            Work::Compute { time, .. } => format!("the end of a computation of {time}"),
            Work::Collective { operation, .. } => {
                let detail = of_collective(*id).map_or(String::new(), |what| format!(": {what}"));
                format!("an operation \"{}\"{detail}", operation.name())
            }
            Work::Nothing => "earlier tasks".to_string(),
        };
        let label = agenda.label(job, label);
        let label = if label.is_empty() { label } else { format!(" ({label})") };
        Some(format!("{what}, in task {id}{label} of step {step}"))
    }
}
