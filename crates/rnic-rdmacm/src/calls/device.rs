//! The devices of this host.

use crate::objects::devices;
use libc::c_int;
use rnic_cabi::entry::{counted, free_list};
use rnic_cabi::pointer::Out;
use rnic_cabi::verbs::ibv_context;

#[unsafe(no_mangle)]
pub extern "C" fn rdma_get_devices(count: Out<c_int>) -> *mut *mut ibv_context {
    counted(|| Ok(devices::all()?.iter().map(|device| device.context).collect()), count.unless_null())
}

/// # Safety
/// The list is null, or [`rdma_get_devices`] has returned it and it was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    // SAFETY: `counted` made the list.
    unsafe { free_list(list) }
}
