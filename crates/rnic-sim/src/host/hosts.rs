//! All hosts of a run, between windows: they start flows, process the notes of NICs, and retire flows.

use super::config::HostTotals;
use super::ends::{EndLocation, FlowEnds, FlowHashes, ReceivingEnd, SendingEnd};
use super::flow_table::{FlowTable, Stop};
use super::ids::FlowId;
use super::partition::{Host, NicPartition, Notice, Start};
use super::slab::Slab;
use rnic_fabric::{HostId, HostPartition, Location, PartitionPlan, PartitionedHosts};
use rnic_run::{FlowLog, FlowRecord, FlowSpec};
use rnic_transport::Time;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A kind of NICs: the steps between windows in which RC-like NICs and message NICs differ. The value holds the kind's
/// state of a run. The kind's implementation of [`HostPartition`] for [`NicPartition`] sends and receives packets.
pub(crate) trait NicKind: Sized {
    /// The sending end of a flow.
    type SendEnd: SendingEnd;
    /// The receiving end of a flow.
    type ReceiveEnd: ReceivingEnd;
    /// The NIC of a host, beside the ends of its flows.
    type Nic;
    /// Settings and state that the NICs of one partition share.
    type Shared;

    /// Creates both ends of a flow with [`Hosts::insert`]; returns the id of the flow. The flow is on the persistent
    /// connection `connection`, [`Loops::NONE`](rnic_workload::Loops::NONE) for none.
    fn open<S: Iterator<Item = FlowSpec>>(
        hosts: &mut Hosts<'_, Self, S>, spec: &FlowSpec, hashes: FlowHashes, connection: u32,
    ) -> FlowId;
    /// Whether the receiving end must be woken when its flow starts.
    fn wakes_receivers(shared: &Self::Shared) -> bool;
    /// Processes a note of a host.
    fn process<S: Iterator<Item = FlowSpec>>(hosts: &mut Hosts<'_, Self, S>, notice: Notice);
    /// Retires flows, after all notes of the window have been processed.
    fn retire<S: Iterator<Item = FlowSpec>>(hosts: &mut Hosts<'_, Self, S>);
    /// Whether no sender has anything to do.
    fn is_idle(&self) -> bool;
    /// Whether the sender of a flow has aborted it.
    fn is_aborted(&self, flow: FlowId) -> bool;
    /// Number of flows that their senders have aborted.
    fn aborted(&self) -> u64;
    /// Payload bytes that have arrived of a flow of `bytes` bytes.
    fn delivered(shared: &Self::Shared, end: &Self::ReceiveEnd, bytes: u64) -> u64;
}

/// A flow that has started and not finished.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowUnderWay {
    /// Number of its record.
    pub(crate) id: u32,
    /// Sending host.
    pub(crate) src: HostId,
    /// Receiving host.
    pub(crate) dst: HostId,
    /// Hash of its data packets.
    pub(crate) data_hash: u32,
}

/// The interface of the hosts to a run and its probes.
pub(crate) trait RunHosts: PartitionedHosts {
    /// Counters of all hosts.
    fn totals(&self) -> HostTotals;
    /// Why the hosts ended the run, if they did.
    fn stop(&self) -> Option<Stop>;
    /// Number of flows that have started and not finished.
    fn unfinished(&self) -> u64;
    /// The flows that are under way before `now`.
    fn under_way(&self, now: Time) -> impl Iterator<Item = FlowUnderWay>;
    /// Record number of each flow that is under way before `now`, and the payload bytes that have arrived of it.
    fn delivered(&self, now: Time) -> impl Iterator<Item = (u32, u64)>;
    /// One record per flow that has started, in order of start.
    fn take_records(&mut self) -> FlowLog;
}

/// All hosts of a run, with their flows.
pub(crate) struct Hosts<'a, K: NicKind, S: Iterator<Item = FlowSpec>> {
    pub(super) partitions: Vec<NicPartition<K>>,
    pub(super) plan: Arc<PartitionPlan>,
    pub(super) table: FlowTable<'a, S>,
    /// Where the ends of each flow of the table are.
    pub(super) flows: Slab<FlowId, FlowEnds>,
    pub(super) kind: K,
    /// Notes that are being processed; empty otherwise.
    notices: Vec<(HostId, Notice)>,
}

impl<'a, K: NicKind, S: Iterator<Item = FlowSpec>> Hosts<'a, K, S> {
    /// Hosts with NICs of a kind, which will start the flows of the table.
    pub(super) fn with(
        kind: K, plan: Arc<PartitionPlan>, table: FlowTable<'a, S>, shared: impl Fn() -> K::Shared,
        nic: impl Fn(HostId) -> K::Nic,
    ) -> Self {
        let partition = |number| {
            let hosts = plan.hosts_of(number).iter().map(|host| Host::new(*host, nic(*host)));
            NicPartition::new(hosts.collect(), shared())
        };
        let partitions = (0..plan.partitions()).map(partition).collect();
        Hosts { partitions, plan, table, flows: Slab::new(), kind, notices: Vec::new() }
    }

    /// Settings that are the same in every partition.
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

    /// Where [`Hosts::insert`] will put the ends of the next flow between these hosts.
    pub(super) fn next_ends(&self, spec: &FlowSpec) -> FlowEnds {
        let (sender, receiver) = (self.plan.node(spec.src), self.plan.node(spec.dst));
        FlowEnds {
            sender: EndLocation { host: sender, slot: self.host(sender).senders.next_id() },
            receiver: EndLocation { host: receiver, slot: self.host(receiver).receivers.next_id() },
        }
    }

    /// Puts the ends of a flow into their slots, which are the result of [`Hosts::next_ends`].
    pub(super) fn insert(&mut self, flow: FlowId, ends: FlowEnds, send: K::SendEnd, receive: K::ReceiveEnd) {
        let slot = self.host_mut(ends.sender.host).senders.insert(send);
        debug_assert_eq!(slot, ends.sender.slot);
        let slot = self.host_mut(ends.receiver.host).receivers.insert(receive);
        debug_assert_eq!(slot, ends.receiver.slot);
        self.flows[flow] = ends;
    }

    /// Frees the slots of a flow's ends. Late packets and timers of the flow no longer match.
    pub(super) fn release_ends(&mut self, flow: FlowId) {
        let FlowEnds { sender, receiver } = self.flows[flow];
        let host = self.host_mut(sender.host);
        host.senders[sender.slot].forget();
        host.senders.release(sender.slot);
        let host = self.host_mut(receiver.host);
        host.receivers[receiver.slot].forget();
        host.receivers.release(receiver.slot);
    }

    /// Retransmissions and timeouts of a flow so far, at both ends.
    pub(super) fn losses(&self, flow: FlowId) -> (u32, u32) {
        let (send, receive) = (self.send_end(flow), self.receive_end(flow));
        (send.retransmitted(), send.timeouts() + receive.timeouts())
    }

    /// Writes the record of a flow to the log.
    pub(super) fn retire_record(&mut self, flow: FlowId) {
        let (retransmitted, timeouts) = self.losses(flow);
        self.table.retire(flow, retransmitted, timeouts);
    }

    /// Processes what the hosts have noted since the window began: by host, then by time.
    fn process_notices(&mut self) {
        let mut notices = std::mem::take(&mut self.notices);
        for partition in &mut self.partitions {
            notices.append(&mut partition.notices);
        }
        notices.sort_by_key(|(host, _)| *host); // stable: each host's in order of time
        for (_, notice) in notices.drain(..) {
            K::process(self, notice);
        }
        self.notices = notices;
    }

    /// The flows that are under way before `now`. Between their last packet and the end of the window only the
    /// receiving end knows that they have finished.
    fn open_flows(&self, now: Time) -> impl Iterator<Item = (FlowId, &FlowRecord)> {
        let open = self.table.open_flows().filter(move |(_, record)| record.finish.is_none() && record.start < now);
        open.filter(move |(flow, _)| !self.kind.is_aborted(*flow) && !self.receive_end(*flow).is_done())
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
        self.table.next_start()
    }

    fn open_window(&mut self, end: Time, wake: &mut dyn FnMut(HostId, Time)) {
        while let Some((spec, origin)) = self.table.next_flow(end) {
            let hashes = self.table.hashes(&spec);
            let flow = K::open(self, &spec, hashes, origin.connection);
            self.table.start(&spec, self.send_end(flow).data_hash(), flow);
            self.table.assign(flow, origin);
            let FlowEnds { sender, receiver } = self.flows[flow];
            let start = Start { at: spec.start, slot: sender.slot, receiving: false };
            self.host_mut(sender.host).starts.push_back(start);
            wake(HostId(spec.src), spec.start);
            if K::wakes_receivers(self.shared()) {
                let start = Start { slot: receiver.slot, receiving: true, ..start };
                self.host_mut(receiver.host).starts.push_back(start);
                wake(HostId(spec.dst), spec.start);
            }
        }
        self.table.window_is_open();
    }

    fn close_window(&mut self, end: Time, hops: u64) -> ControlFlow<()> {
        let progress = self.partitions.iter().map(|partition| partition.last_progress).max();
        self.table.progress(progress.unwrap_or_default());
        if self.partitions.iter().any(|partition| !partition.notices.is_empty()) {
            self.process_notices();
        }
        K::retire(self);
        self.table.close_window(end, hops, self.kind.is_idle())
    }
}

impl<K: NicKind, S: Iterator<Item = FlowSpec>> RunHosts for Hosts<'_, K, S>
where
    NicPartition<K>: HostPartition,
{
    fn totals(&self) -> HostTotals {
        let mut totals = HostTotals::default();
        self.partitions.iter().for_each(|partition| totals.add(&partition.totals));
        totals.aborted += self.kind.aborted();
        totals
    }
    fn stop(&self) -> Option<Stop> {
        self.table.stop()
    }
    fn unfinished(&self) -> u64 {
        self.table.active()
    }
    fn under_way(&self, now: Time) -> impl Iterator<Item = FlowUnderWay> {
        self.open_flows(now).map(|(flow, record)| FlowUnderWay {
            id: record.id,
            src: HostId(record.src),
            dst: HostId(record.dst),
            data_hash: self.send_end(flow).data_hash(),
        })
    }
    fn delivered(&self, now: Time) -> impl Iterator<Item = (u32, u64)> {
        let delivered = |flow, bytes| K::delivered(self.shared(), self.receive_end(flow), bytes);
        self.open_flows(now).map(move |(flow, record)| (record.id, delivered(flow, record.bytes)))
    }
    fn take_records(&mut self) -> FlowLog {
        let open: Vec<(FlowId, u64)> = self.table.open_flows().map(|(flow, record)| (flow, record.bytes)).collect();
        for (flow, bytes) in open {
            let (retransmitted, timeouts) = self.losses(flow);
            let delivered = K::delivered(self.shared(), self.receive_end(flow), bytes);
            self.table.truncate(flow, delivered, retransmitted, timeouts);
        }
        self.table.take_log()
    }
}
