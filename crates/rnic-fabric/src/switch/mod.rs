//! A switch, composed of four parts: a buffer, a scheduler, ECN marking, and a path selection.
//!
//! - [`Buffer`](crate::buffer): where packets wait, which packets have room, and when PFC pauses a link;
//! - [`Scheduler`]: which priority an output serves next;
//! - [`Marker`](crate::ecn): which data packets are marked "congestion experienced", on enqueue or on dequeue;
//! - [`PathSelector`]: which of several equal-cost ports a packet takes.
//!
//! The switch is generic over its buffer, so the compiler makes separate code for each kind of buffer. The other parts
//! are enums; which variant they have does not change during a run. A packet whose output is idle passes through the
//! switch without being stored in the buffer.

mod guard;
mod switches;
mod trim;

pub(crate) use guard::Guard;
pub use guard::{Mitigation, UnknownMac};
pub(crate) use switches::Switches;

use crate::buffer::{Buffer, Stored};
use crate::config::{Paths, SwitchSpec};
use crate::ecn::{MarkOn, Marker};
use crate::event::EventList;
use crate::packet::{Body, Packet};
use crate::path::PathSelector;
use crate::port::Ports;
use crate::routing::Routes;
use crate::scheduler::{Scheduler, highest};
use rnic_transport::Time;
use std::ops::Range;

/// One switch.
pub(crate) struct Switch<B, U> {
    node: u32,
    first_port: usize,
    ports: usize,
    priorities: usize,
    buffer: U,
    scheduler: Scheduler,
    marker: Option<Box<Marker>>,
    path: PathSelector,
    /// Work beside forwarding, such as dropping packets by a rule; `None` for most switches.
    guard: Option<Box<Guard>>,
    body: std::marker::PhantomData<B>,
}

impl<B: Body, U: Buffer<B>> Switch<B, U> {
    /// The switch that is node `node` of the topology. `ports` are the numbers of its ports within its partition of the
    /// fabric; `first_of_all` is the number of its first port in the whole topology.
    fn new(
        node: u32, ports: Range<usize>, first_of_all: usize, buffer: U, spec: &SwitchSpec, paths: (Paths, Time),
        seed: u64,
    ) -> Switch<B, U> {
        let (first_port, ports, priorities) = (ports.start, ports.len(), spec.priorities as usize);
        Switch {
            node,
            first_port,
            ports,
            priorities,
            buffer,
            scheduler: Scheduler::new(&spec.scheduler, ports, priorities),
            marker: spec.ecn.map(|ecn| Box::new(Marker::new(&ecn, first_of_all, ports, seed))),
            path: PathSelector::new(paths.0, paths.1, seed, node),
            guard: None,
            body: std::marker::PhantomData,
        }
    }

    /// Simulates every event of this switch before `end`; returns the time of the switch's next event.
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
        while let Some((now, source)) = tree.first_before(end) {
            if source < self.ports {
                self.arrival(links, routes, tree, source, now);
            } else {
                self.service(links, tree, source - self.ports, now);
            }
        }
        tree.first().0
    }

    /// Whether the output has a pause frame or a packet that it may send.
    #[inline]
    fn needs_service(&self, links: &Ports<B>, output: usize) -> bool {
        let port = &links.ports[self.first_port + output];
        port.must_tell_pause() || self.buffer.backlog(output) & !port.paused != 0
    }

    /// Schedules the event that serves an output (sends its next frame), for the time when its transmitter is free, if
    /// the output has a frame to send and no such event is scheduled.
    #[inline(always)]
    fn wake<L: EventList>(&self, links: &Ports<B>, tree: &mut L, output: usize, now: u64) {
        if !tree.is_set(self.ports + output) {
            self.wake_idle(links, tree, output, now);
        }
    }

    /// [`Switch::wake`] for an output without an event.
    #[inline(never)]
    fn wake_idle<L: EventList>(&self, links: &Ports<B>, tree: &mut L, output: usize, now: u64) {
        if self.needs_service(links, output) {
            tree.set(self.ports + output, links.ports[self.first_port + output].busy_until.max(now));
        }
    }

    #[inline]
    fn arrival<L: EventList>(&mut self, links: &mut Ports<B>, routes: &Routes, tree: &mut L, input: usize, now: u64) {
        let queue = &mut links.inbound[self.first_port + input];
        let mut packet = queue.pop();
        tree.set(input, queue.first_at());
        if packet.is_pause() {
            let mut mask = packet.paused_priorities();
            if let Some(guard) = &mut self.guard {
                mask = guard.receive_pause(input, mask, now);
            }
            links.apply_pause(self.first_port + input, now, mask);
            self.wake(links, tree, input, now);
            return;
        }
        let output = match self.path {
            PathSelector::Ecmp => routes.port(self.node, packet.dst, packet.flow_hash) as usize,
            PathSelector::Guarded(_) => return self.arrival_guarded(links, routes, tree, input, packet, now),
            _ => self.select_path(routes, &packet, now),
        };
        if self.admits(links, input, output, &packet, now) {
            self.pass_on(links, tree, input, output, &mut packet, now);
        } else {
            self.refuse(links, routes, tree, input, output, packet, now);
        }
    }

    /// Whether the buffer has room for a packet that arrives on `input` and leaves by `output`.
    #[inline(always)]
    fn admits(&mut self, links: &Ports<B>, input: usize, output: usize, packet: &Packet<B>, now: u64) -> bool {
        if self.buffer.counts_in_service() && links.ports[self.first_port + output].busy_until <= now {
            self.buffer.served(output);
        }
        self.buffer.admits(input, output, packet)
    }

    /// Forwards a packet for which the buffer has room: transmits the packet at once if the output is idle, otherwise
    /// queues the packet.
    #[inline(always)]
    fn pass_on<L: EventList>(
        &mut self, links: &mut Ports<B>, tree: &mut L, input: usize, output: usize, packet: &mut Packet<B>, now: u64,
    ) {
        let port = &links.ports[self.first_port + output];
        let blocked = port.busy_until > now || port.paused & (1 << packet.priority) != 0;
        if blocked || self.needs_service(links, output) {
            self.enqueue(links, tree, input, output, packet, now);
            self.wake(links, tree, output, now);
        } else {
            self.buffer.passed(input, output, packet);
            self.transmit(links, output, packet, now);
        }
    }

    /// Handles a packet for which the buffer has no room. The switch trims the packet and sends the header to the
    /// output or back to the sender, or it drops the packet.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the state of `arrival`, away from its path")]
    fn refuse<L: EventList>(
        &mut self, links: &mut Ports<B>, routes: &Routes, tree: &mut L, input: usize, output: usize, packet: Packet<B>,
        now: u64,
    ) {
        self.buffer.refused(input, packet.priority as usize);
        if let Some((mut header, output)) = self.trimmed(links, routes, input, output, packet, now) {
            self.pass_on(links, tree, input, output, &mut header, now);
        } else {
            self.count_drop(links, input, &packet, now);
        }
    }

    /// Counts a packet from `input` that the switch drops at `now`.
    fn count_drop(&self, links: &mut Ports<B>, input: usize, packet: &Packet<B>, now: u64) {
        links.note_drop(self.first_port + input, now, packet);
        let counters = &mut links.counters[(self.first_port + input) * self.priorities + packet.priority as usize];
        counters.drops += 1;
        counters.control_drops += u64::from(packet.flags & Packet::<B>::CONTROL != 0);
    }

    /// The output port by which a packet leaves that arrives at `now`.
    #[inline(always)]
    fn route(&mut self, routes: &Routes, packet: &Packet<B>, now: u64) -> usize {
        match self.path {
            PathSelector::Ecmp => routes.port(self.node, packet.dst, packet.flow_hash) as usize,
            _ => self.select_path(routes, packet, now),
        }
    }

    /// Like [`Switch::route`], for path selections other than ECMP. A separate function keeps the code for ECMP small.
    #[inline(never)]
    fn select_path(&mut self, routes: &Routes, packet: &Packet<B>, now: u64) -> usize {
        if let PathSelector::Spray(spray) = &mut self.path {
            return routes.pick(self.node, packet.dst, |candidates| spray.select(candidates)) as usize;
        }
        self.select_path_by_state(routes, packet, now)
    }

    /// Like [`Switch::select_path`], for path selections that depend on queues, on earlier packets, or on a guard. A
    /// separate function keeps the code for spraying small.
    #[inline(never)]
    fn select_path_by_state(&mut self, routes: &Routes, packet: &Packet<B>, now: u64) -> usize {
        let (path, buffer) = (&mut self.path, &self.buffer);
        let queued = |port: u32| buffer.queued_bytes(port as usize, packet.priority as usize);
        routes.pick(self.node, packet.dst, |candidates| path.select(packet, candidates, now, queued)) as usize
    }

    /// Puts a packet on the link of an output whose transmitter is free.
    #[inline]
    fn transmit(&mut self, links: &mut Ports<B>, output: usize, packet: &mut Packet<B>, now: u64) {
        let number = self.first_port + output;
        if B::TELEMETRY && packet.flags & (Packet::<B>::CONTROL | Packet::<B>::TRIMMED) == 0 {
            let behind = (0..self.priorities).map(|priority| self.buffer.egress(output, priority)).sum();
            packet.body.stamp(links.hop(number, now, behind));
        }
        links.transmit(number, now, packet);
    }

    #[inline(always)]
    fn enqueue<L: EventList>(
        &mut self, links: &mut Ports<B>, tree: &mut L, input: usize, output: usize, packet: &mut Packet<B>, now: u64,
    ) {
        let priority = packet.priority as usize;
        self.mark(links, output, packet, MarkOn::Enqueue);
        let Stored { occupancy, pause } = self.buffer.push(input, output, *packet);
        let counted = self.first_port + self.buffer.counted_at(input, output);
        let high_water = &mut links.counters[counted * self.priorities + priority].queue_high_water;
        *high_water = (*high_water).max(occupancy);
        let number = self.first_port + input;
        if pause && links.ports[number].pause_wanted & (1 << priority) == 0 {
            links.ports[number].pause_wanted |= 1 << priority;
            self.wake(links, tree, input, now);
        }
    }

    /// Marks a data packet according to the length of its output's queue, if the switch decides about marks at this end
    /// of the queue (on enqueue or on dequeue).
    #[inline(always)]
    fn mark(&mut self, links: &mut Ports<B>, output: usize, packet: &mut Packet<B>, end: MarkOn) {
        let priority = packet.priority as usize;
        if let Some(marker) = &mut self.marker
            && marker.mark_on == end
            && packet.flags & (Packet::<B>::CONTROL | Packet::<B>::TRIMMED) == 0
            && marker.marks(output, self.buffer.egress(output, priority))
        {
            packet.flags |= Packet::<B>::MARKED;
            links.counters[(self.first_port + output) * self.priorities + priority].marked += 1;
        }
    }

    /// Serves an output whose transmitter is free: sends a pause frame if one is due, otherwise the next packet.
    #[inline]
    fn service<L: EventList>(&mut self, links: &mut Ports<B>, tree: &mut L, output: usize, now: u64) {
        let number = self.first_port + output;
        let port = &links.ports[number];
        let sendable = self.buffer.backlog(output) & !port.paused;
        if port.busy_until > now {
            // Another packet took the transmitter at this very instant, and the reason for this event is gone.
        } else if port.must_tell_pause() {
            links.transmit_pause(number, now);
        } else if sendable != 0 {
            let priority = match self.scheduler {
                Scheduler::Strict => highest(sendable),
                _ => self.schedule(output, sendable),
            };
            let (mut packet, input) = self.buffer.pop(output, priority);
            self.mark(links, output, &mut packet, MarkOn::Dequeue);
            self.transmit(links, output, &mut packet, now);
            self.release(links, tree, input, packet.priority as usize, now);
        }
        let again = self.needs_service(links, output);
        tree.set(self.ports + output, if again { links.ports[number].busy_until } else { u64::MAX });
    }

    /// The priority that an output serves next under a scheduler other than strict priority. A separate function keeps
    /// the code for strict priority small.
    #[inline(never)]
    fn schedule(&mut self, output: usize, sendable: u8) -> usize {
        let buffer = &self.buffer;
        self.scheduler.next(output, sendable, |priority| buffer.head(output, priority))
    }

    /// Handles PFC after a packet from `input` has left the buffer: resumes the priority at the peer of `input` if the
    /// peer is paused and the occupancy allows it.
    #[inline]
    fn release<L: EventList>(&mut self, links: &mut Ports<B>, tree: &mut L, input: usize, priority: usize, now: u64) {
        if self.may_resume(links, input, priority) {
            self.wake(links, tree, input, now);
        }
    }

    /// Lets the peer of `input` resume a priority if the peer is paused and the occupancy allows it; returns whether
    /// the peer must be told.
    #[inline]
    fn may_resume(&self, links: &mut Ports<B>, input: usize, priority: usize) -> bool {
        let wanted = links.ports[self.first_port + input].pause_wanted & (1 << priority) != 0;
        let resumes = wanted && self.buffer.may_resume(input, priority);
        if resumes {
            links.ports[self.first_port + input].pause_wanted &= !(1 << priority);
        }
        resumes
    }
}
