//! The simulated NICs of message transports: each flow is a message, each host a [`MessageNic`] with the transport's program.

use crate::catalogue::Job;
use crate::flow_book::{FlowBook, Stop};
use crate::in_band::InBand;
use crate::nic::HostTotals;
use crate::resolve::message::{MessagePlan, Program};
use crate::results::{FlowRecord, RunOutput};
use crate::run::{RunHosts, flow_book, run_hosts};
use crate::scenario::P4Program;
use crate::workload::FlowSpec;
use rnic_fabric::{Body, Endpoint, Fabric, MIN_FRAME, Packet};
use rnic_nano::{NicParameters, P4Pipeline};
use rnic_transport::Time;
use rnic_transport::message::buffers::NoBuffer;
use rnic_transport::message::nic::{Counters, Message, MessageNic, NicConfig, NicEvent, Outgoing, Received};
use rnic_transport::message::programs::{Homa, Hpcc, Ndp};
use rnic_transport::message::{Arrival, Pipeline};
use rnic_transport::telemetry::{HopRecord, Telemetry};
use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

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
    /// Data: number of the flow.
    flow: u32,
    header: H,
    in_band: T,
}

impl<H: Copy + Default, T: InBand> Body for Carried<H, T> {
    const TELEMETRY: bool = T::TELEMETRY;
    #[inline]
    fn stamp(&mut self, hop: HopRecord) {
        self.in_band.push(hop);
    }
    fn source(&self) -> Option<u32> {
        Some(self.src)
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
    let Job { resolved, seed, flows, loops, observer, .. } = job;
    let mut fabric = match Fabric::<Carried<P::Header, T>>::on(resolved.topology.clone(), &resolved.fabric, seed) {
        Ok(fabric) => fabric,
        Err(error) => return RunOutput::not_started(error.to_string()),
    };
    let book = flow_book(&fabric, resolved, (flows, loops), observer);
    let programs = (0..fabric.topology().hosts).map(|host| program(ip(host))).collect();
    let mut hosts = MessageHosts::<P, T, _>::new(plan.nic.clone(), plan.framing, programs, book);
    let mut output = run_hosts(&mut fabric, resolved, &mut hosts);
    hosts.warn(&mut output.warnings);
    output
}

/// One host.
struct Host<P: Pipeline, T> {
    nic: MessageNic<P>,
    /// Flows that start in the current window.
    starts: VecDeque<(Time, u32)>,
    /// Flows for which the NIC has had no buffer yet.
    waiting: VecDeque<u32>,
    /// A packet whose priority is paused.
    held: Option<Packet<Carried<P::Header, T>>>,
    /// There is something to send.
    ready: bool,
}

/// All hosts of a run with their messages.
pub(crate) struct MessageHosts<'a, P: Pipeline, T, S: Iterator<Item = FlowSpec>> {
    cfg: NicConfig,
    framing: Framing,
    book: FlowBook<'a, S>,
    hosts: Vec<Host<P, T>>,
    /// By number of the flow.
    hashes: Vec<u32>,
    /// Flows whose sender has not heard that all has arrived.
    sending: u64,
    given_up: BTreeSet<u32>,
    /// Every flow before this one is over.
    first_open: usize,
    totals: HostTotals,
    strays: Strays,
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

impl<'a, P: Pipeline, T: InBand, S: Iterator<Item = FlowSpec>> MessageHosts<'a, P, T, S> {
    /// Hosts with a program each, which will start the flows of the book.
    pub(crate) fn new(cfg: NicConfig, framing: Framing, programs: Vec<P>, book: FlowBook<'a, S>) -> Self {
        let host = |program| Host {
            nic: MessageNic::new(&cfg, program),
            starts: VecDeque::new(),
            waiting: VecDeque::new(),
            held: None,
            ready: false,
        };
        let hosts = programs.into_iter().map(host).collect();
        MessageHosts {
            cfg,
            framing,
            book,
            hosts,
            hashes: Vec::new(),
            sending: 0,
            given_up: BTreeSet::new(),
            first_open: 0,
            totals: HostTotals::default(),
            strays: Strays::default(),
        }
    }

    /// Hands a flow to its NIC, or lets it wait for a buffer.
    fn send(&mut self, host: u32, flow: u32, now: Time) -> bool {
        let record = &self.book.records[flow as usize];
        let message = Message { dst_ip: ip(record.dst), bytes: record.bytes as u32, tag: flow, ..Message::default() };
        match self.hosts[host as usize].nic.send(&self.cfg, now, &message) {
            Ok(_) => true,
            Err(NoBuffer::NoneFree { .. } | NoBuffer::TooLong { .. }) => false,
        }
    }

    /// Payload of a flow has arrived, or what the program takes for it.
    #[inline]
    fn arrived(&mut self, flow: u32, flow_hash: u32, received: &Received, now: Time) {
        let Some(record) = self.book.records.get_mut(flow as usize) else {
            self.strays.foreign += 1;
            return;
        };
        record.delivered = (record.delivered + u64::from(received.new_bytes)).min(record.bytes);
        let (bytes, is_open) = (record.bytes, record.finish.is_none());
        self.book.progress(now);
        let Some(message) = received.completed else { return };
        if !is_open || u64::from(message.bytes) != bytes {
            self.strays.foreign += 1;
        } else if self.given_up.is_empty() || !self.given_up.contains(&flow) {
            // What its sender has given up counts as not finished even if all of it has arrived.
            self.book.finish(flow, flow, flow_hash, now);
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

    fn event(&mut self, host: u32, event: NicEvent, now: Time) {
        match event {
            NicEvent::Sent { .. } => {}
            NicEvent::GaveUp { tag } => {
                if self.book.records[tag as usize].finish.is_none() {
                    self.book.abandon();
                    self.given_up.insert(tag);
                    self.totals.given_up += 1;
                }
            }
            NicEvent::Timeout { tag } => {
                self.totals.timeouts += 1;
                self.book.records[tag as usize].timeouts += 1;
                return;
            }
            NicEvent::ReceiveExpired { .. } => return,
        }
        self.sending -= 1;
        // A buffer is free.
        while let Some(flow) = self.hosts[host as usize].waiting.front().copied() {
            if !self.send(host, flow, now) {
                break;
            }
            self.hosts[host as usize].waiting.pop_front();
        }
    }

    #[inline]
    fn frame(&mut self, host: u32, out: &Outgoing<P::Header>) -> Option<Packet<Carried<P::Header, T>>> {
        let Framing { header, control, bands } = self.framing;
        let written = P::header_bytes(&out.header);
        let bytes = if out.is_control { written.max(control) } else { out.payload + written.max(header) };
        let dst = out.dst_ip.wrapping_sub(FIRST_IP);
        if dst as usize >= self.hosts.len() {
            self.strays.nowhere += 1;
            return None;
        }
        self.strays.beyond += u64::from(out.band >= bands);
        let (flow, flow_hash, flags) = if out.is_control {
            self.totals.control += 1;
            (u32::MAX, host.wrapping_mul(0x9e37_79b9) ^ dst.wrapping_mul(0x85eb_ca6b), Packet::<()>::CONTROL)
        } else {
            self.totals.data += 1;
            self.totals.retransmitted += u64::from(out.is_rtx);
            self.book.records[out.tag as usize].retransmitted += u32::from(out.is_rtx);
            (out.tag, self.hashes[out.tag as usize], 0)
        };
        Some(Packet {
            dst,
            flow_hash,
            bytes: (bytes as u16).max(MIN_FRAME),
            priority: (bands - 1).saturating_sub(out.band),
            flags,
            body: Carried { src: host, flow, header: out.header, in_band: T::default() },
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

impl<P: Pipeline, T: InBand, S: Iterator<Item = FlowSpec>> Endpoint for MessageHosts<'_, P, T, S> {
    type Body = Carried<P::Header, T>;

    #[inline]
    fn receive(&mut self, host: u32, now: Time, packet: &Packet<Self::Body>) {
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
            self.arrived(*flow, packet.flow_hash, &received, now);
        }
        self.follow_up(host, now);
    }

    #[inline]
    fn next_wake(&self, host: u32) -> Time {
        let host = &self.hosts[host as usize];
        let start = host.starts.front().map_or(Time::MAX, |start| start.0);
        let timer = host.nic.deadline().unwrap_or(Time::MAX);
        let paced = if host.ready { None } else { host.nic.next_transmit() };
        start.min(timer).min(paced.unwrap_or(Time::MAX))
    }

    fn wake(&mut self, index: u32, now: Time) {
        let host = &mut self.hosts[index as usize];
        if let Some((_, flow)) = host.starts.pop_front_if(|(at, _)| *at <= now) {
            if !host.waiting.is_empty() || !self.send(index, flow, now) {
                self.hosts[index as usize].waiting.push_back(flow);
            }
        } else if host.nic.deadline().is_some_and(|at| at <= now) {
            host.nic.on_deadline(&self.cfg, now);
        }
        self.follow_up(index, now);
    }

    #[inline]
    fn wants_to_transmit(&self, host: u32) -> bool {
        self.hosts[host as usize].ready
    }

    #[inline]
    fn transmit(&mut self, index: u32, now: Time, paused: u8) -> Option<Packet<Self::Body>> {
        let packet = self.next_packet(index, now);
        if packet.as_ref().is_some_and(|packet| paused & (1 << packet.priority) != 0) {
            self.hosts[index as usize].held = packet;
            self.follow_up(index, now);
            return None;
        }
        self.follow_up(index, now);
        packet
    }

    fn next_start(&self) -> Time {
        self.book.next_start()
    }

    fn open_window(&mut self, end: Time, wake: &mut dyn FnMut(u32, Time)) {
        while let Some((flow, origin)) = self.book.next_flow(end) {
            let (flow_hash, _) = self.book.hashes(&flow);
            let number = self.book.start(&flow, flow_hash);
            self.book.place(number, origin);
            self.hashes.push(flow_hash);
            self.sending += 1;
            self.hosts[flow.src as usize].starts.push_back((flow.start, number));
            wake(flow.src, flow.start);
        }
        self.book.window_is_open();
    }

    fn close_window(&mut self, end: Time, hops: u64) -> ControlFlow<()> {
        while self.book.records.get(self.first_open).is_some_and(|record| !self.is_open(record)) {
            self.first_open += 1;
        }
        self.book.close_window(end, hops, self.sending == 0)
    }
}

impl<P: Pipeline, T: InBand, S: Iterator<Item = FlowSpec>> MessageHosts<'_, P, T, S> {
    /// What a reader should know of the run.
    fn warn(&self, warnings: &mut Vec<String>) {
        let sum = |of: fn(&Counters) -> u64| self.hosts.iter().map(|host| of(&host.nic.counters())).sum::<u64>();
        let given_up = self.given_up.len();
        if given_up > 0 {
            let messages =
                if given_up == 1 { "1 message was".to_string() } else { format!("{given_up} messages were") };
            let timeouts = self.cfg.most_timeouts;
            warnings.push(format!("{messages} given up after {timeouts} timeouts in a row without an answer"));
        }
        for (count, what) in [
            (sum(|counters| counters.rx_failures), "packets found no buffer for their message"),
            (sum(|counters| counters.expired), "messages were forgotten by their receivers"),
            (sum(|counters| counters.program_errors), "packets were treated by the program against what it was told"),
            (self.strays.nowhere, "packets of the program were for no host"),
            (self.strays.beyond, "packets of the program were in a band beyond its last one"),
            (self.strays.foreign, "packets or messages that the program made are no flow's"),
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
        for (count, what) in self.hosts.iter().flat_map(|host| host.nic.program().faults()) {
            match sums.iter_mut().find(|(_, known)| *known == what) {
                Some((sum, _)) => *sum += count,
                None => sums.push((count, what)),
            }
        }
        sums
    }

    /// Records of the flows that are under way before `now`.
    fn open_records(&self, now: Time) -> impl Iterator<Item = &FlowRecord> {
        let records = self.book.records[self.first_open..].iter();
        records.filter(move |record| self.is_open(record) && record.start < now)
    }

    fn is_open(&self, record: &FlowRecord) -> bool {
        record.finish.is_none() && !self.given_up.contains(&record.id)
    }
}

impl<P: Pipeline, T: InBand, S: Iterator<Item = FlowSpec>> RunHosts for MessageHosts<'_, P, T, S> {
    fn totals(&self) -> HostTotals {
        self.totals
    }
    fn stop(&self) -> Option<Stop> {
        self.book.stop()
    }
    fn unfinished(&self) -> u64 {
        self.book.active()
    }
    fn under_way(&self, now: Time) -> impl Iterator<Item = (u32, u32, u32, u32)> {
        self.open_records(now).map(|record| (record.id, record.src, record.dst, self.hashes[record.id as usize]))
    }
    fn delivered(&self, now: Time) -> impl Iterator<Item = (u32, u64)> {
        self.open_records(now).map(|record| (record.id, record.delivered))
    }
    fn take_records(&mut self) -> Vec<FlowRecord> {
        std::mem::take(&mut self.book.records)
    }
}
