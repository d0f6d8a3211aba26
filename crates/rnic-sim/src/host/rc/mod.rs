//! Simulated hosts with RC-like transports, which send reliable flows (go-back-N, IRN, TCP). Each flow is a `Sender`
//! and a `Receiver` of the crate `rnic-transport`.
//!
//! The messages of a program use streams ([`stream`]): queue pairs that carry several flows under one window.
//!
//! Two kinds of flows keep their ids, and their slots on the hosts, after all bytes have arrived. A closing flow waits
//! until its sender knows that all bytes have arrived. The latest flow of a persistent connection stays because the
//! next flow of the connection takes over its congestion control, pacing state and next PSN.

pub(crate) mod ends;
mod nic;
mod pipeline;
mod processing;
pub(crate) mod segment;
mod stack;
mod stream;

use super::config::HostConfig;
use super::ends::{EndAddress, EndLocation, FlowAddress, FlowEnds, FlowHashes};
use super::flow_table::FlowTable;
use super::hosts::{Hosts, NicKind, Skipped};
use super::ids::{EndSlot, FlowId};
use super::partition::{Host, Notice};
use crate::in_band::InBand;
use ends::{Connection, Peer, Phase, ReceiveEnd, SendEnd};
use nic::{RcNic, RcShared};
use rnic_fabric::{HostId, PartitionPlan};
use rnic_spec::FlowSpec;
use rnic_transport::congestion::CongestionControl;
use rnic_transport::credit::Pacer;
use rnic_transport::recovery::{Protocol, ReceiveRecovery, SendRecovery};
use rnic_transport::{FlowConfig, Psn, Receiver, Sender, TcpConfig, Time};
use rnic_workload::{Loops, Origin};
use std::marker::PhantomData;
use std::sync::Arc;
use stream::{ReceiveStream, SendStream};

/// A persistent connection (several flows, one after the other), as [`Hosts`] knows it.
#[derive(Clone, Copy)]
struct PersistentConnection {
    /// Latest flow of the connection.
    flow: FlowId,
    /// Index of the connection in the list of its sending host.
    index: u32,
}

/// A marker for the type parameters of an RC-like NIC (protocol, congestion control, telemetry); it stores no value.
type TypesOfNic<P, C, T> = PhantomData<fn() -> (P, C, T)>;

/// The kind of NIC that sends reliable flows (RC-like), with the state of the run's flows that only this kind needs.
pub(crate) struct RcNics<P: Protocol, C: CongestionControl, T> {
    connections: Vec<PersistentConnection>,
    /// Flows whose receiver has all bytes, but whose sender does not know it yet or still has queued packets.
    closing: Vec<FlowId>,
    /// Packet addresses of every started flow, in order of start; `None` unless a capture needs them.
    addresses: Option<Vec<FlowAddress>>,
    /// For each stream of a program: the id of the stream.
    streams: Vec<Option<FlowId>>,
    /// Ids of messages of streams that have retired, for further messages.
    free_messages: Vec<FlowId>,
    /// On several ranks, for each persistent connection: PSN of the first packet of its next flow.
    psns: Vec<Psn>,
    /// On several ranks: number of flows at the front of `closing` that all ranks know, those of earlier windows.
    shared_closing: usize,
    nics: TypesOfNic<P, C, T>,
}

/// All hosts of a run with an RC-like transport.
pub(crate) type RcHosts<'a, P, C, S, T> = Hosts<'a, RcNics<P, C, T>, S>;

impl<'a, P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T: InBand> RcHosts<'a, P, C, S, T> {
    /// Hosts with the flow settings `cfg` and `params`, which will start the flows of `table`.
    pub(crate) fn new(
        cfg: FlowConfig, params: C::Params, config: HostConfig, plan: Arc<PartitionPlan>, table: FlowTable<'a, S>,
    ) -> Self {
        let kind = RcNics {
            connections: Vec::new(),
            closing: Vec::new(),
            addresses: None,
            streams: Vec::new(),
            free_messages: Vec::new(),
            psns: Vec::new(),
            shared_closing: 0,
            nics: PhantomData,
        };
        let packet = cfg.line_rate.time_for(u64::from(cfg.mtu + cfg.header + config.frame_gap));
        let credit = C::credit(&params).map(|credit| Pacer::new(&credit, packet));
        let shared = || RcShared { cfg: cfg.clone(), params: params.clone(), host: config };
        Hosts::with(kind, plan, table, shared, |host| {
            RcNic::new(&config, credit.clone().map(|credit| credit.seeded(host.0.into())))
        })
    }

    /// Makes the hosts store, for a capture, the packet addresses of every flow that starts from now on.
    pub(crate) fn keep_addresses(&mut self) {
        self.kind.addresses = Some(Vec::new());
    }
    /// Takes the stored packet addresses of flows, in order of start.
    pub(crate) fn take_addresses(&mut self) -> Vec<FlowAddress> {
        self.kind.addresses.take().unwrap_or_default()
    }

    fn cfg(&self) -> &FlowConfig {
        &self.shared().cfg
    }

    /// PSN of the first packet of the next flow on a persistent connection.
    fn next_psn(&self, number: u32, connection: PersistentConnection) -> Psn {
        if self.ranks.is_some() {
            return self.kind.psns[number as usize];
        }
        let sender = self.flows[connection.flow].sender;
        self.host(sender.host).nic.connections[connection.index as usize].next
    }

    /// Creates the sender and the receiver of `spec`, those that are on this rank. In the next flow of the persistent
    /// connection `before`, they continue with the next PSN of the connection, `first_psn`, and with state of the
    /// connection's latest flow, such as its congestion control and pacing.
    fn new_ends(
        &self, spec: &FlowSpec, before: Option<PersistentConnection>, first_psn: Psn,
    ) -> (Option<Sender<P, C>>, Option<Receiver<P>>) {
        let (sends, receives) = (self.is_here(HostId(spec.src)), self.is_here(HostId(spec.dst)));
        let Some(PersistentConnection { flow, .. }) = before else {
            let RcShared { cfg, params, .. } = self.shared();
            return (
                sends.then(|| Sender::new(cfg, params, spec.bytes, spec.start)),
                receives.then(|| Receiver::new(cfg, spec.bytes, spec.start)),
            );
        };
        let tcp = TcpConfig { handshake: false, ..self.cfg().tcp };
        let cfg = FlowConfig { first_psn, tcp, ..self.cfg().clone() };
        (
            sends.then(|| self.send_end(flow).sender.following(&cfg, spec.bytes, spec.start)),
            receives.then(|| self.receive_end(flow).receiver.following(&cfg, spec.bytes, spec.start)),
        )
    }

    /// An id for a new flow. If the latest flow of its persistent connection `before` has retired, the new flow takes
    /// the id of that flow, whose slots are released. Otherwise the new flow gets a free id.
    fn claim_id(&mut self, before: Option<PersistentConnection>) -> FlowId {
        let kept = before.map(|connection| connection.flow).filter(|flow| {
            if let Some(ranks) = &self.ranks
                && (ranks.flow(*flow).retired || !self.plan.is_here(self.flows[*flow].sender.host.partition))
            {
                return ranks.flow(*flow).retired;
            }
            let end = self.send_end_mut(*flow);
            let retired = end.phase == Phase::Idle;
            if !retired {
                end.phase = Phase::Followed;
            }
            retired
        });
        let Some(flow) = kept.or_else(|| self.flows.reuse()) else {
            return self.flows.insert(FlowEnds::default());
        };
        self.release_ends(flow);
        flow
    }

    /// Makes `flow` the latest flow of the persistent connection `connection`. The following flow of this connection
    /// will begin with the PSN `next`.
    fn connect(&mut self, connection: u32, flow: FlowId, next: Psn) {
        let sender = self.flows[flow].sender;
        if self.ranks.is_some() {
            match self.kind.psns.get_mut(connection as usize) {
                Some(psn) => *psn = next,
                None => self.kind.psns.push(next),
            }
            if !self.plan.is_here(sender.host.partition) {
                match self.kind.connections.get_mut(connection as usize) {
                    Some(connection) => connection.flow = flow,
                    None => self.kind.connections.push(PersistentConnection { flow, index: Loops::NONE }),
                }
                return;
            }
        }
        let known = self.kind.connections.get_mut(connection as usize).map(|connection| {
            connection.flow = flow;
            connection.index
        });
        let host = self.host_mut(sender.host);
        let latest = Connection { slot: sender.slot, next };
        let index = match known {
            Some(index) => {
                host.nic.connections[index as usize] = latest;
                index
            }
            None => {
                host.nic.connections.push(latest);
                host.nic.connections.len() as u32 - 1
            }
        };
        host.senders[sender.slot].connection = index;
        if known.is_none() {
            self.kind.connections.push(PersistentConnection { flow, index });
        }
    }

    /// Retires a finished flow if its sender is done with it; returns whether the flow has retired.
    fn close(&mut self, flow: FlowId, learns_completion: bool) -> bool {
        let is_here = self.plan.is_here(self.flows[flow].sender.host.partition);
        let done = match &mut self.ranks {
            None => self.is_sender_done(flow, learns_completion),
            Some(ranks) => {
                let flow = ranks.flow_mut(flow);
                flow.retired = flow.ended;
                flow.ended
            }
        };
        if done {
            if self.send_stream(flow).is_some() {
                self.retire_message(flow);
                return true;
            }
            if is_here {
                self.send_end_mut(flow).phase = Phase::Idle;
            }
            self.retire_record(flow);
            if !self.is_latest_of_its_connection(flow) {
                self.flows.release(flow);
            }
        }
        done
    }

    /// Whether the sender of a finished flow, which is on this rank, is done with the flow.
    fn is_sender_done(&self, flow: FlowId, learns_completion: bool) -> bool {
        let end = self.send_end(flow);
        if let Some(stream) = &end.stream {
            return stream.is_acknowledged(end.sender.recovery(), flow);
        }
        // Without ACKs the sender does not learn that the flow is complete. Then it is done when its queued packets
        // have left.
        !end.queued && (!learns_completion || end.sender.is_complete())
    }

    /// The messages of the stream to which a flow belongs, at its sender; `None` for a flow with ends of its own. Runs
    /// on several ranks have no streams.
    fn send_stream(&mut self, flow: FlowId) -> Option<&mut SendStream> {
        if self.ranks.is_some() {
            return None;
        }
        self.send_end_mut(flow).stream.as_deref_mut()
    }

    /// Retires a message of a stream.
    #[cold]
    fn retire_message(&mut self, flow: FlowId) {
        self.retire_record(flow);
        let end = self.send_end_mut(flow);
        // What the record has is not counted for the next message.
        (end.retransmitted, end.timeouts) = (0, 0);
        if end.stream.as_deref_mut().is_some_and(|stream| stream.retire(flow)) {
            end.phase = Phase::Idle;
        }
        self.kind.free_messages.push(flow);
    }

    /// Opens the flow `spec` as a message of the stream `number`, which is created for its first message; returns the
    /// id of the flow.
    #[cold]
    fn open_message(&mut self, spec: &FlowSpec, hashes: FlowHashes, number: u32) -> FlowId {
        let number = number as usize;
        if self.kind.streams.len() <= number {
            self.kind.streams.resize(number + 1, None);
        }
        let stream = match self.kind.streams[number] {
            Some(stream) => stream,
            None => {
                let stream = self.open_stream(spec, hashes);
                self.kind.streams[number] = Some(stream);
                stream
            }
        };
        let ends = self.flows[stream];
        let flow = match self.kind.free_messages.pop() {
            Some(flow) => flow,
            None => self.claim_id(None),
        };
        self.flows[flow] = ends;
        let cfg = self.cfg().clone();
        let before = match &mut self.send_end_mut(stream).stream {
            Some(messages) => messages.post(&cfg, flow, spec.bytes),
            None => 0,
        };
        let EndLocation { host, slot } = ends.receiver;
        let end = &mut self.host_mut(host).receivers[slot];
        if let Some(messages) = &mut end.stream {
            messages.post(end.receiver.recovery_mut(), flow, cfg.packets(spec.bytes));
        }
        let first_psn = cfg.first_psn.plus(before as u32);
        self.keep_address(spec, &ends, self.hashes(stream), first_psn);
        flow
    }

    /// Creates both ends of a stream between the hosts of `spec`; returns its id.
    fn open_stream(&mut self, spec: &FlowSpec, hashes: FlowHashes) -> FlowId {
        let RcShared { cfg, params, .. } = self.shared();
        let (mut sender, receiver) = (Sender::idle(cfg, params, spec.start), Receiver::idle(cfg, spec.start));
        if P::SPRAYS {
            sender.seed_paths(cfg, hashes.seed());
        }
        let flow = self.claim_id(None);
        let ends = self.next_ends(spec);
        let send = SendEnd {
            sender,
            peer: Peer { flow, host: HostId(spec.dst), slot: ends.receiver.slot, hashes },
            armed: Time::MAX,
            queued: false,
            phase: Phase::Idle,
            connection: Loops::NONE,
            stream: Some(Box::new(SendStream::default())),
            retransmitted: 0,
            timeouts: 0,
        };
        let receive = ReceiveEnd {
            receiver,
            peer: Peer { flow, host: HostId(spec.src), slot: ends.sender.slot, hashes },
            armed: Time::MAX,
            done: false,
            stream: Some(Box::new(ReceiveStream::default())),
            timeouts: 0,
        };
        self.insert_here(flow, spec, ends, Some(send), Some(receive));
        self.forget_credit(ends.receiver);
        flow
    }

    /// Begins to count the credit of a new flow, whose receiving end is here.
    fn forget_credit(&mut self, EndLocation { host, slot }: EndLocation) {
        if C::CREDIT && self.plan.is_here(host.partition) {
            self.host_mut(host).nic.forget_credit(slot);
        }
    }

    /// Stores the packet addresses of a flow, if a capture needs them.
    fn keep_address(&mut self, spec: &FlowSpec, ends: &FlowEnds, hashes: FlowHashes, first_psn: Psn) {
        if let Some(addresses) = &mut self.kind.addresses {
            let receiver = EndAddress { host: HostId(spec.dst), slot: ends.receiver.slot };
            let sender = EndAddress { host: HostId(spec.src), slot: ends.sender.slot };
            addresses.push(FlowAddress { receiver, sender, hashes, first_psn });
        }
    }

    /// On several ranks: exchanges which senders are done with flows that have finished in this window. A sender that
    /// learns of the completion does so in a later window.
    fn share_new_senders(&mut self) {
        let shared = self.kind.shared_closing;
        if self.ranks.is_none() || P::sender_learns_completion(self.cfg()) || self.kind.closing.len() == shared {
            return;
        }
        let done = Self::done(self, shared);
        if let Err(error) = self.share_senders_done(&done) {
            self.lose_ranks(error);
        }
    }

    /// Of the finished flows, without the first `known`: those whose senders are on this rank and done.
    fn done(hosts: &Self, known: usize) -> Vec<FlowId> {
        let learns_completion = P::sender_learns_completion(hosts.cfg());
        let closing = hosts.kind.closing[known..].iter().copied();
        let own = closing.filter(|flow| hosts.plan.is_here(hosts.flows[*flow].sender.host.partition));
        own.filter(|flow| hosts.is_sender_done(*flow, learns_completion)).collect()
    }

    /// Whether the flow is the latest of a persistent connection, so that its slot holds the state of the connection.
    fn is_latest_of_its_connection(&self, flow: FlowId) -> bool {
        if self.ranks.is_some() {
            let connection = self.connection_on_ranks(flow);
            return connection.is_some_and(|number| self.kind.connections[number as usize].flow == flow);
        }
        let sender = self.flows[flow].sender;
        let host = self.host(sender.host);
        let connection = host.nic.connections.get(host.senders[sender.slot].connection as usize);
        connection.is_some_and(|connection| connection.slot == sender.slot)
    }
}

impl<P: Protocol, C: CongestionControl, T: InBand> NicKind for RcNics<P, C, T> {
    type SendEnd = SendEnd<P, C>;
    type ReceiveEnd = ReceiveEnd<P>;
    type Nic = RcNic<T>;
    type Shared = RcShared<C>;

    fn open<S: Iterator<Item = FlowSpec>>(
        hosts: &mut RcHosts<'_, P, C, S, T>, spec: &FlowSpec, hashes: FlowHashes, origin: Origin,
    ) -> FlowId {
        // A receiver without ACKs would have a timer for messages that its peer has not begun to send.
        if origin.stream && P::sender_learns_completion(hosts.cfg()) {
            return hosts.open_message(spec, hashes, origin.connection);
        }
        let connection = if origin.stream { Loops::NONE } else { origin.connection };
        let before = hosts.kind.connections.get(connection as usize).copied();
        let first_psn = before.map_or(hosts.cfg().first_psn, |before| hosts.next_psn(connection, before));
        let hashes = before.map_or(hashes, |before| hosts.hashes(before.flow));
        let (sender, receiver) = hosts.new_ends(spec, before, first_psn);
        let flow = hosts.claim_id(before);
        hosts.note(flow, spec, hashes, connection);
        let ends = hosts.next_ends(spec);
        let sender = sender.map(|mut sender| {
            if P::SPRAYS && before.is_none() {
                sender.seed_paths(hosts.cfg(), hashes.seed());
            }
            sender
        });
        let send = sender.map(|sender| SendEnd {
            sender,
            peer: Peer { flow, host: HostId(spec.dst), slot: ends.receiver.slot, hashes },
            armed: Time::MAX,
            queued: false,
            phase: if before.is_some() { Phase::Idle } else { Phase::Active },
            connection: Loops::NONE,
            stream: None,
            retransmitted: 0,
            timeouts: 0,
        });
        let peer = Peer { flow, host: HostId(spec.src), slot: ends.sender.slot, hashes };
        let new = |receiver| ReceiveEnd { receiver, peer, armed: Time::MAX, done: false, stream: None, timeouts: 0 };
        hosts.insert_here(flow, spec, ends, send, receiver.map(new));
        hosts.forget_credit(ends.receiver);
        if connection != Loops::NONE {
            let packets = hosts.cfg().packets(spec.bytes) as u32;
            hosts.connect(connection, flow, first_psn.plus(packets));
        }
        hosts.keep_address(spec, &ends, hashes, first_psn);
        flow
    }

    fn wakes_receivers(shared: &RcShared<C>) -> bool {
        P::receiver_has_timer(&shared.cfg)
    }

    fn process<S: Iterator<Item = FlowSpec>>(hosts: &mut RcHosts<'_, P, C, S, T>, notice: Notice) {
        // The NICs of RC-like transports leave no other notes.
        if let Notice::Finished { flow, at } = notice {
            let control_hash = hosts.hashes(flow).control;
            hosts.table.finish(flow, control_hash, hosts.simulated(at));
            hosts.kind.closing.push(flow);
        }
    }

    fn retire<S: Iterator<Item = FlowSpec>>(hosts: &mut RcHosts<'_, P, C, S, T>) {
        if hosts.kind.closing.is_empty() {
            return;
        }
        let learns_completion = P::sender_learns_completion(hosts.cfg());
        if hosts.ranks.is_some() {
            hosts.share_new_senders();
        }
        let mut closing = std::mem::take(&mut hosts.kind.closing);
        closing.retain(|flow| !hosts.close(*flow, learns_completion));
        hosts.kind.shared_closing = closing.len();
        hosts.kind.closing = closing;
    }

    fn senders_done<S: Iterator<Item = FlowSpec>>(hosts: &RcHosts<'_, P, C, S, T>, known: usize) -> Vec<FlowId> {
        RcHosts::done(hosts, known)
    }

    fn is_idle(&self) -> bool {
        self.closing.is_empty()
    }
    fn is_aborted(&self, _flow: FlowId) -> bool {
        false
    }
    fn aborted(&self) -> u64 {
        0
    }
    fn delivered(shared: &RcShared<C>, end: &ReceiveEnd<P>, flow: FlowId, bytes: u64) -> u64 {
        match &end.stream {
            Some(stream) => stream.delivered(end.receiver.recovery(), &shared.cfg, flow, bytes),
            None => end.receiver.delivered(&shared.cfg, bytes),
        }
    }
    fn remaining(send: &SendEnd<P, C>, receive: &ReceiveEnd<P>) -> Option<(u64, u64)> {
        let is_alone = send.stream.is_none() && !receive.done;
        is_alone.then(|| (receive.receiver.recovery().left_of_message(), send.sender.recovery().unsent()))
    }
    fn shorten(host: &mut Host<Self>, slot: EndSlot, skipped: &Skipped) {
        let send = &mut host.senders[slot];
        send.sender.shorten(skipped.packets);
        send.retransmitted = send.retransmitted.saturating_add(skipped.losses.0);
        send.timeouts = send.timeouts.saturating_add(skipped.losses.1);
        if let Some(connection) = host.nic.connections.get_mut(send.connection as usize) {
            let forward = u64::from(Psn::MODULUS) - skipped.packets % u64::from(Psn::MODULUS);
            connection.next = connection.next.plus(forward as u32);
        }
    }
    fn shorten_receiver(receive: &mut ReceiveEnd<P>, skipped: &Skipped) {
        receive.receiver.shorten(skipped.packets);
    }
}
