//! Identifiers (`rdma_cm_id`): creation, options, destruction.

use crate::channel::{self, Channel};
use crate::device::Device;
use crate::sockets;
use crate::verbs::{call, trace, type_of};
use libc::{c_int, c_void, size_t};
use rnic_cabi::cma::*;
use rnic_cabi::entry::{Unacknowledged, lock};
use rnic_cabi::live::Live;
use rnic_cabi::verbs::*;
use rnic_cm::ip;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// An identifier: what C sees, and the state of this crate.
#[repr(C)]
pub(crate) struct Id {
    pub(crate) c: rdma_cm_id,
    pub(crate) state: IdState,
}

pub(crate) struct IdState {
    /// What the events of the identifier are called.
    pub(crate) token: u64,
    /// Events that the program has got and not acknowledged.
    pub(crate) events: Unacknowledged,
    pub(crate) inner: Mutex<Inner>,
}

/// What changes. Whoever has this lock may take that of a communication manager, and not the other way round.
pub(crate) struct Inner {
    /// Whether calls wait for the end of their step, since the program has given no channel.
    pub(crate) sync: bool,
    /// The device, once the address is resolved or bound to one.
    pub(crate) device: Option<&'static Device>,
    /// The connection of the device's communication manager.
    pub(crate) connection: Option<u32>,
    /// Whether there was a connection.
    pub(crate) was_connected: bool,
    /// Where the identifier listens, or may listen: service IDs of devices.
    pub(crate) bound: Vec<(&'static Device, u64)>,
    pub(crate) listening: bool,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
    /// Traffic class (`RDMA_OPTION_ID_TOS`).
    pub(crate) tos: u8,
    /// Whether `::` stands for IPv6 addresses alone (`RDMA_OPTION_ID_AFONLY`).
    pub(crate) family_only: bool,
    /// Whether others may bind to the same port until somebody listens (`RDMA_OPTION_ID_REUSEADDR`).
    pub(crate) reuse: bool,
    /// Code of the queue pair's timeout (`RDMA_OPTION_ID_ACK_TIMEOUT`).
    pub(crate) ack_timeout: u8,
    pub(crate) connect: Connect,
    /// Attributes of the queue pairs that `rdma_get_request` creates.
    pub(crate) template: Option<Template>,
    /// Private data of `rdma_create_ep`.
    pub(crate) data: Vec<u8>,
}

/// The attributes with which `rdma_create_ep` was called; the pointers are those of the program.
#[derive(Clone, Copy)]
pub(crate) struct Template(pub(crate) ibv_qp_init_attr);

// SAFETY: the pointers are only handed back to libibverbs.
unsafe impl Send for Template {}

/// What both sides of a connection have agreed on.
#[derive(Clone, Copy, Default)]
pub(crate) struct Connect {
    /// First PSN of the peer's packets, which this side has chosen.
    pub(crate) psn: u32,
    /// First PSN of this side's packets, which the peer has chosen.
    pub(crate) peer_psn: u32,
    pub(crate) peer_qpn: u32,
    /// Path MTU: 1 (256 bytes) to 5 (4096 bytes).
    pub(crate) mtu: u8,
    /// Reads and atomics to which this side responds at the same time.
    pub(crate) responder_resources: u8,
    /// Reads and atomics that this side has outstanding.
    pub(crate) initiator_depth: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
    pub(crate) ack_timeout: u8,
}

/// The identifiers that exist.
static LIVE: Live = Live::new();

/// Whether a pointer of C is that of an identifier which exists.
///
/// # Errors
/// `EINVAL` if not: it was destroyed, or never was one.
pub(crate) fn check(id: *mut rdma_cm_id) -> Result<(), c_int> {
    if LIVE.has(id) {
        return Ok(());
    }
    trace(format_args!("refused: there is no identifier at {id:?}"));
    Err(libc::EINVAL)
}

/// The state behind a pointer of C that [`check`] has admitted.
///
/// # Safety
/// The pointer is that of an identifier of this library which is not destroyed.
pub(crate) unsafe fn state<'a>(id: *mut rdma_cm_id) -> &'a IdState {
    // SAFETY: the reference does not cover the part that C may write.
    unsafe { &(*id.cast::<Id>()).state }
}

/// What a new identifier is for.
pub(crate) struct New {
    pub(crate) context: *mut c_void,
    pub(crate) space: c_int,
    pub(crate) qp_type: c_int,
}

/// Makes an identifier. Without a channel it gets one of its own, and its calls wait.
///
/// # Errors
/// `EPROTONOSUPPORT` for an unknown port space.
///
/// # Safety
/// The channel is null or one of this library.
pub(crate) unsafe fn create(channel: *mut rdma_event_channel, new: New) -> Result<*mut rdma_cm_id, c_int> {
    let New { context, space, qp_type } = new;
    if !matches!(space, RDMA_PS_TCP | RDMA_PS_UDP | RDMA_PS_IB) {
        trace(format_args!("rdma_create_id refused: the port spaces are TCP, UDP and IB, not {space:#x}"));
        return Err(libc::EPROTONOSUPPORT);
    }
    let sync = channel.is_null();
    let channel = if sync { channel::create()? } else { channel };
    channel::check(channel)?;
    // SAFETY: the channel is valid; all zeroes are a valid address.
    let (queue, zeroes) = unsafe { (channel::queue(channel), std::mem::zeroed::<rdma_addr>()) };
    let c = rdma_cm_id {
        verbs: std::ptr::null_mut(),
        channel,
        context,
        qp: std::ptr::null_mut(),
        route: rdma_route { addr: zeroes, path_rec: std::ptr::null_mut(), num_paths: 0 },
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
    let token = channel::token();
    let state = IdState { token, events: Unacknowledged::default(), inner: Mutex::new(inner) };
    let id = Box::into_raw(Box::new(Id { c, state }));
    LIVE.add(id);
    channel::register(token, id, queue);
    Ok(id.cast())
}

/// Timeout of a connection's queue pair: 4.096 us times 2 to the power of 17, that is 0.54 s.
const ACK_TIMEOUT: u8 = 17;

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel, id: *mut *mut rdma_cm_id, context: *mut c_void, space: c_int,
) -> c_int {
    call(|| {
        // SAFETY: by the contract of librdmacm.
        unsafe { id.write(create(channel, New { context, space, qp_type: type_of(space) })?) };
        Ok(())
    })
}

/// Acknowledges the event of the latest step.
///
/// # Safety
/// The identifier is one of this library.
pub(crate) unsafe fn drop_event(id: *mut rdma_cm_id) {
    // SAFETY: the caller's promise.
    unsafe {
        let event = std::mem::replace(&mut (*id).event, std::ptr::null_mut());
        if !event.is_null() {
            // The program may have acknowledged it already.
            let _ = crate::event::free(event);
        }
    }
}

impl IdState {
    /// Whether the identifier is that of the process of which this one is a child, by `fork`.
    fn is_of_parent(&self) -> bool {
        let inner = lock(&self.inner);
        let bound = inner.bound.iter().map(|(device, _)| *device);
        inner.device.into_iter().chain(bound).any(Device::is_of_parent)
    }

    /// Listens no more, and gives the port back.
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

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    call(|| {
        if !LIVE.remove(id) {
            trace(format_args!("rdma_destroy_id refused: there is no identifier at {id:?}"));
            return Err(libc::EINVAL);
        }
        // SAFETY: it existed until now; the program does not use it any more.
        unsafe {
            let state = state(id);
            if state.is_of_parent() {
                // A handler that runs when a child of the process exits.
                trace(format_args!(
                    "rdma_destroy_id in a child of the process that opened the device: nothing happens"
                ));
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
            drop_event(id);
            state.events.wait();
            trace(format_args!("rdma_destroy_id"));
            let own_channel = lock(&state.inner).sync.then_some((*id).channel);
            forget_path(id);
            drop(Box::from_raw(id.cast::<Id>()));
            own_channel.into_iter().for_each(|channel| channel::rdma_destroy_event_channel(channel));
        }
        Ok(())
    })
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int {
    call(|| {
        check(id)?;
        // SAFETY: it exists.
        unsafe { migrate(id, channel) }
    })
}

/// Gives an identifier another channel; without one its calls wait from now on.
///
/// # Errors
/// The system has no file descriptors.
///
/// # Safety
/// The identifier is one of this library, the channel one or null.
pub(crate) unsafe fn migrate(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        let state = state(id);
        let sync = channel.is_null();
        let new = if sync { channel::create()? } else { channel };
        channel::check(new)?;
        let queue: Arc<Channel> = channel::queue(new);
        channel::migrate(state.token, queue);
        let was_sync = std::mem::replace(&mut lock(&state.inner).sync, sync);
        let old = std::mem::replace(&mut (*id).channel, new);
        if was_sync {
            drop_event(id);
            channel::rdma_destroy_event_channel(old);
        }
    }
    Ok(())
}

/// Writes the addresses of an identifier where C sees them.
///
/// # Safety
/// The identifier is one of this library.
pub(crate) unsafe fn show_addresses(id: *mut rdma_cm_id, inner: &Inner) {
    // SAFETY: the caller's promise.
    unsafe {
        let addr = &raw mut (*id).route.addr;
        if let Some(local) = inner.local {
            (*addr).src = sockets::of(local).0;
        }
        if let Some(remote) = inner.remote {
            (*addr).dst = sockets::of(remote).0;
        }
        if let Some(device) = inner.device {
            (*id).verbs = device.context;
            (*id).port_num = 1;
            // As rdma-core does: UCX creates queue pairs of its own with this domain.
            if (*id).pd.is_null() {
                (*id).pd = device.pd().unwrap_or(std::ptr::null_mut());
            }
            let dgid = inner.remote.map_or([0; 16], |remote| ip::gid(remote.ip()));
            (*addr).ibaddr =
                rdma_ib_addr { sgid: ibv_gid { raw: ip::gid(device.ip) }, dgid: ibv_gid { raw: dgid }, pkey: 0xffff };
        }
    }
}

/// Writes the path of an identifier where C sees it.
///
/// # Safety
/// The identifier is one of this library.
pub(crate) unsafe fn show_path(id: *mut rdma_cm_id, inner: &Inner) {
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
    // SAFETY: the caller's promise.
    unsafe {
        forget_path(id);
        (*id).route.path_rec = Box::into_raw(Box::new(path));
        (*id).route.num_paths = 1;
    }
}

/// Hop limit of packets.
pub(crate) const HOP_LIMIT: u8 = 64;
/// Code of the packet rate in path records: 40 Gbps. It has no effect.
pub(crate) const RATE: u8 = 7;

/// # Safety
/// The identifier is one of this library.
unsafe fn forget_path(id: *mut rdma_cm_id) {
    // SAFETY: the caller's promise; the path was made by `show_path`.
    unsafe {
        let path = std::mem::replace(&mut (*id).route.path_rec, std::ptr::null_mut());
        if !path.is_null() {
            drop(Box::from_raw(path));
        }
        (*id).route.num_paths = 0;
    }
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_set_option(
    id: *mut rdma_cm_id, level: c_int, option: c_int, value: *mut c_void, len: size_t,
) -> c_int {
    call(|| {
        check(id)?;
        if value.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: by the contract of librdmacm, for the lengths that are checked.
        let (byte, int) = unsafe {
            let byte = || if len == 1 { Ok(value.cast::<u8>().read()) } else { Err(libc::EINVAL) };
            let int = || if len == 4 { Ok(value.cast::<c_int>().read_unaligned()) } else { Err(libc::EINVAL) };
            (byte, int)
        };
        // SAFETY: by the contract of librdmacm.
        let mut inner = lock(unsafe { &state(id).inner });
        match (level, option) {
            (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS) => inner.tos = byte()?,
            // An identifier that listens has its port for itself.
            (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR) => match int()? != 0 {
                true if inner.listening => return Err(libc::EINVAL),
                reuse => inner.reuse = reuse,
            },
            (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY) => inner.family_only = int()? != 0,
            (RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT) => match byte()? {
                timeout @ 0..=31 => inner.ack_timeout = timeout,
                _ => return Err(libc::EINVAL),
            },
            _ => {
                trace(format_args!("rdma_set_option refused: no option {option} of level {level}"));
                return Err(libc::EOPNOTSUPP);
            }
        }
        Ok(())
    })
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    if check(id).is_err() {
        return 0;
    }
    // SAFETY: by the contract of librdmacm.
    lock(unsafe { &state(id).inner }).local.map_or(0, |local| local.port().to_be())
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    if check(id).is_err() {
        return 0;
    }
    // SAFETY: by the contract of librdmacm.
    lock(unsafe { &state(id).inner }).remote.map_or(0, |remote| remote.port().to_be())
}
