//! The event engine.
//!
//! Nothing that a node does is felt by another before a frame has crossed a cable, so every node can be simulated
//! alone, with its state in cache, for as long as the shortest frame needs on the shortest cable: the *lookahead*. A
//! run is a sequence of windows of that length. In each, every node that has something to do handles its own events in
//! order of (time, class, port); what it sends arrives in a later window. So results do not depend on the order in
//! which nodes are simulated, or on who simulates them: the parts of a fabric ([`Partition`]) go through a window at
//! the same time, on as many threads as there are. What crosses from one part to another waits in a mailbox until all
//! have reached the end of the window.

use crate::buffer::Buffer;
use crate::config::FabricSpec;
use crate::endpoint::{Endpoint, Endpoints, Watcher};
use crate::headroom::required_headroom;
use crate::packet::{Body, MIN_FRAME};
use crate::part::Part;
use crate::partition::Partition;
use crate::port::{Pause, PriorityCounters, Tapped};
use crate::routing::Routes;
use crate::team::{Leader, Team};
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

/// Fewer packet transmissions in a window than this are not worth waking other threads for.
const WORTH_SHARING: u64 = 256;

/// Pauses that have ended since they were last asked for, up to a number of them.
struct PauseLog {
    ended: Vec<Pause>,
    most: usize,
    /// How many found no room.
    left_out: u64,
}

/// A part with its hosts and the window that it is to go through.
struct Task<B, H> {
    part: Part<B>,
    hosts: H,
    start: u64,
    end: u64,
}

/// A fabric ready to run.
pub struct Fabric<B> {
    topology: Arc<Topology>,
    routes: Arc<Routes>,
    partition: Arc<Partition>,
    /// Empty while others work on them.
    parts: Vec<Part<B>>,
    threads: usize,
    /// Transmissions in a window that are worth sharing it.
    worth_sharing: u64,
    /// Pauses that have ended, if somebody wants to know.
    pause_log: Option<PauseLog>,
    /// Nothing a node does reaches another in less than this, in picoseconds.
    lookahead: u64,
    now: u64,
    helpers_cpu_s: f64,
}

impl<B: Body> Fabric<B> {
    /// Builds the fabric; `seed` determines ECMP salts, random loss, and what else is random.
    pub fn new(spec: &FabricSpec, seed: u64) -> Result<Fabric<B>, TopologyError> {
        Fabric::in_parts(Arc::new(Topology::build(spec)?), spec, seed, 1, Partition::whole)
    }

    /// As [`Fabric::new`], for so many threads, in the parts that `cut` makes. Neither changes any result. `topology`
    /// is what [`Topology::build`] makes of `spec`; several fabrics can share it.
    pub fn in_parts(
        topology: Arc<Topology>, spec: &FabricSpec, seed: u64, threads: usize, cut: impl FnOnce(&Topology) -> Partition,
    ) -> Result<Fabric<B>, TopologyError> {
        let routes = Arc::new(Routes::with(&topology, &spec.routes, seed)?);
        let partition = cut(&topology);
        let part = |part| Part::new(&topology, &partition, part, spec, seed);
        let parts = (0..partition.parts()).map(part).collect();
        let shortest = u64::from(MIN_FRAME) + u64::from(spec.frame_gap);
        let lookahead = topology
            .ports
            .iter()
            .map(|port| (port.link.delay + port.link.rate.time_for(shortest)).as_ps())
            .min()
            .unwrap_or(1);
        Ok(Fabric {
            topology,
            routes,
            partition: Arc::new(partition),
            parts,
            threads,
            worth_sharing: WORTH_SHARING,
            pause_log: None,
            lookahead: lookahead.max(1),
            now: 0,
            helpers_cpu_s: 0.0,
        })
    }

    /// Runs until the endpoints stop it or nothing is left to happen.
    pub fn run<E: Endpoints>(&mut self, endpoints: &mut E) -> Ending
    where
        E::Part: Endpoint<Body = B>,
    {
        self.run_watched(endpoints, &mut (), Time::MAX)
    }

    /// As [`run`](Fabric::run), with a watcher, and at most until `until`: everything before it happens, nothing at it
    /// or later. A fabric in which nothing is left to happen waits for that time.
    ///
    /// # Panics
    /// If the endpoints have not as many parts as the fabric.
    pub fn run_watched<E: Endpoints>(&mut self, endpoints: &mut E, watcher: &mut dyn Watcher<E>, until: Time) -> Ending
    where
        E::Part: Endpoint<Body = B>,
    {
        assert_eq!(endpoints.parts().len(), self.parts.len(), "as many parts of endpoints as of the fabric");
        let threads = self.threads.min(self.parts.len());
        if threads <= 1 {
            return self.run_windows(endpoints, watcher, until.as_ps(), None);
        }
        let team = Team::new(threads, self.parts.len());
        let routes = self.routes.clone();
        let ending = std::thread::scope(|scope| {
            let leader = Leader::new(&team);
            for number in 1..threads {
                let (team, routes) = (&team, &routes);
                scope.spawn(move || team.follow(number, |task| work(task, routes)));
            }
            self.run_windows(endpoints, watcher, until.as_ps(), Some(&leader))
        });
        self.helpers_cpu_s += team.cpu_s();
        ending
    }

    fn run_windows<E: Endpoints>(
        &mut self, endpoints: &mut E, watcher: &mut dyn Watcher<E>, until: u64,
        leader: Option<&Leader<'_, Task<B, E::Part>>>,
    ) -> Ending
    where
        E::Part: Endpoint<Body = B>,
    {
        let mut next_look = watcher.next().as_ps();
        loop {
            let next_start = endpoints.next_start().as_ps();
            let mut start = self.next().min(next_start);
            if start == u64::MAX && next_look < until && watcher.acts() {
                next_look = self.watch(endpoints, watcher, next_look);
                continue;
            }
            if start.min(until) == u64::MAX {
                return Ending::Idle;
            }
            // Nothing happens before `start`.
            while next_look <= start && next_look < until {
                next_look = self.watch(endpoints, watcher, next_look);
                start = self.next().min(start);
            }
            if start >= until {
                self.now = until;
                return Ending::TimeUp;
            }
            let end = start.saturating_add(self.lookahead).min(until);
            self.now = start;
            if next_start < end {
                let Fabric { parts, partition, .. } = self;
                endpoints.open_window(Time::from_ps(end), &mut |host, at| {
                    let place = partition.node(host);
                    parts[place.part as usize].wake(place.index, at.as_ps());
                });
            }
            while next_look < end {
                self.run_parts(endpoints, leader, start, next_look);
                next_look = self.watch(endpoints, watcher, next_look);
            }
            self.run_parts(endpoints, leader, start, end);
            self.now = end;
            if endpoints.close_window(Time::from_ps(end), self.hops()).is_break() {
                return Ending::Stopped;
            }
        }
    }

    /// Nothing happens anywhere before this time.
    fn next(&self) -> u64 {
        self.parts.iter().map(|part| part.next).fold(u64::MAX, u64::min)
    }

    /// Lets the watcher look at `at`; returns when it wants to look again.
    fn watch<E: Endpoints>(&mut self, endpoints: &mut E, watcher: &mut dyn Watcher<E>, at: u64) -> u64
    where
        E::Part: Endpoint<Body = B>,
    {
        self.now = at;
        watcher.look(Time::from_ps(at), self, endpoints);
        watcher.next().as_ps().max(at + 1)
    }

    /// Simulates every event before `end`, none of which is before `start`.
    fn run_parts<E: Endpoints>(
        &mut self, endpoints: &mut E, leader: Option<&Leader<'_, Task<B, E::Part>>>, start: u64, end: u64,
    ) where
        E::Part: Endpoint<Body = B>,
    {
        let (parts, hosts) = (&mut self.parts, endpoints.parts());
        match leader.filter(|_| is_worth_sharing(parts, end, self.worth_sharing)) {
            None => {
                for (part, hosts) in parts.iter_mut().zip(hosts) {
                    part.run(hosts, &self.routes, start, end);
                }
            }
            Some(leader) => {
                let (given, given_hosts) = (std::mem::take(parts), std::mem::take(hosts));
                let task = |(part, hosts)| Task { part, hosts, start, end };
                let tasks = given.into_iter().zip(given_hosts).map(task);
                leader.share(tasks, &|task| work(task, &self.routes), |Task { part, hosts: its_hosts, .. }| {
                    parts.push(part);
                    hosts.push(its_hosts);
                });
            }
        }
        self.exchange();
        self.collect_pauses();
    }

    /// Hands each part what the others have sent there.
    fn exchange(&mut self) {
        for to in 1..self.parts.len() {
            let (before, rest) = self.parts.split_at_mut(to);
            let second = &mut rest[0].links;
            for (from, first) in before.iter_mut().map(|part| &mut part.links).enumerate() {
                first.outbox[to].deliver(&mut second.inbox[from]);
                second.outbox[from].deliver(&mut first.inbox[to]);
            }
        }
        if self.parts.len() > 1 {
            for part in &mut self.parts {
                part.next = part.links.inbox.iter().map(|mailbox| mailbox.first_at).fold(part.next, u64::min);
            }
        }
    }

    /// Writes down the pauses that have ended, in order of the nodes where they were.
    fn collect_pauses(&mut self) {
        let Some(log) = &mut self.pause_log else { return };
        let ended =
            self.parts.iter_mut().flat_map(|part| &mut part.links.ended_pauses).flat_map(|ended| ended.drain(..));
        let mut ended: Vec<Pause> = ended.collect();
        ended.sort_by_key(|pause| self.topology.ports[pause.port as usize].node);
        let room = log.most.saturating_sub(log.ended.len()).min(ended.len());
        log.left_out += (ended.len() - room) as u64;
        log.ended.extend(ended.into_iter().take(room));
    }
}

/// Whether several parts have something to do before `end`, and lately had at least `worth` frames to transmit.
fn is_worth_sharing<B>(parts: &[Part<B>], end: u64, worth: u64) -> bool {
    let busy = parts.iter().filter(|part| part.next < end);
    busy.clone().nth(1).is_some() && busy.map(|part| part.lately).sum::<u64>() >= worth
}

/// Takes a part with its hosts through a window.
fn work<E: Endpoint>(task: &mut Task<E::Body, E>, routes: &Routes) {
    task.part.run(&mut task.hosts, routes, task.start, task.end);
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
    /// Shares every window among the threads, however little there is to do.
    pub fn share_always(&mut self) {
        self.worth_sharing = 0;
    }
    /// Which part simulates which node.
    pub fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }
    /// CPU time that other threads than the caller's have spent on its runs, in seconds.
    pub fn helpers_cpu_s(&self) -> f64 {
        self.helpers_cpu_s
    }
    /// Frames transmitted so far, pause frames not included.
    pub fn hops(&self) -> u64 {
        self.parts.iter().map(|part| part.links.hops).sum()
    }
    /// The part of a port and its number there.
    fn at(&self, port: usize) -> (&Part<B>, usize) {
        let place = self.partition.port(port);
        (&self.parts[place.part as usize], place.index as usize)
    }
    fn at_mut(&mut self, port: usize) -> (&mut Part<B>, usize) {
        let place = self.partition.port(port);
        (&mut self.parts[place.part as usize], place.index as usize)
    }
    /// Loses exactly the frames with these numbers (counted from 0) that a port transmits, pause frames not counted.
    pub fn lose_frames(&mut self, port: usize, frames: &[u64]) {
        let (part, port) = self.at_mut(port);
        part.links.lose_frames(port, frames);
    }
    /// Notes every frame that a port transmits from now on, pause frames and those that the cable loses included. It
    /// takes memory for each.
    pub fn tap(&mut self, port: usize) {
        let (part, port) = self.at_mut(port);
        part.links.tap(port);
    }
    /// The frames that a tapped port has transmitted, in order; none for another port.
    pub fn tapped(&self, port: usize) -> &[Tapped<B>] {
        let (part, port) = self.at(port);
        part.links.tapped(port)
    }
    /// A host's NIC pauses exactly the priorities in `mask` of its switch from now on: its pause frame leaves as soon
    /// as the transmitter is free, ahead of data. Switches obey it whether or not they have PFC.
    pub fn pause_from_host(&mut self, host: u32, mask: u8) {
        let now = self.now;
        let (part, port) = self.at_mut(self.topology.host_port(host));
        part.links.pause_from_host(port, now, mask);
        part.next = part.links.earliest();
        self.exchange();
    }
    /// Ends the count of paused time at `now`.
    pub fn close_counters(&mut self, now: Time) {
        for part in &mut self.parts {
            part.links.close_pauses(now.as_ps());
        }
    }
    /// Counters of a port, one entry per priority.
    pub fn counters(&self, port: usize) -> &[PriorityCounters] {
        let (part, port) = self.at(port);
        &part.links.counters[port * part.links.priorities..(port + 1) * part.links.priorities]
    }
    /// Time for which a port was sending, pause frames not included.
    pub fn busy(&self, port: usize) -> Time {
        let (part, port) = self.at(port);
        Time::from_ps(part.links.busy_ps(port))
    }
    /// Priorities in use.
    pub fn priorities(&self) -> u8 {
        self.parts[0].links.priorities as u8
    }
    /// Packets queued in switches or on cables, pause frames not included.
    pub fn in_flight(&self) -> u64 {
        self.parts.iter().map(|part| part.in_flight() as u64).sum()
    }
    /// Priorities of a port's transmitter that its peer has paused.
    pub fn paused(&self, port: usize) -> u8 {
        let (part, port) = self.at(port);
        part.links.ports[port].paused
    }
    /// Bytes that came by a switch's input port in a priority and wait there.
    pub fn occupancy(&self, port: usize, priority: usize) -> u64 {
        self.inspect(port, |buffer, input| buffer.occupancy(input, priority)).unwrap_or(0)
    }
    /// Bytes that a switch holds for an output port in a priority.
    pub fn egress(&self, port: usize, priority: usize) -> u64 {
        self.inspect(port, |buffer, output| buffer.queued_bytes(output, priority)).unwrap_or(0)
    }
    /// Bytes of a priority that came by a switch's input port and wait for one of its output ports.
    pub fn held(&self, input: usize, output: usize, priority: usize) -> u64 {
        let output = output - self.topology.first_port[self.topology.ports[output].node as usize] as usize;
        self.inspect(input, |buffer, input| buffer.held(input, output, priority)).unwrap_or(0)
    }
    /// Whether any transmitter is paused.
    pub fn any_paused(&self) -> bool {
        self.parts.iter().any(|part| part.links.paused_ports > 0)
    }
    /// When a port's transmitter was last paused in a priority; zero if never.
    pub fn paused_since(&self, port: usize, priority: usize) -> Time {
        let (part, port) = self.at(port);
        Time::from_ps(part.links.paused_since(port, priority))
    }
    /// When a port's transmitter was last resumed in a priority.
    pub fn resumed_at(&self, port: usize, priority: usize) -> Option<Time> {
        let (part, port) = self.at(port);
        let at = part.links.resumed_at(port, priority);
        (at > 0).then_some(Time::from_ps(at))
    }
    /// Priorities in which a port wants its peer to pause, whether or not the frame that says so has left.
    pub fn pauses_peer(&self, port: usize) -> u8 {
        let (part, port) = self.at(port);
        part.links.ports[port].pause_wanted
    }
    /// Notes pauses from now on; [`Fabric::take_pauses`] hands them over. Between two calls of that, `most` are kept.
    pub fn log_pauses(&mut self, most: usize) {
        self.pause_log = Some(PauseLog { ended: Vec::new(), most, left_out: 0 });
        for part in &mut self.parts {
            part.links.ended_pauses = Some(Vec::new());
        }
    }
    /// The pauses that have ended since the last call, window by window in order of the nodes where they were, and how
    /// many more there were.
    pub fn take_pauses(&mut self) -> (Vec<Pause>, u64) {
        let take = |log: &mut PauseLog| (std::mem::take(&mut log.ended), std::mem::take(&mut log.left_out));
        self.pause_log.as_mut().map(take).unwrap_or_default()
    }
    /// Calls `inspect` with the buffer of a port's switch and the port's number there; `None` for a host's port.
    fn inspect<R>(&self, port: usize, inspect: impl FnOnce(&dyn Buffer<B>, usize) -> R) -> Option<R> {
        let node = self.topology.ports[port].node;
        let number = port - self.topology.first_port[node as usize] as usize;
        let place = self.partition.node(node);
        self.parts[place.part as usize].inspect(place.index as usize, |buffer| inspect(buffer, number))
    }
}

/// The headroom that the most demanding switch port of a fabric needs for PFC to be lossless, for frames of at most
/// `max_frame` bytes.
pub fn lossless_headroom(topology: &Topology, max_frame: u32, frame_gap: u32) -> Bytes {
    let switch_ports = topology.first_port[topology.hosts as usize] as usize..topology.ports.len();
    let need = switch_ports.map(|port| required_headroom(&topology.ports[port].link, max_frame, frame_gap));
    need.max().unwrap_or_default()
}
