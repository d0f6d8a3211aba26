//! The transports Homa and Homa-Tr: the parameters that users may set, and how their values configure the program.

use super::message::RETRANSMIT_ON_GRANT;
use super::{Description, MessageFacts, MessageTransport, ProgramVisitor, Transport, TransportDeclaration};
use crate::message::nic::Order;
use crate::message::programs::{self, HomaSettings};
use crate::settings::{Kind, Parameter, Settings};

const PRIORITIES: Kind = Kind::Count { min: 1, max: 7 };

const UNSCHEDULED: Parameter = Parameter::count(
    "unscheduled_priorities",
    1,
    1,
    7,
    "number of priorities for packets that are sent without a grant; 1",
);
const SCHEDULED: Parameter =
    Parameter::count("scheduled_priorities", 3, 1, 7, "number of priorities for granted packets; 3");
const OVERCOMMITMENT: Parameter = Parameter::derived(
    "overcommitment",
    PRIORITIES,
    "messages that a receiver grants packets to at the same time; as many as there are scheduled priorities",
);

/// The Homa transport: the receiver grants packets to the shortest messages and assigns their priorities.
#[derive(Clone, Copy, Debug)]
pub struct Homa;

/// The Homa-Tr transport: Homa for switches that trim packets, as in NDP.
#[derive(Clone, Copy, Debug)]
pub struct HomaTr;

const HOMA_PARAMETERS: &[Parameter] = &[UNSCHEDULED, SCHEDULED, OVERCOMMITMENT];

impl MessageTransport for Homa {
    const DECLARATION: TransportDeclaration = TransportDeclaration {
        own_parameters: HOMA_PARAMETERS,
        spray: true,
        order: Order::ShortestFirst,
        ..TransportDeclaration::messages(
            &Homa,
            "homa",
            "Homa: message transport; the receiver grants the shortest message first and assigns priorities; loss by timeout",
        )
    };

    fn select<V: ProgramVisitor>(settings: &Settings, fabric: &MessageFacts, visitor: V) -> V::Output {
        let settings = program(settings, fabric, false);
        visitor.visit(|ip| programs::Homa::new(ip, settings))
    }
}

impl Transport for Homa {
    fn priorities(&self, settings: &Settings) -> Option<u8> {
        Some(priorities(settings))
    }

    fn describe_messages(&self, settings: &Settings, fabric: &MessageFacts) -> Description {
        describe(&program(settings, fabric, false))
    }
}

const HOMA_TR_PARAMETERS: &[Parameter] = &[UNSCHEDULED, SCHEDULED, OVERCOMMITMENT, RETRANSMIT_ON_GRANT];

impl MessageTransport for HomaTr {
    const DECLARATION: TransportDeclaration = TransportDeclaration {
        own_parameters: HOMA_TR_PARAMETERS,
        spray: true,
        order: Order::ShortestFirst,
        ..TransportDeclaration::messages(
            &HomaTr,
            "homa-tr",
            "Homa with NDP's trimming: message transport; a NACK requests a trimmed packet again at once",
        )
    };

    fn select<V: ProgramVisitor>(settings: &Settings, fabric: &MessageFacts, visitor: V) -> V::Output {
        let settings = program(settings, fabric, true);
        visitor.visit(|ip| programs::Homa::new(ip, settings))
    }
}

impl Transport for HomaTr {
    fn priorities(&self, settings: &Settings) -> Option<u8> {
        Some(priorities(settings))
    }

    fn describe_messages(&self, settings: &Settings, fabric: &MessageFacts) -> Description {
        let mut described = describe(&program(settings, fabric, true));
        let waits = settings.flag(RETRANSMIT_ON_GRANT.name).unwrap_or(false);
        described.push((RETRANSMIT_ON_GRANT.name, waits.to_string()));
        described
    }
}

/// Number of priorities for unscheduled packets, and number of priorities for granted packets.
fn both_kinds(settings: &Settings) -> (u8, u8) {
    let count = |name: &str, default: u8| settings.count(name).map_or(default, |count| count as u8);
    (count("unscheduled_priorities", 1), count("scheduled_priorities", 3))
}

fn priorities(settings: &Settings) -> u8 {
    let (unscheduled, scheduled) = both_kinds(settings);
    unscheduled + scheduled
}

fn program(settings: &Settings, fabric: &MessageFacts, trimming: bool) -> HomaSettings {
    let (unscheduled_priorities, scheduled_priorities) = both_kinds(settings);
    HomaSettings {
        mtu: fabric.mtu,
        rtt_pkts: fabric.rtt_pkts,
        unscheduled_priorities,
        scheduled_priorities,
        overcommitment: settings.count("overcommitment").map_or(scheduled_priorities.into(), |count| count as u32),
        trimming,
    }
}

fn describe(homa: &HomaSettings) -> Description {
    vec![
        ("unscheduled_priorities", homa.unscheduled_priorities.to_string()),
        ("scheduled_priorities", homa.scheduled_priorities.to_string()),
        ("overcommitment", homa.overcommitment.to_string()),
    ]
}
