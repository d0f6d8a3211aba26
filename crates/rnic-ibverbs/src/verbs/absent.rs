//! Functions that exist so that programs can be linked, and that always fail: parts of libibverbs that concern the
//! kernel's interface or other providers. `link/versions.c` defines symbols that only the loader needs.

use crate::abi::{ibv_ah_attr, ibv_context, ibv_mr, ibv_pd};
use libc::{c_char, c_int, c_void, size_t};
use rnic_cabi::entry::{entry, set_errno};
use std::ffi::CStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn null<T>() -> *mut T {
    set_errno(libc::EOPNOTSUPP);
    std::ptr::null_mut()
}

/// Always fails, because processes cannot share objects by a descriptor of the kernel.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_import_device(_: c_int) -> *mut ibv_context {
    null()
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_import_pd(_: *mut ibv_context, _: u32) -> *mut ibv_pd {
    null()
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_unimport_pd(_: *mut ibv_pd) {}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_import_mr(_: *mut ibv_pd, _: u32) -> *mut ibv_mr {
    null()
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_unimport_mr(_: *mut ibv_mr) {}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_import_dm(_: *mut ibv_context, _: u32) -> *mut c_void {
    null()
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_unimport_dm(_: *mut c_void) {}

/// Always fails, because the device does not know Ethernet addresses: the kernel resolves them.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_resolve_eth_l2_from_gid(
    _: *mut ibv_context, _: *mut ibv_ah_attr, _: *mut u8, _: *mut u16,
) -> c_int {
    -libc::EOPNOTSUPP
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// Reads a file into a buffer, and removes the end of the line; returns the length, or -1.
///
/// # Safety
/// `dir` and `file` are C strings, and the buffer has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char, file: *const c_char, buffer: *mut c_char, size: size_t,
) -> c_int {
    entry(-1, || {
        // SAFETY: the caller promises the conditions of this function.
        let (dir, file) = unsafe { (CStr::from_ptr(dir), CStr::from_ptr(file)) };
        let path = |text: &CStr| Path::new(std::ffi::OsStr::from_bytes(text.to_bytes())).to_path_buf();
        let mut bytes = Vec::new();
        let read = std::fs::File::open(path(dir).join(path(file)));
        let read = read.and_then(|file| file.take(size as u64).read_to_end(&mut bytes));
        if read.is_err() || size == 0 {
            return -1;
        }
        while bytes.last() == Some(&b'\n') || bytes.len() >= size {
            bytes.pop();
        }
        bytes.push(0);
        // SAFETY: the buffer has `size` bytes, and at most as many are copied.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), buffer, bytes.len()) };
        bytes.len() as c_int - 1
    })
}
