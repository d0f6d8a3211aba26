//! A simulated world: hosts with queue pairs to each other execute random operations on random memory, and a simple
//! reference model predicts the results.
//!
//! Each direction of a connection has its own memory at both ends, so the model is that of a sequential program:
//!
//! - `target` at the responder: Writes and atomics change it, Reads fetch from it. The model applies an operation when
//!   it is posted. RDMA executes Writes and atomics in the order of posting, and Reads after earlier Writes. For the
//!   orders that RDMA does not guarantee, the test posts a fence: for a Write or atomic on bytes that an outstanding
//!   Read covers and, with IRN, on bytes that any outstanding operation covers.
//! - The receive buffers at the responder belong to the queue pair's own receive queue or to a shared one. Each receive
//!   has its own buffer.
//! - `answers` at the requester holds one buffer for the result of each outstanding Read or atomic.
//!
//! For each completion, the test checks that it belongs to the oldest work request that may complete, that it comes
//! only once, that it raises the armed notification, and that the bytes in memory are right. For each failed
//! connection, it checks that all outstanding work is flushed in order, and that only bytes covered by an outstanding
//! operation have changed. At the end of the run, it checks that all memory equals the model and that nothing is
//! outstanding.

mod attack;
mod build;
mod check;
mod work;

use crate::network::{Dice, Faults, Flight, Network, is_intact, seal};
use attack::Attacker;
use rnic_endpoint::secure::{OpenError, Protection, Session};
use rnic_transport::Time;
use rnic_verbs::{
    Batch, CqId, Device, MrInfo, Notify, Pd, Qpn, SendAttributes, SendOp, Service, SrqId, State, Status, VerbsError,
};
use rnic_wire::ProtectedHeader;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// Number of bytes before and after the memory of a target that no operation may change. The test checks that they stay
/// zero.
const GUARD: u64 = 256;
/// Number of buffers for the results of Reads and atomics in each direction.
const ANSWERS: usize = 8;
/// This bit is set in the work request ids of receives, and clear in those of sends.
const RECEIVE: u64 = 1 << 63;

/// How the packets of a world's connections are protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packets {
    /// Plain RoCEv2 packets with an ICRC.
    Plain,
    /// Each connection is authenticated or encrypted. Half of them change their keys after a few packets.
    Protected,
    /// As [`Packets::Protected`], and an attacker shows altered, forged and repeated packets to the hosts. They must
    /// change nothing, so the report must equal that of the same world without the attacker.
    Attacked,
}

/// The parameters of a run of one world.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of all random choices.
    pub seed: u64,
    /// Number of operations to post.
    pub steps: u64,
    /// How packets are protected. The other choices of the world do not depend on it.
    pub packets: Packets,
}

/// The results of a run: counts and a digest.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Report {
    /// Number of operations posted.
    pub posted: u64,
    /// Number of send requests completed successfully.
    pub completed: u64,
    /// Number of messages received.
    pub received: u64,
    /// Number of bytes compared with the model.
    pub checked: u64,
    /// Number of completion notifications raised.
    pub notified: u64,
    /// Number of times that a send queue was drained.
    pub drained: u64,
    /// Number of times that one end of a connection entered the error state without its peer being told.
    pub killed: u64,
    /// Number of connections that failed and were set up again.
    pub failed: u64,
    /// Number of work requests flushed after failures.
    pub flushed: u64,
    /// Number of packets sent.
    pub packets: u64,
    /// Number of packets that the network dropped.
    pub lost: u64,
    /// Number of packets that requesters retransmitted.
    pub retransmitted: u64,
    /// Number of RNR NAKs received: a message arrived while no receive was posted.
    pub not_ready: u64,
    /// Number of packets whose tag was wrong: the network had corrupted them, or they belonged to an old connection.
    pub forged: u64,
    /// Number of protected packets that arrived again.
    pub replayed: u64,
    /// Number of packets that were sealed with another key than the first one of their connection.
    pub later_keys: u64,
    /// Number of packets that the attacker showed to hosts.
    pub hostile: u64,
    /// Digest of all events of the run, to show that two runs with one seed are equal.
    pub digest: u64,
}

impl Report {
    /// Returns the sum of two reports, with a digest of both digests in this order.
    pub fn plus(self, other: Report) -> Report {
        Report {
            posted: self.posted + other.posted,
            completed: self.completed + other.completed,
            received: self.received + other.received,
            checked: self.checked + other.checked,
            notified: self.notified + other.notified,
            drained: self.drained + other.drained,
            killed: self.killed + other.killed,
            failed: self.failed + other.failed,
            flushed: self.flushed + other.flushed,
            packets: self.packets + other.packets,
            lost: self.lost + other.lost,
            retransmitted: self.retransmitted + other.retransmitted,
            not_ready: self.not_ready + other.not_ready,
            forged: self.forged + other.forged,
            replayed: self.replayed + other.replayed,
            later_keys: self.later_keys + other.later_keys,
            hostile: self.hostile + other.hostile,
            digest: self.digest.rotate_left(7) ^ other.digest,
        }
    }
}

struct Host {
    device: Device,
    pd: Pd,
    batch: Batch,
    addr: SocketAddr,
    shared: Option<Shared>,
}

/// A host's shared receive queue.
struct Shared {
    srq: SrqId,
    places: Places,
    /// The receives that are posted and not completed.
    posted: BTreeSet<u64>,
    /// The limit for which the queue's limit event is armed; 0 if it is not armed.
    limit: u32,
}

/// Memory for receives: buffers of equal size.
struct Places {
    info: MrInfo,
    unit: u64,
    free: Vec<u64>,
}

/// A completion queue, and its armed notification.
struct Queue {
    host: usize,
    id: CqId,
    armed: Option<Notify>,
}

/// An operation that has not completed.
#[derive(Clone, Debug)]
struct Pending {
    wr_id: u64,
    op: SendOp,
    signaled: bool,
    /// First byte of the target that the operation covers.
    start: u64,
    len: u64,
    /// The bytes that a Read or atomic must return, or the data of a message or Write.
    bytes: Vec<u8>,
    /// The bytes that a Write or atomic leaves in the target; empty for other operations.
    after: Vec<u8>,
    /// The index of the buffer in `answers` for the operation's result; `None` if it has no result.
    answer: Option<usize>,
}

/// A message that was sent and has not been received.
#[derive(Clone, Debug)]
struct Message {
    bytes: Vec<u8>,
    imm: Option<u32>,
    /// Whether this is a Write with immediate data. Its receive reports only the length and the immediate data, and its
    /// buffer stays unused.
    write: bool,
    rkey: Option<u32>,
    solicited: bool,
}

/// One direction of a connection: the operations of one end on the memory of the other.
struct Direction {
    service: Service,
    /// Protection of the connection's packets.
    protection: Option<Protection>,
    from: usize,
    to: usize,
    qpn: Qpn,
    send_cq: CqId,
    recv_cq: CqId,
    peer: usize,
    mtu: u32,
    /// Maximum length of a message.
    unit: u64,
    psn: u32,
    attributes: SendAttributes,
    source: MrInfo,
    answers: MrInfo,
    target: MrInfo,
    /// The expected bytes of the target after all posted operations.
    model: Vec<u8>,
    /// The expected bytes of the target after the completed operations only.
    base: Vec<u8>,
    pending: VecDeque<Pending>,
    /// Operations that were flushed when the connection failed.
    flushed: Vec<Pending>,
    messages: VecDeque<Message>,
    /// The receive buffers of the queue pair's own receive queue.
    places: Places,
    /// The receives that are posted to the queue pair's own receive queue, oldest first.
    posted: VecDeque<u64>,
    uses_shared: bool,
    free_answers: Vec<usize>,
    invalidable: Option<MrInfo>,
    /// Whether the send queue is drained, and not yet resumed.
    drained: bool,
    /// Whether the queue pair is in the error state while its peer does not know it yet.
    dead: bool,
}

/// A simulated world: hosts, the network between them, and the reference model of each direction of each connection.
pub struct World {
    plan: Plan,
    dice: Dice,
    now: Time,
    hosts: Vec<Host>,
    queues: Vec<Queue>,
    directions: Vec<Direction>,
    by_qpn: BTreeMap<(usize, u32), usize>,
    /// The keys of the protected connections, by host and queue pair number.
    sessions: BTreeMap<(usize, u32), Session>,
    /// Choices about protection, apart from `dice`, so that a seed gives the same world with and without protection.
    secure_dice: Dice,
    attacker: Option<Attacker>,
    /// Buffer for decrypted packets.
    plain: Vec<u8>,
    network: Network,
    /// Maximum length of a network partition.
    partition: Time,
    report: Report,
    next_id: u64,
    left: u64,
    /// Number of steps since the virtual time last advanced.
    still: u32,
}

/// What became of a packet at its destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Passed {
    /// The packet was not authentic.
    Forged,
    /// The packet was received before.
    Replayed,
    /// The ICRC was wrong, or the device dropped the packet.
    Dropped,
    Processed,
}

impl World {
    /// Runs the whole plan.
    ///
    /// # Errors
    /// The description of the first violation, with its virtual time.
    pub fn run(mut self) -> Result<Report, String> {
        let seed = self.plan.seed;
        self.play().map_err(|what| format!("seed {seed}, at {} us: {what}", self.now.as_ps() / 1_000_000))?;
        for host in &self.hosts {
            let counters = host.device.counters();
            self.report.retransmitted += counters.retransmitted;
            self.report.not_ready += counters.rnr_naks_received;
        }
        self.report.packets = self.network.damage.packets;
        self.report.lost = self.network.damage.lost;
        Ok(self.report)
    }

    fn play(&mut self) -> Result<(), String> {
        while self.left > 0 {
            if self.dice.chance(1) {
                self.network.partition = self.now + Time::from_ps(self.dice.below(self.partition.as_ps()));
            }
            for _ in 0..self.dice.within(1, 6) {
                self.act()?;
            }
            for _ in 0..self.dice.within(1, 12) {
                self.advance()?;
            }
        }
        self.heal()?;
        self.settle()
    }

    /// Ends all network faults; then all outstanding work must complete.
    fn heal(&mut self) -> Result<(), String> {
        self.network.faults = Faults::NONE;
        self.network.partition = self.now;
        let limit = self.now + Time::from_ms(600_000);
        // Each direction posts one more signalled operation, because earlier operations may be unsignalled.
        let mut idle = 0;
        let mut last: Vec<usize> = (0..self.directions.len()).collect();
        loop {
            let mut unfinished = Vec::new();
            for at in last {
                if !self.finish(at)? {
                    unfinished.push(at);
                }
            }
            last = unfinished;
            for at in 0..self.directions.len() {
                self.refill(at)?;
            }
            let moved = self.advance()?;
            if !moved && last.is_empty() {
                return Ok(());
            }
            idle = if moved { 0 } else { idle + 1 };
            if self.now > limit || idle > 100 {
                return Err("it never comes to rest".into());
            }
        }
    }

    /// Checks that no work is outstanding, and that all memory equals the model.
    fn settle(&mut self) -> Result<(), String> {
        for (at, direction) in self.directions.iter().enumerate() {
            if let Some(first) = direction.pending.front() {
                return Err(format!("direction {at} ({:?}): {first:?} never completes", direction.service));
            }
            if direction.service != Service::Uc && !direction.messages.is_empty() {
                return Err(format!("direction {at}: {} messages never arrive", direction.messages.len()));
            }
        }
        for at in 0..self.directions.len() {
            let whole = self.directions[at].model.len() as u64;
            self.compare(at, 0, whole)?;
        }
        for host in &self.hosts {
            if let Some(shared) = &host.shared
                && (shared.posted.len() as u32) < shared.limit
            {
                return Err(format!(
                    "{} receives are posted, an event should have come below {}",
                    shared.posted.len(),
                    shared.limit
                ));
            }
        }
        Ok(())
    }

    /// Posts an empty signalled Write as the last operation of direction `at`. Returns `false` if the send queue has no
    /// room yet.
    fn finish(&mut self, at: usize) -> Result<bool, String> {
        self.resume(at)?;
        let direction = &mut self.directions[at];
        if direction.dead {
            // The last operation of the peer fails, and both ends reconnect.
            return Ok(true);
        }
        if direction.state(&self.hosts) != Ok(State::ReadyToSend) {
            return Ok(false);
        }
        let op = SendOp::Write { addr: direction.target.addr, rkey: direction.target.rkey };
        let wr_id = self.next_id;
        let flags = rnic_verbs::SendFlags { signaled: true, solicited: false, fence: true };
        let request = rnic_verbs::SendRequest { wr_id, op, data: rnic_verbs::Data::Inline(&[]), flags };
        match self.hosts[direction.from].device.post_send(direction.qpn, &request) {
            Ok(()) => {}
            Err(VerbsError::Full(_)) => return Ok(false),
            Err(why) => return Err(format!("post {op:?}: {why}")),
        }
        self.next_id += 1;
        let (bytes, after) = (Vec::new(), Vec::new());
        direction.pending.push_back(Pending {
            wr_id,
            op,
            signaled: true,
            start: 0,
            len: 0,
            bytes,
            after,
            answer: None,
        });
        Ok(true)
    }

    /// Advances the virtual time to the next event, processes it, and checks completions. Returns `false` if there is
    /// no event.
    fn advance(&mut self) -> Result<bool, String> {
        for at in 0..self.hosts.len() {
            self.drain(at);
        }
        let mut next = self.network.next();
        for host in &self.hosts {
            if let Some(time) = host.device.next_time(&host.batch) {
                next = Some(next.map_or(time, |next| next.min(time)));
            }
        }
        let Some(next) = next else {
            self.look()?;
            return Ok(false);
        };
        self.still = if next > self.now { 0 } else { self.still + 1 };
        if self.still > 100_000 {
            return Err("time stands still".into());
        }
        self.now = self.now.max(next);
        while self.network.next().is_some_and(|at| at <= self.now) {
            let Some(flight) = self.network.deliver() else { break };
            self.arrive(&flight)?;
        }
        for at in 0..self.hosts.len() {
            let now = self.now;
            self.hosts[at].device.on_time(now);
            self.drain(at);
        }
        self.look()?;
        Ok(true)
    }

    /// Passes the packets that host `at` has to send to the network.
    fn drain(&mut self, at: usize) {
        for _ in 0..4 {
            let host = &mut self.hosts[at];
            if !host.device.transmit(self.now, &mut host.batch) {
                return;
            }
            let Some(to) = host.batch.destination() else { return };
            let (from, peer) = (host.addr, to.peer);
            let Some(to) = self.hosts.iter().position(|host| host.addr == peer) else { return };
            let batch = &mut self.hosts[at].batch;
            let Some(of) = batch.destination() else { return };
            for packet in batch.datagrams_mut() {
                if of.protected {
                    // A destroyed queue pair has no keys, and its last packets are not sent.
                    let Some(session) = self.sessions.get_mut(&(at, of.qpn.0)) else { break };
                    self.report.later_keys += u64::from(session.sealer.next() >= rnic_endpoint::secure::EPOCH);
                    session.sealer.seal(packet).unwrap_or_else(|why| panic!("{why}"));
                } else {
                    seal(from, peer, packet);
                }
                let bytes = packet.to_vec();
                self.network.send(self.now, Flight { from: at, to, marked: false, bytes });
            }
        }
    }

    fn arrive(&mut self, flight: &Flight) -> Result<(), String> {
        self.attack(flight)?;
        self.mix(flight.bytes.len() as u64);
        match self.pass(flight) {
            Passed::Forged => self.report.forged += 1,
            Passed::Replayed => self.report.replayed += 1,
            Passed::Dropped | Passed::Processed => {}
        }
        Ok(())
    }

    /// Passes a packet to its host as a driver does: checks its ICRC or opens it, and hands it to the device.
    fn pass(&mut self, flight: &Flight) -> Passed {
        let (from, to) = (self.hosts[flight.from].addr, self.hosts[flight.to].addr);
        let Flight { marked, ref bytes, .. } = *flight;
        let device = &mut self.hosts[flight.to].device;
        // The device counts the reasons for refusing a packet.
        let received = if ProtectedHeader::begins(bytes) {
            let session =
                ProtectedHeader::parse(bytes).and_then(|header| self.sessions.get_mut(&(flight.to, header.dest_qp)));
            let opened = session.ok_or(OpenError::NotProtected).and_then(|to| to.opener.open(bytes, &mut self.plain));
            match opened {
                Ok(packets) => {
                    let mut result = Ok(());
                    for packet in packets {
                        result = result.and(device.receive_protected(self.now, from, marked, packet));
                    }
                    result
                }
                Err(OpenError::Replayed) => return Passed::Replayed,
                Err(OpenError::Forged | OpenError::NotProtected) => return Passed::Forged,
            }
        } else if is_intact(from, to, bytes) {
            device.receive(self.now, from, marked, bytes)
        } else {
            return Passed::Dropped;
        };
        if received.is_ok() { Passed::Processed } else { Passed::Dropped }
    }

    fn mix(&mut self, value: u64) {
        self.report.digest =
            (self.report.digest ^ value ^ self.now.as_ps()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }
}

impl Direction {
    fn state(&self, hosts: &[Host]) -> Result<State, VerbsError> {
        hosts[self.from].device.state(self.qpn)
    }

    /// Whether the connection may fail with this status, because its peer can be silent, or without a receive, for too
    /// long.
    fn may_fail_with(&self, status: Status) -> bool {
        match status {
            Status::TransportRetryExceeded => true,
            Status::RnrRetryExceeded => self.attributes.rnr_retry < 7,
            _ => false,
        }
    }
}

/// Returns the eight bytes at `at` in the host's byte order.
fn word(bytes: &[u8], at: u64) -> u64 {
    let mut word = [0; 8];
    let at = (at as usize).min(bytes.len() - 8);
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}
