//! Flows that start when others end ([`Triggered`]): the triggers of a connection matrix of htsim.
//!
//! A trigger is activated a reaction time after a flow has ended, at its sender or at its receiver. Activations are
//! processed in order of time, then of the flow's place in the list, so the result does not depend on the order in
//! which the simulator reports completions.

use super::FlowSpec;
use super::loops::{Loops, Origin};
use super::network::Network;
use super::source::{Completion, Source};
use rnic_spec::{Begin, Traffic, TrafficPattern, Triggered};
use rnic_transport::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The flows and triggers of all traffic sources of a run that have triggers.
#[derive(Debug)]
pub(crate) struct Triggers {
    sources: Vec<List>,
    /// Flows that start at a known time and have not been taken, as (start, traffic source, sending host, member).
    pending: BinaryHeap<Reverse<(Time, u16, u32, u32)>>,
    /// Activations to come, as (time, member, index of the trigger).
    activations: BinaryHeap<Reverse<(Time, u32, u32)>>,
    /// For each slot of the simulator's flow table, the member.
    flows: Vec<u32>,
}

/// The flows of one traffic source. A *member* is the number of a flow, counted over all traffic sources.
#[derive(Debug)]
struct List {
    traffic: u16,
    name: String,
    list: Triggered,
    /// Member of the first flow.
    first: u32,
    /// For each trigger, the flows that it starts, and the number of its activations so far.
    targets: Vec<Vec<u32>>,
    activated: Vec<u32>,
    /// Number of flows that have been taken so far.
    made: u64,
    warmup: u64,
    /// Number of the first flow after the measured ones.
    last: u64,
}

impl Triggers {
    /// The flows of `traffic` with triggers; `None` if it has none. A source that [`Triggered::check`] refuses has no
    /// flows.
    pub(crate) fn new(traffic: &[Traffic], network: &Network) -> Option<Triggers> {
        let mut all = Triggers {
            sources: Vec::new(),
            pending: BinaryHeap::new(),
            activations: BinaryHeap::new(),
            flows: Vec::new(),
        };
        let mut first = 0u32;
        for (index, source) in (0..u16::MAX).zip(traffic) {
            let TrafficPattern::Triggered(list) = &source.pattern else { continue };
            if list.check(network.hosts).is_err() {
                continue;
            }
            for (member, flow) in (first..).zip(list.flows.iter()) {
                if let Begin::At(start) = flow.begin {
                    all.pending.push(Reverse((source.start.saturating_add(start), index, flow.src, member)));
                }
            }
            let count = list.flows.len() as u64;
            all.sources.push(List {
                traffic: index,
                name: source.name.clone(),
                first,
                targets: list.targets(),
                activated: vec![0; list.triggers.len()],
                made: 0,
                warmup: source.warmup,
                last: count.saturating_sub(source.cooldown),
                list: list.clone(),
            });
            first = first.saturating_add(list.flows.len() as u32);
        }
        (!all.sources.is_empty()).then_some(all)
    }

    /// The traffic source of a member.
    fn source(&mut self, member: u32) -> &mut List {
        let after = self.sources.partition_point(|source| source.first <= member);
        &mut self.sources[after - 1]
    }

    /// Starts the flows that an activation of a trigger at `now` starts.
    fn activate(&mut self, member: u32, trigger: u32, now: Time) {
        let source = self.source(member);
        let (index, first, traffic) = (trigger as usize, source.first, source.traffic);
        source.activated[index] += 1;
        let started = source.list.triggers[index].starts(source.activated[index], &source.targets[index]);
        let started: Vec<(u32, u32)> =
            started.iter().map(|flow| (first + flow, source.list.flows[*flow as usize].src)).collect();
        self.pending.extend(started.into_iter().map(|(member, src)| Reverse((now, traffic, src, member))));
    }
}

impl Source for Triggers {
    fn advance(&mut self, end: Time) {
        while let Some(Reverse((now, member, trigger))) = self.activations.peek().copied()
            && now < end
        {
            self.activations.pop();
            self.activate(member, trigger, now);
        }
    }

    fn head(&self) -> Option<(Time, u16)> {
        self.pending.peek().map(|Reverse((start, traffic, ..))| (*start, *traffic))
    }

    fn next_event(&self) -> Time {
        let activation = self.activations.peek().map_or(Time::MAX, |Reverse((time, ..))| *time);
        self.head().map_or(activation, |(start, _)| start.min(activation))
    }

    fn take(&mut self) -> Option<(FlowSpec, Origin)> {
        let Reverse((start, traffic, _, member)) = self.pending.pop()?;
        let source = self.source(member);
        let flow = source.list.flows[(member - source.first) as usize];
        let measured = (source.warmup..source.last).contains(&source.made);
        source.made += 1;
        let (src, dst, bytes, request) = (flow.src, flow.dst, flow.bytes, FlowSpec::NO_REQUEST);
        let flow = FlowSpec { start, src, dst, bytes, request, traffic, measured, hash: None };
        Some((flow, Origin { member, ..Loops::OUTSIDE }))
    }

    fn place(&mut self, flow: u32, member: u32) {
        if self.flows.len() <= flow as usize {
            self.flows.resize(flow as usize + 1, Loops::NONE);
        }
        self.flows[flow as usize] = member;
    }

    fn holds(&self, flow: u32) -> bool {
        self.flows.get(flow as usize).is_some_and(|member| *member != Loops::NONE)
    }

    fn complete(&mut self, flow: u32, Completion { delivered, known, .. }: Completion) {
        let member = std::mem::replace(&mut self.flows[flow as usize], Loops::NONE);
        if member == Loops::NONE {
            return;
        }
        let source = self.source(member);
        let (flow, reaction) = (source.list.flows[(member - source.first) as usize], source.list.reaction);
        for (trigger, time) in [(flow.received, delivered), (flow.sent, known)] {
            let event = trigger.map(|trigger| Reverse((time.saturating_add(reaction), member, trigger)));
            self.activations.extend(event);
        }
    }

    fn total(&self) -> Option<u64> {
        Some(self.sources.iter().map(|source| source.list.flows.len() as u64).sum())
    }

    fn reaction(&self) -> Option<Time> {
        self.sources.iter().map(|source| source.list.reaction).min()
    }

    fn waiting(&self) -> Vec<String> {
        let waits = |source: &List| {
            let left = source.list.flows.len() as u64 - source.made;
            (left > 0).then(|| format!("{left} flows of traffic `{}` wait for their triggers", source.name))
        };
        self.sources.iter().filter_map(waits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_spec::{Trigger, TriggerKind, TriggeredFlow};
    use rnic_transport::BitRate;

    const REACTION: Time = Time::from_ns(200);

    fn source(flows: &[(u32, Begin, Option<u32>, Option<u32>)], kinds: &[TriggerKind]) -> Triggers {
        let flow = |(src, begin, sent, received): &(u32, Begin, Option<u32>, Option<u32>)| TriggeredFlow {
            src: *src,
            dst: (src + 1) % 4,
            bytes: 1_000,
            begin: *begin,
            sent: *sent,
            received: *received,
        };
        let list = Triggered {
            flows: flows.iter().map(flow).collect(),
            triggers: (1..).zip(kinds).map(|(id, kind)| Trigger { id, kind: *kind }).collect(),
            reaction: REACTION,
        };
        let pattern = TrafficPattern::Triggered(list);
        let start = Time::from_us(1);
        let traffic = Traffic { name: "t".into(), pattern, warmup: 1, cooldown: 0, start, priority: 0 };
        let host_rate = vec![BitRate::from_gbps(100); 4];
        Triggers::new(&[traffic], &Network { hosts: 4, host_rate, mtu: 1_000, ..Network::default() }).unwrap()
    }

    /// Takes the next flow, which must have this start (in nanoseconds) and sender, and puts it into `slot`.
    fn expect(triggers: &mut Triggers, slot: u32, ns: u64, src: u32) {
        triggers.advance(Time::MAX);
        let (flow, origin) = triggers.take().unwrap();
        assert_eq!((flow.start, flow.src, flow.measured), (Time::from_ns(ns), src, slot > 0));
        triggers.place(slot, origin.member);
        assert!(triggers.holds(slot));
    }

    fn complete(triggers: &mut Triggers, slot: u32, delivered: u64, known: u64) {
        let (delivered, known) = (Time::from_ns(delivered), Time::from_ns(known));
        triggers.complete(slot, Completion { delivered, known, ideal: Time::ZERO, delays: Default::default() });
        assert!(!triggers.holds(slot));
    }

    #[test]
    fn senders_and_receivers_activate_triggers() {
        let (at, by) = (Begin::At(Time::ZERO), Begin::Trigger);
        let flows = [(0, at, Some(0), Some(1)), (1, by(0), None, None), (2, by(1), None, None)];
        let mut triggers = source(&flows, &[TriggerKind::Oneshot; 2]);
        assert_eq!((triggers.total(), triggers.reaction()), (Some(3), Some(REACTION)));
        expect(&mut triggers, 0, 1_000, 0);
        assert_eq!(triggers.next_event(), Time::MAX);
        assert_eq!(triggers.waiting(), ["2 flows of traffic `t` wait for their triggers"]);
        complete(&mut triggers, 0, 5_000, 6_000);
        assert_eq!(triggers.next_event(), Time::from_ns(5_200));
        expect(&mut triggers, 1, 5_200, 2);
        expect(&mut triggers, 2, 6_200, 1);
        assert_eq!(triggers.waiting(), [""; 0]);
    }

    #[test]
    fn a_barrier_waits_for_the_latest_flow() {
        let (at, by) = (Begin::At(Time::ZERO), Begin::Trigger);
        let flows = [(0, at, Some(0), None), (1, at, Some(0), None), (2, by(0), None, None), (3, by(0), None, None)];
        let mut triggers = source(&flows, &[TriggerKind::Barrier(2)]);
        expect(&mut triggers, 0, 1_000, 0);
        expect(&mut triggers, 1, 1_000, 1);
        // The simulator may report the later completion first.
        complete(&mut triggers, 1, 8_000, 9_000);
        complete(&mut triggers, 0, 3_000, 4_000);
        expect(&mut triggers, 2, 9_200, 2);
        expect(&mut triggers, 3, 9_200, 3);
    }

    #[test]
    fn each_activation_of_a_multishot_starts_the_next_flow() {
        let (at, by) = (Begin::At(Time::ZERO), Begin::Trigger);
        let flows = [(0, at, Some(0), None), (1, at, Some(0), None), (2, by(0), None, None), (3, by(0), None, None)];
        let mut triggers = source(&flows, &[TriggerKind::Multishot]);
        expect(&mut triggers, 0, 1_000, 0);
        expect(&mut triggers, 1, 1_000, 1);
        complete(&mut triggers, 1, 8_000, 9_000);
        complete(&mut triggers, 0, 3_000, 4_000);
        expect(&mut triggers, 2, 4_200, 2);
        expect(&mut triggers, 3, 9_200, 3);
    }
}
