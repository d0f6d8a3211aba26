//! NICs of a message transport, connected by one switch, in virtual time.
//!
//! The address of a NIC is its index. All links have the same rate. The switch has an unlimited queue for each NIC and
//! writes telemetry. Until a given time, packets are randomly lost, trimmed, returned to their sender, delayed and
//! duplicated. Events of one instant have a fixed order: arrivals, then timers, then transmission.
#![allow(dead_code)] // no test file uses all items

pub(crate) mod cases;

use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use rnic_transport::Time;
use rnic_transport::message::{Arrival, Message, MessageNic, NicConfig, NicEvent, NoBuffer, Outgoing, Pipeline};
use rnic_transport::telemetry::{HopRecord, Telemetry};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Transmission time per byte of all links, in picoseconds: 200 Gbps.
const PS_PER_BYTE: u64 = 40;
const HEADER: u32 = 64;

/// Probabilities of random faults, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// Probability that a packet is lost.
    pub(crate) loss: u32,
    /// Probability that a data packet is trimmed.
    pub(crate) trim: u32,
    /// Probability that a trimmed packet is returned to its sender.
    pub(crate) back: u32,
    /// Probability that a packet is delayed by up to `late_by`.
    pub(crate) late: u32,
    /// Probability that a packet is duplicated, with the copy delayed by up to `late_by`.
    pub(crate) twice: u32,
    /// Maximum additional delay of a packet.
    pub(crate) late_by: Time,
    /// Time at which the faults end.
    pub(crate) heals_at: Time,
}

/// A message to send at a given time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) at: Time,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) bytes: u32,
}

/// The event with which the sender reported the end of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Sent,
    Aborted,
}

/// The history of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Record {
    /// Time at which the sending NIC accepted the message.
    pub(crate) taken: Option<Time>,
    /// Number of deliveries.
    pub(crate) delivered: u32,
    pub(crate) delivered_at: Option<Time>,
    pub(crate) outcome: Option<(Time, Outcome)>,
    /// Whether the reception of the message expired.
    pub(crate) expired: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) data: u64,
    pub(crate) retransmitted: u64,
    pub(crate) control: u64,
    pub(crate) new_bytes: u64,
    pub(crate) useless: u64,
}

/// A packet in flight. Packets are ordered by arrival time and order of departure.
struct Flying<H> {
    at: Time,
    order: u64,
    from: u32,
    trimmed: bool,
    returned: bool,
    telemetry: Telemetry,
    packet: Outgoing<H>,
}

impl<H> PartialEq for Flying<H> {
    fn eq(&self, other: &Flying<H>) -> bool {
        self.order == other.order
    }
}
impl<H> Eq for Flying<H> {}
impl<H> PartialOrd for Flying<H> {
    fn partial_cmp(&self, other: &Flying<H>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<H> Ord for Flying<H> {
    fn cmp(&self, other: &Flying<H>) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Departed packets, each with its departure time and the address of its sender.
pub(crate) type Trace<H> = Vec<(Time, u32, Outgoing<H>)>;

/// A NIC, its link to the switch, and the switch's link to it.
struct Host<P> {
    nic: MessageNic<P>,
    wire_free: Time,
    link_free: Time,
    link_bytes: u32,
    /// Indices of messages that wait for a buffer.
    waiting: VecDeque<usize>,
}

pub(crate) struct Network<P: Pipeline> {
    pub(crate) cfg: NicConfig,
    hosts: Vec<Host<P>>,
    delay: Time,
    weather: Weather,
    rng: Pcg64Mcg,
    plan: Vec<Planned>,
    pub(crate) records: Vec<Record>,
    /// Maps (sender, message id) to the message's index in the plan.
    names: BTreeMap<(u32, u32), usize>,
    flying: BinaryHeap<Reverse<Flying<P::Header>>>,
    order: u64,
    next: usize,
    pub(crate) now: Time,
    pub(crate) totals: Totals,
    /// All departed data packets: departure time, sender, priority, and whether the packet is a retransmission.
    pub(crate) log: Vec<(Time, u32, u8, bool)>,
    /// All departed packets, if recording is on.
    pub(crate) trace: Option<Trace<P::Header>>,
}

impl<P: Pipeline> Network<P> {
    /// A network in which `program` returns the program of the NIC with a given address. `plan` is sorted by time.
    pub(crate) fn new(
        cfg: NicConfig, hosts: u32, program: impl Fn(u32) -> P, plan: Vec<Planned>, weather: Weather, seed: u64,
    ) -> Network<P> {
        let host = |ip| Host {
            nic: MessageNic::new(&cfg, program(ip)),
            wire_free: Time::ZERO,
            link_free: Time::ZERO,
            link_bytes: 0,
            waiting: VecDeque::new(),
        };
        Network {
            hosts: (0..hosts).map(host).collect(),
            cfg,
            delay: Time::from_ps(87_500),
            weather,
            rng: Pcg64Mcg::seed_from_u64(seed),
            records: vec![Record::default(); plan.len()],
            plan,
            names: BTreeMap::new(),
            flying: BinaryHeap::new(),
            order: 0,
            next: 0,
            now: Time::ZERO,
            totals: Totals::default(),
            log: Vec::new(),
            trace: None,
        }
    }

    pub(crate) fn nic(&self, host: u32) -> &MessageNic<P> {
        &self.hosts[host as usize].nic
    }

    /// Runs until no event is pending, at most to `limit`; returns whether all NICs are idle.
    pub(crate) fn run(&mut self, limit: Time) -> bool {
        while let Some(at) = self.next_instant().filter(|at| *at <= limit) {
            self.now = at;
            self.start_messages();
            self.arrivals();
            self.timers();
            self.wires();
        }
        let over = self.records.iter().all(|record| record.outcome.is_some());
        over && self.next_instant().is_none() && self.hosts.iter().all(|host| host.nic.is_idle())
    }

    fn next_instant(&self) -> Option<Time> {
        let hosts = self.hosts.iter().flat_map(|host| {
            [host.nic.next_transmit().map(|at| at.max(host.wire_free)), host.nic.deadline()].into_iter().flatten()
        });
        let start = self.plan.get(self.next).map(|message| message.at);
        let arrival = self.flying.peek().map(|Reverse(packet)| packet.at);
        hosts.chain(start).chain(arrival).min().map(|at| at.max(self.now))
    }

    fn start_messages(&mut self) {
        while let Some(message) = self.plan.get(self.next).filter(|message| message.at <= self.now) {
            let host = message.src;
            self.hosts[host as usize].waiting.push_back(self.next);
            self.next += 1;
            self.send_waiting(host);
        }
    }

    fn send_waiting(&mut self, src: u32) {
        let host = &mut self.hosts[src as usize];
        while let Some(&number) = host.waiting.front() {
            let Planned { dst, bytes, .. } = self.plan[number];
            let message = Message { dst_ip: dst, dst_context: 7, src_context: 9, bytes, tag: number as u32 };
            match host.nic.send(&self.cfg, self.now, &message) {
                Ok(tx_msg_id) => {
                    self.records[number].taken = Some(self.now);
                    self.names.insert((src, tx_msg_id), number);
                }
                Err(NoBuffer::NoneFree { .. }) => return,
                Err(error) => panic!("{error}"),
            }
            host.waiting.pop_front();
        }
    }

    fn arrivals(&mut self) {
        while self.flying.peek().is_some_and(|Reverse(packet)| packet.at <= self.now) {
            let Some(Reverse(flying)) = self.flying.pop() else { return };
            let Flying { from, trimmed, returned, telemetry, packet, .. } = flying;
            let to = if returned { from } else { packet.dst_ip };
            let arrival = Arrival {
                now: self.now,
                frame_bytes: (HEADER + if trimmed { 0 } else { packet.payload }) as u16,
                trimmed,
                returned,
                marked: false,
                telemetry: Some(&telemetry),
            };
            let received = self.hosts[to as usize].nic.receive(&self.cfg, &packet.header, &arrival);
            self.totals.new_bytes += u64::from(received.new_bytes);
            self.totals.useless += u64::from(received.useless);
            assert!(received.new_bytes <= packet.payload && !(trimmed && received.new_bytes > 0));
            if let Some(done) = received.completed {
                let number = self.names[&(done.src_ip, done.tx_msg_id)];
                assert_eq!((self.plan[number].bytes, self.plan[number].dst), (done.bytes, to));
                self.records[number].delivered += 1;
                self.records[number].delivered_at = Some(self.now);
            }
            self.events(to);
        }
    }

    fn timers(&mut self) {
        for host in 0..self.hosts.len() {
            if self.hosts[host].nic.deadline().is_some_and(|at| at <= self.now) {
                self.hosts[host].nic.on_deadline(&self.cfg, self.now);
                self.events(host as u32);
            }
        }
    }

    fn events(&mut self, host: u32) {
        while let Some(event) = self.hosts[host as usize].nic.poll_event() {
            let (tag, outcome) = match event {
                NicEvent::Sent { tag } => (tag, Outcome::Sent),
                NicEvent::Aborted { tag } => (tag, Outcome::Aborted),
                NicEvent::Timeout { .. } => continue,
                NicEvent::ReceiveExpired { src_ip, tx_msg_id } => {
                    self.records[self.names[&(src_ip, tx_msg_id)]].expired = true;
                    continue;
                }
            };
            let earlier = self.records[tag as usize].outcome.replace((self.now, outcome));
            assert_eq!(earlier, None, "message {tag} ended twice");
            self.send_waiting(host);
        }
    }

    fn wires(&mut self) {
        for host in 0..self.hosts.len() {
            while self.hosts[host].wire_free <= self.now
                && self.hosts[host].nic.next_transmit().is_some_and(|at| at <= self.now)
            {
                if let Some(packet) = self.hosts[host].nic.poll_transmit(&self.cfg, self.now) {
                    self.transmit(host as u32, packet);
                }
            }
        }
    }

    fn transmit(&mut self, from: u32, packet: Outgoing<P::Header>) {
        let time = |bytes: u32| Time::from_ps(u64::from(bytes) * PS_PER_BYTE);
        let source = &mut self.hosts[from as usize];
        source.wire_free = self.now + time(HEADER + packet.payload);
        let at_switch = source.wire_free + self.delay;
        self.totals.control += u64::from(packet.is_control);
        self.totals.data += u64::from(!packet.is_control);
        self.totals.retransmitted += u64::from(packet.is_rtx);
        if !packet.is_control {
            self.log.push((self.now, from, packet.priority, packet.is_rtx));
        }
        if let Some(trace) = &mut self.trace {
            trace.push((self.now, from, packet));
        }
        if self.chance(self.weather.loss) {
            return;
        }
        let trimmed = !packet.is_control && self.chance(self.weather.trim);
        let returned = trimmed && self.chance(self.weather.back);
        let bytes = HEADER + if trimmed { 0 } else { packet.payload };
        let to = if returned { from } else { packet.dst_ip };
        let link = &mut self.hosts[to as usize];
        let leaves = link.link_free.max(at_switch);
        let mut telemetry = Telemetry::default();
        telemetry.push(HopRecord {
            timestamp_ns: (leaves.as_ps() / 1_000) as u32,
            tx_bytes: link.link_bytes,
            queue_bytes: ((leaves - at_switch).as_ps() / PS_PER_BYTE) as u32,
            rate_mbps: 200_000,
        });
        link.link_bytes = link.link_bytes.wrapping_add(bytes);
        link.link_free = leaves + time(bytes);
        let at = link.link_free + self.delay;
        let late = if self.chance(self.weather.late) { self.lateness() } else { Time::ZERO };
        let again = self.chance(self.weather.twice).then(|| self.lateness());
        for late in [Some(late), again].into_iter().flatten() {
            self.order += 1;
            let at = at + late;
            let order = self.order;
            self.flying.push(Reverse(Flying { at, order, from, trimmed, returned, telemetry, packet }));
        }
    }

    fn chance(&mut self, per_thousand: u32) -> bool {
        self.now < self.weather.heals_at && self.rng.next_u64() % 1_000 < u64::from(per_thousand)
    }

    fn lateness(&mut self) -> Time {
        Time::from_ps(self.rng.next_u64() % (self.weather.late_by.as_ps() + 1))
    }
}
