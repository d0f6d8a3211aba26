//! Identifiers of hosts and ports.

use std::fmt;

/// A host of a fabric. Hosts are numbered from 0; as nodes of the topology they come first, with the same numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct HostId(pub u32);

/// A port of a fabric. Ports are numbered from 0 over all nodes; those of a node are consecutive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct PortId(pub u32);

/// A node or port within its partition: the index in the partition's list of nodes, or of ports. Hosts come first.
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
