//! The memory behind a memory region: a vector or another buffer that the device owns, or memory of the application.
//!
//! This module holds all `unsafe` code of the crate: the copies to and from [`ForeignMemory`]. All other modules reach
//! registered memory through the safe functions of the type `Backing`.
//!
//! # Why the copies are sound
//!
//! **Bounds.** `Backing` checks every access against the length of the memory directly before the copy, with arithmetic
//! that cannot overflow, and hands out no pointer.
//!
//! **Lifetime.** The caller of [`ForeignMemory::new`] promises that the memory stays valid until
//! [`Device::deregister`](crate::Device::deregister) has returned or the [`Device`](crate::Device) is dropped. The
//! device reaches the bytes only through its table of regions. `deregister` removes the region from the table. It
//! borrows the device mutably, so no copy is under way at that time. Work requests and packets that still name the
//! region hold a handle with a generation number, which no later region in the table has (`table.rs`). So the table
//! finds no region by this handle, and no later copy touches the memory. A packet that the device wrote earlier holds a
//! copy of the bytes.
//!
//! **Aliasing.** The device never makes a Rust reference to foreign memory; it uses raw pointers and
//! [`copy_nonoverlapping`](std::ptr::copy_nonoverlapping). The other memory of each copy is a buffer that a Rust
//! reference covers: a packet, or the argument of a verb. The caller of [`ForeignMemory::new`] promises that no such
//! buffer lies in the registered memory, so source and destination do not overlap. Two regions may cover the same
//! foreign memory, because the device never copies from one region to another.
//!
//! **Concurrent access.** The application's threads may use the memory while it is registered, as they may with an RDMA
//! NIC in hardware. The copies treat the bytes as opaque: the device makes no decision from their values, and every bit
//! pattern is a valid `u8`. So a copy that overlaps an access of the application yields old, new or mixed bytes, and
//! does no other harm inside the device. Atomic operations are [`AtomicU64`] operations, so they are atomic towards the
//! application's threads too. In the terms of the Rust language an unsynchronised conflicting access is still a data
//! race. The caller of [`ForeignMemory::new`] promises that the application makes no such access, except the volatile
//! and atomic accesses that its documentation allows.
#![allow(unsafe_code)]

use crate::types::AccessError;
use std::any::Any;
use std::ptr::{NonNull, copy_nonoverlapping};
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of the application that a device may access while it is registered
/// ([`Device::register_foreign`](crate::Device::register_foreign)).
///
/// This type serves interfaces in which the application owns its buffers, such as `ibv_reg_mr` of libibverbs. A Rust
/// application does not need it: a region of a `Vec<u8>` ([`Device::register`](crate::Device::register)) is as fast,
/// and safe.
///
/// ```
/// use rnic_verbs::{Access, Device, DeviceConfig, ForeignMemory};
///
/// let mut device = Device::new(DeviceConfig::default());
/// let pd = device.create_pd();
/// // The application owns the buffer, and accesses it only through a raw pointer while it is registered.
/// let buffer = Box::into_raw(Box::new([7u8; 64]));
/// // SAFETY: the buffer is freed after the region is deregistered, and no reference to it exists before.
/// let memory = unsafe { ForeignMemory::new(buffer.cast(), 64) };
/// let region = device.register_foreign(pd, memory, None, Access::ALL).unwrap();
/// assert_eq!(region.addr, buffer as u64);
/// let mut copy = [0; 4];
/// device.read_memory(region.id, 60, &mut copy).unwrap();
/// assert_eq!(copy, [7; 4]);
/// device.deregister(region.id).unwrap();
/// // SAFETY: `Box::into_raw` returned the pointer, and the region is deregistered.
/// drop(unsafe { Box::from_raw(buffer) });
/// ```
#[derive(Debug)]
pub struct ForeignMemory {
    start: NonNull<u8>,
    len: usize,
    writable: bool,
    /// What keeps the memory valid, if this value has to do so.
    _owner: Option<Box<dyn Any + Send>>,
}

// SAFETY: `ForeignMemory::new` demands that any thread may access the memory.
unsafe impl Send for ForeignMemory {}

impl ForeignMemory {
    /// Foreign memory of `len` bytes that begins at `start`, which the device may read and write.
    ///
    /// # Safety
    /// The caller promises the following. The promises hold from this call until the region that covers the memory is
    /// deregistered, its device is dropped, or the returned value is dropped without having been registered.
    /// - `start` is valid for reads and writes of `len` bytes, from any thread. It points into one allocation of at
    ///   most `isize::MAX` bytes, or `len` is 0.
    /// - No Rust reference (`&` or `&mut`) covers any of the bytes. Code in Rust uses raw pointers or atomics.
    /// - No thread of the application accesses bytes that a pending operation writes, or writes bytes that a pending
    ///   operation reads. An operation of a local work request is pending from the call that posts the work request
    ///   until its completion is polled. For memory that peers may access, messages between the two applications must
    ///   say when operations are pending. Volatile and atomic accesses are always allowed, for applications that poll
    ///   memory until an RDMA Write changes it; they see the same values as if hardware wrote the memory.
    pub unsafe fn new(start: *mut u8, len: usize) -> ForeignMemory {
        let empty = (NonNull::dangling(), 0);
        let (start, len) = NonNull::new(start).map_or(empty, |start| (start, len));
        ForeignMemory { start, len, writable: true, _owner: None }
    }

    /// Foreign memory of `len` bytes that begins at `start`, which the device only reads. A region of such
    /// memory can have none of the rights to local writes, remote writes and atomics.
    ///
    /// # Safety
    /// The caller makes the promises of [`ForeignMemory::new`], but `start` need not be valid for writes, and `&`
    /// references to the bytes may exist.
    pub unsafe fn read_only(start: *const u8, len: usize) -> ForeignMemory {
        // SAFETY: the device does not write memory that is not `writable`; the caller promises the other conditions.
        ForeignMemory { writable: false, ..unsafe { ForeignMemory::new(start.cast_mut(), len) } }
    }

    /// Keeps `owner` until the device no longer accesses the memory, and drops it then. With an owner that keeps the
    /// memory valid, such as a memory map, the caller need not keep it valid.
    pub fn with_owner(self, owner: impl Any + Send) -> ForeignMemory {
        ForeignMemory { _owner: Some(Box::new(owner)), ..self }
    }

    /// Length of the memory in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the memory has length 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte in this process.
    pub fn addr(&self) -> u64 {
        self.start.addr().get() as u64
    }

    /// Whether the device may write the memory.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns a pointer to byte `offset`, if all `len` bytes from there on are within the memory.
    fn range(&self, offset: usize, len: usize) -> Result<NonNull<u8>, AccessError> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(AccessError::Bounds);
        }
        // SAFETY: `offset` is at most `self.len`, so that the result is within the allocation or one past its end.
        Ok(unsafe { self.start.add(offset) })
    }
}

/// A buffer that an application hands to a device and gets back: anything that lends its bytes, such as a `Box<[u8]>`
/// or a private memory map. The device borrows the bytes for each access. While it does, it is locked, so `as_ref` and
/// `as_mut` must not use the device.
///
/// ```
/// use rnic_verbs::{Access, Device, DeviceConfig};
///
/// let mut device = Device::new(DeviceConfig::default());
/// let pd = device.create_pd();
/// let buffer: Box<[u8]> = vec![7; 64].into();
/// let region = device.register_buffer(pd, Box::new(buffer), None, Access::ALL).unwrap();
/// device.write_memory(region.id, 0, &[1, 2]).unwrap();
/// let buffer = device.deregister_buffer(region.id).unwrap().into_any().downcast::<Box<[u8]>>().unwrap();
/// assert_eq!(buffer[..3], [1, 2, 7]);
/// ```
pub trait Buffer: Any + Send {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, for changes.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// The buffer with its own type.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

impl<T: AsRef<[u8]> + AsMut<[u8]> + Any + Send> Buffer for T {
    fn bytes(&self) -> &[u8] {
        self.as_ref()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.as_mut()
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

/// The memory of a region, which belongs to the device or to the application.
pub(crate) enum Backing {
    /// The device owns the bytes.
    Owned(Vec<u8>),
    /// The device owns a buffer of another type. The length is that of the registration; if the buffer is shorter
    /// later, accesses to the missing bytes fail.
    Held(Box<dyn Buffer>, usize),
    /// The application owns the bytes.
    Foreign(ForeignMemory),
    /// There are no bytes: see [`Device::register_virtual`](crate::Device::register_virtual).
    Virtual(Virtual),
}

/// Memory without bytes: its length, and what was written last.
#[derive(Clone, Copy, Default)]
pub(crate) struct Virtual {
    pub(crate) len: usize,
    /// Offset and length of the last write, until [`Device::take_written`](crate::Device::take_written) takes it.
    pub(crate) written: Option<(u64, u32)>,
}

impl Virtual {
    fn check(&self, offset: usize, len: usize) -> Result<(), AccessError> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) { Err(AccessError::Bounds) } else { Ok(()) }
    }
}

/// An atomic operation on eight bytes of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Atomic {
    /// Fetch-and-add: adds this number, modulo 2^64.
    Add(u64),
    /// Compare-and-swap: stores `swap` if the value equals `compare`.
    CompareSwap { compare: u64, swap: u64 },
}

impl Atomic {
    fn apply(self, value: u64) -> u64 {
        match self {
            Atomic::Add(add) => value.wrapping_add(add),
            Atomic::CompareSwap { compare, swap } if value == compare => swap,
            Atomic::CompareSwap { .. } => value,
        }
    }
}

/// Asks the processor to load the beginning of `after` into its cache, for reading or to `WRITE` it. These are the
/// bytes behind a packet's payload of `len` bytes, where the next packet's payload usually goes. While the next packet
/// is parsed and checked, the processor loads them. Short messages are not worth it.
#[inline]
fn prefetch<const WRITE: bool>(after: &[u8], len: usize) {
    /// Bytes of a cache line.
    const LINE: usize = 64;
    /// Bytes that are loaded at most. A processor has a few dozen loads in flight; behind them its own prediction
    /// works.
    const MOST: usize = 2 << 10;
    if len < 4 * LINE {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    for line in after[..after.len().min(len).min(MOST)].chunks(LINE) {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads and writes nothing; any address is allowed.
        unsafe {
            if WRITE {
                _mm_prefetch::<_MM_HINT_ET0>(line.as_ptr().cast());
            } else {
                _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (after, MOST);
}

impl Backing {
    pub(crate) fn len(&self) -> usize {
        match self {
            Backing::Owned(bytes) => bytes.len(),
            Backing::Held(_, len) => *len,
            Backing::Foreign(memory) => memory.len,
            Backing::Virtual(memory) => memory.len,
        }
    }

    /// The bytes, if the device owns them.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Backing::Owned(bytes) => Some(bytes),
            Backing::Held(buffer, len) => buffer.bytes().get(..*len),
            Backing::Foreign(_) | Backing::Virtual(_) => None,
        }
    }

    /// The bytes for changes, if the device owns them.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Backing::Owned(bytes) => Some(bytes),
            Backing::Held(buffer, len) => buffer.bytes_mut().get_mut(..*len),
            Backing::Foreign(_) | Backing::Virtual(_) => None,
        }
    }

    /// Copies `out.len()` bytes of the memory into `out`, beginning with byte `offset`.
    #[inline]
    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), AccessError> {
        match self {
            Backing::Owned(bytes) => {
                let rest = bytes.get(offset..).ok_or(AccessError::Bounds)?;
                let (from, after) = rest.split_at_checked(out.len()).ok_or(AccessError::Bounds)?;
                out.copy_from_slice(from);
                prefetch::<false>(after, out.len());
            }
            Backing::Held(..) => {
                let from = self.bytes().and_then(|bytes| bytes.get(offset..)).and_then(|rest| rest.get(..out.len()));
                out.copy_from_slice(from.ok_or(AccessError::Bounds)?);
            }
            Backing::Foreign(memory) => {
                let from = memory.range(offset, out.len())?;
                // SAFETY: `range` has checked the bounds, and the promise of `ForeignMemory::new` makes the bytes
                // readable; `out` is a Rust reference, which the promise keeps outside of the memory.
                unsafe { copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), out.len()) };
            }
            Backing::Virtual(memory) => memory.check(offset, out.len())?,
        }
        Ok(())
    }

    /// Copies `data` into the memory, beginning at byte `offset`.
    #[inline]
    pub(crate) fn write(&mut self, offset: usize, data: &[u8]) -> Result<(), AccessError> {
        match self {
            Backing::Owned(bytes) => {
                let rest = bytes.get_mut(offset..).ok_or(AccessError::Bounds)?;
                let (to, after) = rest.split_at_mut_checked(data.len()).ok_or(AccessError::Bounds)?;
                to.copy_from_slice(data);
                prefetch::<true>(after, data.len());
            }
            Backing::Held(..) => {
                let to = self.bytes_mut().and_then(|bytes| bytes.get_mut(offset..));
                let to = to.and_then(|rest| rest.get_mut(..data.len()));
                to.ok_or(AccessError::Bounds)?.copy_from_slice(data);
            }
            Backing::Foreign(memory) => {
                if !memory.writable {
                    return Err(AccessError::Rights);
                }
                let to = memory.range(offset, data.len())?;
                // SAFETY: `range` has checked the bounds, the memory is writable, and the promise of
                // `ForeignMemory::new` makes the bytes valid for writes; `data` is a Rust reference, which the promise
                // keeps outside of the memory.
                unsafe { copy_nonoverlapping(data.as_ptr(), to.as_ptr(), data.len()) };
            }
            Backing::Virtual(memory) => {
                memory.check(offset, data.len())?;
                memory.written = Some((offset as u64, data.len() as u32));
            }
        }
        Ok(())
    }

    /// Executes `operation` on the eight bytes at `offset`, in the host's byte order. Returns the value before the
    /// operation.
    pub(crate) fn atomic(&mut self, offset: usize, operation: Atomic) -> Result<u64, AccessError> {
        match self {
            Backing::Owned(_) | Backing::Held(..) => {
                let bytes = self.bytes_mut().and_then(|bytes| bytes.get_mut(offset..));
                let bytes = bytes.and_then(|rest| rest.first_chunk_mut::<8>());
                let bytes = bytes.ok_or(AccessError::Bounds)?;
                let value = u64::from_ne_bytes(*bytes);
                *bytes = operation.apply(value).to_ne_bytes();
                Ok(value)
            }
            Backing::Foreign(memory) => {
                if !memory.writable {
                    return Err(AccessError::Rights);
                }
                let word = memory.range(offset, 8)?.cast::<u64>();
                if !word.is_aligned() {
                    return Err(AccessError::Alignment);
                }
                // SAFETY: `range` has checked the bounds, the memory is writable, and the address is a multiple of 8.
                // The promise of `ForeignMemory::new` makes the address valid, and allows the application's threads
                // only atomic and volatile accesses to it.
                let word = unsafe { AtomicU64::from_ptr(word.as_ptr()) };
                Ok(match operation {
                    Atomic::Add(add) => word.fetch_add(add, Ordering::SeqCst),
                    Atomic::CompareSwap { compare, swap } => {
                        match word.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst) {
                            Ok(value) | Err(value) => value,
                        }
                    }
                })
            }
            Backing::Virtual(_) => Err(AccessError::Rights),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    /// Memory of the application in a test. It is freed when the value is dropped.
    struct Buffer(*mut [u64]);

    impl Buffer {
        fn new(words: usize) -> Buffer {
            Buffer(Box::into_raw(vec![0u64; words].into_boxed_slice()))
        }

        /// Backings of the three kinds, each of the buffer's length.
        fn backings(&self) -> [Backing; 3] {
            let len = 8 * self.0.len();
            // SAFETY: tests drop the backing before the buffer, and make no reference to the buffer's bytes.
            let foreign = Backing::Foreign(unsafe { ForeignMemory::new(self.0.cast(), len) });
            // A buffer that grows later has no more bytes for the device.
            let held = Backing::Held(Box::new(vec![0; len + 10]), len);
            [Backing::Owned(vec![0; len]), held, foreign]
        }
    }

    impl Drop for Buffer {
        fn drop(&mut self) {
            // SAFETY: `Box::into_raw` returned the pointer, and nothing uses it any more.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }

    #[test]
    fn accesses_beyond_the_end_are_refused_and_touch_nothing() {
        let buffer = Buffer::new(4);
        for mut backing in buffer.backings() {
            assert_eq!(backing.len(), 32);
            for (offset, len) in [(0, 33), (1, 32), (32, 1), (33, 0), (usize::MAX, 1), (usize::MAX, 2)] {
                assert_eq!(backing.write(offset, &vec![1; len]), Err(AccessError::Bounds), "{offset} {len}");
                assert_eq!(backing.read(offset, &mut vec![1; len]), Err(AccessError::Bounds), "{offset} {len}");
            }
            for offset in [25, 32, usize::MAX - 7, usize::MAX] {
                assert_eq!(backing.atomic(offset, Atomic::Add(1)), Err(AccessError::Bounds));
            }
            let mut all = [9; 32];
            backing.read(0, &mut all).unwrap();
            assert_eq!(all, [0; 32]);
            // Accesses that reach up to the end of the memory succeed.
            for (offset, len) in [(0, 32), (31, 1), (32, 0)] {
                backing.write(offset, &vec![1; len]).unwrap();
                backing.read(offset, &mut vec![0; len]).unwrap();
            }
        }
    }

    #[test]
    fn all_backings_hold_what_is_written() {
        let buffer = Buffer::new(4);
        for mut backing in buffer.backings() {
            backing.write(3, &[1, 2, 3]).unwrap();
            let mut out = [0; 5];
            backing.read(2, &mut out).unwrap();
            assert_eq!(out, [0, 1, 2, 3, 0]);
            assert_eq!(backing.atomic(8, Atomic::Add(u64::MAX)), Ok(0));
            assert_eq!(backing.atomic(8, Atomic::Add(3)), Ok(u64::MAX));
            assert_eq!(backing.atomic(8, Atomic::CompareSwap { compare: 1, swap: 7 }), Ok(2));
            assert_eq!(backing.atomic(8, Atomic::CompareSwap { compare: 2, swap: 7 }), Ok(2));
            let mut word = [0; 8];
            backing.read(8, &mut word).unwrap();
            assert_eq!(word, 7u64.to_ne_bytes());
        }
    }

    /// A buffer whose length the application can change although the device has it.
    struct Shrinking(Vec<u8>, Arc<AtomicUsize>);

    impl AsRef<[u8]> for Shrinking {
        fn as_ref(&self) -> &[u8] {
            &self.0[..self.1.load(Ordering::Relaxed)]
        }
    }

    impl AsMut<[u8]> for Shrinking {
        fn as_mut(&mut self) -> &mut [u8] {
            &mut self.0[..self.1.load(Ordering::Relaxed)]
        }
    }

    #[test]
    fn a_buffer_that_shrinks_is_not_accessed() {
        let len = Arc::new(AtomicUsize::new(64));
        let mut backing = Backing::Held(Box::new(Shrinking(vec![0; 64], len.clone())), 64);
        assert_eq!(backing.write(60, &[1; 4]), Ok(()));
        len.store(63, Ordering::Relaxed);
        assert_eq!(backing.write(0, &[1; 4]), Err(AccessError::Bounds));
        assert_eq!(backing.read(0, &mut [0; 4]), Err(AccessError::Bounds));
        assert_eq!(backing.atomic(0, Atomic::Add(1)), Err(AccessError::Bounds));
        assert_eq!((backing.len(), backing.bytes()), (64, None));
    }

    #[test]
    fn the_owner_of_foreign_memory_lives_as_long_as_the_backing() {
        let owner = Arc::new([5u8; 16]);
        let weak = Arc::downgrade(&owner);
        // SAFETY: the owner keeps the memory valid, and no thread writes it.
        let memory = unsafe { ForeignMemory::read_only(owner.as_ptr(), 16) }.with_owner(owner);
        let backing = Backing::Foreign(memory);
        let mut out = [0; 16];
        backing.read(0, &mut out).unwrap();
        assert_eq!((out, weak.strong_count()), ([5; 16], 1));
        drop(backing);
        assert_eq!(weak.strong_count(), 0);
    }

    #[test]
    fn two_backings_may_share_memory() {
        let buffer = Buffer::new(4);
        let [_, _, mut first] = buffer.backings();
        let [_, _, second] = buffer.backings();
        first.write(4, &[5; 4]).unwrap();
        let mut out = [0; 4];
        second.read(4, &mut out).unwrap();
        assert_eq!(out, [5; 4]);
    }

    #[test]
    fn the_application_sees_what_the_device_writes_and_the_device_what_the_application_writes() {
        let buffer = Buffer::new(2);
        let [_, _, mut backing] = buffer.backings();
        let start = buffer.0.cast::<u8>();
        backing.write(1, &[8]).unwrap();
        // SAFETY: within the buffer; nothing else accesses it during the call.
        assert_eq!(unsafe { start.add(1).read() }, 8);
        // SAFETY: as above.
        unsafe { start.add(2).write(9) };
        let mut out = [0; 2];
        backing.read(1, &mut out).unwrap();
        assert_eq!(out, [8, 9]);
    }

    #[test]
    fn read_only_memory_is_not_written() {
        let bytes = [3u8; 16];
        // SAFETY: the array outlives the backing, and no thread writes it.
        let mut backing = Backing::Foreign(unsafe { ForeignMemory::read_only(bytes.as_ptr(), 16) });
        assert_eq!(backing.write(0, &[1]), Err(AccessError::Rights));
        assert_eq!(backing.atomic(0, Atomic::Add(1)), Err(AccessError::Rights));
        let mut out = [0; 16];
        backing.read(0, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn atomics_of_foreign_memory_are_aligned() {
        let buffer = Buffer::new(2);
        let [_, _, mut backing] = buffer.backings();
        assert_eq!(backing.atomic(4, Atomic::Add(1)), Err(AccessError::Alignment));
    }

    #[test]
    fn empty_memory_may_lie_anywhere() {
        // SAFETY: the memory has length 0.
        let mut backing = Backing::Foreign(unsafe { ForeignMemory::new(std::ptr::null_mut(), 0) });
        assert_eq!((backing.read(0, &mut []), backing.write(0, &[])), (Ok(()), Ok(())));
        assert_eq!(backing.read(0, &mut [0]), Err(AccessError::Bounds));
    }

    #[test]
    fn virtual_memory_checks_bounds_and_tells_the_last_write() {
        let mut backing = Backing::Virtual(Virtual { len: 1 << 40, written: None });
        assert_eq!((backing.len(), backing.bytes()), (1 << 40, None));
        assert_eq!(backing.write(1 << 40, &[1]), Err(AccessError::Bounds));
        assert_eq!(backing.write(usize::MAX, &[1]), Err(AccessError::Bounds));
        assert_eq!(backing.read((1 << 40) - 3, &mut [0; 4]), Err(AccessError::Bounds));
        assert_eq!(backing.atomic(0, Atomic::Add(1)), Err(AccessError::Rights));
        backing.write(7, &[1, 2]).unwrap();
        backing.write(1 << 39, &[1, 2, 3]).unwrap();
        let Backing::Virtual(memory) = backing else { unreachable!() };
        assert_eq!(memory.written, Some((1 << 39, 3)));
    }
}
