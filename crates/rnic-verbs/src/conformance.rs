//! Checks that every implementation of the trait [`Verbs`] must pass: the state machine in virtual time, the NIC on
//! sockets (`rnic-endpoint`), and a simulated NIC.
//!
//! A test passes to [`check`] a function that creates a [`Fabric`]: two NICs of the implementation, with a network
//! between them. `check` panics when one of its checks fails.

use crate::Verbs;
use crate::types::{
    Access, AccessError, Capacities, Completion, Connection, CqId, Data, Event, MrInfo, Opcode, Pd, QpInit, Qpn,
    RecvRequest, SendAttributes, SendFlags, SendOp, SendRequest, Service, Sge, State, Status, Transition, VerbsError,
};
use rnic_transport::{BitRate, Time};
use std::net::SocketAddr;

/// Two NICs under test, and the network between them.
pub trait Fabric {
    /// Returns NIC `side`, 0 or 1.
    fn nic(&mut self, side: usize) -> &mut dyn Verbs;
    /// Returns the IP address and UDP port of NIC `side`, to which the other NIC connects.
    fn addr(&self, side: usize) -> SocketAddr;
    /// Moves packets between the NICs, and lets a little time pass. Time must pass even if no packet moves.
    fn progress(&mut self);
}

/// Runs all checks of an implementation. Each check takes two new NICs with a network from `make`; the network must
/// lose no packets.
///
/// # Panics
/// If a check fails.
pub fn check(make: &mut dyn FnMut() -> Box<dyn Fabric>) {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        every_operation(Pair::new(make(), service));
        unsignalled_sends(Pair::new(make(), service));
        batches(Pair::new(make(), service));
        rate_limits(Pair::new(make(), service));
        error_reset_and_reconnect(Pair::new(make(), service));
    }
    for service in [Service::Rc, Service::Irn] {
        refused_by_the_peer(Pair::new(make(), service));
        drained(Pair::new(make(), service));
    }
    no_response(Pair::new(make(), Service::Rc));
    destroyed_objects(Pair::new(make(), Service::Rc));
}

/// Number of calls of [`Fabric::progress`] after which a check stops waiting, and fails.
const PATIENCE: u32 = 20_000_000;
/// Length in bytes of the memory region of each NIC.
const REGION: usize = 1 << 16;
/// Path MTU in bytes of the connections in the checks.
const MTU: u32 = 1_024;
/// Minimum number of bytes that a data packet has besides its payload: Ethernet, IPv4, UDP and base transport headers,
/// ICRC and frame check sequence.
const HEADERS: u64 = 14 + 20 + 8 + 12 + 4 + 4;

struct Side {
    pd: Pd,
    cq: CqId,
    qpn: Qpn,
    region: MrInfo,
}

struct Pair {
    fabric: Box<dyn Fabric>,
    service: Service,
    sides: [Side; 2],
    /// First PSN of both sides in the next connection. It is far from the PSNs of the previous connection, because
    /// packets of that connection may still arrive, and must not be taken for packets of the new connection.
    psn: u32,
}

impl Pair {
    fn new(mut fabric: Box<dyn Fabric>, service: Service) -> Pair {
        let sides = [0, 1].map(|side| {
            let nic = fabric.nic(side);
            let pd = nic.create_pd().unwrap();
            let cq = nic.create_cq(64).unwrap();
            let region = nic.register(pd, vec![0; REGION], None, Access::ALL).unwrap();
            assert_eq!(region.len, REGION as u64);
            let capacities = Capacities { send_wr: 16, recv_wr: 16, ..Capacities::default() };
            let init = QpInit { service, send_cq: cq, recv_cq: cq, srq: None, capacities, signal_all: false };
            let qpn = nic.create_qp(pd, init).unwrap();
            let info = nic.query_qp(qpn).unwrap();
            assert_eq!((info.state, info.service, info.capacities), (State::Reset, service, capacities));
            assert_eq!((info.connection, info.rate, info.sends, info.receives), (None, None, 0, 0));
            Side { pd, cq, qpn, region }
        });
        let mut pair = Pair { fabric, service, sides, psn: 0xff_fff0 };
        pair.connect();
        pair
    }

    /// Connects the queue pairs: brings both sides from RESET to RTS.
    fn connect(&mut self) {
        for side in 0..2 {
            let qpn = self.sides[side].qpn;
            let connection = Connection {
                peer: self.fabric.addr(1 - side),
                peer_qpn: self.sides[1 - side].qpn,
                peer_source_port: None,
                protected: false,
                peer_in_flight: crate::MAX_IN_FLIGHT,
                path_mtu: MTU,
                recv_psn: self.psn,
                max_dest_rd_atomic: 4,
                min_rnr_timer: 1,
                dscp: 0,
            };
            // Retransmission timeout code 15: 4.096 us * 2^15 = 134 ms. With less, a device whose thread a busy machine
            // does not run for a while fails.
            let attributes =
                SendAttributes { send_psn: self.psn, timeout: 15, retry_count: 2, ..SendAttributes::default() };
            let nic = self.fabric.nic(side);
            nic.modify_qp(qpn, Transition::Init(Access::ALL)).unwrap();
            nic.modify_qp(qpn, Transition::ReadyToReceive(connection)).unwrap();
            nic.modify_qp(qpn, Transition::ReadyToSend(attributes)).unwrap();
            let info = nic.query_qp(qpn).unwrap();
            assert_eq!((info.state, info.connection), (State::ReadyToSend, Some(connection)));
        }
        self.psn = (self.psn + 0x20_0000) & 0xff_ffff;
    }

    fn sge(&self, side: usize, offset: u64, len: u32) -> Sge {
        let region = &self.sides[side].region;
        Sge { addr: region.addr + offset, len, lkey: region.lkey }
    }

    /// The virtual address and the remote key of side 1's memory region, which side 0 accesses.
    fn target(&self) -> (u64, u32) {
        (self.sides[1].region.addr, self.sides[1].region.rkey)
    }

    fn write_op(&self, offset: u64) -> SendOp {
        let (addr, rkey) = self.target();
        SendOp::Write { addr: addr + offset, rkey }
    }

    fn try_post(&mut self, wr_id: u64, op: SendOp, offset: u64, len: u32, signaled: bool) -> Result<(), VerbsError> {
        let gather = [self.sge(0, offset, len)];
        let flags = SendFlags { signaled, ..SendFlags::default() };
        let request = SendRequest { wr_id, op, data: Data::Gather(&gather), flags };
        self.fabric.nic(0).post_send(self.sides[0].qpn, &request)
    }

    fn post(&mut self, wr_id: u64, op: SendOp, offset: u64, len: u32) {
        self.try_post(wr_id, op, offset, len, true).unwrap();
    }

    fn recv(&mut self, side: usize, wr_id: u64, offset: u64, len: u32) {
        let scatter = [self.sge(side, offset, len)];
        self.fabric.nic(side).post_recv(self.sides[side].qpn, &RecvRequest { wr_id, scatter: &scatter }).unwrap();
    }

    /// Polls one completion of NIC `side`; `None` if none waits. Checks that its timestamp is between `since` and now.
    fn poll(&mut self, side: usize, since: Time) -> Option<Completion> {
        let mut out = [Completion::BLANK];
        let nic = self.fabric.nic(side);
        let count = nic.poll_cq(self.sides[side].cq, &mut out).unwrap();
        let now = nic.now();
        let [completion] = out;
        (count == 1).then(|| {
            let in_time = since <= completion.time && completion.time <= now;
            assert!(in_time, "{completion:?} is not from between {since} and {now}");
            assert_eq!(completion.qpn, self.sides[side].qpn);
            completion
        })
    }

    /// Waits for the next completion of NIC `side`. Checks that its timestamp is not before `since`.
    fn complete(&mut self, side: usize, since: Time) -> Completion {
        for _ in 0..PATIENCE {
            if let Some(completion) = self.poll(side, since) {
                return completion;
            }
            self.fabric.progress();
        }
        panic!("{:?}: no completion at side {side}", self.service);
    }

    /// Waits for the next completion of NIC 0. Checks that it reports success of request `wr_id` with operation
    /// `opcode`.
    fn succeed(&mut self, wr_id: u64, opcode: Opcode, since: Time) -> Completion {
        let completion = self.complete(0, since);
        let seen = (completion.wr_id, completion.status, completion.opcode);
        assert_eq!(seen, (wr_id, Status::Success, opcode), "{:?}", self.service);
        completion
    }

    fn now(&mut self, side: usize) -> Time {
        self.fabric.nic(side).now()
    }

    fn read(&mut self, side: usize, offset: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.fabric.nic(side).read_memory(self.sides[side].region.id, offset, &mut out).unwrap();
        out
    }

    fn fill(&mut self, side: usize, offset: usize, data: &[u8]) {
        self.fabric.nic(side).write_memory(self.sides[side].region.id, offset, data).unwrap();
    }

    /// Lets time pass until `data` has arrived in the memory region of NIC 1 at `offset`.
    fn arrive(&mut self, offset: usize, data: &[u8]) {
        for _ in 0..PATIENCE {
            if self.read(1, offset, data.len()) == data {
                return;
            }
            self.fabric.progress();
        }
        panic!("{:?}: data does not arrive", self.service);
    }
}

fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ salt).collect()
}

fn every_operation(mut pair: Pair) {
    let data = pattern(5_000, 1);
    pair.fill(0, 0, &data);
    let start = pair.now(0);
    pair.post(1, pair.write_op(100), 0, 5_000);
    let first = pair.succeed(1, Opcode::Write, start);
    pair.arrive(100, &data);
    assert_eq!([pair.read(1, 99, 1), pair.read(1, 5_100, 1)], [[0], [0]]);

    pair.recv(1, 20, 10_000, 4_000);
    pair.recv(1, 21, 15_000, 4_000);
    let receiver = pair.now(1);
    let (addr, rkey) = pair.target();
    pair.post(2, SendOp::WriteImm { addr: addr + 6_000, rkey, imm: 77 }, 0, 1_000);
    pair.post(3, SendOp::SendImm(78), 0, 3_000);
    let second = pair.succeed(2, Opcode::Write, start);
    let third = pair.succeed(3, Opcode::Send, start);
    assert!(first.time <= second.time && second.time <= third.time);
    let imm = pair.complete(1, receiver);
    assert_eq!((imm.wr_id, imm.opcode, imm.byte_len), (20, Opcode::RecvWithImmediate, 1_000));
    let send = pair.complete(1, receiver);
    assert_eq!((send.wr_id, send.opcode, send.byte_len), (21, Opcode::Recv, 3_000));
    assert_eq!((imm.imm, send.imm), (Some(77), Some(78)));
    assert!(imm.time <= send.time);
    assert_eq!(pair.read(1, 6_000, 1_000), data[..1_000]);
    assert_eq!(pair.read(1, 15_000, 3_000), data[..3_000]);
    assert_eq!(pair.read(1, 10_000, 4_000), [0; 4_000], "a Write with Immediate places nothing in the receive");

    if pair.service == Service::Uc {
        let refused = pair.try_post(4, SendOp::Read { addr, rkey }, 0, 100, true);
        assert!(matches!(refused, Err(VerbsError::Unsupported(_))), "{refused:?}");
        return;
    }
    pair.post(4, SendOp::Read { addr: addr + 100, rkey }, 20_000, 5_000);
    pair.post(5, SendOp::FetchAdd { addr: addr + 40_000, rkey, add: 5 }, 30_000, 8);
    pair.post(6, SendOp::CompareSwap { addr: addr + 40_000, rkey, compare: 5, swap: 9 }, 30_008, 8);
    assert_eq!(pair.succeed(4, Opcode::Read, start).byte_len, 5_000);
    pair.succeed(5, Opcode::FetchAdd, start);
    pair.succeed(6, Opcode::CompareSwap, start);
    assert_eq!(pair.read(0, 20_000, 5_000), data);
    assert_eq!(pair.read(0, 30_000, 16), [0u64.to_ne_bytes(), 5u64.to_ne_bytes()].concat());
    assert_eq!(pair.read(1, 40_000, 8), 9u64.to_ne_bytes());
}

fn unsignalled_sends(mut pair: Pair) {
    let start = pair.now(0);
    pair.fill(0, 0, &pattern(100, 3));
    for wr_id in 1..=3 {
        pair.try_post(wr_id, pair.write_op(100 * wr_id), 0, 100, false).unwrap();
    }
    pair.post(4, pair.write_op(0), 0, 100);
    // The completion of a signalled request implies that all earlier requests are complete.
    pair.succeed(4, Opcode::Write, start);
    assert_eq!(pair.poll(0, start), None);
    assert_eq!(pair.fabric.nic(0).query_qp(pair.sides[0].qpn).unwrap().sends, 0);
    for at in 0..4 {
        pair.arrive(100 * at, &pattern(100, 3));
    }
}

fn batches(mut pair: Pair) {
    let start = pair.now(0);
    let (qpn, op) = (pair.sides[0].qpn, pair.write_op(0));
    let gather = [pair.sge(0, 0, 64)];
    let request = |wr_id| SendRequest { wr_id, op, data: Data::Gather(&gather), flags: SendFlags::SIGNALED };
    let requests: Vec<SendRequest<'_>> = (0..16).map(request).collect();
    assert_eq!(pair.fabric.nic(0).post_sends(qpn, &requests), Ok(16));
    for wr_id in 0..16 {
        pair.succeed(wr_id, Opcode::Write, start);
    }
    // Requests beyond the queue's capacity are not posted, nor are requests that follow a refused request.
    let scatter = [pair.sge(0, 0, 64)];
    let receive = |wr_id| RecvRequest { wr_id, scatter: &scatter };
    let receives: Vec<RecvRequest<'_>> = (0..20).map(receive).collect();
    assert_eq!(pair.fabric.nic(0).post_recvs(qpn, &receives), Ok(16));
    assert_eq!(pair.fabric.nic(0).post_recv(qpn, &receives[16]), Err(VerbsError::Full("receive queue")));
    let beyond = [pair.sge(0, REGION as u64 - 1, 2)];
    let wrong = SendRequest { data: Data::Gather(&beyond), ..request(31) };
    let refused = pair.fabric.nic(0).post_sends(qpn, &[request(30), wrong, request(32)]);
    assert_eq!(refused, Err(VerbsError::Memory { index: 0, why: AccessError::Bounds }));
    pair.succeed(30, Opcode::Write, start);
    assert_eq!(pair.poll(0, start), None);
}

fn rate_limits(mut pair: Pair) {
    const PACKETS: u32 = 12;
    let (qpn, info) = (pair.sides[0].qpn, pair.fabric.nic(0).query_device());
    assert!(info.rate_granularity.as_bps() > 0 && info.time_granularity > Time::ZERO);
    let zero = pair.fabric.nic(0).set_rate(qpn, Some(BitRate::from_bps(0)));
    assert!(matches!(zero, Err(VerbsError::Range { .. })), "{zero:?}");
    // The rate limit stays in effect across RESET and a new connection.
    let rate = pair.fabric.nic(0).set_rate(qpn, Some(BitRate::from_bps(100_000_000))).unwrap().unwrap();
    let least = 100_000_000u64.saturating_sub(info.rate_granularity.as_bps());
    assert!((least..=100_000_000).contains(&rate.as_bps()), "{rate}");
    for again in [false, true] {
        if again {
            for side in 0..2 {
                let qpn = pair.sides[side].qpn;
                pair.fabric.nic(side).modify_qp(qpn, Transition::Reset).unwrap();
            }
            pair.connect();
        }
        assert_eq!(pair.fabric.nic(0).query_qp(qpn).unwrap().rate, Some(rate));
        let start = pair.now(0);
        pair.post(1, pair.write_op(0), 0, MTU * PACKETS);
        let spent = pair.succeed(1, Opcode::Write, start).time - start;
        // The last packet leaves after the serialisation times of all packets before it.
        let shortest = rate.time_for((u64::from(MTU) + HEADERS) * u64::from(PACKETS - 1));
        assert!(spent >= shortest, "{PACKETS} packets took {spent}, at {rate} at least {shortest}");
    }
    assert_eq!(pair.fabric.nic(0).set_rate(qpn, None), Ok(None));
    assert_eq!(pair.fabric.nic(0).query_qp(qpn).unwrap().rate, None);
    let start = pair.now(0);
    pair.post(2, pair.write_op(0), 0, MTU);
    pair.succeed(2, Opcode::Write, start);
}

fn error_reset_and_reconnect(mut pair: Pair) {
    let qpn = pair.sides[0].qpn;
    // The rate is so low that the first message is still being sent when the queue pair goes into the error state.
    pair.fabric.nic(0).set_rate(qpn, Some(BitRate::from_bps(1_000_000))).unwrap();
    let start = pair.now(0);
    pair.recv(0, 10, 0, 100);
    pair.post(1, pair.write_op(0), 0, 10 * MTU);
    pair.try_post(2, pair.write_op(0), 0, MTU, false).unwrap();
    for _ in 0..10 {
        pair.fabric.progress();
    }
    pair.fabric.nic(0).modify_qp(qpn, Transition::Error).unwrap();
    assert_eq!(pair.fabric.nic(0).query_qp(qpn).unwrap().state, State::Error);
    // In the error state the queue pair accepts requests and completes them as flushed.
    pair.post(3, pair.write_op(0), 0, 8);
    pair.recv(0, 11, 0, 100);
    let mut flushed: Vec<u64> = (0..5)
        .map(|_| {
            let completion = pair.complete(0, start);
            assert_eq!(completion.status, Status::WorkRequestFlushed);
            completion.wr_id
        })
        .collect();
    // Send requests complete in order of posting. An unsignalled request that fails generates a completion too.
    assert!(flushed.iter().filter(|wr_id| **wr_id < 10).is_sorted());
    flushed.sort_unstable();
    assert_eq!(flushed, [1, 2, 3, 10, 11]);

    for side in 0..2 {
        let qpn = pair.sides[side].qpn;
        pair.fabric.nic(side).modify_qp(qpn, Transition::Reset).unwrap();
        let info = pair.fabric.nic(side).query_qp(qpn).unwrap();
        assert_eq!((info.state, info.connection, info.sends, info.receives), (State::Reset, None, 0, 0));
    }
    let refused = pair.try_post(4, pair.write_op(0), 0, 8, true);
    assert!(matches!(refused, Err(VerbsError::WrongState { state: State::Reset, .. })), "{refused:?}");
    pair.connect();
    pair.fabric.nic(0).set_rate(qpn, None).unwrap();
    let data = pattern(3_000, 9);
    pair.fill(0, 0, &data);
    let start = pair.now(0);
    pair.post(5, pair.write_op(30_000), 0, 3_000);
    pair.succeed(5, Opcode::Write, start);
    pair.arrive(30_000, &data);
}

fn refused_by_the_peer(mut pair: Pair) {
    let start = pair.now(0);
    let (addr, rkey) = pair.target();
    pair.post(1, pair.write_op(0), 0, 8);
    pair.try_post(2, SendOp::Write { addr: addr + REGION as u64, rkey }, 0, 8, false).unwrap();
    pair.post(3, pair.write_op(0), 0, 8);
    pair.succeed(1, Opcode::Write, start);
    for (wr_id, status) in [(2, Status::RemoteAccess), (3, Status::WorkRequestFlushed)] {
        let completion = pair.complete(0, start);
        assert_eq!((completion.wr_id, completion.status), (wr_id, status), "{:?}", pair.service);
    }
    let qpn = pair.sides[0].qpn;
    assert_eq!(pair.fabric.nic(0).query_qp(qpn).unwrap().state, State::Error);
    let events: Vec<Event> = std::iter::from_fn(|| pair.fabric.nic(0).poll_event()).collect();
    assert!(events.contains(&Event::QueuePairError(qpn, Status::RemoteAccess)), "{events:?}");
}

fn drained(mut pair: Pair) {
    let (qpn, start) = (pair.sides[0].qpn, pair.now(0));
    pair.post(1, pair.write_op(0), 0, 64);
    pair.succeed(1, Opcode::Write, start);
    pair.fabric.nic(0).modify_qp(qpn, Transition::SendQueueDrain).unwrap();
    let mut events = std::iter::from_fn(|| pair.fabric.nic(0).poll_event());
    assert!(events.any(|event| event == Event::SendQueueDrained(qpn)));
    pair.post(2, pair.write_op(0), 0, 64);
    for _ in 0..1_000 {
        pair.fabric.progress();
    }
    assert_eq!(pair.poll(0, start), None, "nothing begins while the send queue is drained");
    pair.fabric.nic(0).modify_qp(qpn, Transition::ReadyToSend(SendAttributes::default())).unwrap();
    pair.succeed(2, Opcode::Write, start);
}

fn no_response(mut pair: Pair) {
    let gone = pair.sides[1].qpn;
    pair.fabric.nic(1).destroy_qp(gone).unwrap();
    let start = pair.now(0);
    pair.post(1, pair.write_op(0), 0, 64);
    let completion = pair.complete(0, start);
    assert_eq!(completion.status, Status::TransportRetryExceeded);
    // The request times out three times, 134 ms each: after the first transmission and after two retries.
    assert!(completion.time - start >= Time::from_ms(402), "after {}", completion.time - start);
}

fn destroyed_objects(mut pair: Pair) {
    let Side { pd, cq, qpn, region } = &pair.sides[0];
    let (pd, cq, qpn, region) = (*pd, *cq, *qpn, *region);
    let nic = pair.fabric.nic(0);
    assert!(matches!(nic.destroy_cq(cq), Err(VerbsError::Busy { .. })));
    assert!(matches!(nic.destroy_pd(pd), Err(VerbsError::Busy { .. })));
    nic.destroy_qp(qpn).unwrap();
    nic.destroy_cq(cq).unwrap();
    assert_eq!(nic.deregister(region.id).map(|bytes| bytes.len()), Ok(REGION));
    nic.destroy_pd(pd).unwrap();
    let unknown = |result: Result<(), VerbsError>| assert!(matches!(result, Err(VerbsError::Unknown(_))), "{result:?}");
    unknown(nic.destroy_qp(qpn));
    unknown(nic.destroy_cq(cq));
    unknown(nic.destroy_pd(pd));
    unknown(nic.deregister(region.id).map(drop));
    unknown(nic.read_memory(region.id, 0, &mut []));
    unknown(nic.query_qp(qpn).map(drop));
    unknown(nic.set_rate(qpn, None).map(drop));
    unknown(nic.modify_qp(qpn, Transition::Error));
    unknown(nic.poll_cq(cq, &mut [Completion::BLANK]).map(drop));
    unknown(nic.register(pd, Vec::new(), None, Access::ALL).map(drop));
}
