//! Several ports on one address and UDP port, each for the queue pairs of one device (*shard*).
//!
//! The sockets of the ports are a group (`SO_REUSEPORT`). A program in the kernel selects the socket for a datagram by
//! the datagram's destination queue pair number (QPN). Before the selection, the kernel may merge datagrams of several
//! queue pairs (`UDP_GRO`); it then selects by the first of them. So each port checks the QPN of every datagram that it
//! receives, and hands over the datagrams of other shards to their ports.

use super::UdpPort;
use super::options;
use super::receive::ReceiveBuffer;
use crate::port::wake::WakeFlag;
use crate::port::{Arrival, BindError, Counters, Meta};
use crate::sync::lock;
use rnic_verbs::Shard;
use socket2::Socket;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake as _;

/// Maximum bytes of datagrams that other ports have received for one port and that wait for it. Further datagrams are
/// dropped.
const MAX_WAITING: usize = 4 << 20;

/// A port's membership in a group of ports, with the datagrams that ports of the group have received for other ports.
#[derive(Debug)]
pub(super) struct Member {
    shard: Shard,
    group: Arc<[Inbox]>,
    /// The latest parcel that the port has taken from its inbox.
    current: Option<Parcel>,
}

/// Datagrams that other ports received for a port.
#[derive(Debug)]
struct Inbox {
    parcels: Mutex<Parcels>,
    /// Whether the inbox has parcels; can be read without the lock.
    has_some: AtomicBool,
    wake: Arc<WakeFlag>,
}

#[derive(Debug, Default)]
struct Parcels {
    waiting: VecDeque<Parcel>,
    bytes: usize,
}

/// Datagrams of one source and one length (the last may be shorter) for one shard.
#[derive(Debug)]
struct Parcel {
    meta: Meta,
    segment: usize,
    data: Vec<u8>,
}

/// Opens `count` ports on `address`. UDP port 0 stands for any free port, which is the same for all opened ports.
pub(super) fn bind(address: SocketAddr, count: u32, open: Open<'_>) -> Result<Vec<UdpPort>, BindError> {
    if !(1..=Shard::MAX).contains(&count) {
        return Err(BindError::Shards { asked: count, max: Shard::MAX });
    }
    // Every socket of the same user with the option `SO_REUSEPORT` can join a group. So this first socket, which does
    // not have the option, checks that the address is free.
    let system = |step| move |error| BindError::System { step, address, error };
    let probe = options::unbound(&address).map_err(system("open a UDP socket"))?;
    probe.bind(&address.into()).map_err(|error| super::bind_error(address, error))?;
    let local = probe.local_addr().map_err(system("read the address"))?.as_socket().unwrap_or(address);
    drop(probe);

    let join = |socket: &Socket| socket.set_reuse_port(true);
    let mut ports = (0..count).map(|_| open(local, &join)).collect::<Result<Vec<UdpPort>, BindError>>()?;
    // The program in the kernel returns the index of a socket in the group. The sockets have joined the group in this
    // order.
    options::steer_by_qpn(&ports[0].receiver, count).map_err(system("select sockets by queue pair"))?;
    let inbox = |port: &UdpPort| Inbox {
        parcels: Mutex::default(),
        has_some: AtomicBool::new(false),
        wake: Arc::clone(&port.wake),
    };
    let group: Arc<[Inbox]> = ports.iter().map(inbox).collect();
    for (index, port) in ports.iter_mut().enumerate() {
        let shard = Shard { index: index as u32, count };
        port.member = Some(Member { shard, group: Arc::clone(&group), current: None });
    }
    Ok(ports)
}

/// Opens a port on an address; it calls the function for the receiving socket before it binds this socket.
pub(super) type Open<'a> = &'a dyn Fn(SocketAddr, &dyn Fn(&Socket) -> io::Result<()>) -> Result<UdpPort, BindError>;

/// Returns the destination QPN of a datagram, which is in bytes 5 to 7 both of a packet and of a protected datagram. A
/// datagram that is too short to contain a QPN counts as a datagram for QPN 0.
fn qpn(datagram: &[u8]) -> u32 {
    datagram.get(5..8).map_or(0, |qpn| u32::from_be_bytes([0, qpn[0], qpn[1], qpn[2]]))
}

impl Member {
    pub(super) fn shard(&self) -> Shard {
        self.shard
    }

    /// Receives the next datagrams of this shard, from other ports or from the port's own socket.
    pub(super) fn receive<'a>(
        &'a mut self, buffer: &'a mut ReceiveBuffer, socket: &Socket, counters: &mut Counters,
    ) -> io::Result<Option<Arrival<'a>>> {
        loop {
            if self.group[self.shard.index as usize].has_some.load(Ordering::Acquire)
                && let Some(parcel) = self.take()
            {
                let Parcel { meta, segment, data } = self.current.insert(parcel);
                return Ok(Some(Arrival { meta: *meta, segment: *segment, data }));
            }
            let Some(message) = buffer.receive(socket, counters)? else { return Ok(None) };
            if self.is_own(&buffer.arrival(&message)) {
                return Ok(Some(buffer.arrival(&message)));
            }
            self.distribute(&buffer.arrival(&message), counters);
        }
    }

    fn is_own(&self, arrival: &Arrival<'_>) -> bool {
        arrival.segments().all(|datagram| self.shard.has(qpn(datagram)))
    }

    /// Takes the oldest parcel of this port's inbox.
    fn take(&self) -> Option<Parcel> {
        let inbox = &self.group[self.shard.index as usize];
        let mut parcels = lock(&inbox.parcels);
        let parcel = parcels.waiting.pop_front();
        parcels.bytes -= parcel.as_ref().map_or(0, |parcel| parcel.data.len());
        inbox.has_some.store(!parcels.waiting.is_empty(), Ordering::Release);
        parcel
    }

    /// Puts each datagram of an arrival into the inbox of its shard, in order. Datagrams of one shard that follow each
    /// other are one parcel.
    fn distribute(&self, arrival: &Arrival<'_>, counters: &mut Counters) {
        let owner = |datagram: &[u8]| qpn(datagram) % self.shard.count;
        let mut start = 0;
        let datagrams: Vec<&[u8]> = arrival.segments().collect();
        for run in datagrams.chunk_by(|a, b| owner(a) == owner(b)) {
            let len = run.iter().map(|datagram| datagram.len()).sum::<usize>();
            let data = &arrival.data[start..start + len];
            start += len;
            let to = owner(run[0]);
            if to != self.shard.index {
                counters.handed_over += run.len() as u64;
            }
            let inbox = &self.group[to as usize];
            let mut parcels = lock(&inbox.parcels);
            if parcels.bytes + len > MAX_WAITING {
                counters.overflowed += run.len() as u64;
                continue;
            }
            parcels.bytes += len;
            let meta = Meta { identification: None, ..arrival.meta };
            parcels.waiting.push_back(Parcel { meta, segment: arrival.segment, data: data.to_vec() });
            inbox.has_some.store(true, Ordering::Release);
            drop(parcels);
            if to != self.shard.index {
                inbox.wake.wake_by_ref();
            }
        }
    }
}
