//! The NDP transport: the parameters that users may set, and how their values configure the program.

use super::message::PULL_RATE;
use super::{Description, MessageFacts, MessageTransport, ProgramVisitor};
use crate::message::programs;
use crate::settings::{Parameter, Settings};

/// The NDP transport: the receiver pulls packets of messages at the rate of its link.
#[derive(Clone, Copy, Debug)]
pub struct Ndp;

impl MessageTransport for Ndp {
    const NAME: &'static str = "ndp";
    const ABOUT: &'static str = "NDP: message transport; one window unsolicited, then the receiver pulls at its link rate; needs trimming switches";
    const PARAMETERS: &'static [Parameter] =
        &[Parameter::flag("paced_nacks", true, "NACKs leave at the pace of PULLs; yes (NDP paper)"), PULL_RATE];
    const SPRAY: bool = true;

    fn describe(settings: &Settings, _facts: &MessageFacts) -> Description {
        vec![
            ("paced_nacks", paced(settings).to_string()),
            (PULL_RATE.name, settings.number(PULL_RATE.name).unwrap_or(1.0).to_string()),
        ]
    }

    fn select<V: ProgramVisitor>(settings: &Settings, facts: &MessageFacts, visitor: V) -> V::Output {
        let (MessageFacts { mtu, rtt_pkts, .. }, paced) = (*facts, paced(settings));
        visitor.visit(|ip| {
            let ndp = programs::Ndp::new(ip, mtu, rtt_pkts);
            if paced { ndp.with_paced_nacks() } else { ndp }
        })
    }
}

fn paced(settings: &Settings) -> bool {
    settings.flag("paced_nacks").unwrap_or(true)
}
