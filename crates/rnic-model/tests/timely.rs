//! Checks the fluid models of TIMELY and of patched TIMELY.

use rnic_model::series::{Group, Run, Statistics, StepCheck};
use rnic_model::timely::Timely;
use rnic_transport::congestion::{CongestionControl, PatchedTimely, Settings, Timely as Algorithm};
use rnic_transport::{BitRate, Bytes, Time};

const LINE: BitRate = BitRate::from_gbps(10);

fn patched() -> Timely {
    Timely::new(LINE, true, &Settings::new(PatchedTimely::PARAMETERS)).unwrap()
}

fn timely() -> Timely {
    Timely::new(LINE, false, &Settings::new(Algorithm::PARAMETERS)).unwrap()
}

fn flow(mbps: u64) -> Group {
    Group { count: 1, rate: BitRate::from_bps(mbps * 1_000_000), start: Time::ZERO }
}

#[test]
fn the_patched_fixed_point_by_hand() {
    // C T_low is 62,500 bytes; 2 * 10 Mbps / (0.008 * 10 Gbps) is 1/4.
    let point = patched().fixed_point(2).unwrap().unwrap();
    assert!((point.queue - 78_125.0).abs() < 1e-6, "{}", point.queue);
    assert_eq!(point.rate, 5e9);
    assert!(point.is_valid() && point.residuals.iter().all(|(_, residual)| *residual < 1e-12), "{point:?}");
    // The queue is above C T_high (625,000 bytes) if 1 + N/8 > 10.
    assert!(patched().fixed_point(72).unwrap().unwrap().is_valid());
    assert!(!patched().fixed_point(73).unwrap().unwrap().is_valid());
    assert_eq!(timely().fixed_point(2), Ok(None));
}

#[test]
fn patched_timely_settles_at_its_fixed_point_from_any_start() {
    let run = Run { duration: Time::from_ms(400), ..Run::default() };
    for start in [[5_000, 5_000], [7_000, 3_000]] {
        let model = patched();
        let series = model.solve(&start.map(flow), &run).unwrap();
        let from = series.from(0.36);
        let queue = Statistics::of(&series.queue[from..]);
        assert!((queue.mean - 78_125.0).abs() < 100.0, "{queue:?}");
        let spread = Statistics::of(&series.spread()[from..]);
        assert!(spread.max < 0.05e9, "{spread:?}");
    }
}

#[test]
fn timely_keeps_the_difference_that_flows_start_with() {
    let run = Run::default();
    let series = timely().solve(&[flow(7_000), flow(3_000)], &run).unwrap();
    let spread = Statistics::of(&series.spread()[series.from(0.1)..]);
    assert!(spread.mean > 1e9, "{spread:?}");
}

#[test]
fn halving_the_step_changes_little() {
    let run = Run { duration: Time::from_ms(5), step: Time::from_us(2), sample: Time::from_us(100) };
    let check = patched().check_step(&[flow(5_200), flow(5_200)], &run).unwrap();
    // The queue is about 80 KB. Each crossing of a threshold causes an error of first order.
    assert!(check.queue[0] < 40.0 && check.rate[0] < 500_000.0, "{check:?}");
    assert!(StepCheck::order(check.queue).unwrap() > 0.7, "{check:?}");
}

#[test]
fn values_out_of_range_are_refused() {
    let run = Run::default();
    for (model, groups, part) in [
        (
            Timely { t_low: Time::from_us(600), ..timely() },
            vec![flow(5_000)],
            "t_low cannot be 600 us; accepted: at most t_high, which is 500 us",
        ),
        (Timely { beta: 0.0, ..timely() }, vec![flow(5_000)], "beta cannot be 0"),
        (Timely { segment: Bytes(0), ..timely() }, vec![flow(5_000)], "the segment length is zero"),
        (Timely { delay: Time::ZERO, ..timely() }, vec![flow(5_000)], "longer than the minimum delay of 800 ns"),
        (timely(), vec![flow(0)], "rate 0"),
        (timely(), vec![flow(11_000)], "at most the line rate of 10 Gbps"),
        (timely(), vec![], "there is no flow"),
    ] {
        let error = model.solve(&groups, &run).unwrap_err().to_string();
        assert!(error.contains(part), "{error} does not say {part}");
    }
}
