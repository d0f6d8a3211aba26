//! Which thread sends and receives the packets of a device (the *leader*): a thread of the program while it polls
//! completion queues, and otherwise a thread of this library.
//!
//! Programs wait in three ways. A program that *polls a completion queue* in a loop has the lowest latency if it moves
//! the packets itself; a second thread that does so would use a core and compete for the device's lock. A program that
//! *sleeps* until an event, or that *polls memory* until a peer has written it, makes no call, so that a thread of the
//! library must move the packets.
//!
//! ```text
//!                    packets moved for 20 µs
//!   ┌──────────┐ ──────────────────────────────▶ ┌──────────┐
//!   │ Sleeping │                                 │ Spinning │
//!   └──────────┘ ◀────────────────────────────── └──────────┘
//!      │    ▲          spin credit used up            │
//!      │    │                                         │
//!      │    │ the program goes to sleep,              │
//!      │    │ or has stopped polling                  │
//!      ▼    │                                         │
//!   ┌───────────────┐                                 │
//!   │ Program leads │ ◀───────────────────────────────┘
//!   └───────────────┘    from both states: more empty polls than the poll limit
//! ```
//!
//! - *Sleeping*: the library's thread leads, and sleeps in the kernel until a packet arrives.
//! - *Spinning*: the library's thread leads, and polls. It has collected spin credit by moving packets.
//! - *Program leads*: each poll of the program moves packets if it finds no completion. The library's thread only
//!   checks, at an interval, whether the program still polls.
//!
//! The *poll limit* is the number of empty polls, which find no completion, after which the program becomes the leader.
//! If the library's thread finds packets when the program has stopped polling, the program does not only poll
//! completion queues, and the poll limit grows. It is reset after the program has led for a while. On a busy host the
//! program may have lost its processor, nearly always inside a poll: such a poll counts as polling.

use rnic_endpoint::{Clock, Device, Time, TimeSource};
use rnic_verbs::{Completion, CqId, VerbsError};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// The poll limit: its initial value and its maximum.
const POLL_LIMIT: (u32, u32) = (16, 1 << 16);
/// Interval at which the library's thread checks whether the program still polls: the first value and the maximum. The
/// program has stopped if it has not polled between two checks.
const CHECK_INTERVAL: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(1));
/// Number of consecutive checks that find the same unfinished poll, after which it no longer counts as polling: its
/// thread may have left it by `longjmp`.
const MAX_CHECKS_OF_A_POLL: u32 = 100;
/// After the program has driven the device for this long, the poll limit is reset to its initial value.
const LIMIT_RESET: Time = Time::from_ms(10);
/// Time of moving packets after which the library's thread spins before it sleeps, and the maximum of the spin credit.
/// So the thread stays awake during a stream of packets, and no wake-up is needed for each burst: on a host without
/// other work a wake-up costs more than the burst. For single messages the thread sleeps immediately: on a host with
/// few cores a program that polls memory needs the core on which the thread would spin.
const SPIN_CREDIT: (Time, Time) = (Time::from_us(20), Time::from_us(100));
/// Maximum time for which the thread sleeps while no packets arrive.
const MAX_SLEEP: Time = Time::from_ms(1_000);

struct State {
    device: Device,
    clock: Clock,
    /// Whether the program's threads move the packets while they poll.
    program_leads: AtomicBool,
    /// Changes with each of the program's polls while it leads, and is odd while a thread is inside a poll. Concurrent
    /// polls may count as one; the last one that ends makes it even.
    polls: AtomicU64,
    poll_limit: PollLimit,
    closing: AtomicBool,
}

/// Counts empty polls while the library's thread leads, and decides when the program becomes the leader.
struct PollLimit {
    /// Number of empty polls. Each poll that finds a completion subtracts the initial poll limit: a program that polls
    /// in a loop becomes the leader also if the limit is high.
    empty_polls: AtomicU32,
    /// The poll limit.
    limit: AtomicU32,
}

impl PollLimit {
    fn new() -> PollLimit {
        PollLimit { empty_polls: AtomicU32::new(0), limit: AtomicU32::new(POLL_LIMIT.0) }
    }

    /// Counts a poll. Returns whether the program becomes the leader.
    fn on_poll(&self, found: bool) -> bool {
        // Concurrent polls may count as one.
        let empty = self.empty_polls.load(Ordering::Relaxed);
        let empty = if found { empty.saturating_sub(POLL_LIMIT.0) } else { empty + 1 };
        let exceeded = empty > self.limit.load(Ordering::Relaxed);
        self.empty_polls.store(if exceeded { 0 } else { empty }, Ordering::Relaxed);
        exceeded
    }

    /// Handles that the program is going to sleep.
    fn on_sleep(&self) {
        self.empty_polls.store(0, Ordering::Relaxed);
    }

    /// Handles that the program has stopped polling, after it has led for the time `led`. `packets_waited` says whether
    /// packets have arrived that the program has not received.
    fn on_stop(&self, led: Time, packets_waited: bool) {
        if led > LIMIT_RESET {
            self.limit.store(POLL_LIMIT.0, Ordering::Relaxed);
        } else if packets_waited {
            self.limit.store((self.limit.load(Ordering::Relaxed) * 4).min(POLL_LIMIT.1), Ordering::Relaxed);
        }
    }
}

/// Checks whether the program polls, by samples of [`State::polls`].
#[derive(Default)]
struct PollMonitor {
    last: u64,
    /// Number of consecutive checks with the same sample.
    unchanged: u32,
}

impl PollMonitor {
    /// Returns whether the program polls.
    fn check(&mut self, polls: u64) -> bool {
        self.unchanged = if polls == self.last { self.unchanged + 1 } else { 0 };
        self.last = polls;
        self.unchanged == 0 || (polls % 2 == 1 && self.unchanged < MAX_CHECKS_OF_A_POLL)
    }
}

/// The open devices of a process, for [`at_exit`], and the process: a child made by `fork` has copies of the devices,
/// but not their threads.
static OPEN_DEVICES: Mutex<(u32, Vec<Weak<State>>)> = Mutex::new((0, Vec::new()));

/// Registers a device for [`at_exit`].
fn register(state: &Arc<State>) {
    let mut open = OPEN_DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if open.0 != process {
        if open.0 == 0 {
            // SAFETY: the function has the right type, and stays.
            unsafe { libc::atexit(at_exit) };
        }
        *open = (process, Vec::new());
    }
    open.1.retain(|state| state.strong_count() > 0);
    open.1.push(Arc::downgrade(state));
}

/// Removes a device that is being closed. No other thread has it afterwards.
fn unregister(state: &Arc<State>) {
    let mut open = OPEN_DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    open.1.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(state)));
}

/// Sends the ACKs of received packets before the process ends, because a NIC would still send them. The process may not
/// have destroyed its queue pairs.
extern "C" fn at_exit() {
    // A thread that is opening a device, or a thread of the parent at the time of a fork, may have the lock.
    let Ok(open) = OPEN_DEVICES.try_lock() else { return };
    if open.0 == std::process::id() {
        open.1.iter().filter_map(Weak::upgrade).for_each(|state| state.device.settle());
    }
}

/// Makes the open devices of this process close their connections to a device that was just closed: a program that
/// closes a device has its descriptors back.
pub(crate) fn tend() {
    let open = OPEN_DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    if open.0 == std::process::id() {
        // A device that is closed in the meantime waits in `unregister`, so that this thread never frees it.
        open.1.iter().filter_map(Weak::upgrade).for_each(|state| state.device.tend());
    }
}

/// Spin credit: time for which the library's thread may spin, at most as long as it has moved packets since it woke.
#[derive(Default)]
struct SpinCredit {
    left: Time,
    spinning: bool,
}

impl SpinCredit {
    fn add(&mut self, time: Time, worked: bool) {
        self.left = if worked { (self.left + time).min(SPIN_CREDIT.1) } else { self.left.saturating_sub(time) };
        self.spinning = self.left >= if self.spinning { Time::from_ps(1) } else { SPIN_CREDIT.0 };
    }

    fn admits_spinning(&self) -> bool {
        self.spinning
    }
}

/// The progress of a device.
pub(crate) struct Progress {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts the thread of a device. The device must not have its own progress thread.
    pub(crate) fn start(device: Device) -> std::io::Result<Progress> {
        let state = Arc::new(State {
            device,
            clock: Clock::start(),
            program_leads: AtomicBool::new(false),
            polls: AtomicU64::new(0),
            poll_limit: PollLimit::new(),
            closing: AtomicBool::new(false),
        });
        register(&state);
        let theirs = state.clone();
        let thread = rnic_cabi::thread::spawn("rnic", move || theirs.run())?;
        Ok(Progress { state, thread: Some(thread) })
    }

    /// Moves completions into `out`; returns their number.
    pub(crate) fn poll(&self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        let state = &self.state;
        if state.program_leads.load(Ordering::Acquire) {
            let number = state.polls.load(Ordering::Relaxed).wrapping_add(2) | 1;
            state.polls.store(number, Ordering::Relaxed);
            let polled = state.poll_as_leader(cq, out);
            state.polls.store(number & !1, Ordering::Relaxed);
            return polled;
        }
        let count = state.device.poll_number(cq, out)?;
        if state.poll_limit.on_poll(count > 0) {
            state.program_leads.store(true, Ordering::Release);
            // The library's thread sleeps while it holds the lock of the port: wake it.
            state.device.interrupt();
        }
        Ok(count)
    }

    /// Makes the library's thread the leader, because the program is going to sleep until an event.
    pub(crate) fn program_sleeps(&self) {
        self.state.poll_limit.on_sleep();
        if self.state.program_leads.swap(false, Ordering::AcqRel)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        unregister(&self.state);
        self.state.closing.store(true, Ordering::Release);
        self.state.device.interrupt();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If the thread has panicked, the panic was already reported.
            let _ = thread.join();
        }
        self.state.device.shut_down();
    }
}

impl State {
    /// Takes completions. If the queue has none, moves packets first.
    fn poll_as_leader(&self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        // Existing completions come before the ACKs that are due: the program may respond to a message immediately, and
        // then one system call sends the response and the ACK.
        let count = self.device.poll_number(cq, out)?;
        if count > 0 {
            return Ok(count);
        }
        if let Err(rnic_endpoint::Error::Closed(why)) = self.device.progress() {
            return Err(VerbsError::Closed(why));
        }
        self.device.poll_number(cq, out)
    }

    fn run(&self) {
        while !self.closing.load(Ordering::Acquire) {
            if self.program_leads.load(Ordering::Acquire) {
                self.watch_program();
            } else if self.serve().is_err() {
                // The device is closed; threads that poll it get the error.
                return;
            }
        }
    }

    /// Moves packets until none have arrived for a while, and then sleeps until one arrives.
    fn serve(&self) -> Result<(), rnic_endpoint::Error> {
        let mut credit = SpinCredit::default();
        let mut before = self.clock.now();
        while !self.program_leads.load(Ordering::Acquire) && !self.closing.load(Ordering::Acquire) {
            let spins = credit.admits_spinning();
            let worked = if spins { self.device.progress()? } else { self.device.wait(MAX_SLEEP)? };
            let now = self.clock.now();
            if !worked && !spins {
                return Ok(());
            }
            credit.add(now.saturating_sub(before), worked);
            before = now;
            if !worked {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// Checks whether the program still polls, until it has stopped.
    fn watch_program(&self) {
        let since = self.clock.now();
        let mut interval = CHECK_INTERVAL.0;
        let mut monitor = PollMonitor::default();
        monitor.check(self.polls.load(Ordering::Relaxed));
        while self.program_leads.load(Ordering::Acquire) && !self.closing.load(Ordering::Acquire) {
            std::thread::park_timeout(interval);
            if monitor.check(self.polls.load(Ordering::Relaxed)) {
                interval = (interval * 2).min(CHECK_INTERVAL.1);
                continue;
            }
            if !self.program_leads.swap(false, Ordering::AcqRel) {
                return;
            }
            let led = self.clock.now().saturating_sub(since);
            let packets_waited = matches!(self.device.progress(), Ok(true));
            self.poll_limit.on_stop(led, packets_waited);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls until the program becomes the leader; returns the number of polls.
    fn polls_until_it_leads(limit: &PollLimit, found_after: Option<u32>) -> u32 {
        (1..1 << 24).find(|poll| limit.on_poll(found_after.is_some_and(|every| poll % every == 0))).unwrap()
    }

    #[test]
    fn a_program_that_also_sleeps_becomes_the_leader_later_and_later() {
        let limit = PollLimit::new();
        let soon = Time::from_us(200);
        for expected in [17, 65, 257, 1_025, 4_097, 16_385, 65_537, 65_537] {
            assert_eq!(polls_until_it_leads(&limit, None), expected);
            limit.on_stop(soon, true);
        }
        limit.on_stop(soon, false);
        assert_eq!(polls_until_it_leads(&limit, None), 65_537, "no packets waited, but it led for a short time");
        limit.on_stop(LIMIT_RESET * 2, true);
        assert_eq!(polls_until_it_leads(&limit, None), 17, "it led for long before it stopped");
        for _ in 0..16 {
            assert!(!limit.on_poll(false));
        }
        limit.on_sleep();
        assert_eq!(polls_until_it_leads(&limit, None), 17);
    }

    #[test]
    fn a_program_that_finds_messages_becomes_the_leader_too() {
        let limit = PollLimit::new();
        assert!((0..1 << 20).all(|_| !limit.on_poll(true)));
        for _ in 0..8 {
            limit.on_stop(Time::ZERO, true);
        }
        // A ping-pong: each message takes 100 polls, 99 of them empty.
        let polls = polls_until_it_leads(&limit, Some(100));
        assert_eq!(polls, 78_950);
    }

    #[test]
    fn a_program_that_lost_its_processor_inside_a_poll_still_polls() {
        let mut monitor = PollMonitor::default();
        assert!(monitor.check(3));
        assert!((1..MAX_CHECKS_OF_A_POLL).all(|_| monitor.check(3)), "inside a poll");
        assert!(!monitor.check(3), "the poll does not end");
        assert!(monitor.check(4) && !monitor.check(4), "outside");
        assert!(monitor.check(7) && monitor.check(7));
    }
}
