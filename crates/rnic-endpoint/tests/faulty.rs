//! Tests of the port with faults: the faults are reproducible, have the given probabilities, and no other property of
//! the port changes.

use crate::common::{ANY_CLASS, collect, drain, message, send_all};
use proptest::prelude::*;
use rnic_endpoint::clock::ManualClock;
use rnic_endpoint::port::loopback::{LoopbackConfig, LoopbackPort, pair};
use rnic_endpoint::port::{
    CorruptionKind, Counters, FaultCounters, Faults, Interest, Limits, Probability, SendError, UdpConfig,
};
use rnic_endpoint::{Arrival, Batch, FaultyPort, Port, UdpPort};
use rnic_transport::Time;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::Waker;

type Faulty = FaultyPort<LoopbackPort, ManualClock>;

const NONE: Faults = Faults {
    loss: Probability::NEVER,
    duplication: Probability::NEVER,
    corruption: Probability::NEVER,
    corruption_kind: CorruptionKind::Mixed,
    reordering: Probability::NEVER,
    reordering_depth: 0,
    delay: Probability::NEVER,
    longest_delay: Time::ZERO,
};

fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

/// Faults of every kind that does not depend on the clock.
fn some() -> Faults {
    Faults {
        loss: probability(0.05),
        duplication: probability(0.04),
        corruption: probability(0.03),
        reordering: probability(0.06),
        reordering_depth: 5,
        ..NONE
    }
}

/// Makes a pair of ports in memory, of which the second has faults; returns both, and the clock of the second.
fn two(sending: Faults, receiving: Faults, seed: u64) -> (LoopbackPort, Faulty, ManualClock) {
    let (sound, inner) = pair(LoopbackConfig::default());
    let clock = ManualClock::default();
    (sound, FaultyPort::with_clock(inner, sending, receiving, seed, clock.clone()), clock)
}

/// Builds datagrams of 100 bytes; the n-th one starts with the number n.
fn numbered(count: u32) -> Vec<u8> {
    let mut data = message(count as usize * 100, 77);
    for (number, datagram) in data.chunks_mut(100).enumerate() {
        datagram[..4].copy_from_slice(&(number as u32).to_be_bytes());
    }
    data
}

fn numbers(datagrams: &[Vec<u8>]) -> Vec<u32> {
    datagrams.iter().map(|datagram| u32::from_be_bytes(datagram[..4].try_into().unwrap())).collect()
}

/// Sends `count` numbered datagrams, in batches of up to `batch`, to a port with faults on received datagrams. Returns
/// the datagrams that it delivers, and its counters.
fn received(faults: Faults, seed: u64, count: u32, batch: usize) -> (Vec<Vec<u8>>, FaultCounters) {
    let (mut sound, mut faulty, clock) = two(NONE, faults, seed);
    let mut got = Vec::new();
    for data in numbered(count).chunks(100 * batch) {
        send_all(&mut sound, faulty.local_addr(), ANY_CLASS, 100, data);
        got.extend(drain(&mut faulty).datagrams);
    }
    clock.advance(Time::from_ms(10));
    got.extend(drain(&mut faulty).datagrams);
    (got, faulty.faults().1)
}

/// Sends `count` numbered datagrams by a port with faults on sent datagrams. Returns the datagrams that arrive, and its
/// counters.
fn sent(faults: Faults, seed: u64, count: u32) -> (Vec<Vec<u8>>, FaultCounters) {
    let (mut sound, mut faulty, clock) = two(faults, NONE, seed);
    send_all(&mut faulty, sound.local_addr(), ANY_CLASS, 100, &numbered(count));
    clock.advance(Time::from_ms(10));
    faulty.wait(Interest::Arrival, Some(Time::ZERO)).unwrap();
    (drain(&mut sound).datagrams, faulty.faults().0)
}

#[test]
fn without_faults_everything_passes_as_it_is() {
    let (got, counters) = received(NONE, 1, 500, 64);
    assert!(got.concat() == numbered(500));
    assert_eq!(counters, FaultCounters::default());
    let (mut sound, mut faulty, _) = two(NONE, NONE, 1);
    assert_eq!(faulty.limits(), sound.limits());
    send_all(&mut faulty, sound.local_addr(), ANY_CLASS, 100, &numbered(64));
    assert_eq!(faulty.counters().sent_batches, 1);
    assert!(collect(&mut sound, 64).is(&numbered(64), ANY_CLASS));
}

#[test]
fn the_same_seed_gives_the_same_whatever_the_batches() {
    let (first, counters) = received(some(), 7, 5_000, 64);
    for batch in [1, 3, 17, 64] {
        assert!(received(some(), 7, 5_000, batch) == (first.clone(), counters), "batches of {batch}");
    }
    assert!(received(some(), 8, 5_000, 64).0 != first);
    assert!(sent(some(), 7, 5_000) == sent(some(), 7, 5_000));
    assert!(sent(some(), 7, 5_000).0 != first, "each direction has a stream of its own");
}

/// Whether `count` is within five standard deviations of a binomial distribution, which one run in two million exceeds.
fn near(count: u64, of: u64, rate: f64) -> bool {
    let (mean, deviation) = (of as f64 * rate, (of as f64 * rate * (1.0 - rate)).sqrt());
    (count as f64 - mean).abs() <= 5.0 * deviation
}

#[test]
fn faults_are_as_frequent_as_told_in_both_directions() {
    const COUNT: u32 = 100_000;
    for counters in [received(some(), 3, COUNT, 64).1, sent(some(), 3, COUNT).1] {
        assert_eq!(counters.seen, u64::from(COUNT));
        let arrived = counters.seen - counters.lost;
        assert!(near(counters.lost, counters.seen, 0.05), "{counters:?}");
        assert!(near(counters.duplicated, arrived, 0.04), "{counters:?}");
        assert!(near(counters.corrupted, arrived, 0.03), "{counters:?}");
        assert!(near(counters.reordered, arrived, 0.06), "{counters:?}");
        assert_eq!(counters.delayed, 0);
    }
    let all = Faults { loss: Probability::ALWAYS, ..NONE };
    assert_eq!(received(all, 1, 1_000, 64).0, Vec::<Vec<u8>>::new());
    assert_eq!(sent(all, 1, 1_000).0, Vec::<Vec<u8>>::new());
}

#[test]
fn each_fault_alone_does_what_its_name_says() {
    let expected: Vec<Vec<u8>> = numbered(1_000).chunks(100).map(<[u8]>::to_vec).collect();
    let tenth = probability(0.1);
    let both = |faults| [received(faults, 5, 1_000, 64), sent(faults, 5, 1_000)];

    for (got, counters) in both(Faults { loss: tenth, ..NONE }) {
        assert!(counters.lost > 0 && got.len() as u64 == 1_000 - counters.lost);
        assert!(numbers(&got).is_sorted() && got.iter().all(|datagram| expected.contains(datagram)));
    }
    for (got, counters) in both(Faults { duplication: tenth, ..NONE }) {
        assert!(counters.duplicated > 0 && got.len() as u64 == 1_000 + counters.duplicated);
        assert!(numbers(&got).is_sorted());
        let mut once = got;
        once.dedup();
        assert!(once == expected);
    }
    for kind in CorruptionKind::ALL {
        for (got, counters) in both(Faults { corruption: tenth, corruption_kind: kind, ..NONE }) {
            let corrupted = got.iter().zip(&expected).filter(|(a, b)| a != b).count();
            assert_eq!((got.len(), corrupted as u64), (1_000, counters.corrupted), "{kind:?}");
            assert!(counters.corrupted > 0);
        }
    }
    for (got, counters) in both(Faults { corruption: tenth, corruption_kind: CorruptionKind::Bit, ..NONE }) {
        let flipped = |(a, b): (&Vec<u8>, &Vec<u8>)| a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        let flips: Vec<u32> = got.iter().zip(&expected).map(flipped).collect();
        assert!(flips.iter().all(|&flips| flips <= 1) && got.len() == 1_000);
        assert_eq!(flips.iter().sum::<u32>() as u64, counters.corrupted);
        assert!(counters.corrupted > 0);
    }
    for (got, counters) in both(Faults { reordering: tenth, reordering_depth: 3, ..NONE }) {
        let order = numbers(&got);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1_000).collect::<Vec<_>>());
        // A reordered datagram is overtaken by up to three others, so it is at most three places late. The others are
        // early only because of it.
        let late = order.iter().enumerate().filter(|&(place, &number)| place > number as usize);
        let lateness: Vec<usize> = late.map(|(place, &number)| place - number as usize).collect();
        assert!(lateness.iter().all(|&late| late <= 3), "{lateness:?}");
        assert!(lateness.contains(&3) && lateness.len() as u64 <= counters.reordered, "{lateness:?} {counters:?}");
    }
}

#[test]
fn a_reordered_datagram_that_nothing_follows_goes_on_after_a_millisecond() {
    let faults = Faults { reordering: Probability::ALWAYS, reordering_depth: 1, ..NONE };
    let (mut sound, mut faulty, clock) = two(faults, faults, 1);
    send_all(&mut sound, faulty.local_addr(), ANY_CLASS, 100, &numbered(1));
    send_all(&mut faulty, sound.local_addr(), ANY_CLASS, 100, &numbered(1));
    assert!(drain(&mut faulty).datagrams.is_empty() && drain(&mut sound).datagrams.is_empty());
    clock.advance(Time::from_us(999));
    assert!(drain(&mut faulty).datagrams.is_empty() && drain(&mut sound).datagrams.is_empty());
    clock.advance(Time::from_us(1));
    assert_eq!(drain(&mut faulty).datagrams, [numbered(1)]);
    assert_eq!(drain(&mut sound).datagrams, [numbered(1)]);
}

#[test]
fn delayed_datagrams_come_when_due_and_a_wait_ends_then() {
    let faults = Faults { delay: probability(0.5), longest_delay: Time::from_ms(8), ..NONE };
    let (mut sound, mut faulty, clock) = two(NONE, faults, 2);
    send_all(&mut sound, faulty.local_addr(), ANY_CLASS, 100, &numbered(200));
    let mut got = drain(&mut faulty).datagrams;
    let held = faulty.faults().1.delayed as usize;
    assert_eq!(got.len(), 200 - held);
    assert!(near(held as u64, 200, 0.5), "{held}");
    for eighth in 1..=8 {
        clock.advance(Time::from_ms(1));
        // Held datagrams are due, so the wait returns although nothing arrives any more.
        faulty.wait(Interest::Arrival, None).unwrap();
        got.extend(drain(&mut faulty).datagrams);
        // Delays are uniform: after each eighth of the maximum delay another eighth of the held datagrams is due.
        let due = (got.len() - (200 - held)) as u64;
        assert!(near(due, held as u64, f64::from(eighth) / 8.0), "{due} of {held} after {eighth} ms");
    }
    let mut all = numbers(&got);
    all.sort_unstable();
    assert_eq!(all, (0..200).collect::<Vec<_>>());
}

#[test]
fn faults_on_sending_go_by_single_datagrams_and_those_on_receiving_keep_batches() {
    let (sound, faulty, _) = two(some(), NONE, 1);
    assert_eq!(faulty.limits(), Limits { segments: 1, ..sound.limits() });
    let (sound, faulty, _) = two(NONE, some(), 1);
    assert_eq!(faulty.limits(), sound.limits());
}

#[test]
fn what_came_along_stays_with_each_datagram() {
    let faults = Faults { duplication: probability(0.2), reordering: probability(0.2), reordering_depth: 4, ..NONE };
    let (mut sound, mut faulty, clock) = two(faults, faults, 9);
    for class in 0..100 {
        let class = rnic_endpoint::port::TrafficClass::from_byte(class);
        send_all(&mut sound, faulty.local_addr(), class, 10, &[class.byte(); 50]);
        send_all(&mut faulty, sound.local_addr(), class, 10, &[class.byte(); 50]);
    }
    clock.advance(Time::from_ms(10));
    for (got, other) in [(drain(&mut faulty), sound.local_addr()), (drain(&mut sound), faulty.local_addr())] {
        assert!(got.datagrams.len() > 500);
        for ((datagram, class), source) in got.datagrams.iter().zip(&got.classes).zip(&got.sources) {
            assert_eq!((datagram.as_slice(), source.ip()), (&[class.byte(); 10][..], other.ip()));
        }
    }
}

/// A port that takes a datagram only at every third attempt, as if its send buffer were full.
struct Narrow(LoopbackPort, u32);

impl Port for Narrow {
    fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }
    fn source_port(&self, hash: u32) -> u16 {
        self.0.source_port(hash)
    }
    fn limits(&self) -> Limits {
        self.0.limits()
    }
    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize> {
        self.0.longest_datagram(destination)
    }
    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError> {
        self.1 += 1;
        if self.1.is_multiple_of(3) { self.0.send(batch) } else { Ok(0) }
    }
    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        self.0.receive()
    }
    fn wait(&mut self, _interest: Interest, _timeout: Option<Time>) -> io::Result<()> {
        Ok(())
    }
    fn waker(&self) -> Waker {
        self.0.waker()
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

#[test]
fn a_full_port_changes_no_fate_and_loses_nothing_more() {
    let (expected, counters) = sent(some(), 4, 2_000);
    let (mut sound, inner) = pair(LoopbackConfig::default());
    let clock = ManualClock::default();
    let mut faulty = FaultyPort::with_clock(Narrow(inner, 0), some(), NONE, 4, clock.clone());
    send_all(&mut faulty, sound.local_addr(), ANY_CLASS, 100, &numbered(2_000));
    clock.advance(Time::from_ms(10));
    for _ in 0..100 {
        faulty.wait(Interest::ArrivalOrRoom, None).unwrap();
    }
    let mut got = drain(&mut sound).datagrams;
    assert_eq!(faulty.faults().0, counters);
    // Waiting for room delays datagrams, so their order differs, but the datagrams are the same.
    let mut expected = expected;
    got.sort_unstable();
    expected.sort_unstable();
    assert!(got == expected);
}

#[test]
fn it_wraps_any_port() {
    let open = || UdpPort::bind("127.0.0.1:0".parse().unwrap(), &UdpConfig::default()).unwrap();
    let mut a: Box<dyn Port> = Box::new(FaultyPort::new(open(), NONE, NONE, 1));
    let mut b: Box<dyn Port> = Box::new(FaultyPort::new(open(), NONE, Faults { loss: probability(0.5), ..NONE }, 1));
    for _ in 0..20 {
        send_all(&mut a, b.local_addr(), ANY_CLASS, 100, &numbered(50));
    }
    let mut got = 0;
    while let Some(arrival) = b.receive().unwrap() {
        got += arrival.segments().len();
    }
    assert!(near(got as u64, 1_000, 0.5), "{got}");
}

fn any_faults() -> impl Strategy<Value = Faults> {
    let chance = || prop_oneof![Just(0.0), 0.0..0.3, Just(1.0)].prop_map(probability);
    (chance(), chance(), chance(), chance(), 0u32..9, chance(), 0u64..3).prop_map(
        |(loss, duplication, corruption, reordering, reordering_depth, delay, ms)| Faults {
            loss,
            duplication,
            corruption,
            corruption_kind: CorruptionKind::Bit,
            reordering,
            reordering_depth,
            delay,
            longest_delay: Time::from_ms(ms),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// With any faults, each datagram arrives as often as the counters say, with at most one bit flipped, and no other
    /// datagram arrives.
    #[test]
    fn the_counters_account_for_everything(
        faults in any_faults(), seed in 0u64..1_000, count in 1u32..400, batch in 1usize..64, sending in any::<bool>(),
    ) {
        let (got, counters) = if sending { sent(faults, seed, count) } else { received(faults, seed, count, batch) };
        prop_assert_eq!(counters.seen, if faults.none() { 0 } else { u64::from(count) });
        prop_assert_eq!(got.len() as u64, u64::from(count) - counters.lost + counters.duplicated);
        let all = numbered(count);
        let mut damaged = 0;
        for datagram in &got {
            let bits = |original: &[u8]| original.iter().zip(datagram).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
            let closest = all.chunks(100).map(bits).min().unwrap();
            prop_assert!(closest <= 1);
            damaged += u64::from(closest);
        }
        prop_assert_eq!(damaged, counters.corrupted);
    }
}

#[test]
fn a_batch_that_is_not_valid_is_refused_before_any_fault() {
    let (_sound, mut faulty, _) = two(Faults { loss: Probability::ALWAYS, ..NONE }, NONE, 1);
    let (destination, source_port) = ("[::1]:1".parse().unwrap(), 49_152);
    let data = [IoSlice::new(b"datagram")];
    let batch =
        Batch { destination, source_port, source_address: None, traffic_class: ANY_CLASS, segment: 8, data: &data };
    assert!(matches!(faulty.send(&batch), Err(SendError::OtherFamily { .. })));
    let destination = "10.0.0.1:1".parse().unwrap();
    assert!(matches!(faulty.send(&Batch { destination, segment: 4, ..batch }), Err(SendError::TooMany { .. })));
    assert_eq!(faulty.faults().0.seen, 0);
    assert_eq!(faulty.send(&Batch { destination, ..batch }).unwrap(), 1);
    assert_eq!(faulty.faults().0.lost, 1);
}
