//! The plan of `rnic perf`: all settings of its measurements, their limits and their checks.

use super::PerfError;
use super::live::Live;
use crate::Op;
use rnic_endpoint::config::{Mode, Security};
use rnic_endpoint::exchange::Credentials;
use rnic_endpoint::host::{Control, PathPolicy};
use rnic_endpoint::port::{CaptureFile, CorruptionKind, Faults, Probability};
use rnic_transport::congestion::{CongestionControl, RogueDelay, Settings};
use rnic_transport::registry::{Visitor, visit_congestion_controls};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Congestion, Service};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Default TCP port of the control connection; perftest uses the same port.
pub const DEFAULT_PORT: u16 = 18_515;

/// Message sizes of the option `--all`, as exponents of two: 2 B to 8 MiB, the same as in perftest.
pub const SIZES: std::ops::RangeInclusive<u32> = 1..=23;

/// Number of messages, or duration, of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// This number of messages on each queue pair.
    Messages(u64),
    /// As many messages as possible within this time.
    Duration(Time),
}

/// Fault injection into the packets that the client and the server receive. Each field except `corrupt_kind` and `seed`
/// is a share of the packets in percent, 0 to 100.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FaultPlan {
    /// Percentage of packets dropped.
    pub loss: f64,
    /// Percentage of packets delivered after packets that were sent later.
    pub reorder: f64,
    /// Percentage of packets delivered twice.
    pub duplicate: f64,
    /// Percentage of packets delivered corrupted.
    pub corrupt: f64,
    /// Kind of corruption of corrupted packets.
    pub corrupt_kind: CorruptionKind,
    /// Seed of the random numbers that select the packets with faults.
    pub seed: u64,
}

impl FaultPlan {
    /// Maximum number of later packets that overtake a reordered packet.
    pub(super) const DEPTH: u32 = 16;

    /// Whether there are no faults.
    pub fn is_none(&self) -> bool {
        [self.loss, self.reorder, self.duplicate, self.corrupt] == [0.0; 4]
    }

    pub(super) fn faults(&self) -> Result<Faults, PlanError> {
        let percent = |name, value: f64| {
            Probability::new(value / 100.0)
                .map_err(|_| PlanError(format!("{name} is {value}; it must be a percentage, 0 to 100")))
        };
        Ok(Faults {
            loss: percent("loss", self.loss)?,
            reordering: percent("reorder", self.reorder)?,
            reordering_depth: FaultPlan::DEPTH,
            duplication: percent("duplicate", self.duplicate)?,
            corruption: percent("corrupt", self.corrupt)?,
            corruption_kind: self.corrupt_kind,
            ..Faults::default()
        })
    }
}

/// The carrier of the messages of a measurement: queue pairs, or channels of a host transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// Queue pairs of this transport service.
    QueuePairs(Service),
    /// Channels of a host transport above queue pairs.
    Channels(HostTransport),
}

impl From<Service> for Carrier {
    fn from(service: Service) -> Carrier {
        Carrier::QueuePairs(service)
    }
}

impl Carrier {
    /// The name on the command line: `rc`, `irn`, `uc`, `rogue` or `multipath`.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::QueuePairs(service) => service.name(),
            Carrier::Channels(kind) => kind.name(),
        }
    }

    fn is_unreliable(self) -> bool {
        self == Service::Uc.into()
    }
}

/// A transport in host software ([`rnic_endpoint::host`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostTransport {
    /// RoGUE.
    Rogue,
    /// Multipath, over unreliable connections.
    Multipath,
}

impl HostTransport {
    /// All host transports.
    pub const ALL: [HostTransport; 2] = [HostTransport::Rogue, HostTransport::Multipath];

    /// `rogue` or `multipath`.
    pub const fn name(self) -> &'static str {
        match self {
            HostTransport::Rogue => "rogue",
            HostTransport::Multipath => "multipath",
        }
    }

    /// The host transport with this name.
    pub fn named(name: &str) -> Option<HostTransport> {
        HostTransport::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Settings of the channels of a host transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ChannelPlan {
    /// Bytes of a chunk. The default (`None`) is 65,536 for RoGUE and 32,768 for multipath.
    pub chunk: Option<u32>,
    /// RoGUE: the service of the queue pairs below. The default (`None`) is [`ChannelService::Rc`].
    pub over: Option<ChannelService>,
    /// Multipath: number of paths, 1 to 256. The default (`None`) is [`ChannelPlan::PATHS`].
    pub paths: Option<u32>,
    /// Multipath: the algorithm that selects the path of a chunk. The default (`None`) is
    /// [`PathSelection::PowerOfTwo`].
    pub select: Option<PathSelection>,
    /// Multipath: whether the receiver grants credit, at the rate of its link.
    pub credit: bool,
    /// Multipath: whether chunks are ECN-capable, so that switches can CE-mark them for a congestion control such as
    /// `dctcp`.
    pub marks: bool,
    /// Multipath: whether one queue pair in each direction sends the chunks of all paths. Each chunk then has its own
    /// entropy.
    pub spread: bool,
}

impl ChannelPlan {
    /// Default number of paths.
    pub const PATHS: u32 = 32;
}

/// The service of the queue pairs below a RoGUE channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum ChannelService {
    /// Reliable connection with go-back-N, as every RoCE NIC has it
    #[default]
    Rc,
    /// Reliable connection with selective retransmission (IRN)
    Irn,
    /// Unreliable connection: the layer acknowledges chunks and recovers all losses; Writes only
    Uc,
}

impl From<ChannelService> for Service {
    fn from(service: ChannelService) -> Service {
        match service {
            ChannelService::Rc => Service::Rc,
            ChannelService::Irn => Service::Irn,
            ChannelService::Uc => Service::Uc,
        }
    }
}

/// Which path a chunk of a multipath channel takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum PathSelection {
    /// The one with the shorter round-trip time of two random paths.
    // The peers of a measurement exchange this name, and those of earlier versions know the old one only.
    #[default]
    #[serde(rename = "two-choices")]
    #[cfg_attr(feature = "clap", value(alias = "two-choices"))]
    PowerOfTwo,
    /// One after the other.
    RoundRobin,
    /// Always the first one.
    Single,
}

impl PathSelection {
    pub(super) fn policy(self) -> PathPolicy {
        match self {
            PathSelection::PowerOfTwo => PathPolicy::PowerOfTwo,
            PathSelection::RoundRobin => PathPolicy::RoundRobin,
            PathSelection::Single => PathPolicy::Single,
        }
    }
}

/// An error in a plan, described in one sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(super) String);

/// The plan of a measurement: what the client and the server do.
///
/// ```
/// use rnic_perf::{FaultPlan, Op, Plan};
///
/// let faults = FaultPlan { loss: 1.0, ..FaultPlan::default() };
/// let plan = Plan { op: Op::Read, sizes: vec![65_536], verify: true, faults, ..Plan::default() };
/// assert!(plan.check().is_ok());
/// let too_many = Plan { queue_pairs: 70_000, ..Plan::default() };
/// assert_eq!(too_many.check().unwrap_err().to_string(), "70000 queue pairs are too many: at most 1024");
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    /// The operation to measure.
    pub op: Op,
    /// Whether to measure latency, with one message at a time. Otherwise bandwidth is measured.
    pub latency: bool,
    /// Message sizes in bytes, 1 to 2^30. Each size is one measurement.
    pub sizes: Vec<u32>,
    /// Number of messages, or duration, of each measurement.
    pub amount: Amount,
    /// Number of queue pairs, 1 to 1024.
    pub queue_pairs: u32,
    /// Maximum outstanding messages on each queue pair, 1 to 16384.
    pub depth: u32,
    /// Path MTU in payload bytes. The default (`None`) is the maximum that the path between the hosts and the transport
    /// service support.
    pub mtu: Option<u32>,
    /// The carrier of the messages: a transport service of queue pairs, or a host transport.
    pub service: Carrier,
    /// Chunks and paths of a host transport.
    pub channel: ChannelPlan,
    /// Name of the congestion control, such as `none` or `dcqcn`. With a host transport it is the congestion control of
    /// the channels, for example `rogue`.
    pub congestion: String,
    /// Names and values of the parameters of the congestion control that differ from their defaults.
    pub settings: Vec<(String, String)>,
    /// Rate of the link, which is the initial rate of rate-based congestion controls. With `None` it is the device's
    /// default.
    pub line_rate: Option<BitRate>,
    /// Maximum packets in flight on each queue pair. With `None` it is the device's default.
    pub in_flight: Option<u32>,
    /// Whether the receiver compares every received byte with the byte that was sent.
    pub verify: bool,
    /// Faults that are injected into the packets that the client and the server receive.
    pub faults: FaultPlan,
    /// The thread that sends and receives packets, at both ends: a progress thread, or the thread that measures.
    pub mode: Mode,
    /// UDP port of the client's device; 0 stands for any free port.
    pub roce_port: u16,
    /// Time without a response after which either end aborts the connection, 1 ms to 1 day. With `None` it is 5 s
    /// ([`GIVE_UP_AFTER`]), with a host transport 10 s ([`CHANNEL_GIVE_UP_AFTER`]). UC has no such timeout.
    pub give_up_after: Option<Time>,
    /// How packets are protected.
    pub security: Security,
    /// The credentials for TLS, with which the client authenticates to the server. With `None` the control connection
    /// is plain TCP.
    pub credentials: Option<Credentials>,
    /// The observer of the measurement, which also changes the faults of the client's device.
    pub live: Option<Arc<Live>>,
    /// The file into which the packets that the client sends and receives are captured.
    pub capture: Option<CaptureFile>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            op: Op::Write,
            latency: false,
            sizes: vec![65_536],
            amount: Amount::Messages(5_000),
            queue_pairs: 1,
            depth: 128,
            mtu: None,
            service: Service::Irn.into(),
            channel: ChannelPlan::default(),
            congestion: "none".to_string(),
            settings: Vec::new(),
            line_rate: None,
            in_flight: None,
            verify: false,
            faults: FaultPlan::default(),
            mode: Mode::Polled,
            roce_port: rnic_endpoint::port::ROCE_PORT,
            give_up_after: None,
            security: Security::default(),
            credentials: None,
            live: None,
            capture: None,
        }
    }
}

/// Default of [`Plan::give_up_after`].
pub const GIVE_UP_AFTER: Time = Time::from_ms(5_000);
/// Default of [`Plan::give_up_after`] with a host transport. It is longer, because a channel must survive a peer that
/// stops for 5 s.
pub const CHANNEL_GIVE_UP_AFTER: Time = Time::from_ms(10_000);

/// Maximum number of queue pairs of a plan.
pub(super) const MAX_QUEUE_PAIRS: u32 = 1_024;
/// Maximum number of channels of a host transport in a plan. It is low, because each channel has a thread.
pub(super) const MAX_CHANNELS: u32 = 64;
/// Maximum number of paths of all channels of a plan together.
pub(super) const MAX_PATHS: u64 = 2_048;
/// Maximum number of outstanding messages on a queue pair.
pub(super) const MAX_DEPTH: u32 = 16_384;
/// Maximum message size in bytes.
pub(super) const MAX_SIZE: u32 = 1 << 30;
/// Maximum bytes of registered memory at each end.
pub(super) const MAX_MEMORY: u64 = 2 << 30;
/// Maximum bytes of message slots at each end in a plan with verification, unless a single message needs more.
const SLOT_MEMORY: u64 = 128 << 20;

/// Returns the error text for a `count` of objects `what` that is 0 or more than `max`.
pub(super) fn too_many(count: u64, what: &str, max: u64) -> String {
    match count {
        0 => format!("0 {what} are too few: at least 1"),
        _ => format!("{count} {what} are too many: at most {max}"),
    }
}

impl Plan {
    /// Checks whether the settings of the plan are valid.
    ///
    /// # Errors
    /// [`PerfError::Plan`] for the first setting that is invalid.
    pub fn check(&self) -> Result<(), PerfError> {
        let wrong = |why: String| Err(PlanError(why).into());
        if self.sizes.is_empty() || self.sizes.iter().any(|size| !(1..=MAX_SIZE).contains(size)) {
            return wrong("a size must be 1 B to 1 GiB".to_string());
        }
        if self.op.is_atomic() && self.sizes != [8] {
            return wrong(format!("{} works on 8 bytes; leave out the size", self.op.name()));
        }
        if !(1..=MAX_QUEUE_PAIRS).contains(&self.queue_pairs) {
            return wrong(too_many(self.queue_pairs.into(), "queue pairs", MAX_QUEUE_PAIRS.into()));
        }
        if self.latency && self.queue_pairs > 1 {
            return wrong("latency is measured on one queue pair; leave out one of the two options".to_string());
        }
        if self.latency && self.verify {
            return wrong("verification goes with bandwidth; leave out one of the two".to_string());
        }
        if !(1..=MAX_DEPTH).contains(&self.depth) {
            return wrong(too_many(self.depth.into(), "outstanding messages on a queue pair", MAX_DEPTH.into()));
        }
        match self.amount {
            Amount::Messages(0) => return wrong("a measurement needs at least 1 message".to_string()),
            Amount::Duration(time) if time == Time::ZERO => {
                return wrong("a measurement needs more than 0 s".to_string());
            }
            _ => {}
        }
        self.check_channel()?;
        if self.service.is_unreliable() {
            if self.op.is_fetching() {
                return wrong(format!("an unreliable connection (uc) has no {}; use write or send", self.op.name()));
            }
            if self.verify {
                return wrong(
                    "an unreliable connection (uc) may lose messages, so that they cannot be verified; use rc or irn"
                        .to_string(),
                );
            }
        }
        if self.memory() > MAX_MEMORY {
            return wrong(format!(
                "{} queue pairs with messages of {} bytes need more than 2 GiB of memory; use fewer or smaller ones",
                self.queue_pairs,
                self.longest()
            ));
        }
        if let Some(time) = self.give_up_after {
            if self.service.is_unreliable() {
                return wrong(
                    "an unreliable connection (uc) gets no responses, so it has no timeout; omit the time, or use rc or irn"
                        .to_string(),
                );
            }
            if !(Time::from_ms(1)..=Time::from_ms(86_400_000)).contains(&time) {
                return wrong(format!("giving up after {time} is not possible; a time must be 1 ms to 1 day"));
            }
        }
        self.congestion()?;
        self.faults.faults()?;
        Ok(())
    }

    /// Checks the settings of a host transport. Without a host transport, none of these settings may be present.
    fn check_channel(&self) -> Result<(), PlanError> {
        let wrong = |why: String| Err(PlanError(why));
        let Carrier::Channels(kind) = self.service else {
            if self.channel != ChannelPlan::default() {
                let name = self.service.name();
                return wrong(format!(
                    "{name} has neither chunks nor paths; they go with the services rogue and multipath"
                ));
            }
            return Ok(());
        };
        if kind == HostTransport::Rogue && (self.channel.paths.is_some() || self.channel.select.is_some()) {
            return wrong("rogue has one path; several go with the service multipath".to_string());
        }
        let ChannelPlan { credit, marks, spread, .. } = self.channel;
        if kind == HostTransport::Rogue && (credit || marks || spread) {
            return wrong(
                "rogue has neither credit nor marks nor spread; they go with the service multipath".to_string(),
            );
        }
        if kind == HostTransport::Multipath && self.channel.over.is_some() {
            return wrong("multipath uses unreliable connections; --over goes with the service rogue".to_string());
        }
        if self.channel.over == Some(ChannelService::Uc) && self.op != Op::Write {
            let name = self.op.name();
            return wrong(format!("rogue over uc has no {name}; use write, or leave out --over uc"));
        }
        if kind == HostTransport::Multipath && (self.op.is_fetching()) {
            let name = self.op.name();
            return wrong(format!("a multipath channel has no {name}; use write or send, or the service rogue"));
        }
        if self.mode == Mode::Polled {
            return wrong(format!("{} needs progress threads on both sides (--thread)", kind.name()));
        }
        if self.in_flight.is_some() {
            let why =
                "the packets in flight of a host transport follow from its congestion control; leave out the limit";
            return wrong(why.to_string());
        }
        if self.queue_pairs > MAX_CHANNELS {
            return wrong(too_many(self.queue_pairs.into(), "channels", MAX_CHANNELS.into()));
        }
        let paths = self.channel.paths.unwrap_or(ChannelPlan::PATHS);
        if kind == HostTransport::Multipath && u64::from(paths) * u64::from(self.queue_pairs) > MAX_PATHS {
            return wrong(format!(
                "{} channels with {paths} paths are too many: at most {MAX_PATHS} paths together",
                self.queue_pairs
            ));
        }
        Ok(())
    }

    /// [`Plan::give_up_after`], or its default.
    pub(super) fn timeout(&self) -> Time {
        let usual = match self.service {
            Carrier::QueuePairs(_) => GIVE_UP_AFTER,
            Carrier::Channels(_) => CHANNEL_GIVE_UP_AFTER,
        };
        self.give_up_after.unwrap_or(usual)
    }

    pub(super) fn longest(&self) -> u32 {
        self.sizes.iter().copied().max().unwrap_or(1)
    }

    /// Distance in bytes between the starts of two message slots: the largest message size, rounded up to 64.
    pub(super) fn stride(&self) -> u32 {
        self.longest().next_multiple_of(64)
    }

    /// Number of message slots (places of one message) in the memory of each queue pair. Without verification all
    /// messages share one slot. With verification each outstanding message has its own slot, as far as the memory limit
    /// permits. A measurement of latency needs one slot to send from and one to receive into.
    pub(super) fn slots(&self) -> u32 {
        if self.latency {
            return 2;
        }
        if !self.verify {
            return 1;
        }
        let fitting = SLOT_MEMORY / u64::from(self.stride()) / u64::from(self.queue_pairs);
        (self.depth).min(fitting.max(1) as u32)
    }

    fn memory(&self) -> u64 {
        u64::from(self.queue_pairs) * u64::from(self.slots()) * u64::from(self.stride())
    }

    /// Checks the congestion control.
    fn congestion(&self) -> Result<(), PlanError> {
        match self.service {
            Carrier::QueuePairs(_) => congestion(&self.congestion, &self.settings).map(|_| ()),
            Carrier::Channels(_) => control(&self.congestion, &self.settings).map(|_| ()),
        }
    }
}

/// Finds the congestion control called `name`, and applies `settings` to its parameters.
pub(super) fn congestion(name: &str, settings: &[(String, String)]) -> Result<Congestion, PlanError> {
    struct Make;
    impl Made for Make {
        type Result = Congestion;
        fn of<C: CongestionControl>(settings: Settings) -> Congestion {
            Congestion::of::<C>(settings)
        }
    }
    let mut find = Find::<Make> { name, settings, names: Vec::new(), found: None };
    visit_congestion_controls(&mut find);
    find.found()
}

/// Finds the congestion control of a channel like [`congestion`]: one of the congestion controls of queue pairs, or
/// RoGUE's own.
pub(super) fn control(name: &str, settings: &[(String, String)]) -> Result<Control, PlanError> {
    struct Make;
    impl Made for Make {
        type Result = Control;
        fn of<C: CongestionControl>(settings: Settings) -> Control {
            Control::of::<C>(settings)
        }
    }
    let mut find = Find::<Make> { name, settings, names: Vec::new(), found: None };
    find.visit::<RogueDelay>();
    visit_congestion_controls(&mut find);
    find.found()
}

/// Builds a value from a congestion control that was found by its name.
trait Made {
    type Result;
    fn of<C: CongestionControl>(settings: Settings) -> Self::Result;
}

struct Find<'a, M: Made> {
    name: &'a str,
    settings: &'a [(String, String)],
    names: Vec<&'static str>,
    found: Option<Result<M::Result, PlanError>>,
}

impl<M: Made> Visitor for Find<'_, M> {
    fn visit<C: CongestionControl>(&mut self) {
        self.names.push(C::NAME);
        if C::NAME == self.name {
            self.found = Some(configure::<C>(self.settings).map(M::of::<C>));
        }
    }
}

impl<M: Made> Find<'_, M> {
    fn found(self) -> Result<M::Result, PlanError> {
        let Find { name, names, found, .. } = self;
        found.unwrap_or_else(|| {
            Err(PlanError(format!("unknown congestion control `{name}`; there are: {}", names.join(", "))))
        })
    }
}

fn configure<C: CongestionControl>(given: &[(String, String)]) -> Result<Settings, PlanError> {
    let mut settings = Settings::new(C::PARAMETERS);
    for (key, text) in given {
        let Some(parameter) = C::PARAMETERS.iter().find(|parameter| parameter.name == key) else {
            let names: Vec<&str> = C::PARAMETERS.iter().map(|parameter| parameter.name).collect();
            let known =
                if names.is_empty() { "it has none".to_string() } else { format!("there are: {}", names.join(", ")) };
            return Err(PlanError(format!("{} has no parameter `{key}`; {known}", C::NAME)));
        };
        let value = parameter.kind.parse(text).map_err(|why| PlanError(format!("`{key}`: {why}")))?;
        settings.set(key, value).map_err(PlanError)?;
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = Plan::default();
        change(&mut plan);
        plan.check().unwrap_err().to_string()
    }

    #[test]
    fn impossible_plans_are_refused_with_a_sentence() {
        assert!(Plan::default().check().is_ok());
        assert_eq!(refusal(|plan| plan.op = Op::FetchAdd), "fetch-add works on 8 bytes; leave out the size");
        assert_eq!(refusal(|plan| plan.faults.loss = 101.0), "loss is 101; it must be a percentage, 0 to 100");
        assert!(
            refusal(|plan| plan.congestion = "bbr".to_string())
                .starts_with("unknown congestion control `bbr`; there are: none, dcqcn")
        );
        let settings = |key: &str, value: &str| {
            let pairs = vec![(key.to_string(), value.to_string())];
            refusal(|plan| (plan.congestion, plan.settings) = ("dcqcn".to_string(), pairs))
        };
        assert!(settings("gain", "1").starts_with("dcqcn has no parameter `gain`; there are: profile, g, "));
        assert!(settings("rate_timer", "5").starts_with("`rate_timer`: `5` has no unit"));
        assert_eq!(settings("g", "2"), "`g` cannot be 2; it takes a number from 0 to 1");
        let uc = |op| refusal(|plan| (plan.service, plan.op) = (Service::Uc.into(), op));
        assert_eq!(uc(Op::Read), "an unreliable connection (uc) has no read; use write or send");
        let give_up = |service, ms| {
            refusal(|plan| (plan.service, plan.give_up_after) = (Carrier::from(service), Some(Time::from_ms(ms))))
        };
        assert!(give_up(Service::Uc, 5).starts_with("an unreliable connection (uc) gets no responses"));
        assert_eq!(give_up(Service::Irn, 0), "giving up after 0 ps is not possible; a time must be 1 ms to 1 day");
        assert_eq!(
            give_up(Service::Rc, 86_400_001),
            "giving up after 86400.001 s is not possible; a time must be 1 ms to 1 day"
        );
    }

    #[test]
    fn memory_is_bounded() {
        let plan = Plan { verify: true, sizes: vec![1 << 20], depth: 1_000, ..Plan::default() };
        assert_eq!(plan.slots(), 128);
        let plan = Plan { verify: true, sizes: vec![64], depth: 1_000, queue_pairs: 4, ..Plan::default() };
        assert_eq!(plan.slots(), 1_000);
        assert!(refusal(|plan| (plan.queue_pairs, plan.sizes) = (3, vec![1 << 30])).contains("more than 2 GiB"));
    }
}
