//! Flowlet switching: a burst of a flow keeps its port; after a gap the next burst takes a port at random (Vanini et
//! al., "Let It Flow: Resilient Asymmetric Load Balancing with Flowlet Switching", NSDI 2017).

use super::{Candidates, ecmp};
use crate::rng::{Purpose, Stream};
use rnic_transport::Time;
use rnic_transport::random::below;

/// Number of entries of a switch's table of flowlets. Two flows with the same entry share a flowlet, as in hardware.
const ENTRIES: u32 = 1 << 13;

/// An entry of the table: the flowlet that used it last.
#[derive(Clone, Copy)]
struct Flowlet {
    /// Arrival of its last packet, in picoseconds; `u64::MAX`: none yet.
    last: u64,
    /// Random number that picks its port.
    draw: u32,
}

/// Flowlet switching at one switch.
pub(crate) struct Flowlets {
    random: Stream,
    table: Box<[Flowlet]>,
    /// Time without a packet after which a flowlet ends, in picoseconds.
    gap: u64,
}

impl Flowlets {
    pub(super) fn new(gap: Time, seed: u64, node: u32) -> Flowlets {
        let random = Stream::new(seed, Purpose::Spray, &[u64::from(node)]);
        let table = vec![Flowlet { last: u64::MAX, draw: 0 }; ENTRIES as usize].into();
        Flowlets { random, table, gap: gap.as_ps() }
    }

    /// The index of the candidate by which a packet leaves that arrives at `now`.
    pub(super) fn select(&mut self, flow_hash: u32, candidates: Candidates<'_>, now: u64) -> u32 {
        let entry = &mut self.table[ecmp::index(flow_hash, !candidates.salt, ENTRIES) as usize];
        if entry.last == u64::MAX || now - entry.last > self.gap {
            entry.draw = (self.random.next_u64() >> 32) as u32;
        }
        entry.last = now;
        below(u64::from(entry.draw) << 32, candidates.len.into()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIGHT: Candidates<'_> = Candidates { ports: None, first: 0, len: 8, salt: 99 };
    const US: u64 = 1_000_000;

    #[test]
    fn a_flowlet_keeps_its_port_until_a_gap() {
        let mut flowlets = Flowlets::new(Time::from_us(10), 1, 40);
        let mut random = Stream::new(1, Purpose::Spray, &[40]);
        let mut draw = || (((random.next_u64() >> 32) * 8) >> 32) as u32;
        let mut now = 0;
        for _ in 0..50 {
            let port = draw();
            // Packets up to 10 us apart are one flowlet, however long it lasts.
            for gap in [0, 1, 9 * US, 10 * US, 10 * US] {
                now += gap;
                assert_eq!(flowlets.select(7, EIGHT, now), port);
            }
            now += 10 * US + 1;
        }
    }

    #[test]
    fn the_flowlets_of_flows_are_apart() {
        let mut flowlets = Flowlets::new(Time::from_us(10), 1, 40);
        let first: Vec<u32> = (0..64).map(|hash| flowlets.select(hash, EIGHT, 0)).collect();
        assert!((0..8).all(|port| first.contains(&port)));
        assert_eq!(first, (0..64).map(|hash| flowlets.select(hash, EIGHT, 5 * US)).collect::<Vec<_>>());
    }
}
