//! The packets of message transports in the simulated fabric: addresses, body and frame lengths.

use crate::host::ids::EndSlot;
use crate::in_band::InBand;
use rnic_fabric::{Body, HostId, RankCodec};
use rnic_transport::message::PacketHeader;
use rnic_transport::telemetry::HopRecord;
use serde::{Deserialize, Serialize};

/// The IP address of host 0 (10.0.0.0) for message transports. The other hosts have the following addresses.
const FIRST_IP: u32 = 0x0a00_0000;

/// The IP address that message transports use for a host.
pub(super) fn ip(host: HostId) -> u32 {
    FIRST_IP + host.0
}

/// The host with the IP address `ip`. The caller checks that the fabric has such a host.
#[inline]
pub(super) fn host_of(ip: u32) -> HostId {
    HostId(ip.wrapping_sub(FIRST_IP))
}

/// Body of a simulated packet of a message transport: the header `H` of the transport program, the telemetry field `T`,
/// and the ids that the simulated hosts need.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MessageSegment<H, T> {
    /// Sending host.
    pub(super) src: HostId,
    /// Slot of the flow's receiving end on the receiving host; [`EndSlot::NONE`] in a control packet.
    pub(super) slot: EndSlot,
    pub(crate) header: H,
    pub(super) in_band: T,
}

impl<H: PacketHeader, T: InBand> Body for MessageSegment<H, T> {
    const TELEMETRY: bool = H::TELEMETRY || T::TELEMETRY;
    #[inline]
    fn stamp(&mut self, hop: HopRecord) {
        if H::TELEMETRY { self.header.stamp(hop) } else { self.in_band.push(hop) }
    }
    fn source(&self) -> Option<HostId> {
        Some(self.src)
    }
    const RANK_CODEC: Option<RankCodec<Self>> = Some(RankCodec::SERDE);
}

/// Frame lengths and priorities of a run's packets, with a message transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Framing {
    /// Length of the headers and trailers of a data packet, in bytes.
    pub(crate) header: u32,
    /// Length of a control packet, in bytes.
    pub(crate) control: u32,
    /// Number of priorities that the transport uses. In the transport, priority 0 is served first; in the fabric, it is
    /// served last.
    pub(crate) priorities: u8,
}
