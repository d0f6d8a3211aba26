//! The datagrams of a ping, and their minimum and maximum lengths.
//!
//! All numbers are big-endian. A message has 32 bytes; the remaining bytes of the datagram are zeros.
//!
//! | bytes | field |
//! |---|---|
//! | 0 to 3 | 0x726e7067, "rnpg" |
//! | 4 | version, 1 |
//! | 5 | kind: 1 probe, 2 response, 3 report, 4 connect, 5 accept ([`connections`](crate::connections)) |
//! | 6, 7 | path, which is also the flow label of the datagram |
//! | 8 to 15 | session |
//! | 16 to 23 | sequence number of the probe, from 0 |
//! | 24 to 31 | in a report: time between arrival of the probe and departure of the response, in nanoseconds; otherwise 0 |

use rnic_transport::Time;

/// Length of a message in bytes, and so the minimum length of a datagram.
pub const MESSAGE_LEN: usize = 32;
/// Maximum number of bytes of headers and ICRC around the payload of a datagram. They count when a responder limits the
/// length of its responses: IPv6 and UDP headers, base transport header, datagram header and ICRC.
const MAX_HEADERS: usize = 40 + 8 + 12 + 8 + 4;
/// Minimum payload bytes of a probe. A response and a report together must not be longer than their probe, headers
/// included, so that a probe with a forged source address does not amplify traffic.
pub const MIN_PROBE: usize = 2 * MESSAGE_LEN + MAX_HEADERS;
/// Maximum payload bytes of a probe, which is the largest path MTU of datagrams.
pub const MAX_PROBE: usize = 4_096;

const MAGIC: u32 = 0x726e_7067;
const VERSION: u8 = 1;

/// Payload bytes of the response to a probe of `probe` bytes. The report uses the remaining bytes.
pub const fn response_len(probe: usize) -> usize {
    probe.saturating_sub(MESSAGE_LEN + MAX_HEADERS)
}

/// The kind of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A probe, from the prober.
    Probe,
    /// The response, from the responder.
    Response,
    /// A report, in which the responder sends its delay after the response has left.
    Report {
        /// T4 - T3: the time between arrival of the probe and departure of the response, in ns.
        delay: Time,
    },
    /// The prober requests a reliable connection.
    Connect,
    /// The responder has connected its queue pair.
    Accept,
}

/// A datagram of a ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The kind of the datagram.
    pub kind: Kind,
    /// Index of the path, from 0.
    pub path: u16,
    /// Number of the session, which the responder assigned.
    pub session: u64,
    /// Number of the probe.
    pub sequence: u64,
}

impl Message {
    /// The bytes of the message. All further bytes of the datagram are zeros.
    pub fn emit(&self) -> [u8; MESSAGE_LEN] {
        let (kind, delay) = match self.kind {
            Kind::Probe => (1, 0),
            Kind::Response => (2, 0),
            Kind::Report { delay } => (3, delay.as_ps() / 1_000),
            Kind::Connect => (4, 0),
            Kind::Accept => (5, 0),
        };
        let mut out = [0; MESSAGE_LEN];
        out[..4].copy_from_slice(&MAGIC.to_be_bytes());
        out[4..6].copy_from_slice(&[VERSION, kind]);
        out[6..8].copy_from_slice(&self.path.to_be_bytes());
        out[8..16].copy_from_slice(&self.session.to_be_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_be_bytes());
        out[24..].copy_from_slice(&delay.to_be_bytes());
        out
    }

    /// Parses the message at the start of a datagram; `None` if it is not a valid message. A report of a delay of more
    /// than an hour is not valid.
    pub fn parse(datagram: &[u8]) -> Option<Message> {
        let bytes: &[u8; MESSAGE_LEN] = datagram.first_chunk()?;
        let word = |at: usize| bytes[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let start = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if u32::from_be_bytes(start) != MAGIC || bytes[4] != VERSION {
            return None;
        }
        let delay = word(24);
        let kind = match (bytes[5], delay) {
            (1, 0) => Kind::Probe,
            (2, 0) => Kind::Response,
            (4, 0) => Kind::Connect,
            (5, 0) => Kind::Accept,
            (3, ns) if ns <= 3_600_000_000_000 => Kind::Report { delay: Time::from_ns(ns) },
            _ => return None,
        };
        let path = u16::from_be_bytes([bytes[6], bytes[7]]);
        Some(Message { kind, path, session: word(8), sequence: word(16) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_survives_the_wire() {
        let report = Kind::Report { delay: Time::from_ns(1_234) };
        for kind in [Kind::Probe, Kind::Response, report, Kind::Connect, Kind::Accept] {
            let message = Message { kind, path: 0x102, session: u64::MAX - 5, sequence: 1 << 40 };
            let bytes = message.emit();
            assert_eq!(Message::parse(&bytes), Some(message));
            assert_eq!(Message::parse(&bytes[..31]), None);
            for at in 0..6 {
                let mut wrong = bytes;
                wrong[at] ^= 0x80;
                assert_eq!(Message::parse(&wrong), None, "byte {at}");
            }
        }
    }

    /// The response and the report are together no longer than the probe, with the headers of IPv4 and of IPv6.
    #[test]
    fn nothing_is_amplified() {
        assert_eq!((MIN_PROBE, response_len(MIN_PROBE)), (136, MESSAGE_LEN));
        for probe in MIN_PROBE..=MAX_PROBE {
            for around in [MAX_HEADERS - 20, MAX_HEADERS] {
                // Payloads are padded to multiples of 4 bytes.
                let padded = |len: usize| len.next_multiple_of(4) + around;
                assert!(padded(response_len(probe)) + padded(MESSAGE_LEN) <= padded(probe), "{probe}");
                assert!(response_len(probe) >= MESSAGE_LEN);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(message) = Message::parse(&bytes) {
                prop_assert_eq!(&message.emit()[..], &bytes[..MESSAGE_LEN]);
            }
        }
    }
}
