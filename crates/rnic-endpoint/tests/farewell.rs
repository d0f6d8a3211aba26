//! Tests that a device which goes does not leave its peers waiting for ACKs.

use rnic_endpoint::{
    Access, Acknowledge, CompletionQueue, Config, Device, MemoryRegion, Mode, PathOptions, QpOptions, QueuePair,
    SendOp, Status, Time,
};
use rnic_verbs::Completion;

const PATIENCE: Time = Time::from_ms(20_000);
/// More queue pairs than a round of the driver sends batches.
const PAIRS: usize = 16;
/// Bytes of a message, which consists of four packets. After these packets the round continues, so that one round
/// receives several messages.
const LEN: usize = 4_096;

struct End {
    device: Device,
    cq: CompletionQueue,
    qps: Vec<QueuePair>,
    region: MemoryRegion,
}

fn end() -> End {
    let config = Config { mode: Mode::Polled, acknowledge: Acknowledge::WithNextPoll, ..Config::default() };
    let device = Device::open_at("127.0.0.1:0".parse().unwrap(), config).unwrap();
    let cq = device.completion_queue(4 * PAIRS as u32).unwrap();
    let domain = device.protection_domain();
    let region = domain.register(vec![0; LEN], Access::ALL).unwrap();
    let qps = (0..PAIRS).map(|_| domain.queue_pair(&QpOptions::new(&cq)).unwrap()).collect();
    End { device, cq, qps, region }
}

/// One poll receives a message of each queue pair. Then the program destroys the queue pairs, in the order of creation
/// or in the reverse order: the ACKs of all messages are sent before that.
#[test]
fn acks_of_all_queue_pairs_leave_before_the_first_is_destroyed() {
    for reversed in [false, true] {
        let (sender, mut receiver) = (end(), end());
        let options = PathOptions { mtu: Some(1_024), ..PathOptions::default() };
        for (from, to) in sender.qps.iter().zip(&receiver.qps) {
            from.connect(&to.address(), &options).unwrap();
            to.connect(&from.address(), &options).unwrap();
            to.post_recv(0, &[receiver.region.slice(0, LEN).unwrap()]).unwrap();
        }
        for from in &sender.qps {
            from.post(1, SendOp::Send, &[sender.region.slice(0, LEN).unwrap()]).unwrap();
        }
        // All messages are in the receiver's socket before it receives the first.
        while sender.device.progress().unwrap() {}
        let mut out = [Completion::BLANK; PAIRS];
        let mut received = 0;
        while received < PAIRS {
            received += receiver.cq.wait(&mut out, PATIENCE).unwrap();
        }
        if reversed {
            receiver.qps.reverse();
        }
        drop(receiver);
        for _ in &sender.qps {
            let sent = sender.cq.wait_one(PATIENCE).unwrap();
            assert_eq!((sent.wr_id, sent.status), (1, Status::Success), "reversed: {reversed}");
        }
    }
}
