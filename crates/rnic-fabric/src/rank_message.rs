//! The encoding of messages between ranks: values of serde in the format of postcard, one after the other.

use crate::ranks::RankError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Appends a value to a message.
///
/// # Errors
/// postcard cannot encode the value, such as a sequence of unknown length.
pub fn append<T: Serialize + ?Sized>(value: &T, message: &mut Vec<u8>) -> Result<(), RankError> {
    postcard::to_io(value, message).map(|_| ()).map_err(|_| RankError::Damaged("a value without an encoding"))
}

/// Takes the next value from the front of a message. `name` says in an error which value it is.
///
/// ```
/// use rnic_fabric::{RankError, rank_message};
///
/// let mut message = Vec::new();
/// rank_message::append(&(7_u32, "seven"), &mut message)?;
/// rank_message::append(&8_u64, &mut message)?;
/// let mut rest = &message[..];
/// assert_eq!(rank_message::take::<(u32, String)>(&mut rest, "pair")?, (7, "seven".to_string()));
/// assert_eq!(rank_message::take_last::<u64>(rest, "number")?, 8);
/// assert_eq!(rank_message::take::<u64>(&mut &rest[1..], "number"), Err(RankError::Damaged("number")));
/// # Ok::<(), RankError>(())
/// ```
///
/// # Errors
/// The message does not begin with such a value.
pub fn take<T: DeserializeOwned>(message: &mut &[u8], name: &'static str) -> Result<T, RankError> {
    let (value, rest) = postcard::take_from_bytes(message).map_err(|_| RankError::Damaged(name))?;
    *message = rest;
    Ok(value)
}

/// The value of a message that contains no other. `name` says in an error which value it is.
///
/// # Errors
/// The message is not such a value, or is longer.
pub fn take_last<T: DeserializeOwned>(mut message: &[u8], name: &'static str) -> Result<T, RankError> {
    let value = take(&mut message, name)?;
    if message.is_empty() { Ok(value) } else { Err(RankError::Damaged(name)) }
}

/// How the bodies of packets are encoded in messages between ranks.
#[derive(Clone, Copy, Debug)]
pub struct RankCodec<B> {
    append: fn(&B, &mut Vec<u8>) -> Result<(), RankError>,
    take: fn(&mut &[u8], &'static str) -> Result<B, RankError>,
}

impl<B: Serialize + DeserializeOwned> RankCodec<B> {
    /// The encoding of a body that implements serde's traits.
    pub const SERDE: RankCodec<B> = RankCodec { append: append::<B>, take: take::<B> };
}

impl<B> RankCodec<B> {
    /// Appends a body to a message.
    pub(crate) fn append(&self, body: &B, message: &mut Vec<u8>) -> Result<(), RankError> {
        (self.append)(body, message)
    }

    /// Takes the next body from the front of a message.
    pub(crate) fn take(&self, message: &mut &[u8]) -> Result<B, RankError> {
        (self.take)(message, "the body of a packet")
    }
}
