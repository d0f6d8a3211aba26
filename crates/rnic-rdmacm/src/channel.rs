//! Event channels: descriptors by which programs wait for events of their identifiers, and who gets which event.

use crate::device::Device;
use crate::event;
use crate::id::{self, Id};
use crate::verbs::{call, made, trace};
use libc::c_int;
use rnic_cabi::cma::*;
use rnic_cabi::entry::{lock, object};
use rnic_cabi::live::Live;
use rnic_cabi::mailbox::Mailbox;
use rnic_cm::Event;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The events of some identifiers, in order.
pub(crate) type Channel = Mailbox<Raw>;

/// A channel: what C sees, and the queue. Identifiers have the queue as well, so that it outlives the channel.
#[repr(C)]
struct EventChannel {
    c: rdma_event_channel,
    queue: Arc<Channel>,
}

/// Something that happened to an identifier, as it waits in a channel.
#[derive(Clone)]
pub(crate) struct Raw {
    /// The identifier.
    token: u64,
    pub(crate) what: What,
}

#[derive(Clone)]
pub(crate) enum What {
    /// A step that this library has done at once.
    Done { event: c_int, status: c_int },
    /// An event of the communication manager of a device.
    Manager(&'static Device, Event),
}

struct Entry {
    id: usize,
    channel: Arc<Channel>,
}

/// The identifiers that exist, by the tokens of their events.
struct Registry {
    next: u64,
    ids: BTreeMap<u64, Entry>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { next: 1, ids: BTreeMap::new() });

/// A token for a new identifier.
pub(crate) fn token() -> u64 {
    let mut registry = lock(&REGISTRY);
    registry.next += 1;
    registry.next
}

/// Events with this token go to the channel from now on.
pub(crate) fn register(token: u64, id: *mut Id, channel: Arc<Channel>) {
    lock(&REGISTRY).ids.insert(token, Entry { id: id.expose_provenance(), channel });
}

/// No further event has this token. Returns the requests for connections that the program has not seen.
pub(crate) fn unregister(token: u64) -> Vec<(&'static Device, u32)> {
    let Some(entry) = lock(&REGISTRY).ids.remove(&token) else { return Vec::new() };
    let unseen = RefCell::new(Vec::new());
    let unwanted = |raw: &Raw| {
        if let (true, What::Manager(device, event)) = (raw.token == token, &raw.what)
            && asks(event)
        {
            unseen.borrow_mut().push((*device, event.connection()));
        }
        raw.token == token
    };
    entry.channel.remove(unwanted, |_| ());
    unseen.into_inner()
}

fn asks(event: &Event) -> bool {
    matches!(event, Event::Request { .. } | Event::ServiceRequest { .. })
}

/// Moves the events with this token to another channel.
pub(crate) fn migrate(token: u64, to: Arc<Channel>) {
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

/// A step is done.
pub(crate) fn done(token: u64, event: c_int, status: c_int) {
    if let Some(entry) = lock(&REGISTRY).ids.get(&token) {
        entry.channel.push(Raw { token, what: What::Done { event, status } });
    }
}

/// Puts an event of a communication manager into the channel of its identifier. Returns the connection if it is a
/// request, and nobody listens any more.
pub(crate) fn deliver(device: &'static Device, event: Event) -> Option<u32> {
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
        // The program does not see a request that it has not taken yet. If it has, its `rdma_accept` fails; as with the
        // kernel, there is no event of an identifier that the program may not know yet.
        Some(entry) if matches!(event, Event::Withdrawn { .. }) => {
            let is_its = |raw: &Raw| {
                matches!(&raw.what, What::Manager(of, other)
                    if std::ptr::eq(*of, device) && asks(other) && other.connection() == event.connection())
            };
            entry.channel.remove(is_its, |_| ());
        }
        Some(entry) => entry.channel.push(Raw { token, what: What::Manager(device, event) }),
        None if asks(&event) => return Some(event.connection()),
        None => {}
    }
    None
}

/// The identifier with this token. It is not destroyed before its event is acknowledged.
fn hold(token: u64) -> Option<*mut Id> {
    let registry = lock(&REGISTRY);
    let id: *mut Id = std::ptr::with_exposed_provenance_mut(registry.ids.get(&token)?.id);
    // SAFETY: identifiers are freed after they have left the registry.
    unsafe { id::state(id.cast()) }.events.add();
    Some(id)
}

/// The queue of a channel.
///
/// # Safety
/// The channel is one of this library that is not destroyed.
pub(crate) unsafe fn queue(channel: *mut rdma_event_channel) -> Arc<Channel> {
    // SAFETY: the caller's promise.
    unsafe { (*channel.cast::<EventChannel>()).queue.clone() }
}

/// Whether an identifier with a channel of its own has no events.
///
/// # Safety
/// The identifier exists, and its channel as well.
pub(crate) unsafe fn is_quiet(id: *mut rdma_cm_id) -> bool {
    // SAFETY: the caller's promise.
    unsafe { (*(*id).channel.cast::<EventChannel>()).queue.is_empty() }
}

/// Makes a channel.
///
/// # Errors
/// The system has no file descriptors.
pub(crate) fn create() -> Result<*mut rdma_event_channel, c_int> {
    let queue = Channel::new()?;
    let c = rdma_event_channel { fd: queue.raw_fd() };
    let channel = Box::into_raw(Box::new(EventChannel { c, queue: Arc::new(queue) }));
    LIVE.add(channel);
    Ok(channel.cast())
}

/// The channels that exist.
static LIVE: Live = Live::new();

/// Whether a pointer of C is that of a channel which exists.
///
/// # Errors
/// `EINVAL` if not.
pub(crate) fn check(channel: *mut rdma_event_channel) -> Result<(), c_int> {
    if LIVE.has(channel) { Ok(()) } else { Err(libc::EINVAL) }
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    object(create)
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    if LIVE.remove(channel) {
        // SAFETY: it was made by `Box::into_raw`, and nobody else frees it.
        rnic_cabi::entry::entry((), || drop(unsafe { Box::from_raw(channel.cast::<EventChannel>()) }));
    }
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_cm_event(channel: *mut rdma_event_channel, out: *mut *mut rdma_cm_event) -> c_int {
    call(|| {
        check(channel)?;
        if out.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: it exists.
        let queue = unsafe { queue(channel) };
        loop {
            let raw = queue.take(|_| (), |_| ())?;
            let Some(id) = hold(raw.token) else {
                // The identifier was destroyed meanwhile, and its `unregister` has not seen the event.
                if let What::Manager(device, event) = raw.what
                    && asks(&event)
                {
                    device.with(|manager, now| manager.destroy(now, event.connection()));
                }
                continue;
            };
            // SAFETY: the identifier is held.
            if let Some(event) = unsafe { event::translate(id, raw.what) } {
                // SAFETY: the event was made just now; the result is valid by the contract of librdmacm.
                unsafe {
                    let about = &*event;
                    trace(format_args!("rdma_get_cm_event = {}, status {}", event::name(about.event), about.status));
                    out.write(event);
                }
                return Ok(());
            }
            // SAFETY: the identifier is held until here.
            unsafe { id::state(id.cast()) }.events.acknowledge(1);
        }
    })
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    call(|| event::free(event))
}

/// Waits for the end of a step, if the program has given the identifier no channel.
///
/// # Errors
/// What went wrong.
///
/// # Safety
/// The identifier is one of this library that is not destroyed.
pub(crate) unsafe fn complete(id: *mut rdma_cm_id) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        if !lock(&id::state(id).inner).sync {
            return Ok(());
        }
        id::drop_event(id);
        let mut event = std::ptr::null_mut();
        if rdma_get_cm_event((*id).channel, &mut event) != 0 {
            return Err(crate::verbs::errno());
        }
        let event = made(event)?;
        (*id).event = event;
        match ((*event).event, (*event).status) {
            (_, 0) => Ok(()),
            (RDMA_CM_EVENT_REJECTED, _) => Err(libc::ECONNREFUSED),
            (_, status) => Err(status.abs()),
        }
    }
}
