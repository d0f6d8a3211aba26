//! The event engine, which simulates a fabric window by window of simulated time.
//!
//! No node can affect another before a frame has crossed a link. So the engine can simulate every node alone, with its
//! state in cache, for as long as the shortest frame needs on the shortest link: the *lookahead*. A run is a sequence
//! of windows of simulated time, each one lookahead long. In each window every node with events processes its own
//! events in order of time, then class (arrivals before transmissions), then port; the frames that it sends arrive in a
//! later window.
//!
//! So results depend neither on the order in which nodes are simulated nor on the thread that simulates them: the
//! partitions of a fabric (groups of nodes, [`PartitionPlan`]) are simulated through a window at the same time, on as
//! many threads as the fabric has. Frames from one partition to another wait in a mailbox until all partitions have
//! reached the end of the window.

mod collection;
mod faults;
mod ports;
mod ranks;
mod skip;
mod watcher;

pub use faults::LinkState;
pub use skip::Counted;
pub use watcher::Watcher;

use crate::buffer::Buffer;
use crate::clocks::ClockSpec;
use crate::config::{FabricSpec, LinkSpec};
use crate::headroom::required_headroom;
use crate::hosts::{HostPartition, NextWindow, PartitionedHosts};
use crate::ids::{HostId, PortId};
use crate::packet::{Body, MIN_FRAME};
use crate::partition::Partition;
use crate::partition_plan::{Location, PartitionPlan};
use crate::port::{Pause, PriorityCounters};
use crate::routing::Routes;
use crate::tap::{TapFilter, Tapped};
use crate::topology::{NodeId, Topology, TopologyError};
use crate::worker_pool::{Leader, WorkerPool, run_together};
use ranks::{RankState, clock};
use rnic_transport::{Bytes, Time};
use std::sync::Arc;

/// How a run of the engine ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The hosts ended the run: [`PartitionedHosts::close_window`] returned `Break`.
    Stopped,
    /// No event is left anywhere.
    Idle,
    /// The simulated time reached the end time that the caller gave.
    TimeUp,
    /// Another rank cannot be reached; [`RankGroup::error`](crate::RankGroup::error) says why.
    RankLost,
}

/// Minimum number of packet transmissions in a window of simulated time for which waking other threads saves time.
const WORTH_SHARING: u64 = 256;

/// Log of the PFC pauses that have ended since [`Fabric::take_pauses`] was last called, up to a maximum number.
struct PauseLog {
    ended: Vec<Pause>,
    /// Maximum length of `ended`.
    max: usize,
    /// Number of ended pauses that the log had no room for.
    left_out: u64,
}

/// Work for one thread: a partition of the fabric with its hosts, and the window of simulated time through which to
/// simulate it, in picoseconds.
struct Task<B, H> {
    partition: Partition<B>,
    hosts: H,
    routes: Arc<Routes>,
    start: u64,
    end: u64,
}

/// A fabric that can be simulated: its topology and routes, and the state of all ports and switches.
pub struct Fabric<B> {
    topology: Arc<Topology>,
    routes: Arc<Routes>,
    plan: Arc<PartitionPlan>,
    /// The partitions of the fabric; empty while several threads simulate them.
    partitions: Vec<Partition<B>>,
    threads: usize,
    /// Minimum number of transmissions in a window of simulated time for which several threads simulate the window.
    worth_sharing: u64,
    /// The log of ended PFC pauses; `None` until [`Fabric::log_pauses`] is called.
    pause_log: Option<PauseLog>,
    /// Minimum time that a frame needs from one node to another, in picoseconds.
    lookahead: u64,
    /// The clocks of the nodes, and the seed from which they are drawn.
    clocks: (ClockSpec, u64),
    now: u64,
    /// Simulated time that has been skipped, in picoseconds. The engine counts time without it.
    skipped: u64,
    workers_cpu_s: f64,
    /// Wall-clock time in which several threads simulated windows, in seconds.
    together_s: f64,
    /// The other ranks that simulate partitions of the fabric; `None` for a fabric of one process.
    ranks: Option<Box<RankState>>,
    /// Whether the hosts get the frames of all ports after each window.
    hands_frames: bool,
}

impl<B: Body> Fabric<B> {
    /// Builds the fabric; `seed` determines all random choices: ECMP salts, random loss, ECN marks, sprayed paths and
    /// imperfect clocks.
    pub fn new(spec: &FabricSpec, seed: u64) -> Result<Fabric<B>, TopologyError> {
        Fabric::partitioned(Arc::new(Topology::build(spec)?), spec, seed, 1, PartitionPlan::whole)
    }

    /// Like [`Fabric::new`], but the fabric runs on `threads` threads and is divided into the partitions that `divide`
    /// returns. Neither choice changes any result. `topology` must be the result of [`Topology::build`] for `spec`;
    /// several fabrics can share it.
    pub fn partitioned(
        topology: Arc<Topology>, spec: &FabricSpec, seed: u64, threads: usize,
        divide: impl FnOnce(&Topology) -> PartitionPlan,
    ) -> Result<Fabric<B>, TopologyError> {
        let routes = Arc::new(Routes::with(&topology, &spec.routes, seed)?);
        Ok(Fabric::with_routes(topology, routes, spec, seed, threads, divide))
    }

    /// Like [`Fabric::partitioned`], with routes that have been computed before: `routes` must be the result of
    /// [`Routes::with`] for the topology, the named routes of `spec`, and `seed`. Several fabrics can share them.
    pub fn with_routes(
        topology: Arc<Topology>, routes: Arc<Routes>, spec: &FabricSpec, seed: u64, threads: usize,
        divide: impl FnOnce(&Topology) -> PartitionPlan,
    ) -> Fabric<B> {
        let plan = divide(&topology);
        let partition = |partition| Partition::new(&topology, &plan, partition, spec, seed);
        let partitions = (0..plan.partitions()).map(partition).collect();
        let shortest = u64::from(MIN_FRAME) + u64::from(spec.frame_gap);
        let lookahead = topology
            .ports
            .iter()
            .map(|port| (port.link.delay + spec.clocks.max_rate(port.link.rate).time_for(shortest)).as_ps())
            .min()
            .unwrap_or(1);
        Fabric {
            topology,
            routes,
            plan: Arc::new(plan),
            partitions,
            threads,
            worth_sharing: WORTH_SHARING,
            pause_log: None,
            lookahead: lookahead.max(1),
            clocks: (spec.clocks, seed),
            now: 0,
            skipped: 0,
            workers_cpu_s: 0.0,
            together_s: 0.0,
            ranks: None,
            hands_frames: false,
        }
    }

    /// Limits the length of every window of simulated time to `longest`, for hosts that react to the events of a window
    /// after this time at the earliest. Windows are at most one lookahead long in any case.
    pub fn limit_window(&mut self, longest: Time) {
        self.lookahead = self.lookahead.min(longest.as_ps()).max(1);
    }

    /// Simulates the fabric with these hosts until the hosts end the run or no event is left.
    pub fn run<E: PartitionedHosts>(&mut self, hosts: &mut E) -> Ending
    where
        E::Partition: HostPartition<Body = B>,
    {
        self.run_watched(hosts, &mut (), Time::MAX)
    }

    /// Like [`run`](Fabric::run), with a watcher, which observes the fabric during the run, and an end time: the engine
    /// processes every event before `until`, and no event at `until` or later.
    ///
    /// # Panics
    /// If the hosts and the fabric have different numbers of partitions.
    pub fn run_watched<E: PartitionedHosts>(
        &mut self, hosts: &mut E, watcher: &mut dyn Watcher<E>, until: Time,
    ) -> Ending
    where
        E::Partition: HostPartition<Body = B>,
    {
        assert_eq!(hosts.partitions().len(), self.partitions.len(), "the hosts have as many partitions as the fabric");
        let threads = self.threads.min(self.partitions.len());
        if threads <= 1 {
            return self.run_windows(hosts, watcher, until.as_ps(), None);
        }
        let pool = WorkerPool::new(threads, self.partitions.len());
        let leader = Leader::new(&pool);
        let windows = &mut *self;
        let lead = Box::new(move || windows.run_windows(hosts, watcher, until.as_ps(), Some(&leader)));
        let ending = run_together(threads, &|number| pool.follow(number, work), lead);
        self.workers_cpu_s += pool.cpu_s();
        ending
    }

    fn run_windows<E: PartitionedHosts>(
        &mut self, hosts: &mut E, watcher: &mut dyn Watcher<E>, until: u64,
        leader: Option<&Leader<'_, Task<B, E::Partition>>>,
    ) -> Ending
    where
        E::Partition: HostPartition<Body = B>,
    {
        let (length, mut next_observation) = (until, self.unskipped(watcher.next()));
        self.synchronise(hosts, None, false);
        loop {
            let skipped = self.skipped;
            let until = length.saturating_sub(skipped);
            if self.has_lost_a_rank() {
                return Ending::RankLost;
            }
            let next = self.next();
            if hosts.settle(self.pending(next, next_observation, until, || watcher.acts()), self).is_break() {
                return Ending::Stopped;
            }
            let next_start = hosts.next_start().as_ps();
            let mut start = next.min(next_start);
            if start == u64::MAX && next_observation < until && watcher.acts() {
                next_observation = self.watch(hosts, watcher, next_observation);
                continue;
            }
            if start.min(until) == u64::MAX {
                return Ending::Idle;
            }
            // No event is before `start`.
            while next_observation <= start && next_observation < until {
                next_observation = self.watch(hosts, watcher, next_observation);
                start = self.next().min(start);
            }
            if self.skipped != skipped {
                continue;
            }
            if start >= until {
                self.now = until;
                return Ending::TimeUp;
            }
            let end = start.saturating_add(self.lookahead).min(until);
            self.now = start;
            if next_start < end {
                let Fabric { partitions, plan, .. } = self;
                hosts.open_window(Time::from_ps(end), &mut |host, at| {
                    let Location { partition, slot } = plan.node(host.0);
                    partitions[partition as usize].wake(slot, at.as_ps());
                });
                // The hosts may know now of an instant that the watcher observes.
                next_observation = next_observation.min(self.unskipped(watcher.next()).max(start));
            }
            while next_observation < end {
                let began = self.begin_work();
                self.run_partitions(hosts, leader, start, next_observation);
                self.synchronise(hosts, began, false);
                next_observation = self.watch(hosts, watcher, next_observation);
            }
            let began = self.begin_work();
            self.run_partitions(hosts, leader, start, end);
            self.now = end;
            self.synchronise(hosts, began, true);
            if self.hands_frames {
                self.pass_frames(hosts);
            }
            if hosts.close_window(Time::from_ps(end), self.hops()).is_break() {
                return Ending::Stopped;
            }
        }
    }

    /// Passes the frames of all ports in the window that has ended to the hosts.
    #[cold]
    fn pass_frames<E: PartitionedHosts>(&mut self, hosts: &mut E)
    where
        E::Partition: HostPartition<Body = B>,
    {
        let mut frames = Vec::new();
        self.partitions.iter_mut().for_each(|partition| partition.links.take_tapped(&mut frames));
        frames.sort_by_key(|(port, frame)| (frame.at, *port));
        hosts.note_frames(&frames);
    }

    /// The next event, whose window comes next; if no node has any, the next action of the watcher or the end of the
    /// run.
    fn pending(&self, next: u64, observation: u64, until: u64, acts: impl Fn() -> bool) -> NextWindow {
        let next = if next == u64::MAX && acts() && observation < until { observation } else { next };
        NextWindow { next: Time::from_ps(next.min(until)), longest: Time::from_ps(self.lookahead) }
    }

    /// Time of the earliest event of any node.
    fn next(&self) -> u64 {
        if let Some(ranks) = &self.ranks {
            return ranks.next;
        }
        self.partitions.iter().map(|partition| partition.next).fold(u64::MAX, u64::min)
    }

    /// Lets the watcher observe the fabric at `at`; returns the time of its next observation.
    fn watch<E: PartitionedHosts>(&mut self, hosts: &mut E, watcher: &mut dyn Watcher<E>, at: u64) -> u64
    where
        E::Partition: HostPartition<Body = B>,
    {
        self.now = at;
        watcher.observe(self.now(), self, hosts);
        // The watcher may have caused events on one of several ranks.
        self.synchronise(hosts, None, false);
        self.unskipped(watcher.next()).max(at + 1)
    }

    /// Simulates every event before `end` in all partitions; no event may be earlier than `start`.
    fn run_partitions<E: PartitionedHosts>(
        &mut self, hosts: &mut E, leader: Option<&Leader<'_, Task<B, E::Partition>>>, start: u64, end: u64,
    ) where
        E::Partition: HostPartition<Body = B>,
    {
        let (partitions, hosts) = (&mut self.partitions, hosts.partitions());
        match leader.filter(|_| is_worth_sharing(partitions, end, self.worth_sharing)) {
            None => {
                for (partition, hosts) in partitions.iter_mut().zip(hosts) {
                    partition.run(hosts, &self.routes, start, end);
                }
            }
            Some(leader) => {
                let (given, given_hosts) = (std::mem::take(partitions), std::mem::take(hosts));
                let routes = &self.routes;
                let task = |(partition, hosts)| Task { partition, hosts, routes: routes.clone(), start, end };
                let tasks = given.into_iter().zip(given_hosts).map(task);
                let began = clock();
                leader.share(tasks, &work, |Task { partition, hosts: its_hosts, .. }| {
                    partitions.push(partition);
                    hosts.push(its_hosts);
                });
                self.together_s += began.elapsed().as_secs_f64();
            }
        }
        self.exchange();
        self.collect_pauses();
    }

    /// Hands each partition the frames that the other partitions have sent to it.
    fn exchange(&mut self) {
        for to in 1..self.partitions.len() {
            let (before, rest) = self.partitions.split_at_mut(to);
            let second = &mut rest[0].links;
            for (from, first) in before.iter_mut().map(|partition| &mut partition.links).enumerate() {
                first.outbox[to].deliver(&mut second.inbox[from]);
                second.outbox[from].deliver(&mut first.inbox[to]);
            }
        }
        if self.partitions.len() > 1 {
            for partition in &mut self.partitions {
                partition.next =
                    partition.links.inbox.iter().map(|mailbox| mailbox.first_at).fold(partition.next, u64::min);
            }
        }
    }

    /// Logs the PFC pauses that have ended, in order of the nodes whose transmitters were paused.
    fn collect_pauses(&mut self) {
        let Some(log) = &mut self.pause_log else { return };
        let ended = self
            .partitions
            .iter_mut()
            .flat_map(|partition| &mut partition.links.ended_pauses)
            .flat_map(|ended| ended.drain(..));
        let mut ended: Vec<Pause> = ended.collect();
        sort_by_node(&mut ended, &self.topology);
        let room = log.max.saturating_sub(log.ended.len()).min(ended.len());
        log.left_out += (ended.len() - room) as u64;
        log.ended.extend(ended.into_iter().take(room));
    }
}

/// Sorts pauses by the node whose transmitter was paused. The pauses of a node keep their order.
fn sort_by_node(pauses: &mut [Pause], topology: &Topology) {
    pauses.sort_by_key(|pause| topology.port(pause.port).node);
}

/// Whether several threads should simulate the window of simulated time up to `end`. This is so if at least two
/// partitions have events before `end`, and these partitions together transmitted at least `worth` frames in the latest
/// windows in which they had events.
fn is_worth_sharing<B>(partitions: &[Partition<B>], end: u64, worth: u64) -> bool {
    let busy = partitions.iter().filter(|partition| partition.next < end);
    busy.clone().nth(1).is_some() && busy.map(|partition| partition.recent_hops).sum::<u64>() >= worth
}

/// Simulates a partition with its hosts through the window of simulated time that the task states.
fn work<E: HostPartition>(task: &mut Task<E::Body, E>) {
    task.partition.run(&mut task.hosts, &task.routes, task.start, task.end);
}

/// Access to the state and the settings of a fabric, for watchers during a run and for callers before and after.
impl<B: Body> Fabric<B> {
    /// The nodes, ports and links of the fabric.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }
    /// The routes of all switches.
    pub fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }
    /// The current simulated time. While a watcher observes the fabric, it is the instant of the observation; otherwise
    /// it is the start of the current window, or the end of the last complete window.
    pub fn now(&self) -> Time {
        Time::from_ps(self.now.saturating_add(self.skipped))
    }
    /// Makes all threads of the fabric simulate every window of simulated time together. By default, one thread alone
    /// simulates a window with few events.
    pub fn share_always(&mut self) {
        self.worth_sharing = 0;
    }
    /// The division of the fabric into partitions: the partition of each node and port.
    pub fn plan(&self) -> &Arc<PartitionPlan> {
        &self.plan
    }
    /// CPU time, in seconds, that runs of this fabric have taken on threads other than the caller's.
    pub fn workers_cpu_s(&self) -> f64 {
        self.workers_cpu_s
    }
    /// Wall-clock time, in seconds, in which several threads simulated windows of this fabric together, with the time
    /// in which they waited for each other. In the rest of a run one thread works alone.
    pub fn together_s(&self) -> f64 {
        self.together_s
    }
    /// Frames transmitted so far, pause frames not included.
    pub fn hops(&self) -> u64 {
        if let Some(ranks) = &self.ranks {
            return ranks.hops;
        }
        self.partitions.iter().map(|partition| partition.links.hops).sum()
    }
    /// The partition of a port and the port's index there.
    fn at(&self, port: PortId) -> (&Partition<B>, usize) {
        let Location { partition, slot } = self.plan.port(port);
        (&self.partitions[partition as usize], slot.index())
    }
    /// Whether this rank simulates the node of the port; true for every port of a fabric of one process.
    fn is_here(&self, port: PortId) -> bool {
        self.plan.is_here(self.plan.port(port).partition)
    }
    fn at_mut(&mut self, port: PortId) -> (&mut Partition<B>, usize) {
        let Location { partition, slot } = self.plan.port(port);
        (&mut self.partitions[partition as usize], slot.index())
    }
    /// Makes the link lose chosen frames of a port, besides random loss. `frames` are the numbers of the chosen frames
    /// among the frames that the port transmits, counted from 0 without pause frames.
    pub fn lose_frames(&mut self, port: PortId, frames: &[u64]) {
        let (partition, port) = self.at_mut(port);
        partition.links.lose_frames(port, frames);
    }
    /// Records the frames that a port transmits from now on, in memory, pause frames and frames that the link loses
    /// included, and the frames that arrive at the port and that its node drops; of these the frames that `filter`
    /// wants.
    pub fn tap(&mut self, port: PortId, filter: TapFilter) {
        let (partition, port) = self.at_mut(port);
        partition.links.tap(port, filter);
    }
    /// Records the frames of all ports from now on, and passes them to the hosts after each window of simulated time
    /// ([`PartitionedHosts::note_frames`]). Other taps get none of them afterwards.
    pub fn hand_frames(&mut self) {
        self.topology.clone().port_ids().for_each(|port| self.tap(port, TapFilter::ALL));
        self.hands_frames = true;
    }
    /// The frames that a tap has recorded, in order; empty for other ports.
    pub fn tapped(&self, port: PortId) -> &[Tapped<B>] {
        let (partition, port) = self.at(port);
        partition.links.tapped(port)
    }
    /// Makes a host's NIC pause exactly the priorities in the bitmap `mask` at its switch from now on. The NIC sends
    /// the pause frame as soon as its transmitter is free, ahead of data. The switch obeys the pause frame whether or
    /// not its own buffer has PFC.
    pub fn pause_from_host(&mut self, host: HostId, mask: u8) {
        let (now, port) = (self.now, self.topology.host_port(host));
        if !self.is_here(port) {
            return;
        }
        let (partition, port) = self.at_mut(port);
        partition.links.pause_from_host(port, now, mask);
        partition.next = partition.links.earliest();
        self.exchange();
    }
    /// Adds PFC pauses that have not ended to the ports' counters of pause time, up to `now`.
    pub fn close_counters(&mut self, now: Time) {
        for partition in &mut self.partitions {
            partition.links.close_pauses(now.as_ps().saturating_sub(self.skipped));
        }
    }
    /// Counters of a port, one entry per priority.
    pub fn counters(&self, port: PortId) -> &[PriorityCounters] {
        let (partition, port) = self.at(port);
        &partition.links.counters[port * partition.links.priorities..(port + 1) * partition.links.priorities]
    }
    /// Bytes of the frames whose transmission by a port has begun, frame gaps and pause frames not included. 0 if
    /// another rank simulates the port.
    pub fn sent_bytes(&self, port: PortId) -> u64 {
        if !self.is_here(port) {
            return 0;
        }
        self.counters(port).iter().map(|counters| counters.tx_bytes).sum()
    }
    /// Time for which a port was transmitting frames, pause frames not included.
    pub fn busy(&self, port: PortId) -> Time {
        if let Some(collected) = self.collected() {
            return Time::from_ps(collected.busy[port.index()]);
        }
        let (partition, port) = self.at(port);
        Time::from_ps(partition.links.busy_ps(port))
    }
    /// Time for which a port has been transmitting frames until now, pause frames not included. [`Fabric::busy`] counts
    /// a frame in full as soon as its transmission begins; this function counts only the part that has been sent. A
    /// pause frame that is being sent may reduce the result by its own time until the port has sent it. 0 if another
    /// rank simulates the port.
    pub fn sending_time(&self, port: PortId) -> Time {
        if !self.is_here(port) {
            return Time::ZERO;
        }
        let (partition, number) = self.at(port);
        let unsent = partition.links.ports[number].busy_until.saturating_sub(self.now);
        Time::from_ps(partition.links.busy_ps(number).saturating_sub(unsent))
    }
    /// Number of priorities in use.
    pub fn priorities(&self) -> u8 {
        self.partitions[0].links.priorities as u8
    }
    /// Number of packets in switches or on links, pause frames not included.
    pub fn in_flight(&self) -> u64 {
        match self.collected() {
            Some(collected) => collected.in_flight,
            None => self.partitions.iter().map(|partition| partition.in_flight() as u64).sum(),
        }
    }
    /// Bitmap of the priorities in which a port's transmitter is paused by the port's peer.
    pub fn paused(&self, port: PortId) -> u8 {
        if let Some(collected) = self.collected() {
            return collected.pauses(port).paused;
        }
        let (partition, port) = self.at(port);
        partition.links.ports[port].paused
    }
    /// Bytes in a switch's buffer that arrived on an input port in a priority; 0 for a host's port.
    pub fn occupancy(&self, port: PortId, priority: usize) -> u64 {
        if let Some(collected) = self.collected() {
            return collected.occupancy.get(&(port, priority as u8)).copied().unwrap_or(0);
        }
        self.inspect(port, |buffer, input| buffer.occupancy(input, priority)).unwrap_or(0)
    }
    /// Bytes in a switch's buffer that wait for an output port in a priority; 0 for a host's port.
    pub fn egress(&self, port: PortId, priority: usize) -> u64 {
        self.inspect(port, |buffer, output| buffer.queued_bytes(output, priority)).unwrap_or(0)
    }
    /// Replaces `queued` by the bytes that wait for each port of a node in all priorities, in order of the ports; zeros
    /// for a host. This takes less time than [`Fabric::egress`] of all ports, which may walk through whole queues.
    pub fn queued_at(&self, node: NodeId, queued: &mut Vec<u64>) {
        queued.clear();
        queued.resize(self.topology.ports_of(node).len(), 0);
        let first = self.topology.first_port[node as usize];
        if self.topology.is_host(node) || queued.is_empty() {
            return;
        }
        self.inspect(first, |buffer, _| {
            (0..usize::from(self.priorities())).for_each(|priority| buffer.add_queued(priority, queued));
        });
    }
    /// Adds the bytes in a switch's buffer that arrived on some of its ports in a priority, by the ports for which they
    /// wait. `held` has a row for each of `inputs`, which differ; a row has a number for each port of the switch.
    pub(crate) fn held(&self, inputs: &[PortId], priority: usize, held: &mut [u64]) {
        let Some(first) = inputs.first() else { return };
        if let Some(collected) = self.collected() {
            let outputs = self.topology.ports_of(self.topology.port(*first).node);
            let cells = inputs.iter().flat_map(|input| outputs.clone().map(|output| (*input, output, priority as u8)));
            let bytes = cells.map(|cell| collected.held.get(&cell).copied().unwrap_or(0));
            held.iter_mut().zip(bytes).for_each(|(held, bytes)| *held += bytes);
            return;
        }
        let inputs: Vec<usize> = inputs.iter().map(|input| self.topology.port_in_node(*input) as usize).collect();
        self.inspect(*first, |buffer, _| buffer.held(&inputs, priority, held));
    }
    /// Whether any transmitter is paused.
    pub fn any_paused(&self) -> bool {
        match self.collected() {
            Some(collected) => collected.any_paused,
            None => self.partitions.iter().any(|partition| partition.links.paused_ports > 0),
        }
    }
    /// Time at which a port's transmitter was last paused in a priority; zero if never.
    pub fn paused_since(&self, port: PortId, priority: usize) -> Time {
        if let Some(collected) = self.collected() {
            return Time::from_ps(collected.pause_times(port, priority).0);
        }
        let (partition, port) = self.at(port);
        Time::from_ps(partition.links.paused_since(port, priority))
    }
    /// Time at which a port's transmitter was last resumed in a priority; `None` if never.
    pub fn resumed_at(&self, port: PortId, priority: usize) -> Option<Time> {
        let at = if let Some(collected) = self.collected() {
            collected.pause_times(port, priority).1
        } else {
            let (partition, port) = self.at(port);
            partition.links.resumed_at(port, priority)
        };
        (at > 0).then_some(Time::from_ps(at))
    }
    /// Bitmap of the priorities in which a port wants its peer to pause, whether or not the pause frame has left.
    pub fn pauses_peer(&self, port: PortId) -> u8 {
        if let Some(collected) = self.collected() {
            return collected.pauses(port).wanted;
        }
        let (partition, port) = self.at(port);
        partition.links.ports[port].pause_wanted
    }
    /// Logs every PFC pause that ends from now on, at most `max` pauses between two calls of [`Fabric::take_pauses`].
    pub fn log_pauses(&mut self, max: usize) {
        self.pause_log = Some(PauseLog { ended: Vec::new(), max, left_out: 0 });
        for partition in &mut self.partitions {
            partition.links.ended_pauses = Some(Vec::new());
        }
    }
    /// The logged PFC pauses that have ended since the last call, and the number of ended pauses for which the log had
    /// no room. The pauses are in order of the windows of simulated time, and within a window in order of the paused
    /// nodes.
    pub fn take_pauses(&mut self) -> (Vec<Pause>, u64) {
        let take = |log: &mut PauseLog| (std::mem::take(&mut log.ended), std::mem::take(&mut log.left_out));
        self.pause_log.as_mut().map(take).unwrap_or_default()
    }
    /// Calls `inspect` with the buffer of a port's switch and the port's number within the switch; `None` for a host's
    /// port.
    fn inspect<R>(&self, port: PortId, inspect: impl FnOnce(&dyn Buffer<B>, usize) -> R) -> Option<R> {
        let node = self.topology.port(port).node;
        let number = self.topology.port_in_node(port) as usize;
        let Location { partition, slot } = self.plan.node(node);
        if !self.plan.is_here(partition) {
            return None;
        }
        self.partitions[partition as usize].inspect(slot.index(), |buffer| inspect(buffer, number))
    }
}

/// The headroom with which PFC is lossless at every switch port of a fabric: the maximum of [`required_headroom`] over
/// the ports, for frames of at most `max_frame` bytes with `frame_gap` bytes between frames.
///
/// Imperfect clocks add to [`required_headroom`]: the delay of a link grows by the jitter, and a node with a fast clock
/// sends more bytes in the time in which a node with a slow clock sends the pause frame.
pub fn lossless_headroom(topology: &Topology, max_frame: u32, frame_gap: u32, clocks: &ClockSpec) -> Bytes {
    let switch_ports = topology.port_ids().filter(|port| !topology.is_host(topology.port(*port).node));
    let need = switch_ports.map(|port| {
        let link = topology.port(port).link;
        let link = LinkSpec { delay: link.delay + clocks.jitter, ..link };
        clocks.stretched(required_headroom(&link, max_frame, frame_gap).0)
    });
    Bytes(need.max().unwrap_or_default())
}
