//! Two devices and a link between them in virtual time, with losses by script, and a trace with a line for each packet.
#![allow(dead_code, reason = "each test file uses some of it")]

use rnic_transport::Time;
use rnic_verbs::{
    Access, Batch, Capacities, Completion, Connection, CqId, Data, Device, DeviceConfig, Dropped, Event, MrInfo, Pd,
    QpInit, Qpn, RecvRequest, SendAttributes, SendFlags, SendOp, SendRequest, Service, Sge, SrqId, Status, VerbsError,
};
use rnic_wire::{Credits, Headers, Operation, Packet, Syndrome};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// First PSNs of sides A and B.
pub(crate) const PSN_A: u32 = 100;
pub(crate) const PSN_B: u32 = 900;
/// Length in bytes of each side's memory region.
pub(crate) const REGION: usize = 1 << 16;
/// Delay of a packet on the link.
pub(crate) const DELAY: Time = Time::from_us(1);

/// The settings of a [`Pair`].
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) service: Service,
    pub(crate) mtu: u32,
    pub(crate) psns: [u32; 2],
    pub(crate) attributes: SendAttributes,
    pub(crate) max_dest: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) access: Access,
    pub(crate) capacities: Capacities,
    pub(crate) cq: u32,
    pub(crate) signal_all: bool,
    /// If set, side B receives from a shared receive queue of this capacity.
    pub(crate) srq: Option<u32>,
    pub(crate) config: DeviceConfig,
    pub(crate) peers: [SocketAddr; 2],
    /// The UDP source port that the peer's packets must have.
    pub(crate) source_port: Option<u16>,
    /// The peer's limit of packets in flight.
    pub(crate) peer_in_flight: u32,
}

impl Setup {
    pub(crate) fn new(service: Service) -> Setup {
        Setup {
            service,
            mtu: 256,
            psns: [PSN_A, PSN_B],
            // 4.096 us * 2^8 = 1.048576 ms
            attributes: SendAttributes {
                timeout: 8,
                retry_count: 3,
                rnr_retry: 3,
                max_rd_atomic: 4,
                ..SendAttributes::default()
            },
            max_dest: 4,
            min_rnr_timer: 6, // 80 us
            access: Access::ALL,
            capacities: Capacities::default(),
            cq: 64,
            signal_all: false,
            srq: None,
            config: DeviceConfig {
                timeouts: rnic_transport::Timeouts {
                    high: Time::from_us(1_000),
                    low: Time::from_us(1_000),
                    low_packets: 3,
                    dynamic: None,
                },
                ..DeviceConfig::default()
            },
            peers: [address("10.0.0.1:4791"), address("10.0.0.2:4791")],
            source_port: None,
            peer_in_flight: rnic_verbs::MAX_IN_FLIGHT,
        }
    }

    pub(crate) fn build(self) -> Pair {
        let mut pair = self.unconnected();
        pair.connect(0);
        pair.connect(1);
        // A new queue pair may be in the ring of ready queue pairs, although it has nothing to send.
        pair.drain();
        pair
    }

    /// Creates a pair whose queue pairs are in state RESET.
    pub(crate) fn unconnected(self) -> Pair {
        let sides = [0, 1].map(|at| Side::new(&self, at));
        Pair {
            setup: self,
            sides,
            now: Time::from_us(10),
            wire: VecDeque::new(),
            trace: Vec::new(),
            departures: Vec::new(),
            script: Box::new(|_| Fate::Arrives),
            number: 0,
            last: Time::ZERO,
            marks: false,
        }
    }
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) struct Side {
    pub(crate) device: Device,
    pub(crate) pd: Pd,
    pub(crate) send_cq: CqId,
    pub(crate) recv_cq: CqId,
    pub(crate) srq: Option<SrqId>,
    pub(crate) qpn: Qpn,
    pub(crate) memory: MrInfo,
    pub(crate) batch: Batch,
}

impl Side {
    fn new(setup: &Setup, at: usize) -> Side {
        let mut device = Device::new(DeviceConfig { seed: at as u64, ..setup.config.clone() });
        let pd = device.create_pd();
        let send_cq = device.create_cq(setup.cq).unwrap();
        let recv_cq = device.create_cq(setup.cq).unwrap();
        let srq = setup.srq.filter(|_| at == 1).map(|capacity| device.create_srq(pd, capacity, 4).unwrap());
        let init = QpInit {
            service: setup.service,
            send_cq,
            recv_cq,
            srq,
            capacities: setup.capacities,
            signal_all: setup.signal_all,
        };
        let qpn = device.create_qp(pd, init).unwrap();
        let memory = device.register(pd, vec![0; REGION], Some(0x10_0000 * (at as u64 + 1)), Access::ALL).unwrap();
        Side { device, pd, send_cq, recv_cq, srq, qpn, memory, batch: Batch::new(16) }
    }

    /// A scatter-gather element of `len` bytes, from byte `offset` of the region on.
    pub(crate) fn sge(&self, offset: u64, len: u32) -> Sge {
        Sge { addr: self.memory.addr + offset, len, lkey: self.memory.lkey }
    }

    pub(crate) fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        &self.device.bytes(self.memory.id).unwrap()[offset..offset + len]
    }

    pub(crate) fn fill(&mut self, offset: usize, bytes: &[u8]) {
        self.device.bytes_mut(self.memory.id).unwrap()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn poll(&mut self, cq: CqId) -> Vec<Completion> {
        let mut all = Vec::new();
        let mut one = [Completion::BLANK];
        while self.device.poll_cq(cq, &mut one).unwrap() == 1 {
            all.push(one[0]);
        }
        all
    }

    /// Polls all send completions: `wr_id` and status.
    pub(crate) fn sent(&mut self) -> Vec<(u64, Status)> {
        self.poll(self.send_cq).iter().map(|c| (c.wr_id, c.status)).collect()
    }

    /// Polls all receive completions: `wr_id`, status, and message length in bytes.
    pub(crate) fn received(&mut self) -> Vec<(u64, Status, u32)> {
        self.poll(self.recv_cq).iter().map(|c| (c.wr_id, c.status, c.byte_len)).collect()
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.device.poll_event()).collect()
    }

    pub(crate) fn dropped(&self, why: Dropped) -> u64 {
        self.device.counters().dropped(why)
    }
}

/// The fate of a packet on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Arrives,
    Lost,
    /// Arrives, later than other packets by this time.
    Late(Time),
    /// Arrives twice: a duplicate follows after this time.
    Twice(Time),
}

/// The view of a packet from which a script decides the packet's fate.
pub(crate) struct Seen<'a> {
    /// The side that sends it.
    pub(crate) from: usize,
    /// Number of packets that both sides sent before this packet.
    pub(crate) number: u64,
    pub(crate) headers: &'a Headers,
}

impl Seen<'_> {
    pub(crate) fn is(&self, from: usize, operation: Operation, psn: u32) -> bool {
        let bth = &self.headers.bth;
        self.from == from && bth.opcode.operation() == operation && bth.psn == psn
    }
}

struct Flight {
    at: Time,
    to: usize,
    bytes: Vec<u8>,
}

pub(crate) struct Pair {
    pub(crate) setup: Setup,
    pub(crate) sides: [Side; 2],
    pub(crate) now: Time,
    wire: VecDeque<Flight>,
    pub(crate) trace: Vec<String>,
    /// For each packet in the trace: the side that sent it, and the time.
    pub(crate) departures: Vec<(usize, Time)>,
    pub(crate) script: Box<dyn FnMut(&Seen<'_>) -> Fate>,
    number: u64,
    /// Time when the last packet left or arrived.
    pub(crate) last: Time,
    /// Whether every packet that arrives is CE-marked.
    pub(crate) marks: bool,
}

impl Pair {
    pub(crate) fn new(service: Service) -> Pair {
        Setup::new(service).build()
    }

    pub(crate) fn connection(&self, at: usize) -> Connection {
        let other = 1 - at;
        Connection {
            peer: self.setup.peers[other],
            peer_qpn: self.sides[other].qpn,
            peer_source_port: self.setup.source_port,
            protected: false,
            peer_in_flight: self.setup.peer_in_flight,
            path_mtu: self.setup.mtu,
            recv_psn: self.setup.psns[other],
            max_dest_rd_atomic: self.setup.max_dest,
            min_rnr_timer: self.setup.min_rnr_timer,
            dscp: 0,
        }
    }

    pub(crate) fn attributes(&self, at: usize) -> SendAttributes {
        SendAttributes { send_psn: self.setup.psns[at], ..self.setup.attributes }
    }

    /// Connects side `at`: brings its queue pair from RESET to RTS.
    pub(crate) fn connect(&mut self, at: usize) {
        self.listen(at);
        let attributes = self.attributes(at);
        let side = &mut self.sides[at];
        side.device.to_rts(side.qpn, attributes, self.now).unwrap();
    }

    /// Brings the queue pair of side `at` from RESET to RTR.
    pub(crate) fn listen(&mut self, at: usize) {
        let (connection, access) = (self.connection(at), self.setup.access);
        let side = &mut self.sides[at];
        side.device.to_init(side.qpn, access).unwrap();
        side.device.to_rtr(side.qpn, connection, self.now).unwrap();
    }

    /// Sets the script that decides the fate of each packet.
    pub(crate) fn script(&mut self, script: impl FnMut(&Seen<'_>) -> Fate + 'static) {
        self.script = Box::new(script);
    }

    /// Loses the first packet for which `which` returns true.
    pub(crate) fn lose_once(&mut self, mut which: impl FnMut(&Seen<'_>) -> bool + 'static) {
        let mut done = false;
        self.script(move |seen| {
            let lost = !done && which(seen);
            done |= lost;
            if lost { Fate::Lost } else { Fate::Arrives }
        });
    }

    /// Posts a signalled send request at side `at`, with `len` bytes from the start of its region.
    pub(crate) fn post(&mut self, at: usize, wr_id: u64, op: SendOp, len: u32) {
        self.post_with(at, wr_id, op, 0, len, SendFlags::SIGNALED);
    }

    pub(crate) fn post_with(&mut self, at: usize, wr_id: u64, op: SendOp, offset: u64, len: u32, flags: SendFlags) {
        self.try_post(at, wr_id, op, offset, len, flags).unwrap();
    }

    pub(crate) fn try_post(
        &mut self, at: usize, wr_id: u64, op: SendOp, offset: u64, len: u32, flags: SendFlags,
    ) -> Result<(), VerbsError> {
        let side = &mut self.sides[at];
        let sges = [side.sge(offset, len)];
        side.device.post_send(side.qpn, &SendRequest { wr_id, op, data: Data::Gather(&sges), flags })
    }

    /// Posts a receive at side `at`.
    pub(crate) fn recv(&mut self, at: usize, wr_id: u64, offset: u64, len: u32) {
        let side = &mut self.sides[at];
        let sges = [side.sge(offset, len)];
        side.device.post_recv(side.qpn, &RecvRequest { wr_id, scatter: &sges }).unwrap();
    }

    /// Posts a receive to side B's shared receive queue.
    pub(crate) fn srq_recv(&mut self, wr_id: u64, offset: u64, len: u32) {
        let side = &mut self.sides[1];
        let sges = [side.sge(offset, len)];
        side.device.post_srq_recv(side.srq.unwrap(), &RecvRequest { wr_id, scatter: &sges }).unwrap();
    }

    /// The virtual address and the remote key of side `at`'s region.
    pub(crate) fn target(&self, at: usize) -> (u64, u32) {
        (self.sides[at].memory.addr, self.sides[at].memory.rkey)
    }

    pub(crate) fn write_op(&self, to: usize, offset: u64) -> SendOp {
        let (addr, rkey) = self.target(to);
        SendOp::Write { addr: addr + offset, rkey }
    }

    pub(crate) fn write_imm_op(&self, to: usize, offset: u64, imm: u32) -> SendOp {
        let (addr, rkey) = self.target(to);
        SendOp::WriteImm { addr: addr + offset, rkey, imm }
    }

    pub(crate) fn read_op(&self, to: usize, offset: u64) -> SendOp {
        let (addr, rkey) = self.target(to);
        SendOp::Read { addr: addr + offset, rkey }
    }

    pub(crate) fn add_op(&self, to: usize, offset: u64, add: u64) -> SendOp {
        let (addr, rkey) = self.target(to);
        SendOp::FetchAdd { addr: addr + offset, rkey, add }
    }

    pub(crate) fn swap_op(&self, to: usize, offset: u64, compare: u64, swap: u64) -> SendOp {
        let (addr, rkey) = self.target(to);
        SendOp::CompareSwap { addr: addr + offset, rkey, compare, swap }
    }

    /// Puts all packets that the two sides have to send on the link.
    pub(crate) fn drain(&mut self) {
        for from in 0..2 {
            loop {
                let side = &mut self.sides[from];
                if !side.device.transmit(self.now, &mut side.batch) {
                    break;
                }
                let to = side.batch.destination().unwrap();
                assert_eq!(to.peer, self.setup.peers[1 - from]);
                let packets: Vec<Vec<u8>> = side.batch.datagrams_mut().map(|packet| packet.to_vec()).collect();
                assert_eq!(packets.len(), side.batch.count());
                for bytes in packets {
                    self.launch(from, bytes);
                }
            }
        }
    }

    /// Takes all packets that side `from` has to send, without putting them on the link.
    pub(crate) fn take(&mut self, from: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let side = &mut self.sides[from];
        while side.device.transmit(self.now, &mut side.batch) {
            all.extend(side.batch.datagrams_mut().map(|packet| packet.to_vec()));
        }
        all
    }

    fn launch(&mut self, from: usize, bytes: Vec<u8>) {
        let packet = Packet::parse(&bytes).unwrap_or_else(|why| panic!("side {from} sends a bad packet: {why}"));
        assert_eq!(packet.headers.bth.dest_qp, self.sides[1 - from].qpn.0);
        let fate = (self.script)(&Seen { from, number: self.number, headers: &packet.headers });
        self.number += 1;
        self.last = self.now;
        self.departures.push((from, self.now));
        let mark = match fate {
            Fate::Arrives => "",
            Fate::Lost => " lost",
            Fate::Late(_) => " late",
            Fate::Twice(_) => " twice",
        };
        self.trace.push(format!("{} {}{mark}", if from == 0 { 'A' } else { 'B' }, describe(&packet)));
        let arrivals = match fate {
            Fate::Arrives => vec![DELAY],
            Fate::Lost => vec![],
            Fate::Late(by) => vec![DELAY + by],
            Fate::Twice(by) => vec![DELAY, DELAY + by],
        };
        for delay in arrivals {
            let at = self.now + delay;
            let place = self.wire.partition_point(|other| other.at <= at);
            self.wire.insert(place, Flight { at, to: 1 - from, bytes: bytes.clone() });
        }
    }

    /// Advances to the next arrival or timer, if it is due by `limit`, and handles it. Returns `false` if none is due.
    pub(crate) fn step(&mut self, limit: Time) -> bool {
        self.drain();
        let timers = self.sides.iter().filter_map(|side| side.device.next_time(&side.batch));
        let next = self.wire.front().map(|flight| flight.at).into_iter().chain(timers).min();
        let Some(next) = next.filter(|next| *next <= limit) else { return false };
        self.now = self.now.max(next);
        while let Some(flight) = self.wire.front().filter(|flight| flight.at <= self.now) {
            let (to, bytes) = (flight.to, flight.bytes.clone());
            self.wire.pop_front();
            self.last = self.now;
            let _ = self.arrive(to, &bytes);
        }
        for side in &mut self.sides {
            side.device.on_time(self.now);
        }
        true
    }

    /// Delivers `bytes` to side `to`, as a packet from its peer.
    pub(crate) fn arrive(&mut self, to: usize, bytes: &[u8]) -> Result<(), Dropped> {
        let source = self.setup.peers[1 - to];
        self.sides[to].device.receive(self.now, source, self.marks, bytes)
    }

    /// Runs until no packet is on the link and no timer is set.
    pub(crate) fn run(&mut self) {
        for _ in 0..100_000 {
            if !self.step(Time::MAX) {
                return;
            }
        }
        panic!("it never ends:\n{}", self.trace.join("\n"));
    }

    /// Runs for a time of `span`.
    pub(crate) fn run_for(&mut self, span: Time) {
        let limit = self.now + span;
        while self.step(limit) {}
        self.now = limit;
        for side in &mut self.sides {
            side.device.on_time(limit);
        }
    }

    /// Moves the origin of time of both sides and of the link by [`Device::EPOCH`].
    pub(crate) fn rebase(&mut self) {
        self.sides.iter_mut().for_each(|side| side.device.rebase());
        self.now = self.now - Device::EPOCH;
        self.wire.iter_mut().for_each(|flight| flight.at = flight.at - Device::EPOCH);
    }

    /// Compares the trace with `expected`, which has a line for each packet, and clears the trace.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: &str) {
        let expected: Vec<&str> = expected.trim().lines().map(str::trim).collect();
        let found: Vec<&str> = self.trace.iter().map(String::as_str).collect();
        assert!(found == expected, "found:\n{}\n\nexpected:\n{}", found.join("\n"), expected.join("\n"));
        self.trace.clear();
    }

    /// Headers without extension headers, of a packet to side `to`.
    pub(crate) fn headers(&self, to: usize, opcode: rnic_wire::Opcode, psn: u32) -> Headers {
        Headers::new(rnic_wire::Bth::new(opcode, self.sides[to].qpn.0, psn))
    }
}

/// The bytes of a packet, with four zero bytes in place of the ICRC, which a device does not check.
pub(crate) fn bytes_of(headers: Headers, payload: &[u8]) -> Vec<u8> {
    let packet = Packet::new(headers, payload);
    let mut bytes = vec![0; packet.len()];
    packet.emit_without_icrc(&mut bytes);
    bytes
}

/// Describes a packet in one line: its operation, its PSN, and its other header fields.
pub(crate) fn describe(packet: &Packet<'_>) -> String {
    let headers = &packet.headers;
    let bth = &headers.bth;
    let mut line = match bth.opcode.operation() {
        Operation::Acknowledge | Operation::ReadAcknowledge => String::new(),
        _ => format!("{} ", bth.opcode.name()),
    };
    if let (Some(aeth), Operation::Acknowledge | Operation::ReadAcknowledge) = (headers.aeth, bth.opcode.operation()) {
        let name = match aeth.syndrome {
            Syndrome::Ack { .. } => "ACK".into(),
            Syndrome::RnrNak { timer } => format!("RNR NAK {} us", timer.micros()),
            Syndrome::Nak(code) => format!("NAK {}", code.name()),
        };
        let read = if bth.opcode.operation() == Operation::ReadAcknowledge { "READ " } else { "" };
        line += &format!("{read}{name} ");
    }
    line += &format!("#{}", bth.psn);
    if !packet.payload.is_empty() && bth.opcode.operation() != Operation::Cnp {
        line += &format!(" {} B", packet.payload.len());
    }
    if let Some(reth) = headers.reth {
        line += &format!(" va +{:#x} len {}", reth.va & 0xf_ffff, reth.dma_len);
    }
    if let Some(send) = headers.send {
        line += &format!(" recv {} at {}", send.recv_wqe_sn, send.offset);
    }
    if let Some(recv) = headers.recv {
        line += &format!(" recv {}", recv.recv_wqe_sn);
    }
    if let Some(read) = headers.read {
        line += &format!(" read {}", read.read_wqe_sn);
    }
    if let Some(aeth) = headers.aeth {
        line += &format!(" msn {}", aeth.msn);
        if let Syndrome::Ack { credits } = aeth.syndrome
            && credits != Credits::UNLIMITED
        {
            line += &format!(" credits {}", credits.count().unwrap());
        }
    }
    if let Some(sack) = headers.sack {
        let first = sack.psn.wrapping_sub(sack.before.into()) & rnic_wire::MAX_24;
        line +=
            &if sack.before > 0 { format!(" for #{first} to #{}", sack.psn) } else { format!(" for #{}", sack.psn) };
    }
    if bth.ack_request {
        line += " ask";
    }
    if bth.solicited {
        line += " solicited";
    }
    if bth.becn && bth.opcode.operation() != Operation::Cnp {
        line += " becn";
    }
    line
}

/// `len` bytes of a test pattern in which neighbouring bytes differ; other values of `salt` give other patterns.
pub(crate) fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8).wrapping_add(salt)).collect()
}
