//! Division of the simulation of one run among threads.

use crate::resolve::Resolved;
use rnic_fabric::{Body, Fabric, PartitionPlan, Topology, TopologyError};
use std::cell::Cell;

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
}

impl<'s> Sharing<'s> {
    /// Divides a run among up to `threads` threads, at most 32; a small run uses fewer.
    pub fn among(threads: usize) -> Sharing<'s> {
        Sharing { threads: threads.min(MAX_THREADS), plan: None, workers_cpu_s: Cell::new(0.0) }
    }
    /// Divides a run of any size among `threads` threads. `plan` assigns the hosts and switches of the topology to
    /// fabric partitions.
    pub fn in_parts(threads: usize, plan: &'s dyn Fn(&Topology) -> PartitionPlan) -> Sharing<'s> {
        Sharing { plan: Some(plan), ..Sharing::among(threads) }
    }

    /// Builds the fabric of a run, divided into partitions for the threads.
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

    /// After a run has ended: adds the CPU time of the fabric's worker threads to the sum of all runs.
    pub(super) fn done<B: Body>(&self, fabric: &Fabric<B>) {
        self.workers_cpu_s.set(self.workers_cpu_s.get() + fabric.workers_cpu_s());
    }

    /// CPU seconds of the worker threads, without the calling thread, summed over all runs so far.
    pub(super) fn workers_cpu_s(&self) -> f64 {
        self.workers_cpu_s.get()
    }
}
