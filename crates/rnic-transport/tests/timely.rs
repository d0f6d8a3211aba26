//! Checks TIMELY and patched TIMELY after each update against values computed by hand.

use rnic_transport::congestion::{
    AckSample, CongestionControl, DelayGradient, LossSignal, Settings, TimelyParams, Value,
};
use rnic_transport::{BitRate, Bytes, FlowConfig, Time};

/// A flow at 40 Gbps: delta is 40 Mbps.
struct Flow<const PATCHED: bool> {
    params: TimelyParams,
    cc: DelayGradient<PATCHED>,
}

impl<const PATCHED: bool> Flow<PATCHED> {
    fn new(given: &[(&str, Value)]) -> Self {
        let flow = FlowConfig { mtu: 1_000, ..FlowConfig::default() };
        let mut settings = Settings::new(DelayGradient::<PATCHED>::PARAMETERS);
        for (name, value) in given {
            settings.set(name, value.clone()).unwrap();
        }
        let params = DelayGradient::<PATCHED>::params(&settings, &flow).unwrap();
        Flow { params, cc: DelayGradient::new(&params, &flow, Time::ZERO) }
    }
    fn ack(&mut self, acked: u32, rtt_us: u64) {
        let sample = AckSample { now: Time::ZERO, rtt: Time::from_us(rtt_us), acked, in_flight: 0, marked: false };
        self.cc.on_ack(&self.params, &sample);
    }
    /// Completes a segment of 16 packets of 1,000 bytes; the rate must then be exactly `gbps`.
    #[track_caller]
    fn completes(&mut self, rtt_us: u64, gbps: f64) {
        self.ack(16, rtt_us);
        self.is_at(gbps);
    }
    #[track_caller]
    fn is_at(&self, gbps: f64) {
        let rate = self.cc.rate().as_bps() as f64;
        assert!((rate - gbps * 1e9).abs() <= 1.0, "{rate} bps, not {gbps} Gbps");
    }
}

/// The parameters are alpha = 1/2, T_low 50 us, T_high 500 us, minRTT 20 us, beta 0.8. The differences in the comments
/// below are the smoothed RTT differences in us.
#[test]
fn timely_step_by_step() {
    let mut flow = Flow::<false>::new(&[("alpha", Value::Number(0.5))]);
    flow.is_at(40.0);
    // Above T_high: 40 (1 - 0.8 (1 - 500/1000)). The difference of the first sample is zero.
    flow.completes(1_000, 24.0);
    // Below T_low: one step of delta. The difference is (0 - 960) / 2 = -480.
    flow.completes(40, 24.04);
    // The difference is (-480 + 60) / 2 = -210, which is not positive: one step. The next four differences are not
    // positive either: -105, -52.5, -26.25, -13.125.
    flow.completes(100, 24.08);
    flow.completes(100, 24.12);
    flow.completes(100, 24.16);
    flow.completes(100, 24.20);
    flow.completes(100, 24.24);
    // After five such updates, hyperactive increase adds five steps. The difference is -6.5625.
    flow.completes(100, 24.44);
    // The difference is (-6.5625 + 30) / 2 = 11.71875, the gradient 0.5859375, and the factor 1 - 0.8 * 0.5859375 =
    // 0.53125.
    flow.completes(130, 12.98375);
    // The difference is 5.859375, the gradient 0.29296875, and the factor 0.765625.
    flow.completes(130, 9.940_683_593_75);
    // The difference is (5.859375 + 70) / 2 = 37.9296875, and the gradient 1.896. 1 - 1.517 is less than 1/2, so the
    // rate is halved.
    flow.completes(200, 4.970_341_796_875);
    // The difference is (37.9296875 - 80) / 2 = -21.03515625: one step, because the count of updates has been reset.
    flow.completes(120, 5.010_341_796_875);
}

/// An RTT below T_low resets the count of updates for hyperactive increase. With alpha = 1, the gradient at a constant
/// RTT of 60 us is 0.
#[test]
fn hai_needs_five_in_a_row() {
    let mut flow = Flow::<false>::new(&[("alpha", Value::Number(1.0))]);
    flow.completes(1_000, 24.0);
    for step in 1..=4 {
        flow.completes(60, 24.0 + 0.04 * f64::from(step));
    }
    flow.completes(40, 24.2);
    // The RTT rises from 40 to 60 us: the gradient is 1, and the rate is halved, because 1 - 0.8 < 1/2. Then five
    // single steps follow, and after them only steps of five times delta.
    flow.completes(60, 12.1);
    for step in 1..=5 {
        flow.completes(60, 12.1 + 0.04 * f64::from(step));
    }
    flow.completes(60, 12.5);
    flow.completes(60, 12.7);
    // An RTT above T_high resets the count as well: the rate is 12.7 * 0.6. Then the RTT returns to 60 us.
    flow.completes(1_000, 7.62);
    flow.completes(60, 7.66);
}

/// Without `halve_at_most`, a gradient above 1 / beta reduces the rate to `min_rate`.
#[test]
fn steep_gradients() {
    for (halve, gbps) in [(true, 20.0), (false, 0.1)] {
        let mut flow = Flow::<false>::new(&[("halve_at_most", Value::Flag(halve))]);
        flow.completes(60, 40.0);
        // 0.875 * 100 / 20 = 4.375; 1 - 3.5 < 0.
        flow.completes(160, gbps);
    }
}

/// The rate never exceeds the line rate and never falls below `min_rate`.
#[test]
fn rates_stay_within_bounds() {
    let mut flow = Flow::<false>::new(&[("min_rate", Value::Rate(BitRate::from_gbps(18)))]);
    flow.completes(40, 40.0);
    flow.completes(1_000, 24.0);
    flow.completes(1_000, 18.0); // not 14.4
    flow.completes(40, 18.04);
}

/// A segment has 16,000 bytes. Bytes acknowledged beyond its end count for the next segment. Only the RTT sample that
/// completes a segment has an effect.
#[test]
fn one_update_per_segment() {
    let mut flow = Flow::<false>::new(&[]);
    flow.ack(15, 1_000);
    flow.is_at(40.0);
    flow.ack(0, 1_000);
    flow.is_at(40.0);
    flow.ack(1, 1_000);
    flow.is_at(24.0);
    // An acknowledgement of 40 packets completes two segments and half of a third. It has one sample and causes one
    // update: 24 * 0.6.
    flow.ack(40, 1_000);
    flow.is_at(14.4);
    flow.ack(7, 1_000);
    flow.is_at(14.4);
    flow.ack(1, 40);
    flow.is_at(14.44);
    let mut large = Flow::<false>::new(&[("segment", Value::Bytes(Bytes(64_000)))]);
    large.ack(63, 1_000);
    large.is_at(40.0);
    large.ack(1, 1_000);
    large.is_at(24.0);
}

#[test]
fn losses_halve_once_per_round_trip_if_asked_to() {
    let mut flow = Flow::<false>::new(&[("loss_backoff", Value::Flag(true))]);
    let mut lose = |us| {
        flow.cc.on_loss(&flow.params, Time::from_us(us), LossSignal::Nack);
        flow.cc.rate().as_bps() / 1_000_000
    };
    assert_eq!(lose(0), 20_000);
    assert_eq!(lose(23), 20_000); // within the round-trip time of 24 us without queueing
    assert_eq!(lose(24), 10_000);
    flow.ack(16, 45); // + 40 Mbps, and a round trip of 45 us
    let mut lose = |us| {
        flow.cc.on_loss(&flow.params, Time::from_us(us), LossSignal::Timeout);
        flow.cc.rate().as_bps() / 1_000_000
    };
    assert_eq!(lose(100), 5_020);
    assert_eq!(lose(144), 5_020);
    assert_eq!(lose(145), 2_510);
    let mut deaf = Flow::<false>::new(&[]);
    deaf.cc.on_loss(&deaf.params, Time::ZERO, LossSignal::Timeout);
    deaf.is_at(40.0);
}

/// The parameters are alpha = 1, so that the gradient g is the last RTT difference divided by 20 us, and beta 0.008.
/// Comments give the difference in us, the weight w and the error err of the paper.
#[test]
fn patched_timely_step_by_step() {
    let mut flow = Flow::<true>::new(&[("alpha", Value::Number(1.0))]);
    // Above T_high: 40 (1 - 0.008 / 2).
    flow.completes(1_000, 39.84);
    // Difference -900: w = 0, so one step of delta is added.
    flow.completes(100, 39.88);
    // Difference -5: g = -1/4, so w is still 0.
    flow.completes(95, 39.92);
    // g = 0, w = 1/2; err = 45/50: 0.04 / 2 + 39.92 (1 - 0.008 * 0.5 * 0.9).
    flow.completes(95, 39.796_288);
    // Difference 5: g = 1/4, w = 1, err = 1. There is no step, and the rate is 39.796288 (1 - 0.008).
    flow.completes(100, 39.477_917_696);
    // Difference 2: g = 0.1, w = 0.7, err = 1.04: 0.04 * 0.3 + 39.477917696 (1 - 0.008 * 0.7 * 1.04).
    flow.completes(102, 39.259_998_303_338_5);
    // Difference 98: w = 1, err = 3, and the factor is 1 - 0.024.
    flow.completes(200, 38.317_758_344_058_4);
    // Below T_low: one step, whatever the gradient. Patched TIMELY has no hyperactive increase.
    flow.completes(49, 38.357_758_344_058_4);
    // g = 2.5 at 99 us: err = 0.98.
    let rate = 38.357_758_344_058_4 * (1.0 - 0.008 * 0.98);
    flow.completes(99, rate);
    // Gradients just inside the range of the weight: g = -0.2, w = 0.1, err = 0.9; then g = 0.2, w = 0.9, err = 0.98.
    let rate = 0.04 * 0.9 + rate * (1.0 - 0.008 * 0.1 * 0.9);
    flow.completes(95, rate);
    let rate = 0.04 * 0.1 + rate * (1.0 - 0.008 * 0.9 * 0.98);
    flow.completes(99, rate);
}

#[test]
fn contradictions_are_refused() {
    let mut settings = Settings::new(DelayGradient::<false>::PARAMETERS);
    settings.set("t_low", Value::Time(Time::from_us(501))).unwrap();
    let error = DelayGradient::<false>::params(&settings, &FlowConfig::default()).unwrap_err();
    assert_eq!(error, "`t_low` must not be greater than `t_high`");
}
