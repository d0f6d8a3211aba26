//! The invariant CRC: the last four bytes of every packet.
//!
//! It is the CRC-32 of Ethernet over eight bytes of ones (the place of InfiniBand's local route header) and then everything from the
//! IP header up to the ICRC, with ones in place of what a router may change (annex A17.3.4 of InfiniBand volume 1):
//!
//! | header | masked |
//! |---|---|
//! | IPv4 | type of service, time to live, header checksum |
//! | IPv6, GRH | traffic class, flow label, hop limit |
//! | UDP | checksum |
//! | BTH | byte 4: FECN, BECN and six reserved bits |
//!
//! On the wire it is little-endian.
//!
//! A CRC is linear: the exclusive-or of the CRCs of two messages of one length depends only on the exclusive-or of the messages. That
//! is why one prepared [`IcrcSeed`] serves all packets of a flow, and why [`IcrcSeed::solve_id`] can find the IPv4 identification that
//! a UDP socket does not show.

use crate::bytes::put;
use crate::header::Bth;
use crate::{ICRC_LEN, ROCE_PORT};
use crc32fast::Hasher;
use std::net::{Ipv4Addr, Ipv6Addr};

/// IPv4 flags and fragment offset of a packet that must not be fragmented.
pub const DONT_FRAGMENT: u16 = 0x4000;

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const UDP: u8 = 17;

/// What the ICRC of a flow's packets begins with: prepared once for two addresses and ports.
#[derive(Clone, Debug)]
pub struct IcrcSeed {
    /// Eight ones, IP header and UDP header, masked; lengths and identification zero.
    prefix: [u8; 8 + IPV6_LEN + UDP_LEN],
    /// Bytes of it in use.
    len: u8,
}

impl IcrcSeed {
    /// For IPv4 with the don't-fragment flag and without options.
    pub fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, source_port: u16) -> IcrcSeed {
        IcrcSeed::ipv4_with_flags(source, destination, source_port, DONT_FRAGMENT)
    }

    /// For IPv4 with these flags and fragment offset, without options.
    pub fn ipv4_with_flags(source: Ipv4Addr, destination: Ipv4Addr, source_port: u16, flags: u16) -> IcrcSeed {
        let mut prefix = [0xff; 8 + IPV6_LEN + UDP_LEN];
        put(&mut prefix, 8, &[0x45, 0xff, 0, 0, 0, 0]);
        put(&mut prefix, 14, &flags.to_be_bytes());
        put(&mut prefix, 16, &[0xff, UDP, 0xff, 0xff]);
        put(&mut prefix, 20, &source.octets());
        put(&mut prefix, 24, &destination.octets());
        put_udp(&mut prefix, 8 + IPV4_LEN, source_port);
        IcrcSeed { prefix, len: (8 + IPV4_LEN + UDP_LEN) as u8 }
    }

    /// For IPv6 without extension headers.
    pub fn ipv6(source: Ipv6Addr, destination: Ipv6Addr, source_port: u16) -> IcrcSeed {
        let mut prefix = [0xff; 8 + IPV6_LEN + UDP_LEN];
        put(&mut prefix, 8, &[0x6f, 0xff, 0xff, 0xff, 0, 0, UDP, 0xff]);
        put(&mut prefix, 16, &source.octets());
        put(&mut prefix, 32, &destination.octets());
        put_udp(&mut prefix, 8 + IPV6_LEN, source_port);
        IcrcSeed { prefix, len: (8 + IPV6_LEN + UDP_LEN) as u8 }
    }

    /// The ICRC of a packet whose bytes from the base transport header up to the ICRC are `bytes` (at least 12); `id` is the IPv4
    /// identification and without effect for IPv6. On the wire it is `to_le_bytes`.
    ///
    /// # Panics
    /// If `bytes` has fewer than 12 bytes.
    pub fn icrc(&self, id: u16, bytes: &[u8]) -> u32 {
        let udp_len = (UDP_LEN + bytes.len() + ICRC_LEN) as u16;
        let mut prefix = self.prefix;
        let len = usize::from(self.len);
        if self.is_ipv4() {
            put(&mut prefix, 10, &(udp_len + IPV4_LEN as u16).to_be_bytes());
            put(&mut prefix, 12, &id.to_be_bytes());
        } else {
            put(&mut prefix, 12, &udp_len.to_be_bytes());
        }
        put(&mut prefix, len - 4, &udp_len.to_be_bytes());
        let mut bth = [0; Bth::LEN];
        bth.copy_from_slice(&bytes[..Bth::LEN]);
        bth[4] = 0xff;
        let mut hasher = Hasher::new();
        hasher.update(&prefix[..len]);
        hasher.update(&bth);
        hasher.update(&bytes[Bth::LEN..]);
        hasher.finalize()
    }

    /// Whether the last four bytes of `packet` are its ICRC; `packet` is what the UDP datagram carries.
    pub fn check(&self, id: u16, packet: &[u8]) -> bool {
        match split(packet) {
            Some((bytes, icrc)) => self.icrc(id, bytes) == icrc,
            None => false,
        }
    }

    /// The IPv4 identification with which the ICRC of `packet` is right, if there is one; at most one is. For IPv6, which has none, 0 if
    /// the ICRC is right.
    ///
    /// A UDP socket does not show the identification. Of all corrupted packets that a known one would reveal, this lets one in 2^16
    /// pass, as 2^16 of the 2^32 values of the ICRC are right for some identification. Who knows that the sender uses only the
    /// identifications 0 to 63 and rejects others lets one in 2^26 pass.
    pub fn solve_id(&self, packet: &[u8]) -> Option<u16> {
        let (bytes, icrc) = split(packet)?;
        let difference = self.icrc(0, bytes) ^ icrc;
        if !self.is_ipv4() {
            return (difference == 0).then_some(0);
        }
        // Bytes from the identification to the end of what the CRC covers.
        let distance = usize::from(self.len) - 12 + bytes.len();
        let back = step_back(difference, distance);
        (back >> 16 == 0).then_some((back as u16).swap_bytes())
    }

    const fn is_ipv4(&self) -> bool {
        self.len as usize == 8 + IPV4_LEN + UDP_LEN
    }
}

fn put_udp(prefix: &mut [u8], at: usize, source_port: u16) {
    put(prefix, at, &source_port.to_be_bytes());
    put(prefix, at + 2, &ROCE_PORT.to_be_bytes());
    put(prefix, at + 4, &[0, 0, 0xff, 0xff]);
}

fn split(packet: &[u8]) -> Option<(&[u8], u32)> {
    let (bytes, icrc) = packet.split_last_chunk::<ICRC_LEN>()?;
    (bytes.len() >= Bth::LEN).then_some((bytes, u32::from_le_bytes(*icrc)))
}

/// The CRC's polynomial, highest power in the least significant bit.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// What the CRC register was `bytes` zero bytes before it was `register`.
fn step_back(mut register: u32, bytes: usize) -> u32 {
    for _ in 0..bytes * 8 {
        let carry = register >> 31;
        register = (register ^ (POLYNOMIAL & carry.wrapping_neg())) << 1 | carry;
    }
    register
}
