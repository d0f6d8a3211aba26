//! Completion queues, receive queues and shared receive queues of a device.

use crate::memory::Spans;
use crate::types::{Completion, Pd, Qpn, Status, VerbsError};
use std::collections::VecDeque;

/// The kind of completions of which a completion queue notifies the application, when the application requests a
/// notification.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Notify {
    /// Solicited completions: completions of messages that the peer sent with the solicited flag, and completions of
    /// failed work requests.
    Solicited,
    /// Every completion.
    Any,
}

/// Allocates memory for `capacity` entries of a new queue, so that the queue never has to allocate memory later, when
/// an allocation that fails would end the program.
///
/// # Errors
/// If the system has no memory for them.
pub(crate) fn reserve<T>(queue: &mut VecDeque<T>, capacity: u32, what: &'static str) -> Result<(), VerbsError> {
    let bytes = u64::from(capacity) * size_of::<T>() as u64;
    queue.try_reserve_exact(capacity as usize).map_err(|_| VerbsError::NoMemory { what, bytes })
}

/// A queue of completions with a fixed capacity.
pub(crate) struct CompletionQueue {
    queue: VecDeque<Completion>,
    capacity: u32,
    overflowed: bool,
    armed: Option<Notify>,
    notified: bool,
    /// Number of queue pairs that use the queue. A queue pair counts once for its send requests and once for its
    /// receives.
    pub(crate) users: u32,
}

impl CompletionQueue {
    /// # Errors
    /// If the system has no memory for `capacity` completions.
    pub(crate) fn new(capacity: u32) -> Result<CompletionQueue, VerbsError> {
        let mut queue = VecDeque::new();
        reserve(&mut queue, capacity, "completion queue")?;
        Ok(CompletionQueue { queue, capacity, overflowed: false, armed: None, notified: false, users: 0 })
    }

    /// Adds a completion. If the queue is full, this completion and all later completions are lost, so that the
    /// completions that can be polled have no gap. Returns `false` for the first completion that is lost.
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

    /// Gives the queue room for `capacity` completions, which is at least the number of completions that wait.
    ///
    /// # Errors
    /// If the system has no memory for them.
    pub(crate) fn resize(&mut self, capacity: u32) -> Result<(), VerbsError> {
        let more = capacity.saturating_sub(self.queue.len() as u32);
        reserve(&mut self.queue, more, "completion queue")?;
        self.capacity = capacity;
        Ok(())
    }

    /// Removes the completions of a queue pair.
    pub(crate) fn forget(&mut self, qpn: Qpn) {
        self.queue.retain(|completion| completion.qpn != qpn);
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

    /// Requests a notification of the next completion of the kind `notify`; completions that are already in the queue
    /// trigger no notification. After an overflow no further completion is added, so the notification comes
    /// immediately.
    pub(crate) fn arm(&mut self, notify: Notify) {
        if self.overflowed {
            self.notified = true;
            return;
        }
        // A request for any completion stays in force when a request for solicited completions follows it.
        self.armed = self.armed.max(Some(notify));
    }

    pub(crate) fn take_notification(&mut self) -> bool {
        std::mem::take(&mut self.notified)
    }
}

/// A posted receive request.
#[derive(Clone, Debug)]
pub(crate) struct Receive {
    pub(crate) wr_id: u64,
    pub(crate) scatter: Spans,
    /// Total length in bytes of the memory `scatter`: the maximum length of a message that fits.
    pub(crate) room: u64,
}

/// A receive queue: the posted receives that no message has taken yet, in order of posting.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    pub(crate) queue: VecDeque<Receive>,
    pub(crate) capacity: u32,
    pub(crate) max_sge: u32,
}

impl ReceiveQueue {
    /// # Errors
    /// If the system has no memory for `capacity` receives.
    pub(crate) fn new(capacity: u32, max_sge: u32) -> Result<ReceiveQueue, VerbsError> {
        let mut queue = VecDeque::new();
        reserve(&mut queue, capacity, "receive queue")?;
        Ok(ReceiveQueue { queue, capacity, max_sge })
    }

    /// Gives the queue room for `capacity` receives, which is at least the number of receives in it.
    ///
    /// # Errors
    /// If the system has no memory for them.
    pub(crate) fn resize(&mut self, capacity: u32) -> Result<(), VerbsError> {
        let more = capacity.saturating_sub(self.queue.len() as u32);
        reserve(&mut self.queue, more, "receive queue")?;
        self.capacity = capacity;
        Ok(())
    }

    /// Takes the memory of the queue for a queue without receives, and leaves this one without memory.
    pub(crate) fn take_emptied(&mut self) -> ReceiveQueue {
        let mut queue = std::mem::take(&mut self.queue);
        queue.clear();
        ReceiveQueue { queue, ..*self }
    }

    /// Adds a receive. `taken` is the number of receives that messages in progress hold; they count towards the
    /// capacity.
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
    /// When the queue holds fewer receives than this limit, it raises
    /// [`Event::SharedReceiveLimit`](crate::Event::SharedReceiveLimit) and sets the limit to 0. With a limit of 0 it
    /// raises no event.
    pub(crate) limit: u32,
    pub(crate) users: u32,
}

impl SharedReceiveQueue {
    /// Whether the queue holds fewer receives than `limit`, so that the caller must raise the event. If so, resets the
    /// limit to 0, so that the event occurs once.
    #[must_use]
    pub(crate) fn reaches_limit(&mut self) -> bool {
        let reached = (self.receives.queue.len() as u64) < u64::from(self.limit);
        if reached {
            self.limit = 0;
        }
        reached
    }
}
