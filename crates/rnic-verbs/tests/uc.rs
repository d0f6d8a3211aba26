//! Tests of unreliable connections (InfiniBand volume 1, section 9.8): a message is received completely or not at all.

use crate::common::{Fate, PSN_A, Pair, bytes_of, pattern};
use rnic_transport::Time;
use rnic_verbs::{Dropped, Event, SendAttributes, SendFlags, SendOp, Service, State, Status, VerbsError};
use rnic_wire::{Opcode, Reth};

fn pair() -> Pair {
    Pair::new(Service::Uc)
}

#[test]
fn nothing_is_acknowledged() {
    let mut pair = pair();
    pair.sides[0].fill(0, &pattern(600, 1));
    pair.recv(1, 7, 1_000, 1_000);
    pair.recv(1, 8, 0, 0);
    pair.post(0, 1, SendOp::Send, 600);
    pair.post(0, 2, pair.write_imm_op(1, 5_000, 9), 300);
    pair.run();
    pair.expect(
        "A SEND First #100 256 B
         A SEND Middle #101 256 B
         A SEND Last #102 88 B
         A RDMA WRITE First #103 256 B va +0x1388 len 300
         A RDMA WRITE Last with Immediate #104 44 B",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(pair.sides[1].received(), [(7, Status::Success, 600), (8, Status::Success, 300)]);
    assert_eq!(pair.sides[1].bytes(1_000, 600), pattern(600, 1));
    assert_eq!(pair.sides[1].bytes(5_000, 300), &pattern(600, 1)[..300]);
}

/// Sends two messages of three packets and one message of one packet, and loses packet number `lost`. Returns the
/// completed receives: `wr_id` and message length.
fn lose(lost: u64) -> Vec<(u64, u32)> {
    let mut pair = pair();
    pair.script(move |seen| if seen.number == lost { Fate::Lost } else { Fate::Arrives });
    for wr_id in 0..3 {
        pair.recv(1, wr_id, 1_000 * wr_id, 1_000);
    }
    pair.post(0, 1, SendOp::Send, 600);
    pair.post(0, 2, SendOp::Send, 700);
    pair.post(0, 3, SendOp::Send, 100);
    pair.run();
    assert_eq!(pair.sides[0].sent().len(), 3);
    pair.sides[1].received().into_iter().map(|(wr_id, _, len)| (wr_id, len)).collect()
}

#[test]
fn a_message_with_a_packet_lost_is_lost_and_its_receive_serves_the_next() {
    for first in 0..3 {
        assert_eq!(lose(first), [(0, 700), (1, 100)], "packet {first}");
    }
    for second in 3..6 {
        assert_eq!(lose(second), [(0, 600), (1, 100)], "packet {second}");
    }
    assert_eq!(lose(6), [(0, 600), (1, 700)]);
    assert_eq!(lose(7), [(0, 600), (1, 700), (2, 100)]);
}

#[test]
fn the_end_of_one_message_does_not_end_another() {
    // The Last packet of one message and the First packet of the next are lost. So the Last packet of the second
    // message follows the First packet of the first.
    let mut pair = pair();
    pair.script(|seen| if matches!(seen.number, 1 | 2) { Fate::Lost } else { Fate::Arrives });
    pair.recv(1, 7, 0, 1_000);
    pair.post(0, 1, SendOp::Send, 300);
    pair.post(0, 2, SendOp::Send, 300);
    pair.run();
    assert_eq!(pair.sides[1].received(), []);
    assert_eq!(pair.sides[1].dropped(Dropped::OutOfOrder), 1);
}

#[test]
fn a_write_in_the_middle_of_a_send_begins_anew() {
    let mut pair = pair();
    let (va, rkey) = pair.target(1);
    pair.recv(1, 7, 0, 1_000);
    let first = pair.headers(1, Opcode::UC_SEND_FIRST, PSN_A);
    pair.arrive(1, &bytes_of(first, &[1; 256])).unwrap();
    let mut only = pair.headers(1, Opcode::UC_WRITE_ONLY, PSN_A + 1);
    only.reth = Some(Reth { va: va + 5_000, rkey, dma_len: 8 });
    pair.arrive(1, &bytes_of(only, &[2; 8])).unwrap();
    assert_eq!(pair.sides[1].bytes(5_000, 8), [2; 8]);
    let last = pair.headers(1, Opcode::UC_SEND_LAST, PSN_A + 2);
    assert_eq!(pair.arrive(1, &bytes_of(last, &[1; 8])), Err(Dropped::OutOfOrder));
    let only = pair.headers(1, Opcode::UC_SEND_ONLY, PSN_A + 3);
    pair.arrive(1, &bytes_of(only, &[3; 8])).unwrap();
    assert_eq!(pair.sides[1].received(), [(7, Status::Success, 8)]);
}

#[test]
fn late_and_repeated_packets_are_dropped() {
    let mut pair = pair();
    pair.script(|seen| match seen.number {
        0 => Fate::Twice(Time::from_us(3)),
        1 => Fate::Late(Time::from_us(3)),
        _ => Fate::Arrives,
    });
    for wr_id in 0..3 {
        pair.recv(1, wr_id, 0, 100);
        pair.post(0, wr_id, SendOp::Send, 10 + wr_id as u32);
    }
    pair.run();
    assert_eq!(pair.sides[1].received(), [(0, Status::Success, 10), (1, Status::Success, 12)]);
    assert_eq!(pair.sides[1].dropped(Dropped::Duplicate), 2);
    assert_eq!(pair.sides[1].device.counters().duplicates, 2);
}

#[test]
fn a_message_without_a_receive_is_lost() {
    let mut pair = pair();
    pair.post(0, 1, SendOp::Send, 600);
    pair.run();
    assert_eq!(pair.sides[1].dropped(Dropped::NoReceive), 1);
    assert_eq!(pair.sides[1].dropped(Dropped::OutOfOrder), 2);
    pair.recv(1, 7, 0, 100);
    pair.post(0, 2, SendOp::Send, 10);
    pair.run();
    assert_eq!(pair.sides[1].received(), [(7, Status::Success, 10)]);
}

#[test]
fn a_write_that_is_not_admitted_is_dropped_and_nothing_else_happens() {
    let mut pair = pair();
    let (va, rkey) = pair.target(1);
    let end = va + crate::common::REGION as u64;
    for op in [
        SendOp::Write { addr: va, rkey: rkey ^ 1 },
        SendOp::Write { addr: end - 511, rkey },
        SendOp::Write { addr: va - 1, rkey },
    ] {
        pair.sides[0].fill(0, &[0xff; 512]);
        pair.post(0, 1, op, 512);
        pair.run();
    }
    assert_eq!(pair.sides[1].bytes(0, crate::common::REGION), [0; crate::common::REGION]);
    assert_eq!(pair.sides[1].dropped(Dropped::Refused), 3);
    assert_eq!(pair.sides[1].device.state(pair.sides[1].qpn), Ok(State::ReadyToSend));
}

#[test]
fn a_message_too_long_for_its_receive_ends_the_connection() {
    let mut pair = pair();
    pair.recv(1, 7, 0, 100);
    pair.recv(1, 8, 0, 100);
    pair.post(0, 1, SendOp::Send, 101);
    pair.run();
    assert_eq!(pair.sides[1].received(), [(7, Status::LocalLength, 0), (8, Status::WorkRequestFlushed, 0)]);
    assert_eq!(pair.sides[1].events(), [Event::QueuePairError(pair.sides[1].qpn, Status::LocalLength)]);
}

#[test]
fn a_send_that_fails_leaves_receiving_alone() {
    let mut pair = pair();
    pair.recv(0, 7, 0, 100);
    // The memory of the first request is deregistered after the request was posted, and before its packets are sent.
    let spare = {
        let side = &mut pair.sides[0];
        side.device.register(side.pd, vec![1; 1_000], None, rnic_verbs::Access::LOCAL_READ).unwrap()
    };
    let sges = [rnic_verbs::Sge { addr: spare.addr, len: 1_000, lkey: spare.lkey }];
    let request = rnic_verbs::SendRequest {
        wr_id: 1,
        op: SendOp::Send,
        data: rnic_verbs::Data::Gather(&sges),
        flags: SendFlags::default(),
    };
    let qpn = pair.sides[0].qpn;
    pair.sides[0].device.post_send(qpn, &request).unwrap();
    pair.post(0, 2, SendOp::Send, 10);
    pair.sides[0].device.deregister(spare.id).unwrap();
    pair.run();
    assert_eq!(pair.sides[0].device.state(qpn), Ok(State::SendQueueError));
    assert_eq!(pair.sides[0].sent(), [(1, Status::LocalProtection), (2, Status::WorkRequestFlushed)]);
    // Requests that are posted now are flushed, but the queue pair still receives messages.
    pair.post(0, 3, SendOp::Send, 10);
    pair.post(1, 4, SendOp::Send, 10);
    pair.run();
    assert_eq!(pair.sides[0].sent(), [(3, Status::WorkRequestFlushed)]);
    assert_eq!(pair.sides[0].received(), [(7, Status::Success, 10)]);
    // After the transition back to RTS, sending resumes.
    pair.recv(1, 9, 0, 100);
    let now = pair.now;
    pair.sides[0].device.to_rts(qpn, SendAttributes::default(), now).unwrap();
    pair.post(0, 5, SendOp::Send, 20);
    pair.run();
    assert_eq!(pair.sides[0].sent(), [(5, Status::Success)]);
    assert_eq!(pair.sides[1].received(), [(9, Status::Success, 20)]);
    assert_eq!(pair.sides[0].events(), []);
}

#[test]
fn what_needs_an_answer_is_refused() {
    let mut pair = pair();
    for op in [pair.read_op(1, 0), pair.add_op(1, 0, 1), pair.swap_op(1, 0, 1, 2), SendOp::SendInv(1)] {
        let refused = pair.try_post(0, 1, op, 0, 8, SendFlags::SIGNALED);
        assert!(matches!(refused, Err(VerbsError::Unsupported(_))), "{op:?}: {refused:?}");
    }
    // The device does not respond to a read request of a peer.
    let mut read = pair.headers(1, Opcode::RC_READ_REQUEST, PSN_A);
    read.reth = Some(Reth::default());
    assert_eq!(pair.arrive(1, &bytes_of(read, &[])), Err(Dropped::Opcode));
}

#[test]
fn sequence_numbers_wrap() {
    let mut setup = crate::common::Setup::new(Service::Uc);
    setup.psns = [0xff_ffff, 0];
    let mut pair = setup.build();
    pair.recv(1, 7, 0, 1_000);
    pair.post(0, 1, SendOp::Send, 600);
    pair.run();
    assert_eq!(pair.sides[1].received(), [(7, Status::Success, 600)]);
}
