//! Path selection of senders: which path the next packet of a flow takes.
//!
//! A sender cannot name a path. It chooses the *entropy* of each packet, a number below [`PathConfig::paths`], and
//! [`flow_hash`] mixes the entropy into the hash by which switches with ECMP choose among equal-cost ports. Two entropy
//! values may therefore lead over the same links. The receiver returns the entropy of a packet in its ACK or NACK, so
//! that the sender learns how each entropy value fares ([`PathState::feedback`]).
//!
//! Sources: the selections `oblivious`, `bitmap`, `reps` and `mixed` are those of the simulator of the Ultra Ethernet
//! Consortium (uet-htsim); Bonato et al. describe REPS in "REPS: Recycled Entropy Packet Spraying for Adaptive Load
//! Balancing and Failure Mitigation" (2024). `plb` is that of Qureshi et al. (SIGCOMM 2022) with the numbers of Falcon.
//!
//! To add a path selection, write a file beside this one and register it here: add its line to [`SELECTIONS`], and its
//! variants to [`Selection`] and to the private enum `Algorithm`.

mod bitmap;
mod ecmp;
mod mixed;
mod oblivious;
mod plb;
mod reps;

use crate::Time;
use crate::random::Random;
use bitmap::Bitmap;
use ecmp::Ecmp;
use mixed::Mixed;
use oblivious::Oblivious;
use plb::Plb;
use reps::Reps;

/// How a sender chooses the entropy of each packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Selection {
    /// All packets of a flow have the same entropy, which is drawn at random for the flow.
    #[default]
    Ecmp,
    /// Each entropy value once per lap, in an order that changes with every lap.
    Oblivious,
    /// As oblivious, but skips entropy values with penalties for marks, losses and timeouts.
    Bitmap,
    /// Recycled entropy packet spraying: reuses the entropy of packets that arrived without a mark.
    Reps,
    /// Reuses the entropy of packets that arrived without a mark; without such entropy, as bitmap.
    Mixed,
    /// Protective load balancing: one path per flow, and another one after several congested round trips.
    Plb,
}

impl Selection {
    /// Name of the path selection in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Selection::Ecmp => "ecmp",
            Selection::Oblivious => "oblivious",
            Selection::Bitmap => "bitmap",
            Selection::Reps => "reps",
            Selection::Mixed => "mixed",
            Selection::Plb => "plb",
        }
    }

    /// The path selection with this name in scenario files; `None` if no path selection has it.
    pub fn named(name: &str) -> Option<Selection> {
        SELECTIONS.iter().find(|entry| entry.name == name).map(|entry| entry.selection)
    }

    /// Whether the packets of one flow may take different paths, and therefore arrive out of order.
    pub fn sprays(self) -> bool {
        self != Selection::Ecmp
    }
}

/// A path selection of senders that can be chosen by name.
#[derive(Clone, Copy, Debug)]
pub struct SelectionEntry {
    /// Name of the path selection in scenario files.
    pub name: &'static str,
    /// Description of the path selection, in one line.
    pub about: &'static str,
    /// The path selection that `name` stands for.
    pub selection: Selection,
}

/// Every path selection of senders, the default first.
///
/// ```
/// use rnic_transport::paths::SELECTIONS;
///
/// assert_eq!(SELECTIONS.map(|entry| entry.name), ["ecmp", "oblivious", "bitmap", "reps", "mixed", "plb"]);
/// ```
pub const SELECTIONS: [SelectionEntry; 6] = [
    SelectionEntry { name: "ecmp", about: "one path per flow, drawn at random", selection: Selection::Ecmp },
    SelectionEntry {
        name: "oblivious",
        about: "every path once per lap, in a new order for each lap",
        selection: Selection::Oblivious,
    },
    SelectionEntry {
        name: "bitmap",
        about: "as oblivious, without the paths of recent marks, losses and timeouts",
        selection: Selection::Bitmap,
    },
    SelectionEntry {
        name: "reps",
        about: "the paths of packets that arrived without a mark, else a path at random (REPS)",
        selection: Selection::Reps,
    },
    SelectionEntry {
        name: "mixed",
        about: "the paths of packets that arrived without a mark, else as bitmap",
        selection: Selection::Mixed,
    },
    SelectionEntry {
        name: "plb",
        about: "one path per flow, and another one after 5 congested round trips in a row (PLB)",
        selection: Selection::Plb,
    },
];

/// The names of [`SELECTIONS`], in the same order.
pub const NAMES: [&str; SELECTIONS.len()] = {
    let mut names = [""; SELECTIONS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = SELECTIONS[at].name;
        at += 1;
    }
    names
};

/// Settings of the path selection of all flows of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathConfig {
    /// The path selection.
    pub selection: Selection,
    /// Number of entropy values, 1 to 65535. IRN's packets carry at most 256 values.
    pub paths: u16,
    /// REPS: number of packets at the beginning of a flow that take a path at random, even if a path that can be
    /// recycled is known. The paper explores for the first window, a bandwidth-delay product.
    pub explore: u32,
    /// REPS: how long the sender recycles known paths only, after a timeout.
    pub freeze: Time,
    /// PLB: the length of a round trip, the base round-trip time.
    pub round: Time,
}

impl PathConfig {
    /// REPS: how long a timeout freezes the ring of known paths, unless the user sets another time: 10 ms (uet-htsim).
    pub const FREEZE: Time = Time::from_ms(10);

    /// The path selection `selection` over `paths` entropy values (at least 1), with default parameters and without an
    /// exploration at the beginning of a flow.
    pub const fn new(selection: Selection, paths: u16) -> PathConfig {
        PathConfig { selection, paths, explore: 0, freeze: PathConfig::FREEZE, round: Time::from_us(24) }
    }

    /// Whether the packets of one flow may take different paths, and therefore arrive out of order.
    pub fn sprays(&self) -> bool {
        self.selection.sprays() && self.paths > 1
    }

    /// Whether packets that depart together take different paths: not with PLB, which only changes the path at times.
    pub fn spreads(&self) -> bool {
        self.sprays() && self.selection != Selection::Plb
    }
}

/// One path per flow, with the flow's own hash.
impl Default for PathConfig {
    fn default() -> PathConfig {
        PathConfig::new(Selection::Ecmp, 1)
    }
}

/// What a sender learned about the path of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// The packet arrived without a CE mark.
    Good,
    /// The packet arrived with a CE mark.
    Marked,
    /// A switch trimmed the packet to its headers.
    Trimmed,
    /// The packet was lost, as later packets or a NACK say.
    Lost,
    /// The packet was not acknowledged before the retransmission timeout.
    Timeout,
}

/// The state of the path selection of one flow at its sender. It takes one pointer, which is null for a flow with a
/// single path.
///
/// ```
/// use rnic_transport::Time;
/// use rnic_transport::paths::{PathConfig, PathState, Selection};
///
/// let mut paths = PathState::new(&PathConfig::new(Selection::Oblivious, 4), 7);
/// let mut lap: Vec<u16> = (0..4).map(|_| paths.next(Time::ZERO)).collect();
/// lap.sort();
/// assert_eq!(lap, [0, 1, 2, 3]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct PathState(Option<Box<Algorithm>>);

#[derive(Clone, Debug)]
enum Algorithm {
    Ecmp(Ecmp),
    Oblivious(Oblivious),
    Bitmap(Bitmap),
    Reps(Reps),
    Mixed(Mixed),
    Plb(Plb),
}

impl PathState {
    /// The state of a flow at its beginning. `seed` should differ between flows; the same seed gives the same paths.
    pub fn new(cfg: &PathConfig, seed: u64) -> PathState {
        if cfg.paths <= 1 {
            return PathState(None);
        }
        let random = Random(seed);
        PathState(Some(Box::new(match cfg.selection {
            Selection::Ecmp => Algorithm::Ecmp(Ecmp::new(cfg, random)),
            Selection::Oblivious => Algorithm::Oblivious(Oblivious::new(cfg, random)),
            Selection::Bitmap => Algorithm::Bitmap(Bitmap::new(cfg, random)),
            Selection::Reps => Algorithm::Reps(Reps::new(cfg, random)),
            Selection::Mixed => Algorithm::Mixed(Mixed::new(cfg, random)),
            Selection::Plb => Algorithm::Plb(Plb::new(cfg, random)),
        })))
    }

    /// Whether the flow has a single path, number 0.
    #[inline(always)]
    pub fn is_single(&self) -> bool {
        self.0.is_none()
    }

    /// The path of a packet that departs at `now`: an entropy value below [`PathConfig::paths`].
    #[inline]
    pub fn next(&mut self, now: Time) -> u16 {
        match self.0.as_deref_mut() {
            None => 0,
            Some(algorithm) => algorithm.next(now),
        }
    }

    /// Handles what the sender learned at `now` about one packet that took `path`. A value that is not below
    /// [`PathConfig::paths`], for example from a damaged packet, is ignored.
    #[inline]
    pub fn feedback(&mut self, now: Time, path: u16, signal: Signal) {
        if let Some(algorithm) = self.0.as_deref_mut() {
            algorithm.feedback(now, path, signal);
        }
    }
}

impl Algorithm {
    fn next(&mut self, now: Time) -> u16 {
        match self {
            Algorithm::Ecmp(own) => own.next(),
            Algorithm::Oblivious(own) => own.next(),
            Algorithm::Bitmap(own) => own.next(),
            Algorithm::Reps(own) => own.next(now),
            Algorithm::Mixed(own) => own.next(),
            Algorithm::Plb(own) => own.next(),
        }
    }

    fn feedback(&mut self, now: Time, path: u16, signal: Signal) {
        match self {
            Algorithm::Ecmp(_) | Algorithm::Oblivious(_) => {}
            Algorithm::Bitmap(own) => own.feedback(path, signal),
            Algorithm::Reps(own) => own.feedback(now, path, signal),
            Algorithm::Mixed(own) => own.feedback(path, signal),
            Algorithm::Plb(own) => own.feedback(now, path, signal),
        }
    }
}

/// The hash that switches with ECMP use for a packet with entropy `path` of a flow whose own hash is `hash`. Path 0 has
/// the flow's own hash, and different paths have different hashes.
///
/// ```
/// use rnic_transport::paths::flow_hash;
///
/// assert_eq!(flow_hash(0x1234, 0), 0x1234);
/// assert_ne!(flow_hash(0x1234, 1), flow_hash(0x1234, 2));
/// ```
#[inline(always)]
pub const fn flow_hash(hash: u32, path: u16) -> u32 {
    // 2^32 divided by the golden ratio, made odd: multiplication is a bijection, and moves the entropy to all bits.
    hash ^ (path as u32).wrapping_mul(0x9e37_79b9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next `count` paths at time 0.
    pub(super) fn draw(paths: &mut PathState, count: usize) -> Vec<u16> {
        (0..count).map(|_| paths.next(Time::ZERO)).collect()
    }

    #[test]
    fn the_list_names_every_selection_the_default_first() {
        assert!(SELECTIONS.iter().all(|entry| entry.selection.name() == entry.name));
        assert!(SELECTIONS.iter().all(|entry| Selection::named(entry.name) == Some(entry.selection)));
        assert_eq!(SELECTIONS[0].selection, Selection::default());
        assert_eq!(Selection::named("valiant"), None);
    }

    #[test]
    fn a_single_path_needs_no_state() {
        assert_eq!(std::mem::size_of::<PathState>(), std::mem::size_of::<usize>());
        for entry in SELECTIONS {
            let mut paths = PathState::new(&PathConfig::new(entry.selection, 1), 3);
            paths.feedback(Time::ZERO, 0, Signal::Timeout);
            assert!(paths.is_single() && draw(&mut paths, 5) == [0; 5]);
        }
    }

    #[test]
    fn every_selection_stays_in_range_and_repeats_with_its_seed() {
        let signals = [Signal::Good, Signal::Marked, Signal::Trimmed, Signal::Lost, Signal::Timeout];
        for entry in SELECTIONS {
            for count in [2, 3, 7, 128, 256, 1_000, u16::MAX] {
                let cfg = PathConfig { explore: 9, ..PathConfig::new(entry.selection, count) };
                let run = |seed: u64| -> Vec<u16> {
                    let mut paths = PathState::new(&cfg, seed);
                    let step = |at: usize| {
                        let now = Time::from_us(at as u64 * 50);
                        let path = paths.next(now);
                        paths.feedback(now, path, signals[at * at % 5]);
                        paths.feedback(now, count, signals[at % 5]); // out of range
                        path
                    };
                    (0..1_000).map(step).collect()
                };
                let first = run(11);
                assert!(first.iter().all(|path| *path < count), "{} with {count} paths", entry.name);
                assert_eq!(first, run(11), "{}", entry.name);
                if count > 100 {
                    assert_ne!(first, run(12), "{}", entry.name);
                }
            }
        }
    }

    #[test]
    fn entropy_changes_the_hash_and_path_zero_does_not() {
        let mut hashes: Vec<u32> = (0..=u16::MAX).map(|path| flow_hash(0xdead_beef, path)).collect();
        assert_eq!(hashes[0], 0xdead_beef);
        assert_eq!(hashes[1], 0xdead_beef ^ 0x9e37_79b9);
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 1 << 16);
    }
}
