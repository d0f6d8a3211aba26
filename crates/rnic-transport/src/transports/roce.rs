//! The RoCE transport: the go-back-N loss recovery of RDMA NICs (IRN paper, section 2.1).

use super::flow::{self, BDP_CAP, BDP_FC, GO_BACK, NACKS, RTO, RTO_HIGH, TIMEOUTS};
use super::{
    Description, FabricFacts, FlowTransport, FrameSizes, ProtocolVisitor, Transport, TransportDeclaration, WireFormat,
};
use crate::config::{FlowConfig, GoBack};
use crate::headers::{ROCE_ACK, ROCE_DATA};
use crate::recovery::GoBackN;
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

    fn select<V: ProtocolVisitor>(_settings: &Settings, visitor: V) -> V::Output {
        visitor.visit::<GoBackN>()
    }
}

impl Transport for Roce {
    fn is_go_back_n(&self, _settings: &Settings) -> bool {
        true
    }

    fn is_capped(&self, settings: &Settings) -> bool {
        flow::is_capped(settings, false)
    }

    fn unused_settings(&self, settings: &Settings) -> Vec<(&'static str, &'static str)> {
        flow::unused_settings(settings, true)
    }

    fn needs_acks(&self, settings: &Settings) -> Option<&'static str> {
        flow::needs_acks(settings, self.is_capped(settings))
    }

    fn acknowledges(&self, settings: &Settings, needs_acks: bool) -> bool {
        settings.flag("acks").unwrap_or(needs_acks || self.needs_acks(settings).is_some())
    }

    fn configure(&self, settings: &Settings, fabric: &FabricFacts) -> Result<FlowConfig, String> {
        Ok(FlowConfig {
            bdp_cap: flow::bdp_cap(settings, fabric.fill, false),
            acks: self.acknowledges(settings, fabric.needs_acks),
            nacks: flow::nacks(settings),
            go_back: if settings.is("go_back", "0") { GoBack::First } else { GoBack::Expected },
            ..flow::config(settings, fabric, false)
        })
    }

    fn describe_flows(&self, _settings: &Settings, cfg: &FlowConfig) -> (Description, Description) {
        let mut before = vec![flow::describe_cap(cfg)];
        if cfg.go_back == GoBack::First {
            before.push(("go_back", "0: at the first packet of the message".to_string()));
        }
        (before, flow::describe_timeouts(cfg, false))
    }
}
