//! Threads that wait for the same rsocket share its descriptors by the pattern *leader/followers*.

use libc::c_int;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use rnic_cabi::entry::lock;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A state that makes progress when its descriptors are readable.
pub(super) trait Source {
    /// Handles completions and events. Returns whether it has taken events of the descriptors.
    fn progress(&mut self) -> bool;

    /// Arms the descriptors, which become readable at the next completion or event. Returns the descriptors, and
    /// whether they were not armed before; in this case a completion or event may have come already.
    fn arm(&mut self) -> (Vec<c_int>, bool);

    /// Takes the events whose only purpose is to wake a thread. Returns whether the descriptors had any such events.
    fn take_events(&mut self) -> bool;
}

/// An rsocket's state behind one lock, which is not held while a thread waits. One thread, the leader, waits for the
/// descriptors, and the other threads that wait for the same rsocket (the followers) wait for the leader. Threads in
/// `rpoll` wait for the descriptors too.
///
/// When a thread takes an event of a descriptor, the descriptor becomes unreadable, and the kernel does not wake the
/// other threads that wait for the descriptor. So the thread makes the *wake descriptor* readable, for which all these
/// threads wait.
pub(super) struct Watched<T> {
    watch: Mutex<Watch<T>>,
    /// Notified when the state may have changed for the followers.
    changed: Condvar,
}

struct Watch<T> {
    source: T,
    has_leader: bool,
    followers: u32,
    /// Threads that wait for the descriptors.
    sleepers: u32,
    /// The wake descriptor.
    wake_fd: Option<EventFd>,
    /// Whether the wake descriptor is readable. It stays readable until the last sleeper is awake.
    is_woken: bool,
}

impl<T> Watch<T> {
    /// Wakes the threads that wait for the descriptors.
    fn wake_sleepers(&mut self) {
        if let Some(wake_fd) = &self.wake_fd
            && self.sleepers > 0
            && !self.is_woken
        {
            self.is_woken = wake_fd.write(1).is_ok();
        }
    }
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
        let watch = Watch { source, has_leader: false, followers: 0, sleepers: 0, wake_fd: None, is_woken: false };
        Watched { watch: Mutex::new(watch), changed: Condvar::new() }
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

    /// Handles completions and events.
    pub(super) fn progress(&self, locked: &mut Guard<'_, T>) {
        if locked.progress() {
            locked.0.wake_sleepers();
        }
    }

    /// Arms the descriptors. The caller then waits for the descriptors, and calls [`Watched::wake_up`] afterwards. A
    /// completion or event may already have arrived before the call.
    ///
    /// # Errors
    /// The system has no file descriptors.
    pub(super) fn sleep(&self, locked: &mut Guard<'_, T>) -> Result<Vec<c_int>, c_int> {
        self.arm(locked).map(|(fds, _)| fds)
    }

    fn arm(&self, locked: &mut Guard<'_, T>) -> Result<(Vec<c_int>, bool), c_int> {
        let watch = &mut *locked.0;
        let wake_fd = match &watch.wake_fd {
            Some(wake_fd) => wake_fd,
            None => {
                let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
                watch.wake_fd.insert(EventFd::from_flags(flags).map_err(|error| error as c_int)?)
            }
        };
        let (mut fds, is_new) = watch.source.arm();
        fds.push(wake_fd.as_fd().as_raw_fd());
        watch.sleepers += 1;
        Ok((fds, is_new))
    }

    /// Handles that the caller no longer waits for the descriptors.
    pub(super) fn wake_up(&self, locked: &mut Guard<'_, T>) {
        let watch = &mut *locked.0;
        watch.sleepers -= 1;
        if watch.source.take_events() {
            watch.wake_sleepers();
        }
        if watch.sleepers == 0
            && watch.is_woken
            && let Some(wake_fd) = &watch.wake_fd
        {
            watch.is_woken = wake_fd.read().is_err();
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
            self.progress(&mut locked);
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
            let (fds, is_new) = match self.arm(&mut locked) {
                Ok(armed) => armed,
                Err(error) => return (locked, Err(error)),
            };
            if is_new {
                self.wake_up(&mut locked);
                continue;
            }
            locked.0.has_leader = true;
            drop(locked);
            // SAFETY: the descriptors are open as long as the rsocket, which this thread has.
            let polled = unsafe { await_readable(&fds) };
            locked = self.lock();
            locked.0.has_leader = false;
            self.wake(&locked);
            self.wake_up(&mut locked);
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
/// The descriptors stay open until the call returns.
unsafe fn await_readable(fds: &[c_int]) -> Result<(), c_int> {
    // SAFETY: the caller promises the conditions of this function.
    let fds: Vec<_> = fds.iter().map(|fd| unsafe { BorrowedFd::borrow_raw(*fd) }).collect();
    let mut fds: Vec<_> = fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    if poll(&mut fds, PollTimeout::NONE) == Err(Errno::EINTR) { Err(libc::EINTR) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    /// Takes events that did not arrive through this thread's descriptors, for example from a socket that another
    /// thread has read.
    struct Fake {
        elsewhere: bool,
        fd: EventFd,
        is_done: bool,
    }

    impl Source for Fake {
        fn progress(&mut self) -> bool {
            self.is_done |= self.elsewhere;
            std::mem::take(&mut self.elsewhere)
        }

        fn arm(&mut self) -> (Vec<c_int>, bool) {
            (vec![self.fd.as_fd().as_raw_fd()], false)
        }

        fn take_events(&mut self) -> bool {
            self.fd.read().is_ok()
        }
    }

    fn fake() -> &'static Watched<Fake> {
        let fd = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap();
        Box::leak(Box::new(Watched::new(Fake { elsewhere: false, fd, is_done: false })))
    }

    /// Starts a thread that waits until its operation is done. Returns when the thread is the leader.
    fn leader(watched: &'static Watched<Fake>) -> Receiver<()> {
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            let (_, waited) = watched.wait(watched.lock(), false, |fake| fake.is_done);
            assert_eq!(waited, Ok(()));
            done.send(()).unwrap();
        });
        while !watched.lock().0.has_leader {
            std::thread::yield_now();
        }
        is_done
    }

    fn is_readable(fds: &[c_int], timeout: u16) -> bool {
        // SAFETY: the descriptors are never closed.
        let fds: Vec<_> = fds.iter().map(|fd| unsafe { BorrowedFd::borrow_raw(*fd) }).collect();
        let mut fds: Vec<_> = fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
        poll(&mut fds, PollTimeout::from(timeout)).unwrap() > 0
    }

    /// Another thread takes the event for which the leader waits.
    #[test]
    fn a_leader_is_woken_by_events_that_others_take() {
        let watched = fake();
        let is_done = leader(watched);
        let mut locked = watched.lock();
        locked.elsewhere = true;
        watched.progress(&mut locked);
        drop(locked);
        assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(()));
    }

    /// The leader takes an event for which a thread in `rpoll` waits too.
    #[test]
    fn all_threads_that_wait_for_a_descriptor_are_woken() {
        let watched = fake();
        let _is_done = leader(watched);
        let fds = watched.sleep(&mut watched.lock()).unwrap();
        assert!(!is_readable(&fds, 0));
        watched.lock().fd.write(1).unwrap();
        assert!(is_readable(&fds[1..], 60_000), "the leader has taken the event");
        watched.wake_up(&mut watched.lock());
        // The wake descriptor is not readable after all threads are awake.
        assert!((0..6_000).any(|_| !is_readable(&fds, 10) && !watched.lock().0.is_woken));
    }
}
