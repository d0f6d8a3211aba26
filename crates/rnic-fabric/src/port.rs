//! Ports and cables: the transmitter at one end, and the packets in flight towards the other.

use crate::packet::{Body, PAUSE_FRAME, Packet};
use crate::partition::{Partition, Place};
use crate::prefetch::prefetch;
use crate::rng::{Purpose, Stream};
use crate::topology::{PortInfo, Topology};
use rnic_transport::telemetry::HopRecord;
use rnic_transport::{BitRate, Time};

/// Counters of one port in one priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PriorityCounters {
    /// Frames transmitted, pause frames not included.
    pub tx_packets: u64,
    /// Their bytes, without frame gap.
    pub tx_bytes: u64,
    /// Frames that arrived here and found the buffer full.
    pub drops: u64,
    /// Control packets among them.
    pub control_drops: u64,
    /// Frames transmitted here that the cable lost.
    pub lost: u64,
    /// Frames that this switch marked "congestion experienced" on their way to this output.
    pub marked: u64,
    /// Times this port told its peer to pause.
    pub pause_sent: u64,
    /// Times its peer told it to pause.
    pub pause_received: u64,
    /// Time for which its transmitter was paused, in picoseconds.
    pub paused_ps: u64,
    /// Highest occupancy of its input buffer, in bytes; where buffers are at the outputs alone, of its output buffer.
    pub queue_high_water: u64,
    /// Packets of this priority that lost their payload because this output had no room for them, and went on without.
    pub trimmed: u64,
    /// Packets of this priority of which this output had no room even for the header, which was sent back.
    pub returned: u64,
}

/// A packet on a cable and the instant at which its last bit arrives.
#[derive(Clone, Copy, Default)]
struct InFlight<B> {
    at: u64,
    packet: Packet<B>,
}

/// How many packets before it is taken, or put there, the place of a packet on a cable is asked for from memory.
const AHEAD: u32 = 4;

/// The packets on one direction of a cable. Propagation is first in, first out, so only the first one is an event.
///
/// Half a cache line: a switch looks at those of all its ports each time it is simulated.
#[repr(align(32))]
pub(crate) struct Flight<B> {
    /// Arrival time of the first packet, `u64::MAX` if the cable is empty.
    first_at: u64,
    head: u32,
    len: u32,
    /// A ring; its size is 0 or a power of two.
    slots: Box<[InFlight<B>]>,
}

impl<B: Copy + Default> Flight<B> {
    fn new() -> Flight<B> {
        Flight { first_at: u64::MAX, head: 0, len: 0, slots: Box::default() }
    }

    /// Arrival time of the first packet, `u64::MAX` if the cable is empty.
    #[inline(always)]
    pub(crate) fn first_at(&self) -> u64 {
        self.first_at
    }

    /// The first packets are needed soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        if self.len > 0 {
            prefetch(&self.slots[self.place(0)]);
            prefetch(&self.slots[self.place(2)]);
        }
    }

    /// Packets on the cable, pause frames not included.
    fn packets(&self) -> usize {
        (0..self.len).filter(|i| !self.slots[self.place(*i)].packet.is_pause()).count()
    }

    /// Where the packet with so many before it is; there must be slots.
    #[inline(always)]
    fn place(&self, before: u32) -> usize {
        (self.head.wrapping_add(before) as usize) & (self.slots.len() - 1)
    }

    /// Adds a packet that arrives after all others; returns whether the cable was empty.
    #[inline]
    fn push(&mut self, at: u64, packet: Packet<B>) -> bool {
        if self.len as usize == self.slots.len() {
            self.grow();
        }
        debug_assert!(self.len == 0 || self.slots[self.place(self.len - 1)].at <= at);
        let place = self.place(self.len);
        self.slots[place] = InFlight { at, packet };
        prefetch(&self.slots[self.place(self.len + AHEAD)]);
        self.len += 1;
        let was_empty = self.len == 1;
        if was_empty {
            self.first_at = at;
        }
        was_empty
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(8);
        let mut slots = Vec::with_capacity(size);
        slots.extend((0..self.len).map(|i| self.slots[self.place(i)]));
        slots.resize(size, InFlight::default());
        self.slots = slots.into_boxed_slice();
        self.head = 0;
    }

    /// Takes the first packet; the cable must not be empty.
    #[inline]
    pub(crate) fn pop(&mut self) -> Packet<B> {
        debug_assert!(self.len > 0);
        let packet = self.slots[self.place(0)].packet;
        prefetch(&self.slots[self.place(AHEAD)]);
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        self.first_at = if self.len == 0 { u64::MAX } else { self.slots[self.place(0)].at };
        packet
    }
}

/// A packet that goes from one part of the fabric to another.
struct Crossing<B> {
    /// The port where it arrives, numbered within the part.
    port: u32,
    at: u64,
    packet: Packet<B>,
}

/// What one part has sent to another since both were last together.
pub(crate) struct Mailbox<B> {
    /// Arrival of the first one, `u64::MAX` if there is none.
    pub(crate) first_at: u64,
    frames: Vec<Crossing<B>>,
}

impl<B> Mailbox<B> {
    fn new() -> Mailbox<B> {
        Mailbox { first_at: u64::MAX, frames: Vec::new() }
    }

    /// Moves everything to the other end, where what came before may still lie.
    pub(crate) fn deliver(&mut self, to: &mut Mailbox<B>) {
        to.first_at = to.first_at.min(self.first_at);
        self.first_at = u64::MAX;
        if to.frames.is_empty() {
            std::mem::swap(&mut self.frames, &mut to.frames);
        } else {
            to.frames.append(&mut self.frames);
        }
    }
}

/// Which frames a cable loses.
struct Loss {
    /// A frame is lost when the next random number is below this.
    threshold: u64,
    stream: Stream,
    /// Frames to lose by their number on this cable, sorted in descending order.
    chosen: Vec<u64>,
    sent: u64,
}

impl Loss {
    fn takes_next(&mut self) -> bool {
        let number = self.sent;
        self.sent += 1;
        let by_choice = self.chosen.last() == Some(&number);
        if by_choice {
            self.chosen.pop();
        }
        by_choice | (self.threshold > 0 && self.stream.next_u64() < self.threshold)
    }
}

/// A frame that a tapped port has put on its cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tapped<B> {
    /// When its first bit left.
    pub at: Time,
    /// The frame.
    pub packet: Packet<B>,
}

/// A time for which a transmitter was paused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pause {
    /// Its port.
    pub port: u32,
    /// The priority.
    pub priority: u8,
    /// When the pause took effect.
    pub from: Time,
    /// When it ended.
    pub to: Time,
}

/// What happens to the frames of some cables only, away from the path of all others.
struct Special<B> {
    loss: Option<Loss>,
    /// Every frame that the port has transmitted, if somebody wants to know.
    tap: Option<Vec<Tapped<B>>>,
}

impl<B: Copy> Special<B> {
    /// Notes a frame.
    #[cold]
    #[inline(never)]
    fn record(&mut self, now: u64, packet: &Packet<B>) {
        if let Some(tap) = &mut self.tap {
            tap.push(Tapped { at: Time::from_ps(now), packet: *packet });
        }
    }
}

/// In [`Port::to`]: the other end of the cable is in another part.
const REMOTE: u32 = 1 << 31;

/// One end of a cable: its transmitter, and the pause state in both directions. One cache line.
#[repr(align(64))]
pub(crate) struct Port<B> {
    /// The transmitter is sending until then.
    pub(crate) busy_until: u64,
    /// Picoseconds per byte, 0 if that is not a whole number.
    ps_per_byte: u64,
    rate_bps: u64,
    delay: u64,
    /// The port at the other end, numbered within the part; or [`REMOTE`] and an index into [`Ports::remote`].
    to: u32,
    /// The node at the other end, numbered within the part.
    to_node: u32,
    /// Its own node, numbered within the part.
    node: u32,
    /// Priorities that the peer has paused.
    pub(crate) paused: u8,
    /// Priorities in which this port wants the peer to pause, and those of the last pause frame sent.
    pub(crate) pause_wanted: u8,
    pub(crate) pause_told: u8,
    special: Option<Box<Special<B>>>,
}

impl<B> Port<B> {
    /// Port `number` of all, which is in `part`.
    fn new(
        topology: &Topology, partition: &Partition, part: usize, number: usize, seed: u64, remote: &mut Vec<Place>,
    ) -> Port<B> {
        let PortInfo { node, peer, link } = topology.ports[number];
        let rate_bps = link.rate.as_bps();
        let exact = 8_000_000_000_000 % rate_bps == 0;
        let loss = (link.loss > 0.0).then(|| Loss::random(link.loss, seed, number));
        let far = partition.port(peer as usize);
        let to = if far.part as usize == part {
            far.index
        } else {
            remote.push(far);
            REMOTE | (remote.len() as u32 - 1)
        };
        Port {
            busy_until: 0,
            ps_per_byte: if exact { 8_000_000_000_000 / rate_bps } else { 0 },
            rate_bps,
            delay: link.delay.as_ps(),
            to,
            to_node: partition.node(topology.peer_node(number)).index,
            node: partition.node(node).index,
            paused: 0,
            pause_wanted: 0,
            pause_told: 0,
            special: loss.map(|loss| Box::new(Special { loss: Some(loss), tap: None })),
        }
    }

    #[inline]
    fn serialise(&self, bytes: u64) -> u64 {
        if self.ps_per_byte > 0 {
            bytes * self.ps_per_byte
        } else {
            (bytes * 8_000_000_000_000 + self.rate_bps / 2) / self.rate_bps
        }
    }
    /// Whether a pause frame waits to be sent.
    #[inline]
    pub(crate) fn must_tell_pause(&self) -> bool {
        self.pause_wanted != self.pause_told
    }
}

/// All ports of a part, their counters, what is on its way to them, and the time of each node's next event. Ports and
/// nodes are numbered within the part.
pub(crate) struct Ports<B> {
    pub(crate) ports: Vec<Port<B>>,
    /// Per port: what is on its way to it.
    pub(crate) inbound: Vec<Flight<B>>,
    /// Per port and priority.
    pub(crate) counters: Vec<PriorityCounters>,
    /// Per port and priority: when it was last paused, and when last resumed.
    paused_since: Vec<u64>,
    resumed_at: Vec<u64>,
    /// Paused time before this is in the counters.
    counted_until: u64,
    /// Ports with a priority paused.
    pub(crate) paused_ports: usize,
    /// Pauses that have ended, if somebody wants to know.
    pub(crate) ended_pauses: Option<Vec<Pause>>,
    /// Per port: its number over all parts.
    numbers: Vec<u32>,
    /// Per node: nothing happens there before this time.
    pub(crate) next_event: Vec<u64>,
    /// Other ends of cables that lead to other parts: the part, and the port there.
    remote: Vec<Place>,
    /// Per part: what goes there, and what has come from there.
    pub(crate) outbox: Vec<Mailbox<B>>,
    pub(crate) inbox: Vec<Mailbox<B>>,
    /// Bytes that each frame takes on the cable beyond its own.
    gap: u64,
    pub(crate) priorities: usize,
    /// Frames transmitted, pause frames not included.
    pub(crate) hops: u64,
}

impl<B: Body> Ports<B> {
    pub(crate) fn new(
        topology: &Topology, partition: &Partition, part: usize, gap: u32, priorities: u8, seed: u64,
    ) -> Ports<B> {
        let nodes = partition.nodes_of(part);
        let numbers: Vec<u32> =
            nodes.iter().flat_map(|node| topology.ports_of(*node)).map(|port| port as u32).collect();
        let mut remote = Vec::new();
        let ports: Vec<Port<B>> = numbers
            .iter()
            .map(|port| Port::new(topology, partition, part, *port as usize, seed, &mut remote))
            .collect();
        let cells = ports.len() * priorities as usize;
        let mailboxes = || (0..partition.parts()).map(|_| Mailbox::new()).collect();
        Ports {
            inbound: ports.iter().map(|_| Flight::new()).collect(),
            ports,
            counters: vec![PriorityCounters::default(); cells],
            paused_since: vec![0; cells],
            resumed_at: vec![0; cells],
            counted_until: 0,
            paused_ports: 0,
            ended_pauses: None,
            numbers,
            next_event: vec![u64::MAX; nodes.len()],
            remote,
            outbox: mailboxes(),
            inbox: mailboxes(),
            gap: u64::from(gap),
            priorities: priorities as usize,
            hops: 0,
        }
    }

    /// Puts what has come from other parts on its cables.
    pub(crate) fn take_in(&mut self) {
        let Ports { inbox, inbound, ports, next_event, .. } = self;
        for mailbox in inbox.iter_mut().filter(|mailbox| mailbox.first_at < u64::MAX) {
            mailbox.first_at = u64::MAX;
            for Crossing { port, at, packet } in mailbox.frames.drain(..) {
                if inbound[port as usize].push(at, packet) {
                    let next = &mut next_event[ports[port as usize].node as usize];
                    *next = (*next).min(at);
                }
            }
        }
    }

    /// Time of the first event of any node.
    pub(crate) fn earliest(&self) -> u64 {
        let arriving = self.inbox.iter().map(|mailbox| mailbox.first_at);
        self.next_event.iter().copied().chain(arriving).fold(u64::MAX, u64::min)
    }

    /// Packets on their way to these ports, pause frames not included.
    pub(crate) fn arriving(&self) -> usize {
        let crossing = self.inbox.iter().chain(&self.outbox).flat_map(|mailbox| &mailbox.frames);
        let flying: usize = self.inbound.iter().map(Flight::packets).sum();
        flying + crossing.filter(|crossing| !crossing.packet.is_pause()).count()
    }

    /// What a switch tells of an output as a packet leaves it at `now`, with `queue` bytes behind it.
    pub(crate) fn hop(&self, number: usize, now: u64, queue: u64) -> HopRecord {
        let cells = &self.counters[number * self.priorities..(number + 1) * self.priorities];
        HopRecord {
            timestamp_ns: (now / 1_000) as u32,
            tx_bytes: cells.iter().map(|cell| cell.tx_bytes).sum::<u64>() as u32,
            queue_bytes: u32::try_from(queue).unwrap_or(u32::MAX),
            rate_mbps: u32::try_from(self.ports[number].rate_bps / 1_000_000).unwrap_or(u32::MAX),
        }
    }

    /// Puts a frame on the cable at `now`; the transmitter must be free.
    #[inline]
    pub(crate) fn transmit(&mut self, number: usize, now: u64, packet: Packet<B>) {
        let counters = &mut self.counters[number * self.priorities + packet.priority as usize];
        counters.tx_packets += 1;
        counters.tx_bytes += u64::from(packet.bytes);
        self.hops += 1;
        if !self.send(number, now, packet) {
            self.counters[number * self.priorities + packet.priority as usize].lost += 1;
        }
    }

    /// Sends the pause frame that `number`'s port owes its peer; the transmitter must be free.
    pub(crate) fn transmit_pause(&mut self, number: usize, now: u64) {
        let port = &mut self.ports[number];
        let mask = port.pause_wanted;
        let new = mask & !port.pause_told;
        port.pause_told = mask;
        for priority in (0..self.priorities).filter(|p| new & (1 << p) != 0) {
            self.counters[number * self.priorities + priority].pause_sent += 1;
        }
        let port = &mut self.ports[number];
        let end = now + port.serialise(u64::from(PAUSE_FRAME) + self.gap);
        port.busy_until = end;
        let packet = Packet::pause(mask);
        if let Some(special) = &mut port.special {
            special.record(now, &packet);
        }
        self.put(number, end, packet);
    }

    /// The host's port `number` tells its peer to pause exactly the priorities in `mask`. What it transmits now ends
    /// first, and nothing else can come between, so the frame can be put on the cable at once.
    pub(crate) fn pause_from_host(&mut self, number: usize, now: u64, mask: u8) {
        let port = &mut self.ports[number];
        port.pause_wanted = mask;
        if port.must_tell_pause() {
            let free = port.busy_until.max(now);
            self.transmit_pause(number, free);
        }
    }

    /// Returns false when the cable loses the frame.
    #[inline]
    fn send(&mut self, number: usize, now: u64, packet: Packet<B>) -> bool {
        let port = &mut self.ports[number];
        debug_assert!(port.busy_until <= now);
        let end = now + port.serialise(u64::from(packet.bytes) + self.gap);
        port.busy_until = end;
        if port.special.is_some() {
            return self.send_special(number, now, end, packet);
        }
        self.put(number, end, packet);
        true
    }

    /// Out of the way of all other ports.
    #[cold]
    #[inline(never)]
    fn send_special(&mut self, number: usize, now: u64, end: u64, packet: Packet<B>) -> bool {
        if let Some(special) = &mut self.ports[number].special {
            special.record(now, &packet);
            if special.loss.as_mut().is_some_and(Loss::takes_next) {
                return false;
            }
        }
        self.put(number, end, packet);
        true
    }

    #[inline]
    fn put(&mut self, number: usize, end: u64, packet: Packet<B>) {
        let port = &self.ports[number];
        let at = end + port.delay;
        if port.to & REMOTE != 0 {
            self.put_across(port.to & !REMOTE, at, packet);
        } else if self.inbound[port.to as usize].push(at, packet) {
            let next = &mut self.next_event[port.to_node as usize];
            *next = (*next).min(at);
        }
    }

    /// Puts a frame on a cable to another part.
    #[inline(never)]
    fn put_across(&mut self, index: u32, at: u64, packet: Packet<B>) {
        let Place { part, index: port } = self.remote[index as usize];
        let mailbox = &mut self.outbox[part as usize];
        mailbox.first_at = mailbox.first_at.min(at);
        mailbox.frames.push(Crossing { port, at, packet });
    }

    /// A pause frame arrived at the port: pause exactly the priorities in `mask`.
    pub(crate) fn apply_pause(&mut self, number: usize, now: u64, mask: u8) {
        let before = std::mem::replace(&mut self.ports[number].paused, mask);
        let changed = before ^ mask;
        self.paused_ports = self.paused_ports + usize::from(mask != 0) - usize::from(before != 0);
        for priority in (0..self.priorities).filter(|p| changed & (1 << p) != 0) {
            let cell = number * self.priorities + priority;
            if mask & (1 << priority) != 0 {
                self.paused_since[cell] = now;
                self.counters[cell].pause_received += 1;
            } else {
                let since = self.paused_since[cell];
                self.resumed_at[cell] = now;
                self.counters[cell].paused_ps += now - since.max(self.counted_until);
                if let Some(ended) = &mut self.ended_pauses {
                    let (from, to) = (Time::from_ps(since), Time::from_ps(now));
                    ended.push(Pause { port: self.numbers[number], priority: priority as u8, from, to });
                }
            }
        }
    }

    /// Counts the pauses that are still on when the run ends.
    pub(crate) fn close_pauses(&mut self, now: u64) {
        for number in 0..self.ports.len() {
            let mask = self.ports[number].paused;
            for priority in (0..self.priorities).filter(|p| mask & (1 << p) != 0) {
                let cell = number * self.priorities + priority;
                self.counters[cell].paused_ps += now - self.paused_since[cell].max(self.counted_until);
            }
        }
        self.counted_until = now;
    }

    /// When a port was last resumed in a priority.
    pub(crate) fn resumed_at(&self, number: usize, priority: usize) -> u64 {
        self.resumed_at[number * self.priorities + priority]
    }

    /// When a port was last paused in a priority.
    pub(crate) fn paused_since(&self, number: usize, priority: usize) -> u64 {
        self.paused_since[number * self.priorities + priority]
    }

    /// Loses exactly the frames with these numbers (counted from 0) that `number`'s port transmits.
    pub(crate) fn lose_frames(&mut self, number: usize, frames: &[u64]) {
        let mut chosen = frames.to_vec();
        chosen.sort_unstable_by(|a, b| b.cmp(a));
        chosen.dedup();
        let loss = &mut self.special(number).loss;
        match loss {
            Some(loss) => loss.chosen = chosen,
            None => *loss = Some(Loss { chosen, ..Loss::random(0.0, 0, 0) }),
        }
    }

    /// Notes every frame that `number`'s port transmits from now on.
    pub(crate) fn tap(&mut self, number: usize) {
        self.special(number).tap.get_or_insert_default();
    }

    /// The frames noted so far.
    pub(crate) fn tapped(&self, number: usize) -> &[Tapped<B>] {
        self.ports[number].special.as_ref().and_then(|special| special.tap.as_deref()).unwrap_or_default()
    }

    fn special(&mut self, number: usize) -> &mut Special<B> {
        self.ports[number].special.get_or_insert_with(|| Box::new(Special { loss: None, tap: None }))
    }

    /// Time for which the port's transmitter was sending frames other than pauses, in picoseconds.
    pub(crate) fn busy_ps(&self, number: usize) -> u64 {
        let port = &self.ports[number];
        let cells = &self.counters[number * self.priorities..(number + 1) * self.priorities];
        let bytes: u64 = cells.iter().map(|c| c.tx_bytes + c.tx_packets * self.gap).sum();
        BitRate::from_bps(port.rate_bps).time_for(bytes).as_ps()
    }
}

impl Loss {
    fn random(probability: f64, seed: u64, port: usize) -> Loss {
        Loss {
            threshold: (probability * u64::MAX as f64) as u64,
            stream: Stream::new(seed, Purpose::LinkLoss, &[port as u64]),
            chosen: Vec::new(),
            sent: 0,
        }
    }
}
