//! Identifiers: creation, options, destruction.

use crate::objects::id::{self, Id, New};
use crate::verbs::{call, trace, type_of};
use libc::{c_int, c_void, size_t};
use rnic_cabi::cma::*;
use rnic_cabi::entry::lock;
use rnic_cabi::pointer::{Handle, Out};

#[unsafe(no_mangle)]
pub extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel, id: Out<*mut rdma_cm_id>, context: *mut c_void, space: c_int,
) -> c_int {
    call(|| {
        id.write(id::create(channel, New { context, space, qp_type: type_of(space) })?.as_ptr());
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    call(|| id::destroy(id))
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int {
    call(|| id::migrate(id::live(id)?, channel))
}

/// The value of an option.
#[derive(Clone, Copy)]
enum Value {
    Byte(u8),
    Int(c_int),
}

impl Value {
    fn byte(self) -> Result<u8, c_int> {
        if let Value::Byte(byte) = self { Ok(byte) } else { Err(libc::EINVAL) }
    }

    fn int(self) -> Result<c_int, c_int> {
        if let Value::Int(int) = self { Ok(int) } else { Err(libc::EINVAL) }
    }
}

/// Sets an option of an identifier. `value` is `None` if its length is neither 1 nor 4 bytes.
fn set_option(id: Handle<Id>, level: c_int, option: c_int, value: Option<Value>) -> Result<(), c_int> {
    let byte = || value.ok_or(libc::EINVAL).and_then(Value::byte);
    let int = || value.ok_or(libc::EINVAL).and_then(Value::int);
    let mut inner = lock(&id.state().inner);
    match (level, option) {
        (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS) => inner.tos = byte()?,
        // A listening identifier does not share its port.
        (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR) => match int()? != 0 {
            true if inner.listening => return Err(libc::EINVAL),
            reuse => inner.reuse = reuse,
        },
        (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY) => inner.family_only = int()? != 0,
        (RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT) => match byte()? {
            timeout @ 0..=31 => inner.ack_timeout = timeout,
            _ => return Err(libc::EINVAL),
        },
        _ => {
            trace(format_args!("rdma_set_option refused: no option {option} of level {level}"));
            return Err(libc::EOPNOTSUPP);
        }
    }
    Ok(())
}

/// Sets an option that is a number.
pub(crate) fn set_int_option(id: Handle<Id>, option: c_int, value: c_int) -> Result<(), c_int> {
    set_option(id, RDMA_OPTION_ID, option, Some(Value::Int(value)))
}

/// # Safety
/// The value is null, or has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_set_option(
    id: *mut rdma_cm_id, level: c_int, option: c_int, value: *mut c_void, len: size_t,
) -> c_int {
    call(|| {
        let id = id::live(id)?;
        if value.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the value has `len` bytes.
        let value = unsafe {
            match len {
                1 => Some(Value::Byte(value.cast::<u8>().read())),
                4 => Some(Value::Int(value.cast::<c_int>().read_unaligned())),
                _ => None,
            }
        };
        set_option(id, level, option, value)
    })
}

/// Returns the port in network byte order; 0 if the identifier has no port.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    let port = |id: Handle<Id>| lock(&id.state().inner).local.map(|local| local.port().to_be());
    id::live(id).ok().and_then(port).unwrap_or(0)
}

/// Returns the port in network byte order; 0 if the identifier has no port.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    let port = |id: Handle<Id>| lock(&id.state().inner).remote.map(|remote| remote.port().to_be());
    id::live(id).ok().and_then(port).unwrap_or(0)
}
