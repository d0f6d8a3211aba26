//! Completion channels: file descriptors by which programs wait for completions of several queues.

use crate::abi::{ibv_comp_channel, ibv_context, ibv_cq};
use crate::cq;
use crate::entry::{entry, lock, object, set_errno, status};
use crate::trace;
use libc::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;

pub(crate) use rnic_cabi::mailbox::Mailbox;

/// A queue pair, completion queue or channel as a number, which threads can share. It is only compared, and handed back
/// to the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) usize);

#[repr(C)]
pub(crate) struct Channel {
    c: ibv_comp_channel,
    pub(crate) events: Arc<Mailbox<Address>>,
    queues: AtomicI32,
}

impl Channel {
    /// # Safety
    /// The pointer is one of [`ibv_create_comp_channel`], and the channel is not destroyed.
    pub(crate) unsafe fn state<'a>(channel: *mut ibv_comp_channel) -> (&'a Arc<Mailbox<Address>>, &'a AtomicI32) {
        let channel = channel.cast::<Channel>();
        // SAFETY: by the contract of libibverbs; the references do not cover the part that C may write.
        unsafe { (&(*channel).events, &(*channel).queues) }
    }
}

/// What a completion queue wakes when it has a completion: it puts the queue into its channel.
pub(crate) struct Bell {
    pub(crate) channel: Arc<Mailbox<Address>>,
    pub(crate) queue: Address,
    /// Set before the queue is destroyed; read and written under the lock `gate`.
    pub(crate) gate: Mutex<bool>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        let closed = lock(&self.gate);
        if !*closed {
            self.channel.push(self.queue);
        }
    }
}

impl Bell {
    /// The queue is about to be destroyed: from now on nothing of it is in the channel.
    pub(crate) fn close(&self) {
        *lock(&self.gate) = true;
        self.channel.remove(|queue| *queue == self.queue, |_| ());
    }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    object(|| {
        let events = Arc::new(Mailbox::new()?);
        let fd = events.raw_fd();
        let c = ibv_comp_channel { context, fd, refcnt: 0 };
        trace::line(format_args!("ibv_create_comp_channel = fd {fd}"));
        Ok(Box::into_raw(Box::new(Channel { c, events, queues: AtomicI32::new(0) })).cast())
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs.
        let (events, queues) = unsafe { Channel::state(channel) };
        if queues.load(Ordering::Acquire) > 0 {
            trace::line(format_args!("ibv_destroy_comp_channel refused: a completion queue uses it"));
            return Err(libc::EBUSY);
        }
        // SAFETY: as above.
        trace::line(format_args!("ibv_destroy_comp_channel fd {}", unsafe { (*channel.cast::<Channel>()).c.fd }));
        // A thread may still wait in `ibv_get_cq_event`.
        events.close();
        // SAFETY: the channel was made by `Box::into_raw`, and no queue uses it.
        drop(unsafe { Box::from_raw(channel.cast::<Channel>()) });
        Ok(())
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq, context: *mut *mut c_void,
) -> c_int {
    entry(-1, || {
        // SAFETY: by the contract of libibverbs.
        let events = unsafe { Channel::state(channel) }.0.clone();
        let pointer = |Address(queue): &Address| std::ptr::with_exposed_provenance_mut::<ibv_cq>(*queue);
        // A queue that is being destroyed leaves the channel, and then waits for its events.
        // SAFETY: so it exists while its event is in the channel.
        let count = |queue: &Address| unsafe { cq::state(pointer(queue)) }.unacknowledged.add();
        match events.take(|_| (), count) {
            Ok(queue) => {
                let queue = pointer(&queue);
                trace::line(format_args!("ibv_get_cq_event = CQ {:x}", queue.addr()));
                // SAFETY: the queue waits for the acknowledgement; by the contract of libibverbs the results are valid.
                unsafe {
                    *cq = queue;
                    *context = (*queue).cq_context;
                }
                0
            }
            Err(error) => {
                set_errno(error);
                -1
            }
        }
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint) {
    trace::line(format_args!("ibv_ack_cq_events CQ {:x}, {events} events", cq.addr()));
    // SAFETY: by the contract of libibverbs.
    entry((), || unsafe { cq::state(cq) }.unacknowledged.acknowledge(events));
}
