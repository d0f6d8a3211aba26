//! Functions for rnic's librdmacm: queue pair 1 of a device, and the trace. They belong to no public interface; their
//! version (`RNIC_4`) changes with them. `rnic-rdmacm` calls them with valid pointers.

use crate::abi::ibv_gid;
use crate::objects::context::{Context, gid, ip};
use crate::objects::device::Device;
use crate::objects::endpoint;
use crate::objects::manager::Mads;
use crate::{report, trace};
use libc::{c_char, c_int};
use rnic_cabi::entry::{entry, object, status};
use rnic_cabi::pointer::{Handle, In, Out};
use rnic_cm::connection_list::ENTRY_LEN;
use rnic_cm::message::MadBytes;
use rnic_endpoint::Time;
use std::ffi::CStr;

/// The address of a device.
#[unsafe(no_mangle)]
pub extern "C" fn rnic_device_gid(device: Handle<Device>, out: Out<ibv_gid>) {
    out.write(gid(device.state().address.ip));
}

/// Opens queue pair 1 of a device until the process ends. Writes the manager ID, the lower half of the communication
/// IDs, to `id`.
#[unsafe(no_mangle)]
pub extern "C" fn rnic_mads_open(context: Handle<Context>, id: Out<u16>) -> *mut Mads {
    object(|| {
        let address = context.state().address.ip;
        let mads = endpoint::open_manager(address).map_err(|why| {
            report::once(&format!("the communication manager of {address} cannot be opened: {why}"));
            libc::EADDRNOTAVAIL
        })?;
        id.write(mads.manager_id());
        Ok(Box::into_raw(Box::new(mads)))
    })
}

/// Sends a MAD to UDP port 4791 of the peer with this GID.
#[unsafe(no_mangle)]
pub extern "C" fn rnic_mads_send(mads: &Mads, peer: In<ibv_gid>, mad: &MadBytes) -> c_int {
    status(|| mads.send(ip(&peer.read()), mad))
}

/// Writes a slot of the manager's connection list, for another process that ends the connections if this one is killed.
#[unsafe(no_mangle)]
pub extern "C" fn rnic_mads_list_connection(mads: &Mads, slot: u32, list_entry: &[u8; ENTRY_LEN]) {
    entry((), || mads.list_connection(slot, list_entry));
}

/// Receives a MAD; waits for it `timeout` nanoseconds at most. Returns 1, or 0 if no MAD has arrived, or -1 after an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn rnic_mads_receive(mads: &Mads, timeout: u64, peer: Out<ibv_gid>, mad: Out<MadBytes>) -> c_int {
    entry(-1, || match mads.receive(Time::from_ns(timeout)) {
        Ok(Some((from, bytes))) => {
            peer.write(gid(from));
            mad.write(bytes);
            1
        }
        Ok(None) => 0,
        Err(_) => -1,
    })
}

/// Ends the wait of the thread in [`rnic_mads_receive`].
#[unsafe(no_mangle)]
pub extern "C" fn rnic_mads_wake(mads: &Mads) {
    entry((), || mads.wake());
}

/// Claims the requests for a service ID, among all processes of the address. If `shared` is not 0, other managers that
/// claim the service ID with `shared` may have it too, as long as none of them listens. Another thread must be in
/// [`rnic_mads_receive`], which receives the response.
#[unsafe(no_mangle)]
pub extern "C" fn rnic_mads_claim(mads: &Mads, service: u64, shared: c_int) -> c_int {
    status(|| mads.claim(service, shared != 0))
}

/// Makes a claimed service ID exclusive, before an identifier listens on it.
#[unsafe(no_mangle)]
pub extern "C" fn rnic_mads_listen(mads: &Mads, service: u64) -> c_int {
    status(|| mads.listen(service))
}

/// Releases a service ID.
#[unsafe(no_mangle)]
pub extern "C" fn rnic_mads_release(mads: &Mads, service: u64) {
    entry((), || mads.release(service));
}

/// Writes a line to the trace.
///
/// # Safety
/// The text is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_trace(text: *const c_char) {
    if trace::is_on() {
        // SAFETY: the caller promises the conditions of this function.
        entry((), || trace::line(format_args!("{}", unsafe { CStr::from_ptr(text) }.to_string_lossy())));
    }
}
