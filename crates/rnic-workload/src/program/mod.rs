//! Traffic as programs: each rank (an accelerator of a distributed program, on one host) carries out operations that
//! depend on each other, such as sending, receiving and computing.
//!
//! A program is a graph of operations, which is never in memory as a whole: each rank takes its operations from a
//! generator, a limited number ahead of the operations that have completed. So the memory of a program grows with its
//! open operations only.
//!
//! A message arrives at its receiver, and its sender learns of this later. Both ranks react after a delay, `reaction`.
//! Everything happens in order of time, then of rank, so results do not depend on the order in which the simulator
//! reports completions.

mod collectives;
mod expand;
mod in_switch;
mod inference;
#[cfg(test)]
mod inference_tests;
mod job;
mod lane;
mod operation;
mod path;
mod rank;
#[cfg(test)]
mod record_tests;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
mod tests;
mod todo;
mod trace;
mod training;

pub use operation::{Action, After, Distances, Mark, Operation, Operations, Tag};
pub use rnic_trace::{Graph, Offer, Task, Tasks, Work};

use super::FlowSpec;
use super::loops::{Loops, Origin};
use super::network::Network;
use super::rng::{self, Stream};
use super::source::{Completion, Source};
use crate::boundaries::StepBoundaries;
use in_switch::Sum;
use job::{Job, Kind, TaskJob};
use path::Path;
use rank::{Event, Place, Rank};
use rnic_spec::{
    Collective, CollectiveRecord, Deployment, Grouping, Inference, PathRecord, Placement, ProgramRecords, Server,
    Trace, Traffic, TrafficPattern, Training,
};
use rnic_transport::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use todo::Todo;

/// Maximum number of collective operations of one traffic source, summed over its groups.
pub const MAX_COLLECTIVES: u64 = 10_000_000;

/// The programs of all traffic sources of a run that have one.
#[derive(Debug)]
pub struct Program {
    ranks: Vec<Rank>,
    agenda: Agenda,
    /// Messages that have been taken and have not completed; the index is [`Origin::member`].
    messages: Vec<Sent>,
    free: Vec<u32>,
    /// For each flow in the simulator's flow table, the index in `messages`.
    flows: Vec<u32>,
    /// Why programs of sources cannot begin, as sentences.
    failures: Vec<String>,
}

/// A message between two ranks.
#[derive(Clone, Copy, Debug)]
struct Message {
    from: u32,
    to: u32,
    /// The send operation of the rank `from`.
    operation: Place,
    tag: Tag,
    /// Space of the tag.
    space: u32,
    connection: u32,
    /// Step of the task that sends the message.
    step: u32,
    /// The path to the send operation.
    path: Path,
}

/// A message that is a flow of the fabric.
#[derive(Clone, Copy, Debug)]
struct Sent {
    message: Message,
    start: Time,
    /// Time for which the message waits at least for earlier messages of its rank to leave.
    behind: Time,
}

/// What the ranks have caused: the events to come, the flows to start, and the records.
#[derive(Debug)]
struct Agenda {
    /// The host of each rank, in the first plane. In each further plane, the rank has the host with the same place.
    hosts: Vec<u32>,
    /// For each rank, the plane that carries its next message.
    planes: Vec<u32>,
    /// Events by time, then rank.
    events: BinaryHeap<Reverse<(Time, u32, Event)>>,
    /// Messages whose flow has not been taken, by (start, traffic source, sending host, order).
    flows: BTreeMap<(Time, u16, u32, u64), (FlowSpec, Sent)>,
    /// Number of messages so far.
    made: u64,
    sources: Vec<Job>,
    /// Id of the stream between two ranks, by (sender, receiver, space of the tags, index).
    connections: BTreeMap<(u32, u32, u32, u32), u32>,
    /// For each rank, the time at which its port in the server's domain is free, for sending and for receiving.
    ports: Vec<[Time; 2]>,
    /// Sums in switches of servers of which not all members have sent bytes, by (receiving rank, space of the tag,
    /// tag).
    sums: BTreeMap<(u32, u32, Tag), Sum>,
    /// For each rank and plane, the earliest time at which all its flows so far can have left its NIC in this plane.
    leaves: Vec<Time>,
    network: Network,
    /// Where the boundaries of steps go, if an observer wants them.
    boundaries: Option<StepBoundaries>,
    /// Whether the excess of paths is divided into its parts.
    splits_excess: bool,
}

/// How far the ranks of a group are with a collective operation.
#[derive(Clone, Copy, Debug)]
struct Progress {
    record: CollectiveRecord,
    /// Number of ranks that have ended their part.
    ended: u32,
    begun: bool,
}

impl Program {
    /// Checks that the program of a traffic source can run on this network; accepts other traffic.
    ///
    /// # Errors
    /// One sentence that says what is impossible and what is accepted.
    pub fn check(traffic: &Traffic, network: &Network) -> Result<(), String> {
        let ranks = match &traffic.pattern {
            TrafficPattern::Collective(collective) => collective.ranks,
            TrafficPattern::Training(training) => training.deployment.ranks,
            TrafficPattern::Inference(inference) => {
                inference.check()?;
                inference.deployment.ranks
            }
            TrafficPattern::Trace(trace) => {
                trace.check()?;
                trace.deployment.ranks
            }
            _ => return Ok(()),
        };
        if let TrafficPattern::Training(training) = &traffic.pattern {
            training.check()?;
        }
        if let TrafficPattern::Collective(collective) = &traffic.pattern {
            collective.check()?;
        }
        if let Some(deployment) = traffic.pattern.deployment() {
            deployment.check_places(network.hosts_of_plane())?;
        }
        if ranks > network.hosts_of_plane() {
            let of = if network.planes() > 1 { " of a plane" } else { "" };
            let hosts = network.hosts_of_plane();
            return Err(format!("ranks is {ranks}; accepted: 2 to {hosts}, the number of hosts{of}"));
        }
        let TrafficPattern::Collective(collective) = &traffic.pattern else { return Ok(()) };
        let operations = u64::from(collective.groups()) * u64::from(collective.repeats);
        if operations > MAX_COLLECTIVES {
            return Err(format!("{operations} collective operations are too many: at most {MAX_COLLECTIVES}"));
        }
        Ok(())
    }

    /// Number of flows of a collective traffic source.
    pub fn flows(collective: &Collective) -> u128 {
        collectives::flows(collective)
    }

    /// Number of flows of a training: of messages between ranks of different servers.
    pub fn flows_of_training(training: &Training) -> u128 {
        training::flows(training)
    }

    /// At least the number of bytes of the largest message of a training.
    pub fn largest_of_training(training: &Training) -> u64 {
        training::largest(training)
    }

    /// The tasks of a traffic source, as a trace has them, and how its ranks carry out collective operations.
    ///
    /// # Errors
    /// One sentence: the traffic has no tasks, or tasks that depend on the time; a trace cannot be read.
    pub fn graph(traffic: &Traffic) -> Result<(Graph, Collective), String> {
        expand::graph(traffic)
    }

    /// The same tasks with messages instead of collective operations, which the ranks carry out as `plan` says.
    ///
    /// Ranks that send these messages look further ahead than in a simulation of the collective operations: all receive
    /// operations of an operation are open from its beginning. Ring, tree and hierarchical algorithms forward a message
    /// when it has arrived in both cases.
    pub fn expand(graph: Graph, plan: &Collective) -> Graph {
        expand::expand(graph, plan)
    }

    /// At least the number of bytes of the largest message of an inference.
    pub fn largest_of_inference(inference: &Inference) -> u64 {
        inference::largest(inference)
    }

    /// Number of bytes of the largest message of a collective traffic source.
    pub fn largest(collective: &Collective) -> u64 {
        collectives::largest(collective)
    }

    /// Number of request ids that a traffic source uses: one for each collective operation of a group.
    pub(crate) fn requests(collective: &Collective) -> u64 {
        u64::from(collective.groups()) * u64::from(collective.repeats)
    }

    /// The programs of `traffic`; `None` if it has none. `first_request` returns the first request id of a traffic
    /// source. A source that [`Program::check`] refuses has no program.
    pub(crate) fn new(
        traffic: &[Traffic], network: &Network, seed: u64, first_request: impl Fn(u16) -> u32,
    ) -> Option<Program> {
        let mut program = Program::empty(network);
        for (index, source) in (0..u16::MAX).zip(traffic) {
            if !source.pattern.is_program() || Program::check(source, network).is_err() {
                continue;
            }
            match &source.pattern {
                TrafficPattern::Collective(collective) => {
                    program.add(index, source, collective, network, seed, first_request(index));
                }
                TrafficPattern::Training(training) => program.add_training(index, source, training, network, seed),
                TrafficPattern::Inference(inference) => program.add_inference(index, source, inference, network, seed),
                TrafficPattern::Trace(trace) => program.add_trace(index, source, trace, network, seed),
                _ => {}
            }
        }
        (!program.ranks.is_empty() || !program.failures.is_empty()).then_some(program)
    }

    fn empty(network: &Network) -> Program {
        let agenda = Agenda {
            hosts: Vec::new(),
            planes: Vec::new(),
            events: BinaryHeap::new(),
            flows: BTreeMap::new(),
            made: 0,
            sources: Vec::new(),
            connections: BTreeMap::new(),
            ports: Vec::new(),
            sums: BTreeMap::new(),
            leaves: Vec::new(),
            network: Network { leaf: Vec::new(), pod: Vec::new(), ..network.clone() },
            boundaries: None,
            splits_excess: false,
        };
        Program {
            ranks: Vec::new(),
            agenda,
            messages: Vec::new(),
            free: Vec::new(),
            flows: Vec::new(),
            failures: Vec::new(),
        }
    }

    fn add(
        &mut self, traffic: u16, source: &Traffic, collective: &Collective, network: &Network, seed: u64,
        first_request: u32,
    ) {
        let first_rank = self.ranks.len() as u32;
        let job = self.agenda.sources.len() as u32;
        let hosts = hosts(&collective.deployment(), traffic, network.hosts_of_plane(), seed);
        let weights = collective.skew.map(|skew| zipf(skew, collective.group, traffic, seed));
        for (rank, host) in (0..collective.ranks).zip(hosts) {
            let (group, position) = position(collective, rank);
            let operations = collectives::operations(collective, group, position, (first_rank, &weights));
            self.agenda.events.push(Reverse((source.start, first_rank + rank, Event::Begin)));
            self.ranks.push(Rank::new(job, operations));
            self.agenda.add_rank(host);
        }
        let record = |group, repeat| CollectiveRecord {
            traffic,
            group,
            repeat,
            start: Time::ZERO,
            last_start: Time::ZERO,
            end: None,
            path: PathRecord::default(),
        };
        let records = (0..collective.groups()).flat_map(|group| {
            (0..collective.repeats).map(move |repeat| Progress {
                record: record(group, repeat),
                ended: 0,
                begun: false,
            })
        });
        let total = Some(u64::try_from(Program::flows(collective)).unwrap_or(u64::MAX));
        let kind = Kind::Collective { collective: collective.clone(), first_request, records: records.collect() };
        self.agenda.sources.push(Job::new(traffic, source, (first_rank, total), collective.deployment(), kind));
    }

    fn add_training(&mut self, traffic: u16, source: &Traffic, training: &Training, network: &Network, seed: u64) {
        let total = Some(u64::try_from(Program::flows_of_training(training)).unwrap_or(u64::MAX));
        let graph = training::graph(training);
        let options = (training.plan(), training.warmup_steps, training.deployment.timeline);
        self.add_graph((traffic, source, total), graph, options, network, seed);
    }

    fn add_inference(&mut self, traffic: u16, source: &Traffic, inference: &Inference, network: &Network, seed: u64) {
        let (graph, answers) = inference::graph(inference, traffic, source.start, seed);
        self.add_graph((traffic, source, None), graph, (inference.plan(), 0, None), network, seed);
        if let Some(job) = self.agenda.sources.last_mut() {
            job.answers = Some(answers);
        }
    }

    fn add_trace(&mut self, traffic: u16, source: &Traffic, trace: &Trace, network: &Network, seed: u64) {
        match trace::graph(trace) {
            Ok(graph) => {
                let options = (trace.plan(), 0, trace.deployment.timeline);
                self.add_graph((traffic, source, None), graph, options, network, seed);
            }
            Err(error) => self.failures.push(format!("traffic `{}` has no tasks: {error}", source.name)),
        }
    }

    /// If nothing can happen because ranks look only a limited number of tasks ahead, they look further.
    fn look_further(&mut self, now: Time) {
        let Program { ranks, agenda, messages, free, .. } = self;
        while agenda.events.is_empty() && agenda.flows.is_empty() && messages.len() == free.len() {
            let mut helps = false;
            for (number, rank) in (0..).zip(ranks.iter_mut()) {
                helps |= rank.look_further(number, now, agenda);
            }
            if !helps {
                return;
            }
        }
    }

    /// Adds ranks that carry out the tasks of a graph. `total` is the number of flows, if it is known.
    fn add_graph(
        &mut self, (traffic, source, total): (u16, &Traffic, Option<u64>), graph: Graph,
        (plan, warmup, timeline): (Collective, u32, Option<u32>), network: &Network, seed: u64,
    ) {
        let deployment = plan.deployment();
        let first_rank = self.ranks.len() as u32;
        let job = self.agenda.sources.len() as u32;
        let Graph { communicators, labels, tasks } = graph;
        let hosts = hosts(&deployment, traffic, network.hosts_of_plane(), seed);
        for (tasks, (rank, host)) in tasks.into_iter().zip((first_rank..).zip(hosts)) {
            self.agenda.events.push(Reverse((source.start, rank, Event::Begin)));
            self.ranks.push(Rank::of_tasks(job, Todo::new(tasks)));
            self.agenda.add_rank(host);
        }
        let kind = Kind::Tasks(Box::new(TaskJob::new(communicators, labels, warmup, plan, timeline)));
        self.agenda.sources.push(Job::new(traffic, source, (first_rank, total), deployment, kind));
    }
}

/// The host of each rank.
fn hosts(deployment: &Deployment, traffic: u16, hosts: u32, seed: u64) -> Vec<u32> {
    let accelerators = deployment.accelerators();
    let servers = deployment.ranks / accelerators;
    if deployment.placement == Placement::File {
        return deployment.placed.to_vec();
    }
    if deployment.placement == Placement::Rail {
        return (0..deployment.ranks).map(|rank| rank % accelerators * servers + rank / accelerators).collect();
    }
    // Places of servers: as many consecutive hosts as a server has accelerators.
    let mut places: Vec<u32> = (0..hosts / accelerators).collect();
    if deployment.placement == Placement::Random {
        let mut stream = Stream::new(seed, traffic, u64::MAX);
        for place in 0..servers as usize {
            let other = place + stream.below((places.len() - place) as u32) as usize;
            places.swap(place, other);
        }
    }
    places.iter().flat_map(|place| (0..accelerators).map(move |rank| place * accelerators + rank)).collect()
}

/// The fraction of the bytes that each of `ranks` ranks receives: a Zipf distribution over the ranks in a random order.
fn zipf(exponent: f64, ranks: u32, traffic: u16, seed: u64) -> Arc<[f64]> {
    let mut stream = Stream::new(seed, traffic, u64::MAX - 1);
    let mut weights: Vec<f64> = (1..=ranks).map(|place| rng::exp(-exponent * rng::ln(f64::from(place)))).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
    for place in 0..ranks as usize {
        let other = place + stream.below(ranks - place as u32) as usize;
        weights.swap(place, other);
    }
    weights.into()
}

/// The group of a rank, and its position in the group.
fn position(collective: &Collective, rank: u32) -> (u32, u32) {
    match collective.grouping {
        Grouping::Consecutive => (rank / collective.group, rank % collective.group),
        Grouping::Strided => (rank % collective.groups(), rank / collective.groups()),
    }
}

/// The rank at a position of a group.
fn rank_at(collective: &Collective, group: u32, position: u32) -> u32 {
    match collective.grouping {
        Grouping::Consecutive => group * collective.group + position,
        Grouping::Strided => position * collective.groups() + group,
    }
}

impl Agenda {
    /// Sends a message at `now`: in the domain of a server, or as a flow of the fabric.
    fn send(&mut self, job: u32, now: Time, bytes: u64, message: Message) {
        let Job { deployment, first_rank, .. } = &self.sources[job as usize];
        let server_of = |rank: u32| (rank - first_rank) / deployment.accelerators();
        match deployment.server {
            Some(server) if server_of(message.from) == server_of(message.to) => {
                let reaction = deployment.reaction;
                self.send_inside(&server, now, bytes, message, reaction);
            }
            _ => self.start_flow(job, now, bytes, message),
        }
    }

    /// Sends a message between two ranks of a server: when the ports of both are free, at the rate of a port. The
    /// sender learns of the arrival at once.
    fn send_inside(&mut self, server: &Server, now: Time, bytes: u64, message: Message, reaction: Time) {
        let (from, to) = (message.from as usize, message.to as usize);
        let begin = now.max(self.ports[from][0]).max(self.ports[to][1]);
        let end = begin.saturating_add(server.rate.time_for(bytes));
        self.ports[from][0] = end;
        self.ports[to][1] = end;
        let arrival = end.saturating_add(server.latency).saturating_add(reaction);
        self.events.push(Reverse((arrival, message.to, Event::Arrive(message.mailbox(), message.path))));
        self.events.push(Reverse((arrival, message.from, Event::Complete(message.operation, message.path))));
    }

    /// Adds a rank on a host, and on the hosts with the same place in the other planes.
    fn add_rank(&mut self, host: u32) {
        self.hosts.push(host);
        self.planes.push(0);
        self.ports.push([Time::ZERO; 2]);
        self.leaves.resize(self.leaves.len() + self.network.planes() as usize, Time::ZERO);
    }

    /// Starts the flow of a message at `now`. The messages of a rank take the planes in turn; those of one plane
    /// between two ranks have a connection of their own.
    fn start_flow(&mut self, job: u32, now: Time, bytes: u64, message: Message) {
        let planes = self.network.planes();
        let turn = &mut self.planes[message.from as usize];
        let plane = std::mem::replace(turn, (*turn + 1) % planes);
        let message = Message { connection: message.connection * planes + plane, ..message };
        let shift = plane * self.network.hosts_of_plane();
        let [src, dst] = [message.from, message.to].map(|rank| self.hosts[rank as usize] + shift);
        let source = &mut self.sources[job as usize];
        let last = source.total.map_or(u64::MAX, |total| total.saturating_sub(source.cooldown));
        let (request, is_warm) = source.request(&message);
        let measured = is_warm && (source.warmup..last).contains(&source.made);
        source.made += 1;
        let flow = FlowSpec { start: now, src, dst, bytes, request, traffic: source.traffic, measured, hash: None };
        let nic = (message.from * planes + plane) as usize;
        let free = self.leaves[nic].max(now);
        let wire = u64::try_from(self.network.wire_bytes(bytes)).unwrap_or(u64::MAX);
        self.leaves[nic] = free.saturating_add(self.network.host_rate[src as usize].time_for(wire));
        let sent = Sent { message, start: now, behind: free.saturating_sub(now) };
        self.flows.insert((now, source.traffic, src, self.made), (flow, sent));
        self.made += 1;
    }

    /// Notes that a rank begins or ends its part of a collective operation.
    fn mark(&mut self, job: u32, rank: u32, mark: Mark, path: Path, now: Time) {
        let source = &mut self.sources[job as usize];
        let rank = rank - source.first_rank;
        let Kind::Collective { collective, records, .. } = &mut source.kind else { return };
        let (group, _) = position(collective, rank);
        let at = |repeat| (group * collective.repeats + repeat) as usize;
        match mark {
            Mark::None => {}
            Mark::Begin(repeat) => {
                let progress = &mut records[at(repeat)];
                let record = &mut progress.record;
                record.start = if progress.begun { record.start.min(now) } else { now };
                record.last_start = record.last_start.max(now);
                progress.begun = true;
            }
            Mark::End(repeat) => {
                let progress = &mut records[at(repeat)];
                progress.ended += 1;
                // Events are in order of time, so the last rank that ends is the latest.
                if progress.ended == collective.group {
                    progress.record.end = Some(now);
                    progress.record.path =
                        path.in_step(repeat, now).record(progress.record.start, now, self.splits_excess);
                }
            }
        }
    }
}

impl Message {
    /// Where the receiver keeps the message.
    fn mailbox(&self) -> rank::Mailbox {
        self.tag.mailbox(self.from, self.space)
    }
}

impl Source for Program {
    fn advance(&mut self, end: Time) {
        let Program { ranks, agenda, .. } = self;
        let mut last = None;
        while let Some(Reverse((now, ..))) = agenda.events.peek()
            && *now < end
            && let Some(Reverse((now, rank, event))) = agenda.events.pop()
        {
            ranks[rank as usize].handle(rank, event, now, agenda);
            last = Some(now);
        }
        if let Some(now) = last
            && self.agenda.events.is_empty()
        {
            self.look_further(now);
            // Computations that begin now may end before `end`.
            if self.agenda.events.peek().is_some_and(|Reverse((next, ..))| *next < end) {
                self.advance(end);
            }
        }
    }

    fn head(&self) -> Option<(Time, u16)> {
        self.agenda.flows.keys().next().map(|(start, traffic, ..)| (*start, *traffic))
    }

    fn next_event(&self) -> Time {
        let flow = self.agenda.flows.keys().next().map_or(Time::MAX, |(start, ..)| *start);
        self.agenda.events.peek().map_or(flow, |Reverse((event, ..))| flow.min(*event))
    }

    fn take(&mut self) -> Option<(FlowSpec, Origin)> {
        let (_, (flow, sent)) = self.agenda.flows.pop_first()?;
        let message = sent.message;
        let next = self.agenda.connections.len() as u32;
        let ends = (message.from, message.to, message.space, message.connection);
        let connection = *self.agenda.connections.entry(ends).or_insert(next);
        let member = match self.free.pop() {
            Some(member) => {
                self.messages[member as usize] = sent;
                member
            }
            None => {
                self.messages.push(sent);
                self.messages.len() as u32 - 1
            }
        };
        Some((flow, Origin { member, connection, stream: true }))
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

    fn complete(&mut self, flow: u32, Completion { delivered, known, ideal, delays }: Completion) {
        let member = std::mem::replace(&mut self.flows[flow as usize], Loops::NONE);
        let Some(Sent { message, start, behind }) = self.messages.get(member as usize).copied() else { return };
        self.free.push(member);
        let reaction = self.agenda.sources[self.ranks[message.from as usize].job() as usize].deployment.reaction;
        let excess = delivered.saturating_sub(start).saturating_sub(behind.saturating_add(ideal));
        let path = message.path.delayed(excess, delays.map_or([Time::ZERO; 3], |delays| delays.parts(excess)));
        let arrival = Event::Arrive(message.mailbox(), path);
        let events = &mut self.agenda.events;
        events.push(Reverse((delivered.saturating_add(reaction), message.to, arrival)));
        events.push(Reverse((known.saturating_add(reaction), message.from, Event::Complete(message.operation, path))));
    }

    fn total(&self) -> Option<u64> {
        self.agenda.sources.iter().try_fold(0u64, |sum, source| Some(sum.saturating_add(source.total?)))
    }

    fn reaction(&self) -> Option<Time> {
        self.agenda.sources.iter().map(|source| source.deployment.reaction).min()
    }

    fn waiting(&self) -> Vec<String> {
        const NAMED: usize = 4;
        let waiting = (0u32..).zip(&self.ranks).filter_map(|(number, rank)| {
            let source = &self.agenda.sources[rank.job() as usize];
            let failed = source.failed(number - source.first_rank);
            let waits = || rank.waits_for(&self.agenda, |other| other.saturating_sub(source.first_rank));
            let what = failed.or_else(waits)?;
            Some(format!("rank {} of traffic `{}` waits for {what}", number - source.first_rank, source.name))
        });
        self.failures.iter().cloned().chain(waiting).take(NAMED).collect()
    }

    fn step_boundaries(&mut self) -> Option<StepBoundaries> {
        let has_steps = |source: &Job| matches!(source.kind, Kind::Tasks(_));
        if self.agenda.sources.iter().any(has_steps) {
            self.agenda.boundaries = Some(StepBoundaries::default());
        }
        self.agenda.boundaries.clone()
    }

    fn split_excess(&mut self) {
        self.agenda.splits_excess = true;
    }

    fn take_records(&mut self) -> ProgramRecords {
        let mut all = ProgramRecords::default();
        for (job, source) in (0u32..).zip(&mut self.agenda.sources) {
            let ranks = self.ranks.iter().filter(|rank| rank.job() == job);
            source.take_records(&mut all, ranks.map(Rank::unfinished_step).min().unwrap_or(u32::MAX));
        }
        all
    }
}
