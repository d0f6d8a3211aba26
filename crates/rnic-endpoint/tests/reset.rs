//! Tests that queue pairs can be reset and connected again.

use rnic_endpoint::{
    Access, Address, CompletionQueue, Config, Device, Error, MemoryRegion, Mode, PathOptions, QpOptions, QueuePair,
    Security, SendOp, Service, State, Status, Time,
};
use rnic_verbs::{Completion, Opcode};

const LEN: usize = 20_000;
const PATIENCE: Time = Time::from_ms(20_000);

struct End {
    device: Device,
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
}

fn end(seed: u64, service: Service, security: Security, mode: Mode) -> End {
    let mut config = Config { security, mode, fixed_seed: true, ..Config::default() };
    // The seed determines the first PSNs. Random ones could be equal to those of late packets, once in 10,000 times.
    config.verbs.seed = seed;
    let device = Device::open_at("127.0.0.1:0".parse().unwrap(), config).unwrap();
    let cq = device.completion_queue(64).unwrap();
    let domain = device.protection_domain();
    let region = domain.register(vec![0; LEN], Access::ALL).unwrap();
    let qp = domain.queue_pair(&QpOptions { service, ..QpOptions::new(&cq) }).unwrap();
    End { device, cq, qp, region }
}

fn connect(a: &End, b: &End) {
    let options = PathOptions { mtu: Some(1_024), ..PathOptions::default() };
    a.qp.connect(&b.qp.address(), &options).unwrap();
    b.qp.connect(&a.qp.address(), &options).unwrap();
}

fn reset(a: &End, b: &End) {
    for end in [a, b] {
        end.qp.reset().unwrap();
    }
}

/// Sends a message filled with `byte`, and checks that it arrives.
fn talk(from: &End, to: &End, byte: u8) {
    from.region.with_mut(|bytes| bytes.fill(byte));
    to.qp.post_recv(u64::from(byte), &[to.region.slice(0, LEN).unwrap()]).unwrap();
    from.qp.post(7, SendOp::Send, &[from.region.slice(0, LEN).unwrap()]).unwrap();
    let received = to.cq.wait_one(PATIENCE).unwrap();
    assert_eq!((received.wr_id, received.byte_len as usize), (u64::from(byte), LEN));
    assert_eq!(from.cq.wait_one(PATIENCE).unwrap().wr_id, 7);
    to.region.with(|bytes| assert!(bytes.iter().all(|is| *is == byte)));
}

/// The completions of `end` that come without delay: work request, status.
fn completions(end: &End) -> Vec<(u64, Status)> {
    let mut out = [Completion::BLANK; 16];
    let count = end.cq.poll(&mut out).unwrap();
    out[..count].iter().map(|completion| (completion.wr_id, completion.status)).collect()
}

#[test]
fn a_queue_pair_is_connected_again_to_the_same_peer_and_to_another() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        for security in [Security::None, Security::Encrypted] {
            let [a, b, c] = [1, 2, 3].map(|seed| end(seed, service, security, Mode::Thread));
            connect(&a, &b);
            talk(&a, &b, 1);
            talk(&b, &a, 2);
            let old = a.qp.address();
            a.qp.post_recv(10, &[a.region.slice(0, 8).unwrap()]).unwrap();
            a.qp.post_recv(11, &[a.region.slice(8, 8).unwrap()]).unwrap();
            let new = a.qp.reset().unwrap();
            assert_eq!(completions(&a), [(10, Status::WorkRequestFlushed), (11, Status::WorkRequestFlushed)]);
            assert_eq!((a.qp.state().unwrap(), a.qp.address()), (State::Init, new));
            // Only what belongs to one connection is new.
            assert_eq!(new, Address { psn: new.psn, key: new.key, ..old });
            assert!(new.psn != old.psn && (security == Security::None || new.key != old.key), "{old:?} {new:?}");
            b.qp.reset().unwrap();
            connect(&a, &b);
            for byte in 3..6 {
                talk(&a, &b, byte);
                talk(&b, &a, byte);
            }
            a.qp.reset().unwrap();
            connect(&a, &c);
            talk(&a, &c, 6);
            talk(&c, &a, 7);
        }
    }
}

#[test]
fn a_queue_pair_in_the_error_state_is_usable_after_a_reset() {
    for service in [Service::Rc, Service::Irn] {
        for security in [Security::None, Security::Authenticated] {
            let [a, b] = [1, 2].map(|seed| end(seed, service, security, Mode::Thread));
            connect(&a, &b);
            let op = SendOp::Write { addr: b.region.addr(), rkey: b.region.rkey() ^ 1 };
            a.qp.post(1, op, &[a.region.slice(0, 8).unwrap()]).unwrap();
            let error = a.cq.wait_one(PATIENCE).unwrap_err();
            assert!(matches!(error, Error::Failed { status: Status::RemoteAccess, .. }), "{error}");
            assert_eq!(a.qp.state().unwrap(), State::Error);
            reset(&a, &b);
            connect(&a, &b);
            talk(&a, &b, 1);
            talk(&b, &a, 2);
        }
    }
}

/// Requests are on their way when the queue pairs are reset, repeatedly.
#[test]
fn requests_on_their_way_are_flushed_and_do_not_reach_the_next_connection() {
    for service in [Service::Rc, Service::Irn] {
        for security in [Security::None, Security::Authenticated] {
            let [a, b] = [1, 2].map(|seed| end(seed, service, security, Mode::Thread));
            for round in 0..20 {
                connect(&a, &b);
                talk(&a, &b, 1);
                for wr_id in 0..16 {
                    let op = SendOp::Write { addr: b.region.addr(), rkey: b.region.rkey() };
                    a.qp.post(wr_id, op, &[a.region.slice(0, LEN).unwrap()]).unwrap();
                }
                // Which one is reset first changes which packets are late.
                let (first, second) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
                first.qp.reset().unwrap();
                second.qp.reset().unwrap();
                let done = completions(&a);
                let ids: Vec<u64> = done.iter().map(|(wr_id, _)| *wr_id).collect();
                assert_eq!(ids, (0..16).collect::<Vec<_>>(), "{done:?}");
                // The first requests may have succeeded.
                assert!(done.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{done:?}");
                b.region.write(0, &[9; LEN]).unwrap();
                connect(&a, &b);
                b.region.with(|bytes| assert!(bytes.iter().all(|byte| *byte == 9), "a late packet was executed"));
                talk(&b, &a, 3);
                b.region.with(|bytes| assert!(bytes.iter().all(|byte| *byte == 3), "a late packet was executed"));
                reset(&a, &b);
            }
        }
    }
}

#[test]
fn a_queue_pair_without_connection_can_be_reset_and_one_with_a_silent_peer() {
    let [a, b] = [1, 2].map(|seed| end(seed, Service::Irn, Security::Authenticated, Mode::Thread));
    let first = a.qp.address();
    let second = a.qp.reset().unwrap();
    assert_ne!(first.key, second.key);
    connect(&a, &b);
    // Only the peer resets: the requests of this end fail.
    b.qp.reset().unwrap();
    a.qp.post(1, SendOp::Send, &[a.region.slice(0, 8).unwrap()]).unwrap();
    let error = a.cq.wait_one(PATIENCE).unwrap_err();
    assert!(matches!(error, Error::Failed { status: Status::TransportRetryExceeded, .. }), "{error}");
    // The old address belongs to no queue pair any more.
    a.qp.reset().unwrap();
    let [c, d] = [3, 4].map(|seed| end(seed, Service::Irn, Security::Authenticated, Mode::Thread));
    c.qp.connect(&Address { key: first.key, ..a.qp.address() }, &PathOptions::default()).unwrap();
    a.qp.connect(&c.qp.address(), &PathOptions::default()).unwrap();
    c.qp.post(2, SendOp::Send, &[c.region.slice(0, 8).unwrap()]).unwrap();
    assert!(matches!(c.cq.wait_one(PATIENCE), Err(Error::Failed { status: Status::TransportRetryExceeded, .. })));
    assert!(a.device.counters().driver.forged > 0);
    a.qp.reset().unwrap();
    connect(&a, &d);
    talk(&d, &a, 4);
}

#[test]
fn without_a_progress_thread_waiting_packets_are_sent_before_a_reset() {
    let [a, b] = [1, 2].map(|seed| end(seed, Service::Rc, Security::Authenticated, Mode::Polled));
    connect(&a, &b);
    let op = SendOp::Write { addr: b.region.addr(), rkey: b.region.rkey() };
    a.qp.post(1, op, &[a.region.slice(0, LEN).unwrap()]).unwrap();
    let mut done = None;
    for _ in 0..100_000 {
        b.device.progress().unwrap();
        done = done.or(a.cq.poll_one().unwrap());
        if done.is_some() {
            break;
        }
    }
    assert_eq!(done.unwrap().opcode, Opcode::Write);
    reset(&a, &b);
    connect(&a, &b);
    a.qp.post(2, op, &[a.region.slice(0, LEN).unwrap()]).unwrap();
    let next = (0..100_000).find_map(|_| {
        b.device.progress().unwrap();
        a.cq.poll_one().unwrap()
    });
    assert_eq!(next.unwrap().wr_id, 2);
}
