//! Waiting for several rsockets and descriptors of the system.

use super::{Inner, Rsocket, Socket, State, find};
use crate::verbs::{call, fail};
use libc::{POLLERR, POLLHUP, POLLIN, POLLOUT, c_int, c_short, fd_set, nfds_t, pollfd, timeval};
use rnic_cabi::entry::entry;
use std::time::{Duration, Instant};

impl Socket {
    /// Returns the events of `wanted` that have happened, and in addition errors and the end of the connection.
    fn events(&self, wanted: c_short) -> c_short {
        let mut inner = self.inner.lock();
        if inner.state == State::Listening {
            return poll_one(inner.cm_fd(), POLLIN) & wanted;
        }
        self.inner.progress(&mut inner);
        self.inner.wake(&inner);
        events(&inner, wanted)
    }
}

fn events(inner: &Inner, wanted: c_short) -> c_short {
    let Some(stream) = inner.stream.as_ref() else {
        return if inner.state == State::Refused { POLLERR | wanted & (POLLIN | POLLOUT) } else { 0 };
    };
    let unread = stream.inbox.unread() > 0;
    match inner.state {
        State::New | State::Listening | State::Connecting => 0,
        State::Refused => POLLERR | wanted & (POLLIN | POLLOUT),
        State::Accepting | State::Connected => {
            let can_read = unread || !inner.readable;
            let can_write = inner.state == State::Connected && inner.writable && stream.can_send();
            wanted & (if can_read { POLLIN } else { 0 } | if can_write { POLLOUT } else { 0 })
        }
        // While bytes are unread, report no other event: programs stop reading when they get the other events.
        State::Ended | State::Broken if unread => wanted & POLLIN,
        State::Ended => POLLHUP | wanted & POLLIN,
        State::Broken => POLLERR | wanted & POLLIN,
    }
}

/// Returns the events of a descriptor of the system that have happened.
fn poll_one(fd: c_int, events: c_short) -> c_short {
    let mut one = pollfd { fd, events, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&mut one, 1, 0) };
    one.revents
}

/// Writes into each entry which of its events have happened; returns the number of ready entries.
fn ask(entries: &mut [pollfd], sockets: &[Option<Rsocket>]) -> c_int {
    let mut ready = 0;
    for (entry, socket) in entries.iter_mut().zip(sockets) {
        entry.revents = match socket {
            Some(Rsocket::Stream(socket)) => socket.events(entry.events),
            Some(Rsocket::Datagrams(socket)) => socket.events(entry.events),
            None if entry.fd < 0 => 0,
            None => poll_one(entry.fd, entry.events),
        };
        ready += c_int::from(entry.revents != 0);
    }
    ready
}

/// An rsocket on whose descriptors this thread waits.
struct Asleep<'a>(&'a Rsocket);

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        match self.0 {
            Rsocket::Stream(socket) => socket.inner.wake_up(&mut socket.inner.lock()),
            Rsocket::Datagrams(socket) => socket.wake_up(),
        }
    }
}

/// Waits for one of the entries; returns how many are ready.
fn wait(entries: &mut [pollfd], until: Option<Instant>) -> Result<c_int, c_int> {
    let sockets: Vec<Option<Rsocket>> = entries.iter().map(|entry| find(entry.fd)).collect();
    loop {
        let ready = ask(entries, &sockets);
        #[expect(clippy::disallowed_methods, reason = "programs wait for a time")]
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if ready > 0 || left == Some(Duration::ZERO) {
            return Ok(ready);
        }
        let mut asleep = Vec::new();
        let mut fds = Vec::new();
        for (entry, socket) in entries.iter().zip(&sockets) {
            let Some(socket) = socket else {
                fds.push(pollfd { fd: entry.fd, events: entry.events, revents: 0 });
                continue;
            };
            let own = match socket {
                Rsocket::Stream(socket) => socket.inner.sleep(&mut socket.inner.lock())?,
                Rsocket::Datagrams(socket) => socket.sleep()?,
            };
            asleep.push(Asleep(socket));
            fds.extend(own.into_iter().map(|fd| pollfd { fd, events: POLLIN, revents: 0 }));
        }
        // An event that came before the descriptors were armed makes no descriptor readable, so check all entries
        // again.
        let ready = ask(entries, &sockets);
        if ready > 0 {
            return Ok(ready);
        }
        let left = left.map_or(-1, |left| c_int::try_from(left.as_micros().div_ceil(1_000)).unwrap_or(c_int::MAX));
        // SAFETY: the list has that many entries.
        if unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as nfds_t, left) } < 0 {
            return Err(crate::verbs::errno());
        }
    }
}

fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    #[expect(clippy::disallowed_methods, reason = "programs wait for a time")]
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// # Safety
/// The list has `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpoll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    entry(-1, || {
        if fds.is_null() && count > 0 {
            return fail(libc::EFAULT);
        }
        // SAFETY: the caller promises the conditions of this function.
        let entries = if count == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(fds, count as usize) } };
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        wait(entries, deadline(timeout)).unwrap_or_else(fail)
    })
}

/// # Safety
/// The sets and the timeout are null, or can be read; the sets can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rselect(
    count: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set, timeout: *mut timeval,
) -> c_int {
    let mut ready = -1;
    call(|| {
        let count = usize::try_from(count).ok().filter(|count| *count <= libc::FD_SETSIZE).ok_or(libc::EINVAL)?;
        let sets = [(read, POLLIN), (write, POLLOUT), (other, libc::POLLPRI)];
        // SAFETY: the set can be read, and descriptors are below the size of a set.
        let has = |set: *mut fd_set, fd: c_int| !set.is_null() && unsafe { libc::FD_ISSET(fd, set) };
        let mut entries: Vec<pollfd> = Vec::new();
        for fd in 0..count as c_int {
            let events = sets.iter().filter(|(set, _)| has(*set, fd)).fold(0, |all, (_, event)| all | event);
            if events != 0 {
                entries.push(pollfd { fd, events, revents: 0 });
            }
        }
        // SAFETY: the caller promises the conditions of this function.
        let timeout = unsafe { timeout.as_ref() }.map(|time| {
            let micros = i128::from(time.tv_sec) * 1_000_000 + i128::from(time.tv_usec);
            Duration::from_micros(u64::try_from(micros).unwrap_or(0))
        });
        wait(&mut entries, deadline(timeout))?;
        ready = 0;
        for (set, event) in sets.into_iter().filter(|(set, _)| !set.is_null()) {
            // SAFETY: the caller promises the conditions of this function.
            unsafe { libc::FD_ZERO(set) };
            for entry in entries.iter().filter(|entry| entry.events & event != 0) {
                let also = if event == libc::POLLPRI { 0 } else { POLLERR | POLLHUP };
                if entry.revents & (event | also) != 0 {
                    // SAFETY: as above.
                    unsafe { libc::FD_SET(entry.fd, set) };
                    ready += 1;
                }
            }
        }
        Ok(())
    });
    ready
}
