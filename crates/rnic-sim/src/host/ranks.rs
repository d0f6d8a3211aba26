//! Hosts on several ranks (processes that simulate one fabric together).
//!
//! Every rank starts every flow and knows the record of every open flow, so that all ranks assign the same ids and
//! slots. An end of a flow exists only on the rank of its host. After each window of simulated time every rank sends
//! the notices of its NICs to all ranks, and which senders are done; then every rank processes the notices of all hosts
//! in the same order. At the end of a run, rank 0 collects the counters of all hosts and the state of the flows that
//! are still open.

use super::config::HostTotals;
use super::ends::{EndLocation, FlowEnds, FlowHashes, ReceivingEnd, SendingEnd};
use super::hosts::{Hosts, NicKind};
use super::ids::{EndSlot, FlowId, Id};
use super::partition::Notice;
use rnic_fabric::rank_message::{append, take, take_last};
use rnic_fabric::{HostId, RankError, RankGroup};
use rnic_spec::FlowSpec;
use rnic_transport::Time;
use rnic_workload::Loops;
use serde::{Deserialize, Serialize};

/// The slots of a host of another rank: which are free, as in the host's [`Slab`](super::slab::Slab).
#[derive(Clone, Default)]
struct Slots {
    count: u32,
    free: Vec<EndSlot>,
}

impl Slots {
    fn next(&self) -> EndSlot {
        self.free.last().copied().unwrap_or(EndSlot(self.count))
    }
    fn take(&mut self) -> EndSlot {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            EndSlot(self.count - 1)
        })
    }
    fn release(&mut self, slot: EndSlot) {
        self.free.push(slot);
    }
}

/// What every rank knows of a flow.
#[derive(Clone, Copy)]
pub(super) struct RankFlow {
    /// Sending and receiving host.
    hosts: (u32, u32),
    pub(super) hashes: FlowHashes,
    /// Id of the flow's persistent connection; [`Loops::NONE`] if the flow has none.
    pub(super) connection: u32,
    /// Whether the sender is done with the flow.
    pub(super) ended: bool,
    /// Whether the flow has retired.
    pub(super) retired: bool,
    /// Counters of the sending end, valid when the sender is done.
    retransmitted: u32,
    sender_timeouts: u32,
    /// Timeouts at the receiving end, valid when all bytes have arrived.
    receiver_timeouts: u32,
    /// Payload that had arrived at the latest [`Hosts::share_delivered`], and whether all of it had.
    delivered: u64,
    is_done: bool,
}

impl RankFlow {
    fn set_sender(&mut self, counters: SenderCounters) {
        self.retransmitted = counters.retransmitted;
        self.sender_timeouts = counters.timeouts;
    }
}

/// Counters of a flow's sending end.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct SenderCounters {
    retransmitted: u32,
    timeouts: u32,
}

/// A notice of a NIC, with the counters of the flow's end that it is about.
#[derive(Serialize, Deserialize)]
enum NoticeMessage {
    /// All bytes of the flow have arrived.
    Finished { at_ps: u64, receiver_timeouts: u32 },
    /// The sender of a message knows that all bytes have arrived.
    Sent(SenderCounters),
    /// The sender of a message has aborted it.
    Aborted(SenderCounters),
}

/// What the hosts of a rank send to all ranks after a window.
#[derive(Serialize, Deserialize)]
struct HostsMessage {
    /// Latest progress of any flow on the rank.
    progress_ps: u64,
    /// Whether the user of the rank asks to end the run.
    asks_to_stop: bool,
    notices: Vec<(HostId, FlowId, NoticeMessage)>,
    senders_done: SendersDone,
}

impl HostsMessage {
    #[inline(never)]
    fn append_to(&self, message: &mut Vec<u8>) -> Result<(), RankError> {
        append(self, message)
    }
}

/// Flows whose senders are done, with the counters of the senders.
type SendersDone = Vec<(FlowId, SenderCounters)>;

/// Progress of an open flow at its receiving end, for samples.
#[derive(Serialize, Deserialize)]
struct Delivered {
    flow: FlowId,
    bytes: u64,
    is_done: bool,
}

/// The counters of an open flow at the end of a run, of the ends that are on the sending rank.
#[derive(Serialize, Deserialize)]
struct OpenFlow {
    flow: FlowId,
    delivered: u64,
    retransmitted: u32,
    timeouts: u32,
}

/// State of the other ranks' hosts and flows on one rank.
pub(crate) struct RankHosts {
    pub(super) group: RankGroup,
    /// Per host of the fabric: its slots, if the host is on another rank.
    senders: Vec<Slots>,
    receivers: Vec<Slots>,
    flows: Vec<RankFlow>,
    /// Notices of the NICs of all ranks since the current window began, each with its host.
    pub(super) notices: Vec<(HostId, Notice)>,
    /// Latest progress of any flow on any rank.
    pub(super) progress: Time,
    /// On rank 0 at the end of a run: the counters of all hosts.
    totals: HostTotals,
}

impl RankHosts {
    pub(super) fn new(group: RankGroup, hosts: u32) -> RankHosts {
        RankHosts {
            group,
            senders: vec![Slots::default(); hosts as usize],
            receivers: vec![Slots::default(); hosts as usize],
            flows: Vec::new(),
            notices: Vec::new(),
            progress: Time::ZERO,
            totals: HostTotals::default(),
        }
    }

    pub(super) fn flow(&self, flow: FlowId) -> &RankFlow {
        &self.flows[flow.index()]
    }
    pub(super) fn flow_mut(&mut self, flow: FlowId) -> &mut RankFlow {
        &mut self.flows[flow.index()]
    }
    /// Notes the flows whose senders are done, with the counters of these senders.
    fn end_senders(&mut self, done: SendersDone) -> Result<(), RankError> {
        for (flow, counters) in done {
            let known = self.flows.get_mut(flow.index()).ok_or(RankError::Damaged("the senders that are done"))?;
            known.ended = true;
            known.set_sender(counters);
        }
        Ok(())
    }
    /// Adds the counters of a rank's hosts and of its ends of open flows, at the end of a run.
    fn add_counters(&mut self, message: &[u8]) -> Result<(), RankError> {
        const NAME: &str = "the counters of hosts";
        let (totals, open): (HostTotals, Vec<OpenFlow>) = take_last(message, NAME)?;
        self.totals.add(totals);
        for OpenFlow { flow, delivered, retransmitted, timeouts } in open {
            let known = self.flows.get_mut(flow.index()).ok_or(RankError::Damaged(NAME))?;
            known.delivered += delivered;
            known.retransmitted += retransmitted;
            known.sender_timeouts += timeouts;
        }
        Ok(())
    }
    /// Processes what [`Hosts::append_notices`] of a rank has appended. Returns whether the rank asks to end the run.
    fn process(&mut self, message: &[u8]) -> Result<bool, RankError> {
        const NAME: &str = "the notices of hosts";
        let HostsMessage { progress_ps, asks_to_stop, notices, senders_done } = take_last(message, NAME)?;
        self.progress = self.progress.max(Time::from_ps(progress_ps));
        for (host, flow, notice) in notices {
            let known = self.flows.get_mut(flow.index()).ok_or(RankError::Damaged(NAME))?;
            let notice = match notice {
                NoticeMessage::Finished { at_ps, receiver_timeouts } => {
                    known.receiver_timeouts = receiver_timeouts;
                    Notice::Finished { flow, at: Time::from_ps(at_ps) }
                }
                NoticeMessage::Sent(counters) => {
                    known.set_sender(counters);
                    Notice::Sent { flow }
                }
                NoticeMessage::Aborted(counters) => {
                    known.set_sender(counters);
                    Notice::Aborted { flow }
                }
            };
            self.notices.push((host, notice));
        }
        self.end_senders(senders_done)?;
        Ok(asks_to_stop)
    }
    /// Sends `own` to all ranks, and receives the messages of all.
    fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, RankError> {
        let mut all = Vec::new();
        self.group.gather(own, &mut all)?;
        Ok(all)
    }
    /// See [`Hosts::share_senders_done`].
    fn share_senders_done(&mut self, done: &SendersDone) -> Result<(), RankError> {
        let mut own = Vec::new();
        append(done, &mut own)?;
        let all = self.gather(&own)?;
        all.iter().try_for_each(|message| self.end_senders(take_last(message, "the senders that are done")?))
    }
    /// See [`Hosts::share_delivered`].
    fn share_delivered(&mut self, delivered: &[Delivered]) -> Result<(), RankError> {
        const NAME: &str = "delivered bytes";
        let mut own = Vec::new();
        delivered.iter().try_for_each(|flow| append(flow, &mut own))?;
        for message in self.gather(&own)? {
            let mut message = &message[..];
            while !message.is_empty() {
                let Delivered { flow, bytes, is_done } = take(&mut message, NAME)?;
                let known = self.flows.get_mut(flow.index()).ok_or(RankError::Damaged(NAME))?;
                known.delivered = bytes;
                known.is_done = is_done;
            }
        }
        Ok(())
    }
    /// Sends the counters of this rank's hosts and of its ends of open flows to rank 0, which adds those of all ranks.
    /// `flows` are all open flows.
    fn collect(&mut self, totals: HostTotals, open: Vec<OpenFlow>, flows: &[FlowId]) -> Result<(), RankError> {
        let mut own = Vec::new();
        append(&(totals, open), &mut own)?;
        let messages = self.group.collect(own)?;
        if !self.group.is_root() {
            return Ok(());
        }
        for flow in flows {
            let known = self.flow_mut(*flow);
            known.delivered = 0;
            known.retransmitted = 0;
            known.sender_timeouts = 0;
            known.receiver_timeouts = 0;
        }
        let added = messages.iter().try_for_each(|message| self.add_counters(message));
        added.map_err(|error| self.group.fail(error))
    }
    /// Retransmissions and timeouts of a flow whose ends are done.
    pub(super) fn losses(&self, flow: FlowId) -> (u32, u32) {
        let flow = self.flow(flow);
        (flow.retransmitted, flow.sender_timeouts + flow.receiver_timeouts)
    }
}

impl<K: NicKind, S: Iterator<Item = FlowSpec>> Hosts<'_, K, S> {
    /// Whether this rank simulates the host; true for every host of a run in one process.
    #[inline]
    pub(super) fn is_here(&self, host: HostId) -> bool {
        self.plan.is_here(self.plan.node(host.0).partition)
    }
    fn has(&self, end: EndLocation) -> bool {
        self.plan.is_here(end.host.partition)
    }

    /// Makes these hosts the hosts of one of several ranks. Must be called before the run begins.
    pub(crate) fn join(&mut self, group: RankGroup) {
        self.table.join(group.is_root());
        self.ranks = Some(Box::new(RankHosts::new(group, self.table.hosts())));
    }

    /// The hashes of the packets of a flow that has not retired.
    pub(super) fn hashes(&self, flow: FlowId) -> FlowHashes {
        match &self.ranks {
            Some(ranks) => ranks.flow(flow).hashes,
            None => {
                let end = self.send_end(flow);
                FlowHashes { data: end.data_hash(), control: end.control_hash() }
            }
        }
    }

    /// Stores the hashes and the connection of a starting flow.
    pub(super) fn note(&mut self, flow: FlowId, spec: &FlowSpec, hashes: FlowHashes, connection: u32) {
        let Some(ranks) = &mut self.ranks else { return };
        let new = RankFlow {
            hosts: (spec.src, spec.dst),
            hashes,
            connection,
            ended: false,
            retired: false,
            retransmitted: 0,
            sender_timeouts: 0,
            receiver_timeouts: 0,
            delivered: 0,
            is_done: false,
        };
        match ranks.flows.get_mut(flow.index()) {
            Some(known) => *known = new,
            None => ranks.flows.push(new),
        }
    }

    /// As [`Hosts::next_ends`], on several ranks.
    #[cold]
    pub(super) fn next_ends_on_ranks(&self, spec: &FlowSpec) -> FlowEnds {
        let (sender, receiver) = (self.plan.node(spec.src), self.plan.node(spec.dst));
        let known = |of: fn(&RankHosts) -> &Vec<Slots>, host: u32| {
            self.ranks.as_ref().map_or(EndSlot::NONE, |ranks| of(ranks)[host as usize].next())
        };
        let send = match self.plan.is_here(sender.partition) {
            true => self.host(sender).senders.next_id(),
            false => known(|ranks| &ranks.senders, spec.src),
        };
        let receive = match self.plan.is_here(receiver.partition) {
            true => self.host(receiver).receivers.next_id(),
            false => known(|ranks| &ranks.receivers, spec.dst),
        };
        FlowEnds {
            sender: EndLocation { host: sender, slot: send },
            receiver: EndLocation { host: receiver, slot: receive },
        }
    }

    /// Stores the ends of a flow that are on this rank in their slots on the hosts, and takes the slots of the others;
    /// `ends` must be the result of [`Hosts::next_ends`].
    pub(super) fn insert_here(
        &mut self, flow: FlowId, spec: &FlowSpec, ends: FlowEnds, send: Option<K::SendEnd>,
        receive: Option<K::ReceiveEnd>,
    ) {
        if let Some(send) = send {
            let slot = self.host_mut(ends.sender.host).senders.insert(send);
            debug_assert_eq!(slot, ends.sender.slot);
        } else if let Some(ranks) = &mut self.ranks {
            ranks.senders[spec.src as usize].take();
        }
        if let Some(receive) = receive {
            let slot = self.host_mut(ends.receiver.host).receivers.insert(receive);
            debug_assert_eq!(slot, ends.receiver.slot);
        } else if let Some(ranks) = &mut self.ranks {
            ranks.receivers[spec.dst as usize].take();
        }
        self.flows[flow] = ends;
    }

    /// As [`Hosts::release_ends`], on several ranks.
    #[cold]
    pub(super) fn release_ends_on_ranks(&mut self, flow: FlowId) {
        let FlowEnds { sender, receiver } = self.flows[flow];
        let (src, dst) = self.ranks.as_ref().map_or((0, 0), |ranks| ranks.flow(flow).hosts);
        if self.has(sender) {
            let host = self.host_mut(sender.host);
            host.senders[sender.slot].forget();
            host.senders.release(sender.slot);
        } else if let Some(ranks) = &mut self.ranks {
            ranks.senders[src as usize].release(sender.slot);
        }
        if self.has(receiver) {
            let host = self.host_mut(receiver.host);
            host.receivers[receiver.slot].forget();
            host.receivers.release(receiver.slot);
        } else if let Some(ranks) = &mut self.ranks {
            ranks.receivers[dst as usize].release(receiver.slot);
        }
    }

    /// Appends to `message` what the hosts of this rank send to all ranks after a window.
    pub(super) fn append_notices(&mut self, message: &mut Vec<u8>) -> Result<(), RankError> {
        let progress = self.partitions.iter().map(|partition| partition.last_progress).max();
        let mut notices = Vec::new();
        self.partitions.iter_mut().for_each(|partition| notices.append(&mut partition.notices));
        let encoded = |(host, notice)| match notice {
            Notice::Finished { flow, at } => {
                let receiver_timeouts = self.receive_end(flow).timeouts();
                (host, flow, NoticeMessage::Finished { at_ps: at.as_ps(), receiver_timeouts })
            }
            Notice::Sent { flow } => (host, flow, NoticeMessage::Sent(self.sender_counters(flow))),
            Notice::Aborted { flow } => (host, flow, NoticeMessage::Aborted(self.sender_counters(flow))),
        };
        let notices = notices.into_iter().map(encoded).collect();
        let done = K::senders_done(self, 0);
        let own = HostsMessage {
            progress_ps: progress.unwrap_or_default().as_ps(),
            asks_to_stop: self.table.asks_to_stop(),
            notices,
            senders_done: self.with_counters(&done),
        };
        own.append_to(message)
    }

    fn sender_counters(&self, flow: FlowId) -> SenderCounters {
        let end = self.send_end(flow);
        SenderCounters { retransmitted: end.retransmitted(), timeouts: end.timeouts() }
    }

    fn with_counters(&self, done: &[FlowId]) -> SendersDone {
        done.iter().map(|flow| (*flow, self.sender_counters(*flow))).collect()
    }

    /// Processes what [`Hosts::append_notices`] of a rank, this one included, has appended.
    pub(super) fn process_rank_notices(&mut self, message: &[u8]) -> Result<(), RankError> {
        let Some(ranks) = self.ranks.as_deref_mut() else { return Ok(()) };
        if ranks.process(message)? {
            self.table.must_stop();
        }
        Ok(())
    }

    /// Exchanges with all ranks the flows whose senders are done: `done` are the flows whose senders are on this rank.
    pub(super) fn share_senders_done(&mut self, done: &[FlowId]) -> Result<(), RankError> {
        let done = self.with_counters(done);
        self.ranks.as_deref_mut().map_or(Ok(()), |ranks| ranks.share_senders_done(&done))
    }

    /// Exchanges with all ranks how many bytes of each open flow have arrived, for samples.
    pub(super) fn share_delivered(&mut self) -> Result<(), RankError> {
        if self.ranks.is_none() {
            return Ok(());
        }
        let mut own = Vec::new();
        for (flow, record) in self.table.open_flows() {
            if self.has(self.flows[flow].receiver) {
                let end = self.receive_end(flow);
                let bytes = K::delivered(self.shared(), end, flow, record.bytes);
                own.push(Delivered { flow, bytes, is_done: end.is_done(flow) });
            }
        }
        self.ranks.as_deref_mut().map_or(Ok(()), |ranks| ranks.share_delivered(&own))
    }

    /// Ends the run on this rank because of an error: the engine asks the group of ranks for it.
    pub(super) fn lose_ranks(&self, error: RankError) {
        if let Some(ranks) = &self.ranks {
            ranks.group.fail(error);
        }
    }

    /// Whether all bytes of a flow have arrived, as the last [`Hosts::share_delivered`] says on several ranks.
    pub(super) fn is_done(&self, flow: FlowId) -> bool {
        self.ranks.as_ref().map_or_else(|| self.receive_end(flow).is_done(flow), |ranks| ranks.flow(flow).is_done)
    }
    /// Payload bytes of a flow that have arrived, as [`Hosts::is_done`].
    pub(super) fn delivered_of(&self, flow: FlowId, bytes: u64) -> u64 {
        match &self.ranks {
            Some(ranks) => ranks.flow(flow).delivered,
            None => K::delivered(self.shared(), self.receive_end(flow), flow, bytes),
        }
    }

    /// Collects the counters of all hosts, and the state of open flows, on rank 0.
    pub(super) fn collect_on_root(&mut self) -> Result<(), RankError> {
        if self.ranks.is_none() {
            return Ok(());
        }
        let mut totals = HostTotals::default();
        self.partitions.iter().for_each(|partition| totals.add(partition.totals));
        let mut open = Vec::new();
        for (flow, record) in self.table.open_flows() {
            let FlowEnds { sender, receiver } = self.flows[flow];
            let mut counters = OpenFlow { flow, delivered: 0, retransmitted: 0, timeouts: 0 };
            if self.has(sender) {
                let end = self.send_end(flow);
                counters.retransmitted = end.retransmitted();
                counters.timeouts = end.timeouts();
            }
            if self.has(receiver) {
                let end = self.receive_end(flow);
                counters.delivered = K::delivered(self.shared(), end, flow, record.bytes);
                counters.timeouts += end.timeouts();
            }
            if counters.delivered > 0 || counters.retransmitted > 0 || counters.timeouts > 0 {
                open.push(counters);
            }
        }
        let flows: Vec<FlowId> = self.table.open_flows().map(|(flow, _)| flow).collect();
        self.ranks.as_deref_mut().map_or(Ok(()), |ranks| ranks.collect(totals, open, &flows))
    }

    /// The counters of all hosts that [`Hosts::collect_on_root`] has collected; `None` for a run in one process.
    pub(super) fn collected_totals(&self) -> Option<HostTotals> {
        self.ranks.as_ref().map(|ranks| ranks.totals)
    }
    /// The persistent connection of a flow, on several ranks; `None` if the flow has none.
    pub(super) fn connection_on_ranks(&self, flow: FlowId) -> Option<u32> {
        let connection = self.ranks.as_ref()?.flow(flow).connection;
        (connection != Loops::NONE).then_some(connection)
    }
}
