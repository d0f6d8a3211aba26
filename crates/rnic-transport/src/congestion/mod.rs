//! Congestion control: limits the rate of a flow and its number of packets in flight.

mod aimd;
mod cubic;
mod dcqcn;
mod dctcp;
mod dynamic;
mod hpcc;
mod none;
mod nscc;
mod rccc;
mod rogue;
mod swift;
mod timely;
mod window;

pub use aimd::{Aimd, AimdParams};
pub use cubic::{Cubic, CubicParams};
pub use dcqcn::{Dcqcn, DcqcnParams};
pub use dctcp::{Dctcp, DctcpParams};
pub use dynamic::{Dynamic, DynamicParams, Law};
pub use hpcc::{Hpcc, HpccParams};
pub use none::NoCongestionControl;
pub use nscc::{Nscc, NsccParams};
pub use rccc::{Rccc, RcccParams};
pub use rogue::{RogueDelay, RogueParams};
pub use swift::{Swift, SwiftParams};
pub use timely::{DelayGradient, PatchedTimely, Timely, TimelyParams};

pub use crate::settings::{DefaultValue, Kind, Parameter, Profile, Settings, Value};

use crate::config::FlowConfig;
use crate::credit::CreditConfig;
use crate::telemetry::Telemetry;
use crate::{BitRate, Bytes, Time};

/// The measurements that an ACK or NACK gives to the congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckSample {
    /// Arrival time of the ACK or NACK.
    pub now: Time,
    /// Round-trip time: time since the departure of the data packet that caused the ACK or NACK.
    pub rtt: Time,
    /// Number of packets that are newly acknowledged cumulatively; with transport `uet` also selectively.
    pub acked: u32,
    /// Number of packets in flight after the ACK or NACK.
    pub in_flight: u32,
    /// ECN echo: whether the data packet that caused the ACK or NACK was CE-marked.
    pub marked: bool,
}

/// How the sender detected a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossSignal {
    /// By a NACK, or by duplicate or selective acknowledgements. The congestion control gets this signal once per
    /// recovery episode; with transport `uet`, once for each trimmed packet.
    Nack,
    /// By a NACK of transport `uet` which says that the last switch before the receiver trimmed the packet: the
    /// congestion is at the receiver, where credit deals with it.
    LastHop,
    /// The retransmission timer fired.
    Timeout,
}

/// Queue thresholds at which a switch CE-marks packets (RED with ECN; the congestion point in section 3.1 of the DCQCN
/// paper).
///
/// The switch marks no packet while the queue is at most `kmin`, and every packet while it is above `kmax`. Between
/// them the marking probability grows linearly from 0 to `pmax`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Marking {
    /// Queue length up to which no packet is marked.
    pub kmin: Bytes,
    /// Queue length above which every packet is marked.
    pub kmax: Bytes,
    /// Marking probability at `kmax`, 0 to 1.
    pub pmax: f64,
}

/// The maximum rate of a flow: the line rate of the hosts' links, or the user's limit `max_rate` if it is set and
/// smaller.
pub fn ceiling(flow: &FlowConfig) -> BitRate {
    flow.max_rate.map_or(flow.line_rate, |rate| rate.min(flow.line_rate))
}

/// The congestion control of one flow.
///
/// An implementation must define the constants `NAME` and `ABOUT` and the functions `params`, `new`, `rate` and
/// `window`. Everything else has a default: implement only the functions for the events that the algorithm uses.
///
/// An implementation is a plain value that reads no clock and has no random numbers of its own, so that simulations are
/// reproducible. Senders are generic over their congestion control and call its functions directly; senders with
/// [`Dynamic`] call them through a table.
///
/// ```
/// use rnic_transport::congestion::{CongestionControl, LossSignal, Settings};
/// use rnic_transport::{BitRate, FlowConfig, Sender, Time, conformance, recovery::Irn};
///
/// /// Halves the rate on a loss and never raises it.
/// #[derive(Clone)]
/// struct Halving(u64);
///
/// impl CongestionControl for Halving {
///     type Params = ();
///     const NAME: &'static str = "halving";
///     const ABOUT: &'static str = "example: halves the rate on a loss";
///
///     fn params(_: &Settings, _: &FlowConfig) -> Result<(), String> {
///         Ok(())
///     }
///     fn new(_: &(), flow: &FlowConfig, _: Time) -> Halving {
///         Halving(flow.line_rate.as_bps())
///     }
///     fn on_loss(&mut self, _: &(), _: Time, _: LossSignal) {
///         self.0 = (self.0 / 2).max(1_000_000);
///     }
///     fn rate(&self) -> BitRate {
///         BitRate::from_bps(self.0)
///     }
///     fn window(&self) -> u32 {
///         u32::MAX
///     }
/// }
///
/// conformance::check_declaration::<Halving>().unwrap();
/// let cfg = FlowConfig::default();
/// let mut sender = Sender::<Irn, Halving>::new(&cfg, &(), 1_000, Time::ZERO);
/// sender.poll_transmit(&cfg, &(), Time::ZERO).unwrap();
/// sender.on_deadline(&cfg, &(), Time::from_us(100)); // the retransmission timer fires
/// assert_eq!(sender.congestion().rate(), BitRate::from_gbps(20));
/// ```
pub trait CongestionControl: Clone + Send + 'static {
    /// The parameters of the algorithm, which all flows of a simulation run share.
    type Params: Clone + Send + Sync + 'static;

    /// The name of the algorithm. In a scenario file the key `cc` with this value selects it.
    const NAME: &'static str;
    /// Description of the algorithm in one line, for the command `rnic list`.
    const ABOUT: &'static str;
    /// The parameters that a scenario file may set, in the table that has the algorithm's name.
    const PARAMETERS: &'static [Parameter] = &[];
    /// Whether [`rate`](CongestionControl::rate) can be below the line rate, so that packets need pacing.
    const PACED: bool = true;
    /// Whether the algorithm works only if the receiver acknowledges data packets.
    const NEEDS_ACKS: bool = true;
    /// Whether a flow sends only with credit that the NIC of its receiver grants ([`crate::credit`]). Other algorithms
    /// need none of the functions about credit.
    const CREDIT: bool = false;

    /// Computes the algorithm's parameters for a simulation run from the scenario's settings.
    ///
    /// # Errors
    /// If settings contradict each other. The error is one sentence. The function need not check ranges: each setting
    /// by itself is already in its declared range.
    fn params(settings: &Settings, flow: &FlowConfig) -> Result<Self::Params, String>;
    /// Default ECN marking thresholds of switches. `None`: the algorithm does not use ECN, and switches do not mark its
    /// packets.
    fn marking(_params: &Self::Params, _flow: &FlowConfig) -> Option<Marking> {
        None
    }
    /// Minimum time between two congestion notification packets (CNPs) that the receiver of a flow sends. `None`:
    /// receivers send no CNPs.
    fn cnp_interval(_params: &Self::Params) -> Option<Time> {
        None
    }
    /// Minimum time between two CNPs that a NIC sends, over all its flows; zero for no limit.
    fn nic_cnp_interval(_params: &Self::Params) -> Time {
        Time::ZERO
    }
    /// How NICs grant credit to the senders of their flows. `None`: they grant none.
    fn credit(_params: &Self::Params) -> Option<CreditConfig> {
        None
    }
    /// The value that `params` has for the parameter `name`, whose default is derived from the fabric. It is part of
    /// the list of a run's parameters; for `None`, the list says only that the value is derived.
    fn derived(_params: &Self::Params, _name: &str) -> Option<Value> {
        None
    }

    /// The congestion control state of a flow that begins at `now`. The flow's initial rate is the line rate, unless
    /// the algorithm specifies another initial rate.
    fn new(params: &Self::Params, flow: &FlowConfig, now: Time) -> Self;

    /// Handles the flow's transmission of a packet of `bytes` bytes, headers included.
    fn on_send(&mut self, _params: &Self::Params, _now: Time, _bytes: u32) {}
    /// Handles the in-band telemetry records that an ACK or NACK returns to the sender; a call of
    /// [`on_ack`](CongestionControl::on_ack) for the same ACK or NACK follows. It is called only for algorithms that
    /// are registered with [`Visitor::visit_with_telemetry`](crate::registry::Visitor::visit_with_telemetry).
    fn on_telemetry(&mut self, _params: &Self::Params, _now: Time, _telemetry: &Telemetry) {}
    /// Handles the arrival of an ACK or NACK.
    fn on_ack(&mut self, _params: &Self::Params, _sample: &AckSample) {}
    /// Handles the arrival of a congestion notification packet.
    fn on_cnp(&mut self, _params: &Self::Params, _now: Time) {}
    /// Handles the detection of a loss.
    fn on_loss(&mut self, _params: &Self::Params, _now: Time, _signal: LossSignal) {}
    /// Whether the flow has credit for a packet.
    fn has_credit(&self) -> bool {
        true
    }
    /// The credit that a data packet which leaves at `now` asks for, in packets since the flow began, modulo 2^16.
    /// `backlog` packets wait to be sent after it.
    fn ask(&mut self, _params: &Self::Params, _now: Time, _backlog: u64) -> u16 {
        0
    }
    /// As [`ask`](CongestionControl::ask), in a packet of its own, for a flow without credit. `None`: the flow should
    /// not ask now.
    fn ask_alone(&mut self, _params: &Self::Params, _now: Time, _backlog: u64) -> Option<u16> {
        None
    }
    /// Handles the arrival of credit, in packets since the flow began, modulo 2^16.
    fn on_credit(&mut self, _params: &Self::Params, _now: Time, _total: u16) {}
    /// Begins again to count credit, for the next flow of a connection.
    fn forget_credit(&mut self) {}
    /// The time of the next call of [`on_timer`](CongestionControl::on_timer); `None` if no timer runs.
    fn next_timer(&self) -> Option<Time> {
        None
    }
    /// Handles the expiry of the timer, at or after the time that [`next_timer`](CongestionControl::next_timer)
    /// returned.
    fn on_timer(&mut self, _params: &Self::Params, _now: Time) {}

    /// The current maximum rate of the flow. The headers of packets count towards this rate.
    fn rate(&self) -> BitRate;
    /// The current maximum number of packets of the flow in flight, at least 1; `u32::MAX` for no limit.
    fn window(&self) -> u32;
}
