//! The state of all ports at an instant, for readers that do not know the type of packets.

use rnic_transport::{Bytes, Time};

/// The state of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortState {
    /// Bytes in the switch's buffer that wait for this output port, over all priorities; 0 for a host's port.
    pub queued: Bytes,
    /// Bytes of all frames that the port has begun to transmit since the beginning of the run.
    pub sent: Bytes,
    /// Time for which the port has been transmitting frames since the beginning of the run.
    pub busy: Time,
    /// Bitmap of the priorities in which the port's peer pauses the port.
    pub paused: u8,
}

/// The state of all ports at an instant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortStates {
    /// The instant: every event before it has been simulated.
    pub at: Time,
    /// The ports, in the order of the topology.
    pub ports: Vec<PortState>,
}

/// A fabric whose ports can be observed.
pub trait ObservedPorts {
    /// The state of all ports now.
    fn port_states(&self) -> PortStates;
}
