//! Atomic operations on registered memory (InfiniBand volume 1, section 9.4.5).

use crate::common::Refusal;
use crate::memory::{Memory, Right};
use crate::types::{AccessError, Pd};
use rnic_wire::AtomicEth;

/// Carries out an atomic operation and returns what was there. Values lie in memory in the host's byte order.
pub(crate) fn execute(memory: &mut Memory, pd: Pd, request: &AtomicEth, compare: bool) -> Result<u64, Refusal> {
    let span = memory.remote(pd, request.rkey, request.va, 8, Right::Atomic).map_err(|why| match why {
        AccessError::Alignment => Refusal::INVALID,
        _ => Refusal::ACCESS,
    })?;
    let bytes = memory.slice_mut(span).ok_or(Refusal::ACCESS)?;
    let mut original = [0; 8];
    original.copy_from_slice(bytes);
    let value = u64::from_ne_bytes(original);
    let new = if !compare {
        value.wrapping_add(request.swap_add)
    } else if value == request.compare {
        request.swap_add
    } else {
        value
    };
    bytes.copy_from_slice(&new.to_ne_bytes());
    Ok(value)
}
