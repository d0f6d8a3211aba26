//! Tests of the order in which a device sends, and handles ACKs and other packets.

use rnic_endpoint::port::loopback::{LoopbackConfig, LoopbackPort, pair};
use rnic_endpoint::{
    Access, Acknowledge, CompletionQueue, Config, Device, MemoryRegion, Mode, PathOptions, QpOptions, QueuePair,
    Security, SendOp, Status, Time,
};
use rnic_verbs::{Completion, Opcode};

struct End {
    device: Device,
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
}

fn end(port: LoopbackPort) -> End {
    let config = Config {
        mode: Mode::Polled,
        acknowledge: Acknowledge::WithNextPoll,
        security: Security::None,
        ..Config::default()
    };
    let device = Device::on_port(Box::new(port), config).unwrap();
    let cq = device.completion_queue(16).unwrap();
    let domain = device.protection_domain();
    let region = domain.register(vec![7; 4_096], Access::ALL).unwrap();
    let qp = domain.queue_pair(&QpOptions::new(&cq)).unwrap();
    End { device, cq, qp, region }
}

fn connected() -> [End; 2] {
    let (here, there) = pair(LoopbackConfig::default());
    let ends = [end(here), end(there)];
    let options = PathOptions { mtu: Some(1_024), ..PathOptions::default() };
    ends[0].qp.connect(&ends[1].qp.address(), &options).unwrap();
    ends[1].qp.connect(&ends[0].qp.address(), &options).unwrap();
    ends
}

/// The next `N` completions of a device.
fn completions<const N: usize>(end: &End) -> [Completion; N] {
    std::array::from_fn(|_| end.cq.wait_one(Time::from_ms(20_000)).unwrap())
}

/// The reply to a message is longer than the message's ACK, and is sent before the ACK in the same system call. As with
/// a NIC, the program gets the completion of its message before the reply.
#[test]
fn a_message_completes_before_its_answer() {
    let [asking, answering] = connected();
    let all = |end: &End| end.region.slice(0, 512).unwrap();
    for end in [&asking, &answering] {
        end.qp.post_recv(1, &[all(end)]).unwrap();
    }
    asking.qp.post(2, SendOp::Send, &[all(&asking)]).unwrap();
    asking.device.progress().unwrap();
    // This round ends after the message, whose ACK the next one sends.
    answering.device.progress().unwrap();
    assert_eq!(completions::<1>(&answering)[0].opcode, Opcode::Recv);
    answering.qp.post(3, SendOp::Send, &[all(&answering)]).unwrap();
    answering.device.progress().unwrap();
    let order = completions::<2>(&asking).map(|completion| (completion.wr_id, completion.status));
    assert_eq!(order, [(2, Status::Success), (1, Status::Success)]);
}

/// An ACK behind the response to an RDMA Read keeps its place: in front of the response, it would mean that the
/// response is lost.
#[test]
fn an_ack_does_not_overtake_a_response() {
    let [asking, answering] = connected();
    let (addr, rkey) = (answering.region.addr(), answering.region.rkey());
    asking.qp.post(1, SendOp::Read { addr, rkey }, &[asking.region.slice(0, 512).unwrap()]).unwrap();
    // Its packet is as long as that of the read, so that both arrive together, and their answers leave together.
    asking.qp.post(2, SendOp::Write { addr, rkey }, &[]).unwrap();
    asking.device.progress().unwrap();
    answering.device.progress().unwrap();
    answering.device.progress().unwrap();
    let order = completions::<2>(&asking).map(|completion| (completion.wr_id, completion.status));
    assert_eq!(order, [(1, Status::Success), (2, Status::Success)]);
    let counters = asking.device.counters();
    assert_eq!((counters.verbs.retransmitted, counters.verbs.timeouts), (0, 0));
}

/// Both devices have many queue pairs, each of which sends a message. A round that sends several messages receives
/// several messages: if it received only one, as it does for a lone message, the other messages would wait until they
/// are retransmitted.
#[test]
fn a_round_receives_as_much_as_it_sends() {
    const PAIRS: usize = 64;
    let (here, there) = pair(LoopbackConfig::default());
    let ends = [end(here), end(there)];
    let queues: [_; 2] = std::array::from_fn(|at| ends[at].device.completion_queue(2 * PAIRS as u32).unwrap());
    let qps = [0, 1].map(|at| {
        let domain = ends[at].device.protection_domain();
        let qp = || domain.queue_pair(&QpOptions::new(&queues[at])).unwrap();
        (0..PAIRS).map(|_| qp()).collect::<Vec<_>>()
    });
    for (own, other) in [(0, 1), (1, 0)] {
        for (qp, peer) in qps[own].iter().zip(&qps[other]) {
            qp.connect(&peer.address(), &PathOptions::default()).unwrap();
            qp.post_recv(1, &[]).unwrap();
        }
    }
    for qp in qps.iter().flatten() {
        qp.post(2, SendOp::Send, &[]).unwrap();
    }
    // A round sends 4 batches: 16 rounds for the messages, and as many for their ACKs.
    for _ in 0..2 * PAIRS / 4 + 2 {
        for end in &ends {
            end.device.progress().unwrap();
        }
    }
    for (cq, end) in queues.iter().zip(&ends) {
        let mut out = [Completion::BLANK; 3 * PAIRS];
        assert_eq!(cq.poll(&mut out).unwrap(), 2 * PAIRS);
        assert_eq!(end.device.counters().verbs.retransmitted, 0);
    }
}
