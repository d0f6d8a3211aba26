//! Whether the agent of a target was up when a probe to it got no response. The silence of an agent that is down says
//! nothing about the network.
//!
//! A controller that has just started does not know which agents are up: those that it restored have not spoken to it
//! yet. So it holds such probes back until the target speaks, or has been silent for too long. The same holds for
//! results of an earlier controller that are read from the disk: there an agent counts as up while its reports came.

use std::collections::VecDeque;

/// Maximum number of probes that are held back. Beyond it the oldest count as results that say nothing.
const MAX_HELD: usize = 100_000;

/// What is known about an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// It has spoken lately.
    Up,
    /// It is silent, or has started anew.
    Down,
    /// It has not spoken to this controller, which has not waited for long enough.
    Unknown,
}

/// A probe without a response whose target may be up or down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Prober and target.
    pub ends: (u32, u32),
    /// The target's incarnation, as the prober knows it; 0 if it is not known.
    pub incarnation: u64,
    /// Number and UDP source port of the path.
    pub path: (u16, u16),
    /// When the controller received the result.
    pub at: u64,
}

/// The probes that are held back, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Waiting(VecDeque<Held>);

impl Waiting {
    /// Holds a probe back. Returns one that has to go.
    pub(crate) fn hold(&mut self, held: Held) -> Option<Held> {
        self.0.push_back(held);
        if self.0.len() > MAX_HELD { self.0.pop_front() } else { None }
    }

    /// Takes the probes about whose targets something is known now.
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

    /// The probes that are held back.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.0.iter()
    }
}

/// When the agents were heard of, as far as results on the disk tell.
pub(crate) struct Heard {
    last: Vec<Option<u64>>,
    /// Time in ms for which an agent that reported counts as up.
    patience: u64,
}

impl Heard {
    /// Nothing was heard of this many hosts.
    pub(crate) fn new(hosts: usize, patience: u64) -> Heard {
        Heard { last: vec![None; hosts], patience }
    }

    /// A report of a host arrived.
    pub(crate) fn note(&mut self, host: u32, at: u64) {
        self.last[host as usize] = Some(at);
    }

    /// What is known at `now` about a target whose silence was reported at `since`.
    pub(crate) fn presence(&self, host: u32, since: u64, now: u64) -> Presence {
        match self.last[host as usize] {
            Some(last) if last.saturating_add(self.patience) >= since => Presence::Up,
            _ if now.saturating_sub(since) > self.patience => Presence::Down,
            _ => Presence::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_show_who_was_up() {
        let mut heard = Heard::new(2, 15);
        heard.note(0, 100);
        assert_eq!(heard.presence(0, 115, 115), Presence::Up);
        assert_eq!([116, 131, 132].map(|now| heard.presence(0, 116, now)), {
            [Presence::Unknown, Presence::Unknown, Presence::Down]
        });
        // It reports again in time: it was up.
        heard.note(0, 120);
        assert_eq!(heard.presence(0, 116, 120), Presence::Up);
        assert_eq!(heard.presence(1, 100, 110), Presence::Unknown);
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
