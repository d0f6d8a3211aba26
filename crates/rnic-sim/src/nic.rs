//! The simulated host NICs: they put the transport's flows on the fabric.
//!
//! A NIC sends control packets (ACK, NACK) before data, and takes data packets from its ready flows in turn, `burst` each. A
//! flow that its recovery, window or pacing holds back is not in the ring of ready flows. One retransmission timer entry per flow
//! end is pending at most; re-arming it later costs nothing until it fires.

use crate::flow_book::{FlowBook, Stop};
use crate::in_band::InBand;
use crate::results::FlowLog;
use crate::run::RunHosts;
use crate::workload::{FlowSpec, Loops};
use rnic_fabric::{Body, Endpoint, MIN_FRAME, Packet};
use rnic_transport::congestion::CongestionControl;
use rnic_transport::recovery::Protocol;
use rnic_transport::telemetry::HopRecord;
use rnic_transport::{FlowConfig, Pdu, PduKind, Psn, Receiver, RxMeta, Sender, TcpConfig, Time, Timer};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::ControlFlow;

/// Priority of data packets.
pub(crate) const DATA_PRIORITY: u8 = 0;

/// What a packet carries: which flow, the transport's part, and what switches wrote on its way (an ACK: on that of its data packet).
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment<T = ()> {
    slot: u32,
    pdu: Pdu,
    in_band: T,
}

impl<T: InBand> Body for Segment<T> {
    const TELEMETRY: bool = T::TELEMETRY;
    #[inline]
    fn stamp(&mut self, hop: HopRecord) {
        self.in_band.push(hop);
    }
}

impl<T> Segment<T> {
    /// The flow's slot.
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }
    /// The transport's part.
    pub(crate) fn pdu(&self) -> Pdu {
        self.pdu
    }
}

/// How a flow's packets are told from those of the flows that had its slot before: by the hashes, or on one connection by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowPlace {
    pub(crate) slot: u32,
    /// Hash in its data packets.
    pub(crate) flow_hash: u32,
    /// Hash in its control packets.
    pub(crate) reply_hash: u32,
    /// Number of its first packet.
    pub(crate) first_psn: Psn,
}

/// Settings of the NICs of a run, beside the transport's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hosting {
    /// Bytes on the cable around each frame.
    pub frame_gap: u32,
    /// Frame length of an ACK.
    pub ack_bytes: u32,
    /// Frame length of a NACK.
    pub nack_bytes: u32,
    /// Frame length of a congestion notification packet.
    pub cnp_bytes: u32,
    /// Packets sent of one flow before the next ready one has its turn, at least 1.
    pub burst: u32,
    /// Priority of ACKs, NACKs and CNPs.
    pub control_priority: u8,
    /// Give up when the simulated time reaches this.
    pub max_time: Time,
    /// Give up when no flow has progressed for this long.
    pub stall_time: Time,
    /// The run ends here, whatever is unfinished.
    pub duration: Option<Time>,
    /// Seed of the flow hashes.
    pub seed: u64,
}

/// What a sending end is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It sends.
    Active,
    /// Another flow of its connection has followed it before it knew that everything has arrived.
    Followed,
    /// It is over; or it is about to start, on a connection that has the state of an earlier flow.
    Idle,
}

/// A connection that lasts from flow to flow.
#[derive(Clone, Copy, Debug)]
struct Connection {
    /// Slot of its latest flow, which no other flow takes. There is the state of the connection.
    slot: u32,
    /// Number of the next flow's first packet: what is under way of a flow is stale to the next.
    next: Psn,
}

/// The sending end of a flow.
struct SendEnd<P: Protocol, C: CongestionControl> {
    sender: Sender<P, C>,
    dst: u32,
    flow_hash: u32,
    /// Pending timer entry, [`Time::MAX`] for none.
    armed: Time,
    /// In the host's ring of ready flows, or waiting for its pacing time.
    queued: bool,
    phase: Phase,
    /// Lasting connection, or [`Loops::NONE`].
    connection: u32,
    record: u32,
    retransmitted: u32,
    timeouts: u32,
}

/// The receiving end of a flow.
struct ReceiveEnd<P: Protocol> {
    receiver: Receiver<P>,
    src: u32,
    reply_hash: u32,
    armed: Time,
    done: bool,
}

/// One host.
#[derive(Default)]
struct Host<T> {
    control: VecDeque<Packet<Segment<T>>>,
    ready: VecDeque<u32>,
    /// The flow whose turn it is, and the packets it may still send in this turn.
    turn: (u32, u32),
    /// Flows that may send from a time on.
    paced: BinaryHeap<Reverse<(Time, u32)>>,
    /// (time, slot, whether it is the receiving end's).
    timers: BinaryHeap<Reverse<(Time, u32, bool)>>,
    /// Flows that start in the current window, and whether this is their receiving host.
    starts: VecDeque<(Time, u32, bool)>,
}

/// Counts over all hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostTotals {
    /// Data packets sent.
    pub data: u64,
    /// Control packets sent.
    pub control: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Packets received.
    pub delivered: u64,
    /// Marked packets received.
    pub marked: u64,
    /// Congestion notifications sent.
    pub notifications: u64,
    /// Timeouts that fired.
    pub timeouts: u64,
    /// Messages that their senders gave up.
    pub given_up: u64,
}

/// All hosts of a run with their flows.
pub struct Hosts<'a, P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T = ()> {
    cfg: FlowConfig,
    params: C::Params,
    hosting: Hosting,
    book: FlowBook<'a, S>,
    hosts: Vec<Host<T>>,
    senders: Vec<SendEnd<P, C>>,
    receivers: Vec<ReceiveEnd<P>>,
    free: Vec<u32>,
    /// Lasting connections.
    connections: Vec<Connection>,
    /// Flows whose receiver has everything while their sender still has something to do.
    closing: Vec<u32>,
    /// How many of them were there when the last window ended.
    waiting: usize,
    /// One entry per record, if they are to be kept.
    places: Option<Vec<FlowPlace>>,
    totals: HostTotals,
}

impl<'a, P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T: InBand> Hosts<'a, P, C, S, T> {
    /// Hosts that will start the flows of the book.
    pub(crate) fn new(cfg: FlowConfig, params: C::Params, hosting: Hosting, hosts: u32, book: FlowBook<'a, S>) -> Self {
        Hosts {
            cfg,
            params,
            hosting,
            book,
            hosts: std::iter::repeat_with(Host::default).take(hosts as usize).collect(),
            senders: Vec::new(),
            receivers: Vec::new(),
            free: Vec::new(),
            connections: Vec::new(),
            closing: Vec::new(),
            waiting: 0,
            places: None,
            totals: HostTotals::default(),
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
    /// Creates both ends of a flow on `connection`; returns its slot.
    fn open(&mut self, flow: &FlowSpec, connection: u32) -> u32 {
        let hashes = self.book.hashes(flow);
        let before = self.connections.get(connection as usize).copied();
        let (flow_hash, reply_hash) = match before {
            Some(Connection { slot, .. }) => {
                (self.senders[slot as usize].flow_hash, self.receivers[slot as usize].reply_hash)
            }
            None => hashes,
        };
        let (sender, receiver) = match before {
            Some(connection) => self.following_ends(flow, connection),
            None => (
                Sender::new(&self.cfg, &self.params, flow.bytes, flow.start),
                Receiver::new(&self.cfg, flow.bytes, flow.start),
            ),
        };
        let record = self.book.start(flow, flow_hash);
        let send = SendEnd {
            sender,
            dst: flow.dst,
            flow_hash,
            armed: Time::MAX,
            queued: false,
            phase: if before.is_some() { Phase::Idle } else { Phase::Active },
            connection,
            record,
            retransmitted: 0,
            timeouts: 0,
        };
        let receive = ReceiveEnd { receiver, src: flow.src, reply_hash, armed: Time::MAX, done: false };
        let slot = match self.kept_slot(before).or_else(|| self.free.pop()) {
            Some(slot) => {
                self.senders[slot as usize] = send;
                self.receivers[slot as usize] = receive;
                slot
            }
            None => {
                self.senders.push(send);
                self.receivers.push(receive);
                self.senders.len() as u32 - 1
            }
        };
        let first_psn = before.map_or(self.cfg.first_psn, |before| before.next);
        if connection != Loops::NONE {
            let next = Connection { slot, next: first_psn.plus(self.cfg.packets(flow.bytes) as u32) };
            match self.connections.get_mut(connection as usize) {
                Some(connection) => *connection = next,
                None => self.connections.push(next),
            }
        }
        if let Some(places) = &mut self.places {
            places.push(FlowPlace { slot, flow_hash, reply_hash, first_psn });
        }
        slot
    }

    /// Both ends of a flow that follows another on its connection.
    fn following_ends(&self, flow: &FlowSpec, connection: Connection) -> (Sender<P, C>, Receiver<P>) {
        let tcp = TcpConfig { handshake: false, ..self.cfg.tcp };
        let cfg = FlowConfig { first_psn: connection.next, tcp, ..self.cfg.clone() };
        let slot = connection.slot as usize;
        (
            self.senders[slot].sender.following(&cfg, flow.bytes, flow.start),
            self.receivers[slot].receiver.following(&cfg, flow.bytes, flow.start),
        )
    }

    /// The slot of a connection for its next flow, unless the one before has still something to do there.
    fn kept_slot(&mut self, before: Option<Connection>) -> Option<u32> {
        let slot = before?.slot;
        let end = &mut self.senders[slot as usize];
        if end.phase == Phase::Idle {
            return Some(slot);
        }
        end.phase = Phase::Followed;
        None
    }

    /// A flow starts to send.
    fn begin(&mut self, host: u32, slot: u32, now: Time) {
        let end = &mut self.senders[slot as usize];
        let follows = end.phase == Phase::Idle;
        if follows {
            end.phase = Phase::Active;
            end.sender.catch_up(&self.params, now);
        }
        self.schedule(host, slot, now);
        if follows {
            self.arm_sender(host, slot);
        }
    }

    /// A control packet arrived for a flow that is over or that another one of its connection has followed.
    #[cold]
    fn late_reply(&mut self, host: u32, slot: u32, now: Time, pdu: Pdu) {
        let end = &mut self.senders[slot as usize];
        let Some(latest) = self.connections.get(end.connection as usize).map(|connection| connection.slot) else {
            return; // its slot may be another flow's before the host's turn to send comes
        };
        if end.phase == Phase::Idle {
            if latest == slot && pdu.kind() == PduKind::Cnp {
                end.sender.catch_up(&self.params, now);
                end.sender.handle(&self.cfg, &self.params, now, pdu);
            }
            return;
        }
        let Ok([end, follower]) = self.senders.get_disjoint_mut([slot as usize, latest as usize]) else { return };
        end.sender.handle_after(&mut follower.sender, &self.cfg, &self.params, now, pdu);
        let active = follower.phase == Phase::Active;
        for slot in [Some(slot), active.then_some(latest)].into_iter().flatten() {
            self.schedule(host, slot, now);
            self.arm_sender(host, slot);
        }
    }

    /// Puts the flow where it belongs: ready now, ready later, or nowhere while it is blocked.
    #[inline]
    fn schedule(&mut self, host: u32, slot: u32, now: Time) {
        let end = &mut self.senders[slot as usize];
        if end.queued {
            return;
        }
        if let Some(at) = end.sender.next_transmit(&self.cfg) {
            end.queued = true;
            let host = &mut self.hosts[host as usize];
            if at <= now { host.ready.push_back(slot) } else { host.paced.push(Reverse((at, slot))) }
        }
    }

    /// Makes sure that a timer entry at or before the flow's deadline is pending.
    #[inline]
    fn arm_sender(&mut self, host: u32, slot: u32) {
        let end = &mut self.senders[slot as usize];
        if let Some((at, _)) = end.sender.deadline(&self.cfg)
            && at < end.armed
        {
            end.armed = at;
            self.hosts[host as usize].timers.push(Reverse((at, slot, false)));
        }
    }

    fn arm_receiver(&mut self, host: u32, slot: u32) {
        let end = &mut self.receivers[slot as usize];
        if let Some(at) = end.receiver.deadline(&self.cfg)
            && at < end.armed
        {
            end.armed = at;
            self.hosts[host as usize].timers.push(Reverse((at, slot, true)));
        }
    }

    fn timer(&mut self, host: u32, slot: u32, receiving: bool, at: Time) {
        if receiving {
            let end = &mut self.receivers[slot as usize];
            if end.armed != at || end.done || self.senders[slot as usize].dst != host {
                return; // superseded, or the slot is another flow's now
            }
            end.armed = Time::MAX;
            if let Some(pdu) = end.receiver.on_deadline(&self.cfg, at) {
                // A late ACK is no timeout.
                if pdu.kind() == PduKind::Nack {
                    self.totals.timeouts += 1;
                    self.senders[slot as usize].timeouts += 1;
                }
                self.reply(host, slot, pdu, T::default());
            }
            self.arm_receiver(host, slot);
            return;
        }
        let end = &mut self.senders[slot as usize];
        if end.armed != at || end.phase == Phase::Idle || self.receivers[slot as usize].src != host {
            return;
        }
        end.armed = Time::MAX;
        if end.sender.on_deadline(&self.cfg, &self.params, at) == Some(Timer::Retransmit) {
            end.timeouts += 1;
            self.totals.timeouts += 1;
        }
        self.arm_sender(host, slot);
        self.schedule(host, slot, at);
    }

    /// Queues a control packet from the receiving end to the sending end, with what switches wrote into the packet that caused it.
    #[inline]
    fn reply(&mut self, host: u32, slot: u32, pdu: Pdu, in_band: T) {
        let end = &self.receivers[slot as usize];
        let bytes = match pdu.kind() {
            PduKind::Nack => self.hosting.nack_bytes,
            PduKind::Cnp => self.hosting.cnp_bytes,
            PduKind::Ack | PduKind::Data => self.hosting.ack_bytes,
        };
        self.hosts[host as usize].control.push_back(Packet {
            dst: end.src,
            flow_hash: end.reply_hash,
            bytes: (bytes as u16).max(MIN_FRAME),
            priority: self.hosting.control_priority,
            flags: Packet::<Segment<T>>::CONTROL,
            body: Segment { slot, pdu, in_band },
        });
    }

    #[inline]
    fn receive_data(&mut self, host: u32, now: Time, packet: &Packet<Segment<T>>) {
        let Segment { slot, pdu, in_band } = packet.body;
        if self.senders[slot as usize].flow_hash != packet.flow_hash {
            return; // of an earlier flow in this slot
        }
        let end = &mut self.receivers[slot as usize];
        let outcome = end.receiver.handle(&self.cfg, now, pdu, RxMeta { marked: packet.is_marked() });
        if !outcome.discarded {
            self.book.progress(now);
        }
        if outcome.completed {
            end.done = true;
            let record = self.senders[slot as usize].record;
            self.book.finish(record, slot, end.reply_hash, now);
            self.closing.push(slot);
        }
        if outcome.notify {
            self.totals.notifications += 1;
            self.reply(host, slot, Pdu::cnp(), T::default());
        }
        if let Some(pdu) = outcome.reply {
            self.reply(host, slot, pdu, in_band);
        }
        if P::receiver_has_timer(&self.cfg) && !outcome.completed {
            self.arm_receiver(host, slot);
        }
    }

    #[inline]
    fn receive_reply(&mut self, host: u32, now: Time, packet: &Packet<Segment<T>>) {
        let Segment { slot, pdu, ref in_band } = packet.body;
        if self.receivers[slot as usize].reply_hash != packet.flow_hash {
            return; // of an earlier flow in this slot
        }
        let end = &mut self.senders[slot as usize];
        if end.phase != Phase::Active {
            return self.late_reply(host, slot, now, pdu);
        }
        match in_band.telemetry() {
            None => end.sender.handle(&self.cfg, &self.params, now, pdu),
            Some(telemetry) => end.sender.handle_with(&self.cfg, &self.params, now, pdu, telemetry),
        };
        self.schedule(host, slot, now);
        self.arm_sender(host, slot);
    }

    #[inline]
    fn data_packet(&mut self, host: u32, slot: u32, now: Time) -> Option<Packet<Segment<T>>> {
        let end = &mut self.senders[slot as usize];
        let desc = end.sender.poll_transmit(&self.cfg, &self.params, now);
        end.queued = false;
        let packet = desc.map(|desc| {
            end.retransmitted += u32::from(desc.retransmission);
            self.totals.retransmitted += u64::from(desc.retransmission);
            self.totals.data += 1;
            Packet {
                dst: end.dst,
                flow_hash: end.flow_hash,
                bytes: ((desc.payload + self.cfg.header) as u16).max(MIN_FRAME),
                priority: DATA_PRIORITY,
                flags: 0,
                body: Segment { slot, pdu: desc.pdu, in_band: T::default() },
            }
        });
        self.schedule(host, slot, now);
        if packet.is_some() {
            self.arm_sender(host, slot);
        }
        packet
    }

    /// The flow has sent a packet: as long as its turn lasts and it stays ready, it comes first again.
    #[inline]
    fn keep_turn(&mut self, host: u32, slot: u32) {
        if self.hosting.burst == 1 {
            return;
        }
        let host = &mut self.hosts[host as usize];
        let left = if host.turn.0 == slot && host.turn.1 > 0 { host.turn.1 } else { self.hosting.burst } - 1;
        host.turn = (slot, left);
        if left > 0 && host.ready.back() == Some(&slot) {
            host.ready.pop_back();
            host.ready.push_front(slot);
        }
    }

    /// Retires flows whose both ends are done.
    fn retire(&mut self) {
        let learns = P::sender_learns_completion(&self.cfg);
        // The hosts in turn, wherever a watcher cut the window.
        self.closing[self.waiting..].sort_by_key(|slot| self.senders[*slot as usize].dst);
        let mut kept = 0;
        for i in 0..self.closing.len() {
            let slot = self.closing[i];
            let end = &mut self.senders[slot as usize];
            // A source without acknowledgements ends with the sink, once it has sent what it is about to send.
            let idle = !end.queued && (!learns || end.sender.is_complete());
            if idle {
                end.phase = Phase::Idle;
                let record = &mut self.book.records[end.record as usize];
                (record.retransmitted, record.timeouts) = (end.retransmitted, end.timeouts);
                // The latest flow of a connection keeps its state, and so its slot.
                if self.connections.get(end.connection as usize).is_none_or(|connection| connection.slot != slot) {
                    self.free.push(slot);
                }
            } else {
                self.closing[kept] = slot;
                kept += 1;
            }
        }
        self.closing.truncate(kept);
        self.waiting = kept;
    }
}

impl<P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T: InBand> Endpoint for Hosts<'_, P, C, S, T> {
    type Body = Segment<T>;

    #[inline]
    fn receive(&mut self, host: u32, now: Time, packet: &Packet<Segment<T>>) {
        self.totals.delivered += 1;
        self.totals.marked += u64::from(packet.is_marked());
        if packet.is_trimmed() {
            // These transports know nothing of packets without payload: to them it is lost.
        } else if packet.body.pdu.kind() == PduKind::Data {
            self.receive_data(host, now, packet);
        } else {
            self.receive_reply(host, now, packet);
        }
    }

    #[inline]
    fn next_wake(&self, host: u32) -> Time {
        let host = &self.hosts[host as usize];
        let start = host.starts.front().map_or(Time::MAX, |s| s.0);
        let timer = host.timers.peek().map_or(Time::MAX, |Reverse(t)| t.0);
        let paced = host.paced.peek().map_or(Time::MAX, |Reverse(p)| p.0);
        start.min(timer).min(paced)
    }

    fn wake(&mut self, index: u32, now: Time) {
        let host = &mut self.hosts[index as usize];
        if let Some((_, slot, receiving)) = host.starts.pop_front_if(|(at, ..)| *at <= now) {
            if receiving {
                self.arm_receiver(index, slot)
            } else {
                self.begin(index, slot, now)
            }
            return;
        }
        if host.timers.peek().is_some_and(|Reverse(t)| t.0 <= now)
            && let Some(Reverse((at, slot, receiving))) = host.timers.pop()
        {
            self.timer(index, slot, receiving, at);
            return;
        }
        if host.paced.peek().is_some_and(|Reverse(p)| p.0 <= now)
            && let Some(Reverse((_, slot))) = host.paced.pop()
        {
            host.ready.push_back(slot);
        }
    }

    #[inline]
    fn wants_to_transmit(&self, host: u32) -> bool {
        let host = &self.hosts[host as usize];
        !host.control.is_empty() || !host.ready.is_empty()
    }

    #[inline]
    fn transmit(&mut self, index: u32, now: Time, paused: u8) -> Option<Packet<Segment<T>>> {
        let host = &mut self.hosts[index as usize];
        if paused & (1 << self.hosting.control_priority) == 0
            && let Some(packet) = host.control.pop_front()
        {
            self.totals.control += 1;
            return Some(packet);
        }
        if paused & (1 << DATA_PRIORITY) != 0 {
            return None;
        }
        while let Some(slot) = self.hosts[index as usize].ready.pop_front() {
            if let Some(packet) = self.data_packet(index, slot, now) {
                self.keep_turn(index, slot);
                return Some(packet);
            }
        }
        None
    }

    fn next_start(&self) -> Time {
        self.book.next_start()
    }

    fn open_window(&mut self, end: Time, wake: &mut dyn FnMut(u32, Time)) {
        while let Some((flow, origin)) = self.book.next_flow(end) {
            let slot = self.open(&flow, origin.connection);
            self.book.place(slot, origin);
            self.hosts[flow.src as usize].starts.push_back((flow.start, slot, false));
            wake(flow.src, flow.start);
            if P::receiver_has_timer(&self.cfg) {
                self.hosts[flow.dst as usize].starts.push_back((flow.start, slot, true));
                wake(flow.dst, flow.start);
            }
        }
        self.book.window_is_open();
    }

    fn close_window(&mut self, end: Time, hops: u64) -> ControlFlow<()> {
        if !self.closing.is_empty() {
            self.retire();
        }
        self.book.close_window(end, hops, self.closing.is_empty())
    }
}

impl<P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T: InBand> RunHosts for Hosts<'_, P, C, S, T> {
    fn totals(&self) -> HostTotals {
        self.totals
    }
    fn stop(&self) -> Option<Stop> {
        self.book.stop()
    }
    fn unfinished(&self) -> u64 {
        self.book.active()
    }
    fn under_way(&self, now: Time) -> impl Iterator<Item = (u32, u32, u32, u32)> {
        let flows = self.senders.iter().zip(&self.receivers).filter(|(_, receive)| !receive.done);
        let flow =
            |(send, receive): (&SendEnd<P, C>, &ReceiveEnd<P>)| (send.record, receive.src, send.dst, send.flow_hash);
        flows.filter(move |(send, _)| self.book.records[send.record as usize].start < now).map(flow)
    }
    fn delivered(&self, now: Time) -> impl Iterator<Item = (u32, u64)> {
        let ends = self.senders.iter().zip(&self.receivers).filter(|(_, receive)| !receive.done);
        let flows = ends.map(|(send, receive)| (&self.book.records[send.record as usize], receive));
        flows
            .filter(move |(record, _)| record.start < now)
            .map(|(record, receive)| (record.id, receive.receiver.delivered(&self.cfg, record.bytes)))
    }
    fn take_records(&mut self) -> FlowLog {
        let ends = self.senders.iter().zip(&self.receivers);
        for (end, receive) in ends.filter(|(end, _)| end.phase != Phase::Idle) {
            let record = &mut self.book.records[end.record as usize];
            (record.retransmitted, record.timeouts) = (end.retransmitted, end.timeouts);
            if record.finish.is_none() {
                record.delivered = receive.receiver.delivered(&self.cfg, record.bytes);
            }
        }
        std::mem::take(&mut self.book.records).into_iter().collect()
    }
}
