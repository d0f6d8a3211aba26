//! The event engine.
//!
//! Nothing that a node does is felt by another before a frame has crossed a cable, so every node can be simulated alone, with its
//! state in cache, for as long as the shortest frame needs on the shortest cable: the *lookahead*. A run is a sequence of windows
//! of that length. In each, every node that has something to do handles its own events in order of (time, class, port); what it
//! sends arrives in a later window. So results do not depend on the order in which nodes are simulated, or on who simulates them.

use crate::config::{FabricSpec, QueueingSpec};
use crate::endpoint::{Endpoint, Watcher};
use crate::event::EventTree;
use crate::headroom::required_headroom;
use crate::packet::{Body, MIN_FRAME};
use crate::port::{Pause, PauseLog, Ports, PriorityCounters, Tapped};
use crate::routing::Routes;
use crate::switch::{InputQueued, OutputQueued, Queueing, SharedBuffer, Switch};
use crate::topology::{Topology, TopologyError};
use rnic_transport::{Bytes, Time};
use std::sync::Arc;

/// How a run of the engine ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The endpoint asked to stop.
    Stopped,
    /// No event is left anywhere.
    Idle,
    /// The simulated time reached the given end.
    TimeUp,
}

/// All switches of a fabric, which are of one kind.
enum Switches<B> {
    InputQueued(Vec<Switch<B, InputQueued<B>>>),
    SharedBuffer(Vec<Switch<B, SharedBuffer<B>>>),
    OutputQueued(Vec<Switch<B, OutputQueued<B>>>),
}

impl<B: Body> Switches<B> {
    fn new(topology: &Topology, spec: &FabricSpec, seed: u64) -> Switches<B> {
        fn build<B: Body, Q: Queueing<B>>(topology: &Topology, spec: &FabricSpec, seed: u64) -> Vec<Switch<B, Q>> {
            let switch = |node| {
                let range = topology.ports_of(node);
                Switch::new(node, range.start, range.len(), spec, seed)
            };
            (topology.hosts..topology.nodes()).map(switch).collect()
        }
        match spec.switch.queueing {
            QueueingSpec::Input => Switches::InputQueued(build(topology, spec, seed)),
            QueueingSpec::Shared(_) => Switches::SharedBuffer(build(topology, spec, seed)),
            QueueingSpec::Output(_) => Switches::OutputQueued(build(topology, spec, seed)),
        }
    }

    /// Calls `look` with the queueing of a switch.
    fn look<R>(&self, index: usize, look: impl FnOnce(&dyn Queueing<B>) -> R) -> R {
        match self {
            Switches::InputQueued(switches) => look(&switches[index].queueing),
            Switches::SharedBuffer(switches) => look(&switches[index].queueing),
            Switches::OutputQueued(switches) => look(&switches[index].queueing),
        }
    }
}

/// A fabric ready to run.
pub struct Fabric<B> {
    topology: Arc<Topology>,
    routes: Arc<Routes>,
    links: Ports<B>,
    switches: Switches<B>,
    tree: EventTree,
    /// Per host: something to send waits for the transmitter.
    armed: Vec<bool>,
    /// Nothing a node does reaches another in less than this, in picoseconds.
    lookahead: u64,
    now: u64,
}

impl<B: Body> Fabric<B> {
    /// Builds the fabric; `seed` determines ECMP salts, random loss, and what else is random.
    pub fn new(spec: &FabricSpec, seed: u64) -> Result<Fabric<B>, TopologyError> {
        Fabric::on(Arc::new(Topology::build(spec)?), spec, seed)
    }

    /// As [`Fabric::new`]; `topology` is what [`Topology::build`] makes of `spec`. Several fabrics can share it.
    pub fn on(topology: Arc<Topology>, spec: &FabricSpec, seed: u64) -> Result<Fabric<B>, TopologyError> {
        let routes = Arc::new(Routes::with(&topology, &spec.routes, seed)?);
        let links = Ports::new(&topology, spec.frame_gap, spec.switch.priorities, seed);
        let most_ports = (topology.hosts..topology.nodes()).map(|node| topology.ports_of(node).len()).max();
        let switches = Switches::new(&topology, spec, seed);
        let shortest = u64::from(MIN_FRAME) + u64::from(spec.frame_gap);
        let lookahead = topology
            .ports
            .iter()
            .map(|port| (port.link.delay + port.link.rate.time_for(shortest)).as_ps())
            .min()
            .unwrap_or(1);
        Ok(Fabric {
            armed: vec![false; topology.hosts as usize],
            tree: EventTree::new(2 * most_ports.unwrap_or(1)),
            topology,
            routes,
            links,
            switches,
            lookahead: lookahead.max(1),
            now: 0,
        })
    }

    /// Runs until the endpoint stops it or nothing is left to happen.
    pub fn run<E: Endpoint<Body = B>>(&mut self, endpoint: &mut E) -> Ending {
        self.run_watched(endpoint, &mut (), Time::MAX)
    }

    /// As [`run`](Fabric::run), with a watcher, and at most until `until`: everything before it happens, nothing at it or later. A
    /// fabric in which nothing is left to happen waits for that time.
    pub fn run_watched<E: Endpoint<Body = B>>(
        &mut self, endpoint: &mut E, watcher: &mut dyn Watcher<E>, until: Time,
    ) -> Ending {
        let until = until.as_ps();
        let mut next_look = watcher.next().as_ps();
        loop {
            let next_start = endpoint.next_start().as_ps();
            let mut start = self.links.next_event.iter().copied().fold(next_start, u64::min);
            if start == u64::MAX && next_look < until && watcher.acts() {
                next_look = self.watch(endpoint, watcher, next_look);
                continue;
            }
            if start.min(until) == u64::MAX {
                return Ending::Idle;
            }
            // Nothing happens before `start`.
            while next_look <= start && next_look < until {
                next_look = self.watch(endpoint, watcher, next_look);
                start = self.links.next_event.iter().copied().fold(start, u64::min);
            }
            if start >= until {
                self.now = until;
                return Ending::TimeUp;
            }
            let end = start.saturating_add(self.lookahead).min(until);
            self.now = start;
            if next_start < end {
                let next_event = &mut self.links.next_event;
                endpoint.open_window(Time::from_ps(end), &mut |host, at| {
                    let next = &mut next_event[host as usize];
                    *next = (*next).min(at.as_ps());
                });
            }
            while next_look < end {
                self.run_nodes(endpoint, start, next_look);
                next_look = self.watch(endpoint, watcher, next_look);
            }
            self.run_nodes(endpoint, start, end);
            self.now = end;
            if endpoint.close_window(Time::from_ps(end), self.links.hops).is_break() {
                return Ending::Stopped;
            }
        }
    }

    /// Lets the watcher look at `at`; returns when it wants to look again.
    fn watch<E: Endpoint<Body = B>>(&mut self, endpoint: &mut E, watcher: &mut dyn Watcher<E>, at: u64) -> u64 {
        self.now = at;
        watcher.look(Time::from_ps(at), self, endpoint);
        watcher.next().as_ps().max(at + 1)
    }

    /// Simulates every event before `end`, none of which is before `start`.
    fn run_nodes<E: Endpoint<Body = B>>(&mut self, endpoint: &mut E, start: u64, end: u64) {
        for host in 0..self.topology.hosts {
            if self.links.next_event[host as usize] < end {
                self.run_host(endpoint, host, end);
            }
        }
        let Fabric { links, routes, tree, .. } = self;
        let first = self.topology.hosts as usize;
        match &mut self.switches {
            Switches::InputQueued(switches) => run_switches(switches, first, links, routes, tree, start, end),
            Switches::SharedBuffer(switches) => run_switches(switches, first, links, routes, tree, start, end),
            Switches::OutputQueued(switches) => run_switches(switches, first, links, routes, tree, start, end),
        }
    }

    /// Simulates every event of one host before `end`. At the same instant arrivals come before timers; after each, the transmitter
    /// sends if it is free.
    fn run_host<E: Endpoint<Body = B>>(&mut self, endpoint: &mut E, host: u32, end: u64) {
        let number = self.topology.host_port(host);
        let upstream = self.links.ports[number].peer as usize;
        let mut armed = self.armed[host as usize];
        loop {
            let arrival = self.links.ports[upstream].flight.first_at();
            let timer = endpoint.next_wake(host).as_ps();
            let free = if armed { self.links.ports[number].busy_until } else { u64::MAX };
            let now = arrival.min(timer).min(free);
            if now >= end {
                self.links.next_event[host as usize] = now;
                break;
            }
            let time = Time::from_ps(now);
            if arrival == now {
                let packet = self.links.ports[upstream].flight.pop();
                if packet.is_pause() {
                    self.links.apply_pause(number, now, packet.paused_priorities());
                } else {
                    endpoint.receive(host, time, &packet);
                }
            } else if timer == now {
                endpoint.wake(host, time);
            }
            armed = endpoint.wants_to_transmit(host);
            if armed && self.links.ports[number].busy_until <= now {
                match endpoint.transmit(host, time, self.links.ports[number].paused) {
                    Some(packet) => self.links.transmit(number, now, packet),
                    None => armed = false,
                }
            }
        }
        self.armed[host as usize] = armed;
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

/// What can be seen from outside.
impl<B: Body> Fabric<B> {
    /// The wiring.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }
    /// The routes.
    pub fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }
    /// The instant at which a watcher looks; else the start of the latest window, or its end when it is complete.
    pub fn now(&self) -> Time {
        Time::from_ps(self.now)
    }
    /// Frames transmitted so far, pause frames not included.
    pub fn hops(&self) -> u64 {
        self.links.hops
    }
    /// Loses exactly the frames with these numbers (counted from 0) that a port transmits, pause frames not counted.
    pub fn lose_frames(&mut self, port: usize, frames: &[u64]) {
        self.links.lose_frames(port, frames);
    }
    /// Notes every frame that a port transmits from now on, pause frames and those that the cable loses included. It takes memory for each.
    pub fn tap(&mut self, port: usize) {
        self.links.tap(port);
    }
    /// The frames that a tapped port has transmitted, in order; none for another port.
    pub fn tapped(&self, port: usize) -> &[Tapped<B>] {
        self.links.tapped(port)
    }
    /// A host's NIC pauses exactly the priorities in `mask` of its switch from now on: its pause frame leaves as soon as the transmitter is
    /// free, ahead of data. Switches obey it whether or not they have PFC.
    pub fn pause_from_host(&mut self, host: u32, mask: u8) {
        self.links.pause_from_host(self.topology.host_port(host), self.now, mask);
    }
    /// Ends the count of paused time at `now`.
    pub fn close_counters(&mut self, now: Time) {
        self.links.close_pauses(now.as_ps());
    }
    /// Counters of a port, one entry per priority.
    pub fn counters(&self, port: usize) -> &[PriorityCounters] {
        &self.links.counters[port * self.links.priorities..(port + 1) * self.links.priorities]
    }
    /// Time for which a port was sending, pause frames not included.
    pub fn busy(&self, port: usize) -> Time {
        Time::from_ps(self.links.busy_ps(port))
    }
    /// Priorities in use.
    pub fn priorities(&self) -> u8 {
        self.links.priorities as u8
    }
    /// Packets queued in switches or on cables, pause frames not included.
    pub fn in_flight(&self) -> u64 {
        let switches = self.topology.nodes() - self.topology.hosts;
        let queued: usize =
            (0..switches as usize).map(|index| self.switches.look(index, |queueing| queueing.queued())).sum();
        let flying: usize = self.links.ports.iter().map(|p| p.flight.packets()).sum();
        (queued + flying) as u64
    }
    /// Priorities of a port's transmitter that its peer has paused.
    pub fn paused(&self, port: usize) -> u8 {
        self.links.ports[port].paused
    }
    /// Bytes that came by a switch's input port in a priority and wait there.
    pub fn occupancy(&self, port: usize, priority: usize) -> u64 {
        self.look(port, |queueing, input| queueing.occupancy(input, priority)).unwrap_or(0)
    }
    /// Bytes that a switch holds for an output port in a priority.
    pub fn egress(&self, port: usize, priority: usize) -> u64 {
        self.look(port, |queueing, output| queueing.waiting(output, priority)).unwrap_or(0)
    }
    /// Bytes of a priority that came by a switch's input port and wait for one of its output ports.
    pub fn held(&self, input: usize, output: usize, priority: usize) -> u64 {
        let output = output - self.topology.first_port[self.topology.ports[output].node as usize] as usize;
        self.look(input, |queueing, input| queueing.held(input, output, priority)).unwrap_or(0)
    }
    /// Whether any transmitter is paused.
    pub fn any_paused(&self) -> bool {
        self.links.paused_ports > 0
    }
    /// When a port's transmitter was last paused in a priority; zero if never.
    pub fn paused_since(&self, port: usize, priority: usize) -> Time {
        Time::from_ps(self.links.paused_since(port, priority))
    }
    /// When a port's transmitter was last resumed in a priority.
    pub fn resumed_at(&self, port: usize, priority: usize) -> Option<Time> {
        let at = self.links.resumed_at(port, priority);
        (at > 0).then_some(Time::from_ps(at))
    }
    /// Priorities in which a port wants its peer to pause, whether or not the frame that says so has left.
    pub fn pauses_peer(&self, port: usize) -> u8 {
        self.links.ports[port].pause_wanted
    }
    /// Notes pauses from now on; [`Fabric::take_pauses`] hands them over. Between two calls of that, `most` are kept.
    pub fn log_pauses(&mut self, most: usize) {
        self.links.pause_log = Some(PauseLog { ended: Vec::new(), most, left_out: 0 });
    }
    /// The pauses that have ended since the last call, in no particular order, and how many more there were.
    pub fn take_pauses(&mut self) -> (Vec<Pause>, u64) {
        let take = |log: &mut PauseLog| (std::mem::take(&mut log.ended), std::mem::take(&mut log.left_out));
        self.links.pause_log.as_mut().map(take).unwrap_or_default()
    }
    /// Calls `look` with the queueing of a port's switch and the port's number there; `None` for a host's.
    fn look<R>(&self, port: usize, look: impl FnOnce(&dyn Queueing<B>, usize) -> R) -> Option<R> {
        let node = self.topology.ports[port].node;
        let index = node.checked_sub(self.topology.hosts)?;
        let number = port - self.topology.first_port[node as usize] as usize;
        Some(self.switches.look(index as usize, |queueing| look(queueing, number)))
    }
}

/// The headroom that the most demanding switch port of a fabric needs for PFC to be lossless, for frames of at most `max_frame` bytes.
pub fn lossless_headroom(topology: &Topology, max_frame: u32, frame_gap: u32) -> Bytes {
    let switch_ports = topology.first_port[topology.hosts as usize] as usize..topology.ports.len();
    let need = switch_ports.map(|port| required_headroom(&topology.ports[port].link, max_frame, frame_gap));
    need.max().unwrap_or_default()
}
