//! Tests of IRN connections, packet by packet. The expected traces were derived by hand from section 5 of the paper
//! ("Revisiting Network Support for RDMA", SIGCOMM 2018).
//!
//! Side A's requests begin with PSN 100, and so do the responses to them; side B's requests begin with PSN 900. The MTU
//! is 256 bytes, the link's delay is 1 us, and both retransmission timeouts are 1 ms.

use crate::common::{Fate, Pair, Seen, Setup, pattern};
use rnic_transport::Time;
use rnic_verbs::{Dropped, Event, SendFlags, SendOp, Service, Status};
use rnic_wire::Operation;

fn pair() -> Pair {
    Pair::new(Service::Irn)
}

/// Loses the packets with these numbers; all packets that both sides send are counted from 0.
fn lose(pair: &mut Pair, numbers: &'static [u64]) {
    pair.script(|seen: &Seen<'_>| if numbers.contains(&seen.number) { Fate::Lost } else { Fate::Arrives });
}

#[test]
fn a_send_of_three_packets() {
    let mut pair = pair();
    pair.sides[0].fill(0, &pattern(600, 1));
    pair.recv(1, 7, 1_000, 4_096);
    pair.post(0, 1, SendOp::Send, 600);
    pair.run();
    // The three packets arrive at the same time, so one ACK acknowledges all of them.
    pair.expect(
        "A SEND First #100 200 B recv 0 at 0 ask
         A SEND Middle #101 200 B recv 0 at 200 ask
         A SEND Last #102 200 B recv 0 at 400 ask
         B ACK #102 msn 1 credits 0 for #102",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[1].received(), [(7, Status::Success, 600)]);
    assert_eq!(pair.sides[1].bytes(1_000, 600), pattern(600, 1));
}

#[test]
fn only_what_is_lost_is_sent_again() {
    let mut pair = pair();
    pair.sides[0].fill(0, &pattern(1_000, 2));
    pair.lose_once(|seen| seen.is(0, Operation::Write, 101));
    pair.post(0, 1, pair.write_op(1, 5_000), 1_000);
    pair.run_for(Time::from_us(1));
    // The payload of packets that arrived out of order is already in memory.
    assert_eq!(pair.sides[1].bytes(5_400, 600), &pattern(1_000, 2)[400..]);
    assert_eq!(pair.sides[1].bytes(5_200, 200), [0; 200]);
    pair.run();
    pair.expect(
        "A RDMA WRITE First #100 200 B va +0x1388 len 1000 ask
         A RDMA WRITE Middle #101 200 B va +0x1450 len 800 ask lost
         A RDMA WRITE Middle #102 200 B va +0x1518 len 600 ask
         A RDMA WRITE Middle #103 200 B va +0x15e0 len 400 ask
         A RDMA WRITE Last #104 200 B va +0x16a8 len 200 ask
         B NAK PSN sequence error #101 msn 0 for #102 to #104
         A RDMA WRITE Middle #101 200 B va +0x1450 len 800 ask
         B ACK #104 msn 1 credits 0 for #101",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[1].bytes(5_000, 1_000), pattern(1_000, 2));
    assert_eq!(pair.sides[0].device.counters().retransmitted, 1);
}

/// The retransmission of packet 101 is lost, too. Packet 105 departed after it and arrives, so the requester need not
/// wait for a timeout. The same for a response.
#[test]
fn a_lost_retransmission_is_sent_again_without_a_timeout() {
    let mut pair = pair();
    lose(&mut pair, &[1, 6]);
    pair.post(0, 1, pair.write_op(1, 5_000), 1_000);
    pair.run_for(Time::from_us(4));
    pair.post(0, 2, pair.write_op(1, 6_000), 200);
    pair.run_for(Time::from_us(20));
    pair.expect(
        "A RDMA WRITE First #100 200 B va +0x1388 len 1000 ask
         A RDMA WRITE Middle #101 200 B va +0x1450 len 800 ask lost
         A RDMA WRITE Middle #102 200 B va +0x1518 len 600 ask
         A RDMA WRITE Middle #103 200 B va +0x15e0 len 400 ask
         A RDMA WRITE Last #104 200 B va +0x16a8 len 200 ask
         B NAK PSN sequence error #101 msn 0 for #102 to #104
         A RDMA WRITE Middle #101 200 B va +0x1450 len 800 ask lost
         A RDMA WRITE Only #105 200 B va +0x1770 len 200 ask
         B NAK PSN sequence error #101 msn 0 for #105
         A RDMA WRITE Middle #101 200 B va +0x1450 len 800 ask
         B ACK #105 msn 2 credits 0 for #101",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(pair.sides[0].device.counters().timeouts, 0);

    // A read of three packets, of which the second is lost twice, and a read after it.
    let mut pair = self::pair();
    lose(&mut pair, &[3, 6]);
    pair.post(0, 1, pair.read_op(1, 64), 600);
    pair.run_for(Time::from_us(5));
    pair.post(0, 2, pair.read_op(1, 64), 200);
    pair.run_for(Time::from_us(30));
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success), (2, Status::Success)]);
    let counters = pair.sides[1].device.counters();
    assert_eq!((counters.timeouts, counters.retransmitted), (0, 2));
}

#[test]
fn a_lost_answer_is_sent_again_by_the_responder() {
    let mut pair = pair();
    pair.sides[1].fill(64, &pattern(600, 3));
    pair.lose_once(|seen| seen.is(1, Operation::ReadResponse, 101));
    pair.post(0, 1, pair.read_op(1, 64), 600);
    pair.run();
    pair.expect(
        "A RDMA READ Request #100 va +0x40 len 600 read 0 ask
         B ACK #100 msn 1 credits 0 for #100
         B RDMA READ Response First #100 200 B msn 1 credits 0
         B RDMA READ Response Middle #101 200 B msn 1 credits 0 lost
         B RDMA READ Response Last #102 200 B msn 1 credits 0
         A READ NAK PSN sequence error #101 msn 0 for #102
         B RDMA READ Response Middle #101 200 B msn 1 credits 0
         A READ ACK #102 msn 0 for #101",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[0].bytes(0, 600), pattern(600, 3));
}

#[test]
fn the_responders_timer_repeats_an_answer() {
    let mut pair = pair();
    pair.sides[1].fill(0, &40u64.to_ne_bytes());
    pair.lose_once(|seen| seen.is(1, Operation::AtomicAcknowledge, 100));
    pair.post(0, 1, pair.add_op(1, 0, 2), 8);
    pair.run();
    // The response left at 11 us, so the responder's timeout is at 1,011 us. The requester has no packet in flight; its
    // own timeout is 1 ms after the ACK, which arrived at 12 us, and so comes later.
    pair.expect(
        "A FetchAdd #100 read 0 ask
         B ACK #100 msn 1 credits 0 for #100
         B ATOMIC Acknowledge #100 msn 1 credits 0 lost
         B ATOMIC Acknowledge #100 msn 1 credits 0
         A READ ACK #100 msn 0 for #100",
    );
    assert_eq!(pair.last, Time::from_us(11 + 1_000 + 2));
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[0].bytes(0, 8), 40u64.to_ne_bytes());
    assert_eq!(pair.sides[1].bytes(0, 8), 42u64.to_ne_bytes());
}

#[test]
fn a_duplicate_atomic_is_acknowledged_and_not_executed() {
    let mut pair = pair();
    // The ACK and the response are lost, so both sides retransmit.
    lose(&mut pair, &[1, 2]);
    pair.post(0, 1, pair.add_op(1, 0, 2), 8);
    pair.run();
    pair.expect(
        "A FetchAdd #100 read 0 ask
         B ACK #100 msn 1 credits 0 for #100 lost
         B ATOMIC Acknowledge #100 msn 1 credits 0 lost
         A FetchAdd #100 read 0 ask
         B ACK #100 msn 1 credits 0 for #100
         B ATOMIC Acknowledge #100 msn 1 credits 0
         A READ ACK #100 msn 0 for #100",
    );
    assert_eq!(pair.sides[1].bytes(0, 8), 2u64.to_ne_bytes());
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
}

#[test]
fn messages_out_of_order_complete_in_order() {
    let mut pair = pair();
    for (at, byte) in [1u8, 2, 3].into_iter().enumerate() {
        pair.sides[0].fill(at * 8, &[byte; 8]);
        pair.recv(1, 10 + u64::from(byte), 1_000 * u64::from(byte), 100);
    }
    pair.lose_once(|seen| seen.is(0, Operation::Send, 100));
    for wr_id in 0..3 {
        pair.post_with(0, wr_id, SendOp::Send, wr_id * 8, 8, SendFlags::SIGNALED);
    }
    pair.run_for(Time::from_us(1));
    // The second and the third message are in the memory of their receives, but these receives are not completed.
    assert_eq!(pair.sides[1].received(), []);
    assert_eq!(pair.sides[1].bytes(2_000, 8), [2; 8]);
    assert_eq!(pair.sides[1].bytes(3_000, 8), [3; 8]);
    pair.run();
    pair.expect(
        "A SEND Only #100 8 B recv 0 at 0 ask lost
         A SEND Only #101 8 B recv 1 at 0 ask
         A SEND Only #102 8 B recv 2 at 0 ask
         B NAK PSN sequence error #100 msn 0 for #101 to #102
         A SEND Only #100 8 B recv 0 at 0 ask
         B ACK #102 msn 3 credits 0 for #100",
    );
    assert_eq!(pair.sides[1].received(), [11, 12, 13].map(|wr_id| (wr_id, Status::Success, 8)));
    assert_eq!(pair.sides[1].bytes(1_000, 8), [1; 8]);
    assert_eq!(pair.sides[0].sent(), [0, 1, 2].map(|wr_id| (wr_id, Status::Success)));
}

#[test]
fn a_read_or_atomic_out_of_order_waits_for_its_turn() {
    let mut pair = pair();
    pair.sides[0].fill(0, &5u64.to_ne_bytes());
    pair.lose_once(|seen| seen.is(0, Operation::Write, 100));
    pair.post(0, 1, pair.write_op(1, 0), 8);
    pair.post_with(0, 2, pair.add_op(1, 0, 1), 8, 8, SendFlags::SIGNALED);
    pair.post_with(0, 3, pair.read_op(1, 0), 16, 8, SendFlags::SIGNALED);
    pair.run();
    pair.expect(
        "A RDMA WRITE Only #100 8 B va +0x0 len 8 ask lost
         A FetchAdd #101 read 0 ask
         A RDMA READ Request #102 va +0x0 len 8 read 1 ask
         B NAK PSN sequence error #100 msn 0 for #101 to #102
         A RDMA WRITE Only #100 8 B va +0x0 len 8 ask
         B ACK #102 msn 3 credits 0 for #100
         B ATOMIC Acknowledge #100 msn 3 credits 0
         B RDMA READ Response Only #101 8 B msn 3 credits 0
         A READ ACK #101 msn 0 for #101",
    );
    assert_eq!(pair.sides[0].bytes(8, 8), 5u64.to_ne_bytes());
    assert_eq!(pair.sides[0].bytes(16, 8), 6u64.to_ne_bytes());
}

#[test]
fn a_write_with_immediate_data_finds_its_receive_out_of_order() {
    let mut pair = pair();
    pair.recv(1, 7, 1_000, 100);
    pair.recv(1, 8, 2_000, 100);
    pair.lose_once(|seen| seen.is(0, Operation::Send, 100));
    pair.post(0, 1, SendOp::Send, 10);
    pair.post(0, 2, pair.write_imm_op(1, 0, 77), 300);
    pair.run();
    pair.expect(
        "A SEND Only #100 10 B recv 0 at 0 ask lost
         A RDMA WRITE First #101 152 B va +0x0 len 300 ask
         A RDMA WRITE Last with Immediate #102 148 B va +0x98 len 148 recv 1 ask
         B NAK PSN sequence error #100 msn 0 for #101 to #102
         A SEND Only #100 10 B recv 0 at 0 ask
         B ACK #102 msn 2 credits 0 for #100",
    );
    let cq = pair.sides[1].recv_cq;
    let received = pair.sides[1].poll(cq);
    assert_eq!((received[0].wr_id, received[0].byte_len, received[0].imm), (7, 10, None));
    assert_eq!((received[1].wr_id, received[1].byte_len, received[1].imm), (8, 300, Some(77)));
}

#[test]
fn a_message_without_a_receive_waits_as_long_as_the_peer_says() {
    let mut pair = pair();
    pair.post(0, 1, SendOp::Send, 10);
    pair.post(0, 2, pair.write_op(1, 0), 10);
    pair.run_for(Time::from_us(50));
    // The responder stores the Write that follows the Send.
    pair.expect(
        "A SEND Only #100 10 B recv 0 at 0 ask
         A RDMA WRITE Only #101 10 B va +0x0 len 10 ask
         B NAK PSN sequence error #100 msn 0 for #101
         B RNR NAK 80 us #100 msn 0 for #100",
    );
    pair.recv(1, 7, 0, 100);
    pair.run();
    pair.expect(
        "A SEND Only #100 10 B recv 0 at 0 ask
         B ACK #101 msn 2 credits 0 for #100",
    );
    assert_eq!(pair.last, Time::from_us(12 + 80 + 2));
    assert_eq!(pair.sides[1].received(), [(7, Status::Success, 10)]);
}

#[test]
fn a_message_out_of_order_without_a_receive_counts_as_lost() {
    let mut pair = pair();
    pair.recv(1, 7, 0, 100);
    pair.lose_once(|seen| seen.is(0, Operation::Send, 100));
    pair.post(0, 1, SendOp::Send, 10);
    pair.post(0, 2, SendOp::Send, 10);
    pair.post(0, 3, pair.write_op(1, 0), 10);
    pair.run_for(Time::from_us(3));
    // The NACK acknowledges only #102: #101 was dropped, as if it were lost.
    pair.expect(
        "A SEND Only #100 10 B recv 0 at 0 ask lost
         A SEND Only #101 10 B recv 1 at 0 ask
         A RDMA WRITE Only #102 10 B va +0x0 len 10 ask
         B NAK PSN sequence error #100 msn 0 for #102
         A SEND Only #100 10 B recv 0 at 0 ask
         A SEND Only #101 10 B recv 1 at 0 ask
         B ACK #100 msn 1 credits 0 for #100
         B RNR NAK 80 us #101 msn 1 for #101",
    );
    assert_eq!(pair.sides[1].dropped(Dropped::NoReceive), 2);
    pair.recv(1, 8, 0, 100);
    pair.run();
    assert_eq!(pair.sides[0].sent().len(), 3);
    assert_eq!(pair.sides[1].received().len(), 2);
}

#[test]
fn without_a_receive_for_too_long_the_send_fails_and_not_the_read_before_it() {
    let mut pair = pair();
    pair.sides[1].fill(0, &pattern(8, 9));
    // The response to the read is lost as long as the Send triggers RNR NAKs.
    pair.script(|seen| {
        let answer = seen.headers.bth.opcode.operation() == Operation::ReadResponse;
        if answer && seen.number < 14 { Fate::Lost } else { Fate::Arrives }
    });
    pair.post_with(0, 1, pair.read_op(1, 0), 100, 8, SendFlags::SIGNALED);
    pair.post(0, 2, SendOp::Send, 10);
    pair.post(0, 3, SendOp::Send, 10);
    pair.run();
    assert_eq!(pair.trace.iter().filter(|line| line.contains("RNR NAK")).count(), 4);
    let expected = [(1, Status::Success), (2, Status::RnrRetryExceeded), (3, Status::WorkRequestFlushed)];
    assert_eq!(pair.sides[0].sent(), expected);
    assert_eq!(pair.sides[0].bytes(100, 8), pattern(8, 9));
}

#[test]
fn a_refusal_comes_after_the_answers_before_it() {
    let mut pair = pair();
    pair.sides[1].fill(0, &pattern(300, 9));
    pair.lose_once(|seen| seen.is(1, Operation::ReadResponse, 101));
    pair.post_with(0, 1, pair.read_op(1, 0), 1_000, 300, SendFlags::SIGNALED);
    pair.post(0, 2, SendOp::Write { addr: 0, rkey: 0 }, 8);
    pair.post(0, 3, pair.write_op(1, 0), 8);
    pair.recv(1, 9, 0, 8);
    pair.run();
    // The response packets left at 11 us. At 1,010 us the requester retransmits the Write, which the responder drops
    // because it has refused it. At 1,011 us the responder retransmits the second response packet.
    pair.expect(
        "A RDMA READ Request #100 va +0x0 len 300 read 0 ask
         A RDMA WRITE Only #101 8 B va +0x0 len 8 ask
         A RDMA WRITE Only #102 8 B va +0x0 len 8 ask
         B ACK #100 msn 1 credits 1 for #100
         B RDMA READ Response First #100 152 B msn 1 credits 1
         B RDMA READ Response Last #101 148 B msn 1 credits 1 lost
         A READ ACK #100 msn 0 for #100
         A RDMA WRITE Only #101 8 B va +0x0 len 8 ask
         B RDMA READ Response Last #101 148 B msn 1 credits 1
         A READ ACK #101 msn 0 for #101
         B NAK remote access error #101 msn 1 for #101",
    );
    let expected = [(1, Status::Success), (2, Status::RemoteAccess), (3, Status::WorkRequestFlushed)];
    assert_eq!(pair.sides[0].sent(), expected);
    assert_eq!(pair.sides[0].bytes(1_000, 300), pattern(300, 9));
    // The refused Write did not use the receive.
    assert_eq!(pair.sides[1].received(), [(9, Status::WorkRequestFlushed, 0)]);
}

#[test]
fn a_read_that_is_refused_fails_though_it_was_acknowledged() {
    // The region is deregistered after the responder has accepted the read, but before the response has arrived.
    let mut pair = pair();
    pair.lose_once(|seen| seen.is(1, Operation::ReadResponse, 101));
    pair.post(0, 1, pair.read_op(1, 0), 8);
    pair.post(0, 2, pair.read_op(1, 0), 8);
    pair.post(0, 3, pair.write_op(1, 0), 8);
    pair.run_for(Time::from_us(5));
    let id = pair.sides[1].memory.id;
    pair.sides[1].device.deregister(id).unwrap();
    pair.run();
    assert_eq!(pair.trace.last().unwrap(), "B NAK remote access error #101 msn 3 for #101");
    let expected = [(1, Status::Success), (2, Status::RemoteAccess), (3, Status::WorkRequestFlushed)];
    assert_eq!(pair.sides[0].sent(), expected);
}

#[test]
fn a_silent_peer_is_asked_as_often_as_the_retry_count_says() {
    let mut pair = pair();
    pair.script(|seen| if seen.from == 0 { Fate::Lost } else { Fate::Arrives });
    pair.post(0, 1, pair.write_op(1, 0), 10);
    pair.post(0, 2, pair.write_op(1, 0), 10);
    pair.run();
    assert_eq!(pair.now, Time::from_us(10 + 4 * 1_000));
    assert_eq!(pair.sides[0].sent(), [(1, Status::TransportRetryExceeded), (2, Status::WorkRequestFlushed)]);
}

#[test]
fn a_peer_that_dies_before_it_answers_is_noticed() {
    let mut pair = pair();
    // The request is acknowledged; then all packets are lost.
    pair.script(|seen| if seen.number > 1 { Fate::Lost } else { Fate::Arrives });
    pair.post(0, 1, pair.read_op(1, 0), 8);
    pair.run();
    // The requester sends the request once, and repeats it `retry_count` (3) times.
    let asked = pair.trace.iter().filter(|line| line.starts_with("A RDMA READ Request")).count();
    assert_eq!(asked, 1 + 3);
    assert_eq!(pair.sides[0].sent(), [(1, Status::TransportRetryExceeded)]);
    // The responder's retries are used up too, so its queue pair also goes into the error state.
    let event = Event::QueuePairError(pair.sides[1].qpn, Status::TransportRetryExceeded);
    assert_eq!(pair.sides[1].events(), [event]);
}

#[test]
fn a_peer_that_lives_is_waited_for() {
    // The requester has one retry, the responder has seven. All responses are lost for four timeouts.
    let mut setup = Setup::new(Service::Irn);
    setup.attributes.retry_count = 1;
    let mut pair = setup.unconnected();
    pair.connect(0);
    pair.setup.attributes.retry_count = 7;
    pair.connect(1);
    let mut answers = 0;
    pair.script(move |seen| {
        let answer = seen.headers.bth.opcode.operation() == Operation::ReadResponse;
        answers += u32::from(answer);
        if answer && answers < 5 { Fate::Lost } else { Fate::Arrives }
    });
    pair.post(0, 1, pair.read_op(1, 0), 8);
    pair.run();
    // The request left at 10 us, and its ACK came at 12 us. Every millisecond after that the requester repeats the
    // request as a probe, and the ACK shows that the responder is alive.
    let asked = pair.trace.iter().filter(|line| line.starts_with("A RDMA READ Request")).count();
    assert_eq!(asked, 1 + 3);
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[1].device.counters().timeouts, 4);
}

#[test]
fn sequence_numbers_wrap() {
    let mut setup = Setup::new(Service::Irn);
    setup.psns = [0xff_ffff, 0xff_fffe];
    let mut pair = setup.build();
    pair.sides[0].fill(0, &pattern(600, 6));
    lose(&mut pair, &[1]);
    pair.post(0, 1, pair.write_op(1, 0), 600);
    pair.post_with(0, 2, pair.read_op(1, 0), 2_000, 600, SendFlags::SIGNALED);
    pair.run();
    pair.expect(
        "A RDMA WRITE First #16777215 200 B va +0x0 len 600 ask
         A RDMA WRITE Middle #0 200 B va +0xc8 len 400 ask lost
         A RDMA WRITE Last #1 200 B va +0x190 len 200 ask
         A RDMA READ Request #2 va +0x0 len 600 read 0 ask
         B NAK PSN sequence error #0 msn 0 for #1 to #2
         A RDMA WRITE Middle #0 200 B va +0xc8 len 400 ask
         B ACK #2 msn 2 credits 0 for #0
         B RDMA READ Response First #16777215 200 B msn 2 credits 0
         B RDMA READ Response Middle #0 200 B msn 2 credits 0
         B RDMA READ Response Last #1 200 B msn 2 credits 0
         A READ ACK #1 msn 0 for #1",
    );
    assert_eq!(pair.sides[0].bytes(2_000, 600), pattern(600, 6));
}

#[test]
fn a_fence_waits_for_everything() {
    let mut pair = pair();
    let fence = SendFlags { fence: true, ..SendFlags::SIGNALED };
    pair.post(0, 1, pair.write_op(1, 0), 8);
    pair.post_with(0, 2, pair.write_op(1, 0), 0, 8, fence);
    pair.post(0, 3, pair.read_op(1, 0), 8);
    pair.post_with(0, 4, pair.write_op(1, 0), 0, 8, fence);
    pair.run();
    pair.expect(
        "A RDMA WRITE Only #100 8 B va +0x0 len 8 ask
         B ACK #100 msn 1 credits 0 for #100
         A RDMA WRITE Only #101 8 B va +0x0 len 8 ask
         A RDMA READ Request #102 va +0x0 len 8 read 0 ask
         B ACK #102 msn 3 credits 0 for #102
         B RDMA READ Response Only #100 8 B msn 3 credits 0
         A READ ACK #100 msn 0 for #100
         A RDMA WRITE Only #103 8 B va +0x0 len 8 ask
         B ACK #103 msn 4 credits 0 for #103",
    );
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
    assert_eq!(pair.sides[0].sent(), [1, 2, 3, 4].map(|wr_id| (wr_id, Status::Success)));
    assert_eq!(pair.sides[1].received(), [(7, Status::Success, 0), (8, Status::Success, 0)]);
}

#[test]
fn reads_are_answered_before_the_responder_is_ready_to_send() {
    let mut pair = Setup::new(Service::Irn).unconnected();
    pair.sides[1].fill(0, &pattern(300, 4));
    pair.connect(0);
    pair.listen(1);
    pair.post(0, 1, pair.read_op(1, 0), 300);
    pair.run();
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[0].bytes(0, 300), pattern(300, 4));
    assert_eq!(pair.sides[1].events(), [Event::CommunicationEstablished(pair.sides[1].qpn)]);
    // B's requests begin with B's own PSN, and B's responses continue their PSN sequence.
    let (qpn, attributes, now) = (pair.sides[1].qpn, pair.attributes(1), pair.now);
    pair.sides[1].device.to_rts(qpn, attributes, now).unwrap();
    pair.trace.clear();
    pair.post(1, 2, pair.write_op(0, 0), 8);
    pair.post(0, 3, pair.read_op(1, 0), 8);
    pair.run();
    assert_eq!((pair.sides[0].sent(), pair.sides[1].sent()), (vec![(3, Status::Success)], vec![(2, Status::Success)]));
    assert!(pair.trace.contains(&"B RDMA WRITE Only #900 8 B va +0x0 len 8 ask".to_string()), "{:?}", pair.trace);
}

#[test]
fn lost_acknowledgements_of_answers_cost_no_timeout() {
    let mut setup = Setup::new(Service::Irn);
    (setup.attributes.max_rd_atomic, setup.max_dest) = (1, 1);
    let mut pair = setup.build();
    pair.script(|seen| {
        let ack = seen.headers.bth.opcode.operation() == Operation::ReadAcknowledge;
        if ack { Fate::Lost } else { Fate::Arrives }
    });
    for wr_id in 0..3 {
        pair.post(0, wr_id, pair.read_op(1, 0), 8);
    }
    pair.run_for(Time::from_us(20));
    // Each read request acknowledges the response to the previous read, although the READ ACK was lost.
    assert_eq!(pair.sides[0].sent().len(), 3);
    assert_eq!(pair.sides[0].device.counters().timeouts, 0);
    assert_eq!(pair.sides[1].device.counters().timeouts, 0);
}

#[test]
fn every_packet_out_of_order_is_reported() {
    let mut pair = pair();
    pair.sides[0].fill(0, &pattern(2_000, 1));
    lose(&mut pair, &[0, 3]);
    pair.post(0, 1, pair.write_op(1, 0), 256 * 6);
    pair.run();
    // After the last NACK the sender knows that 101, 102, 104 and 105 have arrived, so that 100 and 103 are missing.
    pair.expect(
        "A RDMA WRITE First #100 256 B va +0x0 len 1536 ask lost
         A RDMA WRITE Middle #101 256 B va +0x100 len 1280 ask
         A RDMA WRITE Middle #102 256 B va +0x200 len 1024 ask
         A RDMA WRITE Middle #103 256 B va +0x300 len 768 ask lost
         A RDMA WRITE Middle #104 256 B va +0x400 len 512 ask
         A RDMA WRITE Last #105 256 B va +0x500 len 256 ask
         B NAK PSN sequence error #100 msn 0 for #101 to #102
         B NAK PSN sequence error #100 msn 0 for #104 to #105
         A RDMA WRITE First #100 256 B va +0x0 len 1536 ask
         A RDMA WRITE Middle #103 256 B va +0x300 len 768 ask
         B ACK #105 msn 1 credits 0 for #103",
    );
    assert_eq!(pair.sides[1].bytes(0, 1_536), &pattern(2_000, 1)[..1_536]);
}

#[test]
fn congestion_marks_come_back_with_the_acknowledgement() {
    let mut pair = pair();
    pair.marks = true;
    pair.post(0, 1, pair.read_op(1, 0), 8);
    pair.run();
    pair.expect(
        "A RDMA READ Request #100 va +0x0 len 8 read 0 ask
         B ACK #100 msn 1 credits 0 for #100 becn
         B RDMA READ Response Only #100 8 B msn 1 credits 0
         A READ ACK #100 msn 0 for #100 becn",
    );
}

/// Packets are late but not lost. The timeout retransmits one packet needlessly. The sender must not take the ACK of
/// the first transmission for the ACK of the second: otherwise each packet in flight would look lost.
#[test]
fn what_is_late_is_not_taken_for_lost() {
    let mut pair = pair();
    pair.sides[0].fill(0, &pattern(5_000, 4));
    // The timeout is 1 ms, but the path's delay is 1.5 ms, and each packet arrives later than the previous packet.
    pair.script(|seen: &Seen<'_>| match seen.from {
        0 => Fate::Late(Time::from_us(1_500 + 5 * seen.number)),
        _ => Fate::Arrives,
    });
    pair.post(0, 1, pair.write_op(1, 5_000), 5_000);
    pair.run();
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[1].bytes(5_000, 5_000), pattern(5_000, 4));
    let counters = pair.sides[0].device.counters();
    assert_eq!((counters.timeouts, counters.retransmitted), (1, 1));
}

/// Two Writes to the same address, the first of which is lost: the retransmission of the first overwrites the second,
/// as the IRN paper says, unless the second has a fence.
#[test]
fn a_retransmission_overwrites_a_newer_write_without_a_fence() {
    for (flags, last) in [(SendFlags::SIGNALED, 1), (SendFlags { fence: true, ..SendFlags::SIGNALED }, 2)] {
        let mut pair = pair();
        pair.sides[0].fill(0, &[1; 8]);
        pair.sides[0].fill(8, &[2; 8]);
        pair.lose_once(|seen| seen.is(0, Operation::Write, 100));
        pair.post_with(0, 1, pair.write_op(1, 0), 0, 8, SendFlags::SIGNALED);
        pair.post_with(0, 2, pair.write_op(1, 0), 8, 8, flags);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [1, 2].map(|id| (id, Status::Success)));
        assert_eq!(pair.sides[1].bytes(0, 8), [last; 8]);
    }
}

/// A Send without a credit goes out alone, and the next one waits for the credits that the posted receives bring.
#[test]
fn credits_hold_messages_back_but_not_the_last() {
    let mut pair = pair();
    pair.recv(1, 0, 0, 10);
    pair.post(0, 1, SendOp::Send, 10);
    pair.run();
    for wr_id in 1..=3 {
        pair.recv(1, wr_id, 0, 10);
    }
    pair.post(0, 2, SendOp::Send, 10);
    pair.post(0, 3, SendOp::Send, 10);
    pair.run();
    pair.expect(
        "A SEND Only #100 10 B recv 0 at 0 ask
         B ACK #100 msn 1 credits 0 for #100
         A SEND Only #101 10 B recv 1 at 0 ask
         B ACK #100 msn 1 credits 3 for #100
         A SEND Only #102 10 B recv 2 at 0 ask
         B ACK #101 msn 2 credits 2 for #101
         B ACK #102 msn 3 credits 1 for #102",
    );
    assert_eq!(pair.sides[1].received().len(), 3);
}
