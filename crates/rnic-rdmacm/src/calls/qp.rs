//! The queue pairs of identifiers, and shared receive queues.

use crate::objects::id::{self, Id};
use crate::objects::qp::{self, Queues};
use crate::verbs::{call, extended, ibv_create_qp, trace};
use libc::c_int;
use rnic_cabi::cma::*;
use rnic_cabi::entry::{entry, lock};
use rnic_cabi::pointer::{Handle, InOut, Out};
use rnic_cabi::verbs::*;
use rnic_cabi::{get, set};

/// Creates the queue pair of an identifier.
///
/// # Safety
/// The domain, and the queues in the attributes, are null or exist.
pub(crate) unsafe fn create(id: Handle<Id>, pd: *mut ibv_pd, attr: &mut ibv_qp_init_attr) -> Result<(), c_int> {
    // SAFETY: the caller promises the conditions of this function.
    let pd = unsafe { qp::domain(id, pd) }?;
    // The program's attributes change only with success: otherwise they would name queues that are destroyed.
    let mut with_queues = *attr;
    let given = Queues { send: attr.send_cq, recv: attr.recv_cq, srq: attr.srq };
    let (cap, kind) = (attr.cap, attr.qp_type);
    qp::create(id, pd, given, &cap, kind, |queues| {
        (with_queues.send_cq, with_queues.recv_cq, with_queues.srq) = (queues.send, queues.recv, queues.srq);
        // SAFETY: the domain and the queues exist.
        unsafe { ibv_create_qp(pd, &mut with_queues) }
    })?;
    *attr = with_queues;
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_create_qp(id: *mut rdma_cm_id, pd: *mut ibv_pd, attributes: InOut<ibv_qp_init_attr>) -> c_int {
    call(|| {
        let id = id::live(id)?;
        let mut attr = attributes.read();
        // SAFETY: the program passes a domain and queues that exist, or null.
        unsafe { create(id, pd, &mut attr) }?;
        attributes.write(attr);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_create_qp_ex(id: *mut rdma_cm_id, attributes: InOut<ibv_qp_init_attr_ex>) -> c_int {
    call(|| {
        let id = id::live(id)?;
        let mut attr = attributes.read();
        let given = if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 { std::ptr::null_mut() } else { attr.pd };
        // SAFETY: the program passes a domain that exists, or null.
        attr.pd = unsafe { qp::domain(id, given) }?;
        attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
        let context = get!(id.verbs);
        // SAFETY: the identifier has a device, whose context is open.
        let make = unsafe { (*extended(context)).create_qp_ex }.ok_or(libc::EOPNOTSUPP)?;
        let given = Queues { send: attr.send_cq, recv: attr.recv_cq, srq: attr.srq };
        let (pd, cap, kind) = (attr.pd, attr.cap, attr.qp_type);
        qp::create(id, pd, given, &cap, kind, |queues| {
            (attr.send_cq, attr.recv_cq, attr.srq) = (queues.send, queues.recv, queues.srq);
            // SAFETY: the context is open, and the domain and the queues exist.
            unsafe { make(context, &raw mut attr) }
        })?;
        attributes.write(attr);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    if let Ok(id) = id::live(id) {
        entry((), || qp::destroy(id));
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_init_qp_attr(id: *mut rdma_cm_id, attributes: InOut<ibv_qp_attr>, mask: Out<c_int>) -> c_int {
    call(|| {
        let id = id::live(id)?;
        let inner = lock(&id.state().inner);
        let (attr, needed) = qp::attributes(get!(id.qp_type), &inner, get!(attributes.qp_state))?;
        attributes.write(attr);
        mask.write(needed);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_create_srq(id: *mut rdma_cm_id, pd: *mut ibv_pd, attributes: InOut<ibv_srq_init_attr>) -> c_int {
    call(|| {
        let id = id::live(id)?;
        let mut attr = ibv_srq_init_attr { srq_context: get!(attributes.srq_context), attr: get!(attributes.attr) };
        // SAFETY: the program passes a domain that exists, or null.
        unsafe { qp::create_srq(id, pd, &mut attr) }?;
        set!(attributes.attr = attr.attr);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_create_srq_ex(id: *mut rdma_cm_id, attributes: InOut<ibv_srq_init_attr_ex>) -> c_int {
    call(|| {
        let id = id::live(id)?;
        let comp_mask = get!(attributes.comp_mask);
        if comp_mask & IBV_SRQ_INIT_ATTR_TYPE != 0 && get!(attributes.srq_type) != IBV_SRQT_BASIC {
            trace(format_args!("rdma_create_srq_ex refused: there are basic shared receive queues alone"));
            return Err(libc::EOPNOTSUPP);
        }
        let pd = if comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 { std::ptr::null_mut() } else { get!(attributes.pd) };
        let mut usual = ibv_srq_init_attr { srq_context: get!(attributes.srq_context), attr: get!(attributes.attr) };
        // SAFETY: the program passes a domain that exists, or null.
        unsafe { qp::create_srq(id, pd, &mut usual) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_destroy_srq(id: *mut rdma_cm_id) {
    if let Ok(id) = id::live(id) {
        entry((), || qp::destroy_srq(id));
    }
}
