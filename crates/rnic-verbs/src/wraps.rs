//! Tests in which 24-bit sequence numbers wrap to 0 while messages are outstanding: the PSNs of requests and responses,
//! MSN, credits, recv_WQE_SN and read_WQE_SN. The tests also wrap the internal 32-bit counters of messages.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Pair, Setup, pattern};
use rnic_verbs::{SendFlags, SendOp, Service, Status};

/// Numbers of messages that appear to be sent before a test begins: shortly before sequence numbers wrap at 24 bits,
/// and at 32 bits.
const BEFORE: [u32; 2] = [(1 << 24) - 2, u32::MAX - 1];

/// Creates two connected queue pairs that appear to have exchanged `messages` messages of every kind. Both sides begin
/// with PSN `psn`.
fn old(service: Service, messages: u32, psn: u32) -> Pair {
    let mut setup = Setup::new(service);
    setup.psns = [psn, psn];
    let mut pair = setup.build();
    for side in &mut pair.sides {
        let qp = side.device.qp(side.qpn).unwrap();
        qp.count_from(messages);
    }
    pair
}

/// Sends eight messages while sequence numbers wrap, and checks their outcome: four messages consume a receive, and
/// four are reads or atomics. The packet with PSN 0 is lost once.
fn run(pair: &mut Pair) {
    pair.sides[0].fill(0, &pattern(300, 7));
    for at in 0..4 {
        pair.recv(1, 10 + at, 1_000 + 1_000 * at, 512);
    }
    pair.lose_once(|seen| seen.from == 0 && seen.headers.bth.psn == 0);
    let write = pair.write_imm_op(1, 8_000, 99);
    let (add, read) = (pair.add_op(1, 9_000, 5), pair.read_op(1, 1_000));
    pair.post(0, 1, SendOp::Send, 300);
    pair.post(0, 2, write, 8);
    pair.post_with(0, 3, add, 20_000, 8, SendFlags::SIGNALED);
    pair.post_with(0, 4, read, 30_000, 300, SendFlags::SIGNALED);
    pair.post(0, 5, SendOp::Send, 8);
    pair.post_with(0, 6, add, 20_008, 8, SendFlags::SIGNALED);
    pair.post_with(0, 7, add, 20_016, 8, SendFlags::SIGNALED);
    pair.post(0, 8, SendOp::Send, 8);
    pair.run();
    let sent: Vec<(u64, Status)> = (1..=8).map(|wr_id| (wr_id, Status::Success)).collect();
    assert_eq!(pair.sides[0].sent(), sent);
    let received = [(10, 300), (11, 8), (12, 8), (13, 8)].map(|(wr_id, len)| (wr_id, Status::Success, len));
    assert_eq!(pair.sides[1].received(), received);
    // The three fetch-and-adds of 5 return 0, 5 and 10. The read returns the data of the first Send.
    for (at, value) in [0u64, 5, 10].into_iter().enumerate() {
        assert_eq!(pair.sides[0].bytes(20_000 + 8 * at, 8), value.to_ne_bytes());
    }
    assert_eq!(pair.sides[1].bytes(9_000, 8), 15u64.to_ne_bytes());
    assert_eq!(pair.sides[0].bytes(30_000, 300), pattern(300, 7));
}

#[test]
fn irn_sequence_numbers_wrap() {
    for messages in BEFORE {
        let mut pair = old(Service::Irn, messages, 0xff_fffe);
        run(&mut pair);
        pair.expect(
            "A SEND First #16777214 152 B recv 16777214 at 0 ask
             A SEND Last #16777215 148 B recv 16777214 at 152 ask
             A RDMA WRITE Only with Immediate #0 8 B va +0x1f40 len 8 recv 16777215 ask lost
             A FetchAdd #1 read 16777214 ask
             A RDMA READ Request #2 va +0x3e8 len 300 read 16777215 ask
             A SEND Only #3 8 B recv 0 at 0 ask
             A FetchAdd #4 read 0 ask
             A FetchAdd #5 read 1 ask
             A SEND Only #6 8 B recv 1 at 0 ask
             B NAK PSN sequence error #0 msn 16777215 for #1 to #6
             A RDMA WRITE Only with Immediate #0 8 B va +0x1f40 len 8 recv 16777215 ask
             B ACK #6 msn 6 credits 0 for #0
             B ATOMIC Acknowledge #16777214 msn 6 credits 0
             B RDMA READ Response First #16777215 152 B msn 6 credits 0
             B RDMA READ Response Last #0 148 B msn 6 credits 0
             B ATOMIC Acknowledge #1 msn 6 credits 0
             B ATOMIC Acknowledge #2 msn 6 credits 0
             A READ ACK #2 msn 0 for #2",
        );
    }
}

#[test]
fn rc_sequence_numbers_wrap() {
    for messages in BEFORE {
        let mut pair = old(Service::Rc, messages, 0xff_fffe);
        run(&mut pair);
        pair.expect(
            "A SEND First #16777214 256 B
             A SEND Last #16777215 44 B ask
             A RDMA WRITE Only with Immediate #0 8 B va +0x1f40 len 8 ask lost
             A FetchAdd #1 ask
             A RDMA READ Request #2 va +0x3e8 len 300 ask
             A SEND Only #4 8 B ask
             A FetchAdd #5 ask
             A FetchAdd #6 ask
             A SEND Only #7 8 B ask
             B ACK #16777215 msn 16777215 credits 3
             B NAK PSN sequence error #0 msn 16777215
             A RDMA WRITE Only with Immediate #0 8 B va +0x1f40 len 8 ask
             A FetchAdd #1 ask
             A RDMA READ Request #2 va +0x3e8 len 300 ask
             A SEND Only #4 8 B ask
             A FetchAdd #5 ask
             A FetchAdd #6 ask
             A SEND Only #7 8 B ask
             B ACK #0 msn 6 credits 0
             B ATOMIC Acknowledge #1 msn 6 credits 0
             B RDMA READ Response First #2 256 B msn 6 credits 0
             B RDMA READ Response Last #3 44 B msn 6 credits 0
             B ACK #4 msn 6 credits 0
             B ATOMIC Acknowledge #5 msn 6 credits 0
             B ATOMIC Acknowledge #6 msn 6 credits 0
             B ACK #7 msn 6 credits 0",
        );
    }
}

/// End-to-end credits remain correct when message sequence numbers wrap to 0.
#[test]
fn credits_count_on_after_the_last_number() {
    for messages in BEFORE {
        let mut pair = old(Service::Rc, messages, 100);
        pair.recv(1, 0, 0, 10);
        pair.post(0, 1, SendOp::Send, 10);
        pair.run();
        pair.expect(
            "A SEND Only #100 10 B ask
             B ACK #100 msn 16777215 credits 0",
        );
        // Without credits message 2 is sent alone. The ACK for the posted receives brings three credits.
        for wr_id in 1..=3 {
            pair.recv(1, wr_id, 0, 10);
        }
        pair.post(0, 2, SendOp::Send, 10);
        pair.post(0, 3, SendOp::Send, 10);
        pair.run();
        pair.expect(
            "A SEND Only #101 10 B ask
             B ACK #100 msn 16777215 credits 3
             A SEND Only #102 10 B ask
             B ACK #101 msn 0 credits 2
             B ACK #102 msn 1 credits 1",
        );
        // Two messages are posted, and the peer's credit admits only one of them at first.
        pair.post(0, 4, SendOp::Send, 10);
        pair.post(0, 5, SendOp::Send, 10);
        pair.recv(1, 4, 0, 10);
        pair.run();
        pair.expect(
            "A SEND Only #103 10 B ask
             B ACK #103 msn 2 credits 1
             A SEND Only #104 10 B ask
             B ACK #104 msn 3 credits 0",
        );
    }
}
