//! The agreement on IRN between two ends that may have it, and with ends that have not.

use crate::common::{Fate, PSN_A, PSN_B, Pair, Setup, bytes_of};
use rnic_transport::Time;
use rnic_verbs::{Dropped, Extras, SendOp, Service, Status};
use rnic_wire::{Opcode, Operation, Reth};

const OFFER: Extras = Extras { ecn: false, spread: false, offer_irn: true };

/// A pair whose sides offer IRN or not. Both are in RTS, and nothing was sent.
fn pair(offers: [bool; 2]) -> Pair {
    let mut pair = unconnected(offers);
    pair.connect(0);
    pair.connect(1);
    pair
}

fn unconnected(offers: [bool; 2]) -> Pair {
    let mut pair = Setup::new(Service::Rc).unconnected();
    for (side, _) in pair.sides.iter_mut().zip(offers).filter(|(_, offers)| *offers) {
        side.device.set_extras(side.qpn, OFFER).unwrap();
    }
    pair
}

fn services(pair: &Pair) -> [Service; 2] {
    [0, 1].map(|at| pair.sides[at].device.query_qp(pair.sides[at].qpn).unwrap().service)
}

/// Sends a message from each side, and checks that both arrive.
#[track_caller]
fn talk(pair: &mut Pair) {
    for at in 0..2 {
        pair.recv(at, 7, 1_000, 2_000);
        pair.sides[at].fill(5_000, &[at as u8 + 1; 700]);
        pair.post_with(at, 1, SendOp::Send, 5_000, 700, rnic_verbs::SendFlags::SIGNALED);
    }
    pair.run();
    for at in 0..2 {
        assert_eq!(pair.sides[at].sent(), [(1, Status::Success)], "{}", pair.trace.join("\n"));
        assert_eq!(pair.sides[at].received(), [(7, Status::Success, 700)]);
        assert_eq!(pair.sides[at].bytes(1_000, 700), [2 - at as u8; 700]);
    }
}

#[test]
fn two_ends_that_have_irn_use_it() {
    let mut pair = pair([true, true]);
    pair.post(0, 1, pair.write_op(1, 0), 300);
    pair.run();
    assert_eq!(services(&pair), [Service::Irn; 2]);
    // Both offer at once. Each receives the other's Offer and states this in its own Offers; each answers, because the
    // other has not decided.
    pair.expect(
        "
        A Offer #899 ask
        B Offer #99 ask
        A Offer #899 ask solicited
        B Offer #99 ask solicited
        A Offer #899 solicited
        A RDMA WRITE First #100 152 B va +0x0 len 300 ask
        A RDMA WRITE Last #101 148 B va +0x98 len 148 ask
        B Offer #99 solicited
        B ACK #101 msn 1 credits 0 for #101
        ",
    );
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    pair.script(|_| Fate::Arrives);
    talk(&mut pair);
}

#[test]
fn an_end_without_irn_says_so_at_once() {
    for offers in [[true, false], [false, true]] {
        let mut pair = pair(offers);
        let begin = pair.now;
        talk(&mut pair);
        assert_eq!(services(&pair), [Service::Rc; 2]);
        assert!(pair.last < begin + Time::from_ms(1), "{:?}", pair.last);
    }
}

/// A NIC that does not know Offers drops them.
#[test]
fn a_stranger_gets_requests_of_rc_after_a_while() {
    let mut pair = pair([true, false]);
    pair.script(|seen| match seen.headers.bth.opcode.operation() {
        Operation::Offer => Fate::Lost,
        _ => Fate::Arrives,
    });
    let begin = pair.now;
    pair.post(0, 1, pair.write_op(1, 0), 8);
    pair.run();
    assert_eq!(services(&pair), [Service::Rc; 2]);
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    let first = pair.trace.iter().position(|line| line.contains("WRITE")).unwrap();
    assert_eq!(pair.departures[first].1, begin + Time::from_ms(250));
    // 2, 4, 8, 16, 32 ms apart, then 64 ms: at 0, 2, 6, 14, 30, 62, 126 and 190 ms.
    assert_eq!(first, 8, "{:?}", pair.trace);
    // The second message does not wait, and later Offers of the peer are answered.
    talk(&mut pair);
}

/// The stranger is the first to send: nothing waits.
#[test]
fn a_request_of_rc_decides() {
    let mut pair = pair([false, true]);
    pair.script(
        |seen| if seen.headers.bth.opcode.operation() == Operation::Offer { Fate::Lost } else { Fate::Arrives },
    );
    let begin = pair.now;
    pair.post(0, 1, pair.write_op(1, 0), 300);
    pair.run_for(Time::from_us(100));
    assert_eq!((services(&pair)[1], pair.sides[0].sent()), (Service::Rc, vec![(1, Status::Success)]));
    assert!(pair.last < begin + Time::from_us(10));
    talk(&mut pair);
}

#[test]
fn an_end_that_is_not_ready_yet_is_waited_for() {
    let mut pair = unconnected([true, true]);
    pair.connect(0);
    pair.post(0, 1, pair.write_op(1, 0), 8);
    pair.run_for(Time::from_ms(100));
    pair.connect(1);
    pair.run();
    assert_eq!((services(&pair), pair.sides[0].sent()), ([Service::Irn; 2], vec![(1, Status::Success)]));
    // A receiver may stay in RTR for ever.
    let mut pair = unconnected([true, true]);
    pair.connect(0);
    pair.listen(1);
    pair.post(0, 1, pair.write_op(1, 0), 8);
    pair.run();
    assert_eq!((services(&pair), pair.sides[0].sent()), ([Service::Irn; 2], vec![(1, Status::Success)]));
    // Too late: the first end uses RC, and the other follows.
    let mut pair = unconnected([true, true]);
    pair.connect(0);
    pair.post(0, 1, pair.write_op(1, 0), 8);
    pair.run_for(Time::from_ms(251));
    assert_eq!(services(&pair)[0], Service::Rc);
    pair.connect(1);
    pair.run();
    assert_eq!((services(&pair), pair.sides[0].sent()), ([Service::Rc; 2], vec![(1, Status::Success)]));
    talk(&mut pair);
}

/// Whatever is lost and however long the ends take, both decide alike, and messages arrive.
#[test]
fn both_decide_alike_under_loss() {
    let mut used = [0, 0];
    for seed in 0..400_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 8) % below
        };
        let mut setup = Setup::new(Service::Rc);
        setup.attributes.give_up_after = Some(Time::from_ms(60_000));
        let mut pair = setup.unconnected();
        for side in &mut pair.sides {
            side.device.set_extras(side.qpn, OFFER).unwrap();
        }
        let (first, late) = (next(2) as usize, next(300));
        // In some runs nearly all packets are lost.
        let loss = [20, 50, 90, 97][next(4) as usize];
        let mut count = 0;
        pair.script({
            let mut next = next;
            move |_| {
                count += 1;
                match next(100) {
                    roll if roll < loss && count < 200 => Fate::Lost,
                    98 => Fate::Late(Time::from_ms(next(20))),
                    99 => Fate::Twice(Time::from_ms(next(20))),
                    _ => Fate::Arrives,
                }
            }
        });
        pair.connect(first);
        pair.recv(first, 7, 0, 100);
        pair.post(first, 1, pair.write_op(1 - first, 0), 8);
        pair.run_for(Time::from_ms(late));
        pair.connect(1 - first);
        pair.recv(1 - first, 7, 0, 100);
        pair.post(1 - first, 2, SendOp::Send, 8);
        pair.run();
        let services = services(&pair);
        assert_eq!(services[0], services[1], "{seed}: {}", pair.trace.join("\n"));
        used[usize::from(services[0] == Service::Irn)] += 1;
        assert_eq!(pair.sides[first].sent(), [(1, Status::Success)], "{seed}: {}", pair.trace.join("\n"));
        assert_eq!(pair.sides[1 - first].sent(), [(2, Status::Success)], "{seed}");
    }
    assert!(used[0] > 20 && used[1] > 100, "{used:?}");
}

/// Packets of strangers that guess the queue pair, but not the PSNs.
#[test]
fn strangers_decide_nothing() {
    let mut pair = pair([true, true]);
    // The peer is silent.
    pair.script(|_| Fate::Lost);
    pair.run_for(Time::from_ms(1));
    let forged = |pair: &Pair, psn: u32, ask: bool, solicited: bool| {
        let mut headers = pair.headers(1, Opcode::IRN_OFFER, psn);
        (headers.bth.ack_request, headers.bth.solicited) = (ask, solicited);
        bytes_of(headers, &[])
    };
    for (ask, solicited) in [(false, false), (false, true), (true, false), (true, true)] {
        for psn in [0, PSN_B, PSN_B - 2, 0xff_ffff] {
            assert_eq!(pair.arrive(1, &forged(&pair, psn, ask, solicited)), Err(Dropped::Stale));
        }
    }
    // Requests whose PSN is far from that expected, and requests of IRN although no Offer has arrived.
    for (opcode, psn, why) in [
        (Opcode::RC_WRITE_ONLY, PSN_A + 256, Dropped::OutOfOrder),
        (Opcode::RC_WRITE_ONLY, PSN_A - 1, Dropped::OutOfOrder),
        (Opcode::IRN_WRITE_ONLY, PSN_A, Dropped::State),
        (Opcode::UC_WRITE_ONLY, PSN_A, Dropped::Opcode),
    ] {
        let mut headers = pair.headers(1, opcode, psn);
        headers.reth = Some(Reth::default());
        assert_eq!(pair.arrive(1, &bytes_of(headers, &[])), Err(why), "{opcode}");
    }
    assert_eq!(services(&pair), [Service::Rc; 2]);
    pair.script(|_| Fate::Arrives);
    talk(&mut pair);
    assert_eq!(services(&pair), [Service::Irn; 2]);
    // When the ends have decided, forged Offers change nothing, and are answered only if they ask.
    pair.trace.clear();
    assert_eq!(pair.arrive(1, &forged(&pair, 5, true, true)), Err(Dropped::Stale));
    assert_eq!(pair.arrive(1, &forged(&pair, PSN_B - 1, false, false)), Ok(()));
    assert_eq!(pair.arrive(1, &forged(&pair, PSN_B - 1, true, false)), Ok(()));
    pair.drain();
    assert_eq!(pair.trace, ["B Offer #99 solicited"]);
    talk(&mut pair);
}

#[test]
fn a_reset_connection_agrees_anew() {
    let mut pair = pair([true, true]);
    talk(&mut pair);
    assert_eq!(services(&pair), [Service::Irn; 2]);
    for at in 0..2 {
        let side = &mut pair.sides[at];
        side.device.to_reset(side.qpn).unwrap();
    }
    assert_eq!(services(&pair), [Service::Rc; 2]);
    // Now the other end does not offer it.
    let side = &mut pair.sides[1];
    side.device.set_extras(side.qpn, Extras::default()).unwrap();
    pair.setup.psns = [5_000, 6_000];
    pair.connect(0);
    pair.connect(1);
    talk(&mut pair);
    assert_eq!(services(&pair), [Service::Rc; 2]);
}

#[test]
fn times_may_be_counted_anew() {
    let mut pair = pair([true, false]);
    pair.script(
        |seen| if seen.headers.bth.opcode.operation() == Operation::Offer { Fate::Lost } else { Fate::Arrives },
    );
    pair.now = rnic_verbs::Device::EPOCH;
    pair.post(0, 1, pair.write_op(1, 0), 8);
    pair.run_for(Time::from_ms(10));
    pair.rebase();
    pair.run();
    assert_eq!((services(&pair), pair.sides[0].sent()), ([Service::Rc; 2], vec![(1, Status::Success)]));
    assert!(pair.now < Time::from_ms(260), "{:?}", pair.now);
}

#[test]
fn only_reliable_connections_offer_it() {
    for service in [Service::Irn, Service::Uc, Service::Ud] {
        let mut pair = Setup::new(service).unconnected();
        let side = &mut pair.sides[0];
        assert!(side.device.set_extras(side.qpn, OFFER).is_err(), "{service:?}");
    }
}
