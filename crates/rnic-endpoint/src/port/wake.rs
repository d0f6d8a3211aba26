//! Lets another thread end a wait in `poll`.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Wake;

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

/// A flag with an eventfd. Waking costs a system call only if the thread sleeps.
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

    /// To be called before polling; returns whether a wake-up came already: then there is no need to wait.
    pub(super) fn fall_asleep(&self) -> bool {
        let came = self.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_err();
        if came {
            self.state.swap(AWAKE, Ordering::AcqRel);
        }
        came
    }

    /// To be called after polling, which found the eventfd `readable` or not. A waker that saw a sleeping thread may
    /// write only after this call: then the next wait returns immediately, which is allowed.
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
            // It can only fail when 2^64 - 2 wake-ups were not read, and then the descriptor is readable all the same.
            let _ = self.event.write(1);
        }
    }
}

impl AsFd for WakeFlag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
