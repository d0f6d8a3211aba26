//! Protection domains and memory regions.

use crate::abi::*;
use crate::context;
use crate::entry::{entry, object, refused, status};
use crate::trace;
use libc::{c_int, c_uint, c_void, size_t};
use rnic_verbs::{Access, ForeignMemory, MrId, MrInfo, Pd};
use std::sync::atomic::{AtomicU32, Ordering};

/// A protection domain.
#[repr(C)]
struct Domain {
    c: ibv_pd,
    id: Pd,
    /// The domain of which this is another name (a parent domain); null otherwise.
    of: *mut ibv_pd,
    /// Number of parent domains that are other names of this one, and of address handles.
    users: AtomicU32,
}

/// Notes that there is an address handle more of this domain, or one less.
///
/// # Safety
/// The pointer is that of a domain of this library which is not deallocated.
pub(crate) unsafe fn count_user(pd: *mut ibv_pd, more: bool) {
    // SAFETY: the caller's promise.
    let users = unsafe { &(*pd.cast::<Domain>()).users };
    if more {
        users.fetch_add(1, Ordering::AcqRel)
    } else {
        users.fetch_sub(1, Ordering::AcqRel)
    };
}

/// The number of a protection domain.
///
/// # Safety
/// The pointer is that of a domain of this library which is not deallocated.
pub(crate) unsafe fn id(pd: *mut ibv_pd) -> Pd {
    // SAFETY: by the contract of libibverbs.
    unsafe { (*pd.cast::<Domain>()).id }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    object(|| {
        // SAFETY: by the contract of libibverbs.
        let state = unsafe { context::state(context) };
        let id = state.device.with_verbs_quietly(rnic_verbs::Device::create_pd);
        let c = ibv_pd { context, handle: state.handle() };
        trace::line(format_args!("ibv_alloc_pd = PD {}", c.handle));
        let domain = Domain { c, id, of: std::ptr::null_mut(), users: AtomicU32::new(0) };
        Ok(Box::into_raw(Box::new(domain)).cast())
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    status(|| {
        let domain = pd.cast::<Domain>();
        // SAFETY: by the contract of libibverbs the domain exists.
        unsafe {
            if context::state((*pd).context).is_of_parent("ibv_dealloc_pd") {
                return Ok(());
            }
            if (*domain).users.load(Ordering::Acquire) > 0 {
                trace::line(format_args!("ibv_dealloc_pd refused: it has address handles or parent domains"));
                return Err(libc::EBUSY);
            }
            let handle = (*pd).handle;
            if (*domain).of.is_null() {
                let state = context::state((*pd).context);
                let destroyed = state.device.with_verbs_quietly(|verbs| verbs.destroy_pd((*domain).id));
                destroyed.map_err(refused("ibv_dealloc_pd"))?;
            } else {
                (*(*domain).of.cast::<Domain>()).users.fetch_sub(1, Ordering::AcqRel);
            }
            trace::line(format_args!("ibv_dealloc_pd PD {handle}"));
            // It was made by `Box::into_raw`, and the program does not use it any more.
            drop(Box::from_raw(domain));
        }
        Ok(())
    })
}

/// A parent domain is another name of its domain: this library needs no allocator of the program, and its objects can
/// be used by all threads.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context, attributes: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    object(|| {
        // SAFETY: by the contract of libibverbs the attributes are valid, and the domain exists.
        unsafe {
            let of = (*attributes).pd;
            if of.is_null() || (*attributes).comp_mask & !3 != 0 {
                return Err(libc::EINVAL);
            }
            let inner = of.cast::<Domain>();
            (*inner).users.fetch_add(1, Ordering::AcqRel);
            let c = ibv_pd { context, handle: context::state(context).handle() };
            trace::line(format_args!("ibv_alloc_parent_domain of PD {} = PD {}", (*of).handle, c.handle));
            Ok(Box::into_raw(Box::new(Domain { c, id: (*inner).id, of, users: AtomicU32::new(0) })).cast())
        }
    })
}

pub(crate) unsafe extern "C" fn alloc_td(context: *mut ibv_context, attributes: *mut u32) -> *mut ibv_td {
    object(|| {
        // SAFETY: by the contract of libibverbs.
        if unsafe { *attributes } != 0 {
            return Err(libc::EINVAL);
        }
        Ok(Box::into_raw(Box::new(ibv_td { context })))
    })
}

pub(crate) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    // SAFETY: it was made by `Box::into_raw`, and the program does not use it any more.
    drop(unsafe { Box::from_raw(td) });
    0
}

/// A memory region.
#[repr(C)]
struct Region {
    c: ibv_mr,
    id: MrId,
    access: c_uint,
}

/// The endpoint's handle of a memory region.
///
/// # Safety
/// The pointer is that of a region of this library which is not deregistered.
pub(crate) unsafe fn region(mr: *mut ibv_mr) -> MrId {
    // SAFETY: the caller's promise.
    unsafe { (*mr.cast::<Region>()).id }
}

/// The rights that the flags of `ibv_reg_mr` and `ibv_modify_qp` give.
///
/// # Errors
/// `EINVAL` for unknown flags, `EOPNOTSUPP` for on-demand paging.
pub(crate) fn access(flags: c_uint) -> Result<Access, c_int> {
    let known = IBV_ACCESS_LOCAL_WRITE
        | IBV_ACCESS_REMOTE_WRITE
        | IBV_ACCESS_REMOTE_READ
        | IBV_ACCESS_REMOTE_ATOMIC
        | IBV_ACCESS_MW_BIND
        | IBV_ACCESS_ZERO_BASED
        | IBV_ACCESS_HUGETLB
        | IBV_ACCESS_OPTIONAL_RANGE;
    if flags & IBV_ACCESS_ON_DEMAND != 0 {
        trace::line(format_args!("refused: there is no on-demand paging; all memory of a region must exist"));
        return Err(libc::EOPNOTSUPP);
    }
    if flags & !known != 0 {
        return Err(libc::EINVAL);
    }
    let has = |flag| flags & flag != 0;
    Ok(Access {
        local_write: has(IBV_ACCESS_LOCAL_WRITE),
        remote_write: has(IBV_ACCESS_REMOTE_WRITE),
        remote_read: has(IBV_ACCESS_REMOTE_READ),
        remote_atomic: has(IBV_ACCESS_REMOTE_ATOMIC),
        remote_invalidate: true,
        bind_window: has(IBV_ACCESS_MW_BIND),
    })
}

/// Makes sure that the memory exists, as a NIC does that pins it, and that it can be written if it will be.
fn check_memory(addr: *mut c_void, len: usize, written: bool) -> Result<(), c_int> {
    const MADV_POPULATE_READ: c_int = 22;
    const MADV_POPULATE_WRITE: c_int = 23;
    if len == 0 {
        return Ok(());
    }
    // SAFETY: `sysconf` has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = addr.addr() & !(page - 1);
    let end = addr.addr().checked_add(len).and_then(|end| end.checked_next_multiple_of(page)).ok_or(libc::EFAULT)?;
    let start = addr.with_addr(start);
    let advice = if written { MADV_POPULATE_WRITE } else { MADV_POPULATE_READ };
    // SAFETY: populating pages changes no byte of them, and `madvise` refuses addresses that do not exist.
    let populated = unsafe { libc::madvise(start, end - start.addr(), advice) };
    if populated == 0 {
        return Ok(());
    }
    // Kernels before 5.14 do not know the advice. On others `EINVAL` says that the rights to the memory do not suffice,
    // or that it is memory of a device.
    // SAFETY: advice for 0 bytes does nothing.
    let is_known = unsafe { libc::madvise(start, 0, advice) } == 0;
    // SAFETY: `MS_ASYNC` does nothing but to check that the memory is mapped.
    if !is_known && unsafe { libc::msync(start, end - start.addr(), libc::MS_ASYNC) } == 0 {
        return Ok(());
    }
    Err(libc::EFAULT)
}

/// Memory of the program, for a registration.
unsafe fn memory(verb: &str, addr: *mut c_void, len: size_t, written: bool) -> Result<ForeignMemory, c_int> {
    check_memory(addr, len, written).inspect_err(|_| {
        trace::line(format_args!(
            "{verb} refused: {len} bytes from {addr:p} are not memory that this process can {}",
            if written { "write" } else { "read" }
        ));
    })?;
    // SAFETY: by the contract of libibverbs the memory stays valid until it is deregistered, and the program treats it
    // as memory that a NIC accesses. Programs in C have no Rust references to it.
    Ok(unsafe {
        if written { ForeignMemory::new(addr.cast(), len) } else { ForeignMemory::read_only(addr.cast(), len) }
    })
}

/// Registers memory with the endpoint's device.
unsafe fn register(
    verb: &str, pd: *mut ibv_pd, addr: *mut c_void, len: size_t, iova: u64, flags: c_uint,
) -> Result<MrInfo, c_int> {
    let rights = access(flags)?;
    // SAFETY: the caller's promise.
    let memory = unsafe { memory(verb, addr, len, rights.local_write) }?;
    let start = if flags & IBV_ACCESS_ZERO_BASED != 0 { 0 } else { iova };
    // SAFETY: by the contract of libibverbs.
    let (state, id) = unsafe { (context::state((*pd).context), id(pd)) };
    let registered = state.device.with_verbs_quietly(|verbs| verbs.register_foreign(id, memory, Some(start), rights));
    let info = registered.map_err(refused(verb))?;
    trace::line(format_args!(
        "{verb}({addr:p}, {len}, flags {flags:#x}) = lkey {:#x}, rkey {:#x}",
        info.lkey, info.rkey
    ));
    Ok(info)
}

unsafe fn new_region(
    verb: &str, pd: *mut ibv_pd, addr: *mut c_void, len: size_t, iova: u64, flags: c_uint,
) -> Result<*mut ibv_mr, c_int> {
    // SAFETY: by the contract of libibverbs.
    unsafe {
        let info = register(verb, pd, addr, len, iova, flags)?;
        let context = (*pd).context;
        let handle = context::state(context).handle();
        let c = ibv_mr { context, pd, addr, length: len, handle, lkey: info.lkey, rkey: info.rkey };
        Ok(Box::into_raw(Box::new(Region { c, id: info.id, access: flags })).cast())
    }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, len: size_t, flags: c_int) -> *mut ibv_mr {
    let iova = addr.addr() as u64;
    // SAFETY: by the contract of libibverbs.
    object(|| unsafe { new_region("ibv_reg_mr", pd, addr, len, iova, flags as c_uint) })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd, addr: *mut c_void, len: size_t, iova: u64, flags: c_int,
) -> *mut ibv_mr {
    // SAFETY: by the contract of libibverbs.
    object(|| unsafe { new_region("ibv_reg_mr_iova", pd, addr, len, iova, flags as c_uint) })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd, addr: *mut c_void, len: size_t, iova: u64, flags: c_uint,
) -> *mut ibv_mr {
    // SAFETY: by the contract of libibverbs.
    object(|| unsafe { new_region("ibv_reg_mr_iova2", pd, addr, len, iova, flags) })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_dmabuf_mr(
    _: *mut ibv_pd, _: u64, _: size_t, _: u64, _: c_int, _: c_int,
) -> *mut ibv_mr {
    object(|| {
        trace::line(format_args!("ibv_reg_dmabuf_mr refused: memory of another device cannot be registered"));
        Err(libc::EOPNOTSUPP)
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr, flags: c_int, pd: *mut ibv_pd, addr: *mut c_void, len: size_t, access: c_int,
) -> c_int {
    /// The region is as it was.
    const INVALID: c_int = -1;
    entry(INVALID, || {
        // SAFETY: by the contract of libibverbs.
        match unsafe { reregister(mr.cast(), flags, pd, addr, len, access as c_uint) } {
            Ok(()) => {
                trace::line(format_args!("ibv_rereg_mr, flags {flags:#x}"));
                0
            }
            Err(error) => {
                trace::line(format_args!("ibv_rereg_mr refused: error {error}"));
                crate::entry::set_errno(error);
                INVALID
            }
        }
    })
}

/// Changes a region. Its keys stay. After an error it is as it was.
///
/// # Safety
/// By the contract of libibverbs the region exists, and the arguments that the flags name are valid.
unsafe fn reregister(
    region: *mut Region, flags: c_int, pd: *mut ibv_pd, addr: *mut c_void, len: size_t, new_access: c_uint,
) -> Result<(), c_int> {
    const TRANSLATION: c_int = 1;
    const DOMAIN: c_int = 1 << 1;
    const ACCESS: c_int = 1 << 2;
    const VERB: &str = "ibv_rereg_mr";
    if flags & !(TRANSLATION | DOMAIN | ACCESS) != 0 || flags & TRANSLATION != 0 && (addr.is_null() || len == 0) {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's promise.
    unsafe {
        let mr = &raw mut (*region).c;
        let state = context::state((*mr).context);
        let flags_now = if flags & ACCESS != 0 { new_access } else { (*region).access };
        let rights = access(flags_now)?;
        // Memory that was registered for reading only is registered anew for writing.
        let gains = rights.local_write && (*region).access & IBV_ACCESS_LOCAL_WRITE == 0;
        if flags & (TRANSLATION | DOMAIN) == 0 && !gains {
            check_memory((*mr).addr, (*mr).length, rights.local_write)?;
            let changed = state.device.with_verbs_quietly(|verbs| verbs.change_access((*region).id, rights));
            changed.map_err(refused(VERB))?;
        } else {
            let pd = if flags & DOMAIN != 0 { pd } else { (*mr).pd };
            let (addr, len) = if flags & TRANSLATION != 0 { (addr, len) } else { ((*mr).addr, (*mr).length) };
            let memory = memory(VERB, addr, len, rights.local_write)?;
            let (old, domain, start) = ((*region).id, id(pd), addr.addr() as u64);
            let again = state
                .device
                .with_verbs_quietly(|verbs| verbs.reregister_foreign(old, domain, memory, Some(start), rights));
            (*region).id = again.map_err(refused(VERB))?.id;
            ((*mr).pd, (*mr).addr, (*mr).length) = (pd, addr, len);
        }
        (*region).access = flags_now;
    }
    Ok(())
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs the region exists, and the program does not use it any more.
        unsafe {
            let state = context::state((*mr).context);
            if state.is_of_parent("ibv_dereg_mr") {
                return Ok(());
            }
            let id = (*mr.cast::<Region>()).id;
            // Afterwards nothing accesses the memory: the device looks every access up under its lock.
            let gone = state.device.with_verbs_quietly(|verbs| verbs.deregister(id));
            gone.map_err(refused("ibv_dereg_mr"))?;
            trace::line(format_args!("ibv_dereg_mr lkey {:#x}", (*mr).lkey));
            drop(Box::from_raw(mr.cast::<Region>()));
        }
        Ok(())
    })
}

/// Advice concerns on-demand paging, which does not exist.
pub(crate) unsafe extern "C" fn advise_mr(_: *mut ibv_pd, _: c_int, _: u32, _: *mut ibv_sge, _: u32) -> c_int {
    trace::line(format_args!("ibv_advise_mr refused: there is no on-demand paging"));
    libc::EOPNOTSUPP
}
