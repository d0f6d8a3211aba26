//! Connections that this end has accepted, and whose peers have not confirmed the acceptance. Only the confirmation
//! proves that the request came from the peer's address: everybody can send a REQ with a forged source address.
//!
//! So the messages that this end sends to such peers without being asked, which are retransmissions of REPs and DREQs
//! and the final REJ, have a limited rate for all peers together, and the number of such connections is limited too. A
//! peer that repeats its REQ always gets the REP again, so a connection is set up also while the rate is exhausted.

use super::{Event, Manager};
use rnic_transport::time::Time;
use std::collections::BTreeMap;

/// Maximum rate of unsolicited messages: a number of messages per second, and the burst that may exceed the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageRate {
    /// Messages per second.
    pub per_second: u32,
    /// Maximum number of messages at once.
    pub burst: u32,
}

/// The half-open connections of a manager.
#[derive(Debug)]
pub(super) struct HalfOpen {
    /// IDs of connections, by the order in which they were accepted.
    ids: BTreeMap<u64, u32>,
    next: u64,
    rate: MessageRate,
    /// Messages that may be sent, in thousandths, at the time `at`.
    millitokens: u64,
    at: Time,
}

impl HalfOpen {
    pub(super) fn new(rate: MessageRate) -> HalfOpen {
        let millitokens = u64::from(rate.burst) * 1_000;
        HalfOpen { ids: BTreeMap::new(), next: 0, rate, millitokens, at: Time::ZERO }
    }

    /// Adds a connection; returns its number, which [`HalfOpen::remove`] takes.
    fn insert(&mut self, id: u32) -> u64 {
        let number = self.next;
        self.next += 1;
        self.ids.insert(number, id);
        number
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.ids.remove(&number);
    }

    /// Whether an unsolicited message may be sent now; counts it if so.
    pub(super) fn may_send(&mut self, now: Time) -> bool {
        let gained = (now.saturating_sub(self.at).as_ps() / 1_000_000_000).saturating_mul(self.rate.per_second.into());
        if gained > 0 {
            self.millitokens = self.millitokens.saturating_add(gained).min(u64::from(self.rate.burst) * 1_000);
            self.at = now;
        }
        let may = self.millitokens >= 1_000;
        self.millitokens -= if may { 1_000 } else { 0 };
        may
    }
}

impl Manager {
    /// Records that the program has accepted the connection `id`. If too many connections are half open, the oldest
    /// one ends.
    pub(super) fn half_opened(&mut self, id: u32) {
        if self.half_open.ids.len() >= self.limits.half_open
            && let Some((_, oldest)) = self.half_open.ids.pop_first()
        {
            let token = self.connections.get(&oldest).map_or(0, |connection| connection.token);
            self.raise(oldest, Event::Unreachable { token, connection: oldest });
            self.forget(oldest);
        }
        let number = self.half_open.insert(id);
        self.entry(id).half_open = Some(number);
    }

    /// Records that the connection `id` is no longer half open.
    pub(super) fn no_longer_half_open(&mut self, id: u32) {
        if let Some(number) = self.connections.get_mut(&id).and_then(|connection| connection.half_open.take()) {
            self.half_open.remove(number);
        }
    }
}
