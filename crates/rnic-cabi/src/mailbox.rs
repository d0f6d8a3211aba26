//! Queues with a file descriptor by which programs wait for their items.

use crate::entry::lock;
use libc::c_int;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

/// A queue of items for the program, with a file descriptor that is readable as long as the queue is not empty, and
/// never writable, as that of the kernel. The program may make the descriptor non-blocking.
///
/// The descriptor is that of an epoll instance, which is readable while it watches an eventfd that is always readable.
/// An eventfd alone would be writable all the time, so that an event loop that also waits for writability would not
/// sleep.
pub struct Mailbox<T> {
    fd: Epoll,
    queue: Mutex<VecDeque<T>>,
    closed: AtomicBool,
}

/// A descriptor that is always readable: one for all queues of the process.
fn ready() -> Result<&'static EventFd, Errno> {
    static READY: OnceLock<EventFd> = OnceLock::new();
    if let Some(ready) = READY.get() {
        return Ok(ready);
    }
    let ready = EventFd::from_value_and_flags(1, EfdFlags::EFD_CLOEXEC)?;
    Ok(READY.get_or_init(|| ready))
}

impl<T> Mailbox<T> {
    /// An empty queue.
    ///
    /// # Errors
    /// The system has no file descriptors.
    pub fn new() -> Result<Mailbox<T>, c_int> {
        ready().map_err(|error| error as c_int)?;
        let fd = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|error| error as c_int)?;
        Ok(Mailbox { fd, queue: Mutex::default(), closed: AtomicBool::new(false) })
    }

    /// The descriptor.
    pub fn raw_fd(&self) -> c_int {
        self.descriptor().as_raw_fd()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.0.as_fd()
    }

    /// Makes the descriptor readable. If it is readable already, who waits for the next change of it
    /// (`EPOLLET`) is woken once more.
    pub fn make_readable(&self) {
        // `new` has made it; the system may have no memory for a watch, as for any other wake-up.
        let Ok(ready) = ready() else { return };
        let watch = || self.fd.add(ready, EpollEvent::new(EpollFlags::EPOLLIN, 0));
        if watch() == Err(Errno::EEXIST) {
            self.make_unreadable();
            let _ = watch();
        }
    }

    /// Makes the descriptor unreadable; returns whether it was readable.
    fn make_unreadable(&self) -> bool {
        ready().is_ok_and(|ready| self.fd.delete(ready).is_ok())
    }

    /// Waits until the descriptor is readable.
    ///
    /// # Errors
    /// `EAGAIN` if the descriptor is non-blocking; `EINTR` after a signal.
    fn wait(&self) -> Result<(), Errno> {
        let flags = OFlag::from_bits_retain(fcntl(self.descriptor(), FcntlArg::F_GETFL)?);
        if flags.contains(OFlag::O_NONBLOCK) {
            return Err(Errno::EAGAIN);
        }
        poll(&mut [PollFd::new(self.descriptor(), PollFlags::POLLIN)], PollTimeout::NONE).map(drop)
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
                    // For the next thread that waits.
                    self.make_readable();
                    return Err(libc::EIO);
                }
            }
            self.wait().map_err(|error| error as c_int)?;
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

    /// What `poll` says about the descriptor of a mailbox.
    fn events<T>(mailbox: &Mailbox<T>) -> PollFlags {
        let mut fds = [PollFd::new(mailbox.descriptor(), PollFlags::POLLIN | PollFlags::POLLOUT)];
        poll(&mut fds, PollTimeout::ZERO).unwrap();
        fds[0].revents().unwrap()
    }

    /// An event loop that waits until the descriptor is readable or writable sleeps while there is no item.
    #[test]
    fn the_descriptor_is_never_writable() {
        let mailbox = Mailbox::new().unwrap();
        assert_eq!(events(&mailbox), PollFlags::empty());
        mailbox.push(1);
        mailbox.push(2);
        assert_eq!(events(&mailbox), PollFlags::POLLIN);
        assert_eq!(mailbox.take(|_| (), |_| ()), Ok(1));
        assert_eq!(events(&mailbox), PollFlags::POLLIN);
        assert_eq!(mailbox.take(|_| (), |_| ()), Ok(2));
        assert_eq!(events(&mailbox), PollFlags::empty());
    }

    /// A program that waits for changes of the descriptor only gets one for each item, as from the kernel.
    #[test]
    fn each_item_is_a_change_of_the_descriptor() {
        let mailbox = Mailbox::new().unwrap();
        let changes = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
        changes.add(mailbox.descriptor(), EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0)).unwrap();
        let changed = || changes.wait(&mut [EpollEvent::empty()], PollTimeout::ZERO).unwrap() == 1;
        assert!(!changed());
        for item in 0..3 {
            mailbox.push(item);
            assert!(changed() && !changed());
        }
    }

    #[test]
    fn a_descriptor_that_does_not_block_says_so() {
        let mailbox = Mailbox::<i32>::new().unwrap();
        fcntl(mailbox.descriptor(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        assert_eq!(mailbox.take(|_| (), |_| ()), Err(libc::EAGAIN));
    }

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
        let is_readable = || events(&mailbox).contains(PollFlags::POLLIN);
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
