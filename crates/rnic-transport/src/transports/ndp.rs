//! The NDP transport: the parameters that users may set, and how their values configure the program.

use super::message::PULL_RATE;
use super::{Description, MessageFacts, MessageTransport, ProgramVisitor, Transport, TransportDeclaration};
use crate::message::programs;
use crate::settings::{Parameter, Settings};

/// The NDP transport: the receiver pulls packets of messages at the rate of its link.
#[derive(Clone, Copy, Debug)]
pub struct Ndp;

const PARAMETERS: &[Parameter] =
    &[Parameter::flag("paced_nacks", true, "NACKs leave at the pace of PULLs; yes (NDP paper)"), PULL_RATE];

impl MessageTransport for Ndp {
    const DECLARATION: TransportDeclaration = TransportDeclaration {
        own_parameters: PARAMETERS,
        spray: true,
        ..TransportDeclaration::messages(
            &Ndp,
            "ndp",
            "NDP: message transport; one window unsolicited, then the receiver pulls at its link rate; needs trimming switches",
        )
    };

    fn select<V: ProgramVisitor>(settings: &Settings, fabric: &MessageFacts, visitor: V) -> V::Output {
        let (MessageFacts { mtu, rtt_pkts, .. }, paced) = (*fabric, paced(settings));
        visitor.visit(|ip| {
            let ndp = programs::Ndp::new(ip, mtu, rtt_pkts);
            if paced { ndp.with_paced_nacks() } else { ndp }
        })
    }
}

impl Transport for Ndp {
    fn priorities(&self, _settings: &Settings) -> Option<u8> {
        Some(2)
    }

    fn describe_messages(&self, settings: &Settings, _fabric: &MessageFacts) -> Description {
        vec![
            ("paced_nacks", paced(settings).to_string()),
            (PULL_RATE.name, settings.number(PULL_RATE.name).unwrap_or(1.0).to_string()),
        ]
    }
}

fn paced(settings: &Settings) -> bool {
    settings.flag("paced_nacks").unwrap_or(true)
}
