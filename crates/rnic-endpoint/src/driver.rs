//! Moves packets between a port and the queue pairs of a device.
//!
//! Each round takes what arrived, lets timers fire and sends what may be sent. The device is locked for one
//! batch at a time, never while the system is called, so that applications can post and poll in between.

use crate::clock::{Clock, TimeSource};
use crate::config::{Acknowledge, Config, Identification, Mode};
use crate::idle::{Idle, Plan};
use crate::port::{Batch as Datagrams, Ecn, Interest, Meta, Port, TrafficClass};
use rnic_transport::Time;
use rnic_verbs::{Batch, Device};
use rnic_wire::{ICRC_LEN, IcrcSeed};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard};

/// What the driver counts beside the port and the device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DriverCounters {
    /// Packets with a wrong ICRC, dropped.
    pub bad_icrc: u64,
    /// Batches that could not be sent because the system refused them, dropped; recovery sends the packets again.
    pub unsendable: u64,
}

/// Sends and receives for a device. Whoever holds it makes progress.
pub(crate) struct Driver {
    port: Box<dyn Port>,
    clock: Clock,
    batch: Batch,
    /// Packets of `batch` that are sent already; the rest waits for room.
    taken: usize,
    waiting: bool,
    idle: Idle,
    identification: Identification,
    /// What is sent is sent before what arrived is taken.
    send_first: bool,
    counters: DriverCounters,
}

impl Driver {
    /// Arrivals, and bytes of them, taken before anything is sent: so that acknowledgements follow while more arrives.
    const ARRIVALS: usize = 32;
    const ARRIVED_BYTES: usize = 256 << 10;
    /// Batches sent before arrivals are looked at again.
    const BATCHES: usize = 4;
    /// Packets that come at once where messages are exchanged one by one: a message and an acknowledgement.
    const LONE: usize = 2;

    pub(crate) fn new(port: Box<dyn Port>, clock: Clock, config: &Config) -> Driver {
        Driver {
            batch: Batch::overtaking(port.limits().segments.min(64)),
            port,
            clock,
            taken: 0,
            waiting: false,
            idle: Idle::new(config.idle),
            identification: config.identification,
            send_first: config.mode == Mode::Polled && config.acknowledge == Acknowledge::WithNextPoll,
            counters: DriverCounters::default(),
        }
    }

    pub(crate) fn port(&self) -> &dyn Port {
        &*self.port
    }

    pub(crate) fn counters(&self) -> DriverCounters {
        self.counters
    }

    /// Takes what arrived, lets timers fire, sends; whether there was anything to do.
    pub(crate) fn progress(&mut self, device: &Mutex<Device>) -> io::Result<bool> {
        let mut worked = self.send_first && self.send(device);
        worked |= self.receive(device)?;
        worked |= !self.send_first && self.send(device);
        if worked {
            self.idle.worked(self.clock.now());
        }
        Ok(worked)
    }

    /// Sends what is owed, before nobody can any more.
    pub(crate) fn flush(&mut self, device: &Mutex<Device>) {
        self.send(device);
    }

    /// After a call of [`Driver::progress`] that did nothing: spins, or sleeps until something arrives, is due or is posted, but not
    /// beyond `end`.
    pub(crate) fn rest(&mut self, device: &Mutex<Device>, end: Option<Time>) -> io::Result<()> {
        let next = if self.waiting { None } else { lock(device).next_time(&self.batch) };
        let interest = if self.waiting { Interest::ArrivalOrRoom } else { Interest::Arrival };
        let now = self.clock.now();
        match self.idle.plan(now, next) {
            Plan::Spin => std::hint::spin_loop(),
            Plan::Block(timeout) => {
                let left = end.map(|end| end.saturating_sub(now));
                self.port.wait(interest, [timeout, left].into_iter().flatten().min())?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, device: &Mutex<Device>) -> io::Result<bool> {
        let local = self.port.local_addr();
        let mut worked = false;
        let mut bytes = 0;
        for _ in 0..Driver::ARRIVALS {
            if bytes >= Driver::ARRIVED_BYTES {
                break;
            }
            let Some(arrival) = self.port.receive()? else { break };
            worked = true;
            bytes += arrival.data.len();
            // The application shall see a lone message before more is looked for: maybe it is what it waits for. Acknowledgements are
            // gathered, so that what they make room for leaves together.
            let few = arrival.data.len() <= arrival.segment * Driver::LONE;
            let lone = self.send_first && few && !arrival.segments().all(rnic_verbs::acknowledges);
            let meta = arrival.meta;
            let marked = meta.traffic_class.ecn() == Ecn::Congestion;
            let Some(seed) = seed(meta.source, SocketAddr::new(meta.destination, local.port())) else { continue };
            let now = self.clock.now();
            let mut device = lock(device);
            let mut expected = meta.identification.unwrap_or(0);
            for packet in arrival.segments() {
                match check(&seed, &meta, self.identification, expected, packet) {
                    Some(found) => {
                        expected = found.wrapping_add(1);
                        // Why a packet was not taken is counted by the device.
                        let _ = device.receive(now, meta.source, marked, packet);
                    }
                    None => self.counters.bad_icrc += 1,
                }
            }
            if lone {
                break;
            }
        }
        Ok(worked)
    }

    fn send(&mut self, device: &Mutex<Device>) -> bool {
        let mut worked = false;
        self.waiting = false;
        if self.taken < self.batch.count() {
            // What could not be sent the last time goes first, but does not hold up timers.
            lock(device).on_time(self.clock.now());
        }
        for _ in 0..Driver::BATCHES {
            if self.taken >= self.batch.count() {
                let now = self.clock.now();
                let mut device = lock(device);
                device.on_time(now);
                if !device.transmit(now, &mut self.batch) {
                    return worked;
                }
                drop(device);
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
                            // What remains goes with identifications from 0 on.
                            self.seal(self.taken);
                        }
                    }
                    None => {
                        self.counters.unsendable += 1;
                        self.taken = self.batch.count();
                    }
                }
                worked = true;
            }
        }
        worked
    }

    /// Writes the ICRCs of the packets from `first` on, with identifications from 0 on.
    fn seal(&mut self, first: usize) {
        let Some(to) = self.batch.destination() else { return };
        let local = self.port.local_addr();
        let source = SocketAddr::new(local.ip(), self.port.source_port(to.qpn.0));
        let Some(seed) = seed(source, to.peer) else { return };
        for (id, packet) in self.batch.packets_mut().skip(first).enumerate() {
            let end = packet.len().saturating_sub(ICRC_LEN);
            let icrc = seed.icrc(id as u16, &packet[..end]);
            packet[end..].copy_from_slice(&icrc.to_le_bytes());
        }
    }

    /// Hands packets to the port: how many it took, or `None` if it cannot send them.
    fn pass_on(&mut self) -> Option<usize> {
        let to = self.batch.destination()?;
        let segment = self.batch.segment();
        let limits = self.port.limits();
        let start = self.taken * segment;
        let most = limits.segments.min(limits.bytes / segment.max(1)).max(1);
        let end = self.batch.bytes().len().min(start + most * segment);
        let ecn = if to.ecn { Ecn::Capable0 } else { Ecn::NotCapable };
        let datagrams = Datagrams {
            destination: to.peer,
            source_port: self.port.source_port(to.qpn.0),
            source_address: None,
            traffic_class: TrafficClass::new(to.dscp, ecn),
            segment,
            data: &[IoSlice::new(&self.batch.bytes()[start..end])],
        };
        self.port.send(&datagrams).ok()
    }
}

/// What the ICRC of packets from `source` to `destination` begins with; `None` for addresses of two families.
fn seed(source: SocketAddr, destination: SocketAddr) -> Option<IcrcSeed> {
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Some(IcrcSeed::ipv4(from, to, source.port(), destination.port())),
        (IpAddr::V6(from), IpAddr::V6(to)) => Some(IcrcSeed::ipv6(from, to, source.port(), destination.port())),
        _ => None,
    }
}

/// Whether the ICRC of `packet` is right: then the identification it was sent with.
fn check(seed: &IcrcSeed, meta: &Meta, which: Identification, expected: u16, packet: &[u8]) -> Option<u16> {
    if seed.check(expected, packet) {
        return Some(expected);
    }
    if meta.identification.is_some() {
        return None;
    }
    let found = seed.solve_id(packet)?;
    (which == Identification::Any || found < 64).then_some(found)
}

/// A lock that another thread's panic does not take away.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
