//! A completion queue with a channel that never blocks.

use crate::verbs::*;
use libc::{c_int, c_void};
use rnic_cabi::verbs::*;

/// Maximum number of completions that one call takes.
const BATCH: usize = 16;

/// A completion queue and its channel.
pub(super) struct Completions {
    context: *mut ibv_context,
    channel: *mut ibv_comp_channel,
    cq: *mut ibv_cq,
    /// Whether the next completion makes the descriptor readable.
    armed: bool,
}

impl Completions {
    /// Makes a queue for `entries` completions.
    ///
    /// # Safety
    /// The context is open as long as the queue.
    pub(super) unsafe fn new(context: *mut ibv_context, entries: c_int) -> Result<Completions, c_int> {
        // SAFETY: the caller promises the conditions of this function. The channel is destroyed with the structure, if
        // the last step fails.
        unsafe {
            let channel = made(ibv_create_comp_channel(context))?;
            let mut completions = Completions { context, channel, cq: std::ptr::null_mut(), armed: false };
            libc::fcntl((*channel).fd, libc::F_SETFL, libc::O_NONBLOCK);
            completions.cq = made(ibv_create_cq(context, entries, std::ptr::null_mut(), channel, 0))?;
            Ok(completions)
        }
    }

    pub(super) fn cq(&self) -> *mut ibv_cq {
        self.cq
    }

    /// The descriptor of the channel.
    pub(super) fn fd(&self) -> c_int {
        // SAFETY: the channel exists.
        unsafe { (*self.channel).fd }
    }

    /// The completions that have arrived, at most 16. If the result has fewer, the queue is empty now.
    ///
    /// # Errors
    /// The queue has lost completions.
    pub(super) fn poll(&self) -> Result<Batch, c_int> {
        // SAFETY: all zeros are valid completions. The context is open, the queue exists, and the array has that many
        // completions.
        unsafe {
            let mut completions: [ibv_wc; BATCH] = std::mem::zeroed();
            let poll = (*self.context).ops.poll_cq.ok_or(libc::EOPNOTSUPP)?;
            let count = poll(self.cq, BATCH as c_int, completions.as_mut_ptr());
            let count = usize::try_from(count).map_err(|_| libc::EIO)?.min(BATCH);
            Ok(Batch { completions, count })
        }
    }

    /// Arms the descriptor, which becomes readable at the next completion. Returns whether the descriptor was not armed
    /// before; in this case completions may have arrived already.
    pub(super) fn arm(&mut self) -> bool {
        if self.armed {
            return false;
        }
        self.armed = true;
        // SAFETY: the context is open, and the queue exists.
        unsafe {
            if let Some(notify) = (*self.context).ops.req_notify_cq {
                notify(self.cq, 0);
            }
        }
        true
    }

    /// Takes the events of the descriptor. Returns whether the descriptor had any events.
    pub(super) fn take_events(&mut self) -> bool {
        let mut had_events = false;
        let (mut cq, mut about) = (std::ptr::null_mut(), std::ptr::null_mut::<c_void>());
        // SAFETY: the channel exists and is non-blocking.
        while unsafe { ibv_get_cq_event(self.channel, &mut cq, &mut about) } == 0 {
            (self.armed, had_events) = (false, true);
            // SAFETY: the event is one of this queue.
            unsafe { ibv_ack_cq_events(cq, 1) };
        }
        had_events
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: `new` made both, unless the queue is null. The queue pair that used them is destroyed before.
        unsafe {
            if !self.cq.is_null() {
                ibv_destroy_cq(self.cq);
            }
            ibv_destroy_comp_channel(self.channel);
        }
    }
}

/// Completions that have arrived.
pub(super) struct Batch {
    completions: [ibv_wc; BATCH],
    count: usize,
}

impl Batch {
    pub(super) fn completions(&self) -> &[ibv_wc] {
        &self.completions[..self.count]
    }

    /// Whether the queue may have more completions.
    pub(super) fn is_full(&self) -> bool {
        self.count == BATCH
    }
}
