//! The IRN transport: selective retransmission and a cap on packets in flight, for networks that lose packets (IRN
//! paper, sections 3 and 4.1).

use super::flow::{self, BDP_CAP, BDP_FC, NACKS, RTO, RTO_HIGH, TIMEOUTS};
use super::spray::{self, PATH_SELECTION, PATHS, REORDER_TOLERANCE, REPS_FREEZE};
use super::{
    Description, FabricFacts, FlowTransport, FrameSizes, MAX_IN_FLIGHT, ProtocolVisitor, Transport,
    TransportDeclaration, WireFormat,
};
use crate::Time;
use crate::config::{FlowConfig, TimerRestart};
use crate::headers::{IRN_DATA, IRN_NACK, ROCE_ACK};
use crate::recovery::{GoBackN, Irn as Selective, Sprayed};
use crate::settings::{Kind, Parameter, Settings};

/// Latency of the blocks `irn_sender` and `irn_receiver` in `hw/irn`, with which `nic_pipeline = "rtl:irn"` processes
/// packets: cycles from a step to its result. The co-simulation of rnic-hw checks it.
pub const IRN_PIPELINE_CYCLES: u32 = 6;

/// The IRN transport: selective retransmission and BDP-FC, combined with a separate congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Irn;

/// The setting that says from which delay the default of `bdp_cap` follows, and its value for the paper's formula.
const BDP_DELAY: &str = "bdp_delay";
const PROPAGATION: &str = "propagation";

const PARAMETERS: &[Parameter] = &[
    Parameter::choice(
        "recovery",
        "selective",
        &["selective", "no-sack", "go-back-n"],
        "what is retransmitted after a loss; selective (section 3.1), the others are the paper's variants (section 4.3)",
    ),
    TIMEOUTS,
    RTO,
    RTO_HIGH,
    Parameter::timeout("rto_low", Time::from_us(100), "timeout while few packets are in flight; 100 us (section 4.1)"),
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
        BDP_DELAY,
        "round-trip",
        &["round-trip", PROPAGATION],
        "delay of which `bdp_cap` is the bandwidth-delay product by default: the round trip of a full packet and its ACK, or propagation alone as in the IRN paper (section 4.1); round-trip",
    ),
    Parameter::choice(
        "nic_pipeline",
        "ideal",
        &["ideal", "rtl:irn"],
        "time that packets take in the NIC: none, or that of IRN's blocks in hardware; ideal",
    ),
    Parameter::derived("nic_cycle", Kind::Time, "clock period of the blocks of `nic_pipeline`; none"),
    PATH_SELECTION,
    PATHS,
    REORDER_TOLERANCE,
    REPS_FREEZE,
];

impl FlowTransport for Irn {
    const DECLARATION: TransportDeclaration = TransportDeclaration {
        own_parameters: PARAMETERS,
        frame_sizes: FrameSizes { data_header: IRN_DATA, ack: ROCE_ACK, nack: IRN_NACK },
        wire: WireFormat::Irn,
        warns_of_small_cap: true,
        ..TransportDeclaration::flows(
            &Irn,
            "irn",
            "IRN: selective retransmission (bitmap SACK), BDP-FC, two timeouts; needs no lossless network",
        )
    };

    fn select<V: ProtocolVisitor>(settings: &Settings, visitor: V) -> V::Output {
        if settings.is("recovery", "go-back-n") {
            visitor.visit::<GoBackN>()
        } else if spray::reorders(settings) {
            visitor.visit::<Sprayed>()
        } else {
            visitor.visit::<Selective>()
        }
    }
}

impl Transport for Irn {
    fn is_go_back_n(&self, settings: &Settings) -> bool {
        settings.is("recovery", "go-back-n")
    }

    fn tolerates_reordering(&self, settings: &Settings) -> bool {
        spray::reorders(settings)
    }

    fn is_capped(&self, settings: &Settings) -> bool {
        flow::is_capped(settings, true)
    }

    fn unused_settings(&self, settings: &Settings) -> Vec<(&'static str, &'static str)> {
        let go_back_n = self.is_go_back_n(settings);
        let mut unused = flow::unused_settings(settings, go_back_n);
        unused.extend(spray::unused_settings(settings));
        if !self.is_capped(settings) {
            unused.push((BDP_DELAY, "with bdp_fc = false there is no cap"));
        } else if settings.is_set("bdp_cap") {
            unused.push((BDP_DELAY, "`bdp_cap` is given"));
        }
        if go_back_n {
            unused.push(("timer_restart", "go-back-N restarts its timer at cumulative progress"));
            unused.push(("nic_pipeline", "the blocks in hardware retransmit selectively"));
        }
        if go_back_n || !settings.is("nic_pipeline", "rtl:irn") {
            unused.push(("nic_cycle", "only `nic_pipeline = \"rtl:irn\"` has a clock"));
        }
        unused
    }

    fn needs_acks(&self, settings: &Settings) -> Option<&'static str> {
        flow::needs_acks(settings, self.is_capped(settings))
    }

    fn configure(&self, settings: &Settings, fabric: &FabricFacts) -> Result<FlowConfig, String> {
        if settings.is("nic_pipeline", "rtl:irn") && settings.time("nic_cycle").is_err() {
            let reason =
                "nic_pipeline = \"rtl:irn\" needs `nic_cycle`, the clock period of the NIC, for example \"4 ns\"";
            return Err(reason.to_string());
        }
        if spray::reorders(settings) {
            let needs = [("recovery", "selective"), ("nic_pipeline", "ideal")];
            if let Some((name, word)) = needs.into_iter().find(|(name, word)| !settings.is(name, word)) {
                let who = spray::needs_acks(settings).unwrap_or_default();
                let given = settings.choice(name).unwrap_or_default();
                return Err(format!("{who} needs {name} = \"{word}\", not \"{given}\""));
            }
        }
        let derived = if settings.is(BDP_DELAY, PROPAGATION) { fabric.bdp } else { fabric.fill };
        let cfg = FlowConfig {
            bdp_cap: flow::bdp_cap(settings, derived, true),
            sack: !settings.is("recovery", "no-sack"),
            timer_restart: match settings.is("timer_restart", "progress") {
                true => TimerRestart::Progress,
                false => TimerRestart::Response,
            },
            nacks: flow::nacks(settings),
            ..flow::config(settings, fabric, true)
        };
        Ok(spray::configure(settings, fabric, cfg))
    }

    fn describe_flows(&self, settings: &Settings, cfg: &FlowConfig) -> (Description, Description) {
        let recovery = ("recovery", settings.choice("recovery").unwrap_or_default());
        let mut timers = flow::describe_timeouts(cfg, true);
        if cfg.timeouts.is_some() && !self.is_go_back_n(settings) {
            timers.push(("timer_restart", settings.choice("timer_restart").unwrap_or_default()));
        }
        let mut before = vec![recovery, flow::describe_cap(cfg)];
        before.extend(spray::describe(settings, cfg));
        (before, timers)
    }
}
