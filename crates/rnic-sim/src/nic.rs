//! The simulated host NICs of one part of the fabric: they put the transport's flows on its cables.
//!
//! A NIC sends control packets (ACK, NACK) before data, and takes data packets from its ready flows in turn, `burst` each. A
//! flow that its recovery, window or pacing holds back is not in the ring of ready flows. One retransmission timer entry per flow
//! end is pending at most; re-arming it later costs nothing until it fires.
//!
//! All that a host knows of its flows is in it: where the other host has its end of a flow is in the packets, and in the ends themselves. What
//! a flow is in the run is for `hosts::Hosts` to know, which looks at the NICs between windows.

use crate::in_band::InBand;
use crate::slab::Slab;
use rnic_fabric::{Body, HostId, HostPartition, MIN_FRAME, Packet, SlotId};
use rnic_transport::congestion::CongestionControl;
use rnic_transport::recovery::Protocol;
use rnic_transport::telemetry::HopRecord;
use rnic_transport::{FlowConfig, Pdu, PduKind, Psn, Receiver, RxMeta, Sender, Time, Timer};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Priority of data packets.
pub(crate) const DATA_PRIORITY: u8 = 0;

/// What a packet carries: the slot of the flow's end where it goes, the transport's part, and what switches wrote on its way (an ACK: on that of its data packet).
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
    /// The slot of the flow's end at the packet's destination.
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }
    /// The transport's part.
    pub(crate) fn pdu(&self) -> Pdu {
        self.pdu
    }
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

impl HostTotals {
    /// Adds those of other hosts.
    pub(crate) fn add(&mut self, other: &HostTotals) {
        let HostTotals { data, control, retransmitted, delivered, marked, notifications, timeouts, given_up } = other;
        self.data += data;
        self.control += control;
        self.retransmitted += retransmitted;
        self.delivered += delivered;
        self.marked += marked;
        self.notifications += notifications;
        self.timeouts += timeouts;
        self.given_up += given_up;
    }
}

/// What a sending end is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// It sends.
    Active,
    /// Another flow of its connection has followed it before it knew that everything has arrived.
    Followed,
    /// It is over; or it is about to start, on a connection that has the state of an earlier flow.
    Idle,
}

/// The sending end's view of a connection that lasts from flow to flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    /// Slot of its latest flow, which no other flow takes. There is the state of the connection.
    pub(crate) slot: u32,
    /// Number of the next flow's first packet: what is under way of a flow is stale to the next.
    pub(crate) next: Psn,
}

/// What both ends of a flow know of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// Number of the flow among those that there are now; [`Ends::NONE`] when it is forgotten.
    pub(crate) flow: u32,
    /// The other host.
    pub(crate) host: u32,
    /// Slot of the other end there.
    pub(crate) slot: u32,
    /// Hash in data packets. With the other one it tells a flow's packets from those of an earlier flow in its slot.
    pub(crate) flow_hash: u32,
    /// Hash in control packets.
    pub(crate) reply_hash: u32,
}

impl Ends {
    /// No flow.
    const NONE: u32 = u32::MAX;

    /// The flow is forgotten: late packets and timers are no longer its own.
    pub(crate) fn forget(&mut self) {
        self.flow = Ends::NONE;
        (self.flow_hash, self.reply_hash) = (!self.flow_hash, !self.reply_hash);
    }
}

/// The sending end of a flow.
pub(crate) struct SendEnd<P: Protocol, C: CongestionControl> {
    pub(crate) sender: Sender<P, C>,
    pub(crate) ends: Ends,
    /// Pending timer entry, [`Time::MAX`] for none.
    pub(crate) armed: Time,
    /// In the host's ring of ready flows, or waiting for its pacing time.
    pub(crate) queued: bool,
    pub(crate) phase: Phase,
    /// Which of its host's lasting connections it is on, if any.
    pub(crate) connection: u32,
    pub(crate) retransmitted: u32,
    pub(crate) timeouts: u32,
}

/// The receiving end of a flow.
pub(crate) struct ReceiveEnd<P: Protocol> {
    pub(crate) receiver: Receiver<P>,
    pub(crate) ends: Ends,
    pub(crate) armed: Time,
    pub(crate) done: bool,
    pub(crate) timeouts: u32,
}

/// In an entry of a host's timers, beside the slot: it is the receiving end's.
const RECEIVING: u32 = 1 << 31;

/// One host. Entries of its heaps name the flow before the slot: those of one instant come in the order of that, whoever else is in the run's
/// fabric, and an entry of a flow that is over is not taken for another's.
pub(crate) struct Host<P: Protocol, C: CongestionControl, T> {
    control: VecDeque<Packet<Segment<T>>>,
    ready: VecDeque<u32>,
    /// The flow whose turn it is, and the packets it may still send in this turn.
    turn: (u32, u32),
    /// Flows that may send from a time on: (time, flow, slot).
    paced: BinaryHeap<Reverse<(Time, u32, u32)>>,
    /// (time, flow, slot and [`RECEIVING`]).
    timers: BinaryHeap<Reverse<(Time, u32, u32)>>,
    /// Flows that start in the current window, and whether this is their receiving host.
    pub(crate) starts: VecDeque<(Time, u32, bool)>,
    pub(crate) senders: Slab<SendEnd<P, C>>,
    pub(crate) receivers: Slab<ReceiveEnd<P>>,
    /// Lasting connections.
    pub(crate) connections: Vec<Connection>,
}

impl<P: Protocol, C: CongestionControl, T> Host<P, C, T> {
    fn new() -> Self {
        Host {
            control: VecDeque::new(),
            ready: VecDeque::new(),
            turn: (0, 0),
            paced: BinaryHeap::new(),
            timers: BinaryHeap::new(),
            starts: VecDeque::new(),
            senders: Slab::new(),
            receivers: Slab::new(),
            connections: Vec::new(),
        }
    }

    /// Puts the flow where it belongs: ready now, ready later, or nowhere while it is blocked.
    #[inline]
    fn schedule(&mut self, cfg: &FlowConfig, slot: u32, now: Time) {
        let end = &mut self.senders[slot];
        if end.queued {
            return;
        }
        if let Some(at) = end.sender.next_transmit(cfg) {
            end.queued = true;
            if at <= now { self.ready.push_back(slot) } else { self.paced.push(Reverse((at, end.ends.flow, slot))) }
        }
    }

    /// Makes sure that a timer entry at or before the flow's deadline is pending.
    #[inline]
    fn arm_sender(&mut self, cfg: &FlowConfig, slot: u32) {
        let end = &mut self.senders[slot];
        if let Some((at, _)) = end.sender.deadline(cfg)
            && at < end.armed
        {
            end.armed = at;
            self.timers.push(Reverse((at, end.ends.flow, slot)));
        }
    }

    fn arm_receiver(&mut self, cfg: &FlowConfig, slot: u32) {
        let end = &mut self.receivers[slot];
        if let Some(at) = end.receiver.deadline(cfg)
            && at < end.armed
        {
            end.armed = at;
            self.timers.push(Reverse((at, end.ends.flow, slot | RECEIVING)));
        }
    }
}

/// Everything of a flow has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    /// Number of the flow among those that there are now.
    pub(crate) flow: u32,
    /// When.
    pub(crate) at: Time,
}

/// The NICs of one part of the fabric.
pub(crate) struct NicPart<P: Protocol, C: CongestionControl, T> {
    pub(crate) cfg: FlowConfig,
    params: C::Params,
    hosting: Hosting,
    pub(crate) hosts: Vec<Host<P, C, T>>,
    pub(crate) totals: HostTotals,
    /// When a flow last progressed here.
    pub(crate) last_progress: Time,
    /// Flows that have finished since the window began, by host.
    pub(crate) finished: Vec<Finished>,
}

impl<P: Protocol, C: CongestionControl, T: InBand> NicPart<P, C, T> {
    /// NICs of so many hosts.
    pub(crate) fn new(cfg: FlowConfig, params: C::Params, hosting: Hosting, hosts: usize) -> Self {
        NicPart {
            cfg,
            params,
            hosting,
            hosts: std::iter::repeat_with(Host::new).take(hosts).collect(),
            totals: HostTotals::default(),
            last_progress: Time::ZERO,
            finished: Vec::new(),
        }
    }

    /// Parameters of the congestion control.
    pub(crate) fn params(&self) -> &C::Params {
        &self.params
    }

    /// A flow starts to send.
    fn begin(&mut self, host: u32, slot: u32, now: Time) {
        let host = &mut self.hosts[host as usize];
        let end = &mut host.senders[slot];
        let follows = end.phase == Phase::Idle;
        if follows {
            end.phase = Phase::Active;
            end.sender.catch_up(&self.params, now);
        }
        host.schedule(&self.cfg, slot, now);
        if follows {
            host.arm_sender(&self.cfg, slot);
        }
    }

    /// A control packet arrived for a flow that is over or that another one of its connection has followed.
    #[cold]
    fn late_reply(&mut self, host: u32, slot: u32, now: Time, pdu: Pdu) {
        let host = &mut self.hosts[host as usize];
        let end = &mut host.senders[slot];
        let Some(latest) = host.connections.get(end.connection as usize).map(|connection| connection.slot) else {
            return; // its slot may be another flow's before the host's turn to send comes
        };
        if end.phase == Phase::Idle {
            if latest == slot && pdu.kind() == PduKind::Cnp {
                end.sender.catch_up(&self.params, now);
                end.sender.handle(&self.cfg, &self.params, now, pdu);
            }
            return;
        }
        let Some([end, follower]) = host.senders.two_mut(slot, latest) else { return };
        end.sender.handle_after(&mut follower.sender, &self.cfg, &self.params, now, pdu);
        let active = follower.phase == Phase::Active;
        for slot in [Some(slot), active.then_some(latest)].into_iter().flatten() {
            host.schedule(&self.cfg, slot, now);
            host.arm_sender(&self.cfg, slot);
        }
    }

    /// The time of a timer entry has come.
    fn timer(&mut self, host: u32, (at, flow, slot): (Time, u32, u32)) {
        if slot & RECEIVING != 0 {
            self.receiver_timer(host, at, flow, slot & !RECEIVING);
            return;
        }
        let host = &mut self.hosts[host as usize];
        let end = &mut host.senders[slot];
        if end.armed != at || end.phase == Phase::Idle || end.ends.flow != flow {
            return; // superseded, or the slot is another flow's now
        }
        end.armed = Time::MAX;
        if end.sender.on_deadline(&self.cfg, &self.params, at) == Some(Timer::Retransmit) {
            end.timeouts += 1;
            self.totals.timeouts += 1;
        }
        host.arm_sender(&self.cfg, slot);
        host.schedule(&self.cfg, slot, at);
    }

    fn receiver_timer(&mut self, index: u32, at: Time, flow: u32, slot: u32) {
        let end = &mut self.hosts[index as usize].receivers[slot];
        if end.armed != at || end.done || end.ends.flow != flow {
            return;
        }
        end.armed = Time::MAX;
        if let Some(pdu) = end.receiver.on_deadline(&self.cfg, at) {
            // A late ACK is no timeout.
            if pdu.kind() == PduKind::Nack {
                end.timeouts += 1;
                self.totals.timeouts += 1;
            }
            self.reply(index, slot, pdu, T::default());
        }
        self.hosts[index as usize].arm_receiver(&self.cfg, slot);
    }

    /// Queues a control packet from the receiving end to the sending end, with what switches wrote into the packet that caused it.
    #[inline]
    fn reply(&mut self, host: u32, slot: u32, pdu: Pdu, in_band: T) {
        let host = &mut self.hosts[host as usize];
        let ends = &host.receivers[slot].ends;
        let bytes = match pdu.kind() {
            PduKind::Nack => self.hosting.nack_bytes,
            PduKind::Cnp => self.hosting.cnp_bytes,
            PduKind::Ack | PduKind::Data => self.hosting.ack_bytes,
        };
        host.control.push_back(Packet {
            dst: HostId(ends.host),
            flow_hash: ends.reply_hash,
            bytes: (bytes as u16).max(MIN_FRAME),
            priority: self.hosting.control_priority,
            flags: Packet::<Segment<T>>::CONTROL,
            body: Segment { slot: ends.slot, pdu, in_band },
        });
    }

    #[inline]
    fn receive_data(&mut self, host: u32, now: Time, packet: &Packet<Segment<T>>) {
        let Segment { slot, pdu, in_band } = packet.body;
        let end = &mut self.hosts[host as usize].receivers[slot];
        if end.ends.flow_hash != packet.flow_hash {
            return; // of an earlier flow in this slot
        }
        let outcome = end.receiver.handle(&self.cfg, now, pdu, RxMeta { marked: packet.is_marked() });
        if !outcome.discarded {
            self.last_progress = self.last_progress.max(now);
        }
        if outcome.completed {
            end.done = true;
            self.finished.push(Finished { flow: end.ends.flow, at: now });
        }
        if outcome.notify {
            self.totals.notifications += 1;
            self.reply(host, slot, Pdu::cnp(), T::default());
        }
        if let Some(pdu) = outcome.reply {
            self.reply(host, slot, pdu, in_band);
        }
        if P::receiver_has_timer(&self.cfg) && !outcome.completed {
            self.hosts[host as usize].arm_receiver(&self.cfg, slot);
        }
    }

    #[inline]
    fn receive_reply(&mut self, host: u32, now: Time, packet: &Packet<Segment<T>>) {
        let Segment { slot, pdu, ref in_band } = packet.body;
        let nic = &mut self.hosts[host as usize];
        let end = &mut nic.senders[slot];
        if end.ends.reply_hash != packet.flow_hash {
            return; // of an earlier flow in this slot
        }
        if end.phase != Phase::Active {
            return self.late_reply(host, slot, now, pdu);
        }
        match in_band.telemetry() {
            None => end.sender.handle(&self.cfg, &self.params, now, pdu),
            Some(telemetry) => end.sender.handle_with(&self.cfg, &self.params, now, pdu, telemetry),
        };
        nic.schedule(&self.cfg, slot, now);
        nic.arm_sender(&self.cfg, slot);
    }

    #[inline]
    fn data_packet(&mut self, host: u32, slot: u32, now: Time) -> Option<Packet<Segment<T>>> {
        let host = &mut self.hosts[host as usize];
        let end = &mut host.senders[slot];
        let desc = end.sender.poll_transmit(&self.cfg, &self.params, now);
        end.queued = false;
        let packet = desc.map(|desc| {
            end.retransmitted += u32::from(desc.retransmission);
            self.totals.retransmitted += u64::from(desc.retransmission);
            self.totals.data += 1;
            Packet {
                dst: HostId(end.ends.host),
                flow_hash: end.ends.flow_hash,
                bytes: ((desc.payload + self.cfg.header) as u16).max(MIN_FRAME),
                priority: DATA_PRIORITY,
                flags: 0,
                body: Segment { slot: end.ends.slot, pdu: desc.pdu, in_band: T::default() },
            }
        });
        host.schedule(&self.cfg, slot, now);
        if packet.is_some() {
            host.arm_sender(&self.cfg, slot);
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
        let flow = host.senders[slot].ends.flow;
        let left = if host.turn.0 == flow && host.turn.1 > 0 { host.turn.1 } else { self.hosting.burst } - 1;
        host.turn = (flow, left);
        if left > 0 && host.ready.back() == Some(&slot) {
            host.ready.pop_back();
            host.ready.push_front(slot);
        }
    }
}

impl<P: Protocol, C: CongestionControl, T: InBand> HostPartition for NicPart<P, C, T> {
    type Body = Segment<T>;

    #[inline]
    fn receive(&mut self, host: SlotId, now: Time, packet: &Packet<Segment<T>>) {
        let host = host.0;
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
    fn next_wake(&self, host: SlotId) -> Time {
        let host = &self.hosts[host.index()];
        let start = host.starts.front().map_or(Time::MAX, |s| s.0);
        let timer = host.timers.peek().map_or(Time::MAX, |Reverse(t)| t.0);
        let paced = host.paced.peek().map_or(Time::MAX, |Reverse(p)| p.0);
        start.min(timer).min(paced)
    }

    fn wake(&mut self, SlotId(index): SlotId, now: Time) {
        let host = &mut self.hosts[index as usize];
        if let Some((_, slot, receiving)) = host.starts.pop_front_if(|(at, ..)| *at <= now) {
            if receiving {
                host.arm_receiver(&self.cfg, slot)
            } else {
                self.begin(index, slot, now)
            }
            return;
        }
        if host.timers.peek().is_some_and(|Reverse(t)| t.0 <= now)
            && let Some(Reverse(entry)) = host.timers.pop()
        {
            self.timer(index, entry);
            return;
        }
        if host.paced.peek().is_some_and(|Reverse(p)| p.0 <= now)
            && let Some(Reverse((_, _, slot))) = host.paced.pop()
        {
            host.ready.push_back(slot);
        }
    }

    #[inline]
    fn wants_to_transmit(&self, host: SlotId) -> bool {
        let host = &self.hosts[host.index()];
        !host.control.is_empty() || !host.ready.is_empty()
    }

    #[inline]
    fn transmit(&mut self, SlotId(index): SlotId, now: Time, paused: u8) -> Option<Packet<Segment<T>>> {
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
}
