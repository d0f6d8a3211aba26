//! Connects queue pairs: the attributes of the path to a peer, and first PSNs that both ends compute.

use crate::error::HostError;
use rnic_transport::Psn;
use rnic_verbs::{Access, Connection, MAX_IN_FLIGHT, Qpn, SendAttributes, Transition, Verbs};
use std::net::SocketAddr;

/// The path to a peer, which all queue pairs of a channel use. The fields are those of [`Connection`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The peer's IP address and UDP port.
    pub peer: SocketAddr,
    /// UDP source port of the peer's packets; `None`: any.
    pub peer_source_port: Option<u16>,
    /// Whether the owner of the NIC protects the packets of the connection.
    pub protected: bool,
    /// Path MTU: payload bytes of a full packet.
    pub path_mtu: u32,
    /// Differentiated services code point of the packets sent, 0 to 63.
    pub dscp: u8,
}

impl Link {
    /// A path without protection, for packets of any source port, with DSCP 0.
    pub fn new(peer: SocketAddr, path_mtu: u32) -> Link {
        Link { peer, peer_source_port: None, protected: false, path_mtu, dscp: 0 }
    }
}

/// The two ends of a connection between queue pairs: numbers and first PSNs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) qpn: Qpn,
    pub(crate) peer_qpn: Qpn,
    pub(crate) send_psn: u32,
    pub(crate) recv_psn: u32,
}

/// Brings a queue pair from RESET to RTS. `prepare` runs in state INIT, where receives can be posted before a packet
/// can arrive.
pub(crate) fn connect(
    nic: &mut dyn Verbs, link: &Link, ends: Ends, access: Access, attributes: SendAttributes, min_rnr_timer: u8,
    prepare: impl FnOnce(&mut dyn Verbs) -> Result<(), HostError>,
) -> Result<(), HostError> {
    let connection = Connection {
        peer: link.peer,
        peer_source_port: link.peer_source_port,
        peer_in_flight: MAX_IN_FLIGHT,
        protected: link.protected,
        peer_qpn: ends.peer_qpn,
        path_mtu: link.path_mtu,
        recv_psn: ends.recv_psn,
        max_dest_rd_atomic: attributes.max_rd_atomic,
        min_rnr_timer,
        dscp: link.dscp,
    };
    nic.modify_qp(ends.qpn, Transition::Init(access))?;
    prepare(nic)?;
    nic.modify_qp(ends.qpn, Transition::ReadyToReceive(connection))?;
    nic.modify_qp(ends.qpn, Transition::ReadyToSend(SendAttributes { send_psn: ends.send_psn, ..attributes }))?;
    Ok(())
}

/// The first PSN of a queue pair's connection number `epoch`, for the sender with this salt. Both ends compute it from
/// the salts that they exchanged, so a reconnection needs no message with PSNs.
///
/// The function is one step of the generator splitmix64 (Steele, Lea, Flood, OOPSLA 2014, figure 16).
pub(crate) fn first_psn(salt: u64, epoch: u32) -> u32 {
    mix(salt.wrapping_add(u64::from(epoch).wrapping_mul(0x9e37_79b9_7f4a_7c15))) as u32 & (Psn::MODULUS - 1)
}

/// The output function of splitmix64.
pub(crate) fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
