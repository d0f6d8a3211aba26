//! Checks the window of CUBIC against the equations of RFC 9438.

use rnic_transport::congestion::{AckSample, CongestionControl, Cubic, CubicParams, LossSignal, Settings, Value};
use rnic_transport::{FlowConfig, Time};

fn flow(window: u64) -> (CubicParams, Cubic) {
    let mut settings = Settings::new(Cubic::PARAMETERS);
    settings.set("initial_window", Value::Count(window)).unwrap();
    let params = Cubic::params(&settings, &FlowConfig::default()).unwrap();
    (params, Cubic::new(&params, &FlowConfig::default(), Time::ZERO))
}

/// A round trip: the whole window is acknowledged at `now`.
fn round_trip(cc: &mut Cubic, params: &CubicParams, now: Time, rtt: Time) {
    let sample = AckSample { now, rtt, acked: cc.window(), in_flight: 0, marked: false };
    cc.on_ack(params, &sample);
}

/// A loss at 100 packets leaves 70. The curve reaches 100 again after K = (30 / 0.4)^(1/3) = 4.217 s, and an ACK at
/// time t sets the window to the curve at t plus a round trip: 0.4 (t + 0.1 - K)^3 + 100.
#[test]
fn the_window_follows_the_curve() {
    let (params, mut cc) = flow(100);
    cc.on_loss(&params, Time::ZERO, LossSignal::Nack);
    assert_eq!(cc.window(), 70);
    let rtt = Time::from_ms(100);
    let mut windows = Vec::new();
    for turn in 0..=50 {
        // The curve begins with the first ACK after the loss.
        round_trip(&mut cc, &params, Time::from_ms(1_000 + 100 * turn), rtt);
        if turn.is_multiple_of(10) {
            windows.push(cc.window());
        }
    }
    // At the beginning the curve, 70, is below AIMD's window, 70.5. Then the exact values are 87.89, 96.21, 99.44,
    // 100.00 and 100.28. The window lags by the fraction of a packet that is not acknowledged.
    assert_eq!(windows, [70, 87, 96, 99, 99, 100]);
}

/// At round trips of 10 us the curve is flat, and the window grows as AIMD's: by 3 (1 - 0.7) / (1 + 0.7) = 0.529
/// packets per round trip up to the window before the loss, 57 round trips later, and by one packet then.
#[test]
fn short_round_trips_are_tcp_friendly() {
    let (params, mut cc) = flow(100);
    cc.on_loss(&params, Time::ZERO, LossSignal::Nack);
    let mut windows = vec![cc.window()];
    for turn in 1..=100_u64 {
        round_trip(&mut cc, &params, Time::from_us(10 * turn), Time::from_us(10));
        if turn.is_multiple_of(20) {
            windows.push(cc.window());
        }
    }
    assert!((80..=81).contains(&windows[1]) && (90..=91).contains(&windows[2]), "{windows:?}");
    assert!((101..=104).contains(&windows[3]), "{windows:?}");
    assert!((120..=124).contains(&windows[4]) && (140..=144).contains(&windows[5]), "{windows:?}");
}

/// A second loss below the last maximum: the plateau falls to 700 (1 + 0.7) / 2 = 595 packets, so that others get room.
#[test]
fn fast_convergence_lowers_the_plateau() {
    for (fast, plateau) in [(true, 595.0), (false, 700.0)] {
        let mut settings = Settings::new(Cubic::PARAMETERS);
        settings.set("initial_window", Value::Count(1_000)).unwrap();
        settings.set("fast_convergence", Value::Flag(fast)).unwrap();
        let params = Cubic::params(&settings, &FlowConfig::default()).unwrap();
        let mut cc = Cubic::new(&params, &FlowConfig::default(), Time::ZERO);
        cc.on_loss(&params, Time::ZERO, LossSignal::Nack);
        cc.on_loss(&params, Time::ZERO, LossSignal::Timeout);
        assert!((489..=490).contains(&cc.window()), "1000 times 0.7 times 0.7");
        // K seconds after the loss the window is at the plateau: K = ((plateau - 490) / 0.4)^(1/3).
        let k = ((plateau - 490.0) / 0.4_f64).cbrt();
        let rtt = Time::from_ms(100);
        let steps = (k * 10.0) as u64;
        (0..=steps).for_each(|turn| round_trip(&mut cc, &params, Time::from_ms(1_000 + 100 * turn), rtt));
        assert!((f64::from(cc.window()) - plateau).abs() < 2.0, "{fast}: {} of {plateau}", cc.window());
    }
}

/// A window that does not limit the flow does not grow.
#[test]
fn an_idle_window_stays() {
    let (params, mut cc) = flow(100);
    for turn in 0..50 {
        let now = Time::from_ms(100 * turn);
        let sample = AckSample { now, rtt: Time::from_ms(100), acked: 10, in_flight: 5, marked: false };
        cc.on_ack(&params, &sample);
    }
    assert_eq!(cc.window(), 100);
}
