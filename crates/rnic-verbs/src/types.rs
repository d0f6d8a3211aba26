//! The words of the verbs: handles, work requests, completions, errors.
//!
//! They are those of InfiniBand volume 1, chapters 10 (objects and their states) and 11 (verbs), without what only hardware has.

use crate::config::Limits;
use crate::table::Id;
use rnic_transport::{BitRate, Time};
use std::net::SocketAddr;

/// A protection domain: only what belongs to the same one works together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pd(pub(crate) Id);

/// A completion queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CqId(pub(crate) Id);

/// A shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SrqId(pub(crate) Id);

/// A queue pair's number, 24 bits, as packets carry it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Qpn(pub u32);

/// A memory region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MrId(pub(crate) Id);

/// What may be done with a memory region, or through a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// Receives and the answers to reads and atomics may be placed here.
    pub local_write: bool,
    /// The peer may write.
    pub remote_write: bool,
    /// The peer may read.
    pub remote_read: bool,
    /// The peer may do atomic operations.
    pub remote_atomic: bool,
}

impl Access {
    /// The owner reads; nobody writes.
    pub const LOCAL_READ: Access =
        Access { local_write: false, remote_write: false, remote_read: false, remote_atomic: false };
    /// The owner reads and writes.
    pub const LOCAL: Access = Access { local_write: true, ..Access::LOCAL_READ };
    /// Everything is allowed.
    pub const ALL: Access = Access { local_write: true, remote_write: true, remote_read: true, remote_atomic: true };
}

/// Where a memory region lies and the keys that open it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MrInfo {
    /// The region.
    pub id: MrId,
    /// Address of its first byte, for work requests here and for the peer.
    pub addr: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Key for scatter-gather elements here.
    pub lkey: u32,
    /// Key for the peer; random.
    pub rkey: u32,
}

/// A piece of registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Address of the first byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// Local key of the region.
    pub lkey: u32,
}

/// What a posted send does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendOp {
    /// A message for the peer's next receive.
    Send,
    /// The same with four bytes for its completion.
    SendImm(u32),
    /// The same, and the peer's key is no longer valid for remote access.
    SendInv(u32),
    /// Writes the peer's memory.
    Write {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
    },
    /// The same, and uses up the peer's next receive for a completion with four bytes.
    WriteImm {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
        /// The four bytes.
        imm: u32,
    },
    /// Reads the peer's memory.
    Read {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
    },
    /// Adds to eight bytes of the peer's memory, at an address that is a multiple of 8; brings back what was there.
    FetchAdd {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
        /// What to add, modulo 2^64.
        add: u64,
    },
    /// Replaces eight bytes of the peer's memory if they equal `compare`; brings back what was there.
    CompareSwap {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
        /// What must be there.
        compare: u64,
        /// What to store then.
        swap: u64,
    },
}

impl SendOp {
    /// Whether an answer brings data: reads and atomics.
    pub const fn is_fetching(&self) -> bool {
        matches!(self, SendOp::Read { .. } | SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. })
    }
    /// Whether it is an atomic operation.
    pub const fn is_atomic(&self) -> bool {
        matches!(self, SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. })
    }
    /// Whether it uses up one of the peer's receives.
    pub const fn takes_receive(&self) -> bool {
        matches!(self, SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) | SendOp::WriteImm { .. })
    }
    /// What its completion says it was.
    pub const fn completion(&self) -> Opcode {
        match self {
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) => Opcode::Send,
            SendOp::Write { .. } | SendOp::WriteImm { .. } => Opcode::Write,
            SendOp::Read { .. } => Opcode::Read,
            SendOp::FetchAdd { .. } => Opcode::FetchAdd,
            SendOp::CompareSwap { .. } => Opcode::CompareSwap,
        }
    }
}

/// How a send is treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendFlags {
    /// Its success is reported; errors always are.
    pub signaled: bool,
    /// The completion that it causes at the peer raises an event even if only solicited ones were asked for.
    pub solicited: bool,
    /// It starts only when earlier reads and atomics have ended. With IRN, when everything earlier has: there data of a later
    /// message can be placed before data of an earlier one.
    pub fence: bool,
}

impl SendFlags {
    /// Nothing but a completion.
    pub const SIGNALED: SendFlags = SendFlags { signaled: true, solicited: false, fence: false };
}

/// The local bytes of a send.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Registered memory, taken when it is sent: it must stay as it is until the completion.
    Gather(&'a [Sge]),
    /// These bytes, copied now.
    Inline(&'a [u8]),
}

/// A work request for the send queue.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// With what: for reads and atomics the place for the answer.
    pub data: Data<'a>,
    /// How.
    pub flags: SendFlags,
}

/// A work request for a receive queue.
#[derive(Clone, Copy, Debug)]
pub struct RecvRequest<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where the message goes.
    pub scatter: &'a [Sge],
}

/// How a work request ended: the status codes of InfiniBand volume 1, section 11.6.2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// It was carried out.
    Success,
    /// The message is longer than the receive, or a length is not allowed.
    LocalLength,
    /// The queue pair was in a state that does not do this.
    LocalQpOperation,
    /// A scatter-gather element is not within a region that admits it.
    LocalProtection,
    /// The queue pair is in error; the request was not carried out, or nobody knows.
    WorkRequestFlushed,
    /// The answer does not fit the question.
    BadResponse,
    /// The peer found the request invalid.
    RemoteInvalidRequest,
    /// The peer's memory does not admit it.
    RemoteAccess,
    /// The peer could not carry it out.
    RemoteOperation,
    /// The peer did not answer as often as it was asked.
    TransportRetryExceeded,
    /// The peer had no receive as often as it was asked.
    RnrRetryExceeded,
}

/// What a completion is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Opcode {
    /// A Send, of any kind.
    Send,
    /// An RDMA Write, of any kind.
    Write,
    /// An RDMA Read.
    Read,
    /// An atomic fetch-and-add.
    FetchAdd,
    /// An atomic compare-and-swap.
    CompareSwap,
    /// A receive that took a Send.
    Recv,
    /// A receive that a Write with immediate data used up.
    RecvWithImmediate,
}

/// The end of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Of the request.
    pub wr_id: u64,
    /// How it ended. Unless with success, only `wr_id`, `qpn` and the queue that it was on mean anything.
    pub status: Status,
    /// What it was.
    pub opcode: Opcode,
    /// Bytes received, or fetched.
    pub byte_len: u32,
    /// Immediate data that came.
    pub imm: Option<u32>,
    /// The local remote key that the peer invalidated.
    pub invalidated: Option<u32>,
    /// The queue pair.
    pub qpn: Qpn,
    /// When the device generated the completion, by the device's clock: for an acknowledged request when its ACK was processed, for a
    /// request of an unreliable connection when its last packet was handed out, for a receive when the last packet of its message was
    /// processed.
    pub time: Time,
}

// A completion is copied into its queue and out of it for every signalled request.
const _: () = assert!(size_of::<Completion>() == 48);

impl Completion {
    /// A place for one, for polling to fill.
    pub const BLANK: Completion = Completion {
        wr_id: 0,
        status: Status::Success,
        opcode: Opcode::Send,
        byte_len: 0,
        imm: None,
        invalidated: None,
        qpn: Qpn(0),
        time: Time::ZERO,
    };
}

/// What happens to a queue pair or queue as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The first packet came in before the queue pair was ready to send: the connection is there.
    CommunicationEstablished(Qpn),
    /// The send queue is drained: nothing is outstanding.
    SendQueueDrained(Qpn),
    /// The queue pair went into the error state, and why.
    QueuePairError(Qpn, Status),
    /// A completion queue has no room for a completion: it and its queue pairs are in error.
    CompletionQueueOverflow(CqId),
    /// Fewer receives than the limit are left; the limit is off.
    SharedReceiveLimit(SrqId),
    /// A queue pair in error takes no more receives from its shared receive queue.
    LastReceiveTaken(Qpn),
}

/// State of a queue pair (InfiniBand volume 1, section 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// Takes no work.
    Reset,
    /// Takes receives.
    Init,
    /// Ready to receive.
    ReadyToReceive,
    /// Ready to send.
    ReadyToSend,
    /// Send queue drained, or draining: starts nothing new.
    SendQueueDrain,
    /// A send failed on an unreliable connection: the send queue is in error.
    SendQueueError,
    /// In error: everything is flushed.
    Error,
}

/// Service of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Service {
    /// Reliable connection with the loss recovery of RoCE: go-back-N. Works with every RoCEv2 endpoint.
    #[default]
    Rc,
    /// Reliable connection with IRN's loss recovery: both ends must be of this kind.
    Irn,
    /// Unreliable connection: Sends and Writes, each whole or not at all.
    Uc,
}

/// Sizes of a queue pair's queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacities {
    /// Sends that are not completed.
    pub send_wr: u32,
    /// Receives that are not completed; 0 with a shared receive queue.
    pub recv_wr: u32,
    /// Scatter-gather elements of a send.
    pub send_sge: u32,
    /// Scatter-gather elements of a receive.
    pub recv_sge: u32,
    /// Bytes of an inline send.
    pub inline: u32,
}

impl Default for Capacities {
    fn default() -> Capacities {
        Capacities { send_wr: 128, recv_wr: 128, send_sge: 4, recv_sge: 4, inline: 256 }
    }
}

/// What a queue pair is made of.
#[derive(Clone, Debug)]
pub struct QpInit {
    /// Service.
    pub service: Service,
    /// Where sends complete.
    pub send_cq: CqId,
    /// Where receives complete.
    pub recv_cq: CqId,
    /// Receives come from here instead of its own queue.
    pub srq: Option<SrqId>,
    /// Sizes.
    pub capacities: Capacities,
    /// Every send is signalled.
    pub signal_all: bool,
}

/// A change of a queue pair's state, with the attributes that belong to it (InfiniBand volume 1, section 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transition {
    /// RESET to INIT: receives can be posted. The peer may do what [`Access`] says through this queue pair.
    Init(Access),
    /// INIT to RTR: the queue pair is connected and receives packets.
    ReadyToReceive(Connection),
    /// RTR to RTS: the queue pair sends. From SQD or SQE: it sends again, and the attributes are without effect.
    ReadyToSend(SendAttributes),
    /// RTS to SQD: messages that have begun are sent to their end, no other begins; see [`Event::SendQueueDrained`].
    SendQueueDrain,
    /// Any state to ERR: all outstanding requests and receives complete with [`Status::WorkRequestFlushed`].
    Error,
    /// Any state to RESET: outstanding work disappears without completions, and the queue pair can be connected anew. The new connection
    /// should begin with other PSNs, because packets of the old one may still arrive.
    Reset,
}

/// What a queue pair is made of and where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpInfo {
    /// State.
    pub state: State,
    /// Service.
    pub service: Service,
    /// Sizes of its queues.
    pub capacities: Capacities,
    /// The peer, from RTR on.
    pub connection: Option<Connection>,
    /// Rate limit; `None`: the link's rate.
    pub rate: Option<BitRate>,
    /// Send requests that are not completed, unsignalled ones included.
    pub sends: u32,
    /// Receives in its own queue that are not completed; 0 with a shared receive queue.
    pub receives: u32,
}

/// What a device offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Maximum number and size of its objects.
    pub limits: Limits,
    /// Rate of its link.
    pub line_rate: BitRate,
    /// Rate limits are multiples of this; others are rounded down, but not to 0.
    pub rate_granularity: BitRate,
    /// Resolution of completion timestamps.
    pub time_granularity: Time,
}

/// The largest path MTU: that of IRN, in packets of 9,000 bytes.
pub const MAX_MTU: u32 = 8_960;

/// What INIT to RTR sets: the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The peer's address; packets from another are dropped, whatever their source port.
    pub peer: SocketAddr,
    /// The peer's queue pair.
    pub peer_qpn: Qpn,
    /// Payload bytes of a full packet: 256, 512, 1024, 2048 or 4096; with UC of rnic at both ends also 8192; with IRN any multiple of 4
    /// from 256 to [`MAX_MTU`].
    pub path_mtu: u32,
    /// The peer's first PSN.
    pub recv_psn: u32,
    /// Reads and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u8,
    /// Code of the least time that a peer waits for a missing receive (0 to 31; 0 is the longest, 655 ms).
    pub min_rnr_timer: u8,
    /// Differentiated services code point of the packets sent, 0 to 63.
    pub dscp: u8,
}

/// What RTR to RTS sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendAttributes {
    /// First PSN here.
    pub send_psn: u32,
    /// Acknowledgement timeout: 4.096 us times 2^n, n 1 to 31; 0: none.
    pub timeout: u8,
    /// How often a request is sent again for want of an answer, 0 to 7.
    pub retry_count: u8,
    /// How often a request is sent again for want of a receive, 0 to 6; 7: without limit.
    pub rnr_retry: u8,
    /// Reads and atomics outstanding at once.
    pub max_rd_atomic: u8,
}

impl Default for SendAttributes {
    fn default() -> SendAttributes {
        SendAttributes { send_psn: 0, timeout: 14, retry_count: 7, rnr_retry: 7, max_rd_atomic: 16 }
    }
}

/// Why a verb was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VerbsError {
    /// There is no such thing, or no more.
    #[error("there is no {0}")]
    Unknown(&'static str),
    /// Parts of different protection domains.
    #[error("the {0} belongs to another protection domain")]
    OtherDomain(&'static str),
    /// It is still in use.
    #[error("the {what} is in use by {by}")]
    Busy {
        /// What.
        what: &'static str,
        /// By what.
        by: &'static str,
    },
    /// A limit of the device is reached.
    #[error("no more than {limit} {what} are possible")]
    Limit {
        /// What.
        what: &'static str,
        /// How many.
        limit: u64,
    },
    /// A queue has no room.
    #[error("the {0} is full")]
    Full(&'static str),
    /// The queue pair's state does not admit it.
    #[error("a queue pair in state {state:?} cannot {action}")]
    WrongState {
        /// State that it is in.
        state: State,
        /// What it cannot.
        action: &'static str,
    },
    /// An attribute is out of range.
    #[error("{name} is {value}, possible is {possible}")]
    Range {
        /// The attribute.
        name: &'static str,
        /// Its value.
        value: u64,
        /// What is possible.
        possible: &'static str,
    },
    /// The operation does not exist here.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A scatter-gather element is not within a region that admits it.
    #[error("scatter-gather element {index} is not within memory that admits it: {why}")]
    Memory {
        /// Which one.
        index: usize,
        /// Why.
        why: AccessError,
    },
    /// A region's memory admits no such access.
    #[error("the memory cannot be accessed: {0}")]
    Access(#[from] AccessError),
    /// The completion queue has overflowed and is dead.
    #[error("the completion queue overflowed: completions are lost")]
    Overflow,
    /// The congestion control cannot be had with these settings.
    #[error("{0}")]
    Congestion(String),
    /// The device does not work any more.
    #[error("the device is closed: {0}")]
    Closed(String),
}

/// Why memory may not be touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AccessError {
    /// No region has this key.
    #[error("no region has this key")]
    Key,
    /// The key was invalidated for remote access.
    #[error("the key was invalidated")]
    Invalidated,
    /// The region is of another protection domain.
    #[error("the region belongs to another protection domain")]
    Domain,
    /// Not all of it lies within the region.
    #[error("not all of it lies within the region")]
    Bounds,
    /// The region does not admit this kind of access.
    #[error("the region does not admit this access")]
    Rights,
    /// An atomic operation needs an address that is a multiple of 8.
    #[error("the address of an atomic operation is a multiple of 8")]
    Alignment,
}
