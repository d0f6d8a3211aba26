//! The responder: it decides which probes get a response. It uses neither sockets nor clocks.
//!
//! It responds only to probers that have opened a session, and only at the address from which they opened it, so a
//! prober cannot make it send packets to a third party. The response and the report to a probe together are not longer
//! than the probe. Their rate is limited for each session and for all sessions together. After the report has left, the
//! responder keeps no state of the probe. Only differences of times are used, so the times may come from a device's
//! clock.

use crate::message::{Kind, MIN_PROBE, Message, response_len};
use rnic_endpoint::DatagramAddress;
use rnic_endpoint::clock::since;
use rnic_transport::Time;
use rnic_verbs::{AddressHandle, Recipient};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Maximum number of concurrent sessions: of all hosts together, and of one host.
pub const MAX_SESSIONS: [usize; 2] = [1_024, 64];
/// Rate limit of one session: answered probes per second, and the burst that may exceed the rate.
pub const SESSION_RATE: (u64, u64) = (2_000, 200);
/// Rate limit of all sessions together: answered probes per second, and the burst that may exceed the rate.
pub const TOTAL_RATE: (u64, u64) = (50_000, 1_000);

/// A rate limit: probes per second, and the maximum burst.
struct TokenBucket {
    rate: u64,
    burst: u64,
    /// Available tokens, in thousandths. Each response consumes one token.
    millitokens: u64,
    at: Time,
}

impl TokenBucket {
    fn new((rate, burst): (u64, u64), now: Time) -> TokenBucket {
        TokenBucket { rate, burst, millitokens: burst * 1_000, at: now }
    }

    /// Adds the tokens for the time since the last call.
    fn fill(&mut self, now: Time) {
        let passed_us = since(now, self.at).as_ps() / 1_000_000;
        let gained = passed_us.saturating_mul(self.rate) / 1_000;
        if gained > 0 {
            self.millitokens = self.millitokens.saturating_add(gained).min(self.burst * 1_000);
            self.at = now;
        }
    }
}

struct Session {
    prober: DatagramAddress,
    bucket: TokenBucket,
}

/// Counters of a responder.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ResponderCounters {
    /// Probes that were answered.
    pub answered: u64,
    /// Probes that got no response because they exceeded the rate limit of their session or of the responder.
    pub limited: u64,
    /// Unexpected datagrams: not a probe, too short, of an unknown session, or from another address or queue pair than
    /// the session's prober.
    pub unexpected: u64,
}

/// The response to a probe, with its recipient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Recipient of the response and of the report.
    pub to: Recipient,
    /// The response.
    pub response: Message,
    /// Length of the response in bytes.
    pub len: usize,
}

impl Reply {
    /// The report that follows the response. `delay` is the time from the arrival of the probe to the departure of the
    /// response.
    pub fn report(&self, delay: Time) -> Message {
        Message { kind: Kind::Report { delay }, ..self.response }
    }
}

/// The sessions of a responder.
pub struct Responder {
    sessions: BTreeMap<u64, Session>,
    total: TokenBucket,
    counters: ResponderCounters,
}

impl Responder {
    /// A responder without sessions.
    pub fn new(now: Time) -> Responder {
        Responder {
            sessions: BTreeMap::new(),
            total: TokenBucket::new(TOTAL_RATE, now),
            counters: ResponderCounters::default(),
        }
    }

    /// Opens the session `number` for the prober with the queue pair `prober`. The caller must have verified that the
    /// prober receives at this address, and must have drawn the number at random.
    ///
    /// # Errors
    /// Returns a sentence if too many sessions exist, or a session already has this number.
    pub fn open(&mut self, number: u64, prober: DatagramAddress, now: Time) -> Result<(), String> {
        let [all, of_host] = MAX_SESSIONS;
        let host = |session: &&Session| session.prober.addr.ip() == prober.addr.ip();
        if self.sessions.len() >= all {
            return Err(format!("the responder has {all} sessions, and takes no more"));
        }
        if self.sessions.values().filter(host).count() >= of_host {
            let ip = prober.addr.ip();
            return Err(format!("the responder has {of_host} sessions of {ip}, and takes no more"));
        }
        if self.sessions.contains_key(&number) {
            return Err("the number of the session is in use; try again".to_string());
        }
        self.sessions.insert(number, Session { prober, bucket: TokenBucket::new(SESSION_RATE, now) });
        Ok(())
    }

    /// The prober of a session.
    pub fn prober(&self, number: u64) -> Option<DatagramAddress> {
        self.sessions.get(&number).map(|session| session.prober)
    }

    /// The numbers of all sessions.
    pub fn sessions(&self) -> impl Iterator<Item = u64> + '_ {
        self.sessions.keys().copied()
    }

    /// Closes a session.
    pub fn close(&mut self, number: u64) {
        self.sessions.remove(&number);
    }

    /// The response to a probe from the IP address and the queue pair number `source`, which the owner processes at
    /// `now`; `None` if the probe gets no response. The rate limits count from `now`, which must never go back: arrival
    /// times would not do, because a probe may have waited for longer than the previous one. The bytes after the
    /// message are not read; only their number matters.
    pub fn on_probe(&mut self, now: Time, source: (IpAddr, u32), datagram: &[u8]) -> Option<Reply> {
        self.respond(now, source, datagram, (Kind::Probe, Kind::Response))
    }

    /// The response to a datagram that requests a reliable connection. It gets a response under the same conditions as
    /// a probe.
    pub fn on_connect(&mut self, now: Time, source: (IpAddr, u32), datagram: &[u8]) -> Option<Reply> {
        self.respond(now, source, datagram, (Kind::Connect, Kind::Accept))
    }

    fn respond(
        &mut self, now: Time, source: (IpAddr, u32), datagram: &[u8], (request, response): (Kind, Kind),
    ) -> Option<Reply> {
        let probe = Message::parse(datagram).filter(|probe| probe.kind == request && datagram.len() >= MIN_PROBE);
        let is_own = |session: &&mut Session| {
            let prober = &session.prober;
            same(prober.addr.ip(), source.0) && prober.qpn == source.1
        };
        let found = probe.and_then(|probe| Some((probe, self.sessions.get_mut(&probe.session).filter(is_own)?)));
        let Some((probe, session)) = found else {
            self.counters.unexpected += 1;
            return None;
        };
        for bucket in [&mut session.bucket, &mut self.total] {
            bucket.fill(now);
        }
        if session.bucket.millitokens < 1_000 || self.total.millitokens < 1_000 {
            self.counters.limited += 1;
            return None;
        }
        session.bucket.millitokens -= 1_000;
        self.total.millitokens -= 1_000;
        self.counters.answered += 1;
        let to = session.prober.recipient();
        Some(Reply {
            to: Recipient { path: AddressHandle { flow: probe.path.into(), ..to.path }, ..to },
            response: Message { kind: response, ..probe },
            len: response_len(datagram.len()),
        })
    }

    /// The counters.
    pub fn counters(&self) -> ResponderCounters {
        self.counters
    }
}

fn same(a: IpAddr, b: IpAddr) -> bool {
    a.to_canonical() == b.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;
    const SOURCE: (IpAddr, u32) = (IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 17);

    fn prober() -> DatagramAddress {
        DatagramAddress { addr: "127.0.0.1:9".parse().unwrap(), qpn: SOURCE.1, qkey: 5 }
    }

    fn probe(session: u64, len: usize) -> Vec<u8> {
        let mut bytes = Message { kind: Kind::Probe, path: 3, session, sequence: 11 }.emit().to_vec();
        bytes.resize(len, 0);
        bytes
    }

    #[test]
    fn only_probes_of_a_session_are_answered() {
        let mut responder = Responder::new(Time::ZERO);
        let now = Time::from_ms(1);
        assert_eq!(responder.on_probe(now, SOURCE, &probe(7, 512)), None, "no session is open");
        responder.open(7, prober(), now).unwrap();
        let answer = responder.on_probe(now, SOURCE, &probe(7, 512)).unwrap();
        assert_eq!((answer.len, answer.to.qkey, answer.to.path.flow), (408, 5, 3));
        assert_eq!(answer.to.path.peer, prober().addr);
        assert_eq!(answer.response, Message { kind: Kind::Response, path: 3, session: 7, sequence: 11 });
        // A datagram of another session, a probe that is too short, a response instead of a probe, and garbage.
        let response = Message { kind: Kind::Response, path: 3, session: 7, sequence: 11 }.emit();
        let mut response = response.to_vec();
        response.resize(512, 0);
        for datagram in [probe(8, 512), probe(7, MIN_PROBE - 1), response, vec![0xff; 512], Vec::new()] {
            assert_eq!(responder.on_probe(now, SOURCE, &datagram), None);
        }
        // Datagrams for the session of another queue pair, and for the session of another host.
        let theirs = prober();
        responder.open(8, DatagramAddress { qpn: theirs.qpn ^ 1, ..theirs }, now).unwrap();
        responder.open(9, DatagramAddress { addr: "10.0.0.1:9".parse().unwrap(), ..theirs }, now).unwrap();
        assert_eq!([8, 9].map(|session| responder.on_probe(now, SOURCE, &probe(session, 512))), [None; 2]);
        responder.close(7);
        assert_eq!(responder.on_probe(now, SOURCE, &probe(7, 512)), None);
        assert_eq!(responder.counters(), ResponderCounters { answered: 1, limited: 0, unexpected: 9 });
    }

    #[test]
    fn rates_are_bounded() {
        let mut responder = Responder::new(Time::ZERO);
        for session in 0..40 {
            responder.open(session, prober(), Time::ZERO).unwrap();
        }
        let mut answered = |session: u64, probes: u64, now: Time| {
            let count = (0..probes).filter(|_| responder.on_probe(now, SOURCE, &probe(session, 136)).is_some()).count();
            count as u64
        };
        assert_eq!(answered(0, 1_000, Time::ZERO), SESSION_RATE.1);
        // 2000 per second are 2 per millisecond.
        assert_eq!(answered(0, 1_000, Time::from_ms(1)), 2);
        assert_eq!(answered(0, 1_000, Time::from_us(1_400)), 0);
        assert_eq!(answered(0, 1_000, Time::from_us(1_500)), 1);
        // All sessions together reach the limit of the responder.
        let now = Time::from_ms(10_000);
        let all: u64 = (0..40).map(|session| answered(session, 1_000, now)).sum();
        assert_eq!(all, TOTAL_RATE.1);
    }

    #[test]
    fn sessions_are_bounded() {
        let mut responder = Responder::new(Time::ZERO);
        let theirs = prober();
        let at = |host: u32| DatagramAddress { addr: ([10, 0, (host >> 8) as u8, host as u8], 9).into(), ..theirs };
        for session in 0..64 {
            responder.open(session, at(0), Time::ZERO).unwrap();
        }
        let refused = responder.open(64, at(0), Time::ZERO).unwrap_err();
        assert_eq!(refused, "the responder has 64 sessions of 10.0.0.0, and takes no more");
        for session in 64..1_024 {
            responder.open(session, at(session as u32), Time::ZERO).unwrap();
        }
        assert!(responder.open(5_000, at(5_000), Time::ZERO).unwrap_err().contains("has 1024 sessions"));
        responder.close(70);
        assert!(responder.open(80, at(5_000), Time::ZERO).unwrap_err().contains("in use"));
        responder.open(5_000, at(5_000), Time::ZERO).unwrap();
    }
}
