//! Completion queues of a device: polling for completions, sleeping until one arrives, and asynchronous waiting.

use super::{Device, Error};
use crate::clock::{Clock, TimeSource};
use crate::config::Mode;
use rnic_transport::Time;
use rnic_verbs::{Completion, CqId, Notify, Status};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub(super) struct CqInner {
    pub(super) device: Device,
    pub(super) id: CqId,
}

impl Drop for CqInner {
    fn drop(&mut self) {
        let shared = self.device.shared();
        shared.forget(self.id);
        let _ = shared.verbs().destroy_cq(self.id);
    }
}

/// A completion queue: it holds the completions of work requests until the application takes them.
#[derive(Clone)]
pub struct CompletionQueue(pub(super) Arc<CqInner>);

impl CompletionQueue {
    /// Moves completions, oldest first, from the queue to `out`; returns their number. On a device without a progress
    /// thread ([`Mode::Polled`]) it first makes progress: it receives packets, fires timers and sends packets.
    ///
    /// # Errors
    /// When completions were lost because the queue was full, or the device is closed.
    pub fn poll(&self, out: &mut [Completion]) -> Result<usize, Error> {
        let shared = self.0.device.shared();
        if shared.mode == Mode::Polled {
            shared.progress()?;
        }
        self.take(out)
    }

    /// Moves completions from the queue to `out` without sending or receiving packets; returns their number.
    fn take(&self, out: &mut [Completion]) -> Result<usize, Error> {
        let shared = self.0.device.shared();
        let count = shared.verbs().poll_cq(self.0.id, out)?;
        if count == 0 {
            shared.alive()?;
        }
        Ok(count)
    }

    /// Waits until the queue has completions, and moves them to `out`; returns their number. The number is 0 if none
    /// arrived within `timeout`.
    ///
    /// # Errors
    /// As [`CompletionQueue::poll`].
    pub fn wait(&self, out: &mut [Completion], timeout: Time) -> Result<usize, Error> {
        let shared = self.0.device.shared();
        let clock = Clock::start();
        loop {
            let count = self.take(out)?;
            if count > 0 || out.is_empty() {
                return Ok(count);
            }
            let spent = clock.now();
            if spent >= timeout {
                return Ok(0);
            }
            shared.progress_or_wait(Some(self.0.id), timeout - spent)?;
        }
    }

    /// Takes the oldest completion; returns `None` if the queue is empty. On a device without a progress thread it
    /// first sends and receives packets, as [`CompletionQueue::poll`] does.
    ///
    /// # Errors
    /// As [`CompletionQueue::poll`]; [`Error::Failed`] if the work request failed.
    pub fn poll_one(&self) -> Result<Option<Completion>, Error> {
        let mut out = [Completion::BLANK];
        match self.poll(&mut out)? {
            0 => Ok(None),
            _ => succeeded(out[0]).map(Some),
        }
    }

    /// Waits until the queue has a completion, and takes the oldest one.
    ///
    /// # Errors
    /// As [`CompletionQueue::wait`]; [`Error::Failed`] if the work request failed, [`Error::TimedOut`] if no work
    /// request completed within `timeout`.
    pub fn wait_one(&self, timeout: Time) -> Result<Completion, Error> {
        let mut out = [Completion::BLANK];
        match self.wait(&mut out, timeout)? {
            0 => Err(Error::TimedOut(timeout)),
            _ => succeeded(out[0]),
        }
    }

    /// Returns a future that resolves when the queue has completions, which [`CompletionQueue::poll`] then takes. With
    /// [`Notify::Solicited`] only two kinds of new completions resolve the future: completions of failed work requests,
    /// and of messages that the peer sent with the solicited event bit. Completions that are already in the queue at
    /// the first poll of the future resolve it in any case.
    ///
    /// On a device with a progress thread the task sleeps until the future resolves. Without a progress thread the task
    /// wakes itself repeatedly, and sends and receives packets each time.
    pub fn completions(&self, notify: Notify) -> Completions<'_> {
        Completions { queue: self, notify }
    }
}

fn succeeded(completion: Completion) -> Result<Completion, Error> {
    match completion.status {
        Status::Success => Ok(completion),
        status => Err(Error::Failed { wr_id: completion.wr_id, status }),
    }
}

/// The future of [`CompletionQueue::completions`]: it resolves when the completion queue has completions.
pub struct Completions<'a> {
    queue: &'a CompletionQueue,
    notify: Notify,
}

impl Future for Completions<'_> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = &self.queue.0;
        let shared = inner.device.shared();
        if shared.mode == Mode::Polled
            && let Err(error) = shared.progress()
        {
            return Poll::Ready(Err(error));
        }
        match shared.register(Some(inner.id), self.notify, context.waker()) {
            Ok(true) => {
                if shared.mode == Mode::Polled {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
            Ok(false) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}
