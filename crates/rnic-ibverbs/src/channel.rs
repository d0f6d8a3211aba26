//! Completion channels: file descriptors by which programs wait for completions of several queues.

use crate::abi::{ibv_comp_channel, ibv_context, ibv_cq};
use crate::cq;
use crate::entry::{entry, lock, object, set_errno, status};
use crate::trace;
use libc::{c_int, c_uint, c_void};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;

/// A queue of things that wait for the program, with a file descriptor that is readable as long as it is not empty. The
/// program may make the descriptor non-blocking.
pub(crate) struct Mailbox<T> {
    fd: EventFd,
    queue: Mutex<VecDeque<T>>,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Result<Mailbox<T>, c_int> {
        let fd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(|error| error as c_int)?;
        Ok(Mailbox { fd, queue: Mutex::default() })
    }

    pub(crate) fn raw_fd(&self) -> c_int {
        self.fd.as_fd().as_raw_fd()
    }

    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        // It fails only if the counter is at its maximum; then the descriptor is readable already.
        let _ = self.fd.write(1);
    }

    fn silence(&self) {
        let mut fd = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fd, PollTimeout::ZERO) == Ok(1) {
            let _ = self.fd.read();
        }
    }

    pub(crate) fn push(&self, item: T) {
        let mut queue = lock(&self.queue);
        queue.push_back(item);
        self.ring();
    }

    /// Removes what `unwanted` names.
    pub(crate) fn remove(&self, unwanted: impl Fn(&T) -> bool) {
        let mut queue = lock(&self.queue);
        queue.retain(|item| !unwanted(item));
        if queue.is_empty() {
            self.silence();
        }
    }

    /// Takes the oldest item. `refill` first adds items to the queue that wait elsewhere, and makes sure that the
    /// descriptor becomes readable for further ones. If there is none, waits for one, unless the descriptor is
    /// non-blocking.
    ///
    /// # Errors
    /// `EAGAIN` if there is none and the descriptor is non-blocking; `EINTR` after a signal.
    pub(crate) fn take(&self, refill: impl Fn(&mut VecDeque<T>)) -> Result<T, c_int> {
        loop {
            {
                let mut queue = lock(&self.queue);
                if queue.len() <= 1 {
                    self.silence();
                }
                refill(&mut queue);
                if let Some(item) = queue.pop_front() {
                    if !queue.is_empty() {
                        self.ring();
                    }
                    return Ok(item);
                }
            }
            let mut count = [0; 8];
            nix::unistd::read(&self.fd, &mut count).map_err(|error| error as c_int)?;
            // Another thread may take the item; if not, the descriptor must not be silent while it is there.
            self.ring();
        }
    }
}

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
        self.channel.remove(|queue| *queue == self.queue);
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
        let (_, queues) = unsafe { Channel::state(channel) };
        if queues.load(Ordering::Acquire) > 0 {
            return Err(libc::EBUSY);
        }
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
        let (events, _) = unsafe { Channel::state(channel) };
        match events.take(|_| ()) {
            Ok(Address(queue)) => {
                let queue = std::ptr::with_exposed_provenance_mut::<ibv_cq>(queue);
                // SAFETY: queues in a channel are not destroyed; by the contract of libibverbs the results are valid.
                unsafe {
                    cq::state(queue).unacknowledged.add();
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
    // SAFETY: by the contract of libibverbs.
    entry((), || unsafe { cq::state(cq) }.unacknowledged.acknowledge(events));
}
