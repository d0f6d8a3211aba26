//! The calls that do several steps at once.

use crate::address;
use crate::channel;
use crate::id::{self, New, Template};
use crate::qp;
use crate::sockets;
use crate::verbs::{call, errno};
use libc::c_int;
use rnic_cabi::cma::*;
use rnic_cabi::entry::{entry, lock};
use rnic_cabi::verbs::*;

/// Time for each step in milliseconds, as librdmacm has it. The steps are immediate.
const TIMEOUT: c_int = 2_000;

fn done(result: c_int) -> Result<(), c_int> {
    if result == 0 { Ok(()) } else { Err(errno()) }
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_ep(
    out: *mut *mut rdma_cm_id, info: *mut rdma_addrinfo, pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: by the contract of librdmacm.
    call(|| unsafe {
        let info = &*info;
        let kind = if attributes.is_null() { info.ai_qp_type } else { (*attributes).qp_type };
        let kind = if kind == 0 { info.ai_qp_type } else { kind };
        let new = New { context: std::ptr::null_mut(), space: info.ai_port_space, qp_type: kind };
        let id = id::create(std::ptr::null_mut(), new)?;
        let steps = || -> Result<(), c_int> {
            if info.ai_flags & RAI_PASSIVE != 0 {
                address::bind(id, sockets::read(info.ai_src_addr)?)?;
                (*id).pd = pd;
                if let Some(attributes) = attributes.as_ref() {
                    let template = ibv_qp_init_attr { qp_type: info.ai_qp_type, ..*attributes };
                    lock(&id::state(id).inner).template = Some(Template(template));
                }
                return Ok(());
            }
            done(address::rdma_resolve_addr(id, info.ai_src_addr, info.ai_dst_addr, TIMEOUT))?;
            if info.ai_flags & RAI_NOROUTE == 0 {
                done(address::rdma_resolve_route(id, TIMEOUT))?;
            }
            if !attributes.is_null() {
                (*attributes).qp_type = info.ai_qp_type;
                done(qp::rdma_create_qp(id, pd, attributes))?;
            }
            if info.ai_connect_len > 0 && !info.ai_connect.is_null() {
                let data = std::slice::from_raw_parts(info.ai_connect.cast::<u8>(), info.ai_connect_len);
                lock(&id::state(id).inner).data = data.to_vec();
            }
            Ok(())
        };
        match steps() {
            Ok(()) => {
                out.write(id);
                Ok(())
            }
            Err(error) => {
                rdma_destroy_ep(id);
                Err(error)
            }
        }
    })
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    if id::check(id).is_err() {
        return;
    }
    // SAFETY: by the contract of librdmacm.
    entry((), || unsafe {
        if !(*id).qp.is_null() {
            qp::rdma_destroy_qp(id);
        }
        if !(*id).srq.is_null() {
            qp::rdma_destroy_srq(id);
        }
        id::rdma_destroy_id(id);
    });
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_request(listener: *mut rdma_cm_id, out: *mut *mut rdma_cm_id) -> c_int {
    // SAFETY: by the contract of librdmacm.
    call(|| unsafe {
        id::check(listener)?;
        let state = id::state(listener);
        if !lock(&state.inner).sync {
            return Err(libc::EINVAL);
        }
        id::drop_event(listener);
        let mut event = std::ptr::null_mut();
        done(channel::rdma_get_cm_event((*listener).channel, &mut event))?;
        let refuse = |error| {
            channel::rdma_ack_cm_event(event);
            Err(error)
        };
        match ((*event).event, (*event).status) {
            (RDMA_CM_EVENT_CONNECT_REQUEST, 0) => {}
            (_, 0) => return refuse(libc::EINVAL),
            (_, status) => return refuse(status.abs()),
        }
        let id = (*event).id;
        let template = lock(&state.inner).template;
        if let Some(Template(mut attributes)) = template
            && qp::rdma_create_qp(id, (*listener).pd, &mut attributes) != 0
        {
            let error = errno();
            channel::rdma_ack_cm_event(event);
            crate::connect::rdma_reject(id, std::ptr::null(), 0);
            id::rdma_destroy_id(id);
            return Err(error);
        }
        (*id).event = event;
        out.write(id);
        Ok(())
    })
}
