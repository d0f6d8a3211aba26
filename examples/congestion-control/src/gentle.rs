//! Gentle: controls the rate by the round-trip time, with additive increase up to a target and multiplicative decrease
//! above it, once per round trip.

use rnic_transport::congestion::{AckSample, CongestionControl, Kind, LossSignal, Parameter, Settings, ceiling};
use rnic_transport::{BitRate, FlowConfig, Time};

/// Parameters, which all flows of a run share.
#[derive(Clone, Debug)]
pub struct Params {
    target: Time,
    step: f64,
    decrease: f64,
    line: f64,
}

/// State of one flow: 16 bytes.
#[derive(Clone, Debug)]
pub struct Gentle {
    rate: f64,
    next_change: Time,
}

impl Gentle {
    fn change(&mut self, params: &Params, now: Time, rtt: Time, rate: f64) {
        self.rate = rate.clamp(params.line / 100.0, params.line);
        self.next_change = now + rtt;
    }
}

impl CongestionControl for Gentle {
    type Params = Params;
    const NAME: &'static str = "gentle";
    const ABOUT: &'static str = "example: rate towards a target delay, changed once per round trip";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::derived("queueing", Kind::Time, "target queueing delay; half the round-trip time of the empty path"),
        Parameter::rate("step", BitRate::from_bps(200_000_000), "increase per round trip up to the target"),
        Parameter::number("decrease", 0.8, 0.0, 1.0, "fraction of the excess delay by which the rate shrinks"),
    ];

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<Params, String> {
        let queueing = match settings.value("queueing") {
            Some(_) => settings.time("queueing")?,
            None => flow.base_rtt.scale(0.5),
        };
        Ok(Params {
            target: flow.base_rtt + queueing,
            step: settings.rate("step")?.as_bps() as f64,
            decrease: settings.number("decrease")?,
            line: ceiling(flow).as_bps() as f64,
        })
    }

    fn new(params: &Params, _flow: &FlowConfig, now: Time) -> Gentle {
        Gentle { rate: params.line, next_change: now }
    }

    fn on_ack(&mut self, params: &Params, sample: &AckSample) {
        if sample.now < self.next_change {
            return;
        }
        let rate = if sample.rtt <= params.target {
            self.rate + params.step
        } else {
            let excess = 1.0 - params.target.as_us() / sample.rtt.as_us();
            self.rate * (1.0 - params.decrease * excess).max(0.5)
        };
        self.change(params, sample.now, sample.rtt, rate);
    }

    fn on_loss(&mut self, params: &Params, now: Time, _signal: LossSignal) {
        if now >= self.next_change {
            self.change(params, now, params.target, self.rate / 2.0);
        }
    }

    fn rate(&self) -> BitRate {
        BitRate::from_bps(self.rate as u64)
    }
    fn window(&self) -> u32 {
        u32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_transport::conformance;

    #[test]
    fn conforms() {
        conformance::check::<Gentle>().unwrap();
    }

    /// Line rate 40 Gbps, round-trip time of the empty path 24 us, so the target is 36 us; the step is 200 Mbps.
    #[test]
    fn one_change_per_round_trip() {
        let flow = FlowConfig::default();
        let params = Gentle::params(&Settings::new(Gentle::PARAMETERS), &flow).unwrap();
        let mut cc = Gentle::new(&params, &flow, Time::ZERO);
        let mut ack = |now, rtt| {
            let (now, rtt) = (Time::from_us(now), Time::from_us(rtt));
            cc.on_ack(&params, &AckSample { now, rtt, acked: 1, in_flight: 1, marked: false });
            cc.rate().as_bps() / 1_000_000
        };
        assert_eq!(ack(100, 72), 24_000); // excess 1 - 36/72 = 1/2: 40 * (1 - 0.8 / 2)
        assert_eq!(ack(171, 72), 24_000); // within the round trip
        assert_eq!(ack(172, 36), 24_200);
        assert_eq!(ack(208, 360), 12_100); // excess 9/10: reduced by at most one half
        cc.on_loss(&params, Time::from_us(567), LossSignal::Timeout);
        assert_eq!(cc.rate(), BitRate::from_bps(12_100_000_000));
        cc.on_loss(&params, Time::from_us(568), LossSignal::Timeout);
        assert_eq!(cc.rate(), BitRate::from_bps(6_050_000_000));
    }
}
