//! Memory windows (InfiniBand volume 1, section 10.6.7): remote keys to parts of regions, which the application gives
//! and takes back while the region stays registered.

use super::{Memory, Right, Span};
use crate::table::{Id, Table};
use crate::types::{Access, AccessError, Bind, MrId, Pd, Qpn, WindowId, WindowInfo, WindowKind};
use rand_core::Rng;
use std::collections::BTreeMap;

/// Bits of a remote key that the application chooses; the others are the index of the window.
const KEY_BITS: u32 = 8;

/// The part of a remote key that belongs to a window.
pub(super) const fn index(rkey: u32) -> u32 {
    rkey >> KEY_BITS
}

struct Window {
    pd: Pd,
    kind: WindowKind,
    /// Remote key of the binding, or of the last one.
    rkey: u32,
    /// Remote key that [`Memory::next_window_rkey`] returned last.
    posted: u32,
    bound: Option<Bound>,
}

impl Window {
    /// The remote key of a binding for which `rkey` was posted: its low eight bits after the upper bits of the window.
    fn key(&self, rkey: u32) -> u32 {
        const LOW: u32 = (1 << KEY_BITS) - 1;
        self.rkey & !LOW | rkey & LOW
    }
}

/// What a bound window covers.
#[derive(Clone, Copy)]
struct Bound {
    region: Id,
    /// Offset in the region of the window's first byte, the address that peers have for it, and its length.
    start: u64,
    addr: u64,
    len: u64,
    access: Access,
    /// The only queue pair through which peers may use the window; `None`: all of its protection domain.
    qpn: Option<Qpn>,
}

/// The memory windows of a device.
pub(super) struct Windows {
    table: Table<Window>,
    /// The windows by the upper 24 bits of their remote keys.
    indices: BTreeMap<u32, Id>,
}

impl Windows {
    pub(super) fn new() -> Windows {
        Windows { table: Table::new(), indices: BTreeMap::new() }
    }

    /// Whether a remote key is that of a window, bound or not.
    pub(super) fn own(&self, rkey: u32) -> bool {
        self.indices.contains_key(&index(rkey))
    }

    fn find(&self, rkey: u32) -> Option<(Id, &Window)> {
        let id = *self.indices.get(&index(rkey))?;
        self.table.get(id).filter(|window| window.rkey == rkey).map(|window| (id, window))
    }
}

impl Memory {
    pub(crate) fn windows(&self) -> usize {
        self.windows.table.len()
    }

    pub(crate) fn has_windows_of(&self, pd: Pd) -> bool {
        self.windows.table.values().any(|window| window.pd == pd)
    }

    /// Whether windows are bound to a region.
    pub(crate) fn is_bound(&self, id: MrId) -> bool {
        self.regions.get(id.0).is_some_and(|region| region.windows > 0)
    }

    /// Creates a window, which is not bound.
    pub(crate) fn allocate_window(&mut self, pd: Pd, kind: WindowKind, rng: &mut impl Rng) -> WindowInfo {
        let rkey = loop {
            let rkey = rng.next_u32() >> KEY_BITS << KEY_BITS;
            let keys = rkey..=rkey | ((1 << KEY_BITS) - 1);
            if rkey != 0 && !self.windows.own(rkey) && self.remote.range(keys).next().is_none() {
                break rkey;
            }
        };
        let id = self.windows.table.insert(Window { pd, kind, rkey, posted: rkey, bound: None });
        self.windows.indices.insert(index(rkey), id);
        WindowInfo { id: WindowId(id), kind, rkey }
    }

    /// Frees a window, bound or not. `None` if there is no such window.
    pub(crate) fn free_window(&mut self, id: WindowId) -> Option<()> {
        self.unbind(id.0);
        let window = self.windows.table.remove(id.0)?;
        self.windows.indices.remove(&index(window.rkey));
        Some(())
    }

    pub(crate) fn window_kind(&self, id: WindowId) -> Option<WindowKind> {
        self.windows.table.get(id.0).map(|window| window.kind)
    }

    /// A remote key for the next binding of a window: the low eight bits count.
    pub(crate) fn next_window_rkey(&mut self, id: WindowId) -> Option<u32> {
        let window = self.windows.table.get_mut(id.0)?;
        window.posted = window.key(window.posted.wrapping_add(1));
        Some(window.posted)
    }

    /// Executes a binding that was posted to the queue pair `qpn`.
    ///
    /// # Errors
    /// The first check of section 10.6.7.2.2 that fails. Then the window is as it was.
    pub(crate) fn bind(&mut self, pd: Pd, qpn: Qpn, bind: &Bind) -> Result<(), AccessError> {
        let window = self.windows.table.get(bind.window.0).ok_or(AccessError::Key)?;
        if window.pd != pd {
            return Err(AccessError::Domain);
        }
        let one = window.kind == WindowKind::Type1;
        if !one && window.bound.is_some() {
            return Err(AccessError::Bound);
        }
        let covered = bind.region.filter(|_| bind.len > 0);
        let bound = match covered {
            None if one => None,
            None => return Err(AccessError::Bounds),
            Some(id) => {
                let region = self.regions.get(id.0).ok_or(AccessError::Key)?;
                if region.pd != pd {
                    return Err(AccessError::Domain);
                }
                let writes = bind.access.remote_write || bind.access.remote_atomic;
                if !region.access.bind_window || writes && !region.access.local_write || bind.zero_based && one {
                    return Err(AccessError::Rights);
                }
                let start = region.offset(bind.addr, bind.len)? as u64;
                Some(Bound {
                    region: id.0,
                    start,
                    addr: if bind.zero_based { 0 } else { bind.addr },
                    len: bind.len,
                    access: bind.access,
                    qpn: (!one).then_some(qpn),
                })
            }
        };
        self.unbind(bind.window.0);
        if let Some(region) = bound.and_then(|bound| self.regions.get_mut(bound.region)) {
            region.windows += 1;
        }
        if let Some(window) = self.windows.table.get_mut(bind.window.0) {
            (window.rkey, window.bound) = (window.key(bind.rkey), bound);
        }
        Ok(())
    }

    /// Ends the binding of a window, if it is bound.
    fn unbind(&mut self, id: Id) {
        let Some(bound) = self.windows.table.get_mut(id).and_then(|window| window.bound.take()) else { return };
        if let Some(region) = self.regions.get_mut(bound.region) {
            region.windows -= 1;
        }
    }

    /// Ends the bindings of all windows for which `which` returns true; it gets the queue pair of a window of type 2,
    /// and the region.
    fn unbind_all(&mut self, which: impl Fn(Option<Qpn>, Id) -> bool) {
        let Windows { table, indices } = &self.windows;
        let ids = indices.values().copied();
        let found: Vec<Id> = ids
            .filter(|id| {
                table.get(*id).and_then(|window| window.bound).is_some_and(|bound| which(bound.qpn, bound.region))
            })
            .collect();
        found.into_iter().for_each(|id| self.unbind(id));
    }

    /// Ends the bindings of windows of type 2 to a queue pair that is destroyed or reset.
    pub(crate) fn unbind_queue_pair(&mut self, qpn: Qpn) {
        self.unbind_all(|of, _| of == Some(qpn));
    }

    /// Ends the bindings of windows to a region.
    pub(crate) fn unbind_region(&mut self, id: MrId) {
        self.unbind_all(|_, region| region == id.0);
    }

    /// Checks an access of the peer through a window; see [`Memory::remote`].
    // Most remote keys are those of regions.
    #[cold]
    #[inline(never)]
    pub(super) fn through_window(
        &self, (pd, qpn): (Pd, Qpn), rkey: u32, addr: u64, len: u32, right: Right,
    ) -> Result<Span, AccessError> {
        let (_, window) = self.windows.find(rkey).ok_or(AccessError::Key)?;
        if window.pd != pd {
            return Err(AccessError::Domain);
        }
        let bound = window.bound.ok_or(AccessError::Invalidated)?;
        if bound.qpn.is_some_and(|own| own != qpn) {
            return Err(AccessError::QueuePair);
        }
        if !right.is_given_by(&bound.access) {
            return Err(AccessError::Rights);
        }
        let region = self.regions.get(bound.region).ok_or(AccessError::Key)?;
        let offset = addr.checked_sub(bound.addr).ok_or(AccessError::Bounds)?;
        if offset.checked_add(len.into()).is_none_or(|end| end > bound.len) {
            return Err(AccessError::Bounds);
        }
        // With addresses that count from 0, the memory may lie otherwise than the peer's address says.
        let start = bound.start + offset;
        let misaligned = |addr: u64| !addr.is_multiple_of(8);
        if right == Right::Atomic && (misaligned(addr) || misaligned(region.addr.wrapping_add(start))) {
            return Err(AccessError::Alignment);
        }
        Ok(Span { region: bound.region, start: start as usize, len })
    }

    /// Checks whether the peer of the queue pair `qpn` may invalidate the window with the remote key `rkey`.
    pub(super) fn may_invalidate_window(&self, (pd, qpn): (Pd, Qpn), rkey: u32) -> Result<Id, AccessError> {
        let (id, window) = self.windows.find(rkey).ok_or(AccessError::Key)?;
        match window {
            Window { kind: WindowKind::Type1, .. } => Err(AccessError::Rights),
            window if window.pd != pd => Err(AccessError::Domain),
            Window { bound: None, .. } => Err(AccessError::Invalidated),
            Window { bound: Some(bound), .. } if bound.qpn != Some(qpn) => Err(AccessError::QueuePair),
            _ => Ok(id),
        }
    }

    /// Invalidates the window with the remote key `rkey`, for a request of the peer or of the queue pair's owner.
    ///
    /// # Errors
    /// If it is no window of type 2 that is bound to this queue pair.
    pub(crate) fn invalidate_window(&mut self, at: (Pd, Qpn), rkey: u32) -> Result<(), AccessError> {
        let id = self.may_invalidate_window(at, rkey)?;
        self.unbind(id);
        Ok(())
    }
}
