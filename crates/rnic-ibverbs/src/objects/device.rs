//! The devices: one for each address of this host.

use crate::abi::{IBV_NODE_CA, IBV_TRANSPORT_IB, ibv_device};
use crate::environment::Environment;
use crate::hosts::{self, HostAddress};
use crate::report;
use libc::{c_char, c_int};
use rnic_cabi::entry::lock;
use rnic_cabi::pointer::Handle;
use std::sync::Mutex;

/// A device. It exists until the process ends.
#[repr(C)]
pub(crate) struct Device {
    c: ibv_device,
    state: DeviceState,
}

rnic_cabi::object!(Device { c: ibv_device, state: DeviceState });

pub(crate) struct DeviceState {
    pub(crate) address: HostAddress,
    /// Index in the list.
    pub(crate) index: u32,
}

// SAFETY: the structure is never changed after it was made; the pointers in it are null.
unsafe impl Sync for Device {}

impl Device {
    fn new(index: u32, address: HostAddress) -> Device {
        let name = address.device_name(index as usize);
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
            state: DeviceState { address, index },
        }
    }
}

impl DeviceState {
    /// The name of the device.
    pub(crate) fn name(&self) -> String {
        self.address.device_name(self.index as usize)
    }

    /// The GUID of the device's node, in network byte order.
    pub(crate) fn guid(&self) -> u64 {
        rnic_cm::ip::guid(self.address.ip).to_be()
    }
}

/// The name of a device, a C string.
pub(crate) fn name(device: Handle<Device>) -> *const c_char {
    device.as_ptr().wrapping_byte_add(std::mem::offset_of!(ibv_device, name)).cast()
}

/// A C string in an array; longer texts are truncated.
pub(crate) fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out[..N - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    out
}

/// All devices that this process has ever listed. A device keeps its index, also if its address disappears.
static KNOWN: Mutex<Vec<&'static Device>> = Mutex::new(Vec::new());

/// The pointers of the devices that exist now.
///
/// # Errors
/// `EINVAL` if the environment has mistakes, or names an address that does not exist.
pub(crate) fn list() -> Result<Vec<*mut ibv_device>, c_int> {
    let addresses = Environment::get().as_ref().map_err(Clone::clone).and_then(hosts::addresses);
    let addresses = addresses.map_err(|error| {
        report::once(&error);
        libc::EINVAL
    })?;
    let mut known = lock(&KNOWN);
    let devices = addresses.into_iter().map(|address| {
        if let Some(device) = known.iter().find(|device| device.state.address == address) {
            return *device;
        }
        let device: &'static Device = Box::leak(Box::new(Device::new(known.len() as u32, address)));
        known.push(device);
        device
    });
    Ok(devices.map(|device| std::ptr::from_ref(device).cast_mut().cast()).collect())
}
