//! Functions that this library refuses: multicast, and options of some vendors.

use crate::verbs::{fail, trace};
use libc::{c_int, c_void, sockaddr};
use rnic_cabi::cma::rdma_cm_id;
use rnic_cabi::get;
use rnic_cabi::pointer::{In, Out};
use rnic_cabi::verbs::ibv_ece;

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

/// Refuses options of some vendors: this device has none.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_set_local_ece(_: *mut rdma_cm_id, ece: In<ibv_ece>) -> c_int {
    if get!(ece.vendor_id) == 0 { 0 } else { fail(libc::EOPNOTSUPP) }
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_get_remote_ece(_: *mut rdma_cm_id, ece: Out<ibv_ece>) -> c_int {
    ece.write(ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 });
    0
}

/// Rejects a request like `rdma_reject`. The vendor-specific reason is not sent.
///
/// # Safety
/// The data is null, or has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reject_ece(id: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int {
    // SAFETY: the caller promises the conditions of this function.
    unsafe { super::connect::rdma_reject(id, data, len) }
}
