//! Memory that a NIC may read and write at any time. It is accessed only through raw pointers.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Memory that the NIC reads and writes.
pub(super) struct Memory {
    pub(super) start: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    pub(super) fn new(len: usize) -> Option<Memory> {
        let layout = Layout::from_size_align(len, 4_096).ok().filter(|layout| layout.size() > 0)?;
        // SAFETY: the layout has a size above 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Memory { start, layout })
    }

    fn check(&self, at: usize, len: usize) {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.layout.size()), "{at} + {len} bytes are outside");
    }

    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        self.check(at, bytes.len());
        // SAFETY: the bytes are inside the allocation, and no reference to it exists.
        unsafe { self.start.as_ptr().add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    pub(super) fn clear(&self, at: usize, len: usize) {
        self.check(at, len);
        // SAFETY: the bytes are inside the allocation, and no reference to it exists.
        unsafe { self.start.as_ptr().add(at).write_bytes(0, len) }
    }

    pub(super) fn read(&self, at: usize, bytes: &mut [u8]) {
        self.check(at, bytes.len());
        // SAFETY: the bytes are inside the allocation, and no reference to it exists.
        unsafe { self.start.as_ptr().add(at).copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) }
    }

    pub(super) fn address(&self, at: usize) -> u64 {
        self.start.as_ptr() as u64 + at as u64
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout, and is freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
