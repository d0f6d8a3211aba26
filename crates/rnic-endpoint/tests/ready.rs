//! Tests the ways to wait for completions and events together with other work, and the timestamps of completions.

use futures::executor::block_on;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rnic_endpoint::{
    Access, CompletionQueue, Config, Device, Error, Event, MemoryRegion, Mode, Notify, PathOptions, QpOptions,
    QueuePair, ReadyFd, SendOp, Service, Status, Time, TimeSource,
};
use rnic_verbs::{Completion, Data, SendFlags, SendRequest};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

struct End {
    device: Device,
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
}

fn end(mode: Mode) -> End {
    let config = Config { mode, ..Config::default() };
    let device = Device::open_at("127.0.0.1:0".parse().unwrap(), config).unwrap();
    let cq = device.completion_queue(64).unwrap();
    let domain = device.protection_domain();
    let region = domain.register(vec![0; 64], Access::ALL).unwrap();
    let qp = domain.queue_pair(&QpOptions { service: Service::Irn, ..QpOptions::new(&cq) }).unwrap();
    End { device, cq, qp, region }
}

fn pair(mode: Mode) -> [End; 2] {
    let [a, b] = [end(mode), end(mode)];
    a.qp.connect(&b.qp.address(), &PathOptions::default()).unwrap();
    b.qp.connect(&a.qp.address(), &PathOptions::default()).unwrap();
    [a, b]
}

/// Whether the descriptor becomes readable within `ms` milliseconds.
fn readable(ready: &ReadyFd, ms: u16) -> bool {
    let mut fds = [PollFd::new(ready.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(ms)).unwrap();
    fds[0].revents().unwrap().contains(PollFlags::POLLIN)
}

/// A timeout that no test reaches, in milliseconds.
const LONG: u16 = 30_000;

fn send(from: &End, solicited: bool) {
    let (flags, data) = (SendFlags { solicited, ..SendFlags::SIGNALED }, Data::Inline(b"hello"));
    from.qp.post_send(&SendRequest { wr_id: 1, op: SendOp::Send, data, flags }).unwrap();
}

fn receive(to: &End, count: usize) {
    for _ in 0..count {
        to.qp.post_recv(2, &[to.region.slice(0, 64).unwrap()]).unwrap();
    }
}

fn take(cq: &CompletionQueue) -> usize {
    cq.poll(&mut [Completion::BLANK; 16]).unwrap()
}

#[test]
fn a_descriptor_is_readable_once_per_arming() {
    let [a, b] = pair(Mode::Thread);
    receive(&b, 3);
    let ready = b.cq.ready_fd(Notify::Any).unwrap();
    // It is not armed.
    assert!(!readable(&ready, 0));
    assert!(ready.arm().unwrap() && !readable(&ready, 0));
    send(&a, false);
    assert!(readable(&ready, LONG));
    // It stays readable until it is armed again, which says that there is a completion.
    assert!(readable(&ready, 0));
    assert!(!ready.arm().unwrap() && !readable(&ready, 0));
    assert_eq!(take(&b.cq), 1);
    for _ in 0..2 {
        assert!(ready.arm().unwrap());
        assert!(ready.arm().unwrap(), "to arm twice is to arm once");
        send(&a, false);
        assert!(readable(&ready, LONG));
        assert_eq!(take(&b.cq), 1);
    }
    assert!(ready.arm().unwrap() && !readable(&ready, 0));
}

/// Many completions, and a program that sleeps whenever there is none: none is missed.
#[test]
fn no_completion_is_missed() {
    const MESSAGES: usize = 3_000;
    let [a, b] = pair(Mode::Thread);
    receive(&b, 64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..MESSAGES {
                send(&a, false);
                a.cq.wait_one(Time::from_ms(u64::from(LONG))).unwrap();
            }
        });
        let ready = b.cq.ready_fd(Notify::Any).unwrap();
        let mut left = MESSAGES;
        while left > 0 {
            if ready.arm().unwrap() {
                assert!(readable(&ready, LONG), "{left} messages are missing");
            }
            let count = take(&b.cq);
            receive(&b, count);
            left -= count;
        }
    });
}

#[test]
fn solicited_completions_only() {
    let [a, b] = pair(Mode::Thread);
    receive(&b, 3);
    let ready = b.cq.ready_fd(Notify::Solicited).unwrap();
    assert!(ready.arm().unwrap());
    send(&a, false);
    // The ACK tells that the message has arrived.
    a.cq.wait_one(Time::from_ms(u64::from(LONG))).unwrap();
    assert!(!readable(&ready, 20));
    send(&a, true);
    assert!(readable(&ready, LONG));
    assert_eq!(take(&b.cq), 2);
    assert!(ready.arm().unwrap());
    b.qp.abort().unwrap();
    assert!(readable(&ready, LONG), "a failed request is urgent");
}

#[test]
fn without_a_progress_thread_another_thread_makes_progress() {
    let [a, b] = pair(Mode::Polled);
    receive(&b, 1);
    let ready = b.cq.ready_fd(Notify::Any).unwrap();
    assert!(ready.arm().unwrap());
    send(&a, false);
    a.device.progress().unwrap();
    assert!(!readable(&ready, 20), "no device has received the packet");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                b.device.wait(Time::from_ms(1)).unwrap();
            }
        });
        assert!(readable(&ready, LONG));
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(take(&b.cq), 1);
    // To arm makes progress too.
    receive(&b, 1);
    send(&a, false);
    a.device.progress().unwrap();
    let came = (0..1_000).any(|_| !ready.arm().unwrap());
    assert!(came && take(&b.cq) == 1);
}

#[test]
fn closing_the_device_ends_every_wait() {
    for mode in [Mode::Thread, Mode::Polled] {
        let [a, _] = pair(mode);
        let fds = [a.cq.ready_fd(Notify::Any).unwrap(), a.device.ready_fd().unwrap()];
        assert!(fds.iter().all(|ready| ready.arm().unwrap()));
        let device = a.device.clone();
        let waiting = std::thread::spawn(move || block_on(device.next_event()).unwrap_err());
        a.device.shut_down();
        for ready in &fds {
            assert!(readable(ready, LONG));
            assert!(matches!(ready.arm(), Err(Error::Closed(_))));
        }
        assert!(matches!(waiting.join().unwrap(), Error::Closed(_)));
    }
}

#[test]
fn asynchronous_events_are_awaited_like_completions() {
    for mode in [Mode::Thread, Mode::Polled] {
        let [a, b] = pair(mode);
        let ready = a.device.ready_fd().unwrap();
        assert!(ready.arm().unwrap() && !readable(&ready, 0));
        // The send queue is empty, so the event comes at once.
        a.qp.drain().unwrap();
        assert!(readable(&ready, LONG));
        assert!(!ready.arm().unwrap());
        assert_eq!(block_on(a.device.next_event()).unwrap(), Event::SendQueueDrained(a.qp.qpn()));
        assert!(ready.arm().unwrap());

        // The peer's request fails: an event at both ends, of which a packet tells the peer.
        let op = SendOp::Write { addr: a.region.addr(), rkey: a.region.rkey() ^ 1 };
        b.qp.post(1, op, &[b.region.slice(0, 8).unwrap()]).unwrap();
        let (sender, events) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for end in [&a, &b] {
                let sender = sender.clone();
                scope.spawn(move || {
                    loop {
                        match block_on(end.device.next_event()).unwrap() {
                            Event::QueuePairError(qpn, status) => return sender.send((qpn, status)).unwrap(),
                            _ => continue,
                        }
                    }
                });
            }
            let mut found = [events.recv().unwrap(), events.recv().unwrap()];
            found.sort_unstable();
            let mut expected = [&a, &b].map(|end| (end.qp.qpn(), Status::RemoteAccess));
            expected.sort_unstable();
            assert_eq!(found, expected);
        });
        assert!(readable(&ready, LONG));
    }
}

#[test]
fn a_shared_receive_queue_tells_at_once_that_it_is_short() {
    let a = end(Mode::Thread);
    let srq = a.device.protection_domain().shared_receive_queue(8, 1).unwrap();
    let device = a.device.clone();
    let waiting = std::thread::spawn(move || block_on(device.next_event()).unwrap());
    srq.arm(4).unwrap();
    assert!(matches!(waiting.join().unwrap(), Event::SharedReceiveLimit(_)));
}

#[test]
fn a_timestamp_is_the_time_at_which_the_request_completed() {
    for mode in [Mode::Thread, Mode::Polled] {
        let [a, b] = pair(mode);
        receive(&b, 2);
        let clocks = [a.device.clock(), b.device.clock()];
        let start = [clocks[0].now(), clocks[1].now()];
        let mut last = start;
        for _ in 0..2 {
            send(&a, false);
            let mut found = [None, None];
            while found.contains(&None) {
                for (end, found) in [&a, &b].into_iter().zip(&mut found) {
                    *found = found.or(end.cq.poll_one().unwrap());
                }
            }
            for side in 0..2 {
                let time = found[side].unwrap().time;
                assert!(last[side] <= time && time <= clocks[side].now(), "{mode:?}");
                last[side] = time;
            }
        }
        assert!(last[0] > start[0] && last[1] > start[1]);
    }
    // The completion arrives while no thread polls: its time is before the time of polling.
    let [a, b] = pair(Mode::Thread);
    receive(&b, 1);
    let ready = b.cq.ready_fd(Notify::Any).unwrap();
    assert!(ready.arm().unwrap());
    send(&a, false);
    assert!(readable(&ready, LONG));
    let woken = b.device.clock().now();
    // Nothing arms this descriptor: the call takes 5 ms.
    assert!(!readable(&a.device.ready_fd().unwrap(), 5));
    assert!(b.cq.poll_one().unwrap().unwrap().time <= woken);
    // Requests that the application flushes have the time of the call.
    receive(&b, 1);
    let before = b.device.clock().now();
    b.qp.abort().unwrap();
    let mut out = [Completion::BLANK];
    assert_eq!(b.cq.poll(&mut out).unwrap(), 1);
    assert!(out[0].status == Status::WorkRequestFlushed && out[0].time >= before);
}

/// The thread that moves packets sleeps without a timeout until the connection sets a timer, and no other event wakes
/// it.
#[test]
fn keep_alive_begins_with_the_connection() {
    let [a, b] = [end(Mode::Thread), end(Mode::Thread)];
    let ready = a.device.ready_fd().unwrap();
    assert!(ready.arm().unwrap() && !readable(&ready, 5));
    let [probes, patience] = [Time::from_ms(5), Time::from_ms(50)].map(Some);
    let options = PathOptions { keep_alive: probes, give_up_after: patience, mtu: Some(1_024), ..Default::default() };
    // The other end is not connected, so it answers no probe.
    a.qp.connect(&b.qp.address(), &options).unwrap();
    assert!(readable(&ready, LONG));
    assert_eq!(a.device.event(), Some(Event::QueuePairError(a.qp.qpn(), Status::TransportRetryExceeded)));
}
