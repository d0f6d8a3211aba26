//! A congestion window in packets, which the congestion controls AIMD, CUBIC, DCTCP and Swift use.

use super::{AckSample, Kind, Parameter, Settings};
use crate::config::FlowConfig;
use crate::{BitRate, Psn};

/// The parameter `initial_window`: the congestion window of a new flow.
pub(super) const INITIAL_WINDOW: Parameter = Parameter::derived(
    "initial_window",
    Kind::Count { min: 1, max: Psn::MAX_WINDOW as u64 },
    "window of a new flow in packets, by default the BDP of the longest path; IRN paper (section 4.1: flows start at line rate)",
);

/// The value of the parameter `initial_window`, in packets.
pub(super) fn initial_window(settings: &Settings, flow: &FlowConfig) -> Result<f64, String> {
    match settings.value(INITIAL_WINDOW.name) {
        None => Ok(f64::from(flow.bdp.max(1))),
        Some(_) => settings.count(INITIAL_WINDOW.name).map(|packets| packets as f64),
    }
}

/// A congestion window in packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Window {
    /// Size of the window in packets, with a fraction.
    pub(super) packets: f64,
    /// Number of packets sent and not acknowledged cumulatively, as of the last [`AckSample`]. It falls only with
    /// acknowledgements. The sample's `in_flight` also falls when go-back-N returns to an earlier packet, although the
    /// packets after it are still unacknowledged.
    pub(super) flight: u32,
    /// Number of packets to be acknowledged before [`may_cut`](Window::may_cut) allows the next reduction of the
    /// window.
    hold: u32,
}

impl Window {
    pub(super) fn new(packets: f64) -> Window {
        Window { packets, flight: 0, hold: 0 }
    }

    /// Updates the counts of unacknowledged packets, `flight` and `hold`, from the sample of an ACK or NACK. The
    /// congestion control must call this function before it reacts to the sample.
    #[inline]
    pub(super) fn note(&mut self, sample: &AckSample) {
        self.flight = self.flight.saturating_sub(sample.acked).max(sample.in_flight);
        self.hold = self.hold.saturating_sub(sample.acked);
    }

    /// Whether the congestion window limited the flow before the ACK or NACK of `sample` arrived. A window that does
    /// not limit the flow must not grow, because the sample says nothing about the network's capacity for a larger
    /// window.
    #[inline]
    pub(super) fn was_full(&self, sample: &AckSample) -> bool {
        sample.in_flight.saturating_add(sample.acked) >= self.whole()
    }

    /// Grows the window by `increase` packets per window of acknowledged packets (TCP's congestion avoidance).
    #[inline]
    pub(super) fn grow(&mut self, increase: f64, acked: u32) {
        self.packets += increase * f64::from(acked) / self.packets;
    }

    /// Whether a loss or CE mark may reduce the window: all packets that were in flight at the last reduction are
    /// acknowledged.
    pub(super) fn may_cut(&self) -> bool {
        self.hold == 0
    }

    /// Reduces the window: multiplies it by `factor`, to at least one packet.
    pub(super) fn cut(&mut self, factor: f64) {
        self.packets = (self.packets * factor).max(1.0);
        self.hold = self.flight;
    }

    /// The window in whole packets, rounded down, at least 1: the maximum number of packets in flight.
    #[inline]
    pub(super) fn whole(&self) -> u32 {
        (self.packets as u32).max(1)
    }
}

/// The rate of a congestion control that limits only the window: no limit of the rate.
pub(super) const UNPACED: BitRate = BitRate::from_bps(u64::MAX);
