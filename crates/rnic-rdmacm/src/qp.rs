//! The queue pairs of identifiers: creation, their states, shared receive queues.

use crate::id::{self, Connect, HOP_LIMIT, Inner};
use crate::verbs::*;
use libc::{c_int, c_void};
use rnic_cabi::cma::*;
use rnic_cabi::entry::{entry, lock};
use rnic_cabi::verbs::*;
use rnic_cm::ip;

/// RNR timer of connections: 41 ms. A peer that retries five times waits 0.2 s for a program whose processor is busy.
/// With Linux it would wait 3.3 s, but each message that comes before its receive would cost 0.66 s.
const RNR_TIMER: u8 = 24;

/// The completion queues and the shared receive queue of a queue pair.
#[derive(Clone, Copy)]
struct Queues {
    send: *mut ibv_cq,
    recv: *mut ibv_cq,
    srq: *mut ibv_srq,
}

/// The queues of a queue pair: those that the program gives, and for the others those of the identifier. Completion
/// queues that it has not yet are made, with channels of their own.
///
/// # Safety
/// The identifier is one of this library with an open device.
unsafe fn make_queues(id: *mut rdma_cm_id, given: Queues, cap: &ibv_qp_cap) -> Result<Queues, c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        let (context, about) = ((*id).verbs, id.cast::<c_void>());
        let make = |size: u32| -> Result<(*mut ibv_comp_channel, *mut ibv_cq), c_int> {
            let channel = made(ibv_create_comp_channel(context))?;
            let size = c_int::try_from(size.max(1)).map_err(|_| libc::EINVAL)?;
            match made(ibv_create_cq(context, size, about, channel, 0)) {
                Ok(cq) => Ok((channel, cq)),
                Err(error) => {
                    ibv_destroy_comp_channel(channel);
                    Err(error)
                }
            }
        };
        let mut queues = given;
        if queues.recv.is_null() {
            if (*id).recv_cq.is_null() {
                ((*id).recv_cq_channel, (*id).recv_cq) = make(cap.max_recv_wr)?;
            }
            queues.recv = (*id).recv_cq;
        }
        if queues.send.is_null() {
            if (*id).send_cq.is_null() {
                ((*id).send_cq_channel, (*id).send_cq) = make(cap.max_send_wr)?;
            }
            queues.send = (*id).send_cq;
        }
        if queues.srq.is_null() {
            queues.srq = (*id).srq;
        }
        Ok(queues)
    }
}

/// # Safety
/// The identifier is one of this library.
unsafe fn destroy_queues(id: *mut rdma_cm_id) {
    // SAFETY: the caller's promise. The queues and channels are those that `make_queues` has made.
    unsafe {
        for (cq, channel) in [
            (&raw mut (*id).recv_cq, &raw mut (*id).recv_cq_channel),
            (&raw mut (*id).send_cq, &raw mut (*id).send_cq_channel),
        ] {
            // A queue without a channel is the program's.
            if !(*channel).is_null() {
                ibv_destroy_cq(*cq);
                ibv_destroy_comp_channel(*channel);
            }
            (*cq, *channel) = (std::ptr::null_mut(), std::ptr::null_mut());
        }
    }
}

/// Makes the queue pair of an identifier with `make`, and brings it into its first state.
///
/// # Safety
/// By the contract of librdmacm.
unsafe fn make_queue_pair(
    id: *mut rdma_cm_id, pd: *mut ibv_pd, queues: Queues, kind: c_int, make: impl FnOnce(Queues) -> *mut ibv_qp,
) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        let state = id::state(id);
        let qp = made(make(queues))?;
        (*id).qp_type = kind;
        let inner = lock(&state.inner);
        let first = if kind == IBV_QPT_UD {
            [IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS].iter().try_for_each(|next| modify(qp, id, &inner, *next))
        } else {
            modify(qp, id, &inner, IBV_QPS_INIT)
        };
        if let Err(error) = first {
            ibv_destroy_qp(qp);
            return Err(error);
        }
        (*id).qp = qp;
        (*id).pd = pd;
        // Where the queue pair completes; the channels tell which queues are this library's.
        ((*id).send_cq, (*id).recv_cq) = (queues.send, queues.recv);
        trace(format_args!("rdma_create_qp {:#x}", (*qp).qp_num));
    }
    Ok(())
}

/// Makes the queue pair of an identifier with `make`, and its queues as far as the program does not give them. Nothing
/// of both stays after an error.
///
/// # Safety
/// By the contract of librdmacm.
unsafe fn create(
    id: *mut rdma_cm_id, pd: *mut ibv_pd, given: Queues, cap: &ibv_qp_cap, kind: c_int,
    make: impl FnOnce(Queues) -> *mut ibv_qp,
) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        make_queues(id, given, cap)
            .and_then(|queues| make_queue_pair(id, pd, queues, kind, make))
            .inspect_err(|_| destroy_queues(id))
    }
}

/// The protection domain of a new queue pair.
///
/// # Safety
/// By the contract of librdmacm.
unsafe fn domain(id: *mut rdma_cm_id, pd: *mut ibv_pd) -> Result<*mut ibv_pd, c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        let device = lock(&id::state(id).inner).device.ok_or(libc::EINVAL)?;
        if !(*id).qp.is_null() {
            return Err(libc::EINVAL);
        }
        match pd {
            pd if pd.is_null() && !(*id).pd.is_null() => Ok((*id).pd),
            pd if pd.is_null() => device.pd(),
            pd if (*pd).context == (*id).verbs => Ok(pd),
            _ => {
                trace(format_args!("rdma_create_qp refused: the protection domain belongs to another device"));
                Err(libc::EINVAL)
            }
        }
    }
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_qp(
    id: *mut rdma_cm_id, pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr,
) -> c_int {
    call(|| {
        id::check(id)?;
        // SAFETY: by the contract of librdmacm.
        unsafe {
            let pd = domain(id, pd)?;
            // The program's attributes change only with success: they would name queues that are destroyed.
            let mut attr = *attributes;
            let given = Queues { send: attr.send_cq, recv: attr.recv_cq, srq: attr.srq };
            let (cap, kind) = (attr.cap, attr.qp_type);
            create(id, pd, given, &cap, kind, |queues| {
                (attr.send_cq, attr.recv_cq, attr.srq) = (queues.send, queues.recv, queues.srq);
                ibv_create_qp(pd, &raw mut attr)
            })?;
            *attributes = attr;
            Ok(())
        }
    })
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_qp_ex(id: *mut rdma_cm_id, attributes: *mut ibv_qp_init_attr_ex) -> c_int {
    call(|| {
        id::check(id)?;
        // SAFETY: by the contract of librdmacm.
        unsafe {
            let mut attr = attributes.read();
            let given = if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 { std::ptr::null_mut() } else { attr.pd };
            attr.pd = domain(id, given)?;
            attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
            let context = (*id).verbs;
            let make = (*extended(context)).create_qp_ex.ok_or(libc::EOPNOTSUPP)?;
            let given = Queues { send: attr.send_cq, recv: attr.recv_cq, srq: attr.srq };
            let (cap, kind) = (attr.cap, attr.qp_type);
            create(id, attr.pd, given, &cap, kind, |queues| {
                (attr.send_cq, attr.recv_cq, attr.srq) = (queues.send, queues.recv, queues.srq);
                make(context, &raw mut attr)
            })?;
            attributes.write(attr);
            Ok(())
        }
    })
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    if id::check(id).is_err() {
        return;
    }
    // SAFETY: by the contract of librdmacm.
    entry((), || unsafe {
        // A thread that takes an event of the identifier may be using the queue pair. The lock is not kept: the
        // destruction may wait for a thread that calls functions of the identifier.
        let qp = {
            let _inner = lock(&id::state(id).inner);
            std::mem::replace(&mut (*id).qp, std::ptr::null_mut())
        };
        if !qp.is_null() {
            ibv_destroy_qp(qp);
        }
        destroy_queues(id);
    });
}

/// The attributes for a change to the state `to`, and their mask.
///
/// # Errors
/// `EINVAL` for a state to which the communication manager brings no queue pair, or without a device.
pub(crate) fn attributes(kind: c_int, inner: &Inner, to: c_int) -> Result<(ibv_qp_attr, c_int), c_int> {
    let device = inner.device.ok_or(libc::EINVAL)?;
    let mut attr = ibv_qp_attr { qp_state: to, port_num: 1, ..ibv_qp_attr::default() };
    let Connect { psn, peer_psn, peer_qpn, mtu, responder_resources, initiator_depth, .. } = inner.connect;
    let datagrams = kind == IBV_QPT_UD;
    let mask = match to {
        IBV_QPS_INIT if datagrams => {
            attr.qkey = RDMA_UDP_QKEY;
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY
        }
        IBV_QPS_INIT => {
            attr.qp_access_flags = REMOTE;
            if kind == IBV_QPT_RC && responder_resources > 0 {
                attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
            }
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS
        }
        IBV_QPS_RTR if datagrams => 0,
        IBV_QPS_RTR => {
            let peer = inner.remote.ok_or(libc::EINVAL)?;
            attr.path_mtu = c_int::from(mtu.min(device.mtu));
            attr.dest_qp_num = peer_qpn;
            // A side says at which PSN its peer begins to send.
            attr.rq_psn = psn;
            attr.ah_attr = path(inner, ip::gid(peer.ip()));
            let usual = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
            if kind == IBV_QPT_RC {
                attr.max_dest_rd_atomic = responder_resources;
                attr.min_rnr_timer = RNR_TIMER;
                usual | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
            } else {
                usual
            }
        }
        IBV_QPS_RTS => {
            attr.sq_psn = peer_psn;
            if kind == IBV_QPT_RC {
                attr.timeout = inner.connect.ack_timeout;
                attr.retry_cnt = inner.connect.retry_count;
                attr.rnr_retry = inner.connect.rnr_retry_count;
                attr.max_rd_atomic = initiator_depth;
                let timers = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
                IBV_QP_SQ_PSN | timers | IBV_QP_MAX_QP_RD_ATOMIC
            } else {
                IBV_QP_SQ_PSN
            }
        }
        IBV_QPS_ERR => 0,
        _ => return Err(libc::EINVAL),
    };
    Ok((attr, mask | IBV_QP_STATE))
}

/// The path to the peer with this GID.
pub(crate) fn path(inner: &Inner, gid: [u8; 16]) -> ibv_ah_attr {
    let grh = ibv_global_route {
        dgid: ibv_gid { raw: gid },
        hop_limit: HOP_LIMIT,
        traffic_class: inner.tos,
        ..ibv_global_route::default()
    };
    ibv_ah_attr { grh, is_global: 1, port_num: 1, ..ibv_ah_attr::default() }
}

/// Brings a queue pair into a state.
///
/// # Safety
/// The pointers are valid.
unsafe fn modify(qp: *mut ibv_qp, id: *mut rdma_cm_id, inner: &Inner, to: c_int) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut attr, mask) = attributes((*id).qp_type, inner, to)?;
        check(ibv_modify_qp(qp, &mut attr, mask))
    }
}

/// Connects the queue pair of an identifier, if it has one, as `inner.connect` says.
///
/// # Safety
/// The identifier is one of this library.
pub(crate) unsafe fn connect(id: *mut rdma_cm_id, inner: &Inner) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        let qp = (*id).qp;
        if qp.is_null() {
            return Ok(());
        }
        // The rights follow from the resources of the connection.
        [IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS].iter().try_for_each(|next| modify(qp, id, inner, *next))
    }
}

/// Ends the work of the queue pair of an identifier, if it has one. The lock of the identifier keeps the queue pair.
///
/// # Safety
/// The identifier is one of this library, and `_inner` is of it.
pub(crate) unsafe fn fail(id: *mut rdma_cm_id, _inner: &Inner) {
    // SAFETY: the caller's promise.
    unsafe {
        let qp = (*id).qp;
        if !qp.is_null() {
            let mut attr = ibv_qp_attr { qp_state: IBV_QPS_ERR, ..ibv_qp_attr::default() };
            ibv_modify_qp(qp, &mut attr, IBV_QP_STATE);
        }
    }
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_init_qp_attr(
    id: *mut rdma_cm_id, attributes_out: *mut ibv_qp_attr, mask: *mut c_int,
) -> c_int {
    call(|| {
        id::check(id)?;
        // SAFETY: by the contract of librdmacm.
        unsafe {
            let inner = lock(&id::state(id).inner);
            let (attr, needed) = attributes((*id).qp_type, &inner, (*attributes_out).qp_state)?;
            attributes_out.write(attr);
            mask.write(needed);
        }
        Ok(())
    })
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_srq(
    id: *mut rdma_cm_id, pd: *mut ibv_pd, attributes: *mut ibv_srq_init_attr,
) -> c_int {
    call(|| {
        id::check(id)?;
        // SAFETY: by the contract of librdmacm.
        unsafe {
            let pd = domain(id, pd)?;
            if !(*id).srq.is_null() {
                return Err(libc::EINVAL);
            }
            (*id).srq = made(ibv_create_srq(pd, attributes))?;
            (*id).pd = pd;
        }
        Ok(())
    })
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_srq_ex(id: *mut rdma_cm_id, attributes: *mut ibv_srq_init_attr_ex) -> c_int {
    call(|| {
        id::check(id)?;
        // SAFETY: by the contract of librdmacm.
        unsafe {
            let attr = &mut *attributes;
            if attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE != 0 && attr.srq_type != IBV_SRQT_BASIC {
                trace(format_args!("rdma_create_srq_ex refused: there are basic shared receive queues alone"));
                return Err(libc::EOPNOTSUPP);
            }
            let pd = if attr.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 { std::ptr::null_mut() } else { attr.pd };
            let mut usual = ibv_srq_init_attr { srq_context: attr.srq_context, attr: attr.attr };
            match rdma_create_srq(id, pd, &mut usual) {
                0 => Ok(()),
                _ => Err(errno()),
            }
        }
    })
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_srq(id: *mut rdma_cm_id) {
    if id::check(id).is_err() {
        return;
    }
    // SAFETY: by the contract of librdmacm.
    entry((), || unsafe {
        let srq = std::mem::replace(&mut (*id).srq, std::ptr::null_mut());
        if !srq.is_null() {
            ibv_destroy_srq(srq);
        }
    });
}
