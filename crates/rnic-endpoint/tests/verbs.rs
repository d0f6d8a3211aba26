//! Tests verbs between two devices of this host, over UDP sockets.

use rnic_endpoint::{
    CompletionQueue, Config, Device, Error, MemoryRegion, Mode, PathOptions, ProtectionDomain, QpOptions, QueuePair,
};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Access, Completion, Notify, Opcode, SendOp, Service, Status, WindowKind};
use std::net::SocketAddr;

struct End {
    device: Device,
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
    domain: ProtectionDomain,
}

/// Opens a device with a queue pair and a memory region of `len` bytes.
fn end(service: Service, mode: Mode, len: usize) -> End {
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let device = Device::open_at(address, Config { mode, ..Config::default() }).unwrap();
    let cq = device.completion_queue(256).unwrap();
    let domain = device.protection_domain();
    let region = domain.register(vec![0; len], Access::ALL).unwrap();
    let qp = domain.queue_pair(&QpOptions { service, ..QpOptions::new(&cq) }).unwrap();
    End { device, cq, qp, region, domain }
}

fn pair(service: Service, mode: Mode, len: usize) -> (End, End) {
    let (a, b) = (end(service, mode, len), end(service, mode, len));
    let options = PathOptions { mtu: Some(1_024), ..PathOptions::default() };
    a.qp.connect(&b.qp.address(), &options).unwrap();
    b.qp.connect(&a.qp.address(), &options).unwrap();
    (a, b)
}

/// Waits for the next completion at `here`, while `there` makes progress, too.
fn complete(here: &End, there: &End) -> Completion {
    let mut out = [Completion::BLANK];
    for _ in 0..2_000_000 {
        if here.cq.poll(&mut out).unwrap() == 1 {
            return out[0];
        }
        there.device.progress().unwrap();
        std::thread::yield_now();
    }
    panic!("nothing completes: {:?} {:?}", here.device.counters(), there.device.counters());
}

fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ salt).collect()
}

#[test]
fn every_operation_of_every_service_in_both_modes() {
    const LEN: usize = 300_001;
    for service in [Service::Rc, Service::Irn] {
        for mode in [Mode::Polled, Mode::Thread] {
            let (a, b) = pair(service, mode, LEN);
            let data = pattern(LEN, 7);
            a.region.write(0, &data).unwrap();
            let all = a.region.slice(0, LEN).unwrap();
            let (addr, rkey) = (b.region.addr(), b.region.rkey());
            a.qp.post(1, SendOp::Write { addr, rkey }, &[all]).unwrap();
            assert_eq!(complete(&a, &b).status, Status::Success, "{service:?} {mode:?}");
            b.region.with(|bytes| assert_eq!(bytes, data));
            a.region.with_mut(|bytes| bytes.fill(0));
            a.qp.post(2, SendOp::Read { addr, rkey }, &[all]).unwrap();
            let read = complete(&a, &b);
            assert_eq!((read.status, read.opcode, read.byte_len as usize), (Status::Success, Opcode::Read, LEN));
            a.region.with(|bytes| assert_eq!(bytes, data));
            b.region.write(0, &40_u64.to_ne_bytes()).unwrap();
            let word = a.region.slice(8, 8).unwrap();
            a.qp.post(3, SendOp::FetchAdd { addr, rkey, add: 2 }, &[word]).unwrap();
            assert_eq!(complete(&a, &b).opcode, Opcode::FetchAdd);
            let mut fetched = [0; 8];
            a.region.read(8, &mut fetched).unwrap();
            assert_eq!(u64::from_ne_bytes(fetched), 40);
            b.qp.post_recv(9, &[b.region.slice(16, 1_000).unwrap()]).unwrap();
            a.qp.post(4, SendOp::SendImm(0xdead), &[a.region.slice(100, 600).unwrap()]).unwrap();
            assert_eq!(complete(&a, &b).opcode, Opcode::Send);
            let received = complete(&b, &a);
            assert_eq!((received.wr_id, received.byte_len, received.imm), (9, 600, Some(0xdead)));
            b.region.with(|bytes| assert_eq!(bytes[..8], 42_u64.to_ne_bytes()));
            b.region.with(|bytes| assert_eq!(bytes[16..616], data[100..700]));
            a.qp.post(5, SendOp::Write { addr, rkey: rkey ^ 1 }, &[word]).unwrap();
            assert_eq!(complete(&a, &b).status, Status::RemoteAccess);
        }
    }
}

#[test]
fn waiting_sleeps_until_something_completes() {
    let (a, b) = pair(Service::Irn, Mode::Thread, 64);
    let mut out = [Completion::BLANK];
    assert_eq!(b.cq.wait(&mut out, Time::from_ms(5)).unwrap(), 0);
    b.qp.post_recv(1, &[b.region.slice(0, 64).unwrap()]).unwrap();
    let waiting = std::thread::spawn({
        let cq = b.cq.clone();
        move || {
            let mut out = [Completion::BLANK];
            (cq.wait(&mut out, Time::from_ms(10_000)).unwrap(), out[0].byte_len)
        }
    });
    a.qp.post(1, SendOp::Send, &[a.region.slice(0, 33).unwrap()]).unwrap();
    assert_eq!(waiting.join().unwrap(), (1, 33));
    assert_eq!(a.cq.wait(&mut out, Time::from_ms(10_000)).unwrap(), 1);
}

#[test]
fn one_completion_at_a_time_and_failures_are_errors() {
    let (a, b) = pair(Service::Rc, Mode::Thread, 64);
    assert!(a.cq.poll_one().unwrap().is_none());
    let early = a.cq.wait_one(Time::from_ms(5)).unwrap_err();
    assert_eq!(early.to_string(), "nothing completed within 5 ms");
    let (all, addr, rkey) = (a.region.slice(0, 64).unwrap(), b.region.addr(), b.region.rkey());
    a.qp.post(3, SendOp::Write { addr, rkey }, &[all]).unwrap();
    assert_eq!(a.cq.wait_one(Time::from_ms(10_000)).unwrap().wr_id, 3);
    a.qp.post(4, SendOp::Write { addr: addr + 1, rkey }, &[all]).unwrap();
    let refused = a.cq.wait_one(Time::from_ms(10_000)).unwrap_err();
    assert!(matches!(refused, Error::Failed { wr_id: 4, status: Status::RemoteAccess }), "{refused}");
    a.qp.post_recv(5, &[all]).unwrap();
    let flushed = a.cq.poll_one().unwrap_err();
    assert!(matches!(flushed, Error::Failed { wr_id: 5, status: Status::WorkRequestFlushed }), "{flushed}");
}

#[test]
fn bytes_come_back_and_nothing_of_them_stays() {
    let (a, b) = pair(Service::Rc, Mode::Polled, 64);
    let (addr, rkey) = (b.region.addr(), b.region.rkey());
    let End { region, device, .. } = b;
    assert_eq!(region.into_bytes(), vec![0; 64]);
    a.qp.post(1, SendOp::Write { addr, rkey }, &[a.region.slice(0, 64).unwrap()]).unwrap();
    let mut out = [Completion::BLANK];
    for _ in 0..2_000_000 {
        device.progress().unwrap();
        if a.cq.poll(&mut out).unwrap() == 1 {
            break;
        }
    }
    // The peer's queue pair was destroyed with `b`, so the request gets no response, or the region is refused.
    assert_ne!(out[0].status, Status::Success);
}

/// The timer that ends the retries sends no packet, but it generates a completion.
#[test]
fn a_failure_after_the_last_retry_wakes_those_who_wait() {
    for service in [Service::Rc, Service::Irn] {
        let (a, b) = pair(service, Mode::Thread, 64);
        let (addr, rkey) = (b.region.addr(), b.region.rkey());
        b.device.shut_down();
        let (sender, woken) = std::sync::mpsc::channel();
        let cq = a.cq.clone();
        let waiting = std::thread::spawn(move || {
            futures::executor::block_on(cq.completions(Notify::Any)).unwrap();
            sender.send("future").unwrap();
        });
        a.qp.post(1, SendOp::Write { addr, rkey }, &[a.region.slice(0, 64).unwrap()]).unwrap();
        woken.recv_timeout(std::time::Duration::from_secs(30)).expect("the future resolves");
        waiting.join().unwrap();
        let failed = a.cq.poll_one().unwrap_err();
        assert!(matches!(failed, Error::Failed { status: Status::TransportRetryExceeded, .. }), "{failed}");
    }
}

/// The packet of the second request is due long after the first one. By this time its memory region no longer exists.
#[test]
fn a_failure_without_a_packet_wakes_those_who_wait() {
    let (a, _b) = pair(Service::Irn, Mode::Thread, 64);
    let gone = a.device.protection_domain();
    let options = QpOptions { service: Service::Irn, ..QpOptions::new(&a.cq) };
    let [from, to] = [(); 2].map(|()| gone.queue_pair(&options).unwrap());
    from.connect(&to.address(), &PathOptions::default()).unwrap();
    to.connect(&from.address(), &PathOptions::default()).unwrap();
    from.set_rate(Some(BitRate::from_bps(2_000))).unwrap();
    let region = gone.register(vec![0; 8], Access::ALL).unwrap();
    let target = gone.register(vec![0; 8], Access::ALL).unwrap();
    let op = SendOp::Write { addr: target.addr(), rkey: target.rkey() };
    for wr_id in 1..=2 {
        from.post(wr_id, op, &[region.slice(0, 8).unwrap()]).unwrap();
    }
    assert_eq!(a.cq.wait_one(Time::from_ms(30_000)).unwrap().wr_id, 1);
    drop(region);
    let (sender, woken) = std::sync::mpsc::channel();
    let cq = a.cq.clone();
    let waiting = std::thread::spawn(move || {
        futures::executor::block_on(cq.completions(Notify::Any)).unwrap();
        sender.send(()).unwrap();
    });
    woken.recv_timeout(std::time::Duration::from_secs(30)).expect("the future resolves");
    waiting.join().unwrap();
    let failed = a.cq.poll_one().unwrap_err();
    assert!(matches!(failed, Error::Failed { wr_id: 2, status: Status::LocalProtection }), "{failed}");
}

/// A peer reads and writes through a window, over protected packets, until the window is invalidated or dropped.
#[test]
fn windows_give_access_until_they_are_taken_back() {
    for mode in [Mode::Polled, Mode::Thread] {
        let (a, b) = pair(Service::Irn, mode, 64);
        let access = Access { bind_window: true, ..Access::LOCAL };
        let domain = &b.domain;
        let region = domain.register(vec![5; 4_096], access).unwrap();
        let window = domain.window(WindowKind::Type2).unwrap();
        let rights = Access { remote_read: true, remote_write: true, ..Access::LOCAL_READ };
        let rkey = b.qp.bind(1, &window, &region, 100..132, rights).unwrap();
        assert_eq!((complete(&b, &a).opcode, window.rkey()), (Opcode::Bind, rkey));
        assert!(b.qp.bind(1, &window, &region, 4_000..5_000, rights).is_err());
        let op = SendOp::Read { addr: region.addr() + 100, rkey };
        a.qp.post(2, op, &[a.region.slice(0, 32).unwrap()]).unwrap();
        assert_eq!(complete(&a, &b).status, Status::Success);
        a.region.with(|bytes| assert_eq!(bytes[..32], [5; 32]));
        b.qp.invalidate(3, rkey).unwrap();
        assert_eq!(complete(&b, &a).opcode, Opcode::LocalInvalidate);
        a.qp.post(4, op, &[a.region.slice(0, 32).unwrap()]).unwrap();
        assert_eq!(complete(&a, &b).status, Status::RemoteAccess);
        // A region can be taken back although a window is bound to it.
        drop(window);
        assert_eq!(region.into_bytes().len(), 4_096);
    }
}
