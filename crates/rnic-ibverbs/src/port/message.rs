//! The messages between the processes that share an address, over a Unix socket that keeps their boundaries.
//!
//! Both ends belong to the same user on the same host. Nevertheless a message that is too short, too long or unknown is
//! an error, and never a panic.

use super::SLOTS;
use rnic_endpoint::port::{Arrival, Meta, TrafficClass};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The version of the messages, which is part of the socket's name: other versions do not meet.
pub(super) const VERSION: u32 = 4;

/// Maximum bytes of a message: the head of a relayed arrival, and the datagrams that one system call can receive.
pub(super) const LONGEST: usize = HEAD + 65_535;
/// Bytes in front of relayed datagrams.
const HEAD: usize = 1 + 1 + 2 * 16 + 2 + 1 + 2;

const HELLO: u8 = 1;
const DIRECTORY: u8 = 2;
const PACKETS: u8 = 3;
const MANAGER: u8 = 5;
const CLAIM: u8 = 6;
const CLAIMED: u8 = 7;
const RELEASE: u8 = 8;
const JOINED: u8 = 9;
const LEDGER: u8 = 10;
const FORGET: u8 = 11;

/// The UDP ports at which the processes of an address receive from processes of the same host, by slot; 0: the slot is
/// free.
pub(super) type Directory = [u16; SLOTS as usize];

/// A message, as its receiver sees it.
#[derive(Debug)]
pub(super) enum Message<'a> {
    /// To the broker: a process introduces itself by its slot, which no other process has. The port is where it
    /// receives.
    Hello { slot: u32, port: u16 },
    /// From the broker: the receiver's own slot, and the ports of all.
    Directory { slot: u32, ports: Box<Directory> },
    /// From the broker: datagrams that came to the address for the receiver.
    Packets(Arrival<'a>),
    /// To the broker: a communication manager introduces itself by the lower half of its communication IDs. Its ledger
    /// comes with the message, if it has one.
    Manager { mark: u16 },
    /// From the broker: the manager has joined.
    Joined,
    /// To the broker: the manager wants the requests for a service ID; `shared` if other managers may have the ID as
    /// well, as long as nobody listens.
    Claim { service: u64, shared: bool },
    /// From the broker: whether the manager gets them.
    Claimed { service: u64, granted: bool },
    /// To the broker: it wants them no longer.
    Release { service: u64 },
    /// From the broker: the ledger of another manager, which comes with the message, for the case that this manager
    /// dies together with the broker.
    Ledger { mark: u16 },
    /// From the broker: the receiver does not need this ledger any more.
    Forget { mark: u16 },
}

pub(super) fn hello(slot: u32, port: u16) -> Vec<u8> {
    let mut out = vec![HELLO];
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

pub(super) fn manager(mark: u16) -> Vec<u8> {
    let mut out = vec![MANAGER];
    out.extend(mark.to_le_bytes());
    out
}

pub(super) fn ledger(mark: u16) -> Vec<u8> {
    let mut out = vec![LEDGER];
    out.extend(mark.to_le_bytes());
    out
}

pub(super) fn forget(mark: u16) -> Vec<u8> {
    let mut out = vec![FORGET];
    out.extend(mark.to_le_bytes());
    out
}

pub(super) fn joined() -> Vec<u8> {
    vec![JOINED]
}

pub(super) fn claim(service: u64, shared: bool) -> Vec<u8> {
    let mut out = of_service(CLAIM, service);
    out.push(u8::from(shared));
    out
}

pub(super) fn release(service: u64) -> Vec<u8> {
    of_service(RELEASE, service)
}

pub(super) fn claimed(service: u64, granted: bool) -> Vec<u8> {
    let mut out = of_service(CLAIMED, service);
    out.push(u8::from(granted));
    out
}

fn of_service(kind: u8, service: u64) -> Vec<u8> {
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
    let mut out = Vec::with_capacity(HEAD + data.len());
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

fn service_and_flag(bytes: &[u8]) -> Option<(u64, bool)> {
    let (service, flag) = bytes.split_first_chunk()?;
    match flag {
        [flag @ (0 | 1)] => Some((u64::from_le_bytes(*service), *flag == 1)),
        _ => None,
    }
}

/// Reads a message; `None` if it is none.
pub(super) fn read(bytes: &[u8]) -> Option<Message<'_>> {
    let (kind, rest) = bytes.split_first()?;
    match *kind {
        HELLO => {
            let (slot, port) = rest.split_first_chunk()?;
            let slot = u32::from_le_bytes(*slot);
            let port = u16::from_le_bytes(port.try_into().ok()?);
            (slot < SLOTS).then_some(Message::Hello { slot, port })
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
            };
            Some(Message::Packets(Arrival { meta, segment, data }))
        }
        JOINED if rest.is_empty() => Some(Message::Joined),
        MANAGER => Some(Message::Manager { mark: u16::from_le_bytes(rest.try_into().ok()?) }),
        LEDGER => Some(Message::Ledger { mark: u16::from_le_bytes(rest.try_into().ok()?) }),
        FORGET => Some(Message::Forget { mark: u16::from_le_bytes(rest.try_into().ok()?) }),
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
        assert!(matches!(read(&hello(9, 8)), Some(Message::Hello { slot: 9, port: 8 })));
        assert!(matches!(read(&manager(40_000)), Some(Message::Manager { mark: 40_000 })));
        assert!(matches!(read(&ledger(40_001)), Some(Message::Ledger { mark: 40_001 })));
        assert!(matches!(read(&forget(40_002)), Some(Message::Forget { mark: 40_002 })));
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
            };
            match read(&packets(&meta, 3, b"abcde")) {
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
        };
        let whole = [
            hello(1, 7),
            directory(0, &[1; SLOTS as usize]),
            packets(&meta, 1, b""),
            manager(7),
            ledger(7),
            forget(7),
            claim(7, true),
            release(7),
            claimed(7, true),
        ];
        assert!(read(&[]).is_none() && read(&[0]).is_none() && read(&[12, 1, 2]).is_none());
        assert!(read(&[JOINED, 1]).is_none(), "too long");
        assert!(read(&hello(SLOTS, 1)).is_none(), "a slot that does not exist");
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
