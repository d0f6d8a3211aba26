//! Address handles: the paths of datagrams.

use super::InContext;
use super::context::{self, ContextState, GIDS, ip};
use super::domain::Domain;
use crate::abi::*;
use crate::trace;
use libc::c_int;
use rnic_cabi::pointer::Handle;
use rnic_endpoint::port::ROCE_PORT;
use std::net::SocketAddr;

#[repr(C)]
pub(crate) struct AddressHandle {
    c: ibv_ah,
    state: AddressHandleState,
}

rnic_cabi::object!(AddressHandle { c: ibv_ah, state: AddressHandleState });

pub(crate) struct AddressHandleState {
    pub(crate) path: rnic_verbs::AddressHandle,
}

impl AddressHandle {
    pub(crate) fn create(pd: Handle<Domain>, attributes: &ibv_ah_attr) -> Result<Handle<AddressHandle>, c_int> {
        let path = path("ibv_create_ah", attributes, pd.context())?;
        let c = ibv_ah { context: pd.context_ptr(), pd: pd.as_ptr(), handle: pd.context().handle() };
        trace::line(format_args!("ibv_create_ah to {} = AH {}", path.peer.ip(), c.handle));
        pd.state().add_user();
        Ok(Handle::create(AddressHandle { c, state: AddressHandleState { path } }))
    }
}

/// Converts the address handle attributes of C to a path. RoCE needs a GID; the other address fields have no meaning.
///
/// # Errors
/// `EINVAL`, with a line in the trace that says why.
pub(crate) fn path(
    verb: &str, attributes: &ibv_ah_attr, context: &ContextState,
) -> Result<rnic_verbs::AddressHandle, c_int> {
    let refuse = |why: &str| {
        trace::line(format_args!("{verb} refused: {why}"));
        Err(libc::EINVAL)
    };
    let peer = ip(&attributes.grh.dgid);
    if attributes.is_global == 0 {
        return refuse("the address has no GID (is_global is 0), which RoCE needs; give the program a GID index");
    }
    if attributes.port_num != 1 {
        return refuse("a device has one port, number 1");
    }
    if usize::from(attributes.grh.sgid_index) >= GIDS {
        return refuse("the table of GIDs has 4 entries, with indices 0 to 3");
    }
    if peer.is_multicast() {
        return refuse("there is no multicast");
    }
    if peer.is_unspecified() {
        return refuse("the destination GID is 0");
    }
    if peer.is_ipv4() != context.address.ip.is_ipv4() {
        return refuse("the device and the destination must both have IPv4 addresses, or both IPv6 addresses");
    }
    Ok(rnic_verbs::AddressHandle {
        peer: SocketAddr::new(peer, ROCE_PORT),
        flow: attributes.grh.flow_label & 0xf_ffff,
        dscp: attributes.grh.traffic_class >> 2,
    })
}

/// Returns the address handle attributes by which a program reaches the sender of a datagram. The 40 bytes before the
/// data of the datagram hold an IPv6 header, or in the last 20 bytes an IPv4 header.
pub(crate) fn attributes_of_sender(bytes: &[u8; 40]) -> Option<ibv_ah_attr> {
    let (sender, class) = match (bytes[0] >> 4, bytes[20] >> 4) {
        (6, _) => {
            let mut raw = [0; 16];
            raw.copy_from_slice(&bytes[8..24]);
            (ibv_gid { raw }, bytes[0] << 4 | bytes[1] >> 4)
        }
        (_, 4) => {
            let [a, b, c, d] = [bytes[32], bytes[33], bytes[34], bytes[35]];
            (context::gid(std::net::Ipv4Addr::new(a, b, c, d).into()), bytes[21])
        }
        _ => return None,
    };
    let grh =
        ibv_global_route { dgid: sender, hop_limit: 64, traffic_class: class & !3, ..ibv_global_route::default() };
    Some(ibv_ah_attr { grh, is_global: 1, port_num: 1, ..ibv_ah_attr::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_of_a_datagram_is_in_its_header() {
        let mut bytes = [0; 40];
        bytes[20..22].copy_from_slice(&[0x45, 0x6b]);
        bytes[32..36].copy_from_slice(&[10, 0, 0, 9]);
        let attributes = attributes_of_sender(&bytes).unwrap();
        assert_eq!(ip(&attributes.grh.dgid), "10.0.0.9".parse::<std::net::IpAddr>().unwrap());
        assert_eq!((attributes.grh.traffic_class, attributes.is_global), (0x68, 1));

        let mut bytes = [0; 40];
        bytes[..2].copy_from_slice(&[0x66, 0xb0]);
        bytes[8..24].copy_from_slice(&"fd00::9".parse::<std::net::Ipv6Addr>().unwrap().octets());
        let attributes = attributes_of_sender(&bytes).unwrap();
        assert_eq!(ip(&attributes.grh.dgid), "fd00::9".parse::<std::net::IpAddr>().unwrap());
        assert_eq!(attributes.grh.traffic_class, 0x68);
        assert!(attributes_of_sender(&[0; 40]).is_none());
    }
}
