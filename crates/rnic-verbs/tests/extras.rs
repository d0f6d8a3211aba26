//! Abilities that authors of transports in host software ask NICs for: CE marks and trimming in completions, and
//! requests of one queue pair on different paths.

use crate::common::{PSN_A, Pair, Setup, pattern};
use rnic_verbs::{Data, Dropped, Extras, SendFlags, SendOp, SendRequest, Service, Status, VerbsError};
use rnic_wire::{ICRC_LEN, Packet};

/// A pair with these extras on both sides.
fn pair(extras: Extras) -> Pair {
    let mut pair = Setup::new(Service::Uc).unconnected();
    for side in &mut pair.sides {
        side.device.set_extras(side.qpn, extras).unwrap();
    }
    pair.connect(0);
    pair.connect(1);
    pair.drain();
    pair
}

const SPREAD: Extras = Extras { ecn: false, spread: true, offer_irn: false };

/// Posts a Write with Immediate of `len` bytes on the path `entropy`.
fn write(pair: &mut Pair, imm: u32, offset: u64, len: u32, entropy: u16) {
    let op = pair.write_imm_op(1, offset, imm);
    let side = &mut pair.sides[0];
    let sges = [side.sge(offset, len)];
    let request = SendRequest { wr_id: imm.into(), op, data: Data::Gather(&sges), flags: SendFlags::SIGNALED };
    side.device.post_spread(side.qpn, &request, entropy).unwrap();
}

/// Completions of receives: immediate data, status, marked, trimmed.
fn received(pair: &mut Pair) -> Vec<(Option<u32>, Status, bool, bool)> {
    let cq = pair.sides[1].recv_cq;
    pair.sides[1].poll(cq).iter().map(|c| (c.imm, c.status, c.marked, c.trimmed)).collect()
}

#[test]
fn a_completion_tells_whether_a_packet_of_the_message_was_marked() {
    for service in [Service::Rc, Service::Uc] {
        let mut pair = Pair::new(service);
        for wr_id in 0..3 {
            pair.recv(1, wr_id, 0, 1_000);
        }
        for wr_id in 0..3 {
            pair.post(0, wr_id, SendOp::SendImm(wr_id as u32), 600);
        }
        let packets = pair.take(0);
        assert_eq!(packets.len(), 9);
        for (at, packet) in packets.iter().enumerate() {
            // The middle packet of the second message.
            pair.marks = at == 4;
            pair.arrive(1, packet).unwrap();
        }
        let marked: Vec<bool> = received(&mut pair).iter().map(|completion| completion.2).collect();
        assert_eq!(marked, [false, true, false], "{service:?}");
    }
}

#[test]
fn packets_may_carry_ect_without_a_congestion_control() {
    for ecn in [false, true] {
        let mut pair = pair(Extras { ecn, ..Extras::default() });
        pair.post(0, 1, SendOp::Send, 10);
        let side = &mut pair.sides[0];
        assert!(side.device.transmit(pair.now, &mut side.batch));
        assert_eq!(side.batch.destination().unwrap().ecn, ecn);
    }
}

/// Delivers packet `at` of `packets` trimmed.
fn trim(pair: &mut Pair, packet: &[u8]) -> Dropped {
    let source = pair.setup.peers[0];
    let parsed = Packet::parse(packet).unwrap();
    pair.sides[1].device.receive_trimmed(pair.now, source, &parsed).unwrap_err()
}

#[test]
fn a_trimmed_message_completes_its_receive_with_its_immediate_data() {
    for (extras, lost) in [(Extras::default(), 0), (Extras::default(), 1), (Extras::default(), 2), (SPREAD, 2)] {
        let mut pair = pair(extras);
        for wr_id in 0..2 {
            pair.recv(1, wr_id, 0, 0);
        }
        pair.sides[0].fill(0, &pattern(600, 1));
        for imm in [7, 8] {
            if extras.spread {
                write(&mut pair, imm, 0, 600, imm as u16);
            } else {
                pair.post(0, imm.into(), pair.write_imm_op(1, 0, imm), 600);
            }
        }
        let packets = pair.take(0);
        for (at, packet) in packets.iter().enumerate() {
            match at {
                at if at == lost => assert_eq!(trim(&mut pair, packet), Dropped::Length),
                at if lost < at && at < 3 => assert_eq!(pair.arrive(1, packet), Err(Dropped::OutOfOrder)),
                _ => pair.arrive(1, packet).unwrap(),
            }
        }
        let expected = [(Some(7), Status::LocalQpOperation, false, true), (Some(8), Status::Success, false, false)];
        assert_eq!(received(&mut pair), expected, "packet {lost}");
        // A trimmed packet is taken once.
        trim(&mut pair, &packets[lost]);
        assert_eq!(received(&mut pair), []);
    }
    // A reliable connection has no use for it.
    let mut rc = Pair::new(Service::Rc);
    rc.post(0, 1, SendOp::Send, 100);
    let packets = rc.take(0);
    assert_eq!(trim(&mut rc, &packets[0]), Dropped::Length);
    assert_eq!(rc.sides[1].received(), []);
}

#[test]
fn requests_on_different_paths_arrive_in_any_order() {
    let mut pair = pair(SPREAD);
    pair.sides[0].fill(0, &pattern(2_000, 3));
    for wr_id in 0..4 {
        pair.recv(1, wr_id, 0, 0);
    }
    for imm in 0..3 {
        write(&mut pair, imm, 600 * u64::from(imm), 600, imm as u16);
    }
    let packets = pair.take(0);
    assert_eq!(packets.len(), 9);
    // The third message overtakes the others, whose packets alternate.
    for at in [6, 7, 8, 0, 3, 1, 4, 5, 2] {
        pair.arrive(1, &packets[at]).unwrap();
        assert_eq!(pair.arrive(1, &packets[at]), Err(Dropped::Duplicate), "packet {at}");
    }
    let order: Vec<Option<u32>> = received(&mut pair).iter().map(|completion| completion.0).collect();
    assert_eq!(order, [Some(2), Some(1), Some(0)]);
    assert_eq!(pair.sides[1].bytes(0, 1_800), &pattern(2_000, 3)[..1_800]);
    assert_eq!(pair.sides[1].dropped(Dropped::Duplicate), 9);

    // A message of which a packet is missing is lost, and the others are not.
    for imm in [4, 5] {
        write(&mut pair, imm, 0, 600, imm as u16);
    }
    let packets = pair.take(0);
    for at in [0, 3, 4, 5] {
        pair.arrive(1, &packets[at]).unwrap();
    }
    assert_eq!(pair.arrive(1, &packets[2]), Err(Dropped::OutOfOrder));
    assert_eq!(received(&mut pair), [(Some(5), Status::Success, false, false)]);
}

#[test]
fn each_request_has_the_path_of_its_entropy() {
    let mut pair = pair(SPREAD);
    for (imm, entropy) in [(0, 5), (1, 6), (2, 5)] {
        write(&mut pair, imm, 0, 600, entropy);
    }
    let mut flows = Vec::new();
    let side = &mut pair.sides[0];
    while side.device.transmit(pair.now, &mut side.batch) {
        let flow = side.batch.destination().unwrap().flow;
        let count = side.batch.datagrams_mut().count();
        flows.extend(vec![flow; count]);
    }
    assert_eq!(flows.len(), 9);
    assert!(flows[..3].iter().chain(&flows[6..]).all(|flow| *flow == flows[0]));
    assert!(flows[3..6].iter().all(|flow| *flow == flows[3] && *flow != flows[0]));
}

#[test]
fn extras_are_refused_where_they_have_no_meaning() {
    let mut pair = Setup::new(Service::Rc).unconnected();
    let side = &mut pair.sides[0];
    let why = side.device.set_extras(side.qpn, SPREAD).unwrap_err();
    assert_eq!(why.to_string(), "only an unreliable connection (UC) spreads requests over paths");
    let mut pair = Pair::new(Service::Uc);
    let (qpn, op) = (pair.sides[0].qpn, SendOp::Send);
    let device = &mut pair.sides[0].device;
    assert!(matches!(device.set_extras(qpn, SPREAD), Err(VerbsError::WrongState { .. })));
    let request = SendRequest { wr_id: 0, op, data: Data::Inline(&[1]), flags: SendFlags::SIGNALED };
    let why = device.post_spread(qpn, &request, 1).unwrap_err();
    assert_eq!(why.to_string(), "the queue pair has one path: `Extras::spread` was not set");
}

/// Whatever arrives on a queue pair with many paths, nothing is written outside a message, and nothing panics.
#[test]
fn random_packets_do_no_harm() {
    let mut pair = pair(SPREAD);
    for wr_id in 0..60 {
        pair.recv(1, wr_id, 0, 0);
    }
    for imm in 0..20 {
        write(&mut pair, imm, 0, 700, imm as u16);
    }
    let packets = pair.take(0);
    let mut word = 1_u64;
    let mut random = move || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 33) as usize
    };
    for _ in 0..5_000 {
        let mut packet = packets[random() % packets.len()].clone();
        if random() % 2 == 0 {
            // Another PSN, near or far.
            let psn = (PSN_A as usize + random() % 90).wrapping_add((random() % 3) << 15) as u32;
            packet[9..12].copy_from_slice(&psn.to_be_bytes()[1..]);
        }
        let _ = match random() % 3 {
            0 => Err(trim(&mut pair, &packet)),
            _ => pair.arrive(1, &packet),
        };
    }
    assert!(pair.sides[1].bytes(700, 1_000).iter().all(|byte| *byte == 0));
    assert!(packets.iter().all(|packet| packet.len() > ICRC_LEN));
}
