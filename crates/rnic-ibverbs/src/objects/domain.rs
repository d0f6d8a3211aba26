//! Protection domains and memory regions.

use super::InContext;
use super::context::{Context, ContextState};
use crate::abi::*;
use crate::error::refused;
use crate::trace;
use libc::{c_int, c_uint, c_void, size_t};
use rnic_cabi::pointer::Handle;
use rnic_verbs::{Access, ForeignMemory, MrId, MrInfo, Pd, Verbs};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

#[repr(C)]
pub(crate) struct Domain {
    c: ibv_pd,
    state: DomainState,
}

rnic_cabi::object!(Domain { c: ibv_pd, state: DomainState });

pub(crate) struct DomainState {
    pub(crate) id: Pd,
    /// The original domain, if this domain is a parent domain: a parent domain is another name of its original domain.
    inner: Option<InnerDomain>,
    /// Number of address handles in this domain, and of parent domains that are other names of this domain.
    users: AtomicU32,
}

/// The original domain of a parent domain. It exists longer than the parent domain.
struct InnerDomain(Handle<Domain>);

// SAFETY: only the state of the domain is used, which is atomic.
unsafe impl Send for InnerDomain {}
// SAFETY: as above.
unsafe impl Sync for InnerDomain {}

impl DomainState {
    pub(crate) fn add_user(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn remove_user(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn has_users(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// Destroys the domain in the device. If this domain is a parent domain, only releases its original domain.
    pub(crate) fn deallocate(&self, context: &ContextState) -> Result<(), c_int> {
        match &self.inner {
            Some(InnerDomain(inner)) => inner.state().remove_user(),
            None => {
                let destroyed = context.device.with_verbs_quietly(|verbs| verbs.destroy_pd(self.id));
                destroyed.map_err(refused("ibv_dealloc_pd"))?;
            }
        }
        Ok(())
    }
}

impl Domain {
    pub(crate) fn create(context: Handle<Context>) -> Result<Handle<Domain>, c_int> {
        let state = context.state();
        let id = state.device.with_verbs_quietly(Verbs::create_pd).map_err(refused("ibv_alloc_pd"))?;
        let c = ibv_pd { context: context.as_ptr(), handle: state.handle() };
        trace::line(format_args!("ibv_alloc_pd = PD {}", c.handle));
        Ok(Handle::create(Domain { c, state: DomainState { id, inner: None, users: AtomicU32::new(0) } }))
    }

    /// Makes a parent domain, which is only another name of its original domain: this library does not use the
    /// program's allocator, and all threads can use the objects of a domain.
    pub(crate) fn create_parent(context: Handle<Context>, inner: Handle<Domain>) -> Handle<Domain> {
        inner.state().add_user();
        let c = ibv_pd { context: context.as_ptr(), handle: context.state().handle() };
        let of = rnic_cabi::get!(inner.handle);
        trace::line(format_args!("ibv_alloc_parent_domain of PD {of} = PD {}", c.handle));
        let (id, users) = (inner.state().id, AtomicU32::new(0));
        Handle::create(Domain { c, state: DomainState { id, inner: Some(InnerDomain(inner)), users } })
    }
}

#[repr(C)]
pub(crate) struct Region {
    c: ibv_mr,
    state: Mutex<RegionState>,
}

rnic_cabi::object!(Region { c: ibv_mr, state: Mutex<RegionState> });

pub(crate) struct RegionState {
    pub(crate) id: MrId,
    /// The flags with which the region was registered.
    pub(crate) flags: c_uint,
}

/// A range of the program's memory that it registers.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    addr: *mut c_void,
    len: size_t,
}

impl Range {
    /// # Safety
    /// If the memory exists and allows the accesses of the registration, this must not change until the memory is
    /// deregistered. The program must access the memory like memory that a NIC accesses.
    pub(crate) unsafe fn new(addr: *mut c_void, len: size_t) -> Range {
        Range { addr, len }
    }

    /// Checks that the memory exists, as a NIC does when it pins memory; if `written`, also that the memory can be
    /// written.
    pub(crate) fn check(self, written: bool) -> Result<(), c_int> {
        const MADV_POPULATE_READ: c_int = 22;
        const MADV_POPULATE_WRITE: c_int = 23;
        let Range { addr, len } = self;
        if len == 0 {
            return Ok(());
        }
        // SAFETY: `sysconf` has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let start = addr.addr() & !(page - 1);
        let end =
            addr.addr().checked_add(len).and_then(|end| end.checked_next_multiple_of(page)).ok_or(libc::EFAULT)?;
        let start = addr.with_addr(start);
        let advice = if written { MADV_POPULATE_WRITE } else { MADV_POPULATE_READ };
        // SAFETY: populating pages changes no byte of them, and `madvise` refuses addresses that do not exist.
        let populated = unsafe { libc::madvise(start, end - start.addr(), advice) };
        if populated == 0 {
            return Ok(());
        }
        // Kernels before 5.14 do not know the advice. On newer kernels `EINVAL` means that the access rights do not
        // suffice, or that the memory belongs to a device.
        // SAFETY: advice for 0 bytes does nothing.
        let is_known = unsafe { libc::madvise(start, 0, advice) } == 0;
        // SAFETY: `MS_ASYNC` only checks that the memory is mapped.
        if !is_known && unsafe { libc::msync(start, end - start.addr(), libc::MS_ASYNC) } == 0 {
            return Ok(());
        }
        Err(libc::EFAULT)
    }

    /// The memory, for a registration.
    pub(crate) fn memory(self, verb: &str, written: bool) -> Result<ForeignMemory, c_int> {
        let Range { addr, len } = self;
        self.check(written).inspect_err(|_| {
            trace::line(format_args!(
                "{verb} refused: {len} bytes from {addr:p} are not memory that this process can {}",
                if written { "write" } else { "read" }
            ));
        })?;
        // SAFETY: the memory exists, and the promise of `Range::new` holds until it is deregistered. Programs in C have
        // no Rust references to it.
        Ok(unsafe {
            if written { ForeignMemory::new(addr.cast(), len) } else { ForeignMemory::read_only(addr.cast(), len) }
        })
    }
}

/// The access rights of the flags of `ibv_reg_mr` and `ibv_modify_qp`.
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

/// Registers memory with the endpoint's device.
fn register(verb: &str, pd: Handle<Domain>, range: Range, iova: u64, flags: c_uint) -> Result<MrInfo, c_int> {
    let rights = access(flags)?;
    let memory = range.memory(verb, rights.local_write)?;
    let start = if flags & IBV_ACCESS_ZERO_BASED != 0 { 0 } else { iova };
    let id = pd.state().id;
    let device = &pd.context().device;
    let registered = device.with_verbs_quietly(|verbs| verbs.register_foreign(id, memory, Some(start), rights));
    let info = registered.map_err(refused(verb))?;
    trace::line(format_args!(
        "{verb}({:p}, {}, flags {flags:#x}) = lkey {:#x}, rkey {:#x}",
        range.addr, range.len, info.lkey, info.rkey
    ));
    Ok(info)
}

impl Region {
    pub(crate) fn create(
        verb: &str, pd: Handle<Domain>, range: Range, iova: u64, flags: c_uint,
    ) -> Result<Handle<Region>, c_int> {
        let info = register(verb, pd, range, iova, flags)?;
        let c = ibv_mr {
            context: pd.context_ptr(),
            pd: pd.as_ptr(),
            addr: range.addr,
            length: range.len,
            handle: pd.context().handle(),
            lkey: info.lkey,
            rkey: info.rkey,
        };
        Ok(Handle::create(Region { c, state: Mutex::new(RegionState { id: info.id, flags }) }))
    }
}
