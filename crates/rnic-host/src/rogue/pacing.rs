//! How fast a channel posts parts: window, rate limit and round-trip times.

use super::config::Config;
use super::queue::Part;
use super::replay::PartKind;
use crate::chunk::Frames;
use crate::control::{Allowance, Law, flow_config};
use crate::error::HostError;
use crate::rtt::{Departures, Smoothed};
use rnic_transport::congestion::{AckSample, LossSignal};
use rnic_transport::{BitRate, Time};
use rnic_verbs::SendOp;

/// Chunks that the NIC has when only the rate limits the channel: one that leaves, and one that waits, so that the
/// link does not idle. The number is our choice.
const AHEAD: u64 = 2;

/// Bytes of a request of `len` bytes beyond its frames' common headers: the headers of its first and its last packet,
/// and the pad. Without them the computed departures of a busy queue pair would be ever earlier than the true ones,
/// which looks like a queue that grows.
fn extra(op: &SendOp, len: u64) -> u64 {
    let headers = match op {
        SendOp::Write { .. } => RETH,
        SendOp::WriteImm { .. } => RETH + IMM,
        SendOp::SendImm(_) | SendOp::SendInv(_) => IMM,
        _ => 0,
    };
    headers + len.wrapping_neg() % 4
}

/// Lengths of a RETH and of immediate data, in bytes.
const RETH: u64 = 16;
const IMM: u64 = 4;

pub(super) struct Pacing {
    law: Box<dyn Law>,
    frames: Frames,
    line: BitRate,
    chunk: u64,
    min_rate: BitRate,
    max_rate: BitRate,
    max_window: u64,
    departures: Departures,
    smoothed: Smoothed,
    base_rtt: Time,
    /// Rate limit of the NIC; `None`: only the link limits the rate.
    rate: Option<BitRate>,
    /// Reads: when the next one may be posted. The peer sends the data, so this side's rate limit does not pace it.
    next_read: Time,
    /// Bytes and packets of the parts that the NIC has.
    bytes: u64,
    packets: u32,
}

impl Pacing {
    pub(super) fn new(config: &Config, frames: Frames, line: BitRate, now: Time) -> Result<Pacing, HostError> {
        let mut cfg = flow_config(frames, line, config.base_rtt);
        cfg.max_rate = config.max_rate;
        Ok(Pacing {
            law: config.control.start(&cfg, now)?,
            frames,
            line,
            chunk: config.chunk.into(),
            min_rate: config.min_rate,
            max_rate: config.max_rate.unwrap_or(line),
            max_window: config.max_window,
            departures: Departures::default(),
            smoothed: Smoothed::default(),
            base_rtt: config.base_rtt,
            rate: None,
            next_read: Time::ZERO,
            bytes: 0,
            packets: 0,
        })
    }

    pub(super) fn allowance(&self) -> Allowance {
        let window = match self.law.window() {
            u32::MAX => u64::MAX,
            packets => u64::from(packets) * u64::from(self.frames.mtu),
        };
        let rtt = self.smoothed.get().unwrap_or(self.base_rtt);
        let rate = self.law.rate().min(self.max_rate);
        let allowance = Allowance::of(rate, window.min(self.max_window), self.chunk, rtt, self.line);
        let rate = allowance.rate.map(|rate| rate.max(self.min_rate)).filter(|rate| *rate < self.line);
        Allowance { rate, ..allowance }
    }

    /// Whether `part` may be posted now. The error is the time at which it may be; `None`: after a completion.
    pub(super) fn admits(&self, part: &Part, now: Time) -> Result<(), Option<Time>> {
        let window = self.allowance().window.unwrap_or(AHEAD * self.chunk);
        if self.bytes >= window {
            return Err(None);
        }
        if part.kind == PartKind::Read && self.next_read > now { Err(Some(self.next_read)) } else { Ok(()) }
    }

    /// The NIC took `part` at `now`.
    pub(super) fn posted(&mut self, part: &mut Part, op: &SendOp, now: Time) {
        part.bytes = self.frames.wire(part.len) + extra(op, part.len);
        part.packets = self.frames.packets(part.len) as u32;
        let rate = self.rate.unwrap_or(self.line);
        if part.kind == PartKind::Read {
            // The peer sends the data at the line rate, and the software paces the requests.
            part.departure.start = now;
            part.departure.left = now + self.line.time_for(part.bytes);
            self.next_read = now.max(self.next_read) + self.allowance().rate.unwrap_or(self.line).time_for(part.bytes);
        } else {
            part.departure = self.departures.enqueue(now, part.bytes, rate);
        }
        self.bytes += part.len;
        self.packets += part.packets;
        self.law.on_send(now, u32::try_from(part.bytes).unwrap_or(u32::MAX));
    }

    pub(super) fn done(&mut self, part: &Part) {
        self.bytes -= part.len;
        self.packets -= part.packets;
    }

    /// A signalled part completed at `completed`; with it `acked` packets are acknowledged. Returns the round-trip
    /// time.
    pub(super) fn sample(&mut self, part: &Part, acked: u32, completed: Time) -> Time {
        let rtt = part.departure.rtt(completed);
        self.smoothed.sample(rtt);
        let in_flight = self.packets;
        self.law.on_ack(&AckSample { now: completed, rtt, acked, in_flight, marked: false });
        rtt
    }

    /// The queue pair failed: it has no parts any more.
    pub(super) fn failed(&mut self, now: Time) {
        (self.bytes, self.packets) = (0, 0);
        self.departures.reset();
        self.law.on_loss(now, LossSignal::Timeout);
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        self.law.next_timer()
    }

    pub(super) fn on_time(&mut self, now: Time) {
        if self.law.next_timer().is_some_and(|at| at <= now) {
            self.law.on_timer(now);
        }
    }

    /// The rate limit to set, if the one in effect differs from it by more than 1/64.
    pub(super) fn new_rate(&self) -> Option<Option<BitRate>> {
        let (old, new) = (self.rate, self.allowance().rate);
        let bps = |rate: Option<BitRate>| rate.unwrap_or(self.line).as_bps();
        let differs = old.is_some() != new.is_some() || bps(old).abs_diff(bps(new)) > bps(old) / 64;
        differs.then_some(new)
    }

    /// Notes the rate limit that the NIC has from `now` on. `flight` are the parts that the NIC has.
    pub(super) fn set_rate<'p>(
        &mut self, now: Time, rate: Option<BitRate>, flight: impl Iterator<Item = &'p mut Part>,
    ) {
        let (old, new) = (self.rate.unwrap_or(self.line), rate.unwrap_or(self.line));
        self.rate = rate;
        // The peer sends the data of Reads, so this NIC's limit does not matter to them.
        let paced = flight.filter(|part| part.kind != PartKind::Read);
        self.departures.change_rate(now, old, new, paced.map(|part| (&mut part.departure, part.bytes)));
    }

    pub(super) fn smoothed(&self) -> Option<Time> {
        self.smoothed.get()
    }
}
