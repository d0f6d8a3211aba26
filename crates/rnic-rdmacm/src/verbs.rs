//! The functions of libibverbs that this library calls: the public functions, and the functions that only rnic's two
//! libraries use.

use libc::{c_char, c_int, c_uint, c_void};
use rnic_cabi::cma::*;
use rnic_cabi::verbs::*;
use rnic_cm::connection_list::ENTRY_LEN;
use rnic_cm::message::MadBytes;
use std::ffi::CString;
use std::fmt::Arguments;

/// Queue pair 1 of a device, a type of the other library. Its functions may be called from all threads.
#[repr(C)]
pub(crate) struct Mads {
    _private: [u8; 0],
}

unsafe extern "C" {
    pub(crate) fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device;
    pub(crate) fn ibv_free_device_list(list: *mut *mut ibv_device);
    pub(crate) fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    pub(crate) fn ibv_get_device_guid(device: *mut ibv_device) -> u64;
    pub(crate) fn ibv_query_device(context: *mut ibv_context, attributes: *mut ibv_device_attr) -> c_int;
    pub(crate) fn ibv_query_port(context: *mut ibv_context, port: u8, attributes: *mut ibv_port_attr) -> c_int;
    pub(crate) fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    pub(crate) fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: libc::size_t, access: c_int) -> *mut ibv_mr;
    pub(crate) fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    pub(crate) fn ibv_get_cq_event(
        channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq, cq_context: *mut *mut c_void,
    ) -> c_int;
    pub(crate) fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint);
    pub(crate) fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    pub(crate) fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
    pub(crate) fn ibv_create_cq(
        context: *mut ibv_context, cqe: c_int, cq_context: *mut c_void, channel: *mut ibv_comp_channel, vector: c_int,
    ) -> *mut ibv_cq;
    pub(crate) fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
    pub(crate) fn ibv_create_qp(pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    pub(crate) fn ibv_modify_qp(qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int) -> c_int;
    pub(crate) fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
    pub(crate) fn ibv_create_ah(pd: *mut ibv_pd, attributes: *mut ibv_ah_attr) -> *mut ibv_ah;
    pub(crate) fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int;
    pub(crate) fn ibv_create_srq(pd: *mut ibv_pd, attributes: *mut ibv_srq_init_attr) -> *mut ibv_srq;
    pub(crate) fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;

    pub(crate) fn rnic_device_gid(device: *mut ibv_device, out: *mut ibv_gid);
    pub(crate) fn rnic_mads_open(context: *mut ibv_context, id: *mut u16) -> *mut Mads;
    pub(crate) safe fn rnic_mads_send(mads: &Mads, peer: &ibv_gid, mad: &MadBytes) -> c_int;
    pub(crate) safe fn rnic_mads_receive(mads: &Mads, timeout: u64, peer: &mut ibv_gid, mad: &mut MadBytes) -> c_int;
    pub(crate) safe fn rnic_mads_wake(mads: &Mads);
    pub(crate) safe fn rnic_mads_claim(mads: &Mads, service: u64, shared: c_int) -> c_int;
    pub(crate) safe fn rnic_mads_list_connection(mads: &Mads, slot: u32, list_entry: &[u8; ENTRY_LEN]);
    pub(crate) safe fn rnic_mads_listen(mads: &Mads, service: u64) -> c_int;
    pub(crate) safe fn rnic_mads_release(mads: &Mads, service: u64);
    pub(crate) fn rnic_trace(text: *const c_char);
}

/// Writes a line to the trace of `RNIC_TRACE`.
pub(crate) fn trace(text: Arguments<'_>) {
    if let Ok(text) = CString::new(text.to_string()) {
        // SAFETY: it is a C string.
        unsafe { rnic_trace(text.as_ptr()) };
    }
}

/// Returns the extended context around a context. The header of libibverbs calls the operations of the extended context
/// too.
///
/// # Safety
/// libibverbs has made the context.
pub(crate) unsafe fn extended(context: *mut ibv_context) -> *mut verbs_context {
    context.wrapping_byte_sub(std::mem::offset_of!(verbs_context, context)).cast()
}

/// Fails a call that returns 0 or -1: sets `errno`, and returns -1.
pub(crate) fn fail(error: c_int) -> c_int {
    rnic_cabi::entry::set_errno(error);
    -1
}

/// Runs the body of a function that returns 0, or -1 and an error in `errno`, as the functions of librdmacm do.
pub(crate) fn call(body: impl FnOnce() -> Result<(), c_int>) -> c_int {
    rnic_cabi::entry::entry(-1, || body().map_or_else(fail, |()| 0))
}

/// The error in `errno`.
pub(crate) fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Converts the result of a verb: `Ok` if the verb has returned 0.
pub(crate) fn check(result: c_int) -> Result<(), c_int> {
    match result {
        0 => Ok(()),
        // Some verbs return -1 with an error in `errno`.
        error if error < 0 => Err(errno()),
        error => Err(error),
    }
}

/// Converts the object that a verb returns: `Ok` unless the object is null.
pub(crate) fn made<T>(object: *mut T) -> Result<*mut T, c_int> {
    if object.is_null() { Err(errno()) } else { Ok(object) }
}

/// Returns the type of the queue pairs of a port space.
pub(crate) fn type_of(space: c_int) -> c_int {
    if matches!(space, RDMA_PS_UDP | RDMA_PS_IPOIB) { IBV_QPT_UD } else { IBV_QPT_RC }
}

/// Access flags of a queue pair for its peer.
pub(crate) const REMOTE: c_uint = IBV_ACCESS_REMOTE_WRITE;
