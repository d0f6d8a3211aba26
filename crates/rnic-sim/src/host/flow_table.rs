//! The flow table of a run: it starts, counts and records all flows, whatever their transport.

use super::config::{DATA_PRIORITY, HostConfig};
use super::ends::FlowHashes;
use super::ids::{FlowId, Id};
use super::message_delays::DelayTracker;
use crate::events::Listener;
use rnic_fabric::rng::{Purpose, mix};
use rnic_fabric::{
    Body, Fabric, HostId, MIN_FRAME, NextWindow, ObservedPorts, PortId, Routes, Tapped, Topology, completion_time,
};
use rnic_spec::{FlowLog, FlowRecord, FlowSpec, Frame, FrameEnd, ProgramRecords, RunProgress};
use rnic_transport::Time;
use rnic_transport::headers::ROCE_DATA;
use rnic_workload::{Completion, Loops, MessageDelays, Origin, Pending, Settled, Source, StepBoundaries};
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximum number of windows of simulated time (the steps of the parallel simulation) between two progress events.
pub(super) const WINDOWS_PER_REPORT: u32 = 256;

/// Number of packet-hops after which a progress event follows earlier. In a large fabric a single window has many
/// thousands of them, so that [`WINDOWS_PER_REPORT`] windows would take several seconds.
pub(super) const HOPS_PER_REPORT: u64 = 1 << 19;

/// The reason why the hosts ended a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// Every flow has finished.
    Finished,
    /// No flow is left, but operations of a program wait for messages that no operation sends.
    Stuck,
    /// The simulated time has reached the setting `max_time`.
    TimeLimit,
    /// No flow has progressed for the simulated time of the setting `stall_time`.
    Stalled,
    /// The listener of the run's events has cancelled the run, or a flow record could not be stored.
    Cancelled,
}

/// The hashes of a flow, which its packets carry and which select its paths: pseudo-random numbers that depend on the
/// seed of the run, the flow's hosts and its start. `same_start` is the number of earlier flows of the sending host
/// that start at the same instant. Because this number differs, the hashes of these flows differ, too. The hashes of a
/// flow with a [`hash`](FlowSpec::hash) depend on this number instead of the start.
///
/// ```
/// use rnic_spec::FlowSpec;
/// use rnic_sim::flow_hashes;
/// use rnic_transport::Time;
/// let request = FlowSpec::NO_REQUEST;
/// let (start, hash) = (Time::ZERO, None);
/// let flow = FlowSpec { start, src: 0, dst: 1, bytes: 1, request, traffic: 0, measured: true, hash };
/// assert_eq!(flow_hashes(1, &flow, 0), flow_hashes(1, &flow, 0));
/// assert_ne!(flow_hashes(1, &flow, 0), flow_hashes(1, &FlowSpec { dst: 2, ..flow }, 0));
/// ```
pub fn flow_hashes(seed: u64, flow: &FlowSpec, same_start: u32) -> FlowHashes {
    // No flow has so many others of its start, so the two kinds of flows never have the same entity.
    let own = match flow.hash {
        Some(hash) => [hash.into(), u64::MAX],
        None => [flow.start.as_ps(), same_start.into()],
    };
    let entity = [flow.src.into(), flow.dst.into(), own[0], own[1]];
    let hash = mix(seed, Purpose::FlowHash, &entity);
    FlowHashes { data: hash as u32, control: (hash >> 32) as u32 }
}

/// Start of the latest flow of a sending host, to distinguish flows that start at the same instant.
#[derive(Clone, Copy, Default)]
struct LastStart {
    at: Time,
    /// Number of earlier flows of the host that started at the same instant as its latest flow.
    before: u32,
}

/// The flows of a run: flows to start, records of open flows, and the log of retired flows. A flow retires, and its
/// record is final, when both its sender and its receiver are done with it.
pub(crate) struct FlowTable<'a, S: Iterator<Item = FlowSpec>> {
    config: HostConfig,
    mtu: u32,
    topology: Arc<Topology>,
    routes: Arc<Routes>,
    stream: Peekable<S>,
    /// Traffic whose flows start when earlier flows have completed: closed loops and programs.
    source: Option<Box<dyn Source>>,
    /// Whether flows of `source` come from outside the simulation.
    is_fed: bool,
    /// The arguments of the last [`FlowTable::close_window`] if all flows had finished and more may come from outside.
    held: Option<(Time, u64)>,
    /// Earliest start of a further flow of the stream, or event of `source`.
    next_start: Time,
    /// Records of the flows that have started and not retired, indexed by flow id.
    open: Vec<Option<FlowRecord>>,
    /// Records of the flows that have retired; they are final.
    log: FlowLog,
    /// The flows that have ended since the latest frame; `None` without frames.
    ended: Option<Vec<FrameEnd>>,
    started: u32,
    active: u64,
    finished: u64,
    last_progress: Time,
    stop: Option<Stop>,
    events: &'a dyn Listener,
    /// Number of windows since the last progress event.
    windows: u32,
    /// Packet-hops of the run at the last progress event.
    reported_hops: u64,
    /// Start of the latest flow of each sending host.
    last_start: Vec<LastStart>,
    /// On several ranks: how they agree on the end of the run.
    ranks: Option<RankStop>,
    /// Why messages are slower than on an empty fabric; `None` if this is not measured.
    delays: Option<Box<DelayTracker>>,
}

/// State of a flow table on one of several ranks.
#[derive(Clone, Copy, Default)]
struct RankStop {
    /// Whether this rank keeps the records of retired flows.
    keeps_records: bool,
    /// Whether this rank wants the run to end, and whether a rank has told that it wants it.
    asks: bool,
    must: bool,
}

impl<'a, S: Iterator<Item = FlowSpec>> FlowTable<'a, S> {
    /// A table of the flows of `stream`, which must be in order of start, and of `source`, whose flows depend on
    /// completions. `mtu` is the maximum payload of a packet in bytes. The table reports progress to `events`.
    pub(crate) fn new<B: Body>(
        config: HostConfig, mtu: u32, fabric: &Fabric<B>, stream: S, source: Option<Box<dyn Source>>,
        events: &'a dyn Listener,
    ) -> Self {
        FlowTable::on(config, mtu, (fabric.topology().clone(), fabric.routes().clone()), stream, source, events)
    }

    /// As [`FlowTable::new`], on this topology with these routes instead of a fabric.
    pub(crate) fn on(
        config: HostConfig, mtu: u32, (topology, routes): (Arc<Topology>, Arc<Routes>), stream: S,
        source: Option<Box<dyn Source>>, events: &'a dyn Listener,
    ) -> Self {
        let mut table = FlowTable {
            config,
            mtu,
            last_start: vec![LastStart::default(); topology.hosts as usize],
            topology,
            routes,
            stream: stream.peekable(),
            is_fed: source.as_ref().is_some_and(|source| source.is_open()),
            held: None,
            source,
            next_start: Time::MAX,
            open: Vec::new(),
            log: FlowLog::new(),
            ended: None,
            started: 0,
            active: 0,
            finished: 0,
            last_progress: Time::ZERO,
            stop: None,
            events,
            windows: 0,
            reported_hops: 0,
            ranks: None,
            delays: None,
        };
        table.next_start = table.known_start();
        table
    }

    /// Number of hosts of the fabric.
    pub(crate) fn hosts(&self) -> u32 {
        self.topology.hosts
    }
    /// Makes this the flow table of one of several ranks, of which one keeps the records of retired flows.
    pub(crate) fn join(&mut self, keeps_records: bool) {
        self.ranks = Some(RankStop { keeps_records, ..RankStop::default() });
    }
    /// Whether the listener of this rank has cancelled the run, or a flow record could not be stored.
    pub(crate) fn asks_to_stop(&self) -> bool {
        self.ranks.is_some_and(|ranks| ranks.asks)
    }
    /// Notes that a rank asks all ranks to stop: the run ends with this window.
    pub(crate) fn must_stop(&mut self) {
        if let Some(ranks) = &mut self.ranks {
            ranks.must = true;
        }
    }
    /// The reason why the hosts ended the run; `None` during the run.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.stop
    }
    /// Number of flows that have started and not finished.
    pub(crate) fn active(&self) -> u64 {
        self.active
    }
    /// Start of the next flow that will start; [`Time::MAX`] if none is known.
    pub(crate) fn next_start(&self) -> Time {
        self.next_start
    }
    /// Number of flows that have finished.
    pub(super) fn finished(&self) -> u64 {
        self.finished
    }
    /// Id of the next flow that starts.
    pub(super) fn started(&self) -> u32 {
        self.started
    }
    /// Makes `started` the id of the next flow: the flows before it are of other tables.
    pub(super) fn count_from(&mut self, started: u32) {
        self.started = started;
    }
    /// Exchanges the log of retired flows with `log`.
    pub(super) fn exchange_log(&mut self, log: &mut FlowLog) {
        std::mem::swap(&mut self.log, log);
    }
    /// Time of the latest progress of a flow.
    pub(super) fn last_progress(&self) -> Time {
        self.last_progress
    }
    /// Notes that a flow has progressed at `now`, for the detection of stalled runs.
    #[inline]
    pub(crate) fn progress(&mut self, now: Time) {
        self.last_progress = self.last_progress.max(now);
    }

    /// Takes the next flow to start, with its origin; `None` if no further flow starts before `end`.
    #[inline]
    pub(crate) fn next_flow(&mut self, end: Time) -> Option<(FlowSpec, Origin)> {
        if let Some(source) = &mut self.source {
            source.advance(end);
            if let Some(head) = source.head().filter(|(start, _)| *start < end)
                && self.stream.peek().is_none_or(|flow| head < (flow.start, flow.traffic))
            {
                return source.take();
            }
        }
        self.stream.next_if(|flow| flow.start < end).map(|flow| (flow, Loops::OUTSIDE))
    }

    /// Updates the start of the next flow, after the hosts have taken all flows that start in this window of simulated
    /// time.
    pub(crate) fn window_is_open(&mut self) {
        self.next_start = self.known_start();
    }

    fn known_start(&mut self) -> Time {
        let next = self.source.as_ref().map_or(Time::MAX, |source| source.next_event());
        self.stream.peek().map_or(Time::MAX, |flow| flow.start).min(next)
    }

    /// The hashes of the flow `flow`. Call this method once for each flow of a sending host, in order of start.
    pub(crate) fn hashes(&mut self, flow: &FlowSpec) -> FlowHashes {
        if flow.hash.is_some() {
            return flow_hashes(self.config.seed, flow, 0);
        }
        let last = &mut self.last_start[flow.src as usize];
        last.before = if last.at == flow.start { last.before + 1 } else { 0 };
        last.at = flow.start;
        flow_hashes(self.config.seed, flow, last.before)
    }

    /// Adds a starting flow to the table. Data packets of the flow have the hash `data_hash`. The flow has the id
    /// `flow` until it retires.
    pub(crate) fn start(&mut self, spec: &FlowSpec, data_hash: u32, flow: FlowId) {
        let record = FlowRecord {
            id: self.started,
            src: spec.src,
            dst: spec.dst,
            bytes: spec.bytes,
            start: spec.start,
            finish: None,
            ideal: self.ideal(spec, data_hash),
            delivered: 0,
            retransmitted: 0,
            timeouts: 0,
            request: spec.request,
            traffic: spec.traffic,
            measured: spec.measured,
        };
        if self.open.len() <= flow.index() {
            self.open.resize(flow.index() + 1, None);
        }
        self.open[flow.index()] = Some(record);
        self.started += 1;
        self.active += 1;
        self.progress(spec.start);
    }

    /// The record of a flow that has started and not retired.
    ///
    /// # Panics
    /// No flow that has started and not retired has the id `flow`.
    pub(crate) fn record(&mut self, flow: FlowId) -> &mut FlowRecord {
        self.open[flow.index()].as_mut().expect("a flow that has not retired")
    }

    /// The flows that have started and not retired, in order of their ids.
    pub(crate) fn open_flows(&self) -> impl Iterator<Item = (FlowId, &FlowRecord)> {
        (0..).map(FlowId).zip(&self.open).filter_map(|(flow, record)| Some((flow, record.as_ref()?)))
    }

    /// Notes that a flow with the origin `origin` has the id `flow`.
    pub(crate) fn assign(&mut self, flow: FlowId, origin: Origin) {
        if let Some(source) = &mut self.source {
            source.place(flow.0, origin.member);
        }
    }

    /// Records that all bytes of a flow had arrived at `now`.
    pub(crate) fn finish(&mut self, flow: FlowId, control_hash: u32, now: Time) {
        let record = self.record(flow);
        record.finish = Some(now);
        record.delivered = record.bytes;
        let record = *record;
        self.note_end(&record);
        self.finished += 1;
        self.active -= 1;
        if self.source.as_ref().is_some_and(|source| source.holds(flow.0)) {
            self.complete(&record, flow, control_hash, now);
        }
    }

    /// Completes the record of a flow that retires and moves the record to the log. Another flow may take the flow's id
    /// afterwards.
    pub(crate) fn retire(&mut self, flow: FlowId, retransmitted: u32, timeouts: u32) {
        let Some(record) = self.open[flow.index()].take() else { return };
        if record.finish.is_none() {
            self.note_end(&record);
        }
        if self.ranks.is_none_or(|ranks| ranks.keeps_records) {
            self.log.put(FlowRecord { retransmitted, timeouts, ..record });
        }
    }

    fn note_end(&mut self, record: &FlowRecord) {
        let FlowRecord { id: flow, src, dst, delivered: bytes, finish, .. } = *record;
        if let Some(ended) = self.ended.as_mut().filter(|ended| ended.len() < Frame::MAX_ENDED) {
            ended.push(FrameEnd { flow, src, dst, bytes, finish });
        }
    }

    /// Begins to note flows that end.
    pub(super) fn note_ends(&mut self) {
        self.ended.get_or_insert_default();
    }

    /// Moves the flows that have ended since the last call into `ended`.
    pub(super) fn take_ended(&mut self, ended: &mut Vec<FrameEnd>) {
        self.ended.iter_mut().for_each(|own| ended.append(own));
    }

    /// Completes the record of a flow that has not retired when the run ends, and moves the record to the log.
    pub(crate) fn truncate(&mut self, flow: FlowId, delivered: u64, retransmitted: u32, timeouts: u32) {
        let record = self.record(flow);
        if record.finish.is_none() {
            record.delivered = delivered;
        }
        self.retire(flow, retransmitted, timeouts);
    }

    /// Takes the log of the run, with one record per flow that has started.
    pub(crate) fn take_log(&mut self) -> FlowLog {
        self.log.close();
        std::mem::take(&mut self.log)
    }

    /// The longest window of simulated time that the source of flows allows; `None` if it does not matter.
    pub(crate) fn reaction(&self) -> Option<Time> {
        self.source.as_ref().and_then(|source| source.reaction())
    }

    /// Sentences about what the operations of programs wait for, at most a few.
    pub(crate) fn waiting(&self) -> Vec<String> {
        self.source.as_ref().map_or_else(Vec::new, |source| source.waiting())
    }

    /// Begins to measure why messages are slower than on an empty fabric.
    pub(crate) fn measure_delays(&mut self) {
        if let Some(source) = &mut self.source {
            source.split_excess();
            self.delays = Some(Box::new(DelayTracker::new(self.topology.clone())));
        }
    }

    /// Notes frames of all ports, in order of time.
    pub(crate) fn note_frames<B: Body>(&mut self, frames: &[(PortId, Tapped<B>)]) {
        if let Some(delays) = &mut self.delays {
            frames.iter().for_each(|(port, frame)| delays.note(*port, frame));
        }
    }

    /// Notes that the receiving end of a connection has been removed.
    pub(crate) fn forget_connection(&mut self, host: u32, slot: u32) {
        if let Some(delays) = &mut self.delays {
            delays.forget(host, slot);
        }
    }

    /// The boundaries of the steps of programs, from now on; `None` if no program has steps.
    pub(crate) fn step_boundaries(&mut self) -> Option<StepBoundaries> {
        self.source.as_mut().and_then(|source| source.step_boundaries())
    }

    /// Takes the records of collective operations.
    pub(crate) fn take_programs(&mut self) -> ProgramRecords {
        self.source.as_mut().map_or_else(ProgramRecords::default, |source| source.take_records())
    }

    /// Records that the sender of a flow has aborted it. The flow stays unfinished but no longer counts as active.
    pub(crate) fn abort(&mut self) {
        self.active -= 1;
    }

    /// Notifies the source of a flow that the flow has completed: all bytes have arrived at `now`. The sender knows
    /// this later: after the time that a minimum-size frame takes from the receiver back to the sender.
    #[cold]
    fn complete(&mut self, record: &FlowRecord, flow: FlowId, control_hash: u32, now: Time) {
        let path = self.routes.path(&self.topology, HostId(record.dst), HostId(record.src), control_hash);
        let frame = u64::from(MIN_FRAME) + u64::from(self.config.frame_gap);
        let back = completion_time(&self.topology, &path, 1, frame, frame);
        let delays = self.delays.as_ref().and_then(|delays| self.delays_of(delays, record, now));
        if let Some(source) = &mut self.source {
            let completion =
                Completion { delivered: now, known: now.saturating_add(back), ideal: record.ideal, delays };
            source.complete(flow.0, completion);
        }
    }

    /// Why the message took longer than on an empty fabric.
    fn delays_of(&self, delays: &DelayTracker, record: &FlowRecord, now: Time) -> Option<MessageDelays> {
        let packets = record.bytes.div_ceil(u64::from(self.mtu)).max(1);
        let rate = self.topology.port(self.topology.host_port(HostId(record.src))).link.rate;
        let full = rate.time_for(u64::from(self.mtu + ROCE_DATA + self.config.frame_gap));
        let times = (full * (packets - 1), record.ideal);
        delays.of_message(record.dst, (record.start, now), times, DATA_PRIORITY)
    }

    /// The ideal completion time of the flow: its completion time alone on its path, with plain RoCEv2 headers. It is
    /// the denominator of the flow's slowdown.
    fn ideal(&self, flow: &FlowSpec, data_hash: u32) -> Time {
        let path = self.routes.path(&self.topology, HostId(flow.src), HostId(flow.dst), data_hash);
        let packets = flow.bytes.div_ceil(u64::from(self.mtu)).max(1);
        let last = flow.bytes - (packets - 1) * u64::from(self.mtu);
        let on_link = |payload: u64| {
            (payload + u64::from(ROCE_DATA)).max(u64::from(MIN_FRAME)) + u64::from(self.config.frame_gap)
        };
        completion_time(&self.topology, &path, packets, on_link(u64::from(self.mtu)), on_link(last))
    }

    fn report_progress(&self, time: Time, hops: u64) -> ControlFlow<()> {
        self.events.progress(RunProgress { flows_done: self.finished, hops, time, ..RunProgress::default() })
    }

    /// Ends a window of simulated time, after every event before its end `end` has been processed: reports progress and
    /// decides whether the run ends. `idle` says that no sender has anything to do until the next flow starts.
    pub(crate) fn close_window(&mut self, end: Time, hops: u64, idle: bool) -> ControlFlow<()> {
        if let Some(source) = &self.source {
            let next = source.next_event();
            assert!(next >= end, "a flow would start within the window of the completion that caused it");
            self.next_start = self.next_start.min(next);
        }
        self.close_instant(end, hops, idle)
    }

    /// As [`FlowTable::close_window`], if no window divides the simulated time: everything at `end` has been processed.
    pub(crate) fn close_instant(&mut self, end: Time, hops: u64, idle: bool) -> ControlFlow<()> {
        if self.active == 0 && idle && self.next_start == Time::MAX {
            if self.is_fed && self.source.as_ref().is_some_and(|source| source.is_open()) {
                // Whether the run ends here depends on the program outside.
                self.held = Some((end, hops));
                return ControlFlow::Continue(());
            }
            let waits = self.source.as_ref().is_some_and(|source| !source.waiting().is_empty());
            self.stop = Some(if waits { Stop::Stuck } else { Stop::Finished });
            return ControlFlow::Break(());
        }
        self.go_on(end, hops)
    }

    /// Waits until all flows are known that start in the next window.
    #[inline]
    pub(crate) fn settle(&mut self, window: NextWindow, ports: &dyn ObservedPorts) -> ControlFlow<()> {
        if self.is_fed { self.settle_fed(window, ports) } else { ControlFlow::Continue(()) }
    }

    #[cold]
    fn settle_fed(&mut self, window: NextWindow, ports: &dyn ObservedPorts) -> ControlFlow<()> {
        let Some(source) = &mut self.source else { return ControlFlow::Continue(()) };
        let held = self.held.take();
        let listed = self.stream.peek().map_or(Time::MAX, |flow| flow.start);
        let ports = &|| ports.port_states();
        let (next, longest) = (window.next.min(listed), window.longest);
        let pending = Pending { held: held.is_some(), next, window: longest, ports };
        let settled = source.settle(&pending);
        self.next_start = self.known_start();
        match (settled, held) {
            (Settled::Cancelled, _) => self.stop = Some(Stop::Cancelled),
            (Settled::Known, Some(_)) if self.next_start == Time::MAX => self.stop = Some(Stop::Finished),
            (Settled::Known, Some((end, hops))) => return self.go_on(end, hops),
            (Settled::Known, None) => {}
        }
        if self.stop.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Reports progress, and decides whether a run that has flows left ends.
    fn go_on(&mut self, end: Time, hops: u64) -> ControlFlow<()> {
        self.windows += 1;
        let reports = self.windows >= WINDOWS_PER_REPORT || hops - self.reported_hops >= HOPS_PER_REPORT;
        if reports {
            (self.windows, self.reported_hops) = (0, hops);
        }
        // If the flow records cannot be stored, the run has failed and need not continue.
        let mut cancelled = reports && (self.report_progress(end, hops).is_break() || self.log.error().is_some());
        if let Some(ranks) = &mut self.ranks {
            // All ranks end the run after the same window: the next one.
            ranks.asks |= cancelled;
            cancelled = ranks.must;
        }
        if cancelled {
            self.stop = Some(Stop::Cancelled);
        } else if end >= self.config.max_time {
            self.stop = Some(Stop::TimeLimit);
        } else if self.active > 0 && end.saturating_sub(self.last_progress) > self.config.stall_time {
            self.stop = Some(Stop::Stalled);
        }
        if self.stop.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
