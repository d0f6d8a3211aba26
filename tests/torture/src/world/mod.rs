//! A simulated world: hosts with queue pairs to each other execute random operations on random memory, and a simple
//! reference model predicts the results.
//!
//! Each direction of a connection has its own memory at both ends, so the model is that of a sequential program:
//!
//! - `target` at the responder: Writes and atomics change it, Reads fetch from it. The model applies an operation when
//!   it is posted. RDMA executes Writes and atomics in the order of posting, and Reads after earlier Writes. For the
//!   orders that RDMA does not guarantee, the test posts a fence: for a Write or atomic on bytes that an outstanding
//!   Read covers and, with IRN, on bytes that any outstanding operation covers.
//! - receive buffers at the responder, of its own or of a shared receive queue: one for each receive.
//! - `answers` at the requester: one buffer for each outstanding Read.
//!
//! The test checks with each completion that the completion is the oldest possible one, comes only once, raises the
//! notification that was armed, and that the bytes are right. It checks with each failed connection that all
//! outstanding work is flushed in order, and that only bytes that an outstanding operation covers have changed. In the
//! end it checks that all memory equals the model and that no activity remains.

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

/// Number of bytes around a target that no operation may touch.
const GUARD: u64 = 256;
/// Number of buffers for the results of Reads.
const ANSWERS: usize = 8;
/// This bit is set in the work request ids of receives, and clear in those of sends.
const RECEIVE: u64 = 1 << 63;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of all random choices.
    pub seed: u64,
    /// Number of operations to post.
    pub steps: u64,
}

/// The results of a run.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Report {
    /// Operations posted.
    pub posted: u64,
    /// Sends completed successfully.
    pub completed: u64,
    /// Messages received.
    pub received: u64,
    /// Bytes compared with the model.
    pub checked: u64,
    /// Notifications raised.
    pub notified: u64,
    /// Send queues drained.
    pub drained: u64,
    /// Ends of connections that were killed silently.
    pub killed: u64,
    /// Connections that failed and were re-established.
    pub failed: u64,
    /// Work requests flushed by failures.
    pub flushed: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped by the network.
    pub lost: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
    /// Messages that arrived without a posted receive (RNR).
    pub not_ready: u64,
    /// A digest of all events of the run.
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
    /// The armed limit.
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
    /// The bytes that a Read must return, that a message holds, or that a Write or atomic leaves in the target.
    bytes: Vec<u8>,
    after: Vec<u8>,
    /// The index of the buffer for the operation's result.
    answer: Option<usize>,
}

/// A message that was sent and has not been received.
#[derive(Clone, Debug)]
struct Message {
    bytes: Vec<u8>,
    imm: Option<u32>,
    /// For a Write with immediate data, the receive reports only the length.
    write: bool,
    rkey: Option<u32>,
    solicited: bool,
}

/// One direction of a connection: the operations of one end on the memory of the other.
struct Direction {
    service: Service,
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
    /// The target after all posted operations, and below it after the completed ones only.
    model: Vec<u8>,
    base: Vec<u8>,
    pending: VecDeque<Pending>,
    /// Operations that were flushed when the connection failed.
    flushed: Vec<Pending>,
    messages: VecDeque<Message>,
    /// The receive buffers of the queue pair's own receive queue, and the posted receives in order.
    places: Places,
    posted: VecDeque<u64>,
    uses_shared: bool,
    free_answers: Vec<usize>,
    invalidable: Option<MrInfo>,
    /// The send queue is drained and held.
    drained: bool,
    /// The queue pair is in the error state, and its peer does not know.
    dead: bool,
}

/// The whole simulated world.
pub struct World {
    plan: Plan,
    dice: Dice,
    now: Time,
    hosts: Vec<Host>,
    queues: Vec<Queue>,
    directions: Vec<Direction>,
    by_qpn: BTreeMap<(usize, u32), usize>,
    network: Network,
    /// Maximum length of a network partition.
    partition: Time,
    report: Report,
    next_id: u64,
    left: u64,
    /// Number of steps since the virtual time last advanced.
    still: u32,
}

impl World {
    /// Runs the whole plan.
    ///
    /// # Errors
    /// The first violation, with its virtual time.
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

    /// Posts an empty signalled Write; returns false if the send queue has no room yet.
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

    /// Advances the virtual time to the next event; returns false if there is none.
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

    /// Passes the packets of a host to the network.
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
        // The device counts the reasons for refusing a packet.
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

fn seed_of(from: SocketAddr, to: SocketAddr) -> IcrcSeed {
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from_ip), IpAddr::V4(to_ip)) => IcrcSeed::ipv4(from_ip, to_ip, from.port(), to.port()),
        (IpAddr::V6(from_ip), IpAddr::V6(to_ip)) => IcrcSeed::ipv6(from_ip, to_ip, from.port(), to.port()),
        _ => panic!("hosts have addresses of one kind"),
    }
}
