//! Parses and writes RoCEv2 packets, and packets of the IRN transport, which adds extension headers. The crate does no
//! I/O, keeps no state and allocates nothing per packet.
//!
//! A packet is the payload of a UDP datagram to port [`ROCE_PORT`]: base transport header (BTH), extension headers,
//! payload, padding and invariant CRC (ICRC). [`Packet::parse`] reads a packet, or returns an error that says what is
//! wrong with it; [`Packet::emit`] writes one.
//!
//! ```
//! use rnic_wire::{Bth, Headers, IcrcSeed, Opcode, Packet, ROCE_PORT, Reth};
//!
//! // An RDMA Write of five bytes to queue pair 17, with PSN 100.
//! let reth = Reth { va: 0x1000, rkey: 7, dma_len: 5 };
//! let headers = Headers { reth: Some(reth), ..Headers::new(Bth::new(Opcode::RC_WRITE_ONLY, 17, 100)) };
//! let packet = Packet::new(headers, b"hello");
//!
//! let seed = IcrcSeed::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 49152, ROCE_PORT);
//! let mut datagram = [0; 64];
//! let len = packet.emit(&seed, 0, &mut datagram);
//! assert_eq!(len, 12 + 16 + 5 + 3 + 4, "BTH, RETH, payload, padding, ICRC");
//!
//! assert!(seed.check(0, &datagram[..len]));
//! let received = Packet::parse(&datagram[..len])?;
//! assert_eq!(received.payload, b"hello");
//! assert_eq!(received.headers.reth, Some(reth));
//! # Ok::<(), rnic_wire::Reject>(())
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`opcode`] | opcodes and their properties: service, operation, position, extension headers, payload length |
//! | [`header`] | the base transport header and every extension header as plain structs |
//! | [`syndrome`] | the AETH syndrome: ACK with credits, RNR NAK with its timer, NAK with its code |
//! | [`packet`] | a whole packet (headers and payload), and the reasons to reject one |
//! | [`icrc`] | the invariant CRC |
//! | [`frame`], [`pfc`] | Ethernet frames that carry packets, RoCEv1, priority flow control |
//! | [`pcapng`] | capture files |
//!
//! 24-bit fields (queue pair numbers, PSNs, MSNs, sequence numbers of work requests) have the type `u32`. When a header
//! is written, the upper 8 bits are ignored; when it is parsed, they are zero.
#![forbid(unsafe_code)]

mod bytes;
pub mod frame;
pub mod header;
pub mod icrc;
mod mac;
mod mad;
pub mod opcode;
pub mod packet;
pub mod pcapng;
pub mod pfc;
mod protected;
pub mod syndrome;

pub use frame::{Checksum, Content, Envelope, Ethernet, Frame, Ip, Ipv4, Ipv6, LinkType, RoceV1, RoceV2, Vlan};
pub use header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, BthView, Deth, Ieth, ImmDt, ReadEth, RecvEth, Reth, SackEth, SendEth,
};
pub use icrc::IcrcSeed;
pub use mac::MacAddr;
pub use mad::{Communication, GSI_QP, MAD_LEN, Mad};
pub use opcode::{Extra, Opcode, Operation, PayloadRule, Position, Service};
pub use packet::{Headers, Packet, Reject, pad_count};
pub use pfc::Pfc;
pub use protected::ProtectedHeader;
pub use syndrome::{Credits, NakCode, RnrTimer, Syndrome};

/// UDP destination port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;
/// Length in bytes of the ICRC at the end of a packet.
pub const ICRC_LEN: usize = 4;
/// Length in bytes of the reserved field that follows the base transport header of a CNP; all its bytes are zero.
pub const CNP_RESERVED_LEN: usize = 16;
/// Length in bytes of the longest headers of any packet: those of an IRN compare-and-swap or fetch-and-add.
pub const MAX_HEADER_LEN: usize = Bth::LEN + AtomicEth::LEN + ReadEth::LEN;
/// The largest 24-bit number, which is also the number of the multicast queue pair.
pub const MAX_24: u32 = (1 << 24) - 1;
