//! In-band telemetry (INT) in simulated packets. The simulation is compiled twice: with a telemetry field in packets,
//! and without.

use rnic_transport::telemetry::{HopRecord, Telemetry};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The type of a simulated packet's telemetry field: `()` for no telemetry, or [`Telemetry`].
pub trait InBand: Copy + Default + Send + Serialize + DeserializeOwned {
    /// Whether switches write telemetry records into packets.
    const TELEMETRY: bool;
    /// Adds the telemetry record of one hop to the packet.
    fn push(&mut self, _hop: HopRecord) {}
    /// The telemetry records of the packet's hops so far; `None` if there are no records.
    fn telemetry(&self) -> Option<&Telemetry> {
        None
    }
}

impl InBand for () {
    const TELEMETRY: bool = false;
}

/// No telemetry, in a run with several transports. It is a type of its own, so that the code of such runs is compiled
/// apart, and that of runs with one transport does not change.
#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Several;

impl InBand for Several {
    const TELEMETRY: bool = false;
}

impl InBand for Telemetry {
    const TELEMETRY: bool = true;
    #[inline]
    fn push(&mut self, hop: HopRecord) {
        Telemetry::push(self, hop);
    }
    #[inline]
    fn telemetry(&self) -> Option<&Telemetry> {
        (!self.hops().is_empty()).then_some(self)
    }
}
