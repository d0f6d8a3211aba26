//! The clock of a device has no end: its origin moves, and no connection notices.

use crate::common::{Fate, Pair, REGION, Setup};
use rnic_transport::Time;
use rnic_verbs::{Congestion, SendOp, Service, State, Status};

const MS: fn(u64) -> Time = Time::from_ms;
/// One second before the time at which an endpoint moves the origin.
const LATE: Time = Time::from_ns((3 << 51) - 1_000_000_000);

/// A pair whose clock reads `start`.
fn pair_at(start: Time, setup: Setup) -> Pair {
    let mut pair = setup.unconnected();
    pair.now = start;
    pair.connect(0);
    pair.connect(1);
    pair.drain();
    pair
}

/// Runs a pair whose clock reads `start`, with losses, waits for receives, reads, probes and a failure at the end.
/// Calls `each` every millisecond, with the number of milliseconds since the start. Returns the trace, and for each
/// completion its identifier, status and time since the start.
fn run(service: Service, start: Time, mut each: impl FnMut(&mut Pair, u64)) -> (Vec<String>, Vec<(u64, Status, Time)>) {
    let mut setup = Setup::new(service);
    setup.attributes.rnr_retry = 7;
    setup.min_rnr_timer = 24; // 40.96 ms
    (setup.attributes.give_up_after, setup.attributes.keep_alive) = (Some(MS(30)), Some(MS(20)));
    let mut pair = pair_at(start, setup);
    // Every seventh packet is lost, until nothing arrives at all.
    let (mut number, mut left) = (0_u64, 400_u64);
    pair.script(move |_| {
        number += 1;
        left = left.saturating_sub(1);
        if number % 7 == 0 || left == 0 { Fate::Lost } else { Fate::Arrives }
    });
    let mut done = Vec::new();
    for ms in 0..2_000 {
        if pair.sides[0].device.state(pair.sides[0].qpn) == Ok(State::ReadyToSend) {
            match ms % 100 {
                0 => pair.post(0, ms, pair.write_op(1, 0), 3_000),
                3 => pair.post(0, ms, SendOp::Send, 700),
                20 => pair.recv(1, ms, 0, REGION as u32),
                60 => pair.post(0, ms, pair.read_op(1, 0), 2_000),
                _ => {}
            }
        }
        pair.run_for(MS(1));
        each(&mut pair, ms);
        let cq = pair.sides[0].send_cq;
        done.extend(pair.sides[0].poll(cq).iter().map(|one| (one.wr_id, one.status, MS(ms))));
    }
    assert_eq!(pair.sides[0].device.state(pair.sides[0].qpn), Ok(State::Error), "the failure was noticed");
    (pair.trace, done)
}

#[test]
fn connections_do_not_notice_that_the_origin_of_time_moves() {
    for service in [Service::Rc, Service::Irn] {
        let (trace, done) = run(service, Time::from_us(10), |_, _| {});
        assert!(done.iter().filter(|(_, status, _)| *status == Status::Success).count() > 10, "{service:?} {done:?}");
        let waits = trace.iter().filter(|line| line.contains("RNR NAK")).count();
        assert!(waits > 2 && trace.len() > 300, "{service:?} {waits} {}", trace.len());
        // At any millisecond: while packets are in flight, while timers run, and while a requester waits.
        for at in (0..500).step_by(7) {
            let moved = run(service, LATE, |pair, ms| {
                if ms == at {
                    pair.rebase();
                }
            });
            assert!(moved == (trace.clone(), done.clone()), "{service:?}: moved after {at} ms");
        }
    }
}

#[test]
fn a_paced_connection_goes_on_after_the_origin_moves() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        let mut setup = Setup::new(service);
        setup.config.congestion = Congestion::named("dcqcn").unwrap();
        if service == Service::Uc {
            setup.attributes = rnic_verbs::SendAttributes::default();
        }
        let mut pair = pair_at(LATE, setup);
        pair.marks = true;
        let mut cnps = 0;
        for round in 0..50 {
            pair.recv(1, round, 0, REGION as u32);
            pair.post(0, round, pair.write_imm_op(1, 0, 7), 20_000);
            pair.run_for(Time::from_us(100));
            if round == 20 {
                cnps = pair.sides[0].device.counters().cnps_received;
                // In the middle of a message, with packets that wait for their time.
                pair.rebase();
            }
            pair.run_for(MS(50));
        }
        assert_eq!(pair.sides[0].sent().len(), 50, "{service:?}");
        assert_eq!(pair.sides[1].received().len(), 50, "{service:?}");
        let after = pair.sides[0].device.counters().cnps_received - cnps;
        assert!(cnps > 0 && after > 0, "{service:?}: {cnps} CNPs before and {after} after");
    }
}
