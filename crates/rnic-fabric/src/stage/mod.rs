//! Work of a host's NIC beside the transport: a receive pipeline that fetches entries of the memory translation table,
//! and probes of the network.
//!
//! Most hosts have no stage, and their packets skip this code.

mod probes;
mod receiver;

pub use probes::{ProbeResult, ProbeSpec};
pub use receiver::ReceiverSpec;

use crate::hosts::HostPartition;
use crate::ids::SlotId;
use crate::packet::{Body, Packet};
use crate::port::Ports;
use probes::Prober;
use receiver::Receiver;
use rnic_transport::Time;

/// The stage of one host.
pub(crate) struct Stage<B> {
    receiver: Option<Receiver<B>>,
    prober: Option<Prober<B>>,
}

impl<B: Body> Stage<B> {
    pub(crate) fn new() -> Stage<B> {
        Stage { receiver: None, prober: None }
    }

    pub(crate) fn set_receiver(&mut self, spec: ReceiverSpec) {
        self.receiver = Some(Receiver::new(spec));
    }

    /// Makes the host send the probes `own`, and respond to the probes of others; `all` are the probes of all hosts.
    pub(crate) fn set_probes(&mut self, all: &std::sync::Arc<[ProbeSpec]>, own: &[u32]) {
        self.prober = Some(Prober::new(all.clone(), own));
    }

    /// Time of the stage's next event, transmissions not included.
    pub(crate) fn next(&self) -> u64 {
        let receiver = self.receiver.as_ref().map_or(u64::MAX, Receiver::next);
        receiver.min(self.prober.as_ref().map_or(u64::MAX, Prober::next))
    }

    /// Number of packets that wait in the receive buffer or to be sent as probes. Probes that wait to be sent do not
    /// count as sent.
    pub(crate) fn packets(&self) -> usize {
        self.receiver.as_ref().map_or(0, Receiver::packets)
    }

    /// Packets of probes that the host has sent and received.
    pub(crate) fn probe_packets(&self) -> (u64, u64) {
        self.prober.as_ref().map_or((0, 0), |prober| (prober.sent, prober.received))
    }

    /// The results of the host's probes, up to `end`.
    pub(crate) fn results(&self, end: Time, results: &mut Vec<ProbeResult>) {
        if let Some(prober) = &self.prober {
            prober.results(end, results);
        }
    }

    /// Simulates every event of the host before `end`, like `Partition::run_host`; returns the time of the next event.
    pub(crate) fn run(
        &mut self, hosts: &mut dyn HostPartition<Body = B>, links: &mut Ports<B>, armed: &mut bool, host: usize,
        end: u64,
    ) -> u64 {
        let (number, slot) = (host, SlotId::new(host));
        loop {
            let arrival = links.inbound[number].first_at();
            let timer = hosts.next_wake(slot).as_ps();
            let wants =
                *armed || self.prober.as_ref().is_some_and(|prober| prober.can_send(links.ports[number].paused));
            let free = if wants { links.ports[number].busy_until } else { u64::MAX };
            let own = self.next();
            let now = arrival.min(timer).min(free).min(own);
            if now >= end {
                return now;
            }
            let time = Time::from_ps(now);
            if arrival == now {
                let packet = links.inbound[number].pop();
                if packet.is_pause() {
                    links.apply_pause(number, now, packet.paused_priorities());
                } else {
                    self.arrived(hosts, links, host, now, packet);
                }
            } else if own == now {
                self.event(hosts, links, host, now);
            } else if timer == now {
                hosts.wake(slot, time);
            }
            *armed = hosts.wants_to_transmit(slot);
            if links.ports[number].busy_until > now {
                continue;
            }
            let paused = links.ports[number].paused;
            if let Some(packet) = self.prober.as_mut().and_then(|prober| prober.transmit(paused)) {
                links.transmit(number, now, &packet);
            } else if *armed {
                match hosts.transmit(slot, time, paused) {
                    Some(packet) => links.transmit(number, now, &packet),
                    None => *armed = false,
                }
            }
        }
    }

    fn arrived(
        &mut self, hosts: &mut dyn HostPartition<Body = B>, links: &mut Ports<B>, host: usize, now: u64,
        packet: Packet<B>,
    ) {
        let Some(receiver) = &mut self.receiver else {
            return self.deliver(hosts, host, now, &packet);
        };
        let transmission = links.transmission(host, packet.bytes);
        if !receiver.accept(now, packet, transmission) {
            links.counters[host * links.priorities + packet.priority as usize].drops += 1;
            links.note_drop(host, now, &packet);
            return;
        }
        Stage::<B>::tell(receiver, links, host, now);
    }

    fn event(&mut self, hosts: &mut dyn HostPartition<Body = B>, links: &mut Ports<B>, host: usize, now: u64) {
        if let Some(prober) = &mut self.prober {
            prober.post(now);
        }
        if let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.next() == now) {
            let packet = receiver.finish(now);
            Stage::<B>::tell(receiver, links, host, now);
            self.deliver(hosts, host, now, &packet);
        }
    }

    /// Sends a pause frame if the receive buffer has crossed a threshold.
    fn tell(receiver: &mut Receiver<B>, links: &mut Ports<B>, host: usize, now: u64) {
        if let Some(mask) = receiver.new_mask() {
            links.pause_from_host(host, now, mask);
        }
    }

    fn deliver(&mut self, hosts: &mut dyn HostPartition<Body = B>, host: usize, now: u64, packet: &Packet<B>) {
        match &mut self.prober {
            Some(prober) if packet.flags & Packet::<B>::PROBE != 0 => prober.receive(now, packet),
            _ => hosts.receive(SlotId::new(host), Time::from_ps(now), packet),
        }
    }
}
