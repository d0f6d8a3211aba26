//! Hosts on several ranks (processes that simulate one fabric together).
//!
//! Every rank starts every flow and knows the record of every open flow, so that all ranks assign the same ids and
//! slots. An end of a flow exists only on the rank of its host. After each window of simulated time the ranks tell each
//! other what their NICs noted, and which senders are done; then every rank processes the notes of all hosts in the
//! same order. At the end of a run, rank 0 collects the counters of all hosts and the state of the flows that are still
//! open.

use super::config::HostTotals;
use super::ends::{EndLocation, FlowEnds, FlowHashes, ReceivingEnd, SendingEnd};
use super::hosts::{Hosts, NicKind};
use super::ids::{EndSlot, FlowId, Id};
use super::partition::Notice;
use rnic_fabric::{HostId, RankError, RankGroup};
use rnic_run::FlowSpec;
use rnic_transport::Time;
use rnic_transport::codec::{Reader, put_u32, put_u64};
use rnic_workload::Loops;

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
    /// Payload that had arrived when the ranks last told each other, and whether all of it had.
    delivered: u64,
    is_done: bool,
}

/// What the hosts of one rank know of the other ranks.
pub(crate) struct RankHosts {
    pub(super) group: RankGroup,
    /// Per host of the fabric: its slots, if the host is on another rank.
    senders: Vec<Slots>,
    receivers: Vec<Slots>,
    flows: Vec<RankFlow>,
    /// Notes of the NICs of all ranks since the current window began, each with its host.
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
    /// Retransmissions and timeouts of a flow whose ends are done.
    pub(super) fn losses(&self, flow: FlowId) -> (u32, u32) {
        let flow = self.flow(flow);
        (flow.retransmitted, flow.sender_timeouts + flow.receiver_timeouts)
    }
}

/// Reads a list of numbers: its length, then entries that `read` reads.
fn list(message: &mut Reader<'_>, mut read: impl FnMut(&mut Reader<'_>) -> Option<()>) -> Option<()> {
    (0..message.u32()?).try_for_each(|_| read(message))
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

    /// Notes the hashes and the connection of a starting flow for all ranks.
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

    /// What this rank tells the others after a window: progress, whether it wants the run to end, the notes of its
    /// NICs, and the flows whose senders are done.
    pub(super) fn tell_ranks(&mut self, out: &mut Vec<u8>) {
        let progress = self.partitions.iter().map(|partition| partition.last_progress).max();
        put_u64(out, progress.unwrap_or_default().as_ps());
        out.push(u8::from(self.table.asks_to_stop()));
        let mut notices = Vec::new();
        self.partitions.iter_mut().for_each(|partition| notices.append(&mut partition.notices));
        put_u32(out, notices.len() as u32);
        for (host, notice) in notices {
            let (kind, flow, at) = match notice {
                Notice::Finished { flow, at } => (0, flow, at),
                Notice::Sent { flow } => (1, flow, Time::ZERO),
                Notice::Aborted { flow } => (2, flow, Time::ZERO),
            };
            let (retransmitted, timeouts) = match notice {
                Notice::Finished { .. } => (0, self.receive_end(flow).timeouts()),
                _ => (self.send_end(flow).retransmitted(), self.send_end(flow).timeouts()),
            };
            put_u32(out, host.0);
            out.push(kind);
            put_u32(out, flow.0);
            put_u64(out, at.as_ps());
            put_u32(out, retransmitted);
            put_u32(out, timeouts);
        }
        let done = K::senders_done(self, 0);
        self.write_done(&done, out);
    }

    /// Writes the flows `done`, whose senders are done and on this rank, with the counters of these senders.
    pub(super) fn write_done(&self, done: &[FlowId], out: &mut Vec<u8>) {
        put_u32(out, done.len() as u32);
        for flow in done {
            let end = self.send_end(*flow);
            [flow.0, end.retransmitted(), end.timeouts()].iter().for_each(|number| put_u32(out, *number));
        }
    }

    /// Takes what [`Hosts::tell_ranks`] of another rank, or of this one, has written; `None` if it is damaged.
    pub(super) fn hear_rank(&mut self, message: &[u8]) -> Option<()> {
        let message = &mut Reader::new(message);
        let ranks = self.ranks.as_deref_mut()?;
        ranks.progress = ranks.progress.max(Time::from_ps(message.u64()?));
        if message.u8()? != 0 {
            self.table.must_stop();
        }
        list(message, |message| {
            let (host, kind, flow) = (HostId(message.u32()?), message.u8()?, FlowId(message.u32()?));
            let (at, retransmitted, timeouts) = (Time::from_ps(message.u64()?), message.u32()?, message.u32()?);
            let known = ranks.flows.get_mut(flow.index())?;
            if kind == 0 {
                known.receiver_timeouts = timeouts;
            } else {
                (known.retransmitted, known.sender_timeouts) = (retransmitted, timeouts);
            }
            ranks.notices.push((
                host,
                match kind {
                    0 => Notice::Finished { flow, at },
                    1 => Notice::Sent { flow },
                    2 => Notice::Aborted { flow },
                    _ => return None,
                },
            ));
            Some(())
        })?;
        self.read_done(message)?;
        message.is_empty().then_some(())
    }

    /// Reads what [`Hosts::write_done`] has written.
    pub(super) fn read_done(&mut self, message: &mut Reader<'_>) -> Option<()> {
        let ranks = self.ranks.as_deref_mut()?;
        list(message, |message| {
            let (flow, retransmitted, timeouts) = (FlowId(message.u32()?), message.u32()?, message.u32()?);
            let known = ranks.flows.get_mut(flow.index())?;
            (known.ended, known.retransmitted, known.sender_timeouts) = (true, retransmitted, timeouts);
            Some(())
        })
    }

    /// Tells all ranks how many bytes of each open flow have arrived, for samples. `None`: a rank cannot be reached.
    pub(super) fn share_delivered(&mut self) -> Option<()> {
        let group = self.ranks.as_ref()?.group.clone();
        let mut own = Vec::new();
        for (flow, record) in self.table.open_flows() {
            let receiver = self.flows[flow].receiver;
            if self.has(receiver) {
                let end = self.receive_end(flow);
                put_u32(&mut own, flow.0);
                own.push(u8::from(end.is_done()));
                put_u64(&mut own, K::delivered(self.shared(), end, record.bytes));
            }
        }
        let mut all = Vec::new();
        group.gather(&own, &mut all).ok()?;
        let ranks = self.ranks.as_deref_mut()?;
        let mut read = |message: &mut Reader<'_>| {
            let flow = message.u32()?;
            let known = ranks.flows.get_mut(flow as usize)?;
            (known.is_done, known.delivered) = (message.u8()? != 0, message.u64()?);
            Some(())
        };
        for message in &all {
            let mut message = Reader::new(message);
            while !message.is_empty() {
                read(&mut message).ok_or_else(|| group.fail("delivered bytes")).ok()?;
            }
        }
        Some(())
    }

    /// Whether all bytes of a flow have arrived, as the last [`Hosts::share_delivered`] says on several ranks.
    pub(super) fn is_done(&self, flow: FlowId) -> bool {
        self.ranks.as_ref().map_or_else(|| self.receive_end(flow).is_done(), |ranks| ranks.flow(flow).is_done)
    }
    /// Payload bytes of a flow that have arrived, as [`Hosts::is_done`].
    pub(super) fn delivered_of(&self, flow: FlowId, bytes: u64) -> u64 {
        match &self.ranks {
            Some(ranks) => ranks.flow(flow).delivered,
            None => K::delivered(self.shared(), self.receive_end(flow), bytes),
        }
    }

    /// Collects the counters of all hosts, and the state of open flows, on rank 0.
    pub(super) fn collect_on_root(&mut self) -> Result<(), RankError> {
        let Some(group) = self.ranks.as_ref().map(|ranks| ranks.group.clone()) else { return Ok(()) };
        let mut own = Vec::new();
        let mut totals = HostTotals::default();
        self.partitions.iter().for_each(|partition| totals.add(partition.totals));
        totals.write(&mut own);
        for (flow, record) in self.table.open_flows() {
            let FlowEnds { sender, receiver } = self.flows[flow];
            let (mut delivered, mut retransmitted, mut timeouts) = (0, 0, 0);
            if self.has(sender) {
                let end = self.send_end(flow);
                (retransmitted, timeouts) = (end.retransmitted(), end.timeouts());
            }
            if self.has(receiver) {
                let end = self.receive_end(flow);
                delivered = K::delivered(self.shared(), end, record.bytes);
                timeouts += end.timeouts();
            }
            if delivered > 0 || retransmitted > 0 || timeouts > 0 {
                put_u32(&mut own, flow.0);
                put_u64(&mut own, delivered);
                put_u32(&mut own, retransmitted);
                put_u32(&mut own, timeouts);
            }
        }
        let messages = group.collect(own)?;
        let Some(ranks) = self.ranks.as_deref_mut().filter(|_| group.is_root()) else { return Ok(()) };
        let open: Vec<FlowId> = self.table.open_flows().map(|(flow, _)| flow).collect();
        for flow in &open {
            let known = ranks.flow_mut(*flow);
            (known.delivered, known.retransmitted) = (0, 0);
            (known.sender_timeouts, known.receiver_timeouts) = (0, 0);
        }
        let mut read = |message: &mut Reader<'_>| {
            ranks.totals.add(HostTotals::read(message)?);
            while !message.is_empty() {
                let flow = message.u32()?;
                let known = ranks.flows.get_mut(flow as usize)?;
                known.delivered += message.u64()?;
                known.retransmitted += message.u32()?;
                known.sender_timeouts += message.u32()?;
            }
            Some(())
        };
        for message in &messages {
            read(&mut Reader::new(message)).ok_or_else(|| group.fail("counters of hosts"))?;
        }
        Ok(())
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
