//! What rnic's librdmacm gets from this library: queue pair 1 of a device, and the trace. These functions belong to no
//! public interface; their version (`RNIC_4`) changes with them.

use crate::abi::{ibv_context, ibv_device, ibv_gid};
use crate::context::{self, gid, ip};
use crate::devices::Device;
use crate::entry::{entry, lock, object, status};
use crate::trace;
use libc::{c_char, c_int};
use rnic_cm::message::MadBytes;
use rnic_cm::{connection_list, packet};
use rnic_endpoint::Time;
use rnic_endpoint::port::shared_address::{ClaimError, Claims, ConnectionList, MadSender};
use rnic_endpoint::port::{Interest, Port};
use std::ffi::CStr;
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// Queue pair 1 of a device, for the communication manager of this process.
pub struct Mads {
    sender: Mutex<MadSender>,
    receiver: Mutex<Box<dyn Port>>,
    waker: Waker,
    claims: Arc<Claims>,
    list: Option<Arc<ConnectionList>>,
}

impl Mads {
    pub(crate) fn new(
        sender: MadSender, receiver: Box<dyn Port>, claims: Arc<Claims>, list: Option<Arc<ConnectionList>>,
    ) -> Mads {
        let waker = receiver.waker();
        Mads { sender: Mutex::new(sender), waker, receiver: Mutex::new(receiver), claims, list }
    }

    /// The next MAD and its sender; waits for it once, at most for this time.
    fn receive(&self, timeout: Time) -> std::io::Result<Option<(std::net::IpAddr, MadBytes)>> {
        let mut port = lock(&self.receiver);
        let mut waited = false;
        loop {
            while let Some(arrival) = port.receive()? {
                let meta = arrival.meta;
                if let Some(mad) = packet::parse(arrival.data, meta.source, meta.destination) {
                    return Ok(Some((meta.source.ip(), mad)));
                }
            }
            if waited {
                return Ok(None);
            }
            port.wait(Interest::Arrival, Some(timeout))?;
            waited = true;
        }
    }
}

fn claim_errno(error: ClaimError) -> c_int {
    match error {
        ClaimError::InUse => libc::EADDRINUSE,
        ClaimError::NoResponse => libc::ETIMEDOUT,
        ClaimError::NotClaimed => libc::EINVAL,
    }
}

/// The address of a device.
///
/// # Safety
/// The device is one of this library, and `out` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_device_gid(device: *mut ibv_device, out: *mut ibv_gid) {
    // SAFETY: the caller's promise.
    unsafe { out.write(gid(Device::of(device).address.ip)) };
}

/// Opens queue pair 1 of a device until the process ends. Writes the manager ID, the lower half of the communication
/// IDs, to `id`.
///
/// # Safety
/// The context is one of this library that is never closed, and `id` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_mads_open(context: *mut ibv_context, id: *mut u16) -> *mut Mads {
    object(|| {
        // SAFETY: the caller's promise.
        let state = unsafe { context::state(context) };
        let mads = state.open_manager().map_err(|why| {
            eprintln!("rnic: the communication manager of {} cannot be opened: {why}", state.address.ip);
            libc::EADDRNOTAVAIL
        })?;
        // SAFETY: the caller's promise.
        unsafe { id.write(lock(&mads.sender).manager_id()) };
        Ok(Box::into_raw(Box::new(mads)))
    })
}

/// Sends a MAD to UDP port 4791 of the peer with this GID.
///
/// # Safety
/// The pointers are valid, and `mads` is one of [`rnic_mads_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_mads_send(mads: *const Mads, peer: *const ibv_gid, mad: *const MadBytes) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let (mads, peer, mad) = unsafe { (&*mads, ip(&*peer), &*mad) };
        lock(&mads.sender).send(peer, mad).map_err(|error| {
            trace::line(format_args!("cannot send to {peer}: {error}"));
            libc::ENETUNREACH
        })
    })
}

/// Writes a slot of the manager's connection list, by which another process ends the connections if this one is killed.
///
/// # Safety
/// As [`rnic_mads_send`], and `entry` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_mads_list_connection(
    mads: *const Mads, slot: u32, entry: *const [u8; connection_list::ENTRY_LEN],
) {
    crate::entry::entry((), || {
        // SAFETY: the caller's promise.
        let (mads, entry) = unsafe { (&*mads, &*entry) };
        if let Some(list) = &mads.list
            && let Err(error) = list.write(slot, entry)
        {
            trace::line(format_args!("a connection is not in the connection list, so that its peer depends on probes: {error}"));
        }
    });
}

/// Receives a MAD; waits for it `timeout` nanoseconds at most. Returns 1, or 0 if there is none, or -1 after an error.
///
/// # Safety
/// As [`rnic_mads_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_mads_receive(
    mads: *const Mads, timeout: u64, peer: *mut ibv_gid, mad: *mut MadBytes,
) -> c_int {
    entry(-1, || {
        // SAFETY: the caller's promise.
        match unsafe { &*mads }.receive(Time::from_ns(timeout)) {
            Ok(Some((from, bytes))) => {
                // SAFETY: as above.
                unsafe {
                    peer.write(gid(from));
                    mad.write(bytes);
                }
                1
            }
            Ok(None) => 0,
            Err(_) => -1,
        }
    })
}

/// Ends the current or the next call of [`rnic_mads_receive`].
///
/// # Safety
/// As [`rnic_mads_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_mads_wake(mads: *const Mads) {
    // SAFETY: the caller's promise.
    entry((), || unsafe { &*mads }.waker.wake_by_ref());
}

/// Claims the requests for a service ID, among all processes of the address; `shared`, if not 0: others who say so may
/// have it as well, as long as nobody listens. Another thread must be in [`rnic_mads_receive`], which gets the answer.
///
/// # Safety
/// As [`rnic_mads_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_mads_claim(mads: *const Mads, service: u64, shared: c_int) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let mads = unsafe { &*mads };
        mads.claims.claim(service, shared != 0, &mads.waker).map_err(claim_errno)
    })
}

/// Makes a claimed service ID exclusive, before an identifier listens on it.
///
/// # Safety
/// As [`rnic_mads_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_mads_listen(mads: *const Mads, service: u64) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let mads = unsafe { &*mads };
        mads.claims.listen(service, &mads.waker).map_err(claim_errno)
    })
}

/// Gives a service ID back.
///
/// # Safety
/// As [`rnic_mads_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_mads_release(mads: *const Mads, service: u64) {
    entry((), || {
        // SAFETY: the caller's promise.
        let mads = unsafe { &*mads };
        mads.claims.release(service, &mads.waker);
    });
}

/// Writes a line to the trace.
///
/// # Safety
/// The text is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rnic_trace(text: *const c_char) {
    if trace::is_on() {
        // SAFETY: the caller's promise.
        entry((), || trace::line(format_args!("{}", unsafe { CStr::from_ptr(text) }.to_string_lossy())));
    }
}
