//! DCTCP ("Data Center TCP", SIGCOMM 2010, section 3) on a window of packets.
//!
//! Every ACK and NACK stands for the one data packet that caused it, so the marked fraction F of a window is counted over replies.
//! A window of observation ends when what was in flight at its start is acknowledged; then alpha takes F in, and a window with
//! marks is cut. Losses are TCP's (RFC 5681): a NACK halves the window, at most once for what was in flight; a timeout leaves one
//! packet and slow start up to half of what was. There is no slow start at the beginning: flows begin with one BDP.

use super::window::{INITIAL_WINDOW, UNPACED, Window, initial_window};
use super::{AckSample, CongestionControl, LossSignal, Marking, Parameter, Settings};
use crate::config::FlowConfig;
use crate::{BitRate, Bytes, Time};

/// DCTCP's parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DctcpParams {
    initial_window: f64,
    g: f64,
    initial_alpha: f64,
}

/// Window control from the fraction of marked packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dctcp {
    window: Window,
    alpha: f64,
    /// Below it, slow start: set by a timeout.
    threshold: u32,
    /// Packets to be acknowledged before this window of observation ends.
    left: u32,
    /// Replies in it, and those of marked packets.
    replies: u32,
    marked: u32,
}

impl Dctcp {
    /// The estimate of the marked fraction.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    fn window_ends(&mut self, params: &DctcpParams) {
        let fraction = f64::from(self.marked) / f64::from(self.replies);
        self.alpha = (1.0 - params.g) * self.alpha + params.g * fraction;
        if self.marked > 0 && self.window.may_cut() {
            self.window.cut(1.0 - self.alpha / 2.0);
            self.threshold = 0;
        }
        self.left = self.window.flight.max(1);
        self.replies = 0;
        self.marked = 0;
    }
}

impl CongestionControl for Dctcp {
    type Params = DctcpParams;
    const NAME: &'static str = "dctcp";
    const ABOUT: &'static str = "DCTCP (SIGCOMM 2010): window from the fraction of marked packets";
    const PACED: bool = false;
    const PARAMETERS: &'static [Parameter] = &[
        INITIAL_WINDOW,
        Parameter::number("g", 1.0 / 16.0, 0.0, 1.0, "gain of alpha; published (1/16)"),
        Parameter::number("initial_alpha", 1.0, 0.0, 1.0, "alpha of a new flow; not stated, RFC 8257 (1)"),
    ];

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<DctcpParams, String> {
        Ok(DctcpParams {
            initial_window: initial_window(settings, flow)?,
            g: settings.number("g")?,
            initial_alpha: settings.number("initial_alpha")?,
        })
    }
    /// K = 160 KB at 40 Gbps, as the DCQCN paper sets it for comparison (figure 19); in proportion elsewhere.
    fn marking(flow: &FlowConfig) -> Option<Marking> {
        let k = Bytes((flow.line_rate.as_bps() / 250_000).max(1));
        Some(Marking { kmin: k, kmax: k, pmax: 1.0 })
    }

    fn new(params: &DctcpParams, _flow: &FlowConfig, _now: Time) -> Dctcp {
        let window = Window::new(params.initial_window);
        Dctcp { window, alpha: params.initial_alpha, threshold: 0, left: window.whole(), replies: 0, marked: 0 }
    }

    #[inline]
    fn on_ack(&mut self, params: &DctcpParams, sample: &AckSample) {
        self.window.note(sample);
        if self.window.was_full(sample) {
            if self.window.whole() < self.threshold {
                // RFC 5681: one packet per acknowledgement, however much it covers.
                self.window.packets += f64::from(sample.acked.min(1));
            } else {
                self.window.grow(1.0, sample.acked);
            }
        }
        self.replies += 1;
        self.marked += u32::from(sample.marked);
        self.left = self.left.saturating_sub(sample.acked);
        if self.left == 0 {
            self.window_ends(params);
        }
    }
    fn on_loss(&mut self, _params: &DctcpParams, _now: Time, signal: LossSignal) {
        match signal {
            LossSignal::Nack if self.window.may_cut() => {
                self.window.cut(0.5);
                self.threshold = 0;
            }
            LossSignal::Nack => {}
            LossSignal::Timeout => {
                if self.window.whole() > 1 {
                    self.threshold = (self.window.whole() / 2).max(2);
                }
                self.window.cut(0.0);
            }
        }
    }

    #[inline]
    fn rate(&self) -> BitRate {
        UNPACED
    }
    #[inline]
    fn window(&self) -> u32 {
        self.window.whole()
    }
}
