//! Protection domains and memory regions.

use crate::abi::*;
use crate::error::refused;
use crate::objects::InContext;
use crate::objects::context::Context;
use crate::objects::domain::{Domain, Range, Region, access};
use crate::trace;
use libc::{c_int, c_uint, c_void, size_t};
use rnic_cabi::entry::{entry, lock, object, set_errno, status};
use rnic_cabi::pointer::{Handle, In};
use rnic_cabi::{get, set};

#[unsafe(no_mangle)]
pub extern "C" fn ibv_alloc_pd(context: Handle<Context>) -> *mut ibv_pd {
    object(|| Domain::create(context).map(Handle::as_ptr))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_dealloc_pd(pd: Handle<Domain>) -> c_int {
    status(|| {
        if pd.context().is_of_parent("ibv_dealloc_pd") {
            return Ok(());
        }
        if pd.state().has_users() {
            trace::line(format_args!("ibv_dealloc_pd refused: it has address handles or parent domains"));
            return Err(libc::EBUSY);
        }
        pd.state().deallocate(pd.context())?;
        trace::line(format_args!("ibv_dealloc_pd PD {}", get!(pd.handle)));
        // SAFETY: the program does not use the domain afterwards, and no object of this library does.
        drop(unsafe { pd.destroy() });
        Ok(())
    })
}

pub(crate) extern "C" fn alloc_parent_domain(
    context: Handle<Context>, attributes: In<ibv_parent_domain_init_attr>,
) -> *mut ibv_pd {
    object(|| {
        // SAFETY: the domain is null or exists.
        let inner = unsafe { Handle::new_unless_null(get!(attributes.pd)) };
        match inner {
            Some(inner) if get!(attributes.comp_mask) & !3 == 0 => Ok(Domain::create_parent(context, inner).as_ptr()),
            _ => Err(libc::EINVAL),
        }
    })
}

pub(crate) extern "C" fn alloc_td(context: Handle<Context>, attributes: In<u32>) -> *mut ibv_td {
    object(|| {
        if attributes.read() != 0 {
            return Err(libc::EINVAL);
        }
        Ok(Box::into_raw(Box::new(ibv_td { context: context.as_ptr() })))
    })
}

/// # Safety
/// [`alloc_td`] has returned the thread domain, and it was not deallocated.
pub(crate) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    // SAFETY: `alloc_td` made it by `Box::into_raw`.
    drop(unsafe { Box::from_raw(td) });
    0
}

fn register(verb: &str, pd: Handle<Domain>, addr: *mut c_void, len: size_t, iova: u64, flags: c_uint) -> *mut ibv_mr {
    // SAFETY: the program registers the memory, so it keeps the memory until it deregisters it.
    let range = unsafe { Range::new(addr, len) };
    object(|| Region::create(verb, pd, range, iova, flags).map(Handle::as_ptr))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_reg_mr(pd: Handle<Domain>, addr: *mut c_void, len: size_t, flags: c_int) -> *mut ibv_mr {
    register("ibv_reg_mr", pd, addr, len, addr.addr() as u64, flags as c_uint)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_reg_mr_iova(
    pd: Handle<Domain>, addr: *mut c_void, len: size_t, iova: u64, flags: c_int,
) -> *mut ibv_mr {
    register("ibv_reg_mr_iova", pd, addr, len, iova, flags as c_uint)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_reg_mr_iova2(
    pd: Handle<Domain>, addr: *mut c_void, len: size_t, iova: u64, flags: c_uint,
) -> *mut ibv_mr {
    register("ibv_reg_mr_iova2", pd, addr, len, iova, flags)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_reg_dmabuf_mr(_: *mut ibv_pd, _: u64, _: size_t, _: u64, _: c_int, _: c_int) -> *mut ibv_mr {
    object(|| {
        trace::line(format_args!("ibv_reg_dmabuf_mr refused: memory of another device cannot be registered"));
        Err(libc::EOPNOTSUPP)
    })
}

/// Flags of `ibv_rereg_mr`: which attributes of the region change.
const CHANGE_TRANSLATION: c_int = 1;
const CHANGE_DOMAIN: c_int = 1 << 1;
const CHANGE_ACCESS: c_int = 1 << 2;

#[unsafe(no_mangle)]
pub extern "C" fn ibv_rereg_mr(
    mr: Handle<Region>, flags: c_int, pd: *mut ibv_pd, addr: *mut c_void, len: size_t, access: c_int,
) -> c_int {
    /// The return values of a failed call: `INPUT` if libibverbs itself has found the mistake, `COMMAND` if the device
    /// has. This library leaves the region unchanged in both cases; with other libraries the region cannot be used
    /// after a failed command.
    const INPUT: c_int = -1;
    const COMMAND: c_int = -4;
    entry(COMMAND, || {
        let fail = |error, result| {
            trace::line(format_args!("ibv_rereg_mr refused: error {error}"));
            set_errno(error);
            result
        };
        let lacks_memory = flags & CHANGE_TRANSLATION != 0 && (addr.is_null() || len == 0);
        let unknown = flags & !(CHANGE_TRANSLATION | CHANGE_DOMAIN | CHANGE_ACCESS) != 0;
        if unknown || lacks_memory || access != 0 && flags & CHANGE_ACCESS == 0 {
            return fail(libc::EINVAL, INPUT);
        }
        let new_pd = if flags & CHANGE_DOMAIN != 0 { pd } else { get!(mr.pd) };
        // SAFETY: the region's domain exists, and so does the domain that the program passes with this flag.
        let pd = unsafe { Handle::new(new_pd) };
        match reregister(mr, flags, pd, (addr, len), access as c_uint) {
            Ok(()) => {
                trace::line(format_args!("ibv_rereg_mr, flags {flags:#x}"));
                0
            }
            Err(error) => fail(error, COMMAND),
        }
    })
}

/// Changes a region. The keys of the region stay the same. After an error, the region is unchanged.
fn reregister(
    mr: Handle<Region>, flags: c_int, pd: Handle<Domain>, new_memory: (*mut c_void, size_t), new_access: c_uint,
) -> Result<(), c_int> {
    const VERB: &str = "ibv_rereg_mr";
    let device = &mr.context().device;
    let mut region = lock(mr.state());
    let region_flags = if flags & CHANGE_ACCESS != 0 { new_access } else { region.flags };
    let rights = access(region_flags)?;
    let (addr, len) = if flags & CHANGE_TRANSLATION != 0 { new_memory } else { (get!(mr.addr), get!(mr.length)) };
    // SAFETY: the program keeps the memory of the region until it deregisters the region or changes its memory.
    let range = unsafe { Range::new(addr, len) };
    // Memory that was registered for reading only must be registered again for writing.
    let gains_writing = rights.local_write && region.flags & IBV_ACCESS_LOCAL_WRITE == 0;
    if flags & (CHANGE_TRANSLATION | CHANGE_DOMAIN) == 0 && !gains_writing {
        range.check(rights.local_write)?;
        let changed = device.with_verbs_quietly(|verbs| verbs.change_access(region.id, rights));
        changed.map_err(refused(VERB))?;
    } else {
        let memory = range.memory(VERB, rights.local_write)?;
        let (id, domain, start) = (region.id, pd.state().id, addr.addr() as u64);
        let registered =
            device.with_verbs_quietly(|verbs| verbs.reregister_foreign(id, domain, memory, Some(start), rights));
        region.id = registered.map_err(refused(VERB))?.id;
        set!(mr.pd = pd.as_ptr());
        set!(mr.addr = addr);
        set!(mr.length = len);
    }
    region.flags = region_flags;
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_dereg_mr(mr: Handle<Region>) -> c_int {
    status(|| {
        if mr.context().is_of_parent("ibv_dereg_mr") {
            return Ok(());
        }
        let id = lock(mr.state()).id;
        // After this call no packet accesses the memory: the device looks up the region of every access under its lock.
        let removed = mr.context().device.with_verbs_quietly(|verbs| verbs.deregister(id));
        removed.map_err(refused("ibv_dereg_mr"))?;
        trace::line(format_args!("ibv_dereg_mr lkey {:#x}", get!(mr.lkey)));
        // SAFETY: the program does not use the region afterwards.
        drop(unsafe { mr.destroy() });
        Ok(())
    })
}

/// Refuses advice, which concerns on-demand paging.
pub(crate) extern "C" fn advise_mr(_: *mut ibv_pd, _: c_int, _: u32, _: *mut ibv_sge, _: u32) -> c_int {
    trace::line(format_args!("ibv_advise_mr refused: there is no on-demand paging"));
    libc::EOPNOTSUPP
}
