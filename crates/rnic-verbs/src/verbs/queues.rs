//! Verbs for completion queues and shared receive queues.

use crate::device::Device;
use crate::memory::total;
use crate::queue::{CompletionQueue, Notify, Receive, ReceiveQueue, SharedReceiveQueue};
use crate::types::{Completion, CqId, Event, Pd, Qpn, RecvRequest, SrqId, SrqInfo, VerbsError, range};

/// Verbs for completion queues.
impl Device {
    /// Creates a completion queue with room for `capacity` completions.
    ///
    /// # Errors
    /// If a limit of the device is reached.
    pub fn create_cq(&mut self, capacity: u32) -> Result<CqId, VerbsError> {
        let limits = self.config.limits;
        if self.ctx.cqs.len() >= limits.completion_queues as usize {
            return Err(VerbsError::Exhausted { what: "completion queues", limit: limits.completion_queues.into() });
        }
        range("the capacity of a completion queue", capacity, 1, limits.completions)?;
        Ok(CqId(self.ctx.cqs.insert(CompletionQueue::new(capacity)?)))
    }

    /// Gives a completion queue room for `capacity` completions. The completions in it stay.
    ///
    /// # Errors
    /// If the queue does not exist or has overflowed, `capacity` is above the limit of the device or less than the
    /// number of completions that wait, or the system has no memory.
    pub fn resize_cq(&mut self, cq: CqId, capacity: u32) -> Result<(), VerbsError> {
        let most = self.config.limits.completions;
        let queue = self.cq(cq)?;
        if queue.overflowed() {
            return Err(VerbsError::Overflow);
        }
        let least = (queue.len() as u32).max(1);
        range("the capacity of a completion queue", capacity, least, most)?;
        queue.resize(capacity)
    }

    /// Removes the completions of a queue pair that wait in a completion queue, as NICs do when a queue pair is reset
    /// or destroyed: the application might mix them up with those of the next connection.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn forget_completions(&mut self, cq: CqId, qpn: Qpn) -> Result<(), VerbsError> {
        self.cq(cq)?.forget(qpn);
        Ok(())
    }

    /// Destroys a completion queue.
    ///
    /// # Errors
    /// [`VerbsError::Busy`] while a queue pair uses the completion queue.
    pub fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbsError> {
        if self.cq(cq)?.users > 0 {
            return Err(VerbsError::Busy { what: "completion queue", by: "a queue pair" });
        }
        self.ctx.cqs.remove(cq.0);
        Ok(())
    }

    pub(super) fn cq(&mut self, cq: CqId) -> Result<&mut CompletionQueue, VerbsError> {
        self.ctx.cqs.get_mut(cq.0).ok_or(VerbsError::Unknown("such completion queue"))
    }

    /// Moves up to `out.len()` completions into `out`, oldest first, and returns their number.
    ///
    /// # Errors
    /// [`VerbsError::Overflow`] if completions were lost because the queue was full. The error comes only after the
    /// completions before the loss have been polled.
    pub fn poll_cq(&mut self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        self.cq(cq)?.poll(out)
    }

    /// The number of completions that wait in the completion queue; 0 if no queue has this handle.
    pub fn cq_len(&self, cq: CqId) -> usize {
        self.ctx.cqs.get(cq.0).map_or(0, CompletionQueue::len)
    }

    /// Requests one notification of the next completion of the kind `notify`, or of an overflow of the completion
    /// queue. [`Device::take_notification`] tells whether the notification has come.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn arm_cq(&mut self, cq: CqId, notify: Notify) -> Result<(), VerbsError> {
        self.cq(cq)?.arm(notify);
        Ok(())
    }

    /// Whether the notification that [`Device::arm_cq`] requested has come; clears the notification.
    pub fn take_notification(&mut self, cq: CqId) -> bool {
        self.ctx.cqs.get_mut(cq.0).is_some_and(CompletionQueue::take_notification)
    }
}

/// Verbs for shared receive queues.
impl Device {
    /// Creates a shared receive queue for `capacity` receives of up to `max_sge` scatter-gather elements.
    ///
    /// # Errors
    /// If a limit of the device is reached.
    pub fn create_srq(&mut self, pd: Pd, capacity: u32, max_sge: u32) -> Result<SrqId, VerbsError> {
        self.domain(pd)?;
        let limits = self.config.limits;
        if self.ctx.srqs.len() >= limits.shared_receive_queues as usize {
            let limit = limits.shared_receive_queues.into();
            return Err(VerbsError::Exhausted { what: "shared receive queues", limit });
        }
        range("the capacity of a receive queue", capacity, 1, limits.work_requests)?;
        range("the number of scatter-gather elements", max_sge, 0, limits.scatter_gather)?;
        let receives = ReceiveQueue::new(capacity, max_sge)?;
        Ok(SrqId(self.ctx.srqs.insert(SharedReceiveQueue { pd, receives, limit: 0, users: 0 })))
    }

    /// Gives a shared receive queue room for `capacity` receives. The receives in it stay.
    ///
    /// # Errors
    /// If there is no such queue, `capacity` is above the limit of the device, or less than the number of receives that
    /// wait or than the limit of [`Device::arm_srq`], or the system has no memory.
    pub fn resize_srq(&mut self, srq: SrqId, capacity: u32) -> Result<(), VerbsError> {
        let most = self.config.limits.work_requests;
        let queue = self.srq(srq)?;
        let least = (queue.receives.queue.len() as u32).max(queue.limit).max(1);
        range("the capacity of a receive queue", capacity, least, most)?;
        queue.receives.resize(capacity)
    }

    /// Requests one [`Event::SharedReceiveLimit`] as soon as the shared receive queue holds fewer than `limit`
    /// receives. If the queue already holds fewer receives, the event comes immediately. A `limit` of 0 withdraws the
    /// request.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn arm_srq(&mut self, srq: SrqId, limit: u32) -> Result<(), VerbsError> {
        let queue = self.srq(srq)?;
        queue.limit = limit;
        if queue.reaches_limit() {
            self.ctx.raise(Event::SharedReceiveLimit(srq));
        }
        Ok(())
    }

    /// Returns the sizes, the limit and the number of receives of a shared receive queue.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn query_srq(&mut self, srq: SrqId) -> Result<SrqInfo, VerbsError> {
        let SharedReceiveQueue { receives, limit, .. } = self.srq(srq)?;
        let (capacity, max_sge) = (receives.capacity, receives.max_sge);
        Ok(SrqInfo { capacity, max_sge, limit: *limit, receives: receives.queue.len() as u32 })
    }

    /// Destroys a shared receive queue with the receives in it.
    ///
    /// # Errors
    /// [`VerbsError::Busy`] while a queue pair uses the shared receive queue.
    pub fn destroy_srq(&mut self, srq: SrqId) -> Result<(), VerbsError> {
        if self.srq(srq)?.users > 0 {
            return Err(VerbsError::Busy { what: "shared receive queue", by: "a queue pair" });
        }
        self.ctx.srqs.remove(srq.0);
        Ok(())
    }

    pub(super) fn srq(&mut self, srq: SrqId) -> Result<&mut SharedReceiveQueue, VerbsError> {
        self.ctx.srqs.get_mut(srq.0).ok_or(VerbsError::Unknown("such shared receive queue"))
    }

    /// Posts a receive to a shared receive queue. Each queue pair that needs a receive takes the oldest receive of the
    /// queue.
    ///
    /// # Errors
    /// If the queue is full, or the memory of a scatter-gather element cannot be used.
    pub fn post_srq_recv(&mut self, srq: SrqId, request: &RecvRequest<'_>) -> Result<(), VerbsError> {
        let (pd, max_sge) = {
            let srq = self.srq(srq)?;
            (srq.pd, srq.receives.max_sge)
        };
        let receive = self.receive_request(pd, max_sge, request)?;
        self.srq(srq)?.receives.post(receive, 0)
    }

    pub(super) fn receive_request(
        &self, pd: Pd, max_sge: u32, request: &RecvRequest<'_>,
    ) -> Result<Receive, VerbsError> {
        let scatter = self.check_sges(pd, request.scatter, max_sge, true)?;
        Ok(Receive { wr_id: request.wr_id, scatter, room: total(request.scatter) })
    }
}
