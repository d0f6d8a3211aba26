//! In-band network telemetry (INT): records about output ports that switches write into passing data packets.

use crate::codec::{Reader, put_u32};

/// The telemetry record that a switch writes into a data packet when it transmits the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HopRecord {
    /// Departure time of the packet's first bit, in nanoseconds modulo 2^32.
    pub timestamp_ns: u32,
    /// Number of bytes, of all priorities, that the output port has transmitted before this packet, modulo 2^32.
    pub tx_bytes: u32,
    /// Number of bytes, of all priorities, that are queued for the output port, without this packet.
    pub queue_bytes: u32,
    /// Rate of the output port's link, in Mbit/s.
    pub rate_mbps: u32,
}

/// The telemetry records of the hops (switch output ports) that a packet has passed, in order.
///
/// ```
/// use rnic_transport::telemetry::{HopRecord, Telemetry};
///
/// let mut telemetry = Telemetry::default();
/// for queue_bytes in [0, 30_000] {
///     telemetry.push(HopRecord { queue_bytes, rate_mbps: 100_000, ..HopRecord::default() });
/// }
/// let longest = telemetry.hops().iter().map(|hop| hop.queue_bytes).max();
/// assert_eq!(longest, Some(30_000));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Telemetry {
    hops: [HopRecord; Telemetry::MAX_HOPS],
    len: u8,
    /// Whether the packet has passed more than [`Telemetry::MAX_HOPS`] hops.
    truncated: bool,
}

impl Telemetry {
    /// Maximum number of hops whose records are stored. A further hop only sets the flag
    /// [`is_truncated`](Telemetry::is_truncated).
    pub const MAX_HOPS: usize = 8;

    /// Appends the record of a hop; if there is no space, only marks the telemetry as truncated.
    #[inline]
    pub fn push(&mut self, hop: HopRecord) {
        match self.hops.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = hop;
                self.len += 1;
            }
            None => self.truncated = true,
        }
    }

    /// Appends the records to a message between processes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.len, u8::from(self.truncated)]);
        for hop in self.hops() {
            for word in [hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps] {
                put_u32(out, word);
            }
        }
    }
    /// The records that [`Telemetry::write`] has written; `None` if the message is damaged.
    pub fn read(message: &mut Reader<'_>) -> Option<Telemetry> {
        let (hops, truncated) = (message.u8()?, message.u8()? != 0);
        let mut telemetry = Telemetry { truncated, ..Telemetry::default() };
        for _ in 0..hops {
            let (timestamp_ns, tx_bytes) = (message.u32()?, message.u32()?);
            let (queue_bytes, rate_mbps) = (message.u32()?, message.u32()?);
            telemetry.push(HopRecord { timestamp_ns, tx_bytes, queue_bytes, rate_mbps });
        }
        Some(telemetry)
    }

    /// The records in the order of the hops.
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
    fn more_than_max_hops_set_the_truncated_flag() {
        let mut telemetry = Telemetry::default();
        for number in 0..=Telemetry::MAX_HOPS as u32 {
            assert!(!telemetry.is_truncated());
            assert_eq!(telemetry.hops().len(), number as usize);
            telemetry.push(HopRecord { timestamp_ns: number, ..HopRecord::default() });
        }
        assert!(telemetry.is_truncated());
        assert!(telemetry.hops().iter().map(|hop| hop.timestamp_ns).eq(0..Telemetry::MAX_HOPS as u32));
    }

    #[test]
    fn records_survive_the_way_to_another_process() {
        let mut telemetry = Telemetry::default();
        for number in 0..=Telemetry::MAX_HOPS as u32 + 1 {
            let mut message = Vec::new();
            telemetry.write(&mut message);
            let mut reader = Reader::new(&message);
            assert_eq!(Telemetry::read(&mut reader), Some(telemetry));
            assert!(reader.is_empty());
            assert_eq!(Telemetry::read(&mut Reader::new(&message[..message.len() - 1])), None);
            telemetry.push(HopRecord { timestamp_ns: number, tx_bytes: 7, queue_bytes: 8, rate_mbps: 9 });
        }
    }
}
