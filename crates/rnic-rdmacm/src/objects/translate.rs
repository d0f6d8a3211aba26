//! Converts an event of the communication manager to an event for the program.

use super::channel::What;
use super::device::Device;
use super::event::{self, About, Delivered, NO_CONN};
use super::id::{self, Connect, Id, New};
use super::qp;
use libc::c_int;
use rnic_cabi::cma::*;
use rnic_cabi::entry::{Unacknowledged, lock};
use rnic_cabi::get;
use rnic_cabi::pointer::Handle;
use rnic_cabi::verbs::*;
use rnic_cm::Event;
use rnic_cm::ip::{self, IpHeader};
use rnic_cm::message::{Reply, Request, ServiceReply, private, reason, service_status};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Changes the identifier `owner` as an event demands, and makes the event for the program; `None` if the program gets
/// no event. `events` is the counter of the identifier's events; it already includes this event.
pub(crate) fn translate(owner: Handle<Id>, events: Arc<Unacknowledged>, what: What) -> Option<Handle<Delivered>> {
    let (device, event) = match what {
        What::Done { event, status } => {
            return Some(event::create(std::ptr::null_mut(), owner.as_ptr(), events, About::new(event, status)));
        }
        What::Manager(device, event) => (device, event),
    };
    let state = owner.state();
    let about = match event {
        Event::Request { connection, peer, request, .. } => {
            let (child, about) = on_request(owner, device, connection, peer, &request)?;
            return Some(event::create(owner.as_ptr(), child.as_ptr(), events, about));
        }
        Event::ServiceRequest { connection, peer, private, .. } => {
            let (child, about) = on_service_request(owner, device, connection, peer, &private)?;
            return Some(event::create(owner.as_ptr(), child.as_ptr(), events, about));
        }
        Event::Reply { connection, reply, .. } => on_reply(owner, device, connection, &reply),
        // The private data of the peer's Ready To Use message is discarded, as in Linux: programs conclude from its
        // length who began the connection.
        Event::Established { .. } => About::new(RDMA_CM_EVENT_ESTABLISHED, 0),
        Event::Rejected { reason, private, .. } => {
            let mut inner = lock(&state.inner);
            inner.connection = None;
            qp::fail(owner, &inner);
            About { data: private.to_vec(), ..About::new(RDMA_CM_EVENT_REJECTED, reason.into()) }
        }
        // The registry never puts this event into a channel.
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
    Some(event::create(std::ptr::null_mut(), owner.as_ptr(), events, about))
}

/// Makes the identifier of a connection that a peer has requested.
fn child(
    listener: Handle<Id>, device: &'static Device, connection: u32, header: IpHeader, kind: c_int, connect: Connect,
) -> Option<Handle<Id>> {
    let (sync, port, tos) = {
        let inner = lock(&listener.state().inner);
        (inner.sync, inner.local.map_or(0, |local| local.port()), inner.tos)
    };
    let channel = if sync { std::ptr::null_mut() } else { get!(listener.channel) };
    let new = New { context: get!(listener.context), space: get!(listener.ps), qp_type: kind };
    let child = id::create(channel, new).ok()?;
    let state = child.state();
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
    drop(inner);
    Some(child)
}

fn on_request(
    listener: Handle<Id>, device: &'static Device, connection: u32, peer: IpAddr, request: &Request,
) -> Option<(Handle<Id>, About)> {
    let reject = |reason| {
        // The connection may have ended in the meantime.
        let _ = device.with(|manager, now| manager.reject(now, connection, reason, &[]));
        None
    };
    // The request of a peer must contain the peer's own address as the source.
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
        // The peer's initiator depth is the number of outstanding requests to which this end responds. The peer's
        // responder resources are the number of requests that this end may have outstanding.
        responder_resources: request.initiator_depth,
        initiator_depth: request.responder_resources,
        retry_count: request.retry_count,
        rnr_retry_count: request.rnr_retry_count,
        ack_timeout: request.path.ack_timeout,
    };
    let kind = if request.transport == 1 { IBV_QPT_UC } else { IBV_QPT_RC };
    let Some(child) = child(listener, device, connection, header, kind, connect) else {
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

fn on_service_request(
    listener: Handle<Id>, device: &'static Device, connection: u32, peer: IpAddr,
    private: &[u8; private::SERVICE_REQUEST],
) -> Option<(Handle<Id>, About)> {
    let header = IpHeader::parse(private).filter(|header| header.source.ip() == peer);
    let header = header.filter(|header| header.destination == device.ip);
    let child = header.and_then(|header| child(listener, device, connection, header, IBV_QPT_UD, Connect::default()));
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

fn on_reply(id: Handle<Id>, device: &'static Device, connection: u32, reply: &Reply) -> About {
    let conn = rdma_conn_param {
        responder_resources: reply.initiator_depth,
        initiator_depth: reply.responder_resources,
        flow_control: reply.flow_control.into(),
        rnr_retry_count: reply.rnr_retry_count,
        srq: reply.srq.into(),
        qp_num: reply.qpn,
        ..NO_CONN
    };
    let mut inner = lock(&id.state().inner);
    inner.was_connected = true;
    let connect = &mut inner.connect;
    connect.peer_psn = reply.psn;
    connect.peer_qpn = reply.qpn;
    // Use at most the numbers that the program has requested, whatever the peer states.
    connect.responder_resources = connect.responder_resources.min(reply.initiator_depth);
    connect.initiator_depth = connect.initiator_depth.min(reply.responder_resources);
    connect.rnr_retry_count = reply.rnr_retry_count;
    let data = reply.private.to_vec();
    if get!(id.qp).is_null() {
        return About { conn: Some(conn), data, ..About::new(RDMA_CM_EVENT_CONNECT_RESPONSE, 0) };
    }
    let established = qp::connect(id, &inner)
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
