//! Address handles: the paths of datagrams.

use crate::abi::*;
use crate::context::{self, ContextState, GIDS, ip};
use crate::domain;
use crate::entry::{object, status};
use crate::trace;
use libc::c_int;
use rnic_endpoint::port::ROCE_PORT;
use rnic_verbs::AddressHandle;
use std::net::SocketAddr;

#[repr(C)]
struct Handle {
    c: ibv_ah,
    path: AddressHandle,
}

/// The path of an address handle.
///
/// # Safety
/// The pointer is that of an address handle of this library which is not destroyed.
pub(crate) unsafe fn path(ah: *mut ibv_ah) -> AddressHandle {
    // SAFETY: by the contract of libibverbs.
    unsafe { (*ah.cast::<Handle>()).path }
}

/// The path that the attributes of C describe. RoCE needs a GID; the other addresses have no meaning.
///
/// # Errors
/// `EINVAL`, with a line in the trace that says why.
pub(crate) fn of(verb: &str, attributes: &ibv_ah_attr, context: &ContextState) -> Result<AddressHandle, c_int> {
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
    Ok(AddressHandle {
        peer: SocketAddr::new(peer, ROCE_PORT),
        flow: attributes.grh.flow_label & 0xf_ffff,
        dscp: attributes.grh.traffic_class >> 2,
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attributes: *mut ibv_ah_attr) -> *mut ibv_ah {
    object(|| {
        // SAFETY: by the contract of libibverbs.
        let (context, state, attributes) = unsafe { ((*pd).context, context::state((*pd).context), attributes.read()) };
        let path = of("ibv_create_ah", &attributes, state)?;
        let c = ibv_ah { context, pd, handle: state.handle() };
        trace::line(format_args!("ibv_create_ah to {} = AH {}", path.peer.ip(), c.handle));
        // SAFETY: as above.
        unsafe { domain::count_user(pd, true) };
        Ok(Box::into_raw(Box::new(Handle { c, path })).cast())
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    status(|| {
        // SAFETY: it was made by `Box::into_raw`, and the program does not use it any more. Its domain exists.
        unsafe {
            let Handle { c, .. } = *Box::from_raw(ah.cast::<Handle>());
            domain::count_user(c.pd, false);
            trace::line(format_args!("ibv_destroy_ah AH {}", c.handle));
        }
        Ok(())
    })
}

/// The address handle attributes with which the sender of a datagram is reached. The 40 bytes before its data hold an
/// IPv6 header, or in the last 20 bytes an IPv4 header.
fn back(bytes: &[u8; 40]) -> Option<ibv_ah_attr> {
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

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    _: *mut ibv_context, port: u8, wc: *mut ibv_wc, grh: *mut ibv_grh, out: *mut ibv_ah_attr,
) -> c_int {
    // SAFETY: by the contract of libibverbs the completion is valid, and the GRH has 40 bytes.
    let (wc, bytes) = unsafe { (wc.read(), grh.cast::<[u8; 40]>().read()) };
    match back(&bytes) {
        Some(attributes) if wc.wc_flags & IBV_WC_GRH != 0 && port == 1 => {
            // SAFETY: by the contract of libibverbs.
            unsafe { out.write(attributes) };
            0
        }
        _ => {
            crate::entry::set_errno(libc::EINVAL);
            -1
        }
    }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd, wc: *mut ibv_wc, grh: *mut ibv_grh, port: u8,
) -> *mut ibv_ah {
    let mut attributes = ibv_ah_attr::default();
    // SAFETY: by the contract of libibverbs.
    unsafe {
        if ibv_init_ah_from_wc((*pd).context, port, wc, grh, &raw mut attributes) != 0 {
            return std::ptr::null_mut();
        }
        ibv_create_ah(pd, &raw mut attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_of_a_datagram_is_in_its_header() {
        let mut bytes = [0; 40];
        bytes[20..22].copy_from_slice(&[0x45, 0x6b]);
        bytes[32..36].copy_from_slice(&[10, 0, 0, 9]);
        let attributes = back(&bytes).unwrap();
        assert_eq!(ip(&attributes.grh.dgid), "10.0.0.9".parse::<std::net::IpAddr>().unwrap());
        assert_eq!((attributes.grh.traffic_class, attributes.is_global), (0x68, 1));

        let mut bytes = [0; 40];
        bytes[..2].copy_from_slice(&[0x66, 0xb0]);
        bytes[8..24].copy_from_slice(&"fd00::9".parse::<std::net::Ipv6Addr>().unwrap().octets());
        let attributes = back(&bytes).unwrap();
        assert_eq!(ip(&attributes.grh.dgid), "fd00::9".parse::<std::net::IpAddr>().unwrap());
        assert_eq!(attributes.grh.traffic_class, 0x68);
        assert!(back(&[0; 40]).is_none());
    }
}
