//! Threads that share the work of a window.
//!
//! A window takes from microseconds to milliseconds, and between two of them one thread must decide what comes next. So
//! whoever has nothing to do looks for more for a short while, and then sleeps: threads of a run that has little to do
//! leave the processor to others.

use cpu_time::ThreadTime;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How often a thread looks for work, or for the end of it, before it sleeps: some tens of microseconds, as long as
/// waking it would take.
const PATIENCE: u32 = 4_000;

/// What becomes of a task in a round.
enum Slot<T> {
    Empty,
    Open(T),
    Done(T),
}

/// Threads that work on rounds of tasks. One of them, the leader, hands each round out and works with the others.
pub(crate) struct Team<T> {
    slots: Vec<Mutex<Slot<T>>>,
    threads: usize,
    /// Number of the round; [`Team::OVER`] ends the work.
    round: AtomicU64,
    /// Tasks of this round that are not done.
    left: AtomicUsize,
    /// A thread has panicked.
    broken: AtomicBool,
    /// How many threads sleep, the leader not counted.
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

impl<T: Send> Team<T> {
    const OVER: u64 = u64::MAX;

    /// A team of `threads` threads, the leader among them, for rounds of `tasks` tasks.
    pub(crate) fn new(threads: usize, tasks: usize) -> Team<T> {
        Team {
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

    /// What a thread other than the leader does until the leader drops its [`Leader`]; `number` counts them from 1.
    pub(crate) fn follow(&self, number: usize, work: impl Fn(&mut T)) {
        let cpu = ThreadTime::now();
        let _alarm = Alarm { team: self };
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

    /// Waits for a round after `seen`.
    fn next_round(&self, seen: u64) -> u64 {
        for _ in 0..PATIENCE {
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

    /// Does tasks until none is open: first the thread's own share, which is the same in each round, so that what they
    /// work with is in its cache; then those that others have not begun.
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

    /// CPU time that the threads beside the leader have spent, once they have ended, in seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.cpu_ns.load(Ordering::Relaxed) as f64 / 1e9
    }
}

/// A task that nobody has begun.
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

/// The thread that hands out the work. When it is dropped, the others end.
pub(crate) struct Leader<'t, T> {
    team: &'t Team<T>,
}

impl<'t, T: Send> Leader<'t, T> {
    pub(crate) fn new(team: &'t Team<T>) -> Leader<'t, T> {
        Leader { team }
    }

    /// Has every task done by somebody, and hands them back in their order. There must be as many as the team was made
    /// for.
    ///
    /// # Panics
    /// If another thread has.
    pub(crate) fn share(&self, tasks: impl Iterator<Item = T>, work: &impl Fn(&mut T), mut done: impl FnMut(T)) {
        let team = self.team;
        team.left.store(team.slots.len(), Ordering::Release);
        for (slot, task) in team.slots.iter().zip(tasks) {
            *lock(slot) = Slot::Open(task);
        }
        self.call(team.round.load(Ordering::Relaxed) + 1);
        team.work_through(0, work);
        self.wait();
        for slot in &team.slots {
            match std::mem::replace(&mut *lock(slot), Slot::Empty) {
                Slot::Done(task) => done(task),
                Slot::Open(_) | Slot::Empty => unreachable!("all tasks of the round are done"),
            }
        }
    }

    /// Begins a round.
    fn call(&self, round: u64) {
        self.team.round.store(round, Ordering::Release);
        if *lock(&self.team.asleep) > 0 {
            self.team.more.notify_all();
        }
    }

    /// Waits until all tasks of the round are done.
    fn wait(&self) {
        let team = self.team;
        let over = || team.left.load(Ordering::Acquire) == 0;
        let check = || assert!(!team.broken.load(Ordering::Acquire), "a thread of the run has panicked");
        for _ in 0..PATIENCE {
            if over() {
                return;
            }
            check();
            std::hint::spin_loop();
        }
        let mut asleep = lock(&team.leader_asleep);
        *asleep = true;
        while !over() {
            check();
            asleep = team.finished.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        *asleep = false;
    }
}

impl<T> Drop for Leader<'_, T> {
    fn drop(&mut self) {
        self.team.round.store(u64::MAX, Ordering::Release);
        let _asleep = lock(&self.team.asleep);
        self.team.more.notify_all();
    }
}

/// Tells the leader if a thread panics, who would wait for it forever.
struct Alarm<'t, T> {
    team: &'t Team<T>,
}

impl<T> Drop for Alarm<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.team.broken.store(true, Ordering::Release);
            let _asleep = lock(&self.team.leader_asleep);
            self.team.finished.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds to numbers in rounds.
    fn count(threads: usize, tasks: usize, rounds: u64, work: impl Fn(&mut u64) + Sync) -> Vec<u64> {
        let team = Team::new(threads, tasks);
        let mut numbers = vec![0; tasks];
        std::thread::scope(|scope| {
            let leader = Leader::new(&team);
            for number in 1..threads {
                let (team, work) = (&team, &work);
                scope.spawn(move || team.follow(number, work));
            }
            for _ in 0..rounds {
                let given = std::mem::take(&mut numbers);
                leader.share(given.into_iter(), &work, |number| numbers.push(number));
            }
        });
        numbers
    }

    #[test]
    fn every_task_of_every_round_is_done_once() {
        for (threads, tasks) in [(1, 1), (2, 1), (2, 2), (3, 8), (5, 3)] {
            assert_eq!(count(threads, tasks, 2_000, |number| *number += 1), vec![2_000; tasks]);
        }
    }

    #[test]
    fn threads_that_sleep_are_woken() {
        // Rounds that last longer than anyone's patience: the leader has to wait for others, and they for it.
        let slow = |number: &mut u64| {
            *number += 1;
            for _ in 0..20 * PATIENCE {
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
