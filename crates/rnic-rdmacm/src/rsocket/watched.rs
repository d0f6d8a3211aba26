//! How the threads that want something of one rsocket share its descriptors (the pattern *leader/followers*).

use libc::c_int;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rnic_cabi::entry::lock;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What makes progress when its descriptors are readable.
pub(super) trait Source {
    /// Handles what has happened.
    fn progress(&mut self);

    /// The descriptors that become readable when something happens. `None` if something may have happened already.
    fn arm(&mut self) -> Option<Vec<c_int>>;

    /// Takes the events of the descriptors.
    fn silence(&mut self);
}

/// An rsocket's state behind one lock, without which nobody waits: one thread, the leader, waits for the descriptors,
/// and the others that want something of the same rsocket wait for the leader.
pub(super) struct Watched<T> {
    watch: Mutex<Watch<T>>,
    /// There may be something new for the followers.
    changed: Condvar,
}

struct Watch<T> {
    source: T,
    has_leader: bool,
    followers: u32,
}

/// The locked state.
pub(super) struct Guard<'a, T>(MutexGuard<'a, Watch<T>>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.source
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.source
    }
}

impl<T: Source> Watched<T> {
    pub(super) fn new(source: T) -> Watched<T> {
        Watched { watch: Mutex::new(Watch { source, has_leader: false, followers: 0 }), changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> Guard<'_, T> {
        Guard(lock(&self.watch))
    }

    /// Wakes the followers.
    pub(super) fn wake(&self, locked: &Guard<'_, T>) {
        if locked.0.followers > 0 {
            self.changed.notify_all();
        }
    }

    /// Takes the events of the descriptors, unless a leader is going to.
    pub(super) fn silence(&self) {
        let mut locked = self.lock();
        if !locked.0.has_leader {
            locked.silence();
        }
    }

    /// Makes progress until `is_done`. The state is not locked while this thread waits.
    ///
    /// # Errors
    /// `EAGAIN` for a call that may not wait; `EINTR` after a signal.
    pub(super) fn wait<'a>(
        &'a self, mut locked: Guard<'a, T>, is_nonblocking: bool, is_done: impl Fn(&T) -> bool,
    ) -> (Guard<'a, T>, Result<(), c_int>) {
        loop {
            locked.progress();
            if is_done(&locked) {
                self.wake(&locked);
                return (locked, Ok(()));
            }
            if is_nonblocking {
                return (locked, Err(libc::EAGAIN));
            }
            if locked.0.has_leader {
                locked.0.followers += 1;
                locked = Guard(self.changed.wait(locked.0).unwrap_or_else(PoisonError::into_inner));
                locked.0.followers -= 1;
                continue;
            }
            let Some(fds) = locked.arm() else { continue };
            locked.0.has_leader = true;
            drop(locked);
            // SAFETY: the descriptors are open as long as the rsocket, which this thread has.
            let polled = unsafe { await_readable(&fds) };
            locked = self.lock();
            locked.0.has_leader = false;
            self.wake(&locked);
            locked.silence();
            if polled.is_err() {
                return (locked, polled);
            }
        }
    }
}

/// Sleeps until one of these descriptors is readable.
///
/// # Errors
/// `EINTR` after a signal.
///
/// # Safety
/// The descriptors stay open meanwhile.
unsafe fn await_readable(fds: &[c_int]) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let fds: Vec<_> = fds.iter().map(|fd| unsafe { BorrowedFd::borrow_raw(*fd) }).collect();
    let mut fds: Vec<_> = fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    if poll(&mut fds, PollTimeout::NONE) == Err(Errno::EINTR) { Err(libc::EINTR) } else { Ok(()) }
}
