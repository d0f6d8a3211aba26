//! Faults of a fabric, and what switches do against them: drop rules, hosts without a MAC table entry, and the actions
//! of a PFC watchdog. All of them are set between two windows of simulated time.

use super::Fabric;
use crate::ids::{HostId, PortId};
use crate::packet::Body;
use crate::partition_plan::Location;
use crate::routing::Routes;
use crate::stage::Stage;
use crate::stage::{ProbeResult, ProbeSpec, ReceiverSpec};
use crate::switch::{Guard, Mitigation, UnknownMac};
use rnic_transport::{BitRate, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkState {
    /// Whether the link carries frames. If not, every frame that a port transmits into it is lost; frames that are on
    /// the link already arrive.
    pub is_up: bool,
    /// Nominal rates of the two directions, from the port that names the link and back to it, each at most the link's
    /// rate in the topology.
    pub rates: [BitRate; 2],
    /// Whether the output queues of the two ports shrink in the same proportion as the rate: their buffers, if the
    /// switches have output buffers, and their mark thresholds.
    pub scales_queues: bool,
}

impl LinkState {
    /// The state of a link that is up with this rate in both directions, and whole queues.
    pub const fn up(rate: BitRate) -> LinkState {
        LinkState { is_up: true, rates: [rate; 2], scales_queues: false }
    }
}

impl<B: Body> Fabric<B> {
    /// Changes the link of `port`, in both directions. Both ends forget all pauses of each other, as after a restart of
    /// the link; an end that still wants its peer to pause sends a pause frame. Switches know nothing of the change
    /// until [`Fabric::set_routes`].
    ///
    /// # Panics
    /// If the rate is above the link's rate in the topology, on which the engine's windows rely.
    pub fn set_link(&mut self, port: PortId, state: LinkState) {
        let info = *self.topology.port(port);
        let most = state.rates[0].max(state.rates[1]);
        assert!(most <= info.link.rate, "a link of {} cannot have {most}", info.link.rate);
        let (clocks, seed) = self.clocks;
        let ends = [(port, info.node), (info.peer, self.topology.port(info.peer).node)];
        for ((port, node), rate) in ends.into_iter().zip(state.rates) {
            let Location { partition, slot } = self.plan.node(node);
            if self.plan.is_here(partition) {
                let nominal = rate.as_bps();
                let rate = BitRate::from_bps(clocks.rate(rate, seed, node));
                let (number, in_node) = (self.plan.port(port).slot.index(), self.topology.port_in_node(port) as usize);
                let change = (state.is_up, rate);
                let share = if state.scales_queues { nominal as f64 / info.link.rate.as_bps() as f64 } else { 1.0 };
                self.partitions[partition as usize].scale_queues(slot, in_node, share);
                self.partitions[partition as usize].restart_link(slot, (number, in_node), self.now, change);
            }
        }
    }

    /// Replaces the routes of all switches, from now on. They must be routes for the topology of the fabric, such as
    /// [`Routes::around`] returns.
    pub fn set_routes(&mut self, routes: Arc<Routes>) {
        self.routes = routes;
    }

    /// Prepares every switch for drop rules, missing MAC table entries and mitigations. Must be called before the run
    /// begins if the run uses any of them; without it packets skip the code for them.
    pub fn guard_switches(&mut self) {
        for node in self.topology.hosts..self.topology.nodes() {
            self.guard_of(node, |_| ());
        }
    }

    /// Makes the switch of `port` drop the last of every `every` data packets that arrive on this port. With 256 it
    /// drops the packets whose IP identification ends in 0xff, if the sender at the other end numbers its data packets
    /// in sequence.
    pub fn drop_every(&mut self, port: PortId, every: u64) {
        self.guard_at(port, |guard, number| guard.drop_every(number, every));
    }

    /// Sets what the switch of `host` does with packets for the host: `None` means that it forwards them.
    pub fn set_missing_mac(&mut self, host: HostId, what: Option<UnknownMac>) {
        let port = self.topology.port(self.topology.host_port(host)).peer;
        self.guard_at(port, |guard, _| guard.set_missing(host, what));
    }

    /// Begins the mitigation of a storm on a switch port: from now on the switch ignores the pauses of a priority that
    /// arrive on the port. With [`Mitigation::Drop`] it also drops the packets of the priority to and from the port.
    pub fn begin_mitigation(&mut self, port: PortId, priority: u8, mitigation: Mitigation) {
        let number = self.topology.port_in_node(port) as usize;
        let (now, Location { partition, slot }) = (self.now, self.plan.node(self.topology.port(port).node));
        let partition = &mut self.partitions[partition as usize];
        partition.mitigate(slot.index(), (number, priority as usize), mitigation, now);
    }

    /// Ends the mitigation of a storm: the switch obeys pauses again, and forwards packets.
    pub fn end_mitigation(&mut self, port: PortId, priority: u8) {
        let in_node = self.topology.port_in_node(port) as usize;
        let (now, node) = (self.now, self.plan.node(self.topology.port(port).node));
        let (partition, number) = self.at_mut(port);
        partition.end_mitigation(node.slot.index(), number, (in_node, priority as usize), now);
    }

    /// Whether the peer of a switch port pauses a priority, whether or not the switch obeys; and since when it does, or
    /// does not.
    pub fn peer_pauses(&mut self, port: PortId, priority: u8) -> (bool, Time) {
        let pause = self.guard_at(port, |guard, number| guard.peer_pause(number, priority as usize));
        let (pauses, since) = pause.unwrap_or_default();
        (pauses, Time::from_ps(since))
    }

    /// Packets of a priority to and from a switch port that its mitigations have dropped so far.
    pub fn discarded(&mut self, port: PortId, priority: u8) -> u64 {
        self.guard_at(port, |guard, number| guard.discarded(number, priority as usize)).unwrap_or_default()
    }

    /// Number of packets that flooding has added: copies made, minus packets copied.
    pub fn flooded_copies(&self) -> u64 {
        let own = || self.partitions.iter().map(|partition| partition.copies()).sum::<i64>();
        self.collected().map_or_else(own, |collected| collected.copies).unsigned_abs()
    }

    /// Gives the NIC of a host a receive pipeline that caches entries of its memory translation table. Must be called
    /// before the run begins.
    pub fn set_receiver(&mut self, host: HostId, spec: ReceiverSpec) {
        let Location { partition, slot } = self.plan.node(host.0);
        if self.plan.is_here(partition) {
            self.partitions[partition as usize].stage(slot, |stage| stage.set_receiver(spec));
        }
    }

    /// Makes hosts probe each other. Must be called at most once, before the run begins.
    pub fn set_probes(&mut self, probes: Vec<ProbeSpec>) {
        let mut own: BTreeMap<HostId, Vec<u32>> = BTreeMap::new();
        for (number, probe) in (0..).zip(&probes) {
            own.entry(probe.src).or_default().push(number);
            own.entry(probe.dst).or_default();
        }
        let all: Arc<[ProbeSpec]> = probes.into();
        for (host, own) in own {
            let Location { partition, slot } = self.plan.node(host.0);
            if self.plan.is_here(partition) {
                self.partitions[partition as usize].stage(slot, |stage| stage.set_probes(&all, &own));
            }
        }
    }

    /// Packets of probes that hosts have sent and received.
    pub fn probe_packets(&self) -> (u64, u64) {
        if let Some(collected) = self.collected() {
            return collected.probe_packets;
        }
        let packets = self.partitions.iter().flat_map(|partition| partition.stages()).map(Stage::probe_packets);
        packets.fold((0, 0), |(sent, received), of| (sent + of.0, received + of.1))
    }

    /// The results of all probes so far, in order of time.
    pub fn probe_results(&self) -> Vec<ProbeResult> {
        if let Some(collected) = self.collected() {
            return collected.probe_results.clone();
        }
        let mut results = Vec::new();
        for stage in self.partitions.iter().flat_map(|partition| partition.stages()) {
            stage.results(self.now(), &mut results);
        }
        sorted(results)
    }

    /// Calls `change` with the guard of a switch; `None` if another rank simulates the switch.
    fn guard_of<R>(&mut self, node: u32, change: impl FnOnce(&mut Guard) -> R) -> Option<R> {
        let Location { partition, slot } = self.plan.node(node);
        self.plan.is_here(partition).then(|| self.partitions[partition as usize].guard(slot.index(), change))
    }

    /// Calls `change` with the guard of a port's switch, and the number of the port within the switch.
    fn guard_at<R>(&mut self, port: PortId, change: impl FnOnce(&mut Guard, usize) -> R) -> Option<R> {
        let number = self.topology.port_in_node(port) as usize;
        self.guard_of(self.topology.port(port).node, |guard| change(guard, number))
    }
}

/// The results in order of time.
pub(super) fn sorted(mut results: Vec<ProbeResult>) -> Vec<ProbeResult> {
    results.sort_unstable();
    results
}
