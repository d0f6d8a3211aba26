//! A packet in the fabric.

use crate::ids::HostId;
use rnic_transport::telemetry::HopRecord;

/// The part of a packet that only hosts understand, with the few functions that switches need of it.
pub trait Body: Copy + Default + Send {
    /// Whether switches write telemetry records into data packets ([`Body::stamp`]).
    const TELEMETRY: bool = false;

    /// Adds the telemetry record of a switch that sends the packet on.
    fn stamp(&mut self, _hop: HopRecord) {}
    /// The host that sent the packet, if the body names it: a switch can then return a header that has no room.
    fn source(&self) -> Option<HostId> {
        None
    }
}

/// A number whose meaning the hosts choose.
impl Body for u32 {}

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
    /// Hash of its flow, or any entropy that the sender chooses: the input of ECMP. In a pause frame: the bitmap of
    /// paused priorities.
    pub flow_hash: u32,
    /// Frame length from Ethernet header to frame check sequence, at least [`MIN_FRAME`].
    pub bytes: u16,
    /// Priority, 0 to 7, 7 being the highest.
    pub priority: u8,
    /// Bits `MARKED`, `PAUSE`, `CONTROL`, `TRIMMED`, `RETURNED`.
    pub flags: u8,
    /// The part that only hosts understand.
    pub body: B,
}

impl<B: Default> Packet<B> {
    /// A switch marked it "congestion experienced".
    pub const MARKED: u8 = 1;
    /// It is a PFC frame, consumed by the port that receives it.
    pub const PAUSE: u8 = 2;
    /// It carries an acknowledgement or notification and no data; drops of such packets are counted separately.
    pub const CONTROL: u8 = 4;
    /// A switch trimmed it: it has no payload.
    pub const TRIMMED: u8 = 8;
    /// A switch sent its header back to its sender; it is `TRIMMED` too.
    pub const RETURNED: u8 = 16;

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
    /// Whether it is a PFC frame.
    pub fn is_pause(&self) -> bool {
        self.flags & Self::PAUSE != 0
    }
    /// A PFC frame's bitmap of paused priorities; the frame resumes the others.
    pub fn paused_priorities(&self) -> u8 {
        self.flow_hash as u8
    }
    /// Whether a switch marked it "congestion experienced".
    pub fn is_marked(&self) -> bool {
        self.flags & Self::MARKED != 0
    }
    /// Whether a switch trimmed it.
    pub fn is_trimmed(&self) -> bool {
        self.flags & Self::TRIMMED != 0
    }
    /// Whether it is a header on its way back to its sender.
    pub fn is_returned(&self) -> bool {
        self.flags & Self::RETURNED != 0
    }
}

/// Shortest Ethernet frame; shorter ones are padded to it.
pub const MIN_FRAME: u16 = 64;
/// Length of a PFC frame.
pub const PAUSE_FRAME: u16 = 64;
