//! What happens when time has passed: retransmissions, silent peers, and probes of established connections.

use super::{Event, Manager, Transmit};
use crate::connection::{PROBES, Probe, State};
use crate::message::{About, Message, private};
use rnic_transport::time::Time;

impl Manager {
    /// When [`Manager::on_deadline`] has to be called.
    pub fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(time, _)| *time)
    }

    /// Retransmits messages whose response has not come in time, or gives them up.
    pub fn on_deadline(&mut self, now: Time) {
        while let Some((time, id)) = self.deadlines.first().copied().filter(|(time, _)| *time <= now) {
            debug_assert!(time <= now);
            self.set_deadline(id, None);
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            if let Some(waiting) = connection.waiting.as_mut().filter(|waiting| waiting.retries > 0) {
                waiting.retries -= 1;
                let interval = connection.interval;
                self.out.push_back(Transmit { peer: connection.peer, mad: *waiting.mad });
                self.set_deadline(id, Some(now.saturating_add(interval)));
                continue;
            }
            let token = connection.token;
            match connection.state {
                State::TimeWait => {
                    self.raise(id, Event::Rested { token, connection: id });
                    self.forget(id);
                }
                State::DisconnectSent => self.ended(now, id, true),
                State::ServiceAnswered => self.forget(id),
                State::Established => self.probe(now, id),
                _ => {
                    self.abandon(id);
                    self.raise(id, Event::Unreachable { token, connection: id });
                    self.forget(id);
                }
            }
        }
    }

    /// The first probe of a connection, which has just been established. It comes soon, to find out whether the peer
    /// responds to probes: only the silence of one that does means that it is dead.
    pub(super) fn begin_probes(&mut self, now: Time, id: u32) {
        let pause = self.entry(id).interval.min(self.limits.probe_interval);
        self.set_deadline(id, Some(now.saturating_add(pause)));
    }

    /// The peer of an established connection has said that it exists.
    pub(super) fn alive(&mut self, now: Time, id: u32) {
        self.entry(id).probe = Probe { responds: true, unanswered: 0 };
        self.set_deadline(id, Some(now.saturating_add(self.limits.probe_interval)));
    }

    /// Asks the peer of an established connection whether it still exists, or notes that it does not.
    fn probe(&mut self, now: Time, id: u32) {
        let interval = self.entry(id).interval;
        let connection = self.entry(id);
        let Probe { responds, unanswered } = connection.probe;
        if unanswered == PROBES && responds {
            // In case that only its responses are lost.
            let (remote_id, remote_qpn) = (connection.remote_id.unwrap_or(0), connection.remote_qpn);
            let private = [0; private::DISCONNECT];
            self.send(id, Message::Disconnect { local_id: id, remote_id, remote_qpn, private });
            self.ended(now, id, true);
            return;
        }
        connection.probe.unanswered = (unanswered + 1).min(PROBES);
        let (local_id, remote_id) = (id, connection.remote_id.unwrap_or(0));
        let ask = Message::Mra { local_id, remote_id, about: About::Other, service_timeout: Probe::ASK };
        self.send(id, ask);
        // A peer that never responds is asked on, because the REJ of its host may still come: a host that has just got
        // another broker does not yet say that a connection is unknown.
        let pause = if unanswered < PROBES { interval.saturating_add(interval) } else { self.limits.probe_interval };
        self.set_deadline(id, Some(now.saturating_add(pause)));
    }
}
