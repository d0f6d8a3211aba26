//! The part of RoCEv2 that the test bed needs to test itself: the base transport header and the ICRC.
//!
//! It shares no code with rnic on purpose, so that an error in either implementation of the specification shows as a
//! difference.

use crate::frame::{Datagram, Udp};
use std::net::IpAddr;

/// Opcode of RC SEND Only.
pub const SEND_ONLY: u8 = 0x04;
/// Opcode of RC RDMA WRITE Only.
pub const WRITE_ONLY: u8 = 0x0a;
/// Opcode of RC Acknowledge.
pub const ACKNOWLEDGE: u8 = 0x11;

/// Length of the base transport header in bytes.
pub const BTH: usize = 12;
/// Length of the ICRC in bytes.
pub const ICRC: usize = 4;

/// The base transport header (BTH) of a RoCEv2 packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    /// Opcode: transport service and type of the packet.
    pub opcode: u8,
    /// Bytes of padding before the ICRC, 0 to 3.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// Number of the receiver's queue pair, 24 bits.
    pub dest_qp: u32,
    /// AckReq bit: whether the sender requests an acknowledgement.
    pub ack_request: bool,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

impl Bth {
    /// Makes a header with the default partition key, no padding and no AckReq bit.
    pub fn new(opcode: u8, dest_qp: u32, psn: u32) -> Bth {
        Bth { opcode, pad: 0, pkey: 0xffff, dest_qp, ack_request: false, psn }
    }

    /// Reads the header at the start of a UDP payload. Returns `None` if the payload is too short for a header and an
    /// ICRC.
    pub fn parse(payload: &[u8]) -> Option<Bth> {
        if payload.len() < BTH + ICRC {
            return None;
        }
        let word = |at: usize| u32::from_be_bytes([payload[at], payload[at + 1], payload[at + 2], payload[at + 3]]);
        Some(Bth {
            opcode: payload[0],
            pad: payload[1] >> 4 & 3,
            pkey: word(0) as u16,
            dest_qp: word(4) & 0xff_ffff,
            ack_request: payload[8] & 0x80 != 0,
            psn: word(8) & 0xff_ffff,
        })
    }

    /// Returns the bytes of the header. The transport version and all flags that [`Bth`] does not have are 0.
    pub fn emit(&self) -> [u8; BTH] {
        let words = [
            u32::from(self.opcode) << 24 | u32::from(self.pad) << 20 | u32::from(self.pkey),
            self.dest_qp & 0xff_ffff,
            u32::from(self.ack_request) << 31 | (self.psn & 0xff_ffff),
        ];
        let mut bytes = [0; BTH];
        bytes.chunks_mut(4).zip(words).for_each(|(chunk, word)| chunk.copy_from_slice(&word.to_be_bytes()));
        bytes
    }
}

/// Builds a whole IP packet with its ICRC. `rest` holds the headers after the base transport header, and the payload.
/// Both addresses must be IPv4 or both IPv6.
pub fn packet(src: IpAddr, dst: IpAddr, sport: u16, ip_id: u16, bth: &Bth, rest: &[u8]) -> Vec<u8> {
    let payload = [&bth.emit()[..], rest, &[0; ICRC]].concat();
    let mut packet = Udp { ip_id, ..Udp::roce(src, dst, sport, &payload) }.emit();
    let sum = icrc(&packet).to_le_bytes();
    let end = packet.len() - ICRC;
    packet[end..].copy_from_slice(&sum);
    packet
}

/// Whether the last four bytes of a datagram are the correct ICRC.
pub fn icrc_is_right(datagram: &Datagram) -> bool {
    let Some((_, last)) = datagram.packet.split_last_chunk::<ICRC>() else { return false };
    datagram.payload().len() >= BTH + ICRC && icrc(&datagram.packet) == u32::from_le_bytes(*last)
}

/// Computes the ICRC of an IP packet. The last four bytes of the packet, the place of its ICRC, are left out.
///
/// It is a CRC-32 over eight bytes of ones and the packet, in which ones replace the fields that routers may change:
/// type of service, time to live, header checksum (IPv4); traffic class, flow label, hop limit (IPv6); UDP checksum;
/// byte 4 of the base transport header. Annex A17 of the InfiniBand specification, section 17.3.3.
fn icrc(packet: &[u8]) -> u32 {
    let mut masked = packet[..packet.len() - ICRC].to_vec();
    let udp = if packet[0] >> 4 == 4 {
        for at in [1, 8, 10, 11] {
            masked[at] = 0xff;
        }
        20
    } else {
        masked[0] |= 0x0f;
        for at in [1, 2, 3, 7] {
            masked[at] = 0xff;
        }
        40
    };
    for at in [6, 7, 8 + 4] {
        masked[udp + at] = 0xff;
    }
    crc32(&[&[0xff; 8][..], &masked].concat())
}

/// Computes the CRC-32 of Ethernet, bit by bit: polynomial 04C11DB7 reflected, initial value all ones, result inverted.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::ETHERNET_HEADER;
    use std::path::Path;

    /// Returns the frames of a pcapng file, which are in its enhanced packet blocks.
    fn frames(file: &[u8]) -> Vec<&[u8]> {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        let mut at = 0;
        let mut frames = Vec::new();
        while at < file.len() {
            if word(at) == 6 {
                frames.push(&file[at + 28..at + 28 + word(at + 20)]);
            }
            at += word(at + 4);
        }
        frames
    }

    #[test]
    fn every_frame_that_the_kernel_sent_has_the_icrc_that_is_computed_here() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("captures");
        let (mut v4, mut v6) = (0, 0);
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            for frame in frames(&std::fs::read(&path).unwrap()) {
                let datagram = Datagram::parse(&frame[ETHERNET_HEADER..]).unwrap();
                assert!(icrc_is_right(&datagram), "{}: {datagram:02x?}", path.display());
                *(if datagram.src.is_ipv4() { &mut v4 } else { &mut v6 }) += 1;
            }
        }
        assert!(v4 > 100 && v6 > 50, "{v4} frames over IPv4, {v6} over IPv6");
    }

    #[test]
    fn the_icrc_ignores_what_routers_change_and_nothing_else() {
        for (src, dst) in [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")] {
            let bth = Bth::new(SEND_ONLY, 0x11, 7);
            let packet = packet(src.parse().unwrap(), dst.parse().unwrap(), 0xc000, 0x1234, &bth, b"four");
            // Fields that the ICRC masks: type of service, time to live, checksums; traffic class, flow label, hop
            // limit; and the flags next to the queue pair number.
            let masked: &[usize] =
                if packet[0] >> 4 == 4 { &[1, 8, 10, 11, 26, 27, 32] } else { &[0, 1, 2, 3, 7, 46, 47, 52] };
            for at in 0..packet.len() - ICRC {
                let mut changed = packet.clone();
                changed[at] ^= 1;
                assert_eq!(icrc(&changed) == icrc(&packet), masked.contains(&at), "{src}: byte {at}");
            }
        }
    }

    #[test]
    fn the_check_value_of_crc_32() {
        // The value that catalogues of CRCs give for these nine digits.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_header_byte_by_byte() {
        let bth = Bth { opcode: 0x04, pad: 3, pkey: 0xffff, dest_qp: 0x11, ack_request: true, psn: 0xabcdef };
        let bytes = [0x04, 0x30, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0xab, 0xcd, 0xef];
        assert_eq!(bth.emit(), bytes);
        assert_eq!(Bth::parse(&[&bytes[..], &[0; 4]].concat()), Some(bth));
        assert_eq!(Bth::parse(&bytes), None);
    }
}
