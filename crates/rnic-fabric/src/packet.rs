//! A packet in the fabric.

use crate::ids::HostId;
use crate::rank_message::RankCodec;
use rnic_transport::telemetry::HopRecord;

/// The part of a packet that only hosts understand. Switches use it in two ways only: to write in-band telemetry into
/// it, and to read the sender to which they return a trimmed header.
pub trait Body: Copy + Default + Send {
    /// Whether switches write telemetry records into data packets ([`Body::stamp`]).
    const TELEMETRY: bool = false;

    /// Adds the telemetry record of a switch that forwards the packet.
    fn stamp(&mut self, _hop: HopRecord) {}
    /// Handles that a switch has removed the packet's payload. `last_hop` says whether the packet was about to leave to
    /// its receiver.
    fn trimmed(&mut self, _last_hop: bool) {}
    /// The host that sent the packet, if the body names it. A switch returns a trimmed header to this host if the
    /// buffer has no room for the header.
    fn source(&self) -> Option<HostId> {
        None
    }
    /// The place in the receiver's memory to which a data packet goes: the number of a region, and the number of the
    /// packet in it. `None` for other packets.
    fn place(&self) -> Option<(u32, u64)> {
        None
    }
    /// How packets with this body go from one rank to another; `None` if they cannot.
    const RANK_CODEC: Option<RankCodec<Self>> = None;
}

/// A body of one number, whose meaning the hosts choose.
impl Body for u32 {
    const RANK_CODEC: Option<RankCodec<u32>> = Some(RankCodec::SERDE);
}

/// A packet: the fields that the fabric reads, around a body that only hosts understand. It is small because every hop
/// copies it.
///
/// ```
/// use rnic_fabric::{HostId, MIN_FRAME, Packet};
///
/// let ack = Packet::<u32> { dst: HostId(7), bytes: MIN_FRAME, flags: Packet::<u32>::CONTROL, ..Packet::default() };
/// assert!(!ack.is_marked() && !ack.is_pause());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Packet<B> {
    /// Receiving host.
    pub dst: HostId,
    /// Hash of the packet's flow, or any other entropy that the sender chooses; ECMP picks a port by it. In a pause
    /// frame this field is the bitmap of paused priorities.
    pub flow_hash: u32,
    /// Frame length in bytes, from Ethernet header to frame check sequence, at least [`MIN_FRAME`].
    pub bytes: u16,
    /// Priority, 0 to 7, 7 being the highest.
    pub priority: u8,
    /// Bitmap of the flags `MARKED`, `PAUSE`, `CONTROL`, `TRIMMED`, `RETURNED`, `FLOODED`, `PROBE` and `RESPONSE`.
    pub flags: u8,
    /// The part of the packet that only hosts understand.
    pub body: B,
}

impl<B: Default> Packet<B> {
    /// Flag: a switch has marked the packet "congestion experienced".
    pub const MARKED: u8 = 1;
    /// Flag: the packet is a PFC frame. The port that receives a PFC frame consumes it.
    pub const PAUSE: u8 = 2;
    /// Flag: the packet carries an acknowledgement or a notification and no data. Switches neither mark nor trim
    /// control packets, and count their drops separately.
    pub const CONTROL: u8 = 4;
    /// Flag: a switch has trimmed the packet, which therefore has no payload.
    pub const TRIMMED: u8 = 8;
    /// Flag: a switch has sent the packet's header back to its sender; `TRIMMED` is set too.
    pub const RETURNED: u8 = 16;
    /// Flag: the packet is a copy that a switch has flooded, because the destination has no entry in its MAC table. A
    /// host or switch that receives it discards it.
    pub const FLOODED: u8 = 32;

    /// Flag: the packet is a probe of the network or, with `RESPONSE`, the response to one.
    pub const PROBE: u8 = 64;
    /// Flag: the packet is the response to a probe.
    pub const RESPONSE: u8 = 128;

    /// A PFC frame that pauses exactly the priorities in `mask` and resumes the others.
    pub(crate) fn pause(mask: u8) -> Packet<B> {
        Packet {
            dst: HostId(u32::MAX),
            flow_hash: u32::from(mask),
            bytes: PAUSE_FRAME,
            priority: 0,
            flags: Self::PAUSE,
            body: B::default(),
        }
    }
    /// Whether the packet is a PFC frame.
    pub fn is_pause(&self) -> bool {
        self.flags & Self::PAUSE != 0
    }
    /// A PFC frame's bitmap of paused priorities; the frame resumes the others.
    pub fn paused_priorities(&self) -> u8 {
        self.flow_hash as u8
    }
    /// Whether a switch has marked the packet "congestion experienced".
    pub fn is_marked(&self) -> bool {
        self.flags & Self::MARKED != 0
    }
    /// Whether a switch has trimmed the packet.
    pub fn is_trimmed(&self) -> bool {
        self.flags & Self::TRIMMED != 0
    }
    /// Whether a transport of flows must ignore the packet: its payload was trimmed, or it is a flooded copy.
    pub fn is_void(&self) -> bool {
        self.flags & (Self::TRIMMED | Self::FLOODED) != 0
    }
    /// Whether the packet is a trimmed header on its way back to its sender.
    pub fn is_returned(&self) -> bool {
        self.flags & Self::RETURNED != 0
    }
}

/// Minimum length of an Ethernet frame in bytes; senders pad shorter frames to this length.
pub const MIN_FRAME: u16 = 64;
/// Length of a PFC frame in bytes.
pub const PAUSE_FRAME: u16 = 64;
