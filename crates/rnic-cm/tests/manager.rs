//! The state machine: two managers that exchange messages in virtual time, with losses, and hosts without a connection
//! that send arbitrary messages.

use crate::common::{SERVICE, addresses, managers, reject};
use proptest::prelude::*;
use rnic_cm::ip;
use rnic_cm::manager::{Limits, MessageRate};
use rnic_cm::message::{About, MadBytes, Reply, Request, private, reason, service_status};
use rnic_cm::{Event, Manager, ManagerError, Message, Parsed};
use rnic_transport::Time;
use std::collections::VecDeque;
use std::net::IpAddr;

const LISTENER: u64 = 100;

fn request(service: u64) -> Request {
    Request { service, ..crate::common::request(1, b"ask") }
}

fn reply() -> Reply {
    crate::common::reply(2, b"answer")
}

/// Two hosts. `lost` says whether the next message is lost.
struct Net {
    sides: [Manager; 2],
    events: [Vec<Event>; 2],
    now: Time,
    lost: Box<dyn FnMut(&MadBytes) -> bool>,
    messages: usize,
}

impl Net {
    fn new(lost: impl FnMut(&MadBytes) -> bool + 'static) -> Net {
        let events = [Vec::new(), Vec::new()];
        Net { sides: managers(), events, now: Time::ZERO, lost: Box::new(lost), messages: 0 }
    }

    /// Moves all messages that are on their way.
    fn settle(&mut self) {
        let ips = addresses();
        loop {
            let mut moved = false;
            for at in 0..2 {
                while let Some(message) = self.sides[at].poll_transmit() {
                    moved = true;
                    self.messages += 1;
                    assert_eq!(message.peer, ips[1 - at]);
                    if !(self.lost)(&message.mad) {
                        self.sides[1 - at].handle(self.now, ips[at], &message.mad);
                    }
                }
                let side = &mut self.sides[at];
                self.events[at].extend(std::iter::from_fn(|| side.poll_event()));
            }
            if !moved {
                return;
            }
        }
    }

    /// Lets time pass until the next deadline; `false` if there is none.
    fn wait(&mut self) -> bool {
        let Some(next) = self.sides.iter().filter_map(Manager::deadline).min() else { return false };
        self.now = self.now.max(next);
        let now = self.now;
        self.sides.iter_mut().for_each(|side| side.on_deadline(now));
        self.settle();
        true
    }

    fn connect(&mut self) -> u32 {
        let peer = addresses()[1];
        let id = self.sides[0].connect(self.now, 1, peer, request(SERVICE)).unwrap();
        self.settle();
        id
    }

    /// The events of a side, which are then forgotten.
    fn take(&mut self, at: usize) -> Vec<Event> {
        std::mem::take(&mut self.events[at])
    }

    /// Waits for an event of a side.
    fn expect(&mut self, at: usize) -> Event {
        for _ in 0..200 {
            if !self.events[at].is_empty() {
                return self.events[at].remove(0);
            }
            if !self.wait() {
                break;
            }
        }
        panic!("no event of side {at}");
    }

    /// Establishes a connection; returns its IDs.
    fn established(&mut self) -> [u32; 2] {
        self.sides[1].listen(self.now, SERVICE, LISTENER, 0).unwrap();
        let a = self.connect();
        let Event::Request { listener: LISTENER, connection: b, request, .. } = self.expect(1) else { panic!() };
        assert_eq!((&request.private[..4], request.qpn), (&b"ask\0"[..], 0x111));
        self.sides[1].adopt(b, 2);
        self.sides[1].accept(self.now, b, reply()).unwrap();
        self.settle();
        let Event::Reply { token: 1, connection, reply, .. } = self.expect(0) else { panic!() };
        assert_eq!((connection, reply.qpn, reply.psn, &reply.private[..6]), (a, 0x222, 8, &b"answer"[..]));
        self.sides[0].establish(self.now, a).unwrap();
        self.settle();
        assert!(matches!(self.expect(1), Event::Established { token: 2, .. }));
        [a, b]
    }
}

#[test]
fn a_connection_is_set_up_and_ends() {
    let mut net = Net::new(|_| false);
    let [a, b] = net.established();
    assert_eq!((a as u16, b as u16), (50_000, 50_001), "the lower half of an ID is the manager ID");
    assert!(net.sides[0].is_established(a) && net.sides[1].is_established(b));
    assert_eq!(net.messages, 3, "REQ, REP, RTU");
    // 4.096 us times 2^17.
    assert_eq!(net.sides[0].deadline(), Some(Time::from_ns(536_870_912)), "the first probe");
    net.sides[0].disconnect(net.now, a).unwrap();
    net.settle();
    assert_eq!(net.take(0), [Event::Disconnected { token: 1, connection: a, silent: false }]);
    assert_eq!(net.take(1), [Event::Disconnected { token: 2, connection: b, silent: false }]);
    assert_eq!(net.sides[0].disconnect(net.now, a), Err(ManagerError::State(a)));
    assert!(matches!(net.expect(0), Event::TimewaitExit { token: 1, .. }));
    assert!(matches!(net.expect(1), Event::TimewaitExit { token: 2, .. }));
    assert!(net.sides.iter().all(Manager::is_empty));
    assert_eq!(net.now, Time::from_ms(2_000));
}

/// Each message is lost once, or many times: the connection is established in the end, and each of its events arrives
/// once.
#[test]
fn lost_messages_are_retransmitted() {
    for attribute in [0x10, 0x13, 0x14, 0x15, 0x16] {
        for losses in [1, 5] {
            let mut left = losses;
            let mut net = Net::new(move |mad| {
                let lost = mad[17] == attribute && left > 0;
                left -= i32::from(lost);
                lost
            });
            let [a, b] = net.established();
            net.sides[1].disconnect(net.now, b).unwrap();
            net.settle();
            assert!(
                matches!(net.expect(0), Event::Disconnected { connection, .. } if connection == a),
                "{attribute:#x}"
            );
            assert!(matches!(net.expect(1), Event::Disconnected { connection, silent: false, .. } if connection == b));
            while net.wait() {}
            assert_eq!((net.take(0).len(), net.take(1).len()), (1, 1), "both have rested");
            assert!(net.sides.iter().all(Manager::is_empty));
        }
    }
}

#[test]
fn silent_peers_are_unreachable() {
    let mut net = Net::new(|_| true);
    let a = net.connect();
    assert_eq!(net.expect(0), Event::Unreachable { token: 1, connection: a });
    // 16 REQs, each after 4.096 us * 2^17, and a REJ that is lost.
    assert_eq!((net.messages, net.now), (17, Time::from_ns(16 * (4_096 << 17))));
    assert!(net.sides[0].is_empty());
    // The peer dies when the connection is established.
    let mut dead = Net::new(|_| false);
    let [a, _] = dead.established();
    dead.lost = Box::new(|_| true);
    dead.sides[0].disconnect(dead.now, a).unwrap();
    assert_eq!(dead.expect(0), Event::Disconnected { token: 1, connection: a, silent: true });
    // The RTU never comes, since the peer has died after its REQ.
    let mut half = Net::new(|mad| mad[17] == 0x13);
    half.sides[1].listen(half.now, SERVICE, LISTENER, 0).unwrap();
    half.connect();
    let Event::Request { connection: b, .. } = half.expect(1) else { panic!() };
    half.lost = Box::new(|_| true);
    half.sides[1].accept(half.now, b, reply()).unwrap();
    assert_eq!(half.expect(1), Event::Unreachable { token: LISTENER, connection: b });
    assert!(half.sides[1].is_empty());
}

#[test]
fn a_program_that_needs_time_gets_it() {
    let mut net = Net::new(|_| false);
    net.sides[1].listen(net.now, SERVICE, LISTENER, 0).unwrap();
    let a = net.connect();
    let Event::Request { connection: b, .. } = net.expect(1) else { panic!() };
    // The REQ is retransmitted once, and the MRA asks for 68.7 s.
    assert!(net.wait());
    assert_eq!(net.messages, 3);
    let asked = Time::from_ns(4_096 << 24);
    assert!(net.sides[0].deadline().unwrap() > net.now.saturating_add(asked));
    net.sides[1].accept(net.now, b, reply()).unwrap();
    net.settle();
    assert!(matches!(net.expect(0), Event::Reply { connection, .. } if connection == a));
    // The peer needs time too: the REP is answered by an MRA, and later by the RTU.
    assert!(net.wait());
    net.sides[0].establish(net.now, a).unwrap();
    net.settle();
    assert!(matches!(net.expect(1), Event::Established { .. }));
    assert!(net.take(0).is_empty() && net.take(1).is_empty(), "nothing came twice");
}

#[test]
fn requests_are_refused() {
    let mut net = Net::new(|_| false);
    let a = net.connect();
    let refused = |event, why| matches!(event, Event::Rejected { token: 1, reason, .. } if reason == why);
    assert!(refused(net.expect(0), reason::INVALID_SERVICE), "no listener");
    assert_eq!(net.sides[0].establish(net.now, a), Err(ManagerError::Unknown(a)));
    // A program that has the port, but does not listen yet: the request comes again.
    net.sides[1].expect_listener(SERVICE, true);
    let early = net.connect();
    assert!(net.take(0).is_empty() && net.take(1).is_empty());
    net.sides[0].destroy(net.now, early);
    net.settle();
    net.sides[1].listen(net.now, SERVICE, LISTENER, 0).unwrap();
    assert_eq!(net.sides[1].listen(net.now, SERVICE, 5, 0), Err(ManagerError::InUse(SERVICE)));
    net.connect();
    let Event::Request { connection: b, .. } = net.expect(1) else { panic!() };
    net.sides[1].reject(net.now, b, reason::CONSUMER, b"no").unwrap();
    net.settle();
    let event = net.expect(0);
    assert!(matches!(&event, Event::Rejected { private, .. } if &private[..3] == b"no\0"));
    assert!(refused(event, reason::CONSUMER));
    // The active side refuses the acceptance.
    let a = net.connect();
    let Event::Request { connection: b, .. } = net.expect(1) else { panic!() };
    net.sides[1].accept(net.now, b, reply()).unwrap();
    net.settle();
    net.expect(0);
    net.sides[0].reject(net.now, a, reason::CONSUMER, &[]).unwrap();
    net.settle();
    assert!(matches!(net.expect(1), Event::Rejected { connection, .. } if connection == b));
    for (change, why) in [
        (&|request: &mut Request| request.transport = 2, reason::INVALID_TRANSPORT),
        (&|request: &mut Request| request.mtu = 6, reason::INVALID_MTU),
        (&|request: &mut Request| request.qpn = 1, reason::INVALID_GID),
        (&|request: &mut Request| request.path.local_gid[15] ^= 1, reason::INVALID_GID),
        (&|request: &mut Request| request.path.remote_gid[15] ^= 1, reason::INVALID_GID),
    ] as [(&dyn Fn(&mut Request), u16); 5]
    {
        let mut request = request(SERVICE);
        change(&mut request);
        net.sides[0].connect(net.now, 1, addresses()[1], request).unwrap();
        net.settle();
        assert!(refused(net.expect(0), why));
    }
    let long = net.sides[0].look_up(net.now, 1, addresses()[1], SERVICE, &[0; 217]);
    assert_eq!(long, Err(ManagerError::Private { len: 217, max: 216 }));
    assert!(net.sides.iter().all(Manager::is_empty));
}

#[test]
fn services_are_looked_up() {
    let mut lost = 1;
    let mut net = Net::new(move |mad| {
        let drop = mad[17] == 0x18 && lost > 0;
        lost -= i32::from(drop);
        drop
    });
    net.sides[1].listen(net.now, SERVICE, LISTENER, 0).unwrap();
    let peer = addresses()[1];
    let id = net.sides[0].look_up(net.now, 1, peer, SERVICE, b"who").unwrap();
    net.settle();
    let Event::ServiceRequest { connection, private, .. } = net.expect(1) else { panic!() };
    assert_eq!(&private[..4], b"who\0");
    let valid = service_status::VALID;
    net.sides[1].reply_service(net.now, connection, valid, 0x333, 0x0123_4567, b"me").unwrap();
    net.settle();
    // The reply is lost, and repeated for the next request without the program.
    let Event::ServiceReply { token: 1, connection, reply } = net.expect(0) else { panic!() };
    assert_eq!((connection, reply.qpn, reply.qkey, reply.status), (id, 0x333, 0x0123_4567, valid));
    assert!(net.take(1).is_empty());
    while net.wait() {}
    net.sides[1].stop_listening(SERVICE);
    net.sides[0].look_up(net.now, 1, peer, SERVICE, b"who").unwrap();
    net.settle();
    let Event::ServiceReply { reply, .. } = net.expect(0) else { panic!() };
    assert_eq!(reply.status, service_status::UNSUPPORTED);
    assert!(net.sides.iter().all(Manager::is_empty));
}

#[test]
fn the_program_forgets_a_connection_in_any_state() {
    let peer = addresses()[1];
    // The REQ is on its way.
    let mut net = Net::new(|_| false);
    net.sides[1].listen(net.now, SERVICE, LISTENER, 0).unwrap();
    let a = net.connect();
    net.sides[0].destroy(net.now, a);
    net.settle();
    // The REJ of a sender that does not know the other's ID belongs to the request of this peer. It is no event of the
    // listener itself.
    let events = net.take(1);
    let [Event::Request { connection: asks, .. }, Event::Withdrawn { listener: LISTENER, connection }] = events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(asks, connection);
    // With a name of its own the connection has an event of its own.
    let a = net.connect();
    let Event::Request { connection: b, .. } = net.expect(1) else { panic!() };
    net.sides[1].adopt(b, 2);
    net.sides[0].destroy(net.now, a);
    net.settle();
    assert!(matches!(net.expect(1), Event::Rejected { token: 2, reason: reason::TIMEOUT, .. }));
    // The request is not answered.
    net.connect();
    let Event::Request { connection: b, .. } = net.expect(1) else { panic!() };
    net.sides[1].destroy(net.now, b);
    net.settle();
    assert!(matches!(net.expect(0), Event::Rejected { reason: reason::CONSUMER, .. }));
    net.sides[1].stop_listening(SERVICE);
    // Established: the peer gets a DREQ, and this manager gets no event.
    let [a, b] = net.established();
    net.sides[0].destroy(net.now, a);
    net.settle();
    assert!(net.take(0).is_empty());
    assert!(matches!(net.expect(1), Event::Disconnected { connection, .. } if connection == b));
    while net.wait() {}
    net.sides[0].look_up(net.now, 1, peer, SERVICE, &[]).unwrap();
    net.settle();
    net.sides[0].end_all(net.now);
    net.sides[1].end_all(net.now);
    while net.wait() {}
    assert!(net.sides.iter().all(Manager::is_empty));
}

/// A process is killed: the peer detects this from a response of the process's host, or because no responses arrive.
#[test]
fn the_death_of_a_process_is_noticed() {
    let mut net = Net::new(|_| false);
    let [a, _] = net.established();
    for _ in 0..20 {
        assert!(net.wait() && net.sides[0].is_established(a), "both respond");
    }
    // Another process of the same host responds.
    net.sides[1] = Manager::new(addresses()[1], 50_002, Limits::default(), [9; 32]);
    let begin = net.now;
    assert_eq!(net.expect(0), Event::Disconnected { token: 1, connection: a, silent: true });
    assert!(net.now <= begin.saturating_add(Time::from_ms(5_000)));

    // No listener is left.
    let mut net = Net::new(|_| false);
    let [a, b] = net.established();
    assert!(net.wait());
    net.lost = Box::new(|_| true);
    let begin = net.now;
    for (at, token, connection) in [(0, 1, a), (1, 2, b)] {
        assert_eq!(net.expect(at), Event::Disconnected { token, connection, silent: true });
    }
    assert!(net.now <= begin.saturating_add(Time::from_ms(10_000)), "{}", net.now);
}

/// A manager that does not know probes, such as Linux's, ignores them and stays connected, until its host reports that
/// the connection is unknown.
#[test]
fn peers_that_never_respond_to_probes_stay_connected() {
    let end = Time::from_ms(18_000);
    let mut net = Net::new(|mad| mad[17] == 0x11);
    let [a, b] = net.established();
    while net.now < end {
        assert!(net.wait());
    }
    // After 0.5, 1.6, 2.7 and 3.8 s, and then every 5 s: after 4.8, 9.8, 14.8 and 19.8 s.
    assert_eq!(net.messages, 3 + 2 * (4 + 4));
    assert!(net.sides[0].is_established(a) && net.sides[1].is_established(b));
    // A process of the peer's host that does not know the connection.
    net.sides[1] = Manager::new(addresses()[1], 50_002, Limits::default(), [9; 32]);
    net.lost = Box::new(|_| false);
    assert_eq!(net.expect(0), Event::Disconnected { token: 1, connection: a, silent: true });
    // A lost response, or three, change nothing.
    let mut left = 3;
    let mut net = Net::new(move |mad| {
        let lost = mad[17] == 0x11 && left > 0;
        left -= i32::from(lost);
        lost
    });
    let [a, _] = net.established();
    for _ in 0..100 {
        assert!(net.wait() && net.sides[0].is_established(a));
    }
}

/// Requests that come before the program listens wait for it.
#[test]
fn requests_wait_for_a_listener_that_is_expected() {
    let mut net = Net::new(|_| false);
    net.sides[1].expect_listener(SERVICE, true);
    let a = net.connect();
    assert!(net.wait(), "the REQ is retransmitted");
    assert_eq!((net.messages, net.take(0), net.take(1)), (2, vec![], vec![]));
    net.sides[1].listen(net.now, SERVICE, LISTENER, 0).unwrap();
    net.settle();
    let Event::Request { connection: b, .. } = net.expect(1) else { panic!() };
    net.sides[1].accept(net.now, b, reply()).unwrap();
    net.settle();
    assert!(matches!(net.expect(0), Event::Reply { connection, .. } if connection == a));
    assert!(net.take(1).is_empty(), "one request");
    // Two identifiers have the port, and neither listens in the end.
    let mut net = Net::new(|_| false);
    (0..2).for_each(|_| net.sides[1].expect_listener(SERVICE, true));
    net.connect();
    net.sides[1].expect_listener(SERVICE, false);
    net.settle();
    assert!(net.take(0).is_empty());
    net.sides[1].expect_listener(SERVICE, false);
    net.settle();
    assert!(matches!(net.expect(0), Event::Rejected { reason: reason::INVALID_SERVICE, .. }));
    // No more wait than there is room for.
    let mut side = Manager::new(addresses()[1], 1, Limits::default(), [3; 32]);
    side.expect_listener(SERVICE, true);
    for id in 1..=1_000 {
        let mut request = request(SERVICE);
        request.local_id = id;
        side.handle(Time::ZERO, addresses()[0], &Parsed { transaction: 1, message: Message::Request(request) }.emit());
    }
    side.listen(Time::ZERO, SERVICE, LISTENER, 0).unwrap();
    assert_eq!((side.len(), side.poll_transmit()), (16, None));
}

/// If a peer refuses a REQ immediately, as Linux does, the REQ is retransmitted for one second: the peer's program may
/// be about to listen.
#[test]
fn a_peer_that_does_not_listen_yet_is_asked_again() {
    let mut net = Net::new(|_| false);
    let a = net.connect();
    for _ in 0..3 {
        assert!(net.wait());
        assert_eq!((net.take(0), net.take(1)), (vec![], vec![]));
    }
    assert_eq!((net.now, net.messages), (Time::from_ms(300), 8));
    net.sides[1].listen(net.now, SERVICE, LISTENER, 0).unwrap();
    assert!(matches!(net.expect(1), Event::Request { .. }));
    assert_eq!(net.now, Time::from_ms(400));
    net.sides[0].destroy(net.now, a);
    net.settle();
    // The service never gets a listener.
    let mut net = Net::new(|_| false);
    net.connect();
    assert!(matches!(net.expect(0), Event::Rejected { reason: reason::INVALID_SERVICE, .. }));
    assert_eq!((net.now, net.messages), (Time::from_ms(1_000), 22));
    assert!(net.sides.iter().all(Manager::is_empty));
}

/// The REP is retransmitted as often, and at the interval, as the REQ demands, within limits.
#[test]
fn a_reply_keeps_the_times_of_its_request() {
    for (code, pause) in [(0, Time::from_ms(100)), (20, Time::from_ns(4_096 << 20)), (31, Time::from_ms(10_000))] {
        let mut side = Manager::new(addresses()[1], 1, Limits::default(), [3; 32]);
        side.listen(Time::ZERO, SERVICE, LISTENER, 0).unwrap();
        let mut request = request(SERVICE);
        (request.local_id, request.local_response_timeout, request.max_cm_retries) = (7, code, 2);
        side.handle(Time::ZERO, addresses()[0], &Parsed { transaction: 1, message: Message::Request(request) }.emit());
        let Some(Event::Request { connection, .. }) = side.poll_event() else { panic!() };
        side.accept(Time::ZERO, connection, reply()).unwrap();
        for at in 1..=3_u64 {
            assert!(side.poll_transmit().is_some(), "{at} for code {code}");
            let due = Time::from_ps(pause.as_ps() * at);
            assert_eq!(side.deadline(), Some(due));
            side.on_deadline(due);
        }
        assert!(matches!(side.poll_event(), Some(Event::Unreachable { .. })));
    }
}

/// A host that sends REQs with forged source addresses: every REP goes to a host that has not asked for it. The victims
/// get hardly more messages than the forger has sent, whatever number of retransmissions its REQs ask for.
#[test]
fn forged_requests_are_not_amplified() {
    const REQUESTS: u32 = 20_000;
    let mut side = Manager::new(addresses()[1], 1, Limits::default(), [3; 32]);
    side.listen(Time::ZERO, SERVICE, LISTENER, 0).unwrap();
    let (mut now, mut sent, mut unreachable) = (Time::ZERO, 0, 0);
    for id in 1..=REQUESTS {
        accept_request(&mut side, now, id, &mut unreachable);
        now += Time::from_us(50);
        side.on_deadline(now);
        sent += std::iter::from_fn(|| side.poll_transmit()).count();
    }
    assert!(side.len() <= Limits::default().half_open);
    while let Some(deadline) = side.deadline() {
        now = deadline;
        side.on_deadline(now);
        sent += std::iter::from_fn(|| side.poll_transmit()).count();
    }
    while let Some(event) = side.poll_event() {
        unreachable += u32::from(matches!(event, Event::Unreachable { .. }));
    }
    let MessageRate { per_second, burst } = Limits::default().unconfirmed_rate;
    let unsolicited = f64::from(per_second) * now.as_secs() + f64::from(burst);
    assert!((REQUESTS as usize..=REQUESTS as usize + unsolicited as usize).contains(&sent), "{sent} at {now}");
    assert!(sent < REQUESTS as usize * 11 / 10, "{sent}");
    assert_eq!((unreachable, side.len()), (REQUESTS, 0), "the program can release its queue pairs");
}

/// Lets the program of `side` accept a request of the peer. Counts the connections that have become unreachable.
fn accept_request(side: &mut Manager, now: Time, id: u32, unreachable: &mut u32) -> u32 {
    let mut request = request(SERVICE);
    (request.local_id, request.local_response_timeout, request.max_cm_retries) = (id, 17, 15);
    side.handle(now, addresses()[0], &Parsed { transaction: 1, message: Message::Request(request) }.emit());
    let connection = loop {
        match side.poll_event() {
            Some(Event::Request { connection, .. }) => break connection,
            Some(Event::Unreachable { .. }) => *unreachable += 1,
            other => panic!("{other:?}"),
        }
    };
    side.accept(now, connection, reply()).unwrap();
    connection
}

/// While the rate of unsolicited messages is exhausted, a peer that repeats its REQ still gets the REP, and a peer that
/// has confirmed it gets a retransmission of every message.
#[test]
fn who_repeats_a_request_is_answered_during_a_flood() {
    let unconfirmed_rate = MessageRate { per_second: 0, burst: 0 };
    let mut side = Manager::new(addresses()[1], 1, Limits { unconfirmed_rate, ..Limits::default() }, [3; 32]);
    side.listen(Time::ZERO, SERVICE, LISTENER, 0).unwrap();
    let connection = accept_request(&mut side, Time::ZERO, 7, &mut 0);
    assert!(side.poll_transmit().is_some());
    let mut now = side.deadline().unwrap();
    side.on_deadline(now);
    assert_eq!(side.poll_transmit(), None, "the rate is 0");
    let mut again = request(SERVICE);
    again.local_id = 7;
    side.handle(now, addresses()[0], &Parsed { transaction: 1, message: Message::Request(again) }.emit());
    let rep = side.poll_transmit().expect("the REP again");
    assert!(matches!(Parsed::parse(&rep.mad).unwrap().message, Message::Reply(_)));
    let ready = Message::ReadyToUse { local_id: 7, remote_id: connection, private: [0; private::READY] };
    side.handle(now, addresses()[0], &Parsed { transaction: 1, message: ready }.emit());
    assert!(side.is_established(connection));
    side.disconnect(now, connection).unwrap();
    for message in 1..=16 {
        assert!(side.poll_transmit().is_some(), "DREQ {message}");
        now = side.deadline().unwrap();
        side.on_deadline(now);
    }
}

/// If too many connections are half open, the oldest one is removed, and the program gets an event.
#[test]
fn half_open_connections_are_bounded() {
    let mut side = Manager::new(addresses()[1], 1, Limits { half_open: 3, ..Limits::default() }, [3; 32]);
    side.listen(Time::ZERO, SERVICE, LISTENER, 0).unwrap();
    let first = accept_request(&mut side, Time::ZERO, 1, &mut 0);
    let confirmed = accept_request(&mut side, Time::ZERO, 2, &mut 0);
    let ready = Message::ReadyToUse { local_id: 2, remote_id: confirmed, private: [0; private::READY] };
    side.handle(Time::ZERO, addresses()[0], &Parsed { transaction: 1, message: ready }.emit());
    assert!(matches!(side.poll_event(), Some(Event::Established { .. })));
    for id in 3..=5 {
        accept_request(&mut side, Time::ZERO, id, &mut 0);
    }
    assert_eq!(side.poll_event(), Some(Event::Unreachable { token: LISTENER, connection: first }));
    assert_eq!(side.len(), 4);
    assert!(side.is_established(confirmed));
}

/// Hosts without a connection neither cause state beyond the limits, nor end or change the connections of other hosts.
#[test]
fn strangers_are_bounded() {
    let mut net = Net::new(|_| false);
    let [a, b] = net.established();
    let stranger: IpAddr = "10.0.0.9".parse().unwrap();
    let ends = [
        Message::Disconnect { local_id: b, remote_id: a, remote_qpn: 0x111, private: [0; private::DISCONNECT] },
        Message::Disconnected { local_id: b, remote_id: a, private: [0; private::READY] },
        reject(b, a, About::Reply, reason::TIMEOUT),
        // The response to a probe of a connection that does not exist.
        reject(b, a, About::Other, reason::INVALID_ID),
    ];
    for message in ends {
        // The right IDs from another address, and another ID from the right address.
        net.sides[0].handle(net.now, stranger, &Parsed { transaction: 1, message }.emit());
        let mut guessed = Parsed { transaction: 1, message }.emit();
        guessed[24] ^= 1;
        net.sides[0].handle(net.now, addresses()[1], &guessed);
        assert!(net.sides[0].is_established(a) && net.sides[0].poll_event().is_none());
    }
    let wrong_qpn =
        Message::Disconnect { local_id: b, remote_id: a, remote_qpn: 0x112, private: [0; private::DISCONNECT] };
    net.sides[0].handle(net.now, addresses()[1], &Parsed { transaction: 1, message: wrong_qpn }.emit());
    assert!(net.sides[0].is_established(a));
    // Requests beyond the backlog leave nothing.
    let mut side = Manager::new(addresses()[1], 1, Limits::default(), [3; 32]);
    side.listen(Time::ZERO, SERVICE, LISTENER, 10).unwrap();
    for id in 1..=1_000 {
        let mut request = request(SERVICE);
        request.local_id = id;
        request.path.local_gid = ip::gid(stranger);
        side.handle(Time::ZERO, stranger, &Parsed { transaction: 1, message: Message::Request(request) }.emit());
    }
    assert_eq!((side.len(), side.poll_transmit()), (10, None));
    // And a full table refuses the program's own wishes in a sentence.
    let limits = Limits { connections: 2, ..Limits::default() };
    let mut full = Manager::new(addresses()[0], 1, limits, [4; 32]);
    for _ in 0..2 {
        full.connect(Time::ZERO, 1, addresses()[1], request(SERVICE)).unwrap();
    }
    let error = full.connect(Time::ZERO, 1, addresses()[1], request(SERVICE)).unwrap_err();
    assert_eq!(error.to_string(), "2 connections are open, and no more are possible");
}

proptest! {
    /// Arbitrary bytes, and arbitrary changes of a valid message, never cause a panic, and the state stays bounded.
    /// Each message causes at most one response.
    #[test]
    fn hostile_messages_are_survived(seed: u64, changes in proptest::collection::vec((0_usize..256, any::<u8>()), 0..6)) {
        let mut net = Net::new(|_| false);
        let [a, b] = net.established();
        let ips = addresses();
        let ids = [a, b];
        let mut queue: VecDeque<MadBytes> = VecDeque::new();
        for attribute in 0x10..=0x19_u8 {
            let mut mad = Parsed { transaction: seed, message: Message::Request(request(SERVICE)) }.emit();
            mad[17] = attribute;
            mad[24..28].copy_from_slice(&ids[1].to_be_bytes());
            mad[28..32].copy_from_slice(&ids[0].to_be_bytes());
            changes.iter().for_each(|(at, value)| mad[*at] = *value);
            queue.push_back(mad);
        }
        for mad in queue {
            net.sides[0].handle(net.now, ips[1], &mad);
            let answers = std::iter::from_fn(|| net.sides[0].poll_transmit()).count();
            prop_assert!(answers <= 1);
            prop_assert!(net.sides[0].len() <= 2);
        }
    }

    /// Whatever messages are lost, no end keeps a connection that its peer does not know, and in the end neither end
    /// keeps any state. If all RTUs and the last REJ are lost, the end that has sent the REQ learns from its queue pair
    /// that the peer has ended the connection.
    #[test]
    fn losses_leave_no_half_connection(pattern in proptest::collection::vec(any::<bool>(), 0..60)) {
        let mut pattern = pattern.into_iter();
        let mut net = Net::new(move |_| pattern.next().unwrap_or(false));
        net.sides[1].listen(net.now, SERVICE, LISTENER, 0).unwrap();
        net.connect();
        for _ in 0..200 {
            for event in net.take(1) {
                if let Event::Request { connection, .. } = event {
                    net.sides[1].accept(net.now, connection, reply()).unwrap();
                }
            }
            for event in net.take(0) {
                if let Event::Reply { connection, .. } = event {
                    net.sides[0].establish(net.now, connection).unwrap();
                }
            }
            net.settle();
            if !net.wait() {
                break;
            }
        }
        let established = [0, 1].map(|at| net.sides[at].len());
        prop_assert!(established[1] <= established[0], "{established:?}");
        net.sides[0].end_all(net.now);
        while net.wait() {}
        prop_assert!(net.sides.iter().all(Manager::is_empty));
    }
}
