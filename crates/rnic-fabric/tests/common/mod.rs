//! Helpers for the fabric's tests: specifications of fabrics, and hosts that follow a script.

#![allow(dead_code)] // each test file uses only some of the helpers

use rnic_fabric::config::{
    BufferSpec, ClockSpec, EcnSpec, FabricSpec, InputSpec, LinkSpec, MarkOn, NamedLink, Paths, PfcThresholds,
    SwitchSpec, TopologySpec,
};
use rnic_fabric::{
    Body, Fabric, HostId, HostPartition, Packet, PartitionPlan, PartitionedHosts, PortId, SlotId, Topology,
};
use rnic_transport::congestion::Marking;
use rnic_transport::{BitRate, Bytes, Time};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Frame length in bytes of a full RoCEv2 data packet: 1,024 bytes of payload and 62 bytes of headers.
pub(crate) const FRAME: u16 = 1_086;
/// Serialisation time of a full frame and its gap of 20 bytes on a 40 Gbps link, in ps: 1,106 bytes at 200 ps.
pub(crate) const T: u64 = 221_200;
/// Serialisation time of a pause frame and its gap on a 40 Gbps link, in ps: 64 + 20 bytes at 200 ps.
pub(crate) const PAUSE: u64 = 16_800;
/// One microsecond in picoseconds.
pub(crate) const US: u64 = 1_000_000;

/// A fabric with 40 Gbps links of 2 us, and lossy switches with 240 KB per input port and one priority.
pub(crate) fn spec(topology: TopologySpec) -> FabricSpec {
    FabricSpec {
        topology,
        link: LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 },
        links: Vec::new(),
        routes: Vec::new(),
        switch: SwitchSpec::input_queued(Bytes(240_000)),
        paths: Paths::Ecmp,
        flowlet_gap: Paths::FLOWLET_GAP,
        frame_gap: 20,
        clocks: ClockSpec::default(),
    }
}

/// A fabric that is a graph; each link is (from, to).
pub(crate) fn graph(hosts: &[&str], switches: &[&str], links: &[(&str, &str)]) -> FabricSpec {
    let owned = |names: &[&str]| names.iter().map(|n| (*n).to_string()).collect();
    let mut spec = spec(TopologySpec::Graph { hosts: owned(hosts), switches: owned(switches) });
    spec.links = links.iter().map(|(from, to)| link(from, to)).collect();
    spec
}

/// A new link of a graph, with the fabric's default properties.
pub(crate) fn link(from: &str, to: &str) -> NamedLink {
    NamedLink { from: from.to_string(), to: to.to_string(), rate: None, delay: None, loss: None }
}

/// The link with another rate.
pub(crate) fn with_rate(mut link: NamedLink, rate: BitRate) -> NamedLink {
    link.rate = Some(rate);
    link
}

/// The fabric with PFC at input-queued switches; all thresholds are in bytes.
pub(crate) fn with_pfc(mut spec: FabricSpec, buffer: u64, xoff: u64, xon: u64) -> FabricSpec {
    let pfc = PfcThresholds { xoff: Bytes(xoff), xon: Bytes(xon), headroom: Bytes(buffer - xoff) };
    spec.switch.buffer = BufferSpec::Input(InputSpec { pfc: Some(pfc), ..InputSpec::lossy(Bytes(buffer)) });
    spec
}

/// A lossy buffer of this size for each input port and priority.
pub(crate) fn input_buffer(buffer: u64) -> BufferSpec {
    BufferSpec::Input(InputSpec::lossy(Bytes(buffer)))
}

/// ECN that marks a packet if the queue that decides about the mark is longer than `threshold` bytes.
pub(crate) fn mark_above(threshold: u64, mark_on: MarkOn) -> Option<EcnSpec> {
    let marking = Marking { kmin: Bytes(threshold), kmax: Bytes(threshold), pmax: 1.0 };
    Some(EcnSpec { marking, mark_on })
}

/// The port of `node` towards `peer`, both by name; the first port if several lead there.
pub(crate) fn port(topology: &Topology, node: &str, peer: &str) -> PortId {
    topology
        .port_ids()
        .find(|p| {
            topology.names[topology.port(*p).node as usize] == node
                && topology.names[topology.peer_node(*p) as usize] == peer
        })
        .unwrap()
}

/// A packet of `bytes` to `dst`; its body is a number of the test's choice.
pub(crate) fn packet(dst: u32, bytes: u16, id: u32) -> Packet<u32> {
    Packet { dst: HostId(dst), bytes, body: id, ..Packet::default() }
}

/// A packet that a host began to send, or that arrived at a host, at the time `at` in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) host: u32,
    pub(crate) at: u64,
    pub(crate) id: u32,
}

/// A body with a number of the test's choice.
pub(crate) trait Numbered: Body {
    fn number(&self) -> u32;
}
impl Numbered for u32 {
    fn number(&self) -> u32 {
        *self
    }
}

#[derive(Default)]
struct ScriptedHost<B> {
    /// Packets to hand to the NIC later, each with its time, in order of time.
    later: VecDeque<(u64, Packet<B>)>,
    /// Packets in the NIC's send queue; the NIC sends the first packet whose priority is not paused.
    now: VecDeque<Packet<B>>,
}

/// The hosts of a partition, with their departures and arrivals since the window began.
#[derive(Default)]
pub(crate) struct ScriptPartition<B> {
    /// Per host of the partition: its host id, and its script.
    hosts: Vec<(u32, ScriptedHost<B>)>,
    sent: Vec<Seen>,
    arrived: Vec<(Seen, Packet<B>)>,
}

/// Hosts that send given packets at given times and record the arrivals.
#[derive(Default)]
pub(crate) struct Script<B = u32> {
    partitions: Vec<ScriptPartition<B>>,
    /// Per host: its partition, and its index in the partition.
    places: Vec<(usize, usize)>,
    pub(crate) sent: Vec<Seen>,
    pub(crate) arrived: Vec<Seen>,
    /// All packets that arrived, in their state at the arrival.
    pub(crate) packets: Vec<Packet<B>>,
    /// Numbers of the packets that arrived with a CE mark, in order of arrival.
    pub(crate) marked: Vec<u32>,
    /// The run stops at the end of the first window that ends at this time or later.
    pub(crate) stop_at: u64,
}

impl<B: Numbered> Script<B> {
    /// A script for a fabric whose hosts are all in one partition.
    pub(crate) fn new(hosts: u32) -> Script<B> {
        Script::with_partitions(&[(0..hosts).collect()])
    }
    /// A script for a fabric that is divided by `plan`.
    pub(crate) fn partitioned(plan: &PartitionPlan) -> Script<B> {
        let hosts = |partition| plan.hosts_of(partition).iter().map(|host| host.0).collect();
        Script::with_partitions(&(0..plan.partitions()).map(hosts).collect::<Vec<_>>())
    }
    fn with_partitions(partitions: &[Vec<u32>]) -> Script<B> {
        let mut places = vec![(0, 0); partitions.iter().map(Vec::len).sum()];
        for (partition, hosts) in partitions.iter().enumerate() {
            for (index, host) in hosts.iter().enumerate() {
                places[*host as usize] = (partition, index);
            }
        }
        let host = |host: &u32| (*host, ScriptedHost::default());
        let partition = |hosts: &Vec<u32>| ScriptPartition {
            hosts: hosts.iter().map(host).collect(),
            ..ScriptPartition::default()
        };
        Script {
            partitions: partitions.iter().map(partition).collect(),
            places,
            stop_at: u64::MAX,
            ..Script::default()
        }
    }
    fn hosts(&self) -> impl Iterator<Item = &(u32, ScriptedHost<B>)> {
        self.partitions.iter().flat_map(|partition| &partition.hosts)
    }
    /// Hands `packet` to a host's NIC at time `at`. Calls for one host must be in order of time.
    pub(crate) fn send(&mut self, host: u32, at: u64, packet: Packet<B>) {
        let (partition, index) = self.places[host as usize];
        self.partitions[partition].hosts[index].1.later.push_back((at, packet));
    }
    pub(crate) fn arrivals(&self, host: u32) -> Vec<(u64, u32)> {
        of(&self.arrived, host)
    }
    pub(crate) fn departures(&self, host: u32) -> Vec<(u64, u32)> {
        of(&self.sent, host)
    }
    /// Number of packets that the hosts have not yet sent.
    pub(crate) fn waiting(&self) -> usize {
        self.hosts().map(|(_, host)| host.now.len() + host.later.len()).sum()
    }
}

impl Script {
    /// Hands `count` full packets, numbered from 0, to a host's NIC, all at time `at`.
    pub(crate) fn send_burst(&mut self, host: u32, at: u64, dst: u32, count: u32) {
        for id in 0..count {
            self.send(host, at, packet(dst, FRAME, id));
        }
    }
}

fn of(seen: &[Seen], host: u32) -> Vec<(u64, u32)> {
    seen.iter().filter(|s| s.host == host).map(|s| (s.at, s.id)).collect()
}

impl<B: Numbered> HostPartition for ScriptPartition<B> {
    type Body = B;

    fn receive(&mut self, host: SlotId, now: Time, packet: &Packet<B>) {
        let host = self.hosts[host.index()].0;
        assert_eq!(packet.dst, HostId(host), "a packet arrives where it is addressed to");
        self.arrived.push((Seen { host, at: now.as_ps(), id: packet.body.number() }, *packet));
    }
    fn next_wake(&self, host: SlotId) -> Time {
        let first = self.hosts[host.index()].1.later.front();
        first.map_or(Time::MAX, |(at, _)| Time::from_ps(*at))
    }
    fn wake(&mut self, host: SlotId, now: Time) {
        let host = &mut self.hosts[host.index()].1;
        while let Some((_, packet)) = host.later.pop_front_if(|(at, _)| *at <= now.as_ps()) {
            host.now.push_back(packet);
        }
    }
    fn wants_to_transmit(&self, host: SlotId) -> bool {
        !self.hosts[host.index()].1.now.is_empty()
    }
    fn transmit(&mut self, host: SlotId, now: Time, paused: u8) -> Option<Packet<B>> {
        let (host, script) = &mut self.hosts[host.index()];
        let first = script.now.iter().position(|p| paused & (1 << p.priority) == 0)?;
        let packet = script.now.remove(first)?;
        self.sent.push(Seen { host: *host, at: now.as_ps(), id: packet.body.number() });
        Some(packet)
    }
}

impl<B: Numbered> PartitionedHosts for Script<B> {
    type Partition = ScriptPartition<B>;

    fn partitions(&mut self) -> &mut Vec<ScriptPartition<B>> {
        &mut self.partitions
    }
    fn next_start(&self) -> Time {
        let next = |(_, host): &(u32, ScriptedHost<B>)| host.later.front().map_or(u64::MAX, |(at, _)| *at);
        Time::from_ps(self.hosts().map(next).min().unwrap_or(u64::MAX))
    }
    fn open_window(&mut self, end: Time, wake: &mut dyn FnMut(HostId, Time)) {
        for (host, script) in self.hosts() {
            if let Some((at, _)) = script.later.front()
                && *at < end.as_ps()
            {
                wake(HostId(*host), Time::from_ps(*at));
            }
        }
    }
    fn close_window(&mut self, end: Time, _hops: u64) -> ControlFlow<()> {
        for partition in &mut self.partitions {
            self.sent.append(&mut partition.sent);
            for (seen, packet) in partition.arrived.drain(..) {
                self.marked.extend(packet.is_marked().then_some(seen.id));
                self.arrived.push(seen);
                self.packets.push(packet);
            }
        }
        if end.as_ps() >= self.stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Asserts that every packet that entered a switch has left the switch or was dropped, and that the counters agree with
/// the packets that hosts have sent and received.
pub(crate) fn assert_conserved<B: Numbered>(fabric: &Fabric<B>, script: &Script<B>) {
    let topology = fabric.topology();
    let sum = |port: PortId, of: fn(&rnic_fabric::PriorityCounters) -> u64| -> u64 {
        fabric.counters(port).iter().map(of).sum()
    };
    for node in topology.hosts..topology.nodes() {
        let (mut received, mut dropped, mut sent) = (0, 0, 0);
        for port in topology.ports_of(node) {
            let peer = topology.port(port).peer;
            received += sum(peer, |c| c.tx_packets) - sum(peer, |c| c.lost);
            dropped += sum(port, |c| c.drops);
            sent += sum(port, |c| c.tx_packets);
        }
        assert_eq!(received, dropped + sent, "{}", topology.names[node as usize]);
    }
    for host in 0..topology.hosts {
        let own = topology.host_port(HostId(host));
        let peer = topology.port(own).peer;
        assert_eq!(sum(own, |c| c.tx_packets), script.departures(host).len() as u64);
        let received = sum(peer, |c| c.tx_packets) - sum(peer, |c| c.lost);
        assert_eq!(received, script.arrivals(host).len() as u64);
        assert_eq!(sum(own, |c| c.drops), 0, "a host drops nothing");
    }
    let all: u64 = topology.port_ids().map(|p| sum(p, |c| c.tx_packets)).sum();
    assert_eq!(all, fabric.hops());
}

/// Runs the script to its end, or on to the end of the window that contains `until`; returns the time reached.
pub(crate) fn run_until(fabric: &mut Fabric<u32>, script: &mut Script, until: u64) -> u64 {
    script.stop_at = until;
    fabric.run(script);
    fabric.now().as_ps()
}
