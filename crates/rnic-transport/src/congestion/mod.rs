//! Congestion control: how fast a flow may send, and how much it may have in flight.

mod none;

pub use none::NoCongestionControl;

use crate::config::FlowConfig;
use crate::{BitRate, Time};

/// What one ACK or NACK tells the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckSample {
    /// When it arrived.
    pub now: Time,
    /// Time since the departure of the data packet that caused it.
    pub rtt: Time,
    /// Packets that it newly acknowledges cumulatively.
    pub acked: u32,
    /// Packets in flight after it.
    pub in_flight: u32,
    /// Whether the data packet bore a congestion mark.
    pub marked: bool,
}

/// How a loss was noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossSignal {
    /// The receiver asked for a packet: once per recovery episode.
    Nack,
    /// A retransmission timer fired.
    Timeout,
}

/// One flow's congestion control. All methods but [`rate`](CongestionControl::rate) and
/// [`window`](CongestionControl::window) have empty defaults: implement what the algorithm listens to.
///
/// An implementation is a plain value without clocks, sockets or randomness of its own, so that a run is reproducible; the
/// flow that owns it is compiled for it, so nothing here is dispatched at run time.
pub trait CongestionControl: Clone + Send + 'static {
    /// Parameters, shared by all flows of a run.
    type Params: Clone + Send + Sync + 'static;

    /// Whether [`rate`](CongestionControl::rate) can be below the link's, so that packets need pacing.
    const PACED: bool = true;

    /// A flow begins. Flows start at line rate unless the algorithm says otherwise.
    fn new(params: &Self::Params, flow: &FlowConfig, now: Time) -> Self;

    /// A packet of `bytes` (headers included) left.
    fn on_send(&mut self, _params: &Self::Params, _now: Time, _bytes: u32) {}
    /// An ACK or NACK arrived.
    fn on_ack(&mut self, _params: &Self::Params, _sample: &AckSample) {}
    /// A congestion notification packet arrived.
    fn on_cnp(&mut self, _params: &Self::Params, _now: Time) {}
    /// A loss was noticed.
    fn on_loss(&mut self, _params: &Self::Params, _now: Time, _signal: LossSignal) {}
    /// When [`on_timer`](CongestionControl::on_timer) wants to be called next.
    fn next_timer(&self) -> Option<Time> {
        None
    }
    /// The time that [`next_timer`](CongestionControl::next_timer) named has come.
    fn on_timer(&mut self, _params: &Self::Params, _now: Time) {}

    /// Rate at which the flow may send now, headers included.
    fn rate(&self) -> BitRate;
    /// Packets that it may have in flight now, at least 1; `u32::MAX` for no limit.
    fn window(&self) -> u32;
}
