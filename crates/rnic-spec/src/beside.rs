//! Several transports in one run, each for the traffic of one priority.

use crate::spec::{Beside, QueueingSetup, RunSpec};
use crate::transport::TransportSpec;
use rnic_transport::transports::TransportKind;

impl RunSpec {
    /// The transport of the traffic sources of `priority`.
    pub fn transport_of(&self, priority: u8) -> &TransportSpec {
        let beside = self.beside.iter().find(|beside| beside.priority == priority);
        beside.map_or(&self.transport, |beside| &beside.transport)
    }

    /// The priorities that transports have, in ascending order: 0, and those of the traffic sources.
    pub fn priorities_of_traffic(&self) -> Vec<u8> {
        let mut all: Vec<u8> = self.traffic.iter().map(|source| source.priority).chain([0]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Bitmap of the priorities whose packets PFC protects: all or none, unless a transport beside the run's own
    /// differs from it.
    pub fn lossless_priorities(&self) -> u8 {
        let lossless = |priority: &u8| self.transport_of(*priority).pfc;
        (0..8).filter(lossless).fold(0, |bitmap, priority| bitmap | 1 << priority)
    }

    /// Why the transports of the run cannot share its hosts, in one sentence; `None` if they can, and for a run with
    /// one transport in one priority.
    pub fn cannot_share(&self) -> Option<String> {
        if let Some(beside) = self.beside.iter().find(|one| self.traffic.iter().all(|s| s.priority != one.priority)) {
            let Beside { priority, transport } = beside;
            return Some(format!("transport \"{}\" is for priority {priority}, and no traffic has it", transport.name));
        }
        let priorities = self.priorities_of_traffic();
        if priorities.len() == 1 {
            return None;
        }
        for transport in priorities.iter().map(|priority| self.transport_of(*priority)) {
            let name = &transport.name;
            if transport.declaration.kind != TransportKind::Flows {
                return Some(format!(
                    "transport \"{name}\" cannot share hosts: traffic in several priorities (`priority`) needs transports of flows, such as roce, irn and tcp"
                ));
            }
            if transport.carries_telemetry() {
                let cc = transport.cc.name();
                return Some(format!(
                    "cc \"{cc}\" needs in-band telemetry, which runs with traffic in several priorities (`priority`) lack"
                ));
            }
            if transport.control_priority() {
                return Some(
                    "`control_priority` and traffic in several priorities (`priority`) exclude each other".to_string(),
                );
            }
        }
        let lossless = priorities.iter().filter(|priority| self.transport_of(**priority).pfc).count();
        let queueing = &self.fabric.switch.queueing;
        if matches!(queueing, QueueingSetup::Output(output) if output.trim.is_some()) {
            return Some("`trim` and traffic in several priorities (`priority`) exclude each other".to_string());
        }
        if lossless > 0 && !self.transport.pfc {
            let message = "a transport beside the run's own has `pfc` = true, and the run's own has not; give the lossless one to the run";
            return Some(message.to_string());
        }
        let all = lossless == 0 || lossless == priorities.len();
        (!all && !matches!(queueing, QueueingSetup::Shared(_))).then(|| {
            "`pfc` differs between the priorities, which only switches with `queueing` = \"shared\" support".to_string()
        })
    }
}
