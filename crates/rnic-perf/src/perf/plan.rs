//! What to measure.

use super::PerfError;
use crate::Op;
use rnic_endpoint::config::Mode;
use rnic_endpoint::port::{Faults, Probability};
use rnic_transport::congestion::{CongestionControl, Kind, Settings, Value};
use rnic_transport::registry::{Visitor, visit_congestion_controls};
use rnic_transport::{BitRate, Bytes, Time};
use rnic_verbs::{Congestion, Service};
use serde::{Deserialize, Serialize};

/// TCP port of the conversation, the one of perftest.
pub const DEFAULT_PORT: u16 = 18_515;

/// Sizes of `--all`, as in perftest: powers of two from 2 B to 8 MiB.
pub const SIZES: std::ops::RangeInclusive<u32> = 1..=23;

/// How long a measurement takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// So many messages on each queue pair.
    Messages(u64),
    /// As many as go in this time.
    Duration(Time),
}

/// Faults on what either side receives: of each hundred packets so many, on average.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FaultPlan {
    /// Lost.
    pub loss: f64,
    /// Delivered after later ones.
    pub reorder: f64,
    /// Delivered twice.
    pub duplicate: f64,
    /// Delivered with a bit flipped.
    pub corrupt: f64,
    /// What happens to which packet follows from it.
    pub seed: u64,
}

impl FaultPlan {
    /// A reordered packet is overtaken by up to so many.
    const DEPTH: u32 = 16;

    /// Whether nothing goes wrong.
    pub fn is_none(&self) -> bool {
        [self.loss, self.reorder, self.duplicate, self.corrupt] == [0.0; 4]
    }

    pub(super) fn faults(&self) -> Result<Faults, PlanError> {
        let percent = |name, value: f64| {
            Probability::new(value / 100.0)
                .map_err(|_| PlanError(format!("{name} is {value}; it is a percentage, 0 to 100")))
        };
        Ok(Faults {
            loss: percent("loss", self.loss)?,
            reordering: percent("reorder", self.reorder)?,
            reordering_depth: FaultPlan::DEPTH,
            duplication: percent("duplicate", self.duplicate)?,
            corruption: percent("corrupt", self.corrupt)?,
            ..Faults::default()
        })
    }
}

/// What is wrong with a plan, in one sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(super) String);

/// What to measure, and how.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Operation.
    pub op: Op,
    /// One message at a time, and how long it takes; else as many as go.
    pub latency: bool,
    /// Bytes of a message; a measurement for each.
    pub sizes: Vec<u32>,
    /// How long each measurement takes.
    pub amount: Amount,
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Messages outstanding on each.
    pub depth: u32,
    /// Payload bytes of a full packet; `None`: what the path carries.
    pub mtu: Option<u32>,
    /// Service.
    pub service: Service,
    /// Congestion control by name.
    pub congestion: String,
    /// Its parameters, those that are not to be the default.
    pub settings: Vec<(String, String)>,
    /// Rate of the link, at which rate-based congestion control begins; `None`: the device's default.
    pub line_rate: Option<BitRate>,
    /// Most packets in flight on each queue pair; `None`: the device's default.
    pub in_flight: Option<u32>,
    /// Check every byte.
    pub verify: bool,
    /// Faults on both sides.
    pub faults: FaultPlan,
    /// Who moves packets, on both sides.
    pub mode: Mode,
    /// UDP port of the client's device, if not RoCE's own.
    pub roce_port: u16,
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
            service: Service::Irn,
            congestion: "none".to_string(),
            settings: Vec::new(),
            line_rate: None,
            in_flight: None,
            verify: false,
            faults: FaultPlan::default(),
            mode: Mode::Polled,
            roce_port: rnic_endpoint::port::ROCE_PORT,
        }
    }
}

/// Most queue pairs.
pub(super) const MOST_QUEUE_PAIRS: u32 = 1_024;
/// Most messages outstanding on a queue pair.
pub(super) const MOST_DEPTH: u32 = 16_384;
/// Longest message.
pub(super) const LONGEST: u32 = 1 << 30;
/// Most bytes of memory on each side.
pub(super) const MOST_MEMORY: u64 = 2 << 30;
/// With verification, slots take no more than this, unless one message does.
const SLOT_MEMORY: u64 = 128 << 20;

impl Plan {
    /// Whether the plan can be carried out.
    ///
    /// # Errors
    /// One sentence for the first thing that cannot.
    pub fn check(&self) -> Result<(), PerfError> {
        let wrong = |why: String| Err(PlanError(why).into());
        if self.sizes.is_empty() || self.sizes.iter().any(|size| !(1..=LONGEST).contains(size)) {
            return wrong("a size is 1 B to 1 GiB".to_string());
        }
        if self.op.is_atomic() && self.sizes != [8] {
            return wrong(format!("{} works on 8 bytes; leave out the size", self.op.name()));
        }
        if !(1..=MOST_QUEUE_PAIRS).contains(&self.queue_pairs) {
            return wrong(format!("{} queue pairs; possible is 1 to {MOST_QUEUE_PAIRS}", self.queue_pairs));
        }
        if self.latency && self.queue_pairs > 1 {
            return wrong("latency is measured on one queue pair".to_string());
        }
        if self.latency && self.verify {
            return wrong("verification goes with bandwidth; leave out one of the two".to_string());
        }
        if !(1..=MOST_DEPTH).contains(&self.depth) {
            return wrong(format!("a depth of {}; possible is 1 to {MOST_DEPTH}", self.depth));
        }
        match self.amount {
            Amount::Messages(0) => return wrong("0 messages are no measurement".to_string()),
            Amount::Duration(time) if time == Time::ZERO => return wrong("0 s are no measurement".to_string()),
            _ => {}
        }
        if self.service == Service::Uc {
            if self.op.is_fetching() {
                return wrong(format!("an unreliable connection (uc) has no {}; use write or send", self.op.name()));
            }
            if self.verify {
                return wrong(
                    "an unreliable connection (uc) may lose messages, so that there is nothing to verify".to_string(),
                );
            }
        }
        if self.memory() > MOST_MEMORY {
            return wrong(format!(
                "{} queue pairs with messages of {} bytes need more than 2 GiB of memory",
                self.queue_pairs,
                self.longest()
            ));
        }
        self.congestion()?;
        self.faults.faults()?;
        Ok(())
    }

    pub(super) fn longest(&self) -> u32 {
        self.sizes.iter().copied().max().unwrap_or(1)
    }

    /// Bytes from one message's place in memory to the next.
    pub(super) fn stride(&self) -> u32 {
        self.longest().next_multiple_of(64)
    }

    /// Places for messages on each queue pair: one for all, or one for each that is outstanding.
    pub(super) fn slots(&self) -> u32 {
        if self.latency {
            return 2;
        }
        if !self.verify {
            return 1;
        }
        let most = SLOT_MEMORY / u64::from(self.stride()) / u64::from(self.queue_pairs);
        (self.depth).min(most.max(1) as u32)
    }

    fn memory(&self) -> u64 {
        u64::from(self.queue_pairs) * u64::from(self.slots()) * u64::from(self.stride())
    }

    pub(super) fn congestion(&self) -> Result<Congestion, PlanError> {
        congestion(&self.congestion, &self.settings)
    }
}

/// The congestion control of this name with these settings.
pub(super) fn congestion(name: &str, settings: &[(String, String)]) -> Result<Congestion, PlanError> {
    struct Find<'a> {
        name: &'a str,
        settings: &'a [(String, String)],
        names: Vec<&'static str>,
        found: Option<Result<Congestion, PlanError>>,
    }
    impl Visitor for Find<'_> {
        fn visit<C: CongestionControl>(&mut self) {
            self.names.push(C::NAME);
            if C::NAME == self.name {
                self.found = Some(configure::<C>(self.settings));
            }
        }
    }
    let mut find = Find { name, settings, names: Vec::new(), found: None };
    visit_congestion_controls(&mut find);
    let Find { names, found, .. } = find;
    found.unwrap_or_else(|| {
        Err(PlanError(format!("unknown congestion control `{name}`; there are: {}", names.join(", "))))
    })
}

fn configure<C: CongestionControl>(given: &[(String, String)]) -> Result<Congestion, PlanError> {
    let mut settings = Settings::new(C::PARAMETERS);
    for (key, text) in given {
        let Some(parameter) = C::PARAMETERS.iter().find(|parameter| parameter.name == key) else {
            let names: Vec<&str> = C::PARAMETERS.iter().map(|parameter| parameter.name).collect();
            let known =
                if names.is_empty() { "it has none".to_string() } else { format!("there are: {}", names.join(", ")) };
            return Err(PlanError(format!("{} has no parameter `{key}`; {known}", C::NAME)));
        };
        let value = value(parameter.kind, text).map_err(|why| PlanError(format!("`{key}`: {why}")))?;
        settings.set(key, value).map_err(PlanError)?;
    }
    Ok(Congestion::of::<C>(settings))
}

fn value(kind: Kind, text: &str) -> Result<Value, String> {
    let unit = |error: rnic_transport::units::UnitError| error.to_string();
    let plain = |what: &str| format!("`{text}` is not {what}");
    match kind {
        Kind::Rate => text.parse().map(Value::Rate).map_err(unit),
        Kind::Time => text.parse().map(Value::Time).map_err(unit),
        Kind::Bytes => text.parse::<Bytes>().map(Value::Bytes).map_err(unit),
        Kind::Number { .. } => text.parse().map(Value::Number).map_err(|_| plain("a number")),
        Kind::Count { .. } => text.parse().map(Value::Count).map_err(|_| plain("a whole number")),
        Kind::Flag => text.parse().map(Value::Flag).map_err(|_| plain("true or false")),
    }
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
    fn plans_that_cannot_be_are_refused_in_a_sentence() {
        assert!(Plan::default().check().is_ok());
        assert_eq!(refusal(|plan| plan.op = Op::FetchAdd), "fetch-add works on 8 bytes; leave out the size");
        assert_eq!(refusal(|plan| plan.faults.loss = 101.0), "loss is 101; it is a percentage, 0 to 100");
        assert!(
            refusal(|plan| plan.congestion = "bbr".to_string())
                .starts_with("unknown congestion control `bbr`; there are: none, dcqcn")
        );
        let settings = |key: &str, value: &str| {
            let pairs = vec![(key.to_string(), value.to_string())];
            refusal(|plan| (plan.congestion, plan.settings) = ("dcqcn".to_string(), pairs))
        };
        assert!(settings("gain", "1").starts_with("dcqcn has no parameter `gain`; there are: g, "));
        assert!(settings("rate_timer", "5").starts_with("`rate_timer`: `5` has no unit"));
        assert_eq!(settings("g", "2"), "`g` cannot be 2");
        let uc = |op| refusal(|plan| (plan.service, plan.op) = (Service::Uc, op));
        assert_eq!(uc(Op::Read), "an unreliable connection (uc) has no read; use write or send");
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
