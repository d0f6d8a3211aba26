//! Priority flow control (IEEE 802.1Qbb): a MAC control frame that pauses priorities of its receiver's transmitter.

use crate::bytes::{array, put, read_u16};
use crate::frame::{ETHERTYPE_MAC_CONTROL, MacAddr};

/// What a PFC frame asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pfc {
    /// Priorities that the frame is about, bit 0 for priority 0.
    pub enabled: u8,
    /// By priority: how long to pause, in quanta of 512 bit times; 0 resumes. Without meaning where `enabled` is clear.
    pub quanta: [u16; 8],
}

impl Pfc {
    /// Bytes of a frame, without frame check sequence: the smallest that Ethernet has.
    pub const FRAME_LEN: usize = 60;
    /// To whom PFC frames go: the neighbour on the cable, no bridge forwards them.
    pub const DESTINATION: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);
    const OPCODE: u16 = 0x0101;
    /// Opcode, class-enable vector and eight timers.
    const LEN: usize = 20;

    /// Pauses one priority for `quanta`; 0 resumes it.
    ///
    /// # Panics
    /// If `priority` exceeds 7.
    pub const fn of(priority: u8, quanta: u16) -> Pfc {
        let mut pfc = Pfc { enabled: 1 << priority, quanta: [0; 8] };
        pfc.quanta[priority as usize] = quanta;
        pfc
    }

    /// How long a priority is to be paused, in quanta; `None` if the frame says nothing about it.
    pub fn quanta_of(&self, priority: u8) -> Option<u16> {
        let quanta = self.quanta.get(usize::from(priority))?;
        (self.enabled >> priority & 1 == 1).then_some(*quanta)
    }

    /// Reads what follows the EtherType; `None` if it is another MAC control frame or too short.
    pub fn parse(bytes: &[u8]) -> Option<Pfc> {
        if bytes.len() < Pfc::LEN || read_u16(bytes, 0) != Pfc::OPCODE {
            return None;
        }
        let quanta = std::array::from_fn(|priority| read_u16(bytes, 4 + 2 * priority));
        let [_, enabled] = array(bytes, 2);
        Some(Pfc { enabled, quanta })
    }

    /// The frame, without frame check sequence.
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
