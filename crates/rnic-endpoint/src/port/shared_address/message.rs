//! The messages between a broker and its members, over a Unix socket of type `SOCK_SEQPACKET`, which preserves message
//! boundaries.
//!
//! A message begins with a byte for its type; numbers are little-endian. Both ends belong to the same user on the same
//! host. Nevertheless a message that is too short, too long or unknown is an error, and never a panic.

use super::SLOTS;
use crate::port::{Arrival, Meta, TrafficClass};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The version of the messages. It is part of the names of sockets, so that processes with another version use other
/// sockets.
pub(super) const VERSION: u32 = 4;

/// Maximum bytes of a message: the header of [`Message::Packets`], and the datagrams that one system call can receive.
pub(super) const MAX_LEN: usize = HEADER + 65_535;
/// Bytes of the header of [`Message::Packets`], before the datagrams.
const HEADER: usize = 1 + 1 + 2 * 16 + 2 + 1 + 2;

const JOIN_DEVICE: u8 = 1;
const DIRECTORY: u8 = 2;
const PACKETS: u8 = 3;
const JOIN_MANAGER: u8 = 5;
const CLAIM: u8 = 6;
const CLAIMED: u8 = 7;
const RELEASE: u8 = 8;
const JOINED: u8 = 9;
const CONNECTION_LIST: u8 = 10;
const DISCARD_LIST: u8 = 11;

/// The UDP ports at which the devices of an address receive from processes of the same host, by slot; 0 for a free
/// slot.
pub(super) type Directory = [u16; SLOTS as usize];

/// A message, as its receiver sees it.
#[derive(Debug)]
pub(super) enum Message<'a> {
    /// From a new member to the broker: it is the device with this slot, and receives at this UDP port.
    JoinDevice { slot: u32, port: u16 },
    /// From the broker to each device, when the device has joined and after changes: the receiver's slot, and the UDP
    /// ports of all devices.
    Directory { slot: u32, ports: Box<Directory> },
    /// From the broker to a device or manager: datagrams from other hosts for the receiver.
    Packets(Arrival<'a>),
    /// From a new member to the broker: it is the connection manager with this manager ID. The descriptor of its
    /// connection list comes with the message, if it has one.
    JoinManager { manager: u16 },
    /// From the broker: it has admitted the manager.
    Joined,
    /// From a manager to the broker: it claims the requests for a service ID; `shared` if other managers may have the
    /// service ID too, as long as none of them listens.
    Claim { service: u64, shared: bool },
    /// From the broker: the response to a claim.
    Claimed { service: u64, granted: bool },
    /// From a manager to the broker: it releases a service ID.
    Release { service: u64 },
    /// From the broker to a standby, with a descriptor: the connection list of another manager. The standby ends the
    /// connections if that manager and the broker end together.
    ConnectionList { manager: u16 },
    /// From the broker to a standby: it discards the connection list of this manager.
    DiscardList { manager: u16 },
}

pub(super) fn join_device(slot: u32, port: u16) -> Vec<u8> {
    let mut out = vec![JOIN_DEVICE];
    out.extend(slot.to_le_bytes());
    out.extend(port.to_le_bytes());
    out
}

pub(super) fn directory(slot: u32, ports: &Directory) -> Vec<u8> {
    let mut out = vec![DIRECTORY];
    out.extend(slot.to_le_bytes());
    ports.iter().for_each(|port| out.extend(port.to_le_bytes()));
    out
}

pub(super) fn join_manager(manager: u16) -> Vec<u8> {
    about_manager(JOIN_MANAGER, manager)
}

pub(super) fn connection_list(manager: u16) -> Vec<u8> {
    about_manager(CONNECTION_LIST, manager)
}

pub(super) fn discard_list(manager: u16) -> Vec<u8> {
    about_manager(DISCARD_LIST, manager)
}

fn about_manager(kind: u8, manager: u16) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend(manager.to_le_bytes());
    out
}

pub(super) fn joined() -> Vec<u8> {
    vec![JOINED]
}

pub(super) fn claim(service: u64, shared: bool) -> Vec<u8> {
    let mut out = about_service(CLAIM, service);
    out.push(u8::from(shared));
    out
}

pub(super) fn release(service: u64) -> Vec<u8> {
    about_service(RELEASE, service)
}

pub(super) fn claimed(service: u64, granted: bool) -> Vec<u8> {
    let mut out = about_service(CLAIMED, service);
    out.push(u8::from(granted));
    out
}

fn about_service(kind: u8, service: u64) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend(service.to_le_bytes());
    out
}

/// The message that carries the datagrams `data`, which arrived with `meta` and have `segment` bytes each.
pub(super) fn packets(meta: &Meta, segment: usize, data: &[u8]) -> Vec<u8> {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let mut out = Vec::with_capacity(HEADER + data.len());
    out.push(PACKETS);
    out.push(u8::from(meta.source.is_ipv4()));
    out.extend(octets(meta.source.ip()));
    out.extend(octets(meta.destination));
    out.extend(meta.source.port().to_le_bytes());
    out.push(meta.traffic_class.byte());
    out.extend((segment as u16).to_le_bytes());
    out.extend(data);
    out
}

/// The datagrams of [`Message::Packets`], which have `length` bytes, in a buffer that begins with the message.
pub(super) fn packets_in(message: &[u8], length: usize) -> &[u8] {
    &message[HEADER..HEADER + length]
}

fn service_and_flag(bytes: &[u8]) -> Option<(u64, bool)> {
    let (service, flag) = bytes.split_first_chunk()?;
    match flag {
        [flag @ (0 | 1)] => Some((u64::from_le_bytes(*service), *flag == 1)),
        _ => None,
    }
}

/// Reads a message; `None` if the bytes are not a message.
pub(super) fn read(bytes: &[u8]) -> Option<Message<'_>> {
    let (kind, rest) = bytes.split_first()?;
    match *kind {
        JOIN_DEVICE => {
            let (slot, port) = rest.split_first_chunk()?;
            let slot = u32::from_le_bytes(*slot);
            let port = u16::from_le_bytes(port.try_into().ok()?);
            (slot < SLOTS).then_some(Message::JoinDevice { slot, port })
        }
        DIRECTORY => {
            let (slot, ports) = rest.split_first_chunk()?;
            let slot = u32::from_le_bytes(*slot);
            let mut directory: Box<Directory> = Box::new([0; SLOTS as usize]);
            if slot >= SLOTS || ports.len() != 2 * directory.len() {
                return None;
            }
            for (to, from) in directory.iter_mut().zip(ports.chunks_exact(2)) {
                *to = u16::from_le_bytes([from[0], from[1]]);
            }
            Some(Message::Directory { slot, ports: directory })
        }
        PACKETS => {
            let (v4, rest) = rest.split_first()?;
            let (source, rest) = rest.split_first_chunk::<16>()?;
            let (destination, rest) = rest.split_first_chunk::<16>()?;
            let (port, rest) = rest.split_first_chunk()?;
            let (class, rest) = rest.split_first()?;
            let (segment, data) = rest.split_first_chunk()?;
            let ip = |octets: &[u8; 16]| -> Option<IpAddr> {
                let ip = Ipv6Addr::from(*octets);
                if *v4 == 1 { ip.to_ipv4_mapped().map(|ip: Ipv4Addr| ip.into()) } else { Some(ip.into()) }
            };
            let segment = usize::from(u16::from_le_bytes(*segment));
            if segment == 0 {
                return None;
            }
            let meta = Meta {
                source: SocketAddr::new(ip(source)?, u16::from_le_bytes(*port)),
                destination: ip(destination)?,
                traffic_class: TrafficClass::from_byte(*class),
                identification: None,
                is_within_host: false,
                arrived_ns: None,
            };
            Some(Message::Packets(Arrival { meta, segment, data }))
        }
        JOINED if rest.is_empty() => Some(Message::Joined),
        JOIN_MANAGER => Some(Message::JoinManager { manager: u16::from_le_bytes(rest.try_into().ok()?) }),
        CONNECTION_LIST => Some(Message::ConnectionList { manager: u16::from_le_bytes(rest.try_into().ok()?) }),
        DISCARD_LIST => Some(Message::DiscardList { manager: u16::from_le_bytes(rest.try_into().ok()?) }),
        CLAIM => {
            let (service, shared) = service_and_flag(rest)?;
            Some(Message::Claim { service, shared })
        }
        RELEASE => Some(Message::Release { service: u64::from_le_bytes(rest.try_into().ok()?) }),
        CLAIMED => {
            let (service, granted) = service_and_flag(rest)?;
            Some(Message::Claimed { service, granted })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        assert!(matches!(read(&join_device(9, 8)), Some(Message::JoinDevice { slot: 9, port: 8 })));
        assert!(matches!(read(&join_manager(40_000)), Some(Message::JoinManager { manager: 40_000 })));
        assert!(matches!(read(&connection_list(40_001)), Some(Message::ConnectionList { manager: 40_001 })));
        assert!(matches!(read(&discard_list(40_002)), Some(Message::DiscardList { manager: 40_002 })));
        for shared in [false, true] {
            let bytes = claim(u64::MAX, shared);
            assert!(matches!(read(&bytes), Some(Message::Claim { service: u64::MAX, shared: read }) if read == shared));
        }
        assert!(matches!(read(&release(7)), Some(Message::Release { service: 7 })));
        for granted in [false, true] {
            let bytes = claimed(7, granted);
            assert!(matches!(read(&bytes), Some(Message::Claimed { service: 7, granted: read }) if read == granted));
        }
        let mut ports = [0; SLOTS as usize];
        (ports[0], ports[1_023]) = (1, 65_535);
        match read(&directory(1_023, &ports)) {
            Some(Message::Directory { slot: 1_023, ports: read }) => assert_eq!(*read, ports),
            other => panic!("{other:?}"),
        }
        for (source, destination) in [("10.0.0.1:50000", "10.0.0.2"), ("[fd00::1]:50000", "fd00::2")] {
            let meta = Meta {
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
                traffic_class: TrafficClass::from_byte(0x6b),
                identification: None,
                is_within_host: false,
                arrived_ns: None,
            };
            let message = packets(&meta, 3, b"abcde");
            assert_eq!(packets_in(&message, 5), b"abcde");
            match read(&message) {
                Some(Message::Packets(arrival)) => {
                    assert_eq!((arrival.meta, arrival.segment, arrival.data), (meta, 3, &b"abcde"[..]));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn other_bytes_are_no_messages() {
        let meta = Meta {
            source: "10.0.0.1:1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            traffic_class: TrafficClass::default(),
            identification: None,
            is_within_host: false,
            arrived_ns: None,
        };
        let whole = [
            join_device(1, 7),
            directory(0, &[1; SLOTS as usize]),
            packets(&meta, 1, b""),
            join_manager(7),
            connection_list(7),
            discard_list(7),
            claim(7, true),
            release(7),
            claimed(7, true),
        ];
        assert!(read(&[]).is_none() && read(&[0]).is_none() && read(&[12, 1, 2]).is_none());
        assert!(read(&[JOINED, 1]).is_none(), "too long");
        assert!(read(&join_device(SLOTS, 1)).is_none(), "a slot that does not exist");
        assert!(read(&[CLAIMED, 0, 0, 0, 0, 0, 0, 0, 0, 2]).is_none());
        for bytes in whole {
            for len in 0..bytes.len() {
                assert!(read(&bytes[..len]).is_none(), "{len} of {}", bytes.len());
            }
        }
        assert!(read(&packets(&meta, 0, b"x")).is_none(), "segments of 0 bytes");
        assert!(read(&directory(SLOTS, &[0; SLOTS as usize])).is_none(), "a slot that does not exist");
    }
}
