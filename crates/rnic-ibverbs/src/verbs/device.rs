//! The list of devices.

use crate::abi::ibv_device;
use crate::objects::device::{self, Device};
use crate::trace;
use libc::{c_char, c_int};
use rnic_cabi::entry::{counted, free_list};
use rnic_cabi::pointer::{Handle, Out};

#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_device_list(count: Out<c_int>) -> *mut *mut ibv_device {
    let devices = || {
        let devices = device::list()?;
        trace::line(format_args!("ibv_get_device_list = {} devices", devices.len()));
        Ok(devices)
    };
    counted(devices, count.unless_null())
}

/// # Safety
/// The list is null, or [`ibv_get_device_list`] has returned it and it was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: `counted` made the list.
    unsafe { free_list(list) }
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_device_name(device: Handle<Device>) -> *const c_char {
    device::name(device)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_device_guid(device: Handle<Device>) -> u64 {
    device.state().guid()
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_device_index(device: Handle<Device>) -> c_int {
    device.state().index as c_int
}
