//! Queue pairs.

use super::qp_ex;
use crate::abi::*;
use crate::error::refused;
use crate::objects::context::Context;
use crate::objects::domain::Domain;
use crate::objects::qp::{Qp, modify};
use crate::objects::{InContext, states};
use crate::trace;
use libc::c_int;
use rnic_cabi::entry::{lock, object, status};
use rnic_cabi::pointer::{Handle, In, InOut, Out};
use rnic_cabi::{get, set};
use rnic_endpoint::BitRate;

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_qp(pd: *mut ibv_pd, attributes: InOut<ibv_qp_init_attr>) -> *mut ibv_qp {
    object(|| {
        let mut attr = attributes.read();
        // SAFETY: the domain and the queues in the attributes are null or exist.
        let created = unsafe {
            let pd: Option<Handle<Domain>> = Handle::new_unless_null(pd);
            Qp::create("ibv_create_qp", pd, &mut attr, None, qp_ex::structure)
        };
        attributes.write(attr);
        created.map(Handle::as_ptr)
    })
}

pub(crate) extern "C" fn create_qp_ex(_: Handle<Context>, attr: InOut<ibv_qp_init_attr_ex>) -> *mut ibv_qp {
    object(|| {
        let known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
        let comp_mask = get!(attr.comp_mask);
        let has = |bit| comp_mask & bit != 0;
        let operations = if has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) { Some(get!(attr.send_ops_flags)) } else { None };
        if comp_mask & !known != 0 || has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && get!(attr.create_flags) != 0 {
            trace::line(format_args!("ibv_create_qp_ex refused: no attributes {:#x}", comp_mask & !known));
            return Err(libc::EOPNOTSUPP);
        }
        if !has(IBV_QP_INIT_ATTR_PD) {
            return Err(libc::EINVAL);
        }
        if operations.unwrap_or(0) & !SEND_OPS != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        let mut usual = ibv_qp_init_attr {
            qp_context: get!(attr.qp_context),
            send_cq: get!(attr.send_cq),
            recv_cq: get!(attr.recv_cq),
            srq: get!(attr.srq),
            cap: get!(attr.cap),
            qp_type: get!(attr.qp_type),
            sq_sig_all: get!(attr.sq_sig_all),
        };
        // SAFETY: the domain and the queues in the attributes are null or exist.
        let qp = unsafe {
            let pd: Option<Handle<Domain>> = Handle::new_unless_null(get!(attr.pd));
            Qp::create("ibv_create_qp_ex", pd, &mut usual, operations, qp_ex::structure)?
        };
        set!(attr.cap = usual.cap);
        Ok(qp.as_ptr())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_qp(qp: Handle<Qp>) -> c_int {
    status(|| {
        let (context, state) = (qp.context(), qp.state());
        if context.is_of_parent("ibv_destroy_qp") {
            return Ok(());
        }
        // The peer may wait for the last ACK.
        context.device.settle();
        let destroyed = context.device.with_verbs(|verbs| {
            let info = verbs.query_qp(state.qpn)?;
            verbs.destroy_qp(state.qpn)?;
            Ok(info.service)
        });
        let service = destroyed.map_err(refused("ibv_destroy_qp"))?;
        state.remove_completions(context);
        context.events.remove_qp(state.qpn);
        state.events.wait();
        trace::line(format_args!("ibv_destroy_qp {:#x}, {}", state.qpn.0, service.name()));
        // SAFETY: the program does not use the queue pair afterwards, and no event of it is unacknowledged.
        drop(unsafe { qp.destroy() });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_qp_to_qp_ex(qp: Handle<Qp>) -> *mut ibv_qp_ex {
    if qp.state().extended { qp.as_ptr().cast() } else { std::ptr::null_mut() }
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_modify_qp(qp: Handle<Qp>, attributes: In<ibv_qp_attr>, mask: c_int) -> c_int {
    status(|| {
        let (state, attr) = (qp.state(), attributes.read());
        modify(qp.context(), state, &attr, mask).inspect_err(|error| {
            trace::line(format_args!("ibv_modify_qp {:#x} refused: {error}", state.qpn.0));
        })?;
        if mask & IBV_QP_STATE != 0 {
            set!(qp.state = attr.qp_state);
            trace::line(format_args!("ibv_modify_qp {:#x} to state {}", state.qpn.0, attr.qp_state));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_qp(
    qp: Handle<Qp>, attributes: Out<ibv_qp_attr>, _: c_int, init: Out<ibv_qp_init_attr>,
) -> c_int {
    status(|| {
        let state = qp.state();
        let info = qp.context().device.with_verbs_quietly(|verbs| verbs.query_qp(state.qpn));
        let info = info.map_err(refused("ibv_query_qp"))?;
        let current = states::number(info.state);
        trace::line(format_args!("ibv_query_qp {:#x} = state {current}", state.qpn.0));
        let mut all = *lock(&state.attributes);
        all.qp_state = current;
        all.cur_qp_state = current;
        all.cap = state.init.capacities;
        all.sq_draining = u8::from(current == IBV_QPS_SQD && info.sends > 0);
        set!(qp.state = current);
        attributes.write(all);
        init.write(ibv_qp_init_attr {
            qp_context: get!(qp.qp_context),
            send_cq: get!(qp.send_cq),
            recv_cq: get!(qp.recv_cq),
            srq: get!(qp.srq),
            cap: state.init.capacities,
            qp_type: state.kind,
            sq_sig_all: state.init.signal_all,
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_qp_data_in_order(_: *mut ibv_qp, _: c_int, _: u32) -> c_int {
    // The bytes of a message are not copied in order: a program that polls the last byte may see it before the other
    // bytes.
    0
}

/// Limits the send rate of a queue pair. The attributes begin with the rate in kbit/s, 0 for no limit.
pub(crate) extern "C" fn modify_qp_rate_limit(qp: Handle<Qp>, attributes: In<u32>) -> c_int {
    status(|| {
        let (state, kbps) = (qp.state(), attributes.read());
        let rate = (kbps > 0).then(|| BitRate::from_bps(u64::from(kbps) * 1_000));
        let limited = qp.context().device.with_verbs(|verbs| verbs.set_rate(state.qpn, rate));
        limited.map_err(refused("ibv_modify_qp_rate_limit"))?;
        trace::line(format_args!("ibv_modify_qp_rate_limit {:#x} to {kbps} kbit/s", state.qpn.0));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_attach_mcast(_: *mut ibv_qp, _: *const ibv_gid, _: u16) -> c_int {
    status(|| {
        trace::line(format_args!("ibv_attach_mcast refused: there is no multicast"));
        Err(libc::EOPNOTSUPP)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_detach_mcast(_: *mut ibv_qp, _: *const ibv_gid, _: u16) -> c_int {
    libc::EOPNOTSUPP
}

/// Refuses the enhanced connection establishment of some vendors: this device has no options.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_set_ece(_: *mut ibv_qp, ece: In<ibv_ece>) -> c_int {
    status(|| if get!(ece.vendor_id) == 0 { Ok(()) } else { Err(libc::EOPNOTSUPP) })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_ece(_: *mut ibv_qp, ece: Out<ibv_ece>) -> c_int {
    ece.write(ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 });
    0
}
