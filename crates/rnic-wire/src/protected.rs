//! The header of protected packets: packets of a connection between two rnic endpoints that are authenticated, or
//! authenticated and encrypted. `docs/reference/wire.md` has a table of the fields.
//!
//! A protected packet carries a whole packet without ICRC, from its BTH to its padding, between a [`ProtectedHeader`]
//! and the authentication tag of AES-128-GCM. The tag also covers the header.

use crate::{Bth, ICRC_LEN};

/// Header of a protected packet. Its first eight bytes are laid out as those of a BTH.
///
/// ```
/// use rnic_wire::ProtectedHeader;
///
/// let header = ProtectedHeader { encrypted: true, padding: 8, dest_qp: 0x12_3456, packet_number: 7 };
/// let mut packet = vec![0; 64];
/// packet[..ProtectedHeader::LEN].copy_from_slice(&header.emit());
/// assert_eq!(ProtectedHeader::parse(&packet), Some(header));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtectedHeader {
    /// Whether the packet is encrypted, and not only authenticated.
    pub encrypted: bool,
    /// Number of zero bytes between the packet inside and the tag, a multiple of 4, at most
    /// [`ProtectedHeader::MAX_PADDING`]. A sender fills packets up to one length, so that one system call sends them.
    pub padding: u16,
    /// Destination queue pair number, 24 bits. It is also the destination of the packet inside.
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
    /// Bytes by which a protected packet is longer than the same packet with an ICRC.
    pub const OVERHEAD: usize = ProtectedHeader::LEN + ProtectedHeader::TAG_LEN - ICRC_LEN;
    /// Opcode of an authenticated packet; the opcode of an encrypted one is the next. They are among the opcodes that
    /// InfiniBand leaves to manufacturers.
    pub const OPCODE: u8 = 0xe0;

    /// Maximum padding in bytes.
    pub const MAX_PADDING: usize = 4 * u8::MAX as usize;

    /// Writes only the length of the padding into the header of `packet`: `padding` bytes, a multiple of 4, at most
    /// [`ProtectedHeader::MAX_PADDING`].
    pub fn set_padding(packet: &mut [u8], padding: usize) {
        packet[1] = (padding / 4) as u8;
    }

    /// Reads the length of the padding from the header of `packet`.
    pub fn padding_of(packet: &[u8]) -> u16 {
        4 * u16::from(packet[1])
    }

    /// Whether a packet with the first byte of `bytes` is a protected packet.
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|opcode| opcode & !1 == ProtectedHeader::OPCODE)
    }

    /// Writes the header.
    pub fn emit(&self) -> [u8; ProtectedHeader::LEN] {
        let mut bytes = [0; ProtectedHeader::LEN];
        bytes[0] = ProtectedHeader::OPCODE | u8::from(self.encrypted);
        ProtectedHeader::set_padding(&mut bytes, self.padding.into());
        bytes[2..4].copy_from_slice(&Bth::DEFAULT_PKEY.to_be_bytes());
        bytes[4..8].copy_from_slice(&(self.dest_qp & 0xff_ffff).to_be_bytes());
        bytes[8..].copy_from_slice(&self.packet_number.to_be_bytes());
        bytes
    }

    /// Reads the header of `packet`; `None` if it is no protected packet, or too short to hold a BTH, its padding and a
    /// tag.
    pub fn parse(packet: &[u8]) -> Option<ProtectedHeader> {
        let (header, rest) = packet.split_first_chunk::<{ ProtectedHeader::LEN }>()?;
        let padding = ProtectedHeader::padding_of(header);
        let least = Bth::LEN + usize::from(padding) + ProtectedHeader::TAG_LEN;
        if !ProtectedHeader::begins(header) || rest.len() < least {
            return None;
        }
        let [.., a, b, c, d, e, f, g, h] = *header;
        Some(ProtectedHeader {
            encrypted: header[0] & 1 == 1,
            padding,
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
        let header =
            ProtectedHeader { encrypted: false, padding: 12, dest_qp: 0x01_0203, packet_number: 0x1122_3344_5566_7788 };
        let bytes = header.emit();
        assert_eq!(bytes, [0xe0, 3, 0xff, 0xff, 0, 1, 2, 3, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        assert_eq!(ProtectedHeader { encrypted: true, ..header }.emit()[0], 0xe1);
        assert_eq!(ProtectedHeader::OVERHEAD, 28);
    }

    #[test]
    fn other_and_short_packets_are_none() {
        let mut packet = vec![0; ProtectedHeader::LEN + Bth::LEN + ProtectedHeader::TAG_LEN];
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
