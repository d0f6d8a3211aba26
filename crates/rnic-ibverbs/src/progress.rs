//! Who sends and receives the packets of a device: the program's threads while they poll completion queues, and
//! otherwise a thread of this library.
//!
//! Programs wait in three ways. A program that *polls a completion queue* without a pause has the lowest latency if it
//! moves the packets itself; a second thread that does so would take a core and fight for the device's lock. A program
//! that *sleeps* until there is an event, or that *polls memory* until a peer has written it, makes no call, so that a
//! thread of the library must move the packets.
//!
//! So the library's thread sleeps in the kernel until a packet arrives. When a program has polled queues in vain
//! several times in a row, the thread leaves the work to it ([`Leader::Program`]), and looks now and then whether the
//! program still polls. If not, it takes the work back ([`Leader::Library`]). If it finds packets then that nobody has
//! handled, the program does not only poll queues, and has to poll more often in vain the next time.

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
    /// Number of the program's polls while it leads. Threads that poll at the same time may count as one.
    polls: AtomicU64,
    /// Polls in a row that found nothing.
    vain: AtomicU32,
    /// Polls in vain after which the program gets the work.
    patience: AtomicU32,
    closing: AtomicBool,
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
            vain: AtomicU32::new(0),
            patience: AtomicU32::new(PATIENCE.0),
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
            state.polls.store(state.polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            // Completions that are there come before the ACKs that are due: the program may answer a message at once,
            // and then one system call sends the answer and the ACK.
            let count = state.device.poll_number(cq, out)?;
            if count > 0 {
                return Ok(count);
            }
            if let Err(rnic_endpoint::Error::Closed(why)) = state.device.progress() {
                return Err(VerbsError::Closed(why));
            }
            return state.device.poll_number(cq, out);
        }
        let count = state.device.poll_number(cq, out)?;
        if count > 0 {
            state.vain.store(0, Ordering::Relaxed);
        } else if state.vain.fetch_add(1, Ordering::Relaxed) >= state.patience.load(Ordering::Relaxed) {
            state.vain.store(0, Ordering::Relaxed);
            state.program_leads.store(true, Ordering::Release);
            // The thread sleeps with the lock of the port.
            state.device.interrupt();
        }
        Ok(count)
    }

    /// The program is going to sleep until there is an event, so the thread has to move the packets.
    pub(crate) fn program_sleeps(&self) {
        self.state.vain.store(0, Ordering::Relaxed);
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
        let mut polls = self.polls.load(Ordering::Relaxed);
        while self.program_leads.load(Ordering::Acquire) && !self.closing.load(Ordering::Acquire) {
            std::thread::park_timeout(nap);
            let before = std::mem::replace(&mut polls, self.polls.load(Ordering::Relaxed));
            if polls != before {
                nap = (nap * 2).min(NAP.1);
                continue;
            }
            if !self.program_leads.swap(false, Ordering::AcqRel) {
                return;
            }
            let patience = self.patience.load(Ordering::Relaxed);
            let neglected = matches!(self.device.progress(), Ok(true));
            if neglected {
                self.patience.store((patience * 4).min(PATIENCE.1), Ordering::Relaxed);
            } else if self.clock.now().saturating_sub(since) > STEADY {
                self.patience.store(PATIENCE.0, Ordering::Relaxed);
            }
        }
    }
}
