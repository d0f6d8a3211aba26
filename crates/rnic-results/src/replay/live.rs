//! The recording of a run that is still being simulated, as JSON for a page that receives it step by step.
//! `rnic-web/components/recording.js` describes the objects: its function `makeRecording` takes the fabric, and
//! `appendFrame` takes a frame.

use super::recorder::{Kept, KeptPause, Recorder, Seen};
use super::sampling::Role;
use super::under_way::Shown;
use super::{fabric_json, flows};
use rnic_spec::RootKind;
use rnic_transport::Time;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// How far a reader has read a recording.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    /// The latest frame that the reader has.
    frame: Option<Kept>,
    /// Time and bytes of the latest instant of the matrix that the reader has.
    matrix: Option<(Time, Box<[u64]>)>,
    /// The flows that the reader has, and whether it knows that they have ended.
    flows: BTreeMap<u32, bool>,
}

/// What a reader has not read yet.
#[derive(Clone, Debug, Default)]
pub struct NewFrames {
    before: Option<Kept>,
    frames: Vec<Kept>,
    /// Number of links of each drawn port.
    links: Vec<u32>,
    /// Flows that the page shows from now on, with their paths.
    started: Vec<Value>,
    /// Flows that have ended: id, time, bytes.
    ended: Vec<(u32, Time, u64)>,
    /// Flows that the page no longer shows.
    forgotten: Vec<u32>,
    /// All flows that the page shows.
    shown: BTreeSet<u32>,
    /// Instants of the matrix, each with the cells that have changed.
    matrix: Vec<(Time, Vec<(usize, u64)>)>,
}

impl Recorder {
    /// The fabric of a run, with the name of the run; `None` before the first frame.
    pub fn fabric(&self, name: &str) -> Option<Value> {
        Some(fabric_json(name, self.seen.as_ref()?))
    }

    /// Returns at most `most` of the kept frames after the position of `cursor`, and advances the cursor. The recorder
    /// removes frames when it has too many, so a late reader gets fewer frames per time.
    pub fn read(&self, cursor: &mut Cursor, most: usize) -> Option<NewFrames> {
        let seen: &Seen = self.seen.as_ref()?;
        let frames = unread(seen, cursor.frame.as_ref().map(|kept| kept.time), most);
        let last = frames.last()?;
        let (until, before) = (last.time, cursor.frame.replace(last.clone()));
        let mut new = NewFrames {
            before,
            frames,
            links: seen.picture.ports.iter().map(|port| port.links).collect(),
            started: Vec::new(),
            ended: Vec::new(),
            forgotten: Vec::new(),
            shown: seen.shown.0.iter().map(|shown| shown.flow.flow).collect(),
            matrix: Vec::new(),
        };
        cursor.read_flows(seen, self.is_per_flow, until, &mut new);
        cursor.read_matrix(seen, until, &mut new);
        Some(new)
    }
}

/// The frames after the time `read`, at most `most`; fine frames, which may be dropped again, are left out.
fn unread(seen: &Seen, read: Option<Time>, most: usize) -> Vec<Kept> {
    let first = seen.frames.partition_point(|frame| read.is_some_and(|read| frame.time <= read));
    let (mut frames, mut carried) = (Vec::new(), BTreeMap::new());
    for kept in &seen.frames[first..] {
        if frames.len() == most {
            break;
        }
        if kept.role == Role::Fine {
            carried.extend(kept.totals.iter().map(|(port, totals)| (*port, *totals)));
            continue;
        }
        let mut frame = kept.clone();
        frame.follow(&mut carried);
        carried.clear();
        frames.push(frame);
    }
    frames
}

impl Cursor {
    /// Reads the flows that the page shows. A flow ends for the reader when it has the frames until then.
    fn read_flows(&mut self, seen: &Seen, is_per_flow: bool, until: Time, new: &mut NewFrames) {
        for shown in &seen.shown.0 {
            let id = shown.flow.flow;
            let has_ended = self.flows.entry(id).or_insert_with(|| {
                new.started.push(flow_json(seen, shown, is_per_flow));
                false
            });
            if let Some((time, bytes)) = shown.end.filter(|(time, _)| !*has_ended && *time <= until) {
                *has_ended = true;
                new.ended.push((id, time, bytes));
            }
        }
        new.forgotten = self.flows.keys().copied().filter(|id| !new.shown.contains(id)).collect();
        self.flows.retain(|id, _| new.shown.contains(id));
    }

    fn read_matrix(&mut self, seen: &Seen, until: Time, new: &mut NewFrames) {
        let instants = &seen.matrix.instants;
        let first = instants.partition_point(|(time, _)| self.matrix.as_ref().is_some_and(|(read, _)| time <= read));
        for (time, bytes) in instants[first..].iter().take_while(|(time, _)| *time <= until) {
            let before = self.matrix.as_ref().map(|(_, bytes)| bytes);
            let is_new = |(cell, bytes): &(usize, &u64)| before.map_or(0, |before| before[*cell]) != **bytes;
            let cells = bytes.iter().enumerate().filter(is_new).map(|(cell, bytes)| (cell, *bytes));
            new.matrix.push((*time, cells.collect()));
            self.matrix = Some((*time, bytes.clone()));
        }
    }
}

/// A flow that begins to be shown.
fn flow_json(seen: &Seen, shown: &Shown, is_per_flow: bool) -> Value {
    let flow = &shown.flow;
    let (path, is_exact) = flows::path(seen, flow.src, flow.dst, Some(flow.data_hash).filter(|_| is_per_flow));
    json!({
        "id": flow.flow,
        "src": flow.src,
        "dst": flow.dst,
        "bytes": flow.bytes,
        "start": us(flow.start),
        "why": shown.why,
        "path": path,
        "onePath": is_exact,
    })
}

impl NewFrames {
    /// The frames as JSON, in order of time.
    pub fn to_json(&self) -> Value {
        let mut matrix = self.matrix.iter().peekable();
        let befores = self.before.as_ref().into_iter().chain(&self.frames).map(Some);
        let none = self.before.is_none().then_some(None);
        let mut frames: Vec<Value> = Vec::with_capacity(self.frames.len());
        for (before, frame) in none.into_iter().chain(befores).zip(&self.frames) {
            let mut value = frame_json(before, frame, &self.links);
            let flows = frame.delivered.iter().filter(|(flow, _)| self.shown.contains(flow));
            value["flows"] = flows.map(|(flow, bytes)| json!([flow, bytes])).collect();
            let instants = std::iter::from_fn(|| matrix.next_if(|(time, _)| *time <= frame.time));
            value["matrix"] = instants.map(|(time, cells)| json!([us(*time), cells])).collect();
            frames.push(value);
        }
        if let Some(first) = frames.first_mut() {
            first["started"] = json!(self.started);
        }
        if let Some(last) = frames.last_mut() {
            last["ended"] = self.ended.iter().map(|(flow, time, bytes)| json!([flow, us(*time), bytes])).collect();
            last["forgotten"] = json!(self.forgotten);
        }
        Value::Array(frames)
    }
}

fn us(time: Time) -> f64 {
    time.as_ps() as f64 / 1e6
}

fn frame_json(before: Option<&Kept>, frame: &Kept, links: &[u32]) -> Value {
    let ports: Vec<Value> = (0..frame.queued.len()).filter_map(|port| port_json(before, frame, port, links)).collect();
    json!({
        "time": us(frame.time),
        "ports": ports,
        "pauses": frame.pauses.iter().map(pause_json).collect::<Vec<_>>(),
        "cycle": frame.cycle,
    })
}

/// The state of a drawn port; `None` if its queue and its totals have not changed, and it has not been sending.
fn port_json(before: Option<&Kept>, frame: &Kept, port: usize, links: &[u32]) -> Option<Value> {
    let (queued_before, busy_before) = before.map_or((0, 0), |kept| (kept.queued[port], kept.busy_ns[port]));
    let busy = frame.busy_ns[port].saturating_sub(busy_before);
    let totals = frame.totals.get(&(port as u32));
    if busy == 0 && frame.queued[port] == queued_before && totals.is_none() {
        return None;
    }
    let since = before.map_or(Time::ZERO, |kept| kept.time);
    let most = frame.time.saturating_sub(since).as_ps() / 1_000 * u64::from(links.get(port).copied().unwrap_or(1));
    let used = (busy as f64 / most.max(1) as f64).min(1.0);
    let mut state = vec![json!(port), json!((used * 1e3).round() / 1e3), json!(frame.queued[port])];
    state.extend(totals.into_iter().flatten().map(|total| json!(total)));
    Some(Value::Array(state))
}

fn pause_json(pause: &KeptPause) -> Value {
    let kind = match pause.root {
        None => "",
        Some((RootKind::Congestion, _)) => "congestion",
        Some((RootKind::Nic, _)) => "nic",
        Some((RootKind::Cycle, _)) => "cycle",
    };
    let port = |port: Option<u32>| port.map_or(-1, i64::from);
    let root = port(pause.root.map(|(_, port)| port));
    json!([pause.port, pause.priority, us(pause.since), port(pause.waits_for), kind, root])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn kept(us: u64, queued: &[u32], busy_ns: &[u64]) -> Kept {
        let (queued, busy_ns) = (queued.into(), busy_ns.into());
        Kept { time: Time::from_us(us), queued, busy_ns, ..Kept::default() }
    }

    #[test]
    fn a_frame_has_the_ports_that_changed() {
        let mut first = kept(10, &[0, 500, 0], &[0, 5_000, 2_000]);
        let mut second = kept(20, &[0, 500, 64], &[0, 5_000, 7_000]);
        second.totals = BTreeMap::from([(1, [3, 0, 0, 9])]);
        second.pauses = vec![KeptPause {
            port: 2,
            priority: 3,
            since: Time::from_us(12),
            waits_for: None,
            root: Some((RootKind::Congestion, 1)),
        }];
        first.delivered = vec![(4, 100), (5, 200)];
        let new = NewFrames {
            frames: vec![first, second],
            links: vec![1, 1, 2],
            started: vec![json!({"id": 5})],
            ended: vec![(5, Time::from_us(15), 900)],
            forgotten: vec![3],
            shown: BTreeSet::from([5]),
            matrix: vec![(Time::from_us(8), vec![(2, 70)]), (Time::from_us(20), vec![])],
            ..NewFrames::default()
        };
        // Port 1 sends 5 us of 10 us; port 2 stands for two links, which send 2 us and then 5 us of 20 us.
        let expected = json!([
            {"time": 10.0, "ports": [[1, 0.5, 500], [2, 0.1, 0]], "pauses": [], "cycle": [],
             "started": [{"id": 5}], "flows": [[5, 200]], "matrix": [[8.0, [[2, 70]]]]},
            {"time": 20.0, "ports": [[1, 0.0, 500, 3, 0, 0, 9], [2, 0.25, 64]],
             "pauses": [[2, 3, 12.0, -1, "congestion", 1]], "cycle": [],
             "flows": [], "matrix": [[20.0, []]], "ended": [[5, 15.0, 900]], "forgotten": [3]},
        ]);
        assert_eq!(new.to_json(), expected);
    }
}
