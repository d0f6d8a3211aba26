//! The NIC of a simulated host with a message transport: a [`MessageNic`] that runs the transport's program, connected
//! to the simulated fabric.

use super::MessageNics;
use super::packet::{Framing, MessageSegment, host_of, ip};
use crate::host::ids::{EndSlot, FlowId};
use crate::host::partition::{Host, NicPartition, Notice, Start};
use crate::in_band::InBand;
use rnic_fabric::{HostPartition, MIN_FRAME, Packet, SlotId};
use rnic_transport::Time;
use rnic_transport::message::buffers::NoBuffer;
use rnic_transport::message::nic::{Message, MessageNic, NicConfig, NicEvent, Outgoing, Received};
use rnic_transport::message::{Arrival, Pipeline};
use std::collections::VecDeque;

/// The NIC of one host, with a message transport.
pub(crate) struct HostNic<P: Pipeline, T> {
    /// The NIC of the message transport. The tag by which it names a message is the slot of the message's sending end.
    pub(super) engine: MessageNic<P>,
    /// Sending ends whose messages wait for a free transmit buffer of the NIC, in order of arrival.
    waiting: VecDeque<EndSlot>,
    /// A packet that `engine` has issued but that waits because PFC pauses its priority.
    held: Option<Packet<MessageSegment<P::Header, T>>>,
    /// Whether the NIC has a packet that it can send now.
    ready: bool,
}

impl<P: Pipeline, T> HostNic<P, T> {
    pub(super) fn new(cfg: &NicConfig, program: P) -> Self {
        HostNic { engine: MessageNic::new(cfg, program), waiting: VecDeque::new(), held: None, ready: false }
    }
}

/// Counters of invalid actions of a transport program, which the compiler cannot exclude in a P4 program.
#[derive(Clone, Copy, Default)]
pub(super) struct InvalidActions {
    /// Packets to an IP address that no host has. They are not sent.
    pub(super) unknown_address: u64,
    /// Packets with a priority that the run does not use. They travel in the priority that is served last.
    pub(super) invalid_priority: u64,
    /// Completed messages, and packets with payload, that belong to no flow of the run.
    pub(super) unknown_flow: u64,
}

/// Settings and counters that the message NICs of one fabric partition share.
pub(crate) struct MessageShared {
    pub(super) cfg: NicConfig,
    pub(super) framing: Framing,
    /// Number of hosts in all partitions of the fabric.
    pub(super) all_hosts: u32,
    pub(super) invalid: InvalidActions,
}

impl<P: Pipeline, T: InBand> Host<MessageNics<P, T>> {
    /// Hands the message whose sending end is in `slot` to the NIC; `false` if the NIC has no buffer for it.
    fn send(&mut self, cfg: &NicConfig, slot: EndSlot, now: Time) -> bool {
        let end = &self.senders[slot];
        let message = Message { dst_ip: ip(end.dst), bytes: end.bytes as u32, tag: slot.0, ..Message::default() };
        match self.nic.engine.send(cfg, now, &message) {
            Ok(_) => true,
            Err(NoBuffer::NoneFree { .. } | NoBuffer::TooLong { .. }) => false,
        }
    }
}

impl<P: Pipeline, T: InBand> NicPartition<MessageNics<P, T>> {
    /// Counts the payload that has arrived, as the transport program reports it in `received`, and leaves a note if the
    /// message is complete.
    #[inline]
    fn arrived(&mut self, host: SlotId, slot: EndSlot, data_hash: u32, received: &Received, now: Time) {
        let host = &mut self.hosts[host.index()];
        let invalid = &mut self.shared.invalid;
        let Some(end) = host.receivers.get_mut(slot) else {
            invalid.unknown_flow += 1;
            return;
        };
        self.last_progress = self.last_progress.max(now);
        if end.data_hash != data_hash {
            // The packet belongs to an earlier message, which had this slot and has retired.
            invalid.unknown_flow += u64::from(received.completed.is_some());
            return;
        }
        end.delivered = (end.delivered + u64::from(received.new_bytes)).min(end.bytes);
        let Some(message) = received.completed else { return };
        if end.done || u64::from(message.bytes) != end.bytes {
            invalid.unknown_flow += 1;
        } else {
            end.done = true;
            self.notices.push((host.id, Notice::Finished { flow: end.flow, at: now }));
        }
    }

    /// Processes the events that the last call of the message transport's NIC caused, and updates whether the NIC can
    /// send a packet now.
    #[inline]
    fn follow_up(&mut self, host: SlotId, now: Time) {
        while let Some(event) = self.hosts[host.index()].nic.engine.poll_event() {
            self.event(host, event, now);
        }
        let nic = &mut self.hosts[host.index()].nic;
        nic.ready = nic.held.is_some() || nic.engine.next_transmit().is_some_and(|at| at <= now);
    }

    fn event(&mut self, index: SlotId, event: NicEvent, now: Time) {
        let host = &mut self.hosts[index.index()];
        let flow = |tag: u32| -> FlowId { host.senders[EndSlot(tag)].flow };
        let notice = match event {
            NicEvent::Sent { tag } => Notice::Sent { flow: flow(tag) },
            NicEvent::Aborted { tag } => Notice::Aborted { flow: flow(tag) },
            NicEvent::Timeout { tag } => {
                self.totals.timeouts += 1;
                host.senders[EndSlot(tag)].timeouts += 1;
                return;
            }
            NicEvent::ReceiveExpired { .. } => return,
        };
        self.notices.push((host.id, notice));
        // The transmit buffer of the message is free now: hand waiting messages to the NIC.
        while let Some(slot) = host.nic.waiting.front().copied() {
            if !host.send(&self.shared.cfg, slot, now) {
                break;
            }
            host.nic.waiting.pop_front();
        }
    }

    #[inline]
    fn frame(&mut self, host: SlotId, out: &Outgoing<P::Header>) -> Option<Packet<MessageSegment<P::Header, T>>> {
        let Framing { header, control, priorities } = self.shared.framing;
        let written = P::header_bytes(&out.header);
        let bytes = if out.is_control { written.max(control) } else { out.payload + written.max(header) };
        let dst = host_of(out.dst_ip);
        if dst.0 >= self.shared.all_hosts {
            self.shared.invalid.unknown_address += 1;
            return None;
        }
        self.shared.invalid.invalid_priority += u64::from(out.priority >= priorities);
        let host = &mut self.hosts[host.index()];
        let src = host.id;
        let (slot, flow_hash, flags) = if out.is_control {
            self.totals.control += 1;
            (EndSlot::NONE, src.0.wrapping_mul(0x9e37_79b9) ^ dst.0.wrapping_mul(0x85eb_ca6b), Packet::<()>::CONTROL)
        } else {
            self.totals.data += 1;
            self.totals.retransmitted += u64::from(out.is_rtx);
            let end = &mut host.senders[EndSlot(out.tag)];
            end.retransmitted += u32::from(out.is_rtx);
            (end.receive_slot, end.data_hash, 0)
        };
        Some(Packet {
            dst,
            flow_hash,
            bytes: (bytes as u16).max(MIN_FRAME),
            priority: (priorities - 1).saturating_sub(out.priority),
            flags,
            body: MessageSegment { src, slot, header: out.header, in_band: T::default() },
        })
    }

    /// Takes the next packet to send, even if PFC pauses its priority.
    #[inline]
    fn next_packet(&mut self, index: SlotId, now: Time) -> Option<Packet<MessageSegment<P::Header, T>>> {
        if let Some(packet) = self.hosts[index.index()].nic.held.take() {
            return Some(packet);
        }
        loop {
            let nic = &mut self.hosts[index.index()].nic.engine;
            if let Some(out) = nic.poll_transmit(&self.shared.cfg, now) {
                match self.frame(index, &out) {
                    None => continue,
                    packet => return packet,
                }
            }
            nic.next_transmit().filter(|at| *at <= now)?;
        }
    }
}

impl<P: Pipeline, T: InBand> HostPartition for NicPartition<MessageNics<P, T>> {
    type Body = MessageSegment<P::Header, T>;

    // `inline(always)`, because a host with a stage calls the functions too: a function with two callers would be a
    // call for every packet of the other hosts.
    #[inline(always)]
    fn receive(&mut self, host: SlotId, now: Time, packet: &Packet<Self::Body>) {
        self.totals.delivered += 1;
        self.totals.marked += u64::from(packet.is_marked());
        let MessageSegment { slot, header, in_band, .. } = &packet.body;
        let arrival = Arrival {
            now,
            frame_bytes: packet.bytes,
            trimmed: packet.is_trimmed(),
            returned: packet.is_returned(),
            marked: packet.is_marked(),
            telemetry: in_band.telemetry(),
        };
        let received = self.hosts[host.index()].nic.engine.receive(&self.shared.cfg, header, &arrival);
        if received.new_bytes > 0 {
            self.arrived(host, *slot, packet.flow_hash, &received, now);
        }
        self.follow_up(host, now);
    }

    #[inline]
    fn next_wake(&self, host: SlotId) -> Time {
        let host = &self.hosts[host.index()];
        let timer = host.nic.engine.deadline().unwrap_or(Time::MAX);
        let paced = if host.nic.ready { None } else { host.nic.engine.next_transmit() };
        host.next_start().min(timer).min(paced.unwrap_or(Time::MAX))
    }

    fn wake(&mut self, index: SlotId, now: Time) {
        let cfg = &self.shared.cfg;
        let host = &mut self.hosts[index.index()];
        if let Some(Start { slot, .. }) = host.starts.pop_front_if(|start| start.at <= now) {
            if !host.nic.waiting.is_empty() || !host.send(cfg, slot, now) {
                host.nic.waiting.push_back(slot);
            }
        } else if host.nic.engine.deadline().is_some_and(|at| at <= now) {
            host.nic.engine.on_deadline(cfg, now);
        }
        self.follow_up(index, now);
    }

    #[inline]
    fn wants_to_transmit(&self, host: SlotId) -> bool {
        self.hosts[host.index()].nic.ready
    }

    #[inline(always)]
    fn transmit(&mut self, index: SlotId, now: Time, paused: u8) -> Option<Packet<Self::Body>> {
        let packet = self.next_packet(index, now);
        if packet.as_ref().is_some_and(|packet| paused & (1 << packet.priority) != 0) {
            self.hosts[index.index()].nic.held = packet;
            self.follow_up(index, now);
            return None;
        }
        self.follow_up(index, now);
        packet
    }
}
