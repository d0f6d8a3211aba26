//! CUBIC (RFC 9438), the congestion control of TCP in Linux.
//!
//! After a loss the window returns along a cubic curve to its size before the loss, stays near it, and then grows
//! beyond. Where the curve is below the window that TCP's AIMD would have, the window is the latter (section 4.3). At
//! round-trip times of a data center that is nearly always so, because the curve is a function of seconds.
//!
//! Where the RFC leaves a choice, or this implementation departs from it:
//!
//! - There is no slow start: flows begin with a window of one bandwidth-delay product (BDP), as with the other
//!   congestion controls.
//! - A timeout reduces the window by the same factor as another loss. The RFC (section 4.8) reduces it to one packet,
//!   from which it would grow by slow start.
//! - A window that does not limit the flow does not grow (section 5.8).

use super::window::{INITIAL_WINDOW, UNPACED, Window, initial_window};
use super::{AckSample, CongestionControl, LossSignal, Parameter, Settings};
use crate::config::FlowConfig;
use crate::{BitRate, Time};

/// The parameters of CUBIC in a run, computed from the scenario's settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CubicParams {
    initial_window: f64,
    c: f64,
    beta: f64,
    /// Growth of AIMD with the same average window, in packets per round trip (section 4.3).
    alpha: f64,
    fast_convergence: bool,
}

/// The congestion control CUBIC: controls the congestion window by losses and by the time since the last one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cubic {
    window: Window,
    /// Window before the last loss, in packets (`W_max`).
    w_max: f64,
    /// Window that AIMD would have (`W_est`).
    w_est: f64,
    /// Seconds from the beginning of the curve until it reaches `w_max` (`K`).
    k: f64,
    /// Beginning of the curve: the first ACK after the last loss; `None` between them.
    epoch: Option<Time>,
}

impl Cubic {
    /// The window on the curve, `seconds` after its beginning (equation 1).
    fn curve(&self, params: &CubicParams, seconds: f64) -> f64 {
        let from_plateau = seconds - self.k;
        params.c * from_plateau * from_plateau * from_plateau + self.w_max
    }

    /// Begins a curve at `now` (section 4.2).
    fn begin(&mut self, params: &CubicParams, now: Time) -> Time {
        let window = self.window.packets;
        self.w_max = self.w_max.max(window);
        self.k = ((self.w_max - window) / params.c).cbrt();
        self.w_est = window;
        self.epoch = Some(now);
        now
    }
}

impl CongestionControl for Cubic {
    type Params = CubicParams;
    const NAME: &'static str = "cubic";
    const ABOUT: &'static str = "CUBIC (RFC 9438): after a loss the window grows along a cubic curve of time";
    const PACED: bool = false;
    const PARAMETERS: &'static [Parameter] = &[
        INITIAL_WINDOW,
        Parameter::number("c", 0.4, 1e-9, 1e12, "steepness of the curve in packets per cubic second; RFC 9438 (0.4)"),
        Parameter::number("beta", 0.7, 0.0, 1.0, "factor by which a loss multiplies the window; RFC 9438 (0.7)"),
        Parameter::flag(
            "fast_convergence",
            true,
            "whether a flow whose window did not reach its last maximum releases bandwidth; RFC 9438 (section 4.7)",
        ),
    ];

    fn params(settings: &Settings, flow: &FlowConfig) -> Result<CubicParams, String> {
        let beta = settings.number("beta")?;
        Ok(CubicParams {
            initial_window: initial_window(settings, flow)?,
            c: settings.number("c")?,
            beta,
            alpha: 3.0 * (1.0 - beta) / (1.0 + beta),
            fast_convergence: settings.flag("fast_convergence")?,
        })
    }

    fn new(params: &CubicParams, _flow: &FlowConfig, _now: Time) -> Cubic {
        Cubic { window: Window::new(params.initial_window), w_max: 0.0, w_est: 0.0, k: 0.0, epoch: None }
    }

    #[inline]
    fn on_ack(&mut self, params: &CubicParams, sample: &AckSample) {
        self.window.note(sample);
        if sample.acked == 0 || !self.window.was_full(sample) {
            return;
        }
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(params, sample.now),
        };
        let (window, acked) = (self.window.packets, f64::from(sample.acked));
        // Once AIMD has made up for the factor `beta`, it grows as TCP does (section 4.3).
        let alpha = if self.w_est < self.w_max { params.alpha } else { 1.0 };
        self.w_est += alpha * acked / window;
        let seconds = sample.now.saturating_sub(epoch).as_secs();
        if self.curve(params, seconds) < self.w_est {
            self.window.packets = window.max(self.w_est);
            return;
        }
        let target = self.curve(params, seconds + sample.rtt.as_secs()).clamp(window, 1.5 * window);
        self.window.packets += (target - window) / window * acked;
    }

    fn on_loss(&mut self, params: &CubicParams, _now: Time, signal: LossSignal) {
        if signal != LossSignal::Timeout && !self.window.may_cut() {
            return;
        }
        let window = self.window.packets;
        let releases = params.fast_convergence && window < self.w_max;
        self.w_max = if releases { window * (1.0 + params.beta) / 2.0 } else { window };
        self.window.cut(params.beta);
        self.epoch = None;
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
