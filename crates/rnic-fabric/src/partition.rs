//! A partition of a fabric: hosts and switches with their ports, which one thread simulates through a window of
//! simulated time.

use crate::buffer::Buffer;
use crate::config::FabricSpec;
use crate::event::{EventList, EventTree};
use crate::hosts::HostPartition;
use crate::ids::SlotId;
use crate::packet::Body;
use crate::partition_plan::PartitionPlan;
use crate::port::Ports;
use crate::routing::Routes;
use crate::stage::Stage;
use crate::switch::{Guard, Mitigation, Switches};
use crate::topology::Topology;
use rnic_transport::{BitRate, Time};

/// A partition of a fabric: the state of its hosts' ports and of its switches, and its events.
pub(crate) struct Partition<B, L = EventTree> {
    pub(crate) links: Ports<B>,
    switches: Switches<B>,
    /// Events of the switch that is being simulated.
    events: L,
    /// Per host: whether the host may have a packet to send when its transmitter is free.
    armed: Vec<bool>,
    /// Per host: work of its NIC beside the transport. Empty if no host has any.
    stages: Vec<Option<Box<Stage<B>>>>,
    /// Time of the earliest event in the partition, in picoseconds.
    pub(crate) next: u64,
    /// Number of frames transmitted in the latest window of simulated time in which the partition had events.
    pub(crate) recent_hops: u64,
}

impl<B: Body, L: EventList> Partition<B, L> {
    pub(crate) fn new(
        topology: &Topology, plan: &PartitionPlan, partition: usize, spec: &FabricSpec, seed: u64,
    ) -> Partition<B, L> {
        let ports = |switch: &u32| topology.ports_of(*switch).len();
        let max_ports = plan.switches_of(partition).iter().map(ports).max();
        Partition {
            links: Ports::new(topology, plan, partition, spec, seed),
            switches: Switches::new(topology, plan, partition, spec, seed),
            events: L::new(2 * max_ports.unwrap_or(1)),
            armed: vec![false; plan.hosts_of(partition).len()],
            stages: Vec::new(),
            next: u64::MAX,
            recent_hops: 0,
        }
    }

    /// Tells the engine that a host or switch has an event at time `at`.
    pub(crate) fn wake(&mut self, node: SlotId, at: u64) {
        let next = &mut self.links.next_event[node.index()];
        *next = (*next).min(at);
        self.next = self.next.min(at);
    }

    /// Calls `inspect` with the buffer of the switch that is node `node` of the partition; `None` for a host.
    pub(crate) fn inspect<R>(&self, node: usize, inspect: impl FnOnce(&dyn Buffer<B>) -> R) -> Option<R> {
        let switch = node.checked_sub(self.armed.len())?;
        Some(self.switches.inspect(switch, inspect))
    }

    /// Calls `change` with the guard of the switch that is node `node` of the partition.
    pub(crate) fn guard<R>(&mut self, node: usize, change: impl FnOnce(&mut Guard) -> R) -> R {
        self.switches.guard(node - self.armed.len(), change)
    }

    /// Begins the mitigation of a storm on a port, numbered within the switch that is node `node` of the partition.
    pub(crate) fn mitigate(&mut self, node: usize, port: (usize, usize), mitigation: Mitigation, now: u64) {
        self.switches.mitigate(node - self.armed.len(), &mut self.links, port, mitigation, now);
        self.wake(SlotId::new(node), now);
    }

    /// Ends the mitigation of a storm on port `number` of the partition, which is port `port` of the node `node`.
    pub(crate) fn end_mitigation(&mut self, node: usize, number: usize, (port, priority): (usize, usize), now: u64) {
        let paused = self.guard(node, |guard| guard.end(port, priority));
        self.switches.settle(node - self.armed.len(), &mut self.links, now);
        self.links.apply_pause(number, now, paused);
        self.wake(SlotId::new(node), now);
    }

    /// Changes the link of a port, which has `number` in the partition and `in_node` in its node: whether it is up, and
    /// its rate in the direction from the port.
    pub(crate) fn restart_link(
        &mut self, node: SlotId, (number, in_node): (usize, usize), now: u64, (is_up, rate): (bool, BitRate),
    ) {
        match node.index().checked_sub(self.armed.len()) {
            Some(switch) => {
                self.switches.settle(switch, &mut self.links, now);
                self.switches.forget_pauses(switch, in_node, now);
                self.links.restart_link(number, now, is_up, rate);
            }
            None => {
                self.links.restart_link(number, now, is_up, rate);
                self.armed[node.index()] = true;
                let wanted = self.links.ports[number].pause_wanted;
                self.links.pause_from_host(number, now, wanted);
            }
        }
        self.wake(node, now);
    }

    /// Changes the output queues of a port, numbered within its node, to this share of their size; those of a host
    /// stay.
    pub(crate) fn scale_queues(&mut self, node: SlotId, in_node: usize, share: f64) {
        if let Some(switch) = node.index().checked_sub(self.armed.len()) {
            self.switches.scale_queues(switch, in_node, share);
        }
    }

    /// Number of copies made of flooded packets, minus the number of flooded packets.
    pub(crate) fn copies(&self) -> i64 {
        self.switches.copies()
    }

    /// Number of packets that wait in switches or are on their way to nodes of the partition, pause frames not
    /// included.
    pub(crate) fn in_flight(&self) -> usize {
        self.switches.queued() + self.links.arriving() + self.stages().map(Stage::packets).sum::<usize>()
    }

    /// Simulates every event of the partition before `end`; no event may be earlier than `start`.
    #[inline(never)]
    pub(crate) fn run<E: HostPartition<Body = B>>(&mut self, hosts: &mut E, routes: &Routes, start: u64, end: u64) {
        if self.next >= end {
            return;
        }
        let before = self.links.hops;
        self.links.take_in();
        for host in 0..self.armed.len() {
            if self.links.next_event[host] < end {
                if !self.stages.is_empty() && self.run_stage(hosts, host, end) {
                    continue;
                }
                self.run_host(hosts, host, end);
            }
        }
        self.switches.run(self.armed.len(), &mut self.links, routes, &mut self.events, start, end);
        self.next = self.links.earliest();
        self.recent_hops = self.links.hops - before;
    }

    /// Simulates every event of a host before `end` if it has a stage; returns whether it has one.
    #[inline(never)]
    fn run_stage(&mut self, hosts: &mut dyn HostPartition<Body = B>, host: usize, end: u64) -> bool {
        let Some(stage) = &mut self.stages[host] else { return false };
        let next = stage.run(hosts, &mut self.links, &mut self.armed[host], host, end);
        self.links.next_event[host] = next;
        true
    }

    /// Changes the stage of a host, which gets one if it has none.
    pub(crate) fn stage(&mut self, host: SlotId, change: impl FnOnce(&mut Stage<B>)) {
        let hosts = self.armed.len();
        self.stages.resize_with(hosts, || None);
        let stage = self.stages[host.index()].get_or_insert_with(|| Box::new(Stage::new()));
        change(stage);
        let next = stage.next();
        self.wake(host, next);
    }

    /// The stages of the hosts that have one.
    pub(crate) fn stages(&self) -> impl Iterator<Item = &Stage<B>> {
        self.stages.iter().flatten().map(|stage| &**stage)
    }

    /// Simulates every event of one host before `end`. At the same instant, arrivals come before timers. After each
    /// event, the host's transmitter sends a packet if it is free.
    fn run_host<E: HostPartition<Body = B>>(&mut self, hosts: &mut E, host: usize, end: u64) {
        // A host has one port, and hosts come first in a partition. So a host and its port have the same number.
        let (number, slot) = (host, SlotId::new(host));
        let mut armed = self.armed[host];
        loop {
            let arrival = self.links.inbound[number].first_at();
            let timer = hosts.next_wake(slot).as_ps();
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
                    hosts.receive(slot, time, &packet);
                }
            } else if timer == now {
                hosts.wake(slot, time);
            }
            armed = hosts.wants_to_transmit(slot);
            if armed && self.links.ports[number].busy_until <= now {
                match hosts.transmit(slot, time, self.links.ports[number].paused) {
                    Some(packet) => self.links.transmit(number, now, &packet),
                    None => armed = false,
                }
            }
        }
        self.armed[host] = armed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        BufferSpec, EcnSpec, InputSpec, LinkSpec, MarkOn, OutputBuffers, OutputSpec, Paths, PfcThresholds,
        SchedulerSpec, SwitchSpec, TopologySpec, TrimSpec, TrimmedPriority,
    };
    use crate::event::EventHeap;
    use crate::ids::HostId;
    use crate::packet::Packet;
    use rnic_transport::congestion::Marking;
    use rnic_transport::{BitRate, Bytes};
    use std::collections::VecDeque;

    /// Hosts that send bursts to each other, and answer each packet with a small packet.
    struct Bursts {
        hosts: Vec<VecDeque<(u64, Packet<u32>)>>,
        /// Host, time and body of each arrival.
        arrived: Vec<(u32, u64, u32)>,
    }

    impl HostPartition for Bursts {
        type Body = u32;
        fn receive(&mut self, host: SlotId, now: Time, packet: &Packet<u32>) {
            self.arrived.push((host.0, now.as_ps(), packet.body));
            if packet.bytes > 64 {
                let answer = Packet {
                    dst: HostId(packet.body),
                    bytes: 64,
                    body: host.0,
                    flow_hash: packet.flow_hash,
                    ..*packet
                };
                self.hosts[host.index()].push_front((0, answer));
            }
        }
        fn next_wake(&self, host: SlotId) -> Time {
            let next = self.hosts[host.index()].front().map_or(u64::MAX, |(at, _)| *at);
            if next == 0 { Time::MAX } else { Time::from_ps(next) }
        }
        fn wake(&mut self, host: SlotId, now: Time) {
            let due = self.hosts[host.index()].iter_mut().take_while(|(at, _)| *at <= now.as_ps());
            due.for_each(|(at, _)| *at = 0);
        }
        fn wants_to_transmit(&self, host: SlotId) -> bool {
            self.hosts[host.index()].front().is_some_and(|(at, _)| *at == 0)
        }
        fn transmit(&mut self, host: SlotId, _now: Time, paused: u8) -> Option<Packet<u32>> {
            let (at, packet) = self.hosts[host.index()].front()?;
            if *at > 0 || paused & (1 << packet.priority) != 0 {
                return None;
            }
            self.hosts[host.index()].pop_front().map(|(_, packet)| packet)
        }
    }

    /// Simulates a whole fabric in one partition with the event list `L`; returns the arrivals and the counters.
    fn run<L: EventList>(spec: &FabricSpec, seed: u64) -> (Vec<(u32, u64, u32)>, Vec<crate::PriorityCounters>) {
        let topology = Topology::build(spec).unwrap();
        let routes = Routes::new(&topology, seed).unwrap();
        let mut partition = Partition::<u32, L>::new(&topology, &PartitionPlan::whole(&topology), 0, spec, seed);
        let mut stream = crate::rng::Stream::new(seed, crate::rng::Purpose::Workload, &[]);
        let mut draw = |below: u64| stream.next_u64() % below;
        let mut bursts = Bursts { hosts: vec![VecDeque::new(); topology.hosts as usize], arrived: Vec::new() };
        for host in 0..topology.hosts {
            let mut at = 0;
            for _ in 0..6 {
                // Bursts start at multiples of 500 ns, so that events of different hosts often coincide.
                at += 500_000 * (1 + draw(6));
                let dst = (host + 1 + draw(u64::from(topology.hosts) - 1) as u32) % topology.hosts;
                let (flow_hash, priority) = (draw(1 << 32) as u32, draw(2) as u8);
                for _ in 0..draw(12) {
                    let packet = Packet { dst: HostId(dst), flow_hash, bytes: 1_000, priority, flags: 0, body: host };
                    bursts.hosts[host as usize].push_back((at, packet));
                }
            }
            let slot = SlotId(host);
            partition.wake(slot, bursts.next_wake(slot).as_ps());
        }
        while partition.next < u64::MAX {
            let start = partition.next;
            partition.run(&mut bursts, &routes, start, start + 500_000);
        }
        (bursts.arrived, partition.links.counters)
    }

    #[test]
    fn a_plain_heap_gives_the_same_run() {
        let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_ns(500), loss: 0.01 };
        let pfc = PfcThresholds { xoff: Bytes(9_000), xon: Bytes(7_000), headroom: Bytes(30_000) };
        let marking = Marking { kmin: Bytes(2_000), kmax: Bytes(9_000), pmax: 0.5 };
        let ecn = Some(EcnSpec { marking, mark_on: MarkOn::Enqueue });
        let trim = TrimSpec { to: 64, headers: TrimmedPriority::Highest, return_to_sender: false };
        let output =
            OutputSpec { buffers: OutputBuffers::Equal(Bytes(6_000)), trim: Some(trim), count_in_service: false };
        let input = |pfc| BufferSpec::Input(InputSpec { pfc, ..InputSpec::lossy(Bytes(12_000)) });
        let kinds = [
            (input(None), SchedulerSpec::STRICT),
            (input(Some(pfc)), SchedulerSpec::STRICT),
            (BufferSpec::Output(output), SchedulerSpec::Strict { max_in_a_row: Some(3) }),
            (BufferSpec::Output(OutputSpec { count_in_service: true, ..output }), SchedulerSpec::STRICT),
        ];
        let mut seen = [0u64; 4];
        for (buffer, scheduler) in kinds {
            for (seed, topology) in (1..).zip([
                TopologySpec::SingleSwitch { hosts: 7 },
                TopologySpec::FatTree { k: 4 },
                TopologySpec::FatTree { k: 4 },
            ]) {
                let (links, routes, paths) = (Vec::new(), Vec::new(), Paths::Ecmp);
                let switch = SwitchSpec { buffer, scheduler, ecn, priorities: 2 };
                let spec = FabricSpec {
                    topology,
                    link,
                    links,
                    routes,
                    switch,
                    paths,
                    flowlet_gap: Paths::FLOWLET_GAP,
                    frame_gap: 20,
                    clocks: crate::config::ClockSpec::default(),
                };
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
