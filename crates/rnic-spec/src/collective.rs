//! Collective operations of a traffic source, such as an all-reduce: which ranks communicate, how, and how often.

use rnic_transport::{BitRate, Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pattern `collective`: groups of ranks that repeat a collective operation.
///
/// A rank is one accelerator of a distributed program. Rank r runs on the host to which [`Placement`] maps it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Collective {
    /// The operation.
    pub operation: CollectiveOperation,
    /// How the ranks of a group carry out the operation.
    pub algorithm: Algorithm,
    /// Size of the operation in bytes, as nccl-tests counts it: the buffer of one rank for all-reduce and broadcast,
    /// the gathered buffer for all-gather, and the sent buffer of one rank for reduce-scatter and all-to-all.
    pub size: Bytes,
    /// Number of ranks, summed over all groups.
    pub ranks: u32,
    /// Number of ranks of each group; a divisor of `ranks`.
    pub group: u32,
    /// Which ranks form a group.
    pub grouping: Grouping,
    /// The host of each rank.
    pub placement: Placement,
    /// For [`Placement::File`], the host of each rank.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub placed: Arc<[u32]>,
    /// For an all-to-all in which ranks send different numbers of bytes: bytes from each position of a group to each
    /// position, one row for each sender.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub matrix: Arc<[u64]>,
    /// For an all-to-all in which some ranks receive more than others: the exponent of a Zipf distribution. The rank
    /// that is n-th in a random order receives a number of bytes proportional to n to the power of minus the exponent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skew: Option<f64>,
    /// Number of operations of each group, one after the other.
    pub repeats: u32,
    /// Number of parts into which an operation is divided. The parts are independent and use different connections.
    pub channels: u32,
    /// Maximum number of bytes of a message of the algorithms `ring` and `tree`; a rank forwards a message as soon as
    /// it has arrived.
    pub chunk: Bytes,
    /// Maximum number of messages that a rank sends at the same time, for the algorithm `direct` and for the root of a
    /// broadcast along a ring.
    pub outstanding: u32,
    /// Time for which each rank computes before each operation.
    pub compute: Time,
    /// A rank that computes longer than the others; `None` if all are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub straggler: Option<Straggler>,
    /// The servers, each with several ranks; `None` if each rank has a server of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// Time between an event (the arrival of a message, or the instant at which a sender knows that its message has
    /// arrived) and the reaction of the rank.
    pub reaction: Time,
}

/// A server: consecutive ranks that communicate with each other in a domain of their own, such as NVLink, and never
/// over the fabric. Each rank has a port of the domain, which sends one message at a time and receives one at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Number of ranks of each server; a divisor of the number of ranks.
    pub accelerators: u32,
    /// Rate of each port, in each direction.
    pub rate: BitRate,
    /// Time from the last byte's departure to its arrival.
    pub latency: Time,
}

fn is_empty<T>(list: &Arc<[T]>) -> bool {
    list.is_empty()
}

/// Where the ranks of a program run, and how they react.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// Number of ranks.
    pub ranks: u32,
    /// The host of each rank.
    pub placement: Placement,
    /// For [`Placement::File`], the host of each rank.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub placed: Arc<[u32]>,
    /// The servers, each with several ranks; `None` if each rank has a server of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// Time between an event (the arrival of a message, or the instant at which a sender knows that its message has
    /// arrived) and the reaction of the rank.
    pub reaction: Time,
    /// Number of the step of a program of tasks for which the time of each task is recorded; `None` for no step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<u32>,
}

impl Deployment {
    /// Checks that each rank has a host of its own, of `hosts` hosts.
    ///
    /// # Errors
    /// One sentence that says which rank has none, and what is accepted.
    pub fn check_places(&self, hosts: u32) -> Result<(), String> {
        let Deployment { ranks, placement, .. } = *self;
        if placement != Placement::File {
            return match self.placed.is_empty() {
                true => Ok(()),
                false => Err("`placed` has no effect without the placement \"file\"".to_string()),
            };
        }
        if self.placed.len() != ranks as usize {
            return Err(format!(
                "the placement has {} ranks, and the traffic {ranks}; accepted: a host for each rank",
                self.placed.len()
            ));
        }
        let mut ranks_of: BTreeMap<u32, u32> = BTreeMap::new();
        for (rank, host) in (0u32..).zip(self.placed.iter().copied()) {
            if host >= hosts {
                return Err(format!("rank {rank} is on host {host}; accepted: 0 to {}", hosts.saturating_sub(1)));
            }
            if let Some(other) = ranks_of.insert(host, rank) {
                return Err(format!(
                    "ranks {other} and {rank} are both on host {host}; accepted: a host for each rank"
                ));
            }
        }
        Ok(())
    }

    /// Number of ranks of each server.
    pub fn accelerators(&self) -> u32 {
        self.server.map_or(1, |server| server.accelerators.max(1))
    }

    /// Checks that the ranks of a program of tasks can carry out all-reduces with this algorithm.
    ///
    /// # Errors
    /// One sentence that says why not, and which algorithms are accepted.
    pub(crate) fn check_algorithm(&self, algorithm: Algorithm, channels: u32) -> Result<(), String> {
        match algorithm {
            Algorithm::Ring => Ok(()),
            Algorithm::Hierarchical | Algorithm::Nvls if self.accelerators() < 2 => Err(format!(
                "the algorithm \"{}\" needs servers of several accelerators; set `accelerators`",
                algorithm.name()
            )),
            Algorithm::Tree | Algorithm::Hierarchical | Algorithm::Nvls if channels > 1 => {
                Err("only the algorithm \"ring\" has several channels; accepted: 1".into())
            }
            Algorithm::Tree | Algorithm::Hierarchical | Algorithm::Nvls => Ok(()),
            Algorithm::HalvingDoubling | Algorithm::Direct => Err(format!(
                "the algorithm \"{}\" does not exist for programs of tasks; accepted: \"ring\", \"tree\", \
                 \"hierarchical\", \"nvls\"",
                algorithm.name()
            )),
        }
    }

    /// How the ranks of a program of tasks carry out collective operations. The operation, its size and its ranks are
    /// those of all ranks; each operation replaces them by its own.
    pub(crate) fn plan(&self, algorithm: Algorithm, channels: u32, chunk: Bytes, outstanding: u32) -> Collective {
        let Deployment { ranks, placement, server, reaction, .. } = *self;
        Collective {
            operation: CollectiveOperation::AllReduce,
            algorithm,
            size: Bytes(1),
            ranks,
            group: ranks,
            grouping: Grouping::Consecutive,
            placement,
            placed: self.placed.clone(),
            matrix: Arc::default(),
            skew: None,
            repeats: 1,
            channels,
            chunk,
            outstanding,
            compute: Time::ZERO,
            straggler: None,
            server,
            reaction,
        }
    }
}

/// A rank that computes longer than the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Straggler {
    /// The rank.
    pub rank: u32,
    /// Additional time before each operation.
    pub delay: Time,
}

/// The bytes that position `own` sends to others, of its row of a matrix.
pub fn row_sum(row: &[u64], own: usize) -> u64 {
    let others = row.iter().enumerate().filter(|(to, _)| *to != own);
    others.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
}

impl Collective {
    /// Maximum number of ranks of a group with a matrix.
    pub const MAX_MATRIX: u32 = 2_048;
    /// Maximum exponent of a skewed all-to-all.
    pub const MAX_SKEW: f64 = 10.0;

    /// Number of ranks of each server.
    pub fn accelerators(&self) -> u32 {
        self.server.map_or(1, |server| server.accelerators.max(1))
    }

    /// Where the ranks run.
    pub fn deployment(&self) -> Deployment {
        let Collective { ranks, placement, server, reaction, .. } = *self;
        Deployment { ranks, placement, placed: self.placed.clone(), server, reaction, timeline: None }
    }

    /// Number of groups.
    pub fn groups(&self) -> u32 {
        self.ranks / self.group.max(1)
    }

    /// The factor between algorithm bandwidth (size divided by time) and bus bandwidth, as nccl-tests defines it: the
    /// fraction of the size that each rank must send at least, whatever the algorithm.
    pub fn bus_factor(&self) -> f64 {
        self.operation.bus_factor(self.group)
    }

    /// Checks the sizes of an all-to-all in which not all messages are alike.
    fn check_sizes(&self) -> Result<(), String> {
        if self.matrix.is_empty() && self.skew.is_none() {
            return Ok(());
        }
        if self.operation != CollectiveOperation::AllToAll {
            return Err(format!("\"{}\" has no different sizes; accepted: \"all-to-all\"", self.operation.name()));
        }
        if !self.matrix.is_empty() && self.skew.is_some() {
            return Err("a matrix and `skew` are both given; accepted: one of them".to_string());
        }
        if let Some(skew) = self.skew
            && !(skew > 0.0 && skew <= Collective::MAX_SKEW)
        {
            return Err(format!("skew is {skew}; accepted: above 0, at most {}", Collective::MAX_SKEW));
        }
        let group = u64::from(self.group);
        if self.matrix.is_empty() {
            return Ok(());
        }
        if self.matrix.len() as u64 != group * group {
            return Err(format!(
                "the matrix has {} numbers; accepted: {}, a row for each of {group} ranks of a group",
                self.matrix.len(),
                group * group
            ));
        }
        let rows = self.matrix.chunks(self.group as usize);
        let sums: Vec<u64> = (0..).zip(rows).map(|(own, row)| row_sum(row, own)).collect();
        let largest = sums.iter().copied().max().unwrap_or(0);
        match largest == self.size.0 {
            true => Ok(()),
            false => Err(format!("size is {} B; accepted: {largest} B, the largest sum of a row", self.size.0)),
        }
    }

    /// Checks that the algorithm can carry out the operation.
    ///
    /// # Errors
    /// One sentence that says why not, and which algorithms are accepted.
    pub fn check(&self) -> Result<(), String> {
        let accepted = self.operation.algorithms();
        if !accepted.contains(&self.algorithm) {
            let names: Vec<String> = accepted.iter().map(|algorithm| format!("\"{}\"", algorithm.name())).collect();
            return Err(format!(
                "the algorithm \"{}\" does not exist for \"{}\"; accepted: {}",
                self.algorithm.name(),
                self.operation.name(),
                names.join(", ")
            ));
        }
        if self.group < 2 || !self.ranks.is_multiple_of(self.group) {
            return Err(format!(
                "groups of {} do not divide {} ranks; accepted: a divisor of the ranks, at least 2",
                self.group, self.ranks
            ));
        }
        if self.algorithm == Algorithm::HalvingDoubling && !self.group.is_power_of_two() {
            return Err(format!(
                "the algorithm \"halving-doubling\" needs groups of a power of two; the groups have {} ranks",
                self.group
            ));
        }
        let least = if self.matrix.is_empty() { u64::from(self.group) * u64::from(self.channels) } else { 1 };
        if self.size.0 < least {
            return Err(format!(
                "a size of {} is too small: each of {} ranks needs at least 1 B in each of {} channels; accepted: at least {}",
                self.size,
                self.group,
                self.channels,
                Bytes(least)
            ));
        }
        if self.channels > 1 && self.algorithm != Algorithm::Ring {
            return Err("only the algorithm \"ring\" has several channels; accepted: 1".to_string());
        }
        let accelerators = self.accelerators();
        if !self.ranks.is_multiple_of(accelerators) {
            return Err(format!(
                "servers of {accelerators} accelerators do not divide {} ranks; accepted: a divisor of the ranks",
                self.ranks
            ));
        }
        let whole = self.group.is_multiple_of(accelerators) && self.grouping == Grouping::Consecutive;
        if self.algorithm == Algorithm::Hierarchical && (accelerators < 2 || !whole || self.group == accelerators) {
            return Err(format!(
                "the algorithm \"hierarchical\" needs groups of several whole servers; groups of {} ranks and servers of \
                 {accelerators} accelerators are given",
                self.group
            ));
        }
        if self.algorithm == Algorithm::Nvls && (accelerators < 2 || !whole) {
            return Err(format!(
                "the algorithm \"nvls\" needs groups of whole servers; groups of {} ranks and servers of {accelerators} \
                 accelerators are given",
                self.group
            ));
        }
        self.check_sizes()?;
        if let Some(Straggler { rank, .. }) = self.straggler
            && rank >= self.ranks
        {
            return Err(format!("the straggler is rank {rank}; accepted: 0 to {}", self.ranks - 1));
        }
        if self.reaction == Time::ZERO {
            return Err("the reaction takes no time; accepted: a time above 0".to_string());
        }
        Ok(())
    }
}

/// A collective operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveOperation {
    /// `all-reduce`: every rank gets the sum of all ranks' buffers.
    AllReduce,
    /// `reduce-scatter`: every rank gets its part of the sum of all ranks' buffers.
    ReduceScatter,
    /// `all-gather`: every rank gets the parts of all ranks.
    AllGather,
    /// `all-to-all`: every rank sends a part of its buffer to each other rank.
    AllToAll,
    /// `broadcast`: the first rank of a group sends its buffer to all others.
    Broadcast,
}

impl CollectiveOperation {
    /// All operations.
    pub const ALL: [CollectiveOperation; 5] = [
        CollectiveOperation::AllReduce,
        CollectiveOperation::ReduceScatter,
        CollectiveOperation::AllGather,
        CollectiveOperation::AllToAll,
        CollectiveOperation::Broadcast,
    ];

    /// The name in scenarios and results.
    pub const fn name(self) -> &'static str {
        match self {
            CollectiveOperation::AllReduce => "all-reduce",
            CollectiveOperation::ReduceScatter => "reduce-scatter",
            CollectiveOperation::AllGather => "all-gather",
            CollectiveOperation::AllToAll => "all-to-all",
            CollectiveOperation::Broadcast => "broadcast",
        }
    }

    /// The factor between algorithm bandwidth and bus bandwidth of the operation among `ranks` ranks; see
    /// [`Collective::bus_factor`].
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let ranks = f64::from(ranks);
        match self {
            CollectiveOperation::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            CollectiveOperation::Broadcast => 1.0,
            CollectiveOperation::ReduceScatter | CollectiveOperation::AllGather | CollectiveOperation::AllToAll => {
                (ranks - 1.0) / ranks
            }
        }
    }

    /// The algorithms that can carry out the operation; the first is the default.
    pub const fn algorithms(self) -> &'static [Algorithm] {
        match self {
            CollectiveOperation::AllReduce => &[
                Algorithm::Ring,
                Algorithm::Tree,
                Algorithm::HalvingDoubling,
                Algorithm::Hierarchical,
                Algorithm::Nvls,
            ],
            CollectiveOperation::ReduceScatter | CollectiveOperation::AllGather => {
                &[Algorithm::Ring, Algorithm::HalvingDoubling]
            }
            CollectiveOperation::AllToAll => &[Algorithm::Direct],
            CollectiveOperation::Broadcast => &[Algorithm::Ring, Algorithm::Tree],
        }
    }
}

/// How the ranks of a group carry out a collective operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// `ring`: each rank receives from its predecessor and sends to its successor.
    Ring,
    /// `tree`: two binary trees, each for half of the data, in which each rank is an inner node of at most one tree
    /// (Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009).
    Tree,
    /// `halving-doubling`: exchanges with partners at distances that halve and double; the number of ranks must be a
    /// power of two (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005).
    HalvingDoubling,
    /// `direct`: each rank sends to each other rank.
    Direct,
    /// `hierarchical`: a reduce-scatter inside each server, a ring among the ranks with the same number in all servers,
    /// and an all-gather inside each server.
    Hierarchical,
    /// `nvls`: sums in the switch of each server, a ring among the ranks with the same number in all servers, and
    /// copies by the switch of each server (NCCL's NVLS, with NVLink SHARP).
    Nvls,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::Ring,
        Algorithm::Tree,
        Algorithm::HalvingDoubling,
        Algorithm::Direct,
        Algorithm::Hierarchical,
        Algorithm::Nvls,
    ];

    /// The name in scenarios and results.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Ring => "ring",
            Algorithm::Tree => "tree",
            Algorithm::HalvingDoubling => "halving-doubling",
            Algorithm::Direct => "direct",
            Algorithm::Hierarchical => "hierarchical",
            Algorithm::Nvls => "nvls",
        }
    }
}

/// Which ranks form a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// `consecutive`: ranks 0 to g - 1 form the first group of g ranks, as tensor parallelism does.
    Consecutive,
    /// `strided`: with n groups, ranks 0, n, 2n and so on form the first group, as data parallelism does.
    Strided,
}

impl Grouping {
    /// All groupings.
    pub const ALL: [Grouping; 2] = [Grouping::Consecutive, Grouping::Strided];

    /// The name in scenarios and results.
    pub const fn name(self) -> &'static str {
        match self {
            Grouping::Consecutive => "consecutive",
            Grouping::Strided => "strided",
        }
    }
}

/// The host of each rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// `linear`: rank r is on host r.
    Linear,
    /// `random`: the servers are at random places of the linear placement, drawn with the run's seed; with one rank per
    /// server, the ranks are on random hosts.
    Random,
    /// `rail`: with n servers, rank a of server s is on host a n + s. If a switch has n hosts, the ranks with the same
    /// number in all servers are on one switch (a rail).
    Rail,
    /// `file`: a file has the host of each rank.
    File,
}

impl Placement {
    /// All placements.
    pub const ALL: [Placement; 4] = [Placement::Linear, Placement::Random, Placement::Rail, Placement::File];

    /// The name in scenarios and results.
    pub const fn name(self) -> &'static str {
        match self {
            Placement::Linear => "linear",
            Placement::Random => "random",
            Placement::Rail => "rail",
            Placement::File => "file",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collective(operation: CollectiveOperation, algorithm: Algorithm, group: u32) -> Collective {
        Collective {
            operation,
            algorithm,
            size: Bytes(1_000_000),
            ranks: 8,
            group,
            grouping: Grouping::Consecutive,
            placement: Placement::Linear,
            placed: Arc::default(),
            matrix: Arc::default(),
            skew: None,
            repeats: 1,
            channels: 1,
            chunk: Bytes(100_000),
            outstanding: 4,
            compute: Time::ZERO,
            straggler: None,
            server: None,
            reaction: Time::from_ns(200),
        }
    }

    #[test]
    fn bus_bandwidth_as_in_nccl_tests() {
        let factor = |operation| collective(operation, Algorithm::Ring, 8).bus_factor();
        assert_eq!(CollectiveOperation::ALL.map(factor), [1.75, 0.875, 0.875, 0.875, 1.0]);
    }

    #[test]
    fn what_is_impossible_is_named() {
        let error = |operation, algorithm, group| collective(operation, algorithm, group).check().unwrap_err();
        assert_eq!(
            error(CollectiveOperation::AllToAll, Algorithm::Ring, 8),
            "the algorithm \"ring\" does not exist for \"all-to-all\"; accepted: \"direct\""
        );
        assert_eq!(
            error(CollectiveOperation::AllReduce, Algorithm::Ring, 3),
            "groups of 3 do not divide 8 ranks; accepted: a divisor of the ranks, at least 2"
        );
        let six = Collective {
            ranks: 6,
            group: 6,
            ..collective(CollectiveOperation::AllReduce, Algorithm::HalvingDoubling, 6)
        };
        assert!(six.check().unwrap_err().contains("a power of two"));
        let small = Collective { size: Bytes(7), ..collective(CollectiveOperation::AllReduce, Algorithm::Ring, 8) };
        assert!(small.check().unwrap_err().contains("accepted: at least 8 B"));
        for operation in CollectiveOperation::ALL {
            for algorithm in operation.algorithms() {
                let server = Server { accelerators: 4, rate: BitRate::from_gbps(3_200), latency: Time::from_ns(900) };
                let server = matches!(algorithm, Algorithm::Hierarchical | Algorithm::Nvls).then_some(server);
                assert_eq!(Collective { server, ..collective(operation, *algorithm, 8) }.check(), Ok(()));
            }
        }
    }
}
