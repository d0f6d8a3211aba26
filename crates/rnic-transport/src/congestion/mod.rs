//! Congestion control: how fast a flow may send, and how much it may have in flight.

mod aimd;
mod dcqcn;
mod dctcp;
mod hpcc;
mod none;
mod parameter;
mod timely;
mod window;

pub use aimd::{Aimd, AimdParams};
pub use dcqcn::{Dcqcn, DcqcnParams};
pub use dctcp::{Dctcp, DctcpParams};
pub use hpcc::{Hpcc, HpccParams};
pub use none::NoCongestionControl;
pub use parameter::{Kind, Parameter, Settings, Value};
pub use timely::{DelayGradient, PatchedTimely, Timely, TimelyParams};

use crate::config::FlowConfig;
use crate::telemetry::Telemetry;
use crate::{BitRate, Bytes, Time};

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

/// When a switch marks packets "congestion experienced" (RED over ECN, the CP of DCQCN section 3.1): never while its queue is
/// at most `kmin`, with a probability that grows linearly to `pmax` at `kmax`, always above `kmax`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Marking {
    /// No packet is marked up to this queue.
    pub kmin: Bytes,
    /// Every packet is marked above this queue.
    pub kmax: Bytes,
    /// Probability at `kmax`, from 0 to 1.
    pub pmax: f64,
}

/// The highest rate that a flow can have: its host's link, or the flow's own cap below it.
pub fn ceiling(flow: &FlowConfig) -> BitRate {
    flow.max_rate.map_or(flow.line_rate, |rate| rate.min(flow.line_rate))
}

/// One flow's congestion control.
///
/// Of the constants, `NAME` and `ABOUT` are required; of the functions `params`, `new`, `rate` and `window`. The rest have defaults:
/// implement what the algorithm listens to.
///
/// An implementation is a plain value without clocks, sockets or randomness of its own, so that a run is reproducible; the
/// flow that owns it is compiled for it, so nothing here is dispatched at run time.
pub trait CongestionControl: Clone + Send + 'static {
    /// Parameters, shared by all flows of a run.
    type Params: Clone + Send + Sync + 'static;

    /// What a scenario's `cc` calls it.
    const NAME: &'static str;
    /// One line for `rnic list`.
    const ABOUT: &'static str;
    /// The keys that a scenario may set, under the algorithm's name.
    const PARAMETERS: &'static [Parameter] = &[];
    /// Whether [`rate`](CongestionControl::rate) can be below the link's, so that packets need pacing.
    const PACED: bool = true;
    /// Whether it works only if data packets are acknowledged.
    const NEEDS_ACKS: bool = true;

    /// The parameters of a run, from what its scenario says.
    ///
    /// # Errors
    /// One sentence when the settings contradict each other; each alone has been checked before.
    fn params(settings: &Settings, flow: &FlowConfig) -> Result<Self::Params, String>;
    /// The switches' default marking thresholds; `None` if it does not listen to marks: then its packets are never marked.
    fn marking(_flow: &FlowConfig) -> Option<Marking> {
        None
    }
    /// Shortest time between two congestion notification packets from the receiver; `None` if it needs none.
    fn cnp_interval(_params: &Self::Params) -> Option<Time> {
        None
    }

    /// A flow begins. Flows start at line rate unless the algorithm says otherwise.
    fn new(params: &Self::Params, flow: &FlowConfig, now: Time) -> Self;

    /// A packet of `bytes` (headers included) left.
    fn on_send(&mut self, _params: &Self::Params, _now: Time, _bytes: u32) {}
    /// What switches wrote into a data packet came back with its ACK or NACK, of which [`on_ack`](CongestionControl::on_ack) tells next. Only
    /// algorithms that are registered as such ([`Visitor::visit_with_telemetry`](crate::registry::Visitor::visit_with_telemetry)) are told.
    fn on_telemetry(&mut self, _params: &Self::Params, _now: Time, _telemetry: &Telemetry) {}
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
