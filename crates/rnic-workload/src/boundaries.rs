//! The instants at which steps of programs begin and end, for an observer of the fabric.

use rnic_transport::Time;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An instant at which a step begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Boundary {
    /// The instant.
    pub at: Time,
    /// Index of the traffic source.
    pub traffic: u16,
    /// The step.
    pub step: u32,
    /// Whether the step counts in the statistics.
    pub is_measured: bool,
    /// Whether the step begins; otherwise all ranks have completed it.
    pub begins: bool,
}

/// The boundaries that an observer has not taken, in order of time.
#[derive(Clone, Debug, Default)]
pub struct StepBoundaries(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    boundaries: VecDeque<Boundary>,
    is_closed: bool,
}

impl StepBoundaries {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time of the next boundary; [`Time::MAX`] if none is known.
    pub fn next(&self) -> Time {
        self.lock().boundaries.front().map_or(Time::MAX, |boundary| boundary.at)
    }

    /// Takes the next boundary at `now` or earlier.
    pub fn take(&self, now: Time) -> Option<Boundary> {
        self.lock().boundaries.pop_front_if(|boundary| boundary.at <= now)
    }

    /// Ends the observation, and discards later boundaries.
    pub fn close(&self) {
        *self.lock() = Queue { boundaries: VecDeque::new(), is_closed: true };
    }

    pub(crate) fn add(&self, boundary: Boundary) {
        let mut queue = self.lock();
        if !queue.is_closed {
            queue.boundaries.push_back(boundary);
        }
    }
}
