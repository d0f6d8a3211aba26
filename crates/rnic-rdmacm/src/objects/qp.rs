//! The queue pairs of identifiers.

use super::id::{Connect, HOP_LIMIT, Id, Inner};
use crate::verbs::*;
use libc::{c_int, c_void};
use rnic_cabi::cma::*;
use rnic_cabi::entry::lock;
use rnic_cabi::pointer::Handle;
use rnic_cabi::verbs::*;
use rnic_cabi::{get, set};
use rnic_cm::ip;

/// RNR timer of connections: 41 ms. A peer that retries five times waits 0.2 s for a program whose processor is busy.
/// With the timer of Linux the peer would wait 3.3 s in total, but each message that arrives before its receive request
/// is posted would be delayed by 0.66 s.
const RNR_TIMER: u8 = 24;

/// The completion queues and the shared receive queue of a queue pair.
#[derive(Clone, Copy)]
pub(crate) struct Queues {
    pub(crate) send: *mut ibv_cq,
    pub(crate) recv: *mut ibv_cq,
    pub(crate) srq: *mut ibv_srq,
}

/// Makes a completion queue with its own channel.
fn make_cq(id: Handle<Id>, size: u32) -> Result<(*mut ibv_comp_channel, *mut ibv_cq), c_int> {
    let context = get!(id.verbs);
    let size = c_int::try_from(size.max(1)).map_err(|_| libc::EINVAL)?;
    // SAFETY: the context of an identifier with a device is open.
    unsafe {
        let channel = made(ibv_create_comp_channel(context))?;
        match made(ibv_create_cq(context, size, id.as_ptr().cast::<c_void>(), channel, 0)) {
            Ok(cq) => Ok((channel, cq)),
            Err(error) => {
                ibv_destroy_comp_channel(channel);
                Err(error)
            }
        }
    }
}

/// Returns the queues of a queue pair: the queues that the program passes, and otherwise the queues of the identifier.
/// If the identifier does not have a completion queue yet, the function makes it, with its own channel.
fn make_queues(id: Handle<Id>, given: Queues, cap: &ibv_qp_cap) -> Result<Queues, c_int> {
    let mut queues = given;
    if queues.recv.is_null() {
        if get!(id.recv_cq).is_null() {
            let (channel, cq) = make_cq(id, cap.max_recv_wr)?;
            set!(id.recv_cq_channel = channel);
            set!(id.recv_cq = cq);
        }
        queues.recv = get!(id.recv_cq);
    }
    if queues.send.is_null() {
        if get!(id.send_cq).is_null() {
            let (channel, cq) = make_cq(id, cap.max_send_wr)?;
            set!(id.send_cq_channel = channel);
            set!(id.send_cq = cq);
        }
        queues.send = get!(id.send_cq);
    }
    if queues.srq.is_null() {
        queues.srq = get!(id.srq);
    }
    Ok(queues)
}

/// Destroys the completion queues that [`make_queues`] has made.
pub(crate) fn destroy_queues(id: Handle<Id>) {
    for (cq, channel) in [(get!(id.recv_cq), get!(id.recv_cq_channel)), (get!(id.send_cq), get!(id.send_cq_channel))] {
        // A queue without a channel is the program's.
        if !channel.is_null() {
            // SAFETY: `make_cq` made both, and the identifier does not point at them afterwards.
            unsafe {
                ibv_destroy_cq(cq);
                ibv_destroy_comp_channel(channel);
            }
        }
    }
    set!(id.recv_cq = std::ptr::null_mut());
    set!(id.recv_cq_channel = std::ptr::null_mut());
    set!(id.send_cq = std::ptr::null_mut());
    set!(id.send_cq_channel = std::ptr::null_mut());
}

/// Makes the queue pair of an identifier with `make`, and brings it into its first state.
fn make_queue_pair(
    id: Handle<Id>, pd: *mut ibv_pd, queues: Queues, kind: c_int, make: impl FnOnce(Queues) -> *mut ibv_qp,
) -> Result<(), c_int> {
    let qp = made(make(queues))?;
    set!(id.qp_type = kind);
    let inner = lock(&id.state().inner);
    let states: &[c_int] = if kind == IBV_QPT_UD { &[IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS] } else { &[IBV_QPS_INIT] };
    // SAFETY: `make` has made the queue pair, and no other thread knows it.
    if let Err(error) = states.iter().try_for_each(|state| unsafe { modify(qp, id, &inner, *state) }) {
        // SAFETY: the queue pair exists, and the identifier does not point at it.
        unsafe { ibv_destroy_qp(qp) };
        return Err(error);
    }
    set!(id.qp = qp);
    set!(id.pd = pd);
    // The queues in which the queue pair completes. The channels show which queues this library has made.
    set!(id.send_cq = queues.send);
    set!(id.recv_cq = queues.recv);
    // SAFETY: the queue pair exists.
    trace(format_args!("rdma_create_qp {:#x}", unsafe { (*qp).qp_num }));
    Ok(())
}

/// Makes the queue pair of an identifier with `make`, and the queues that the program does not pass. After an error,
/// the identifier has neither a queue pair nor queues that this function has made.
pub(crate) fn create(
    id: Handle<Id>, pd: *mut ibv_pd, given: Queues, cap: &ibv_qp_cap, kind: c_int,
    make: impl FnOnce(Queues) -> *mut ibv_qp,
) -> Result<(), c_int> {
    make_queues(id, given, cap)
        .and_then(|queues| make_queue_pair(id, pd, queues, kind, make))
        .inspect_err(|_| destroy_queues(id))
}

/// Returns the protection domain of a new queue pair: `pd`, or if `pd` is null, the identifier's domain, or if the
/// identifier has none, the device's domain.
///
/// # Errors
/// `EINVAL` if the identifier has no device, or has a queue pair, or the domain belongs to another device.
///
/// # Safety
/// The domain is null or exists.
pub(crate) unsafe fn domain(id: Handle<Id>, pd: *mut ibv_pd) -> Result<*mut ibv_pd, c_int> {
    let device = lock(&id.state().inner).device.ok_or(libc::EINVAL)?;
    if !get!(id.qp).is_null() {
        return Err(libc::EINVAL);
    }
    let own = get!(id.pd);
    match pd {
        pd if pd.is_null() && !own.is_null() => Ok(own),
        pd if pd.is_null() => device.pd(),
        // SAFETY: the domain exists.
        pd if unsafe { (*pd).context } == get!(id.verbs) => Ok(pd),
        _ => {
            trace(format_args!("rdma_create_qp refused: the protection domain belongs to another device"));
            Err(libc::EINVAL)
        }
    }
}

/// Destroys the queue pair of an identifier, and the queues that this library has made for it.
pub(crate) fn destroy(id: Handle<Id>) {
    // A thread that takes an event of the identifier may be using the queue pair. The lock is released before the
    // destruction, which may wait for a thread that calls functions of the identifier.
    let qp = {
        let _inner = lock(&id.state().inner);
        let qp = get!(id.qp);
        set!(id.qp = std::ptr::null_mut());
        qp
    };
    if !qp.is_null() {
        // SAFETY: the queue pair exists, and the identifier no longer points at it.
        unsafe { ibv_destroy_qp(qp) };
    }
    destroy_queues(id);
}

/// The attributes for a change to the state `to`, and their mask.
///
/// # Errors
/// `EINVAL` for a state that the communication manager does not set, or without a device.
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
            // Each end chooses the first PSN of its peer.
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
/// The queue pair exists.
unsafe fn modify(qp: *mut ibv_qp, id: Handle<Id>, inner: &Inner, to: c_int) -> Result<(), c_int> {
    let (mut attr, mask) = attributes(get!(id.qp_type), inner, to)?;
    // SAFETY: the caller promises the conditions of this function.
    check(unsafe { ibv_modify_qp(qp, &mut attr, mask) })
}

/// Connects the queue pair of an identifier, if it has one, with the parameters of `inner.connect`. `inner` is the
/// identifier's: its lock keeps the queue pair.
pub(crate) fn connect(id: Handle<Id>, inner: &Inner) -> Result<(), c_int> {
    let qp = get!(id.qp);
    if qp.is_null() {
        return Ok(());
    }
    // The access rights follow from the resources of the connection.
    // SAFETY: the queue pair of an identifier exists as long as the lock is held.
    [IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS].iter().try_for_each(|next| unsafe { modify(qp, id, inner, *next) })
}

/// Brings the queue pair of an identifier, if it has one, into the error state. `_inner` is the identifier's: its lock
/// keeps the queue pair.
pub(crate) fn fail(id: Handle<Id>, _inner: &Inner) {
    let qp = get!(id.qp);
    if !qp.is_null() {
        let mut attr = ibv_qp_attr { qp_state: IBV_QPS_ERR, ..ibv_qp_attr::default() };
        // SAFETY: the queue pair of an identifier exists as long as the lock is held.
        unsafe { ibv_modify_qp(qp, &mut attr, IBV_QP_STATE) };
    }
}

/// Makes the shared receive queue of an identifier.
///
/// # Safety
/// The domain is null or exists.
pub(crate) unsafe fn create_srq(
    id: Handle<Id>, pd: *mut ibv_pd, attributes: &mut ibv_srq_init_attr,
) -> Result<(), c_int> {
    // SAFETY: the caller promises the conditions of this function.
    let pd = unsafe { domain(id, pd) }?;
    if !get!(id.srq).is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the domain exists.
    set!(id.srq = made(unsafe { ibv_create_srq(pd, attributes) })?);
    set!(id.pd = pd);
    Ok(())
}

/// Destroys the shared receive queue of an identifier, if it has one.
pub(crate) fn destroy_srq(id: Handle<Id>) {
    let srq = get!(id.srq);
    set!(id.srq = std::ptr::null_mut());
    if !srq.is_null() {
        // SAFETY: the queue exists, and the identifier no longer points at it.
        unsafe { ibv_destroy_srq(srq) };
    }
}
