//! Memory: rights, regions, scatter-gather elements.

use super::MrId;

/// Access rights to memory: either the rights to a memory region, or the rights that the peer has through a queue pair.
///
/// ```
/// use rnic_verbs::Access;
///
/// // Rights to a region from which peers may read, and into which the owner receives messages.
/// let access = Access { remote_read: true, ..Access::LOCAL };
/// assert!(access.local_write && !access.remote_write);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// The device may place received messages in the region, and the responses to reads and atomics that the region's
    /// owner requested.
    pub local_write: bool,
    /// The peer may do RDMA Writes.
    pub remote_write: bool,
    /// The peer may do RDMA Reads.
    pub remote_read: bool,
    /// The peer may do atomic operations.
    pub remote_atomic: bool,
    /// The peer may invalidate the remote key of the region with a Send with Invalidate. The right matters for regions,
    /// not for queue pairs.
    pub remote_invalidate: bool,
    /// The owner may bind memory windows to the region. The right matters for regions, not for queue pairs.
    pub bind_window: bool,
}

impl Access {
    /// Rights to a region from which its owner may send. Neither the owner's receives nor peers may write it.
    pub const LOCAL_READ: Access = Access {
        local_write: false,
        remote_write: false,
        remote_read: false,
        remote_atomic: false,
        remote_invalidate: false,
        bind_window: false,
    };
    /// Rights to a region from which its owner may send, and into which it may receive. Peers have no access.
    pub const LOCAL: Access = Access { local_write: true, ..Access::LOCAL_READ };
    /// All rights.
    pub const ALL: Access = Access {
        local_write: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        remote_invalidate: true,
        bind_window: true,
    };
}

/// Address, length and keys of a memory region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MrInfo {
    /// Handle of the region.
    pub id: MrId,
    /// Virtual address of the region's first byte, as in the work requests of this side and of the peer.
    pub addr: u64,
    /// Length of the region in bytes.
    pub len: u64,
    /// Local key (lkey), for the owner's scatter-gather elements.
    pub lkey: u32,
    /// Remote key (rkey), for the requests of peers. The key is random, so the application must tell it to a peer that
    /// is to access the region.
    pub rkey: u32,
}

/// A scatter-gather element: a range of bytes in a memory region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Virtual address of the first byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// Local key of the region.
    pub lkey: u32,
}
