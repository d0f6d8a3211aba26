//! Errors of a channel's functions, and the reasons for which a channel ends.

use rnic_transport::Time;
use rnic_verbs::{Status, VerbsError};
use std::borrow::Cow;

/// The reason for which a function of a channel failed. Then it has posted nothing and created nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostError {
    /// The NIC refused a verb.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// A setting or an argument is out of range.
    #[error("{name} is {value}; it must be {possible}")]
    Range {
        /// Name of the setting or argument.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The values that are accepted.
        possible: Cow<'static, str>,
    },
    /// The channel does not support the operation.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The congestion control does not exist, or refuses its settings. The text says why.
    #[error("{0}")]
    Congestion(String),
    /// The channel's queue of requests or receives is full.
    #[error("the channel's {what} is full: at most {limit} are outstanding")]
    Full {
        /// The queue.
        what: &'static str,
        /// Maximum number of entries.
        limit: u32,
    },
    /// The channel is not connected yet.
    #[error("the channel is not connected")]
    NotConnected,
    /// The channel has ended.
    #[error("the channel has ended: {0}")]
    Ended(Failure),
}

impl HostError {
    pub(crate) fn range(name: &'static str, value: u64, possible: impl Into<Cow<'static, str>>) -> HostError {
        HostError::Range { name, value, possible: possible.into() }
    }
}

/// The reason for which a channel ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// The peer's layer did not respond within this time, so no queue pair could take over from the failed one.
    #[error("the peer did not respond for {0}")]
    PeerSilent(Time),
    /// This number of recoveries followed each other without a completed request between them.
    #[error("{0} recoveries followed each other, and no request completed between them")]
    NoProgress(u32),
    /// The queue pair failed while an atomic operation was outstanding, and it is unknown whether the peer executed the
    /// operation. So the channel can neither replay it nor complete it.
    #[error("it is unknown whether the peer executed an atomic operation")]
    AtomicUnknown,
    /// A request or receive failed with this status, and a replay would fail again.
    #[error("a request failed with {0:?}")]
    Request(Status),
    /// The NIC refused a request of the channel, for instance because its local memory was deregistered.
    #[error("the NIC refused a request")]
    Refused,
    /// The application closed the channel.
    #[error("the application closed it")]
    Closed,
    /// The peer ended the channel.
    #[error("the peer ended it")]
    Peer,
}
