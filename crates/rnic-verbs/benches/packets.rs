//! Measures the time per data packet of `rnic-verbs` without sockets: two devices exchange batches in memory. The time
//! includes both ends and the acknowledgements, but not the ICRCs.
//!
//! To count instructions, run `valgrind --tool=callgrind --toggle-collect='*exchange*' BENCH --test CASE`, and divide
//! the result by the number of packets of one run.
#![allow(missing_docs, reason = "a program, not a library")]

use divan::Bencher;
use divan::counter::ItemsCount;
use rnic_transport::Time;
use rnic_verbs::{
    Access, Batch, Capacities, Completion, Connection, CqId, Data, Device, DeviceConfig, MrInfo, QpInit, Qpn,
    RecvRequest, SendAttributes, SendFlags, SendOp, SendRequest, Service, Sge, Status,
};
use std::net::SocketAddr;

/// Number of messages in one run.
const MESSAGES: u64 = 4_096;
const REGION: usize = 1 << 20;
const MTU: u32 = 4_096;
/// Maximum number of messages outstanding.
const WINDOW: u64 = 64;

fn main() {
    divan::main();
}

struct Side {
    device: Device,
    batch: Batch,
    addr: SocketAddr,
    cq: CqId,
    qpn: Qpn,
    memory: MrInfo,
}

impl Side {
    fn new(at: u8, service: Service) -> Side {
        let mut device = Device::new(DeviceConfig { seed: at.into(), ..DeviceConfig::default() });
        let pd = device.create_pd();
        let cq = device.create_cq(1_024).unwrap();
        let capacities = Capacities { send_wr: 256, recv_wr: 256, ..Capacities::default() };
        let init = QpInit { service, send_cq: cq, recv_cq: cq, srq: None, capacities, signal_all: false };
        let qpn = device.create_qp(pd, init).unwrap();
        let memory = device.register(pd, vec![0; REGION], None, Access::ALL).unwrap();
        Side { device, batch: Batch::new(64), addr: SocketAddr::from(([10, 0, 0, at], 4791)), cq, qpn, memory }
    }

    fn sge(&self, len: u32) -> [Sge; 1] {
        [Sge { addr: self.memory.addr, len, lkey: self.memory.lkey }]
    }

    fn receive(&mut self, len: u32) {
        let scatter = self.sge(len);
        self.device.post_recv(self.qpn, &RecvRequest { wr_id: 0, scatter: &scatter }).unwrap();
    }

    /// Polls all completions; returns their number.
    fn poll(&mut self) -> usize {
        let mut found = [Completion::BLANK; 32];
        let mut sum = 0;
        loop {
            let count = self.device.poll_cq(self.cq, &mut found).unwrap();
            assert!(found[..count].iter().all(|completion| completion.status == Status::Success));
            sum += count;
            if count < found.len() {
                return sum;
            }
        }
    }
}

struct Pair {
    sides: [Side; 2],
    now: Time,
    /// Number of packets exchanged so far, of both sides.
    packets: u64,
}

impl Pair {
    fn new(service: Service) -> Pair {
        let mut sides = [Side::new(1, service), Side::new(2, service)];
        let now = Time::from_us(1);
        for at in 0..2 {
            let (peer, peer_qpn) = (sides[1 - at].addr, sides[1 - at].qpn);
            let connection = Connection {
                peer,
                peer_qpn,
                peer_source_port: None,
                protected: false,
                peer_in_flight: rnic_verbs::MAX_IN_FLIGHT,
                path_mtu: MTU,
                recv_psn: 0,
                max_dest_rd_atomic: 16,
                min_rnr_timer: 1,
                dscp: 0,
            };
            let Side { device, qpn, .. } = &mut sides[at];
            device.to_init(*qpn, Access::ALL).unwrap();
            device.to_rtr(*qpn, connection, now).unwrap();
            device.to_rts(*qpn, SendAttributes::default(), now).unwrap();
        }
        Pair { sides, now, packets: 0 }
    }

    /// Moves all packets that side `from` has to send to the other device. Returns whether there were any.
    fn carry(&mut self, from: usize) -> bool {
        let [a, b] = &mut self.sides;
        let (from, to) = if from == 0 { (a, b) } else { (b, a) };
        let mut any = false;
        while from.device.transmit(self.now, &mut from.batch) {
            any = true;
            self.packets += from.batch.count() as u64;
            let segment = from.batch.segment();
            for packet in from.batch.bytes().chunks(segment) {
                let _ = to.device.receive(self.now, from.addr, false, packet);
            }
        }
        any
    }
}

/// Executes `count` operations `op` of `len` bytes, posted by side 0.
#[inline(never)]
fn exchange(pair: &mut Pair, op: SendOp, len: u32, count: u64) {
    let sges = pair.sides[0].sge(len);
    let (mut posted, mut done) = (0, 0);
    while done < count {
        while posted < count && posted < done + WINDOW {
            if op.takes_receive() {
                pair.sides[1].receive(len);
            }
            posted += 1;
            let flags = SendFlags { signaled: posted % 16 == 0, ..SendFlags::default() };
            let Side { device, qpn, .. } = &mut pair.sides[0];
            let request = SendRequest { wr_id: posted, op, data: Data::Gather(&sges), flags };
            device.post_send(*qpn, &request).unwrap();
        }
        pair.now += Time::from_us(1);
        while pair.carry(0) | pair.carry(1) {}
        done += 16 * pair.sides[0].poll() as u64;
        pair.sides[1].poll();
    }
}

fn bench(bencher: Bencher, service: Service, op: fn(&MrInfo) -> SendOp, len: u32) {
    let mut pair = Pair::new(service);
    let op = op(&pair.sides[1].memory);
    exchange(&mut pair, op, len, WINDOW);
    let packets = MESSAGES * u64::from(len.div_ceil(MTU).max(1));
    bencher.counter(ItemsCount::new(packets)).bench_local(|| exchange(&mut pair, op, len, MESSAGES));
}

fn write(memory: &MrInfo) -> SendOp {
    SendOp::Write { addr: memory.addr, rkey: memory.rkey }
}

fn send(_: &MrInfo) -> SendOp {
    SendOp::Send
}

fn read(memory: &MrInfo) -> SendOp {
    SendOp::Read { addr: memory.addr, rkey: memory.rkey }
}

const LENGTHS: [u32; 3] = [64, 4_096, 65_536];

#[divan::bench(args = LENGTHS)]
fn rc_write(bencher: Bencher, len: u32) {
    bench(bencher, Service::Rc, write, len);
}

#[divan::bench(args = LENGTHS)]
fn irn_write(bencher: Bencher, len: u32) {
    bench(bencher, Service::Irn, write, len);
}

#[divan::bench(args = LENGTHS)]
fn rc_send(bencher: Bencher, len: u32) {
    bench(bencher, Service::Rc, send, len);
}

#[divan::bench(args = LENGTHS)]
fn irn_send(bencher: Bencher, len: u32) {
    bench(bencher, Service::Irn, send, len);
}

#[divan::bench(args = LENGTHS)]
fn rc_read(bencher: Bencher, len: u32) {
    bench(bencher, Service::Rc, read, len);
}

#[divan::bench(args = LENGTHS)]
fn irn_read(bencher: Bencher, len: u32) {
    bench(bencher, Service::Irn, read, len);
}
