//! When a queue pair gives up a peer that does not respond, and how an idle one notices that its peer is dead. All
//! times are computed by hand: the clock is virtual, and timers fire exactly when they are due.

use crate::common::{DELAY, Fate, Pair, Setup};
use rnic_transport::{Time, Timeouts};
use rnic_verbs::{Access, Event, SendAttributes, SendOp, Service, State, Status, VerbsError};
use std::cell::Cell;
use std::rc::Rc;

const RELIABLE: [Service; 2] = [Service::Rc, Service::Irn];
const MS: fn(u64) -> Time = Time::from_ms;

/// A link that loses everything while the returned flag is set.
fn with_partitions(pair: &mut Pair) -> Rc<Cell<bool>> {
    let cut = Rc::new(Cell::new(false));
    let flag = cut.clone();
    pair.script(move |_| if flag.get() { Fate::Lost } else { Fate::Arrives });
    cut
}

fn setup(service: Service, change: impl FnOnce(&mut SendAttributes)) -> Setup {
    let mut setup = Setup::new(service);
    change(&mut setup.attributes);
    setup
}

/// The status of each completed send request of side A, and the time of its completion.
fn outcomes(pair: &mut Pair) -> Vec<(Status, Time)> {
    let cq = pair.sides[0].send_cq;
    pair.sides[0].poll(cq).iter().map(|completion| (completion.status, completion.time)).collect()
}

/// The timers of the endpoint: 20 ms before the first measurement, doubled by each timeout; RC up to its ACK timeout of
/// 4.096 us x 2^14 = 67.108864 ms, IRN up to 64 x 20 ms = 1.28 s.
fn of_endpoint(service: Service) -> Setup {
    let mut setup = setup(service, |attributes| (attributes.timeout, attributes.give_up_after) = (14, Some(MS(5_000))));
    setup.config.timeouts = Timeouts { high: MS(20), low: MS(5), low_packets: 3, dynamic: Some(Time::from_us(500)) };
    setup
}

#[test]
fn a_partition_is_survived_if_a_retransmission_arrives_in_time() {
    // IRN retransmits 20, 60, 140, 300, 620, 1260, 2540 and 3820 ms after the first transmission, and would again after
    // 5100 ms. RC retransmits 20 ms and 60 ms after the first transmission, and then every 67.1 ms, for the last time
    // after 60 + 73 x 67.108864 = 4958.95 ms.
    for (service, survived, died) in [(Service::Irn, 3_819, 3_821), (Service::Rc, 4_958, 4_959)] {
        for (partition, status) in [(survived, Status::Success), (died, Status::TransportRetryExceeded)] {
            let mut pair = of_endpoint(service).build();
            let cut = with_partitions(&mut pair);
            cut.set(true);
            let start = pair.now;
            pair.post(0, 1, pair.write_op(1, 0), 10);
            pair.run_for(MS(partition));
            cut.set(false);
            pair.run();
            let [(found, at)] = outcomes(&mut pair)[..] else { panic!("{service:?} {partition}") };
            assert_eq!(found, status, "{service:?} after {partition} ms");
            if status == Status::Success {
                assert!(at < start + MS(5_000), "{service:?} {at}");
            } else {
                assert_eq!(at, start + MS(5_000), "{service:?}: exactly `give_up_after` after the transmission");
                let event = Event::QueuePairError(pair.sides[0].qpn, Status::TransportRetryExceeded);
                assert_eq!(pair.sides[0].events().last(), Some(&event));
            }
        }
    }
}

#[test]
fn the_time_counts_from_the_last_response_and_for_requests_only() {
    for service in RELIABLE {
        let mut pair = setup(service, |attributes| attributes.give_up_after = Some(MS(50))).build();
        let cut = with_partitions(&mut pair);
        // An idle queue pair gives up nothing.
        pair.run_for(MS(500));
        for wr_id in 0..3 {
            pair.post(0, wr_id, pair.write_op(1, 0), 10);
            pair.run_for(MS(40));
        }
        assert_eq!(outcomes(&mut pair).len(), 3, "{service:?}");
        // Two requests are outstanding when the link fails: the ACK of the first one arrives before.
        pair.post(0, 4, pair.write_op(1, 0), 10);
        pair.run_for(DELAY);
        pair.run_for(DELAY);
        let acknowledged = pair.now;
        cut.set(true);
        pair.run_for(MS(30));
        let begun = pair.now;
        pair.post(0, 5, pair.write_op(1, 0), 10);
        pair.run_for(MS(30));
        pair.post(0, 6, pair.write_op(1, 0), 10);
        pair.run();
        let expected = [
            (Status::Success, acknowledged),
            (Status::TransportRetryExceeded, begun + MS(50)),
            (Status::WorkRequestFlushed, begun + MS(50)),
        ];
        assert_eq!(outcomes(&mut pair), expected, "{service:?}");
    }
}

#[test]
fn without_the_time_the_retries_count() {
    for service in RELIABLE {
        let mut pair = setup(service, |attributes| attributes.give_up_after = None).build();
        with_partitions(&mut pair).set(true);
        let start = pair.now;
        pair.post(0, 1, pair.write_op(1, 0), 10);
        pair.run();
        // Four timeouts: three retries, and the end. RC's timeout is 4.096 us x 2^8, IRN's 1 ms.
        let timeout = if service == Service::Rc { Time::from_ns(1_048_576) } else { MS(1) };
        assert_eq!(outcomes(&mut pair), [(Status::TransportRetryExceeded, start + timeout * 4)], "{service:?}");
    }
}

#[test]
fn a_responder_gives_up_a_requester_that_does_not_acknowledge_responses() {
    let mut pair = setup(Service::Irn, |attributes| attributes.give_up_after = Some(MS(50))).build();
    let cut = with_partitions(&mut pair);
    pair.post(0, 1, pair.read_op(1, 0), 100);
    // The request arrives; the response and everything after it is lost.
    pair.drain();
    cut.set(true);
    let answered = pair.now + DELAY;
    pair.run_for(MS(49));
    assert_eq!(pair.sides[1].device.state(pair.sides[1].qpn), Ok(State::ReadyToSend));
    pair.run_for(answered + MS(50) - pair.now);
    assert_eq!(pair.sides[1].device.state(pair.sides[1].qpn), Ok(State::Error));
}

#[test]
fn waiting_for_a_receive_is_no_silence() {
    for service in RELIABLE {
        let mut setup = setup(service, |attributes| attributes.give_up_after = Some(MS(50)));
        setup.min_rnr_timer = 0; // 655.36 ms
        setup.attributes.rnr_retry = 7;
        let mut pair = setup.build();
        pair.post(0, 1, SendOp::Send, 10);
        pair.run_for(MS(2_000));
        pair.recv(1, 7, 0, 10);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)], "{service:?}");
    }
}

#[test]
fn probes_of_an_idle_queue_pair_are_acknowledged_and_change_nothing() {
    for service in RELIABLE {
        let change = |attributes: &mut SendAttributes| {
            (attributes.give_up_after, attributes.keep_alive) = (Some(MS(40)), Some(MS(100)));
        };
        let mut setup = setup(service, change);
        setup.access = Access::LOCAL_READ;
        let mut pair = setup.build();
        pair.run_for(MS(1_050));
        // Each probe and its ACK take 2 us, so in 1.05 s there are 10 probes of each side, and 20 ACKs.
        let count = |pair: &Pair, what: &str| pair.trace.iter().filter(|line| line.contains(what)).count();
        assert_eq!([count(&pair, "WRITE Only"), count(&pair, "ACK")], [20, 20], "{service:?}: {:#?}", pair.trace);
        // The queue pairs still work, with the same PSNs, and the traffic takes the place of probes.
        pair.trace.clear();
        for round in 0..40 {
            pair.recv(1, round, 0, 10);
            pair.post(0, round, SendOp::Send, 10);
            pair.run_for(MS(30));
        }
        assert_eq!(pair.sides[0].sent().len(), 40);
        assert_eq!(pair.sides[1].received().len(), 40);
        let of_a = pair.trace.iter().filter(|line| line.starts_with("A") && line.contains("WRITE Only")).count();
        assert_eq!(of_a, 0, "{service:?}: {:#?}", pair.trace);
        assert_eq!([pair.sides[0].events(), pair.sides[1].events()].map(|events| events.len()), [0, 0]);
        assert_eq!(pair.sides[0].device.counters().retransmitted, 0);
    }
}

#[test]
fn an_idle_queue_pair_notices_a_dead_peer_in_time() {
    for service in RELIABLE {
        let change = |attributes: &mut SendAttributes| {
            (attributes.give_up_after, attributes.keep_alive) = (Some(MS(40)), Some(MS(100)));
        };
        let mut pair = setup(service, change).build();
        let cut = with_partitions(&mut pair);
        pair.post(0, 1, pair.write_op(1, 0), 10);
        pair.run_for(MS(1));
        let [(Status::Success, last)] = outcomes(&mut pair)[..] else { panic!("{service:?}") };
        // Probes are due 100, 105, ..., 135 ms after the last response. All but the last one are lost.
        pair.run_for(last + MS(99) - pair.now);
        cut.set(true);
        pair.run_for(MS(35));
        cut.set(false);
        pair.run_for(MS(10));
        assert_eq!(pair.sides[0].device.state(pair.sides[0].qpn), Ok(State::ReadyToSend), "{service:?}");
        cut.set(true);
        pair.run();
        let event = Event::QueuePairError(pair.sides[0].qpn, Status::TransportRetryExceeded);
        assert_eq!(pair.sides[0].events(), [event], "{service:?}");
    }
}

#[test]
fn the_time_until_a_dead_peer_is_noticed() {
    for service in RELIABLE {
        for give_up_after in [Some(MS(40)), None] {
            let change = |attributes: &mut SendAttributes| {
                (attributes.give_up_after, attributes.keep_alive) = (give_up_after, Some(MS(100)));
            };
            let mut pair = setup(service, change).build();
            let start = pair.now;
            with_partitions(&mut pair).set(true);
            // Without the time, there are three repetitions of the probe (`retry_count`), and the end after the fourth
            // timeout. RC's timeout is 4.096 us x 2^8, IRN's 1 ms.
            let timeout = if service == Service::Rc { Time::from_ns(1_048_576) } else { MS(1) };
            let end = start + MS(100) + give_up_after.unwrap_or(timeout * 4);
            pair.run_for(end - start - Time::from_ps(1));
            assert_eq!(pair.sides[0].device.state(pair.sides[0].qpn), Ok(State::ReadyToSend), "{service:?}");
            pair.run_for(Time::from_ps(1));
            assert_eq!(pair.sides[0].device.state(pair.sides[0].qpn), Ok(State::Error), "{service:?}");
            let probes = pair.departures.iter().filter(|(from, _)| *from == 0).count();
            assert_eq!(probes, if give_up_after.is_some() { 8 } else { 4 }, "{service:?}");
        }
    }
}

#[test]
fn settings_without_effect_or_out_of_range_are_refused() {
    let refusal = |service, change: fn(&mut SendAttributes)| {
        let mut pair = Setup::new(service).unconnected();
        pair.listen(0);
        let mut attributes = pair.attributes(0);
        change(&mut attributes);
        let (now, qpn) = (pair.now, pair.sides[0].qpn);
        pair.sides[0].device.to_rts(qpn, attributes, now).unwrap_err()
    };
    for service in RELIABLE {
        for change in [
            (|attributes| attributes.give_up_after = Some(Time::from_us(999))) as fn(&mut SendAttributes),
            |attributes| attributes.give_up_after = Some(MS(86_400_001)),
            |attributes| attributes.keep_alive = Some(Time::ZERO),
            |attributes| attributes.keep_alive = Some(Time::MAX),
        ] {
            assert!(matches!(refusal(service, change), VerbsError::Range { .. }));
        }
    }
    let unsupported = |error| matches!(error, VerbsError::Unsupported(_));
    assert!(unsupported(refusal(Service::Uc, |attributes| attributes.give_up_after = Some(MS(5)))));
    assert!(unsupported(refusal(Service::Uc, |attributes| attributes.keep_alive = Some(MS(5)))));
    let endless = |attributes: &mut SendAttributes| (attributes.timeout, attributes.keep_alive) = (0, Some(MS(5)));
    assert!(unsupported(refusal(Service::Rc, endless)));
}

/// With measured round-trip times of 2 us, a lost packet is retransmitted after 2 ms, the minimum, and not after the
/// ACK timeout of 67 ms. Each timeout doubles the time, up to the ACK timeout, and sends one packet. When the peer
/// responds, the others follow.
#[test]
fn a_lost_packet_is_retransmitted_after_a_few_round_trips() {
    let mut pair = of_endpoint(Service::Rc).build();
    for wr_id in 0..20 {
        pair.post(0, wr_id, pair.write_op(1, 0), 10);
        pair.run();
    }
    outcomes(&mut pair);
    let cut = with_partitions(&mut pair);
    cut.set(true);
    let (start, first) = (pair.now, pair.departures.len());
    // Four packets.
    pair.post(0, 20, pair.write_op(1, 0), 1_000);
    pair.run_for(MS(200));
    let sent = &pair.departures[first..];
    let after: Vec<u64> = sent.iter().map(|(_, at)| (*at - start).as_ps() / 1_000_000_000).collect();
    assert_eq!(after, [0, 0, 0, 0, 2, 6, 14, 30, 62, 126, 193]);
    cut.set(false);
    pair.run();
    let [(status, at)] = outcomes(&mut pair)[..] else { panic!("one request") };
    assert!(status == Status::Success && at < start + MS(261), "{at}");
    // An undisturbed message ends the doubling. Then one timeout of 2 ms suffices for a lost packet.
    pair.post(0, 21, pair.write_op(1, 0), 10);
    pair.run();
    outcomes(&mut pair);
    let mut lost = false;
    pair.script(move |seen| {
        let lose = !lost && seen.from == 0;
        lost |= lose;
        if lose { Fate::Lost } else { Fate::Arrives }
    });
    let start = pair.now;
    pair.post(0, 22, pair.write_op(1, 0), 10);
    pair.run();
    let [(status, at)] = outcomes(&mut pair)[..] else { panic!("one request") };
    assert!(status == Status::Success && at < start + MS(3), "{}", at - start);
}

/// A program that counts retries gets its ACK timeout, so that it does not fail earlier than it asks for.
#[test]
fn retries_are_counted_with_the_ack_timeout() {
    let mut pair = setup(Service::Rc, |attributes| (attributes.timeout, attributes.retry_count) = (14, 1)).build();
    for wr_id in 0..20 {
        pair.post(0, wr_id, pair.write_op(1, 0), 10);
        pair.run();
    }
    outcomes(&mut pair);
    let cut = with_partitions(&mut pair);
    cut.set(true);
    let start = pair.now;
    pair.post(0, 20, pair.write_op(1, 0), 10);
    pair.run();
    let [(status, at)] = outcomes(&mut pair)[..] else { panic!("one request") };
    assert_eq!((status, (at - start).as_ps() / 1_000_000), (Status::TransportRetryExceeded, 134_217));
}
