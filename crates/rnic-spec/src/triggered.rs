//! Flows that start when others end: the connections and triggers of a connection matrix of htsim.

use rnic_transport::settings::{MAX_BYTES, MAX_TIME};
use rnic_transport::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A list of flows, some of which start when others end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Triggered {
    /// The flows, in the order of the file.
    pub flows: Arc<[TriggeredFlow]>,
    /// What starts flows when others end. Flows refer to these by their index.
    pub triggers: Arc<[Trigger]>,
    /// Time between the end of a flow and the start of the flows that it causes, above 0.
    pub reaction: Time,
}

/// A flow that starts at a fixed time, or when a trigger starts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggeredFlow {
    /// Index of the sending host.
    pub src: u32,
    /// Index of the receiving host; never the sender.
    pub dst: u32,
    /// Payload bytes, at least 1.
    pub bytes: u64,
    /// What starts the flow.
    pub begin: Begin,
    /// Index of the trigger that is activated when the sender knows that all bytes have arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<u32>,
    /// Index of the trigger that is activated when the receiver has all bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<u32>,
}

/// What starts a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Begin {
    /// The flow starts at this time after the start of the traffic source.
    At(Time),
    /// The trigger with this index starts the flow.
    Trigger(u32),
}

/// A trigger, which the ends of flows activate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// Number of the trigger in its file.
    pub id: u32,
    /// Which flows an activation starts.
    pub kind: TriggerKind,
}

/// Which flows an activation of a trigger starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TriggerKind {
    /// `oneshot`: the only activation starts all flows of the trigger.
    Oneshot,
    /// `multishot`: each activation starts the next flow of the trigger, in the order of the file.
    Multishot,
    /// `barrier`: the last of this number of activations starts all flows of the trigger.
    Barrier(u32),
}

/// The part of a [`Triggered`] list that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TriggeredPart {
    /// The flow with this index.
    Flow(usize),
    /// The trigger with this index.
    Trigger(usize),
    /// Another field.
    Whole,
}

impl Triggered {
    /// For each trigger, the indices of the flows that it starts, in the order of the list. An index of a trigger that
    /// does not exist is ignored.
    pub fn targets(&self) -> Vec<Vec<u32>> {
        let mut targets = vec![Vec::new(); self.triggers.len()];
        for (index, flow) in (0..).zip(self.flows.iter()) {
            if let Begin::Trigger(trigger) = flow.begin
                && let Some(own) = targets.get_mut(trigger as usize)
            {
                own.push(index);
            }
        }
        targets
    }

    /// Checks that the flows are possible on a fabric of `hosts` hosts, and that each of them will start.
    ///
    /// # Errors
    /// The part that is wrong, and one sentence that says what is accepted.
    pub fn check(&self, hosts: u32) -> Result<(), (TriggeredPart, String)> {
        if self.reaction == Time::ZERO || self.reaction > MAX_TIME {
            let error = format!("the reaction is {}; accepted: a time above 0 of at most 30 days", self.reaction);
            return Err((TriggeredPart::Whole, error));
        }
        if self.flows.is_empty() {
            return Err((TriggeredPart::Whole, "the list has no flows; accepted: at least one".to_string()));
        }
        for (index, flow) in self.flows.iter().enumerate() {
            self.check_flow(flow, hosts).map_err(|error| (TriggeredPart::Flow(index), error))?;
        }
        let targets = self.targets();
        let mut activations = vec![0u64; self.triggers.len()];
        for trigger in self.flows.iter().flat_map(|flow| [flow.sent, flow.received]).flatten() {
            activations[trigger as usize] += 1;
        }
        for (index, (trigger, count)) in self.triggers.iter().zip(activations).enumerate() {
            trigger.check(count, targets[index].len()).map_err(|error| (TriggeredPart::Trigger(index), error))?;
        }
        self.check_starts(&targets)
    }

    fn check_flow(&self, flow: &TriggeredFlow, hosts: u32) -> Result<(), String> {
        let TriggeredFlow { src, dst, bytes, begin, sent, received } = *flow;
        if src == dst || src >= hosts || dst >= hosts {
            let last = hosts.saturating_sub(1);
            return Err(format!(
                "a flow from host {src} to host {dst}; accepted: two different hosts from 0 to {last}"
            ));
        }
        if !(1..=MAX_BYTES).contains(&bytes) {
            return Err(format!("a flow of {bytes} B; accepted: 1 B to {}", Bytes(MAX_BYTES)));
        }
        let named = match begin {
            Begin::At(start) if start > MAX_TIME => {
                return Err(format!("start {start} is too late; accepted: at most 30 days"));
            }
            Begin::At(_) => None,
            Begin::Trigger(trigger) => Some(trigger),
        };
        let unknown = |trigger: &u32| *trigger as usize >= self.triggers.len();
        match [named, sent, received].into_iter().flatten().find(unknown) {
            Some(trigger) => Err(format!("trigger {trigger} is not in the list of {} triggers", self.triggers.len())),
            None => Ok(()),
        }
    }

    /// Checks that the ends of flows which start at fixed times lead to the start of all other flows.
    fn check_starts(&self, targets: &[Vec<u32>]) -> Result<(), (TriggeredPart, String)> {
        let mut begun = vec![false; self.flows.len()];
        let mut activations = vec![0u32; self.triggers.len()];
        let at_fixed_times = |(_, flow): &(u32, &TriggeredFlow)| matches!(flow.begin, Begin::At(_));
        let mut next: Vec<u32> = (0..).zip(self.flows.iter()).filter(at_fixed_times).map(|(index, _)| index).collect();
        while let Some(index) = next.pop() {
            begun[index as usize] = true;
            let flow = &self.flows[index as usize];
            for trigger in [flow.sent, flow.received].into_iter().flatten().map(|trigger| trigger as usize) {
                activations[trigger] += 1;
                next.extend_from_slice(self.triggers[trigger].starts(activations[trigger], &targets[trigger]));
            }
        }
        let Some(never) = begun.iter().position(|begun| !begun) else { return Ok(()) };
        let Begin::Trigger(trigger) = self.flows[never].begin else { return Ok(()) };
        let id = self.triggers[trigger as usize].id;
        let error = format!(
            "this flow never starts, because trigger {id} waits for flows that wait for this one; accepted: triggers \
             without cycles"
        );
        Err((TriggeredPart::Flow(never), error))
    }
}

impl Trigger {
    /// The flows that the activation with the number `activation`, counted from 1, starts; `targets` are all flows of
    /// the trigger.
    pub fn starts<'t>(&self, activation: u32, targets: &'t [u32]) -> &'t [u32] {
        match self.kind {
            TriggerKind::Oneshot if activation == 1 => targets,
            TriggerKind::Barrier(count) if activation == count => targets,
            TriggerKind::Multishot => {
                let index = activation.saturating_sub(1) as usize;
                targets.get(index..=index).unwrap_or(&[])
            }
            TriggerKind::Oneshot | TriggerKind::Barrier(_) => &[],
        }
    }

    /// Checks that a trigger with this number of activations starts all of its `targets` flows.
    fn check(&self, activations: u64, targets: usize) -> Result<(), String> {
        let id = self.id;
        if targets == 0 {
            return Err(format!("trigger {id} starts no flow; write `trigger {id}` in a connection"));
        }
        match self.kind {
            TriggerKind::Oneshot if activations != 1 => {
                Err(format!("{activations} flows activate trigger {id}, which is `oneshot`; accepted: exactly 1 flow"))
            }
            TriggerKind::Multishot if activations < targets as u64 => Err(format!(
                "{activations} flows activate trigger {id}, which is `multishot` and starts {targets} flows, one by one; \
                 accepted: at least {targets} flows"
            )),
            TriggerKind::Barrier(count) if activations != u64::from(count) => Err(format!(
                "{activations} flows activate trigger {id}, which is a `barrier` of {count}; accepted: exactly {count} flows"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(begin: Begin, sent: Option<u32>, received: Option<u32>) -> TriggeredFlow {
        TriggeredFlow { src: 0, dst: 1, bytes: 1_000, begin, sent, received }
    }

    fn list(flows: &[TriggeredFlow], kinds: &[TriggerKind]) -> Triggered {
        let triggers = (10..).zip(kinds).map(|(id, kind)| Trigger { id, kind: *kind }).collect();
        Triggered { flows: flows.into(), triggers, reaction: Time::from_ns(200) }
    }

    #[test]
    fn lists_in_which_every_flow_starts_are_accepted() {
        let at = Begin::At(Time::ZERO);
        let chain = list(&[flow(at, Some(0), None), flow(Begin::Trigger(0), None, None)], &[TriggerKind::Oneshot]);
        assert_eq!(chain.check(2), Ok(()));
        // Both ends of one flow activate the barrier.
        let both = [flow(at, Some(0), Some(0)), flow(Begin::Trigger(0), None, None)];
        assert_eq!(list(&both, &[TriggerKind::Barrier(2)]).check(2), Ok(()));
        // The first activation starts the flow whose end is the second activation.
        let window =
            [flow(at, Some(0), None), flow(Begin::Trigger(0), Some(0), None), flow(Begin::Trigger(0), None, None)];
        assert_eq!(list(&window, &[TriggerKind::Multishot]).check(2), Ok(()));
    }

    #[test]
    fn flows_that_never_start_are_named() {
        let (at, by) = (Begin::At(Time::ZERO), Begin::Trigger);
        let error = |flows: &[TriggeredFlow], kinds: &[TriggerKind]| list(flows, kinds).check(2).unwrap_err();
        let cycle = [flow(at, None, None), flow(by(0), Some(1), None), flow(by(1), Some(0), None)];
        assert_eq!(
            error(&cycle, &[TriggerKind::Oneshot, TriggerKind::Oneshot]),
            (
                TriggeredPart::Flow(1),
                "this flow never starts, because trigger 10 waits for flows that wait for this one; accepted: triggers without \
                 cycles"
                    .to_string()
            )
        );
        let lone = [flow(at, None, None), flow(by(0), None, None)];
        assert_eq!(
            error(&lone, &[TriggerKind::Oneshot]).1,
            "0 flows activate trigger 10, which is `oneshot`; accepted: exactly 1 flow"
        );
        assert_eq!(
            error(&lone, &[TriggerKind::Barrier(3)]).1,
            "0 flows activate trigger 10, which is a `barrier` of 3; accepted: exactly 3 flows"
        );
        let two = [flow(at, Some(0), None), flow(by(0), None, None), flow(by(0), None, None)];
        assert_eq!(
            error(&two, &[TriggerKind::Multishot]).1,
            "1 flows activate trigger 10, which is `multishot` and starts 2 flows, one by one; accepted: at least 2 flows"
        );
        let idle = [flow(at, Some(0), None)];
        assert_eq!(
            error(&idle, &[TriggerKind::Oneshot]).1,
            "trigger 10 starts no flow; write `trigger 10` in a connection"
        );
        assert_eq!(error(&[flow(by(3), None, None)], &[]).1, "trigger 3 is not in the list of 0 triggers");
    }
}
