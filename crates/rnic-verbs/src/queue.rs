//! Completion queues and receive queues.

use crate::memory::Spans;
use crate::types::{Completion, Pd, Status, VerbsError};
use std::collections::VecDeque;

/// Which completions trigger a notification.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Notify {
    /// Completions of messages that the peer sent as solicited, and failed ones.
    Solicited,
    /// Every completion.
    Any,
}

/// A queue of completions with a fixed capacity.
pub(crate) struct CompletionQueue {
    queue: VecDeque<Completion>,
    capacity: u32,
    overflowed: bool,
    armed: Option<Notify>,
    notified: bool,
    /// Queue pairs that use the queue, counted once for sends and once for receives.
    pub(crate) users: u32,
}

impl CompletionQueue {
    pub(crate) fn new(capacity: u32) -> CompletionQueue {
        CompletionQueue { queue: VecDeque::new(), capacity, overflowed: false, armed: None, notified: false, users: 0 }
    }

    /// Adds a completion; `false` if it is the first that is lost because the queue is full. All later ones are lost
    /// too, so that the completions that can be polled have no gap.
    #[must_use]
    pub(crate) fn push(&mut self, completion: Completion, solicited: bool) -> bool {
        if self.overflowed || self.queue.len() >= self.capacity as usize {
            let first = !self.overflowed;
            self.overflowed = true;
            self.notified |= self.armed.take().is_some();
            return !first;
        }
        let urgent = solicited || completion.status != Status::Success;
        self.queue.push_back(completion);
        if self.armed == Some(Notify::Any) || (self.armed.is_some() && urgent) {
            self.armed = None;
            self.notified = true;
        }
        true
    }

    pub(crate) fn overflowed(&self) -> bool {
        self.overflowed
    }

    pub(crate) fn poll(&mut self, out: &mut [Completion]) -> Result<usize, VerbsError> {
        if self.overflowed && self.queue.is_empty() {
            return Err(VerbsError::Overflow);
        }
        let count = out.len().min(self.queue.len());
        for (to, from) in out.iter_mut().zip(self.queue.drain(..count)) {
            *to = from;
        }
        Ok(count)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Requests a notification of the next completion of this kind; those in the queue trigger none. After an overflow
    /// no completion will follow: then the notification comes immediately.
    pub(crate) fn arm(&mut self, notify: Notify) {
        if self.overflowed {
            self.notified = true;
            return;
        }
        // A later request for solicited completions leaves one for all completions in force.
        self.armed = self.armed.max(Some(notify));
    }

    pub(crate) fn take_notification(&mut self) -> bool {
        std::mem::take(&mut self.notified)
    }
}

/// A posted receive.
#[derive(Clone, Debug)]
pub(crate) struct Receive {
    pub(crate) wr_id: u64,
    pub(crate) scatter: Spans,
    /// Bytes of the message that fit.
    pub(crate) room: u64,
}

/// Receives in order of posting.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    pub(crate) queue: VecDeque<Receive>,
    pub(crate) capacity: u32,
    pub(crate) max_sge: u32,
}

impl ReceiveQueue {
    pub(crate) fn new(capacity: u32, max_sge: u32) -> ReceiveQueue {
        ReceiveQueue { queue: VecDeque::new(), capacity, max_sge }
    }

    /// Adds a receive; messages in progress hold `taken` of the capacity.
    pub(crate) fn post(&mut self, receive: Receive, taken: usize) -> Result<(), VerbsError> {
        if self.queue.len() + taken >= self.capacity as usize {
            return Err(VerbsError::Full("receive queue"));
        }
        self.queue.push_back(receive);
        Ok(())
    }
}

/// A receive queue that several queue pairs share.
pub(crate) struct SharedReceiveQueue {
    pub(crate) pd: Pd,
    pub(crate) receives: ReceiveQueue,
    /// Fewer receives than this raise an event, once; 0 for none.
    pub(crate) limit: u32,
    pub(crate) users: u32,
}

impl SharedReceiveQueue {
    /// Whether the event is due; then resets the limit to 0.
    #[must_use]
    pub(crate) fn reaches_limit(&mut self) -> bool {
        let reached = (self.receives.queue.len() as u64) < u64::from(self.limit);
        if reached {
            self.limit = 0;
        }
        reached
    }
}
