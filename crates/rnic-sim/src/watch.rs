//! Takes samples of a run at regular intervals of simulated time: the length of queues, the sending time of links, and
//! the payload that flows have delivered.

use crate::events::Listener;
use crate::host::{Observer, RunHosts};
use rnic_fabric::{Body, Fabric, PortId, Topology};
use rnic_spec::{DropRow, FlowLog, FlowSamples, LinkSamples, QueueSamples, RunEvent, Samples};
use rnic_spec::{Watch, WatchedLinks, WatchedQueues};
use rnic_transport::Time;
use std::collections::BTreeMap;

/// Maximum number of sampled values of a run, which take 160 MB. Sampling ends when it is reached.
const MAX_VALUES: usize = 20_000_000;

/// What a run samples and when: egress queues of switches, links, and the progress of flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WatchPlan {
    start: Time,
    interval: Time,
    /// Name and ports of each sampled egress queue. A queue has several ports if several links of the switch lead to
    /// the same node.
    queues: Vec<(String, Vec<PortId>)>,
    /// Name and transmitting ports of each sampled direction of a link. Parallel links between two nodes share a name.
    links: Vec<(String, Vec<PortId>)>,
    flows: bool,
}

impl WatchPlan {
    /// The plan of samples for the `[watch]` table of a scenario, on the fabric `topology`.
    ///
    /// # Errors
    /// A queue or link does not exist, or is named twice, or a queue belongs to a host; the error is one sentence.
    pub(crate) fn new(watch: &Watch, topology: &Topology) -> Result<WatchPlan, String> {
        let is_of_switch = |port: &PortId| !topology.is_host(topology.port(*port).node);
        let queues = match &watch.queues {
            WatchedQueues::All => by_name(topology, topology.port_ids().filter(is_of_switch)),
            WatchedQueues::Named(names) => {
                let queues = named(topology, names, "queue")?;
                if let Some((queue, ports)) = queues.iter().find(|(_, ports)| !is_of_switch(&ports[0])) {
                    let peer = name(topology, topology.port(ports[0]).peer);
                    return Err(format!("\"{queue}\" is a port of a host; write a port of a switch, such as {peer}"));
                }
                queues
            }
        };
        let links = match &watch.links {
            WatchedLinks::All => by_name(topology, topology.port_ids()),
            WatchedLinks::Named(names) => named(topology, names, "link")?,
        };
        Ok(WatchPlan { start: watch.start, interval: watch.interval, queues, links, flows: watch.flows })
    }
}

/// Name of the direction of a link in which `port` sends: its node and the peer.
fn name(topology: &Topology, port: PortId) -> String {
    let node = topology.port(port).node as usize;
    format!("{}:{}", topology.names[node], topology.names[topology.peer_node(port) as usize])
}

/// The ports, grouped by the name of the direction in which they send. Parallel links of a node are adjacent.
pub(crate) fn by_name(topology: &Topology, ports: impl Iterator<Item = PortId>) -> Vec<(String, Vec<PortId>)> {
    let mut groups: Vec<(String, Vec<PortId>)> = Vec::new();
    for port in ports {
        let name = name(topology, port);
        match groups.last_mut().filter(|(last, _)| *last == name) {
            Some((_, ports)) => ports.push(port),
            None => groups.push((name, vec![port])),
        }
    }
    groups
}

/// The ports of each of the `names`; `what` is what they name.
fn named(topology: &Topology, names: &[String], what: &str) -> Result<Vec<(String, Vec<PortId>)>, String> {
    let mut found: Vec<(String, Vec<PortId>)> = Vec::new();
    for name in names {
        if found.iter().any(|(other, _)| other == name) {
            return Err(format!("{what} \"{name}\" is named twice"));
        }
        found.push((name.clone(), crate::link::ports(topology, name)?));
    }
    Ok(found)
}

/// Takes the samples of a run's queues, links and flows at their times.
pub(crate) struct Recorder<'p> {
    plan: &'p WatchPlan,
    /// Simulated time of the next sample; [`Time::MAX`] after the last one.
    next: Time,
    samples: Samples,
    /// Samples of each flow, by the id of the flow's record.
    flows: BTreeMap<u32, FlowSamples>,
    values: usize,
    events: &'p dyn Listener,
    /// Packets dropped and lost until the last sample, for each port and priority; empty without a listener.
    drops: Vec<(u64, u64)>,
}

impl<'p> Recorder<'p> {
    pub(crate) fn new(plan: &'p WatchPlan, events: &'p dyn Listener) -> Recorder<'p> {
        let queue = |(name, _): &(String, Vec<PortId>)| QueueSamples { name: name.clone(), bytes: Vec::new() };
        let (start, interval) = (plan.start, plan.interval);
        let queues = plan.queues.iter().map(queue).collect();
        let link = |(name, ports): &(String, Vec<PortId>)| LinkSamples {
            name: name.clone(),
            transmitters: ports.len() as u32,
            busy_ps: Vec::new(),
        };
        let links = plan.links.iter().map(link).collect();
        let samples = Samples { start, interval, count: 0, queues, links, flows: Vec::new() };
        Recorder { plan, next: start, samples, flows: BTreeMap::new(), values: 0, events, drops: Vec::new() }
    }

    /// Returns all samples of the run, and adds to them the last sample of each finished flow. `records` has the
    /// records of the run's flows.
    pub(crate) fn finish(mut self, records: &FlowLog, warnings: &mut Vec<String>) -> Samples {
        let Samples { start, interval, count, .. } = self.samples;
        if self.next == Time::MAX {
            let end = start + interval * u64::from(count.saturating_sub(1));
            warnings.push(format!("[watch] ended at {end}, after {MAX_VALUES} values; use a longer `interval`"));
        }
        if self.plan.flows {
            // Adds the first sample after the end of each flow, at which all its bytes are delivered.
            for record in records {
                let Some(finish) = record.finish.filter(|finish| *finish >= start) else { continue };
                let after = (finish + Time::from_ps(1)).saturating_sub(start).as_ps().div_ceil(interval.as_ps());
                if after < u64::from(count) {
                    let new = || FlowSamples { flow: record.id, first: after as u32, delivered: Vec::new() };
                    self.flows.entry(record.id).or_insert_with(new).delivered.push(record.bytes);
                }
            }
        }
        self.samples.flows = self.flows.into_values().collect();
        self.samples
    }
}

impl Recorder<'_> {
    /// Tells the listener, if there is one, which packets were dropped or lost since the last sample.
    pub(crate) fn tell_drops<B: Body>(&mut self, now: Time, fabric: &Fabric<B>) {
        // On several ranks, a rank has the counters of its own ports only.
        if !self.events.wants_details() || fabric.ranks().is_some() {
            return;
        }
        let priorities = usize::from(fabric.priorities());
        let topology = fabric.topology();
        self.drops.resize(topology.ports.len() * priorities, (0, 0));
        let mut rows = Vec::new();
        for port in topology.port_ids() {
            let before = self.drops[port.0 as usize * priorities..].iter_mut();
            for (priority, (counters, before)) in fabric.counters(port).iter().zip(before).enumerate() {
                let (dropped, lost) = (counters.drops - before.0, counters.lost - before.1);
                if dropped + lost > 0 {
                    rows.push(DropRow { port: port.0, priority: priority as u8, dropped, lost });
                    *before = (counters.drops, counters.lost);
                }
            }
        }
        if !rows.is_empty() {
            let _ = self.events.tell(RunEvent::Drops { time: now, ports: rows });
        }
    }
}

impl<B: Body> Observer<B> for Recorder<'_> {
    fn next(&self) -> Time {
        self.next
    }

    fn observe(&mut self, now: Time, fabric: &mut Fabric<B>, hosts: &mut dyn RunHosts<B>) {
        if self.plan.flows && fabric.ranks().is_some() {
            hosts.share_progress();
        }
        let delivered = if self.plan.flows { hosts.delivered(now) } else { Vec::new() };
        self.sample(now, fabric, delivered);
    }
}

impl Recorder<'_> {
    /// Takes a sample at `now`. `delivered` has the bytes that have arrived for each flow under way.
    fn sample<B: Body>(&mut self, now: Time, fabric: &Fabric<B>, delivered: Vec<(u32, u64)>) {
        let priorities = usize::from(fabric.priorities());
        let of_port = |port: &PortId| (0..priorities).map(|priority| fabric.egress(*port, priority)).sum::<u64>();
        let sending = |port: &PortId| fabric.sending_time(*port).as_ps();
        let queues = self.plan.queues.iter().map(|(_, ports)| ports.iter().map(of_port).sum());
        let links = self.plan.links.iter().map(|(_, ports)| ports.iter().map(sending).sum());
        let mut values: Vec<u64> = queues.chain(links).collect();
        if let Some(group) = fabric.ranks() {
            // A rank has the values of its own nodes; the others are 0 for it. The group remembers an error.
            let _ = group.sum(&mut values);
        }
        self.put(now, &values, delivered);
        self.tell_drops(now, fabric);
    }

    /// The watched links: the ports that transmit in each direction.
    pub(crate) fn links(&self) -> impl Iterator<Item = &[PortId]> {
        self.plan.links.iter().map(|(_, ports)| &ports[..])
    }

    /// Whether the progress of flows is sampled.
    pub(crate) fn samples_flows(&self) -> bool {
        self.plan.flows
    }

    /// Time of the next sample; [`Time::MAX`] after the last one.
    pub(crate) fn next_sample(&self) -> Time {
        self.next
    }

    /// Adds a sample at `now`: `values` has the bytes in each watched queue, then the sending time of each watched link
    /// in picoseconds; `delivered` has the bytes that have arrived for each flow under way.
    pub(crate) fn put(&mut self, now: Time, values: &[u64], delivered: Vec<(u32, u64)>) {
        let (lengths, busy) = values.split_at(self.samples.queues.len());
        for (queue, bytes) in self.samples.queues.iter_mut().zip(lengths) {
            queue.bytes.push((*bytes).try_into().unwrap_or(u32::MAX));
        }
        for (link, busy) in self.samples.links.iter_mut().zip(busy) {
            link.busy_ps.push(*busy);
        }
        self.values += values.len();
        let tells = self.events.wants_details();
        for (flow, delivered) in &delivered {
            let first = self.samples.count;
            let new = || FlowSamples { flow: *flow, first, delivered: Vec::new() };
            self.flows.entry(*flow).or_insert_with(new).delivered.push(*delivered);
            self.values += 1;
        }
        if tells {
            let queue_bytes = self.samples.queues.iter().filter_map(|queue| queue.bytes.last().copied()).collect();
            let link_busy_ps = self.samples.links.iter().filter_map(|link| link.busy_ps.last().copied()).collect();
            // The run stops at the next progress event if the listener cancels it here.
            let _ = self.events.tell(RunEvent::Sample { time: now, queue_bytes, link_busy_ps, delivered });
        }
        self.samples.count += 1;
        self.next = if self.values < MAX_VALUES { now.saturating_add(self.plan.interval) } else { Time::MAX };
    }
}
