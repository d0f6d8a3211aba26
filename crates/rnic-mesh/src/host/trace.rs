//! Traces of paths: which routers the probes of a path cross.
//!
//! A trace sends packets with the addresses and UDP ports of the probes of a path, so that ECMP selects the same links
//! for them, and with a time to live of 1, 2, 3 and so on. The router at which the time to live expires answers with
//! ICMP "time exceeded" (RFC 792). The packets have no payload, so the target's device discards a packet that reaches
//! it. Raw sockets need the capability CAP_NET_RAW. Without it, and with IPv6, paths are not traced, and the
//! localisation knows only hosts and ToR switches.

use super::Shared;
use crate::record::MAX_HOPS;
use rnic_transport::Time;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum time to live of a trace; paths in a data center have at most five switches.
const HOPS: u8 = 8;
/// Time in ms for which a trace waits for ICMP answers.
const WAIT_MS: u64 = 400;
/// Length of the IPv4 and UDP headers.
const HEADERS: usize = 28;

/// Sockets for traces.
pub(super) struct Tracer {
    local: Ipv4Addr,
    send: Socket,
    icmp: Socket,
    next_id: u16,
}

impl Tracer {
    /// Opens the sockets.
    ///
    /// # Errors
    /// A sentence.
    pub(super) fn open(local: IpAddr) -> Result<Tracer, String> {
        let IpAddr::V4(local) = local.to_canonical() else {
            return Err("paths over IPv6 are not traced".to_string());
        };
        let open = || -> io::Result<(Socket, Socket)> {
            let send = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255)))?;
            send.set_header_included_v4(true)?;
            let icmp = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
            icmp.bind(&SockAddr::from(SocketAddrV4::new(local, 0)))?;
            icmp.set_read_timeout(Some(Duration::from_millis(50)))?;
            Ok((send, icmp))
        };
        let (send, icmp) = open().map_err(|error| format!("raw sockets need CAP_NET_RAW: {error}"))?;
        Ok(Tracer { local, send, icmp, next_id: 1 })
    }

    /// The routers between this host and `to` for probes with this UDP source port.
    fn trace(&mut self, source_port: u16, to: SocketAddrV4, now: impl Fn() -> Time) -> Vec<Option<IpAddr>> {
        // Discards answers to earlier traces.
        let mut buffer = [MaybeUninit::uninit(); 576];
        let first = self.next_id;
        self.next_id = if first > 60_000 { 1 } else { first + u16::from(HOPS) };
        for ttl in 1..=HOPS {
            let packet = packet(self.local, source_port, to, ttl, first + u16::from(ttl) - 1);
            // If the packet cannot be sent, the hop counts as one that does not answer.
            let _ = self.send.send_to(&packet, &SockAddr::from(to));
        }
        let end = now() + Time::from_ms(WAIT_MS);
        let mut hops: BTreeMap<u16, IpAddr> = BTreeMap::new();
        while now() < end {
            let Ok(len) = self.icmp.recv(&mut buffer) else { continue };
            let bytes: Vec<u8> = buffer[..len]
                .iter()
                // SAFETY: the system has written the first `len` bytes.
                .map(|byte| unsafe { byte.assume_init() })
                .collect();
            if let Some((id, router)) = time_exceeded(&bytes, self.local, source_port, to) {
                let hop = id.wrapping_sub(first);
                if hop < u16::from(HOPS) {
                    hops.entry(hop).or_insert(router);
                }
            }
        }
        let last = hops.keys().next_back().map_or(0, |last| usize::from(*last) + 1);
        (0..last.min(MAX_HOPS)).map(|hop| hops.get(&(hop as u16)).copied()).collect()
    }
}

/// A UDP packet without payload. The kernel fills in the checksum of the IPv4 header.
fn packet(from: Ipv4Addr, source_port: u16, to: SocketAddrV4, ttl: u8, id: u16) -> [u8; HEADERS] {
    let mut packet = [0; HEADERS];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(HEADERS as u16).to_be_bytes());
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    // Sets "do not fragment", as probes do.
    packet[6] = 0x40;
    packet[8] = ttl;
    packet[9] = 17;
    packet[12..16].copy_from_slice(&from.octets());
    packet[16..20].copy_from_slice(&to.ip().octets());
    packet[20..22].copy_from_slice(&source_port.to_be_bytes());
    packet[22..24].copy_from_slice(&to.port().to_be_bytes());
    packet[24..26].copy_from_slice(&8_u16.to_be_bytes());
    // The UDP checksum stays 0, "no checksum", as in RoCE v2.
    packet
}

/// Parses an ICMP answer: returns the IP identification of the packet that a router discarded because its time to live
/// expired, and the router's address. `None` for other messages, and for packets of other programs. The bytes may come
/// from an attacker.
fn time_exceeded(bytes: &[u8], from: Ipv4Addr, source_port: u16, to: SocketAddrV4) -> Option<(u16, IpAddr)> {
    let header = |bytes: &[u8]| Some(usize::from(bytes.first()? & 15) * 4).filter(|len| *len >= 20);
    let router: [u8; 4] = bytes.get(12..16)?.try_into().ok()?;
    let icmp = bytes.get(header(bytes)?..)?;
    if icmp.first() != Some(&11) {
        return None;
    }
    let original = icmp.get(8..)?;
    let udp = original.get(header(original)?..)?;
    let word = |bytes: &[u8], at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let own = original.get(12..16)? == from.octets().as_slice()
        && original.get(16..20)? == to.ip().octets().as_slice()
        && word(udp, 0)? == source_port
        && word(udp, 2)? == to.port();
    own.then_some((word(original, 4)?, router.into()))
}

/// Traces the paths to all targets, one after the other, until the agent ends.
pub(super) fn run(shared: &Shared, mut tracer: Tracer) {
    let mut done: BTreeMap<(u64, u16), Time> = BTreeMap::new();
    while !shared.ended.load(Ordering::Acquire) {
        let now = shared.now();
        let (every, targets) = {
            let agent = shared.agent();
            let every = agent.list().map_or(0, |list| list.trace_ms);
            let stopped = agent.stopped();
            (Time::from_ms(every), if stopped { Vec::new() } else { agent.paths() })
        };
        let all: Vec<(u64, SocketAddr, u16)> =
            targets.iter().flat_map(|(session, to, paths)| paths.iter().map(|path| (*session, *to, *path))).collect();
        done.retain(|(session, _), _| targets.iter().any(|(known, ..)| known == session));
        // New paths come first, then the paths whose latest trace is oldest.
        let next =
            all.iter().min_by_key(|(session, _, path)| done.get(&(*session, *path)).copied().unwrap_or_default());
        let due = next.filter(|(session, _, path)| {
            done.get(&(*session, *path)).is_none_or(|at| now.saturating_sub(*at) >= every)
        });
        match due {
            Some((session, SocketAddr::V4(to), path)) => {
                let port = shared.agent().source_port(*path);
                let hops = tracer.trace(port, *to, || shared.now());
                done.insert((*session, *path), shared.now().max(Time::from_ps(1)));
                shared.agent().traced(*session, *path, hops);
            }
            _ => super::pause(Time::from_ms(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FROM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn to() -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, 2), 4_791)
    }

    fn answer() -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0, 10, 9, 9, 9, 10, 0, 0, 1];
        bytes.extend([11, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(packet(FROM, 50_000, to(), 1, 77));
        bytes
    }

    #[test]
    fn a_router_is_recognised() {
        let router: IpAddr = [10, 9, 9, 9].into();
        assert_eq!(time_exceeded(&answer(), FROM, 50_000, to()), Some((77, router)));
        assert_eq!(time_exceeded(&answer(), FROM, 50_001, to()), None);
        assert_eq!(time_exceeded(&answer(), Ipv4Addr::LOCALHOST, 50_000, to()), None);
        let mut unreachable = answer();
        unreachable[20] = 3;
        assert_eq!(time_exceeded(&unreachable, FROM, 50_000, to()), None);
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80), at in 0..56_usize, cut in 0..57_usize) {
            let _ = time_exceeded(&bytes, FROM, 50_000, to());
            let mut near = answer();
            near[at] ^= 0xff;
            let _ = time_exceeded(&near[..cut.min(near.len())], FROM, 50_000, to());
        }
    }
}
