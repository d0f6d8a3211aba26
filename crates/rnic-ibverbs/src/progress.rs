//! Who sends and receives the packets of a device: the program's threads while they poll completion queues, and
//! otherwise a thread of this library.
//!
//! Programs wait in three ways. A program that *polls a completion queue* without a pause has the lowest latency if it
//! moves the packets itself; a second thread that does so would take a core and fight for the device's lock. A program
//! that *sleeps* until there is an event, or that *polls memory* until a peer has written it, makes no call, so that a
//! thread of the library must move the packets.
//!
//! So the library's thread sleeps in the kernel until a packet arrives. When a program has polled queues in vain
//! several times, the thread leaves the work to it, and looks now and then whether the program still polls. If not,
//! it takes the work back. If it finds packets then that nobody has handled, the program does not only poll queues,
//! and has to poll more often in vain the next time. On a busy host the program may have lost its processor
//! meanwhile, nearly always inside of a poll: it has not stopped polling then.

use rnic_endpoint::{Clock, Device, Time, TimeSource};
use rnic_verbs::{Completion, CqId, VerbsError};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Polls in vain after which the program gets the work: at first, and at most.
const PATIENCE: (u32, u32) = (16, 1 << 16);
/// Pauses between two looks at a program that polls: at first, and at most. It has stopped polling if it has not polled
/// between two looks.
const NAP: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(1));
/// Looks in a row at the same poll that has not ended, after which it counts as no poll: its thread may have left it by
/// `longjmp`.
const LOST: u32 = 100;
/// How long the program must have moved the packets for the patience to be that of the beginning again.
const STEADY: Time = Time::from_ms(10);
/// Work in one spell after which the thread spins before it sleeps, and how much of it counts at most. So a stream of
/// packets meets a thread that is awake, whose peer need not wake it for each burst; on a host without other work that
/// costs more than the burst. For messages that come one by one the thread sleeps at once: on a host with few cores a
/// program that polls memory needs the core on which it would spin.
const SPELL: (Time, Time) = (Time::from_us(20), Time::from_us(100));
/// How long the thread sleeps at most while there are no packets.
const SLEEP: Time = Time::from_ms(1_000);

struct State {
    device: Device,
    clock: Clock,
    /// Whether the program's threads move the packets while they poll.
    program_leads: AtomicBool,
    /// Changes with each of the program's polls while it leads, and is odd while a thread is inside of one. Threads
    /// that poll at the same time may count as one; the last one that ends makes it even.
    polls: AtomicU64,
    patience: Patience,
    closing: AtomicBool,
}

/// Decides when a program that polls gets the work.
struct Patience {
    /// Polls that found nothing, while the library has the work. Each poll that found something takes away
    /// [`PATIENCE`]'s first number: a program that polls all the time gets the work also if it has lost it often.
    vain: AtomicU32,
    /// Polls in vain after which the program gets the work.
    limit: AtomicU32,
}

impl Patience {
    fn new() -> Patience {
        Patience { vain: AtomicU32::new(0), limit: AtomicU32::new(PATIENCE.0) }
    }

    /// Notes a poll that found something or nothing; returns whether the program gets the work.
    fn polled(&self, found: bool) -> bool {
        // Threads that poll at the same time may count as one.
        let vain = self.vain.load(Ordering::Relaxed);
        let vain = if found { vain.saturating_sub(PATIENCE.0) } else { vain + 1 };
        let gets = vain > self.limit.load(Ordering::Relaxed);
        self.vain.store(if gets { 0 } else { vain }, Ordering::Relaxed);
        gets
    }

    /// The program is going to sleep.
    fn sleeps(&self) {
        self.vain.store(0, Ordering::Relaxed);
    }

    /// The program has stopped polling, after it has had the work for the time `led`. If packets were `neglected`
    /// since, it does not only poll queues.
    fn stopped(&self, led: Time, neglected: bool) {
        if led > STEADY {
            self.limit.store(PATIENCE.0, Ordering::Relaxed);
        } else if neglected {
            self.limit.store((self.limit.load(Ordering::Relaxed) * 4).min(PATIENCE.1), Ordering::Relaxed);
        }
    }
}

/// Sees whether a program polls, from [`State::polls`] at times.
#[derive(Default)]
struct Looks {
    last: u64,
    same: u32,
}

impl Looks {
    /// Returns whether the program polls.
    fn look(&mut self, polls: u64) -> bool {
        self.same = if polls == self.last { self.same + 1 } else { 0 };
        self.last = polls;
        self.same == 0 || (polls % 2 == 1 && self.same < LOST)
    }
}

/// The devices of a process that are open, for [`end`], and the process: a child that `fork` made has copies of them,
/// but not their threads.
static OPEN: Mutex<(u32, Vec<Weak<State>>)> = Mutex::new((0, Vec::new()));

/// Notes a device for [`end`].
fn note(state: &Arc<State>) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if open.0 != process {
        if open.0 == 0 {
            // SAFETY: the function has the right type, and stays.
            unsafe { libc::atexit(end) };
        }
        *open = (process, Vec::new());
    }
    open.1.retain(|state| state.strong_count() > 0);
    open.1.push(Arc::downgrade(state));
}

/// The process ends, perhaps without destroying its queue pairs. The ACKs of what it has received leave before, as they
/// would from a NIC.
extern "C" fn end() {
    // A thread that opens a device meanwhile, or a thread of the parent at the time of a fork, may have the lock.
    let Ok(open) = OPEN.try_lock() else { return };
    if open.0 == std::process::id() {
        open.1.iter().filter_map(Weak::upgrade).for_each(|state| state.device.settle());
    }
}

/// How long the thread may still spin: as long as it has worked since it woke.
#[derive(Default)]
struct Credit {
    left: Time,
    spinning: bool,
}

impl Credit {
    fn add(&mut self, time: Time, worked: bool) {
        self.left = if worked { (self.left + time).min(SPELL.1) } else { self.left.saturating_sub(time) };
        self.spinning = self.left >= if self.spinning { Time::from_ps(1) } else { SPELL.0 };
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
    /// Starts the thread of a device, which has no progress thread of its own.
    pub(crate) fn start(device: Device) -> std::io::Result<Progress> {
        let state = Arc::new(State {
            device,
            clock: Clock::start(),
            program_leads: AtomicBool::new(false),
            polls: AtomicU64::new(0),
            patience: Patience::new(),
            closing: AtomicBool::new(false),
        });
        note(&state);
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
        if state.patience.polled(count > 0) {
            state.program_leads.store(true, Ordering::Release);
            // The thread sleeps with the lock of the port.
            state.device.interrupt();
        }
        Ok(count)
    }

    /// The program is going to sleep until there is an event, so the thread has to move the packets.
    pub(crate) fn program_sleeps(&self) {
        self.state.patience.sleeps();
        if self.state.program_leads.swap(false, Ordering::AcqRel)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.state.closing.store(true, Ordering::Release);
        self.state.device.interrupt();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic was reported in that thread.
            let _ = thread.join();
        }
        self.state.device.shut_down();
    }
}

impl State {
    /// Moves packets if there is no completion.
    fn poll_as_leader(&self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        // Completions that are there come before the ACKs that are due: the program may answer a message at once, and
        // then one system call sends the answer and the ACK.
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
                // The device is closed; those who poll it get the error.
                return;
            }
        }
    }

    /// Moves packets until there have been none for a while, and sleeps then until there are some.
    fn serve(&self) -> Result<(), rnic_endpoint::Error> {
        let mut credit = Credit::default();
        let mut before = self.clock.now();
        while !self.program_leads.load(Ordering::Acquire) && !self.closing.load(Ordering::Acquire) {
            let spins = credit.admits_spinning();
            let worked = if spins { self.device.progress()? } else { self.device.wait(SLEEP)? };
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

    /// Waits until the program has stopped polling.
    fn watch_program(&self) {
        let since = self.clock.now();
        let mut nap = NAP.0;
        let mut looks = Looks::default();
        looks.look(self.polls.load(Ordering::Relaxed));
        while self.program_leads.load(Ordering::Acquire) && !self.closing.load(Ordering::Acquire) {
            std::thread::park_timeout(nap);
            if looks.look(self.polls.load(Ordering::Relaxed)) {
                nap = (nap * 2).min(NAP.1);
                continue;
            }
            if !self.program_leads.swap(false, Ordering::AcqRel) {
                return;
            }
            let led = self.clock.now().saturating_sub(since);
            let neglected = matches!(self.device.progress(), Ok(true));
            self.patience.stopped(led, neglected);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls until the program gets the work; returns the number of polls.
    fn polls_until_it_leads(patience: &Patience, found_after: Option<u32>) -> u32 {
        (1..1 << 24).find(|poll| patience.polled(found_after.is_some_and(|every| poll % every == 0))).unwrap()
    }

    #[test]
    fn a_program_that_also_sleeps_gets_the_work_later_and_later() {
        let patience = Patience::new();
        let soon = Time::from_us(200);
        for expected in [17, 65, 257, 1_025, 4_097, 16_385, 65_537, 65_537] {
            assert_eq!(polls_until_it_leads(&patience, None), expected);
            patience.stopped(soon, true);
        }
        patience.stopped(soon, false);
        assert_eq!(polls_until_it_leads(&patience, None), 65_537, "nothing was neglected, but it led for a short time");
        patience.stopped(STEADY * 2, true);
        assert_eq!(polls_until_it_leads(&patience, None), 17, "it led for long before it stopped");
        for _ in 0..16 {
            assert!(!patience.polled(false));
        }
        patience.sleeps();
        assert_eq!(polls_until_it_leads(&patience, None), 17);
    }

    #[test]
    fn a_program_that_finds_messages_gets_the_work_too() {
        let patience = Patience::new();
        assert!((0..1 << 20).all(|_| !patience.polled(true)));
        for _ in 0..8 {
            patience.stopped(Time::ZERO, true);
        }
        // A ping-pong: each message takes 100 polls, 99 of them in vain.
        let polls = polls_until_it_leads(&patience, Some(100));
        assert_eq!(polls, 78_950);
    }

    #[test]
    fn a_program_that_lost_its_processor_inside_of_a_poll_still_polls() {
        let mut looks = Looks::default();
        assert!(looks.look(3));
        assert!((1..LOST).all(|_| looks.look(3)), "inside of a poll");
        assert!(!looks.look(3), "the poll does not end");
        assert!(looks.look(4) && !looks.look(4), "outside");
        assert!(looks.look(7) && looks.look(7));
    }
}
