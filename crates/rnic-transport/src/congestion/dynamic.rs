//! A congestion control that is known only at run time, for code that is compiled once for all of them.

use super::{AckSample, CongestionControl, LossSignal, Marking, Settings};
use crate::config::FlowConfig;
use crate::credit::CreditConfig;
use crate::telemetry::Telemetry;
use crate::{BitRate, Time};
use std::sync::Arc;

/// The congestion control of one flow, with its parameters. The functions are those of [`CongestionControl`].
#[expect(missing_docs, reason = "the functions have the documentation of CongestionControl")]
pub trait Law: Send {
    fn on_send(&mut self, now: Time, bytes: u32);
    fn on_telemetry(&mut self, now: Time, telemetry: &Telemetry);
    fn on_ack(&mut self, sample: &AckSample);
    fn on_cnp(&mut self, now: Time);
    fn on_loss(&mut self, now: Time, signal: LossSignal);
    fn has_credit(&self) -> bool;
    fn ask(&mut self, now: Time, backlog: u64) -> u16;
    fn ask_alone(&mut self, now: Time, backlog: u64) -> Option<u16>;
    fn on_credit(&mut self, now: Time, total: u16);
    fn forget_credit(&mut self);
    fn next_timer(&self) -> Option<Time>;
    fn on_timer(&mut self, now: Time);
    fn rate(&self) -> BitRate;
    fn window(&self) -> u32;
    /// A copy, for the state of another flow.
    fn copied(&self) -> Box<dyn Law>;
}

struct Bound<C: CongestionControl> {
    state: C,
    params: Arc<C::Params>,
}

impl<C: CongestionControl> Law for Bound<C> {
    fn on_send(&mut self, now: Time, bytes: u32) {
        self.state.on_send(&self.params, now, bytes);
    }
    fn on_telemetry(&mut self, now: Time, telemetry: &Telemetry) {
        self.state.on_telemetry(&self.params, now, telemetry);
    }
    fn on_ack(&mut self, sample: &AckSample) {
        self.state.on_ack(&self.params, sample);
    }
    fn on_cnp(&mut self, now: Time) {
        self.state.on_cnp(&self.params, now);
    }
    fn on_loss(&mut self, now: Time, signal: LossSignal) {
        self.state.on_loss(&self.params, now, signal);
    }
    fn has_credit(&self) -> bool {
        self.state.has_credit()
    }
    fn ask(&mut self, now: Time, backlog: u64) -> u16 {
        self.state.ask(&self.params, now, backlog)
    }
    fn ask_alone(&mut self, now: Time, backlog: u64) -> Option<u16> {
        self.state.ask_alone(&self.params, now, backlog)
    }
    fn on_credit(&mut self, now: Time, total: u16) {
        self.state.on_credit(&self.params, now, total);
    }
    fn forget_credit(&mut self) {
        self.state.forget_credit();
    }
    fn next_timer(&self) -> Option<Time> {
        self.state.next_timer()
    }
    fn on_timer(&mut self, now: Time) {
        self.state.on_timer(&self.params, now);
    }
    fn rate(&self) -> BitRate {
        self.state.rate()
    }
    fn window(&self) -> u32 {
        self.state.window()
    }
    fn copied(&self) -> Box<dyn Law> {
        Box::new(Bound { state: self.state.clone(), params: self.params.clone() })
    }
}

/// The parameters of a congestion control that is known only at run time.
///
/// ```
/// use rnic_transport::congestion::{Dcqcn, DynamicParams, CongestionControl, Settings};
/// use rnic_transport::{FlowConfig, Time};
///
/// let flow = FlowConfig::default();
/// let params = Dcqcn::params(&Settings::new(Dcqcn::PARAMETERS), &flow)?;
/// let mut law = DynamicParams::of::<Dcqcn>(params).start(&flow, Time::ZERO);
/// law.on_cnp(Time::from_us(1));
/// assert!(law.rate() < flow.line_rate);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct DynamicParams(Arc<dyn Maker>);

impl DynamicParams {
    /// The congestion control `C` with these parameters.
    pub fn of<C: CongestionControl>(params: C::Params) -> DynamicParams {
        DynamicParams(Arc::new(Params::<C>(Arc::new(params))))
    }

    /// The congestion control of a flow that begins at `now`.
    pub fn start(&self, flow: &FlowConfig, now: Time) -> Box<dyn Law> {
        self.0.start(flow, now)
    }
}

trait Maker: Send + Sync {
    fn start(&self, flow: &FlowConfig, now: Time) -> Box<dyn Law>;
    fn marking(&self, flow: &FlowConfig) -> Option<Marking>;
    fn cnp_interval(&self) -> Option<Time>;
    fn nic_cnp_interval(&self) -> Time;
    fn credit(&self) -> Option<CreditConfig>;
}

struct Params<C: CongestionControl>(Arc<C::Params>);

impl<C: CongestionControl> Maker for Params<C> {
    fn start(&self, flow: &FlowConfig, now: Time) -> Box<dyn Law> {
        Box::new(Bound { state: C::new(&self.0, flow, now), params: self.0.clone() })
    }
    fn marking(&self, flow: &FlowConfig) -> Option<Marking> {
        C::marking(&self.0, flow)
    }
    fn cnp_interval(&self) -> Option<Time> {
        C::cnp_interval(&self.0)
    }
    fn nic_cnp_interval(&self) -> Time {
        C::nic_cnp_interval(&self.0)
    }
    fn credit(&self) -> Option<CreditConfig> {
        C::credit(&self.0)
    }
}

/// Any congestion control whose constants [`CongestionControl::PACED`] and [`CongestionControl::CREDIT`] are `PACED`
/// and `CREDIT`. A flow allocates its state, and its functions are called through a table, so it is for code that may
/// be slower and should not be compiled for each congestion control.
pub struct Dynamic<const PACED: bool, const CREDIT: bool>(Box<dyn Law>);

impl<const PACED: bool, const CREDIT: bool> Clone for Dynamic<PACED, CREDIT> {
    fn clone(&self) -> Self {
        Dynamic(self.0.copied())
    }
}

impl<const PACED: bool, const CREDIT: bool> CongestionControl for Dynamic<PACED, CREDIT> {
    type Params = DynamicParams;
    const NAME: &'static str = "dynamic";
    const ABOUT: &'static str = "a congestion control that is known at run time";
    const PACED: bool = PACED;
    const CREDIT: bool = CREDIT;

    fn params(_settings: &Settings, _flow: &FlowConfig) -> Result<DynamicParams, String> {
        Err("the parameters are those of another congestion control".to_string())
    }
    fn marking(params: &DynamicParams, flow: &FlowConfig) -> Option<Marking> {
        params.0.marking(flow)
    }
    fn cnp_interval(params: &DynamicParams) -> Option<Time> {
        params.0.cnp_interval()
    }
    fn nic_cnp_interval(params: &DynamicParams) -> Time {
        params.0.nic_cnp_interval()
    }
    fn credit(params: &DynamicParams) -> Option<CreditConfig> {
        params.0.credit()
    }
    fn new(params: &DynamicParams, flow: &FlowConfig, now: Time) -> Self {
        Dynamic(params.start(flow, now))
    }
    fn on_send(&mut self, _params: &DynamicParams, now: Time, bytes: u32) {
        self.0.on_send(now, bytes);
    }
    fn on_telemetry(&mut self, _params: &DynamicParams, now: Time, telemetry: &Telemetry) {
        self.0.on_telemetry(now, telemetry);
    }
    fn on_ack(&mut self, _params: &DynamicParams, sample: &AckSample) {
        self.0.on_ack(sample);
    }
    fn on_cnp(&mut self, _params: &DynamicParams, now: Time) {
        self.0.on_cnp(now);
    }
    fn on_loss(&mut self, _params: &DynamicParams, now: Time, signal: LossSignal) {
        self.0.on_loss(now, signal);
    }
    fn has_credit(&self) -> bool {
        self.0.has_credit()
    }
    fn ask(&mut self, _params: &DynamicParams, now: Time, backlog: u64) -> u16 {
        self.0.ask(now, backlog)
    }
    fn ask_alone(&mut self, _params: &DynamicParams, now: Time, backlog: u64) -> Option<u16> {
        self.0.ask_alone(now, backlog)
    }
    fn on_credit(&mut self, _params: &DynamicParams, now: Time, total: u16) {
        self.0.on_credit(now, total);
    }
    fn forget_credit(&mut self) {
        self.0.forget_credit();
    }
    fn next_timer(&self) -> Option<Time> {
        self.0.next_timer()
    }
    fn on_timer(&mut self, _params: &DynamicParams, now: Time) {
        self.0.on_timer(now);
    }
    fn rate(&self) -> BitRate {
        self.0.rate()
    }
    fn window(&self) -> u32 {
        self.0.window()
    }
}
