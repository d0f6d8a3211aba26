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

use super::Outbox;
use super::message::{Kind, MAX_PROBE, MESSAGE, MIN_PROBE, Message};
use rnic_endpoint::{
    Access, Address, Capacities, CompletionQueue, Data, DatagramAddress, Error, MemoryRegion, PathOptions,
    ProtectionDomain, QpOptions, QueuePair, SendFlags, SendOp, SendRequest, Service, SharedReceiveQueue,
};
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
/// Number of receives for all connections together.
const RECEIVES: usize = 256;
/// Maximum number of probes that have been posted and are not acknowledged.
const PROBES: usize = 1_024;
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

/// The queue pair that the other side has told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Greeting {
    qpn: u32,
    psn: u32,
    source_port: u16,
    carrier: u16,
    rkey: u32,
    addr: u64,
}

impl Greeting {
    fn emit(&self, message: &Message) -> [u8; GREETING] {
        let mut out = [0; GREETING];
        out[..MESSAGE].copy_from_slice(&message.emit());
        out[32..36].copy_from_slice(&self.qpn.to_be_bytes());
        out[36..40].copy_from_slice(&self.psn.to_be_bytes());
        out[40..42].copy_from_slice(&self.source_port.to_be_bytes());
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
            qpn: word(32),
            psn: word(36),
            source_port: half(40),
            carrier: half(42),
            rkey: word(44),
            addr: u64::from(word(48)) << 32 | u64::from(word(52)),
        };
        let fits = greeting.qpn < 1 << 24 && greeting.psn < 1 << 24 && matches!(greeting.carrier, 1 | 2);
        (fits && greeting.source_port != 0).then_some(greeting)
    }

    fn address(&self, peer: DatagramAddress) -> Address {
        Address { source_port: Some(self.source_port), ..Address::plain(peer.addr, self.qpn, self.psn) }
    }
}

/// A connection that was opened from here.
struct Call {
    qp: QueuePair,
    /// Memory of the responder, once it has accepted: address and remote key.
    accepted: Option<(u64, u32)>,
    /// When the latest connect was sent.
    asked: Option<Time>,
    /// Probes that wait for the connection.
    waiting: Vec<u64>,
}

/// A connection that another one has opened.
struct Served {
    qp: QueuePair,
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

/// The reliable connections of a device.
pub struct Connections {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    srq: SharedReceiveQueue,
    inbox: MemoryRegion,
    /// Into which others write.
    scratch: MemoryRegion,
    outbox: Outbox,
    calls: BTreeMap<Key, Call>,
    served: BTreeMap<Key, Served>,
    /// Number of connections that others have opened so far.
    opened: u64,
    posted: Vec<Slot>,
    free: Vec<usize>,
}

/// A slot for a probe. A work request also has the generation of its slot in its identifier, because the completion of
/// a queue pair that is gone may still come.
#[derive(Clone, Copy, Default)]
struct Slot {
    generation: u32,
    probe: Option<Posted>,
}

impl Connections {
    /// Completions come from `cq`: at most [`Connections::COMPLETIONS`] that are not polled. They have the bit
    /// [`RECEIVE`] or [`CONNECTED`] in their identifiers.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(pd: &ProtectionDomain, cq: &CompletionQueue) -> Result<Connections, Error> {
        let writable = Access { remote_write: true, ..Access::LOCAL };
        let connections = Connections {
            srq: pd.shared_receive_queue(RECEIVES as u32, 1)?,
            inbox: pd.allocate(RECEIVES * MAX_PROBE, Access::LOCAL)?,
            scratch: pd.allocate(MAX_PROBE, writable)?,
            outbox: Outbox { region: pd.allocate(Outbox::len(PROBES), Access::LOCAL)?, slots: PROBES },
            pd: pd.clone(),
            cq: cq.clone(),
            calls: BTreeMap::new(),
            served: BTreeMap::new(),
            opened: 0,
            posted: vec![Slot::default(); PROBES],
            free: (0..PROBES).collect(),
        };
        for slot in 0..RECEIVES {
            connections.receive_into(slot)?;
        }
        Ok(connections)
    }

    /// Number of completions that may wait to be polled.
    pub const COMPLETIONS: usize = RECEIVES + PROBES;

    fn receive_into(&self, slot: usize) -> Result<(), Error> {
        self.srq.post_recv(RECEIVE | slot as u64, &[self.inbox.slice(slot * MAX_PROBE, MAX_PROBE)?])
    }

    /// A queue pair whose packets have the UDP source port of a path. The port follows from the number of the queue
    /// pair, so queue pairs are made until one fits.
    fn queue_pair(&self, path: u16) -> Result<QueuePair, Error> {
        let wanted = self.pd.device().source_port(path.into());
        let capacities = Capacities { send_wr: 128, recv_wr: 1, ..Capacities::default() };
        let options = QpOptions { capacities, srq: Some(self.srq.clone()), ..QpOptions::new(&self.cq) };
        let options = QpOptions { service: Service::Rc, ..options };
        // Queue pairs that do not fit keep their numbers until then.
        let mut others = Vec::new();
        loop {
            let qp = self.pd.queue_pair(&options)?;
            if qp.address().source_port == Some(wanted) || others.len() >= 4_096 {
                return Ok(qp);
            }
            others.push(qp);
        }
    }

    fn path((timeout, dscp): (Time, u8)) -> PathOptions {
        // A timeout of 4.2 ms: a lost packet is seen as a round trip that is longer by about this.
        PathOptions { timeout: 10, give_up_after: Some(timeout.max(Time::from_ms(1))), dscp, ..PathOptions::default() }
    }

    /// A probe of `len` bytes on a connection is due at `now`. A probe whose connection is not open waits for it.
    ///
    /// # Errors
    /// If the device fails.
    pub fn probe(
        &mut self, carrier: Carrier, key: Key, message: &Message, len: usize, now: Time,
    ) -> Result<Next, Error> {
        if !self.calls.contains_key(&key) {
            if self.calls.len() >= MAX_CALLS {
                return Ok(Next::Full);
            }
            let call = Call { qp: self.queue_pair(key.1)?, accepted: None, asked: None, waiting: Vec::new() };
            self.calls.insert(key, call);
        }
        let Some(call) = self.calls.get_mut(&key) else { return Ok(Next::Full) };
        if let Some(memory) = call.accepted {
            return self.post(carrier, key, memory, message, len, now);
        }
        if call.waiting.len() < 64 {
            call.waiting.push(message.sequence);
        }
        if call.asked.is_some_and(|at| super::prober::since(now, at) < AGAIN) {
            return Ok(Next::Waits);
        }
        call.asked = Some(now);
        let own = call.qp.address();
        let greeting = Greeting {
            qpn: own.qpn,
            psn: own.psn,
            source_port: own.source_port.unwrap_or(0),
            carrier: carrier.code(),
            rkey: 0,
            addr: 0,
        };
        Ok(Next::Connect(greeting.emit(&Message { kind: Kind::Connect, ..*message })))
    }

    fn post(
        &mut self, carrier: Carrier, key: Key, (addr, rkey): (u64, u32), message: &Message, len: usize, now: Time,
    ) -> Result<Next, Error> {
        let (Some(slot), Some(call)) = (self.free.pop(), self.calls.get(&key)) else { return Ok(Next::Full) };
        let gather = self.outbox.write(slot, &message.emit(), len)?;
        let op = match carrier {
            Carrier::RcWrite => SendOp::Write { addr, rkey },
            Carrier::Ud | Carrier::RcSend => SendOp::Send,
        };
        let (data, flags) = (Data::Gather(&gather), SendFlags::SIGNALED);
        let wr_id = CONNECTED | u64::from(self.posted[slot].generation) << 16 | slot as u64;
        match call.qp.post_send(&SendRequest { wr_id, op, data, flags }) {
            Ok(()) => {
                self.posted[slot].probe = Some(Posted { key, sequence: message.sequence, at: now });
                Ok(Next::Posted)
            }
            Err(Error::Verbs(_)) => {
                // Too many probes are not acknowledged, or the connection has ended.
                self.free.push(slot);
                Ok(Next::Full)
            }
            Err(why) => Err(why),
        }
    }

    /// An accept arrived from the responder at `from`. The connection gives up after the time of `path` without an ACK,
    /// and has its DSCP. Returns the probes that have waited for it.
    ///
    /// # Errors
    /// If the device fails.
    pub fn accepted(
        &mut self, key: Key, datagram: &[u8], from: DatagramAddress, path: (Time, u8),
    ) -> Result<Vec<u64>, Error> {
        let (Some(greeting), Some(call)) = (Greeting::parse(datagram), self.calls.get_mut(&key)) else {
            return Ok(Vec::new());
        };
        if call.accepted.is_some() {
            return Ok(Vec::new());
        }
        match call.qp.connect(&greeting.address(from), &Connections::path(path)) {
            Ok(()) => {
                call.accepted = Some((greeting.addr, greeting.rkey));
                Ok(std::mem::take(&mut call.waiting))
            }
            // Numbers that no queue pair can have: the connection does not come about.
            Err(Error::Verbs(_)) => {
                self.end(key);
                Ok(Vec::new())
            }
            Err(why) => Err(why),
        }
    }

    /// A connect arrived in a session of the prober at `from`. Returns the accept to be sent, which is shorter than the
    /// connect; `None` if the connect makes no sense.
    ///
    /// # Errors
    /// If the device fails.
    pub fn serve(
        &mut self, message: &Message, datagram: &[u8], from: DatagramAddress, path: (Time, u8),
    ) -> Result<Option<[u8; GREETING]>, Error> {
        let key = (message.session, message.path);
        let Some(greeting) = Greeting::parse(datagram).filter(|_| datagram.len() >= MIN_PROBE) else { return Ok(None) };
        // A prober that asks again from the same queue pair has not got the answer.
        if self.served.get(&key).is_none_or(|served| served.greeting != greeting) {
            self.served.remove(&key);
            if self.served.len() >= MAX_SERVED {
                // The oldest one has most likely been left by its prober, since source ports change.
                let oldest = self.served.iter().min_by_key(|(_, served)| served.number).map(|(key, _)| *key);
                oldest.map(|key| self.served.remove(&key));
            }
            let qp = self.queue_pair(message.path)?;
            match qp.connect(&greeting.address(from), &Connections::path(path)) {
                Ok(()) => {}
                Err(Error::Verbs(_)) => return Ok(None),
                Err(why) => return Err(why),
            }
            self.opened += 1;
            self.served.insert(key, Served { qp, greeting, number: self.opened });
        }
        let Some(served) = self.served.get(&key) else { return Ok(None) };
        let own = served.qp.address();
        let accept = Greeting {
            qpn: own.qpn,
            psn: own.psn,
            source_port: own.source_port.unwrap_or(0),
            carrier: greeting.carrier,
            rkey: self.scratch.rkey(),
            addr: self.scratch.addr(),
        };
        Ok(Some(accept.emit(&Message { kind: Kind::Accept, ..*message })))
    }

    /// A work request with the bit [`RECEIVE`] has completed.
    ///
    /// # Errors
    /// If the device fails.
    pub fn received(&self, wr_id: u64) -> Result<(), Error> {
        self.receive_into((wr_id & 0xffff) as usize % RECEIVES)
    }

    /// A work request with the bit [`CONNECTED`] has completed, `ok` if it was acknowledged. Returns the probe, unless
    /// its connection is gone.
    pub fn completed(&mut self, wr_id: u64, ok: bool) -> Option<Posted> {
        let at = (wr_id & 0xffff) as usize;
        let slot = self.posted.get_mut(at).filter(|slot| slot.generation == (wr_id >> 16) as u32)?;
        let posted = slot.probe.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(at);
        if !ok {
            // The queue pair is in the error state. The next probe connects anew.
            self.end(posted.key);
        }
        Some(posted)
    }

    /// Ends a connection from here.
    fn end(&mut self, key: Key) {
        self.calls.remove(&key);
        for (at, slot) in self.posted.iter_mut().enumerate() {
            if slot.probe.is_some_and(|probe| probe.key == key) {
                *slot = Slot { generation: slot.generation.wrapping_add(1), probe: None };
                self.free.push(at);
            }
        }
    }

    /// Closes the connections that are not in use: `calls` says which ones from here are, and `serves` which sessions
    /// of others are open.
    pub fn retain(&mut self, calls: impl Fn(Key) -> bool, serves: impl Fn(u64) -> bool) {
        let over: Vec<Key> = self.calls.keys().filter(|key| !calls(**key)).copied().collect();
        over.into_iter().for_each(|key| self.end(key));
        self.served.retain(|(session, _), _| serves(*session));
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
        let greeting =
            Greeting { qpn: 0xabcd, psn: 0x12_3456, source_port: 50_000, carrier: 2, rkey: 7, addr: 1 << 40 };
        let bytes = greeting.emit(&message);
        assert_eq!((Greeting::parse(&bytes), Message::parse(&bytes)), (Some(greeting), Some(message)));
        assert_eq!(Greeting::parse(&bytes[..GREETING - 1]), None);
        assert_eq!(Greeting::parse(&Greeting { carrier: 3, ..greeting }.emit(&message)), None);
        assert_eq!(Greeting::parse(&Greeting { qpn: 1 << 24, ..greeting }.emit(&message)), None);
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(greeting) = Greeting::parse(&bytes) {
                prop_assert!(greeting.qpn < 1 << 24);
            }
        }
    }
}
