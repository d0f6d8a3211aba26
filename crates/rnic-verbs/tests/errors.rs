//! Tests of work requests that fail, for RC and IRN: the completion statuses at both ends, and the order in which other
//! work requests are flushed.

use crate::common::{Fate, PSN_A, Pair, REGION, Setup, bytes_of, pattern};
use rnic_transport::Time;
use rnic_verbs::{
    Access, AccessError, Data, Dropped, Event, RecvRequest, SendFlags, SendOp, SendRequest, Service, Sge, State,
    Status, VerbsError,
};
use rnic_wire::{Aeth, NakCode, Opcode, Operation, SackEth, Syndrome};

const RELIABLE: [Service; 2] = [Service::Rc, Service::Irn];

/// An operation of side A, and its length in bytes.
type Case = fn(&Pair) -> (SendOp, u32);
type Op = fn(&Pair) -> SendOp;

/// The expected outcome, at both ends, of A's send request 1. A Write precedes the request, and another Write follows
/// it.
struct Outcome {
    status: Status,
    /// Status in the event of B's queue pair.
    event: Status,
    /// Status of B's receive 7, which the request consumes if it needs a receive.
    receive: Status,
    nak: &'static str,
}

#[track_caller]
fn refused(pair: &mut Pair, op: SendOp, len: u32, outcome: &Outcome) {
    let service = pair.setup.service;
    pair.recv(1, 7, 60_000, 16);
    pair.recv(0, 8, 60_000, 16);
    pair.post_with(0, 0, pair.write_op(1, 50_000), 0, 8, SendFlags::default());
    pair.post_with(0, 1, op, 0, len, SendFlags::default());
    pair.post_with(0, 2, pair.write_op(1, 50_000), 0, 8, SendFlags::default());
    let before = pair.sides[1].bytes(0, 40_000).to_vec();
    pair.run();
    let expected = [(1, outcome.status), (2, Status::WorkRequestFlushed)];
    assert_eq!(pair.sides[0].sent(), expected, "{service:?} {op:?}\n{}", pair.trace.join("\n"));
    assert_eq!(pair.sides[0].received(), [(8, Status::WorkRequestFlushed, 0)]);
    assert_eq!(pair.sides[1].received(), [(7, outcome.receive, 0)], "{service:?} {op:?}");
    let [a, b] = [pair.sides[0].qpn, pair.sides[1].qpn];
    assert_eq!(pair.sides[0].events(), [Event::QueuePairError(a, outcome.status)]);
    assert_eq!(pair.sides[1].events(), [Event::QueuePairError(b, outcome.event)], "{service:?} {op:?}");
    let nak = format!("B NAK {} #101", outcome.nak);
    assert!(pair.trace.iter().any(|line| line.starts_with(&nak)), "{nak}: {:?}", pair.trace);
    assert_eq!(pair.sides[1].bytes(0, 40_000), before, "{service:?} {op:?} changed memory");
}

#[test]
fn memory_that_does_not_admit_an_operation_refuses_it() {
    const ACCESS: Outcome = Outcome {
        status: Status::RemoteAccess,
        event: Status::RemoteAccess,
        receive: Status::WorkRequestFlushed,
        nak: "remote access error",
    };
    for service in RELIABLE {
        let cases: [Case; 9] = [
            |pair| (SendOp::Write { addr: pair.target(1).0, rkey: pair.target(1).1 ^ 1 }, 8),
            |pair| (pair.write_op(1, REGION as u64 - 7), 8),
            |pair| (SendOp::Write { addr: pair.target(1).0 - 1, rkey: pair.target(1).1 }, 8),
            |pair| (SendOp::Write { addr: u64::MAX - 3, rkey: pair.target(1).1 }, 8),
            // The first two packets would fit into the region, but the third exceeds it: nothing is written.
            |pair| (pair.write_op(1, REGION as u64 - 600), 601),
            |pair| (pair.read_op(1, REGION as u64 - 7), 8),
            |pair| (SendOp::Read { addr: pair.target(1).0, rkey: 1 }, 8),
            |pair| (pair.add_op(1, REGION as u64, 1), 8),
            |pair| (SendOp::SendInv(pair.target(1).1 ^ 1), 0),
        ];
        for case in cases {
            let mut pair = Pair::new(service);
            let (op, len) = case(&pair);
            let receive =
                if matches!(op, SendOp::SendInv(_)) { Status::RemoteAccess } else { Status::WorkRequestFlushed };
            refused(&mut pair, op, len, &Outcome { receive, ..ACCESS });
        }
    }
}

/// A Send with Invalidate needs a valid key of a region that admits it. The check comes before the payload is placed.
#[test]
fn a_peer_invalidates_only_what_it_may() {
    for service in RELIABLE {
        // The region does not admit it.
        let mut pair = Pair::new(service);
        let side = &mut pair.sides[1];
        let access = Access { remote_invalidate: false, ..Access::ALL };
        let closed = side.device.register(side.pd, vec![0; 64], None, access).unwrap();
        pair.recv(1, 7, 0, 100);
        pair.sides[0].fill(0, &[9; 10]);
        pair.post(0, 1, SendOp::SendInv(closed.rkey), 10);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::RemoteAccess)]);
        assert_eq!(pair.sides[1].received(), [(7, Status::RemoteAccess, 0)]);
        assert_ne!(pair.sides[1].bytes(0, 10), [9; 10], "the payload is not placed");
        // The key was invalidated before.
        let mut pair = Pair::new(service);
        let side = &mut pair.sides[1];
        let open = side.device.register(side.pd, vec![0; 64], None, Access::ALL).unwrap();
        for wr_id in 1..=2 {
            pair.recv(1, wr_id, 0, 100);
            pair.post(0, wr_id, SendOp::SendInv(open.rkey), 10);
        }
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success), (2, Status::RemoteAccess)]);
    }
}

#[test]
fn peers_may_write_only_where_the_owner_may() {
    let mut pair = Pair::new(Service::Rc);
    let side = &mut pair.sides[1];
    for access in
        [Access { remote_write: true, ..Access::LOCAL_READ }, Access { remote_atomic: true, ..Access::LOCAL_READ }]
    {
        let error = side.device.register(side.pd, vec![0; 64], None, access).unwrap_err();
        assert_eq!(error.to_string(), "remote_write and remote_atomic need local_write");
    }
}

#[test]
fn a_read_that_goes_beyond_its_region_brings_nothing() {
    for (service, nak) in [(Service::Rc, ""), (Service::Irn, " for #100")] {
        let mut pair = Pair::new(service);
        // Two of the three response packets would lie within the region.
        pair.post(0, 1, pair.read_op(1, 65_536 - 550), 600);
        pair.run();
        let trace = std::mem::take(&mut pair.trace);
        assert_eq!(trace.last(), Some(&format!("B NAK remote access error #100 msn 0{nak}")));
        assert!(!trace.iter().any(|line| line.contains("Response")), "{trace:?}");
        assert_eq!(pair.sides[0].sent(), [(1, Status::RemoteAccess)]);
    }
}

#[test]
fn regions_admit_what_they_were_registered_for() {
    for service in RELIABLE {
        let rights = [
            (Access { remote_write: false, ..Access::ALL }, 0),
            (Access { remote_read: false, ..Access::ALL }, 1),
            (Access { remote_atomic: false, ..Access::ALL }, 2),
        ];
        for (access, which) in rights {
            let mut pair = Pair::new(service);
            let side = &mut pair.sides[1];
            let info = side.device.register(side.pd, vec![0; 64], None, access).unwrap();
            let (addr, rkey) = (info.addr, info.rkey);
            let ops =
                [SendOp::Write { addr, rkey }, SendOp::Read { addr, rkey }, SendOp::FetchAdd { addr, rkey, add: 1 }];
            for (at, op) in ops.into_iter().enumerate().filter(|(at, _)| *at != which) {
                pair.post(0, at as u64, op, 8);
                pair.run();
                assert_eq!(pair.sides[0].sent(), [(at as u64, Status::Success)]);
            }
            pair.post(0, 9, ops[which], 8);
            pair.run();
            assert_eq!(pair.sides[0].sent(), [(9, Status::RemoteAccess)], "{service:?} {access:?}");
        }
    }
}

#[test]
fn a_region_of_another_domain_is_closed() {
    for service in RELIABLE {
        let mut pair = Pair::new(service);
        let side = &mut pair.sides[1];
        let other = side.device.create_pd();
        let info = side.device.register(other, vec![0; 64], None, Access::ALL).unwrap();
        pair.post(0, 1, SendOp::Write { addr: info.addr, rkey: info.rkey }, 8);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::RemoteAccess)]);
        assert_eq!(pair.sides[1].device.bytes(info.id), Some(&[0; 64][..]));
        // A Send with Invalidate may not invalidate a key of another protection domain either.
        let mut pair = Pair::new(service);
        let side = &mut pair.sides[1];
        let other = side.device.create_pd();
        let info = side.device.register(other, vec![0; 64], None, Access::ALL).unwrap();
        pair.recv(1, 7, 0, 0);
        pair.post(0, 1, SendOp::SendInv(info.rkey), 0);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::RemoteAccess)]);
    }
}

#[test]
fn a_queue_pair_admits_what_it_was_told_to() {
    const INVALID: Outcome = Outcome {
        status: Status::RemoteInvalidRequest,
        event: Status::LocalQpOperation,
        receive: Status::WorkRequestFlushed,
        nak: "invalid request",
    };
    for service in RELIABLE {
        let rights: [(Access, Op); 3] = [
            (Access { remote_read: false, ..Access::ALL }, |pair| pair.read_op(1, 0)),
            (Access { remote_atomic: false, ..Access::ALL }, |pair| pair.add_op(1, 0, 1)),
            (Access { remote_atomic: false, ..Access::ALL }, |pair| pair.swap_op(1, 0, 0, 1)),
        ];
        for (access, op) in rights {
            let mut setup = Setup::new(service);
            setup.access = access;
            let mut pair = setup.build();
            let op = op(&pair);
            refused(&mut pair, op, 8, &INVALID);
        }
        let mut setup = Setup::new(service);
        setup.access.remote_write = false;
        let mut pair = setup.build();
        pair.post(0, 1, pair.write_op(1, 0), 8);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::RemoteInvalidRequest)]);
    }
}

#[test]
fn a_message_longer_than_its_receive_is_refused() {
    for service in RELIABLE {
        for len in [17, 600] {
            let mut pair = Pair::new(service);
            let outcome = Outcome {
                status: Status::RemoteInvalidRequest,
                event: Status::LocalLength,
                receive: Status::LocalLength,
                nak: "invalid request",
            };
            refused(&mut pair, SendOp::Send, len, &outcome);
        }
        // A message exactly as long as the receive succeeds.
        let mut pair = Pair::new(service);
        pair.recv(1, 7, 0, 600);
        pair.post(0, 1, SendOp::Send, 600);
        pair.run();
        assert_eq!(pair.sides[1].received(), [(7, Status::Success, 600)]);
    }
}

#[test]
fn a_receive_whose_memory_is_gone_fails_at_both_ends() {
    for service in RELIABLE {
        let mut pair = Pair::new(service);
        let side = &mut pair.sides[1];
        let spare = side.device.register(side.pd, vec![0; 64], None, Access::LOCAL).unwrap();
        let sges = [Sge { addr: spare.addr, len: 64, lkey: spare.lkey }];
        side.device.post_recv(side.qpn, &RecvRequest { wr_id: 7, scatter: &sges }).unwrap();
        side.device.deregister(spare.id).unwrap();
        pair.post(0, 1, SendOp::Send, 10);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::RemoteOperation)]);
        assert_eq!(pair.sides[1].received(), [(7, Status::LocalProtection, 0)]);
        assert_eq!(pair.sides[1].events(), [Event::QueuePairError(pair.sides[1].qpn, Status::LocalProtection)]);
    }
}

#[test]
fn a_send_whose_memory_is_gone_fails_after_those_before_it() {
    for service in RELIABLE {
        let mut pair = Pair::new(service);
        // The second request has three packets, and its memory is deregistered before it is sent. With RC, at most two
        // packets are in flight.
        let mut setup = Setup::new(service);
        setup.config.in_flight = 2;
        if service == Service::Rc {
            pair = setup.build();
        }
        let side = &mut pair.sides[0];
        let spare = side.device.register(side.pd, vec![3; 600], None, Access::LOCAL_READ).unwrap();
        pair.post(0, 1, pair.write_op(1, 0), 8);
        let sges = [Sge { addr: spare.addr, len: 600, lkey: spare.lkey }];
        let (op, data) = (pair.write_op(1, 100), Data::Gather(&sges));
        let qpn = pair.sides[0].qpn;
        let request = SendRequest { wr_id: 2, op, data, flags: SendFlags::default() };
        pair.sides[0].device.post_send(qpn, &request).unwrap();
        pair.post(0, 3, pair.write_op(1, 0), 8);
        pair.sides[0].device.deregister(spare.id).unwrap();
        // The ACK of the first request is lost once. The second request completes only after the first.
        pair.lose_once(|seen| seen.is(1, Operation::Acknowledge, PSN_A));
        pair.run();
        let expected = [(1, Status::Success), (2, Status::LocalProtection), (3, Status::WorkRequestFlushed)];
        assert_eq!(pair.sides[0].sent(), expected, "{service:?}\n{}", pair.trace.join("\n"));
        assert_eq!(pair.sides[0].events(), [Event::QueuePairError(qpn, Status::LocalProtection)]);
        assert_eq!(pair.sides[1].bytes(100, 600), [0; 600]);
    }
}

#[test]
fn a_place_for_an_answer_that_is_gone_fails_the_read() {
    for service in RELIABLE {
        for (atomic, len) in [(false, 600), (true, 8)] {
            let mut pair = Pair::new(service);
            let side = &mut pair.sides[0];
            let spare = side.device.register(side.pd, vec![0; 600], None, Access::LOCAL).unwrap();
            let sges = [Sge { addr: spare.addr, len, lkey: spare.lkey }];
            let op = if atomic { pair.add_op(1, 0, 1) } else { pair.read_op(1, 0) };
            pair.post(0, 1, pair.write_op(1, 0), 8);
            let side = &mut pair.sides[0];
            let data = Data::Gather(&sges);
            side.device.post_send(side.qpn, &SendRequest { wr_id: 2, op, data, flags: SendFlags::default() }).unwrap();
            side.device.deregister(spare.id).unwrap();
            pair.post(0, 3, pair.write_op(1, 0), 8);
            pair.run();
            let expected = [(1, Status::Success), (2, Status::LocalProtection), (3, Status::WorkRequestFlushed)];
            assert_eq!(pair.sides[0].sent(), expected, "{service:?}");
        }
    }
}

#[test]
fn an_answer_that_does_not_fit_fails_the_read() {
    for service in RELIABLE {
        let irn = service == Service::Irn;
        let opcode = |rc, irn_opcode| if irn { irn_opcode } else { rc };
        let only = opcode(Opcode::RC_READ_RESPONSE_ONLY, Opcode::IRN_READ_RESPONSE_ONLY);
        let last = opcode(Opcode::RC_READ_RESPONSE_LAST, Opcode::IRN_READ_RESPONSE_LAST);
        let first = opcode(Opcode::RC_READ_RESPONSE_FIRST, Opcode::IRN_READ_RESPONSE_FIRST);
        let atomic = opcode(Opcode::RC_ATOMIC_ACKNOWLEDGE, Opcode::IRN_ATOMIC_ACKNOWLEDGE);
        let aeth = Some(Aeth { syndrome: Syndrome::ACK, msn: 1 });
        // Wrong responses to a read of 300 bytes: a Last or Only packet instead of the First packet, and the response
        // to an atomic.
        for (opcode, len) in [(last, 256), (only, 256), (only, 44), (atomic, 0)] {
            let mut pair = Pair::new(service);
            pair.script(|seen| if seen.from == 1 { Fate::Lost } else { Fate::Arrives });
            pair.post(0, 1, pair.read_op(1, 0), 300);
            pair.run_for(Time::from_us(3));
            let mut headers = pair.headers(0, opcode, PSN_A);
            headers.aeth = aeth;
            headers.atomic_ack = (opcode == atomic).then_some(Default::default());
            pair.arrive(0, &bytes_of(headers, &[9; 256][..len])).unwrap();
            assert_eq!(pair.sides[0].sent(), [(1, Status::BadResponse)], "{service:?} {opcode:?} {len}");
            assert_eq!(pair.sides[0].bytes(0, 300), [0; 300]);
        }
        // A wrong response to an atomic: the response to a read.
        let mut pair = Pair::new(service);
        pair.script(|seen| if seen.from == 1 { Fate::Lost } else { Fate::Arrives });
        pair.post(0, 1, pair.add_op(1, 0, 1), 8);
        pair.run_for(Time::from_us(3));
        let mut headers = pair.headers(0, only, PSN_A);
        headers.aeth = aeth;
        pair.arrive(0, &bytes_of(headers, &[9; 8])).unwrap();
        assert_eq!(pair.sides[0].sent(), [(1, Status::BadResponse)]);
        // Wrong responses to a read of one packet: a First packet, and Only packets of a wrong length.
        for (opcode, asked, len) in [(first, 256, 256), (only, 256, 252), (only, 100, 104), (only, 100, 99)] {
            let mut pair = Pair::new(service);
            pair.script(|seen| if seen.from == 1 { Fate::Lost } else { Fate::Arrives });
            pair.post(0, 1, pair.read_op(1, 0), asked);
            pair.run_for(Time::from_us(3));
            let mut headers = pair.headers(0, opcode, PSN_A);
            headers.aeth = aeth;
            pair.arrive(0, &bytes_of(headers, &[9; 256][..len])).unwrap();
            assert_eq!(pair.sides[0].sent(), [(1, Status::BadResponse)], "{service:?} {asked} {len}");
            assert_eq!(pair.sides[0].bytes(0, 256), [0; 256]);
        }
    }
}

#[test]
fn every_nak_code_has_its_status() {
    let codes = [
        (NakCode::InvalidRequest, Status::RemoteInvalidRequest),
        (NakCode::RemoteAccessError, Status::RemoteAccess),
        (NakCode::RemoteOperationalError, Status::RemoteOperation),
        (NakCode::InvalidRdRequest, Status::RemoteInvalidRequest),
    ];
    for service in RELIABLE {
        for (code, status) in codes {
            let mut pair = Pair::new(service);
            pair.script(|_| Fate::Lost);
            for wr_id in 1..4 {
                pair.post_with(0, wr_id, pair.write_op(1, 0), 0, 8, SendFlags::default());
            }
            pair.drain();
            let opcode = if service == Service::Irn { Opcode::IRN_ACKNOWLEDGE } else { Opcode::RC_ACKNOWLEDGE };
            let mut headers = pair.headers(0, opcode, PSN_A + 1);
            headers.aeth = Some(Aeth { syndrome: Syndrome::Nak(code), msn: 1 });
            headers.sack = (service == Service::Irn).then_some(SackEth { psn: PSN_A + 1, before: 0 });
            pair.arrive(0, &bytes_of(headers, &[])).unwrap();
            // The NAK acknowledges the first request, which was not signalled and so generates no completion.
            assert_eq!(pair.sides[0].sent(), [(2, status), (3, Status::WorkRequestFlushed)]);
        }
    }
}

#[test]
fn what_was_never_sent_is_neither_acknowledged_nor_refused() {
    for service in RELIABLE {
        let mut setup = Setup::new(service);
        setup.config.in_flight = 1;
        let mut pair = setup.build();
        pair.script(|_| Fate::Lost);
        for wr_id in 1..4 {
            pair.post(0, wr_id, pair.write_op(1, 0), 8);
        }
        pair.drain();
        assert_eq!(pair.trace.len(), 1);
        let opcode = if service == Service::Irn { Opcode::IRN_ACKNOWLEDGE } else { Opcode::RC_ACKNOWLEDGE };
        for psn in [PSN_A + 1, PSN_A + 2, PSN_A - 2, PSN_A + 0x7f_ffff, PSN_A + 0x80_0000] {
            for syndrome in [
                Syndrome::ACK,
                Syndrome::Nak(NakCode::PsnSequenceError),
                Syndrome::Nak(NakCode::RemoteAccessError),
                Syndrome::RnrNak { timer: rnic_wire::RnrTimer::from_code(1) },
            ] {
                let mut headers = pair.headers(0, opcode, psn);
                headers.aeth = Some(Aeth { syndrome, msn: 1 });
                headers.sack = (service == Service::Irn).then_some(SackEth { psn, before: 0 });
                assert_eq!(pair.arrive(0, &bytes_of(headers, &[])), Err(Dropped::Stale), "{psn} {syndrome:?}");
            }
        }
        assert_eq!(pair.sides[0].sent(), []);
        pair.script(|_| Fate::Arrives);
        pair.run();
        assert_eq!(pair.sides[0].sent().len(), 3);
    }
}

#[test]
fn everything_outstanding_is_flushed_in_order() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        let mut pair = Pair::new(service);
        pair.script(|_| Fate::Lost);
        for wr_id in 0..5 {
            pair.recv(0, 100 + wr_id, 0, 10);
            let flags = SendFlags { signaled: wr_id % 2 == 0, ..SendFlags::default() };
            pair.post_with(0, wr_id, pair.write_op(1, 0), 0, 10, flags);
        }
        let qpn = pair.sides[0].qpn;
        pair.sides[0].device.to_error(qpn).unwrap();
        let flushed = (0..5).map(|wr_id| (wr_id, Status::WorkRequestFlushed)).collect::<Vec<_>>();
        assert_eq!(pair.sides[0].sent(), flushed);
        assert_eq!(pair.sides[0].received().iter().map(|c| c.0).collect::<Vec<_>>(), [100, 101, 102, 103, 104]);
        // The application requested the error state, so there is no event. Requests posted now are flushed immediately.
        assert_eq!(pair.sides[0].events(), []);
        pair.post_with(0, 9, pair.write_op(1, 0), 0, 10, SendFlags::default());
        pair.recv(0, 109, 0, 10);
        assert_eq!(pair.sides[0].sent(), [(9, Status::WorkRequestFlushed)]);
        assert_eq!(pair.sides[0].received(), [(109, Status::WorkRequestFlushed, 0)]);
        pair.run();
        assert_eq!(pair.trace, [] as [String; 0]);
        assert_eq!(pair.sides[0].device.counters().queue_pair_errors, 0);
    }
}

#[test]
fn a_receive_in_the_middle_of_a_message_is_flushed_first() {
    for service in RELIABLE {
        let mut setup = Setup::new(service);
        setup.config.in_flight = 1;
        let mut pair = setup.build();
        pair.recv(1, 7, 0, 1_000);
        pair.recv(1, 8, 0, 1_000);
        pair.post(0, 1, SendOp::Send, 600);
        pair.run_for(Time::from_us(3));
        let qpn = pair.sides[1].qpn;
        pair.sides[1].device.to_error(qpn).unwrap();
        assert_eq!(pair.sides[1].received().iter().map(|c| c.0).collect::<Vec<_>>(), [7, 8]);
    }
}

#[test]
fn a_connection_in_error_answers_nothing() {
    for service in RELIABLE {
        let mut pair = Pair::new(service);
        pair.post(0, 1, pair.read_op(1, 0), 20_000);
        // Side B receives the request.
        pair.step(Time::MAX);
        let qpn = pair.sides[1].qpn;
        pair.sides[1].device.to_error(qpn).unwrap();
        pair.trace.clear();
        pair.run_for(Time::from_us(2));
        assert!(!pair.trace.iter().any(|line| line.contains("READ Response")), "{:?}", pair.trace);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::TransportRetryExceeded)]);
        assert!(pair.sides[1].dropped(Dropped::State) > 0);
    }
}

#[test]
fn a_region_that_goes_in_the_middle_of_an_answer_ends_the_connection() {
    for service in RELIABLE {
        let mut setup = Setup::new(service);
        setup.config.in_flight = 2;
        let mut pair = setup.build();
        pair.sides[1].batch = rnic_verbs::Batch::new(1);
        pair.post(0, 1, pair.read_op(1, 0), 300);
        pair.post(0, 2, pair.read_op(1, 0), 256 * 8);
        pair.post(0, 3, pair.write_op(1, 0), 8);
        // The region is deregistered when the first packet of the second response was sent.
        while !pair.trace.iter().any(|line| line.starts_with("B RDMA READ Response First #102")) {
            pair.step(Time::MAX);
            let side = &mut pair.sides[1];
            if !side.device.transmit(pair.now, &mut side.batch) {
                continue;
            }
            let bytes = side.batch.bytes().to_vec();
            let packet = rnic_wire::Packet::parse(&bytes).unwrap();
            pair.trace.push(format!("B {}", crate::common::describe(&packet)));
            let _ = pair.arrive(0, &bytes);
        }
        let id = pair.sides[1].memory.id;
        pair.sides[1].device.deregister(id).unwrap();
        pair.run();
        let expected = [(1, Status::Success), (2, Status::RemoteAccess), (3, Status::WorkRequestFlushed)];
        assert_eq!(pair.sides[0].sent(), expected, "{service:?}\n{}", pair.trace.join("\n"));
    }
}

#[test]
fn a_queue_pair_can_begin_again_after_an_error() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        let mut pair = Pair::new(service);
        pair.sides[0].fill(0, &pattern(1_000, 1));
        pair.script(|_| Fate::Lost);
        pair.post(0, 1, pair.write_op(1, 0), 1_000);
        pair.run_for(Time::from_us(5));
        for at in 0..2 {
            let side = &mut pair.sides[at];
            side.device.to_error(side.qpn).unwrap();
            side.device.to_reset(side.qpn).unwrap();
            assert_eq!(side.device.state(side.qpn), Ok(State::Reset));
            side.sent();
            side.received();
        }
        pair.script(|_| Fate::Arrives);
        pair.setup.psns = [0xff_ffff, 5];
        pair.connect(0);
        pair.connect(1);
        pair.recv(1, 7, 2_000, 1_000);
        pair.post(0, 1, SendOp::Send, 1_000);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
        assert_eq!(pair.sides[1].received(), [(7, Status::Success, 1_000)]);
        assert_eq!(pair.sides[1].bytes(2_000, 1_000), pattern(1_000, 1));
    }
}

#[test]
fn local_memory_is_checked_when_work_is_posted() {
    let mut pair = Pair::new(Service::Rc);
    let side = &mut pair.sides[0];
    let other = side.device.create_pd();
    let foreign = side.device.register(other, vec![0; 64], None, Access::LOCAL).unwrap();
    let readable = side.device.register(side.pd, vec![0; 64], None, Access::LOCAL_READ).unwrap();
    let good = side.sge(0, 8);
    let end = Sge { addr: good.addr + REGION as u64 - 7, ..good };
    let cases = [
        (Sge { lkey: good.lkey ^ 1, ..good }, AccessError::Key),
        (Sge { addr: foreign.addr, lkey: foreign.lkey, ..good }, AccessError::Domain),
        (end, AccessError::Bounds),
        (Sge { addr: good.addr - 1, ..good }, AccessError::Bounds),
        (Sge { addr: u64::MAX, ..good }, AccessError::Bounds),
    ];
    let (addr, rkey) = (0, 0);
    for (bad, why) in cases {
        let sges = [good, bad];
        let refused = Err(VerbsError::Memory { index: 1, why });
        let request = |op| SendRequest { wr_id: 1, op, data: Data::Gather(&sges), flags: SendFlags::default() };
        assert_eq!(side.device.post_send(side.qpn, &request(SendOp::Send)), refused);
        assert_eq!(side.device.post_recv(side.qpn, &RecvRequest { wr_id: 1, scatter: &sges }), refused);
    }
    let sges = [Sge { addr: readable.addr, len: 8, lkey: readable.lkey }];
    let request = |op| SendRequest { wr_id: 1, op, data: Data::Gather(&sges), flags: SendFlags::default() };
    assert_eq!(side.device.post_send(side.qpn, &request(SendOp::Write { addr, rkey })), Ok(()));
    let refused = Err(VerbsError::Memory { index: 0, why: AccessError::Rights });
    assert_eq!(side.device.post_send(side.qpn, &request(SendOp::Read { addr, rkey })), refused);
    assert_eq!(side.device.post_recv(side.qpn, &RecvRequest { wr_id: 1, scatter: &sges }), refused);
    // A scatter-gather element of length 0 needs no valid key.
    let sges = [Sge::default()];
    assert_eq!(side.device.post_recv(side.qpn, &RecvRequest { wr_id: 1, scatter: &sges }), Ok(()));
}

#[test]
fn lengths_and_addresses_are_checked_when_work_is_posted() {
    let mut pair = Pair::new(Service::Rc);
    let flags = SendFlags::default();
    let full = VerbsError::Limit { what: "scatter-gather elements", limit: 4 };
    let side = &mut pair.sides[0];
    let sges = [side.sge(0, 1); 5];
    let request = SendRequest { wr_id: 1, op: SendOp::Send, data: Data::Gather(&sges), flags };
    assert_eq!(side.device.post_send(side.qpn, &request), Err(full.clone()));
    assert_eq!(side.device.post_recv(side.qpn, &RecvRequest { wr_id: 1, scatter: &sges }), Err(full));
    for (op, len, name) in [
        (pair.add_op(1, 0, 1), 7, "the length"),
        (pair.swap_op(1, 0, 1, 2), 9, "the length"),
        (pair.add_op(1, 4, 1), 8, "the address"),
        (pair.swap_op(1, 1, 1, 2), 8, "the address"),
    ] {
        let refused = pair.try_post(0, 1, op, 0, len, flags);
        assert!(matches!(refused, Err(VerbsError::Range { name: found, .. }) if found == name), "{refused:?}");
    }
    let side = &mut pair.sides[0];
    let inline = |op, bytes| SendRequest { wr_id: 1, op, data: Data::Inline(bytes), flags };
    let long = [0; 257];
    let refused = side.device.post_send(side.qpn, &inline(SendOp::Send, &long));
    assert_eq!(refused, Err(VerbsError::Limit { what: "bytes of inline data", limit: 256 }));
    let refused = side.device.post_send(side.qpn, &inline(SendOp::Read { addr: 0, rkey: 0 }, &[0; 8]));
    assert!(matches!(refused, Err(VerbsError::Unsupported(_))));
    let mut setup = Setup::new(Service::Rc);
    setup.attributes.max_rd_atomic = 0;
    let mut pair = setup.build();
    let refused = pair.try_post(0, 1, pair.read_op(1, 0), 0, 8, flags);
    assert!(matches!(refused, Err(VerbsError::Unsupported(_))));
}

#[test]
fn a_peer_that_admits_no_reads_refuses_them() {
    for service in RELIABLE {
        let mut setup = Setup::new(service);
        setup.max_dest = 0;
        let mut pair = setup.build();
        pair.post(0, 1, pair.read_op(1, 0), 8);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::RemoteInvalidRequest)], "{service:?}");
    }
}
