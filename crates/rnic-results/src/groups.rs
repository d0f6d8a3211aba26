//! Statistics of a run's flows: over all flows, by flow size and by traffic source.

use super::ranks::{Ranked, ranked};
use super::stats::{self, Distribution, Goodput};
use rnic_spec::RunSpec;
use rnic_spec::{FlowRecord, RunOutput};
use rnic_transport::Bytes;

/// The measured flows whose sizes lie in one range.
#[derive(Clone, PartialEq, Debug)]
pub struct SizeClass {
    /// Name of the range of sizes, for example `<= 10 KB`.
    pub name: String,
    /// Minimum flow size in bytes.
    pub min_bytes: u64,
    /// Maximum flow size in bytes; `None` if the range has no upper limit.
    pub max_bytes: Option<u64>,
    /// Statistics of the flows in this range.
    pub group: Group,
}

/// The measured flows of one traffic source.
#[derive(Clone, PartialEq, Debug)]
pub struct TrafficClass {
    /// Name of the traffic source.
    pub name: String,
    /// Statistics of the source's measured flows.
    pub group: Group,
    /// Number of flows of the source that started and did not finish, measured or not.
    pub unfinished: u64,
    /// Goodput of the source's measured flows, finished or not, in bit/s.
    pub goodput: Option<Goodput>,
}

/// Statistics of a group of measured flows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Group {
    /// Number of measured flows that finished.
    pub flows: u64,
    /// Distribution of the slowdown; `None` if the group has no finished flow, and in a failed run.
    pub slowdown: Option<Distribution>,
    /// Distribution of the flow completion times in microseconds; `None` in the same cases as `slowdown`.
    pub fct_us: Option<Distribution>,
}

/// Numbers of flows in a run. They exist for failed runs too, unlike the statistics.
pub(super) struct Counts {
    /// Number of flows that finished.
    pub(super) completed: u64,
    /// Number of flows that started and did not finish.
    pub(super) unfinished: u64,
    /// Number of retransmission timeouts, over all flows.
    pub(super) timeouts: u64,
    /// Number of measured flows that finished, by index of the group (see [`Groups`]).
    measured: Vec<u64>,
    /// Number of unfinished flows, by index of the traffic source; empty if there is only one source.
    unfinished_of: Vec<u64>,
}

/// The statistics of a run's measured flows.
pub(super) struct FlowStatistics {
    pub(super) whole: Group,
    pub(super) goodput: Option<Goodput>,
    pub(super) sizes: Vec<SizeClass>,
    pub(super) traffic: Vec<TrafficClass>,
}

/// The groups into which a run's flows are divided, each with an index: first the group of all flows, then the size
/// classes, then the traffic sources if there are several.
pub(super) struct Groups<'s> {
    spec: &'s RunSpec,
    /// Name and maximum flow size in bytes of each size class, ascending; `None` for no maximum.
    sizes: Vec<(String, Option<u64>)>,
}

/// Index of the group that contains all flows.
const WHOLE: usize = 0;
/// The percentiles (in thousandths) that are computed for the three series of each group: completion time in
/// microseconds, slowdown, goodput in bit/s.
const VALUES: [&[u32]; 3] = [&Distribution::PER_MILLE, &Distribution::PER_MILLE, &Goodput::PER_MILLE];

impl<'s> Groups<'s> {
    /// Defines the groups for the run `spec`. The size classes are: single packets (up to the MTU), the decades up to
    /// 10 MB, and larger flows.
    pub(super) fn new(spec: &'s RunSpec) -> Groups<'s> {
        let mut sizes = vec![("<= 1 packet".to_string(), Some(spec.fabric.mtu.0))];
        sizes.extend([10_000, 100_000, 1_000_000, 10_000_000].map(|n| (format!("<= {}", Bytes(n)), Some(n))));
        sizes.push(("> 10 MB".to_string(), None));
        Groups { spec, sizes }
    }

    fn sources(&self) -> usize {
        if self.spec.traffic.len() < 2 { 0 } else { self.spec.traffic.len() }
    }

    fn len(&self) -> usize {
        1 + self.sizes.len() + self.sources()
    }

    fn of_size(&self, flow: &FlowRecord) -> usize {
        1 + self.sizes.iter().take_while(|(_, max)| max.is_some_and(|max| flow.bytes > max)).count()
    }

    fn of_source(&self, flow: &FlowRecord) -> Option<usize> {
        let source = usize::from(flow.traffic);
        (source < self.sources()).then_some(1 + self.sizes.len() + source)
    }

    /// Indices of the groups to which a flow belongs.
    fn of(&self, flow: &FlowRecord) -> impl Iterator<Item = usize> {
        [WHOLE, self.of_size(flow)].into_iter().chain(self.of_source(flow))
    }

    pub(super) fn count(&self, output: &RunOutput) -> Counts {
        let mut counts = Counts {
            completed: 0,
            unfinished: 0,
            timeouts: 0,
            measured: vec![0; self.len()],
            unfinished_of: vec![0; self.sources()],
        };
        for flow in &output.flows {
            counts.timeouts += u64::from(flow.timeouts);
            match flow.finish {
                Some(_) => counts.completed += 1,
                None => {
                    counts.unfinished += 1;
                    if let Some(count) = counts.unfinished_of.get_mut(usize::from(flow.traffic)) {
                        *count += 1;
                    }
                }
            }
            if flow.measured && flow.finish.is_some() {
                self.of(&flow).for_each(|group| counts.measured[group] += 1);
            }
        }
        counts
    }

    /// The statistics of the run with the given `output`. If `ok` is false, because the run failed, the result has
    /// counts but no distributions. `counts` must come from the same output.
    pub(super) fn statistics(&self, output: &RunOutput, counts: &Counts, ok: bool) -> FlowStatistics {
        let series = if ok { self.series(output) } else { vec![None; self.len() * VALUES.len()] };
        let of = |group: usize, value: usize| series[group * VALUES.len() + value].as_ref();
        let group = |group: usize| Group {
            flows: counts.measured[group],
            slowdown: of(group, 1).and_then(Distribution::of_ranked),
            fct_us: of(group, 0).and_then(Distribution::of_ranked),
        };
        let goodput = |group: usize| of(group, 2).and_then(Goodput::of_ranked);
        let first_source = 1 + self.sizes.len();
        let source = |(index, unfinished): (usize, &u64)| TrafficClass {
            name: self.spec.traffic[index].name.clone(),
            group: group(first_source + index),
            unfinished: *unfinished,
            goodput: goodput(first_source + index),
        };
        FlowStatistics {
            whole: group(WHOLE),
            goodput: goodput(WHOLE),
            sizes: self.size_classes(group),
            traffic: counts.unfinished_of.iter().enumerate().map(source).collect(),
        }
    }

    fn series(&self, output: &RunOutput) -> Vec<Option<Ranked>> {
        let wanted: Vec<&[u32]> = (0..self.len()).flat_map(|_| VALUES).collect();
        ranked(&output.flows, &wanted, |flow, add| {
            if !flow.measured {
                return;
            }
            if let (Some(fct_us), Some(slowdown)) = (stats::fct_us(flow), stats::slowdown(flow)) {
                for group in self.of(flow) {
                    add(group * VALUES.len(), fct_us);
                    add(group * VALUES.len() + 1, slowdown);
                }
            }
            if let Some(goodput) = flow.goodput_bps(output.end) {
                for group in [WHOLE].into_iter().chain(self.of_source(flow)) {
                    add(group * VALUES.len() + 2, goodput);
                }
            }
        })
    }

    /// The size classes that contain at least one finished flow.
    fn size_classes(&self, group: impl Fn(usize) -> Group) -> Vec<SizeClass> {
        let mut min_bytes = 0;
        let mut classes = Vec::new();
        for ((name, max_bytes), group) in self.sizes.iter().zip((1..).map(group)) {
            if group.flows > 0 {
                classes.push(SizeClass { name: name.clone(), min_bytes, max_bytes: *max_bytes, group });
            }
            min_bytes = min_bytes.max(max_bytes.map_or(u64::MAX, |max| max.saturating_add(1)));
        }
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn sizes(mtu: u64, bytes: [u64; 3]) -> Vec<SizeClass> {
        let (mut scenario, reports) = fixture::two_runs();
        let spec = &mut scenario.runs[0];
        spec.fabric.mtu = Bytes(mtu);
        let mut output = reports[0].output.clone();
        output.flows = (0..).zip(bytes).map(|(id, bytes)| fixture::flow(id, bytes)).collect();
        let groups = Groups::new(spec);
        groups.statistics(&output, &groups.count(&output), true).sizes
    }

    #[test]
    fn the_first_size_class_ends_at_the_mtu() {
        let classes = sizes(12_000, [9_000, 12_000, 12_001]);
        let shape: Vec<_> =
            classes.iter().map(|c| (c.name.as_str(), c.min_bytes, c.max_bytes, c.group.flows)).collect();
        assert_eq!(shape, [("<= 1 packet", 0, Some(12_000), 2), ("<= 100 KB", 12_001, Some(100_000), 1)]);
    }

    #[test]
    fn the_last_size_class_has_no_maximum() {
        let classes = sizes(1_000, [u64::MAX, 10_000_001, 10_000_000]);
        assert_eq!(classes.len(), 2);
        assert_eq!((classes[0].min_bytes, classes[0].group.flows), (1_000_001, 1));
        assert_eq!((classes[1].name.as_str(), classes[1].max_bytes, classes[1].group.flows), ("> 10 MB", None, 2));
    }
}
