//! Memory windows.

use super::domain::{Domain, Region};
use super::{Address, InContext};
use crate::abi::*;
use crate::error::{Refused, refused};
use crate::trace;
use libc::{c_int, c_uint};
use rnic_cabi::entry::lock;
use rnic_cabi::pointer::Handle;
use rnic_verbs::{Access, Bind, WindowId, WindowKind};

#[repr(C)]
pub(crate) struct Window {
    c: ibv_mw,
    state: WindowState,
}

rnic_cabi::object!(Window { c: ibv_mw, state: WindowState });

pub(crate) struct WindowState {
    pub(crate) id: WindowId,
}

impl Window {
    pub(crate) fn create(pd: Handle<Domain>, kind: c_int) -> Result<Handle<Window>, c_int> {
        let window_kind = match kind {
            IBV_MW_TYPE_1 => WindowKind::Type1,
            IBV_MW_TYPE_2 => WindowKind::Type2,
            _ => {
                trace::line(format_args!("ibv_alloc_mw refused: the type is {kind}; it must be 1 or 2"));
                return Err(libc::EINVAL);
            }
        };
        let (context, id) = (pd.context(), pd.state().id);
        let made = context.device.with_verbs_quietly(|verbs| verbs.allocate_window(id, window_kind));
        let info = made.map_err(refused("ibv_alloc_mw"))?;
        trace::line(format_args!("ibv_alloc_mw of type {kind} = rkey {:#x}", info.rkey));
        let handle = context.handle();
        let c = ibv_mw { context: pd.context_ptr(), pd: pd.as_ptr(), rkey: info.rkey, handle, kind };
        Ok(Handle::create(Window { c, state: WindowState { id: info.id } }))
    }
}

/// The binding of a window to `info`, with the remote key `rkey`.
///
/// # Safety
/// The pointer of the region in `info` is null, or the pointer of a region that exists.
pub(crate) unsafe fn bind(window: Handle<Window>, rkey: u32, info: &ibv_mw_bind_info) -> Result<Bind, Refused> {
    const FLAGS: c_uint = IBV_ACCESS_LOCAL_WRITE
        | IBV_ACCESS_REMOTE_WRITE
        | IBV_ACCESS_REMOTE_READ
        | IBV_ACCESS_REMOTE_ATOMIC
        | IBV_ACCESS_ZERO_BASED;
    let has = |flag| info.mw_access_flags & flag != 0;
    if info.mw_access_flags & !FLAGS != 0 {
        return Err(Refused::Number(libc::EINVAL, "a memory window has remote rights, and may be zero-based"));
    }
    // SAFETY: the caller promises the conditions of this function.
    let region: Option<Handle<Region>> = unsafe { Handle::new_unless_null(info.mr) };
    Ok(Bind {
        window: window.state().id,
        rkey,
        region: region.map(|region| lock(region.state()).id),
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

/// The binding of a window of type 2 in a work request.
///
/// # Safety
/// The pointers of the window, and of the region in `info`, are null or the pointers of objects that exist.
pub(crate) unsafe fn bind_type_2(mw: *mut ibv_mw, rkey: u32, info: &ibv_mw_bind_info) -> Result<Type2, Refused> {
    // SAFETY: the caller promises the conditions of this function.
    let window: Option<Handle<Window>> = unsafe { Handle::new_unless_null(mw) };
    let Some(window) = window.filter(|window| rnic_cabi::get!(window.kind) == IBV_MW_TYPE_2) else {
        return Err(Refused::Number(
            libc::EINVAL,
            "the memory window is not of type 2; use ibv_bind_mw for windows of type 1",
        ));
    };
    // The program chooses the low eight bits of the key; the window keeps the others, as those of NICs do.
    let rkey = rnic_cabi::get!(window.rkey) & !0xff | rkey & 0xff;
    // SAFETY: the caller promises the conditions of this function.
    Ok(Type2 { bind: unsafe { bind(window, rkey, info) }?, window: Address::of(window) })
}

/// The binding of a window of type 2.
pub(crate) struct Type2 {
    pub(crate) bind: Bind,
    /// The window, which exists until the request is posted.
    window: Address,
}

impl Type2 {
    /// Writes the key of the posted binding into the window, where programs read it.
    ///
    /// # Safety
    /// The window exists.
    pub(crate) unsafe fn show_key(&self) {
        // SAFETY: the caller promises the conditions of this function.
        let window: Handle<Window> = unsafe { Handle::new(self.window.as_ptr()) };
        rnic_cabi::set!(window.rkey = self.bind.rkey);
    }
}
