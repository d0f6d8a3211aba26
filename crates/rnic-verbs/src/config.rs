//! What a device is made with.

use crate::flow::Congestion;
use rnic_transport::congestion::{NoCongestionControl, Settings};
use rnic_transport::{BitRate, Time, Timeouts};

/// Most of everything that a device gives out: what bounds its memory, whatever peers and applications do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Queue pairs, at most 65,536.
    pub queue_pairs: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Places of a completion queue.
    pub completions: u32,
    /// Shared receive queues.
    pub shared_receive_queues: u32,
    /// Work requests of a queue.
    pub work_requests: u32,
    /// Scatter-gather elements of a work request.
    pub scatter_gather: u32,
    /// Bytes of an inline send.
    pub inline: u32,
    /// Memory regions.
    pub regions: u32,
    /// Bytes of all memory regions.
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

/// How a device behaves.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// What is possible at most.
    pub limits: Limits,
    /// Rate of the link: what flows start at.
    pub line_rate: BitRate,
    /// Round-trip time without load, about; where congestion controls start from.
    pub base_rtt: Time,
    /// Most packets in flight on a connection (BDP-FC), at most [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT).
    pub in_flight: u32,
    /// The same in bytes of payload; the smaller of the two counts, and one packet is always possible.
    pub in_flight_bytes: u64,
    /// IRN: its retransmission timeouts. RC's come with each connection.
    pub timeouts: Timeouts,
    /// IRN: timeouts within this time use up one retry. So a short timeout, which makes little of a lost retransmission, does not
    /// make a short patience with a peer that is busy.
    pub patience: Time,
    /// Congestion control of queue pairs that choose none.
    pub congestion: Congestion,
    /// Where keys and numbers of queue pairs come from: to be unpredictable for a peer, it must be.
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
