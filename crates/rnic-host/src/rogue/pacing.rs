//! How fast a channel posts parts: window, rate limit and round-trip times.

use super::config::Config;
use super::queue::Part;
use super::replay::PartKind;
use crate::chunk::Frames;
use crate::control::{Allowance, flow_config, window_bytes};
use crate::error::HostError;
use crate::rtt::{Departures, Smoothed};
use rnic_transport::congestion::{AckSample, Law, LossSignal};
use rnic_transport::{BitRate, Time};
use rnic_verbs::SendOp;

/// The number of chunks that the NIC should have, at least 1, and the rate at which it should send them, so that
/// `wanted` bytes per picosecond flow over a path with the round-trip time `rtt` in picoseconds. `line` is the rate of
/// the link.
///
/// With `k` chunks of `S` bytes that the NIC sends at the rate `r`, a chunk is posted when the chunk `k` positions
/// before it completes, so `k * S` bytes take `S / r + rtt`: the time in which the NIC sends is not part of `rtt`. The
/// result is the least `k` for which `r` is at most the rate of the link, and `r` is never less than `wanted`.
///
/// The number matters for the computed departures. If the NIC is delayed, for example by other queue pairs, chunks
/// leave later than computed. The computed departures are correct again as soon as the NIC has no chunk left when the
/// next chunk is posted. With a larger number of chunks the NIC never runs out of chunks, and the delay of one chunk
/// looks like a queue for ever.
///
/// A window of `W` bytes corresponds to the rate `W / rtt`. If the window is smaller than a chunk, and the line is much
/// faster, `k` is 1, so that the rate limit alone decides: RoGUE's rule.
fn pipeline(wanted: f64, rtt: f64, chunk: f64, line: f64) -> (u32, f64) {
    let wanted = wanted.min(line);
    // The small number is for errors of rounding.
    let chunks = (wanted * (rtt / chunk + 1.0 / line) - 1e-6).ceil().clamp(1.0, 1e9);
    let sending = chunks * chunk / wanted - rtt;
    (chunks as u32, (chunk / sending.max(chunk / line)).max(wanted))
}

/// Bytes of a request of `len` bytes beyond its frames' common headers: the headers of its first and its last packet,
/// and the pad. Without them the computed departures of a busy queue pair would be earlier than the true departures by
/// an increasing time, which looks like a growing queue.
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
    /// The latest and the minimum measured round-trip time; before the first measurement, the configured round-trip
    /// time.
    last_rtt: Time,
    least_rtt: Time,
    /// Rate limit of the NIC; `None`: only the link limits the rate.
    rate: Option<BitRate>,
    /// The time at which the next Read may be posted. The peer sends the data, so this end's rate limit does not pace
    /// Reads.
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
            last_rtt: config.base_rtt,
            least_rtt: config.base_rtt,
            rate: None,
            next_read: Time::ZERO,
            bytes: 0,
            packets: 0,
        })
    }

    pub(super) fn allowance(&self) -> Allowance {
        let window = window_bytes(&*self.law, self.frames.mtu).min(self.max_window);
        // Without a window the number of chunks must not grow with the queue that they build.
        let rtt = if window == u64::MAX { self.least_rtt } else { self.last_rtt };
        let (window, rtt) = (window as f64, rtt.as_ps().max(1) as f64);
        let line = self.line.as_bps() as f64 / 8e12;
        let wanted = (self.law.rate().min(self.max_rate).as_bps() as f64 / 8e12).min(window / rtt);
        let wanted = wanted.max(self.min_rate.as_bps() as f64 / 8e12);
        let (chunks, rate) = pipeline(wanted, rtt, self.chunk as f64, line);
        let bytes = u64::from(chunks) * self.chunk;
        let bps = BitRate::from_bps((rate * 8e12) as u64).max(self.min_rate);
        Allowance { window: Some(bytes), rate: Some(bps.min(self.max_rate)).filter(|rate| *rate < self.line) }
    }

    /// Whether `part` may be posted now. The error is the time at which it may be posted; `None`: after a completion.
    pub(super) fn admits(&self, part: &Part, now: Time) -> Result<(), Option<Time>> {
        let window = self.allowance().window.unwrap_or(self.chunk);
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

    /// A signalled part completed at `completed`, which acknowledges `acked` packets. Returns the round-trip time.
    pub(super) fn sample(&mut self, part: &Part, acked: u32, completed: Time) -> Time {
        let rtt = part.departure.rtt(completed);
        self.smoothed.sample(rtt);
        (self.last_rtt, self.least_rtt) = (rtt, self.least_rtt.min(rtt));
        let in_flight = self.packets;
        self.law.on_ack(&AckSample { now: completed, rtt, acked, in_flight, marked: false });
        rtt
    }

    /// The queue pair failed, so it has no parts any more. `loss` is the signal for the congestion control.
    pub(super) fn failed(&mut self, now: Time, loss: Option<LossSignal>) {
        (self.bytes, self.packets) = (0, 0);
        self.departures.reset();
        if let Some(loss) = loss {
            self.law.on_loss(now, loss);
        }
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        self.law.next_timer()
    }

    pub(super) fn on_time(&mut self, now: Time) {
        if self.law.next_timer().is_some_and(|at| at <= now) {
            self.law.on_timer(now);
        }
    }

    /// The rate limit to set, if the current rate limit differs from it by more than 1/64.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks of 50,000 bytes at 10 Gbps (1,250 bytes per us): 40 us each.
    #[test]
    fn chunks_and_rate_for_a_wanted_rate() {
        let of = |wanted: f64, rtt: f64| {
            let (chunks, rate) = pipeline(wanted / 1e6, rtt * 1e6, 50_000.0, 1_250.0 / 1e6);
            (chunks, (rate * 1e6).round())
        };
        // One chunk in 40 + 40 us at line rate: half of it. One at 5 us keeps the link busy for 40 of 45 us, so two.
        assert_eq!(of(625.0, 40.0), (1, 1_250.0));
        assert_eq!(of(1_250.0, 5.0), (2, 1_250.0));
        // 500 bytes per us: a chunk in 100 us, of which 60 us are for sending.
        assert_eq!(of(500.0, 40.0), (1, 833.0));
        // Two chunks in 200 us: 40 us for sending at line rate, with 160 us. Less needs a lower rate.
        assert_eq!(of(500.0, 160.0), (2, 1_250.0));
        assert_eq!(of(400.0, 160.0), (2, 556.0));
        // More than the line is the line.
        assert_eq!(of(5_000.0, 40.0), (2, 1_250.0));
    }
}
