//! The instants of the frames of a recording, and which frames stay.
//!
//! Regular frames have an interval that doubles as the run becomes longer. Between them are fine frames, as far as they
//! cost little in comparison with the simulation; the recorder keeps the latest of them. When an event begins, these
//! become frames of the event, and so do those of a burst after it. So the time before an event is as fine as the time
//! after it.

use super::recorder::Recorder;
use rnic_transport::Time;

/// Number of fine frames that are kept before an event.
pub(super) const BEFORE: usize = 24;
/// Number of frames of a burst: frames at short intervals after an event.
const BURST: u32 = 24;
/// The interval of a burst, and of fine frames, is the regular interval divided by this number.
const PARTS: u64 = 16;
/// Largest number of bursts in a run.
const MAX_BURSTS: u32 = 16;
/// Number of regular intervals without losses after which a loss is an event.
const QUIET: u64 = 64;
/// Number of states of ports and flows that a run may take in any case.
const FREE_STATES: u64 = 100_000;
/// Bytes that links must transmit for each further state of a port or flow. At 1,024 hosts their simulation takes about
/// 35 us. A state takes 0.1 us, half of it to deflate it at the end, and more where it is not in the cache.
const BYTES_PER_STATE: u64 = 400_000;
/// Number of states for which a paused port counts: its cause is searched among the queues of a switch, which are long.
pub(super) const STATES_PER_PAUSE: u64 = 4;

/// Why a frame is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Role {
    /// A frame at the regular interval; if these are too many, every second one is dropped.
    #[default]
    Regular,
    /// Near an event.
    Event,
    /// Between two regular frames; the latest [`BEFORE`] are kept, for an event that may begin.
    Fine,
}

impl Role {
    /// Frames of this role may take one of this number of parts of the states that a run may take.
    const fn part(self) -> u64 {
        match self {
            Role::Regular | Role::Fine => 4,
            Role::Event => 2,
        }
    }
}

/// What a frame shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shows {
    pub(super) time: Time,
    /// Number of states of ports and flows that were taken.
    pub(super) states: u64,
    /// Bytes that all links have transmitted since the start of the run.
    pub(super) bytes: u64,
    /// Whether a port is paused.
    pub(super) paused: bool,
    /// Whether packets were dropped, lost or trimmed since the frame before.
    pub(super) losses: bool,
}

/// What becomes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Verdict {
    pub(super) role: Role,
    /// Whether an event begins: the fine frames before become frames of the event.
    pub(super) begins: bool,
    /// Whether every second regular frame must be dropped now.
    pub(super) thins: bool,
}

/// Chooses the instants of the frames of one run.
#[derive(Clone, Debug)]
pub(super) struct Sampling {
    /// Number of regular frames after which every second one is dropped, and the interval doubles.
    most: u32,
    /// Number of regular frames until then.
    left: u32,
    interval: Time,
    /// Instant of the next regular frame.
    due: Time,
    now: Time,
    /// Instant and bytes of the latest regular frame.
    latest: (Time, u64),
    /// Time between the latest two regular frames, and bytes that the links have transmitted in it.
    pace: (Time, u64),
    /// Frames until the end of the burst.
    burst: u32,
    bursts: u32,
    paused_at: Option<Time>,
    lost_at: Option<Time>,
    /// States of all frames so far, by their roles, and of the latest frame.
    states: [u64; 3],
    of_frame: u64,
    bytes: u64,
}

impl Sampling {
    /// The instants of frames of which `most` regular ones may be kept.
    pub(super) fn new(most: u32) -> Sampling {
        Sampling {
            most: most.max(2),
            left: most.max(2),
            interval: Recorder::INTERVAL,
            due: Time::ZERO,
            now: Time::ZERO,
            latest: (Time::ZERO, 0),
            pace: (Time::ZERO, 0),
            burst: 0,
            bursts: 0,
            paused_at: None,
            lost_at: None,
            states: [0; 3],
            of_frame: 0,
            bytes: 0,
        }
    }

    /// Decides on a frame.
    pub(super) fn take(&mut self, shows: &Shows) -> Verdict {
        let Shows { time, states, bytes, .. } = *shows;
        (self.now, self.bytes, self.of_frame) = (time, bytes, states);
        let is_event = self.is_event(shows);
        let is_regular = time >= self.due;
        let thins = is_regular && self.count_regular();
        let begins = is_event && self.burst == 0 && self.bursts < MAX_BURSTS;
        let role = match (begins || self.burst > 0, is_regular) {
            (true, _) => Role::Event,
            (false, true) => Role::Regular,
            (false, false) => Role::Fine,
        };
        self.states[role as usize] += states;
        if begins {
            (self.burst, self.bursts) = (BURST, self.bursts + 1);
        } else {
            self.burst = self.burst.saturating_sub(1);
        }
        Verdict { role, begins, thins }
    }

    /// Counts a regular frame now. Returns whether there are too many.
    fn count_regular(&mut self) -> bool {
        let (before, bytes) = self.latest;
        self.pace = (self.now.saturating_sub(before), self.bytes - bytes);
        self.latest = (self.now, self.bytes);
        self.left -= 1;
        let is_full = self.left == 0;
        if is_full {
            self.left = (self.most / 2).max(1);
            self.interval = self.interval.saturating_add(self.interval);
        }
        self.due = self.now.saturating_add(self.interval);
        is_full
    }

    /// Whether pauses or losses begin: after an interval without pauses, and after a longer time without losses.
    fn is_event(&mut self, shows: &Shows) -> bool {
        let quiet = |at: Option<Time>, intervals: u64| {
            at.is_none_or(|at| at.saturating_add(self.interval * intervals) < shows.time)
        };
        let pauses = shows.paused && quiet(self.paused_at, 1);
        let losses = shows.losses && quiet(self.lost_at, QUIET);
        self.paused_at = if shows.paused { Some(shows.time) } else { self.paused_at };
        self.lost_at = if shows.losses { Some(shows.time) } else { self.lost_at };
        pauses || losses
    }

    /// Number of states by which another frame of a role would exceed those that its role may take; 0 if it would not.
    fn missing(&self, role: Role) -> u64 {
        let allowed = (FREE_STATES + self.bytes / BYTES_PER_STATE) / role.part();
        (self.states[role as usize] + self.of_frame).saturating_sub(allowed)
    }

    /// The time until the next frame should be taken.
    pub(super) fn interval_to_next(&self) -> Time {
        let due = self.due.saturating_sub(self.now);
        if self.burst > 0 && self.missing(Role::Event) == 0 {
            return Time::from_ps((self.interval.as_ps() / PARTS).max(1_000)).min(due);
        }
        let wait = self.wait();
        let fine = Time::from_ps((self.interval.as_ps() / PARTS).max(Recorder::INTERVAL.as_ps()));
        if wait > due {
            wait
        } else if fine < due && self.bursts < MAX_BURSTS && self.missing(Role::Fine) == 0 {
            fine
        } else {
            due
        }
    }

    /// The time in which the links transmit enough for a regular frame, at the pace between the latest two regular
    /// frames; at most eight times as long as between these.
    fn wait(&self) -> Time {
        let bytes = self.missing(Role::Regular).saturating_mul(Role::Regular.part() * BYTES_PER_STATE);
        let (time, more) = self.pace;
        let times = (bytes as f64 / more.max(1) as f64).min(8.0);
        Time::from_ps((time.as_ps() as f64 * times) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(us: u64) -> Shows {
        Shows { time: Time::from_us(us), states: 1, bytes: 0, paused: false, losses: false }
    }

    /// Takes frames at the instants that the sampling asks for, until one is not before `end`; returns their times in
    /// nanoseconds and roles.
    fn follow(sampling: &mut Sampling, end: u64, show: impl Fn(Time) -> Shows) -> Vec<(u64, Role)> {
        let mut frames = Vec::new();
        let mut time = sampling.now;
        while time < Time::from_us(end) {
            let verdict = sampling.take(&show(time));
            frames.push((time.as_ps() / 1_000, verdict.role));
            time = time.saturating_add(sampling.interval_to_next());
        }
        frames
    }

    #[test]
    fn the_interval_doubles_and_fine_frames_are_between() {
        let mut sampling = Sampling::new(4);
        let frames = follow(&mut sampling, 12, |time| Shows { time, ..shows(0) });
        // After frames at 0, 1, 2, 3 us the interval is 2 us, and after two more 4 us. Fine frames are 1 us apart.
        let regular: Vec<u64> = frames.iter().filter(|(_, role)| *role == Role::Regular).map(|(ns, _)| *ns).collect();
        assert_eq!(regular, [0, 1_000, 2_000, 3_000, 5_000, 7_000, 11_000]);
        let fine: Vec<u64> = frames.iter().filter(|(_, role)| *role == Role::Fine).map(|(ns, _)| *ns).collect();
        assert_eq!(fine, [4_000, 6_000, 8_000, 9_000, 10_000]);
    }

    #[test]
    fn pauses_begin_a_burst() {
        let mut sampling = Sampling::new(100);
        let pauses = |time: Time| Shows { time, paused: time >= Time::from_us(2), ..shows(0) };
        let frames = follow(&mut sampling, 5, pauses);
        // From 2 us on a frame each 62.5 ns: the event and 24 more, until 3.5 us.
        assert_eq!((frames.len(), frames[2], frames[3]), (28, (2_000, Role::Event), (2_062, Role::Event)));
        assert_eq!(frames[26..], [(3_500, Role::Event), (4_000, Role::Regular)]);
        assert!(frames[2..27].iter().all(|(_, role)| *role == Role::Event));
    }

    #[test]
    fn losses_are_events_after_a_quiet_time() {
        let mut sampling = Sampling::new(1_000);
        let mut begins = Vec::new();
        for us in 0..300 {
            let losses = [10, 50, 114, 200].contains(&us);
            if sampling.take(&Shows { losses, ..shows(us) }).begins {
                begins.push(us);
            }
        }
        // 50 and 114 are at most 64 us after other losses.
        assert_eq!(begins, [10, 200]);
    }

    #[test]
    fn frames_wait_for_work() {
        let mut sampling = Sampling::new(1_000);
        sampling.states[Role::Regular as usize] = FREE_STATES / 4 - 1;
        sampling.take(&Shows { bytes: 0, ..shows(0) });
        // The next two states need far more bytes than the links have sent in the latest interval.
        sampling.take(&Shows { bytes: 5_000, ..shows(1) });
        assert_eq!(sampling.interval_to_next(), Time::from_us(8));
        // A burst may take other states.
        sampling.take(&Shows { bytes: 10_000, paused: true, ..shows(9) });
        assert_eq!(sampling.interval_to_next(), Time::from_ps(62_500));
    }

    #[test]
    fn fine_frames_cost_a_part() {
        let mut sampling = Sampling::new(4);
        follow(&mut sampling, 30, |time| Shows { time, ..shows(0) });
        assert_eq!(sampling.interval_to_next(), Time::from_us(1));
        sampling.states[Role::Fine as usize] = FREE_STATES / 4;
        assert!(sampling.interval_to_next() > Time::from_us(1), "{}", sampling.interval_to_next());
    }
}
