//! The invariant CRC (ICRC): the last four bytes of every packet.
//!
//! The ICRC is the CRC-32 of Ethernet, computed over eight bytes 0xff (which stand for InfiniBand's local route header)
//! and then over all bytes from the IP header up to the ICRC. Fields that a router may change count as all ones (annex
//! A17.3.4 of InfiniBand volume 1):
//!
//! | header | fields that count as all ones |
//! |---|---|
//! | IPv4 | type of service, time to live, header checksum |
//! | IPv6, GRH | traffic class, flow label, hop limit |
//! | UDP | checksum |
//! | BTH | byte 4: FECN, BECN and six reserved bits |
//!
//! On the wire the ICRC is little-endian.
//!
//! A CRC is linear: the exclusive-or of the CRCs of two messages of equal length depends only on the exclusive-or of
//! the messages. [`IcrcSeed::solve_id`] uses the linearity to find the IPv4 identification of a received packet, which
//! a UDP socket does not reveal.

use crate::ICRC_LEN;
use crate::bytes::put;
use crate::header::Bth;
use crc32fast::Hasher;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The 16 bits of flags and fragment offset in the IPv4 header of a packet with the don't-fragment flag.
pub const DONT_FRAGMENT: u16 = 0x4000;

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const UDP: u8 = 17;
/// Length in bytes of the CRC's input before the base transport header: eight bytes 0xff, IP header, UDP header.
const IPV4_PREFIX: usize = 8 + IPV4_LEN + UDP_LEN;
const IPV6_PREFIX: usize = 8 + IPV6_LEN + UDP_LEN;

/// Computes and checks the ICRCs of packets between two addresses and ports; holds the part of the CRC's input that all
/// those packets share.
///
/// ```
/// use rnic_wire::{IcrcSeed, Packet, ROCE_PORT};
///
/// let seed = IcrcSeed::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 49152, ROCE_PORT);
/// let mut datagram = [0; 32];
/// Packet::cnp(17).emit(&seed, 5, &mut datagram);
///
/// assert!(seed.check(5, &datagram));
/// assert_eq!(seed.solve_id(&datagram), Some(5), "the receiver finds the IPv4 identification");
///
/// datagram[20] ^= 1;
/// assert!(!seed.check(5, &datagram));
/// ```
#[derive(Clone, Debug)]
pub struct IcrcSeed {
    /// Eight bytes 0xff, IP header and UDP header, with masked fields set to ones, and with lengths and identification
    /// set to zero.
    prefix: [u8; IPV6_PREFIX],
    is_ipv4: bool,
}

impl IcrcSeed {
    /// A seed for the ICRCs of IPv4 packets with the don't-fragment flag and without options.
    pub fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, source_port: u16, destination_port: u16) -> IcrcSeed {
        IcrcSeed::ipv4_with_flags(source, destination, source_port, destination_port, DONT_FRAGMENT)
    }

    /// A seed for the ICRCs of IPv4 packets without options; `flags` are the 16 bits of flags and fragment offset.
    pub fn ipv4_with_flags(
        source: Ipv4Addr, destination: Ipv4Addr, source_port: u16, destination_port: u16, flags: u16,
    ) -> IcrcSeed {
        let mut prefix = [0xff; IPV6_PREFIX];
        put(&mut prefix, 8, &[0x45, 0xff, 0, 0, 0, 0]);
        put(&mut prefix, 14, &flags.to_be_bytes());
        put(&mut prefix, 16, &[0xff, UDP, 0xff, 0xff]);
        put(&mut prefix, 20, &source.octets());
        put(&mut prefix, 24, &destination.octets());
        put_udp(&mut prefix, 8 + IPV4_LEN, source_port, destination_port);
        IcrcSeed { prefix, is_ipv4: true }
    }

    /// A seed for the ICRCs of IPv6 packets without extension headers.
    pub fn ipv6(source: Ipv6Addr, destination: Ipv6Addr, source_port: u16, destination_port: u16) -> IcrcSeed {
        let mut prefix = [0xff; IPV6_PREFIX];
        put(&mut prefix, 8, &[0x6f, 0xff, 0xff, 0xff, 0, 0, UDP, 0xff]);
        put(&mut prefix, 16, &source.octets());
        put(&mut prefix, 32, &destination.octets());
        put_udp(&mut prefix, 8 + IPV6_LEN, source_port, destination_port);
        IcrcSeed { prefix, is_ipv4: false }
    }

    /// Computes the ICRC of a packet. `bytes` are the packet's bytes from the base transport header up to the ICRC,
    /// exclusive; `id` is the IPv4 identification (ignored for IPv6). The packet carries the result as `to_le_bytes`.
    ///
    /// # Panics
    /// If `bytes` has fewer than 12 bytes.
    #[inline]
    pub fn icrc(&self, id: u16, bytes: &[u8]) -> u32 {
        let (bth, rest) = bytes.split_first_chunk().expect("a packet begins with its base transport header");
        self.begin(id, bytes.len(), bth).update(rest).finish()
    }

    /// Begins the ICRC of a packet of `len` bytes (without the ICRC) whose base transport header is `bth`. The caller
    /// passes the remaining bytes to [`Icrc::update`], in one or several parts.
    #[inline]
    pub fn begin(&self, id: u16, len: usize, bth: &[u8; Bth::LEN]) -> Icrc {
        let udp_len = (UDP_LEN + len + ICRC_LEN) as u16;
        let mut masked = *bth;
        masked[4] = 0xff;
        let mut hasher = Hasher::new();
        if self.is_ipv4 {
            let mut bytes = [0; IPV4_PREFIX + Bth::LEN];
            bytes[..IPV4_PREFIX].copy_from_slice(&self.prefix[..IPV4_PREFIX]);
            put(&mut bytes, 10, &(udp_len + IPV4_LEN as u16).to_be_bytes());
            put(&mut bytes, 12, &id.to_be_bytes());
            put(&mut bytes, IPV4_PREFIX - 4, &udp_len.to_be_bytes());
            put(&mut bytes, IPV4_PREFIX, &masked);
            hasher.update(&bytes);
        } else {
            let mut bytes = [0; IPV6_PREFIX + Bth::LEN];
            bytes[..IPV6_PREFIX].copy_from_slice(&self.prefix);
            put(&mut bytes, 12, &udp_len.to_be_bytes());
            put(&mut bytes, IPV6_PREFIX - 4, &udp_len.to_be_bytes());
            put(&mut bytes, IPV6_PREFIX, &masked);
            hasher.update(&bytes);
        }
        Icrc(hasher)
    }

    /// Whether the last four bytes of `packet`, the payload of a UDP datagram, are its correct ICRC. `id` is the IPv4
    /// identification (ignored for IPv6).
    pub fn check(&self, id: u16, packet: &[u8]) -> bool {
        match split(packet) {
            Some((bytes, icrc)) => self.icrc(id, bytes) == icrc,
            None => false,
        }
    }

    /// Finds the IPv4 identification for which the ICRC of `packet` is correct; `None` if there is none. At most one
    /// identification matches. IPv6 has no identification: the result is 0 if the ICRC is correct.
    ///
    /// Use this function where a UDP socket does not reveal the identification. The check is weaker than with a known
    /// identification: 2^16 of the 2^32 ICRC values are correct for some identification, so one of 2^16 corrupted
    /// packets passes. If the sender uses only the identifications 0 to 63 and the receiver rejects all others, one of
    /// 2^26 corrupted packets passes.
    #[inline]
    pub fn solve_id(&self, packet: &[u8]) -> Option<u16> {
        self.solve_id_from(0, packet)
    }

    /// Like [`IcrcSeed::solve_id`], but tries the identification `guess` first. It costs as much as
    /// [`IcrcSeed::check`] in every case, because the identification follows from the difference of the two ICRCs. For
    /// IPv6 the result is `guess` if the ICRC is correct.
    #[inline]
    pub fn solve_id_from(&self, guess: u16, packet: &[u8]) -> Option<u16> {
        let (bytes, icrc) = split(packet)?;
        let difference = self.icrc(guess, bytes) ^ icrc;
        match (difference, self.is_ipv4) {
            (0, true) => Some(guess),
            (_, true) => solve(difference, bytes.len()).map(|id| id ^ guess),
            (_, false) => (difference == 0).then_some(guess),
        }
    }
}

/// An ICRC computation to which the packet's bytes are passed in parts; see [`IcrcSeed::begin`].
#[derive(Clone, Debug)]
pub struct Icrc(Hasher);

impl Icrc {
    /// Adds the next bytes of the packet.
    #[inline]
    #[must_use]
    pub fn update(mut self, bytes: &[u8]) -> Icrc {
        self.0.update(bytes);
        self
    }
    /// Returns the ICRC; the packet carries it as `to_le_bytes`.
    #[inline]
    pub fn finish(self) -> u32 {
        self.0.finalize()
    }
}

/// Computes the ICRC from captured bytes: `ip` is the IP header with its options, or the GRH; `udp` is the UDP header,
/// empty for RoCEv1; `bytes` are the bytes from the base transport header up to the ICRC, exclusive. `None` if `bytes`
/// is shorter than a BTH.
pub(crate) fn of_headers(ip: &[u8], udp: &[u8], bytes: &[u8]) -> Option<u32> {
    let (bth, rest) = bytes.split_first_chunk::<{ Bth::LEN }>()?;
    let mut masked = [0xff; 8 + 60 + UDP_LEN + Bth::LEN];
    let udp_at = 8 + ip.len();
    let bth_at = udp_at + udp.len();
    put(&mut masked, 8, ip);
    put(&mut masked, udp_at, udp);
    put(&mut masked, bth_at, bth);
    let ones: &[usize] = if ip[0] >> 4 == 4 { &[9, 16, 18, 19] } else { &[9, 10, 11, 15] };
    for at in ones {
        masked[*at] = 0xff;
    }
    if ip[0] >> 4 == 6 {
        masked[8] |= 0x0f;
    }
    if !udp.is_empty() {
        masked[udp_at + 6..udp_at + 8].fill(0xff);
    }
    masked[bth_at + 4] = 0xff;
    let mut hasher = Hasher::new();
    hasher.update(&masked[..bth_at + Bth::LEN]);
    hasher.update(rest);
    Some(hasher.finalize())
}

fn put_udp(prefix: &mut [u8], at: usize, source_port: u16, destination_port: u16) {
    put(prefix, at, &source_port.to_be_bytes());
    put(prefix, at + 2, &destination_port.to_be_bytes());
    put(prefix, at + 4, &[0, 0, 0xff, 0xff]);
}

fn split(packet: &[u8]) -> Option<(&[u8], u32)> {
    let (bytes, icrc) = packet.split_last_chunk::<ICRC_LEN>()?;
    (bytes.len() >= Bth::LEN).then_some((bytes, u32::from_le_bytes(*icrc)))
}

/// Finds the exclusive-or of two identifications, given the exclusive-or (`difference`) of the two ICRCs of a packet of
/// `len` bytes (without the ICRC); `None` if no pair of identifications explains the difference.
fn solve(difference: u32, len: usize) -> Option<u16> {
    // Step the CRC register back from the end of the CRC's input to the identification.
    let back = step_back(difference, IPV4_PREFIX - 12 + len);
    (back >> 16 == 0).then_some((back as u16).swap_bytes())
}

/// The CRC's polynomial, with the coefficient of the highest power in the least significant bit.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// Runs the CRC backwards: returns the value that the CRC register had before `bytes` zero bytes made it `register`.
///
/// The register is a polynomial modulo the CRC's polynomial, and a zero byte multiplies the register by x^8. The CRC's
/// polynomial is primitive, so x has an inverse. Two tables hold powers of the inverse, one for each base-256 digit of
/// `bytes`; the register is multiplied by one entry of each.
fn step_back(register: u32, bytes: usize) -> u32 {
    let (high, low) = (bytes >> 8, bytes & 0xff);
    multiply(multiply(register, BACK_LOW[low]), BACK_HIGH[high & 0xff])
}

/// Tables for [`step_back`]: `BACK_LOW[n]` is x^(-8n), `BACK_HIGH[n]` is x^(-2048n), modulo the CRC's polynomial.
static BACK_LOW: [u32; 256] = powers(back_one(1 << 31, 8));
static BACK_HIGH: [u32; 256] = powers(back_one(1 << 31, 8 * 256));

const fn powers(step: u32) -> [u32; 256] {
    let mut powers = [1 << 31; 256];
    let mut at = 1;
    while at < 256 {
        powers[at] = multiply(powers[at - 1], step);
        at += 1;
    }
    powers
}

/// Divides the polynomial `value` by x^`bits`.
const fn back_one(mut value: u32, bits: usize) -> u32 {
    let mut bit = 0;
    while bit < bits {
        let carry = value >> 31;
        value = (value ^ (POLYNOMIAL & carry.wrapping_neg())) << 1 | carry;
        bit += 1;
    }
    value
}

/// The product of two polynomials modulo the CRC's polynomial; the coefficient of x^0 is the most significant bit.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, 32);
    while bit > 0 {
        bit -= 1;
        product ^= b & (a >> bit & 1).wrapping_neg();
        b = b >> 1 ^ POLYNOMIAL & (b & 1).wrapping_neg();
    }
    product
}
