//! A switch: what arrives whole is queued, and each output, when free, sends what its queueing gives it.
//!
//! The queueing decides who has room, what a port tells its peer to pause, and in which order packets leave: [`InputQueued`] is the switch
//! of the IRN paper, [`SharedBuffer`] that of the DCQCN paper, [`OutputQueued`] has a buffer for each output and priority. A packet whose
//! output is idle passes through, and takes no buffer.

mod cells;
mod input;
mod marker;
mod output;
mod shared;
mod trim;

pub(crate) use input::InputQueued;
pub(crate) use output::OutputQueued;
pub(crate) use shared::SharedBuffer;

use crate::config::{FabricSpec, Paths, SwitchSpec, TrimSpec};
use crate::event::EventList;
use crate::packet::{Body, Packet};
use crate::port::Ports;
use crate::rng::{Purpose, Stream};
use crate::routing::Routes;
use marker::Marker;
use std::ops::Range;

/// How a switch stores what waits. Inputs, outputs and priorities count from 0; sizes are in bytes.
pub(crate) trait Queueing<B> {
    /// For a switch of so many ports.
    fn new(ports: usize, spec: &SwitchSpec) -> Self
    where
        Self: Sized;
    /// Whether a packet has room.
    fn admits(&self, input: usize, output: usize, packet: &Packet<B>) -> bool;
    /// Bytes that wait for an output in a priority: what ECN looks at.
    fn egress(&self, output: usize, priority: usize) -> u64;
    /// The same, whether or not it is counted for ECN.
    fn waiting(&self, output: usize, priority: usize) -> u64 {
        self.egress(output, priority)
    }
    /// What becomes of a data packet that has no room; `None`: it is dropped.
    fn trim(&self) -> Option<&TrimSpec> {
        None
    }
    /// Stores a packet that has room; returns what the port where it is counted holds in its priority now, and whether the input's peer is
    /// to pause.
    fn push(&mut self, input: usize, output: usize, packet: Packet<B>) -> (u64, bool);
    /// The port at which the occupancy that [`Queueing::push`] returns is counted.
    fn counted_at(&self, input: usize, _output: usize) -> usize {
        input
    }
    /// Takes what an output sends next of the priorities in `sendable`, all of which have something waiting, and the input that it came by.
    fn pop(&mut self, output: usize, sendable: u8) -> (Packet<B>, usize);
    /// A packet went straight through.
    fn passed(&mut self, input: usize, output: usize, priority: usize);
    /// A packet that came by `input` was taken: whether its peer may resume, if it was to pause.
    fn may_resume(&self, input: usize, priority: usize) -> bool;
    /// Priorities in which something waits for an output.
    fn backlog(&self, output: usize) -> u8;
    /// Packets that wait.
    fn queued(&self) -> usize;
    /// Bytes held for an input in a priority.
    fn occupancy(&self, input: usize, priority: usize) -> u64;
    /// Bytes that came by `input` and wait for `output`.
    fn held(&self, input: usize, output: usize, priority: usize) -> u64;
}

/// One switch.
pub(crate) struct Switch<B, Q> {
    node: u32,
    first_port: usize,
    ports: usize,
    priorities: usize,
    pub(crate) queueing: Q,
    marker: Option<Box<Marker>>,
    /// What paths are drawn from, if each packet has its own.
    spray: Option<Box<Stream>>,
    body: std::marker::PhantomData<B>,
}

impl<B: Body, Q: Queueing<B>> Switch<B, Q> {
    /// The switch that is this node, with these ports of its part; `first_number` is the number of its first port over all parts.
    pub(crate) fn new(
        node: u32, ports: Range<usize>, first_number: usize, fabric: &FabricSpec, seed: u64,
    ) -> Switch<B, Q> {
        let (first_port, ports) = (ports.start, ports.len());
        let spec = &fabric.switch;
        let spray = fabric.paths == Paths::Spray;
        Switch {
            node,
            first_port,
            ports,
            priorities: spec.priorities as usize,
            queueing: Q::new(ports, spec),
            marker: spec.marking.map(|marking| {
                Box::new(Marker::new(marking, spec.queueing.mark_departures(), first_number, ports, seed))
            }),
            spray: spray.then(|| Box::new(Stream::new(seed, Purpose::Spray, &[u64::from(node)]))),
            body: std::marker::PhantomData,
        }
    }

    /// Simulates every event of this switch before `end`; returns the time of the next one.
    pub(crate) fn run<L: EventList>(
        &mut self, links: &mut Ports<B>, routes: &Routes, tree: &mut L, start: u64, end: u64,
    ) -> u64 {
        tree.reset(2 * self.ports, start);
        for port in 0..self.ports {
            let own = &links.ports[self.first_port + port];
            let busy_until = own.busy_until;
            let needs_service = self.needs_service(links, port);
            let inbound = &links.inbound[self.first_port + port];
            inbound.prefetch();
            tree.load(port, inbound.first_at());
            tree.load(self.ports + port, if needs_service { busy_until } else { u64::MAX });
        }
        tree.build();
        loop {
            let (now, source) = tree.first();
            if now >= end {
                return now;
            }
            if source < self.ports {
                self.arrival(links, routes, tree, source, now);
            } else {
                self.service(links, tree, source - self.ports, now);
            }
        }
    }

    /// Whether the output has something that it may send.
    #[inline]
    fn needs_service(&self, links: &Ports<B>, output: usize) -> bool {
        let port = &links.ports[self.first_port + output];
        port.must_tell_pause() || self.queueing.backlog(output) & !port.paused != 0
    }

    /// Makes sure that the output is served as soon as its transmitter is free.
    #[inline]
    fn wake<L: EventList>(&self, links: &Ports<B>, tree: &mut L, output: usize, now: u64) {
        if !tree.is_set(self.ports + output) && self.needs_service(links, output) {
            tree.set(self.ports + output, links.ports[self.first_port + output].busy_until.max(now));
        }
    }

    #[inline]
    fn arrival<L: EventList>(&mut self, links: &mut Ports<B>, routes: &Routes, tree: &mut L, input: usize, now: u64) {
        let flight = &mut links.inbound[self.first_port + input];
        let packet = flight.pop();
        tree.set(input, flight.first_at());
        if packet.is_pause() {
            links.apply_pause(self.first_port + input, now, packet.paused_priorities());
            self.wake(links, tree, input, now);
            return;
        }
        let output = match &self.spray {
            None => routes.port(self.node, packet.dst, packet.flow_hash) as usize,
            Some(_) => self.route(routes, &packet),
        };
        if self.queueing.admits(input, output, &packet) {
            self.pass_on(links, tree, input, output, packet, now);
        } else {
            self.refuse(links, routes, tree, input, output, packet, now);
        }
    }

    /// Sends a packet that has room, or queues it.
    #[inline(always)]
    fn pass_on<L: EventList>(
        &mut self, links: &mut Ports<B>, tree: &mut L, input: usize, output: usize, packet: Packet<B>, now: u64,
    ) {
        let port = &links.ports[self.first_port + output];
        let blocked = port.busy_until > now || port.paused & (1 << packet.priority) != 0;
        if blocked || self.needs_service(links, output) {
            self.enqueue(links, tree, input, output, packet, now);
            self.wake(links, tree, output, now);
        } else {
            self.queueing.passed(input, output, packet.priority as usize);
            self.transmit(links, output, packet, now);
        }
    }

    /// A packet has no room: what is left of it goes on, if anything is; else it is dropped.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "what `arrival` works with, out of its way")]
    fn refuse<L: EventList>(
        &mut self, links: &mut Ports<B>, routes: &Routes, tree: &mut L, input: usize, output: usize, packet: Packet<B>,
        now: u64,
    ) {
        if let Some((header, output)) = self.trimmed(links, routes, input, output, packet) {
            self.pass_on(links, tree, input, output, header, now);
        } else {
            let counters = &mut links.counters[(self.first_port + input) * self.priorities + packet.priority as usize];
            counters.drops += 1;
            counters.control_drops += u64::from(packet.flags & Packet::<B>::CONTROL != 0);
        }
    }

    /// The output by which a packet goes on.
    #[inline(never)]
    fn route(&mut self, routes: &Routes, packet: &Packet<B>) -> usize {
        let port = match &mut self.spray {
            None => routes.port(self.node, packet.dst, packet.flow_hash),
            Some(stream) => routes.spray(self.node, packet.dst, stream),
        };
        port as usize
    }

    /// Puts a packet on the cable of an output whose transmitter is free.
    #[inline]
    fn transmit(&mut self, links: &mut Ports<B>, output: usize, mut packet: Packet<B>, now: u64) {
        let number = self.first_port + output;
        if B::TELEMETRY && packet.flags & (Packet::<B>::CONTROL | Packet::<B>::TRIMMED) == 0 {
            let behind = (0..self.priorities).map(|priority| self.queueing.egress(output, priority)).sum();
            packet.body.stamp(links.hop(number, now, behind));
        }
        links.transmit(number, now, packet);
    }

    #[inline]
    fn enqueue<L: EventList>(
        &mut self, links: &mut Ports<B>, tree: &mut L, input: usize, output: usize, mut packet: Packet<B>, now: u64,
    ) {
        let priority = packet.priority as usize;
        self.mark(links, output, &mut packet, false);
        let (occupancy, pause) = self.queueing.push(input, output, packet);
        let counted = self.first_port + self.queueing.counted_at(input, output);
        let high_water = &mut links.counters[counted * self.priorities + priority].queue_high_water;
        *high_water = (*high_water).max(occupancy);
        let number = self.first_port + input;
        if pause && links.ports[number].pause_wanted & (1 << priority) == 0 {
            links.ports[number].pause_wanted |= 1 << priority;
            self.wake(links, tree, input, now);
        }
    }

    /// Marks a packet by the queue of its output, if that is done now.
    #[inline]
    fn mark(&mut self, links: &mut Ports<B>, output: usize, packet: &mut Packet<B>, departs: bool) {
        let priority = packet.priority as usize;
        if let Some(marker) = &mut self.marker
            && marker.departures == departs
            && packet.flags & (Packet::<B>::CONTROL | Packet::<B>::TRIMMED) == 0
            && marker.marks(output, self.queueing.egress(output, priority))
        {
            packet.flags |= Packet::<B>::MARKED;
            links.counters[(self.first_port + output) * self.priorities + priority].marked += 1;
        }
    }

    /// The output's transmitter is free: send what comes next.
    #[inline]
    fn service<L: EventList>(&mut self, links: &mut Ports<B>, tree: &mut L, output: usize, now: u64) {
        let number = self.first_port + output;
        let port = &links.ports[number];
        let sendable = self.queueing.backlog(output) & !port.paused;
        if port.busy_until > now {
            // What this event was set for went away, and another packet took the transmitter at this very instant.
        } else if port.must_tell_pause() {
            links.transmit_pause(number, now);
        } else if sendable != 0 {
            let (mut packet, input) = self.queueing.pop(output, sendable);
            self.mark(links, output, &mut packet, true);
            self.transmit(links, output, packet, now);
            self.release(links, tree, input, packet.priority as usize, now);
        }
        let again = self.needs_service(links, output);
        tree.set(self.ports + output, if again { links.ports[number].busy_until } else { u64::MAX });
    }

    /// A packet left the buffer.
    #[inline]
    fn release<L: EventList>(&mut self, links: &mut Ports<B>, tree: &mut L, input: usize, priority: usize, now: u64) {
        let wanted = links.ports[self.first_port + input].pause_wanted & (1 << priority) != 0;
        if wanted && self.queueing.may_resume(input, priority) {
            links.ports[self.first_port + input].pause_wanted &= !(1 << priority);
            self.wake(links, tree, input, now);
        }
    }
}
