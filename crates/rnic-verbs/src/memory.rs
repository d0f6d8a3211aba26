//! Registered memory: regions, their keys, and the checks before any byte is touched.

use crate::table::{Id, Table};
use crate::types::{Access, AccessError, MrId, MrInfo, Pd, Sge};
use rand_core::Rng;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What a peer wants to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Right {
    Write,
    Read,
    Atomic,
}

/// Bytes of a region that an access may touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    region: Id,
    start: usize,
    len: usize,
}

struct Region {
    pd: Pd,
    addr: u64,
    bytes: Vec<u8>,
    access: Access,
    lkey: u32,
    rkey: u32,
    /// The peer invalidated `rkey`.
    invalidated: bool,
}

impl Region {
    fn offset(&self, addr: u64, len: u64) -> Result<usize, AccessError> {
        let offset = addr.checked_sub(self.addr).ok_or(AccessError::Bounds)?;
        let end = offset.checked_add(len).ok_or(AccessError::Bounds)?;
        if end > self.bytes.len() as u64 { Err(AccessError::Bounds) } else { Ok(offset as usize) }
    }
}

/// All regions of a device.
pub(crate) struct Memory {
    regions: Table<Region>,
    local: BTreeMap<u32, Id>,
    remote: BTreeMap<u32, Id>,
    /// Address of the next region that does not choose its own.
    next_addr: u64,
    bytes: u64,
}

impl Memory {
    /// Regions begin at multiples of this.
    const PAGE: u64 = 4_096;

    pub(crate) fn new() -> Memory {
        Memory {
            regions: Table::new(),
            local: BTreeMap::new(),
            remote: BTreeMap::new(),
            next_addr: 0x1_0000_0000,
            bytes: 0,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.regions.len()
    }

    /// Bytes of all regions.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Registers `bytes`; `None` if no addresses are left for them. Regions do not overlap, with a page between them, unless `addr` makes
    /// them.
    pub(crate) fn register(
        &mut self, pd: Pd, bytes: Vec<u8>, addr: Option<u64>, access: Access, rng: &mut impl Rng,
    ) -> Option<MrInfo> {
        let len = bytes.len() as u64;
        let addr = match addr {
            Some(addr) => addr.checked_add(len).map(|_| addr)?,
            None => {
                let addr = self.next_addr;
                self.next_addr =
                    addr.checked_add(len)?.checked_next_multiple_of(Memory::PAGE)?.checked_add(Memory::PAGE)?;
                addr
            }
        };
        let lkey = fresh(&self.local, rng);
        let rkey = fresh(&self.remote, rng);
        let region = self.regions.insert(Region { pd, addr, bytes, access, lkey, rkey, invalidated: false });
        self.local.insert(lkey, region);
        self.remote.insert(rkey, region);
        self.bytes += len;
        Some(MrInfo { id: MrId(region), addr, len, lkey, rkey })
    }

    /// Gives the bytes back.
    pub(crate) fn deregister(&mut self, id: MrId) -> Option<Vec<u8>> {
        let region = self.regions.remove(id.0)?;
        self.local.remove(&region.lkey);
        self.remote.remove(&region.rkey);
        self.bytes -= region.bytes.len() as u64;
        Some(region.bytes)
    }

    pub(crate) fn has_domain(&self, pd: Pd) -> bool {
        self.regions.values().any(|region| region.pd == pd)
    }

    pub(crate) fn bytes_of(&self, id: MrId) -> Option<&[u8]> {
        self.regions.get(id.0).map(|region| &region.bytes[..])
    }

    pub(crate) fn bytes_of_mut(&mut self, id: MrId) -> Option<&mut [u8]> {
        self.regions.get_mut(id.0).map(|region| &mut region.bytes[..])
    }

    /// Replaces an invalidated remote key by a new one.
    pub(crate) fn rekey(&mut self, id: MrId, rng: &mut impl Rng) -> Option<MrInfo> {
        let rkey = fresh(&self.remote, rng);
        let region = self.regions.get_mut(id.0)?;
        self.remote.remove(&region.rkey);
        self.remote.insert(rkey, id.0);
        region.rkey = rkey;
        region.invalidated = false;
        Some(MrInfo { id, addr: region.addr, len: region.bytes.len() as u64, lkey: region.lkey, rkey })
    }

    /// The key no longer admits remote access.
    pub(crate) fn invalidate(&mut self, pd: Pd, rkey: u32) -> Result<(), AccessError> {
        let index = *self.remote.get(&rkey).ok_or(AccessError::Key)?;
        let region = self.regions.get_mut(index).ok_or(AccessError::Key)?;
        if region.pd != pd {
            return Err(AccessError::Domain);
        }
        region.invalidated = true;
        Ok(())
    }

    /// Checks an access of the peer: all of it or nothing.
    pub(crate) fn remote(&self, pd: Pd, rkey: u32, addr: u64, len: u64, right: Right) -> Result<Span, AccessError> {
        let index = *self.remote.get(&rkey).ok_or(AccessError::Key)?;
        let region = self.regions.get(index).ok_or(AccessError::Key)?;
        if region.invalidated {
            return Err(AccessError::Invalidated);
        }
        if region.pd != pd {
            return Err(AccessError::Domain);
        }
        let admitted = match right {
            Right::Write => region.access.remote_write,
            Right::Read => region.access.remote_read,
            Right::Atomic => region.access.remote_atomic,
        };
        if !admitted {
            return Err(AccessError::Rights);
        }
        if right == Right::Atomic && !addr.is_multiple_of(8) {
            return Err(AccessError::Alignment);
        }
        let start = region.offset(addr, len)?;
        Ok(Span { region: index, start, len: len as usize })
    }

    /// Checks a scatter-gather element; one without bytes names no memory.
    pub(crate) fn check(&self, pd: Pd, sge: &Sge, write: bool) -> Result<(), AccessError> {
        if sge.len == 0 { Ok(()) } else { self.local(pd, sge, write).map(|_| ()) }
    }

    fn local(&self, pd: Pd, sge: &Sge, write: bool) -> Result<Span, AccessError> {
        let index = *self.local.get(&sge.lkey).ok_or(AccessError::Key)?;
        let region = self.regions.get(index).ok_or(AccessError::Key)?;
        if region.pd != pd {
            return Err(AccessError::Domain);
        }
        if write && !region.access.local_write {
            return Err(AccessError::Rights);
        }
        let start = region.offset(sge.addr, u64::from(sge.len))?;
        Ok(Span { region: index, start, len: sge.len as usize })
    }

    /// The bytes that a check has admitted just before.
    pub(crate) fn slice(&self, span: Span) -> &[u8] {
        self.regions.get(span.region).map_or(&[], |region| &region.bytes[span.start..span.start + span.len])
    }

    /// The same, to write.
    pub(crate) fn slice_mut(&mut self, span: Span) -> &mut [u8] {
        match self.regions.get_mut(span.region) {
            Some(region) => &mut region.bytes[span.start..span.start + span.len],
            None => &mut [],
        }
    }

    /// Copies `out.len()` bytes from `offset` on of the memory that `sges` describe.
    pub(crate) fn gather(&self, pd: Pd, sges: &[Sge], offset: u32, out: &mut [u8]) -> Result<(), AccessError> {
        let mut done = 0;
        for piece in pieces(sges, offset, out.len() as u32) {
            let bytes = self.slice(self.local(pd, &piece, false)?);
            out[done..done + bytes.len()].copy_from_slice(bytes);
            done += bytes.len();
        }
        if done == out.len() { Ok(()) } else { Err(AccessError::Bounds) }
    }

    /// Copies `data` to `offset` on of the memory that `sges` describe, all of it or nothing.
    pub(crate) fn scatter(&mut self, pd: Pd, sges: &[Sge], offset: u32, data: &[u8]) -> Result<(), AccessError> {
        let mut spans: SmallVec<[Span; 4]> = SmallVec::new();
        let mut room = 0;
        for piece in pieces(sges, offset, data.len() as u32) {
            let span = self.local(pd, &piece, true)?;
            room += span.len;
            spans.push(span);
        }
        if room != data.len() {
            return Err(AccessError::Bounds);
        }
        let mut rest = data;
        for span in spans {
            let (here, after) = rest.split_at(span.len);
            self.slice_mut(span).copy_from_slice(here);
            rest = after;
        }
        Ok(())
    }
}

/// Bytes that scatter-gather elements describe.
pub(crate) fn total(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.len)).sum()
}

/// The parts of `sges` that make up `len` bytes from `offset` on.
fn pieces(sges: &[Sge], offset: u32, len: u32) -> impl Iterator<Item = Sge> {
    let (mut skip, mut left) = (offset, len);
    sges.iter().filter_map(move |sge| {
        let skipped = skip.min(sge.len);
        skip -= skipped;
        let take = (sge.len - skipped).min(left);
        left -= take;
        (take > 0).then(|| Sge { addr: sge.addr.wrapping_add(u64::from(skipped)), len: take, lkey: sge.lkey })
    })
}

/// A key that nobody can guess and that is not in use.
fn fresh(keys: &BTreeMap<u32, Id>, rng: &mut impl Rng) -> u32 {
    loop {
        let key = rng.next_u32();
        if key != 0 && !keys.contains_key(&key) {
            return key;
        }
    }
}
