//! Prefetching memory into the cache.

/// Size of a cache line in bytes.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Prefetches the cache lines of `value`. Does nothing on processors for which the compiler has no stable intrinsic.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first: *const i8 = std::ptr::from_ref(value).cast();
        for line in 0..size_of::<T>().div_ceil(LINE) {
            // SAFETY: a prefetch changes nothing that the program can see, and never faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line * LINE)) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
