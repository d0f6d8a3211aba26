//! The message by which the two layers agree in a recovery.

/// Length in bytes of a message on the control queue pair.
pub(super) const LEN: usize = 16;

/// A message between the two layers of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// "My queue pairs of all epochs before `epoch` are dead, and I have received `received` messages through them. My
    /// queue pair of this epoch is connected, and my receives are posted to it." `is_answer` says that the sender has
    /// the peer's message of this epoch, so this one needs no answer.
    Sync { epoch: u32, received: u64, is_answer: bool },
    /// The sender's channel has ended.
    Close,
}

impl Message {
    /// Byte 0: kind; byte 1: whether it is an answer; bytes 4 to 7: epoch; bytes 8 to 15: received messages. Numbers
    /// are little-endian.
    pub(super) fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        match self {
            Message::Sync { epoch, received, is_answer } => {
                bytes[0] = 1;
                bytes[1] = is_answer.into();
                bytes[4..8].copy_from_slice(&epoch.to_le_bytes());
                bytes[8..].copy_from_slice(&received.to_le_bytes());
            }
            Message::Close => bytes[0] = 2,
        }
        bytes
    }

    /// Returns `None` for a message of unknown kind.
    pub(super) fn from_bytes(bytes: &[u8; LEN]) -> Option<Message> {
        let [kind, is_answer, _, _, e0, e1, e2, e3, received @ ..] = *bytes;
        match kind {
            1 => Some(Message::Sync {
                epoch: u32::from_le_bytes([e0, e1, e2, e3]),
                received: u64::from_le_bytes(received),
                is_answer: is_answer != 0,
            }),
            2 => Some(Message::Close),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let sync = Message::Sync { epoch: 0x0102_0304, received: 0x0506_0708_090a_0b0c, is_answer: true };
        assert_eq!(sync.to_bytes(), [1, 1, 0, 0, 4, 3, 2, 1, 12, 11, 10, 9, 8, 7, 6, 5]);
        for message in [sync, Message::Close] {
            assert_eq!(Message::from_bytes(&message.to_bytes()), Some(message));
        }
        assert_eq!(Message::from_bytes(&[3; LEN]), None);
    }
}
