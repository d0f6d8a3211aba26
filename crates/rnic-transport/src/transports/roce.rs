//! The RoCE transport: the go-back-N loss recovery of RDMA NICs (IRN paper, section 2.1).

use super::flow::{self, BDP_CAP, BDP_FC, GO_BACK, NACKS, RTO, RTO_HIGH, TIMEOUTS};
use super::{Description, FabricFacts, FlowTransport, FrameSizes, ProtocolVisitor, WireFormat};
use crate::config::{FlowConfig, GoBack};
use crate::headers::{ROCE_ACK, ROCE_DATA};
use crate::recovery::GoBackN;
use crate::settings::{Kind, Parameter, Settings};

/// The RoCE transport: go-back-N loss recovery, combined with a separate congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Roce;

impl FlowTransport for Roce {
    const NAME: &'static str = "roce";
    const ABOUT: &'static str =
        "RoCE NIC: go-back-N, NACK for the first (or every) out-of-order packet, fixed timeout; ACKs optional";
    const PARAMETERS: &'static [Parameter] = &[
        TIMEOUTS,
        RTO,
        RTO_HIGH,
        Parameter::derived(
            "acks",
            Kind::Flag,
            "acknowledge every data packet; no (all Reads), unless the congestion control, a cap or a dynamic timeout needs it",
        ),
        NACKS,
        GO_BACK,
        BDP_FC,
        BDP_CAP,
    ];

    const WIRE: WireFormat = WireFormat::Roce;

    fn frames() -> FrameSizes {
        FrameSizes { data_header: ROCE_DATA, ack: ROCE_ACK, nack: ROCE_ACK }
    }

    fn idle(settings: &Settings) -> Vec<(&'static str, &'static str)> {
        flow::idle(settings, true)
    }

    fn needs_acks(settings: &Settings) -> Option<&'static str> {
        flow::needs_acks(settings, flow::is_capped(settings, false))
    }

    fn acknowledges(settings: &Settings, cc_needs_acks: bool) -> bool {
        settings.flag("acks").unwrap_or(cc_needs_acks || Roce::needs_acks(settings).is_some())
    }

    fn configure(settings: &Settings, facts: &FabricFacts) -> Result<FlowConfig, String> {
        Ok(FlowConfig {
            bdp_cap: flow::bdp_cap(settings, facts, false),
            acks: Roce::acknowledges(settings, facts.cc_needs_acks),
            nacks: flow::nacks(settings),
            go_back: if settings.is("go_back", "0") { GoBack::First } else { GoBack::Expected },
            ..flow::config(settings, facts, false)
        })
    }

    fn describe(_settings: &Settings, cfg: &FlowConfig) -> (Description, Description) {
        let mut before = vec![flow::describe_cap(cfg)];
        if cfg.go_back == GoBack::First {
            before.push(("go_back", "0: at the first packet of the message".to_string()));
        }
        (before, flow::describe_timeouts(cfg, false))
    }

    fn select<V: ProtocolVisitor>(_settings: &Settings, visitor: V) -> V::Output {
        visitor.visit::<GoBackN>()
    }
}
