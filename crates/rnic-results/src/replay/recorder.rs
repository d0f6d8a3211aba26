//! The recorder of a run: it receives the frames of the run, and keeps as many frames as fit into the file.

use super::matrix::Matrix;
use super::picture::{INSIDE, Picture};
use super::sampling::{BEFORE, Role, STATES_PER_PAUSE, Sampling, Shows};
use super::under_way::{ShownFlows, UnderWay};
use rnic_fabric::{PortId, Routes, Topology};
use rnic_spec::{Frame, FramePort, PauseRow, RootKind, RunSpec};
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
/// Number of latest frames that have all fine ones among them.
const TAIL: usize = 4 * BEFORE;
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
    pub(super) role: Role,
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
    pub(super) matrix: Matrix,
    under_way: UnderWay,
    /// The flows that a page shows while the run continues.
    pub(super) shown: ShownFlows,
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
    pub(super) max_bytes: u64,
    /// Flows that the user has named.
    pub(super) named: Vec<u32>,
    /// Whether all packets of a flow take the same path, unless routes change.
    pub(super) is_per_flow: bool,
    pub(super) seen: Option<Seen>,
    sampling: Sampling,
}

/// Whether all packets of a flow of this run take the same path, unless routes change.
fn is_per_flow(run: &RunSpec) -> bool {
    let transports = std::iter::once(&run.transport).chain(run.beside.iter().map(|beside| &beside.transport));
    { transports }.all(|transport| {
        let settings = &transport.settings;
        let declares = |name: &str| settings.declared().any(|parameter| parameter.name == name);
        let sender_selects =
            if declares("path_selection") { !settings.is("path_selection", "ecmp") } else { declares("paths") };
        let switches = run.fabric.paths.unwrap_or_else(|| transport.default_paths());
        switches.is_per_flow() && !sender_selects
    })
}

impl Recorder {
    /// A recorder for a run of which the file may use `max_bytes`, and which must include the flows `named`, at most
    /// [`Recorder::MAX_NAMED`] of them.
    pub fn new(run: &RunSpec, max_bytes: u64, named: &[u32]) -> Recorder {
        Recorder::of_paths(is_per_flow(run), max_bytes, named)
    }

    /// A recorder for a run in which all packets of a flow take the same path, if `is_per_flow`.
    fn of_paths(is_per_flow: bool, max_bytes: u64, named: &[u32]) -> Recorder {
        let named: BTreeSet<u32> = named.iter().copied().collect();
        let named = named.into_iter().take(Recorder::MAX_NAMED).collect();
        Recorder { max_bytes, named, is_per_flow, seen: None, sampling: Sampling::new(FRAMES.1 as u32) }
    }

    /// Maximum number of flows that a recording must include.
    pub const MAX_NAMED: usize = 64;

    /// Interval between the first frames of a run.
    pub const INTERVAL: Time = Time::from_us(1);

    /// The number of frames after which the interval between frames should double; see `FramePlan` of `rnic-sim`.
    /// `hosts` is the number of hosts of the fabric.
    pub fn frames_for(max_bytes: u64, hosts: u32) -> u32 {
        let ports = (u64::from(hosts) * PORTS_PER_HOST).min(MAX_PORTS);
        let frames = max_bytes / (ports.max(1) * PORT_BYTES);
        (frames.clamp(FRAMES.0, FRAMES.1) / 2 * 2) as u32
    }

    /// Begins the recording, before the first frame. `frames` is the number of regular frames after which the run
    /// doubles their interval.
    pub fn begin(&mut self, topology: &Arc<Topology>, routes: &Arc<Routes>, frames: u32) {
        self.sampling = Sampling::new(frames);
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
            matrix: Matrix::new(topology.hosts),
            under_way: UnderWay::default(),
            shown: ShownFlows::default(),
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

    /// The interval to the next frame. Between regular frames are others near events, and while these cost little; and
    /// frames are farther apart if the run has done little work since the earlier frames.
    pub fn interval_to_next(&self) -> Option<Time> {
        self.seen.as_ref().map(|_| self.sampling.interval_to_next())
    }

    /// Takes a frame of the run.
    pub fn frame(&mut self, frame: &Frame) {
        let Some(seen) = &mut self.seen else { return };
        let losses = seen.take(frame, &self.named);
        let verdict = self.sampling.take(&Shows {
            time: frame.time,
            states: (seen.ports.len() + frame.delivered.len()) as u64 + frame.pauses.len() as u64 * STATES_PER_PAUSE,
            bytes: seen.bytes,
            paused: !frame.pauses.is_empty(),
            losses,
        });
        seen.frames.push(Kept { role: verdict.role, ..seen.now.clone() });
        if verdict.begins {
            seen.frames.iter_mut().filter(|kept| kept.role == Role::Fine).for_each(|kept| kept.role = Role::Event);
        }
        seen.drop_fine();
        if verdict.thins {
            seen.thin(Role::Regular);
        }
    }

    /// Ends the recording: no further frame follows.
    pub fn end(&mut self) {
        let Some(seen) = &mut self.seen else { return };
        seen.matrix.close(seen.now.time);
        if let Some(last) = seen.frames.last_mut().filter(|last| last.role == Role::Fine) {
            last.role = Role::Regular;
        }
        while seen.drop_oldest_fine() {}
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
        let matrix = &mut self.matrix;
        self.under_way.take(frame, |src, dst, bytes| matrix.add(src, dst, bytes));
        matrix.note(frame.time);
        self.shown.take(frame, &self.under_way, named);
        let (first, rest) = frame.delivered.split_at(frame.delivered.len().min(MAX_FLOWS));
        let rest = rest.iter().filter(|(flow, _)| named.contains(flow) || self.shown.contains(*flow));
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

    /// Drops the oldest fine frame, if there are too many.
    fn drop_fine(&mut self) {
        if self.latest().filter(|kept| kept.role == Role::Fine).count() > BEFORE {
            self.drop_oldest_fine();
        }
    }

    /// The latest frames, among them all fine ones: regular frames are at most as many.
    fn latest(&self) -> impl Iterator<Item = &Kept> {
        self.frames[self.frames.len().saturating_sub(TAIL)..].iter()
    }

    /// Drops the oldest fine frame. Returns whether there was one.
    fn drop_oldest_fine(&mut self) -> bool {
        let from = self.frames.len().saturating_sub(TAIL);
        let Some(at) = self.latest().position(|kept| kept.role == Role::Fine) else { return false };
        let mut dropped = self.frames.remove(from + at);
        if let Some(next) = self.frames.get_mut(from + at) {
            next.follow(&mut dropped.totals);
        }
        true
    }

    /// Drops every second of the frames of a role. What a dropped frame counted counts in the next frame. Returns
    /// whether there was such a frame. The last frame always stays.
    pub(super) fn thin(&mut self, role: Role) -> bool {
        let before = self.frames.len();
        let (mut is_next_kept, mut carried) = (true, BTreeMap::new());
        for (index, mut frame) in std::mem::take(&mut self.frames).into_iter().enumerate() {
            frame.follow(&mut carried);
            let is_fixed = frame.role != role || index + 1 == before;
            if is_fixed || is_next_kept {
                self.frames.push(frame);
            } else {
                carried = frame.totals;
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

    /// Makes the data smaller: drops frames, of both roles in turn so that they remain about as many, and instants of
    /// a large matrix; at last all frames but two, and merges pauses. Returns whether the data have become smaller.
    pub(super) fn shrink(&mut self, end: Time) -> bool {
        let events = self.frames.iter().filter(|kept| kept.role == Role::Event).count();
        let is_event_next = 2 * events > self.frames.len();
        let roles = if is_event_next { [Role::Event, Role::Regular] } else { [Role::Regular, Role::Event] };
        let has_thinned = self.matrix.values() > self.frames.len() * self.totals.len() && self.matrix.thin();
        if roles.into_iter().any(|role| self.thin(role)) || has_thinned || self.matrix.thin() {
            return true;
        }
        self.frames.iter_mut().for_each(|kept| kept.role = Role::Regular);
        if self.thin(Role::Regular) {
            return true;
        }
        let before = self.pauses.len();
        self.merge_pauses(before / 2, end);
        self.pauses.len() < before
    }
}

impl Kept {
    /// Adds the totals of frames before this one, which are dropped.
    pub(super) fn follow(&mut self, totals: &mut BTreeMap<u32, Totals>) {
        totals.append(&mut self.totals);
        std::mem::swap(&mut self.totals, totals);
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
        let mut recorder = Recorder::of_paths(true, 1_000_000, &[]);
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
        // The eighth regular frame doubles the interval, and four more each double it again. All are events.
        assert_eq!(times(&recorder).len(), 25);
        let seen = recorder.seen.as_mut().unwrap();
        seen.frames.iter_mut().for_each(|kept| kept.role = Role::Regular);
        seen.frames.drain(8..);
        seen.frames[4].totals.insert(3, [4, 0, 0, 0]);
        seen.frames[5].totals.insert(3, [5, 0, 0, 0]);
        seen.frames[6].totals.insert(2, [1, 1, 0, 0]);
        assert!(seen.thin(Role::Regular) && !seen.thin(Role::Event));
        // Of the frames 1 to 8, the first, third, ... and the last remain.
        assert_eq!(times(&recorder), [1, 3, 5, 7, 8]);
        let seen = recorder.seen.unwrap();
        let totals: Vec<Vec<(u32, u64)>> = seen
            .frames
            .iter()
            .map(|frame| frame.totals.iter().map(|(port, totals)| (*port, totals[0])).collect())
            .collect();
        assert_eq!(totals, [vec![(3, 1)], vec![], vec![(3, 4)], vec![(2, 1), (3, 5)], vec![]]);
        assert_eq!((&seen.frames[1].queued[..], &seen.frames[1].busy_ns[..]), (&[0, 0, 0, 100][..], &[0, 0, 0, 7][..]));
        assert_eq!(seen.first_drop, Some((Time::from_us(1), 3)));
    }

    /// A recorder that has frames of 1 us, of which every 64th is a regular one.
    fn recorder_of_fine_frames() -> Recorder {
        let mut recorder = recorder(4);
        for us in 0..1_000 {
            recorder.frame(&frame(us));
        }
        recorder
    }

    #[test]
    fn the_time_before_an_event_is_fine() {
        let mut recorder = recorder_of_fine_frames();
        let before = times(&recorder);
        // The latest 24 fine frames are there, among them no older ones.
        let fine = |recorder: &Recorder| {
            let frames = &recorder.seen.as_ref().unwrap().frames;
            frames
                .iter()
                .filter(|kept| kept.role == Role::Fine)
                .map(|kept| kept.time.as_ps() / 1_000_000)
                .collect::<Vec<_>>()
        };
        assert_eq!(fine(&recorder), (976..1_000).collect::<Vec<_>>(), "{before:?}");
        let pause = FramePause { port: 0, priority: 3, since: Time::from_us(1_000), waits_for: None, root: None };
        recorder.frame(&Frame { pauses: vec![pause], ..frame(1_000) });
        assert_eq!(fine(&recorder), [0; 0]);
        assert_eq!(times(&recorder)[before.len() - 24..], (976..=1_000).collect::<Vec<_>>());
        assert_eq!(recorder.seen.as_ref().unwrap().first_pause, Some((Time::from_us(1_000), 0)));
        // Frames of the event stay when the others become fewer.
        for us in 1_001..10_000 {
            recorder.frame(&frame(us));
        }
        recorder.end();
        let after = times(&recorder);
        assert!((976..=1_024).all(|us| after.contains(&us)), "{after:?}");
        assert!(after.len() < 49 + 8 && *after.last().unwrap() == 9_999, "{after:?}");
    }

    #[test]
    fn a_small_file_has_both_events_and_the_rest() {
        let mut recorder = recorder_of_fine_frames();
        let dropped = FramePort { port: 3, dropped: 1, ..FramePort::default() };
        recorder.frame(&Frame { ports: vec![dropped], ..frame(1_000) });
        recorder.end();
        let seen = recorder.seen.as_mut().unwrap();
        let count = |seen: &Seen, role| seen.frames.iter().filter(|kept| kept.role == role).count();
        assert_eq!((count(seen, Role::Regular), count(seen, Role::Event)), (4, 25));
        seen.shrink(Time::MAX);
        seen.shrink(Time::MAX);
        assert_eq!((count(seen, Role::Regular), count(seen, Role::Event)), (4, 7));
        while seen.shrink(Time::MAX) {}
        assert_eq!((seen.frames.len(), seen.frames.last().unwrap().totals[&3][0]), (2, 1));
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
