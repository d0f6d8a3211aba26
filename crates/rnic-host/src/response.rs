//! RoGUE's response to round-trip times, as a congestion control like every other one. It is a reconstruction.
//!
//! The source says only that the response is like TCP Vegas and TIMELY, that a window of 64 KB or more is enforced as a
//! window and by the rate limiter, and a smaller one by the rate limiter only. Thresholds and constants are not stated.
//! This implementation does the following:
//!
//! - The flow's own queue is `window * (rtt - base) / rtt` bytes, where `base` is the smallest round-trip time so far
//!   (Brakmo and Peterson, "TCP Vegas", JSAC 1995, section 5.1: the difference of expected and actual rate, times
//!   `base`). Below `alpha` bytes the window grows by `step` bytes per window of acknowledged bytes. Above `beta` it
//!   shrinks by as much. Between them it stays.
//! - Above the round-trip time `t_high` the window shrinks as TIMELY's rate does (SIGCOMM 2015, algorithm 1): by the
//!   factor `1 - decrease * (1 - t_high / rtt)`, at most to one half, and at most once per round trip.
//! - A queue pair that fails halves the window, at most once per round trip.
//! - The rate is the window divided by the smoothed round-trip time.
//!
//! The window is in bytes with a fraction, so that it can fall below one packet. [`CongestionControl::window`] then
//! returns one packet, and the rate alone limits the flow.

use rnic_transport::congestion::{AckSample, CongestionControl, Kind, LossSignal, Parameter, Settings, ceiling};
use rnic_transport::{BitRate, FlowConfig, Time};

/// The parameters of RoGUE's response in a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RogueParams {
    alpha: f64,
    beta: f64,
    step: f64,
    decrease: f64,
    /// In picoseconds.
    t_high: f64,
    min_rate: f64,
    line: f64,
    initial: f64,
    /// Maximum window in bytes: what the line rate needs when the round-trip time is twice `t_high`.
    max: f64,
    mtu: f64,
    base_rtt: Time,
}

/// RoGUE's response to round-trip times (the module has the algorithm): controls a window, and a rate that follows
/// from it.
///
/// A trace for known round-trip times, at 10 Gbps with the default parameters:
///
/// ```
/// use rnic_host::RogueDelay;
/// use rnic_transport::congestion::{AckSample, CongestionControl, Settings};
/// use rnic_transport::{BitRate, FlowConfig, Time};
///
/// let (line_rate, base_rtt) = (BitRate::from_gbps(10), Time::from_us(80));
/// let flow = FlowConfig { mtu: 1_000, line_rate, base_rtt, ..FlowConfig::default() };
/// let params = RogueDelay::params(&Settings::new(RogueDelay::PARAMETERS), &flow)?;
/// let mut response = RogueDelay::new(&params, &flow, Time::ZERO);
/// assert_eq!(response.window(), 100, "10 Gbps times 80 us are 100,000 bytes");
/// // No queue: after 100 packets the window has grown by 16 KB.
/// let sample = AckSample { now: Time::from_us(80), rtt: Time::from_us(80), acked: 100, in_flight: 0, marked: false };
/// response.on_ack(&params, &sample);
/// assert_eq!(response.window(), 116);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RogueDelay {
    /// In bytes.
    window: f64,
    /// Smallest round-trip time so far, in picoseconds.
    base: f64,
    /// Smoothed round-trip time (weight 1/8), in picoseconds.
    smoothed: f64,
    /// Multiplicative decreases have no effect before this time.
    hold: Time,
    /// Line rate in bits per second, and payload of a full packet in bytes.
    line: f64,
    mtu: f64,
}

impl RogueDelay {
    fn set(&mut self, params: &RogueParams, window: f64) {
        // The least rate is a limit of the window too; otherwise the window would take long to grow again.
        let least = params.min_rate * self.smoothed / 8e12;
        self.window = window.min(params.max).max(least).max(1.0);
    }

    fn cut(&mut self, params: &RogueParams, now: Time, factor: f64) {
        if now >= self.hold {
            self.hold = now + Time::from_ps(self.smoothed as u64);
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
        Parameter::bytes("alpha", 16_000, "own queue below which the window grows; not stated, our choice (16 KB)"),
        Parameter::bytes("beta", 32_000, "own queue above which the window shrinks; not stated, our choice (32 KB)"),
        Parameter::bytes("step", 16_000, "growth of the window per round trip; not stated, TIMELY's segment (16 KB)"),
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
        let (alpha, beta) = (settings.bytes("alpha")? as f64, settings.bytes("beta")? as f64);
        if alpha > beta {
            return Err("`alpha` must not be greater than `beta`".to_string());
        }
        let t_high = settings.time("t_high")?.as_ps() as f64;
        let per_ps = line / 8e12;
        let initial = match settings.value("initial_window") {
            None => (flow.base_rtt.as_ps() as f64 * per_ps).max(65_536.0),
            Some(_) => settings.bytes("initial_window")? as f64,
        };
        Ok(RogueParams {
            alpha,
            beta,
            step: settings.bytes("step")? as f64,
            decrease: settings.number("decrease")?,
            t_high,
            min_rate: (settings.rate("min_rate")?.as_bps() as f64).min(line),
            line,
            initial,
            max: (2.0 * t_high * per_ps).max(initial),
            mtu: f64::from(flow.mtu),
            base_rtt: flow.base_rtt,
        })
    }

    fn new(params: &RogueParams, _flow: &FlowConfig, _now: Time) -> RogueDelay {
        let rtt = params.base_rtt.as_ps().max(1) as f64;
        RogueDelay {
            window: params.initial,
            base: f64::MAX,
            smoothed: rtt,
            hold: Time::ZERO,
            line: params.line,
            mtu: params.mtu,
        }
    }

    fn on_ack(&mut self, params: &RogueParams, sample: &AckSample) {
        let rtt = sample.rtt.as_ps().max(1) as f64;
        // The first sample replaces the assumed round-trip time.
        self.smoothed = if self.base == f64::MAX { rtt } else { (7.0 * self.smoothed + rtt) / 8.0 };
        self.base = self.base.min(rtt);
        if rtt > params.t_high {
            self.cut(params, sample.now, 1.0 - params.decrease * (1.0 - params.t_high / rtt));
            return;
        }
        let queue = self.window * (rtt - self.base) / rtt;
        let share = f64::from(sample.acked) * params.mtu / self.window;
        let step = params.step * share.min(1.0);
        if queue < params.alpha {
            self.set(params, self.window + step);
        } else if queue > params.beta {
            self.set(params, self.window - step.min(self.window / 2.0));
        }
    }

    fn on_loss(&mut self, params: &RogueParams, now: Time, _signal: LossSignal) {
        self.cut(params, now, 0.5);
    }

    fn rate(&self) -> BitRate {
        BitRate::from_bps((self.window * 8e12 / self.smoothed).min(self.line).max(1.0) as u64)
    }

    fn window(&self) -> u32 {
        ((self.window / self.mtu) as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        rnic_transport::conformance::check::<RogueDelay>().unwrap();
    }

    /// The window and rate for a sequence of round-trip times, computed by hand.
    #[test]
    fn the_trace_for_known_round_trip_times() {
        let params = RogueDelay::params(&Settings::new(RogueDelay::PARAMETERS), &flow()).unwrap();
        let mut response = RogueDelay::new(&params, &flow(), Time::ZERO);
        let trace = [
            // (now, RTT in us, acked packets, window in bytes, smoothed RTT in us)
            // The first RTT is the base: no queue, 16,000 * 50,000 / 100,000.
            (100, 80, 50, 108_000.0, 80.0),
            // Queue 108,000 * 16 / 96 = 18,000 bytes: between alpha and beta.
            (200, 96, 50, 108_000.0, 82.0),
            // Queue 108,000 * 80 / 160 = 54,000 bytes: above beta, less 16,000 * 54 / 108.
            (300, 160, 54, 100_000.0, 91.75),
            // More than a window is acknowledged: one step at most. 80 us is the base again.
            (400, 80, 500, 116_000.0, 90.28125),
            // 1,000 us is above 500 us: factor 1 - 0.8 * (1 - 500 / 1,000) = 0.6.
            (2_000, 1_000, 50, 69_600.0, 203.99609375),
            // The next one within a round trip changes nothing.
            (2_100, 1_000, 50, 69_600.0, 303.49658203125),
            // After it the factor is 0.6 again: below 64 KB.
            (3_000, 1_000, 50, 41_760.0, 390.5595092773438),
        ];
        for (now, rtt, acked, window, smoothed) in trace {
            let (now, rtt) = (Time::from_us(now), Time::from_us(rtt));
            response.on_ack(&params, &AckSample { now, rtt, acked, in_flight: 0, marked: false });
            assert!((response.window - window).abs() < 1e-6, "at {now}: {}", response.window);
            assert!((response.smoothed / 1e6 - smoothed).abs() < 1e-9, "at {now}: {}", response.smoothed);
            let rate = (window * 8e6 / smoothed).min(10e9) as u64;
            assert!(response.rate().as_bps().abs_diff(rate) <= 1, "at {now}: {}", response.rate());
        }
        response.on_loss(&params, Time::from_ms(10), LossSignal::Timeout);
        response.on_loss(&params, Time::from_ms(10), LossSignal::Timeout);
        assert_eq!(response.window(), 20, "halved once");
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
