//! Tests of send, receive and completion queues: order, signalling, notifications, overflow, shared receive queues,
//! inline and scattered data, large messages.

use crate::common::{Fate, PSN_A, Pair, REGION, Seen, Setup, bytes_of, pattern};
use rnic_transport::Time;
use rnic_verbs::{
    Access, AccessError, Completion, Data, Dropped, Event, Notify, Opcode, QpInit, RecvRequest, SendFlags, SendOp,
    SendRequest, Service, Sge, Status, VerbsError,
};
use rnic_wire::{Operation, SendEth};

const ALL: [Service; 3] = [Service::Rc, Service::Irn, Service::Uc];
const RELIABLE: [Service; 2] = [Service::Rc, Service::Irn];

#[test]
fn completions_say_what_was_done() {
    for service in RELIABLE {
        let mut pair = Pair::new(service);
        let rkey = {
            let side = &mut pair.sides[1];
            side.device.register(side.pd, vec![0; 8], None, Access::ALL).unwrap().rkey
        };
        for wr_id in 0..4 {
            pair.recv(1, wr_id, 1_000, 100);
        }
        let ops = [
            (SendOp::Send, 10, Opcode::Send, 0),
            (SendOp::SendImm(0xdead_beef), 11, Opcode::Send, 0),
            (SendOp::SendInv(rkey), 12, Opcode::Send, 0),
            (pair.write_op(1, 0), 13, Opcode::Write, 0),
            (pair.write_imm_op(1, 0, 5), 14, Opcode::Write, 0),
            (pair.read_op(1, 0), 15, Opcode::Read, 15),
            (pair.add_op(1, 0, 1), 8, Opcode::FetchAdd, 8),
            (pair.swap_op(1, 0, 1, 1), 8, Opcode::CompareSwap, 8),
        ];
        // Packets leave when their request is posted, and an ACK leaves when its packet arrives.
        let arrival = pair.now + crate::common::DELAY;
        let acknowledged = arrival + crate::common::DELAY;
        for (wr_id, (op, len, ..)) in ops.into_iter().enumerate() {
            pair.post(0, wr_id as u64, op, len);
        }
        pair.run();
        let cq = pair.sides[0].send_cq;
        let sent = pair.sides[0].poll(cq);
        assert_eq!(sent.len(), ops.len());
        for (at, (completion, (_, _, opcode, byte_len))) in sent.iter().zip(ops).enumerate() {
            let expected = rnic_verbs::Completion {
                wr_id: at as u64,
                opcode,
                byte_len,
                qpn: pair.sides[0].qpn,
                time: acknowledged,
                ..Completion::BLANK
            };
            assert_eq!(*completion, expected, "{service:?}");
        }
        let (cq, qpn) = (pair.sides[1].recv_cq, pair.sides[1].qpn);
        let received = pair.sides[1].poll(cq);
        let expect = |wr_id, opcode, byte_len, imm, invalidated| rnic_verbs::Completion {
            wr_id,
            opcode,
            byte_len,
            imm,
            invalidated,
            qpn,
            time: arrival,
            ..Completion::BLANK
        };
        assert_eq!(
            received,
            [
                expect(0, Opcode::Recv, 10, None, None),
                expect(1, Opcode::Recv, 11, Some(0xdead_beef), None),
                expect(2, Opcode::Recv, 12, None, Some(rkey)),
                expect(3, Opcode::RecvWithImmediate, 14, Some(5), None),
            ]
        );
    }
}

#[test]
fn sends_that_are_not_signalled_complete_in_silence() {
    for service in ALL {
        let mut pair = Pair::new(service);
        for wr_id in 0..4 {
            let flags = SendFlags { signaled: wr_id == 2, ..SendFlags::default() };
            pair.post_with(0, wr_id, pair.write_op(1, 0), 0, 8, flags);
        }
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(2, Status::Success)]);
        let mut setup = Setup::new(service);
        setup.signal_all = true;
        let mut pair = setup.build();
        pair.post_with(0, 1, pair.write_op(1, 0), 0, 8, SendFlags::default());
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    }
}

#[test]
fn a_full_queue_takes_no_more() {
    let mut setup = Setup::new(Service::Rc);
    (setup.capacities.send_wr, setup.capacities.recv_wr) = (2, 2);
    let mut pair = setup.build();
    let flags = SendFlags::default();
    for wr_id in 0..2 {
        pair.post(0, wr_id, pair.write_op(1, 0), 8);
        pair.recv(1, wr_id, 0, 600);
    }
    assert_eq!(pair.try_post(0, 2, pair.write_op(1, 0), 0, 8, flags), Err(VerbsError::Full("send queue")));
    let request = RecvRequest { wr_id: 2, scatter: &[] };
    let full = Err(VerbsError::Full("receive queue"));
    let side = &mut pair.sides[1];
    assert_eq!(side.device.post_recv(side.qpn, &request), full);
    // A completed request frees its place in the queue. A receive of a message in progress still takes up its place.
    pair.run();
    let begins = |seen: &Seen<'_>| seen.headers.bth.opcode.starts_message();
    pair.script(move |seen| if begins(seen) { Fate::Arrives } else { Fate::Lost });
    pair.post(0, 3, SendOp::Send, 600);
    pair.drain();
    pair.step(Time::MAX);
    let side = &mut pair.sides[1];
    assert_eq!(side.device.post_recv(side.qpn, &request), full);
}

#[test]
fn a_notification_comes_once_and_for_the_kind_that_was_asked_for() {
    for service in ALL {
        let mut pair = Pair::new(service);
        let (send, recv) = (pair.sides[0].send_cq, pair.sides[1].recv_cq);
        let quiet = SendFlags::SIGNALED;
        let urgent = SendFlags { solicited: true, ..SendFlags::default() };
        let go = |pair: &mut Pair, flags| {
            pair.recv(1, 0, 0, 10);
            pair.post_with(0, 0, SendOp::Send, 0, 10, flags);
            pair.run();
            let sent = pair.sides[0].device.take_notification(send);
            (sent, pair.sides[1].device.take_notification(recv))
        };
        // Without a request there is no notification.
        assert_eq!(go(&mut pair, quiet), (false, false));
        pair.sides[0].device.arm_cq(send, Notify::Any).unwrap();
        pair.sides[1].device.arm_cq(recv, Notify::Any).unwrap();
        assert_eq!(go(&mut pair, quiet), (true, true));
        assert_eq!(go(&mut pair, quiet), (false, false));
        // A request for solicited completions only.
        pair.sides[0].device.arm_cq(send, Notify::Solicited).unwrap();
        pair.sides[1].device.arm_cq(recv, Notify::Solicited).unwrap();
        assert_eq!(go(&mut pair, quiet), (false, false));
        assert_eq!(go(&mut pair, urgent), (false, true));
        // A later request for solicited completions does not weaken a request for any completion.
        pair.sides[1].device.arm_cq(recv, Notify::Any).unwrap();
        pair.sides[1].device.arm_cq(recv, Notify::Solicited).unwrap();
        assert_eq!(go(&mut pair, quiet), (false, true));
        // Completions of failed requests count as solicited.
        pair.sides[0].device.arm_cq(send, Notify::Solicited).unwrap();
        let qpn = pair.sides[0].qpn;
        pair.sides[0].device.to_error(qpn).unwrap();
        pair.post(0, 1, SendOp::Send, 10);
        assert!(pair.sides[0].device.take_notification(send));
        assert!(!pair.sides[0].device.take_notification(send));
    }
}

#[test]
fn solicited_is_in_the_last_packet() {
    for service in ALL {
        let mut pair = Pair::new(service);
        pair.recv(1, 0, 0, 1_000);
        pair.post_with(0, 0, SendOp::Send, 0, 600, SendFlags { solicited: true, ..SendFlags::default() });
        pair.run();
        let marked: Vec<bool> = pair.trace[..3].iter().map(|line| line.contains("solicited")).collect();
        assert_eq!(marked, [false, false, true]);
    }
}

/// A plain Write generates no completion at the peer, so its packets do not carry the solicited bit.
#[test]
fn a_plain_write_is_not_solicited() {
    for service in ALL {
        let mut pair = Pair::new(service);
        pair.recv(1, 0, 0, 1_000);
        let urgent = SendFlags { solicited: true, ..SendFlags::default() };
        pair.post_with(0, 0, pair.write_op(1, 0), 0, 600, urgent);
        pair.post_with(0, 1, pair.write_imm_op(1, 0, 7), 0, 10, urgent);
        pair.run();
        let solicited = |line: &&String| line.contains("solicited");
        assert_eq!(pair.trace.iter().filter(solicited).count(), 1, "{:?}", pair.trace);
        assert!(pair.trace.iter().find(solicited).unwrap().contains("Immediate"), "{:?}", pair.trace);
    }
}

#[test]
fn a_completion_queue_that_overflows_ends_its_queue_pairs() {
    for service in ALL {
        let mut setup = Setup::new(service);
        setup.cq = 3;
        let mut pair = setup.build();
        let cq = pair.sides[0].send_cq;
        pair.sides[0].device.arm_cq(cq, Notify::Solicited).unwrap();
        for wr_id in 0..5 {
            pair.post(0, wr_id, pair.write_op(1, 0), 8);
        }
        pair.run();
        let qpn = pair.sides[0].qpn;
        let events = [Event::CompletionQueueOverflow(cq), Event::QueuePairError(qpn, Status::LocalQpOperation)];
        assert_eq!(pair.sides[0].events(), events, "{service:?}");
        // An overflow triggers the requested notification, and every later request is notified immediately.
        assert!(pair.sides[0].device.take_notification(cq));
        pair.sides[0].device.arm_cq(cq, Notify::Any).unwrap();
        assert!(pair.sides[0].device.take_notification(cq));
        // The completions before the overflow can be polled, without a gap. After them polling returns an error.
        let mut one = [Completion::BLANK];
        for wr_id in 0..3 {
            assert_eq!(pair.sides[0].device.poll_cq(cq, &mut one), Ok(1));
            assert_eq!((one[0].wr_id, one[0].status), (wr_id, Status::Success));
        }
        assert_eq!(pair.sides[0].device.poll_cq(cq, &mut one), Err(VerbsError::Overflow));
        pair.post(0, 9, pair.write_op(1, 0), 8);
        assert_eq!(pair.sides[0].device.poll_cq(cq, &mut one), Err(VerbsError::Overflow));
        assert_eq!(pair.sides[0].events(), []);
        // No queue pair can be created with an overflowed completion queue.
        let side = &mut pair.sides[0];
        let init = rnic_verbs::QpInit {
            service,
            send_cq: cq,
            recv_cq: side.recv_cq,
            srq: None,
            capacities: rnic_verbs::Capacities::default(),
            signal_all: false,
        };
        assert_eq!(side.device.create_qp(side.pd, init), Err(VerbsError::Overflow));
    }
}

fn shared(service: Service, receives: u64) -> Pair {
    let mut setup = Setup::new(service);
    setup.srq = Some(1_000);
    setup.cq = 1_000;
    let mut pair = setup.build();
    for wr_id in 0..receives {
        pair.srq_recv(wr_id, 1_000 * (wr_id % 10), 1_000);
    }
    pair
}

#[test]
fn a_shared_receive_queue_serves_and_reports_its_limit() {
    for service in ALL {
        let mut pair = shared(service, 3);
        let srq = pair.sides[1].srq.unwrap();
        pair.sides[1].device.arm_srq(srq, 2).unwrap();
        assert_eq!(pair.sides[1].events(), []);
        for wr_id in 0..2 {
            pair.post(0, wr_id, SendOp::Send, 300);
            pair.run();
        }
        // The queue held two receives, then one, which is less than the limit of two. The event comes once.
        assert_eq!(pair.sides[1].events(), [Event::SharedReceiveLimit(srq)], "{service:?}");
        pair.post(0, 2, SendOp::Send, 300);
        pair.run();
        assert_eq!(pair.sides[1].events(), []);
        assert_eq!(pair.sides[1].received(), [0, 1, 2].map(|wr_id| (wr_id, Status::Success, 300)));
        // If the queue already holds fewer receives than the limit, the event comes immediately.
        pair.sides[1].device.arm_srq(srq, 1).unwrap();
        assert_eq!(pair.sides[1].events(), [Event::SharedReceiveLimit(srq)]);
        // ACKs of a queue pair with a shared receive queue carry no credits.
        assert!(!pair.trace.iter().any(|line| line.contains("credits")), "{:?}", pair.trace);
        let side = &mut pair.sides[1];
        let own = side.device.post_recv(side.qpn, &RecvRequest { wr_id: 1, scatter: &[] });
        assert!(matches!(own, Err(VerbsError::Unsupported(_))));
        // A queue pair in the error state raises an event, because it takes no more receives from the shared receive
        // queue. The receives in this queue stay there.
        pair.srq_recv(9, 0, 1_000);
        let side = &mut pair.sides[1];
        side.device.to_error(side.qpn).unwrap();
        assert_eq!((side.events(), side.received()), (vec![Event::LastReceiveTaken(side.qpn)], vec![]));
    }
}

/// The memory of receives is checked with the protection domain of the shared receive queue.
#[test]
fn a_shared_receive_queue_of_another_domain_serves() {
    for service in ALL {
        let mut pair = Setup::new(service).unconnected();
        let side = &mut pair.sides[1];
        let other = side.device.create_pd();
        let srq = side.device.create_srq(other, 4, 1).unwrap();
        let info = side.device.query_qp(side.qpn).unwrap();
        let init = QpInit {
            service,
            send_cq: side.send_cq,
            recv_cq: side.recv_cq,
            srq: Some(srq),
            capacities: info.capacities,
            signal_all: false,
        };
        side.qpn = side.device.create_qp(side.pd, init).unwrap();
        let region = side.device.register(other, vec![0; 64], None, Access::LOCAL).unwrap();
        let its = [Sge { addr: region.addr, len: 64, lkey: region.lkey }];
        side.device.post_srq_recv(srq, &RecvRequest { wr_id: 5, scatter: &its }).unwrap();
        let of_the_queue_pair = [side.sge(0, 64)];
        let refused = side.device.post_srq_recv(srq, &RecvRequest { wr_id: 6, scatter: &of_the_queue_pair });
        assert_eq!(refused, Err(VerbsError::Memory { index: 0, why: AccessError::Domain }));
        pair.connect(0);
        pair.connect(1);
        pair.sides[0].fill(0, &[3; 64]);
        pair.post(0, 1, SendOp::Send, 64);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)], "{service:?}");
        assert_eq!(pair.sides[1].received(), [(5, Status::Success, 64)], "{service:?}");
        assert_eq!(pair.sides[1].device.bytes(region.id).unwrap(), [3; 64]);
    }
}

#[test]
fn a_shared_receive_queue_changes_its_size() {
    let mut pair = shared(Service::Rc, 3);
    let srq = pair.sides[1].srq.unwrap();
    let device = &mut pair.sides[1].device;
    let why = device.resize_srq(srq, 2).unwrap_err();
    assert_eq!(why.to_string(), "the capacity of a receive queue is 2; it must be 3 to 32768");
    // The limit is not above the capacity.
    device.arm_srq(srq, 1).unwrap();
    device.resize_srq(srq, 3).unwrap();
    assert_eq!(device.query_srq(srq).map(|info| (info.capacity, info.limit, info.receives)), Ok((3, 1, 3)));
    let full = device.post_srq_recv(srq, &RecvRequest { wr_id: 9, scatter: &[] });
    assert_eq!(full, Err(VerbsError::Full("receive queue")));
    device.resize_srq(srq, 4).unwrap();
    pair.srq_recv(3, 3_000, 1_000);
    // The receives are those of before, in order.
    for wr_id in 0..4 {
        pair.post(0, wr_id, SendOp::Send, 10);
        pair.run();
    }
    assert_eq!(pair.sides[1].received(), [0, 1, 2, 3].map(|wr_id| (wr_id, Status::Success, 10)));
    assert_eq!(pair.sides[1].events(), [Event::SharedReceiveLimit(srq)]);
}

#[test]
fn an_empty_shared_receive_queue_is_waited_for() {
    for service in RELIABLE {
        let mut pair = shared(service, 0);
        pair.post(0, 1, SendOp::Send, 10);
        pair.run_for(Time::from_us(20));
        assert!(pair.trace.iter().any(|line| line.contains("RNR NAK")));
        pair.srq_recv(7, 0, 100);
        pair.run();
        assert_eq!(pair.sides[1].received(), [(7, Status::Success, 10)]);
    }
}

#[test]
fn shared_receives_out_of_order_complete_in_order_of_the_messages() {
    let mut pair = shared(Service::Irn, 3);
    pair.sides[0].fill(0, &pattern(900, 1));
    pair.lose_once(|seen| seen.is(0, Operation::Send, PSN_A));
    for wr_id in 0..3 {
        pair.post_with(0, wr_id, SendOp::Send, 300 * wr_id, 300, SendFlags::SIGNALED);
    }
    pair.run();
    // Only the first packet of message 0 is lost. The second packet of message 0 arrives before the packets of the
    // other messages, and takes receive 0 for its message.
    let received: Vec<u64> = pair.sides[1].received().iter().map(|c| c.0).collect();
    assert_eq!(received, [0, 1, 2]);
    for at in 0..3 {
        assert_eq!(pair.sides[1].bytes(1_000 * at, 300), &pattern(900, 1)[300 * at..300 * at + 300]);
    }
    // All packets of message 0 are lost. When it is retransmitted, it takes the receive that the other messages left.
    let mut pair = shared(Service::Irn, 3);
    pair.sides[0].fill(0, &pattern(900, 1));
    pair.lose_once(|seen| seen.is(0, Operation::Send, PSN_A));
    for wr_id in 0..3 {
        pair.post_with(0, wr_id, SendOp::Send, 300 * wr_id, 100, SendFlags::SIGNALED);
    }
    pair.run();
    let received: Vec<u64> = pair.sides[1].received().iter().map(|c| c.0).collect();
    assert_eq!(received, [2, 0, 1]);
    assert_eq!(pair.sides[1].bytes(2_000, 100), &pattern(900, 1)[..100]);
    assert_eq!(pair.sides[1].bytes(0, 100), &pattern(900, 1)[300..400]);
}

#[test]
fn a_peer_that_leaves_out_a_packet_does_not_drain_a_shared_queue() {
    let mut pair = shared(Service::Irn, 500);
    // Messages 1, 2, 3 ... arrive without message 0, so they are out of order.
    for message in 1..500u32 {
        let mut headers = pair.headers(1, rnic_wire::Opcode::IRN_SEND_ONLY, PSN_A + message);
        headers.send = Some(SendEth { recv_wqe_sn: message, offset: 0 });
        let taken = pair.arrive(1, &bytes_of(headers, &[1; 8]));
        assert_eq!(taken, if message <= 64 { Ok(()) } else { Err(Dropped::NoReceive) }, "{message}");
    }
    // Receives are left in the shared receive queue, so the missing message finds one, and all stored messages
    // complete.
    let mut headers = pair.headers(1, rnic_wire::Opcode::IRN_SEND_ONLY, PSN_A);
    headers.send = Some(SendEth { recv_wqe_sn: 0, offset: 0 });
    assert_eq!(pair.arrive(1, &bytes_of(headers, &[1; 8])), Ok(()));
    assert_eq!(pair.sides[1].received().len(), 65);
}

#[test]
fn inline_data_is_taken_when_it_is_posted() {
    for service in ALL {
        let mut pair = Pair::new(service);
        let mut bytes = pattern(256, 1);
        let (op, data) = (pair.write_op(1, 0), Data::Inline(&bytes));
        let request = SendRequest { wr_id: 1, op, data, flags: SendFlags::SIGNALED };
        let qpn = pair.sides[0].qpn;
        pair.sides[0].device.post_send(qpn, &request).unwrap();
        bytes.fill(0);
        pair.run();
        assert_eq!(pair.sides[1].bytes(0, 256), pattern(256, 1));
    }
}

#[test]
fn data_is_gathered_and_scattered() {
    for service in ALL {
        let mut pair = Pair::new(service);
        pair.sides[0].fill(0, &pattern(2_000, 1));
        let gather = [(0, 100), (1_000, 0), (500, 300), (900, 37)].map(|(at, len)| pair.sides[0].sge(at, len));
        let scatter = [(5_000, 1), (6_000, 299), (7_000, 0), (8_000, 137)].map(|(at, len)| pair.sides[1].sge(at, len));
        let side = &mut pair.sides[1];
        side.device.post_recv(side.qpn, &RecvRequest { wr_id: 7, scatter: &scatter }).unwrap();
        let side = &mut pair.sides[0];
        let (data, flags) = (Data::Gather(&gather), SendFlags::SIGNALED);
        side.device.post_send(side.qpn, &SendRequest { wr_id: 1, op: SendOp::Send, data, flags }).unwrap();
        pair.run();
        assert_eq!(pair.sides[1].received(), [(7, Status::Success, 437)]);
        let source = pattern(2_000, 1);
        let sent = [&source[..100], &source[500..800], &source[900..937]].concat();
        let side = &pair.sides[1];
        let found = [side.bytes(5_000, 1), side.bytes(6_000, 299), side.bytes(8_000, 137)].concat();
        assert_eq!(found, sent, "{service:?}");
        assert_eq!((side.bytes(5_001, 1), side.bytes(6_299, 1), side.bytes(8_137, 1)), (&[0][..], &[0][..], &[0][..]));
    }
}

#[test]
fn a_key_is_closed_by_its_invalidation_and_a_new_one_opens() {
    for service in RELIABLE {
        let mut pair = Pair::new(service);
        let info = pair.sides[1].memory;
        pair.recv(1, 7, 0, 0);
        pair.post(0, 1, SendOp::SendInv(info.rkey), 0);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
        let new = pair.sides[1].device.rekey(info.id).unwrap();
        assert_ne!(new.rkey, info.rkey);
        pair.post(0, 2, SendOp::Write { addr: new.addr, rkey: new.rkey }, 8);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(2, Status::Success)]);
        pair.post(0, 3, SendOp::Write { addr: new.addr, rkey: info.rkey }, 8);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(3, Status::RemoteAccess)]);
        // Without a new key the region stays closed to peers. The owner's access through the local key continues.
        let mut pair = Pair::new(service);
        let info = pair.sides[1].memory;
        pair.recv(1, 7, 0, 0);
        pair.recv(1, 8, 100, 100);
        pair.post(0, 1, SendOp::SendInv(info.rkey), 0);
        pair.post(0, 2, SendOp::Send, 8);
        pair.post(0, 3, SendOp::Read { addr: info.addr, rkey: info.rkey }, 8);
        pair.run();
        let statuses: Vec<Status> = pair.sides[0].sent().iter().map(|sent| sent.1).collect();
        assert_eq!(statuses, [Status::Success, Status::Success, Status::RemoteAccess]);
    }
}

#[test]
fn messages_go_through_memory_of_their_own_size() {
    for service in ALL {
        for len in [1, 255, 256, 257, 511, 512, 513, 4_096, 20_001] {
            let mut pair = Pair::new(service);
            pair.sides[0].fill(0, &pattern(len, 3));
            pair.recv(1, 7, 0, len as u32);
            pair.post(0, 1, SendOp::Send, len as u32);
            pair.post(0, 2, pair.write_op(1, 30_000), len as u32);
            if service != Service::Uc {
                pair.post_with(0, 3, pair.read_op(1, 0), 30_000, len as u32, SendFlags::SIGNALED);
            }
            pair.run();
            assert_eq!(pair.sides[1].received(), [(7, Status::Success, len as u32)]);
            assert_eq!(pair.sides[1].bytes(0, len), pattern(len, 3));
            assert_eq!(pair.sides[1].bytes(30_000, len + 1), [pattern(len, 3), vec![0]].concat());
            if service != Service::Uc {
                assert_eq!(pair.sides[0].bytes(30_000, len), pattern(len, 3));
            }
        }
    }
}

#[test]
fn a_message_has_at_most_two_gigabytes() {
    // The test does not write the region of 2 GiB, so that the kernel allocates no pages for it.
    let most = 1usize << 31;
    for service in ALL {
        let mut pair = Pair::new(service);
        pair.script(|_| Fate::Lost);
        let side = &mut pair.sides[0];
        let big = side.device.register(side.pd, vec![0; most + 1], None, Access::LOCAL).unwrap();
        let (addr, rkey) = (0, 0);
        let mut post = |op, len: usize| {
            let sges = [Sge { addr: big.addr, len: len as u32, lkey: big.lkey }];
            let (data, flags) = (Data::Gather(&sges), SendFlags::default());
            side.device.post_send(side.qpn, &SendRequest { wr_id: 1, op, data, flags })
        };
        assert!(matches!(post(SendOp::Send, most + 1), Err(VerbsError::Range { name: "the length", .. })));
        assert_eq!(post(SendOp::Write { addr, rkey }, most), Ok(()));
        // 2 GiB are 8,388,608 packets of 256 bytes, more than the response to an RC read can have.
        match service {
            Service::Rc => {
                assert!(matches!(post(SendOp::Read { addr, rkey }, most), Err(VerbsError::Unsupported(_))));
                assert_eq!(post(SendOp::Read { addr, rkey }, 4_194_303 * 256), Ok(()));
            }
            Service::Irn => assert_eq!(post(SendOp::Read { addr, rkey }, most), Ok(())),
            Service::Uc | Service::Ud => {}
        }
        // UC has no window, and would send all packets of the message.
        if service != Service::Uc {
            pair.drain();
            let first = "A RDMA WRITE First #100 256 B va +0x0 len 2147483648";
            assert!(pair.trace[0].starts_with(first), "{}", pair.trace[0]);
            assert_eq!(pair.trace.len(), 256);
        }
    }
}

#[test]
fn the_last_packets_of_two_gigabytes() {
    // Sends a Write of 2 GiB, so that the last offsets reach 2^31. The test forges the ACKs, without a receiver.
    let most = 1u32 << 31;
    for service in RELIABLE {
        let mut setup = Setup::new(service);
        setup.config.in_flight = rnic_verbs::MAX_IN_FLIGHT;
        setup.mtu = 4_096;
        setup.capacities.send_sge = 32;
        let mut pair = setup.build();
        let side = &mut pair.sides[0];
        let part = most / 32;
        let big = side.device.register(side.pd, vec![0; part as usize], None, Access::LOCAL).unwrap();
        let sges = [Sge { addr: big.addr, len: part, lkey: big.lkey }; 32];
        let request = SendRequest {
            wr_id: 1,
            op: SendOp::Write { addr: 0x10_0000, rkey: 0 },
            data: Data::Gather(&sges),
            flags: SendFlags::SIGNALED,
        };
        side.device.post_send(side.qpn, &request).unwrap();
        let opcode = match service {
            Service::Irn => rnic_wire::Opcode::IRN_ACKNOWLEDGE,
            _ => rnic_wire::Opcode::RC_ACKNOWLEDGE,
        };
        let mut last = Vec::new();
        for window in 1..=524_288 / rnic_verbs::MAX_IN_FLIGHT {
            let mut packets = 0;
            let side = &mut pair.sides[0];
            while side.device.transmit(pair.now, &mut side.batch) {
                packets += side.batch.count();
                last = side.batch.datagrams_mut().last().unwrap().to_vec();
            }
            assert_eq!(packets as u32, rnic_verbs::MAX_IN_FLIGHT);
            let psn = (PSN_A + window * rnic_verbs::MAX_IN_FLIGHT - 1) & 0xff_ffff;
            let mut headers = pair.headers(0, opcode, psn);
            headers.aeth = Some(rnic_wire::Aeth { syndrome: rnic_wire::Syndrome::ACK, msn: 0 });
            headers.sack = (service == Service::Irn).then_some(rnic_wire::SackEth { psn: 0, before: 0 });
            pair.arrive(0, &bytes_of(headers, &[])).unwrap();
        }
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
        let va = if service == Service::Irn { " va +0xff000 len 4096" } else { "" };
        let packet = rnic_wire::Packet::parse(&last).unwrap();
        let psn = PSN_A + 524_287;
        assert_eq!(crate::common::describe(&packet), format!("RDMA WRITE Last #{psn} 4096 B{va} ask"));
    }
}

#[test]
fn a_region_is_read_to_its_last_byte() {
    for service in RELIABLE {
        let mut pair = Pair::new(service);
        let end = REGION as u64;
        pair.sides[1].fill(REGION - 300, &pattern(300, 1));
        pair.post(0, 1, pair.read_op(1, end - 300), 300);
        pair.post_with(0, 2, pair.write_op(1, end - 8), 0, 8, SendFlags::SIGNALED);
        pair.post_with(0, 3, pair.add_op(1, end - 8, 1), 1_000, 8, SendFlags::SIGNALED);
        pair.run();
        assert_eq!(pair.sides[0].sent().len(), 3);
        assert_eq!(pair.sides[0].bytes(0, 292), &pattern(300, 1)[..292]);
    }
}
