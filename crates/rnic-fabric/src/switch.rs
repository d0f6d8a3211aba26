//! The input-queued switch of the IRN paper (section 4.1): virtual output queues, round-robin over inputs.
//!
//! A frame is received whole, then queued at its input for its output; each output, when free, takes one frame from the next
//! input that has any for it. Inputs are not limited to one output at a time (a crossbar with enough speed-up). A frame leaves its
//! input buffer when its transmission begins. Each input port has `buffer` bytes per priority: what does not fit is dropped.
//! With PFC, an occupancy above `xoff` pauses the upstream transmitter in that priority, one that has fallen to `xon` resumes it, and
//! `headroom` bytes above `xoff` take what is still on its way. With ECN, a data packet that has to wait is marked by what already waits
//! for the same output and priority, at whichever inputs ([`SwitchSpec::marking`]).

use crate::config::SwitchSpec;
use crate::event::EventTree;
use crate::packet::Packet;
use crate::port::Ports;
use crate::rng::{Purpose, Stream};
use crate::routing::Routes;
use rnic_transport::congestion::Marking;

/// No cell.
const NONE: u32 = u32::MAX;

/// A queued packet, in the switch's pool.
#[derive(Clone, Copy)]
struct Cell<B> {
    packet: Packet<B>,
    next: u32,
}

/// A first-in first-out list of cells.
#[derive(Clone, Copy)]
struct Queue {
    head: u32,
    tail: u32,
}

/// Thresholds in bytes; without PFC `xoff` is never reached.
#[derive(Clone, Copy)]
struct Thresholds {
    buffer: u32,
    xoff: u32,
    xon: u32,
}

/// ECN marking: thresholds, and the state of each output.
struct Marker {
    kmin: u64,
    kmax: u64,
    /// Probability at `kmax` in units of 2^-64.
    pmax: f64,
    /// Per (output, priority): bytes that wait for it at all inputs.
    waiting: Vec<u64>,
    /// Per output.
    streams: Vec<Stream>,
}

impl Marker {
    fn new(marking: Marking, first_port: usize, ports: usize, priorities: usize, seed: u64) -> Marker {
        Marker {
            kmin: marking.kmin.0,
            kmax: marking.kmax.0,
            pmax: marking.pmax * u64::MAX as f64,
            waiting: vec![0; ports * priorities],
            streams: (0..ports)
                .map(|port| Stream::new(seed, Purpose::Marking, &[(first_port + port) as u64]))
                .collect(),
        }
    }

    /// Whether a packet that joins the queue is to be marked. A random number is drawn only where it matters.
    #[inline]
    fn marks(&mut self, output: usize, lane: usize) -> bool {
        let queue = self.waiting[lane];
        if queue <= self.kmin {
            return false;
        }
        if queue > self.kmax {
            return true;
        }
        let share = (queue - self.kmin) as f64 / (self.kmax - self.kmin) as f64;
        self.streams[output].next_u64() < (self.pmax * share) as u64
    }
}

/// One switch.
pub(crate) struct Switch<B> {
    node: u32,
    first_port: usize,
    ports: usize,
    priorities: usize,
    thresholds: Thresholds,
    /// Per (output, priority, input).
    queues: Vec<Queue>,
    /// Per (output, priority): bitmap of inputs with a non-empty queue, `words` words each.
    waiting: Vec<u64>,
    words: usize,
    /// Per (output, priority): the input to look at first.
    turn: Vec<u32>,
    /// Per output: bitmap of priorities with a non-empty queue.
    backlog: Vec<u8>,
    /// Per (input, priority): bytes queued.
    occupancy: Vec<u32>,
    marker: Option<Box<Marker>>,
    pool: Vec<Cell<B>>,
    free: u32,
    queued: usize,
}

impl<B: Copy + Default> Switch<B> {
    pub(crate) fn new(node: u32, first_port: usize, ports: usize, spec: &SwitchSpec, seed: u64) -> Switch<B> {
        let priorities = spec.priorities as usize;
        let words = ports.div_ceil(64);
        let limit = |bytes: u64| bytes.min(u64::from(u32::MAX / 2)) as u32;
        let thresholds = Thresholds {
            buffer: limit(spec.pfc.map_or(spec.buffer.0, |pfc| pfc.xoff.0 + pfc.headroom.0)),
            xoff: spec.pfc.map_or(u32::MAX, |pfc| limit(pfc.xoff.0)),
            xon: spec.pfc.map_or(0, |pfc| limit(pfc.xon.0)),
        };
        Switch {
            node,
            first_port,
            ports,
            priorities,
            thresholds,
            queues: vec![Queue { head: NONE, tail: NONE }; ports * priorities * ports],
            waiting: vec![0; ports * priorities * words],
            words,
            turn: vec![0; ports * priorities],
            backlog: vec![0; ports],
            occupancy: vec![0; ports * priorities],
            marker: spec.marking.map(|marking| Box::new(Marker::new(marking, first_port, ports, priorities, seed))),
            pool: Vec::new(),
            free: NONE,
            queued: 0,
        }
    }

    /// Packets queued.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Bytes queued at an input in a priority.
    pub(crate) fn occupancy(&self, input: usize, priority: usize) -> u32 {
        self.occupancy[input * self.priorities + priority]
    }

    /// Whether an input has packets of a priority queued for an output.
    pub(crate) fn has_queued(&self, input: usize, output: usize, priority: usize) -> bool {
        self.queues[(output * self.priorities + priority) * self.ports + input].head != NONE
    }

    /// Simulates every event of this switch before `end`; returns the time of the next one.
    pub(crate) fn run(
        &mut self, links: &mut Ports<B>, routes: &Routes, tree: &mut EventTree, start: u64, end: u64,
    ) -> u64 {
        tree.reset(2 * self.ports, start);
        for port in 0..self.ports {
            let own = &links.ports[self.first_port + port];
            let busy_until = own.busy_until;
            let needs_service = self.needs_service(links, port);
            tree.load(port, links.ports[own.peer as usize].flight.first_at());
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
        port.must_tell_pause() || self.backlog[output] & !port.paused != 0
    }

    /// Makes sure that the output is served as soon as its transmitter is free.
    #[inline]
    fn wake(&self, links: &Ports<B>, tree: &mut EventTree, output: usize, now: u64) {
        if !tree.is_set(self.ports + output) && self.needs_service(links, output) {
            tree.set(self.ports + output, links.ports[self.first_port + output].busy_until.max(now));
        }
    }

    #[inline]
    fn arrival(&mut self, links: &mut Ports<B>, routes: &Routes, tree: &mut EventTree, input: usize, now: u64) {
        let upstream = links.ports[self.first_port + input].peer as usize;
        let flight = &mut links.ports[upstream].flight;
        let packet = flight.pop();
        tree.set(input, flight.first_at());
        if packet.is_pause() {
            links.apply_pause(self.first_port + input, now, packet.paused_priorities());
            self.wake(links, tree, input, now);
            return;
        }
        let cell = input * self.priorities + packet.priority as usize;
        if self.occupancy[cell] + u32::from(packet.bytes) > self.thresholds.buffer {
            let counters = &mut links.counters[(self.first_port + input) * self.priorities + packet.priority as usize];
            counters.drops += 1;
            counters.control_drops += u64::from(packet.flags & Packet::<B>::CONTROL != 0);
            return;
        }
        let output = routes.port(self.node, packet.dst, packet.flow_hash) as usize;
        let port = &links.ports[self.first_port + output];
        let blocked = port.busy_until > now || port.paused & (1 << packet.priority) != 0;
        if blocked || self.needs_service(links, output) {
            self.enqueue(links, tree, input, output, packet, now);
            self.wake(links, tree, output, now);
        } else {
            let lane = output * self.priorities + packet.priority as usize;
            self.pass_turn(lane, input);
            links.transmit(self.first_port + output, now, packet);
        }
    }

    #[inline]
    fn enqueue(
        &mut self, links: &mut Ports<B>, tree: &mut EventTree, input: usize, output: usize, mut packet: Packet<B>,
        now: u64,
    ) {
        let priority = packet.priority as usize;
        let lane = output * self.priorities + priority;
        if let Some(marker) = &mut self.marker {
            if packet.flags & Packet::<B>::CONTROL == 0 && marker.marks(output, lane) {
                packet.flags |= Packet::<B>::MARKED;
                links.counters[(self.first_port + output) * self.priorities + priority].marked += 1;
            }
            marker.waiting[lane] += u64::from(packet.bytes);
        }
        let cell = self.allocate(packet);
        let queue = &mut self.queues[lane * self.ports + input];
        if queue.head == NONE {
            queue.head = cell;
            self.waiting[lane * self.words + input / 64] |= 1 << (input % 64);
            self.backlog[output] |= 1 << priority;
        } else {
            self.pool[queue.tail as usize].next = cell;
        }
        queue.tail = cell;
        let occupancy = &mut self.occupancy[input * self.priorities + priority];
        *occupancy += u32::from(packet.bytes);
        let occupancy = *occupancy;
        let number = self.first_port + input;
        let high_water = &mut links.counters[number * self.priorities + priority].queue_high_water;
        *high_water = (*high_water).max(u64::from(occupancy));
        if occupancy > self.thresholds.xoff && links.ports[number].pause_wanted & (1 << priority) == 0 {
            links.ports[number].pause_wanted |= 1 << priority;
            self.wake(links, tree, input, now);
        }
    }

    /// The output's transmitter is free: send what comes next.
    #[inline]
    fn service(&mut self, links: &mut Ports<B>, tree: &mut EventTree, output: usize, now: u64) {
        let number = self.first_port + output;
        let port = &links.ports[number];
        let sendable = self.backlog[output] & !port.paused;
        if port.busy_until > now {
            // What this event was set for went away, and another packet took the transmitter at this very instant.
        } else if port.must_tell_pause() {
            links.transmit_pause(number, now);
        } else if sendable != 0 {
            let priority = 7 - sendable.leading_zeros() as usize;
            let (packet, input) = self.dequeue(output, priority);
            links.transmit(number, now, packet);
            self.release(links, tree, input, &packet, now);
        }
        let again = self.needs_service(links, output);
        tree.set(self.ports + output, if again { links.ports[number].busy_until } else { u64::MAX });
    }

    /// Takes a packet from the next input in turn; there must be one.
    #[inline]
    fn dequeue(&mut self, output: usize, priority: usize) -> (Packet<B>, usize) {
        let lane = output * self.priorities + priority;
        let input = self.next_input(lane);
        self.pass_turn(lane, input);
        let queue = &mut self.queues[lane * self.ports + input];
        let index = queue.head;
        let cell = &mut self.pool[index as usize];
        queue.head = cell.next;
        cell.next = self.free;
        self.free = index;
        self.queued -= 1;
        let packet = cell.packet;
        if let Some(marker) = &mut self.marker {
            marker.waiting[lane] -= u64::from(packet.bytes);
        }
        if queue.head == NONE {
            let words = &mut self.waiting[lane * self.words..(lane + 1) * self.words];
            words[input / 64] &= !(1 << (input % 64));
            if words.iter().all(|w| *w == 0) {
                self.backlog[output] &= !(1 << priority);
            }
        }
        (packet, input)
    }

    /// `input` has had its turn.
    #[inline]
    fn pass_turn(&mut self, lane: usize, input: usize) {
        self.turn[lane] = if input + 1 == self.ports { 0 } else { input as u32 + 1 };
    }

    /// The first input at or after the turn, cyclically, with a packet waiting.
    #[inline]
    fn next_input(&self, lane: usize) -> usize {
        let words = &self.waiting[lane * self.words..(lane + 1) * self.words];
        let turn = self.turn[lane] as usize;
        let first = turn / 64;
        let later = words[first] & (u64::MAX << (turn % 64));
        if later != 0 {
            return first * 64 + later.trailing_zeros() as usize;
        }
        for step in 1..=words.len() {
            let word = (first + step) % words.len();
            if words[word] != 0 {
                return word * 64 + words[word].trailing_zeros() as usize;
            }
        }
        debug_assert!(false, "an output with a backlog has a waiting input");
        0
    }

    /// A packet left its input buffer.
    #[inline]
    fn release(&mut self, links: &mut Ports<B>, tree: &mut EventTree, input: usize, packet: &Packet<B>, now: u64) {
        let priority = packet.priority as usize;
        let occupancy = &mut self.occupancy[input * self.priorities + priority];
        *occupancy -= u32::from(packet.bytes);
        let resumed = *occupancy <= self.thresholds.xon;
        let port = &mut links.ports[self.first_port + input];
        if resumed && port.pause_wanted & (1 << priority) != 0 {
            port.pause_wanted &= !(1 << priority);
            self.wake(links, tree, input, now);
        }
    }

    #[inline]
    fn allocate(&mut self, packet: Packet<B>) -> u32 {
        self.queued += 1;
        if self.free == NONE {
            self.pool.push(Cell { packet, next: NONE });
            return self.pool.len() as u32 - 1;
        }
        let index = self.free;
        let cell = &mut self.pool[index as usize];
        self.free = cell.next;
        *cell = Cell { packet, next: NONE };
        index
    }
}
