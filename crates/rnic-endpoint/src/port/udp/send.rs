//! Sends a batch of datagrams by one `sendmsg`.

use super::{Sender, UdpPort};
use crate::port::{Batch, Port as _, SendError};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use smallvec::SmallVec;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// Sends as many datagrams of the batch, from the first on, as one system call takes; returns their number.
pub(super) fn send(port: &mut UdpPort, batch: &Batch<'_>) -> Result<usize, SendError> {
    let segments = batch.check(port.local, port.limits())?;
    let sender = find(&mut port.senders, batch.source_port)?;
    let counters = &mut port.counters;

    let mut sent = transmit(sender, batch, batch.data, segments > 1);
    let mut taken = segments;
    if segments > 1 && matches!(sent, Err(Errno::EIO | Errno::EINVAL)) {
        // Either the network device towards this destination cannot segment UDP, or the call failed for another reason.
        // An attempt with the first datagram alone distinguishes the two cases: if it succeeds, the port stops using
        // segmentation.
        let first = prefix(batch.data, batch.segment);
        sent = transmit(sender, batch, &first, false);
        taken = 1;
        port.segmentation &= sent.is_err();
    }
    match sent {
        Ok(bytes) => {
            (sender.blocked, port.starved) = (false, false);
            counters.sent_batches += 1;
            counters.sent_segments += taken as u64;
            counters.sent_bytes += bytes as u64;
            Ok(taken)
        }
        Err(Errno::EAGAIN) => {
            sender.blocked = true;
            counters.blocked += 1;
            Ok(0)
        }
        Err(Errno::ENOBUFS | Errno::ENOMEM) => {
            port.starved = true;
            counters.starved += 1;
            Ok(0)
        }
        Err(Errno::EMSGSIZE) => {
            Err(SendError::TooLong { length: batch.segment.min(batch.bytes()), destination: batch.destination })
        }
        Err(error) => Err(SendError::System { destination: batch.destination, error: error.into() }),
    }
}

fn find(senders: &mut [Sender], source_port: u16) -> Result<&mut Sender, SendError> {
    let at = senders.binary_search_by_key(&source_port, |sender| sender.source_port);
    at.map(|at| &mut senders[at]).map_err(|_| SendError::UnknownSourcePort { source_port })
}

/// Returns the first `length` bytes of `data`, as slices.
fn prefix<'a>(data: &'a [IoSlice<'_>], mut length: usize) -> SmallVec<[IoSlice<'a>; 4]> {
    let mut first = SmallVec::new();
    for slice in data {
        let part = &slice[..slice.len().min(length)];
        length -= part.len();
        first.push(IoSlice::new(part));
        if length == 0 {
            break;
        }
    }
    first
}

/// Calls `sendmsg` once for `data`; returns the number of bytes sent. With `segmented` the kernel splits the data into
/// datagrams (`UDP_SEGMENT`).
fn transmit(sender: &Sender, batch: &Batch<'_>, data: &[IoSlice<'_>], segmented: bool) -> Result<usize, Errno> {
    let segment = batch.segment as u16;
    let (tos, class) = (batch.traffic_class.byte(), i32::from(batch.traffic_class.byte()));
    let (source4, source6);
    let mut control: SmallVec<[ControlMessage<'_>; 3]> = SmallVec::new();
    control.push(match batch.destination {
        SocketAddr::V4(_) => ControlMessage::Ipv4Tos(&tos),
        SocketAddr::V6(_) => ControlMessage::Ipv6TClass(&class),
    });
    if segmented {
        control.push(ControlMessage::UdpGsoSegments(&segment));
    }
    match batch.source_address {
        None => {}
        Some(IpAddr::V4(address)) => {
            let any = libc::in_addr { s_addr: 0 };
            let source = libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) };
            source4 = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: any };
            control.push(ControlMessage::Ipv4PacketInfo(&source4));
        }
        Some(IpAddr::V6(address)) => {
            source6 = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: address.octets() }, ipi6_ifindex: 0 };
            control.push(ControlMessage::Ipv6PacketInfo(&source6));
        }
    }
    let destination = SockaddrStorage::from(batch.destination);
    loop {
        match sendmsg(sender.socket.as_raw_fd(), data, &control, MsgFlags::empty(), Some(&destination)) {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}
