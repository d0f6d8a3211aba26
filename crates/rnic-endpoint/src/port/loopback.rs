//! A pair of ports in memory, each of which receives the datagrams that the other port sends. They are for tests: they
//! need neither privileges nor sockets, and lose datagrams only if a receive buffer overflows.

use super::{Arrival, Batch, Counters, Interest, Limits, Meta, Port, Received, SOURCE_PORTS, SendError};
use rnic_transport::Time;
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Options of a pair of ports in memory.
#[derive(Clone, Copy, Debug)]
pub struct LoopbackConfig {
    /// Addresses of the two ports.
    pub addresses: [SocketAddr; 2],
    /// The largest batch that [`Port::send`] takes.
    pub limits: Limits,
    /// Maximum UDP payload bytes of a datagram; a longer one is refused, as by a path with a smaller MTU.
    pub longest_datagram: usize,
    /// Size in bytes of each port's receive buffer. A batch that does not fit is lost, and the receiver counts its
    /// datagrams as overflowed.
    pub receive_buffer: usize,
}

impl Default for LoopbackConfig {
    fn default() -> LoopbackConfig {
        let address = |last| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), super::ROCE_PORT));
        LoopbackConfig {
            addresses: [address(1), address(2)],
            limits: Limits { segments: 64, bytes: 65_507 },
            longest_datagram: 9_000 - 28,
            receive_buffer: 8 << 20,
        }
    }
}

/// Creates a pair of ports, each of which receives the datagrams that the other port sends.
///
/// ```
/// use rnic_endpoint::port::loopback::{LoopbackConfig, pair};
/// use rnic_endpoint::{Config, Device};
///
/// let (here, there) = pair(LoopbackConfig::default());
/// let [here, there] = [here, there].map(|port| Device::on_port(Box::new(port), Config::default()).unwrap());
/// assert_ne!(here.local_addr(), there.local_addr());
/// ```
pub fn pair(config: LoopbackConfig) -> (LoopbackPort, LoopbackPort) {
    let inboxes = [Arc::<Inbox>::default(), Arc::<Inbox>::default()];
    let port = |own: usize, other: usize| LoopbackPort {
        config,
        local: config.addresses[own],
        remote: config.addresses[other],
        inbox: Arc::clone(&inboxes[own]),
        outbox: Arc::clone(&inboxes[other]),
        current: Vec::new(),
        counters: Counters::default(),
    };
    (port(0, 1), port(1, 0))
}

/// One port of a pair in memory, which [`pair`] creates.
#[derive(Debug)]
pub struct LoopbackPort {
    config: LoopbackConfig,
    local: SocketAddr,
    remote: SocketAddr,
    inbox: Arc<Inbox>,
    outbox: Arc<Inbox>,
    current: Vec<u8>,
    counters: Counters,
}

/// The receive buffer of one port of a pair. The other port appends the batches that it sends.
#[derive(Debug, Default)]
struct Inbox {
    state: Mutex<InboxState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct InboxState {
    batches: VecDeque<(Meta, usize, Vec<u8>)>,
    bytes: usize,
    overflowed: u64,
    notified: bool,
    spare: Vec<Vec<u8>>,
}

impl Inbox {
    /// Locks the buffer, even if another thread panicked while it held the lock: the worst case is that one batch is
    /// missing.
    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Inbox {
    fn wake(self: Arc<Self>) {
        self.lock().notified = true;
        self.changed.notify_all();
    }
}

impl Port for LoopbackPort {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn source_port(&self, hash: u32) -> u16 {
        SOURCE_PORTS.start() + (hash as usize % SOURCE_PORTS.len()) as u16
    }

    fn limits(&self) -> Limits {
        self.config.limits
    }

    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize> {
        if destination == self.remote { Ok(self.config.longest_datagram) } else { Err(unreachable()) }
    }

    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError> {
        let sent = self.check(batch);
        match &sent {
            Ok(segments) => {
                self.counters.sent_batches += 1;
                self.counters.sent_segments += *segments as u64;
                self.counters.sent_bytes += batch.bytes() as u64;
                self.deliver(batch, *segments);
            }
            Err(_) => self.counters.refused += 1,
        }
        sent
    }

    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        let mut inbox = self.inbox.lock();
        self.counters.overflowed = inbox.overflowed;
        let Some((meta, segment, data)) = inbox.batches.pop_front() else {
            return Ok(None);
        };
        inbox.bytes -= data.len();
        inbox.spare.push(std::mem::replace(&mut self.current, data));
        drop(inbox);
        self.counters.received_batches += 1;
        self.counters.received_segments += self.current.len().div_ceil(segment) as u64;
        self.counters.received_bytes += self.current.len() as u64;
        Ok(Some(Arrival { meta, segment, data: &self.current }))
    }

    fn receive_into(&mut self, data: &mut Vec<u8>) -> io::Result<Option<Received>> {
        let Some(Arrival { meta, segment, .. }) = self.receive()? else { return Ok(None) };
        std::mem::swap(data, &mut self.current);
        Ok(Some(Received { meta, segment, length: data.len() }))
    }

    fn wait(&mut self, _interest: Interest, timeout: Option<Time>) -> io::Result<()> {
        let quiet = |state: &mut InboxState| state.batches.is_empty() && !state.notified;
        let state = self.inbox.lock();
        let mut state = match timeout {
            None => self.inbox.changed.wait_while(state, quiet).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                let timeout = Duration::from_nanos(timeout.as_ps() / 1_000);
                self.inbox.changed.wait_timeout_while(state, timeout, quiet).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.notified = false;
        Ok(())
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.inbox))
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl LoopbackPort {
    fn check(&self, batch: &Batch<'_>) -> Result<usize, SendError> {
        let segments = batch.check(self.local, self.config.limits)?;
        let destination = batch.destination;
        if destination != self.remote {
            return Err(SendError::System { destination, error: unreachable() });
        }
        let length = batch.segment.min(batch.bytes());
        if length > self.config.longest_datagram {
            return Err(SendError::TooLong { length, destination });
        }
        Ok(segments)
    }

    fn deliver(&self, batch: &Batch<'_>, segments: usize) {
        let source = SocketAddr::new(batch.source_address.unwrap_or(self.local.ip()), batch.source_port);
        let (destination, traffic_class) = (batch.destination.ip(), batch.traffic_class);
        let meta =
            Meta { source, destination, traffic_class, identification: None, is_within_host: false, arrived_ns: None };
        let mut inbox = self.outbox.lock();
        if inbox.bytes + batch.bytes() > self.config.receive_buffer {
            inbox.overflowed += segments as u64;
            return;
        }
        let mut data = inbox.spare.pop().unwrap_or_default();
        data.clear();
        batch.data.iter().for_each(|slice| data.extend_from_slice(slice));
        inbox.bytes += data.len();
        inbox.batches.push_back((meta, batch.segment, data));
        drop(inbox);
        self.outbox.changed.notify_all();
    }
}

fn unreachable() -> io::Error {
    io::Error::from(io::ErrorKind::HostUnreachable)
}
