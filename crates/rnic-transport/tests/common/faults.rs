//! Faults of the pipe: scripted, or random with a seed.

use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use rnic_transport::Time;
use std::collections::BTreeMap;

/// The additional delay of each arriving copy of a packet. No copy of a lost packet arrives, and two copies of a
/// duplicated packet.
pub(crate) type Fate = [Option<Time>; 2];

const ARRIVES: Fate = [Some(Time::ZERO), None];

/// Determines the fate of every packet.
pub(crate) trait Faults {
    /// The fate of the data packet at `position` in the flow, which departs now.
    fn data(&mut self, now: Time, position: u32) -> Fate;
    /// The fate of an ACK, NACK or CNP, which departs now.
    fn reply(&mut self, now: Time) -> Fate;
}

/// Scripted faults: the given packets are lost or delayed, all other packets arrive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    data: BTreeMap<(u32, u32), Fate>,
    replies: BTreeMap<u32, Fate>,
    sent: BTreeMap<u32, u32>,
    replied: u32,
}

impl Script {
    /// Loses the `nth` transmission (from 1) of the packet at `position`.
    pub(crate) fn lose(mut self, position: u32, nth: u32) -> Script {
        self.data.insert((position, nth), [None, None]);
        self
    }
    /// Delivers the `nth` transmission of the packet at `position` late by `extra`.
    pub(crate) fn delay(mut self, position: u32, nth: u32, extra: Time) -> Script {
        self.data.insert((position, nth), [Some(extra), None]);
        self
    }
    /// Loses the receiver's `nth` reply (from 1).
    pub(crate) fn lose_reply(mut self, nth: u32) -> Script {
        self.replies.insert(nth, [None, None]);
        self
    }
    /// Delivers the receiver's `nth` reply late by `extra`.
    pub(crate) fn delay_reply(mut self, nth: u32, extra: Time) -> Script {
        self.replies.insert(nth, [Some(extra), None]);
        self
    }
}

impl Faults for Script {
    fn data(&mut self, _now: Time, position: u32) -> Fate {
        let nth = self.sent.entry(position).or_default();
        *nth += 1;
        self.data.get(&(position, *nth)).copied().unwrap_or(ARRIVES)
    }
    fn reply(&mut self, _now: Time) -> Fate {
        self.replied += 1;
        self.replies.get(&self.replied).copied().unwrap_or(ARRIVES)
    }
}

/// Probabilities of random faults, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// Probability that a packet is lost, or discarded because of a wrong checksum.
    pub(crate) loss: u32,
    /// Probability that a packet is delayed by up to `late_by`.
    pub(crate) late: u32,
    /// Probability that a packet is duplicated, with the copy delayed by up to `late_by`.
    pub(crate) twice: u32,
    /// Maximum additional delay of a packet.
    pub(crate) late_by: Time,
    /// Time at which the faults end.
    pub(crate) heals_at: Time,
}

/// Random faults in both directions.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    rng: Pcg64Mcg,
    rates: Rates,
}

impl Random {
    pub(crate) fn new(seed: u64, rates: Rates) -> Random {
        let rng = Pcg64Mcg::seed_from_u64(seed);
        Random { rng, rates }
    }

    fn chance(&mut self, per_thousand: u32) -> bool {
        self.rng.next_u64() % 1_000 < u64::from(per_thousand)
    }

    fn fate(&mut self, now: Time) -> Fate {
        if now >= self.rates.heals_at {
            return ARRIVES;
        }
        if self.chance(self.rates.loss) {
            return [None, None];
        }
        let span = self.rates.late_by.as_ps() + 1;
        let mut fate = ARRIVES;
        if self.chance(self.rates.late) {
            fate[0] = Some(Time::from_ps(self.rng.next_u64() % span));
        }
        if self.chance(self.rates.twice) {
            fate[1] = Some(Time::from_ps(self.rng.next_u64() % span));
        }
        fate
    }
}

impl Faults for Random {
    fn data(&mut self, now: Time, _position: u32) -> Fate {
        self.fate(now)
    }
    fn reply(&mut self, now: Time) -> Fate {
        self.fate(now)
    }
}
