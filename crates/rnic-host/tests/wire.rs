//! Two devices in virtual time, and the network of the torture test between them.

use rnic_torture::network::{Faults, Flight, Network, is_intact, seal};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Access, Batch, Device, DeviceConfig, MrInfo, Pd, Verbs};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// Payload bytes of a full packet.
pub(crate) const MTU: u32 = 1_024;

/// Decides the fate of a packet, given its sender (0 or 1) and its destination queue pair number. Returns `false` if
/// the packet is lost.
pub(crate) type Filter = Box<dyn FnMut(usize, u32) -> bool>;

/// Packets that were not delivered.
pub(crate) type Kept = Arc<Mutex<Vec<Vec<u8>>>>;

pub(crate) struct Wire {
    pub(crate) nics: [Device; 2],
    pub(crate) pds: [Pd; 2],
    pub(crate) now: Time,
    pub(crate) network: Network,
    pub(crate) filter: Filter,
    /// Packets of device 0 to this queue pair are not delivered, but kept.
    pub(crate) keep: Option<(u32, Kept)>,
    batches: [Batch; 2],
    /// When the link of each device is free for the next frame.
    free: [Time; 2],
    still: u32,
}

impl Wire {
    pub(crate) fn new(faults: Faults, seed: u64, line_rate: BitRate) -> Wire {
        let mut nics =
            [1, 2].map(|side| Device::new(DeviceConfig { seed: seed ^ side, line_rate, ..DeviceConfig::default() }));
        let pds = nics.each_mut().map(|nic| nic.create_pd());
        Wire {
            nics,
            pds,
            now: Time::ZERO,
            network: Network::new(faults, seed),
            filter: Box::new(|_, _| true),
            keep: None,
            batches: [(); 2].map(|()| Batch::new(1)),
            free: [Time::ZERO; 2],
            still: 0,
        }
    }

    pub(crate) fn perfect() -> Wire {
        Wire::new(Faults::NONE, 1, BitRate::from_gbps(100))
    }

    pub(crate) fn addr(side: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, side as u8 + 1], 4791))
    }

    pub(crate) fn nic(&mut self, side: usize) -> &mut dyn Verbs {
        &mut self.nics[side]
    }

    pub(crate) fn register(&mut self, side: usize, bytes: Vec<u8>) -> MrInfo {
        self.nics[side].register(self.pds[side], bytes, None, Access::ALL).unwrap()
    }

    /// Advances to the next event, but not beyond `limit`. Returns `false` if nothing happens before `limit`.
    pub(crate) fn advance(&mut self, limit: Option<Time>) -> bool {
        self.drain();
        let of_nic = |side: usize| {
            let at = self.nics[side].next_time(&self.batches[side])?;
            Some(if at <= self.now { self.free[side] } else { at })
        };
        let next = (0..2).filter_map(of_nic).chain(self.network.next()).min();
        let Some(at) = next.into_iter().chain(limit).min() else { return false };
        self.still = if at > self.now { 0 } else { self.still + 1 };
        assert!(self.still < 100_000, "time stands still at {}", self.now);
        self.now = self.now.max(at);
        while self.network.next().is_some_and(|at| at <= self.now) {
            let Some(flight) = self.network.deliver() else { break };
            let (from, to) = (Wire::addr(flight.from), Wire::addr(flight.to));
            if is_intact(from, to, &flight.bytes) {
                // The device counts the reasons for refusing a packet.
                let _ = self.nics[flight.to].receive(self.now, from, flight.marked, &flight.bytes);
            }
        }
        for nic in &mut self.nics {
            nic.on_time(self.now);
        }
        self.drain();
        true
    }

    /// Lets the devices send while their links are free. A frame takes the time of its bytes without preamble and gap,
    /// which is how the devices count for their rate limits.
    fn drain(&mut self) {
        for side in 0..2 {
            while self.free[side] <= self.now && self.nics[side].transmit(self.now, &mut self.batches[side]) {
                let line_rate = self.nics[side].config().line_rate;
                for packet in self.batches[side].datagrams_mut() {
                    self.free[side] = self.now + line_rate.time_for(packet.len() as u64 + 46);
                    let qpn = u32::from_be_bytes([0, packet[5], packet[6], packet[7]]);
                    if !(self.filter)(side, qpn) {
                        continue;
                    }
                    seal(Wire::addr(side), Wire::addr(1 - side), packet);
                    if let Some((_, kept)) = self.keep.as_ref().filter(|(kept, _)| *kept == qpn && side == 0) {
                        kept.lock().unwrap().push(packet.to_vec());
                        continue;
                    }
                    let flight = Flight { from: side, to: 1 - side, marked: false, bytes: packet.to_vec() };
                    self.network.send(self.free[side], flight);
                }
            }
        }
    }
}
