//! The types in the arguments and results of verbs: handles, work requests, completions, errors.
//!
//! The types follow InfiniBand volume 1, chapters 10 (objects and their states) and 11 (verbs), without attributes that
//! have a meaning only in hardware.

mod datagram;
mod error;
mod memory;
mod queue_pair;
mod statistics;
mod window;
mod work;

pub use datagram::{AddressHandle, DatagramAttributes, GRH_LEN, NetworkHeader, Recipient, Source};
pub(crate) use error::range;
pub use error::{AccessError, VerbsError};
pub use memory::{Access, MrInfo, Sge};
pub use queue_pair::{
    Capacities, Connection, Extras, MAX_MTU, QpChange, QpInfo, QpInit, SendAttributes, Service, State, Transition,
    URGENT_DSCP,
};
pub use statistics::{QpCounters, QpStatistics, SenderState};
pub use window::{Bind, WindowId, WindowInfo, WindowKind};
pub use work::{Completion, Data, Opcode, RecvRequest, SendFlags, SendOp, SendRequest, Status};

use crate::config::Limits;
use crate::table::Id;
use rnic_transport::{BitRate, Time};

/// Handle of a protection domain. A queue pair accesses only memory regions of its own protection domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pd(pub(crate) Id);

/// Handle of a completion queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CqId(pub(crate) Id);

/// Handle of a shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SrqId(pub(crate) Id);

/// A queue pair number (QPN), 24 bits. It is the handle of a queue pair, and the number that packets carry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Qpn(pub u32);

/// Handle of a memory region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MrId(pub(crate) Id);

/// An asynchronous event of a queue pair or a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The peer's first packet arrived while the queue pair was in RTR, so the peer is connected.
    CommunicationEstablished(Qpn),
    /// The send queue of a queue pair in state SQD is drained: no message is outstanding.
    SendQueueDrained(Qpn),
    /// The queue pair went into the error state; the status gives the reason.
    QueuePairError(Qpn, Status),
    /// A completion queue overflowed. Completions are lost, and the queue pairs that use the queue are in the error
    /// state.
    CompletionQueueOverflow(CqId),
    /// A shared receive queue holds fewer receives than the limit that the application set. The event resets the limit
    /// to 0, so that it occurs once.
    SharedReceiveLimit(SrqId),
    /// A queue pair in the error state takes no more receives from its shared receive queue.
    LastReceiveTaken(Qpn),
}

/// Sizes and state of a shared receive queue, as [`Device::query_srq`](crate::Device::query_srq) returns them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqInfo {
    /// Maximum number of receives in the queue.
    pub capacity: u32,
    /// Maximum number of scatter-gather elements of a receive.
    pub max_sge: u32,
    /// The limit of [`Device::arm_srq`](crate::Device::arm_srq); 0 if none is set, or the event has occurred.
    pub limit: u32,
    /// Number of receives in the queue.
    pub receives: u32,
}

/// Limits and granularities of a device, as [`Verbs::query_device`](crate::Verbs::query_device) returns them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Maximum number and size of the device's objects.
    pub limits: Limits,
    /// Rate of the device's link.
    pub line_rate: BitRate,
    /// Granularity of rate limits: the device rounds a limit down to a multiple of this rate, but not to 0.
    pub rate_granularity: BitRate,
    /// Resolution of the timestamps in completions.
    pub time_granularity: Time,
}
