//! The body of simulated packets of RC-like transports (reliable flows).

use crate::host::ids::EndSlot;
use crate::in_band::InBand;
use rnic_fabric::Body;
use rnic_transport::codec::{Reader, put_u32};
use rnic_transport::telemetry::HopRecord;
use rnic_transport::{Pdu, PduKind};

/// Body of a simulated packet of an RC-like transport: the slot of the flow's end at the destination, the transport's
/// PDU, and the telemetry field `T`. An ACK carries the telemetry of the data packet that triggered it.
#[derive(Clone, Copy, Debug, Default)]
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
    fn place(&self) -> Option<(u32, u64)> {
        (self.pdu.kind() == PduKind::Data).then(|| (self.slot.0, u64::from(self.pdu.psn().value())))
    }
    const CROSSES_RANKS: bool = true;
    fn write(&self, out: &mut Vec<u8>) {
        put_u32(out, self.slot.0);
        self.pdu.to_words().iter().for_each(|word| put_u32(out, *word));
        self.in_band.write(out);
    }
    fn read(message: &mut Reader<'_>) -> Option<Self> {
        let slot = EndSlot(message.u32()?);
        let pdu = Pdu::from_words([message.u32()?, message.u32()?, message.u32()?]);
        Some(Segment { slot, pdu, in_band: T::read(message)? })
    }
}
