//! Implements the trait [`Verbs`] for the endpoint's [`Device`], for code that works with any implementation of this
//! trait. The trait refers to queue pairs, memory regions and other objects by numbers; the rest of the interface has
//! handles, such as [`QueuePair`](super::QueuePair).

use super::{Device, Error};
use crate::clock::TimeSource;
use crate::config::Mode;
use rnic_transport::{BitRate, Time};
use rnic_verbs::{
    Access, Completion, Connection, CqId, DeviceInfo, Event, Extras, ForeignMemory, MrId, MrInfo, Pd, QpInfo, QpInit,
    Qpn, Recipient, RecvRequest, SendRequest, State, Transition, Verbs, VerbsError, until_full,
};

/// Objects (such as queue pairs) that are created through this trait belong to the device: they live until the
/// application destroys them or the last handle of the device is dropped. Objects that belong to handles
/// ([`QueuePair`](super::QueuePair) and the like) live until their handles are dropped. The application must not
/// destroy such objects through the trait.
///
/// Completion timestamps are readings of the device's clock, as [`Verbs::now`] returns it. It counts from the opening
/// of the device. When it reads 78 days, and then every 52 days (2^52 ns), it goes back by 2^52 ns, because a [`Time`]
/// cannot count picoseconds for longer than 213 days. The device reads the clock once for all
/// packets that one system call received, and once for all packets that it sends in one batch. Packets are sent and
/// received by the progress thread, or in [`Mode::Polled`] during calls of [`Verbs::poll_cq`].
impl Verbs for Device {
    fn now(&self) -> Time {
        self.shared().clock.now()
    }

    fn query_device(&self) -> DeviceInfo {
        DeviceInfo { time_granularity: Time::from_ns(1), ..self.shared().verbs().query_device() }
    }

    fn create_pd(&mut self) -> Result<Pd, VerbsError> {
        Verbs::create_pd(&mut *self.shared().verbs())
    }

    fn destroy_pd(&mut self, pd: Pd) -> Result<(), VerbsError> {
        self.shared().verbs().destroy_pd(pd)
    }

    fn register(&mut self, pd: Pd, bytes: Vec<u8>, addr: Option<u64>, access: Access) -> Result<MrInfo, VerbsError> {
        self.shared().verbs().register(pd, bytes, addr, access)
    }

    fn register_foreign(
        &mut self, pd: Pd, memory: ForeignMemory, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        self.shared().verbs().register_foreign(pd, memory, addr, access)
    }

    fn deregister(&mut self, id: MrId) -> Result<Vec<u8>, VerbsError> {
        self.shared().verbs().deregister(id)
    }

    fn read_memory(&mut self, id: MrId, offset: usize, out: &mut [u8]) -> Result<(), VerbsError> {
        self.shared().verbs().read_memory(id, offset, out)
    }

    fn write_memory(&mut self, id: MrId, offset: usize, data: &[u8]) -> Result<(), VerbsError> {
        self.shared().verbs().write_memory(id, offset, data)
    }

    fn create_cq(&mut self, capacity: u32) -> Result<CqId, VerbsError> {
        self.shared().verbs().create_cq(capacity)
    }

    fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbsError> {
        self.shared().verbs().destroy_cq(cq)
    }

    fn poll_cq(&mut self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        let shared = self.shared();
        if shared.mode == Mode::Polled {
            shared.progress().map_err(closed)?;
        }
        let count = shared.verbs().poll_cq(cq, out)?;
        if count == 0 {
            shared.alive().map_err(closed)?;
        }
        Ok(count)
    }

    fn create_qp(&mut self, pd: Pd, init: QpInit) -> Result<Qpn, VerbsError> {
        self.shared().admits(init.service)?;
        self.shared().verbs().create_qp(pd, init)
    }

    fn modify_qp(&mut self, qpn: Qpn, transition: Transition) -> Result<(), VerbsError> {
        if let Transition::ReadyToReceive(Connection { protected: true, .. }) = transition {
            return Err(VerbsError::Unsupported(
                "only a queue pair of a protection domain's handle can be protected, by QueuePair::connect",
            ));
        }
        self.transition(qpn, transition)
    }

    fn query_qp(&self, qpn: Qpn) -> Result<QpInfo, VerbsError> {
        self.shared().verbs().query_qp(qpn)
    }

    fn set_rate(&mut self, qpn: Qpn, rate: Option<BitRate>) -> Result<Option<BitRate>, VerbsError> {
        self.shared().verbs().set_rate(qpn, rate)?;
        self.shared().posted();
        Ok(rate)
    }

    fn set_extras(&mut self, qpn: Qpn, extras: Extras) -> Result<(), VerbsError> {
        self.shared().verbs().set_extras(qpn, extras)
    }

    fn post_spread(&mut self, qpn: Qpn, request: &SendRequest<'_>, entropy: u16) -> Result<(), VerbsError> {
        self.post_sends_to(qpn, |verbs| verbs.post_spread(qpn, request, entropy))
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        self.shared().flush();
        self.shared().verbs().destroy_qp(qpn)
    }

    fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), VerbsError> {
        self.post_sends_to(qpn, |verbs| verbs.post_send(qpn, request))
    }

    fn post_sends(&mut self, qpn: Qpn, requests: &[SendRequest<'_>]) -> Result<usize, VerbsError> {
        self.post_sends_to(qpn, |verbs| until_full(requests, |request| verbs.post_send(qpn, request)))
    }

    fn post_datagram(&mut self, qpn: Qpn, request: &SendRequest<'_>, to: &Recipient) -> Result<(), VerbsError> {
        self.shared().reaches(to)?;
        self.post_sends_to(qpn, |verbs| verbs.post_datagram(qpn, request, to))
    }

    fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), VerbsError> {
        self.post_receives_to(qpn, |verbs| verbs.post_recv(qpn, request))
    }

    fn post_recvs(&mut self, qpn: Qpn, requests: &[RecvRequest<'_>]) -> Result<usize, VerbsError> {
        self.post_receives_to(qpn, |verbs| until_full(requests, |request| verbs.post_recv(qpn, request)))
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.event()
    }
}

impl Device {
    /// Changes the state of a queue pair. A caller that connects it with protection must have added its session before.
    pub(crate) fn transition(&self, qpn: Qpn, transition: Transition) -> Result<(), VerbsError> {
        let mut verbs = self.shared().verbs();
        verbs.advance_to(self.shared().clock.now());
        verbs.modify_qp(qpn, transition)?;
        drop(verbs);
        // The new state may allow requests to be sent, or may have generated completions.
        self.shared().posted();
        Ok(())
    }

    /// Runs `post`, which posts send requests to queue pair `qpn`, under one lock. Then wakes the thread that sends
    /// their packets.
    pub(super) fn post_sends_to<R>(
        &self, qpn: Qpn, post: impl FnOnce(&mut rnic_verbs::Device) -> Result<R, VerbsError>,
    ) -> Result<R, VerbsError> {
        let shared = self.shared();
        let posted = self.post(qpn, post);
        // Even if a request was refused, earlier requests of the same call may have been posted.
        shared.posted();
        posted
    }

    /// Runs `post`, which posts receives to queue pair `qpn`, under one lock. Then wakes the threads that wait for
    /// completions, and the thread that sends packets if the peer must be notified that receives are available again.
    pub(super) fn post_receives_to<R>(
        &self, qpn: Qpn, post: impl FnOnce(&mut rnic_verbs::Device) -> Result<R, VerbsError>,
    ) -> Result<R, VerbsError> {
        let shared = self.shared();
        let posted = self.post(qpn, |verbs| post(verbs).map(|posted| (posted, verbs.has_ready())));
        if posted.as_ref().is_ok_and(|(_, has_ready)| *has_ready) {
            shared.posted();
        } else {
            // If the queue pair is in the error state, a posted receive completes immediately.
            shared.notify();
        }
        posted.map(|(posted, _)| posted)
    }

    fn post<R>(
        &self, qpn: Qpn, post: impl FnOnce(&mut rnic_verbs::Device) -> Result<R, VerbsError>,
    ) -> Result<R, VerbsError> {
        let shared = self.shared();
        let mut verbs = shared.verbs();
        // In an error state a posted request completes immediately, and the completion needs the current time.
        // Otherwise the driver reads the clock when it sends or receives packets.
        if matches!(verbs.state(qpn)?, State::Error | State::SendQueueError) {
            verbs.advance_to(shared.clock.now());
        }
        post(&mut verbs)
    }
}

fn closed(error: Error) -> VerbsError {
    match error {
        Error::Verbs(error) => error,
        Error::Closed(why) => VerbsError::Closed(why),
        error => VerbsError::Closed(error.to_string()),
    }
}
