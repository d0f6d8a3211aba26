//! Receives a batch of datagrams by one `recvmsg`.

use super::arrival::ArrivalClock;
use crate::port::{Arrival, Counters, Meta, Received, TrafficClass};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use nix::sys::time::TimeSpec;
use socket2::Socket;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

/// Maximum bytes of an arrival: the kernel merges datagrams only up to the 16-bit length field of one IP packet.
const LONGEST_ARRIVAL: usize = 65_535;

/// Holds the bytes and control messages of the latest arrival.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    local: SocketAddr,
    data: Vec<u8>,
    control: Vec<u8>,
    /// The latest value of the system's counter of datagrams that it dropped because the receive buffer was full. The
    /// counter wraps at 32 bits.
    overflowed: u32,
    /// Converts the time stamps of datagrams; `None` if the kernel does not take any.
    arrivals: Option<ArrivalClock>,
}

/// Result of one `recvmsg`: its length and the values of its control messages.
pub(super) struct Message {
    length: usize,
    meta: Meta,
    segment: usize,
    overflowed: Option<u32>,
}

impl ReceiveBuffer {
    /// A buffer for a socket with this address. `times` says whether the kernel takes time stamps of its datagrams.
    pub(super) fn new(local: SocketAddr, times: bool) -> ReceiveBuffer {
        // Room for the control messages: traffic class, segment length, local address, count of dropped datagrams,
        // time.
        let control = nix::cmsg_space!(i32, i32, libc::in6_pktinfo, u32, libc::timespec);
        let arrivals = times.then(ArrivalClock::new);
        ReceiveBuffer { local, data: vec![0; LONGEST_ARRIVAL], control, overflowed: 0, arrivals }
    }

    /// Receives datagrams, if some have arrived; [`ReceiveBuffer::arrival`] returns them.
    pub(super) fn receive(&mut self, socket: &Socket, counters: &mut Counters) -> io::Result<Option<Message>> {
        let message = loop {
            match self.read(socket) {
                Ok(Some(message)) => break message,
                Ok(None) => counters.malformed += 1,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    if let Some(arrivals) = &mut self.arrivals {
                        arrivals.on_empty();
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        };
        if let Some(overflowed) = message.overflowed {
            counters.overflowed += u64::from(overflowed.wrapping_sub(self.overflowed));
            self.overflowed = overflowed;
        }
        counters.received_batches += 1;
        counters.received_segments += message.length.div_ceil(message.segment) as u64;
        counters.received_bytes += message.length as u64;
        Ok(Some(message))
    }

    /// The datagrams of the latest message.
    pub(super) fn arrival(&self, message: &Message) -> Arrival<'_> {
        Arrival { meta: message.meta, segment: message.segment, data: &self.data[..message.length] }
    }

    /// Moves the datagrams of the latest message to `data`, in exchange for the bytes there.
    pub(super) fn exchange(&mut self, message: &Message, data: &mut Vec<u8>) -> Received {
        data.resize(LONGEST_ARRIVAL, 0);
        std::mem::swap(&mut self.data, data);
        Received { meta: message.meta, segment: message.segment, length: message.length }
    }

    /// Calls `recvmsg` once. Returns `None` if the datagram or its control messages are truncated, or the source or the
    /// traffic class is missing.
    fn read(&mut self, socket: &Socket) -> Result<Option<Message>, Errno> {
        let mut slices = [IoSliceMut::new(&mut self.data)];
        let message =
            recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut self.control), MsgFlags::empty())?;
        let (Ok(control), false) = (message.cmsgs(), message.flags.contains(MsgFlags::MSG_TRUNC)) else {
            return Ok(None);
        };
        let (length, mut segment) = (message.bytes, message.bytes.max(1));
        let (mut destination, mut class, mut overflowed) = (self.local.ip(), None, None);
        let mut stamp = None;
        for item in control {
            match item {
                ControlMessageOwned::Ipv4Tos(tos) => class = Some(tos),
                ControlMessageOwned::Ipv6TClass(value) => class = Some(value as u8),
                ControlMessageOwned::UdpGroSegments(bytes) => segment = (bytes as usize).max(1),
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    destination = IpAddr::V4(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    destination = IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr));
                }
                ControlMessageOwned::RxqOvfl(count) => overflowed = Some(count),
                ControlMessageOwned::ScmTimestampns(time) => stamp = Some(nanoseconds(time)),
                _ => {}
            }
        }
        let source = message.address.as_ref().and_then(address);
        let (Some(source), Some(class)) = (source, class) else {
            return Ok(None);
        };
        let traffic_class = TrafficClass::from_byte(class);
        let arrived_ns = self.arrivals.as_mut().zip(stamp).and_then(|(arrivals, stamp)| arrivals.convert(stamp));
        let (identification, is_within_host) = (None, false);
        let meta = Meta { source, destination, traffic_class, identification, is_within_host, arrived_ns };
        Ok(Some(Message { length, meta, segment, overflowed }))
    }
}

fn nanoseconds(time: TimeSpec) -> u64 {
    (time.tv_sec() as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec() as u64)
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|address| SocketAddr::V4(SocketAddrV4::from(*address)));
    v4.or_else(|| storage.as_sockaddr_in6().map(|address| SocketAddr::V6(SocketAddrV6::from(*address))))
}
