//! Takes samples of a run at regular intervals of simulated time: the length of queues, and the payload that flows have
//! delivered.

use crate::events::Listener;
use crate::host::RunHosts;
use rnic_fabric::{Body, BodyOf, Fabric, PortId, Topology, Watcher};
use rnic_spec::{DropRow, FlowLog, FlowSamples, QueueSamples, RunEvent, Samples};
use rnic_spec::{Watch, WatchedQueues};
use rnic_transport::Time;
use std::collections::BTreeMap;

/// Maximum number of sampled values of a run, which take 160 MB. Sampling ends when it is reached.
const MAX_VALUES: usize = 20_000_000;

/// What a run samples and when: egress queues of switches, and the progress of flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WatchPlan {
    start: Time,
    interval: Time,
    /// Name and ports of each sampled egress queue. A queue has several ports if several links of the switch lead to
    /// the same node.
    queues: Vec<(String, Vec<PortId>)>,
    flows: bool,
}

impl WatchPlan {
    /// The plan of samples for the `[watch]` table of a scenario, on the fabric `topology`.
    ///
    /// # Errors
    /// A queue does not exist, belongs to a host, or is named twice; the error is one sentence.
    pub(crate) fn new(watch: &Watch, topology: &Topology) -> Result<WatchPlan, String> {
        let name = |port: PortId| {
            let node = topology.port(port).node as usize;
            format!("{}:{}", topology.names[node], topology.names[topology.peer_node(port) as usize])
        };
        let mut queues: Vec<(String, Vec<PortId>)> = Vec::new();
        match &watch.queues {
            WatchedQueues::All => {
                for port in topology.port_ids().filter(|port| !topology.is_host(topology.port(*port).node)) {
                    let name = name(port);
                    match queues.last_mut().filter(|(last, _)| *last == name) {
                        Some((_, ports)) => ports.push(port),
                        None => queues.push((name, vec![port])),
                    }
                }
            }
            WatchedQueues::Named(names) => {
                for link in names {
                    let ports = crate::link::ports(topology, link)?;
                    if topology.is_host(topology.port(ports[0]).node) {
                        let peer = name(topology.port(ports[0]).peer);
                        return Err(format!(
                            "\"{link}\" is a port of a host; write a port of a switch, such as {peer}"
                        ));
                    }
                    if queues.iter().any(|(other, _)| other == link) {
                        return Err(format!("queue \"{link}\" is named twice"));
                    }
                    queues.push((link.clone(), ports));
                }
            }
        }
        Ok(WatchPlan { start: watch.start, interval: watch.interval, queues, flows: watch.flows })
    }
}

/// Takes the samples of a run's queues and flows at their times.
pub(crate) struct Recorder<'p> {
    plan: &'p WatchPlan,
    /// Simulated time of the next sample; [`Time::MAX`] after the last one.
    next: Time,
    samples: Samples,
    /// Samples of each flow, by the id of the flow's record.
    flows: BTreeMap<u32, FlowSamples>,
    values: usize,
    events: &'p dyn Listener,
    /// Packets dropped and lost until the last sample, for each port and priority; empty if nobody listens.
    drops: Vec<(u64, u64)>,
}

impl<'p> Recorder<'p> {
    pub(crate) fn new(plan: &'p WatchPlan, events: &'p dyn Listener) -> Recorder<'p> {
        let queue = |(name, _): &(String, Vec<PortId>)| QueueSamples { name: name.clone(), bytes: Vec::new() };
        let (start, interval) = (plan.start, plan.interval);
        let queues = plan.queues.iter().map(queue).collect();
        let samples = Samples { start, interval, count: 0, queues, flows: Vec::new() };
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

impl<H: RunHosts> Watcher<H> for Recorder<'_> {
    fn next(&self) -> Time {
        self.next
    }

    fn observe(&mut self, now: Time, fabric: &mut Fabric<BodyOf<H>>, hosts: &mut H) {
        if self.plan.flows && fabric.ranks().is_some() {
            hosts.share_progress();
        }
        let mut delivered = Vec::new();
        if self.plan.flows {
            delivered.extend(hosts.delivered(now));
        }
        self.sample(now, fabric, delivered);
    }
}

impl Recorder<'_> {
    /// Takes a sample at `now`. `delivered` has the bytes that have arrived for each flow under way.
    fn sample<B: Body>(&mut self, now: Time, fabric: &Fabric<B>, delivered: Vec<(u32, u64)>) {
        let priorities = usize::from(fabric.priorities());
        let of_port = |port: &PortId| (0..priorities).map(|priority| fabric.egress(*port, priority)).sum::<u64>();
        let mut lengths: Vec<u64> = self.plan.queues.iter().map(|(_, ports)| ports.iter().map(of_port).sum()).collect();
        if let Some(group) = fabric.ranks() {
            // A rank has the queues of its own switches; the others are empty for it. The group remembers an error.
            let _ = group.sum(&mut lengths);
        }
        for (queue, bytes) in self.samples.queues.iter_mut().zip(lengths) {
            queue.bytes.push(bytes.try_into().unwrap_or(u32::MAX));
        }
        self.values += self.samples.queues.len();
        let tells = self.events.wants_details();
        for (flow, delivered) in &delivered {
            let first = self.samples.count;
            let new = || FlowSamples { flow: *flow, first, delivered: Vec::new() };
            self.flows.entry(*flow).or_insert_with(new).delivered.push(*delivered);
            self.values += 1;
        }
        if tells {
            let queue_bytes = self.samples.queues.iter().filter_map(|queue| queue.bytes.last().copied()).collect();
            // The run stops at the next progress event if the listener cancels it here.
            let _ = self.events.tell(RunEvent::Sample { time: now, queue_bytes, delivered });
        }
        self.tell_drops(now, fabric);
        self.samples.count += 1;
        self.next = if self.values < MAX_VALUES { now.saturating_add(self.plan.interval) } else { Time::MAX };
    }
}
