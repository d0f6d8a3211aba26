//! The RoCEv2 packet that carries a MAD: a UD Send to queue pair 1 with the well-known Q_Key.

use crate::message::MadBytes;
use rnic_wire::{Bth, Deth, GSI_QP, Headers, IcrcSeed, Opcode, Packet, ROCE_PORT};
use std::net::{IpAddr, SocketAddr};

/// The Q_Key of queue pair 1.
pub const QKEY: u32 = 0x8001_0000;
/// The default partition with full membership; a receiver ignores the membership bit.
pub const PKEY: u16 = 0xffff;
/// UDP payload bytes of a packet with a MAD: base transport header, datagram header, MAD, ICRC.
pub const LEN: usize = 12 + 8 + 256 + 4;

fn seed(source: SocketAddr, destination: IpAddr) -> Option<IcrcSeed> {
    match (source.ip(), destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Some(IcrcSeed::ipv4(from, to, source.port(), ROCE_PORT)),
        (IpAddr::V6(from), IpAddr::V6(to)) => Some(IcrcSeed::ipv6(from, to, source.port(), ROCE_PORT)),
        _ => None,
    }
}

/// Whether a packet goes to queue pair 1. Checks only the destination queue pair number.
pub fn is_for_manager(packet: &[u8]) -> bool {
    packet.get(5..8) == Some(&GSI_QP.to_be_bytes()[1..])
}

/// The packet that carries `mad` from `source` to UDP port 4791 of `destination`; `None` if one address is IPv4 and the
/// other one IPv6.
pub fn emit(mad: &MadBytes, psn: u32, source: SocketAddr, destination: IpAddr) -> Option<[u8; LEN]> {
    let headers = Headers {
        deth: Some(Deth { qkey: QKEY, src_qp: GSI_QP }),
        ..Headers::new(Bth { pkey: PKEY, ..Bth::new(Opcode::UD_SEND_ONLY, GSI_QP, psn) })
    };
    let mut out = [0; LEN];
    Packet::new(headers, mad).emit(&seed(source, destination)?, 0, &mut out);
    Some(out)
}

/// Returns the MAD in a packet from `source` to `destination`; `None` if the packet has no MAD, or its ICRC is wrong.
/// The ICRC covers the IPv4 identification, which a socket does not show, so any identification is accepted
/// ([`IcrcSeed::solve_id`]).
pub fn parse(packet: &[u8], source: SocketAddr, destination: IpAddr) -> Option<MadBytes> {
    if packet.len() != LEN || !is_for_manager(packet) {
        return None;
    }
    let parsed = Packet::parse(packet).ok()?;
    let (bth, deth) = (parsed.headers.bth, parsed.headers.deth?);
    let usual = bth.opcode == Opcode::UD_SEND_ONLY && deth.qkey == QKEY && bth.pkey & 0x7fff == PKEY & 0x7fff;
    let mad: MadBytes = parsed.payload.try_into().ok()?;
    (usual && seed(source, destination)?.solve_id(packet).is_some()).then_some(mad)
}
