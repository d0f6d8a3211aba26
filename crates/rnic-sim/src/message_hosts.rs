//! The simulated NICs of message transports: each flow is a message, each host a [`MessageNic`] with the transport's program.

use crate::catalogue::Job;
use crate::flow_book::{FlowBook, Stop};
use crate::hosts::FlowEnds;
use crate::in_band::InBand;
use crate::nic::HostTotals;
use crate::resolve::message::{MessagePlan, Program};
use crate::results::{FlowLog, FlowRecord, RunOutput};
use crate::run::{RunHosts, flow_book, run_hosts};
use crate::scenario::P4Program;
use crate::slab::Slab;
use crate::workload::FlowSpec;
use rnic_fabric::{Body, HostId, HostPartition, Location, MIN_FRAME, Packet, PartitionPlan, PartitionedHosts, SlotId};
use rnic_nano::{NicParameters, P4Pipeline};
use rnic_transport::Time;
use rnic_transport::message::buffers::NoBuffer;
use rnic_transport::message::nic::{Counters, Message, MessageNic, NicConfig, NicEvent, Outgoing, Received};
use rnic_transport::message::programs::{Homa, Hpcc, Ndp};
use rnic_transport::message::{Arrival, Pipeline};
use rnic_transport::telemetry::{HopRecord, Telemetry};
use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The address of host 0; the others follow.
const FIRST_IP: u32 = 0x0a00_0000;

/// The address of a host.
pub(crate) fn ip(host: u32) -> u32 {
    FIRST_IP + host
}

/// What a packet carries: the program's header, and what the simulator must know of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried<H, T> {
    /// Sending host.
    src: u32,
    /// Data: the slot of the flow's receiving end.
    flow: u32,
    header: H,
    in_band: T,
}

impl<H: Copy + Default + Send, T: InBand> Body for Carried<H, T> {
    const TELEMETRY: bool = T::TELEMETRY;
    #[inline]
    fn stamp(&mut self, hop: HopRecord) {
        self.in_band.push(hop);
    }
    fn source(&self) -> Option<HostId> {
        Some(HostId(self.src))
    }
}

/// Frames of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Framing {
    /// Bytes around the payload of a data packet.
    pub(crate) header: u32,
    /// Length of a control packet.
    pub(crate) control: u32,
    /// Priorities that the transport uses: its last band travels in priority 0.
    pub(crate) bands: u8,
}

/// Simulates a run by the code compiled for its program.
pub(crate) fn simulate_messages(plan: &MessagePlan, job: Job<'_, '_>) -> RunOutput {
    let NicConfig { mtu, rtt_pkts, .. } = plan.nic;
    match &plan.program {
        Program::Ndp(paced) => simulate::<_, ()>(plan, job, |ip| {
            let ndp = Ndp::new(ip, mtu, rtt_pkts);
            if *paced { ndp.with_paced_nacks() } else { ndp }
        }),
        Program::Homa(settings) => simulate::<_, ()>(plan, job, |ip| Homa::new(ip, *settings)),
        Program::Hpcc(settings) => simulate::<_, Telemetry>(plan, job, |ip| Hpcc::new(ip, *settings)),
        Program::P4(p4, nic) => match (p4.program.header_room(), p4.telemetry) {
            (64, false) => simulate::<_, ()>(plan, job, |ip| p4_pipeline::<64>(p4, nic, ip)),
            (..=192, true) => simulate::<_, Telemetry>(plan, job, |ip| p4_pipeline::<192>(p4, nic, ip)),
            (_, false) => simulate::<_, ()>(plan, job, |ip| p4_pipeline::<256>(p4, nic, ip)),
            (_, true) => simulate::<_, Telemetry>(plan, job, |ip| p4_pipeline::<256>(p4, nic, ip)),
        },
    }
}

/// A program of headers of up to `N` bytes on the NIC with this address.
fn p4_pipeline<const N: usize>(p4: &P4Program, nic: &NicParameters, ip: u32) -> P4Pipeline<N> {
    // Locally administered addresses: those of hosts end as their IP addresses do.
    let nic = NicParameters { ip, mac: 0x0200_0000_0000 | u64::from(ip), switch_mac: 0x0200_ffff_ffff, ..*nic };
    P4Pipeline::new(&p4.program, &nic).expect("N is at least the program's header room")
}

/// The same with the program that `program` makes for an address, and with room for telemetry.
fn simulate<P: Pipeline, T: InBand>(plan: &MessagePlan, job: Job<'_, '_>, program: impl Fn(u32) -> P) -> RunOutput {
    let Job { resolved, seed, flows, loops, observer, sharing, .. } = job;
    let mut fabric = match sharing.fabric::<Carried<P::Header, T>>(resolved, seed) {
        Ok(fabric) => fabric,
        Err(error) => return RunOutput::not_started(error.to_string()),
    };
    let book = flow_book(&fabric, resolved, (flows, loops), observer);
    let partition = fabric.plan().clone();
    let mut hosts = MessageHosts::<P, T, _>::new(plan.nic.clone(), plan.framing, program, partition, book);
    let mut output = run_hosts(&mut fabric, resolved, &mut hosts);
    hosts.warn(&mut output.warnings);
    sharing.done(&fabric);
    output
}

/// The sending end of a message.
struct SendEnd {
    /// Number of the flow among those that there are now.
    flow: u32,
    dst: u32,
    bytes: u32,
    /// Slot of its receiving end there.
    slot: u32,
    flow_hash: u32,
    retransmitted: u32,
    timeouts: u32,
    /// The leading thread knows that the NIC has sent it, or given it up: what both hosts notice in one window comes host by host.
    ended: bool,
}

/// The receiving end of a message.
struct ReceiveEnd {
    flow: u32,
    bytes: u64,
    /// Hash in its packets, which tells them from those of an earlier flow in its slot.
    flow_hash: u32,
    delivered: u64,
    done: bool,
}

/// One host.
struct Host<P: Pipeline, T> {
    /// Its number over all parts.
    number: u32,
    nic: MessageNic<P>,
    /// Flows that start in the current window: time and slot.
    starts: VecDeque<(Time, u32)>,
    /// Flows for which the NIC has had no buffer yet.
    waiting: VecDeque<u32>,
    /// A packet whose priority is paused.
    held: Option<Packet<Carried<P::Header, T>>>,
    /// There is something to send.
    ready: bool,
    /// What it sends; the NIC knows a message by its slot.
    senders: Slab<SendEnd>,
    receivers: Slab<ReceiveEnd>,
}

/// What a host has noticed of a flow, by its number.
#[derive(Clone, Copy)]
enum Noticed {
    /// All of it has arrived.
    Finished(u32, Time),
    /// Its sender knows that.
    Sent(u32),
    /// Its sender has given it up.
    GaveUp(u32),
}

/// What a program did that cannot be. Programs in P4 may do anything.
#[derive(Clone, Copy, Default)]
struct Strays {
    /// Packets for an address that no host has; they are not sent.
    nowhere: u64,
    /// Packets in a band beyond the last one; they travel in the last one.
    beyond: u64,
    /// Packets with payload, and messages, that are no flow's.
    foreign: u64,
}

/// The hosts of one part of the fabric.
pub(crate) struct MessagePart<P: Pipeline, T> {
    cfg: NicConfig,
    framing: Framing,
    /// Hosts in all parts.
    all_hosts: u32,
    hosts: Vec<Host<P, T>>,
    totals: HostTotals,
    strays: Strays,
    last_progress: Time,
    /// Since the window began: by which host, and what.
    noticed: Vec<(u32, Noticed)>,
}

impl<P: Pipeline, T: InBand> MessagePart<P, T> {
    /// Hands a flow to its NIC, or lets it wait for a buffer.
    fn send(&mut self, host: u32, slot: u32, now: Time) -> bool {
        let host = &mut self.hosts[host as usize];
        let SendEnd { dst, bytes, .. } = host.senders[slot];
        let message = Message { dst_ip: ip(dst), bytes, tag: slot, ..Message::default() };
        match host.nic.send(&self.cfg, now, &message) {
            Ok(_) => true,
            Err(NoBuffer::NoneFree { .. } | NoBuffer::TooLong { .. }) => false,
        }
    }

    /// Payload of a flow has arrived, or what the program takes for it.
    #[inline]
    fn arrived(&mut self, host: u32, slot: u32, flow_hash: u32, received: &Received, now: Time) {
        let host = &mut self.hosts[host as usize];
        let Some(end) = host.receivers.get_mut(slot) else {
            self.strays.foreign += 1;
            return;
        };
        self.last_progress = self.last_progress.max(now);
        if end.flow_hash != flow_hash {
            // Of an earlier flow in this slot: it is over.
            self.strays.foreign += u64::from(received.completed.is_some());
            return;
        }
        end.delivered = (end.delivered + u64::from(received.new_bytes)).min(end.bytes);
        let Some(message) = received.completed else { return };
        if end.done || u64::from(message.bytes) != end.bytes {
            self.strays.foreign += 1;
        } else {
            end.done = true;
            self.noticed.push((host.number, Noticed::Finished(end.flow, now)));
        }
    }

    /// The NIC was asked or told something: its events, and whether it has something to send.
    #[inline]
    fn follow_up(&mut self, host: u32, now: Time) {
        while let Some(event) = self.hosts[host as usize].nic.poll_event() {
            self.event(host, event, now);
        }
        let host = &mut self.hosts[host as usize];
        host.ready = host.held.is_some() || host.nic.next_transmit().is_some_and(|at| at <= now);
    }

    fn event(&mut self, index: u32, event: NicEvent, now: Time) {
        let host = &mut self.hosts[index as usize];
        let (tag, noticed): (u32, fn(u32) -> Noticed) = match event {
            NicEvent::Sent { tag } => (tag, Noticed::Sent),
            NicEvent::GaveUp { tag } => (tag, Noticed::GaveUp),
            NicEvent::Timeout { tag } => {
                self.totals.timeouts += 1;
                host.senders[tag].timeouts += 1;
                return;
            }
            NicEvent::ReceiveExpired { .. } => return,
        };
        self.noticed.push((host.number, noticed(host.senders[tag].flow)));
        // A buffer is free.
        while let Some(slot) = self.hosts[index as usize].waiting.front().copied() {
            if !self.send(index, slot, now) {
                break;
            }
            self.hosts[index as usize].waiting.pop_front();
        }
    }

    #[inline]
    fn frame(&mut self, host: u32, out: &Outgoing<P::Header>) -> Option<Packet<Carried<P::Header, T>>> {
        let Framing { header, control, bands } = self.framing;
        let written = P::header_bytes(&out.header);
        let bytes = if out.is_control { written.max(control) } else { out.payload + written.max(header) };
        let dst = out.dst_ip.wrapping_sub(FIRST_IP);
        if dst >= self.all_hosts {
            self.strays.nowhere += 1;
            return None;
        }
        self.strays.beyond += u64::from(out.band >= bands);
        let host = &mut self.hosts[host as usize];
        let src = host.number;
        let (flow, flow_hash, flags) = if out.is_control {
            self.totals.control += 1;
            (u32::MAX, src.wrapping_mul(0x9e37_79b9) ^ dst.wrapping_mul(0x85eb_ca6b), Packet::<()>::CONTROL)
        } else {
            self.totals.data += 1;
            self.totals.retransmitted += u64::from(out.is_rtx);
            let end = &mut host.senders[out.tag];
            end.retransmitted += u32::from(out.is_rtx);
            (end.slot, end.flow_hash, 0)
        };
        Some(Packet {
            dst: HostId(dst),
            flow_hash,
            bytes: (bytes as u16).max(MIN_FRAME),
            priority: (bands - 1).saturating_sub(out.band),
            flags,
            body: Carried { src, flow, header: out.header, in_band: T::default() },
        })
    }

    /// What the host sends next, whatever its priority.
    #[inline]
    fn next_packet(&mut self, index: u32, now: Time) -> Option<Packet<Carried<P::Header, T>>> {
        if let Some(packet) = self.hosts[index as usize].held.take() {
            return Some(packet);
        }
        loop {
            let host = &mut self.hosts[index as usize];
            if let Some(out) = host.nic.poll_transmit(&self.cfg, now) {
                match self.frame(index, &out) {
                    None => continue,
                    packet => return packet,
                }
            }
            host.nic.next_transmit().filter(|at| *at <= now)?;
        }
    }
}

impl<P: Pipeline, T: InBand> HostPartition for MessagePart<P, T> {
    type Body = Carried<P::Header, T>;

    #[inline]
    fn receive(&mut self, SlotId(host): SlotId, now: Time, packet: &Packet<Self::Body>) {
        self.totals.delivered += 1;
        self.totals.marked += u64::from(packet.is_marked());
        let Carried { flow, header, in_band, .. } = &packet.body;
        let arrival = Arrival {
            now,
            frame_bytes: packet.bytes,
            trimmed: packet.is_trimmed(),
            returned: packet.is_returned(),
            marked: packet.is_marked(),
            telemetry: in_band.telemetry(),
        };
        let received = self.hosts[host as usize].nic.receive(&self.cfg, header, &arrival);
        if received.new_bytes > 0 {
            self.arrived(host, *flow, packet.flow_hash, &received, now);
        }
        self.follow_up(host, now);
    }

    #[inline]
    fn next_wake(&self, host: SlotId) -> Time {
        let host = &self.hosts[host.index()];
        let start = host.starts.front().map_or(Time::MAX, |start| start.0);
        let timer = host.nic.deadline().unwrap_or(Time::MAX);
        let paced = if host.ready { None } else { host.nic.next_transmit() };
        start.min(timer).min(paced.unwrap_or(Time::MAX))
    }

    fn wake(&mut self, SlotId(index): SlotId, now: Time) {
        let host = &mut self.hosts[index as usize];
        if let Some((_, slot)) = host.starts.pop_front_if(|(at, _)| *at <= now) {
            if !host.waiting.is_empty() || !self.send(index, slot, now) {
                self.hosts[index as usize].waiting.push_back(slot);
            }
        } else if host.nic.deadline().is_some_and(|at| at <= now) {
            host.nic.on_deadline(&self.cfg, now);
        }
        self.follow_up(index, now);
    }

    #[inline]
    fn wants_to_transmit(&self, host: SlotId) -> bool {
        self.hosts[host.index()].ready
    }

    #[inline]
    fn transmit(&mut self, SlotId(index): SlotId, now: Time, paused: u8) -> Option<Packet<Self::Body>> {
        let packet = self.next_packet(index, now);
        if packet.as_ref().is_some_and(|packet| paused & (1 << packet.priority) != 0) {
            self.hosts[index as usize].held = packet;
            self.follow_up(index, now);
            return None;
        }
        self.follow_up(index, now);
        packet
    }
}

/// All hosts of a run with their messages. A flow has a number while there is anything to know of it; then the number is another's.
pub(crate) struct MessageHosts<'a, P: Pipeline, T, S: Iterator<Item = FlowSpec>> {
    parts: Vec<MessagePart<P, T>>,
    partition: Arc<PartitionPlan>,
    book: FlowBook<'a, S>,
    /// By number.
    flows: Slab<FlowEnds>,
    /// Flows whose sender has not heard that all has arrived.
    sending: u64,
    /// Numbers of flows that their senders have given up: they stay to the end, for all of them may arrive after all.
    given_up: BTreeSet<u32>,
}

impl<'a, P: Pipeline, T: InBand, S: Iterator<Item = FlowSpec>> MessageHosts<'a, P, T, S> {
    /// Hosts with the program each that `program` makes for its address, which will start the flows of the book.
    fn new(
        cfg: NicConfig, framing: Framing, program: impl Fn(u32) -> P, partition: Arc<PartitionPlan>,
        book: FlowBook<'a, S>,
    ) -> Self {
        let host = |id: &HostId| Host {
            number: id.0,
            nic: MessageNic::new(&cfg, program(ip(id.0))),
            starts: VecDeque::new(),
            waiting: VecDeque::new(),
            held: None,
            ready: false,
            senders: Slab::new(),
            receivers: Slab::new(),
        };
        let all_hosts = (0..partition.partitions()).map(|part| partition.hosts_of(part).len() as u32).sum();
        let part = |part| MessagePart {
            cfg: cfg.clone(),
            framing,
            all_hosts,
            hosts: partition.hosts_of(part).iter().map(host).collect(),
            totals: HostTotals::default(),
            strays: Strays::default(),
            last_progress: Time::ZERO,
            noticed: Vec::new(),
        };
        MessageHosts {
            parts: (0..partition.partitions()).map(part).collect(),
            partition,
            book,
            flows: Slab::new(),
            sending: 0,
            given_up: BTreeSet::new(),
        }
    }

    fn host(&self, place: Location) -> &Host<P, T> {
        &self.parts[place.partition as usize].hosts[place.slot.index()]
    }
    fn host_mut(&mut self, place: Location) -> &mut Host<P, T> {
        &mut self.parts[place.partition as usize].hosts[place.slot.index()]
    }
    fn send_end(&self, flow: u32) -> &SendEnd {
        let FlowEnds { sender, send_slot, .. } = self.flows[flow];
        &self.host(sender).senders[send_slot]
    }
    fn receive_end(&self, flow: u32) -> &ReceiveEnd {
        let FlowEnds { receiver, receive_slot, .. } = self.flows[flow];
        &self.host(receiver).receivers[receive_slot]
    }

    /// Creates both ends of a flow; returns its number.
    fn open(&mut self, spec: &FlowSpec) -> u32 {
        let (flow_hash, _) = self.book.hashes(spec);
        let flow = self.flows.insert(FlowEnds::default());
        let (sender, receiver) = (self.partition.node(spec.src), self.partition.node(spec.dst));
        let receive = ReceiveEnd { flow, bytes: spec.bytes, flow_hash, delivered: 0, done: false };
        let receive_slot = self.host_mut(receiver).receivers.insert(receive);
        let send = SendEnd {
            flow,
            dst: spec.dst,
            bytes: spec.bytes as u32,
            slot: receive_slot,
            flow_hash,
            retransmitted: 0,
            timeouts: 0,
            ended: false,
        };
        let send_slot = self.host_mut(sender).senders.insert(send);
        self.host_mut(sender).starts.push_back((spec.start, send_slot));
        self.flows[flow] = FlowEnds { sender, send_slot, receiver, receive_slot };
        self.book.start(spec, flow_hash, flow);
        flow
    }

    /// Takes over what the hosts have noticed since the window began, host by host.
    fn take_noticed(&mut self) {
        let mut noticed = Vec::new();
        for part in &mut self.parts {
            noticed.append(&mut part.noticed);
        }
        noticed.sort_by_key(|(host, _)| *host); // stable: each host's in order of time
        for (_, noticed) in noticed {
            match noticed {
                // What its sender has given up counts as not finished even if all of it has arrived.
                Noticed::Finished(flow, _) if self.given_up.contains(&flow) => {}
                Noticed::Finished(flow, at) => {
                    let hash = self.send_end(flow).flow_hash;
                    self.book.finish(flow, hash, at);
                    self.retire(flow);
                }
                Noticed::Sent(flow) => {
                    self.end_sending(flow);
                    self.retire(flow);
                }
                Noticed::GaveUp(flow) => {
                    self.end_sending(flow);
                    if self.book.record(flow).finish.is_none() {
                        self.book.abandon();
                        self.given_up.insert(flow);
                    } else {
                        self.retire(flow);
                    }
                }
            }
        }
    }

    /// The NIC of its sender is done with a flow.
    fn end_sending(&mut self, flow: u32) {
        self.sending -= 1;
        let FlowEnds { sender, send_slot, .. } = self.flows[flow];
        self.host_mut(sender).senders[send_slot].ended = true;
    }

    /// Forgets a flow if it is over for both ends.
    fn retire(&mut self, flow: u32) {
        let SendEnd { retransmitted, timeouts, ended, .. } = *self.send_end(flow);
        if !ended || self.book.record(flow).finish.is_none() {
            return;
        }
        self.book.retire(flow, retransmitted, timeouts);
        let FlowEnds { sender, send_slot, receiver, receive_slot } = self.flows[flow];
        self.host_mut(sender).senders.release(send_slot);
        let host = self.host_mut(receiver);
        // Late packets are not those of the next flow in the slot.
        host.receivers[receive_slot].flow_hash ^= u32::MAX;
        host.receivers.release(receive_slot);
        self.flows.release(flow);
    }
}

impl<P: Pipeline, T: InBand, S: Iterator<Item = FlowSpec>> PartitionedHosts for MessageHosts<'_, P, T, S> {
    type Partition = MessagePart<P, T>;

    fn partitions(&mut self) -> &mut Vec<MessagePart<P, T>> {
        &mut self.parts
    }

    fn next_start(&self) -> Time {
        self.book.next_start()
    }

    fn open_window(&mut self, end: Time, wake: &mut dyn FnMut(HostId, Time)) {
        while let Some((spec, origin)) = self.book.next_flow(end) {
            let flow = self.open(&spec);
            self.book.place(flow, origin);
            self.sending += 1;
            wake(HostId(spec.src), spec.start);
        }
        self.book.window_is_open();
    }

    fn close_window(&mut self, end: Time, hops: u64) -> ControlFlow<()> {
        let progress = self.parts.iter().map(|part| part.last_progress).max();
        self.book.progress(progress.unwrap_or_default());
        if self.parts.iter().any(|part| !part.noticed.is_empty()) {
            self.take_noticed();
        }
        self.book.close_window(end, hops, self.sending == 0)
    }
}

impl<P: Pipeline, T: InBand, S: Iterator<Item = FlowSpec>> MessageHosts<'_, P, T, S> {
    /// All hosts, in order of their numbers.
    fn in_order(&self) -> impl Iterator<Item = &Host<P, T>> {
        (0..self.parts[0].all_hosts).map(|number| self.host(self.partition.node(number)))
    }

    /// What a reader should know of the run.
    fn warn(&self, warnings: &mut Vec<String>) {
        let sum = |of: fn(&Counters) -> u64| self.in_order().map(|host| of(&host.nic.counters())).sum::<u64>();
        let strays = |of: fn(&Strays) -> u64| self.parts.iter().map(|part| of(&part.strays)).sum::<u64>();
        let given_up = self.given_up.len();
        if given_up > 0 {
            let messages =
                if given_up == 1 { "1 message was".to_string() } else { format!("{given_up} messages were") };
            let timeouts = self.parts[0].cfg.most_timeouts;
            warnings.push(format!("{messages} given up after {timeouts} timeouts in a row without an answer"));
        }
        for (count, what) in [
            (sum(|counters| counters.rx_failures), "packets found no buffer for their message"),
            (sum(|counters| counters.expired), "messages were forgotten by their receivers"),
            (sum(|counters| counters.program_errors), "packets were treated by the program against what it was told"),
            (strays(|strays| strays.nowhere), "packets of the program were for no host"),
            (strays(|strays| strays.beyond), "packets of the program were in a band beyond its last one"),
            (strays(|strays| strays.foreign), "packets or messages that the program made are no flow's"),
        ] {
            if count > 0 {
                warnings.push(format!("{count} {what}"));
            }
        }
        for (count, what) in self.faults().into_iter().filter(|(count, _)| *count > 0) {
            warnings.push(format!("{count} {what}"));
        }
    }

    /// What the programs have noticed themselves.
    fn faults(&self) -> Vec<(u64, &'static str)> {
        let mut sums: Vec<(u64, &'static str)> = Vec::new();
        for (count, what) in self.in_order().flat_map(|host| host.nic.program().faults()) {
            match sums.iter_mut().find(|(_, known)| *known == what) {
                Some((sum, _)) => *sum += count,
                None => sums.push((count, what)),
            }
        }
        sums
    }

    /// The flows that are under way before `now`. Of what has finished since the window began
    /// only the host knows.
    fn open_flows(&self, now: Time) -> impl Iterator<Item = (u32, &FlowRecord)> {
        let open = self.book.open_flows().filter(|(_, record)| record.finish.is_none());
        open.filter(move |(flow, record)| {
            record.start < now && !self.given_up.contains(flow) && !self.receive_end(*flow).done
        })
    }
}

impl<P: Pipeline, T: InBand, S: Iterator<Item = FlowSpec>> RunHosts for MessageHosts<'_, P, T, S> {
    fn totals(&self) -> HostTotals {
        let mut totals = HostTotals::default();
        self.parts.iter().for_each(|part| totals.add(&part.totals));
        totals.given_up += self.given_up.len() as u64;
        totals
    }
    fn stop(&self) -> Option<Stop> {
        self.book.stop()
    }
    fn unfinished(&self) -> u64 {
        self.book.active()
    }
    fn under_way(&self, now: Time) -> impl Iterator<Item = (u32, u32, u32, u32)> {
        self.open_flows(now).map(|(flow, record)| (record.id, record.src, record.dst, self.send_end(flow).flow_hash))
    }
    fn delivered(&self, now: Time) -> impl Iterator<Item = (u32, u64)> {
        self.open_flows(now).map(|(flow, record)| (record.id, self.receive_end(flow).delivered))
    }
    fn take_records(&mut self) -> FlowLog {
        let open: Vec<u32> = self.book.open_flows().map(|(flow, _)| flow).collect();
        for flow in open {
            let SendEnd { retransmitted, timeouts, .. } = *self.send_end(flow);
            let delivered = self.receive_end(flow).delivered;
            self.book.cut(flow, delivered, retransmitted, timeouts);
        }
        self.book.take_log()
    }
}
