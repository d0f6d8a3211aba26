//! A conformance test for congestion controls. Call [`check`] in a test of your own congestion control:
//!
//! ```
//! use rnic_transport::{conformance, congestion::NoCongestionControl};
//! conformance::check::<NoCongestionControl>().unwrap();
//! ```
//!
//! [`check`] tests an algorithm in three ways:
//!
//! - It validates the algorithm's declaration: names, parameters, defaults ([`check_declaration`]).
//! - It drives the algorithm with long random sequences of events, such as ACKs, losses and CNPs ([`check_events`]).
//! - It checks with every loss recovery that flows complete over a lossy, congested path ([`check_flow`]).
//!
//! It repeats the last two tests, shorter and only with the loss recovery of IRN, with each parameter of the algorithm
//! at its minimum and maximum. All random numbers have fixed seeds, so a failure is reproducible.

use crate::congestion::{
    AckSample, CongestionControl, Kind, LossSignal, Marking, Parameter, Profile, Settings, Value, ceiling,
};
use crate::credit::Pacer;
use crate::recovery::{GoBackN, Irn, Protocol, Tcp};
use crate::telemetry::{HopRecord, Telemetry};
use crate::{
    BitRate, Bytes, FlowConfig, NackPolicy, Pdu, PduKind, Receiver, RxMeta, Sender, TcpConfig, Time, Timeouts,
};
use std::collections::BTreeMap;

/// Runs all conformance tests on the congestion control `C`.
///
/// # Errors
/// The error is one sentence that describes the first violation.
pub fn check<C: CongestionControl>() -> Result<(), String> {
    check_declaration::<C>()?;
    for settings in profiles::<C>()? {
        let of_profile = |error| match settings.profile() {
            Some(profile) => format!("with profile `{}`: {error}", profile.name),
            None => error,
        };
        check_settings::<C>(&settings).map_err(of_profile)?;
    }
    check_bounds::<C>()
}

/// Checks the congestion control `C` with `settings`: by random events, and in flows.
fn check_settings<C: CongestionControl>(settings: &Settings) -> Result<(), String> {
    for (seed, flow) in flows().iter().enumerate() {
        check_events::<C>(settings, flow, seed as u64, 20_000)?;
        for loss in [0, 5, 100] {
            let path = Path { seed: seed as u64, loss };
            check_flow::<Irn, C>(settings, flow, path, 500)?;
            check_flow::<GoBackN, C>(settings, flow, path, 500)?;
            check_flow::<Tcp, C>(settings, flow, path, 500)?;
            if !C::NEEDS_ACKS {
                check_flow::<GoBackN, C>(settings, &FlowConfig { acks: false, ..flow.clone() }, path, 500)?;
            }
        }
    }
    Ok(())
}

/// The flow configurations to test with. They vary every setting of flows that a congestion control may depend on.
fn flows() -> Vec<FlowConfig> {
    let usual = FlowConfig::default();
    vec![
        FlowConfig { line_rate: BitRate::from_gbps(1), base_rtt: Time::from_us(80), bdp: 10, ..usual.clone() },
        FlowConfig { line_rate: BitRate::from_gbps(800), mtu: 4_096, bdp: 600, bdp_cap: 600, ..usual.clone() },
        FlowConfig { max_rate: Some(BitRate::from_gbps(7)), ..usual.clone() },
        FlowConfig { sack: false, nacks: NackPolicy::Every, ..usual.clone() },
        FlowConfig {
            timeouts: usual.timeouts.map(|fixed| Timeouts { dynamic: Some(Time::from_us(200)), ..fixed }),
            tcp: TcpConfig { sack: false, delayed_acks: Some(TcpConfig::DELAYED_ACK), handshake: true, ..usual.tcp },
            ..usual.clone()
        },
        FlowConfig { bdp: 1, bdp_cap: 1, base_rtt: Time::from_us(2), ..usual.clone() },
        usual,
    ]
}

/// Checks the declaration of a congestion control. Names must be unique and consist of lower-case letters, digits,
/// dashes and underscores; descriptions must be one line; defaults must be in range; the default settings, and those of
/// each profile, must be accepted.
///
/// # Errors
/// The error is one sentence that describes the first violation.
pub fn check_declaration<C: CongestionControl>() -> Result<(), String> {
    let name = C::NAME;
    if !is_name(name) {
        return Err(format!(
            "the name `{name}` has characters other than a-z, 0-9, `-` and `_`, or does not begin with a letter"
        ));
    }
    if C::ABOUT.is_empty() || C::ABOUT.contains('\n') {
        return Err(format!("{name}: ABOUT must be one line"));
    }
    let mut settings = Settings::new(C::PARAMETERS);
    for (at, parameter) in C::PARAMETERS.iter().enumerate() {
        let key = parameter.name;
        if !is_name(key) {
            return Err(format!(
                "{name}: the key `{key}` has characters other than a-z, 0-9, `-` and `_`, or does not begin with a letter"
            ));
        }
        if C::PARAMETERS[..at].iter().any(|other| other.name == key) {
            return Err(format!("{name}: two parameters are called `{key}`"));
        }
        if parameter.about.is_empty() || parameter.about.contains('\n') {
            return Err(format!("{name}: the description of `{key}` must be one line"));
        }
        if let Some(default) = parameter.default_value() {
            settings.set(key, default.clone()).map_err(|error| format!("{name}: default of `{key}`: {error}"))?;
        }
    }
    for settings in profiles::<C>()? {
        let with = settings.profile().map_or("defaults".to_string(), |profile| format!("profile `{}`", profile.name));
        for flow in flows() {
            let params = C::params(&settings, &flow).map_err(|error| format!("{name} with {with}: {error}"))?;
            if let Some(marking) = C::marking(&params, &flow)
                && !(marking.kmin <= marking.kmax && (0.0..=1.0).contains(&marking.pmax))
            {
                return Err(format!("{name}: kmin must not exceed kmax, and pmax must be 0 to 1: {marking:?}"));
            }
        }
    }
    Ok(())
}

/// The settings of each profile of a congestion control, and its default settings if it has no profiles.
///
/// # Errors
/// If the names or the values of a profile are not declared. The error is one sentence.
fn profiles<C: CongestionControl>() -> Result<Vec<Settings>, String> {
    let name = C::NAME;
    let Some(selector) = C::PARAMETERS.iter().find(|parameter| !parameter.profiles.is_empty()) else {
        return Ok(vec![Settings::new(C::PARAMETERS)]);
    };
    let names: Vec<&str> = selector.profiles.iter().map(|profile| profile.name).collect();
    if !matches!(selector.kind, Kind::Choice(words) if words == names) {
        return Err(format!("{name}: the words of `{}` must be the names of its profiles: {names:?}", selector.name));
    }
    let select = |profile: &Profile| {
        let mut settings = Settings::new(C::PARAMETERS);
        for (key, value) in profile.values {
            let known = C::PARAMETERS.iter().any(|parameter| parameter.name == *key && parameter.name != selector.name);
            if !known {
                return Err(format!("{name}: profile `{}` has `{key}`, which is no parameter", profile.name));
            }
            if let Some(value) = value {
                let set = settings.set(key, Value::from(*value));
                set.map_err(|error| format!("{name}: profile `{}`: {error}", profile.name))?;
            }
        }
        let mut settings = Settings::new(C::PARAMETERS);
        settings.set(selector.name, Value::choice(profile.name))?;
        Ok(settings)
    };
    selector.profiles.iter().map(select).collect()
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
}

/// Checks a congestion control with each of its parameters at its bounds and the others at their defaults. It may
/// refuse a value, but must conform with every value that it accepts.
fn check_bounds<C: CongestionControl>() -> Result<(), String> {
    let flow = FlowConfig::default();
    for parameter in C::PARAMETERS {
        for value in extremes(parameter).into_iter().flatten() {
            let mut settings = Settings::new(C::PARAMETERS);
            let fits = settings.set(parameter.name, value.clone()).is_ok();
            if !fits || C::params(&settings, &flow).is_err() {
                continue;
            }
            let with = |error| format!("with `{}` = {value}: {error}", parameter.name);
            check_events::<C>(&settings, &flow, 1, 5_000).map_err(with)?;
            check_flow::<Irn, C>(&settings, &flow, Path { seed: 1, loss: 10 }, 200).map_err(with)?;
        }
    }
    Ok(())
}

/// Two extreme values of a parameter to test with: its minimum and maximum, or a quarter of its default and four times
/// its default if its kind has no bounds.
fn extremes(parameter: &Parameter) -> [Option<Value>; 2] {
    match (parameter.kind, parameter.default_value()) {
        (Kind::Number { min, max }, _) => [Some(Value::Number(min)), Some(Value::Number(max))],
        (Kind::Count { min, max }, _) => [Some(Value::Count(min)), Some(Value::Count(max))],
        (Kind::Flag, _) => [Some(Value::Flag(false)), Some(Value::Flag(true))],
        (_, Some(Value::Rate(rate))) => {
            [rate.as_bps() / 4, rate.as_bps() * 4].map(|bps| Some(Value::Rate(BitRate::from_bps(bps))))
        }
        (_, Some(Value::Time(time))) => {
            [time.as_ps() / 4, time.as_ps() * 4].map(|ps| Some(Value::Time(Time::from_ps(ps))))
        }
        (_, Some(Value::Bytes(bytes))) => [bytes.0 / 4, bytes.0 * 4].map(|bytes| Some(Value::Bytes(Bytes(bytes)))),
        _ => [None, None],
    }
}

/// A small, fast and portable random number generator (SplitMix64).
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
    fn chance(&mut self, per_thousand: u32) -> bool {
        self.below(1_000) < u64::from(per_thousand)
    }
}

/// Drives two instances of a congestion control with the same random events, and compares them after each event: they
/// must not differ.
///
/// A [`step`](Driver::step) is one event after a random time: a packet is sent, an ACK or NACK arrives (with telemetry
/// records), a congestion notification arrives, or a loss is detected. Congested periods alternate with periods without
/// congestion. Timers that are due before the event fire first, sometimes late. The `Driver` does not allocate memory,
/// so a test can check that the congestion control does not allocate either.
///
/// ```
/// use rnic_transport::FlowConfig;
/// use rnic_transport::congestion::{CongestionControl, Dcqcn, Settings};
/// use rnic_transport::conformance::Driver;
///
/// let settings = Settings::new(Dcqcn::PARAMETERS);
/// let mut driver = Driver::<Dcqcn>::new(&settings, &FlowConfig::default(), 1)?;
/// for _ in 0..1_000 {
///     driver.step()?;
/// }
/// assert!(driver.fired() > 0, "the rate timer fired");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Driver<C: CongestionControl> {
    flow: FlowConfig,
    params: [C::Params; 2],
    controls: [C; 2],
    random: Random,
    now: Time,
    /// Number of packets of the driven flow that are sent and not acknowledged.
    in_flight: u32,
    /// Number of events so far.
    steps: u32,
    /// Whether the simulated network is congested: then events are more frequent, and more of them signal congestion.
    congested: bool,
    /// Number of times that the congestion control's timer has fired so far.
    fired: u64,
}

impl<C: CongestionControl> Driver<C> {
    /// Begins two flows with the same parameters; `seed` determines all random events.
    ///
    /// # Errors
    /// The error of [`CongestionControl::params`], or one sentence that describes a violation by a new flow.
    pub fn new(settings: &Settings, flow: &FlowConfig, seed: u64) -> Result<Driver<C>, String> {
        let now = Time::from_us(seed % 1_000);
        let params = [C::params(settings, flow)?, C::params(settings, flow)?];
        let controls = [C::new(&params[0], flow, now), C::new(&params[1], flow, now)];
        let flow = flow.clone();
        let driver = Driver {
            flow,
            params,
            controls,
            random: Random(seed),
            now,
            in_flight: 0,
            steps: 0,
            congested: false,
            fired: 0,
        };
        driver.check()?;
        Ok(driver)
    }

    /// The simulated time of the last event.
    pub fn now(&self) -> Time {
        self.now
    }
    /// The congestion control of the first flow.
    pub fn control(&self) -> &C {
        &self.controls[0]
    }
    /// Number of times that the timer of each flow's congestion control has fired so far.
    pub fn fired(&self) -> u64 {
        self.fired
    }

    /// Passes the next random event to both congestion controls and checks their states.
    ///
    /// # Errors
    /// The error is one sentence that describes the violation.
    pub fn step(&mut self) -> Result<(), String> {
        if self.steps.is_multiple_of(256) {
            self.congested = self.random.chance(500);
        }
        self.steps += 1;
        // Maximum time to the next event, in picoseconds: at most 60 us with congestion, and 2 ms without; rarely 200
        // ms.
        let span = [0, 300_000, 300_000, 3_000_000, 3_000_000, 60_000_000, 2_000_000_000];
        let span = span[self.random.below(if self.congested { 6 } else { 7 }) as usize];
        let span = if !self.congested && self.random.chance(2) { 200_000_000_000 } else { span };
        let at = self.now + Time::from_ps(self.random.below(span + 1));
        self.timers(at)?;
        self.now = at;
        let signals = if self.congested { 15 } else { 2 };
        match self.random.below(80 + 2 * signals) {
            0..40 => {
                let bytes = self.flow.header + 1 + self.random.below(u64::from(self.flow.mtu)) as u32;
                self.in_flight += 1;
                self.each(|control, params| control.on_send(params, at, bytes));
            }
            40..80 => {
                let acked = self.random.below(u64::from(self.in_flight.min(40)) + 1) as u32;
                self.in_flight -= acked;
                let max_queued = if self.congested { 1_000 } else { 10 };
                let rtt = self.flow.base_rtt + Time::from_us(self.random.below(max_queued));
                let marked = self.random.chance(if self.congested { 500 } else { 10 });
                let sample = AckSample { now: at, rtt, acked, in_flight: self.in_flight, marked };
                let telemetry = self.telemetry();
                self.each(|control, params| control.on_telemetry(params, at, &telemetry));
                self.each(|control, params| control.on_ack(params, &sample));
            }
            event if event < 80 + signals => self.each(|control, params| control.on_cnp(params, at)),
            _ => {
                let signal = if self.random.chance(500) { LossSignal::Nack } else { LossSignal::Timeout };
                self.each(|control, params| control.on_loss(params, at, signal));
            }
        }
        self.check()
    }

    /// Random telemetry records of a path of three hops, rarely of another number of hops or with arbitrary values.
    fn telemetry(&mut self) -> Telemetry {
        let mut telemetry = Telemetry::default();
        let hops = if self.random.chance(990) { 3 } else { self.random.below(Telemetry::MAX_HOPS as u64 + 2) };
        let max_queued = if self.congested { 1 << 20 } else { 1 << 12 };
        for _ in 0..hops {
            let wild = self.random.chance(10);
            telemetry.push(HopRecord {
                timestamp_ns: if wild { self.random.next() as u32 } else { (self.now.as_ps() / 1_000) as u32 },
                tx_bytes: if wild { self.random.next() as u32 } else { (self.now.as_ps() >> 8) as u32 },
                queue_bytes: self.random.below(max_queued) as u32,
                rate_mbps: if wild { 0 } else { (self.flow.line_rate.as_bps() / 1_000_000) as u32 },
            });
        }
        telemetry
    }

    /// Fires the congestion control's timers that are due at or before `until`.
    fn timers(&mut self, until: Time) -> Result<(), String> {
        let began = self.now;
        let mut fired = 0;
        while let Some(due) = self.controls[0].next_timer().filter(|due| *due <= until) {
            let late = self.random.chance(50);
            self.now = if late { until } else { due };
            let now = self.now;
            self.each(|control, params| control.on_timer(params, now));
            self.check()?;
            if self.controls[0].next_timer().is_some_and(|next| next <= now) {
                return Err(format!(
                    "{}: after the timer fired at {now}, next_timer returns a time that is not later",
                    C::NAME
                ));
            }
            fired += 1;
            let max = 10 + (until - began).as_ps() / Time::from_us(1).as_ps();
            if fired > max {
                return Err(format!(
                    "{}: {fired} timers fired between {began} and {now}; at most {max} are allowed",
                    C::NAME
                ));
            }
        }
        self.fired += fired;
        Ok(())
    }

    fn each(&mut self, mut event: impl FnMut(&mut C, &C::Params)) {
        for (control, params) in self.controls.iter_mut().zip(&self.params) {
            event(control, params);
        }
    }

    fn check(&self) -> Result<(), String> {
        let [control, twin] = &self.controls;
        let (name, now) = (C::NAME, self.now);
        let (rate, line) = (control.rate(), ceiling(&self.flow));
        if rate.as_bps() == 0 {
            return Err(format!("{name}: the rate is zero at {now}"));
        }
        if C::PACED && rate > line {
            return Err(format!("{name}: the rate is {rate} at {now}, above the flow's maximum of {line}"));
        }
        if !C::PACED && rate < line {
            return Err(format!(
                "{name}: PACED is false, but the rate is {rate} at {now}, below the maximum of {line}"
            ));
        }
        if control.window() == 0 {
            return Err(format!("{name}: the window is zero at {now}"));
        }
        if control.next_timer().is_some_and(|next| next < now) {
            return Err(format!("{name}: at {now} next_timer returns a time in the past"));
        }
        if (rate, control.window(), control.next_timer()) != (twin.rate(), twin.window(), twin.next_timer()) {
            return Err(format!("{name}: two flows with the same events have different states at {now}"));
        }
        Ok(())
    }
}

/// Checks a congestion control with `steps` random events. The rate must be above zero and not above the flow's
/// maximum, and the window at least one packet. The congestion control's timer must not be set to a time in the past,
/// nor fire more than about once per microsecond. The same events must lead to the same state.
///
/// # Errors
/// The error is one sentence that describes the first violation.
pub fn check_events<C: CongestionControl>(
    settings: &Settings, flow: &FlowConfig, seed: u64, steps: u32,
) -> Result<(), String> {
    let mut driver = Driver::<C>::new(settings, flow, seed)?;
    (0..steps).try_for_each(|_| driver.step()).map_err(|error| format!("{error} (seed {seed})"))
}

/// The random packet losses on the path of [`check_flow`].
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Seed of the random losses and marks.
    pub seed: u64,
    /// Loss probability of a packet in each direction, in thousandths.
    pub loss: u32,
}

/// Sends a flow of `packets` full packets over a path with random losses, and returns its completion time.
///
/// The second link of the path has half the rate of the first. The buffer between the links holds 100 packets. The
/// buffer CE-marks packets with the congestion control's default thresholds, or every queued packet if the congestion
/// control has no thresholds. The flow must complete within 1 s plus 2 ms per packet.
///
/// # Errors
/// The error is one sentence that says why the flow did not complete.
pub fn check_flow<P: Protocol, C: CongestionControl>(
    settings: &Settings, flow: &FlowConfig, path: Path, packets: u32,
) -> Result<Time, String> {
    let params = C::params(settings, flow)?;
    let cfg = FlowConfig { cnp_interval: C::cnp_interval(&params), ..flow.clone() };
    let bytes = u64::from(packets) * u64::from(cfg.mtu);
    let packet = cfg.line_rate.time_for(u64::from(cfg.mtu + cfg.header));
    let mut pipe = Pipe::<P, C> {
        sender: Sender::new(&cfg, &params, bytes, Time::ZERO),
        receiver: Receiver::new(&cfg, bytes, Time::ZERO),
        marking: C::marking(&params, &cfg).unwrap_or(Marking { kmin: Bytes(0), kmax: Bytes(0), pmax: 1.0 }),
        path,
        random: Random(path.seed),
        now: Time::ZERO,
        wire_free: Time::ZERO,
        slow_free: Time::ZERO,
        pacer: C::credit(&params).map(|credit| Pacer::new(&credit, packet * 2)),
        flying: BTreeMap::new(),
        order: 0,
        packet,
        cfg,
        params,
    };
    let limit = Time::from_ms(1_000) + Time::from_ms(2) * u64::from(packets);
    pipe.request();
    while !pipe.is_over() {
        let next = pipe.next_event();
        if next.is_none_or(|at| at > limit) {
            let why = if next.is_none() { "no event is pending" } else { "the time limit has passed" };
            return Err(format!(
                "{}: a flow of {packets} packets over {path:?} did not complete, {} packets in flight: {why} ({flow:?})",
                C::NAME,
                pipe.sender.in_flight(),
            ));
        }
        pipe.step(next.unwrap_or_default());
    }
    Ok(pipe.now)
}

/// The simulation of [`check_flow`]: sender and receiver of a flow, and the packets in flight between them.
struct Pipe<P: Protocol, C: CongestionControl> {
    cfg: FlowConfig,
    params: C::Params,
    sender: Sender<P, C>,
    receiver: Receiver<P>,
    marking: Marking,
    path: Path,
    random: Random,
    now: Time,
    /// Transmission time of a full packet on the first link; on the second link it is twice as long.
    packet: Time,
    /// Time at which the first link becomes idle.
    wire_free: Time,
    /// Time at which the second, slower link becomes idle.
    slow_free: Time,
    /// The packets in flight, sorted by arrival time and order of departure. The flag says whether a packet is
    /// CE-marked.
    flying: BTreeMap<(Time, u64), (Pdu, bool)>,
    order: u64,
    /// What grants credit at the receiver, at the rate of the second link.
    pacer: Option<Pacer>,
}

impl<P: Protocol, C: CongestionControl> Pipe<P, C> {
    fn is_over(&self) -> bool {
        let knows = !P::sender_learns_completion(&self.cfg) || self.sender.is_complete();
        self.receiver.is_complete() && knows
    }

    fn transmit_at(&self) -> Option<Time> {
        Some(self.sender.next_transmit(&self.cfg)?.max(self.wire_free))
    }

    fn next_event(&self) -> Option<Time> {
        let events = [
            self.flying.first_key_value().map(|((at, _), _)| *at),
            self.sender.deadline(&self.cfg).map(|(at, _)| at),
            self.receiver.deadline(&self.cfg),
            self.transmit_at(),
            self.pacer.as_ref().and_then(Pacer::next),
        ];
        Some(events.into_iter().flatten().min()?.max(self.now))
    }

    /// Processes the events of one instant: arrivals first, then timers, then transmission.
    fn step(&mut self, at: Time) {
        self.now = at;
        while let Some(next) = self.flying.first_entry().filter(|next| next.key().0 <= at) {
            let (pdu, marked) = next.remove();
            if let Some(pacer) = self.pacer.as_mut().filter(|_| pdu.kind() == PduKind::Data) {
                let total = pacer.ask(0, pdu.credit());
                if pdu.is_credit() {
                    self.reply(Pdu::credit_grant(total));
                    continue;
                }
            }
            if pdu.kind() == PduKind::Data {
                let outcome = self.receiver.handle(&self.cfg, at, pdu, RxMeta { marked, ..RxMeta::default() });
                if outcome.notify {
                    self.reply(Pdu::cnp());
                }
                if let Some(reply) = outcome.reply {
                    self.reply(reply);
                }
            } else {
                self.sender.handle(&self.cfg, &self.params, at, pdu);
            }
        }
        self.sender.on_deadline(&self.cfg, &self.params, at);
        if let Some(nack) = self.receiver.on_deadline(&self.cfg, at) {
            self.reply(nack);
        }
        if let Some(grant) = self.pacer.as_mut().and_then(|pacer| pacer.grant(at)) {
            self.reply(Pdu::credit_grant(grant.total));
        }
        self.request();
        if self.transmit_at().is_some_and(|free| free <= at) {
            self.transmit();
        }
    }

    fn transmit(&mut self) {
        let Some(tx) = self.sender.poll_transmit(&self.cfg, &self.params, self.now) else { return };
        self.wire_free = self.now + self.packet;
        let service = self.packet * 2;
        let queued = self.slow_free.saturating_sub(self.wire_free).as_ps() / service.as_ps();
        if queued >= 100 || self.random.chance(self.path.loss) {
            return;
        }
        let marked = self.marks(queued * u64::from(self.cfg.mtu + self.cfg.header));
        self.slow_free = self.slow_free.max(self.wire_free) + service;
        self.launch(self.slow_free + self.cfg.base_rtt.scale(0.5), tx.pdu, marked);
    }

    /// Lets the flow ask for credit if no data packet can.
    fn request(&mut self) {
        if let Some(request) = self.sender.credit_request(&self.cfg, &self.params, self.now)
            && !self.random.chance(self.path.loss)
        {
            self.launch(self.now + self.cfg.base_rtt.scale(0.5), request, false);
        }
    }

    fn marks(&mut self, queue: u64) -> bool {
        let Marking { kmin, kmax, pmax } = self.marking;
        if queue <= kmin.0 || queue > kmax.0 {
            return queue > kmax.0;
        }
        let probability = pmax * (queue - kmin.0) as f64 / (kmax.0 - kmin.0) as f64;
        (self.random.below(1_000_000) as f64) < probability * 1e6
    }

    fn reply(&mut self, pdu: Pdu) {
        if !self.random.chance(self.path.loss) {
            self.launch(self.now + self.cfg.base_rtt.scale(0.5), pdu, false);
        }
    }

    fn launch(&mut self, at: Time, pdu: Pdu, marked: bool) {
        self.order += 1;
        self.flying.insert((at, self.order), (pdu, marked));
    }
}
