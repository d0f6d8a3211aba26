//! The endpoint's interface to RDMA verbs, without `unsafe`: [`Device`], [`ProtectionDomain`], [`MemoryRegion`],
//! [`CompletionQueue`], [`SharedReceiveQueue`], [`QueuePair`], [`MemoryWindow`].
//!
//! # Who owns registered memory
//!
//! The device owns registered memory. [`ProtectionDomain::register`] takes a `Vec<u8>`. The application reads and
//! writes the bytes of the region by copies, or within a closure during which no packet can access them.
//! [`MemoryRegion::into_bytes`] returns the vector. So if the program has no `unsafe` code, a peer can neither access
//! freed memory nor see a half-finished write of the application. A binding for another language, such as C, registers
//! memory of the application instead ([`ProtectionDomain::register_foreign`]).
//!
//! [`ProtectionDomain::register_buffer`] takes buffers of other types in the same way, such as a memory map with huge
//! pages. [`ProtectionDomain::register_shared`] registers memory that several processes share.
//!
//! Each handle (a [`Device`], a [`QueuePair`] or the like) keeps alive the objects that it needs: a queue pair keeps
//! its completion queues, and every object keeps its device.
//!
//! # Progress
//!
//! With a progress thread ([`Mode::Thread`]) the device sends and receives packets whatever the application does.
//! Without a progress thread ([`Mode::Polled`]) it does so only while the application polls or waits:
//! [`CompletionQueue::poll`], [`CompletionQueue::wait`] and [`Device::progress`] then read the socket in the
//! application's thread. Polling has the lowest latency for a thread that has no other work.
//!
//! The handles of a device and of its objects can be used from any thread, also concurrently.

mod by_number;
mod completion;
mod datagram;
mod memory;
mod observer;
mod queue_pair;
mod ready;
mod shared;
mod verbs;
mod window;

pub use crate::secure::PublicKey;
pub use by_number::Watched;
pub use completion::{CompletionQueue, Completions};
pub use datagram::{DatagramAddress, DatagramOptions};
pub use memory::{Foreign, Held, Lends, MemoryRegion, Owned, ProtectionDomain, zeroed};
pub use observer::{Closed, Observer};
pub use queue_pair::{Address, PathOptions, QpOptions, QueuePair, SharedReceiveQueue};
pub use ready::{NextEvent, ReadyFd};
pub use window::MemoryWindow;

use crate::clock::DeviceClock;
use crate::config::{Config, Mode};
use crate::driver::{Driver, DriverCounters};
use crate::memory::MemoryError;
use crate::port::shared_address::SharedAddressPort;
use crate::port::{self, ArrivalTimes, BindError, Port, UdpPort};
use crate::sync::lock;
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
    /// The device refused a verb, or the verb failed.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// A system call failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The device was shut down, or its progress thread failed. The text says why.
    #[error("the device is closed: {0}")]
    Closed(String),
    /// No work request completed within this timeout.
    #[error("nothing completed within {} ms", .0.as_us() / 1e3)]
    TimedOut(Time),
    /// A work request failed.
    #[error("work request {wr_id} failed: {status:?}")]
    Failed {
        /// Identifier that the application gave the work request.
        wr_id: u64,
        /// Status of the work request's completion.
        status: Status,
    },
    /// The two devices do not agree on the protection of packets, or the keys cannot be generated. The text says why.
    #[error("{0}")]
    Security(String),
    /// Shared memory cannot be mapped.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A range of bytes is not within a memory region.
    #[error("bytes {start} to {end} are not within the region of {len} bytes")]
    Range {
        /// Index of the range's first byte in the region.
        start: usize,
        /// Index one past the range's last byte.
        end: usize,
        /// Length of the region in bytes.
        len: usize,
    },
}

/// Closes the device when the last [`Device`] value that refers to it is dropped.
struct Handle(Arc<Shared>, Observer);

impl Drop for Handle {
    fn drop(&mut self) {
        self.1.end();
        self.0.close();
    }
}

/// An RDMA device in user space: it sends and receives RoCEv2 packets through a UDP port of this host.
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
    /// Opens a device that receives on `address`, an IP address of this host, at UDP port 4791.
    ///
    /// # Errors
    /// When the address does not belong to this host, another socket has the port, or a system call fails.
    pub fn open(address: IpAddr, config: Config) -> Result<Device, Error> {
        Device::open_at(SocketAddr::new(address, port::ROCE_PORT), config)
    }

    /// Opens a device like [`Device::open`], but at the UDP port of `address`, so that several devices can use one IP
    /// address. Port 0 stands for any free port.
    ///
    /// # Errors
    /// As [`Device::open`]. Also if the IP address is the unspecified one (`0.0.0.0` or `::`), because the ICRC of each
    /// packet covers the address.
    pub fn open_at(address: SocketAddr, config: Config) -> Result<Device, Error> {
        refuse_unspecified(address)?;
        let port = UdpPort::bind(address, &config.udp)?;
        let config = config.fitted_to(&port)?;
        Device::on_port(Box::new(port), config)
    }

    /// Opens `count` devices (*shards*) on one address, at UDP port 4791, so that several threads can send and receive
    /// its packets at the same time: each device has its own sockets, locks and, in [`Mode::Thread`], its own progress
    /// thread. The kernel delivers each packet to the device of its queue pair. Nothing else is shared: protection
    /// domains, memory regions and completion queues belong to one device, and so does a queue pair. Peers see one
    /// address.
    ///
    /// ```no_run
    /// use rnic_endpoint::{Config, Device};
    ///
    /// # fn main() -> Result<(), rnic_endpoint::Error> {
    /// let cores = std::thread::available_parallelism()?.get() as u32;
    /// let devices = Device::open_shards("10.0.0.1".parse().unwrap(), cores, Config::default())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Device::open`]. Also if `count` is not 1 to 64.
    pub fn open_shards(address: IpAddr, count: u32, config: Config) -> Result<Vec<Device>, Error> {
        Device::open_shards_at(SocketAddr::new(address, port::ROCE_PORT), count, config)
    }

    /// Opens devices like [`Device::open_shards`], but at the UDP port of `address`; 0 stands for any free port.
    ///
    /// # Errors
    /// As [`Device::open_shards`] and [`Device::open_at`].
    pub fn open_shards_at(address: SocketAddr, count: u32, config: Config) -> Result<Vec<Device>, Error> {
        refuse_unspecified(address)?;
        let mut devices = Vec::new();
        for port in UdpPort::bind_shards(address, count, &config.udp)? {
            let mut config = config.clone().fitted_to(&port)?;
            config.verbs.shard = port.shard();
            config.verbs.seed = config.verbs.seed.wrapping_add(port.shard().index.into());
            devices.push(Device::on_port(Box::new(port), config)?);
        }
        Ok(devices)
    }

    /// Opens a device like [`Device::open`], but shares UDP port 4791 of the address with other devices that were
    /// opened by this function, also in other processes of the same user. [`port::shared_address`] explains how.
    ///
    /// # Errors
    /// As [`Device::open`]. Also if the process that receives for the address belongs to another user or does not
    /// respond, or 1,024 devices are open on the address.
    pub fn open_shared(address: IpAddr, config: Config) -> Result<Device, Error> {
        refuse_unspecified(SocketAddr::new(address, port::ROCE_PORT))?;
        let port = SharedAddressPort::open(address).map_err(io::Error::other)?.with_path_within_host();
        let mut config = config.fitted_to(port.udp())?;
        config.verbs.shard = port.shard();
        Device::on_port(Box::new(port), config)
    }

    /// Opens a device on any implementation of [`Port`]: for tests, fault injection, or other ways to send packets than
    /// UDP sockets.
    ///
    /// # Errors
    /// When the progress thread cannot be started, or `/dev/urandom` cannot be read.
    pub fn on_port(port: Box<dyn Port>, config: Config) -> Result<Device, Error> {
        Device::on_port_with(port, config, DeviceClock::start())
    }

    fn on_port_with(port: Box<dyn Port>, config: Config, clock: DeviceClock) -> Result<Device, Error> {
        let mut verbs = config.verbs.clone();
        if !config.fixed_seed {
            verbs.seed = random_seed()?;
        }
        let driver = Driver::new(port, clock.clone(), &config);
        let shared = Arc::new(Shared::new(rnic_verbs::Device::new(verbs), driver, &config, clock));
        if config.mode == Mode::Thread {
            let theirs = shared.clone();
            let run = move || theirs.run();
            let thread = std::thread::Builder::new().name("rnic".to_string()).spawn(run)?;
            *lock(&shared.thread) = Some(thread);
        }
        let observer = Observer::new(&shared);
        Ok(Device(Arc::new(Handle(shared, observer))))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.0
    }

    /// The IP address and UDP port on which the device receives.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared().local
    }

    /// Makes progress once: receives packets, fires timers, sends packets. Returns whether it did any work. On a device
    /// with a progress thread this function does nothing.
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

    /// Sleeps until the device has sent or received packets, or `timeout` has passed. For an application that has no
    /// other work and only responds to its peers. May return early. Returns whether this thread has moved packets
    /// immediately, without sleeping.
    ///
    /// # Errors
    /// When the device is closed or a system call fails.
    pub fn wait(&self, timeout: Time) -> Result<bool, Error> {
        self.shared().progress_or_wait(None, timeout)
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

    /// Takes the oldest asynchronous event, such as an error of a queue pair; returns `None` if no event is waiting.
    /// [`Device::next_event`] and [`Device::ready_fd`] wait for one.
    pub fn event(&self) -> Option<Event> {
        self.shared().verbs().poll_event()
    }

    /// Which thread moves packets: the device's progress thread or the application's threads.
    pub fn mode(&self) -> Mode {
        self.shared().mode
    }

    /// The clock of the timestamps in completions ([`Completion::time`](rnic_verbs::Completion::time)): the system's
    /// monotonic clock (`CLOCK_MONOTONIC`), counted from the opening of the device, less 2^52 ns once in 52 days. The
    /// device reads it once for all packets that one system call received, and once for each batch that it sends. So a
    /// timestamp is the time at which the device began to process the packet that completed the request, and not the
    /// time of polling. [`Device::arrival_times`] says whether it is the time at which the kernel received the packet.
    ///
    /// ```
    /// use rnic_endpoint::{Completion, Config, Device, Time, TimeSource};
    ///
    /// /// The time for which a completion waited until the application took it.
    /// fn delay(device: &Device, completion: &Completion) -> Time {
    ///     device.clock().now() - completion.time
    /// }
    /// ```
    pub fn clock(&self) -> DeviceClock {
        self.shared().clock.clone()
    }

    /// Whether the timestamps of completions are the times at which the kernel received the packets that caused them
    /// ([`UdpConfig::arrival_times`](crate::port::UdpConfig::arrival_times)), and not the times at which the device
    /// began to process them.
    pub fn arrival_times(&self) -> ArrivalTimes {
        self.shared().ask(|driver| driver.port().arrival_times())
    }

    /// The counters of the device, its driver and its port.
    pub fn counters(&self) -> Counters {
        let (driver, port) = self.shared().ask(|driver| (driver.counters(), driver.port().counters()));
        Counters { verbs: self.shared().verbs().counters().clone(), driver, port }
    }

    /// Wakes the threads that sleep in this device. [`Device::wait`] returns; [`CompletionQueue::wait`] looks for
    /// completions again, and continues to wait if it finds none.
    pub fn interrupt(&self) {
        self.shared().interrupt();
    }

    /// Closes the device: its progress thread ends, and it sends and receives no more packets. Calls on its handles
    /// then fail with [`Error::Closed`].
    pub fn shut_down(&self) {
        self.shared().close();
    }
}

/// All counters of a device, from three layers: its queue pairs, its port, and the driver, which moves packets between
/// them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Counters of the queue pairs.
    pub verbs: rnic_verbs::Counters,
    /// Counters of received packets with a wrong ICRC, and of batches of packets that the system refused to send.
    pub driver: DriverCounters,
    /// Counters of the port, which is usually a group of UDP sockets.
    pub port: port::Counters,
}

fn refuse_unspecified(address: SocketAddr) -> Result<(), Error> {
    if !address.ip().is_unspecified() {
        return Ok(());
    }
    let why = "a device needs an address of this host, not the unspecified one: the ICRC of packets covers the address";
    Err(Error::Io(io::Error::other(why)))
}

/// Reads a random seed of eight bytes from `/dev/urandom`.
pub(crate) fn random_seed() -> io::Result<u64> {
    use std::io::Read;
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TimeSource;
    use crate::port::loopback::{LoopbackConfig, pair};
    use crate::port::{Faults, FaultyPort, Probability};
    use crate::{Access, Service};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use rnic_verbs::{SendOp, Verbs as _};
    use std::os::fd::AsFd;

    /// Connections work across the change of the clock's origin, and the device's clock goes back by one epoch.
    #[test]
    fn the_clock_of_a_device_does_not_end() {
        for (mode, service) in [(Mode::Thread, Service::Irn), (Mode::Thread, Service::Rc), (Mode::Polled, Service::Irn)]
        {
            let late = DeviceClock::END.saturating_sub(Time::from_ms(50));
            let faults = Faults { loss: Probability::new(0.02).unwrap(), ..Faults::default() };
            let (here, there) = pair(LoopbackConfig::default());
            let open = |port, mode| {
                let port = Box::new(FaultyPort::new(port, Faults::default(), faults, 7));
                let config = Config { mode, ..Config::default() };
                Device::on_port_with(port, config, DeviceClock::reading(late)).unwrap()
            };
            // The peer has a thread in any case, so that this test can wait for one device at a time.
            let (here, there) = (open(here, mode), open(there, Mode::Thread));
            let (cq, other_cq) = (here.completion_queue(16).unwrap(), there.completion_queue(16).unwrap());
            let (pd, other_pd) = (here.protection_domain(), there.protection_domain());
            let local = pd.register(vec![7; 10_000], Access::LOCAL).unwrap();
            let remote = other_pd.register(vec![0; 10_000], Access::ALL).unwrap();
            let qp = pd.queue_pair(&QpOptions { service, ..QpOptions::new(&cq) }).unwrap();
            let other = other_pd.queue_pair(&QpOptions { service, ..QpOptions::new(&other_cq) }).unwrap();
            let path = PathOptions { mtu: Some(1_024), ..PathOptions::default() };
            qp.connect(&other.address(), &path).unwrap();
            other.connect(&qp.address(), &path).unwrap();
            let clock = crate::Clock::start();
            let mut after = 0;
            while after < 200 {
                let op = SendOp::Write { addr: remote.addr(), rkey: remote.rkey() };
                qp.post(1, op, &[local.slice(0, 10_000).unwrap()]).unwrap();
                cq.wait_one(Time::from_ms(20_000)).unwrap();
                after += u32::from(clock.now() > Time::from_ms(60) && here.now() < late);
                assert!(clock.now() < Time::from_ms(60_000), "{mode:?} {service:?}: the clock reads {}", here.now());
            }
            let (now, there_now) = (here.now(), there.now());
            let origin = DeviceClock::END.saturating_sub(rnic_verbs::Device::EPOCH);
            for now in [now, there_now] {
                assert!((origin..origin + Time::from_ms(60_000)).contains(&now), "{now}");
            }
            remote.with(|bytes| assert!(bytes.iter().all(|byte| *byte == 7)));
        }
    }

    /// Another thread takes the event before the thread that caused it has woken the waiting threads. The waiting
    /// threads wake nevertheless.
    #[test]
    fn an_event_that_is_taken_early_still_wakes() {
        let (port, _peer) = pair(LoopbackConfig::default());
        let device = Device::on_port(Box::new(port), Config { mode: Mode::Polled, ..Config::default() }).unwrap();
        let srq = device.protection_domain().shared_receive_queue(8, 1).unwrap();
        let (first, second) = (device.ready_fd().unwrap(), device.ready_fd().unwrap());
        let readable = |ready: &ReadyFd| {
            let mut fds = [PollFd::new(ready.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::ZERO).unwrap() == 1
        };
        let cause_and_take = || {
            let mut verbs = device.shared().verbs();
            verbs.arm_srq(srq.0.id, 4).unwrap();
            assert_eq!(verbs.poll_event(), Some(Event::SharedReceiveLimit(srq.0.id)));
        };
        assert!(first.arm().unwrap());
        cause_and_take();
        device.shared().notify();
        assert!(readable(&first));

        // The same if one waits since before the event, and another since after it.
        assert!(first.arm().unwrap());
        cause_and_take();
        assert!(second.arm().unwrap());
        device.shared().notify();
        assert!(readable(&first) && !readable(&second));
        cause_and_take();
        device.shared().notify();
        assert!(readable(&second));
    }
}
