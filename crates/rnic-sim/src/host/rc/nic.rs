//! The NIC of a simulated host with reliable (RC-like) flows: its queues and timers, and the code that sends and
//! receives packets.
//!
//! A NIC sends control packets (ACK, NACK, CNP) before data. It takes data packets from its ready flows in turn, up to
//! `burst` packets (setting `nic_burst`) from each. A flow that must wait for its loss recovery, window or pacing is
//! not in the queue of ready flows. The NIC has a heap of timers, with at most one pending entry for each sending or
//! receiving end of a flow. To postpone a timer, the NIC does not change the heap: the old entry stays there, and when
//! it is due, an entry with the new time replaces it.

mod credit;

use super::RcNics;
use super::ends::{Connection, Phase};
use super::processing::Processing;
use super::segment::Segment;
use crate::host::config::{DATA_PRIORITY, HostConfig};
use crate::host::ids::{EndSlot, FlowId};
use crate::host::partition::{Host, NicPartition, Notice, Start};
use crate::in_band::InBand;
use rnic_fabric::{HostPartition, MIN_FRAME, Packet, SlotId};
use rnic_transport::congestion::CongestionControl;
use rnic_transport::credit::Pacer;
use rnic_transport::paths::flow_hash;
use rnic_transport::recovery::Protocol;
use rnic_transport::{FlowConfig, Pdu, PduKind, RxMeta, Time, Timer};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Settings that all RC-like NICs of the run share.
#[derive(Clone)]
pub(crate) struct RcShared<C: CongestionControl> {
    pub(crate) cfg: FlowConfig,
    pub(crate) params: C::Params,
    pub(crate) host: HostConfig,
}

/// The end of a flow to which a timer belongs: the slot of the end, with the highest bit set for a receiving end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
struct TimerEnd(u32);

impl TimerEnd {
    const RECEIVING: u32 = 1 << 31;
    /// The pacer of credit, which belongs to no flow.
    const CREDIT: TimerEnd = TimerEnd(u32::MAX);

    fn sending(slot: EndSlot) -> TimerEnd {
        TimerEnd(slot.0)
    }
    fn receiving(slot: EndSlot) -> TimerEnd {
        TimerEnd(slot.0 | TimerEnd::RECEIVING)
    }
    fn is_receiving(self) -> bool {
        self.0 & TimerEnd::RECEIVING != 0
    }
    fn slot(self) -> EndSlot {
        EndSlot(self.0 & !TimerEnd::RECEIVING)
    }
}

/// An entry in a NIC's heap of timers: when it is due, the id of the flow, and the end of the flow. The flow id comes
/// before the slot, so that entries of the same instant have the same order however the fabric is partitioned. The flow
/// id also shows whether an entry belongs to a finished flow: its slot may already belong to a later flow.
type TimerEntry = (Time, FlowId, TimerEnd);

/// The flow whose turn it is to send, with a NIC that sends bursts (`nic_burst`).
#[derive(Clone, Copy, Default)]
struct Burst {
    flow: FlowId,
    /// Number of packets that the flow may still send in this turn.
    left: u32,
}

/// State of one host's NIC for reliable flows, apart from the state of single flows.
pub(crate) struct RcNic<T> {
    /// What takes time for packets besides the link; `None` if nothing does.
    processing: Option<Box<Processing<Packet<Segment<T>>>>>,
    /// Control packets (ACK, NACK, CNP) that wait for the host's transmitter.
    control: VecDeque<Packet<Segment<T>>>,
    /// Sending ends of flows that have a data packet to send now, in the order of their turns.
    ready: VecDeque<EndSlot>,
    burst: Burst,
    /// Sending ends of flows that wait for their pacing time, with this time.
    paced: BinaryHeap<Reverse<(Time, FlowId, EndSlot)>>,
    /// Earliest time of the NIC's next CNP, for any of its flows (`nic_cnp_interval`).
    next_cnp: Time,
    timers: BinaryHeap<Reverse<TimerEntry>>,
    /// What grants credit to the senders of the NIC's flows; `None` unless the congestion control needs credit.
    credit: Option<Box<Pacer>>,
    /// Persistent connections of which the host is the sender.
    pub(crate) connections: Vec<Connection>,
}

impl<T> RcNic<T> {
    pub(crate) fn new(config: &HostConfig, credit: Option<Pacer>) -> Self {
        RcNic {
            processing: config.processing.map(|config| Box::new(Processing::new(config))),
            control: VecDeque::new(),
            ready: VecDeque::new(),
            burst: Burst::default(),
            paced: BinaryHeap::new(),
            next_cnp: Time::ZERO,
            timers: BinaryHeap::new(),
            credit: credit.map(Box::new),
            connections: Vec::new(),
        }
    }
}

impl<P: Protocol, C: CongestionControl, T: InBand> Host<RcNics<P, C, T>> {
    /// If the flow has a packet to send: puts the flow into the queue of ready flows, or into `paced` until its pacing
    /// time.
    #[inline]
    fn schedule(&mut self, cfg: &FlowConfig, slot: EndSlot, now: Time) {
        let end = &mut self.senders[slot];
        if end.queued {
            return;
        }
        if let Some(mut at) = end.sender.next_transmit(cfg) {
            end.queued = true;
            if let Some(processing) = &self.nic.processing {
                at = at.max(processing.may_send(end.peer.hashes.data));
            }
            if at <= now {
                self.nic.ready.push_back(slot)
            } else {
                self.nic.paced.push(Reverse((at, end.peer.flow, slot)))
            }
        }
    }

    /// Adds the next timer deadline of the sending end to the NIC's heap of timers, unless the end has a pending entry
    /// at the same time or earlier. An earlier entry suffices, because the NIC reads the deadline again when this entry
    /// is due.
    #[inline]
    fn arm_sender(&mut self, cfg: &FlowConfig, slot: EndSlot) {
        let end = &mut self.senders[slot];
        if let Some((at, _)) = end.sender.deadline(cfg)
            && at < end.armed
        {
            end.armed = at;
            self.nic.timers.push(Reverse((at, end.peer.flow, TimerEnd::sending(slot))));
        }
    }

    /// Queues a packet without data from the sending end of a flow to its receiving end: a probe, or a request for
    /// credit.
    fn ask_receiver(&mut self, config: &HostConfig, slot: EndSlot, pdu: Pdu) {
        let peer = &self.senders[slot].peer;
        let hash = peer.hashes.data;
        self.nic.control.push_back(Packet {
            dst: peer.host,
            flow_hash: if P::SPRAYS { flow_hash(hash, pdu.path()) } else { hash },
            bytes: (config.ack_bytes as u16).max(MIN_FRAME),
            priority: config.control_priority,
            flags: Packet::<Segment<T>>::CONTROL,
            body: Segment { slot: peer.slot, pdu, in_band: T::default() },
        });
    }

    fn arm_receiver(&mut self, cfg: &FlowConfig, slot: EndSlot) {
        let end = &mut self.receivers[slot];
        if let Some(at) = end.receiver.deadline(cfg)
            && at < end.armed
        {
            end.armed = at;
            self.nic.timers.push(Reverse((at, end.peer.flow, TimerEnd::receiving(slot))));
        }
    }
}

impl<P: Protocol, C: CongestionControl, T: InBand> NicPartition<RcNics<P, C, T>> {
    /// Starts to send the flow whose sending end is in `slot`.
    fn begin(&mut self, index: SlotId, slot: EndSlot, now: Time) {
        let host = &mut self.hosts[index.index()];
        let end = &mut host.senders[slot];
        if host.nic.burst.flow == end.peer.flow {
            host.nic.burst.left = 0; // the turn was that of a finished flow with the same id
        }
        let follows = end.phase == Phase::Idle;
        if follows {
            end.phase = Phase::Active;
            end.sender.catch_up(&self.shared.params, now);
        }
        if let Some(stream) = &mut end.stream {
            end.sender.extend(stream.start());
        }
        if let Some(Processing::Kernel(stack)) = host.nic.processing.as_deref_mut() {
            let (at, cost) = stack.begin(end.peer.hashes.data, now);
            self.totals.cpu_send += cost.as_ps();
            // The timers of the flow begin with its first packet.
            if !end.queued {
                end.queued = true;
                host.nic.paced.push(Reverse((at, end.peer.flow, slot)));
            }
            return;
        }
        host.schedule(&self.shared.cfg, slot, now);
        if follows {
            host.arm_sender(&self.shared.cfg, slot);
        }
        if C::CREDIT {
            self.request_credit(index, slot, now);
        }
    }

    /// Handles a late control packet. It is late if its flow has retired, or if the next flow of the flow's persistent
    /// connection has started.
    #[cold]
    fn late_reply(&mut self, host: SlotId, slot: EndSlot, now: Time, pdu: Pdu) {
        let RcShared { cfg, params, .. } = &self.shared;
        let host = &mut self.hosts[host.index()];
        let end = &mut host.senders[slot];
        let Some(latest) = host.nic.connections.get(end.connection as usize).map(|connection| connection.slot) else {
            if end.stream.is_some() && pdu.kind() == PduKind::Cnp {
                end.sender.catch_up(params, now);
                end.sender.handle(cfg, params, now, pdu);
            }
            return; // a retired flow without persistent connection must not send: another flow may take its slot
        };
        if end.phase == Phase::Idle {
            if latest == slot && pdu.kind() == PduKind::Cnp {
                end.sender.catch_up(params, now);
                end.sender.handle(cfg, params, now, pdu);
            }
            return;
        }
        let Some([end, follower]) = host.senders.two_mut(slot, latest) else { return };
        end.sender.handle_after(&mut follower.sender, cfg, params, now, pdu);
        let active = follower.phase == Phase::Active;
        for slot in [Some(slot), active.then_some(latest)].into_iter().flatten() {
            host.schedule(cfg, slot, now);
            host.arm_sender(cfg, slot);
        }
    }

    /// Handles an entry of the heap of timers that is due.
    fn timer(&mut self, index: SlotId, (at, flow, end): TimerEntry) {
        let slot = end.slot();
        if C::CREDIT && end == TimerEnd::CREDIT {
            return self.grant(index, at);
        }
        if end.is_receiving() {
            self.receiver_timer(index, at, flow, slot);
            return;
        }
        let RcShared { cfg, params, .. } = &self.shared;
        let host = &mut self.hosts[index.index()];
        let end = &mut host.senders[slot];
        if end.armed != at || end.peer.flow != flow {
            return; // the timer of the flow end has been re-armed, or another flow has the slot now
        }
        end.armed = Time::MAX;
        if end.phase == Phase::Idle {
            return; // the flow has retired, or the stream has no message now
        }
        if end.sender.on_deadline(cfg, params, at) == Some(Timer::Retransmit) {
            end.timeouts += 1;
            self.totals.timeouts += 1;
        }
        if P::TRIMS
            && let Some(probe) = host.senders[slot].sender.probe(at)
        {
            host.ask_receiver(&self.shared.host, slot, probe);
        }
        host.arm_sender(cfg, slot);
        host.schedule(cfg, slot, at);
        if C::CREDIT {
            self.request_credit(index, slot, at);
        }
    }

    fn receiver_timer(&mut self, index: SlotId, at: Time, flow: FlowId, slot: EndSlot) {
        let end = &mut self.hosts[index.index()].receivers[slot];
        if end.armed != at || end.done || end.peer.flow != flow {
            return;
        }
        end.armed = Time::MAX;
        if let Some(pdu) = end.receiver.on_deadline(&self.shared.cfg, at) {
            // An ACK sent by the delayed-ACK timer does not count as a timeout.
            if pdu.kind() == PduKind::Nack {
                end.timeouts += 1;
                self.totals.timeouts += 1;
            }
            self.reply(index, slot, pdu, T::default());
        }
        self.hosts[index.index()].arm_receiver(&self.shared.cfg, slot);
    }

    /// Queues a control packet (such as an ACK) from the receiving end of a flow to its sending end. `in_band` is the
    /// telemetry of the data packet that triggered the control packet.
    #[inline]
    fn reply(&mut self, host: SlotId, slot: EndSlot, pdu: Pdu, in_band: T) {
        let config = &self.shared.host;
        let host = &mut self.hosts[host.index()];
        let peer = &host.receivers[slot].peer;
        let bytes = match pdu.kind() {
            PduKind::Nack => config.nack_bytes,
            PduKind::Cnp if C::CREDIT && pdu.is_credit() => config.ack_bytes,
            PduKind::Cnp => config.cnp_bytes,
            PduKind::Ack | PduKind::Data => config.ack_bytes,
        };
        host.nic.control.push_back(Packet {
            dst: peer.host,
            flow_hash: peer.hashes.control,
            bytes: (bytes as u16).max(MIN_FRAME),
            priority: config.control_priority,
            flags: Packet::<Segment<T>>::CONTROL,
            body: Segment { slot: peer.slot, pdu, in_band },
        });
    }

    #[inline]
    fn receive_data(&mut self, host: SlotId, now: Time, packet: &Packet<Segment<T>>) {
        let Segment { slot, pdu, in_band } = packet.body;
        let nic = &mut self.hosts[host.index()];
        let end = &mut nic.receivers[slot];
        let hash = end.peer.hashes.data;
        if packet.flow_hash != if P::SPRAYS { flow_hash(hash, pdu.path()) } else { hash } {
            return; // a packet of an earlier flow in this slot
        }
        let meta = RxMeta { marked: packet.is_marked(), cnp_held: now < nic.nic.next_cnp };
        let outcome = end.receiver.handle(&self.shared.cfg, now, pdu, meta);
        if !outcome.discarded {
            self.last_progress = self.last_progress.max(now);
        }
        if outcome.completed {
            end.done = true;
            let mut at = now;
            if let Some(Processing::Kernel(stack)) = nic.nic.processing.as_deref_mut() {
                let (woken, cost) = stack.finish(end.peer.hashes.data, now);
                self.totals.cpu_receive += cost.as_ps();
                at = woken;
            }
            match &mut end.stream {
                None => self.notices.push((nic.id, Notice::Finished { flow: end.peer.flow, at })),
                Some(stream) => {
                    end.done = false;
                    let notices = &mut self.notices;
                    stream.completed(end.receiver.recovery_mut(), |flow| {
                        notices.push((nic.id, Notice::Finished { flow, at }));
                    });
                }
            }
        }
        if outcome.notify {
            self.totals.notifications += 1;
            nic.nic.next_cnp = now + self.shared.cfg.nic_cnp_interval;
            self.reply(host, slot, Pdu::cnp(), T::default());
        }
        if let Some(pdu) = outcome.reply {
            self.reply(host, slot, pdu, in_band);
        }
        if P::receiver_has_timer(&self.shared.cfg) && !outcome.completed {
            self.hosts[host.index()].arm_receiver(&self.shared.cfg, slot);
        }
    }

    /// Handles a data packet whose payload a switch has trimmed.
    #[cold]
    fn receive_trimmed(&mut self, host: SlotId, now: Time, packet: &Packet<Segment<T>>) {
        let Segment { slot, pdu, .. } = packet.body;
        if !packet.is_trimmed() || packet.is_returned() || pdu.kind() != PduKind::Data {
            return;
        }
        let end = &mut self.hosts[host.index()].receivers[slot];
        if packet.flow_hash != flow_hash(end.peer.hashes.data, pdu.path()) {
            return;
        }
        if C::CREDIT {
            self.asks(host, now, packet);
        }
        let end = &mut self.hosts[host.index()].receivers[slot];
        if let Some(nack) = end.receiver.handle_trimmed(&self.shared.cfg, now, pdu) {
            self.reply(host, slot, nack, T::default());
        }
    }

    #[inline]
    fn receive_reply(&mut self, host: SlotId, now: Time, packet: &Packet<Segment<T>>) {
        let Segment { slot, pdu, ref in_band } = packet.body;
        let RcShared { cfg, params, .. } = &self.shared;
        let nic = &mut self.hosts[host.index()];
        let end = &mut nic.senders[slot];
        if end.peer.hashes.control != packet.flow_hash {
            return; // a packet of an earlier flow in this slot
        }
        if end.phase != Phase::Active {
            return self.late_reply(host, slot, now, pdu);
        }
        match in_band.telemetry() {
            None => end.sender.handle(cfg, params, now, pdu),
            Some(telemetry) => end.sender.handle_with(cfg, params, now, pdu, telemetry),
        };
        nic.schedule(cfg, slot, now);
        nic.arm_sender(cfg, slot);
        if C::CREDIT {
            self.request_credit(host, slot, now);
        }
    }

    #[inline]
    fn data_packet(&mut self, host: SlotId, slot: EndSlot, now: Time) -> Option<Packet<Segment<T>>> {
        let RcShared { cfg, params, .. } = &self.shared;
        let host = &mut self.hosts[host.index()];
        let end = &mut host.senders[slot];
        let desc = match &end.stream {
            None => end.sender.poll_transmit(cfg, params, now),
            Some(stream) => stream.poll_transmit(&mut end.sender, cfg, params, now),
        };
        end.queued = false;
        let packet = desc.map(|desc| {
            end.retransmitted += u32::from(desc.retransmission);
            self.totals.retransmitted += u64::from(desc.retransmission);
            self.totals.data += 1;
            if let Some(Processing::Kernel(stack)) = host.nic.processing.as_deref_mut() {
                let cost = stack.send(end.peer.hashes.data, now, desc.payload);
                self.totals.cpu_send += cost.as_ps();
            }
            let hash = end.peer.hashes.data;
            Packet {
                dst: end.peer.host,
                flow_hash: if P::SPRAYS { flow_hash(hash, desc.pdu.path()) } else { hash },
                bytes: ((desc.payload + cfg.header) as u16).max(MIN_FRAME),
                priority: DATA_PRIORITY,
                flags: 0,
                body: Segment { slot: end.peer.slot, pdu: desc.pdu, in_band: T::default() },
            }
        });
        host.schedule(cfg, slot, now);
        if packet.is_some() {
            host.arm_sender(cfg, slot);
        }
        packet
    }

    /// Whether a flow may send a packet now, as far as the NIC's blocks are concerned. If they are busy, the flow waits
    /// like a paced one until they are free.
    #[cold]
    #[inline(never)]
    fn enter(&mut self, index: SlotId, slot: EndSlot, now: Time) -> bool {
        let host = &mut self.hosts[index.index()];
        let Some(Processing::Pipeline(pipeline)) = host.nic.processing.as_deref_mut() else { return true };
        let Err(at) = pipeline.send(slot, now) else { return true };
        host.nic.paced.push(Reverse((at, host.senders[slot].peer.flow, slot)));
        false
    }

    /// Passes a packet to the transport.
    #[inline(always)]
    fn process(&mut self, host: SlotId, now: Time, packet: &Packet<Segment<T>>) {
        match packet.body.pdu.kind() {
            PduKind::Data if C::CREDIT && self.asks(host, now, packet) => {}
            PduKind::Data => self.receive_data(host, now, packet),
            _ => self.receive_reply(host, now, packet),
        }
    }

    /// Passes a packet to the host's kernel or the blocks of its NIC, which pass it to the transport later.
    #[cold]
    #[inline(never)]
    fn arrive(&mut self, host: SlotId, now: Time, packet: &Packet<Segment<T>>) {
        let RcShared { cfg, .. } = &self.shared;
        let Host { nic, senders, receivers, .. } = &mut self.hosts[host.index()];
        let slot = packet.body.slot;
        let is_data = packet.body.pdu.kind() == PduKind::Data;
        match nic.processing.as_deref_mut() {
            Some(Processing::Kernel(stack)) if is_data => {
                let hash = receivers[slot].peer.hashes.data;
                let payload = u32::from(packet.bytes).saturating_sub(cfg.header).min(cfg.mtu);
                self.totals.cpu_receive += stack.arrive(hash, now, (payload, 0), *packet).as_ps();
            }
            Some(Processing::Kernel(stack)) => {
                // An acknowledgement acknowledges one packet.
                let hash = senders[slot].peer.hashes.data;
                self.totals.cpu_send += stack.arrive(hash, now, (0, cfg.mtu), *packet).as_ps();
            }
            Some(Processing::Pipeline(pipeline)) => pipeline.arrive(slot, is_data, now, *packet),
            None => {}
        }
    }

    /// Lets a flow that has just sent a packet continue its turn: if the flow is ready and may send further packets in
    /// this turn (`nic_burst`), it goes to the front of the queue of ready flows.
    #[inline]
    fn keep_turn(&mut self, host: SlotId, slot: EndSlot) {
        let burst = self.shared.host.burst;
        if burst == 1 {
            return;
        }
        let host = &mut self.hosts[host.index()];
        let (nic, flow) = (&mut host.nic, host.senders[slot].peer.flow);
        let left = if nic.burst.flow == flow && nic.burst.left > 0 { nic.burst.left } else { burst } - 1;
        nic.burst = Burst { flow, left };
        if left > 0 && nic.ready.back() == Some(&slot) {
            nic.ready.pop_back();
            nic.ready.push_front(slot);
        }
    }
}

impl<P: Protocol, C: CongestionControl, T: InBand> HostPartition for NicPartition<RcNics<P, C, T>> {
    type Body = Segment<T>;

    // `inline(always)`: see the message NIC.
    #[inline(always)]
    fn receive(&mut self, host: SlotId, now: Time, packet: &Packet<Segment<T>>) {
        self.totals.delivered += 1;
        self.totals.marked += u64::from(packet.is_marked());
        if packet.is_void() {
            if P::TRIMS {
                self.receive_trimmed(host, now, packet);
            }
            // Other RC-like transports have no packets without payload, so they treat a trimmed packet as lost. A
            // flooded copy is for another host.
        } else if self.hosts[host.index()].nic.processing.is_some() {
            self.arrive(host, now, packet);
        } else {
            self.process(host, now, packet);
        }
    }

    #[inline]
    fn next_wake(&self, host: SlotId) -> Time {
        let host = &self.hosts[host.index()];
        let timer = host.nic.timers.peek().map_or(Time::MAX, |Reverse(timer)| timer.0);
        let paced = host.nic.paced.peek().map_or(Time::MAX, |Reverse(paced)| paced.0);
        let next = host.next_start().min(timer).min(paced);
        match &host.nic.processing {
            None => next,
            Some(processing) => next.min(processing.next()),
        }
    }

    fn wake(&mut self, index: SlotId, now: Time) {
        let host = &mut self.hosts[index.index()];
        if let Some(Start { slot, receiving, .. }) = host.starts.pop_front_if(|start| start.at <= now) {
            if receiving {
                host.arm_receiver(&self.shared.cfg, slot)
            } else {
                self.begin(index, slot, now)
            }
            return;
        }
        if let Some(packet) = host.nic.processing.as_mut().and_then(|processing| processing.take(now)) {
            self.process(index, now, &packet);
            return;
        }
        if host.nic.timers.peek().is_some_and(|Reverse(timer)| timer.0 <= now)
            && let Some(Reverse(entry)) = host.nic.timers.pop()
        {
            self.timer(index, entry);
            return;
        }
        if host.nic.paced.peek().is_some_and(|Reverse(paced)| paced.0 <= now)
            && let Some(Reverse((_, _, slot))) = host.nic.paced.pop()
        {
            host.nic.ready.push_back(slot);
        }
    }

    #[inline]
    fn wants_to_transmit(&self, host: SlotId) -> bool {
        let nic = &self.hosts[host.index()].nic;
        !nic.control.is_empty() || !nic.ready.is_empty()
    }

    #[inline(always)]
    fn transmit(&mut self, index: SlotId, now: Time, paused: u8) -> Option<Packet<Segment<T>>> {
        let nic = &mut self.hosts[index.index()].nic;
        if paused & (1 << self.shared.host.control_priority) == 0
            && let Some(packet) = nic.control.pop_front()
        {
            self.totals.control += 1;
            return Some(packet);
        }
        if paused & (1 << DATA_PRIORITY) != 0 {
            return None;
        }
        while let Some(slot) = self.hosts[index.index()].nic.ready.pop_front() {
            if self.hosts[index.index()].nic.processing.is_some() && !self.enter(index, slot, now) {
                continue;
            }
            if let Some(packet) = self.data_packet(index, slot, now) {
                self.keep_turn(index, slot);
                return Some(packet);
            }
        }
        None
    }
}
