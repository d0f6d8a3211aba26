//! Tests congestion control with CE marks: the kernel's packet filter marks packets that leave one network namespace
//! for another.

use rnic_endpoint::{CompletionQueue, Config, Device, MemoryRegion, Mode, PathOptions, QpOptions, QueuePair};
use rnic_netns::{Namespace, Pair, mark_some_packets, with_pair};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Access, Completion, Congestion, SendOp, Service, Status};
use std::net::IpAddr;

const BYTES: usize = 2 << 20;

struct End {
    device: Device,
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
}

fn end(namespace: &Namespace, address: IpAddr, service: Service, control: &str) -> End {
    namespace.run(|| {
        let mut config = Config { mode: Mode::Thread, ..Config::default() };
        config.verbs.line_rate = BitRate::from_gbps(10);
        config.verbs.congestion = Congestion::named(control).unwrap();
        let device = Device::open(address, config).unwrap();
        let cq = device.completion_queue(16).unwrap();
        let domain = device.protection_domain();
        let region = domain.register((0..BYTES).map(|at| (at * 7) as u8).collect(), Access::ALL).unwrap();
        let qp = domain.queue_pair(&QpOptions { service, ..QpOptions::new(&cq) }).unwrap();
        End { device, cq, qp, region }
    })
}

/// Connects two ends, and writes all bytes of one end's region to the other by RDMA Writes.
fn transfer(a: &End, b: &End) {
    let options = PathOptions::default();
    a.qp.connect(&b.qp.address(), &options).unwrap();
    b.qp.connect(&a.qp.address(), &options).unwrap();
    b.region.with_mut(|bytes| bytes.fill(0));
    let write = SendOp::Write { addr: b.region.addr(), rkey: b.region.rkey() };
    a.qp.post(1, write, &[a.region.slice(0, BYTES).unwrap()]).unwrap();
    let mut out = [Completion::BLANK];
    assert_eq!(a.cq.wait(&mut out, Time::from_ms(60_000)).unwrap(), 1);
    assert_eq!((out[0].wr_id, out[0].status), (1, Status::Success));
    let same = a.region.with(<[u8]>::to_vec) == b.region.with(<[u8]>::to_vec);
    assert!(same, "every byte arrives");
}

#[test]
fn marks_of_the_network_come_back_as_notifications() {
    with_pair(1_500, |pair| {
        if !mark_some_packets(&pair.a) {
            return;
        }
        for (from, to) in [(Pair::A4, Pair::B4), (Pair::A6, Pair::B6)] {
            for service in [Service::Rc, Service::Irn] {
                let open = |control| (end(&pair.a, from, service, control), end(&pair.b, to, service, control));
                let (a, b) = open("dcqcn");
                transfer(&a, &b);
                let (sent, received) = (a.device.counters().verbs, b.device.counters().verbs);
                let what = format!("{service:?} to {to}: {sent:?} {received:?}");
                assert!(received.marked > 0 && received.cnps_sent > 0, "{what}");
                assert!(received.cnps_sent <= received.marked, "{what}");
                assert!((1..=received.cnps_sent).contains(&sent.cnps_received), "{what}");
                drop((a, b));
                // With a congestion control that ignores marks, packets carry Not-ECT, so the filter marks none.
                let (a, b) = open("none");
                transfer(&a, &b);
                assert_eq!((b.device.counters().verbs.marked, a.device.counters().verbs.cnps_received), (0, 0));
            }
        }
    });
}
