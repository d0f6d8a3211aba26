//! The safe interface to the verbs: [`Device`], [`ProtectionDomain`], [`MemoryRegion`], [`CompletionQueue`],
//! [`SharedReceiveQueue`], [`QueuePair`].
//!
//! # Who owns registered memory
//!
//! The device does. [`ProtectionDomain::register`] takes a `Vec<u8>`. The region gives access to the bytes by copies or
//! within a closure, during which no packet can touch them; [`MemoryRegion::into_bytes`] gives the vector back. So a
//! peer can neither reach memory that was freed nor see a write that is half done, and no program without `unsafe` can
//! break that. An interface for another language registers memory of the application instead
//! ([`ProtectionDomain::register_foreign`]). Handles keep alive what they need: a queue pair its completion queues,
//! every object its device.
//!
//! # Progress
//!
//! With a progress thread ([`Mode::Thread`]) packets move whatever the application does. Without one ([`Mode::Polled`])
//! they move while the application polls or waits: [`CompletionQueue::poll`], [`CompletionQueue::wait`] and
//! [`Device::progress`] read the socket themselves, which is the fastest way for a thread that has no other work.
//!
//! All handles can be used from any thread, also concurrently.

mod completion;
mod memory;
mod queue_pair;
mod shared;
mod verbs;

pub use completion::{CompletionQueue, Completions};
pub use memory::{Foreign, MemoryRegion, Owned, ProtectionDomain};
pub use queue_pair::{Address, PathOptions, QpOptions, QueuePair, SharedReceiveQueue};

use crate::clock::{Clock, TimeSource};
use crate::config::{Config, Mode};
use crate::driver::{Driver, DriverCounters, lock};
use crate::port::{self, BindError, Port, UdpPort};
use completion::CqInner;
use memory::DomainInner;
use rnic_transport::Time;
use rnic_verbs::{Event, Status, VerbsError};
use shared::Shared;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Why an operation on a device failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device could not be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A verb was refused.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// A system call failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The device was shut down, or its thread failed.
    #[error("the device is closed: {0}")]
    Closed(String),
    /// No work request completed in time.
    #[error("nothing completed within {} ms", .0.as_us() / 1e3)]
    TimedOut(Time),
    /// A work request failed.
    #[error("work request {wr_id} failed: {status:?}")]
    Failed {
        /// Identifier of the request.
        wr_id: u64,
        /// How the request ended.
        status: Status,
    },
    /// A range of bytes is not within a region.
    #[error("bytes {start} to {end} are not within the region of {len} bytes")]
    Range {
        /// First byte.
        start: usize,
        /// One past the last.
        end: usize,
        /// Length of the region.
        len: usize,
    },
}

/// Closes the device when the last handle is dropped.
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// An RDMA device on a UDP port of this host.
///
/// ```no_run
/// use rnic_endpoint::{Config, Device, Mode};
///
/// # fn main() -> Result<(), rnic_endpoint::Error> {
/// let config = Config { mode: Mode::Polled, ..Config::default() };
/// let device = Device::open("10.0.0.1".parse().unwrap(), config)?;
/// println!("receives on {}", device.local_addr());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Device(Arc<Handle>);

impl Device {
    /// Opens a device that receives on this address of the host, at UDP port 4791.
    ///
    /// # Errors
    /// When the address is not one of this host, another socket has the port, or a system call fails.
    pub fn open(address: IpAddr, config: Config) -> Result<Device, Error> {
        Device::open_at(SocketAddr::new(address, port::ROCE_PORT), config)
    }

    /// The same at another UDP port: for two devices on one address.
    ///
    /// # Errors
    /// As [`Device::open`]; for the unspecified address, because the ICRC covers the address.
    pub fn open_at(address: SocketAddr, config: Config) -> Result<Device, Error> {
        if address.ip().is_unspecified() {
            let error = io::Error::other(
                "a device needs an address of this host, not the unspecified one: the ICRC of packets covers the address",
            );
            return Err(Error::Io(error));
        }
        let port = UdpPort::bind(address, &config.udp)?;
        let config = config.fitted_to(&port)?;
        Device::on_port(Box::new(port), config)
    }

    /// A device on any port: for tests, fault injection, other ways to send packets.
    ///
    /// # Errors
    /// When the thread cannot be started or the system has no random numbers.
    pub fn on_port(port: Box<dyn Port>, config: Config) -> Result<Device, Error> {
        let mut verbs = config.verbs.clone();
        if !config.fixed_seed {
            verbs.seed = random_seed()?;
        }
        let clock = Clock::start();
        let driver = Driver::new(port, clock, &config);
        let shared = Arc::new(Shared::new(rnic_verbs::Device::new(verbs), driver, config.mode, clock));
        if config.mode == Mode::Thread {
            let theirs = shared.clone();
            let run = move || theirs.run();
            let thread = std::thread::Builder::new().name("rnic".to_string()).spawn(run)?;
            *lock(&shared.thread) = Some(thread);
        }
        Ok(Device(Arc::new(Handle(shared))))
    }

    fn shared(&self) -> &Shared {
        &self.0.0
    }

    /// The address on which the device receives.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared().local
    }

    /// Makes progress once: receives packets, fires timers, sends packets. Returns whether there was any work. With a
    /// progress thread it does nothing.
    ///
    /// # Errors
    /// When the device is closed or a system call fails.
    pub fn progress(&self) -> Result<bool, Error> {
        self.shared().alive()?;
        if self.shared().mode == Mode::Thread {
            return Ok(false);
        }
        self.shared().progress()
    }

    /// Sleeps until packets were moved or `timeout` has passed: for an application that only responds to its peers. May
    /// return early.
    ///
    /// # Errors
    /// When the device is closed or a system call fails.
    pub fn wait(&self, timeout: Time) -> Result<(), Error> {
        let end = self.shared().clock.now().saturating_add(timeout);
        self.shared().progress_or_wait(None, end)
    }

    /// Creates a protection domain.
    pub fn protection_domain(&self) -> ProtectionDomain {
        let id = self.shared().verbs().create_pd();
        ProtectionDomain(Arc::new(DomainInner { device: self.clone(), id }))
    }

    /// Creates a completion queue with room for `capacity` completions.
    ///
    /// # Errors
    /// When a limit of the device is reached.
    pub fn completion_queue(&self, capacity: u32) -> Result<CompletionQueue, Error> {
        let id = self.shared().verbs().create_cq(capacity)?;
        Ok(CompletionQueue(Arc::new(CqInner { device: self.clone(), id })))
    }

    /// Takes the oldest asynchronous event.
    pub fn event(&self) -> Option<Event> {
        self.shared().verbs().poll_event()
    }

    /// Which thread moves packets.
    pub fn mode(&self) -> Mode {
        self.shared().mode
    }

    /// The counters of the device, its driver and its port.
    pub fn counters(&self) -> Counters {
        let (driver, port) = self.shared().ask(|driver| (driver.counters(), driver.port().counters()));
        Counters { verbs: self.shared().verbs().counters().clone(), driver, port }
    }

    /// Wakes the threads that sleep in the device: [`Device::wait`] returns, [`CompletionQueue::wait`] looks for
    /// completions again.
    pub fn interrupt(&self) {
        self.shared().interrupt();
    }

    /// Closes the device: its thread stops, no packet moves any more. Calls on its handles fail with [`Error::Closed`].
    pub fn shut_down(&self) {
        self.shared().close();
    }
}

/// All counters of a device.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Counters of the queue pairs.
    pub verbs: rnic_verbs::Counters,
    /// Counters of ICRC checks and of sending.
    pub driver: DriverCounters,
    /// Counters of the sockets.
    pub port: port::Counters,
}

/// Eight random bytes of the system.
fn random_seed() -> io::Result<u64> {
    use std::io::Read;
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}
