//! Tests of the state machine (InfiniBand volume 1, section 10.3.1): in every state, every verb either is executed or
//! returns an error with a sentence.

use crate::common::{Fate, Pair, Setup, address, bytes_of, pattern};
use rnic_transport::Time;
use rnic_verbs::{
    Access, Congestion, Data, Device, Dropped, Event, MAX_EVENTS, QpChange, RecvRequest, SendAttributes, SendFlags,
    SendOp, SendRequest, Service, State, Status, Verbs, VerbsError,
};
use rnic_wire::{Opcode, Operation};

const STATES: [State; 7] = [
    State::Reset,
    State::Init,
    State::ReadyToReceive,
    State::ReadyToSend,
    State::SendQueueDrain,
    State::SendQueueError,
    State::Error,
];

/// Creates a pair whose side A is in the state `state`. The state SQE exists only for UC.
fn in_state(service: Service, state: State) -> Pair {
    let mut pair = Setup::new(service).unconnected();
    pair.connect(1);
    let access = Access::ALL;
    match state {
        State::Reset => {}
        State::Init => {
            let side = &mut pair.sides[0];
            side.device.to_init(side.qpn, access).unwrap();
        }
        State::ReadyToReceive => pair.listen(0),
        State::ReadyToSend => pair.connect(0),
        State::SendQueueDrain => {
            pair.connect(0);
            let side = &mut pair.sides[0];
            side.device.to_sqd(side.qpn).unwrap();
            assert_eq!(side.events(), [Event::SendQueueDrained(side.qpn)]);
        }
        State::SendQueueError => {
            pair.connect(0);
            let side = &mut pair.sides[0];
            let spare = side.device.register(side.pd, vec![0; 8], None, access).unwrap();
            let sges = [rnic_verbs::Sge { addr: spare.addr, len: 8, lkey: spare.lkey }];
            let (data, flags) = (Data::Gather(&sges), SendFlags::default());
            side.device.post_send(side.qpn, &SendRequest { wr_id: 0, op: SendOp::Send, data, flags }).unwrap();
            side.device.deregister(spare.id).unwrap();
            pair.drain();
            pair.sides[0].sent();
        }
        State::Error => {
            let side = &mut pair.sides[0];
            side.device.to_error(side.qpn).unwrap();
        }
    }
    let side = &pair.sides[0];
    assert_eq!(side.device.state(side.qpn), Ok(state));
    pair
}

/// A verb: its name, a call at side A, and the expected new state by old state; `None` if the verb is refused.
type Verb = (&'static str, fn(&mut Pair) -> Result<(), VerbsError>, fn(State) -> Option<State>);

fn verbs() -> Vec<Verb> {
    use State::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendQueueDrain, SendQueueError};
    vec![
        (
            "to_init",
            |pair| {
                let qpn = pair.sides[0].qpn;
                pair.sides[0].device.to_init(qpn, Access::ALL)
            },
            |state| matches!(state, Reset | Init).then_some(Init),
        ),
        (
            "to_rtr",
            |pair| {
                let (qpn, connection, now) = (pair.sides[0].qpn, pair.connection(0), pair.now);
                pair.sides[0].device.to_rtr(qpn, connection, now)
            },
            |state| (state == Init).then_some(ReadyToReceive),
        ),
        (
            "to_rts",
            |pair| {
                let (qpn, attributes, now) = (pair.sides[0].qpn, pair.attributes(0), pair.now);
                pair.sides[0].device.to_rts(qpn, attributes, now)
            },
            |state| matches!(state, ReadyToReceive | SendQueueDrain | SendQueueError).then_some(ReadyToSend),
        ),
        (
            "to_sqd",
            |pair| {
                let qpn = pair.sides[0].qpn;
                pair.sides[0].device.to_sqd(qpn)
            },
            |state| (state == ReadyToSend).then_some(SendQueueDrain),
        ),
        (
            "to_error",
            |pair| {
                let qpn = pair.sides[0].qpn;
                pair.sides[0].device.to_error(qpn)
            },
            |_| Some(Error),
        ),
        (
            "to_reset",
            |pair| {
                let qpn = pair.sides[0].qpn;
                pair.sides[0].device.to_reset(qpn)
            },
            |_| Some(Reset),
        ),
        (
            "post_send",
            |pair| pair.try_post(0, 1, SendOp::Send, 0, 8, SendFlags::SIGNALED),
            |state| matches!(state, ReadyToSend | SendQueueDrain | SendQueueError | Error).then_some(state),
        ),
        (
            "post_recv",
            |pair| {
                let side = &mut pair.sides[0];
                side.device.post_recv(side.qpn, &RecvRequest { wr_id: 1, scatter: &[] })
            },
            |state| (state != Reset).then_some(state),
        ),
        (
            "set_congestion",
            |pair| {
                let qpn = pair.sides[0].qpn;
                pair.sides[0].device.set_congestion(qpn, Congestion::named("dcqcn").unwrap())
            },
            |state| matches!(state, Reset | Init).then_some(state),
        ),
    ]
}

#[test]
fn every_verb_in_every_state() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        for state in STATES {
            if state == State::SendQueueError && service != Service::Uc {
                continue;
            }
            for (name, verb, expected) in verbs() {
                let mut pair = in_state(service, state);
                let result = verb(&mut pair);
                let side = &pair.sides[0];
                let now = side.device.state(side.qpn).unwrap();
                match expected(state) {
                    Some(next) => {
                        assert_eq!(result, Ok(()), "{service:?}: {name} in {state:?}");
                        assert_eq!(now, next, "{service:?}: {name} in {state:?}");
                    }
                    None => {
                        let refused = result.unwrap_err();
                        assert!(
                            matches!(refused, VerbsError::WrongState { state: found, .. } if found == state),
                            "{service:?}: {name} in {state:?}: {refused:?}"
                        );
                        let sentence = refused.to_string();
                        assert!(
                            sentence.starts_with(&format!("a queue pair in state {state:?} cannot ")),
                            "{sentence}"
                        );
                        assert_eq!(now, state, "{service:?}: {name} in {state:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn packets_are_taken_in_the_states_that_receive() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        for state in STATES {
            if state == State::SendQueueError && service != Service::Uc {
                continue;
            }
            let mut pair = in_state(service, state);
            pair.post(1, 1, pair.write_op(0, 0), 8);
            pair.drain();
            pair.step(Time::MAX);
            let receives = !matches!(state, State::Reset | State::Init | State::Error);
            let dropped = pair.sides[0].dropped(Dropped::State);
            assert_eq!(dropped, u64::from(!receives), "{service:?} {state:?}");
        }
    }
}

#[test]
fn answers_are_taken_in_the_states_that_send() {
    for (opcode, service) in [(Opcode::RC_ACKNOWLEDGE, Service::Rc), (Opcode::IRN_ACKNOWLEDGE, Service::Irn)] {
        let mut pair = in_state(service, State::ReadyToReceive);
        let mut headers = pair.headers(0, opcode, crate::common::PSN_A);
        headers.aeth = Some(rnic_wire::Aeth { syndrome: rnic_wire::Syndrome::ACK, msn: 0 });
        headers.sack = (service == Service::Irn).then_some(rnic_wire::SackEth { psn: 0, before: 0 });
        assert_eq!(pair.arrive(0, &bytes_of(headers, &[])), Err(Dropped::State));
    }
}

#[test]
fn attributes_out_of_range_are_refused_by_name() {
    let mut pair = in_state(Service::Rc, State::Init);
    let good = pair.connection(0);
    let qpn = pair.sides[0].qpn;
    let device = &mut pair.sides[0].device;
    let now = Time::ZERO;
    for (connection, name) in [
        (rnic_verbs::Connection { path_mtu: 128, ..good }, "the path MTU"),
        (rnic_verbs::Connection { path_mtu: 1_000, ..good }, "the path MTU"),
        (rnic_verbs::Connection { path_mtu: 8_192, ..good }, "the path MTU"),
        (rnic_verbs::Connection { path_mtu: 0, ..good }, "the path MTU"),
        (rnic_verbs::Connection { recv_psn: 1 << 24, ..good }, "the first PSN"),
        (rnic_verbs::Connection { peer_qpn: rnic_verbs::Qpn(0xff_ffff), ..good }, "the QPN of the peer"),
        (rnic_verbs::Connection { min_rnr_timer: 32, ..good }, "the RNR timer"),
        (rnic_verbs::Connection { dscp: 64, ..good }, "the DSCP"),
    ] {
        let refused = device.to_rtr(qpn, connection, now).unwrap_err();
        assert!(matches!(refused, VerbsError::Range { name: found, .. } if found == name), "{refused}");
    }
    device.to_rtr(qpn, good, now).unwrap();
    let good = SendAttributes::default();
    for (attributes, name) in [
        (SendAttributes { send_psn: 1 << 24, ..good }, "the first PSN"),
        (SendAttributes { timeout: 32, ..good }, "the timeout"),
        (SendAttributes { retry_count: 8, ..good }, "the retry count"),
        (SendAttributes { rnr_retry: 8, ..good }, "the RNR retry count"),
    ] {
        let refused = device.to_rts(qpn, attributes, now).unwrap_err();
        assert!(matches!(refused, VerbsError::Range { name: found, .. } if found == name), "{refused}");
    }
    device.to_rts(qpn, SendAttributes { timeout: 31, ..good }, now).unwrap();
    for service in [Service::Irn, Service::Uc] {
        let mut setup = Setup::new(service);
        setup.mtu = 8_192;
        let mut pair = setup.build();
        pair.sides[0].fill(0, &pattern(20_000, 1));
        pair.post(0, 1, pair.write_op(1, 0), 20_000);
        pair.run();
        assert_eq!(pair.sides[1].bytes(0, 20_000), pattern(20_000, 1));
    }
}

#[test]
fn a_link_without_a_rate_and_a_window_without_packets() {
    let mut setup = Setup::new(Service::Rc);
    setup.config.line_rate = rnic_transport::BitRate::from_bps(0);
    let mut pair = setup.unconnected();
    let (qpn, connection) = (pair.sides[0].qpn, pair.connection(0));
    pair.sides[0].device.to_init(qpn, Access::ALL).unwrap();
    let refused = pair.sides[0].device.to_rtr(qpn, connection, Time::ZERO).unwrap_err();
    assert_eq!(refused.to_string(), "the link's rate is 0; it must be 1 bit per second or more");
    for in_flight in [0, u32::MAX] {
        let mut setup = Setup::new(Service::Irn);
        setup.config.in_flight = in_flight;
        let mut pair = setup.build();
        pair.post(0, 1, pair.write_op(1, 0), 1_000);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    }
}

#[test]
fn a_drained_send_queue_finishes_what_it_began() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        let mut setup = Setup::new(service);
        setup.config.in_flight = 1;
        let mut pair = setup.build();
        for at in 0..2 {
            pair.sides[at].batch = rnic_verbs::Batch::new(1);
        }
        pair.post(0, 1, pair.write_op(1, 0), 600);
        pair.post(0, 2, pair.write_op(1, 1_000), 600);
        pair.post_with(0, 3, pair.write_op(1, 2_000), 0, 8, SendFlags::default());
        if service != Service::Uc {
            pair.post(0, 4, pair.read_op(1, 0), 8);
        }
        // One packet of the first message is sent.
        let side = &mut pair.sides[0];
        assert!(side.device.transmit(pair.now, &mut side.batch));
        side.device.to_sqd(side.qpn).unwrap();
        assert_eq!(side.device.poll_event(), None);
        let first = side.batch.bytes().to_vec();
        pair.arrive(1, &first).unwrap();
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)], "{service:?}");
        assert_eq!(pair.sides[0].events(), [Event::SendQueueDrained(pair.sides[0].qpn)]);
        // Requests that are posted now wait too. The queue pair still receives.
        pair.post(0, 5, pair.write_op(1, 3_000), 8);
        pair.post(1, 6, pair.write_op(0, 3_000), 8);
        pair.run();
        assert_eq!((pair.sides[0].sent(), pair.sides[1].sent().len()), (vec![], 1));
        assert!(!pair.trace.iter().any(|line| line.contains("+0x3e8") || line.contains("+0x7d0")), "{service:?}");
        let (qpn, now) = (pair.sides[0].qpn, pair.now);
        pair.sides[0].device.to_rts(qpn, SendAttributes::default(), now).unwrap();
        pair.run();
        let ids: Vec<u64> = pair.sides[0].sent().iter().map(|sent| sent.0).collect();
        assert_eq!(ids, if service == Service::Uc { vec![2, 5] } else { vec![2, 4, 5] }, "{service:?}");
        assert_eq!(pair.sides[0].events(), []);
        assert_eq!(pair.sides[0].device.counters().retransmitted, 0);
    }
}

#[test]
fn a_send_queue_drains_through_losses() {
    for service in [Service::Rc, Service::Irn] {
        let mut pair = Pair::new(service);
        pair.lose_once(|seen| seen.is(0, Operation::Write, 101));
        pair.post(0, 1, pair.write_op(1, 0), 600);
        pair.drain();
        pair.post(0, 2, pair.write_op(1, 1_000), 600);
        let qpn = pair.sides[0].qpn;
        pair.sides[0].device.to_sqd(qpn).unwrap();
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)], "{service:?}");
        assert_eq!(pair.sides[0].events(), [Event::SendQueueDrained(qpn)]);
        let now = pair.now;
        pair.sides[0].device.to_rts(qpn, SendAttributes::default(), now).unwrap();
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(2, Status::Success)], "{service:?}");
    }
}

#[test]
fn the_first_packet_before_ready_to_send_is_an_event() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        let mut pair = in_state(service, State::ReadyToReceive);
        pair.post(1, 1, pair.write_op(0, 0), 8);
        pair.post(1, 2, pair.write_op(0, 0), 8);
        pair.run();
        assert_eq!(pair.sides[0].events(), [Event::CommunicationEstablished(pair.sides[0].qpn)]);
        // There is no event if the queue pair is already in RTS.
        let mut pair = in_state(service, State::ReadyToSend);
        pair.post(1, 1, pair.write_op(0, 0), 8);
        pair.run();
        assert_eq!(pair.sides[0].events(), []);
    }
}

/// Only a request that the queue pair takes shows that the peer is connected.
#[test]
fn a_packet_that_is_dropped_does_not_establish_the_communication() {
    for (service, opcode) in [(Service::Rc, Opcode::RC_WRITE_MIDDLE), (Service::Uc, Opcode::UC_WRITE_MIDDLE)] {
        let mut pair = in_state(service, State::ReadyToReceive);
        // Far from the expected PSN, and without the packets before it.
        let headers = pair.headers(0, opcode, 0x70_0000);
        assert!(pair.arrive(0, &bytes_of(headers, &[0; 256])).is_err());
        let headers = pair.headers(0, Opcode::CNP, 0);
        assert_eq!(pair.arrive(0, &bytes_of(headers, &[0; 16])), Err(Dropped::Stale));
        assert_eq!(pair.sides[0].events(), [], "{service:?}");
    }
}

/// In RTS the rights of the peer and the RNR timer change, in SQD all attributes.
#[test]
fn attributes_change_in_rts_and_in_sqd() {
    for service in [Service::Rc, Service::Irn] {
        let mut pair = in_state(service, State::ReadyToSend);
        let [a, b] = [pair.sides[0].qpn, pair.sides[1].qpn];
        // The peer may no longer write, and then may again.
        let access =
            |remote_write| QpChange { access: Some(Access { remote_write, ..Access::ALL }), ..QpChange::default() };
        pair.sides[1].device.change(b, access(false)).unwrap();
        pair.sides[1].device.change(b, access(true)).unwrap();
        pair.post(0, 1, pair.write_op(1, 0), 8);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
        let retries = QpChange { retry_count: Some(1), max_rd_atomic: Some(1), ..QpChange::default() };
        let device = &mut pair.sides[0].device;
        assert!(matches!(device.change(a, retries), Err(VerbsError::Unsupported(_))), "RTS admits no such change");
        device.to_sqd(a).unwrap();
        device.change(a, retries).unwrap();
        let wrong = QpChange { dscp: Some(64), retry_count: Some(5), ..QpChange::default() };
        assert!(matches!(device.change(a, wrong), Err(VerbsError::Range { .. })));
        let path = QpChange { dscp: Some(46), max_dest_rd_atomic: Some(2), ..QpChange::default() };
        device.change(a, path).unwrap();
        let connection = device.query_qp(a).unwrap().connection.unwrap();
        assert_eq!((connection.dscp, connection.max_dest_rd_atomic), (46, 2));
        let timeout = QpChange { timeout: Some(9), ..QpChange::default() };
        assert_eq!(device.change(a, timeout).is_ok(), service == Service::Rc);
        device.to_rts(a, SendAttributes::default(), device.now()).unwrap();
        // With one retry, the second timeout fails the request: 4.096 us x 2^9 = 2.1 ms each with RC.
        pair.script(|_| Fate::Lost);
        pair.post(0, 2, pair.write_op(1, 0), 8);
        pair.run_for(Time::from_ms(if service == Service::Rc { 5 } else { 1_000 }));
        assert_eq!(pair.sides[0].sent(), [(2, Status::TransportRetryExceeded)], "{service:?}");
    }
}

#[test]
fn objects_in_use_stay_and_handles_of_the_past_open_nothing() {
    let mut setup = Setup::new(Service::Rc);
    setup.srq = Some(4);
    let mut pair = setup.build();
    let side = &mut pair.sides[1];
    let (pd, cq, srq, qpn) = (side.pd, side.send_cq, side.srq.unwrap(), side.qpn);
    let device = &mut side.device;
    let busy = |result: Result<(), VerbsError>| matches!(result, Err(VerbsError::Busy { .. }));
    assert!(busy(device.destroy_cq(cq)));
    assert!(busy(device.destroy_srq(srq)));
    assert!(busy(device.destroy_pd(pd)));
    device.destroy_qp(qpn).unwrap();
    device.destroy_cq(cq).unwrap();
    assert!(busy(device.destroy_pd(pd)));
    device.deregister(side.memory.id).unwrap();
    assert!(busy(device.destroy_pd(pd)));
    device.destroy_srq(srq).unwrap();
    device.destroy_pd(pd).unwrap();
    // New objects take the slots of the destroyed objects, but get other handles.
    let new_pd = device.create_pd();
    let new_cq = device.create_cq(1).unwrap();
    let new_srq = device.create_srq(new_pd, 1, 1).unwrap();
    let new_mr = device.register(new_pd, vec![0; 8], None, Access::ALL).unwrap();
    let unknown = |result: Result<(), VerbsError>| matches!(result, Err(VerbsError::Unknown(_)));
    assert!(unknown(device.destroy_pd(pd)) && unknown(device.destroy_cq(cq)) && unknown(device.destroy_srq(srq)));
    assert!(unknown(device.destroy_qp(qpn)) && unknown(device.to_reset(qpn)) && unknown(device.to_error(qpn)));
    assert!(unknown(device.to_sqd(qpn)) && unknown(device.state(qpn).map(|_| ())));
    assert!(unknown(device.arm_cq(cq, rnic_verbs::Notify::Any)) && unknown(device.arm_srq(srq, 1)));
    assert!(unknown(device.poll_cq(cq, &mut []).map(|_| ())));
    assert!(unknown(device.rekey(side.memory.id).map(|_| ())));
    assert!(unknown(device.deregister(side.memory.id).map(|_| ())));
    assert!(device.bytes(side.memory.id).is_none() && device.bytes_mut(side.memory.id).is_none());
    assert!(unknown(device.register(pd, vec![], None, Access::ALL).map(|_| ())));
    assert!(unknown(device.create_srq(pd, 1, 1).map(|_| ())));
    assert_eq!((device.cq_len(cq), device.take_notification(cq)), (0, false));
    assert_eq!(device.destroy_srq(new_srq), Ok(()));
    assert_eq!(device.destroy_cq(new_cq), Ok(()));
    assert_eq!(device.deregister(new_mr.id), Ok(vec![0; 8]));
    assert_eq!(VerbsError::Unknown("such queue pair").to_string(), "there is no such queue pair");
}

#[test]
fn a_number_is_not_used_again_soon() {
    let mut pair = Pair::new(Service::Rc);
    let init = rnic_verbs::QpInit {
        service: Service::Rc,
        send_cq: pair.sides[0].send_cq,
        recv_cq: pair.sides[0].recv_cq,
        srq: None,
        capacities: rnic_verbs::Capacities::default(),
        signal_all: false,
    };
    let side = &mut pair.sides[0];
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..254 {
        let qpn = side.device.create_qp(side.pd, init.clone()).unwrap();
        assert!(seen.insert(qpn) && qpn.0 > 1 && qpn.0 < 0xff_ffff);
        side.device.destroy_qp(qpn).unwrap();
    }
}

#[test]
fn more_than_the_limits_is_refused() {
    let mut setup = Setup::new(Service::Rc);
    setup.config.limits = rnic_verbs::Limits {
        queue_pairs: 2,
        completion_queues: 3,
        completions: 100,
        shared_receive_queues: 1,
        work_requests: 128,
        scatter_gather: 4,
        inline: 256,
        windows: 2,
        protection_domains: 3,
        regions: 2,
        bytes: crate::common::REGION as u64 + 100,
    };
    let mut pair = setup.unconnected();
    let side = &mut pair.sides[0];
    let (pd, device) = (side.pd, &mut side.device);
    let other = device.create_pd();
    let third = Verbs::create_pd(device).unwrap();
    let refused = Verbs::create_pd(device).unwrap_err();
    assert_eq!(refused.to_string(), "at most 3 protection domains are possible");
    assert_eq!(refused, VerbsError::Exhausted { what: "protection domains", limit: 3 });
    device.destroy_pd(third).unwrap();
    let srq = device.create_srq(other, 128, 4).unwrap();
    let says = |result: Result<(), VerbsError>, sentence: &str| assert_eq!(result.unwrap_err().to_string(), sentence);
    let srqs = |device: &mut Device, capacity, elements| device.create_srq(other, capacity, elements).map(|_| ());
    says(srqs(device, 1, 1), "at most 1 shared receive queues are possible");
    device.destroy_srq(srq).unwrap();
    says(srqs(device, 129, 1), "the capacity of a receive queue is 129; it must be 1 to 128");
    says(srqs(device, 0, 1), "the capacity of a receive queue is 0; it must be 1 to 128");
    says(srqs(device, 128, 5), "the number of scatter-gather elements is 5; it must be 0 to 4");
    device.create_srq(other, 128, 4).unwrap();
    let cqs = |device: &mut Device, capacity| device.create_cq(capacity).map(|_| ());
    says(cqs(device, 0), "the capacity of a completion queue is 0; it must be 1 to 100");
    says(cqs(device, 101), "the capacity of a completion queue is 101; it must be 1 to 100");
    let cq = device.create_cq(100).unwrap();
    says(cqs(device, 1), "at most 3 completion queues are possible");
    let regions = |device: &mut Device, len, addr| device.register(pd, vec![0; len], addr, Access::ALL).map(|_| ());
    says(regions(device, 101, None), "at most 65636 bytes of registered memory are possible");
    let below = "the address is 18446744073709551609; it must be low enough for the region to end below 2^64";
    says(regions(device, 8, Some(u64::MAX - 6)), below);
    regions(device, 8, Some(u64::MAX - 8)).unwrap();
    says(regions(device, 0, None), "at most 2 memory regions are possible");
    let init = rnic_verbs::QpInit {
        service: Service::Rc,
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        capacities: rnic_verbs::Capacities::default(),
        signal_all: false,
    };
    let mut sized = |change: fn(&mut rnic_verbs::Capacities)| {
        let mut init = init.clone();
        change(&mut init.capacities);
        device.create_qp(pd, init).map(|_| ())
    };
    says(sized(|sizes| sizes.send_wr = 0), "the number of sends is 0; it must be 1 to 128");
    says(sized(|sizes| sizes.send_wr = 129), "the number of sends is 129; it must be 1 to 128");
    says(sized(|sizes| sizes.recv_wr = 129), "the number of receives is 129; it must be 0 to 128");
    let elements = "the number of scatter-gather elements is 5; it must be 0 to 4";
    says(sized(|sizes| sizes.send_sge = 5), elements);
    says(sized(|sizes| sizes.recv_sge = 5), elements);
    let inline = "the length of inline data is 257; it must be 0 to 256";
    says(sized(|sizes| sizes.inline = 257), inline);
    sized(|_| ()).unwrap();
    says(sized(|_| ()), "at most 2 queue pairs are possible");
}

#[test]
fn a_congestion_control_that_cannot_be_had_is_refused() {
    // These settings lack the parameters that DCQCN needs.
    let settings = rnic_transport::congestion::Settings::new(&[]);
    let mut setup = Setup::new(Service::Rc);
    setup.config.congestion = Congestion::of::<rnic_transport::congestion::Dcqcn>(settings);
    let mut pair = setup.unconnected();
    let (qpn, connection) = (pair.sides[0].qpn, pair.connection(0));
    pair.sides[0].device.to_init(qpn, Access::ALL).unwrap();
    let refused = pair.sides[0].device.to_rtr(qpn, connection, Time::ZERO);
    assert!(matches!(refused, Err(VerbsError::Congestion(_))), "{refused:?}");
    assert_eq!(pair.sides[0].device.state(qpn), Ok(State::Init));
    assert!(Congestion::named("hope").is_none());
}

#[test]
fn addresses_are_compared_as_what_they_mean() {
    // A dual-stack socket reports an IPv4 peer by its IPv4-mapped IPv6 address.
    let mut pair = Pair::new(Service::Rc);
    pair.post(0, 1, pair.write_op(1, 0), 8);
    let side = &mut pair.sides[0];
    side.device.transmit(pair.now, &mut side.batch);
    let bytes = side.batch.bytes().to_vec();
    let device = &mut pair.sides[1].device;
    let other = address("[::ffff:10.0.0.9]:4791");
    assert_eq!(device.receive(pair.now, other, false, &bytes), Err(Dropped::WrongPeer));
    // Any UDP source port is accepted, because source ports spread connections over paths.
    let mapped = address("[::ffff:10.0.0.1]:55555");
    assert_eq!(device.receive(pair.now, mapped, false, &bytes), Ok(()));
}

/// Events use bounded memory, even if the application never polls them.
#[test]
fn the_oldest_of_too_many_events_are_lost() {
    let mut pair = Pair::new(Service::Rc);
    let (qpn, pd) = (pair.sides[0].qpn, pair.sides[0].pd);
    let device = &mut pair.sides[0].device;
    device.to_error(qpn).unwrap();
    let srq = device.create_srq(pd, 4, 1).unwrap();
    for _ in 0..MAX_EVENTS + 5 {
        // An empty queue has fewer receives than any limit.
        device.arm_srq(srq, 1).unwrap();
    }
    let errors = device.counters().queue_pair_errors;
    assert_eq!(device.counters().events_lost, errors + 5);
    let events = std::iter::from_fn(|| device.poll_event()).collect::<Vec<_>>();
    assert_eq!(events, vec![Event::SharedReceiveLimit(srq); MAX_EVENTS]);
}
