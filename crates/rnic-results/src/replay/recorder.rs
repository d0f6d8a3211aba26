//! The recorder of a run: it receives the frames of the run, and keeps as many frames as fit into the file.

use super::picture::{INSIDE, Picture};
use rnic_fabric::{PortId, Routes, Topology};
use rnic_spec::{Frame, FramePort, PauseRow, RootKind};
use rnic_transport::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Smallest and largest number of regular frames that are kept.
const FRAMES: (u64, u64) = (128, 1_000);
/// Bytes of a port in a frame in the file, about.
const PORT_BYTES: u64 = 2;
/// Maximum number of ports per host in usual fabrics. The number of frames depends on it.
const PORTS_PER_HOST: u64 = 6;
/// Ports that are drawn of a large fabric, about.
const MAX_PORTS: u64 = 12_000;
/// Number of frames of a burst: frames at short intervals after an event.
const BURST: u32 = 24;
/// The interval of a burst is the regular interval divided by this number.
const BURST_PARTS: u64 = 16;
/// Largest number of bursts in a run.
const MAX_BURSTS: u32 = 16;
/// Number of states of ports and flows that are recorded in every run, whatever its length: this takes about 0.1 s.
const FREE_STATES: u64 = 100_000;
/// Bytes that links must transmit for each further state of a port or flow: 400 packets, which take ten times as long.
/// Recording a state takes longer than its number of instructions suggests, because the state is not in the cache.
const BYTES_PER_STATE: u64 = 400_000;
/// Number of frames without a drop after which a drop is an event.
const QUIET: u32 = 64;
/// Largest number of pauses that are kept.
const MAX_PAUSES: usize = 50_000;
/// Largest number of pauses with causes that are kept of a frame.
const MAX_CAUSES: usize = 512;
/// Maximum number of active flows whose delivered bytes a frame keeps: the flows that started first.
const MAX_FLOWS: usize = 2_048;
/// Largest number of flows whose hash is kept.
const MAX_HASHES: usize = 1_000_000;

/// Packets of a port since the start of the run: dropped, lost, trimmed, marked.
pub(super) type Totals = [u64; 4];

/// A paused port in a frame, with its cause. Ports are drawn ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeptPause {
    pub(super) port: u32,
    pub(super) priority: u8,
    pub(super) since: Time,
    pub(super) waits_for: Option<u32>,
    pub(super) root: Option<(RootKind, u32)>,
}

/// A frame that is kept, by drawn ports.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub(super) time: Time,
    /// Whether the frame remains when the recorder drops every second frame.
    pub(super) stays: bool,
    /// For each port, the bytes in its queues.
    pub(super) queued: Box<[u32]>,
    /// For each port, the time in nanoseconds for which its links have been sending, summed over its links.
    pub(super) busy_ns: Box<[u64]>,
    /// The ports whose totals differ from the frame before.
    pub(super) totals: BTreeMap<u32, Totals>,
    pub(super) pauses: Vec<KeptPause>,
    pub(super) cycle: Vec<u32>,
    /// Delivered bytes of flows, in order of ids.
    pub(super) delivered: Vec<(u32, u64)>,
}

/// The first instant of a kind of event, with the port of the topology where it occurred.
pub(super) type First = Option<(Time, u32)>;

/// What a recorder knows of a fabric.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) topology: Arc<Topology>,
    pub(super) routes: Arc<Routes>,
    pub(super) picture: Picture,
    /// The latest state of each port of the topology.
    ports: Vec<FramePort>,
    /// Bytes that all links have transmitted so far, about.
    bytes: u64,
    /// The state of each drawn port now.
    now: Kept,
    /// The totals of each drawn port now.
    totals: Vec<Totals>,
    pub(super) frames: Vec<Kept>,
    /// The pauses of drawn ports, as the run reported them: port, priority, start, end.
    pub(super) pauses: Vec<(u32, u8, Time, Option<Time>)>,
    /// Number of pauses that are not in `pauses`.
    pub(super) pauses_left_out: u64,
    /// Hashes of the data packets of flows.
    pub(super) hashes: BTreeMap<u32, u32>,
    pub(super) first_pause: First,
    pub(super) first_cycle: First,
    pub(super) first_drop: First,
    pub(super) first_loss: First,
    pub(super) first_trim: First,
}

/// Records one run.
#[derive(Debug)]
pub struct Recorder {
    max_bytes: u64,
    /// Flows that the user has named.
    pub(super) named: Vec<u32>,
    pub(super) seen: Option<Seen>,
    /// Number of regular frames after which every second one is dropped.
    max_frames: usize,
    burst: u32,
    bursts: u32,
    quiet: u32,
    was_paused: bool,
    /// The latest regular interval.
    interval: Time,
    /// States of ports of all frames so far.
    states: u64,
    /// Least time until the next frame.
    wait: Time,
}

impl Recorder {
    /// A recorder for a run. Its part of the file has at most `max_bytes`, and includes the flows `named`.
    pub fn new(max_bytes: u64, named: &[u32]) -> Recorder {
        let named: BTreeSet<u32> = named.iter().copied().collect();
        Recorder {
            max_bytes,
            named: named.into_iter().collect(),
            seen: None,
            max_frames: FRAMES.1 as usize,
            burst: 0,
            bursts: 0,
            quiet: QUIET,
            was_paused: false,
            interval: Time::ZERO,
            states: 0,
            wait: Time::ZERO,
        }
    }

    /// Interval between the first frames of a run.
    pub const INTERVAL: Time = Time::from_us(1);

    /// The number of frames after which the interval between frames should double; see `FramePlan` of `rnic-sim`.
    /// `hosts` is the number of hosts of the fabric.
    pub fn frames_for(max_bytes: u64, hosts: u32) -> u32 {
        let ports = (u64::from(hosts) * PORTS_PER_HOST).min(MAX_PORTS);
        let frames = max_bytes / (ports.max(1) * PORT_BYTES);
        (frames.clamp(FRAMES.0, FRAMES.1) / 2 * 2) as u32
    }

    /// The bytes that the file may use for this run.
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Begins the recording, before the first frame. `frames` is the number of regular frames after which the run
    /// doubles their interval.
    pub fn begin(&mut self, topology: &Arc<Topology>, routes: &Arc<Routes>, frames: u32) {
        self.max_frames = frames as usize;
        let picture = Picture::of(topology);
        let ports = picture.ports.len();
        let now = Kept { queued: vec![0; ports].into(), busy_ns: vec![0; ports].into(), ..Kept::default() };
        self.seen = Some(Seen {
            topology: topology.clone(),
            routes: routes.clone(),
            picture,
            ports: vec![FramePort::default(); topology.ports.len()],
            bytes: 0,
            now,
            totals: vec![Totals::default(); ports],
            frames: Vec::new(),
            pauses: Vec::new(),
            pauses_left_out: 0,
            hashes: BTreeMap::new(),
            first_pause: None,
            first_cycle: None,
            first_drop: None,
            first_loss: None,
            first_trim: None,
        });
    }

    /// The interval to the next frame if it is not the regular interval: a shorter one after the start of pauses or
    /// drops, a longer one if the run has done little work since the previous frames.
    pub fn interval_to_next(&self) -> Option<Time> {
        if self.wait > self.interval {
            return Some(self.wait);
        }
        (self.burst > 0 && self.interval > Time::ZERO)
            .then(|| Time::from_ps((self.interval.as_ps() / BURST_PARTS).max(1_000)))
    }

    /// Sets the time until the next frame, so that frames cost little in comparison with the simulation.
    fn pace(&mut self, states: u64, bytes: u64, since: Time, more: u64) {
        self.states += states;
        let allowed = FREE_STATES + bytes / BYTES_PER_STATE;
        let missing = (self.states + states).saturating_sub(allowed).saturating_mul(BYTES_PER_STATE);
        // As long as the missing bytes take at the rate of the latest interval, at most eight times this interval.
        let times = (missing as f64 / more.max(1) as f64).min(8.0);
        self.wait = Time::from_ps((since.as_ps() as f64 * times) as u64);
    }

    /// Takes a frame of the run.
    pub fn frame(&mut self, frame: &Frame) {
        let is_burst = self.burst > 0;
        let Some(seen) = &mut self.seen else { return };
        let since = frame.time.saturating_sub(seen.now.time);
        if !is_burst && since > Time::ZERO && self.wait <= self.interval {
            self.interval = since;
        }
        let bytes = seen.bytes;
        let losses = seen.take(frame, &self.named);
        let (now, more) = (seen.bytes, seen.bytes - bytes);
        let states = (seen.ports.len() + frame.delivered.len()) as u64;
        let begins = (!frame.pauses.is_empty() && !self.was_paused) || (losses && self.quiet >= QUIET);
        self.was_paused = !frame.pauses.is_empty();
        self.quiet = if losses { 0 } else { self.quiet.saturating_add(1) };
        self.burst = self.burst.saturating_sub(1);
        let mut kept = seen.now.clone();
        kept.stays = begins || is_burst;
        seen.frames.push(kept);
        if begins && !is_burst && self.bursts < MAX_BURSTS {
            self.burst = BURST;
            self.bursts += 1;
        }
        let is_full = seen.frames.iter().filter(|kept| !kept.stays).count() >= self.max_frames;
        if is_full {
            seen.thin();
        }
        self.pace(states, now, since, more);
    }

    /// Takes a pause that has ended, or that lasted until the end of the run.
    pub fn pause(&mut self, pause: PauseRow) {
        let Some(seen) = &mut self.seen else { return };
        let port = seen.drawn(pause.port);
        if seen.first_pause.is_none_or(|(first, _)| pause.from < first) {
            seen.first_pause = Some((pause.from, pause.port));
        }
        if port == INSIDE {
            return;
        }
        if seen.pauses.len() < MAX_PAUSES {
            seen.pauses.push((port, pause.priority, pause.from, pause.to));
        } else {
            seen.pauses_left_out += 1;
        }
    }
}

impl Seen {
    fn drawn(&self, port: u32) -> u32 {
        self.picture.drawn.get(port as usize).copied().unwrap_or(INSIDE)
    }

    /// Updates the current state with a frame. Returns whether packets were dropped, lost or trimmed since the last
    /// frame.
    fn take(&mut self, frame: &Frame, named: &[u32]) -> bool {
        self.now.time = frame.time;
        self.now.totals.clear();
        let mut losses = false;
        for port in &frame.ports {
            losses |= self.take_port(frame.time, port);
        }
        let root = |root: Option<(RootKind, u32)>| root.map(|(kind, port)| (kind, self.drawn(port)));
        let pauses = frame.pauses.iter().map(|pause| KeptPause {
            port: self.drawn(pause.port),
            priority: pause.priority,
            since: pause.since,
            waits_for: pause.waits_for.map(|port| self.drawn(port)).filter(|port| *port != INSIDE),
            root: root(pause.root).filter(|(_, port)| *port != INSIDE),
        });
        self.now.pauses = pauses.filter(|pause| pause.port != INSIDE).take(MAX_CAUSES).collect();
        if let Some(first) = frame.pauses.iter().min_by_key(|pause| (pause.since, pause.port)) {
            let is_earlier = self.first_pause.is_none_or(|(time, _)| first.since < time);
            self.first_pause = if is_earlier { Some((first.since, first.port)) } else { self.first_pause };
        }
        let cycle = frame.cycle.iter().map(|port| self.drawn(*port)).filter(|port| *port != INSIDE);
        self.now.cycle = cycle.take(MAX_CAUSES).collect();
        self.first_cycle = self.first_cycle.or(frame.cycle.first().map(|port| (frame.time, *port)));
        for flow in frame.started.iter().take(MAX_HASHES.saturating_sub(self.hashes.len())) {
            self.hashes.insert(flow.flow, flow.data_hash);
        }
        let first = &frame.delivered[..frame.delivered.len().min(MAX_FLOWS)];
        let rest = frame.delivered[first.len()..].iter().filter(|(flow, _)| named.contains(flow));
        self.now.delivered = first.iter().chain(rest).copied().collect();
        losses
    }

    fn take_port(&mut self, time: Time, port: &FramePort) -> bool {
        let Some(before) = self.ports.get_mut(port.port as usize) else { return false };
        let before = std::mem::replace(before, *port);
        let rate = self.topology.port(PortId(port.port)).link.rate.as_bps();
        self.bytes += port.busy_ps.saturating_sub(before.busy_ps) / 1_000 * (rate / 1_000_000) / 8_000;
        for (first, is_more) in [
            (&mut self.first_drop, port.dropped > before.dropped),
            (&mut self.first_loss, port.lost > before.lost),
            (&mut self.first_trim, port.trimmed > before.trimmed),
        ] {
            if is_more && first.is_none() {
                *first = Some((time, port.port));
            }
        }
        let drawn = self.drawn(port.port);
        if drawn != INSIDE {
            let at = drawn as usize;
            let queued = (u64::from(self.now.queued[at]) + port.queued).saturating_sub(before.queued);
            self.now.queued[at] = u32::try_from(queued).unwrap_or(u32::MAX);
            self.now.busy_ns[at] += (port.busy_ps / 1_000).saturating_sub(before.busy_ps / 1_000);
            let [old, new] = [&before, port].map(|port| [port.dropped, port.lost, port.trimmed, port.marked]);
            if old != new {
                let totals = &mut self.totals[at];
                (0..4).for_each(|i| totals[i] += new[i].saturating_sub(old[i]));
                self.now.totals.insert(drawn, *totals);
            }
        }
        [port.dropped > before.dropped, port.lost > before.lost, port.trimmed > before.trimmed].contains(&true)
    }

    /// Removes every second of the frames that may be removed; the last frame always stays. The counts of a removed
    /// frame are added to the next frame. Returns whether any frame was removed.
    pub(super) fn thin(&mut self) -> bool {
        let before = self.frames.len();
        let (mut is_next_kept, mut carried) = (true, BTreeMap::new());
        for (index, mut frame) in std::mem::take(&mut self.frames).into_iter().enumerate() {
            let mut totals = std::mem::take(&mut carried);
            totals.append(&mut frame.totals);
            let is_fixed = frame.stays || index + 1 == before;
            if is_fixed || is_next_kept {
                self.frames.push(Kept { totals, ..frame });
            } else {
                carried = totals;
            }
            is_next_kept = if is_fixed { is_next_kept } else { !is_next_kept };
        }
        self.frames.len() < before
    }

    /// Sorts the pauses by their starts. If the number of pauses exceeds `most`, merges pauses of a port that are
    /// separated by a short time, and increases this time until at most `most` pauses are left.
    pub(super) fn merge_pauses(&mut self, most: usize, end: Time) {
        let mut gap = Time::from_us(1);
        while self.pauses.len() > most && gap < end {
            self.pauses.sort_by_key(|(port, priority, from, _)| (*port, *priority, *from));
            self.pauses.dedup_by(|next, kept| {
                let until = kept.3.unwrap_or(Time::MAX);
                let joins = (next.0, next.1) == (kept.0, kept.1) && next.2 <= until.saturating_add(gap);
                if joins {
                    kept.3 = kept.3.zip(next.3).map(|(a, b)| a.max(b));
                }
                joins
            });
            gap = gap.saturating_add(gap);
        }
        self.pauses.sort_by_key(|(port, priority, from, _)| (*from, *port, *priority));
    }

    /// Makes the data smaller: first removes the frames that may be removed, then the other frames, and then merges
    /// pauses. Returns whether the data have become smaller.
    pub(super) fn shrink(&mut self, end: Time) -> bool {
        if self.thin() {
            return true;
        }
        self.frames.iter_mut().for_each(|frame| frame.stays = false);
        if self.thin() {
            return true;
        }
        let before = self.pauses.len();
        self.merge_pauses(before / 2, end);
        self.pauses.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
    use rnic_spec::FramePause;
    use rnic_transport::{BitRate, Bytes};

    /// A recorder of two hosts at a switch: ports 0 and 1 of the hosts, 2 and 3 of the switch.
    fn recorder(frames: u32) -> Recorder {
        let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(1), loss: 0.0 };
        let spec =
            FabricSpec::new(TopologySpec::SingleSwitch { hosts: 2 }, link, SwitchSpec::input_queued(Bytes(240_000)));
        let topology = Arc::new(Topology::build(&spec).unwrap());
        let routes = Arc::new(Routes::new(&topology, 1).unwrap());
        let mut recorder = Recorder::new(1_000_000, &[]);
        recorder.begin(&topology, &routes, frames);
        recorder
    }

    fn frame(us: u64) -> Frame {
        Frame { time: Time::from_us(us), ..Frame::default() }
    }

    fn times(recorder: &Recorder) -> Vec<u64> {
        recorder.seen.as_ref().unwrap().frames.iter().map(|frame| frame.time.as_ps() / 1_000_000).collect()
    }

    #[test]
    fn every_second_frame_is_dropped_with_its_counts_kept() {
        let mut recorder = recorder(8);
        let dropped =
            |us: u64| FramePort { port: 3, dropped: us, queued: 100 * us, busy_ps: 7_000, ..FramePort::default() };
        // Drops in the first frame are an event, so this frame stays in any case, as do those of the burst after it.
        recorder.frame(&Frame { ports: vec![dropped(1)], ..frame(1) });
        for us in 2..=25 {
            recorder.frame(&frame(us));
        }
        assert_eq!(times(&recorder).len(), 25);
        for us in 26..=32 {
            recorder.frame(&Frame { ports: vec![dropped(us)], ..frame(us) });
        }
        assert_eq!(times(&recorder).len(), 32, "seven regular frames");
        recorder.frame(&Frame { ports: vec![dropped(33)], ..frame(33) });
        // Of the eight regular frames 26 to 33, the first, third, ... and the last remain.
        assert_eq!(times(&recorder)[25..], [26, 28, 30, 32, 33]);
        let seen = recorder.seen.unwrap();
        let totals: Vec<Option<u64>> =
            seen.frames.iter().map(|frame| frame.totals.get(&3).map(|totals| totals[0])).collect();
        assert_eq!((totals[0], totals[1]), (Some(1), None));
        assert_eq!(totals[25..], [26, 28, 30, 32, 33].map(Some));
        assert_eq!(seen.frames[26].queued[..], [0, 0, 0, 2800]);
        assert_eq!(seen.frames[26].busy_ns[..], [0, 0, 0, 7]);
        assert_eq!(seen.first_drop, Some((Time::from_us(1), 3)));
    }

    #[test]
    fn a_pause_begins_a_burst() {
        let mut recorder = recorder(100);
        let pause = FramePause { port: 0, priority: 3, since: Time::from_us(2), waits_for: None, root: None };
        recorder.frame(&frame(1));
        assert_eq!(recorder.interval_to_next(), None);
        recorder.frame(&Frame { pauses: vec![pause], ..frame(2) });
        assert_eq!(recorder.interval_to_next(), Some(Time::from_ps(62_500)), "a sixteenth of 1 us");
        for us in 3..3 + u64::from(BURST) {
            recorder.frame(&Frame { pauses: vec![pause], ..frame(us) });
        }
        assert_eq!(recorder.interval_to_next(), None, "the burst is over, and the port has been paused all the time");
        assert_eq!(recorder.seen.unwrap().first_pause, Some((Time::from_us(2), 0)));
    }

    #[test]
    fn frames_wait_for_work() {
        let mut recorder = recorder(1_000);
        // 40 Gbit/s for 1 us are 5,000 bytes.
        let busy = |us: u64| FramePort { port: 0, busy_ps: us * 1_000_000, ..FramePort::default() };
        recorder.frame(&Frame { ports: vec![busy(1)], ..frame(1) });
        assert_eq!((recorder.states, recorder.interval_to_next()), (4, None), "the first states are free");
        recorder.states = FREE_STATES - 4;
        recorder.frame(&Frame { ports: vec![busy(2)], ..frame(2) });
        // The next four states need 1,600,000 bytes, 320 times those of the latest 1 us; but at most 8 times as long.
        assert_eq!(recorder.interval_to_next(), Some(Time::from_us(8)));
        recorder.frame(&Frame { ports: vec![busy(100)], ..frame(100) });
        assert_eq!(recorder.interval, Time::from_us(1), "the regular interval is that before");
    }

    #[test]
    fn pauses_that_are_close_are_merged_if_they_are_too_many() {
        let mut recorder = recorder(100);
        let us = Time::from_us;
        for (port, from, to) in [(1, 50, Some(51)), (0, 10, Some(12)), (0, 13, Some(14)), (0, 20, None)] {
            recorder.pause(PauseRow { port, priority: 0, from: us(from), to: to.map(us), root: None });
        }
        let mut seen = recorder.seen.unwrap();
        seen.merge_pauses(4, us(100));
        assert_eq!(seen.pauses.len(), 4);
        seen.merge_pauses(3, us(100));
        assert_eq!(seen.pauses, [(0, 0, us(10), Some(us(14))), (0, 0, us(20), None), (1, 0, us(50), Some(us(51)))]);
        seen.merge_pauses(1, us(100));
        assert_eq!(seen.pauses, [(0, 0, us(10), None), (1, 0, us(50), Some(us(51)))], "pauses of two ports stay apart");
        assert_eq!(seen.first_pause, Some((us(10), 0)));
    }

    #[test]
    fn the_number_of_frames_follows_the_size() {
        assert_eq!(Recorder::frames_for(20_000_000, 100), 1_000);
        // 6 ports of a host take 2 bytes each.
        assert_eq!(Recorder::frames_for(6_000_000, 1_000), 500);
        assert_eq!(Recorder::frames_for(1_000, 1_000), 128);
        assert_eq!(Recorder::frames_for(1_000, 0), 500);
    }
}
