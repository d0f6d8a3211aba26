//! Ends the connections of processes that were killed: a thread of a process that has their ledgers sends the DREQs.
//!
//! A process may lose its connection to the broker, or get no CPU time, and live. So its manager has a name in the
//! abstract namespace of Unix sockets, as slots have. Who gets this name knows that the manager does not exist any
//! more, and that nobody else ends its connections at the same time. It joins the broker in the manager's place, so
//! that the responses of the peers arrive.

use super::ledger::Ledger;
use super::message::{self, Message};
use super::{mads, socket};
use crate::entry::lock;
use crate::trace;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rnic_cm::ledger::{Closing, LEN};
use rnic_cm::packet;
use rnic_endpoint::port::UdpConfig;
use rnic_endpoint::{Time, UdpPort};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Ledgers that wait for the thread, or whose manager may still exist. Further ones are forgotten: probes end their
/// connections.
const WAITING: usize = 256;
/// Ledgers that are worked off at the same time. Each has four descriptors.
const OPEN: usize = 16;
/// How long the name of a manager is tried: the system closes the descriptors of a process one after the other, and a
/// process that lives keeps the name.
const TRIED: Duration = Duration::from_secs(10);
/// Pauses between two attempts: the first one and the longest one. They double.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(500));
/// How long the thread waits for a broker before it sends: without one, no response arrives.
const PATIENCE: Duration = Duration::from_millis(300);
/// Messages to send until the thread looks for responses.
const BURST: usize = 64;
/// Pauses of the thread: the usual one, and the one between two bursts.
const PAUSE: (u16, u16) = (10, 1);

/// The ledger of a manager that does not speak to its broker any more.
struct Left {
    ip: IpAddr,
    mark: u16,
    ledger: Ledger,
    until: Instant,
    next: Instant,
    pause: Duration,
}

/// What the thread gets. The process: a child that `fork` made has a copy, but no thread.
struct Queue {
    process: u32,
    running: bool,
    waiting: Vec<Left>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { process: 0, running: false, waiting: Vec::new() });

/// The manager with this mark may have gone. If so, its connections are ended.
pub(super) fn begin(ip: IpAddr, mark: u16, ledger: Ledger) {
    let mut queue = lock(&QUEUE);
    let process = std::process::id();
    if queue.process != process {
        *queue = Queue { process, running: false, waiting: Vec::new() };
    }
    if queue.waiting.len() >= WAITING {
        return;
    }
    let now = Instant::now();
    queue.waiting.push(Left { ip, mark, ledger, until: now + TRIED, next: now, pause: PAUSES.0 });
    if !queue.running {
        let thread = std::thread::Builder::new().name("rnic-closing".to_string()).spawn(run);
        queue.running = thread.is_ok();
        if !queue.running {
            queue.waiting.clear();
        }
    }
}

/// The connections of a manager that does not exist any more.
struct Open {
    ip: IpAddr,
    mark: u16,
    ledger: Ledger,
    closing: Closing,
    /// Number of connections at the beginning.
    count: usize,
    port: UdpPort,
    psn: u32,
    link: Option<OwnedFd>,
    joined: bool,
    /// When the thread begins to send, though no broker has let it join.
    at_last: Instant,
    /// Keeps the name of the manager.
    _name: OwnedFd,
}

impl Left {
    /// Takes the place of the manager, if it does not exist any more; `Err` gives the ledger back.
    fn take_over(mut self, now: Instant, time: Time) -> Result<Option<Open>, Left> {
        let bytes = self.ledger.read();
        let closing = Closing::new(time, self.ip, self.mark, &bytes);
        if closing.is_empty() {
            return Ok(None);
        }
        let name = match socket::claim_manager(self.ip, self.mark) {
            Ok(name) => name,
            Err(Errno::EADDRINUSE) if now < self.until => {
                self.next = now + self.pause;
                self.pause = (self.pause * 2).min(PAUSES.1);
                return Err(self);
            }
            Err(_) => return Ok(None),
        };
        let config = UdpConfig { source_ports: 0, receive_buffer: 0, ..UdpConfig::default() };
        let Ok(port) = UdpPort::bind(SocketAddr::new(self.ip, 0), &config) else { return Ok(None) };
        // The manager may have written until it died.
        let closing = Closing::new(time, self.ip, self.mark, &self.ledger.read());
        let count = closing.len();
        let Left { ip, mark, ledger, .. } = self;
        let at_last = now + PATIENCE;
        Ok(Some(Open {
            ip,
            mark,
            ledger,
            closing,
            count,
            port,
            psn: 0,
            link: None,
            joined: false,
            at_last,
            _name: name,
        }))
    }
}

impl Open {
    /// Receives what has arrived and sends what is due; returns whether more is due at once.
    fn advance(&mut self, now: Instant, time: Time, buffer: &mut [u8]) -> bool {
        if self.link.is_none()
            && let Ok(link) = socket::join(self.ip)
            && socket::put(&link, &message::manager(self.mark)).is_ok()
        {
            self.link = Some(link);
        }
        for _ in 0..BURST {
            let Some(link) = &self.link else { break };
            let len = match socket::take(link, buffer) {
                Ok(len) => len,
                Err(Errno::EAGAIN) => break,
                Err(_) => 0,
            };
            match message::read(&buffer[..len]) {
                Some(Message::Joined) => self.joined = true,
                Some(Message::Packets(arrival)) => {
                    let meta = arrival.meta;
                    if let Some(mad) = packet::parse(arrival.data, meta.source, meta.destination) {
                        self.closing.handle(meta.source.ip(), &mad);
                    }
                }
                Some(_) => {}
                // The broker has gone.
                None => self.link = None,
            }
        }
        while let Some(slot) = self.closing.poll_settled() {
            // If this process ends as well, the next one does not repeat it.
            let _ = self.ledger.write(slot, &[0; LEN]);
        }
        if !self.joined && now < self.at_last {
            return false;
        }
        self.closing.on_deadline(time);
        for _ in 0..BURST {
            let Some(message) = self.closing.poll_transmit() else { return false };
            self.psn = (self.psn + 1) & rnic_wire::MAX_24;
            // A message that cannot be sent is as good as lost.
            let _ = mads::send(&mut self.port, message.peer, &message.mad, self.psn);
        }
        true
    }
}

fn run() {
    let begin = Instant::now();
    let (mut left, mut open) = (Vec::<Left>::new(), Vec::<Open>::new());
    let mut buffer = vec![0; message::LONGEST];
    loop {
        {
            let mut queue = lock(&QUEUE);
            left.append(&mut queue.waiting);
            if left.is_empty() && open.is_empty() {
                queue.running = false;
                return;
            }
        }
        let now = Instant::now();
        let time = Time::from_ns((now - begin).as_nanos() as u64);
        for one in std::mem::take(&mut left) {
            if one.next > now || open.len() >= OPEN {
                left.push(one);
                continue;
            }
            match one.take_over(now, time) {
                Ok(new) => open.extend(new),
                Err(again) => left.push(again),
            }
        }
        // A hostile process that comes and goes finds no more room than this.
        left.truncate(WAITING);
        let mut busy = false;
        open.retain_mut(|one| {
            busy |= one.advance(now, time, &mut buffer);
            let done = one.closing.is_done();
            if done {
                let (ip, count, silent) = (one.ip, one.count, one.closing.len());
                trace::line(format_args!(
                    "a process on {ip} has gone: {count} connections were ended, {silent} of them without a response"
                ));
            }
            !done
        });
        let links = open.iter().filter_map(|one| one.link.as_ref());
        let mut links: Vec<_> = links.map(|link| PollFd::new(link.as_fd(), PollFlags::POLLIN)).collect();
        let next = left.iter().map(|one| one.next.saturating_duration_since(now).as_millis() as u16).min();
        let pause = if busy { PAUSE.1 } else { next.map_or(PAUSE.0, |next| next.clamp(PAUSE.1, PAUSE.0)) };
        let _ = poll(&mut links, PollTimeout::from(pause));
    }
}
