//! Sorts the tasks of a rank, so that each task comes after the tasks on which it depends.

use super::task::{Named, Task, Tasks};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of tasks that are held back because a task on which they depend comes later in the file.
const WINDOW: usize = 100_000;
/// Maximum number of gaps between the numbers of tasks.
const MAX_GAPS: usize = 4_000_000;

/// A source of tasks in the order of a file.
pub(crate) trait Unordered: std::fmt::Debug + Send {
    fn read(&mut self) -> Result<Option<Named>, String>;
}

/// A set of numbers that are mostly consecutive, as ranges.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn contains(&self, number: u64) -> bool {
        self.0.range(..=number).next_back().is_some_and(|(_, last)| *last >= number)
    }

    fn insert(&mut self, number: u64) {
        let below = self.0.range(..number).next_back().filter(|(_, last)| Some(**last) == number.checked_sub(1));
        let first = below.map_or(number, |(first, _)| *first);
        let last = number.checked_add(1).and_then(|next| self.0.remove(&next)).unwrap_or(number);
        self.0.insert(first, last);
    }
}

/// The tasks of a rank in the order of their dependencies; tasks that do not depend on each other stay in the order of
/// the file.
#[derive(Debug)]
pub(crate) struct Ordered<S> {
    rank: u32,
    source: S,
    is_over: bool,
    /// Tasks that may be handed out.
    ready: VecDeque<Task>,
    /// Tasks that wait, with the number of tasks for which each waits.
    waiting: BTreeMap<u64, (Named, usize)>,
    /// The tasks that wait for a task, by the name of that task, which was not read yet or waits itself.
    dependents: BTreeMap<u64, SmallVec<[u64; 4]>>,
    /// Tasks that are ready or have been handed out.
    done: Ranges,
}

impl<S: Unordered> Ordered<S> {
    pub(crate) fn new(rank: u32, source: S) -> Ordered<S> {
        Ordered {
            rank,
            source,
            is_over: false,
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            dependents: BTreeMap::new(),
            done: Ranges::default(),
        }
    }

    fn add(&mut self, mut named: Named) -> Result<(), String> {
        let Ordered { rank, done, waiting, dependents, .. } = self;
        let task = &mut named.task;
        if done.contains(task.id) || waiting.contains_key(&task.id) {
            return Err(format!("rank {rank} has two tasks with the number {}", task.id));
        }
        if task.after.contains(&task.id) {
            return Err(format!("{} of rank {rank} depends on itself", named.label()));
        }
        task.after.sort_unstable();
        task.after.dedup();
        let missing: SmallVec<[u64; 4]> = task.after.iter().copied().filter(|id| !done.contains(*id)).collect();
        if missing.is_empty() {
            self.release(named.task);
            return match self.done.0.len() > MAX_GAPS {
                true => Err(format!("the numbers of the tasks of rank {} have more than {MAX_GAPS} gaps", self.rank)),
                false => Ok(()),
            };
        }
        if waiting.len() >= WINDOW {
            return Err(format!(
                "{} of rank {rank} depends on task {}, which does not come within the next {WINDOW} tasks",
                named.label(),
                missing[0]
            ));
        }
        let id = named.task.id;
        missing.iter().for_each(|earlier| dependents.entry(*earlier).or_default().push(id));
        waiting.insert(id, (named, missing.len()));
        Ok(())
    }

    /// Makes a task ready, and the tasks that waited for it alone.
    fn release(&mut self, task: Task) {
        let mut released = VecDeque::from([task]);
        while let Some(task) = released.pop_front() {
            self.done.insert(task.id);
            for dependent in self.dependents.remove(&task.id).unwrap_or_default() {
                let Some((_, missing)) = self.waiting.get_mut(&dependent) else { continue };
                *missing -= 1;
                if *missing == 0
                    && let Some((named, _)) = self.waiting.remove(&dependent)
                {
                    released.push_back(named.task);
                }
            }
            self.ready.push_back(task);
        }
    }

    /// Why tasks are left that wait for others, as a sentence.
    fn left(&self) -> Option<String> {
        let rank = self.rank;
        let (first, _) = self.waiting.values().next()?;
        for (named, _) in self.waiting.values() {
            let dangling =
                named.task.after.iter().find(|id| !self.done.contains(**id) && !self.waiting.contains_key(*id));
            if let Some(id) = dangling {
                return Some(format!("{} of rank {rank} depends on task {id}, which does not exist", named.label()));
            }
        }
        // Each waiting task depends on a waiting one, so following these dependencies leads into a circle.
        let mut way: Vec<u64> = vec![first.task.id];
        let circle = loop {
            let (named, _) = self.waiting.get(way.last()?)?;
            let next = *named.task.after.iter().find(|id| self.waiting.contains_key(*id))?;
            if let Some(position) = way.iter().position(|id| *id == next) {
                break &way[position..];
            }
            way.push(next);
        };
        let names: Vec<String> = circle.iter().take(6).map(u64::to_string).collect();
        let more = if circle.len() > names.len() { " and others" } else { "" };
        Some(format!("tasks {}{more} of rank {rank} depend on each other in a circle", names.join(", ")))
    }
}

impl<S: Unordered> Tasks for Ordered<S> {
    fn next(&mut self) -> Result<Option<Task>, String> {
        while self.ready.is_empty() && !self.is_over {
            match self.source.read()? {
                Some(task) => self.add(task)?,
                None => self.is_over = true,
            }
        }
        match self.ready.pop_front() {
            Some(task) => Ok(Some(task)),
            None => self.left().map_or(Ok(None), Err),
        }
    }
}
