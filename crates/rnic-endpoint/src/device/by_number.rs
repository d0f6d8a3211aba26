//! Access to the verbs by number, for interfaces whose objects are not this crate's handles, such as libibverbs.

use super::shared::Source;
use super::{Device, Error};
use crate::clock::TimeSource;
use rnic_verbs::{CqId, Notify, VerbsError};
use std::task::Waker;

/// The event for which [`Device::watch`] waits: the completions of a queue, or with `None` the device's asynchronous
/// events.
pub type Watched = Source;

impl Device {
    /// Runs `work` on the device's verbs while they are locked, and then wakes the threads that may have work now.
    /// `work` must use the device only through its argument.
    ///
    /// It allows several verbs under one lock, and verbs for objects without a handle. Objects that `work` creates live
    /// until it destroys them or the last handle of the device is dropped. It must neither destroy objects that belong
    /// to handles, nor connect a queue pair with protection.
    pub fn with_verbs<R>(&self, work: impl FnOnce(&mut rnic_verbs::Device) -> R) -> R {
        let shared = self.shared();
        let mut verbs = shared.verbs();
        verbs.advance_to(shared.clock.now());
        let result = work(&mut verbs);
        drop(verbs);
        shared.posted();
        result
    }

    /// Runs `work` like [`Device::with_verbs`], for verbs that give the thread that moves packets no work, such as
    /// posting a receive. If packets are ready to be sent nevertheless, the thread is woken.
    pub fn with_verbs_quietly<R>(&self, work: impl FnOnce(&mut rnic_verbs::Device) -> R) -> R {
        let shared = self.shared();
        let mut verbs = shared.verbs();
        let result = work(&mut verbs);
        let is_ready = verbs.has_ready();
        drop(verbs);
        if is_ready {
            shared.posted();
        } else {
            shared.notify();
        }
        result
    }

    /// Sends the packets that wait to be sent, such as the ACK of a message that the application has already received.
    /// Callers do so before they destroy a queue pair.
    pub fn settle(&self) {
        self.shared().settle();
    }

    /// Lets the device handle the messages of other processes and devices of its address now, for example after one of
    /// them was closed.
    pub fn tend(&self) {
        self.shared().tend();
    }

    /// Moves completions, oldest first, from a queue to `out`; returns their number.
    ///
    /// # Errors
    /// When the queue does not exist, or its completions were lost because it was full.
    pub fn poll_number(&self, cq: CqId, out: &mut [rnic_verbs::Completion]) -> Result<usize, VerbsError> {
        self.shared().verbs().poll_cq(cq, out)
    }

    /// Wakes `waker` once: at the next completion of the queue that is of the kind `notify`, or at the next
    /// asynchronous event. Returns `false` if completions or events are already waiting; in this case the waker is not
    /// woken.
    ///
    /// # Errors
    /// When the device is closed, or the queue does not exist.
    pub fn watch(&self, source: Watched, notify: Notify, waker: &Waker) -> Result<bool, Error> {
        self.shared().register(source, notify, waker)
    }

    /// Forgets the wakers of a completion queue, which is about to be destroyed.
    pub fn unwatch(&self, cq: CqId) {
        self.shared().forget(cq);
    }
}
