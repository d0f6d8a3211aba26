//! Hosts with several transports, each for the flows of one priority: for example RDMA and TCP on one fabric.
//!
//! Every transport has its own hosts, flow table and NICs, which are compiled as for a run with this transport alone,
//! but for packets of another type and for any congestion control. So runs with one transport are not affected.
//! [`SharedHosts`] joins them: it lets the flows of all transports start in order of time, with ids from one count, and
//! puts the NICs of all transports of a partition into one [`SharedPartition`], in which they take turns on the link.

mod nics;
mod turns;

pub(crate) use nics::SharedPartition;
pub(crate) use turns::Sharing;

use super::config::HostTotals;
use super::flow_table::{HOPS_PER_REPORT, Stop, WINDOWS_PER_REPORT};
use super::hosts::{FlowUnderWay, HostState, Hosts, NicKind, RunHosts};
use super::observer::{Observed, Observer};
use super::partition::NicPartition;
use super::rc::segment::Segment;
use crate::events::Listener;
use crate::in_band::Several;
use nics::StackNics;
use rnic_fabric::{Ending, Fabric, HostId, HostPartition, PartitionPlan, PartitionedHosts};
use rnic_spec::{FlowLog, FlowSpec, FrameEnd, ProgramRecords, RunProgress};
use rnic_transport::Time;
use rnic_workload::StepBoundaries;
use std::ops::ControlFlow;

/// The hosts of one transport among several.
pub(crate) trait StackHosts: HostState {
    /// NICs without hosts, one for each partition: what [`StackHosts::exchange`] leaves in the shared partitions.
    fn placeholders(&self) -> Vec<Box<dyn StackNics>>;
    /// Exchanges the NICs of this transport with those in its position `stack` of the shared partitions.
    fn exchange(&mut self, partitions: &mut [SharedPartition], stack: usize);
    /// Exchanges the log of retired flows, which all transports share.
    fn exchange_log(&mut self, log: &mut FlowLog);
    /// See [`PartitionedHosts::next_start`].
    fn next_start(&self) -> Time;
    /// Starts the flows before `end`; the first has the id `started`. Returns the id of the next flow of the run.
    fn open(&mut self, started: u32, end: Time, wake: &mut dyn FnMut(HostId, Time)) -> u32;
    /// See [`PartitionedHosts::close_window`].
    fn close(&mut self, end: Time, hops: u64);
    /// Time of the latest progress of a flow.
    fn last_progress(&self) -> Time;
    /// Notes that a flow of another transport has progressed at `now`.
    fn note_progress(&mut self, now: Time);
    /// Number of finished flows.
    fn finished(&self) -> u64;
    /// Writes the records of the flows that have not retired into the log, at the end of the run.
    fn truncate_records(&mut self);
}

impl<K: NicKind + 'static, S: Iterator<Item = FlowSpec>> StackHosts for Hosts<'_, K, S>
where
    NicPartition<K>: HostPartition<Body = Segment<Several>>,
    K::Shared: Clone,
{
    fn placeholders(&self) -> Vec<Box<dyn StackNics>> {
        let empty = || Box::new(NicPartition::<K>::new(Vec::new(), self.shared().clone())) as Box<dyn StackNics>;
        self.partitions.iter().map(|_| empty()).collect()
    }

    fn exchange(&mut self, partitions: &mut [SharedPartition], stack: usize) {
        for (own, shared) in self.partitions.iter_mut().zip(partitions) {
            if let Some(nics) = shared.stacks[stack].as_any().downcast_mut::<NicPartition<K>>() {
                std::mem::swap(own, nics);
            }
        }
    }

    fn exchange_log(&mut self, log: &mut FlowLog) {
        self.table.exchange_log(log);
    }
    fn next_start(&self) -> Time {
        PartitionedHosts::next_start(self)
    }

    fn open(&mut self, started: u32, end: Time, wake: &mut dyn FnMut(HostId, Time)) -> u32 {
        self.table.count_from(started);
        self.open_window(end, wake);
        self.table.started()
    }

    fn close(&mut self, end: Time, hops: u64) {
        // `stop` has the result.
        let _ = self.close_window(end, hops);
    }
    fn last_progress(&self) -> Time {
        self.table.last_progress()
    }
    fn note_progress(&mut self, now: Time) {
        self.table.progress(now);
    }
    fn finished(&self) -> u64 {
        self.table.finished()
    }
    fn truncate_records(&mut self) {
        self.truncate_open();
    }
}

/// All hosts of a run with several transports.
pub(crate) struct SharedHosts<'a> {
    stacks: Vec<Box<dyn StackHosts + 'a>>,
    priorities: Vec<u8>,
    partitions: Vec<SharedPartition>,
    /// Whether the NICs are in `partitions`; otherwise they are in the hosts of their transports.
    joined: bool,
    /// Records of the flows that have retired.
    log: FlowLog,
    /// Number of flows that have started.
    started: u32,
    stop: Option<Stop>,
    events: &'a dyn Listener,
    /// Number of windows since the last progress event.
    windows: u32,
    /// Packet-hops of the run at the last progress event.
    reported_hops: u64,
}

impl<'a> SharedHosts<'a> {
    /// Hosts with these transports, each with its priority, in ascending order of priority. The hosts report progress
    /// to `events`.
    pub(crate) fn new(
        stacks: Vec<(u8, Box<dyn StackHosts + 'a>)>, sharing: Sharing, plan: &PartitionPlan, events: &'a dyn Listener,
    ) -> SharedHosts<'a> {
        let (priorities, stacks): (Vec<u8>, Vec<_>) = stacks.into_iter().unzip();
        let mut nics: Vec<_> = stacks.iter().map(|stack| stack.placeholders().into_iter()).collect();
        let partition = |number: usize| {
            let of_partition = nics.iter_mut().filter_map(Iterator::next).collect();
            SharedPartition::new(of_partition, &priorities, sharing, plan.hosts_of(number).len())
        };
        let partitions = (0..plan.partitions()).map(partition).collect();
        SharedHosts {
            stacks,
            priorities,
            partitions,
            joined: false,
            log: FlowLog::new(),
            started: 0,
            stop: None,
            events,
            windows: 0,
            reported_hops: 0,
        }
    }

    /// Puts the NICs of all transports into the shared partitions, or back into the hosts of their transports.
    fn join(&mut self, joined: bool) {
        if self.joined != joined {
            for (number, stack) in self.stacks.iter_mut().enumerate() {
                stack.exchange(&mut self.partitions, number);
            }
            self.joined = joined;
        }
    }

    /// The transport whose next flow starts first before `end`, and the end of the time in which only its flows start.
    /// Of flows that start at the same instant, those of lower priorities are first.
    fn next_stack(&self, end: Time) -> Option<(usize, Time)> {
        let starts = || self.stacks.iter().map(|stack| stack.next_start()).enumerate();
        let (first, at) = starts().min_by_key(|(stack, at)| (*at, *stack)).filter(|(_, at)| *at < end)?;
        let others = starts().filter(|(stack, _)| *stack != first);
        let until = others.map(|(stack, at)| if stack > first { at.saturating_add(Time::from_ps(1)) } else { at });
        debug_assert!(at < end);
        Some((first, until.min().unwrap_or(end).min(end)))
    }
}

impl PartitionedHosts for SharedHosts<'_> {
    type Partition = SharedPartition;

    fn partitions(&mut self) -> &mut Vec<SharedPartition> {
        self.join(true);
        &mut self.partitions
    }

    fn next_start(&self) -> Time {
        self.stacks.iter().map(|stack| stack.next_start()).min().unwrap_or(Time::MAX)
    }

    fn open_window(&mut self, end: Time, wake: &mut dyn FnMut(HostId, Time)) {
        self.join(false);
        while let Some((stack, until)) = self.next_stack(end) {
            self.started = self.stacks[stack].open(self.started, until, wake);
        }
    }

    fn close_window(&mut self, end: Time, hops: u64) -> ControlFlow<()> {
        self.join(false);
        let progress = self.stacks.iter().map(|stack| stack.last_progress()).max().unwrap_or_default();
        let mut all_finished = true;
        for stack in &mut self.stacks {
            stack.note_progress(progress);
            stack.exchange_log(&mut self.log);
            stack.close(end, hops);
            stack.exchange_log(&mut self.log);
            match stack.stop() {
                Some(Stop::Finished) => {}
                Some(stop) => self.stop = Some(stop),
                None => all_finished = false,
            }
        }
        if all_finished {
            self.stop = Some(Stop::Finished);
        }
        self.windows += 1;
        if self.windows >= WINDOWS_PER_REPORT || hops - self.reported_hops >= HOPS_PER_REPORT {
            (self.windows, self.reported_hops) = (0, hops);
            let flows_done = self.stacks.iter().map(|stack| stack.finished()).sum();
            let progress = RunProgress { flows_done, hops, time: end, ..RunProgress::default() };
            if self.events.progress(progress).is_break() || self.log.error().is_some() {
                self.stop.get_or_insert(Stop::Cancelled);
            }
        }
        if self.stop.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl HostState for SharedHosts<'_> {
    fn totals(&self) -> HostTotals {
        let mut totals = HostTotals::default();
        self.stacks.iter().for_each(|stack| totals.add(stack.totals()));
        totals
    }
    fn stop(&self) -> Option<Stop> {
        self.stop
    }
    fn unfinished(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.unfinished()).sum()
    }
    fn under_way(&mut self, now: Time, first: u32) -> Vec<FlowUnderWay> {
        self.join(false);
        let stacks = self.stacks.iter_mut().zip(&self.priorities);
        let flows = stacks.flat_map(|(stack, priority)| {
            let flows = stack.under_way(now, first).into_iter();
            flows.map(|flow| FlowUnderWay { priority: *priority, ..flow })
        });
        flows.collect()
    }
    fn delivered(&mut self, now: Time) -> Vec<(u32, u64)> {
        self.join(false);
        let mut all: Vec<_> = self.stacks.iter_mut().flat_map(|stack| stack.delivered(now)).collect();
        all.sort_unstable();
        all
    }
    fn note_ends(&mut self) {
        self.stacks.iter_mut().for_each(|stack| stack.note_ends());
    }
    fn take_ended(&mut self, ended: &mut Vec<FrameEnd>) {
        self.stacks.iter_mut().for_each(|stack| stack.take_ended(ended));
    }
    fn reaction(&self) -> Option<Time> {
        self.stacks.iter().filter_map(|stack| stack.reaction()).min()
    }
    fn waiting(&self) -> Vec<String> {
        self.stacks.iter().flat_map(|stack| stack.waiting()).collect()
    }
    fn step_boundaries(&mut self) -> Vec<StepBoundaries> {
        self.stacks.iter_mut().flat_map(|stack| stack.step_boundaries()).collect()
    }
    fn take_programs(&mut self) -> ProgramRecords {
        let mut all = ProgramRecords::default();
        for own in self.stacks.iter_mut().map(|stack| stack.take_programs()) {
            all.collectives.extend(own.collectives);
            all.steps.extend(own.steps);
            all.operations.extend(own.operations);
            all.task_collectives.extend(own.task_collectives);
            all.answered.extend(own.answered);
            all.timeline.extend(own.timeline);
        }
        all.collectives.sort_by_key(|record| (record.traffic, record.group, record.repeat));
        all.steps.sort_by_key(|record| (record.traffic, record.step));
        all.operations.sort_by_key(|record| record.traffic);
        all.task_collectives.records.sort_by_key(|record| record.traffic);
        all.answered.sort_by_key(|record| (record.traffic, record.request));
        all.timeline.spans.sort_unstable();
        all
    }
}

impl RunHosts<Segment<Several>> for SharedHosts<'_> {
    fn run(
        &mut self, fabric: &mut Fabric<Segment<Several>>, observer: &mut dyn Observer<Segment<Several>>, until: Time,
    ) -> Ending {
        fabric.run_watched(self, &mut Observed(observer), until)
    }
    fn take_records(&mut self) -> FlowLog {
        self.join(false);
        for stack in &mut self.stacks {
            stack.exchange_log(&mut self.log);
            stack.truncate_records();
            stack.exchange_log(&mut self.log);
        }
        self.log.close();
        std::mem::take(&mut self.log)
    }
}
