//! The flows of a run, whatever their transport: which start when, and what has become of them.

use crate::nic::Hosting;
use crate::results::{FlowLog, FlowRecord};
use crate::workload::{FlowSpec, Loops, Origin};
use rnic_fabric::rng::{Purpose, mix};
use rnic_fabric::{HostId, MIN_FRAME, Routes, Topology, completion_time};
use rnic_transport::Time;
use rnic_transport::headers::ROCE_DATA;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Why the hosts ended a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// Every flow finished.
    Finished,
    /// The simulated time reached its limit.
    TimeLimit,
    /// No flow progressed for too long.
    Stalled,
    /// The caller asked.
    Cancelled,
}

/// The hashes in a flow's data packets and in its control packets. Before it, `same_start` flows of its host started at its instant.
pub(crate) fn flow_hash(seed: u64, flow: &FlowSpec, same_start: u32) -> (u32, u32) {
    let entity = [u64::from(flow.src), u64::from(flow.dst), flow.start.as_ps(), u64::from(same_start)];
    let hash = mix(seed, Purpose::FlowHash, &entity);
    (hash as u32, (hash >> 32) as u32)
}

/// The flows of a run.
pub(crate) struct FlowBook<'a, S: Iterator<Item = FlowSpec>> {
    hosting: Hosting,
    mtu: u32,
    topology: Arc<Topology>,
    routes: Arc<Routes>,
    stream: Peekable<S>,
    /// Flows that follow from what has arrived.
    loops: Option<Loops>,
    /// Start of the next flow of both.
    next_start: Time,
    /// By number: the flows that there are.
    open: Vec<Option<FlowRecord>>,
    /// Those that are over.
    log: FlowLog,
    started: u32,
    active: u64,
    finished: u64,
    last_progress: Time,
    stop: Option<Stop>,
    observer: &'a mut dyn FnMut(u64, Time, u64) -> ControlFlow<()>,
    windows: u32,
    /// Per host: start of its last flow, and how many started at that instant before it.
    last_start: Vec<(Time, u32)>,
}

impl<'a, S: Iterator<Item = FlowSpec>> FlowBook<'a, S> {
    /// The flows of `stream`, in order of start, with `mtu` payload bytes in a packet. `observer` is called now and then with the number of
    /// finished flows, the simulated time and the packet transmissions so far; `Break` cancels the run.
    pub(crate) fn new(
        hosting: Hosting, mtu: u32, topology: Arc<Topology>, routes: Arc<Routes>, stream: S, loops: Option<Loops>,
        observer: &'a mut dyn FnMut(u64, Time, u64) -> ControlFlow<()>,
    ) -> Self {
        let mut book = FlowBook {
            hosting,
            mtu,
            last_start: vec![(Time::ZERO, 0); topology.hosts as usize],
            topology,
            routes,
            stream: stream.peekable(),
            loops,
            next_start: Time::MAX,
            open: Vec::new(),
            log: FlowLog::new(),
            started: 0,
            active: 0,
            finished: 0,
            last_progress: Time::ZERO,
            stop: None,
            observer,
            windows: 0,
        };
        book.next_start = book.known_start();
        book
    }

    /// Why the run ended, if it did.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.stop
    }
    /// Flows that have started and not finished.
    pub(crate) fn active(&self) -> u64 {
        self.active
    }
    /// Start of the next flow, [`Time::MAX`] for none that is known of.
    pub(crate) fn next_start(&self) -> Time {
        self.next_start
    }
    /// A flow has progressed.
    #[inline]
    pub(crate) fn progress(&mut self, now: Time) {
        self.last_progress = self.last_progress.max(now);
    }

    /// The next flow of the stream and the closed loops, if it starts before `end`, and what it is part of.
    #[inline]
    pub(crate) fn next_flow(&mut self, end: Time) -> Option<(FlowSpec, Origin)> {
        if let Some(loops) = &mut self.loops
            && let Some(head) = loops.head().filter(|(start, _)| *start < end)
            && self.stream.peek().is_none_or(|flow| head < (flow.start, flow.traffic))
        {
            return loops.take();
        }
        self.stream.next_if(|flow| flow.start < end).map(|flow| (flow, Loops::OUTSIDE))
    }

    /// All flows that start in this window have been taken.
    pub(crate) fn window_is_open(&mut self) {
        self.next_start = self.known_start();
    }

    fn known_start(&mut self) -> Time {
        let looped = self.loops.as_ref().map_or(Time::MAX, Loops::next_start);
        self.stream.peek().map_or(Time::MAX, |flow| flow.start).min(looped)
    }

    /// The hashes of a flow that is about to start, which is the next one of its host.
    pub(crate) fn hashes(&mut self, flow: &FlowSpec) -> (u32, u32) {
        let (last, same) = &mut self.last_start[flow.src as usize];
        *same = if *last == flow.start { *same + 1 } else { 0 };
        *last = flow.start;
        flow_hash(self.hosting.seed, flow, *same)
    }

    /// A flow starts; its data packets have the hash. It has this number until it retires.
    pub(crate) fn start(&mut self, spec: &FlowSpec, flow_hash: u32, number: u32) {
        let record = FlowRecord {
            id: self.started,
            src: spec.src,
            dst: spec.dst,
            bytes: spec.bytes,
            start: spec.start,
            finish: None,
            ideal: self.ideal(spec, flow_hash),
            delivered: 0,
            retransmitted: 0,
            timeouts: 0,
            request: spec.request,
            traffic: spec.traffic,
            measured: spec.measured,
        };
        if self.open.len() <= number as usize {
            self.open.resize(number as usize + 1, None);
        }
        self.open[number as usize] = Some(record);
        self.started += 1;
        self.active += 1;
        self.progress(spec.start);
    }

    /// The record of a flow that has not retired.
    ///
    /// # Panics
    /// If no flow has the number.
    pub(crate) fn record(&mut self, number: u32) -> &mut FlowRecord {
        self.open[number as usize].as_mut().expect("a flow that has not retired")
    }

    /// The flows that have not retired, by number.
    pub(crate) fn open_flows(&self) -> impl Iterator<Item = (u32, &FlowRecord)> {
        (0..).zip(&self.open).filter_map(|(number, record)| Some((number, record.as_ref()?)))
    }

    /// A flow of a loop has this number from now on.
    pub(crate) fn place(&mut self, number: u32, origin: Origin) {
        if let Some(loops) = &mut self.loops {
            loops.place(number, origin.member);
        }
    }

    /// Everything of a flow has arrived.
    pub(crate) fn finish(&mut self, number: u32, reply_hash: u32, now: Time) {
        let record = self.record(number);
        record.finish = Some(now);
        record.delivered = record.bytes;
        let (src, dst) = (record.src, record.dst);
        self.finished += 1;
        self.active -= 1;
        if self.loops.as_ref().is_some_and(|loops| loops.holds(number)) {
            self.tell_loops(src, dst, number, reply_hash, now);
        }
    }

    /// Nothing will change of a flow any more; its number is free.
    pub(crate) fn retire(&mut self, number: u32, retransmitted: u32, timeouts: u32) {
        if let Some(record) = self.open[number as usize].take() {
            self.log.put(FlowRecord { retransmitted, timeouts, ..record });
        }
    }

    /// The run ends before the flow has retired.
    pub(crate) fn cut(&mut self, number: u32, delivered: u64, retransmitted: u32, timeouts: u32) {
        let record = self.record(number);
        if record.finish.is_none() {
            record.delivered = delivered;
        }
        self.retire(number, retransmitted, timeouts);
    }

    /// One record per flow that has started.
    pub(crate) fn take_log(&mut self) -> FlowLog {
        self.log.close();
        std::mem::take(&mut self.log)
    }

    /// A flow will never finish.
    pub(crate) fn abandon(&mut self) {
        self.active -= 1;
    }

    /// All of a closed loop's flow has arrived: its sender knows when a minimal frame has come back, at best.
    #[cold]
    fn tell_loops(&mut self, src: u32, dst: u32, number: u32, reply_hash: u32, now: Time) {
        let path = self.routes.path(&self.topology, HostId(dst), HostId(src), reply_hash);
        let frame = u64::from(MIN_FRAME) + u64::from(self.hosting.frame_gap);
        let back = completion_time(&self.topology, &path, 1, frame, frame);
        if let Some(loops) = &mut self.loops {
            loops.complete(number, now.saturating_add(back));
        }
    }

    /// The slowdown's denominator: the flow alone, with plain RoCEv2 headers, on its own path.
    fn ideal(&self, flow: &FlowSpec, flow_hash: u32) -> Time {
        let path = self.routes.path(&self.topology, HostId(flow.src), HostId(flow.dst), flow_hash);
        let packets = flow.bytes.div_ceil(u64::from(self.mtu)).max(1);
        let last = flow.bytes - (packets - 1) * u64::from(self.mtu);
        let on_cable = |payload: u64| {
            (payload + u64::from(ROCE_DATA)).max(u64::from(MIN_FRAME)) + u64::from(self.hosting.frame_gap)
        };
        completion_time(&self.topology, &path, packets, on_cable(u64::from(self.mtu)), on_cable(last))
    }

    /// Everything before `end` has happened; `idle`: the hosts have nothing to do but what starts later.
    pub(crate) fn close_window(&mut self, end: Time, hops: u64, idle: bool) -> ControlFlow<()> {
        if let Some(loops) = &self.loops {
            let next = loops.next_start();
            assert!(next >= end, "a flow of a closed loop would start within the window that caused it");
            self.next_start = self.next_start.min(next);
        }
        if self.active == 0 && idle && self.next_start == Time::MAX {
            self.stop = Some(Stop::Finished);
            return ControlFlow::Break(());
        }
        self.windows = self.windows.wrapping_add(1);
        let now_and_then = self.windows.is_multiple_of(256);
        // Without its records a run has failed.
        if now_and_then && ((self.observer)(self.finished, end, hops).is_break() || self.log.error().is_some()) {
            self.stop = Some(Stop::Cancelled);
        } else if end >= self.hosting.max_time {
            self.stop = Some(Stop::TimeLimit);
        } else if self.active > 0 && end.saturating_sub(self.last_progress) > self.hosting.stall_time {
            self.stop = Some(Stop::Stalled);
        }
        if self.stop.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
