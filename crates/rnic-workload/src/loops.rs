//! Closed loops: traffic in which the completion of flows starts further flows.
//!
//! There are three kinds of loops: a pair of hosts with one message at a time, a host that sends to all other hosts in
//! turn with a fixed number of outstanding messages, and an incast with one request at a time. A loop consists of
//! rounds: a round is a message of a pair or a host, or a request of an incast. A pair or an incast starts its next
//! round one think time (a pause of the application) after the senders know that all flows of the round have arrived. A
//! host that sends to all others starts its next message one think time after it knows that one of its messages has
//! arrived.
//!
//! A sender does not know at once that its flow has arrived. The loops assume that the receiver sends a minimal frame
//! when the last byte arrives, and that this frame crosses an empty fabric. The sender knows of the arrival when this
//! frame would arrive. So between the arrival of a flow and the reaction of its loop there is at least one lookahead of
//! the simulation engine (the shortest time in which a frame crosses a link).

use super::network::Network;
use super::rng::Stream;
use super::rounds::{check_incast, draw_incast};
use super::{FlowSpec, SizeDistribution};
use rnic_spec::{Incast, Traffic, TrafficPattern};
use rnic_transport::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// All closed loops of a run. The memory for them grows only with the number of loops, of flows in flight and of
/// persistent connections.
#[derive(Debug)]
pub struct Loops {
    seed: u64,
    hosts: u32,
    sources: Vec<Source>,
    members: Vec<Member>,
    /// The rounds that are scheduled and have not started, each as (start, traffic source, sending host of a pair,
    /// index of the loop in `members`).
    pending: BinaryHeap<Reverse<(Time, u16, u32, u32)>>,
    /// Flows of the round that starts now (a message, or all flows of an incast request) that [`Loops::take`] has not
    /// yet returned.
    starting: VecDeque<(FlowSpec, Origin)>,
    /// The loop to which each flow belongs, as an index into `members`. The flow's current slot in the simulator's flow
    /// table is the index in this list.
    flows: Vec<u32>,
    /// Id of each persistent connection, by (index of the loop in `members`, sending host, receiving host, index among
    /// the connections of this loop between the two hosts).
    connections: BTreeMap<(u32, u32, u32, u32), u32>,
    next_request: u32,
    /// Difference of the ids of consecutive requests.
    request_step: u32,
}

/// The closed loop and the persistent connection to which a flow belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Index of the closed loop, or [`Loops::NONE`] if the flow belongs to none.
    pub member: u32,
    /// Id of the persistent connection that carries the flow, or [`Loops::NONE`] if the flow has a connection of its
    /// own. Ids count from 0 in order of the connections' first flows, for streams apart. A persistent connection that
    /// is not a stream has one flow at a time.
    pub connection: u32,
    /// Whether the connection is a stream, which carries its flows one after the other under one window, and may have
    /// several at a time.
    pub stream: bool,
}

/// The common properties of all closed loops of one traffic source.
#[derive(Debug)]
struct Source {
    traffic: u16,
    think_time: Time,
    rounds: Option<u32>,
    kind: Kind,
    /// Whether the flows of a loop use persistent connections instead of one connection for each flow.
    persistent: bool,
    /// Number of flows that the traffic source has generated so far.
    made: u64,
    /// Total number of flows of the traffic source; `None` for endless traffic.
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

/// One closed loop: a pair of hosts, a host that sends to all others, or an incast.
#[derive(Debug)]
struct Member {
    source: u32,
    /// Number of rounds (messages or incast requests) of this loop that have started or are scheduled to start.
    rounds: u32,
    /// Number of flows of this loop that have started and have not completed.
    open: u32,
    /// The latest time at which a sender of this loop learned that its flow had completed.
    known: Time,
    /// Sender, next receiver, and random stream of message sizes; `None` for an incast.
    pair: Option<(u32, u32, Stream)>,
}

impl Loops {
    /// Value of a field of [`Origin`] that means: the flow belongs to no closed loop, or to no persistent connection.
    pub const NONE: u32 = u32::MAX;
    /// The [`Origin`] of a flow of open-loop traffic, which belongs to no closed loop.
    pub const OUTSIDE: Origin = Origin { member: Loops::NONE, connection: Loops::NONE, stream: false };
    /// Maximum number of pairs of hosts in one traffic source.
    pub const MAX_PAIRS: u32 = rnic_spec::settings::MAX_PAIRS;

    /// Checks that the closed loops of a traffic source can run on this network; accepts any open-loop traffic.
    ///
    /// # Errors
    /// One sentence that says what is impossible and what is accepted.
    pub fn check(traffic: &Traffic, network: &Network) -> Result<(), String> {
        match &traffic.pattern {
            TrafficPattern::Pairs { pairs, sizes, .. } if (1..=Loops::MAX_PAIRS).contains(pairs) => sizes.validate(),
            TrafficPattern::Pairs { pairs, .. } => {
                Err(format!("pairs is {pairs}; accepted: 1 to {}", Loops::MAX_PAIRS))
            }
            TrafficPattern::IncastLoop { incast, .. } => check_incast(incast, network),
            TrafficPattern::AllToAllLoop { sizes, repeats, outstanding, .. } => {
                let others = network.hosts - 1;
                if !(1..=others).contains(outstanding) {
                    return Err(format!(
                        "outstanding is {outstanding}; accepted: 1 to {others}, the number of other hosts"
                    ));
                }
                if repeats.checked_mul(others).is_none() {
                    return Err(format!("{repeats} repetitions are too many: at most {}", u32::MAX / others));
                }
                sizes.validate()
            }
            _ => Ok(()),
        }
    }

    /// Creates the closed loops of `traffic`, with random numbers from `seed`; `None` if `traffic` has no closed loop.
    /// The ids of incast requests count from `first_request`, in order of start. A traffic source that [`Loops::check`]
    /// refuses has no loops.
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
            request_step: 1,
        };
        for (index, source) in (0..u16::MAX).zip(traffic) {
            let is_loop = source.pattern.is_closed()
                && !source.pattern.is_program()
                && !matches!(source.pattern, TrafficPattern::Outside { .. } | TrafficPattern::Triggered(_));
            if is_loop && Loops::check(source, network).is_ok() {
                loops.add(index, source);
            }
        }
        (!loops.members.is_empty()).then_some(loops)
    }

    /// The same loops, which use every `step`-th request id from the `offset`-th on, so that loops with other offsets
    /// use other ids.
    pub fn with_request_ids(self, offset: u32, step: u32) -> Loops {
        Loops { next_request: self.next_request.saturating_add(offset), request_step: step, ..self }
    }

    fn add(&mut self, index: u16, traffic: &Traffic) {
        let hosts = self.hosts;
        // The number of loops of the source, and the number of outstanding rounds (messages or requests) of each loop.
        let (members, outstanding) = match &traffic.pattern {
            TrafficPattern::Pairs { pairs, .. } => (*pairs, 1),
            TrafficPattern::AllToAllLoop { outstanding, .. } => (hosts, *outstanding),
            _ => (1, 1),
        };
        let (kind, think_time, persistent, rounds) = match &traffic.pattern {
            TrafficPattern::Pairs { sizes, messages, think_time, persistent, .. } => {
                (Kind::Pairs(sizes.clone()), *think_time, *persistent, *messages)
            }
            TrafficPattern::AllToAllLoop { sizes, repeats, think_time, .. } => {
                (Kind::AllToAll(sizes.clone()), *think_time, false, Some(repeats.saturating_mul(hosts - 1)))
            }
            TrafficPattern::IncastLoop { incast, repeats, think_time, persistent } => {
                (Kind::Incast(*incast), *think_time, *persistent, *repeats)
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
        self.sources.push(Source {
            traffic: index,
            think_time,
            rounds,
            kind,
            persistent,
            made: 0,
            total,
            warmup,
            cooldown,
        });
        for member in self.members.len() - members as usize..self.members.len() {
            (0..outstanding).for_each(|_| self.schedule(member as u32, traffic.start));
        }
    }

    /// Total number of flows of all closed loops, including flows already started; `None` if a loop is endless.
    pub fn total(&self) -> Option<u64> {
        self.sources.iter().try_fold(0u64, |sum, source| Some(sum.saturating_add(source.total?)))
    }

    /// Start and traffic source of the next flow of any loop; `None` while every loop waits for flows to complete.
    pub fn head(&self) -> Option<(Time, u16)> {
        let starting = self.starting.front().map(|(flow, _)| (flow.start, flow.traffic));
        starting.or_else(|| self.pending.peek().map(|Reverse((start, traffic, ..))| (*start, *traffic)))
    }

    /// Start of the next flow of any loop; [`Time::MAX`] while every loop waits for flows to complete.
    pub fn next_start(&self) -> Time {
        self.head().map_or(Time::MAX, |(start, _)| start)
    }

    /// Takes the next flow of any loop, with the loop and connection that it belongs to; `None` while every loop waits
    /// for flows to complete.
    pub fn take(&mut self) -> Option<(FlowSpec, Origin)> {
        if self.starting.is_empty() {
            let Reverse((start, _, _, member)) = self.pending.pop()?;
            self.start_round(member, start);
        }
        self.starting.pop_front()
    }

    /// Records that the flow in slot `flow` of the simulator's flow table belongs to the closed loop `member`, or to no
    /// loop ([`Loops::NONE`]).
    pub fn place(&mut self, flow: u32, member: u32) {
        if self.flows.len() <= flow as usize {
            self.flows.resize(flow as usize + 1, Loops::NONE);
        }
        self.flows[flow as usize] = member;
    }

    /// Whether the flow in slot `flow` of the simulator's flow table belongs to a closed loop.
    pub fn holds(&self, flow: u32) -> bool {
        self.flows.get(flow as usize).is_some_and(|member| *member != Loops::NONE)
    }

    /// Tells the loops that all bytes of the flow in slot `flow` have arrived, and that its sender knows this from the
    /// time `known` on. Schedules the next round of the flow's loop, unless this round must wait for other flows.
    pub fn complete(&mut self, flow: u32, known: Time) {
        let number = std::mem::replace(&mut self.flows[flow as usize], Loops::NONE);
        let Some(member) = self.members.get_mut(number as usize) else { return };
        let source = &self.sources[member.source as usize];
        member.open -= 1;
        member.known = member.known.max(known);
        if matches!(source.kind, Kind::AllToAll(_)) {
            // The host does not wait for its other messages.
            let start = known.saturating_add(source.think_time);
            self.schedule(number, start);
        } else if member.open == 0 {
            let start = member.known.saturating_add(source.think_time);
            self.schedule(number, start);
        }
    }

    /// Schedules the next round (message or incast request) of the loop with index `number` at `start`, if the loop has
    /// rounds left.
    fn schedule(&mut self, number: u32, start: Time) {
        let member = &mut self.members[number as usize];
        let source = &self.sources[member.source as usize];
        if source.rounds.is_none_or(|rounds| member.rounds < rounds) && start < Time::MAX {
            member.rounds = member.rounds.saturating_add(1);
            let src = member.pair.as_ref().map_or(0, |(src, ..)| *src);
            self.pending.push(Reverse((start, source.traffic, src, number)));
        }
    }

    /// Starts the next round (message or incast request) of a loop: draws its flows.
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
            hash: None,
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
                // There is one request at a time, so this is the latest scheduled round.
                let round = member.rounds - 1;
                let mut stream = Stream::new(self.seed, source.traffic, u64::from(round));
                let request = self.next_request;
                self.next_request = request.saturating_add(self.request_step).min(FlowSpec::NO_REQUEST - 1);
                draw_incast(incast, round, &mut stream, self.hosts, FlowSpec { request, ..flow }, &mut flows);
                // The sort is stable, so each sender's flows keep their order.
                flows.make_contiguous().sort_by_key(|flow| flow.src);
            }
            (Kind::Pairs(_) | Kind::AllToAll(_), None) => {}
        }
        member.open += flows.len() as u32;
        let last = source.total.map_or(u64::MAX, |total| total.saturating_sub(source.cooldown));
        // Sender of the previous flow, and index of the flow among its sender's flows of this round.
        let (mut sender, mut of_sender) = (Loops::NONE, 0);
        for flow in flows {
            let measured = (source.warmup..last).contains(&source.made);
            source.made += 1;
            of_sender = if flow.src == sender { of_sender + 1 } else { 0 };
            sender = flow.src;
            let connection = if source.persistent {
                let next = self.connections.len() as u32;
                *self.connections.entry((number, sender, flow.dst, of_sender)).or_insert(next)
            } else {
                Loops::NONE
            };
            self.starting
                .push_back((FlowSpec { measured, ..flow }, Origin { member: number, connection, stream: false }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loops;
    use crate::sizes;
    use proptest::prelude::*;
    use rnic_spec::{Receiver, Rotation};
    use rnic_transport::{BitRate, Bytes};
    use std::path::Path;

    fn network(hosts: u32) -> Network {
        let host_rate = vec![BitRate::from_gbps(40); hosts as usize];
        Network { hosts, host_rate, mtu: 1_024, wire_overhead: 82, ..Network::default() }
    }

    fn traffic(pattern: TrafficPattern) -> Traffic {
        Traffic { name: "t".into(), pattern, warmup: 2, cooldown: 3, start: Time::from_us(5), priority: 0 }
    }

    fn pairs(pairs: u32, messages: Option<u32>) -> Traffic {
        let sizes = sizes::parse("uniform 1 KB - 9 KB", Path::new("")).unwrap();
        traffic(TrafficPattern::Pairs { pairs, sizes, messages, think_time: Time::from_us(1), persistent: true })
    }

    fn incast(senders: u32, repeats: Option<u32>) -> Traffic {
        let incast = Incast { senders, total: Bytes(10_001), receiver: Receiver::Host(1), connections: 2 };
        traffic(TrafficPattern::IncastLoop { incast, repeats, think_time: Time::from_us(1), persistent: true })
    }

    fn all_to_all(outstanding: u32, repeats: u32) -> Traffic {
        let sizes = sizes::parse("uniform 1 KB - 9 KB", Path::new("")).unwrap();
        traffic(TrafficPattern::AllToAllLoop { sizes, repeats, outstanding, think_time: Time::from_us(1) })
    }

    /// Takes all flows of the loops and completes them in a scrambled order. A sender knows of the completion 10 us
    /// after the start, plus `spread` times its host id.
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
    fn changing_receivers_have_connections_of_their_own() {
        let with = |receiver| {
            let incast = Incast { senders: 2, total: Bytes(10_000), receiver, connections: 1 };
            let (repeats, think_time) = (Some(300), Time::ZERO);
            let source = traffic(TrafficPattern::IncastLoop { incast, repeats, think_time, persistent: true });
            drain(&mut closed_loops(&[source], &network(3), 1).unwrap(), Time::ZERO, 0)
        };
        let all = with(Receiver::Changing(Rotation::RoundRobin));
        assert!(all.chunks(2).zip(0..).all(|(round, number)| round.iter().all(|(flow, _)| flow.dst == number % 3)));
        for rotation in [Rotation::RoundRobin, Rotation::Random] {
            let mut pairs: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            for (flow, origin) in with(Receiver::Changing(rotation)) {
                assert_eq!(*pairs.entry(origin.connection).or_insert((flow.src, flow.dst)), (flow.src, flow.dst));
            }
            // Every ordered pair of three hosts has a connection.
            assert_eq!(pairs.len(), 6);
        }
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
    fn each_host_sends_to_the_others_in_turn() {
        let mut loops = closed_loops(&[all_to_all(2, 2)], &network(4), 1).unwrap();
        assert_eq!(loops.total(), Some(24));
        let all = drain(&mut loops, Time::ZERO, 0);
        let of = |host| -> Vec<(u64, u32)> {
            let flows = all.iter().map(|(flow, _)| flow).filter(|flow| flow.src == host);
            flows.map(|flow| (flow.start.as_ps() / 1_000_000, flow.dst)).collect()
        };
        // Two outstanding messages, each known to be complete after 10 us, and a think time of 1 us.
        assert_eq!(of(0), [(5, 1), (5, 2), (16, 3), (16, 1), (27, 2), (27, 3)]);
        assert_eq!(of(2), [(5, 3), (5, 0), (16, 1), (16, 3), (27, 0), (27, 1)]);
        let measured: Vec<bool> = all.iter().map(|(flow, _)| flow.measured).collect();
        assert_eq!(measured, [[false; 2].as_slice(), &[true; 19], &[false; 3]].concat());
    }

    #[test]
    fn a_slow_message_delays_no_other_message() {
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
    fn a_connection_always_has_the_same_two_hosts() {
        // Three of four hosts send over two connections each; a host uses the same connections in each request.
        let mut loops = closed_loops(&[incast(3, Some(9)), pairs(2, Some(3))], &network(5), 1).unwrap();
        let all = drain(&mut loops, Time::ZERO, 0);
        let mut hosts: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        let mut requests: BTreeMap<(u32, Time), Vec<u32>> = BTreeMap::new();
        for (flow, Origin { member, connection, .. }) in &all {
            assert_eq!(*hosts.entry(*connection).or_insert((*member, flow.src)), (*member, flow.src));
            requests.entry((*member, flow.start)).or_default().push(*connection);
        }
        assert!(hosts.keys().copied().eq(0..4 * 2 + 2), "one per sender and index");
        for connections in requests.values_mut() {
            connections.sort_unstable();
            assert!(connections.is_sorted_by(|a, b| a < b), "one flow at a time");
        }
        // Without `persistent` there are no connections.
        let mut traffic = pairs(2, Some(3));
        let TrafficPattern::Pairs { persistent, .. } = &mut traffic.pattern else { panic!("no pairs") };
        *persistent = false;
        let mut loops = closed_loops(&[traffic], &network(5), 1).unwrap();
        assert!(drain(&mut loops, Time::ZERO, 0).iter().all(|(_, origin)| origin.connection == Loops::NONE));
    }

    #[test]
    fn open_and_impossible_traffic_has_no_loops() {
        let network = network(4);
        assert!(closed_loops(&[], &network, 1).is_none());
        assert!(closed_loops(&[incast(4, None)], &network, 1).is_none());
        let error = crate::check(&[incast(4, None)], &network).unwrap_err();
        assert_eq!(error, "traffic `t`: senders is 4; accepted: 1 to 3, the number of hosts without the receiver");
        let error = crate::check(&[pairs(0, None)], &network).unwrap_err();
        assert_eq!(error, "traffic `t`: pairs is 0; accepted: 1 to 1000000");
        for outstanding in [0, 4] {
            let error = crate::check(&[all_to_all(outstanding, 1)], &network).unwrap_err();
            assert_eq!(
                error,
                format!("traffic `t`: outstanding is {outstanding}; accepted: 1 to 3, the number of other hosts")
            );
        }
        let error = crate::check(&[all_to_all(1, u32::MAX)], &network).unwrap_err();
        assert_eq!(error, "traffic `t`: 4294967295 repetitions are too many: at most 1431655765");
    }

    proptest! {
        #[test]
        fn a_pair_has_one_outstanding_message(
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

        /// In all-to-all loops, every host sends the right number of messages to each other host, and never has too
        /// many outstanding messages.
        #[test]
        fn all_to_all_keeps_its_limit_of_outstanding_messages(
            hosts in 2u32..9, outstanding in 1u32..8, repeats in 1u32..4, seed: u64, scramble in 0usize..7,
        ) {
            let outstanding = outstanding.min(hosts - 1);
            let mut loops = closed_loops(&[all_to_all(outstanding, repeats)], &network(hosts), seed).unwrap();
            let all = drain(&mut loops, Time::from_us(1), scramble);
            prop_assert_eq!(Some(all.len() as u64), loops.total());
            let mut times: BTreeMap<(u32, u32), u32> = BTreeMap::new();
            for (flow, _) in &all {
                *times.entry((flow.src, flow.dst)).or_default() += 1;
                let known = |flow: &FlowSpec| flow.start + Time::from_us(10 + u64::from(flow.src));
                let others = all.iter().map(|(other, _)| other).filter(|other| other.src == flow.src);
                let open = others.filter(|other| other.start <= flow.start && known(other) > flow.start).count();
                prop_assert!(open as u32 <= outstanding, "{} outstanding", open);
            }
            prop_assert_eq!(times.len() as u32, hosts * (hosts - 1));
            prop_assert!(times.values().all(|count| *count == repeats));
        }

        /// The order in which flows complete does not change the flows of any closed loop.
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
