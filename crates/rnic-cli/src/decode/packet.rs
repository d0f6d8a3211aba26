//! What is in a frame, and whether it is right.

use super::capture::Captured;
use rnic_wire::{
    BthView, Content, Ethernet, Frame, Headers, ICRC_LEN, Ip, LinkType, Opcode, Packet, Pfc, RoceV1, RoceV2,
};

/// What a frame turned out to be.
pub(super) enum Found<'a> {
    /// RoCE packets: one, or those of a batch that the network card would have cut, or did join.
    Packets(Vec<Roce<'a>>),
    /// Priority flow control.
    Pfc {
        /// Its Ethernet header.
        ethernet: Option<Ethernet>,
        /// What it asks for.
        pfc: Pfc,
    },
    /// Something else; what.
    Other(String),
    /// Something that is not what it says; why.
    Malformed(&'static str),
}

/// The layer below the base transport header.
#[derive(Clone, Copy)]
pub(super) enum Network<'a> {
    V2(RoceV2<'a>),
    V1(RoceV1<'a>),
}

impl Network<'_> {
    /// The header of version 1 has the layout of IPv6.
    pub(super) fn ip(&self) -> Ip {
        match self {
            Network::V2(datagram) => datagram.ip,
            Network::V1(packet) => Ip::V6(packet.grh),
        }
    }
}

/// The ICRC of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Checked {
    /// It is right.
    Right(u32),
    /// It is wrong.
    Wrong {
        /// What the packet has.
        found: u32,
        /// What it should have.
        computed: u32,
    },
    /// It cannot be told: bytes are missing.
    Unknown,
}

/// A RoCE packet.
pub(super) struct Roce<'a> {
    pub(super) ethernet: Option<Ethernet>,
    pub(super) network: Network<'a>,
    /// Place in its batch from 1, and packets in the batch.
    pub(super) batch: Option<(usize, usize)>,
    /// IPv4 identification: in a batch they count up.
    pub(super) id: u16,
    /// From base transport header to ICRC, as far as captured.
    pub(super) body: &'a [u8],
    /// As far as they can be read.
    pub(super) headers: Option<Headers>,
    /// The opcode, where the headers cannot be read.
    pub(super) opcode: Option<Opcode>,
    /// Bytes of payload, without padding; `None` if they cannot be told.
    pub(super) payload: Option<usize>,
    pub(super) icrc: Checked,
    /// Bytes that the capture does not hold.
    pub(super) missing: usize,
    /// Why it is bad.
    pub(super) bad: Option<String>,
}

/// Takes a frame apart.
pub(super) fn examine<'a>(captured: &Captured<'a>) -> Found<'a> {
    let Some(link) = LinkType::from_number(captured.link) else {
        return Found::Other(format!("link type {}", captured.link));
    };
    let frame = Frame::parse(link, captured.bytes);
    let is_cut = captured.bytes.len() < captured.original;
    match frame.content {
        Content::RoceV2(datagram) => {
            let one = roce(frame.ethernet, Network::V2(datagram), datagram.body, datagram.missing, is_cut);
            match one.bad.is_some().then(|| batch(frame.ethernet, datagram)).flatten() {
                Some(packets) => Found::Packets(packets),
                None => Found::Packets(vec![one]),
            }
        }
        Content::RoceV1(packet) => {
            Found::Packets(vec![roce(frame.ethernet, Network::V1(packet), packet.body, packet.missing, is_cut)])
        }
        Content::Pfc(pfc) => Found::Pfc { ethernet: frame.ethernet, pfc },
        Content::Other(what) => Found::Other(what.to_string()),
        Content::Malformed(_) if is_cut => Found::Other("cut off by the capture".to_string()),
        Content::Malformed(why) => Found::Malformed(why),
    }
}

fn roce<'a>(
    ethernet: Option<Ethernet>, network: Network<'a>, body: &'a [u8], missing: usize, is_cut: bool,
) -> Roce<'a> {
    let computed = match &network {
        Network::V2(datagram) => datagram.icrc(),
        Network::V1(packet) => packet.icrc(),
    };
    let mut roce = Roce {
        ethernet,
        network,
        batch: None,
        id: network.ip().id(),
        body,
        headers: None,
        opcode: BthView::new(body).and_then(BthView::opcode),
        payload: None,
        icrc: Checked::Unknown,
        missing,
        bad: None,
    };
    if missing > 0 {
        roce.headers = Headers::parse(body).ok();
        roce.payload = roce.headers.and_then(|headers| {
            let around = headers.len() + usize::from(headers.bth.pad) + ICRC_LEN;
            (body.len() + missing).checked_sub(around)
        });
        if !is_cut {
            roce.bad = Some(format!("the frame is {missing} B shorter than its headers say"));
        }
        return roce;
    }
    if let (Some(computed), Some(found)) = (computed, body.last_chunk().map(|bytes| u32::from_le_bytes(*bytes))) {
        roce.icrc = if found == computed { Checked::Right(found) } else { Checked::Wrong { found, computed } };
    }
    read(&mut roce);
    roce
}

/// Reads headers and payload, and says what is wrong.
fn read(roce: &mut Roce) {
    match Packet::parse(roce.body) {
        Ok(packet) => {
            roce.headers = Some(packet.headers);
            roce.payload = Some(packet.payload.len());
        }
        Err(reject) => {
            roce.headers = Headers::parse(roce.body).ok();
            roce.bad = Some(reject.to_string());
        }
    }
    if let (None, Checked::Wrong { found, computed }) = (&roce.bad, roce.icrc) {
        roce.bad = Some(format!("the ICRC is {found:#010x}, computed {computed:#010x}"));
    }
}

/// A datagram that is no packet may be a batch: what the operating system hands to a network card that cuts it into datagrams of one
/// size (UDP_SEGMENT), or what it joined on reception. Then the first packet's ICRC is right for one size, and so are all others', with
/// identifications that count up.
fn batch<'a>(ethernet: Option<Ethernet>, datagram: RoceV2<'a>) -> Option<Vec<Roce<'a>>> {
    let (seed, body, first) = (datagram.icrc_seed(), datagram.body, datagram.ip.id());
    let begins_alike = |at: &usize| {
        let (one, other) = (BthView::new(body), body.get(*at..).and_then(BthView::new));
        one.zip(other).is_some_and(|(one, other)| {
            other.opcode().is_some() && other.transport_version() == 0 && one.pkey() == other.pkey()
        })
    };
    let is_right = |size: &usize| seed.check(first, &body[..*size]);
    let size = (16..body.len()).step_by(4).filter(begins_alike).find(is_right)?;
    let pieces: Vec<&[u8]> = body.chunks(size).collect();
    let ids = (0..).map(|at| first.wrapping_add(at));
    let are_right = pieces.iter().zip(ids.clone()).all(|(piece, id)| seed.check(id, piece));
    let packet = |(at, (piece, id)): (usize, (&&'a [u8], u16))| {
        let icrc = piece.last_chunk().map_or(Checked::Unknown, |bytes| Checked::Right(u32::from_le_bytes(*bytes)));
        let mut roce = Roce {
            ethernet,
            network: Network::V2(datagram),
            batch: Some((at + 1, pieces.len())),
            id,
            body: piece,
            headers: None,
            opcode: BthView::new(piece).and_then(BthView::opcode),
            payload: None,
            icrc,
            missing: 0,
            bad: None,
        };
        read(&mut roce);
        roce
    };
    are_right.then(|| pieces.iter().zip(ids).enumerate().map(packet).collect())
}
