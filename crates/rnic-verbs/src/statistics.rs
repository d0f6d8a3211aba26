//! Statistics of single queue pairs, for tools that show what the queue pairs of a device do.

use crate::Device;
use crate::counters::{QpCounters, SenderState};
use crate::qp::{Engine, Qp};
use crate::types::{Qpn, Service, State, VerbsError};
use std::net::SocketAddr;

/// Statistics of a queue pair; see [`Device::qp_statistics`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpStatistics {
    /// Queue pair number.
    pub qpn: Qpn,
    /// Transport service.
    pub service: Service,
    /// State of the queue pair.
    pub state: State,
    /// The peer's address and queue pair number; `None` before the connection, and for UD.
    pub peer: Option<(SocketAddr, Qpn)>,
    /// Counters of packets and bytes.
    pub counters: QpCounters,
    /// The sender of requests; `None` without a reliable connection.
    pub sender: Option<SenderState>,
    /// Number of send requests that are not completed, unsignalled requests included.
    pub sends: u32,
    /// Number of receives that are not completed, as in [`QpInfo`](crate::QpInfo).
    pub receives: u32,
}

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
