//! The pauses of a trace: the causes of a pause that frames show before the pause ends, and the arrows between pauses.

use super::packets::ns;
use rnic_spec::{FramePause, RootKind};
use rnic_transport::Time;
use std::collections::BTreeMap;

/// Maximum number of pauses that frames have shown and that have not been reported as ended.
const MAX_OPEN: usize = 1 << 18;

/// What the frames of a run have shown of a pause.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Seen {
    /// The paused port on which the packets of this port waited at the latest frame.
    pub(super) waits_for: Option<u32>,
    /// The root cause at the latest frame.
    pub(super) root: Option<(RootKind, u32)>,
    /// Ids of the arrows to pauses that this pause caused.
    pub(super) to: Vec<u64>,
    /// Id of the arrow from the pause that caused this one.
    pub(super) from: Option<u64>,
}

/// Port, priority and start of a pause.
type Key = (u32, u8, Time);

/// The pauses that frames have shown and that have not been reported as ended.
#[derive(Default)]
pub(super) struct OpenPauses {
    open: BTreeMap<Key, Seen>,
    /// Id of the latest arrow.
    arrows: u64,
}

impl OpenPauses {
    /// Adds the pauses of a frame.
    pub(super) fn add(&mut self, pauses: &[FramePause]) {
        if self.open.len() > MAX_OPEN {
            self.open.clear();
        }
        for pause in pauses {
            let seen = self.open.entry(key(pause)).or_default();
            (seen.waits_for, seen.root) = (pause.waits_for, pause.root.or(seen.root));
        }
        let started: BTreeMap<(u32, u8), Time> =
            pauses.iter().map(|pause| ((pause.port, pause.priority), pause.since)).collect();
        for pause in pauses {
            let cause = pause.waits_for.map(|port| (port, pause.priority));
            let cause = cause.and_then(|(port, priority)| Some((port, priority, *started.get(&(port, priority))?)));
            if let Some(cause) = cause {
                self.connect(cause, key(pause));
            }
        }
    }

    /// Draws an arrow from the pause `cause` to the pause `effect`, unless the effect already has an arrow. A pause
    /// that began before its cause gets no arrow, because arrows point forward in time. This happens if the cause
    /// resumed, and was paused again, during the effect's pause.
    fn connect(&mut self, cause: Key, effect: Key) {
        let has_arrow = self.open.get(&effect).is_none_or(|seen| seen.from.is_some());
        if has_arrow || ns(cause.2) >= ns(effect.2) {
            return;
        }
        self.arrows += 1;
        let id = self.arrows;
        if let Some(seen) = self.open.get_mut(&cause) {
            seen.to.push(id);
        }
        if let Some(seen) = self.open.get_mut(&effect) {
            seen.from = Some(id);
        }
    }

    /// Removes a pause that has ended, and returns its causes from the frames; `None` if no frame has shown the pause.
    pub(super) fn take(&mut self, port: u32, priority: u8, since: Time) -> Option<Seen> {
        self.open.remove(&(port, priority, since))
    }
}

fn key(pause: &FramePause) -> Key {
    (pause.port, pause.priority, pause.since)
}
