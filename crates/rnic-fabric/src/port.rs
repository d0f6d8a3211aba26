//! Ports and links: the transmitter at one end of a link, and the packets in flight towards the other end.

use crate::clocks::{ClockSpec, Jitter};
use crate::config::FabricSpec;
use crate::ids::{PortId, SlotId};
use crate::link_queue::LinkQueue;
use crate::mailbox::{Crossing, Mailbox};
use crate::packet::{Body, PAUSE_FRAME, Packet};
use crate::partition_plan::{Location, PartitionPlan};
use crate::rng::{Purpose, Stream};
use crate::tap::{Fate, Tap, TapFilter, Tapped};
use crate::topology::{PortInfo, Topology};
use rnic_transport::telemetry::HopRecord;
use rnic_transport::{BitRate, Time};
use serde::{Deserialize, Serialize};

/// Counters of one port in one priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PriorityCounters {
    /// Frames transmitted, pause frames not included.
    pub tx_packets: u64,
    /// Bytes of the transmitted frames, without frame gaps.
    pub tx_bytes: u64,
    /// Frames that arrived at this port and that the switch dropped because the buffer had no room.
    pub drops: u64,
    /// Control packets among the dropped frames.
    pub control_drops: u64,
    /// Frames that this port transmitted and that the link lost.
    pub lost: u64,
    /// Frames that the switch marked "congestion experienced" because of this port's egress queue.
    pub marked: u64,
    /// Number of times that this port paused the priority at its peer.
    pub pause_sent: u64,
    /// Number of times that the peer paused the priority at this port.
    pub pause_received: u64,
    /// Time for which this port's transmitter was paused in the priority, in picoseconds.
    pub paused_ps: u64,
    /// Maximum occupancy of this port's input buffer, in bytes; with `BufferSpec::Output`, of this port's output
    /// buffer.
    pub queue_high_water: u64,
    /// Data packets of this priority that the switch trimmed because this output had no room for them.
    pub trimmed: u64,
    /// Data packets of this priority whose header the switch returned to the sender, because this output had no room
    /// even for the header.
    pub returned: u64,
}

/// Loss of frames on one direction of a link: random loss, and loss of frames that are chosen by number.
struct Loss {
    /// The link loses a frame if the next 64-bit random number is below this threshold.
    threshold: u64,
    stream: Stream,
    /// Numbers of the frames to lose, sorted in descending order; the link's frames are numbered from 0.
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

/// A pause of a port's transmitter in one priority, from its start to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pause {
    /// The port whose transmitter was paused.
    pub port: PortId,
    /// The paused priority.
    pub priority: u8,
    /// Time at which the pause took effect.
    pub from: Time,
    /// Time at which the pause ended.
    pub to: Time,
}

/// Faults of the link, frame loss, jitter (random additional delay) and frame recording (tap) of one port. Most ports
/// have none of these, so the state is not part of [`Port`], and packets of those ports skip its code.
struct Special<B> {
    /// Whether the link is down.
    is_down: bool,
    /// Transmission time and bytes (frame gaps included) up to the latest change of the link's rate.
    before: (u64, u64),
    loss: Option<Loss>,
    jitter: Option<Jitter>,
    /// The record of the port's frames, if it is tapped.
    tap: Option<Tap<B>>,
}

impl<B> Default for Special<B> {
    fn default() -> Special<B> {
        Special { is_down: false, before: (0, 0), loss: None, jitter: None, tap: None }
    }
}

impl<B: Copy> Special<B> {
    /// The arrival time of the next frame, which would arrive at `at` without jitter.
    fn arrival(&mut self, at: u64) -> u64 {
        self.jitter.as_mut().map_or(at, |jitter| jitter.delayed(at))
    }

    /// Records a frame if the port is tapped.
    #[cold]
    #[inline(never)]
    fn record(&mut self, now: u64, packet: &Packet<B>, fate: Fate) {
        if let Some(tap) = &mut self.tap {
            tap.record(now, packet, fate);
        }
    }
}

/// Bit of [`Port::to`] that says that the other end of the link is in another partition.
const REMOTE: u32 = 1 << 31;

/// One end of a link: its transmitter, and the pause state of both directions. The structure takes one cache line (64
/// bytes).
#[repr(align(64))]
pub(crate) struct Port<B> {
    /// Time, in picoseconds, until which the transmitter sends its current frame.
    pub(crate) busy_until: u64,
    /// Serialisation time of a byte in picoseconds; 0 if the time is not a whole number.
    ps_per_byte: u64,
    rate_bps: u64,
    delay: u64,
    /// The port at the other end, numbered within the partition. If that port is in another partition: [`REMOTE`] and
    /// an index into [`Ports::remote`].
    to: u32,
    /// The node at the other end, numbered within the partition.
    to_node: u32,
    /// The node of this port, numbered within the partition.
    node: u32,
    /// Bitmap of the priorities in which the peer has paused this port's transmitter.
    pub(crate) paused: u8,
    /// Bitmap of the priorities in which this port wants the peer to pause.
    pub(crate) pause_wanted: u8,
    /// Bitmap of the paused priorities in the last pause frame that this port sent to the peer.
    pub(crate) pause_told: u8,
    /// Whether the node at the other end is a host.
    pub(crate) leads_to_host: bool,
    special: Option<Box<Special<B>>>,
}

impl<B> Port<B> {
    /// Builds port `number` of the topology, whose node is in `partition`. If the peer is in another partition, the
    /// location of the peer is appended to `remote`.
    fn new(
        topology: &Topology, plan: &PartitionPlan, partition: usize, number: PortId, clocks: &ClockSpec, seed: u64,
        remote: &mut Vec<Location>,
    ) -> Port<B> {
        let PortInfo { node, peer, link } = *topology.port(number);
        let rate = BitRate::from_bps(clocks.rate(link.rate, seed, node));
        let loss = (link.loss > 0.0).then(|| Loss::random(link.loss, seed, number.index()));
        let jitter = Jitter::new(clocks, seed, number.index());
        let special =
            (loss.is_some() || jitter.is_some()).then(|| Box::new(Special { loss, jitter, ..Special::default() }));
        let far = plan.port(peer);
        let to = if far.partition as usize == partition {
            far.slot.0
        } else {
            remote.push(far);
            REMOTE | (remote.len() as u32 - 1)
        };
        let mut port = Port {
            busy_until: 0,
            ps_per_byte: 0,
            rate_bps: 0,
            delay: link.delay.as_ps(),
            to,
            to_node: plan.node(topology.peer_node(number)).slot.0,
            node: plan.node(node).slot.0,
            paused: 0,
            pause_wanted: 0,
            pause_told: 0,
            leads_to_host: topology.is_host(topology.peer_node(number)),
            special,
        };
        port.set_rate(rate);
        port
    }

    fn set_rate(&mut self, rate: BitRate) {
        self.rate_bps = rate.as_bps();
        let is_exact = 8_000_000_000_000 % self.rate_bps == 0;
        self.ps_per_byte = if is_exact { 8_000_000_000_000 / self.rate_bps } else { 0 };
    }

    #[inline]
    fn serialise(&self, bytes: u64) -> u64 {
        if self.ps_per_byte > 0 {
            bytes * self.ps_per_byte
        } else {
            (bytes * 8_000_000_000_000 + self.rate_bps / 2) / self.rate_bps
        }
    }

    /// Whether the link is down.
    fn is_down(&self) -> bool {
        self.special.as_ref().is_some_and(|special| special.is_down)
    }

    /// Whether a pause frame to the peer waits to be sent.
    #[inline]
    pub(crate) fn must_tell_pause(&self) -> bool {
        self.pause_wanted != self.pause_told
    }
}

/// All ports of one partition of a fabric, their counters, the packets on the links towards them, and the time of each
/// node's next event. Ports and nodes are numbered within the partition.
pub(crate) struct Ports<B> {
    pub(crate) ports: Vec<Port<B>>,
    /// Per port: the packets on the link towards the port.
    pub(crate) inbound: Vec<LinkQueue<B>>,
    /// Counters per port and priority.
    pub(crate) counters: Vec<PriorityCounters>,
    /// Per port and priority: time at which the transmitter was last paused, in picoseconds; 0 if never.
    paused_since: Vec<u64>,
    /// Per port and priority: time at which the transmitter was last resumed, in picoseconds; 0 if never.
    resumed_at: Vec<u64>,
    /// Time, in picoseconds, up to which the counters include pauses that have not ended.
    counted_until: u64,
    /// Number of ports whose transmitter is paused in at least one priority.
    pub(crate) paused_ports: usize,
    /// PFC pauses that have ended in the current window of simulated time; `None` if the fabric does not log pauses.
    pub(crate) ended_pauses: Option<Vec<Pause>>,
    /// Per port: its number in the topology.
    numbers: Vec<PortId>,
    /// Per node: time of its earliest event.
    pub(crate) next_event: Vec<u64>,
    /// Per link to another partition: the partition and slot of the port at the far end.
    remote: Vec<Location>,
    /// Per other partition: frames that this partition has sent to it in the current window of simulated time.
    pub(crate) outbox: Vec<Mailbox<B>>,
    /// Per other partition: frames from it that are not yet in the queue of the link on which they arrive.
    pub(crate) inbox: Vec<Mailbox<B>>,
    /// Frame gap: bytes that each frame takes on the link in addition to its own length.
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

    /// Moves the frames that other partitions have sent from the inboxes to the queues of their links.
    pub(crate) fn take_in(&mut self) {
        let Ports { inbox, inbound, ports, next_event, .. } = self;
        for mailbox in inbox.iter_mut().filter(|mailbox| mailbox.first_at < u64::MAX) {
            mailbox.first_at = u64::MAX;
            for Crossing { port, at, packet } in mailbox.frames.drain(..) {
                let queue = &mut inbound[port as usize];
                if queue.is_full() {
                    queue.grow();
                }
                if queue.push(at, &packet) {
                    let next = &mut next_event[ports[port as usize].node as usize];
                    *next = (*next).min(at);
                }
            }
        }
    }

    /// Time of the first event of any node in the partition.
    pub(crate) fn earliest(&self) -> u64 {
        let arriving = self.inbox.iter().map(|mailbox| mailbox.first_at);
        self.next_event.iter().copied().chain(arriving).fold(u64::MAX, u64::min)
    }

    /// Number of packets on links towards these ports or in mailboxes, pause frames not included.
    pub(crate) fn arriving(&self) -> usize {
        let crossing = self.inbox.iter().chain(&self.outbox).flat_map(|mailbox| &mailbox.frames);
        let on_links: usize = self.inbound.iter().map(LinkQueue::packets).sum();
        on_links + crossing.filter(|crossing| !crossing.packet.is_pause()).count()
    }

    /// The telemetry record that output `number` writes into a packet. The output sends the packet at `now`, while
    /// `queue` bytes wait behind the packet.
    pub(crate) fn hop(&self, number: usize, now: u64, queue: u64) -> HopRecord {
        let cells = &self.counters[number * self.priorities..(number + 1) * self.priorities];
        HopRecord {
            timestamp_ns: (now / 1_000) as u32,
            tx_bytes: cells.iter().map(|cell| cell.tx_bytes).sum::<u64>() as u32,
            queue_bytes: u32::try_from(queue).unwrap_or(u32::MAX),
            rate_mbps: u32::try_from(self.ports[number].rate_bps / 1_000_000).unwrap_or(u32::MAX),
        }
    }

    /// Sends a frame on port `number` at `now`, and counts it; the transmitter must be free.
    ///
    /// What few frames need is in functions that this one ends with, so that it has no registers to save.
    #[inline]
    pub(crate) fn transmit(&mut self, number: usize, now: u64, packet: &Packet<B>) {
        let counters = &mut self.counters[number * self.priorities + packet.priority as usize];
        counters.tx_packets += 1;
        counters.tx_bytes += u64::from(packet.bytes);
        self.hops += 1;
        let port = &mut self.ports[number];
        debug_assert!(port.busy_until <= now);
        let end = now + port.serialise(u64::from(packet.bytes) + self.gap);
        port.busy_until = end;
        let at = end + port.delay;
        if port.special.is_some() {
            self.transmit_special(number, now, at, packet);
        } else {
            self.put(number, at, packet);
        }
    }

    /// The end of [`Ports::transmit`] for a port with frame loss, jitter or a tap.
    #[cold]
    #[inline(never)]
    fn transmit_special(&mut self, number: usize, now: u64, mut at: u64, packet: &Packet<B>) {
        let mut is_lost = false;
        if let Some(special) = &mut self.ports[number].special {
            is_lost = special.is_down || special.loss.as_mut().is_some_and(Loss::takes_next);
            let fate = if special.is_down {
                Fate::LinkDown
            } else if is_lost {
                Fate::Lost
            } else {
                at = special.arrival(at);
                Fate::Arrives(Time::from_ps(at))
            };
            special.record(now, packet, fate);
        }
        if is_lost {
            self.counters[number * self.priorities + packet.priority as usize].lost += 1;
        } else {
            self.put(number, at, packet);
        }
    }

    /// Sends a pause frame with the priorities that port `number` wants its peer to pause; the transmitter must be
    /// free.
    pub(crate) fn transmit_pause(&mut self, number: usize, now: u64) {
        let port = &mut self.ports[number];
        let mask = port.pause_wanted;
        let new = mask & !port.pause_told;
        port.pause_told = mask;
        if port.is_down() {
            return; // `restart_link` clears `pause_told`
        }
        for priority in (0..self.priorities).filter(|p| new & (1 << p) != 0) {
            self.counters[number * self.priorities + priority].pause_sent += 1;
        }
        let port = &mut self.ports[number];
        let end = now + port.serialise(u64::from(PAUSE_FRAME) + self.gap);
        port.busy_until = end;
        let mut at = end + port.delay;
        let packet = Packet::pause(mask);
        if let Some(special) = &mut port.special {
            at = special.arrival(at);
            special.record(now, &packet, Fate::Arrives(Time::from_ps(at)));
        }
        self.put(number, at, &packet);
    }

    /// Records a packet that arrived at port `number` and that the port's node drops, if the port is tapped.
    pub(crate) fn note_drop(&mut self, number: usize, now: u64, packet: &Packet<B>) {
        if let Some(special) = &mut self.ports[number].special {
            special.record(now, packet, Fate::Dropped);
        }
    }

    /// Makes the host's port `number` pause exactly the priorities in `mask` at the switch. The pause frame follows the
    /// current transmission directly, because no other frame can come between the two. So the function puts the pause
    /// frame on the link at once.
    pub(crate) fn pause_from_host(&mut self, number: usize, now: u64, mask: u8) {
        let port = &mut self.ports[number];
        port.pause_wanted = mask;
        if port.must_tell_pause() {
            let free = port.busy_until.max(now);
            self.transmit_pause(number, free);
        }
    }

    /// Time, in picoseconds, that a frame of `bytes` bytes and its gap take on the link of port `number`.
    pub(crate) fn transmission(&self, number: usize, bytes: u16) -> u64 {
        self.ports[number].serialise(u64::from(bytes) + self.gap)
    }

    /// Puts a frame on the link of a port; it arrives at `at`.
    #[inline(always)]
    fn put(&mut self, number: usize, at: u64, packet: &Packet<B>) {
        let port = &self.ports[number];
        if port.to & REMOTE != 0 {
            return self.put_across(port.to & !REMOTE, at, packet);
        }
        let queue = &mut self.inbound[port.to as usize];
        if queue.is_full() {
            return self.put_growing(number, at, packet);
        }
        if queue.push(at, packet) {
            let next = &mut self.next_event[port.to_node as usize];
            *next = (*next).min(at);
        }
    }

    /// Puts a frame on a link whose ring of packets is full.
    #[cold]
    #[inline(never)]
    fn put_growing(&mut self, number: usize, at: u64, packet: &Packet<B>) {
        self.inbound[self.ports[number].to as usize].grow();
        self.put(number, at, packet);
    }

    /// Puts a frame whose receiving port is in another partition into the outbox for that partition. `index` is the
    /// index of the receiving port in [`Ports::remote`].
    #[inline(never)]
    fn put_across(&mut self, index: u32, at: u64, packet: &Packet<B>) {
        let Location { partition, slot: SlotId(port) } = self.remote[index as usize];
        let mailbox = &mut self.outbox[partition as usize];
        mailbox.first_at = mailbox.first_at.min(at);
        mailbox.frames.push(Crossing { port, at, packet: *packet });
    }

    /// Applies a pause frame that arrived at port `number`: pauses exactly the priorities in `mask`, and resumes the
    /// others. A port whose link is down is not paused: the frame that resumes it would be lost.
    pub(crate) fn apply_pause(&mut self, number: usize, now: u64, mask: u8) {
        let mask = if self.ports[number].is_down() { 0 } else { mask };
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

    /// Adds PFC pauses that have not ended to the ports' counters of pause time, up to `now`, because the run ends.
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

    /// Time at which a port's transmitter was last resumed in a priority, in picoseconds; 0 if never.
    pub(crate) fn resumed_at(&self, number: usize, priority: usize) -> u64 {
        self.resumed_at[number * self.priorities + priority]
    }

    /// Time at which a port's transmitter was last paused in a priority, in picoseconds; 0 if never.
    pub(crate) fn paused_since(&self, number: usize, priority: usize) -> u64 {
        self.paused_since[number * self.priorities + priority]
    }

    /// Makes the link lose the frames with the numbers `frames` among the frames that port `number` transmits, counted
    /// from 0.
    pub(crate) fn lose_frames(&mut self, number: usize, frames: &[u64]) {
        let chosen = descending(frames);
        let loss = &mut self.special(number).loss;
        match loss {
            Some(loss) => loss.chosen = chosen,
            None => *loss = Some(Loss { chosen, ..Loss::random(0.0, 0, 0) }),
        }
    }

    /// Records the frames of port `number` that `filter` wants, from now on.
    pub(crate) fn tap(&mut self, number: usize, filter: TapFilter) {
        self.special(number).tap.get_or_insert_with(|| Tap::new(filter));
    }

    /// The frames that the tap of port `number` has recorded.
    pub(crate) fn tapped(&self, number: usize) -> &[Tapped<B>] {
        let tap = self.ports[number].special.as_ref().and_then(|special| special.tap.as_ref());
        tap.map_or(&[], Tap::frames)
    }

    /// Moves the frames that the taps of these ports have recorded to `frames`.
    pub(crate) fn take_tapped(&mut self, frames: &mut Vec<(PortId, Tapped<B>)>) {
        for (port, number) in self.ports.iter_mut().zip(&self.numbers) {
            let tap = port.special.as_mut().and_then(|special| special.tap.as_mut());
            frames.extend(tap.into_iter().flat_map(Tap::take).map(|frame| (*number, frame)));
        }
    }

    /// Changes the link of port `number`, in the direction from this port: whether it is down, and its rate. Both ends
    /// forget the pauses of the past, as after a restart of the link. A transmitter that is idle becomes free at `now`,
    /// because it may have something to send from now on.
    pub(crate) fn restart_link(&mut self, number: usize, now: u64, is_up: bool, rate: BitRate) {
        let before = (self.busy_ps(number), self.transmitted(number));
        let special = self.special(number);
        (special.is_down, special.before) = (!is_up, before);
        let port = &mut self.ports[number];
        port.set_rate(rate);
        port.pause_told = 0;
        port.busy_until = port.busy_until.max(now);
        self.apply_pause(number, now, 0);
    }

    fn special(&mut self, number: usize) -> &mut Special<B> {
        self.ports[number].special.get_or_insert_default()
    }

    /// Time for which the port's transmitter was sending frames other than pauses, in picoseconds. Frames that the port
    /// transmitted while its link was down count.
    pub(crate) fn busy_ps(&self, number: usize) -> u64 {
        let port = &self.ports[number];
        let (time, bytes) = port.special.as_ref().map_or((0, 0), |special| special.before);
        time + BitRate::from_bps(port.rate_bps).time_for(self.transmitted(number) - bytes).as_ps()
    }

    /// Bytes that the port has transmitted with their frame gaps, pause frames not included.
    fn transmitted(&self, number: usize) -> u64 {
        let cells = &self.counters[number * self.priorities..(number + 1) * self.priorities];
        cells.iter().map(|cell| cell.tx_bytes + cell.tx_packets * self.gap).sum()
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

/// The numbers in descending order, each of them once.
fn descending(numbers: &[u64]) -> Vec<u64> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.dedup();
    numbers
}
