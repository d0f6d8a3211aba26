//! Fuzzes a connected queue pair with packets that are valid, nearly valid, duplicated, or random bytes.
//!
//! Both ends also execute valid operations, so that there is state that bad packets could damage. After every step the
//! test checks that only two kinds of memory have changed: buffers of outstanding receives and Reads, and regions that
//! the peer may write. It also checks that each work request completes at most once.

use super::Summary;
use crate::network::Dice;
use rnic_transport::{Time, Timeouts};
use rnic_verbs::{
    Access, Batch, Capacities, Completion, Congestion, Connection, CqId, Data, Device, DeviceConfig, MrInfo, Notify,
    Pd, QpInit, Qpn, RecvRequest, SendAttributes, SendFlags, SendOp, SendRequest, Service, Sge, SrqId, State, Status,
    VerbsError,
};
use rnic_wire::{
    Aeth, AtomicEth, Deth, Headers, Ieth, ImmDt, NakCode, Operation, Packet, PayloadRule, ReadEth, RecvEth, Reth,
    RnrTimer, SackEth, SendEth, Syndrome,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Size of a region in bytes.
const REGION: usize = 4_096;
/// Number of buffers for receives, and number of buffers for results.
const PLACES: usize = 8;
/// Size of such a buffer in bytes.
const PLACE: usize = 700;
/// Number of bytes after each buffer that must never change.
const GAP: usize = 60;

/// Runs at most `steps` steps, until the choices of `dice` are used up.
///
/// # Errors
/// A description of the violation.
pub fn run(dice: Dice, steps: u64) -> Result<Summary, String> {
    run_with(dice, steps, || ())
}

/// Runs like [`run`], and calls `look` after every step.
///
/// # Errors
/// A description of the violation.
pub fn run_with(dice: Dice, steps: u64, mut look: impl FnMut()) -> Result<Summary, String> {
    let mut fuzz = Fuzz::new(dice);
    for step in 0..steps {
        if fuzz.dice.is_spent() {
            break;
        }
        fuzz.step().map_err(|what| format!("step {step}: {what}"))?;
        look();
    }
    Ok(fuzz.summary)
}

/// A memory region. If `fixed` is set, its bytes must stay so; otherwise the peer may change them.
struct Region {
    info: MrInfo,
    fixed: Option<Vec<u8>>,
}

/// Memory divided into buffers, of which only those in use may change.
struct Places {
    info: MrInfo,
    /// The expected bytes, updated whenever a buffer is released.
    bytes: Vec<u8>,
    used: [bool; PLACES],
}

struct Side {
    device: Device,
    pd: Pd,
    batch: Batch,
    addr: SocketAddr,
    send_cq: CqId,
    recv_cq: CqId,
    srq: Option<SrqId>,
    qpn: Qpn,
    psn: u32,
    regions: Vec<Region>,
    receives: Places,
    answers: Places,
    /// The outstanding sends, each with the index of its result buffer.
    sends: BTreeMap<u64, Option<usize>>,
}

struct Fuzz {
    dice: Dice,
    now: Time,
    service: Service,
    mtu: u32,
    sides: [Side; 2],
    /// Packets in flight, each with the index of its destination.
    wire: VecDeque<(usize, Vec<u8>)>,
    /// Some earlier packets, each with the index of its destination.
    past: Vec<(usize, Vec<u8>)>,
    next_id: u64,
    summary: Summary,
}

impl Fuzz {
    fn new(mut dice: Dice) -> Fuzz {
        let service = dice.pick(&[Service::Rc, Service::Irn, Service::Irn, Service::Uc]);
        let shared = dice.chance(300);
        let congestion = dice.pick(&["none", "dcqcn", "dctcp"]);
        let in_flight = dice.pick(&[1, 4, 64]);
        let sides = [0u8, 1].map(|at| Side::new(&mut dice, at, service, shared, congestion, in_flight));
        let mtu = dice.pick(&[256, 512]);
        let (wire, past) = (VecDeque::new(), Vec::new());
        let now = Time::from_us(1);
        let mut fuzz = Fuzz { dice, now, service, mtu, sides, wire, past, next_id: 0, summary: Summary::default() };
        fuzz.connect();
        fuzz
    }

    /// Brings both sides from RESET to RTS.
    fn connect(&mut self) {
        for at in 0..2 {
            self.sides[at].psn = self.dice.word() as u32 & 0xff_ffff;
        }
        let most = self.dice.below(5) as u8;
        for at in 0..2 {
            let (psn, peer) = (self.sides[at].psn, &self.sides[1 - at]);
            let connection = Connection {
                peer: peer.addr,
                peer_qpn: peer.qpn,
                peer_source_port: None,
                protected: false,
                peer_in_flight: rnic_verbs::MAX_IN_FLIGHT,
                path_mtu: self.mtu,
                recv_psn: peer.psn,
                max_dest_rd_atomic: most,
                min_rnr_timer: 1,
                dscp: 0,
            };
            let attributes = SendAttributes {
                send_psn: psn,
                timeout: 6,
                retry_count: 7,
                rnr_retry: 7,
                max_rd_atomic: 4,
                ..SendAttributes::default()
            };
            let Side { device, qpn, .. } = &mut self.sides[at];
            let access = if self.dice.chance(800) { Access::ALL } else { Access::LOCAL_READ };
            let done = device
                .to_init(*qpn, access)
                .and_then(|()| device.to_rtr(*qpn, connection, self.now))
                .and_then(|()| device.to_rts(*qpn, attributes, self.now));
            done.unwrap_or_else(|why| panic!("{why}"));
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.summary.steps += 1;
        let at = self.dice.below(2) as usize;
        match self.dice.below(100) {
            0..22 => self.post(at)?,
            22..34 => self.receive(at)?,
            34..40 => {
                self.now += Time::from_us(self.dice.below(500));
                for side in &mut self.sides {
                    side.device.on_time(self.now);
                }
            }
            40..80 => self.deliver(),
            80..88 => self.repeat(),
            88..94 => self.forge(at),
            94..97 => self.noise(at),
            97..98 => self.verb(at),
            _ => {}
        }
        self.drain();
        for at in 0..2 {
            self.poll(at)?;
            if self.summary.steps.is_multiple_of(16) {
                self.sides[at].check().map_err(|what| format!("side {at}: {what}"))?;
            }
        }
        self.restart()
    }

    /// Puts the packets that both sides have to send into flight. Packets that exceed the network's capacity are
    /// dropped.
    fn drain(&mut self) {
        for from in 0..2 {
            for _ in 0..4 {
                let Side { device, batch, .. } = &mut self.sides[from];
                if !device.transmit(self.now, batch) {
                    break;
                }
                for packet in batch.datagrams_mut() {
                    self.wire.push_back((1 - from, packet.to_vec()));
                }
            }
        }
        while self.wire.len() > 256 {
            self.wire.pop_front();
        }
    }

    fn hand_in(&mut self, to: usize, bytes: &[u8]) {
        self.summary.packets += 1;
        let source = self.sides[1 - to].addr;
        let marked = self.dice.chance(50);
        let taken = self.sides[to].device.receive(self.now, source, marked, bytes);
        self.summary.taken += u64::from(taken.is_ok());
    }

    /// Delivers the next packet, usually unchanged.
    fn deliver(&mut self) {
        let Some((to, mut bytes)) = self.wire.pop_front() else { return };
        if self.past.len() < 64 {
            self.past.push((to, bytes.clone()));
        } else {
            let at = self.dice.below(64) as usize;
            self.past[at] = (to, bytes.clone());
        }
        match self.dice.below(20) {
            0 => return,
            1 => self.flip(&mut bytes),
            2 => bytes = self.change(to, &bytes),
            3 => {
                self.wire.push_back((to, bytes));
                return;
            }
            _ => {}
        }
        self.hand_in(to, &bytes);
    }

    /// Delivers an earlier packet again, possibly changed.
    fn repeat(&mut self) {
        if self.past.is_empty() {
            return;
        }
        let at = self.dice.below(self.past.len() as u64) as usize;
        let (to, mut bytes) = self.past[at].clone();
        match self.dice.below(3) {
            0 => self.flip(&mut bytes),
            1 => bytes = self.change(to, &bytes),
            _ => {}
        }
        self.hand_in(to, &bytes);
    }

    fn flip(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.dice.within(1, 4) {
            match self.dice.below(8) {
                0 => bytes.truncate(self.dice.below(bytes.len() as u64 + 1) as usize),
                1 => bytes.extend_from_slice(&[0; 4]),
                _ if bytes.is_empty() => {}
                _ => {
                    let at = self.dice.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << self.dice.below(8);
                }
            }
        }
    }

    /// Changes fields of a packet; the packet stays well-formed.
    fn change(&mut self, to: usize, bytes: &[u8]) -> Vec<u8> {
        let Ok(packet) = Packet::parse(bytes) else { return bytes.to_vec() };
        let mut headers = packet.headers;
        let mut len = packet.payload.len();
        for _ in 0..self.dice.within(1, 3) {
            match self.dice.below(8) {
                0 => {
                    headers.bth.psn =
                        headers.bth.psn.wrapping_add(self.dice.below(7) as u32).wrapping_sub(3) & 0xff_ffff
                }
                1 => headers.bth.psn = self.dice.word() as u32 & 0xff_ffff,
                2 => {
                    headers.bth.opcode = self.opcode();
                    len = self.len_of(headers.bth.opcode.payload_rule());
                }
                3 => headers.bth.ack_request ^= true,
                4 => headers.bth.solicited ^= true,
                5 => len = self.dice.below(u64::from(self.mtu) + 8) as usize,
                _ => self.change_extensions(to, &mut headers),
            }
        }
        self.build(to, headers, len)
    }

    /// Forges a request or response with a PSN near the expected one.
    fn forge(&mut self, to: usize) {
        let opcode = self.opcode();
        let near = self.near(to);
        let mut headers = Headers::new(rnic_wire::Bth::new(opcode, self.sides[to].qpn.0, near));
        headers.bth.ack_request = self.dice.chance(500);
        let len = self.len_of(opcode.payload_rule());
        let bytes = self.build(to, headers, len);
        self.hand_in(to, &bytes);
    }

    /// Returns a PSN near that of an earlier packet.
    fn near(&mut self, to: usize) -> u32 {
        let mut psn = self.sides[1 - to].psn;
        if !self.past.is_empty() {
            let at = self.dice.below(self.past.len() as u64) as usize;
            if let Some(view) = rnic_wire::BthView::new(&self.past[at].1) {
                psn = view.psn();
            }
        }
        psn.wrapping_add(self.dice.below(9) as u32).wrapping_sub(2) & 0xff_ffff
    }

    fn noise(&mut self, to: usize) {
        let mut bytes = vec![0; self.dice.below(600) as usize];
        for byte in &mut bytes {
            *byte = self.dice.word() as u8;
        }
        if bytes.len() >= 12 && self.dice.chance(800) {
            bytes[0] = self.opcode().to_u8();
            bytes[1] &= 0xf0;
            bytes[2..4].fill(0xff);
            bytes[4..8].copy_from_slice(&self.sides[to].qpn.0.to_be_bytes());
            let psn = self.near(to);
            bytes[8..12].copy_from_slice(&psn.to_be_bytes());
        }
        self.hand_in(to, &bytes);
    }

    fn opcode(&mut self) -> rnic_wire::Opcode {
        let own = match self.service {
            Service::Rc => rnic_wire::Service::Rc,
            Service::Irn => rnic_wire::Service::Irn,
            Service::Uc => rnic_wire::Service::Uc,
            Service::Ud => rnic_wire::Service::Ud,
        };
        let any = self.dice.chance(20);
        let these = rnic_wire::Opcode::ALL.iter().copied().filter(|opcode| any || opcode.service() == own);
        let these: Vec<rnic_wire::Opcode> = these.collect();
        self.dice.pick(&these)
    }

    fn len_of(&mut self, rule: PayloadRule) -> usize {
        match rule {
            PayloadRule::Empty => 0,
            PayloadRule::Full => self.mtu as usize,
            PayloadRule::Some => self.dice.within(1, self.mtu.into()) as usize,
            PayloadRule::Any => self.dice.within(0, self.mtu.into()) as usize,
            PayloadRule::Reserved => 16,
        }
    }

    /// Builds a packet with the extension headers that its opcode requires; missing headers are random.
    fn build(&mut self, to: usize, headers: Headers, len: usize) -> Vec<u8> {
        let opcode = headers.bth.opcode;
        let mut fresh = Headers::new(headers.bth);
        self.fill_in(to, &mut fresh, len as u32);
        // The extension headers of the original packet are used where the opcode requires them.
        fresh.reth = fresh.reth.map(|made_up| headers.reth.unwrap_or(made_up));
        fresh.atomic = fresh.atomic.map(|made_up| headers.atomic.unwrap_or(made_up));
        fresh.aeth = fresh.aeth.map(|made_up| headers.aeth.unwrap_or(made_up));
        fresh.send = fresh.send.map(|made_up| headers.send.unwrap_or(made_up));
        fresh.recv = fresh.recv.map(|made_up| headers.recv.unwrap_or(made_up));
        fresh.read = fresh.read.map(|made_up| headers.read.unwrap_or(made_up));
        fresh.sack = fresh.sack.map(|made_up| headers.sack.unwrap_or(made_up));
        fresh.ieth = fresh.ieth.map(|made_up| headers.ieth.unwrap_or(made_up));
        assert!(fresh.are_complete(), "{opcode}");
        let payload = vec![0xa5; len];
        let packet = Packet::new(fresh, &payload);
        let mut bytes = vec![0; packet.len()];
        packet.emit_without_icrc(&mut bytes);
        bytes
    }

    fn fill_in(&mut self, to: usize, headers: &mut Headers, len: u32) {
        let opcode = headers.bth.opcode;
        let operation = opcode.operation();
        let irn = opcode.service() == rnic_wire::Service::Irn;
        let small = self.dice.below(4) as u32;
        let (va, rkey) = self.remote(to);
        headers.deth = (opcode.service() == rnic_wire::Service::Ud).then_some(Deth::default());
        match operation {
            Operation::Send if irn => {
                headers.send =
                    Some(SendEth { recv_wqe_sn: small, offset: self.dice.pick(&[0, self.mtu, 2 * self.mtu]) });
            }
            Operation::Write if irn || opcode.starts_message() => {
                let dma_len = if opcode.ends_message() { len } else { self.dice.below(2_000) as u32 };
                headers.reth = Some(Reth { va, rkey, dma_len });
            }
            Operation::ReadRequest => headers.reth = Some(Reth { va, rkey, dma_len: self.dice.below(3_000) as u32 }),
            Operation::CompareSwap | Operation::FetchAdd => {
                headers.atomic = Some(AtomicEth { va: va & !7, rkey, swap_add: self.dice.word(), compare: 0 });
            }
            Operation::Acknowledge | Operation::ReadAcknowledge | Operation::AtomicAcknowledge => {
                headers.aeth = Some(self.aeth());
                headers.atomic_ack = (operation == Operation::AtomicAcknowledge).then_some(Default::default());
            }
            Operation::ReadResponse if irn || !opcode.is_middle() => headers.aeth = Some(self.aeth()),
            _ => {}
        }
        headers.imm = opcode.has_imm().then_some(ImmDt(7));
        headers.ieth = opcode.has_invalidate().then_some(Ieth { rkey });
        if irn {
            let write_imm = operation == Operation::Write && opcode.has_imm();
            headers.recv = write_imm.then_some(RecvEth { recv_wqe_sn: small });
            let fetch = matches!(operation, Operation::ReadRequest | Operation::CompareSwap | Operation::FetchAdd);
            headers.read = fetch.then_some(ReadEth { read_wqe_sn: small });
            let ack = matches!(operation, Operation::Acknowledge | Operation::ReadAcknowledge);
            headers.sack = ack.then_some(SackEth {
                psn: headers.bth.psn.wrapping_add(small) & 0xff_ffff,
                before: self.dice.pick(&[0, 1, 2, 255]),
            });
        }
    }

    fn change_extensions(&mut self, to: usize, headers: &mut Headers) {
        let (va, rkey) = self.remote(to);
        let word = self.dice.word() as u32;
        let near = |value: u32| value.wrapping_add(word % 5).wrapping_sub(2);
        if let Some(reth) = &mut headers.reth {
            match word % 3 {
                0 => reth.va = va,
                1 => reth.rkey = rkey,
                _ => reth.dma_len = if word & 8 == 0 { near(reth.dma_len) } else { word },
            }
        }
        if let Some(atomic) = &mut headers.atomic {
            (atomic.va, atomic.rkey) = (va, rkey);
        }
        if let Some(send) = &mut headers.send {
            match word % 3 {
                0 => send.recv_wqe_sn = near(send.recv_wqe_sn) & 0xff_ffff,
                1 => send.offset = near(send.offset),
                _ => send.offset = word,
            }
        }
        if let Some(recv) = &mut headers.recv {
            recv.recv_wqe_sn = near(recv.recv_wqe_sn) & 0xff_ffff;
        }
        if let Some(read) = &mut headers.read {
            read.read_wqe_sn = near(read.read_wqe_sn) & 0xff_ffff;
        }
        if let Some(sack) = &mut headers.sack {
            sack.psn = if word & 8 == 0 { near(sack.psn) & 0xff_ffff } else { word & 0xff_ffff };
        }
        if headers.aeth.is_some() {
            headers.aeth = Some(self.aeth());
        }
    }

    fn aeth(&mut self) -> Aeth {
        let syndrome = match self.dice.below(10) {
            0 => Syndrome::RnrNak { timer: RnrTimer::from_code(1) },
            1..4 => Syndrome::Nak(NakCode::PsnSequenceError),
            4 => Syndrome::Nak(self.dice.pick(&[NakCode::InvalidRequest, NakCode::RemoteAccessError])),
            code => Syndrome::Ack { credits: rnic_wire::Credits::from_code(code as u8 * 5) },
        };
        Aeth { syndrome, msn: self.dice.below(64) as u32 }
    }

    /// Returns an address and a remote key of side `at`, as a peer may use them: valid, nearly valid, or invalid.
    fn remote(&mut self, at: usize) -> (u64, u32) {
        let side = &self.sides[at];
        let infos: Vec<MrInfo> =
            side.regions.iter().map(|region| region.info).chain([side.receives.info, side.answers.info]).collect();
        // Most often it takes one of the first two regions, to which the peer has access.
        let info = if self.dice.chance(700) { infos[self.dice.below(2) as usize] } else { self.dice.pick(&infos) };
        let offset = match self.dice.below(8) {
            0 => info.len.wrapping_sub(self.dice.below(600)),
            1 => self.dice.word(),
            _ => self.dice.below(info.len),
        };
        let rkey = if self.dice.chance(30) { self.dice.word() as u32 } else { info.rkey };
        (info.addr.wrapping_add(offset), rkey)
    }

    fn post(&mut self, at: usize) -> Result<(), String> {
        let (addr, rkey) = self.remote(1 - at);
        let value = self.dice.word();
        let imm = value as u32;
        let op = match self.dice.below(9) {
            0 => SendOp::Send,
            1 => SendOp::SendImm(imm),
            2 => SendOp::SendInv(rkey),
            3 | 4 => SendOp::Write { addr, rkey },
            5 => SendOp::WriteImm { addr, rkey, imm },
            6 => SendOp::Read { addr, rkey },
            7 => SendOp::FetchAdd { addr: addr & !7, rkey, add: value },
            _ => SendOp::CompareSwap { addr: addr & !7, rkey, compare: 0, swap: value },
        };
        let len = if op.is_atomic() { 8 } else { self.dice.below(PLACE as u64 + 1) as u32 };
        let flags = SendFlags { signaled: true, solicited: self.dice.chance(200), fence: self.dice.chance(100) };
        let wr_id = self.next_id;
        self.next_id += 1;
        let side = &mut self.sides[at];
        let place = if op.is_fetching() { side.answers.used.iter().position(|used| !used) } else { None };
        if op.is_fetching() && place.is_none() {
            return Ok(());
        }
        let sges = match place {
            Some(place) => [side.answers.sge(place, len)],
            None => [Sge { addr: side.regions[0].info.addr, len, lkey: side.regions[0].info.lkey }],
        };
        match side.device.post_send(side.qpn, &SendRequest { wr_id, op, data: Data::Gather(&sges), flags }) {
            Ok(()) => {}
            Err(VerbsError::Full(_) | VerbsError::Unsupported(_) | VerbsError::WrongState { .. }) => return Ok(()),
            Err(why) => return Err(format!("post {op:?}: {why}")),
        }
        if let Some(place) = place {
            side.answers.used[place] = true;
        }
        side.sends.insert(wr_id, place);
        Ok(())
    }

    fn receive(&mut self, at: usize) -> Result<(), String> {
        let len = self.dice.within(0, PLACE as u64) as u32;
        let side = &mut self.sides[at];
        let Some(place) = side.receives.used.iter().position(|used| !used) else { return Ok(()) };
        let split = self.dice.below(u64::from(len) + 1) as u32;
        let whole = side.receives.sge(place, len);
        let scatter =
            [Sge { len: split, ..whole }, Sge { addr: whole.addr + u64::from(split), len: len - split, ..whole }];
        let request = RecvRequest { wr_id: place as u64, scatter: &scatter };
        let posted = match side.srq {
            Some(srq) => side.device.post_srq_recv(srq, &request),
            None => side.device.post_recv(side.qpn, &request),
        };
        posted.map_err(|why| format!("post a receive: {why}"))?;
        side.receives.used[place] = true;
        Ok(())
    }

    /// Calls a random verb, other than those that post work requests, which an application may call at any time.
    fn verb(&mut self, at: usize) {
        let Side { device, qpn, send_cq, recv_cq, srq, regions, .. } = &mut self.sides[at];
        // The verb may fail in the current state.
        let _ = match self.dice.below(7) {
            0 => device.to_sqd(*qpn),
            1 => device.to_rts(*qpn, SendAttributes::default(), self.now),
            2 => device.to_error(*qpn),
            3 => device.arm_cq(self.dice.pick(&[*send_cq, *recv_cq]), Notify::Any),
            4 => srq.map_or(Ok(()), |srq| device.arm_srq(srq, 4)),
            5 => device.rekey(regions[0].info.id).map(|info| regions[0].info = info),
            _ => {
                // The region that the peer may write is deregistered during the run, and replaced by another one.
                let old = regions[1].info;
                let bytes = device.deregister(old.id).unwrap_or_default();
                let pd = self.sides[at].pd;
                let device = &mut self.sides[at].device;
                device
                    .register(pd, bytes, Some(old.addr), Access::ALL)
                    .map(|info| self.sides[at].regions[1].info = info)
            }
        };
    }

    fn poll(&mut self, at: usize) -> Result<(), String> {
        let mut found = [Completion::BLANK; 8];
        let side = &mut self.sides[at];
        for (cq, sends) in [(side.send_cq, true), (side.recv_cq, false)] {
            loop {
                let count = side.device.poll_cq(cq, &mut found).map_err(|why| why.to_string())?;
                if count == 0 {
                    break;
                }
                for completion in &found[..count] {
                    let place = match sends {
                        true => side.sends.remove(&completion.wr_id).ok_or("a send completes twice")?,
                        false => Some(completion.wr_id as usize),
                    };
                    let success = completion.status == Status::Success;
                    self.summary.completed += u64::from(success);
                    self.summary.failed += u64::from(!success);
                    let places = if sends { &mut side.answers } else { &mut side.receives };
                    if let Some(place) = place {
                        if !std::mem::take(&mut places.used[place]) {
                            return Err(format!("side {at}: {completion:?} of nothing"));
                        }
                        let bytes = side.device.bytes(places.info.id).unwrap_or_default();
                        places.keep(place, bytes);
                    }
                }
            }
        }
        Ok(())
    }

    /// Resets a connection in the error state, and reconnects it.
    fn restart(&mut self) -> Result<(), String> {
        while self.sides.iter_mut().any(|side| side.device.poll_event().is_some()) {}
        let dead = |side: &Side| side.device.state(side.qpn) == Ok(State::Error);
        let stuck = self.dice.chance(1) && self.dice.chance(100);
        if !self.sides.iter().any(dead) && !stuck || self.dice.chance(900) {
            return Ok(());
        }
        self.summary.restarted += 1;
        for at in 0..2 {
            let Side { device, qpn, .. } = &mut self.sides[at];
            device.to_error(*qpn).map_err(|why| why.to_string())?;
            self.poll(at)?;
            let side = &mut self.sides[at];
            if !side.sends.is_empty() {
                return Err(format!("side {at}: sends {:?} were not flushed", side.sends));
            }
            if side.srq.is_none() && side.receives.used.contains(&true) {
                return Err(format!("side {at}: receives were not flushed"));
            }
            side.device.to_reset(side.qpn).map_err(|why| why.to_string())?;
        }
        self.connect();
        Ok(())
    }
}

impl Side {
    fn new(dice: &mut Dice, at: u8, service: Service, shared: bool, congestion: &str, in_flight: u32) -> Side {
        let timeouts = Timeouts { high: Time::from_us(1_000), low: Time::from_us(300), low_packets: 2, dynamic: None };
        let congestion = Congestion::named(congestion).unwrap_or_else(|| unreachable!());
        let config = DeviceConfig { seed: dice.word(), timeouts, congestion, in_flight, ..DeviceConfig::default() };
        let mut device = Device::new(config);
        let (pd, other) = (device.create_pd(), device.create_pd());
        let fail = |why| panic!("{why}");
        let send_cq = device.create_cq(1_024).unwrap_or_else(fail);
        let recv_cq = device.create_cq(1_024).unwrap_or_else(|why| panic!("{why}"));
        let srq = shared.then(|| device.create_srq(pd, PLACES as u32, 2).unwrap_or_else(|why| panic!("{why}")));
        let init = QpInit { service, send_cq, recv_cq, srq, capacities: Capacities::default(), signal_all: false };
        let qpn = device.create_qp(pd, init).unwrap_or_else(|why| panic!("{why}"));
        let mut region = |pd, access: Access| {
            let bytes = dice.bytes(REGION);
            let fixed = (!access.remote_write && !access.remote_atomic).then(|| bytes.clone());
            let info = device.register(pd, bytes, None, access).unwrap_or_else(|why| panic!("{why}"));
            Region { info, fixed }
        };
        let mut regions = vec![
            region(pd, Access { remote_read: true, ..Access::LOCAL_READ }),
            region(pd, Access::ALL),
            region(pd, Access::LOCAL),
            region(pd, Access { remote_write: true, ..Access::LOCAL }),
            region(other, Access::ALL),
        ];
        // A region of another protection domain: the peer has no access to it, whatever its permissions are.
        regions[4].fixed = device.bytes(regions[4].info.id).map(<[u8]>::to_vec);
        let mut places = || {
            let bytes = vec![0; PLACES * (PLACE + GAP)];
            let info = device.register(pd, bytes.clone(), None, Access::LOCAL).unwrap_or_else(|why| panic!("{why}"));
            Places { info, bytes, used: [false; PLACES] }
        };
        let (receives, answers) = (places(), places());
        let addr = SocketAddr::from(([10, 0, 0, at + 1], rnic_wire::ROCE_PORT));
        let batch = Batch::new(8);
        let sends = BTreeMap::new();
        Side { device, pd, batch, addr, send_cq, recv_cq, srq, qpn, psn: 0, regions, receives, answers, sends }
    }

    /// Checks that only permitted memory has changed.
    fn check(&self) -> Result<(), String> {
        for (at, region) in self.regions.iter().enumerate() {
            if let Some(fixed) = &region.fixed
                && self.device.bytes(region.info.id) != Some(&fixed[..])
            {
                return Err(format!("region {at} changed"));
            }
        }
        self.receives.check(&self.device).map_err(|what| format!("receives: {what}"))?;
        self.answers.check(&self.device).map_err(|what| format!("answers: {what}"))
    }
}

impl Places {
    fn sge(&self, place: usize, len: u32) -> Sge {
        Sge { addr: self.info.addr + (place * (PLACE + GAP)) as u64, len, lkey: self.info.lkey }
    }

    /// Records `bytes` as the expected bytes of a buffer that is no longer in use.
    fn keep(&mut self, place: usize, bytes: &[u8]) {
        let start = place * (PLACE + GAP);
        self.bytes[start..start + PLACE].copy_from_slice(&bytes[start..start + PLACE]);
    }

    fn check(&self, device: &Device) -> Result<(), String> {
        let bytes = device.bytes(self.info.id).unwrap_or_default();
        for (place, used) in self.used.iter().enumerate() {
            let start = place * (PLACE + GAP);
            let from = if *used { start + PLACE } else { start };
            if bytes[from..start + PLACE + GAP] != self.bytes[from..start + PLACE + GAP] {
                return Err(format!("place {place} changed, in use: {used}"));
            }
        }
        Ok(())
    }
}
