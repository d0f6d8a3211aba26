//! The counters of a node at one time, as a source reads them.

use crate::exposition::Metrics;
use rnic_transport::BitRate;

/// The counters of a node at one time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reading {
    /// Counters of the priorities of ports.
    pub priorities: Vec<Priority>,
    /// Counters of egress queues.
    pub queues: Vec<Queue>,
    /// Counters of ingress priority groups.
    pub groups: Vec<Group>,
    /// Metrics that only this kind of source has, such as those of node_exporter.
    pub other: Metrics,
    /// The parts of the source, and whether each could be read.
    pub sources: Vec<(&'static str, bool)>,
    /// Number of values that are no numbers.
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
    /// Pauses of the transmitter that began.
    pub pauses: Option<u64>,
    /// Time for which the transmitter was paused.
    pub paused: Paused,
    /// Microseconds for which this port paused its peer.
    pub pausing_us: Option<f64>,
    /// Packets received and sent.
    pub packets: [Option<u64>; 2],
    /// Bytes received and sent.
    pub bytes: [Option<u64>; 2],
    /// Received packets that were dropped for lack of buffer.
    pub dropped: Option<u64>,
}

/// Time for which a transmitter was paused.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Paused {
    /// Microseconds that the device measured.
    Measured(f64),
    /// Microseconds that the switch's software estimated.
    Estimated(f64),
    /// The device has no such counter: the time is estimated from pause frames.
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
