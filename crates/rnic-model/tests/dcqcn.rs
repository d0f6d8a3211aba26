//! Checks the fluid model of DCQCN against values from independent computations, and its consistency.

use proptest::prelude::*;
use rnic_model::dcqcn::Dcqcn;
use rnic_model::series::{Group, Run, Statistics, StepCheck};
use rnic_model::{at_least_one, per_packet, per_second};
use rnic_transport::congestion::{CongestionControl, Dcqcn as Algorithm, Marking, Settings, Value};
use rnic_transport::{BitRate, Bytes, Time};

const LINE: BitRate = BitRate::from_gbps(40);

fn deployed() -> Dcqcn {
    Dcqcn::deployed(LINE)
}

fn group(count: u32, gbps: u64) -> Group {
    Group { count, rate: BitRate::from_gbps(gbps), start: Time::ZERO }
}

#[track_caller]
fn assert_close(value: f64, expected: f64, relative: f64) {
    assert!((value - expected).abs() <= relative * expected.abs(), "{value:e} is not {expected:e}");
}

/// The equations are those of the DCQCN paper.
#[test]
fn behaviour_without_equations_is_refused() {
    let mut settings = Settings::new(Algorithm::PARAMETERS);
    settings.set("profile", Value::choice("hpcc-ns3")).unwrap();
    let error = Dcqcn::new(LINE, &settings).unwrap_err().to_string();
    assert!(error.contains("do not describe `alpha_updates` = \"period\""), "{error}");
    let mut settings = Settings::new(Algorithm::PARAMETERS);
    settings.set("clamp_target_rate", Value::Flag(false)).unwrap();
    assert!(Dcqcn::new(LINE, &settings).is_err());
    settings.set("clamp_target_rate", Value::Flag(true)).unwrap();
    settings.set("g", Value::Number(0.0625)).unwrap();
    assert!(Dcqcn::new(LINE, &settings).is_ok());
}

/// The expected values were computed with 120 decimal digits from the exact value of each `p`.
#[test]
fn expressions_are_exact_from_the_smallest_probability_to_the_largest() {
    for (p, n, cut, events) in [
        (1e-18, 10_000.0, 9.999999999999951e-15, 9.99999999999995e-05),
        (1e-9, 10_000.0, 9.999950005166617e-06, 9.999949995083334e-05),
        (1e-4, 125.5, 0.012472196876897178, 0.007917833665313173),
        (0.01, 137.5, 0.748904310606204, 0.0033528407546558983),
        (0.3, 18.25, 0.9985105043807188, 0.0004475152578004435),
        (0.999999, 2.5, 0.999999999999999, 9.999990000718901e-16),
        (0.9999999999, 40.0, 1.0, 0.0),
    ] {
        assert_close(at_least_one(p, n), cut, 1e-14);
        assert_close(per_packet(p, n), events, 1e-13);
        // A period of n packets at 4 packets per second.
        assert_close(per_second(p, 4.0, n / 4.0), 4.0 * events, 1e-13);
    }
}

/// The expected values were computed with 120 decimal digits by bisection of the equation.
#[test]
fn fixed_points() {
    for (flows, p, queue, alpha, target) in [
        (2, 0.0007769886333120865, 20151.27834958569, 0.10136421829419212, 20217989855.610054),
        (8, 0.0045521114549642045, 93766.173371802, 0.14515581835587196, 5115119692.886592),
        (14, 0.00920203390703982, 184439.66118727648, 0.1660576704022508, 2944634282.1728854),
        (15, 0.010031036390645367, 200605.20961758465, 0.16875517641567356, 2751187797.318375),
    ] {
        let point = deployed().fixed_point(flows).unwrap();
        assert_close(point.p, p, 1e-12);
        assert_close(point.queue, queue, 1e-12);
        assert_close(point.alpha, alpha, 1e-12);
        assert_close(point.target, target, 1e-12);
        assert_eq!(point.rate, 40e9 / f64::from(flows));
        assert_eq!(point.is_valid(), flows < 15, "{:?}", point.limits);
    }
    assert_eq!(deployed().first_above_kmax(100), Ok(Some(15)));
    let larger_packets = Dcqcn { packet: Bytes(1_500), ..deployed() };
    assert_eq!(larger_packets.first_above_kmax(100), Ok(Some(11)));
}

#[test]
fn a_lone_flow_would_need_more_than_line_rate() {
    let point = deployed().fixed_point(1).unwrap();
    assert!(point.limits[0].contains("above line rate"), "{:?}", point.limits);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_residual_of_every_equation_is_zero(
        flows in 1u32..2_000, g in 1e-4..1.0f64, timer in 5u64..5_000, counter in 2_000u64..50_000_000,
        r_ai in 1u64..1_000, pmax in 1e-3..1.0f64, gbps in 1u64..800,
    ) {
        let model = Dcqcn {
            g,
            rate_timer: Time::from_us(timer),
            byte_counter: Bytes(counter),
            r_ai: BitRate::from_bps(r_ai * 1_000_000),
            marking: Marking { kmin: Bytes(5_000), kmax: Bytes(200_000), pmax },
            ..Dcqcn::deployed(BitRate::from_gbps(gbps))
        };
        let point = model.fixed_point(flows).unwrap();
        for (equation, residual) in &point.residuals {
            prop_assert!(*residual < 1e-9, "{equation}: {residual:e} at p = {}", point.p);
        }
    }
}

/// In the last tenth of a long run the model is at its fixed point.
#[test]
fn the_model_settles_at_its_fixed_point() {
    let run = Run { duration: Time::from_ms(400), ..Run::default() };
    for flows in [2, 4] {
        let model = deployed();
        let point = model.fixed_point(flows).unwrap();
        let series = model.solve(&[group(flows, 40)], &run).unwrap();
        let from = series.from(0.36);
        let queue = Statistics::of(&series.queue[from..]);
        let rate = Statistics::of(&series.flows[0].rate[from..]);
        let state = |i: usize| Statistics::of(&series.flows[0].state[i].1[from..]).mean;
        assert_close(queue.mean, point.queue, 1e-3);
        assert_close(rate.mean, point.rate, 1e-5);
        assert_close(state(0), point.target, 1e-3);
        assert_close(state(1), point.alpha, 1e-3);
        assert!(queue.deviation < 0.01 * queue.mean, "{queue:?}");
    }
}

#[test]
fn unequal_flows_converge_to_equal_rates() {
    let run = Run { duration: Time::from_ms(400), ..Run::default() };
    let series = deployed().solve(&[group(1, 40), group(1, 0)], &run).unwrap();
    let spread = series.spread();
    assert_eq!(spread[0], 40e9);
    let last = *spread.last().unwrap();
    assert!(last < 0.4e9, "{last:e}");
}

/// A group of six flows, with one set of equations, behaves like six groups of one flow.
#[test]
fn a_group_is_equivalent_to_single_flows() {
    let run = Run { duration: Time::from_ms(20), ..Run::default() };
    let together = deployed().solve(&[group(6, 40)], &run).unwrap();
    let apart = deployed().solve(&[group(1, 40); 6], &run).unwrap();
    assert_eq!(together.time, apart.time);
    for (i, queue) in together.queue.iter().enumerate() {
        assert!((queue - apart.queue[i]).abs() <= 1e-6 * (1.0 + queue), "{queue} {}", apart.queue[i]);
        for flow in &apart.flows {
            assert_close(flow.rate[i], together.flows[0].rate[i], 1e-9);
        }
    }
}

/// If the solution crosses no threshold, the error is proportional to the fourth power of the step.
#[test]
fn the_error_is_of_fourth_order_where_the_model_is_smooth() {
    // The switch marks from the first byte on, the queue stays far below Kmax, and rates stay below line rate.
    let model = Dcqcn { marking: Marking { kmin: Bytes(0), kmax: Bytes(2_000_000), pmax: 0.05 }, ..deployed() };
    let run = Run { duration: Time::from_ms(2), step: Time::from_us(10), sample: Time::from_us(50) };
    let groups = [Group { count: 2, rate: BitRate::from_bps(20_400_000_000), start: Time::ZERO }];
    let check = model.check_step(&groups, &run).unwrap();
    for differences in [check.queue, check.rate] {
        let order = StepCheck::order(differences).unwrap();
        assert!((3.5..4.5).contains(&order), "{order} from {differences:?}");
    }
}

/// The expected values come from another program, which uses Euler's method with steps of 0.1 and 0.05 us and
/// extrapolates to a step of 0.
#[test]
fn a_solution_by_an_independent_program() {
    let model = Dcqcn { marking: Marking { kmin: Bytes(0), kmax: Bytes(2_000_000), pmax: 0.05 }, ..deployed() };
    let run = Run { duration: Time::from_ms(3), step: Time::from_us(1), sample: Time::from_us(100) };
    let flow = |mbps: u64| Group { count: 1, rate: BitRate::from_bps(mbps * 1_000_000), start: Time::ZERO };
    let series = model.solve(&[flow(20_400), flow(16_320)], &run).unwrap();
    let last = series.time.len() - 1;
    assert_close(series.queue[last], 7_404.808, 1e-5);
    let expected = [(2_747_729.17, 2_811_326.45, 0.808_855_66), (2_259_145.86, 2_305_330.45, 0.808_720_48)];
    for (flow, (rate, target, alpha)) in series.flows.iter().zip(expected) {
        assert_close(flow.rate[last] / 8_000.0, rate, 1e-7);
        assert_close(flow.state[0].1[last] / 8_000.0, target, 1e-7);
        assert_close(flow.state[1].1[last], alpha, 1e-7);
    }
}

#[test]
fn a_flow_has_no_effect_before_its_start() {
    let late = Group { start: Time::from_ms(5), ..group(1, 40) };
    let run = Run { duration: Time::from_ms(10), ..Run::default() };
    let series = deployed().solve(&[group(1, 40), late], &run).unwrap();
    let at = series.from(0.005);
    assert!(series.flows[1].rate[..at].iter().all(|rate| *rate == 0.0));
    assert_eq!(series.flows[1].rate[at], 40e9);
    // One flow at line rate builds no queue, two flows do.
    assert_eq!(Statistics::of(&series.queue[..=at]).max, 0.0);
    assert!(Statistics::of(&series.queue[at..]).max > 100_000.0);
}

#[test]
fn without_delay_the_model_reaches_its_fixed_point() {
    let model = Dcqcn { delay: Time::ZERO, ..deployed() };
    let run = Run { duration: Time::from_ms(400), ..Run::default() };
    let series = model.solve(&[group(2, 40)], &run).unwrap();
    assert_close(*series.queue.last().unwrap(), model.fixed_point(2).unwrap().queue, 1e-2);
}

#[test]
fn values_out_of_range_are_refused() {
    let run = Run::default();
    let marking =
        |kmin, kmax, pmax| Dcqcn { marking: Marking { kmin: Bytes(kmin), kmax: Bytes(kmax), pmax }, ..deployed() };
    for (model, part) in [
        (marking(200_001, 200_000, 0.01), "kmin cannot be 200.001 KB; accepted: at most kmax, which is 200 KB"),
        (marking(5_000, 200_000, 1.5), "pmax cannot be 1.5; accepted: a probability above 0 and at most 1"),
        (marking(5_000, 200_000, 0.0), "pmax cannot be 0"),
        (Dcqcn { g: 0.0, ..deployed() }, "g cannot be 0; accepted: a number above 0"),
        (
            Dcqcn { byte_counter: Bytes(999), ..deployed() },
            "byte_counter cannot be 999 B; accepted: at least one packet of 1 KB",
        ),
        (Dcqcn { rate: BitRate::from_bps(0), ..deployed() }, "the rate is zero"),
        (Dcqcn { delay: Time::from_ps(500_000), ..deployed() }, "a step of 1 us is longer than the delay of 500 ns"),
        (
            Dcqcn { rate_timer: Time::from_ps(500_000), ..deployed() },
            "is too long for the time constants of these parameters",
        ),
    ] {
        let error = model.solve(&[group(2, 40)], &run).unwrap_err().to_string();
        assert!(error.contains(part), "{error} does not say {part}");
    }
    for (groups, run, part) in [
        (vec![], run, "there is no flow"),
        (vec![group(0, 40)], run, "there is no flow"),
        (vec![group(1, 50)], run, "cannot start with a rate of 50 Gbps"),
        (vec![group(2, 40)], Run { step: Time::ZERO, ..run }, "the step is zero"),
        (vec![group(2, 40)], Run { duration: Time::ZERO, ..run }, "the duration is zero"),
        (vec![group(2, 40)], Run { step: Time::from_ps(1), ..run }, "accepted: at most 20000000"),
        (vec![Group { start: Time::from_ms(300), ..group(1, 40) }], run, "cannot start at 300 ms"),
    ] {
        let error = deployed().solve(&groups, &run).unwrap_err().to_string();
        assert!(error.contains(part), "{error} does not say {part}");
    }
    assert!(deployed().fixed_point(0).is_err());
}

/// Section 5.2 of the DCQCN paper: with 50 us more of feedback delay flows still converge, and an alpha interval of 110
/// us, twice the default, hardly slows them down. At 100 ms the difference of their rates is below 1 % of 40 Gbps.
#[test]
fn flows_converge_with_more_delay_and_with_a_longer_alpha_interval() {
    let run = Run { duration: Time::from_ms(100), ..Run::default() };
    // Time until the difference stays below a tenth of the line rate.
    let converged = |model: &Dcqcn| {
        let series = model.solve(&[group(1, 40), group(1, 0)], &run).unwrap();
        let spread = series.spread();
        let last = *spread.last().unwrap();
        assert!(last < 0.4e9, "{last:e}");
        series.time[spread.iter().rposition(|difference| *difference > 4e9).unwrap()]
    };
    let default = converged(&deployed());
    for model in
        [Dcqcn { delay: Time::from_us(100), ..deployed() }, Dcqcn { alpha_timer: Time::from_us(110), ..deployed() }]
    {
        let time = converged(&model);
        assert!((0.5 * default..1.1 * default).contains(&time), "{time} s instead of {default} s");
    }
}
