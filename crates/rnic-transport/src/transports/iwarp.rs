//! The iWARP transport: RDMA over a full TCP stack (IRN paper, section 4.6).

use super::flow;
use super::{
    Description, FabricFacts, FlowTransport, FrameSizes, MAX_IN_FLIGHT, ProtocolVisitor, Transport,
    TransportDeclaration,
};
use crate::Time;
use crate::config::{FlowConfig, TcpConfig};
use crate::headers::{IWARP_ACK, IWARP_DATA, IWARP_SACK};
use crate::recovery::Tcp;
use crate::settings::{Kind, Parameter, Settings};

/// Parameters of every transport over TCP.
pub(super) const TCP_PARAMETERS: [Parameter; 8] = [
    Parameter::choice("recovery", "sack", &["sack", "newreno"], "loss recovery; SACK (RFC 6675) or NewReno (RFC 6582)"),
    Parameter::derived(
        "rto_initial",
        Kind::Timeout,
        "timeout before the first measurement; 1 ms (RFC 6298, a thousandth), at least `rto_min`",
    ),
    Parameter::derived(
        "rto_max",
        Kind::Timeout,
        "maximum timeout; 60 ms (RFC 6298, a thousandth), at least the two others",
    ),
    Parameter::derived(
        "initial_window",
        Kind::Count { min: 1, max: MAX_IN_FLIGHT },
        "initial congestion window in packets; RFC 5681: 4 for an MTU of up to 1,095 B, 3 up to 2,190 B, else 2",
    ),
    Parameter::derived(
        "receive_window",
        Kind::Size { min: 1, max: 2_000_000_000 },
        "the receiver's buffer of a flow; 4 MB",
    ),
    Parameter::flag("delayed_acks", false, "acknowledge every second packet instead of every one; no"),
    Parameter::timeout(
        "delayed_ack_timeout",
        TcpConfig::DELAYED_ACK,
        "maximum delay of an acknowledgement; 500 us (RFC 5681, a thousandth)",
    ),
    Parameter::flag("handshake", false, "a flow includes the setup of its connection; no"),
];

/// The iWARP transport: TCP with its own congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Iwarp;

impl FlowTransport for Iwarp {
    const DECLARATION: TransportDeclaration = TransportDeclaration {
        own_parameters: &TCP_PARAMETERS,
        frame_sizes: FrameSizes { data_header: IWARP_DATA, ack: IWARP_ACK, nack: IWARP_SACK },
        ..TransportDeclaration::flows(
            &Iwarp,
            "iwarp",
            "iWARP: a full TCP stack (slow start, SACK or NewReno recovery, RFC 6298 timeout); needs no lossless network",
        )
    };

    fn select<V: ProtocolVisitor>(_settings: &Settings, visitor: V) -> V::Output {
        visitor.visit::<Tcp>()
    }
}

impl Transport for Iwarp {
    fn unused_settings(&self, settings: &Settings) -> Vec<(&'static str, &'static str)> {
        unused_settings(settings)
    }

    fn configure(&self, settings: &Settings, fabric: &FabricFacts) -> Result<FlowConfig, String> {
        Ok(FlowConfig { tcp: tcp(settings)?, ..flow::config(settings, fabric, false) })
    }

    fn describe_flows(&self, settings: &Settings, cfg: &FlowConfig) -> (Description, Description) {
        describe(settings, cfg)
    }
}

/// The settings of TCP that have no effect because of other settings.
pub(super) fn unused_settings(settings: &Settings) -> Vec<(&'static str, &'static str)> {
    let why = "acknowledgements are delayed only with delayed_acks = true";
    if settings.flag("delayed_acks") == Ok(true) { Vec::new() } else { vec![("delayed_ack_timeout", why)] }
}

/// The settings of TCP for the description of a run.
pub(super) fn describe(settings: &Settings, cfg: &FlowConfig) -> (Description, Description) {
    let tcp = cfg.tcp;
    let before = vec![
        ("recovery", settings.choice("recovery").unwrap_or_default()),
        ("initial_window", format!("{} packets", tcp.initial_window_bytes(cfg.mtu) / cfg.mtu)),
        ("receive_window", flow::bytes(tcp.receive_window)),
        ("rto", format!("from {}, {} to {}", tcp.rto_initial, tcp.rto_min, tcp.rto_max)),
        ("connection setup", if tcp.handshake { "part of the flow" } else { "not simulated" }.to_string()),
    ];
    (before, Vec::new())
}

/// The TCP configuration: the values that the user set, and [`TcpConfig::default`] for the others.
pub(super) fn tcp(settings: &Settings) -> Result<TcpConfig, String> {
    let default = TcpConfig::default();
    let [min, initial, max] = ["rto_min", "rto_initial", "rto_max"].map(|name| settings.time(name).ok());
    // If a value that the user set contradicts the default of another timeout, this default is adapted.
    let (shortest, longest) = (min.or(initial), max);
    let rto_initial =
        initial.unwrap_or(default.rto_initial.max(min.unwrap_or_default()).min(longest.unwrap_or(Time::MAX)));
    let rto_min = min.unwrap_or(default.rto_min.min(rto_initial));
    let rto_max = longest.unwrap_or(default.rto_max.max(shortest.unwrap_or_default()));
    if rto_min > rto_initial || rto_initial > rto_max {
        return Err(format!(
            "rto_min = \"{rto_min}\", rto_initial = \"{rto_initial}\", rto_max = \"{rto_max}\": each can be at most the next"
        ));
    }
    let delayed = settings.flag("delayed_acks") == Ok(true);
    Ok(TcpConfig {
        sack: !settings.is("recovery", "newreno"),
        delayed_acks: delayed.then(|| settings.time("delayed_ack_timeout").unwrap_or(TcpConfig::DELAYED_ACK)),
        initial_window: settings.count("initial_window").ok().map(|packets| packets as u32),
        receive_window: settings.bytes("receive_window").map_or(default.receive_window, |bytes| bytes as u32),
        rto_min,
        rto_initial,
        rto_max,
        handshake: settings.flag("handshake") == Ok(true),
        ..default
    })
}
