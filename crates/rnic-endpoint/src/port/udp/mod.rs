//! The port that sends and receives the endpoint's datagrams by Linux UDP sockets.
//!
//! One socket receives, and a small pool of other sockets sends. The pool has one socket for each UDP source port: ECMP
//! spreads flows by their source ports, and a socket has only one. The sending sockets drop all datagrams that arrive
//! at them. A port without a pool sends by the socket that receives.
//!
//! A port has a descriptor for each of its sockets, and one for the wake-up flag. A port with a pool has one more
//! socket, by which it asks the kernel for the MTU of a path.
//!
//! One `sendmsg` with `UDP_SEGMENT` sends a batch, and `UDP_GRO` merges received datagrams, so that a batch passes the
//! network stack once instead of once per datagram.

mod arrival;
mod options;
mod receive;
mod send;
mod shards;
#[cfg(test)]
mod tests;

use super::wake::WakeFlag;
use super::{
    Arrival, ArrivalTimes, Batch, BindError, Counters, Interest, Limits, Port, Received, SOURCE_PORTS, SendError,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{getsockopt, sockopt};
use nix::sys::time::TimeSpec;
use receive::ReceiveBuffer;
use rnic_transport::Time;
use rnic_verbs::Shard;
use shards::Member;
use smallvec::SmallVec;
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// Maximum number of datagrams in one `UDP_SEGMENT` call. Every kernel with this option accepts 64.
const MAX_SEGMENTS: usize = 64;
/// Maximum UDP payload bytes of one send call: the 65,535 bytes of an IPv4 packet without the headers of IPv4 and UDP.
const MAX_BYTES: usize = 65_535 - 20 - 8;
/// Maximum number of UDP source ports of one [`UdpPort`]. Each of them needs a socket.
const MAX_SOURCE_PORTS: usize = 256;
/// Time until the next attempt to send after the system had no memory for packets. The system does not notify the
/// process when it has memory again.
const STARVED_RETRY: Time = Time::from_ms(1);

/// Options of a [`UdpPort`].
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// Number of UDP source ports between 49152 and 65535 from which the port sends, at most 256. With 0 the port sends
    /// from the UDP port on which it receives.
    pub source_ports: usize,
    /// Size in bytes of the receive buffer to request from the system.
    pub receive_buffer: usize,
    /// Size in bytes of the send buffer to request from the system for each source port.
    pub send_buffer: usize,
    /// Whether the port sends a batch by one `UDP_SEGMENT` call. Otherwise it sends datagrams one by one.
    pub segmentation: bool,
    /// Whether the kernel merges received datagrams to batches by `UDP_GRO`. Otherwise the port receives them one by
    /// one.
    pub coalescing: bool,
    /// Whether the port asks the kernel for the time at which it received each datagram (`SO_TIMESTAMPNS`), so that the
    /// time until the program runs again does not count as the network's. The kernel then takes time stamps of all
    /// packets that the host receives, which costs some tens of nanoseconds a packet. It may begin some milliseconds
    /// after the first socket of the host has asked; datagrams from before arrive when they are read.
    /// [`Port::arrival_times`] says whether the kernel agreed.
    pub arrival_times: bool,
}

impl Default for UdpConfig {
    fn default() -> UdpConfig {
        let (receive_buffer, send_buffer) = (8 << 20, 2 << 20);
        let arrival_times = false;
        UdpConfig { source_ports: 16, receive_buffer, send_buffer, segmentation: true, coalescing: true, arrival_times }
    }
}

/// Sizes of a port's buffers as the system granted them. Linux doubles the requested size, because it counts its own
/// bookkeeping as buffer bytes. Without privileges a process gets at most twice `net.core.rmem_max` or
/// `net.core.wmem_max`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffers {
    /// Size in bytes of the receive buffer, for datagrams that have arrived and have not been read yet.
    pub receive: usize,
    /// Size in bytes of the send buffer of each source port, for datagrams that were sent and have not left the host
    /// yet.
    pub send: usize,
}

/// A port on UDP sockets of one address family, IPv4 or IPv6.
///
/// ```
/// use rnic_endpoint::port::UdpConfig;
/// use rnic_endpoint::{Port, UdpPort};
///
/// let port = UdpPort::bind("127.0.0.1:0".parse().unwrap(), &UdpConfig::default()).unwrap();
/// assert_eq!(port.source_ports().count(), 16);
/// assert_ne!(port.local_addr().port(), 0);
/// ```
#[derive(Debug)]
pub struct UdpPort {
    local: SocketAddr,
    receiver: Arc<Socket>,
    /// The sending sockets, sorted by source port.
    senders: Vec<Sender>,
    /// A socket that is connected to destinations to ask the kernel for the MTU of their paths, in the network
    /// namespace of the port. A port that sends by its receiving socket has no such socket: it opens one for each
    /// question, in the namespace of the caller.
    probe: Option<Socket>,
    segmentation: bool,
    starved: bool,
    buffer: ReceiveBuffer,
    arrival_times: ArrivalTimes,
    wake: Arc<WakeFlag>,
    counters: Counters,
    /// The port's membership in a group of ports that share an address; `None` if the port does not share its address.
    member: Option<Member>,
}

/// A socket that sends from one UDP source port.
#[derive(Debug)]
struct Sender {
    source_port: u16,
    socket: Arc<Socket>,
    blocked: bool,
}

impl UdpPort {
    /// Opens a port that receives on `address`. UDP port 0 stands for any free port. With the unspecified address
    /// (`0.0.0.0` or `::`) the port receives on all addresses of that family.
    ///
    /// # Errors
    ///
    /// The address is in use or is not an address of this host, not enough source ports are free, or a system call
    /// fails.
    pub fn bind(address: SocketAddr, config: &UdpConfig) -> Result<UdpPort, BindError> {
        UdpPort::bind_after(address, config, &|_| Ok(()))
    }

    /// Opens `count` ports that receive on the same address and UDP port: datagrams for queue pair number `n` arrive at
    /// the port with index `n % count`. The kernel selects the port, so that a thread for each port scales with the
    /// number of cores. [`Device::open_shards`](crate::Device::open_shards) opens a device on each port.
    ///
    /// Another program of the same user could add its own socket to the group and receive part of the datagrams. This
    /// function never joins the group of another program: it fails if the address is in use.
    ///
    /// # Errors
    ///
    /// As [`UdpPort::bind`]; `count` is not 1 to [`Shard::MAX`].
    pub fn bind_shards(address: SocketAddr, count: u32, config: &UdpConfig) -> Result<Vec<UdpPort>, BindError> {
        shards::bind(address, count, &|address, prepare| UdpPort::bind_after(address, config, prepare))
    }

    /// Which queue pair numbers a device on this port must draw.
    pub fn shard(&self) -> Shard {
        self.member.as_ref().map(Member::shard).unwrap_or_default()
    }

    /// Opens a port; calls `prepare` for the receiving socket before it binds this socket.
    fn bind_after(
        address: SocketAddr, config: &UdpConfig, prepare: &dyn Fn(&Socket) -> io::Result<()>,
    ) -> Result<UdpPort, BindError> {
        if config.source_ports > MAX_SOURCE_PORTS {
            return Err(BindError::TooManySourcePorts { asked: config.source_ports, max: MAX_SOURCE_PORTS });
        }
        let system = |step| move |error| BindError::System { step, address, error };
        let receiver = options::unbound(&address).map_err(system("open a UDP socket"))?;
        options::prepare_receiver(&receiver, &address, config.coalescing).map_err(system("set options"))?;
        let arrival_times = match config.arrival_times {
            true => options::request_arrival_times(&receiver),
            false => ArrivalTimes::NotRequested,
        };
        options::size_buffer(&receiver, sockopt::RcvBufForce, sockopt::RcvBuf, config.receive_buffer)
            .map_err(system("size the receive buffer"))?;
        prepare(&receiver).map_err(system("set options"))?;
        receiver.bind(&address.into()).map_err(|error| bind_error(address, error))?;
        let local = receiver.local_addr().map_err(system("read the address"))?;
        let local = local.as_socket().unwrap_or(address);
        let receiver = Arc::new(receiver);

        let mut senders = senders(local, &receiver, config.source_ports)?;
        for sender in &mut senders {
            options::size_buffer(&sender.socket, sockopt::SndBufForce, sockopt::SndBuf, config.send_buffer)
                .map_err(system("size the send buffer"))?;
        }
        let probe = (config.source_ports > 0).then(|| send_only(local, 0)).transpose();
        let probe = probe.map_err(|error| bind_error(local, error))?;
        Ok(UdpPort {
            local,
            senders,
            probe,
            segmentation: config.segmentation && getsockopt(&receiver, sockopt::UdpGsoSegment).is_ok(),
            starved: false,
            buffer: ReceiveBuffer::new(local, arrival_times == ArrivalTimes::Kernel),
            arrival_times,
            wake: WakeFlag::new().map_err(system("make an eventfd"))?,
            counters: Counters::default(),
            member: None,
            receiver,
        })
    }

    /// Returns the sizes of the port's buffers as the system granted them.
    ///
    /// # Errors
    ///
    /// An error of the system; none is expected.
    pub fn buffers(&self) -> io::Result<Buffers> {
        let receive = self.receiver.recv_buffer_size()?;
        let send = self.senders.first().map_or(Ok(0), |sender| sender.socket.send_buffer_size())?;
        Ok(Buffers { receive, send })
    }

    /// The UDP source ports from which this port sends, in ascending order.
    pub fn source_ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.senders.iter().map(|sender| sender.source_port)
    }
}

/// Opens the sockets that send: `count` sockets, each on its own source port. If `count` is 0, the socket that receives
/// also sends.
fn senders(local: SocketAddr, receiver: &Arc<Socket>, count: usize) -> Result<Vec<Sender>, BindError> {
    if count == 0 {
        return Ok(vec![Sender { source_port: local.port(), socket: Arc::clone(receiver), blocked: false }]);
    }
    let mut senders = Vec::with_capacity(count);
    for source_port in candidates().filter(|&port| port != local.port()) {
        match send_only(local, source_port) {
            Ok(socket) => senders.push(Sender { source_port, socket: Arc::new(socket), blocked: false }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(bind_error(local, error)),
        }
        if senders.len() == count {
            senders.sort_by_key(|sender| sender.source_port);
            return Ok(senders);
        }
    }
    Err(BindError::NoSourcePorts { asked: count, found: senders.len() })
}

/// Opens a socket on UDP port `port` of the IP address of `local`. The socket only sends: it drops all datagrams that
/// arrive.
fn send_only(local: SocketAddr, port: u16) -> io::Result<Socket> {
    let socket = options::unbound(&local)?;
    options::never_receive(&socket)?;
    socket.bind(&SocketAddr::new(local.ip(), port).into())?;
    Ok(socket)
}

/// Returns all RoCEv2 source ports in a scattered order: ports that follow each other differ in many bits, so that ECMP
/// hashes spread them.
fn candidates() -> impl Iterator<Item = u16> {
    const STRIDE: u32 = 10_127; // near 2^14 over the golden ratio; odd, so that the sequence visits every port
    let count = SOURCE_PORTS.len() as u32;
    (0..count).map(move |turn| SOURCE_PORTS.start() + (turn * STRIDE % count) as u16)
}

fn bind_error(address: SocketAddr, error: io::Error) -> BindError {
    match error.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { address },
        io::ErrorKind::AddrNotAvailable => BindError::NotLocal { address },
        _ => BindError::System { step: "bind a UDP socket", address, error },
    }
}

impl Port for UdpPort {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn source_port(&self, hash: u32) -> u16 {
        self.senders[hash as usize % self.senders.len()].source_port
    }

    fn limits(&self) -> Limits {
        Limits { segments: if self.segmentation { MAX_SEGMENTS } else { 1 }, bytes: MAX_BYTES }
    }

    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize> {
        let own;
        let probe = match &self.probe {
            Some(probe) => probe,
            None => {
                own = send_only(self.local, 0)?;
                &own
            }
        };
        probe.connect(&destination.into())?;
        let (mtu, headers) = match destination {
            SocketAddr::V4(_) => (getsockopt(probe, sockopt::IpMtu)?, 20 + 8),
            SocketAddr::V6(_) => (getsockopt(probe, options::Ipv6Mtu)?, 40 + 8),
        };
        Ok((mtu as usize).saturating_sub(headers).min(MAX_BYTES))
    }

    fn arrival_times(&self) -> ArrivalTimes {
        self.arrival_times
    }

    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError> {
        let sent = send::send(self, batch);
        self.counters.refused += u64::from(sent.is_err());
        sent
    }

    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        if let Some(member) = &mut self.member {
            return member.receive(&mut self.buffer, &self.receiver, &mut self.counters);
        }
        let message = self.buffer.receive(&self.receiver, &mut self.counters)?;
        Ok(message.map(|message| self.buffer.arrival(&message)))
    }

    fn receive_into(&mut self, data: &mut Vec<u8>) -> io::Result<Option<Received>> {
        if self.member.is_some() {
            // The datagrams may come from the buffers of other ports.
            let Some(Arrival { meta, segment, data: bytes }) = self.receive()? else { return Ok(None) };
            data.clear();
            data.extend_from_slice(bytes);
            return Ok(Some(Received { meta, segment, length: bytes.len() }));
        }
        let message = self.buffer.receive(&self.receiver, &mut self.counters)?;
        Ok(message.map(|message| self.buffer.exchange(&message, data)))
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()> {
        self.wait_too(interest, timeout, &[])
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.wake))
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// The socket that receives, for waiting only.
impl AsFd for UdpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

impl UdpPort {
    /// Waits like [`Port::wait`], and also until one of the file descriptors `others` is readable. Ports that combine
    /// this port with other sources of packets use it.
    ///
    /// # Errors
    /// As [`Port::wait`].
    pub fn wait_too(&mut self, interest: Interest, timeout: Option<Time>, others: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.wait_for(interest, timeout, others).map(|_| ())
    }

    /// Waits like [`UdpPort::wait_too`]; returns the indices of those of `others` that are readable.
    pub(super) fn wait_for(
        &mut self, interest: Interest, timeout: Option<Time>, others: &[BorrowedFd<'_>],
    ) -> io::Result<SmallVec<[usize; 4]>> {
        if self.wake.fall_asleep() {
            return Ok(SmallVec::new());
        }
        let room = interest == Interest::ArrivalOrRoom;
        let retry = (room && std::mem::take(&mut self.starved)).then_some(STARVED_RETRY);
        let timeout = [timeout, retry].into_iter().flatten().min();
        let timeout = timeout.map(|time| TimeSpec::from_duration(Duration::from_nanos(time.as_ps() / 1_000)));

        let mut descriptors: SmallVec<[PollFd<'_>; 4]> = SmallVec::new();
        descriptors.push(PollFd::new(self.wake.as_fd(), PollFlags::POLLIN));
        descriptors.push(PollFd::new(self.receiver.as_fd(), PollFlags::POLLIN));
        descriptors.extend(others.iter().map(|other| PollFd::new(*other, PollFlags::POLLIN)));
        let first_sender = descriptors.len();
        let blocked = self.senders.iter().filter(|sender| room && sender.blocked);
        descriptors.extend(blocked.map(|sender| PollFd::new(sender.socket.as_fd(), PollFlags::POLLOUT)));
        let polled = ppoll(&mut descriptors, timeout, None);

        let ready = |descriptor: &PollFd<'_>| descriptor.any() == Some(true);
        self.wake.wake_up(ready(&descriptors[0]));
        let free: SmallVec<[bool; 4]> = descriptors[first_sender..].iter().map(ready).collect();
        let others = descriptors[first_sender - others.len()..first_sender].iter().enumerate();
        let readable = others.filter(|(_, descriptor)| ready(descriptor)).map(|(index, _)| index).collect();
        drop(descriptors);
        let blocked = self.senders.iter_mut().filter(|sender| room && sender.blocked);
        blocked.zip(free).for_each(|(sender, free)| sender.blocked = !free);
        match polled {
            Ok(_) | Err(Errno::EINTR) => Ok(readable),
            Err(error) => Err(error.into()),
        }
    }
}
