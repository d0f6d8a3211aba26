use super::proto::{COUNTER, SLICE_BEGIN, SLICE_END, Trace, TracePacket, TrackEvent};
use super::*;
use crate::fixture;
use prost::Message;
use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
use rnic_spec::{CollectiveRecord, FramePause, PathRecord};
use rnic_transport::{BitRate, Bytes};

/// Two hosts at each of two switches: the ports 0 to 3 belong to the hosts h0 to h3; `left` has the ports 4 (to h0), 5
/// (to h1) and 6 (to `right`), `right` the ports 7 (to h2), 8 (to h3) and 9 (to `left`).
fn dumbbell() -> Arc<Topology> {
    let link = LinkSpec { rate: BitRate::from_gbps(100), delay: Time::from_us(1), loss: 0.0 };
    let shape = TopologySpec::Dumbbell { left: 2, right: 2, bottleneck_rate: None, bottleneck_delay: None };
    let spec = FabricSpec::new(shape, link, SwitchSpec::input_queued(Bytes(240_000)));
    Arc::new(Topology::build(&spec).unwrap())
}

fn pause(port: u32, since: u64, waits_for: Option<u32>) -> FramePause {
    let root = Some((RootKind::Congestion, 8));
    FramePause { port, priority: 3, since: Time::from_us(since), waits_for, root }
}

fn row(port: u32, from: u64, to: Option<u64>) -> PauseRow {
    PauseRow { port, priority: 3, from: Time::from_us(from), to: to.map(Time::from_us), root: None }
}

fn port(port: u32, queued: u64, busy_us: u64) -> FramePort {
    FramePort { port, queued, busy_ps: busy_us * 1_000_000, ..FramePort::default() }
}

/// The packets of a trace of two frames, in which the pause of port 6 causes the pause of port 0.
fn packets(limit: u64) -> (Vec<TracePacket>, Missing) {
    let (scenario, reports) = fixture::two_runs();
    let mut trace = PerfettoTrace::new(Vec::new(), limit);
    trace.begin(&dumbbell());
    let frame = |us, ports, pauses| Frame { time: Time::from_us(us), ports, pauses, ..Frame::default() };
    trace.frame(&frame(10, vec![port(6, 7_000, 5)], vec![pause(0, 9, Some(6)), pause(6, 4, None)]));
    trace.pause(row(0, 9, Some(12)));
    trace.frame(&frame(20, vec![port(6, 9_000, 5)], vec![pause(6, 4, None)]));
    trace.pause(row(5, 21, Some(22)));
    trace.frame(&frame(40, vec![port(6, 0, 10)], Vec::new()));
    trace.pause(row(6, 4, None));
    let mut output = reports[0].output.clone();
    output.collectives = vec![CollectiveRecord {
        traffic: 1,
        group: 0,
        repeat: 2,
        start: Time::from_us(50),
        last_start: Time::from_us(51),
        end: Some(Time::from_us(90)),
        path: PathRecord { excess: Time::from_us(7), ..PathRecord::default() },
    }];
    let (bytes, missing) = trace.finish(&scenario.runs[0], &output).unwrap();
    assert!(bytes.len() as u64 <= limit.max(MIN_SIZE));
    (Trace::decode(bytes.as_slice()).unwrap().packet, missing)
}

fn events(packets: &[TracePacket], kind: i32) -> Vec<(u64, TrackEvent)> {
    let event = |packet: &TracePacket| {
        let event = packet.track_event.clone().filter(|event| event.kind == kind)?;
        Some((packet.timestamp.unwrap(), event))
    };
    packets.iter().filter_map(event).collect()
}

/// The id of the track with this name below the track `parent`, or the process with this name.
fn track(packets: &[TracePacket], parent: Option<u64>, name: &str) -> u64 {
    let mut tracks = packets.iter().filter_map(|packet| packet.track_descriptor.as_ref());
    let found = tracks.find(|track| {
        let process = track.process.as_ref().map(|process| process.process_name.as_str());
        let thread = track.thread.as_ref().map(|thread| thread.thread_name.as_str());
        [process, thread, track.name.as_deref()].contains(&Some(name)) && track.parent_uuid == parent
    });
    found.unwrap_or_else(|| panic!("{name}")).uuid
}

fn annotation(event: &TrackEvent, name: &str) -> String {
    let found = event.debug_annotations.iter().find(|annotation| annotation.name == name);
    let found = found.unwrap_or_else(|| panic!("{name}"));
    found.string_value.clone().or(found.uint_value.map(|value| value.to_string())).unwrap()
}

#[test]
fn queues_and_utilisation_are_counters() {
    let (packets, missing) = packets(MIN_SIZE);
    assert_eq!(missing, Missing::default());
    let port = track(&packets, None, "port 2 to right");
    let values = |name| {
        let track = track(&packets, Some(port), name);
        let of_track = events(&packets, COUNTER).into_iter().filter(move |(_, event)| event.track_uuid == track);
        of_track.map(|(at, event)| (at, event.counter_value.unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(values("queue"), [(0, 0), (10_000, 7_000), (20_000, 9_000), (40_000, 0)]);
    // It sends for 5 of 10 us, then not at all, then for 5 of 20 us; each value is at the beginning of its time.
    assert_eq!(values("utilisation"), [(0, 50), (10_000, 0), (20_000, 25)]);
}

#[test]
fn an_idle_port_has_utilisation_0() {
    let mut trace = PerfettoTrace::new(Vec::new(), MIN_SIZE);
    trace.begin(&dumbbell());
    for (us, ports) in [(10, vec![port(6, 0, 10)]), (20, Vec::new()), (30, Vec::new())] {
        trace.frame(&Frame { time: Time::from_us(us), ports, ..Frame::default() });
    }
    let (scenario, reports) = fixture::two_runs();
    let (bytes, _) = trace.finish(&scenario.runs[0], &reports[0].output).unwrap();
    let packets = Trace::decode(bytes.as_slice()).unwrap().packet;
    let values: Vec<_> =
        events(&packets, COUNTER).into_iter().map(|(at, event)| (at, event.counter_value.unwrap())).collect();
    assert_eq!(values, [(0, 100), (10_000, 0)]);
}

#[test]
fn arrows_lead_from_a_pause_to_the_pause_that_it_causes() {
    let (packets, _) = packets(MIN_SIZE);
    let begins = events(&packets, SLICE_BEGIN);
    let pauses: Vec<_> = begins.iter().filter(|(_, event)| event.categories == ["pause"]).collect();
    let [(at_0, of_0), (at_5, of_5), (at_6, of_6)] = pauses.as_slice() else { panic!("{pauses:?}") };
    assert_eq!((*at_0, *at_5, *at_6), (9_000, 21_000, 4_000));
    assert_eq!((&of_6.flow_ids, &of_6.terminating_flow_ids), (&vec![1], &vec![]));
    assert_eq!((&of_0.flow_ids, &of_0.terminating_flow_ids), (&vec![], &vec![1]));
    assert_eq!(annotation(of_0, "cause"), "the output right:1->h3 is congested");
    assert_eq!(
        (annotation(of_0, "waits_for"), annotation(of_0, "duration_ps")),
        ("left:2->right".into(), "3000000".into())
    );
    assert!(annotation(of_5, "cause").starts_with("unknown: the pause began and ended between two frames"));
    // The last pause lasts until the end of the run, at 600,000,001 ps.
    let ends = events(&packets, SLICE_END);
    let end = ends.iter().find(|(_, event)| event.track_uuid == of_6.track_uuid);
    assert_eq!((end.map(|(at, _)| *at), annotation(of_6, "duration_ps")), (Some(600_000), "596000001".into()));
    let port = track(&packets, None, "port 2 to right");
    assert_eq!(track(&packets, Some(port), "pauses of priority 3"), of_6.track_uuid);
}

#[test]
fn a_pause_that_began_before_its_cause_has_no_arrow() {
    let mut open = OpenPauses::default();
    open.add(&[pause(0, 4, Some(6)), pause(6, 4, None), pause(1, 5, Some(9))]);
    for (port, since) in [(0, 4), (6, 4), (1, 5)] {
        let seen = open.take(port, 3, Time::from_us(since)).unwrap();
        assert_eq!((seen.from, seen.to.len()), (None, 0), "{port}");
    }
    assert_eq!(open.take(0, 3, Time::from_us(4)), None);
}

#[test]
fn flows_and_operations_are_slices() {
    let (packets, _) = packets(MIN_SIZE);
    let host = track(&packets, None, "h0");
    let begins = events(&packets, SLICE_BEGIN);
    let flows: Vec<_> = begins.iter().filter(|(_, event)| event.categories == ["flow"]).collect();
    assert_eq!(flows.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1_000, 100_000, 110_000, 120_000]);
    // The first flow ends at 10 us, the second overlaps it, and the third begins when both have ended.
    let tracks: Vec<_> = flows.iter().map(|(_, event)| event.track_uuid).collect();
    assert!(tracks[0] != tracks[1] && tracks[0] == tracks[2] && tracks[1] == tracks[3] && tracks[4] != tracks[0]);
    assert_eq!(track(&packets, Some(host), "flows"), tracks[0]);
    let (_, third) = flows[2];
    assert_eq!(third.name.as_deref(), Some("flow 2 to h1"));
    let expected = [("traffic", "incast"), ("bytes", "200000"), ("duration_ps", "300000000"), ("timeouts", "2")];
    for (name, value) in expected {
        assert_eq!(annotation(third, name), value);
    }
    let (at, collective) = begins.iter().find(|(_, event)| event.categories == ["collective"]).unwrap();
    assert_eq!((*at, annotation(collective, "path_excess_ps")), (50_000, "7000000".into()));
    assert_eq!(track(&packets, Some(track(&packets, None, "operations")), "incast, group 0"), collective.track_uuid);
}

#[test]
fn every_track_is_declared_before_its_events() {
    let (packets, _) = packets(MIN_SIZE);
    let mut tracks = std::collections::BTreeSet::new();
    for packet in &packets {
        if let Some(track) = &packet.track_descriptor {
            assert!(tracks.insert(track.uuid) && track.parent_uuid.is_none_or(|parent| tracks.contains(&parent)));
        }
        if let Some(event) = &packet.track_event {
            assert!(tracks.contains(&event.track_uuid), "{event:?}");
        }
    }
}

/// Perfetto sorts events by time, and events of the same time by their place in the file. An end closes the latest open
/// slice of its track; a slice that begins within another one would be drawn below it.
#[test]
fn slices_end_before_the_next_one_and_counters_are_in_order() {
    let (packets, _) = packets(MIN_SIZE);
    let event = |packet: &TracePacket| Some((packet.timestamp?, packet.track_event.clone()?));
    let mut events: Vec<(u64, TrackEvent)> = packets.iter().filter_map(event).collect();
    let mut latest = std::collections::BTreeMap::new();
    for (at, event) in events.iter().filter(|(_, event)| event.kind == COUNTER) {
        assert!(latest.insert(event.track_uuid, *at).is_none_or(|before| before <= *at), "{at}: {event:?}");
    }
    events.sort_by_key(|(at, _)| *at);
    let (mut open, mut arrows) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for (at, event) in &events {
        match event.kind {
            SLICE_BEGIN => assert!(open.insert(event.track_uuid), "{at}: {event:?}"),
            SLICE_END => assert!(open.remove(&event.track_uuid), "{at}: {event:?}"),
            _ => assert!(latest.contains_key(&event.track_uuid)),
        }
        event.flow_ids.iter().for_each(|id| assert!(arrows.insert(*id), "{at}: arrow {id} begins twice"));
        event.terminating_flow_ids.iter().for_each(|id| assert!(arrows.remove(id), "{at}: arrow {id} has no begin"));
    }
    assert!(open.is_empty() && arrows.is_empty(), "{open:?} {arrows:?}");
}

#[test]
fn a_full_trace_says_what_is_missing() {
    let (scenario, reports) = fixture::two_runs();
    let mut trace = PerfettoTrace::new(Vec::new(), MIN_SIZE);
    trace.begin(&dumbbell());
    for us in 1..10_000 {
        trace.frame(&Frame { time: Time::from_us(us), ports: vec![port(6, us, us)], ..Frame::default() });
    }
    trace.pause(row(6, 1, Some(2)));
    let mut output = reports[0].output.clone();
    output.flows = (0..10_000).map(|id| fixture::flow(id, 1_000)).collect();
    let (bytes, missing) = trace.finish(&scenario.runs[0], &output).unwrap();
    assert!(bytes.len() as u64 <= MIN_SIZE, "{}", bytes.len());
    let packets = Trace::decode(bytes.as_slice()).unwrap().packet;
    let last = events(&packets, COUNTER).last().unwrap().0;
    assert_eq!(missing.counters_from.unwrap(), Time::from_ns(last) + Time::from_us(1));
    let flows = events(&packets, SLICE_BEGIN).len() as u64;
    assert!(missing.pauses == 1 && flows > 100 && missing.slices == 10_000 - flows, "{missing:?}");
}

/// The bytes of a counter's value, encoded by hand from the field numbers of Perfetto's public files.
#[test]
fn fields_have_the_numbers_of_perfetto() {
    let mut packets = packets::Packets::new(Vec::new(), MIN_SIZE);
    assert!(packets.value(5, Time::from_ns(3), 7));
    let expected = [0x0a, 13, 0x40, 3, 0x50, 1, 0x5a, 7, 0x48, 4, 0x58, 5, 0xf0, 0x01, 7];
    assert_eq!(packets.finish().unwrap(), expected);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (scenario, reports) = fixture::two_runs();
    let mut trace = PerfettoTrace::new(Full, MIN_SIZE);
    trace.begin(&dumbbell());
    let error = trace.finish(&scenario.runs[0], &reports[0].output).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
