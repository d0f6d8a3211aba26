//! HPCC as a message transport: the parameters that users may set, and how their values configure the program.

use super::{Description, MessageFacts, MessageTransport, ProgramVisitor, Transport, TransportDeclaration};
use crate::message::programs::{self, HpccSettings};
use crate::settings::{Kind, Parameter, Settings};

/// The HPCC message transport: in-band telemetry controls the window of each message.
#[derive(Clone, Copy, Debug)]
pub struct Hpcc;

const PARAMETERS: &[Parameter] = &[
    Parameter::number("eta", 0.95, 0.01, 0.999, "target utilisation; 0.95 (HPCC, section 3.2)"),
    Parameter::count("max_stage", 5, 1, 1_000, "consecutive steps of additive increase; 5 (HPCC, section 3.2)"),
    Parameter::derived(
        "w_ai",
        Kind::Size { min: 1, max: 1_000_000_000 },
        "additive increase of the window per step; a sixteenth of what `eta` leaves of the first window (HPCC, section 3.3)",
    ),
];

impl MessageTransport for Hpcc {
    const DECLARATION: TransportDeclaration = TransportDeclaration {
        own_parameters: PARAMETERS,
        telemetry: true,
        ..TransportDeclaration::messages(
            &Hpcc,
            "hpcc",
            "HPCC as a message transport: window from in-band telemetry, in fixed-point arithmetic",
        )
    };

    fn select<V: ProgramVisitor>(settings: &Settings, fabric: &MessageFacts, visitor: V) -> V::Output {
        let settings = program(settings, fabric);
        match fabric.max_hops {
            // Paths of trees with three tiers.
            ..=5 => visitor.visit(|ip| programs::Hpcc::<5>::for_paths(ip, settings)),
            _ => visitor.visit(|ip| programs::Hpcc::new(ip, settings)),
        }
    }
}

impl Transport for Hpcc {
    fn priorities(&self, _settings: &Settings) -> Option<u8> {
        Some(2)
    }

    fn describe_messages(&self, settings: &Settings, fabric: &MessageFacts) -> Description {
        let hpcc = program(settings, fabric);
        vec![
            ("eta", format!("{:.3}", f64::from(hpcc.target) / 65_536.0)),
            ("max_stage", hpcc.max_stages.to_string()),
            ("w_ai", format!("{} B", hpcc.additive_bytes)),
        ]
    }
}

fn program(settings: &Settings, fabric: &MessageFacts) -> HpccSettings {
    let MessageFacts { mtu, rtt_pkts, base_rtt_ns, .. } = *fabric;
    let target = (settings.number("eta").unwrap_or(0.95) * 65_536.0).round() as u32;
    HpccSettings {
        mtu,
        rtt_pkts,
        base_rtt_ns,
        additive_bytes: settings.bytes("w_ai").map_or(additive_bytes(mtu, rtt_pkts, target), |bytes| bytes as u32),
        target,
        max_stages: settings.count("max_stage").map_or(5, |count| count as u32),
    }
}

/// The default additive increase of the window per step, in bytes: (1 - eta) times the initial window, divided by 16
/// messages (HPCC paper, section 3.3). `target` is eta times 65,536. The computation uses integers only, like the P4
/// program.
fn additive_bytes(mtu: u32, rtt_pkts: u32, target: u32) -> u32 {
    let free = u64::from(rtt_pkts) * u64::from(mtu) * 65_536u64.saturating_sub(target.into());
    ((free + (1 << 19)) >> 20).clamp(1, u64::from(u32::MAX)) as u32
}
