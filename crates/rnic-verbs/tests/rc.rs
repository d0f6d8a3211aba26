//! Tests of reliable connections, packet by packet. The expected traces were derived by hand from InfiniBand volume 1,
//! sections 9.7.3 to 9.7.7. The file `rc_reads.rs` has the tests of RDMA Reads and atomics.
//!
//! Side A begins with PSN 100, side B with PSN 900. The MTU is 256 bytes, the link's delay is 1 us, and the
//! retransmission timeout is 1,048.576 us. Both sides have receive queues of their own, so ACKs carry credits: the
//! number of receives left.

use crate::common::{Fate, Pair, Setup, pattern};
use rnic_transport::Time;
use rnic_verbs::{Dropped, Event, SendAttributes, SendFlags, SendOp, Service, Status};
use rnic_wire::Operation;

pub(crate) fn pair() -> Pair {
    Pair::new(Service::Rc)
}

#[test]
fn a_send_of_three_packets() {
    let mut pair = pair();
    pair.sides[0].fill(0, &pattern(600, 1));
    pair.recv(1, 7, 1_000, 4_096);
    pair.post(0, 1, SendOp::Send, 600);
    pair.run();
    pair.expect(
        "A SEND First #100 256 B
         A SEND Middle #101 256 B
         A SEND Last #102 88 B ask
         B ACK #102 msn 1 credits 0",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[1].received(), [(7, Status::Success, 600)]);
    assert_eq!(pair.sides[1].bytes(1_000, 600), pattern(600, 1));
    assert_eq!(pair.sides[1].bytes(1_600, 100), [0; 100]);
}

#[test]
fn go_back_n_sends_everything_after_a_loss_again() {
    let mut pair = pair();
    pair.sides[0].fill(0, &pattern(1_000, 2));
    pair.lose_once(|seen| seen.is(0, Operation::Write, 101));
    pair.post(0, 1, pair.write_op(1, 5_000), 1_000);
    pair.run();
    // Of the two packets out of order only the first triggers a NAK.
    pair.expect(
        "A RDMA WRITE First #100 256 B va +0x1388 len 1000
         A RDMA WRITE Middle #101 256 B lost
         A RDMA WRITE Middle #102 256 B
         A RDMA WRITE Last #103 232 B ask
         B NAK PSN sequence error #101 msn 0
         A RDMA WRITE Middle #101 256 B ask
         A RDMA WRITE Middle #102 256 B ask
         A RDMA WRITE Last #103 232 B ask
         B ACK #103 msn 1 credits 0",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[1].bytes(5_000, 1_000), pattern(1_000, 2));
    let [a, b] = &pair.sides;
    assert_eq!((a.device.counters().retransmitted, a.device.counters().naks_received), (3, 1));
    assert_eq!((b.dropped(Dropped::OutOfOrder), b.device.counters().naks_sent), (2, 1));
}

#[test]
fn the_last_packet_lost_costs_a_timeout() {
    let mut pair = pair();
    pair.lose_once(|seen| seen.is(0, Operation::Write, 101));
    pair.post(0, 1, pair.write_op(1, 0), 300);
    pair.run();
    pair.expect(
        "A RDMA WRITE First #100 256 B va +0x0 len 300
         A RDMA WRITE Last #101 44 B ask lost
         A RDMA WRITE First #100 256 B va +0x0 len 300 ask
         A RDMA WRITE Last #101 44 B ask
         B ACK #101 msn 1 credits 0",
    );
    // The packet was sent at 10 us, when the retransmission timer started.
    assert_eq!(pair.last, Time::from_us(10) + Time::from_ns(1_048_576) + Time::from_us(2));
    assert_eq!(pair.sides[0].device.counters().timeouts, 1);
    assert_eq!(pair.sides[1].dropped(Dropped::Duplicate), 1);
}

#[test]
fn a_lost_acknowledgement_is_repeated_for_the_duplicate() {
    let mut pair = pair();
    pair.recv(1, 7, 0, 100);
    pair.recv(1, 8, 0, 100);
    pair.lose_once(|seen| seen.is(1, Operation::Acknowledge, 100));
    pair.post(0, 1, SendOp::Send, 10);
    pair.run();
    pair.expect(
        "A SEND Only #100 10 B ask
         B ACK #100 msn 1 credits 1 lost
         A SEND Only #100 10 B ask
         B ACK #100 msn 1 credits 1",
    );
    // The message arrived twice and was received once.
    assert_eq!(pair.sides[1].received(), [(7, Status::Success, 10)]);
    assert_eq!(pair.sides[1].device.counters().duplicates, 1);
}

#[test]
fn an_acknowledgement_is_asked_for_every_sixteen_packets() {
    let mut pair = pair();
    pair.post(0, 1, pair.write_op(1, 0), 256 * 18);
    pair.run();
    let asked: Vec<usize> =
        (0..18).filter(|at| pair.trace[*at].starts_with("A ") && pair.trace[*at].ends_with(" ask")).collect();
    assert_eq!(asked, [15, 17]);
    assert_eq!(&pair.trace[18..], ["B ACK #117 msn 1 credits 0"]);
}

#[test]
fn the_last_packet_that_the_window_admits_asks_for_an_acknowledgement() {
    let mut setup = Setup::new(Service::Rc);
    setup.config.in_flight = 2;
    let mut pair = setup.build();
    pair.post(0, 1, pair.write_op(1, 0), 256 * 3);
    pair.run();
    pair.expect(
        "A RDMA WRITE First #100 256 B va +0x0 len 768
         A RDMA WRITE Middle #101 256 B ask
         B ACK #101 msn 0 credits 0
         A RDMA WRITE Last #102 256 B ask
         B ACK #102 msn 1 credits 0",
    );
}

#[test]
fn a_message_without_a_receive_waits_as_long_as_the_peer_says() {
    let mut pair = pair();
    pair.post(0, 1, SendOp::Send, 10);
    pair.post(0, 2, pair.write_op(1, 0), 10);
    pair.run_for(Time::from_us(50));
    // The responder drops the packet that follows the Send, without a NAK.
    pair.expect(
        "A SEND Only #100 10 B ask
         A RDMA WRITE Only #101 10 B va +0x0 len 10 ask
         B RNR NAK 80 us #100 msn 0",
    );
    pair.recv(1, 7, 0, 100);
    pair.run();
    pair.expect(
        "A SEND Only #100 10 B ask
         A RDMA WRITE Only #101 10 B va +0x0 len 10 ask
         B ACK #101 msn 2 credits 0",
    );
    // The RNR NAK arrived at 12 us, and the requester waited for 80 us.
    assert_eq!(pair.last, Time::from_us(12 + 80 + 2));
    assert_eq!(pair.sides[1].received(), [(7, Status::Success, 10)]);
    let [a, b] = &pair.sides;
    assert_eq!((a.device.counters().rnr_naks_received, b.device.counters().rnr_naks_sent), (1, 1));
}

#[test]
fn without_a_receive_for_too_long_the_send_fails() {
    let mut pair = pair();
    pair.post(0, 1, SendOp::Send, 10);
    pair.post(0, 2, SendOp::Send, 10);
    pair.run();
    // There are three retries: each takes a wait of 80 us and a round trip of 2 us.
    assert_eq!(pair.last, Time::from_us(10 + 4 * 2 + 3 * 80));
    assert_eq!(pair.trace.iter().filter(|line| line.contains("RNR NAK")).count(), 4);
    assert_eq!(pair.sides[0].sent(), [(1, Status::RnrRetryExceeded), (2, Status::WorkRequestFlushed)]);
    let event = Event::QueuePairError(pair.sides[0].qpn, Status::RnrRetryExceeded);
    assert_eq!(pair.sides[0].events(), [event]);
    // The peer's queue pair is not affected.
    assert_eq!(pair.sides[1].events(), []);
}

#[test]
fn a_retry_count_of_seven_for_receives_has_no_end() {
    let mut setup = Setup::new(Service::Rc);
    setup.attributes.rnr_retry = 7;
    let mut pair = setup.build();
    pair.post(0, 1, SendOp::Send, 10);
    pair.run_for(Time::from_ms(10));
    assert!(pair.trace.iter().filter(|line| line.contains("RNR NAK")).count() > 100);
    pair.recv(1, 7, 0, 10);
    pair.run();
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
}

#[test]
fn progress_gives_retries_back() {
    let mut setup = Setup::new(Service::Rc);
    setup.attributes = SendAttributes { rnr_retry: 1, retry_count: 1, ..setup.attributes };
    let mut pair = setup.build();
    for round in 0..3 {
        pair.post(0, round, SendOp::Send, 10);
        pair.run_for(Time::from_us(50));
        pair.recv(1, 7, 0, 10);
        pair.run();
    }
    assert_eq!(pair.sides[0].sent().len(), 3);
    assert_eq!(pair.sides[0].device.counters().rnr_naks_received, 3);
    let mut sent = 0;
    pair.script(move |seen| {
        sent += u32::from(seen.from == 0);
        if seen.from == 0 && sent % 2 == 1 { Fate::Lost } else { Fate::Arrives }
    });
    for round in 3..6 {
        pair.post(0, round, pair.write_op(1, 0), 10);
        pair.run();
    }
    assert_eq!(pair.sides[0].sent().len(), 3);
    assert_eq!(pair.sides[0].device.counters().timeouts, 3);
}

#[test]
fn a_peer_without_a_receive_is_not_silent() {
    for service in [Service::Rc, Service::Irn] {
        let mut setup = Setup::new(service);
        setup.attributes = SendAttributes { rnr_retry: 7, retry_count: 1, ..setup.attributes };
        let mut pair = setup.build();
        // Every other packet of A is lost, so timeouts and RNR NAKs alternate. Each RNR NAK restores the single retry.
        let mut sent = 0;
        pair.script(move |seen| {
            sent += u32::from(seen.from == 0);
            if seen.from == 0 && sent % 2 == 1 { Fate::Lost } else { Fate::Arrives }
        });
        pair.post(0, 1, SendOp::Send, 10);
        pair.run_for(Time::from_ms(5));
        let counters = pair.sides[0].device.counters();
        assert!(counters.timeouts >= 4 && counters.rnr_naks_received >= 3, "{service:?}: {counters:?}");
        pair.recv(1, 7, 0, 10);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)], "{service:?}");
    }
}

#[test]
fn a_silent_peer_is_asked_as_often_as_the_retry_count_says() {
    let mut pair = pair();
    pair.script(|seen| if seen.from == 0 { Fate::Lost } else { Fate::Arrives });
    pair.post(0, 1, pair.write_op(1, 0), 10);
    pair.post_with(0, 2, pair.write_op(1, 0), 0, 10, SendFlags::default());
    pair.recv(0, 3, 0, 10);
    pair.run();
    assert_eq!(pair.trace.len(), 2 * (1 + 3));
    assert_eq!(pair.now, Time::from_us(10) + Time::from_ns(4 * 1_048_576));
    // A failed request generates a completion although it was not signalled.
    assert_eq!(pair.sides[0].sent(), [(1, Status::TransportRetryExceeded), (2, Status::WorkRequestFlushed)]);
    assert_eq!(pair.sides[0].received(), [(3, Status::WorkRequestFlushed, 0)]);
    let event = Event::QueuePairError(pair.sides[0].qpn, Status::TransportRetryExceeded);
    assert_eq!(pair.sides[0].events(), [event]);
}

#[test]
fn a_timeout_of_zero_waits_for_ever() {
    let mut setup = Setup::new(Service::Rc);
    setup.attributes.timeout = 0;
    let mut pair = setup.build();
    pair.lose_once(|_| true);
    pair.post(0, 1, pair.write_op(1, 0), 10);
    pair.run();
    pair.expect("A RDMA WRITE Only #100 10 B va +0x0 len 10 ask lost");
    assert_eq!(pair.sides[0].sent(), []);
    // The next packet triggers a NAK, so the lost packet is retransmitted.
    pair.post(0, 2, pair.write_op(1, 0), 10);
    pair.run();
    assert_eq!(pair.sides[0].sent().len(), 2);
}

#[test]
fn sequence_numbers_wrap() {
    let mut setup = Setup::new(Service::Rc);
    setup.psns = [0xff_fffe, 0xff_ffff];
    let mut pair = setup.build();
    pair.sides[0].fill(0, &pattern(1_000, 6));
    pair.lose_once(|seen| seen.is(0, Operation::Write, 0xff_ffff));
    pair.post(0, 1, pair.write_op(1, 0), 1_000);
    pair.post_with(0, 2, pair.read_op(1, 0), 2_000, 600, SendFlags::SIGNALED);
    pair.run();
    pair.expect(
        "A RDMA WRITE First #16777214 256 B va +0x0 len 1000
         A RDMA WRITE Middle #16777215 256 B lost
         A RDMA WRITE Middle #0 256 B
         A RDMA WRITE Last #1 232 B ask
         A RDMA READ Request #2 va +0x0 len 600 ask
         B NAK PSN sequence error #16777215 msn 0
         A RDMA WRITE Middle #16777215 256 B ask
         A RDMA WRITE Middle #0 256 B ask
         A RDMA WRITE Last #1 232 B ask
         A RDMA READ Request #2 va +0x0 len 600 ask
         B ACK #1 msn 2 credits 0
         B RDMA READ Response First #2 256 B msn 2 credits 0
         B RDMA READ Response Middle #3 256 B
         B RDMA READ Response Last #4 88 B msn 2 credits 0",
    );
    assert_eq!(pair.sides[0].bytes(2_000, 600), &pattern(1_000, 6)[..600]);
}

#[test]
fn messages_without_bytes_need_no_memory() {
    let mut pair = pair();
    pair.recv(1, 7, 0, 0);
    pair.recv(1, 8, 0, 0);
    pair.post(0, 1, SendOp::Send, 0);
    pair.post(0, 2, SendOp::Write { addr: 1, rkey: 2 }, 0);
    pair.post(0, 3, SendOp::WriteImm { addr: 3, rkey: 4, imm: 5 }, 0);
    pair.post(0, 4, SendOp::Read { addr: 6, rkey: 7 }, 0);
    pair.run();
    pair.expect(
        "A SEND Only #100 ask
         A RDMA WRITE Only #101 va +0x1 len 0 ask
         A RDMA WRITE Only with Immediate #102 va +0x3 len 0 ask
         A RDMA READ Request #103 va +0x6 len 0 ask
         B ACK #102 msn 4 credits 0
         B RDMA READ Response Only #103 msn 4 credits 0",
    );
    assert_eq!(pair.sides[0].sent(), [1, 2, 3, 4].map(|wr_id| (wr_id, Status::Success)));
    assert_eq!(pair.sides[1].received(), [(7, Status::Success, 0), (8, Status::Success, 0)]);
}

#[test]
fn credits_hold_messages_back_but_not_the_last() {
    let mut pair = pair();
    pair.recv(1, 0, 0, 10);
    pair.post(0, 1, SendOp::Send, 10);
    pair.run();
    pair.expect(
        "A SEND Only #100 10 B ask
         B ACK #100 msn 1 credits 0",
    );
    // No other message is outstanding, so one Send goes out without a credit. The other Send waits for credits, which
    // the ACK for the posted receives brings. The Write needs no credit, but waits behind the Send.
    pair.recv(1, 1, 0, 10);
    pair.recv(1, 2, 0, 10);
    pair.recv(1, 3, 0, 10);
    pair.post(0, 2, SendOp::Send, 10);
    pair.post(0, 3, SendOp::Send, 10);
    pair.post(0, 4, pair.write_op(1, 0), 10);
    pair.run();
    pair.expect(
        "A SEND Only #101 10 B ask
         B ACK #100 msn 1 credits 3
         A SEND Only #102 10 B ask
         A RDMA WRITE Only #103 10 B va +0x0 len 10 ask
         B ACK #101 msn 2 credits 2
         B ACK #103 msn 4 credits 1",
    );
    assert_eq!(pair.sides[0].sent().len(), 4);
    assert_eq!(pair.sides[0].device.counters().rnr_naks_received, 0);
}

#[test]
fn messages_of_both_directions_take_turns() {
    let mut pair = pair();
    pair.post(1, 1, pair.read_op(0, 0), 512);
    pair.run_for(Time::ZERO);
    pair.post(0, 1, pair.write_op(1, 0), 512);
    pair.run();
    // The read request arrives after A's Write packets have left, so A sends the response packets after them.
    assert_eq!(pair.trace.len(), 6);
    assert_eq!(pair.sides[0].sent().len() + pair.sides[1].sent().len(), 2);
}

#[test]
fn a_loss_after_a_message_that_had_to_wait_is_reported() {
    let mut pair = pair();
    pair.post(0, 1, SendOp::Send, 10);
    pair.run_for(Time::from_us(50));
    pair.recv(1, 7, 0, 100);
    pair.run();
    pair.trace.clear();
    pair.lose_once(|seen| seen.is(0, Operation::Write, 101));
    pair.post(0, 2, pair.write_op(1, 0), 10);
    pair.post(0, 3, pair.write_op(1, 0), 10);
    pair.run();
    pair.expect(
        "A RDMA WRITE Only #101 10 B va +0x0 len 10 ask lost
         A RDMA WRITE Only #102 10 B va +0x0 len 10 ask
         B NAK PSN sequence error #101 msn 1
         A RDMA WRITE Only #101 10 B va +0x0 len 10 ask
         A RDMA WRITE Only #102 10 B va +0x0 len 10 ask
         B ACK #102 msn 3 credits 0",
    );
}

/// A message without credits begins with one packet. Its ACK shows that the peer has a receive for the message.
#[test]
fn a_message_without_credits_begins_with_one_packet() {
    let mut pair = pair();
    pair.recv(1, 0, 0, 1_000);
    pair.post(0, 1, SendOp::Send, 10);
    pair.run();
    pair.trace.clear();
    pair.post(0, 2, SendOp::Send, 600);
    pair.drain();
    pair.expect("A SEND First #101 256 B ask");
    pair.recv(1, 1, 0, 1_000);
    pair.run();
    assert_eq!(pair.sides[0].sent().len(), 2);
    let sent: Vec<&String> = pair.trace.iter().filter(|line| line.starts_with("A SEND")).collect();
    assert!(sent[sent.len() - 2..].iter().all(|line| line.contains("Middle #102") || line.contains("Last #103")));
}

/// A read response carries credits, and so does the ACK for a receive that is posted after the credits ran out.
#[test]
fn read_responses_and_posted_receives_bring_credits() {
    let mut pair = pair();
    pair.recv(1, 0, 0, 10);
    pair.post(0, 1, SendOp::Send, 10);
    pair.run();
    pair.trace.clear();
    // Nothing is outstanding: an ACK of the last packet announces the receives.
    pair.recv(1, 1, 0, 10);
    pair.recv(1, 2, 0, 10);
    pair.drain();
    pair.expect("B ACK #100 msn 1 credits 2");
    pair.post(0, 2, SendOp::Send, 10);
    pair.post(0, 3, SendOp::Send, 10);
    pair.run();
    pair.expect(
        "A SEND Only #101 10 B ask
         A SEND Only #102 10 B ask
         B ACK #101 msn 2 credits 1
         B ACK #102 msn 3 credits 0",
    );
}

#[test]
fn congestion_marks_come_back_with_the_acknowledgement() {
    let mut pair = pair();
    pair.marks = true;
    pair.post(0, 1, pair.write_op(1, 0), 10);
    pair.run();
    pair.marks = false;
    pair.post(0, 2, pair.write_op(1, 0), 10);
    pair.run();
    pair.expect(
        "A RDMA WRITE Only #100 10 B va +0x0 len 10 ask
         B ACK #100 msn 1 credits 0 becn
         A RDMA WRITE Only #101 10 B va +0x0 len 10 ask
         B ACK #101 msn 2 credits 0",
    );
    assert_eq!(pair.sides[1].device.counters().marked, 1);
}
