//! What an event of the communication manager means for a program.

use crate::channel::What;
use crate::device::Device;
use crate::id::{self, Connect, Id, New};
use crate::qp;
use libc::{c_int, c_void};
use rnic_cabi::cma::*;
use rnic_cabi::entry::lock;
use rnic_cabi::live::Live;
use rnic_cabi::verbs::*;
use rnic_cm::Event;
use rnic_cm::ip::{self, IpHeader};
use rnic_cm::message::{Reply, Request, ServiceReply, private, reason, service_status};
use std::net::{IpAddr, SocketAddr};

/// An event that the program has got: what C sees, and what it refers to.
#[repr(C)]
struct Delivered {
    c: rdma_cm_event,
    /// The identifier whose event it is, which waits for the acknowledgement.
    owner: *mut Id,
    data: Vec<u8>,
}

/// The events that the program has got and not acknowledged.
static LIVE: Live = Live::new();

/// Frees an event of the program.
///
/// # Errors
/// `EINVAL` if the pointer is that of no event: it was acknowledged already, or never was one.
pub(crate) fn free(event: *mut rdma_cm_event) -> Result<(), c_int> {
    if !LIVE.remove(event) {
        return Err(libc::EINVAL);
    }
    // SAFETY: it is one of `deliver`, and nobody else frees it. The owner is freed after its events are acknowledged.
    unsafe {
        let event = Box::from_raw(event.cast::<Delivered>());
        let owner = event.owner;
        drop(event);
        id::state(owner.cast()).events.acknowledge(1);
    }
    Ok(())
}

/// Parameters of an event, before they have a place in memory.
#[derive(Default)]
struct About {
    event: c_int,
    status: c_int,
    data: Vec<u8>,
    conn: Option<rdma_conn_param>,
    ud: Option<rdma_ud_param>,
}

impl About {
    fn new(event: c_int, status: c_int) -> About {
        About { event, status, ..About::default() }
    }
}

const NO_CONN: rdma_conn_param = rdma_conn_param {
    private_data: std::ptr::null(),
    private_data_len: 0,
    responder_resources: 0,
    initiator_depth: 0,
    flow_control: 0,
    retry_count: 0,
    rnr_retry_count: 0,
    srq: 0,
    qp_num: 0,
};

/// Makes the event for the program. The identifier `owner` waits until it is acknowledged.
fn deliver(owner: *mut Id, id: *mut rdma_cm_id, about: About) -> *mut rdma_cm_event {
    let listen_id = if owner.cast() == id { std::ptr::null_mut() } else { owner.cast::<rdma_cm_id>() };
    let data = about.data;
    let private_data: *const c_void = if data.is_empty() { std::ptr::null() } else { data.as_ptr().cast() };
    let private_data_len = data.len() as u8;
    let param = match about.ud {
        Some(ud) => rdma_event_param { ud: rdma_ud_param { private_data, private_data_len, ..ud } },
        None => {
            let conn = about.conn.unwrap_or(NO_CONN);
            rdma_event_param { conn: rdma_conn_param { private_data, private_data_len, ..conn } }
        }
    };
    let c = rdma_cm_event { id, listen_id, event: about.event, status: about.status, param };
    let event = Box::into_raw(Box::new(Delivered { c, owner, data }));
    LIVE.add(event);
    event.cast()
}

/// Does what an event needs, and makes the event that the program gets; `None` if it needs to know nothing.
///
/// # Safety
/// The identifier is held.
pub(crate) unsafe fn translate(owner: *mut Id, what: What) -> Option<*mut rdma_cm_event> {
    let id: *mut rdma_cm_id = owner.cast();
    let (device, event) = match what {
        What::Done { event, status } => return Some(deliver(owner, id, About::new(event, status))),
        What::Manager(device, event) => (device, event),
    };
    // SAFETY: the caller's promise.
    let state = unsafe { id::state(id) };
    let about = match event {
        Event::Request { connection, peer, request, .. } => {
            // SAFETY: the caller's promise.
            let (child, about) = unsafe { on_request(id, device, connection, peer, &request) }?;
            return Some(deliver(owner, child, about));
        }
        Event::ServiceRequest { connection, peer, private, .. } => {
            // SAFETY: the caller's promise.
            let (child, about) = unsafe { on_service_request(id, device, connection, peer, &private) }?;
            return Some(deliver(owner, child, about));
        }
        // SAFETY: the caller's promise.
        Event::Reply { connection, reply, .. } => unsafe { on_reply(id, device, connection, &reply) },
        Event::Established { private, .. } => {
            About { data: private.to_vec(), ..About::new(RDMA_CM_EVENT_ESTABLISHED, 0) }
        }
        Event::Rejected { reason, private, .. } => {
            let mut inner = lock(&state.inner);
            inner.connection = None;
            // SAFETY: the caller's promise.
            unsafe { qp::fail(id, &inner) };
            About { data: private.to_vec(), ..About::new(RDMA_CM_EVENT_REJECTED, reason.into()) }
        }
        // It waits in no channel.
        Event::Withdrawn { .. } => return None,
        Event::Unreachable { .. } => {
            lock(&state.inner).connection = None;
            About::new(RDMA_CM_EVENT_UNREACHABLE, -libc::ETIMEDOUT)
        }
        Event::Disconnected { silent, .. } => {
            About::new(RDMA_CM_EVENT_DISCONNECTED, if silent { -libc::ETIMEDOUT } else { 0 })
        }
        Event::TimewaitExit { .. } => {
            lock(&state.inner).connection = None;
            About::new(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0)
        }
        Event::ServiceReply { reply, .. } => {
            let mut inner = lock(&state.inner);
            inner.connection = None;
            let peer = inner.remote.map_or([0; 16], |remote| ip::gid(remote.ip()));
            on_service_reply(&reply, qp::path(&inner, peer))
        }
    };
    Some(deliver(owner, id, about))
}

/// Makes the identifier of a connection for which a peer has asked.
///
/// # Safety
/// The listening identifier is held.
unsafe fn child(
    listener: *mut rdma_cm_id, device: &'static Device, connection: u32, header: IpHeader, kind: c_int,
    connect: Connect,
) -> Option<*mut rdma_cm_id> {
    // SAFETY: the caller's promise.
    unsafe {
        let state = id::state(listener);
        let (sync, port, tos) = {
            let inner = lock(&state.inner);
            (inner.sync, inner.local.map_or(0, |local| local.port()), inner.tos)
        };
        let channel = if sync { std::ptr::null_mut() } else { (*listener).channel };
        let new = New { context: (*listener).context, space: (*listener).ps, qp_type: kind };
        let child = id::create(channel, new).ok()?;
        let state = id::state(child);
        let mut inner = lock(&state.inner);
        inner.device = Some(device);
        inner.connection = Some(connection);
        inner.local = Some(SocketAddr::new(header.destination, port));
        inner.remote = Some(header.source);
        inner.tos = tos;
        inner.connect = connect;
        id::show_addresses(child, &inner);
        id::show_path(child, &inner);
        device.with(|manager, _| manager.adopt(connection, state.token));
        Some(child)
    }
}

/// # Safety
/// The listening identifier is held.
unsafe fn on_request(
    listener: *mut rdma_cm_id, device: &'static Device, connection: u32, peer: IpAddr, request: &Request,
) -> Option<(*mut rdma_cm_id, About)> {
    let reject = |reason| {
        // The connection may have ended in the meantime.
        let _ = device.with(|manager, now| manager.reject(now, connection, reason, &[]));
        None
    };
    // A peer speaks for its own address alone.
    let header = IpHeader::parse(&request.private).filter(|header| header.source.ip() == peer);
    let Some(header) = header.filter(|header| header.destination == device.ip) else {
        return reject(reason::INVALID_GID);
    };
    if request.mtu > device.mtu {
        return reject(reason::INVALID_MTU);
    }
    let connect = Connect {
        psn: device.with(|manager, _| manager.psn()),
        peer_psn: request.psn,
        peer_qpn: request.qpn,
        mtu: request.mtu,
        // What the peer responds to is what this side may ask for.
        responder_resources: request.initiator_depth,
        initiator_depth: request.responder_resources,
        retry_count: request.retry_count,
        rnr_retry_count: request.rnr_retry_count,
        ack_timeout: request.path.ack_timeout,
    };
    let kind = if request.transport == 1 { IBV_QPT_UC } else { IBV_QPT_RC };
    // SAFETY: the caller's promise.
    let Some(child) = (unsafe { child(listener, device, connection, header, kind, connect) }) else {
        return reject(reason::NO_RESOURCES);
    };
    let conn = rdma_conn_param {
        responder_resources: request.initiator_depth,
        initiator_depth: request.responder_resources,
        flow_control: request.flow_control.into(),
        retry_count: request.retry_count,
        rnr_retry_count: request.rnr_retry_count,
        srq: request.srq.into(),
        qp_num: request.qpn,
        ..NO_CONN
    };
    let data = request.private[ip::LEN..].to_vec();
    Some((child, About { conn: Some(conn), data, ..About::new(RDMA_CM_EVENT_CONNECT_REQUEST, 0) }))
}

/// # Safety
/// The listening identifier is held.
unsafe fn on_service_request(
    listener: *mut rdma_cm_id, device: &'static Device, connection: u32, peer: IpAddr,
    private: &[u8; private::SERVICE_REQUEST],
) -> Option<(*mut rdma_cm_id, About)> {
    let header = IpHeader::parse(private).filter(|header| header.source.ip() == peer);
    let header = header.filter(|header| header.destination == device.ip);
    // SAFETY: the caller's promise.
    let child = header
        .and_then(|header| unsafe { child(listener, device, connection, header, IBV_QPT_UD, Connect::default()) });
    let Some(child) = child else {
        let _ = device.with(|manager, now| manager.reject(now, connection, reason::CONSUMER, &[]));
        return None;
    };
    let ud = rdma_ud_param {
        private_data: std::ptr::null(),
        private_data_len: 0,
        ah_attr: ibv_ah_attr::default(),
        qp_num: 0,
        qkey: 0,
    };
    let data = private[ip::LEN..].to_vec();
    Some((child, About { ud: Some(ud), data, ..About::new(RDMA_CM_EVENT_CONNECT_REQUEST, 0) }))
}

/// # Safety
/// The identifier is held.
unsafe fn on_reply(id: *mut rdma_cm_id, device: &'static Device, connection: u32, reply: &Reply) -> About {
    let conn = rdma_conn_param {
        responder_resources: reply.initiator_depth,
        initiator_depth: reply.responder_resources,
        flow_control: reply.flow_control.into(),
        rnr_retry_count: reply.rnr_retry_count,
        srq: reply.srq.into(),
        qp_num: reply.qpn,
        ..NO_CONN
    };
    // SAFETY: the caller's promise.
    let mut inner = lock(unsafe { &id::state(id).inner });
    inner.was_connected = true;
    let connect = &mut inner.connect;
    connect.peer_psn = reply.psn;
    connect.peer_qpn = reply.qpn;
    // No more than what the program has asked for, whatever the peer says.
    connect.responder_resources = connect.responder_resources.min(reply.initiator_depth);
    connect.initiator_depth = connect.initiator_depth.min(reply.responder_resources);
    connect.rnr_retry_count = reply.rnr_retry_count;
    let data = reply.private.to_vec();
    // SAFETY: the caller's promise.
    if unsafe { (*id).qp.is_null() } {
        return About { conn: Some(conn), data, ..About::new(RDMA_CM_EVENT_CONNECT_RESPONSE, 0) };
    }
    // SAFETY: the caller's promise.
    let connected = unsafe { qp::connect(id, &inner) };
    let established = connected
        .and_then(|()| device.with(|manager, now| manager.establish(now, connection)).map_err(|_| libc::ECONNRESET));
    match established {
        Ok(()) => About { conn: Some(conn), data, ..About::new(RDMA_CM_EVENT_ESTABLISHED, 0) },
        Err(error) => {
            let _ = device.with(|manager, now| manager.reject(now, connection, reason::NO_RESOURCES, &[]));
            inner.connection = None;
            About::new(RDMA_CM_EVENT_CONNECT_ERROR, -error)
        }
    }
}

fn on_service_reply(reply: &ServiceReply, path: ibv_ah_attr) -> About {
    if reply.status != service_status::VALID {
        return About::new(RDMA_CM_EVENT_UNREACHABLE, reply.status.into());
    }
    let ud = rdma_ud_param {
        private_data: std::ptr::null(),
        private_data_len: 0,
        ah_attr: path,
        qp_num: reply.qpn,
        qkey: reply.qkey,
    };
    About { ud: Some(ud), data: reply.private.to_vec(), ..About::new(RDMA_CM_EVENT_ESTABLISHED, 0) }
}

/// What an event says, copied.
pub(crate) struct Outcome {
    pub(crate) kind: c_int,
    pub(crate) data: Vec<u8>,
    pub(crate) conn: rdma_conn_param,
}

impl Outcome {
    /// # Safety
    /// The event is one of a connection, and not acknowledged.
    pub(crate) unsafe fn of(event: *mut rdma_cm_event) -> Outcome {
        // SAFETY: the caller's promise.
        unsafe {
            let about = &*event;
            let conn = about.param.conn;
            let data = (*event.cast::<Delivered>()).data.clone();
            Outcome { kind: about.event, data, conn }
        }
    }
}

/// The name of an event.
pub(crate) fn name(event: c_int) -> &'static str {
    crate::names::event(event).to_str().unwrap_or_default()
}
