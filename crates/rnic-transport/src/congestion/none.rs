//! No congestion control: flows send at line rate without a congestion window.

use super::{CongestionControl, Settings};
use crate::config::FlowConfig;
use crate::{BitRate, Time};

/// No congestion control: only the network and the transport's own cap on packets in flight (IRN's BDP-FC) limit a
/// flow.
#[derive(Clone, Copy, Debug)]
pub struct NoCongestionControl;

impl CongestionControl for NoCongestionControl {
    type Params = ();
    const NAME: &'static str = "none";
    const ABOUT: &'static str = "no congestion control: line rate, limited only by the transport's own flow control";
    const PACED: bool = false;
    const NEEDS_ACKS: bool = false;

    fn params(_settings: &Settings, _flow: &FlowConfig) -> Result<(), String> {
        Ok(())
    }
    fn new(_params: &(), _flow: &FlowConfig, _now: Time) -> NoCongestionControl {
        NoCongestionControl
    }
    fn rate(&self) -> BitRate {
        BitRate::from_bps(u64::MAX)
    }
    fn window(&self) -> u32 {
        u32::MAX
    }
}
