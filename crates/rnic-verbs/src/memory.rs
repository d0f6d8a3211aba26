//! Registered memory: the regions of a device, their keys, and the checks before each access.

mod windows;

use crate::backing::{Atomic, Backing};
use crate::table::{Id, Table};
use crate::types::{Access, AccessError, MrId, MrInfo, Pd, Qpn, Sge};
use rand_core::Rng;
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::BTreeMap;
use windows::Windows;

/// The right to a memory region that an access of the peer needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Right {
    Write,
    Read,
    Atomic,
}

impl Right {
    fn is_given_by(self, access: &Access) -> bool {
        match self {
            Right::Write => access.remote_write,
            Right::Read => access.remote_read,
            Right::Atomic => access.remote_atomic,
        }
    }
}

/// A range of bytes in a memory region, for which an access was checked. The check remains valid until the region is
/// deregistered. After that the handle `region` finds no region, so every access fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    region: Id,
    start: usize,
    len: u32,
}

impl Span {
    /// `len` bytes of the range, beginning with byte `offset`.
    #[inline]
    pub(crate) fn part(self, offset: u32, len: usize) -> Result<Span, AccessError> {
        if u64::from(offset) + len as u64 > u64::from(self.len) {
            return Err(AccessError::Bounds);
        }
        Ok(Span { start: self.start + offset as usize, len: len as u32, ..self })
    }
}

/// The memory of a work request, one checked range for each scatter-gather element. Up to two ranges are stored without
/// an allocation.
pub(crate) type Spans = SmallVec<[Span; 2]>;

struct Region {
    pd: Pd,
    addr: u64,
    backing: Backing,
    access: Access,
    lkey: u32,
    rkey: u32,
    /// Whether a Send with Invalidate from the peer has invalidated `rkey`.
    invalidated: bool,
    /// Number of memory windows that are bound to the region.
    windows: u32,
}

impl Region {
    fn offset(&self, addr: u64, len: u64) -> Result<usize, AccessError> {
        let offset = addr.checked_sub(self.addr).ok_or(AccessError::Bounds)?;
        let end = offset.checked_add(len).ok_or(AccessError::Bounds)?;
        if end > self.backing.len() as u64 { Err(AccessError::Bounds) } else { Ok(offset as usize) }
    }
}

/// All memory regions of a device, with tables that find them by their keys.
pub(crate) struct Memory {
    regions: Table<Region>,
    windows: Windows,
    local: BTreeMap<u32, Id>,
    remote: BTreeMap<u32, Id>,
    /// Caches of the regions that were last found by a local or a remote key; the low bits of the key are the index.
    recent_local: [Cell<Option<Id>>; Memory::RECENT],
    recent_remote: [Cell<Option<Id>>; Memory::RECENT],
    /// The virtual address of the next region for which the application chooses no address.
    next_addr: u64,
    bytes: u64,
}

impl Memory {
    /// Alignment in bytes of the virtual addresses that the device chooses.
    const PAGE: u64 = 4_096;
    /// Number of entries in each of the caches `recent_local` and `recent_remote`.
    const RECENT: usize = 16;

    pub(crate) fn new() -> Memory {
        Memory {
            regions: Table::new(),
            windows: Windows::new(),
            local: BTreeMap::new(),
            remote: BTreeMap::new(),
            recent_local: [const { Cell::new(None) }; Memory::RECENT],
            recent_remote: [const { Cell::new(None) }; Memory::RECENT],
            next_addr: 0x1_0000_0000,
            bytes: 0,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.regions.len()
    }

    /// Total length of all regions, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Registers memory; `None` if the region would end beyond the last 64-bit address. Regions whose virtual address
    /// the device chooses do not overlap, and at least 4 KiB of unused addresses lie between them. `one_key` says
    /// whether the two keys of the region are equal.
    pub(crate) fn register(
        &mut self, pd: Pd, backing: Backing, addr: Option<u64>, access: Access, one_key: bool, rng: &mut impl Rng,
    ) -> Option<MrInfo> {
        let len = backing.len() as u64;
        let addr = match addr {
            Some(addr) => addr.checked_add(len).map(|_| addr)?,
            None => {
                let addr = self.next_addr;
                self.next_addr =
                    addr.checked_add(len)?.checked_next_multiple_of(Memory::PAGE)?.checked_add(Memory::PAGE)?;
                addr
            }
        };
        let (lkey, rkey) = if one_key {
            let key = self.fresh_common(rng);
            (key, key)
        } else {
            (fresh(&self.local, rng), self.fresh_remote(rng))
        };
        let region = Region { pd, addr, backing, access, lkey, rkey, invalidated: false, windows: 0 };
        let region = self.regions.insert(region);
        self.local.insert(lkey, region);
        self.remote.insert(rkey, region);
        self.bytes += len;
        Some(MrInfo { id: MrId(region), addr, len, lkey, rkey })
    }

    /// Deregisters a region and returns its memory.
    pub(crate) fn deregister(&mut self, id: MrId) -> Option<Backing> {
        let region = self.regions.remove(id.0)?;
        self.local.remove(&region.lkey);
        self.remote.remove(&region.rkey);
        self.bytes -= region.backing.len() as u64;
        Some(region.backing)
    }

    pub(crate) fn change_access(&mut self, id: MrId, access: Access) {
        if let Some(region) = self.regions.get_mut(id.0) {
            region.access = access;
        }
    }

    /// Deregisters the region `old`, and gives its keys to the region `new`.
    pub(crate) fn take_keys(&mut self, old: MrId, new: MrInfo) -> MrInfo {
        let Some((lkey, rkey)) = self.regions.get(old.0).map(|region| (region.lkey, region.rkey)) else { return new };
        self.deregister(old);
        if let Some(region) = self.regions.get_mut(new.id.0) {
            (region.lkey, region.rkey) = (lkey, rkey);
        }
        self.local.remove(&new.lkey);
        self.remote.remove(&new.rkey);
        self.local.insert(lkey, new.id.0);
        self.remote.insert(rkey, new.id.0);
        MrInfo { lkey, rkey, ..new }
    }

    pub(crate) fn has_domain(&self, pd: Pd) -> bool {
        self.regions.values().any(|region| region.pd == pd)
    }

    /// The bytes of a region that the device owns; `None` for foreign memory.
    pub(crate) fn bytes_of(&self, id: MrId) -> Option<&[u8]> {
        self.regions.get(id.0)?.backing.bytes()
    }

    /// The bytes of a region that the device owns, as a mutable slice; `None` for foreign memory.
    pub(crate) fn bytes_of_mut(&mut self, id: MrId) -> Option<&mut [u8]> {
        self.regions.get_mut(id.0)?.backing.bytes_mut()
    }

    /// The memory of a region, owned by the device or by the application.
    pub(crate) fn backing(&mut self, id: MrId) -> Option<&mut Backing> {
        self.regions.get_mut(id.0).map(|region| &mut region.backing)
    }

    /// Returns a random remote key that belongs neither to a region nor to a window.
    fn fresh_remote(&self, rng: &mut impl Rng) -> u32 {
        loop {
            let key = fresh(&self.remote, rng);
            if !self.windows.own(key) {
                return key;
            }
        }
    }

    /// Returns a random number that is neither a local key nor a remote key.
    fn fresh_common(&self, rng: &mut impl Rng) -> u32 {
        loop {
            let key = self.fresh_remote(rng);
            if !self.local.contains_key(&key) {
                return key;
            }
        }
    }

    /// Gives a region a new remote key, which is valid even if the old key was invalidated.
    pub(crate) fn rekey(&mut self, id: MrId, rng: &mut impl Rng) -> Option<MrInfo> {
        let rkey = self.fresh_remote(rng);
        let region = self.regions.get_mut(id.0)?;
        self.remote.remove(&region.rkey);
        self.remote.insert(rkey, id.0);
        region.rkey = rkey;
        region.invalidated = false;
        Some(MrInfo { id, addr: region.addr, len: region.backing.len() as u64, lkey: region.lkey, rkey })
    }

    /// Checks whether a Send with Invalidate to the queue pair `at` may invalidate the remote key `rkey`: the key must
    /// be valid. A region must have the right [`Access::remote_invalidate`], a window must be bound to the queue pair.
    pub(crate) fn may_invalidate(&self, at: (Pd, Qpn), rkey: u32) -> Result<(), AccessError> {
        let Some(id) = self.remote.get(&rkey) else { return self.may_invalidate_window(at, rkey).map(|_| ()) };
        let region = self.regions.get(*id).ok_or(AccessError::Key)?;
        if region.pd != at.0 {
            return Err(AccessError::Domain);
        }
        if region.invalidated {
            return Err(AccessError::Invalidated);
        }
        if region.access.remote_invalidate { Ok(()) } else { Err(AccessError::Rights) }
    }

    /// Makes the remote key `rkey` invalid, so that no peer can access the memory with it.
    ///
    /// # Errors
    /// See [`Memory::may_invalidate`].
    pub(crate) fn invalidate(&mut self, at: (Pd, Qpn), rkey: u32) -> Result<(), AccessError> {
        self.may_invalidate(at, rkey)?;
        match self.remote.get(&rkey).and_then(|id| self.regions.get_mut(*id)) {
            Some(region) => region.invalidated = true,
            None => self.invalidate_window(at, rkey)?,
        }
        Ok(())
    }

    /// Finds the region with the key `key`, in the cache `recent` or else in the map `keys`. `key_of` returns the key
    /// of a region, local or remote, which is compared with `key`.
    #[inline(always)]
    fn find(
        &self, recent: &[Cell<Option<Id>>; Memory::RECENT], keys: &BTreeMap<u32, Id>, key: u32,
        key_of: impl Fn(&Region) -> u32,
    ) -> Option<(Id, &Region)> {
        let recent = &recent[key as usize % Memory::RECENT];
        if let Some(id) = recent.get()
            && let Some(region) = self.regions.get(id).filter(|region| key_of(region) == key)
        {
            return Some((id, region));
        }
        let id = lookup(keys, key)?;
        recent.set(Some(id));
        self.regions.get(id).map(|region| (id, region))
    }

    /// Checks an access of the peer, which needs `right`, to the `len` bytes at the virtual address `addr`. `at` is the
    /// queue pair of this side, with its protection domain.
    // A call would return the span through memory, which takes longer to read back than the checks.
    #[inline(always)]
    pub(crate) fn remote(
        &self, at: (Pd, Qpn), rkey: u32, addr: u64, len: u32, right: Right,
    ) -> Result<Span, AccessError> {
        let found = self.find(&self.recent_remote, &self.remote, rkey, |region| region.rkey);
        let Some((id, region)) = found else { return self.through_window(at, rkey, addr, len, right) };
        if region.invalidated {
            return Err(AccessError::Invalidated);
        }
        if region.pd != at.0 {
            return Err(AccessError::Domain);
        }
        if !right.is_given_by(&region.access) {
            return Err(AccessError::Rights);
        }
        if right == Right::Atomic && !addr.is_multiple_of(8) {
            return Err(AccessError::Alignment);
        }
        let start = region.offset(addr, u64::from(len))?;
        Ok(Span { region: id, start, len })
    }

    /// Checks that a queue pair of the domain `pd` may read a scatter-gather element's memory, or `write` it.
    #[inline(always)]
    pub(crate) fn local(&self, pd: Pd, sge: &Sge, write: bool) -> Result<Span, AccessError> {
        let found = self.find(&self.recent_local, &self.local, sge.lkey, |region| region.lkey);
        let (id, region) = found.ok_or(AccessError::Key)?;
        if region.pd != pd {
            return Err(AccessError::Domain);
        }
        if write && !region.access.local_write {
            return Err(AccessError::Rights);
        }
        let start = region.offset(sge.addr, u64::from(sge.len))?;
        Ok(Span { region: id, start, len: sge.len })
    }

    /// Checks that a queue pair of the domain `pd` may read the memory of a work request's scatter-gather elements, or
    /// `write` it. Elements of length 0 are not checked, whatever their key.
    ///
    /// # Errors
    /// The index of the first element whose check fails, and the reason.
    pub(crate) fn check(&self, pd: Pd, sges: &[Sge], write: bool) -> Result<Spans, (usize, AccessError)> {
        let mut spans = Spans::new();
        for (index, sge) in sges.iter().enumerate().filter(|(_, sge)| sge.len > 0) {
            spans.push(self.local(pd, sge, write).map_err(|why| (index, why))?);
        }
        Ok(spans)
    }

    /// Memory of a work request that has the lengths of `sges`, and that every access finds to be deregistered.
    pub(crate) fn unusable(sges: &[Sge]) -> Spans {
        sges.iter().filter(|sge| sge.len > 0).map(|sge| Span { region: Id::NONE, start: 0, len: sge.len }).collect()
    }

    /// Copies the first `out.len()` bytes of `span` into `out`.
    ///
    /// # Errors
    /// If the region was deregistered after the span was checked.
    #[inline]
    pub(crate) fn read(&self, span: Span, out: &mut [u8]) -> Result<(), AccessError> {
        debug_assert!(out.len() <= span.len as usize);
        self.regions.get(span.region).ok_or(AccessError::Key)?.backing.read(span.start, out)
    }

    /// Copies `data` to the first bytes of `span`.
    ///
    /// # Errors
    /// If the region was deregistered after the span was checked.
    #[inline]
    pub(crate) fn write(&mut self, span: Span, data: &[u8]) -> Result<(), AccessError> {
        debug_assert!(data.len() <= span.len as usize);
        self.regions.get_mut(span.region).ok_or(AccessError::Key)?.backing.write(span.start, data)
    }

    /// Executes an atomic operation on the eight bytes of `span`; returns their value before the operation.
    ///
    /// # Errors
    /// If the region was deregistered after the span was checked.
    pub(crate) fn atomic(&mut self, span: Span, operation: Atomic) -> Result<u64, AccessError> {
        debug_assert!(span.len == 8);
        self.regions.get_mut(span.region).ok_or(AccessError::Key)?.backing.atomic(span.start, operation)
    }

    /// Copies `out.len()` bytes of a work request's memory `spans` into `out`, beginning with byte `offset` of the
    /// request's message.
    ///
    /// # Errors
    /// If a region of the memory was deregistered, or the memory ends before the last of these bytes.
    pub(crate) fn gather(&self, spans: &[Span], offset: u32, out: &mut [u8]) -> Result<(), AccessError> {
        let mut rest = out;
        for piece in pieces(spans, offset, rest.len() as u32) {
            let (here, after) = rest.split_at_mut(piece.len as usize);
            self.read(piece, here)?;
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { Err(AccessError::Bounds) }
    }

    /// Copies `data` into a work request's memory `spans`, beginning at byte `offset` of the request's message. After
    /// an error no byte was written.
    ///
    /// # Errors
    /// If a region of the memory was deregistered, or the memory ends before the last of these bytes.
    pub(crate) fn scatter(&mut self, spans: &[Span], offset: u32, data: &[u8]) -> Result<(), AccessError> {
        let len = data.len() as u32;
        let mut room = 0;
        for piece in pieces(spans, offset, len) {
            self.regions.get(piece.region).ok_or(AccessError::Key)?;
            room += piece.len;
        }
        if room != len {
            return Err(AccessError::Bounds);
        }
        let mut rest = data;
        for piece in pieces(spans, offset, len) {
            let (here, after) = rest.split_at(piece.len as usize);
            self.write(piece, here)?;
            rest = after;
        }
        Ok(())
    }
}

/// The region with a key that is not in the cache.
#[inline(never)]
fn lookup(keys: &BTreeMap<u32, Id>, key: u32) -> Option<Id> {
    keys.get(&key).copied()
}

/// Total length in bytes of scatter-gather elements.
pub(crate) fn total(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.len)).sum()
}

/// The parts of a work request's memory `spans` that hold `len` bytes of its message, from byte `offset` of the message
/// on. The spans hold the message one after the other.
fn pieces(spans: &[Span], offset: u32, len: u32) -> impl Iterator<Item = Span> {
    let (mut skip, mut left) = (offset, len);
    spans.iter().filter_map(move |span| {
        let skipped = skip.min(span.len);
        skip -= skipped;
        let take = (span.len - skipped).min(left);
        left -= take;
        (take > 0).then(|| Span { start: span.start + skipped as usize, len: take, ..*span })
    })
}

/// Returns a random memory key that is not 0 and not among `keys`, the keys in use.
fn fresh(keys: &BTreeMap<u32, Id>, rng: &mut impl Rng) -> u32 {
    loop {
        let key = rng.next_u32();
        if key != 0 && !keys.contains_key(&key) {
            return key;
        }
    }
}
