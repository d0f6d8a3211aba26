//! Tests of properties that every stream of flows has, for all kinds of traffic.

use super::*;
use proptest::prelude::*;
use rnic_spec::{Arrivals, Locality, Receiver, Rotation, Traffic, TrafficPattern};
use rnic_transport::{BitRate, Bytes, Time};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn network(hosts: u32) -> Network {
    let host_rate = vec![BitRate::from_gbps(40); hosts as usize];
    Network { hosts, host_rate, mtu: 1000, wire_overhead: 82, ..Network::default() }
}

fn traffic(pattern: TrafficPattern) -> Traffic {
    Traffic { name: "test".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 }
}

fn sizes(text: &str) -> SizeDistribution {
    sizes::parse(text, Path::new("")).unwrap()
}

fn poisson(load: f64, flows: u64) -> Traffic {
    random(load, "irn-heavy-tailed", flows, Locality::default(), Arrivals::Poisson)
}

fn random(load: f64, text: &str, flows: u64, locality: Locality, arrivals: Arrivals) -> Traffic {
    traffic(TrafficPattern::Poisson { load, sizes: sizes(text), flows, locality, arrivals })
}

fn incast(senders: u32, total: u64, repeats: u32, connections: u32) -> Traffic {
    incast_to(Receiver::Host(0), senders, total, repeats, connections)
}

fn incast_to(receiver: Receiver, senders: u32, total: u64, repeats: u32, connections: u32) -> Traffic {
    let (total, interval) = (Bytes(total), None);
    traffic(TrafficPattern::Incast { senders, total, repeats, receiver, connections, interval })
}

fn permutation(repeats: u32, interval: Time) -> Traffic {
    traffic(TrafficPattern::Permutation { sizes: sizes("websearch"), repeats, interval })
}

fn all_to_all(repeats: u32, interval: Time) -> Traffic {
    traffic(TrafficPattern::AllToAll { sizes: sizes("fixed 1 MB"), repeats, interval })
}

fn list(flows: Vec<FlowSpec>) -> Traffic {
    traffic(TrafficPattern::List { flows: Arc::from(flows) })
}

fn flows(traffic: &[Traffic], network: &Network, seed: u64) -> Vec<FlowSpec> {
    assert_eq!(check(traffic, network), Ok(()));
    let stream = generate(traffic, network, seed);
    let total = stream.total();
    let flows: Vec<FlowSpec> = stream.collect();
    assert_eq!(flows.len() as u64, total);
    flows
}

fn listed(us: u64, src: u32, dst: u32, request: u32) -> FlowSpec {
    FlowSpec { start: Time::from_us(us), src, dst, bytes: 1000, request, traffic: 9, measured: true, hash: None }
}

fn any_receiver() -> impl Strategy<Value = Receiver> {
    prop_oneof![
        (0u32..8).prop_map(Receiver::Host),
        Just(Receiver::Changing(Rotation::RoundRobin)),
        Just(Receiver::Changing(Rotation::Random)),
    ]
}

/// Generates traffic sources of every open-loop kind that can run on any network of 8 hosts or more.
fn any_source() -> impl Strategy<Value = Traffic> {
    let interval = || (0u64..3).prop_map(|n| Time::from_us(n * 50));
    let pattern = prop_oneof![
        (0.1f64..1.5, 0u64..200).prop_map(|(load, flows)| poisson(load, flows)),
        (1u32..8, 100u64..1_000_000, 0u32..5, 1u32..5, any_receiver())
            .prop_map(|(n, total, repeats, c, receiver)| incast_to(receiver, n, total, repeats, c)),
        (0.1f64..1.5, 0u64..200, 1.1f64..9.0, 0.01f64..0.99).prop_map(|(load, flows, cv, on_share)| {
            random(load, "websearch", flows, Locality::default(), Arrivals::OnOff { cv, on_share })
        }),
        (0.1f64..1.5, 0u64..200, 0.01f64..9.0).prop_map(|(load, flows, cv)| {
            random(load, "websearch", flows, Locality::default(), Arrivals::LogNormal { cv })
        }),
        (0u32..4, interval()).prop_map(|(repeats, interval)| permutation(repeats, interval)),
        (0u32..4, interval()).prop_map(|(repeats, interval)| all_to_all(repeats, interval)),
        proptest::collection::vec((0u64..99, 0u32..8, 1u32..8), 0..30).prop_map(|flows| {
            list(flows.into_iter().map(|(us, src, step)| listed(us, src, (src + step) % 8, us as u32)).collect())
        }),
    ];
    (pattern, 0u64..50, 0u64..50, 0u64..100).prop_map(|(traffic, warmup, cooldown, start)| Traffic {
        warmup,
        cooldown,
        start: Time::from_us(start),
        ..traffic
    })
}

proptest! {
    #[test]
    fn streams_are_ordered_valid_and_repeatable(
        sources in proptest::collection::vec(any_source(), 0..4),
        hosts in 8u32..20,
        seed: u64,
    ) {
        let network = network(hosts);
        let flows = flows(&sources, &network, seed);
        prop_assert!(flows.is_sorted_by_key(|flow| (flow.start, flow.traffic, flow.src)));
        for flow in &flows {
            prop_assert!(flow.src != flow.dst && flow.src < hosts && flow.dst < hosts && flow.bytes >= 1);
            prop_assert!(flow.start >= sources[usize::from(flow.traffic)].start);
        }
        prop_assert_eq!(&flows, &generate(&sources, &network, seed).collect::<Vec<_>>());
        for (index, source) in sources.iter().enumerate() {
            let own: Vec<_> = flows.iter().filter(|flow| usize::from(flow.traffic) == index).collect();
            let last = (own.len() as u64).saturating_sub(source.cooldown);
            for (number, flow) in (0..).zip(own) {
                prop_assert_eq!(flow.measured, (source.warmup..last).contains(&number));
            }
        }
    }

    #[test]
    fn a_source_does_not_depend_on_later_sources(source in any_source(), other in any_source(), seed: u64) {
        let alone = flows(std::slice::from_ref(&source), &network(8), seed);
        let mut together = flows(&[source, other], &network(8), seed);
        together.retain(|flow| flow.traffic == 0);
        prop_assert_eq!(alone, together);
    }

    #[test]
    fn requests_are_unique(sources in proptest::collection::vec(any_source(), 2..4), seed: u64) {
        let mut owners: BTreeMap<u32, u16> = BTreeMap::new();
        for flow in flows(&sources, &network(8), seed) {
            if flow.request != FlowSpec::NO_REQUEST {
                prop_assert_eq!(*owners.entry(flow.request).or_insert(flow.traffic), flow.traffic);
            }
        }
    }

    #[test]
    fn permutations_are_permutations(hosts in 2u32..40, seed: u64) {
        let flows = flows(&[permutation(3, Time::from_us(1))], &network(hosts), seed);
        for round in flows.chunks(hosts as usize) {
            let mut destinations: Vec<u32> = round.iter().map(|flow| flow.dst).collect();
            destinations.sort_unstable();
            prop_assert!(destinations.into_iter().eq(0..hosts));
            prop_assert!(round.iter().map(|flow| flow.src).eq(0..hosts));
        }
    }

    #[test]
    fn incast_stripes_every_byte(senders in 1u32..20, total in 1000u64..10_000_000, connections in 1u32..6, seed: u64) {
        let flows = flows(&[incast(senders, total, 3, connections)], &network(20 + 1), seed);
        for (request, round) in (0..).zip(flows.chunks((senders * connections) as usize)) {
            prop_assert!(round.iter().all(|flow| (flow.dst, flow.request) == (0, request)));
            prop_assert_eq!(round.iter().map(|flow| flow.bytes).sum::<u64>(), total);
            let mut by_sender: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
            round.iter().for_each(|flow| by_sender.entry(flow.src).or_default().push(flow.bytes));
            prop_assert_eq!(by_sender.len() as u32, senders);
            for parts in by_sender.values() {
                prop_assert_eq!(parts.len() as u32, connections);
                prop_assert!(parts[0] - parts[parts.len() - 1] <= 1);
                let sum: u64 = parts.iter().sum();
                prop_assert!(sum == total / u64::from(senders) || sum == total / u64::from(senders) + 1);
            }
        }
    }
}

/// The load that each host's flows put on its link, in order of host.
fn offered_load(flows: &[FlowSpec], network: &Network) -> Vec<f64> {
    let end = flows.last().unwrap().start.as_secs();
    let mut bytes = vec![0u128; network.hosts as usize];
    flows.iter().for_each(|flow| bytes[flow.src as usize] += network.wire_bytes(flow.bytes));
    (bytes.iter().zip(&network.host_rate))
        .map(|(&bytes, rate)| bytes as f64 * 8.0 / end / rate.as_bps() as f64)
        .collect()
}

#[test]
fn poisson_offers_the_given_load() {
    let mut network = network(16);
    network.host_rate[3] = BitRate::from_gbps(100);
    for (text, tolerance) in
        [("irn-heavy-tailed", 0.02), ("websearch", 0.02), ("fixed 64 B", 0.01), ("fixed 1 MB", 0.01)]
    {
        let source = random(0.7, text, 400_000, Locality::default(), Arrivals::Poisson);
        let flows = flows(&[source], &network, 1);
        let loads = offered_load(&flows, &network);
        let mean = loads.iter().sum::<f64>() / 16.0;
        assert!((mean / 0.7 - 1.0).abs() < tolerance, "{text}: {mean}");
        // Each host has a sixteenth of the flows, so its standard deviation is four times that of the mean.
        assert!(loads.iter().all(|load| (load / 0.7 - 1.0).abs() < 5.0 * tolerance), "{text}: {loads:?}");
    }
}

#[test]
fn poisson_destinations_are_uniform_over_the_others() {
    let flows = flows(&[poisson(0.5, 60_000)], &network(6), 3);
    let mut pairs: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    flows.iter().for_each(|flow| *pairs.entry((flow.src, flow.dst)).or_default() += 1);
    // Each of the 30 pairs should have 2,000 flows, with a standard deviation of 44.
    assert_eq!(pairs.len(), 30);
    assert!(pairs.values().all(|count| count.abs_diff(2_000) < 220), "{pairs:?}");
}

#[test]
fn another_load_only_changes_the_times_between_flows() {
    let pairs = |load| {
        let mut flows = flows(&[poisson(load, 1_000)], &network(8), 5);
        flows.retain(|flow| flow.src == 2);
        flows.into_iter().map(|flow| (flow.dst, flow.bytes)).take(100).collect::<Vec<_>>()
    };
    assert_eq!(pairs(0.3), pairs(0.9));
}

#[test]
fn poisson_keeps_one_pending_flow_per_host() {
    // Memory could not hold so many flows: the stream creates flows on demand.
    let mut stream = generate(&[poisson(0.7, u64::MAX)], &network(1_024), 1);
    assert_eq!(stream.total(), u64::MAX);
    assert_eq!(stream.by_ref().take(10_000).count(), 10_000);
}

#[test]
fn flows_are_the_same_on_every_machine() {
    let flows = flows(&[poisson(0.7, 4)], &network(54), 1);
    let facts: Vec<_> = flows.iter().map(|f| (f.start.as_ps(), f.src, f.dst, f.bytes)).collect();
    // Computed independently of this code, from the definitions of the generator and the distribution.
    let expected =
        [(1_608_016, 16, 50, 5_947), (1_897_494, 49, 45, 214), (1_935_191, 25, 4, 354), (3_053_969, 23, 17, 629)];
    assert_eq!(facts, expected);
}

#[test]
fn seeds_differ() {
    let with_seed = |seed| flows(&[poisson(0.7, 100)], &network(8), seed);
    assert_ne!(with_seed(1), with_seed(2));
}

#[test]
fn incasts_follow_each_other_when_the_link_is_free() {
    // Three packets of 1,000 B take 3 x 1,082 B on the link, or 649.2 ns at 40 Gbps. The default interval is four times
    // as long, 2.6 us, rounded up to 3 us.
    let starts: Vec<Time> = flows(&[incast(3, 3_000, 3, 1)], &network(8), 1).iter().map(|flow| flow.start).collect();
    let expected = [0, 0, 0, 3, 3, 3, 6, 6, 6].map(Time::from_us);
    assert_eq!(starts, expected);
}

#[test]
fn incast_senders_are_drawn_anew_and_fairly() {
    let flows = flows(&[incast(5, 5_000, 2_000, 1)], &network(11), 1);
    let mut counts = [0u32; 11];
    flows.iter().for_each(|flow| counts[flow.src as usize] += 1);
    // Each of the ten other hosts sends in half of the 2,000 requests, with a standard deviation of 22.
    assert_eq!(counts[0], 0);
    assert!(counts[1..].iter().all(|count| count.abs_diff(1_000) < 110), "{counts:?}");
}

#[test]
fn all_to_all_has_every_ordered_pair() {
    let flows = flows(&[all_to_all(2, Time::from_us(7))], &network(5), 1);
    let pairs: Vec<(u64, u32, u32)> = flows.iter().map(|f| (f.start.as_ps() / 1_000_000, f.src, f.dst)).collect();
    let mut expected = Vec::new();
    for start in [0, 7] {
        (0..5).for_each(|src| (0..5).filter(|dst| *dst != src).for_each(|dst| expected.push((start, src, dst))));
    }
    assert_eq!(pairs, expected);
}

#[test]
fn all_to_all_repetitions_that_start_together_go_sender_by_sender() {
    let mut source = all_to_all(2, Time::ZERO);
    let TrafficPattern::AllToAll { sizes: drawn, .. } = &mut source.pattern else { panic!("{source:?}") };
    *drawn = sizes("websearch");
    let flows = flows(&[source], &network(3), 1);
    let pairs: Vec<(u32, u32)> = flows.iter().map(|flow| (flow.src, flow.dst)).collect();
    assert_eq!(pairs, [(0, 1), (0, 2), (0, 1), (0, 2), (1, 0), (1, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 0), (2, 1)]);
    // Each repetition draws from its own stream: sender by sender, receiver by receiver.
    for repetition in 0..2 {
        let mut stream = rng::Stream::new(1, 0, repetition);
        for sender in 0..3 {
            for receiver in 0..2 {
                let flow = flows[(4 * sender + 2 * repetition + receiver) as usize];
                assert_eq!(flow.bytes, sizes("websearch").sample(stream.unit()));
            }
        }
    }
}

#[test]
fn all_to_all_creates_flows_one_by_one() {
    // Memory could not hold so many flows: the stream creates flows on demand.
    let mut stream = generate(&[all_to_all(1_000, Time::from_us(7))], &network(1_000_000), 1);
    assert_eq!(stream.total(), 999_999 * 1_000_000_000);
    assert_eq!(stream.by_ref().take(3).map(|flow| (flow.src, flow.dst)).collect::<Vec<_>>(), [(0, 1), (0, 2), (0, 3)]);
}

#[test]
fn lists_are_sorted_and_shifted_and_have_their_own_request_ids() {
    let none = FlowSpec::NO_REQUEST;
    let unsorted = list(vec![listed(5, 1, 0, 0), listed(2, 3, 1, none), listed(2, 0, 1, 1), listed(2, 3, 2, none)]);
    let later = Traffic { start: Time::from_us(10), ..unsorted };
    let flows = flows(&[incast(2, 2_000, 4, 1), later], &network(4), 1);
    let own = flows.iter().filter(|flow| flow.traffic == 1);
    let facts: Vec<_> = own.map(|f| (f.start.as_ps() / 1_000_000, f.src, f.dst, f.request)).collect();
    assert_eq!(facts, [(12, 0, 1, 5), (12, 3, 1, none), (12, 3, 2, none), (15, 1, 0, 4)]);
}

#[test]
fn impossible_traffic_is_refused_and_yields_no_flows() {
    let far = Time::from_ps(u64::MAX - 1);
    for (source, hosts, error) in [
        (poisson(0.7, 10), 1, "traffic needs at least 2 hosts; the fabric has 1"),
        (poisson(0.0, 10), 8, "traffic `test`: load is 0; write a fraction above 0, for example 0.7"),
        (poisson(f64::NAN, 10), 8, "traffic `test`: load is NaN; write a fraction above 0, for example 0.7"),
        (
            incast(8, 8_000, 1, 1),
            8,
            "traffic `test`: senders is 8; accepted: 1 to 7, the number of hosts without the receiver",
        ),
        (
            incast(0, 8_000, 1, 1),
            8,
            "traffic `test`: senders is 0; accepted: 1 to 7, the number of hosts without the receiver",
        ),
        (
            incast(4, 7, 1, 2),
            8,
            "traffic `test`: 4 senders with 2 connections each share 7 B; accepted: at least 1 connection per sender and 1 B per connection",
        ),
        (
            permutation(3, far),
            8,
            "traffic `test`: the last of 3 repetitions would start after 213 days, the maximum of simulated time",
        ),
        (
            list(vec![listed(0, 2, 9, 0)]),
            8,
            "traffic `test`: a flow of 1000 B from host 2 to host 9 is impossible: a flow needs at least 1 B and two different hosts from 0 to 7",
        ),
        (
            list(vec![listed(0, 1, 2, FlowSpec::NO_REQUEST - 1)]),
            8,
            "4294967295 requests are too many: at most 4294967294",
        ),
    ] {
        let network = network(hosts);
        assert_eq!(check(std::slice::from_ref(&source), &network), Err(error.to_string()));
        let stream = generate(&[source], &network, 1);
        assert_eq!((stream.total(), stream.count()), (0, 0), "{error}");
    }
    let TrafficPattern::Incast { senders, total, repeats, connections, interval, .. } = incast(2, 2_000, 1, 1).pattern
    else {
        unreachable!()
    };
    let receiver = Receiver::Host(8);
    let outside = traffic(TrafficPattern::Incast { senders, total, repeats, receiver, connections, interval });
    let error = "traffic `test`: receiver is host 8; accepted: 0 to 7, the hosts of the fabric";
    assert_eq!(check(&[outside], &network(8)), Err(error.to_string()));
}

/// A network of two pods with two switches each and three hosts per switch. Hosts of a switch are not next to each
/// other: host h is attached to switch h modulo 4, and switches 0 and 1 are the first pod.
fn network_of_pods() -> Network {
    Network {
        leaf: (0..12).map(|host| host % 4).collect(),
        pod: (0..12).map(|host| host % 4 / 2).collect(),
        ..network(12)
    }
}

/// How many flows stay at their switch, go to another switch of their pod, and leave the pod; and how many each of the
/// other hosts gets from host 0.
fn places_of(source: Traffic) -> ([u32; 3], BTreeMap<u32, u32>) {
    let (mut places, mut of_host_0) = ([0; 3], BTreeMap::new());
    for flow in flows(&[source], &network_of_pods(), 1) {
        let is_same = |divisor: u32| flow.src % 4 / divisor == flow.dst % 4 / divisor;
        places[if is_same(1) {
            0
        } else if is_same(2) {
            1
        } else {
            2
        }] += 1;
        if flow.src == 0 {
            *of_host_0.entry(flow.dst).or_default() += 1;
        }
    }
    (places, of_host_0)
}

#[test]
fn localities_are_fractions_of_the_flows() {
    let source = |leaf, pod| random(0.5, "fixed 1 KB", 120_000, Locality { leaf, pod }, Arrivals::Poisson);
    // Of 120,000 flows a half, three tenths and a fifth, with standard deviations of at most 173.
    let (places, of_host_0) = places_of(source(Some(0.5), Some(0.3)));
    for (count, expected) in places.iter().zip([60_000, 36_000, 24_000]) {
        assert!(u32::abs_diff(*count, expected) < 870, "{places:?}");
    }
    // About 10,000 flows of host 0: 5,000 to hosts 4 and 8, 3,000 to 1, 5 and 9, and 2,000 to the six others.
    for (host, count) in &of_host_0 {
        let expected = match host % 4 {
            0 => 2_500,
            1 => 1_000,
            _ => 333,
        };
        assert!(u32::abs_diff(*count, expected) < 5 * 50, "{of_host_0:?}");
    }
    assert_eq!(of_host_0.len(), 11);
    // Without a fraction for the pod, flows that leave their switch are uniform over nine hosts, three of them in the
    // pod.
    let (places, _) = places_of(source(Some(0.25), None));
    for (count, expected) in places.iter().zip([30_000, 30_000, 60_000]) {
        assert!(u32::abs_diff(*count, expected) < 870, "{places:?}");
    }
    // With the pod's fraction alone no flow stays at its switch.
    let (places, _) = places_of(source(None, Some(0.75)));
    assert_eq!(places[0], 0);
    assert!(u32::abs_diff(places[1], 90_000) < 870, "{places:?}");
    // Fractions whose sum is 1 but for rounding.
    let (places, _) = places_of(source(Some(0.7), Some(0.3)));
    assert_eq!(places[2], 0);
    assert_eq!(places_of(source(Some(0.0), Some(0.0))).0, [0, 0, 120_000]);
}

#[test]
fn localities_without_hosts_are_refused() {
    let check = |network: &Network, leaf, pod| {
        check(&[random(0.5, "fixed 1 KB", 10, Locality { leaf, pod }, Arrivals::Poisson)], network)
    };
    let refused = |network: &Network, leaf, pod, error: &str| {
        assert_eq!(check(network, leaf, pod), Err(format!("traffic `test`: {error}")));
    };
    let reach = "cannot reach hosts that the fractions of its flows need";
    let one_switch = Network { leaf: vec![0; 4], ..network(4) };
    refused(
        &one_switch,
        Some(0.5),
        None,
        &format!("host 0 {reach}: no host is outside; `locality` and `pod_locality` together must be 1"),
    );
    assert_eq!(check(&one_switch, Some(1.0), None), Ok(()));
    let lonely = Network { leaf: vec![0, 0, 1], ..network(3) };
    refused(
        &lonely,
        Some(0.5),
        None,
        &format!("host 2 {reach}: no other host is attached to its switch; `locality` must be 0"),
    );
    assert_eq!(check(&lonely, Some(0.0), None), Ok(()));
    refused(
        &lonely,
        None,
        Some(0.5),
        "`pod_locality` needs pods; topologies with pods are fat-tree and leaf-spine-core",
    );
    let small_pods = Network { leaf: vec![0, 0, 1, 1], pod: vec![0, 0, 1, 1], ..network(4) };
    refused(
        &small_pods,
        None,
        Some(0.5),
        &format!("host 0 {reach}: no other switch of its pod has hosts; `pod_locality` must be 0"),
    );
}

#[test]
fn bursty_arrivals_keep_the_load() {
    let network = network(16);
    for arrivals in [Arrivals::LogNormal { cv: 2.0 }, Arrivals::OnOff { cv: 2.0, on_share: 0.3 }] {
        let flows = flows(&[random(0.7, "fixed 64 B", 400_000, Locality::default(), arrivals)], &network, 1);
        let loads = offered_load(&flows, &network);
        let mean = loads.iter().sum::<f64>() / 16.0;
        // The standard deviation of the mean time between flows is 2/sqrt(400,000), 0.3 %.
        assert!((mean / 0.7 - 1.0).abs() < 0.01, "{arrivals:?}: {mean}");
        let mut starts: Vec<u64> = flows.iter().filter(|flow| flow.src == 5).map(|flow| flow.start.as_ps()).collect();
        starts.sort_unstable();
        let gaps: Vec<f64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / gaps.len() as f64;
        let cv = variance.sqrt() / mean;
        assert!((cv - 2.0).abs() < 0.25, "{arrivals:?}: {cv}");
    }
}

#[test]
fn another_load_keeps_destinations_and_sizes_of_bursty_traffic() {
    let pairs = |load, arrivals| {
        let mut flows = flows(&[random(load, "websearch", 1_000, Locality::default(), arrivals)], &network(8), 5);
        flows.retain(|flow| flow.src == 2);
        flows.into_iter().map(|flow| (flow.dst, flow.bytes)).take(50).collect::<Vec<_>>()
    };
    for arrivals in [Arrivals::LogNormal { cv: 0.5 }, Arrivals::OnOff { cv: 1.2, on_share: 0.5 }] {
        assert_eq!(pairs(0.3, arrivals), pairs(0.9, arrivals), "{arrivals:?}");
    }
}

#[test]
fn receivers_take_turns_or_are_drawn() {
    let receivers = |rotation, repeats| {
        let flows = flows(&[incast_to(Receiver::Changing(rotation), 3, 3_000, repeats, 1)], &network(5), 1);
        for request in flows.chunks(3) {
            assert!(request.iter().all(|flow| flow.dst == request[0].dst && flow.src != flow.dst));
        }
        flows.chunks(3).map(|request| request[0].dst).collect::<Vec<_>>()
    };
    assert_eq!(receivers(Rotation::RoundRobin, 7), [0, 1, 2, 3, 4, 0, 1]);
    let mut counts = [0u32; 5];
    receivers(Rotation::Random, 5_000).into_iter().for_each(|host| counts[host as usize] += 1);
    // Each host should receive 1,000 requests, with a standard deviation of 28.
    assert!(counts.iter().all(|count| count.abs_diff(1_000) < 140), "{counts:?}");
}

#[test]
fn changing_receivers_wait_for_the_slowest_link() {
    // As above, three packets take 649.2 ns at 40 Gbps: four times that is 3 us, and at 10 Gbps 11 us.
    let mut network = network(8);
    network.host_rate[6] = BitRate::from_gbps(10);
    let second = |receiver| flows(&[incast_to(receiver, 3, 3_000, 2, 1)], &network, 1)[3].start;
    assert_eq!(second(Receiver::Host(0)), Time::from_us(3));
    assert_eq!(second(Receiver::Host(6)), Time::from_us(11));
    assert_eq!(second(Receiver::Changing(Rotation::Random)), Time::from_us(11));
}
