//! Tests with forged packets of a peer. The device refuses or drops packets that the specification forbids, changes no
//! memory beyond the granted rights, and stores a bounded amount of state.

use crate::common::{PSN_A, Pair, REGION, Setup, bytes_of};
use rnic_verbs::{Dropped, SendOp, Service, State, Status};
use rnic_wire::{Aeth, AtomicEth, Headers, NakCode, Opcode, Packet, ReadEth, Reth, SackEth, SendEth, Syndrome};

/// Forges packets from side A to side B.
pub(crate) struct Forger {
    pub(crate) pair: Pair,
    pub(crate) psn: u32,
}

impl Forger {
    pub(crate) fn new(service: Service) -> Forger {
        let mut pair = Pair::new(service);
        pair.recv(1, 1, 60_000, 4_096);
        pair.recv(1, 2, 50_000, 4_096);
        Forger { pair, psn: PSN_A }
    }

    /// Headers without extension headers of a packet with the next PSN; advances the next PSN.
    pub(crate) fn next(&mut self, opcode: Opcode) -> Headers {
        let headers = self.pair.headers(1, opcode, self.psn);
        self.psn += 1;
        headers
    }

    pub(crate) fn send(&mut self, headers: Headers, len: usize) -> Result<(), Dropped> {
        self.pair.arrive(1, &bytes_of(headers, &[0xee; 4_096][..len]))
    }

    /// A RETH for `len` bytes of B's region, from byte `offset` on.
    pub(crate) fn reth(&self, offset: u64, len: u32) -> Reth {
        let (va, rkey) = self.pair.target(1);
        Reth { va: va + offset, rkey, dma_len: len }
    }

    /// Checks that B has refused packet `psn` with a NAK "invalid request", and is in the error state.
    #[track_caller]
    pub(crate) fn is_refused(&mut self, psn: u32) {
        self.is_refused_with(psn, "invalid request");
    }

    #[track_caller]
    pub(crate) fn is_refused_with(&mut self, psn: u32, code: &str) {
        self.pair.drain();
        let last = self.pair.trace.last().cloned().unwrap_or_default();
        assert!(last.starts_with(&format!("B NAK {code} #{psn} ")), "{:?}", self.pair.trace);
        let side = &self.pair.sides[1];
        assert_eq!(side.device.state(side.qpn), Ok(State::Error));
        assert_eq!(self.pair.sides[1].events().len(), 1);
    }
}

const RC_SEND: [Opcode; 4] =
    [Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST, Opcode::RC_SEND_ONLY];
const RC_WRITE: [Opcode; 4] =
    [Opcode::RC_WRITE_FIRST, Opcode::RC_WRITE_MIDDLE, Opcode::RC_WRITE_LAST, Opcode::RC_WRITE_ONLY];

/// Headers and payload length of an RC request packet with this opcode, as part of a message of 600 bytes.
fn rc(forger: &mut Forger, opcode: Opcode) -> (Headers, usize) {
    let mut headers = forger.next(opcode);
    let len = match opcode.payload_rule() {
        rnic_wire::PayloadRule::Full => 256,
        rnic_wire::PayloadRule::Empty => 0,
        _ => 88,
    };
    if opcode.operation() == rnic_wire::Operation::Write && opcode.starts_message() {
        headers.reth = Some(forger.reth(0, if opcode.is_only() { 88 } else { 600 }));
    }
    if opcode == Opcode::RC_READ_REQUEST {
        headers.reth = Some(forger.reth(0, 600));
    }
    if opcode == Opcode::RC_FETCH_ADD {
        let reth = forger.reth(0, 8);
        headers.atomic = Some(AtomicEth { va: reth.va, rkey: reth.rkey, swap_add: 1, compare: 0 });
    }
    (headers, len)
}

#[test]
fn opcodes_follow_one_another_as_they_should() {
    let requests: Vec<Opcode> =
        RC_SEND.into_iter().chain(RC_WRITE).chain([Opcode::RC_READ_REQUEST, Opcode::RC_FETCH_ADD]).collect();
    // For each first packet, the test sends every opcode as the second packet. The specification's table of opcode
    // sequences says which second packets are valid.
    for first in [None, Some(Opcode::RC_SEND_FIRST), Some(Opcode::RC_WRITE_FIRST)] {
        for &second in &requests {
            let mut forger = Forger::new(Service::Rc);
            if let Some(first) = first {
                let (headers, len) = rc(&mut forger, first);
                assert_eq!(forger.send(headers, len), Ok(()));
            }
            let psn = forger.psn;
            let (headers, len) = rc(&mut forger, second);
            let allowed = match first {
                None => second.starts_message(),
                Some(first) => first.operation() == second.operation() && !second.starts_message(),
            };
            // A Last packet directly after the First packet ends a message of 600 bytes too early. For a Write this is
            // another error.
            let short = first.is_some() && second == Opcode::RC_WRITE_LAST;
            let result = forger.send(headers, len);
            if allowed && !short {
                assert_eq!(result, Ok(()), "{first:?} {second:?}");
            } else {
                assert_eq!(result, Err(Dropped::Refused), "{first:?} {second:?}");
                forger.is_refused(psn);
            }
        }
    }
}

#[test]
fn a_write_has_the_length_that_it_announces() {
    // Each case: opcode of the first packet, length in the RETH, payload lengths of the packets. The responder refuses
    // the last packet of each case before it writes the payload.
    let cases: [(Opcode, u32, &[usize]); 8] = [
        (Opcode::RC_WRITE_ONLY, 9, &[8]),
        (Opcode::RC_WRITE_ONLY, 7, &[8]),
        (Opcode::RC_WRITE_ONLY, 0, &[8]),
        (Opcode::RC_WRITE_ONLY, 8, &[0]),
        (Opcode::RC_WRITE_FIRST, 255, &[256]),
        (Opcode::RC_WRITE_FIRST, 256, &[256]),
        (Opcode::RC_WRITE_FIRST, 264, &[256, 9]),
        (Opcode::RC_WRITE_FIRST, 265, &[256, 8]),
    ];
    for (opcode, announced, packets) in cases {
        let mut forger = Forger::new(Service::Rc);
        for (at, len) in packets.iter().enumerate() {
            let opcode = if at == 0 { opcode } else { Opcode::RC_WRITE_LAST };
            let mut headers = forger.next(opcode);
            if at == 0 {
                headers.reth = Some(forger.reth(0, announced));
            }
            let last = at + 1 == packets.len();
            let expected = if last { Err(Dropped::Refused) } else { Ok(()) };
            assert_eq!(forger.send(headers, *len), expected, "{opcode:?} {announced} {packets:?}");
        }
        forger.is_refused(PSN_A + packets.len() as u32 - 1);
        let written = if packets.len() > 1 { 256 } else { 0 };
        assert_eq!(forger.pair.sides[1].bytes(written, 300), [0; 300]);
    }
}

#[test]
fn a_message_has_at_most_two_gigabytes() {
    for service in [Service::Rc, Service::Irn] {
        for read in [false, true] {
            let mut forger = Forger::new(service);
            let opcode = match (service, read) {
                (Service::Rc, false) => Opcode::RC_WRITE_FIRST,
                (Service::Rc, true) => Opcode::RC_READ_REQUEST,
                (_, false) => Opcode::IRN_WRITE_FIRST,
                (_, true) => Opcode::IRN_READ_REQUEST,
            };
            let mut headers = forger.next(opcode);
            headers.reth = Some(forger.reth(0, (1 << 31) + 1));
            headers.read = (service == Service::Irn && read).then_some(ReadEth::default());
            let taken = forger.send(headers, if read { 0 } else { 256 });
            assert!(taken.is_ok() == (read && service == Service::Irn));
            forger.is_refused(PSN_A);
        }
    }
    // An offset near 2^32: the packet is refused, and no counter overflows.
    let mut forger = Forger::new(Service::Irn);
    let mut headers = forger.next(Opcode::IRN_SEND_ONLY);
    headers.send = Some(SendEth { recv_wqe_sn: 0, offset: u32::MAX - 8 });
    assert_eq!(forger.send(headers, 100), Err(Dropped::Refused));
    forger.is_refused(PSN_A);
}

#[test]
fn an_atomic_needs_an_address_that_is_a_multiple_of_eight() {
    for service in [Service::Rc, Service::Irn] {
        let mut forger = Forger::new(service);
        let irn = service == Service::Irn;
        let mut headers = forger.next(if irn { Opcode::IRN_FETCH_ADD } else { Opcode::RC_FETCH_ADD });
        let reth = forger.reth(4, 8);
        headers.atomic = Some(AtomicEth { va: reth.va, rkey: reth.rkey, swap_add: 1, compare: 0 });
        headers.read = irn.then_some(ReadEth::default());
        let _ = forger.send(headers, 0);
        forger.is_refused(PSN_A);
        assert_eq!(forger.pair.sides[1].bytes(0, 16), [0; 16]);
    }
}

#[test]
fn more_reads_than_agreed_are_refused() {
    // `max_dest_rd_atomic` is four. However many reads the peer sends, the number of queued responses is bounded.
    let mut forger = Forger::new(Service::Rc);
    let mut taken = 0;
    loop {
        let mut headers = forger.next(Opcode::RC_READ_REQUEST);
        headers.reth = Some(forger.reth(0, 8));
        if forger.send(headers, 0).is_err() {
            break;
        }
        taken += 1;
    }
    assert!((4..=12).contains(&taken), "{taken}");
    forger.is_refused(PSN_A + taken);
}

#[test]
fn what_is_asked_for_again_takes_no_room_from_what_is_new() {
    // `max_dest_rd_atomic` is four. Eight responses of two packets each are queued when the requester repeats its last
    // four read requests, from the second packet of their responses on.
    let mut forger = Forger::new(Service::Rc);
    let read = |forger: &mut Forger, psn, offset, len| {
        let mut headers = forger.pair.headers(1, Opcode::RC_READ_REQUEST, psn);
        headers.reth = Some(forger.reth(offset, len));
        forger.send(headers, 0)
    };
    for at in 0..8 {
        assert_eq!(read(&mut forger, PSN_A + 2 * at, 0, 512), Ok(()));
    }
    for at in 4..8 {
        assert_eq!(read(&mut forger, PSN_A + 2 * at + 1, 256, 256), Err(Dropped::Duplicate));
    }
    // The queue has room for three times `max_dest_rd_atomic` responses.
    for at in 8..12 {
        assert_eq!(read(&mut forger, PSN_A + 2 * at, 0, 512), Ok(()));
    }
    assert_eq!(read(&mut forger, PSN_A + 24, 0, 512), Err(Dropped::Refused));
    forger.is_refused(PSN_A + 24);
}

#[test]
fn a_region_that_goes_in_the_middle_of_a_write() {
    for service in [Service::Rc, Service::Irn] {
        let mut forger = Forger::new(service);
        let irn = service == Service::Irn;
        let mut headers = forger.next(if irn { Opcode::IRN_WRITE_FIRST } else { Opcode::RC_WRITE_FIRST });
        headers.reth = Some(forger.reth(0, 600));
        assert_eq!(forger.send(headers, 256), Ok(()));
        let id = forger.pair.sides[1].memory.id;
        let bytes = forger.pair.sides[1].device.deregister(id).unwrap();
        assert_eq!(bytes[..257], [[0xee; 256].as_slice(), &[0]].concat());
        let reth = forger.reth(256, 344);
        let mut headers = forger.next(if irn { Opcode::IRN_WRITE_MIDDLE } else { Opcode::RC_WRITE_MIDDLE });
        headers.reth = irn.then_some(reth);
        assert_eq!(forger.send(headers, 256), Err(Dropped::Refused));
        forger.is_refused_with(PSN_A + 1, "remote access error");
    }
}

// The stored state stays bounded, and the device sends little in response to forged packets.

#[test]
fn replies_that_cannot_be_sent_do_not_pile_up() {
    // B is never asked to transmit, while A repeats its packets in every possible way.
    let mut forger = Forger::new(Service::Rc);
    for round in 0..2_000 {
        let before = forger.psn;
        // A packet in order, then a packet ahead of the expected PSN, then a duplicate.
        let mut headers = forger.next(Opcode::RC_WRITE_ONLY);
        headers.reth = Some(forger.reth(0, 8));
        assert_eq!(forger.send(headers, 8), Ok(()));
        let mut ahead = headers;
        ahead.bth.psn += 5;
        assert_eq!(forger.send(ahead, 8), Err(Dropped::OutOfOrder));
        assert_eq!(forger.send(headers, 8), Err(Dropped::Duplicate));
        if round == 0 {
            let mut headers = forger.next(Opcode::RC_FETCH_ADD);
            let reth = forger.reth(0, 8);
            headers.atomic = Some(AtomicEth { va: reth.va, rkey: reth.rkey, swap_add: 1, compare: 0 });
            assert_eq!(forger.send(headers, 0), Ok(()));
            let mut headers = forger.next(Opcode::RC_READ_REQUEST);
            headers.reth = Some(forger.reth(0, 256 * 20));
            assert_eq!(forger.send(headers, 0), Ok(()));
            forger.psn = before + 2 + 20;
        }
        // The read request again, from each packet of its response on.
        let mut again = forger.pair.headers(1, Opcode::RC_READ_REQUEST, PSN_A + 2 + round % 20);
        again.reth = Some(forger.reth(u64::from(round % 20) * 256, 256 * (20 - round % 20)));
        assert_eq!(forger.send(again, 0), Err(Dropped::Duplicate));
        // Two messages find a receive; the others trigger RNR NAKs.
        let mut send = forger.pair.headers(1, Opcode::RC_SEND_ONLY, forger.psn);
        send.bth.ack_request = true;
        let expected = if round < 2 { Ok(()) } else { Err(Dropped::NoReceive) };
        assert_eq!(forger.send(send, 8), expected);
        forger.psn += u32::from(round < 2);
    }
    forger.pair.drain();
    let replies = forger.pair.trace.len();
    assert!(replies < 200, "{replies} replies");
}

#[test]
fn little_goes_out_for_what_comes_in() {
    // A packet that is not a permitted read triggers at most one short packet.
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        let mut dice = 88_172_645_463_325_252u64;
        let mut roll = |bound: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % bound
        };
        let mut setup = Setup::new(service);
        setup.cq = 4_096;
        let mut pair = setup.build();
        for wr_id in 0..100 {
            pair.recv(1, wr_id, 0, 256);
        }
        for _ in 0..20_000 {
            let mut bytes = vec![0u8; 16 + 4 * roll(80) as usize];
            bytes.iter_mut().for_each(|byte| *byte = roll(256) as u8);
            let base = match service {
                Service::Rc => 0x00,
                Service::Irn => 0xc0,
                Service::Uc => 0x20,
                Service::Ud => 0x60,
            };
            bytes[0] = base | roll(0x19) as u8;
            bytes[1] = 0x40;
            bytes[2..4].copy_from_slice(&[0xff, 0xff]);
            bytes[4..8].copy_from_slice(&pair.sides[1].qpn.0.to_be_bytes());
            let psn = PSN_A.wrapping_add(roll(40) as u32).wrapping_sub(10) & 0xff_ffff;
            bytes[8..12].copy_from_slice(&(psn | 1 << 31).to_be_bytes());
            let _ = pair.arrive(1, &bytes);
            pair.trace.clear();
            pair.drain();
            assert!(pair.trace.len() <= 1, "{service:?}: {:?}", pair.trace);
            assert!(!pair.trace.iter().any(|line| line.contains(" B ")), "{:?}", pair.trace);
            let qpn = pair.sides[1].qpn;
            if pair.sides[1].device.state(qpn) == Ok(State::Error) {
                let side = &mut pair.sides[1];
                side.received();
                side.sent();
                side.events();
                side.device.to_reset(qpn).unwrap();
                pair.connect(1);
                for wr_id in 0..30 {
                    pair.recv(1, wr_id, 0, 256);
                }
            }
            pair.sides[1].received();
        }
        assert_eq!(pair.sides[1].bytes(256, REGION - 256), vec![0; REGION - 256]);
    }
}

#[test]
fn answers_to_what_was_not_asked_are_dropped() {
    for service in [Service::Rc, Service::Irn] {
        let irn = service == Service::Irn;
        let mut pair = Pair::new(service);
        let ack = Some(Aeth { syndrome: Syndrome::ACK, msn: 0 });
        for psn in [PSN_A, PSN_A + 1, PSN_A - 1, 0] {
            for (rc, other, payload) in [
                (Opcode::RC_READ_RESPONSE_ONLY, Opcode::IRN_READ_RESPONSE_ONLY, 8),
                (Opcode::RC_ATOMIC_ACKNOWLEDGE, Opcode::IRN_ATOMIC_ACKNOWLEDGE, 0),
            ] {
                let mut headers = pair.headers(0, if irn { other } else { rc }, psn);
                headers.aeth = ack;
                headers.atomic_ack = (payload == 0).then_some(Default::default());
                let result = pair.arrive(0, &bytes_of(headers, &[1; 8][..payload]));
                assert!(result.is_err(), "{service:?} {psn}");
            }
        }
        if irn {
            for psn in [PSN_A, PSN_A + 5, PSN_A - 2] {
                let mut headers = pair.headers(1, Opcode::IRN_READ_ACKNOWLEDGE, psn);
                headers.aeth = ack;
                headers.sack = Some(SackEth { psn, before: 3 });
                assert_eq!(pair.arrive(1, &bytes_of(headers, &[])), Err(Dropped::Stale));
                headers.aeth = Some(Aeth { syndrome: Syndrome::Nak(NakCode::RemoteAccessError), msn: 0 });
                assert_eq!(pair.arrive(1, &bytes_of(headers, &[])), Err(Dropped::Opcode));
            }
        }
        assert_eq!(pair.sides[0].bytes(0, 64), [0; 64]);
        // A response to a request that is released but was not sent is stale too.
        let mut setup = Setup::new(service);
        setup.config.in_flight = 1;
        let mut pair = setup.build();
        pair.script(|_| crate::common::Fate::Lost);
        pair.post(0, 1, pair.write_op(1, 0), 8);
        pair.post(0, 2, pair.read_op(1, 0), 8);
        pair.drain();
        let psn = if irn { PSN_A } else { PSN_A + 1 };
        let only = if irn { Opcode::IRN_READ_RESPONSE_ONLY } else { Opcode::RC_READ_RESPONSE_ONLY };
        let mut headers = pair.headers(0, only, psn);
        headers.aeth = ack;
        assert_eq!(pair.arrive(0, &bytes_of(headers, &[1; 8])), Err(Dropped::Stale));
        assert_eq!(pair.sides[0].bytes(0, 8), [0; 8]);
    }
}

#[test]
fn a_batch_for_a_queue_pair_of_the_past_goes_nowhere_else() {
    // The batch holds a packet back, because it is longer than the first packet. Then its queue pair is destroyed, and
    // another queue pair takes its slot.
    let mut pair = Pair::new(Service::Rc);
    pair.post(0, 1, pair.write_op(1, 0), 8);
    pair.post(0, 2, pair.write_op(1, 0), 200);
    let side = &mut pair.sides[0];
    assert!(side.device.transmit(pair.now, &mut side.batch));
    assert_eq!(side.batch.count(), 1);
    let old = side.qpn;
    side.device.destroy_qp(old).unwrap();
    let init = rnic_verbs::QpInit {
        service: Service::Rc,
        send_cq: side.send_cq,
        recv_cq: side.recv_cq,
        srq: None,
        capacities: rnic_verbs::Capacities::default(),
        signal_all: false,
    };
    side.qpn = side.device.create_qp(side.pd, init).unwrap();
    assert_ne!(side.qpn, old);
    let elsewhere = crate::common::address("10.0.0.7:4791");
    pair.setup.peers[1] = elsewhere;
    pair.connect(0);
    pair.post(0, 3, SendOp::Send, 200);
    let side = &mut pair.sides[0];
    assert!(side.device.transmit(pair.now, &mut side.batch));
    let to = side.batch.destination().unwrap();
    assert_eq!((to.qpn, to.peer, side.batch.count()), (old, crate::common::address("10.0.0.2:4791"), 1));
    assert!(side.device.transmit(pair.now, &mut side.batch));
    let to = side.batch.destination().unwrap();
    assert_eq!((to.qpn, to.peer, side.batch.count()), (side.qpn, elsewhere, 1));
    let bytes = side.batch.bytes().to_vec();
    assert_eq!(Packet::parse(&bytes).unwrap().headers.bth.opcode, Opcode::RC_SEND_ONLY);
}

#[test]
fn queue_pair_numbers_are_random_and_never_reserved() {
    let mut device = rnic_verbs::Device::new(rnic_verbs::DeviceConfig { seed: 7, ..Default::default() });
    let (pd, cq) = (device.create_pd(), device.create_cq(1).unwrap());
    let init = rnic_verbs::QpInit {
        service: Service::Irn,
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        capacities: rnic_verbs::Capacities::default(),
        signal_all: false,
    };
    let qpns: Vec<u32> = (0..4_096).map(|_| device.create_qp(pd, init.clone()).unwrap().0).collect();
    let distinct: std::collections::BTreeSet<_> = qpns.iter().collect();
    assert_eq!(distinct.len(), qpns.len());
    assert!(qpns.iter().all(|qpn| (2..0xff_ffff).contains(qpn)));
    // The differences between consecutive numbers are all over 24 bits, and each bit is set in about half of them.
    assert!(qpns.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) > 1 << 16).count() > 4_000);
    for bit in 0..24 {
        let set = qpns.iter().filter(|qpn| *qpn >> bit & 1 == 1).count();
        assert!((1_900..2_200).contains(&set), "bit {bit}: {set}");
    }
    // A queue pair is found by its number only, also after others were destroyed.
    for qpn in qpns.iter().step_by(2) {
        device.destroy_qp(rnic_verbs::Qpn(*qpn)).unwrap();
    }
    for (at, qpn) in qpns.iter().enumerate() {
        assert_eq!(device.state(rnic_verbs::Qpn(*qpn)).is_ok(), at % 2 == 1);
    }
}

#[test]
fn packets_from_another_port_of_the_peers_host_are_dropped() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        let mut setup = Setup::new(service);
        setup.source_port = Some(4_791);
        let mut pair = setup.build();
        pair.post(0, 1, pair.write_op(1, 0), 8);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
        // Another process on the peer's host has another port, and knows everything else.
        pair.setup.peers[0].set_port(49_152);
        let mut headers = pair.headers(1, Opcode::IRN_WRITE_ONLY, PSN_A + 1);
        headers.reth = Some(Reth { va: pair.target(1).0, rkey: pair.target(1).1, dma_len: 8 });
        assert_eq!(pair.arrive(1, &bytes_of(headers, &[1; 8])), Err(Dropped::WrongPeer));
        assert_eq!(pair.sides[1].bytes(0, 8), [0; 8]);
    }
}
