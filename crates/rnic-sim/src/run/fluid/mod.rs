//! Simulates a run with `fidelity = "flow"`: flows are fluids that share the links by max-min fair rates.
//!
//! A flow takes the same path as its packets would ([`ways`]). On each link it takes the bytes of its frames, headers
//! and frame gaps included, and on the way back those of its ACKs. It sends at the rate that [`shares`] computes; the
//! last byte arrives one *latency* after the flow has sent everything. The latency is the ideal completion time minus
//! the time of sending at the rate of the slowest link, so a flow without competitors takes exactly its ideal time.
//!
//! The simulation moves from event to event: a flow starts, has sent everything, or arrives; a link fails or returns; a
//! sample is due. Rates are computed once for each instant. One thread simulates a run, so results do not depend on the
//! number of threads.

mod flows;
mod shares;
mod ways;

use super::Job;
use super::engine::End;
use crate::events::Listener;
use crate::host::{FlowId, FlowTable, Stop};
use crate::link_faults::{LinkFaults, LinkStep};
use crate::resolve::Resolved;
use crate::watch::Recorder;
use flows::{Counters, Flows, Fluid, State, span};
use rnic_fabric::config::Paths;
use rnic_fabric::{Ending, HostId, MIN_FRAME, PortId, Routes, Topology, completion_time};
use rnic_spec::{
    Fidelity, FlowSpec, PortRecord, PriorityCounters, ProgramRecords, RunOutput, RunStatus, Totals, Truncation,
};
use rnic_transport::{FlowConfig, Time};
use rnic_workload::{FlowStream, Loops, Origin};
use shares::{Hop, Shares};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Simulates the run that `job` describes, with rates that are computed at multiples of `quantum`.
pub(super) fn simulate(job: Job<'_, '_>, quantum: Time) -> RunOutput {
    let Job { resolved, seed, flows, source, events, .. } = job;
    let routes = Arc::new(resolved.routes.reseeded(&resolved.topology, seed));
    let network = (resolved.topology.clone(), routes.clone());
    let table = FlowTable::on(resolved.host_config, resolved.flow.mtu, network, flows, source, events);
    let mut run = Run::new(resolved, routes, table, quantum.as_ps(), events);
    let ending = run.run();
    run.conclude(ending)
}

/// Lengths of frames, with frame gaps, in bytes on a link.
#[derive(Clone, Copy)]
struct Frames {
    mtu: u64,
    header: u64,
    gap: u64,
    /// Bytes of one ACK; 0 without ACKs.
    ack: u64,
    /// Number of data packets for each ACK.
    per_ack: u64,
}

impl Frames {
    fn new(resolved: &Resolved) -> Frames {
        let (flow, gap) = (&resolved.flow, u64::from(resolved.host_config.frame_gap));
        let ack = u64::from(resolved.host_config.ack_bytes.max(u32::from(MIN_FRAME))) + gap;
        Frames {
            mtu: flow.mtu.into(),
            header: flow.header.into(),
            gap,
            ack: if flow.acks { ack } else { 0 },
            per_ack: if flow.tcp.delayed_acks.is_some() { 2 } else { 1 },
        }
    }

    fn data(&self, payload: u64) -> u64 {
        (payload + self.header).max(MIN_FRAME.into()) + self.gap
    }
}

/// A run under way.
struct Run<'r, 'e> {
    resolved: &'r Resolved,
    topology: Arc<Topology>,
    routes: Arc<Routes>,
    table: FlowTable<'e, FlowStream>,
    frames: Frames,
    flows: Flows,
    shares: Shares,
    counters: Counters,
    /// The flows of each stream that have not been sent, the one that sends first.
    streams: BTreeMap<u32, VecDeque<u32>>,
    faults: Option<LinkFaults<'r>>,
    recorder: Option<Recorder<'r>>,
    quantum: u64,
    /// When changed loads of ACKs count: a round-trip time after the first of the changes, as with packets.
    acks_due: u64,
    now: u64,
    totals: Totals,
}

impl<'r, 'e: 'r> Run<'r, 'e> {
    fn new(
        resolved: &'r Resolved, routes: Arc<Routes>, table: FlowTable<'e, FlowStream>, quantum: u64,
        events: &'e dyn Listener,
    ) -> Run<'r, 'e> {
        let topology = resolved.topology.clone();
        let rates: Vec<f64> = topology.ports.iter().map(|port| bytes_per_ps(port.link.rate.as_bps())).collect();
        let links = vec![Default::default(); rates.len()];
        let plan = &resolved.faults.links;
        Run {
            shares: Shares::new(rates.iter().copied()),
            counters: Counters { links, rates },
            faults: (!plan.is_empty()).then(|| LinkFaults::new(plan, &topology, routes.clone())),
            recorder: resolved.watch.as_ref().map(|plan| Recorder::new(plan, events)),
            frames: Frames::new(resolved),
            flows: Flows::default(),
            streams: BTreeMap::new(),
            totals: Totals::default(),
            acks_due: u64::MAX,
            now: 0,
            resolved,
            topology,
            routes,
            table,
            quantum,
        }
    }

    /// Simulates until all flows have finished or the run's `duration` is over.
    fn run(&mut self) -> Ending {
        let until = self.resolved.host_config.duration.unwrap_or(Time::MAX).as_ps();
        loop {
            let next = self.next_event();
            if next > until {
                self.now = until;
                return Ending::TimeUp;
            }
            if next == u64::MAX {
                return Ending::Idle;
            }
            self.now = next;
            self.process();
            let idle = self.flows.open == 0;
            if self.progresses() {
                self.table.progress(Time::from_ps(self.now));
            }
            if self.table.close_instant(Time::from_ps(self.now), 0, idle) == ControlFlow::Break(()) {
                return Ending::Stopped;
            }
        }
    }

    /// Whether a flow ends or arrives without a further event, so that the run is not stalled.
    fn progresses(&mut self) -> bool {
        self.flows.next() < u64::MAX
    }

    /// Time of the next event in picoseconds; `u64::MAX` if nothing will ever happen.
    fn next_event(&mut self) -> u64 {
        let ends = self.flows.next();
        // Without flows, ACKs keep no run going.
        let acks = if ends < u64::MAX { self.acks_due } else { u64::MAX };
        let flows = ends.min(acks).min(self.table.next_start().as_ps()).min(self.solution_due());
        let faults = self.faults.as_ref().map_or(u64::MAX, |faults| faults.next_change().as_ps());
        // Samples alone keep no run going.
        let sample = self.recorder.as_ref().map_or(u64::MAX, |recorder| recorder.next_sample().as_ps());
        let next = flows.min(faults);
        if next < u64::MAX || self.flows.open > 0 && self.resolved.host_config.duration.is_some() {
            next.min(sample)
        } else {
            next
        }
    }

    /// When the rates are computed next; `u64::MAX` if nothing has changed.
    fn solution_due(&self) -> u64 {
        match self.shares.needs_solution() {
            true if self.quantum > 0 => self.now.div_ceil(self.quantum).saturating_mul(self.quantum),
            true => self.now,
            false => u64::MAX,
        }
    }

    /// Processes everything that happens now.
    fn process(&mut self) {
        let now = Time::from_ps(self.now);
        while let Some(number) = self.flows.take_arrival(self.now) {
            self.arrive(number);
        }
        while let Some(number) = self.flows.take_end(self.now) {
            self.end(number);
        }
        if let Some(faults) = &mut self.faults
            && faults.next_change() <= now
        {
            let step = faults.step(now, &self.topology);
            self.change_links(step);
        }
        while let Some((spec, origin)) = self.table.next_flow(now.saturating_add(Time::from_ps(1))) {
            self.start(&spec, origin);
        }
        self.table.window_is_open();
        if self.acks_due <= self.now {
            self.acks_due = u64::MAX;
            self.shares.count_acks();
        }
        if self.solution_due() <= self.now {
            let Run { shares, flows, now, .. } = self;
            shares.solve(|number, rate| flows.set_rate(number, rate, *now));
        }
        if self.shares.has_new_acks() && self.acks_due == u64::MAX {
            self.acks_due = self.now.saturating_add(self.resolved.flow.base_rtt.as_ps().max(1));
        }
        if self.recorder.as_ref().is_some_and(|recorder| recorder.next_sample() <= now) {
            self.sample(now);
        }
    }

    /// Starts a flow.
    fn start(&mut self, spec: &FlowSpec, origin: Origin) {
        let hashes = self.table.hashes(spec);
        let ends = (HostId(spec.src), HostId(spec.dst));
        let packets = self.resolved.flow.packets(spec.bytes);
        let frames = self.frames;
        let (full, last) = (frames.data(frames.mtu), frames.data(spec.bytes - (packets - 1) * frames.mtu));
        let work = ((packets - 1) * full + last) as f64;
        let acks = if frames.ack > 0 { packets.div_ceil(frames.per_ack) } else { 0 };
        let hops = self.way(ends, hashes.data, 1.0);
        let path = self.routes.path(&self.topology, ends.0, ends.1, hashes.data);
        let ideal = completion_time(&self.topology, &path, packets, full, last).as_ps();
        let alone = hops.iter().map(|hop| self.nominal_rate(hop)).fold(f64::INFINITY, f64::min);
        let added = self.added_latency(&path, ends, hashes.control);
        let limit = self.limit(&path, ends, hashes.control, packets, full);
        let flow = Fluid {
            latency: ideal.saturating_sub(span(work, alone)).saturating_add(added),
            packets,
            acks,
            hashes: (hashes.data, hashes.control),
            ends,
            // A limit that is no limit costs time.
            limit: if limit < alone { limit } else { f64::INFINITY },
            stream: if origin.stream { origin.connection } else { Loops::NONE },
            state: State::Waiting,
            ..Fluid::new(work, self.now)
        };
        let number = self.flows.add(flow);
        self.table.start(spec, hashes.data, FlowId(number));
        self.table.assign(FlowId(number), origin);
        if origin.stream {
            let waiting = self.streams.entry(origin.connection).or_default();
            waiting.push_back(number);
            if waiting.len() > 1 {
                return;
            }
        }
        self.begin(number);
    }

    /// A flow begins to send.
    fn begin(&mut self, number: u32) {
        let Fluid { ends, hashes, acks, work, limit, .. } = self.flows.all[number as usize];
        let (hops, back) = (self.way(ends, hashes.0, 1.0), self.way_back(ends, hashes.1, acks, work));
        let flow = &mut self.flows.all[number as usize];
        (flow.since, flow.state) = (self.now, State::Sending);
        self.shares.add(number, &hops, &back, limit);
    }

    /// The rate that a link without other flows and without faults gives a flow, in bytes per picosecond.
    fn nominal_rate(&self, hop: &Hop) -> f64 {
        bytes_per_ps(self.topology.ports[hop.link as usize].link.rate.as_bps()) / hop.share
    }

    /// The path selection of data and ACKs. A sender that sprays divides its packets among all paths, like switches
    /// that do; its ACKs take one path, which counts little.
    fn paths(&self) -> Paths {
        if self.resolved.flow.paths.spreads() { Paths::Spray } else { self.resolved.fabric.paths }
    }

    fn way(&self, ends: (HostId, HostId), hash: u32, scale: f64) -> Vec<Hop> {
        ways::way(&self.topology, &self.routes, self.paths(), ends, hash, scale)
    }

    /// The way of the ACKs of a flow of `work` bytes on a link; empty without ACKs.
    fn way_back(&self, (src, dst): (HostId, HostId), hash: u32, acks: u64, work: f64) -> Vec<Hop> {
        match acks {
            0 => Vec::new(),
            acks => self.way((dst, src), hash, (acks * self.frames.ack) as f64 / work),
        }
    }

    /// Time in picoseconds that a flow takes beyond its ideal completion time: that of a NIC's pipeline, and of the
    /// handshake of a connection.
    fn added_latency(&self, path: &[PortId], (src, dst): (HostId, HostId), control_hash: u32) -> u64 {
        let nic = self.resolved.host_config.processing.map_or(Time::ZERO, |of| of.receive_latency());
        if !self.resolved.flow.tcp.handshake || self.resolved.transport.declaration.name != "iwarp" {
            return nic.as_ps();
        }
        let frame = u64::from(self.resolved.host_config.ack_bytes) + self.frames.gap;
        let back = self.routes.path(&self.topology, dst, src, control_hash);
        let there = completion_time(&self.topology, path, 1, frame, frame);
        (nic + there + completion_time(&self.topology, &back, 1, frame, frame)).as_ps()
    }

    /// The maximum rate of a flow in bytes per picosecond: that of `max_rate`, and that of a window of packets
    /// (`bdp_cap`, or the receive window of TCP) in each round-trip time of an empty fabric.
    fn limit(&self, path: &[PortId], (src, dst): (HostId, HostId), control_hash: u32, packets: u64, full: u64) -> f64 {
        let flow: &FlowConfig = &self.resolved.flow;
        // The rate counts headers, but not the frame gap.
        let of_frames = full as f64 / (full - self.frames.gap) as f64;
        let of_rate = flow.max_rate.map_or(f64::INFINITY, |rate| bytes_per_ps(rate.as_bps()) * of_frames);
        let window = match self.resolved.transport.declaration.name {
            "iwarp" | "tcp" => flow.tcp.receive_window_segments(flow.mtu),
            _ => flow.bdp_cap,
        };
        if packets <= u64::from(window) {
            return of_rate;
        }
        let ack = self.frames.ack.max(u64::from(MIN_FRAME) + self.frames.gap);
        let back = self.routes.path(&self.topology, dst, src, control_hash);
        let round_trip =
            completion_time(&self.topology, path, 1, full, full) + completion_time(&self.topology, &back, 1, ack, ack);
        of_rate.min(f64::from(window) * full as f64 / round_trip.as_ps().max(1) as f64)
    }

    /// A flow has sent everything: its rate is free for others.
    fn end(&mut self, number: u32) {
        self.count(number, 0.0);
        self.shares.remove(number);
        let stream = self.flows.all[number as usize].stream;
        let Some(waiting) = self.streams.get_mut(&stream) else { return };
        waiting.pop_front();
        match waiting.front().copied() {
            Some(next) => self.begin(next),
            None => drop(self.streams.remove(&stream)),
        }
    }

    /// The last byte of a flow has arrived.
    fn arrive(&mut self, number: u32) {
        let flow = &self.flows.all[number as usize];
        let (control, packets, acks) = (flow.hashes.1, flow.packets, flow.acks);
        self.totals.data += packets;
        self.totals.control += acks;
        self.totals.delivered += packets + acks;
        self.flows.remove(number);
        self.table.finish(FlowId(number), control, Time::from_ps(self.now));
        self.table.retire(FlowId(number), 0, 0);
    }

    /// Counts on the links what a flow, of which `left` bytes are left to send, has sent since it was counted last.
    fn count(&mut self, number: u32, left: f64) {
        let flow = &mut self.flows.all[number as usize];
        let part = flow.take_uncounted(left);
        let (work, packets, acks) = (flow.work, flow.packets as f64, flow.acks as f64);
        let (way, back) = self.shares.ways(number);
        self.counters.count(way, packets * part, work * part, 1.0);
        let ack_bytes = acks * self.frames.ack as f64;
        self.counters.count(back, acks * part, ack_bytes * part, ack_bytes / work);
    }

    /// Counts on the links what all flows have sent so far.
    fn count_all(&mut self) {
        for number in self.flows.sending() {
            let left = self.flows.all[number as usize].left_at(self.now);
            self.count(number, left);
        }
    }

    /// Links fail, return or change their rate; flows take the new routes.
    fn change_links(&mut self, step: LinkStep) {
        self.count_all();
        for (port, state) in step.links {
            for (port, rate) in [port, self.topology.port(port).peer].into_iter().zip(state.rates) {
                let rate = if state.is_up { bytes_per_ps(rate.as_bps()) } else { 0.0 };
                self.counters.rates[port.index()] = rate;
                self.shares.set_rate(port.0, rate);
            }
        }
        if let Some(routes) = step.routes {
            self.routes = routes;
            self.reroute();
        }
    }

    /// Moves the flows whose way has changed to their new ways.
    fn reroute(&mut self) {
        for number in self.flows.sending() {
            let Fluid { ends, hashes, acks, work, limit, .. } = self.flows.all[number as usize];
            let (way, back) = (self.way(ends, hashes.0, 1.0), self.way_back(ends, hashes.1, acks, work));
            if self.shares.ways(number) != (&way[..], &back[..]) {
                self.shares.remove(number);
                self.flows.set_rate(number, 0.0, self.now);
                self.shares.add(number, &way, &back, limit);
            }
        }
    }

    /// The payload of a flow that has arrived by now, in bytes, if it arrives as fast as it is sent.
    fn delivered(&self, number: u32, bytes: u64) -> u64 {
        let flow = &self.flows.all[number as usize];
        let part = 1.0 - flow.left_at(self.now) / flow.work;
        ((part * bytes as f64) as u64).min(bytes)
    }

    /// Takes a sample of the watched links and flows.
    fn sample(&mut self, now: Time) {
        self.count_all();
        let Run { recorder: Some(recorder), counters, .. } = self else { return };
        let busy = |port: &PortId| counters.links[port.index()].busy.round() as u64;
        let values: Vec<u64> = recorder.links().map(|ports| ports.iter().map(busy).sum()).collect();
        let mut delivered = Vec::new();
        if recorder.samples_flows() {
            let flows = self.table.open_flows();
            delivered.extend(flows.map(|(flow, record)| (record.id, self.delivered(flow.0, record.bytes))));
            delivered.sort_unstable();
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.put(now, &values, delivered);
        }
    }

    /// The output of the run.
    fn conclude(mut self, ending: Ending) -> RunOutput {
        self.count_all();
        let end = Time::from_ps(self.now);
        let (stop, unfinished, waiting) = (self.table.stop(), self.table.active(), self.table.waiting());
        let status = End { ending, stop, unfinished, waiting: &waiting }.status(end, || self.stopped_links());
        let open: Vec<(FlowId, u64)> = self.table.open_flows().map(|(flow, record)| (flow, record.bytes)).collect();
        for (flow, bytes) in open {
            let delivered = self.delivered(flow.0, bytes);
            self.table.truncate(flow, delivered, 0, 0);
        }
        let flows = self.table.take_log();
        let status = flows.error().map_or(status, |error| RunStatus::Failed(error.to_string()));
        let ports = self.ports(end);
        self.totals.hops = ports.iter().flat_map(|port| &port.priorities).map(|of| of.tx_packets).sum();
        let mut warnings = self.resolved.warnings.clone();
        let interrupted = status == RunStatus::Interrupted || stop == Some(Stop::Cancelled);
        let samples = self.recorder.take().map(|recorder| recorder.finish(&flows, &mut warnings));
        let records = self.table.take_programs();
        let ProgramRecords { collectives, steps, operations, task_collectives, answered, timeline } = records;
        RunOutput {
            status,
            offered: flows.len() as u64,
            truncated: (ending == Ending::TimeUp || interrupted).then_some(Truncation { at: end, not_started: None }),
            flows,
            ports,
            totals: self.totals,
            end,
            parameters: self.resolved.parameters.clone(),
            warnings,
            pauses: None,
            samples,
            watchdog: Vec::new(),
            meshes: Vec::new(),
            collectives,
            steps,
            operations,
            task_collectives,
            step_links: rnic_spec::StepLinks::default(),
            answered,
            timeline,
            fidelity: Fidelity::Flow,
            fast_forward: None,
        }
    }

    /// The end of an error message: the links that are down.
    fn stopped_links(&self) -> String {
        let down = (0..).zip(&self.counters.rates).filter(|(_, rate)| **rate == 0.0);
        let names: Vec<String> = down.take(4).map(|(port, _)| self.topology.port_name(PortId(port))).collect();
        if names.is_empty() { String::new() } else { format!("; links are down: {}", names.join(", ")) }
    }

    /// What the ports have transmitted.
    fn ports(&self, end: Time) -> Vec<PortRecord> {
        let gap = self.frames.gap as f64;
        let record = |port: PortId| {
            let (info, carried) = (self.topology.port(port), self.counters.links[port.index()]);
            let counters = PriorityCounters {
                tx_packets: carried.packets.round() as u64,
                tx_bytes: (carried.bytes - carried.packets * gap).round() as u64,
                ..PriorityCounters::default()
            };
            PortRecord {
                node: self.topology.names[info.node as usize].clone(),
                port: self.topology.port_in_node(port),
                peer: self.topology.names[self.topology.peer_node(port) as usize].clone(),
                rate: info.link.rate,
                busy: Time::from_ps(carried.busy.round() as u64).min(end),
                priorities: vec![counters],
            }
        };
        self.topology.port_ids().map(record).collect()
    }
}

/// A rate in bit/s in bytes per picosecond.
fn bytes_per_ps(bps: u64) -> f64 {
    bps as f64 / 8e12
}
