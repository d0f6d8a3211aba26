//! Hosts with queue pairs to each other, random operations on random memory, and a plain model of what must come of them.
//!
//! Each direction of a connection has memory of its own at both ends, so the model is that of one program:
//!
//! - `target` at the responder: Writes and atomics change it, Reads fetch from it. The model applies an operation when it is posted.
//!   What RDMA orders, the model expects: Writes and atomics in order of posting, Reads after earlier Writes. What it does not order
//!   is made so with a fence: a Write or atomic on bytes that an outstanding read covers and, with IRN, on bytes that any outstanding
//!   operation covers.
//! - receives at the responder, own or shared: each has a place of its own.
//! - `answers` at the requester: a place for each outstanding read.
//!
//! Checked with every completion: that it is the oldest that can come, comes once, raises the notification that was asked for, and that
//! the bytes are right then; with every connection that fails: that everything outstanding is flushed in order, and that no byte
//! has changed that no outstanding operation covers; in the end: that all memory equals the model and nothing goes on for ever.

mod build;
mod check;
mod work;

use crate::network::{Dice, Faults, Flight, Network};
use rnic_transport::Time;
use rnic_verbs::{
    Batch, CqId, Device, MrInfo, Notify, Pd, Qpn, SendAttributes, SendOp, Service, SrqId, State, Status, VerbsError,
};
use rnic_wire::IcrcSeed;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Bytes around a target that nobody may touch.
const GUARD: u64 = 256;
/// Places for answers.
const ANSWERS: usize = 8;
/// Numbers of receives have this bit, numbers of sends have not.
const RECEIVE: u64 = 1 << 63;

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Everything random follows from it.
    pub seed: u64,
    /// Operations to post.
    pub steps: u64,
}

/// What came of a run.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Report {
    /// Operations posted.
    pub posted: u64,
    /// Sends completed with success.
    pub completed: u64,
    /// Messages received.
    pub received: u64,
    /// Bytes that were compared with the model.
    pub checked: u64,
    /// Notifications raised as they were asked for.
    pub notified: u64,
    /// Send queues drained.
    pub drained: u64,
    /// Ends of connections that went away in silence.
    pub killed: u64,
    /// Connections that failed and were made anew.
    pub failed: u64,
    /// Work requests flushed by that.
    pub flushed: u64,
    /// Packets that the network was given.
    pub packets: u64,
    /// Packets that the network lost.
    pub lost: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Messages that met no receive.
    pub not_ready: u64,
    /// A number that depends on everything that happened.
    pub digest: u64,
}

impl Report {
    /// The sum of both, and the digest of one after the other.
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
    /// Those that are posted and not completed.
    posted: BTreeSet<u64>,
    /// The limit that was asked for.
    limit: u32,
}

/// Memory for receives, in places of equal size.
struct Places {
    info: MrInfo,
    unit: u64,
    free: Vec<u64>,
}

/// A completion queue, and the notification that was asked for.
struct Queue {
    host: usize,
    id: CqId,
    armed: Option<Notify>,
}

/// An operation that is not completed.
#[derive(Clone, Debug)]
struct Pending {
    wr_id: u64,
    op: SendOp,
    signaled: bool,
    /// Bytes of the target that it covers.
    start: u64,
    len: u64,
    /// What a read must bring, what a message holds, what a Write or atomic leaves in the target.
    bytes: Vec<u8>,
    after: Vec<u8>,
    /// Place for its answer.
    answer: Option<usize>,
}

/// A message that was sent and not received.
#[derive(Clone, Debug)]
struct Message {
    bytes: Vec<u8>,
    imm: Option<u32>,
    /// A Write with immediate data: only its length arrives.
    write: bool,
    rkey: Option<u32>,
    solicited: bool,
}

/// One direction of a connection: what one end asks of the other.
struct Direction {
    service: Service,
    from: usize,
    to: usize,
    qpn: Qpn,
    send_cq: CqId,
    recv_cq: CqId,
    peer: usize,
    mtu: u32,
    /// The longest message.
    unit: u64,
    psn: u32,
    attributes: SendAttributes,
    source: MrInfo,
    answers: MrInfo,
    target: MrInfo,
    /// The target with everything that was posted, and with what is completed alone.
    model: Vec<u8>,
    base: Vec<u8>,
    pending: VecDeque<Pending>,
    /// Operations that failed with the connection.
    flushed: Vec<Pending>,
    messages: VecDeque<Message>,
    /// Receives of its own: their places, and those that are posted, in order.
    places: Places,
    posted: VecDeque<u64>,
    uses_shared: bool,
    free_answers: Vec<usize>,
    invalidable: Option<MrInfo>,
    /// Its send queue is drained, and held.
    drained: bool,
    /// It is in error, and the other end does not know.
    dead: bool,
}

/// Everything.
pub struct World {
    plan: Plan,
    dice: Dice,
    now: Time,
    hosts: Vec<Host>,
    queues: Vec<Queue>,
    directions: Vec<Direction>,
    by_qpn: BTreeMap<(usize, u32), usize>,
    network: Network,
    /// The longest partition.
    partition: Time,
    report: Report,
    next_id: u64,
    left: u64,
    /// Steps since time moved.
    still: u32,
}

impl World {
    /// Runs the whole plan.
    ///
    /// # Errors
    /// What is wrong, with the time of it.
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

    /// The network heals: everything must end.
    fn heal(&mut self) -> Result<(), String> {
        self.network.faults = Faults::NONE;
        self.network.partition = self.now;
        let limit = self.now + Time::from_ms(600_000);
        // One more operation each, signalled: what came before it was not signalled, perhaps.
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

    /// Nothing is outstanding, and all memory equals the model.
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

    /// Posts an empty Write with a completion; `false` if there is no room for it yet.
    fn finish(&mut self, at: usize) -> Result<bool, String> {
        self.resume(at)?;
        let direction = &mut self.directions[at];
        if direction.dead {
            // Its peer's last operation fails, and both begin again.
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

    /// The next thing happens; `false` if nothing will.
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
            self.arrive(&flight);
        }
        for at in 0..self.hosts.len() {
            let now = self.now;
            self.hosts[at].device.on_time(now);
            self.drain(at);
        }
        self.look()?;
        Ok(true)
    }

    /// What a host has to send goes into the network.
    fn drain(&mut self, at: usize) {
        for _ in 0..4 {
            let host = &mut self.hosts[at];
            if !host.device.transmit(self.now, &mut host.batch) {
                return;
            }
            let Some(to) = host.batch.destination() else { return };
            let (from, peer) = (host.addr, to.peer);
            let seed = seed_of(from, peer);
            let Some(to) = self.hosts.iter().position(|host| host.addr == peer) else { return };
            for packet in self.hosts[at].batch.packets_mut() {
                let end = packet.len() - rnic_wire::ICRC_LEN;
                let icrc = seed.icrc(0, &packet[..end]);
                packet[end..].copy_from_slice(&icrc.to_le_bytes());
                let bytes = packet.to_vec();
                self.network.send(self.now, Flight { from: at, to, marked: false, bytes });
            }
        }
    }

    fn arrive(&mut self, flight: &Flight) {
        let (from, to) = (self.hosts[flight.from].addr, self.hosts[flight.to].addr);
        self.mix(flight.bytes.len() as u64);
        if !seed_of(from, to).check(0, &flight.bytes) {
            return;
        }
        // Why a packet was not taken is counted there.
        let _ = self.hosts[flight.to].device.receive(self.now, from, flight.marked, &flight.bytes);
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

    /// How its connection may fail: where the peer can be silent, or without a receive, for too long.
    fn may_fail_with(&self, status: Status) -> bool {
        match status {
            Status::TransportRetryExceeded => true,
            Status::RnrRetryExceeded => self.attributes.rnr_retry < 7,
            _ => false,
        }
    }
}

/// The eight bytes at `at` as the host sees them.
fn word(bytes: &[u8], at: u64) -> u64 {
    let mut word = [0; 8];
    let at = (at as usize).min(bytes.len() - 8);
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

fn seed_of(from: SocketAddr, to: SocketAddr) -> IcrcSeed {
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from_ip), IpAddr::V4(to_ip)) => IcrcSeed::ipv4(from_ip, to_ip, from.port(), to.port()),
        (IpAddr::V6(from_ip), IpAddr::V6(to_ip)) => IcrcSeed::ipv6(from_ip, to_ip, from.port(), to.port()),
        _ => panic!("hosts have addresses of one kind"),
    }
}
