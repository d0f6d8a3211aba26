//! Runs the conformance test on every registered congestion control, with every loss recovery.

use proptest::prelude::*;
use rnic_transport::conformance::{self, Driver, Path};
use rnic_transport::congestion::{AckSample, CongestionControl, Kind, LossSignal, Parameter, Settings};
use rnic_transport::recovery::{GoBackN, Irn, Tcp};
use rnic_transport::registry::{Visitor, visit_congestion_controls};
use rnic_transport::{BitRate, FlowConfig, Time};

/// Every registered algorithm passes the conformance test that users run on their own congestion controls.
#[test]
fn all_conform() {
    struct Check(Vec<&'static str>);
    impl Visitor for Check {
        fn visit<C: CongestionControl>(&mut self) {
            conformance::check::<C>().unwrap();
            self.0.push(C::NAME);
        }
        fn visit_with_telemetry<C: CongestionControl>(&mut self) {
            self.visit::<C>();
        }
    }
    let mut check = Check(Vec::new());
    visit_congestion_controls(&mut check);
    assert_eq!(
        check.0,
        ["none", "dcqcn", "timely", "patched-timely", "dctcp", "aimd", "cubic", "swift", "nscc", "rccc", "hpcc"]
    );
}

#[derive(Clone, Debug)]
struct Case {
    flow: FlowConfig,
    path: Path,
    packets: u32,
}

fn cases() -> impl Strategy<Value = Case> {
    let line = prop::sample::select(vec![10u64, 25, 40, 100, 200, 400, 800]);
    let flow = (line, 1u64..60, 1u32..300, prop::sample::select(vec![256u32, 1_024, 4_096]), any::<bool>());
    (flow, any::<u64>(), 0u32..120, 1u32..600).prop_map(|(flow, seed, loss, packets)| {
        let (gbps, rtt_us, bdp, mtu, capped) = flow;
        let line_rate = BitRate::from_gbps(gbps);
        let base_rtt = Time::from_us(rtt_us);
        let max_rate = capped.then(|| BitRate::from_bps(line_rate.as_bps() / 3));
        let flow = FlowConfig { line_rate, base_rtt, bdp, bdp_cap: bdp * 2, mtu, max_rate, ..FlowConfig::default() };
        Case { flow, path: Path { seed, loss }, packets }
    })
}

struct Run<'a>(&'a Case);

impl Visitor for Run<'_> {
    fn visit<C: CongestionControl>(&mut self) {
        let Case { flow, path, packets } = self.0;
        let settings = Settings::new(C::PARAMETERS);
        conformance::check_events::<C>(&settings, flow, path.seed, 2_000).unwrap();
        conformance::check_flow::<Irn, C>(&settings, flow, *path, *packets).unwrap();
        conformance::check_flow::<GoBackN, C>(&settings, flow, *path, *packets).unwrap();
        conformance::check_flow::<Tcp, C>(&settings, flow, *path, *packets).unwrap();
        if !C::NEEDS_ACKS {
            let flow = FlowConfig { acks: false, ..flow.clone() };
            conformance::check_flow::<GoBackN, C>(&settings, &flow, *path, *packets).unwrap();
        }
    }
    fn visit_with_telemetry<C: CongestionControl>(&mut self) {
        self.visit::<C>();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// In random configurations with random faults, bounds hold after every event and flows complete.
    #[test]
    fn flows_finish_in_any_weather(case in cases()) {
        visit_congestion_controls(&mut Run(&case));
    }
}

/// The random events of the driver fire the timers of an algorithm that has timers.
#[test]
fn timers_are_driven() {
    use rnic_transport::congestion::Dcqcn;
    let mut driver = Driver::<Dcqcn>::new(&Settings::new(Dcqcn::PARAMETERS), &FlowConfig::default(), 3).unwrap();
    let mut slowest = driver.control().rate();
    for _ in 0..20_000 {
        driver.step().unwrap();
        slowest = slowest.min(driver.control().rate());
    }
    assert!(driver.fired() > 1_000, "{} timers by {}", driver.fired(), driver.now());
    assert!(slowest < BitRate::from_gbps(1), "notifications and losses bring it down: {slowest}");
}

/// A congestion control that violates the rule `BREAKS`.
#[derive(Clone)]
struct Bad<const BREAKS: u8> {
    sent: u64,
    timer: Option<Time>,
}

const ZERO_RATE: u8 = 0;
const ABOVE_LINE: u8 = 1;
const ZERO_WINDOW: u8 = 2;
const TIMER_STORM: u8 = 3;
const TIMER_STUCK: u8 = 4;
const UNDECLARED: u8 = 5;
const TWICE: u8 = 6;
const DEFAULT_OUT_OF_RANGE: u8 = 7;
const NAMED_BADLY: u8 = 8;
const CREEPS: u8 = 9;
const AT_A_BOUND: u8 = 10;
const TIMER_PAST: u8 = 11;
const RANDOM: u8 = 12;

impl<const BREAKS: u8> CongestionControl for Bad<BREAKS> {
    type Params = f64;
    const NAME: &'static str = if BREAKS == NAMED_BADLY { "My Control" } else { "bad" };
    const ABOUT: &'static str = "breaks a rule";
    const PARAMETERS: &'static [Parameter] = match BREAKS {
        TWICE => &[Parameter::flag("x", true, "once"), Parameter::number("x", 0.0, 0.0, 1.0, "twice")],
        DEFAULT_OUT_OF_RANGE => &[Parameter::number("x", 2.0, 0.0, 1.0, "too large")],
        UNDECLARED => &[Parameter::derived("x", Kind::Rate, "never derived")],
        _ => &[Parameter::number("x", 0.5, 0.0, 1.0, "fine")],
    };
    fn params(settings: &Settings, _flow: &FlowConfig) -> Result<f64, String> {
        settings.number("x")
    }
    fn new(_params: &f64, _flow: &FlowConfig, _now: Time) -> Self {
        Bad { sent: 0, timer: None }
    }
    fn on_send(&mut self, params: &f64, now: Time, _bytes: u32) {
        self.sent += if BREAKS == AT_A_BOUND && *params == 1.0 { 1_000_000 } else { 1 };
        match BREAKS {
            TIMER_STORM | TIMER_STUCK => self.timer = Some(now + Time::from_ns(10)),
            TIMER_PAST => self.timer = Some(now.saturating_sub(Time::from_ps(1))),
            _ => {}
        }
    }
    fn on_ack(&mut self, _params: &f64, sample: &AckSample) {
        if BREAKS == RANDOM {
            // The address of `self` in memory differs between flows.
            self.sent = std::ptr::from_ref(self) as u64;
        }
        assert!(sample.acked <= 100_000);
    }
    fn on_loss(&mut self, _params: &f64, _now: Time, _signal: LossSignal) {}
    fn next_timer(&self) -> Option<Time> {
        self.timer
    }
    fn on_timer(&mut self, _params: &f64, now: Time) {
        self.timer = Some(if BREAKS == TIMER_STUCK { now } else { now + Time::from_ns(10) });
    }
    fn rate(&self) -> BitRate {
        let gbps = BitRate::from_gbps;
        match BREAKS {
            ZERO_RATE if self.sent > 100 => BitRate::from_bps(0),
            ABOVE_LINE if self.sent > 100 => gbps(801),
            AT_A_BOUND if self.sent > 1_000_000 => gbps(801),
            CREEPS => BitRate::from_bps(1_000),
            RANDOM => BitRate::from_bps(1 + self.sent % 1_000_000),
            _ => gbps(1),
        }
    }
    fn window(&self) -> u32 {
        if BREAKS == ZERO_WINDOW && self.sent > 100 { 0 } else { 10 }
    }
}

/// Each check detects a violation, and its message describes it.
#[test]
fn every_violation_is_detected() {
    fn says<const BREAKS: u8>(expected: &str) {
        let error = conformance::check::<Bad<BREAKS>>().expect_err(expected);
        assert!(error.contains(expected), "{BREAKS}: {error}");
    }
    says::<ZERO_RATE>("the rate is zero");
    says::<ABOVE_LINE>("above the");
    says::<ZERO_WINDOW>("the window is zero");
    says::<TIMER_STORM>("timers fired between");
    says::<TIMER_STUCK>("a time that is not later");
    says::<TIMER_PAST>("in the past");
    says::<UNDECLARED>("with defaults: there is no number `x` with a value");
    says::<TWICE>("two parameters are called `x`");
    says::<DEFAULT_OUT_OF_RANGE>("default of `x`");
    says::<NAMED_BADLY>("the name `My Control`");
    says::<CREEPS>("the time limit has passed");
    says::<AT_A_BOUND>("with `x` = 1: ");
    says::<RANDOM>("have different states");
    // A rate of 1 Gbps with a window of 10 packets violates no rule.
    conformance::check::<Bad<255>>().unwrap();
}
