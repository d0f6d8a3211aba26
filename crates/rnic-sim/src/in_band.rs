//! In-band telemetry in simulated packets. A run is compiled with room for it in packets, or without.

use rnic_transport::telemetry::{HopRecord, Telemetry};

/// The room for in-band telemetry in a packet: none (`()`), or [`Telemetry`].
pub trait InBand: Copy + Default + Send {
    /// Whether switches write telemetry records.
    const TELEMETRY: bool;
    /// Adds the record of one hop.
    fn push(&mut self, _hop: HopRecord) {}
    /// The records of the hops so far, if there are any.
    fn telemetry(&self) -> Option<&Telemetry> {
        None
    }
}

impl InBand for () {
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
