//! Division of the simulation of one run among threads.

use super::ranks::{RankReport, collect_reports};
use crate::resolve::Resolved;
use rnic_fabric::{Body, Fabric, PartitionPlan, RankGroup, Topology};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Number of fabric partitions (parts of the fabric that one thread at a time simulates) per thread. More partitions
/// balance the load of the threads better, but more packets cross from one partition to another.
const PARTITIONS_PER_THREAD: usize = 2;

/// Maximum number of threads that simulate one run. More threads need more fabric partitions, and then more packets
/// cross from one partition to another.
const MAX_THREADS: usize = 32;

/// How the simulation of one run is divided among threads. The results of the run do not depend on this division.
///
/// ```
/// use rnic_sim::Sharing;
/// let one_thread = Sharing::among(1);
/// let four_threads = Sharing::among(4);
/// ```
pub struct Sharing<'s> {
    threads: usize,
    plan: Option<&'s dyn Fn(&Topology) -> PartitionPlan>,
    workers_cpu_s: Cell<f64>,
    together_s: Cell<f64>,
    ranks: Option<RankGroup>,
    reports: RefCell<Vec<RankReport>>,
}

impl<'s> Sharing<'s> {
    /// Divides a run among up to `threads` threads, at most 32; a small run uses fewer.
    pub fn among(threads: usize) -> Sharing<'s> {
        let reports = RefCell::new(Vec::new());
        let zero = || Cell::new(0.0);
        let threads = threads.min(MAX_THREADS);
        Sharing { threads, plan: None, workers_cpu_s: zero(), together_s: zero(), ranks: None, reports }
    }
    /// Divides a run of any size among `threads` threads. `plan` assigns the hosts and switches of the topology to
    /// fabric partitions.
    pub fn in_parts(threads: usize, plan: &'s dyn Fn(&Topology) -> PartitionPlan) -> Sharing<'s> {
        Sharing { plan: Some(plan), ..Sharing::among(threads) }
    }

    /// Divides runs among the ranks of `group` too: processes that execute the same runs in the same order, each on its
    /// own threads. Rank 0 gets the output of a run; the output of the other ranks has no records.
    pub fn on_ranks(self, group: RankGroup) -> Sharing<'s> {
        Sharing { ranks: Some(group), ..self }
    }
    /// What each rank has spent on the latest run, in order of rank: on rank 0, after a run on several ranks.
    pub fn reports(&self) -> Vec<RankReport> {
        self.reports.borrow().clone()
    }
    /// Whether this process gets the output of runs.
    pub(super) fn is_root(&self) -> bool {
        self.ranks.as_ref().is_none_or(RankGroup::is_root)
    }
    /// Whether several ranks share a run.
    pub(super) fn has_ranks(&self) -> bool {
        self.ranks.is_some()
    }

    /// Builds the fabric of a run, divided into partitions for the threads.
    pub(super) fn fabric<B: Body>(&self, resolved: &Resolved, seed: u64) -> Result<Fabric<B>, String> {
        let (rank, ranks) = self.ranks.as_ref().map_or((0, 1), |group| (group.rank(), group.size()));
        let per_rank = if self.threads > 1 { PARTITIONS_PER_THREAD * self.threads } else { 1 };
        let plan = |topology: &Topology| match self.plan {
            Some(plan) => plan(topology),
            None if per_rank * ranks > 1 => PartitionPlan::balanced(topology, per_rank * ranks),
            None => PartitionPlan::whole(topology),
        };
        let plan = |topology: &Topology| match ranks {
            1 => plan(topology),
            _ => plan(topology).on_rank(rank, ranks),
        };
        let topology = resolved.topology.clone();
        let routes = Arc::new(resolved.routes.reseeded(&topology, seed));
        let mut fabric = Fabric::with_routes(topology, routes, &resolved.fabric, seed, self.threads, plan);
        if let Some(group) = &self.ranks {
            fabric.join(group.clone()).map_err(|error| error.to_string())?;
        }
        if self.plan.is_some() {
            fabric.share_always();
        }
        Ok(fabric)
    }

    /// After a run has ended: adds the CPU time of the fabric's worker threads to the sum of all runs, and collects
    /// what the ranks have spent.
    pub(super) fn done<B: Body>(&self, fabric: &Fabric<B>) {
        *self.reports.borrow_mut() = collect_reports(fabric).unwrap_or_default();
        self.workers_cpu_s.set(self.workers_cpu_s.get() + fabric.workers_cpu_s());
        self.together_s.set(self.together_s.get() + fabric.together_s());
    }

    /// Wall-clock seconds in which several threads simulated windows together, summed over all runs so far. In the rest
    /// of the time one thread prepares windows, starts flows, and exchanges frames between partitions.
    pub fn together_s(&self) -> f64 {
        self.together_s.get()
    }

    /// CPU seconds of the worker threads, without the calling thread, summed over all runs so far.
    pub(super) fn workers_cpu_s(&self) -> f64 {
        self.workers_cpu_s.get()
    }
}
