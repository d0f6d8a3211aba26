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
/// Time after which an incomplete trace is repeated for the first time.
const REPEAT: Time = Time::from_ms(2_000);
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

/// When the paths are traced: those that are new first, then the one that has been due for longest.
#[derive(Default)]
struct Schedule {
    /// By session and path.
    traced: BTreeMap<(u64, u16), Traced>,
}

/// The latest trace of a path.
struct Traced {
    at: Time,
    /// Number of hops up to the last router that answered.
    hops: usize,
    /// Number of traces in succession that were incomplete.
    incomplete: u32,
}

impl Schedule {
    /// Time after which a path is traced, 0 for a new one. A trace is incomplete if a router did not answer, or if
    /// another path to the same target has more hops: equal-cost paths have the same length. An answer may have been
    /// late, so an incomplete trace is repeated after [`REPEAT`], then after twice that time and so on, at most after
    /// `every`; a router that never answers costs a few packets.
    fn due(&self, path: (u64, u16), every: Time) -> Time {
        self.traced.get(&path).map_or(Time::ZERO, |traced| {
            let wait = match traced.incomplete {
                0 => every,
                n => every.min(Time::from_ps(REPEAT.as_ps().saturating_mul(1 << (n - 1).min(20)))),
            };
            traced.at + wait
        })
    }

    /// Records a trace that ended at `at`.
    fn record(&mut self, path: (u64, u16), at: Time, hops: &[Option<IpAddr>]) {
        let of_session = || (path.0, 0)..=(path.0, u16::MAX);
        let longest = self.traced.range(of_session()).map(|(_, traced)| traced.hops).max().unwrap_or(0);
        let before = self.traced.get(&path).map_or(0, |traced| traced.incomplete);
        let incomplete = if hops.contains(&None) || hops.is_empty() || hops.len() < longest { before + 1 } else { 0 };
        self.traced.insert(path, Traced { at, hops: hops.len(), incomplete });
        // A longer path shows that shorter ones lack their last hops.
        for (_, other) in self.traced.range_mut(of_session()) {
            if other.hops < hops.len() && other.incomplete == 0 {
                other.incomplete = 1;
            }
        }
    }

    /// Forgets the sessions for which `known` is false.
    fn retain(&mut self, known: impl Fn(u64) -> bool) {
        self.traced.retain(|(session, _), _| known(*session));
    }
}

/// Traces the paths to all targets, one after the other, until the agent ends.
pub(super) fn run(shared: &Shared, mut tracer: Tracer) {
    let mut schedule = Schedule::default();
    while !shared.ended.load(Ordering::Acquire) {
        let now = shared.now();
        let (every, targets) = {
            let agent = shared.agent();
            let every = agent.list().map_or(0, |list| list.trace_ms);
            let stopped = agent.stopped();
            (Time::from_ms(every), if stopped { Vec::new() } else { agent.paths() })
        };
        schedule.retain(|session| targets.iter().any(|(known, ..)| *known == session));
        let next = targets
            .iter()
            .flat_map(|(session, to, paths)| paths.iter().map(move |path| (*session, *to, *path)))
            .map(|(session, to, path)| (schedule.due((session, path), every), session, to, path))
            .min_by_key(|(due, ..)| *due);
        match next {
            Some((due, session, SocketAddr::V4(to), path)) if due <= now => {
                let port = shared.agent().source_port(path);
                let hops = tracer.trace(port, to, || shared.now());
                schedule.record((session, path), shared.now(), &hops);
                shared.agent().traced(session, path, hops);
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

    /// An answer that is missing is asked for again soon, and ever more rarely.
    #[test]
    fn an_incomplete_trace_is_repeated() {
        let (every, ms) = (Time::from_ms(300_000), Time::from_ms);
        let router = |n: u8| Some(IpAddr::from([10, 9, 9, n]));
        let mut schedule = Schedule::default();
        assert_eq!(schedule.due((1, 0), every), Time::ZERO);
        schedule.record((1, 0), ms(1_000), &[router(1), router(2), router(3)]);
        assert_eq!(schedule.due((1, 0), every), ms(301_000));
        // The second of three routers did not answer, three times in succession.
        let gap = [router(1), None, router(3)];
        for (at, due) in [(2_000, 4_000), (5_000, 9_000), (10_000, 18_000)] {
            schedule.record((1, 1), ms(at), &gap);
            assert_eq!(schedule.due((1, 1), every), ms(due));
        }
        for n in 0..40 {
            schedule.record((1, 1), ms(20_000 + n), &gap);
        }
        assert_eq!(schedule.due((1, 1), every), ms(320_039), "at most the usual time");
        schedule.record((1, 1), ms(400_000), &[router(1), router(2), router(3)]);
        assert_eq!(schedule.due((1, 1), every), ms(700_000));
        // The last router did not answer; another session has another length.
        schedule.record((1, 2), ms(1_000), &[router(1), router(2)]);
        schedule.record((2, 2), ms(1_000), &[router(1)]);
        assert_eq!(schedule.due((1, 2), every), ms(3_000));
        assert_eq!(schedule.due((2, 2), every), ms(301_000));
        // A longer path shows that the shorter one was incomplete.
        schedule.record((2, 3), ms(2_000), &[router(1), router(2), router(3)]);
        assert_eq!(schedule.due((2, 2), every), ms(3_000));
        schedule.retain(|session| session == 1);
        assert_eq!(schedule.due((2, 3), every), Time::ZERO);
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
