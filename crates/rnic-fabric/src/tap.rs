//! Taps: records of the frames of single ports, for captures and for the life of single packets.

use crate::ids::HostId;
use crate::packet::Packet;
use rnic_transport::Time;

/// What happened to a frame that a tap has recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The port transmitted it; its last bit arrives at the peer at this time.
    Arrives(Time),
    /// The port transmitted it, and the link lost it.
    Lost,
    /// The port transmitted it while its link was down.
    LinkDown,
    /// It arrived at the port, and the port's node dropped it.
    Dropped,
}

/// A frame that a tapped port (a port that records its frames) has transmitted, or that arrived at the port and was
/// dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tapped<B> {
    /// Time at which the first bit of the frame left the port; of a dropped frame, the time of its drop.
    pub at: Time,
    /// The frame.
    pub packet: Packet<B>,
    /// What happened to it.
    pub fate: Fate,
}

/// Which frames a tap records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapFilter {
    /// Only frames for one of these hosts; `None`: all frames, pause frames included.
    pub hosts: Option<[HostId; 2]>,
    /// Maximum number of frames of a port; later frames are not recorded.
    pub max: usize,
}

impl TapFilter {
    /// All frames.
    pub const ALL: TapFilter = TapFilter { hosts: None, max: usize::MAX };
}

/// The tap of one port.
pub(crate) struct Tap<B> {
    filter: TapFilter,
    frames: Vec<Tapped<B>>,
}

impl<B: Copy> Tap<B> {
    pub(crate) fn new(filter: TapFilter) -> Tap<B> {
        Tap { filter, frames: Vec::new() }
    }

    pub(crate) fn frames(&self) -> &[Tapped<B>] {
        &self.frames
    }

    /// Takes the recorded frames.
    pub(crate) fn take(&mut self) -> Vec<Tapped<B>> {
        std::mem::take(&mut self.frames)
    }

    /// Records a frame if the filter wants it.
    pub(crate) fn record(&mut self, now: u64, packet: &Packet<B>, fate: Fate) {
        let is_wanted = self.filter.hosts.is_none_or(|hosts| hosts.contains(&packet.dst));
        if is_wanted && self.frames.len() < self.filter.max {
            self.frames.push(Tapped { at: Time::from_ps(now), packet: *packet, fate });
        }
    }
}
