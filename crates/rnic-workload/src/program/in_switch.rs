//! Operations of the switch of a server: sums of the bytes of several ranks, and copies to several ranks.
//!
//! The switch begins to send a sum when it has the first bytes of all members, and copies bytes as they arrive, so a
//! message takes the time of one port, plus the latency of the domain. A port sends one message at a time, and receives
//! one at a time. The switch keeps copies for ports that are busy.

use super::rank::Event;
use super::{Agenda, Message};
use rnic_spec::Server;
use rnic_transport::Time;
use std::cmp::Reverse;

/// A sum of which some members have sent bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    /// Number of these members.
    members: u32,
    /// The latest message, and the time at which it begins to leave.
    latest: (Time, Message),
}

impl Agenda {
    /// The server of a job, and its reaction; `None` if it has no servers.
    fn domain(&self, job: u32) -> Option<(Server, Time)> {
        let deployment = &self.sources[job as usize].deployment;
        deployment.server.map(|server| (server, deployment.reaction))
    }

    /// Sends `bytes` bytes to the switch for the sum that the rank `message.to` receives from `members` ranks.
    pub(super) fn reduce(&mut self, job: u32, now: Time, (bytes, members): (u64, u32), message: Message) {
        let Some((server, reaction)) = self.domain(job) else { return };
        let (own, time) = (message.from as usize, server.rate.time_for(bytes));
        let begin = now.max(self.ports[own][0]);
        self.ports[own][0] = begin.saturating_add(time);
        let known = self.ports[own][0].saturating_add(server.latency).saturating_add(reaction);
        self.events.push(Reverse((known, message.from, Event::Complete(message.operation, message.path))));
        let key = (message.to, message.space, message.tag);
        let sum = self.sums.entry(key).or_insert(Sum { members: 0, latest: (begin, message) });
        sum.members += 1;
        if begin >= sum.latest.0 {
            sum.latest = (begin, message);
        }
        let Sum { members: sent, latest: (begin, message) } = *sum;
        if sent == members {
            self.sums.remove(&key);
            let end = begin.max(self.ports[message.to as usize][1]).saturating_add(time);
            self.ports[message.to as usize][1] = end;
            let arrival = end.saturating_add(server.latency).saturating_add(reaction);
            self.events.push(Reverse((arrival, message.to, Event::Arrive(message.mailbox(), message.path))));
        }
    }

    /// Sends `bytes` bytes to the switch, which copies them to `members` ranks, from `message.to` on, `stride` apart.
    pub(super) fn multicast(
        &mut self, job: u32, now: Time, bytes: u64, message: Message, (stride, members): (u32, u32),
    ) {
        let Some((server, reaction)) = self.domain(job) else { return };
        let (own, time) = (message.from as usize, server.rate.time_for(bytes));
        let begin = now.max(self.ports[own][0]);
        self.ports[own][0] = begin.saturating_add(time);
        let mut latest = begin;
        for member in (0..members).map(|index| message.to + index * stride) {
            let end = begin.max(self.ports[member as usize][1]).saturating_add(time);
            self.ports[member as usize][1] = end;
            let arrival = end.saturating_add(server.latency).saturating_add(reaction);
            self.events.push(Reverse((arrival, member, Event::Arrive(message.mailbox(), message.path))));
            latest = latest.max(arrival);
        }
        self.events.push(Reverse((latest, message.from, Event::Complete(message.operation, message.path))));
    }
}
