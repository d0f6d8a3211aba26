//! Ultra Ethernet Transport (UET) in its mode of reliable unordered delivery: packets take many paths, losses are
//! repaired selectively, and switches trim instead of pausing.
//!
//! Sources: the public reference simulator (uet-htsim) for the behaviour, and the public reference provider for the
//! sizes of headers. The text of the specification, UET 1.0, prevails over both; it was not read.

use super::flow::{self, BDP_CAP, RTO, RTO_HIGH, TIMEOUTS};
use super::spray::{self, PATHS, REPS_FREEZE};
use super::{Description, FabricFacts, FlowTransport, FrameSizes, ProtocolVisitor, Transport, TransportDeclaration};
use crate::Time;
use crate::config::{FlowConfig, Timeouts};
use crate::headers::{UET_ACK, UET_DATA, UET_NACK};
use crate::paths::NAMES;
use crate::recovery::Uet as Unordered;
use crate::settings::{Kind, Parameter, Settings};

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
    Parameter::derived(
        PSN_RANGE,
        Kind::Count { min: 1, max: MAX_PSN_RANGE },
        "maximum distance of a packet from the first one that is not acknowledged, in packets; twice `bdp_cap` (uet-htsim: 16384)",
    ),
    Parameter::derived(
        ACK_EVERY,
        Kind::Size { min: 64, max: 1 << 20 },
        "bytes of packets after which a receiver acknowledges, at most 16 packets; every packet (uet-htsim: 16 KiB)",
    ),
    Parameter::flag(
        LAST_HOP,
        false,
        "whether a packet that the last switch trimmed counts as congestion of the receiver, not of the path; our choice (false; uet-htsim: true)",
    ),
    Parameter::number(
        PROBE_AFTER,
        0.0,
        0.0,
        1e6,
        "base round trips without a response after which a sender probes; our choice (0: never; uet-htsim: 3 without trimming)",
    ),
];

const PSN_RANGE: &str = "psn_range";
const ACK_EVERY: &str = "ack_every";
const LAST_HOP: &str = "last_hop_trims";
const PROBE_AFTER: &str = "probe_after";

/// Number of packets that the bitmap of an ACK has room for.
const MAX_ACK_PACKETS: u64 = 16;

/// Maximum of `psn_range`: a receiver has a bitmap of this size for each flow.
const MAX_PSN_RANGE: u64 = 1 << 16;

/// Maximum distance of a packet from the first one that is not acknowledged, if the user set it.
fn psn_range(settings: &Settings, cap: u32) -> Result<Option<u32>, String> {
    let Ok(range) = settings.count(PSN_RANGE) else { return Ok(None) };
    if range < u64::from(cap) {
        return Err(format!(
            "`{PSN_RANGE}` of {range} is less than `bdp_cap`, the maximum number of packets in flight; accepted: {cap} to {MAX_PSN_RANGE}"
        ));
    }
    Ok(Some(range as u32))
}

/// Number of packets that an ACK acknowledges.
fn ack_packets(settings: &Settings, fabric: &FabricFacts) -> Result<u32, String> {
    let Ok(bytes) = settings.bytes(ACK_EVERY) else { return Ok(1) };
    let packet = u64::from(fabric.mtu + fabric.header);
    match bytes.div_ceil(packet) {
        packets @ 2..=MAX_ACK_PACKETS => Ok(packets as u32),
        packets => Err(format!(
            "`{ACK_EVERY}` of {bytes} B is {packets} packets of {packet} B; accepted: 2 to {MAX_ACK_PACKETS} packets, {} to {} B (without it every packet has an ACK)",
            packet + 1,
            MAX_ACK_PACKETS * packet
        )),
    }
}

/// Time without a response after which a sender probes.
fn probe_after(settings: &Settings, fabric: &FabricFacts, cfg: &FlowConfig) -> Result<Option<Time>, String> {
    let after = fabric.base_rtt.as_ps() as f64 * settings.number(PROBE_AFTER)?;
    let after = Some(Time::from_ps(after as u64)).filter(|after| *after > Time::ZERO);
    match (after, cfg.timeouts) {
        (Some(_), None) => Err(format!(
            "`{PROBE_AFTER}` has no effect without timeouts, because nothing is lost; accepted: 0, or `timeouts = true`"
        )),
        (Some(after), Some(Timeouts { high, .. })) if after >= high => Err(format!(
            "`{PROBE_AFTER}` has no effect: a sender would probe after {after}, and retransmits after {high}; accepted: less than {:.1}",
            high.as_ps() as f64 / fabric.base_rtt.as_ps() as f64
        )),
        _ => Ok(after),
    }
}

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
        let last_hop_trims = settings.flag(LAST_HOP)?;
        if last_hop_trims && !fabric.trims {
            return Err(format!(
                "`{LAST_HOP}` has no effect, because the switches do not trim; accepted: false, or `trim = true` in `[fabric.switch]` with queueing = \"output\""
            ));
        }
        let cfg = FlowConfig {
            psn_range: psn_range(settings, cfg.bdp_cap)?,
            ack_packets: ack_packets(settings, fabric)?,
            probe_after: probe_after(settings, fabric, &cfg)?,
            last_hop_trims,
            ..cfg
        };
        Ok(FlowConfig { reorder: None, ..spray::with_paths(settings, fabric, cfg) })
    }

    fn describe_flows(&self, settings: &Settings, cfg: &FlowConfig) -> (Description, Description) {
        let mut before = vec![flow::describe_cap(cfg)];
        before.extend(spray::describe(settings, cfg));
        before.extend(cfg.psn_range.map(|range| (PSN_RANGE, format!("{range} packets"))));
        if cfg.ack_packets > 1 {
            before.push((ACK_EVERY, format!("{} packets", cfg.ack_packets)));
        }
        if cfg.last_hop_trims {
            before.push((LAST_HOP, "true".to_string()));
        }
        before.extend(cfg.probe_after.map(|after| (PROBE_AFTER, after.to_string())));
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
