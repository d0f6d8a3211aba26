//! The list of devices: one for each address of this host.

use crate::abi::{IBV_NODE_CA, IBV_TRANSPORT_IB, ibv_device};
use crate::entry::{counted, free_list, lock};
use crate::environment::Environment;
use crate::hosts::{self, HostAddress};
use crate::trace;
use libc::{c_char, c_int};
use std::sync::Mutex;

/// A device: what C sees, and the address.
#[repr(C)]
pub(crate) struct Device {
    c: ibv_device,
    pub(crate) address: HostAddress,
    /// Index in the list, which is also in the name.
    pub(crate) index: u32,
}

// SAFETY: the structure is never changed after it was made; the pointers in it are null.
unsafe impl Sync for Device {}

impl Device {
    fn new(index: u32, address: HostAddress) -> Device {
        let name = format!("rnic{index}");
        Device {
            c: ibv_device {
                ops: [0; 2],
                node_type: IBV_NODE_CA,
                transport_type: IBV_TRANSPORT_IB,
                name: text(&name),
                dev_name: text(&format!("uverbs{index}")),
                dev_path: text(&format!("/sys/class/infiniband_verbs/uverbs{index}")),
                ibdev_path: text(&format!("/sys/class/infiniband/{name}")),
            },
            address,
            index,
        }
    }

    /// The device behind a pointer of C.
    ///
    /// # Safety
    /// The pointer is one of [`ibv_get_device_list`].
    pub(crate) unsafe fn of(device: *mut ibv_device) -> &'static Device {
        // SAFETY: devices live until the process ends, and nobody writes them.
        unsafe { &*device.cast::<Device>() }
    }

    /// The GUID of the device's node, in network byte order.
    pub(crate) fn guid(&self) -> u64 {
        rnic_cm::ip::guid(self.address.ip).to_be()
    }
}

/// A C string in an array; longer texts are truncated.
pub(crate) fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out[..N - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    out
}

/// All devices that the process has ever seen. A device keeps its place, also if its address disappears.
static KNOWN: Mutex<Vec<&'static Device>> = Mutex::new(Vec::new());

/// The devices that exist now.
fn current() -> Result<Vec<&'static Device>, c_int> {
    let addresses = Environment::get().as_ref().map_err(Clone::clone).and_then(hosts::addresses);
    let addresses = addresses.map_err(|error| {
        eprintln!("rnic: {error}");
        libc::EINVAL
    })?;
    let mut known = lock(&KNOWN);
    let devices = addresses.into_iter().map(|address| {
        if let Some(device) = known.iter().find(|device| device.address == address) {
            return *device;
        }
        let device: &'static Device = Box::leak(Box::new(Device::new(known.len() as u32, address)));
        known.push(device);
        device
    });
    Ok(devices.collect())
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let devices = || {
        let devices = current()?;
        trace::line(format_args!("ibv_get_device_list = {} devices", devices.len()));
        Ok(devices.into_iter().map(|device| std::ptr::from_ref(device).cast_mut().cast()).collect())
    };
    // SAFETY: by the contract of libibverbs the pointer is null or valid.
    unsafe { counted(devices, count) }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: by the contract of libibverbs the list is one of `ibv_get_device_list`.
    unsafe { free_list(list) }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: by the contract of libibverbs the pointer is that of a device.
    unsafe { Device::of(device) }.c.name.as_ptr()
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    // SAFETY: as above.
    unsafe { Device::of(device) }.guid()
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_index(device: *mut ibv_device) -> c_int {
    // SAFETY: as above.
    unsafe { Device::of(device) }.index as c_int
}
