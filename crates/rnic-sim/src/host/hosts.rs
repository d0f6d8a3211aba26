//! All simulated hosts of a run. Between two windows of simulated time, the hosts start flows, process the notes (about
//! finished flows) that NICs left during the last window, and retire flows.

use super::config::{DATA_PRIORITY, HostTotals};
use super::ends::{EndLocation, FlowEnds, FlowHashes, ReceivingEnd, SendingEnd};
use super::flow_table::{FlowTable, Stop};
use super::ids::{EndSlot, FlowId};
use super::observer::{Observed, Observer};
use super::partition::{Host, NicPartition, Notice, Start};
use super::ranks::RankHosts;
use super::slab::Slab;
use rnic_fabric::{
    Body, BodyOf, Ending, Fabric, HostId, HostPartition, Location, NextWindow, ObservedPorts, PartitionPlan,
    PartitionedHosts, PortId, RankError, RankGroup, Tapped,
};
use rnic_spec::{FlowLog, FlowRecord, FlowSpec, FrameEnd, ProgramRecords};
use rnic_transport::Time;
use rnic_workload::{Origin, StepBoundaries};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A kind of NIC, RC-like or message: the steps between two windows of simulated time in which the two kinds differ. A
/// value of the type has the state of a run that only this kind needs. To send and receive packets, each kind
/// implements [`HostPartition`] for [`NicPartition`].
pub(crate) trait NicKind: Sized {
    /// The sending end of a flow.
    type SendEnd: SendingEnd;
    /// The receiving end of a flow.
    type ReceiveEnd: ReceivingEnd;
    /// State of one host's NIC, apart from the state of single flows.
    type Nic;
    /// Settings and state that the NICs of one fabric partition share.
    type Shared;

    /// Creates both ends of the flow `spec` with [`Hosts::insert_here`], unless the flow is a message of a stream that
    /// exists, and returns the id of the flow. `origin` has the persistent connection or the stream of the flow.
    fn open<S: Iterator<Item = FlowSpec>>(
        hosts: &mut Hosts<'_, Self, S>, spec: &FlowSpec, hashes: FlowHashes, origin: Origin,
    ) -> FlowId;
    /// Whether the receiving host must also be woken when a flow starts, because the receiver has a timer.
    fn wakes_receivers(shared: &Self::Shared) -> bool;
    /// Processes a note that a host's NIC left during the window of simulated time that has just ended.
    fn process<S: Iterator<Item = FlowSpec>>(hosts: &mut Hosts<'_, Self, S>, notice: Notice);
    /// Retires the flows whose sender and receiver are done with them, after all notes of the window have been
    /// processed.
    fn retire<S: Iterator<Item = FlowSpec>>(hosts: &mut Hosts<'_, Self, S>);
    /// On several ranks: the flows whose senders are on this rank and are done with them, without the first `known` of
    /// the flows that wait for this. Only the senders of RC-like transports are asked; others leave a note.
    fn senders_done<S: Iterator<Item = FlowSpec>>(_hosts: &Hosts<'_, Self, S>, _known: usize) -> Vec<FlowId> {
        Vec::new()
    }
    /// Whether the senders of all finished flows are done with these flows.
    fn is_idle(&self) -> bool;
    /// Whether the sender of the flow has aborted it.
    fn is_aborted(&self, flow: FlowId) -> bool;
    /// Number of flows that their senders have aborted.
    fn aborted(&self) -> u64;
    /// Number of payload bytes of the flow `flow` of `bytes` bytes that have arrived so far at its receiving end,
    /// `end`.
    fn delivered(shared: &Self::Shared, end: &Self::ReceiveEnd, flow: FlowId, bytes: u64) -> u64;
    /// Number of packets of a flow that have not arrived, and number of packets that have never been sent; `None` if
    /// flows of this kind cannot be shortened.
    fn remaining(_send: &Self::SendEnd, _receive: &Self::ReceiveEnd) -> Option<(u64, u64)> {
        None
    }
    /// Shortens a flow, whose sender has not sent the packets. Its sending end is in the slot `slot` of `host`.
    fn shorten(_host: &mut Host<Self>, _slot: EndSlot, _skipped: &Skipped) {}
    /// The counterpart of [`NicKind::shorten`] at the receiver.
    fn shorten_receiver(_receive: &mut Self::ReceiveEnd, _skipped: &Skipped) {}
}

/// A flow that is under way, for the search of steady states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Remaining {
    pub(crate) flow: FlowId,
    /// Id of the flow's record.
    pub(crate) id: u32,
    /// Number of packets that have not arrived.
    pub(crate) left: u64,
    /// Number of packets that have never been sent.
    pub(crate) unsent: u64,
    /// Number of retransmissions, and of timeouts at both ends, so far.
    pub(crate) losses: (u32, u32),
}

/// What happens to a flow in simulated time that is skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Skipped {
    pub(crate) flow: FlowId,
    /// Number of packets that arrive.
    pub(crate) packets: u64,
    /// Number of retransmissions and of timeouts.
    pub(crate) losses: (u32, u32),
}

/// A flow that has started and not finished.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowUnderWay {
    /// Id of the flow's record ([`FlowRecord::id`](rnic_spec::FlowRecord::id)).
    pub(crate) id: u32,
    /// Sending host.
    pub(crate) src: HostId,
    /// Receiving host.
    pub(crate) dst: HostId,
    /// Its payload bytes.
    pub(crate) bytes: u64,
    /// Its start.
    pub(crate) start: Time,
    /// Hash of the flow's data packets.
    pub(crate) data_hash: u32,
    /// Priority of the flow's data packets.
    pub(crate) priority: u8,
}

/// The state of hosts, for the code that runs and samples the simulation.
pub(crate) trait HostState {
    /// Counters of packets and timeouts, summed over all hosts.
    fn totals(&self) -> HostTotals;
    /// The reason why the hosts ended the run; `None` if they did not end it.
    fn stop(&self) -> Option<Stop>;
    /// Number of flows that have started and not finished.
    fn unfinished(&self) -> u64;
    /// The flows that started before `now`, have not finished, and have at least the id `first`.
    fn under_way(&mut self, now: Time, first: u32) -> Vec<FlowUnderWay>;
    /// For each flow that started before `now` and has not finished: the id of its record, and the payload bytes that
    /// have arrived.
    fn delivered(&mut self, now: Time) -> Vec<(u32, u64)>;
    /// Begins to note flows that end.
    fn note_ends(&mut self);
    /// Moves the flows that have ended since the last call into `ended`, in any order.
    fn take_ended(&mut self, ended: &mut Vec<FrameEnd>);
    /// The longest window of simulated time that the traffic allows; `None` if it does not matter.
    fn reaction(&self) -> Option<Time>;
    /// Sentences about what operations of programs wait for, at most a few.
    fn waiting(&self) -> Vec<String>;
    /// The boundaries of the steps of programs, from now on, of each program with steps.
    fn step_boundaries(&mut self) -> Vec<StepBoundaries>;
    /// Takes the records of collective operations at the end of the run.
    fn take_programs(&mut self) -> ProgramRecords;
}

/// All hosts of a run, whose packets have the type `B`, without the type of the hosts.
pub(crate) trait RunHosts<B: Body>: HostState {
    /// Simulates the hosts on `fabric` until they end the run, no event is left, or `until`.
    fn run(&mut self, fabric: &mut Fabric<B>, observer: &mut dyn Observer<B>, until: Time) -> Ending;
    /// Makes these hosts the hosts of one of several ranks. Must be called before the run begins. Hosts that need one
    /// process, for which [`check_ranks`](crate::run::check_ranks) refuses such a run, have no use for it.
    fn join_ranks(&mut self, _group: RankGroup) {}
    /// On several ranks: collects the counters of all hosts and the state of open flows on rank 0, at the end of a run.
    ///
    /// # Errors
    /// Another rank cannot be reached.
    fn collect(&mut self) -> Result<(), RankError> {
        Ok(())
    }
    /// On several ranks: exchanges how many bytes of open flows have arrived, before flows are sampled.
    fn share_progress(&mut self) {}
    /// Takes the flow records at the end of the run: one per flow that has started, in order of start.
    fn take_records(&mut self) -> FlowLog;
    /// Fills `flows` with the flows that are under way at `now`, in order of their ids. Returns whether simulated time
    /// may be skipped: not while a flow is ending or beginning, and not with hosts that cannot shorten flows.
    fn remaining(&self, _now: Time, _flows: &mut Vec<Remaining>) -> bool {
        false
    }
    /// Simulated time at which the next flow starts; [`Time::MAX`] if none is known.
    fn next_flow_start(&self) -> Time {
        Time::MAX
    }
    /// Skips `span` of simulated time, in which this happens to the flows that are under way, and the hosts count this.
    fn skip(&mut self, _span: Time, _flows: &[Skipped], _counted: HostTotals) {}
}

/// Sorts notes of NICs by host. The notes of each host keep their order, which is that of time. This function is
/// compiled once and not for each kind of host.
fn sort_by_host(notices: &mut [(HostId, Notice)]) {
    notices.sort_by_key(|(host, _)| *host);
}

/// All simulated hosts of a run, with their flows.
pub(crate) struct Hosts<'a, K: NicKind, S: Iterator<Item = FlowSpec>> {
    pub(super) partitions: Vec<NicPartition<K>>,
    pub(super) plan: Arc<PartitionPlan>,
    pub(super) table: FlowTable<'a, S>,
    /// For each flow in the flow table, the locations of its sending and its receiving end.
    pub(super) flows: Slab<FlowId, FlowEnds>,
    pub(super) kind: K,
    /// Buffer for the notes of NICs while they are processed; empty at other times.
    notices: Vec<(HostId, Notice)>,
    /// The other ranks that simulate hosts of the run; `None` for a run in one process.
    pub(super) ranks: Option<Box<RankHosts>>,
    /// Simulated time that has been skipped. The flow table counts it; NICs and the engine do not.
    skipped: Time,
}

impl<'a, K: NicKind, S: Iterator<Item = FlowSpec>> Hosts<'a, K, S> {
    /// Hosts with NICs of the kind `kind`, which will start the flows of `table`. `shared` creates the state that the
    /// NICs of a partition share, `nic` creates the NIC of a host.
    pub(super) fn with(
        kind: K, plan: Arc<PartitionPlan>, table: FlowTable<'a, S>, shared: impl Fn() -> K::Shared,
        nic: impl Fn(HostId) -> K::Nic,
    ) -> Self {
        let partition = |number| {
            let hosts = plan.hosts_of(number).iter().map(|host| Host::new(*host, nic(*host)));
            NicPartition::new(hosts.collect(), shared())
        };
        let partitions = (0..plan.partitions()).map(partition).collect();
        Hosts {
            partitions,
            plan,
            table,
            flows: Slab::new(),
            kind,
            notices: Vec::new(),
            ranks: None,
            skipped: Time::ZERO,
        }
    }

    /// Begins to measure why messages are slower than on an empty fabric, of which the hosts get all frames.
    pub(crate) fn measure_delays(&mut self) {
        self.table.measure_delays();
    }

    /// The simulated time at the engine's time `at`.
    #[inline]
    pub(super) fn simulated(&self, at: Time) -> Time {
        at.saturating_add(self.skipped)
    }

    /// The settings that the NICs of all partitions share.
    pub(super) fn shared(&self) -> &K::Shared {
        &self.partitions[0].shared
    }
    pub(super) fn host(&self, location: Location) -> &Host<K> {
        &self.partitions[location.partition as usize].hosts[location.slot.index()]
    }
    pub(super) fn host_mut(&mut self, location: Location) -> &mut Host<K> {
        &mut self.partitions[location.partition as usize].hosts[location.slot.index()]
    }
    pub(super) fn send_end(&self, flow: FlowId) -> &K::SendEnd {
        let EndLocation { host, slot } = self.flows[flow].sender;
        &self.host(host).senders[slot]
    }
    pub(super) fn send_end_mut(&mut self, flow: FlowId) -> &mut K::SendEnd {
        let EndLocation { host, slot } = self.flows[flow].sender;
        &mut self.host_mut(host).senders[slot]
    }
    pub(super) fn receive_end(&self, flow: FlowId) -> &K::ReceiveEnd {
        let EndLocation { host, slot } = self.flows[flow].receiver;
        &self.host(host).receivers[slot]
    }

    /// The locations at which [`Hosts::insert_here`] will put both ends of the flow `spec` if no other flow is inserted
    /// before.
    pub(super) fn next_ends(&self, spec: &FlowSpec) -> FlowEnds {
        if self.ranks.is_some() {
            return self.next_ends_on_ranks(spec);
        }
        let (sender, receiver) = (self.plan.node(spec.src), self.plan.node(spec.dst));
        FlowEnds {
            sender: EndLocation { host: sender, slot: self.host(sender).senders.next_id() },
            receiver: EndLocation { host: receiver, slot: self.host(receiver).receivers.next_id() },
        }
    }

    /// Frees the slots of a flow's two ends on their hosts. Late packets and timers of the flow no longer match the
    /// slots.
    pub(super) fn release_ends(&mut self, flow: FlowId) {
        if self.ranks.is_some() {
            return self.release_ends_on_ranks(flow);
        }
        let FlowEnds { sender, receiver } = self.flows[flow];
        let host = self.host_mut(sender.host);
        host.senders[sender.slot].forget();
        host.senders.release(sender.slot);
        let host = self.host_mut(receiver.host);
        host.receivers[receiver.slot].forget();
        host.receivers.release(receiver.slot);
        let host = host.id.0;
        self.table.forget_connection(host, receiver.slot.0);
    }

    /// Number of retransmissions of a flow so far, and number of its timeouts so far: those at the sender plus those at
    /// the receiver.
    pub(super) fn losses(&self, flow: FlowId) -> (u32, u32) {
        if let Some(ranks) = &self.ranks {
            return ranks.losses(flow);
        }
        let (send, receive) = (self.send_end(flow), self.receive_end(flow));
        (send.retransmitted(), send.timeouts() + receive.timeouts())
    }

    /// Completes the record of a flow that retires, and writes the record to the flow log.
    pub(super) fn retire_record(&mut self, flow: FlowId) {
        let (retransmitted, timeouts) = self.losses(flow);
        self.table.retire(flow, retransmitted, timeouts);
    }

    /// Completes the records of the flows that have not retired at the end of the run, and writes them to the flow log.
    pub(super) fn truncate_open(&mut self) {
        let open: Vec<(FlowId, u64)> = self.table.open_flows().map(|(flow, record)| (flow, record.bytes)).collect();
        for (flow, bytes) in open {
            let (retransmitted, timeouts) = self.losses(flow);
            let delivered = self.delivered_of(flow, bytes);
            self.table.truncate(flow, delivered, retransmitted, timeouts);
        }
    }

    /// Processes the notes that NICs left during the window of simulated time, in order of host, then of time.
    fn process_notices(&mut self) {
        let mut notices = std::mem::take(&mut self.notices);
        for partition in &mut self.partitions {
            notices.append(&mut partition.notices);
        }
        if let Some(ranks) = &mut self.ranks {
            notices.append(&mut ranks.notices);
        }
        sort_by_host(&mut notices);
        for (_, notice) in notices.drain(..) {
            K::process(self, notice);
        }
        self.notices = notices;
    }

    /// The flows that started before `now`, have not finished, and have at least the id `first`. The flow table learns
    /// only at the end of a window of simulated time that a flow has finished, so its receiving end is asked too.
    fn open_flows(&self, now: Time, first: u32) -> impl Iterator<Item = (FlowId, &FlowRecord)> {
        let is_open = move |record: &FlowRecord| record.finish.is_none() && record.start < now && record.id >= first;
        let open = self.table.open_flows().filter(move |(_, record)| is_open(record));
        open.filter(move |(flow, _)| !self.kind.is_aborted(*flow) && !self.is_done(*flow))
    }
}

impl<K: NicKind, S: Iterator<Item = FlowSpec>> PartitionedHosts for Hosts<'_, K, S>
where
    NicPartition<K>: HostPartition,
{
    type Partition = NicPartition<K>;

    fn partitions(&mut self) -> &mut Vec<NicPartition<K>> {
        &mut self.partitions
    }

    fn next_start(&self) -> Time {
        match self.table.next_start() {
            Time::MAX => Time::MAX,
            start => start.saturating_sub(self.skipped),
        }
    }

    fn settle(&mut self, window: NextWindow, ports: &dyn ObservedPorts) -> ControlFlow<()> {
        self.table.settle(window, ports)
    }

    fn open_window(&mut self, end: Time, wake: &mut dyn FnMut(HostId, Time)) {
        while let Some((spec, origin)) = self.table.next_flow(self.simulated(end)) {
            let hashes = self.table.hashes(&spec);
            let starting = FlowSpec { start: spec.start.saturating_sub(self.skipped), ..spec };
            let flow = K::open(self, &starting, hashes, origin);
            self.table.start(&spec, self.hashes(flow).data, flow);
            self.table.assign(flow, origin);
            let spec = starting;
            let FlowEnds { sender, receiver } = self.flows[flow];
            let start = Start { at: spec.start, slot: sender.slot, receiving: false };
            if self.is_here(HostId(spec.src)) {
                self.host_mut(sender.host).starts.push_back(start);
                wake(HostId(spec.src), spec.start);
            }
            if K::wakes_receivers(self.shared()) && self.is_here(HostId(spec.dst)) {
                let start = Start { slot: receiver.slot, receiving: true, ..start };
                self.host_mut(receiver.host).starts.push_back(start);
                wake(HostId(spec.dst), spec.start);
            }
        }
        self.table.window_is_open();
    }

    fn note_frames(&mut self, frames: &[(PortId, Tapped<BodyOf<Self>>)]) {
        self.table.note_frames(frames);
    }

    fn close_window(&mut self, end: Time, hops: u64) -> ControlFlow<()> {
        let progress = self.partitions.iter().map(|partition| partition.last_progress).max();
        self.table.progress(self.simulated(progress.unwrap_or_default()));
        if let Some(ranks) = &self.ranks {
            self.table.progress(ranks.progress);
            self.process_notices();
        } else if self.partitions.iter().any(|partition| !partition.notices.is_empty()) {
            self.process_notices();
        }
        K::retire(self);
        self.table.close_window(self.simulated(end), hops, self.kind.is_idle())
    }

    fn send_notices(&mut self, message: &mut Vec<u8>) -> Result<(), RankError> {
        self.append_notices(message)
    }
    fn receive_notices(&mut self, _rank: usize, message: &[u8]) -> Result<(), RankError> {
        self.process_rank_notices(message)
    }
}

impl<K: NicKind, S: Iterator<Item = FlowSpec>> HostState for Hosts<'_, K, S> {
    fn totals(&self) -> HostTotals {
        let mut totals = HostTotals::default();
        match self.collected_totals() {
            Some(collected) => totals = collected,
            None => self.partitions.iter().for_each(|partition| totals.add(partition.totals)),
        }
        totals.aborted += self.kind.aborted();
        totals
    }
    fn stop(&self) -> Option<Stop> {
        self.table.stop()
    }
    fn unfinished(&self) -> u64 {
        self.table.active()
    }
    fn under_way(&mut self, now: Time, first: u32) -> Vec<FlowUnderWay> {
        let flow = |(flow, record): (FlowId, &FlowRecord)| FlowUnderWay {
            id: record.id,
            bytes: record.bytes,
            start: record.start,
            src: HostId(record.src),
            dst: HostId(record.dst),
            data_hash: self.hashes(flow).data,
            priority: DATA_PRIORITY,
        };
        self.open_flows(now, first).map(flow).collect()
    }
    fn delivered(&mut self, now: Time) -> Vec<(u32, u64)> {
        let flows = self.open_flows(now, 0);
        flows.map(|(flow, record)| (record.id, self.delivered_of(flow, record.bytes))).collect()
    }
    fn note_ends(&mut self) {
        self.table.note_ends();
    }
    fn take_ended(&mut self, ended: &mut Vec<FrameEnd>) {
        self.table.take_ended(ended);
    }
    fn reaction(&self) -> Option<Time> {
        self.table.reaction()
    }
    fn waiting(&self) -> Vec<String> {
        self.table.waiting()
    }
    fn step_boundaries(&mut self) -> Vec<StepBoundaries> {
        self.table.step_boundaries().into_iter().collect()
    }
    fn take_programs(&mut self) -> ProgramRecords {
        self.table.take_programs()
    }
}

impl<K: NicKind, S: Iterator<Item = FlowSpec>, B: Body> RunHosts<B> for Hosts<'_, K, S>
where
    NicPartition<K>: HostPartition<Body = B>,
{
    fn run(&mut self, fabric: &mut Fabric<B>, observer: &mut dyn Observer<B>, until: Time) -> Ending {
        fabric.run_watched(self, &mut Observed(observer), until)
    }
    fn join_ranks(&mut self, group: RankGroup) {
        self.join(group);
    }
    fn collect(&mut self) -> Result<(), RankError> {
        self.collect_on_root()
    }
    fn share_progress(&mut self) {
        if let Err(error) = self.share_delivered() {
            self.lose_ranks(error);
        }
    }
    fn take_records(&mut self) -> FlowLog {
        self.truncate_open();
        self.table.take_log()
    }
    fn remaining(&self, now: Time, flows: &mut Vec<Remaining>) -> bool {
        flows.clear();
        if !self.kind.is_idle() || self.partitions.iter().any(|partition| !partition.notices.is_empty()) {
            return false;
        }
        for (flow, record) in self.table.open_flows() {
            let (send, receive) = (self.send_end(flow), self.receive_end(flow));
            let Some((left, unsent)) = K::remaining(send, receive).filter(|_| record.start < now) else {
                return false;
            };
            flows.push(Remaining { flow, id: record.id, left, unsent, losses: self.losses(flow) });
        }
        true
    }
    fn next_flow_start(&self) -> Time {
        self.table.next_start()
    }
    fn skip(&mut self, span: Time, flows: &[Skipped], counted: HostTotals) {
        for skipped in flows {
            let FlowEnds { sender, receiver } = self.flows[skipped.flow];
            K::shorten(self.host_mut(sender.host), sender.slot, skipped);
            K::shorten_receiver(&mut self.host_mut(receiver.host).receivers[receiver.slot], skipped);
        }
        self.partitions[0].totals.add(counted);
        self.skipped = self.skipped.saturating_add(span);
    }
}
