//! Checks the window and the target of Swift against the paper's algorithm 1.

use rnic_transport::congestion::{AckSample, CongestionControl, LossSignal, Settings, Swift, SwiftParams, Value};
use rnic_transport::{FlowConfig, Time};

/// A flow with a base target of 20 us, packets of 1,250 bytes with their headers.
fn flow(window: u64, given: &[(&str, Value)]) -> (SwiftParams, Swift) {
    let cfg = FlowConfig { base_rtt: Time::from_us(10), mtu: 1_200, header: 50, ..FlowConfig::default() };
    let mut settings = Settings::new(Swift::PARAMETERS);
    settings.set("initial_window", Value::Count(window)).unwrap();
    for (name, value) in given {
        settings.set(name, value.clone()).unwrap();
    }
    let params = Swift::params(&settings, &cfg).unwrap();
    (params, Swift::new(&params, &cfg, Time::ZERO))
}

/// A round trip of `rtt_ns`, at whose end the whole window is acknowledged.
fn round_trip(cc: &mut Swift, params: &SwiftParams, now: Time, rtt_ns: u64) -> u32 {
    let sample = AckSample { now, rtt: Time::from_ns(rtt_ns), acked: cc.window(), in_flight: 0, marked: false };
    cc.on_ack(params, &sample);
    cc.window()
}

/// 120 ACKs, NACKs and timeouts, whose windows `swift_trace.py` has computed from the publication's algorithm.
#[test]
fn the_window_is_as_in_a_trace_of_the_published_algorithm() {
    let (params, mut cc) = flow(20, &[("retx_reset", Value::Count(3))]);
    let trace = include_str!("swift_trace.txt").lines().filter(|line| !line.starts_with('#'));
    let mut events = 0;
    for line in trace {
        let fields: Vec<&str> = line.split(' ').collect();
        let [now, rtt, acked] = [1, 2, 3].map(|field| fields[field].parse::<u64>().unwrap());
        let now = Time::from_ns(now);
        match fields[0] {
            "nack" => cc.on_loss(&params, now, LossSignal::Nack),
            "timeout" => cc.on_loss(&params, now, LossSignal::Timeout),
            _ => {
                // The flow fills its window.
                let sample = AckSample {
                    now,
                    rtt: Time::from_ns(rtt),
                    acked: acked as u32,
                    in_flight: cc.window(),
                    marked: false,
                };
                cc.on_ack(&params, &sample);
            }
        }
        let expected: f64 = fields[4].parse().unwrap();
        assert!((cc.exact_window() - expected).abs() < 1e-8, "{line}: {}", cc.exact_window());
        events += 1;
    }
    assert_eq!(events, 120);
}

/// Without a queue the window grows by a packet per round trip; above the target it shrinks by 0.8 of the excess.
#[test]
fn the_window_follows_the_delay() {
    let (params, mut cc) = flow(100, &[]);
    assert_eq!(round_trip(&mut cc, &params, Time::from_us(10), 10_000), 101);
    assert_eq!(round_trip(&mut cc, &params, Time::from_us(20), 10_000), 102);
    // The target of 102 packets is 20 us. At 25 us the window becomes 102 (1 - 0.8 * 5 / 25) = 85.7.
    assert_eq!(round_trip(&mut cc, &params, Time::from_us(45), 25_000), 85);
    // It shrinks at most once per round trip, as the ACK measured it: after 24 of 25 us, and after 30 us of 1 ms, not
    // yet.
    assert_eq!(round_trip(&mut cc, &params, Time::from_us(69), 25_000), 85);
    assert_eq!(round_trip(&mut cc, &params, Time::from_us(75), 1_000_000), 85);
    // It shrinks at most by half.
    assert_eq!(round_trip(&mut cc, &params, Time::from_us(1_045), 1_000_000), 42);
}

/// Flow scaling: with range 80 us between 0.1 and 100 packets, alpha = 80 / (1 / sqrt(0.1) - 1 / 10) = 26.12. So the
/// target is 20 us from 100 packets on, 20 + 26.12 / 5 - 2.61 = 22.61 us at 25 packets, and 43.51 us at one packet.
#[test]
fn small_windows_have_higher_targets() {
    for (window, target_ns) in [(100, 20_000), (25, 22_612), (4, 30_449), (1, 43_511)] {
        let (params, mut cc) = flow(window, &[]);
        assert_eq!(u64::from(round_trip(&mut cc, &params, Time::from_us(50), target_ns - 10)), window + 1, "{window}");
        let (params, mut cc) = flow(window, &[]);
        assert!(u64::from(round_trip(&mut cc, &params, Time::from_us(50), target_ns + 10)) <= window, "{window}");
    }
}

/// Below one packet the window paces: half a packet of 10,000 bits in 100 us are 50 Mbps.
#[test]
fn a_window_below_one_packet_is_a_rate() {
    let (params, mut cc) = flow(1, &[]);
    round_trip(&mut cc, &params, Time::from_us(100), 100_000);
    // The factor is 1 - 0.8 (100 - 43.51) / 100 = 0.548.
    assert_eq!(cc.window(), 1);
    let mbps = cc.rate().as_bps() as f64 / 1e6;
    assert!((mbps - 54.8).abs() < 0.1, "{mbps}");
}

/// A loss halves the window once per round trip; the fifth timeout in a row leaves the least window.
#[test]
fn losses_and_timeouts() {
    let (params, mut cc) = flow(64, &[]);
    for (us, window) in [(10, 32), (15, 32), (20, 16), (30, 8)] {
        cc.on_loss(&params, Time::from_us(us), LossSignal::Nack);
        assert_eq!(cc.window(), window, "{us}");
    }
    for turn in 1..=5_u64 {
        assert!(cc.rate().as_bps() > 101_000_000, "{turn}");
        cc.on_loss(&params, Time::from_ms(turn), LossSignal::Timeout);
    }
    // 0.1 of 10,000 bits in 10 us.
    let mbps = cc.rate().as_bps() as f64 / 1e6;
    assert!((mbps - 100.0).abs() < 0.01, "{mbps}");
}

#[test]
fn contradicting_settings_are_refused() {
    let mut settings = Settings::new(Swift::PARAMETERS);
    settings.set("fs_min_window", Value::Number(200.0)).unwrap();
    let refused = Swift::params(&settings, &FlowConfig::default()).unwrap_err();
    assert_eq!(refused, "`fs_min_window` is 200; it must be below `fs_max_window`, which is 100");
}
