//! The flows, operations, steps and tasks of a run as slices of its trace.

use super::lanes::Lanes;
use super::packets::{Packets, Slice};
use super::proto::DebugAnnotation;
use super::{NODE, pid};
use rnic_fabric::Topology;
use rnic_spec::{CollectiveRecord, FlowRecord, PathRecord, RunOutput, RunSpec, StepRecord, TaskCollective, TaskSpan};
use rnic_transport::Time;
use std::collections::BTreeMap;
use std::io::Write;

/// The kinds of tracks, the highest byte of their unique ids.
const GROUP: u64 = 16 << 56;
const LANE: u64 = 17 << 56;

/// The process ids of the groups of tracks, behind those of nodes.
const FIRST_GROUP: i32 = 1 << 30;

/// Adds the records of a run to its trace. Returns the number of records that do not fit.
pub(super) fn add<W: Write>(
    packets: &mut Packets<W>, topology: Option<&Topology>, run: &RunSpec, output: &RunOutput,
) -> u64 {
    let name = |host: u32| topology.and_then(|of| of.names.get(host as usize).cloned());
    let names = |host: u32| name(host).unwrap_or_else(|| format!("host {host}"));
    let mut records = Records { packets, run, end: output.end, tracks: BTreeMap::new(), missing: 0 };
    for record in &output.collectives {
        records.collective(record);
    }
    for record in &output.task_collectives.records {
        records.task_collective(record, output.task_collectives.label(record));
    }
    for record in &output.steps {
        records.step(record);
    }
    for span in &output.timeline.spans {
        let label = output.timeline.labels.get(span.label as usize).map_or("", String::as_str);
        records.task(span, label);
    }
    for flow in output.flows.iter() {
        records.flow(&flow, &names);
    }
    records.missing
}

/// The group to which tracks belong, which is also their process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// A host.
    Host(u32),
    /// Collective operations and steps.
    Operations,
    /// The ranks of a traffic source.
    Ranks(u16),
}

struct Records<'p, W> {
    packets: &'p mut Packets<W>,
    run: &'p RunSpec,
    end: Time,
    /// Number of each kind of tracks, and their lanes, by group and name.
    tracks: BTreeMap<(Group, String), (u64, Lanes)>,
    missing: u64,
}

impl<W: Write> Records<'_, W> {
    /// Adds a slice to a track with this name in a group. Overlapping slices are put on several tracks with the same
    /// name.
    fn add(&mut self, (group, process): (Group, &str), track: String, slice: Slice) {
        let (parent, pid) = match group {
            Group::Host(host) => (NODE | u64::from(host), pid(host)),
            Group::Operations => (GROUP, FIRST_GROUP),
            Group::Ranks(traffic) => (GROUP | 1 | u64::from(traffic) << 1, FIRST_GROUP + 1 + i32::from(traffic)),
        };
        let next = self.tracks.len() as u64;
        let key = (group, track);
        let (number, lanes) = self.tracks.entry(key.clone()).or_insert_with(|| (next, Lanes::default()));
        let uuid = LANE | *number << 32 | lanes.place(slice.from, slice.to);
        self.packets.process(parent, pid, process);
        self.packets.slices(uuid, parent, &key.1);
        self.missing += u64::from(!self.packets.slice(Slice { track: uuid, ..slice }));
    }

    fn source(&self, traffic: u16) -> &str {
        self.run.traffic.get(usize::from(traffic)).map_or("", |source| &source.name)
    }

    fn flow(&mut self, flow: &FlowRecord, names: &dyn Fn(u32) -> String) {
        let to = flow.finish.unwrap_or(self.end);
        let mut annotations = vec![
            DebugAnnotation::number("flow", flow.id.into()),
            DebugAnnotation::text("traffic", self.source(flow.traffic)),
            DebugAnnotation::number("bytes", flow.bytes),
            DebugAnnotation::number("duration_ps", to.saturating_sub(flow.start).as_ps()),
            DebugAnnotation::number("alone_ps", flow.ideal.as_ps()),
            DebugAnnotation::number("retransmitted", flow.retransmitted.into()),
            DebugAnnotation::number("timeouts", flow.timeouts.into()),
        ];
        if flow.finish.is_none() {
            annotations.push(DebugAnnotation::flag("finished", false));
            annotations.push(DebugAnnotation::number("delivered", flow.delivered));
        }
        let name = format!("flow {} to {}", flow.id, names(flow.dst));
        let slice = slice(name, "flow", (flow.start, to), annotations);
        self.add((Group::Host(flow.src), &names(flow.src)), "flows".to_string(), slice);
    }

    fn collective(&mut self, record: &CollectiveRecord) {
        let source = self.source(record.traffic);
        let (track, name) = (format!("{source}, group {}", record.group), format!("{source} {}", record.repeat));
        let mut annotations = path(&record.path);
        annotations.push(DebugAnnotation::number("last_start_ps", record.last_start.as_ps()));
        annotations.extend(record.end.is_none().then(|| DebugAnnotation::flag("finished", false)));
        let span = (record.start, record.end.unwrap_or(self.end));
        self.add((Group::Operations, "operations"), track, slice(name, "collective", span, annotations));
    }

    fn task_collective(&mut self, record: &TaskCollective, label: &str) {
        let track = format!("{}, {label}", self.source(record.traffic));
        let mut annotations = path(&record.path);
        annotations.push(DebugAnnotation::number("last_start_ps", record.last_start.as_ps()));
        annotations.push(DebugAnnotation::number("communicator", record.communicator.into()));
        annotations.push(DebugAnnotation::number("step", record.step.into()));
        annotations.push(DebugAnnotation::number("ranks", record.ranks.into()));
        annotations.push(DebugAnnotation::number("bytes", record.bytes));
        annotations.extend(record.end.is_none().then(|| DebugAnnotation::flag("finished", false)));
        let span = (record.start, record.end.unwrap_or(self.end));
        let slice = slice(record.operation.name().to_string(), "collective", span, annotations);
        self.add((Group::Operations, "operations"), track.trim_end_matches(", ").to_string(), slice);
    }

    fn step(&mut self, record: &StepRecord) {
        let track = format!("{}, steps", self.source(record.traffic));
        let mut annotations = path(&record.path);
        annotations.push(DebugAnnotation::flag("measured", record.is_measured));
        annotations.push(DebugAnnotation::number("longest_compute_ps", record.longest_compute.as_ps()));
        annotations.extend(record.end.is_none().then(|| DebugAnnotation::flag("finished", false)));
        let span = (record.start, record.end.unwrap_or(self.end));
        let name = format!("step {}", record.step);
        self.add((Group::Operations, "operations"), track, slice(name, "step", span, annotations));
    }

    fn task(&mut self, span: &TaskSpan, label: &str) {
        let process = format!("ranks of {}", self.source(span.traffic));
        let name = format!("{} {label}", span.kind.name());
        let task = slice(name.trim_end().to_string(), "task", (span.start, span.end), Vec::new());
        self.add((Group::Ranks(span.traffic), &process), format!("rank {}", span.rank), task);
    }
}

fn slice(name: String, category: &'static str, (from, to): (Time, Time), annotations: Vec<DebugAnnotation>) -> Slice {
    Slice { name, category, from, to, annotations, ..Slice::default() }
}

/// The parts of a critical path.
fn path(path: &PathRecord) -> Vec<DebugAnnotation> {
    let parts = [
        ("path_late_ps", path.late),
        ("path_compute_ps", path.compute),
        ("path_network_ps", path.network),
        ("path_excess_ps", path.excess),
    ];
    parts.into_iter().map(|(name, time)| DebugAnnotation::number(name, time.as_ps())).collect()
}
