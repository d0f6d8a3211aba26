//! Identifiers (`rdma_cm_id`).

use super::channel::{self, Channel, EventChannel};
use super::device::Device;
use super::event;
use crate::sockets;
use crate::verbs::trace;
use libc::{c_int, c_void};
use rnic_cabi::cma::*;
use rnic_cabi::entry::{Unacknowledged, lock};
use rnic_cabi::live::Live;
use rnic_cabi::pointer::Handle;
use rnic_cabi::verbs::*;
use rnic_cabi::{get, set};
use rnic_cm::ip;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// An identifier.
#[repr(C)]
pub(crate) struct Id {
    c: rdma_cm_id,
    state: IdState,
}

rnic_cabi::object!(Id { c: rdma_cm_id, state: IdState });

pub(crate) struct IdState {
    /// The token of the identifier's events.
    pub(crate) token: u64,
    /// Events that the program has received and not acknowledged.
    pub(crate) events: Arc<Unacknowledged>,
    pub(crate) inner: Mutex<Inner>,
}

/// The state that changes. A thread that holds the lock of this state may take the lock of a communication manager. A
/// thread that holds the lock of a communication manager must not take the lock of this state.
pub(crate) struct Inner {
    /// Whether each call waits for the end of its step, because the program has passed no channel.
    pub(crate) sync: bool,
    /// The device, after the address was resolved or bound to a device.
    pub(crate) device: Option<&'static Device>,
    /// The connection of the device's communication manager.
    pub(crate) connection: Option<u32>,
    /// Whether the identifier had a connection.
    pub(crate) was_connected: bool,
    /// The devices and service IDs at which the identifier listens, or may listen.
    pub(crate) bound: Vec<(&'static Device, u64)>,
    pub(crate) listening: bool,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
    /// Traffic class (`RDMA_OPTION_ID_TOS`).
    pub(crate) tos: u8,
    /// Whether `::` stands for IPv6 addresses alone (`RDMA_OPTION_ID_AFONLY`).
    pub(crate) family_only: bool,
    /// Whether other identifiers may bind to the same port until one of them listens (`RDMA_OPTION_ID_REUSEADDR`).
    pub(crate) reuse: bool,
    /// Code of the queue pair's timeout (`RDMA_OPTION_ID_ACK_TIMEOUT`).
    pub(crate) ack_timeout: u8,
    pub(crate) connect: Connect,
    /// Attributes of the queue pairs that `rdma_get_request` creates.
    pub(crate) template: Option<Template>,
    /// Private data of `rdma_create_ep`.
    pub(crate) data: Vec<u8>,
}

/// The attributes with which the program called `rdma_create_ep`; the pointers in them belong to the program.
#[derive(Clone, Copy)]
pub(crate) struct Template(pub(crate) ibv_qp_init_attr);

// SAFETY: the pointers are only passed on to libibverbs.
unsafe impl Send for Template {}

/// The parameters of a connection on which both ends have agreed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Connect {
    /// First PSN of the peer's packets, which this end has chosen.
    pub(crate) psn: u32,
    /// First PSN of this end's packets, which the peer has chosen.
    pub(crate) peer_psn: u32,
    pub(crate) peer_qpn: u32,
    /// Path MTU: 1 (256 bytes) to 5 (4096 bytes).
    pub(crate) mtu: u8,
    /// Maximum number of outstanding reads and atomics of the peer.
    pub(crate) responder_resources: u8,
    /// Maximum number of outstanding reads and atomics of this end.
    pub(crate) initiator_depth: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
    pub(crate) ack_timeout: u8,
}

/// The identifiers that exist.
static LIVE: Live = Live::new();

/// The identifier behind a pointer of C.
///
/// # Errors
/// `EINVAL` if no identifier exists at this address: it was destroyed, or never was an identifier.
pub(crate) fn live(id: *mut rdma_cm_id) -> Result<Handle<Id>, c_int> {
    if LIVE.has(id) {
        // SAFETY: the identifier exists, and the program does not destroy it during a call that uses it.
        return Ok(unsafe { Handle::new(id) });
    }
    trace(format_args!("refused: there is no identifier at {id:?}"));
    Err(libc::EINVAL)
}

/// Attributes of a new identifier.
pub(crate) struct New {
    pub(crate) context: *mut c_void,
    pub(crate) space: c_int,
    pub(crate) qp_type: c_int,
}

/// Makes an identifier. If `channel` is null, the identifier gets its own channel, and its calls wait for their steps.
///
/// # Errors
/// `EPROTONOSUPPORT` for an unknown port space; `EINVAL` if the channel does not exist.
pub(crate) fn create(channel: *mut rdma_event_channel, new: New) -> Result<Handle<Id>, c_int> {
    let New { context, space, qp_type } = new;
    if !matches!(space, RDMA_PS_TCP | RDMA_PS_UDP | RDMA_PS_IB) {
        trace(format_args!("rdma_create_id refused: the port spaces are TCP, UDP and IB, not {space:#x}"));
        return Err(libc::EPROTONOSUPPORT);
    }
    let sync = channel.is_null();
    let channel = if sync { channel::create()? } else { channel::live(channel)? };
    // SAFETY: all zeros are a valid address.
    let no_address = unsafe { std::mem::zeroed::<rdma_addr>() };
    let c = rdma_cm_id {
        verbs: std::ptr::null_mut(),
        channel: channel.as_ptr(),
        context,
        qp: std::ptr::null_mut(),
        route: rdma_route { addr: no_address, path_rec: std::ptr::null_mut(), num_paths: 0 },
        ps: space,
        port_num: 0,
        event: std::ptr::null_mut(),
        send_cq_channel: std::ptr::null_mut(),
        send_cq: std::ptr::null_mut(),
        recv_cq_channel: std::ptr::null_mut(),
        recv_cq: std::ptr::null_mut(),
        srq: std::ptr::null_mut(),
        pd: std::ptr::null_mut(),
        qp_type,
    };
    let inner = Inner {
        sync,
        device: None,
        connection: None,
        was_connected: false,
        bound: Vec::new(),
        listening: false,
        local: None,
        remote: None,
        tos: 0,
        family_only: false,
        reuse: false,
        ack_timeout: ACK_TIMEOUT,
        connect: Connect::default(),
        template: None,
        data: Vec::new(),
    };
    let (token, events) = (channel::token(), Arc::<Unacknowledged>::default());
    let state = IdState { token, events: events.clone(), inner: Mutex::new(inner) };
    let id = Handle::create(Id { c, state });
    LIVE.add(id.as_ptr());
    channel::register(token, id.as_ptr(), events, channel.state().clone());
    Ok(id)
}

/// Timeout of a connection's queue pair: 4.096 us times 2 to the power of 17, which is 0.54 s.
const ACK_TIMEOUT: u8 = 17;

/// Acknowledges the event of the latest step.
pub(crate) fn acknowledge_event(id: Handle<Id>) {
    let event = get!(id.event);
    set!(id.event = std::ptr::null_mut());
    if !event.is_null() {
        // The program may have acknowledged it already.
        let _ = event::acknowledge(event);
    }
}

impl IdState {
    /// Whether the identifier belongs to the parent of this process, which `fork` has made.
    fn is_of_parent(&self) -> bool {
        let inner = lock(&self.inner);
        let bound = inner.bound.iter().map(|(device, _)| *device);
        inner.device.into_iter().chain(bound).any(Device::is_of_parent)
    }

    /// Stops listening, and releases the port.
    pub(crate) fn unbind(&self) {
        let (bound, listening) = {
            let mut inner = lock(&self.inner);
            (std::mem::take(&mut inner.bound), std::mem::take(&mut inner.listening))
        };
        for (device, service) in bound {
            device.with(|manager, _| {
                manager.expect_listener(service, false);
                if listening {
                    manager.stop_listening(service);
                }
            });
            device.release(service);
        }
    }
}

/// Destroys an identifier, after its events are acknowledged.
///
/// # Errors
/// `EINVAL` if no identifier exists at this address.
pub(crate) fn destroy(id: *mut rdma_cm_id) -> Result<(), c_int> {
    if !LIVE.remove(id) {
        trace(format_args!("rdma_destroy_id refused: there is no identifier at {id:?}"));
        return Err(libc::EINVAL);
    }
    // SAFETY: the identifier existed until now, and no other call destroys it.
    let id: Handle<Id> = unsafe { Handle::new(id) };
    let state = id.state();
    if state.is_of_parent() {
        // An exit handler calls this function in a child of the process.
        trace(format_args!("rdma_destroy_id in a child of the process that opened the device: nothing happens"));
        return Ok(());
    }
    state.unbind();
    let connection = {
        let mut inner = lock(&state.inner);
        inner.device.zip(inner.connection.take())
    };
    for (device, connection) in channel::unregister(state.token).into_iter().chain(connection) {
        device.with(|manager, now| manager.destroy(now, connection));
    }
    acknowledge_event(id);
    state.events.wait();
    trace(format_args!("rdma_destroy_id"));
    let own_channel = lock(&state.inner).sync.then(|| get!(id.channel));
    free_path(id);
    // SAFETY: the program does not use the identifier afterwards, and all its events are acknowledged.
    drop(unsafe { id.destroy() });
    own_channel.into_iter().for_each(channel::destroy);
    Ok(())
}

/// Moves an identifier to another channel. If `channel` is null, the identifier gets its own channel, and from now on
/// its calls wait for their steps.
///
/// # Errors
/// The system has no file descriptors; `EINVAL` if the channel does not exist.
pub(crate) fn migrate(id: Handle<Id>, channel: *mut rdma_event_channel) -> Result<(), c_int> {
    let state = id.state();
    let sync = channel.is_null();
    let new = if sync { channel::create()? } else { channel::live(channel)? };
    channel::migrate(state.token, new.state().clone());
    let was_sync = std::mem::replace(&mut lock(&state.inner).sync, sync);
    let old = get!(id.channel);
    set!(id.channel = new.as_ptr());
    if was_sync {
        acknowledge_event(id);
        channel::destroy(old);
    }
    Ok(())
}

/// The channel of an identifier.
pub(crate) fn channel(id: Handle<Id>) -> Handle<EventChannel> {
    // SAFETY: a channel exists as long as its identifiers, as librdmacm demands.
    unsafe { Handle::new(get!(id.channel)) }
}

/// Whether the channel of an identifier has no events.
pub(crate) fn has_no_events(id: Handle<Id>) -> bool {
    Channel::is_empty(channel(id).state())
}

/// Writes the addresses of an identifier into the structure that the C program gets.
pub(crate) fn show_addresses(id: Handle<Id>, inner: &Inner) {
    if let Some(local) = inner.local {
        set!(id.route.addr.src = sockets::of(local).0);
    }
    if let Some(remote) = inner.remote {
        set!(id.route.addr.dst = sockets::of(remote).0);
    }
    if let Some(device) = inner.device {
        set!(id.verbs = device.context);
        set!(id.port_num = 1);
        // The identifier has a protection domain, as in rdma-core, because UCX creates its queue pairs with this
        // domain.
        if get!(id.pd).is_null() {
            set!(id.pd = device.pd().unwrap_or(std::ptr::null_mut()));
        }
        let dgid = inner.remote.map_or([0; 16], |remote| ip::gid(remote.ip()));
        let (sgid, dgid) = (ibv_gid { raw: ip::gid(device.ip) }, ibv_gid { raw: dgid });
        set!(id.route.addr.ibaddr = rdma_ib_addr { sgid, dgid, pkey: 0xffff });
    }
}

/// Writes the path of an identifier into the structure that the C program gets.
pub(crate) fn show_path(id: Handle<Id>, inner: &Inner) {
    let (Some(device), Some(remote)) = (inner.device, inner.remote) else { return };
    let path = ibv_sa_path_rec {
        dgid: ibv_gid { raw: ip::gid(remote.ip()) },
        sgid: ibv_gid { raw: ip::gid(device.ip) },
        hop_limit: HOP_LIMIT,
        traffic_class: inner.tos,
        reversible: 1,
        numb_path: 1,
        pkey: 0xffff,
        mtu_selector: 2,
        mtu: device.mtu,
        rate_selector: 2,
        rate: RATE,
        packet_life_time_selector: 2,
        packet_life_time: inner.ack_timeout.saturating_sub(1),
        ..ibv_sa_path_rec::default()
    };
    free_path(id);
    set!(id.route.path_rec = Box::into_raw(Box::new(path)));
    set!(id.route.num_paths = 1);
}

/// Hop limit of packets.
pub(crate) const HOP_LIMIT: u8 = 64;
/// Code of the packet rate in path records: 40 Gbps. It has no effect.
pub(crate) const RATE: u8 = 7;

fn free_path(id: Handle<Id>) {
    let path = get!(id.route.path_rec);
    set!(id.route.path_rec = std::ptr::null_mut());
    set!(id.route.num_paths = 0);
    if !path.is_null() {
        // SAFETY: `show_path` made the path, and the structure no longer points at it.
        drop(unsafe { Box::from_raw(path) });
    }
}
