//! Completion queues: polling, sleeping and asynchronous waiting.

use super::{Device, Error};
use crate::clock::TimeSource;
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

/// A queue of completions of work requests.
#[derive(Clone)]
pub struct CompletionQueue(pub(super) Arc<CqInner>);

impl CompletionQueue {
    /// Takes completions, oldest first; returns how many. Without a progress thread it makes progress first.
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

    /// Takes completions without making progress.
    fn take(&self, out: &mut [Completion]) -> Result<usize, Error> {
        let shared = self.0.device.shared();
        let count = shared.verbs().poll_cq(self.0.id, out)?;
        if count == 0 {
            shared.alive()?;
        }
        Ok(count)
    }

    /// Waits for completions and takes them; returns how many, 0 if there were none within `timeout`.
    ///
    /// # Errors
    /// As [`CompletionQueue::poll`].
    pub fn wait(&self, out: &mut [Completion], timeout: Time) -> Result<usize, Error> {
        let shared = self.0.device.shared();
        let end = shared.clock.now().saturating_add(timeout);
        loop {
            let count = self.take(out)?;
            if count > 0 || out.is_empty() || shared.clock.now() >= end {
                return Ok(count);
            }
            shared.progress_or_wait(Some(self.0.id), end)?;
        }
    }

    /// Takes the oldest completion, if there is one.
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

    /// Waits for a completion and takes it.
    ///
    /// # Errors
    /// As [`CompletionQueue::wait`]; [`Error::Failed`] if the work request failed, [`Error::TimedOut`] if there was no
    /// completion within `timeout`.
    pub fn wait_one(&self, timeout: Time) -> Result<Completion, Error> {
        let mut out = [Completion::BLANK];
        match self.wait(&mut out, timeout)? {
            0 => Err(Error::TimedOut(timeout)),
            _ => succeeded(out[0]),
        }
    }

    /// A future that resolves when the queue has completions; [`CompletionQueue::poll`] takes them. With
    /// [`Notify::Solicited`] completions of messages that the peer did not send as solicited do not resolve it, unless
    /// they are in the queue at the start.
    ///
    /// With a progress thread the task sleeps. Without one it wakes itself again and again, and makes progress each
    /// time.
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

/// See [`CompletionQueue::completions`].
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
        match shared.register(inner.id, self.notify, context.waker()) {
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
