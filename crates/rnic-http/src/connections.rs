//! The open connections of a server, and which of them makes room for a new one.

use crate::Limits;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::AbortHandle;

/// An open connection.
pub(crate) struct Connection {
    pub(crate) task: AbortHandle,
    /// The client's address.
    pub(crate) host: Option<IpAddr>,
    /// Whether the client has proved that it may use the server.
    pub(crate) is_proved: Arc<AtomicBool>,
}

impl Connection {
    fn is_unproved(&self) -> bool {
        !self.is_proved.load(Ordering::Relaxed)
    }
}

/// The open connections, the oldest first, and some that have ended.
#[derive(Default)]
pub(crate) struct Connections(Vec<Connection>);

impl Connections {
    /// Adds a connection, and closes others that exceed the limits.
    pub(crate) fn add(&mut self, new: Connection, limits: Limits) {
        let (host, is_unproved) = (new.host, new.is_unproved());
        self.0.push(new);
        let crowded =
            |all: &Connections| all.count(|one| one.host == host && one.is_unproved()) > limits.of_host.max(1);
        if self.0.len() <= limits.connections && !(is_unproved && crowded(self)) {
            return;
        }
        self.0.retain(|connection| !connection.task.is_finished());
        if is_unproved && crowded(self) {
            self.close_oldest(|one| one.host == host && one.is_unproved());
        }
        if self.0.len() > limits.connections
            && let Some(new) = self.0.pop()
        {
            // The new connection does not make room for itself.
            match self.busiest(Connection::is_unproved) {
                Some(busiest) => self.close_oldest(|one| one.host == busiest && one.is_unproved()),
                None => {
                    let busiest = self.busiest(|_| true).flatten();
                    self.close_oldest(|one| one.host == busiest);
                }
            }
            self.0.push(new);
        }
    }

    fn count(&self, which: impl Fn(&Connection) -> bool) -> usize {
        self.0.iter().filter(|one| which(one)).count()
    }

    /// The address with the most of these connections; of several such addresses, the first in order.
    fn busiest(&self, which: impl Fn(&Connection) -> bool) -> Option<Option<IpAddr>> {
        let mut counts = BTreeMap::new();
        for one in self.0.iter().filter(|one| which(one)) {
            *counts.entry(one.host).or_insert(0_usize) += 1;
        }
        counts.into_iter().reduce(|most, other| if other.1 > most.1 { other } else { most }).map(|(host, _)| host)
    }

    fn close_oldest(&mut self, which: impl Fn(&Connection) -> bool) {
        if let Some(oldest) = self.0.iter().position(which) {
            self.0.remove(oldest).task.abort();
        }
    }
}
