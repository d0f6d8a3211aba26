//! Timers: retransmissions, the end of connections whose peers do not respond, and probes of established connections.

use super::{Event, Manager, Transmit};
use crate::connection::{MAX_UNANSWERED_PROBES, Probe, State};
use crate::message::{About, Message, private};
use rnic_transport::time::Time;

impl Manager {
    /// When [`Manager::on_deadline`] has to be called.
    pub fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(time, _)| *time)
    }

    /// Retransmits messages that have no response yet, or aborts their connections after the last retransmission.
    pub fn on_deadline(&mut self, now: Time) {
        while let Some((time, id)) = self.deadlines.first().copied().filter(|(time, _)| *time <= now) {
            debug_assert!(time <= now);
            self.set_deadline(id, None);
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            if let Some(waiting) = connection.waiting.as_mut().filter(|waiting| waiting.retries > 0) {
                waiting.retries -= 1;
                let (interval, again) = (connection.interval, Transmit { peer: connection.peer, mad: *waiting.mad });
                if self.may_send(now, id) {
                    self.out.push_back(again);
                }
                self.set_deadline(id, Some(now.saturating_add(interval)));
                continue;
            }
            let token = connection.token;
            match connection.state {
                State::TimeWait => {
                    self.raise(id, Event::TimewaitExit { token, connection: id });
                    self.forget(id);
                }
                State::DisconnectSent => self.ended(now, id, true),
                State::ServiceAnswered => self.forget(id),
                State::Established => self.probe(now, id),
                _ => {
                    self.abandon(now, id);
                    self.raise(id, Event::Unreachable { token, connection: id });
                    self.forget(id);
                }
            }
        }
    }

    /// Schedules the first probe of a connection that was just established. This probe is sent soon, to learn whether
    /// the peer responds to probes: only a peer that has responded before, and then stops responding, is considered
    /// dead.
    pub(super) fn begin_probes(&mut self, now: Time, id: u32) {
        let pause = self.entry(id).interval.min(self.limits.probe_interval);
        self.set_deadline(id, Some(now.saturating_add(pause)));
    }

    /// Records that the peer of an established connection exists.
    pub(super) fn alive(&mut self, now: Time, id: u32) {
        self.entry(id).probe = Probe { responds: true, unanswered: 0 };
        self.set_deadline(id, Some(now.saturating_add(self.limits.probe_interval)));
    }

    /// Sends a probe to the peer of an established connection, or ends the connection if the peer did not respond to
    /// the maximum number of probes.
    fn probe(&mut self, now: Time, id: u32) {
        let interval = self.entry(id).interval;
        let connection = self.entry(id);
        let Probe { responds, unanswered } = connection.probe;
        if unanswered == MAX_UNANSWERED_PROBES && responds {
            // The peer may still exist, and only its responses may be lost. So notify the peer by a DREQ.
            let (remote_id, remote_qpn) = (connection.remote_id.unwrap_or(0), connection.remote_qpn);
            let private = [0; private::DISCONNECT];
            self.send(id, Message::Disconnect { local_id: id, remote_id, remote_qpn, private });
            self.ended(now, id, true);
            return;
        }
        connection.probe.unanswered = (unanswered + 1).min(MAX_UNANSWERED_PROBES);
        let (local_id, remote_id) = (id, connection.remote_id.unwrap_or(0));
        let ask = Message::Mra { local_id, remote_id, about: About::Other, service_timeout: Probe::REQUEST };
        self.send(id, ask);
        // Probes continue even if the peer never responds, because the peer's host may still send a REJ: a host whose
        // broker has just changed does not reject probes of unknown connections immediately.
        let pause = if unanswered < MAX_UNANSWERED_PROBES {
            interval.saturating_add(interval)
        } else {
            self.limits.probe_interval
        };
        self.set_deadline(id, Some(now.saturating_add(pause)));
    }
}
