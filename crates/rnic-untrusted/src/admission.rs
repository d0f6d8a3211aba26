//! Which connections a server keeps.
//!
//! A connection is *unproved* until its peer has shown that it may use the server: by a TLS handshake, or by the first
//! valid message if the server needs no credentials. Unproved connections cost their peer nothing, so a new connection
//! is never refused for their sake: if a limit is reached, the oldest unproved connection of the host with the most
//! unproved connections is evicted. A peer that may use the server proves it within a few round trips, which is long
//! before its connection is the oldest of the busiest host.
//!
//! *Proved* connections stay. If their number is at the limit, a connection of a host that has at least two fewer than
//! the busiest host takes the place of the busiest host's newest connection, so that no host can keep all others out.
//! Otherwise the new connection is refused, with a reason.
//!
//! A host is an IPv4 address or an IPv6 network of 64 bits, because a host can have every address of such a network. A
//! link-local address counts alone, because all hosts of a link share its network.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// Of all hosts together.
    pub of_all: usize,
    /// Of one host.
    pub of_host: usize,
}

/// Why a connection was not admitted among the proved ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The host of the connection has as many connections as a host may have.
    #[error("this host has {0} connections here, and cannot have more; try again when one of them has ended")]
    Host(usize),
    /// All places are taken, by hosts that have no more connections than the host of this connection.
    #[error("{0} connections are open here, and no more are possible; try again later")]
    Full(usize),
    /// The server has evicted the connection in favour of another host.
    #[error("the server needs the place for another host; try again later")]
    Evicted,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Unproved,
    Proved,
    /// The connection was told to end, and its [`Admission`] still exists.
    Evicted,
}

type Evict = Box<dyn FnOnce() + Send>;

struct Entry {
    id: u64,
    host: IpAddr,
    stage: Stage,
    /// Ends the connection.
    evict: Option<Evict>,
}

struct Table {
    /// In the order of admission; a connection moves to the end when it is proved.
    entries: Vec<Entry>,
    next_id: u64,
    unproved: Limit,
    proved: Limit,
}

impl Table {
    fn count(&self, stage: Stage) -> usize {
        self.entries.iter().filter(|entry| entry.stage == stage).count()
    }

    fn of_host(&self, stage: Stage, host: IpAddr) -> usize {
        self.entries.iter().filter(|entry| entry.stage == stage && entry.host == host).count()
    }

    /// The host with the most connections of a stage, and their number. Of several such hosts, the first in the order
    /// of addresses.
    fn busiest(&self, stage: Stage) -> Option<(IpAddr, usize)> {
        let mut counts = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| entry.stage == stage) {
            *counts.entry(entry.host).or_insert(0) += 1;
        }
        counts.into_iter().reduce(|most, other| if other.1 > most.1 { other } else { most })
    }

    fn evict(&mut self, index: usize) -> Option<Evict> {
        let entry = self.entries.get_mut(index)?;
        entry.stage = Stage::Evicted;
        entry.evict.take()
    }
}

/// The connections of a server.
#[derive(Clone)]
pub struct Admissions(Arc<Mutex<Table>>);

impl Admissions {
    /// No connections, with limits for unproved and for proved connections.
    pub fn new(unproved: Limit, proved: Limit) -> Admissions {
        Admissions(Arc::new(Mutex::new(Table { entries: Vec::new(), next_id: 0, unproved, proved })))
    }

    /// Admits a new, unproved connection of the host with this address. `evict` must end the connection soon, so that
    /// its [`Admission`] is dropped; it is called at most once. Returns `None` if as many evicted connections as the
    /// limit of all hosts have not ended yet.
    pub fn admit(&self, address: IpAddr, evict: impl FnOnce() + Send + 'static) -> Option<Admission> {
        let host = host_of(address);
        let mut table = self.lock();
        let Limit { of_all, of_host } = table.unproved;
        let crowded = if table.of_host(Stage::Unproved, host) >= of_host {
            Some(host)
        } else if table.count(Stage::Unproved) >= of_all {
            table.busiest(Stage::Unproved).map(|(host, _)| host)
        } else {
            None
        };
        let mut evicted = None;
        if let Some(crowded) = crowded {
            if table.count(Stage::Evicted) >= of_all {
                return None;
            }
            let is_oldest = |entry: &Entry| entry.stage == Stage::Unproved && entry.host == crowded;
            let oldest = table.entries.iter().position(is_oldest);
            evicted = oldest.and_then(|oldest| table.evict(oldest));
        }
        let id = table.next_id;
        table.next_id += 1;
        table.entries.push(Entry { id, host, stage: Stage::Unproved, evict: Some(Box::new(evict)) });
        drop(table);
        if let Some(evict) = evicted {
            evict();
        }
        Some(Admission { table: self.0.clone(), id })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.0)
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a connection. Dropping it makes room for another connection.
pub struct Admission {
    table: Arc<Mutex<Table>>,
    id: u64,
}

impl Admission {
    /// Moves the connection to the proved ones.
    ///
    /// # Errors
    /// A limit of proved connections is reached, or the connection was evicted. The caller should then close it.
    pub fn prove(&self) -> Result<(), Refusal> {
        let mut table = lock(&self.table);
        let Limit { of_all, of_host } = table.proved;
        let index = table.entries.iter().position(|entry| entry.id == self.id).ok_or(Refusal::Evicted)?;
        match table.entries[index].stage {
            Stage::Evicted => return Err(Refusal::Evicted),
            Stage::Proved => return Ok(()),
            Stage::Unproved => {}
        }
        let host = table.entries[index].host;
        let own = table.of_host(Stage::Proved, host);
        if own >= of_host {
            return Err(Refusal::Host(of_host));
        }
        let mut evicted = None;
        if table.count(Stage::Proved) >= of_all {
            let busiest = table.busiest(Stage::Proved).filter(|(_, count)| *count > own + 1);
            let (crowded, _) = busiest.ok_or(Refusal::Full(of_all))?;
            if table.count(Stage::Evicted) >= of_all {
                return Err(Refusal::Full(of_all));
            }
            let is_newest = |entry: &Entry| entry.stage == Stage::Proved && entry.host == crowded;
            let newest = table.entries.iter().rposition(is_newest);
            evicted = newest.and_then(|newest| table.evict(newest));
        }
        let mut entry = table.entries.remove(index);
        entry.stage = Stage::Proved;
        table.entries.push(entry);
        drop(table);
        if let Some(evict) = evicted {
            evict();
        }
        Ok(())
    }

    /// Replaces the function that ends the connection. It is called immediately if the connection was evicted.
    pub fn on_eviction(&self, evict: impl FnOnce() + Send + 'static) {
        let mut table = lock(&self.table);
        match table.entries.iter_mut().find(|entry| entry.id == self.id) {
            Some(entry) if entry.stage != Stage::Evicted => entry.evict = Some(Box::new(evict)),
            _ => {
                drop(table);
                evict();
            }
        }
    }

    /// Whether the connection was evicted.
    pub fn is_evicted(&self) -> bool {
        lock(&self.table).entries.iter().any(|entry| entry.id == self.id && entry.stage == Stage::Evicted)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        let at = table.entries.iter().position(|entry| entry.id == self.id);
        let removed = at.map(|at| table.entries.remove(at));
        // Dropping the function may close a socket, which needs no lock.
        drop(table);
        drop(removed);
    }
}

/// The host to which an address counts.
fn host_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_unicast_link_local() && !v6.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn admissions(unproved: (usize, usize), proved: (usize, usize)) -> Admissions {
        let limit = |(of_all, of_host)| Limit { of_all, of_host };
        Admissions::new(limit(unproved), limit(proved))
    }

    fn ip(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    fn admit(admissions: &Admissions, host: u8) -> Admission {
        admissions.admit(ip(host), || {}).unwrap()
    }

    #[test]
    fn a_new_host_takes_the_place_of_the_busiest_one() {
        let all = admissions((6, 3), (6, 3));
        let silent: Vec<Admission> = [1, 1, 1, 2, 2, 3].into_iter().map(|host| admit(&all, host)).collect();
        let honest = admit(&all, 4);
        assert!(silent[0].is_evicted() && silent[1..].iter().all(|other| !other.is_evicted()));
        assert_eq!(honest.prove(), Ok(()));
        // A host at its own limit evicts its own oldest connection.
        let more: Vec<Admission> = (0..2).map(|_| admit(&all, 2)).collect();
        assert!(silent[3].is_evicted() && !silent[5].is_evicted() && !honest.is_evicted());
        drop(more);
    }

    /// One host with many addresses opens connections as fast as it can; a peer that proves itself soon gets its place.
    #[test]
    fn floods_do_not_evict_who_has_proved_itself() {
        let all = admissions((64, 8), (64, 8));
        let calls = Arc::new(AtomicUsize::new(0));
        let mut silent = Vec::new();
        let flood = |silent: &mut Vec<Admission>, count: u32| {
            for number in 0..count {
                let calls = calls.clone();
                let evict = move || {
                    calls.fetch_add(1, Ordering::Relaxed);
                };
                silent.extend(all.admit(ip((number % 8) as u8), evict));
                silent.retain(|one| !one.is_evicted());
            }
        };
        flood(&mut silent, 1_000);
        let honest = admit(&all, 99);
        flood(&mut silent, 1_000);
        assert_eq!(honest.prove(), Ok(()), "its host has one connection, and theirs have eight");
        flood(&mut silent, 1_000);
        assert!(!honest.is_evicted());
        assert_eq!(silent.len(), 64);
        assert_eq!(calls.load(Ordering::Relaxed), 3_000 - 64);
    }

    #[test]
    fn proved_connections_are_shared_among_hosts() {
        let all = admissions((64, 64), (8, 6));
        let prove = |host: u8| {
            let admission = admit(&all, host);
            admission.prove().map(|()| admission)
        };
        let first: Vec<Admission> = (0..6).map(|_| prove(1).unwrap()).collect();
        assert_eq!(prove(1).err(), Some(Refusal::Host(6)));
        let second: Vec<Admission> = (0..2).map(|_| prove(2).unwrap()).collect();
        let third: Vec<Admission> = (0..2).map(|_| prove(3).unwrap()).collect();
        let evicted = first.iter().map(Admission::is_evicted).collect::<Vec<_>>();
        assert_eq!(evicted, [false, false, false, false, true, true], "the newest of the busiest host");
        // Four, two and two: the third host would have more than its share with two more.
        let fourth = prove(3).unwrap();
        assert_eq!(prove(3).err(), Some(Refusal::Full(8)));
        assert!(second.iter().chain(&third).chain([&fourth]).all(|one| !one.is_evicted()));
        assert_eq!(first[5].prove(), Err(Refusal::Evicted));
    }

    #[test]
    fn evicted_connections_that_do_not_end_are_bounded() {
        let all = admissions((4, 4), (4, 4));
        let stuck: Vec<Admission> = (0..8).map(|_| admit(&all, 1)).collect();
        assert!(all.admit(ip(2), || {}).is_none());
        drop(stuck);
        assert!(all.admit(ip(2), || {}).is_some());
    }

    #[test]
    fn the_latest_function_ends_the_connection() {
        let all = admissions((1, 1), (1, 1));
        let calls = Arc::new(AtomicUsize::new(0));
        let add = |number| {
            let calls = calls.clone();
            move || {
                calls.fetch_add(number, Ordering::Relaxed);
            }
        };
        let one = all.admit(ip(1), add(1)).unwrap();
        one.on_eviction(add(10));
        let _two = all.admit(ip(2), || {}).unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 10);
        one.on_eviction(add(100));
        assert_eq!(calls.load(Ordering::Relaxed), 110, "it was evicted already");
    }

    #[test]
    fn hosts_are_addresses_or_networks() {
        let host = |text: &str| host_of(text.parse().unwrap()).to_string();
        assert_eq!(host("::ffff:10.0.0.1"), "10.0.0.1");
        assert_eq!(host("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(host("fe80::1"), "fe80::1");
        assert_eq!(host("::1"), "::1");
    }
}
