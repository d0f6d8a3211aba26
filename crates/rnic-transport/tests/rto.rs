//! Checks the retransmission timeout of RFC 6298 against values computed by hand.

use rnic_transport::Time;
use rnic_transport::rto::{RtoBounds, RttEstimator};

const WIDE: RtoBounds = RtoBounds { min: Time::ZERO, initial: Time::from_us(1_000), max: Time::from_ms(60_000) };

fn us(us: u64) -> Time {
    Time::from_us(us)
}

/// Checks SRTT, RTTVAR and the timeout, in microseconds.
#[track_caller]
fn assert_state(rtt: &RttEstimator, srtt: f64, rttvar: f64, rto: f64) {
    assert_eq!(rtt.smoothed().map(Time::as_us), Some(srtt), "SRTT");
    assert_eq!(rtt.variation().map(Time::as_us), Some(rttvar), "RTTVAR");
    assert_eq!(rtt.timeout(&WIDE).as_us(), rto, "RTO");
}

#[test]
fn before_the_first_measurement() {
    let rtt = RttEstimator::new();
    assert_eq!((rtt.smoothed(), rtt.variation(), rtt.doublings()), (None, None, 0));
    assert_eq!(rtt.timeout(&WIDE), us(1_000));
    let bounds = RtoBounds { max: us(300), ..WIDE };
    assert_eq!(rtt.timeout(&bounds), us(300));
}

#[test]
fn measurements() {
    let mut rtt = RttEstimator::new();
    // SRTT = R, RTTVAR = R / 2, RTO = 100 + 4 * 50.
    rtt.sample(us(100));
    assert_state(&rtt, 100.0, 50.0, 300.0);
    // RTTVAR = 3/4 * 50 + 1/4 * |100 - 180| = 37.5 + 20, computed with the old SRTT. SRTT = 7/8 * 100 + 1/8 * 180.
    rtt.sample(us(180));
    assert_state(&rtt, 110.0, 57.5, 340.0);
    // RTTVAR = 43.125 + 1/4 * 80 = 63.125; SRTT = 96.25 + 3.75 = 100.
    rtt.sample(us(30));
    assert_state(&rtt, 100.0, 63.125, 352.5);
    // RTTVAR = 47.34375 is rounded to the nearest nanosecond. SRTT does not change.
    rtt.sample(us(100));
    assert_state(&rtt, 100.0, 47.344, 289.376);
}

/// Without variation the timeout is the round-trip time plus the clock granularity of 1 ns.
#[test]
fn the_clock_has_a_grain() {
    let mut rtt = RttEstimator::new();
    for _ in 0..60 {
        rtt.sample(us(100));
    }
    let variation = rtt.variation().expect("measured");
    assert!(variation <= Time::from_ns(2), "{variation}");
    let mut still = RttEstimator::new();
    still.sample(Time::ZERO);
    assert_eq!(still.timeout(&WIDE), Time::from_ns(1));
}

#[test]
fn bounds() {
    let mut rtt = RttEstimator::new();
    rtt.sample(us(100));
    let bounds = RtoBounds { min: us(301), initial: us(5), max: us(1_000) };
    assert_eq!(rtt.timeout(&bounds), us(301));
    assert_eq!(rtt.timeout(&RtoBounds { min: us(299), ..bounds }), us(300));
    assert_eq!(rtt.timeout(&RtoBounds { max: us(250), min: us(1), ..bounds }), us(250));
    rtt.sample(us(4_000_000));
    assert_eq!(rtt.timeout(&bounds), us(1_000));
}

#[test]
fn back_off_doubles_until_a_measurement() {
    let mut rtt = RttEstimator::new();
    for (doublings, timeout) in [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16), (5, 20), (6, 20)] {
        let bounds = RtoBounds { max: Time::from_ms(20), ..WIDE };
        assert_eq!((rtt.doublings(), rtt.timeout(&bounds)), (doublings, Time::from_ms(timeout)));
        rtt.back_off();
    }
    rtt.sample(us(100));
    assert_eq!((rtt.doublings(), rtt.timeout(&WIDE)), (0, us(300)));
    rtt.back_off();
    assert_eq!(rtt.timeout(&WIDE), us(600), "what is doubled is the computed timeout");
    // Back-off doubles the minimum timeout as well.
    assert_eq!(rtt.timeout(&RtoBounds { min: us(500), ..WIDE }), us(1_000));
}

/// Neither the longest measurement nor the maximum number of doublings overflows.
#[test]
fn extremes() {
    let mut rtt = RttEstimator::new();
    for _ in 0..100 {
        rtt.sample(Time::ZERO);
        rtt.sample(Time::MAX);
    }
    for _ in 0..1_000 {
        rtt.back_off();
    }
    assert_eq!(rtt.timeout(&WIDE), WIDE.max);
    assert_eq!(rtt.timeout(&RtoBounds { max: Time::MAX, ..WIDE }), Time::MAX);
    assert!(size_of::<RttEstimator>() <= 16);
}
