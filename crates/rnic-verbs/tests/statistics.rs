//! Statistics of single queue pairs.

use crate::common::{DELAY, PSN_A, Pair, Setup};
use rnic_transport::Time;
use rnic_verbs::{QpCounters, QpStatistics, Service, State};
use rnic_wire::Operation;

fn of(pair: &Pair, at: usize) -> QpStatistics {
    pair.sides[at].device.qp_statistics(pair.sides[at].qpn).unwrap()
}

/// A message of 600 bytes is three packets (path MTU 256), and the peer acknowledges it.
#[test]
fn packets_and_payload_are_counted_by_hand() {
    for (service, acks) in [(Service::Rc, 1), (Service::Irn, 1), (Service::Uc, 0)] {
        let mut pair = Pair::new(service);
        let op = pair.write_op(1, 0);
        pair.post(0, 1, op, 600);
        assert_eq!(of(&pair, 0).sends, 1, "{service:?}");
        pair.run();
        let (sender, receiver) = (of(&pair, 0), of(&pair, 1));
        let counters = |packets_sent, bytes_sent, packets_received, bytes_received| QpCounters {
            packets_sent,
            bytes_sent,
            packets_received,
            bytes_received,
            retransmitted: 0,
        };
        assert_eq!(sender.counters, counters(3, 600, acks, 0), "{service:?}");
        assert_eq!(receiver.counters, counters(acks, 0, 3, 600), "{service:?}");
        assert_eq!((sender.sends, sender.state, sender.service), (0, State::ReadyToSend, service));
        assert_eq!(sender.peer, Some((pair.setup.peers[1], pair.sides[1].qpn)));
    }
}

/// The second packet of three is lost: go-back-N retransmits two packets, IRN one.
#[test]
fn retransmissions_are_counted_by_hand() {
    for (service, repeated, bytes) in [(Service::Rc, 2, 600 + 256 + 88), (Service::Irn, 1, 800)] {
        let mut pair = Pair::new(service);
        pair.lose_once(|seen| seen.is(0, Operation::Write, PSN_A + 1));
        let op = pair.write_op(1, 0);
        pair.post(0, 1, op, 600);
        pair.run();
        let QpCounters { packets_sent, bytes_sent, retransmitted, .. } = of(&pair, 0).counters;
        assert_eq!((packets_sent, bytes_sent, retransmitted), (3 + repeated, bytes, repeated), "{service:?}");
    }
}

/// Each packet takes 1 us in each direction, so the round-trip time is 2 us, and with IRN each ACK yields one.
#[test]
fn the_sender_of_a_connection_has_a_window_and_a_round_trip_time() {
    for (service, give_up) in [(Service::Rc, None), (Service::Rc, Some(Time::from_ms(100))), (Service::Irn, None)] {
        let mut setup = Setup::new(service);
        setup.config.in_flight = 64;
        setup.attributes.give_up_after = give_up;
        let mut pair = setup.build();
        let idle = of(&pair, 0).sender.unwrap();
        assert_eq!((idle.window, idle.in_flight, idle.rtt), (64, 0, None), "{service:?}");
        assert_eq!(idle.rate, pair.setup.config.line_rate);
        for wr_id in 0..20 {
            let op = pair.write_op(1, 0);
            pair.post(0, wr_id, op, 256);
            pair.run();
        }
        assert_eq!(of(&pair, 0).sender.unwrap().rtt, Some(DELAY * 2), "{service:?}");
        assert_eq!(of(&pair, 1).sender.unwrap().rtt, None, "it has sent no request");
    }
    assert_eq!(of(&Pair::new(Service::Uc), 0).sender, None);
}

#[test]
fn counters_stay_when_a_queue_pair_is_reset() {
    let mut pair = Pair::new(Service::Rc);
    let op = pair.write_op(1, 0);
    pair.post(0, 1, op, 600);
    pair.run();
    let before = of(&pair, 0).counters;
    let side = &mut pair.sides[0];
    side.device.to_reset(side.qpn).unwrap();
    let after = of(&pair, 0);
    assert_eq!((after.counters, after.state, after.peer, after.sender), (before, State::Reset, None, None));
}

/// Readers that ask for a few slots at a time find each queue pair once, also if some were destroyed.
#[test]
fn queue_pairs_are_listed_in_parts() {
    let mut pair = Pair::new(Service::Rc);
    let side = &mut pair.sides[0];
    let init = rnic_verbs::QpInit {
        service: Service::Ud,
        send_cq: side.send_cq,
        recv_cq: side.recv_cq,
        srq: None,
        capacities: rnic_verbs::Capacities::default(),
        signal_all: false,
    };
    let mut expected: Vec<_> = (0..10).map(|_| side.device.create_qp(side.pd, init.clone()).unwrap()).collect();
    for at in [7, 3, 0] {
        side.device.destroy_qp(expected.remove(at)).unwrap();
    }
    expected.push(side.qpn);
    expected.sort_unstable();
    for max in [1, 3, 100, usize::MAX] {
        let (mut found, mut next) = (Vec::new(), Some(0));
        while let Some(first) = next {
            next = side.device.statistics_from(first, max, &mut found);
        }
        let mut qpns: Vec<_> = found.iter().map(|qp| qp.qpn).collect();
        qpns.sort_unstable();
        assert_eq!(qpns, expected, "{max}");
    }
    let mut found = Vec::new();
    assert_eq!(side.device.statistics_from(usize::MAX, 1, &mut found), None);
    assert!(found.is_empty());
}
