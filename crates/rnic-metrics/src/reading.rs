//! The counters of a node at one point in time, as a source reads them.

use crate::exposition::Metrics;
use rnic_transport::BitRate;

/// The counters of a node at one point in time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reading {
    /// Counters of the priorities of ports.
    pub priorities: Vec<Priority>,
    /// Counters of egress queues.
    pub queues: Vec<Queue>,
    /// Counters of ingress priority groups.
    pub groups: Vec<Group>,
    /// Metrics that only this kind of source has, such as the metrics of node_exporter.
    pub other: Metrics,
    /// The parts of the source, each with whether it could be read.
    pub sources: Vec<(&'static str, bool)>,
    /// Number of values that are not numbers.
    pub malformed: u64,
}

/// Counters of one priority of a port. `None`: the device has no such counter.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Priority {
    /// Name of the port.
    pub port: String,
    /// The PFC priority.
    pub priority: u8,
    /// Speed of the port.
    pub speed: Option<BitRate>,
    /// Pause frames received.
    pub frames_received: Option<u64>,
    /// Pause frames sent.
    pub frames_sent: Option<u64>,
    /// Number of times that the transmitter was paused.
    pub pauses: Option<u64>,
    /// Total time for which the transmitter was paused.
    pub paused: Paused,
    /// Total time in microseconds for which this port paused its peer.
    pub pausing_us: Option<f64>,
    /// Packets received and sent.
    pub packets: [Option<u64>; 2],
    /// Bytes received and sent.
    pub bytes: [Option<u64>; 2],
    /// Received packets that were dropped for lack of buffer.
    pub dropped: Option<u64>,
}

/// Total time for which a transmitter was paused, and its origin.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Paused {
    /// Time in microseconds that the device measured.
    Measured(f64),
    /// Time in microseconds that the switch's software estimated.
    Estimated(f64),
    /// The device has no such counter. The recorder estimates the time from received pause frames.
    #[default]
    Unknown,
}

/// Counters of an egress queue.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Queue {
    /// Name of the port.
    pub port: String,
    /// Number of the queue; `None` for all queues of the port together.
    pub queue: Option<u8>,
    /// Packets sent.
    pub packets: Option<u64>,
    /// Bytes sent.
    pub bytes: Option<u64>,
    /// Packets dropped.
    pub dropped: Option<u64>,
    /// CE-marked packets.
    pub marked: Option<u64>,
    /// Trimmed packets.
    pub trimmed: Option<u64>,
    /// Bytes in the queue.
    pub occupancy: Option<u64>,
    /// Maximum number of bytes in the queue since the watermark was cleared.
    pub watermark: Option<u64>,
}

/// Counters of an ingress priority group.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Group {
    /// Name of the port.
    pub port: String,
    /// Number of the group.
    pub group: u8,
    /// Packets dropped.
    pub dropped: Option<u64>,
    /// Maximum number of bytes in the shared buffer since the watermark was cleared.
    pub shared_watermark: Option<u64>,
    /// Maximum number of bytes in the headroom since the watermark was cleared.
    pub headroom_watermark: Option<u64>,
}
