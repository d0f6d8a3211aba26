//! In-band telemetry in simulated packets: a run is compiled with room for it or without.

use rnic_transport::telemetry::{HopRecord, Telemetry};

/// What a packet has room for beside the transport's part: nothing, or in-band telemetry.
pub trait InBand: Copy + Default + Send {
    /// Whether switches write telemetry.
    const TELEMETRY: bool;
    /// One more hop.
    fn push(&mut self, _hop: HopRecord) {}
    /// What switches wrote, if they wrote anything.
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
