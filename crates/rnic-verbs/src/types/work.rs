//! Work requests and their completions.

use super::{Bind, Qpn, Sge, Source};
use rnic_transport::Time;

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
    /// The received message is longer than the memory of its receive; or the length of the send request does not fit: a
    /// datagram is longer than the path MTU, the memory of an atomic has not 8 bytes, or a message is longer than 2
    /// GiB.
    LocalLength,
    /// The queue pair could not execute the request, for instance because its completion queue overflowed, the peer
    /// sent an invalid request, or the transport service lacks the operation.
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
    /// Memory management operation error: a memory window could not be bound (it is bound already, or domain, bounds or
    /// rights do not fit), or a Local Invalidate names no window that is bound to the queue pair.
    WindowBind,
    /// Of a receive that an RDMA Write with Immediate of the peer was using: the access of the Write to local memory is
    /// not allowed (remote key, bounds or rights).
    LocalAccess,
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
    /// Of a receive: length in bytes of the message; of a datagram, with the [`GRH_LEN`](super::GRH_LEN)
    /// bytes before its data. Of a read or atomic: length in bytes of the response. 0 for other operations.
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
    /// the device processes the last packet of its message. If the device's owner knows when the ACK, response or last
    /// packet arrived ([`Device::set_arrival`](crate::Device::set_arrival)), it is this time instead, which may be
    /// before the time of an earlier completion.
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
