//! Tests of RDMA Reads and atomics of reliable connections, packet by packet. PSNs, MTU, delay and timeout are those of
//! the tests in [`crate::rc`].

use crate::common::{Fate, Pair, Setup, bytes_of, pattern};
use crate::rc::pair;
use rnic_transport::Time;
use rnic_verbs::{Dropped, SendFlags, Service, Status};
use rnic_wire::{Opcode, Operation, Reth};

#[test]
fn a_read_asks_again_for_what_is_missing_of_the_answer() {
    let mut pair = pair();
    pair.sides[1].fill(64, &pattern(600, 3));
    pair.lose_once(|seen| seen.is(1, Operation::ReadResponse, 101));
    pair.post(0, 1, pair.read_op(1, 64), 600);
    pair.run();
    // The Last packet is an implied NAK of the missing Middle packet. The repeated response begins with a Middle
    // packet.
    pair.expect(
        "A RDMA READ Request #100 va +0x40 len 600 ask
         B RDMA READ Response First #100 256 B msn 1 credits 0
         B RDMA READ Response Middle #101 256 B lost
         B RDMA READ Response Last #102 88 B msn 1 credits 0
         A RDMA READ Request #101 va +0x140 len 344 ask
         B RDMA READ Response Middle #101 256 B
         B RDMA READ Response Last #102 88 B msn 1 credits 0",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[0].bytes(0, 600), pattern(600, 3));
    assert_eq!(pair.sides[0].device.counters().implied_naks, 1);
}

#[test]
fn a_read_whose_last_answer_is_lost_asks_for_that_alone() {
    let mut pair = pair();
    pair.sides[1].fill(0, &pattern(600, 4));
    pair.lose_once(|seen| seen.is(1, Operation::ReadResponse, 102));
    pair.post(0, 1, pair.read_op(1, 0), 600);
    pair.run();
    pair.expect(
        "A RDMA READ Request #100 va +0x0 len 600 ask
         B RDMA READ Response First #100 256 B msn 1 credits 0
         B RDMA READ Response Middle #101 256 B
         B RDMA READ Response Last #102 88 B msn 1 credits 0 lost
         A RDMA READ Request #102 va +0x200 len 88 ask
         B RDMA READ Response Last #102 88 B msn 1 credits 0",
    );
    assert_eq!(pair.sides[0].bytes(0, 600), pattern(600, 4));
}

#[test]
fn requests_after_a_read_count_on_from_the_end_of_its_answer() {
    let mut pair = pair();
    pair.post(0, 1, pair.read_op(1, 0), 600);
    pair.post(0, 2, pair.write_op(1, 8_000), 10);
    pair.run();
    // The response acknowledges the read, and the ACK acknowledges the Write.
    pair.expect(
        "A RDMA READ Request #100 va +0x0 len 600 ask
         A RDMA WRITE Only #103 10 B va +0x1f40 len 10 ask
         B RDMA READ Response First #100 256 B msn 2 credits 0
         B RDMA READ Response Middle #101 256 B
         B RDMA READ Response Last #102 88 B msn 2 credits 0
         B ACK #103 msn 2 credits 0",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success), (2, Status::Success)]);
}

#[test]
fn an_acknowledgement_beyond_an_unanswered_read_asks_for_the_read_again() {
    let mut pair = pair();
    pair.sides[1].fill(0, &pattern(8, 5));
    pair.lose_once(|seen| seen.is(1, Operation::ReadResponse, 100));
    pair.post(0, 1, pair.read_op(1, 0), 8);
    pair.post(0, 2, pair.write_op(1, 8_000), 10);
    pair.run();
    pair.expect(
        "A RDMA READ Request #100 va +0x0 len 8 ask
         A RDMA WRITE Only #101 10 B va +0x1f40 len 10 ask
         B RDMA READ Response Only #100 8 B msn 2 credits 0 lost
         B ACK #101 msn 2 credits 0
         A RDMA READ Request #100 va +0x0 len 8 ask
         A RDMA WRITE Only #101 10 B va +0x1f40 len 10 ask
         B RDMA READ Response Only #100 8 B msn 2 credits 0
         B ACK #101 msn 2 credits 0",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(pair.sides[0].bytes(0, 8), pattern(8, 5));
}

#[test]
fn an_atomic_whose_answer_is_lost_is_executed_once() {
    let mut pair = pair();
    pair.sides[1].fill(16, &40u64.to_ne_bytes());
    pair.lose_once(|seen| seen.is(1, Operation::AtomicAcknowledge, 100));
    pair.post(0, 1, pair.add_op(1, 16, 2), 8);
    pair.run();
    pair.expect(
        "A FetchAdd #100 ask
         B ATOMIC Acknowledge #100 msn 1 credits 0 lost
         A FetchAdd #100 ask
         B ATOMIC Acknowledge #100 msn 1 credits 0",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[0].bytes(0, 8), 40u64.to_ne_bytes());
    assert_eq!(pair.sides[1].bytes(16, 8), 42u64.to_ne_bytes());
}

#[test]
fn several_atomics_lost_together_are_each_answered_with_their_own_result() {
    let mut pair = pair();
    let mut lost = 0;
    pair.script(move |seen| {
        let answer = seen.headers.bth.opcode.operation() == Operation::AtomicAcknowledge && lost < 3;
        lost += u32::from(answer);
        if answer { Fate::Lost } else { Fate::Arrives }
    });
    for (wr_id, add) in [(1, 1), (2, 10), (3, 100)] {
        pair.post_with(0, wr_id, pair.add_op(1, 0, add), 8 * wr_id, 8, SendFlags::SIGNALED);
    }
    pair.run();
    assert_eq!(pair.sides[0].sent().len(), 3);
    let results = [0u64, 1, 11].map(u64::to_ne_bytes).concat();
    assert_eq!(pair.sides[0].bytes(8, 24), results);
    assert_eq!(pair.sides[1].bytes(0, 8), 111u64.to_ne_bytes());
}

#[test]
fn compare_and_swap_brings_back_what_was_there() {
    let mut pair = pair();
    pair.sides[1].fill(0, &5u64.to_ne_bytes());
    pair.post(0, 1, pair.swap_op(1, 0, 5, 6), 8);
    pair.run();
    assert_eq!(
        (pair.sides[0].bytes(0, 8), pair.sides[1].bytes(0, 8)),
        (&5u64.to_ne_bytes()[..], &6u64.to_ne_bytes()[..])
    );
    pair.post(0, 2, pair.swap_op(1, 0, 5, 9), 8);
    pair.run();
    assert_eq!(
        (pair.sides[0].bytes(0, 8), pair.sides[1].bytes(0, 8)),
        (&6u64.to_ne_bytes()[..], &6u64.to_ne_bytes()[..])
    );
}

#[test]
fn a_fence_waits_for_reads_and_nothing_else() {
    let mut pair = pair();
    let fence = SendFlags { fence: true, ..SendFlags::SIGNALED };
    pair.post(0, 1, pair.write_op(1, 0), 8);
    pair.post_with(0, 2, pair.write_op(1, 8), 0, 8, fence);
    pair.post(0, 3, pair.read_op(1, 0), 8);
    pair.post_with(0, 4, pair.write_op(1, 0), 0, 8, fence);
    pair.post(0, 5, pair.write_op(1, 0), 8);
    pair.run();
    pair.expect(
        "A RDMA WRITE Only #100 8 B va +0x0 len 8 ask
         A RDMA WRITE Only #101 8 B va +0x8 len 8 ask
         A RDMA READ Request #102 va +0x0 len 8 ask
         B ACK #101 msn 3 credits 0
         B RDMA READ Response Only #102 8 B msn 3 credits 0
         A RDMA WRITE Only #103 8 B va +0x0 len 8 ask
         A RDMA WRITE Only #104 8 B va +0x0 len 8 ask
         B ACK #104 msn 5 credits 0",
    );
}

#[test]
fn no_more_reads_are_outstanding_than_agreed() {
    let mut setup = Setup::new(Service::Rc);
    setup.attributes.max_rd_atomic = 2;
    let mut pair = setup.build();
    for wr_id in 0..3 {
        pair.post(0, wr_id, pair.read_op(1, 0), 8);
    }
    pair.run();
    pair.expect(
        "A RDMA READ Request #100 va +0x0 len 8 ask
         A RDMA READ Request #101 va +0x0 len 8 ask
         B RDMA READ Response Only #100 8 B msn 2 credits 0
         B RDMA READ Response Only #101 8 B msn 2 credits 0
         A RDMA READ Request #102 va +0x0 len 8 ask
         B RDMA READ Response Only #102 8 B msn 3 credits 0",
    );
}

#[test]
fn a_duplicate_of_the_past_disturbs_nothing_that_is_owed() {
    // A duplicate of an old read request arrives behind a Write and another read, and at the same time.
    let mut pair = pair();
    pair.sides[1].fill(0, &pattern(1_024, 7));
    pair.post(0, 1, pair.read_op(1, 0), 300);
    let old = pair.take(0);
    assert_eq!(pair.arrive(1, &old[0]), Ok(()));
    pair.run();
    pair.trace.clear();
    pair.post_with(0, 2, pair.write_op(1, 8_000), 0, 10, SendFlags::SIGNALED);
    pair.post_with(0, 3, pair.read_op(1, 500), 1_000, 300, SendFlags::SIGNALED);
    for new in pair.take(0) {
        assert_eq!(pair.arrive(1, &new), Ok(()));
    }
    assert_eq!(pair.arrive(1, &old[0]), Err(Dropped::Duplicate));
    pair.run();
    // The repeated response to the old request precedes the other replies, in the order of PSNs.
    pair.expect(
        "B RDMA READ Response First #100 256 B msn 3 credits 0
         B RDMA READ Response Last #101 44 B msn 3 credits 0
         B ACK #102 msn 3 credits 0
         B RDMA READ Response First #103 256 B msn 3 credits 0
         B RDMA READ Response Last #104 44 B msn 3 credits 0",
    );
    assert_eq!(pair.sides[0].dropped(Dropped::Stale), 2);
    assert_eq!(pair.sides[0].device.counters().implied_naks, 0);
    assert_eq!(pair.sides[0].bytes(1_000, 300), &pattern(1_024, 7)[500..800]);
}

#[test]
fn an_answer_that_is_asked_for_again_takes_the_place_of_what_is_left_of_it() {
    let mut pair = pair();
    pair.sides[1].batch = rnic_verbs::Batch::new(2);
    pair.post(0, 1, pair.read_op(1, 0), 256 * 5);
    let first = pair.take(0).remove(0);
    assert_eq!(pair.arrive(1, &first), Ok(()));
    // Two of the five response packets were sent and lost. The requester repeats its request, first from the second
    // packet on, then from the first packet on.
    let side = &mut pair.sides[1];
    assert!(side.device.transmit(pair.now, &mut side.batch));
    let (va, rkey) = pair.target(1);
    for psn in [101, 100] {
        let mut again = pair.headers(1, Opcode::RC_READ_REQUEST, psn);
        let done = (psn - 100) * 256;
        again.reth = Some(Reth { va: va + u64::from(done), rkey, dma_len: 256 * 5 - done });
        assert_eq!(pair.arrive(1, &bytes_of(again, &[])), Err(Dropped::Duplicate));
    }
    pair.run();
    pair.expect(
        "B RDMA READ Response First #100 256 B msn 1 credits 0
         B RDMA READ Response Middle #101 256 B
         B RDMA READ Response Middle #102 256 B
         B RDMA READ Response Middle #103 256 B
         B RDMA READ Response Last #104 256 B msn 1 credits 0",
    );
}

#[test]
fn an_answer_that_is_asked_for_again_goes_on_where_it_was_sent_to() {
    let mut pair = pair();
    pair.sides[1].batch = rnic_verbs::Batch::new(2);
    pair.post(0, 1, pair.read_op(1, 0), 256 * 5);
    let first = pair.take(0).remove(0);
    assert_eq!(pair.arrive(1, &first), Ok(()));
    let side = &mut pair.sides[1];
    assert!(side.device.transmit(pair.now, &mut side.batch));
    // Two of the five response packets were sent when the requester asks for the other three again. The repeated
    // response replaces the rest of the first one.
    let (va, rkey) = pair.target(1);
    let mut again = pair.headers(1, Opcode::RC_READ_REQUEST, 102);
    again.reth = Some(Reth { va: va + 512, rkey, dma_len: 768 });
    assert_eq!(pair.arrive(1, &bytes_of(again, &[])), Err(Dropped::Duplicate));
    pair.drain();
    pair.expect(
        "B RDMA READ Response Middle #102 256 B
         B RDMA READ Response Middle #103 256 B
         B RDMA READ Response Last #104 256 B msn 1 credits 0",
    );
}

#[test]
fn only_reads_of_the_recent_past_are_answered_again() {
    let mut pair = pair();
    let (va, rkey) = pair.target(1);
    pair.post(0, 1, pair.read_op(1, 0), 600);
    pair.run();
    pair.trace.clear();
    let ask = |pair: &mut Pair, psn, offset, len| {
        let reth = Reth { va: va + offset, rkey, dma_len: len };
        let mut headers = pair.headers(1, Opcode::RC_READ_REQUEST, psn);
        headers.reth = Some(reth);
        assert_eq!(pair.arrive(1, &bytes_of(headers, &[])), Err(Dropped::Duplicate));
        pair.drain();
        std::mem::take(&mut pair.trace).len()
    };
    // The responder repeats the whole response, or its end.
    assert_eq!(ask(&mut pair, 100, 0, 600), 3);
    assert_eq!(ask(&mut pair, 102, 512, 88), 1);
    // The responder also repeats a part that ends early.
    assert_eq!(ask(&mut pair, 101, 256, 88), 1);
    assert_eq!(ask(&mut pair, 100, 0, 256), 1);
    // The responder does not respond to a request with another address, to a request that goes beyond the stored read,
    // or to a PSN that belongs to no read.
    assert_eq!(ask(&mut pair, 100, 8, 592), 0);
    assert_eq!(ask(&mut pair, 101, 512, 88), 0);
    assert_eq!(ask(&mut pair, 101, 256, 345), 0);
    assert_eq!(ask(&mut pair, 99, 0, 8), 0);
    // The responder stores as many reads as may be outstanding: four.
    for wr_id in 2..6 {
        pair.post(0, wr_id, pair.read_op(1, 0), 8);
        pair.run();
    }
    pair.trace.clear();
    assert_eq!(ask(&mut pair, 100, 0, 600), 0);
    assert_eq!(ask(&mut pair, 103, 0, 8), 1);
}

#[test]
fn an_answer_that_comes_after_the_timeout_still_counts() {
    let mut pair = pair();
    pair.sides[1].fill(0, &pattern(600, 8));
    // The response is late: it arrives after the timeout, but before the response to the retransmitted request.
    pair.script(|seen| if seen.number == 1 { Fate::Late(Time::from_ns(1_048_000)) } else { Fate::Arrives });
    pair.post(0, 1, pair.read_op(1, 0), 100);
    pair.run();
    pair.expect(
        "A RDMA READ Request #100 va +0x0 len 100 ask
         B RDMA READ Response Only #100 100 B msn 1 credits 0 late
         A RDMA READ Request #100 va +0x0 len 100 ask
         B RDMA READ Response Only #100 100 B msn 1 credits 0",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[0].dropped(Dropped::Stale), 1);
}
