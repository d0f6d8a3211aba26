//! Parses captured frames and checks the RoCE packets in them.

use super::capture::Captured;
use rnic_wire::{
    Bth, BthView, Content, Ethernet, Frame, GSI_QP, Headers, ICRC_LEN, Ip, LinkType, Mad, Opcode, Operation, Packet,
    Pfc, ProtectedHeader, ROCE_PORT, Reject, RoceV1, RoceV2,
};
use std::collections::BTreeSet;

/// Maximum payload of an IRN packet in bytes.
const MAX_MTU: u16 = 8_960;

/// The contents of a captured frame.
pub(super) enum Found<'a> {
    /// One RoCE packet, or the packets of a batch. A batch is a captured datagram of several packets: the NIC had not
    /// segmented it yet, or the kernel coalesced it on reception.
    Packets(Vec<Roce<'a>>),
    /// A frame of priority flow control (PFC).
    Pfc {
        /// Ethernet header of the frame, if the capture contains it.
        ethernet: Option<Ethernet>,
        /// Priorities and their pause times.
        pfc: Pfc,
    },
    /// A frame that is neither RoCE nor PFC, with the name of its kind.
    Other(String),
    /// A malformed frame, with the reason why it cannot be parsed.
    Malformed(&'static str),
}

/// The headers between Ethernet and the base transport header: UDP/IP of RoCEv2, or the GRH of RoCEv1.
#[derive(Clone, Copy)]
pub(super) enum Network<'a> {
    V2(RoceV2<'a>),
    V1(RoceV1<'a>),
}

impl Network<'_> {
    /// The IP header of the packet. The GRH of RoCEv1 has the layout of an IPv6 header.
    pub(super) fn ip(&self) -> Ip {
        match self {
            Network::V2(datagram) => datagram.ip,
            Network::V1(packet) => Ip::V6(packet.grh),
        }
    }
}

/// Result of checking the ICRC of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Checked {
    /// The ICRC in the packet, which equals the computed ICRC.
    Right(u32),
    /// The ICRC in the packet. It is right if the IPv4 identification counts as 0, as between two rnic endpoints.
    RightWithoutId(u32),
    /// The ICRC in the packet differs from the computed ICRC.
    Wrong {
        /// ICRC that the packet contains.
        found: u32,
        /// ICRC that was computed from the packet.
        computed: u32,
    },
    /// The ICRC cannot be checked, because the capture does not contain all bytes of the packet.
    Unknown,
    /// The packet is protected: instead of an ICRC it has a tag, which only the two ends can check.
    Tag,
}

/// A RoCE packet in a capture, parsed and checked.
pub(super) struct Roce<'a> {
    pub(super) ethernet: Option<Ethernet>,
    pub(super) network: Network<'a>,
    /// For a packet of a batch (one captured datagram of several packets): its index in the batch from 1, and the
    /// number of packets in the batch.
    pub(super) batch: Option<(usize, usize)>,
    /// IPv4 identification of the packet, which increases by 1 per packet of a batch.
    pub(super) id: u16,
    /// The header of the protected datagram that contains the packet; `None` for all other packets.
    pub(super) protected: Option<ProtectedHeader>,
    /// The captured bytes from the base transport header to the ICRC. For a packet inside an authenticated datagram,
    /// the last four bytes can have any value. For an encrypted datagram, these are all captured bytes of the datagram.
    pub(super) body: &'a [u8],
    /// The reason why rnic cannot parse a valid packet, for example because it has another vendor's opcode. Only the
    /// base transport header of such a packet is shown. `None` for all other packets.
    pub(super) foreign: Option<String>,
    /// The transport headers; `None` if they cannot be parsed.
    pub(super) headers: Option<Headers>,
    /// The opcode, which may be known even if the other headers cannot be parsed.
    pub(super) opcode: Option<Opcode>,
    /// Number of payload bytes without padding; `None` if it is not known.
    pub(super) payload: Option<usize>,
    /// The payload of a management datagram.
    pub(super) mad: Option<Mad<'a>>,
    pub(super) icrc: Checked,
    /// Number of bytes of the packet that the capture does not contain.
    pub(super) missing: usize,
    /// Reason why the packet is bad; `None` for a valid packet.
    pub(super) bad: Option<String>,
}

impl<'a> Roce<'a> {
    /// A packet of which only the opcode is parsed.
    fn new(ethernet: Option<Ethernet>, network: Network<'a>, body: &'a [u8]) -> Roce<'a> {
        Roce {
            ethernet,
            network,
            batch: None,
            id: network.ip().id(),
            protected: None,
            body,
            foreign: None,
            headers: None,
            opcode: BthView::new(body).and_then(BthView::opcode),
            payload: None,
            mad: None,
            icrc: Checked::Unknown,
            missing: 0,
            bad: None,
        }
    }
}

/// The UDP ports that carry RoCE: 4791, the ports that the user names, and the destination ports of earlier packets
/// with a correct ICRC or valid protection. Two programs on one host cannot both have port 4791.
#[derive(Default)]
pub(super) struct Ports {
    known: BTreeSet<u16>,
}

impl Ports {
    /// Port 4791 and these ports.
    pub(super) fn new(named: &[u16]) -> Ports {
        Ports { known: named.iter().copied().chain([ROCE_PORT]).collect() }
    }

    /// Whether a datagram is RoCE; remembers the port of a datagram that certainly is.
    fn is_roce(&mut self, ethernet: Option<Ethernet>, datagram: RoceV2<'_>) -> bool {
        if self.known.contains(&datagram.destination_port) {
            return true;
        }
        // Most datagrams of other protocols fail this test, which needs no checksum.
        let is_plausible = |view: BthView| view.transport_version() == 0 && view.pkey() & 0x7fff != 0;
        if datagram.missing > 0 || !BthView::new(datagram.body).is_some_and(is_plausible) {
            return false;
        }
        let icrc = datagram.body.last_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let is_right = icrc.is_some() && icrc == datagram.icrc();
        let is_roce = is_right
            || datagram.icrc_seed().check(0, datagram.body)
            || batch(ethernet, datagram).is_some()
            || protected(ethernet, datagram).is_some();
        if is_roce {
            self.known.insert(datagram.destination_port);
        }
        is_roce
    }
}

/// Maximum number of VXLAN headers of a frame.
const MAX_TUNNELS: usize = 4;

/// The frame inside all VXLAN headers of a frame.
fn innermost(link: LinkType, bytes: &[u8]) -> Frame<'_> {
    // A malformed datagram to another port than 4791 is not known to be RoCE.
    let parse = |link, bytes| match Frame::parse_any_port(link, bytes) {
        Frame { content: Content::Malformed(_), .. } => Frame::parse(link, bytes),
        frame => frame,
    };
    let mut frame = parse(link, bytes);
    for _ in 0..MAX_TUNNELS {
        let Content::Vxlan(inner) = frame.content else { break };
        frame = parse(LinkType::Ethernet, inner);
    }
    frame
}

/// Parses a captured frame and checks the packets in it. `ports` are the UDP ports that carry RoCE.
///
/// `checksums`: also check the checksums of IPv4 and UDP.
pub(super) fn examine<'a>(captured: &Captured<'a>, checksums: bool, ports: &mut Ports) -> Found<'a> {
    let Some(link) = LinkType::from_number(captured.link) else {
        return Found::Other(format!("link type {}", captured.link));
    };
    let frame = innermost(link, captured.bytes);
    let is_truncated = captured.bytes.len() < captured.original;
    match frame.content {
        Content::Vxlan(_) => Found::Other(format!("more than {MAX_TUNNELS} VXLAN headers")),
        Content::RoceV2(datagram) if !ports.is_roce(frame.ethernet, datagram) => {
            Found::Other("UDP to another port".to_string())
        }
        Content::RoceV2(datagram) => {
            if let Some(packets) = protected(frame.ethernet, datagram) {
                return Found::Packets(packets);
            }
            let mut one = roce(frame.ethernet, Network::V2(datagram), datagram.body, datagram.missing, is_truncated);
            if checksums && one.bad.is_none() {
                one.bad = wrong_checksum(&datagram);
            }
            // A batch of requests without payload looks like a packet of another protocol.
            let is_right = matches!(one.icrc, Checked::Right(_) | Checked::RightWithoutId(_));
            let is_foreign = one.foreign.is_some() && !is_right;
            match (one.bad.is_some() || is_foreign).then(|| batch(frame.ethernet, datagram)).flatten() {
                Some(packets) => Found::Packets(packets),
                None => Found::Packets(vec![one]),
            }
        }
        Content::RoceV1(packet) => {
            Found::Packets(vec![roce(frame.ethernet, Network::V1(packet), packet.body, packet.missing, is_truncated)])
        }
        Content::Pfc(pfc) => Found::Pfc { ethernet: frame.ethernet, pfc },
        Content::Other(what) => Found::Other(what.to_string()),
        Content::Malformed(_) if is_truncated => Found::Other("truncated by the capture".to_string()),
        Content::Malformed(why) => Found::Malformed(why),
    }
}

/// The reason why a checksum of a datagram is wrong; `None` if the checksums are right.
fn wrong_checksum(datagram: &RoceV2<'_>) -> Option<String> {
    let sums = [("IPv4 header", datagram.ip_checksum()), ("UDP", datagram.udp_checksum())];
    let (name, sum) = sums.into_iter().find_map(|(name, sum)| Some((name, sum.filter(|sum| !sum.is_right())?)))?;
    Some(format!("the {name} checksum is {:#06x}, computed {:#06x}", sum.found, sum.computed))
}

fn roce<'a>(
    ethernet: Option<Ethernet>, network: Network<'a>, body: &'a [u8], missing: usize, is_truncated: bool,
) -> Roce<'a> {
    let computed = match &network {
        Network::V2(datagram) => datagram.icrc(),
        Network::V1(packet) => packet.icrc(),
    };
    let mut roce = Roce { missing, ..Roce::new(ethernet, network, body) };
    if missing > 0 {
        roce.headers = Headers::parse(body).ok();
        roce.payload = roce.headers.and_then(|headers| {
            let around = headers.len() + usize::from(headers.bth.pad) + ICRC_LEN;
            (body.len() + missing).checked_sub(around)
        });
        if !is_truncated {
            roce.bad = Some(format!("the frame is {missing} B shorter than its headers say"));
        }
        return roce;
    }
    if let (Some(computed), Some(found)) = (computed, body.last_chunk().map(|bytes| u32::from_le_bytes(*bytes))) {
        let without_id = matches!(&network, Network::V2(datagram) if datagram.icrc_seed().check(0, body));
        roce.icrc = match found == computed {
            true => Checked::Right(found),
            false if without_id => Checked::RightWithoutId(found),
            false => Checked::Wrong { found, computed },
        };
    }
    read(&mut roce);
    roce
}

/// Splits a captured UDP payload into the packets inside protected datagrams of rnic; `None` if the payload has another
/// format. The payload may be a batch of datagrams (see [`batch`]). A batch is recognised by the numbers of its
/// datagrams, which increase by 1.
fn protected<'a>(ethernet: Option<Ethernet>, datagram: RoceV2<'a>) -> Option<Vec<Roce<'a>>> {
    let body = datagram.body;
    let first = ProtectedHeader::parse(body)?;
    if datagram.missing > 0 || body.last_chunk().map(|bytes| u32::from_le_bytes(*bytes)) == datagram.icrc() {
        return None;
    }
    let header = |at: usize| ProtectedHeader { packet_number: first.packet_number.wrapping_add(at as u64), ..first };
    let shortest = ProtectedHeader::LEN + ProtectedHeader::LENGTH_LEN + Bth::LEN + ProtectedHeader::TAG_LEN;
    let size = (shortest..body.len()).step_by(4).find(|size| ProtectedHeader::parse(&body[*size..]) == Some(header(1)));
    let pieces: Vec<&[u8]> = body.chunks(size.unwrap_or(body.len())).collect();
    let mut packets = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let header = ProtectedHeader::parse(piece).filter(|found| *found == header(at))?;
        let inside = &piece[ProtectedHeader::LEN..piece.len() + ICRC_LEN - ProtectedHeader::TAG_LEN];
        let of = |body: &'a [u8]| Roce {
            batch: (pieces.len() > 1).then_some((at + 1, pieces.len())),
            id: datagram.ip.id().wrapping_add(at as u16),
            protected: Some(header),
            icrc: Checked::Tag,
            ..Roce::new(ethernet, Network::V2(datagram), body)
        };
        if header.encrypted {
            if BthView::new(piece).is_none_or(|view| view.pkey() != Bth::DEFAULT_PKEY) {
                return None;
            }
            packets.push(of(piece));
            continue;
        }
        let before = packets.len();
        for body in ProtectedHeader::packets(inside) {
            Packet::parse(body).ok().filter(|packet| packet.headers.bth.dest_qp == header.dest_qp)?;
            let mut roce = of(body);
            read(&mut roce);
            packets.push(roce);
        }
        if packets.len() == before {
            return None;
        }
    }
    Some(packets)
}

/// Parses the headers and the payload of a packet, and sets `bad` if the packet is not valid.
fn read(roce: &mut Roce) {
    match Packet::parse(roce.body) {
        // Every vendor may use these opcodes for its own packets.
        Ok(packet) if is_manufacturers(packet.headers.bth.opcode.to_u8()) && !is_plausible(&packet) => {
            roce.opcode = None;
            roce.foreign = Some("not a packet of rnic".to_string());
        }
        Ok(packet) => {
            roce.headers = Some(packet.headers);
            roce.payload = Some(packet.payload.len());
            let is_management = packet.headers.deth.is_some() && packet.headers.bth.dest_qp <= GSI_QP;
            roce.mad = is_management.then(|| Mad::parse(packet.payload)).flatten();
        }
        Err(reject @ (Reject::UnknownOpcode(_) | Reject::CnpLength { .. })) => roce.foreign = Some(reject.to_string()),
        Err(reject) if roce.opcode.is_some_and(|opcode| is_manufacturers(opcode.to_u8())) => {
            roce.opcode = None;
            roce.foreign = Some(format!("not a packet of rnic: {reject}"));
        }
        Err(reject) => {
            roce.headers = Headers::parse(roce.body).ok();
            roce.bad = Some(reject.to_string());
        }
    }
    // A packet of another protocol need not end with an ICRC.
    if let (None, None, Checked::Wrong { found, computed }) = (&roce.bad, &roce.foreign, roce.icrc) {
        roce.bad = Some(format!("the ICRC is {found:#010x}, computed {computed:#010x}"));
    }
}

/// Whether an opcode is in the range that the specification leaves to manufacturers. IRN's opcodes are in this range.
fn is_manufacturers(opcode: u8) -> bool {
    opcode >= 0xc0
}

/// Whether the fields of a packet with an opcode of IRN are consistent, as in every packet that rnic sends.
fn is_plausible(packet: &Packet<'_>) -> bool {
    let headers = &packet.headers;
    let (opcode, len) = (headers.bth.opcode, packet.payload.len() as u64);
    if headers.bth.pkey & 0x7fff != Bth::DEFAULT_PKEY & 0x7fff {
        return false;
    }
    // The offset of a Send is 0 in its first packet only; a Write says in each packet how many bytes are left.
    let send = headers.send.is_none_or(|send| (send.offset == 0) == opcode.starts_message());
    let write = opcode.operation() != Operation::Write
        || headers.reth.is_some_and(|reth| match opcode.ends_message() {
            true => u64::from(reth.dma_len) == len,
            false => u64::from(reth.dma_len) > len,
        });
    let length = u64::from(u32::from(MAX_MTU)) >= len;
    send && write && length
}

/// Splits a captured datagram into packets if it is a batch. A batch is a large datagram that the NIC had not segmented
/// yet into datagrams of one size (UDP_SEGMENT), or that the kernel coalesced on reception (UDP_GRO).
///
/// A batch is recognised by its ICRCs: for one packet size, the ICRCs of all packets are right if the IPv4
/// identification increases by 1 from packet to packet, or if it counts as 0 in all of them. `None` if no such size
/// exists.
fn batch<'a>(ethernet: Option<Ethernet>, datagram: RoceV2<'a>) -> Option<Vec<Roce<'a>>> {
    batch_with(ethernet, datagram, true).or_else(|| batch_with(ethernet, datagram, false))
}

fn batch_with<'a>(ethernet: Option<Ethernet>, datagram: RoceV2<'a>, counts_id: bool) -> Option<Vec<Roce<'a>>> {
    let (seed, body, first) = (datagram.icrc_seed(), datagram.body, datagram.ip.id());
    let covered = |id: u16| if counts_id { id } else { 0 };
    let begins_alike = |at: &usize| {
        let (one, other) = (BthView::new(body), body.get(*at..).and_then(BthView::new));
        one.zip(other).is_some_and(|(one, other)| {
            other.opcode().is_some() && other.transport_version() == 0 && one.pkey() == other.pkey()
        })
    };
    let is_right = |size: &usize| seed.check(covered(first), &body[..*size]);
    let size = (16..body.len()).step_by(4).filter(begins_alike).find(is_right)?;
    let pieces: Vec<&[u8]> = body.chunks(size).collect();
    let ids = (0..).map(|at| first.wrapping_add(at));
    let are_right = pieces.iter().zip(ids.clone()).all(|(piece, id)| seed.check(covered(id), piece));
    let packet = |(at, (piece, id)): (usize, (&&'a [u8], u16))| {
        let right = if counts_id { Checked::Right } else { Checked::RightWithoutId };
        let icrc = piece.last_chunk().map_or(Checked::Unknown, |bytes| right(u32::from_le_bytes(*bytes)));
        let mut roce =
            Roce { batch: Some((at + 1, pieces.len())), id, icrc, ..Roce::new(ethernet, Network::V2(datagram), piece) };
        read(&mut roce);
        roce
    };
    are_right.then(|| pieces.iter().zip(ids).enumerate().map(packet).collect())
}
