//! The device, port and GID of an IP address.

use super::library::Functions;
use super::{MAX_DATAGRAM, NicError};
use rnic_cabi::verbs::*;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::net::IpAddr;

/// The GID of an IP address.
pub(super) fn gid(ip: IpAddr) -> ibv_gid {
    let raw = match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    ibv_gid { raw }
}

/// A device, its port and its GID for an address.
pub(super) struct Found {
    pub(super) context: *mut ibv_context,
    pub(super) name: String,
    pub(super) port: u8,
    pub(super) gid_index: u8,
    pub(super) mtu: usize,
}

/// Finds the device with a RoCE v2 GID of an address.
pub(super) fn find(functions: &Functions, ip: IpAddr) -> Result<Found, NicError> {
    let mut count = 0;
    // SAFETY: `count` is valid during the call.
    let list = unsafe { (functions.get_device_list)(&raw mut count) };
    if list.is_null() || count <= 0 {
        if !list.is_null() {
            // SAFETY: `list` was returned by the library and is freed once.
            unsafe { (functions.free_device_list)(list) };
        }
        return Err(NicError::Absent("libibverbs finds no RDMA device".to_string()));
    }
    let mut names = BTreeSet::new();
    let mut found = None;
    for at in 0..count as usize {
        // SAFETY: the list has this number of devices. An opened device remains valid after the list is freed.
        let (name, context) = unsafe {
            let device = *list.add(at);
            let name = CStr::from_ptr((functions.get_device_name)(device)).to_string_lossy().into_owned();
            (name, (functions.open_device)(device))
        };
        names.insert(name.clone());
        if context.is_null() {
            continue;
        }
        // SAFETY: the context is open.
        found = unsafe { port_with(functions, context, &name, ip) };
        if found.is_some() {
            break;
        }
        // SAFETY: no other code uses the context.
        unsafe { (functions.close_device)(context) };
    }
    // SAFETY: `list` was returned by the library and is freed once.
    unsafe { (functions.free_device_list)(list) };
    found.ok_or_else(|| {
        let names: Vec<String> = names.into_iter().collect();
        NicError::Absent(format!("no RDMA device ({}) has an active port with a RoCE v2 GID of {ip}", names.join(", ")))
    })
}

/// The active port of a device that has a RoCE v2 GID of an address, with the GID's index.
///
/// # Safety
/// The context is open.
unsafe fn port_with(functions: &Functions, context: *mut ibv_context, name: &str, ip: IpAddr) -> Option<Found> {
    let wanted = gid(ip);
    for port in 1..=4_u8 {
        let mut attributes = ibv_port_attr::default();
        // SAFETY: the caller guarantees that the context is open; the structure is at least as long as in every version
        // of the function.
        if unsafe { (functions.query_port)(context, port, &raw mut attributes) } != 0 {
            break;
        }
        if attributes.state != IBV_PORT_ACTIVE {
            continue;
        }
        for index in 0..attributes.gid_tbl_len.clamp(0, 256) {
            let mut entry = ibv_gid::default();
            // SAFETY: the caller guarantees that the context is open; `entry` is valid during the call.
            let error = unsafe { (functions.query_gid)(context, port, index, &raw mut entry) };
            // SAFETY: the caller guarantees that the context is open.
            if error == 0 && entry == wanted && unsafe { is_roce_v2(functions, context, name, port, index) } {
                let mtu = (128_usize << attributes.active_mtu.clamp(1, 5)).min(MAX_DATAGRAM);
                return Some(Found { context, name: name.to_string(), port, gid_index: index as u8, mtu });
            }
        }
    }
    None
}

/// Whether a GID belongs to RoCE v2. RoCE v1 uses the same GIDs, but its packets have no UDP header.
///
/// # Safety
/// The context is open.
unsafe fn is_roce_v2(functions: &Functions, context: *mut ibv_context, name: &str, port: u8, index: i32) -> bool {
    if let Some(query) = functions.query_gid_ex {
        // SAFETY: the caller guarantees that the context is open; all zeros are a valid value of the entry, and the
        // entry has the length that is passed.
        let (error, kind) = unsafe {
            let mut entry: ibv_gid_entry = std::mem::zeroed();
            let len = size_of::<ibv_gid_entry>();
            (query(context, port.into(), index as u32, &raw mut entry, 0, len), entry.gid_type)
        };
        if error == 0 {
            return kind == IBV_GID_TYPE_ROCE_V2;
        }
    }
    let path = format!("/sys/class/infiniband/{name}/ports/{port}/gid_attrs/types/{index}");
    std::fs::read_to_string(path).is_ok_and(|kind| kind.trim() == "RoCE v2")
}
