//! What a responder owes the requester.

use crate::memory::{Memory, Want};
use crate::types::{AccessError, Pd};
use rnic_transport::Psn;
use rnic_wire::{AtomicEth, NakCode};
use std::collections::VecDeque;

/// A reply of a reliable connection, in order of sequence numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    /// Everything up to here is carried out.
    Ack(Psn),
    /// This packet is missing.
    OutOfSequence(Psn),
    /// There is no receive for this packet.
    NotReady(Psn),
    /// This request is refused.
    Refused(Psn, NakCode),
    /// The answer to an atomic operation.
    Atomic { psn: Psn, value: u64 },
    /// The answer to a read: `sent` of `count` packets are out.
    Read { psn: Psn, addr: u64, rkey: u32, len: u32, sent: u32, count: u32 },
}

impl Reply {
    /// Its first sequence number.
    pub(crate) fn psn(&self) -> Psn {
        match *self {
            Reply::Ack(psn) | Reply::OutOfSequence(psn) | Reply::NotReady(psn) | Reply::Refused(psn, _) => psn,
            Reply::Atomic { psn, .. } | Reply::Read { psn, .. } => psn,
        }
    }

    /// Whether it answers a read or atomic.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Reply::Atomic { .. } | Reply::Read { .. })
    }
}

/// The result of an atomic operation, kept to be repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource {
    pub(crate) psn: Psn,
    pub(crate) value: u64,
}

/// Results of the last atomic operations: as many as the peer may have outstanding.
pub(crate) struct Resources {
    kept: VecDeque<Resource>,
    most: usize,
}

impl Resources {
    pub(crate) fn new(most: u8) -> Resources {
        Resources { kept: VecDeque::new(), most: usize::from(most) }
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn keep(&mut self, resource: Resource) {
        if self.kept.len() >= self.most {
            self.kept.pop_front();
        }
        self.kept.push_back(resource);
    }

    pub(crate) fn find(&self, psn: Psn) -> Option<u64> {
        self.kept.iter().find(|resource| resource.psn == psn).map(|resource| resource.value)
    }
}

/// Carries out an atomic operation and returns what was there. Values lie in memory in the host's byte order.
pub(crate) fn atomic(memory: &mut Memory, pd: Pd, request: &AtomicEth, compare: bool) -> Result<u64, AccessError> {
    let span = memory.remote(pd, request.rkey, request.va, 8, Want::RemoteAtomic)?;
    let bytes = memory.slice_mut(span);
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
