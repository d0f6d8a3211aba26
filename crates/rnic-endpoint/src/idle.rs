//! Decides whether a progress loop (the loop of a thread that sends and receives packets) spins or sleeps while it has
//! no work.
//!
//! A thread that sleeps uses no CPU time, but it wakes up late: the kernel's timers are late by tens of microseconds,
//! and a datagram that arrives has to wake the thread first. A thread that spins reacts in time, but it occupies a
//! core. [`Idle`] makes the thread spin in two cases: shortly before a deadline, such as the departure of the next
//! packet of a paced flow, and for a while after the last work, because a response often follows soon. Otherwise the
//! thread sleeps.
//!
//! ```no_run
//! # use rnic_endpoint::{Clock, Port, TimeSource, UdpPort};
//! # use rnic_endpoint::idle::{Idle, IdleConfig};
//! # use rnic_endpoint::port::Interest;
//! # use rnic_transport::Time;
//! # fn work(port: &mut UdpPort, now: Time) -> bool { false }
//! # fn next_deadline() -> Option<Time> { None }
//! # fn example(mut port: UdpPort) -> std::io::Result<()> {
//! let clock = Clock::start();
//! let mut idle = Idle::new(IdleConfig::default());
//! loop {
//!     let now = clock.now();
//!     if work(&mut port, now) {
//!         idle.worked(now);
//!     } else {
//!         idle.rest(&mut port, now, Interest::Arrival, next_deadline())?;
//!     }
//! }
//! # }
//! ```

use crate::port::{Interest, Port};
use rnic_transport::Time;
use std::io;

/// Settings for the time without work of a thread that sends and receives packets in a loop: when it spins, and when it
/// sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdleConfig {
    /// How long the thread spins after its last work (a packet or a timer) before it sleeps. With [`Time::MAX`] it
    /// never sleeps; with [`Time::ZERO`] it sleeps immediately.
    pub spin: Time,
    /// How long before a deadline, such as the expiry of a timer, the thread stops sleeping and spins. It should be
    /// about as long as the delay with which the system wakes a sleeping thread. With a larger value the thread meets
    /// its deadlines more exactly, and uses more CPU time.
    pub slack: Time,
}

impl Default for IdleConfig {
    fn default() -> IdleConfig {
        IdleConfig { spin: Time::from_us(50), slack: Time::from_us(50) }
    }
}

/// What a thread that has no packets to move does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plan {
    /// The thread looks for work again immediately.
    Spin,
    /// The thread sleeps in [`Port::wait`] with this timeout; `None` means without a timeout.
    Block(Option<Time>),
}

/// Decides whether a thread that has no packets to move spins or sleeps, from the time of its last work and its next
/// deadline.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    config: IdleConfig,
    last_work: Option<Time>,
}

impl Idle {
    /// Creates the state of a progress loop that has not done any work yet.
    pub fn new(config: IdleConfig) -> Idle {
        Idle { config, last_work: None }
    }

    /// Records that the loop did work at `now`: a datagram arrived or was sent, or a timer fired.
    pub fn worked(&mut self, now: Time) {
        self.last_work = Some(now);
    }

    /// Returns whether the thread should spin or sleep, at `now`, until `deadline`. Without a deadline, the thread has
    /// nothing to do until a datagram arrives.
    pub fn plan(&self, now: Time, deadline: Option<Time>) -> Plan {
        // A reading before the last work is from after a change of the clock's origin, which happens while idle.
        if self.last_work.is_some_and(|last| last <= now && now - last < self.config.spin)
            || self.config.spin == Time::MAX
        {
            return Plan::Spin;
        }
        match deadline.map(|deadline| deadline.saturating_sub(now).saturating_sub(self.config.slack)) {
            Some(Time::ZERO) => Plan::Spin,
            timeout => Plan::Block(timeout),
        }
    }

    /// Spins or sleeps once. The caller then looks for work, and calls this function again if it finds none.
    ///
    /// # Errors
    ///
    /// Those of [`Port::wait`].
    pub fn rest(
        &self, port: &mut (impl Port + ?Sized), now: Time, interest: Interest, deadline: Option<Time>,
    ) -> io::Result<()> {
        match self.plan(now, deadline) {
            Plan::Spin => {
                std::hint::spin_loop();
                Ok(())
            }
            Plan::Block(timeout) => port.wait(interest, timeout),
        }
    }
}

/// Sets the timer slack of the calling thread to the minimum of 1 ns, so that the kernel wakes the thread as exactly as
/// it can. The default slack of Linux is 50 us.
///
/// # Errors
///
/// The error of the system call `prctl`; none is expected.
pub fn use_exact_timers() -> io::Result<()> {
    Ok(nix::sys::prctl::set_timerslack(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Time = Time::from_us;

    #[test]
    fn it_spins_after_work_then_blocks_then_spins_before_the_deadline() {
        let mut idle = Idle::new(IdleConfig { spin: US(50), slack: US(100) });
        assert_eq!(idle.plan(US(5), Some(US(1_000))), Plan::Block(Some(US(895))));
        idle.worked(US(10));
        assert_eq!(idle.plan(US(59), Some(US(1_000))), Plan::Spin);
        assert_eq!(idle.plan(US(60), Some(US(1_000))), Plan::Block(Some(US(840))));
        assert_eq!(idle.plan(US(899), Some(US(1_000))), Plan::Block(Some(US(1))));
        assert_eq!(idle.plan(US(900), Some(US(1_000))), Plan::Spin);
        assert_eq!(idle.plan(US(1_001), Some(US(1_000))), Plan::Spin);
        assert_eq!(idle.plan(US(60), None), Plan::Block(None));
    }

    #[test]
    fn the_two_extremes() {
        let always = Idle::new(IdleConfig { spin: Time::MAX, slack: Time::ZERO });
        assert_eq!(always.plan(US(1_000_000), None), Plan::Spin);
        let mut never = Idle::new(IdleConfig { spin: Time::ZERO, slack: Time::ZERO });
        never.worked(US(7));
        assert_eq!(never.plan(US(7), None), Plan::Block(None));
        assert_eq!(never.plan(US(7), Some(US(8))), Plan::Block(Some(US(1))));
    }
}
