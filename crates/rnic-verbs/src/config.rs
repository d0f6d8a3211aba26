//! Limits and settings of a device.

use crate::flow::Congestion;
use rnic_transport::congestion::{NoCongestionControl, Settings};
use rnic_transport::{BitRate, Time, Timeouts};

/// Maximum number and size of the objects of a device. They bound its memory, whatever peers and applications do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Queue pairs, at most 65,536.
    pub queue_pairs: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Completions that a completion queue holds.
    pub completions: u32,
    /// Shared receive queues.
    pub shared_receive_queues: u32,
    /// Work requests that a send queue or receive queue holds.
    pub work_requests: u32,
    /// Scatter-gather elements of a work request.
    pub scatter_gather: u32,
    /// Bytes of inline data of a send.
    pub inline: u32,
    /// Memory regions.
    pub regions: u32,
    /// Bytes of all memory regions together.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            queue_pairs: 16_384,
            completion_queues: 16_384,
            completions: 1 << 22,
            shared_receive_queues: 1_024,
            work_requests: 32_768,
            scatter_gather: 32,
            inline: 1_024,
            regions: 65_536,
            bytes: 1 << 40,
        }
    }
}

/// Settings of a device.
///
/// ```
/// use rnic_verbs::{Congestion, Device, DeviceConfig};
///
/// let congestion = Congestion::named("dcqcn").expect("it is registered");
/// let device = Device::new(DeviceConfig { congestion, seed: 7, ..DeviceConfig::default() });
/// assert_eq!(device.config().congestion.name(), "dcqcn");
/// ```
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Maximum number and size of objects.
    pub limits: Limits,
    /// Rate of the link, at which flows start.
    pub line_rate: BitRate,
    /// Approximate round-trip time without load: congestion controls that measure round-trip times start from it.
    pub base_rtt: Time,
    /// Maximum packets in flight on a connection (BDP-FC), at most [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT).
    pub in_flight: u32,
    /// Maximum payload bytes in flight on a connection. The smaller of the two limits applies; one packet may always be
    /// in flight.
    pub in_flight_bytes: u64,
    /// IRN: retransmission timeouts. For RC they are an attribute of each connection
    /// ([`SendAttributes`](crate::SendAttributes)).
    pub timeouts: Timeouts,
    /// IRN: timeouts within this time use up one retry together. A short timeout recovers quickly from a lost
    /// retransmission; without this setting it would also abort requests to a peer that is busy for a while.
    pub patience: Time,
    /// Congestion control of queue pairs that choose none.
    pub congestion: Congestion,
    /// Seed of keys, first PSNs and queue pair numbers. A peer that knows the seed can guess keys.
    pub seed: u64,
}

impl Default for DeviceConfig {
    fn default() -> DeviceConfig {
        DeviceConfig {
            limits: Limits::default(),
            line_rate: BitRate::from_gbps(100),
            base_rtt: Time::from_us(100),
            in_flight: 256,
            in_flight_bytes: u64::MAX,
            timeouts: Timeouts {
                high: Time::from_ms(20),
                low: Time::from_ms(5),
                low_packets: 3,
                dynamic: Some(Time::from_ms(2)),
            },
            patience: Time::ZERO,
            congestion: Congestion::of::<NoCongestionControl>(Settings::new(&[])),
            seed: 0,
        }
    }
}
