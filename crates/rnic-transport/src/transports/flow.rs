//! Parameters and configuration that the transports of flows share: retransmission timeouts and the cap on packets in
//! flight.

use super::{FabricFacts, MAX_IN_FLIGHT};
use crate::config::{FlowConfig, GoBack, NackPolicy, Timeouts, TimerRestart};
use crate::settings::{Kind, Parameter, Settings};
use crate::{Bytes, Psn, Time};

/// Retransmission timeout in a fabric that is meant to be lossless, but may drop packets for lack of headroom. It is
/// InfiniBand's usual local ACK timeout, 4.096 us x 2^14 = 67 ms.
pub const SAFETY_TIMEOUT: Time = Time::from_ps(4_096_000 << 14);

pub(super) const TIMEOUTS: Parameter =
    Parameter::derived("timeouts", Kind::Flag, "whether retransmission timers run; unless the fabric is lossless");
pub(super) const RTO: Parameter = Parameter::choice(
    "rto",
    "fixed",
    &["fixed", "dynamic"],
    "\"dynamic\": computed from round-trip times (RFC 6298); fixed",
);
pub(super) const RTO_HIGH: Parameter = Parameter::derived(
    "rto_high",
    Kind::Timeout,
    "retransmission timeout; round-trip propagation plus all buffers of the largest switch over one link (IRN, section 4.1)",
);
pub(super) const NACKS: Parameter = Parameter::choice(
    "nacks",
    "first",
    &["first", "every"],
    "go-back-N: which out-of-order packets trigger a NACK; first (InfiniBand)",
);
pub(super) const GO_BACK: Parameter = Parameter::choice(
    "go_back",
    "n",
    &["n", "0"],
    "where the sender begins again after a loss; n: at the lost packet; 0: at the first packet of the message, of which the receiver keeps nothing",
);
pub(super) const BDP_FC: Parameter = Parameter::derived(
    "bdp_fc",
    Kind::Flag,
    "whether packets in flight are capped; IRN yes, RoCE if `bdp_cap` is given",
);
pub(super) const BDP_CAP: Parameter = Parameter::derived(
    "bdp_cap",
    Kind::Count { min: 1, max: MAX_IN_FLIGHT },
    "maximum number of packets in flight; as many as fill the path between any two hosts of an empty fabric",
);

/// Whether these settings make the retransmission timeout dynamic, that is, computed from measured round-trip times.
pub(super) fn is_dynamic(settings: &Settings) -> bool {
    settings.is("rto", "dynamic")
}

/// Whether these settings cap a flow's number of packets in flight. `default` is the result if the user set neither
/// `bdp_fc` nor `bdp_cap`.
pub(super) fn is_capped(settings: &Settings, default: bool) -> bool {
    settings.flag("bdp_fc").unwrap_or(default || settings.is_set("bdp_cap"))
}

/// The maximum number of packets of a flow in flight; [`Psn::MAX_WINDOW`] if [`is_capped`] is false. `derived` is the
/// maximum if the user set none.
pub(super) fn bdp_cap(settings: &Settings, derived: u32, default: bool) -> u32 {
    if !is_capped(settings, default) {
        return Psn::MAX_WINDOW;
    }
    settings.count("bdp_cap").map_or(derived, |packets| packets as u32)
}

pub(super) fn nacks(settings: &Settings) -> NackPolicy {
    if settings.is("nacks", "every") { NackPolicy::Every } else { NackPolicy::First }
}

/// The feature in these settings that needs acknowledgements, in words for a message to the user; `None` if no feature
/// does. `capped` is the result of [`is_capped`].
pub(super) fn needs_acks(settings: &Settings, capped: bool) -> Option<&'static str> {
    if capped {
        return Some("a cap on packets in flight");
    }
    is_dynamic(settings).then_some("a dynamic timeout")
}

/// Settings of timers, of NACKs and of the cap on packets in flight that have no effect because of other settings:
/// (name of the parameter, reason). `go_back_n` says whether the transport uses go-back-N.
pub(super) fn unused_settings(settings: &Settings, go_back_n: bool) -> Vec<(&'static str, &'static str)> {
    let dynamic = is_dynamic(settings);
    let checks = [
        ("bdp_cap", settings.flag("bdp_fc") == Ok(false), "with bdp_fc = false there is no cap"),
        ("nacks", !go_back_n, "only go-back-N has this choice"),
        ("rto_low", dynamic, "a dynamic timeout has no short one"),
        ("rto_low_packets", dynamic, "a dynamic timeout has no short one"),
        ("rto_min", !dynamic, "a fixed timeout has no minimum; write rto = \"dynamic\", or set rto_high"),
    ];
    checks.into_iter().filter(|(_, is_unused, _)| *is_unused).map(|(name, _, why)| (name, why)).collect()
}

/// The retransmission timeouts of the flows in a simulation run. Unless the user set `timeouts`, flows have no timeouts
/// in a lossless fabric, and only [`SAFETY_TIMEOUT`] in a fabric with PFC but uncertain headroom. `two` says whether
/// the transport has a second, short timeout for few packets in flight, like IRN.
pub(super) fn timeouts(settings: &Settings, fabric: &FabricFacts, two: bool) -> Option<Timeouts> {
    let low_packets = settings.count("rto_low_packets").map_or(3, |packets| packets as u32);
    match settings.flag("timeouts") {
        Ok(false) => return None,
        Err(_) if fabric.lossless => return None,
        Err(_) if fabric.meant_lossless => {
            return Some(Timeouts { high: SAFETY_TIMEOUT, low: SAFETY_TIMEOUT, low_packets, dynamic: None });
        }
        _ => {}
    }
    let high = settings.time("rto_high").unwrap_or(fabric.congested_rtt);
    let low = settings.time("rto_low").unwrap_or(Time::from_us(100)).min(high);
    let low = if two { low } else { high };
    let dynamic = is_dynamic(settings).then(|| settings.time("rto_min").unwrap_or(Time::from_us(100)));
    Some(Timeouts { high, low, low_packets, dynamic })
}

/// The configuration of flows that every transport of flows starts from and then adapts. `two_timeouts` is the
/// parameter `two` of [`timeouts`].
pub(super) fn config(settings: &Settings, fabric: &FabricFacts, two_timeouts: bool) -> FlowConfig {
    FlowConfig {
        mtu: fabric.mtu,
        header: fabric.header,
        line_rate: fabric.line_rate,
        base_rtt: fabric.base_rtt,
        bdp: fabric.bdp,
        bdp_cap: Psn::MAX_WINDOW,
        sack: true,
        timer_restart: TimerRestart::default(),
        timeouts: timeouts(settings, fabric, two_timeouts),
        acks: true,
        nacks: NackPolicy::First,
        go_back: GoBack::Expected,
        cnp_interval: None,
        nic_cnp_interval: Time::ZERO,
        max_rate: settings.rate("max_rate").ok(),
        first_psn: Psn::new(0),
        tcp: Default::default(),
        paths: Default::default(),
        reorder: None,
        trims: fabric.trims,
        ack_packets: 1,
        last_hop_trims: false,
        probe_after: None,
        psn_range: None,
    }
}

/// A flow configuration for a message transport, which has no settings of flows: every value follows from the fabric or
/// is a default.
impl From<&FabricFacts> for FlowConfig {
    fn from(fabric: &FabricFacts) -> FlowConfig {
        config(&Settings::of(&[super::FLOW_PARAMETERS]), fabric, false)
    }
}

/// The cap on packets in flight as (key, value), for the description of a simulation run.
pub(super) fn describe_cap(cfg: &FlowConfig) -> (&'static str, String) {
    match cfg.bdp_cap {
        Psn::MAX_WINDOW => ("bdp_fc", "off".to_string()),
        cap => ("bdp_cap", format!("{cap} packets")),
    }
}

/// The retransmission timeouts as pairs of key and value, for the description of a simulation run. `two` says whether
/// the transport has a second, short timeout.
pub(super) fn describe_timeouts(cfg: &FlowConfig, two: bool) -> super::Description {
    match cfg.timeouts {
        None => vec![("timeouts", "off".to_string())],
        Some(Timeouts { high, dynamic: Some(min), .. }) => {
            vec![("rto", format!("dynamic, from {high}, at least {min}"))]
        }
        Some(t) if two => vec![
            ("rto_high", t.high.to_string()),
            ("rto_low", t.low.to_string()),
            ("rto_low_packets", t.low_packets.to_string()),
        ],
        Some(t) => vec![("rto_high", t.high.to_string())],
    }
}

/// Formats a number of bytes with its unit, such as `1.024 KB`.
pub(super) fn bytes(bytes: u32) -> String {
    Bytes(u64::from(bytes)).to_string()
}
