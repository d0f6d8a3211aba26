//! Direct writes: a program maps memory at offsets, and its peer writes to this memory. The program calls no function
//! to receive the bytes.

use super::data::STEP;
use super::stream::Stream;
use super::{Inner, State, with};
use crate::verbs::{ibv_dereg_mr, ibv_reg_mr, made};
use libc::{c_int, c_void, off_t, size_t};
use rnic_cabi::entry::lock;
use rnic_cabi::verbs::*;
use rnic_cm::rsocket::Target;

/// A range of the program's memory.
struct Map {
    mr: *mut ibv_mr,
    offset: u64,
    /// Index of the mapping in the peer's list; `None` if only this end uses the memory.
    index: Option<u16>,
    /// Whether the mapping was sent to the peer.
    is_sent: bool,
}

/// The mappings of a program.
#[derive(Default)]
pub(super) struct Maps(Vec<Map>);

impl Maps {
    /// Whether a mapping has to be sent to the peer.
    pub(super) fn is_pending(&self) -> bool {
        self.0.iter().any(|map| !map.is_sent)
    }

    pub(super) fn clear(&mut self) {
        for map in self.0.drain(..) {
            // SAFETY: `riomap` made the region, and the list no longer has it.
            unsafe { ibv_dereg_mr(map.mr) };
        }
    }
}

impl Inner {
    /// Sends the first mapping that the peer does not have.
    pub(super) fn send_mapping(&mut self) -> Result<(), c_int> {
        let (Some(map), Some(stream)) = (self.maps.0.iter_mut().find(|map| !map.is_sent), &mut self.stream) else {
            return Ok(());
        };
        if let Some(index) = map.index {
            // SAFETY: the region exists.
            let mr = unsafe { &*map.mr };
            let target = Target { address: mr.addr.expose_provenance() as u64, key: mr.rkey, len: mr.length as u32 };
            stream.send_mapping(index, map.offset, target)?;
        }
        map.is_sent = true;
        Ok(())
    }
}

/// # Safety
/// The buffer has `len` bytes until it is unmapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn riomap(
    socket: c_int, buf: *mut c_void, len: size_t, prot: c_int, _flags: c_int, offset: off_t,
) -> off_t {
    let mapped = |socket: &super::Socket| {
        let mut inner = socket.inner.lock();
        let inner = &mut *inner;
        let stream = inner.stream.as_ref().ok_or(libc::EINVAL)?;
        if prot & !libc::PROT_WRITE != 0 || len == 0 || u32::try_from(len).is_err() {
            return Err(libc::EINVAL);
        }
        let is_remote = prot & libc::PROT_WRITE != 0;
        let (index, access) = if is_remote {
            let max = u16::try_from(stream.peer_mappings()).unwrap_or(u16::MAX);
            let is_free = |index: &u16| inner.maps.0.iter().all(|map| map.index != Some(*index));
            let index = (0..max).find(is_free).ok_or(libc::ENOMEM)?;
            (Some(index), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
        } else {
            (None, IBV_ACCESS_LOCAL_WRITE)
        };
        // SAFETY: the caller promises the conditions of this function.
        let mr = unsafe { made(ibv_reg_mr(stream.pd(), buf, len, access as c_int))? };
        let offset = if offset == -1 { buf.expose_provenance() as off_t } else { offset };
        inner.maps.0.push(Map { mr, offset: offset as u64, index, is_sent: !is_remote });
        Ok(Offset(offset))
    };
    with(socket, mapped).0
}

/// An offset, or -1.
struct Offset(off_t);

impl From<i8> for Offset {
    fn from(value: i8) -> Offset {
        Offset(value.into())
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn riounmap(socket: c_int, buf: *mut c_void, len: size_t) -> c_int {
    with(socket, |socket| {
        let mut inner = socket.inner.lock();
        // SAFETY: the regions exist.
        let is_it = |map: &Map| unsafe { (*map.mr).addr == buf && (*map.mr).length == len };
        let at = inner.maps.0.iter().position(is_it).ok_or(libc::EINVAL)?;
        let map = inner.maps.0.remove(at);
        // SAFETY: `riomap` made the region, and the list no longer has it.
        unsafe { ibv_dereg_mr(map.mr) };
        Ok(0)
    })
}

/// # Safety
/// The buffer has `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn riowrite(
    socket: c_int, buf: *const c_void, count: size_t, offset: off_t, flags: c_int,
) -> size_t {
    let written = |socket: &super::Socket| {
        let _one = lock(&socket.sending);
        let inner = socket.inner.lock();
        let is_nonblocking = inner.is_nonblocking(flags);
        let (mut inner, ready) = socket.ready(inner, is_nonblocking);
        ready?;
        let (mut at, mut step) = (0, STEP.0);
        while at < count {
            let waited;
            (inner, waited) = socket.ready_to_send(inner, is_nonblocking);
            let rest = u32::try_from(count - at).unwrap_or(u32::MAX).min(step);
            let result = match (waited, &mut inner.stream) {
                (Ok(()), Some(stream)) => {
                    // SAFETY: the caller promises the conditions of this function.
                    unsafe { write(stream, buf.cast::<u8>().wrapping_add(at), rest, offset as u64 + at as u64) }
                }
                (waited, _) => Err(waited.err().unwrap_or(libc::ENOTCONN)),
            };
            match result {
                // The peer has no mapping at this offset.
                Ok(0) => break,
                Ok(len) => {
                    at += len as usize;
                    step = (step * 2).min(STEP.1);
                }
                Err(_) if at > 0 => break,
                Err(error) => return Err(error),
            }
        }
        debug_assert!(at == count || inner.state != State::New);
        Ok(Offset(at as off_t))
    };
    with(socket, written).0 as size_t
}

/// # Safety
/// `data` has `len` bytes.
unsafe fn write(stream: &mut Stream, data: *const u8, len: u32, offset: u64) -> Result<u32, c_int> {
    match stream.mapped(offset) {
        // SAFETY: the caller promises the conditions of this function.
        Some(to) => unsafe { stream.write(to, data, len) },
        None => Ok(0),
    }
}
