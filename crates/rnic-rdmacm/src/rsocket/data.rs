//! Sending and receiving.

use super::datagram::Datagrams;
use super::{Inner, Socket, State, connect, either, options};
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use rnic_cabi::entry::lock;
use std::net::SocketAddr;

/// Bytes of the first Write of a call, and maximum bytes of a Write. The first Write is small, so that it departs
/// early.
pub(super) const STEP: (u32, u32) = (2_048, 65_536);

/// A buffer of the program: address, and bytes.
pub(super) type Buffer<T> = (T, usize);

/// Returns the buffers in a scatter/gather list of the program.
///
/// # Safety
/// The list has `count` entries.
unsafe fn buffers<T>(
    list: *const iovec, count: c_int, cast: impl Fn(*mut c_void) -> T,
) -> Result<Vec<Buffer<T>>, c_int> {
    let count = usize::try_from(count).ok().filter(|count| *count <= 1_024).ok_or(libc::EINVAL)?;
    if count > 0 && list.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller promises the conditions of this function.
    Ok((0..count).map(|at| unsafe { list.add(at).read() }).map(|io| (cast(io.iov_base), io.iov_len)).collect())
}

fn can_send(inner: &Inner) -> bool {
    let is_open = matches!(inner.state, State::Connected | State::Accepting) && inner.writable;
    let ready = inner.state == State::Connected && inner.stream.as_ref().is_some_and(|stream| stream.can_send());
    ready || !is_open
}

fn can_receive(inner: &Inner) -> bool {
    let has_data = inner.stream.as_ref().is_some_and(|stream| stream.inbox.unread() > 0);
    let is_open = matches!(inner.state, State::Connected | State::Accepting) && inner.readable;
    has_data || !is_open
}

impl Socket {
    /// Waits until bytes can be sent. Sends new mappings to the peer first.
    pub(super) fn ready_to_send<'a>(
        &'a self, inner: super::Guard<'a>, is_nonblocking: bool,
    ) -> (super::Guard<'a>, Result<(), c_int>) {
        let (mut inner, mut waited) = self.inner.wait(inner, is_nonblocking, can_send);
        while waited.is_ok() && inner.writable && inner.maps.is_pending() {
            waited = inner.send_mapping();
            if waited.is_ok() {
                (inner, waited) = self.inner.wait(inner, is_nonblocking, can_send);
            }
        }
        let is_open = inner.state == State::Connected && inner.writable;
        (inner, waited.and(if is_open { Ok(()) } else { Err(libc::ECONNRESET) }))
    }

    /// # Safety
    /// The buffers are memory of the program.
    unsafe fn send(&self, buffers: &[Buffer<*const u8>], flags: c_int) -> Result<ssize_t, c_int> {
        let _one = lock(&self.sending);
        let inner = self.inner.lock();
        let is_nonblocking = inner.is_nonblocking(flags);
        let (mut inner, ready) = self.ready(inner, is_nonblocking);
        ready?;
        let (mut sent, mut step) = (0, STEP.0);
        for (data, len) in buffers {
            let mut at = 0;
            while at < *len {
                let waited;
                (inner, waited) = self.ready_to_send(inner, is_nonblocking);
                let rest = u32::try_from(len - at).unwrap_or(u32::MAX).min(step);
                let result = match (waited, &mut inner.stream) {
                    // SAFETY: the caller promises the conditions of this function.
                    (Ok(()), Some(stream)) => unsafe { stream.send(data.wrapping_add(at), rest) },
                    (waited, _) => Err(waited.err().unwrap_or(libc::ENOTCONN)),
                };
                match result {
                    Ok(len) => {
                        at += len as usize;
                        sent += len as usize;
                        step = (step * 2).min(STEP.1);
                    }
                    Err(_) if sent > 0 => return Ok(sent as ssize_t),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(sent as ssize_t)
    }

    /// # Safety
    /// The buffers are memory of the program.
    unsafe fn receive(&self, buffers: &[Buffer<*mut u8>], flags: c_int) -> Result<ssize_t, c_int> {
        let _one = lock(&self.receiving);
        let inner = self.inner.lock();
        let is_nonblocking = inner.is_nonblocking(flags);
        let (mut inner, ready) = self.ready(inner, is_nonblocking);
        ready?;
        let mut received = 0;
        for (to, len) in buffers {
            let mut at = 0;
            while at < *len {
                let is_nonblocking = is_nonblocking || received > 0 && flags & libc::MSG_WAITALL == 0;
                let waited;
                (inner, waited) = self.inner.wait(inner, is_nonblocking, can_receive);
                match waited {
                    Err(_) if received > 0 => return Ok(received as ssize_t),
                    Err(error) => return Err(error),
                    Ok(()) => {}
                }
                let error = if inner.state == State::Broken { inner.error } else { 0 };
                let Some(stream) = &mut inner.stream else { return Err(libc::ENOTCONN) };
                let found = stream.inbox.ranges(len - at);
                let mut copied = 0;
                for (offset, len) in found {
                    // SAFETY: the caller promises the conditions of this function; the ranges are within the ring.
                    unsafe { stream.receiving.copy(offset, to.wrapping_add(at + copied as usize), len) };
                    copied += len;
                }
                if copied == 0 {
                    // The end of the stream, or an error after all received bytes.
                    return if received > 0 || error == 0 { Ok(received as ssize_t) } else { Err(error) };
                }
                received += copied as usize;
                if flags & libc::MSG_PEEK != 0 {
                    return Ok(received as ssize_t);
                }
                at += copied as usize;
                stream.inbox.consume(copied);
                inner.give_credits();
            }
        }
        Ok(received as ssize_t)
    }
}

/// A number of bytes, or -1.
struct Count(ssize_t);

impl From<i8> for Count {
    fn from(value: i8) -> Count {
        Count(value.into())
    }
}

/// Receives by an rsocket of either kind. `sender` gets the address of a datagram, and whether the datagram was
/// truncated.
///
/// # Safety
/// The buffers are memory of the program.
unsafe fn receive_any(
    socket: c_int, buffers: impl Fn() -> Result<Vec<Buffer<*mut u8>>, c_int>, flags: c_int,
    sender: impl FnOnce(SocketAddr, bool, c_int) -> Result<(), c_int>,
) -> ssize_t {
    // SAFETY: the caller promises the conditions of this function.
    let streams = |socket: &Socket| unsafe { socket.receive(&buffers()?, flags) }.map(Count);
    let datagrams = |socket: &Datagrams| {
        // SAFETY: the caller promises the conditions of this function.
        let received = unsafe { socket.receive(&buffers()?, flags)? };
        let Some((len, source, is_truncated)) = received else { return Ok(Count(0)) };
        let domain = socket.inner().options.domain;
        sender(source, is_truncated, domain).map(|()| Count(len))
    };
    either(socket, streams, datagrams).0
}

/// Sends by an rsocket of either kind. A stream ignores the address, as a socket of the system does.
///
/// # Safety
/// The buffers are memory of the program. The address is null, or has `len` bytes.
unsafe fn send_any(
    socket: c_int, buffers: impl Fn() -> Result<Vec<Buffer<*const u8>>, c_int>, flags: c_int, to: *const sockaddr,
    len: socklen_t,
) -> ssize_t {
    // SAFETY: the caller promises the conditions of this function.
    let streams = |socket: &Socket| unsafe { socket.send(&buffers()?, flags) }.map(Count);
    let datagrams = |socket: &Datagrams| {
        // SAFETY: the caller promises the conditions of this function.
        unsafe {
            let to = if to.is_null() { None } else { Some(connect::read(to, len)?) };
            socket.send(&buffers()?, flags, to).map(Count)
        }
    };
    either(socket, streams, datagrams).0
}

/// # Safety
/// The buffer has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrecv(socket: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller promises the conditions of this function.
    unsafe { receive_any(socket, || Ok(vec![(buf.cast(), len)]), flags, |_, _, _| Ok(())) }
}

/// # Safety
/// The buffer has `len` bytes. The pointers to the source address and to its length are null, or the memory of the
/// address has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrecvfrom(
    socket: c_int, buf: *mut c_void, len: size_t, flags: c_int, source: *mut sockaddr, source_len: *mut socklen_t,
) -> ssize_t {
    let wanted = !source.is_null() && !source_len.is_null();
    let mut is_written = false;
    let sender = |address, _, domain| {
        is_written = true;
        if !wanted {
            return Ok(());
        }
        // SAFETY: the caller promises the conditions of this function.
        unsafe { options::write_address(Some(address), domain, source, source_len) }.map(|_: c_int| ())
    };
    // SAFETY: the caller promises the conditions of this function.
    unsafe {
        let received = receive_any(socket, || Ok(vec![(buf.cast(), len)]), flags, sender);
        if received > 0 && wanted && !is_written {
            options::rgetpeername(socket, source, source_len);
        }
        received
    }
}

/// # Safety
/// The list has `count` buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rreadv(socket: c_int, list: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller promises the conditions of this function.
    unsafe { receive_any(socket, || buffers(list, count, |base| base.cast::<u8>()), 0, |_, _, _| Ok(())) }
}

/// # Safety
/// The message is null, or its lists and buffers have their lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrecvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller promises the conditions of this function.
    unsafe {
        let list = || {
            let message = message.as_ref().ok_or(libc::EFAULT)?;
            let count = c_int::try_from(message.msg_iovlen).map_err(|_| libc::EINVAL)?;
            buffers(message.msg_iov, count, |base| base.cast::<u8>())
        };
        if let Some(message) = message.as_mut() {
            (message.msg_controllen, message.msg_flags) = (0, 0);
        }
        let sender = |source, is_truncated, domain| {
            let message = message.as_mut().ok_or(libc::EFAULT)?;
            message.msg_flags = if is_truncated { libc::MSG_TRUNC } else { 0 };
            if message.msg_name.is_null() {
                return Ok(());
            }
            options::write_address(Some(source), domain, message.msg_name.cast(), &mut message.msg_namelen)
                .map(|_: c_int| ())
        };
        receive_any(socket, list, flags, sender)
    }
}

/// # Safety
/// The buffer has `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rread(socket: c_int, buf: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller promises the conditions of this function.
    unsafe { rrecv(socket, buf, count, 0) }
}

/// # Safety
/// The buffer has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsend(socket: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller promises the conditions of this function.
    unsafe { send_any(socket, || Ok(vec![(buf.cast(), len)]), flags, std::ptr::null(), 0) }
}

/// # Safety
/// The buffer has `len` bytes. The address is null, or has `to_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsendto(
    socket: c_int, buf: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t,
) -> ssize_t {
    // SAFETY: the caller promises the conditions of this function.
    unsafe { send_any(socket, || Ok(vec![(buf.cast(), len)]), flags, to, to_len) }
}

/// # Safety
/// The message is null, or its lists and buffers have their lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller promises the conditions of this function.
    unsafe {
        let list = || {
            let message = message.as_ref().ok_or(libc::EFAULT)?;
            if message.msg_controllen > 0 && !message.msg_control.is_null() {
                return Err(libc::ENOTSUP);
            }
            let count = c_int::try_from(message.msg_iovlen).map_err(|_| libc::EINVAL)?;
            buffers(message.msg_iov, count, |base| base.cast_const().cast::<u8>())
        };
        let (to, len) = message
            .as_ref()
            .map_or((std::ptr::null(), 0), |message| (message.msg_name.cast_const().cast(), message.msg_namelen));
        send_any(socket, list, flags, to, len)
    }
}

/// # Safety
/// The buffer has `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rwrite(socket: c_int, buf: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller promises the conditions of this function.
    unsafe { rsend(socket, buf, count, 0) }
}

/// # Safety
/// The list has `count` buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rwritev(socket: c_int, list: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller promises the conditions of this function.
    unsafe { send_any(socket, || buffers(list, count, |base| base.cast_const().cast::<u8>()), 0, std::ptr::null(), 0) }
}
