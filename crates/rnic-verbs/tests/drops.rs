//! Tests of packets that a queue pair does not accept. The device drops such a packet and counts it under its reason,
//! and the packet has no other effect.

use crate::common::{PSN_A, Pair, address, bytes_of};
use rnic_transport::Time;
use rnic_verbs::{Dropped, Service};
use rnic_wire::{Aeth, Bth, Deth, Headers, Opcode, ReadEth, RecvEth, Reth, SackEth, SendEth, Syndrome};

/// Headers of a packet with this opcode from A to B, with all extension headers of the opcode.
fn packet(pair: &Pair, opcode: Opcode, psn: u32, len: usize) -> Headers {
    let (va, rkey) = pair.target(1);
    let mut headers = pair.headers(1, opcode, psn);
    headers.deth = (opcode.service() == rnic_wire::Service::Ud).then_some(Deth::default());
    let irn = opcode.service() == rnic_wire::Service::Irn;
    let operation = opcode.operation();
    use rnic_wire::Operation as O;
    match operation {
        O::Send if irn => headers.send = Some(SendEth::default()),
        O::Write if irn || opcode.starts_message() => headers.reth = Some(Reth { va, rkey, dma_len: len as u32 }),
        O::ReadRequest => headers.reth = Some(Reth { va, rkey, dma_len: len as u32 }),
        O::CompareSwap | O::FetchAdd => headers.atomic = Some(rnic_wire::AtomicEth { va, rkey, ..Default::default() }),
        O::Acknowledge | O::ReadAcknowledge => headers.aeth = Some(Aeth { syndrome: Syndrome::ACK, msn: 0 }),
        O::ReadResponse if irn || !opcode.is_middle() => headers.aeth = Some(Aeth { syndrome: Syndrome::ACK, msn: 0 }),
        O::AtomicAcknowledge => {
            headers.aeth = Some(Aeth { syndrome: Syndrome::ACK, msn: 0 });
            headers.atomic_ack = Some(Default::default());
        }
        _ => {}
    }
    if opcode.has_imm() {
        headers.imm = Some(Default::default());
        headers.recv = (irn && operation == O::Write).then_some(RecvEth::default());
    }
    if opcode.has_invalidate() {
        headers.ieth = Some(Default::default());
    }
    if irn {
        headers.read = matches!(operation, O::ReadRequest | O::CompareSwap | O::FetchAdd).then_some(ReadEth::default());
        headers.sack = matches!(operation, O::Acknowledge | O::ReadAcknowledge).then_some(SackEth::default());
    }
    assert!(headers.are_complete(), "{opcode}");
    headers
}

#[track_caller]
fn dropped(pair: &mut Pair, why: Dropped, bytes: &[u8]) {
    let before = pair.sides[1].device.counters().clone();
    assert_eq!(pair.arrive(1, bytes), Err(why));
    let mut expected = before;
    expected.packets_received += 1;
    expected.dropped[why as usize] += 1;
    assert_eq!(pair.sides[1].device.counters(), &expected);
    assert_eq!(pair.sides[1].device.next_time(&pair.sides[1].batch), None, "it has something to do");
}

#[test]
fn packets_for_nobody() {
    for (service, only) in [
        (Service::Rc, Opcode::RC_WRITE_ONLY),
        (Service::Irn, Opcode::IRN_WRITE_ONLY),
        (Service::Uc, Opcode::UC_WRITE_ONLY),
    ] {
        let mut pair = Pair::new(service);
        let good = packet(&pair, only, PSN_A, 8);
        let bytes = |change: fn(&mut Bth)| {
            let mut headers = good;
            change(&mut headers.bth);
            bytes_of(headers, &[1; 8])
        };
        dropped(&mut pair, Dropped::UnknownQp, &bytes(|bth| bth.dest_qp ^= 1));
        dropped(&mut pair, Dropped::UnknownQp, &bytes(|bth| bth.dest_qp ^= 0x10_0000));
        dropped(&mut pair, Dropped::UnknownQp, &bytes(|bth| bth.dest_qp = 0));
        dropped(&mut pair, Dropped::Partition, &bytes(|bth| bth.pkey = 0x7ffe));
        dropped(&mut pair, Dropped::Partition, &bytes(|bth| bth.pkey = 0));
        dropped(&mut pair, Dropped::Malformed, &bytes(|bth| bth.pad = 1)[..27]);
        dropped(&mut pair, Dropped::Malformed, &[]);
        dropped(&mut pair, Dropped::Malformed, &[0xff; 64]);
        let source = address("10.0.0.3:4791");
        let result = pair.sides[1].device.receive(pair.now, source, false, &bytes(|_| {}));
        assert_eq!(result, Err(Dropped::WrongPeer));
        assert_eq!(pair.sides[1].bytes(0, 64), [0; 64]);
        // The partition key of a limited member of the default partition is accepted.
        assert_eq!(pair.arrive(1, &bytes(|bth| bth.pkey = 0x7fff)), Ok(()));
        assert_eq!(pair.sides[1].bytes(0, 8), [1; 8]);
    }
}

#[test]
fn opcodes_of_other_services() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        for opcode in Opcode::ALL.iter().copied() {
            let own = match service {
                Service::Rc => rnic_wire::Service::Rc,
                Service::Irn => rnic_wire::Service::Irn,
                Service::Uc => rnic_wire::Service::Uc,
                Service::Ud => rnic_wire::Service::Ud,
            };
            // A queue pair of RC answers Offers of IRN.
            let is_offer = service == Service::Rc && opcode == Opcode::IRN_OFFER;
            if opcode.service() == own || opcode == Opcode::CNP || is_offer {
                continue;
            }
            let mut pair = Pair::new(service);
            let len = match opcode.payload_rule() {
                rnic_wire::PayloadRule::Empty => 0,
                _ => 256,
            };
            let bytes = bytes_of(packet(&pair, opcode, PSN_A, len), &[1; 256][..len]);
            dropped(&mut pair, Dropped::Opcode, &bytes);
        }
    }
}

#[test]
fn payloads_that_do_not_fit_the_mtu() {
    for (service, first, middle, last, only) in [
        (Service::Rc, Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST, Opcode::RC_SEND_ONLY),
        (Service::Irn, Opcode::IRN_SEND_FIRST, Opcode::IRN_SEND_MIDDLE, Opcode::IRN_SEND_LAST, Opcode::IRN_SEND_ONLY),
        (Service::Uc, Opcode::UC_SEND_FIRST, Opcode::UC_SEND_MIDDLE, Opcode::UC_SEND_LAST, Opcode::UC_SEND_ONLY),
    ] {
        let long = [(first, 260), (middle, 512), (last, 257), (only, 1_024)];
        // The first and middle packets of IRN may be shorter than the path MTU.
        let short = if service == Service::Irn { &[][..] } else { &[(first, 252), (middle, 4)] };
        for (opcode, len) in long.iter().chain(short).copied() {
            let mut pair = Pair::new(service);
            pair.recv(1, 1, 0, 1_000);
            // Behind the expected packet, the packet is dropped. UC has lost the packets before it.
            if service != Service::Uc {
                let early = bytes_of(packet(&pair, opcode, PSN_A + 1, len), &[1; 1_024][..len]);
                dropped(&mut pair, Dropped::Length, &early);
            }
            let bytes = bytes_of(packet(&pair, opcode, PSN_A, len), &[1; 1_024][..len]);
            refused(&mut pair, Dropped::Length, &bytes);
        }
    }
}

/// A packet with a reserved opcode in the range of the queue pair's own service is an invalid request.
#[test]
fn reserved_opcodes_of_the_own_service() {
    for (service, reserved, other) in [(Service::Rc, 0x1f, 0x3f), (Service::Irn, 0xdf, 0x1f), (Service::Uc, 0x3f, 0x1f)]
    {
        let mut pair = Pair::new(service);
        let mut bytes = bytes_of(pair.headers(1, Opcode::CNP, PSN_A), &[0; 16]);
        bytes[0] = other;
        dropped(&mut pair, Dropped::Malformed, &bytes);
        bytes[0] = reserved;
        refused(&mut pair, Dropped::Opcode, &bytes);
    }
}

/// Checks that side 1 drops a packet which is the next request that it expects. RC and IRN send NAK Invalid Request and
/// end the connection.
fn refused(pair: &mut Pair, why: Dropped, bytes: &[u8]) {
    assert_eq!(pair.arrive(1, bytes), Err(why));
    pair.drain();
    let service = pair.sides[1].device.query_qp(pair.sides[1].qpn).unwrap().service;
    let naks = pair.trace.iter().filter(|line| line.contains("NAK invalid request #")).count();
    assert_eq!(naks, usize::from(service != Service::Uc), "{service:?} {:?}", pair.trace);
    assert_eq!(pair.sides[1].device.counters().queue_pair_errors, naks as u64);
}

#[test]
fn a_notification_is_for_every_service() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        let mut pair = Pair::new(service);
        let bytes = bytes_of(pair.headers(0, Opcode::CNP, 0), &[0; 16]);
        // A CNP is the peer's response to a packet, so one for a queue pair that sent nothing is forged.
        assert_eq!(pair.arrive(0, &bytes), Err(Dropped::Stale));
        pair.post(0, 1, pair.write_op(1, 0), 8);
        pair.run();
        pair.now = rnic_transport::Time::from_ms(100);
        assert_eq!(pair.arrive(0, &bytes), Ok(()));
        pair.now = rnic_transport::Time::from_ms(101);
        assert_eq!(pair.arrive(0, &bytes), Err(Dropped::Stale));
        assert_eq!(pair.sides[0].device.counters().cnps_received, 1);
    }
}

#[test]
fn marks_earn_notifications_at_their_distance() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        let mut setup = crate::common::Setup::new(service);
        setup.config.congestion = rnic_verbs::Congestion::named("dcqcn").unwrap();
        let mut pair = setup.build();
        pair.marks = true;
        pair.recv(1, 1, 0, 20_000);
        pair.post(0, 1, rnic_verbs::SendOp::Send, 20_000);
        pair.run();
        // The minimum interval between two CNPs is 50 us. The first marked packet triggers a CNP immediately; the other
        // packets arrive within the interval, so no second CNP is sent.
        assert_eq!(pair.sides[1].device.counters().cnps_sent, 1, "{service:?}");
        assert_eq!(pair.sides[0].device.counters().cnps_received, 1);
        assert_eq!(pair.sides[1].device.counters().marked, 79);
    }
}

/// The minimum time between CNPs of the device (200 us) applies to all queue pairs: it delays the second CNP, for which
/// the interval of the queue pair (50 us) has passed.
#[test]
fn cnps_of_a_device_have_a_minimum_distance_too() {
    use rnic_transport::congestion::{CongestionControl, Dcqcn, Settings, Value};
    let cnps = |nic_interval: u64| {
        let mut settings = Settings::new(Dcqcn::PARAMETERS);
        settings.set("nic_cnp_interval", Value::Time(Time::from_us(nic_interval))).unwrap();
        let mut setup = crate::common::Setup::new(Service::Rc);
        setup.config.congestion = rnic_verbs::Congestion::of::<Dcqcn>(settings);
        let mut pair = setup.build();
        pair.marks = true;
        let mut sent = Vec::new();
        for round in 0..5 {
            pair.post(0, round, pair.write_op(1, 0), 8);
            pair.run_for(Time::from_us(60));
            sent.push(pair.sides[1].device.counters().cnps_sent);
        }
        sent
    };
    // The packets arrive 60 us apart.
    assert_eq!(cnps(0), [1, 2, 3, 4, 5]);
    assert_eq!(cnps(200), [1, 1, 1, 1, 2]);
}

/// The first CNP halves DCQCN's rate, because alpha is 1 initially: from 1 Gbps to 0.5 Gbps, or 16 ns per byte. A
/// packet with 256 bytes of payload has 12 + 256 + 4 bytes, 16 more with a RETH, and 46 bytes around it. DCQCN raises
/// the rate again only 55 us later.
#[test]
fn a_notification_slows_down_what_follows() {
    // `reths` is the number of packets with a RETH among the first nine: one with RC and UC, all with IRN.
    let ten_packets = |reths: u64| Time::from_ns(16 * (9 * (12 + 256 + 4 + 46) + 16 * reths));
    for (service, reths) in [(Service::Rc, 1), (Service::Irn, 9), (Service::Uc, 1)] {
        let mut setup = crate::common::Setup::new(service);
        setup.config.congestion = rnic_verbs::Congestion::named("dcqcn").unwrap();
        setup.config.line_rate = rnic_transport::BitRate::from_gbps(1);
        let mut pair = setup.build();
        let write = pair.write_op(1, 0);
        let mut spans = Vec::new();
        for marks in [false, true, false] {
            pair.marks = marks;
            let (posted, lines) = (pair.now, pair.trace.len());
            pair.post(0, 1, write, 2_560);
            pair.run_for(Time::from_us(50));
            let last = pair.departures[lines..].iter().filter(|(from, _)| *from == 0).map(|(_, at)| *at).max();
            spans.push(last.unwrap() - posted);
        }
        // At line rate the sender does not pace packets, so all leave at once. The CNP for the second message arrives
        // after its last packet has left, so only the third message is paced.
        assert_eq!(spans, [Time::ZERO, Time::ZERO, ten_packets(reths)], "{service:?}");
    }
}

/// Forged CNPs slow a queue pair down no more than CNPs of the peer at their usual rate, one in 50 us.
#[test]
fn a_flood_of_notifications_counts_as_one_each_interval() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        let last_departure = |floods: u64| {
            let mut setup = crate::common::Setup::new(service);
            setup.config.congestion = rnic_verbs::Congestion::named("dcqcn").unwrap();
            setup.config.line_rate = rnic_transport::BitRate::from_gbps(1);
            let mut pair = setup.build();
            pair.post(0, 1, pair.write_op(1, 0), 8);
            pair.run_for(Time::from_us(5));
            let bytes = bytes_of(pair.headers(0, Opcode::CNP, 0), &[0; 16]);
            for _ in 0..floods {
                assert_eq!(pair.arrive(0, &bytes), Ok(()));
            }
            assert_eq!(pair.sides[0].device.counters().cnps_received, floods);
            let posted = pair.now;
            pair.post(0, 2, pair.write_op(1, 0), 2_560);
            pair.run_for(Time::from_us(50));
            *pair.departures.iter().filter(|(from, _)| *from == 0).map(|(_, at)| at).max().unwrap() - posted
        };
        let [none, one, many] = [0, 1, 1_000].map(last_departure);
        assert!(none < one && one == many, "{service:?} {none} {one} {many}");
    }
}

#[test]
fn every_reason_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<&str> = Dropped::ALL.iter().map(|why| why.label()).collect();
    assert_eq!(names.len(), Dropped::ALL.len());
    for (at, why) in Dropped::ALL.into_iter().enumerate() {
        assert_eq!(why as usize, at);
    }
}
