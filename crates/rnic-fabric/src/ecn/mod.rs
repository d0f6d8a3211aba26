//! ECN: when a switch marks a data packet "congestion experienced".

mod red;

pub(crate) use red::Marker;

use rnic_transport::congestion::Marking;

/// ECN marking of data packets by the egress queue of their output and priority.
///
/// That queue is what the switch holds for the output in the priority, whatever inputs the packets came by. Neither the
/// packet that is marked nor a packet that is being transmitted counts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EcnSpec {
    /// Thresholds of the queue, in bytes, and the probability between them.
    pub marking: Marking,
    /// Whether a packet is marked by the queue that it joins or by the one that it leaves behind.
    pub mark_on: MarkOn,
}

/// When a switch decides whether to mark a packet. Every buffer can do both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum MarkOn {
    /// As the packet joins the queue, by the queue in front of it.
    Enqueue,
    /// As the packet leaves the queue, by the queue behind it: the mark then tells of the queue as it is now.
    Dequeue,
}

impl MarkOn {
    /// Its name in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            MarkOn::Enqueue => "enqueue",
            MarkOn::Dequeue => "dequeue",
        }
    }
}
