//! Errors.

use super::State;
use std::borrow::Cow;

/// The reason for which a verb failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VerbsError {
    /// No object has this handle, or the object was destroyed.
    #[error("there is no {0}")]
    Unknown(&'static str),
    /// The object cannot be destroyed, because other objects use it.
    #[error("the {what} is in use by {by}")]
    Busy {
        /// The object that cannot be destroyed.
        what: &'static str,
        /// The kind of objects that use it.
        by: &'static str,
    },
    /// A work request has more of something than its queue admits.
    #[error("at most {limit} {what} are possible")]
    Limit {
        /// The quantity that the limit applies to.
        what: &'static str,
        /// The maximum number.
        limit: u64,
    },
    /// The device already has its maximum number of objects of a kind ([`Limits`](crate::Limits)).
    #[error("at most {limit} {what} are possible")]
    Exhausted {
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
