//! Identifiers of hosts and ports.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Number of a host of a fabric, from 0. Hosts are the first nodes of a topology, so a host's number is also its node
/// number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[repr(transparent)]
pub struct HostId(pub u32);

/// Number of a port, from 0, counted over all nodes of a fabric. The ports of one node have consecutive numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct PortId(pub u32);

/// Number of a node, or of a port, within its partition: the index in the partition's list of nodes, or in its list of
/// ports. Hosts and their ports come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct SlotId(pub u32);

impl HostId {
    /// The number as an index.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl PortId {
    /// The port with this number.
    #[inline(always)]
    pub fn new(index: usize) -> PortId {
        PortId(index as u32)
    }
    /// The number as an index.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl SlotId {
    /// The slot with this number.
    #[inline(always)]
    pub fn new(index: usize) -> SlotId {
        SlotId(index as u32)
    }
    /// The number as an index.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
