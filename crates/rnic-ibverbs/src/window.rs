//! Memory windows.

use crate::abi::*;
use crate::context;
use crate::domain;
use crate::entry::{object, refused, status};
use crate::post::{self, Refused};
use crate::qp;
use crate::trace;
use libc::{c_int, c_uint};
use rnic_verbs::{Access, Bind, Data, SendOp, SendRequest, WindowId, WindowKind};

/// A memory window.
#[repr(C)]
struct Window {
    c: ibv_mw,
    id: WindowId,
}

pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: c_int) -> *mut ibv_mw {
    object(|| {
        let type_of = match kind {
            IBV_MW_TYPE_1 => WindowKind::Type1,
            IBV_MW_TYPE_2 => WindowKind::Type2,
            _ => {
                trace::line(format_args!("ibv_alloc_mw refused: the type is {kind}; it must be 1 or 2"));
                return Err(libc::EINVAL);
            }
        };
        // SAFETY: by the contract of libibverbs.
        let (context, state, id) = unsafe { ((*pd).context, context::state((*pd).context), domain::id(pd)) };
        let made = state.device.with_verbs_quietly(|verbs| verbs.allocate_window(id, type_of));
        let info = made.map_err(refused("ibv_alloc_mw"))?;
        trace::line(format_args!("ibv_alloc_mw of type {kind} = rkey {:#x}", info.rkey));
        let c = ibv_mw { context, pd, rkey: info.rkey, handle: state.handle(), kind };
        Ok(Box::into_raw(Box::new(Window { c, id: info.id })).cast())
    })
}

pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs the window exists, and the program does not use it any more.
        unsafe {
            let state = context::state((*mw).context);
            if state.is_of_parent("ibv_dealloc_mw") {
                return Ok(());
            }
            let id = (*mw.cast::<Window>()).id;
            let gone = state.device.with_verbs_quietly(|verbs| verbs.free_window(id));
            gone.map_err(refused("ibv_dealloc_mw"))?;
            trace::line(format_args!("ibv_dealloc_mw rkey {:#x}", (*mw).rkey));
            drop(Box::from_raw(mw.cast::<Window>()));
        }
        Ok(())
    })
}

/// The binding of a window to `info`, with the remote key `rkey`.
///
/// # Safety
/// By the contract of libibverbs the window exists, and so does the region unless it is null.
unsafe fn bind(mw: *mut ibv_mw, rkey: u32, info: &ibv_mw_bind_info) -> Result<Bind, Refused> {
    const RIGHTS: c_uint = IBV_ACCESS_LOCAL_WRITE
        | IBV_ACCESS_REMOTE_WRITE
        | IBV_ACCESS_REMOTE_READ
        | IBV_ACCESS_REMOTE_ATOMIC
        | IBV_ACCESS_ZERO_BASED;
    let has = |flag| info.mw_access_flags & flag != 0;
    if info.mw_access_flags & !RIGHTS != 0 {
        return Err(Refused::Number(libc::EINVAL, "a memory window has remote rights, and may be zero-based"));
    }
    // SAFETY: the caller's promise.
    let (window, region) = unsafe {
        let region = if info.mr.is_null() { None } else { Some(domain::region(info.mr)) };
        ((*mw.cast::<Window>()).id, region)
    };
    Ok(Bind {
        window,
        rkey,
        region,
        addr: info.addr,
        len: info.length,
        access: Access {
            remote_write: has(IBV_ACCESS_REMOTE_WRITE),
            remote_read: has(IBV_ACCESS_REMOTE_READ),
            remote_atomic: has(IBV_ACCESS_REMOTE_ATOMIC),
            ..Access::LOCAL_READ
        },
        zero_based: has(IBV_ACCESS_ZERO_BASED),
    })
}

/// The binding of a window of type 2, as work requests have it.
///
/// # Safety
/// As [`bind`].
pub(crate) unsafe fn second_kind(mw: *mut ibv_mw, rkey: u32, info: &ibv_mw_bind_info) -> Result<Bind, Refused> {
    // SAFETY: the caller's promise.
    if mw.is_null() || unsafe { (*mw).kind } != IBV_MW_TYPE_2 {
        return Err(Refused::Number(
            libc::EINVAL,
            "a work request binds a window of type 2; ibv_bind_mw those of type 1",
        ));
    }
    // SAFETY: the caller's promise.
    unsafe { bind(mw, rkey, info) }
}

/// Posts the binding of a window of type 1, which gets a new remote key at once.
pub(crate) unsafe extern "C" fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, request: *mut ibv_mw_bind) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs.
        unsafe {
            let (context, state) = (context::state((*qp).context), qp::state(qp));
            let id = (*mw.cast::<Window>()).id;
            let posted = bind(mw, 0, &(*request).bind_info).and_then(|bind| {
                context.device.with_verbs(|verbs| {
                    let rkey = verbs.next_window_rkey(id)?;
                    let bind = Bind { rkey, ..bind };
                    let (wr_id, flags) = ((*request).wr_id, post::flags((*request).send_flags));
                    let request = SendRequest { wr_id, op: SendOp::Bind, data: Data::Bind(&bind), flags };
                    verbs.post_send(state.qpn, &request)?;
                    Ok(rkey)
                })
            });
            match posted {
                Ok(rkey) => {
                    trace::line(format_args!("ibv_bind_mw to QP {:#x} = rkey {rkey:#x}", state.qpn.0));
                    (*mw).rkey = rkey;
                    Ok(())
                }
                Err(why) => {
                    trace::line(format_args!("ibv_bind_mw refused: {why}"));
                    Err(why.number())
                }
            }
        }
    })
}
