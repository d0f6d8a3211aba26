//! Options and addresses of rsockets.

use super::datagram::{self, Datagrams};
use super::stream::Sizes;
use super::{Inner, Socket, State, either};
use crate::calls::id::set_int_option;
use crate::sockets;
use crate::verbs::{errno, trace};
use libc::{
    IPPROTO_IPV6, IPPROTO_TCP, IPV6_V6ONLY, SO_ACCEPTCONN, SO_DOMAIN, SO_ERROR, SO_KEEPALIVE, SO_LINGER, SO_OOBINLINE,
    SO_RCVBUF, SO_REUSEADDR, SO_SNDBUF, SO_TYPE, SOL_SOCKET, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_MAXSEG,
    TCP_NODELAY, c_int, c_void, sockaddr, socklen_t,
};
use rnic_cabi::cma::{RDMA_OPTION_ID_AFONLY, RDMA_OPTION_ID_REUSEADDR};
use rnic_cabi::entry::lock;
use rnic_cm::rsocket::{scale, unscale};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

const SOL_RDMA: c_int = 0x1_0000;
const RDMA_SQSIZE: c_int = 0;
const RDMA_RQSIZE: c_int = 1;
const RDMA_INLINE: c_int = 2;
const RDMA_IOMAPSIZE: c_int = 3;

/// Maximum bytes of a buffer.
const MAX_BUFFER: u32 = 1 << 28;

/// The options of an rsocket.
#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) domain: c_int,
    /// Flags of `fcntl`.
    pub(super) flags: c_int,
    pub(super) sizes: Sizes,
    reuse_address: bool,
    /// The rsocket only stores this option and the following options, apart from `v6_only`, for the program; these
    /// options have no effect: data departs immediately, an rsocket has no urgent data, `rclose` waits until the sent
    /// bytes have arrived, and peers are always probed.
    keep_alive: bool,
    keep_idle: c_int,
    no_delay: bool,
    oob_inline: bool,
    linger: libc::linger,
    v6_only: bool,
}

impl Options {
    /// Returns the options of a new rsocket; the values are the same as in rdma-core.
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

    /// The options of an rsocket that a listening rsocket with these options accepts.
    pub(super) fn for_accepted(self) -> Options {
        Options { flags: 0, ..self }
    }
}

type Getter = fn(&mut Inner) -> c_int;
type Setter = fn(&mut Inner, c_int) -> Result<(), c_int>;

/// An option of rsockets of streams, of type `int`: it is read and changed in the state of the rsocket.
struct StreamOption {
    level: c_int,
    name: c_int,
    get: Getter,
    /// `None` for an option that cannot be changed.
    set: Option<Setter>,
}

const fn option(level: c_int, name: c_int, get: Getter, set: Setter) -> StreamOption {
    StreamOption { level, name, get, set: Some(set) }
}

const fn read_only(level: c_int, name: c_int, get: Getter) -> StreamOption {
    StreamOption { level, name, get, set: None }
}

/// Accepts any value without an effect.
fn ignore(_: &mut Inner, _: c_int) -> Result<(), c_int> {
    Ok(())
}

/// Sets an option of the rsocket's identifier.
fn set_of_id(inner: &Inner, option: c_int, value: c_int) -> Result<bool, c_int> {
    set_int_option(inner.id, option, value)?;
    Ok(value != 0)
}

/// A buffer size that a program sets: as for a socket of the system, the buffer gets twice the size.
fn buffer_size(value: c_int) -> u32 {
    (value.max(0) as u32).saturating_mul(2).min(MAX_BUFFER)
}

fn requests(value: c_int) -> u16 {
    value.clamp(0, 0xfffe) as u16
}

/// The options of type `int`. `SO_LINGER` has another type.
static STREAM_OPTIONS: [StreamOption; 19] = [
    option(
        SOL_SOCKET,
        SO_REUSEADDR,
        |inner| inner.options.reuse_address.into(),
        |inner, value| {
            inner.options.reuse_address = set_of_id(inner, RDMA_OPTION_ID_REUSEADDR, value)?;
            Ok(())
        },
    ),
    option(
        SOL_SOCKET,
        SO_RCVBUF,
        |inner| inner.options.sizes.receive as c_int,
        |inner, value| {
            // As for a socket of the system, the sizes of a connection do not change.
            if inner.is_new() {
                inner.options.sizes.receive = buffer_size(value);
            }
            Ok(())
        },
    ),
    option(
        SOL_SOCKET,
        SO_SNDBUF,
        |inner| inner.options.sizes.send as c_int,
        |inner, value| {
            if inner.is_new() {
                inner.options.sizes.send = buffer_size(value);
            }
            Ok(())
        },
    ),
    option(
        SOL_SOCKET,
        SO_KEEPALIVE,
        |inner| inner.options.keep_alive.into(),
        |inner, value| {
            inner.options.keep_alive = value != 0;
            Ok(())
        },
    ),
    option(
        SOL_SOCKET,
        SO_OOBINLINE,
        |inner| inner.options.oob_inline.into(),
        |inner, value| {
            inner.options.oob_inline = value != 0;
            Ok(())
        },
    ),
    read_only(SOL_SOCKET, SO_ERROR, |inner| std::mem::take(&mut inner.error)),
    read_only(SOL_SOCKET, SO_TYPE, |_| libc::SOCK_STREAM),
    read_only(SOL_SOCKET, SO_DOMAIN, |inner| inner.options.domain),
    read_only(SOL_SOCKET, SO_ACCEPTCONN, |inner| (inner.state == State::Listening).into()),
    option(IPPROTO_TCP, TCP_KEEPCNT, |_| 1, ignore),
    option(IPPROTO_TCP, TCP_KEEPINTVL, |_| 1, ignore),
    option(
        IPPROTO_TCP,
        TCP_KEEPIDLE,
        |inner| inner.options.keep_idle,
        |inner, value| {
            inner.options.keep_idle = if value > 0 { value } else { return Err(libc::EINVAL) };
            Ok(())
        },
    ),
    option(
        IPPROTO_TCP,
        TCP_NODELAY,
        |inner| inner.options.no_delay.into(),
        |inner, value| {
            inner.options.no_delay = value != 0;
            Ok(())
        },
    ),
    option(IPPROTO_TCP, TCP_MAXSEG, max_segment, ignore),
    option(
        IPPROTO_IPV6,
        IPV6_V6ONLY,
        |inner| inner.options.v6_only.into(),
        |inner, value| {
            inner.options.v6_only = set_of_id(inner, RDMA_OPTION_ID_AFONLY, value)?;
            Ok(())
        },
    ),
    option(
        SOL_RDMA,
        RDMA_SQSIZE,
        |inner| inner.options.sizes.send_queue.into(),
        |inner, value| {
            inner.options.sizes.send_queue = requests(value);
            Ok(())
        },
    ),
    option(
        SOL_RDMA,
        RDMA_RQSIZE,
        |inner| inner.options.sizes.receive_queue.into(),
        |inner, value| {
            inner.options.sizes.receive_queue = requests(value);
            Ok(())
        },
    ),
    option(
        SOL_RDMA,
        RDMA_INLINE,
        |inner| inner.options.sizes.inline as c_int,
        |inner, value| {
            inner.options.sizes.inline = value.clamp(0, 0xfffe) as u32;
            Ok(())
        },
    ),
    option(
        SOL_RDMA,
        RDMA_IOMAPSIZE,
        |inner| inner.options.sizes.mappings as c_int,
        |inner, value| {
            inner.options.sizes.mappings = unscale(scale(value.max(0) as u32));
            Ok(())
        },
    ),
];

/// The path MTU of the device.
fn max_segment(inner: &mut Inner) -> c_int {
    let device = lock(&inner.id.state().inner).device;
    device.map_or(2_048, |device| 128 << device.mtu)
}

impl Inner {
    /// Whether the sizes can still change.
    fn is_new(&self) -> bool {
        self.stream.is_none() && self.state != State::Refused
    }
}

/// An option of rsockets of datagrams that the UDP socket does not have, of type `int`.
struct DatagramOption {
    level: c_int,
    name: c_int,
    get: fn(&Sizes) -> c_int,
    set: fn(&mut Sizes, c_int),
}

static DATAGRAM_OPTIONS: [DatagramOption; 4] = [
    DatagramOption {
        level: SOL_SOCKET,
        name: SO_RCVBUF,
        get: |sizes| sizes.receive as c_int,
        set: |sizes, value| sizes.receive = (value.max(0) as u32).min(MAX_BUFFER),
    },
    DatagramOption {
        level: SOL_SOCKET,
        name: SO_SNDBUF,
        get: |sizes| sizes.send as c_int,
        set: |sizes, value| sizes.send = (value.max(0) as u32).min(MAX_BUFFER),
    },
    DatagramOption {
        level: SOL_RDMA,
        name: RDMA_SQSIZE,
        get: |sizes| sizes.send_queue.into(),
        set: |sizes, value| sizes.send_queue = requests(value),
    },
    DatagramOption {
        level: SOL_RDMA,
        name: RDMA_RQSIZE,
        get: |sizes| sizes.receive_queue.into(),
        set: |sizes, value| sizes.receive_queue = requests(value),
    },
];

/// The value of an option that a program passes.
#[derive(Clone, Copy)]
struct NewValue {
    pointer: *const c_void,
    len: socklen_t,
}

impl NewValue {
    /// # Safety
    /// The value is null, or has `len` bytes during the call that uses it.
    unsafe fn new(pointer: *const c_void, len: socklen_t) -> NewValue {
        NewValue { pointer, len }
    }

    /// Reads the value as a `T`, an integer or a structure of integers.
    ///
    /// # Errors
    /// `EINVAL` if it is shorter.
    fn read<T: Copy>(self) -> Result<T, c_int> {
        if self.pointer.is_null() || (self.len as usize) < size_of::<T>() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the value has at least this length, and any bytes are a value of the type.
        Ok(unsafe { self.pointer.cast::<T>().read_unaligned() })
    }
}

/// # Safety
/// The value is null, or has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsetsockopt(
    socket: c_int, level: c_int, option: c_int, value: *const c_void, len: socklen_t,
) -> c_int {
    // SAFETY: the caller promises the conditions of this function.
    let value = unsafe { NewValue::new(value, len) };
    let datagrams = |socket: &Datagrams| set_of_datagrams(&mut socket.inner(), level, option, value);
    let streams = |socket: &Socket| set_of_stream(&mut socket.inner.lock(), level, option, value);
    either(socket, streams, datagrams)
}

fn set_of_stream(inner: &mut Inner, level: c_int, option: c_int, value: NewValue) -> Result<c_int, c_int> {
    if level == SOL_RDMA && !(inner.is_new() && matches!(inner.state, State::New | State::Listening)) {
        return Err(libc::EINVAL);
    }
    if (level, option) == (SOL_SOCKET, SO_LINGER) {
        inner.options.linger = value.read()?;
        return Ok(0);
    }
    let known = STREAM_OPTIONS.iter().find(|known| (known.level, known.name) == (level, option));
    let Some(set) = known.and_then(|known| known.set) else {
        trace(format_args!("rsetsockopt refused: no option {option} of level {level}"));
        return Err(libc::ENOTSUP);
    };
    set(inner, value.read()?).map(|()| 0)
}

/// Sets an option of a datagram rsocket. Apart from the sizes, these are the options of its UDP socket.
fn set_of_datagrams(inner: &mut datagram::Inner, level: c_int, option: c_int, value: NewValue) -> Result<c_int, c_int> {
    let known = DATAGRAM_OPTIONS.iter().find(|known| (known.level, known.name) == (level, option));
    if let Some(known) = known.filter(|_| inner.is_new()) {
        (known.set)(&mut inner.options.sizes, value.read()?);
        return Ok(0);
    }
    if level == SOL_RDMA {
        return Err(libc::EINVAL);
    }
    // SAFETY: the descriptor is open, and the value has its length.
    result(unsafe { libc::setsockopt(inner.fd(), level, option, value.pointer, value.len) })
}

/// # Safety
/// The pointers to the value and to its length are null, or the memory of the value has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rgetsockopt(
    socket: c_int, level: c_int, option: c_int, value: *mut c_void, len: *mut socklen_t,
) -> c_int {
    let datagrams = |socket: &Datagrams| {
        let inner = socket.inner();
        let known = DATAGRAM_OPTIONS.iter().find(|known| (known.level, known.name) == (level, option));
        let Some(known) = known else {
            if level == SOL_RDMA {
                return Err(libc::ENOTSUP);
            }
            // SAFETY: the descriptor is open; the caller promises the other conditions.
            return result(unsafe { libc::getsockopt(inner.fd(), level, option, value, len) });
        };
        let number = (known.get)(&inner.options.sizes);
        // SAFETY: the caller promises the conditions of this function.
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
        let bytes = get_of_stream(&mut inner, level, option)?;
        // SAFETY: the caller promises the conditions of this function; no more bytes are written than the memory has.
        unsafe {
            let room = (*len as usize).min(bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), room);
            *len = room as socklen_t;
        }
        Ok(0)
    };
    either(socket, streams, datagrams)
}

/// The bytes of an option's value.
fn get_of_stream(inner: &mut Inner, level: c_int, option: c_int) -> Result<Vec<u8>, c_int> {
    if (level, option) == (SOL_SOCKET, SO_LINGER) {
        let libc::linger { l_onoff, l_linger } = inner.options.linger;
        return Ok([l_onoff.to_ne_bytes(), l_linger.to_ne_bytes()].concat());
    }
    let known = STREAM_OPTIONS.iter().find(|known| (known.level, known.name) == (level, option));
    let get = known.ok_or(libc::ENOTSUP)?.get;
    Ok(get(inner).to_ne_bytes().to_vec())
}

#[unsafe(no_mangle)]
pub extern "C" fn rfcntl(socket: c_int, command: c_int, argument: c_int) -> c_int {
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

/// Writes an address for the program; `None` stands for the unspecified address of the domain.
///
/// # Safety
/// `out` and `len` are null, or the memory at `out` has the length `*len`.
pub(super) unsafe fn write_address(
    address: Option<SocketAddr>, domain: c_int, out: *mut sockaddr, len: *mut socklen_t,
) -> Result<c_int, c_int> {
    if out.is_null() || len.is_null() {
        return Err(libc::EFAULT);
    }
    let any = if domain == libc::AF_INET { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let address = match address.unwrap_or(SocketAddr::new(any, 0)) {
        // An IPv6 rsocket reports IPv4 addresses in the IPv6 format, because its program provides memory for IPv6
        // addresses.
        SocketAddr::V4(v4) if domain == libc::AF_INET6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        address => address,
    };
    let (storage, own) = sockets::of(address);
    // SAFETY: the caller promises the conditions of this function; no more bytes are written than the memory has.
    unsafe {
        let room = own.min(*len) as usize;
        std::ptr::copy_nonoverlapping((&raw const storage).cast::<u8>(), out.cast(), room);
        *len = own;
    }
    Ok(0)
}

/// # Safety
/// The pointers to the address and to its length are null, or the memory of the address has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rgetpeername(socket: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let streams = |socket: &Socket| {
        let inner = socket.inner.lock();
        let remote = lock(&inner.id.state().inner).remote.ok_or(libc::ENOTCONN)?;
        // SAFETY: the caller promises the conditions of this function.
        unsafe { write_address(Some(remote), inner.options.domain, address, len) }
    };
    // SAFETY: the descriptor is open; the caller promises the other conditions.
    either(socket, streams, |socket| result(unsafe { libc::getpeername(socket.inner().fd(), address, len) }))
}

/// # Safety
/// The pointers to the address and to its length are null, or the memory of the address has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rgetsockname(socket: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let streams = |socket: &Socket| {
        let inner = socket.inner.lock();
        let local = lock(&inner.id.state().inner).local;
        // SAFETY: the caller promises the conditions of this function.
        unsafe { write_address(local, inner.options.domain, address, len) }
    };
    // SAFETY: the descriptor is open; the caller promises the other conditions.
    either(socket, streams, |socket| result(unsafe { libc::getsockname(socket.inner().fd(), address, len) }))
}
