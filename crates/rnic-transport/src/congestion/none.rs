//! No congestion control: line rate, no window.

use super::CongestionControl;
use crate::config::FlowConfig;
use crate::{BitRate, Time};

/// Sends at line rate; what limits a flow is its recovery (BDP-FC) and the network.
#[derive(Clone, Copy, Debug)]
pub struct NoCongestionControl;

impl CongestionControl for NoCongestionControl {
    type Params = ();
    const PACED: bool = false;

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
