//! The port of a process that shares an IP address, and its UDP port 4791, with other processes of the same user.
//!
//! Each opened device of each process has a *slot*, and draws only queue pair numbers (QPNs) that leave the slot as the
//! remainder when divided by [`SLOTS`]. So the QPN of a packet tells for which process it is. A name in the abstract
//! namespace of Unix sockets keeps the slot for the process as long as it lives. Every process receives at
//! a UDP port of its own. One of them, the *broker*, also has UDP port 4791:
//!
//! - Packets between two processes of one address go directly to the receiver's own port, which the broker has told to
//!   all processes. Their ICRC is computed as if they went to port 4791.
//! - Packets from other addresses arrive at the broker, which handles its own, and hands the others over through a Unix
//!   socket.
//! - Every process sends by itself, from source ports of its own.
//!
//! Packets to queue pair 1 are for the communication managers of the processes ([`MadPort`]), which are members of the
//! broker as well. The broker hands them over by the service ID or the communication ID in their message, and answers
//! those that nobody wants.
//!
//! If the broker ends, the processes notice it at once by their sockets, and the first of them takes its place. Packets
//! that arrive in between are lost, and loss recovery retransmits them. `docs/adr/0028-verbs-of-many-processes.md`
//! compares this design with others.

#![expect(clippy::disallowed_methods, reason = "processes wait for each other, by the time of day")]

mod broker;
mod capture;
mod closing;
mod ledger;
mod mads;
mod message;
mod socket;

pub(crate) use capture::{CaptureFile, CapturePort, begin};
pub(crate) use ledger::Ledger;
pub(crate) use mads::{Claims, MadPort, MadSender};

use broker::Broker;
use message::{Directory, Message};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rnic_endpoint::port::{
    Arrival, Batch, BindError, Counters, Interest, Limits, Port, ROCE_PORT, SendError, UdpConfig,
};
use rnic_endpoint::{Time, UdpPort};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Maximum number of opened devices on one address, over all processes. Each has 16,384 queue pair numbers.
pub(crate) const SLOTS: u32 = 1_024;

/// How long a process waits for the broker to let it join.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before the next attempt to find or to become the broker.
const PAUSE: Duration = Duration::from_millis(5);
/// Calls of `receive` after which a port under load looks at its Unix sockets.
const TURNS: u32 = 64;
/// Calls of `receive` that look only where the last packet came from, between two that look at both sources. Each look
/// is a system call, which a ping-pong would wait for at each poll.
const FAITHFUL: u32 = 7;

/// Stands for a slot: the packet is for queue pair 1, and the broker looks for the communication manager.
const MANAGERS: u32 = u32::MAX;

/// The slot of the process for which a packet is, or [`MANAGERS`]; `None` if it is too short for a packet.
fn slot_of(packet: &[u8]) -> Option<u32> {
    let qpn = packet.get(5..8)?;
    if rnic_cm::packet::is_for_manager(packet) {
        return Some(MANAGERS);
    }
    Some(u32::from_be_bytes([0, qpn[0], qpn[1], qpn[2]]) % SLOTS)
}

/// A slot that no process has, and what keeps it. The search begins at a place that depends on the port, so that a new
/// process hardly gets the slot of a process that has just gone, whose packets may still be on their way.
fn find_slot(ip: IpAddr, port: u16) -> Result<(u32, OwnedFd), OpenError> {
    for step in 0..SLOTS {
        let slot = (u32::from(port) * 7 + step) % SLOTS;
        match socket::claim_slot(ip, slot) {
            Ok(claimed) => return Ok((slot, claimed)),
            Err(Errno::EADDRINUSE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(OpenError::Full(ip))
}

/// Sends what the broker answers to messages for no manager.
fn send_answers(broker: &mut Broker, port: &mut UdpPort) {
    for (peer, mad) in broker.answers.drain(..) {
        // As all answers, it may be lost.
        let _ = mads::send(port, peer, &mad, 0);
    }
}

/// Whether a process of this user is the broker of an address.
pub(crate) fn is_shared(ip: IpAddr) -> bool {
    socket::join(ip).is_ok()
}

/// What a process is among those of its address.
enum Role {
    /// It has UDP port 4791.
    Broker(Box<Broker>),
    /// It is connected to the broker. The flag says whether the broker has let it join.
    Member(OwnedFd, bool),
    /// The broker has gone. The process looks for the next one, or becomes it, at this time.
    Orphan(Instant),
}

/// Why a port cannot be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    Bind(BindError),
    /// The process that has the address belongs to another user.
    OtherUser(IpAddr),
    /// The process that has the address does not answer.
    Silent(IpAddr),
    /// All slots are taken.
    Full(IpAddr),
    System(Errno),
}

impl OpenError {
    /// The number of the error in C.
    pub(crate) fn number(&self) -> libc::c_int {
        match self {
            OpenError::Bind(_) => libc::EADDRNOTAVAIL,
            OpenError::OtherUser(_) => libc::EACCES,
            OpenError::Silent(_) => libc::ETIMEDOUT,
            OpenError::Full(_) => libc::ENOSPC,
            OpenError::System(error) => *error as libc::c_int,
        }
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OpenError::Bind(error) => write!(f, "{error}"),
            OpenError::OtherUser(ip) => {
                write!(f, "a process of another user has the device of {ip}; use another address")
            }
            OpenError::Silent(ip) => write!(
                f,
                "the process that receives for {ip} does not answer; perhaps it is stopped, by a debugger for example"
            ),
            OpenError::Full(ip) => write!(f, "{SLOTS} devices are open on {ip}, and no more are possible"),
            OpenError::System(error) => write!(f, "a system call failed: {}", error.desc()),
        }
    }
}

impl From<Errno> for OpenError {
    fn from(error: Errno) -> OpenError {
        OpenError::System(error)
    }
}

/// The port of one opened device.
pub(crate) struct SharedPort {
    /// The address with UDP port 4791.
    address: SocketAddr,
    /// The port at which processes of the same address reach this one, and from which it sends.
    own: UdpPort,
    slot: u32,
    /// Keeps the slot from all other processes.
    _slot: OwnedFd,
    role: Role,
    /// The ports of all processes of the address.
    directory: Box<Directory>,
    /// A message of the broker or of a member.
    buffer: Vec<u8>,
    /// The packets for this process among those that the broker has just handed over.
    mine: Vec<u8>,
    turn: u32,
    /// Whether the last packet came from another host, by way of the broker's socket or link.
    outside: bool,
    /// Calls of `receive` that may still look at one source only.
    faithful: u32,
}

impl SharedPort {
    /// Joins the processes of the address `ip`, or becomes its broker.
    ///
    /// # Errors
    /// [`OpenError`] says why.
    pub(crate) fn open(ip: IpAddr) -> Result<SharedPort, OpenError> {
        let config = UdpConfig { source_ports: 4, ..UdpConfig::default() };
        let own = UdpPort::bind(SocketAddr::new(ip, 0), &config).map_err(OpenError::Bind)?;
        let address = SocketAddr::new(ip, ROCE_PORT);
        let (slot, claimed) = find_slot(ip, own.local_addr().port())?;
        let mut port = SharedPort {
            address,
            own,
            slot,
            _slot: claimed,
            role: Role::Orphan(Instant::now()),
            directory: Box::new([0; SLOTS as usize]),
            buffer: vec![0; message::LONGEST],
            mine: Vec::new(),
            turn: 0,
            outside: false,
            faithful: 0,
        };
        let until = Instant::now() + PATIENCE;
        loop {
            if let Role::Orphan(_) = port.role {
                port.find_role()?;
            }
            match &port.role {
                Role::Broker(_) | Role::Member(_, true) => return Ok(port),
                Role::Member(link, false) => {
                    let left = until.saturating_duration_since(Instant::now()).as_millis() as u16;
                    let mut link = [PollFd::new(link.as_fd(), PollFlags::POLLIN)];
                    let _ = poll(&mut link, PollTimeout::from(left));
                }
                Role::Orphan(_) => std::thread::sleep(PAUSE),
            }
            port.look_at_link();
            if Instant::now() > until && !matches!(port.role, Role::Member(_, true)) {
                return Err(OpenError::Silent(ip));
            }
        }
    }

    /// The slot, which the device's queue pair numbers must have.
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// The port of this process alone, for its sizes.
    pub(crate) fn own(&self) -> &UdpPort {
        &self.own
    }

    fn own_port(&self) -> u16 {
        self.own.local_addr().port()
    }

    /// Becomes the broker, or connects to it.
    fn find_role(&mut self) -> Result<(), OpenError> {
        let ip = self.address.ip();
        self.role = Role::Orphan(Instant::now() + PAUSE);
        match socket::claim(ip) {
            Ok(listener) => {
                let config = UdpConfig { source_ports: 0, ..UdpConfig::default() };
                let public = UdpPort::bind(self.address, &config).map_err(OpenError::Bind)?;
                self.directory[self.slot as usize] = self.own_port();
                let directory = self.directory.clone();
                self.role = Role::Broker(Box::new(Broker::new(public, listener, directory, self.slot)));
            }
            Err(Errno::EADDRINUSE) => match socket::join(ip) {
                Ok(link) => {
                    if socket::put(&link, &message::hello(self.slot, self.own_port())).is_ok() {
                        self.role = Role::Member(link, false);
                    }
                }
                Err(Errno::EPERM) => return Err(OpenError::OtherUser(ip)),
                // The broker has just gone, or has many processes that want to join.
                Err(Errno::ECONNREFUSED | Errno::EAGAIN) => {}
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Handles one message of the broker. Returns the length of the message in `buffer` if it carries packets.
    fn look_at_link(&mut self) -> Option<usize> {
        let Role::Member(link, joined) = &mut self.role else { return None };
        let len = match socket::take(link, &mut self.buffer) {
            Ok(len) => len,
            Err(Errno::EAGAIN) => return None,
            Err(_) => 0,
        };
        match message::read(&self.buffer[..len]) {
            Some(Message::Packets(_)) if *joined => return Some(len),
            Some(Message::Directory { slot, ports }) if self.slot == slot => {
                self.directory = ports;
                *joined = true;
            }
            // The broker has gone.
            _ => self.role = Role::Orphan(Instant::now()),
        }
        None
    }

    /// Serves other processes as the broker, or looks for a broker if there is none.
    fn look_around(&mut self) {
        match &mut self.role {
            Role::Broker(broker) => {
                broker.serve(&mut self.buffer);
                send_answers(broker, &mut self.own);
                self.directory.copy_from_slice(&broker.directory[..]);
            }
            Role::Orphan(at) if *at <= Instant::now() => {
                // Another attempt follows whatever the error: the port in use may become free.
                let _ = self.find_role();
            }
            Role::Member(..) | Role::Orphan(_) => {}
        }
    }

    /// Where a packet to the address itself goes: the port of the process with this slot. `None`: there is none.
    fn local_port(&self, slot: Option<u32>) -> Option<u16> {
        let slot = slot?;
        if slot == MANAGERS {
            return Some(ROCE_PORT);
        }
        match self.directory[slot as usize] {
            0 if matches!(self.role, Role::Broker(_)) => None,
            // The process may be so new that only the broker knows it.
            0 => Some(ROCE_PORT),
            port => Some(port),
        }
    }
}

/// Gives an arrival another lifetime.
///
/// # Safety
/// The caller must not use the port from which the arrival comes during this lifetime.
unsafe fn outlive<'a>(arrival: Arrival<'_>) -> Arrival<'a> {
    // SAFETY: only the lifetime of the type changes; the caller promises that the bytes stay as they are.
    unsafe { std::mem::transmute(arrival) }
}

impl Port for SharedPort {
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
        // The driver hands over batches in one piece. The port takes the datagrams up to the first one for another
        // process; for the others the driver calls again.
        let data = batch.data.first().map_or(&[][..], |slice| &slice[..]);
        let slot = slot_of(data);
        let segment = batch.segment.max(1);
        let same = data.chunks(segment).take_while(|packet| slot_of(packet) == slot).count();
        let Some(port) = self.local_port(slot) else {
            return Ok(same.max(1));
        };
        let data = [IoSlice::new(&data[..data.len().min(same * segment)])];
        let destination = SocketAddr::new(self.address.ip(), port);
        self.own.send(&Batch { destination, data: &data, ..*batch })
    }

    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        self.turn = self.turn.wrapping_add(1);
        if self.turn.is_multiple_of(TURNS) {
            self.look_around();
        }
        // A source that has packets comes first, and at most `FAITHFUL` times in a row alone.
        let first = self.outside;
        let both = self.faithful == 0;
        self.faithful = if both { FAITHFUL } else { self.faithful - 1 };
        for outside in [!first, first].into_iter().skip(usize::from(!both)) {
            if !outside {
                if let Some(arrival) = self.own.receive()? {
                    self.outside = false;
                    // SAFETY: the arrival is returned, and its lifetime is that of the borrow of `self`, so that nobody
                    // uses the port until it ends. The compiler does not accept the conditional return without it.
                    return Ok(Some(unsafe { outlive(arrival) }));
                }
                continue;
            }
            match &mut self.role {
                Role::Broker(broker) => {
                    let (public, mut members) = broker.parts();
                    let Some(arrival) = public.receive()? else { continue };
                    // SAFETY: as above; `members` and `mine` are not parts of the public port.
                    let arrival: Arrival<'_> = unsafe { outlive(arrival) };
                    self.outside = true;
                    if Broker::hand_over(&mut members, &arrival, self.slot, &mut self.mine) {
                        return Ok(Some(arrival));
                    }
                    let Arrival { meta, segment, .. } = arrival;
                    send_answers(broker, &mut self.own);
                    return Ok(Some(Arrival { meta, segment, data: &self.mine }));
                }
                Role::Member(..) => {
                    let Some(len) = self.look_at_link() else { continue };
                    self.outside = true;
                    match message::read(&self.buffer[..len]) {
                        // SAFETY: as above, for the buffer.
                        Some(Message::Packets(arrival)) => return Ok(Some(unsafe { outlive(arrival) })),
                        _ => continue,
                    }
                }
                Role::Orphan(_) => self.look_around(),
            }
        }
        Ok(None)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()> {
        let time = |pause: Duration| Time::from_ns(pause.as_nanos() as u64);
        let pause = time(PAUSE);
        let (others, most): (Vec<BorrowedFd<'_>>, _) = match &self.role {
            Role::Broker(broker) if broker.has_backlog() => (broker.descriptors().collect(), Some(Time::from_us(200))),
            Role::Broker(broker) => (broker.descriptors().collect(), broker.next_answer().map(time)),
            Role::Member(link, _) => (vec![link.as_fd()], None),
            Role::Orphan(_) => (Vec::new(), Some(pause)),
        };
        self.own.wait_too(interest, [timeout, most].into_iter().flatten().min(), &others)?;
        self.faithful = 0;
        self.look_around();
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.own.waker()
    }

    fn counters(&self) -> Counters {
        let mut counters = self.own.counters();
        if let Role::Broker(broker) = &self.role {
            let public = broker.public.counters();
            counters.received_batches += public.received_batches;
            counters.received_segments += public.received_segments;
            counters.received_bytes += public.received_bytes;
            counters.overflowed += public.overflowed + broker.dropped;
            counters.malformed += public.malformed;
        }
        counters
    }
}
