//! Protection domains and memory regions of a device.

use super::queue_pair::{Identity, QpInner, SrqInner};
use super::{Device, Error, QpOptions, QueuePair, SharedReceiveQueue};
use crate::memory::SharedMemory;
use crate::sync::lock;
use rnic_verbs::{Access, AccessError, Buffer, ForeignMemory, MrInfo, Pd, QpInit, Sge, VerbsError};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) struct DomainInner {
    pub(crate) device: Device,
    pub(crate) id: Pd,
}

impl Drop for DomainInner {
    fn drop(&mut self) {
        // Each object of the protection domain keeps the domain alive, so the domain has no objects now and can be
        // destroyed.
        let _ = self.device.shared().verbs().destroy_pd(self.id);
    }
}

/// A protection domain: queue pairs access only memory regions of their own protection domain.
#[derive(Clone)]
pub struct ProtectionDomain(pub(crate) Arc<DomainInner>);

/// Allocates `len` zero bytes for a memory region. Unlike `vec![0; len]` it fails with an error if the system has no
/// memory for them, and the system has provided all of the memory when it returns.
///
/// # Errors
/// [`NoMemory`](rnic_verbs::VerbsError::NoMemory).
pub fn zeroed(len: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let failed = |_| VerbsError::NoMemory { what: "memory region", bytes: len as u64 };
    bytes.try_reserve_exact(len).map_err(failed)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

impl ProtectionDomain {
    /// Registers `len` zero bytes ([`zeroed`]).
    ///
    /// # Errors
    /// [`NoMemory`](rnic_verbs::VerbsError::NoMemory), or a limit of the device is reached.
    pub fn allocate(&self, len: usize, access: Access) -> Result<MemoryRegion, Error> {
        self.register(zeroed(len)?, access)
    }

    /// Registers `bytes` as a memory region with the rights `access`. The device owns the bytes until
    /// [`MemoryRegion::into_bytes`] returns them.
    ///
    /// # Errors
    /// When a limit of the device is reached.
    pub fn register(&self, bytes: Vec<u8>, access: Access) -> Result<MemoryRegion, Error> {
        let info = self.0.device.shared().verbs().register(self.0.id, bytes, None, access)?;
        Ok(MemoryRegion::new(self, info))
    }

    /// Registers a buffer of any type that lends its bytes, such as a `Box<[u8]>`, or a private memory map, which can
    /// have huge pages. The device owns the buffer until [`MemoryRegion::into_buffer`] returns it. While the device
    /// borrows the bytes it is locked, so the buffer's `as_ref` and `as_mut` must not use the device.
    ///
    /// ```
    /// use memmap2::{Advice, MmapOptions};
    /// use rnic_endpoint::{Access, Config, Device};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::open_at("127.0.0.1:0".parse()?, Config::default())?;
    /// let map = MmapOptions::new().len(4 << 20).map_anon()?;
    /// // With transparent huge pages, if the system has any left.
    /// let _ = map.advise(Advice::HugePage);
    /// let region = device.protection_domain().register_buffer(map, Access::ALL)?;
    /// region.with_mut(|bytes| bytes[0] = 1);
    /// let map = region.into_buffer()?;
    /// assert_eq!(map[..2], [1, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When a limit of the device is reached. In this case the buffer is dropped.
    pub fn register_buffer<M: Buffer>(&self, buffer: M, access: Access) -> Result<MemoryRegion<Held<M>>, Error> {
        let registered = self.0.device.shared().verbs().register_buffer(self.0.id, Box::new(buffer), None, access);
        Ok(MemoryRegion::new(self, registered?))
    }

    /// Registers memory that other processes share. The address of the region is the address of a new map in this
    /// process, which ends when the region is dropped. [`MemoryRegion::read`] and [`MemoryRegion::write`] access the
    /// bytes.
    ///
    /// ```
    /// use rnic_endpoint::{Access, Config, Device, Pages, SharedMemory};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let device = Device::open_at("127.0.0.1:0".parse()?, Config::default())?;
    /// let memory = SharedMemory::create(1 << 20, Pages::Usual)?;
    /// let region = device.protection_domain().register_shared(&memory, Access::ALL)?;
    /// region.write(0, b"hello")?;
    /// // A process that gets the file descriptor of `memory` opens it with `SharedMemory::open`, and registers it with
    /// // a device of its own, or reads the file.
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When a limit of the device is reached, or the process cannot map the memory.
    pub fn register_shared(&self, memory: &SharedMemory, access: Access) -> Result<MemoryRegion<Foreign>, Error> {
        self.register_foreign(memory.map()?, access)
    }

    /// Registers memory that the application continues to own. The address of the region is the memory's own address.
    /// The device accesses the memory until the region is dropped.
    ///
    /// The caller's promises to the unsafe function [`ForeignMemory::new`], for example that the memory stays
    /// allocated, must hold until the region is dropped. A region that is leaked, for example by `std::mem::forget`, is
    /// never dropped, so the promises must hold for ever.
    ///
    /// # Errors
    /// When a limit of the device is reached, or `access` admits writes to memory that is read-only.
    pub fn register_foreign(&self, memory: ForeignMemory, access: Access) -> Result<MemoryRegion<Foreign>, Error> {
        let info = self.0.device.shared().verbs().register_foreign(self.0.id, memory, None, access)?;
        Ok(MemoryRegion::new(self, info))
    }

    /// Creates a shared receive queue that holds up to `capacity` receives, each with up to `max_sge` scatter-gather
    /// elements.
    ///
    /// # Errors
    /// When a limit of the device is reached.
    pub fn shared_receive_queue(&self, capacity: u32, max_sge: u32) -> Result<SharedReceiveQueue, Error> {
        let id = self.0.device.shared().verbs().create_srq(self.0.id, capacity, max_sge)?;
        Ok(SharedReceiveQueue(Arc::new(SrqInner { domain: self.clone(), id })))
    }

    /// Creates a queue pair in the state INIT. [`QueuePair::connect`] connects it to a peer;
    /// [`QueuePair::open_datagrams`] makes a UD queue pair ready.
    ///
    /// # Errors
    /// When a limit of the device is reached. For a UD queue pair also if the device protects packets.
    pub fn queue_pair(&self, options: &QpOptions) -> Result<QueuePair, Error> {
        let init = QpInit {
            service: options.service,
            send_cq: options.send_cq.0.id,
            recv_cq: options.recv_cq.0.id,
            srq: options.srq.as_ref().map(|srq| srq.0.id),
            capacities: options.capacities,
            signal_all: options.signal_all,
        };
        let shared = self.0.device.shared();
        shared.admits(options.service)?;
        let mut verbs = shared.verbs();
        let qpn = verbs.create_qp(self.0.id, init)?;
        let ready = match &options.congestion {
            Some(congestion) => verbs.set_congestion(qpn, congestion.clone()),
            None => Ok(()),
        }
        .and_then(|()| verbs.to_init(qpn, options.access));
        if let Err(why) = ready {
            verbs.destroy_qp(qpn)?;
            return Err(why.into());
        }
        drop(verbs);
        let identity = match Identity::new(shared, qpn) {
            Ok(identity) => Mutex::new(identity),
            Err(why) => {
                shared.verbs().destroy_qp(qpn)?;
                return Err(why);
            }
        };
        Ok(QueuePair(Arc::new(QpInner { domain: self.clone(), options: options.clone(), qpn, identity })))
    }

    /// The device to which the protection domain belongs.
    pub fn device(&self) -> &Device {
        &self.0.device
    }
}

/// Type parameter of a [`MemoryRegion`] whose bytes the device owns ([`ProtectionDomain::register`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owned;

/// Type parameter of a [`MemoryRegion`] whose bytes are in a buffer of type `M`, which the device owns
/// ([`ProtectionDomain::register_buffer`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held<M>(PhantomData<fn() -> M>);

/// The regions whose bytes the device owns: [`Owned`] and [`Held`]. Their bytes can be lent
/// ([`MemoryRegion::with`]).
pub trait Lends: private::Sealed {}

impl Lends for Owned {}
impl<M> Lends for Held<M> {}

mod private {
    pub trait Sealed {}
    impl Sealed for super::Owned {}
    impl<M> Sealed for super::Held<M> {}
}

/// Type parameter of a [`MemoryRegion`] whose bytes the application owns ([`ProtectionDomain::register_foreign`]), or
/// several processes ([`ProtectionDomain::register_shared`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreign;

/// A memory region: registered memory that work requests and the peer's RDMA operations can access. Deregistering it
/// ends the bindings of memory windows to it. The documentation
/// of [`crate::device`] says who owns the bytes.
///
/// ```
/// # use rnic_endpoint::{Access, Config, Device};
/// # fn main() -> Result<(), rnic_endpoint::Error> {
/// let device = Device::open_at("127.0.0.1:0".parse().unwrap(), Config::default())?;
/// let region = device.protection_domain().register(vec![0; 4_096], Access::ALL)?;
/// region.write(100, b"hello")?;
/// let sge = region.slice(100, 5)?; // for a work request
/// let mut copy = [0; 5];
/// region.read(100, &mut copy)?;
/// assert_eq!((sge.len, &copy), (5, b"hello"));
/// assert_eq!(region.into_bytes().len(), 4_096);
/// # Ok(())
/// # }
/// ```
pub struct MemoryRegion<B = Owned> {
    domain: ProtectionDomain,
    info: Mutex<MrInfo>,
    backing: PhantomData<fn() -> B>,
}

impl<B> MemoryRegion<B> {
    fn new(domain: &ProtectionDomain, info: MrInfo) -> MemoryRegion<B> {
        MemoryRegion { domain: domain.clone(), info: Mutex::new(info), backing: PhantomData }
    }

    pub(crate) fn info(&self) -> MrInfo {
        *lock(&self.info)
    }

    fn verbs(&self) -> MutexGuard<'_, rnic_verbs::Device> {
        self.domain.0.device.shared().verbs()
    }

    /// The address of the region's first byte. In work requests of both ends, the address of byte n of the region is
    /// this address plus n.
    pub fn addr(&self) -> u64 {
        self.info().addr
    }

    /// The remote key (rkey), which the peer must give in RDMA Writes, RDMA Reads and atomics on this region.
    pub fn rkey(&self) -> u32 {
        self.info().rkey
    }

    /// Length of the region in bytes.
    pub fn len(&self) -> usize {
        self.info().len as usize
    }

    /// Whether the region has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the scatter-gather element for `len` bytes of the region from byte `start` on.
    ///
    /// # Errors
    /// If these bytes are not within the region, or `len` is more than 2^32 - 1.
    pub fn slice(&self, start: usize, len: usize) -> Result<Sge, Error> {
        let info = self.info();
        match u32::try_from(len) {
            Ok(short) if start.checked_add(len).is_some_and(|end| end as u64 <= info.len) => {
                Ok(Sge { addr: info.addr + start as u64, len: short, lkey: info.lkey })
            }
            _ => Err(Error::Range { start, end: start.saturating_add(len), len: info.len as usize }),
        }
    }

    /// Copies `out.len()` bytes of the region, from byte `start` on, to `out`.
    ///
    /// # Errors
    /// If these bytes are not within the region.
    pub fn read(&self, start: usize, out: &mut [u8]) -> Result<(), Error> {
        let end = start.saturating_add(out.len());
        let info = self.info();
        self.verbs().read_memory(info.id, start, out).map_err(|why| range_error(why, start, end, &info))
    }

    /// Copies `data` into the region, from byte `start` on.
    ///
    /// # Errors
    /// If `data` does not fit in the region from `start` on, or the region is read-only memory of the application.
    pub fn write(&self, start: usize, data: &[u8]) -> Result<(), Error> {
        let end = start.saturating_add(data.len());
        let info = self.info();
        self.verbs().write_memory(info.id, start, data).map_err(|why| range_error(why, start, end, &info))
    }

    /// Replaces the region's remote key by a new one, and returns the new key. From now on the device refuses requests
    /// with the old key, whether or not the peer had invalidated it (by a Send with Invalidate).
    ///
    /// # Errors
    /// None is expected.
    pub fn renew_key(&self) -> Result<u32, Error> {
        let id = self.info().id;
        let info = self.verbs().rekey(id)?;
        *lock(&self.info) = info;
        Ok(info.rkey)
    }
}

fn range_error(why: VerbsError, start: usize, end: usize, info: &MrInfo) -> Error {
    match why {
        VerbsError::Access(AccessError::Bounds) => Error::Range { start, end, len: info.len as usize },
        why => why.into(),
    }
}

impl<B: Lends> MemoryRegion<B> {
    /// Runs `look` on the bytes of the region. The device sends and receives no packets until `look` returns, so `look`
    /// should be short.
    ///
    /// # Panics
    /// If `look` uses the device or a handle of it, such as a queue pair.
    pub fn with<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        let id = self.info().id;
        self.domain.0.device.shared().look(|verbs| look(verbs.bytes(id).unwrap_or_default()))
    }

    /// Runs `change`, which may modify the bytes of the region. The device sends and receives no packets until `change`
    /// returns, so `change` should be short.
    ///
    /// # Panics
    /// If `change` uses the device or a handle of it, such as a queue pair.
    pub fn with_mut<R>(&self, change: impl FnOnce(&mut [u8]) -> R) -> R {
        let id = self.info().id;
        self.domain.0.device.shared().look(|verbs| change(verbs.bytes_mut(id).unwrap_or_default()))
    }
}

impl<M: Buffer> MemoryRegion<Held<M>> {
    /// Deregisters the region and returns its buffer. Work requests that still refer to the region fail.
    ///
    /// # Errors
    /// None is expected.
    pub fn into_buffer(self) -> Result<M, Error> {
        let id = self.info().id;
        let mut verbs = self.verbs();
        verbs.unbind_region(id);
        let buffer = verbs.deregister_buffer(id)?.into_any();
        drop(verbs);
        buffer.downcast().map(|buffer| *buffer).map_err(|_| VerbsError::Unknown("such buffer").into())
    }
}

impl MemoryRegion {
    /// Deregisters the region and returns its bytes. Work requests that still refer to the region fail.
    pub fn into_bytes(self) -> Vec<u8> {
        let id = self.info().id;
        let mut verbs = self.verbs();
        verbs.unbind_region(id);
        verbs.deregister(id).unwrap_or_default()
    }
}

impl<B> Drop for MemoryRegion<B> {
    fn drop(&mut self) {
        // This fails after `into_bytes`, which has already deregistered the region. A buffer is dropped after the lock,
        // because its destructor may use the device.
        let id = self.info().id;
        let mut verbs = self.verbs();
        verbs.unbind_region(id);
        let buffer = verbs.deregister_buffer(id);
        drop(verbs);
        drop(buffer);
    }
}
