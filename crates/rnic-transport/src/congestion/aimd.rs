//! AIMD: TCP's additive increase and multiplicative decrease, as the IRN paper combines it with IRN (sections 4.4.4 and
//! 4.6).
//!
//! The congestion window grows by one packet per round trip, and a loss halves it. There is no slow start: flows begin
//! with a window of one bandwidth-delay product (BDP).
//!
//! A NACK halves the congestion window only if all packets that were in flight at the window's last reduction are
//! acknowledged. Every timeout halves the window, because timeouts are more than a round trip apart. The IRN paper does
//! not state the reaction to a timeout. TCP would reduce the window to one packet, but without slow start such a window
//! would stay small for long.

use super::window::{INITIAL_WINDOW, UNPACED, Window, initial_window};
use super::{AckSample, CongestionControl, LossSignal, Parameter, Settings};
use crate::config::FlowConfig;
use crate::{BitRate, Time};

/// The parameters of AIMD in a run, computed from the scenario's settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AimdParams {
    initial_window: f64,
    increase: f64,
    decrease: f64,
}

/// The congestion control AIMD: controls the congestion window by losses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Aimd(Window);

impl CongestionControl for Aimd {
    type Params = AimdParams;
    const NAME: &'static str = "aimd";
    const ABOUT: &'static str = "TCP's AIMD: the window grows by one packet per round trip, and a loss halves it";
    const PACED: bool = false;
    const PARAMETERS: &'static [Parameter] = &[
        INITIAL_WINDOW,
        Parameter::number("increase", 1.0, 0.0, 1e6, "additive increase in packets per round trip; TCP's (1)"),
        Parameter::number("decrease", 0.5, 0.0, 1.0, "factor by which a loss multiplies the window; TCP's (0.5)"),
    ];

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<AimdParams, String> {
        Ok(AimdParams {
            initial_window: initial_window(settings, flow)?,
            increase: settings.number("increase")?,
            decrease: settings.number("decrease")?,
        })
    }
    fn new(params: &AimdParams, _flow: &FlowConfig, _now: Time) -> Aimd {
        Aimd(Window::new(params.initial_window))
    }

    #[inline]
    fn on_ack(&mut self, params: &AimdParams, sample: &AckSample) {
        self.0.note(sample);
        if self.0.was_full(sample) {
            self.0.grow(params.increase, sample.acked);
        }
    }
    fn on_loss(&mut self, params: &AimdParams, _now: Time, signal: LossSignal) {
        if signal == LossSignal::Timeout || self.0.may_cut() {
            self.0.cut(params.decrease);
        }
    }

    #[inline]
    fn rate(&self) -> BitRate {
        UNPACED
    }
    #[inline]
    fn window(&self) -> u32 {
        self.0.whole()
    }
}
