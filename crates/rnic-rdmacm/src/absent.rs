//! What this library does not have: multicast, rsockets, and options of some vendors.

use crate::verbs::{fail, trace};
use libc::{c_int, c_void, off_t, size_t, sockaddr, ssize_t};
use rnic_cabi::cma::rdma_cm_id;
use rnic_cabi::verbs::ibv_ece;
use std::sync::Once;

fn no_multicast(verb: &str) -> c_int {
    trace(format_args!("{verb} refused: there is no multicast"));
    fail(libc::EOPNOTSUPP)
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_join_multicast(_: *mut rdma_cm_id, _: *mut sockaddr, _: *mut c_void) -> c_int {
    no_multicast("rdma_join_multicast")
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_join_multicast_ex(_: *mut rdma_cm_id, _: *mut c_void, _: *mut c_void) -> c_int {
    no_multicast("rdma_join_multicast_ex")
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_leave_multicast(_: *mut rdma_cm_id, _: *mut sockaddr) -> c_int {
    no_multicast("rdma_leave_multicast")
}

/// There are no options.
///
/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_set_local_ece(_: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    // SAFETY: by the contract of librdmacm.
    if unsafe { (*ece).vendor_id } == 0 { 0 } else { fail(libc::EOPNOTSUPP) }
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_remote_ece(_: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    // SAFETY: by the contract of librdmacm.
    unsafe { ece.write(ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 }) };
    0
}

/// As `rdma_reject`: the reason that some vendors have for it goes nowhere.
///
/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reject_ece(id: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int {
    // SAFETY: by the contract of librdmacm.
    unsafe { crate::connect::rdma_reject(id, data, len) }
}

/// The socket calls of rsockets. No rsocket is ever made, so that the other calls get a wrong descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn rsocket(_: c_int, _: c_int, _: c_int) -> c_int {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        eprintln!("rnic: rsocket: this librdmacm has no rsockets; use the sockets of the system, or the rdma_* calls");
    });
    fail(libc::EOPNOTSUPP)
}

macro_rules! without_rsockets {
    ($($name:ident($($argument:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $argument),*) -> $result {
            fail(libc::EBADF) as $result
        }
    )*};
}

without_rsockets! {
    rbind(c_int, *const c_void, u32) -> c_int;
    rlisten(c_int, c_int) -> c_int;
    raccept(c_int, *mut c_void, *mut u32) -> c_int;
    rconnect(c_int, *const c_void, u32) -> c_int;
    rshutdown(c_int, c_int) -> c_int;
    rclose(c_int) -> c_int;
    rrecv(c_int, *mut c_void, size_t, c_int) -> ssize_t;
    rrecvfrom(c_int, *mut c_void, size_t, c_int, *mut c_void, *mut u32) -> ssize_t;
    rrecvmsg(c_int, *mut c_void, c_int) -> ssize_t;
    rsend(c_int, *const c_void, size_t, c_int) -> ssize_t;
    rsendto(c_int, *const c_void, size_t, c_int, *const c_void, u32) -> ssize_t;
    rsendmsg(c_int, *const c_void, c_int) -> ssize_t;
    rread(c_int, *mut c_void, size_t) -> ssize_t;
    rreadv(c_int, *const c_void, c_int) -> ssize_t;
    rwrite(c_int, *const c_void, size_t) -> ssize_t;
    rwritev(c_int, *const c_void, c_int) -> ssize_t;
    rgetpeername(c_int, *mut c_void, *mut u32) -> c_int;
    rgetsockname(c_int, *mut c_void, *mut u32) -> c_int;
    rsetsockopt(c_int, c_int, c_int, *const c_void, u32) -> c_int;
    rgetsockopt(c_int, c_int, c_int, *mut c_void, *mut u32) -> c_int;
    rfcntl(c_int, c_int, c_int) -> c_int;
    riomap(c_int, *mut c_void, size_t, c_int, c_int, off_t) -> off_t;
    riounmap(c_int, *mut c_void, size_t) -> c_int;
    riowrite(c_int, *const c_void, size_t, off_t, c_int) -> size_t;
}

/// Waits for descriptors of the system, as programs do that mix them with rsockets.
///
/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpoll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int {
    // SAFETY: by the contract of librdmacm.
    unsafe { libc::poll(fds, count, timeout) }
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rselect(
    count: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, other: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    // SAFETY: by the contract of librdmacm.
    unsafe { libc::select(count, read, write, other, timeout) }
}
