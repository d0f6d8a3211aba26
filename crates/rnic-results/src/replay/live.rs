//! The recording of a run that is still being simulated, as JSON for a page that receives it step by step.
//! `rnic-web/components/recording.js` describes the objects: its function `makeRecording` takes the fabric, and
//! `appendFrame` takes a frame.

use super::fabric_json;
use super::recorder::{Kept, KeptPause, Recorder, Seen};
use rnic_spec::RootKind;
use rnic_transport::Time;
use serde_json::{Value, json};

/// How far a reader has read a recording.
#[derive(Clone, Debug, Default)]
pub struct Cursor(Option<Kept>);

/// Frames that a reader has not read yet.
#[derive(Clone, Debug)]
pub struct NewFrames {
    before: Option<Kept>,
    frames: Vec<Kept>,
    /// Number of links of each drawn port.
    links: Vec<u32>,
}

impl Recorder {
    /// The fabric of a run, with the name of the run; `None` before the first frame.
    pub fn fabric(&self, name: &str) -> Option<Value> {
        let mut fabric = fabric_json(&self.seen.as_ref()?.picture);
        fabric["name"] = json!(name);
        Some(fabric)
    }

    /// Returns at most `most` of the kept frames after the position of `cursor`, and advances the cursor. The recorder
    /// removes frames when it has too many, so a late reader gets fewer frames per time.
    pub fn read(&self, cursor: &mut Cursor, most: usize) -> Option<NewFrames> {
        let seen: &Seen = self.seen.as_ref()?;
        let read = cursor.0.as_ref().map(|kept| kept.time);
        let first = seen.frames.partition_point(|frame| read.is_some_and(|read| frame.time <= read));
        let frames: Vec<Kept> = seen.frames[first..].iter().take(most).cloned().collect();
        let before = match frames.last() {
            Some(last) => cursor.0.replace(last.clone()),
            None => return None,
        };
        Some(NewFrames { before, frames, links: seen.picture.ports.iter().map(|port| port.links).collect() })
    }
}

impl NewFrames {
    /// The frames as JSON, in order of time.
    pub fn to_json(&self) -> Value {
        let mut before = self.before.as_ref();
        let frame = |frame| {
            let value = frame_json(before, frame, &self.links);
            before = Some(frame);
            value
        };
        Value::Array(self.frames.iter().map(frame).collect())
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
        let first = kept(10, &[0, 500, 0], &[0, 5_000, 2_000]);
        let mut second = kept(20, &[0, 500, 64], &[0, 5_000, 7_000]);
        second.totals = BTreeMap::from([(1, [3, 0, 0, 9])]);
        second.pauses = vec![KeptPause {
            port: 2,
            priority: 3,
            since: Time::from_us(12),
            waits_for: None,
            root: Some((RootKind::Congestion, 1)),
        }];
        let new = NewFrames { before: None, frames: vec![first, second], links: vec![1, 1, 2] };
        // Port 1 sends 5 us of 10 us; port 2 stands for two links, which send 2 us and then 5 us of 20 us.
        let expected = json!([
            {"time": 10.0, "ports": [[1, 0.5, 500], [2, 0.1, 0]], "pauses": [], "cycle": []},
            {"time": 20.0, "ports": [[1, 0.0, 500, 3, 0, 0, 9], [2, 0.25, 64]],
             "pauses": [[2, 3, 12.0, -1, "congestion", 1]], "cycle": []},
        ]);
        assert_eq!(new.to_json(), expected);
    }
}
