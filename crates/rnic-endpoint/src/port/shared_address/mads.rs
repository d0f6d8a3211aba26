//! Queue pair 1: the packets of a process's connection manager on one address.
//!
//! The manager sends from its own UDP port ([`MadSender`]), whose number is its manager ID. It receives from the broker
//! of the address over a Unix socket ([`MadPort`]): the broker finds the manager by the service IDs that it has claimed
//! ([`Claims`]), and by its manager ID in communication IDs.

use super::claims::Claims;
use super::connection_list::ConnectionList;
use super::error::SharedAddressError;
use super::lists::MAX_LISTS;
use super::message::{self, Message};
use super::{MANAGER_TIMEOUT, RETRY_INTERVAL, check_owner, socket, takeover};
use crate::port::capture::{self, CaptureFile};
use crate::port::{
    Arrival, Batch, Counters, Interest, Limits, Port, ROCE_PORT, Received, SendError, TrafficClass, UdpConfig, UdpPort,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use rnic_cm::message::MadBytes;
use rnic_cm::packet;
use rnic_transport::Time;
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

/// Maximum number of UDP ports that a new manager tries. The name for a UDP port may still belong to a process that
/// ends the connections of an earlier manager with this port.
const MAX_ATTEMPTS: u32 = 16;

/// Sends a MAD from `port` to UDP port 4791 of `peer`.
pub(super) fn send(port: &mut UdpPort, peer: IpAddr, mad: &MadBytes, psn: u32) -> io::Result<()> {
    let source_port = port.source_port(0);
    let source = SocketAddr::new(port.local_addr().ip(), source_port);
    let bytes = packet::emit(mad, psn, source, peer).ok_or(io::ErrorKind::InvalidInput)?;
    let batch = Batch {
        destination: SocketAddr::new(peer, ROCE_PORT),
        source_port,
        source_address: None,
        traffic_class: TrafficClass::default(),
        segment: bytes.len(),
        data: &[IoSlice::new(&bytes)],
    };
    match port.send(&batch) {
        // If the send buffer is full, the packet is lost, and the manager retransmits the MAD.
        Ok(_) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Sends the MADs of a connection manager.
pub struct MadSender {
    port: UdpPort,
    /// Socket whose name shows other processes that the manager exists.
    _name: OwnedFd,
    capture: Option<CaptureFile>,
    psn: u32,
}

impl MadSender {
    /// Opens a UDP port of the address `ip` for a new manager. Sent packets are also written to the file `capture`.
    ///
    /// # Errors
    /// No UDP port is free, or the system has no file descriptors.
    pub fn open(ip: IpAddr, capture: Option<CaptureFile>) -> Result<MadSender, SharedAddressError> {
        let config = UdpConfig { source_ports: 0, receive_buffer: 0, ..UdpConfig::default() };
        let mut attempt = 1;
        loop {
            let port = UdpPort::bind(SocketAddr::new(ip, 0), &config)?;
            match socket::claim_manager(ip, port.local_addr().port()) {
                Ok(name) => return Ok(MadSender { port, _name: name, capture, psn: 0 }),
                Err(Errno::EADDRINUSE) if attempt < MAX_ATTEMPTS => attempt += 1,
                Err(error) => {
                    let name = format!("{}/cm/{}", socket::broker_name(ip), port.local_addr().port());
                    check_owner(ip, name)?;
                    return Err(SharedAddressError::Name(error as i32));
                }
            }
        }
    }

    /// The manager ID: the lower half of all communication IDs of this manager. No other manager of the address has it.
    pub fn manager_id(&self) -> u16 {
        self.port.local_addr().port()
    }

    /// Sends a MAD to UDP port 4791 of `peer`.
    ///
    /// # Errors
    /// The host has no route to the peer, or the peer's address is of the other family.
    pub fn send(&mut self, peer: IpAddr, mad: &MadBytes) -> io::Result<()> {
        self.psn = (self.psn + 1) & rnic_wire::MAX_24;
        if let Some(file) = &self.capture {
            let source = SocketAddr::new(self.port.local_addr().ip(), self.port.source_port(0));
            if let Some(bytes) = packet::emit(mad, self.psn, source, peer) {
                capture::record_sent(file, source, SocketAddr::new(peer, ROCE_PORT), &bytes);
            }
        }
        send(&mut self.port, peer, mad, self.psn)
    }
}

/// Ends the sleep of the thread that receives.
struct ReceiverWake(EventFd);

impl Wake for ReceiverWake {
    fn wake(self: Arc<Self>) {
        let _ = self.0.write(1);
    }
}

/// The connection of a manager to its broker.
enum Link {
    Connected(OwnedFd),
    /// The manager has no broker. Its next attempt to connect is at this time.
    Disconnected(Instant),
}

/// Receives the MADs of a connection manager. It implements [`Port`] so that [`FaultyPort`](crate::FaultyPort) and
/// [`CapturePort`](super::super::CapturePort) can wrap it; [`MadSender`] sends.
pub struct MadPort {
    address: SocketAddr,
    manager_id: u16,
    claims: Arc<Claims>,
    /// The connection list of this manager, for processes that outlive this process.
    list: Option<Arc<ConnectionList>>,
    /// The connection lists of other managers, if this manager is a standby.
    standby_lists: BTreeMap<u16, ConnectionList>,
    link: Link,
    /// Whether the broker has admitted the manager.
    joined: bool,
    wake: Arc<ReceiverWake>,
    buffer: Vec<u8>,
}

impl MadPort {
    /// Opens the port of the manager with this manager ID, and joins the broker, so that responses to the MADs of the
    /// manager arrive.
    ///
    /// # Errors
    /// The system has no file descriptors, or the broker does not respond within 3 s.
    pub fn open(
        ip: IpAddr, manager_id: u16, claims: Arc<Claims>, list: Option<Arc<ConnectionList>>,
    ) -> io::Result<MadPort> {
        let mut port = MadPort::new(ip, manager_id, claims, list)?;
        let deadline = Instant::now() + MANAGER_TIMEOUT;
        while !port.joined {
            if Instant::now() > deadline {
                return Err(io::Error::other(SharedAddressError::NoResponse(ip)));
            }
            port.receive()?;
            if !port.joined {
                port.wait(Interest::Arrival, Some(Time::from_ms(100)))?;
            }
        }
        Ok(port)
    }

    /// Makes a port that joins the broker of the address as soon as a broker exists.
    pub(super) fn new(
        ip: IpAddr, manager_id: u16, claims: Arc<Claims>, list: Option<Arc<ConnectionList>>,
    ) -> io::Result<MadPort> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(MadPort {
            address: SocketAddr::new(ip, ROCE_PORT),
            manager_id,
            claims,
            list,
            standby_lists: BTreeMap::new(),
            link: Link::Disconnected(Instant::now()),
            joined: false,
            wake: Arc::new(ReceiverWake(wake)),
            buffer: vec![0; message::MAX_LEN],
        })
    }

    /// Whether a broker has admitted the manager.
    pub fn has_joined(&self) -> bool {
        self.joined
    }

    fn on_broker_lost(&mut self) {
        self.link = Link::Disconnected(Instant::now() + RETRY_INTERVAL);
        self.joined = false;
        // Other managers may have ended together with the broker. Managers that still exist join the next broker.
        for (manager, list) in std::mem::take(&mut self.standby_lists) {
            takeover::begin(self.address.ip(), manager, list);
        }
        self.claims.restart();
    }

    /// Connects to the broker if the manager has none, and sends pending claims.
    fn maintain_link(&mut self) {
        if matches!(&self.link, Link::Disconnected(at) if *at <= Instant::now()) {
            let connected = socket::connect(self.address.ip());
            self.link = Link::Disconnected(Instant::now() + RETRY_INTERVAL);
            let introduce = |link: &OwnedFd| match &self.list {
                Some(list) => socket::send_with(link, &message::join_manager(self.manager_id), &**list),
                None => socket::send(link, &message::join_manager(self.manager_id)),
            };
            if let Ok(Ok(link)) = connected
                && introduce(&link).is_ok()
            {
                self.link = Link::Connected(link);
            }
        }
        let Link::Connected(link) = &self.link else { return };
        let sends = |message: &[u8]| socket::send(link, message).is_ok();
        self.claims.send_pending(
            |service, shared| sends(&message::claim(service, shared)),
            |service| sends(&message::release(service)),
        );
    }

    /// Receives one message of the broker; returns the arrival if the message carries packets. The packets are then at
    /// the end of the header of the message in `buffer`.
    fn next_message(&mut self) -> io::Result<Option<Received>> {
        self.maintain_link();
        let Link::Connected(link) = &self.link else { return Ok(None) };
        let (len, file) = match socket::receive_with(link, &mut self.buffer) {
            Ok(received) => received,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(_) => (0, None),
        };
        match message::read(&self.buffer[..len]) {
            Some(Message::Packets(Arrival { meta, segment, data })) => {
                return Ok(Some(Received { meta, segment, length: data.len() }));
            }
            Some(Message::Claimed { service, granted }) => self.claims.on_response(service, granted),
            Some(Message::Joined) => self.joined = true,
            Some(Message::ConnectionList { manager }) => {
                if let Some(list) = file.and_then(ConnectionList::from_descriptor)
                    && manager != self.manager_id
                    && (self.standby_lists.len() < MAX_LISTS || self.standby_lists.contains_key(&manager))
                {
                    self.standby_lists.insert(manager, list);
                }
            }
            Some(Message::DiscardList { manager }) => drop(self.standby_lists.remove(&manager)),
            // The broker has closed the socket, or violates the protocol.
            _ => self.on_broker_lost(),
        }
        Ok(None)
    }
}

impl Port for MadPort {
    fn local_addr(&self) -> SocketAddr {
        self.address
    }
    fn source_port(&self, _: u32) -> u16 {
        self.manager_id
    }
    fn limits(&self) -> Limits {
        Limits { segments: 1, bytes: packet::LEN }
    }
    fn longest_datagram(&self, _: SocketAddr) -> io::Result<usize> {
        Ok(packet::LEN)
    }

    /// Fails: [`MadSender`] sends.
    fn send(&mut self, _: &Batch<'_>) -> Result<usize, SendError> {
        Err(SendError::Empty)
    }

    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        let Some(Received { meta, segment, length }) = self.next_message()? else { return Ok(None) };
        Ok(Some(Arrival { meta, segment, data: message::packets_in(&self.buffer, length) }))
    }

    fn wait(&mut self, _: Interest, timeout: Option<Time>) -> io::Result<()> {
        let (link, retry) = match &self.link {
            Link::Connected(link) => (Some(link), None),
            Link::Disconnected(_) => (None, Some(Time::from_ms(RETRY_INTERVAL.as_millis() as u64))),
        };
        let timeout = [timeout, retry].into_iter().flatten().min();
        let timeout = timeout.map_or(PollTimeout::NONE, |time| {
            let ms = time.as_ps().div_ceil(Time::from_ms(1).as_ps());
            PollTimeout::try_from(ms.min(60_000) as i32).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = vec![PollFd::new(self.wake.0.as_fd(), PollFlags::POLLIN)];
        fds.extend(link.map(|link| PollFd::new(link.as_fd(), PollFlags::POLLIN)));
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        // The descriptor is non-blocking: the call fails if no other thread has woken this thread.
        let _ = self.wake.0.read();
        Ok(())
    }

    fn waker(&self) -> Waker {
        Waker::from(self.wake.clone())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}
