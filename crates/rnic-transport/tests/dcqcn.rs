//! Checks the rates of DCQCN step by step against values computed by hand, and the omission of timers against a
//! reaction point in which all timers run.

use proptest::prelude::*;
use rnic_transport::congestion::{CongestionControl, Dcqcn, DcqcnParams, LossSignal, Marking, Settings, Value};
use rnic_transport::{BitRate, Bytes, FlowConfig, Time};

const G: u64 = 1_000_000_000;

/// A flow at 40 Gbps.
struct Flow {
    params: DcqcnParams,
    rp: Dcqcn,
}

impl Flow {
    fn new(given: &[(&str, Value)]) -> Flow {
        Flow::on(&FlowConfig::default(), given)
    }
    fn on(flow: &FlowConfig, given: &[(&str, Value)]) -> Flow {
        let mut settings = Settings::new(Dcqcn::PARAMETERS);
        for (name, value) in given {
            settings.set(name, value.clone()).unwrap();
        }
        let params = Dcqcn::params(&settings, flow).unwrap();
        Flow { params, rp: Dcqcn::new(&params, flow, Time::ZERO) }
    }
    fn cnp(&mut self, us: u64) {
        self.rp.on_cnp(&self.params, Time::from_us(us));
    }
    /// Fires the timer, which must be due at `us`.
    #[track_caller]
    fn timer(&mut self, us: u64) {
        assert_eq!(self.rp.next_timer(), Some(Time::from_us(us)));
        self.rp.on_timer(&self.params, Time::from_us(us));
    }
    fn send(&mut self, bytes: u32) {
        self.rp.on_send(&self.params, Time::ZERO, bytes);
    }
    fn alpha(&self, us: u64) -> f64 {
        self.rp.alpha(&self.params, Time::from_us(us))
    }
    /// (R_T, R_C) in bits per second.
    fn rates(&self) -> (u64, u64) {
        (self.rp.target().as_bps(), self.rp.rate().as_bps())
    }
}

/// Without a CNP a flow stays at line rate and has no timer.
#[test]
fn no_timer_runs_before_the_first_cnp() {
    let mut flow = Flow::new(&[]);
    for _ in 0..100_000 {
        flow.send(1_086);
    }
    assert_eq!((flow.rates(), flow.rp.next_timer()), ((40 * G, 40 * G), None));
    assert_eq!(flow.rp.window(), u32::MAX);
    // Alpha is still 1 at the first CNP, because its decay starts only then.
    flow.cnp(1_000_000);
    assert_eq!(flow.rates(), (40 * G, 20 * G));
}

/// Each CNP applies equation 1. Each period K = 55 us without a CNP applies equation 2, and each expiry of the rate
/// timer (T = 55 us) applies equation 3.
#[test]
fn cnps_cut_and_alpha_decays() {
    let mut flow = Flow::new(&[]);
    flow.cnp(100);
    // R_C = 40 (1 - 1/2); alpha = 255/256 + 1/256.
    assert_eq!((flow.rates(), flow.alpha(100)), ((40 * G, 20 * G), 1.0));
    // After 50 us neither timer has fired. The second CNP restarts both.
    flow.cnp(150);
    assert_eq!((flow.rates(), flow.alpha(150)), ((20 * G, 10 * G), 1.0));
    flow.timer(205);
    assert_eq!(flow.rates(), (20 * G, 15 * G)); // (20 + 10) / 2
    flow.timer(260);
    assert_eq!(flow.rates(), (20 * G, 17_500_000_000)); // (20 + 15) / 2
    // Periods of K ended at 205 and 260: alpha = (255/256)^2 = 65025/65536.
    assert_eq!(flow.alpha(300), 65_025.0 / 65_536.0);
    // R_C = 17.5 Gbps (1 - 65025/131072) = 8818225860.6; alpha = (255 * 65025/65536 + 1) / 256.
    flow.cnp(300);
    assert_eq!(flow.rates(), (17_500_000_000, 8_818_225_861));
    assert_eq!(flow.alpha(300), (255.0 * 65_025.0 / 65_536.0 + 1.0) / 256.0);
    assert_eq!(flow.rp.next_timer(), Some(Time::from_us(355)));
}

/// g = 1/2 makes the order of the two updates visible. After a CNP at 0 us, alpha is 1. Periods of K end at 55 and 110
/// us, so alpha is 1/4 when the next CNP arrives at 150 us. At this time R_C has risen from 20 to 35 Gbps.
#[test]
fn alpha_is_updated_after_the_cut_or_before() {
    for (first, cut) in [
        (false, 30_625_000_000), // 35 (1 - 1/8)
        (true, 24_062_500_000),  // 35 (1 - 5/16): alpha = 1/8 + 1/2 comes first
    ] {
        let mut flow = Flow::new(&[("g", Value::Number(0.5)), ("alpha_first", Value::Flag(first))]);
        flow.cnp(0);
        flow.timer(55);
        flow.timer(110);
        assert_eq!((flow.rates(), flow.alpha(150)), ((40 * G, 35 * G), 0.25));
        flow.cnp(150);
        assert_eq!((flow.rates(), flow.alpha(150)), ((35 * G, cut), 0.625));
        // At the end of a period of K, a CNP precedes the alpha timer.
        assert_eq!(flow.alpha(205), 0.625);
        assert_eq!(flow.alpha(206), 0.3125);
    }
}

/// The rate passes fast recovery, additive increase and hyper increase. Both the rate timer and the byte counter (B =
/// 10 KB) cause increase events.
#[test]
fn increase_events_in_order() {
    let mut flow = Flow::new(&[("byte_counter", Value::Bytes(Bytes(10_000)))]);
    flow.cnp(0);
    flow.cnp(10);
    assert_eq!(flow.rates(), (20 * G, 10 * G));
    // Fast recovery, F = 5 times: each event halves the difference to R_T.
    for (us, current) in [
        (65, 15_000_000_000),
        (120, 17_500_000_000),
        (175, 18_750_000_000),
        (230, 19_375_000_000),
        (285, 19_687_500_000),
    ] {
        flow.timer(us);
        assert_eq!(flow.rates(), (20 * G, current));
    }
    // Additive increase: the time stage is at least 5, the byte stage less than 5. R_T grows by 40 Mbps; R_C becomes
    // the mean of R_C and R_T.
    flow.timer(340);
    assert_eq!(flow.rates(), (20_040_000_000, 19_863_750_000)); // (20.04 + 19.6875) / 2
    flow.timer(395);
    assert_eq!(flow.rates(), (20_080_000_000, 19_971_875_000)); // (20.08 + 19.86375) / 2
    for (target, current) in [
        (20_120_000_000, 20_045_937_500),
        (20_160_000_000, 20_102_968_750),
        (20_200_000_000, 20_151_484_375),
        (20_240_000_000, 20_195_742_188), // ...187.5
        (20_280_000_000, 20_237_871_094),
    ] {
        flow.send(9_999);
        assert!(flow.rates() < (target, current), "B is not full");
        flow.send(1);
        assert_eq!(flow.rates(), (target, current));
    }
    // Hyper increase: both stages are at least 5. R_T grows by 200 Mbps if the smaller stage is 5, by 400 Mbps if it is
    // 6, and by 600 Mbps if it is 7.
    flow.send(10_000);
    assert_eq!(flow.rates(), (20_480_000_000, 20_358_935_547));
    flow.send(10_000);
    assert_eq!(flow.rates(), (20_880_000_000, 20_619_467_774)); // ...773.5
    flow.timer(450);
    assert_eq!(flow.rates(), (21_480_000_000, 21_049_733_887));
    // A CNP resets both stages. Fast recovery begins again, towards the rate before the CNP.
    flow.cnp(460);
    let (target, low) = flow.rates();
    assert_eq!(target, 21_049_733_887);
    flow.timer(515);
    assert_eq!(flow.rates(), (target, (target + low).div_ceil(2)));
}

/// Packets have 1,100 bytes, and B is 10 KB. After the tenth packet, 11,000 bytes have been sent, of which 1,000 count
/// for the next period of B. So the 19th packet (20,900 bytes) causes the second event, not the 20th.
#[test]
fn the_byte_counter_counts_every_byte() {
    let mut flow = Flow::new(&[("byte_counter", Value::Bytes(Bytes(10_000)))]);
    flow.cnp(0);
    let mut events = Vec::new();
    for packet in 1..=20 {
        let (_, before) = flow.rates();
        flow.send(1_100);
        if flow.rates().1 != before {
            events.push((packet, flow.rates().1 / G));
        }
    }
    assert_eq!(events, [(10, 30), (19, 35)]);
    // One packet can cause several events: 20,000 bytes halve the difference to R_T twice.
    flow.cnp(10);
    let (target, low) = flow.rates();
    flow.send(20_000);
    assert_eq!(flow.rates(), (target, target - (target - low) / 4));
}

/// The rate never falls below `min_rate`. It rises to the `max_rate` of the flow, which is less than the rate of the
/// link.
#[test]
fn rates_stay_within_bounds() {
    let capped = FlowConfig { max_rate: Some(BitRate::from_gbps(8)), ..FlowConfig::default() };
    let mut flow = Flow::on(&capped, &[("min_rate", Value::Rate(BitRate::from_gbps(3)))]);
    assert_eq!(flow.rates(), (8 * G, 8 * G));
    flow.cnp(0);
    assert_eq!(flow.rates(), (8 * G, 4 * G));
    flow.cnp(1);
    assert_eq!(flow.rates(), (4 * G, 3 * G)); // not 2
    flow.cnp(2);
    assert_eq!(flow.rates(), (3 * G, 3 * G)); // not 1.5
    for _ in 0..10_000 {
        let Some(at) = flow.rp.next_timer() else { break };
        flow.rp.on_timer(&flow.params, at);
    }
    assert_eq!((flow.rates(), flow.rp.next_timer()), ((8 * G, 8 * G), None));
}

/// The rate rises from 20 to 40 Gbps. Each event halves the difference of 20e9 bps, rounded down, so 35 events suffice,
/// because 2^34 < 20e9 < 2^35. Then the timer stops.
#[test]
fn the_timer_stops_at_line_rate() {
    let mut flow = Flow::new(&[]);
    flow.cnp(0);
    for event in 1..=35 {
        assert!(flow.rates().1 < 40 * G);
        flow.timer(55 * event);
    }
    assert_eq!((flow.rates(), flow.rp.next_timer()), ((40 * G, 40 * G), None));
    flow.cnp(10_000);
    assert_eq!(flow.rp.next_timer(), Some(Time::from_us(10_055)));
}

/// A timer call that comes late handles all events that were due: three here.
#[test]
fn a_late_timer_call_handles_all_due_events() {
    let mut flow = Flow::new(&[]);
    flow.cnp(0);
    flow.rp.on_timer(&flow.params, Time::from_us(170));
    assert_eq!(flow.rates(), (40 * G, 37_500_000_000));
    assert_eq!(flow.rp.next_timer(), Some(Time::from_us(220)));
}

#[test]
fn losses_reduce_the_rate_only_with_loss_backoff() {
    for (flag, rate) in [(false, 40 * G), (true, 20 * G)] {
        let mut flow = Flow::new(&[("loss_backoff", Value::Flag(flag))]);
        flow.rp.on_loss(&flow.params, Time::from_us(10), LossSignal::Nack);
        assert_eq!(flow.rates(), (40 * G, rate));
    }
}

#[test]
fn deployed_parameters() {
    let flow = Flow::new(&[]);
    assert_eq!(Dcqcn::cnp_interval(&flow.params), Some(Time::from_us(50)));
    assert_eq!(Dcqcn::nic_cnp_interval(&flow.params), Time::ZERO);
    let slow = Flow::new(&[("nic_cnp_interval", Value::Time(Time::from_us(5)))]);
    assert_eq!(Dcqcn::nic_cnp_interval(&slow.params), Time::from_us(5));
    let deployed = Marking { kmin: Bytes(5_000), kmax: Bytes(200_000), pmax: 0.01 };
    assert_eq!(Dcqcn::marking(&flow.params, &FlowConfig::default()), Some(deployed));
    let mut settings = Settings::new(Dcqcn::PARAMETERS);
    let error = settings.set("byte_counter", Value::Bytes(Bytes(5_000_000_000))).unwrap_err();
    assert_eq!(error, "`byte_counter` cannot be 5 GB; it takes a size from 0 B to 4 GB");
}

fn profile(name: &str) -> (&'static str, Value) {
    ("profile", Value::choice(name))
}

/// `paper` is the default. In another profile a parameter that is set keeps its value, whatever the order.
#[test]
fn set_parameters_override_the_profile() {
    assert_eq!(Flow::new(&[profile("paper")]).params, Flow::new(&[]).params);
    let timer = ("rate_timer", Value::Time(Time::from_us(55)));
    let own = Flow::new(&[timer.clone(), profile("hpcc-ns3")]);
    assert_eq!(own.params, Flow::new(&[profile("hpcc-ns3"), timer]).params);
    assert_ne!(own.params, Flow::new(&[profile("hpcc-ns3")]).params);
    // 16 KB and 4 KB per Gbps, no minimum time between CNPs.
    let hpcc = Flow::new(&[profile("hpcc-ns3")]).params;
    let marking = Marking { kmin: Bytes(160_000), kmax: Bytes(640_000), pmax: 0.2 };
    assert_eq!(Dcqcn::marking(&hpcc, &FlowConfig::default()), Some(marking));
    assert_eq!(Dcqcn::cnp_interval(&hpcc), Some(Time::ZERO));
    let mut settings = Settings::new(Dcqcn::PARAMETERS);
    let error = settings.set("profile", Value::choice("mlx4")).unwrap_err();
    assert_eq!(error, "`profile` cannot be \"mlx4\"; it takes \"paper\", \"hpcc-ns3\", \"connectx\"");
}

/// Settings that cannot have an effect are refused.
#[test]
fn contradictory_settings_are_refused() {
    let refused = |given: &[(&str, Value)]| {
        let mut settings = Settings::new(Dcqcn::PARAMETERS);
        for (name, value) in given {
            settings.set(name, value.clone()).unwrap();
        }
        Dcqcn::params(&settings, &FlowConfig::default()).unwrap_err()
    };
    let error = refused(&[("byte_counter", Value::Bytes(Bytes(0)))]);
    assert!(error.starts_with("`byte_counter` = 0 B needs `hyper_increase` = \"either\""), "{error}");
    let error = refused(&[profile("connectx"), ("alpha_first", Value::Flag(true))]);
    assert!(error.starts_with("`alpha_first` has no effect with `alpha_updates` = \"period\""), "{error}");
}

/// The profile `hpcc-ns3`: a CNP reduces the rate at the end of an interval of 4 us. Alpha decays in periods of 1 us in
/// which no CNP arrives. The target rate stays until an increase event has happened. The timer (300 us) alone leads to
/// hyper increase, whose steps do not grow.
#[test]
fn the_hpcc_simulator_delays_reductions_and_keeps_the_target() {
    let mut flow = Flow::new(&[profile("hpcc-ns3")]);
    flow.cnp(100);
    assert_eq!(flow.rates(), (40 * G, 40 * G));
    // The first CNP does not count: alpha decays four times until 104 us. 40 (1 - (255/256)^4 / 2) = 20.310673708...
    let alpha = (255.0f64 / 256.0).powi(4);
    flow.timer(104);
    assert_eq!(flow.rates(), (40 * G, 20_310_673_709));
    assert!((flow.alpha(104) - alpha).abs() < 1e-15);
    // A CNP at 105.0 us counts for the period that ends at 106 us; the reduction follows at 108 us. R_T stays.
    flow.cnp(105);
    flow.cnp(106);
    let mut alpha = alpha * 255.0 / 256.0;
    for raised in [1.0, 1.0, 0.0] {
        alpha = alpha * 255.0 / 256.0 + raised / 256.0;
    }
    flow.timer(108);
    let reduced = (20_310_673_709.0 * (1.0 - alpha / 2.0)).round() as u64;
    assert_eq!(flow.rates(), (40 * G, reduced));
    assert_eq!(flow.rp.next_timer(), Some(Time::from_us(408)));
    // F = 1: one fast recovery, one additive increase (a 5,000th of 40 Gbps), then hyper increases (a 500th), from an
    // R_T below line rate. The CNP at 410 us sets R_T = R_C, because an increase event has happened.
    flow.timer(408);
    let recovered = (40 * G + reduced).div_ceil(2);
    assert_eq!(flow.rates(), (40 * G, recovered));
    flow.cnp(410);
    flow.timer(412);
    let (target, current) = flow.rates();
    assert_eq!(target, recovered);
    flow.send(u32::MAX);
    assert_eq!(flow.rates(), (target, current), "there is no byte counter");
    flow.timer(712);
    let mut expected = (target, (target + current).div_ceil(2));
    assert_eq!(flow.rates(), expected);
    for (us, step) in [(1012, 8_000_000), (1312, 80_000_000), (1612, 80_000_000)] {
        flow.timer(us);
        expected.0 += step;
        expected.1 = (expected.0 + expected.1).div_ceil(2);
        assert_eq!(flow.rates(), expected, "at {us} us");
    }
    // Intervals begin with the first CNP, at 100 + 4 n us, even after a pause.
    flow.cnp(1_702);
    assert_eq!(flow.rp.next_timer(), Some(Time::from_us(1_704)));
}

/// The profile `connectx`: additive increase after one event, 5 Mbps; hyper increase only after events of both
/// counters.
#[test]
fn connectx_increases_by_timer_and_bytes() {
    let mut flow = Flow::new(&[profile("connectx")]);
    flow.cnp(0);
    flow.timer(4);
    flow.cnp(5);
    flow.timer(8);
    flow.timer(308); // fast recovery
    flow.cnp(309);
    flow.timer(312); // R_T = R_C
    let (target, _) = flow.rates();
    for (bytes, above) in [(32_767, 0), (32_766, 0), (1, 5_000_000), (32_767, 10_000_000)] {
        flow.send(bytes);
        assert_eq!(flow.rates().0, target + above);
    }
    flow.timer(612);
    assert_eq!(flow.rates().0, target + 15_000_000); // the timer's stage is 0
    flow.send(32_767);
    assert_eq!(flow.rates().0, target + 65_000_000);
}

/// The reaction point as in the paper's figure, in which every timer always runs: the alpha timer from the first CNP
/// on, the rate timer and the byte counter from the start.
struct Eager {
    current: u64,
    target: u64,
    alpha: f64,
    alpha_due: Time,
    rate_due: Time,
    bytes: u64,
    stages: [u64; 2],
    timers: u64,
}

const LINE: u64 = 40 * G;

impl Eager {
    fn new() -> Eager {
        let rate_due = Time::from_us(55);
        Eager {
            current: LINE,
            target: LINE,
            alpha: 1.0,
            alpha_due: Time::MAX,
            rate_due,
            bytes: 0,
            stages: [0; 2],
            timers: 0,
        }
    }
    fn cnp(&mut self, now: Time) {
        self.target = self.current;
        self.current = ((self.current as f64 * (1.0 - self.alpha / 2.0) + 0.5) as u64).max(100_000_000);
        self.alpha = (1.0 - 1.0 / 256.0) * self.alpha + 1.0 / 256.0;
        self.alpha_due = now + Time::from_us(55);
        self.rate_due = now + Time::from_us(55);
        self.bytes = 0;
        self.stages = [0; 2];
    }
    fn event(&mut self, stage: usize) {
        let [time, byte] = self.stages;
        let step = match (time.max(byte) < 5, time.min(byte) >= 5) {
            (true, _) => 0,
            (_, false) => 40_000_000,
            _ => 200_000_000 * (time.min(byte) - 5 + 1),
        };
        self.target = (self.target + step).min(LINE);
        self.current = (self.current + self.target).div_ceil(2);
        self.stages[stage] += 1;
    }
    fn send(&mut self, bytes: u64) {
        self.bytes += bytes;
        while self.bytes >= 100_000 {
            self.bytes -= 100_000;
            self.event(1);
        }
    }
    /// Fires all timers that are due before `until`.
    fn run(&mut self, until: Time) {
        while self.alpha_due.min(self.rate_due) < until {
            self.timers += 1;
            if self.alpha_due <= self.rate_due {
                self.alpha *= 1.0 - 1.0 / 256.0;
                self.alpha_due += Time::from_us(55);
            } else {
                self.event(0);
                self.rate_due += Time::from_us(55);
            }
        }
    }
}

/// The sender of the HPCC simulator with all its timers, in steps of 1 us: alpha every 1 us, the check for a reduction
/// every 4 us, both from the first CNP on, and the rate timer.
struct HpccSimulator {
    current: u64,
    target: u64,
    alpha: f64,
    first_cnp: Option<u64>,
    cnp_for_alpha: bool,
    cnp_for_rate: bool,
    rate_due: u64,
    stage: u64,
}

impl HpccSimulator {
    fn new() -> HpccSimulator {
        HpccSimulator {
            current: LINE,
            target: LINE,
            alpha: 1.0,
            first_cnp: None,
            cnp_for_alpha: false,
            cnp_for_rate: false,
            rate_due: u64::MAX,
            stage: 0,
        }
    }
    /// Simulates the instant `us`, at which a CNP arrives or not.
    fn step(&mut self, us: u64, cnp: bool) {
        if self.first_cnp.is_some() {
            let raised = if self.cnp_for_alpha { 1.0 / 256.0 } else { 0.0 };
            self.alpha = (1.0 - 1.0 / 256.0) * self.alpha + raised;
            self.cnp_for_alpha = false;
        }
        if cnp {
            self.cnp_for_alpha = self.first_cnp.is_some();
            self.cnp_for_rate = true;
            self.first_cnp.get_or_insert(us);
        }
        if us == self.rate_due {
            self.rate_due += 300;
            self.target += match self.stage {
                0 => 0,
                1 => LINE / 5_000,
                _ => LINE / 500,
            };
            self.target = self.target.min(LINE);
            self.current = (self.current + self.target).div_ceil(2);
            self.stage += 1;
        }
        let check = self.first_cnp.is_some_and(|first| us > first && (us - first).is_multiple_of(4));
        if check && self.cnp_for_rate {
            if self.stage > 0 {
                self.target = self.current;
            }
            self.current = ((self.current as f64 * (1.0 - self.alpha / 2.0) + 0.5) as u64).max(1_000_000_000);
            self.stage = 0;
            self.rate_due = us + 300;
            self.cnp_for_rate = false;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// The rates of the profile `hpcc-ns3` are bit-identical to those of the simulator's timers.
    #[test]
    fn hpcc_profile_equals_its_simulator(
        waits in prop::collection::vec(prop_oneof![1u64..6, 1u64..40, 280u64..320, 1u64..3_000], 1..100),
    ) {
        let mut flow = Flow::new(&[profile("hpcc-ns3")]);
        let mut simulator = HpccSimulator::new();
        let mut us = 0;
        for wait in waits {
            for idle in us + 1..us + wait {
                simulator.step(idle, false);
            }
            us += wait;
            while let Some(at) = flow.rp.next_timer().filter(|at| *at < Time::from_us(us)) {
                flow.rp.on_timer(&flow.params, at);
            }
            simulator.step(us, true);
            flow.cnp(us);
            while let Some(at) = flow.rp.next_timer().filter(|at| *at <= Time::from_us(us)) {
                flow.rp.on_timer(&flow.params, at);
            }
            prop_assert_eq!(flow.rates(), (simulator.target, simulator.current), "at {} us", us);
            prop_assert_eq!(flow.alpha(us), simulator.alpha);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rates and alpha are bit-identical to those of the model, with far fewer timers.
    #[test]
    fn omitting_timers_does_not_change_results(
        events in prop::collection::vec((0u64..4, prop_oneof![0u64..100, 0u64..5_000], 0u32..4), 1..200),
    ) {
        let mut flow = Flow::new(&[("byte_counter", Value::Bytes(Bytes(100_000)))]);
        let mut eager = Eager::new();
        let (mut now, mut timers) = (Time::ZERO, 0);
        for (tie, wait, kind) in events {
            // Some events coincide with a timer.
            let aligned = flow.rp.next_timer().filter(|at| tie == 0 && *at >= now);
            now = aligned.unwrap_or(now + Time::from_us(wait));
            eager.run(now);
            while let Some(at) = flow.rp.next_timer().filter(|at| *at < now) {
                flow.rp.on_timer(&flow.params, at);
                timers += 1;
            }
            if kind == 0 {
                eager.cnp(now);
                flow.rp.on_cnp(&flow.params, now);
            } else {
                let bytes = kind * 40_000;
                eager.send(u64::from(bytes));
                flow.rp.on_send(&flow.params, now, bytes);
            }
            prop_assert_eq!(flow.rates(), (eager.target, eager.current), "at {}", now);
            prop_assert_eq!(flow.rp.alpha(&flow.params, now), eager.alpha);
        }
        prop_assert!(timers <= eager.timers);
    }
}
