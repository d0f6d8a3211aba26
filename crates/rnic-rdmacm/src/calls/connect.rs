//! Listening, connecting, accepting, refusing and disconnecting.

use super::address;
use super::event::complete;
use crate::objects::device::Device;
use crate::objects::id::{self, Connect, HOP_LIMIT, Id, Inner, RATE};
use crate::objects::qp;
use crate::verbs::{call, trace};
use libc::{c_int, c_void};
use rnic_cabi::cma::*;
use rnic_cabi::entry::lock;
use rnic_cabi::get;
use rnic_cabi::pointer::{Handle, In};
use rnic_cabi::verbs::*;
use rnic_cm::ManagerError;
use rnic_cm::ip::{self, IpHeader};
use rnic_cm::manager::{Manager, padded};
use rnic_cm::message::{Path, Reply, Request, private, reason, service_status};
use rnic_cm::packet::PKEY;
use std::net::{Ipv4Addr, SocketAddr};

/// Code of the maximum delay of ACKs, 134 ms, as Linux reports it for RoCE in software.
const ACK_DELAY: u8 = 15;

fn number(error: ManagerError) -> c_int {
    match error {
        ManagerError::InUse(_) => libc::EADDRINUSE,
        ManagerError::Full(_) => libc::ENOMEM,
        ManagerError::Unknown(_) | ManagerError::State(_) | ManagerError::Private { .. } => libc::EINVAL,
    }
}

fn refused(verb: &'static str) -> impl Fn(ManagerError) -> c_int {
    move |error| {
        trace(format_args!("{verb} refused: {error}"));
        number(error)
    }
}

/// The parameters of a connection that the program passes, or the defaults.
struct Params {
    /// `None` for the maximum.
    responder_resources: Option<u8>,
    initiator_depth: Option<u8>,
    flow_control: bool,
    retry_count: u8,
    rnr_retry_count: u8,
    srq: bool,
    qpn: u32,
    data: Vec<u8>,
}

/// Returns the parameters for a connection of an identifier: the parameters `given`, or the defaults.
///
/// # Safety
/// The private data of `given` is null, or has its length.
unsafe fn params(
    id: Handle<Id>, inner: &Inner, device: &Device, given: Option<In<rdma_conn_param>>,
) -> Result<Params, c_int> {
    let mut params = Params {
        responder_resources: None,
        initiator_depth: None,
        flow_control: false,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: !get!(id.srq).is_null(),
        qpn: 0,
        data: inner.data.clone(),
    };
    if let Some(given) = given {
        let given = given.read();
        let depth = |wanted: u8| match wanted {
            255 => Ok(None),
            wanted if wanted <= device.max_reads => Ok(Some(wanted)),
            wanted => {
                let max = device.max_reads;
                trace(format_args!("rdma_connect or rdma_accept refused: {wanted} reads, but at most {max}"));
                Err(libc::EINVAL)
            }
        };
        params.responder_resources = depth(given.responder_resources)?;
        params.initiator_depth = depth(given.initiator_depth)?;
        params.flow_control = given.flow_control != 0;
        params.retry_count = given.retry_count.min(7);
        params.rnr_retry_count = given.rnr_retry_count.min(7);
        params.srq |= given.srq != 0;
        params.qpn = given.qp_num & 0xff_ffff;
        // SAFETY: the caller promises the conditions of this function.
        params.data.extend(unsafe { bytes(given.private_data, given.private_data_len) });
    }
    let qp = get!(id.qp);
    if !qp.is_null() {
        // SAFETY: the lock of `inner` keeps the queue pair.
        let (qpn, srq) = unsafe { ((*qp).qp_num, (*qp).srq) };
        params.qpn = qpn;
        params.srq |= !srq.is_null();
    } else if given.is_none() && get!(id.qp_type) != IBV_QPT_UD {
        trace(format_args!("the identifier has no queue pair, and the parameters name none"));
        return Err(libc::EINVAL);
    }
    Ok(params)
}

/// # Safety
/// The memory has `len` bytes, or the pointer is null.
unsafe fn bytes<'a>(data: *const c_void, len: u8) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller promises the conditions of this function.
    unsafe { std::slice::from_raw_parts(data.cast(), len.into()) }
}

/// Listens for requests of peers.
pub(crate) fn listen(id: Handle<Id>, backlog: c_int) -> Result<(), c_int> {
    let state = id.state();
    if lock(&state.inner).local.is_none() {
        address::bind(id, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?;
    }
    let mut inner = lock(&state.inner);
    // An identifier that listens on all addresses of a family is bound to no device if no device has this family.
    let is_bound = !inner.bound.is_empty() || inner.local.is_some_and(|local| local.ip().is_unspecified());
    if inner.listening || inner.connection.is_some() || !is_bound {
        return Err(libc::EINVAL);
    }
    let backlog = usize::try_from(backlog).unwrap_or(0);
    for (at, (device, service)) in inner.bound.iter().enumerate() {
        let listened = device.listen(*service).and_then(|()| {
            let listened = |manager: &mut Manager, now| manager.listen(now, *service, state.token, backlog);
            device.with(listened).map_err(refused("rdma_listen"))
        });
        if let Err(error) = listened {
            for (device, service) in &inner.bound[..at] {
                device.with(|manager, _| manager.stop_listening(*service));
            }
            return Err(error);
        }
    }
    inner.listening = true;
    trace(format_args!("rdma_listen {}", inner.local.map_or_else(String::new, |local| local.to_string())));
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    call(|| listen(id::live(id)?, backlog))
}

/// Sends a request for a connection, or for the queue pair of a UD service.
///
/// # Safety
/// The private data of `given` is null, or has its length.
pub(crate) unsafe fn connect(id: Handle<Id>, given: Option<In<rdma_conn_param>>) -> Result<(), c_int> {
    let (state, space, kind) = (id.state(), get!(id.ps), get!(id.qp_type));
    {
        let mut inner = lock(&state.inner);
        let inner = &mut *inner;
        let (Some(device), Some(local), Some(remote)) = (inner.device, inner.local, inner.remote) else {
            return Err(libc::EINVAL);
        };
        if inner.connection.is_some() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller promises the conditions of this function.
        let params = unsafe { params(id, inner, device, given) }?;
        let service = ip::service(space as u16, remote.port());
        let mut data = vec![0; ip::LEN];
        IpHeader { source: local, destination: remote.ip() }.emit(&mut data);
        data.extend(&params.data);
        let connection = if kind == IBV_QPT_UD {
            device.with(|manager, now| manager.look_up(now, state.token, remote.ip(), service, &data))
        } else {
            let psn = device.with(|manager, _| manager.psn());
            let request = request(inner, device, remote, service, psn, kind, &params, &data)?;
            inner.connect = Connect {
                psn,
                mtu: device.mtu,
                responder_resources: request.responder_resources,
                initiator_depth: request.initiator_depth,
                retry_count: request.retry_count,
                rnr_retry_count: request.rnr_retry_count,
                ack_timeout: inner.ack_timeout,
                ..Connect::default()
            };
            device.with(|manager, now| manager.connect(now, state.token, remote.ip(), request))
        };
        inner.connection = Some(connection.map_err(refused("rdma_connect"))?);
        trace(format_args!("rdma_connect to {remote}"));
    }
    complete(id)
}

/// # Safety
/// The private data of the parameters is null, or has its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_connect(id: *mut rdma_cm_id, given: In<rdma_conn_param>) -> c_int {
    // SAFETY: the caller promises the conditions of this function.
    call(|| unsafe { connect(id::live(id)?, given.unless_null()) })
}

#[expect(clippy::too_many_arguments, reason = "the parts of one message")]
fn request(
    inner: &Inner, device: &Device, remote: SocketAddr, service: u64, psn: u32, kind: c_int, params: &Params,
    data: &[u8],
) -> Result<Request, c_int> {
    let flow_label = psn & 0xf_ffff;
    Ok(Request {
        local_id: 0,
        service,
        ca_guid: device.guid,
        qkey: 0,
        qpn: params.qpn,
        responder_resources: params.responder_resources.unwrap_or(device.max_reads),
        initiator_depth: params.initiator_depth.unwrap_or(device.max_reads),
        remote_response_timeout: 0,
        transport: u8::from(kind == IBV_QPT_UC),
        flow_control: params.flow_control,
        psn,
        local_response_timeout: 0,
        retry_count: params.retry_count,
        pkey: PKEY,
        mtu: device.mtu,
        rnr_retry_count: params.rnr_retry_count,
        max_cm_retries: 0,
        srq: params.srq,
        path: Path {
            lids: [0xffff; 2],
            local_gid: ip::gid(device.ip),
            remote_gid: ip::gid(remote.ip()),
            flow_label,
            rate: RATE,
            traffic_class: inner.tos,
            hop_limit: HOP_LIMIT,
            service_level: 0,
            subnet_local: false,
            ack_timeout: inner.ack_timeout,
        },
        private: padded(data).map_err(refused("rdma_connect"))?,
    })
}

/// Accepts the request of a peer.
///
/// # Safety
/// The private data of `given` is null, or has its length.
pub(crate) unsafe fn accept(id: Handle<Id>, given: Option<In<rdma_conn_param>>) -> Result<(), c_int> {
    {
        let mut inner = lock(&id.state().inner);
        let inner = &mut *inner;
        let (Some(device), Some(connection)) = (inner.device, inner.connection) else {
            return Err(libc::EINVAL);
        };
        // SAFETY: the caller promises the conditions of this function.
        let params = unsafe { params(id, inner, device, given) }?;
        let refused = refused("rdma_accept");
        trace(format_args!("rdma_accept"));
        if get!(id.qp_type) == IBV_QPT_UD {
            let (status, qkey) = (service_status::VALID, RDMA_UDP_QKEY);
            let reply = device
                .with(|manager, now| manager.reply_service(now, connection, status, params.qpn, qkey, &params.data));
            inner.connection = None;
            return reply.map_err(refused);
        }
        let depth = |wanted: Option<u8>, requested: u8| wanted.unwrap_or(requested.min(device.max_reads));
        let connect = &mut inner.connect;
        connect.responder_resources = depth(params.responder_resources, connect.responder_resources);
        connect.initiator_depth = depth(params.initiator_depth, connect.initiator_depth);
        let private: [u8; private::REPLY] = padded(&params.data).map_err(&refused)?;
        let reply = Reply {
            local_id: 0,
            remote_id: 0,
            qkey: 0,
            qpn: params.qpn,
            psn: connect.psn,
            responder_resources: connect.responder_resources,
            initiator_depth: connect.initiator_depth,
            ack_delay: ACK_DELAY,
            flow_control: params.flow_control,
            rnr_retry_count: params.rnr_retry_count,
            srq: params.srq,
            ca_guid: device.guid,
            private,
        };
        qp::connect(id, inner)?;
        inner.was_connected = true;
        device.with(|manager, now| manager.accept(now, connection, reply)).map_err(refused)?;
    }
    complete(id)
}

/// # Safety
/// The private data of the parameters is null, or has its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_accept(id: *mut rdma_cm_id, given: In<rdma_conn_param>) -> c_int {
    // SAFETY: the caller promises the conditions of this function.
    call(|| unsafe { accept(id::live(id)?, given.unless_null()) })
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_establish(id: *mut rdma_cm_id) -> c_int {
    call(|| {
        let id = id::live(id)?;
        let inner = lock(&id.state().inner);
        let (device, connection) = inner.device.zip(inner.connection).ok_or(libc::EINVAL)?;
        device.with(|manager, now| manager.establish(now, connection)).map_err(refused("rdma_establish"))
    })
}

/// Rejects the request or the reply of a peer, with private data.
pub(crate) fn reject(id: Handle<Id>, data: &[u8]) -> Result<(), c_int> {
    let mut inner = lock(&id.state().inner);
    let (device, connection) = inner.device.zip(inner.connection).ok_or(libc::EINVAL)?;
    trace(format_args!("rdma_reject"));
    let rejected = device.with(|manager, now| manager.reject(now, connection, reason::CONSUMER, data));
    rejected.map_err(refused("rdma_reject"))?;
    inner.connection = None;
    Ok(())
}

/// # Safety
/// The data is null, or has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reject(id: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int {
    // SAFETY: the caller promises the conditions of this function.
    call(|| reject(id::live(id)?, unsafe { bytes(data, len) }))
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_notify(id: *mut rdma_cm_id, event: c_int) -> c_int {
    call(|| {
        let id = id::live(id)?;
        if event != IBV_EVENT_COMM_EST {
            return Err(libc::EINVAL);
        }
        let inner = lock(&id.state().inner);
        let (device, connection) = inner.device.zip(inner.connection).ok_or(libc::EINVAL)?;
        match device.with(|manager, now| manager.communication_established(now, connection)) {
            // The peer's message has arrived in the meantime.
            Err(ManagerError::State(_)) => Ok(()),
            other => other.map_err(refused("rdma_notify")),
        }
    })
}

/// Ends a connection.
pub(crate) fn disconnect(id: Handle<Id>) -> Result<(), c_int> {
    {
        let inner = lock(&id.state().inner);
        if !inner.was_connected && get!(id.qp_type) != IBV_QPT_UD {
            return Err(libc::EINVAL);
        }
        trace(format_args!("rdma_disconnect"));
        qp::fail(id, &inner);
        if get!(id.qp_type) == IBV_QPT_UD {
            return Ok(());
        }
        // If the identifier has no connection, the event of its end was already delivered, and no other event follows.
        let Some((device, connection)) = inner.device.zip(inner.connection) else { return Ok(()) };
        match device.with(|manager, now| manager.disconnect(now, connection)) {
            // The peer has already ended the connection.
            Ok(()) | Err(ManagerError::State(_) | ManagerError::Unknown(_)) => {}
            Err(error) => return Err(number(error)),
        }
    }
    complete(id)
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    call(|| disconnect(id::live(id)?))
}
