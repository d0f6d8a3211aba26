//! Hosts with queue pairs to each other, random operations on random memory, and a plain model of what must come of them.
//!
//! Each direction of a connection has memory of its own at both ends, so the model is that of one program:
//!
//! - `target` at the responder: Writes and atomics change it, Reads fetch from it. The model applies an operation when it is posted.
//!   What RDMA orders, the model expects: Writes and atomics in order of posting, Reads after earlier Writes. What it does not order
//!   is made so with a fence: a Write or atomic on bytes that an outstanding read covers and, with IRN, on bytes that any outstanding
//!   operation covers.
//! - receives at the responder: each has a place of its own.
//! - `answers` at the requester: a place for each outstanding read.
//!
//! Checked with every completion: that it is the oldest that can come, comes once, and that the bytes are right then; with every
//! connection that fails: that everything outstanding is flushed in order; in the end: that all memory equals the model.

use crate::network::{Dice, Faults, Flight, Network};
use rnic_transport::Time;
use rnic_verbs::{
    Access, Batch, Capacities, Completion, Congestion, Connection, CqId, Data, Device, DeviceConfig, Event, MrInfo,
    Opcode, Pd, QpInit, Qpn, RecvRequest, SendAttributes, SendFlags, SendOp, SendRequest, Service, Sge, State, Status,
    VerbsError,
};
use rnic_wire::IcrcSeed;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Bytes of a connection's target, answers and receives.
const TARGET: u64 = 16_384;
const ANSWERS: usize = 8;
const ANSWER: u64 = 6_000;
const RECEIVES: u64 = 16;
const RECEIVE: u64 = 5_000;
const GUARD: u64 = 256;

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
    /// Connections that failed and were made anew.
    pub failed: u64,
    /// Work requests flushed by that.
    pub flushed: u64,
    /// Packets that the network was given, and that it lost.
    pub packets: u64,
    /// Packets that the network lost.
    pub lost: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// A number that depends on everything that happened.
    pub digest: u64,
}

struct Host {
    device: Device,
    pd: Pd,
    batch: Batch,
    addr: SocketAddr,
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
    /// What a read must bring, what a message holds.
    bytes: Vec<u8>,
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
    source: MrInfo,
    answers: MrInfo,
    target: MrInfo,
    receives: MrInfo,
    model: Vec<u8>,
    pending: VecDeque<Pending>,
    messages: VecDeque<Message>,
    /// Receives posted, in order: their places.
    posted: VecDeque<u64>,
    free: Vec<u64>,
    free_answers: Vec<usize>,
    /// UC loses: the target is not compared.
    mtu: u32,
    invalidable: Option<MrInfo>,
}

/// Everything.
pub struct World {
    plan: Plan,
    dice: Dice,
    now: Time,
    hosts: Vec<Host>,
    directions: Vec<Direction>,
    by_qpn: BTreeMap<(usize, u32), usize>,
    network: Network,
    report: Report,
    next_id: u64,
    left: u64,
}

impl World {
    /// A world that follows from the plan's seed.
    pub fn new(plan: Plan) -> World {
        let mut dice = Dice::new(plan.seed);
        let faults = Faults::random(&mut dice);
        let names = ["none", "dcqcn", "timely", "dctcp", "aimd"];
        let congestion = Congestion::named(names[dice.below(5) as usize]).unwrap_or_else(|| unreachable!());
        let count = dice.within(2, 3) as usize;
        let in_flight = [4, 16, 64, 256][dice.below(4) as usize];
        let hosts = (0..count)
            .map(|at| {
                let config = DeviceConfig {
                    seed: dice.word(),
                    in_flight,
                    congestion: congestion.clone(),
                    base_rtt: Time::from_us(10),
                    ..DeviceConfig::default()
                };
                let mut device = Device::new(config);
                let pd = device.create_pd();
                let most = 1 + dice.below(16) as usize;
                let addr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, at as u8 + 1)), rnic_wire::ROCE_PORT);
                Host { device, pd, batch: Batch::new(most), addr }
            })
            .collect();
        let network = Network::new(faults, dice.word());
        let left = plan.steps;
        let mut world = World {
            plan,
            dice,
            now: Time::from_us(1),
            hosts,
            directions: Vec::new(),
            by_qpn: BTreeMap::new(),
            network,
            report: Report::default(),
            next_id: 0,
            left,
        };
        for _ in 0..world.dice.within(1, 4) {
            let service = [Service::Rc, Service::Irn, Service::Irn, Service::Uc][world.dice.below(4) as usize];
            let a = world.dice.below(count as u64) as usize;
            let b = (a + 1 + world.dice.below(count as u64 - 1) as usize) % count;
            world.connect(service, a, b);
        }
        world
    }

    fn connect(&mut self, service: Service, a: usize, b: usize) {
        let mtu = 256 << self.dice.below(3);
        let first = self.end(service, a, b, mtu);
        let second = self.end(service, b, a, mtu);
        let at = self.directions.len();
        self.directions.push(first);
        self.directions.push(second);
        self.directions[at].peer = at + 1;
        self.directions[at + 1].peer = at;
        self.join(at);
    }

    fn register(&mut self, host: usize, len: u64, access: Access) -> MrInfo {
        let Host { device, pd, .. } = &mut self.hosts[host];
        let bytes = vec![0; len as usize];
        device.register(*pd, bytes, None, access).unwrap_or_else(|why| panic!("register: {why}"))
    }

    /// A queue pair at `from`, and the memory of the direction from there to `to`.
    fn end(&mut self, service: Service, from: usize, to: usize, mtu: u32) -> Direction {
        let source = self.register(from, TARGET, Access::LOCAL_READ);
        let answers = self.register(from, ANSWERS as u64 * ANSWER, Access::LOCAL);
        let target = self.register(to, TARGET + 2 * GUARD, Access::ALL);
        let receives = self.register(from, RECEIVES * RECEIVE, Access::LOCAL);
        let noise: Vec<u8> = (0..TARGET).map(|_| self.dice.word() as u8).collect();
        let Host { device, pd, .. } = &mut self.hosts[from];
        if let Some(bytes) = device.bytes_mut(source.id) {
            bytes.copy_from_slice(&noise);
        }
        let send_cq = device.create_cq(256).unwrap_or_else(|why| panic!("{why}"));
        let recv_cq = device.create_cq(256).unwrap_or_else(|why| panic!("{why}"));
        let capacities = Capacities { send_wr: 24, recv_wr: RECEIVES as u32, ..Capacities::default() };
        let init = QpInit { service, send_cq, recv_cq, srq: None, capacities, signal_all: false };
        let qpn = device.create_qp(*pd, init).unwrap_or_else(|why| panic!("{why}"));
        self.by_qpn.insert((from, qpn.0), self.directions.len());
        Direction {
            service,
            from,
            to,
            qpn,
            send_cq,
            recv_cq,
            peer: 0,
            source,
            answers,
            target,
            receives,
            model: vec![0; (TARGET + 2 * GUARD) as usize],
            pending: VecDeque::new(),
            messages: VecDeque::new(),
            posted: VecDeque::new(),
            free: (0..RECEIVES).collect(),
            free_answers: (0..ANSWERS).collect(),
            mtu,
            invalidable: None,
        }
    }

    /// Brings both ends of a connection from RESET to RTS.
    fn join(&mut self, at: usize) {
        let psns = [self.dice.word() as u32 & 0xff_ffff, self.dice.word() as u32 & 0xff_ffff];
        let most = self.dice.within(1, 8) as u8;
        let rnr = self.dice.within(1, 12) as u8;
        for (end, other, mine, theirs) in [(at, at + 1, psns[0], psns[1]), (at + 1, at, psns[1], psns[0])] {
            let (peer_qpn, peer) = (self.directions[other].qpn, self.hosts[self.directions[other].from].addr);
            let direction = &self.directions[end];
            let (qpn, path_mtu) = (direction.qpn, direction.mtu);
            let device = &mut self.hosts[direction.from].device;
            let connection = Connection {
                peer,
                peer_qpn,
                path_mtu,
                recv_psn: theirs,
                max_dest_rd_atomic: most,
                min_rnr_timer: rnr,
                dscp: 0,
            };
            let attributes =
                SendAttributes { send_psn: mine, timeout: 8, retry_count: 7, rnr_retry: 7, max_rd_atomic: most };
            let done = device
                .to_init(qpn, Access::ALL)
                .and_then(|()| device.to_rtr(qpn, connection, self.now))
                .and_then(|()| device.to_rts(qpn, attributes, self.now));
            done.unwrap_or_else(|why| panic!("{why}"));
        }
    }

    /// Runs the whole plan.
    ///
    /// # Errors
    /// What is wrong, with the time of it.
    pub fn run(mut self) -> Result<Report, String> {
        let seed = self.plan.seed;
        self.play().map_err(|what| format!("seed {seed}, at {} us: {what}", self.now.as_ps() / 1_000_000))?;
        for host in &self.hosts {
            self.report.retransmitted += host.device.counters().retransmitted;
        }
        self.report.packets = self.network.damage.packets;
        self.report.lost = self.network.damage.lost;
        Ok(self.report)
    }

    fn play(&mut self) -> Result<(), String> {
        while self.left > 0 {
            if self.dice.chance(1) {
                self.network.partition = self.now + Time::from_us(self.dice.below(3_000));
            }
            for _ in 0..self.dice.within(1, 6) {
                self.post()?;
            }
            for _ in 0..self.dice.within(1, 12) {
                self.advance()?;
            }
        }
        // The network heals: everything must end.
        self.network.faults = Faults::NONE;
        self.network.partition = self.now;
        let limit = self.now + Time::from_ms(60_000);
        // One more operation each, signalled: what came before it was not signalled, perhaps.
        let mut last: Vec<usize> = (0..self.directions.len()).collect();
        loop {
            let mut still = Vec::new();
            for at in last {
                if !self.finish(at)? {
                    still.push(at);
                }
            }
            last = still;
            for at in 0..self.directions.len() {
                self.refill(at)?;
            }
            if !self.advance()? || self.now > limit {
                break;
            }
        }
        for (at, direction) in self.directions.iter().enumerate() {
            if let Some(first) = direction.pending.front() {
                return Err(format!("direction {at} ({:?}): {first:?} never completes", direction.service));
            }
            if direction.service != Service::Uc && !direction.messages.is_empty() {
                return Err(format!("direction {at}: {} messages never arrive", direction.messages.len()));
            }
        }
        for at in 0..self.directions.len() {
            self.compare(at, 0, TARGET + 2 * GUARD)?;
        }
        Ok(())
    }

    /// Posts an empty Write with a completion; `false` if there is no room for it yet.
    fn finish(&mut self, at: usize) -> Result<bool, String> {
        let direction = &mut self.directions[at];
        let op = SendOp::Write { addr: direction.target.addr, rkey: direction.target.rkey };
        let wr_id = self.next_id;
        let flags = SendFlags { signaled: true, solicited: false, fence: true };
        let request = SendRequest { wr_id, op, data: Data::Inline(&[]), flags };
        match self.hosts[direction.from].device.post_send(direction.qpn, &request) {
            Ok(()) => {}
            Err(VerbsError::Full(_)) => return Ok(false),
            Err(why) => return Err(format!("post {op:?}: {why}")),
        }
        self.next_id += 1;
        let pending = Pending { wr_id, op, signaled: true, start: 0, len: 0, bytes: Vec::new(), answer: None };
        direction.pending.push_back(pending);
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

    /// Takes completions and events.
    fn look(&mut self) -> Result<(), String> {
        for at in 0..self.directions.len() {
            self.poll(at)?;
        }
        self.events()
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

    /// Posts receives where there is room for them.
    fn refill(&mut self, at: usize) -> Result<(), String> {
        while let Some(place) = self.directions[at].free.pop() {
            let direction = &mut self.directions[at];
            let start = direction.receives.addr + place * RECEIVE;
            let scatter = [
                Sge { addr: start, len: 1_000, lkey: direction.receives.lkey },
                Sge { addr: start + 1_000, len: RECEIVE as u32 - 1_000, lkey: direction.receives.lkey },
            ];
            let request = RecvRequest { wr_id: place, scatter: &scatter };
            self.hosts[direction.from].device.post_recv(direction.qpn, &request).map_err(|why| why.to_string())?;
            direction.posted.push_back(place);
        }
        Ok(())
    }

    /// Posts something somewhere.
    fn post(&mut self) -> Result<(), String> {
        let at = self.dice.below(self.directions.len() as u64) as usize;
        if self.dice.chance(300) {
            return self.refill(at);
        }
        if self.left == 0
            || self.hosts[self.directions[at].from].device.state(self.directions[at].qpn) != Ok(State::ReadyToSend)
        {
            return Ok(());
        }
        let uc = self.directions[at].service == Service::Uc;
        let kind = if uc { [0, 1, 3, 4][self.dice.below(4) as usize] } else { self.dice.below(8) };
        let fetching = matches!(kind, 5..=7);
        if fetching && self.directions[at].free_answers.is_empty() {
            return Ok(());
        }
        let long = self.dice.chance(200);
        let most = if long { 4_800 } else { 600 };
        let mut len = self.dice.below(most + 1);
        let mut start = GUARD + self.dice.below(TARGET - len + 1);
        if kind >= 6 {
            (start, len) = (start.min(GUARD + TARGET - 8) & !7, 8);
        }
        let direction = &self.directions[at];
        let (addr, rkey) = (direction.target.addr + start, direction.target.rkey);
        let value = self.dice.word();
        let imm = value as u32;
        // A comparison that holds, mostly.
        let there = word(&direction.model, start);
        let compare = if self.dice.chance(700) { there } else { value };
        let mut op = match kind {
            0 => SendOp::Send,
            1 => SendOp::SendImm(imm),
            2 => SendOp::SendInv(0),
            3 => SendOp::Write { addr, rkey },
            4 => SendOp::WriteImm { addr, rkey, imm },
            5 => SendOp::Read { addr, rkey },
            6 => SendOp::FetchAdd { addr, rkey, add: value },
            _ => SendOp::CompareSwap { addr, rkey, compare, swap: value },
        };
        if let SendOp::SendInv(_) = op {
            // A region at the peer of which nobody makes use, registered for this.
            let info = match self.directions[at].invalidable {
                Some(info) => info,
                None => self.register(self.directions[at].to, 64, Access::ALL),
            };
            self.directions[at].invalidable = Some(info);
            op = SendOp::SendInv(info.rkey);
        }
        self.post_op(at, op, start, len)
    }

    fn post_op(&mut self, at: usize, op: SendOp, start: u64, len: u64) -> Result<(), String> {
        let targets = !matches!(op, SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_));
        let changes = targets && !matches!(op, SendOp::Read { .. });
        let from_source = self.dice.below(TARGET - len + 1);
        let inline = !op.is_fetching() && len <= 200 && self.dice.chance(300);
        let signaled = self.dice.chance(800);
        let solicited = self.dice.chance(100);
        let split = self.dice.below(len + 1);
        let wr_id = self.next_id;
        let direction = &mut self.directions[at];
        let irn = direction.service == Service::Irn;
        let fence = changes
            && direction.pending.iter().any(|other| {
                let overlaps = start < other.start + other.len && other.start < start + len;
                overlaps && (irn || other.op.is_fetching())
            })
            || self.dice.chance(30);
        let device = &mut self.hosts[direction.from].device;
        let source = device.bytes(direction.source.id).unwrap_or_default();
        let data = source[from_source as usize..(from_source + len) as usize].to_vec();
        let answer = if op.is_fetching() { direction.free_answers.last().copied() } else { None };
        let (base, lkey) = match answer {
            Some(answer) => (direction.answers.addr + answer as u64 * ANSWER, direction.answers.lkey),
            None => (direction.source.addr + from_source, direction.source.lkey),
        };
        let sges =
            [Sge { addr: base, len: split as u32, lkey }, Sge { addr: base + split, len: (len - split) as u32, lkey }];
        let local = if inline { Data::Inline(&data) } else { Data::Gather(&sges) };
        let flags = SendFlags { signaled, solicited, fence };
        match device.post_send(direction.qpn, &SendRequest { wr_id, op, data: local, flags }) {
            Ok(()) => {}
            Err(VerbsError::Full(_)) => return Ok(()),
            Err(why) => return Err(format!("post {op:?}: {why}")),
        }
        self.next_id += 1;
        self.left -= 1;
        self.report.posted += 1;
        let model = &mut direction.model;
        let range = start as usize..(start + len) as usize;
        let mut bytes = data;
        match op {
            SendOp::Read { .. } => bytes = model[range].to_vec(),
            SendOp::Write { .. } | SendOp::WriteImm { .. } => model[range].copy_from_slice(&bytes),
            SendOp::FetchAdd { add, .. } => {
                bytes = model[range.clone()].to_vec();
                let sum = word(model, start).wrapping_add(add);
                model[range].copy_from_slice(&sum.to_ne_bytes());
            }
            SendOp::CompareSwap { compare, swap, .. } => {
                bytes = model[range.clone()].to_vec();
                if word(model, start) == compare {
                    model[range].copy_from_slice(&swap.to_ne_bytes());
                }
            }
            _ => {}
        }
        if op.takes_receive() {
            let (imm, rkey, write) = match op {
                SendOp::SendImm(imm) => (Some(imm), None, false),
                SendOp::WriteImm { imm, .. } => (Some(imm), None, true),
                SendOp::SendInv(rkey) => (None, Some(rkey), false),
                _ => (None, None, false),
            };
            direction.messages.push_back(Message { bytes: bytes.clone(), imm, write, rkey });
        }
        if answer.is_some() {
            direction.free_answers.pop();
        }
        let len = if targets { len } else { 0 };
        direction.pending.push_back(Pending { wr_id, op, signaled, start, len, bytes, answer });
        Ok(())
    }

    fn poll(&mut self, at: usize) -> Result<(), String> {
        let nothing = Completion {
            wr_id: 0,
            status: Status::Success,
            opcode: Opcode::Send,
            byte_len: 0,
            imm: None,
            invalidated: None,
            qpn: Qpn(0),
        };
        let mut found = [nothing; 8];
        loop {
            let (from, cq) = (self.directions[at].from, self.directions[at].send_cq);
            let count = self.hosts[from].device.poll_cq(cq, &mut found).map_err(|why| why.to_string())?;
            for completion in &found[..count] {
                self.on_sent(at, completion)?;
            }
            let cq = self.directions[at].recv_cq;
            let received = self.hosts[from].device.poll_cq(cq, &mut found).map_err(|why| why.to_string())?;
            for completion in &found[..received] {
                self.on_received(at, completion)?;
            }
            if count + received == 0 {
                return Ok(());
            }
        }
    }

    fn on_sent(&mut self, at: usize, completion: &Completion) -> Result<(), String> {
        self.mix(completion.wr_id);
        let success = completion.status == Status::Success;
        loop {
            let Some(pending) = self.directions[at].pending.pop_front() else {
                return Err(format!("direction {at}: {completion:?} of nothing"));
            };
            let mine = pending.wr_id == completion.wr_id;
            if !mine && (pending.signaled || !success) {
                return Err(format!("direction {at}: {completion:?} before {pending:?}"));
            }
            if mine && success && !pending.signaled {
                return Err(format!("direction {at}: {completion:?} was not asked for"));
            }
            if mine && !success {
                self.report.flushed += 1;
            } else {
                self.report.completed += 1;
                self.verify(at, &pending)?;
            }
            if let Some(answer) = pending.answer {
                self.directions[at].free_answers.push(answer);
            }
            if mine {
                return Ok(());
            }
        }
    }

    /// An operation is done: the bytes must be there.
    fn verify(&mut self, at: usize, done: &Pending) -> Result<(), String> {
        let direction = &self.directions[at];
        if let Some(answer) = done.answer {
            let start = answer * ANSWER as usize;
            let place = self.hosts[direction.from].device.bytes(direction.answers.id).unwrap_or_default();
            if place[start..start + done.bytes.len()] != done.bytes[..] {
                return Err(format!("direction {at} ({:?}): wrong bytes fetched by {done:?}", direction.service));
            }
            self.report.checked += done.bytes.len() as u64;
            return Ok(());
        }
        let later = direction.pending.iter().any(|other| {
            other.start < done.start + done.len
                && done.start < other.start + other.len
                && !matches!(other.op, SendOp::Read { .. })
        });
        if done.len == 0 || later {
            return Ok(());
        }
        self.compare(at, done.start, done.len)
    }

    fn compare(&mut self, at: usize, start: u64, len: u64) -> Result<(), String> {
        let direction = &self.directions[at];
        if direction.service == Service::Uc && start > 0 {
            return Ok(());
        }
        let target = self.hosts[direction.to].device.bytes(direction.target.id).unwrap_or_default();
        let (start, end) = (start as usize, (start + len) as usize);
        let guard = GUARD as usize;
        let same = if direction.service == Service::Uc {
            target[..guard].iter().all(|byte| *byte == 0)
                && target[target.len() - guard..].iter().all(|byte| *byte == 0)
        } else {
            target[start..end] == direction.model[start..end]
        };
        if !same {
            let wrong = (start..end).find(|byte| target[*byte] != direction.model[*byte]);
            return Err(format!(
                "direction {at} ({:?}): memory differs from the model at {wrong:?} in {start}..{end}",
                direction.service
            ));
        }
        self.report.checked += len;
        Ok(())
    }

    /// A receive at the start of direction `at` completed: a message of its peer's direction.
    fn on_received(&mut self, at: usize, completion: &Completion) -> Result<(), String> {
        self.mix(completion.wr_id);
        let from = self.directions[at].from;
        let place = self.directions[at].posted.pop_front();
        if place != Some(completion.wr_id) {
            return Err(format!("direction {at}: {completion:?}, but the oldest receive is {place:?}"));
        }
        self.directions[at].free.push(completion.wr_id);
        if completion.status != Status::Success {
            self.report.flushed += 1;
            return Ok(());
        }
        let peer = self.directions[at].peer;
        let start = (completion.wr_id * RECEIVE) as usize;
        let buffer = self.hosts[from].device.bytes(self.directions[at].receives.id).unwrap_or_default();
        let lossy = self.directions[at].service == Service::Uc;
        loop {
            let Some(message) = self.directions[peer].messages.pop_front() else {
                return Err(format!("direction {peer}: {completion:?} of no message"));
            };
            let len = message.bytes.len();
            let same = completion.byte_len as usize == len
                && completion.imm == message.imm
                && completion.invalidated == message.rkey
                && completion.opcode == if message.write { Opcode::RecvWithImmediate } else { Opcode::Recv }
                && (message.write || buffer[start..start + len] == message.bytes[..]);
            if same {
                self.report.received += 1;
                self.report.checked += len as u64;
                if message.rkey.is_some() {
                    self.renew(peer)?;
                }
                return Ok(());
            }
            if !lossy {
                return Err(format!("direction {peer}: {completion:?} instead of {message:?}"));
            }
        }
    }

    /// The region that was invalidated gets a new key.
    fn renew(&mut self, at: usize) -> Result<(), String> {
        let direction = &mut self.directions[at];
        let Some(info) = direction.invalidable else { return Ok(()) };
        // Sends that are under way name the old key; they need it once more.
        if direction.messages.iter().any(|message| message.rkey == Some(info.rkey)) {
            return Ok(());
        }
        let device = &mut self.hosts[direction.to].device;
        direction.invalidable = Some(device.rekey(info.id).map_err(|why| why.to_string())?);
        Ok(())
    }

    fn events(&mut self) -> Result<(), String> {
        for host in 0..self.hosts.len() {
            while let Some(event) = self.hosts[host].device.poll_event() {
                match event {
                    Event::QueuePairError(qpn, status) => {
                        let Some(&at) = self.by_qpn.get(&(host, qpn.0)) else { continue };
                        self.mix(status as u64);
                        if !matches!(status, Status::TransportRetryExceeded) {
                            return Err(format!("direction {at}: the connection fails with {status:?}"));
                        }
                        self.reconnect(at - at % 2)?;
                    }
                    Event::CompletionQueueOverflow(cq) => return Err(format!("{cq:?} of host {host} overflows")),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// A connection failed because the peer was silent too long: everything is flushed, both ends begin again, and the model takes what
    /// is there.
    fn reconnect(&mut self, at: usize) -> Result<(), String> {
        self.report.failed += 1;
        for end in [at, at + 1] {
            let (from, qpn) = (self.directions[end].from, self.directions[end].qpn);
            self.hosts[from].device.to_error(qpn).map_err(|why| why.to_string())?;
            self.poll(end)?;
            let direction = &mut self.directions[end];
            // What was not signalled and came before the failure has no completion.
            direction.pending.retain(|pending| pending.signaled);
            if let Some(first) = direction.pending.front() {
                return Err(format!("direction {end}: {first:?} was not flushed"));
            }
            if let Some(place) = direction.posted.front() {
                return Err(format!("direction {end}: receive {place} was not flushed"));
            }
            direction.free_answers = (0..ANSWERS).collect();
        }
        for end in [at, at + 1] {
            let (from, qpn) = (self.directions[end].from, self.directions[end].qpn);
            self.hosts[from].device.to_reset(qpn).map_err(|why| why.to_string())?;
            self.directions[end].messages.clear();
            let direction = &mut self.directions[end];
            let target = self.hosts[direction.to].device.bytes(direction.target.id).unwrap_or_default();
            direction.model = target.to_vec();
            // Packets of the past would be taken for new ones: a new number makes them foreign.
            let Host { device, pd, .. } = &mut self.hosts[from];
            device.destroy_qp(qpn).map_err(|why| why.to_string())?;
            let capacities = Capacities { send_wr: 24, recv_wr: RECEIVES as u32, ..Capacities::default() };
            let init = QpInit {
                service: direction.service,
                send_cq: direction.send_cq,
                recv_cq: direction.recv_cq,
                srq: None,
                capacities,
                signal_all: false,
            };
            direction.qpn = device.create_qp(*pd, init).map_err(|why| why.to_string())?;
            self.by_qpn.insert((from, direction.qpn.0), end);
        }
        self.join(at);
        Ok(())
    }
}

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
