//! Verbs for protection domains and memory regions.

use crate::backing::{Backing, Buffer, ForeignMemory, Virtual};
use crate::device::Device;
use crate::memory::{Memory, Spans};
use crate::types::{Access, MrId, MrInfo, Pd, Sge, VerbsError};

/// Why rights do not fit the memory.
const READ_ONLY: &str = "read-only memory admits neither local_write nor remote_write nor remote_atomic";
/// Why rights do not fit each other.
const NEEDS_LOCAL_WRITE: &str = "remote_write and remote_atomic need local_write";

/// Verbs for protection domains and memory regions.
impl Device {
    /// Creates a protection domain, which needs a few bytes of memory. The owner of the device is not limited;
    /// [`Verbs::create_pd`](crate::Verbs::create_pd) is.
    pub fn create_pd(&mut self) -> Pd {
        Pd(self.domains.insert(()))
    }

    /// Creates a protection domain for an application.
    ///
    /// # Errors
    /// If the device has its maximum number of protection domains.
    pub(crate) fn create_limited_pd(&mut self) -> Result<Pd, VerbsError> {
        let limit = self.config.limits.protection_domains;
        if self.domains.len() >= limit as usize {
            return Err(VerbsError::Exhausted { what: "protection domains", limit: limit.into() });
        }
        Ok(self.create_pd())
    }

    /// Destroys a protection domain.
    ///
    /// # Errors
    /// [`VerbsError::Busy`] while a memory region, a memory window, a queue pair or a shared receive queue belongs to
    /// the protection domain.
    pub fn destroy_pd(&mut self, pd: Pd) -> Result<(), VerbsError> {
        let busy = |by| Err(VerbsError::Busy { what: "protection domain", by });
        if self.ctx.memory.has_domain(pd) {
            return busy("a memory region");
        }
        if self.ctx.memory.has_windows_of(pd) {
            return busy("a memory window");
        }
        if self.qps.values().any(|qp| qp.common.pd == pd) {
            return busy("a queue pair");
        }
        if self.ctx.srqs.values().any(|srq| srq.pd == pd) {
            return busy("a shared receive queue");
        }
        self.domains.remove(pd.0).ok_or(VerbsError::Unknown("such protection domain"))
    }

    pub(super) fn domain(&self, pd: Pd) -> Result<(), VerbsError> {
        self.domains.get(pd.0).copied().ok_or(VerbsError::Unknown("such protection domain"))
    }

    /// Registers memory for local and remote access. The device owns the memory until [`Device::deregister`] returns
    /// it.
    ///
    /// `addr` is the virtual address of the first byte, as in the work requests of this side and of the peer. With
    /// `None` the device chooses an address.
    ///
    /// # Errors
    /// If a limit of the device is reached, or the region would not end below 2^64.
    pub fn register(
        &mut self, pd: Pd, bytes: Vec<u8>, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        self.register_backing(pd, Backing::Owned(bytes), addr, access)
    }

    /// Registers a buffer of any type like the vector of [`Device::register`]. The device owns the buffer until
    /// [`Device::deregister_buffer`] returns it.
    ///
    /// # Errors
    /// As [`Device::register`].
    pub fn register_buffer(
        &mut self, pd: Pd, buffer: Box<dyn Buffer>, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        let len = (*buffer).bytes().len();
        self.register_backing(pd, Backing::Held(buffer, len), addr, access)
    }

    /// Registers memory that the application owns. The device accesses the memory until [`Device::deregister`]
    /// returns, or the device is dropped.
    ///
    /// `addr` is the virtual address of the first byte, as in the work requests of this side and of the peer. With
    /// `None` it is the memory's address in this process. The two addresses may differ only by a multiple of 8, so that
    /// an aligned virtual address of an atomic operation is aligned in memory too.
    ///
    /// # Errors
    /// The errors of [`Device::register`]. Also if `access` allows writes to memory that is read-only, or if the
    /// virtual address and the address in this process differ by a number that is not a multiple of 8.
    pub fn register_foreign(
        &mut self, pd: Pd, memory: ForeignMemory, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        let writes = access.local_write || access.remote_write || access.remote_atomic;
        if writes && !memory.is_writable() {
            return Err(VerbsError::Unsupported(READ_ONLY));
        }
        let addr = addr.unwrap_or(memory.addr());
        if !memory.is_empty() && addr % 8 != memory.addr() % 8 {
            let possible = "the memory's own address plus or minus a multiple of 8".into();
            return Err(VerbsError::Range { name: "the address", value: addr, possible });
        }
        self.register_backing(pd, Backing::Foreign(memory), Some(addr), access)
    }

    /// Registers `len` bytes of memory without bytes, for simulations: packets carry the lengths of its data, but the
    /// bytes that a read returns are undefined, and written bytes are discarded. All checks of keys, rights and bounds
    /// apply. Atomics fail.
    ///
    /// # Errors
    /// As [`Device::register`].
    pub fn register_virtual(
        &mut self, pd: Pd, len: u64, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        let possible = || format!("0 to {}", usize::MAX).into();
        let range = |_| VerbsError::Range { name: "the length of virtual memory", value: len, possible: possible() };
        let len = usize::try_from(len).map_err(range)?;
        self.register_backing(pd, Backing::Virtual(Virtual { len, written: None }), addr, access)
    }

    /// Takes the offset and the length of the last write into a region of [`Device::register_virtual`] since the last
    /// call; `None` if there was none, or if the region is no such region. A received packet causes at most one write.
    pub fn take_written(&mut self, id: MrId) -> Option<(u64, u32)> {
        match self.ctx.memory.backing(id)? {
            Backing::Virtual(memory) => memory.written.take(),
            _ => None,
        }
    }

    fn register_backing(
        &mut self, pd: Pd, backing: Backing, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        self.domain(pd)?;
        if (access.remote_write || access.remote_atomic) && !access.local_write {
            return Err(VerbsError::Unsupported(NEEDS_LOCAL_WRITE));
        }
        let limits = self.config.limits;
        if self.ctx.memory.count() >= limits.regions as usize {
            return Err(VerbsError::Exhausted { what: "memory regions", limit: limits.regions.into() });
        }
        if self.ctx.memory.bytes().saturating_add(backing.len() as u64) > limits.bytes {
            return Err(VerbsError::Exhausted { what: "bytes of registered memory", limit: limits.bytes });
        }
        let one_key = self.config.one_key && (access.remote_write || access.remote_read || access.remote_atomic);
        let info = self.ctx.memory.register(pd, backing, addr, access, one_key, &mut self.rng);
        let possible = "low enough for the region to end below 2^64".into();
        info.ok_or(VerbsError::Range { name: "the address", value: addr.unwrap_or(u64::MAX), possible })
    }

    /// Deregisters a memory region. From now on the device does not access the region's memory, and work requests that
    /// still refer to it fail. Returns the region's bytes if the device owned them as a vector; otherwise an empty
    /// vector.
    ///
    /// # Errors
    /// If there is no such region. [`VerbsError::Busy`] while memory windows are bound to it.
    pub fn deregister(&mut self, id: MrId) -> Result<Vec<u8>, VerbsError> {
        match self.take_backing(id)? {
            Backing::Owned(bytes) => Ok(bytes),
            Backing::Held(..) | Backing::Foreign(_) | Backing::Virtual(_) => Ok(Vec::new()),
        }
    }

    /// Deregisters a memory region like [`Device::deregister`], and returns the buffer of
    /// [`Device::register_buffer`]. For a region of another kind it is the vector that [`Device::deregister`] returns.
    ///
    /// # Errors
    /// As [`Device::deregister`].
    pub fn deregister_buffer(&mut self, id: MrId) -> Result<Box<dyn Buffer>, VerbsError> {
        match self.take_backing(id)? {
            Backing::Held(buffer, _) => Ok(buffer),
            Backing::Owned(bytes) => Ok(Box::new(bytes)),
            Backing::Foreign(_) | Backing::Virtual(_) => Ok(Box::new(Vec::new())),
        }
    }

    fn take_backing(&mut self, id: MrId) -> Result<Backing, VerbsError> {
        self.unbound(id)?;
        self.ctx.memory.deregister(id).ok_or(VerbsError::Unknown("such memory region"))
    }

    /// Checks that no memory window is bound to a region.
    fn unbound(&self, id: MrId) -> Result<(), VerbsError> {
        match self.ctx.memory.is_bound(id) {
            true => Err(VerbsError::Busy { what: "memory region", by: "a memory window" }),
            false => Ok(()),
        }
    }

    /// Changes the rights to a memory region. Its keys stay. Packets that arrive from now on need the new rights, as do
    /// work requests that are posted from now on.
    ///
    /// # Errors
    /// If there is no such region, the rights do not fit each other or the memory, or a memory window is bound to it.
    pub fn change_access(&mut self, id: MrId, access: Access) -> Result<(), VerbsError> {
        self.unbound(id)?;
        let writes = access.local_write || access.remote_write || access.remote_atomic;
        match self.backing(id)? {
            Backing::Foreign(memory) if writes && !memory.is_writable() => Err(VerbsError::Unsupported(READ_ONLY)),
            _ if (access.remote_write || access.remote_atomic) && !access.local_write => {
                Err(VerbsError::Unsupported(NEEDS_LOCAL_WRITE))
            }
            _ => {
                self.ctx.memory.change_access(id, access);
                Ok(())
            }
        }
    }

    /// Gives a region of [`Device::register_foreign`] other memory, and other rights or another protection domain, as a
    /// deregistration and a registration would, but the keys stay. The returned handle takes the place of `id`. Work
    /// requests that refer to the old memory fail.
    ///
    /// # Errors
    /// As [`Device::register_foreign`], and while memory windows are bound to the region. Then it is as it was.
    pub fn reregister_foreign(
        &mut self, id: MrId, pd: Pd, memory: ForeignMemory, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        self.backing(id)?;
        self.unbound(id)?;
        let new = self.register_foreign(pd, memory, addr, access)?;
        Ok(self.ctx.memory.take_keys(id, new))
    }

    /// Copies `out.len()` bytes of a memory region into `out`, beginning with the region's byte `offset`. The device or
    /// the application may own the region's memory.
    ///
    /// # Errors
    /// If no region has this handle, or the region ends before the last of these bytes. Then nothing is copied.
    pub fn read_memory(&mut self, id: MrId, offset: usize, out: &mut [u8]) -> Result<(), VerbsError> {
        let backing = self.backing(id)?;
        if let Backing::Virtual(_) = backing {
            out.fill(0);
        }
        Ok(backing.read(offset, out)?)
    }

    /// Copies `data` into a memory region, beginning at the region's byte `offset`. The device or the application may
    /// own the region's memory.
    ///
    /// # Errors
    /// If no region has this handle, the region ends before the last of these bytes, or the region is read-only foreign
    /// memory. Then nothing is copied.
    pub fn write_memory(&mut self, id: MrId, offset: usize, data: &[u8]) -> Result<(), VerbsError> {
        Ok(self.backing(id)?.write(offset, data)?)
    }

    fn backing(&mut self, id: MrId) -> Result<&mut Backing, VerbsError> {
        self.ctx.memory.backing(id).ok_or(VerbsError::Unknown("such memory region"))
    }

    /// Gives a memory region a new remote key. The old remote key is no longer valid. The new key is valid even if a
    /// peer had invalidated the old key.
    ///
    /// # Errors
    /// If there is no such region.
    pub fn rekey(&mut self, id: MrId) -> Result<MrInfo, VerbsError> {
        self.ctx.memory.rekey(id, &mut self.rng).ok_or(VerbsError::Unknown("such memory region"))
    }

    /// The bytes of a memory region that the device owns; `None` for memory of the application, which
    /// [`Device::read_memory`] can read.
    pub fn bytes(&self, id: MrId) -> Option<&[u8]> {
        self.ctx.memory.bytes_of(id)
    }

    /// The bytes of a memory region that the device owns, as a mutable slice; `None` for memory of the application,
    /// which [`Device::write_memory`] can write.
    pub fn bytes_mut(&mut self, id: MrId) -> Option<&mut [u8]> {
        self.ctx.memory.bytes_of_mut(id)
    }

    pub(super) fn check_sges(&self, pd: Pd, sges: &[Sge], max: u32, write: bool) -> Result<Spans, VerbsError> {
        if sges.len() > max as usize {
            return Err(VerbsError::Limit { what: "scatter-gather elements", limit: max.into() });
        }
        match self.ctx.memory.check(pd, sges, write) {
            Ok(spans) => Ok(spans),
            Err(_) if self.config.late_checks => Ok(Memory::unusable(sges)),
            Err((index, why)) => Err(VerbsError::Memory { index, why }),
        }
    }
}
