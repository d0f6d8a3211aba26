//! What the links transmit in each step of a program of tasks.

use crate::host::{Observer, RunHosts};
use crate::watch::by_name;
use rnic_fabric::{Body, Fabric, PortId, Topology};
use rnic_spec::{LINKS_OF_STEP, LinkOfStep, LinksOfStep, LinksOfSteps, MAX_LINK_STEPS, StepLinks};
use rnic_transport::Time;
use rnic_workload::{Boundary, StepBoundaries};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of steps that have begun and not ended; further steps are not recorded.
const MAX_OPEN: usize = 64;

/// Bytes and sending time in picoseconds of each direction of a link since the start of the run.
type Counts = Arc<[(u64, u64)]>;

/// Observes the fabric at the instants at which steps begin and end.
pub(crate) struct StepWatch {
    boundaries: Vec<StepBoundaries>,
    /// Name and transmitting ports of each direction of a link.
    links: Vec<(String, Vec<PortId>)>,
    /// The steps that have begun, by traffic source and number: the time, and the counts at this time.
    open: BTreeMap<(u16, u32), (Time, Counts)>,
    record: StepLinks,
    /// The measured steps of each traffic source.
    measured: BTreeMap<u16, Sums>,
}

/// Number, time and counts of steps.
struct Sums {
    steps: u32,
    time: Time,
    counts: Vec<(u64, u64)>,
}

impl StepWatch {
    /// An observer for programs with these boundaries of steps; `None` if there are none.
    pub(crate) fn new(boundaries: Vec<StepBoundaries>, topology: &Topology) -> Option<StepWatch> {
        let links = if boundaries.is_empty() { Vec::new() } else { by_name(topology, topology.port_ids()) };
        let (open, record, measured) = (BTreeMap::new(), StepLinks::default(), BTreeMap::new());
        (!boundaries.is_empty()).then_some(StepWatch { boundaries, links, open, record, measured })
    }

    /// The records of all steps that have ended.
    pub(crate) fn finish(mut self) -> StepLinks {
        let measured = std::mem::take(&mut self.measured);
        let of_source = |(traffic, Sums { steps, time, counts }): (u16, Sums)| LinksOfSteps {
            traffic,
            steps,
            time,
            links: self.busiest(&counts),
        };
        let measured = measured.into_iter().map(of_source).collect();
        StepLinks { measured, ..self.record }
    }

    /// The links that were sending for the largest fraction of the time, busiest first; of equal ones, the first.
    fn busiest(&self, counts: &[(u64, u64)]) -> Vec<LinkOfStep> {
        let of = |((name, ports), (bytes, busy)): (&(String, Vec<PortId>), &(u64, u64))| LinkOfStep {
            name: name.clone(),
            transmitters: ports.len() as u32,
            bytes: *bytes,
            busy: Time::from_ps(*busy),
        };
        // Compares fractions of the transmitters without rounding.
        let share = |of: usize, other: usize| u128::from(counts[of].1) * self.links[other].1.len() as u128;
        let mut order: Vec<usize> = (0..counts.len()).filter(|link| counts[*link].1 > 0).collect();
        order.sort_by(|a, b| share(*b, *a).cmp(&share(*a, *b)));
        order.iter().take(LINKS_OF_STEP).map(|link| of((&self.links[*link], &counts[*link]))).collect()
    }

    fn counts<B: Body>(&self, fabric: &Fabric<B>) -> Counts {
        let sum = |ports: &[PortId], of: &dyn Fn(PortId) -> u64| ports.iter().map(|port| of(*port)).sum::<u64>();
        let bytes = self.links.iter().map(|(_, ports)| sum(ports, &|port| fabric.sent_bytes(port)));
        let busy = self.links.iter().map(|(_, ports)| sum(ports, &|port| fabric.sending_time(port).as_ps()));
        let mut values: Vec<u64> = bytes.chain(busy).collect();
        if let Some(group) = fabric.ranks() {
            // A rank has the values of its own nodes; the others are 0 for it. The group remembers an error.
            let _ = group.sum(&mut values);
        }
        let (bytes, busy) = values.split_at(self.links.len());
        bytes.iter().copied().zip(busy.iter().copied()).collect()
    }

    fn pass(&mut self, boundary: Boundary, counts: &Counts) {
        let Boundary { at, traffic, step, is_measured, begins } = boundary;
        if begins {
            if self.open.len() < MAX_OPEN {
                self.open.insert((traffic, step), (at, counts.clone()));
            } else {
                self.record.is_truncated = true;
            }
            return;
        }
        let Some((start, before)) = self.open.remove(&(traffic, step)) else { return };
        let change = counts.iter().zip(before.iter());
        let change: Vec<(u64, u64)> =
            change.map(|(now, then)| (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1))).collect();
        let links = self.busiest(&change);
        self.record.steps.push(LinksOfStep { traffic, step, start, end: at, links });
        if is_measured {
            let new = || Sums { steps: 0, time: Time::ZERO, counts: vec![(0, 0); change.len()] };
            let sums = self.measured.entry(traffic).or_insert_with(new);
            sums.steps += 1;
            sums.time = sums.time.saturating_add(at.saturating_sub(start));
            for (sum, (bytes, busy)) in sums.counts.iter_mut().zip(&change) {
                *sum = (sum.0.saturating_add(*bytes), sum.1.saturating_add(*busy));
            }
        }
    }
}

impl<B: Body> Observer<B> for StepWatch {
    fn next(&self) -> Time {
        self.boundaries.iter().map(StepBoundaries::next).min().unwrap_or(Time::MAX)
    }

    fn observe(&mut self, now: Time, fabric: &mut Fabric<B>, _hosts: &mut dyn RunHosts<B>) {
        let counts = self.counts(fabric);
        for source in self.boundaries.clone() {
            while let Some(boundary) = source.take(now) {
                if self.record.steps.len() < MAX_LINK_STEPS {
                    self.pass(boundary, &counts);
                } else {
                    self.record.is_truncated = true;
                    source.close();
                }
            }
        }
    }
}
