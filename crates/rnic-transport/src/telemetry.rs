//! In-band network telemetry (INT): records about output ports that switches write into passing data packets.

use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// The telemetry record that a switch writes into a data packet when it transmits the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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

/// The telemetry records of the hops that a packet has passed, with room for every path that rnic simulates.
pub type Telemetry = Records<8>;

/// The telemetry records of the hops (switch output ports) that a packet has passed, in order; at most `N`.
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Records<const N: usize> {
    hops: [HopRecord; N],
    len: u8,
    /// Whether the packet has passed more than `N` hops.
    truncated: bool,
}

impl<const N: usize> Default for Records<N> {
    fn default() -> Records<N> {
        Records { hops: [HopRecord::default(); N], len: 0, truncated: false }
    }
}

impl Telemetry {
    /// Maximum number of hops whose records are stored. A further hop only sets the flag
    /// [`is_truncated`](Records::is_truncated).
    pub const MAX_HOPS: usize = 8;
}

impl<const N: usize> Records<N> {
    /// The records of `other`, as far as there is room.
    pub fn of<const M: usize>(other: &Records<M>) -> Records<N> {
        let mut records = Records { truncated: other.truncated, ..Records::default() };
        other.hops().iter().for_each(|hop| records.push(*hop));
        records
    }

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

/// Only the records that exist are serialised, so a packet with few hops is short.
impl<const N: usize> Serialize for Records<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.hops(), self.truncated).serialize(serializer)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Records<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Records<N>, D::Error> {
        let (hops, truncated) = <(Vec<HopRecord>, bool)>::deserialize(deserializer)?;
        if hops.len() > N {
            return Err(D::Error::custom(format_args!("{} telemetry records; accepted: at most {N}", hops.len())));
        }
        let mut telemetry = Records { truncated, ..Records::default() };
        hops.into_iter().for_each(|hop| telemetry.push(hop));
        Ok(telemetry)
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
            let message = postcard::to_stdvec(&telemetry).unwrap();
            assert_eq!(postcard::take_from_bytes::<Telemetry>(&message), Ok((telemetry, &[][..])));
            assert!(postcard::from_bytes::<Telemetry>(&message[..message.len() - 1]).is_err());
            telemetry.push(HopRecord { timestamp_ns: number, tx_bytes: 7, queue_bytes: 8, rate_mbps: 9 });
        }
        let too_long = postcard::to_stdvec(&([HopRecord::default(); Telemetry::MAX_HOPS + 1].to_vec(), false)).unwrap();
        assert!(postcard::from_bytes::<Telemetry>(&too_long).is_err());
    }
}
