//! The state of a fabric's ports.

use super::Fabric;
use crate::observed::{ObservedPorts, PortState, PortStates};
use crate::packet::Body;
use rnic_transport::Bytes;

impl<B: Body> ObservedPorts for Fabric<B> {
    fn port_states(&self) -> PortStates {
        let state = |port| PortState {
            queued: Bytes((0..usize::from(self.priorities())).map(|priority| self.egress(port, priority)).sum()),
            sent: Bytes(self.counters(port).iter().map(|counters| counters.tx_bytes).sum()),
            busy: self.sending_time(port),
            paused: self.paused(port),
        };
        PortStates { at: self.now(), ports: self.topology().port_ids().map(state).collect() }
    }
}
