//! Options and addresses of rsockets.

use super::datagram::Datagrams;
use super::stream::Sizes;
use super::{Socket, State, either};
use crate::id::{self, rdma_set_option};
use crate::sockets;
use crate::verbs::{errno, trace};
use libc::{c_int, c_void, sockaddr, socklen_t};
use rnic_cabi::cma::{RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, RDMA_OPTION_ID_REUSEADDR};
use rnic_cabi::entry::lock;
use rnic_cm::rsocket::{scale, unscale};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

const SOL_RDMA: c_int = 0x1_0000;
const RDMA_SQSIZE: c_int = 0;
const RDMA_RQSIZE: c_int = 1;
const RDMA_INLINE: c_int = 2;
const RDMA_IOMAPSIZE: c_int = 3;

/// Bytes of the longest buffer.
const LONGEST: u32 = 1 << 28;

/// The options of an rsocket.
#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) domain: c_int,
    /// Flags of `fcntl`.
    pub(super) flags: c_int,
    pub(super) sizes: Sizes,
    reuse_address: bool,
    /// These are kept for the program, and change nothing: data departs at once, there is no urgent data, `rclose`
    /// waits until what was sent has arrived, and peers are always asked now and then whether they still exist.
    keep_alive: bool,
    keep_idle: c_int,
    no_delay: bool,
    oob_inline: bool,
    linger: libc::linger,
    v6_only: bool,
}

impl Options {
    /// The options of a new rsocket, as rdma-core has them.
    pub(super) fn new(domain: c_int) -> Options {
        Options {
            domain,
            flags: 0,
            sizes: Sizes {
                send: 1 << 17,
                receive: 1 << 17,
                send_queue: 384,
                receive_queue: 384,
                inline: 64,
                mappings: 0,
            },
            reuse_address: false,
            keep_alive: false,
            keep_idle: 7_200,
            no_delay: false,
            oob_inline: false,
            linger: libc::linger { l_onoff: 1, l_linger: 0 },
            v6_only: false,
        }
    }

    /// Those of an rsocket that a listening one with these options accepts.
    pub(super) fn inherited(self) -> Options {
        Options { flags: 0, ..self }
    }
}

/// Reads an option of type `T`.
///
/// # Safety
/// The memory has `len` bytes.
unsafe fn read<T: Copy>(value: *const c_void, len: socklen_t) -> Result<T, c_int> {
    if value.is_null() || (len as usize) < size_of::<T>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's promise, and the check.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsetsockopt(
    socket: c_int, level: c_int, option: c_int, value: *const c_void, len: socklen_t,
) -> c_int {
    // SAFETY: by the contract of librdmacm.
    let datagrams = |socket: &Datagrams| unsafe { set_of_datagrams(socket, level, option, value, len) };
    let streams = |socket: &Socket| {
        let mut inner = socket.inner.lock();
        let id = inner.id;
        let is_new = inner.stream.is_none() && inner.state != State::Refused;
        let state = inner.state;
        let options = &mut inner.options;
        // SAFETY: by the contract of librdmacm.
        let int = || unsafe { read::<c_int>(value, len) };
        let size = || int().map(|size| (size.max(0) as u32).saturating_mul(2).min(LONGEST));
        let requests = || int().map(|requests| requests.clamp(0, 0xfffe) as u16);
        let of_id = |option: c_int| {
            let mut value = int()?;
            // SAFETY: the identifier exists, and the value has that size.
            let result = unsafe { rdma_set_option(id, RDMA_OPTION_ID, option, (&raw mut value).cast(), 4) };
            if result == 0 { Ok(value != 0) } else { Err(errno()) }
        };
        match (level, option) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => options.reuse_address = of_id(RDMA_OPTION_ID_REUSEADDR)?,
            // As for a socket of the system, sizes of a connection in use do not change.
            (libc::SOL_SOCKET, libc::SO_RCVBUF) if is_new => options.sizes.receive = size()?,
            (libc::SOL_SOCKET, libc::SO_SNDBUF) if is_new => options.sizes.send = size()?,
            (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF) => drop(int()?),
            // SAFETY: by the contract of librdmacm.
            (libc::SOL_SOCKET, libc::SO_LINGER) => options.linger = unsafe { read(value, len)? },
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keep_alive = int()? != 0,
            (libc::SOL_SOCKET, libc::SO_OOBINLINE) => options.oob_inline = int()? != 0,
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL | libc::TCP_MAXSEG) => drop(int()?),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => match int()? {
                seconds @ 1.. => options.keep_idle = seconds,
                _ => return Err(libc::EINVAL),
            },
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.no_delay = int()? != 0,
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => options.v6_only = of_id(RDMA_OPTION_ID_AFONLY)?,
            (SOL_RDMA, _) if !is_new || !matches!(state, State::New | State::Listening) => return Err(libc::EINVAL),
            (SOL_RDMA, RDMA_SQSIZE) => options.sizes.send_queue = requests()?,
            (SOL_RDMA, RDMA_RQSIZE) => options.sizes.receive_queue = requests()?,
            (SOL_RDMA, RDMA_INLINE) => options.sizes.inline = int()?.clamp(0, 0xfffe) as u32,
            (SOL_RDMA, RDMA_IOMAPSIZE) => options.sizes.mappings = unscale(scale(int()?.max(0) as u32)),
            _ => {
                trace(format_args!("rsetsockopt refused: no option {option} of level {level}"));
                return Err(libc::ENOTSUP);
            }
        }
        Ok(0)
    };
    either(socket, streams, datagrams)
}

/// Options of the UDP socket are those of the rsocket, apart from its sizes.
///
/// # Safety
/// The memory has `len` bytes.
unsafe fn set_of_datagrams(
    socket: &Datagrams, level: c_int, option: c_int, value: *const c_void, len: socklen_t,
) -> Result<c_int, c_int> {
    let mut inner = socket.inner();
    let is_new = inner.is_new();
    // SAFETY: the caller's promise.
    let int = || unsafe { read::<c_int>(value, len) };
    let sizes = &mut inner.options.sizes;
    match (level, option) {
        (libc::SOL_SOCKET, libc::SO_RCVBUF) if is_new => sizes.receive = (int()?.max(0) as u32).min(LONGEST),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) if is_new => sizes.send = (int()?.max(0) as u32).min(LONGEST),
        (SOL_RDMA, RDMA_SQSIZE) if is_new => sizes.send_queue = int()?.clamp(0, 0xfffe) as u16,
        (SOL_RDMA, RDMA_RQSIZE) if is_new => sizes.receive_queue = int()?.clamp(0, 0xfffe) as u16,
        (SOL_RDMA, _) => return Err(libc::EINVAL),
        _ => {
            // SAFETY: the caller's promise; the descriptor is open.
            if unsafe { libc::setsockopt(inner.fd(), level, option, value, len) } != 0 {
                return Err(errno());
            }
        }
    }
    Ok(0)
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rgetsockopt(
    socket: c_int, level: c_int, option: c_int, value: *mut c_void, len: *mut socklen_t,
) -> c_int {
    let datagrams = |socket: &Datagrams| {
        let inner = socket.inner();
        let sizes = inner.options.sizes;
        let number = match (level, option) {
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => sizes.receive as c_int,
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => sizes.send as c_int,
            (SOL_RDMA, RDMA_SQSIZE) => sizes.send_queue.into(),
            (SOL_RDMA, RDMA_RQSIZE) => sizes.receive_queue.into(),
            (SOL_RDMA, _) => return Err(libc::ENOTSUP),
            _ => {
                // SAFETY: by the contract of librdmacm; the descriptor is open.
                let result = unsafe { libc::getsockopt(inner.fd(), level, option, value, len) };
                return if result == 0 { Ok(0) } else { Err(errno()) };
            }
        };
        // SAFETY: by the contract of librdmacm, after the check.
        unsafe {
            if value.is_null() || len.is_null() || (*len as usize) < size_of::<c_int>() {
                return Err(libc::EINVAL);
            }
            value.cast::<c_int>().write_unaligned(number);
            *len = size_of::<c_int>() as socklen_t;
        }
        Ok(0)
    };
    let streams = |socket: &Socket| {
        if value.is_null() || len.is_null() {
            return Err(libc::EFAULT);
        }
        let mut inner = socket.inner.lock();
        socket.inner.progress(&mut inner);
        let options = inner.options;
        // SAFETY: by the contract of librdmacm; no more is written than there is room.
        let put = |bytes: &[u8]| unsafe {
            let room = (*len as usize).min(bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), room);
            *len = room as socklen_t;
        };
        let number = match (level, option) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => options.reuse_address.into(),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keep_alive.into(),
            (libc::SOL_SOCKET, libc::SO_OOBINLINE) => options.oob_inline.into(),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => options.sizes.receive as c_int,
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => options.sizes.send as c_int,
            (libc::SOL_SOCKET, libc::SO_ERROR) => std::mem::take(&mut inner.error),
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => options.domain,
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => (inner.state == State::Listening).into(),
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let (on, seconds) = (options.linger.l_onoff.to_ne_bytes(), options.linger.l_linger.to_ne_bytes());
                put(&[on, seconds].concat());
                return Ok(0);
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL) => 1,
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => options.keep_idle,
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.no_delay.into(),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                // SAFETY: the identifier exists.
                let device = lock(unsafe { &id::state(inner.id).inner }).device;
                device.map_or(2_048, |device| 128 << device.mtu)
            }
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => options.v6_only.into(),
            (SOL_RDMA, RDMA_SQSIZE) => options.sizes.send_queue.into(),
            (SOL_RDMA, RDMA_RQSIZE) => options.sizes.receive_queue.into(),
            (SOL_RDMA, RDMA_INLINE) => options.sizes.inline as c_int,
            (SOL_RDMA, RDMA_IOMAPSIZE) => options.sizes.mappings as c_int,
            _ => return Err(libc::ENOTSUP),
        };
        put(&number.to_ne_bytes());
        Ok(0)
    };
    either(socket, streams, datagrams)
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfcntl(socket: c_int, command: c_int, argument: c_int) -> c_int {
    let change = |options: &mut Options| match command {
        libc::F_GETFL => Ok(options.flags | libc::O_RDWR),
        libc::F_SETFL => {
            options.flags = argument;
            Ok(0)
        }
        // Programs set this for each descriptor; an rsocket is always closed by `exec`.
        libc::F_GETFD => Ok(libc::FD_CLOEXEC),
        libc::F_SETFD => Ok(0),
        _ => Err(libc::ENOTSUP),
    };
    either(socket, |socket| change(&mut socket.inner.lock().options), |socket| change(&mut socket.inner().options))
}

/// The result of a call of the system.
fn result(value: c_int) -> Result<c_int, c_int> {
    if value == 0 { Ok(0) } else { Err(errno()) }
}

/// Writes an address for the program; none is the unspecified one of the domain.
///
/// # Safety
/// By the contract of librdmacm.
pub(super) unsafe fn tell(
    address: Option<SocketAddr>, domain: c_int, out: *mut sockaddr, len: *mut socklen_t,
) -> Result<c_int, c_int> {
    if out.is_null() || len.is_null() {
        return Err(libc::EFAULT);
    }
    let any = if domain == libc::AF_INET { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let address = match address.unwrap_or(SocketAddr::new(any, 0)) {
        // A program with an IPv6 rsocket has room for its addresses.
        SocketAddr::V4(v4) if domain == libc::AF_INET6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        address => address,
    };
    let (storage, own) = sockets::of(address);
    // SAFETY: by the contract of librdmacm; no more is written than there is room.
    unsafe {
        let room = own.min(*len) as usize;
        std::ptr::copy_nonoverlapping((&raw const storage).cast::<u8>(), out.cast(), room);
        *len = own;
    }
    Ok(0)
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rgetpeername(socket: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let streams = |socket: &Socket| {
        let inner = socket.inner.lock();
        // SAFETY: the identifier exists.
        let remote = lock(unsafe { &id::state(inner.id).inner }).remote.ok_or(libc::ENOTCONN)?;
        // SAFETY: by the contract of librdmacm.
        unsafe { tell(Some(remote), inner.options.domain, address, len) }
    };
    // SAFETY: by the contract of librdmacm; the descriptor is open.
    either(socket, streams, |socket| result(unsafe { libc::getpeername(socket.inner().fd(), address, len) }))
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rgetsockname(socket: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let streams = |socket: &Socket| {
        let inner = socket.inner.lock();
        // SAFETY: the identifier exists.
        let local = lock(unsafe { &id::state(inner.id).inner }).local;
        // SAFETY: by the contract of librdmacm.
        unsafe { tell(local, inner.options.domain, address, len) }
    };
    // SAFETY: by the contract of librdmacm; the descriptor is open.
    either(socket, streams, |socket| result(unsafe { libc::getsockname(socket.inner().fd(), address, len) }))
}
