//! Probes that an agent sends, and its responses to the probes of other agents.

use super::{Agent, Outgoing, ProbeId, Series};
use crate::record::{ProbeRecord, ProbeResult, ns};
use rnic_endpoint::DatagramAddress;
use rnic_probe::message::{Kind, MESSAGE_LEN, Message};
use rnic_probe::prober::ProbeError;
use rnic_probe::responder::Reply;
use rnic_transport::Time;
use std::net::IpAddr;

impl Agent {
    /// The probe to be sent at `now`, if one is due.
    pub fn poll_send(&mut self, now: Time) -> Option<Outgoing> {
        let (allowed, at) = self.allowance;
        let burst = (self.limits.rate / 10.0).max(1.0);
        let allowed = (allowed + now.saturating_sub(at).as_secs() * self.limits.rate).min(burst);
        self.allowance = (allowed, now);
        if self.stopped() {
            return None;
        }
        let list = self.list.as_ref()?;
        let (len, dscp, carrier) = (usize::from(list.size), list.dscp, list.transport);
        while let Some(&(at, session)) = self.due.first().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, session));
            let Some(series) = self.series.get_mut(&session) else { continue };
            series.due = None;
            series.prober.on_time(now);
            let probe = if allowed >= 1.0 {
                series.prober.poll_send(now)
            } else {
                // The probe leaves when the host's rate admits it.
                self.health.throttled += 1;
                None
            };
            let wait = if allowed >= 1.0 { now } else { now + Time::from_us((1e6 / self.limits.rate) as u64 + 1) };
            let next = series.prober.next_time().map(|next| next.max(wait));
            series.due = next;
            self.due.extend(next.map(|next| (next, session)));
            let to = series.target.address;
            self.drain(session, now);
            if let Some(probe) = probe {
                self.allowance.0 -= 1.0;
                let id = ProbeId { session, sequence: probe.sequence };
                return Some(Outgoing { id, to, carrier, path: probe.path, dscp, message: probe.message, len });
            }
        }
        None
    }

    /// The NIC sent a probe at T2 = `at`.
    pub fn sent(&mut self, id: ProbeId, at: Time) {
        if let Some(series) = self.series.get_mut(&id.session) {
            series.prober.sent(id.sequence, at);
        }
    }

    /// Ends a probe that the system cannot send.
    pub fn unsendable(&mut self, id: ProbeId, now: Time) {
        if let Some(series) = self.series.get_mut(&id.session) {
            series.prober.failed(id.sequence, ProbeError::Unreachable);
        }
        self.drain(id.session, now);
    }

    /// A datagram arrived at `arrived` from an IP address and a queue pair number; the agent sees it at `now`. Returns
    /// the response to a probe.
    pub fn received(&mut self, arrived: Time, now: Time, source: (IpAddr, u32), datagram: &[u8]) -> Option<Reply> {
        let message = Message::parse(datagram);
        match message {
            Some(Message { kind: Kind::Response | Kind::Report { .. }, session, .. }) => {
                let own = |series: &&mut Series| {
                    let address = series.target.address;
                    (address.addr.ip().to_canonical(), address.qpn) == (source.0.to_canonical(), source.1)
                };
                let Some(series) = self.series.get_mut(&session).filter(own) else {
                    self.health.unexpected += 1;
                    return None;
                };
                series.prober.received(arrived, now, &datagram[..datagram.len().min(MESSAGE_LEN)]);
                self.drain(session, now);
                None
            }
            _ => self.responder.on_probe(now, source, datagram),
        }
    }

    /// A probe on a reliable connection was posted at `posted`, and acknowledged at `arrived`.
    pub fn acknowledged(&mut self, id: ProbeId, posted: Time, arrived: Time, now: Time) {
        if let Some(series) = self.series.get_mut(&id.session) {
            series.prober.acknowledged(id.sequence, posted, arrived, now);
        }
        self.drain(id.session, now);
    }

    /// The probe with this id, to be sent, if it still waits for its response.
    pub fn waiting(&self, id: ProbeId) -> Option<Outgoing> {
        let (list, series) = (self.list.as_ref()?, self.series.get(&id.session)?);
        let path = series.prober.path_of(id.sequence)?;
        let (kind, session, sequence) = (Kind::Probe, id.session, id.sequence);
        Some(Outgoing {
            id,
            to: series.target.address,
            carrier: list.transport,
            path,
            dscp: list.dscp,
            message: Message { kind, path, session, sequence },
            len: usize::from(list.size),
        })
    }

    /// Handles a datagram that asks for a reliable connection, at `now`. If this host admits the prober, returns the
    /// address for the reply, and the prober.
    pub fn connect(&mut self, now: Time, source: (IpAddr, u32), datagram: &[u8]) -> Option<(Reply, DatagramAddress)> {
        let answer = self.responder.on_connect(now, source, datagram)?;
        Some((answer, self.responder.prober(answer.response.session)?))
    }

    /// The address of a session's target, if a datagram from `source` comes from this target.
    pub fn target(&self, session: u64, source: (IpAddr, u32)) -> Option<DatagramAddress> {
        let address = self.series.get(&session)?.target.address;
        let own = (address.addr.ip().to_canonical(), address.qpn) == (source.0.to_canonical(), source.1);
        own.then_some(address)
    }

    /// Whether the probes of a session use this path.
    pub fn uses(&self, (session, path): (u64, u16)) -> bool {
        self.series.get(&session).is_some_and(|series| series.paths.contains(&path))
    }

    /// Whether the session of a prober is open.
    pub fn serves(&self, session: u64) -> bool {
        self.responder.prober(session).is_some()
    }

    fn drain(&mut self, session: u64, now: Time) {
        if let Some(mut series) = self.series.remove(&session) {
            self.collect(&mut series, now);
            self.series.insert(session, series);
        }
    }

    /// Moves the outcomes of a series into the records.
    pub(super) fn collect(&mut self, series: &mut Series, now: Time) {
        while let Some(outcome) = series.prober.poll_outcome() {
            let result = match outcome.result {
                Ok(times) => ProbeResult::Answered {
                    total_ns: ns(times.total),
                    prober_ns: ns(times.prober),
                    split_ns: times.split.map(|split| (ns(split.responder), ns(split.network))),
                },
                Err(ProbeError::Timeout) => ProbeResult::Timeout,
                Err(ProbeError::Unreachable) => ProbeResult::Unreachable,
                Err(ProbeError::Gone) => ProbeResult::Gone,
            };
            self.health.probes += 1;
            // `at_us` is by the agent's clock until the batch is closed.
            let at_us = ns(now) / 1_000;
            self.records.push_back(ProbeRecord { target: series.number, path: outcome.path, at_us, result });
            if self.records.len() > self.limits.waiting {
                self.records.pop_front();
                self.health.discarded += 1;
            }
        }
    }
}
