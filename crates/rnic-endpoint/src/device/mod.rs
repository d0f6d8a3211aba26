//! The safe interface in the words of the verbs: [`Device`], [`ProtectionDomain`], [`MemoryRegion`], [`CompletionQueue`],
//! [`SharedReceiveQueue`], [`QueuePair`].
//!
//! # Who owns registered memory
//!
//! The device does. [`ProtectionDomain::register`] takes a `Vec<u8>`, and the region gives access to the bytes by copying or within a
//! closure, while no packet can touch them; [`MemoryRegion::into_bytes`] gives the vector back. So neither side can see memory that is
//! gone or half-written by the processor, and no program without `unsafe` can break that. Handles keep alive what they need: a
//! queue pair its completion queues, everything its device.
//!
//! # Progress
//!
//! With a progress thread ([`Mode::Thread`]) packets move whatever the application does. Without ([`Mode::Polled`]) they move while
//! it polls or waits: [`CompletionQueue::poll`], [`CompletionQueue::wait`] and [`Device::progress`] look at the socket themselves,
//! which is the fastest way for a thread that has nothing else to do.
//!
//! All handles can be used from any thread, also at the same time.

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

/// Why something did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device could not be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A verb was refused.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// The system failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The device was shut down, or its thread failed.
    #[error("the device is closed: {0}")]
    Closed(String),
    /// Nothing completed.
    #[error("nothing completed within {} ms", .0.as_us() / 1e3)]
    TimedOut(Time),
    /// A work request failed.
    #[error("work request {wr_id} failed: {status:?}")]
    Failed {
        /// Of the request.
        wr_id: u64,
        /// How it ended.
        status: Status,
    },
    /// A range is not within a region.
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

/// Ends the thread when the last handle goes.
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// An RDMA device on a UDP port of this host.
#[derive(Clone)]
pub struct Device(Arc<Handle>);

impl Device {
    /// Opens a device that receives on this address of the host, at UDP port 4791.
    ///
    /// # Errors
    /// When the address is not this host's, the port is taken or the system refuses something.
    pub fn open(address: IpAddr, config: Config) -> Result<Device, Error> {
        Device::open_at(SocketAddr::new(address, port::ROCE_PORT), config)
    }

    /// The same at another UDP port: for two devices on one address.
    ///
    /// # Errors
    /// As [`Device::open`]; the unspecified address, because the ICRC covers addresses.
    pub fn open_at(address: SocketAddr, config: Config) -> Result<Device, Error> {
        if address.ip().is_unspecified() {
            let error = io::Error::other(
                "a device needs one address of this host, because packets are protected by a checksum over it",
            );
            return Err(Error::Io(error));
        }
        let port = UdpPort::bind(address, &config.udp)?;
        let config = config.fitted_to(&port)?;
        Device::on_port(Box::new(port), config)
    }

    /// A device on any port: for tests, faults, other ways to send packets.
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

    /// The address on which packets arrive.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared().local
    }

    /// Looks once whether something arrived, is due, or can be sent; whether it was so. With a progress thread there is nothing
    /// to do.
    ///
    /// # Errors
    /// When the device is closed or the system fails.
    pub fn progress(&self) -> Result<bool, Error> {
        self.shared().alive()?;
        if self.shared().mode == Mode::Thread {
            return Ok(false);
        }
        self.shared().progress()
    }

    /// Lets packets move until something was done or `timeout` has passed, and sleeps meanwhile: for an end that has nothing to do
    /// but to answer. May return early.
    ///
    /// # Errors
    /// When the device is closed or the system fails.
    pub fn wait(&self, timeout: Time) -> Result<(), Error> {
        let end = self.shared().clock.now().saturating_add(timeout);
        self.shared().progress_or_wait(None, end)
    }

    /// A protection domain.
    pub fn protection_domain(&self) -> ProtectionDomain {
        let id = self.shared().verbs().create_pd();
        ProtectionDomain(Arc::new(DomainInner { device: self.clone(), id }))
    }

    /// A completion queue with room for `capacity` completions.
    ///
    /// # Errors
    /// When a limit of the device is reached.
    pub fn completion_queue(&self, capacity: u32) -> Result<CompletionQueue, Error> {
        let id = self.shared().verbs().create_cq(capacity)?;
        Ok(CompletionQueue(Arc::new(CqInner { device: self.clone(), id })))
    }

    /// The next event of a queue pair or queue as a whole.
    pub fn event(&self) -> Option<Event> {
        self.shared().verbs().poll_event()
    }

    /// Who moves packets.
    pub fn mode(&self) -> Mode {
        self.shared().mode
    }

    /// What the device, its port and its driver have counted.
    pub fn counters(&self) -> Counters {
        let (driver, port) = self.shared().ask(|driver| (driver.counters(), driver.port().counters()));
        Counters { verbs: self.shared().verbs().counters().clone(), driver, port }
    }

    /// Ends what waits at this moment early: [`Device::wait`] returns, [`CompletionQueue::wait`] looks again. For a thread that has
    /// something to tell one that waits.
    pub fn interrupt(&self) {
        self.shared().interrupt();
    }

    /// Ends the device: its thread stops, packets move no more. Handles stay, and say that the device is closed.
    pub fn shut_down(&self) {
        self.shared().close();
    }
}

/// Everything that a device counts.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Queue pairs.
    pub verbs: rnic_verbs::Counters,
    /// ICRC and sending.
    pub driver: DriverCounters,
    /// Sockets.
    pub port: port::Counters,
}

/// Eight bytes that nobody can guess.
fn random_seed() -> io::Result<u64> {
    use std::io::Read;
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}
