//! A packet in the fabric.

use rnic_transport::telemetry::HopRecord;

/// What a packet carries for the hosts, as far as switches have to do with it.
pub trait Body: Copy + Default + Send {
    /// Whether switches write what they know into data packets ([`Body::stamp`]).
    const TELEMETRY: bool = false;

    /// A switch sends the packet on.
    fn stamp(&mut self, _hop: HopRecord) {}
    /// The host that sent the packet, if the body tells: a switch that cannot pass on even the header can return it.
    fn source(&self) -> Option<u32> {
        None
    }
}

/// A number of the owner's choice.
impl Body for u32 {}

/// What the fabric knows of a packet, around a body that only the hosts understand. Kept small: it is copied at every
/// hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Packet<B> {
    /// Receiving host.
    pub dst: u32,
    /// Hash of the flow it belongs to: ECMP's input. In a pause frame: the mask of paused priorities.
    pub flow_hash: u32,
    /// Frame length from Ethernet header to frame check sequence, at least [`MIN_FRAME`].
    pub bytes: u16,
    /// Priority, 0 to 7; higher is served first.
    pub priority: u8,
    /// Bits `MARKED`, `PAUSE`, `CONTROL`, `TRIMMED`, `RETURNED`.
    pub flags: u8,
    /// What the host's transport put in.
    pub body: B,
}

impl<B: Default> Packet<B> {
    /// A switch marked it "congestion experienced".
    pub const MARKED: u8 = 1;
    /// It is a PFC frame, consumed by the port that receives it.
    pub const PAUSE: u8 = 2;
    /// It carries no data but an acknowledgement or notification; drops of such packets are counted apart.
    pub const CONTROL: u8 = 4;
    /// A switch took its payload.
    pub const TRIMMED: u8 = 8;
    /// A switch sent what was left of it back to its sender; it is `TRIMMED` too.
    pub const RETURNED: u8 = 16;

    /// A PFC frame that pauses exactly the priorities in `mask` and resumes the others.
    pub(crate) fn pause(mask: u8) -> Packet<B> {
        Packet {
            dst: u32::MAX,
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
    /// A PFC frame's mask of paused priorities; it resumes the others.
    pub fn paused_priorities(&self) -> u8 {
        self.flow_hash as u8
    }
    /// Whether a switch marked it "congestion experienced".
    pub fn is_marked(&self) -> bool {
        self.flags & Self::MARKED != 0
    }
    /// Whether a switch took its payload.
    pub fn is_trimmed(&self) -> bool {
        self.flags & Self::TRIMMED != 0
    }
    /// Whether it comes back to its sender.
    pub fn is_returned(&self) -> bool {
        self.flags & Self::RETURNED != 0
    }
}

/// Shortest Ethernet frame; shorter ones are padded to it.
pub const MIN_FRAME: u16 = 64;
/// Length of a PFC frame.
pub const PAUSE_FRAME: u16 = 64;
