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
//! it polls: [`CompletionQueue::poll`] and [`Device::progress`] look at the socket themselves, which is the fastest way for a thread
//! that has nothing else to do.

use crate::clock::{Clock, TimeSource};
use crate::driver::{Driver, DriverCounters, Identification, Progress, lock};
use crate::idle::{Idle, IdleConfig, Plan};
use crate::port::{self, BindError, Port, UdpConfig, UdpPort};
use rnic_transport::Time;
use rnic_verbs::{
    Access, Capacities, Completion, Congestion, Connection, CqId, Data, DeviceConfig, Event, MrInfo, Notify, Pd,
    QpInit, Qpn, RecvRequest, SendAttributes, SendFlags, SendOp, SendRequest, Service, Sge, SrqId, State, VerbsError,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

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
    /// The peer said something else than what was expected.
    #[error("{0}")]
    Exchange(String),
}

/// Who moves packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// A thread of the device.
    #[default]
    Thread,
    /// Whoever polls.
    Polled,
}

/// How a device is opened.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who moves packets.
    pub mode: Mode,
    /// The thread's way of waiting.
    pub idle: IdleConfig,
    /// UDP sockets.
    pub udp: UdpConfig,
    /// IPv4 identifications of the peers.
    pub identification: Identification,
    /// Queue pairs, memory, congestion control. Its seed is replaced by one from the system unless `fixed_seed` is set.
    pub verbs: DeviceConfig,
    /// Keys and numbers follow from `verbs.seed`: for tests only, a peer can guess them.
    pub fixed_seed: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mode: Mode::Thread,
            idle: IdleConfig::default(),
            udp: UdpConfig::default(),
            identification: Identification::Any,
            verbs: DeviceConfig::default(),
            fixed_seed: false,
        }
    }
}

/// What all handles share.
struct Shared {
    verbs: Mutex<rnic_verbs::Device>,
    driver: Mutex<Driver>,
    local: SocketAddr,
    clock: Clock,
    mode: Mode,
    waker: Waker,
    closing: AtomicBool,
    /// How many want to ask the driver something: the thread steps aside for them.
    asking: AtomicUsize,
    /// Why the thread ended, if it failed.
    failure: Mutex<Option<String>>,
    /// Completion queues whose notification has come, and who waits for one.
    notified: Mutex<BTreeMap<CqId, Option<Waker>>>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Shared {
    fn verbs(&self) -> MutexGuard<'_, rnic_verbs::Device> {
        lock(&self.verbs)
    }

    /// Work was posted: the thread shall look.
    fn kick(&self) {
        if self.mode == Mode::Thread {
            self.waker.wake_by_ref();
        }
    }

    /// Makes progress if nobody else does at this moment.
    fn progress(&self) -> Result<Option<Progress>, Error> {
        let mut driver = match self.driver.try_lock() {
            Ok(driver) => driver,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        let progress = driver.progress(&self.verbs)?;
        drop(driver);
        if progress.worked {
            self.notify();
        }
        Ok(Some(progress))
    }

    /// Passes notifications on to whoever waits.
    fn notify(&self) {
        let mut notified = lock(&self.notified);
        if notified.is_empty() {
            return;
        }
        let mut verbs = self.verbs();
        let mut any = false;
        notified.retain(|cq, waker| {
            let come = verbs.take_notification(*cq);
            any |= come;
            if come && let Some(waker) = waker.take() {
                waker.wake();
            }
            !come
        });
        if any {
            self.changed.notify_all();
        }
    }

    /// The thread: progress until the device closes.
    fn run(&self, idle: IdleConfig) {
        let mut idle = Idle::new(idle);
        let mut driver = lock(&self.driver);
        while !self.closing.load(Ordering::Acquire) {
            if self.asking.load(Ordering::Acquire) > 0 {
                drop(driver);
                while self.asking.load(Ordering::Acquire) > 0 {
                    std::thread::yield_now();
                }
                driver = lock(&self.driver);
            }
            let done = driver.progress(&self.verbs).and_then(|progress| {
                let now = self.clock.now();
                if progress.worked {
                    self.notify();
                    idle.worked(now);
                } else if let Plan::Block(timeout) = idle.plan(now, progress.next) {
                    driver.wait(progress.interest, timeout)?;
                } else {
                    std::hint::spin_loop();
                }
                Ok(())
            });
            if let Err(error) = done {
                *lock(&self.failure) = Some(error.to_string());
                break;
            }
        }
        self.closing.store(true, Ordering::Release);
        for waker in lock(&self.notified).values_mut().filter_map(Option::take) {
            waker.wake();
        }
        self.changed.notify_all();
    }

    /// Asks the driver something.
    fn ask<R>(&self, question: impl FnOnce(&Driver) -> R) -> R {
        self.asking.fetch_add(1, Ordering::AcqRel);
        self.kick();
        let answer = question(&lock(&self.driver));
        self.asking.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.waker.wake_by_ref();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic there was reported where it happened.
            let _ = thread.join();
        }
        self.changed.notify_all();
    }

    fn alive(&self) -> Result<(), Error> {
        if !self.closing.load(Ordering::Acquire) {
            return Ok(());
        }
        let why = lock(&self.failure).clone();
        Err(Error::Closed(why.unwrap_or_else(|| "it was shut down".to_string())))
    }
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
        let local = port.local_addr();
        let waker = port.waker();
        let driver = Driver::new(port, clock, config.identification);
        let shared = Arc::new(Shared {
            verbs: Mutex::new(rnic_verbs::Device::new(verbs)),
            driver: Mutex::new(driver),
            local,
            clock,
            mode: config.mode,
            waker,
            closing: AtomicBool::new(false),
            asking: AtomicUsize::new(0),
            failure: Mutex::new(None),
            notified: Mutex::new(BTreeMap::new()),
            changed: Condvar::new(),
            thread: Mutex::new(None),
        });
        if config.mode == Mode::Thread {
            let theirs = shared.clone();
            let run = move || theirs.run(config.idle);
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
        Ok(self.shared().progress()?.is_some_and(|progress| progress.worked))
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

    /// What the device, its port and its driver have counted.
    pub fn counters(&self) -> Counters {
        let (driver, port) = self.shared().ask(|driver| (driver.counters(), driver.port().counters()));
        Counters { verbs: self.shared().verbs().counters().clone(), driver, port }
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

struct DomainInner {
    device: Device,
    id: Pd,
}

impl Drop for DomainInner {
    fn drop(&mut self) {
        // What belongs to it holds it, so that it is empty now.
        let _ = self.device.shared().verbs().destroy_pd(self.id);
    }
}

/// A protection domain: only what belongs to the same one works together.
#[derive(Clone)]
pub struct ProtectionDomain(Arc<DomainInner>);

impl ProtectionDomain {
    /// Registers memory.
    ///
    /// # Errors
    /// When a limit of the device is reached.
    pub fn register(&self, bytes: Vec<u8>, access: Access) -> Result<MemoryRegion, Error> {
        let info = self.0.device.shared().verbs().register(self.0.id, bytes, None, access)?;
        Ok(MemoryRegion { domain: self.clone(), info: Mutex::new(info) })
    }

    /// A shared receive queue for `capacity` receives of up to `max_sge` pieces.
    ///
    /// # Errors
    /// When a limit of the device is reached.
    pub fn shared_receive_queue(&self, capacity: u32, max_sge: u32) -> Result<SharedReceiveQueue, Error> {
        let id = self.0.device.shared().verbs().create_srq(self.0.id, capacity, max_sge)?;
        Ok(SharedReceiveQueue(Arc::new(SrqInner { domain: self.clone(), id })))
    }

    /// A queue pair; [`QueuePair::connect`] makes it usable.
    ///
    /// # Errors
    /// When a limit of the device is reached.
    pub fn queue_pair(&self, options: &QpOptions) -> Result<QueuePair, Error> {
        let init = QpInit {
            service: options.service,
            send_cq: options.send_cq.0.id,
            recv_cq: options.recv_cq.0.id,
            srq: options.srq.as_ref().map(|srq| srq.0.id),
            capacities: options.capacities,
            signal_all: options.signal_all,
        };
        let mut verbs = self.0.device.shared().verbs();
        let qpn = verbs.create_qp(self.0.id, init)?;
        let psn = verbs.random_psn();
        let ready = match &options.congestion {
            Some(congestion) => verbs.set_congestion(qpn, congestion.clone()),
            None => Ok(()),
        }
        .and_then(|()| verbs.to_init(qpn, options.access));
        if let Err(why) = ready {
            verbs.destroy_qp(qpn)?;
            return Err(why.into());
        }
        drop(verbs);
        Ok(QueuePair(Arc::new(QpInner { domain: self.clone(), options: options.clone(), qpn, psn })))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }
}

/// Memory that queue pairs can use. The device owns the bytes; see the [module](self).
pub struct MemoryRegion {
    domain: ProtectionDomain,
    info: Mutex<MrInfo>,
}

impl MemoryRegion {
    fn info(&self) -> MrInfo {
        *lock(&self.info)
    }

    /// Address of the first byte, for the peer.
    pub fn addr(&self) -> u64 {
        self.info().addr
    }

    /// Key for the peer.
    pub fn rkey(&self) -> u32 {
        self.info().rkey
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.info().len as usize
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `len` bytes from `start` on, for a work request.
    ///
    /// # Errors
    /// If they are not within the region, or more than 2^32 - 1.
    pub fn slice(&self, start: usize, len: usize) -> Result<Sge, Error> {
        let info = self.info();
        let range = Error::Range { start, end: start.saturating_add(len), len: info.len as usize };
        if start.checked_add(len).is_none_or(|end| end as u64 > info.len) {
            return Err(range);
        }
        let len = u32::try_from(len).map_err(|_| range)?;
        Ok(Sge { addr: info.addr + start as u64, len, lkey: info.lkey })
    }

    /// Copies from the region.
    ///
    /// # Errors
    /// If the range is not within it.
    pub fn read(&self, start: usize, out: &mut [u8]) -> Result<(), Error> {
        let end = start.saturating_add(out.len());
        self.with(|bytes| match bytes.get(start..end) {
            Some(from) => {
                out.copy_from_slice(from);
                Ok(())
            }
            None => Err(Error::Range { start, end, len: bytes.len() }),
        })
    }

    /// Copies into the region.
    ///
    /// # Errors
    /// If the range is not within it.
    pub fn write(&self, start: usize, data: &[u8]) -> Result<(), Error> {
        let end = start.saturating_add(data.len());
        self.with_mut(|bytes| {
            let len = bytes.len();
            match bytes.get_mut(start..end) {
                Some(to) => {
                    to.copy_from_slice(data);
                    Ok(())
                }
                None => Err(Error::Range { start, end, len }),
            }
        })
    }

    /// Looks at the bytes. No packet moves on this device meanwhile: be brief.
    pub fn with<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        let verbs = self.domain.0.device.shared().verbs();
        look(verbs.bytes(self.info().id).unwrap_or_default())
    }

    /// Changes the bytes. No packet moves on this device meanwhile: be brief.
    pub fn with_mut<R>(&self, change: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut verbs = self.domain.0.device.shared().verbs();
        change(verbs.bytes_mut(self.info().id).unwrap_or_default())
    }

    /// Gives the remote key a new value: the old one, invalidated by the peer or not, is no longer valid.
    ///
    /// # Errors
    /// None is expected.
    pub fn renew_key(&self) -> Result<u32, Error> {
        let id = self.info().id;
        let info = self.domain.0.device.shared().verbs().rekey(id)?;
        *lock(&self.info) = info;
        Ok(info.rkey)
    }

    /// Ends the region and gives the bytes back. Work that still refers to it fails.
    pub fn into_bytes(self) -> Vec<u8> {
        self.domain.0.device.shared().verbs().deregister(self.info().id).unwrap_or_default()
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // After `into_bytes` there is nothing left.
        let _ = self.domain.0.device.shared().verbs().deregister(self.info().id);
    }
}

struct CqInner {
    device: Device,
    id: CqId,
}

impl Drop for CqInner {
    fn drop(&mut self) {
        lock(&self.device.shared().notified).remove(&self.id);
        let _ = self.device.shared().verbs().destroy_cq(self.id);
    }
}

/// Where work requests end.
#[derive(Clone)]
pub struct CompletionQueue(Arc<CqInner>);

impl CompletionQueue {
    /// Takes completions, oldest first; returns how many. Without a progress thread, looks at the socket first.
    ///
    /// # Errors
    /// When completions were lost because the queue was full, or the device is closed.
    pub fn poll(&self, out: &mut [Completion]) -> Result<usize, Error> {
        let shared = self.0.device.shared();
        if shared.mode == Mode::Polled {
            shared.progress()?;
        }
        let count = shared.verbs().poll_cq(self.0.id, out)?;
        if count == 0 {
            shared.alive()?;
        }
        Ok(count)
    }

    /// Waits for completions and takes them; 0 if none came within `timeout`.
    ///
    /// # Errors
    /// As [`CompletionQueue::poll`].
    pub fn wait(&self, out: &mut [Completion], timeout: Time) -> Result<usize, Error> {
        let shared = self.0.device.shared();
        let end = shared.clock.now() + timeout;
        loop {
            let count = self.poll(out)?;
            let now = shared.clock.now();
            if count > 0 || now >= end {
                return Ok(count);
            }
            match shared.mode {
                Mode::Polled => {
                    let mut driver = lock(&shared.driver);
                    let progress = driver.progress(&shared.verbs)?;
                    if !progress.worked && shared.verbs().cq_len(self.0.id) == 0 {
                        let due = progress.next.map_or(end, |next| next.min(end));
                        driver.wait(progress.interest, Some(due.saturating_sub(now)))?;
                    }
                }
                Mode::Thread => {
                    let mut notified = lock(&shared.notified);
                    if self.arm_if_empty(Notify::Any)? {
                        notified.entry(self.0.id).or_insert(None);
                        let left = std::time::Duration::from_nanos(end.saturating_sub(now).as_ps() / 1_000);
                        let waited = shared.changed.wait_timeout(notified, left);
                        drop(waited);
                    }
                }
            }
        }
    }

    /// Asks for a notification; `false` if completions are there already.
    fn arm_if_empty(&self, notify: Notify) -> Result<bool, Error> {
        let mut verbs = self.0.device.shared().verbs();
        verbs.arm_cq(self.0.id, notify)?;
        Ok(verbs.cq_len(self.0.id) == 0)
    }

    /// Resolves when completions are there. The device must have a progress thread.
    pub fn completions(&self, notify: Notify) -> Completions<'_> {
        Completions { queue: self, notify }
    }
}

/// See [`CompletionQueue::completions`].
pub struct Completions<'a> {
    queue: &'a CompletionQueue,
    notify: Notify,
}

impl Future for Completions<'_> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = &self.queue.0;
        let shared = inner.device.shared();
        if let Err(closed) = shared.alive() {
            return Poll::Ready(Err(closed));
        }
        let mut notified = lock(&shared.notified);
        match self.queue.arm_if_empty(self.notify) {
            Ok(true) => {
                notified.insert(inner.id, Some(context.waker().clone()));
                Poll::Pending
            }
            Ok(false) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

struct SrqInner {
    domain: ProtectionDomain,
    id: SrqId,
}

impl Drop for SrqInner {
    fn drop(&mut self) {
        let _ = self.domain.0.device.shared().verbs().destroy_srq(self.id);
    }
}

/// Receives for several queue pairs.
#[derive(Clone)]
pub struct SharedReceiveQueue(Arc<SrqInner>);

impl SharedReceiveQueue {
    /// Posts a receive.
    ///
    /// # Errors
    /// If the queue is full or the memory does not admit it.
    pub fn post_recv(&self, wr_id: u64, scatter: &[Sge]) -> Result<(), Error> {
        let mut verbs = self.0.domain.0.device.shared().verbs();
        Ok(verbs.post_srq_recv(self.0.id, &RecvRequest { wr_id, scatter })?)
    }

    /// Raises [`Event::SharedReceiveLimit`], once, when fewer than `limit` receives are left.
    ///
    /// # Errors
    /// None is expected.
    pub fn arm(&self, limit: u32) -> Result<(), Error> {
        Ok(self.0.domain.0.device.shared().verbs().arm_srq(self.0.id, limit)?)
    }
}

/// What a queue pair is made of.
#[derive(Clone)]
pub struct QpOptions {
    /// Service: RC, IRN or UC.
    pub service: Service,
    /// Where sends complete.
    pub send_cq: CompletionQueue,
    /// Where receives complete.
    pub recv_cq: CompletionQueue,
    /// Receives come from here.
    pub srq: Option<SharedReceiveQueue>,
    /// Sizes of its queues.
    pub capacities: Capacities,
    /// Every send is signalled.
    pub signal_all: bool,
    /// What the peer may do.
    pub access: Access,
    /// Congestion control; the device's without.
    pub congestion: Option<Congestion>,
}

impl QpOptions {
    /// RC, everything in one completion queue, everything allowed to the peer.
    pub fn new(cq: &CompletionQueue) -> QpOptions {
        QpOptions {
            service: Service::Rc,
            send_cq: cq.clone(),
            recv_cq: cq.clone(),
            srq: None,
            capacities: Capacities::default(),
            signal_all: false,
            access: Access::ALL,
            congestion: None,
        }
    }
}

/// What the other end needs to know of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Address {
    /// Where its packets go.
    pub addr: SocketAddr,
    /// Its number.
    pub qpn: u32,
    /// The first PSN that it sends.
    pub psn: u32,
}

/// What both ends agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathOptions {
    /// Payload bytes of a full packet; `None`: the largest that the path and the service take.
    pub mtu: Option<u32>,
    /// Reads and atomics outstanding, each way.
    pub rd_atomic: u8,
    /// Code of the time that a peer waits for a missing receive.
    pub min_rnr_timer: u8,
    /// Acknowledgement timeout 4.096 us times 2^n (RC).
    pub timeout: u8,
    /// Retries without an answer.
    pub retry_count: u8,
    /// Retries without a receive; 7: without limit.
    pub rnr_retry: u8,
    /// Differentiated services code point.
    pub dscp: u8,
}

impl Default for PathOptions {
    fn default() -> PathOptions {
        PathOptions { mtu: None, rd_atomic: 16, min_rnr_timer: 12, timeout: 14, retry_count: 7, rnr_retry: 7, dscp: 0 }
    }
}

struct QpInner {
    domain: ProtectionDomain,
    options: QpOptions,
    qpn: Qpn,
    psn: u32,
}

impl Drop for QpInner {
    fn drop(&mut self) {
        let _ = self.domain.0.device.shared().verbs().destroy_qp(self.qpn);
    }
}

/// One end of a connection.
#[derive(Clone)]
pub struct QueuePair(Arc<QpInner>);

impl QueuePair {
    fn shared(&self) -> &Shared {
        self.0.domain.0.device.shared()
    }

    /// What the other end needs to know.
    pub fn address(&self) -> Address {
        Address { addr: self.shared().local, qpn: self.0.qpn.0, psn: self.0.psn }
    }

    /// The largest MTU that the path to `peer` and the service take.
    ///
    /// # Errors
    /// When there is no route.
    pub fn path_mtu(&self, peer: SocketAddr) -> Result<u32, Error> {
        let longest = self.shared().ask(|driver| driver.port().longest_datagram(peer))?;
        let largest = if self.0.options.service == Service::Rc { 4_096 } else { 8_192 };
        // Headers, padding and ICRC around the payload.
        let room = longest.saturating_sub(rnic_wire::MAX_HEADER_LEN + rnic_wire::ICRC_LEN + 3) as u32;
        Ok([8_192, 4_096, 2_048, 1_024, 512].into_iter().find(|mtu| *mtu <= room.min(largest)).unwrap_or(256))
    }

    /// Connects to the other end: brings the queue pair to RTS. Both ends must give the same MTU.
    ///
    /// # Errors
    /// If an option is out of range or the queue pair is connected already.
    pub fn connect(&self, peer: &Address, options: &PathOptions) -> Result<(), Error> {
        let path_mtu = match options.mtu {
            Some(mtu) => mtu,
            None => self.path_mtu(peer.addr)?,
        };
        let connection = Connection {
            peer: peer.addr,
            peer_qpn: Qpn(peer.qpn),
            path_mtu,
            recv_psn: peer.psn,
            max_dest_rd_atomic: options.rd_atomic,
            min_rnr_timer: options.min_rnr_timer,
            dscp: options.dscp,
        };
        let attributes = SendAttributes {
            send_psn: self.0.psn,
            timeout: options.timeout,
            retry_count: options.retry_count,
            rnr_retry: options.rnr_retry,
            max_rd_atomic: options.rd_atomic,
        };
        let now = self.shared().clock.now();
        let mut verbs = self.shared().verbs();
        verbs.to_rtr(self.0.qpn, connection, now)?;
        verbs.to_rts(self.0.qpn, attributes, now)?;
        Ok(())
    }

    /// Its state.
    ///
    /// # Errors
    /// None is expected.
    pub fn state(&self) -> Result<State, Error> {
        Ok(self.shared().verbs().state(self.0.qpn)?)
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.0.qpn
    }

    /// Posts a send.
    ///
    /// # Errors
    /// If the queue is full, or the request is not possible; nothing is posted then.
    pub fn post_send(&self, request: &SendRequest<'_>) -> Result<(), Error> {
        self.shared().verbs().post_send(self.0.qpn, request)?;
        self.shared().kick();
        Ok(())
    }

    /// Posts several sends under one lock; returns how many fitted in the queue.
    ///
    /// # Errors
    /// Of the first that is refused for another reason than a full queue; those before it are posted.
    pub fn post_sends(&self, requests: &[SendRequest<'_>]) -> Result<usize, Error> {
        let mut verbs = self.shared().verbs();
        let mut posted = 0;
        for request in requests {
            match verbs.post_send(self.0.qpn, request) {
                Ok(()) => posted += 1,
                Err(VerbsError::Full(_)) => break,
                Err(why) => return Err(why.into()),
            }
        }
        drop(verbs);
        if posted > 0 {
            self.shared().kick();
        }
        Ok(posted)
    }

    /// Posts an operation on registered memory, signalled.
    ///
    /// # Errors
    /// As [`QueuePair::post_send`].
    pub fn post(&self, wr_id: u64, op: SendOp, local: &[Sge]) -> Result<(), Error> {
        self.post_send(&SendRequest { wr_id, op, data: Data::Gather(local), flags: SendFlags::SIGNALED })
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// If the queue is full or the memory does not admit it.
    pub fn post_recv(&self, wr_id: u64, scatter: &[Sge]) -> Result<(), Error> {
        Ok(self.shared().verbs().post_recv(self.0.qpn, &RecvRequest { wr_id, scatter })?)
    }

    /// Starts nothing new; [`Event::SendQueueDrained`] tells when all that was started is done.
    ///
    /// # Errors
    /// If the state is not RTS.
    pub fn drain(&self) -> Result<(), Error> {
        Ok(self.shared().verbs().to_sqd(self.0.qpn)?)
    }

    /// Goes into error: everything outstanding is flushed.
    ///
    /// # Errors
    /// None is expected.
    pub fn abort(&self) -> Result<(), Error> {
        self.shared().verbs().to_error(self.0.qpn)?;
        self.shared().notify();
        Ok(())
    }
}

/// Eight bytes that nobody can guess.
fn random_seed() -> io::Result<u64> {
    use std::io::Read;
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}
