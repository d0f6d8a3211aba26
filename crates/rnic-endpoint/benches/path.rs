//! What a packet costs: CPU time of both ends together, in one thread, so that neither waits for the other and nothing else that the
//! host does matters much.
//!
//! ```sh
//! cargo bench -p rnic-endpoint --bench path
//! ```
//!
//! A line holds CPU nanoseconds per packet and gigabytes of payload per CPU second, the medians of several repetitions, over ports in memory
//! (what this program costs) and over UDP sockets of the loopback device (and the kernel). The lines "plain" are datagrams of the same
//! length without a transport.

#![allow(missing_docs, reason = "a program, not a library")]

use rnic_endpoint::clock::thread_cpu_time;
use rnic_endpoint::port::loopback::{self, LoopbackConfig};
use rnic_endpoint::port::{TrafficClass, UdpConfig};
use rnic_endpoint::{
    Batch, CompletionQueue, Config, Device, MemoryRegion, Mode, PathOptions, Port, QpOptions, QueuePair, UdpPort,
};
use rnic_verbs::{Access, Completion, Data, Opcode, Qpn, SendFlags, SendOp, SendRequest, Service, Status};
use std::io::IoSlice;
use std::net::SocketAddr;

const REPEAT: usize = 7;
const BYTES: usize = 64 << 20;
const NOTHING: Completion = Completion {
    wr_id: 0,
    status: Status::Success,
    opcode: Opcode::Send,
    byte_len: 0,
    imm: None,
    invalidated: None,
    qpn: Qpn(0),
};

type Ports = fn() -> (Box<dyn Port>, Box<dyn Port>);

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

/// CPU nanoseconds for each of `count`, the median of several.
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
    println!("{what:<44} {ns:>8.1} ns/packet  {:>7.2} GB/s", packet as f64 / ns);
}

fn plain(name: &str, ports: Ports, packet: usize) {
    let (mut a, mut b) = ports();
    // Headers and ICRC around the payload.
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
    line(&format!("{name} plain {packet}"), packet, ns);
}

struct End {
    device: Device,
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
}

fn end(port: Box<dyn Port>, service: Service, len: usize) -> End {
    let config = Config { mode: Mode::Polled, ..Config::default() };
    let device = Device::on_port(port, config).expect("a device");
    let cq = device.completion_queue(4_096).expect("a queue");
    let domain = device.protection_domain();
    let region = domain.register(vec![7; len], Access::ALL).expect("memory");
    let qp = domain.queue_pair(&QpOptions { service, ..QpOptions::new(&cq) }).expect("a queue pair");
    End { device, cq, qp, region }
}

fn pair(ports: Ports, service: Service, mtu: u32, len: usize) -> (End, End) {
    let (a, b) = ports();
    let (a, b) = (end(a, service, len), end(b, service, len));
    let options = PathOptions { mtu: Some(mtu), ..PathOptions::default() };
    a.qp.connect(&b.qp.address(), &options).expect("connected");
    b.qp.connect(&a.qp.address(), &options).expect("connected");
    (a, b)
}

/// Operations of `len` bytes, up to `depth` at a time.
fn carry_out(a: &End, b: &End, len: usize, count: usize, depth: usize, op: impl Fn() -> SendOp) {
    let place = [a.region.slice(0, len).expect("within")];
    let (mut posted, mut done) = (0, 0);
    let mut out = [NOTHING; 64];
    while done < count {
        let room = (count - posted).min(depth - (posted - done));
        let flags = SendFlags::SIGNALED;
        let requests: Vec<SendRequest<'_>> =
            (0..room).map(|_| SendRequest { wr_id: 0, op: op(), data: Data::Gather(&place), flags }).collect();
        posted += a.qp.post_sends(&requests).expect("posted");
        b.device.progress().expect("progress");
        done += a.cq.poll(&mut out).expect("polled");
        b.cq.poll(&mut out).expect("polled");
    }
}

fn verbs(name: &str, ports: Ports, service: Service, mtu: u32, len: usize) {
    let (a, b) = pair(ports, service, mtu, len);
    let (addr, rkey) = (b.region.addr(), b.region.rkey());
    let packet = (mtu as usize).min(len);
    let packets = BYTES / packet / if len < 1_024 { 4 } else { 1 };
    let count = packets * packet / len;
    for (op, make) in [("write", SendOp::Write { addr, rkey }), ("read", SendOp::Read { addr, rkey })] {
        if len < 1_024 && op == "read" {
            continue;
        }
        let depth = if len < 1_024 { 64 } else { 8 };
        let ns = median(packets, || carry_out(&a, &b, len, count, depth, || make));
        line(&format!("{name} {service:?} {op} {len} bytes, MTU {mtu}"), packet, ns);
        let retransmitted = a.device.counters().verbs.retransmitted + b.device.counters().verbs.retransmitted;
        if retransmitted > 0 {
            println!("    {retransmitted} retransmitted");
        }
    }
    // One message at a time.
    let count = 20_000;
    let ns = median(count, || carry_out(&a, &b, packet.min(64), count, 1, || SendOp::Write { addr, rkey }));
    println!("{:<44} {ns:>8.1} ns/message", format!("{name} {service:?} write 64 bytes, one at a time"));
}

fn main() {
    let only = std::env::args().nth(1).filter(|argument| !argument.starts_with('-')).unwrap_or_default();
    let all: [(&str, Ports); 2] = [("memory", in_memory), ("udp", over_udp)];
    for (name, ports) in all {
        for (packet, mtu, len) in
            [(1_024, 1_024, 1 << 20), (4_096, 4_096, 1 << 20), (8_192, 8_192, 1 << 20), (64, 1_024, 64)]
        {
            for service in [Service::Irn, Service::Rc] {
                if service == Service::Irn && format!("{name} plain").contains(&only) {
                    plain(name, ports, packet);
                }
                if (service == Service::Irn || mtu < 8_192) && format!("{name} {service:?} {mtu} {len}").contains(&only)
                {
                    verbs(name, ports, service, mtu, len);
                }
            }
        }
    }
}
