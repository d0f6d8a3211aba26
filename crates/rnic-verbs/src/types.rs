//! The types of the verbs: handles, work requests, completions, errors.
//!
//! They follow InfiniBand volume 1, chapters 10 (objects and their states) and 11 (verbs), without attributes that only
//! hardware has.

use crate::config::Limits;
use crate::table::Id;
use rnic_transport::{BitRate, Time};
use std::borrow::Cow;
use std::net::SocketAddr;

/// A protection domain: queue pairs access only memory regions of their own protection domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pd(pub(crate) Id);

/// A completion queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CqId(pub(crate) Id);

/// A shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SrqId(pub(crate) Id);

/// A queue pair number (QPN): 24 bits, as packets carry it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Qpn(pub u32);

/// A memory region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MrId(pub(crate) Id);

/// The rights to a memory region, or of the peer of a queue pair.
///
/// ```
/// use rnic_verbs::Access;
///
/// // A region that peers read, and that the owner fills by receives.
/// let access = Access { remote_read: true, ..Access::LOCAL };
/// assert!(access.local_write && !access.remote_write);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// The device may place received messages and responses to reads and atomics here.
    pub local_write: bool,
    /// The peer may do RDMA Writes.
    pub remote_write: bool,
    /// The peer may do RDMA Reads.
    pub remote_read: bool,
    /// The peer may do atomic operations.
    pub remote_atomic: bool,
}

impl Access {
    /// The owner may send the memory; nobody may write it.
    pub const LOCAL_READ: Access =
        Access { local_write: false, remote_write: false, remote_read: false, remote_atomic: false };
    /// The owner may send the memory and receive into it.
    pub const LOCAL: Access = Access { local_write: true, ..Access::LOCAL_READ };
    /// All rights.
    pub const ALL: Access = Access { local_write: true, remote_write: true, remote_read: true, remote_atomic: true };
}

/// Address, length and keys of a memory region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MrInfo {
    /// The region.
    pub id: MrId,
    /// Address of the first byte in work requests, here and at the peer.
    pub addr: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Local key, for scatter-gather elements of the owner.
    pub lkey: u32,
    /// Remote key, for requests of peers; random.
    pub rkey: u32,
}

/// A scatter-gather element: a piece of registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Address of the first byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// Local key of the region.
    pub lkey: u32,
}

/// The operation of a send request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendOp {
    /// Send: a message for the peer's next receive.
    Send,
    /// Send with Immediate: the four bytes are in the peer's completion.
    SendImm(u32),
    /// Send with Invalidate: the peer's remote key is no longer valid afterwards.
    SendInv(u32),
    /// RDMA Write into the peer's memory.
    Write {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
    },
    /// RDMA Write with Immediate: uses up the peer's next receive, whose completion has the four bytes.
    WriteImm {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
        /// The immediate data.
        imm: u32,
    },
    /// RDMA Read of the peer's memory.
    Read {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
    },
    /// Atomic fetch-and-add on eight bytes of the peer's memory, at an address that is a multiple of 8. The response
    /// has the value before.
    FetchAdd {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
        /// The number to add, modulo 2^64.
        add: u64,
    },
    /// Atomic compare-and-swap of eight bytes of the peer's memory, at an address that is a multiple of 8. The response
    /// has the value before.
    CompareSwap {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
        /// The value to compare with.
        compare: u64,
        /// The value to store if they are equal.
        swap: u64,
    },
}

impl SendOp {
    /// Whether a response has data: reads and atomics.
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
    /// The opcode of its completion.
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

/// Flags of a send request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendFlags {
    /// The request generates a completion when it succeeds. A request that fails always generates one.
    pub signaled: bool,
    /// The completion of the receive at the peer is solicited: it triggers a notification also if the peer requested
    /// notifications of solicited completions only.
    pub solicited: bool,
    /// The request begins only when all earlier reads and atomics are complete. With IRN, when all earlier requests
    /// are: IRN may place data of a later message before data of an earlier one.
    pub fence: bool,
}

impl SendFlags {
    /// Signalled, no other flag.
    pub const SIGNALED: SendFlags = SendFlags { signaled: true, solicited: false, fence: false };
}

/// The local data of a send request.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Registered memory. The device reads it when it sends, and again when it retransmits: it must not change before
    /// the completion.
    Gather(&'a [Sge]),
    /// These bytes, which the device copies when the request is posted.
    Inline(&'a [u8]),
}

/// A work request for the send queue.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// The application's identifier, which the completion has too.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp,
    /// The local data; for reads and atomics the memory for the response.
    pub data: Data<'a>,
    /// Flags.
    pub flags: SendFlags,
}

/// A work request for a receive queue.
#[derive(Clone, Copy, Debug)]
pub struct RecvRequest<'a> {
    /// The application's identifier, which the completion has too.
    pub wr_id: u64,
    /// The memory for the message.
    pub scatter: &'a [Sge],
}

/// How a work request ended: the status codes of InfiniBand volume 1, section 11.6.2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// The request succeeded.
    Success,
    /// The message is longer than the receive, or a length is not allowed.
    LocalLength,
    /// The queue pair could not carry the request out, for instance because a completion queue overflowed.
    LocalQpOperation,
    /// The memory of a scatter-gather element was deregistered, or does not admit the access.
    LocalProtection,
    /// The queue pair went into the error state before the request completed; the request may have been carried out.
    WorkRequestFlushed,
    /// A response does not match its request.
    BadResponse,
    /// NAK (invalid request): the peer cannot carry out such a request.
    RemoteInvalidRequest,
    /// NAK (remote access error): the peer's memory does not admit the access.
    RemoteAccess,
    /// NAK (remote operational error): the peer failed to carry the request out.
    RemoteOperation,
    /// No response after all retries.
    TransportRetryExceeded,
    /// RNR NAKs after all retries: the peer has no receive.
    RnrRetryExceeded,
}

/// The operation that a completion is about.
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

/// A completion: how a work request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Identifier of the work request.
    pub wr_id: u64,
    /// How the work request ended. Unless it succeeded, only `wr_id`, `qpn` and `time` have a meaning.
    pub status: Status,
    /// The operation.
    pub opcode: Opcode,
    /// Bytes received, or read from the peer.
    pub byte_len: u32,
    /// Immediate data of the received message.
    pub imm: Option<u32>,
    /// The remote key of this side that the message invalidated.
    pub invalidated: Option<u32>,
    /// The queue pair.
    pub qpn: Qpn,
    /// When the device generated the completion, by the device's clock: for an acknowledged request when its ACK was
    /// processed, for a request of an unreliable connection when its last packet was handed out, for a receive when the
    /// last packet of its message was processed.
    pub time: Time,
}

// A completion is copied into its queue and out of it for every signalled request.
const _: () = assert!(size_of::<Completion>() == 48);

impl Completion {
    /// An empty completion, for polling to overwrite.
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

/// An asynchronous event of a queue pair or a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The first packet arrived while the queue pair was in RTR: the peer is connected.
    CommunicationEstablished(Qpn),
    /// The send queue is drained: no message is outstanding.
    SendQueueDrained(Qpn),
    /// The queue pair went into the error state for this reason.
    QueuePairError(Qpn, Status),
    /// A completion queue overflowed: completions are lost, and its queue pairs are in the error state.
    CompletionQueueOverflow(CqId),
    /// A shared receive queue holds fewer receives than its limit, which is reset to 0.
    SharedReceiveLimit(SrqId),
    /// A queue pair in the error state takes no more receives from its shared receive queue.
    LastReceiveTaken(Qpn),
}

/// State of a queue pair (InfiniBand volume 1, section 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// RESET: takes no work.
    Reset,
    /// INIT: takes receives.
    Init,
    /// RTR: receives packets.
    ReadyToReceive,
    /// RTS: sends requests, too.
    ReadyToSend,
    /// SQD: the send queue is drained or draining; no message begins.
    SendQueueDrain,
    /// SQE: a send of an unreliable connection failed. The queue pair still receives.
    SendQueueError,
    /// ERR: all work is flushed.
    Error,
}

/// The transport service of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Service {
    /// Reliable connection with the loss recovery of RoCE, go-back-N: interoperates with every RoCEv2 endpoint.
    #[default]
    Rc,
    /// Reliable connection with the loss recovery of IRN, selective retransmission: both ends must be rnic's.
    Irn,
    /// Unreliable connection: Sends and RDMA Writes. A message of which a packet is lost is dropped.
    Uc,
}

/// Sizes of a queue pair's queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacities {
    /// Send requests that are not completed.
    pub send_wr: u32,
    /// Receives that are not completed; 0 with a shared receive queue.
    pub recv_wr: u32,
    /// Scatter-gather elements of a send.
    pub send_sge: u32,
    /// Scatter-gather elements of a receive.
    pub recv_sge: u32,
    /// Bytes of inline data of a send.
    pub inline: u32,
}

impl Default for Capacities {
    fn default() -> Capacities {
        Capacities { send_wr: 128, recv_wr: 128, send_sge: 4, recv_sge: 4, inline: 256 }
    }
}

/// The attributes with which a queue pair is created.
#[derive(Clone, Debug)]
pub struct QpInit {
    /// Transport service.
    pub service: Service,
    /// Completion queue of sends.
    pub send_cq: CqId,
    /// Completion queue of receives.
    pub recv_cq: CqId,
    /// Shared receive queue that replaces the queue pair's own.
    pub srq: Option<SrqId>,
    /// Sizes of its queues.
    pub capacities: Capacities,
    /// Every send is signalled, whatever its flags.
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
    /// Any state to RESET: outstanding work disappears without completions, and the queue pair can be connected anew.
    /// The new connection should begin with other PSNs, because packets of the old one may still arrive.
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

/// The maximum path MTU in bytes of payload: that of IRN in IP packets of 9,000 bytes.
pub const MAX_MTU: u32 = 8_960;

/// The attributes of the transition from INIT to RTR: the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The peer's IP address and UDP port. Packets from another IP address are dropped; their source port may be any.
    pub peer: SocketAddr,
    /// QPN of the peer's queue pair.
    pub peer_qpn: Qpn,
    /// Payload bytes of a full packet: 256, 512, 1024, 2048 or 4096; with UC of rnic at both ends also 8192; with IRN
    /// any multiple of 4 from 256 to [`MAX_MTU`].
    pub path_mtu: u32,
    /// First PSN of the peer, 24 bits.
    pub recv_psn: u32,
    /// Maximum reads and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u8,
    /// Code of the minimum time that the peer waits after an RNR NAK (0 to 31; 0 is the longest, 655 ms).
    pub min_rnr_timer: u8,
    /// Differentiated services code point of the packets sent, 0 to 63.
    pub dscp: u8,
}

/// The attributes of the transition from RTR to RTS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendAttributes {
    /// First PSN of this side, 24 bits.
    pub send_psn: u32,
    /// Retransmission timeout of RC: 4.096 us times 2^n for n from 1 to 31; 0: none.
    pub timeout: u8,
    /// Maximum retransmissions of a request after timeouts, 0 to 7.
    pub retry_count: u8,
    /// Maximum retransmissions of a request after RNR NAKs, 0 to 6; 7: without limit.
    pub rnr_retry: u8,
    /// Maximum reads and atomics outstanding.
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
    /// The handle names no object, or one that was destroyed.
    #[error("there is no {0}")]
    Unknown(&'static str),
    /// The objects belong to different protection domains.
    #[error("the {0} belongs to another protection domain")]
    OtherDomain(&'static str),
    /// The object is in use.
    #[error("the {what} is in use by {by}")]
    Busy {
        /// The object.
        what: &'static str,
        /// The objects that use it.
        by: &'static str,
    },
    /// A limit of the device is reached.
    #[error("at most {limit} {what} are possible")]
    Limit {
        /// The objects that are limited.
        what: &'static str,
        /// Their maximum number.
        limit: u64,
    },
    /// The queue is full.
    #[error("the {0} is full")]
    Full(&'static str),
    /// The queue pair's state does not admit the verb.
    #[error("a queue pair in state {state:?} cannot {action}")]
    WrongState {
        /// The state of the queue pair.
        state: State,
        /// The action that the state does not admit.
        action: &'static str,
    },
    /// An attribute is out of range.
    #[error("{name} is {value}; it must be {possible}")]
    Range {
        /// The attribute.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The values that are accepted.
        possible: Cow<'static, str>,
    },
    /// The service or the connection does not support the operation.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A scatter-gather element cannot be used.
    #[error("scatter-gather element {index} cannot be used: {why}")]
    Memory {
        /// The index of the element, from 0.
        index: usize,
        /// The reason.
        why: AccessError,
    },
    /// A region's memory admits no such access.
    #[error("the memory cannot be accessed: {0}")]
    Access(#[from] AccessError),
    /// The completion queue has overflowed: no completions follow.
    #[error("the completion queue overflowed: completions are lost")]
    Overflow,
    /// The congestion control refuses its settings.
    #[error("{0}")]
    Congestion(String),
    /// The device does not work any more.
    #[error("the device is closed: {0}")]
    Closed(String),
}

/// Why an access to registered memory is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AccessError {
    /// No region has this key.
    #[error("no region has this key")]
    Key,
    /// The key was invalidated for remote access.
    #[error("the key was invalidated")]
    Invalidated,
    /// The region belongs to another protection domain.
    #[error("the region belongs to another protection domain")]
    Domain,
    /// The access goes beyond the region.
    #[error("it goes beyond the region")]
    Bounds,
    /// The region does not admit this kind of access.
    #[error("the region was registered without the right to this access")]
    Rights,
    /// An atomic operation needs an address that is a multiple of 8.
    #[error("the address of an atomic operation must be a multiple of 8")]
    Alignment,
}
