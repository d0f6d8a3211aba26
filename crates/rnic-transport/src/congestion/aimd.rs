//! TCP's additive increase, multiplicative decrease, as the IRN paper puts it on IRN (sections 4.4.4 and 4.6): the window grows by a
//! packet per round trip and is halved on a loss. No slow start: flows begin with a window of one BDP.
//!
//! NACKs cut at most once for what was in flight at the last cut. Each timeout cuts: it takes longer than a round trip. The paper
//! does not say how it treats them; to go down to one packet without slow start would leave a flow there for long.

use super::window::{INITIAL_WINDOW, UNPACED, Window, initial_window};
use super::{AckSample, CongestionControl, LossSignal, Parameter, Settings};
use crate::config::FlowConfig;
use crate::{BitRate, Time};

/// AIMD's parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AimdParams {
    initial_window: f64,
    increase: f64,
    decrease: f64,
}

/// Window control from losses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Aimd(Window);

impl CongestionControl for Aimd {
    type Params = AimdParams;
    const NAME: &'static str = "aimd";
    const ABOUT: &'static str = "TCP's AIMD: the window grows by a packet per round trip and is halved on a loss";
    const PACED: bool = false;
    const PARAMETERS: &'static [Parameter] = &[
        INITIAL_WINDOW,
        Parameter::number("increase", 1.0, 0.0, 1e6, "packets added per round trip; TCP's (1)"),
        Parameter::number("decrease", 0.5, 0.0, 1.0, "what a loss multiplies the window by; TCP's (0.5)"),
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
