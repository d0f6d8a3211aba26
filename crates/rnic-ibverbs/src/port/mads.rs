//! Queue pair 1: the packets of a process's communication manager on one address.
//!
//! The manager sends from a UDP port of its own, whose number is the lower half of its communication IDs. It receives
//! from the broker of the address, over a Unix socket: the broker knows which service IDs it has claimed.

use super::ledger::Ledger;
use super::message::{self, Message};
use super::{CaptureFile, PAUSE, ROCE_PORT, closing, outlive, socket};
use crate::entry::lock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use rnic_cm::message::MadBytes;
use rnic_cm::packet;
use rnic_endpoint::port::{Arrival, Batch, Counters, Interest, Limits, Port, SendError, TrafficClass, UdpConfig};
use rnic_endpoint::{Time, UdpPort};
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// How long a program waits for the broker to let it join, and for its answer about a service ID.
const PATIENCE: Duration = Duration::from_secs(3);

/// Ledgers of other managers that a manager or a broker has.
pub(super) const LEDGERS: usize = 256;
/// UDP ports that a new manager tries. The name of one may still belong to somebody who ends the connections of the
/// manager that had it before.
const ATTEMPTS: u32 = 16;

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
        // A full send buffer is as good as a lost packet: the manager retransmits.
        Ok(_) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// The sending half.
pub(crate) struct MadSender {
    port: UdpPort,
    /// Says that the manager exists.
    _name: OwnedFd,
    capture: Option<CaptureFile>,
    psn: u32,
}

impl MadSender {
    /// # Errors
    /// A sentence, if there is no UDP port.
    pub(crate) fn open(ip: IpAddr, capture: Option<CaptureFile>) -> Result<MadSender, String> {
        let config = UdpConfig { source_ports: 0, receive_buffer: 0, ..UdpConfig::default() };
        let mut attempt = 1;
        loop {
            let port = UdpPort::bind(SocketAddr::new(ip, 0), &config).map_err(|error| error.to_string())?;
            match socket::claim_manager(ip, port.local_addr().port()) {
                Ok(name) => return Ok(MadSender { port, _name: name, capture, psn: 0 }),
                Err(nix::errno::Errno::EADDRINUSE) if attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(format!("a Unix socket cannot be bound: {}", error.desc())),
            }
        }
    }

    /// The lower half of the communication IDs of this process on this address: no other process has it.
    pub(crate) fn mark(&self) -> u16 {
        self.port.local_addr().port()
    }

    /// Sends a MAD to UDP port 4791 of `peer`.
    ///
    /// # Errors
    /// The peer has no route, or is not of the same family.
    pub(crate) fn send(&mut self, peer: IpAddr, mad: &MadBytes) -> io::Result<()> {
        self.psn = (self.psn + 1) & rnic_wire::MAX_24;
        if let Some(file) = &self.capture {
            let source = SocketAddr::new(self.port.local_addr().ip(), self.port.source_port(0));
            if let Some(bytes) = packet::emit(mad, self.psn, source, peer) {
                super::capture::sent(file, source, SocketAddr::new(peer, ROCE_PORT), &bytes);
            }
        }
        send(&mut self.port, peer, mad, self.psn)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Claim {
    Wanted,
    Asked,
    Granted,
    Refused,
    Released,
}

/// A service ID of this process.
struct Entry {
    claim: Claim,
    /// Whether other identifiers may have it too (`RDMA_OPTION_ID_REUSEADDR`).
    shared: bool,
    /// Identifiers of this process that have it.
    count: u32,
}

impl Entry {
    fn is_open(&self) -> bool {
        matches!(self.claim, Claim::Wanted | Claim::Asked)
    }
}

/// The service IDs that a manager has, or wants.
#[derive(Default)]
pub(crate) struct Claims {
    table: Mutex<BTreeMap<u64, Entry>>,
    changed: Condvar,
}

type Table<'a> = MutexGuard<'a, BTreeMap<u64, Entry>>;

impl Claims {
    /// Asks for a service ID, and waits for the answer of the broker, which the thread that receives gets. `shared`: as
    /// long as nobody listens, others who say so may have it as well.
    ///
    /// # Errors
    /// `EADDRINUSE`; `ETIMEDOUT` if there is no broker.
    pub(crate) fn claim(&self, service: u64, shared: bool, receiver: &Waker) -> Result<(), i32> {
        let mut table = lock(&self.table);
        if let Some(entry) = table.get_mut(&service).filter(|entry| entry.claim != Claim::Released) {
            if !(shared && entry.shared && entry.claim == Claim::Granted) {
                return Err(libc::EADDRINUSE);
            }
            entry.count += 1;
            return Ok(());
        }
        table.insert(service, Entry { claim: Claim::Wanted, shared, count: 1 });
        let (mut table, claim) = self.await_answer(table, service, receiver);
        match claim {
            Some(Claim::Granted) => Ok(()),
            Some(Claim::Refused) => {
                table.remove(&service);
                Err(libc::EADDRINUSE)
            }
            _ => {
                table.insert(service, Entry { claim: Claim::Released, shared, count: 0 });
                Err(libc::ETIMEDOUT)
            }
        }
    }

    /// Makes a claimed service ID exclusive, since an identifier is going to listen on it.
    ///
    /// # Errors
    /// `EADDRINUSE` if others share it; `ETIMEDOUT` if there is no broker.
    pub(crate) fn listen(&self, service: u64, receiver: &Waker) -> Result<(), i32> {
        let mut table = lock(&self.table);
        let entry = table.get_mut(&service).filter(|entry| entry.claim != Claim::Released).ok_or(libc::EINVAL)?;
        match entry {
            Entry { shared: false, .. } => return Ok(()),
            Entry { count: 2.., .. } => return Err(libc::EADDRINUSE),
            entry => (entry.claim, entry.shared) = (Claim::Wanted, false),
        }
        let (mut table, claim) = self.await_answer(table, service, receiver);
        if claim == Some(Claim::Granted) {
            return Ok(());
        }
        // It is shared as before.
        if let Some(entry) = table.get_mut(&service) {
            (entry.claim, entry.shared) = (Claim::Wanted, true);
            receiver.wake_by_ref();
        }
        Err(if claim == Some(Claim::Refused) { libc::EADDRINUSE } else { libc::ETIMEDOUT })
    }

    fn await_answer<'a>(&self, table: Table<'a>, service: u64, receiver: &Waker) -> (Table<'a>, Option<Claim>) {
        receiver.wake_by_ref();
        let is_open = |table: &mut BTreeMap<u64, Entry>| table.get(&service).is_some_and(Entry::is_open);
        let waited = self.changed.wait_timeout_while(table, PATIENCE, is_open);
        let (table, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        let claim = table.get(&service).map(|entry| entry.claim);
        (table, claim)
    }

    /// An identifier gives a service ID back.
    pub(crate) fn release(&self, service: u64, receiver: &Waker) {
        if let Some(entry) = lock(&self.table).get_mut(&service) {
            entry.count = entry.count.saturating_sub(1);
            if entry.count == 0 {
                entry.claim = Claim::Released;
            }
        }
        receiver.wake_by_ref();
    }
}

/// Ends the receiver's sleep.
struct Bell(EventFd);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.write(1);
    }
}

/// The receiving half.
pub(crate) struct MadPort {
    address: SocketAddr,
    mark: u16,
    claims: Arc<Claims>,
    /// The connections of this manager, for processes that survive it.
    ledger: Option<Arc<Ledger>>,
    /// Those of other managers, if this one is a deputy of the broker.
    deposits: BTreeMap<u16, Ledger>,
    /// The connection to the broker; or there is none, and the next attempt is at this time.
    link: Result<OwnedFd, Instant>,
    /// Whether the broker has let the manager join.
    joined: bool,
    bell: Arc<Bell>,
    buffer: Vec<u8>,
}

impl MadPort {
    /// The port of the manager with this mark. It has joined the broker, so that responses to what the manager sends
    /// find it.
    ///
    /// # Errors
    /// The system has no file descriptors, or the broker does not answer.
    pub(crate) fn open(ip: IpAddr, mark: u16, claims: Arc<Claims>, ledger: Option<Arc<Ledger>>) -> io::Result<MadPort> {
        let mut port = MadPort::new(ip, mark, claims, ledger)?;
        let until = Instant::now() + PATIENCE;
        while !port.joined {
            if Instant::now() > until {
                let why = "the process that receives for the address does not answer; perhaps it is stopped";
                return Err(io::Error::other(why));
            }
            port.receive()?;
            if !port.joined {
                port.wait(Interest::Arrival, Some(Time::from_ms(100)))?;
            }
        }
        Ok(port)
    }

    /// The port of a manager that has no connections, and joins each broker of the address.
    ///
    /// # Errors
    /// The system has no file descriptors.
    pub(crate) fn keeper(ip: IpAddr, mark: u16, ledger: Option<Arc<Ledger>>) -> io::Result<MadPort> {
        MadPort::new(ip, mark, Arc::default(), ledger)
    }

    /// Whether there is a broker that has let the manager join.
    pub(crate) fn has_joined(&self) -> bool {
        self.joined
    }

    fn new(ip: IpAddr, mark: u16, claims: Arc<Claims>, ledger: Option<Arc<Ledger>>) -> io::Result<MadPort> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(MadPort {
            address: SocketAddr::new(ip, ROCE_PORT),
            mark,
            claims,
            ledger,
            deposits: BTreeMap::new(),
            link: Err(Instant::now()),
            joined: false,
            bell: Arc::new(Bell(bell)),
            buffer: vec![0; message::LONGEST],
        })
    }

    fn lose_link(&mut self) {
        self.link = Err(Instant::now() + PAUSE);
        self.joined = false;
        // Other managers may have died together with the broker. Those that live join the next one, as this one does.
        for (mark, ledger) in std::mem::take(&mut self.deposits) {
            closing::begin(self.address.ip(), mark, ledger);
        }
        for entry in lock(&self.claims.table).values_mut() {
            if matches!(entry.claim, Claim::Asked | Claim::Granted) {
                entry.claim = Claim::Wanted;
            }
        }
    }

    /// Looks for the broker if there is none, and tells it which service IDs the manager wants.
    fn look_around(&mut self) {
        if matches!(&self.link, Err(at) if *at <= Instant::now()) {
            let joined = socket::join(self.address.ip());
            self.link = Err(Instant::now() + PAUSE);
            let introduce = |link: &OwnedFd| match &self.ledger {
                Some(ledger) => socket::put_with(link, &message::manager(self.mark), &**ledger),
                None => socket::put(link, &message::manager(self.mark)),
            };
            if let Ok(link) = joined
                && introduce(&link).is_ok()
            {
                self.link = Ok(link);
            }
        }
        let Ok(link) = &self.link else { return };
        // With the queue full, the rest is said later.
        lock(&self.claims.table).retain(|service, entry| match entry.claim {
            Claim::Wanted => {
                if socket::put(link, &message::claim(*service, entry.shared)).is_ok() {
                    entry.claim = Claim::Asked;
                }
                true
            }
            Claim::Released => socket::put(link, &message::release(*service)).is_err(),
            Claim::Asked | Claim::Granted | Claim::Refused => true,
        });
    }
}

impl Port for MadPort {
    fn local_addr(&self) -> SocketAddr {
        self.address
    }
    fn source_port(&self, _: u32) -> u16 {
        self.mark
    }
    fn limits(&self) -> Limits {
        Limits { segments: 1, bytes: packet::LEN }
    }
    fn longest_datagram(&self, _: SocketAddr) -> io::Result<usize> {
        Ok(packet::LEN)
    }

    /// [`MadSender`] sends.
    fn send(&mut self, _: &Batch<'_>) -> Result<usize, SendError> {
        Err(SendError::Empty)
    }

    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        self.look_around();
        let Ok(link) = &self.link else { return Ok(None) };
        let (len, file) = match socket::take_with(link, &mut self.buffer) {
            Ok(got) => got,
            Err(nix::errno::Errno::EAGAIN) => return Ok(None),
            Err(_) => (0, None),
        };
        match message::read(&self.buffer[..len]) {
            // SAFETY: the arrival is returned, and its lifetime is that of the borrow of `self`, so that nobody changes
            // the buffer until it ends. The compiler does not accept the conditional return without it.
            Some(Message::Packets(arrival)) => return Ok(Some(unsafe { outlive(arrival) })),
            Some(Message::Claimed { service, granted }) => {
                let mut table = lock(&self.claims.table);
                if let Some(entry) = table.get_mut(&service).filter(|entry| entry.claim == Claim::Asked) {
                    entry.claim = if granted { Claim::Granted } else { Claim::Refused };
                }
                drop(table);
                self.claims.changed.notify_all();
            }
            Some(Message::Joined) => self.joined = true,
            Some(Message::Ledger { mark }) => {
                if let Some(ledger) = file.and_then(Ledger::received)
                    && mark != self.mark
                    && (self.deposits.len() < LEDGERS || self.deposits.contains_key(&mark))
                {
                    self.deposits.insert(mark, ledger);
                }
            }
            Some(Message::Forget { mark }) => drop(self.deposits.remove(&mark)),
            // The broker has gone.
            _ => self.lose_link(),
        }
        Ok(None)
    }

    fn wait(&mut self, _: Interest, timeout: Option<Time>) -> io::Result<()> {
        let pause = self.link.as_ref().err().map(|_| Time::from_ms(PAUSE.as_millis() as u64));
        let timeout = [timeout, pause].into_iter().flatten().min();
        let timeout = timeout.map_or(PollTimeout::NONE, |time| {
            let ms = time.as_ps().div_ceil(Time::from_ms(1).as_ps());
            PollTimeout::try_from(ms.min(60_000) as i32).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = vec![PollFd::new(self.bell.0.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.link.as_ref().ok().map(|link| PollFd::new(link.as_fd(), PollFlags::POLLIN)));
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        // It is non-blocking, and fails if nobody has rung.
        let _ = self.bell.0.read();
        Ok(())
    }

    fn waker(&self) -> Waker {
        Waker::from(self.bell.clone())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}
