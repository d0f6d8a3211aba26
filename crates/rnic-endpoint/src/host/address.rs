//! The address of a channel: what the peer needs to connect to it.

use super::nic::PeerQueuePair;
use crate::config::Security;
use rnic_host::{multipath, rogue};
use rnic_verbs::{Qpn, Service};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The address of a channel, which its application sends to the peer, for example by
/// [`exchange::connect_channel`](crate::exchange::connect_channel). It is not a secret if the device protects packets;
/// otherwise it should be kept from third parties.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Address {
    /// IP address and UDP port on which the channel's device receives.
    pub addr: SocketAddr,
    pub(super) security: Security,
    pub(super) in_flight: u32,
    pub(super) queue_pairs: Vec<PeerQueuePair>,
    pub(super) kind: Kind,
}

/// The numbers of a channel's queue pairs, by kind of channel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Kind {
    Rogue {
        service: String,
        qpns: [u32; 2],
        control: u32,
        salt: u64,
    },
    Multipath {
        outbound: Vec<u32>,
        inbound: Vec<u32>,
        control: u32,
        connection: u8,
        ring: u64,
        ring_rkey: u32,
        salt: u64,
        credit: bool,
    },
}

impl Kind {
    pub(super) fn rogue(address: &rogue::Address, service: Service) -> Kind {
        Kind::Rogue {
            service: service.name().to_string(),
            qpns: address.qpns.map(|qpn| qpn.0),
            control: address.control.0,
            salt: address.salt,
        }
    }

    pub(super) fn multipath(address: &multipath::Address, credit: bool) -> Kind {
        let numbers = |qpns: &[Qpn]| qpns.iter().map(|qpn| qpn.0).collect();
        Kind::Multipath {
            outbound: numbers(&address.outbound),
            inbound: numbers(&address.inbound),
            control: address.control.0,
            connection: address.connection,
            ring: address.ring,
            ring_rkey: address.ring_rkey,
            salt: address.salt,
            credit,
        }
    }

    /// The kind of channel in messages to the user.
    pub(super) fn name(&self) -> String {
        match self {
            Kind::Rogue { service, .. } => format!("a RoGUE channel over {service}"),
            Kind::Multipath { credit: false, .. } => "a multipath channel without credit".to_string(),
            Kind::Multipath { credit: true, .. } => "a multipath channel with credit".to_string(),
        }
    }
}

/// The peer's side of a RoGUE channel.
pub(super) fn of_rogue(qpns: [u32; 2], control: u32, salt: u64) -> rogue::Address {
    rogue::Address { qpns: qpns.map(Qpn), control: Qpn(control), salt }
}

/// The peer's side of a multipath channel.
pub(super) fn of_multipath(kind: &Kind) -> Option<multipath::Address> {
    let Kind::Multipath { outbound, inbound, control, connection, ring, ring_rkey, salt, .. } = kind else {
        return None;
    };
    let numbers = |qpns: &[u32]| qpns.iter().copied().map(Qpn).collect();
    Some(multipath::Address {
        outbound: numbers(outbound),
        inbound: numbers(inbound),
        control: Qpn(*control),
        connection: *connection,
        ring: *ring,
        ring_rkey: *ring_rkey,
        salt: *salt,
    })
}
