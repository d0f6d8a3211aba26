//! Ports and links: the transmitter at one end of a link, and the packets in flight towards the other end.

use crate::clocks::{ClockSpec, Jitter};
use crate::config::FabricSpec;
use crate::ids::{PortId, SlotId};
use crate::packet::{Body, PAUSE_FRAME, Packet};
use crate::partition_plan::{Location, PartitionPlan};
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
    /// Frames that arrived here and were dropped because the buffer had no room.
    pub drops: u64,
    /// Control packets among the dropped frames.
    pub control_drops: u64,
    /// Frames transmitted here that the link lost.
    pub lost: u64,
    /// Frames for this output that this switch marked "congestion experienced".
    pub marked: u64,
    /// Pauses that this port sent to its peer.
    pub pause_sent: u64,
    /// Pauses that its peer sent to this port.
    pub pause_received: u64,
    /// Time for which its transmitter was paused, in picoseconds.
    pub paused_ps: u64,
    /// Maximum occupancy of its input buffer in bytes; with `BufferSpec::Output`, of its output buffer.
    pub queue_high_water: u64,
    /// Packets of this priority for which this output had no room and that it trimmed.
    pub trimmed: u64,
    /// Packets of this priority for which this output had no room, not even trimmed, and whose header went back.
    pub returned: u64,
}

/// A packet on a link and the instant at which its last bit arrives.
#[derive(Clone, Copy, Default)]
struct InFlight<B> {
    at: u64,
    packet: Packet<B>,
}

/// Prefetch distance: a ring slot is prefetched this many packets before it is read or written.
const PREFETCH_DISTANCE: u32 = 4;

/// The packets in flight in one direction of a link. Propagation is first in, first out, so only the first packet is an
/// event.
///
/// Half a cache line, because a switch reads the queues of all its ports at the start of each window.
#[repr(align(32))]
pub(crate) struct LinkQueue<B> {
    /// Arrival time of the first packet, `u64::MAX` if the link is empty.
    first_at: u64,
    head: u32,
    len: u32,
    /// A ring; its size is 0 or a power of two.
    slots: Box<[InFlight<B>]>,
}

impl<B: Copy + Default> LinkQueue<B> {
    fn new() -> LinkQueue<B> {
        LinkQueue { first_at: u64::MAX, head: 0, len: 0, slots: Box::default() }
    }

    /// Arrival time of the first packet, `u64::MAX` if the link is empty.
    #[inline(always)]
    pub(crate) fn first_at(&self) -> u64 {
        self.first_at
    }

    /// Prefetches the first packets.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        if self.len > 0 {
            prefetch(&self.slots[self.slot(0)]);
            prefetch(&self.slots[self.slot(2)]);
        }
    }

    /// Number of packets on the link, pause frames not included.
    fn packets(&self) -> usize {
        (0..self.len).filter(|i| !self.slots[self.slot(*i)].packet.is_pause()).count()
    }

    /// Index of the slot with `before` packets ahead of it; the ring must not be of size 0.
    #[inline(always)]
    fn slot(&self, before: u32) -> usize {
        (self.head.wrapping_add(before) as usize) & (self.slots.len() - 1)
    }

    /// Appends a packet that arrives after all others; returns whether the link was empty.
    #[inline]
    fn push(&mut self, at: u64, packet: Packet<B>) -> bool {
        if self.len as usize == self.slots.len() {
            self.grow();
        }
        debug_assert!(self.len == 0 || self.slots[self.slot(self.len - 1)].at <= at);
        let slot = self.slot(self.len);
        self.slots[slot] = InFlight { at, packet };
        prefetch(&self.slots[self.slot(self.len + PREFETCH_DISTANCE)]);
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
        slots.extend((0..self.len).map(|i| self.slots[self.slot(i)]));
        slots.resize(size, InFlight::default());
        self.slots = slots.into_boxed_slice();
        self.head = 0;
    }

    /// Removes the first packet; the link must not be empty.
    #[inline]
    pub(crate) fn pop(&mut self) -> Packet<B> {
        debug_assert!(self.len > 0);
        let packet = self.slots[self.slot(0)].packet;
        prefetch(&self.slots[self.slot(PREFETCH_DISTANCE)]);
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        self.first_at = if self.len == 0 { u64::MAX } else { self.slots[self.slot(0)].at };
        packet
    }
}

/// A packet that goes from one partition of the fabric to another.
struct Crossing<B> {
    /// The port where it arrives, numbered within the partition.
    port: u32,
    at: u64,
    packet: Packet<B>,
}

/// The frames that one partition has sent to another in this window.
pub(crate) struct Mailbox<B> {
    /// Arrival time of the first frame, `u64::MAX` if there is none.
    pub(crate) first_at: u64,
    frames: Vec<Crossing<B>>,
}

impl<B> Mailbox<B> {
    fn new() -> Mailbox<B> {
        Mailbox { first_at: u64::MAX, frames: Vec::new() }
    }

    /// Moves all frames to the other end, behind frames that are still there.
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

/// Random and chosen loss of frames on a link.
struct Loss {
    /// A frame is lost when the next random number is below this.
    threshold: u64,
    stream: Stream,
    /// Frames to lose by their number on this link, sorted in descending order.
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

/// A frame that a tapped port has transmitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tapped<B> {
    /// Time at which its first bit left.
    pub at: Time,
    /// The frame.
    pub packet: Packet<B>,
}

/// A pause of a transmitter that has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pause {
    /// The transmitter's port.
    pub port: PortId,
    /// The priority.
    pub priority: u8,
    /// Time at which the pause took effect.
    pub from: Time,
    /// Time at which it ended.
    pub to: Time,
}

/// Features of few links, kept away from the path of all others.
struct Special<B> {
    loss: Option<Loss>,
    jitter: Option<Jitter>,
    /// Every frame that the port has transmitted, if it is tapped.
    tap: Option<Vec<Tapped<B>>>,
}

impl<B: Copy> Special<B> {
    /// The arrival of the next frame, which would arrive at `at` without jitter.
    fn arrival(&mut self, at: u64) -> u64 {
        self.jitter.as_mut().map_or(at, |jitter| jitter.delayed(at))
    }

    /// Records a frame if the port is tapped.
    #[cold]
    #[inline(never)]
    fn record(&mut self, now: u64, packet: &Packet<B>) {
        if let Some(tap) = &mut self.tap {
            tap.push(Tapped { at: Time::from_ps(now), packet: *packet });
        }
    }
}

/// In [`Port::to`]: the other end of the link is in another partition.
const REMOTE: u32 = 1 << 31;

/// One end of a link: its transmitter, and the pause state in both directions. One cache line.
#[repr(align(64))]
pub(crate) struct Port<B> {
    /// The transmitter is sending until then.
    pub(crate) busy_until: u64,
    /// Picoseconds per byte, 0 if that is not a whole number.
    ps_per_byte: u64,
    rate_bps: u64,
    delay: u64,
    /// The port at the other end, numbered within the partition; or [`REMOTE`] and an index into [`Ports::remote`].
    to: u32,
    /// The node at the other end, numbered within the partition.
    to_node: u32,
    /// Its own node, numbered within the partition.
    node: u32,
    /// Priorities that the peer has paused.
    pub(crate) paused: u8,
    /// Priorities in which this port wants the peer to pause, and the priorities of the last pause frame that it sent.
    pub(crate) pause_wanted: u8,
    pub(crate) pause_told: u8,
    special: Option<Box<Special<B>>>,
}

impl<B> Port<B> {
    /// Port `number` of the topology, which is in `partition`.
    fn new(
        topology: &Topology, plan: &PartitionPlan, partition: usize, number: PortId, clocks: &ClockSpec, seed: u64,
        remote: &mut Vec<Location>,
    ) -> Port<B> {
        let PortInfo { node, peer, link } = *topology.port(number);
        let rate_bps = clocks.rate(link.rate, seed, node);
        let exact = 8_000_000_000_000 % rate_bps == 0;
        let loss = (link.loss > 0.0).then(|| Loss::random(link.loss, seed, number.index()));
        let jitter = Jitter::new(clocks, seed, number.index());
        let special = (loss.is_some() || jitter.is_some()).then(|| Box::new(Special { loss, jitter, tap: None }));
        let far = plan.port(peer);
        let to = if far.partition as usize == partition {
            far.slot.0
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
            to_node: plan.node(topology.peer_node(number)).slot.0,
            node: plan.node(node).slot.0,
            paused: 0,
            pause_wanted: 0,
            pause_told: 0,
            special,
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

/// All ports of a partition, their counters, the packets on their way to them, and the time of each node's next event.
/// Ports and nodes are numbered within the partition.
pub(crate) struct Ports<B> {
    pub(crate) ports: Vec<Port<B>>,
    /// Per port: the packets on their way to it.
    pub(crate) inbound: Vec<LinkQueue<B>>,
    /// Per port and priority.
    pub(crate) counters: Vec<PriorityCounters>,
    /// Per port and priority: time of the last pause, and of the last resume.
    paused_since: Vec<u64>,
    resumed_at: Vec<u64>,
    /// Paused time before this time is in the counters.
    counted_until: u64,
    /// Ports with a priority paused.
    pub(crate) paused_ports: usize,
    /// Pauses that have ended, if the fabric logs pauses.
    pub(crate) ended_pauses: Option<Vec<Pause>>,
    /// Per port: its number in the topology.
    numbers: Vec<PortId>,
    /// Per node: time of its earliest event.
    pub(crate) next_event: Vec<u64>,
    /// Ports at the other ends of links to other partitions.
    remote: Vec<Location>,
    /// Per partition: frames to it, and frames from it.
    pub(crate) outbox: Vec<Mailbox<B>>,
    pub(crate) inbox: Vec<Mailbox<B>>,
    /// Bytes that each frame takes on the link beyond its own.
    gap: u64,
    pub(crate) priorities: usize,
    /// Frames transmitted, pause frames not included.
    pub(crate) hops: u64,
}

impl<B: Body> Ports<B> {
    pub(crate) fn new(
        topology: &Topology, plan: &PartitionPlan, partition: usize, spec: &FabricSpec, seed: u64,
    ) -> Ports<B> {
        let priorities = spec.switch.priorities;
        let nodes = plan.nodes_of(partition);
        let numbers: Vec<PortId> = nodes.iter().flat_map(|node| topology.ports_of(*node)).collect();
        let mut remote = Vec::new();
        let ports: Vec<Port<B>> = numbers
            .iter()
            .map(|port| Port::new(topology, plan, partition, *port, &spec.clocks, seed, &mut remote))
            .collect();
        let cells = ports.len() * priorities as usize;
        let mailboxes = || (0..plan.partitions()).map(|_| Mailbox::new()).collect();
        Ports {
            inbound: ports.iter().map(|_| LinkQueue::new()).collect(),
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
            gap: u64::from(spec.frame_gap),
            priorities: priorities as usize,
            hops: 0,
        }
    }

    /// Puts the frames from other partitions on their links.
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

    /// Number of packets on their way to these ports, pause frames not included.
    pub(crate) fn arriving(&self) -> usize {
        let crossing = self.inbox.iter().chain(&self.outbox).flat_map(|mailbox| &mailbox.frames);
        let on_links: usize = self.inbound.iter().map(LinkQueue::packets).sum();
        on_links + crossing.filter(|crossing| !crossing.packet.is_pause()).count()
    }

    /// The telemetry record of an output for a packet that leaves it at `now`, with `queue` bytes behind the packet.
    pub(crate) fn hop(&self, number: usize, now: u64, queue: u64) -> HopRecord {
        let cells = &self.counters[number * self.priorities..(number + 1) * self.priorities];
        HopRecord {
            timestamp_ns: (now / 1_000) as u32,
            tx_bytes: cells.iter().map(|cell| cell.tx_bytes).sum::<u64>() as u32,
            queue_bytes: u32::try_from(queue).unwrap_or(u32::MAX),
            rate_mbps: u32::try_from(self.ports[number].rate_bps / 1_000_000).unwrap_or(u32::MAX),
        }
    }

    /// Puts a frame on the link at `now`; the transmitter must be free.
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

    /// Sends the pause frame that port `number` owes its peer; the transmitter must be free.
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
        let mut at = end + port.delay;
        let packet = Packet::pause(mask);
        if let Some(special) = &mut port.special {
            special.record(now, &packet);
            at = special.arrival(at);
        }
        self.put(number, at, packet);
    }

    /// The host's port `number` pauses exactly the priorities in `mask` of its peer. The current transmission ends
    /// first, and no other frame can come between, so the pause frame can be put on the link at once.
    pub(crate) fn pause_from_host(&mut self, number: usize, now: u64, mask: u8) {
        let port = &mut self.ports[number];
        port.pause_wanted = mask;
        if port.must_tell_pause() {
            let free = port.busy_until.max(now);
            self.transmit_pause(number, free);
        }
    }

    /// Returns false when the link loses the frame.
    #[inline]
    fn send(&mut self, number: usize, now: u64, packet: Packet<B>) -> bool {
        let port = &mut self.ports[number];
        debug_assert!(port.busy_until <= now);
        let end = now + port.serialise(u64::from(packet.bytes) + self.gap);
        port.busy_until = end;
        let at = end + port.delay;
        if port.special.is_some() {
            return self.send_special(number, now, at, packet);
        }
        self.put(number, at, packet);
        true
    }

    /// As [`Ports::send`] for a port with special features, away from the path of all others.
    #[cold]
    #[inline(never)]
    fn send_special(&mut self, number: usize, now: u64, mut at: u64, packet: Packet<B>) -> bool {
        if let Some(special) = &mut self.ports[number].special {
            special.record(now, &packet);
            if special.loss.as_mut().is_some_and(Loss::takes_next) {
                return false;
            }
            at = special.arrival(at);
        }
        self.put(number, at, packet);
        true
    }

    /// Puts a frame on the link of a port; it arrives at `at`.
    #[inline]
    fn put(&mut self, number: usize, at: u64, packet: Packet<B>) {
        let port = &self.ports[number];
        if port.to & REMOTE != 0 {
            self.put_across(port.to & !REMOTE, at, packet);
        } else if self.inbound[port.to as usize].push(at, packet) {
            let next = &mut self.next_event[port.to_node as usize];
            *next = (*next).min(at);
        }
    }

    /// Puts a frame on a link to another partition.
    #[inline(never)]
    fn put_across(&mut self, index: u32, at: u64, packet: Packet<B>) {
        let Location { partition, slot: SlotId(port) } = self.remote[index as usize];
        let mailbox = &mut self.outbox[partition as usize];
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

    /// Time at which a port was last resumed in a priority.
    pub(crate) fn resumed_at(&self, number: usize, priority: usize) -> u64 {
        self.resumed_at[number * self.priorities + priority]
    }

    /// Time at which a port was last paused in a priority.
    pub(crate) fn paused_since(&self, number: usize, priority: usize) -> u64 {
        self.paused_since[number * self.priorities + priority]
    }

    /// Loses exactly the frames with these numbers (counted from 0) that port `number` transmits.
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

    /// Records every frame that port `number` transmits from now on.
    pub(crate) fn tap(&mut self, number: usize) {
        self.special(number).tap.get_or_insert_default();
    }

    /// The frames recorded so far.
    pub(crate) fn tapped(&self, number: usize) -> &[Tapped<B>] {
        self.ports[number].special.as_ref().and_then(|special| special.tap.as_deref()).unwrap_or_default()
    }

    fn special(&mut self, number: usize) -> &mut Special<B> {
        self.ports[number].special.get_or_insert_with(|| Box::new(Special { loss: None, jitter: None, tap: None }))
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
