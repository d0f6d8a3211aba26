//! The average rates at which the traffic of a run offers bytes to the network, from the settings of its sources.

use super::network::Network;
use super::rounds::timing;
use rnic_spec::{FlowSpec, Receiver, SizeDistribution, Traffic, TrafficPattern};

/// Minimum number of different start times of a flow list that offers bytes at a rate; fewer are a few bursts.
const MIN_STARTS: usize = 20;

/// A flow list offers bytes at a rate if its flows start for this many times as long as the average flow takes alone.
const MIN_SPAN: f64 = 10.0;

/// Bytes that a traffic source offers per second, on average while it starts flows, in bit/s on the links.
#[derive(Clone, PartialEq, Debug)]
pub enum Offered {
    /// Each host sends to all other hosts evenly; the rates are what each host sends.
    ToAllOthers(Vec<f64>),
    /// One host receives from all other hosts evenly.
    FromAllOthers {
        /// The receiving host.
        to: u32,
        /// What it receives.
        rate: f64,
    },
    /// Single pairs of hosts: sender, receiver and rate.
    Pairs(Vec<(u32, u32, f64)>),
}

/// The average rates that the sources of `traffic` offer. `overhead` is the number of bytes on a link in addition to
/// the payload of each packet. The result has no entry for sources that do not offer bytes at a rate of their own:
///
/// - closed loops, whose next message waits for an earlier one;
/// - random traffic with a `locality`, whose rates to near and to far hosts differ;
/// - a single repetition of an incast, a permutation or an all-to-all, or several at the same time;
/// - a flow list with fewer than 20 different start times, or whose flows start within less than 10 times the time that
///   its average flow takes on the link of its sender.
///
/// ```
/// use rnic_spec::{Arrivals, Locality, Traffic, TrafficPattern};
/// use rnic_transport::{BitRate, Time};
/// use rnic_workload::{Network, Offered, offered, sizes};
/// use std::path::Path;
///
/// let sizes = sizes::parse("fixed 1 KB", Path::new("."))?;
/// let (locality, arrivals) = (Locality::default(), Arrivals::Poisson);
/// let pattern = TrafficPattern::Poisson { load: 0.5, sizes, flows: 100, locality, arrivals };
/// let traffic = [Traffic { name: "a".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 }];
/// let host_rate = vec![BitRate::from_gbps(40); 3];
/// let network = Network { hosts: 3, host_rate, mtu: 1_000, wire_overhead: 82, ..Network::default() };
/// // With headers of 78 bytes instead of 62, a frame takes 1,098 instead of 1,082 bytes on the link.
/// let Offered::ToAllOthers(rates) = &offered(&traffic, &network, 98)[0] else { panic!() };
/// assert!((rates[0] - 20e9 * 1_098.0 / 1_082.0).abs() < 1.0);
/// # Ok::<(), String>(())
/// ```
pub fn offered(traffic: &[Traffic], network: &Network, overhead: u32) -> Vec<Offered> {
    if network.validate().is_err() {
        return Vec::new();
    }
    traffic.iter().filter_map(|source| of_source(source, network, overhead)).collect()
}

fn of_source(source: &Traffic, network: &Network, overhead: u32) -> Option<Offered> {
    let own = Network { wire_overhead: overhead, ..network.clone() };
    match &source.pattern {
        // The rates to near and to far hosts differ.
        TrafficPattern::Poisson { locality, .. } if !locality.is_uniform() => None,
        TrafficPattern::Poisson { load, sizes, .. } => {
            let share = load * mean_wire_bytes(sizes, &own) / mean_wire_bytes(sizes, network);
            let rates = network.host_rate.iter().map(|rate| share * rate.as_bps() as f64);
            Some(Offered::ToAllOthers(rates.collect()))
        }
        TrafficPattern::Incast { senders, total, receiver, connections, .. } => {
            let flows = u64::from(*senders) * u64::from(*connections);
            let packets = flows * total.0.div_ceil(flows.max(1)).div_ceil(u64::from(own.mtu));
            let bytes = total.0 as f64 + packets as f64 * f64::from(overhead);
            let rate = bytes * repetitions(&source.pattern, network)?;
            Some(match *receiver {
                Receiver::Host(to) => Offered::FromAllOthers { to, rate },
                // On average every host sends and receives an equal part.
                Receiver::Changing(_) => {
                    Offered::ToAllOthers(vec![rate / f64::from(network.hosts); network.hosts as usize])
                }
            })
        }
        TrafficPattern::Permutation { sizes, .. } => {
            let rate = mean_wire_bytes(sizes, &own) * repetitions(&source.pattern, network)?;
            Some(Offered::ToAllOthers(vec![rate; network.hosts as usize]))
        }
        TrafficPattern::AllToAll { sizes, .. } => {
            let others = f64::from(network.hosts - 1);
            let rate = others * mean_wire_bytes(sizes, &own) * repetitions(&source.pattern, network)?;
            Some(Offered::ToAllOthers(vec![rate; network.hosts as usize]))
        }
        TrafficPattern::List { flows } => of_list(flows, &own),
        _ => None,
    }
}

/// Repetitions of a pattern per second, times 8 for bits; `None` if it has no second repetition at a later time.
fn repetitions(pattern: &TrafficPattern, network: &Network) -> Option<f64> {
    let (repeats, interval) = timing(pattern, network);
    (repeats > 1 && interval > 0).then(|| 8e12 / interval as f64)
}

/// Average bytes of a flow on a link, with the headers and frame gaps of its packets.
fn mean_wire_bytes(sizes: &SizeDistribution, network: &Network) -> f64 {
    sizes.mean() + sizes.mean_packets(network.mtu) * f64::from(network.wire_overhead)
}

/// The rates of a flow list, averaged over the time from its first to its last start.
fn of_list(flows: &[FlowSpec], network: &Network) -> Option<Offered> {
    let mut starts: Vec<_> = flows.iter().map(|flow| flow.start).collect();
    starts.sort_unstable();
    starts.dedup();
    let (first, last) = (*starts.first()?, *starts.last()?);
    let span = (last - first).as_ps() as f64;
    let alone = |flow: &FlowSpec| {
        let rate = network.host_rate.get(flow.src as usize).map_or(1, |rate| rate.as_bps().max(1));
        network.wire_bytes(flow.bytes) as f64 * 8e12 / rate as f64
    };
    let average = flows.iter().map(alone).sum::<f64>() / flows.len() as f64;
    if starts.len() < MIN_STARTS || span < MIN_SPAN * average {
        return None;
    }
    // The flows of the last instant begin to offer their bytes when the span ends.
    let within = flows.iter().filter(|flow| flow.start < last);
    let rate = |flow: &FlowSpec| network.wire_bytes(flow.bytes) as f64 * 8e12 / span;
    Some(Offered::Pairs(within.map(|flow| (flow.src, flow.dst, rate(flow))).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizes;
    use rnic_spec::Rotation;
    use rnic_transport::{BitRate, Bytes, Time};
    use std::path::Path;

    /// Four hosts, packets of 1,000 bytes, of which each takes 1,080 on the link.
    fn rates(pattern: TrafficPattern) -> Vec<Offered> {
        let host_rate = vec![BitRate::from_gbps(8); 4];
        let network = Network { hosts: 4, host_rate, mtu: 1_000, wire_overhead: 80, ..Network::default() };
        let traffic = Traffic { name: "a".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
        offered(&[traffic], &network, 80)
    }

    fn fixed(text: &str) -> SizeDistribution {
        sizes::parse(text, Path::new(".")).unwrap()
    }

    #[test]
    fn repeated_patterns_offer_their_bytes_once_in_an_interval() {
        let incast_to = |receiver, repeats, interval| TrafficPattern::Incast {
            senders: 2,
            total: Bytes(20_000),
            repeats,
            receiver,
            connections: 1,
            interval,
        };
        let incast = |repeats, interval| incast_to(Receiver::Host(3), repeats, interval);
        // 20 packets take 21,600 bytes; with one such request in 10 us they are 17.28 Gbps.
        let every = Some(Time::from_us(10));
        assert_eq!(rates(incast(5, every)), [Offered::FromAllOthers { to: 3, rate: 17.28e9 }]);
        assert_eq!(rates(incast(1, every)), []);
        // If the receiver changes, each of the four hosts sends and receives a quarter.
        let changing = incast_to(Receiver::Changing(Rotation::Random), 5, every);
        assert_eq!(rates(changing), [Offered::ToAllOthers(vec![4.32e9; 4])]);
        // By default the receiver's link is busy for a quarter of the interval of 87 us (86.4 rounded up).
        let Offered::FromAllOthers { rate, .. } = rates(incast(2, None))[0] else { panic!() };
        assert!((rate - 21_600.0 * 8e12 / 87e6).abs() < 1.0, "{rate}");

        let (sizes, interval) = (fixed("fixed 2 KB"), Time::from_us(1));
        let permutation = TrafficPattern::Permutation { sizes: sizes.clone(), repeats: 3, interval };
        assert_eq!(rates(permutation), [Offered::ToAllOthers(vec![17.28e9; 4])]);
        let together = TrafficPattern::Permutation { sizes: sizes.clone(), repeats: 3, interval: Time::ZERO };
        assert_eq!(rates(together), []);
        let all = TrafficPattern::AllToAll { sizes, repeats: 3, interval };
        assert_eq!(rates(all), [Offered::ToAllOthers(vec![51.84e9; 4])]);
    }

    #[test]
    fn a_list_offers_its_bytes_over_its_span() {
        let flow = |at: u64, bytes| FlowSpec {
            start: Time::from_us(at),
            src: 0,
            dst: 1,
            bytes,
            request: FlowSpec::NO_REQUEST,
            traffic: 0,
            measured: true,
            hash: None,
        };
        // 21 flows of 1.08 us, one every us: 1,080 bytes in each of 20 us.
        let list = |count, bytes| TrafficPattern::List { flows: (0..count).map(|at| flow(at, bytes)).collect() };
        let Offered::Pairs(pairs) = &rates(list(21, 1_000))[0] else { panic!() };
        assert_eq!(pairs.len(), 20);
        assert!((pairs.iter().map(|(_, _, rate)| rate).sum::<f64>() - 8.64e9).abs() < 1.0);
        assert_eq!(rates(list(19, 1_000)), [], "a few bursts");
        assert_eq!(rates(list(21, 1_000_000)), [], "long flows that start together");
        assert_eq!(rates(TrafficPattern::List { flows: [].into() }), []);
    }

    #[test]
    fn closed_loops_wait_for_the_network() {
        let pattern = TrafficPattern::Pairs {
            pairs: 3,
            sizes: fixed("fixed 1 MB"),
            messages: None,
            think_time: Time::ZERO,
            persistent: false,
        };
        assert_eq!(rates(pattern), []);
    }
}
