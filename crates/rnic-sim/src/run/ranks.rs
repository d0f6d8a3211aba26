//! One run on several ranks: the runs for which this is not possible, and the costs of each rank.

use super::peak_rss_bytes;
use crate::resolve::Resolved;
use rnic_fabric::rank_message::{append, take_last};
use rnic_fabric::{Body, Fabric, RankCosts};
use serde::{Deserialize, Serialize};

/// The costs of a run on one rank.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RankReport {
    /// Windows, barriers, and their times.
    pub costs: RankCosts,
    /// Frames that the ports of all ranks have transmitted.
    pub hops: u64,
    /// Number of hosts that the rank simulated.
    pub hosts: u64,
    /// Maximum resident set size of the rank's process so far, in bytes.
    pub peak_rss_bytes: u64,
}

/// Efficiency of a run on several ranks: predicted from the work per window and the cost of a barrier, and reached.
///
/// A window of simulated time takes the work of all nodes, `work_s`, which the ranks share; the work that each rank
/// does for the flows of all ranks, `replicated_s`; and a barrier, `barrier_s`. The efficiency on `n` ranks is the time
/// of one rank, divided by `n` times the time of `n` ranks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RankEfficiency {
    /// Frames transmitted per window.
    pub hops_per_window: f64,
    /// Time to simulate the nodes of the whole fabric through a window, summed over the ranks, in seconds.
    pub work_s: f64,
    /// Time of the work in a window that every rank does alike: starting and retiring flows, in seconds.
    pub replicated_s: f64,
    /// Time of a barrier at which no rank waits for another's work, in seconds.
    pub barrier_s: f64,
    /// Predicted efficiency, 0 to 1, if the ranks have equal work in each window.
    pub predicted: f64,
    /// Reached efficiency.
    pub reached: f64,
}

impl RankEfficiency {
    /// The efficiency of a run of which each rank has reported; `None` without windows.
    ///
    /// ```
    /// use rnic_sim::run::{RankEfficiency, RankReport};
    ///
    /// // 1,000 windows of 2 ms of work, which two ranks share; a barrier takes 10 us.
    /// let mut report = RankReport { hops: 10_000_000, ..RankReport::default() };
    /// report.costs.windows = 1_000;
    /// report.costs.barriers = 1_000;
    /// (report.costs.work_s, report.costs.barrier_s) = (1.0, 1e-5);
    /// (report.costs.barriers_s, report.costs.wall_s) = (0.25, 1.25);
    /// let efficiency = RankEfficiency::of(&[report, report]).unwrap();
    /// assert_eq!((efficiency.hops_per_window, efficiency.reached), (10_000.0, 0.8));
    /// assert!((efficiency.predicted - 2.0 / (2.0 * 1.01)).abs() < 1e-9);
    /// ```
    pub fn of(reports: &[RankReport]) -> Option<RankEfficiency> {
        let windows = reports.first().map(|report| report.costs.windows).filter(|windows| *windows > 0)? as f64;
        let ranks = reports.len() as f64;
        let mean = |of: fn(&RankReport) -> f64| reports.iter().map(of).sum::<f64>() / ranks;
        let barriers = mean(|report| report.costs.barriers as f64);
        let work = mean(|report| report.costs.work_s) * ranks;
        let wall = mean(|report| report.costs.wall_s);
        let other = mean(|report| (report.costs.wall_s - report.costs.work_s - report.costs.barriers_s).max(0.0));
        let barrier = mean(|report| report.costs.barrier_s);
        let alone = work + other;
        Some(RankEfficiency {
            hops_per_window: reports[0].hops as f64 / windows,
            work_s: work / windows,
            replicated_s: other / windows,
            barrier_s: barrier,
            predicted: alone / (ranks * (work / ranks + other + barriers * barrier)),
            reached: alone / (ranks * wall),
        })
    }
}

/// Checks that a run can be divided among ranks.
///
/// # Errors
/// It cannot, for the reason in the error.
pub fn check_ranks(resolved: &Resolved) -> Result<(), String> {
    let refused = if resolved.software.is_some() {
        "a transport in host software opens channels between hosts of different ranks"
    } else if resolved.watch_pauses.is_some() {
        "`[watch] pauses` needs the state of the whole fabric at each sample"
    } else if resolved.faults.watchdog.is_some() {
        "`[fabric.watchdog]` needs the state of the whole fabric at each check"
    } else if resolved.programs {
        "collective operations send messages that depend on those of other ranks"
    } else if !resolved.stacks.is_empty() {
        "several transports in one run share the links of hosts of different ranks"
    } else if resolved.fast_forward.is_some() {
        "`fast_forward` compares the flows and queues of all hosts"
    } else {
        return Ok(());
    };
    Err(format!("{refused}; this run needs one process, without mpirun"))
}

/// Collects the reports of all ranks on rank 0; `None` on other ranks, without ranks, or if a rank cannot be reached.
pub(super) fn collect_reports<B: Body>(fabric: &Fabric<B>) -> Option<Vec<RankReport>> {
    let (group, costs) = (fabric.ranks()?, fabric.rank_costs()?);
    let plan = fabric.plan();
    let hosts = (0..plan.partitions()).map(|partition| plan.hosts_of(partition).len() as u64).sum();
    let report = RankReport { costs, hops: fabric.hops(), hosts, peak_rss_bytes: peak_rss_bytes() };
    let mut own = Vec::new();
    append(&report, &mut own).ok()?;
    let all = group.collect(own).ok()?;
    all.iter().map(|message| take_last(message, "the report of a rank").ok()).collect()
}
