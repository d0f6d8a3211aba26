//! The asynchronous events of an opened device.

use super::Address;
use super::channel::Mailbox;
use crate::abi::*;
use libc::c_int;
use rnic_cabi::entry::lock;
use rnic_verbs::{CqId, Event, Notify, Qpn, SrqId, Status};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Wake, Waker};

/// The asynchronous events of a device, and the objects to which they belong.
pub(crate) struct Events {
    pub(crate) mailbox: Mailbox<ibv_async_event>,
    objects: Mutex<Objects>,
    device: rnic_endpoint::Device,
    /// Makes the descriptor readable.
    waker: Waker,
}

#[derive(Default)]
struct Objects {
    qps: BTreeMap<u32, Address>,
    cqs: BTreeMap<CqId, Address>,
    srqs: BTreeMap<SrqId, Address>,
}

struct EventWaker(Weak<Events>);

impl Wake for EventWaker {
    fn wake(self: Arc<Self>) {
        if let Some(events) = self.0.upgrade() {
            events.mailbox.make_readable();
        }
    }
}

impl Events {
    pub(crate) fn new(device: rnic_endpoint::Device) -> Result<Arc<Events>, c_int> {
        let mailbox = Mailbox::new()?;
        let events = Arc::new_cyclic(|events: &Weak<Events>| Events {
            mailbox,
            objects: Mutex::default(),
            device,
            waker: Waker::from(Arc::new(EventWaker(events.clone()))),
        });
        events.watch();
        Ok(events)
    }

    /// Arms the descriptor, which becomes readable at the next event. Returns whether events are already waiting.
    fn watch(&self) -> bool {
        matches!(self.device.watch(None, Notify::Any, &self.waker), Ok(false))
    }

    /// Adds the events of the device.
    pub(crate) fn refill(&self, queue: &mut VecDeque<ibv_async_event>) {
        loop {
            while let Some(event) = self.device.event() {
                queue.extend(self.translate(&event));
            }
            // An event after the call of `watch` wakes the waker. If an event came before the call, the loop continues.
            if !self.watch() {
                return;
            }
        }
    }

    pub(crate) fn add_qp(&self, qpn: Qpn, qp: Address) {
        lock(&self.objects).qps.insert(qpn.0, qp);
    }
    pub(crate) fn add_cq(&self, id: CqId, cq: Address) {
        lock(&self.objects).cqs.insert(id, cq);
    }
    pub(crate) fn add_srq(&self, id: SrqId, srq: Address) {
        lock(&self.objects).srqs.insert(id, srq);
    }
    pub(crate) fn remove_qp(&self, qpn: Qpn) {
        let removed = lock(&self.objects).qps.remove(&qpn.0);
        self.remove_events_of(removed);
    }
    pub(crate) fn remove_cq(&self, id: CqId) {
        let removed = lock(&self.objects).cqs.remove(&id);
        self.remove_events_of(removed);
    }
    pub(crate) fn remove_srq(&self, id: SrqId) {
        let removed = lock(&self.objects).srqs.remove(&id);
        self.remove_events_of(removed);
    }
    fn remove_events_of(&self, object: Option<Address>) {
        let Some(object) = object else { return };
        let object = object.as_ptr();
        self.mailbox.remove(|event| event.element == object, |queue| self.refill(queue));
    }

    /// The event as C sees it; `None` if its object is destroyed.
    fn translate(&self, event: &Event) -> Option<ibv_async_event> {
        let objects = lock(&self.objects);
        let (object, event_type) = match event {
            Event::CommunicationEstablished(qpn) => (objects.qps.get(&qpn.0), IBV_EVENT_COMM_EST),
            Event::SendQueueDrained(qpn) => (objects.qps.get(&qpn.0), IBV_EVENT_SQ_DRAINED),
            Event::QueuePairError(qpn, why) => {
                let kind = match why {
                    Status::RemoteAccess | Status::LocalAccess => IBV_EVENT_QP_ACCESS_ERR,
                    Status::LocalQpOperation | Status::LocalLength => IBV_EVENT_QP_REQ_ERR,
                    _ => IBV_EVENT_QP_FATAL,
                };
                (objects.qps.get(&qpn.0), kind)
            }
            Event::CompletionQueueOverflow(id) => (objects.cqs.get(id), IBV_EVENT_CQ_ERR),
            Event::SharedReceiveLimit(id) => (objects.srqs.get(id), IBV_EVENT_SRQ_LIMIT_REACHED),
            Event::LastReceiveTaken(qpn) => (objects.qps.get(&qpn.0), IBV_EVENT_QP_LAST_WQE_REACHED),
        };
        Some(ibv_async_event { element: object?.as_ptr(), event_type })
    }
}
