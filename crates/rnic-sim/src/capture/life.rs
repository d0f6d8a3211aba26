//! The life of captured packets: when each was sent, arrived, waited in a switch, was marked, trimmed, dropped or lost.

use super::{Capture, Content, Frame};
use rnic_fabric::{Fate, Packet, PortId};
use rnic_transport::{PduKind, Time};
use std::collections::{BTreeMap, VecDeque};

/// Something that happens to a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// Its last bit arrives at a port.
    Arrived,
    /// It waits in a switch for the output; `wait` is the time until it is sent.
    Queued,
    /// The switch marks it "congestion experienced" at the output.
    Marked,
    /// The switch removes its payload at the output.
    Trimmed,
    /// The switch sends its header back to its sender.
    Returned,
    /// The node drops it at the port at which it arrived.
    Dropped,
    /// Its first bit leaves a port.
    Sent,
    /// The link loses it, or is down.
    Lost,
}

impl Event {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Event::Arrived => "arrived",
            Event::Queued => "queued",
            Event::Marked => "marked",
            Event::Trimmed => "trimmed",
            Event::Returned => "returned",
            Event::Dropped => "dropped",
            Event::Sent => "sent",
            Event::Lost => "lost",
        }
    }
}

/// An event in the life of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketEvent {
    /// When it happened.
    pub time: Time,
    /// The port at which it happened.
    pub port: PortId,
    /// What happened.
    pub event: Event,
    /// Id of the packet's flow; `None` for a pause frame.
    pub flow: Option<u32>,
    /// Kind of packet: `data`, `ack`, `nack`, `cnp` or `pause`; of simulated NICs and of programs `data` or
    /// `control`.
    pub kind: &'static str,
    /// PSN of a data packet; the next expected PSN of an ACK or NACK; `None` for other packets.
    pub psn: Option<u32>,
    /// Length of the frame in bytes, as the simulator computes with it.
    pub bytes: u16,
    /// Priority of the packet; of a pause frame, the bitmap of the paused priorities.
    pub priority: u8,
    /// Time in the switch before the packet was sent, for `queued`.
    pub wait: Option<Time>,
}

/// What identifies a packet at a node: index of the node, flow, kind and PSN.
type Key = (u32, Option<u32>, &'static str, Option<u32>);

/// A packet that has arrived at a node and has not left it.
#[derive(Clone, Copy)]
struct Inside {
    arrived: Time,
    flags: u8,
}

impl Capture {
    /// The events in the life of the captured packets, in order of time. A capture of one link has no events inside
    /// switches, because it does not see where packets come from.
    pub fn events(&self) -> Vec<PacketEvent> {
        let mut events = Vec::new();
        for frame in &self.frames {
            let sent = self.event(frame);
            events.push(sent);
            if let Fate::Arrives(at) = frame.fate {
                let peer = self.topology.port(sent.port).peer;
                events.push(PacketEvent { time: at, port: peer, event: Event::Arrived, ..sent });
            }
            if matches!(frame.fate, Fate::Lost | Fate::LinkDown) {
                events.push(PacketEvent { event: Event::Lost, ..sent });
            }
        }
        events.sort_by_key(|event| (event.time, event.event, event.port));
        if self.is_everywhere {
            events.extend(self.inside_switches());
            events.sort_by_key(|event| (event.time, event.event, event.port));
        }
        events
    }

    /// Whether the capture ended at its limit, so that later events are missing.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The name of a port in files.
    pub fn port_name(&self, port: PortId) -> String {
        self.topology.port_name(port)
    }

    /// The name of a port's node.
    pub fn node_name(&self, port: PortId) -> &str {
        &self.topology.names[self.topology.port(port).node as usize]
    }

    /// A frame as an event: it was sent, or dropped.
    fn event(&self, frame: &Frame) -> PacketEvent {
        let (flow, kind, psn, priority) = match frame.content {
            Content::Pause(mask) => (None, "pause", None, mask),
            Content::Packet { record, priority, pdu, .. } => {
                let kind = match pdu.kind() {
                    PduKind::Data => "data",
                    PduKind::Ack => "ack",
                    PduKind::Nack => "nack",
                    PduKind::Cnp => "cnp",
                };
                let psn = (pdu.kind() != PduKind::Cnp).then(|| pdu.psn().value());
                (Some(record), kind, psn, priority)
            }
            Content::Program(packet) => {
                (None, if packet.is_control { "control" } else { "data" }, None, packet.priority)
            }
            Content::Nic(packet) => (None, if packet.is_control { "control" } else { "data" }, None, packet.priority),
        };
        let event = if frame.fate == Fate::Dropped { Event::Dropped } else { Event::Sent };
        let port = self.ports[frame.interface as usize];
        PacketEvent { time: frame.at, port, event, flow, kind, psn, bytes: frame.bytes, priority, wait: None }
    }

    /// The events inside switches, from the arrival of each packet and its departure. Copies of a packet that are in a
    /// switch at the same time leave it in order of arrival.
    fn inside_switches(&self) -> Vec<PacketEvent> {
        let mut inside: BTreeMap<Key, VecDeque<Inside>> = BTreeMap::new();
        let mut arrivals: Vec<(Time, Key, u8)> = Vec::new();
        for frame in &self.frames {
            let event = self.event(frame);
            if let Fate::Arrives(at) = frame.fate {
                let node = self.topology.peer_node(event.port);
                arrivals.push((at, (node, event.flow, event.kind, event.psn), frame.flags));
            }
        }
        arrivals.sort_by_key(|(at, ..)| *at);
        let mut arrivals = arrivals.into_iter().peekable();
        let mut events = Vec::new();
        for frame in &self.frames {
            while let Some((arrived, key, flags)) = arrivals.next_if(|(at, ..)| *at <= frame.at) {
                inside.entry(key).or_default().push_back(Inside { arrived, flags });
            }
            let event = self.event(frame);
            let node = self.topology.port(event.port).node;
            let waiting = inside.get_mut(&(node, event.flow, event.kind, event.psn));
            let before = waiting.and_then(VecDeque::pop_front);
            if let Some(before) = before.filter(|_| event.event == Event::Sent && !self.topology.is_host(node)) {
                events.extend(changes(&event, before, frame.flags));
            }
        }
        events
    }
}

/// What a switch did to a packet between its arrival and its departure `sent`, when it had the flags `flags`.
fn changes(sent: &PacketEvent, before: Inside, flags: u8) -> impl Iterator<Item = PacketEvent> + use<> {
    let new = flags & !before.flags;
    let wait = sent.time.saturating_sub(before.arrived);
    let sent = *sent;
    let queued = (wait > Time::ZERO).then_some(PacketEvent {
        time: before.arrived,
        event: Event::Queued,
        wait: Some(wait),
        ..sent
    });
    let of_flag = move |(flag, event)| (new & flag != 0).then_some(PacketEvent { event, ..sent });
    let flags = [
        (Packet::<u32>::MARKED, Event::Marked),
        (Packet::<u32>::TRIMMED, Event::Trimmed),
        (Packet::<u32>::RETURNED, Event::Returned),
    ];
    queued.into_iter().chain(flags.into_iter().filter_map(of_flag))
}
