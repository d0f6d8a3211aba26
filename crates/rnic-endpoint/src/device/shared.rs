//! The state that all handles of a device share, and the choice of the thread that sends and receives its packets.
//!
//! # Locks
//!
//! | lock | guards | held |
//! |---|---|---|
//! | `driver` | the port | by the thread that moves packets, even while this thread sleeps until a packet arrives |
//! | `waiters` | threads and tasks that wait for completions | briefly |
//! | `verbs` | queue pairs, memory, completions | briefly, never during a system call |
//! | `sessions` | the keys of protected connections | briefly |
//!
//! A thread that needs several of a device's locks takes them in the order `driver`, `waiters`, `verbs`, `sessions`.
//! The thread that holds the lock of the driver is the *leader*: the progress thread, or a thread of the application
//! that polls. Other threads that wait for completions are *followers*: they sleep on the condition variable `changed`.
//! When the leader releases the driver, it wakes the followers, and one of them becomes the leader.

use super::Error;
use crate::clock::DeviceClock;
use crate::config::{Config, Mode, Security};
use crate::driver::Driver;
use crate::sessions::Sessions;
use crate::sync::lock;
use rnic_transport::Time;
use rnic_verbs::{CqId, MAX_IN_FLIGHT, Notify};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

/// The event for which threads and tasks wait: the completions of a queue, or with `None` the device's asynchronous
/// events.
pub(super) type Source = Option<CqId>;

pub(crate) struct Shared {
    verbs: Mutex<rnic_verbs::Device>,
    driver: Mutex<Driver>,
    pub(super) local: SocketAddr,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) security: Security,
    /// Maximum number of packets that each connection has in flight.
    pub(crate) in_flight: u32,
    /// [`Config::give_up_after`].
    pub(super) give_up_after: Time,
    pub(super) clock: DeviceClock,
    pub(super) mode: Mode,
    waker: Waker,
    closing: AtomicBool,
    /// Number of threads that need to read from the driver. While it is not 0, the leader (the thread that sends and
    /// receives packets) releases the driver.
    asking: AtomicUsize,
    /// Number of threads that wait for completions while another thread sends and receives the packets.
    followers: AtomicUsize,
    /// The failure that closed the device; `None` if no failure closed it.
    failure: Mutex<Option<String>>,
    /// What threads or tasks wait for, with the wakers of the tasks.
    waiters: Mutex<BTreeMap<Source, Vec<Waker>>>,
    /// The number of entries in `waiters`, readable without its lock.
    interest: AtomicUsize,
    changed: Condvar,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
    /// The number ([`thread_mark`]) of the thread that runs a closure in `MemoryRegion::with` or `with_mut`; 0 if no
    /// thread does.
    looking: AtomicU64,
    /// Number of channels of host transports whose peers want credit.
    pub(crate) claims: AtomicU32,
}

/// The lock of the driver. The thread that has it sends and receives the device's packets. Dropping it wakes the
/// threads that wait for completions, so that one of them can take over.
struct Lead<'a> {
    shared: &'a Shared,
    driver: Option<MutexGuard<'a, Driver>>,
}

impl Deref for Lead<'_> {
    type Target = Driver;
    fn deref(&self) -> &Driver {
        self.driver.as_ref().expect("it is there until the drop")
    }
}

impl DerefMut for Lead<'_> {
    fn deref_mut(&mut self) -> &mut Driver {
        self.driver.as_mut().expect("it is there until the drop")
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.driver = None;
        // This fence pairs with the fence in `follow`, which a thread calls to wait for completions (a follower):
        // either the follower finds the driver free, or this thread sees that there is a follower and wakes it.
        fence(Ordering::SeqCst);
        if self.shared.followers.load(Ordering::Relaxed) > 0 {
            self.shared.wake_all();
        }
    }
}

/// Decrements a counter of threads (`asking` or `followers`) when dropped, also if the thread panics.
struct Asking<'a>(&'a AtomicUsize);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shared {
    pub(super) fn new(verbs: rnic_verbs::Device, driver: Driver, config: &Config, clock: DeviceClock) -> Shared {
        Shared {
            sessions: driver.sessions(),
            security: config.security,
            in_flight: config.verbs.in_flight.min(MAX_IN_FLIGHT),
            give_up_after: config.give_up_after,
            local: driver.port().local_addr(),
            waker: driver.port().waker(),
            verbs: Mutex::new(verbs),
            driver: Mutex::new(driver),
            clock,
            mode: config.mode,
            closing: AtomicBool::new(false),
            asking: AtomicUsize::new(0),
            followers: AtomicUsize::new(0),
            failure: Mutex::new(None),
            waiters: Mutex::new(BTreeMap::new()),
            interest: AtomicUsize::new(0),
            changed: Condvar::new(),
            thread: Mutex::new(None),
            looking: AtomicU64::new(0),
            claims: AtomicU32::new(0),
        }
    }

    /// Locks the verbs: queue pairs, memory regions and completions.
    ///
    /// # Panics
    /// If the calling thread is within `MemoryRegion::with` or `with_mut`. It holds this lock already, so it would wait
    /// for itself.
    pub(super) fn verbs(&self) -> MutexGuard<'_, rnic_verbs::Device> {
        let looking = self.looking.load(Ordering::Relaxed);
        assert!(
            looking == 0 || looking != thread_mark(),
            "the device is used within `MemoryRegion::with` or `with_mut`; use it before or after"
        );
        lock(&self.verbs)
    }

    /// Runs a closure of the application while the queue pairs and memory of the device are locked. If the closure uses
    /// the device, the thread panics instead of deadlocking.
    pub(super) fn look<R>(&self, look: impl FnOnce(&mut rnic_verbs::Device) -> R) -> R {
        struct Done<'a>(&'a AtomicU64);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(0, Ordering::Relaxed);
            }
        }
        let mut verbs = self.verbs();
        self.looking.store(thread_mark(), Ordering::Relaxed);
        let _done = Done(&self.looking);
        look(&mut verbs)
    }

    /// Called after a work request was posted. It wakes the thread that sends packets if that thread sleeps, and the
    /// threads that wait for completions if posting generated one.
    pub(super) fn posted(&self) {
        self.waker.wake_by_ref();
        self.notify();
    }

    /// Wakes all threads that sleep in this device: the thread that waits for packets, and the threads that wait for
    /// completions.
    pub(super) fn interrupt(&self) {
        self.waker.wake_by_ref();
        self.wake_all();
    }

    fn lead(&self) -> Lead<'_> {
        Lead { shared: self, driver: Some(lock(&self.driver)) }
    }

    fn try_lead(&self) -> Option<Lead<'_>> {
        let driver = match self.driver.try_lock() {
            Ok(driver) => driver,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Lead { shared: self, driver: Some(driver) })
    }

    /// Whether the thread that holds the driver must neither sleep nor keep the driver, because another thread needs
    /// the driver or the device closes.
    fn is_wanted(&self) -> bool {
        self.asking.load(Ordering::Acquire) > 0 || self.closing.load(Ordering::Acquire)
    }

    /// Receives packets, fires timers and sends packets once, unless another thread holds the driver. Returns whether
    /// it did any work.
    pub(super) fn progress(&self) -> Result<bool, Error> {
        if self.closing.load(Ordering::Acquire) {
            return Ok(false);
        }
        let Some(mut driver) = self.try_lead() else { return Ok(false) };
        let worked = driver.progress(&self.verbs)?;
        drop(driver);
        if worked {
            self.notify();
        }
        Ok(worked)
    }

    /// Receives packets, fires timers and sends packets once. If it finds no work, sleeps until work arrives, `cq` has
    /// completions, or `left` has passed. If another thread holds the driver, only sleeps. Returns whether it found
    /// work, and so did not sleep.
    pub(crate) fn progress_or_wait(&self, cq: Option<CqId>, left: Time) -> Result<bool, Error> {
        self.alive()?;
        let lead = if self.mode == Mode::Polled { self.try_lead() } else { None };
        let Some(mut driver) = lead else { return self.follow(cq, left).map(|()| false) };
        let worked = driver.progress(&self.verbs)?;
        // If another thread causes a completion after this check, `posted` wakes the port, so the sleep ends.
        let complete = || cq.is_some_and(|cq| self.verbs().cq_len(cq) > 0);
        if !worked && !self.is_wanted() && !complete() {
            driver.rest(&self.verbs, Some(left))?;
        }
        drop(driver);
        if worked {
            self.notify();
        }
        while self.asking.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        Ok(worked)
    }

    /// Sleeps while another thread sends and receives the packets: until `cq` has completions, that thread releases the
    /// driver, or `left` has passed.
    fn follow(&self, cq: Option<CqId>, left: Time) -> Result<(), Error> {
        let mut waiters = lock(&self.waiters);
        self.alive()?;
        if let Some(cq) = cq {
            waiters.entry(Some(cq)).or_default();
            self.interest.store(waiters.len(), Ordering::Release);
            if !self.arm_if_empty(Some(cq), Notify::Any)? {
                return Ok(());
            }
        }
        self.followers.fetch_add(1, Ordering::Relaxed);
        let _following = Asking(&self.followers);
        fence(Ordering::SeqCst);
        if self.mode == Mode::Polled && self.is_free() {
            return Ok(());
        }
        let left = Duration::from_nanos(left.as_ps() / 1_000);
        drop(self.changed.wait_timeout(waiters, left));
        Ok(())
    }

    /// Whether no thread holds the driver.
    fn is_free(&self) -> bool {
        !matches!(self.driver.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Wakes the threads that wait for completions.
    pub(crate) fn wake_all(&self) {
        // A thread that waits for completions holds this lock from its last check until it sleeps. So no such thread
        // can miss the notification.
        let _waiters = lock(&self.waiters);
        self.changed.notify_all();
    }

    /// Requests a notification when the completion queue gets a completion, or the device an event; returns `false` if
    /// there already are completions or events.
    fn arm_if_empty(&self, source: Source, notify: Notify) -> Result<bool, Error> {
        let mut verbs = self.verbs();
        let Some(cq) = source else { return Ok(!verbs.has_events()) };
        verbs.arm_cq(cq, notify)?;
        Ok(verbs.cq_len(cq) == 0)
    }

    /// Registers `waker` to be woken when `source` has completions or events, or the device closes. Returns `false` if
    /// `source` already has completions or events.
    pub(super) fn register(&self, source: Source, notify: Notify, waker: &Waker) -> Result<bool, Error> {
        let mut late = Vec::new();
        let armed = {
            let mut waiters = lock(&self.waiters);
            self.alive()?;
            let tasks = waiters.entry(source).or_default();
            // An event of which `notify` has not told anybody yet is older than this registration: it belongs to the
            // others.
            if source.is_none() && self.verbs().take_raised() {
                late = tasks.extract_if(.., |known| !known.will_wake(waker)).collect();
            }
            if !tasks.iter().any(|known| known.will_wake(waker)) {
                tasks.push(waker.clone());
            }
            self.interest.store(waiters.len(), Ordering::Release);
            self.arm_if_empty(source, notify)
        };
        late.into_iter().for_each(Waker::wake);
        armed
    }

    /// Removes the threads and tasks that wait for a completion queue, because the queue is about to be destroyed.
    pub(crate) fn forget(&self, cq: CqId) {
        let tasks = {
            let mut waiters = lock(&self.waiters);
            let tasks = waiters.remove(&Some(cq));
            self.interest.store(waiters.len(), Ordering::Release);
            tasks
        };
        // The wakers are dropped without the lock of the waiters: dropping a task may drop handles of the device, which
        // take this lock.
        drop(tasks);
    }

    /// Wakes the threads and tasks that wait for completions of those queues that have generated a notification, or for
    /// events if one was raised, even if another thread has already taken it.
    ///
    /// No waiter (thread or task) misses a completion. A waiter first registers and then checks for completions while
    /// it holds the lock of the verbs, and completions are generated under the same lock. So a waiter that registers
    /// too late to be woken by this function finds the completion itself.
    pub(super) fn notify(&self) {
        if self.interest.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut tasks = Vec::new();
        {
            let mut waiters = lock(&self.waiters);
            let mut verbs = self.verbs();
            let mut any = false;
            waiters.retain(|source, waiting| {
                let come = match source {
                    Some(cq) => verbs.take_notification(*cq),
                    None => verbs.take_raised(),
                };
                if come {
                    any = true;
                    tasks.append(waiting);
                }
                !come
            });
            self.interest.store(waiters.len(), Ordering::Release);
            if any {
                self.changed.notify_all();
            }
        }
        tasks.into_iter().for_each(Waker::wake);
    }

    /// The body of the progress thread: it sends and receives packets until the device closes.
    pub(super) fn run(&self) {
        /// Wakes all waiting threads and tasks when the progress thread ends, even by a panic.
        struct End<'a>(&'a Shared);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.fail("its thread panicked");
                }
                self.0.closed();
            }
        }
        let _end = End(self);
        while !self.closing.load(Ordering::Acquire) {
            if let Err(error) = self.run_until_wanted() {
                self.fail(&error.to_string());
                return;
            }
            while self.asking.load(Ordering::Acquire) > 0 {
                std::thread::yield_now();
            }
        }
    }

    fn run_until_wanted(&self) -> std::io::Result<()> {
        let mut driver = self.lead();
        while !self.is_wanted() {
            let worked = driver.progress(&self.verbs)?;
            if worked {
                self.notify();
            } else {
                driver.rest(&self.verbs, None)?;
            }
        }
        Ok(())
    }

    fn fail(&self, why: &str) {
        lock(&self.failure).get_or_insert_with(|| why.to_string());
    }

    /// Runs `question`, for example a reading of counters, on the driver. The thread that holds the driver releases it
    /// for that time.
    pub(crate) fn ask<R>(&self, question: impl FnOnce(&Driver) -> R) -> R {
        self.asking.fetch_add(1, Ordering::AcqRel);
        let _asking = Asking(&self.asking);
        self.waker.wake_by_ref();
        question(&self.lead())
    }

    /// Sends the ACKs that wait for the next poll ([`Acknowledge::WithNextPoll`](crate::Acknowledge::WithNextPoll)),
    /// unless another thread holds the driver.
    pub(crate) fn flush(&self) {
        if self.mode == Mode::Polled
            && !self.closing.load(Ordering::Acquire)
            && let Some(mut driver) = self.try_lead()
        {
            driver.flush(&self.verbs);
        }
    }

    /// Waits until the thread that holds the driver has finished its round, and sends the remaining packets.
    pub(super) fn settle(&self) {
        self.asking.fetch_add(1, Ordering::AcqRel);
        let _asking = Asking(&self.asking);
        self.waker.wake_by_ref();
        self.lead().flush(&self.verbs);
    }

    /// Waits until the thread that holds the driver has finished its round, and lets the port handle the messages of
    /// its other sockets.
    pub(super) fn tend(&self) {
        self.asking.fetch_add(1, Ordering::AcqRel);
        let _asking = Asking(&self.asking);
        self.waker.wake_by_ref();
        self.lead().tend();
    }

    /// Closes the device, and waits for the end of its progress thread if it has one.
    pub(super) fn close(&self) {
        self.flush();
        self.closing.store(true, Ordering::Release);
        self.waker.wake_by_ref();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // If the progress thread panicked, the panic was already reported in that thread.
            let _ = thread.join();
        }
        self.closed();
    }

    /// Marks the device as closed, and wakes all threads and tasks that wait for completions.
    fn closed(&self) {
        self.closing.store(true, Ordering::Release);
        let tasks: Vec<Waker> = {
            let mut waiters = lock(&self.waiters);
            self.changed.notify_all();
            waiters.values_mut().flat_map(std::mem::take).collect()
        };
        tasks.into_iter().for_each(Waker::wake);
    }

    pub(super) fn alive(&self) -> Result<(), Error> {
        if !self.closing.load(Ordering::Acquire) {
            return Ok(());
        }
        let why = lock(&self.failure).clone();
        Err(Error::Closed(why.unwrap_or_else(|| "it was shut down".to_string())))
    }
}

/// Returns a nonzero number that identifies the calling thread; no other thread has the same number.
fn thread_mark() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static MARK: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    MARK.with(|mark| *mark)
}
