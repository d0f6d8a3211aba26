//! The RoCE transport: the go-back-N loss recovery of RDMA NICs (IRN paper, section 2.1).
//!
//! With a path selection of the sender, or a reordering tolerance, the transport is that of NICs which place packets in
//! memory in any order, as several commodity NICs of 2025 do for adaptive routing: selective retransmission
//! ([`Sprayed`]) without BDP-FC. Vendors do not publish the loss recovery of this mode.

use super::flow::{self, BDP_CAP, BDP_FC, GO_BACK, NACKS, RTO, RTO_HIGH, TIMEOUTS};
use super::spray::{self, PATH_SELECTION, PATHS, REORDER_TOLERANCE, REPS_FREEZE};
use super::{
    Description, FabricFacts, FlowTransport, FrameSizes, ProtocolVisitor, Transport, TransportDeclaration, WireFormat,
};
use crate::config::{FlowConfig, GoBack};
use crate::headers::{ROCE_ACK, ROCE_DATA};
use crate::recovery::{GoBackN, Sprayed};
use crate::settings::{Kind, Parameter, Settings};

/// The RoCE transport: go-back-N loss recovery, combined with a separate congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Roce;

const PARAMETERS: &[Parameter] = &[
    TIMEOUTS,
    RTO,
    RTO_HIGH,
    Parameter::derived(
        "acks",
        Kind::Flag,
        "acknowledge every data packet; no (all Reads), unless the congestion control, a cap, a dynamic timeout or collective traffic needs it",
    ),
    NACKS,
    GO_BACK,
    BDP_FC,
    BDP_CAP,
    PATH_SELECTION,
    PATHS,
    REORDER_TOLERANCE,
    REPS_FREEZE,
];

impl FlowTransport for Roce {
    const DECLARATION: TransportDeclaration = TransportDeclaration {
        own_parameters: PARAMETERS,
        frame_sizes: FrameSizes { data_header: ROCE_DATA, ack: ROCE_ACK, nack: ROCE_ACK },
        wire: WireFormat::Roce,
        ..TransportDeclaration::flows(
            &Roce,
            "roce",
            "RoCE NIC: go-back-N, NACK for the first (or every) out-of-order packet, fixed timeout; ACKs optional",
        )
    };

    fn select<V: ProtocolVisitor>(settings: &Settings, visitor: V) -> V::Output {
        if spray::reorders(settings) { visitor.visit::<Sprayed>() } else { visitor.visit::<GoBackN>() }
    }
}

impl Transport for Roce {
    fn is_go_back_n(&self, settings: &Settings) -> bool {
        !spray::reorders(settings)
    }

    fn tolerates_reordering(&self, settings: &Settings) -> bool {
        spray::reorders(settings)
    }

    fn is_capped(&self, settings: &Settings) -> bool {
        flow::is_capped(settings, false)
    }

    fn unused_settings(&self, settings: &Settings) -> Vec<(&'static str, &'static str)> {
        let go_back_n = self.is_go_back_n(settings);
        let mut unused = flow::unused_settings(settings, go_back_n);
        unused.extend(spray::unused_settings(settings));
        if !go_back_n {
            unused.push(("go_back", "a NIC that accepts packets in any order retransmits selectively"));
        }
        unused
    }

    fn needs_acks(&self, settings: &Settings) -> Option<&'static str> {
        flow::needs_acks(settings, self.is_capped(settings)).or_else(|| spray::needs_acks(settings))
    }

    fn acknowledges(&self, settings: &Settings, needs_acks: bool) -> bool {
        settings.flag("acks").unwrap_or(needs_acks || self.needs_acks(settings).is_some())
    }

    fn configure(&self, settings: &Settings, fabric: &FabricFacts) -> Result<FlowConfig, String> {
        let cfg = FlowConfig {
            bdp_cap: flow::bdp_cap(settings, fabric.fill, false),
            acks: self.acknowledges(settings, fabric.needs_acks),
            nacks: flow::nacks(settings),
            go_back: if settings.is("go_back", "0") { GoBack::First } else { GoBack::Expected },
            ..flow::config(settings, fabric, false)
        };
        Ok(spray::configure(settings, fabric, cfg))
    }

    fn describe_flows(&self, settings: &Settings, cfg: &FlowConfig) -> (Description, Description) {
        let mut before = vec![flow::describe_cap(cfg)];
        if cfg.go_back == GoBack::First {
            before.push(("go_back", "0: at the first packet of the message".to_string()));
        }
        before.extend(spray::describe(settings, cfg));
        (before, flow::describe_timeouts(cfg, false))
    }
}
