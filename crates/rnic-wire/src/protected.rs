//! The layout of protected datagrams: they carry packets of a connection between two rnic endpoints that are
//! authenticated, or authenticated and encrypted. `docs/reference/wire.md` has a table of the fields.
//!
//! A protected datagram carries one or more whole packets without ICRC, each from its BTH to its padding, between a
//! [`ProtectedHeader`] and the authentication tag of AES-128-GCM. The tag also covers the header. Each packet follows
//! its length, and zero bytes may follow the last packet.

use crate::{Bth, ICRC_LEN};

/// Header of a protected datagram. Its first eight bytes are laid out as those of a BTH.
///
/// ```
/// use rnic_wire::ProtectedHeader;
///
/// let header = ProtectedHeader { encrypted: true, dest_qp: 0x12_3456, packet_number: 7 };
/// let mut packet = vec![0; 64];
/// packet[..ProtectedHeader::LEN].copy_from_slice(&header.emit());
/// assert_eq!(ProtectedHeader::parse(&packet), Some(header));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtectedHeader {
    /// Whether the packet is encrypted, and not only authenticated.
    pub encrypted: bool,
    /// Destination queue pair number, 24 bits. It is also the destination of the packets inside.
    pub dest_qp: u32,
    /// Number of the transmission: the sender counts all protected packets of the connection from 0 on, and never uses
    /// a number twice.
    pub packet_number: u64,
}

impl ProtectedHeader {
    /// Length in bytes.
    pub const LEN: usize = 16;
    /// Length of the authentication tag at the end of the packet, in bytes.
    pub const TAG_LEN: usize = 16;
    /// Bytes before each packet inside: its length without ICRC in two bytes, and two reserved bytes.
    pub const LENGTH_LEN: usize = 4;
    /// Bytes by which a protected datagram with one packet is longer than the same packet with an ICRC.
    pub const OVERHEAD: usize =
        ProtectedHeader::LEN + ProtectedHeader::LENGTH_LEN + ProtectedHeader::TAG_LEN - ICRC_LEN;
    /// Opcode of an authenticated packet; the opcode of an encrypted one is the next. They are among the opcodes that
    /// InfiniBand leaves to manufacturers.
    pub const OPCODE: u8 = 0xe0;

    /// The bytes before a packet of `len` bytes without ICRC.
    pub fn length(len: usize) -> [u8; ProtectedHeader::LENGTH_LEN] {
        let [high, low] = (len as u16).to_be_bytes();
        [high, low, 0, 0]
    }

    /// Iterates over the packets inside a protected datagram. `inside` begins behind the header. Four bytes of any
    /// value must follow the last packet's length or padding, because each packet is returned with the four bytes
    /// behind it, in the place of its ICRC. Ends at zero bytes, and at a length that is too large.
    ///
    /// ```
    /// use rnic_wire::ProtectedHeader;
    ///
    /// let inside = [0, 4, 0, 0, 1, 1, 1, 1, 0, 4, 0, 0, 2, 2, 2, 2, 0, 0, 0, 0, 9, 9, 9, 9];
    /// let packets: Vec<&[u8]> = ProtectedHeader::packets(&inside).collect();
    /// assert_eq!(packets, [&[1, 1, 1, 1, 0, 4, 0, 0], &[2, 2, 2, 2, 0, 0, 0, 0]]);
    /// ```
    pub fn packets(inside: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut rest = inside;
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first_chunk::<{ ProtectedHeader::LENGTH_LEN }>()?;
            let len = usize::from(u16::from_be_bytes([length[0], length[1]]));
            if len == 0 {
                return None;
            }
            let packet = behind.get(..len + ICRC_LEN)?;
            rest = &behind[len..];
            Some(packet)
        })
    }

    /// Whether a packet with the first byte of `bytes` is a protected packet.
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|opcode| opcode & !1 == ProtectedHeader::OPCODE)
    }

    /// Writes the header.
    pub fn emit(&self) -> [u8; ProtectedHeader::LEN] {
        let mut bytes = [0; ProtectedHeader::LEN];
        bytes[0] = ProtectedHeader::OPCODE | u8::from(self.encrypted);
        bytes[2..4].copy_from_slice(&Bth::DEFAULT_PKEY.to_be_bytes());
        bytes[4..8].copy_from_slice(&(self.dest_qp & 0xff_ffff).to_be_bytes());
        bytes[8..].copy_from_slice(&self.packet_number.to_be_bytes());
        bytes
    }

    /// Reads the header of the datagram `packet`; `None` if it is not protected, or too short to hold a packet and a
    /// tag.
    pub fn parse(packet: &[u8]) -> Option<ProtectedHeader> {
        let (header, rest) = packet.split_first_chunk::<{ ProtectedHeader::LEN }>()?;
        let least = ProtectedHeader::LENGTH_LEN + Bth::LEN + ProtectedHeader::TAG_LEN;
        if !ProtectedHeader::begins(header) || rest.len() < least {
            return None;
        }
        let [.., a, b, c, d, e, f, g, h] = *header;
        Some(ProtectedHeader {
            encrypted: header[0] & 1 == 1,
            dest_qp: u32::from_be_bytes([0, header[5], header[6], header[7]]),
            packet_number: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Opcode;

    #[test]
    fn the_fields_are_where_the_documentation_says() {
        let header = ProtectedHeader { encrypted: false, dest_qp: 0x01_0203, packet_number: 0x1122_3344_5566_7788 };
        let bytes = header.emit();
        assert_eq!(bytes, [0xe0, 0, 0xff, 0xff, 0, 1, 2, 3, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        assert_eq!(ProtectedHeader { encrypted: true, ..header }.emit()[0], 0xe1);
        assert_eq!(ProtectedHeader::OVERHEAD, 32);
    }

    #[test]
    fn packets_inside_end_at_zeros_and_at_lengths_that_are_too_large() {
        let packets = |bytes: &[u8]| ProtectedHeader::packets(bytes).map(<[u8]>::len).collect::<Vec<_>>();
        let one = [0, 8, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
        assert_eq!(packets(&[&one[..], &[9; 4]].concat()), [12]);
        assert_eq!(packets(&[&one[..], &[0; 8]].concat()), [12]);
        assert_eq!(packets(&[&one[..], &one, &[9; 4]].concat()), [12, 12]);
        assert_eq!(packets(&[&one[..], &[0, 5, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]].concat()), [12]);
        for short in 0..one.len() + 4 {
            assert_eq!(packets(&[&one[..], &[9; 4]].concat()[..short]), []);
        }
        assert_eq!(ProtectedHeader::length(8_996), [0x23, 0x24, 0, 0]);
    }

    #[test]
    fn other_and_short_packets_are_none() {
        let mut packet =
            vec![0; ProtectedHeader::LEN + ProtectedHeader::LENGTH_LEN + Bth::LEN + ProtectedHeader::TAG_LEN];
        packet[0] = 0xe1;
        assert!(ProtectedHeader::parse(&packet).is_some());
        for len in 0..packet.len() {
            assert_eq!(ProtectedHeader::parse(&packet[..len]), None);
        }
        for opcode in 0..=255 {
            packet[0] = opcode;
            let is_protected = opcode == 0xe0 || opcode == 0xe1;
            assert_eq!(ProtectedHeader::parse(&packet).is_some(), is_protected);
            // No opcode of another packet is taken.
            assert!(!is_protected || Opcode::from_u8(opcode).is_none());
        }
    }
}
