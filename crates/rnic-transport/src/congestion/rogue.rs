//! RoGUE's response to round-trip times, a congestion control for transports in host software. It is a
//! reconstruction.
//!
//! The source says only that the response is like TCP Vegas and TIMELY, that a window of 64 KB or more is enforced as a
//! window and by the rate limiter, and a smaller one by the rate limiter only. Thresholds and constants are not stated.
//! This implementation does the following:
//!
//! - The flow's own queue is `window * (rtt - base) / rtt` bytes, where `base` is the round-trip time without queues
//!   (Brakmo and Peterson, "TCP Vegas", JSAC 1995, section 5.1: the difference of expected and actual rate, times
//!   `base`). Per window of acknowledged bytes the window changes by `gain * (queue_target - queue)`: as in FAST TCP
//!   (Wei and others, ToN 2006, equation 4) the step shrinks with the distance from the target, where Vegas has
//!   constant steps. The window is never greater than `queue_target` and what the line needs for `base`, because no
//!   equilibrium has a greater one.
//! - Above the round-trip time `t_high` the window shrinks as TIMELY's rate does (SIGCOMM 2015, algorithm 1): by the
//!   factor `1 - decrease * (1 - t_high / rtt)`, at most to one half, and at most once per round trip.
//! - A queue pair that fails halves the window, at most once per round trip.
//! - The rate is the window divided by the last round-trip time.
//!
//! Round-trip times come once per chunk, so an error of the rate fills the queue for as long as a chunk takes to leave,
//! and a lag in the response makes it worse. With `n` equal flows on a link of rate `C`, a queue of `Q` bytes and
//! chunks of `S` bytes, a rate of `window / rtt` lets an error of the queue change by the factor `1 - n * S / Q` until
//! the next sample: it oscillates without end unless every flow has a queue of more than half a chunk, and more than a
//! whole chunk if the round-trip times are averaged over several samples first. So the target is a chunk, and the
//! round-trip times are not averaged. A flow's window is then above 64 KB until the round-trip time comes to `t_high`.
//!
//! The window is in bytes with a fraction, so that it can fall below one packet. [`CongestionControl::window`] then
//! returns one packet, and the rate alone limits the flow.

use super::{AckSample, CongestionControl, Kind, LossSignal, Parameter, Settings, ceiling};
use crate::{BitRate, FlowConfig, Time};

/// The parameters of RoGUE's response in a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RogueParams {
    target: f64,
    gain: f64,
    decrease: f64,
    /// In picoseconds.
    t_high: f64,
    min_rate: f64,
    line: f64,
    initial: f64,
    mtu: f64,
    base_rtt: Time,
}

/// RoGUE's response to round-trip times (the module has the algorithm): controls a window, and a rate that follows
/// from it.
///
/// A trace for known round-trip times, at 10 Gbps with the default parameters:
///
/// ```
/// use rnic_transport::congestion::{AckSample, CongestionControl, RogueDelay, Settings};
/// use rnic_transport::{BitRate, FlowConfig, Time};
///
/// let (line_rate, base_rtt) = (BitRate::from_gbps(10), Time::from_us(80));
/// let flow = FlowConfig { mtu: 1_000, line_rate, base_rtt, ..FlowConfig::default() };
/// let params = RogueDelay::params(&Settings::new(RogueDelay::PARAMETERS), &flow)?;
/// let mut response = RogueDelay::new(&params, &flow, Time::ZERO);
/// assert_eq!(response.window(), 100, "10 Gbps times 80 us are 100,000 bytes");
/// // No queue: after 100 packets the window has grown by half of the target of 64 KB.
/// let sample = AckSample { now: Time::from_us(80), rtt: Time::from_us(80), acked: 100, in_flight: 0, marked: false };
/// response.on_ack(&params, &sample);
/// assert_eq!(response.window(), 132);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RogueDelay {
    /// In bytes.
    window: f64,
    /// Round-trip time without queues, in picoseconds: the configured one, or a smaller one that was measured.
    base: f64,
    /// Last round-trip time, in picoseconds.
    rtt: f64,
    /// Multiplicative decreases have no effect before this time.
    hold: Time,
    /// Line rate in bits per second, and payload of a full packet in bytes.
    line: f64,
    mtu: f64,
}

impl RogueDelay {
    fn set(&mut self, params: &RogueParams, window: f64) {
        // The least rate is a limit of the window too; otherwise the window would take long to grow again.
        let least = params.min_rate * self.rtt / 8e12;
        self.window = window.min(params.line / 8e12 * self.base + params.target).max(least).max(1.0);
    }

    fn cut(&mut self, params: &RogueParams, now: Time, factor: f64) {
        if now >= self.hold {
            self.hold = now + Time::from_ps(self.rtt as u64);
            self.set(params, self.window * factor.max(0.5));
        }
    }
}

impl CongestionControl for RogueDelay {
    type Params = RogueParams;
    const NAME: &'static str = "rogue";
    const ABOUT: &'static str =
        "RoGUE's response to round-trip times, in the manner of Vegas and TIMELY; a reconstruction";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::bytes(
            "queue_target",
            65_536,
            "bytes that the connection keeps in the queue of its bottleneck; not stated, a chunk (64 KB)",
        ),
        Parameter::number(
            "gain",
            0.5,
            0.01,
            1.0,
            "share of the distance from queue_target by which the window changes per round trip; not stated, FAST TCP's",
        ),
        Parameter::number("decrease", 0.8, 0.0, 1.0, "factor of multiplicative decrease; not stated, TIMELY's (0.8)"),
        Parameter::time(
            "t_high",
            Time::from_us(500),
            "RTT above which the window shrinks by a factor; not stated, TIMELY's (500 us)",
        ),
        Parameter::rate(
            "min_rate",
            BitRate::from_bps(100_000_000),
            "minimum rate of a connection; not stated, our choice (as for TIMELY)",
        ),
        Parameter::derived(
            "initial_window",
            Kind::Bytes,
            "window of a new connection, by default the bandwidth-delay product, at least 64 KB; not stated, our choice",
        ),
    ];

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<RogueParams, String> {
        let line = ceiling(flow).as_bps() as f64;
        let t_high = settings.time("t_high")?.as_ps() as f64;
        let per_ps = line / 8e12;
        let initial = match settings.value("initial_window") {
            None => (flow.base_rtt.as_ps() as f64 * per_ps).max(65_536.0),
            Some(_) => settings.bytes("initial_window")? as f64,
        };
        Ok(RogueParams {
            target: settings.bytes("queue_target")? as f64,
            gain: settings.number("gain")?,
            decrease: settings.number("decrease")?,
            t_high,
            min_rate: (settings.rate("min_rate")?.as_bps() as f64).min(line),
            line,
            initial,
            mtu: f64::from(flow.mtu),
            base_rtt: flow.base_rtt,
        })
    }

    fn new(params: &RogueParams, _flow: &FlowConfig, _now: Time) -> RogueDelay {
        let rtt = params.base_rtt.as_ps().max(1) as f64;
        RogueDelay { window: params.initial, base: rtt, rtt, hold: Time::ZERO, line: params.line, mtu: params.mtu }
    }

    fn on_ack(&mut self, params: &RogueParams, sample: &AckSample) {
        let rtt = sample.rtt.as_ps().max(1) as f64;
        (self.rtt, self.base) = (rtt, self.base.min(rtt));
        if rtt > params.t_high {
            self.cut(params, sample.now, 1.0 - params.decrease * (1.0 - params.t_high / rtt));
            return;
        }
        let queue = self.window * (rtt - self.base) / rtt;
        let share = f64::from(sample.acked) * params.mtu / self.window;
        self.set(params, self.window + params.gain * share.min(1.0) * (params.target - queue));
    }

    fn on_loss(&mut self, params: &RogueParams, now: Time, _signal: LossSignal) {
        self.cut(params, now, 0.5);
    }

    fn rate(&self) -> BitRate {
        BitRate::from_bps((self.window * 8e12 / self.rtt).min(self.line).max(1.0) as u64)
    }

    fn window(&self) -> u32 {
        ((self.window / self.mtu) as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    fn flow() -> FlowConfig {
        FlowConfig {
            mtu: 1_000,
            line_rate: BitRate::from_gbps(10),
            base_rtt: Time::from_us(80),
            ..FlowConfig::default()
        }
    }

    #[test]
    fn it_conforms() {
        crate::conformance::check::<RogueDelay>().unwrap();
    }

    /// The window and rate for a sequence of round-trip times, computed by hand, with a target of 60 KB.
    #[test]
    fn the_trace_for_known_round_trip_times() {
        let mut settings = Settings::new(RogueDelay::PARAMETERS);
        settings.set("queue_target", Bytes(60_000).into()).unwrap();
        let params = RogueDelay::params(&settings, &flow()).unwrap();
        let mut response = RogueDelay::new(&params, &flow(), Time::ZERO);
        let trace = [
            // (now, RTT in us, acked packets, window in bytes)
            // No queue: 0.5 * 60,000 * 50,000 / 100,000 more.
            (100, 80, 50, 115_000.0),
            // Queue 115,000 * 80 / 160 = 57,500 bytes: 0.5 * 2,500 more.
            (200, 160, 115, 116_250.0),
            // Queue 116,250 * 160 / 240 = 77,500 bytes: 0.5 * 17,500 less, although more than a window is acknowledged.
            (300, 240, 500, 107_500.0),
            // No queue: 0.5 * 60,000 * 43,000 / 107,500 more, then 30,000 more.
            (400, 80, 43, 119_500.0),
            (500, 80, 500, 149_500.0),
            // At most what the line needs for 80 us, 100,000 bytes, and the target.
            (600, 80, 500, 160_000.0),
            // 1,000 us is above 500 us: factor 1 - 0.8 * (1 - 500 / 1,000) = 0.6.
            (2_000, 1_000, 50, 96_000.0),
            // The next one within a round trip changes nothing.
            (2_100, 1_000, 50, 96_000.0),
            // After it the factor is 0.6 again: below 64 KB.
            (3_000, 1_000, 50, 57_600.0),
            // 40 us is the new base: at most 50,000 bytes and the target.
            (4_000, 40, 500, 87_600.0),
            (5_000, 40, 500, 110_000.0),
        ];
        for (now, rtt, acked, window) in trace {
            let rate = (window * 8e6 / rtt as f64).min(10e9) as u64;
            let (now, rtt) = (Time::from_us(now), Time::from_us(rtt));
            response.on_ack(&params, &AckSample { now, rtt, acked, in_flight: 0, marked: false });
            assert!((response.window - window).abs() < 1e-6, "at {now}: {}", response.window);
            assert!(response.rate().as_bps().abs_diff(rate) <= 1, "at {now}: {}", response.rate());
        }
        response.on_loss(&params, Time::from_ms(10), LossSignal::Timeout);
        response.on_loss(&params, Time::from_ms(10), LossSignal::Timeout);
        assert_eq!(response.window(), 55, "halved once");
    }

    /// Below 64 KB the window still grows and shrinks, down to the least rate.
    #[test]
    fn the_window_ends_at_the_least_rate() {
        let params = RogueDelay::params(&Settings::new(RogueDelay::PARAMETERS), &flow()).unwrap();
        let mut response = RogueDelay::new(&params, &flow(), Time::ZERO);
        for round in 1..200 {
            let (now, rtt) = (Time::from_ms(10 * round), Time::from_ms(8));
            response.on_ack(&params, &AckSample { now, rtt, acked: 1, in_flight: 0, marked: false });
        }
        assert_eq!((response.rate(), response.window()), (BitRate::from_bps(100_000_000), 100));
    }
}
