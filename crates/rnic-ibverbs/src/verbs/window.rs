//! Memory windows.

use crate::abi::*;
use crate::error::refused;
use crate::objects::InContext;
use crate::objects::domain::Domain;
use crate::objects::qp::Qp;
use crate::objects::window::{self, Window};
use crate::objects::work;
use crate::trace;
use libc::c_int;
use rnic_cabi::entry::{object, status};
use rnic_cabi::pointer::{Handle, In};
use rnic_cabi::{get, set};
use rnic_verbs::{Bind, Data, SendOp, SendRequest};

pub(crate) extern "C" fn alloc_mw(pd: Handle<Domain>, kind: c_int) -> *mut ibv_mw {
    object(|| Window::create(pd, kind).map(Handle::as_ptr))
}

pub(crate) extern "C" fn dealloc_mw(mw: Handle<Window>) -> c_int {
    status(|| {
        if mw.context().is_of_parent("ibv_dealloc_mw") {
            return Ok(());
        }
        let id = mw.state().id;
        let removed = mw.context().device.with_verbs_quietly(|verbs| verbs.free_window(id));
        removed.map_err(refused("ibv_dealloc_mw"))?;
        trace::line(format_args!("ibv_dealloc_mw rkey {:#x}", get!(mw.rkey)));
        // SAFETY: the program does not use the window afterwards.
        drop(unsafe { mw.destroy() });
        Ok(())
    })
}

/// Posts the binding of a type 1 window. The window gets a new remote key immediately.
pub(crate) extern "C" fn bind_mw(qp: Handle<Qp>, mw: Handle<Window>, request: In<ibv_mw_bind>) -> c_int {
    status(|| {
        let qpn = qp.state().qpn;
        // SAFETY: the region is null or exists.
        let posted = unsafe { window::bind(mw, 0, &get!(request.bind_info)) }.and_then(|bind| {
            qp.context().device.with_verbs(|verbs| {
                let rkey = verbs.next_window_rkey(mw.state().id)?;
                let bind = Bind { rkey, ..bind };
                let (wr_id, flags) = (get!(request.wr_id), work::flags(get!(request.send_flags)));
                let request = SendRequest { wr_id, op: SendOp::Bind, data: Data::Bind(&bind), flags };
                verbs.post_send(qpn, &request)?;
                Ok(rkey)
            })
        });
        match posted {
            Ok(rkey) => {
                trace::line(format_args!("ibv_bind_mw to QP {:#x} = rkey {rkey:#x}", qpn.0));
                set!(mw.rkey = rkey);
                Ok(())
            }
            Err(why) => {
                trace::line(format_args!("ibv_bind_mw refused: {why}"));
                Err(why.number())
            }
        }
    })
}
