//! Records: messages between the two layers that arrive reliably and in order. A record is a chunk of 32 bytes that is
//! written into a ring in the peer's memory, so it is numbered, acknowledged and retransmitted like every other chunk.

/// Length of a record in bytes.
pub(super) const LEN: usize = 32;

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Record {
    /// The data of a Write with Immediate is in the receiver's memory: it completes a receive.
    Written { len: u32, imm: u32 },
    /// The data of a Send is in the memory of the oldest receive.
    Sent { len: u32, imm: Option<u32> },
    /// The sender of the record has posted a receive with this memory.
    Receive { addr: u64, rkey: u32, len: u32 },
}

impl Record {
    /// Byte 0: kind; byte 1: whether there is immediate data; bytes 4 to 7: length; 8 to 11: immediate data or remote
    /// key; 16 to 23: address. Numbers are little-endian.
    pub(super) fn to_bytes(self) -> [u8; LEN] {
        let (kind, has_imm, len, word, addr) = match self {
            Record::Written { len, imm } => (1, true, len, imm, 0),
            Record::Sent { len, imm } => (2, imm.is_some(), len, imm.unwrap_or(0), 0),
            Record::Receive { addr, rkey, len } => (3, false, len, rkey, addr),
        };
        let mut bytes = [0; LEN];
        bytes[0] = kind;
        bytes[1] = has_imm.into();
        bytes[4..8].copy_from_slice(&u32::to_le_bytes(len));
        bytes[8..12].copy_from_slice(&u32::to_le_bytes(word));
        bytes[16..24].copy_from_slice(&u64::to_le_bytes(addr));
        bytes
    }

    /// Returns `None` for a record of unknown kind.
    pub(super) fn from_bytes(bytes: &[u8; LEN]) -> Option<Record> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (len, imm) = (word(4), word(8));
        match bytes[0] {
            1 => Some(Record::Written { len, imm }),
            2 => Some(Record::Sent { len, imm: (bytes[1] != 0).then_some(imm) }),
            3 => Some(Record::Receive { addr: u64::from(word(16)) | u64::from(word(20)) << 32, rkey: imm, len }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        let (len, imm) = (0x0102_0304, 0xa0b0_c0d0);
        for record in [
            Record::Written { len, imm },
            Record::Sent { len, imm: Some(imm) },
            Record::Sent { len, imm: None },
            Record::Receive { addr: 0x1122_3344_5566_7788, rkey: imm, len },
        ] {
            assert_eq!(Record::from_bytes(&record.to_bytes()), Some(record));
        }
        assert_eq!(Record::from_bytes(&[0; LEN]), None);
    }
}
