//! Schedulers: which priority an output of a switch serves next.
//!
//! Any scheduler can be combined with any kind of buffer. A switch calls its scheduler each time a transmitter becomes
//! free while packets wait for it; a packet that finds its output idle is sent at once, without a call of the
//! scheduler.
//!
//! To add a scheduler, write a file beside this one and register it here: add its line to [`SCHEDULERS`], and its
//! variants to [`SchedulerSpec`] and [`Scheduler`].

mod drr;
mod round_robin;
mod strict;
mod wrr;

use drr::DeficitRoundRobin;
use round_robin::RoundRobin;
use strict::BoundedStrict;
use wrr::WeightedRoundRobin;

/// Weights of the priorities, the lowest priority first. A priority of weight 0 is served strictly before all others.
pub type Weights = [u32; 8];

/// The scheduler of a switch: which priority an output serves next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields))]
pub enum SchedulerSpec {
    /// The highest priority that has a packet.
    Strict {
        /// Maximum number of packets of the switch's highest priority that an output sends in a row while packets of
        /// lower priorities wait. Then the output sends one packet of the next lower priority that has a packet.
        /// `None`: no bound. NDP's switches have such a bound, so that a flood of trimmed headers leaves bandwidth for
        /// data (SIGCOMM 2017, section 3.1).
        max_in_a_row: Option<u32>,
    },
    /// One packet of each priority in turn.
    RoundRobin,
    /// Bytes in proportion to the weights.
    DeficitRoundRobin(Weights),
    /// Packets in proportion to the weights.
    WeightedRoundRobin(Weights),
}

/// A scheduler that can be chosen by name.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerEntry {
    /// Name of the scheduler in scenario files.
    pub name: &'static str,
    /// Description of the scheduler, in one line.
    pub about: &'static str,
    /// How to make the scheduler's [`SchedulerSpec`], which may need weights.
    pub choose: ChooseScheduler,
}

/// How to make a scheduler's specification, with or without weights.
#[derive(Clone, Copy, Debug)]
pub enum ChooseScheduler {
    /// The scheduler has no weights; this is its specification.
    Unweighted(SchedulerSpec),
    /// The scheduler needs a weight for each priority; the function makes its specification from the weights.
    Weighted(fn(Weights) -> SchedulerSpec),
}

/// Every scheduler, the default first.
///
/// ```
/// use rnic_fabric::config::{ChooseScheduler, SCHEDULERS, SchedulerSpec};
///
/// let entry = SCHEDULERS.iter().find(|entry| entry.name == "wrr").unwrap();
/// let ChooseScheduler::Weighted(choose) = entry.choose else { panic!() };
/// assert_eq!(choose([1; 8]), SchedulerSpec::WeightedRoundRobin([1; 8]));
/// ```
pub const SCHEDULERS: [SchedulerEntry; 4] = [
    SchedulerEntry {
        name: "strict",
        about: "the highest priority that has a packet",
        choose: ChooseScheduler::Unweighted(SchedulerSpec::STRICT),
    },
    SchedulerEntry {
        name: "round-robin",
        about: "one packet of each priority in turn",
        choose: ChooseScheduler::Unweighted(SchedulerSpec::RoundRobin),
    },
    SchedulerEntry {
        name: "drr",
        about: "deficit round robin: bytes in proportion to the weights",
        choose: ChooseScheduler::Weighted(SchedulerSpec::DeficitRoundRobin),
    },
    SchedulerEntry {
        name: "wrr",
        about: "weighted round robin: packets in proportion to the weights",
        choose: ChooseScheduler::Weighted(SchedulerSpec::WeightedRoundRobin),
    },
];

impl SchedulerSpec {
    /// Strict priority without a bound.
    pub const STRICT: SchedulerSpec = SchedulerSpec::Strict { max_in_a_row: None };

    /// Name of the scheduler in scenario files.
    pub fn name(&self) -> &'static str {
        match self {
            SchedulerSpec::Strict { .. } => "strict",
            SchedulerSpec::RoundRobin => "round-robin",
            SchedulerSpec::DeficitRoundRobin(_) => "drr",
            SchedulerSpec::WeightedRoundRobin(_) => "wrr",
        }
    }

    /// Weights of the priorities, if the scheduler has weights.
    pub fn weights(&self) -> Option<Weights> {
        match self {
            SchedulerSpec::Strict { .. } | SchedulerSpec::RoundRobin => None,
            SchedulerSpec::DeficitRoundRobin(weights) | SchedulerSpec::WeightedRoundRobin(weights) => Some(*weights),
        }
    }
}

impl Default for SchedulerSpec {
    fn default() -> SchedulerSpec {
        SchedulerSpec::STRICT
    }
}

/// The first packet that waits for an output in a priority.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    /// Length of the packet in bytes.
    pub(crate) bytes: u16,
    /// Whether no other packet waits behind it.
    pub(crate) is_last: bool,
}

/// The schedulers of all outputs of one switch.
pub(crate) enum Scheduler {
    Strict,
    BoundedStrict(BoundedStrict),
    RoundRobin(RoundRobin),
    DeficitRoundRobin(DeficitRoundRobin),
    WeightedRoundRobin(WeightedRoundRobin),
}

impl Scheduler {
    /// The schedulers of a switch with `outputs` outputs and `priorities` priorities.
    pub(crate) fn new(spec: &SchedulerSpec, outputs: usize, priorities: usize) -> Scheduler {
        match *spec {
            SchedulerSpec::Strict { max_in_a_row: None } => Scheduler::Strict,
            SchedulerSpec::Strict { max_in_a_row: Some(max) } => {
                Scheduler::BoundedStrict(BoundedStrict::new(max, outputs, priorities))
            }
            SchedulerSpec::RoundRobin => Scheduler::RoundRobin(RoundRobin::new(outputs)),
            SchedulerSpec::DeficitRoundRobin(weights) => {
                Scheduler::DeficitRoundRobin(DeficitRoundRobin::new(weights, outputs, priorities))
            }
            SchedulerSpec::WeightedRoundRobin(weights) => {
                Scheduler::WeightedRoundRobin(WeightedRoundRobin::new(weights, outputs, priorities))
            }
        }
    }

    /// Chooses one of the priorities in `sendable`, a bitmap that is not empty, and counts the first packet of that
    /// priority as sent. `head` describes the first packet of a priority in `sendable`.
    #[inline(always)]
    pub(crate) fn next(&mut self, output: usize, sendable: u8, head: impl Fn(usize) -> Head) -> usize {
        match self {
            Scheduler::Strict => highest(sendable),
            Scheduler::BoundedStrict(scheduler) => scheduler.next(output, sendable),
            Scheduler::RoundRobin(scheduler) => scheduler.next(output, sendable),
            Scheduler::DeficitRoundRobin(scheduler) => scheduler.next(output, sendable, head),
            Scheduler::WeightedRoundRobin(scheduler) => scheduler.next(output, sendable),
        }
    }
}

/// The highest priority in a bitmap that is not empty.
#[inline(always)]
pub(crate) fn highest(priorities: u8) -> usize {
    7 - priorities.leading_zeros() as usize
}

/// The highest priority in `sendable` with weight 0, which is served before all priorities with a weight; `None` if
/// every priority in `sendable` has a weight.
#[inline]
fn highest_without_weight(sendable: u8, weights: &Weights) -> Option<usize> {
    (0..8).rev().find(|priority| sendable & (1 << priority) != 0 && weights[*priority] == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_every_scheduler_by_its_own_name() {
        for entry in &SCHEDULERS {
            let (spec, weights) = match entry.choose {
                ChooseScheduler::Unweighted(spec) => (spec, None),
                ChooseScheduler::Weighted(choose) => (choose([3; 8]), Some([3; 8])),
            };
            assert_eq!((spec.name(), spec.weights()), (entry.name, weights));
        }
        assert_eq!(SCHEDULERS[0].name, SchedulerSpec::default().name());
    }
}
