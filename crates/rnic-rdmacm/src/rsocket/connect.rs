//! The steps from `rsocket` to `rclose`.

use super::options::Options;
use super::stream::Stream;
use super::{Inner, Rsocket, SOCKETS, Socket, State, add, channel_fd, datagram, either, find, options, with};
use crate::calls::{address, connect as calls, endpoint};
use crate::objects::event::{self, Outcome};
use crate::objects::id::{self, Id, New};
use crate::sockets;
use crate::verbs::{call, fail, trace};
use libc::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_STREAM, c_int, sockaddr, socklen_t};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rnic_cabi::cma::*;
use rnic_cabi::entry::{entry, lock};
use rnic_cabi::get;
use rnic_cabi::pointer::{Handle, In};
use rnic_cabi::verbs::IBV_QPT_RC;
use rnic_cm::rsocket::{ConnectData, Immediate};
use std::os::fd::BorrowedFd;

/// Makes the channel of an identifier non-blocking: the calls of this module wait themselves.
fn make_nonblocking(id: Handle<Id>) {
    // SAFETY: the descriptor of the channel is open as long as the channel.
    unsafe { libc::fcntl(channel_fd(id), libc::F_SETFL, libc::O_NONBLOCK) };
}

#[unsafe(no_mangle)]
pub extern "C" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // `librspreload.so` uses sockets of the system for types that are refused here.
    let own = match kind {
        SOCK_STREAM => IPPROTO_TCP,
        SOCK_DGRAM => IPPROTO_UDP,
        _ => {
            trace(format_args!(
                "rsocket refused: the types are SOCK_STREAM and SOCK_DGRAM, without flags, not {kind:#x}"
            ));
            return fail(libc::ENOTSUP);
        }
    };
    if !matches!(domain, AF_INET | AF_INET6) || protocol != 0 && protocol != own {
        return fail(libc::ENOTSUP);
    }
    if kind == SOCK_DGRAM {
        return entry(-1, || datagram::open(domain).unwrap_or_else(fail));
    }
    let mut number = -1;
    call(|| {
        let new = New { context: std::ptr::null_mut(), space: RDMA_PS_TCP, qp_type: IBV_QPT_RC };
        let id = id::create(std::ptr::null_mut(), new)?;
        make_nonblocking(id);
        number = add(id, Options::new(domain), State::New, None);
        trace(format_args!("rsocket = {number}"));
        Ok(())
    });
    number
}

/// Reads an address of the program.
///
/// # Safety
/// The memory has `len` bytes.
pub(super) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Result<std::net::SocketAddr, c_int> {
    if address.is_null() || (len as usize) < size_of::<libc::sockaddr_in>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the memory has the length of the address's family.
    unsafe {
        let long = c_int::from((*address).sa_family) == AF_INET6;
        if long && (len as usize) < size_of::<libc::sockaddr_in6>() {
            return Err(libc::EINVAL);
        }
        sockets::read(address)
    }
}

/// # Safety
/// The address is null, or has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rbind(socket: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let streams = |socket: &Socket| {
        // SAFETY: the caller promises the conditions of this function.
        let address = unsafe { read(address, len)? };
        let inner = socket.inner.lock();
        if inner.state != State::New {
            return Err(libc::EINVAL);
        }
        address::bind(inner.id, address).map(|()| 0)
    };
    // SAFETY: the caller promises the conditions of this function.
    either(socket, streams, |socket| unsafe { socket.bind(address, len) }.map(|()| 0))
}

#[unsafe(no_mangle)]
pub extern "C" fn rlisten(socket: c_int, backlog: c_int) -> c_int {
    with(socket, |socket| {
        let mut inner = socket.inner.lock();
        match inner.state {
            State::Listening => return Ok(0),
            State::New => {}
            _ => return Err(libc::EINVAL),
        }
        calls::listen(inner.id, backlog)?;
        inner.state = State::Listening;
        Ok(0)
    })
}

/// # Safety
/// The pointers to the address and to its length are null, or the memory of the address has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raccept(socket: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    with(socket, |socket| {
        loop {
            let (listener, fd, options, is_nonblocking) = {
                let inner = socket.inner.lock();
                if inner.state != State::Listening {
                    return Err(libc::EINVAL);
                }
                (inner.id, inner.cm_fd(), inner.options, inner.is_nonblocking(0))
            };
            match accept(listener, options) {
                Ok(Some(number)) => {
                    if !address.is_null() && !len.is_null() {
                        // SAFETY: the caller promises the conditions of this function.
                        unsafe { options::rgetpeername(number, address, len) };
                    }
                    trace(format_args!("raccept = {number}"));
                    return Ok(number);
                }
                // The peer was not an rsocket.
                Ok(None) => {}
                Err(libc::EAGAIN) if !is_nonblocking => {
                    // SAFETY: the descriptor is open as long as the rsocket.
                    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
                    poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::NONE)
                        .map_err(|error| error as c_int)?;
                }
                Err(error) => return Err(error),
            }
        }
    })
}

/// Accepts the next request of a listening identifier; `None` if the request was refused.
fn accept(listener: Handle<Id>, options: Options) -> Result<Option<c_int>, c_int> {
    let id = endpoint::get_request(listener)?;
    make_nonblocking(id);
    let outcome = event::live(get!(id.event)).map(Outcome::of).ok_or(libc::EIO)?;
    match accept_request(id, &options, &outcome) {
        Ok((stream, state)) => Ok(Some(add(id, options.for_accepted(), state, Some(stream)))),
        Err(error) => {
            trace(format_args!("raccept: a request was refused, error {error}"));
            let _ = calls::reject(id, &[]);
            let _ = id::destroy(id.as_ptr());
            // The program gets the error only if this host lacks resources, not if the peer violates the protocol.
            if error == libc::EPROTO { Ok(None) } else { Err(error) }
        }
    }
}

/// Makes the data path of a request's identifier, and accepts the request.
fn accept_request(id: Handle<Id>, options: &Options, request: &Outcome) -> Result<(Stream, State), c_int> {
    let peer = ConnectData::parse(&request.data).ok_or(libc::EPROTO)?;
    let mut stream = create(id, options)?;
    stream.set_peer(peer);
    let data = stream.connect_data().emit();
    let mut param =
        rdma_conn_param { private_data: data.as_ptr().cast(), private_data_len: data.len() as u8, ..request.conn };
    // SAFETY: the parameters and the private data are local variables.
    match unsafe { calls::accept(id, Some(In::new(&raw mut param))) } {
        // The peer's RTU has already arrived.
        Ok(()) => Ok((stream, State::Connected)),
        Err(libc::EAGAIN) => Ok((stream, State::Accepting)),
        Err(error) => Err(error),
    }
}

/// Makes the data path of an identifier. The identifier must exist longer than the data path.
fn create(id: Handle<Id>, options: &Options) -> Result<Stream, c_int> {
    let device = lock(&id.state().inner).device.ok_or(libc::EINVAL)?;
    Stream::new(id, device, options.sizes)
}

/// # Safety
/// The address is null, or has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rconnect(socket: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let datagrams = |socket: &datagram::Datagrams| {
        // SAFETY: the caller promises the conditions of this function.
        unsafe { socket.connect(read(address, len)?, address, len) }.map(|()| 0)
    };
    let streams = |socket: &Socket| {
        // SAFETY: the caller promises the conditions of this function.
        let address = unsafe { read(address, len)? };
        let mut inner = socket.inner.lock();
        match inner.state {
            State::New => {
                if let Err(error) = inner.connect(address) {
                    (inner.state, inner.error) = (State::Refused, error);
                    inner.stream = None;
                    return Err(error);
                }
            }
            State::Connecting => {}
            State::Connected | State::Accepting => return Err(libc::EISCONN),
            State::Refused | State::Ended | State::Broken => return Err(libc::ENOTCONN),
            State::Listening => return Err(libc::EINVAL),
        }
        let is_nonblocking = inner.is_nonblocking(0);
        let (mut inner, waited) = socket.inner.wait(inner, is_nonblocking, |inner| inner.state != State::Connecting);
        match waited {
            Err(libc::EAGAIN) => return Err(libc::EINPROGRESS),
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        if inner.state == State::Refused {
            return Err(std::mem::take(&mut inner.error));
        }
        Ok(0)
    };
    either(socket, streams, datagrams)
}

impl Inner {
    /// Sends the request for a connection.
    fn connect(&mut self, address: std::net::SocketAddr) -> Result<(), c_int> {
        let (mut storage, _) = sockets::of(address);
        // SAFETY: the destination is an address of its family.
        unsafe { address::resolve(self.id, std::ptr::null_mut(), (&raw mut storage).cast()) }?;
        address::resolve_route(self.id)?;
        let stream = create(self.id, &self.options)?;
        let data = stream.connect_data().emit();
        self.stream = Some(stream);
        // SAFETY: all zeros are a valid value.
        let mut param: rdma_conn_param = unsafe { std::mem::zeroed() };
        (param.private_data, param.private_data_len) = (data.as_ptr().cast(), data.len() as u8);
        (param.flow_control, param.retry_count, param.rnr_retry_count) = (1, 7, 7);
        // SAFETY: the parameters and the private data are local variables.
        match unsafe { calls::connect(self.id, Some(In::new(&raw mut param))) } {
            Err(libc::EAGAIN) => self.state = State::Connecting,
            Err(error) => return Err(error),
            Ok(()) => {
                let outcome = self.latest_event().ok_or(libc::EIO)?;
                self.connected(&outcome.data);
            }
        }
        Ok(())
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rshutdown(socket: c_int, how: c_int) -> c_int {
    let known =
        || if matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR) { Ok(()) } else { Err(libc::EINVAL) };
    let streams = |socket: &Socket| known().and_then(|()| socket.shut_down(how)).map(|()| 0);
    either(socket, streams, |socket| {
        known()?;
        socket.shut_down(how);
        Ok(0)
    })
}

impl Socket {
    /// Ends one direction, or both; waits until the sent bytes have arrived.
    fn shut_down(&self, how: c_int) -> Result<(), c_int> {
        let (mut inner, _) = self.ready(self.inner.lock(), false);
        if !matches!(inner.state, State::Connected | State::Accepting) {
            return Err(libc::ENOTCONN);
        }
        inner.readable &= how == libc::SHUT_WR;
        inner.writable &= how == libc::SHUT_RD;
        let message = match (inner.readable, inner.writable) {
            // The library sends no message to the peer in this case.
            (_, true) => return Ok(()),
            (true, false) => Immediate::Shutdown,
            (false, false) => Immediate::Disconnect,
        };
        let is_open = |inner: &Inner| matches!(inner.state, State::Connected | State::Accepting);
        let can = |inner: &Inner| {
            let free = inner.state == State::Connected && inner.stream.as_ref().is_some_and(Stream::can_control);
            free || !is_open(inner)
        };
        let (mut inner, waited) = self.inner.wait(inner, false, can);
        waited?;
        if inner.state == State::Connected
            && let Some(stream) = &mut inner.stream
        {
            stream.control(message)?;
        }
        let sent = |inner: &Inner| !is_open(inner) || inner.stream.as_ref().is_none_or(Stream::is_all_sent);
        let (inner, waited) = self.inner.wait(inner, false, sent);
        waited?;
        if inner.state == State::Ended {
            // The peer may have disconnected already.
            let _ = calls::disconnect(inner.id);
        }
        Ok(())
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rclose(socket: c_int) -> c_int {
    let Some(found) = find(socket) else { return fail(libc::EBADF) };
    call(|| {
        trace(format_args!("rclose {socket}"));
        // As for a socket of the system, the peer receives all sent bytes.
        match &found {
            Rsocket::Stream(found) => {
                let is_connected = matches!(found.inner.lock().state, State::Connected | State::Accepting);
                if is_connected {
                    let _ = found.shut_down(libc::SHUT_RDWR);
                }
            }
            Rsocket::Datagrams(found) => found.finish(),
        }
        lock(&SOCKETS).remove(&socket);
        drop(found);
        Ok(())
    })
}
