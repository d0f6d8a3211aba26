//! Names of hosts, services and events.

use crate::sockets;
use crate::verbs::{call, type_of};
use libc::{c_char, c_int, c_void, sockaddr, socklen_t};
use rnic_cabi::cma::*;
use rnic_cabi::entry::entry;
use rnic_cabi::verbs::IBV_QPT_UD;
use std::ffi::CStr;

/// The name of an event.
pub(crate) fn event(event: c_int) -> &'static CStr {
    match event {
        0 => c"RDMA_CM_EVENT_ADDR_RESOLVED",
        1 => c"RDMA_CM_EVENT_ADDR_ERROR",
        2 => c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        3 => c"RDMA_CM_EVENT_ROUTE_ERROR",
        4 => c"RDMA_CM_EVENT_CONNECT_REQUEST",
        5 => c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        6 => c"RDMA_CM_EVENT_CONNECT_ERROR",
        7 => c"RDMA_CM_EVENT_UNREACHABLE",
        8 => c"RDMA_CM_EVENT_REJECTED",
        9 => c"RDMA_CM_EVENT_ESTABLISHED",
        10 => c"RDMA_CM_EVENT_DISCONNECTED",
        11 => c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        12 => c"RDMA_CM_EVENT_MULTICAST_JOIN",
        13 => c"RDMA_CM_EVENT_MULTICAST_ERROR",
        14 => c"RDMA_CM_EVENT_ADDR_CHANGE",
        15 => c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
        _ => c"UNKNOWN EVENT",
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_event_str(number: c_int) -> *const c_char {
    event(number).as_ptr()
}

/// Copies `len` bytes into memory that [`rdma_freeaddrinfo`] frees. Returns null if `from` is null or `len` is 0.
///
/// # Safety
/// The memory has `len` bytes, or the pointer is null.
unsafe fn copy<T>(from: *const T, len: usize) -> *mut T {
    if from.is_null() || len == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller promises the conditions of this function; the memory of `malloc` has any alignment.
    unsafe {
        let to = libc::malloc(len);
        if !to.is_null() {
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), len);
        }
        to.cast()
    }
}

/// # Safety
/// The texts are C strings or null. The hints are null, or their addresses have the lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char, service: *const c_char, hints: *const rdma_addrinfo, out: *mut *mut rdma_addrinfo,
) -> c_int {
    // SAFETY: the caller promises the conditions of this function.
    call(|| unsafe {
        let hints = hints.as_ref();
        if out.is_null() || node.is_null() && service.is_null() && hints.is_none() {
            return Err(libc::EINVAL);
        }
        let mut info: rdma_addrinfo = std::mem::zeroed();
        if let Some(hints) = hints {
            info.ai_flags = hints.ai_flags;
            info.ai_family = hints.ai_family;
            info.ai_port_space = hints.ai_port_space;
            info.ai_qp_type = hints.ai_qp_type;
        }
        if info.ai_port_space == 0 {
            info.ai_port_space = if info.ai_qp_type == IBV_QPT_UD { RDMA_PS_UDP } else { RDMA_PS_TCP };
        }
        if info.ai_qp_type == 0 {
            info.ai_qp_type = type_of(info.ai_port_space);
        }
        let passive = info.ai_flags & RAI_PASSIVE != 0;
        let result =
            if node.is_null() && service.is_null() { Ok(()) } else { resolve(node, service, passive, &mut info) };
        if let Some(hints) = hints {
            if info.ai_src_addr.is_null() && hints.ai_src_len > 0 {
                info.ai_src_addr = copy(hints.ai_src_addr, hints.ai_src_len as usize);
                info.ai_src_len = hints.ai_src_len;
            }
            if info.ai_dst_addr.is_null() && hints.ai_dst_len > 0 {
                info.ai_dst_addr = copy(hints.ai_dst_addr, hints.ai_dst_len as usize);
                info.ai_dst_len = hints.ai_dst_len;
            }
        }
        let known = if info.ai_dst_addr.is_null() { info.ai_src_addr } else { info.ai_dst_addr };
        if let Some(address) = known.as_ref() {
            info.ai_family = address.sa_family.into();
        }
        let info = Box::into_raw(Box::new(info));
        if let Err(error) = result {
            rdma_freeaddrinfo(info);
            return Err(error);
        }
        out.write(info);
        Ok(())
    })
}

/// The family of InfiniBand's addresses.
const AF_IB: c_int = 27;

/// Resolves a host and a service.
///
/// # Errors
/// `ENODEV` if the host or the service is unknown, as in librdmacm.
///
/// # Safety
/// The texts are C strings or null.
unsafe fn resolve(
    node: *const c_char, service: *const c_char, passive: bool, info: &mut rdma_addrinfo,
) -> Result<(), c_int> {
    // SAFETY: the caller promises the conditions of this function; the list is freed once.
    unsafe {
        let mut hints: libc::addrinfo = std::mem::zeroed();
        hints.ai_flags = if passive { libc::AI_PASSIVE } else { 0 };
        if info.ai_flags & RAI_NUMERICHOST != 0 {
            hints.ai_flags |= libc::AI_NUMERICHOST;
        }
        // As in rdma-core, the family counts even if `RAI_FAMILY` is not set, unless it is the family of InfiniBand's
        // addresses.
        let counts = info.ai_flags & RAI_FAMILY != 0 || info.ai_family != AF_IB;
        hints.ai_family = if counts { info.ai_family } else { libc::AF_UNSPEC };
        let datagrams = info.ai_qp_type == IBV_QPT_UD;
        hints.ai_socktype = if datagrams { libc::SOCK_DGRAM } else { libc::SOCK_STREAM };
        let mut list = std::ptr::null_mut();
        match libc::getaddrinfo(node, service, &hints, &mut list) {
            0 => {}
            libc::EAI_SYSTEM => return Err(crate::verbs::errno()),
            _ => return Err(libc::ENODEV),
        }
        let first = &*list;
        let usable = sockets::read(first.ai_addr).is_ok();
        let address: *mut sockaddr = copy(first.ai_addr, first.ai_addrlen as usize);
        let len: socklen_t = first.ai_addrlen;
        libc::freeaddrinfo(list);
        if passive {
            (info.ai_src_addr, info.ai_src_len) = (address, len);
        } else {
            (info.ai_dst_addr, info.ai_dst_len) = (address, len);
        }
        if usable { Ok(()) } else { Err(libc::EAFNOSUPPORT) }
    }
}

/// # Safety
/// The list is null, or [`rdma_getaddrinfo`] has returned it and it was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_freeaddrinfo(info: *mut rdma_addrinfo) {
    entry((), || {
        let mut next = info;
        while !next.is_null() {
            // SAFETY: the caller promises the conditions of this function.
            unsafe {
                let info = Box::from_raw(next);
                let parts: [*mut c_void; 6] = [
                    info.ai_src_addr.cast(),
                    info.ai_dst_addr.cast(),
                    info.ai_src_canonname.cast(),
                    info.ai_dst_canonname.cast(),
                    info.ai_route,
                    info.ai_connect,
                ];
                parts.into_iter().for_each(|part| libc::free(part));
                next = info.ai_next;
            }
        }
    });
}
