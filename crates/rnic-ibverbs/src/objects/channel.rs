//! Completion channels: file descriptors by which programs wait for completions of several queues.

use super::Address;
use crate::abi::{ibv_comp_channel, ibv_context};
use crate::trace;
use libc::c_int;
use rnic_cabi::entry::lock;
use rnic_cabi::pointer::Handle;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;

pub(crate) use rnic_cabi::mailbox::Mailbox;

#[repr(C)]
pub(crate) struct Channel {
    c: ibv_comp_channel,
    state: ChannelState,
}

rnic_cabi::object!(Channel { c: ibv_comp_channel, state: ChannelState });

pub(crate) struct ChannelState {
    /// The completion queues that have an event.
    pub(crate) events: Arc<Mailbox<Address>>,
    /// Number of completion queues that use the channel.
    queues: AtomicI32,
}

impl Channel {
    pub(crate) fn create(context: *mut ibv_context) -> Result<Handle<Channel>, c_int> {
        let events = Arc::new(Mailbox::new()?);
        let fd = events.raw_fd();
        let c = ibv_comp_channel { context, fd, refcnt: 0 };
        trace::line(format_args!("ibv_create_comp_channel = fd {fd}"));
        Ok(Handle::create(Channel { c, state: ChannelState { events, queues: AtomicI32::new(0) } }))
    }
}

impl ChannelState {
    pub(crate) fn add_queue(&self) {
        self.queues.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn remove_queue(&self) {
        self.queues.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn has_queues(&self) -> bool {
        self.queues.load(Ordering::Acquire) > 0
    }
}

/// The waker of a completion queue with a channel: it adds the queue to the channel's events.
pub(crate) struct CompletionWaker {
    channel: Arc<Mailbox<Address>>,
    queue: Address,
    /// Whether the queue is being destroyed. The lock is held while the queue is put into the channel.
    closed: Mutex<bool>,
}

impl Wake for CompletionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        let closed = lock(&self.closed);
        if !*closed {
            self.channel.push(self.queue);
        }
    }
}

impl CompletionWaker {
    pub(crate) fn new(channel: &ChannelState, queue: Address) -> CompletionWaker {
        CompletionWaker { channel: channel.events.clone(), queue, closed: Mutex::new(false) }
    }

    /// Removes the queue from the channel before the queue is destroyed. Afterwards the waker does not add the queue
    /// again.
    pub(crate) fn close(&self) {
        *lock(&self.closed) = true;
        self.channel.remove(|queue| *queue == self.queue, |_| ());
    }
}
