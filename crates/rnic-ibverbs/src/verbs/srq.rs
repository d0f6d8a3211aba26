//! Shared receive queues.

use crate::abi::*;
use crate::error::refused;
use crate::objects::InContext;
use crate::objects::context::Context;
use crate::objects::domain::Domain;
use crate::objects::srq::Srq;
use crate::trace;
use libc::c_int;
use rnic_cabi::entry::{object, status};
use rnic_cabi::pointer::{Handle, In, InOut, Out};
use rnic_cabi::{get, set};

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_srq(pd: Handle<Domain>, attributes: InOut<ibv_srq_init_attr>) -> *mut ibv_srq {
    object(|| {
        let mut attr = get!(attributes.attr);
        let srq = Srq::create(pd, get!(attributes.srq_context), &mut attr)?;
        set!(attributes.attr = attr);
        Ok(srq.as_ptr())
    })
}

pub(crate) extern "C" fn create_srq_ex(_: Handle<Context>, attributes: InOut<ibv_srq_init_attr_ex>) -> *mut ibv_srq {
    object(|| {
        let comp_mask = get!(attributes.comp_mask);
        let basic = comp_mask & IBV_SRQ_INIT_ATTR_TYPE == 0 || get!(attributes.srq_type) == IBV_SRQT_BASIC;
        if !basic || comp_mask & !(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD) != 0 {
            trace::line(format_args!("ibv_create_srq_ex refused: there are only basic shared receive queues"));
            return Err(libc::EOPNOTSUPP);
        }
        if comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: the domain exists.
        let pd: Handle<Domain> = unsafe { Handle::new(get!(attributes.pd)) };
        let mut attr = get!(attributes.attr);
        let srq = Srq::create(pd, get!(attributes.srq_context), &mut attr)?;
        set!(attributes.attr = attr);
        Ok(srq.as_ptr())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_modify_srq(srq: Handle<Srq>, attributes: In<ibv_srq_attr>, mask: c_int) -> c_int {
    status(|| {
        let (device, state, attr) = (&srq.context().device, srq.state(), attributes.read());
        if mask & !(IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR) != 0 {
            return Err(libc::EINVAL);
        }
        if mask & IBV_SRQ_MAX_WR != 0 {
            let resized = device.with_verbs_quietly(|verbs| verbs.resize_srq(state.id, attr.max_wr));
            resized.map_err(refused("ibv_modify_srq"))?;
        }
        if mask & IBV_SRQ_LIMIT != 0 {
            let armed = device.with_verbs(|verbs| {
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
        trace::line(format_args!("ibv_modify_srq {:x}, mask {mask:#x}", srq.as_ptr().addr()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_srq(srq: Handle<Srq>, attributes: Out<ibv_srq_attr>) -> c_int {
    status(|| {
        let info = srq.context().device.with_verbs_quietly(|verbs| verbs.query_srq(srq.state().id));
        let info = info.map_err(refused("ibv_query_srq"))?;
        trace::line(format_args!("ibv_query_srq {:x}", srq.as_ptr().addr()));
        attributes.write(ibv_srq_attr { max_wr: info.capacity, max_sge: info.max_sge, srq_limit: info.limit });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_srq(srq: Handle<Srq>) -> c_int {
    status(|| {
        let (context, state) = (srq.context(), srq.state());
        if context.is_of_parent("ibv_destroy_srq") {
            return Ok(());
        }
        let destroyed = context.device.with_verbs_quietly(|verbs| verbs.destroy_srq(state.id));
        destroyed.map_err(refused("ibv_destroy_srq"))?;
        context.events.remove_srq(state.id);
        state.events.wait();
        trace::line(format_args!("ibv_destroy_srq {:x}", srq.as_ptr().addr()));
        // SAFETY: the program does not use the queue afterwards, and no event of it is unacknowledged.
        drop(unsafe { srq.destroy() });
        Ok(())
    })
}
