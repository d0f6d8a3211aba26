//! RoCEv2 packets and their IRN extensions as bytes: no I/O, no state, no allocation per packet.
//!
//! A packet is what a UDP datagram to port [`ROCE_PORT`] carries: base transport header, extension headers, payload, padding, ICRC.
//! [`Packet::parse`] reads one and says in a sentence what is wrong with it; [`Packet::emit`] writes one.
//!
//! | module | holds |
//! |---|---|
//! | [`opcode`] | what a packet is: service, operation, position in a message, extension headers, payload rule |
//! | [`header`] | the base transport header and every extension header as plain structs |
//! | [`syndrome`] | what an acknowledgement says: credits, RNR timers, NAK codes |
//! | [`packet`] | all headers of a packet, its payload, what may be wrong with it |
//! | [`icrc`] | the invariant CRC |
//! | [`frame`], [`pfc`] | Ethernet frames around packets, RoCEv1, priority flow control |
//! | [`pcapng`] | capture files |
//!
//! Numbers of 24 bits (queue pairs, PSNs, MSNs, sequence numbers of work requests) are `u32`; their upper 8 bits are not written and
//! are zero when read.
#![forbid(unsafe_code)]

mod bytes;
pub mod frame;
pub mod header;
pub mod icrc;
pub mod opcode;
pub mod packet;
pub mod pcapng;
pub mod pfc;
pub mod syndrome;

pub use frame::{Content, Envelope, Ethernet, Frame, Ip, Ipv4, Ipv6, LinkType, MacAddr, RoceV1, RoceV2, Vlan};
pub use header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, BthView, Deth, Ieth, ImmDt, ReadEth, RecvEth, Reth, SackEth, SendEth,
};
pub use icrc::IcrcSeed;
pub use opcode::{Extra, Opcode, Operation, PayloadRule, Position, Service};
pub use packet::{Headers, Packet, Reject, pad_count};
pub use pfc::Pfc;
pub use syndrome::{Credits, NakCode, RnrTimer, Syndrome};

/// UDP destination port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;
/// Bytes of the ICRC at the end of a packet.
pub const ICRC_LEN: usize = 4;
/// Bytes that follow the base transport header of a CNP; all zero.
pub const CNP_RESERVED_LEN: usize = 16;
/// Most bytes of headers that a packet has: those of an IRN compare-and-swap or fetch-and-add.
pub const MAX_HEADER_LEN: usize = Bth::LEN + AtomicEth::LEN + ReadEth::LEN;
/// Largest number of 24 bits; also the queue pair to which multicast datagrams go.
pub const MAX_24: u32 = (1 << 24) - 1;
