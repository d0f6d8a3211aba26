//! Protective load balancing (PLB): one path per flow, until the path is congested for several round trips in a row.
//!
//! Source: Qureshi et al., "PLB: Congestion Signals are Simple and Effective for Network Load Balancing", SIGCOMM 2022,
//! sections 3.1 and 3.2. The numbers are those of Falcon: a round trip is congested if at least half of its packets
//! were, and 5 of them in a row change the path. Falcon takes the delay for the signal, and here it is the mark, or a
//! loss. A timeout changes the path at once. Changes reorder packets rarely, so PLB suits transports that tolerate
//! little reordering.

use super::{PathConfig, Random, Signal};
use crate::Time;

/// Number of congested round trips in a row after which the path changes.
const ROUNDS: u32 = 5;

/// The path of a flow, and what is known about its current round trip.
#[derive(Clone, Debug)]
pub(super) struct Plb {
    random: Random,
    paths: u16,
    path: u16,
    round: Time,
    ends: Time,
    /// Packets of the current round trip about which something is known, and those of them that met congestion.
    packets: u32,
    congested: u32,
    /// Number of congested round trips in a row.
    rounds: u32,
}

impl Plb {
    pub(super) fn new(cfg: &PathConfig, mut random: Random) -> Plb {
        let path = random.below(cfg.paths.into()) as u16;
        let (round, paths) = (cfg.round, cfg.paths);
        Plb { random, paths, path, round, ends: Time::ZERO, packets: 0, congested: 0, rounds: 0 }
    }

    pub(super) fn next(&self) -> u16 {
        self.path
    }

    pub(super) fn feedback(&mut self, now: Time, path: u16, signal: Signal) {
        if path != self.path {
            return; // of a path that the flow has left
        }
        if signal == Signal::Timeout {
            return self.change(now);
        }
        if now >= self.ends {
            self.end_round(now);
        }
        self.packets += 1;
        self.congested += u32::from(signal != Signal::Good);
    }

    /// Ends the current round trip, and changes the path if that was the last one to tolerate.
    fn end_round(&mut self, now: Time) {
        let is_congested = self.packets > 0 && 2 * self.congested >= self.packets;
        self.rounds = if is_congested { self.rounds + 1 } else { 0 };
        (self.packets, self.congested) = (0, 0);
        self.ends = now + self.round;
        if self.rounds >= ROUNDS {
            self.change(now);
        }
    }

    /// Changes to another path.
    fn change(&mut self, now: Time) {
        let step = 1 + self.random.below(u32::from(self.paths) - 1);
        self.path = ((u32::from(self.path) + step) % u32::from(self.paths)) as u16;
        (self.packets, self.congested, self.rounds) = (0, 0, 0);
        self.ends = now + self.round;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow with 8 paths and round trips of 10 us.
    fn plb() -> Plb {
        Plb::new(&PathConfig { paths: 8, round: Time::from_us(10), ..PathConfig::default() }, Random(4))
    }

    /// Four packets in the round trip that begins at `at_us`, of which `marked` are marked.
    fn round(plb: &mut Plb, at_us: u64, marked: usize) {
        for packet in 0..4 {
            let signal = if packet < marked { Signal::Marked } else { Signal::Good };
            plb.feedback(Time::from_us(at_us + packet as u64), plb.next(), signal);
        }
    }

    #[test]
    fn five_congested_round_trips_in_a_row_change_the_path() {
        let mut plb = plb();
        let first = plb.next();
        for at in 0..5 {
            round(&mut plb, 10 * at, 2);
        }
        assert_eq!((plb.next(), plb.rounds), (first, 4), "the fifth has not ended");
        round(&mut plb, 50, 0);
        assert_ne!(plb.next(), first);
        assert_eq!(plb.rounds, 0);
    }

    #[test]
    fn a_round_trip_with_less_than_half_breaks_the_row() {
        let mut plb = plb();
        let first = plb.next();
        for at in 0..40 {
            round(&mut plb, 10 * at, if at % 5 == 4 { 1 } else { 4 });
        }
        assert_eq!(plb.next(), first);
    }

    #[test]
    fn a_timeout_changes_the_path_and_late_news_of_the_old_one_does_not() {
        let mut plb = plb();
        let first = plb.next();
        plb.feedback(Time::from_us(1), first, Signal::Timeout);
        let second = plb.next();
        assert_ne!(second, first);
        plb.feedback(Time::from_us(2), first, Signal::Timeout);
        assert_eq!(plb.next(), second);
    }
}
