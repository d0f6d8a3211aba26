//! Frame sizes in bytes, from the Ethernet header up to and including the frame check sequence.
//!
//! | part | bytes |
//! |---|---|
//! | Ethernet header and frame check sequence | 14 + 4 |
//! | IPv4, UDP | 20 + 8 |
//! | BTH (base transport header) | 12 |
//! | ICRC | 4 |
//! | AETH (in ACK and NACK) | 4 |
//! | RETH (in every packet of an IRN Write) | 16 |
//! | reserved field (in a CNP) | 16 |
//! | TCP | 20 |
//! | TCP timestamp option, with two no-operations (RFC 7323 appendix A) | 12 |
//! | TCP SACK option with one block, with two no-operations (RFC 2018 section 3) | 12 |
//! | MPA length and CRC (RFC 5044 section 4), without padding | 2 + 4 |
//! | DDP and RDMAP header of a tagged message (RFC 5041 section 4.2) | 14 |
//!
//! Preamble, start-of-frame delimiter and inter-frame gap (20 bytes, [`FRAME_GAP`]) are not part of a frame: they take
//! time on the link, but no space in buffers.
//!
//! ```
//! use rnic_transport::BitRate;
//! use rnic_transport::headers::{FRAME_GAP, ROCE_DATA};
//!
//! // Time on a 40 Gbps link of a RoCEv2 packet with 1024 B of payload.
//! let bytes = u64::from(1_024 + ROCE_DATA + FRAME_GAP);
//! assert_eq!(BitRate::from_gbps(40).time_for(bytes).to_string(), "221.2 ns");
//! ```

/// Size of headers and trailers around the payload of a RoCEv2 data packet.
pub const ROCE_DATA: u32 = 14 + 20 + 8 + 12 + 4 + 4;
/// Size of headers and trailers around the payload of an IRN data packet, which always carries a RETH (IRN section
/// 5.3.1).
pub const IRN_DATA: u32 = ROCE_DATA + 16;
/// Size of a RoCEv2 ACK or NACK, with BTH and AETH.
pub const ROCE_ACK: u32 = ROCE_DATA + 4;
/// Size of an IRN NACK: a RoCEv2 NACK, and 4 bytes with the PSN of the out-of-order packet that triggered it.
pub const IRN_NACK: u32 = ROCE_ACK + 4;
/// Size of headers and trailers around the payload of an iWARP data packet: one MPA frame in one TCP segment.
pub const IWARP_DATA: u32 = IWARP_ACK + 2 + 4 + 14;
/// Size of a TCP segment without data.
pub const IWARP_ACK: u32 = 14 + 20 + 20 + 12 + 4;
/// Size of a TCP segment without data, with one SACK block.
pub const IWARP_SACK: u32 = IWARP_ACK + 12;
/// Size of headers and trailers around the payload of a packet of Ultra Ethernet Transport over UDP: the 12-byte header
/// of the packet delivery sublayer, and the 44-byte standard header of the semantic sublayer (public reference
/// provider).
pub const UET_DATA: u32 = 14 + 20 + 8 + 12 + 44 + 4;
/// Size of an ACK of Ultra Ethernet Transport with congestion control state: 12 bytes, and 20 bytes with selective
/// acknowledgement and state.
pub const UET_ACK: u32 = 14 + 20 + 8 + 12 + 20 + 4;
/// Size of a NACK of Ultra Ethernet Transport: 16 bytes after UDP.
pub const UET_NACK: u32 = 14 + 20 + 8 + 16 + 4;
/// Overhead of each frame on a link, in bytes, which frame sizes do not include: preamble and start-of-frame delimiter
/// (8 bytes) and inter-frame gap (12 bytes).
pub const FRAME_GAP: u32 = 20;
/// Size of a congestion notification packet, with BTH and 16 reserved bytes (RoCEv2, annex A17.9.3).
pub const CNP: u32 = ROCE_DATA + 16;
/// Number of bytes that in-band telemetry adds to a data packet and to its ACK or NACK (HPCC, SIGCOMM 2019): 8 bytes
/// for each of 5 hops, and 2 bytes for the hop count and the path ID.
pub const TELEMETRY: u32 = 42;
/// Size of headers and trailers around the payload of a data packet of a message transport (NanoTransport section 5.1:
/// 64 bytes). A control packet of a message transport consists of these 64 bytes alone.
pub const MESSAGE_HEADER: u32 = 64;
