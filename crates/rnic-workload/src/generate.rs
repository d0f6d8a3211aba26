//! Generates the flows of a run: one time-ordered stream that merges all traffic sources of the run.
//!
//! The stream creates each flow on demand. A Poisson source keeps one pending flow per host; incasts and permutations
//! keep the flows of the current repetition; the flows of a list are shared, not copied. The order of the stream is
//! total: by start, then by index of the traffic source, then by sending host, then by the order in which this host
//! generates its flows; for a list, this is the order of the list.

use super::FlowSpec;
use super::all_to_all::AllToAll;
use super::composite::Composite;
use super::loops::Loops;
use super::network::Network;
use super::places::Places;
use super::poisson::Poisson;
use super::program::Program;
use super::rounds::Rounds;
use super::source::Source as Reactive;
use super::triggered::Triggers;
use rnic_spec::{Locality, Traffic, TrafficPattern};
use rnic_transport::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Checks that [`generate()`] and [`closed_loops()`] can generate the flows of all traffic sources in `traffic`.
///
/// # Errors
/// One sentence that names the traffic source, and says what is impossible and what is accepted.
pub fn check(traffic: &[Traffic], network: &Network) -> Result<(), String> {
    network.validate()?;
    if traffic.len() > usize::from(u16::MAX) {
        return Err(format!("{} traffic sources are too many: at most {}", traffic.len(), u16::MAX));
    }
    let mut requests = 0u64;
    for source in traffic {
        check_source(source, network)
            .and_then(|()| check_planes(&source.pattern, network))
            .map_err(|error| format!("traffic `{}`: {error}", source.name))?;
        requests += request_count(&source.pattern);
    }
    if requests >= u64::from(FlowSpec::NO_REQUEST) {
        return Err(format!("{requests} requests are too many: at most {}", FlowSpec::NO_REQUEST - 1));
    }
    check_outside(traffic)?;
    check_hashes(traffic)
}

/// Checks that flows from outside are alone with flows that start at fixed times.
fn check_outside(traffic: &[Traffic]) -> Result<(), String> {
    let is_outside = |source: &&Traffic| matches!(source.pattern, TrafficPattern::Outside { .. });
    let Some(outside) = traffic.iter().find(is_outside) else { return Ok(()) };
    let reactive = |source: &&Traffic| source.pattern.is_closed() && source.name != outside.name;
    match traffic.iter().find(reactive) {
        None => Ok(()),
        Some(other) => Err(format!(
            "traffic `{}` has pattern \"outside\", so traffic `{}` cannot wait for completions; accepted beside it: patterns \
             whose flows start at fixed times, such as \"poisson\" and \"list\"",
            outside.name, other.name
        )),
    }
}

/// Checks that no two listed flows between the same hosts have the same `hash`: their packets could not be told apart.
fn check_hashes(traffic: &[Traffic]) -> Result<(), String> {
    let mut all: Vec<(u32, u32, u32)> = Vec::new();
    for source in traffic {
        if let TrafficPattern::List { flows } = &source.pattern {
            all.extend(flows.iter().filter_map(|flow| Some((flow.src, flow.dst, flow.hash?))));
        }
    }
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => {
            let (src, dst, hash) = pair[0];
            Err(format!(
                "two flows from host {src} to host {dst} have the hash {hash}; give each flow between the same hosts \
                 another hash"
            ))
        }
    }
}

/// Size in bytes of the largest flow that `traffic` can contain.
pub fn largest(traffic: &[Traffic]) -> u64 {
    let of_sizes = |sizes: &super::SizeDistribution| sizes.points.last().map_or(1, |point| point.0.ceil() as u64);
    let striped = |total: u64, flows: u64| total.div_ceil(flows.max(1));
    let of_pattern = |pattern: &TrafficPattern| match pattern {
        TrafficPattern::Poisson { sizes, .. }
        | TrafficPattern::Permutation { sizes, .. }
        | TrafficPattern::AllToAll { sizes, .. }
        | TrafficPattern::AllToAllLoop { sizes, .. }
        | TrafficPattern::Pairs { sizes, .. } => of_sizes(sizes),
        TrafficPattern::List { flows } => flows.iter().map(|flow| flow.bytes).max().unwrap_or(1),
        TrafficPattern::Triggered(list) => list.flows.iter().map(|flow| flow.bytes).max().unwrap_or(1),
        TrafficPattern::Incast { senders, total, connections, .. } => {
            striped(total.0, u64::from(*senders) * u64::from(*connections))
        }
        TrafficPattern::IncastLoop { incast, .. } => striped(incast.total.0, incast.flows()),
        TrafficPattern::Collective(collective) => Program::largest(collective),
        TrafficPattern::Outside { largest, .. } => largest.0,
        TrafficPattern::Trace(trace) => trace.content.largest,
        TrafficPattern::Inference(inference) => Program::largest_of_inference(inference),
        TrafficPattern::Training(training) => Program::largest_of_training(training),
    };
    traffic.iter().map(|source| of_pattern(&source.pattern)).max().unwrap_or(1)
}

/// Checks that one traffic source can run on this network; the error says why it cannot.
fn check_source(traffic: &Traffic, network: &Network) -> Result<(), String> {
    match &traffic.pattern {
        TrafficPattern::Poisson { load, sizes, locality, .. } => {
            if !(*load > 0.0 && load.is_finite()) {
                return Err(format!("load is {load}; write a fraction above 0, for example 0.7"));
            }
            check_locality(locality, network)?;
            sizes.validate()
        }
        TrafficPattern::List { flows } => {
            flows.iter().try_for_each(|flow| check_listed(flow, traffic.start, network.hosts))
        }
        TrafficPattern::Triggered(list) => list.check(network.hosts).map_err(|(_, error)| error),
        TrafficPattern::Outside { .. } => Ok(()),
        pattern if pattern.is_program() => Program::check(traffic, network),
        pattern if pattern.is_closed() => Loops::check(traffic, network),
        _ => Rounds::check(traffic, network),
    }
}

/// Checks that no flow leads from one plane to another.
fn check_planes(pattern: &TrafficPattern, network: &Network) -> Result<(), String> {
    match pattern {
        _ if network.planes() == 1 => Ok(()),
        TrafficPattern::List { flows } => flows.iter().try_for_each(|flow| network.check_plane(flow.src, flow.dst)),
        TrafficPattern::Triggered(list) => {
            list.flows.iter().try_for_each(|flow| network.check_plane(flow.src, flow.dst))
        }
        pattern if pattern.is_program() => Ok(()),
        _ => Err(format!(
            "the fabric has {} planes without a path between them; accepted: the patterns collective, training, inference and \
             trace, and lists of flows within a plane",
            network.planes()
        )),
    }
}

/// Checks that the network has the switches and pods among whose hosts the receivers are drawn.
fn check_locality(locality: &Locality, network: &Network) -> Result<(), String> {
    if locality.is_uniform() {
        return Ok(());
    }
    if network.leaf.len() != network.hosts as usize {
        return Err("`locality` needs the switch of each host, which this network does not state".to_string());
    }
    if locality.pod.is_some() && network.pod.len() != network.hosts as usize {
        return Err("`pod_locality` needs pods; topologies with pods are fat-tree and leaf-spine-core".to_string());
    }
    Places::new(locality, network).check()
}

/// Checks one flow of a list of flows. The flow's start time is relative to the start of the list, `shift`. The error
/// says why the flow is impossible.
fn check_listed(flow: &FlowSpec, shift: Time, hosts: u32) -> Result<(), String> {
    let FlowSpec { src, dst, bytes, .. } = *flow;
    if src == dst || src >= hosts || dst >= hosts || bytes == 0 {
        return Err(format!(
            "a flow of {bytes} B from host {src} to host {dst} is impossible: a flow needs at least 1 B and two different \
             hosts from 0 to {}",
            hosts.saturating_sub(1)
        ));
    }
    if flow.start.saturating_add(shift) == Time::MAX {
        return Err(format!("a flow starts {} after {shift}: simulated time ends after 213 days", flow.start));
    }
    Ok(())
}

/// Number of request ids that a traffic source uses which is not a closed loop: one for each incast request and for
/// each collective operation, and in a list of flows the largest id of the list plus one.
fn request_count(pattern: &TrafficPattern) -> u64 {
    match pattern {
        TrafficPattern::Incast { repeats, .. } => u64::from(*repeats),
        TrafficPattern::List { flows } => {
            let numbers = flows.iter().map(|flow| flow.request).filter(|&request| request != FlowSpec::NO_REQUEST);
            numbers.max().map_or(0, |last| u64::from(last) + 1)
        }
        TrafficPattern::Collective(collective) => Program::requests(collective),
        _ => 0,
    }
}

/// The closed loops of `traffic`, whose flows start when earlier flows complete; `None` if `traffic` has no closed
/// loop. The flows of an incast request have a common request id; the ids of closed loops follow the ids of the other
/// traffic sources.
///
/// ```
/// use rnic_spec::{Traffic, TrafficPattern};
/// use rnic_transport::{BitRate, Time};
/// use rnic_workload::{Network, closed_loops, sizes};
/// use std::path::Path;
///
/// // One pair of hosts sends two messages. The second message starts 1 us after the sender knows that the first
/// // message has arrived.
/// let sizes = sizes::parse("fixed 64 KB", Path::new("."))?;
/// let pattern = TrafficPattern::Pairs {
///     pairs: 1,
///     sizes,
///     messages: Some(2),
///     think_time: Time::from_us(1),
///     persistent: false,
/// };
/// let traffic = Traffic { name: "pairs".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
/// let host_rate = vec![BitRate::from_gbps(40); 4];
/// let network = Network { hosts: 4, host_rate, mtu: 1_000, wire_overhead: 82, ..Network::default() };
/// let mut loops = closed_loops(&[traffic], &network, 1).expect("a closed loop");
///
/// let (first, origin) = loops.take().expect("the first message");
/// assert_eq!((first.start, loops.next_start()), (Time::ZERO, Time::MAX));
/// loops.place(0, origin.member);
/// loops.complete(0, Time::from_us(20));
/// assert_eq!(loops.next_start(), Time::from_us(21));
/// # Ok::<(), String>(())
/// ```
pub fn closed_loops(traffic: &[Traffic], network: &Network, seed: u64) -> Option<Loops> {
    network.validate().ok()?;
    let requests: u64 = traffic.iter().map(|source| request_count(&source.pattern)).sum();
    Loops::new(traffic, network, seed, u32::try_from(requests).ok()?)
}

/// The part of a run's traffic that one transport carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The priority of the traffic sources; `None` for all sources.
    pub priority: Option<u8>,
    /// The requests of closed loops have every `step`-th id from the `offset`-th on, so that other shares use other
    /// ids.
    pub offset: u32,
    /// See `offset`.
    pub step: u32,
}

impl Share {
    /// All traffic of a run.
    pub const WHOLE: Share = Share { priority: None, offset: 0, step: 1 };
}

/// The traffic of `traffic` whose flows depend on the completion of earlier flows, as far as it belongs to `share`: its
/// closed loops, its programs and its lists with triggers; `None` if it has none of them.
pub fn reactive(traffic: &[Traffic], network: &Network, seed: u64, share: Share) -> Option<Box<dyn Reactive>> {
    let first_request = |index: u16| {
        let before: u64 = traffic[..usize::from(index)].iter().map(|source| request_count(&source.pattern)).sum();
        u32::try_from(before).unwrap_or(FlowSpec::NO_REQUEST)
    };
    network.validate().ok()?;
    // Random numbers and results depend on the index of a source, so the sources of other shares keep their places.
    let own = |source: &Traffic| match share.priority.is_none_or(|priority| source.priority == priority) {
        false if source.pattern.is_closed() => {
            Traffic { pattern: TrafficPattern::List { flows: [].into() }, ..source.clone() }
        }
        _ => source.clone(),
    };
    let own: Vec<Traffic> = traffic.iter().map(own).collect();
    let requests = traffic.iter().map(|source| request_count(&source.pattern)).sum::<u64>();
    let loops = Loops::new(&own, network, seed, u32::try_from(requests).ok()?);
    let loops = loops.map(|loops| loops.with_request_ids(share.offset, share.step));
    let program = Program::new(&own, network, seed, first_request);
    let mut parts: Vec<Box<dyn Reactive>> = Vec::new();
    parts.extend(loops.map(|loops| -> Box<dyn Reactive> { Box::new(loops) }));
    parts.extend(program.map(|program| -> Box<dyn Reactive> { Box::new(program) }));
    parts.extend(Triggers::new(&own, network).map(|triggers| -> Box<dyn Reactive> { Box::new(triggers) }));
    match parts.len() {
        0 | 1 => parts.pop(),
        _ => Some(Box::new(Composite::new(parts))),
    }
}

/// The flows of all traffic sources in `traffic` except closed loops and programs, with random numbers from `seed`. The
/// flows are ordered by (start, traffic index, sending host, order in which the host generates them).
///
/// The flows of an incast request have a common request id, which is unique in the run: the ids of each source follow
/// the ids of the sources before it. The start times of the flows in a list are relative to the `start` of the traffic
/// source. A source that [`check`] refuses yields no flows.
///
/// ```
/// use rnic_spec::{Arrivals, Locality, Traffic, TrafficPattern};
/// use rnic_transport::{BitRate, Time};
/// use rnic_workload::{Network, check, generate, sizes};
/// use std::path::Path;
///
/// let sizes = sizes::parse("irn-heavy-tailed", Path::new("."))?;
/// let (locality, arrivals) = (Locality::default(), Arrivals::Poisson);
/// let pattern = TrafficPattern::Poisson { load: 0.7, sizes, flows: 4, locality, arrivals };
/// let traffic = [Traffic { name: "poisson".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 }];
/// let host_rate = vec![BitRate::from_gbps(40); 54];
/// let network = Network { hosts: 54, host_rate, mtu: 1_000, wire_overhead: 82, ..Network::default() };
/// check(&traffic, &network)?;
/// let flows: Vec<_> = generate(&traffic, &network, 1).collect();
/// assert_eq!(flows.len(), 4);
/// assert_eq!((flows[0].src, flows[0].dst, flows[0].bytes), (16, 50, 5_947));
/// # Ok::<(), String>(())
/// ```
pub fn generate(traffic: &[Traffic], network: &Network, seed: u64) -> FlowStream {
    let mut stream = FlowStream { sources: Vec::new(), order: BinaryHeap::new(), total: 0 };
    let mut first_request = 0u64;
    for (index, source) in (0..u16::MAX).zip(traffic) {
        let next_request = first_request + request_count(&source.pattern);
        let possible = network.validate().and_then(|()| check_source(source, network)).is_ok();
        if possible && !source.pattern.is_closed() && next_request < u64::from(FlowSpec::NO_REQUEST) {
            stream.push(Source::new(index, source, network, seed, first_request as u32));
        }
        first_request = next_request;
    }
    stream
}

/// Stream of the flows of a run in time order, which creates each flow on demand.
#[derive(Debug)]
pub struct FlowStream {
    sources: Vec<Source>,
    /// The next flow of every traffic source, as (start, index of the source in `sources`); the earliest is on top.
    order: BinaryHeap<Reverse<(Time, usize)>>,
    total: u64,
}

impl FlowStream {
    /// Total number of flows of the stream, including flows already taken from it.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn push(&mut self, mut source: Source) {
        source.advance();
        if let Some(flow) = source.head {
            self.order.push(Reverse((flow.start, self.sources.len())));
        }
        self.total = self.total.saturating_add(source.total);
        self.sources.push(source);
    }
}

impl Iterator for FlowStream {
    type Item = FlowSpec;

    fn next(&mut self) -> Option<FlowSpec> {
        let Reverse((_, position)) = self.order.pop()?;
        let source = &mut self.sources[position];
        let flow = source.head.take();
        source.advance();
        if let Some(next) = source.head {
            self.order.push(Reverse((next.start, position)));
        }
        flow
    }
}

/// One traffic source and its next flow.
#[derive(Debug)]
struct Source {
    flows: Flows,
    head: Option<FlowSpec>,
    index: u16,
    first_request: u32,
    /// Number of flows that the source has generated so far, including `head`.
    made: u64,
    total: u64,
    warmup: u64,
    cooldown: u64,
}

/// The generator of a traffic source's flows.
#[derive(Debug)]
enum Flows {
    Poisson(Poisson),
    AllToAll(Box<AllToAll>),
    Rounds(Box<Rounds>),
    List { flows: Arc<[FlowSpec]>, shift: Time },
}

impl Source {
    fn new(index: u16, traffic: &Traffic, network: &Network, seed: u64, first_request: u32) -> Source {
        let (flows, total) = match &traffic.pattern {
            TrafficPattern::Poisson { load, sizes, flows, locality, arrivals } => {
                let shape = (locality, arrivals);
                let poisson = Poisson::new(index, traffic.start, *load, sizes, shape, network, seed);
                (Flows::Poisson(poisson), *flows)
            }
            TrafficPattern::List { flows } => {
                (Flows::List { flows: sorted(flows), shift: traffic.start }, flows.len() as u64)
            }
            TrafficPattern::AllToAll { sizes, repeats, interval } => {
                let times = (*repeats, *interval);
                let all = AllToAll::new(index, traffic.start, sizes, times, network, seed);
                (Flows::AllToAll(Box::new(all)), AllToAll::total(network.hosts, *repeats))
            }
            _ => {
                let rounds = Rounds::new(index, traffic, network, seed);
                let total = rounds.total();
                (Flows::Rounds(Box::new(rounds)), total)
            }
        };
        let Traffic { warmup, cooldown, .. } = *traffic;
        Source { flows, head: None, index, first_request, made: 0, total, warmup, cooldown }
    }

    /// Generates the next flow of the source, if it has one, and stores it in `head`.
    fn advance(&mut self) {
        if self.made == self.total {
            return;
        }
        let flow = match &mut self.flows {
            Flows::Poisson(poisson) => poisson.next(),
            Flows::AllToAll(all) => all.next(),
            Flows::Rounds(rounds) => rounds.next(),
            Flows::List { flows, shift } => flows.get(self.made as usize).map(|flow| FlowSpec {
                start: flow.start.saturating_add(*shift),
                traffic: self.index,
                ..*flow
            }),
        };
        self.head = flow.map(|flow| self.finish(flow));
        self.made += 1;
    }

    /// Returns the flow with a request id that is unique in the run. Also marks whether the flow is measured: flows of
    /// the source's warm-up and cool-down are not.
    fn finish(&self, flow: FlowSpec) -> FlowSpec {
        let inside = self.made >= self.warmup && self.made < self.total.saturating_sub(self.cooldown);
        let request = match flow.request {
            FlowSpec::NO_REQUEST => FlowSpec::NO_REQUEST,
            own => own + self.first_request,
        };
        FlowSpec { request, measured: flow.measured && inside, ..flow }
    }
}

/// Returns the flows sorted by start and sending host; flows with the same start and the same sending host keep their
/// order.
fn sorted(flows: &Arc<[FlowSpec]>) -> Arc<[FlowSpec]> {
    if flows.is_sorted_by_key(|flow| (flow.start, flow.src)) {
        return flows.clone();
    }
    let mut flows = flows.to_vec();
    flows.sort_by_key(|flow| (flow.start, flow.src));
    flows.into()
}
