//! Writes the packets of a trace to a file: tracks when they are first needed, slices and counters. The file has a
//! maximum size.

use super::proto::{
    COUNTER, CounterDescriptor, DebugAnnotation, ProcessDescriptor, SLICE_BEGIN, SLICE_END, ThreadDescriptor, Trace,
    TracePacket, TrackDescriptor, TrackEvent,
};
use prost::Message;
use rnic_transport::Time;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// A slice: an interval of time with a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Slice {
    pub(super) track: u64,
    pub(super) name: String,
    pub(super) category: &'static str,
    pub(super) from: Time,
    pub(super) to: Time,
    pub(super) annotations: Vec<DebugAnnotation>,
    /// Ids of the arrows that begin at the slice, and ids of the arrows that end at it.
    pub(super) arrows: (Vec<u64>, Vec<u64>),
}

/// The file of a trace.
pub(super) struct Packets<W> {
    out: W,
    written: u64,
    /// Maximum size of the file in bytes, now.
    limit: u64,
    error: Option<io::Error>,
    /// Unique ids of the tracks that are in the file.
    tracks: BTreeSet<u64>,
}

impl<W: Write> Packets<W> {
    pub(super) fn new(out: W, limit: u64) -> Packets<W> {
        Packets { out, written: 0, limit, error: None, tracks: BTreeSet::new() }
    }

    /// Sets the maximum size of the file.
    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Number of bytes written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Completes the file. Returns it, or the first error.
    pub(super) fn finish(mut self) -> io::Result<W> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    /// Writes packets together. Returns whether they are in the file: `false` if they do not fit, or if the file cannot
    /// be written.
    fn write(&mut self, packet: Vec<TracePacket>) -> bool {
        let bytes = Trace { packet }.encode_to_vec();
        let written = self.written + bytes.len() as u64;
        if written > self.limit || self.error.is_some() {
            return false;
        }
        self.error = self.out.write_all(&bytes).err();
        self.written = written;
        self.error.is_none()
    }

    /// Whether the track with the unique id `uuid` is in the file.
    pub(super) fn has(&self, uuid: u64) -> bool {
        self.tracks.contains(&uuid)
    }

    fn track(&mut self, track: TrackDescriptor) {
        let uuid = track.uuid;
        if !self.has(uuid) && self.write(vec![TracePacket { track_descriptor: Some(track), ..packet(None) }]) {
            self.tracks.insert(uuid);
        }
    }

    /// Writes the track of a process (a group of tracks) unless it is in the file.
    pub(super) fn process(&mut self, uuid: u64, pid: i32, name: &str) {
        let process = ProcessDescriptor { pid, process_name: name.to_string() };
        self.track(TrackDescriptor { uuid, process: Some(process), ..TrackDescriptor::default() });
    }

    /// Writes the track of a thread of a process unless it is in the file.
    pub(super) fn thread(&mut self, uuid: u64, (pid, tid): (i32, i32), name: &str) {
        let thread = ThreadDescriptor { pid, tid, thread_name: name.to_string() };
        self.track(TrackDescriptor { uuid, thread: Some(thread), ..TrackDescriptor::default() });
    }

    /// Writes a track of slices below another track unless it is in the file.
    pub(super) fn slices(&mut self, uuid: u64, parent: u64, name: &str) {
        let (name, parent_uuid) = (Some(name.to_string()), Some(parent));
        self.track(TrackDescriptor { uuid, name, parent_uuid, ..TrackDescriptor::default() });
    }

    /// Writes a track of a counter below another track unless it is in the file.
    pub(super) fn counters(&mut self, uuid: u64, parent: u64, name: &str, counter: CounterDescriptor) {
        let (name, parent_uuid) = (Some(name.to_string()), Some(parent));
        self.track(TrackDescriptor { uuid, name, parent_uuid, counter: Some(counter), ..TrackDescriptor::default() });
    }

    /// Writes the value of a counter from the time `at` on. Returns whether it is in the file.
    pub(super) fn value(&mut self, track: u64, at: Time, value: i64) -> bool {
        let event = TrackEvent { counter_value: Some(value), ..event(COUNTER, track) };
        self.write(vec![TracePacket { track_event: Some(event), ..packet(Some(at)) }])
    }

    /// Writes a slice. Returns whether it is in the file.
    pub(super) fn slice(&mut self, slice: Slice) -> bool {
        let (flow_ids, terminating_flow_ids) = slice.arrows;
        let begin = TrackEvent {
            debug_annotations: slice.annotations,
            categories: vec![slice.category.to_string()],
            name: Some(slice.name),
            flow_ids,
            terminating_flow_ids,
            ..event(SLICE_BEGIN, slice.track)
        };
        self.write(vec![
            TracePacket { track_event: Some(begin), ..packet(Some(slice.from)) },
            TracePacket { track_event: Some(event(SLICE_END, slice.track)), ..packet(Some(slice.to)) },
        ])
    }
}

/// The time of a packet in nanoseconds, rounded down.
pub(super) fn ns(at: Time) -> u64 {
    at.as_ps() / 1_000
}

fn packet(at: Option<Time>) -> TracePacket {
    TracePacket { timestamp: at.map(ns), trusted_packet_sequence_id: 1, ..TracePacket::default() }
}

fn event(kind: i32, track_uuid: u64) -> TrackEvent {
    TrackEvent { kind, track_uuid, ..TrackEvent::default() }
}
