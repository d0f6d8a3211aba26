//! What window-based congestion controls share.

use super::{AckSample, Kind, Parameter, Settings};
use crate::config::FlowConfig;
use crate::{BitRate, Psn};

/// The parameter for the window of a flow that begins.
pub(super) const INITIAL_WINDOW: Parameter = Parameter::derived(
    "initial_window",
    Kind::Count { least: 1, most: Psn::MAX_WINDOW as u64 },
    "packets in flight of a new flow, the longest path's BDP; IRN paper (section 4.1: flows start at line rate)",
);

/// Its value.
pub(super) fn initial_window(settings: &Settings, flow: &FlowConfig) -> Result<f64, String> {
    match settings.value(INITIAL_WINDOW.name) {
        None => Ok(f64::from(flow.bdp.max(1))),
        Some(_) => settings.count(INITIAL_WINDOW.name).map(|packets| packets as f64),
    }
}

/// A congestion window in packets, cut at most once for what is in flight at the time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Window {
    pub(super) packets: f64,
    /// Packets sent and not acknowledged cumulatively, as far as samples told. Go-back-N counts down what is in flight when it
    /// goes back, but those packets are still to be acknowledged: so this falls only with acknowledgements.
    pub(super) flight: u32,
    /// Packets to be acknowledged before the next cut for a cause that may repeat within a round trip.
    hold: u32,
}

impl Window {
    pub(super) fn new(packets: f64) -> Window {
        Window { packets, flight: 0, hold: 0 }
    }

    /// What holds before any reaction to a sample.
    #[inline]
    pub(super) fn note(&mut self, sample: &AckSample) {
        self.flight = self.flight.saturating_sub(sample.acked).max(sample.in_flight);
        self.hold = self.hold.saturating_sub(sample.acked);
    }

    /// Whether the window kept the flow from sending more when `sample` was under way. One that does not bind says nothing about
    /// the network, and must not grow.
    #[inline]
    pub(super) fn was_full(&self, sample: &AckSample) -> bool {
        sample.in_flight.saturating_add(sample.acked) >= self.whole()
    }

    /// `increase` packets for each window acknowledged (TCP's congestion avoidance).
    #[inline]
    pub(super) fn grow(&mut self, increase: f64, acked: u32) {
        self.packets += increase * f64::from(acked) / self.packets;
    }

    /// Whether all that was in flight at the last cut is acknowledged.
    pub(super) fn may_cut(&self) -> bool {
        self.hold == 0
    }

    pub(super) fn cut(&mut self, factor: f64) {
        self.packets = (self.packets * factor).max(1.0);
        self.hold = self.flight;
    }

    /// Packets that may be in flight.
    #[inline]
    pub(super) fn whole(&self) -> u32 {
        (self.packets as u32).max(1)
    }
}

/// The rate of what is governed by its window alone.
pub(super) const UNPACED: BitRate = BitRate::from_bps(u64::MAX);
