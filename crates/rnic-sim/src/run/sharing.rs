//! The division of one run among threads.

use crate::resolve::Resolved;
use rnic_fabric::{Body, Fabric, PartitionPlan, Topology, TopologyError};
use std::cell::Cell;

/// Partitions of the fabric for each thread. More partitions share the work more evenly, and have more links between
/// them.
const PARTITIONS_PER_THREAD: usize = 2;

/// Max threads of one run: with more partitions, more packets cross from one to another.
const MAX_THREADS: usize = 32;

/// How one run is divided among threads. No result depends on it.
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
}

impl<'s> Sharing<'s> {
    /// Divides a run among `threads` threads, at most 32, if the run is large enough for them.
    pub fn among(threads: usize) -> Sharing<'s> {
        Sharing { threads: threads.min(MAX_THREADS), plan: None, workers_cpu_s: Cell::new(0.0) }
    }
    /// Divides a run among `threads` threads by the partitions of `plan`, however small the run is.
    pub fn in_parts(threads: usize, plan: &'s dyn Fn(&Topology) -> PartitionPlan) -> Sharing<'s> {
        Sharing { plan: Some(plan), ..Sharing::among(threads) }
    }

    /// The fabric of a run.
    pub(super) fn fabric<B: Body>(&self, resolved: &Resolved, seed: u64) -> Result<Fabric<B>, TopologyError> {
        let plan = |topology: &Topology| match self.plan {
            Some(plan) => plan(topology),
            None if self.threads > 1 => PartitionPlan::balanced(topology, PARTITIONS_PER_THREAD * self.threads),
            None => PartitionPlan::whole(topology),
        };
        let mut fabric = Fabric::partitioned(resolved.topology.clone(), &resolved.fabric, seed, self.threads, plan)?;
        if self.plan.is_some() {
            fabric.share_always();
        }
        Ok(fabric)
    }

    /// A run on this fabric is over.
    pub(super) fn done<B: Body>(&self, fabric: &Fabric<B>) {
        self.workers_cpu_s.set(self.workers_cpu_s.get() + fabric.workers_cpu_s());
    }

    /// CPU seconds of the threads beside the calling one, in all runs so far.
    pub(super) fn workers_cpu_s(&self) -> f64 {
        self.workers_cpu_s.get()
    }
}
