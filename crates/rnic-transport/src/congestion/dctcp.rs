//! DCTCP ("Data Center TCP", SIGCOMM 2010, section 3) with a window in packets.
//!
//! Every ACK and NACK echoes the CE mark of the data packet that caused it, so the fraction F of marked packets is the
//! fraction of ACKs and NACKs with an ECN echo. F is measured over observation windows; each ends when all packets that
//! were in flight at its start are acknowledged. At the end of an observation window, alpha, the moving average of F
//! with gain g, becomes (1 - g) alpha + g F. If F > 0, the congestion window is multiplied by (1 - alpha/2).
//!
//! The reaction to losses is the same as in TCP (RFC 5681). A NACK halves the congestion window, if all packets that
//! were in flight at the window's last reduction are acknowledged. A timeout reduces the window to one packet, and slow
//! start follows up to half of the old window. Flows begin with a window of one bandwidth-delay product (BDP), without
//! slow start.

use super::window::{INITIAL_WINDOW, UNPACED, Window, initial_window};
use super::{AckSample, CongestionControl, LossSignal, Marking, Parameter, Settings};
use crate::config::FlowConfig;
use crate::{BitRate, Bytes, Time};

/// The parameters of DCTCP in a run, computed from the scenario's settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DctcpParams {
    initial_window: f64,
    g: f64,
    initial_alpha: f64,
}

/// The congestion control DCTCP: controls the congestion window by the fraction of CE-marked packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dctcp {
    window: Window,
    alpha: f64,
    /// Slow start threshold in packets, which a timeout sets; 0 means no slow start.
    threshold: u32,
    /// Number of packets to be acknowledged before the current observation window ends. The fraction of marked packets
    /// is measured over an observation window.
    left: u32,
    /// Number of ACKs and NACKs that arrived in the current observation window.
    replies: u32,
    /// Number of ACKs and NACKs with an ECN echo that arrived in the current observation window.
    marked: u32,
}

impl Dctcp {
    /// Alpha, the moving average of the fraction of marked packets, 0 to 1.
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
    const ABOUT: &'static str = "DCTCP (SIGCOMM 2010): window controlled by the fraction of CE-marked packets";
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
    /// The switch marks every packet while its queue is longer than K, DCTCP's threshold. K is 160 KB at 40 Gbps, the
    /// value that the DCQCN paper uses for DCTCP (figure 19), and proportional to the line rate.
    fn marking(_params: &DctcpParams, flow: &FlowConfig) -> Option<Marking> {
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
                // RFC 5681: at most one packet per acknowledgement, however many packets it acknowledges.
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
            LossSignal::Nack | LossSignal::LastHop if self.window.may_cut() => {
                self.window.cut(0.5);
                self.threshold = 0;
            }
            LossSignal::Nack | LossSignal::LastHop => {}
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
