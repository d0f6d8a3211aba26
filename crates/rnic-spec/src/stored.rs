//! Serialisation of times and rates in a run's records: as integers in picoseconds and in bits per second.

use rnic_transport::{BitRate, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Serialises a [`Time`] as an integer number of picoseconds.
pub(super) mod time {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
        time.as_ps().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        u64::deserialize(deserializer).map(Time::from_ps)
    }
}

/// Serialises an optional [`Time`] as an integer number of picoseconds, or as null.
pub(super) mod optional_time {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(Time::as_ps).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
        Ok(Option::deserialize(deserializer)?.map(Time::from_ps))
    }
}

/// Serialises a [`BitRate`] as an integer number of bits per second.
pub(super) mod rate {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(rate: &BitRate, serializer: S) -> Result<S::Ok, S::Error> {
        rate.as_bps().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BitRate, D::Error> {
        u64::deserialize(deserializer).map(BitRate::from_bps)
    }
}
