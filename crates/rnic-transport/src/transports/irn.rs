//! The IRN transport: selective retransmission and a cap on packets in flight, for networks that lose packets (IRN
//! paper, sections 3 and 4.1).

use super::flow::{self, BDP_CAP, BDP_FC, NACKS, RTO, RTO_HIGH, TIMEOUTS};
use super::{Description, FabricFacts, FlowTransport, FrameSizes, MAX_IN_FLIGHT, ProtocolVisitor, WireFormat};
use crate::Time;
use crate::config::{FlowConfig, TimerRestart};
use crate::headers::{IRN_DATA, IRN_NACK, ROCE_ACK};
use crate::recovery::{GoBackN, Irn as Selective};
use crate::settings::{Kind, Parameter, Settings};

/// Latency of the blocks `irn_sender` and `irn_receiver` in `hw/irn`, with which `nic_pipeline = "rtl:irn"` processes
/// packets: cycles from a step to its result. The co-simulation of rnic-hw checks it.
pub const IRN_PIPELINE_CYCLES: u32 = 6;

/// The IRN transport: selective retransmission and BDP-FC, combined with a separate congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Irn;

impl FlowTransport for Irn {
    const NAME: &'static str = "irn";
    const ABOUT: &'static str =
        "IRN: selective retransmission (bitmap SACK), BDP-FC, two timeouts; needs no lossless network";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::choice(
            "recovery",
            "selective",
            &["selective", "no-sack", "go-back-n"],
            "what is retransmitted after a loss; selective (section 3.1), the others are the paper's variants (section 4.3)",
        ),
        TIMEOUTS,
        RTO,
        RTO_HIGH,
        Parameter::timeout(
            "rto_low",
            Time::from_us(100),
            "timeout while few packets are in flight; 100 us (section 4.1)",
        ),
        Parameter::count(
            "rto_low_packets",
            3,
            0,
            MAX_IN_FLIGHT,
            "`rto_low` applies while at most this many packets are in flight; 3 (section 4.1)",
        ),
        Parameter::choice(
            "timer_restart",
            "response",
            &["response", "progress"],
            "which ACKs and NACKs restart the retransmission timer: all, or those of cumulative progress; response",
        ),
        NACKS,
        BDP_FC,
        BDP_CAP,
        Parameter::choice(
            "nic_pipeline",
            "ideal",
            &["ideal", "rtl:irn"],
            "time that packets take in the NIC: none, or that of IRN's blocks in hardware; ideal",
        ),
        Parameter::derived("nic_cycle", Kind::Time, "clock period of the blocks of `nic_pipeline`; none"),
    ];
    const WARNS_OF_SMALL_CAP: bool = true;

    const WIRE: WireFormat = WireFormat::Irn;

    fn frames() -> FrameSizes {
        FrameSizes { data_header: IRN_DATA, ack: ROCE_ACK, nack: IRN_NACK }
    }

    fn idle(settings: &Settings) -> Vec<(&'static str, &'static str)> {
        let go_back_n = settings.is("recovery", "go-back-n");
        let mut idle = flow::idle(settings, go_back_n);
        if go_back_n {
            idle.push(("timer_restart", "go-back-N restarts its timer at cumulative progress"));
            idle.push(("nic_pipeline", "the blocks in hardware retransmit selectively"));
        }
        if go_back_n || !settings.is("nic_pipeline", "rtl:irn") {
            idle.push(("nic_cycle", "only `nic_pipeline = \"rtl:irn\"` has a clock"));
        }
        idle
    }

    fn needs_acks(settings: &Settings) -> Option<&'static str> {
        flow::needs_acks(settings, flow::is_capped(settings, true))
    }

    fn configure(settings: &Settings, facts: &FabricFacts) -> Result<FlowConfig, String> {
        if settings.is("nic_pipeline", "rtl:irn") && settings.time("nic_cycle").is_err() {
            let reason =
                "nic_pipeline = \"rtl:irn\" needs `nic_cycle`, the clock period of the NIC, for example \"4 ns\"";
            return Err(reason.to_string());
        }
        Ok(FlowConfig {
            bdp_cap: flow::bdp_cap(settings, facts, true),
            sack: !settings.is("recovery", "no-sack"),
            timer_restart: match settings.is("timer_restart", "progress") {
                true => TimerRestart::Progress,
                false => TimerRestart::Response,
            },
            nacks: flow::nacks(settings),
            ..flow::config(settings, facts, true)
        })
    }

    fn describe(settings: &Settings, cfg: &FlowConfig) -> (Description, Description) {
        let recovery = ("recovery", settings.choice("recovery").unwrap_or_default());
        let mut timers = flow::describe_timeouts(cfg, true);
        if cfg.timeouts.is_some() && !settings.is("recovery", "go-back-n") {
            timers.push(("timer_restart", settings.choice("timer_restart").unwrap_or_default()));
        }
        (vec![recovery, flow::describe_cap(cfg)], timers)
    }

    fn select<V: ProtocolVisitor>(settings: &Settings, visitor: V) -> V::Output {
        if settings.is("recovery", "go-back-n") { visitor.visit::<GoBackN>() } else { visitor.visit::<Selective>() }
    }
}
