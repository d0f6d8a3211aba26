//! Moves packets between a port and the queue pairs of a device.
//!
//! Each round of the driver processes received packets, fires timers and sends packets. The driver locks the device for
//! one batch of packets at a time and never during a system call, so that applications can post and poll in between.

use crate::clock::DeviceClock;
use crate::config::{Acknowledge, Config, Identification, Mode};
use crate::idle::{Idle, Plan};
use crate::port::{Arrival, Batch as Datagrams, Ecn, Interest, Meta, Port, TrafficClass};
use crate::secure::OpenError;
use crate::sessions::Sessions;
use crate::sync::lock;
use rnic_transport::Time;
use rnic_verbs::{Batch, Device, MAX_MTU, NetworkHeader};
use rnic_wire::{ICRC_LEN, IcrcSeed, ProtectedHeader};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

/// Counters of packets that the driver itself drops. The port and the device have their own counters.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DriverCounters {
    /// Number of received packets dropped because their ICRC was wrong.
    pub bad_icrc: u64,
    /// Number of batches dropped because the system refused to send them, or because their queue pair was destroyed.
    /// Loss recovery retransmits their packets.
    pub unsendable: u64,
    /// Number of received packets dropped because they claimed to be protected and were not authentic.
    pub forged: u64,
    /// Number of received packets dropped because a protected packet with their number was received before, or they
    /// were late by more than 16,000 packets. The network can duplicate packets too.
    pub replayed: u64,
}

/// Moves packets between the port and the queue pairs of one device. Only the thread that has locked the driver moves
/// packets.
pub(crate) struct Driver {
    port: Box<dyn Port>,
    clock: DeviceClock,
    batch: Batch,
    /// Number of packets of `batch` that the port has sent. The others wait for room in the port's send buffer.
    taken: usize,
    /// Whether packets of `batch` wait for room in the send buffer.
    waiting: bool,
    /// Whether some packets may stay within the host, so that they need no ICRC.
    within_host: bool,
    idle: Idle,
    /// Whether each round sends before it receives ([`Acknowledge::WithNextPoll`]).
    send_first: bool,
    /// Number of batches that the latest call of [`Driver::send`] has written.
    sent: usize,
    /// Number of batches that could not be sent ([`DriverCounters::unsendable`]).
    unsendable: u64,
    receiver: Receiver,
}

impl Driver {
    /// Maximum arrivals (batches of received packets) that a round processes before it sends. The limit bounds how long
    /// ACKs wait while packets keep arriving.
    const ARRIVALS: usize = 32;
    /// Maximum bytes of received packets that a round processes before it sends. Like `ARRIVALS`, it bounds how long
    /// ACKs wait.
    const ARRIVED_BYTES: usize = 256 << 10;
    /// Maximum batches of packets that a round sends before it receives again.
    const BATCHES: usize = 4;
    /// How long [`Driver::flush`] waits at most for room in the send buffer.
    const ROOM: Time = Time::from_ms(10);
    /// Maximum packets of an arrival (packets that one system call received) that counts as a lone message, for which
    /// the application may be waiting. It is 2 because in a ping-pong a message and an ACK arrive together.
    const LONE: usize = 2;

    pub(crate) fn new(port: Box<dyn Port>, clock: DeviceClock, config: &Config) -> Driver {
        Driver {
            batch: Batch::overtaking(port.limits().segments.min(64)),
            within_host: port.has_path_within_host(),
            port,
            clock,
            taken: 0,
            waiting: false,
            idle: Idle::new(config.idle),
            send_first: config.mode == Mode::Polled && config.acknowledge == Acknowledge::WithNextPoll,
            sent: 0,
            unsendable: 0,
            receiver: Receiver {
                identification: config.identification,
                sessions: Arc::default(),
                plain: Vec::with_capacity(MAX_MTU as usize + 128),
                counters: DriverCounters::default(),
            },
        }
    }

    pub(crate) fn port(&self) -> &dyn Port {
        &*self.port
    }

    /// The keys of the device's protected connections.
    pub(crate) fn sessions(&self) -> Arc<Sessions> {
        self.receiver.sessions.clone()
    }

    pub(crate) fn counters(&self) -> DriverCounters {
        DriverCounters { unsendable: self.unsendable, ..self.receiver.counters }
    }

    /// Does one round: receives packets, fires timers and sends packets. Returns whether it did any work.
    pub(crate) fn progress(&mut self, device: &Mutex<Device>) -> io::Result<bool> {
        let mut worked = self.send_first && self.send(device, Driver::BATCHES);
        worked |= self.receive(device)?;
        worked |= !self.send_first && self.send(device, Driver::BATCHES);
        if worked {
            self.idle.worked(self.clock.now_for(device));
        }
        Ok(worked)
    }

    /// Lets each queue pair that has packets to send send one batch. Callers do so before they destroy a queue pair or
    /// close the device, because the peer may wait for an ACK that is among these packets, and a retransmission would
    /// not be acknowledged any more. If the send buffer is full, the call waits for room for a short time.
    pub(crate) fn flush(&mut self, device: &Mutex<Device>) {
        // A packet that the last batch holds back takes a turn too.
        let turns = lock(device).ready() + 1;
        let end = self.clock.now_for(device).saturating_add(Driver::ROOM);
        loop {
            self.send(device, turns);
            let left = end.saturating_sub(self.clock.now_for(device));
            // An error of the port is found by the next round.
            if !self.waiting || left == Time::ZERO || self.port.wait(Interest::ArrivalOrRoom, Some(left)).is_err() {
                return;
            }
        }
    }

    /// Spins once, or sleeps until a packet arrives, a timer is due, work is posted, or `left` has passed. Called after
    /// a [`Driver::progress`] that found no work.
    pub(crate) fn rest(&mut self, device: &Mutex<Device>, left: Option<Time>) -> io::Result<()> {
        let now = self.clock.now_for(device);
        let next = if self.waiting { None } else { lock(device).next_time(&self.batch) };
        let interest = if self.waiting { Interest::ArrivalOrRoom } else { Interest::Arrival };
        match self.idle.plan(now, next) {
            Plan::Spin => std::hint::spin_loop(),
            Plan::Block(timeout) => {
                self.port.wait(interest, [timeout, left].into_iter().flatten().min())?;
            }
        }
        Ok(())
    }

    /// Lets the port handle the messages of its other sockets now. A port that several processes share does so only
    /// from time to time.
    pub(crate) fn tend(&mut self) {
        // A member of a shared address may have sent a message before it closed its socket.
        for _ in 0..2 {
            // An error of the port is found by the next round.
            let _ = self.port.wait(Interest::Arrival, Some(Time::ZERO));
        }
    }

    /// Receives packets. Returns whether any arrived.
    fn receive(&mut self, device: &Mutex<Device>) -> io::Result<bool> {
        let local_port = self.port.local_addr().port();
        let mut worked = false;
        let mut bytes = 0;
        for arrivals in 1..=Driver::ARRIVALS {
            if bytes >= Driver::ARRIVED_BYTES {
                break;
            }
            let Some(arrival) = self.port.receive()? else { break };
            worked = true;
            bytes += arrival.data.len();
            let is_lone = arrival.data.len() <= arrival.segment * Driver::LONE;
            let destination = SocketAddr::new(arrival.meta.destination, local_port);
            let Some(seed) = seed(arrival.meta.source, destination) else { continue };
            let now = self.clock.now_for(device);
            let arrived = arrival.meta.arrived_ns.map(|ns| self.clock.reading_at(ns).min(now));
            let only_acks = {
                let mut device = lock(device);
                device.set_arrival(arrived);
                self.receiver.handle(now, &mut device, &seed, &arrival)
            };
            // With `send_first` the round ends after a lone message, so that the application, which may wait for this
            // message, sees it soon. After an arrival that holds only ACKs the round continues: several ACKs together
            // allow more packets in one batch. It also continues until it has received as much as it has sent: while
            // many queue pairs have something to send, arrivals would otherwise wait longer and longer, until their
            // senders retransmit, which are more arrivals.
            if self.send_first && is_lone && !only_acks && arrivals >= self.sent {
                break;
            }
        }
        Ok(worked)
    }

    /// Fires timers, and sends at most `turns` batches of packets. Returns whether it did any work.
    fn send(&mut self, device: &Mutex<Device>, turns: usize) -> bool {
        let mut worked = false;
        self.waiting = false;
        self.sent = 0;
        if self.taken < self.batch.count() {
            // The rest of the last batch is sent before the device writes a new batch, but the device's timers must
            // fire now.
            let now = self.clock.now_for(device);
            let mut device = lock(device);
            device.on_time(now);
            worked = device.take_news();
        }
        for _ in 0..turns {
            if self.taken >= self.batch.count() {
                let now = self.clock.now_for(device);
                let mut device = lock(device);
                device.on_time(now);
                let sends = device.transmit(now, &mut self.batch);
                worked |= device.take_news();
                if !sends {
                    return worked;
                }
                drop(device);
                self.sent += 1;
                self.taken = 0;
                self.seal(0);
            }
            while self.taken < self.batch.count() {
                match self.pass_on() {
                    Some(0) => {
                        self.waiting = true;
                        return worked;
                    }
                    Some(taken) => {
                        self.taken += taken;
                        if self.taken < self.batch.count() {
                            // The next call of `Port::send` numbers the remaining packets from IPv4 identification 0
                            // on, so their ICRCs change.
                            self.seal(self.taken);
                        }
                    }
                    None => {
                        self.unsendable += 1;
                        self.taken = self.batch.count();
                    }
                }
                worked = true;
            }
        }
        worked
    }

    /// Protects the packets of the batch, or writes the ICRCs of its packets from index `first` on. The ICRC covers the
    /// IPv4 identification, which counts from 0 at packet `first`.
    fn seal(&mut self, first: usize) {
        let Some(to) = self.batch.destination() else { return };
        if to.protected {
            if first == 0 && self.receiver.sessions.seal(to.qpn, self.batch.datagrams_mut()).is_err() {
                self.unsendable += 1;
                self.taken = self.batch.count();
            }
            return;
        }
        let local = self.port.local_addr();
        let source = SocketAddr::new(local.ip(), self.port.source_port(to.flow));
        let Some(seed) = seed(source, to.peer) else { return };
        let counts = self.receiver.identification != Identification::Excluded;
        for (id, packet) in self.batch.datagrams_mut().skip(first).enumerate() {
            let end = packet.len().saturating_sub(ICRC_LEN);
            if self.within_host && self.port.stays_within_host(to.peer, packet) {
                packet[end..].fill(0);
                continue;
            }
            let icrc = seed.icrc(if counts { id as u16 } else { 0 }, &packet[..end]);
            packet[end..].copy_from_slice(&icrc.to_le_bytes());
        }
    }

    /// Hands the unsent packets of the batch to the port. Returns how many packets the port took, or `None` if it
    /// cannot send them.
    fn pass_on(&mut self) -> Option<usize> {
        let to = self.batch.destination()?;
        let segment = self.batch.segment();
        let limits = self.port.limits();
        let start = self.taken * segment;
        let max = limits.segments.min(limits.bytes / segment.max(1)).max(1);
        let end = self.batch.bytes().len().min(start + max * segment);
        let ecn = if to.ecn { Ecn::Capable0 } else { Ecn::NotCapable };
        let datagrams = Datagrams {
            destination: to.peer,
            source_port: self.port.source_port(to.flow),
            source_address: None,
            traffic_class: TrafficClass::new(to.dscp, ecn),
            segment,
            data: &[IoSlice::new(&self.batch.bytes()[start..end])],
        };
        self.port.send(&datagrams).ok()
    }
}

/// Checks received packets, and passes them to the device.
struct Receiver {
    identification: Identification,
    /// The keys of the device's protected connections.
    sessions: Arc<Sessions>,
    /// Buffer for a decrypted packet.
    plain: Vec<u8>,
    /// The counters of received packets.
    counters: DriverCounters,
}

impl Receiver {
    /// Handles the packets of an arrival. Returns whether all of them are ACKs. The counters of the device show packets
    /// that it drops.
    fn handle(&mut self, now: Time, device: &mut Device, seed: &IcrcSeed, arrival: &Arrival<'_>) -> bool {
        let Meta { source, destination, traffic_class, identification, is_within_host, .. } = arrival.meta;
        let network = NetworkHeader { source, destination, traffic_class: traffic_class.byte() };
        let marked = traffic_class.ecn() == Ecn::Congestion;
        let mut openers = None;
        let mut only_acks = true;
        let first = identification.unwrap_or(0);
        let mut expected = first;
        let (overtaken_ack, packets) = rnic_verbs::split_overtaken_ack(arrival.segments());
        let ack = overtaken_ack.map(|(index, packet)| (packet, Some(first.wrapping_add(index as u16))));
        for (packet, ack_identification) in ack.into_iter().chain(packets.map(|packet| (packet, None))) {
            if ProtectedHeader::begins(packet) {
                let openers = openers.get_or_insert_with(|| self.sessions.openers());
                match openers.open(packet, &mut self.plain) {
                    Ok(packets) => {
                        for packet in packets {
                            only_acks &= rnic_verbs::acknowledges(packet);
                            let _ = device.receive_protected(now, source, marked, packet);
                        }
                    }
                    Err(OpenError::Replayed) => self.counters.replayed += 1,
                    Err(OpenError::Forged | OpenError::NotProtected) => self.counters.forged += 1,
                }
                continue;
            }
            only_acks &= rnic_verbs::acknowledges(packet);
            if is_within_host {
                let _ = device.receive_from(now, network, packet);
                continue;
            }
            let presumed = ack_identification.unwrap_or(expected);
            match matching_identification(seed, &arrival.meta, self.identification, presumed, packet) {
                Some(found) => {
                    if ack_identification.is_none() {
                        expected = found.wrapping_add(1);
                    }
                    let _ = device.receive_from(now, network, packet);
                }
                None => self.counters.bad_icrc += 1,
            }
        }
        only_acks
    }
}

/// Returns the start of an ICRC computation for packets from `source` to `destination`: the state after the IP and UDP
/// headers. `None` if one address is IPv4 and the other IPv6.
fn seed(source: SocketAddr, destination: SocketAddr) -> Option<IcrcSeed> {
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Some(IcrcSeed::ipv4(from, to, source.port(), destination.port())),
        (IpAddr::V6(from), IpAddr::V6(to)) => Some(IcrcSeed::ipv6(from, to, source.port(), destination.port())),
        _ => None,
    }
}

/// Returns the IPv4 identification for which the ICRC of `packet` is correct. It tries `expected` first. `None` if the
/// ICRC is wrong, or `which` does not admit the identification.
fn matching_identification(
    seed: &IcrcSeed, meta: &Meta, which: Identification, expected: u16, packet: &[u8],
) -> Option<u16> {
    if which == Identification::Excluded {
        return seed.check(0, packet).then_some(0);
    }
    let found = seed.solve_id_from(expected, packet)?;
    let admitted = match which {
        _ if found == expected => true,
        _ if meta.identification.is_some() => false,
        Identification::Any => true,
        Identification::Small | Identification::Excluded => found < 64,
    };
    admitted.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet with 32 bytes whose ICRC is correct for IPv4 identification `id`.
    fn packet(seed: &IcrcSeed, id: u16) -> Vec<u8> {
        let mut packet: Vec<u8> = (0..32).collect();
        let icrc = seed.icrc(id, &packet[..28]);
        packet[28..].copy_from_slice(&icrc.to_le_bytes());
        packet
    }

    fn meta(identification: Option<u16>) -> Meta {
        let destination = [10, 0, 0, 2].into();
        Meta {
            source: "10.0.0.1:4791".parse().unwrap(),
            destination,
            traffic_class: TrafficClass::default(),
            identification,
            is_within_host: false,
            arrived_ns: None,
        }
    }

    #[test]
    fn each_rule_admits_its_identifications() {
        let seed = seed("10.0.0.1:4791".parse().unwrap(), "10.0.0.2:4791".parse().unwrap()).unwrap();
        let (any, small, excluded) = (Identification::Any, Identification::Small, Identification::Excluded);
        let unseen = meta(None);
        for (which, id, expected, found) in [
            (any, 0, 0, Some(0)),
            (any, 60_000, 3, Some(60_000)),
            (small, 63, 0, Some(63)),
            (small, 64, 0, None),
            (excluded, 0, 7, Some(0)),
            (excluded, 1, 1, None),
        ] {
            assert_eq!(
                matching_identification(&seed, &unseen, which, expected, &packet(&seed, id)),
                found,
                "{which:?} {id}"
            );
        }
        // A port that sees the identification leaves nothing to guess.
        assert_eq!(matching_identification(&seed, &meta(Some(5)), any, 5, &packet(&seed, 5)), Some(5));
        assert_eq!(matching_identification(&seed, &meta(Some(5)), any, 5, &packet(&seed, 6)), None);
        let seed = super::seed("[fd00::1]:4791".parse().unwrap(), "[fd00::2]:4791".parse().unwrap()).unwrap();
        assert_eq!(
            matching_identification(&seed, &unseen, small, 1_000, &packet(&seed, 0)),
            Some(1_000),
            "IPv6 has none"
        );
    }

    /// Of 2^18 packets with random ICRCs, about 4 are correct for some identification, and none for identification 0.
    #[test]
    fn without_the_identification_the_check_has_32_bits() {
        let seed = seed("10.0.0.1:4791".parse().unwrap(), "10.0.0.2:4791".parse().unwrap()).unwrap();
        let mut packet = packet(&seed, 0);
        let mut passed = [0; 2];
        for number in 1..=1_u32 << 18 {
            let icrc = number.wrapping_mul(0x9e37_79b1);
            packet[28..].copy_from_slice(&icrc.to_le_bytes());
            for (passed, which) in passed.iter_mut().zip([Identification::Any, Identification::Excluded]) {
                *passed += u32::from(matching_identification(&seed, &meta(None), which, 0, &packet).is_some());
            }
        }
        assert!((1..=12).contains(&passed[0]) && passed[1] == 0, "{passed:?}");
    }
}
