//! All hosts of a run, seen between windows: which flows there are, where their ends are, and what becomes of them.

use crate::flow_book::{FlowBook, Stop};
use crate::in_band::InBand;
use crate::nic::{Connection, Ends, Finished, Host, HostTotals, Hosting, NicPart, Phase, ReceiveEnd, SendEnd};
use crate::results::FlowLog;
use crate::run::RunHosts;
use crate::workload::{FlowSpec, Loops};
use rnic_fabric::{HostId, Location, PartitionPlan, PartitionedHosts};
use rnic_transport::congestion::CongestionControl;
use rnic_transport::recovery::Protocol;
use rnic_transport::{FlowConfig, Psn, Receiver, Sender, TcpConfig, Time};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How a flow's packets are told from those of the flows that had its slots before: by the hashes, or on one connection by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowPlace {
    /// Receiving host and the slot there: in its data packets.
    pub(crate) receiver: (u32, u32),
    /// Sending host and the slot there: in its control packets.
    pub(crate) sender: (u32, u32),
    /// Hash in its data packets.
    pub(crate) flow_hash: u32,
    /// Hash in its control packets.
    pub(crate) reply_hash: u32,
    /// Number of its first packet.
    pub(crate) first_psn: Psn,
}

/// Where the ends of a flow are.
#[derive(Clone, Copy, Default)]
pub(crate) struct FlowEnds {
    pub(crate) sender: Location,
    pub(crate) send_slot: u32,
    pub(crate) receiver: Location,
    pub(crate) receive_slot: u32,
}

/// A lasting connection.
#[derive(Clone, Copy)]
struct LastingConnection {
    /// Its latest flow.
    flow: u32,
    /// Its number among those of its sending host.
    index: u32,
}

/// All hosts of a run with their flows. A flow has a number while there is anything to know of it; then the number is another's.
pub(crate) struct Hosts<'a, P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T = ()> {
    parts: Vec<NicPart<P, C, T>>,
    partition: Arc<PartitionPlan>,
    book: FlowBook<'a, S>,
    /// By number.
    flows: Vec<FlowEnds>,
    /// Numbers that are free.
    free: Vec<u32>,
    /// Lasting connections.
    connections: Vec<LastingConnection>,
    /// Flows whose receiver has everything while their sender still has something to do.
    closing: Vec<u32>,
    /// Flows that have finished since the window began.
    finished: Vec<Finished>,
    /// One entry per record, if they are to be kept.
    places: Option<Vec<FlowPlace>>,
}

impl<'a, P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T: InBand> Hosts<'a, P, C, S, T> {
    /// Hosts that will start the flows of the book.
    pub(crate) fn new(
        cfg: FlowConfig, params: C::Params, hosting: Hosting, partition: Arc<PartitionPlan>, book: FlowBook<'a, S>,
    ) -> Self {
        let nics = |part| {
            let hosts = partition.hosts_of(part).len();
            NicPart::new(cfg.clone(), params.clone(), hosting, hosts)
        };
        Hosts {
            parts: (0..partition.partitions()).map(nics).collect(),
            partition,
            book,
            flows: Vec::new(),
            free: Vec::new(),
            connections: Vec::new(),
            closing: Vec::new(),
            finished: Vec::new(),
            places: None,
        }
    }

    /// Keeps the place of every flow that starts from now on.
    pub(crate) fn keep_places(&mut self) {
        self.places = Some(Vec::new());
    }
    /// The places kept, in order of start.
    pub(crate) fn take_places(&mut self) -> Vec<FlowPlace> {
        self.places.take().unwrap_or_default()
    }

    fn host(&mut self, place: Location) -> &mut Host<P, C, T> {
        &mut self.parts[place.partition as usize].hosts[place.slot.index()]
    }
    fn send_end(&self, flow: u32) -> &SendEnd<P, C> {
        let FlowEnds { sender, send_slot, .. } = self.flows[flow as usize];
        &self.parts[sender.partition as usize].hosts[sender.slot.index()].senders[send_slot]
    }
    fn send_end_mut(&mut self, flow: u32) -> &mut SendEnd<P, C> {
        let FlowEnds { sender, send_slot, .. } = self.flows[flow as usize];
        &mut self.host(sender).senders[send_slot]
    }
    fn receive_end(&self, flow: u32) -> &ReceiveEnd<P> {
        let FlowEnds { receiver, receive_slot, .. } = self.flows[flow as usize];
        &self.parts[receiver.partition as usize].hosts[receiver.slot.index()].receivers[receive_slot]
    }
    fn cfg(&self) -> &FlowConfig {
        &self.parts[0].cfg
    }

    /// Creates both ends of a flow on `connection`; returns its number.
    fn open(&mut self, spec: &FlowSpec, connection: u32) -> u32 {
        let own_hashes = self.book.hashes(spec);
        let before = self.connections.get(connection as usize).copied();
        let first_psn = before.map_or(self.cfg().first_psn, |before| self.next_psn(before));
        let (flow_hash, reply_hash) = before.map_or(own_hashes, |before| {
            let Ends { flow_hash, reply_hash, .. } = self.send_end(before.flow).ends;
            (flow_hash, reply_hash)
        });
        let (sender, receiver) = match before {
            Some(connection) => self.following_ends(spec, connection),
            None => {
                let NicPart { cfg, .. } = &self.parts[0];
                let sender = Sender::new(cfg, self.parts[0].params(), spec.bytes, spec.start);
                (sender, Receiver::new(cfg, spec.bytes, spec.start))
            }
        };
        let flow = self.number(before);
        let ends = Ends { flow, host: spec.dst, slot: 0, flow_hash, reply_hash };
        let send = SendEnd {
            sender,
            ends,
            armed: Time::MAX,
            queued: false,
            phase: if before.is_some() { Phase::Idle } else { Phase::Active },
            connection: Loops::NONE,
            retransmitted: 0,
            timeouts: 0,
        };
        let ends = Ends { host: spec.src, ..ends };
        let receive = ReceiveEnd { receiver, ends, armed: Time::MAX, done: false, timeouts: 0 };
        self.place(flow, spec, send, receive);
        if connection != Loops::NONE {
            self.connect(connection, flow, first_psn.plus(self.cfg().packets(spec.bytes) as u32));
        }
        if let Some(places) = &mut self.places {
            let FlowEnds { send_slot, receive_slot, .. } = self.flows[flow as usize];
            let (receiver, sender) = ((spec.dst, receive_slot), (spec.src, send_slot));
            places.push(FlowPlace { receiver, sender, flow_hash, reply_hash, first_psn });
        }
        self.book.start(spec, flow_hash, flow);
        flow
    }

    /// Number of the first packet of the next flow on a connection.
    fn next_psn(&self, connection: LastingConnection) -> Psn {
        let Location { partition: part, slot } = self.flows[connection.flow as usize].sender;
        self.parts[part as usize].hosts[slot.index()].connections[connection.index as usize].next
    }

    /// Both ends of a flow that follows another on its connection.
    fn following_ends(&self, spec: &FlowSpec, connection: LastingConnection) -> (Sender<P, C>, Receiver<P>) {
        let tcp = TcpConfig { handshake: false, ..self.cfg().tcp };
        let cfg = FlowConfig { first_psn: self.next_psn(connection), tcp, ..self.cfg().clone() };
        (
            self.send_end(connection.flow).sender.following(&cfg, spec.bytes, spec.start),
            self.receive_end(connection.flow).receiver.following(&cfg, spec.bytes, spec.start),
        )
    }

    /// A number for a flow: that of the latest one of its connection, unless that has still something to do; else a free one. What was
    /// known of the flow that had it is forgotten.
    fn number(&mut self, before: Option<LastingConnection>) -> u32 {
        let kept = before.map(|connection| connection.flow).filter(|flow| {
            let end = self.send_end_mut(*flow);
            let over = end.phase == Phase::Idle;
            if !over {
                end.phase = Phase::Followed;
            }
            over
        });
        let Some(flow) = kept.or_else(|| self.free.pop()) else {
            self.flows.push(FlowEnds::default());
            return self.flows.len() as u32 - 1;
        };
        let FlowEnds { sender, send_slot, receiver, receive_slot } = self.flows[flow as usize];
        let host = self.host(sender);
        host.senders[send_slot].ends.forget();
        host.senders.release(send_slot);
        let host = self.host(receiver);
        host.receivers[receive_slot].ends.forget();
        host.receivers.release(receive_slot);
        flow
    }

    /// Puts the ends of a flow where they belong, each with the slot of the other.
    fn place(&mut self, flow: u32, spec: &FlowSpec, send: SendEnd<P, C>, receive: ReceiveEnd<P>) {
        let (sender, receiver) = (self.partition.node(spec.src), self.partition.node(spec.dst));
        let send_slot = self.host(sender).senders.insert(send);
        let receive_slot = self.host(receiver).receivers.insert(receive);
        self.host(sender).senders[send_slot].ends.slot = receive_slot;
        self.host(receiver).receivers[receive_slot].ends.slot = send_slot;
        self.flows[flow as usize] = FlowEnds { sender, send_slot, receiver, receive_slot };
    }

    /// The flow is the latest of its connection, the next one begins with packet `next`.
    fn connect(&mut self, connection: u32, flow: u32, next: Psn) {
        let FlowEnds { sender, send_slot, .. } = self.flows[flow as usize];
        let known = self.connections.get_mut(connection as usize).map(|connection| {
            connection.flow = flow;
            connection.index
        });
        let host = self.host(sender);
        let latest = Connection { slot: send_slot, next };
        let index = match known {
            Some(index) => {
                host.connections[index as usize] = latest;
                index
            }
            None => {
                host.connections.push(latest);
                host.connections.len() as u32 - 1
            }
        };
        host.senders[send_slot].connection = index;
        if known.is_none() {
            self.connections.push(LastingConnection { flow, index });
        }
    }

    /// Takes over what the hosts have noticed since the window began: flows that have finished, by receiving host and time.
    fn take_finished(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        for part in &mut self.parts {
            finished.append(&mut part.finished);
        }
        finished.sort_by_key(|finished| self.book.record(finished.flow).dst); // stable: each host's in order of time
        for Finished { flow, at } in finished.drain(..) {
            let reply_hash = self.send_end(flow).ends.reply_hash;
            self.book.finish(flow, reply_hash, at);
            self.closing.push(flow);
        }
        self.finished = finished;
    }

    /// Retires flows whose both ends are done.
    fn retire(&mut self) {
        let learns = P::sender_learns_completion(self.cfg());
        let mut kept = 0;
        for i in 0..self.closing.len() {
            let flow = self.closing[i];
            let timeouts = self.receive_end(flow).timeouts;
            let end = self.send_end_mut(flow);
            // A source without acknowledgements ends with the sink, once it has sent what it is about to send.
            let idle = !end.queued && (!learns || end.sender.is_complete());
            if !idle {
                self.closing[kept] = flow;
                kept += 1;
                continue;
            }
            end.phase = Phase::Idle;
            let (retransmitted, timeouts) = (end.retransmitted, end.timeouts + timeouts);
            self.book.retire(flow, retransmitted, timeouts);
            if !self.is_latest_of_its_connection(flow) {
                self.free.push(flow);
            }
        }
        self.closing.truncate(kept);
    }

    /// Whether its number keeps the state of a connection.
    fn is_latest_of_its_connection(&self, flow: u32) -> bool {
        let FlowEnds { sender, send_slot, .. } = self.flows[flow as usize];
        let host = &self.parts[sender.partition as usize].hosts[sender.slot.index()];
        let connection = host.connections.get(host.senders[send_slot].connection as usize);
        connection.is_some_and(|connection| connection.slot == send_slot)
    }
}

impl<P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T: InBand> PartitionedHosts
    for Hosts<'_, P, C, S, T>
{
    type Partition = NicPart<P, C, T>;

    fn partitions(&mut self) -> &mut Vec<NicPart<P, C, T>> {
        &mut self.parts
    }

    fn next_start(&self) -> Time {
        self.book.next_start()
    }

    fn open_window(&mut self, end: Time, wake: &mut dyn FnMut(HostId, Time)) {
        while let Some((spec, origin)) = self.book.next_flow(end) {
            let flow = self.open(&spec, origin.connection);
            self.book.place(flow, origin);
            let FlowEnds { sender, send_slot, receiver, receive_slot } = self.flows[flow as usize];
            self.host(sender).starts.push_back((spec.start, send_slot, false));
            wake(HostId(spec.src), spec.start);
            if P::receiver_has_timer(self.cfg()) {
                self.host(receiver).starts.push_back((spec.start, receive_slot, true));
                wake(HostId(spec.dst), spec.start);
            }
        }
        self.book.window_is_open();
    }

    fn close_window(&mut self, end: Time, hops: u64) -> ControlFlow<()> {
        let progress = self.parts.iter().map(|part| part.last_progress).max();
        self.book.progress(progress.unwrap_or_default());
        if self.parts.iter().any(|part| !part.finished.is_empty()) {
            self.take_finished();
        }
        if !self.closing.is_empty() {
            self.retire();
        }
        self.book.close_window(end, hops, self.closing.is_empty())
    }
}

impl<P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T: InBand> RunHosts for Hosts<'_, P, C, S, T> {
    fn totals(&self) -> HostTotals {
        let mut totals = HostTotals::default();
        self.parts.iter().for_each(|part| totals.add(&part.totals));
        totals
    }
    fn stop(&self) -> Option<Stop> {
        self.book.stop()
    }
    fn unfinished(&self) -> u64 {
        self.book.active()
    }
    fn under_way(&self, now: Time) -> impl Iterator<Item = (u32, u32, u32, u32)> {
        let flows =
            self.book.open_flows().filter(move |(flow, record)| record.start < now && !self.receive_end(*flow).done);
        flows.map(|(flow, record)| (record.id, record.src, record.dst, self.send_end(flow).ends.flow_hash))
    }
    fn delivered(&self, now: Time) -> impl Iterator<Item = (u32, u64)> {
        let ends = self.book.open_flows().map(|(flow, record)| (self.receive_end(flow), record));
        let under_way = ends.filter(move |(end, record)| record.start < now && !end.done);
        under_way.map(|(end, record)| (record.id, end.receiver.delivered(self.cfg(), record.bytes)))
    }
    fn take_records(&mut self) -> FlowLog {
        let open: Vec<(u32, u64)> = self.book.open_flows().map(|(flow, record)| (flow, record.bytes)).collect();
        for (flow, bytes) in open {
            let (send, receive) = (self.send_end(flow), self.receive_end(flow));
            let (retransmitted, timeouts) = (send.retransmitted, send.timeouts + receive.timeouts);
            let delivered = receive.receiver.delivered(self.cfg(), bytes);
            self.book.cut(flow, delivered, retransmitted, timeouts);
        }
        self.book.take_log()
    }
}
