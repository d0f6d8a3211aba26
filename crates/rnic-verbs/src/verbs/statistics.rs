//! Statistics of single queue pairs.

use crate::device::Device;
use crate::qp::{Engine, Qp};
use crate::types::{QpStatistics, Qpn, VerbsError};

impl Device {
    /// The statistics of a queue pair.
    ///
    /// # Errors
    /// No queue pair has this number.
    pub fn qp_statistics(&self, qpn: Qpn) -> Result<QpStatistics, VerbsError> {
        self.qps.get(qpn).map(statistics).ok_or(VerbsError::Unknown("such queue pair"))
    }

    /// Appends the statistics of the queue pairs in the slots from `first` on to `found`, at most `max` slots, some of
    /// which may be empty. Returns the slot with which the next call continues; `None` after the last queue pair. A
    /// caller that must not lock the device for long asks for a few slots at a time.
    pub fn statistics_from(&self, first: usize, max: usize, found: &mut Vec<QpStatistics>) -> Option<usize> {
        let end = first.saturating_add(max);
        found.extend((first..end.min(self.qps.end())).filter_map(|slot| self.qps.at(slot)).map(statistics));
        (end < self.qps.end()).then_some(end)
    }
}

fn statistics(qp: &Qp) -> QpStatistics {
    let c = &qp.common;
    QpStatistics {
        qpn: c.qpn,
        service: c.init.service,
        state: c.state,
        peer: c.connection.map(|connection| (connection.peer, connection.peer_qpn)),
        counters: c.counters,
        sender: match &qp.engine {
            Engine::Rc(rc) => Some(rc.sender_state()),
            Engine::Irn(irn) => Some(irn.sender_state()),
            Engine::None | Engine::Uc(_) | Engine::Ud(_) | Engine::Offer(_) => None,
        },
        sends: c.sends.len() as u32,
        receives: (c.receives.queue.len() + c.inbox_len()) as u32,
    }
}
