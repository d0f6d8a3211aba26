//! Closed loops: pairs of hosts that send message after message, hosts that send to all others in turn, and incasts that make request after
//! request.
//!
//! What a loop sends next starts when the senders of its last round know that all of it has arrived, and have thought about it; of a host that
//! sends to all others, when it knows that of one of its messages. A sender
//! knows when a minimal frame, sent as the last byte arrives, would have come back over an empty fabric. So a loop reacts to the
//! fabric at least one lookahead of the engine later, as everything on a fabric does.

use super::network::Network;
use super::rng::Stream;
use super::rounds::{check_incast, draw_incast};
use super::{FlowSpec, SizeDistribution};
use rnic_run::{Incast, Traffic, TrafficPattern};
use rnic_transport::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// All closed loops of a run. It holds what is waiting or in flight and which lasting connections there are, and nothing else of the past.
#[derive(Debug)]
pub struct Loops {
    seed: u64,
    hosts: u32,
    sources: Vec<Source>,
    members: Vec<Member>,
    /// (start, traffic source, sending host of a pair, member) of every round that is to start.
    pending: BinaryHeap<Reverse<(Time, u16, u32, u32)>>,
    /// Flows of the round that is starting.
    starting: VecDeque<(FlowSpec, Origin)>,
    /// By number of the flow among those that there are: the member that it belongs to.
    flows: Vec<u32>,
    /// Lasting connections by member, sending host, and which one of these.
    connections: BTreeMap<(u32, u32, u32), u32>,
    next_request: u32,
}

/// What a flow belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Its loop, or [`Loops::NONE`].
    pub member: u32,
    /// Its lasting connection, or [`Loops::NONE`]. They are numbered from 0 in order of their first flows; a connection has one flow at a time.
    pub connection: u32,
}

/// What the loops of one traffic source share.
#[derive(Debug)]
struct Source {
    traffic: u16,
    think: Time,
    rounds: Option<u32>,
    kind: Kind,
    /// Whether flows share connections.
    lasting: bool,
    /// Flows that came so far.
    made: u64,
    /// Flows in all.
    total: Option<u64>,
    warmup: u64,
    cooldown: u64,
}

#[derive(Debug)]
enum Kind {
    Pairs(SizeDistribution),
    AllToAll(SizeDistribution),
    Incast(Incast),
}

/// One loop: a pair, a host that sends to all others, or an incast.
#[derive(Debug)]
struct Member {
    source: u32,
    /// Rounds that have started or are to start.
    rounds: u32,
    /// Flows that have started and not finished.
    open: u32,
    /// When the senders of those that have finished know it, at the latest.
    known: Time,
    /// Of a pair, or of a host and the next to which it sends: the hosts, and the sizes to come.
    pair: Option<(u32, u32, Stream)>,
}

impl Loops {
    /// No loop, and no connection.
    pub const NONE: u32 = u32::MAX;
    /// Of a flow that is part of no loop.
    pub const OUTSIDE: Origin = Origin { member: Loops::NONE, connection: Loops::NONE };
    /// Most pairs of one source.
    pub const MOST_PAIRS: u32 = 1_000_000;

    /// Why this source cannot run on this network.
    pub fn check(traffic: &Traffic, network: &Network) -> Result<(), String> {
        match &traffic.pattern {
            TrafficPattern::Pairs { pairs, sizes, .. } if (1..=Loops::MOST_PAIRS).contains(pairs) => sizes.validate(),
            TrafficPattern::Pairs { pairs, .. } => Err(format!("pairs is {pairs}; write 1 to {}", Loops::MOST_PAIRS)),
            TrafficPattern::IncastLoop { incast, .. } => check_incast(incast, network),
            TrafficPattern::AllToAllLoop { sizes, repeats, at_once, .. } => {
                let others = network.hosts - 1;
                if !(1..=others).contains(at_once) {
                    return Err(format!("at_once is {at_once}; a host has 1 to {others} others to send to"));
                }
                if repeats.checked_mul(others).is_none() {
                    return Err(format!("{repeats} repetitions are too many; write 1 to {}", u32::MAX / others));
                }
                sizes.validate()
            }
            _ => Ok(()),
        }
    }

    /// The closed loops among `traffic`, drawn from `seed`; `None` where there are none. Requests are numbered from `first_request` on,
    /// in order of start. A source that is not possible has no loops.
    pub fn new(traffic: &[Traffic], network: &Network, seed: u64, first_request: u32) -> Option<Loops> {
        let mut loops = Loops {
            seed,
            hosts: network.hosts,
            sources: Vec::new(),
            members: Vec::new(),
            pending: BinaryHeap::new(),
            starting: VecDeque::new(),
            flows: Vec::new(),
            connections: BTreeMap::new(),
            next_request: first_request,
        };
        for (index, source) in (0..u16::MAX).zip(traffic) {
            if source.pattern.is_closed() && Loops::check(source, network).is_ok() {
                loops.add(index, source);
            }
        }
        (!loops.members.is_empty()).then_some(loops)
    }

    fn add(&mut self, index: u16, traffic: &Traffic) {
        let hosts = self.hosts;
        // Loops, and rounds of each that are under way at once.
        let (members, at_once) = match &traffic.pattern {
            TrafficPattern::Pairs { pairs, .. } => (*pairs, 1),
            TrafficPattern::AllToAllLoop { at_once, .. } => (hosts, *at_once),
            _ => (1, 1),
        };
        let (kind, think, lasting, rounds) = match &traffic.pattern {
            TrafficPattern::Pairs { sizes, messages, think, lasting, .. } => {
                (Kind::Pairs(sizes.clone()), *think, *lasting, *messages)
            }
            TrafficPattern::AllToAllLoop { sizes, repeats, think, .. } => {
                (Kind::AllToAll(sizes.clone()), *think, false, Some(repeats.saturating_mul(hosts - 1)))
            }
            TrafficPattern::IncastLoop { incast, repeats, think, lasting } => {
                (Kind::Incast(*incast), *think, *lasting, *repeats)
            }
            _ => return,
        };
        let per_round = match &kind {
            Kind::Pairs(_) | Kind::AllToAll(_) => u64::from(members),
            Kind::Incast(incast) => incast.flows(),
        };
        let total = rounds.map(|rounds| per_round.saturating_mul(u64::from(rounds)));
        let number = self.sources.len() as u32;
        for entity in 0..members {
            let mut stream = Stream::new(self.seed, index, u64::from(entity));
            let pair = match kind {
                Kind::Pairs(_) => {
                    let src = stream.below(hosts);
                    let other = stream.below(hosts - 1);
                    Some((src, if other < src { other } else { other + 1 }, stream))
                }
                Kind::AllToAll(_) => Some((entity, (entity + 1) % hosts, stream)),
                Kind::Incast(_) => None,
            };
            self.members.push(Member { source: number, rounds: 0, open: 0, known: traffic.start, pair });
        }
        let Traffic { warmup, cooldown, .. } = *traffic;
        self.sources.push(Source { traffic: index, think, rounds, kind, lasting, made: 0, total, warmup, cooldown });
        for member in self.members.len() - members as usize..self.members.len() {
            (0..at_once).for_each(|_| self.schedule(member as u32, traffic.start));
        }
    }

    /// Number of flows in all, those already started included; `None` for loops without an end.
    pub fn total(&self) -> Option<u64> {
        self.sources.iter().try_fold(0u64, |sum, source| Some(sum.saturating_add(source.total?)))
    }

    /// Start and traffic source of the next flow, as far as they are known by now.
    pub fn head(&self) -> Option<(Time, u16)> {
        let starting = self.starting.front().map(|(flow, _)| (flow.start, flow.traffic));
        starting.or_else(|| self.pending.peek().map(|Reverse((start, traffic, ..))| (*start, *traffic)))
    }

    /// Start of the next flow, [`Time::MAX`] while none is known.
    pub fn next_start(&self) -> Time {
        self.head().map_or(Time::MAX, |(start, _)| start)
    }

    /// Takes the next flow, and what it belongs to.
    pub fn take(&mut self) -> Option<(FlowSpec, Origin)> {
        if self.starting.is_empty() {
            let Reverse((start, _, _, member)) = self.pending.pop()?;
            self.start_round(member, start);
        }
        self.starting.pop_front()
    }

    /// The flow that has this number now belongs to loop `member`, or to [`Loops::NONE`].
    pub fn place(&mut self, flow: u32, member: u32) {
        if self.flows.len() <= flow as usize {
            self.flows.resize(flow as usize + 1, Loops::NONE);
        }
        self.flows[flow as usize] = member;
    }

    /// Whether the flow belongs to a loop.
    pub fn holds(&self, flow: u32) -> bool {
        self.flows.get(flow as usize).is_some_and(|member| *member != Loops::NONE)
    }

    /// All of the flow has arrived; its sender knows at `known`.
    pub fn complete(&mut self, flow: u32, known: Time) {
        let number = std::mem::replace(&mut self.flows[flow as usize], Loops::NONE);
        let Some(member) = self.members.get_mut(number as usize) else { return };
        let source = &self.sources[member.source as usize];
        member.open -= 1;
        member.known = member.known.max(known);
        if matches!(source.kind, Kind::AllToAll(_)) {
            // It waits for none of its other messages.
            let start = known.saturating_add(source.think);
            self.schedule(number, start);
        } else if member.open == 0 {
            let start = member.known.saturating_add(source.think);
            self.schedule(number, start);
        }
    }

    /// Another round of a loop is to start, if there is one.
    fn schedule(&mut self, number: u32, start: Time) {
        let member = &mut self.members[number as usize];
        let source = &self.sources[member.source as usize];
        if source.rounds.is_none_or(|rounds| member.rounds < rounds) && start < Time::MAX {
            member.rounds = member.rounds.saturating_add(1);
            let src = member.pair.as_ref().map_or(0, |(src, ..)| *src);
            self.pending.push(Reverse((start, source.traffic, src, number)));
        }
    }

    /// Draws the flows of a loop's next round.
    fn start_round(&mut self, number: u32, start: Time) {
        let member = &mut self.members[number as usize];
        let source = &mut self.sources[member.source as usize];
        let flow = FlowSpec {
            start,
            src: 0,
            dst: 0,
            bytes: 1,
            request: FlowSpec::NO_REQUEST,
            traffic: source.traffic,
            measured: true,
        };
        let mut flows = VecDeque::new();
        match (&source.kind, &mut member.pair) {
            (Kind::Pairs(sizes), Some((src, dst, stream))) => {
                let bytes = sizes.sample(stream.unit());
                flows.push_back(FlowSpec { src: *src, dst: *dst, bytes, ..flow });
            }
            (Kind::AllToAll(sizes), Some((src, dst, stream))) => {
                let bytes = sizes.sample(stream.unit());
                flows.push_back(FlowSpec { src: *src, dst: *dst, bytes, ..flow });
                *dst = (*dst + 1) % self.hosts;
                *dst = if dst == src { (*dst + 1) % self.hosts } else { *dst };
            }
            (Kind::Incast(incast), _) => {
                // One request at a time: the latest of the rounds.
                let mut stream = Stream::new(self.seed, source.traffic, u64::from(member.rounds - 1));
                let request = self.next_request;
                self.next_request = request.saturating_add(1).min(FlowSpec::NO_REQUEST - 1);
                draw_incast(incast, &mut stream, self.hosts, FlowSpec { request, ..flow }, &mut flows);
                // Stable: each sender's flows keep their order.
                flows.make_contiguous().sort_by_key(|flow| flow.src);
            }
            (Kind::Pairs(_) | Kind::AllToAll(_), None) => {}
        }
        member.open += flows.len() as u32;
        let last = source.total.map_or(u64::MAX, |total| total.saturating_sub(source.cooldown));
        // The sender of the flow before, and how many of this round it has.
        let (mut sender, mut of_sender) = (Loops::NONE, 0);
        for flow in flows {
            let measured = (source.warmup..last).contains(&source.made);
            source.made += 1;
            of_sender = if flow.src == sender { of_sender + 1 } else { 0 };
            sender = flow.src;
            let connection = if source.lasting {
                let next = self.connections.len() as u32;
                *self.connections.entry((number, sender, of_sender)).or_insert(next)
            } else {
                Loops::NONE
            };
            self.starting.push_back((FlowSpec { measured, ..flow }, Origin { member: number, connection }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loops;
    use crate::sizes;
    use proptest::prelude::*;
    use rnic_transport::{BitRate, Bytes};
    use std::path::Path;

    fn network(hosts: u32) -> Network {
        Network { hosts, host_rate: vec![BitRate::from_gbps(40); hosts as usize], mtu: 1_024, wire_overhead: 82 }
    }

    fn traffic(pattern: TrafficPattern) -> Traffic {
        Traffic { name: "t".into(), pattern, warmup: 2, cooldown: 3, start: Time::from_us(5) }
    }

    fn pairs(pairs: u32, messages: Option<u32>) -> Traffic {
        let sizes = sizes::parse("uniform 1 KB - 9 KB", Path::new("")).unwrap();
        traffic(TrafficPattern::Pairs { pairs, sizes, messages, think: Time::from_us(1), lasting: true })
    }

    fn incast(senders: u32, repeats: Option<u32>) -> Traffic {
        let incast = Incast { senders, total: Bytes(10_001), receiver: 1, connections: 2 };
        traffic(TrafficPattern::IncastLoop { incast, repeats, think: Time::from_us(1), lasting: true })
    }

    fn all_to_all(at_once: u32, repeats: u32) -> Traffic {
        let sizes = sizes::parse("uniform 1 KB - 9 KB", Path::new("")).unwrap();
        traffic(TrafficPattern::AllToAllLoop { sizes, repeats, at_once, think: Time::from_us(1) })
    }

    /// Takes all flows and completes them in a scrambled order, each known 10 us after its start, and `spread` for each number of its
    /// sending host.
    fn drain(loops: &mut Loops, spread: Time, scramble: usize) -> Vec<(FlowSpec, Origin)> {
        let (mut all, mut open, mut slot) = (Vec::new(), Vec::new(), 0);
        loop {
            while let Some((flow, origin)) = loops.take() {
                loops.place(slot, origin.member);
                open.push((slot, flow.start + Time::from_us(10) + spread * u64::from(flow.src)));
                all.push((flow, origin));
                slot += 1;
            }
            if open.is_empty() {
                break;
            }
            let (slot, known) = open.remove(scramble % open.len());
            assert!(loops.holds(slot));
            loops.complete(slot, known);
            assert!(!loops.holds(slot));
        }
        all
    }

    #[test]
    fn one_round_after_another() {
        let mut loops = closed_loops(&[incast(3, Some(2)), pairs(2, Some(3))], &network(8), 1).unwrap();
        assert_eq!(loops.total(), Some(18));
        let all = drain(&mut loops, Time::ZERO, 0);
        assert_eq!(all.len(), 18);
        let starts = |traffic| -> Vec<u64> {
            let of = all.iter().filter(|(flow, _)| flow.traffic == traffic);
            of.map(|(flow, _)| flow.start.as_ps() / 1_000_000).collect()
        };
        assert_eq!(starts(0), [[5; 6], [16; 6]].concat(), "one more after 10 us and a think time of 1 us");
        assert_eq!(starts(1), [5, 5, 16, 16, 27, 27]);
        let requests: Vec<u32> = all.iter().filter(|(f, _)| f.traffic == 0).map(|(f, _)| f.request).collect();
        assert_eq!(requests, [[0; 6], [1; 6]].concat());
        let measured = all.iter().filter(|(f, _)| f.traffic == 0).map(|(f, _)| f.measured);
        assert_eq!(measured.filter(|measured| *measured).count(), 12 - 5);
        assert_eq!(all.iter().filter(|(f, _)| f.request == 0).map(|(f, _)| f.bytes).sum::<u64>(), 10_001);
    }

    #[test]
    fn hosts_send_to_the_next_and_then_to_those_after_it() {
        let mut loops = closed_loops(&[all_to_all(2, 2)], &network(4), 1).unwrap();
        assert_eq!(loops.total(), Some(24));
        let all = drain(&mut loops, Time::ZERO, 0);
        let of = |host| -> Vec<(u64, u32)> {
            let flows = all.iter().map(|(flow, _)| flow).filter(|flow| flow.src == host);
            flows.map(|flow| (flow.start.as_ps() / 1_000_000, flow.dst)).collect()
        };
        // Two at a time, each known after 10 us, and 1 us of thought.
        assert_eq!(of(0), [(5, 1), (5, 2), (16, 3), (16, 1), (27, 2), (27, 3)]);
        assert_eq!(of(2), [(5, 3), (5, 0), (16, 1), (16, 3), (27, 0), (27, 1)]);
        let measured: Vec<bool> = all.iter().map(|(flow, _)| flow.measured).collect();
        assert_eq!(measured, [[false; 2].as_slice(), &[true; 19], &[false; 3]].concat());
    }

    #[test]
    fn a_message_that_takes_long_holds_up_none_but_itself() {
        let mut loops = closed_loops(&[all_to_all(2, 1)], &network(4), 1).unwrap();
        // All but the first message of host 0 take 10 us.
        let mut of_host_0 = Vec::new();
        for slot in 0.. {
            let Some((flow, origin)) = loops.take() else { break };
            loops.place(slot, origin.member);
            if flow.src == 0 {
                of_host_0.push((flow.start.as_ps() / 1_000_000, flow.dst));
            }
            if (flow.src, flow.dst) != (0, 1) {
                loops.complete(slot, flow.start + Time::from_us(10));
            }
        }
        assert_eq!(of_host_0, [(5, 1), (5, 2), (16, 3)]);
    }

    #[test]
    fn a_connection_is_that_of_its_two_hosts() {
        // Three of four hosts send over two connections each; a host's are the same in each request.
        let mut loops = closed_loops(&[incast(3, Some(9)), pairs(2, Some(3))], &network(5), 1).unwrap();
        let all = drain(&mut loops, Time::ZERO, 0);
        let mut hosts: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        let mut requests: BTreeMap<(u32, Time), Vec<u32>> = BTreeMap::new();
        for (flow, Origin { member, connection }) in &all {
            assert_eq!(*hosts.entry(*connection).or_insert((*member, flow.src)), (*member, flow.src));
            requests.entry((*member, flow.start)).or_default().push(*connection);
        }
        assert!(hosts.keys().copied().eq(0..4 * 2 + 2), "as many as there are senders");
        for at_once in requests.values_mut() {
            at_once.sort_unstable();
            assert!(at_once.is_sorted_by(|a, b| a < b), "one flow at a time");
        }
        // Without, there are none.
        let mut traffic = pairs(2, Some(3));
        let TrafficPattern::Pairs { lasting, .. } = &mut traffic.pattern else { panic!("no pairs") };
        *lasting = false;
        let mut loops = closed_loops(&[traffic], &network(5), 1).unwrap();
        assert!(drain(&mut loops, Time::ZERO, 0).iter().all(|(_, origin)| origin.connection == Loops::NONE));
    }

    #[test]
    fn open_traffic_has_no_loops_and_impossible_ones_neither() {
        let network = network(4);
        assert!(closed_loops(&[], &network, 1).is_none());
        assert!(closed_loops(&[incast(4, None)], &network, 1).is_none());
        let error = crate::check(&[incast(4, None)], &network).unwrap_err();
        assert_eq!(error, "traffic `t`: senders is 4; besides the receiver there are 1 to 3 hosts");
        let error = crate::check(&[pairs(0, None)], &network).unwrap_err();
        assert_eq!(error, "traffic `t`: pairs is 0; write 1 to 1000000");
        for at_once in [0, 4] {
            let error = crate::check(&[all_to_all(at_once, 1)], &network).unwrap_err();
            assert_eq!(error, format!("traffic `t`: at_once is {at_once}; a host has 1 to 3 others to send to"));
        }
        let error = crate::check(&[all_to_all(1, u32::MAX)], &network).unwrap_err();
        assert_eq!(error, "traffic `t`: 4294967295 repetitions are too many; write 1 to 1431655765");
    }

    proptest! {
        #[test]
        fn never_two_messages_of_a_pair_at_once(
            count in 1u32..20, messages in 1u32..6, hosts in 2u32..9, seed: u64, scramble in 0usize..7,
        ) {
            let mut loops = closed_loops(&[pairs(count, Some(messages))], &network(hosts), seed).unwrap();
            let all = drain(&mut loops, Time::ZERO, scramble);
            prop_assert_eq!(all.len() as u32, count * messages);
            prop_assert_eq!(Some(all.len() as u64), loops.total());
            for pair in 0..count {
                let of: Vec<FlowSpec> = all.iter().filter(|(_, origin)| origin.member == pair).map(|(flow, _)| *flow).collect();
                prop_assert_eq!(of.len() as u32, messages);
                for two in of.windows(2) {
                    prop_assert_eq!(two[1].start, two[0].start + Time::from_us(11));
                    prop_assert_eq!((two[1].src, two[1].dst), (two[0].src, two[0].dst));
                }
                prop_assert!(of.iter().all(|f| f.src != f.dst && f.src < hosts && f.dst < hosts));
                prop_assert!(of.iter().all(|f| (1_000..=9_000).contains(&f.bytes)));
            }
        }

        /// Every host sends to each of the others as often as asked for, and never has more messages under way.
        #[test]
        fn all_to_all_has_no_more_at_once(
            hosts in 2u32..9, at_once in 1u32..8, repeats in 1u32..4, seed: u64, scramble in 0usize..7,
        ) {
            let at_once = at_once.min(hosts - 1);
            let mut loops = closed_loops(&[all_to_all(at_once, repeats)], &network(hosts), seed).unwrap();
            let all = drain(&mut loops, Time::from_us(1), scramble);
            prop_assert_eq!(Some(all.len() as u64), loops.total());
            let mut times: BTreeMap<(u32, u32), u32> = BTreeMap::new();
            for (flow, _) in &all {
                *times.entry((flow.src, flow.dst)).or_default() += 1;
                let known = |flow: &FlowSpec| flow.start + Time::from_us(10 + u64::from(flow.src));
                let others = all.iter().map(|(other, _)| other).filter(|other| other.src == flow.src);
                let open = others.filter(|other| other.start <= flow.start && known(other) > flow.start).count();
                prop_assert!(open as u32 <= at_once, "{} under way", open);
            }
            prop_assert_eq!(times.len() as u32, hosts * (hosts - 1));
            prop_assert!(times.values().all(|count| *count == repeats));
        }

        /// What finishes first does not matter to what a loop sends.
        #[test]
        fn the_order_of_completions_does_not_matter(senders in 1u32..7, seed: u64, scramble in 1usize..7) {
            let sorted = |scramble| {
                let sources = [incast(senders, Some(4)), pairs(3, Some(4)), all_to_all(1, 2)];
                let mut all = drain(&mut closed_loops(&sources, &network(8), seed).unwrap(), Time::from_us(1), scramble);
                all.sort_by_key(|(f, origin)| (origin.member, f.start, f.src));
                all.into_iter().map(|(f, _)| (f.start, f.src, f.dst, f.bytes)).collect::<Vec<_>>()
            };
            prop_assert_eq!(sorted(0), sorted(scramble));
        }
    }
}
