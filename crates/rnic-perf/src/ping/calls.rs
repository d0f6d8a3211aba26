//! Reliable connections for probes: RC Sends and RDMA Writes instead of datagrams.
//!
//! A reliable connection belongs to a path of a session, so that each has its own UDP source port. The two ends connect
//! over the datagrams of the session: the prober sends a *connect* datagram, which the responder treats like a probe
//! (only in a session, from its address, at a bounded rate, with an answer that is no longer), and the answer is an
//! *accept* datagram. Behind the message of [`message`](super::message) both have:
//!
//! | bytes | field |
//! |---|---|
//! | 32 to 35 | queue pair number |
//! | 36 to 39 | first PSN |
//! | 40, 41 | UDP source port |
//! | 42, 43 | 1: Sends, 2: RDMA Writes |
//! | 44 to 47 | remote key of the responder's memory; 0 in a connect |
//! | 48 to 55 | its address; 0 in a connect |
//!
//! The software of the responder takes no part in a probe: the NIC acknowledges it, and the round-trip time is that
//! from posting the probe to its ACK. A lost packet is retransmitted, so it shows itself as a longer time; a probe is
//! lost if there is no ACK within the timeout. Then the connection is aborted, and the next probe connects anew.

use super::message::{Kind, MESSAGE, MIN_PROBE, Message};
use rnic_endpoint::DatagramAddress;
use rnic_transport::Time;
use std::collections::BTreeMap;

/// What carries a probe.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// An unreliable datagram, which the responder's software answers.
    #[default]
    Ud,
    /// A Send on a reliable connection.
    RcSend,
    /// An RDMA Write on a reliable connection.
    RcWrite,
}

impl Carrier {
    /// The name in files and options.
    pub const fn name(self) -> &'static str {
        match self {
            Carrier::Ud => "ud",
            Carrier::RcSend => "rc-send",
            Carrier::RcWrite => "rc-write",
        }
    }

    const fn code(self) -> u16 {
        match self {
            Carrier::Ud => 0,
            Carrier::RcSend => 1,
            Carrier::RcWrite => 2,
        }
    }
}

/// Bit in the identifier of a work request that marks a receive of a connection. No other work request of the
/// completion queue has it.
pub const RECEIVE: u64 = 1 << 57;
/// Bit in the identifier of a work request that marks a probe on a connection.
pub const CONNECTED: u64 = 1 << 56;
/// Maximum number of probes that have been posted and are not acknowledged.
pub const PROBES: usize = 1_024;
/// Maximum number of connections that others have opened.
const MAX_SERVED: usize = 8_192;
/// Maximum number of connections that were opened from here.
const MAX_CALLS: usize = 8_192;
/// Time after which a connect is repeated.
const AGAIN: Time = Time::from_ms(100);
/// Length of a connect or accept without its zeros.
pub const GREETING: usize = 56;

/// The session and the path of a connection.
pub type Key = (u64, u16);

/// An end of a connection, as it is told to the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Queue pair number.
    pub qpn: u32,
    /// First PSN.
    pub psn: u32,
    /// UDP source port of its packets; `None`: not known, as with NICs that choose it themselves.
    pub source_port: Option<u16>,
}

/// What makes reliable queue pairs: the endpoint, or a real NIC.
pub trait Pairs {
    /// A queue pair.
    type Pair;
    /// Why the device has failed.
    type Error;

    /// Makes a queue pair for a path; `None` if there is no room for one.
    ///
    /// # Errors
    /// If the device fails.
    fn open(&mut self, path: u16) -> Result<Option<Self::Pair>, Self::Error>;

    /// Destroys a queue pair. It touches no memory afterwards.
    fn close(&mut self, pair: Self::Pair);

    /// What the other end is to know of a queue pair.
    fn end(&self, pair: &Self::Pair) -> End;

    /// Address and remote key of memory into which others may write.
    ///
    /// # Errors
    /// If the device fails.
    fn memory(&mut self) -> Result<(u64, u32), Self::Error>;

    /// Connects a queue pair with that of the peer at `at`; it gives up after the time of `path` without an ACK, and
    /// has its DSCP. `false`: the peer's numbers are such that no queue pair can have them, or nobody is there.
    ///
    /// # Errors
    /// If the device fails.
    fn connect(
        &mut self, pair: &mut Self::Pair, peer: &End, at: DatagramAddress, path: (Time, u8),
    ) -> Result<bool, Self::Error>;

    /// Posts a message of `len` bytes, whose bytes behind `message` are zero, from the memory of a slot below
    /// [`PROBES`]: an RDMA Write to an address with a remote key, or a Send. `false`: the queue pair takes no more.
    ///
    /// # Errors
    /// If the device fails.
    fn post(
        &mut self, pair: &Self::Pair, wr_id: u64, slot: usize, write: Option<(u64, u32)>, message: &[u8; MESSAGE],
        len: usize,
    ) -> Result<bool, Self::Error>;
}

/// The queue pair that the other side has told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Greeting {
    end: End,
    carrier: u16,
    rkey: u32,
    addr: u64,
}

impl Greeting {
    fn emit(&self, message: &Message) -> [u8; GREETING] {
        let mut out = [0; GREETING];
        out[..MESSAGE].copy_from_slice(&message.emit());
        out[32..36].copy_from_slice(&self.end.qpn.to_be_bytes());
        out[36..40].copy_from_slice(&self.end.psn.to_be_bytes());
        out[40..42].copy_from_slice(&self.end.source_port.unwrap_or(0).to_be_bytes());
        out[42..44].copy_from_slice(&self.carrier.to_be_bytes());
        out[44..48].copy_from_slice(&self.rkey.to_be_bytes());
        out[48..56].copy_from_slice(&self.addr.to_be_bytes());
        out
    }

    /// Parses a datagram, which is hostile.
    fn parse(datagram: &[u8]) -> Option<Greeting> {
        let bytes: &[u8; GREETING] = datagram.first_chunk()?;
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let greeting = Greeting {
            end: End { qpn: word(32), psn: word(36), source_port: Some(half(40)).filter(|port| *port != 0) },
            carrier: half(42),
            rkey: word(44),
            addr: u64::from(word(48)) << 32 | u64::from(word(52)),
        };
        let fits = greeting.end.qpn < 1 << 24 && greeting.end.psn < 1 << 24 && matches!(greeting.carrier, 1 | 2);
        fits.then_some(greeting)
    }
}

/// A connection that was opened from here.
struct Call<Q> {
    pair: Q,
    /// Memory of the responder, once it has accepted: address and remote key.
    accepted: Option<(u64, u32)>,
    /// When the latest connect was sent.
    asked: Option<Time>,
    /// Probes that wait for the connection.
    waiting: Vec<u64>,
}

/// A connection that another one has opened.
struct Served<Q> {
    pair: Q,
    /// What the prober told.
    greeting: Greeting,
    /// How many were opened before.
    number: u64,
}

/// A probe that is not acknowledged: its connection, its number, and when it was posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    /// The connection.
    pub key: Key,
    /// Number of the probe in its session.
    pub sequence: u64,
    /// When it was posted.
    pub at: Time,
}

/// What is to be done with a probe.
#[derive(Debug)]
pub enum Next {
    /// It was posted.
    Posted,
    /// This datagram is to be sent to the responder, and the probe waits.
    Connect([u8; GREETING]),
    /// It waits for the connection.
    Waits,
    /// It cannot be sent: there are too many connections or probes.
    Full,
}

/// A slot for a probe. A work request also has the generation of its slot in its identifier, because the completion of
/// a queue pair that is gone may still come.
#[derive(Clone, Copy, Default)]
struct Slot {
    generation: u32,
    probe: Option<Posted>,
}

/// The reliable connections of a device whose queue pairs are `Q`. Every method gets the device ([`Pairs`]).
pub struct Calls<Q> {
    calls: BTreeMap<Key, Call<Q>>,
    served: BTreeMap<Key, Served<Q>>,
    /// Number of connections that others have opened so far.
    opened: u64,
    posted: Vec<Slot>,
    free: Vec<usize>,
}

impl<Q> Default for Calls<Q> {
    fn default() -> Self {
        Calls {
            calls: BTreeMap::new(),
            served: BTreeMap::new(),
            opened: 0,
            posted: vec![Slot::default(); PROBES],
            free: (0..PROBES).collect(),
        }
    }
}

impl<Q> Calls<Q> {
    /// A probe of `len` bytes on a connection is due at `now`. A probe whose connection is not open waits for it.
    ///
    /// # Errors
    /// If the device fails.
    pub fn probe<P: Pairs<Pair = Q>>(
        &mut self, pairs: &mut P, carrier: Carrier, key: Key, message: &Message, len: usize, now: Time,
    ) -> Result<Next, P::Error> {
        if !self.calls.contains_key(&key) {
            if self.calls.len() >= MAX_CALLS {
                return Ok(Next::Full);
            }
            let Some(pair) = pairs.open(key.1)? else { return Ok(Next::Full) };
            self.calls.insert(key, Call { pair, accepted: None, asked: None, waiting: Vec::new() });
        }
        let Some(call) = self.calls.get_mut(&key) else { return Ok(Next::Full) };
        if let Some(memory) = call.accepted {
            return self.post(pairs, carrier, key, memory, message, len, now);
        }
        if call.waiting.len() < 64 {
            call.waiting.push(message.sequence);
        }
        if call.asked.is_some_and(|at| super::prober::since(now, at) < AGAIN) {
            return Ok(Next::Waits);
        }
        call.asked = Some(now);
        let greeting = Greeting { end: pairs.end(&call.pair), carrier: carrier.code(), rkey: 0, addr: 0 };
        Ok(Next::Connect(greeting.emit(&Message { kind: Kind::Connect, ..*message })))
    }

    #[expect(clippy::too_many_arguments, reason = "a probe and where it goes")]
    fn post<P: Pairs<Pair = Q>>(
        &mut self, pairs: &mut P, carrier: Carrier, key: Key, memory: (u64, u32), message: &Message, len: usize,
        now: Time,
    ) -> Result<Next, P::Error> {
        let (Some(slot), Some(call)) = (self.free.pop(), self.calls.get(&key)) else { return Ok(Next::Full) };
        let write = (carrier == Carrier::RcWrite).then_some(memory);
        let wr_id = CONNECTED | u64::from(self.posted[slot].generation) << 16 | slot as u64;
        if pairs.post(&call.pair, wr_id, slot, write, &message.emit(), len)? {
            self.posted[slot].probe = Some(Posted { key, sequence: message.sequence, at: now });
            return Ok(Next::Posted);
        }
        // Too many probes are not acknowledged, or the connection has ended.
        self.free.push(slot);
        Ok(Next::Full)
    }

    /// An accept arrived from the responder at `from`. The connection gives up after the time of `path` without an ACK,
    /// and has its DSCP. Returns the probes that have waited for it.
    ///
    /// # Errors
    /// If the device fails.
    pub fn accepted<P: Pairs<Pair = Q>>(
        &mut self, pairs: &mut P, key: Key, datagram: &[u8], from: DatagramAddress, path: (Time, u8),
    ) -> Result<Vec<u64>, P::Error> {
        let (Some(greeting), Some(call)) = (Greeting::parse(datagram), self.calls.get_mut(&key)) else {
            return Ok(Vec::new());
        };
        if call.accepted.is_some() {
            return Ok(Vec::new());
        }
        if pairs.connect(&mut call.pair, &greeting.end, from, path)? {
            call.accepted = Some((greeting.addr, greeting.rkey));
            return Ok(std::mem::take(&mut call.waiting));
        }
        self.end(pairs, key);
        Ok(Vec::new())
    }

    /// A connect arrived in a session of the prober at `from`. Returns the accept to be sent, which is shorter than the
    /// connect; `None` if the connect makes no sense, or there is no room.
    ///
    /// # Errors
    /// If the device fails.
    pub fn serve<P: Pairs<Pair = Q>>(
        &mut self, pairs: &mut P, message: &Message, datagram: &[u8], from: DatagramAddress, path: (Time, u8),
    ) -> Result<Option<[u8; GREETING]>, P::Error> {
        let key = (message.session, message.path);
        let Some(greeting) = Greeting::parse(datagram).filter(|_| datagram.len() >= MIN_PROBE) else { return Ok(None) };
        // A prober that asks again from the same queue pair has not got the answer.
        if self.served.get(&key).is_none_or(|served| served.greeting != greeting) {
            if let Some(old) = self.served.remove(&key) {
                pairs.close(old.pair);
            }
            if self.served.len() >= MAX_SERVED {
                // The oldest one has most likely been left by its prober, since source ports change.
                let oldest = self.served.iter().min_by_key(|(_, served)| served.number).map(|(key, _)| *key);
                if let Some(oldest) = oldest.and_then(|key| self.served.remove(&key)) {
                    pairs.close(oldest.pair);
                }
            }
            let Some(mut pair) = pairs.open(message.path)? else { return Ok(None) };
            if !pairs.connect(&mut pair, &greeting.end, from, path)? {
                pairs.close(pair);
                return Ok(None);
            }
            self.opened += 1;
            self.served.insert(key, Served { pair, greeting, number: self.opened });
        }
        let Some(served) = self.served.get(&key) else { return Ok(None) };
        let (addr, rkey) = pairs.memory()?;
        let accept = Greeting { end: pairs.end(&served.pair), carrier: greeting.carrier, rkey, addr };
        Ok(Some(accept.emit(&Message { kind: Kind::Accept, ..*message })))
    }

    /// A work request with the bit [`CONNECTED`] has completed, `ok` if it was acknowledged. Returns the probe, unless
    /// its connection is gone.
    pub fn completed<P: Pairs<Pair = Q>>(&mut self, pairs: &mut P, wr_id: u64, ok: bool) -> Option<Posted> {
        let at = (wr_id & 0xffff) as usize;
        let slot = self.posted.get_mut(at).filter(|slot| slot.generation == (wr_id >> 16) as u32)?;
        let posted = slot.probe.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(at);
        if !ok {
            // The queue pair is in the error state. The next probe connects anew.
            self.end(pairs, posted.key);
        }
        Some(posted)
    }

    /// Ends a connection from here.
    fn end<P: Pairs<Pair = Q>>(&mut self, pairs: &mut P, key: Key) {
        if let Some(call) = self.calls.remove(&key) {
            pairs.close(call.pair);
        }
        for (at, slot) in self.posted.iter_mut().enumerate() {
            if slot.probe.is_some_and(|probe| probe.key == key) {
                *slot = Slot { generation: slot.generation.wrapping_add(1), probe: None };
                self.free.push(at);
            }
        }
    }

    /// Closes the connections that are not in use: `calls` says which ones from here are, and `serves` which sessions
    /// of others are open.
    pub fn retain<P: Pairs<Pair = Q>>(
        &mut self, pairs: &mut P, calls: impl Fn(Key) -> bool, serves: impl Fn(u64) -> bool,
    ) {
        let over: Vec<Key> = self.calls.keys().filter(|key| !calls(**key)).copied().collect();
        over.into_iter().for_each(|key| self.end(pairs, key));
        let over: Vec<Key> = self.served.keys().filter(|(session, _)| !serves(*session)).copied().collect();
        for served in over.into_iter().filter_map(|key| self.served.remove(&key)) {
            pairs.close(served.pair);
        }
    }

    /// Number of connections from here and from others.
    pub fn count(&self) -> (usize, usize) {
        (self.calls.len(), self.served.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_greeting_survives_the_wire() {
        let message = Message { kind: Kind::Connect, path: 3, session: 9, sequence: 4 };
        let end = End { qpn: 0xabcd, psn: 0x12_3456, source_port: Some(50_000) };
        let greeting = Greeting { end, carrier: 2, rkey: 7, addr: 1 << 40 };
        let bytes = greeting.emit(&message);
        assert_eq!((Greeting::parse(&bytes), Message::parse(&bytes)), (Some(greeting), Some(message)));
        assert_eq!(Greeting::parse(&bytes[..GREETING - 1]), None);
        let unknown = Greeting { end: End { source_port: None, ..end }, ..greeting };
        assert_eq!(Greeting::parse(&unknown.emit(&message)), Some(unknown), "a NIC chooses its source port");
        assert_eq!(Greeting::parse(&Greeting { carrier: 3, ..greeting }.emit(&message)), None);
        assert_eq!(Greeting::parse(&Greeting { end: End { qpn: 1 << 24, ..end }, ..greeting }.emit(&message)), None);
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(greeting) = Greeting::parse(&bytes) {
                prop_assert!(greeting.end.qpn < 1 << 24);
            }
        }
    }
}
