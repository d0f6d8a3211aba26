//! Ends the connections of managers whose process was killed. A thread of another process takes over their manager IDs,
//! and sends a DREQ for each entry of their connection lists.
//!
//! A process may lose its connection to the broker, or get no processor time, and still exist. So the thread first
//! claims the manager's name. If it gets the name, the manager no longer exists, and no other process ends its
//! connections at the same time. The thread joins the broker with the manager ID, so that the responses of the peers
//! arrive.
//!
//! ```text
//!                name claimed                     all peers responded,
//!   Candidate ────────────────────▶ Takeover ────────────────────────────▶ done
//!       │                                         or 15 retransmissions
//!       └─ name in use for 10 s: the manager exists; or its list is empty ─▶ discarded
//! ```

use super::connection_list::ConnectionList;
use super::message::{self, Message};
use super::{mads, socket};
use crate::port::{UdpConfig, UdpPort};
use crate::sync::lock;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rnic_cm::connection_list::{Disconnector, ENTRY_LEN};
use rnic_cm::packet;
use rnic_transport::Time;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Maximum number of candidates. If there are more, the thread ignores the further managers; the peers of an ignored
/// manager detect its end by their probes.
const MAX_CANDIDATES: usize = 256;
/// Maximum number of concurrent takeovers. Each has four descriptors.
const MAX_TAKEOVERS: usize = 16;
/// How long the thread tries to claim the name of a manager. The system closes the descriptors of a process one after
/// the other, and a process that exists keeps the name.
const CLAIM_TIME: Duration = Duration::from_secs(10);
/// Time between two attempts to claim a name: the first value and the maximum. It doubles after each attempt.
const CLAIM_INTERVALS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(500));
/// How long the thread waits for a broker before it sends. Without a broker no response arrives.
const JOIN_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum number of messages that the thread sends, and receives, consecutively for one takeover.
const BURST: usize = 64;
/// Time in milliseconds for which the thread waits: normally, and between two bursts.
const WAITS: (u16, u16) = (10, 1);

/// The result of a takeover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakeoverReport {
    /// The address of the manager that no longer exists.
    pub ip: IpAddr,
    /// Number of connections in the list of the manager.
    pub connections: usize,
    /// Number of connections whose peers did not respond to the DREQ.
    pub unanswered: usize,
}

static OBSERVER: OnceLock<fn(TakeoverReport)> = OnceLock::new();

/// Sets the function that gets the result of each takeover of this process, for a trace. Only the first call has an
/// effect.
pub fn observe_takeovers(observer: fn(TakeoverReport)) {
    let _ = OBSERVER.set(observer);
}

/// A manager that has lost its connection to the broker, and may have ended.
struct Candidate {
    ip: IpAddr,
    manager: u16,
    list: ConnectionList,
    /// When the thread stops trying to claim the name.
    expires: Instant,
    next_attempt: Instant,
    interval: Duration,
}

/// The candidates that the thread has not processed yet.
struct Queue {
    /// The process to which the queue belongs: a child made by `fork` has a copy of the queue, but no thread.
    process: u32,
    /// Whether the thread runs.
    running: bool,
    candidates: Vec<Candidate>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { process: 0, running: false, candidates: Vec::new() });

/// Ends the connections of a manager, unless the manager still exists.
pub(super) fn begin(ip: IpAddr, manager: u16, list: ConnectionList) {
    let mut queue = lock(&QUEUE);
    let process = std::process::id();
    if queue.process != process {
        *queue = Queue { process, running: false, candidates: Vec::new() };
    }
    if queue.candidates.len() >= MAX_CANDIDATES {
        return;
    }
    let now = Instant::now();
    let (expires, interval) = (now + CLAIM_TIME, CLAIM_INTERVALS.0);
    queue.candidates.push(Candidate { ip, manager, list, expires, next_attempt: now, interval });
    if !queue.running {
        let thread = std::thread::Builder::new().name("rnic-closing".to_string()).spawn(run);
        queue.running = thread.is_ok();
        if !queue.running {
            queue.candidates.clear();
        }
    }
}

/// A manager that no longer exists, and whose connections are being ended.
struct Takeover {
    ip: IpAddr,
    manager: u16,
    list: ConnectionList,
    disconnector: Disconnector,
    /// Number of connections at the beginning.
    connections: usize,
    port: UdpPort,
    psn: u32,
    link: Option<OwnedFd>,
    joined: bool,
    /// When the thread begins to send even if no broker has admitted it.
    send_at: Instant,
    /// Claims the name of the manager.
    _name: OwnedFd,
}

impl Candidate {
    /// Takes over the manager ID if the manager no longer exists. `Ok(None)` if the candidate is discarded; `Err`
    /// contains the candidate, for the next attempt.
    fn take_over(mut self, now: Instant, time: Time) -> Result<Option<Takeover>, Candidate> {
        let read = |list: &ConnectionList| Disconnector::new(time, self.ip, self.manager, &list.read());
        if read(&self.list).is_empty() {
            return Ok(None);
        }
        let name = match socket::claim_manager(self.ip, self.manager) {
            Ok(name) => name,
            Err(Errno::EADDRINUSE) if now < self.expires => {
                self.next_attempt = now + self.interval;
                self.interval = (self.interval * 2).min(CLAIM_INTERVALS.1);
                return Err(self);
            }
            Err(_) => return Ok(None),
        };
        let config = UdpConfig { source_ports: 0, receive_buffer: 0, ..UdpConfig::default() };
        let Ok(port) = UdpPort::bind(SocketAddr::new(self.ip, 0), &config) else { return Ok(None) };
        // The manager may have changed the list until it ended. Its name became free only after its end, so read the
        // list again.
        let disconnector = read(&self.list);
        Ok(Some(Takeover {
            ip: self.ip,
            manager: self.manager,
            connections: disconnector.len(),
            disconnector,
            list: self.list,
            port,
            psn: 0,
            link: None,
            joined: false,
            send_at: now + JOIN_TIMEOUT,
            _name: name,
        }))
    }
}

impl Takeover {
    /// Receives responses, and sends the messages that are due. Returns whether more messages are due now.
    fn advance(&mut self, now: Instant, time: Time, buffer: &mut [u8]) -> bool {
        self.receive(buffer);
        while let Some(slot) = self.disconnector.poll_disconnected() {
            // Empty the slot, so that another process does not repeat the DREQ if this process is killed too.
            let _ = self.list.write(slot, &[0; ENTRY_LEN]);
        }
        if !self.joined && now < self.send_at {
            return false;
        }
        self.disconnector.on_deadline(time);
        for _ in 0..BURST {
            let Some(message) = self.disconnector.poll_transmit() else { return false };
            self.psn = (self.psn + 1) & rnic_wire::MAX_24;
            // A message that cannot be sent is handled like a lost one.
            let _ = mads::send(&mut self.port, message.peer, &message.mad, self.psn);
        }
        true
    }

    /// Joins the broker if necessary, and handles its messages.
    fn receive(&mut self, buffer: &mut [u8]) {
        if self.link.is_none()
            && let Ok(Ok(link)) = socket::connect(self.ip)
            && socket::send(&link, &message::join_manager(self.manager)).is_ok()
        {
            self.link = Some(link);
        }
        for _ in 0..BURST {
            let Some(link) = &self.link else { break };
            let len = match socket::receive(link, buffer) {
                Ok(len) => len,
                Err(Errno::EAGAIN) => break,
                Err(_) => 0,
            };
            match message::read(&buffer[..len]) {
                Some(Message::Joined) => self.joined = true,
                Some(Message::Packets(arrival)) => {
                    let meta = arrival.meta;
                    if let Some(mad) = packet::parse(arrival.data, meta.source, meta.destination) {
                        self.disconnector.handle(meta.source.ip(), &mad);
                    }
                }
                Some(_) => {}
                // The broker has closed the socket.
                None => self.link = None,
            }
        }
    }

    fn report(&self) -> TakeoverReport {
        TakeoverReport { ip: self.ip, connections: self.connections, unanswered: self.disconnector.len() }
    }
}

fn run() {
    let begin = Instant::now();
    let (mut candidates, mut takeovers) = (Vec::<Candidate>::new(), Vec::<Takeover>::new());
    let mut buffer = vec![0; message::MAX_LEN];
    loop {
        {
            let mut queue = lock(&QUEUE);
            candidates.append(&mut queue.candidates);
            if candidates.is_empty() && takeovers.is_empty() {
                queue.running = false;
                return;
            }
        }
        let now = Instant::now();
        let time = Time::from_ns((now - begin).as_nanos() as u64);
        for candidate in std::mem::take(&mut candidates) {
            if candidate.next_attempt > now || takeovers.len() >= MAX_TAKEOVERS {
                candidates.push(candidate);
                continue;
            }
            match candidate.take_over(now, time) {
                Ok(takeover) => takeovers.extend(takeover),
                Err(candidate) => candidates.push(candidate),
            }
        }
        // Hostile processes that join and leave cannot add more candidates than this.
        candidates.truncate(MAX_CANDIDATES);
        let mut has_due = false;
        takeovers.retain_mut(|takeover| {
            has_due |= takeover.advance(now, time, &mut buffer);
            let is_done = takeover.disconnector.is_done();
            if is_done && let Some(observer) = OBSERVER.get() {
                observer(takeover.report());
            }
            !is_done
        });
        let links = takeovers.iter().filter_map(|takeover| takeover.link.as_ref());
        let mut links: Vec<_> = links.map(|link| PollFd::new(link.as_fd(), PollFlags::POLLIN)).collect();
        let until_attempt = |candidate: &Candidate| candidate.next_attempt.saturating_duration_since(now).as_millis();
        let next = candidates.iter().map(|candidate| until_attempt(candidate) as u16).min();
        let wait = if has_due { WAITS.1 } else { next.map_or(WAITS.0, |next| next.clamp(WAITS.1, WAITS.0)) };
        let _ = poll(&mut links, PollTimeout::from(wait));
    }
}
