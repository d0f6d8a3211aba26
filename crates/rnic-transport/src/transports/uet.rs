//! Ultra Ethernet Transport (UET) in its mode of reliable unordered delivery: packets take many paths, losses are
//! repaired selectively, and switches trim instead of pausing.
//!
//! Sources: the public reference simulator (uet-htsim) for the behaviour, and the public reference provider for the
//! sizes of headers. The text of the specification, UET 1.0, prevails over both; it was not read.

use super::flow::{self, BDP_CAP, RTO, RTO_HIGH, TIMEOUTS};
use super::spray::{self, PATHS, REPS_FREEZE};
use super::{Description, FabricFacts, FlowTransport, FrameSizes, ProtocolVisitor, Transport, TransportDeclaration};
use crate::config::FlowConfig;
use crate::headers::{UET_ACK, UET_DATA, UET_NACK};
use crate::paths::NAMES;
use crate::recovery::Uet as Unordered;
use crate::settings::{Parameter, Settings};

/// The transport UET: reliable unordered delivery over many paths.
#[derive(Clone, Copy, Debug)]
pub struct Uet;

const PARAMETERS: &[Parameter] = &[
    TIMEOUTS,
    RTO,
    RTO_HIGH,
    BDP_CAP,
    Parameter::choice(
        "path_selection",
        "mixed",
        &NAMES,
        "how the sender chooses the entropy, and with it the path, of each packet; mixed (uet-htsim)",
    ),
    PATHS,
    REPS_FREEZE,
];

impl FlowTransport for Uet {
    const DECLARATION: TransportDeclaration = TransportDeclaration {
        own_parameters: PARAMETERS,
        frame_sizes: FrameSizes { data_header: UET_DATA, ack: UET_ACK, nack: UET_NACK },
        handles_trimming: true,
        grants_credit: true,
        control_first: true,
        ..TransportDeclaration::flows(
            &Uet,
            "uet",
            "Ultra Ethernet: packets over many paths, selective retransmission, trimming",
        )
    };

    fn select<V: ProtocolVisitor>(_settings: &Settings, visitor: V) -> V::Output {
        visitor.visit::<Unordered>()
    }
}

impl Transport for Uet {
    fn is_capped(&self, _settings: &Settings) -> bool {
        true
    }

    fn unused_settings(&self, settings: &Settings) -> Vec<(&'static str, &'static str)> {
        let mut unused = flow::unused_settings(settings, false);
        unused.extend(spray::unused_settings(settings));
        unused
    }

    fn needs_acks(&self, _settings: &Settings) -> Option<&'static str> {
        Some("transport uet")
    }

    fn configure(&self, settings: &Settings, fabric: &FabricFacts) -> Result<FlowConfig, String> {
        // The window begins at 1.5 bandwidth-delay products and never exceeds them (uet-htsim).
        let cap = fabric.fill.saturating_mul(3).div_ceil(2);
        let cfg = FlowConfig { bdp_cap: flow::bdp_cap(settings, cap, true), ..flow::config(settings, fabric, false) };
        Ok(FlowConfig { reorder: None, ..spray::with_paths(settings, fabric, cfg) })
    }

    fn describe_flows(&self, settings: &Settings, cfg: &FlowConfig) -> (Description, Description) {
        let mut before = vec![flow::describe_cap(cfg)];
        before.extend(spray::describe(settings, cfg));
        (before, flow::describe_timeouts(cfg, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Selection;

    #[test]
    fn packets_are_sprayed_unless_the_user_chooses_one_path() {
        assert_eq!(Selection::named("mixed"), Some(Selection::Mixed));
        let settings = Uet::DECLARATION.settings();
        assert!(spray::sprays(&settings));
    }
}
