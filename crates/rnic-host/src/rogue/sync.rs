//! The messages of the two layers: they synchronise the two ends in a recovery, and over UC they acknowledge parts.

/// Length in bytes of a message on the control queue pair.
pub(super) const LEN: usize = 16;

/// A message between the two layers of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// "My queue pairs of all epochs before `epoch` are dead, and I have received `received` messages through them. My
    /// queue pair of this epoch is connected, and my receives are posted to it." `is_answer`: the sender has received
    /// the peer's message of this epoch, so this message needs no response.
    Sync { epoch: u32, received: u64, is_answer: bool },
    /// The sender's channel has ended.
    Close,
    /// Over UC in place of `Sync`: `received` is the number of accepted parts modulo 2^32, and `psns` are the first
    /// PSNs of the sender's two queue pairs, with the PSN of the dead queue pair's next connection.
    Counted { epoch: u32, received: u32, psns: [u32; 2], is_answer: bool },
    /// Over UC: the sender has accepted `accepted` parts, modulo 2^32. `is_prompt` says that the last of them has just
    /// arrived, so that the message's arrival yields a round-trip time.
    Ack { epoch: u32, accepted: u32, is_prompt: bool },
    /// Over UC: all parts before `before`, modulo 2^32, should have arrived.
    Probe { epoch: u32, before: u32 },
}

impl Message {
    /// Byte 0: kind; byte 1: whether the message is a response, or prompt; bytes 4 to 7: epoch; bytes 8 to 15: received
    /// messages. Over UC bytes 8 to 11 contain the count, and the six bytes 2, 3 and 12 to 15 the two PSNs. Numbers are
    /// little-endian.
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
            Message::Counted { epoch, received, psns, is_answer } => {
                bytes = short(3, is_answer, epoch, received);
                let [first, second] = psns.map(u32::to_le_bytes);
                bytes[2..4].copy_from_slice(&first[..2]);
                bytes[12] = first[2];
                bytes[13..].copy_from_slice(&second[..3]);
            }
            Message::Ack { epoch, accepted, is_prompt } => bytes = short(4, is_prompt, epoch, accepted),
            Message::Probe { epoch, before } => bytes = short(5, false, epoch, before),
        }
        bytes
    }

    /// Returns `None` for a message of unknown kind.
    pub(super) fn from_bytes(bytes: &[u8; LEN]) -> Option<Message> {
        let [kind, flag, p0, p1, e0, e1, e2, e3, received @ ..] = *bytes;
        let [c0, c1, c2, c3, p2, q0, q1, q2] = received;
        let (epoch, count, flag) =
            (u32::from_le_bytes([e0, e1, e2, e3]), u32::from_le_bytes([c0, c1, c2, c3]), flag != 0);
        match kind {
            1 => Some(Message::Sync { epoch, received: u64::from_le_bytes(received), is_answer: flag }),
            2 => Some(Message::Close),
            3 => {
                let psns = [[p0, p1, p2, 0], [q0, q1, q2, 0]].map(u32::from_le_bytes);
                Some(Message::Counted { epoch, received: count, psns, is_answer: flag })
            }
            4 => Some(Message::Ack { epoch, accepted: count, is_prompt: flag }),
            5 => Some(Message::Probe { epoch, before: count }),
            _ => None,
        }
    }
}

fn short(kind: u8, flag: bool, epoch: u32, count: u32) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    (bytes[0], bytes[1]) = (kind, flag.into());
    bytes[4..8].copy_from_slice(&epoch.to_le_bytes());
    bytes[8..12].copy_from_slice(&count.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let sync = Message::Sync { epoch: 0x0102_0304, received: 0x0506_0708_090a_0b0c, is_answer: true };
        assert_eq!(sync.to_bytes(), [1, 1, 0, 0, 4, 3, 2, 1, 12, 11, 10, 9, 8, 7, 6, 5]);
        let (epoch, psns) = (0x0102_0304, [0x0a_0b0c, 0x0d_0e0f]);
        let counted = Message::Counted { epoch, received: 0x0506_0708, psns, is_answer: true };
        assert_eq!(counted.to_bytes(), [3, 1, 12, 11, 4, 3, 2, 1, 8, 7, 6, 5, 10, 15, 14, 13]);
        let ack = Message::Ack { epoch, accepted: 7, is_prompt: true };
        let probe = Message::Probe { epoch, before: 0xffff_fffe };
        for message in [sync, Message::Close, counted, ack, probe] {
            assert_eq!(Message::from_bytes(&message.to_bytes()), Some(message));
        }
        assert_eq!(Message::from_bytes(&[6; LEN]), None);
    }
}
