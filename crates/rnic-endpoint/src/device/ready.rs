//! Waiting for completions and asynchronous events with the means of other programs: a file descriptor for `poll` and
//! `epoll`, and a future of the next event.

use super::shared::Source;
use super::{CompletionQueue, Device, Error};
use crate::config::Mode;
use nix::sys::eventfd::{EfdFlags, EventFd};
use rnic_verbs::{Event, Notify};
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// An eventfd that becomes readable when it is woken.
struct Bell(EventFd);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        // The write fails only if the counter of the eventfd is at its maximum. Then the descriptor is readable anyway.
        let _ = self.0.write(1);
    }
}

/// A file descriptor that becomes readable when a completion queue has completions
/// ([`CompletionQueue::ready_fd`]), or a device has asynchronous events ([`Device::ready_fd`]). With it a program waits
/// in `poll` or `epoll`, for several queues, sockets and timers together. It also works with the `AsyncFd` of tokio.
///
/// It works like the completion channel of libibverbs: the program arms it, takes the completions or events that have
/// already arrived, and waits. Each [`ReadyFd::arm`] makes the descriptor readable at most once.
///
/// - On a device with a progress thread ([`Mode::Thread`]) the program needs nothing else.
/// - On a device without a progress thread ([`Mode::Polled`]) [`ReadyFd::arm`] sends and receives packets once. The
///   descriptor becomes readable only while a thread of the application continues to send and receive packets, with
///   [`Device::progress`] for example. A program whose only thread sleeps in `poll` needs [`Mode::Thread`].
///
/// When the device closes, the descriptor becomes readable, and [`ReadyFd::arm`] returns the error. The program must
/// neither read nor write the descriptor.
///
/// ```
/// use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
/// use rnic_endpoint::{Completion, Notify};
/// use std::os::fd::AsFd;
/// # use rnic_endpoint::{CompletionQueue, Config, Device};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = Device::open_at("127.0.0.1:0".parse()?, Config::default())?;
/// # let cq = device.completion_queue(16)?;
/// # let domain = device.protection_domain();
/// # let qp = domain.queue_pair(&rnic_endpoint::QpOptions::new(&cq))?;
/// # qp.post_recv(1, &[])?;
/// # qp.abort()?;
/// let ready = cq.ready_fd(Notify::Any)?;
/// let mut completions = [Completion::BLANK; 16];
/// loop {
///     // Arm first: a completion that comes after the poll of the queue makes the descriptor readable.
///     if ready.arm()? {
///         // Other descriptors can be in the same call.
///         poll(&mut [PollFd::new(ready.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE)?;
///     }
///     let count = cq.poll(&mut completions)?;
///     for completion in &completions[..count] {
///         println!("work request {} is complete", completion.wr_id);
///     }
/// #   break;
/// }
/// # Ok(())
/// # }
/// ```
pub struct ReadyFd {
    device: Device,
    /// Keeps the completion queue alive.
    _queue: Option<CompletionQueue>,
    source: Source,
    notify: Notify,
    bell: Arc<Bell>,
    waker: Waker,
}

impl ReadyFd {
    fn new(device: &Device, queue: Option<&CompletionQueue>, notify: Notify) -> Result<ReadyFd, Error> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let bell = Arc::new(Bell(EventFd::from_flags(flags).map_err(io::Error::from)?));
        Ok(ReadyFd {
            device: device.clone(),
            source: queue.map(|queue| queue.0.id),
            _queue: queue.cloned(),
            notify,
            waker: Waker::from(bell.clone()),
            bell,
        })
    }

    /// Makes the descriptor unreadable until the next completion or event. Returns `false` if completions or events are
    /// already waiting; in this case the program takes them instead of waiting for the descriptor.
    ///
    /// # Errors
    /// When the device is closed, or in [`Mode::Polled`] a system call fails.
    pub fn arm(&self) -> Result<bool, Error> {
        let shared = self.device.shared();
        if shared.mode == Mode::Polled {
            shared.progress()?;
        }
        // It fails if the descriptor is not readable.
        let _ = self.bell.0.read();
        shared.register(self.source, self.notify, &self.waker)
    }
}

impl AsFd for ReadyFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.0.as_fd()
    }
}

impl AsRawFd for ReadyFd {
    fn as_raw_fd(&self) -> RawFd {
        self.bell.0.as_fd().as_raw_fd()
    }
}

impl CompletionQueue {
    /// Creates a file descriptor that becomes readable when the queue has completions: any completions, or with
    /// [`Notify::Solicited`] only completions of failed work requests and of messages that the peer sent with the
    /// solicited event bit. [`ReadyFd`] has an example.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn ready_fd(&self, notify: Notify) -> Result<ReadyFd, Error> {
        ReadyFd::new(&self.0.device, Some(self), notify)
    }
}

impl Device {
    /// Creates a file descriptor that becomes readable when asynchronous events wait for [`Device::event`].
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn ready_fd(&self) -> Result<ReadyFd, Error> {
        ReadyFd::new(self, None, Notify::Any)
    }

    /// Returns a future that takes the oldest asynchronous event, such as an error of a queue pair, as soon as one is
    /// raised. If several tasks wait, each event goes to one of them.
    ///
    /// As with [`CompletionQueue::completions`], on a device without a progress thread the task wakes itself
    /// repeatedly, and sends and receives packets each time.
    pub fn next_event(&self) -> NextEvent<'_> {
        NextEvent { device: self }
    }
}

/// The future of [`Device::next_event`]: it takes the device's oldest asynchronous event.
pub struct NextEvent<'a> {
    device: &'a Device,
}

impl Future for NextEvent<'_> {
    type Output = Result<Event, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = self.device.shared();
        if shared.mode == Mode::Polled
            && let Err(error) = shared.progress()
        {
            return Poll::Ready(Err(error));
        }
        loop {
            if let Some(event) = self.device.event() {
                return Poll::Ready(Ok(event));
            }
            match shared.register(None, Notify::Any, context.waker()) {
                // An event came in between, unless another task has taken it already.
                Ok(false) => {}
                Ok(true) if shared.mode == Mode::Polled => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(true) => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
