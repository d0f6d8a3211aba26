//! The protocol of datagram rsockets. Its only specification is the implementation in librdmacm of rdma-core.
//!
//! A datagram rsocket has a UDP socket, and a UD queue pair for each of its addresses. It sends the first datagrams to
//! a peer over UDP, with a [`Service`] header that contains its own queue pair number. The peer responds with a header
//! that contains the peer's queue pair number ([`Service::is_data`] is false). From then on the rsocket sends datagrams
//! to the peer's queue pair. In front of each of these datagrams is a header with the sender's address
//! ([`emit_source`]), because the network header of UD has no port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Maximum bytes of a datagram with its header.
pub const LONGEST: usize = 2_048;
/// Maximum bytes of the header of a datagram, both over UDP and between queue pairs.
pub const HEADER: usize = 28;

const TAG: u32 = 0x5555_5555;
const DATA: u8 = 0;
const CONTROL: u8 = 7;

/// The header of a message over UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    /// Whether a datagram follows, and the sender wants to know the queue pair of the receiver.
    pub is_data: bool,
    /// The sender's queue pair number.
    pub qpn: u32,
    /// The address of the sender's queue pair.
    pub ip: IpAddr,
}

impl Service {
    /// The bytes: 16 with an IPv4 address, 28 with an IPv6 address.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = TAG.to_be_bytes().to_vec();
        let (version, len) = if self.ip.is_ipv4() { (4, 16) } else { (6, 28) };
        out.extend([version, if self.is_data { DATA } else { CONTROL }, len, 0]);
        out.extend((self.qpn & 0xff_ffff).to_be_bytes());
        match self.ip {
            IpAddr::V4(ip) => out.extend(ip.octets()),
            IpAddr::V6(ip) => out.extend(ip.octets()),
        }
        out
    }

    /// Decodes a message over UDP into its header and the datagram. `None` if the bytes are not such a message.
    pub fn parse(bytes: &[u8]) -> Option<(Service, &[u8])> {
        let (fixed, _) = bytes.split_first_chunk::<12>()?;
        let [t0, t1, t2, t3, version, kind, len, _, q0, q1, q2, q3] = *fixed;
        if u32::from_be_bytes([t0, t1, t2, t3]) != TAG || !matches!((version, len), (4, 16) | (6, 28)) {
            return None;
        }
        let is_data = match kind {
            DATA => true,
            CONTROL => false,
            _ => return None,
        };
        let (head, data) = bytes.split_at_checked(len.into())?;
        let ip: IpAddr = match version {
            4 => Ipv4Addr::from(*head[12..].first_chunk()?).into(),
            _ => Ipv6Addr::from(*head[12..].first_chunk()?).into(),
        };
        Some((Service { is_data, qpn: u32::from_be_bytes([q0, q1, q2, q3]) & 0xff_ffff, ip }, data))
    }
}

/// Returns the header in front of a datagram between queue pairs: 8 bytes for an IPv4 sender, 24 for an IPv6 sender.
pub fn emit_source(source: SocketAddr) -> Vec<u8> {
    let mut out = if source.is_ipv4() { vec![4, 8] } else { vec![6, 24] };
    out.extend(source.port().to_be_bytes());
    match source {
        SocketAddr::V4(source) => out.extend(source.ip().octets()),
        SocketAddr::V6(source) => {
            out.extend(source.flowinfo().to_ne_bytes());
            out.extend(source.ip().octets());
        }
    }
    out
}

/// Decodes the header in front of a datagram between queue pairs: returns the sender's address and the length of the
/// header. `None` if the bytes do not begin with such a header.
pub fn parse_source(bytes: &[u8]) -> Option<(SocketAddr, usize)> {
    match *bytes {
        [4, 8, p0, p1, a, b, c, d, ..] => {
            Some((SocketAddr::new(Ipv4Addr::new(a, b, c, d).into(), u16::from_be_bytes([p0, p1])), 8))
        }
        [6, 24, p0, p1, f0, f1, f2, f3, ref rest @ ..] => {
            let ip = Ipv6Addr::from(*rest.first_chunk()?);
            let flow = u32::from_ne_bytes([f0, f1, f2, f3]);
            Some((SocketAddrV6::new(ip, u16::from_be_bytes([p0, p1]), flow, 0).into(), 24))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_bytes_of_rdma_core() {
        let service = Service { is_data: true, qpn: 0x01_0203, ip: [10, 0, 0, 1].into() };
        let bytes = [0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 1, 2, 3, 10, 0, 0, 1];
        assert_eq!(service.emit(), bytes);
        assert_eq!(Service::parse(&[&bytes[..], b"data"].concat()), Some((service, &b"data"[..])));
        let answer = Service { is_data: false, ip: Ipv6Addr::LOCALHOST.into(), ..service };
        let bytes = answer.emit();
        assert_eq!((bytes.len(), &bytes[4..8]), (28, &[6, 7, 28, 0][..]));
        assert_eq!(Service::parse(&bytes), Some((answer, &[][..])));
        let v4: SocketAddr = "10.0.0.1:258".parse().unwrap();
        assert_eq!(emit_source(v4), [4, 8, 1, 2, 10, 0, 0, 1]);
        let v6: SocketAddr = "[fd00::1]:258".parse().unwrap();
        for source in [v4, v6] {
            let bytes = emit_source(source);
            assert_eq!(parse_source(&bytes), Some((source, bytes.len())));
            assert!((0..bytes.len()).all(|len| parse_source(&bytes[..len]).is_none()), "{source}");
        }
    }

    #[test]
    fn other_bytes_are_no_headers() {
        let whole = Service { is_data: true, qpn: 7, ip: Ipv6Addr::LOCALHOST.into() }.emit();
        assert!((0..whole.len()).all(|len| Service::parse(&whole[..len]).is_none()));
        // Another tag, version, operation and length.
        for at in [0, 4, 5, 6] {
            let mut wrong = whole.clone();
            wrong[at] ^= 3;
            assert_eq!(Service::parse(&wrong), None, "byte {at}");
        }
        assert!(
            parse_source(&[5, 8, 0, 0, 1, 2, 3, 4]).is_none() && parse_source(&[4, 24, 0, 0, 1, 2, 3, 4]).is_none()
        );
    }
}
