//! Tests with forged packets of a peer that speaks IRN. IRN's packets state their position in the message, and may
//! state a wrong one.

use crate::common::{PSN_A, Pair, Setup, bytes_of};
use crate::hostile::Forger;
use rnic_verbs::{Dropped, Service, Status};
use rnic_wire::{Headers, ImmDt, Opcode, ReadEth, RecvEth, Reth, SendEth};

/// Headers of an IRN Send packet with this sequence number of the receive and this offset in bytes.
fn irn_send(forger: &mut Forger, opcode: Opcode, recv_wqe_sn: u32, offset: u32) -> Headers {
    let mut headers = forger.next(opcode);
    headers.send = Some(SendEth { recv_wqe_sn, offset });
    headers
}

fn irn_write(forger: &mut Forger, opcode: Opcode, offset: u64, left: u32) -> Headers {
    let reth = forger.reth(offset, left);
    let mut headers = forger.next(opcode);
    headers.reth = Some(reth);
    headers
}

const FIRST: Opcode = Opcode::IRN_SEND_FIRST;
const MIDDLE: Opcode = Opcode::IRN_SEND_MIDDLE;
const LAST: Opcode = Opcode::IRN_SEND_LAST;
const ONLY: Opcode = Opcode::IRN_SEND_ONLY;

#[test]
fn packets_in_order_go_on_where_the_one_before_stopped() {
    // Each case: the first packet (opcode, receive, offset), if there is one, and a packet that must not follow it.
    let none: Option<(Opcode, u32, u32)> = None;
    let first = Some((FIRST, 0, 0));
    let cases = [
        (none, (MIDDLE, 0, 0)),
        (none, (LAST, 0, 0)),
        (none, (FIRST, 0, 256)),
        (none, (ONLY, 0, 4)),
        (none, (ONLY, 1, 0)),
        (none, (ONLY, 0xff_ffff, 0)),
        (first, (FIRST, 0, 256)),
        (first, (ONLY, 0, 0)),
        (first, (ONLY, 1, 0)),
        (first, (MIDDLE, 0, 0)),
        (first, (MIDDLE, 0, 512)),
        (first, (MIDDLE, 1, 256)),
        (first, (LAST, 0, 255)),
        (first, (LAST, 0, 1_000)),
    ];
    for (before, (opcode, serial, offset)) in cases {
        let mut forger = Forger::new(Service::Irn);
        if let Some((opcode, serial, offset)) = before {
            let headers = irn_send(&mut forger, opcode, serial, offset);
            assert_eq!(forger.send(headers, 256), Ok(()));
        }
        let psn = forger.psn;
        let headers = irn_send(&mut forger, opcode, serial, offset);
        let len = if opcode == LAST || opcode == ONLY { 88 } else { 256 };
        assert_eq!(forger.send(headers, len), Err(Dropped::Refused), "{opcode:?} {serial} {offset}");
        forger.is_refused(psn);
        assert_eq!(forger.pair.sides[1].bytes(50_000, 600), [0; 600]);
    }
}

#[test]
fn packets_out_of_order_are_checked_when_their_turn_comes() {
    // Each case: the packet that arrives last, the packets that arrive before it although they follow it in PSN order,
    // and the index of the packet that does not fit and is refused.
    type Make = fn(&mut Forger) -> Headers;
    let cases: [(Make, &[Make], u32); 7] = [
        // A Send without its last packet.
        (|f| irn_send(f, FIRST, 0, 0), &[|f| irn_send(f, ONLY, 1, 0)], 1),
        // The Last packet of a Send at a wrong offset.
        (|f| irn_send(f, FIRST, 0, 0), &[|f| irn_send(f, LAST, 0, 512)], 1),
        // Messages that claim the same receive.
        (|f| irn_send(f, ONLY, 0, 0), &[|f| irn_send(f, ONLY, 0, 0)], 1),
        // A Write in the middle of a Send.
        (|f| irn_send(f, FIRST, 0, 0), &[|f| irn_write(f, Opcode::IRN_WRITE_ONLY, 0, 88)], 1),
        // A Write packet whose address does not continue the previous packet.
        (
            |f| irn_write(f, Opcode::IRN_WRITE_FIRST, 0, 600),
            &[
                |f| irn_write(f, Opcode::IRN_WRITE_MIDDLE, 1_000, 344),
                |f| irn_write(f, Opcode::IRN_WRITE_LAST, 512, 88),
            ],
            1,
        ),
        // A Middle packet of a Write without a First packet.
        (
            |f| irn_write(f, Opcode::IRN_WRITE_ONLY, 0, 88),
            &[|f| irn_write(f, Opcode::IRN_WRITE_ONLY, 0, 88), |f| irn_write(f, Opcode::IRN_WRITE_MIDDLE, 0, 600)],
            2,
        ),
        // A read in the middle of a Write.
        (
            |f| irn_write(f, Opcode::IRN_WRITE_FIRST, 0, 600),
            &[|f| {
                let mut headers = irn_write(f, Opcode::IRN_READ_REQUEST, 0, 8);
                headers.read = Some(ReadEth { read_wqe_sn: 0 });
                headers
            }],
            1,
        ),
    ];
    for (case, (missing, behind, refused)) in cases.into_iter().enumerate() {
        let mut forger = Forger::new(Service::Irn);
        let missing = missing(&mut forger);
        let len = |headers: &Headers| match headers.bth.opcode.payload_rule() {
            rnic_wire::PayloadRule::Full => 256,
            rnic_wire::PayloadRule::Empty => 0,
            _ => 88,
        };
        for make in behind {
            let headers = make(&mut forger);
            assert_eq!(forger.send(headers, len(&headers)), Ok(()), "case {case}");
        }
        assert_eq!(forger.send(missing, len(&missing)), Ok(()), "case {case}");
        forger.is_refused(PSN_A + refused);
    }
}

#[test]
fn a_write_without_an_end_is_bounded_by_what_it_announced() {
    let mut forger = Forger::new(Service::Irn);
    let headers = irn_write(&mut forger, Opcode::IRN_WRITE_FIRST, 0, 256 * 4 + 1);
    assert_eq!(forger.send(headers, 256), Ok(()));
    for at in 1..4 {
        let headers = irn_write(&mut forger, Opcode::IRN_WRITE_MIDDLE, 256 * at, (256 * (4 - at) + 1) as u32);
        assert_eq!(forger.send(headers, 256), Ok(()));
    }
    let psn = forger.psn;
    let headers = irn_write(&mut forger, Opcode::IRN_WRITE_MIDDLE, 1_024, 1);
    assert_eq!(forger.send(headers, 256), Err(Dropped::Refused));
    forger.is_refused(psn);
}

#[test]
fn a_message_out_of_order_takes_no_receive_that_others_before_it_need() {
    let mut forger = Forger::new(Service::Irn);
    forger.next(ONLY);
    // One packet is missing. At most one message, and so at most one receive, can precede this packet's message.
    let headers = irn_send(&mut forger, ONLY, 2, 0);
    assert_eq!(forger.send(headers, 8), Err(Dropped::Refused));
    forger.psn -= 1;
    let headers = irn_send(&mut forger, ONLY, 0xff_ffff, 0);
    assert_eq!(forger.send(headers, 8), Err(Dropped::Refused));
    forger.psn -= 1;
    let headers = irn_send(&mut forger, ONLY, 1, 0);
    assert_eq!(forger.send(headers, 8), Ok(()));
    assert_eq!(forger.pair.sides[1].bytes(50_000, 8), [0xee; 8]);
    // This is the last packet in the receiver's window. The responder stores no packet beyond the window.
    forger.psn = PSN_A + rnic_verbs::MAX_IN_FLIGHT - 1;
    let headers = irn_write(&mut forger, Opcode::IRN_WRITE_ONLY, 0, 8);
    assert_eq!(forger.send(headers, 8), Ok(()));
    let headers = irn_write(&mut forger, Opcode::IRN_WRITE_ONLY, 8, 8);
    assert_eq!(forger.send(headers, 8), Err(Dropped::Duplicate));
    assert_eq!(forger.pair.sides[1].bytes(8, 8), [0; 8]);
}

#[test]
fn no_more_reads_are_parked_than_agreed() {
    let mut forger = Forger::new(Service::Irn);
    forger.next(ONLY);
    let read = |forger: &mut Forger, serial| {
        let reth = forger.reth(0, 8);
        let mut headers = forger.next(Opcode::IRN_READ_REQUEST);
        headers.reth = Some(reth);
        headers.read = Some(ReadEth { read_wqe_sn: serial });
        forger.send(headers, 0)
    };
    for serial in 0..4 {
        assert_eq!(read(&mut forger, serial), Ok(()));
    }
    for serial in [4, 5, 0xff_ffff] {
        assert_eq!(read(&mut forger, serial), Err(Dropped::Refused));
    }
    // A read with a wrong sequence number is refused when it is the next packet to process.
    let mut forger = Forger::new(Service::Irn);
    assert_eq!(read(&mut forger, 1), Err(Dropped::Refused));
    forger.is_refused(PSN_A);
}

#[test]
fn an_immediate_write_out_of_order_names_its_receive() {
    let mut forger = Forger::new(Service::Irn);
    forger.next(ONLY);
    let imm = |forger: &mut Forger, serial| {
        let mut headers = irn_write(forger, Opcode::IRN_WRITE_ONLY_IMM, 0, 8);
        headers.imm = Some(ImmDt(5));
        headers.recv = Some(RecvEth { recv_wqe_sn: serial });
        forger.send(headers, 8)
    };
    assert_eq!(imm(&mut forger, 3), Err(Dropped::Refused));
    assert_eq!(forger.pair.sides[1].bytes(0, 8), [0; 8]);
    forger.psn -= 1;
    assert_eq!(imm(&mut forger, 1), Ok(()));
    // A third message would need a receive that is not posted.
    assert_eq!(imm(&mut forger, 2), Err(Dropped::NoReceive));
    forger.psn = PSN_A;
    let headers = irn_send(&mut forger, ONLY, 0, 0);
    assert_eq!(forger.send(headers, 8), Ok(()));
    assert_eq!(forger.pair.sides[1].received(), [(1, Status::Success, 8), (2, Status::Success, 8)]);
}

#[test]
fn acknowledgements_that_cannot_be_sent_do_not_pile_up() {
    let mut forger = Forger::new(Service::Irn);
    forger.next(ONLY);
    for _ in 0..20_000 {
        let headers = irn_write(&mut forger, Opcode::IRN_WRITE_ONLY, 0, 8);
        let _ = forger.send(headers, 8);
        // Every second packet is missing, because consecutive packets would share a NACK.
        forger.psn += 1;
        if forger.psn > PSN_A + 8_000 {
            forger.psn = PSN_A + 1;
        }
    }
    forger.pair.drain();
    let replies = forger.pair.trace.len();
    assert!(replies <= 1_025, "{replies} replies");
}

/// A stranger sends zero-length Writes, which need no key, all over the PSNs. Those beyond the peer's window are
/// dropped.
#[test]
fn packets_beyond_the_peers_window_are_dropped() {
    let mut setup = Setup::new(Service::Irn);
    setup.peer_in_flight = 128;
    let mut pair = setup.build();
    let write = |pair: &mut Pair, psn: u32| {
        let mut headers = pair.headers(1, Opcode::IRN_WRITE_ONLY, psn);
        headers.reth = Some(Reth { va: 0, rkey: 0, dma_len: 0 });
        pair.arrive(1, &bytes_of(headers, &[]))
    };
    let taken: Vec<u32> = (0..1 << 14).filter(|ahead| write(&mut pair, PSN_A + ahead + 1).is_ok()).collect();
    assert_eq!(taken, (0..127).collect::<Vec<_>>());
}
