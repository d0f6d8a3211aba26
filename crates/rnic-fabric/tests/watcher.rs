//! Tests that watchers observe a run at the right instants, and that they do not change the run.

use crate::common::*;
use rnic_fabric::config::{BufferSpec, FabricSpec, MarkOn, OutputBuffers, OutputSpec, SharedSpec, TopologySpec};
use rnic_fabric::{Fabric, PortId, Watcher};
use rnic_transport::{Bytes, Time};

/// A watcher that records (time, egress queue of `port`, number of packets in flight or queued) at given instants.
struct Look {
    at: Vec<u64>,
    port: PortId,
    seen: Vec<(u64, u64, u64)>,
}

impl Watcher<Script> for Look {
    fn next(&self) -> Time {
        self.at.get(self.seen.len()).map_or(Time::MAX, |at| Time::from_ps(*at))
    }
    fn observe(&mut self, now: Time, fabric: &mut Fabric<u32>, _script: &mut Script) {
        assert_eq!(fabric.now(), now);
        self.seen.push((now.as_ps(), fabric.egress(self.port, 0), fabric.in_flight()));
    }
}

/// Two hosts send 20 frames each to a third host at the same time, while a watcher observes at the instants `at`.
fn collide(spec: &FabricSpec, at: Vec<u64>) -> (Vec<(u64, u64, u64)>, Script) {
    let mut fabric = Fabric::new(spec, 1).unwrap();
    let mut script = Script::new(3);
    script.send_burst(0, 0, 2, 20);
    script.send_burst(1, 0, 2, 20);
    // One late frame follows after a time without events.
    script.send(0, 50 * US, packet(2, FRAME, 99));
    let mut look = Look { at, port: port(fabric.topology(), "s0", "h2"), seen: Vec::new() };
    fabric.run_watched(&mut script, &mut look, Time::MAX);
    (look.seen, script)
}

fn switches() -> [FabricSpec; 4] {
    let single = spec(TopologySpec::SingleSwitch { hosts: 3 });
    let mut counted = single.clone();
    counted.switch.ecn = mark_above(1_000_000, MarkOn::Enqueue);
    let mut shared = single.clone();
    shared.switch.buffer = BufferSpec::Shared(SharedSpec::lossy(Bytes(1_000_000)));
    let mut output = single.clone();
    let buffers = OutputBuffers::Equal(Bytes(240_000));
    output.switch.buffer = BufferSpec::Output(OutputSpec { buffers, trim: None, count_in_service: false });
    [single, counted, shared, output]
}

#[test]
fn queues_are_seen_as_they_are_at_that_instant() {
    let arrives = T + 2 * US;
    for spec in switches() {
        // A pair of frames arrives every T from `arrives` on, and one frame of the first pair passes through. A watcher
        // sees the state before the events of its own instant.
        let at = vec![0, arrives, arrives + 1, arrives + T, arrives + T + 1, arrives + 10 * T + 1, 40 * US, 54 * US];
        let frame = u64::from(FRAME);
        let (seen, _) = collide(&spec, at.clone());
        let queues: Vec<u64> = seen.iter().map(|(_, queue, _)| queue / frame).collect();
        // In each interval two packets arrive and one leaves, so n + 1 packets wait after n intervals.
        assert_eq!(queues, [0, 0, 1, 1, 2, 11, 0, 0]);
        assert!(seen.iter().all(|(_, queue, _)| queue % frame == 0));
        assert_eq!(seen.iter().map(|(at, ..)| *at).collect::<Vec<_>>(), at);
        let moving: Vec<u64> = seen.iter().map(|(.., moving)| *moving).collect();
        // All twenty pairs have arrived at 40 us; the late frame is on its way from 50 us to 54.4 us.
        assert_eq!((moving[0], moving[6], moving[7]), (0, 0, 1));
    }
}

#[test]
fn looking_changes_nothing() {
    for spec in switches() {
        let (_, alone) = collide(&spec, Vec::new());
        for step in [1_000, 77_777, 221_200, 1_000_003] {
            let (seen, watched) = collide(&spec, (0..60 * US / step).map(|i| i * step).collect());
            assert!(seen.len() > 40);
            for host in 0..3 {
                assert_eq!(alone.departures(host), watched.departures(host), "each {step} ps");
                assert_eq!(alone.arrivals(host), watched.arrivals(host), "each {step} ps");
            }
        }
    }
}
