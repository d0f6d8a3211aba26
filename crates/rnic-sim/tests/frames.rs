//! Tests of frames, the states of a fabric at successive instants.

use rnic_fabric::{Routes, Topology};
use rnic_scenario::from_str;
use rnic_sim::resolve::resolve;
use rnic_sim::run::run;
use rnic_sim::{Catalogue, Events, FrameListener, FramePlan, Sharing};
use rnic_spec::{Frame, FrameEnd, FramePort, PauseRow, RootKind, RunOutput};
use rnic_transport::Time;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;

/// What a listener was told.
#[derive(Default)]
struct Heard {
    topology: Option<Arc<Topology>>,
    frames: Vec<Frame>,
    pauses: Vec<PauseRow>,
}

#[derive(Default)]
struct Listener(Mutex<Heard>, Option<Time>);

impl FrameListener for Listener {
    fn begin(&self, topology: &Arc<Topology>, _routes: &Arc<Routes>) {
        self.0.lock().unwrap().topology = Some(topology.clone());
    }
    fn frame(&self, frame: Frame) {
        self.0.lock().unwrap().frames.push(frame);
    }
    /// After frame 10, frames at shorter intervals until frame 16.
    fn interval_to_next(&self) -> Option<Time> {
        self.1.filter(|_| (11..17).contains(&self.0.lock().unwrap().frames.len()))
    }
    fn pause(&self, pause: PauseRow) {
        self.0.lock().unwrap().pauses.push(pause);
    }
}

/// Four hosts start at the same time to send 1 MB each to a fifth host.
fn incast(keys: &str, plan: FramePlan, threads: usize) -> (RunOutput, RunOutput, Heard) {
    incast_with(keys, plan, threads, Listener::default())
}

fn incast_with(keys: &str, plan: FramePlan, threads: usize, listener: Listener) -> (RunOutput, RunOutput, Heard) {
    let text = format!(
        r#"
fabric = {{ topology = "single-switch", hosts = 5, rate = "40 Gbps", delay = "1 us" }}
traffic = {{ pattern = "incast", senders = 4, total = "4 MB", repeats = 1 }}
[[run]]
name = "it"
{keys}
"#
    );
    let scenario = from_str(&text, "test.toml", Path::new("."), &[], None).unwrap();
    let spec = &scenario.runs[0];
    let catalogue = Catalogue::standard();
    let resolved = resolve(&catalogue, spec).unwrap();
    let mut ignore = |_| std::ops::ControlFlow::Continue(());
    let events = Events::to(&mut ignore).with_frames(plan, &listener);
    let watched = run(&catalogue, spec, &resolved, None, &Sharing::among(threads), &events).output;
    let alone = run(&catalogue, spec, &resolved, None, &Sharing::among(threads), &Events::ignored()).output;
    drop(events);
    (watched, alone, listener.0.into_inner().unwrap())
}

#[test]
fn frames_tell_queues_drops_and_arrivals() {
    let plan = FramePlan { interval: Time::from_us(1), frames: 100 };
    for (keys, threads) in [("transport = 'irn'", 1), ("transport = 'roce'", 2)] {
        let (watched, alone, heard) = incast(keys, plan, threads);
        assert_eq!((&watched.totals, watched.end), (&alone.totals, alone.end), "frames change nothing");
        assert!(watched.flows.iter().eq(alone.flows.iter()), "frames change nothing");
        // The interval doubles after 100 frames, and after each further 50.
        let times: Vec<u64> = heard.frames.iter().map(|frame| frame.time.as_ps() / 1_000_000).collect();
        assert_eq!((times[99], times[100], times[149], times[150]), (99, 101, 199, 203));
        assert_eq!(heard.frames.last().unwrap().time, watched.end);
        // The changes sum up to the counters of the run.
        let topology = heard.topology.unwrap();
        let mut ports = vec![FramePort::default(); topology.ports.len()];
        for frame in &heard.frames {
            frame.ports.iter().for_each(|port| ports[port.port as usize] = *port);
        }
        let sum = |value: fn(&FramePort) -> u64| ports.iter().map(value).sum::<u64>();
        assert_eq!(sum(|port| port.dropped), watched.totals.dropped);
        assert_eq!(sum(|port| port.queued), 0, "all packets have left");
        assert!(heard.frames.iter().all(|frame| frame.delivered.iter().all(|(_, bytes)| *bytes < 1_000_000)));
        let started: Vec<u32> = heard.frames.iter().flat_map(|frame| &frame.started).map(|flow| flow.flow).collect();
        assert_eq!(started, [0, 1, 2, 3]);
        // Each flow ends once, in a frame after its last byte has arrived.
        let ended = heard.frames.iter().flat_map(|frame| frame.ended.iter().map(|end| (frame.time, *end)));
        let mut ended: Vec<(Time, FrameEnd)> = ended.collect();
        ended.sort_by_key(|(_, end)| end.flow);
        let ends: Vec<_> = ended.iter().map(|(_, end)| (end.flow, end.src, end.dst, end.bytes, end.finish)).collect();
        let records: Vec<_> = watched.flows.iter().map(|f| (f.id, f.src, f.dst, f.bytes, f.finish)).collect();
        assert_eq!(ends, records);
        assert!(ended.iter().all(|(time, end)| end.finish.is_some_and(|at| at <= *time)));
    }
}

#[test]
fn a_listener_chooses_intervals() {
    let plan = FramePlan { interval: Time::from_us(1), frames: 100 };
    let shorter = Listener(Mutex::default(), Some(Time::from_ns(400)));
    let (_, _, heard) = incast_with("transport = 'irn'", plan, 1, shorter);
    let times: Vec<u64> = heard.frames.iter().map(|frame| frame.time.as_ps() / 1_000).collect();
    // Regular frames each 1 us, and two more in each interval after frame 10.
    assert_eq!(times[9..18], [9_000, 10_000, 10_400, 10_800, 11_000, 11_400, 11_800, 12_000, 13_000]);
    // The interval doubles after 100 regular frames: 99 us, then 101 us.
    assert!(times.contains(&99_000) && !times.contains(&100_000) && times.contains(&101_000));
}

#[test]
fn frames_tell_pauses_and_their_causes() {
    let plan = FramePlan { interval: Time::from_us(1), frames: 10_000 };
    let (watched, _, heard) = incast("transport = 'roce'\npfc = true", plan, 1);
    assert!(watched.totals.dropped == 0 && !heard.pauses.is_empty());
    // All pauses of the senders, to the picosecond.
    let paused: u64 = heard.pauses.iter().map(|pause| (pause.to.unwrap() - pause.from).as_ps()).sum();
    let counted: u64 = watched.ports.iter().flat_map(|port| &port.priorities).map(|counters| counters.paused_ps).sum();
    assert_eq!(paused, counted);
    // The root cause is the receiver's link.
    let topology = heard.topology.unwrap();
    let receiver = watched.flows.iter().next().unwrap().dst;
    let congested = topology.port_ids().find(|port| topology.peer_node(*port) == receiver).unwrap();
    let seen: Vec<_> = heard.frames.iter().flat_map(|frame| &frame.pauses).collect();
    assert!(seen.iter().any(|pause| pause.root == Some((RootKind::Congestion, congested.0))));
    assert!(seen.iter().all(
        |pause| pause.waits_for.is_none() && topology.is_host(topology.port(rnic_fabric::PortId(pause.port)).node)
    ));
}
