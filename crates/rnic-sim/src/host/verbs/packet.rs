//! Packets of simulated RDMA NICs: headers as on the wire, and no payload, except that of short messages.

use rnic_fabric::{Body, HostId};
use rnic_wire::{Bth, BthView, Headers, ICRC_LEN, Operation, Packet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Payload of a packet whose payload the simulator does not carry. A packet of at most 64 KB fits a frame's length.
static NO_BYTES: [u8; 1 << 16] = [0; 1 << 16];

/// Port of RoCEv2.
const ROCE_PORT: u16 = 4_791;
/// The IP address of host 0 (10.0.0.0). The other hosts have the following addresses.
const FIRST_IP: u32 = 0x0a00_0000;

/// The socket address of a host's NIC.
pub(super) fn address(host: HostId) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(FIRST_IP + host.0)), ROCE_PORT)
}

/// The host with the socket address `peer`, which is one of [`address`].
pub(super) fn host_of(peer: SocketAddr) -> HostId {
    match peer.ip() {
        IpAddr::V4(ip) => HostId(ip.to_bits().wrapping_sub(FIRST_IP)),
        IpAddr::V6(_) => HostId(u32::MAX),
    }
}

/// What a NIC says about a packet that it sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    /// Bytes of payload.
    pub(super) payload: u32,
    /// Bytes of extended transport headers, and of the pad.
    pub(super) extended: u32,
    /// Whether it is an acknowledgement or a message between two layers of host software, and not data.
    pub(super) is_control: bool,
}

/// Body of a simulated packet of an RDMA NIC. Both [`VerbsSegment`]s implement it.
pub(crate) trait Segment: Body + Sync {
    /// The body for the packet `bytes` of host `src`, and what the packet is. `None` if `bytes` is no packet.
    fn of(src: HostId, bytes: &[u8]) -> Option<(Self, Sent)>;
    /// The sending host.
    fn src(&self) -> HostId;
    /// The packet; its payload has the right length, and its contents if it is a short message.
    fn packet(&self) -> Option<Packet<'_>>;
}

/// A packet with up to `N` bytes of headers and payload. The payload is carried if it fits; this is so for the messages
/// that layers of host software exchange. The data of simulated applications is in memory without bytes, so its
/// contents do not matter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VerbsSegment<const N: usize> {
    src: HostId,
    payload: u16,
    is_carried: bool,
    bytes: [u8; N],
}

impl<const N: usize> Default for VerbsSegment<N> {
    fn default() -> Self {
        VerbsSegment { src: HostId(u32::MAX), payload: 0, is_carried: false, bytes: [0; N] }
    }
}

impl<const N: usize> Body for VerbsSegment<N> {}

impl<const N: usize> Segment for VerbsSegment<N> {
    #[inline]
    fn of(src: HostId, bytes: &[u8]) -> Option<(Self, Sent)> {
        let view = BthView::new(bytes)?;
        let opcode = view.opcode()?;
        let header = opcode.header_len();
        let payload = bytes.len().checked_sub(header + usize::from(view.pad()) + ICRC_LEN)?;
        let is_carried = header + payload <= N;
        let carried = if is_carried { header + payload } else { header };
        let mut segment = VerbsSegment { src, payload: payload as u16, is_carried, bytes: [0; N] };
        segment.bytes.get_mut(..carried)?.copy_from_slice(bytes.get(..carried)?);
        let is_data = matches!(opcode.operation(), Operation::Write | Operation::ReadRequest | Operation::ReadResponse);
        let extended = (header - Bth::LEN + usize::from(view.pad())) as u32;
        Some((segment, Sent { payload: payload as u32, extended, is_control: !is_data }))
    }

    fn src(&self) -> HostId {
        self.src
    }

    #[inline]
    fn packet(&self) -> Option<Packet<'_>> {
        let headers = Headers::parse(&self.bytes).ok()?;
        let (at, len) = (headers.len(), usize::from(self.payload));
        let payload = if self.is_carried { self.bytes.get(at..at + len)? } else { &NO_BYTES[..len] };
        Some(Packet::new(headers, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_wire::{Aeth, Credits, Opcode, Reth, Syndrome};

    fn bytes(packet: &Packet<'_>) -> Vec<u8> {
        let mut bytes = vec![0; 5_000];
        let len = packet.emit_without_icrc(&mut bytes) + ICRC_LEN;
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn a_packet_keeps_headers_and_length_and_a_short_payload() {
        let mut headers = Headers::new(Bth::new(Opcode::RC_WRITE_FIRST, 9, 77));
        headers.reth = Some(Reth { va: 1 << 50, rkey: 5, dma_len: 4_096 });
        let full = [7; 1_024];
        let (segment, sent) = VerbsSegment::<32>::of(HostId(3), &bytes(&Packet::new(headers, &full))).unwrap();
        assert_eq!((sent, segment.src()), (Sent { payload: 1_024, extended: 16, is_control: false }, HostId(3)));
        let back = segment.packet().unwrap();
        assert_eq!((back.headers, back.payload.len()), (headers, 1_024));
        assert!(back.payload.iter().all(|byte| *byte == 0), "the payload of data is not carried");

        let short = [1, 2, 3, 4, 5];
        let send = Packet::new(Headers::new(Bth::new(Opcode::UC_SEND_ONLY, 9, 1)), &short);
        let (segment, sent) = VerbsSegment::<32>::of(HostId(3), &bytes(&send)).unwrap();
        assert_eq!(sent, Sent { payload: 5, extended: 3, is_control: true });
        assert_eq!(segment.packet(), Some(send));

        let mut headers = Headers::new(Bth::new(Opcode::RC_ACKNOWLEDGE, 9, 1));
        headers.aeth = Some(Aeth { syndrome: Syndrome::Ack { credits: Credits::UNLIMITED }, msn: 4 });
        let (segment, sent) = VerbsSegment::<32>::of(HostId(0), &bytes(&Packet::new(headers, &[]))).unwrap();
        assert_eq!((sent.is_control, segment.packet().map(|packet| packet.headers)), (true, Some(headers)));
    }

    #[test]
    fn addresses_name_hosts() {
        for host in [0, 1, 255, 256, 70_000] {
            assert_eq!(host_of(address(HostId(host))), HostId(host));
        }
    }
}
