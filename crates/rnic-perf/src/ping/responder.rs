//! The responder: decides which probes are answered. It uses neither sockets nor clocks.
//!
//! It answers only probers that have opened a session, and only at the address from which they opened it, so nobody can
//! make it send to a third party. It answers a probe with at most as many bytes as the probe has, at a bounded rate for
//! each session and for all together, and remembers nothing of a probe once its report has left.

use super::message::{Kind, MIN_PROBE, Message, response_len};
use rnic_endpoint::DatagramAddress;
use rnic_transport::Time;
use rnic_verbs::{AddressHandle, Recipient};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Maximum number of sessions at the same time, of all hosts and of one host.
pub const MAX_SESSIONS: [usize; 2] = [1_024, 64];
/// Maximum probes per second that are answered in one session, and the burst that may exceed it.
pub const SESSION_RATE: (u64, u64) = (2_000, 200);
/// Maximum probes per second that are answered in all sessions together, and the burst that may exceed it.
pub const TOTAL_RATE: (u64, u64) = (50_000, 1_000);

/// A rate limit: probes per second, and the largest burst.
struct Bucket {
    rate: u64,
    burst: u64,
    /// Thousandths of a probe.
    filled: u64,
    at: Time,
}

impl Bucket {
    fn new((rate, burst): (u64, u64), now: Time) -> Bucket {
        Bucket { rate, burst, filled: burst * 1_000, at: now }
    }

    /// Adds what has come since the last call.
    fn fill(&mut self, now: Time) {
        let passed_us = super::prober::since(now, self.at).as_ps() / 1_000_000;
        let gained = passed_us.saturating_mul(self.rate) / 1_000;
        if gained > 0 {
            self.filled = self.filled.saturating_add(gained).min(self.burst * 1_000);
            self.at = now;
        }
    }
}

struct Session {
    prober: DatagramAddress,
    bucket: Bucket,
}

/// Counters of a responder.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ResponderCounters {
    /// Probes that were answered.
    pub answered: u64,
    /// Probes beyond the rate of their session or of the responder.
    pub limited: u64,
    /// Datagrams of strangers: no probe, too short, of no session, or from another address or queue pair than the
    /// session's.
    pub strange: u64,
}

/// The answer to a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Where response and report go.
    pub to: Recipient,
    /// The response.
    pub response: Message,
    /// Length of the response in bytes.
    pub len: usize,
}

impl Answer {
    /// The report that follows the response, once it is known that the response left `delay` after the probe arrived.
    pub fn report(&self, delay: Time) -> Message {
        Message { kind: Kind::Report { delay }, ..self.response }
    }
}

/// The sessions of a responder.
pub struct Responder {
    sessions: BTreeMap<u64, Session>,
    total: Bucket,
    counters: ResponderCounters,
}

impl Responder {
    /// A responder without sessions.
    pub fn new(now: Time) -> Responder {
        Responder {
            sessions: BTreeMap::new(),
            total: Bucket::new(TOTAL_RATE, now),
            counters: ResponderCounters::default(),
        }
    }

    /// Opens the session `number` for the prober with the queue pair `prober`. The caller has verified that the prober
    /// receives at the address, and drawn the number at random.
    ///
    /// # Errors
    /// A sentence, if there are too many sessions, or one has this number.
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
        self.sessions.insert(number, Session { prober, bucket: Bucket::new(SESSION_RATE, now) });
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

    /// The answer to a datagram that arrived from the IP address and the queue pair number `source`; `None` if it gets
    /// none. Bytes beyond the message are only counted.
    pub fn answer(&mut self, now: Time, source: (IpAddr, u32), datagram: &[u8]) -> Option<Answer> {
        self.respond(now, source, datagram, (Kind::Probe, Kind::Response))
    }

    /// The answer to a datagram that asks for a reliable connection, under the same conditions as that to a probe.
    pub fn connect(&mut self, now: Time, source: (IpAddr, u32), datagram: &[u8]) -> Option<Answer> {
        self.respond(now, source, datagram, (Kind::Connect, Kind::Accept))
    }

    fn respond(
        &mut self, now: Time, source: (IpAddr, u32), datagram: &[u8], (asks, answers): (Kind, Kind),
    ) -> Option<Answer> {
        let probe = Message::parse(datagram).filter(|probe| probe.kind == asks && datagram.len() >= MIN_PROBE);
        let is_own = |session: &&mut Session| {
            let prober = &session.prober;
            same(prober.addr.ip(), source.0) && prober.qpn == source.1
        };
        let found = probe.and_then(|probe| Some((probe, self.sessions.get_mut(&probe.session).filter(is_own)?)));
        let Some((probe, session)) = found else {
            self.counters.strange += 1;
            return None;
        };
        for bucket in [&mut session.bucket, &mut self.total] {
            bucket.fill(now);
        }
        if session.bucket.filled < 1_000 || self.total.filled < 1_000 {
            self.counters.limited += 1;
            return None;
        }
        session.bucket.filled -= 1_000;
        self.total.filled -= 1_000;
        self.counters.answered += 1;
        let to = session.prober.recipient();
        Some(Answer {
            to: Recipient { path: AddressHandle { flow: probe.path.into(), ..to.path }, ..to },
            response: Message { kind: answers, ..probe },
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
        assert_eq!(responder.answer(now, SOURCE, &probe(7, 512)), None, "no session is open");
        responder.open(7, prober(), now).unwrap();
        let answer = responder.answer(now, SOURCE, &probe(7, 512)).unwrap();
        assert_eq!((answer.len, answer.to.qkey, answer.to.path.flow), (408, 5, 3));
        assert_eq!(answer.to.path.peer, prober().addr);
        assert_eq!(answer.response, Message { kind: Kind::Response, path: 3, session: 7, sequence: 11 });
        // Another session, a probe that is too short, an answer instead of a probe, garbage.
        let response = Message { kind: Kind::Response, path: 3, session: 7, sequence: 11 }.emit();
        let mut response = response.to_vec();
        response.resize(512, 0);
        for datagram in [probe(8, 512), probe(7, MIN_PROBE - 1), response, vec![0xff; 512], Vec::new()] {
            assert_eq!(responder.answer(now, SOURCE, &datagram), None);
        }
        // A session of another queue pair, and of another host.
        let theirs = prober();
        responder.open(8, DatagramAddress { qpn: theirs.qpn ^ 1, ..theirs }, now).unwrap();
        responder.open(9, DatagramAddress { addr: "10.0.0.1:9".parse().unwrap(), ..theirs }, now).unwrap();
        assert_eq!([8, 9].map(|session| responder.answer(now, SOURCE, &probe(session, 512))), [None; 2]);
        responder.close(7);
        assert_eq!(responder.answer(now, SOURCE, &probe(7, 512)), None);
        assert_eq!(responder.counters(), ResponderCounters { answered: 1, limited: 0, strange: 9 });
    }

    #[test]
    fn rates_are_bounded() {
        let mut responder = Responder::new(Time::ZERO);
        for session in 0..40 {
            responder.open(session, prober(), Time::ZERO).unwrap();
        }
        let mut answered = |session: u64, probes: u64, now: Time| {
            let count = (0..probes).filter(|_| responder.answer(now, SOURCE, &probe(session, 136)).is_some()).count();
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
