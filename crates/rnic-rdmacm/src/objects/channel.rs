//! Event channels: descriptors by which programs wait for events of their identifiers; and the registry that finds the
//! channel of an event.

use super::device::Device;
use libc::c_int;
use rnic_cabi::cma::*;
use rnic_cabi::entry::{Unacknowledged, entry, lock};
use rnic_cabi::live::Live;
use rnic_cabi::mailbox::Mailbox;
use rnic_cabi::pointer::Handle;
use rnic_cm::Event;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The events of some identifiers, in order.
pub(crate) type Channel = Mailbox<Raw>;

/// An event channel. Its identifiers share its queue, so that the queue may exist longer than the channel.
#[repr(C)]
pub(crate) struct EventChannel {
    c: rdma_event_channel,
    queue: Arc<Channel>,
}

rnic_cabi::object!(EventChannel { c: rdma_event_channel, queue: Arc<Channel> });

/// An event of an identifier (`rdma_cm_id`), before it is translated into the program's `rdma_cm_event`.
#[derive(Clone)]
pub(crate) struct Raw {
    /// The token of the identifier.
    pub(crate) token: u64,
    pub(crate) what: What,
}

#[derive(Clone)]
pub(crate) enum What {
    /// A step that this library has completed immediately.
    Done { event: c_int, status: c_int },
    /// An event of the communication manager of a device.
    Manager(&'static Device, Event),
}

/// A registered identifier.
struct Entry {
    id: usize,
    /// The counter of the identifier's events.
    events: Arc<Unacknowledged>,
    channel: Arc<Channel>,
}

/// The identifiers that exist, by the tokens of their events.
struct Registry {
    next: u64,
    ids: BTreeMap<u64, Entry>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { next: 1, ids: BTreeMap::new() });

/// Returns a token for a new identifier.
pub(super) fn token() -> u64 {
    let mut registry = lock(&REGISTRY);
    registry.next += 1;
    registry.next
}

/// Registers an identifier: events with this token go to the channel.
pub(super) fn register(token: u64, id: *mut rdma_cm_id, events: Arc<Unacknowledged>, channel: Arc<Channel>) {
    lock(&REGISTRY).ids.insert(token, Entry { id: id.expose_provenance(), events, channel });
}

/// Removes an identifier from the registry, so that no further event has this token. Returns the connection requests
/// that the program has not seen.
pub(super) fn unregister(token: u64) -> Vec<(&'static Device, u32)> {
    let Some(entry) = lock(&REGISTRY).ids.remove(&token) else { return Vec::new() };
    let unseen = RefCell::new(Vec::new());
    let unwanted = |raw: &Raw| {
        if let (true, What::Manager(device, event)) = (raw.token == token, &raw.what)
            && is_request(event)
        {
            unseen.borrow_mut().push((*device, event.connection()));
        }
        raw.token == token
    };
    entry.channel.remove(unwanted, |_| ());
    unseen.into_inner()
}

/// Whether an event is a request of a peer.
pub(crate) fn is_request(event: &Event) -> bool {
    matches!(event, Event::Request { .. } | Event::ServiceRequest { .. })
}

/// Moves the events with this token to another channel.
pub(super) fn migrate(token: u64, to: Arc<Channel>) {
    let mut registry = lock(&REGISTRY);
    let Some(entry) = registry.ids.get_mut(&token) else { return };
    let from = std::mem::replace(&mut entry.channel, to.clone());
    let moved = RefCell::new(Vec::new());
    let leaves = |raw: &Raw| {
        if raw.token == token {
            moved.borrow_mut().push(raw.clone());
        }
        raw.token == token
    };
    from.remove(leaves, |_| ());
    moved.into_inner().into_iter().for_each(|raw| to.push(raw));
}

/// Puts the event of a completed step into the channel.
pub(crate) fn done(token: u64, event: c_int, status: c_int) {
    if let Some(entry) = lock(&REGISTRY).ids.get(&token) {
        entry.channel.push(Raw { token, what: What::Done { event, status } });
    }
}

/// Puts an event of a communication manager into the channel of its identifier. Returns the connection if the event is
/// a request whose listener no longer exists.
pub(super) fn deliver(device: &'static Device, event: Event) -> Option<u32> {
    let token = match &event {
        Event::Request { listener, .. }
        | Event::ServiceRequest { listener, .. }
        | Event::Withdrawn { listener, .. } => *listener,
        Event::Reply { token, .. }
        | Event::Established { token, .. }
        | Event::Rejected { token, .. }
        | Event::Unreachable { token, .. }
        | Event::Disconnected { token, .. }
        | Event::TimewaitExit { token, .. }
        | Event::ServiceReply { token, .. } => *token,
    };
    match lock(&REGISTRY).ids.get(&token) {
        // If the program has not taken the request yet, it does not see the request at all. If the program has taken
        // the request, its `rdma_accept` fails. As with the kernel, the program gets no event of an identifier that it
        // may not know yet.
        Some(entry) if matches!(event, Event::Withdrawn { .. }) => {
            let is_withdrawn = |raw: &Raw| {
                matches!(&raw.what, What::Manager(of, other)
                    if std::ptr::eq(*of, device) && is_request(other) && other.connection() == event.connection())
            };
            entry.channel.remove(is_withdrawn, |_| ());
        }
        Some(entry) => entry.channel.push(Raw { token, what: What::Manager(device, event) }),
        None if is_request(&event) => return Some(event.connection()),
        None => {}
    }
    None
}

/// Returns the identifier with this token and the counter of its events. The counter is increased by one, so that the
/// identifier is not destroyed before this event is acknowledged.
pub(crate) fn hold(token: u64) -> Option<(*mut rdma_cm_id, Arc<Unacknowledged>)> {
    let registry = lock(&REGISTRY);
    // The lock is enough, because an identifier leaves the registry before it is freed.
    let entry = registry.ids.get(&token)?;
    entry.events.add();
    Some((std::ptr::with_exposed_provenance_mut(entry.id), entry.events.clone()))
}

/// The channels that exist.
static LIVE: Live = Live::new();

/// Makes a channel.
///
/// # Errors
/// The system has no file descriptors.
pub(crate) fn create() -> Result<Handle<EventChannel>, c_int> {
    let queue = Channel::new()?;
    let c = rdma_event_channel { fd: queue.raw_fd() };
    let channel = Handle::create(EventChannel { c, queue: Arc::new(queue) });
    LIVE.add(channel.as_ptr());
    Ok(channel)
}

/// The channel behind a pointer of C.
///
/// # Errors
/// `EINVAL` if no channel exists at this address.
pub(crate) fn live(channel: *mut rdma_event_channel) -> Result<Handle<EventChannel>, c_int> {
    if !LIVE.has(channel) {
        return Err(libc::EINVAL);
    }
    // SAFETY: the channel exists, and the program does not destroy it during a call that uses it.
    Ok(unsafe { Handle::new(channel) })
}

/// Destroys a channel, if one exists at this address.
pub(crate) fn destroy(channel: *mut rdma_event_channel) {
    if LIVE.remove(channel) {
        // SAFETY: the channel existed until now; the program does not use it afterwards.
        entry((), || drop(unsafe { Handle::<EventChannel>::new(channel).destroy() }));
    }
}
