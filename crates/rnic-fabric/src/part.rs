//! A part of a fabric: hosts and switches with their ports, which one thread simulates through a window.

use crate::config::{FabricSpec, QueueingSpec};
use crate::endpoint::Endpoint;
use crate::event::EventTree;
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
pub(crate) struct Part<B> {
    pub(crate) links: Ports<B>,
    switches: Switches<B>,
    tree: EventTree,
    /// Per host: something to send waits for the transmitter.
    armed: Vec<bool>,
    /// Nothing happens before this time.
    pub(crate) next: u64,
    /// Frames that were transmitted the last time that there was something to do.
    pub(crate) lately: u64,
}

impl<B: Body> Part<B> {
    pub(crate) fn new(
        topology: &Topology, partition: &Partition, part: usize, spec: &FabricSpec, seed: u64,
    ) -> Part<B> {
        let ports = |switch: &u32| topology.ports_of(*switch).len();
        let most_ports = partition.switches_of(part).iter().map(ports).max();
        Part {
            links: Ports::new(topology, partition, part, spec.frame_gap, spec.switch.priorities, seed),
            switches: Switches::new(topology, partition, part, spec, seed),
            tree: EventTree::new(2 * most_ports.unwrap_or(1)),
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
        let Part { links, tree, .. } = self;
        let first = self.armed.len();
        match &mut self.switches {
            Switches::InputQueued(switches) => run_switches(switches, first, links, routes, tree, start, end),
            Switches::SharedBuffer(switches) => run_switches(switches, first, links, routes, tree, start, end),
            Switches::OutputQueued(switches) => run_switches(switches, first, links, routes, tree, start, end),
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
fn run_switches<B: Body, Q: Queueing<B>>(
    switches: &mut [Switch<B, Q>], first: usize, links: &mut Ports<B>, routes: &Routes, tree: &mut EventTree,
    start: u64, end: u64,
) {
    for (index, switch) in switches.iter_mut().enumerate() {
        if links.next_event[first + index] < end {
            let next = switch.run(links, routes, tree, start, end);
            links.next_event[first + index] = next;
        }
    }
}
