//! A sequence of operations that a rank carries out: its open operations, and which of them can begin.

use super::operation::{Action, After, Distances, Mark, Operation, Operations};
use super::path::Path;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// An operation that has been taken from the generator.
#[derive(Clone, Debug)]
struct Open {
    action: Action,
    mark: Mark,
    /// Number of operations that must complete before this one begins. [`BARRIER`] if all earlier ones must.
    waits: u32,
    done: bool,
    /// Operations that wait for this one, as distances from it.
    dependents: Distances,
}

/// Value of [`Open::waits`] for an operation that waits for all earlier ones.
const BARRIER: u32 = u32::MAX;

/// A sequence of operations of a rank.
#[derive(Debug)]
pub(super) struct Lane {
    operations: Box<dyn Operations>,
    exhausted: bool,
    /// The operations from the first open one on; `first` is the number of the first one.
    window: VecDeque<Open>,
    first: u64,
    /// Number of operations in `window` that have not completed.
    open: usize,
    /// Space of the tags of the operations.
    pub space: u32,
    /// The task that the operations carry out, and its step.
    pub task: Option<u64>,
    pub step: u32,
    /// The path to the beginning of the task, until the first operation is taken.
    pub opening: Option<Path>,
}

/// What came of the attempt to take another operation.
pub(super) enum Taken {
    /// The operation with this number can begin.
    Begins(u64),
    /// An operation waits for others.
    Waits,
    /// Enough operations are open, or there is no other.
    Nothing,
}

impl Lane {
    /// A sequence whose tags are of the space `space`.
    pub(super) fn new(operations: Box<dyn Operations>, space: u32) -> Lane {
        let window = VecDeque::new();
        let (task, step, opening) = (None, 0, None);
        Lane { operations, exhausted: false, window, first: 0, open: 0, space, task, step, opening }
    }

    /// The same sequence, which carries out a task that begins at the end of `path`.
    pub(super) fn of_task(self, task: u64, path: Path) -> Lane {
        Lane { task: Some(task), step: path.step, opening: Some(path), ..self }
    }

    /// Whether all operations have completed.
    pub(super) fn is_over(&self) -> bool {
        self.exhausted && self.window.is_empty()
    }

    /// What the operation with this number does.
    pub(super) fn action(&self, number: u64) -> Action {
        self.window[(number - self.first) as usize].action
    }

    /// Completes an operation; returns its mark, and the operations that can begin.
    pub(super) fn complete(&mut self, number: u64) -> (Mark, SmallVec<[u64; 4]>) {
        let index = (number - self.first) as usize;
        let operation = &mut self.window[index];
        let (mark, dependents) = (operation.mark, std::mem::take(&mut operation.dependents));
        operation.done = true;
        self.open -= 1;
        let mut begun = SmallVec::new();
        for distance in dependents {
            let dependent = &mut self.window[index + distance as usize];
            dependent.waits -= 1;
            if dependent.waits == 0 {
                begun.push(number + u64::from(distance));
            }
        }
        while self.window.front().is_some_and(|operation| operation.done) {
            self.window.pop_front();
            self.first += 1;
        }
        if self.window.front().is_some_and(|operation| operation.waits == BARRIER) {
            self.window[0].waits = 0;
            begun.push(self.first);
        }
        (mark, begun)
    }

    /// Takes the next operation from the generator, unless enough are open.
    pub(super) fn take_next(&mut self) -> Taken {
        let barrier = self.window.back().is_some_and(|operation| operation.waits == BARRIER);
        if self.exhausted || barrier || self.open >= self.operations.ahead() {
            return Taken::Nothing;
        }
        let Some(Operation { action, after, mark }) = self.operations.next() else {
            self.exhausted = true;
            return Taken::Nothing;
        };
        let position = self.window.len();
        let mut waits = 0;
        match after {
            After::Nothing => {}
            After::All if position == 0 => {}
            After::All => waits = BARRIER,
            After::Earlier(distances) => {
                for distance in distances {
                    let earlier = position.checked_sub(distance as usize).and_then(|index| self.window.get_mut(index));
                    if let Some(earlier) = earlier.filter(|earlier| !earlier.done) {
                        earlier.dependents.push(distance);
                        waits += 1;
                    }
                }
            }
        }
        self.window.push_back(Open { action, mark, waits, done: false, dependents: Distances::new() });
        self.open += 1;
        if waits == 0 { Taken::Begins(self.first + position as u64) } else { Taken::Waits }
    }

    /// What the first open operation waits for, as words; `None` if all operations have completed.
    pub(super) fn waits_for(&self, name: impl Fn(u32) -> u32) -> Option<String> {
        let open = self.window.front()?;
        Some(match open.action {
            Action::Receive { from, .. } => format!("a message from rank {}", name(from)),
            Action::Gather { messages, .. } => format!("{messages} messages"),
            Action::Reduce { to, bytes, .. } => format!("{bytes} B for a sum at rank {}", name(to)),
            Action::Multicast { bytes, .. } => format!("the arrival of {bytes} B at all ranks of its server"),
            Action::Send { to, bytes, .. } => format!("the arrival of {bytes} B at rank {}", name(to)),
            Action::Compute { time } => format!("the end of a computation of {time}"),
            Action::Join => "earlier operations".to_string(),
        })
    }
}
