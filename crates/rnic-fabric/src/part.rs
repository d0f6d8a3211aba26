//! A part of a fabric: hosts and switches with their ports, which one thread simulates through a window.

use crate::config::{FabricSpec, QueueingSpec};
use crate::endpoint::Endpoint;
use crate::event::{EventList, EventTree};
use crate::packet::Body;
use crate::partition::Partition;
use crate::port::Ports;
use crate::routing::Routes;
use crate::switch::{InputQueued, OutputQueued, Queueing, SharedBuffer, Switch};
use crate::topology::Topology;
use rnic_transport::Time;

/// The switches of a part; those of a fabric are of one kind.
enum Switches<B> {
    InputQueued(Vec<Switch<B, InputQueued<B>>>),
    SharedBuffer(Vec<Switch<B, SharedBuffer<B>>>),
    OutputQueued(Vec<Switch<B, OutputQueued<B>>>),
}

impl<B: Body> Switches<B> {
    fn new(topology: &Topology, partition: &Partition, part: usize, spec: &FabricSpec, seed: u64) -> Switches<B> {
        let build = Builder { topology, partition, part, spec, seed };
        match spec.switch.queueing {
            QueueingSpec::Input => Switches::InputQueued(build.switches()),
            QueueingSpec::Shared(_) => Switches::SharedBuffer(build.switches()),
            QueueingSpec::Output(_) => Switches::OutputQueued(build.switches()),
        }
    }

    fn look<R>(&self, index: usize, look: impl FnOnce(&dyn Queueing<B>) -> R) -> R {
        match self {
            Switches::InputQueued(switches) => look(&switches[index].queueing),
            Switches::SharedBuffer(switches) => look(&switches[index].queueing),
            Switches::OutputQueued(switches) => look(&switches[index].queueing),
        }
    }
}

/// What switches are made of.
struct Builder<'s> {
    topology: &'s Topology,
    partition: &'s Partition,
    part: usize,
    spec: &'s FabricSpec,
    seed: u64,
}

impl Builder<'_> {
    fn switches<B: Body, Q: Queueing<B>>(&self) -> Vec<Switch<B, Q>> {
        let switch = |node: &u32| {
            let ports = self.partition.ports_of(self.topology, *node);
            Switch::new(*node, ports, self.topology.ports_of(*node).start, self.spec, self.seed)
        };
        self.partition.switches_of(self.part).iter().map(switch).collect()
    }
}

/// A part of a fabric.
pub(crate) struct Part<B, L = EventTree> {
    pub(crate) links: Ports<B>,
    switches: Switches<B>,
    /// Events of the switch at hand.
    events: L,
    /// Per host: something to send waits for the transmitter.
    armed: Vec<bool>,
    /// Nothing happens before this time.
    pub(crate) next: u64,
    /// Frames that were transmitted the last time that there was something to do.
    pub(crate) lately: u64,
}

impl<B: Body, L: EventList> Part<B, L> {
    pub(crate) fn new(
        topology: &Topology, partition: &Partition, part: usize, spec: &FabricSpec, seed: u64,
    ) -> Part<B, L> {
        let ports = |switch: &u32| topology.ports_of(*switch).len();
        let most_ports = partition.switches_of(part).iter().map(ports).max();
        Part {
            links: Ports::new(topology, partition, part, spec.frame_gap, spec.switch.priorities, seed),
            switches: Switches::new(topology, partition, part, spec, seed),
            events: L::new(2 * most_ports.unwrap_or(1)),
            armed: vec![false; partition.hosts_of(part).len()],
            next: u64::MAX,
            lately: 0,
        }
    }

    /// The host has something to do at `at`.
    pub(crate) fn wake(&mut self, host: u32, at: u64) {
        let next = &mut self.links.next_event[host as usize];
        *next = (*next).min(at);
        self.next = self.next.min(at);
    }

    /// Calls `look` with the queueing of the switch that is this node of the part; `None` for a host.
    pub(crate) fn look<R>(&self, node: usize, look: impl FnOnce(&dyn Queueing<B>) -> R) -> Option<R> {
        let switch = node.checked_sub(self.armed.len())?;
        Some(self.switches.look(switch, look))
    }

    /// Packets queued in switches or on their way here, pause frames not included.
    pub(crate) fn in_flight(&self) -> usize {
        let switches = self.links.next_event.len() - self.armed.len();
        let queued: usize = (0..switches).map(|switch| self.switches.look(switch, |queueing| queueing.queued())).sum();
        queued + self.links.arriving()
    }

    /// Simulates every event before `end`, none of which is before `start`.
    #[inline(never)]
    pub(crate) fn run<E: Endpoint<Body = B>>(&mut self, hosts: &mut E, routes: &Routes, start: u64, end: u64) {
        if self.next >= end {
            return;
        }
        let before = self.links.hops;
        self.links.take_in();
        for host in 0..self.armed.len() {
            if self.links.next_event[host] < end {
                self.run_host(hosts, host, end);
            }
        }
        let Part { links, events, .. } = self;
        let first = self.armed.len();
        match &mut self.switches {
            Switches::InputQueued(switches) => run_switches(switches, first, links, routes, events, start, end),
            Switches::SharedBuffer(switches) => run_switches(switches, first, links, routes, events, start, end),
            Switches::OutputQueued(switches) => run_switches(switches, first, links, routes, events, start, end),
        }
        self.next = self.links.earliest();
        self.lately = self.links.hops - before;
    }

    /// Simulates every event of one host before `end`. At the same instant arrivals come before timers; after each, the transmitter
    /// sends if it is free.
    fn run_host<E: Endpoint<Body = B>>(&mut self, hosts: &mut E, host: usize, end: u64) {
        // A host has one port, and hosts come first.
        let number = host;
        let mut armed = self.armed[host];
        loop {
            let arrival = self.links.inbound[number].first_at();
            let timer = hosts.next_wake(host as u32).as_ps();
            let free = if armed { self.links.ports[number].busy_until } else { u64::MAX };
            let now = arrival.min(timer).min(free);
            if now >= end {
                self.links.next_event[host] = now;
                break;
            }
            let time = Time::from_ps(now);
            if arrival == now {
                let packet = self.links.inbound[number].pop();
                if packet.is_pause() {
                    self.links.apply_pause(number, now, packet.paused_priorities());
                } else {
                    hosts.receive(host as u32, time, &packet);
                }
            } else if timer == now {
                hosts.wake(host as u32, time);
            }
            armed = hosts.wants_to_transmit(host as u32);
            if armed && self.links.ports[number].busy_until <= now {
                match hosts.transmit(host as u32, time, self.links.ports[number].paused) {
                    Some(packet) => self.links.transmit(number, now, packet),
                    None => armed = false,
                }
            }
        }
        self.armed[host] = armed;
    }
}

/// Simulates every event before `end` of the switches, the first of which is node `first`.
fn run_switches<B: Body, Q: Queueing<B>, L: EventList>(
    switches: &mut [Switch<B, Q>], first: usize, links: &mut Ports<B>, routes: &Routes, events: &mut L, start: u64,
    end: u64,
) {
    for (index, switch) in switches.iter_mut().enumerate() {
        if links.next_event[first + index] < end {
            let next = switch.run(links, routes, events, start, end);
            links.next_event[first + index] = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LinkSpec, OutputSpec, Paths, PfcThresholds, SwitchSpec, TopologySpec, TrimSpec};
    use crate::event::EventHeap;
    use crate::packet::Packet;
    use rnic_transport::congestion::Marking;
    use rnic_transport::{BitRate, Bytes};
    use std::collections::VecDeque;

    /// Hosts that send bursts to each other, and answer each packet with a small one.
    struct Bursts {
        hosts: Vec<VecDeque<(u64, Packet<u32>)>>,
        /// Host, time and body of what arrived.
        arrived: Vec<(u32, u64, u32)>,
    }

    impl Endpoint for Bursts {
        type Body = u32;
        fn receive(&mut self, host: u32, now: Time, packet: &Packet<u32>) {
            self.arrived.push((host, now.as_ps(), packet.body));
            if packet.bytes > 64 {
                let answer = Packet { dst: packet.body, bytes: 64, body: host, flow_hash: packet.flow_hash, ..*packet };
                self.hosts[host as usize].push_front((0, answer));
            }
        }
        fn next_wake(&self, host: u32) -> Time {
            let next = self.hosts[host as usize].front().map_or(u64::MAX, |(at, _)| *at);
            if next == 0 { Time::MAX } else { Time::from_ps(next) }
        }
        fn wake(&mut self, host: u32, now: Time) {
            let due = self.hosts[host as usize].iter_mut().take_while(|(at, _)| *at <= now.as_ps());
            due.for_each(|(at, _)| *at = 0);
        }
        fn wants_to_transmit(&self, host: u32) -> bool {
            self.hosts[host as usize].front().is_some_and(|(at, _)| *at == 0)
        }
        fn transmit(&mut self, host: u32, _now: Time, paused: u8) -> Option<Packet<u32>> {
            let (at, packet) = self.hosts[host as usize].front()?;
            if *at > 0 || paused & (1 << packet.priority) != 0 {
                return None;
            }
            self.hosts[host as usize].pop_front().map(|(_, packet)| packet)
        }
    }

    /// What a whole fabric does in one part with this event list: arrivals and counters.
    fn run<L: EventList>(spec: &FabricSpec, seed: u64) -> (Vec<(u32, u64, u32)>, Vec<crate::PriorityCounters>) {
        let topology = Topology::build(spec).unwrap();
        let routes = Routes::new(&topology, seed).unwrap();
        let mut part = Part::<u32, L>::new(&topology, &Partition::whole(&topology), 0, spec, seed);
        let mut stream = crate::rng::Stream::new(seed, crate::rng::Purpose::Workload, &[]);
        let mut draw = |below: u64| stream.next_u64() % below;
        let mut bursts = Bursts { hosts: vec![VecDeque::new(); topology.hosts as usize], arrived: Vec::new() };
        for host in 0..topology.hosts {
            let mut at = 0;
            for _ in 0..6 {
                // Instants that often coincide.
                at += 500_000 * (1 + draw(6));
                let dst = (host + 1 + draw(u64::from(topology.hosts) - 1) as u32) % topology.hosts;
                let (flow_hash, priority) = (draw(1 << 32) as u32, draw(2) as u8);
                for _ in 0..draw(12) {
                    let packet = Packet { dst, flow_hash, bytes: 1_000, priority, flags: 0, body: host };
                    bursts.hosts[host as usize].push_back((at, packet));
                }
            }
            part.wake(host, bursts.next_wake(host).as_ps());
        }
        while part.next < u64::MAX {
            let start = part.next;
            part.run(&mut bursts, &routes, start, start + 500_000);
        }
        (bursts.arrived, part.links.counters)
    }

    #[test]
    fn a_plain_heap_gives_the_same_run() {
        let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_ns(500), loss: 0.01 };
        let pfc = PfcThresholds { xoff: Bytes(9_000), xon: Bytes(7_000), headroom: Bytes(30_000) };
        let marking = Marking { kmin: Bytes(2_000), kmax: Bytes(9_000), pmax: 0.5 };
        let trim =
            TrimSpec { to: 64, headers: crate::config::Headers::Highest, in_a_row: Some(3), return_to_sender: false };
        let output = OutputSpec { trim: Some(trim), ..OutputSpec::default() };
        let kinds = [
            (QueueingSpec::Input, None, 12_000),
            (QueueingSpec::Input, Some(pfc), 12_000),
            (QueueingSpec::Output(output), None, 6_000),
        ];
        let mut seen = [0u64; 4];
        for (queueing, pfc, buffer) in kinds {
            for (seed, topology) in (1..).zip([
                TopologySpec::SingleSwitch { hosts: 7 },
                TopologySpec::FatTree { k: 4 },
                TopologySpec::FatTree { k: 4 },
            ]) {
                let (links, routes, paths) = (Vec::new(), Vec::new(), Paths::Ecmp);
                let (queueing, marking) = (queueing, Some(marking));
                let switch = SwitchSpec { queueing, buffer: Bytes(buffer), pfc, marking, priorities: 2 };
                let spec = FabricSpec { topology, link, links, routes, switch, paths, frame_gap: 20 };
                let (arrived, counters) = run::<EventTree>(&spec, seed);
                assert!((arrived.clone(), counters.clone()) == run::<EventHeap>(&spec, seed));
                for cell in &counters {
                    for (sum, count) in seen.iter_mut().zip([cell.drops, cell.marked, cell.pause_sent, cell.trimmed]) {
                        *sum += count;
                    }
                }
            }
        }
        assert!(seen.iter().all(|count| *count > 10), "drops, marks, pauses and trimming: {seen:?}");
    }
}
