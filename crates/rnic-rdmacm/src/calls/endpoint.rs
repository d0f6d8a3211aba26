//! The functions of `rdma_cm` that do several steps in one call.

use super::{address, connect, event, qp};
use crate::objects;
use crate::objects::id::{self, Id, New, Template};
use crate::sockets;
use crate::verbs::call;
use libc::c_int;
use rnic_cabi::cma::*;
use rnic_cabi::entry::{entry, lock};
use rnic_cabi::pointer::{Handle, In, Out};
use rnic_cabi::verbs::*;
use rnic_cabi::{get, set};

/// The steps of `rdma_create_ep` after the creation of the identifier.
///
/// # Safety
/// The addresses and the private data in `info` are null, or have their lengths. The domain, and the queues in the
/// attributes, are null or exist.
unsafe fn set_up(
    id: Handle<Id>, info: &rdma_addrinfo, pd: *mut ibv_pd, attributes: Option<&mut ibv_qp_init_attr>,
) -> Result<(), c_int> {
    if info.ai_flags & RAI_PASSIVE != 0 {
        // SAFETY: the caller promises the conditions of this function.
        address::bind(id, unsafe { sockets::read(info.ai_src_addr) }?)?;
        set!(id.pd = pd);
        if let Some(attributes) = attributes {
            let template = ibv_qp_init_attr { qp_type: info.ai_qp_type, ..*attributes };
            lock(&id.state().inner).template = Some(Template(template));
        }
        return Ok(());
    }
    // SAFETY: the caller promises the conditions of this function.
    unsafe { address::resolve(id, info.ai_src_addr, info.ai_dst_addr) }?;
    if info.ai_flags & RAI_NOROUTE == 0 {
        address::resolve_route(id)?;
    }
    if let Some(attributes) = attributes {
        attributes.qp_type = info.ai_qp_type;
        // SAFETY: the caller promises the conditions of this function.
        unsafe { qp::create(id, pd, attributes) }?;
    }
    if info.ai_connect_len > 0 && !info.ai_connect.is_null() {
        // SAFETY: the caller promises the conditions of this function.
        let data = unsafe { std::slice::from_raw_parts(info.ai_connect.cast::<u8>(), info.ai_connect_len) };
        lock(&id.state().inner).data = data.to_vec();
    }
    Ok(())
}

/// # Safety
/// The addresses and the private data in `info` are null, or have their lengths. The attributes are null, or can be
/// read and written; the domain, and the queues in the attributes, are null or exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_ep(
    out: Out<*mut rdma_cm_id>, info: In<rdma_addrinfo>, pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr,
) -> c_int {
    call(|| {
        let info = info.read();
        // SAFETY: the caller promises the conditions of this function.
        let attributes = unsafe { attributes.as_mut() };
        let kind = attributes.as_ref().map_or(0, |attributes| attributes.qp_type);
        let qp_type = if kind == 0 { info.ai_qp_type } else { kind };
        let new = New { context: std::ptr::null_mut(), space: info.ai_port_space, qp_type };
        let id = id::create(std::ptr::null_mut(), new)?;
        // SAFETY: the caller promises the conditions of this function.
        match unsafe { set_up(id, &info, pd, attributes) } {
            Ok(()) => {
                out.write(id.as_ptr());
                Ok(())
            }
            Err(error) => {
                destroy(id);
                Err(error)
            }
        }
    })
}

/// Destroys an identifier with its queue pair and its shared receive queue.
fn destroy(id: Handle<Id>) {
    if !get!(id.qp).is_null() {
        objects::qp::destroy(id);
    }
    objects::qp::destroy_srq(id);
    let _ = id::destroy(id.as_ptr());
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    if let Ok(id) = id::live(id) {
        entry((), || destroy(id));
    }
}

/// Waits for the request of a peer, and creates its queue pair if the program passed attributes to `rdma_create_ep`.
pub(crate) fn get_request(listener: Handle<Id>) -> Result<Handle<Id>, c_int> {
    if !lock(&listener.state().inner).sync {
        return Err(libc::EINVAL);
    }
    id::acknowledge_event(listener);
    let event = event::take(id::channel(listener))?;
    let fail = |error| {
        let _ = objects::event::acknowledge(event.as_ptr());
        Err(error)
    };
    match (get!(event.event), get!(event.status)) {
        (RDMA_CM_EVENT_CONNECT_REQUEST, 0) => {}
        (_, 0) => return fail(libc::EINVAL),
        (_, status) => return fail(status.abs()),
    }
    // SAFETY: the identifier of a request exists: the program does not know the identifier yet, so it cannot destroy
    // it.
    let id: Handle<Id> = unsafe { Handle::new(get!(event.id)) };
    let template = lock(&listener.state().inner).template;
    if let Some(Template(mut attributes)) = template {
        // SAFETY: the objects of the template exist as long as the program gets requests with it.
        if let Err(error) = unsafe { qp::create(id, get!(listener.pd), &mut attributes) } {
            let failed = fail(error);
            let _ = connect::reject(id, &[]);
            let _ = id::destroy(id.as_ptr());
            return failed;
        }
    }
    set!(id.event = event.as_ptr());
    Ok(id)
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_get_request(listener: *mut rdma_cm_id, out: Out<*mut rdma_cm_id>) -> c_int {
    call(|| {
        out.write(get_request(id::live(listener)?)?.as_ptr());
        Ok(())
    })
}
