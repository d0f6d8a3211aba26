//! The header of a chunk: the 32 bits of immediate data.
//!
//! | bits | contents |
//! |---|---|
//! | 31 to 24 | connection: a number that the receiver chose, so that a misdirected chunk is noticed |
//! | 23 to 22 | kind: data, retransmitted data, record, probe |
//! | 21 to 0 | chunk number, modulo 2^22 |
//!
//! UCCL-Tran's paper (OSDI 2026) has 8 bits of connection, 7 of message, 8 of chunk, a last flag and 8 reserved bits.
//! With these fields, numbers repeat after 2^15 chunks of 32 KB, which take 21 ms at 400 Gbps. Here one sequence of
//! chunk numbers covers all messages of a connection and repeats after 2^22 chunks, 2.7 s at 400 Gbps. Records describe
//! the messages, and are chunks themselves.

/// The kind of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Data that is transmitted for the first time.
    Data,
    /// Data that is retransmitted.
    Retransmission,
    /// A record of the layer.
    Record,
    /// A chunk without data, a probe, which requests an acknowledgement of its path. The number identifies the probe.
    Probe,
}

/// The header of a chunk.
///
/// ```
/// use rnic_host::multipath::{Header, Kind};
///
/// let header = Header { connection: 7, kind: Kind::Record, number: 5_000_000 };
/// assert_eq!(header.to_imm(), 0x0780_0000 | 5_000_000 % (1 << 22));
/// // The receiver expects a number near 4,999,990.
/// assert_eq!(Header::from_imm(header.to_imm(), 4_999_990), header);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Number of the connection.
    pub connection: u8,
    /// Kind of the chunk.
    pub kind: Kind,
    /// Number of the chunk.
    pub number: u64,
}

const NUMBER_BITS: u32 = 22;
const NUMBERS: u64 = 1 << NUMBER_BITS;

impl Header {
    /// The immediate data of a chunk with this header.
    pub fn to_imm(self) -> u32 {
        let kind = match self.kind {
            Kind::Data => 0,
            Kind::Retransmission => 1,
            Kind::Record => 2,
            Kind::Probe => 3,
        };
        u32::from(self.connection) << 24 | kind << NUMBER_BITS | (self.number % NUMBERS) as u32
    }

    /// The header in this immediate data. Its number is the number with these 22 low bits that is nearest to
    /// `expected`.
    pub fn from_imm(imm: u32, expected: u64) -> Header {
        let kind = match imm >> NUMBER_BITS & 3 {
            0 => Kind::Data,
            1 => Kind::Retransmission,
            2 => Kind::Record,
            _ => Kind::Probe,
        };
        let ahead = (u64::from(imm) % NUMBERS + NUMBERS - expected % NUMBERS) % NUMBERS;
        let is_behind = ahead >= NUMBERS / 2 && expected + ahead >= NUMBERS;
        let number = if is_behind { expected + ahead - NUMBERS } else { expected + ahead };
        Header { connection: (imm >> 24) as u8, kind, number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_wrap() {
        for expected in [0, 1, 511, NUMBERS - 1, NUMBERS, 3 * NUMBERS - 200, 3 * NUMBERS + 100] {
            for number in expected.saturating_sub(600)..expected + 600 {
                for kind in [Kind::Data, Kind::Retransmission, Kind::Record, Kind::Probe] {
                    let header = Header { connection: 255, kind, number };
                    assert_eq!(Header::from_imm(header.to_imm(), expected), header, "{expected}");
                }
            }
        }
    }
}
