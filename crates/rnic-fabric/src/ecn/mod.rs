//! ECN at a simulated switch: when the switch marks a data packet "congestion experienced".

mod red;

pub(crate) use red::Marker;

use rnic_transport::congestion::Marking;

/// ECN marking of data packets according to the length of the egress queue of their output and priority.
///
/// The egress queue consists of all packets in the switch that wait for the output in the priority, whichever input
/// they arrived on. Neither the packet that may be marked nor the packet in transmission counts towards its length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EcnSpec {
    /// Thresholds of the queue length, in bytes, and the marking probability between the thresholds.
    pub marking: Marking,
    /// Which queue decides about a mark: the queue that the packet joins, or the queue that the packet leaves behind.
    pub mark_on: MarkOn,
}

/// When a switch decides whether to mark a packet. Every kind of buffer supports both choices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum MarkOn {
    /// The switch decides when the packet joins the queue, by the length of the queue in front of the packet.
    Enqueue,
    /// The switch decides when the packet leaves the queue, by the length of the queue behind the packet. Such a mark
    /// reports the current queue, not the queue at the packet's arrival.
    Dequeue,
}

impl MarkOn {
    /// Name of the choice in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            MarkOn::Enqueue => "enqueue",
            MarkOn::Dequeue => "dequeue",
        }
    }
}
