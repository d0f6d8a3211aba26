//! Reliable connections for probes, which carry RC Sends or RDMA Writes instead of datagrams.
//!
//! A reliable connection belongs to one path of a session, so that each path has its own UDP source port. The two ends
//! set up a connection by datagrams of the session: the prober sends a *connect* datagram, and the responder's response
//! is an *accept* datagram. The responder treats a connect datagram like a probe: it must belong to a session and come
//! from the session's address, its rate is limited, and the response is not longer than the request. In both datagrams,
//! these fields follow the message of [`message`](crate::message):
//!
//! | bytes | field |
//! |---|---|
//! | 32 to 35 | queue pair number |
//! | 36 to 39 | first PSN |
//! | 40, 41 | UDP source port |
//! | 42, 43 | 1: Sends, 2: RDMA Writes |
//! | 44 to 47 | remote key of the responder's memory; 0 in a connect |
//! | 48 to 55 | virtual address of the responder's memory; 0 in a connect |
//!
//! The responder's NIC acknowledges a probe without the responder's software, and the round-trip time is the time from
//! posting the probe until its ACK. A lost packet is retransmitted, so its round-trip time is longer. A probe without
//! an ACK within the timeout is lost; its connection is then aborted, and the next probe opens a new one.

use crate::message::{Kind, MESSAGE_LEN, MIN_PROBE, Message};
use rnic_endpoint::DatagramAddress;
use rnic_transport::Time;
use std::collections::BTreeMap;

/// The carrier of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// Unreliable datagrams, which the responder's software answers.
    #[default]
    Ud,
    /// Sends on a reliable connection: the time until the ACK.
    RcSend,
    /// RDMA Writes on a reliable connection: the time until the ACK.
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

/// Bit in the identifier of a work request that marks a receive of a connection. No other kind of work request on the
/// completion queue has this bit.
pub const RECEIVE: u64 = 1 << 57;
/// Bit in the identifier of a work request that marks a probe on a connection.
pub const CONNECTED: u64 = 1 << 56;
/// Maximum number of posted probes without an ACK.
pub const PROBES: usize = 1_024;
/// Maximum number of connections that peers have opened.
const MAX_INCOMING: usize = 8_192;
/// Maximum number of connections that this host has opened.
const MAX_OUTGOING: usize = 8_192;
/// Minimum time between two connect datagrams of a connection.
const CONNECT_INTERVAL: Time = Time::from_ms(100);
/// Length of a connect or accept in bytes, without the zeros at its end.
pub const CONNECT_LEN: usize = 56;

/// The session and the path of a connection.
pub type ConnectionKey = (u64, u16);

/// The attributes of the queue pair at one end of a connection that the peer must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairInfo {
    /// Queue pair number.
    pub qpn: u32,
    /// First PSN.
    pub psn: u32,
    /// UDP source port of its packets; `None` if it is unknown, because the NIC chooses it.
    pub source_port: Option<u16>,
}

/// A device that makes reliable queue pairs: the endpoint, or a real NIC.
pub trait QueuePairs {
    /// A queue pair.
    type Pair;
    /// The error of a failed device.
    type Error;

    /// Creates a queue pair for a path; `None` if a limit of the device is reached.
    ///
    /// # Errors
    /// If the device fails.
    fn open(&mut self, path: u16) -> Result<Option<Self::Pair>, Self::Error>;

    /// Destroys a queue pair. The device does not access the queue pair's memory afterwards.
    fn close(&mut self, pair: Self::Pair);

    /// The attributes of a queue pair that the peer must know.
    fn info(&self, pair: &Self::Pair) -> PairInfo;

    /// Virtual address and remote key of memory into which peers may write.
    ///
    /// # Errors
    /// If the device fails.
    fn writable_memory(&mut self) -> Result<(u64, u32), Self::Error>;

    /// Connects a queue pair with the peer's queue pair at `at`. `path` has the time without an ACK after which the
    /// connection is aborted, and the DSCP. Returns `false` if the peer's numbers are not valid for a queue pair, or if
    /// no host has the address.
    ///
    /// # Errors
    /// If the device fails.
    fn connect(
        &mut self, pair: &mut Self::Pair, peer: &PairInfo, at: DatagramAddress, path: (Time, u8),
    ) -> Result<bool, Self::Error>;

    /// Posts a message of `len` bytes: `message`, followed by zeros. It is sent from the memory of a slot below
    /// [`PROBES`], as an RDMA Write to an address with a remote key, or as a Send. Returns `false` if the send queue is
    /// full.
    ///
    /// # Errors
    /// If the device fails.
    fn post(
        &mut self, pair: &Self::Pair, wr_id: u64, slot: usize, write: Option<(u64, u32)>, message: &[u8; MESSAGE_LEN],
        len: usize,
    ) -> Result<bool, Self::Error>;
}

/// The fields of a connect or accept datagram after its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ConnectBody {
    pair: PairInfo,
    carrier: u16,
    rkey: u32,
    addr: u64,
}

impl ConnectBody {
    fn emit(&self, message: &Message) -> [u8; CONNECT_LEN] {
        let mut out = [0; CONNECT_LEN];
        out[..MESSAGE_LEN].copy_from_slice(&message.emit());
        out[32..36].copy_from_slice(&self.pair.qpn.to_be_bytes());
        out[36..40].copy_from_slice(&self.pair.psn.to_be_bytes());
        out[40..42].copy_from_slice(&self.pair.source_port.unwrap_or(0).to_be_bytes());
        out[42..44].copy_from_slice(&self.carrier.to_be_bytes());
        out[44..48].copy_from_slice(&self.rkey.to_be_bytes());
        out[48..56].copy_from_slice(&self.addr.to_be_bytes());
        out
    }

    /// Parses a datagram; `None` if a field is out of range.
    fn parse(datagram: &[u8]) -> Option<ConnectBody> {
        let bytes: &[u8; CONNECT_LEN] = datagram.first_chunk()?;
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let body = ConnectBody {
            pair: PairInfo { qpn: word(32), psn: word(36), source_port: Some(half(40)).filter(|port| *port != 0) },
            carrier: half(42),
            rkey: word(44),
            addr: u64::from(word(48)) << 32 | u64::from(word(52)),
        };
        let fits = body.pair.qpn < 1 << 24 && body.pair.psn < 1 << 24 && matches!(body.carrier, 1 | 2);
        fits.then_some(body)
    }
}

/// A connection that this host has opened.
struct Outgoing<Q> {
    pair: Q,
    /// Virtual address and remote key of the responder's memory, once it has accepted.
    accepted: Option<(u64, u32)>,
    /// Time at which the latest connect was sent.
    connect_sent: Option<Time>,
    /// Probes that wait for the connection.
    waiting: Vec<u64>,
}

/// A connection that a peer has opened.
struct Incoming<Q> {
    pair: Q,
    /// The fields of the prober's connect datagram.
    body: ConnectBody,
    /// Sequence number of the connection among all incoming connections, in order of opening.
    number: u64,
}

/// A posted probe without an ACK: its connection, its number, and the time of posting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    /// The connection.
    pub key: ConnectionKey,
    /// Number of the probe in its session.
    pub sequence: u64,
    /// Time of posting.
    pub at: Time,
}

/// The result of posting a probe.
#[derive(Debug)]
pub enum Posting {
    /// The probe was posted.
    Posted,
    /// The caller must send this connect datagram to the responder; the probe waits for the connection.
    Connect([u8; CONNECT_LEN]),
    /// The probe waits for the connection.
    Waiting,
    /// The probe cannot be sent: too many connections or probes exist.
    Full,
}

/// A slot for a probe. The identifier of a work request contains the generation of its slot, because completions of a
/// destroyed queue pair may still arrive.
#[derive(Clone, Copy, Default)]
struct Slot {
    generation: u32,
    probe: Option<Posted>,
}

/// The reliable connections of a device whose queue pairs have the type `Q`. Methods that need the device
/// ([`QueuePairs`]) have it as a parameter.
pub struct Connections<Q> {
    outgoing: BTreeMap<ConnectionKey, Outgoing<Q>>,
    incoming: BTreeMap<ConnectionKey, Incoming<Q>>,
    /// Number of connections that peers have opened so far.
    opened: u64,
    posted: Vec<Slot>,
    free: Vec<usize>,
}

impl<Q> Default for Connections<Q> {
    fn default() -> Self {
        Connections {
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            opened: 0,
            posted: vec![Slot::default(); PROBES],
            free: (0..PROBES).collect(),
        }
    }
}

impl<Q> Connections<Q> {
    /// Sends a probe of `len` bytes that is due at `now`. If its connection is not open, the probe waits for the
    /// connection.
    ///
    /// # Errors
    /// If the device fails.
    pub fn probe<P: QueuePairs<Pair = Q>>(
        &mut self, pairs: &mut P, carrier: Carrier, key: ConnectionKey, message: &Message, len: usize, now: Time,
    ) -> Result<Posting, P::Error> {
        if !self.outgoing.contains_key(&key) {
            if self.outgoing.len() >= MAX_OUTGOING {
                return Ok(Posting::Full);
            }
            let Some(pair) = pairs.open(key.1)? else { return Ok(Posting::Full) };
            self.outgoing.insert(key, Outgoing { pair, accepted: None, connect_sent: None, waiting: Vec::new() });
        }
        let Some(outgoing) = self.outgoing.get_mut(&key) else { return Ok(Posting::Full) };
        if let Some(memory) = outgoing.accepted {
            return self.post(pairs, carrier, key, memory, message, len, now);
        }
        if outgoing.waiting.len() < 64 {
            outgoing.waiting.push(message.sequence);
        }
        if outgoing.connect_sent.is_some_and(|at| now.saturating_sub(at) < CONNECT_INTERVAL) {
            return Ok(Posting::Waiting);
        }
        outgoing.connect_sent = Some(now);
        let body = ConnectBody { pair: pairs.info(&outgoing.pair), carrier: carrier.code(), rkey: 0, addr: 0 };
        Ok(Posting::Connect(body.emit(&Message { kind: Kind::Connect, ..*message })))
    }

    #[expect(clippy::too_many_arguments, reason = "a probe and where it goes")]
    fn post<P: QueuePairs<Pair = Q>>(
        &mut self, pairs: &mut P, carrier: Carrier, key: ConnectionKey, memory: (u64, u32), message: &Message,
        len: usize, now: Time,
    ) -> Result<Posting, P::Error> {
        let (Some(slot), Some(outgoing)) = (self.free.pop(), self.outgoing.get(&key)) else { return Ok(Posting::Full) };
        let write = (carrier == Carrier::RcWrite).then_some(memory);
        let wr_id = CONNECTED | u64::from(self.posted[slot].generation) << 16 | slot as u64;
        if pairs.post(&outgoing.pair, wr_id, slot, write, &message.emit(), len)? {
            self.posted[slot].probe = Some(Posted { key, sequence: message.sequence, at: now });
            return Ok(Posting::Posted);
        }
        // The send queue is full, or the connection has ended.
        self.free.push(slot);
        Ok(Posting::Full)
    }

    /// Handles an accept from the responder at `from`, and returns the probes that wait for the connection. `path` is
    /// the parameter of [`QueuePairs::connect`].
    ///
    /// # Errors
    /// If the device fails.
    pub fn accepted<P: QueuePairs<Pair = Q>>(
        &mut self, pairs: &mut P, key: ConnectionKey, datagram: &[u8], from: DatagramAddress, path: (Time, u8),
    ) -> Result<Vec<u64>, P::Error> {
        let (Some(body), Some(outgoing)) = (ConnectBody::parse(datagram), self.outgoing.get_mut(&key)) else {
            return Ok(Vec::new());
        };
        if outgoing.accepted.is_some() {
            return Ok(Vec::new());
        }
        if pairs.connect(&mut outgoing.pair, &body.pair, from, path)? {
            outgoing.accepted = Some((body.addr, body.rkey));
            return Ok(std::mem::take(&mut outgoing.waiting));
        }
        self.close(pairs, key);
        Ok(Vec::new())
    }

    /// Handles a connect in a session of the prober at `from`. Returns the accept to be sent, which is shorter than the
    /// connect; `None` if the connect is invalid, or a limit is reached.
    ///
    /// # Errors
    /// If the device fails.
    pub fn serve<P: QueuePairs<Pair = Q>>(
        &mut self, pairs: &mut P, message: &Message, datagram: &[u8], from: DatagramAddress, path: (Time, u8),
    ) -> Result<Option<[u8; CONNECT_LEN]>, P::Error> {
        let key = (message.session, message.path);
        let Some(body) = ConnectBody::parse(datagram).filter(|_| datagram.len() >= MIN_PROBE) else { return Ok(None) };
        // A prober that repeats its connect for the same queue pair did not receive the accept.
        if self.incoming.get(&key).is_none_or(|incoming| incoming.body != body) {
            if let Some(old) = self.incoming.remove(&key) {
                pairs.close(old.pair);
            }
            if self.incoming.len() >= MAX_INCOMING {
                // The prober of the oldest connection has most likely changed its source port.
                let oldest = self.incoming.iter().min_by_key(|(_, incoming)| incoming.number).map(|(key, _)| *key);
                if let Some(oldest) = oldest.and_then(|key| self.incoming.remove(&key)) {
                    pairs.close(oldest.pair);
                }
            }
            let Some(mut pair) = pairs.open(message.path)? else { return Ok(None) };
            if !pairs.connect(&mut pair, &body.pair, from, path)? {
                pairs.close(pair);
                return Ok(None);
            }
            self.opened += 1;
            self.incoming.insert(key, Incoming { pair, body, number: self.opened });
        }
        let Some(incoming) = self.incoming.get(&key) else { return Ok(None) };
        let (addr, rkey) = pairs.writable_memory()?;
        let accept = ConnectBody { pair: pairs.info(&incoming.pair), carrier: body.carrier, rkey, addr };
        Ok(Some(accept.emit(&Message { kind: Kind::Accept, ..*message })))
    }

    /// Handles the completion of a work request with the bit [`CONNECTED`]; `ok` if it was acknowledged. Returns the
    /// probe, or `None` if its connection was closed.
    pub fn completed<P: QueuePairs<Pair = Q>>(&mut self, pairs: &mut P, wr_id: u64, ok: bool) -> Option<Posted> {
        let at = (wr_id & 0xffff) as usize;
        let slot = self.posted.get_mut(at).filter(|slot| slot.generation == (wr_id >> 16) as u32)?;
        let posted = slot.probe.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(at);
        if !ok {
            // The queue pair is in the error state. The next probe opens a new connection.
            self.close(pairs, posted.key);
        }
        Some(posted)
    }

    /// Closes a connection that this host has opened.
    fn close<P: QueuePairs<Pair = Q>>(&mut self, pairs: &mut P, key: ConnectionKey) {
        if let Some(outgoing) = self.outgoing.remove(&key) {
            pairs.close(outgoing.pair);
        }
        for (at, slot) in self.posted.iter_mut().enumerate() {
            if slot.probe.is_some_and(|probe| probe.key == key) {
                *slot = Slot { generation: slot.generation.wrapping_add(1), probe: None };
                self.free.push(at);
            }
        }
    }

    /// Closes unused connections. `is_used` returns whether an outgoing connection is in use, and `is_open` whether a
    /// session of a peer is open.
    pub fn retain<P: QueuePairs<Pair = Q>>(
        &mut self, pairs: &mut P, is_used: impl Fn(ConnectionKey) -> bool, is_open: impl Fn(u64) -> bool,
    ) {
        let over: Vec<ConnectionKey> = self.outgoing.keys().filter(|key| !is_used(**key)).copied().collect();
        over.into_iter().for_each(|key| self.close(pairs, key));
        let over: Vec<ConnectionKey> =
            self.incoming.keys().filter(|(session, _)| !is_open(*session)).copied().collect();
        for incoming in over.into_iter().filter_map(|key| self.incoming.remove(&key)) {
            pairs.close(incoming.pair);
        }
    }

    /// Number of outgoing and of incoming connections.
    pub fn count(&self) -> (usize, usize) {
        (self.outgoing.len(), self.incoming.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_connect_body_survives_the_wire() {
        let message = Message { kind: Kind::Connect, path: 3, session: 9, sequence: 4 };
        let pair = PairInfo { qpn: 0xabcd, psn: 0x12_3456, source_port: Some(50_000) };
        let body = ConnectBody { pair, carrier: 2, rkey: 7, addr: 1 << 40 };
        let bytes = body.emit(&message);
        assert_eq!((ConnectBody::parse(&bytes), Message::parse(&bytes)), (Some(body), Some(message)));
        assert_eq!(ConnectBody::parse(&bytes[..CONNECT_LEN - 1]), None);
        let unknown = ConnectBody { pair: PairInfo { source_port: None, ..pair }, ..body };
        assert_eq!(ConnectBody::parse(&unknown.emit(&message)), Some(unknown), "a NIC chooses its source port");
        assert_eq!(ConnectBody::parse(&ConnectBody { carrier: 3, ..body }.emit(&message)), None);
        assert_eq!(
            ConnectBody::parse(&ConnectBody { pair: PairInfo { qpn: 1 << 24, ..pair }, ..body }.emit(&message)),
            None
        );
    }

    /// A device without a limit, whose queue pairs are numbers.
    #[derive(Default)]
    struct Device {
        open: std::collections::BTreeSet<u32>,
        next: u32,
    }

    impl QueuePairs for Device {
        type Pair = u32;
        type Error = std::convert::Infallible;

        fn open(&mut self, _: u16) -> Result<Option<u32>, Self::Error> {
            self.next += 1;
            self.open.insert(self.next);
            Ok(Some(self.next))
        }
        fn close(&mut self, pair: u32) {
            assert!(self.open.remove(&pair));
        }
        fn info(&self, pair: &u32) -> PairInfo {
            PairInfo { qpn: *pair, psn: 0, source_port: None }
        }
        fn writable_memory(&mut self) -> Result<(u64, u32), Self::Error> {
            Ok((0, 0))
        }
        fn connect(
            &mut self, _: &mut u32, _: &PairInfo, _: DatagramAddress, _: (Time, u8),
        ) -> Result<bool, Self::Error> {
            Ok(true)
        }
        fn post(
            &mut self, _: &u32, _: u64, _: usize, _: Option<(u64, u32)>, _: &[u8; MESSAGE_LEN], _: usize,
        ) -> Result<bool, Self::Error> {
            Ok(true)
        }
    }

    /// Probers that open a connection for each of 65,536 paths.
    #[test]
    fn the_oldest_incoming_connection_makes_room() {
        let (mut device, mut connections) = (Device::default(), Connections::default());
        let from = DatagramAddress { addr: "10.0.0.1:9".parse().unwrap(), qpn: 5, qkey: 5 };
        let pair = PairInfo { qpn: 1, psn: 2, source_port: None };
        for number in 0..MAX_INCOMING + 100 {
            let message = Message { kind: Kind::Connect, path: number as u16, session: 9, sequence: 1 };
            let mut datagram = ConnectBody { pair, carrier: 1, rkey: 0, addr: 0 }.emit(&message).to_vec();
            datagram.resize(MIN_PROBE, 0);
            let accept = connections.serve(&mut device, &message, &datagram, from, (Time::ZERO, 0)).unwrap();
            assert!(accept.is_some());
        }
        assert_eq!(connections.count(), (0, MAX_INCOMING));
        assert_eq!(device.open.len(), MAX_INCOMING);
        assert_eq!(device.open.first(), Some(&101), "the oldest are closed");
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(body) = ConnectBody::parse(&bytes) {
                prop_assert!(body.pair.qpn < 1 << 24);
            }
        }
    }
}
