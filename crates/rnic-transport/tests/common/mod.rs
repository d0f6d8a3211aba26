//! Sender and receiver of one flow, connected by a lossy pipe, in virtual time.
//!
//! The pipe transmits one data packet per time `packet` and delivers it `delay` after its last bit. ACKs and NACKs take
//! `delay` and no transmission time, so a single data packet and its ACK take `packet + 2 * delay`. Events of one
//! instant have a fixed order: arrivals, then timers, then transmission.
#![allow(dead_code, unused_imports)] // no test file uses all items

mod faults;

pub(crate) use faults::{Faults, Random, Rates, Script};

use rnic_transport::congestion::NoCongestionControl;
use rnic_transport::recovery::Protocol;
use rnic_transport::{FlowConfig, GoBack, Pdu, PduKind, Psn, Receiver, RxMeta, Sender, Time, Timer};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;

/// The sender in all tests: loss recovery without congestion control.
pub(crate) type Source<P> = Sender<P, NoCongestionControl>;

/// The position that a SYN has for [`Faults`].
pub(crate) const SYN: u32 = u32::MAX;

/// Timing of the path between sender and receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipe {
    /// Transmission time of a data packet.
    pub(crate) packet: Time,
    /// One-way delay.
    pub(crate) delay: Time,
}

impl Pipe {
    /// 1 us per packet, 2 us each way: a packet sent at t arrives at t + 3 us, its reply at t + 5 us.
    pub(crate) const SHORT: Pipe = Pipe { packet: Time::from_us(1), delay: Time::from_us(2) };
    /// Time from the start of a packet's transmission to the arrival of its ACK.
    pub(crate) fn rtt(self) -> Time {
        self.packet + self.delay + self.delay
    }
}

/// The direction of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Way {
    ToReceiver,
    ToSender,
}

/// A packet in flight. Packets are ordered by arrival time and order of departure.
#[derive(Clone, Copy, Debug)]
struct Flying {
    at: Time,
    order: u64,
    way: Way,
    pdu: Pdu,
}

impl PartialEq for Flying {
    fn eq(&self, other: &Flying) -> bool {
        self.order == other.order
    }
}
impl Eq for Flying {}
impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Flying) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Flying {
    fn cmp(&self, other: &Flying) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Counters of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    /// Number of transmitted data packets, retransmissions included.
    pub(crate) sent: u64,
    /// Number of transmitted SYNs, retransmissions included.
    pub(crate) syns: u64,
    /// Number of retransmitted data packets.
    pub(crate) retransmitted: u64,
    /// Number of lost data packets.
    pub(crate) data_lost: u64,
    /// Number of data packets that the receiver accepted.
    pub(crate) accepted: u64,
    /// Number of NACKs that the receiver sent.
    pub(crate) nacks: u64,
    /// Number of losses that the sender detected from ACKs and NACKs.
    pub(crate) losses: u64,
    /// Number of retransmission timeouts of the sender.
    pub(crate) timeouts: u64,
    /// Number of timeouts of the receiver.
    pub(crate) receiver_timeouts: u64,
    /// Number of times that the receiver reported completion.
    pub(crate) completions: u64,
    /// Maximum number of packets in flight.
    pub(crate) peak_in_flight: u32,
    /// Time at which the receiver had all packets.
    pub(crate) received_at: Option<Time>,
    /// Time at which all packets were acknowledged.
    pub(crate) acknowledged_at: Option<Time>,
}

/// A flow of `packets` full packets over a pipe.
pub(crate) struct Pair<P: Protocol, F: Faults> {
    pub(crate) cfg: FlowConfig,
    pub(crate) sender: Source<P>,
    pub(crate) receiver: Receiver<P>,
    pub(crate) totals: Totals,
    pub(crate) now: Time,
    pipe: Pipe,
    faults: F,
    packets: u32,
    wire_free: Time,
    /// Transmission time of a packet on a slower second link, which has an unlimited queue.
    slow_link: Time,
    /// Time at which the second link becomes idle.
    slow_link_free: Time,
    flying: BinaryHeap<Reverse<Flying>>,
    order: u64,
    /// Whether each packet was sent, by its position in the flow.
    sent: Vec<bool>,
    /// Whether the receiver accepted each packet, by its position in the flow.
    accepted: Vec<bool>,
    trace: Option<String>,
    /// Time by which the run must end.
    limit: Time,
}

impl<P: Protocol, F: Faults> Pair<P, F> {
    pub(crate) fn new(cfg: FlowConfig, packets: u32, pipe: Pipe, faults: F) -> Pair<P, F> {
        let bytes = u64::from(packets) * u64::from(cfg.mtu);
        Pair {
            sender: Sender::new(&cfg, &(), bytes, Time::ZERO),
            receiver: Receiver::new(&cfg, bytes, Time::ZERO),
            totals: Totals::default(),
            now: Time::ZERO,
            pipe,
            faults,
            packets,
            wire_free: Time::ZERO,
            slow_link: Time::ZERO,
            slow_link_free: Time::ZERO,
            flying: BinaryHeap::with_capacity(4 * packets.min(8_192) as usize + 64),
            order: 0,
            sent: vec![false; packets as usize],
            accepted: vec![false; packets as usize],
            trace: None,
            limit: Time::from_ms(60_000),
            cfg,
        }
    }

    /// Records a trace from now on.
    pub(crate) fn traced(mut self) -> Self {
        self.trace = Some(String::new());
        self
    }

    /// Adds a slower second link, on which a packet takes `slow_link`.
    pub(crate) fn behind(mut self, slow_link: Time) -> Self {
        self.slow_link = slow_link;
        self
    }

    /// The trace so far: one event per line, with sequence numbers relative to the flow's first PSN.
    pub(crate) fn trace(&self) -> &str {
        self.trace.as_deref().unwrap_or_default()
    }

    /// Runs until no event is pending.
    pub(crate) fn run(&mut self) {
        while self.step() {}
    }

    /// Processes all events up to and including the time `until`.
    pub(crate) fn run_until(&mut self, until: Time) {
        while self.next_event().is_some_and(|at| at <= until) {
            self.step();
        }
    }

    /// Whether the receiver has all packets, and the sender knows that it has, if the protocol tells the sender.
    pub(crate) fn is_over(&self) -> bool {
        let knows = !P::sender_learns_completion(&self.cfg) || self.sender.is_complete();
        self.receiver.is_complete() && knows
    }

    fn transmit_at(&self) -> Option<Time> {
        Some(self.sender.next_transmit(&self.cfg)?.max(self.wire_free))
    }

    fn next_event(&self) -> Option<Time> {
        let events = [
            self.flying.peek().map(|next| next.0.at),
            self.sender.deadline(&self.cfg).map(|(at, _)| at),
            self.receiver.deadline(&self.cfg),
            self.transmit_at(),
        ];
        let next = events.into_iter().flatten().min()?;
        Some(next.max(self.now))
    }

    /// Processes all events of the next instant at which an event is due; returns false if no event is pending.
    fn step(&mut self) -> bool {
        let Some(at) = self.next_event() else { return false };
        assert!(at <= self.limit, "no end in sight: {:?}", self.totals);
        self.now = at;
        while let Some(next) = self.flying.peek().filter(|next| next.0.at <= at) {
            let pdu = next.0.pdu;
            let way = next.0.way;
            self.flying.pop();
            match way {
                Way::ToReceiver => self.data_arrives(pdu),
                Way::ToSender => self.reply_arrives(pdu),
            }
        }
        self.timers();
        if self.transmit_at().is_some_and(|free| free <= at) {
            self.transmit();
        }
        let in_flight = self.sender.in_flight();
        self.totals.peak_in_flight = self.totals.peak_in_flight.max(in_flight);
        assert!(
            !self.sender.is_complete() || self.receiver.is_complete(),
            "the sender believes in a completion that is not"
        );
        true
    }

    fn timers(&mut self) {
        if let Some(timer) = self.sender.on_deadline(&self.cfg, &(), self.now) {
            assert_ne!(timer, Timer::Congestion);
            if timer == Timer::Retransmit {
                self.totals.timeouts += 1;
                self.note(format_args!("timeout"));
            }
        }
        if let Some(nack) = self.receiver.on_deadline(&self.cfg, self.now) {
            self.totals.receiver_timeouts += 1;
            let lost = self.reply_departs(nack);
            if self.trace.is_some() {
                let said = self.show(nack);
                self.note(format_args!("sink timeout, {said}{lost}"));
            }
        }
    }

    fn transmit(&mut self) {
        let tx = self.sender.poll_transmit(&self.cfg, &(), self.now);
        let tx = tx.expect("next_transmit promised a packet");
        if tx.pdu.is_syn() {
            assert_eq!((tx.pdu.kind(), tx.payload), (PduKind::Data, 0));
            assert_eq!(tx.retransmission, self.totals.syns > 0);
            self.totals.syns += 1;
            self.wire_free = self.now + self.pipe.packet;
            let fate = self.faults.data(self.now, SYN);
            for extra in fate.into_iter().flatten() {
                self.launch(Way::ToReceiver, self.wire_free + self.pipe.delay + extra, tx.pdu);
            }
            return self.note(format_args!("send SYN{}", lost(fate)));
        }
        let position = self.position(tx.pdu.psn());
        assert_eq!(tx.pdu.kind(), PduKind::Data);
        assert_eq!(tx.payload, self.cfg.mtu);
        assert_eq!(tx.pdu.is_last(), position + 1 == self.packets);
        assert_eq!(tx.retransmission, self.sent[position as usize]);
        self.sent[position as usize] = true;
        self.totals.sent += 1;
        self.totals.retransmitted += u64::from(tx.retransmission);
        self.wire_free = self.now + self.pipe.packet;
        self.slow_link_free = self.slow_link_free.max(self.wire_free) + self.slow_link;
        let arrival = self.slow_link_free + self.pipe.delay;
        let fate = self.faults.data(self.now, position);
        self.totals.data_lost += u64::from(fate == [None, None]);
        for extra in fate.into_iter().flatten() {
            self.launch(Way::ToReceiver, arrival + extra, tx.pdu);
        }
        let verb = if tx.retransmission { "resend" } else { "send" };
        self.note(format_args!("{verb} #{position}{}", lost(fate)));
    }

    fn data_arrives(&mut self, pdu: Pdu) {
        let position = self.position(pdu.psn());
        let outcome = self.receiver.handle(&self.cfg, self.now, pdu, RxMeta::default());
        if pdu.is_syn() {
            assert!(!outcome.completed);
        } else if !outcome.discarded {
            self.totals.accepted += 1;
            let before = std::mem::replace(&mut self.accepted[position as usize], true);
            let may_discard = self.cfg.go_back == GoBack::First;
            assert!(!before || may_discard, "#{position} was accepted twice");
        }
        if outcome.completed {
            self.totals.completions += 1;
            self.totals.received_at = Some(self.now);
            assert!(self.receiver.is_complete());
        }
        let lost = outcome.reply.map_or("", |reply| self.reply_departs(reply));
        if self.trace.is_some() {
            let mut said = String::new();
            if let Some(reply) = outcome.reply {
                said = format!(", {}{lost}", self.show(reply));
            }
            let use_of_it = if outcome.discarded { " discarded" } else { "" };
            let done = if outcome.completed { ", complete" } else { "" };
            let what = if pdu.is_syn() { "SYN".to_string() } else { format!("#{position}") };
            self.note(format_args!("recv {what}{use_of_it}{said}{done}"));
        }
    }

    /// Sends a reply; returns the note about its loss for the trace, or an empty text.
    fn reply_departs(&mut self, reply: Pdu) -> &'static str {
        self.totals.nacks += u64::from(reply.kind() == PduKind::Nack);
        let fate = self.faults.reply(self.now);
        for extra in fate.into_iter().flatten() {
            self.launch(Way::ToSender, self.now + self.pipe.delay + extra, reply);
        }
        lost(fate)
    }

    fn reply_arrives(&mut self, pdu: Pdu) {
        let was_complete = self.sender.is_complete();
        let progress = self.sender.handle(&self.cfg, &(), self.now, pdu);
        self.totals.losses += u64::from(progress.loss.is_some());
        let completes = self.sender.is_complete() && !was_complete;
        if completes {
            self.totals.acknowledged_at = Some(self.now);
        }
        if self.trace.is_some() {
            let said = self.show(pdu);
            let done = if completes { ", complete" } else { "" };
            self.note(format_args!("{said} arrives{done}"));
        }
    }

    fn launch(&mut self, way: Way, at: Time, pdu: Pdu) {
        self.order += 1;
        let order = self.order;
        self.flying.push(Reverse(Flying { at, order, way, pdu }));
    }

    fn position(&self, psn: Psn) -> u32 {
        psn.since(self.cfg.first_psn)
    }

    fn show(&self, pdu: Pdu) -> String {
        let expected = self.position(pdu.psn());
        match pdu.kind() {
            PduKind::Nack => format!("NACK {expected}/{}", self.position(pdu.trigger())),
            _ if pdu.is_syn() => format!("SYN-ACK {expected}"),
            _ => format!("ACK {expected}"),
        }
    }

    fn note(&mut self, what: std::fmt::Arguments<'_>) {
        if let Some(trace) = &mut self.trace {
            let _ = writeln!(trace, "t={}us {what}", self.now.as_us());
        }
    }
}

fn lost(fate: [Option<Time>; 2]) -> &'static str {
    if fate == [None, None] { " (lost)" } else { "" }
}

/// First PSNs of the flows that each test runs. The traces must not depend on the first PSN.
pub(crate) const STARTS: [u32; 5] = [0, Psn::MODULUS - 5, Psn::MODULUS - 1, Psn::MODULUS / 2 - 3, 0xab_cdef];

/// Runs a flow from each of [`STARTS`]. Asserts that all runs agree; returns the trace and the counters of the first
/// run.
pub(crate) fn run_traced<P: Protocol>(cfg: &FlowConfig, packets: u32, pipe: Pipe, script: &Script) -> (String, Totals) {
    let runs = STARTS.map(|first| {
        let first_psn = Psn::new(first);
        let cfg = FlowConfig { first_psn, ..cfg.clone() };
        let mut pair = Pair::<P, Script>::new(cfg, packets, pipe, script.clone()).traced();
        pair.run();
        (pair.trace().to_string(), pair.totals)
    });
    for (run, first) in runs.iter().zip(STARTS) {
        assert_eq!(run, &runs[0], "starting at {first}");
    }
    let [first, ..] = runs;
    first
}

/// The lines of `trace` that concern the sender: the packets that it sends and receives, and its timeouts.
pub(crate) fn sender_view(trace: &str) -> String {
    let seen = |line: &&str| !line.contains(" recv ") && !line.contains(" sink ");
    trace.lines().filter(seen).map(|line| format!("{line}\n")).collect()
}

/// Asserts that `trace` equals `expected`. The indentation of `expected` does not count.
#[track_caller]
pub(crate) fn assert_trace(trace: &str, expected: &str) {
    let lines = expected.lines().map(str::trim).filter(|line| !line.is_empty());
    let expected: String = lines.map(|line| format!("{line}\n")).collect();
    assert!(trace == expected, "expected:\n{expected}\ngot:\n{trace}");
}
