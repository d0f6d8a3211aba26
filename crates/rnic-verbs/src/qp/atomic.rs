//! Atomic operations on registered memory (InfiniBand volume 1, section 9.4.5).

use crate::backing::Atomic;
use crate::common::Refusal;
use crate::memory::{Memory, Right};
use crate::types::{AccessError, Pd, Qpn};
use rnic_wire::AtomicEth;

/// Executes the peer's atomic `request` to the queue pair `at` on registered memory, where values have the host's byte
/// order. Returns the value before the operation. `compare` selects compare-and-swap instead of fetch-and-add.
pub(crate) fn execute(memory: &mut Memory, at: (Pd, Qpn), request: &AtomicEth, compare: bool) -> Result<u64, Refusal> {
    let span = memory.remote(at, request.rkey, request.va, 8, Right::Atomic).map_err(|why| match why {
        AccessError::Alignment => Refusal::INVALID,
        _ => Refusal::ACCESS,
    })?;
    let operation = if compare {
        Atomic::CompareSwap { compare: request.compare, swap: request.swap_add }
    } else {
        Atomic::Add(request.swap_add)
    };
    memory.atomic(span, operation).map_err(|_| Refusal::ACCESS)
}
