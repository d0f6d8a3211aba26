//! The beginning and the end of the library in a process: other libraries of the same name, and the check that the
//! program has opened a device.

use crate::{report, required};
use libc::{c_char, c_int, c_void};
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The process that has loaded the library; children that were made by `fork` have other process IDs.
static LOADED_BY: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    /// As `atexit`, and the function gets the exit status (glibc).
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Called when the library is loaded (`link/versions.c`). Not part of the static library's interface, so that programs
/// in Rust that contain this crate are not affected.
#[unsafe(no_mangle)]
pub extern "C" fn rnic_on_load() {
    LOADED_BY.store(std::process::id(), Ordering::Release);
    required::begin();
    warn_of_others();
    // SAFETY: the function has the right type, and stays: the library is never unloaded.
    unsafe { on_exit(at_exit, std::ptr::null_mut()) };
}

/// Called when the process ends by `exit`, or by the return of `main`.
extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    if LOADED_BY.load(Ordering::Acquire) != std::process::id() {
        return;
    }
    if !required::has_opened() {
        warn_of_others();
    }
    if status == 0 && required::is_unmet() {
        report::once(
            "RNIC_REQUIRED=1, but neither this program nor one that it started has opened an RDMA device; \
             `rnic verbs doctor` lists the devices, RNIC_TRACE=1 shows the calls",
        );
        // The other functions that run at the end still run.
        // SAFETY: the process ends already, and a call from such a function changes only its exit status.
        unsafe { libc::exit(1) };
    }
}

/// The paths of libraries named libibverbs in a process's memory map, for example those that a Python wheel contains:
/// `libibverbs-1de1263b.so.1.14.48.0`.
pub fn libraries_in(maps: &str) -> BTreeSet<&Path> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    paths
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libibverbs") && name.contains(".so")
        })
        .collect()
}

/// Warns if the calls of this process reach another library named libibverbs.
fn warn_of_others() {
    // SAFETY: the name is a C string.
    let used = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"ibv_get_device_list".as_ptr()) };
    // A function of this library that no other library has. The address of an exported function may be that of the
    // other library.
    let own = path_of(at_exit as *const c_void);
    if own.is_some() && path_of(used) == own {
        return;
    }
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return };
    let mut others = libraries_in(&maps).into_iter().filter(|path| own.as_deref() != Some(*path));
    if let Some(other) = others.next() {
        report::once(&format!(
            "this process also has {}, so that its calls may not reach rnic's devices; start the program with `rnic verbs \
             run`, or with LD_PRELOAD={}",
            other.display(),
            own.unwrap_or_else(|| "libibverbs.so.1".into()).display()
        ));
    }
}

/// The path of the library that contains an address.
fn path_of(address: *const c_void) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut about = libc::Dl_info {
        dli_fname: std::ptr::null::<c_char>(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: `dladdr` writes to the structure only.
    let found = unsafe { libc::dladdr(address, &raw mut about) };
    if found == 0 || about.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name is a C string that lives as long as the library.
    let name = unsafe { CStr::from_ptr(about.dli_fname) };
    Some(Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_in_a_memory_map() {
        let maps = "7f00-7f01 r--p 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0\n\
                    7f01-7f02 r-xp 00001000 08:01 12 /usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0\n\
                    7f02-7f03 r--p 00000000 08:01 13 /usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so\n\
                    7f03-7f04 r--p 00000000 08:01 14 /home/a b/nixl.libs/libibverbs-1de1263b.so.1.14.48.0\n\
                    7f04-7f05 rw-p 00000000 00:00 0 [heap]\n\
                    7f05-7f06 rw-p 00000000 00:00 0\n";
        let found: Vec<String> = libraries_in(maps).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            found,
            [
                "/home/a b/nixl.libs/libibverbs-1de1263b.so.1.14.48.0",
                "/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0"
            ]
        );
        assert!(libraries_in("").is_empty());
    }
}
