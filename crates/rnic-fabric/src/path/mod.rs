//! Path selection: which of several equal-cost ports a switch sends a packet to.
//!
//! A path selection sees two inputs: the packet's [`flow_hash`](Packet::flow_hash), which is entropy that the sender
//! chose, and the bytes that wait for each port. So a path selection can follow the sender's entropy, ignore the
//! entropy, or adapt to the queues. If it follows the entropy, a sender can spread a flow over several paths by giving
//! its packets different entropy.
//!
//! To add a path selection, write a file beside this one and register it here: add its line to [`PATHS`], and its
//! variants to [`Paths`] and [`PathSelector`].

mod adaptive;
mod ecmp;
mod flowlet;
mod spray;

use crate::packet::Packet;
use flowlet::Flowlets;
use rnic_transport::Time;
use spray::Spray;

/// Which of several shortest paths packets take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Paths {
    /// Equal-cost multipath: all packets with the same [`flow_hash`](Packet::flow_hash) take the same path.
    #[default]
    Ecmp,
    /// Every switch draws a port at random for each packet.
    Spray,
    /// Each packet takes the port with the fewest queued bytes.
    Adaptive,
    /// Packets with the same [`flow_hash`](Packet::flow_hash) keep their port until a gap between them; then the switch
    /// draws a port at random.
    Flowlet,
}

impl Paths {
    /// Name of the path selection in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Paths::Ecmp => "ecmp",
            Paths::Spray => "spray",
            Paths::Adaptive => "adaptive",
            Paths::Flowlet => "flowlet",
        }
    }

    /// Whether all packets of a flow take the same path.
    pub fn is_per_flow(self) -> bool {
        match self {
            Paths::Ecmp => true,
            Paths::Spray | Paths::Adaptive | Paths::Flowlet => false,
        }
    }

    /// Whether the path of a packet depends on its [`flow_hash`](Packet::flow_hash), so that a sender can spread a flow
    /// over several paths by giving its packets different entropy.
    pub fn follows_entropy(self) -> bool {
        self != Paths::Spray
    }

    /// Whether the path of a packet depends on the queues of the switch.
    pub(crate) fn reads_queues(self) -> bool {
        self == Paths::Adaptive
    }

    /// Time without a packet after which a flowlet ends, unless the user sets another time: 500 us (CONGA, SIGCOMM
    /// 2014).
    pub const FLOWLET_GAP: Time = Time::from_us(500);
}

/// A path selection that can be chosen by name.
#[derive(Clone, Copy, Debug)]
pub struct PathEntry {
    /// Name of the path selection in scenario files.
    pub name: &'static str,
    /// Description of the path selection, in one line.
    pub about: &'static str,
    /// The path selection that `name` stands for.
    pub paths: Paths,
}

/// Every path selection, the default first.
///
/// ```
/// use rnic_fabric::config::{PATHS, Paths};
///
/// assert_eq!(PATHS.map(|entry| entry.name), ["ecmp", "spray", "adaptive", "flowlet"]);
/// assert_eq!(PATHS[1].paths, Paths::Spray);
/// ```
pub const PATHS: [PathEntry; 4] = [
    PathEntry { name: "ecmp", about: "all packets of a flow take the path that its hash picks", paths: Paths::Ecmp },
    PathEntry { name: "spray", about: "each packet takes a path at random", paths: Paths::Spray },
    PathEntry {
        name: "adaptive",
        about: "each packet takes the port with the fewest queued bytes",
        paths: Paths::Adaptive,
    },
    PathEntry {
        name: "flowlet",
        about: "a burst of a flow keeps its path; after a gap the next burst takes a path at random",
        paths: Paths::Flowlet,
    },
];

/// The equal-cost ports of one switch towards one destination, at least two.
#[derive(Clone, Copy)]
pub(crate) struct Candidates<'r> {
    /// List of ports, numbered within the switch; the candidates are its `len` entries from index `first` on. `None`:
    /// the candidates are the ports with the numbers `first` to `first + len - 1`.
    pub(crate) ports: Option<&'r [u16]>,
    pub(crate) first: u32,
    pub(crate) len: u32,
    /// A random number of the switch, so that switches choose differently for the same flow.
    pub(crate) salt: u32,
}

impl Candidates<'_> {
    /// The number of the candidate port with this index, which is less than `len`.
    #[inline(always)]
    pub(crate) fn port(self, index: u32) -> u32 {
        match self.ports {
            Some(ports) => u32::from(ports[(self.first + index) as usize]),
            None => self.first + index,
        }
    }

    /// The index of the candidate port that ECMP picks for a packet with this flow hash.
    #[inline(always)]
    pub(crate) fn by_hash(self, flow_hash: u32) -> u32 {
        ecmp::index(flow_hash, self.salt, self.len)
    }
}

/// The path selection of one switch.
pub(crate) enum PathSelector {
    Ecmp,
    Spray(Box<Spray>),
    Adaptive,
    Flowlet(Box<Flowlets>),
    /// The path selection of a switch that has a guard (work beside forwarding).
    Guarded(Box<PathSelector>),
}

impl PathSelector {
    /// The path selection of the switch that is node `node` of the topology. `gap` ends a flowlet.
    pub(crate) fn new(paths: Paths, gap: Time, seed: u64, node: u32) -> PathSelector {
        match paths {
            Paths::Ecmp => PathSelector::Ecmp,
            Paths::Spray => PathSelector::Spray(Box::new(Spray::new(seed, node))),
            Paths::Adaptive => PathSelector::Adaptive,
            Paths::Flowlet => PathSelector::Flowlet(Box::new(Flowlets::new(gap, seed, node))),
        }
    }

    /// The index, among `candidates`, of the port by which a packet leaves that arrives at `now`, in picoseconds.
    /// `queued` returns the bytes that wait for a port in the packet's priority; only adaptive routing uses it.
    pub(crate) fn select<B>(
        &mut self, packet: &Packet<B>, candidates: Candidates<'_>, now: u64, queued: impl Fn(u32) -> u64,
    ) -> u32 {
        // Not a call of `select`: the compiler does not inline a function that calls itself.
        let own = match self {
            PathSelector::Guarded(own) => &mut **own,
            own => own,
        };
        match own {
            PathSelector::Spray(spray) => spray.select(candidates),
            PathSelector::Adaptive => adaptive::select(packet.flow_hash, candidates, queued),
            PathSelector::Flowlet(flowlets) => flowlets.select(packet.flow_hash, candidates, now),
            _ => candidates.by_hash(packet.flow_hash),
        }
    }

    /// Says that the switch has a guard.
    pub(crate) fn guard(&mut self) {
        if !matches!(self, PathSelector::Guarded(_)) {
            let own = std::mem::replace(self, PathSelector::Ecmp);
            *self = PathSelector::Guarded(Box::new(own));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_every_path_selection_the_default_first() {
        assert!(PATHS.iter().all(|entry| entry.paths.name() == entry.name));
        assert_eq!(PATHS[0].paths, Paths::default());
    }
}
