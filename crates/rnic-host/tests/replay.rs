//! Every operation, at every point at which a queue pair can die.

use crate::rogue::Pair;
use crate::wire::{MTU, Wire};
use rnic_host::Failure;
use rnic_host::rogue::Config;
use rnic_transport::Time;
use rnic_verbs::{SendOp, Service, State, Status, Transition, Verbs};
use std::cell::Cell;
use std::rc::Rc;

/// How the primary dies.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Death {
    /// The network drops all further packets between the two ends.
    Silence,
    /// The network drops all further packets of the responder: requests are executed, but the requester gets no
    /// acknowledgements.
    Unseen,
    /// The network drops one packet.
    Loss,
    /// The requester's queue pair goes into the error state.
    Requester,
    /// The responder's queue pair goes into the error state.
    Responder,
}

/// What each test does: an operation between a Write and a Send.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Case {
    Write,
    WriteImm,
    Send,
    Read,
    FetchAdd,
    CompareSwap,
}

const LEN: u64 = 5 * MTU as u64 - 100;
const SOURCE: u64 = 0;
const ANSWER: u64 = 16_384;
const TARGET: u64 = 32_768;
const COUNTER: u64 = 49_152;
const RECEIVES: u64 = 57_344;
const BYTES: usize = 70_000;
const IMM: u32 = 0x1234_002a;

fn config(service: Service) -> Config {
    Config { service, retry_count: 1, timeout: 9, ..Config::default() }
}

/// What happened in a run.
#[derive(Clone, Copy, Default, Debug)]
struct Outcome {
    /// Number of packets of the primary.
    packets: u64,
    /// Number of parts that the peer had executed although their completions did not arrive, and number of replayed
    /// parts.
    settled: u64,
    replayed: u64,
    /// Whether the channel ended.
    ended: bool,
}

/// Runs a case whose primary dies after `packets` packets; `u64::MAX`: it does not die.
fn run(service: Service, case: Case, death: Death, packets: u64) -> Outcome {
    let mut pair = Pair::new(Wire::perfect(), BYTES, &config(service));
    let name = format!("{service:?}, {case:?}, {death:?} after {packets} packets");
    {
        let bytes = pair.wire.nics[0].bytes_mut(pair.memory[0].id).unwrap();
        bytes[..8_192].iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8 ^ 0x5a);
        let bytes = pair.wire.nics[1].bytes_mut(pair.memory[1].id).unwrap();
        bytes[COUNTER as usize..][..8].copy_from_slice(&100_u64.to_ne_bytes());
    }
    let primaries = [pair.ends[0].primary().0, pair.ends[1].primary().0];
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    pair.wire.filter = Box::new(move |from, qpn| {
        if qpn != primaries[1 - from] {
            return true;
        }
        count.set(count.get() + 1);
        let is_lost = match death {
            Death::Silence => true,
            Death::Unseen => from == 1,
            Death::Loss => count.get() - 1 == packets,
            Death::Requester | Death::Responder => false,
        };
        count.get() <= packets || !is_lost
    });
    let (addr, rkey) = (pair.memory[1].addr, pair.memory[1].rkey);
    pair.receive(1, 100, RECEIVES, 4_096 + LEN);
    pair.receive(1, 101, RECEIVES, 4_096);
    pair.receive(1, 102, RECEIVES, 4_096);
    let op = match case {
        Case::Write => SendOp::Write { addr: addr + TARGET, rkey },
        Case::WriteImm => SendOp::WriteImm { addr: addr + TARGET, rkey, imm: IMM },
        Case::Send => SendOp::SendImm(IMM),
        Case::Read => SendOp::Read { addr: addr + TARGET, rkey },
        Case::FetchAdd => SendOp::FetchAdd { addr: addr + COUNTER, rkey, add: 7 },
        Case::CompareSwap => SendOp::CompareSwap { addr: addr + COUNTER, rkey, compare: 100, swap: 7 },
    };
    let is_atomic = matches!(case, Case::FetchAdd | Case::CompareSwap);
    pair.post(0, 1, SendOp::Write { addr: addr + TARGET, rkey }, SOURCE, LEN, true);
    let (place, len) = match case {
        Case::Read => (ANSWER, LEN),
        Case::FetchAdd | Case::CompareSwap => (ANSWER, 8),
        _ => (SOURCE + 1_000, LEN),
    };
    pair.post(0, 2, op, place, len, true);
    let last = match service {
        Service::Uc => SendOp::WriteImm { addr: addr + RECEIVES, rkey, imm: 43 },
        _ => SendOp::SendImm(43),
    };
    pair.post(0, 3, last, SOURCE, 60, true);
    let mut is_dead = false;
    let mut kill = |pair: &mut Pair| {
        let side = match death {
            Death::Requester => 0,
            Death::Responder => 1,
            _ => return,
        };
        if !is_dead && seen.get() >= packets {
            is_dead = true;
            let qpn = rnic_verbs::Qpn(primaries[side]);
            Verbs::modify_qp(&mut pair.wire.nics[side], qpn, Transition::Error).unwrap();
        }
    };
    let start = if matches!(case, Case::Write | Case::WriteImm) { 1_000 } else { 0 };
    let (from, to, len) = (SOURCE as usize + start, TARGET as usize, LEN as usize);
    // As soon as the responder's application has the last message, it checks the target and overwrites it. A Write that
    // is replayed afterwards would undo that.
    let mut is_told = false;
    let mut told = |pair: &mut Pair| {
        if !is_told && pair.found[1].iter().any(|completion| completion.imm == Some(43)) {
            is_told = true;
            let source = pair.wire.nics[0].bytes(pair.memory[0].id).unwrap()[from..from + len].to_vec();
            let target = &mut pair.wire.nics[1].bytes_mut(pair.memory[1].id).unwrap()[to..to + len];
            assert!(*target == source, "{name}: the target");
            if case != Case::Read {
                target.fill(0xee);
            }
        }
    };
    // The requests are posted before the queue pair dies, even before the first packet.
    pair.progress();
    loop {
        kill(&mut pair);
        pair.progress();
        told(&mut pair);
        let next = pair.ends.iter().filter_map(|end| end.next_time()).min();
        if pair.found[0].len() == 3 || pair.wire.now > Time::from_ms(1_000) || !pair.wire.advance(next) {
            break;
        }
    }
    // Everything that is still in flight arrives, and nothing completes twice.
    let end = pair.wire.now + Time::from_ms(50);
    pair.run(end, |_| false);
    told(&mut pair);
    let found = pair.ids(0);
    assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3], "{name}: {found:?}");
    let failed = found.iter().position(|(_, status)| *status != Status::Success);
    let target = pair.wire.nics[1].bytes(pair.memory[1].id).unwrap();
    let source = pair.wire.nics[0].bytes(pair.memory[0].id).unwrap();
    let counter = u64::from_ne_bytes(target[COUNTER as usize..][..8].try_into().unwrap());
    let answer = u64::from_ne_bytes(source[ANSWER as usize..][..8].try_into().unwrap());
    let after = if case == Case::FetchAdd { 107 } else { 7 };
    let received: Vec<_> = pair.found[1]
        .iter()
        .filter(|completion| completion.status == Status::Success)
        .map(|completion| (completion.wr_id, completion.imm))
        .collect();
    if let Some(failed) = failed {
        // Only an atomic whose outcome is unknown ends a channel. It was executed at most once.
        assert!(is_atomic, "{name}: {found:?}");
        assert_eq!(pair.ends[0].failure(), Some(Failure::AtomicUnknown), "{name}");
        assert_eq!(found[failed].1, Status::TransportRetryExceeded, "{name}");
        assert!(found[failed + 1..].iter().all(|(_, status)| *status == Status::WorkRequestFlushed), "{name}");
        assert!(counter == 100 || counter == after, "{name}: {counter}");
        assert!(received.len() <= 1, "{name}: {received:?}");
        // Its receives are flushed at the peer, which was told.
        assert_eq!(pair.ends[1].failure(), Some(Failure::Peer), "{name}");
        assert_eq!(pair.found[1].len(), 3, "{name}");
        return Outcome { packets: seen.get(), ended: true, ..Outcome::default() };
    }
    let expected: &[_] = match case {
        Case::WriteImm | Case::Send => &[(100, Some(IMM)), (101, Some(43))],
        _ => &[(100, Some(43))],
    };
    assert_eq!(received, expected, "{name}: each message is received once");
    if case != Case::Read {
        assert!(target[to..to + len].iter().all(|byte| *byte == 0xee), "{name}: a Write was replayed too late");
    }
    if case == Case::Read {
        assert!(source[ANSWER as usize..][..len] == target[to..to + len], "{name}: the response");
    }
    if is_atomic {
        assert_eq!((counter, answer), (after, 100), "{name}: executed once, with its result");
    }
    let recoveries = pair.ends.each_ref().map(|end| end.counters().recoveries);
    let expected = if packets == u64::MAX { [0, 0] } else { [1, 1] };
    // After the last packet no end detects that the queue pair is dead, except the end whose end was killed.
    if recoveries != expected {
        assert_eq!((recoveries, pair.found[0].len()), ([0, 0], 3), "{name}");
    }
    let counters = pair.ends[0].counters();
    Outcome { packets: seen.get(), settled: counters.settled, replayed: counters.replayed, ended: false }
}

/// Each way to die, after each packet of a run without failure.
fn every_point(service: Service, case: Case) {
    for death in [Death::Silence, Death::Unseen, Death::Requester, Death::Responder] {
        let packets = run(service, case, death, u64::MAX).packets;
        let points: Vec<Outcome> = (0..=packets).map(|point| run(service, case, death, point)).collect();
        // Before the first packet, either nothing was executed, or everything was executed, and no end saw it.
        let is_atomic = matches!(case, Case::FetchAdd | Case::CompareSwap);
        let Outcome { settled, replayed, ended, .. } = points[0];
        match (is_atomic, death) {
            (true, _) => assert!(ended, "{death:?}: {:?}", points[0]),
            (_, Death::Unseen) => assert!(settled >= 2 && settled + replayed == 3, "{:?}", points[0]),
            _ => assert_eq!((settled, replayed), (0, 3), "{death:?}"),
        }
        let some = |of: fn(&Outcome) -> bool| points.iter().any(of);
        // If packets are lost, there are points at which only the count of messages shows what was executed.
        if matches!(death, Death::Silence | Death::Unseen) {
            assert!(some(|point| point.settled > 0), "{death:?}: {points:?}");
        }
        assert_eq!(some(|point| point.ended), is_atomic, "{death:?}: {points:?}");
    }
}

/// Over UC each part counts, so nothing is replayed that the peer has accepted.
#[test]
fn writes_over_uc() {
    for (case, parts) in [(Case::Write, 3), (Case::WriteImm, 4)] {
        for death in [Death::Silence, Death::Loss, Death::Requester, Death::Responder] {
            let packets = run(Service::Uc, case, death, u64::MAX).packets;
            let points: Vec<Outcome> = (0..=packets).map(|point| run(Service::Uc, case, death, point)).collect();
            assert_eq!((points[0].settled, points[0].replayed), (0, parts), "{case:?}, {death:?}");
            assert!(points.iter().all(|point| point.settled + point.replayed <= parts), "{points:?}");
            // All packets are on their way before the responder's queue pair misses the first.
            let partly = points.iter().any(|point| (1..parts).contains(&point.replayed));
            assert_eq!(partly, death != Death::Responder, "{death:?}: {points:?}");
        }
    }
}

#[test]
fn writes() {
    every_point(Service::Rc, Case::Write);
}
#[test]
fn writes_with_immediate() {
    every_point(Service::Rc, Case::WriteImm);
}
#[test]
fn sends() {
    every_point(Service::Rc, Case::Send);
}
#[test]
fn reads() {
    every_point(Service::Rc, Case::Read);
}
#[test]
fn fetch_and_adds() {
    every_point(Service::Rc, Case::FetchAdd);
}
#[test]
fn compare_and_swaps() {
    every_point(Service::Rc, Case::CompareSwap);
}
#[test]
fn everything_over_irn() {
    for case in [Case::Write, Case::WriteImm, Case::Send, Case::Read, Case::FetchAdd, Case::CompareSwap] {
        every_point(Service::Irn, case);
    }
}

/// The shadow cannot connect: no packet reaches the peer any more. Outstanding requests fail within the stated time.
#[test]
fn a_peer_that_is_gone_ends_the_channel_with_errors() {
    let config = Config { patience: Time::from_ms(300), ..config(Service::Rc) };
    let mut pair = Pair::new(Wire::perfect(), BYTES, &config);
    pair.receive(0, 100, RECEIVES, 100);
    pair.wire.filter = Box::new(|_, _| false);
    for id in 1..=3 {
        pair.post(0, id, pair.write(TARGET), SOURCE, LEN, false);
    }
    assert!(pair.run(Time::from_ms(1_000), |pair| pair.found[0].len() == 4));
    assert_eq!(pair.ends[0].failure(), Some(Failure::PeerSilent(Time::from_ms(300))));
    let flushed = Status::WorkRequestFlushed;
    assert_eq!(pair.ids(0), [(1, Status::TransportRetryExceeded), (2, flushed), (3, flushed), (100, flushed)]);
    // The NIC gives up after two timeouts of 2.1 ms; then the patience of 300 ms begins.
    assert!(pair.wire.now > Time::from_ms(300) && pair.wire.now < Time::from_ms(305), "{}", pair.wire.now);
}

/// A peer that stops for 5 s, and an interface that is down for 5 s: the channel survives.
#[test]
fn an_outage_of_5_s_is_survived() {
    let mut pair = Pair::new(Wire::perfect(), BYTES, &config(Service::Rc));
    pair.receive(1, 100, RECEIVES, 4_096);
    pair.wire.network.partition = Time::from_ms(5_000);
    pair.post(0, 1, pair.write(TARGET), SOURCE, LEN, true);
    pair.post(0, 2, SendOp::Send, SOURCE, 60, true);
    assert!(pair.run(Time::from_ms(6_000), |pair| pair.found[0].len() == 2));
    assert_eq!(pair.ids(0), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(pair.ids(1), [(100, Status::Success)]);
    assert!(pair.wire.now < Time::from_ms(5_003), "{}", pair.wire.now);
    assert_eq!(pair.ends[0].epoch(), 1);
}

/// An error that a replay would only repeat ends the channel with the status of the request.
#[test]
fn a_refused_request_ends_the_channel() {
    let mut pair = Pair::new(Wire::perfect(), BYTES, &config(Service::Rc));
    let op = SendOp::Write { addr: pair.memory[1].addr, rkey: !pair.memory[1].rkey };
    pair.post(0, 1, pair.write(TARGET), SOURCE, LEN, true);
    pair.post(0, 2, op, SOURCE, LEN, true);
    pair.post(0, 3, pair.write(TARGET), SOURCE, LEN, true);
    assert!(pair.run(Time::from_ms(100), |pair| pair.found[0].len() == 3));
    let (success, refused) = (Status::Success, Status::RemoteAccess);
    assert_eq!(pair.ids(0), [(1, success), (2, refused), (3, Status::WorkRequestFlushed)]);
    assert_eq!(pair.ends[0].failure(), Some(Failure::Request(refused)));
    assert!(pair.run(Time::from_ms(200), |pair| pair.ends[1].failure() == Some(Failure::Peer)));
}

/// Many failures one after the other, each as soon as the channel has recovered from the previous failure: more than
/// the channel accepts without a completed request. One end has no requests at all.
#[test]
fn the_two_queue_pairs_take_turns() {
    let mut pair = Pair::new(Wire::perfect(), BYTES, &config(Service::Rc));
    for round in 0..20_u32 {
        assert_eq!(pair.ends[0].epoch(), round);
        pair.receive(1, 100, RECEIVES, 4_096);
        pair.post(0, 1, SendOp::SendImm(round), SOURCE, 60, true);
        let side = round as usize % 2;
        let qpn = pair.ends[side].primary();
        pair.progress();
        Verbs::modify_qp(&mut pair.wire.nics[side], qpn, Transition::Error).unwrap();
        let messages = round as usize + 1;
        let end = pair.wire.now + Time::from_ms(100);
        assert!(pair.run(end, |pair| pair.found[0].len() == messages && pair.found[1].len() == messages));
        let end = pair.wire.now + Time::from_ms(10);
        pair.run(end, |_| false);
        assert_eq!(pair.found[1][round as usize].imm, Some(round));
    }
    assert_eq!(pair.ends[1].counters().recoveries, 20);
}

/// As long as this end does not know that the peer's queue pair is dead, it does not connect its own queue pair again:
/// a request of the peer with an old PSN could be acknowledged as a duplicate, although it was never executed.
#[test]
fn an_end_is_connected_again_only_after_the_other_is_dead() {
    let mut pair = Pair::new(Wire::perfect(), BYTES, &config(Service::Rc));
    let (old, shadow) = (pair.ends[0].primary(), pair.ends[0].address().qpns[1]);
    let control = pair.ends[0].address().control.0;
    // The messages of the peer's layer are lost at first.
    let lost = Rc::new(Cell::new(true));
    let is_lost = lost.clone();
    pair.wire.filter = Box::new(move |_, qpn| qpn != control || !is_lost.get());
    pair.post(0, 1, pair.write(TARGET), SOURCE, LEN, true);
    pair.progress();
    Verbs::modify_qp(&mut pair.wire.nics[0], old, Transition::Error).unwrap();
    let state = |pair: &Pair, qpn| pair.wire.nics[0].state(qpn).unwrap();
    for ms in 1..=50 {
        pair.run(Time::from_ms(ms), |_| false);
        assert_eq!((state(&pair, old), state(&pair, shadow)), (State::Error, State::ReadyToSend), "at {ms} ms");
        assert_eq!((pair.ends[0].epoch(), pair.found[0].len()), (1, 0), "nothing is replayed yet");
    }
    lost.set(false);
    assert!(pair.run(Time::from_ms(100), |pair| pair.found[0].len() == 1));
    assert_eq!((pair.ids(0), state(&pair, old)), (vec![(1, Status::Success)], State::ReadyToSend));
}
