//! Queues with a file descriptor by which programs wait for their items.

use crate::entry::lock;
use libc::c_int;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Mutex;

/// A queue of things that wait for the program, with a file descriptor that is readable as long as it is not empty. The
/// program may make the descriptor non-blocking.
pub struct Mailbox<T> {
    fd: EventFd,
    queue: Mutex<VecDeque<T>>,
}

impl<T> Mailbox<T> {
    /// An empty queue.
    ///
    /// # Errors
    /// The system has no file descriptors.
    pub fn new() -> Result<Mailbox<T>, c_int> {
        let fd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(|error| error as c_int)?;
        Ok(Mailbox { fd, queue: Mutex::default() })
    }

    /// The descriptor.
    pub fn raw_fd(&self) -> c_int {
        self.fd.as_fd().as_raw_fd()
    }

    /// Makes the descriptor readable.
    pub fn ring(&self) {
        // It fails only if the counter is at its maximum; then the descriptor is readable already.
        let _ = self.fd.write(1);
    }

    fn silence(&self) {
        let mut fd = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fd, PollTimeout::ZERO) == Ok(1) {
            let _ = self.fd.read();
        }
    }

    /// Adds an item.
    pub fn push(&self, item: T) {
        let mut queue = lock(&self.queue);
        queue.push_back(item);
        self.ring();
    }

    /// Whether there is no item, apart from those that wait elsewhere.
    pub fn is_empty(&self) -> bool {
        lock(&self.queue).is_empty()
    }

    /// Removes what `unwanted` names.
    pub fn remove(&self, unwanted: impl Fn(&T) -> bool) {
        let mut queue = lock(&self.queue);
        queue.retain(|item| !unwanted(item));
        if queue.is_empty() {
            self.silence();
        }
    }

    /// As [`Mailbox::remove`], for a queue whose items may also wait elsewhere: `refill` first adds them to the queue, and
    /// makes sure that the descriptor becomes readable for further ones. Without it the descriptor would be silent
    /// although items wait.
    pub fn remove_and_refill(&self, unwanted: impl Fn(&T) -> bool, refill: impl Fn(&mut VecDeque<T>)) {
        let mut queue = lock(&self.queue);
        self.silence();
        refill(&mut queue);
        queue.retain(|item| !unwanted(item));
        if !queue.is_empty() {
            self.ring();
        }
    }

    /// Takes the oldest item. `refill` first adds items to the queue that wait elsewhere, and makes sure that the
    /// descriptor becomes readable for further ones. If there is none, waits for one, unless the descriptor is
    /// non-blocking.
    ///
    /// # Errors
    /// `EAGAIN` if there is none and the descriptor is non-blocking; `EINTR` after a signal.
    pub fn take(&self, refill: impl Fn(&mut VecDeque<T>)) -> Result<T, c_int> {
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
