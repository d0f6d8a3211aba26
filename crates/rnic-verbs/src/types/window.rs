//! Memory windows: handles, kinds, and the request that binds one.

use super::{Access, MrId};
use crate::table::Id;

/// Handle of a memory window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WindowId(pub(crate) Id);

/// The kind of a memory window (InfiniBand volume 1, section 10.6.7.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WindowKind {
    /// Type 1: the device chooses the remote key of each binding
    /// ([`Device::next_window_rkey`](crate::Device::next_window_rkey)). Peers may use the key through every queue pair
    /// of the protection domain, until the window is bound again.
    Type1,
    /// Type 2 (2B of the specification): the application chooses the low eight bits of the remote key. Peers may use
    /// the key only through the queue pair to which the binding was posted, until it is invalidated.
    Type2,
}

/// Handle, kind and first remote key of a memory window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowInfo {
    /// Handle of the window.
    pub id: WindowId,
    /// Kind of the window.
    pub kind: WindowKind,
    /// The remote key, which gives no access yet. Its upper 24 bits are those of the remote keys of all bindings; its
    /// low eight bits are 0.
    pub rkey: u32,
}

/// The request to bind a memory window to a part of a region, with [`SendOp::Bind`](super::SendOp::Bind).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bind {
    /// The window.
    pub window: WindowId,
    /// Remote key of this binding. Only the low eight bits count: the upper 24 bits are those of the window, whatever
    /// `rkey` has there. [`Device::next_window_rkey`](crate::Device::next_window_rkey) has a key.
    pub rkey: u32,
    /// The region, which needs the right [`Access::bind_window`]. `None`, or a length of 0: the binding of a window of
    /// type 1 ends.
    pub region: Option<MrId>,
    /// Virtual address, in the region, of the window's first byte.
    pub addr: u64,
    /// Length of the window in bytes.
    pub len: u64,
    /// Rights of peers through the window: `remote_write`, `remote_read` and `remote_atomic`. The region needs
    /// `local_write` for the first and the last of them, but no remote right.
    pub access: Access,
    /// Whether peers count addresses from the window's first byte, which then has address 0; only for type 2.
    pub zero_based: bool,
}
