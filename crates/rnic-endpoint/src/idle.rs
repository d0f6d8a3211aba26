//! Whether a progress loop without work spins or sleeps.
//!
//! A thread that sleeps costs nothing, but wakes up late: the kernel's timers are late by tens of microseconds, and a
//! datagram that arrives has to wake the thread first. A thread that spins is exact and occupies a core. [`Idle`]
//! sleeps while there is time. It spins shortly before a deadline, such as the next packet of a paced flow, and for a
//! while after the last work, because a response often follows soon.
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

/// When to spin and when to sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdleConfig {
    /// How long to spin after the last work: [`Time::MAX`] for always, [`Time::ZERO`] for never.
    pub spin: Time,
    /// How long before a deadline to stop sleeping, which is as late as the system may be. A larger value is more exact
    /// and costs more CPU time.
    pub slack: Time,
}

impl Default for IdleConfig {
    fn default() -> IdleConfig {
        IdleConfig { spin: Time::from_us(50), slack: Time::from_us(50) }
    }
}

/// What a thread without work does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plan {
    /// Look for work again immediately.
    Spin,
    /// Sleep in [`Port::wait`] with this timeout.
    Block(Option<Time>),
}

/// Decides between spinning and sleeping.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    config: IdleConfig,
    last_work: Option<Time>,
}

impl Idle {
    /// No work was done yet.
    pub fn new(config: IdleConfig) -> Idle {
        Idle { config, last_work: None }
    }

    /// Work was done at `now`: a datagram arrived or was sent, a timer fired.
    pub fn worked(&mut self, now: Time) {
        self.last_work = Some(now);
    }

    /// What to do until `deadline`; without a deadline, until a datagram arrives.
    pub fn plan(&self, now: Time, deadline: Option<Time>) -> Plan {
        if self.last_work.is_some_and(|last| now.saturating_sub(last) < self.config.spin)
            || self.config.spin == Time::MAX
        {
            return Plan::Spin;
        }
        match deadline.map(|deadline| deadline.saturating_sub(now).saturating_sub(self.config.slack)) {
            Some(Time::ZERO) => Plan::Spin,
            timeout => Plan::Block(timeout),
        }
    }

    /// Spins or sleeps once. The caller then looks for work, and calls again if there is none.
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

/// Sets the timer slack of the calling thread to the minimum, so that the kernel wakes it as exactly as it can. The
/// default slack is 50 us.
///
/// # Errors
///
/// The system's, none of which is expected.
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
