//! The connection list of a process that is killed: its entries, and the DREQs of another process.

use crate::common::{MANAGER_IDS, SERVICE, addresses, managers, reject};
use proptest::prelude::*;
use rnic_cm::connection_list::{Disconnector, ENTRY_LEN, Entry, MAX_CONNECTIONS};
use rnic_cm::message::{About, MadBytes, Reply, Request, private, reason};
use rnic_cm::{Event, Manager, Message, Parsed, ip};
use rnic_transport::Time;
use std::net::IpAddr;

fn request(guid: u64) -> Request {
    crate::common::request(guid, b"")
}

fn reply(guid: u64) -> Reply {
    crate::common::reply(guid, b"")
}

/// Two managers with their connection lists, on a network without loss.
struct Net {
    sides: [Manager; 2],
    lists: [Vec<u8>; 2],
    now: Time,
    guids: [u64; 2],
}

impl Net {
    fn new(guids: [u64; 2]) -> Net {
        let mut sides = managers();
        sides[1].listen(Time::ZERO, SERVICE, 9, 0).unwrap();
        Net { sides, lists: [Vec::new(), Vec::new()], now: Time::ZERO, guids }
    }

    fn write(&mut self) {
        for (side, list) in self.sides.iter_mut().zip(&mut self.lists) {
            while let Some((slot, bytes)) = side.poll_connection_list() {
                let at = slot as usize * ENTRY_LEN;
                list.resize(list.len().max(at + ENTRY_LEN), 0);
                list[at..at + ENTRY_LEN].copy_from_slice(&bytes);
            }
        }
    }

    /// Delivers all messages, and responds to the requests of the managers; returns the connections that have ended.
    fn settle(&mut self) -> Vec<(usize, Event)> {
        let (ips, mut ended) = (addresses(), Vec::new());
        loop {
            self.write();
            let mut moved = false;
            for (at, own) in ips.into_iter().enumerate() {
                while let Some(message) = self.sides[at].poll_transmit() {
                    moved = true;
                    self.sides[1 - at].handle(self.now, own, &message.mad);
                }
                while let Some(event) = self.sides[at].poll_event() {
                    moved = true;
                    match event {
                        Event::Request { connection, .. } => {
                            self.sides[at].accept(self.now, connection, reply(self.guids[1])).unwrap();
                        }
                        Event::Reply { connection, .. } => self.sides[at].establish(self.now, connection).unwrap(),
                        Event::Established { .. } => {}
                        other => ended.push((at, other)),
                    }
                }
            }
            if !moved {
                return ended;
            }
        }
    }

    fn connect(&mut self, count: u64) -> Vec<(usize, Event)> {
        for token in 0..count {
            self.sides[0].connect(self.now, token, addresses()[1], request(self.guids[0])).unwrap();
        }
        self.settle()
    }

    fn entries(&self, at: usize) -> Vec<Entry> {
        let slots = self.lists[at].chunks_exact(ENTRY_LEN);
        slots.filter_map(|slot| Entry::read(slot.first_chunk().unwrap(), addresses()[at], MANAGER_IDS[at])).collect()
    }

    /// Kills one end, and reads its connection list.
    fn killed(&self, at: usize) -> Disconnector {
        Disconnector::new(self.now, addresses()[at], MANAGER_IDS[at], &self.lists[at])
    }
}

/// Two hosts with `count` connections, the first of which is killed. The first DREQ of each connection is lost.
fn after_death(count: u64) -> (Net, Disconnector) {
    let mut net = Net::new([1, 2]);
    net.connect(count);
    let mut disconnector = net.killed(0);
    while disconnector.poll_transmit().is_some() {}
    (net, disconnector)
}

/// An entry exists as long as the peer needs a DREQ: from the peer's first response until the peer knows that the
/// connection has ended.
#[test]
fn the_list_has_the_connections_that_exist() {
    let mut net = Net::new([1, 2]);
    let request = net.sides[0].connect(Time::ZERO, 7, "10.0.0.3".parse().unwrap(), request(1)).unwrap();
    net.sides[0].poll_transmit();
    net.write();
    assert!(net.entries(0).is_empty(), "the peer has not answered");
    net.sides[0].destroy(net.now, request);
    net.sides[0].poll_transmit();
    assert!(net.connect(20).is_empty());
    let [own, other] = [0, 1].map(|at| net.entries(at));
    assert_eq!((own.len(), other.len()), (20, 20));
    for entry in &own {
        assert_eq!((entry.peer, entry.remote_qpn), (addresses()[1], 0x222));
        let pair = |of: &&Entry| (of.local_id, of.remote_id, of.remote_qpn) == (entry.remote_id, entry.local_id, 0x111);
        assert_eq!(other.iter().filter(pair).count(), 1);
    }
    // Ten connections end; later ones take their slots.
    for entry in &own[..10] {
        net.sides[0].disconnect(net.now, entry.local_id).unwrap();
    }
    assert_eq!(net.settle().len(), 20);
    assert_eq!([0, 1].map(|at| net.entries(at).len()), [10; 2]);
    net.connect(10);
    assert_eq!([0, 1].map(|at| net.entries(at).len()), [20; 2]);
    assert_eq!(net.lists[0].len(), 20 * ENTRY_LEN);
    net.sides[0].end_all(net.now);
    net.settle();
    assert_eq!([0, 1].map(|at| net.entries(at).len()), [0; 2]);
}

/// The peers of a killed process get a DREQ for each connection, whichever end requested it; lost DREQs are
/// retransmitted.
#[test]
fn the_peers_of_a_killed_process_are_disconnected() {
    for dead in [0, 1] {
        let mut net = Net::new([1, 2]);
        net.connect(100);
        let mut disconnector = net.killed(dead);
        assert_eq!(disconnector.len(), 100);
        let (ips, peer) = (addresses(), 1 - dead);
        let mut events = Vec::new();
        let mut count = 0;
        while !disconnector.is_done() {
            while let Some(message) = disconnector.poll_transmit() {
                assert_eq!(message.peer, ips[peer]);
                count += 1;
                // Two of three are lost.
                if count % 3 == 0 {
                    net.sides[peer].handle(net.now, ips[dead], &message.mad);
                }
                while let Some(answer) = net.sides[peer].poll_transmit() {
                    disconnector.handle(ips[peer], &answer.mad);
                }
                events.extend(std::iter::from_fn(|| net.sides[peer].poll_event()));
            }
            while let Some(slot) = disconnector.poll_disconnected() {
                net.lists[dead][slot as usize * ENTRY_LEN..][..ENTRY_LEN].fill(0);
            }
            let Some(deadline) = disconnector.deadline() else { break };
            net.now = deadline;
            disconnector.on_deadline(net.now);
        }
        assert!(disconnector.is_empty() && net.entries(dead).is_empty());
        assert_eq!(events.len(), 100);
        assert!(events.iter().all(|event| matches!(event, Event::Disconnected { silent: false, .. })));
        // A process that reads the list again sends no second DREQ.
        assert!(net.killed(dead).is_done());
    }
}

/// A peer that does not respond gets 16 DREQs in about 7 s, and no more.
#[test]
fn silent_peers_get_a_limited_number_of_requests() {
    let mut net = Net::new([1, 2]);
    net.connect(1);
    let mut disconnector = net.killed(0);
    let mut count = 0;
    // A process that sends the first DREQ late does not send fewer.
    let mut now = Time::from_ms(300);
    disconnector.on_deadline(now);
    while !disconnector.is_done() {
        count += std::iter::from_fn(|| disconnector.poll_transmit()).count();
        now = disconnector.deadline().unwrap();
        disconnector.on_deadline(now);
    }
    assert_eq!((count, disconnector.len(), disconnector.poll_transmit()), (16, 1, None));
    assert!(now < Time::from_ms(9_000), "{now}");
}

/// A peer that sends a probe gets the DREQ, and a peer that sends a DREQ gets a DREP.
#[test]
fn probes_get_a_response() {
    let (net, mut disconnector) = after_death(2);
    let entries = net.entries(0);
    let [(a, b), (c, d)] = [0, 1].map(|at| (entries[at].local_id, entries[at].remote_id));
    let peer = addresses()[1];
    let ask = Message::Mra { local_id: b, remote_id: a, about: About::Other, service_timeout: 31 };
    disconnector.handle(peer, &Parsed { transaction: 5, message: ask }.emit());
    let sent = Parsed::parse(&disconnector.poll_transmit().unwrap().mad).unwrap().message;
    assert!(matches!(sent, Message::Disconnect { local_id, remote_id, .. } if (local_id, remote_id) == (a, b)));
    let end = Message::Disconnect { local_id: d, remote_id: c, remote_qpn: 0x111, private: [0; private::DISCONNECT] };
    disconnector.handle(peer, &Parsed { transaction: 5, message: end }.emit());
    let sent = Parsed::parse(&disconnector.poll_transmit().unwrap().mad).unwrap().message;
    assert!(matches!(sent, Message::Disconnected { .. }));
    assert_eq!((disconnector.len(), disconnector.poll_transmit()), (1, None));
}

/// Only the peer of a connection can end it, and a flood of messages causes few responses.
#[test]
fn messages_of_other_hosts_are_ignored() {
    let (net, mut disconnector) = after_death(1);
    let Entry { local_id, remote_id, .. } = net.entries(0)[0];
    let done =
        |from: u32, to: u32| Message::Disconnected { local_id: from, remote_id: to, private: [0; private::READY] };
    let unknown = reject(remote_id ^ 1, local_id, About::Other, reason::INVALID_ID);
    let stranger: IpAddr = "10.0.0.9".parse().unwrap();
    for (from, message) in [
        (stranger, done(remote_id, local_id)),
        (addresses()[1], done(remote_id ^ 1, local_id)),
        (addresses()[1], done(remote_id, local_id ^ 1 << 16)),
        (addresses()[1], unknown),
    ] {
        disconnector.handle(from, &Parsed { transaction: 1, message }.emit());
        assert_eq!((disconnector.len(), disconnector.poll_disconnected()), (1, None));
    }
    let ask = Message::Mra { local_id: 1, remote_id: 2, about: About::Other, service_timeout: 31 };
    (0..10_000).for_each(|_| disconnector.handle(stranger, &Parsed { transaction: 1, message: ask }.emit()));
    assert!(std::iter::from_fn(|| disconnector.poll_transmit()).count() <= 64);
    // The peer's host knows nothing of it.
    let reject = reject(remote_id, local_id, About::Other, reason::INVALID_ID);
    disconnector.handle(addresses()[1], &Parsed { transaction: 1, message: reject }.emit());
    assert!(disconnector.is_done());
}

/// The entries of a forged list are ignored if they name connections of other managers, addresses of another family, or
/// multicast groups, and if they exceed the number of connections that a manager can have.
#[test]
fn forged_entries_are_ignored() {
    let [own, peer] = addresses();
    let right = Entry { local_id: 7 << 16 | 50_000, remote_id: 1, remote_qpn: 2, transaction: 3, peer };
    let read = |entry: Entry| Entry::read(&entry.bytes(), own, MANAGER_IDS[0]);
    assert_eq!(read(right), Some(right));
    for wrong in [
        Entry { local_id: 7 << 16 | 50_001, ..right },
        Entry { remote_qpn: 1, ..right },
        Entry { remote_qpn: 1 << 24, ..right },
        Entry { peer: "fd00::1".parse().unwrap(), ..right },
        Entry { peer: "0.0.0.0".parse().unwrap(), ..right },
        Entry { peer: "239.1.1.1".parse().unwrap(), ..right },
        Entry { peer: "255.255.255.255".parse().unwrap(), ..right },
    ] {
        assert_eq!(read(wrong), None, "{wrong:?}");
    }
    let mut other = right.bytes();
    other[0] = 2;
    assert_eq!(Entry::read(&other, own, MANAGER_IDS[0]), None);
    let many: Vec<u8> =
        (0..2 * MAX_CONNECTIONS as u32).flat_map(|at| Entry { local_id: at << 16 | 50_000, ..right }.bytes()).collect();
    assert_eq!(Disconnector::new(Time::ZERO, own, MANAGER_IDS[0], &many).len(), MAX_CONNECTIONS);
}

/// A peer whose device has rnic's GUID responds to probes, so that its end is detected also if it has never responded.
#[test]
fn the_silence_of_a_new_connection_of_rnic_is_noticed() {
    let ips = addresses();
    for at in [0, 1] {
        // The peer has no GUID of rnic.
        let mut guids = [1, 2];
        guids[1 - at] = ip::guid(ips[1 - at]);
        let mut net = Net::new(guids);
        net.connect(1);
        // Nothing arrives any more.
        for (side, ends) in [(at, true), (1 - at, false)] {
            let mut ended = false;
            for _ in 0..8 {
                let now = net.sides[side].deadline().unwrap();
                net.sides[side].on_deadline(now);
                while net.sides[side].poll_transmit().is_some() {}
                let event = net.sides[side].poll_event();
                ended |= matches!(event, Some(Event::Disconnected { silent: true, .. }));
                assert!(ended || now < Time::from_ms(30_000));
                if ended {
                    assert!(now < Time::from_ms(6_000), "{now}");
                    break;
                }
            }
            assert_eq!(ended, ends);
        }
    }
}

proptest! {
    /// Arbitrary bytes as a connection list, and arbitrary messages, never cause a panic, and cause DREQs only in the
    /// name of this manager.
    #[test]
    fn hostile_bytes_are_survived(
        list in proptest::collection::vec(any::<u8>(), 0..400),
        right in proptest::collection::vec(any::<bool>(), 10),
        mads in proptest::collection::vec((0x10_u8..0x20, any::<[u8; 32]>()), 0..20),
    ) {
        let [own, peer] = addresses();
        let mut list = list;
        // Some slots are right but for one byte.
        for (slot, right) in list.chunks_exact_mut(ENTRY_LEN).zip(right) {
            if right {
                let changed = slot[0];
                let entry = Entry { local_id: 9 << 16 | 50_000, remote_id: 1, remote_qpn: 2, transaction: 3, peer };
                slot.copy_from_slice(&entry.bytes());
                slot[usize::from(changed) % ENTRY_LEN] = changed;
            }
        }
        let mut disconnector = Disconnector::new(Time::ZERO, own, MANAGER_IDS[0], &list);
        for (attribute, bytes) in mads {
            let mut mad: MadBytes = Parsed { transaction: 1, message: Message::Request(request(1)) }.emit();
            mad[17] = attribute;
            mad[24..56].copy_from_slice(&bytes);
            disconnector.handle(peer, &mad);
        }
        let count = disconnector.len();
        prop_assert!(count <= 10);
        let mut sent = 0;
        while let Some(message) = disconnector.poll_transmit() {
            sent += 1;
            if let Some(Parsed { message: Message::Disconnect { local_id, .. }, .. }) = Parsed::parse(&message.mad) {
                prop_assert_eq!(local_id as u16, MANAGER_IDS[0]);
            }
        }
        prop_assert!(sent <= 10 + 64);
    }
}
