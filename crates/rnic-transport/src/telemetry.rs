//! In-band network telemetry: what switches write into the packets that pass.

/// What a switch writes as a packet leaves by one of its outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HopRecord {
    /// When the packet's first bit left, in nanoseconds modulo 2^32.
    pub timestamp_ns: u32,
    /// Bytes that the output has sent before this packet, all priorities, modulo 2^32.
    pub tx_bytes: u32,
    /// Bytes that still wait for the output, all priorities, without this packet.
    pub queue_bytes: u32,
    /// Rate of the output's link, in Mbit/s.
    pub rate_mbps: u32,
}

/// The records of the hops that a packet has passed, first to last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Telemetry {
    hops: [HopRecord; Telemetry::MOST],
    len: u8,
    /// There were more hops than room.
    truncated: bool,
}

impl Telemetry {
    /// Most hops that are recorded; further ones leave only a sign that there were more.
    pub const MOST: usize = 8;

    /// Adds the record of one more hop.
    #[inline]
    pub fn push(&mut self, hop: HopRecord) {
        match self.hops.get_mut(usize::from(self.len)) {
            Some(place) => {
                *place = hop;
                self.len += 1;
            }
            None => self.truncated = true,
        }
    }

    /// The records, first to last.
    #[inline]
    pub fn hops(&self) -> &[HopRecord] {
        &self.hops[..usize::from(self.len)]
    }

    /// Whether the packet has passed more hops than are recorded.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_hops_than_room_leave_a_sign() {
        let mut telemetry = Telemetry::default();
        for number in 0..=Telemetry::MOST as u32 {
            assert!(!telemetry.is_truncated());
            assert_eq!(telemetry.hops().len(), number as usize);
            telemetry.push(HopRecord { timestamp_ns: number, ..HopRecord::default() });
        }
        assert!(telemetry.is_truncated());
        assert!(telemetry.hops().iter().map(|hop| hop.timestamp_ns).eq(0..Telemetry::MOST as u32));
    }
}
