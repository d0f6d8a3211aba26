//! The types in the arguments and results of verbs: handles, work requests, completions, errors.
//!
//! The types follow InfiniBand volume 1, chapters 10 (objects and their states) and 11 (verbs), without attributes that
//! have a meaning only in hardware.

mod datagram;
mod window;

pub use datagram::{AddressHandle, DatagramAttributes, GRH_LEN, NetworkHeader, Recipient, Source};
pub use window::{Bind, WindowId, WindowInfo, WindowKind};

use crate::config::Limits;
use crate::table::Id;
use rnic_transport::{BitRate, Time, Timeouts};
use std::borrow::Cow;
use std::net::SocketAddr;

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

/// The operation of a send request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendOp {
    /// Send: a message into the memory of the peer's next receive.
    Send,
    /// Send with Immediate: a Send with four bytes that the completion of the peer's receive carries.
    SendImm(u32),
    /// Send with Invalidate: a Send that makes the given remote key of the peer invalid.
    SendInv(u32),
    /// RDMA Write into the peer's memory.
    Write {
        /// Virtual address in the peer's memory.
        addr: u64,
        /// Remote key of the peer's memory region.
        rkey: u32,
    },
    /// RDMA Write with Immediate: an RDMA Write that consumes the peer's next receive. The completion of this receive
    /// carries the four bytes of immediate data.
    WriteImm {
        /// Virtual address in the peer's memory.
        addr: u64,
        /// Remote key of the peer's memory region.
        rkey: u32,
        /// The immediate data.
        imm: u32,
    },
    /// RDMA Read of the peer's memory.
    Read {
        /// Virtual address in the peer's memory.
        addr: u64,
        /// Remote key of the peer's memory region.
        rkey: u32,
    },
    /// Atomic fetch-and-add on eight bytes of the peer's memory, at an address that is a multiple of 8. The response
    /// carries the value before the addition.
    FetchAdd {
        /// Virtual address in the peer's memory.
        addr: u64,
        /// Remote key of the peer's memory region.
        rkey: u32,
        /// The number to add, modulo 2^64.
        add: u64,
    },
    /// Atomic compare-and-swap of eight bytes of the peer's memory, at an address that is a multiple of 8. The response
    /// carries the value before the operation.
    CompareSwap {
        /// Virtual address in the peer's memory.
        addr: u64,
        /// Remote key of the peer's memory region.
        rkey: u32,
        /// The value with which the memory's value is compared.
        compare: u64,
        /// The value to store if the memory's value equals `compare`.
        swap: u64,
    },
    /// Binds a memory window; the request's data is [`Data::Bind`]. Like [`SendOp::LocalInv`] it sends nothing, and is
    /// executed when all earlier requests of the queue pair are complete, before the next one begins.
    Bind,
    /// Local Invalidate: ends the binding of the memory window of type 2 with this remote key, which is bound to the
    /// queue pair.
    LocalInv(u32),
}

impl SendOp {
    /// Whether the response to the operation carries data: true for reads and atomics.
    pub const fn is_fetching(&self) -> bool {
        matches!(self, SendOp::Read { .. } | SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. })
    }
    /// Whether the operation is a fetch-and-add or a compare-and-swap.
    pub const fn is_atomic(&self) -> bool {
        matches!(self, SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. })
    }
    /// Whether the operation consumes a receive of the peer: true for Sends and for RDMA Write with Immediate.
    pub const fn takes_receive(&self) -> bool {
        matches!(self, SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) | SendOp::WriteImm { .. })
    }
    /// Whether the operation sends no packet.
    pub const fn is_local(&self) -> bool {
        matches!(self, SendOp::Bind | SendOp::LocalInv(_))
    }
    /// The opcode in the completion of a request with this operation.
    pub const fn completion(&self) -> Opcode {
        match self {
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) => Opcode::Send,
            SendOp::Write { .. } | SendOp::WriteImm { .. } => Opcode::Write,
            SendOp::Read { .. } => Opcode::Read,
            SendOp::FetchAdd { .. } => Opcode::FetchAdd,
            SendOp::CompareSwap { .. } => Opcode::CompareSwap,
            SendOp::Bind => Opcode::Bind,
            SendOp::LocalInv(_) => Opcode::LocalInvalidate,
        }
    }
}

/// Flags of a send request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendFlags {
    /// The request generates a completion when it succeeds. A request that fails always generates a completion.
    pub signaled: bool,
    /// The completion of the peer's receive is a solicited event: it triggers a notification also if the peer has
    /// requested notifications of solicited completions only.
    pub solicited: bool,
    /// With RC, the request begins only when all earlier reads and atomics of the queue pair are complete. With IRN, it
    /// begins only when all earlier requests are complete, because IRN may place the data of a later message before the
    /// data of an earlier message.
    pub fence: bool,
}

impl SendFlags {
    /// The request is signalled; the other flags are clear.
    pub const SIGNALED: SendFlags = SendFlags { signaled: true, solicited: false, fence: false };
}

/// Abilities of a queue pair that commodity NICs lack, and that authors of transports in host software ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extras {
    /// The packets carry the ECN codepoint ECT(0), whatever the congestion control of the queue pair, so that switches
    /// may CE-mark them. The peer's completions tell it ([`Completion::marked`]).
    pub ecn: bool,
    /// Each request may take its own path: [`Verbs::post_spread`](crate::Verbs::post_spread) gives it an entropy, from
    /// which the UDP source port of its packets follows. The receiver takes messages in any order, so both ends must
    /// have this ability. Only unreliable connections can.
    pub spread: bool,
    /// A queue pair of the service RC uses IRN if its peer has this ability too, and RC otherwise. The two agree by
    /// packets of their own before the first request, which waits for an answer for up to 250 ms.
    /// [`QpInfo::service`] tells the result.
    pub offer_irn: bool,
}

/// The local data of a send request.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Registered memory. The device reads the memory whenever it sends or retransmits a packet, so the bytes must not
    /// change before the request completes.
    Gather(&'a [Sge]),
    /// Inline data: bytes that the device copies when the request is posted.
    Inline(&'a [u8]),
    /// Of [`SendOp::Bind`], and of no other operation: what is bound.
    Bind(&'a Bind),
}

/// A work request for the send queue.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// Identifier that the application chooses, and that the request's completion carries.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp,
    /// The local data to send; for reads and atomics, the local memory in which the device places the response.
    pub data: Data<'a>,
    /// The flags signalled, solicited and fence.
    pub flags: SendFlags,
}

/// A work request for a receive queue.
#[derive(Clone, Copy, Debug)]
pub struct RecvRequest<'a> {
    /// Identifier that the application chooses, and that the request's completion carries.
    pub wr_id: u64,
    /// The memory in which the device places the received message.
    pub scatter: &'a [Sge],
}

/// The status of a completed work request, with the status codes of InfiniBand volume 1, section 11.6.2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// The request succeeded.
    Success,
    /// The received message is longer than the memory of its receive.
    LocalLength,
    /// The queue pair could not execute the request, for instance because its completion queue overflowed or the peer
    /// sent an invalid request.
    LocalQpOperation,
    /// The memory of one of the request's scatter-gather elements was deregistered, or its access rights do not
    /// suffice.
    LocalProtection,
    /// The queue pair went into the error state before the request completed. The peer may have executed the request or
    /// not.
    WorkRequestFlushed,
    /// A response does not match its read or atomic request.
    BadResponse,
    /// NAK (invalid request): the peer's queue pair does not allow the request, or the request is malformed.
    RemoteInvalidRequest,
    /// NAK (remote access error): the access to the peer's memory is not allowed (remote key, bounds or rights).
    RemoteAccess,
    /// NAK (remote operational error): the peer failed while it executed the request.
    RemoteOperation,
    /// No response arrived, and all retries after timeouts are used up.
    TransportRetryExceeded,
    /// The peer still has no posted receive, and all retries after RNR NAKs are used up.
    RnrRetryExceeded,
    /// A memory window could not be bound: it is bound already (type 2), or domain, bounds or rights do not fit.
    WindowBind,
}

/// The operation of a completed work request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Opcode {
    /// A Send, with or without Immediate or Invalidate.
    Send,
    /// An RDMA Write, with or without Immediate.
    Write,
    /// An RDMA Read.
    Read,
    /// An atomic fetch-and-add.
    FetchAdd,
    /// An atomic compare-and-swap.
    CompareSwap,
    /// A receive that a Send of the peer consumed.
    Recv,
    /// A receive that an RDMA Write with Immediate of the peer consumed.
    RecvWithImmediate,
    /// A memory window was bound.
    Bind,
    /// A memory window was invalidated by its owner.
    LocalInvalidate,
}

/// A completion: the outcome of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Identifier of the work request.
    pub wr_id: u64,
    /// Success, or the reason for the failure. Of a failed request only `wr_id`, `status`, `qpn` and `time` have a
    /// meaning.
    pub status: Status,
    /// The operation of the work request.
    pub opcode: Opcode,
    /// Of a receive: length in bytes of the message; of a datagram, with the [`GRH_LEN`] bytes before
    /// its data. Of a read or atomic: length in bytes of the response. 0 for other operations.
    pub byte_len: u32,
    /// Of a receive: immediate data of the message, if it has any.
    pub imm: Option<u32>,
    /// Of a receive that a Send with Invalidate consumed: the remote key of a local region that the message made
    /// invalid.
    pub invalidated: Option<u32>,
    /// Of a receive of a UD queue pair: the sender of the datagram.
    pub source: Option<Source>,
    /// Of a receive, except with IRN: whether a switch CE-marked (ECN) a packet of the message. Commodity NICs do not
    /// tell this.
    pub marked: bool,
    /// Of a receive of an unreliable connection that failed: whether its message failed because a switch trimmed the
    /// payload of a packet ([`Device::receive_trimmed`](crate::Device::receive_trimmed)). `imm` is then that of the
    /// message.
    pub trimmed: bool,
    /// The queue pair of the work request.
    pub qpn: Qpn,
    /// Time when the device generated the completion, by the device's clock. A request of a reliable connection
    /// completes when the device processes its ACK or response. A request of an unreliable connection or a datagram
    /// completes when [`Device::transmit`](crate::Device::transmit) returns its last packet. A receive completes when
    /// the device processes the last packet of its message.
    pub time: Time,
}

// The size is checked because every completion is copied into its queue and out of it.
const _: () = assert!(size_of::<Completion>() <= 72);

impl Completion {
    /// An empty completion, to fill the array that [`Verbs::poll_cq`](crate::Verbs::poll_cq) overwrites.
    pub const BLANK: Completion = Completion {
        wr_id: 0,
        status: Status::Success,
        opcode: Opcode::Send,
        byte_len: 0,
        imm: None,
        invalidated: None,
        source: None,
        marked: false,
        trimmed: false,
        qpn: Qpn(0),
        time: Time::ZERO,
    };
}

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

/// State of a queue pair (InfiniBand volume 1, section 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// RESET: the queue pair takes no work requests.
    Reset,
    /// INIT: the application can post receives.
    Init,
    /// RTR: the queue pair is connected (a UD queue pair has its queue key), and processes received requests.
    ReadyToReceive,
    /// RTS: the queue pair sends requests too.
    ReadyToSend,
    /// SQD (send queue drain): the queue pair finishes messages that it has begun to send, and begins no other.
    SendQueueDrain,
    /// SQE (send queue error): a send request of an unreliable connection or a datagram failed. The queue pair still
    /// receives.
    SendQueueError,
    /// ERR: all work requests complete as flushed ([`Status::WorkRequestFlushed`]), and the queue pair drops received
    /// packets.
    Error,
}

/// The transport service of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Service {
    /// Reliable connection with go-back-N, the loss recovery of RoCE. It interoperates with every RoCEv2 endpoint.
    #[default]
    Rc,
    /// Reliable connection with selective retransmission, the loss recovery of IRN ("Revisiting Network Support for
    /// RDMA", SIGCOMM 2018). Both ends must be rnic.
    Irn,
    /// Unreliable connection, for Sends and RDMA Writes. If a packet is lost, the receiver drops the whole message.
    Uc,
    /// Unreliable datagrams: Sends of one packet each, to any UD queue pair. A lost datagram is lost. It interoperates
    /// with every RoCEv2 endpoint.
    Ud,
}

impl Service {
    /// All services.
    pub const ALL: [Service; 4] = [Service::Rc, Service::Irn, Service::Uc, Service::Ud];
    /// The services whose queue pairs are connected to one peer.
    pub const CONNECTED: [Service; 3] = [Service::Rc, Service::Irn, Service::Uc];

    /// The name in messages of the out-of-band exchange and on command lines: `rc`, `irn`, `uc` or `ud`.
    pub const fn name(self) -> &'static str {
        match self {
            Service::Rc => "rc",
            Service::Irn => "irn",
            Service::Uc => "uc",
            Service::Ud => "ud",
        }
    }

    /// The service with this name.
    pub fn named(name: &str) -> Option<Service> {
        Service::ALL.into_iter().find(|service| service.name() == name)
    }
}

/// Maximum sizes of a queue pair's queues and work requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacities {
    /// Maximum number of send requests that are not completed.
    pub send_wr: u32,
    /// Maximum number of receives that are not completed; ignored with a shared receive queue.
    pub recv_wr: u32,
    /// Maximum number of scatter-gather elements of a send request.
    pub send_sge: u32,
    /// Maximum number of scatter-gather elements of a receive; ignored with a shared receive queue.
    pub recv_sge: u32,
    /// Maximum length in bytes of the inline data of a send request.
    pub inline: u32,
}

impl Default for Capacities {
    fn default() -> Capacities {
        Capacities { send_wr: 128, recv_wr: 128, send_sge: 4, recv_sge: 4, inline: 256 }
    }
}

/// The attributes that a queue pair gets when it is created.
#[derive(Clone, Debug)]
pub struct QpInit {
    /// Transport service.
    pub service: Service,
    /// Completion queue for send requests.
    pub send_cq: CqId,
    /// Completion queue for receives.
    pub recv_cq: CqId,
    /// Shared receive queue; `None`: the queue pair has a receive queue of its own.
    pub srq: Option<SrqId>,
    /// Sizes of the queue pair's queues and work requests.
    pub capacities: Capacities,
    /// Whether every send request is signalled, whatever its flags.
    pub signal_all: bool,
}

/// A change of a queue pair's state, with the attributes that the change sets (InfiniBand volume 1, section 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transition {
    /// RESET to INIT: the application can post receives. [`Access`] holds the rights of the peer through this queue
    /// pair. In state INIT the transition changes only these rights.
    Init(Access),
    /// INIT to RTR: the queue pair is connected and receives packets.
    ReadyToReceive(Connection),
    /// INIT to RTR of a UD queue pair: the queue pair receives datagrams.
    ReceiveDatagrams(DatagramAttributes),
    /// RTR to RTS: the queue pair may send requests. SQD or SQE to RTS: sending resumes, and the attributes have no
    /// effect.
    ReadyToSend(SendAttributes),
    /// RTS to RTS and SQD to SQD: changes attributes of a connected queue pair.
    Change(QpChange),
    /// RTS to SQD: the queue pair finishes messages that it has begun to send, and begins no other.
    /// [`Event::SendQueueDrained`] tells when these messages are completed.
    SendQueueDrain,
    /// Any state to ERR: all outstanding requests and receives complete with [`Status::WorkRequestFlushed`].
    Error,
    /// Any state to RESET: outstanding work requests disappear without completions, and the queue pair can be connected
    /// again. The new connection should begin with other PSNs, because packets of the old connection may still arrive.
    Reset,
}

/// New values of attributes of a connected queue pair; `None`: the attribute stays as it is (InfiniBand volume 1,
/// section 11.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpChange {
    /// Rights of the peer through this queue pair; in states RTS and SQD.
    pub access: Option<Access>,
    /// Code of the minimum time after an RNR NAK, as in [`Connection`]; in states RTS and SQD.
    pub min_rnr_timer: Option<u8>,
    /// The peer's IP address and UDP port; in state SQD once the send queue is drained, as all attributes below.
    pub peer: Option<SocketAddr>,
    /// Differentiated services code point, 0 to 63.
    pub dscp: Option<u8>,
    /// Code of RC's retransmission timeout, 0 to 31, as in [`SendAttributes`].
    pub timeout: Option<u8>,
    /// Maximum number of retries of a request after timeouts, 0 to 7.
    pub retry_count: Option<u8>,
    /// Maximum number of retries of a request after RNR NAKs, 0 to 6; 7 means no limit.
    pub rnr_retry: Option<u8>,
    /// Maximum number of reads and atomics that this side has outstanding.
    pub max_rd_atomic: Option<u8>,
    /// Maximum number of reads and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: Option<u8>,
    /// Queue key of a UD queue pair, in states RTS and SQD. The other attributes are those of connections, which a UD
    /// queue pair does not have.
    pub qkey: Option<u32>,
}

/// Attributes, state and outstanding work of a queue pair, as [`Verbs::query_qp`](crate::Verbs::query_qp) returns them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpInfo {
    /// State of the queue pair.
    pub state: State,
    /// Transport service.
    pub service: Service,
    /// Sizes of the queue pair's queues and work requests.
    pub capacities: Capacities,
    /// Attributes of the connection; `None` before RTR, and for UD.
    pub connection: Option<Connection>,
    /// Attributes of a UD queue pair; `None` before RTR, and for other services.
    pub datagrams: Option<DatagramAttributes>,
    /// Rate limit that the application has set; `None`: only the link limits the rate.
    pub rate: Option<BitRate>,
    /// Number of send requests that are not completed, unsignalled requests included.
    pub sends: u32,
    /// Number of receives that are not completed. With a shared receive queue, this is the number of receives that
    /// messages in progress have taken from the shared queue.
    pub receives: u32,
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

/// Maximum path MTU in bytes of payload, which only IRN supports: 9,000 bytes of a jumbo frame minus the IPv4, UDP and
/// base transport headers.
pub const MAX_MTU: u32 = 8_960;

/// The differentiated services code point (DSCP) of urgent packets. A device sends the packets of a connection with
/// this DSCP before those of all others; only short messages should use it. It is the one that NICs give to CNPs (48).
pub const URGENT_DSCP: u8 = 48;

/// The attributes of a connection, which the transition from INIT to RTR sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The peer's IP address, and the UDP port to which packets are sent. The device drops received packets with
    /// another source IP address.
    pub peer: SocketAddr,
    /// The UDP source port of the peer's packets; the device drops packets with another one. `None`: any, for a peer
    /// that does not tell its source port. The port keeps out packets that other users of the peer's host send.
    pub peer_source_port: Option<u16>,
    /// Maximum number of packets that the peer has in flight, 1 to [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT). IRN drops
    /// packets further ahead than this (rounded up to a power of two, at least 128), so a stranger has to guess the PSN
    /// the more exactly the smaller the number is. For a peer that does not tell it, the number is
    /// [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT). RC and UC do not use it.
    pub peer_in_flight: u32,
    /// Whether the owner of the device protects the packets of the connection, which are authenticated then. The device
    /// drops packets that are protected although the connection is not, and the other way round. In a [`Batch`] each
    /// protected packet has room for its header before it, and for its tag instead of the ICRC after it.
    ///
    /// [`Batch`]: crate::Batch
    pub protected: bool,
    /// QPN of the peer's queue pair.
    pub peer_qpn: Qpn,
    /// Path MTU: payload bytes of a full packet. RC allows 256, 512, 1024, 2048 and 4096. UC allows 8192 too, if both
    /// ends are rnic. IRN allows any multiple of 4 from 256 to [`MAX_MTU`].
    pub path_mtu: u32,
    /// PSN of the peer's first request packet, 24 bits.
    pub recv_psn: u32,
    /// Maximum number of reads and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u8,
    /// RNR NAK timer: the five-bit code of the minimum time that the peer waits after an RNR NAK before it retries. The
    /// code is 0 to 31, and code 0 is the longest time, 655.36 ms.
    pub min_rnr_timer: u8,
    /// Differentiated services code point of the packets sent, 0 to 63.
    pub dscp: u8,
}

/// The attributes that a queue pair gets in the transition from RTR to RTS, for the requests that it sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendAttributes {
    /// PSN of this side's first request packet, 24 bits.
    pub send_psn: u32,
    /// Code n of RC's retransmission timeout, 0 to 31: the timeout is 4.096 us times 2^n; 0 means no timeout.
    pub timeout: u8,
    /// Maximum number of retries of a request after timeouts, 0 to 7. It has no effect if `give_up_after` is set.
    pub retry_count: u8,
    /// Maximum number of retries of a request after RNR NAKs, 0 to 6; 7 means no limit.
    pub rnr_retry: u8,
    /// Maximum number of reads and atomics that this side may have outstanding.
    pub max_rd_atomic: u8,
    /// RC and IRN: time after which the queue pair gives up a peer that does not respond, 1 ms to 1 day, whatever the
    /// number of timeouts until then. `None`: it gives up after `retry_count` retries, as InfiniBand prescribes.
    ///
    /// The time counts from the last response that acknowledged a packet for the first time, or from the transmission
    /// of the oldest outstanding request if that was later. An RNR NAK shows that the peer is alive, so the time counts
    /// anew when the wait that it asks for ends.
    pub give_up_after: Option<Time>,
    /// RC and IRN: idle time after which the queue pair probes whether its peer is alive, 1 ms to 1 day. `None`: it
    /// never does, so it notices a dead peer only when it sends a request.
    ///
    /// A queue pair without outstanding requests whose last response arrived that long ago sends a probe: an RDMA Write
    /// of 0 bytes with the PSN of its last packet. The peer takes it for a duplicate and acknowledges it, so it needs
    /// no receive and no access right. Without a response the queue pair repeats the probe, 8 times within
    /// `give_up_after`, or else `retry_count` times after RC's timeout or IRN's `timeouts.high`. Then it goes into the
    /// error state, with the event [`QueuePairError`](Event::QueuePairError).
    pub keep_alive: Option<Time>,
}

impl Default for SendAttributes {
    fn default() -> SendAttributes {
        SendAttributes {
            send_psn: 0,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            max_rd_atomic: 16,
            give_up_after: None,
            keep_alive: None,
        }
    }
}

impl SendAttributes {
    /// RC's retransmission timeout; `None` if there is none.
    pub(crate) fn timeouts(&self) -> Option<Timeouts> {
        let span = Time::from_ns(4_096 << self.timeout);
        (self.timeout > 0).then_some(Timeouts { high: span, low: span, low_packets: 0, dynamic: None })
    }
}

/// The reason for which a verb failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VerbsError {
    /// No object has this handle, or the object was destroyed.
    #[error("there is no {0}")]
    Unknown(&'static str),
    /// An object belongs to another protection domain than the object that is to use it.
    #[error("the {0} belongs to another protection domain")]
    OtherDomain(&'static str),
    /// The object cannot be destroyed, because other objects use it.
    #[error("the {what} is in use by {by}")]
    Busy {
        /// The object that cannot be destroyed.
        what: &'static str,
        /// The kind of objects that use it.
        by: &'static str,
    },
    /// A limit of the device is reached.
    #[error("at most {limit} {what} are possible")]
    Limit {
        /// The kind of objects, or the quantity, that the limit applies to.
        what: &'static str,
        /// The maximum number.
        limit: u64,
    },
    /// The system has no memory for an object.
    #[error("the system has no memory for the {what}, which needs {bytes} bytes")]
    NoMemory {
        /// The object.
        what: &'static str,
        /// Length of the memory that the object needs.
        bytes: u64,
    },
    /// The queue to which a request is posted is full.
    #[error("the {0} is full")]
    Full(&'static str),
    /// The verb is not possible in the queue pair's state.
    #[error("a queue pair in state {state:?} cannot {action}")]
    WrongState {
        /// The state of the queue pair.
        state: State,
        /// The action that is not possible in this state.
        action: &'static str,
    },
    /// An attribute is out of range.
    #[error("{name} is {value}; it must be {possible}")]
    Range {
        /// Name of the attribute.
        name: &'static str,
        /// The value of the attribute.
        value: u64,
        /// The values that are accepted.
        possible: Cow<'static, str>,
    },
    /// The queue pair's transport service, its connection or the memory does not support the operation.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The memory of a scatter-gather element cannot be used for the work request.
    #[error("scatter-gather element {index} cannot be used: {why}")]
    Memory {
        /// Index of the scatter-gather element in the work request, from 0.
        index: usize,
        /// The reason for the refusal.
        why: AccessError,
    },
    /// The access to the memory of a region is not allowed.
    #[error("the memory cannot be accessed: {0}")]
    Access(#[from] AccessError),
    /// The completion queue has overflowed: completions are lost, and the queue takes no further completions.
    #[error("the completion queue overflowed: completions are lost")]
    Overflow,
    /// The settings of the congestion control are invalid; the text gives the reason.
    #[error("{0}")]
    Congestion(String),
    /// The device is closed and can execute no verbs; the text gives the reason.
    #[error("the device is closed: {0}")]
    Closed(String),
}

/// Checks that an attribute is between `min` and `max`.
pub(crate) fn range(name: &'static str, value: u32, min: u32, max: u32) -> Result<(), VerbsError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(VerbsError::Range { name, value: value.into(), possible: format!("{min} to {max}").into() })
    }
}

/// The reason for which the device refuses an access to registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AccessError {
    /// No region and no memory window has this key.
    #[error("no region has this key")]
    Key,
    /// The remote key was invalidated, or it is that of a memory window that is not bound.
    #[error("the key was invalidated")]
    Invalidated,
    /// The memory window is bound to another queue pair.
    #[error("the memory window is bound to another queue pair")]
    QueuePair,
    /// The memory window of type 2 is bound already.
    #[error("the memory window is bound already")]
    Bound,
    /// The region belongs to another protection domain.
    #[error("the region belongs to another protection domain")]
    Domain,
    /// The access goes beyond the region.
    #[error("it goes beyond the region")]
    Bounds,
    /// The region was registered without the right to this kind of access.
    #[error("the region was registered without the right to this access")]
    Rights,
    /// The address of an atomic operation is not a multiple of 8.
    #[error("the address of an atomic operation must be a multiple of 8")]
    Alignment,
}
