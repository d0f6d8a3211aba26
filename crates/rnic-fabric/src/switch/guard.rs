//! What a switch does beside forwarding: it drops packets by a rule, floods packets whose MAC table entry is missing,
//! and discards the packets of a port on which a PFC watchdog has found a storm.
//!
//! A switch without such work has no guard, and its packets skip this code.

use super::Switch;
use crate::buffer::Buffer;
use crate::event::EventList;
use crate::ids::HostId;
use crate::packet::{Body, Packet};
use crate::port::Ports;
use crate::routing::Routes;
use std::collections::BTreeMap;

/// What a switch does with the lossless packets of a port on which its PFC watchdog has found a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mitigation {
    /// It ignores the pause frames that arrive on the port, drops the packets that wait for the port, and drops every
    /// further packet to and from the port.
    Drop,
    /// It ignores the pause frames that arrive on the port, and forwards packets as if there were none.
    Forward,
}

/// What a switch does with packets for an attached host whose MAC table entry is missing, while its ARP entry is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnknownMac {
    /// It sends a copy to every port except the one on which the packet arrived.
    Flood,
    /// It drops the packet.
    Drop,
}

/// Drops one of every `every` packets that arrive on a port.
#[derive(Clone, Copy, Debug)]
struct DropRule {
    every: u64,
    seen: u64,
}

/// State of a switch's work beside forwarding. Ports and priorities count from 0.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// Per port: bitmap of the priorities in which the switch ignores pause frames that arrive on the port.
    ignored_pauses: Vec<u8>,
    /// Per port: bitmap of the priorities in which the switch drops packets to and from the port.
    discards: Vec<u8>,
    /// Per port: bitmap of the priorities that the last pause frame of the peer paused.
    paused_by_peer: Vec<u8>,
    /// Per port and priority: time at which the bit in `paused_by_peer` last changed, in picoseconds.
    changed_at: Vec<u64>,
    /// Per port and priority: packets that a mitigation has dropped so far.
    discarded: Vec<u64>,
    /// Per input port: the rule by which the switch drops packets.
    rules: Vec<Option<DropRule>>,
    /// Hosts of this switch whose MAC table entry is missing.
    missing: BTreeMap<HostId, UnknownMac>,
    /// Number of copies made of flooded packets, minus the number of flooded packets.
    pub(crate) copies: i64,
    priorities: usize,
}

impl Guard {
    fn new(ports: usize, priorities: usize) -> Guard {
        Guard {
            ignored_pauses: vec![0; ports],
            discards: vec![0; ports],
            paused_by_peer: vec![0; ports],
            changed_at: vec![0; ports * priorities],
            discarded: vec![0; ports * priorities],
            rules: vec![None; ports],
            priorities,
            ..Guard::default()
        }
    }

    /// Processes a pause frame that arrived on `port` for the priorities in `mask`; returns the priorities in which the
    /// switch obeys it.
    pub(super) fn receive_pause(&mut self, port: usize, mask: u8, now: u64) -> u8 {
        let changed = std::mem::replace(&mut self.paused_by_peer[port], mask) ^ mask;
        for priority in (0..self.priorities).filter(|p| changed & (1 << p) != 0) {
            self.changed_at[port * self.priorities + priority] = now;
        }
        mask & !self.ignored_pauses[port]
    }

    /// Makes the switch drop the last of every `every` packets that arrive on `port`.
    pub(crate) fn drop_every(&mut self, port: usize, every: u64) {
        self.rules[port] = Some(DropRule { every, seen: 0 });
    }

    /// Sets what the switch does with packets for `host`; `None`: it forwards them.
    pub(crate) fn set_missing(&mut self, host: HostId, what: Option<UnknownMac>) {
        match what {
            Some(what) => self.missing.insert(host, what),
            None => self.missing.remove(&host),
        };
    }

    /// Whether the peer of `port` pauses a priority, whether or not the switch obeys; and since when it does or does
    /// not, in picoseconds.
    pub(crate) fn peer_pause(&self, port: usize, priority: usize) -> (bool, u64) {
        let is_paused = self.paused_by_peer[port] & (1 << priority) != 0;
        (is_paused, self.changed_at[port * self.priorities + priority])
    }

    /// Packets of a priority to and from `port` that a mitigation has dropped so far.
    pub(crate) fn discarded(&self, port: usize, priority: usize) -> u64 {
        self.discarded[port * self.priorities + priority]
    }

    /// Ends the mitigation of a port and priority; returns the priorities in which the peer pauses the port.
    pub(crate) fn end(&mut self, port: usize, priority: usize) -> u8 {
        self.ignored_pauses[port] &= !(1 << priority);
        self.discards[port] &= !(1 << priority);
        self.paused_by_peer[port] & !self.ignored_pauses[port]
    }

    /// Whether the rule of the input port drops the packet that just arrived there.
    fn drops_by_rule(&mut self, input: usize, is_control: bool) -> bool {
        let Some(rule) = self.rules[input].as_mut().filter(|_| !is_control) else { return false };
        rule.seen += 1;
        rule.seen % rule.every == 0
    }

    /// Whether a mitigation drops a packet of a priority that goes from `input` to `output`. The packet counts for the
    /// port of the mitigation.
    fn discards(&mut self, input: usize, output: usize, priority: usize) -> bool {
        let port = [output, input].into_iter().find(|port| self.discards[*port] & (1 << priority) != 0);
        if let Some(port) = port {
            self.discarded[port * self.priorities + priority] += 1;
        }
        port.is_some()
    }
}

impl<B: Body, U: Buffer<B>> Switch<B, U> {
    /// The guard of the switch, which gets one if it has none.
    pub(crate) fn guard(&mut self) -> &mut Guard {
        self.path.guard();
        self.guard.get_or_insert_with(|| Box::new(Guard::new(self.ports, self.priorities)))
    }

    /// As [`Switch::arrival`](super::Switch), for a packet that is no pause frame, in a switch that has a guard.
    #[inline(never)]
    pub(super) fn arrival_guarded<L: EventList>(
        &mut self, links: &mut Ports<B>, routes: &Routes, tree: &mut L, input: usize, packet: Packet<B>, now: u64,
    ) {
        if let Some(guard) = &mut self.guard {
            let is_control = packet.flags & Packet::<B>::CONTROL != 0;
            if packet.flags & Packet::<B>::FLOODED != 0 || guard.drops_by_rule(input, is_control) {
                return self.count_drop(links, input, &packet, now);
            }
            match guard.missing.get(&packet.dst) {
                Some(UnknownMac::Flood) => return self.flood(links, routes, tree, input, packet, now),
                Some(UnknownMac::Drop) => return self.count_drop(links, input, &packet, now),
                None => {}
            }
        }
        let output = self.route(routes, &packet, now);
        if self.guard.as_mut().is_some_and(|guard| guard.discards(input, output, packet.priority as usize)) {
            self.count_drop(links, input, &packet, now);
        } else {
            self.pass_on_or_refuse(links, routes, tree, input, output, packet, now);
        }
    }

    /// Passes the packet on to `output`, or refuses it if the buffer has no room. Packets in a switch without a guard
    /// take these steps in [`Switch::arrival`](super::Switch), where they are inlined.
    #[expect(clippy::too_many_arguments, reason = "the state of `arrival`, away from its path")]
    #[inline(never)]
    fn pass_on_or_refuse<L: EventList>(
        &mut self, links: &mut Ports<B>, routes: &Routes, tree: &mut L, input: usize, output: usize,
        mut packet: Packet<B>, now: u64,
    ) {
        if self.admits(links, input, output, &packet, now) {
            self.pass_on(links, tree, input, output, &mut packet, now);
        } else {
            self.refuse(links, routes, tree, input, output, packet, now);
        }
    }

    /// Sends a copy of the packet to every port except the one on which it arrived. Every copy takes its own room in
    /// the buffer; the switch drops a copy for which there is none.
    fn flood<L: EventList>(
        &mut self, links: &mut Ports<B>, routes: &Routes, tree: &mut L, input: usize, packet: Packet<B>, now: u64,
    ) {
        let mut copies = -1;
        for output in (0..self.ports).filter(|output| *output != input) {
            copies += 1;
            let copy = Packet { flags: packet.flags | Packet::<B>::FLOODED, ..packet };
            self.pass_on_or_refuse(links, routes, tree, input, output, copy, now);
        }
        if copies < 0 {
            self.count_drop(links, input, &packet, now);
            copies = 0;
        }
        if let Some(guard) = &mut self.guard {
            guard.copies += copies;
        }
    }

    /// Prepares the ports for a change between two windows of simulated time: a transmitter that is idle becomes free
    /// at `now` and not earlier, because it may have something to send from now on.
    pub(crate) fn settle(&self, links: &mut Ports<B>, now: u64) {
        for port in &mut links.ports[self.first_port..self.first_port + self.ports] {
            port.busy_until = port.busy_until.max(now);
        }
    }

    /// Begins the mitigation of a storm on a port: from now on the switch ignores the pauses of a priority there. With
    /// [`Mitigation::Drop`] it drops the packets that wait for the port.
    pub(crate) fn mitigate(
        &mut self, links: &mut Ports<B>, port: usize, priority: usize, mitigation: Mitigation, now: u64,
    ) {
        self.settle(links, now);
        self.guard().ignored_pauses[port] |= 1 << priority;
        let number = self.first_port + port;
        let obeyed = links.ports[number].paused & !(1 << priority);
        links.apply_pause(number, now, obeyed);
        if mitigation == Mitigation::Forward {
            return;
        }
        self.guard().discards[port] |= 1 << priority;
        while self.buffer.backlog(port) & (1 << priority) != 0 {
            let (packet, input) = self.buffer.pop(port, priority);
            self.count_drop(links, input, &packet, now);
            let cell = port * self.priorities + priority;
            self.guard().discarded[cell] += 1;
            self.may_resume(links, input, priority);
        }
    }
}
