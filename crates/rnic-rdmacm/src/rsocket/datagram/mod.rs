//! Datagram rsockets ([`rnic_cm::datagram`] has the protocol).
//!
//! The number of a datagram rsocket is the descriptor of its UDP socket, over which it sends the first datagrams to a
//! peer. The rsocket has no thread: the calls of the program read the UDP socket and the completion queues.

mod queue;

use super::data::Buffer;
use super::options::Options;
use super::watched::{self, Source, Watched};
use super::{Rsocket, SOCKETS};
use crate::objects::devices;
use crate::sockets;
use crate::verbs::{errno, trace};
use libc::{MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, POLLIN, POLLOUT, SOCK_DGRAM, c_int, c_short, sockaddr, socklen_t};
use nix::poll::{PollTimeout, poll};
use queue::{Path, Queue};
use rnic_cabi::entry::lock;
use rnic_cm::datagram::{self, Service};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;

/// Maximum number of peers of an rsocket. Any host can become a peer by a message over UDP. If the maximum is reached,
/// a new peer replaces another peer, and the next datagrams to the removed peer go over UDP again.
const MAX_PEERS: usize = 4_096;
/// Maximum number of datagrams over UDP that wait for the program.
const MAX_OVER_UDP: usize = 64;
/// Maximum milliseconds for which `rclose` waits until all datagrams have departed.
const FINISH: u32 = 1_000;
/// Maximum number of messages over UDP that one call handles.
const BATCH: usize = 16;

/// Where the bytes of a received datagram are until the program reads them.
enum Place {
    /// In a slot of a queue's receives, behind a header.
    Slot { queue: usize, slot: u32, head: u32 },
    /// In a copy: the datagram came over UDP.
    Bytes(Vec<u8>),
}

struct Arrived {
    source: SocketAddr,
    place: Place,
    /// Bytes of the datagram, without the header.
    len: u32,
}

struct Peer {
    queue: usize,
    /// The path to the peer; `None` until the peer has sent its queue pair number.
    path: Option<Path>,
}

/// Makes room for another peer: if the rsocket has [`MAX_PEERS`] peers, removes a peer to which it is not connected.
fn make_room<T>(peers: &mut BTreeMap<SocketAddr, T>, connected: Option<SocketAddr>) {
    if peers.len() >= MAX_PEERS {
        let other = peers.keys().find(|other| Some(**other) != connected).copied();
        other.and_then(|other| peers.remove(&other));
    }
}

/// An rsocket of datagrams.
pub(super) struct Datagrams {
    inner: Watched<Inner>,
}

pub(super) struct Inner {
    udp: UdpSocket,
    pub(super) options: Options,
    queues: Vec<Queue>,
    peers: BTreeMap<SocketAddr, Peer>,
    connected: Option<SocketAddr>,
    inbox: VecDeque<Arrived>,
    over_udp: usize,
    /// Whether the program may still read and write.
    readable: bool,
    writable: bool,
}

type Guard<'a> = watched::Guard<'a, Inner>;

/// Converts an IPv6 address that stands for an IPv4 address (IPv4-mapped) to this IPv4 address.
fn plain(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(ip) => SocketAddr::new(ip.into(), v6.port()),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

/// Makes an rsocket; returns its number.
///
/// # Errors
/// The errors of `socket`.
pub(super) fn open(domain: c_int) -> Result<c_int, c_int> {
    // SAFETY: the descriptor is new, and nothing else owns it.
    let udp = unsafe {
        let fd = libc::socket(domain, SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0);
        if fd < 0 {
            return Err(errno());
        }
        UdpSocket::from_raw_fd(fd)
    };
    let number = udp.as_raw_fd();
    let inner = Inner {
        udp,
        options: Options::new(domain),
        queues: Vec::new(),
        peers: BTreeMap::new(),
        connected: None,
        inbox: VecDeque::new(),
        over_udp: 0,
        readable: true,
        writable: true,
    };
    let socket = Arc::new(Datagrams { inner: Watched::new(inner) });
    lock(&SOCKETS).insert(number, Rsocket::Datagrams(socket));
    trace(format_args!("rsocket = {number}, datagrams"));
    Ok(number)
}

impl Inner {
    pub(super) fn fd(&self) -> c_int {
        self.udp.as_raw_fd()
    }

    /// Whether the sizes can still change.
    pub(super) fn is_new(&self) -> bool {
        self.queues.is_empty()
    }

    /// Returns the queue for datagrams to a peer. If the queue does not exist, the function makes it.
    fn queue_for(&mut self, peer: SocketAddr) -> Result<usize, c_int> {
        let local = self.udp.local_addr().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |local| plain(local).ip());
        let local = if local.is_unspecified() { sockets::source_for(peer).ok_or(libc::ENETUNREACH)? } else { local };
        if let Some(at) = self.queues.iter().position(|queue| queue.ip == local) {
            return Ok(at);
        }
        let device = devices::of(local).inspect_err(|_| {
            trace(format_args!("datagrams to {peer}: no device has the address {local} of this host"));
        })?;
        self.queues.push(Queue::new(device, &self.options.sizes)?);
        Ok(self.queues.len() - 1)
    }

    /// Returns the entry of a peer. If the entry does not exist, the function makes it.
    fn peer(&mut self, address: SocketAddr) -> Result<&mut Peer, c_int> {
        if !self.peers.contains_key(&address) {
            let queue = self.queue_for(address)?;
            make_room(&mut self.peers, self.connected);
            self.peers.insert(address, Peer { queue, path: None });
        }
        self.peers.get_mut(&address).ok_or(libc::EINVAL)
    }

    /// Sends a message over UDP.
    fn send_over_udp(&self, queue: usize, to: SocketAddr, data: Option<&[u8]>) -> Result<(), c_int> {
        let Queue { ip, .. } = &self.queues[queue];
        let mut bytes = Service { is_data: data.is_some(), qpn: self.queues[queue].qpn(), ip: *ip }.emit();
        bytes.extend(data.unwrap_or_default());
        let to = match to {
            SocketAddr::V4(v4) if self.options.domain == libc::AF_INET6 => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            other => other,
        };
        let sent = self.udp.send_to(&bytes, to);
        sent.map(|_| ()).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// Handles a message that came over UDP.
    fn handle(&mut self, message: &[u8], source: SocketAddr) -> Result<(), c_int> {
        let Some((service, data)) = Service::parse(message) else { return Ok(()) };
        let queue = self.peer(source)?.queue;
        if service.is_data {
            // If this response is lost, the peer sends its next datagram over UDP too, and gets another response.
            let _ = self.send_over_udp(queue, source, None);
        }
        let known = self.peer(source)?.path.as_ref().map(|path| path.qpn);
        if known != Some(service.qpn) {
            let path = self.queues[queue].path(source.ip(), service.qpn)?;
            trace(format_args!("datagrams to {source} go to QP {:#x}", service.qpn));
            self.peer(source)?.path = Some(path);
        }
        if service.is_data && self.over_udp < MAX_OVER_UDP {
            self.over_udp += 1;
            let place = Place::Bytes(data.to_vec());
            self.inbox.push_back(Arrived { source, place, len: data.len() as u32 });
        }
        Ok(())
    }

    fn can_send(&self) -> bool {
        !self.writable || self.queues.iter().all(Queue::can_send)
    }

    fn can_receive(&self) -> bool {
        !self.readable || !self.inbox.is_empty()
    }

    fn is_nonblocking(&self, flags: c_int) -> bool {
        self.options.flags & libc::O_NONBLOCK != 0 || flags & MSG_DONTWAIT != 0
    }
}

impl Source for Inner {
    fn progress(&mut self) -> bool {
        for at in 0..self.queues.len() {
            let mut slots = Vec::new();
            self.queues[at].poll(|slot, len| slots.push((slot, len)));
            for (slot, len) in slots {
                match self.queues[at].source(slot, len) {
                    Some((source, head)) => {
                        let place = Place::Slot { queue: at, slot, head: head as u32 };
                        self.inbox.push_back(Arrived { source: plain(source), place, len: len - head as u32 });
                    }
                    // The sender does not follow the protocol: drop the datagram, and post its slot again. If the slot
                    // cannot be posted, the queue has one slot less.
                    None => drop(self.queues[at].post_receive(slot)),
                }
            }
        }
        let mut buffer = [0; datagram::LONGEST + datagram::HEADER];
        let mut has_received = false;
        for _ in 0..BATCH {
            match self.udp.recv_from(&mut buffer) {
                Ok((len, source)) => {
                    // A message that causes an error is handled like a lost message.
                    let _ = self.handle(&buffer[..len], plain(source));
                }
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(_) => break,
            }
            has_received = true;
        }
        has_received
    }

    fn arm(&mut self) -> (Vec<c_int>, bool) {
        let is_new = self.queues.iter_mut().fold(false, |any, queue| queue.arm() | any);
        let fds = self.queues.iter().map(Queue::fd);
        (std::iter::once(self.fd()).chain(fds).collect(), is_new)
    }

    fn take_events(&mut self) -> bool {
        self.queues.iter_mut().fold(false, |any, queue| queue.take_events() | any)
    }
}

impl Datagrams {
    pub(super) fn inner(&self) -> Guard<'_> {
        self.inner.lock()
    }

    /// # Safety
    /// The address has `len` bytes.
    pub(super) unsafe fn bind(&self, address: *const sockaddr, len: socklen_t) -> Result<(), c_int> {
        let inner = self.inner();
        // SAFETY: the caller promises the conditions of this function.
        if unsafe { libc::bind(inner.fd(), address, len) } == 0 { Ok(()) } else { Err(errno()) }
    }

    /// # Safety
    /// The address has `len` bytes.
    pub(super) unsafe fn connect(&self, to: SocketAddr, address: *const sockaddr, len: socklen_t) -> Result<(), c_int> {
        let mut inner = self.inner();
        // SAFETY: the caller promises the conditions of this function.
        if unsafe { libc::connect(inner.fd(), address, len) } != 0 {
            return Err(errno());
        }
        inner.peer(plain(to))?;
        inner.connected = Some(plain(to));
        Ok(())
    }

    /// Sends a datagram; returns its length.
    ///
    /// # Safety
    /// The buffers are memory of the program.
    pub(super) unsafe fn send(
        &self, buffers: &[Buffer<*const u8>], flags: c_int, to: Option<SocketAddr>,
    ) -> Result<isize, c_int> {
        let inner = self.inner();
        let to = to.map(plain).or(inner.connected).ok_or(libc::EDESTADDRREQ)?;
        let len: usize = buffers.iter().map(|(_, len)| len).sum();
        if len > datagram::LONGEST - if to.is_ipv4() { 16 } else { datagram::HEADER } {
            return Err(libc::EMSGSIZE);
        }
        let is_nonblocking = inner.is_nonblocking(flags);
        let (mut inner, waited) = self.inner.wait(inner, is_nonblocking, Inner::can_send);
        waited?;
        if !inner.writable {
            return Err(libc::EPIPE);
        }
        let queue = inner.peer(to)?.queue;
        let inner = &mut *inner;
        let path = inner.peers.get(&to).and_then(|peer| peer.path.as_ref());
        let port = inner.udp.local_addr().map_or(0, |local| local.port());
        let head = datagram::emit_source(SocketAddr::new(inner.queues[queue].ip, port));
        match path {
            Some(path) if inner.queues[queue].fits(head.len() + len) => {
                // SAFETY: the caller promises the conditions of this function.
                unsafe { inner.queues[queue].send(path, &head, buffers)? };
            }
            _ => {
                let mut data: Vec<u8> = Vec::with_capacity(len);
                for (from, len) in buffers {
                    // SAFETY: the caller promises the conditions of this function; the buffer has room.
                    unsafe {
                        std::ptr::copy_nonoverlapping(*from, data.as_mut_ptr().add(data.len()), *len);
                        data.set_len(data.len() + len);
                    }
                }
                inner.send_over_udp(queue, to, Some(&data))?;
            }
        }
        Ok(len as isize)
    }

    /// Receives a datagram. Returns the bytes that the buffers have got, the sender, and whether bytes had no room;
    /// `None` after the program has shut reading down.
    ///
    /// # Safety
    /// The buffers are memory of the program.
    pub(super) unsafe fn receive(
        &self, buffers: &[Buffer<*mut u8>], flags: c_int,
    ) -> Result<Option<(isize, SocketAddr, bool)>, c_int> {
        let inner = self.inner();
        let is_nonblocking = inner.is_nonblocking(flags);
        let (mut inner, waited) = self.inner.wait(inner, is_nonblocking, Inner::can_receive);
        waited?;
        let Some(arrived) = inner.inbox.pop_front() else { return Ok(None) };
        let mut at = 0;
        for (to, room) in buffers {
            let len = u32::try_from(*room).unwrap_or(u32::MAX).min(arrived.len - at);
            match &arrived.place {
                // SAFETY: the caller promises the conditions of this function.
                Place::Slot { queue, slot, head } => unsafe {
                    inner.queues[*queue].copy(*slot, head + at, *to, len);
                },
                // SAFETY: the caller promises the conditions of this function; `at` and `len` are within the bytes.
                Place::Bytes(bytes) => unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr().add(at as usize), *to, len as usize);
                },
            }
            at += len;
        }
        let is_truncated = at < arrived.len;
        let reported = if flags & MSG_TRUNC != 0 { arrived.len } else { at };
        let source = arrived.source;
        if flags & MSG_PEEK != 0 {
            inner.inbox.push_front(arrived);
        } else {
            match arrived.place {
                Place::Slot { queue, slot, .. } => inner.queues[queue].post_receive(slot)?,
                Place::Bytes(_) => inner.over_udp -= 1,
            }
        }
        Ok(Some((reported as isize, source, is_truncated)))
    }

    pub(super) fn shut_down(&self, how: c_int) {
        let mut inner = self.inner();
        inner.readable &= how == libc::SHUT_WR;
        inner.writable &= how == libc::SHUT_RD;
        // Wake the threads that wait for this rsocket.
        self.inner.wake(&inner);
        // SAFETY: the descriptor is open. The call only has to wake the threads that wait for it; its result does not
        // matter.
        unsafe { libc::shutdown(inner.fd(), how) };
    }

    /// Waits until the queue pairs have sent all posted datagrams, at most about [`FINISH`] ms.
    pub(super) fn finish(&self) {
        let mut inner = self.inner();
        // A kernel socket still sends its buffered datagrams after close; destroying a queue pair discards them.
        for _ in 0..FINISH {
            self.inner.progress(&mut inner);
            if inner.queues.iter().all(Queue::is_all_sent) {
                return;
            }
            drop(inner);
            let _ = poll(&mut [], PollTimeout::from(1_u8));
            inner = self.inner();
        }
    }

    /// Returns the events of `wanted` that have happened.
    pub(super) fn events(&self, wanted: c_short) -> c_short {
        let mut inner = self.inner();
        self.inner.progress(&mut inner);
        let (read, write) = (inner.can_receive(), inner.can_send());
        wanted & (if read { POLLIN } else { 0 } | if write { POLLOUT } else { 0 })
    }

    /// See [`Watched::sleep`].
    pub(super) fn sleep(&self) -> Result<Vec<c_int>, c_int> {
        self.inner.sleep(&mut self.inner())
    }

    /// See [`Watched::wake_up`].
    pub(super) fn wake_up(&self) {
        self.inner.wake_up(&mut self.inner());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_bounded_and_the_connected_one_stays() {
        let at = |number: u32| SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 7));
        let mut peers = BTreeMap::new();
        for number in 0..10_000 {
            make_room(&mut peers, Some(at(0)));
            peers.insert(at(number), ());
        }
        assert_eq!(peers.len(), MAX_PEERS);
        assert!(peers.contains_key(&at(0)) && peers.contains_key(&at(9_999)) && !peers.contains_key(&at(1)));
    }
}
