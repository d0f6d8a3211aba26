//! Why messages take longer than on an empty fabric: how long their packets waited in queues and for pauses, and what
//! was retransmitted. The frames of all ports are followed from port to port.

use rnic_fabric::{Body, Fate, PortId, Tapped, Topology};
use rnic_transport::Time;
use rnic_workload::MessageDelays;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Number of packets of a connection, before the latest one, of which the first transmission is known.
const PACKETS: usize = 1 << 14;
/// Number of intervals of retransmission of a connection, pauses of a port, and arrivals at a host that are known.
const KEPT: usize = 1 << 10;
/// Number of packets inside switches above which those are forgotten that arrived [`LONG`] ago: switches removed them
/// without a record.
const INSIDE: usize = 1 << 20;
const LONG: Time = Time::from_us(100_000);
/// PSNs have 24 bits.
const PSNS: u64 = 1 << 24;

/// A packet inside a node: node, receiving host, connection (slot at the receiver) and PSN.
type Key = (u32, u32, u32, u64);

/// How a transmission of a packet has gone so far.
#[derive(Clone, Copy, Debug)]
struct Journey {
    /// Time at which the last bit arrived at the node.
    arrived: Time,
    /// The sender's port, and the time at which it first sent the packet.
    source: PortId,
    first: Time,
    /// Time at which the sender began this transmission of the packet.
    sent: Time,
    connection: (u32, u32),
    queued: Time,
    paused: Time,
}

/// What is known about the packets of a connection.
#[derive(Debug, Default)]
struct Connection {
    /// The PSN of the first packet in `first`.
    base: u64,
    /// For each packet, the time of its first transmission.
    first: VecDeque<Time>,
    /// Intervals from the first transmission of a packet to a later one, in order of their ends; overlapping ones that
    /// follow each other are joined.
    recovering: VecDeque<(Time, Time)>,
}

impl Connection {
    /// Notes that the packet is sent at `now`; returns the time of its first transmission.
    fn send(&mut self, psn: u64, now: Time) -> Time {
        if self.first.is_empty() {
            self.base = psn;
        }
        let place = psn.wrapping_sub(self.base) % PSNS;
        if place >= PSNS / 2 {
            return now; // a packet before those that are known
        }
        if let Some(first) = self.first.get(place as usize).copied() {
            self.recover(first, now);
            return first;
        }
        if place != self.first.len() as u64 {
            self.first.clear();
            self.base = psn;
        }
        self.first.push_back(now);
        if self.first.len() > PACKETS {
            self.first.pop_front();
            self.base = (self.base + 1) % PSNS;
        }
        now
    }

    fn recover(&mut self, from: Time, to: Time) {
        match self.recovering.back_mut() {
            Some((begin, end)) if from <= *end => (*begin, *end) = (from.min(*begin), to),
            _ => self.recovering.push_back((from, to)),
        }
        if self.recovering.len() > KEPT {
            self.recovering.pop_front();
        }
    }
}

/// The pauses of a port in one priority.
#[derive(Debug, Default)]
struct Pauses {
    since: Option<Time>,
    ended: VecDeque<(Time, Time)>,
}

/// Length of the part of the union of these intervals, in order, that lies between `from` and `to`.
fn overlap(intervals: impl DoubleEndedIterator<Item = (Time, Time)>, from: Time, to: Time) -> Time {
    let (mut sum, mut until) = (Time::ZERO, to);
    for (begin, end) in intervals.rev() {
        let (begin, end) = (begin.max(from), end.min(until));
        if begin < end {
            sum = sum.saturating_add(end.saturating_sub(begin));
            until = begin;
        }
    }
    sum
}

impl Pauses {
    fn between(&self, from: Time, to: Time) -> Time {
        let open = self.since.map(|since| (since, Time::MAX));
        overlap(self.ended.iter().copied().chain(open), from, to)
    }
}

/// Follows the packets of all messages.
#[derive(Debug)]
pub(super) struct DelayTracker {
    topology: Arc<Topology>,
    inside: BTreeMap<Key, VecDeque<Journey>>,
    connections: BTreeMap<(u32, u32), Connection>,
    /// For each host, the latest arrivals of data packets.
    arrivals: BTreeMap<u32, VecDeque<Journey>>,
    pauses: BTreeMap<(PortId, u8), Pauses>,
}

impl DelayTracker {
    pub(super) fn new(topology: Arc<Topology>) -> DelayTracker {
        let (inside, connections, arrivals, pauses) = Default::default();
        DelayTracker { topology, inside, connections, arrivals, pauses }
    }

    /// Notes that a port has transmitted or dropped a frame. Frames must come in order of time.
    pub(super) fn note<B: Body>(&mut self, port: PortId, frame: &Tapped<B>) {
        let packet = &frame.packet;
        if packet.is_pause() {
            if let Fate::Arrives(at) = frame.fate {
                self.pause(self.topology.port(port).peer, packet.paused_priorities(), at);
            }
            return;
        }
        let Some((slot, psn)) = packet.body.place() else { return };
        let connection = (packet.dst.0, slot);
        let node = self.topology.port(port).node;
        let key = |node: u32| (node, packet.dst.0, slot, psn);
        let is_dropped = frame.fate == Fate::Dropped;
        let journey = if self.topology.is_host(node) && !is_dropped {
            let first = self.connections.entry(connection).or_default().send(psn, frame.at);
            let (source, sent, zero) = (port, frame.at, Time::ZERO);
            Journey { arrived: frame.at, source, first, sent, connection, queued: zero, paused: zero }
        } else {
            let Some(journey) = self.leave(key(node)) else { return };
            if is_dropped {
                return;
            }
            let waited = frame.at.saturating_sub(journey.arrived);
            let pauses = self.pauses.get(&(port, packet.priority));
            let paused = pauses.map_or(Time::ZERO, |pauses| pauses.between(journey.arrived, frame.at));
            let queued = journey.queued.saturating_add(waited.saturating_sub(paused));
            Journey { queued, paused: journey.paused.saturating_add(paused), ..journey }
        };
        let Fate::Arrives(arrived) = frame.fate else { return };
        let journey = Journey { arrived, ..journey };
        let peer = self.topology.peer_node(port);
        if self.topology.is_host(peer) {
            let arrivals = self.arrivals.entry(peer).or_default();
            arrivals.push_back(journey);
            if arrivals.len() > KEPT {
                arrivals.pop_front();
            }
        } else {
            self.inside.entry(key(peer)).or_default().push_back(journey);
            if self.inside.len() > INSIDE {
                let old = frame.at.saturating_sub(LONG);
                self.inside.retain(|_, packets| packets.back().is_some_and(|packet| packet.arrived >= old));
            }
        }
    }

    fn leave(&mut self, key: Key) -> Option<Journey> {
        let packets = self.inside.get_mut(&key)?;
        let journey = packets.pop_front();
        if packets.is_empty() {
            self.inside.remove(&key);
        }
        journey
    }

    /// Notes that exactly the priorities of the bitmap `paused` are paused at the transmitter of a port from `at` on.
    fn pause(&mut self, port: PortId, paused: u8, at: Time) {
        for priority in 0..8 {
            let is_paused = paused & (1 << priority) != 0;
            if !is_paused && !self.pauses.contains_key(&(port, priority)) {
                continue;
            }
            let pauses = self.pauses.entry((port, priority)).or_default();
            match pauses.since {
                None if is_paused => pauses.since = Some(at),
                Some(since) if !is_paused => {
                    pauses.since = None;
                    pauses.ended.push_back((since, at));
                    if pauses.ended.len() > KEPT {
                        pauses.ended.pop_front();
                    }
                }
                _ => {}
            }
        }
    }

    /// Notes that the receiving end of a connection has been removed, so that another may take its slot.
    pub(super) fn forget(&mut self, host: u32, slot: u32) {
        self.connections.remove(&(host, slot));
    }

    /// Why the message that started at `start` was complete at `host` not before `delivered`, when the last packet that
    /// it needed arrived; `None` if no packet arrived at this time. `first_packets` is the time that its other packets
    /// take on the sender's link, and `ideal` the time of the message on an empty fabric.
    pub(super) fn of_message(
        &self, host: u32, (start, delivered): (Time, Time), (first_packets, ideal): (Time, Time), priority: u8,
    ) -> Option<MessageDelays> {
        let journey = self.arrivals.get(&host)?.iter().rev().find(|journey| journey.arrived <= delivered)?;
        if journey.arrived != delivered {
            return None;
        }
        let Journey { arrived, source, first, sent, connection, queued, paused } = *journey;
        // On an empty fabric, too, packets wait for those before them if a link is slower than the sender's.
        let way = arrived.saturating_sub(sent).saturating_sub(queued).saturating_sub(paused);
        let own = ideal.saturating_sub(first_packets).saturating_sub(way);
        let at_sender = self.pauses.get(&(source, priority));
        let recovering = self.connections.get(&connection).map(|of| of.recovering.iter().copied());
        Some(MessageDelays {
            queued: queued.saturating_sub(own),
            paused,
            resent: sent.saturating_sub(first.max(start)),
            paused_at_sender: at_sender.map_or(Time::ZERO, |pauses| pauses.between(start, first)),
            recovering: recovering.map_or(Time::ZERO, |intervals| overlap(intervals, start, first)),
        })
    }
}
