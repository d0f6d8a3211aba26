//! Incast and permutation traffic: a number of repetitions; all flows of a repetition start at the same time.

use super::network::Network;
use super::rng::Stream;
use super::{FlowSpec, SizeDistribution};
use rnic_spec::{Incast, Receiver, Rotation, Traffic, TrafficPattern};
use rnic_transport::Time;
use std::collections::VecDeque;

/// A source of incast or permutation traffic. Each repetition of the pattern draws from its own random stream.
#[derive(Debug)]
pub(crate) struct Rounds {
    traffic: u16,
    seed: u64,
    hosts: u32,
    start: Time,
    interval: Time,
    pattern: TrafficPattern,
    repeats: u32,
    next_round: u32,
    /// Flows of the current repetition that [`Rounds::next`] has not yet returned.
    pending: VecDeque<FlowSpec>,
}

impl Rounds {
    /// Checks that an incast, permutation or all-to-all source can run on this network; the error says why it cannot.
    pub(crate) fn check(traffic: &Traffic, network: &Network) -> Result<(), String> {
        match &traffic.pattern {
            TrafficPattern::Incast { senders, total, receiver, connections, .. } => {
                let (senders, total, receiver, connections) = (*senders, *total, *receiver, *connections);
                check_incast(&Incast { senders, total, receiver, connections }, network)?;
            }
            TrafficPattern::Permutation { sizes, .. } | TrafficPattern::AllToAll { sizes, .. } => sizes.validate()?,
            _ => {}
        }
        let (repeats, interval) = timing(&traffic.pattern, network);
        let last = u128::from(traffic.start.as_ps()) + u128::from(repeats.saturating_sub(1)) * interval;
        if last >= u128::from(Time::MAX.as_ps()) {
            return Err(format!(
                "the last of {repeats} repetitions would start after 213 days, the maximum of simulated time"
            ));
        }
        Ok(())
    }

    /// Creates the source for `traffic`, which must have passed [`Rounds::check`].
    pub(crate) fn new(index: u16, traffic: &Traffic, network: &Network, seed: u64) -> Rounds {
        let (repeats, interval) = timing(&traffic.pattern, network);
        Rounds {
            traffic: index,
            seed,
            hosts: network.hosts,
            start: traffic.start,
            interval: Time::from_ps(interval.try_into().unwrap_or(u64::MAX)),
            pattern: traffic.pattern.clone(),
            repeats,
            next_round: 0,
            pending: VecDeque::new(),
        }
    }

    /// Number of flows in all repetitions together.
    pub(crate) fn total(&self) -> u64 {
        let hosts = u64::from(self.hosts);
        let flows = match &self.pattern {
            TrafficPattern::Incast { senders, connections, .. } => u64::from(*senders) * u64::from(*connections),
            TrafficPattern::Permutation { .. } => hosts,
            _ => 0,
        };
        flows.saturating_mul(u64::from(self.repeats))
    }

    /// Returns the next flow, in order of start and sender; `None` after the last repetition.
    pub(crate) fn next(&mut self) -> Option<FlowSpec> {
        if self.pending.is_empty() {
            self.refill();
        }
        self.pending.pop_front()
    }

    /// Draws the flows of the next repetition, or of all repetitions if they start at the same time.
    fn refill(&mut self) {
        while self.next_round < self.repeats {
            self.draw_round(self.next_round);
            self.next_round += 1;
            if self.interval > Time::ZERO {
                break;
            }
        }
        // The sort is stable, so each sender's flows keep their order.
        self.pending.make_contiguous().sort_by_key(|flow| flow.src);
    }

    /// Draws the flows of one repetition, and appends them to `pending`.
    fn draw_round(&mut self, round: u32) {
        let mut stream = Stream::new(self.seed, self.traffic, u64::from(round));
        let flow = FlowSpec {
            start: self.start + self.interval * u64::from(round),
            src: 0,
            dst: 0,
            bytes: 1,
            request: FlowSpec::NO_REQUEST,
            traffic: self.traffic,
            measured: true,
            hash: None,
        };
        let hosts = self.hosts;
        match &self.pattern {
            TrafficPattern::Incast { senders, total, receiver, connections, .. } => {
                let (senders, total, receiver, connections) = (*senders, *total, *receiver, *connections);
                let incast = Incast { senders, total, receiver, connections };
                let flow = FlowSpec { request: round, ..flow };
                draw_incast(&incast, round, &mut stream, hosts, flow, &mut self.pending);
            }
            TrafficPattern::Permutation { sizes, .. } => {
                let destinations = draw_cycle(&mut stream, hosts);
                let pairs = (0..).zip(destinations).map(|(src, dst)| sized(flow, src, dst, sizes, &mut stream));
                self.pending.extend(pairs);
            }
            _ => {}
        }
    }
}

/// Checks that an incast can run on this network: its receiver, number of senders and total size; the error says why it
/// cannot.
pub(crate) fn check_incast(incast: &Incast, network: &Network) -> Result<(), String> {
    let Incast { senders, total, receiver, connections } = *incast;
    let (hosts, others) = (network.hosts, network.hosts - 1);
    if let Receiver::Host(receiver) = receiver
        && receiver >= hosts
    {
        return Err(format!("receiver is host {receiver}; accepted: 0 to {others}, the hosts of the fabric"));
    }
    if !(1..=others).contains(&senders) {
        return Err(format!("senders is {senders}; accepted: 1 to {others}, the number of hosts without the receiver"));
    }
    if incast.flows() == 0 || total.0 < incast.flows() {
        return Err(format!(
            "{senders} senders with {connections} connections each share {total}; \
                 accepted: at least 1 connection per sender and 1 B per connection"
        ));
    }
    Ok(())
}

/// Draws the senders of the incast request number `round`, and its receiver if this is random, and appends the
/// request's flows to `flows`. The argument `flow` gives all fields of these flows except sender, receiver and size.
pub(crate) fn draw_incast(
    incast: &Incast, round: u32, stream: &mut Stream, hosts: u32, flow: FlowSpec, flows: &mut VecDeque<FlowSpec>,
) {
    let receiver = match incast.receiver {
        Receiver::Host(receiver) => receiver,
        Receiver::Changing(Rotation::RoundRobin) => round % hosts,
        Receiver::Changing(Rotation::Random) => stream.below(hosts),
    };
    let senders = draw_senders(stream, hosts, receiver, incast.senders);
    for (src, bytes) in senders.iter().zip(split(incast.total.0, senders.len() as u64)) {
        let parts = split(bytes, u64::from(incast.connections));
        flows.extend(parts.map(|bytes| FlowSpec { src: *src, dst: receiver, bytes, ..flow }));
    }
}

/// Returns a copy of `flow` that goes from host `src` to host `dst`, with a size drawn from `sizes`.
fn sized(flow: FlowSpec, src: u32, dst: u32, sizes: &SizeDistribution, stream: &mut Stream) -> FlowSpec {
    FlowSpec { src, dst, bytes: sizes.sample(stream.unit()), ..flow }
}

/// Returns the number of repetitions of a traffic pattern, and the time between two repetitions in picoseconds.
pub(crate) fn timing(pattern: &TrafficPattern, network: &Network) -> (u32, u128) {
    match pattern {
        TrafficPattern::Incast { repeats, interval: Some(interval), .. }
        | TrafficPattern::Permutation { repeats, interval, .. }
        | TrafficPattern::AllToAll { repeats, interval, .. } => (*repeats, u128::from(interval.as_ps())),
        TrafficPattern::Incast { repeats, interval: None, senders, total, receiver, connections } => {
            let wire_bytes: u128 = equal_parts(total.0, u64::from(*senders))
                .into_iter()
                .flat_map(|(count, bytes)| equal_parts(bytes, u64::from(*connections)).map(|part| (count, part)))
                .map(|(count, (flows, bytes))| u128::from(count) * u128::from(flows) * network.wire_bytes(bytes))
                .sum();
            let rate = match receiver {
                Receiver::Host(receiver) => network.host_rate.get(*receiver as usize),
                Receiver::Changing(_) => network.host_rate.iter().min(),
            };
            let rate = rate.map_or(1, |rate| rate.as_bps().max(1));
            // Four times the time that the request occupies the receiver's link, rounded up to whole microseconds. If
            // the receiver changes, this is the slowest link of a host.
            let micros = (wire_bytes * 4 * 8 * 1_000_000).div_ceil(u128::from(rate));
            (*repeats, micros * 1_000_000)
        }
        _ => (0, 0),
    }
}

/// Splits `total` into `parts` parts whose sizes differ by at most 1; returns (number, size) of the larger parts and of
/// the smaller parts.
fn equal_parts(total: u64, parts: u64) -> [(u64, u64); 2] {
    let (each, larger) = (total / parts.max(1), total % parts.max(1));
    [(larger, each + 1), (parts - larger, each)]
}

/// Returns the sizes of the parts of [`equal_parts`], one by one.
fn split(total: u64, parts: u64) -> impl Iterator<Item = u64> {
    equal_parts(total, parts).into_iter().flat_map(|(count, size)| (0..count).map(move |_| size))
}

/// `count` distinct hosts other than `receiver`, in random order (a partial Fisher-Yates shuffle).
fn draw_senders(stream: &mut Stream, hosts: u32, receiver: u32, count: u32) -> Vec<u32> {
    let mut others: Vec<u32> = (0..hosts).filter(|host| *host != receiver).collect();
    let count = others.len().min(count as usize);
    for i in 0..count {
        let j = i + stream.below((others.len() - i) as u32) as usize;
        others.swap(i, j);
    }
    others.truncate(count);
    others
}

/// A uniformly random cyclic permutation (Sattolo's algorithm). Entry i is the destination of host i, and never i.
fn draw_cycle(stream: &mut Stream, hosts: u32) -> Vec<u32> {
    let mut destinations: Vec<u32> = (0..hosts).collect();
    for i in (1..destinations.len()).rev() {
        destinations.swap(i, stream.below(i as u32) as usize);
    }
    destinations
}
