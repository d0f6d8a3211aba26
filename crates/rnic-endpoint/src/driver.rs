//! Moves packets between a port and the queue pairs of a device.
//!
//! Each round processes received packets, fires timers and sends packets. The driver locks the device for one batch at
//! a time and never during a system call, so that applications can post and poll in between.

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

/// Counters of the driver; the port and the device have their own.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DriverCounters {
    /// Packets dropped for a wrong ICRC.
    pub bad_icrc: u64,
    /// Batches dropped because the system refused to send them; loss recovery retransmits their packets.
    pub unsendable: u64,
}

/// Sends and receives for a device. The thread that holds it makes progress.
pub(crate) struct Driver {
    port: Box<dyn Port>,
    clock: Clock,
    batch: Batch,
    /// Packets of `batch` that were sent; the rest waits for room in the send buffer.
    taken: usize,
    waiting: bool,
    idle: Idle,
    identification: Identification,
    /// Each round sends before it receives.
    send_first: bool,
    counters: DriverCounters,
}

impl Driver {
    /// Arrivals, and bytes of them, that a round processes before it sends: ACKs must not wait until no more packets
    /// arrive.
    const ARRIVALS: usize = 32;
    const ARRIVED_BYTES: usize = 256 << 10;
    /// Batches that a round sends before it receives again.
    const BATCHES: usize = 4;
    /// Packets that arrive together in a ping-pong: a message and an ACK.
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

    /// Receives, fires timers and sends; returns whether there was any work.
    pub(crate) fn progress(&mut self, device: &Mutex<Device>) -> io::Result<bool> {
        let mut worked = self.send_first && self.send(device);
        worked |= self.receive(device)?;
        worked |= !self.send_first && self.send(device);
        if worked {
            self.idle.worked(self.clock.now());
        }
        Ok(worked)
    }

    /// Sends the packets that wait, before the device closes.
    pub(crate) fn flush(&mut self, device: &Mutex<Device>) {
        self.send(device);
    }

    /// After a call of [`Driver::progress`] without work: spins, or sleeps until a packet arrives, a timer is due, work
    /// is posted, or it is `end`.
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
            // The application sees a lone message before the driver receives more: it may wait for that message. ACKs
            // are processed together, so that the packets they make room for leave in one batch.
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
                        // The device counts the packets that it drops.
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
            // The rest of the last batch goes first, but timers fire meanwhile.
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
                            // The remaining packets get identifications from 0 on.
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

    /// Hands packets to the port; returns how many it took, or `None` if it cannot send them.
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
            source_port: self.port.source_port(to.qpn.0),
            source_address: None,
            traffic_class: TrafficClass::new(to.dscp, ecn),
            segment,
            data: &[IoSlice::new(&self.batch.bytes()[start..end])],
        };
        self.port.send(&datagrams).ok()
    }
}

/// The ICRC over the pseudo header of packets from `source` to `destination`; `None` if one address is IPv4 and the
/// other IPv6.
fn seed(source: SocketAddr, destination: SocketAddr) -> Option<IcrcSeed> {
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Some(IcrcSeed::ipv4(from, to, source.port(), destination.port())),
        (IpAddr::V6(from), IpAddr::V6(to)) => Some(IcrcSeed::ipv6(from, to, source.port(), destination.port())),
        _ => None,
    }
}

/// The IPv4 identification with which the ICRC of `packet` is right; `None` if the ICRC is wrong.
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

/// Locks a mutex also after a panic of another thread that held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
