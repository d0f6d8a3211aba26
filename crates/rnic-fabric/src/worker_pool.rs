//! Threads that together simulate a window of simulated time.
//!
//! The simulation of a window takes from microseconds to milliseconds, and before each window one thread prepares it
//! alone. So a thread without work first spins for a short while, because new work usually comes soon. Then it sleeps,
//! so that the threads of a run with little work leave the processor to other programs.

use cpu_time::ThreadTime;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Number of times that a thread checks for work, or that the leading thread checks whether all tasks are done, before
/// it sleeps. The checks take some tens of microseconds, as long as waking the thread would take.
const MAX_SPINS: u32 = 4_000;

/// The place of one task, and whether the task waits for a thread or is done.
enum Slot<T> {
    Empty,
    Open(T),
    Done(T),
}

/// Threads that work on rounds of tasks. One thread, the leader, distributes the tasks of each round and then works
/// with the others.
pub(crate) struct WorkerPool<T> {
    slots: Vec<Mutex<Slot<T>>>,
    threads: usize,
    /// Number of the current round of tasks; [`WorkerPool::OVER`] tells the threads to end.
    round: AtomicU64,
    /// Number of tasks of the current round that are not done.
    left: AtomicUsize,
    /// Whether a thread has panicked.
    broken: AtomicBool,
    /// Number of sleeping threads, the leader not counted.
    asleep: Mutex<usize>,
    more: Condvar,
    leader_asleep: Mutex<bool>,
    finished: Condvar,
    /// CPU time of all threads but the leader, in nanoseconds.
    cpu_ns: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Send> WorkerPool<T> {
    const OVER: u64 = u64::MAX;

    /// A pool of `threads` threads, for rounds of `tasks` tasks. One of the threads is the leader, which distributes
    /// the tasks.
    pub(crate) fn new(threads: usize, tasks: usize) -> WorkerPool<T> {
        WorkerPool {
            slots: (0..tasks).map(|_| Mutex::new(Slot::Empty)).collect(),
            threads,
            round: AtomicU64::new(0),
            left: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            asleep: Mutex::new(0),
            more: Condvar::new(),
            leader_asleep: Mutex::new(false),
            finished: Condvar::new(),
            cpu_ns: AtomicU64::new(0),
        }
    }

    /// Does tasks in a thread other than the leader (which distributes the tasks) until the leader drops its
    /// [`Leader`]; `number` counts these threads from 1.
    pub(crate) fn follow(&self, number: usize, work: impl Fn(&mut T)) {
        let cpu = ThreadTime::now();
        let _alarm = Alarm { pool: self };
        let mut seen = 0;
        loop {
            seen = self.next_round(seen);
            if seen == Self::OVER {
                break;
            }
            self.work_through(number, &work);
        }
        let spent = u64::try_from(cpu.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.cpu_ns.fetch_add(spent, Ordering::Relaxed);
    }

    /// Waits until a round of tasks other than round `seen` begins, and returns its number.
    fn next_round(&self, seen: u64) -> u64 {
        for _ in 0..MAX_SPINS {
            let round = self.round.load(Ordering::Acquire);
            if round != seen {
                return round;
            }
            std::hint::spin_loop();
        }
        let mut asleep = lock(&self.asleep);
        *asleep += 1;
        loop {
            let round = self.round.load(Ordering::Acquire);
            if round != seen {
                *asleep -= 1;
                return round;
            }
            asleep = self.more.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Does tasks until no task is open. The thread begins with its own share, which is the same in each round, so that
    /// the state of these tasks is in the thread's cache. Then it takes tasks that other threads have not begun.
    fn work_through(&self, number: usize, work: &impl Fn(&mut T)) {
        let tasks = self.slots.len();
        let first = number * tasks / self.threads;
        for turn in 0..tasks {
            let slot = &self.slots[(first + turn) % tasks];
            let Some(mut task) = take_open(slot) else { continue };
            work(&mut task);
            *lock(slot) = Slot::Done(task);
            if self.left.fetch_sub(1, Ordering::AcqRel) == 1 && *lock(&self.leader_asleep) {
                self.finished.notify_one();
            }
        }
    }

    /// CPU time, in seconds, of all threads except the leader (the calling thread), once they have ended.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.cpu_ns.load(Ordering::Relaxed) as f64 / 1e9
    }
}

/// Calls `follow` in other threads with the numbers from 1 to `threads` - 1, and `lead`, which must own the [`Leader`],
/// in this one; returns what `lead` returns, when all threads have ended. Starting threads needs much code, which is
/// compiled once and not for each type of task.
pub(crate) fn run_together<R>(threads: usize, follow: &(dyn Fn(usize) + Sync), lead: Box<dyn FnOnce() -> R + '_>) -> R {
    std::thread::scope(move |scope| {
        for number in 1..threads {
            scope.spawn(move || follow(number));
        }
        lead()
    })
}

/// Takes a task that no thread has begun.
fn take_open<T>(slot: &Mutex<Slot<T>>) -> Option<T> {
    let mut slot = slot.try_lock().ok()?;
    match std::mem::replace(&mut *slot, Slot::Empty) {
        Slot::Open(task) => Some(task),
        other => {
            *slot = other;
            None
        }
    }
}

/// The handle of the leader, the thread that distributes the tasks. The other threads end when the handle is dropped.
pub(crate) struct Leader<'t, T> {
    pool: &'t WorkerPool<T>,
}

impl<'t, T: Send> Leader<'t, T> {
    pub(crate) fn new(pool: &'t WorkerPool<T>) -> Leader<'t, T> {
        Leader { pool }
    }

    /// Distributes `tasks` to the threads, waits until every task is done, and passes the tasks to `done` in their
    /// original order. The number of tasks must be the number given to [`WorkerPool::new`].
    ///
    /// # Panics
    /// If another thread has panicked.
    pub(crate) fn share(&self, tasks: impl Iterator<Item = T>, work: &impl Fn(&mut T), mut done: impl FnMut(T)) {
        let pool = self.pool;
        pool.left.store(pool.slots.len(), Ordering::Release);
        for (slot, task) in pool.slots.iter().zip(tasks) {
            *lock(slot) = Slot::Open(task);
        }
        self.call(pool.round.load(Ordering::Relaxed) + 1);
        pool.work_through(0, work);
        self.wait();
        for slot in &pool.slots {
            match std::mem::replace(&mut *lock(slot), Slot::Empty) {
                Slot::Done(task) => done(task),
                Slot::Open(_) | Slot::Empty => unreachable!("all tasks of the round are done"),
            }
        }
    }

    /// Begins the round of tasks with this number, and wakes sleeping threads.
    fn call(&self, round: u64) {
        self.pool.round.store(round, Ordering::Release);
        if *lock(&self.pool.asleep) > 0 {
            self.pool.more.notify_all();
        }
    }

    /// Waits until all tasks of the round are done.
    fn wait(&self) {
        let pool = self.pool;
        let over = || pool.left.load(Ordering::Acquire) == 0;
        let check = || assert!(!pool.broken.load(Ordering::Acquire), "a thread of the run has panicked");
        for _ in 0..MAX_SPINS {
            if over() {
                return;
            }
            check();
            std::hint::spin_loop();
        }
        let mut asleep = lock(&pool.leader_asleep);
        *asleep = true;
        while !over() {
            check();
            asleep = pool.finished.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        *asleep = false;
    }
}

impl<T> Drop for Leader<'_, T> {
    fn drop(&mut self) {
        self.pool.round.store(u64::MAX, Ordering::Release);
        let _asleep = lock(&self.pool.asleep);
        self.pool.more.notify_all();
    }
}

/// Wakes the leader, which waits for all tasks of a round, if a thread panics; otherwise the leader would wait for ever
/// for the thread's tasks.
struct Alarm<'t, T> {
    pool: &'t WorkerPool<T>,
}

impl<T> Drop for Alarm<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.pool.broken.store(true, Ordering::Release);
            let _asleep = lock(&self.pool.leader_asleep);
            self.pool.finished.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes `tasks` numbers, which start at 0, and applies `work` to each number in each of `rounds` rounds; returns
    /// the numbers.
    fn count(threads: usize, tasks: usize, rounds: u64, work: impl Fn(&mut u64) + Sync) -> Vec<u64> {
        let pool = WorkerPool::new(threads, tasks);
        let mut numbers = vec![0; tasks];
        let (leader, work) = (Leader::new(&pool), &work);
        let lead = Box::new(move || {
            for _ in 0..rounds {
                let given = std::mem::take(&mut numbers);
                leader.share(given.into_iter(), work, |number| numbers.push(number));
            }
            numbers
        });
        run_together(threads, &|number| pool.follow(number, work), lead)
    }

    #[test]
    fn every_task_of_every_round_is_done_once() {
        for (threads, tasks) in [(1, 1), (2, 1), (2, 2), (3, 8), (5, 3)] {
            assert_eq!(count(threads, tasks, 2_000, |number| *number += 1), vec![2_000; tasks]);
        }
    }

    #[test]
    fn threads_that_sleep_are_woken() {
        // The rounds are so long that threads sleep: the leader while it waits for the other threads, and these while
        // they wait for the leader.
        let slow = |number: &mut u64| {
            *number += 1;
            for _ in 0..20 * MAX_SPINS {
                std::hint::spin_loop();
            }
        };
        assert_eq!(count(3, 4, 20, slow), [20; 4]);
    }

    #[test]
    fn a_panic_of_one_thread_ends_the_run() {
        let fails = |number: &mut u64| {
            assert!(std::thread::current().name().is_some_and(|name| name.contains("a_panic")) || *number < 3);
            *number += 1;
        };
        let run = || count(2, 2, 1_000_000, fails);
        assert!(std::panic::catch_unwind(run).is_err());
    }
}
