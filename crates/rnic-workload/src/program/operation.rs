//! The operations of which a rank's program consists.

use rnic_transport::Time;
use smallvec::SmallVec;
use std::fmt::Debug;

/// Distances between operations of a rank, in operations.
pub type Distances = SmallVec<[u32; 3]>;

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Sends `bytes` bytes to the rank `to`. The operation completes when the sender knows that all bytes have arrived.
    Send {
        /// The receiving rank.
        to: u32,
        /// Number of payload bytes, at least 1.
        bytes: u64,
        /// The receive operation of the rank `to` that the message completes.
        tag: Tag,
        /// The connection to the rank `to` that carries the message. Messages of one connection arrive in order.
        connection: u32,
    },
    /// Sends `bytes` bytes to the switch of the server, which adds them to those of the other members and sends the sum
    /// to the rank `to`, as one message of any sender. The operation completes when the bytes are at the switch.
    Reduce {
        /// The rank of the same server that receives the sum.
        to: u32,
        /// Number of payload bytes, at least 1, the same for all members.
        bytes: u64,
        /// The receive operation of the rank `to` that the sum completes.
        tag: Tag,
        /// Number of ranks of the server that send bytes for the sum, the rank `to` among them.
        members: u32,
    },
    /// Sends `bytes` bytes to the switch of the server, which copies them to all members, this rank among them, as
    /// messages of any sender. The operation completes when all copies have arrived.
    Multicast {
        /// The first rank that receives a copy.
        first: u32,
        /// Difference between two ranks that receive a copy.
        stride: u32,
        /// Number of ranks that receive a copy.
        members: u32,
        /// Number of payload bytes, at least 1.
        bytes: u64,
        /// The receive operations that the copies complete.
        tag: Tag,
    },
    /// Waits for one message with this tag from the rank `from`.
    Receive {
        /// The sending rank.
        from: u32,
        /// Tag of the message.
        tag: Tag,
    },
    /// Waits for `messages` messages with this tag, from any ranks.
    Gather {
        /// Number of messages.
        messages: u32,
        /// Tag of the messages.
        tag: Tag,
    },
    /// Computes for `time`. A rank carries out one computation at a time, in the order in which they can begin.
    Compute {
        /// Length of the computation.
        time: Time,
    },
    /// Does nothing, and completes at once.
    Join,
}

/// How a message finds its receive operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tag {
    /// The receive operation names the sender.
    From(u64),
    /// The receive operation accepts messages of any sender.
    Any(u64),
}

/// What an operation depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum After {
    /// Nothing: the operation begins as soon as its rank gets to it.
    Nothing,
    /// Earlier operations of the same rank, named by how many operations they are before this one, at least 1.
    Earlier(Distances),
    /// All earlier operations of the rank. The rank does not look beyond this operation before it begins.
    All,
}

/// The part of a collective operation that a rank begins or ends with an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// The operation is neither.
    None,
    /// The rank begins its part of the collective operation with this number.
    Begin(u32),
    /// The rank ends its part of the collective operation with this number.
    End(u32),
}

/// One operation of a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// What the operation does.
    pub action: Action,
    /// The earlier operations that must have completed before this one begins.
    pub after: After,
    /// What the completion of the operation means.
    pub mark: Mark,
}

/// The operations of one rank, one after the other.
///
/// A [`Program`](super::Program) looks [`ahead`](Operations::ahead) operations ahead: it takes the next operation when
/// fewer than so many operations of the rank are open (taken, and not completed).
pub trait Operations: Debug + Send {
    /// The next operation; `None` if there is no other.
    fn next(&mut self) -> Option<Operation>;
    /// Maximum number of open operations of the rank.
    fn ahead(&self) -> usize;
}
