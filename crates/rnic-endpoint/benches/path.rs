//! Measures the CPU time of a packet, at sender and receiver together. Both run in one thread, so that neither waits
//! for the other, and other load on the host hardly matters.
//!
//! ```sh
//! cargo bench -p rnic-endpoint --bench path                     # -- TEXT: only lines that contain the text
//! ```
//!
//! Each line of the output holds nanoseconds of CPU time per packet, and gigabytes of payload per second of CPU time,
//! as medians of several repetitions. Measurements over ports in memory show the cost of rnic alone; measurements over
//! UDP sockets of the loopback device include the kernel. The lines "plain" are for datagrams of the same length
//! without a transport protocol.

#![allow(missing_docs, reason = "a program, not a library")]

use rnic_endpoint::clock::thread_cpu_time;
use rnic_endpoint::port::loopback::{self, LoopbackConfig};
use rnic_endpoint::port::{Faults, FaultyPort, Probability, TrafficClass, UdpConfig};
use rnic_endpoint::{
    Batch, CompletionQueue, Config, Device, MemoryRegion, Mode, PathOptions, Port, QpOptions, QueuePair, UdpPort,
};
use rnic_verbs::{Access, Completion, Data, SendFlags, SendOp, SendRequest, Service};
use std::io::IoSlice;
use std::net::SocketAddr;

const REPEAT: usize = 7;
const BYTES: usize = 64 << 20;
type Ports = fn() -> (Box<dyn Port>, Box<dyn Port>);
type Network = fn(Box<dyn Port>) -> Box<dyn Port>;

fn unharmed(port: Box<dyn Port>) -> Box<dyn Port> {
    port
}

/// Adds faults to a port: it drops 1 % of the packets that arrive.
fn lossy(port: Box<dyn Port>) -> Box<dyn Port> {
    let loss = Probability::new(0.01).expect("a probability");
    Box::new(FaultyPort::new(port, Faults::default(), Faults { loss, ..Faults::default() }, 1))
}

fn in_memory() -> (Box<dyn Port>, Box<dyn Port>) {
    let (a, b) = loopback::pair(LoopbackConfig::default());
    (Box::new(a), Box::new(b))
}

fn over_udp() -> (Box<dyn Port>, Box<dyn Port>) {
    let port = || {
        let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        Box::new(UdpPort::bind(address, &UdpConfig::default()).expect("a port"))
    };
    (port(), port())
}

/// Runs `work`, which handles `count` packets, several times; returns the median CPU time per packet in nanoseconds.
fn median(count: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..REPEAT)
        .map(|_| {
            let start = thread_cpu_time();
            work();
            thread_cpu_time().saturating_sub(start).as_us() * 1e3 / count as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[REPEAT / 2]
}

fn line(what: &str, packet: usize, ns: f64) {
    println!("{what:<52} {ns:>8.1} ns/packet  {:>7.2} GB/s", packet as f64 / ns);
}

fn plain(what: &str, ports: Ports, packet: usize) {
    let (mut a, mut b) = ports();
    // The datagrams are as long as RDMA packets with this payload: 44 bytes are for headers and ICRC.
    let segment = packet + 44;
    let batch = (65_000 / segment).min(64);
    let data = vec![0; batch * segment];
    let (destination, source_port, count) = (b.local_addr(), a.source_port(0), BYTES / packet);
    let ns = median(count, || {
        let mut got = 0;
        for _ in 0..count.div_ceil(batch) {
            let data = [IoSlice::new(&data)];
            let (source_address, traffic_class) = (None, TrafficClass::default());
            a.send(&Batch { destination, source_port, source_address, traffic_class, segment, data: &data })
                .expect("room");
            while let Some(arrival) = b.receive().expect("the port works") {
                got += arrival.segments().len();
            }
        }
        assert!(got >= count, "{got} of {count}");
    });
    line(what, packet, ns);
}

struct End {
    device: Device,
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
}

fn end(port: Box<dyn Port>, service: Service, len: usize) -> End {
    let mut config = Config { mode: Mode::Polled, ..Config::default() };
    if let Some(us) = std::env::args().nth(2).and_then(|us| us.parse().ok()) {
        config.verbs.timeouts.dynamic = Some(rnic_transport::Time::from_us(us));
    }
    let device = Device::on_port(port, config).expect("a device");
    let cq = device.completion_queue(4_096).expect("a queue");
    let domain = device.protection_domain();
    let region = domain.register(vec![7; len], Access::ALL).expect("memory");
    let qp = domain.queue_pair(&QpOptions { service, ..QpOptions::new(&cq) }).expect("a queue pair");
    End { device, cq, qp, region }
}

fn pair(ports: Ports, network: Network, service: Service, mtu: u32, len: usize) -> (End, End) {
    let (a, b) = ports();
    let (a, b) = (end(network(a), service, len), end(network(b), service, len));
    let options = PathOptions { mtu: Some(mtu), ..PathOptions::default() };
    a.qp.connect(&b.qp.address(), &options).expect("connected");
    b.qp.connect(&a.qp.address(), &options).expect("connected");
    (a, b)
}

/// Runs `count` operations of `len` bytes, with up to `depth` outstanding.
fn carry_out(a: &End, b: &End, len: usize, count: usize, depth: usize, op: SendOp) {
    let place = [a.region.slice(0, len).expect("within")];
    let (mut posted, mut done) = (0, 0);
    let mut out = [Completion::BLANK; 64];
    while done < count {
        let room = (count - posted).min(depth - (posted - done));
        let flags = SendFlags::SIGNALED;
        let requests: Vec<SendRequest<'_>> =
            (0..room).map(|_| SendRequest { wr_id: 0, op, data: Data::Gather(&place), flags }).collect();
        posted += a.qp.post_sends(&requests).expect("posted");
        b.device.progress().expect("progress");
        done += a.cq.poll(&mut out).expect("polled");
        b.cq.poll(&mut out).expect("polled");
    }
}

/// The benchmark, with the text that selects its lines.
struct Bench {
    only: String,
}

impl Bench {
    fn wants(&self, what: &str) -> bool {
        what.contains(&self.only)
    }

    fn verbs(&self, name: &str, ports: Ports, service: Service, mtu: u32, len: usize) {
        let packet = (mtu as usize).min(len);
        let packets = BYTES / packet / if len < 1_024 { 4 } else { 1 };
        let count = packets * packet / len;
        let depth = if len < 1_024 { 64 } else { 8 };
        for (op, loss, network) in
            [("write", "", unharmed as Network), ("read", "", unharmed), ("write", ", 1 % loss", lossy)]
        {
            let what = format!("{name} {service:?} {op} {len} bytes, MTU {mtu}{loss}");
            if !self.wants(&what) || (len < 1_024 && op == "read") || (!loss.is_empty() && service == Service::Rc) {
                continue;
            }
            let (a, b) = pair(ports, network, service, mtu, len);
            let op = a.op(op, &b);
            let ns = median(packets, || carry_out(&a, &b, len, count, depth, op));
            line(&what, packet, ns);
            let retransmitted = a.device.counters().verbs.retransmitted + b.device.counters().verbs.retransmitted;
            if retransmitted > 0 {
                println!("    {retransmitted} retransmitted");
            }
        }
        for op in ["write", "read"] {
            let what = format!("{name} {service:?} {op} 64 bytes, one at a time");
            if len < 1_024 && self.wants(&what) {
                let (a, b) = pair(ports, unharmed, service, mtu, len);
                let ns = median(20_000, || carry_out(&a, &b, 64, 20_000, 1, a.op(op, &b)));
                println!("{what:<52} {ns:>8.1} ns/message");
            }
        }
    }
}

impl End {
    fn op(&self, name: &str, peer: &End) -> SendOp {
        let (addr, rkey) = (peer.region.addr(), peer.region.rkey());
        if name == "read" { SendOp::Read { addr, rkey } } else { SendOp::Write { addr, rkey } }
    }
}

fn main() {
    let only = std::env::args().nth(1).filter(|argument| !argument.starts_with('-')).unwrap_or_default();
    let bench = Bench { only };
    let all: [(&str, Ports); 2] = [("memory", in_memory), ("udp", over_udp)];
    for (name, ports) in all {
        for (packet, mtu, len) in
            [(1_024, 1_024, 1 << 20), (4_096, 4_096, 1 << 20), (8_192, 8_192, 1 << 20), (64, 1_024, 64)]
        {
            let what = format!("{name} plain {packet}");
            if bench.wants(&what) {
                plain(&what, ports, packet);
            }
            for service in [Service::Irn, Service::Rc] {
                if service == Service::Irn || mtu < 8_192 {
                    bench.verbs(name, ports, service, mtu, len);
                }
            }
        }
    }
}
