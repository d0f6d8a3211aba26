//! Priority flow control (PFC, IEEE 802.1Qbb): a MAC control frame that tells its receiver to stop transmitting given
//! priorities.

use crate::bytes::{array, put, read_u16};
use crate::mac::MacAddr;

/// EtherType of MAC control frames, such as PAUSE and priority flow control.
pub const ETHERTYPE_MAC_CONTROL: u16 = 0x8808;

/// The contents of a PFC frame: a pause time for each enabled priority.
///
/// ```
/// use rnic_wire::{Content, Frame, LinkType, MacAddr, Pfc};
///
/// let pause = Pfc::of(3, 0xffff);
/// let frame = pause.emit(MacAddr([2, 0, 0, 0, 0, 1]));
/// assert_eq!(Frame::parse(LinkType::Ethernet, &frame).content, Content::Pfc(pause));
/// assert_eq!(pause.quanta_of(3), Some(0xffff));
/// assert_eq!(pause.quanta_of(4), None, "the frame neither pauses nor resumes priority 4");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pfc {
    /// Bitmap of the priorities that the frame pauses or resumes; bit 0 is priority 0.
    pub enabled: u8,
    /// Pause time by priority, in quanta of 512 bit times; 0 resumes the priority. Ignored for a priority whose
    /// `enabled` bit is clear.
    pub quanta: [u16; 8],
}

impl Pfc {
    /// Length of the frame in bytes, without frame check sequence: the minimum length of an Ethernet frame.
    pub const FRAME_LEN: usize = 60;
    /// Destination address of PFC frames. Bridges do not forward frames with this address, so a PFC frame reaches only
    /// the other end of the link.
    pub const DESTINATION: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);
    const OPCODE: u16 = 0x0101;
    /// Length in bytes of a PFC frame's content: opcode, class-enable vector and eight timers.
    const LEN: usize = 20;

    /// A frame that pauses one priority for `quanta` quanta, or resumes it if `quanta` is 0.
    ///
    /// # Panics
    /// If `priority` exceeds 7.
    pub const fn of(priority: u8, quanta: u16) -> Pfc {
        let mut pfc = Pfc { enabled: 1 << priority, quanta: [0; 8] };
        pfc.quanta[priority as usize] = quanta;
        pfc
    }

    /// The pause time of `priority` in quanta; `None` if the frame neither pauses nor resumes this priority.
    pub fn quanta_of(&self, priority: u8) -> Option<u16> {
        let quanta = self.quanta.get(usize::from(priority))?;
        (self.enabled >> priority & 1 == 1).then_some(*quanta)
    }

    /// Parses the bytes of a MAC control frame after the EtherType; `None` if it is not a PFC frame or too short.
    pub fn parse(bytes: &[u8]) -> Option<Pfc> {
        if bytes.len() < Pfc::LEN || read_u16(bytes, 0) != Pfc::OPCODE {
            return None;
        }
        let quanta = std::array::from_fn(|priority| read_u16(bytes, 4 + 2 * priority));
        let [_, enabled] = array(bytes, 2);
        Some(Pfc { enabled, quanta })
    }

    /// The Ethernet frame with these pause times, without frame check sequence. `source` is the sender's address.
    pub fn emit(&self, source: MacAddr) -> [u8; Pfc::FRAME_LEN] {
        let mut out = [0; Pfc::FRAME_LEN];
        put(&mut out, 0, &Pfc::DESTINATION.0);
        put(&mut out, 6, &source.0);
        put(&mut out, 12, &ETHERTYPE_MAC_CONTROL.to_be_bytes());
        put(&mut out, 14, &Pfc::OPCODE.to_be_bytes());
        put(&mut out, 16, &[0, self.enabled]);
        for (priority, quanta) in self.quanta.iter().enumerate() {
            put(&mut out, 18 + 2 * priority, &quanta.to_be_bytes());
        }
        out
    }
}
