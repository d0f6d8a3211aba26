//! The body of simulated packets of RC-like transports (reliable flows).

use crate::host::ids::EndSlot;
use crate::in_band::InBand;
use rnic_fabric::{Body, RankCodec};
use rnic_transport::telemetry::HopRecord;
use rnic_transport::{Pdu, PduKind};
use serde::{Deserialize, Serialize};

/// Body of a simulated packet of an RC-like transport: the slot of the flow's end at the destination, the transport's
/// PDU, and the telemetry field `T`. An ACK carries the telemetry of the data packet that triggered it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Segment<T = ()> {
    /// Slot of the flow's end at the packet's destination.
    pub(crate) slot: EndSlot,
    /// The protocol data unit of the transport: kind of packet, PSN and other header fields.
    pub(crate) pdu: Pdu,
    pub(crate) in_band: T,
}

impl<T: InBand> Body for Segment<T> {
    const TELEMETRY: bool = T::TELEMETRY;
    #[inline]
    fn stamp(&mut self, hop: HopRecord) {
        self.in_band.push(hop);
    }
    fn trimmed(&mut self, last_hop: bool) {
        if last_hop && self.pdu.kind() == PduKind::Data {
            self.pdu = self.pdu.with_last_hop();
        }
    }
    fn place(&self) -> Option<(u32, u64)> {
        (self.pdu.kind() == PduKind::Data).then(|| (self.slot.0, u64::from(self.pdu.psn().value())))
    }
    const RANK_CODEC: Option<RankCodec<Self>> = Some(RankCodec::SERDE);
}
