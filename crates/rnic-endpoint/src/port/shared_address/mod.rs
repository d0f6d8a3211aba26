//! Many processes on one IP address: a port that shares UDP port 4791 of its address with ports of other processes of
//! the same user.
//!
//! RoCEv2 peers send to UDP port 4791 only. [`SharedAddressPort`] lets several processes, and several devices of a
//! process, use one address nevertheless. rnic's libibverbs uses it for every device. [`Device::open_shared`] opens a
//! device on such a port:
//!
//! ```
//! use rnic_endpoint::{Config, Device};
//!
//! # fn main() -> Result<(), rnic_endpoint::Error> {
//! let address = "127.47.91.1".parse().unwrap();
//! // Usually in two processes:
//! let first = Device::open_shared(address, Config::default())?;
//! let second = Device::open_shared(address, Config::default())?;
//! assert_eq!(first.local_addr(), second.local_addr());
//! # Ok(())
//! # }
//! ```
//!
//! The packets between these two devices do not leave memory ([within a host](#packets)).
//!
//! A program that wraps the port, for example in a [`FaultyPort`](super::FaultyPort), sets the device's queue pair
//! numbers itself. All packets of such a port are datagrams:
//!
//! ```
//! use rnic_endpoint::port::shared_address::SharedAddressPort;
//! use rnic_endpoint::{Config, Device, Port};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let port = SharedAddressPort::open("127.47.91.2".parse()?)?;
//! let mut config = Config::default().fitted_to(port.udp())?;
//! config.verbs.shard = port.shard();
//! let device = Device::on_port(Box::new(port), config)?;
//! # Ok(())
//! # }
//! ```
//!
//! The first device of an address is its broker. The broker must be polled, by its progress thread or by calls of the
//! program, while other devices join: [`SharedAddressPort::open`] waits for the response of the broker.
//!
//! # Glossary
//!
//! | term | meaning |
//! |---|---|
//! | *device* | an open [`SharedAddressPort`], with the RDMA device above it |
//! | *slot* | number of a device on its address, 0 to 1023; its queue pair numbers (QPNs) are congruent to the slot modulo [`SLOTS`] |
//! | *link* | a ring of packets in memory from one device of the address to another one (module `links`) |
//! | *broker* | the device that has UDP port 4791 of the address |
//! | *member* | a device or a connection manager that is connected to the broker by a Unix socket |
//! | *directory* | the UDP ports of all devices of the address, by slot |
//! | *manager* | the connection manager of a process on the address ([`MadPort`], [`MadSender`]): queue pair 1 |
//! | *manager ID* | the lower half of all communication IDs of a manager; the number of the UDP port from which it sends |
//! | *claim* | registration of a service ID by a manager at the broker ([`Claims`]) |
//! | *unmatched message* | a message to queue pair 1 whose service ID is not claimed, or whose communication ID has no manager |
//! | *connection list* | a file in memory with the connections of a manager ([`ConnectionList`]) |
//! | *standby* | a manager that has the connection lists of the other managers |
//! | *takeover* | a process ends the connections of a manager that no longer exists |
//!
//! # Packets
//!
//! - Every device receives at its own UDP port, and at UDP port 4791 if it is the broker. It sends from its own UDP
//!   ports.
//! - A packet between two devices of the address goes directly to the receiver's own port, which the sender knows from
//!   the directory. The ICRC is computed as if the packet went to UDP port 4791.
//! - Between two devices that have the path within the host ([`SharedAddressPort::with_path_within_host`]; those of
//!   [`Device::open_shared`] have it) packets go through rings in memory instead, without an ICRC. `links.rs` describes
//!   them.
//! - A packet from another address arrives at the broker. The broker handles its own packets, and forwards each other
//!   packet to the device with the slot of its QPN, in a message over the Unix socket.
//! - A packet to queue pair 1 goes to the broker, which passes it on to the manager that has claimed the service ID, or
//!   whose manager ID is in the communication ID of the receiver.
//! - A request for a service ID without a claim is queued for a second, because the server may be about to claim it.
//!   The broker responds to other unmatched messages itself ([`rnic_cm::unmatched`]), but not in its first second,
//!   because managers may not have joined yet.
//!
//! # States of a device
//!
//! ```text
//!                      claims the broker's name
//!    ┌───────────┐ ─────────────────────────────▶ ┌────────┐
//!    │ Searching │                                │ Broker │  until the port is closed
//!    └───────────┘                                └────────┘
//!      ▲      │ name in use: connects, sends JoinDevice
//!      │      ▼
//!      │  ┌─────────┐   Directory received   ┌────────┐
//!      │  │ Joining │ ─────────────────────▶ │ Joined │
//!      │  └─────────┘                        └────────┘
//!      └──────┴───────────────────────────────────┘  the broker closes the socket
//! ```
//!
//! A device searches every 5 ms. When the broker ends, the system closes its sockets, the members see it immediately,
//! and the first device that claims the name is the next broker. Packets that arrive in between are lost, and loss
//! recovery retransmits them. The new broker reserves the slots of the previous directory for 10 s, so that their
//! devices can join. A manager has the same states without *Broker*: it connects, sends `JoinManager`, and waits for
//! `Joined`.
//!
//! # Messages
//!
//! | message | from | to | content |
//! |---|---|---|---|
//! | `JoinDevice` | device | broker | slot, own UDP port |
//! | `Directory` | broker | every device | slot of the receiver, UDP ports of all devices |
//! | `Packets` | broker | device, manager | datagrams with source, destination and traffic class |
//! | `JoinManager` | manager | broker | manager ID, descriptor of its connection list |
//! | `Joined` | broker | manager | |
//! | `Claim`, `Release` | manager | broker | service ID |
//! | `Claimed` | broker | manager | service ID, whether the claim is granted |
//! | `ConnectionList` | broker | standby | manager ID, descriptor |
//! | `DiscardList` | broker | standby | manager ID |
//!
//! A member that sends another message, or the same introduction twice, is disconnected.
//!
//! # Owners
//!
//! The system releases a name in the abstract namespace of Unix sockets when its owner ends, so that a name proves that
//! its owner exists:
//!
//! | resource | owner | until |
//! |---|---|---|
//! | name of the broker, UDP port 4791 | broker | the device is closed |
//! | name of a slot | device | the device is closed |
//! | name of a manager ID | manager; then a takeover | the process ends; the last DREQ is acknowledged or aborted |
//! | directory, claims | broker; a new broker gets them from the members | the broker ends |
//! | connection list: writer | manager; then a takeover | as the name of the manager ID |
//! | connection list: descriptors | manager, broker, and two standbys in other processes | 20 s after the manager has left |
//!
//! # Descriptors
//!
//! | descriptor | number |
//! |---|---|
//! | own UDP port | 1 |
//! | UDP source ports, and a socket for questions about path MTUs | 4 and 1; none on the loopback interface, where the own UDP port sends |
//! | flag that wakes a sleeping thread | 1 |
//! | name of the slot, at which a device with the path within the host listens | 1 |
//! | link to or from another device | 1 at each end |
//! | connection to the broker, or as the broker: name of the broker, UDP port 4791 and its flag | 1 or 3 |
//! | as the broker: connection of each member | 1 each |
//!
//! # A process is killed
//!
//! When a process is killed, the system closes the socket of its manager. The broker then tries to claim the manager's
//! name for at most 10 s. If the broker gets the name, the manager has ended, and the broker sends a DREQ for each
//! entry of the connection list. If the broker was killed too, the standbys do the same; only the standby that gets the
//! name sends DREQs. [`Standby`] is a standby that does not belong to an RDMA program, for addresses on which a single
//! program runs (`rnic verbs keep`).
//!
//! `docs/adr/0028-verbs-of-many-processes.md` and `docs/adr/0036-disconnect-the-peers-of-killed-processes.md` compare
//! this design with others.
//!
//! [`Device::open_shared`]: crate::Device::open_shared

#![expect(clippy::disallowed_methods, reason = "processes wait for each other, by the time of day")]

mod broker;
mod claims;
mod connection_list;
mod error;
mod links;
mod lists;
mod mads;
mod members;
mod message;
pub(crate) mod owners;
mod services;
pub(crate) mod socket;
mod standby;
mod takeover;

pub use claims::{ClaimError, Claims};
pub use connection_list::ConnectionList;
pub use error::SharedAddressError;
pub use mads::{MadPort, MadSender};
pub use owners::Owner;
pub use standby::Standby;
pub use takeover::{TakeoverReport, observe_takeovers};

use super::{Arrival, Batch, Counters, Interest, Limits, Port, ROCE_PORT, Received, SendError, UdpConfig, UdpPort};
use broker::Broker;
use links::{Found, Links, Sent};
use message::{Directory, Message};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rnic_transport::Time;
use rnic_verbs::Shard;
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Maximum number of open devices on one address, over all processes. Each has 16,384 queue pair numbers.
pub const SLOTS: u32 = 1_024;

/// How long a device waits for the broker to admit it.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a manager waits for the broker to admit it, and for the response to a claim.
const MANAGER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a device searches for the broker before it checks whether another user has only bound the broker's name.
const OWNER_CHECK: Duration = Duration::from_millis(500);
/// Time until the next attempt to connect to the broker, or to become the broker.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// While packets keep arriving, the port handles the messages of its Unix sockets once per this number of receive
/// calls.
const SERVE_INTERVAL: u32 = 64;
/// Maximum number of consecutive receive calls that poll only the source of the latest packet. Polling a source costs a
/// system call. If each receive call polled both sources, a program that waits for a message would make two system
/// calls for each poll.
const SINGLE_SOURCE_POLLS: u32 = 7;

/// Number of receive calls between two polls of the sockets while packets arrive by memory. A call that finds packets
/// counts as [`RING_ARRIVAL`] calls. Polling a ring takes a few nanoseconds, and a system call a few hundred
/// nanoseconds.
const RING_POLLS: u32 = 256;
const RING_ARRIVAL: u32 = 8;
/// How long a thread that waits for room in a ring sleeps at most. The receiver wakes it earlier, unless it has ended
/// or is stopped.
const MAX_WAIT_FOR_ROOM: Time = Time::from_ms(1);

/// Number of UDP source ports of a device, each of which needs a socket.
const SOURCE_PORT_COUNT: usize = 4;

/// Stands for the slot of packets to queue pair 1. The broker finds the manager of such a packet.
const MANAGERS: u32 = u32::MAX;

/// The slot of the device to which a packet goes, or [`MANAGERS`]; `None` if the bytes are too short for a packet.
fn slot_of(packet: &[u8]) -> Option<u32> {
    let qpn = packet.get(5..8)?;
    if rnic_cm::packet::is_for_manager(packet) {
        return Some(MANAGERS);
    }
    Some(u32::from_be_bytes([0, qpn[0], qpn[1], qpn[2]]) % SLOTS)
}

/// Claims a free slot. The search begins at a slot that depends on the UDP port, so that a new device rarely gets the
/// slot of a device that was just closed, whose packets may still be in flight.
fn claim_slot(ip: IpAddr, port: u16) -> Result<(u32, OwnedFd), SharedAddressError> {
    for step in 0..SLOTS {
        let slot = (u32::from(port) * 7 + step) % SLOTS;
        match socket::claim_slot(ip, slot) {
            Ok(claimed) => return Ok((slot, claimed)),
            Err(Errno::EADDRINUSE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(no_slot(ip))
}

/// The error for an address whose slots are all in use.
fn no_slot(ip: IpAddr) -> SharedAddressError {
    let name = socket::broker_name(ip);
    let mut counts = BTreeMap::<Option<Owner>, usize>::new();
    for (found, owner) in owners::owners(&name) {
        let is_slot = found[name.len()..].strip_prefix('/').is_some_and(|slot| slot.parse::<u32>().is_ok());
        if is_slot && !owner.is_some_and(Owner::is_self) {
            *counts.entry(owner).or_default() += 1;
        }
    }
    let names = counts.values().sum();
    match counts.into_iter().max_by_key(|(_, count)| *count) {
        Some((owner, _)) => SharedAddressError::SlotsOfOtherUser { ip, name, names, owner },
        None => SharedAddressError::NoSlot(ip),
    }
}

/// Fails if another user has bound a name for the address `ip`.
fn check_owner(ip: IpAddr, name: String) -> Result<(), SharedAddressError> {
    match owners::owners(&name).remove(&name) {
        None => Ok(()),
        Some(owner) if owner.is_some_and(Owner::is_self) => Ok(()),
        Some(owner) => Err(SharedAddressError::OtherUser { ip, name, owner }),
    }
}

/// Whether an address has a broker that belongs to this user, so that other processes can join it.
pub fn has_broker(ip: IpAddr) -> bool {
    matches!(socket::connect(ip), Ok(Ok(_)))
}

/// Checks whether this user can have the names by which processes share an address. Returns whether the address has a
/// broker that belongs to this user.
///
/// # Errors
/// Another user has the broker, its name, or the names of all free slots; or a system call fails.
pub fn check_names(ip: IpAddr) -> Result<bool, SharedAddressError> {
    let (name, mut has_broker) = (socket::broker_name(ip), false);
    match socket::connect(ip) {
        Ok(Ok(_)) => has_broker = true,
        Ok(Err(owner)) => return Err(SharedAddressError::OtherUser { ip, name, owner: Some(owner) }),
        // No process has the name, a process of this user is just becoming the broker, or a user has only bound the
        // name.
        Err(Errno::ECONNREFUSED) => check_owner(ip, name)?,
        // Many processes are connecting to the broker.
        Err(Errno::EAGAIN) => {}
        Err(error) => return Err(error.into()),
    }
    claim_slot(ip, 0).map(|_| has_broker)
}

/// State of a device among the devices of its address.
enum Role {
    /// The device has UDP port 4791.
    Broker(Box<Broker>),
    /// The device is connected to the broker.
    Member {
        link: OwnedFd,
        /// Whether the broker has admitted the device.
        joined: bool,
    },
    /// The device has no broker. It connects to a broker, or becomes the broker, at this time.
    Searching { next_attempt: Instant },
}

/// A source of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// The UDP port of the device, for packets from devices of the same address.
    Own,
    /// UDP port 4791 of the address, or the broker's socket, for packets from other hosts.
    Address,
}

/// The buffer that has the packets of an arrival.
enum Buffer {
    /// [`SharedAddressPort::arrival`].
    Arrival,
    /// [`SharedAddressPort::selected`].
    Selected,
    /// [`SharedAddressPort::message`].
    Message,
}

/// The port of a device that shares its address with other devices. See the [module](self).
pub struct SharedAddressPort {
    /// The address with UDP port 4791.
    address: SocketAddr,
    /// The device's own UDP port: it receives from devices of the same address, and sends.
    own: UdpPort,
    slot: u32,
    /// Socket whose name claims the slot.
    slot_name: OwnedFd,
    role: Role,
    /// The UDP ports of all devices of the address.
    directory: Box<Directory>,
    /// The latest message of the broker or of a member.
    message: Vec<u8>,
    /// The latest arrival at a UDP port.
    arrival: Vec<u8>,
    /// The packets for this device in an arrival of which the broker has forwarded the other packets.
    selected: Vec<u8>,
    receive_calls: u32,
    /// The source of the latest packet.
    latest_source: Source,
    /// Number of receive calls that may still poll `latest_source` only.
    single_source_polls: u32,
    /// The path within the host; `None` if all packets go as datagrams.
    links: Option<Box<Links>>,
    /// Whether the latest packets came by memory.
    ring_is_latest: bool,
    /// Number of receive calls that may still poll rings only.
    ring_polls: u32,
    /// Numbers of the packets by memory.
    within_host: Counters,
}

impl SharedAddressPort {
    /// Opens a port on the address `ip`: joins the broker of the address, or becomes the broker.
    ///
    /// # Errors
    /// UDP port 4791 or another UDP port cannot be opened, the broker belongs to another user or does not respond
    /// within 10 s, 1,024 devices are open on the address, or a system call fails.
    pub fn open(ip: IpAddr) -> Result<SharedAddressPort, SharedAddressError> {
        // ECMP does not exist on the loopback interface, so that there the socket that receives also sends.
        let source_ports = if ip.is_loopback() { 0 } else { SOURCE_PORT_COUNT };
        let config = UdpConfig { source_ports, ..UdpConfig::default() };
        let own = UdpPort::bind(SocketAddr::new(ip, 0), &config)?;
        let (slot, slot_name) = claim_slot(ip, own.local_addr().port())?;
        let mut port = SharedAddressPort {
            address: SocketAddr::new(ip, ROCE_PORT),
            own,
            slot,
            slot_name,
            role: Role::Searching { next_attempt: Instant::now() },
            directory: Box::new([0; SLOTS as usize]),
            message: vec![0; message::MAX_LEN],
            arrival: Vec::new(),
            selected: Vec::new(),
            receive_calls: 0,
            latest_source: Source::Own,
            single_source_polls: 0,
            links: None,
            ring_is_latest: false,
            ring_polls: 0,
            within_host: Counters::default(),
        };
        let begin = Instant::now();
        let (deadline, mut owner_checked) = (begin + JOIN_TIMEOUT, false);
        loop {
            if let Role::Searching { .. } = port.role {
                port.find_role()?;
            }
            match &port.role {
                Role::Broker(_) | Role::Member { joined: true, .. } => return Ok(port),
                Role::Member { link, joined: false } => {
                    let left = deadline.saturating_duration_since(Instant::now()).as_millis() as u16;
                    let mut link = [PollFd::new(link.as_fd(), PollFlags::POLLIN)];
                    let _ = poll(&mut link, PollTimeout::from(left));
                }
                Role::Searching { .. } => {
                    // The name is in use for longer than a change of the broker takes.
                    if begin.elapsed() > OWNER_CHECK && !std::mem::replace(&mut owner_checked, true) {
                        check_owner(ip, socket::broker_name(ip))?;
                    }
                    std::thread::sleep(RETRY_INTERVAL);
                }
            }
            port.handle_message();
            if Instant::now() > deadline && !matches!(port.role, Role::Member { joined: true, .. }) {
                return Err(SharedAddressError::NoResponse(ip));
            }
        }
    }

    /// Sends and receives packets through memory instead of datagrams, if the device at the other end has the same
    /// address, and its port has this path too. If the system has no memory or no descriptors for this path, packets
    /// remain datagrams. Call it before the device is opened. A port that is wrapped in another one, for example to
    /// inject faults or to capture packets, must not have this path: packets through memory have no ICRC.
    ///
    /// ```
    /// use rnic_endpoint::port::shared_address::SharedAddressPort;
    /// use rnic_endpoint::Port;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let port = SharedAddressPort::open("127.47.91.3".parse()?)?.with_path_within_host();
    /// assert!(port.has_path_within_host());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_path_within_host(mut self) -> SharedAddressPort {
        let links = Links::new(self.address.ip(), self.slot, self.own_port(), &self.slot_name);
        self.links = Some(Box::new(links));
        self
    }

    /// The queue pair numbers that the device on this port must draw.
    pub fn shard(&self) -> Shard {
        Shard { index: self.slot, count: SLOTS }
    }

    /// The device's own UDP port. A [`Config`](crate::Config) for this device depends on the buffer sizes of this port.
    pub fn udp(&self) -> &UdpPort {
        &self.own
    }

    fn own_port(&self) -> u16 {
        self.own.local_addr().port()
    }

    /// Becomes the broker, or connects to it.
    fn find_role(&mut self) -> Result<(), SharedAddressError> {
        let ip = self.address.ip();
        self.role = Role::Searching { next_attempt: Instant::now() + RETRY_INTERVAL };
        match socket::claim_address(ip) {
            Ok(listener) => {
                let config = UdpConfig { source_ports: 0, ..UdpConfig::default() };
                let public = UdpPort::bind(self.address, &config)?;
                self.directory[self.slot as usize] = self.own_port();
                let directory = self.directory.clone();
                self.role = Role::Broker(Box::new(Broker::new(public, listener, directory, self.slot)));
            }
            Err(Errno::EADDRINUSE) => match self.connect_with_spare() {
                Ok(Ok(link)) => {
                    if socket::send(&link, &message::join_device(self.slot, self.own_port())).is_ok() {
                        self.role = Role::Member { link, joined: false };
                    }
                }
                Ok(Err(owner)) => {
                    let name = socket::broker_name(ip);
                    return Err(SharedAddressError::OtherUser { ip, name, owner: Some(owner) });
                }
                // The broker has just ended, or many processes are connecting to it.
                Err(Errno::ECONNREFUSED | Errno::EAGAIN) => {}
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Connects to the broker. If the broker is in this process, it also needs a descriptor for the connection, without
    /// which it would never respond.
    ///
    /// # Errors
    /// See [`socket::connect`]; also if this process does not have two descriptors left.
    fn connect_with_spare(&self) -> nix::Result<Result<OwnedFd, Owner>> {
        let spare = self.slot_name.try_clone();
        let spare = spare.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
        let link = socket::connect(self.address.ip());
        drop(spare);
        link
    }

    /// Handles one message of the broker. Returns the arrival if the message carries packets.
    fn handle_message(&mut self) -> Option<Received> {
        let Role::Member { link, joined } = &mut self.role else { return None };
        let len = match socket::receive(link, &mut self.message) {
            Ok(len) => len,
            Err(Errno::EAGAIN) => return None,
            Err(_) => 0,
        };
        match message::read(&self.message[..len]) {
            Some(Message::Packets(Arrival { meta, segment, data })) if *joined => {
                return Some(Received { meta, segment, length: data.len() });
            }
            Some(Message::Directory { slot, ports }) if self.slot == slot => {
                self.directory = ports;
                *joined = true;
            }
            // The broker has closed the socket, or violates the protocol.
            _ => self.role = Role::Searching { next_attempt: Instant::now() },
        }
        None
    }

    /// Serves the members as the broker, or searches for a broker if the device has none.
    fn serve(&mut self) {
        match &mut self.role {
            Role::Broker(broker) => {
                broker.serve(&mut self.message);
                broker.send_responses(&mut self.own);
                self.directory.copy_from_slice(broker.directory());
            }
            Role::Searching { next_attempt } if *next_attempt <= Instant::now() => {
                // The next attempt follows after any error: a UDP port in use may become free.
                let _ = self.find_role();
            }
            Role::Member { .. } | Role::Searching { .. } => {}
        }
        if let Some(links) = &mut self.links {
            links.serve(&self.directory, &self.slot_name);
        }
    }

    /// The UDP port of this host to which a packet for a device of the address goes; `None` if no device has the slot.
    fn local_port(&self, slot: Option<u32>) -> Option<u16> {
        let slot = slot?;
        if slot == MANAGERS {
            return Some(ROCE_PORT);
        }
        match self.directory[slot as usize] {
            0 if matches!(self.role, Role::Broker(_)) => None,
            // The broker may already know a device that is not in this directory yet.
            0 => Some(ROCE_PORT),
            port => Some(port),
        }
    }

    /// Receives from one source.
    fn receive_from(&mut self, source: Source) -> io::Result<Option<(Buffer, Received)>> {
        if source == Source::Own {
            let received = self.own.receive_into(&mut self.arrival)?;
            return Ok(received.map(|received| (Buffer::Arrival, received)));
        }
        match &mut self.role {
            Role::Broker(broker) => {
                let Some(received) = broker.receive_into(&mut self.arrival)? else { return Ok(None) };
                let Received { meta, segment, length } = received;
                let arrival = Arrival { meta, segment, data: &self.arrival[..length] };
                if broker.route(&arrival, &mut self.selected) {
                    return Ok(Some((Buffer::Arrival, received)));
                }
                broker.send_responses(&mut self.own);
                Ok(Some((Buffer::Selected, Received { meta, segment, length: self.selected.len() })))
            }
            Role::Member { .. } => Ok(self.handle_message().map(|received| (Buffer::Message, received))),
            Role::Searching { .. } => {
                self.serve();
                Ok(None)
            }
        }
    }

    /// Receives by memory or from a socket. While packets arrive by memory, few calls poll the sockets, and these calls
    /// poll them first.
    fn receive_next(&mut self) -> io::Result<Option<(Buffer, Received)>> {
        if self.links.is_none() {
            return self.receive_datagrams();
        }
        if !self.ring_is_latest || self.ring_polls > 0 {
            self.ring_polls = self.ring_polls.saturating_sub(1);
            if let Some(received) = self.receive_within_host()? {
                self.ring_polls = if self.ring_is_latest { self.ring_polls } else { RING_POLLS };
                self.ring_polls = self.ring_polls.saturating_sub(RING_ARRIVAL);
                self.ring_is_latest = true;
                return Ok(Some((Buffer::Arrival, received)));
            }
            if self.ring_is_latest {
                return Ok(None);
            }
        }
        if let Some(received) = self.receive_datagrams()? {
            self.ring_is_latest = false;
            return Ok(Some(received));
        }
        if !self.ring_is_latest {
            return Ok(None);
        }
        self.ring_polls = RING_POLLS;
        Ok(self.receive_within_host()?.map(|received| (Buffer::Arrival, received)))
    }

    /// Copies the packets of a ring, if one has some, to [`SharedAddressPort::arrival`].
    fn receive_within_host(&mut self) -> io::Result<Option<Received>> {
        let Some(links) = &mut self.links else { return Ok(None) };
        let mut datagrams_are_received = false;
        loop {
            match links.receive(&mut self.arrival, datagrams_are_received) {
                Found::Nothing => return Ok(None),
                Found::Packets(received) => {
                    let packets = received.length.div_ceil(received.segment) as u64;
                    self.within_host.received_batches += 1;
                    self.within_host.received_bytes += received.length as u64;
                    self.within_host.received_segments += packets;
                    return Ok(Some(received));
                }
                Found::AfterDatagrams => {
                    if let Some(received) = self.own.receive_into(&mut self.arrival)? {
                        return Ok(Some(received));
                    }
                    datagrams_are_received = true;
                }
            }
        }
    }

    /// Receives from the source of the latest datagram. Some calls poll the other source first.
    fn receive_datagrams(&mut self) -> io::Result<Option<(Buffer, Received)>> {
        self.receive_calls = self.receive_calls.wrapping_add(1);
        if self.receive_calls.is_multiple_of(SERVE_INTERVAL) {
            self.serve();
        }
        let latest = self.latest_source;
        if self.single_source_polls > 0 {
            self.single_source_polls -= 1;
            return self.receive_from(latest);
        }
        self.single_source_polls = SINGLE_SOURCE_POLLS;
        let other = if latest == Source::Own { Source::Address } else { Source::Own };
        if let Some(received) = self.receive_from(other)? {
            self.latest_source = other;
            return Ok(Some(received));
        }
        self.receive_from(latest)
    }
}

impl Port for SharedAddressPort {
    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn source_port(&self, hash: u32) -> u16 {
        self.own.source_port(hash)
    }

    fn limits(&self) -> Limits {
        self.own.limits()
    }

    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize> {
        self.own.longest_datagram(destination)
    }

    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError> {
        if batch.destination != self.address {
            return self.own.send(batch);
        }
        // The driver passes a batch in one slice. The port sends the datagrams up to the first one for another device,
        // and the driver calls again for the other datagrams.
        let data = batch.data.first().map_or(&[][..], |slice| &slice[..]);
        let slot = slot_of(data);
        let segment = batch.segment.max(1);
        let same = data.chunks(segment).take_while(|packet| slot_of(packet) == slot).count();
        let Some(port) = self.local_port(slot) else {
            return Ok(same.max(1));
        };
        let data = &data[..data.len().min(same * segment)];
        if let (Some(links), Some(slot @ 0..SLOTS)) = (&mut self.links, slot)
            && port != ROCE_PORT
        {
            match links.send(slot, port, batch, data) {
                Sent::Datagrams => {}
                Sent::Full => {
                    self.within_host.blocked += 1;
                    return Ok(0);
                }
                Sent::Taken { dropped } => {
                    if dropped {
                        self.within_host.overflowed += same as u64;
                    } else {
                        self.within_host.sent_batches += 1;
                        self.within_host.sent_bytes += data.len() as u64;
                        self.within_host.sent_segments += same as u64;
                    }
                    return Ok(same);
                }
            }
        }
        let data = [IoSlice::new(data)];
        let destination = SocketAddr::new(self.address.ip(), port);
        self.own.send(&Batch { destination, data: &data, ..*batch })
    }

    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        let Some((buffer, Received { meta, segment, length })) = self.receive_next()? else { return Ok(None) };
        let data = match buffer {
            Buffer::Arrival => &self.arrival[..length],
            Buffer::Selected => &self.selected,
            Buffer::Message => message::packets_in(&self.message, length),
        };
        Ok(Some(Arrival { meta, segment, data }))
    }

    fn has_path_within_host(&self) -> bool {
        self.links.is_some()
    }

    fn stays_within_host(&self, destination: SocketAddr, packet: &[u8]) -> bool {
        let links = self.links.as_ref().filter(|_| destination == self.address);
        links.zip(slot_of(packet)).is_some_and(|(links, slot)| links.reaches(slot))
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()> {
        self.ring_is_latest = false;
        if self.links.as_ref().is_some_and(|links| !links.fall_asleep()) {
            return Ok(());
        }
        let time = |duration: Duration| Time::from_ns(duration.as_nanos() as u64);
        let (mut others, max): (Vec<BorrowedFd<'_>>, _) = match &self.role {
            Role::Broker(broker) if broker.has_backlog() => (broker.descriptors().collect(), Some(Time::from_us(200))),
            Role::Broker(broker) => (broker.descriptors().collect(), broker.next_expiry().map(time)),
            Role::Member { link, .. } => (vec![link.as_fd()], None),
            Role::Searching { .. } => (Vec::new(), Some(time(RETRY_INTERVAL))),
        };
        let mut watched = Vec::new();
        let first_link = others.len();
        let mut for_room = None;
        if let Some(links) = &self.links {
            for_room = (interest == Interest::ArrivalOrRoom && links.is_blocked()).then_some(MAX_WAIT_FOR_ROOM);
            for (what, descriptor) in links.descriptors(&self.slot_name) {
                watched.push(what);
                others.push(descriptor);
            }
        }
        let timeout = [timeout, max, for_room].into_iter().flatten().min();
        let ready = self.own.wait_for(interest, timeout, &others);
        if let Some(links) = &mut self.links {
            let ready = ready.as_deref().unwrap_or_default().iter().filter_map(|index| index.checked_sub(first_link));
            links.wake_up(ready.filter_map(|index| watched.get(index).copied()));
        }
        ready?;
        self.single_source_polls = 0;
        self.serve();
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.own.waker()
    }

    fn counters(&self) -> Counters {
        let mut counters = self.own.counters();
        let within = &self.within_host;
        counters.sent_batches += within.sent_batches;
        counters.sent_segments += within.sent_segments;
        counters.sent_bytes += within.sent_bytes;
        counters.sent_within_host += within.sent_segments;
        counters.blocked += within.blocked;
        counters.received_batches += within.received_batches;
        counters.received_segments += within.received_segments;
        counters.received_bytes += within.received_bytes;
        counters.received_within_host += within.received_segments;
        counters.overflowed += within.overflowed;
        if let Role::Broker(broker) = &self.role {
            broker.add_counters(&mut counters);
        }
        counters
    }
}
