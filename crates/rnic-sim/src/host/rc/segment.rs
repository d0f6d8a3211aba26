//! The body of an RC-like transport's packets.

use crate::host::ids::EndSlot;
use crate::in_band::InBand;
use rnic_fabric::Body;
use rnic_transport::Pdu;
use rnic_transport::telemetry::HopRecord;

/// Body of a simulated packet of an RC-like transport: the slot at the destination, the PDU, and in-band telemetry `T`
/// if the run uses it. An ACK carries the telemetry of its data packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment<T = ()> {
    /// Slot of the flow's end at the packet's destination.
    pub(crate) slot: EndSlot,
    /// The transport's part.
    pub(crate) pdu: Pdu,
    pub(crate) in_band: T,
}

impl<T: InBand> Body for Segment<T> {
    const TELEMETRY: bool = T::TELEMETRY;
    #[inline]
    fn stamp(&mut self, hop: HopRecord) {
        self.in_band.push(hop);
    }
}
