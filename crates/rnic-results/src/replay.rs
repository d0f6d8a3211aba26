//! Replays: a run over time as one HTML file that works offline.
//!
//! A [`Recorder`] receives the frames of a run ([`rnic_spec::Frame`]) while it is simulated. [`Recorder::finish`] adds
//! the flows, the traffic matrix and the faults from the record of the run, and removes frames until the data have the
//! allowed size. [`render`] makes the page of all runs of a scenario. The same frames and records give the same bytes.

mod columns;
mod events;
mod flows;
mod live;
mod matrix;
mod picture;
mod recorder;
mod sampling;
mod under_way;

pub use live::{Cursor, NewFrames};
pub use recorder::Recorder;

use crate::report::page::{Page, page};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use matrix::Matrix;
use picture::Picture;
use recorder::Seen;
use rnic_fabric::{HostId, PortId};
use rnic_spec::{RunRecord, RunSpec};
use serde_json::{Value, json};
use std::io;

const SCRIPT: &str = include_str!("replay/replay.js");
/// The file may have one pause per this number of bytes of its maximum size, so that room is left for frames.
const PAUSE_BYTES: u64 = 48;
/// Name of the file of a replay.
pub const FILE: &str = crate::report::REPLAY_FILE;

/// A recorded run as JSON for the page.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordedRun(Value);

impl Recorder {
    /// Ends the recording. `spec` and `report` are the run's specification and record. `None` if the run had no frames.
    /// Readers of the recording still get what is in the page.
    ///
    /// # Errors
    /// The data cannot be deflated.
    pub fn finish(&mut self, spec: &RunSpec, report: &RunRecord) -> io::Result<Option<RecordedRun>> {
        self.end();
        let (max_bytes, is_per_flow) = (self.max_bytes, self.is_per_flow);
        let Some(seen) = self.seen.as_mut().filter(|seen| !seen.frames.is_empty()) else { return Ok(None) };
        seen.merge_pauses((max_bytes / PAUSE_BYTES) as usize, report.output.end);
        let chosen = flows::choose(report, &self.named);
        let ids: Vec<u32> = chosen.iter().map(|chosen| chosen.flow.id).collect();
        let mut head = head(seen, spec, report);
        head["flows"] = chosen.iter().map(|chosen| flows::to_json(seen, chosen, is_per_flow)).collect();
        head["events"] = Value::Array(events::of(seen, spec, report));
        let fixed = head.to_string().len() as u64;
        loop {
            let columns = columns::deflated(seen, &ids, report.output.end)?;
            // Base64 has four characters for three bytes.
            let size = fixed + columns.len().div_ceil(3) as u64 * 4;
            if size <= max_bytes || !seen.shrink(report.output.end) {
                head["frames"] = json!(seen.frames.len());
                head["matrixInstants"] = json!(seen.matrix.instants.len());
                head["data"] = json!(STANDARD.encode(columns));
                return Ok(Some(RecordedRun(head)));
            }
        }
    }
}

impl Seen {
    /// The port of a host; 0 for a host that the topology does not have.
    fn host_port(&self, host: u32) -> u32 {
        if host < self.topology.hosts { self.topology.host_port(HostId(host)).0 } else { PortId(0).0 }
    }
}

/// The nodes and ports of a fabric, as `recording.js` reads them.
fn fabric_json(name: &str, seen: &Seen) -> Value {
    let Picture { nodes, ports, cells, .. } = &seen.picture;
    let Matrix { groups, size, .. } = &seen.matrix;
    let four_digits = |part: f64| (part * 1e4).round() / 1e4;
    json!({
        "name": name,
        "matrix": { "groups": groups, "size": size, "hosts": seen.topology.hosts },
        "nodes": {
            "name": nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(),
            "kind": nodes.iter().map(|node| node.kind.name()).collect::<Vec<_>>(),
            "hosts": nodes.iter().map(|node| node.hosts).collect::<Vec<_>>(),
            "x": nodes.iter().map(|node| four_digits(node.x)).collect::<Vec<_>>(),
            "y": nodes.iter().map(|node| four_digits(node.y)).collect::<Vec<_>>(),
        },
        "cells": cells,
        "ports": {
            "node": ports.iter().map(|port| port.node).collect::<Vec<_>>(),
            "peer": ports.iter().map(|port| port.peer).collect::<Vec<_>>(),
            "gbps": ports.iter().map(|port| port.gbps).collect::<Vec<_>>(),
            "links": ports.iter().map(|port| port.links).collect::<Vec<_>>(),
        },
    })
}

/// The parts of a run that do not change over time, as `columns.js` reads them.
fn head(seen: &Seen, spec: &RunSpec, report: &RunRecord) -> Value {
    let mut head = fabric_json(&spec.name, seen);
    head["queueUnit"] = json!(columns::QUEUE_UNIT);
    head["end"] = json!(report.output.end.as_ps() as f64 / 1e6);
    head["pausesLeftOut"] = json!(seen.pauses_left_out);
    head
}

/// The page of the recorded runs. `title` is the scenario's title. With `side_by_side`, the page first shows the first
/// two runs side by side.
pub fn render(title: &str, runs: &[RecordedRun], side_by_side: bool) -> String {
    let second = if side_by_side && runs.len() > 1 { 1 } else { -1 };
    let data = json!({
        "runs": runs.iter().map(|run| &run.0).collect::<Vec<_>>(),
        "shown": [0, second],
    });
    page(&Page {
        title,
        body: &format!(
            "<header><h1>{}</h1></header>\n<main><p>Reading the replay \u{2026}</p>\
             <noscript><p class=\"notice\">A replay needs JavaScript.</p></noscript></main>\n",
            crate::report::escape(title)
        ),
        data: &data,
        style: rnic_web::RECORDING_STYLE,
        script: SCRIPT,
    })
}
