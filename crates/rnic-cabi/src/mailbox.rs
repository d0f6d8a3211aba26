//! Queues with a file descriptor by which programs wait for their items.

use crate::entry::lock;
use libc::c_int;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A queue of items for the program, with a file descriptor that is readable as long as the queue is not empty. The
/// program may make the descriptor non-blocking.
pub struct Mailbox<T> {
    fd: EventFd,
    queue: Mutex<VecDeque<T>>,
    closed: AtomicBool,
}

impl<T> Mailbox<T> {
    /// An empty queue.
    ///
    /// # Errors
    /// The system has no file descriptors.
    pub fn new() -> Result<Mailbox<T>, c_int> {
        let fd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(|error| error as c_int)?;
        Ok(Mailbox { fd, queue: Mutex::default(), closed: AtomicBool::new(false) })
    }

    /// The descriptor.
    pub fn raw_fd(&self) -> c_int {
        self.fd.as_fd().as_raw_fd()
    }

    /// Makes the descriptor readable.
    pub fn make_readable(&self) {
        // The call fails only if the counter is at its maximum; then the descriptor is readable already.
        let _ = self.fd.write(1);
    }

    /// Makes the descriptor unreadable; returns whether it was readable.
    fn make_unreadable(&self) -> bool {
        let mut fd = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        poll(&mut fd, PollTimeout::ZERO) == Ok(1) && self.fd.read().is_ok()
    }

    /// Adds an item.
    pub fn push(&self, item: T) {
        let mut queue = lock(&self.queue);
        queue.push_back(item);
        self.make_readable();
    }

    /// Whether the queue is empty. Items that `refill` would add do not count.
    pub fn is_empty(&self) -> bool {
        lock(&self.queue).is_empty()
    }

    /// Removes the `unwanted` items. If the queue is empty afterwards, the descriptor becomes unreadable, and `refill`
    /// is called as in [`Mailbox::take`], because the descriptor may have been readable due to items of the other
    /// source. If `refill` adds items, the descriptor becomes readable again.
    pub fn remove(&self, unwanted: impl Fn(&T) -> bool, refill: impl Fn(&mut VecDeque<T>)) {
        let mut queue = lock(&self.queue);
        queue.retain(|item| !unwanted(item));
        if queue.is_empty() && self.make_unreadable() {
            refill(&mut queue);
            if !queue.is_empty() || self.closed.load(Ordering::Relaxed) {
                self.make_readable();
            }
        }
    }

    /// Closes the queue: threads that wait for an item get an error.
    pub fn close(&self) {
        let _queue = lock(&self.queue);
        self.closed.store(true, Ordering::Relaxed);
        self.make_readable();
    }

    /// Takes the oldest item. `refill` first adds items from another source to the queue, and ensures that the
    /// descriptor becomes readable for further items. If the queue is empty, the call waits for an item, unless the
    /// descriptor is non-blocking. `taken` gets the item before another thread can call [`Mailbox::remove`]. So if
    /// [`Mailbox::remove`] does not find an item, `taken` has already got this item.
    ///
    /// # Errors
    /// `EAGAIN` if the queue is empty and the descriptor is non-blocking; `EINTR` after a signal; `EIO` if the queue is
    /// empty and closed.
    pub fn take(&self, refill: impl Fn(&mut VecDeque<T>), taken: impl Fn(&T)) -> Result<T, c_int> {
        loop {
            {
                let mut queue = lock(&self.queue);
                if queue.len() <= 1 {
                    self.make_unreadable();
                }
                refill(&mut queue);
                if let Some(item) = queue.pop_front() {
                    if !queue.is_empty() || self.closed.load(Ordering::Relaxed) {
                        self.make_readable();
                    }
                    taken(&item);
                    return Ok(item);
                }
                if self.closed.load(Ordering::Relaxed) {
                    // Wake the next thread that waits.
                    self.make_readable();
                    return Err(libc::EIO);
                }
            }
            let mut count = [0; 8];
            nix::unistd::read(&self.fd, &mut count).map_err(|error| error as c_int)?;
            // Another thread may take the item. If no other thread takes it, the descriptor must stay readable.
            self.make_readable();
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "threads give each other time")]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// A thread takes an item, and counts it for the owner, while the owner removes its items: afterwards the item is
    /// removed or counted.
    #[test]
    fn an_item_is_removed_or_counted() {
        let mailbox = Mailbox::new().unwrap();
        let counted = AtomicBool::new(false);
        let (taking, is_taken) = mpsc::channel();
        mailbox.push(7);
        thread::scope(|scope| {
            scope.spawn(|| {
                let count = |_: &i32| {
                    taking.send(()).unwrap();
                    thread::sleep(Duration::from_millis(100));
                    counted.store(true, Ordering::Relaxed);
                };
                assert_eq!(mailbox.take(|_| (), count), Ok(7));
            });
            is_taken.recv().unwrap();
            mailbox.remove(|item| *item == 7, |_| ());
            assert!(counted.load(Ordering::Relaxed));
        });
    }

    /// The descriptor is readable because of an item from another source. It stays readable when a different item is
    /// removed.
    #[test]
    fn removal_keeps_the_items_of_another_source() {
        let mailbox = Mailbox::new().unwrap();
        let is_readable =
            || poll(&mut [PollFd::new(mailbox.fd.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1);
        mailbox.push(1);
        mailbox.make_readable();
        mailbox.remove(|item| *item == 1, |queue| queue.push_back(2));
        assert!(is_readable());
        assert_eq!(mailbox.take(|_| (), |_| ()), Ok(2));
        mailbox.push(3);
        mailbox.remove(|item| *item == 3, |_| ());
        assert!(!is_readable());
    }

    #[test]
    fn a_closed_mailbox_wakes_all_that_wait() {
        let mailbox = Mailbox::<i32>::new().unwrap();
        thread::scope(|scope| {
            let waiting = [(); 3].map(|()| scope.spawn(|| mailbox.take(|_| (), |_| ())));
            thread::sleep(Duration::from_millis(50));
            mailbox.push(1);
            mailbox.close();
            let mut got = waiting.map(|thread| thread.join().unwrap());
            got.sort();
            assert_eq!(got, [Ok(1), Err(libc::EIO), Err(libc::EIO)]);
        });
        assert_eq!(mailbox.take(|_| (), |_| ()), Err(libc::EIO));
    }
}
