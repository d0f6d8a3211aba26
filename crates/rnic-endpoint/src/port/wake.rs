//! A flag by which one thread wakes another thread that sleeps in the system call `ppoll`.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Wake;

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

/// A wake-up flag with an eventfd. Waking a thread costs a system call only if the thread sleeps.
#[derive(Debug)]
pub(super) struct WakeFlag {
    state: AtomicU8,
    event: EventFd,
}

impl WakeFlag {
    pub(super) fn new() -> io::Result<Arc<WakeFlag>> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Arc::new(WakeFlag { state: AtomicU8::new(AWAKE), event }))
    }

    /// The thread that other threads can wake calls this before it sleeps in `ppoll`. Returns whether another thread
    /// has already woken it; in this case the thread must not sleep.
    pub(super) fn fall_asleep(&self) -> bool {
        let came = self.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_err();
        if came {
            self.state.swap(AWAKE, Ordering::AcqRel);
        }
        came
    }

    /// The thread that other threads can wake calls this after `ppoll`; `readable` says whether `ppoll` found the
    /// eventfd readable. A thread that has seen this thread asleep may write to the eventfd only after this call. Then
    /// the next wait of this thread returns immediately, which [`Port::wait`](super::Port::wait) allows.
    pub(super) fn wake_up(&self, readable: bool) {
        self.state.swap(AWAKE, Ordering::AcqRel);
        if readable {
            let _ = self.event.read();
        }
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            // The write fails only if the counter of the eventfd is at its maximum. Then the descriptor is readable
            // anyway, which wakes the thread.
            let _ = self.event.write(1);
        }
    }
}

impl AsFd for WakeFlag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
