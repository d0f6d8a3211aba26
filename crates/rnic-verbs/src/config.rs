//! Limits and settings of a [`Device`](crate::Device), which holds the state of one RDMA NIC.

use crate::flow::Congestion;
use rnic_transport::congestion::{NoCongestionControl, Settings};
use rnic_transport::{BitRate, Time, Timeouts};

/// Maximum number and size of the objects of a device. The limits bound the device's memory, whatever its peers and
/// applications do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of queue pairs, at most 65,536.
    pub queue_pairs: u32,
    /// Maximum number of completion queues.
    pub completion_queues: u32,
    /// Maximum capacity of a completion queue, in completions.
    pub completions: u32,
    /// Maximum number of shared receive queues.
    pub shared_receive_queues: u32,
    /// Maximum capacity of a send queue or receive queue, in work requests.
    pub work_requests: u32,
    /// Maximum number of scatter-gather elements of a work request.
    pub scatter_gather: u32,
    /// Maximum length in bytes of the inline data of a send request.
    pub inline: u32,
    /// Maximum number of memory regions.
    pub regions: u32,
    /// Maximum number of memory windows.
    pub windows: u32,
    /// Maximum number of protection domains that applications create by [`Verbs::create_pd`](crate::Verbs::create_pd).
    pub protection_domains: u32,
    /// Maximum total length of all memory regions, in bytes.
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
            windows: 65_536,
            protection_domains: 65_536,
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
    /// Maximum number and size of the device's objects.
    pub limits: Limits,
    /// Rate of the device's link, which is also the initial rate of a connection.
    pub line_rate: BitRate,
    /// Approximate round-trip time of the unloaded network. Congestion controls that measure round-trip times begin
    /// with this value.
    pub base_rtt: Time,
    /// Maximum number of packets in flight on a connection (the IRN paper's BDP-FC), at most
    /// [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT).
    pub in_flight: u32,
    /// Maximum number of payload bytes in flight on a connection. The smaller of this limit and `in_flight` applies;
    /// one packet may always be in flight.
    pub in_flight_bytes: u64,
    /// Retransmission timeouts of IRN connections. The timeout of an RC connection is an attribute of the connection
    /// ([`SendAttributes::timeout`](crate::SendAttributes::timeout)).
    pub timeouts: Timeouts,
    /// Congestion control of queue pairs for which the application chooses none
    /// ([`Device::set_congestion`](crate::Device::set_congestion)).
    pub congestion: Congestion,
    /// Seed of the generator of memory keys, first PSNs and queue pair numbers. The seed must be secret: a peer that
    /// knows it can compute the keys.
    pub seed: u64,
    /// Which queue pair numbers the device draws, if several devices share an address.
    pub shard: Shard,
    /// When the device refuses a send request that it cannot execute: its memory cannot be used, the transport service
    /// lacks the operation, or the length does not fit. `false`: when the request is posted, with a reason. `true`: as
    /// a NIC in hardware does, when the request's turn comes; the request then completes with an error, and the queue
    /// pair goes into the error state. Interfaces for programs that rely on this set it. The memory of receives is
    /// refused at the same time as that of send requests.
    pub late_checks: bool,
    /// Whether a memory region with a remote right gets one number for both of its keys. Many programs send their
    /// local key to the peer, because many NICs give regions one key. Regions without remote rights always have two
    /// different keys.
    pub one_key: bool,
}

/// A device's place among several devices that share an IP address and a UDP port. The device draws only queue pair
/// numbers (QPNs) that leave the remainder `index` when divided by `count`, so that the QPN of a packet tells for which
/// device it is.
///
/// ```
/// use rnic_verbs::Shard;
///
/// let third = Shard { index: 2, count: 4 };
/// assert!(third.has(0x12_3456) && !third.has(0x12_3457));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// The device's number among the devices, from 0 on.
    pub index: u32,
    /// Number of the devices, 1 or more. Where the kernel hands packets to the devices, at most [`Shard::MAX`].
    pub count: u32,
}

impl Shard {
    /// Maximum number of devices to which a program of the kernel hands the packets of an address. Each still has
    /// 262,144 queue pair numbers to draw from.
    pub const MAX: u32 = 64;

    /// Whether the device draws this queue pair number.
    pub fn has(self, qpn: u32) -> bool {
        qpn % self.count.max(1) == self.index
    }
}

impl Default for Shard {
    /// The only device.
    fn default() -> Shard {
        Shard { index: 0, count: 1 }
    }
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
            congestion: Congestion::of::<NoCongestionControl>(Settings::new(&[])),
            seed: 0,
            shard: Shard::default(),
            late_checks: false,
            one_key: false,
        }
    }
}
