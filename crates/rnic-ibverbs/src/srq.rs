//! Shared receive queues.

use crate::abi::*;
use crate::channel::Address;
use crate::context;
use crate::domain;
use crate::entry::{Unacknowledged, object, refused, status};
use crate::trace;
use libc::c_int;
use rnic_verbs::SrqId;

/// A shared receive queue: what C sees, and the state of this crate.
#[repr(C)]
struct Srq {
    c: ibv_srq,
    state: SrqState,
}

pub(crate) struct SrqState {
    pub(crate) id: SrqId,
    pub(crate) events: Unacknowledged,
}

/// The state behind a pointer of C.
///
/// # Safety
/// The pointer is that of a queue of this library which is not destroyed.
pub(crate) unsafe fn state<'a>(srq: *mut ibv_srq) -> &'a SrqState {
    // SAFETY: the reference does not cover the part that C may write.
    unsafe { &(*srq.cast::<Srq>()).state }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, attributes: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    object(|| {
        // SAFETY: by the contract of libibverbs.
        let (context, state, attr) = unsafe { ((*pd).context, context::state((*pd).context), &mut *attributes) };
        let (max_wr, max_sge) = (attr.attr.max_wr, attr.attr.max_sge.max(1));
        // SAFETY: as above.
        let pd_id = unsafe { domain::id(pd) };
        let made = state.device.with_verbs_quietly(|verbs| verbs.create_srq(pd_id, max_wr, max_sge));
        let id = made.map_err(refused("ibv_create_srq"))?;
        attr.attr.max_sge = max_sge;
        let c = ibv_srq {
            context,
            srq_context: attr.srq_context,
            pd,
            handle: state.handle(),
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            events_completed: 0,
        };
        let srq = Box::into_raw(Box::new(Srq { c, state: SrqState { id, events: Unacknowledged::default() } }));
        state.events.add_srq(id, Address(srq.expose_provenance()));
        trace::line(format_args!("ibv_create_srq of {max_wr} receives = SRQ {:x}", srq.addr()));
        Ok(srq.cast())
    })
}

pub(crate) unsafe extern "C" fn create_srq_ex(
    _: *mut ibv_context, attributes: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    object(|| {
        // SAFETY: by the contract of libibverbs.
        let attr = unsafe { &*attributes };
        let basic = attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE == 0 || attr.srq_type == IBV_SRQT_BASIC;
        if !basic || attr.comp_mask & !(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD) != 0 {
            trace::line(format_args!("ibv_create_srq_ex refused: there are only basic shared receive queues"));
            return Err(libc::EOPNOTSUPP);
        }
        if attr.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: as above; the structure begins like that of `ibv_create_srq`.
        Ok(unsafe { ibv_create_srq(attr.pd, attributes.cast()) })
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(srq: *mut ibv_srq, attributes: *mut ibv_srq_attr, mask: c_int) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs.
        let (context, state, attr) = unsafe { (context::state((*srq).context), state(srq), &*attributes) };
        if mask & !(IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR) != 0 {
            return Err(libc::EINVAL);
        }
        if mask & IBV_SRQ_MAX_WR != 0 {
            let resized = context.device.with_verbs_quietly(|verbs| verbs.resize_srq(state.id, attr.max_wr));
            resized.map_err(refused("ibv_modify_srq"))?;
        }
        if mask & IBV_SRQ_LIMIT != 0 {
            let armed = context.device.with_verbs(|verbs| {
                let capacity = verbs.query_srq(state.id)?.capacity;
                if attr.srq_limit > capacity {
                    let possible = format!("0 to {capacity}").into();
                    let (name, value) = ("the limit of a shared receive queue", attr.srq_limit.into());
                    return Err(rnic_verbs::VerbsError::Range { name, value, possible });
                }
                verbs.arm_srq(state.id, attr.srq_limit)
            });
            armed.map_err(refused("ibv_modify_srq"))?;
        }
        trace::line(format_args!("ibv_modify_srq {:x}, mask {mask:#x}", srq.addr()));
        Ok(())
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attributes: *mut ibv_srq_attr) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs.
        let (context, state) = unsafe { (context::state((*srq).context), state(srq)) };
        let info = context.device.with_verbs_quietly(|verbs| verbs.query_srq(state.id));
        let info = info.map_err(refused("ibv_query_srq"))?;
        trace::line(format_args!("ibv_query_srq {:x}", srq.addr()));
        let all = ibv_srq_attr { max_wr: info.capacity, max_sge: info.max_sge, srq_limit: info.limit };
        // SAFETY: as above.
        unsafe { attributes.write(all) };
        Ok(())
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs.
        let (context, state) = unsafe { (context::state((*srq).context), state(srq)) };
        if context.is_of_parent("ibv_destroy_srq") {
            return Ok(());
        }
        let gone = context.device.with_verbs_quietly(|verbs| verbs.destroy_srq(state.id));
        gone.map_err(refused("ibv_destroy_srq"))?;
        context.events.remove_srq(state.id);
        state.events.wait();
        trace::line(format_args!("ibv_destroy_srq {:x}", srq.addr()));
        // SAFETY: it was made by `Box::into_raw`, and the program does not use it any more.
        drop(unsafe { Box::from_raw(srq.cast::<Srq>()) });
        Ok(())
    })
}
