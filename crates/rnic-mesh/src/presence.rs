//! Whether the agent of a target was up when a probe to it got no response. If the agent was down, the missing response
//! is not a failure of the network.
//!
//! A controller that has just started does not know which of the restored agents are up. So it holds such probes back
//! until it has received a request from the target, or the target's timeout has passed. Results of an earlier
//! controller, which are read from the disk, are treated in the same way: an agent counts as up as long as its reports
//! on the disk continue.

use std::collections::VecDeque;

/// Maximum number of probes that are held back. If there are more, the oldest count as results that do not concern the
/// network.
const MAX_HELD: usize = 100_000;

/// Whether an agent is up, as far as the controller knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Its latest request is recent.
    Up,
    /// Its latest request is too old, or it has restarted.
    Down,
    /// This controller has not received a request from the agent, and the timeout since the start has not passed.
    Unknown,
}

/// A probe without a response whose target may be up or down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Prober and target.
    pub ends: (u32, u32),
    /// The target's incarnation that the prober knew; 0 if it is unknown.
    pub incarnation: u64,
    /// Number and UDP source port of the path.
    pub path: (u16, u16),
    /// Time in ms at which the controller received the result.
    pub at: u64,
}

/// The probes that are held back, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Waiting(VecDeque<Held>);

impl Waiting {
    /// Holds a probe back. If the maximum is exceeded, removes and returns the oldest probe.
    pub(crate) fn hold(&mut self, held: Held) -> Option<Held> {
        self.0.push_back(held);
        if self.0.len() > MAX_HELD { self.0.pop_front() } else { None }
    }

    /// Removes and returns the probes to targets whose presence is known now.
    pub(crate) fn settled(&mut self, presence: impl Fn(&Held) -> Presence) -> Vec<(Held, Presence)> {
        let mut known = Vec::new();
        self.0.retain(|held| match presence(held) {
            Presence::Unknown => true,
            other => {
                known.push((*held, other));
                false
            }
        });
        known
    }

    /// Changes each probe, and removes those for which `change` returns `None`.
    pub(crate) fn renumber(&mut self, change: impl Fn(Held) -> Option<Held>) {
        self.0 = std::mem::take(&mut self.0).into_iter().filter_map(change).collect();
    }

    /// The probes that are held back.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.0.iter()
    }
}

/// The time of each agent's latest report, for results that are read from the disk.
pub(crate) struct ReportTimes {
    latest: Vec<Option<u64>>,
    /// Time in ms after a report for which an agent counts as up.
    timeout: u64,
    /// Time at which the held probes were last settled.
    settled: u64,
}

impl ReportTimes {
    /// Creates the table for this many hosts, without reports.
    pub(crate) fn new(hosts: usize, timeout: u64) -> ReportTimes {
        ReportTimes { latest: vec![None; hosts], timeout, settled: 0 }
    }

    /// Notes that a report of a host arrived. Returns whether the held probes should be settled now; this is the case
    /// once per second.
    pub(crate) fn reported(&mut self, host: u32, at: u64) -> bool {
        self.latest[host as usize] = Some(at);
        let is_due = at >= self.settled + 1_000;
        if is_due {
            self.settled = at;
        }
        is_due
    }

    /// The presence of a target at `now`, for a lost probe that was reported at `since`.
    pub(crate) fn presence(&self, host: u32, since: u64, now: u64) -> Presence {
        match self.latest[host as usize] {
            Some(latest) if latest.saturating_add(self.timeout) >= since => Presence::Up,
            _ if now.saturating_sub(since) > self.timeout => Presence::Down,
            _ => Presence::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_show_who_was_up() {
        let mut reports = ReportTimes::new(2, 15);
        reports.reported(0, 100);
        assert_eq!(reports.presence(0, 115, 115), Presence::Up);
        assert_eq!([116, 131, 132].map(|now| reports.presence(0, 116, now)), {
            [Presence::Unknown, Presence::Unknown, Presence::Down]
        });
        // The host reports again before the timeout, so it was up.
        reports.reported(0, 120);
        assert_eq!(reports.presence(0, 116, 120), Presence::Up);
        assert_eq!(reports.presence(1, 100, 110), Presence::Unknown);
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut waiting = Waiting::default();
        let held = |at| Held { ends: (0, 1), incarnation: 1, path: (0, 0), at };
        let gone: Vec<_> =
            (0..MAX_HELD as u64 + 2).filter_map(|at| waiting.hold(held(at))).map(|held| held.at).collect();
        assert_eq!((gone, waiting.iter().count()), (vec![0, 1], MAX_HELD));
        let known = |held: &Held| if held.at < 5 { Presence::Down } else { Presence::Unknown };
        let settled: Vec<u64> = waiting.settled(known).into_iter().map(|(held, _)| held.at).collect();
        assert_eq!((settled, waiting.iter().count()), (vec![2, 3, 4], MAX_HELD - 3));
    }
}
